//! The machine: virtual time, in which workers are turned, traffic comes, and faults befall them.

use super::connections::Connections;
use super::kernel::{Kernel, NAMES, Shared, locked};
use super::signalling::{SharedWire, Stations, Wire, host_address};
use engine::random::{Rng, Seed};
use engine::units::{Duration, Instant};
use netio::handle::WorkerSnapshot;
use netio::time::SimulatedTime;
use netio::worker::{Turn, Worker};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Flow 0 is the promised one.
pub(super) const FLOWS: u16 = 6;
/// Flows after these that may have a reservation.
pub(super) const RESERVED: std::ops::Range<u16> = 10..14;
/// The length of their frames.
pub(super) const RESERVED_FRAME: usize = 514;
/// The promised flow sends a frame of this length, and not again before this time is over.
pub(super) const PROMISED: (usize, Duration) = (200, Duration::from_millis(20));
/// Turns in which time stands still, at most.
const TURNS: u32 = 20_000;
/// How long nothing may leave at most while frames wait and nothing is wrong around the program.
const OUTAGE: Duration = Duration::from_millis(400);

/// How much traffic there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Load {
    /// Nobody sends anything, not even what is promised.
    None,
    Idle,
    Low,
    /// In bursts, with pauses.
    Bursts,
    /// More than the policy lets through.
    Overload,
}

/// A flow towards an interface.
#[derive(Clone, Copy, Debug)]
struct Source {
    leaving: usize,
    flow: u16,
    next: Instant,
    burst: u32,
    /// Of a flow with a reservation: the time from frame to frame.
    every: Option<Duration>,
}

struct Running {
    worker: Worker,
    wakes: Instant,
    held_until: Instant,
    last: Option<WorkerSnapshot>,
}

pub(super) struct Machine {
    pub(super) kernel: Shared,
    workers: Vec<Running>,
    sources: Vec<Source>,
    /// Where a class yields.
    pub(super) connections: Option<Connections>,
    pub(super) load: Load,
    rng: Rng,
    /// The computer's clock at the beginning, with all that it was set since.
    pub(super) wall_ms: i64,
    /// Nobody wakes a worker before.
    pub(super) deaf_until: Instant,
    pub(super) turns: u64,
}

/// The machine as the program's threads have it.
pub(super) struct World {
    machine: Mutex<Machine>,
    pub(super) wire: SharedWire,
    pub(super) stations: Stations,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("World")
    }
}

impl World {
    pub(super) fn new(kernel: Kernel, mut rng: Rng) -> Arc<Self> {
        let now = kernel.now;
        let source = |leaving, flow| Source {
            leaving,
            flow,
            next: now,
            burst: 0,
            every: None,
        };
        let both = |flow| [source(0, flow), source(1, flow)];
        let sources = (0..FLOWS).flat_map(both).collect();
        let messages = Seed(rng.bits()).fork("messages").stream();
        let kernel = Arc::new(Mutex::new(kernel));
        let wire = Wire::new(&kernel, messages);
        let machine = Mutex::new(Machine {
            kernel,
            workers: Vec::new(),
            sources,
            connections: None,
            load: Load::Low,
            rng,
            wall_ms: 1_700_000_000_000,
            deaf_until: now,
            turns: 0,
        });
        let stations = Stations::new(Arc::clone(&wire));
        Arc::new(Self {
            machine,
            wire,
            stations,
        })
    }

    pub(super) fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now_here(&self) -> Instant {
        self.machine().now()
    }

    pub(super) fn run(&self, span: Duration) {
        let end = self.now_here() + span;
        self.stations.turn(self, true);
        loop {
            let next = self.stations.next_event().max(self.now_here());
            self.machine().run_until(next.min(end));
            if next > end {
                break;
            }
            self.stations.turn(self, false);
        }
    }

    /// What is in force at an interface changes: what is promised there is known again later.
    pub(super) fn changes(&self, number: usize) {
        let machine = self.machine();
        let mut kernel = locked(&machine.kernel);
        kernel.bounds[number].clear();
        let until = kernel.now + Duration::from_millis(1_000);
        kernel.disturb(until);
    }

    pub(super) fn fault(&self, what: String) {
        locked(&self.machine().kernel).fault(what);
    }
}

impl SimulatedTime for World {
    fn now(&self) -> Instant {
        locked(&self.machine().kernel).now
    }

    fn now_ms(&self) -> u64 {
        let machine = self.machine();
        let since = locked(&machine.kernel).now.nanos() / 1_000_000;
        u64::try_from(machine.wall_ms + since as i64).unwrap_or(0)
    }

    fn pass(&self) {
        let mut machine = self.machine();
        let span = Duration::from_micros(20 + machine.rng.below(200));
        let end = locked(&machine.kernel).now + span;
        // Whoever waits has rung.
        machine.wake_all();
        machine.run_until(end);
        drop(machine);
        self.stations.turn(self, true);
    }
}

impl Machine {
    pub(super) fn now(&self) -> Instant {
        locked(&self.kernel).now
    }

    pub(super) fn begin(&mut self, workers: Vec<Worker>) {
        let now = self.now();
        self.workers = workers
            .into_iter()
            .map(|worker| Running {
                worker,
                wakes: now,
                held_until: now,
                last: None,
            })
            .collect();
    }

    /// The workers are gone, as they are.
    pub(super) fn end(&mut self) {
        self.workers.clear();
    }

    /// All workers have ended in order.
    pub(super) fn has_ended(&self) -> bool {
        self.workers.iter().all(|running| running.last.is_some())
    }

    /// All workers as they are.
    pub(super) fn show(&mut self) -> Option<WorkerSnapshot> {
        let now = self.now();
        let shown = self.workers.iter_mut().map(|running| running.worker.show(now));
        WorkerSnapshot::joined(shown.collect::<Vec<_>>())
    }

    /// The last snapshots.
    pub(super) fn last(&mut self) -> Vec<WorkerSnapshot> {
        self.workers
            .iter_mut()
            .filter_map(|running| running.last.take())
            .collect()
    }

    pub(super) fn hold_up(&mut self, which: u64, until: Instant) {
        let many = self.workers.len().max(1) as u64;
        if let Some(running) = self.workers.get_mut((which % many) as usize) {
            running.held_until = running.held_until.max(until);
        }
    }

    pub(super) fn wake_all(&mut self) {
        let now = self.now();
        if now >= self.deaf_until {
            self.workers.iter_mut().for_each(|running| running.wakes = now);
        }
    }

    fn next_event(&self) -> Instant {
        let turn = |running: &Running| match running.last {
            Some(_) => Instant::NEVER,
            None => running.wakes.max(running.held_until),
        };
        let turns = self.workers.iter().map(turn);
        let sending = self.sources.iter().filter(|_| self.load != Load::None);
        let arrivals = sending.map(|source| source.next);
        let connections = self.connections.iter().filter(|_| self.load != Load::None);
        let segments = connections.map(Connections::next_event);
        turns
            .chain(arrivals)
            .chain(segments)
            .min()
            .unwrap_or(Instant::NEVER)
    }

    pub(super) fn run_until(&mut self, end: Instant) {
        let mut still = 0;
        loop {
            let next = self.next_event().max(self.now());
            if next > end {
                break;
            }
            still = if next > self.now() { 0 } else { still + 1 };
            if still > TURNS {
                locked(&self.kernel)
                    .wrong
                    .get_or_insert("a worker is busy for ever".into());
                break;
            }
            self.advance(next);
            let connected = self.connect();
            if self.arrive(next) || connected {
                self.wake_all();
            }
            self.turn(next);
        }
        self.advance(end);
    }

    fn advance(&mut self, now: Instant) {
        let mut kernel = locked(&self.kernel);
        kernel.advance(now);
        kernel.watch_starving(OUTAGE);
    }

    fn turn(&mut self, now: Instant) {
        for running in &mut self.workers {
            if running.last.is_some() || running.wakes.max(running.held_until) > now {
                continue;
            }
            self.turns += 1;
            match running.worker.turn_at(now) {
                // Each turn takes a little.
                Turn::Busy => running.wakes = now + Duration::from_nanos(500),
                Turn::Idle(until) => {
                    let latest = now + running.worker.longest_nap();
                    running.wakes = until.min(latest).max(now + Duration::from_nanos(1));
                }
                Turn::Done => running.last = Some(running.worker.show(now)),
            }
        }
    }

    /// What has left reaches the hosts of connections, which send. Whether they did.
    fn connect(&mut self) -> bool {
        let Some(connections) = &mut self.connections else {
            return false;
        };
        connections.turn(&mut locked(&self.kernel), self.load != Load::None)
    }

    /// Frames that are due arrive. Whether there were any.
    fn arrive(&mut self, now: Instant) -> bool {
        let (mut any, load) = (false, self.load);
        if load == Load::None {
            return false;
        }
        for source in &mut self.sources {
            if source.next > now {
                continue;
            }
            let rng = &mut self.rng;
            if source.flow == 0 {
                // It keeps to what it has said.
                let (len, every) = PROMISED;
                locked(&self.kernel).arrives(source.leaving, 0, frame(0, len));
                source.next = now + every + Duration::from_micros(rng.below(5_000));
                any = true;
                continue;
            }
            if let Some(every) = source.every {
                let frame = reserved_frame(source.leaving, source.flow);
                locked(&self.kernel).arrives(source.leaving, source.flow, frame);
                source.next = now + every + Duration::from_micros(rng.below(2_000));
                any = true;
                continue;
            }
            let len = [64, 200, 576, 1_000, 1_514][rng.below(5) as usize];
            let gap = match load {
                Load::None | Load::Idle => {
                    source.next = now + Duration::from_millis(20);
                    continue;
                }
                Load::Low => 8_000 + rng.below(16_000),
                Load::Bursts if source.burst > 0 => 10 + rng.below(50),
                Load::Bursts => 20_000 + rng.below(80_000),
                Load::Overload => 400 + rng.below(3_000),
            };
            source.burst = match source.burst {
                0 => rng.below(40) as u32,
                more => more - 1,
            };
            source.next = now + Duration::from_micros(gap);
            locked(&self.kernel).arrives(source.leaving, source.flow, frame(source.flow, len));
            any = true;
        }
        any
    }

    /// A flow sends a frame again and again, and not before that time is over; or none any more.
    pub(super) fn sends(&mut self, leaving: usize, flow: u16, every: Option<Duration>) {
        self.sources
            .retain(|source| (source.leaving, source.flow) != (leaving, flow));
        if every.is_some() {
            self.sources.push(Source {
                leaving,
                flow,
                next: self.now(),
                burst: 0,
                every,
            });
        }
    }

    /// Frames of noise arrive at both interfaces.
    pub(super) fn garbage(&mut self, frames: u64) {
        for _ in 0..frames {
            let len = 14 + self.rng.below(1_500) as usize;
            let mut bytes: Vec<u8> = (0..len).map(|_| self.rng.bits() as u8).collect();
            // Some look like what is read further.
            match self.rng.below(4) {
                0 => bytes[12..14].copy_from_slice(&[8, 0]),
                1 => bytes[12..14].copy_from_slice(&[0x86, 0xdd]),
                2 => bytes[12..14].copy_from_slice(&[0x81, 0]),
                _ => {}
            }
            let leaving = self.rng.below(NAMES.len() as u64) as usize;
            locked(&self.kernel).garbage(leaving, bytes);
        }
        self.wake_all();
    }
}

/// A frame of a flow from the host at one interface to the one at the other.
fn reserved_frame(leaving: usize, flow: u16) -> Vec<u8> {
    let mut bytes = frame(flow, RESERVED_FRAME);
    bytes[26..30].copy_from_slice(&host_address(1 - leaving).octets());
    bytes[30..34].copy_from_slice(&host_address(leaving).octets());
    bytes
}

/// A frame of a flow: UDP over IPv4.
fn frame(flow: u16, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    bytes[12..16].copy_from_slice(&[8, 0, 0x45, 2]);
    bytes[16..18].copy_from_slice(&((len - 14) as u16).to_be_bytes());
    (bytes[22], bytes[23]) = (64, 17);
    bytes[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 1, flow as u8]);
    bytes[34..36].copy_from_slice(&(2_000 + flow).to_be_bytes());
    bytes[36..38].copy_from_slice(&(5_000 + flow).to_be_bytes());
    bytes[38..40].copy_from_slice(&((len - 34) as u16).to_be_bytes());
    bytes
}
