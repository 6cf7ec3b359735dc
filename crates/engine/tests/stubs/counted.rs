//! A kind of queue that holds nothing and counts what it is asked.

use engine::discipline::{Build, Discipline, Next, Plan, Reason, Sink, Verdict};
use engine::inspect::Inspection;
use engine::kind::{Check, Children, Kind, Properties};
use engine::packet::Packet;
use engine::portion::Portion;
use engine::units::Instant;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Inspections of all such queues.
pub static INSPECTED: AtomicUsize = AtomicUsize::new(0);
/// Queues that were made, and calls of all of them but packets.
pub static VISITED: AtomicUsize = AtomicUsize::new(0);
/// Plans that all such queues adopted.
pub static ADOPTED: AtomicUsize = AtomicUsize::new(0);

pub static COUNTED: Kind = Kind {
    name: "counted",
    summary: "Counts what it is asked",
    reference: "a test",
    children: Children::None,
    settings: &[],
    class_settings: &[],
    properties: Properties::NONE,
    check,
};

#[derive(Debug)]
struct Counted;

impl Discipline for Counted {
    fn enqueue(&mut self, _now: Instant, packet: Packet, sink: &mut dyn Sink) -> Verdict {
        sink.drop(packet, Reason::Full);
        Verdict::Dropped(Reason::Full)
    }

    fn dequeue(&mut self, _now: Instant, _sink: &mut dyn Sink) -> Next<Packet> {
        Next::Empty
    }

    fn flush(&mut self, _portion: &mut Portion, _sink: &mut dyn Sink) {
        VISITED.fetch_add(1, Ordering::Relaxed);
    }

    fn inspect(&self, _out: &mut Inspection<'_>) {
        VISITED.fetch_add(1, Ordering::Relaxed);
        INSPECTED.fetch_add(1, Ordering::Relaxed);
    }

    fn retune(&mut self, _now: Instant, _plan: &dyn Plan) -> bool {
        VISITED.fetch_add(1, Ordering::Relaxed);
        ADOPTED.fetch_add(1, Ordering::Relaxed);
        true
    }
}

impl Plan for Counted {
    fn build(&self, _cx: &Build) -> Box<dyn Discipline> {
        VISITED.fetch_add(1, Ordering::Relaxed);
        Box::new(Self)
    }
}

fn check(_check: &mut Check<'_>) -> Option<Arc<dyn Plan>> {
    Some(Arc::new(Counted))
}
