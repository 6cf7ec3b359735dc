//! Ports that are fed by programs in the kernel, so that traffic flows without us.
//!
//! [`bump`] lays two ports over a plain kernel bridge ([`crate::bpf::programs`] describes which
//! program takes what); [`Guarded`] is a port with its programs, and [`Pulse`] is the gate that
//! shows that a worker is alive.
//!
//! Order: sockets are opened first and programs attached last, with the heartbeat cells still
//! lapsed, so that nothing is taken before the worker's first turn. A packet socket hears frames
//! before that too, which the bridge forwards: program and socket tell each by the same arrival
//! timestamp, so that none goes both ways. At the end the cells are
//! silenced, and links are closed before sockets. When the process is killed, the kernel closes
//! everything in an order of its own and not at once, and filters (before Linux 6.6) stay; then the
//! cells lapse. That is why an outage lasts as long as the limit, and no longer.

use crate::bpf::programs::{ECHO, TAKE};
use crate::bpf::syscall::{self, Hook};
use crate::bpf::{Attached, Heartbeat, Means};
use crate::clock::{self, Moment};
use crate::interface::Interface;
use crate::pool::Pool;
use crate::port::{Capabilities, Counters, PacedPort, Port, PortError, Wake};
use crate::ports::af_packet::AfPacket;
use crate::worker::Gate;
use engine::packet::Buffer;
use engine::units::{Duration, Instant};
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// How long a worker may be silent before the kernel takes over, by default.
///
/// Shorter means a shorter outage when the process is killed; but while a worker is merely kept off
/// its processor for that long, traffic passes unshaped. On a busy machine with a tick of 4 ms that
/// happens for several ticks at a time.
pub const LIMIT: Duration = Duration::from_millis(20);

/// A port that programs can feed.
pub trait Capture: Port {
    /// Whether it gets copies of frames that the kernel also handles: then those that are the
    /// kernel's must be discarded.
    const COPIES: bool;

    /// Attaches the programs that feed it.
    ///
    /// # Errors
    /// If the kernel refuses a program.
    fn attach(&mut self, own: &Heartbeat, to: &mut Attached) -> io::Result<()>;

    /// From now on copies of frames with other arrival timestamps (of `CLOCK_REALTIME`) are
    /// discarded: the kernel forwards these. Only where there are copies.
    ///
    /// # Errors
    /// If the kernel refuses timestamps.
    fn take_only(&mut self, _arrived: Range<u64>) -> io::Result<()> {
        Ok(())
    }
}

impl Capture for AfPacket {
    const COPIES: bool = true;

    fn attach(&mut self, own: &Heartbeat, to: &mut Attached) -> io::Result<()> {
        let program = syscall::load("suimon_take", Hook::Ingress, false, &TAKE, own.map(), None)?;
        to.add(&program)
    }

    fn take_only(&mut self, arrived: Range<u64>) -> io::Result<()> {
        AfPacket::take_only(self, arrived)
    }
}

/// A port with its programs.
#[derive(Debug)]
pub struct Guarded<P> {
    /// First, so that it is dropped first.
    attached: Option<Attached>,
    means: Means,
    port: P,
    own: Arc<Heartbeat>,
    other: Arc<Heartbeat>,
    /// Frames to these are the kernel's.
    kept: [[u8; 6]; 2],
}

impl<P: Capture> Guarded<P> {
    fn new(port: P, own: Arc<Heartbeat>, other: Arc<Heartbeat>, means: Means) -> Result<Self, PortError> {
        let mut guarded = Self {
            attached: None,
            means,
            port,
            own,
            other,
            kept: [[0; 6]; 2],
        };
        let stamped = guarded.port.take_only(0..0);
        stamped
            .and_then(|()| guarded.attach())
            .map_err(|e| guarded.error(e))?;
        Ok(guarded)
    }

    fn error(&self, error: io::Error) -> PortError {
        PortError::new(self.port.name(), "attaching BPF programs", error)
    }

    fn attach(&mut self) -> io::Result<()> {
        self.attached = None;
        let interface = Interface::named(self.port.name())?;
        let bridge = interface.master_address()?;
        self.own.describe(interface.address, bridge, interface.index);
        self.kept = [interface.address, bridge.unwrap_or(interface.address)];
        let mut attached = Attached::to(interface.index, self.means);
        if P::COPIES {
            let echo = syscall::load("suimon_echo", Hook::Egress, false, &ECHO, self.other.map(), None)?;
            attached.add(&echo)?;
        }
        self.port.attach(&self.own, &mut attached)?;
        self.attached = Some(attached);
        Ok(())
    }

    /// The port.
    pub fn port(&self) -> &P {
        &self.port
    }

    /// Its programs; `None` while the interface is gone.
    pub fn attached(&self) -> Option<&Attached> {
        self.attached.as_ref()
    }
}

/// Whether frames to this address are the bridge's business alone (IEEE 802.1Q, table 8-1: spanning
/// tree, pause, link discovery). Whether it forwards them is its own setting (`stp_state`,
/// `group_fwd_mask`); [`ECHO`] lets them pass.
fn stays_on_link(to: &[u8]) -> bool {
    to.starts_with(&[0x01, 0x80, 0xc2, 0, 0]) && to.get(5).is_some_and(|last| *last < 0x10)
}

impl<P: Capture> Port for Guarded<P> {
    fn name(&self) -> &str {
        self.port.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.port.capabilities()
    }

    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Buffer>) -> Result<(), PortError> {
        let from = into.len();
        self.port
            .take_only(self.own.taken(clock::now()))
            .map_err(|e| PortError::new(self.port.name(), "enabling arrival timestamps", e))?;
        let result = self.port.receive(pool, into);
        if P::COPIES {
            let mut at = from;
            while let Some(buffer) = into.get(at).copied() {
                let to = &pool.bytes(buffer)[..pool.len(buffer).min(6)];
                if self.kept.iter().any(|kept| kept == to) || stays_on_link(to) {
                    pool.free(buffer);
                    into.remove(at);
                } else {
                    at += 1;
                }
            }
        }
        result
    }

    fn room(&self) -> usize {
        self.port.room()
    }

    fn unsent(&self) -> usize {
        self.port.unsent()
    }

    fn transmit(&mut self, pool: &mut Pool, frame: Buffer) {
        self.port.transmit(pool, frame);
    }

    fn kick(&mut self, pool: &mut Pool) -> Result<(), PortError> {
        self.port.kick(pool)
    }

    fn wake(&self, room: bool) -> Option<Wake<'_>> {
        self.port.wake(room)
    }

    /// The interface may be another one of the same name, so programs are attached anew.
    fn revive(&mut self, pool: &mut Pool) -> Result<(), PortError> {
        self.attached = None;
        self.port.revive(pool)?;
        self.attach().map_err(|e| self.error(e))
    }

    fn counters(&self) -> Counters {
        self.port.counters()
    }

    fn hand_over(&mut self, to_another: bool) {
        self.port.hand_over(to_another);
    }

    fn bypassed(&self) -> bool {
        let lost = |attached: &Attached| !attached.is_whole() || self.port.bypassed();
        self.attached.as_ref().is_some_and(lost)
    }

    fn paced(&mut self) -> Option<&mut dyn PacedPort> {
        self.port.paced()
    }
}

/// Switches ports off and on from outside. Off: all frames take the kernel's own path.
#[derive(Clone, Debug)]
pub struct Switch(Arc<AtomicBool>);

impl Switch {
    /// Takes effect at the worker's next turn.
    pub fn set(&self, on: bool) {
        self.0.store(on, Relaxed);
    }

    /// Whether it is on.
    pub fn is_on(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// What tells the kernel whether a worker is alive.
pub trait Heart: Send + Sync + fmt::Debug {
    /// Whether the kernel has taken over.
    fn lapsed(&self, now: Instant) -> bool;
    /// The worker is alive at this time.
    fn beat(&self, now: Instant);
    /// From the next frame on, frames take the kernel's own path until the next beat.
    fn silence(&self);
    /// The worker takes what arrives from this moment on, which is another program's until then.
    fn take_from(&self, moment: Moment);
    /// What arrives from this moment on is another program's, until another moment is named.
    fn leave_at(&self, moment: Moment);
}

impl Heart for Heartbeat {
    fn lapsed(&self, now: Instant) -> bool {
        self.lapsed(now)
    }

    fn beat(&self, now: Instant) {
        self.beat(now);
    }

    fn silence(&self) {
        self.silence();
    }

    fn take_from(&self, moment: Moment) {
        self.take_from(moment);
    }

    fn leave_at(&self, moment: Moment) {
        self.leave_at(moment);
    }
}

/// The gate of a worker: beats for its ports.
#[derive(Debug)]
pub struct Pulse {
    hearts: Vec<Arc<dyn Heart>>,
    /// Whether frames that were received while the kernel forwards are copies.
    copies: bool,
    on: Switch,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    On,
    /// Silenced in this turn: what was received before is still ours to send.
    Closing,
    Off,
}

impl Pulse {
    /// One of these hearts. `copies`: what a port received while the kernel forwards are copies.
    pub fn new(hearts: Vec<Arc<dyn Heart>>, copies: bool) -> Self {
        Self {
            hearts,
            copies,
            on: Switch(Arc::new(AtomicBool::new(true))),
            state: State::On,
        }
    }

    /// The switch, to keep when the worker has the pulse.
    pub fn switch(&self) -> Switch {
        self.on.clone()
    }
}

impl Gate for Pulse {
    fn lapsed(&mut self, now: Instant) -> bool {
        match self.state {
            State::On => self.hearts.iter().any(|heart| heart.lapsed(now)),
            State::Closing => false,
            State::Off => self.copies,
        }
    }

    fn beat(&mut self, now: Instant) {
        let on = self.on.is_on();
        self.advance(on, now);
    }

    fn stand_aside(&mut self, now: Instant) {
        self.advance(false, now);
    }

    fn take_from(&mut self, moment: Moment) {
        self.hearts.iter().for_each(|heart| heart.take_from(moment));
    }

    fn tells_by_arrival(&self) -> bool {
        self.copies
    }

    fn leave_at(&mut self, moment: Moment) {
        self.hearts.iter().for_each(|heart| heart.leave_at(moment));
    }
}

impl Pulse {
    fn advance(&mut self, on: bool, now: Instant) {
        self.state = match (on, self.state) {
            (true, State::On) => State::On,
            // Beats from the next turn on, when what was forwarded meanwhile has been discarded.
            (true, _) => return self.state = State::On,
            (false, State::On) => State::Closing,
            (false, _) => State::Off,
        };
        for heart in &self.hearts {
            if self.state == State::On {
                heart.beat(now)
            } else {
                heart.silence()
            }
        }
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.hearts.iter().for_each(|heart| heart.silence());
    }
}

/// Two open ports as a bump in the wire, and the pulse of the worker that will move frames between
/// them.
///
/// # Errors
/// If the programs cannot be attached.
pub fn bump<P: Capture>(
    ports: [P; 2],
    limit: Duration,
    means: Means,
) -> Result<([Guarded<P>; 2], Pulse), PortError> {
    let (guarded, [mut pulse, other]) = bumps(ports, limit, means)?;
    pulse.hearts.extend(other.hearts.iter().cloned());
    Ok((guarded, pulse))
}

/// As [`bump`], with a pulse for what arrives at each port: for a worker of its own.
///
/// # Errors
/// If the programs cannot be attached.
pub fn bumps<P: Capture>(
    ports: [P; 2],
    limit: Duration,
    means: Means,
) -> Result<([Guarded<P>; 2], [Pulse; 2]), PortError> {
    let [one, other] = ports;
    let (a, b) = (heart(&one, limit)?, heart(&other, limit)?);
    let guarded = [
        Guarded::new(one, a.clone(), b.clone(), means)?,
        Guarded::new(other, b.clone(), a.clone(), means)?,
    ];
    Ok((guarded, [a, b].map(|heart| Pulse::new(vec![heart], P::COPIES))))
}

/// An open port that is fed by programs alone, and its pulse.
///
/// # Errors
/// If the programs cannot be attached.
pub fn single<P: Capture>(port: P, limit: Duration, means: Means) -> Result<(Guarded<P>, Pulse), PortError> {
    let own = heart(&port, limit)?;
    let guarded = Guarded::new(port, own.clone(), own.clone(), means)?;
    Ok((guarded, Pulse::new(vec![own], P::COPIES)))
}

/// Who moves frames at the end of a worker and during its silence, in words.
pub(crate) fn takeover(limit: Duration, attached: Option<&Attached>) -> String {
    let by = attached.map_or_else(String::new, |attached| format!(" (by {attached})"));
    format!("the kernel's own path, at the end or after {limit} of silence{by}")
}

fn heart<P: Port>(port: &P, limit: Duration) -> Result<Arc<Heartbeat>, PortError> {
    let cell = Heartbeat::new(limit).map(Arc::new);
    cell.map_err(|e| PortError::new(port.name(), "making the heartbeat cell", e))
}
