//! The thread beside the worker that runs the law of classes that yield, and what it tells of them.

use super::{ClampedPath, ClassStates, YieldController};
use control::policy::InterfacePolicy;
use control::snapshot::YIELDS;
use engine::inspect::Value;
use engine::units::Duration;
use host::law::INTERVAL;
use netio::beside::ThreadBeside;
use netio::handle::{Handle, Unanswered};
use netio::tcp::{Ends, Limit};
use netio::window_clamp::ClampSnapshot;
use netio::worker::PathId;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// The gauges of classes that yield, for any thread.
#[derive(Clone, Debug, Default)]
pub struct YieldGauges(Arc<Mutex<ClassStates>>);

impl YieldGauges {
    /// The gauges of a class; none if it does not yield.
    pub fn of(&self, interface: &str, class: &str) -> Option<[(&'static str, Value); 4]> {
        let states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let one = states.get(&(interface.to_string(), class.to_string()))?;
        Some([
            (YIELDS, Value::State(one.yields)),
            ("connections", Value::Count(one.connections)),
            ("left-alone", Value::Count(one.left_alone)),
            ("least-round-trip", Value::Duration(one.least_round_trip)),
        ])
    }
}

/// The laws of all interfaces with classes that yield, and what they tell.
pub(crate) struct Yielding {
    controllers: Vec<YieldController<WorkerPath>>,
    gauges: YieldGauges,
}

impl Yielding {
    /// Of these interfaces, whose packets take these paths.
    pub(crate) fn new(handle: &Handle, managed: &[(PathId, InterfacePolicy)]) -> Self {
        let yielding = managed
            .iter()
            .filter(|(_, interface)| !interface.yields.is_empty());
        let controller = |(path, interface): &(PathId, InterfacePolicy)| {
            let path = WorkerPath {
                handle: handle.clone(),
                path: *path,
            };
            YieldController::new(path, interface)
        };
        Self {
            controllers: yielding.map(controller).collect(),
            gauges: YieldGauges::default(),
        }
    }

    /// Whether no class yields.
    pub(crate) fn has_none(&self) -> bool {
        self.controllers.is_empty()
    }

    pub(crate) fn gauges(&self) -> YieldGauges {
        self.gauges.clone()
    }

    /// Runs each law once. The time from this turn's beginning to the next; none once a worker has
    /// ended.
    pub(crate) fn turn(&mut self) -> Option<Duration> {
        let (mut states, mut interval) = (ClassStates::new(), INTERVAL);
        for controller in &mut self.controllers {
            let ticked = controller.tick();
            interval = interval.min(controller.interval());
            match ticked {
                Ok(classes) => states.extend(classes),
                Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return None,
                // A worker that does not respond clamps no connections either.
                Err(_) => {}
            }
        }
        *self.gauges.0.lock().unwrap_or_else(PoisonError::into_inner) = states;
        Some(interval)
    }
}

/// Starts the thread if any of these interfaces has a class that yields.
///
/// # Errors
///
/// If the thread cannot be started.
pub fn start(
    handle: &Handle,
    managed: &[(PathId, InterfacePolicy)],
) -> io::Result<(Option<ThreadBeside>, YieldGauges)> {
    let mut yielding = Yielding::new(handle, managed);
    let gauges = yielding.gauges();
    if yielding.has_none() {
        return Ok((None, gauges));
    }
    let thread = ThreadBeside::start("yields", move |ended| {
        while !ended() {
            let begin = netio::clock::now();
            let Some(interval) = yielding.turn() else {
                return;
            };
            let took = netio::clock::now().since(begin);
            std::thread::sleep(std::time::Duration::from_nanos(
                interval.nanos().saturating_sub(took.nanos()),
            ));
        }
    })?;
    Ok((Some(thread), gauges))
}

/// A path of a worker.
#[derive(Debug)]
struct WorkerPath {
    handle: Handle,
    path: PathId,
}

impl ClampedPath for WorkerPath {
    fn watch(&mut self) -> io::Result<ClampSnapshot> {
        self.handle.watch(self.path).map_err(failed)
    }

    fn clamp(&mut self, limits: Vec<(Ends, Option<Limit>)>) -> io::Result<()> {
        self.handle.clamp(self.path, limits).map_err(failed)
    }
}

fn failed(why: Unanswered) -> io::Error {
    let kind = match why {
        Unanswered::Ended | Unanswered::NoSuchPath => io::ErrorKind::BrokenPipe,
        Unanswered::Silent => io::ErrorKind::TimedOut,
    };
    io::Error::new(kind, why)
}
