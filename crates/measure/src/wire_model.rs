//! One direction of a wire: how long a packet takes onto it, when it arrives, and what befalls it
//! on the way. The simulator's links and the lab's emulated ones are this one model, so that the
//! same packets depart, are lost, damaged and doubled in both.
//!
//! A wire has one rate ([`LinkClock`]), or follows a [`LinkTrace`]. Its times are exact: what
//! remains of a division is carried to the next packet, over a change of the rate as well. A
//! packet's delay and impairments are those of the moment at which its last bit is sent.
//!
//! Departure from Mahimahi: there a packet leaves the queue at an opportunity; here it leaves when
//! the wire is free, and waits on the wire. So the buffer holds one packet more.

use crate::impairments::{
    FlippedBit, ImpairmentCounts, ImpairmentModel, ImpairmentSchedule, ImpairmentScript, Impairments,
    PacketOrder,
};
use crate::link_trace::{BEYOND, Course, LinkStep, LinkTrace, OPPORTUNITY};
use engine::link_clock::LinkClock;
use engine::random::Seed;
use engine::units::{Bandwidth, Bytes, Duration, Instant};

/// Nanobits of a byte.
const BYTE: u128 = 8_000_000_000;
const MILLI: u64 = 1_000_000;

/// What a wire is.
#[derive(Clone, Debug)]
pub struct WireSettings {
    /// Its rate; one with a trace has it until the trace begins.
    pub rate: Bandwidth,
    /// Its delay, where the trace has none.
    pub delay: Duration,
    /// What befalls packets; where the trace has a loss, it is that.
    pub impairments: Impairments,
    /// What befalls them later.
    pub later: ImpairmentSchedule,
    /// What it is over time.
    pub trace: Option<LinkTrace>,
}

/// A wire, and when it is free.
#[derive(Clone, Debug)]
pub struct WireModel {
    clock: LinkClock,
    delay: Duration,
    /// What makes it other than a plain wire, if anything does.
    unsteady: Option<Box<UnsteadyWire>>,
}

/// What a wire has beside its clock that varies or is impaired.
#[derive(Clone, Debug)]
struct UnsteadyWire {
    /// The latest arrival of a packet that none is to overtake.
    last: Instant,
    /// What befalls packets, if anything does.
    impaired: Option<ImpairmentModel>,
    /// A packet waits for the next one, to arrive behind it.
    one_waits: bool,
    varying: Option<VaryingWire>,
}

/// What a wire does with a packet that is out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crossing {
    /// It arrives at this time, and nothing befalls it.
    Plain(Instant),
    /// Something does.
    Impaired(ImpairedCrossing),
}

/// What befalls a packet on a wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ImpairedCrossing {
    /// When it arrives: later than some that follow it, if others overtake it. None: it is lost.
    pub arrives: Option<Instant>,
    /// A bit of it arrives flipped.
    pub flipped: Option<FlippedBit>,
    /// A copy of it arrives right behind it.
    pub twice: bool,
    /// It waits for the next packet, at most until `arrives`.
    pub waits: bool,
    /// The packet that waits arrives at this time, right behind this one.
    pub releases: Option<Instant>,
}

impl WireModel {
    /// A free wire. Its trace, and what befalls packets later, begins at `begin`.
    pub fn new(settings: &WireSettings, begin: Instant, seed: Seed) -> Self {
        let varying = settings.trace.clone().map(|trace| VaryingWire {
            trace,
            begin,
            before: settings.rate,
            free_at: Instant::START,
            remainder: 0,
            left: 0,
            next: None,
        });
        let loses_by_trace = settings.trace.as_ref().is_some_and(LinkTrace::has_loss);
        let impaired = loses_by_trace || !settings.impairments.are_none() || !settings.later.is_empty();
        let model = || ImpairmentModel::new(&settings.impairments, &settings.later, begin, seed);
        let unsteady = (impaired || varying.is_some()).then(|| UnsteadyWire {
            last: Instant::START,
            impaired: impaired.then(model),
            one_waits: false,
            varying,
        });
        Self {
            clock: LinkClock::new(settings.rate, Duration::ZERO),
            delay: settings.delay,
            unsteady: unsteady.map(Box::new),
        }
    }

    /// Its rate; of one with a trace the rate before it.
    pub fn rate(&self) -> Bandwidth {
        self.clock.rate()
    }

    /// Its trace, and what befalls packets later, begins at this time.
    pub fn begin(&mut self, at: Instant) {
        let Some(unsteady) = &mut self.unsteady else {
            return;
        };
        if let Some(varying) = &mut unsteady.varying {
            varying.begin = at;
        }
        if let Some(impaired) = &mut unsteady.impaired {
            impaired.begin(at);
        }
    }

    /// What has befallen packets so far.
    pub fn impaired(&self) -> ImpairmentCounts {
        let impaired = self
            .unsteady
            .as_ref()
            .and_then(|unsteady| unsteady.impaired.as_ref());
        impaired.map_or_else(ImpairmentCounts::default, |impaired| impaired.counts())
    }

    fn varying(&mut self) -> Option<&mut VaryingWire> {
        self.unsteady.as_mut()?.varying.as_mut()
    }

    /// When the last packet is out, rounded down to a nanosecond; the remainder is carried.
    #[inline]
    pub fn free_at(&self) -> Instant {
        match self
            .unsteady
            .as_ref()
            .and_then(|unsteady| unsteady.varying.as_ref())
        {
            None => self.clock.free_at(),
            Some(varying) => varying.free_at,
        }
    }

    /// A packet of this length goes onto the wire at `start`, when the wire is free; returns when
    /// it is out.
    #[inline]
    pub fn send(&mut self, start: Instant, len: Bytes) -> Instant {
        match self.varying() {
            None => {
                self.clock.send(start, len);
                self.clock.free_at()
            }
            Some(varying) => varying.send(start, len),
        }
    }

    /// What becomes of the packet that was out at this time.
    #[inline]
    pub fn cross(&mut self, out: Instant) -> Crossing {
        match &mut self.unsteady {
            None => Crossing::Plain(out + self.delay),
            Some(unsteady) => unsteady.cross(out, self.delay),
        }
    }

    /// It is free; what was on it is gone.
    pub fn clear(&mut self) {
        self.clock = LinkClock::new(self.clock.rate(), Duration::ZERO);
        let Some(unsteady) = &mut self.unsteady else {
            return;
        };
        unsteady.one_waits = false;
        if let Some(varying) = &mut unsteady.varying {
            varying.idle();
            varying.free_at = Instant::START;
        }
    }
}

impl UnsteadyWire {
    /// What becomes of the packet that was out at this time, where the wire has this delay.
    fn cross(&mut self, out: Instant, delay: Duration) -> Crossing {
        let step = self.varying.as_ref().and_then(|varying| varying.step(out));
        let due = out + step.and_then(|step| step.delay).unwrap_or(delay);
        let Some(impaired) = &mut self.impaired else {
            // Where the delay shrinks, a packet does not overtake.
            self.last = self.last.max(due);
            return Crossing::Plain(self.last);
        };
        let fate = impaired.next(out, step.and_then(|step| step.loss));
        let released = std::mem::take(&mut self.one_waits);
        if fate.lost {
            let lost = ImpairedCrossing {
                releases: released.then_some(self.last.max(due)),
                ..ImpairedCrossing::default()
            };
            return Crossing::Impaired(lost);
        }
        let at = match impaired.addition() {
            (longer, PacketOrder::Kept) => {
                self.last = self.last.max(due + longer);
                self.last
            }
            (longer, PacketOrder::Free) => {
                self.last = self.last.max(due);
                self.last + longer
            }
        };
        self.one_waits = fate.swapped;
        let patience = match fate.swapped {
            true => ImpairmentScript::PATIENCE,
            false => Duration::ZERO,
        };
        let arrives = at + fate.later + patience;
        match fate.flipped.is_some() || fate.twice || fate.swapped || released {
            false => Crossing::Plain(arrives),
            true => Crossing::Impaired(ImpairedCrossing {
                arrives: Some(arrives),
                flipped: fate.flipped,
                twice: fate.twice,
                waits: fate.swapped,
                releases: released.then_some(arrives),
            }),
        }
    }
}

/// A wire that follows a trace.
#[derive(Clone, Debug)]
struct VaryingWire {
    trace: LinkTrace,
    begin: Instant,
    /// The rate before the trace begins.
    before: Bandwidth,
    free_at: Instant,
    /// What remains of the last division, in nanobits.
    remainder: u128,
    /// What remains of the last opportunity, in bytes, and the number of the next one since the
    /// beginning, if it is known.
    left: u64,
    next: Option<u64>,
}

impl VaryingWire {
    /// What an idle wire did not use is gone.
    fn idle(&mut self) {
        (self.remainder, self.left, self.next) = (0, 0, None);
    }

    fn send(&mut self, start: Instant, len: Bytes) -> Instant {
        if start > self.free_at {
            self.idle();
        }
        self.free_at = if start < self.begin {
            let rate = self.before;
            self.next = None;
            self.pass(start, len, |_| (rate, Instant::NEVER))
        } else {
            let trace = self.trace.clone();
            match &trace.0 {
                Course::Steps(steps, period) => {
                    let begin = self.begin;
                    self.pass(start, len, |at| {
                        let (step, until) = step_at(steps, *period, begin, at);
                        (step.rate, until)
                    })
                }
                Course::Opportunities(all) => self.take(start, len, all),
            }
        };
        self.free_at
    }

    /// When this many bytes are out that go onto the wire at `start`, by the rate at a time and
    /// the time until which it lasts.
    fn pass(
        &mut self,
        start: Instant,
        len: Bytes,
        rate: impl Fn(Instant) -> (Bandwidth, Instant),
    ) -> Instant {
        let mut work = u128::from(len.get()) * BYTE + self.remainder;
        let mut at = start;
        loop {
            let (rate, until) = rate(at);
            let bits = u128::from(rate.bits());
            let room = bits * u128::from(until.since(at).nanos());
            if bits > 0 && (work <= room || until == Instant::NEVER) {
                self.remainder = work % bits;
                let span = u64::try_from(work / bits).unwrap_or(u64::MAX);
                return at + Duration::from_nanos(span);
            }
            if until == Instant::NEVER {
                return until;
            }
            work -= room;
            at = until;
        }
    }

    /// When a packet is out that goes onto the wire at `start`, by opportunities.
    fn take(&mut self, start: Instant, len: Bytes, all: &[u32]) -> Instant {
        let mut need = len.get().saturating_sub(BEYOND).max(1);
        let mut at = start;
        let mut next = self.next.unwrap_or_else(|| {
            // One at the very time of a packet's arrival is not for it.
            let since = start.since(self.begin).nanos();
            let period = period_of(all);
            let passed = all.partition_point(|ms| u64::from(*ms) * MILLI <= since % period);
            (since / period) * all.len() as u64 + passed as u64
        });
        loop {
            let taken = need.min(self.left);
            (need, self.left) = (need - taken, self.left - taken);
            if need == 0 {
                self.next = Some(next);
                return at;
            }
            let (lap, index) = (next / all.len() as u64, next % all.len() as u64);
            let since = lap * period_of(all) + u64::from(all[index as usize]) * MILLI;
            at = self.begin + Duration::from_nanos(since);
            (next, self.left) = (next + 1, OPPORTUNITY);
        }
    }

    /// The step at a time, if there is one.
    fn step(&self, at: Instant) -> Option<&LinkStep> {
        match &self.trace.0 {
            Course::Steps(steps, period) if at >= self.begin => {
                Some(step_at(steps, *period, self.begin, at).0)
            }
            Course::Steps(..) | Course::Opportunities(_) => None,
        }
    }
}

fn period_of(all: &[u32]) -> u64 {
    u64::from(all.last().copied().unwrap_or(1)) * MILLI
}

/// The step at a time, and until when it lasts.
fn step_at(
    steps: &[LinkStep],
    period: Option<Duration>,
    begin: Instant,
    at: Instant,
) -> (&LinkStep, Instant) {
    let since = at.since(begin).nanos();
    let (lap, offset) = match period.map(Duration::nanos) {
        Some(period) => (since / period * period, since % period),
        None => (0, since),
    };
    let after = steps.partition_point(|step| step.at.nanos() <= offset);
    let end = steps.get(after).map(|step| step.at).or(period);
    let until = end.map_or(Instant::NEVER, |end| begin + Duration::from_nanos(lap) + end);
    (&steps[after.saturating_sub(1)], until)
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::settings::{Raw, SettingValue};

    fn at(us: u64) -> Instant {
        Instant::START + Duration::from_micros(us)
    }

    fn wire(trace: &str) -> WireModel {
        let settings = WireSettings {
            rate: Bandwidth::mbit(8),
            delay: Duration::from_millis(5),
            impairments: Impairments::default(),
            later: ImpairmentSchedule::default(),
            trace: Some(LinkTrace::read(trace).expect("a trace")),
        };
        WireModel::new(&settings, Instant::START, Seed(1))
    }

    /// `link_queue.cc`: an opportunity that finds a packet serves it; what it has left serves the
    /// next one in the queue; one that finds none is gone.
    #[test]
    fn opportunities_are_shared_kept_and_lost_as_mahimahi_does() {
        let mut wire = wire("10\n20\n30\n30\n40\n");
        // Two packets wait: 1500 bytes with the TUN header leave at 10 ms, of the next 752.
        let full = Bytes::new(1514);
        let half = Bytes::new(752 + 10);
        assert_eq!(wire.send(at(1), full), at(10_000));
        assert_eq!(wire.send(at(10_000), half), at(20_000));
        assert_eq!(
            wire.send(at(20_000), half),
            at(20_000),
            "the rest of the opportunity"
        );
        // The opportunity at 20 ms is used up; both at 30 ms are used.
        assert_eq!(wire.send(at(20_000), full), at(30_000));
        assert_eq!(wire.send(at(30_000), half), at(30_000));
        // The wire was idle at 35 ms: the half of the second one at 30 ms is gone.
        assert_eq!(wire.send(at(35_000), half), at(40_000));
        // A packet that comes at the time of an opportunity waits for the next, in the next round.
        assert_eq!(wire.send(at(50_000), full), at(60_000));
        // A packet longer than an opportunity takes a part of the next.
        assert_eq!(wire.send(at(60_000), Bytes::new(1515)), at(70_000));
    }

    #[test]
    fn a_packet_over_a_change_of_the_rate_is_sent_by_both_and_outages_stop_it() {
        let mut wire = wire("time (ms),rate (Mbit/s)\n0,8\n10,0\n20,16\n30,16\n");
        // 8 Mbit/s: a byte a microsecond. It starts 1 ms before the outage of 10 ms.
        assert_eq!(wire.send(at(9_000), Bytes::new(1000)), at(10_000));
        assert_eq!(wire.send(at(10_000), Bytes::new(1000)), at(20_500));
        assert_eq!(
            wire.send(at(39_500), Bytes::new(1500)),
            at(40_500),
            "the trace begins anew"
        );
    }

    #[test]
    fn a_rate_is_exact_over_a_thousand_changes() {
        let steps = (0..1000).map(|n| LinkStep {
            at: Duration::from_micros(n * 777),
            rate: Bandwidth::bits_per_sec(7_000_013 + n * 101),
            delay: None,
            loss: None,
        });
        let trace = LinkTrace::scheduled(steps.collect());
        let settings = WireSettings {
            rate: Bandwidth::mbit(1),
            delay: Duration::ZERO,
            impairments: Impairments::default(),
            later: ImpairmentSchedule::default(),
            trace: Some(trace.clone()),
        };
        let mut wire = WireModel::new(&settings, Instant::START, Seed(1));
        let (mut sent, mut free) = (0, Instant::START);
        while free < at(700_000) {
            free = wire.send(free, Bytes::new(333));
            sent += 333;
        }
        let capacity = trace.capacity(Duration::ZERO, free.since(Instant::START)).get();
        assert!(sent == capacity || sent == capacity + 1, "{sent} of {capacity}");
    }

    #[test]
    fn a_delay_that_shrinks_lets_no_packet_overtake_and_loss_follows_the_trace() {
        let trace =
            "time (ms),rate (Mbit/s),delay (ms),loss (%)\n0,8,50,0\n10,8,1,0\n20,8,1,100\n30,8,1,100\n";
        let mut wire = wire(trace);
        let mut arrivals = Vec::new();
        for start in [0, 9_500, 15_000, 25_000, 41_000] {
            let out = wire.send(at(start), Bytes::new(500));
            arrivals.push(match wire.cross(out) {
                Crossing::Plain(at) => Some(at),
                Crossing::Impaired(crossing) => crossing.arrives,
            });
        }
        // The second is out at 10 ms, when the delay is 1 ms: it waits for the first.
        assert_eq!(
            arrivals,
            [
                Some(at(50_500)),
                Some(at(50_500)),
                Some(at(50_500)),
                None,
                Some(at(91_500))
            ]
        );
    }

    #[test]
    fn before_its_beginning_a_wire_has_its_own_rate() {
        let mut wire = wire("10\n20\n");
        wire.begin(at(100_000));
        assert_eq!(wire.send(at(50_000), Bytes::new(1000)), at(51_000));
        assert_eq!(wire.send(at(99_500), Bytes::new(1000)), at(100_500));
        assert_eq!(wire.send(at(100_500), Bytes::new(1000)), at(110_000));
    }

    fn impaired(impairments: Impairments) -> WireModel {
        let settings = WireSettings {
            rate: Bandwidth::mbit(8),
            delay: Duration::from_millis(5),
            impairments,
            later: ImpairmentSchedule::default(),
            trace: None,
        };
        WireModel::new(&settings, Instant::START, Seed(1))
    }

    fn value<T: SettingValue>(text: &str) -> T {
        T::from_raw(&Raw::Text(text.into())).expect(text)
    }

    #[test]
    fn packets_that_change_places_arrive_together_the_second_first_even_if_it_is_lost() {
        for (script, lost) in [
            ("swap 2, 3", false),
            ("swap 2, 3; drop 4", false),
            ("swap 2, 3", true),
        ] {
            let mut wire = impaired(Impairments {
                script: value(script),
                loss: value(if lost { "packets 3" } else { "nothing" }),
                ..Impairments::default()
            });
            let crossings: Vec<Crossing> = (0..3)
                .map(|n| {
                    let out = wire.send(at(n * 1_000), Bytes::new(1_000));
                    wire.cross(out)
                })
                .collect();
            assert_eq!(crossings[0], Crossing::Plain(at(6_000)));
            let waiting = ImpairedCrossing {
                arrives: Some(at(1_007_000)),
                waits: true,
                ..ImpairedCrossing::default()
            };
            assert_eq!(crossings[1], Crossing::Impaired(waiting), "a second at most");
            let second = ImpairedCrossing {
                arrives: (!lost).then_some(at(8_000)),
                releases: Some(at(8_000)),
                ..ImpairedCrossing::default()
            };
            assert_eq!(crossings[2], Crossing::Impaired(second));
        }
    }

    #[test]
    fn jitter_keeps_the_order_unless_it_is_free() {
        for (jitter, kept) in [
            ("1 ms", true),
            ("normal 2 ms, deviation 1 ms", true),
            ("exponential 1 ms", true),
            ("pareto 1 ms", true),
            ("pareto 1 ms, unordered", false),
            ("1 ms, unordered", false),
        ] {
            let mut wire = impaired(Impairments {
                jitter: value(jitter),
                ..Impairments::default()
            });
            let arrivals: Vec<Instant> = (0..2_000)
                .map(|n| match wire.cross(at(n * 100)) {
                    Crossing::Plain(arrives) => {
                        assert!(arrives >= at(n * 100 + 5_000), "{jitter}");
                        arrives
                    }
                    Crossing::Impaired(other) => panic!("{jitter}: {other:?}"),
                })
                .collect();
            assert_eq!(arrivals.is_sorted(), kept, "{jitter}");
        }
    }

    #[test]
    fn a_wire_that_nothing_befalls_counts_nothing_and_one_that_something_does_counts_it() {
        let mut plain = impaired(Impairments::default());
        assert_eq!(plain.cross(at(1)), Crossing::Plain(at(5_001)));
        assert_eq!(plain.impaired(), ImpairmentCounts::default());
        let mut wire = impaired(Impairments {
            corruption: value("packets 1"),
            duplication: value("packets 1"),
            ..Impairments::default()
        });
        let Crossing::Impaired(crossing) = wire.cross(at(1)) else {
            panic!("nothing befell it");
        };
        assert!(crossing.flipped.is_some() && crossing.twice, "{crossing:?}");
        assert_eq!(crossing.arrives, Some(at(5_001)));
        let counts = ImpairmentCounts {
            corrupted: 1,
            duplicated: 1,
            ..ImpairmentCounts::default()
        };
        assert_eq!(wire.impaired(), counts);
    }
}
