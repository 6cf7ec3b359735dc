//! A tape of what passes through a worker's queue, done again, gives the same departures to the
//! nanosecond; and a candidate beside the live policy has the figures that it would have live.
//!
//! Policies of every kind are drawn at random, before a port that stalls at random, in a loop that
//! is held up at random, with changes of plan and bandwidth, the discipline switched off and on,
//! and the tape begun anew under way, at once or when nothing is queued. The worker runs between
//! ports in memory, on a clock of the test's own. Shortened, a tape gives the same departures too.

#[allow(dead_code, reason = "the engine's tests use more of it")]
#[path = "../../engine/tests/contract/policies.rs"]
mod policies;

#[path = "recording/in_pieces.rs"]
mod in_pieces;

use control::policy::Policy;
use engine::classify::{Classifier, Filter, Ports};
use engine::framing::{Framing, Linklayer};
use engine::header::{Family, FlowKey};
use engine::kind::{Children, Kind};
use engine::packet::{Buffer, ClassId, Ecn};
use engine::random::{Rng, Seed};
use engine::tree::{Registry, TreePlan};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use netio::classify::{ByFilters, Classify};
use netio::handle::{Handle, PathView, Retune, TapeWish};
use netio::pool::{Offload, Pool, Slots};
use netio::port::{Capabilities, Counters, Port, PortError, Wake};
use netio::ports::memory::Memory;
use netio::realiser::Realiser;
use netio::realiser::timer::Timer;
use netio::replay::Beginning;
use netio::replay::candidate::Candidate;
use netio::replay::event::{Events, TapeEvent};
use netio::replay::recreation::{Change, Departure, Recreation};
use netio::replay::shortened::{ShortEvent, ShortEvents, Shortener};
use netio::replay::tape::{BeginsAnew, Read, Rebase, TapeReader, Taped, tape};
use netio::worker::{PathId, PathSpec, Settings, Turn, Worker};
use sim::capture::headers;
use sim::packet::{Payload, SimPacket};
use std::sync::{Arc, Mutex, PoisonError};

/// Policies in the debug build of CI; `RECORDED_POLICIES` says otherwise.
const POLICIES: u64 = 150;
const FLOWS: u16 = 6;
const ARRIVALS: usize = 150;
/// Bytes of the headers that identify a packet.
const HEADERS: usize = 42;
/// Those that add the same to each frame first.
const FRAMINGS: [Framing; 6] = [
    Framing::PLAIN,
    Framing::PLAIN,
    Framing::add(24),
    Framing::add(-14),
    Framing::ATM,
    Framing::new(8, 68, Linklayer::Ptm),
];

/// A packet that went to the port: when, and its headers.
type Left = (Instant, Vec<u8>);

/// A port without a wire: it sends at once, but for times when it has no room.
#[derive(Debug, Default)]
struct Stalls {
    now: Instant,
    until: Instant,
    left: Vec<Left>,
}

#[derive(Debug, Clone, Default)]
struct ToNowhere(Arc<Mutex<Stalls>>);

impl ToNowhere {
    fn with<T>(&self, act: impl FnOnce(&mut Stalls) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Port for ToNowhere {
    fn name(&self) -> &'static str {
        "nowhere"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::plain(1_500, 64)
    }

    fn receive(&mut self, _pool: &mut Pool, _into: &mut Vec<Buffer>) -> Result<(), PortError> {
        Ok(())
    }

    fn room(&self) -> usize {
        self.with(|port| usize::from(port.now >= port.until) * 64)
    }

    fn transmit(&mut self, pool: &mut Pool, frame: Buffer) {
        let headers = pool.bytes(frame)[..HEADERS].to_vec();
        self.with(|port| port.left.push((port.now, headers)));
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
        Counters::default()
    }
}

/// A policy: a plan and its filters.
#[derive(Clone)]
struct Drawn {
    plan: TreePlan,
    filters: Vec<Filter>,
}

impl Drawn {
    fn classify(&self, seed: Seed) -> Box<dyn Classify> {
        let classifier = Classifier::new(self.filters.iter().copied(), seed);
        Box::new(ByFilters::new(classifier, &self.plan, seed))
    }

    fn beginning(&self, seed: Seed) -> Beginning {
        Beginning {
            name: "test".into(),
            plan: self.plan.clone(),
            seed,
            classify: self.classify(seed),
            bandwidth: Some(self.plan.link.bandwidth),
            framing: self.plan.link.framing,
            guarantees: Vec::new(),
        }
    }

    /// As a change: as the gateway makes one.
    fn retune(&self, before: &Self, seed: Seed) -> Retune {
        let alike = before.plan.has_classes_of(&self.plan) && before.filters == self.filters;
        let bandwidth = self.plan.link.bandwidth;
        Retune {
            plan: self.plan.clone(),
            seed,
            classify: (!alike).then(|| self.classify(seed)),
            bandwidth: Some(bandwidth).filter(|new| *new != before.plan.link.bandwidth),
            guarantees: Vec::new(),
        }
    }
}

/// What happens to the worker, beside arrivals.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Step {
    /// A frame of this flow and length.
    Arrive(u16, u64, Ecn),
    /// To the policy of this number.
    Change(usize),
    Switch(bool),
    Stall(Duration),
    /// The loop does nothing for so long: its host is stopped, or does other things.
    HoldUp(Duration),
    /// The tape is to begin anew.
    Rebase(BeginsAnew),
    /// More than a few packets are queued, or the test fails.
    Standing,
}

struct Trial {
    policies: Vec<Drawn>,
    steps: Vec<(Instant, Step)>,
    paced: bool,
    spins: u64,
}

fn key(flow: u16) -> FlowKey {
    FlowKey {
        family: Family::V4,
        protocol: 17,
        source: 0x0a00_0001,
        destination: 0x0a00_0002,
        source_port: Some(1_000 + flow),
        destination_port: Some(2_000),
        dscp: [0, 46, 10, 14, 8, 34][flow as usize % 6],
        ethertype: 0x0800,
        ..FlowKey::default()
    }
}

/// The worker, its ports, and the reader of its tape.
struct Live {
    worker: Worker,
    handle: Handle,
    input: Memory,
    port: ToNowhere,
    reader: TapeReader,
    next: Instant,
    now: Instant,
    /// Until when the loop is held up.
    held_up: Instant,
    /// How often it looks in vain before a due time.
    spins: u64,
}

impl Live {
    fn new(trial: &Trial, seed: Seed) -> Self {
        let slots = Slots {
            small: 1_024,
            big: 64,
        };
        let settings = Settings {
            slots,
            ..Settings::default()
        };
        let (mut worker, handle) = Worker::new(settings).expect("a worker");
        let able = Capabilities::plain(1_500, 64);
        let [near, input] = Memory::pair(["in", "far end"], able).expect("a wire");
        let port = ToNowhere::default();
        let from = worker.add_port(Box::new(near));
        let to = worker.add_port(Box::new(port.clone()));
        let first = &trial.policies[0];
        let pacing = first.plan.root.plan.pacing().filter(|_| trial.paced);
        worker.add_path(PathSpec {
            name: "test".into(),
            from,
            to,
            mark: 0,
            classify: first.classify(seed),
            queue: first.plan.build(seed),
            plan: Some(first.plan.clone()),
            bandwidth: Some(first.plan.link.bandwidth),
            framing: first.plan.link.framing,
            realiser: pacing.map(|pacing| Box::new(Timer::new(pacing, 1_500, None)) as Box<dyn Realiser>),
            wire: None,
            guarantees: Vec::new(),
        });
        let (writer, reader) = tape();
        let mut live = Self {
            worker,
            handle,
            input,
            port,
            reader,
            next: Instant::NEVER,
            now: Instant::START,
            held_up: Instant::START,
            spins: trial.spins,
        };
        let taped = live.ask(|handle| handle.tape(PathId(0), TapeWish::Start(writer)));
        assert!(matches!(
            taped,
            Ok(Taped::Done {
                fresh: true,
                changes: 0
            })
        ));
        live
    }

    /// Asks the worker from another thread, as a gateway does.
    fn ask<T: Send>(&mut self, ask: impl FnOnce(&Handle) -> T + Send) -> T {
        let handle = self.handle.clone();
        std::thread::scope(|scope| {
            let asked = scope.spawn(move || ask(&handle));
            while !asked.is_finished() {
                let _ = self.worker.turn_at(self.now);
            }
            asked.join().expect("a thread")
        })
    }

    fn settle(&mut self, now: Instant) {
        self.now = now;
        self.port.with(|port| port.now = now);
        let mut turns = (0..10_000).map(|_| self.worker.turn_at(now));
        let idle = turns.find_map(|turn| match turn {
            Turn::Idle(until) => Some(until),
            Turn::Busy | Turn::Done => None,
        });
        let until = idle.expect("it never idles");
        let room = self
            .port
            .with(|port| Some(port.until).filter(|until| *until > now));
        self.next = until.min(room.unwrap_or(Instant::NEVER));
    }

    /// Unless it is held up.
    fn settle_at(&mut self, at: Instant) {
        if at < self.held_up {
            self.next = self.held_up;
        } else {
            self.settle(at);
        }
    }

    fn run_until(&mut self, end: Instant) {
        while self.next.max(self.held_up) <= end && self.next != Instant::NEVER {
            let (from, next) = (self.now, self.next.max(self.held_up));
            let part = next.since(from).nanos() / (self.spins + 1);
            for spin in 1..=self.spins {
                self.settle(from + Duration::from_nanos(part * spin));
            }
            self.settle(next);
        }
        self.now = end;
        self.port.with(|port| port.now = end);
    }

    /// Packets that have neither left nor been dropped.
    fn queued(&mut self) -> u64 {
        let totals = self.worker.show(self.now).paths[0].totals;
        totals.offered.packets - totals.sent.packets - totals.dropped.packets
    }

    fn written(&mut self) -> Vec<u8> {
        self.ask(|handle| handle.tape(PathId(0), TapeWish::Flush))
            .expect("an answer");
        let mut bytes = Vec::new();
        loop {
            match self.reader.read(std::time::Duration::ZERO) {
                Read::Chunk(chunk) => bytes.extend(chunk),
                Read::Nothing => return bytes,
                other => panic!("{other:?}"),
            }
        }
    }
}

/// What a worker did.
struct Done {
    left: Vec<Left>,
    tape: Vec<u8>,
    view: PathView,
    /// The policy and the seed of each change.
    changes: Vec<(usize, usize, Seed)>,
    end: Instant,
}

fn live(trial: &Trial, seed: Seed) -> Done {
    let mut live = Live::new(trial, seed);
    let mut changes = Vec::new();
    let mut present = 0;
    for (number, (at, step)) in trial.steps.iter().enumerate() {
        live.run_until(*at);
        let own = seed.fork(&number.to_string());
        match *step {
            Step::Arrive(flow, frame, ecn) => {
                let mut bytes = Vec::new();
                let packet = SimPacket {
                    ecn,
                    ..SimPacket::new(Bytes::new(frame), Payload::Datagram(0))
                };
                headers::write(&mut bytes, &key(flow), &packet);
                bytes.resize(frame as usize, 0);
                // What tells packets of a flow apart.
                bytes[18..20].copy_from_slice(&(number as u16).to_be_bytes());
                live.input.send(&bytes, Offload::default());
            }
            Step::Change(to) => {
                let retune = trial.policies[to].retune(&trial.policies[present], own);
                live.ask(|handle| handle.retune(PathId(0), retune))
                    .expect("an answer");
                changes.push((present, to, own));
                present = to;
            }
            Step::Switch(on) => live
                .ask(|handle| handle.switch(PathId(0), on))
                .expect("an answer"),
            Step::Stall(time) => live.port.with(|port| port.until = *at + time),
            Step::HoldUp(time) => live.held_up = *at + time,
            Step::Standing => assert!(live.queued() > 3, "step {number}: {} are queued", live.queued()),
            Step::Rebase(when) => {
                let rebase = Rebase {
                    when,
                    queue: trial.policies[present].plan.build(rebase_seed(seed)),
                    changes: changes.len() as u64,
                    former: std::sync::mpsc::channel().0,
                };
                let taped = live.ask(|handle| handle.tape(PathId(0), TapeWish::Rebase(rebase)));
                assert!(matches!(taped, Ok(Taped::Done { .. })), "{taped:?}");
            }
        }
        live.settle_at(*at);
    }
    let end = live.now + Duration::from_secs(20);
    live.run_until(end);
    Done {
        tape: live.written(),
        left: live.port.with(|port| std::mem::take(&mut port.left)),
        view: live.worker.show(end).paths.remove(0),
        changes,
        end,
    }
}

/// What left of a tape that was done again.
#[derive(Default)]
struct Again {
    /// Packets that left before its beginning.
    before: usize,
    left: Vec<Left>,
    /// When and with what length each had arrived, and its class.
    packets: Vec<(Instant, Bytes, ClassId)>,
    view: Option<PathView>,
}

/// A tape as it is.
fn whole(tape: &[u8]) -> impl Iterator<Item = ShortEvent<'_>> {
    Events::new(tape).map(|event| ShortEvent::Whole(event.expect("a whole tape")))
}

/// The same in short form, so many events at a time. It begins anew with a chunk, never within one.
fn shortened(tape: &[u8], events: usize) -> Vec<u8> {
    let (mut shortener, mut short) = (Shortener::default(), Vec::new());
    let all: Vec<_> = Events::new(tape)
        .map(|event| event.expect("a whole tape"))
        .collect();
    let goes_on = |_: &TapeEvent<'_>, next: &TapeEvent<'_>| !matches!(next, TapeEvent::Start { .. });
    let chunks = all.chunk_by(goes_on).flat_map(|stretch| stretch.chunks(events));
    for events in chunks {
        let mut chunk = Vec::new();
        events.iter().for_each(|event| event.write(&mut chunk));
        shortener.shorten(&chunk, &mut short).expect("whole events");
    }
    short
}

/// Does a tape again, from its `from`th beginning on.
fn again<'a>(
    trial: &Trial,
    seed: Seed,
    done: &Done,
    tape: impl Iterator<Item = ShortEvent<'a>>,
    from: usize,
) -> Again {
    let mut all = Again::default();
    let mut recreation: Option<Recreation> = None;
    let mut starts = 0;
    let mut changed = 0;
    for event in tape {
        if let ShortEvent::Whole(TapeEvent::Start { fresh: true, .. }) = event {
            starts += 1;
            let begins = starts > from;
            let beginning = match starts {
                1 => trial.policies[0].beginning(seed),
                _ => {
                    let present = done.changes[..changed].last().map_or(0, |(_, to, _)| *to);
                    let (by, own) = classifier(trial, seed, &done.changes[..changed]);
                    Beginning {
                        classify: trial.policies[by].classify(own),
                        ..trial.policies[present].beginning(rebase_seed(seed))
                    }
                }
            };
            if begins {
                recreation = Some(Recreation::new(beginning).expect("memory"));
            }
        }
        let next = matches!(event, ShortEvent::Whole(TapeEvent::Changed { .. })).then(|| {
            changed += 1;
            done.changes[changed - 1]
        });
        let Some(recreation) = &mut recreation else {
            if let ShortEvent::Whole(TapeEvent::Asked(asked)) = event {
                all.before += asked.sent as usize;
            }
            continue;
        };
        let mut change = || {
            let (was, to, own) = next?;
            Some(Change::Whole(
                trial.policies[to].retune(&trial.policies[was], own),
            ))
        };
        let mut leaving = |Departure { at, packet, headers }: Departure<'_>| {
            all.left
                .push((at, headers[..headers.len().min(HEADERS)].to_vec()));
            all.packets.push((packet.arrived, packet.len, packet.class));
        };
        let again = recreation.again_in_short(&event, &mut change, &mut leaving);
        again.unwrap_or_else(|why| panic!("{why}"));
    }
    all.view = recreation.map(|mut recreation| recreation.show());
    all
}

/// The policy and the seed of the classifier that is in force after these changes.
fn classifier(trial: &Trial, seed: Seed, changes: &[(usize, usize, Seed)]) -> (usize, Seed) {
    let anew = |(was, to, own): &(usize, usize, Seed)| {
        let retune = trial.policies[*to].retune(&trial.policies[*was], *own);
        retune.classify.is_some().then_some((*to, *own))
    };
    changes.iter().rev().find_map(anew).unwrap_or((0, seed))
}

/// The seed of trees with which the tape begins anew.
fn rebase_seed(seed: Seed) -> Seed {
    seed.fork("anew")
}

/// Class by class: packets and bytes sent, and drops.
fn figures(view: &PathView) -> Vec<(u32, u64, u64)> {
    let sent = view.classes.iter().filter(|class| class.sent.packets > 0);
    sent.map(|class| (class.class.0, class.sent.packets, class.sent.bytes.get()))
        .collect()
}

fn steps(rng: &mut Rng, bandwidth: Bandwidth, policies: usize, plain: bool) -> Vec<(Instant, Step)> {
    let mut at = Instant::START + Duration::from_micros(1_000);
    let load = 1 + rng.below(4);
    let mut on = true;
    let mut one = |rng: &mut Rng| {
        let frame = [60, 61, 590, 1_514, 60 + rng.below(1_455)][rng.below(5) as usize];
        let time = bandwidth.time_to_send(Bytes::new(frame)).nanos();
        at = at
            + Duration::from_nanos(match rng.below(6) {
                0 => 1,
                1 => time * load / 2,
                2 => rng.below(time * 40),
                _ => 1 + rng.below(time * load),
            });
        let step = match rng.below(40) {
            0 if !plain => Step::Change(rng.below(policies as u64) as usize),
            1 if !plain => {
                on = !on;
                Step::Switch(on)
            }
            2 | 3 if !plain => Step::Stall(Duration::from_nanos(rng.below(time * 10))),
            4 if !plain => Step::Rebase(BeginsAnew::WhenEmpty),
            5 if !plain => Step::Rebase(BeginsAnew::AtOnce),
            6 if !plain => Step::HoldUp(Duration::from_nanos(rng.below(time * 60))),
            _ => {
                let ecn = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1][rng.below(3) as usize];
                Step::Arrive(rng.below(u64::from(FLOWS)) as u16, frame, ecn)
            }
        };
        (at, step)
    };
    (0..ARRIVALS).map(|_| one(rng)).collect()
}

fn drawn(plan: TreePlan, rng: &mut Rng) -> Drawn {
    let leaves: Vec<u32> = (0..plan.classes.len() as u32)
        .filter(|class| plan.classes[*class as usize].leaf)
        .collect();
    let filters = (0..FLOWS - 1).filter_map(|flow| {
        let class = leaves.get(rng.below(leaves.len().max(1) as u64) as usize)?;
        Some(Filter {
            source_port: Some(Ports::one(1_000 + flow)),
            ..Filter::new(ClassId(*class))
        })
    });
    let filters = filters.collect();
    Drawn { plan, filters }
}

/// Random policies of this kind, one of them of another kind, and what happens.
fn draw(registry: &Registry, kinds: &[&Kind], number: usize, seed: Seed, plain: bool) -> Trial {
    let mut rng = seed.fork("around").stream();
    let (kind, unlike) = (kinds[number % kinds.len()], kinds[(number * 7 + 3) % kinds.len()]);
    let below = kinds[(number / kinds.len()) % kinds.len()];
    // A pacer refuses framings that do not add the same to each frame.
    let paced = [kind, unlike, below].iter().any(|kind| kind.name == "pacer");
    let framing = FRAMINGS[rng.below(if paced { 3 } else { 6 }) as usize];
    let link = policies::LINK.with_framing(framing);
    let of = |kind: &Kind, seed: Seed| {
        let child = (kind.children != Children::None).then_some(below);
        policies::draw_for(registry, link, kind, child, seed)
    };
    let policies::Policy { plan, other, .. } = of(kind, seed);
    let strange = of(unlike, seed.fork("strange"));
    let first = drawn(plan, &mut rng);
    let alike = Drawn {
        plan: other,
        filters: first.filters.clone(),
    };
    let refiltered = drawn(first.plan.clone(), &mut rng);
    let strange = drawn(strange.plan, &mut rng);
    // A realiser is of the discipline that it was made for.
    let paced = !plain && first.plan.root.plan.pacing().is_some() && rng.below(2) == 0;
    let policies = match paced {
        true => vec![first, alike],
        false => vec![first, alike, refiltered, strange],
    };
    let steps = steps(&mut rng, link.bandwidth, policies.len(), plain);
    Trial {
        policies,
        steps,
        paced,
        spins: 0,
    }
}

fn policies_to_try() -> u64 {
    let asked = std::env::var("RECORDED_POLICIES").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(POLICIES)
}

#[test]
fn a_tape_done_again_gives_the_same_departures_to_the_nanosecond() {
    let registry = Registry::builtin();
    let kinds: Vec<&Kind> = registry.kinds().collect();
    let (mut packets, mut changes, mut starts) = (0, 0, 0);
    for number in 0..policies_to_try() {
        let seed = Seed(2).fork(&number.to_string());
        let trial = draw(&registry, &kinds, number as usize, seed, false);
        let done = live(&trial, seed);
        let begun = Events::new(&done.tape).filter(|event| matches!(event, Ok(TapeEvent::Start { .. })));
        let begun = begun.count();
        for from in [0, begun - 1] {
            let Again {
                before, left, view, ..
            } = again(&trial, seed, &done, whole(&done.tape), from);
            assert_eq!(
                before + left.len(),
                done.left.len(),
                "policy {number} from {from}"
            );
            let differs = left
                .iter()
                .zip(&done.left[before..])
                .position(|(a, b)| a.0 != b.0);
            assert_eq!(differs, None, "policy {number} from {from}");
            assert!(left[..] == done.left[before..], "policy {number}: other packets");
            if from == 0 && begun == 1 {
                let view = view.expect("it began");
                assert_eq!(figures(&view), figures(&done.view), "policy {number}");
                assert_eq!(view.totals, done.view.totals, "policy {number}");
            }
        }
        packets += done.left.len();
        changes += done.changes.len();
        starts += begun;
    }
    let policies = policies_to_try() as usize;
    eprintln!("{policies} policies, {packets} packets, {changes} changes, {starts} beginnings");
    assert!(packets > policies * ARRIVALS / 5 && changes > policies && starts > policies * 2);
}

/// Without headers a tape is a tenth as long, and the same packets leave at the same times.
#[test]
fn a_tape_in_short_form_gives_the_same_departures_to_the_nanosecond() {
    let registry = Registry::builtin();
    let kinds: Vec<&Kind> = registry.kinds().collect();
    let mut packets = 0;
    for number in 0..policies_to_try() {
        let seed = Seed(4).fork(&number.to_string());
        let trial = draw(&registry, &kinds, number as usize, seed, false);
        let done = live(&trial, seed);
        let short = shortened(&done.tape, 40);
        let in_short = || ShortEvents::new(&short).map(|event| event.expect("whole"));
        let [was, is] = [
            again(&trial, seed, &done, whole(&done.tape), 0),
            again(&trial, seed, &done, in_short(), 0),
        ];
        let times = |left: &[Left]| -> Vec<Instant> { left.iter().map(|(at, _)| *at).collect() };
        assert_eq!(times(&is.left), times(&done.left), "policy {number}");
        assert!(is.packets == was.packets, "policy {number}: other packets");
        let totals = [&is, &was].map(|again| again.view.as_ref().map(|view| view.totals));
        assert_eq!(totals[0], totals[1], "policy {number}");
        packets += is.left.len();
    }
    assert!(packets > policies_to_try() as usize * ARRIVALS / 5);
}

/// A policy of each kind that can hold packets back for long, as an interface's table has it.
const STANDING: [&str; 19] = [
    r#"discipline = "fifo""#,
    r#"discipline = "fq_codel""#,
    r#"discipline = "codel""#,
    r#"discipline = { kind = "red", min = 5, max = 90 }"#,
    r#"discipline = "pie""#,
    r#"discipline = "blue""#,
    r#"discipline = "rio""#,
    r#"discipline = "cake""#,
    r#"discipline = "dualpi2""#,
    r#"discipline = "wfq""#,
    r#"discipline = { kind = "tbf", rate = "8 Mbit/s", burst = "15 kB", child = { kind = "fifo", limit = 300 } }"#,
    r#"discipline = { kind = "police", rate = "15 Mbit/s", burst = "40 kB" }"#,
    r#"discipline = "drr"
       class = [{ name = "some", weight = 3 }, { name = "rest", default = true }]
       filter = [{ class = "some", source_port = 1001 }]"#,
    r#"discipline = "wrr"
       class = [{ name = "some", weight = 3, discipline = "fifo" }, { name = "rest", default = true }]
       filter = [{ class = "some", source_port = 1001 }]"#,
    r#"discipline = "priq"
       class = [{ name = "some", priority = 7, discipline = { kind = "fifo", limit = 20 } },
                { name = "rest", priority = 0, default = true, discipline = "fifo" }]
       filter = [{ class = "some", source_port = 1001 }]"#,
    r#"discipline = "hfsc"
       class = [{ name = "some", realtime = "1 Mbit/s", linkshare = "10 %" },
                { name = "rest", realtime = "4 Mbit/s", linkshare = "90 %", default = true, discipline = "fifo" }]
       filter = [{ class = "some", source_port = 1001 }]"#,
    r#"discipline = "cbq"
       class = [{ name = "office", rate = "70 %" },
                { name = "some", parent = "office", rate = "10 %", priority = 7 },
                { name = "rest", parent = "office", rate = "30 %", default = true, discipline = "fifo" },
                { name = "guests", rate = "30 %", borrow = false }]
       filter = [{ class = "some", source_port = 1001 }, { class = "guests", source_port = 1002 }]"#,
    r#"discipline = "ips"
       class = [{ name = "some", rate = "1 Mbit/s", burst = "6 kB", delay = "12 ms" }, { name = "rest", default = true }]
       filter = [{ class = "some", source_port = 1001 }]"#,
    r#"discipline = "pacer"
       class = [{ name = "some", rate = "2 Mbit/s" }, { name = "rest", rate = "7 Mbit/s", default = true }]
       filter = [{ class = "some", source_port = 1001 }]"#,
];

/// The policy of such a table.
fn standing(registry: &Registry, table: &str) -> Drawn {
    let text = format!("version = 1\n[interface.wan0]\nbandwidth = \"10 Mbit/s\"\n{table}\n");
    let policy = Policy::read("standing", &text, registry, &[]);
    let policy = policy.unwrap_or_else(|why| panic!("{table}: {why:?}"));
    let interface = &policy.interfaces[0];
    Drawn {
        plan: interface.plan.clone(),
        filters: interface.filters.to_vec(),
    }
}

/// Twice as much as the link carries, and the tape begun anew in the midst of it.
fn overloaded(registry: &Registry, table: &str, seed: Seed) -> Trial {
    let only = standing(registry, table);
    let bandwidth = only.plan.link.bandwidth;
    let (mut rng, mut at) = (seed.fork("overload").stream(), Instant::START);
    let mut steps = Vec::new();
    for number in 0..800 {
        let frame = 200 + rng.below(1_300);
        let time = bandwidth.time_to_send(Bytes::new(frame)).nanos();
        at = at + Duration::from_nanos(1 + rng.below(time));
        let flow = rng.below(u64::from(FLOWS)) as u16;
        // As of one sender: where marks choose the queue, others would overtake.
        let ecn = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1][usize::from(flow) % 3];
        steps.push((at, Step::Arrive(flow, frame, ecn)));
        if number >= 300 {
            steps.push((at, Step::Standing));
        }
        if number == 400 {
            steps.push((at, Step::Rebase(BeginsAnew::AtOnce)));
        }
    }
    Trial {
        paced: only.plan.root.plan.pacing().is_some(),
        policies: vec![only],
        steps,
        spins: 0,
    }
}

/// Packets of each flow leave in the order in which they came.
fn keeps_order(left: &[Left], table: &str) {
    for flow in 0..FLOWS {
        let own = |headers: &&Vec<u8>| headers[34..36] == (1_000 + flow).to_be_bytes();
        let numbers = left.iter().map(|(_, headers)| headers).filter(own);
        let numbers: Vec<_> = numbers.map(|headers| [headers[18], headers[19]]).collect();
        assert!(numbers.is_sorted(), "{table}: flow {flow} overtakes itself");
    }
}

/// It had waited for a moment at which nothing was queued: a link in trouble has none.
#[test]
fn a_recording_begun_under_a_queue_that_is_never_empty_is_done_again_to_the_nanosecond() {
    let registry = Registry::builtin();
    for (number, table) in STANDING.into_iter().enumerate() {
        let seed = Seed(7).fork(&number.to_string());
        let trial = overloaded(&registry, table, seed);
        let done = live(&trial, seed);
        keeps_order(&done.left, table);
        let held = Events::new(&done.tape).filter(|event| match event {
            Ok(TapeEvent::Held(held)) => held.handed_on && held.packet.at < held.at,
            _ => false,
        });
        let held = held.count();
        assert!(held > 3, "{table}: {held} were queued");
        let Again {
            before,
            left,
            packets,
            view,
        } = again(&trial, seed, &done, whole(&done.tape), 1);
        assert!(
            left[..] == done.left[before..],
            "{table}: other packets, or at other times"
        );
        assert!(
            before > 50 && left.len() > 200,
            "{table}: {before}, {}",
            left.len()
        );
        let short = shortened(&done.tape, 40);
        let in_short = ShortEvents::new(&short).map(|event| event.expect("whole"));
        let short = again(&trial, seed, &done, in_short, 1);
        assert!(short.packets == packets, "{table}: other packets in short form");
        let totals = |view: Option<PathView>| view.map(|view| view.totals);
        assert_eq!(totals(short.view), totals(view), "{table}");
        eprintln!("{table:.40}: {held} were queued, {} left again", left.len());
    }
}

/// A packet less, and the next check finds it.
#[test]
fn a_tape_in_short_form_with_a_packet_less_is_not_done_again_unnoticed() {
    let registry = Registry::builtin();
    let kinds: Vec<&Kind> = registry.kinds().filter(|kind| kind.name == "drr").collect();
    let trial = draw(&registry, &kinds, 0, Seed(5), true);
    let done = live(&trial, Seed(5));
    let short = shortened(&done.tape, 40);
    let events: Vec<_> = ShortEvents::new(&short)
        .map(|event| event.expect("whole"))
        .collect();
    let arrival = |at: &usize| matches!(events[*at], ShortEvent::Whole(TapeEvent::Arrival(_)));
    for missing in (0..events.len()).filter(arrival).step_by(10) {
        let beginning = trial.policies[0].beginning(Seed(5));
        let mut recreation = Recreation::new(beginning).expect("memory");
        let rest = events.iter().enumerate().filter(|(at, _)| *at != missing);
        let mut all = rest.map(|(_, event)| recreation.again_in_short(event, &mut || None, &mut |_| {}));
        assert!(all.any(|again| again.is_err()), "event {missing} was not missed");
    }
}

/// A loop that spins for a due time asks a hundred times for each packet: the ring of a slow link
/// had lasted a tenth as long.
#[test]
fn a_busy_link_that_is_asked_in_vain_takes_no_tape() {
    let registry = Registry::builtin();
    let kinds: Vec<&Kind> = registry.kinds().filter(|kind| kind.name == "fifo").collect();
    let mut trial = draw(&registry, &kinds, 0, Seed(6), true);
    let calm = live(&trial, Seed(6));
    trial.spins = 50;
    let spinning = live(&trial, Seed(6));
    assert!(spinning.left == calm.left && calm.left.len() > 20);
    let lengths = [&spinning, &calm].map(|done| done.tape.len());
    assert_eq!(lengths[0], lengths[1]);
    let again = again(&trial, Seed(6), &spinning, whole(&spinning.tape), 0);
    assert!(again.left == calm.left);
}

#[test]
fn a_tape_with_a_packet_less_is_not_done_again_unnoticed() {
    let registry = Registry::builtin();
    let kinds: Vec<&Kind> = registry.kinds().filter(|kind| kind.name == "drr").collect();
    let trial = draw(&registry, &kinds, 0, Seed(5), true);
    let done = live(&trial, Seed(5));
    let events: Vec<TapeEvent<'_>> = Events::new(&done.tape)
        .map(|event| event.expect("whole"))
        .collect();
    let arrivals = (0..events.len()).filter(|at| matches!(events[*at], TapeEvent::Arrival(_)));
    for missing in arrivals.step_by(10) {
        let beginning = trial.policies[0].beginning(Seed(5));
        let mut recreation = Recreation::new(beginning).expect("memory");
        let rest = events.iter().enumerate().filter(|(at, _)| *at != missing);
        let mut all = rest.map(|(_, event)| recreation.again(event, &mut || None, &mut |_| {}));
        assert!(all.any(|again| again.is_err()), "event {missing} was not missed");
    }
}

#[test]
fn a_candidate_beside_the_worker_is_as_the_same_policy_live() {
    let registry = Registry::builtin();
    let kinds: Vec<&Kind> = registry.kinds().collect();
    let mut packets = 0;
    for number in 0..policies_to_try() {
        let seed = Seed(3).fork(&number.to_string());
        let mut trial = draw(&registry, &kinds, number as usize, seed, true);
        // Beside another policy, whose tape it follows.
        let candidate = trial.policies[0].clone();
        let alone = live(&trial, seed);
        trial.policies.swap(0, 3);
        let beside = live(&trial, seed);
        let framing = trial.policies[0].plan.link.framing;
        let mut shadow = Candidate::new(candidate.beginning(seed)).expect("memory");
        let mut left = Vec::new();
        let mut leaving = |departure: Departure<'_>| {
            left.push((departure.at, departure.headers[..HEADERS].to_vec()));
        };
        for event in Events::new(&beside.tape) {
            if let TapeEvent::Arrival(arrival) = event.expect("a whole tape") {
                shadow.arrive_too(&arrival, framing, &mut leaving).expect("room");
            }
        }
        shadow.run_until(alone.end, &mut leaving);
        // A packet's marks are written into its frame on departure: by the live one alone.
        let plain = |left: &[Left]| -> Vec<(Instant, Vec<u8>)> {
            let without = |(at, headers): &Left| (*at, headers[18..20].to_vec());
            left.iter().map(without).collect()
        };
        assert_eq!(plain(&left), plain(&alone.left), "policy {number}");
        let view = shadow.show();
        assert_eq!(view.totals, alone.view.totals, "policy {number}");
        assert_eq!(figures(&view), figures(&alone.view), "policy {number}");
        packets += left.len();
    }
    assert!(packets as u64 > policies_to_try() * ARRIVALS as u64 / 4);
}
