//! Congestion control: how much may be in the network. One file each; `reno.rs` is the template.
//!
//! A control is told what happened and answers with a window, and perhaps a rate. The sender does the rest: it
//! decides what is lost and when a loss counts, once a window (RFC 6582), spreads a reduction over the recovery
//! (RFC 6937) unless the control does that itself, and tells of acknowledgments whether the window was what limited it.
//!
//! Windows are in segments, with fractions; the sender gets bytes. Only +, −, ×, ÷ and roots that are made of them are
//! used where a run's result depends on it, or functions evaluated once a segment of window; so runs repeat.

pub mod bbr;
pub mod cubic;
pub mod highspeed;
mod hystart;
mod ledbat;
mod reno;
mod scalable;
mod vegas;
mod window;

pub use window::Window;

use super::delivery::Rate;
use engine::units::{Bandwidth, Duration, Instant};
use std::any::Any;
use std::fmt;
use std::str::FromStr;

engine::choices! {
    /// A congestion control, by name.
    pub enum Control {
        /// Reno (RFC 5681): one segment a round trip more, half of it less.
        Reno = "reno",
        /// CUBIC (RFC 9438): the window follows a cubic of the time since the last loss.
        Cubic = "cubic",
        /// `HighSpeed` TCP (RFC 3649): large windows grow faster and fall less.
        HighSpeed = "highspeed",
        /// Scalable TCP (Kelly, 2003): recovers in the same number of round trips at any window.
        Scalable = "scalable",
        /// Vegas (Brakmo and Peterson, 1995): keeps two to four segments waiting.
        Vegas = "vegas",
        /// BBR, version 1 (2016): paced by a model of the path's rate and round-trip time.
        Bbr = "bbr",
        /// LEDBAT++: yields to others by keeping the queueing delay at 60 ms.
        Ledbat = "ledbat++",
    }
}

impl Control {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Reno,
        Self::Cubic,
        Self::HighSpeed,
        Self::Scalable,
        Self::Vegas,
        Self::Bbr,
        Self::Ledbat,
    ];

    /// A control of this kind at the start of a connection.
    pub fn build(self, start: &Start) -> Box<dyn Congestion> {
        match self {
            Self::Reno => Box::new(reno::Reno::new(start)),
            Self::Cubic => Box::new(cubic::Cubic::new(start)),
            Self::HighSpeed => Box::new(highspeed::HighSpeed::new(start)),
            Self::Scalable => Box::new(scalable::Scalable::new(start)),
            Self::Vegas => Box::new(vegas::Vegas::new(start)),
            Self::Bbr => Box::new(bbr::Bbr::new(start)),
            Self::Ledbat => Box::new(ledbat::Ledbat::new(start)),
        }
    }
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Control {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        use engine::settings::{Raw, SettingValue};
        Self::from_raw(&Raw::Text(text.into()))
    }
}

/// What a connection starts from.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// When.
    pub now: Instant,
    /// The bytes of a full segment.
    pub segment: u64,
    /// The initial window, in segments.
    pub window: u32,
    /// Slow start is to end by `HyStart++`.
    pub hystart: bool,
    /// The opening's round-trip time, once it is known.
    pub rtt: Option<Duration>,
}

/// What an acknowledgment told.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// The time.
    pub now: Instant,
    /// Bytes that are now known to have arrived, and were not before.
    pub delivered: u64,
    /// Of those, the ones that count for growth: all (RFC 3465), or a segment at most.
    pub counted: u64,
    /// Bytes thought to be in the network before this came.
    pub before: u64,
    /// Bytes thought to be in the network now.
    pub pipe: u64,
    /// The first byte that is not acknowledged.
    pub first: u64,
    /// The next byte to be sent for the first time.
    pub next: u64,
    /// How long the answered segment and its answer took.
    pub rtt: Option<Duration>,
    /// The smoothed round-trip time.
    pub smoothed: Duration,
    /// How fast data was delivered, for controls that ask for it.
    pub rate: Option<Rate>,
    /// The window may grow: it limited what was sent, and no reduction is under way.
    pub grow: bool,
}

/// What the sender knows at a sign of congestion.
#[derive(Clone, Copy, Debug)]
pub struct Signal {
    /// The time.
    pub now: Instant,
    /// Bytes sent and not acknowledged.
    pub flight: u64,
    /// Bytes thought to be in the network.
    pub pipe: u64,
    /// Of a time-out: nothing has arrived since the one before, and that was one window's congestion (RFC 5681).
    pub repeated: bool,
}

/// A congestion control.
pub trait Congestion: Any + fmt::Debug + Send {
    /// An acknowledgment came.
    fn on_ack(&mut self, ack: &Ack);

    /// Segments are lost, for the first time in this window.
    fn on_loss(&mut self, signal: &Signal);

    /// The timer ran out.
    fn on_timeout(&mut self, signal: &Signal);

    /// The network marked, for the first time in this window. As a loss, unless it says otherwise (RFC 3168).
    fn on_ecn(&mut self, signal: &Signal) {
        self.on_loss(signal);
    }

    /// All that was outstanding at the loss or time-out has arrived.
    fn on_recovered(&mut self, _now: Instant) {}

    /// It sends again after it had nothing to send for so many time-outs' time (RFC 2861).
    fn on_idle(&mut self, _timeouts: u32) {}

    /// How many bytes may be in the network.
    fn window(&self) -> u64;

    /// How fast segments may follow each other; `None` where acknowledgments alone are the clock.
    fn pacing_rate(&self) -> Option<Bandwidth> {
        None
    }

    /// Whether it is in slow start, or something like it.
    fn starting(&self) -> bool;

    /// Whether it governs the window during recovery itself.
    fn governs_recovery(&self) -> bool {
        false
    }

    /// Whether it wants to know the delivery rate.
    fn measures_rate(&self) -> bool {
        false
    }
}
