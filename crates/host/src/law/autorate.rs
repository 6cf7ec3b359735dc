//! The rate of a shaper whose line varies: a control law by the delay of probes, such as pings.
//!
//! The shaper must send a little less than the line carries, so that the queue stands in the shaper
//! and not in a modem. What two probes' answers are apart tells what the line carried between them:
//! the bytes that went between the probes, by the time between the answers, once a queue stood the
//! whole time. That is the dispersion of packet trains (Dovrolis, Ramanathan and Moore, INFOCOM
//! 2001), with the traffic itself as the train. Without a queue the line could carry more, and
//! under load the estimate grows until one appears: fast when far below what was known, slowly near
//! it.
//!
//! The queue is a probe's round trip over the least of ten seconds. A higher one that stands still
//! while the shaper sends less than the line carries is no queue but another way, and becomes the
//! base. A probe that is overdue tells of a queue before its answer does. Without any answer for a
//! second the law is blind, and sends the least that it may; where the delay never rises under load
//! at the most that it may, it says that the delay shows nothing, and stays there.
//!
//! Departure from the usual scripts that follow a line (they step a rate up and down by load and by
//! delay above a threshold): the capacity is measured, so one step is enough.

use engine::units::{Bandwidth, Bytes, Duration, Instant};
use std::collections::VecDeque;

/// The time between ticks, and between probes.
pub const AUTORATE_INTERVAL: Duration = Duration::from_millis(25);
/// The span over which the capacity is measured, in seconds.
const WINDOW: f64 = 0.04;
/// A delay that is no queue, in seconds.
const NOISE: f64 = 0.002;
/// The queue that is left to stand unless another is asked for: above it the rate falls.
pub const AUTORATE_QUEUE: Duration = Duration::from_millis(3);
/// The time in which a queue is to be gone, in seconds.
const HORIZON: f64 = 0.035;
/// A probe that is overdue by this much, in seconds, stops all but the least.
const ALARM: f64 = 0.01;
/// The part of the estimated capacity that is sent where no queue stands.
const MARGIN: f64 = 0.95;
/// The smallest part that is sent while a queue stands.
const DEEPEST: f64 = 0.1;
/// How far the estimate goes to each measured capacity.
const BLEND: f64 = 0.7;
/// The growth of the estimate in a second, far below what was known and near it.
const FAST: f64 = 2.0;
const SLOW: f64 = 0.5;
/// "Far below": less than this part of what was known.
const FAR: f64 = 0.8;
/// The shaper is loaded if it carries this part of its rate.
const LOADED: f64 = 0.8;
/// The span over which the load counts, in seconds.
const LOAD_SPAN: f64 = 0.2;
/// The span of the base, in seconds.
const BASE_SPAN: f64 = 10.0;
/// A delay that stands still for so long, in seconds, is another way.
const FLAT: f64 = 0.4;
/// The time constants of what is known, in seconds: under load, and of the way back to it.
const LEARNS: f64 = 5.0;
const RETURNS: f64 = 10.0;
/// Without an answer for so long the law is blind, in seconds.
const SILENCE: f64 = 1.0;
/// Without any queue under load at the most for so long the delay shows nothing, in seconds.
const WITHOUT_SIGNAL: f64 = 30.0;
/// Bits of a full frame, behind which a probe may wait in the shaper.
const FULL_FRAME: f64 = 12_112.0;

/// The answer of a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProbeAnswer {
    /// When the probe was sent.
    pub sent: Instant,
    /// When its answer came.
    pub answered: Instant,
    /// Before the line: all that the shaper had sent when the probe was sent. Behind it: all that
    /// had come from the line when the answer came.
    pub carried: Bytes,
}

/// What is known at a tick.
#[derive(Clone, Copy, Debug)]
pub struct AutorateInput<'a> {
    /// The time.
    pub now: Instant,
    /// The least and the most that the shaper may send.
    pub bounds: [Bandwidth; 2],
    /// The answers since the last tick, in the order of their probes.
    pub answers: &'a [ProbeAnswer],
    /// When the first probe was sent that was sent after all answered ones.
    pub waiting_since: Option<Instant>,
    /// All that was carried until now, counted as in the answers.
    pub carried: Bytes,
    /// The queue that may stand in the line: above it the rate falls.
    pub standing: Duration,
    /// The line's other direction is loaded. A round trip has the queues of both: where this one is
    /// not loaded, they are the other's.
    pub elsewhere: bool,
}

/// What the law does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AutorateState {
    /// There is little traffic: the rate goes back to what was known.
    Idle,
    /// The line is loaded and has no queue: the rate grows.
    Probing,
    /// The rate is what the line was seen to carry.
    Following,
    /// The rate is the most that it may be, and the line has no queue.
    Capped,
    /// Blind: no probe is answered. The rate is the least that it may be.
    NoAnswer,
    /// Blind: under load at the most that may be sent the delay has not risen for long.
    NoSignal,
}

impl AutorateState {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Probing => "probing",
            Self::Following => "following",
            Self::Capped => "capped",
            Self::NoAnswer => "blind: no answer",
            Self::NoSignal => "blind: delay shows nothing",
        }
    }

    /// Whether it cannot see what the line carries.
    pub const fn is_blind(self) -> bool {
        matches!(self, Self::NoAnswer | Self::NoSignal)
    }
}

/// The shaper's rate from now on, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AutorateOrder {
    /// The rate.
    pub rate: Bandwidth,
    /// What the law does.
    pub state: AutorateState,
    /// The round trip without a queue; none before the first answer.
    pub base: Option<Duration>,
    /// The queue that the last probe met, or that an overdue one tells of.
    pub queue: Duration,
}

/// An answer, in seconds and bits.
#[derive(Clone, Copy, Debug)]
struct Seen {
    sent: f64,
    answered: f64,
    carried: f64,
    round_trip: f64,
}

/// The law of one shaper.
#[derive(Clone, Debug)]
pub struct Autorate {
    seen: VecDeque<Seen>,
    /// The least round trip of each second.
    minima: VecDeque<(u64, f64)>,
    /// What was carried at recent ticks.
    carried: VecDeque<(f64, f64)>,
    /// What the line is taken to carry, and that in the long run, in bits per second.
    capacity: f64,
    known: f64,
    /// The last order's rate.
    rate: f64,
    base: f64,
    /// Probes were overdue for long, and whether they have been answered since: from when on.
    silence: Option<f64>,
    heard: f64,
    /// A queue was seen, and when the last was.
    queue_seen: Option<f64>,
    /// Seconds under load at the most without a queue.
    without_signal: f64,
    last_tick: f64,
    loaded: bool,
}

fn seconds(at: Instant) -> f64 {
    at.since(Instant::START).as_secs_f64()
}

fn bits(bytes: Bytes) -> f64 {
    bytes.get() as f64 * 8.0
}

impl Autorate {
    /// It begins in the middle between these bounds, by their ratio.
    pub fn new(now: Instant, bounds: [Bandwidth; 2]) -> Self {
        let [least, most] = bounds.map(|rate| rate.bits() as f64);
        let middle = (least.max(1.0) * most).sqrt();
        Self {
            seen: VecDeque::new(),
            minima: VecDeque::new(),
            carried: VecDeque::new(),
            capacity: middle,
            known: most,
            rate: middle,
            base: f64::INFINITY,
            silence: None,
            heard: f64::INFINITY,
            queue_seen: None,
            without_signal: 0.0,
            last_tick: seconds(now),
            loaded: false,
        }
    }

    /// The same, which takes the line to carry this until it knows more.
    #[must_use]
    pub fn starting_at(self, rate: Bandwidth) -> Self {
        let rate = rate.bits() as f64;
        Self {
            capacity: rate / MARGIN,
            rate,
            ..self
        }
    }

    /// Whether at the last tick so much was carried that the rate may have limited it.
    pub fn is_loaded(&self) -> bool {
        self.loaded
    }

    /// The rate from now on.
    pub fn tick(&mut self, input: &AutorateInput<'_>) -> AutorateOrder {
        let now = seconds(input.now);
        let since_last = now - self.last_tick;
        self.last_tick = now;
        self.learn(input, now);
        let load = self.load(bits(input.carried), now);
        let [least, most] = input.bounds.map(|rate| rate.bits() as f64);
        // A probe may wait behind a frame in the shaper itself. A slow line has a frame's time to
        // stand besides, and no more: in a tunnel half a frame more is three milliseconds.
        let frame = FULL_FRAME / self.rate.max(1.0);
        let noise = NOISE + 1.5 * frame;
        let target = input.standing.as_secs_f64() + frame;
        self.accept_another_way(noise);
        let overdue = input
            .waiting_since
            .map_or(0.0, |at| now - seconds(at) - self.base.min(now));
        let loaded = load > LOADED * self.rate.min(self.capacity);
        self.loaded = loaded;
        let Some(last) = self.seen.back().copied() else {
            self.rate = least;
            return self.order(AutorateState::NoAnswer, overdue);
        };
        let silent = overdue > SILENCE;
        let of_others = input.elsewhere && !loaded;
        let [over, overdue] = match of_others {
            true => [0.0; 2],
            false => [last.round_trip - self.base, overdue],
        };
        let queue = over.max(overdue).max(0.0);
        if queue > target {
            self.queue_seen = Some(now);
        }
        let measured = self.measured(last, input, noise).filter(|_| !of_others);
        let grew = self.estimate(measured, [over, overdue], target, (loaded, since_last));
        self.capacity = self.capacity.clamp(least, most / MARGIN);
        if loaded {
            self.known += (self.capacity - self.known) * (since_last / LEARNS).min(1.0);
        } else if over < noise {
            self.capacity += (self.known - self.capacity) * (since_last / RETURNS).min(1.0);
        }
        let part = match queue - target {
            _ if silent || overdue > target + ALARM => 0.0,
            above if above > 0.0 => (MARGIN - above / HORIZON).max(DEEPEST),
            _ => MARGIN,
        };
        self.rate = (self.capacity * part).clamp(least, most);
        let capped = self.rate >= most;
        self.without_signal = match (capped && loaded, queue > target) {
            (_, true) => 0.0,
            (true, false) => self.without_signal + since_last,
            (false, false) => self.without_signal,
        };
        let state = match () {
            () if silent => AutorateState::NoAnswer,
            () if capped && self.without_signal > WITHOUT_SIGNAL => AutorateState::NoSignal,
            () if capped => AutorateState::Capped,
            () if !loaded && queue <= target => AutorateState::Idle,
            () if grew => AutorateState::Probing,
            () => AutorateState::Following,
        };
        self.order(state, queue)
    }

    fn order(&self, state: AutorateState, queue: f64) -> AutorateOrder {
        let duration = |seconds: f64| Duration::from_nanos((seconds.max(0.0) * 1e9) as u64);
        AutorateOrder {
            rate: Bandwidth::bits_per_sec(self.rate as u64),
            state,
            base: self.base.is_finite().then(|| duration(self.base)),
            queue: duration(queue),
        }
    }

    /// Takes the answers, and the least round trip from them.
    fn learn(&mut self, input: &AutorateInput<'_>, now: f64) {
        for answer in input.answers {
            let [sent, answered] = [answer.sent, answer.answered].map(seconds);
            let round_trip = answered - sent;
            let carried = bits(answer.carried);
            self.seen.push_back(Seen {
                sent,
                answered,
                carried,
                round_trip,
            });
            let second = answered as u64;
            match self.minima.back_mut() {
                Some((of, least)) if *of == second => *least = least.min(round_trip),
                _ => self.minima.push_back((second, round_trip)),
            }
        }
        while self.minima.len() > 1 && (self.minima[0].0 as f64) < now - BASE_SPAN {
            self.minima.pop_front();
        }
        let minima = self.minima.iter().map(|(_, least)| *least);
        self.base = minima.fold(f64::INFINITY, f64::min);
        while self.seen.len() > 2 && self.seen[0].answered < now - 2.0 * FLAT {
            self.seen.pop_front();
        }
    }

    /// A delay that has stood still is another way: what is sent is less than the line carries, so
    /// a queue would have shrunk.
    fn accept_another_way(&mut self, noise: f64) {
        let (Some(last), Some(first)) = (self.seen.back(), self.seen.front()) else {
            return;
        };
        let from = last.answered - FLAT;
        let recent = self.seen.iter().rev().take_while(|seen| seen.answered > from);
        let (mut least, mut longest, mut count) = (f64::INFINITY, 0.0_f64, 0);
        for seen in recent {
            (least, longest) = (least.min(seen.round_trip), longest.max(seen.round_trip));
            count += 1;
        }
        let stands = first.answered < from && count >= 5 && longest < least + noise;
        if stands && least > self.base + noise {
            self.minima.clear();
            self.minima.push_back((last.answered as u64, least));
            self.base = least;
        }
    }

    /// What the shaper has carried lately, in bits per second.
    fn load(&mut self, carried: f64, now: f64) -> f64 {
        self.carried.push_back((now, carried));
        while self.carried.len() > 2 && self.carried[1].0 <= now - LOAD_SPAN {
            self.carried.pop_front();
        }
        let (then, before) = self.carried[0];
        match now > then {
            true => (carried - before) / (now - then),
            false => 0.0,
        }
    }

    /// What the line carried between the last answer and one before it, and whether a queue stood
    /// all the time; none without a new answer.
    fn measured(&self, last: Seen, input: &AutorateInput<'_>, noise: f64) -> Option<(f64, bool)> {
        let apart = |seen: &&Seen| seen.sent <= last.sent - WINDOW && seen.answered <= last.answered - WINDOW;
        let older = self.seen.iter().rev().find(apart)?;
        let mut since = self
            .seen
            .iter()
            .rev()
            .take_while(|seen| seen.sent >= last.sent - WINDOW);
        let stood = since.all(|seen| seen.round_trip - self.base > noise);
        let rate = (last.carried - older.carried) / (last.answered - older.answered);
        (!input.answers.is_empty()).then_some((rate, stood))
    }

    /// Brings the estimated capacity up to date. Whether it grew by itself.
    fn estimate(
        &mut self,
        measured: Option<(f64, bool)>,
        [over, overdue]: [f64; 2],
        target: f64,
        (loaded, since_last): (bool, f64),
    ) -> bool {
        let (now, last) = (self.last_tick, self.seen.back().map_or(0.0, |seen| seen.sent));
        if overdue > 0.1 && self.silence.is_none() {
            (self.silence, self.heard) = (Some(now), f64::INFINITY);
        }
        let Some((rate, stood)) = measured else {
            return false;
        };
        if self.silence.is_some() {
            if self.heard.is_infinite() && overdue < 0.05 {
                self.heard = now;
            }
            // What was answered late in one go says nothing of the capacity. Once a probe that was
            // sent since is answered, the line carries what it did, or a queue stands.
            if last > self.heard {
                self.silence = None;
            }
            if last <= self.heard || over <= target {
                return false;
            }
        }
        if stood {
            self.capacity += (rate - self.capacity) * BLEND;
            return false;
        }
        let mut grew = false;
        if over < target && loaded {
            let far = self.capacity < FAR * self.known || self.queue_seen.is_none();
            self.capacity *= 1.0 + if far { FAST } else { SLOW } * since_last;
            grew = true;
        }
        self.capacity = self.capacity.max(rate);
        grew
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::random::Seed;

    const BOUNDS: [Bandwidth; 2] = [Bandwidth::mbit(1), Bandwidth::mbit(50)];
    const MS: f64 = 1e-3;

    /// A line as a fluid: it carries so much, and what is above that waits before it.
    struct FluidLine {
        law: Autorate,
        now: u64,
        capacity: f64,
        way: f64,
        /// What senders would send, and whether probes are answered.
        demand: f64,
        answers: bool,
        waiting: f64,
        sent: f64,
        /// When each probe was sent, what had been, and when it will be answered.
        probes: VecDeque<(Instant, Bytes, f64)>,
        order: Option<AutorateOrder>,
        elsewhere: bool,
    }

    impl FluidLine {
        fn new(mbit: f64) -> Self {
            Self {
                law: Autorate::new(Instant::START, BOUNDS),
                now: 0,
                capacity: mbit * 1e6,
                way: 30.0 * MS,
                demand: 1e9,
                answers: true,
                waiting: 0.0,
                sent: 0.0,
                probes: VecDeque::new(),
                order: None,
                elsewhere: false,
            }
        }

        /// Lets this many milliseconds pass. The last order.
        fn pass(&mut self, ms: u64) -> AutorateOrder {
            for _ in 0..ms {
                let rate = self.order.map_or(1e6, |order| order.rate.bits() as f64);
                let sent = rate.min(self.demand) * MS;
                self.sent += sent;
                self.waiting = (self.waiting + sent - self.capacity * MS).max(0.0);
                self.now += 1;
                if self.now.is_multiple_of(25) {
                    self.tick();
                }
            }
            self.order.expect("a tick")
        }

        fn tick(&mut self) {
            let now = Instant::START + Duration::from_millis(self.now);
            let carried = Bytes::new((self.sent / 8.0) as u64);
            let mut answers = Vec::new();
            let seconds_now = self.now as f64 * MS;
            // What was sent before an answered one and is not answered is lost.
            let last = self.probes.iter().rposition(|probe| probe.2 <= seconds_now);
            for (sent, carried, answered) in self.probes.drain(..last.map_or(0, |last| last + 1)) {
                if answered.is_finite() {
                    let answered = Instant::from_nanos((answered * 1e9) as u64);
                    answers.push(ProbeAnswer {
                        sent,
                        answered,
                        carried,
                    });
                }
            }
            let answered = match self.answers {
                true => seconds_now + self.way + self.waiting / self.capacity,
                false => f64::INFINITY,
            };
            self.order = Some(self.law.tick(&AutorateInput {
                now,
                bounds: BOUNDS,
                answers: &answers,
                waiting_since: self.probes.front().map(|probe| probe.0),
                carried,
                standing: AUTORATE_QUEUE,
                elsewhere: self.elsewhere,
            }));
            self.probes.push_back((now, carried, answered));
        }

        fn mbit(&self) -> f64 {
            self.order.map_or(0.0, |order| order.rate.bits() as f64 / 1e6)
        }
    }

    #[test]
    fn it_follows_a_line_down_and_up() {
        let mut line = FluidLine::new(20.0);
        line.pass(5_000);
        assert!((16.0..=24.0).contains(&line.mbit()), "{}", line.mbit());
        line.capacity = 8e6;
        line.pass(500);
        assert!((1.0..=9.0).contains(&line.mbit()), "{}", line.mbit());
        line.pass(500);
        let before = line.sent;
        line.pass(2_000);
        let carried = (line.sent - before) / 2.0 / 8e6;
        assert!((0.85..=1.01).contains(&carried), "{carried}");
        assert!(line.waiting / line.capacity < 0.015, "the queue is gone");
        line.capacity = 20e6;
        line.pass(3_000);
        assert!((17.0..=24.0).contains(&line.mbit()), "{}", line.mbit());
    }

    #[test]
    fn a_longer_way_is_no_queue_for_long() {
        let mut line = FluidLine::new(20.0);
        line.pass(5_000);
        line.way += 40.0 * MS;
        line.pass(3_000);
        assert!((16.0..=24.0).contains(&line.mbit()), "{}", line.mbit());
        let base = line.order.and_then(|order| order.base).expect("a base");
        assert!((68.0..=75.0).contains(&(base.as_secs_f64() / MS)), "{base:?}");
        line.way -= 40.0 * MS;
        line.pass(1_000);
        let base = line.order.and_then(|order| order.base).expect("a base");
        assert!(
            base < Duration::from_millis(33),
            "a shorter one counts at once: {base:?}"
        );
    }

    #[test]
    fn a_queue_of_the_other_direction_does_not_lower_the_rate_of_one_that_is_idle() {
        let of_the_other = |elsewhere| {
            let mut line = FluidLine::new(20.0);
            line.pass(5_000);
            (line.demand, line.elsewhere) = (1e5, elsewhere);
            line.pass(1_000);
            // A queue that comes and goes.
            for _ in 0..20 {
                line.way += 40.0 * MS;
                line.pass(150);
                line.way -= 40.0 * MS;
                line.pass(50);
            }
            line.mbit()
        };
        let [told, untold] = [true, false].map(of_the_other);
        assert!(told > 16.0 && untold < 0.5 * told, "{told} {untold}");
        let mut line = FluidLine::new(20.0);
        line.elsewhere = true;
        line.pass(5_000);
        line.capacity = 8e6;
        line.pass(2_000);
        assert!((1.0..=9.8).contains(&line.mbit()), "its own: {}", line.mbit());
    }

    #[test]
    fn it_begins_where_it_is_told() {
        let mut line = FluidLine::new(20.0);
        line.law = Autorate::new(Instant::START, BOUNDS).starting_at(Bandwidth::mbit(20));
        line.demand = 1e5;
        line.pass(200);
        assert!((18.0..=23.0).contains(&line.mbit()), "{}", line.mbit());
    }

    #[test]
    fn without_answers_it_is_blind_and_sends_the_least() {
        let mut line = FluidLine::new(20.0);
        line.answers = false;
        assert_eq!(line.pass(3_000).state, AutorateState::NoAnswer, "from the start");
        assert_eq!(line.mbit(), 1.0);
        line.answers = true;
        line.pass(5_000);
        assert!(line.mbit() > 15.0, "{}", line.mbit());
        line.answers = false;
        let order = line.pass(2_000);
        assert_eq!((order.state, order.rate), (AutorateState::NoAnswer, BOUNDS[0]));
        assert!(order.state.is_blind());
        line.answers = true;
        let order = line.pass(1_000);
        assert!(!order.state.is_blind() && line.mbit() > 10.0, "{order:?}");
    }

    #[test]
    fn a_line_that_never_queues_is_sent_the_most_and_said_to_show_nothing() {
        let mut line = FluidLine::new(10_000.0);
        assert_eq!(line.pass(10_000).state, AutorateState::Capped);
        assert_eq!(line.pass(20_000).rate, BOUNDS[1]);
        let order = line.pass(10_000);
        assert_eq!((order.state, order.rate), (AutorateState::NoSignal, BOUNDS[1]));
        line.capacity = 20e6;
        assert!(!line.pass(2_000).state.is_blind(), "it has seen one");
    }

    #[test]
    fn idle_it_goes_back_to_what_was_known() {
        let mut line = FluidLine::new(20.0);
        line.pass(20_000);
        line.capacity = 5e6;
        line.pass(1_000);
        line.capacity = 20e6;
        line.demand = 1e5;
        let before = line.mbit();
        let order = line.pass(30_000);
        assert_eq!(order.state, AutorateState::Idle);
        assert!(
            before < 6.0 && (12.0..=22.0).contains(&line.mbit()),
            "{before} {}",
            line.mbit()
        );
    }

    #[test]
    fn whatever_comes_the_rate_stays_within_its_bounds() {
        let mut rng = Seed(22).fork("autorate").stream();
        for _ in 0..200 {
            let mut law = Autorate::new(Instant::START, BOUNDS);
            let (mut now, mut carried) = (Instant::START, 0);
            for _ in 0..200 {
                now = now + Duration::from_micros(rng.below(100_000));
                carried += rng.below(1_000_000);
                let answers: Vec<ProbeAnswer> = (0..rng.below(4))
                    .map(|_| {
                        let ago = [rng.below(1_000_000), rng.below(10_000)].map(Duration::from_micros);
                        let [ago, since] = ago.map(|ago| now.since(Instant::START + ago));
                        let [sent, answered] = [ago.min(since), since].map(|at| Instant::START + at);
                        ProbeAnswer {
                            sent,
                            answered,
                            carried: Bytes::new(rng.below(carried + 1)),
                        }
                    })
                    .collect();
                let order = law.tick(&AutorateInput {
                    now,
                    bounds: BOUNDS,
                    answers: &answers,
                    waiting_since: (rng.below(2) == 1).then_some(Instant::START),
                    carried: Bytes::new(carried),
                    standing: AUTORATE_QUEUE,
                    elsewhere: rng.below(2) == 1,
                });
                assert!(BOUNDS[0] <= order.rate && order.rate <= BOUNDS[1], "{order:?}");
            }
        }
    }
}
