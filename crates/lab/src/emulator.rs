//! The thread that moves frames over an emulated link: two ports, and an [`EmulatedLink`] for each
//! direction.
//!
//! Each end is a TAP device in its host's namespace, with super-frames and unfinished checksums
//! like a real interface. If TAP devices are not available (`/dev/net/tun` is missing or needs
//! root), it is a veth pair instead, whose far end a packet socket reads and writes in a namespace
//! of our own.

use crate::error::{Doing, Error, Result};
use crate::host::Host;
use crate::link::{CableSwitch, EmulatedLink, TraceBegin};
use crate::record::Record;
use engine::framing::Framing;
use engine::packet::ClassId;
use engine::queue::Queue;
use engine::tree::TreePlan;
use engine::units::{Bandwidth, Duration};
use netio::classify::{Classify, Everything};
use netio::fail_open::Pulse;
use netio::handle::{Handle, Unanswered, WorkerSnapshot};
use netio::hold_ups::HoldUpLog;
use netio::pool::Slots;
use netio::port::{Port, PortError};
use netio::ports::af_packet::{self, AfPacket};
use netio::ports::tap::Tap;
use netio::worker::{PathId, PathSpec, PortId, Settings, Worker};
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::thread::{Builder, JoinHandle};

/// A super-frame that would occupy the link for longer than this is segmented.
const GRAIN: Duration = Duration::from_micros(500);

/// The number of slots assumes packets of at least this length; a link full of shorter ones may run
/// out of slots.
const SMALL_PACKET: u64 = 128;
/// Above this number of slots, packets are assumed to be at least `USUAL_PACKET` long.
const MANY_SLOTS: u64 = 262_144;
const USUAL_PACKET: u64 = 1_024;
/// Slots at most: 8 GiB of address space.
const MAX_SLOTS: u64 = 4 << 20;

/// A queue in place of a link's buffer, such as a policy's, with what goes with it.
pub struct RuledQueue {
    /// Chooses each packet's class.
    pub classify: Box<dyn Classify>,
    /// Queues and schedules them.
    pub queue: Queue,
    /// The plan that the queue was built from, if it may change.
    pub plan: Option<TreePlan>,
    /// The rate of what leaves it; `None`: the link's.
    pub bandwidth: Option<Bandwidth>,
    /// From a frame to the length that its packet has.
    pub framing: Framing,
    /// The rates that classes of the plan are guaranteed.
    pub guarantees: Vec<(ClassId, Bandwidth)>,
    /// Classes of the plan whose TCP connections can be clamped, in ACKs of the other direction.
    pub yields: Vec<String>,
    /// Whether the queue is known never to wait with a backlog.
    pub conserves_work: bool,
}

impl RuledQueue {
    /// This queue, at the link's rate.
    pub fn new(queue: Queue, classify: Box<dyn Classify>) -> Self {
        Self {
            classify,
            queue,
            plan: None,
            bandwidth: None,
            framing: Framing::PLAIN,
            guarantees: Vec::new(),
            yields: Vec::new(),
            conserves_work: false,
        }
    }
}

/// One direction of an emulated link: the link, and the queue before it.
pub struct EmulatedDirection {
    link: EmulatedLink,
    ruled: RuledQueue,
    record: Option<Record>,
    capture: Option<PathBuf>,
    cable: CableSwitch,
    begin: TraceBegin,
}

impl EmulatedDirection {
    /// A direction with another queue, such as a policy's, in place of the link's buffer.
    pub fn ruled(link: EmulatedLink, ruled: RuledQueue) -> Self {
        Self {
            link,
            ruled,
            record: None,
            capture: None,
            cable: CableSwitch::default(),
            begin: TraceBegin::default(),
        }
    }

    /// The same with another framing.
    #[must_use]
    pub fn framing(mut self, framing: Framing) -> Self {
        self.ruled.framing = framing;
        self
    }

    /// The same with a record of what is offered and sent.
    #[must_use]
    pub fn recorded(mut self, record: &Record) -> Self {
        self.record = Some(record.clone());
        self
    }

    /// The same with a cable that this switch cuts.
    #[must_use]
    pub fn cut_by(mut self, cable: &CableSwitch) -> Self {
        self.cable = cable.clone();
        self
    }

    /// The same with a trace that begins then.
    #[must_use]
    pub fn begun_by(mut self, begin: &TraceBegin) -> Self {
        self.begin = begin.clone();
        self
    }

    /// The same with a capture of what arrives at the far end.
    #[must_use]
    pub fn captured(mut self, file: &Path) -> Self {
        self.capture = Some(file.into());
        self
    }

    /// The link behind its queue.
    pub(crate) fn link(&self) -> &EmulatedLink {
        &self.link
    }

    pub(crate) fn file(&self) -> Option<&Path> {
        self.capture.as_deref()
    }
}

impl From<EmulatedLink> for EmulatedDirection {
    /// A direction with tail drop.
    fn from(link: EmulatedLink) -> Self {
        let everything = Box::new(Everything(ClassId(0)));
        let buffer = RuledQueue {
            conserves_work: true,
            ..RuledQueue::new(link.tail_drop(), everything)
        };
        Self::ruled(link, buffer)
    }
}

impl fmt::Debug for EmulatedDirection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmulatedDirection")
            .field("link", &self.link)
            .finish_non_exhaustive()
    }
}

/// A running link. Dropping it stops the link.
#[derive(Debug)]
pub struct Emulator {
    handle: Handle,
    thread: Option<JoinHandle<WorkerSnapshot>>,
}

impl Emulator {
    /// The path from the first host to the second.
    pub const FORTH: PathId = PathId(0);

    /// Starts the link between two open ports; `spin`: its thread may spin, for punctual
    /// departures. Its hold-ups go into the log.
    pub(crate) fn start(
        names: [&str; 2],
        ports: [Box<dyn Port>; 2],
        directions: [EmulatedDirection; 2],
        spin: bool,
        hold_ups: &HoldUpLog,
    ) -> Result<Self> {
        let [a, b] = names;
        let doing = format!("start the link between `{a}` and `{b}`");
        let paths = [format!("{a} to {b}"), format!("{b} to {a}")];
        let worker = |worker: &mut Worker| {
            worker.log_hold_ups(hold_ups);
            let ports = ports.map(|port| worker.add_port(port));
            [(ports[0], ports[1]), (ports[1], ports[0])]
        };
        Self::begin(doing, format!("{a}-{b}"), paths, directions, spin, worker)
    }

    /// Starts a link whose directions each go back to the port that they come from, while its pulse
    /// beats.
    pub(crate) fn detours(
        thread: &str,
        names: [&str; 2],
        ports: [(Box<dyn Port>, Pulse); 2],
        directions: [EmulatedDirection; 2],
    ) -> Result<Self> {
        let doing = format!("start the links of {thread}");
        let worker = |worker: &mut Worker| {
            ports.map(|(port, pulse)| {
                let port = worker.add_port(port);
                worker.set_gate(Box::new(pulse), &[port]);
                (port, port)
            })
        };
        Self::begin(
            doing,
            thread.to_owned(),
            names.map(str::to_owned),
            directions,
            false,
            worker,
        )
    }

    /// Starts the thread, once `ports` has added the ports, from which and to which each direction
    /// goes.
    fn begin(
        doing: String,
        thread: String,
        names: [String; 2],
        directions: [EmulatedDirection; 2],
        spin: bool,
        ports: impl FnOnce(&mut Worker) -> [(PortId, PortId); 2],
    ) -> Result<Self> {
        let doing = || doing.clone();
        let settings = Settings {
            slots: slots(&directions),
            split_above: GRAIN,
            realtime: true,
            guard: if spin {
                Settings::default().guard
            } else {
                Duration::ZERO
            },
            ..Settings::default()
        };
        let (mut worker, handle) = Worker::new(settings).doing(doing)?;
        let ends = ports(&mut worker);
        let mut yields = [Vec::new(), Vec::new()];
        for (side, (direction, name)) in directions.into_iter().zip(names).enumerate() {
            let ruled = direction.ruled;
            yields[side] = ruled.yields;
            worker.add_path(PathSpec {
                name,
                from: ends[side].0,
                to: ends[side].1,
                classify: ruled.classify,
                queue: ruled.queue,
                plan: ruled.plan,
                bandwidth: ruled.bandwidth,
                mark: 0,
                framing: ruled.framing,
                realiser: None,
                wire: Some(direction.link.wire(
                    ruled.conserves_work,
                    direction.record,
                    direction.cable,
                    direction.begin,
                )),
                guarantees: ruled.guarantees,
            });
        }
        for (side, classes) in yields.into_iter().enumerate() {
            if !classes.is_empty() {
                worker.clamp(PathId(side), PathId(1 - side), classes);
            }
        }
        let thread = Builder::new()
            .name(thread)
            .spawn(move || worker.run())
            .doing(doing)?;
        Ok(Self {
            handle,
            thread: Some(thread),
        })
    }

    /// Takes a snapshot of the link.
    ///
    /// # Errors
    /// If its thread has ended or does not answer.
    pub fn inspect(&self) -> std::result::Result<WorkerSnapshot, Unanswered> {
        self.handle.inspect()
    }

    /// Ends it: what is queued is sent, for half a second at most. The last snapshot, if its thread
    /// has not panicked.
    pub(crate) fn end(mut self) -> Option<WorkerSnapshot> {
        self.handle.stop();
        self.thread.take()?.join().ok()
    }

    /// The handle for control from other threads.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.handle.abort();
        // A panic of the thread has been printed already.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Frames in flight between the link and a host at most.
const TRANSMIT_RING: usize = 256;

/// Whether TAP devices are available.
pub(crate) fn tap_is_possible() -> bool {
    File::options()
        .read(true)
        .write(true)
        .open("/dev/net/tun")
        .is_ok()
}

/// Makes a TAP interface in the host; the port is its far side.
pub(crate) fn open_tap(host: &Host, interface: &str) -> Result<Box<dyn Port>> {
    let tap = host.call(|| Tap::open(interface, TRANSMIT_RING))?;
    let tap = tap.map_err(|e| cannot_open(host, interface, &e))?;
    host.netlink(|n| n.up(interface))?;
    Ok(Box::new(tap))
}

/// Makes a veth pair, one end in the host, the other in `wires`; the port reads and writes the
/// latter.
pub(crate) fn open_pair(
    host: &Host,
    interface: &str,
    wires: &Host,
    far: &str,
    arrival_times: bool,
) -> Result<Box<dyn Port>> {
    host.netlink(|n| n.veth(interface, far, wires.namespace()))?;
    wires.netlink(|n| {
        n.no_link_local(far)?;
        n.up(far)
    })?;
    host.netlink(|n| n.up(interface))?;
    let settings = af_packet::Settings {
        transmit_ring: TRANSMIT_RING,
        arrival_times,
        ..af_packet::Settings::new(far)
    };
    let port = wires.call(|| AfPacket::open(settings))?;
    let port = port.map_err(|e| cannot_open(host, interface, &e))?;
    Ok(Box::new(port))
}

fn cannot_open(host: &Host, interface: &str, error: &PortError) -> Error {
    Error::other(
        format!("make interface `{interface}` of host `{}`", host.name()),
        error.to_string(),
    )
}

/// Slots for a bandwidth-delay product and a buffer in each direction. An unused slot costs a few
/// bytes in a list.
fn slots(directions: &[EmulatedDirection; 2]) -> Slots {
    let bytes: u64 = directions
        .iter()
        .map(|EmulatedDirection { link, .. }| {
            let in_flight = link.most_in_flight();
            in_flight.get().saturating_add(link.buffer.get())
        })
        .fold(0, u64::saturating_add);
    let small = (bytes / SMALL_PACKET).clamp(8_192, MANY_SLOTS);
    let small = small.max(bytes / USUAL_PACKET).min(MAX_SLOTS);
    Slots {
        small: small as u32,
        ..Slots::default()
    }
}
