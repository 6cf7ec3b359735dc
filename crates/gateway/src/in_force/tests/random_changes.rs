//! Random changes of every sort under load, judged exactly: the worker between ports in memory, on
//! a clock of the test's own, which stands still but for what the test charges.
//!
//! - No packet is lost, duplicated or reordered in its flow.
//! - The link never idles while a packet waits: a change costs it no time.
//! - A packet waits no longer than it would under the one or the other policy alone, but for a
//!   millisecond in one case of a hundred, where each piece of a change holds the loop up.
//! - All classes have their new rates in the first second.

use super::random_policies::{ASPECTS, RandomPolicy, Share};
use super::*;
use netio::pool::Slots;
use netio::worker::Turn;
use std::collections::BTreeSet;

const FLOWS: usize = 6;
const PORTS: [u16; FLOWS] = [1_000, 1_001, 1_002, 1_003, 1_004, 1_005];
/// What a piece of a change may hold the loop up.
const PIECE: Duration = Duration::from_micros(100);
const MILLISECOND: u64 = 1_000_000;
/// What a window has: three bursts, a change within the second, and time to send all.
const WINDOW: Duration = Duration::from_millis(30);
const BETWEEN: Duration = Duration::from_millis(10);

fn read(policy: &RandomPolicy) -> InterfacePolicy {
    super::read(&policy.text("", &PORTS))
}

/// How many changes: 100, or as said.
fn changes() -> u64 {
    let said = std::env::var("SUIMON_CHANGES").ok();
    said.and_then(|text| text.parse().ok()).unwrap_or(100)
}

/// A packet that has arrived, or is to arrive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    at: Instant,
    flow: usize,
    number: u32,
    length: usize,
}

/// A packet that has left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Left {
    at: Instant,
    flow: usize,
    number: u32,
    length: usize,
}

/// The running program: worker, ports, what is in force.
pub(super) struct Bench {
    worker: Worker,
    handle: Handle,
    in_force: InForce,
    near: Memory,
    far: Memory,
    now: Instant,
    /// When it has something to do.
    next: Instant,
    left: Vec<Left>,
}

impl Bench {
    pub(super) fn new(policy: &InterfacePolicy, now: Instant) -> Self {
        let slots = Slots {
            small: 1_024,
            big: 1_024,
        };
        let settings = Settings {
            slots,
            ..Settings::default()
        };
        let (mut worker, handle) = Worker::new(settings).expect("a worker");
        let mut port = |name| {
            let capabilities = Capabilities::plain(1_500, 64);
            let [port, end] = Memory::pair([name, "far end"], capabilities).expect("a wire");
            (worker.add_port(Box::new(port)), end)
        };
        let ((from, near), (to, far)) = (port("lan0"), port("wan0"));
        let whole = vacancies::laid_out(policy, &Registry::builtin());
        let path = worker.add_path(direction::managed(&whole, from, to));
        let running = [((path, policy.clone()), whole)];
        let in_force = InForce::running(handle.clone(), Registry::builtin(), running);
        let mut bench = Self {
            worker,
            handle,
            in_force,
            near,
            far,
            now,
            next: Instant::NEVER,
            left: Vec::new(),
        };
        bench.settle();
        bench
    }

    /// A turn of the loop at this time; whether it had something to do.
    fn turn(&mut self) -> bool {
        let turn = self.worker.turn_at(self.now);
        while let Some(frame) = self.far.take() {
            let (flow, number) = told(&frame.bytes);
            self.left.push(Left {
                at: self.now,
                flow,
                number,
                length: frame.bytes.len(),
            });
        }
        match turn {
            Turn::Busy => true,
            Turn::Idle(until) => {
                self.next = until;
                false
            }
            Turn::Done => panic!("the worker has ended"),
        }
    }

    fn settle(&mut self) {
        assert!((0..10_000).any(|_| !self.turn()), "the worker never idles");
    }

    /// Lets time pass up to this, and sends what is due then.
    fn run_until(&mut self, end: Instant) {
        while self.next <= end {
            self.now = self.next.max(self.now);
            self.settle();
        }
        self.now = self.now.max(end);
    }

    fn arrive(&mut self, sent: &Sent) {
        let frame = frame_of(sent.flow as u16, sent.number, sent.length);
        self.near.send(&frame, Offload::default());
    }

    /// Those that arrive by now.
    fn arrive_by_now(&mut self, coming: &mut &[Sent]) {
        while let Some((first, rest)) = coming.split_first().filter(|(first, _)| first.at <= self.now) {
            self.arrive(first);
            *coming = rest;
        }
    }

    pub(super) fn run_with(&mut self, coming: &mut &[Sent], end: Instant) {
        while let Some(first) = coming.first().filter(|first| first.at <= end) {
            self.run_until(first.at);
            self.arrive_by_now(coming);
            self.settle();
        }
        self.run_until(end);
    }

    /// That the worker runs what it was asked, as it tells.
    fn runs_as_asked(&mut self, what: &str) {
        let in_force = std::mem::replace(
            &mut self.in_force,
            InForce::new(self.handle.clone(), Registry::builtin(), []),
        );
        let unlike = std::thread::scope(|scope| {
            let asked = scope.spawn(|| in_force.unlike());
            while !asked.is_finished() {
                self.turn();
            }
            asked.join().expect("no panic").expect("an answer")
        });
        self.in_force = in_force;
        assert!(unlike.values().all(Vec::is_empty), "{what}: {unlike:?}");
    }

    /// The delay of each packet that arrived, in this order; each has left once, and in order.
    pub(super) fn delays(&self, sent: &[Sent]) -> Vec<u64> {
        delays(sent, &self.left, "all of it")
    }

    /// Puts a policy into force. Each turn of the loop that does something for it takes a `piece`.
    /// In how many pieces.
    pub(super) fn change(&mut self, policy: &InterfacePolicy, coming: &mut &[Sent], piece: Duration) -> u64 {
        let in_force = std::mem::replace(
            &mut self.in_force,
            InForce::new(self.handle.clone(), Registry::builtin(), []),
        );
        let mut pieces = 0;
        let adopted = std::thread::scope(|scope| {
            let asked = scope.spawn(|| in_force.put(policy.clone(), policy.clone()));
            let mut done = false;
            loop {
                if self.turn() {
                    pieces += 1;
                    self.now = self.now + piece;
                    self.arrive_by_now(coming);
                } else if done {
                    break asked.join().expect("no panic").expect("a change");
                }
                // What it did before it answered is done in the turns that follow.
                done = asked.is_finished();
            }
        });
        self.in_force = in_force;
        if pieces == 0 {
            // It was adopted as a whole: one piece.
            self.now = self.now + piece;
            self.arrive_by_now(coming);
            self.settle();
            pieces = 1;
        }
        if let Adopted::Rebuilt { dropped } = adopted.adopted {
            assert_eq!(dropped, 0, "packets did not fit");
        }
        pieces
    }
}

/// So many packets of the first flow, one after each such time.
pub(super) fn steady(begin: Instant, packets: u32, between: Duration) -> Vec<Sent> {
    let sent = |number: u32| Sent {
        at: begin + Duration::from_nanos(between.nanos() * u64::from(number)),
        flow: 0,
        number,
        length: 642,
    };
    (0..packets).map(sent).collect()
}

/// What arrives in a window: every 10 ms bursts of all flows, which take the link milliseconds.
fn bursts(begin: Instant, numbers: &mut [u32; FLOWS]) -> Vec<Sent> {
    let mut all = Vec::new();
    for burst in 0..3 {
        let begin = begin + Duration::from_nanos(burst * BETWEEN.nanos());
        for (flow, number) in numbers.iter_mut().enumerate() {
            let (packets, length) = [(15, 1_442), (5, 242)].get(flow).copied().unwrap_or((2, 642));
            for packet in 0..packets {
                all.push(Sent {
                    // No two at the same time.
                    at: begin + Duration::from_nanos(packet * 20_000 + flow as u64),
                    flow,
                    number: *number,
                    length,
                });
                *number += 1;
            }
        }
    }
    all.sort_by_key(|sent| sent.at);
    all
}

/// The delay of each packet that arrived, in this order; each has left once, and in order.
fn delays(sent: &[Sent], left: &[Left], what: &str) -> Vec<u64> {
    assert_eq!(left.len(), sent.len(), "{what}");
    let of_flow = |flow: usize| left.iter().filter(move |left| left.flow == flow);
    let mut flows: [_; FLOWS] = std::array::from_fn(of_flow);
    let delay = |sent: &Sent| {
        let left = flows[sent.flow].next().expect("as many leave as arrive");
        assert_eq!(left.number, sent.number, "{what}: {sent:?}");
        left.at.since(sent.at).nanos()
    };
    sent.iter().map(delay).collect()
}

/// Nanoseconds that remainders of divisions add up to.
const ROUNDED: u64 = 10;

/// The link takes a packet as soon as it is free and one waits. Its rate is the first, and from
/// this time on the second.
fn assert_never_idle(sent: &[Sent], left: &[Left], (before, at, after): (u64, Instant, u64), what: &str) {
    let mut waiting: BTreeSet<(u64, usize, u32)> = sent
        .iter()
        .map(|sent| (sent.at.nanos(), sent.flow, sent.number))
        .collect();
    let arrivals: BTreeMap<(usize, u32), u64> = sent
        .iter()
        .map(|sent| ((sent.flow, sent.number), sent.at.nanos()))
        .collect();
    let (mut free, mut rate, mut changed) = (0, before, false);
    for packet in left {
        if !changed && packet.at > at {
            // What the link has taken ahead it sends at the new rate.
            let ahead = free as f64 - at.nanos() as f64;
            free = (at.nanos() as f64 + ahead.max(0.0) * before as f64 / after as f64) as u64;
            (rate, changed) = (after, true);
        }
        let first = waiting.first().expect("it waits").0;
        let due = free.max(first);
        let start = packet.at.nanos();
        assert!(
            start.abs_diff(due) <= ROUNDED,
            "{what}: {packet:?} left at {start}, and could at {due}"
        );
        waiting.remove(&(
            arrivals[&(packet.flow, packet.number)],
            packet.flow,
            packet.number,
        ));
        free = start + packet.length as u64 * 8 * 1_000 / rate;
    }
}

#[test]
fn a_flow_beside_the_classes_that_change_does_not_overtake_itself() {
    let class = |name: &str, default: bool| {
        format!(
            "[[interface.wan0.class]]\nname = \"{name}\"\ndefault = {default}\ndiscipline = \"fq_codel\"\n"
        )
    };
    let policy = |default: &str| {
        let classes = ["calls", "office", "rest"].map(|name| class(name, name == default));
        let text = format!(
            "version = 1\n[interface.wan0]\nbandwidth = \"10 Mbit/s\"\ndiscipline = \"drr\"\n{}\
             [[interface.wan0.filter]]\nclass = \"calls\"\nprotocol = \"udp\"\ndestination_port = 1000\n",
            classes.concat()
        );
        let read = Policy::read("test", &text, &Registry::builtin(), &[]);
        read.expect("a policy").interfaces.remove(0)
    };
    let begin = Instant::START + Duration::from_secs(1);
    let sent: Vec<Sent> = (0..20)
        .map(|number| Sent {
            at: begin + Duration::from_micros(number.into()),
            flow: 0,
            number,
            length: 1_442,
        })
        .collect();
    let (mut bench, mut coming) = (Bench::new(&policy("office"), begin), &sent[..]);
    bench.run_with(&mut coming, begin + Duration::from_micros(9));
    bench.change(&policy("rest"), &mut coming, Duration::ZERO);
    bench.run_with(&mut coming, begin + Duration::from_secs(1));
    let _ = delays(&sent, &bench.left, "another default");
}

/// What changed, and how often.
#[derive(Default, Debug)]
struct Seen {
    aspects: BTreeMap<&'static str, u64>,
    alone: BTreeMap<&'static str, u64>,
}

impl Seen {
    fn note(&mut self, differences: &BTreeSet<&'static str>) {
        for aspect in differences {
            *self.aspects.entry(aspect).or_default() += 1;
            if differences.len() == 1 {
                *self.alone.entry(aspect).or_default() += 1;
            }
        }
    }

    fn assert_all(&self, changes: u64) {
        for aspect in ASPECTS {
            let (all, alone) = (self.aspects.get(aspect), self.alone.get(aspect));
            let often = |found: Option<&u64>, of| found.is_some_and(|found| *found >= changes / of);
            assert!(often(all, 10) && often(alone, 50), "{aspect}: {self:?}");
        }
    }
}

/// All of a window that begins now: the delays of its packets, and the pieces of the change.
fn window(
    bench: &mut Bench,
    sent: &[Sent],
    change: Option<(Instant, &InterfacePolicy, Duration)>,
    what: &str,
) -> (Vec<u64>, u64) {
    let (mut coming, mut pieces) = (sent, 0);
    bench.left.clear();
    let end = sent[0].at + WINDOW - Duration::from_micros(1);
    if let Some((at, policy, piece)) = change {
        bench.run_with(&mut coming, at);
        pieces = bench.change(policy, &mut coming, piece);
    }
    bench.run_with(&mut coming, end);
    (delays(sent, &bench.left, what), pieces)
}

/// No change of any sort, under bursts, leaves a class without its settings or its queue.
#[test]
fn what_runs_after_a_change_is_what_was_asked() {
    let mut rng = Seed(1).stream();
    let mut policy = RandomPolicy::draw(&mut rng, FLOWS);
    let mut begin = Instant::START + Duration::from_secs(1);
    let mut running = Bench::new(&read(&policy), begin);
    let (mut seen, mut numbers) = (Seen::default(), [0; FLOWS]);
    for change in 0..changes() {
        let next = policy.next(&mut rng);
        seen.note(&next.differences(&policy));
        let what = format!("change {change}: {policy:?} to {next:?}");
        let sent = bursts(begin, &mut numbers);
        let at = begin + BETWEEN + Duration::from_micros(rng.below(6_000));
        let _ = window(
            &mut running,
            &sent,
            Some((at, &read(&next), Duration::ZERO)),
            &what,
        );
        running.runs_as_asked(&what);
        begin = begin + WINDOW;
        policy = next;
    }
    seen.assert_all(changes());
}

#[test]
fn a_change_delays_packets_by_a_millisecond_at_most_and_loses_and_reorders_none() {
    let changes = changes();
    let mut rng = Seed(1).stream();
    let mut policy = RandomPolicy::draw(&mut rng, FLOWS);
    let mut in_force = read(&policy);
    let mut begin = Instant::START + Duration::from_secs(1);
    let mut running = Bench::new(&in_force, begin);
    let [mut added, mut held_up, mut pieces] = [const { Vec::new() }; 3];
    let mut seen = Seen::default();
    let mut numbers = [0; FLOWS];
    for change in 0..changes {
        let next = policy.next(&mut rng);
        seen.note(&next.differences(&policy));
        let new = read(&next);
        let what = format!("change {change}: {policy:?} to {next:?}");
        let sent = bursts(begin, &mut numbers);
        let at = begin + BETWEEN + Duration::from_micros(rng.below(6_000)) + Duration::from_nanos(500);
        let _ = window(&mut running, &sent, Some((at, &new, Duration::ZERO)), &what);
        let rates = (policy.mbit, at, next.mbit);
        assert_never_idle(&sent, &running.left, rates, &what);
        // Begun together, so that rounds of classes are where they are without the change.
        let [(found, turns), (at_once, _), (stays, _), (has_been, _)] = [
            (&in_force, Some((at, &new, PIECE))),
            (&in_force, Some((at, &new, Duration::ZERO))),
            (&in_force, None),
            (&new, None),
        ]
        .map(|(first, change)| window(&mut Bench::new(first, begin), &sent, change, &what));
        pieces.push(turns);
        for (n, sent) in sent.iter().enumerate() {
            added.push(found[n].saturating_sub(stays[n].max(has_been[n])));
            if sent.at + Duration::from_nanos(found[n]) >= at && sent.at < begin + BETWEEN + BETWEEN {
                held_up.push(found[n].saturating_sub(at_once[n]));
            }
        }
        begin = begin + WINDOW;
        (policy, in_force) = (next, new);
    }
    seen.assert_all(changes);
    let [added, held_up, pieces] = [added, held_up, pieces].map(Distribution::of);
    eprintln!("{changes} changes, {seen:?}; pieces of each: {pieces}");
    eprintln!(
        "changes: on a clock of the test's own, {changes}, lost, duplicated, reordered of {} packets: 0; the link idle while one waited: never",
        added.count
    );
    eprintln!(
        "changes: on that clock, ns of delay beyond that of both policies alone: {added}; ns of those that felt the time that changes took: {held_up}"
    );
    assert!(added.p99 <= MILLISECOND, "{added}");
    // Below, as each change holds the loop up for a piece: what is measured here is felt.
    assert!(
        held_up.p99 <= MILLISECOND && held_up.longest > PIECE.nanos() / 2,
        "{held_up}"
    );
}

/// Of values in order.
struct Distribution {
    count: usize,
    p50: u64,
    p99: u64,
    longest: u64,
}

impl Distribution {
    fn of(mut all: Vec<u64>) -> Self {
        all.sort_unstable();
        let quantile = |part: usize| all[(all.len() * part / 100).min(all.len() - 1)];
        Self {
            count: all.len(),
            p50: quantile(50),
            p99: quantile(99),
            longest: quantile(100),
        }
    }
}

impl std::fmt::Display for Distribution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            count,
            p50,
            p99,
            longest,
        } = self;
        write!(
            f,
            "of {count} {p50} at the median, {p99} for 99 of 100, {longest} at most"
        )
    }
}

/// So many packets of each flow are always queued: as one leaves, another arrives.
const QUEUED: u32 = 12;
const LENGTH: usize = 1_442;

/// Lets a second pass in which all flows are never without packets. The bytes of each.
fn second(bench: &mut Bench, numbers: &mut [u32; FLOWS]) -> [u64; FLOWS] {
    let end = bench.now + Duration::from_secs(1);
    let mut bytes = [0; FLOWS];
    loop {
        for left in std::mem::take(&mut bench.left) {
            bytes[left.flow] += left.length as u64;
            send_another(bench, left.flow, numbers);
        }
        bench.settle();
        if bench.next > end {
            bench.now = end;
            return bytes;
        }
        bench.now = bench.next.max(bench.now);
        bench.settle();
    }
}

fn send_another(bench: &mut Bench, flow: usize, numbers: &mut [u32; FLOWS]) {
    let sent = Sent {
        at: bench.now,
        flow,
        number: numbers[flow],
        length: LENGTH,
    };
    bench.arrive(&sent);
    numbers[flow] += 1;
}

#[test]
fn all_classes_have_their_rates_within_a_second_of_a_change() {
    let changes = changes();
    let mut rng = Seed(2).stream();
    let mut policy = RandomPolicy::draw(&mut rng, FLOWS);
    let mut bench = Bench::new(&read(&policy), Instant::START + Duration::from_secs(1));
    let (mut numbers, mut seen, mut judged) = ([0; FLOWS], Seen::default(), 0);
    let mut worst = 0.0f64;
    for flow in 0..FLOWS {
        (0..QUEUED).for_each(|_| send_another(&mut bench, flow, &mut numbers));
    }
    for change in 0..changes {
        let next = policy.next(&mut rng);
        seen.note(&next.differences(&policy));
        bench.change(&read(&next), &mut &[][..], Duration::ZERO);
        let bytes = second(&mut bench, &mut numbers);
        let link = next.mbit * 1_000_000 / 8;
        let what = || format!("change {change}: {policy:?} to {next:?}: {bytes:?}");
        let all: u64 = bytes.iter().sum();
        assert!(all.abs_diff(link) <= 2 * LENGTH as u64, "{} of {link}", what());
        for Share { flows, part, exact } in next.shares() {
            let got: u64 = flows.iter().map(|flow| bytes[*flow]).sum();
            let off = (got as f64 - part * link as f64) / link as f64;
            let off = if exact { off.abs() } else { -off };
            worst = worst.max(off);
            assert!(off < 0.02, "{flows:?} have {off} too much or little; {}", what());
            judged += u64::from(exact);
        }
        policy = next;
    }
    seen.assert_all(changes);
    eprintln!("{changes} changes, {seen:?}");
    eprintln!(
        "changes: on that clock, {changes}, {judged} exact shares in the first second: off by {:.2} % of the link at most",
        worst * 100.0
    );
    assert!(judged > changes, "only {judged} shares were judged exactly");
}
