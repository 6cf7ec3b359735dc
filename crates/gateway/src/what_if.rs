//! A policy beside the one in force: what it would do, class by class.

use control::policy::InterfacePolicy;
use control::what_if::Figures;
use engine::packet::ClassId;
use engine::queue::Count;
use engine::random::Seed;
use engine::units::{Bandwidth, Bytes, Duration};
use measure::delay::{Delays, FineDelays};
use netio::handle::PathView;
use netio::replay::Beginning;
use netio::replay::candidate::Candidate;
use std::io;

/// What one class got.
#[derive(Clone, Debug)]
pub struct ClassFigures {
    /// Its name.
    pub class: String,
    /// What it got.
    pub figures: Figures,
    delays: FineDelays,
}

impl ClassFigures {
    /// What a class got in this time, by these counts.
    pub fn counted<const ROW: usize>(
        class: String,
        sent: Count,
        dropped: u64,
        delays: &Delays<ROW>,
        span: Duration,
    ) -> Self {
        let mut kept = FineDelays::default();
        kept.merge_other(delays);
        Self {
            class,
            figures: Figures {
                sent: sent.packets,
                rate_bps: Bandwidth::of(sent.bytes, span.max(Duration::from_nanos(1))).bits(),
                p50_ns: delays.quantile(500).nanos(),
                p99_ns: delays.quantile(990).nanos(),
                dropped,
            },
            delays: kept,
        }
    }

    /// Delays in seconds, and how many packets had each.
    pub fn steps(&self) -> Vec<(f64, u64)> {
        let seconds = |(delay, count): (Duration, u64)| (delay.nanos() as f64 / 1e9, count);
        self.delays.steps().map(seconds).collect()
    }
}

/// How a path of this policy begins.
pub fn beginning(interface: &InterfacePolicy, seed: Seed) -> Beginning {
    Beginning {
        name: interface.name.clone(),
        plan: interface.plan.clone(),
        seed,
        classify: crate::direction::by_filters_with(interface, seed),
        bandwidth: Some(interface.link().bandwidth),
        framing: interface.link().framing,
        guarantees: interface.guarantees(),
    }
}

/// This policy as a candidate, before a link of its own.
///
/// # Errors
///
/// Returns an error if there is no memory for it.
pub fn candidate(interface: &InterfacePolicy, seed: Seed) -> io::Result<Candidate> {
    Candidate::new(beginning(interface, seed))
}

/// What each class with packets got in this time; an interface without classes as one, `all`.
pub fn figures(interface: &InterfacePolicy, view: &PathView, span: Duration) -> Vec<ClassFigures> {
    figures_since(interface, view, None, span)
}

/// The same of a path that was so `before` that time.
pub fn figures_since(
    interface: &InterfacePolicy,
    view: &PathView,
    before: Option<&PathView>,
    span: Duration,
) -> Vec<ClassFigures> {
    let plan = &interface.plan;
    let of = |class: ClassId| {
        let name = plan.info(class).map(|info| info.name.to_string());
        let own = name.is_some().then_some(class);
        let (packets, bytes, delays, dropped) = counted(view, class, own);
        let earlier = before.map(|before| counted(before, class, own));
        let (sent, bytes, delays, dropped) = match earlier {
            None => (packets, bytes, delays, dropped),
            // A tree that was built meanwhile counts from there.
            Some((sent, length, waited, lost)) => (
                packets.saturating_sub(sent),
                Bytes::new(bytes.get().saturating_sub(length.get())),
                delays.since(&waited),
                dropped.checked_sub(lost).unwrap_or(dropped),
            ),
        };
        let name = name.unwrap_or_else(|| "all".into());
        let sent = Count { packets: sent, bytes };
        ClassFigures::counted(name, sent, dropped, &delays, span)
    };
    if plan.classes.is_empty() {
        return vec![of(ClassId(0))];
    }
    let leaves = (0..plan.classes.len() as u32).filter(|class| plan.classes[*class as usize].leaf);
    leaves
        .map(|class| of(ClassId(class)))
        .filter(|class| class.figures.sent + class.figures.dropped > 0)
        .collect()
}

/// Packets and bytes that left, their delays, and drops of a class; `own` is its view in the tree.
fn counted(view: &PathView, class: ClassId, own: Option<ClassId>) -> (u64, Bytes, Delays, u64) {
    let tree = view.views.iter().find(|view| view.class == own);
    let dropped = tree.map_or(0, |view| view.stats.dropped.packets);
    let meter = view.classes.iter().find(|meter| meter.class == class);
    meter.map_or_else(
        || (0, Bytes::ZERO, Delays::default(), dropped),
        |meter| {
            let (sent, short) = (meter.sent, meter.short.packets);
            (sent.packets, sent.bytes, meter.delays.clone(), dropped + short)
        },
    )
}
