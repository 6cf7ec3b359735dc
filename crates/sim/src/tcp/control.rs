//! The interface of congestion controls: what a control is told, and what it answers with.
//!
//! A control is told of ACKs, losses, marks and timeouts, and answers with cwnd and perhaps a
//! pacing rate. The sender does the rest. It decides which segments are lost and counts a loss
//! once per window (RFC 6582); it spreads a reduction over the recovery (RFC 9937), unless the
//! control does so itself; and it reports with each ACK whether cwnd limited the sender.
//!
//! Controls count cwnd in segments, with fractions; the sender gets bytes. Where the result of
//! a run depends on it, they use +, −, ×, ÷ and roots built from these, or functions evaluated
//! once per segment of cwnd. So runs repeat.

use super::delivery::{DeliverySample, LostSegment};
use engine::units::{Bandwidth, Duration, Instant};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A congestion control as lists, scenarios and messages know it: `CONTROL` of its file.
#[derive(Debug)]
pub struct ControlKind {
    /// The name in scenarios.
    pub name: &'static str,
    /// One sentence for lists.
    pub summary: &'static str,
    /// The paper or RFC.
    pub reference: &'static str,
    /// The hosts whose default it is.
    pub default_of: &'static [&'static str],
    /// Makes a control for a new connection.
    pub build: fn(&ConnectionStart) -> Box<dyn CongestionControl>,
}

impl PartialEq for ControlKind {
    /// Names are unique.
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for ControlKind {}

impl fmt::Display for ControlKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

/// What makes a control for each new connection.
pub type BuildControl = dyn Fn(&ConnectionStart) -> Box<dyn CongestionControl> + Send + Sync;

/// A congestion control that is on no list: a program's own.
#[derive(Clone)]
pub struct OwnControl {
    /// What reports call it.
    pub name: Arc<str>,
    /// Makes a control for a connection that is established.
    pub build: Arc<BuildControl>,
}

impl OwnControl {
    /// A control of this name; `build` is called for each connection once it is established.
    pub fn new(
        name: &str,
        build: impl Fn(&ConnectionStart) -> Box<dyn CongestionControl> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            build: Arc::new(build),
        }
    }
}

impl fmt::Debug for OwnControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnControl").field(&self.name).finish()
    }
}

impl PartialEq for OwnControl {
    /// Two are the same that came from one.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.build, &other.build)
    }
}

/// What a connection starts from.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionStart {
    /// The time.
    pub now: Instant,
    /// The data of a full segment, in bytes.
    pub mss: u64,
    /// The initial cwnd, in segments.
    pub initial_window: u32,
    /// Whether `HyStart++` ends slow start.
    pub hystart: bool,
    /// Of what an ACK acknowledges, in slow start as many segments count at most: of TCP two (RFC
    /// 3465's L), of QUIC all.
    pub counted_per_ack: u32,
    /// The round-trip time of the handshake, once known.
    pub rtt: Option<Duration>,
}

/// What an ACK reported.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// The time.
    pub now: Instant,
    /// Bytes newly known to have arrived, cumulatively or by SACK.
    pub delivered: u64,
    /// Of those, the bytes that count for growth: all (RFC 3465), or at most one segment.
    pub growth_bytes: u64,
    /// Segments newly known to have been marked, for controls that [want
    /// it](CongestionControl::wants_accurate_ecn).
    pub marked: u64,
    /// The estimate of bytes in the network before this ACK (RFC 6675's `pipe`).
    pub pipe_before: u64,
    /// The same after it.
    pub pipe: u64,
    /// The first unacknowledged byte (RFC 9293's SND.UNA).
    pub snd_una: u64,
    /// The next byte to be sent for the first time (SND.NXT).
    pub snd_nxt: u64,
    /// The round-trip time by the echoed timestamp.
    pub rtt: Option<Duration>,
    /// The smoothed round-trip time.
    pub srtt: Duration,
    /// The delivery rate, for controls that [want it](CongestionControl::wants_rate_samples).
    pub rate: Option<DeliverySample>,
    /// cwnd limited the sender since the acknowledged data was sent.
    pub cwnd_limited: bool,
    /// cwnd may grow: it limited the sender, and no reduction is under way.
    pub may_grow: bool,
}

/// The sender's state at a sign of congestion.
#[derive(Clone, Copy, Debug)]
pub struct CongestionEvent {
    /// The time.
    pub now: Instant,
    /// Bytes sent and not cumulatively acknowledged (RFC 5681's FlightSize).
    pub flight_size: u64,
    /// The estimate of bytes in the network (RFC 6675's `pipe`); at a timeout, of what is not
    /// deemed lost by it.
    pub pipe: u64,
    /// A repeated timeout: nothing was acknowledged since the last one, which stood for the same
    /// window's congestion (RFC 5681, section 3.1).
    pub repeated: bool,
    /// The reduction is of cwnd, also where less was in flight.
    pub whole_cwnd: bool,
}

/// A congestion control.
pub trait CongestionControl: Any + fmt::Debug + Send {
    /// An ACK arrived.
    fn on_ack(&mut self, ack: &Ack);

    /// The first loss in this window.
    fn on_loss(&mut self, event: &CongestionEvent);

    /// A segment is deemed lost, for controls that [want it](Self::wants_losses); before what its
    /// loss begins or an ACK reports.
    fn on_lost(&mut self, _now: Instant, _segment: &LostSegment) {}

    /// The retransmission timer expired.
    fn on_rto(&mut self, event: &CongestionEvent);

    /// The first mark in this window. By default as a loss (RFC 3168).
    fn on_ecn(&mut self, event: &CongestionEvent) {
        self.on_loss(event);
    }

    /// All that was outstanding at the loss or timeout is acknowledged.
    fn on_recovered(&mut self, _now: Instant) {}

    /// The sender restarts after an idle time of this many retransmission timeouts (RFC 2861).
    fn on_idle_restart(&mut self, _rtos: u32) {}

    /// cwnd in bytes.
    fn cwnd(&self) -> u64;

    /// The rate at which segments are paced; `None`: ACKs alone clock them.
    fn pacing_rate(&self) -> Option<Bandwidth> {
        None
    }

    /// Whether it is in slow start, or its like.
    fn in_slow_start(&self) -> bool;

    /// Whether it governs cwnd during recovery, in place of proportional rate reduction.
    fn governs_recovery(&self) -> bool {
        false
    }

    /// Whether it wants to know how many segments were marked (RFC 9768), and its packets to say
    /// ECT(1), as those of L4S (RFC 9331). It is not told of the first mark in a window then.
    fn wants_accurate_ecn(&self) -> bool {
        false
    }

    /// Whether it needs delivery rate samples.
    fn wants_rate_samples(&self) -> bool {
        false
    }

    /// Whether it is told of each segment that is lost; it needs [delivery rate
    /// samples](Self::wants_rate_samples) as well.
    fn wants_losses(&self) -> bool {
        false
    }
}
