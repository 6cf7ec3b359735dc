//! `cbq` packet by packet, on a link of 8 Mbit/s, where 1,000 bytes take a millisecond.

use super::averaging::Averaging;
use super::state::Cbq;
use super::{Mode, plan_of};
use crate::discipline::{Build, BuiltQueue, Discipline, Next, Plan, Sink, Verdict};
use crate::inspect::{Inspection, Value};
use crate::kind::{Check, Children, Kind, Properties};
use crate::link::Link;
use crate::packet::{ClassId, Packet};
use crate::portion::Portion;
use crate::random::Seed;
use crate::settings::{Raw, Table};
use crate::sinks::Nowhere;
use crate::tree::{ClassSpec, DisciplineSpec, Registry, TreePlan};
use crate::units::{Bandwidth, Bytes, Instant};
use std::collections::VecDeque;
use std::sync::Arc;

mod plans;
mod retuned;

pub(super) const MS: u64 = 1_000_000;
pub(super) const LEN: u64 = 1_000;

/// Lets a packet go at whole hundreds of milliseconds only, and refuses other settings.
#[derive(Debug, Default)]
struct Sluice(VecDeque<Packet>);

impl Discipline for Sluice {
    fn enqueue(&mut self, _now: Instant, packet: Packet, _sink: &mut dyn Sink) -> Verdict {
        self.0.push_back(packet);
        Verdict::Queued
    }

    fn dequeue(&mut self, now: Instant, _sink: &mut dyn Sink) -> Next<Packet> {
        if self.0.is_empty() {
            return Next::Empty;
        }
        let tick = 100 * MS;
        if !now.nanos().is_multiple_of(tick) {
            return Next::Wait(Instant::from_nanos(now.nanos().next_multiple_of(tick)));
        }
        self.0.pop_front().map_or(Next::Empty, Next::Ready)
    }

    fn flush(&mut self, portion: &mut Portion, sink: &mut dyn Sink) {
        portion.flush(sink, || self.0.pop_front());
    }
}

#[derive(Debug)]
struct Sluices;

impl Plan for Sluices {
    fn build(&self, _cx: &Build) -> Box<dyn Discipline> {
        Box::new(Sluice::default())
    }
}

fn check_sluice(_check: &mut Check<'_>) -> Option<Arc<dyn Plan>> {
    Some(Arc::new(Sluices))
}

static SLUICE: Kind = Kind {
    name: "sluice",
    summary: "",
    reference: "",
    children: Children::None,
    settings: &[],
    class_settings: &[],
    properties: Properties::NONE,
    check: check_sluice,
};

/// A class with a queue of this kind.
pub(super) fn over(mut class: ClassSpec, kind: &str) -> ClassSpec {
    class.discipline = Some(DisciplineSpec::new(kind));
    class
}

/// A class below a parent (empty: at the top), with bursts of one packet of 1,000 bytes.
pub(super) fn class(name: &str, parent: &str, rate: &str) -> ClassSpec {
    ClassSpec {
        name: name.into(),
        parent: (!parent.is_empty()).then(|| parent.into()),
        settings: Table::default()
            .text("rate", rate)
            .text("packet_size", "1000 B")
            .with("maxburst", Raw::Integer(1))
            .with("minburst", Raw::Integer(1)),
        ..ClassSpec::default()
    }
}

/// The class with another number for a setting.
pub(super) fn with(mut class: ClassSpec, key: &str, number: i64) -> ClassSpec {
    class.settings.entries.retain(|entry| entry.key != key);
    class.settings = class.settings.with(key, Raw::Integer(number));
    class
}

/// The class with bursts of so many packets.
pub(super) fn bursty(class: ClassSpec, maxburst: i64) -> ClassSpec {
    with(class, "maxburst", maxburst)
}

pub(super) fn limited(mut class: ClassSpec) -> ClassSpec {
    class.settings = class.settings.with("borrow", Raw::Boolean(false));
    class
}

/// The tree of these classes, all of which without child classes have a FIFO queue if no other.
pub(super) fn spec(settings: Table, classes: &[ClassSpec]) -> DisciplineSpec {
    let mut classes = classes.to_vec();
    let parents: Vec<String> = classes
        .iter()
        .filter_map(|class| Some(class.parent.clone()?.name))
        .collect();
    let mut default = true;
    for class in &mut classes {
        if !parents.iter().any(|parent| class.name == *parent) && !class.vacant {
            class.default = std::mem::take(&mut default);
            let fifo = || DisciplineSpec::new("fifo");
            class.discipline = Some(class.discipline.take().unwrap_or_else(fifo));
        }
    }
    DisciplineSpec {
        settings,
        classes: classes.into(),
        ..DisciplineSpec::new("cbq")
    }
}

pub(super) fn registry() -> Registry {
    Registry::builtin().with(&SLUICE)
}

pub(super) fn check_on(link: Bandwidth, settings: Table, classes: &[ClassSpec]) -> TreePlan {
    let link = Link::new(link, Bytes::new(1_500));
    let plan = spec(settings, classes).check(&registry(), link);
    plan.unwrap_or_else(|problems| panic!("{problems:#?}"))
}

pub(super) fn check(settings: Table, classes: &[ClassSpec]) -> TreePlan {
    check_on(Bandwidth::mbit(8), settings, classes)
}

/// A tree that runs on a link of 8 Mbit/s, with a caller in time.
pub(super) struct Course {
    pub(super) plan: TreePlan,
    pub(super) mode: Mode,
    pub(super) now: u64,
}

impl Course {
    pub(super) fn of(plan: TreePlan) -> Self {
        let own = plan_of(&*plan.root.plan).expect("cbq");
        let mut queues = Vec::new();
        queues.extend(own.classes.iter().filter_map(|class| {
            let queue = class.queue.as_ref()?;
            Some(queue.build(&Build::new(Seed(1))))
        }));
        let clock = crate::link_clock::CreditClock::new(own.link, own.settings.link_burst);
        Self {
            mode: Mode::new(own.clone(), queues, clock),
            plan,
            now: 0,
        }
    }

    pub(super) fn new(settings: Table, classes: &[ClassSpec]) -> Self {
        Self::of(check(settings, classes))
    }

    pub(super) fn id(&self, name: &str) -> ClassId {
        self.plan.class(name).expect("a class")
    }

    /// The number of a class among those of the discipline.
    pub(super) fn number(&self, name: &str) -> usize {
        let plan = self.mode.plan();
        plan.numbers.own(self.id(name).0).expect("a class of its own")
    }

    pub(super) fn cbq(&mut self) -> &mut Cbq {
        match &mut self.mode {
            Mode::Crediting(cbq) => cbq,
            Mode::Averaging(_) => panic!("by averages"),
        }
    }

    pub(super) fn averaging(&mut self) -> &mut Averaging {
        match &mut self.mode {
            Mode::Averaging(cbq) => cbq,
            Mode::Crediting(_) => panic!("by credits"),
        }
    }

    pub(super) fn at(&self) -> Instant {
        Instant::from_nanos(self.now)
    }

    /// A class gets so many packets of 1,000 bytes.
    pub(super) fn offer(&mut self, name: &str, packets: usize) {
        for _ in 0..packets {
            let packet = Packet::new(Bytes::new(LEN), self.at(), self.id(name));
            let verdict = self.mode.enqueue(self.at(), packet, &mut Nowhere);
            assert_eq!(verdict, Verdict::Queued);
        }
    }

    /// The class whose packet leaves now; or when to ask again, `None` if nothing is held.
    pub(super) fn take(&mut self) -> Result<String, Option<u64>> {
        match self.mode.dequeue(self.at(), &mut Nowhere) {
            Next::Ready(packet) => {
                let info = self.plan.info(packet.class).expect("a class");
                Ok(info.name.to_string())
            }
            Next::Wait(at) => Err(Some(at.nanos())),
            Next::Empty => Err(None),
        }
    }

    /// The next packets, with their times, as long as any are held.
    pub(super) fn timed(&mut self, packets: usize) -> Vec<(u64, String)> {
        let mut left = Vec::new();
        while left.len() < packets {
            match self.take() {
                Ok(name) => left.push((self.now, name)),
                Err(Some(at)) => self.now = at,
                Err(None) => break,
            }
        }
        left
    }

    /// The classes of the next packets, one after the other.
    pub(super) fn order(&mut self, packets: usize) -> String {
        let names: Vec<String> = self.timed(packets).into_iter().map(|(_, name)| name).collect();
        names.join(" ")
    }

    /// The times of the next packets.
    pub(super) fn times(&mut self, packets: usize) -> Vec<u64> {
        self.timed(packets).into_iter().map(|(at, _)| at).collect()
    }

    /// What a class shows; the tree if the name is empty.
    pub(super) fn gauge(&self, name: &str, gauge: &str) -> Value {
        let mut views = Vec::new();
        self.mode.inspect(&mut Inspection::new(&mut views));
        let class = (!name.is_empty()).then(|| self.id(name));
        let view = views.iter().find(|view| view.class == class).expect("a view");
        view.gauges.iter().find(|one| one.0 == gauge).expect("a gauge").1
    }

    pub(super) fn state(&self, name: &str) -> Value {
        self.gauge(name, "state")
    }

    pub(super) fn count(&self, name: &str, gauge: &str) -> u64 {
        match self.gauge(name, gauge) {
            Value::Count(count) => count,
            Value::Bytes(bytes) => bytes.get(),
            other => panic!("{other:?}"),
        }
    }

    /// What a class has counted: over, delays, borrows, borrowed and lent.
    pub(super) fn counts(&self, name: &str) -> [u64; 5] {
        ["over", "delays", "borrows", "borrowed", "lent"].map(|gauge| self.count(name, gauge))
    }

    /// Takes over a plan as a whole.
    pub(super) fn retune(&mut self, plan: &TreePlan) -> bool {
        self.mode.retune(Instant::from_nanos(self.now), &*plan.root.plan)
    }

    /// Takes over what a plan says of one class.
    pub(super) fn retune_class(&mut self, plan: &TreePlan, name: &str) -> bool {
        let class = plan.class(name).expect("a class");
        self.mode
            .retune_class(Instant::from_nanos(self.now), &*plan.root.plan, class)
    }
}

fn older(sharing: &str) -> Table {
    Table::default().text("sharing", sharing)
}

#[test]
fn a_class_that_may_not_borrow_sends_exactly_at_its_rate_and_counts_its_waits() {
    let mut course = Course::new(Table::default(), &[limited(class("a", "", "4 Mbit/s"))]);
    assert_eq!(course.state("a"), Value::State("idle"));
    course.offer("a", 3);
    assert_eq!(course.state("a"), Value::State("ready"));
    assert_eq!(course.times(1), [0]);
    assert_eq!(course.state("a"), Value::State("suspended"));
    assert_eq!(course.gauge("a", "credit"), Value::Credit(-999));
    assert_eq!(course.counts("a"), [1, 1, 0, 0, 0]);
    assert_eq!(course.times(2), [2 * MS, 4 * MS]);
    // After the last packet nobody waits.
    assert_eq!(course.counts("a"), [3, 2, 0, 0, 0]);
    assert_eq!(course.take(), Err(None));
    assert_eq!(course.state("a"), Value::State("idle"));
}

#[test]
fn a_class_that_borrows_has_every_other_packet_from_the_link_at_half_its_rate() {
    let mut course = Course::new(Table::default(), &[class("a", "", "4 Mbit/s")]);
    course.offer("a", 5);
    assert_eq!(course.times(1), [0]);
    assert_eq!(course.state("a"), Value::State("borrowing"));
    assert_eq!(course.times(3), [MS, 2 * MS, 3 * MS]);
    assert_eq!(course.counts("a"), [2, 0, 2, 2_000, 0]);
    assert_eq!(course.count("", "lent"), 2_000);
}

#[test]
fn a_parent_lends_before_the_link_and_both_count_it() {
    let classes = [class("x", "", "6 Mbit/s"), class("a", "x", "2 Mbit/s")];
    let mut course = Course::new(Table::default(), &classes);
    course.offer("a", 9);
    // Its own credit; the link, as x paid for that, too; x, which has regained it.
    assert_eq!(course.times(3), [0, MS, 2 * MS]);
    assert_eq!(course.counts("a"), [1, 0, 2, 2_000, 0]);
    assert_eq!(course.counts("x"), [2, 0, 0, 0, 1_000]);
    assert_eq!(course.count("", "lent"), 1_000);
    assert_eq!(course.state("x"), Value::State("borrowing"));
}

#[test]
fn a_class_whose_queue_waits_is_asleep_and_leaves_in_time() {
    for settings in [
        Table::default(),
        older("top-level"),
        older("ancestors-only"),
        older("top-level").text("root_rate", "100 %"),
    ] {
        let mut course = Course::new(settings, &[over(bursty(class("a", "", "4 Mbit/s"), 9), "sluice")]);
        course.now = MS;
        course.offer("a", 2);
        assert_eq!(course.state("a"), Value::State("ready"));
        assert_eq!(course.take(), Err(Some(100 * MS)));
        assert_eq!(course.state("a"), Value::State("asleep"));
        // Another packet does not wake it up for long.
        course.offer("a", 1);
        assert_eq!(course.state("a"), Value::State("ready"));
        assert_eq!(course.take(), Err(Some(100 * MS)));
        assert_eq!(course.times(3), [100 * MS, 200 * MS, 300 * MS]);
        assert_eq!(course.take(), Err(None));
        assert_eq!(course.state("a"), Value::State("idle"));
    }
}

#[test]
fn on_ticks_a_class_wakes_up_at_the_first_with_enough_but_two_ahead_at_least() {
    for (rate, expected) in [
        ("4 Mbit/s", [0, 10 * MS, 20 * MS]),
        ("200 kbit/s", [0, 40 * MS, 80 * MS]),
        ("190 kbit/s", [0, 45 * MS, 90 * MS]),
    ] {
        let settings = Table::default().text("tick", "5 ms");
        let mut course = Course::new(settings, &[limited(class("a", "", rate))]);
        course.offer("a", 3);
        assert_eq!(course.times(3), expected, "{rate}");
    }
}

#[test]
fn the_older_modes_suspend_a_class_without_credit_and_wake_it_up_with_enough() {
    for sharing in ["top-level", "ancestors-only"] {
        let mut course = Course::new(older(sharing), &[limited(class("a", "", "4 Mbit/s"))]);
        course.offer("a", 4);
        assert_eq!(course.times(1), [0]);
        assert_eq!(course.state("a"), Value::State("suspended"));
        course.now = MS;
        assert_eq!(course.take(), Err(Some(2 * MS)));
        assert_eq!(course.state("a"), Value::State("suspended"));
        assert_eq!(course.counts("a"), [1, 1, 0, 0, 0]);
        assert_eq!(course.times(3), [2 * MS, 4 * MS, 6 * MS]);
        assert_eq!(course.counts("a"), [4, 3, 0, 0, 0]);
    }
}

#[test]
fn an_older_modes_suspended_class_wakes_up_when_a_lender_has_credit_if_that_is_sooner() {
    // Both a and x are overdrawn by a packet; x, which may not borrow, is four times as fast.
    let classes = [limited(class("x", "", "4 Mbit/s")), class("a", "x", "1 Mbit/s")];
    let mut course = Course::new(older("ancestors-only"), &classes);
    course.offer("a", 3);
    assert_eq!(course.times(3), [0, 2 * MS, 4 * MS]);
    assert_eq!(course.counts("a")[1..], [2, 2, 2_000, 0]);
    // x lends whatever credit it has; its own debt is its limit.
    assert_eq!(course.counts("x")[4], 2_000);
}

#[test]
fn a_borrower_of_the_older_modes_owes_no_more_than_one_longest_packet() {
    let mut course = Course::new(
        older("ancestors-only"),
        &[
            class("x", "", "7 Mbit/s"),
            class("a", "x", "1 kbit/s"),
            class("b", "", "1 Mbit/s"),
        ],
    );
    course.offer("a", 6);
    let _ = course.order(6);
    // The longest packet is of 1,500 bytes, the link's.
    let Value::Credit(credit) = course.gauge("a", "credit") else {
        panic!("no credit");
    };
    assert_eq!(credit, -1_499, "overdrawn by the longest, and a little regained");
}

#[test]
fn of_classes_with_credit_the_higher_priority_goes_first_and_equals_take_turns() {
    let one = |name: &str, priority| bursty(with(class(name, "", "20 %"), "priority", priority), 100);
    for sharing in ["formal", "top-level", "ancestors-only"] {
        let settings = older(sharing).text("round_robin", "packet");
        let classes = [one("a", 1), one("b", 1), one("c", 7), one("d", 0)];
        let mut course = Course::new(settings, &classes);
        for name in ["a", "b", "c", "d"] {
            course.offer(name, 3);
        }
        assert_eq!(course.order(20), "c c c a b a b a b d d d", "{sharing}");
    }
}

#[test]
fn turns_by_bytes_go_on_while_a_turn_has_bytes_left() {
    let one = |name: &str, rate: &str| bursty(class(name, "", rate), 100);
    for sharing in ["formal", "top-level", "ancestors-only"] {
        // A turn is the longest packet, 1,500 bytes, and more for the larger weight.
        let mut course = Course::new(older(sharing), &[one("a", "40 %"), one("b", "40 %")]);
        course.offer("a", 9);
        course.offer("b", 9);
        let order = course.order(12);
        let sent = |name: &str| order.split(' ').filter(|one| *one == name).count();
        assert_eq!((sent("a"), sent("b")), (6, 6), "{sharing}: {order}");
        assert!(order.starts_with("a a b b a b"), "{sharing}: {order}");
    }
}

#[test]
fn a_class_that_was_emptied_is_no_longer_waited_for() {
    for sharing in ["formal", "top-level", "ancestors-only"] {
        for root in [None, Some("100 %")]
            .into_iter()
            .filter(|root| sharing != "formal" || root.is_none())
        {
            let settings = root.map_or(older(sharing), |root| older(sharing).text("root_rate", root));
            let classes = [class("a", "", "10 %"), over(class("b", "", "10 %"), "sluice")];
            let mut course = Course::new(settings, &classes);
            course.now = MS;
            course.offer("a", 9);
            course.offer("b", 9);
            let _ = course.order(3);
            let mut portion = Portion::of(u32::MAX, u32::MAX);
            course.mode.flush(&mut portion, &mut Nowhere);
            assert_eq!(course.take(), Err(None), "{sharing} {root:?}");
            assert_eq!([course.state("a"), course.state("b")], [Value::State("idle"); 2]);
            course.now = 500 * MS;
            course.offer("a", 1);
            assert_eq!(course.times(9), [500 * MS]);
        }
    }
}

#[test]
fn a_packet_of_no_class_is_dropped() {
    for settings in [Table::default(), older("top-level").text("root_rate", "100 %")] {
        let mut course = Course::new(settings, &[class("a", "", "4 Mbit/s")]);
        let packet = Packet::new(Bytes::new(LEN), course.at(), ClassId(77));
        let verdict = course.mode.enqueue(course.at(), packet, &mut Nowhere);
        assert_eq!(verdict, Verdict::Dropped(crate::discipline::Reason::NoClass));
        assert_eq!(course.take(), Err(None));
    }
}

#[test]
fn a_late_callers_lost_time_is_shown_and_earns_nobody_credit() {
    let mut course = Course::new(Table::default(), &[limited(class("a", "", "4 Mbit/s"))]);
    course.offer("a", 3);
    assert_eq!(course.times(1), [0]);
    // It could have sent at 2 ms, and a caller may be late by 5.
    course.now = 10 * MS;
    assert_eq!(course.times(1), [10 * MS]);
    let lost = Value::Duration(crate::units::Duration::from_millis(3));
    assert_eq!(course.gauge("", "lost_time"), lost);
}

/// The queue of a class, built anew.
pub(super) fn built(plan: &TreePlan, name: &str) -> BuiltQueue {
    let class = plan.class(name).expect("a class");
    plan.build_class(class, Seed(1)).expect("a queue")
}

#[test]
fn what_passed_through_a_class_counts_for_all_above_it() {
    let classes = [
        class("x", "", "6 Mbit/s"),
        class("y", "x", "2 Mbit/s"),
        class("a", "y", "1 Mbit/s"),
        class("b", "x", "1 Mbit/s"),
        class("c", "", "1 Mbit/s"),
    ];
    let mut course = Course::new(Table::default(), &classes);
    for (name, packets) in [("a", 3), ("b", 2), ("c", 4)] {
        course.offer(name, packets);
    }
    assert_eq!(course.timed(7).len(), 7);
    let mut views = Vec::new();
    course.mode.inspect(&mut Inspection::new(&mut views));
    let stats = |name: &str| {
        let id = course.id(name);
        views
            .iter()
            .find(|view| view.class == Some(id))
            .expect("a view")
            .stats
    };
    assert_eq!(
        [("x"), ("y"), ("c")].map(|name| stats(name).offered.packets),
        [5, 3, 4]
    );
    assert_eq!(stats("y").sent, stats("a").sent);
    let sent = |name: &str| stats(name).sent.packets;
    assert_eq!(sent("x"), sent("a") + sent("b"));
}

#[test]
fn few_leaves_are_not_read_ahead_of_their_packets() {
    let mut course = Course::new(Table::default(), &[class("a", "", "4 Mbit/s")]);
    let packet = || Packet::new(Bytes::new(LEN), course.at(), course.id("a"));
    let nothing = format!("{:?}", crate::prefetch::Prefetched::NOTHING);
    assert_eq!(
        format!("{:?}", course.mode.prefetch_arrivals(&[packet()])),
        nothing
    );
    course.offer("a", 1);
    let packet = Packet::new(Bytes::new(LEN), course.at(), course.id("a"));
    assert_eq!(format!("{:?}", course.mode.prefetch_arrivals(&[packet])), nothing);
}

#[test]
fn packets_that_come_faster_than_the_link_leave_one_after_the_other() {
    for (link, expected) in [("shaped", Err(Some(MS))), ("port", Ok("a".to_owned()))] {
        for root in [None, Some("100 %")] {
            let settings = older("top-level").text("link", link);
            let settings = root.map_or(settings.clone(), |root| settings.text("root_rate", root));
            let mut course = Course::new(settings, &[bursty(class("a", "", "4 Mbit/s"), 30)]);
            course.now = 100 * MS;
            course.offer("a", 9);
            assert_eq!(course.take(), Ok("a".to_owned()));
            let later = |answer: Result<String, Option<u64>>| answer.map_err(|at| at.map(|at| at - 100 * MS));
            assert_eq!(later(course.take()), expected, "{link}, {root:?}");
        }
    }
}

#[test]
fn top_level_sharing_lends_up_to_the_level_of_the_last_lender() {
    let classes = [
        class("x", "", "6 Mbit/s"),
        bursty(class("a", "x", "1 Mbit/s"), 3),
        class("b", "", "1 Mbit/s"),
    ];
    let mut course = Course::new(older("top-level"), &classes);
    let (a, b, x) = (course.number("a"), course.number("b"), course.number("x"));
    assert_eq!(course.cbq().cutoff, 1);
    course.offer("a", 2);
    // An arrival for a class within its limit: nobody above it lends.
    assert_eq!(course.cbq().cutoff, 0);
    let cbq = course.cbq();
    cbq.cutoff = 1;
    cbq.lower_cutoff(b, 0);
    assert_eq!(cbq.cutoff, 0);
    let lowered = |cbq: &mut Cbq, leaf: i64, parent: i64| {
        cbq.cutoff = 2;
        cbq.mark(a, super::state::OVER, leaf <= 0);
        (cbq.nodes[a].credit.left, cbq.nodes[x].credit.left) = (leaf, parent);
        cbq.lower_cutoff(a, 0);
        cbq.cutoff
    };
    assert_eq!(
        [(1, 0), (0, 1), (0, 0)].map(|(leaf, parent)| lowered(cbq, leaf, parent)),
        [0, 1, 2]
    );
}
