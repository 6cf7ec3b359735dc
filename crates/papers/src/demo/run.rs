//! One run of the demo: hosts, a link, connections that join in turn, and samples of each class's
//! counters.
//!
//! ```text
//!  sender ─── left │ the worker of `suimon run` │ right ─── receiver
//! ```
//!
//! Hosts are network namespaces. `left` and `right` are interfaces of a third namespace, and only
//! the worker forwards between them. The kernel's TCP sends with its usual offloads.

use crate::Error;
use control::policy::InterfacePolicy;
use engine::packet::ClassId;
use engine::settings::SettingValue;
use engine::units::{Bandwidth, Bytes, Duration, Instant, Rate};
use gateway::direction;
use lab::traffic::tcp::{Bulk, BulkRun};
use lab::{Host, Lab};
use netio::clock;
use netio::handle::{Handle, WorkerSnapshot};
use netio::port::PortError;
use netio::ports::af_packet::{self, AfPacket};
use netio::worker::{Settings, Worker};
use plot::trace::Trace;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread::JoinHandle;

const SENDER: Ipv4Addr = Ipv4Addr::new(10, 8, 0, 1);
const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 8, 0, 2);
/// The port of best-effort traffic: no filter names it.
const BACKGROUND: u16 = 5000;

/// A run.
#[derive(Clone, Copy, Debug)]
pub struct DemoRun<'a> {
    /// The title.
    pub title: &'a str,
    /// The policy at the egress of `right`.
    pub interface: &'a InterfacePolicy,
    /// Replaces the policy's queues by one plain queue.
    pub plain: bool,
    /// The duration.
    pub length: Duration,
    /// The sampling interval.
    pub step: Duration,
}

/// The traffic of one class.
#[derive(Clone, Debug)]
pub struct ClassTraffic {
    /// The class.
    pub class: String,
    /// Its configured rate; `None` for best effort.
    pub target: Option<Bandwidth>,
    /// When it sends greedily, from and to: one connection for each span.
    pub spans: Vec<(Instant, Instant)>,
}

/// The result of a run.
#[derive(Debug)]
pub struct RunTraces {
    /// Frames of each class that left the link, as the policy counts them.
    pub frames: Trace,
    /// Bytes that the receiving programs read.
    pub payload: Trace,
    /// Packets that the queue dropped.
    pub dropped: u64,
}

/// A class's successive connections, on its port.
#[derive(Debug)]
struct Source<'a> {
    class: ClassId,
    port: u16,
    program: &'a ClassTraffic,
    /// The number of spans that have begun.
    begun: usize,
    running: Option<BulkRun>,
    /// Payload of finished connections.
    received: u64,
}

impl Source<'_> {
    /// The beginning of the next span.
    fn next(&self) -> Option<Instant> {
        self.program.spans.get(self.begun).map(|span| span.0)
    }

    /// Starts the spans that are due.
    fn begin(&mut self, network: &Network, now: Instant) -> Result<(), Error> {
        while let Some(&(from, to)) = self.program.spans.get(self.begun).filter(|span| span.0 <= now) {
            self.begun += 1;
            self.received = self.payload();
            // The previous receiver must release its port first.
            self.running = None;
            self.running = Some(network.start(self.port, to.since(now.max(from)))?);
        }
        Ok(())
    }

    fn payload(&self) -> u64 {
        self.received + self.running.as_ref().map_or(0, BulkRun::received)
    }
}

impl DemoRun<'_> {
    /// Runs it. `watch` is called with the samples so far and the current activity.
    ///
    /// # Errors
    ///
    /// Returns an error if the lab, the worker or a program fails.
    pub fn run(
        &self,
        programs: &[ClassTraffic],
        watch: &mut dyn FnMut(&Trace, &str) -> io::Result<()>,
    ) -> Result<RunTraces, Error> {
        let mut sources = self.sources(programs)?;
        let network = Network::new(self)?;
        let link = self.interface.settings.bandwidth;
        let mut frames = Trace::new(self.title, link);
        let mut payload = Trace::new(self.title, link);
        for program in programs {
            let joins = program.spans.first().map_or(Instant::START, |span| span.0);
            frames.line(&program.class, program.target, joins);
            payload.line(&program.class, program.target, joins);
        }
        let begin = clock::now();
        let end = Instant::START + self.length;
        loop {
            let snapshot = network.inspect()?;
            let now = Instant::START + snapshot.at.since(begin);
            frames.read(now, &departed(&snapshot, &sources));
            let received: Vec<Bytes> = sources.iter().map(|s| Bytes::new(s.payload())).collect();
            payload.read(now, &received);
            watch(&frames, &self.note(&sources, now))?;
            if now >= end {
                break;
            }
            for source in &mut sources {
                source.begin(&network, now)?;
            }
            let joins = sources
                .iter()
                .filter_map(Source::next)
                .filter(|&joins| joins > now);
            let next = joins.chain([self.next_step(now), end]).min().unwrap_or(end);
            let passed = Instant::START + clock::now().since(begin);
            std::thread::sleep(std::time::Duration::from_nanos(next.since(passed).nanos()));
        }
        drop(sources);
        let dropped = network
            .end()?
            .paths
            .first()
            .map_or(0, |path| path.totals.dropped.packets);
        Ok(RunTraces {
            frames,
            payload,
            dropped,
        })
    }

    /// A program for each leaf of the policy, which sends until the end: the default class's starts
    /// first, then the others' in order, `apart` from each other.
    pub fn joining(&self, apart: Duration) -> Vec<ClassTraffic> {
        let plan = &self.interface.plan;
        let mut turn = 0;
        let leaves = plan.classes.iter().enumerate().filter(|(_, class)| class.leaf);
        let program = |(index, info): (usize, &engine::tree::ClassInfo)| {
            let background = plan.default == Some(ClassId(index as u32));
            turn += u64::from(!background);
            let joins = Instant::START
                + if background {
                    Duration::ZERO
                } else {
                    apart.times(turn)
                };
            ClassTraffic {
                class: info.name.to_string(),
                target: self.rate(&info.name).filter(|_| !background),
                spans: vec![(joins, Instant::START + self.length)],
            }
        };
        leaves.map(program).collect()
    }

    /// The rate that the policy configures for a class.
    fn rate(&self, class: &str) -> Option<Bandwidth> {
        let spec = self
            .interface
            .spec
            .classes
            .iter()
            .find(|spec| spec.name == class)?;
        let rate = Rate::from_raw(&spec.settings.get("rate")?.value).ok()?;
        Some(rate.on(self.interface.plan.link.bandwidth))
    }

    fn sources<'a>(&self, programs: &'a [ClassTraffic]) -> Result<Vec<Source<'a>>, Error> {
        let source = |program: &'a ClassTraffic| {
            let class = self.interface.plan.class(&program.class);
            let class =
                class.ok_or_else(|| Error::new(format!("the policy has no class `{}`", program.class)))?;
            let filter = self.interface.filters.iter().find(|filter| filter.class == class);
            Ok(Source {
                class,
                port: filter
                    .and_then(|filter| filter.destination_port)
                    .map_or(BACKGROUND, |ports| ports.low()),
                program,
                begun: 0,
                running: None,
                received: 0,
            })
        };
        programs.iter().map(source).collect()
    }

    fn note(&self, sources: &[Source<'_>], now: Instant) -> String {
        let coming = sources
            .iter()
            .filter_map(|source| Some((source.next()?, &source.program.class)));
        let next = coming.filter(|(joins, _)| *joins > now).min();
        let next = next.map_or(String::new(), |(joins, name)| {
            format!(
                "; {name} joins at {:.1} s",
                joins.since(Instant::START).as_secs_f64()
            )
        });
        let passed = now.since(Instant::START).min(self.length).as_secs_f64();
        format!(
            "{}: {passed:.1} s of {:.0} s{next}",
            self.title,
            self.length.as_secs_f64()
        )
    }

    /// The next multiple of the step.
    fn next_step(&self, now: Instant) -> Instant {
        Instant::START + self.step.times(now.nanos() / self.step.nanos().max(1) + 1)
    }
}

/// The bytes that left of each source's class.
fn departed(snapshot: &WorkerSnapshot, sources: &[Source<'_>]) -> Vec<Bytes> {
    let classes = snapshot.paths.first().map_or(&[][..], |path| &path.classes);
    let of = |class| {
        classes
            .iter()
            .find(|meter| meter.class == class)
            .map_or(Bytes::ZERO, |meter| meter.sent.bytes)
    };
    sources.iter().map(|source| of(source.class)).collect()
}

/// The hosts and the worker between them.
struct Network {
    sender: Host,
    receiver: Host,
    handle: Handle,
    worker: Option<JoinHandle<lab::Result<WorkerSnapshot>>>,
    _lab: Lab,
}

impl Network {
    fn new(run: &DemoRun<'_>) -> Result<Self, Error> {
        let mut lab = Lab::new();
        let [sender, router, receiver] = ["sender", "router", "receiver"].map(|name| lab.host(name));
        let (sender, router, receiver) = (sender?, router?, receiver?);
        lab.veth((&sender, "eth0"), (&router, "left"))?;
        lab.veth((&receiver, "eth0"), (&router, "right"))?;
        for (host, ip) in [(&sender, SENDER), (&receiver, RECEIVER)] {
            host.address("eth0", lab::Address::new(ip, 24))?;
        }
        let (mut worker, handle) = Worker::new(Settings {
            realtime: true,
            ..Settings::default()
        })
        .map_err(|e| Error::new(format!("cannot make room for packets: {e}")))?;
        let open = |name: &str| AfPacket::open(af_packet::Settings::new(name));
        let ports = router.call(|| Ok::<_, PortError>((open("left")?, open("right")?)))?;
        let (left, right) = ports.map_err(|e| Error::new(e.to_string()))?;
        let (left, right) = (worker.add_port(Box::new(left)), worker.add_port(Box::new(right)));
        worker.add_path(match run.plain {
            false => direction::managed(run.interface, left, right),
            true => direction::plain(run.interface, left, right),
        });
        worker.add_path(direction::unmanaged("left", right, left));
        let worker = router.spawn("worker", move || worker.run())?;
        Ok(Self {
            sender,
            receiver,
            handle,
            worker: Some(worker),
            _lab: lab,
        })
    }

    fn inspect(&self) -> Result<WorkerSnapshot, Error> {
        self.handle.inspect().map_err(|e| Error::new(e.to_string()))
    }

    fn start(&self, port: u16, length: Duration) -> Result<BulkRun, Error> {
        let to = SocketAddr::from((RECEIVER, port));
        let length = std::time::Duration::from_nanos(length.nanos());
        Ok(Bulk::new(to, length).start(&self.sender, &self.receiver)?)
    }

    /// Stops the worker and returns its last snapshot.
    fn end(mut self) -> Result<WorkerSnapshot, Error> {
        self.handle.abort();
        let Some(worker) = self.worker.take() else {
            return Err(Error::new("the worker has ended"));
        };
        Ok(worker
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.handle.abort();
    }
}
