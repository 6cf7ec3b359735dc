//! The PSPacer paper's network in the lab, with the kernel's TCP: a host on Gigabit Ethernet, paced
//! or not, a bottleneck of 500 Mbit/s with a tail-drop buffer, 200 ms round-trip time.
//!
//! ```text
//!  host ─── left │ worker: pacer by timers, or FIFO at 1 Gbit/s │ right ═╗
//!  far ═════════════════════════════ 500 Mbit/s, tail drop, 100 ms ══════╝
//! ```
//!
//! The worker is that of `suimon run`, with the timer realiser. The bottleneck is an emulated link
//! of the lab. Windows reach 32 MB, as the paper's socket buffers.

use crate::Error;
use crate::long_pipe::{GBE, HALF, NARROW};
use crate::testbed::interface;
use control::policy::InterfacePolicy;
use engine::discipline::Reason;
use engine::framing::Framing;
use engine::units::{Bytes, Duration};
use gateway::direction;
use lab::record::Recorded;
use lab::traffic::tcp::Bulk;
use lab::{Address, EmulatedDirection, EmulatedLink, Emulator, Host, Lab, Record};
use netio::handle::{Handle, Realised, WorkerSnapshot};
use netio::pool::Slots;
use netio::port::PortError;
use netio::ports::af_packet::{self, AfPacket};
use netio::realiser::Realiser;
use netio::realiser::timer::Timer;
use netio::worker::{PathId, Settings, Worker};
use std::net::{Ipv4Addr, SocketAddr};
use std::thread::JoinHandle;

const SENDER: Ipv4Addr = Ipv4Addr::new(10, 8, 0, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 8, 0, 2);
const MTU: usize = 1_500;
/// The paper's largest socket buffer, in the kernel's accounting of memory.
const WINDOW: u64 = 64 << 20;
/// More packets than the window.
const SLOTS: Slots = Slots {
    small: 65_536,
    big: 2_048,
};
/// The bins of the arrivals at the bottleneck.
const BIN: Duration = Duration::from_millis(1);

/// A trial.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trial {
    /// The kernel's congestion control.
    pub control: &'static str,
    /// The bottleneck's buffer, in KB of 1024 bytes.
    pub kb: u64,
    /// Whether the host is paced.
    pub paced: bool,
    /// The duration in seconds; the last part counts.
    pub seconds: u64,
}

/// The last seconds of a run, whose rate counts.
pub const COUNTED: u64 = 5;

/// The result of a trial.
#[derive(Clone, Debug)]
pub struct TrialResult {
    /// TCP's goodput over the last seconds, in MB/s.
    pub rate: f64,
    /// Packets that the bottleneck dropped.
    pub drops: u64,
    /// Packets lost before the bottleneck, by this machine.
    pub strayed: u64,
    /// The precision of paced departures, if there were any.
    pub realised: Option<Realised>,
    /// Arrivals and backlog at the bottleneck.
    pub recorded: Recorded,
}

/// The policy of the host's link: paced to the bottleneck's rate of frames with FCS, or plain.
fn policy(paced: bool) -> Result<InterfacePolicy, Error> {
    let rate = NARROW.bits();
    let discipline = if paced {
        "{ kind = \"pacer\" }"
    } else {
        "{ kind = \"fifo\", limit = 1000000 }"
    };
    let class = if paced {
        format!(
            "[[interface.right.class]]\nname = \"far\"\ndefault = true\nrate = \"{rate} bit/s\"\n\
             discipline = {{ kind = \"fifo\", limit = 1000000 }}\n"
        )
    } else {
        String::new()
    };
    let bandwidth = GBE.bits();
    interface(&format!(
        "version = 1\n[interface.right]\nbandwidth = \"{bandwidth} bit/s\"\nmax_frame = \"1514 B\"\ndiscipline = {discipline}\n{class}"
    ))
}

/// The hosts, the worker and the bottleneck.
struct Network {
    sender: Host,
    far: Host,
    handle: Handle,
    worker: Option<JoinHandle<lab::Result<WorkerSnapshot>>>,
    record: Record,
    lab: Lab,
}

impl Network {
    fn new(trial: Trial) -> Result<Self, Error> {
        let mut lab = Lab::with_arrival_times();
        let [sender, nic, far] = ["host", "nic", "far"].map(|name| lab.host(name));
        let (sender, nic, far) = (sender?, nic?, far?);
        lab.veth((&sender, "eth0"), (&nic, "left"))?;
        let record = Record::new(netio::clock::now(), BIN);
        // The bottleneck counts frames with FCS.
        let forth = EmulatedLink::new(NARROW)
            .delay(HALF)
            .buffer(Bytes::new(trial.kb << 10));
        let forth = EmulatedDirection::from(forth)
            .framing(Framing::add(4))
            .recorded(&record);
        lab.link(
            (&nic, "right"),
            (&far, "eth0"),
            forth,
            EmulatedLink::new(GBE).delay(HALF),
        )?;
        for (host, ip) in [(&sender, SENDER), (&far, FAR)] {
            host.address("eth0", Address::new(ip, 24))?;
            for window in ["tcp_rmem", "tcp_wmem"] {
                host.set(&format!("net/ipv4/{window}"), &format!("4096 131072 {WINDOW}"))?;
            }
        }
        let settings = Settings {
            realtime: true,
            slots: SLOTS,
            // Packets are 24 µs apart. Spinning for each would take the whole processor, and the
            // kernel throttles a real-time thread that does.
            guard: Duration::ZERO,
            ..Settings::default()
        };
        let (mut worker, handle) =
            Worker::new(settings).map_err(|e| Error::new(format!("cannot make room for packets: {e}")))?;
        let open = |name: &str| AfPacket::open(af_packet::Settings::new(name));
        let (left, right) = nic.call(|| Ok::<_, PortError>((open("left")?, open("right")?)))??;
        let (left, right) = (worker.add_port(Box::new(left)), worker.add_port(Box::new(right)));
        let mut path = direction::managed(&policy(trial.paced)?, left, right);
        let pacing = path.plan.as_ref().and_then(|plan| plan.root.plan.pacing());
        path.realiser = pacing.filter(|_| trial.paced).map(|pacing| {
            let timer = Timer::new(pacing, MTU, Some(engine::shaped_queue::CATCH_UP));
            Box::new(timer) as Box<dyn Realiser>
        });
        worker.add_path(path);
        worker.add_path(direction::unmanaged("left", right, left));
        let worker = nic.spawn("worker", move || worker.run())?;
        Ok(Self {
            sender,
            far,
            handle,
            worker: Some(worker),
            record,
            lab,
        })
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.handle.stop();
        // The worker ends after its present batch. Its ports must close before their interfaces go.
        let _ = self.worker.take().map(JoinHandle::join);
    }
}

/// Runs a trial once.
///
/// # Errors
///
/// Returns an error if the lab, the worker or a program fails.
pub fn run(trial: Trial) -> Result<TrialResult, Error> {
    let network = Network::new(trial)?;
    let bulk = Bulk {
        congestion: trial.control.into(),
        ..Bulk::new(
            SocketAddr::from((FAR, 5_001)),
            std::time::Duration::from_secs(trial.seconds + 5),
        )
    };
    let transfer = bulk.start(&network.sender, &network.far)?;
    let second = std::time::Duration::from_secs(1);
    std::thread::sleep(second * (trial.seconds - COUNTED) as u32);
    let (before, since) = (transfer.received(), netio::clock::now());
    std::thread::sleep(second * COUNTED as u32);
    let (received, span) = (transfer.received() - before, netio::clock::now().since(since));
    let unanswered = |e: netio::handle::Unanswered| Error::new(e.to_string());
    let host = network.handle.inspect().map_err(unanswered)?;
    let narrow = network.lab.links()[0].inspect().map_err(unanswered)?;
    let bottleneck = &narrow.paths[Emulator::FORTH.0];
    let sent = host.paths[PathId(0).0].totals.sent.packets;
    Ok(TrialResult {
        rate: received as f64 / span.as_secs_f64() / 1e6,
        drops: bottleneck.totals.dropped_for(Reason::Full),
        strayed: sent.saturating_sub(bottleneck.totals.offered.packets),
        realised: host.paths[PathId(0).0].realised.clone(),
        recorded: network.record.read(),
    })
}
