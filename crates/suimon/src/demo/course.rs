//! One course of the demo: hosts, a link, connections that join in turn, and readings of what each got.
//!
//! ```text
//!  sender ─── left │ the worker of `suimon run` │ right ─── receiver
//! ```
//!
//! Hosts are network namespaces; `left` and `right` are two more interfaces in a third one, and nothing
//! passes between them but through the worker. The kernel's TCP sends with its ordinary offloads.

use crate::daemon::direction;
use crate::exit::Failure;
use crate::report::trace::Trace;
use control::policy::Interface;
use engine::packet::ClassId;
use engine::settings::SettingValue;
use engine::units::{Bandwidth, Bytes, Duration, Instant, Rate};
use lab::traffic::tcp::{Bulk, BulkRun};
use lab::{Host, Lab};
use netio::af_packet::{self, AfPacket};
use netio::clock;
use netio::handle::{Handle, Snapshot};
use netio::port::PortError;
use netio::worker::{Settings, Worker};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread::JoinHandle;

/// How often counters are read.
const STEP: Duration = Duration::from_millis(250);
const SENDER: Ipv4Addr = Ipv4Addr::new(10, 8, 0, 1);
const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 8, 0, 2);
/// Where the background goes: a port that no filter names.
const BACKGROUND: u16 = 5000;

/// What is to be run.
#[derive(Clone, Copy, Debug)]
pub struct Course<'a> {
    /// For titles.
    pub title: &'a str,
    /// The policy of what leaves by `right`.
    pub interface: &'a Interface,
    /// Whether to put one plain queue in the place of the policy's.
    pub plain: bool,
    /// How long it lasts.
    pub length: Duration,
    /// The time between two joins.
    pub apart: Duration,
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    /// Frames of each class as they left by the link, as the policy counts them.
    pub frames: Trace,
    /// What the receivers' programs got.
    pub payload: Trace,
    /// Packets that the queue dropped.
    pub dropped: u64,
}

/// One connection: to its class, by its port.
#[derive(Clone, Debug)]
struct Source {
    class: ClassId,
    name: String,
    target: Option<Bandwidth>,
    port: u16,
    joins: Instant,
}

impl Course<'_> {
    /// Runs it. `watch` is shown the readings so far, and what is going on.
    pub fn run(&self, watch: &mut dyn FnMut(&Trace, &str) -> io::Result<()>) -> Result<Outcome, Failure> {
        let sources = self.sources();
        let network = Network::new(self)?;
        let link = self.interface.settings.bandwidth;
        let mut frames = Trace::new(self.title, link);
        let mut payload = Trace::new(self.title, link);
        for source in &sources {
            frames.line(&source.name, source.target, source.joins);
            payload.line(&source.name, source.target, source.joins);
        }
        let begin = clock::now();
        let end = Instant::START + self.length;
        let mut running: Vec<Option<BulkRun>> = sources.iter().map(|_| None).collect();
        loop {
            let seen = network.inspect()?;
            let now = Instant::START + seen.at.since(begin);
            frames.read(now, &departed(&seen, &sources));
            payload.read(now, &received(&running));
            watch(&frames, &self.note(&sources, now))?;
            if now >= end {
                break;
            }
            for (source, place) in sources.iter().zip(&mut running) {
                if place.is_none() && source.joins <= now {
                    *place = Some(network.start(source, end.since(now))?);
                }
            }
            let joins = sources
                .iter()
                .map(|source| source.joins)
                .filter(|&joins| joins > now);
            let next = joins.chain([next_step(now), end]).min().unwrap_or(end);
            let passed = Instant::START + clock::now().since(begin);
            std::thread::sleep(std::time::Duration::from_nanos(next.since(passed).nanos()));
        }
        drop(running);
        let dropped = network
            .end()?
            .paths
            .first()
            .map_or(0, |path| path.totals.dropped.packets);
        Ok(Outcome {
            frames,
            payload,
            dropped,
        })
    }

    /// A connection for each leaf of the policy: first the default class's, then the others' in order.
    fn sources(&self) -> Vec<Source> {
        let plan = &self.interface.plan;
        let source = |(index, info): (usize, &engine::tree::ClassInfo)| {
            let class = ClassId(index as u32);
            let filter = self.interface.filters.iter().find(|filter| filter.class == class);
            let background = plan.default == Some(class);
            let spec = self
                .interface
                .spec
                .classes
                .iter()
                .find(|spec| spec.name == info.name);
            let rate = spec.and_then(|spec| Rate::from_raw(&spec.settings.get("rate")?.value).ok());
            Source {
                class,
                name: info.name.clone(),
                target: rate
                    .filter(|_| !background)
                    .map(|rate| rate.on(plan.link.bandwidth)),
                port: filter
                    .and_then(|filter| filter.destination_port)
                    .map_or(BACKGROUND, |ports| ports.low()),
                joins: Instant::START,
            }
        };
        let mut sources: Vec<Source> = plan
            .classes
            .iter()
            .enumerate()
            .filter(|(_, c)| c.leaf)
            .map(source)
            .collect();
        let mut turn = 0;
        for source in sources.iter_mut().filter(|source| source.target.is_some()) {
            turn += 1;
            source.joins = Instant::START + self.apart.times(turn);
        }
        sources
    }

    fn note(&self, sources: &[Source], now: Instant) -> String {
        let next = sources.iter().find(|source| source.joins > now);
        let next = next.map_or(String::new(), |source| {
            format!(
                "; {} joins at {:.1} s",
                source.name,
                source.joins.since(Instant::START).as_secs_f64()
            )
        });
        let passed = now.since(Instant::START).min(self.length).as_secs_f64();
        format!(
            "{}: {passed:.1} s of {:.0} s{next}",
            self.title,
            self.length.as_secs_f64()
        )
    }
}

/// The next multiple of [`STEP`].
fn next_step(now: Instant) -> Instant {
    Instant::START + STEP.times(now.nanos() / STEP.nanos() + 1)
}

/// What left of each source's class.
fn departed(seen: &Snapshot, sources: &[Source]) -> Vec<Bytes> {
    let classes = seen.paths.first().map_or(&[][..], |path| &path.classes);
    let of = |class| {
        classes
            .iter()
            .find(|meter| meter.class == class)
            .map_or(Bytes::ZERO, |meter| meter.sent.bytes)
    };
    sources.iter().map(|source| of(source.class)).collect()
}

fn received(running: &[Option<BulkRun>]) -> Vec<Bytes> {
    running
        .iter()
        .map(|run| Bytes::new(run.as_ref().map_or(0, BulkRun::received)))
        .collect()
}

/// Hosts, and the worker between them.
struct Network {
    sender: Host,
    receiver: Host,
    handle: Handle,
    worker: Option<JoinHandle<lab::Result<Snapshot>>>,
    _lab: Lab,
}

impl Network {
    fn new(course: &Course<'_>) -> Result<Self, Failure> {
        let mut lab = Lab::new();
        let [sender, router, receiver] = ["sender", "router", "receiver"].map(|name| lab.host(name));
        let (sender, router, receiver) = (sender?, router?, receiver?);
        lab.veth((&sender, "eth0"), (&router, "left"))?;
        lab.veth((&receiver, "eth0"), (&router, "right"))?;
        for (host, ip) in [(&sender, SENDER), (&receiver, RECEIVER)] {
            host.address(
                "eth0",
                lab::Address {
                    ip: ip.into(),
                    prefix: 24,
                },
            )?;
        }
        let (mut worker, handle) = Worker::new(Settings {
            realtime: true,
            ..Settings::default()
        })
        .map_err(|e| Failure::at_run_time(format!("cannot make room for packets: {e}")))?;
        let open = |name: &str| AfPacket::open(af_packet::Settings::new(name));
        let ports = router.call(|| Ok::<_, PortError>((open("left")?, open("right")?)))?;
        let (left, right) = ports.map_err(|e| Failure::at_run_time(e.to_string()))?;
        let (left, right) = (worker.add_port(Box::new(left)), worker.add_port(Box::new(right)));
        worker.add_path(match course.plain {
            false => direction::managed(course.interface, left, right),
            true => direction::plain(course.interface, left, right),
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

    fn inspect(&self) -> Result<Snapshot, Failure> {
        self.handle
            .inspect()
            .map_err(|e| Failure::at_run_time(e.to_string()))
    }

    fn start(&self, source: &Source, length: Duration) -> Result<BulkRun, Failure> {
        let to = SocketAddr::from((RECEIVER, source.port));
        let length = std::time::Duration::from_nanos(length.nanos());
        Ok(Bulk::new(to, length).start(&self.sender, &self.receiver)?)
    }

    /// The worker's last words.
    fn end(mut self) -> Result<Snapshot, Failure> {
        self.handle.stop();
        let Some(worker) = self.worker.take() else {
            return Err(Failure::at_run_time("the worker has ended"));
        };
        Ok(worker
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.handle.stop();
    }
}
