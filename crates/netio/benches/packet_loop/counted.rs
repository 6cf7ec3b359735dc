//! A worker between two ports that only count, and the function that callgrind counts.

use engine::classify::{Classifier, Filter, Prefix};
use engine::link::Link;
use engine::packet::{Buffer, ClassId};
use engine::random::Seed;
use engine::tree::{ClassSpec, DisciplineSpec, Registry, TreePlan};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use measure::waits::{MOST, Wanted};
use netio::classify::ByFilters;
use netio::handle::{Handle, TapeWish};
use netio::pool::{Offload, Pool};
use netio::port::{Capabilities, Counters, Port, PortError, Wake};
use netio::replay::tape::{TapeReader, Taped, tape};
use netio::worker::{PathId, PathSpec, Settings, Turn, Worker};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Frames of a turn.
pub(crate) const BATCH: u32 = 32;
const CLASSES: u8 = 20;
const FRAME: usize = 1_514;

/// Takes so many steps.
#[inline(never)]
pub(crate) fn counted(steps: u32, step: &mut dyn FnMut()) {
    (0..steps).for_each(|_| step());
}

/// What is recorded meanwhile.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Watched {
    Nothing,
    /// Once there was a tape and somebody asked for waits.
    NothingAnyMore,
    Taped,
    Explained,
}

impl Watched {
    pub(crate) const ALL: [Self; 4] = [Self::Nothing, Self::NothingAnyMore, Self::Taped, Self::Explained];

    pub(crate) fn shown(self) -> &'static str {
        match self {
            Self::Nothing => "nothing recorded",
            Self::NothingAnyMore => "nothing recorded any more",
            Self::Taped => "on a tape",
            Self::Explained => "waits recorded",
        }
    }
}

/// Gives a batch each time, to one class after the other; what it is to send it counts.
#[derive(Debug)]
struct Counting {
    gives: Arc<AtomicBool>,
    number: u64,
    frame: Vec<u8>,
}

impl Counting {
    fn new(gives: &Arc<AtomicBool>) -> Self {
        let mut frame = vec![0; FRAME];
        frame[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0x00]);
        frame[16..18].copy_from_slice(&(FRAME as u16 - 14).to_be_bytes());
        frame[22..24].copy_from_slice(&[64, 17]);
        frame[26..34].copy_from_slice(&[10, 1, 0, 1, 10, 0, 0, 0]);
        Self {
            gives: Arc::clone(gives),
            number: 0,
            frame,
        }
    }
}

impl Port for Counting {
    fn name(&self) -> &'static str {
        "counting"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::plain(1_500, 64)
    }

    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Buffer>) -> Result<(), PortError> {
        for _ in 0..BATCH * u32::from(self.gives.load(Ordering::Relaxed)) {
            self.number += 1;
            self.frame[33] = (self.number % u64::from(CLASSES)) as u8;
            into.extend(pool.put(&self.frame, Offload::default()));
        }
        Ok(())
    }

    fn room(&self) -> usize {
        64
    }

    fn transmit(&mut self, pool: &mut Pool, frame: Buffer) {
        self.number += 1;
        pool.free(frame);
    }

    fn kick(&mut self, _pool: &mut Pool) -> Result<(), PortError> {
        Ok(())
    }

    fn wake(&self, _room: bool) -> Option<Wake<'_>> {
        None
    }

    fn revive(&mut self, _pool: &mut Pool) -> Result<(), PortError> {
        Ok(())
    }

    fn counters(&self) -> Counters {
        Counters {
            sent: self.number,
            ..Counters::default()
        }
    }
}

fn plan() -> TreePlan {
    let class = |class: u8| ClassSpec {
        name: format!("c{class}").into(),
        default: class == 0,
        ..ClassSpec::default()
    };
    let mut spec = DisciplineSpec::new("drr");
    spec.classes = (0..CLASSES).map(class).collect::<Vec<_>>().into();
    let link = Link::new(Bandwidth::gbit(100), Bytes::new(FRAME as u64));
    spec.check(&Registry::builtin(), link).expect("a plan")
}

fn classify(plan: &TreePlan) -> Box<ByFilters> {
    let filter = |class: u8| Filter {
        destination: Prefix::new([10, 0, 0, class].into(), 32),
        ..Filter::new(ClassId(class.into()))
    };
    let filters: Vec<Filter> = (0..CLASSES).map(filter).collect();
    Box::new(ByFilters::new(Classifier::new(filters, Seed(1)), plan, Seed(1)))
}

/// The loop.
pub(crate) struct Rig {
    worker: Worker,
    handle: Handle,
    /// Whether frames arrive. Not while somebody asks: how many turns that takes is chance.
    gives: Arc<AtomicBool>,
    now: Instant,
    /// Whoever would read the tape; it has room for more than is counted.
    _reader: Option<TapeReader>,
}

impl Rig {
    pub(crate) fn new(bandwidth: Option<Bandwidth>, watched: Watched) -> Self {
        let (mut worker, handle) = Worker::new(Settings::default()).expect("a worker");
        let gives = Arc::new(AtomicBool::new(false));
        let from = worker.add_port(Box::new(Counting::new(&gives)));
        let to = worker.add_port(Box::new(Counting::new(&Arc::default())));
        let plan = plan();
        let queue = plan.build(Seed(1));
        worker.add_path(PathSpec {
            classify: classify(&plan),
            plan: Some(plan),
            bandwidth,
            ..PathSpec::new("bench", (from, to), queue)
        });
        let mut rig = Self {
            worker,
            handle,
            gives,
            now: Instant::START + Duration::from_secs(1),
            _reader: None,
        };
        rig.watch(watched);
        rig.gives.store(true, Ordering::Relaxed);
        rig
    }

    fn watch(&mut self, watched: Watched) {
        let both = watched == Watched::NothingAnyMore;
        if both || watched == Watched::Taped {
            let (writer, reader) = tape();
            self._reader = Some(reader);
            let taped = self.ask(|handle| handle.tape(PathId(0), TapeWish::Start(writer)));
            assert!(matches!(taped, Ok(Taped::Done { .. })), "{taped:?}");
        }
        if both || watched == Watched::Explained {
            let wanted = Wanted {
                class: None,
                drops: false,
                keep: MOST,
                since: Instant::START,
                until: Instant::NEVER,
            };
            let begun = self.ask(|handle| handle.begin_explaining(PathId(0), wanted));
            assert!(begun.is_ok_and(|begun| begun));
        }
        if both {
            self.gives.store(true, Ordering::Relaxed);
            self.turn();
            self.gives.store(false, Ordering::Relaxed);
            self.ask(|handle| handle.tape(PathId(0), TapeWish::Stop))
                .expect("an answer");
            let ended = self.ask(|handle| handle.end_explaining(PathId(0)));
            assert!(ended.is_ok_and(|waits| waits.is_some()));
        }
    }

    /// Asks the worker from another thread, as a gateway does.
    fn ask<T: Send>(&mut self, ask: impl FnOnce(&Handle) -> T + Send) -> T {
        let handle = self.handle.clone();
        thread::scope(|scope| {
            let asked = scope.spawn(move || ask(&handle));
            while !asked.is_finished() {
                let _ = self.worker.turn_at(self.now);
            }
            asked.join().expect("a thread")
        })
    }

    /// A batch arrives, and what may leaves.
    pub(crate) fn turn(&mut self) {
        self.now = self.now + Duration::from_micros(10);
        assert!(self.worker.turn_at(self.now) != Turn::Done);
    }
}
