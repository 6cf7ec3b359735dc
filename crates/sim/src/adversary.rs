//! An adversary of bounds: it searches for arrival patterns that delay a class as long as possible.
//!
//! A [`Bound`] is a theorem about an engine that its author had in mind; this is the experiment.
//! Each pattern runs through the queue that the plan builds, behind a link of exact byte times. The
//! senders of the judged class keep to their arrival curve to the last bit. So do those of all
//! other classes where the bounds of the kind assume it; where its classes are isolated from each
//! other, the others send what they like.
//!
//! What is known to hurt comes first: full buckets that meet at one time, just after the longest
//! packet of another class has taken the link; refilled buckets; floods before and from that time;
//! long and short packets. Patterns that did best are then varied, one class or a few at a time
//! (hill climbing), beside fresh ones. The search is a function of its seed.

use crate::link::{Driver, LinkQueue, LinkSpec, PolicyQueue};
use crate::simulation::{NoRoute, Simulation};
use crate::sources::{DatagramSource, Listener, Replay};
use engine::bounds::{ArrivalCurve, Bound};
use engine::classify::{Filter, Ports};
use engine::header::{Family, FlowKey};
use engine::packet::ClassId;
use engine::random::{Rng, Seed};
use engine::tree::TreePlan;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use std::sync::Arc;

/// The seed of each simulation; of a scenario without one, too.
const SEED: Seed = Seed(1);
/// The hosts at the ends of the link.
pub const HOSTS: [&str; 2] = ["sender", "receiver"];
/// Each class's packets have a destination port of their own, from this one on.
pub const FIRST_PORT: u16 = 20_000;
/// UDP's protocol number.
const UDP: u8 = 17;
/// The shortest frame that is sent.
const SHORTEST: u64 = 64;
/// Packets of a pattern at most, of all classes together.
const MOST: usize = 6_000;
const NANOBITS: u128 = 8_000_000_000;

/// The packets of a class, with the times since the start and the lengths of the frames.
pub type TimedFrames = Arc<[(Duration, Bytes)]>;

/// A class that receives packets.
#[derive(Clone, Debug)]
pub struct Sender {
    /// The class; none for a discipline without classes.
    pub class: Option<ClassId>,
    /// Its name.
    pub name: String,
    /// The arrival curve of its senders, if they have to keep to one while it is not judged.
    curve: Option<ArrivalCurve>,
}

/// A bound, and the worst that was found.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its class, as an index into the adversary's senders.
    pub sender: usize,
    /// The bound.
    pub bound: Bound,
    /// The longest delay, from arrival to the last bit on the link.
    pub worst: Duration,
    /// Packets of the class that were dropped, in the pattern that dropped most.
    pub dropped: u64,
    /// The patterns in which the class was judged.
    pub patterns: u64,
    best: Pattern,
}

impl Target {
    /// Whether a packet was delayed longer than the bound allows.
    pub fn is_exceeded(&self) -> bool {
        self.worst > self.bound.delay
    }

    /// The longest delay as a part of the bound, in thousandths.
    pub fn thousandths(&self) -> u64 {
        self.worst.nanos().saturating_mul(1_000) / self.bound.delay.nanos().max(1)
    }
}

/// How a class sends in a pattern.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Course {
    /// How long before or after the meeting it starts, in nanoseconds.
    start: i64,
    lengths: Mix,
    manner: Manner,
    /// Packets at most.
    count: usize,
    /// The rate of an unrestricted sender after its first burst, in per cent of the link.
    percent: u64,
}

/// The lengths of packets.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Mix {
    Longest,
    Shortest,
    /// Anything between, by this seed.
    Any(u64),
}

/// When a class sends.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Manner {
    Silent,
    /// As early as it may.
    Greedy,
    /// In bursts; between them it waits until its bucket is full.
    Refilled,
    /// As early as it may, with pauses by this seed.
    Pauses(u64),
}

/// An arrival pattern: how each class sends, and who has the link when they meet.
#[derive(Clone, PartialEq, Debug)]
struct Pattern {
    courses: Vec<Course>,
    /// The class that has filled the device just before the meeting.
    blocker: usize,
}

/// The search.
#[derive(Debug)]
pub struct Adversary {
    plan: TreePlan,
    senders: Vec<Sender>,
    targets: Vec<Target>,
    rng: Rng,
    patterns: u64,
}

impl Adversary {
    /// An adversary of the bounds of this plan.
    pub fn new(plan: &TreePlan, seed: Seed) -> Self {
        let bounds = plan.bounds();
        let bounds = bounds
            .into_iter()
            .filter_map(|case| Some((case.class, case.bound.ok()?)));
        Self::against(plan, bounds.collect(), seed)
    }

    /// An adversary of these bounds of classes of the plan.
    pub fn against(plan: &TreePlan, bounds: Vec<(Option<ClassId>, Bound)>, seed: Seed) -> Self {
        // A class in a class may not be isolated from its own neighbours, whatever the outermost
        // does.
        let is_leaf = |id: ClassId| plan.info(id).is_some_and(|outer| outer.leaf);
        let nested = plan.classes.iter().any(|class| class.parent.is_some_and(is_leaf));
        let restricted = nested || !plan.root.kind.properties.isolates;
        let is_parent = |id: ClassId| plan.classes.iter().any(|class| class.parent == Some(id));
        let classes = plan
            .classes
            .iter()
            .zip(0..)
            .map(|(class, number)| (class, ClassId(number)));
        let mut senders: Vec<Sender> = classes
            .filter(|(class, id)| class.leaf && !is_parent(*id))
            .map(|(class, id)| Sender {
                class: Some(id),
                name: class.name.to_string(),
                curve: class.arrivals.filter(|_| restricted),
            })
            .collect();
        if plan.classes.is_empty() {
            senders.push(Sender {
                class: None,
                name: "all".into(),
                curve: None,
            });
        }
        let silent = Pattern {
            courses: vec![Course::SILENT; senders.len()],
            blocker: 0,
        };
        let target = |(class, bound): (Option<ClassId>, Bound)| {
            Some(Target {
                sender: senders.iter().position(|sender| sender.class == class)?,
                bound,
                worst: Duration::ZERO,
                dropped: 0,
                patterns: 0,
                best: silent.clone(),
            })
        };
        let targets = bounds.into_iter().filter_map(target).collect();
        Self {
            plan: plan.clone(),
            senders,
            targets,
            rng: seed.stream(),
            patterns: 0,
        }
    }

    /// The classes.
    pub fn senders(&self) -> &[Sender] {
        &self.senders
    }

    /// The bounds, with the worst found of each.
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// The patterns so far.
    pub fn patterns(&self) -> u64 {
        self.patterns
    }

    /// Tries one more pattern against the next target; without targets, does nothing.
    ///
    /// # Errors
    /// None: the simulated link is a route.
    pub fn step(&mut self) -> Result<(), NoRoute> {
        if self.targets.is_empty() {
            return Ok(());
        }
        let target = (self.patterns % self.targets.len() as u64) as usize;
        self.patterns += 1;
        let known = self.targets[target].worst > Duration::ZERO;
        let pattern = match known && self.rng.below(3) > 0 {
            true => self.varied(target),
            false => self.fresh(target),
        };
        let (delay, dropped) = self.run(target, &self.packets_of(target, &pattern))?;
        let judged = &mut self.targets[target];
        judged.patterns += 1;
        judged.dropped = judged.dropped.max(dropped);
        if delay >= judged.worst {
            (judged.worst, judged.best) = (delay, pattern);
        }
        Ok(())
    }

    /// The packets of the worst pattern against this target, for each class.
    pub fn worst_packets(&self, target: usize) -> Vec<TimedFrames> {
        self.packets_of(target, &self.targets[target].best)
    }

    /// The longest delay of the judged class, and how many of its packets were dropped.
    fn run(&self, target: usize, packets: &[TimedFrames]) -> Result<(Duration, u64), NoRoute> {
        let link = self.plan.link;
        let mut sim = Simulation::new(SEED);
        let [from, to] = HOSTS.map(|name| sim.node(name));
        let filter = |(sender, port): (&Sender, u16)| {
            Some(Filter {
                protocol: Some(UDP),
                destination_port: Some(Ports::one(port)),
                ..Filter::new(sender.class?)
            })
        };
        let queue = PolicyQueue {
            plan: self.plan.clone(),
            filters: self.senders.iter().zip(FIRST_PORT..).filter_map(filter).collect(),
            driver: Driver::default(),
        };
        let wire = LinkSpec::new(link.bandwidth, Duration::ZERO).framing(link.framing);
        let forward = sim.link(from, to, wire.clone().queue(LinkQueue::Policy(Box::new(queue))));
        sim.link(to, from, wire);
        sim.watch(forward, Duration::from_secs(1));
        let mut end = Duration::ZERO;
        for (packets, port) in packets.iter().zip(FIRST_PORT..) {
            let (Some((first, _)), Some((last, _))) = (packets.first(), packets.last()) else {
                continue;
            };
            end = end.max(*last);
            let key = FlowKey {
                family: Family::V4,
                protocol: UDP,
                source: 1,
                destination: 2,
                source_port: Some(port),
                destination_port: Some(port),
                ..FlowKey::default()
            };
            let since = packets.iter().map(|(at, length)| (*at - *first, *length));
            let source = DatagramSource::new(Bytes::ZERO, Replay::new(since.collect()));
            sim.flow(
                [from, to],
                key,
                Instant::START + *first,
                [Box::new(source), Box::new(Listener::default())],
            )?;
        }
        // What is queued then takes at most as long as all of it does.
        let each = packets.iter().flat_map(|of| of.iter());
        let all = each.fold(Bytes::ZERO, |all, (_, frame)| all + link.framing.on_wire(*frame));
        sim.run_until(
            Instant::START + end + link.bandwidth.time_to_send(all).times(2) + Duration::from_secs(1),
        );
        let class = self.senders[self.targets[target].sender]
            .class
            .unwrap_or(ClassId(0));
        let meter = sim.meter(forward).map(|meter| &meter.classes()[class.0 as usize]);
        Ok(meter.map_or((Duration::ZERO, 0), |tally| {
            (tally.node_delays.longest(), tally.dropped.packets)
        }))
    }
}

impl Course {
    const SILENT: Self = Self {
        start: 0,
        lengths: Mix::Longest,
        manner: Manner::Silent,
        count: 0,
        percent: 100,
    };
}

// Patterns.
impl Adversary {
    /// The transmission time of a longest frame.
    fn slot(&self) -> i64 {
        self.plan
            .link
            .bandwidth
            .time_to_send(self.plan.link.mtu)
            .nanos()
            .max(1) as i64
    }

    /// A pattern of what is known to hurt.
    fn fresh(&mut self, target: usize) -> Pattern {
        let judged = self.targets[target].sender;
        let slot = self.slot();
        // All at once, or with a part of them.
        let silent = [0, 0, 2, 8][self.rng.below(4) as usize];
        let early = self.rng.below(3) == 0;
        let courses = (0..self.senders.len()).map(|sender| {
            let start = match self.rng.below(6) {
                0 => self.rng.below(4 * slot as u64) as i64,
                1 if early => -(self.rng.below(40 * slot as u64) as i64),
                _ => 0,
            };
            let course = self.course(start);
            match sender == judged {
                true => Course {
                    manner: [Manner::Greedy, Manner::Refilled][self.rng.below(2) as usize],
                    ..course
                },
                false if self.rng.below(10) < silent => Course::SILENT,
                false => course,
            }
        });
        let courses = courses.collect();
        Pattern {
            courses,
            blocker: self.rng.below(self.senders.len() as u64) as usize,
        }
    }

    fn course(&mut self, start: i64) -> Course {
        let lengths = match self.rng.below(4) {
            0 => Mix::Shortest,
            1 => Mix::Any(self.rng.bits()),
            _ => Mix::Longest,
        };
        let manner = match self.rng.below(6) {
            0 => Manner::Refilled,
            1 => Manner::Pauses(self.rng.bits()),
            _ => Manner::Greedy,
        };
        Course {
            start,
            lengths,
            manner,
            count: [8, 40, 200, 1_000][self.rng.below(4) as usize],
            percent: [10, 30, 60, 100, 200][self.rng.below(5) as usize],
        }
    }

    /// The best pattern so far with a few changes.
    fn varied(&mut self, target: usize) -> Pattern {
        let mut pattern = self.targets[target].best.clone();
        let judged = self.targets[target].sender;
        let slot = self.slot();
        for _ in 0..1 + self.rng.below(3) {
            let sender = self.rng.below(self.senders.len() as u64) as usize;
            let step = slot >> self.rng.below(12);
            let shift = self.rng.below(2 * step.unsigned_abs() + 3) as i64 - step - 1;
            let old = pattern.courses[sender];
            let new = match self.rng.below(5) {
                0 | 1 => Course {
                    start: old.start + shift,
                    ..old
                },
                2 => self.course(old.start),
                3 => Course {
                    count: varied_count(old.count, &mut self.rng),
                    ..old
                },
                _ => {
                    pattern.blocker = sender;
                    old
                }
            };
            if sender != judged || new.manner != Manner::Silent {
                pattern.courses[sender] = new;
            }
        }
        pattern
    }

    /// The packets of a pattern, for each class.
    fn packets_of(&self, target: usize, pattern: &Pattern) -> Vec<TimedFrames> {
        let judged = &self.targets[target];
        // The earliest start is the beginning, and the device is filled a nanosecond before the
        // meeting.
        let earliest = pattern
            .courses
            .iter()
            .map(|course| course.start)
            .min()
            .unwrap_or(0)
            .min(0);
        let meeting = earliest.unsigned_abs() + 1;
        let most = MOST / self.senders.len().max(1);
        let packets = pattern.courses.iter().enumerate().map(|(sender, course)| {
            let curve = match sender == judged.sender {
                true => judged.bound.arrivals,
                false => self.senders[sender].curve,
            };
            let mut bucket = match curve {
                Some(curve) => Bucket::of(curve),
                None => Bucket::open(self.plan.link.bandwidth, course.percent, course.count),
            };
            let mut packets = Vec::new();
            if sender == pattern.blocker {
                let frame = self.frame(course.lengths, &mut Seed(0).stream(), bucket.depth, true);
                for _ in 0..self.plan.link.ring.min(64) {
                    packets.extend(
                        self.packet(&mut bucket, meeting - 1, frame)
                            .filter(|(at, _)| *at < meeting),
                    );
                }
            }
            let from = meeting.saturating_add_signed(course.start);
            self.fill(&mut packets, &mut bucket, course, from, most);
            packets
                .into_iter()
                .map(|(at, frame)| (Duration::from_nanos(at), Bytes::new(frame)))
                .collect()
        });
        packets.collect()
    }

    /// The packets of a course from this time on.
    fn fill(
        &self,
        packets: &mut Vec<(u64, u64)>,
        bucket: &mut Bucket,
        course: &Course,
        from: u64,
        most: usize,
    ) {
        if course.manner == Manner::Silent {
            return;
        }
        let mut rng = match (course.lengths, course.manner) {
            (Mix::Any(seed), _) | (_, Manner::Pauses(seed)) => Seed(seed).stream(),
            _ => Seed(0).stream(),
        };
        let mut next = from;
        for _ in 0..course.count.min(most) {
            let frame = self.frame(course.lengths, &mut rng, bucket.depth, false);
            let Some((at, frame)) = self.packet(bucket, next, frame) else {
                break;
            };
            packets.push((at, frame));
            next = match course.manner {
                Manner::Refilled if at > next => at.saturating_add(bucket.time_to_full()),
                Manner::Pauses(_) if rng.below(4) == 0 => {
                    at.saturating_add(rng.below(bucket.time_to_full() + 1))
                }
                _ => at,
            };
        }
    }

    /// A packet of this frame as soon as the bucket allows it; none if it never does.
    fn packet(&self, bucket: &mut Bucket, from: u64, frame: u64) -> Option<(u64, u64)> {
        let length = self.plan.link.framing.on_wire(Bytes::new(frame));
        Some((bucket.send(from, length.get())?, frame))
    }

    /// The shortest packets that a bound was promised.
    fn shortest(&self) -> u64 {
        let shortest = self.targets.iter().map(|target| target.bound.shortest);
        shortest.max().map_or(0, Bytes::get)
    }

    /// The length of a frame that fits into a bucket of this depth.
    fn frame(&self, lengths: Mix, rng: &mut Rng, depth: u64, longest: bool) -> u64 {
        let link = &self.plan.link;
        let frame = |wire: u64| link.framing.longest_within(Bytes::new(wire)).get();
        let most = frame(link.mtu.get().min(depth));
        let least = SHORTEST.max(frame(self.shortest())).min(most);
        match lengths {
            _ if longest => most,
            Mix::Longest => most,
            Mix::Shortest => least,
            Mix::Any(_) => least + rng.below(most - least + 1),
        }
    }
}

/// A token bucket, exact to the nanobit.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    rate: u64,
    /// Bytes.
    depth: u64,
    /// In nanobits, up to this time.
    tokens: u128,
    at: u64,
}

impl Bucket {
    fn of(curve: ArrivalCurve) -> Self {
        Self {
            rate: curve.rate.bits(),
            depth: curve.burst.get(),
            tokens: u128::from(curve.burst.get()) * NANOBITS,
            at: 0,
        }
    }

    /// Of a sender that keeps to no curve: a burst of a quarter of its packets, then a part of the
    /// link.
    fn open(link: Bandwidth, percent: u64, count: usize) -> Self {
        Self::of(ArrivalCurve {
            rate: Bandwidth::bits_per_sec(link.bits() / 100 * percent),
            burst: Bytes::new(1_514).times(count as u64 / 4 + 64),
        })
    }

    /// The first nanosecond from `from` on in which a packet of this length conforms; it is sent
    /// then. None if it never does.
    fn send(&mut self, from: u64, length: u64) -> Option<u64> {
        let full = u128::from(self.depth) * NANOBITS;
        let needed = u128::from(length) * NANOBITS;
        if needed > full {
            return None;
        }
        let from = from.max(self.at);
        let tokens = (self.tokens + u128::from(self.rate) * u128::from(from - self.at)).min(full);
        let wait = match needed.saturating_sub(tokens) {
            0 => 0,
            _ if self.rate == 0 => return None,
            lacks => u64::try_from(lacks.div_ceil(self.rate.into())).ok()?,
        };
        self.tokens = (tokens + u128::from(self.rate) * u128::from(wait)).min(full) - needed;
        self.at = from.checked_add(wait)?;
        Some(self.at)
    }

    /// From empty, in nanoseconds; at most a minute.
    fn time_to_full(&self) -> u64 {
        const MINUTE: u128 = 60_000_000_000;
        let full = u128::from(self.depth) * NANOBITS / u128::from(self.rate.max(1));
        full.min(MINUTE) as u64
    }
}

/// Another count near this one, and no more than a pattern has.
fn varied_count(before: usize, rng: &mut Rng) -> usize {
    (before / 2 + rng.below(before as u64 * 2 + 2) as usize).min(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_is_varied_again_and_again_stays_one_that_a_pattern_can_have() {
        // On a fast machine a search of some seconds let it grow beyond all numbers.
        let mut rng = Seed(1).stream();
        let mut count = 8;
        let counts: Vec<usize> = (0..10_000)
            .map(|_| {
                count = varied_count(count, &mut rng);
                count
            })
            .collect();
        assert!(counts.iter().all(|count| *count <= MOST));
        assert!(counts.iter().any(|count| *count < MOST / 4), "it shrinks, too");
    }
}
