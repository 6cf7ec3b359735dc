//! `red`: Random Early Detection, over any queue below it.
//!
//! Floyd and Jacobson, "Random early detection gateways for congestion avoidance", ToN 1(4), 1993,
//! with ECN (RFC 3168) and the *gentle* slope (Floyd 1999); the place over another queue and the
//! defaults are ALTQ's (Cho 1999, section 4.1.2). On each arrival, with *q* the queue below before it, *w* the weight and *m* the packets
//! the link could have sent while idle:
//!
//! ```text
//! avg ← avg · (1 − w)^(m − 1)                                    if the queue was empty
//! avg ← avg + w (q − avg)
//! p_b = max_p (avg − min) / (max − min)                          min ≤ avg < max
//! p_b = max_p + (1 − max_p) (avg − max) / max                    max ≤ avg < 2 max, gentle
//! drop or mark with probability  p_a                              s = 1, or the packet's length / packet_size
//! ```
//!
//! where *count* is the sum of *s* over packets let through since the last drop or mark, or since
//! `avg` rose above *min*, and `spacing` says how p_a spaces drops:
//!
//! ```text
//! uniform   p_a = p_b s / (1 − p_b · count)                           gaps uniform on 1 … 1/p_b           mean 0.5 / p_b
//! altq      p_a = p_b s / (2 − p_b · count)                           gaps uniform on 1 … 2/p_b           mean 1 / p_b
//! wait      p_a = 0 while p_b · count < 1, then as altq               gaps uniform on 1/p_b + 1 … 2/p_b   mean 1.5 / p_b
//! ```
//!
//! `uniform` is Floyd and Jacobson's second method and Linux's, `altq` ALTQ's, `wait` ns-2's with
//! its default `wait_`. The distributions are exact: the papers' pseudo-code and ALTQ count one
//! packet more. An ECN-capable packet is marked instead of dropped
//! while `avg` < *max*. Above 2 *max* (*max* if not gentle) every arriving packet is dropped,
//! ECN-capable or not. Nothing is dropped while the queue has fewer than two packets. It is always
//! the arriving packet that is dropped or marked, and if the queue below refuses it (its own
//! limit), that resets *count* as a drop does.
//!
//! Departures: any idle time decays by an exact power and there is no reset after 60 s; the slope
//! is gentle and ECN is on unless switched off; there is no limit here, since the queue below has
//! its own.
//!
//! Arithmetic: `avg` has 24 fractional bits and rounding keeps it within 2⁻²⁴/w of the true one;
//! thresholds go up to 2³⁶ bytes or packets; *p_b* is right to 2⁻²⁷ of itself or 2⁻³², whichever is
//! more.

use crate::discipline::{Build, Discipline, Next, Plan, Reason, Sink, Verdict};
use crate::inspect::{Inspection, Value};
use crate::kind::{Check, Children, Kind, Properties, QueuePlan};
use crate::packet::{ClassId, Packet};
use crate::portion::Portion;
use crate::queue::Queue;
use crate::random::Rng;
use crate::settings::{Problem, Raw, SettingValue, describe};
use crate::units::{Bandwidth, Bytes, Instant, Probability, Rate};
use crate::{choices, settings};
use std::any::Any;
use std::sync::Arc;

/// The registration.
pub static KIND: Kind = Kind {
    name: "red",
    summary: "Random Early Detection: drops or marks a few packets early, before the queue is full",
    reference: "Floyd and Jacobson, \"Random early detection gateways for congestion avoidance\", 1993",
    children: Children::One,
    settings: Settings::SETTINGS,
    class_settings: &[],
    properties: Properties {
        adds_no_delay: true,
        takes_over: true,
        ..Properties::NONE
    },
    check,
};

choices! {
    /// In what the queue is measured.
    pub enum Measure {
        /// In packets; every packet is as likely to be dropped.
        Packets = "packets",
        /// In bytes; the probability is proportional to the packet's length.
        Bytes = "bytes",
    }
}

choices! {
    /// How drops are spaced at a constant average.
    pub enum Spacing {
        /// Floyd and Jacobson's uniform method: every 0.5/p packets on average.
        Uniform = "uniform",
        /// ALTQ's: every 1/p packets.
        Altq = "altq",
        /// ns-2's `wait_`: every 1.5/p packets, and none before 1/p.
        Wait = "wait",
    }
}

/// A threshold: packets, or bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Threshold {
    /// This many packets.
    Packets(u32),
    /// This length.
    Bytes(Bytes),
}

impl SettingValue for Threshold {
    const UNIT: &'static str = "a whole number of packets, or a length such as \"30 kB\"";
    fn from_raw(raw: &Raw) -> Result<Self, String> {
        match raw {
            Raw::Integer(_) => u32::from_raw(raw).map(Self::Packets),
            Raw::Text(_) => Bytes::from_raw(raw).map(Self::Bytes),
            other => Err(format!("expected {}; found {}", Self::UNIT, describe(other))),
        }
    }
}

/// The weight of one sample in the average: 1/2ⁿ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Weight {
    shift: u32,
}

impl SettingValue for Weight {
    const UNIT: &'static str = "a fraction 1/N, N a power of two up to 65536, such as \"1/512\"";
    fn from_raw(raw: &Raw) -> Result<Self, String> {
        let n: Option<u32> = match raw {
            Raw::Text(text) => text.strip_prefix("1/").and_then(|n| n.parse().ok()),
            _ => None,
        };
        match n {
            Some(n) if n.is_power_of_two() && n <= 1 << MAX_SHIFT => Ok(Self { shift: n.ilog2() }),
            _ => Err(format!("expected {}; found {}", Self::UNIT, describe(raw))),
        }
    }
}

settings! {
    /// Settings of `red`.
    pub struct Settings {
        /// Whether queue, thresholds and probabilities go by packets or by bytes
        measure: Measure = default "packets",
            "bytes: short packets (ACKs, voice) are dropped rarely, in proportion to their length",
            "Floyd and Jacobson describe both";
        /// The average queue below which nothing is dropped
        min: Threshold = default "5",
            "too small: the link idles after each burst; too large: queueing delay for nothing",
            "the paper's simulations, and ALTQ";
        /// The average queue at which the probability is max_p
        max: Threshold = derived "three times min",
            "too near to min: drops come all at once and senders synchronise; too large: long queueing delays",
            "the paper asks for at least twice min; Floyd's later advice is three times";
        /// The drop probability at max
        max_p: Probability = default "10 %",
            "too small: the average runs above max; too large: senders are driven off a free link",
            "Floyd's advice of 1997, and ALTQ's code; the paper of 1993 had 2 %";
        /// How drops are spaced at a probability p: uniformly on 1 to 1/p packets, on 1 to 2/p
        /// (altq), or on 1/p to 2/p (wait, as ns-2)
        spacing: Spacing = default "uniform",
            "altq and wait signal half and a third as often: the average stands higher above min",
            "Floyd and Jacobson's second method, and Linux";
        /// Whether the probability rises slowly from max_p to 1 between max and twice max, instead
        /// of at once
        gentle: bool = default "true",
            "false: at max the drop probability jumps from max_p to 1, which is hard on every sender",
            "Floyd, \"Recommendation on using the gentle variant of RED\", 1999";
        /// Whether ECN-capable packets are marked instead of dropped
        ecn: bool = default "true",
            "false: ECN-capable senders suffer drops for nothing",
            "RFC 3168, RFC 7567";
        /// The weight of one arriving packet in the average
        weight: Weight = derived "1/512; 1/128 on a link below 300 packets/s, 1/64 below 50",
            "too small: reacts late to a standing queue; too large: drops from short bursts",
            "the paper (0.002), and ALTQ";
        /// The length of a typical packet: for idle time, and the unit in which bytes are measured
        packet_size: Bytes = default "1000 B",
            "only its order of size matters, except that in bytes it scales the chances",
            "Floyd's advice of 500 to 1000 B";
        /// The rate at which the queue drains, for idle time
        bandwidth: Rate = derived "the link's",
            "give a class's rate for RED in a class; too large: a pause makes RED forget too fast",
            "the paper's s, the time to send a small packet";
    }
}

/// Fractional bits of an average.
pub(super) const FRACTION: u32 = 24;
/// The smallest weight is 2⁻¹⁶.
const MAX_SHIFT: u32 = 16;
/// The largest threshold, in packets or bytes.
const MAX_THRESHOLD: u64 = 1 << 36;
/// Longer queues count as this long, so that an average fits in 63 bits.
const MAX_QUEUE: u64 = 1 << 38;
/// Fractional bits of a power of 1 − w.
const POWER: u32 = 63;
/// Powers beyond (1 − w)^(2²³) are 0, as w ≥ 2⁻¹⁶.
const POWERS: usize = 24;
/// Fractional bits of a slope, beyond those of a probability and an average.
const SLOPE: u32 = 55;
const ONE: u64 = Probability::ONE.parts();

/// Settings in the units of the computation.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Parameters {
    measure: Measure,
    spacing: Spacing,
    ecn: bool,
    /// Thresholds with [`FRACTION`] bits; `certain` is where every packet is dropped.
    pub(super) min: u64,
    pub(super) max: u64,
    pub(super) certain: u64,
    max_p: Probability,
    /// Increase of p_b for one unit of average: between min and max, and from there to certain.
    slopes: [u64; 2],
    shift: u32,
    /// (1 − w)^(2^k)
    powers: [u64; POWERS],
    /// A typical packet in the measure: 1, or its length.
    unit: u64,
    pub(super) packet_size: Bytes,
    pub(super) bandwidth: Bandwidth,
}

#[derive(Debug)]
struct RedPlan {
    parameters: Parameters,
    child: QueuePlan,
}

fn check(check: &mut Check<'_>) -> Option<Arc<dyn Plan>> {
    let settings = Settings::read(check.settings, &[], check.problems)?;
    let at = |key: &str| check.settings.place(key);
    match Parameters::new(&settings, check.link.bandwidth) {
        Ok(parameters) => Some(Arc::new(RedPlan {
            parameters,
            child: check.child.take()?,
        })),
        Err((key, message)) => {
            check.problems.push(Problem::new(at(key), message));
            None
        }
    }
}

impl Parameters {
    /// The error names the setting and says what is wrong with it.
    pub(super) fn new(settings: &Settings, link: Bandwidth) -> Result<Self, (&'static str, String)> {
        let &Settings {
            measure,
            packet_size,
            max_p,
            spacing,
            gentle,
            ecn,
            ..
        } = settings;
        if packet_size == Bytes::ZERO || packet_size.get() > MAX_THRESHOLD {
            return Err((
                "packet_size",
                "`packet_size` must be the length of a packet, at least 1 B".into(),
            ));
        }
        if max_p == Probability::ZERO {
            return Err((
                "max_p",
                "`max_p` must be more than 0: nothing would ever be dropped early".into(),
            ));
        }
        let bandwidth = settings.bandwidth.map_or(link, |rate| rate.on(link));
        if bandwidth == Bandwidth::ZERO {
            return Err(("bandwidth", "`bandwidth` must be more than 0".into()));
        }
        let unit = if measure == Measure::Bytes {
            packet_size.get()
        } else {
            1
        };
        let threshold = |key, value| threshold(key, value, measure, unit);
        let min = threshold("min", settings.min)?;
        let max = settings
            .max
            .map_or(Ok(min.saturating_mul(3)), |max| threshold("max", max))?;
        if max <= min {
            return Err((
                "max",
                "`max` must be larger than `min`; three times `min` is usual".into(),
            ));
        }
        if max > MAX_THRESHOLD {
            return Err((
                "max",
                format!("`max` is too large: at most {MAX_THRESHOLD} bytes or packets"),
            ));
        }
        let scaled = |n: u64| n << FRACTION;
        let slope = |rise: u64, run: u64| ((u128::from(rise) << SLOPE) / u128::from(scaled(run))) as u64;
        let shift = settings
            .weight
            .map_or_else(|| default_shift(bandwidth, packet_size), |w| w.shift);
        Ok(Self {
            measure,
            spacing,
            ecn,
            min: scaled(min),
            max: scaled(max),
            certain: scaled(if gentle { 2 * max } else { max }),
            max_p,
            slopes: [slope(max_p.parts(), max - min), slope(ONE - max_p.parts(), max)],
            shift,
            powers: powers(shift),
            unit,
            packet_size,
            bandwidth,
        })
    }

    /// *p_b*: the drop probability of a typical packet, before the correction for the gap, in parts
    /// of 2³².
    pub(super) fn p_b(&self, average: u64) -> u64 {
        let rise = |over: u64, slope: u64| ((u128::from(over) * u128::from(slope)) >> SLOPE) as u64;
        let parts = match average {
            a if a < self.min => 0,
            a if a < self.max => rise(a - self.min, self.slopes[0]),
            a if a < self.certain => self.max_p.parts() + rise(a - self.max, self.slopes[1]),
            _ => ONE,
        };
        parts.min(ONE)
    }

    /// The average after another sample.
    pub(super) fn sample(&self, average: u64, queue: u64) -> u64 {
        let queue = queue.min(MAX_QUEUE) << FRACTION;
        // Both are below 2⁶³, so the difference fits, and the sum lies between them.
        average.wrapping_add_signed((queue as i64 - average as i64) >> self.shift)
    }

    /// The average after this many samples of an empty queue.
    pub(super) fn decayed(&self, average: u64, samples: u64) -> u64 {
        if samples >> POWERS != 0 {
            return 0;
        }
        let set = (0..POWERS).filter(|k| samples >> k & 1 == 1);
        set.fold(average, |a, k| {
            ((u128::from(a) * u128::from(self.powers[k])) >> POWER) as u64
        })
    }

    /// Draws: `true` with probability p_a, for a packet of this size in the measure. Updates
    /// `count`.
    pub(super) fn draw(&self, rng: &mut Rng, count: &mut u64, p_b: u64, size: u64) -> bool {
        let wide = u128::from;
        // In units of `unit` · 2³².
        let numerator = wide(p_b) * wide(size);
        let one = wide(self.unit) << 32;
        let passed = wide(p_b) * wide(*count);
        let denominator = match self.spacing {
            Spacing::Uniform => one.saturating_sub(passed),
            Spacing::Altq | Spacing::Wait => (2 * one).saturating_sub(passed),
        };
        let waits = self.spacing == Spacing::Wait && passed < one;
        let drop = !waits && wide(rng.bits() >> 32) * denominator < numerator << 32;
        if !drop {
            *count = count.saturating_add(size);
        }
        drop
    }
}

fn threshold(
    key: &'static str,
    value: Threshold,
    measure: Measure,
    unit: u64,
) -> Result<u64, (&'static str, String)> {
    let value = match (value, measure) {
        (Threshold::Bytes(_), Measure::Packets) => {
            let message = format!("`{key}` is a length, but the queue is measured in packets");
            return Err((
                key,
                message + ": write a number of packets, or measure = \"bytes\"",
            ));
        }
        (Threshold::Bytes(bytes), Measure::Bytes) => bytes.get(),
        (Threshold::Packets(packets), _) => u64::from(packets).saturating_mul(unit),
    };
    if value == 0 {
        return Err((key, format!("`{key}` must be at least 1")));
    }
    Ok(value)
}

/// ALTQ's choice: on a slow link the average must not lag behind by seconds.
fn default_shift(bandwidth: Bandwidth, packet_size: Bytes) -> u32 {
    match bandwidth.bits() / packet_size.get().saturating_mul(8) {
        0..50 => 6,
        50..300 => 7,
        _ => 9,
    }
}

fn powers(shift: u32) -> [u64; POWERS] {
    let mut power = (1u64 << POWER) - (1 << (POWER - shift));
    let square = |p: u64| ((u128::from(p) * u128::from(p)) >> POWER) as u64;
    std::array::from_fn(|_| {
        let this = power;
        power = square(this);
        this
    })
}

impl Plan for RedPlan {
    fn build(&self, cx: &Build) -> Box<dyn Discipline> {
        Box::new(Red::new(
            self.parameters.clone(),
            self.child.build(&cx.part("child")),
            cx.rng(),
        ))
    }
}

#[derive(Debug)]
struct Red {
    parameters: Parameters,
    child: Queue,
    rng: Rng,
    /// The average queue, with [`FRACTION`] bits.
    average: u64,
    /// Let through since the last drop or mark, in the measure.
    count: u64,
    /// Since when the queue below is empty, if it is.
    idle_since: Option<Instant>,
    /// The latest time seen; a flush is given none.
    clock: Instant,
    early: u64,
    forced: u64,
    marks: u64,
}

impl Red {
    fn new(parameters: Parameters, child: Queue, rng: Rng) -> Self {
        Self {
            parameters,
            child,
            rng,
            average: 0,
            count: 0,
            idle_since: Some(Instant::START),
            clock: Instant::START,
            early: 0,
            forced: 0,
            marks: 0,
        }
    }

    /// Updates the average for an arrival.
    fn observe(&mut self, now: Instant) {
        let parameters = &self.parameters;
        if let Some(since) = self.idle_since.take() {
            let sendable =
                parameters.bandwidth.bytes_in(now.since(since)).get() / parameters.packet_size.get();
            // The idle time began when the last packet left, and this arrival is a sample of its
            // own.
            self.average = parameters.decayed(self.average, sendable.saturating_sub(1));
        }
        let held = self.child.backlog();
        let queue = match parameters.measure {
            Measure::Packets => held.packets,
            Measure::Bytes => held.bytes.get(),
        };
        self.average = parameters.sample(self.average, queue);
    }

    /// The same, of an arrival at this time.
    fn judge(&mut self, now: Instant, len: Bytes) -> Option<Reason> {
        self.observe(now);
        self.verdict(len)
    }

    /// Whether to drop or mark this arrival, and why.
    fn verdict(&mut self, len: Bytes) -> Option<Reason> {
        if self.average < self.parameters.min || self.child.backlog().packets < 2 {
            self.count = 0;
            return None;
        }
        if self.average >= self.parameters.certain {
            return Some(Reason::Forced);
        }
        let p_b = self.parameters.p_b(self.average);
        self.should_drop(p_b, len).then_some(Reason::Early)
    }

    fn should_drop(&mut self, p_b: u64, len: Bytes) -> bool {
        let size = if self.parameters.measure == Measure::Bytes {
            len.get().min(MAX_QUEUE)
        } else {
            1
        };
        self.parameters.draw(&mut self.rng, &mut self.count, p_b, size)
    }

    fn note_idle(&mut self, now: Instant) {
        self.clock = now;
        match self.child.is_empty() {
            true => self.idle_since = self.idle_since.or(Some(now)),
            false => self.idle_since = None,
        }
    }
}

impl Discipline for Red {
    fn enqueue(&mut self, now: Instant, mut packet: Packet, sink: &mut dyn Sink) -> Verdict {
        let judged = match packet.handed_on {
            // It was judged when it arrived.
            true => None,
            false => self.judge(now, packet.len),
        };
        if let Some(why) = judged {
            self.count = 0;
            let may_mark = self.parameters.ecn && self.average < self.parameters.max;
            if !(may_mark && packet.mark()) {
                *(if why == Reason::Forced {
                    &mut self.forced
                } else {
                    &mut self.early
                }) += 1;
                sink.drop(packet, why);
                self.note_idle(now);
                return Verdict::Dropped(why);
            }
            self.marks += 1;
            sink.mark(&packet, why);
        }
        let verdict = self.child.enqueue(now, packet, sink);
        if verdict != Verdict::Queued {
            self.count = 0;
        }
        self.note_idle(now);
        verdict
    }

    fn dequeue(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<Packet> {
        let next = self.child.dequeue(now, sink);
        self.note_idle(now);
        next
    }

    fn flush(&mut self, portion: &mut Portion, sink: &mut dyn Sink) {
        self.child.flush(portion, sink);
        if !portion.is_spent() {
            self.note_idle(self.clock);
        }
    }

    fn take_over(&mut self, now: Instant, former: &mut dyn Discipline) -> u32 {
        let Some(former) = former.of_type::<Self>() else {
            return 0;
        };
        // An average in packets says nothing about bytes.
        if former.parameters.measure == self.parameters.measure {
            (self.average, self.count, self.rng) = (former.average, former.count, former.rng.clone());
            (self.idle_since, self.clock) = (former.idle_since.or(Some(now)), now);
            (self.early, self.forced, self.marks) = (former.early, former.forced, former.marks);
        }
        self.child.take_over(now, &mut former.child)
    }

    fn leaf(&mut self, class: ClassId) -> Option<&mut dyn Discipline> {
        self.child.discipline_mut().leaf(class)
    }

    fn owner(&mut self, class: ClassId) -> Option<&mut dyn Discipline> {
        self.child.discipline_mut().owner(class)
    }

    fn inspect(&self, out: &mut Inspection<'_>) {
        let length = |scaled: u64| match self.parameters.measure {
            Measure::Packets => Value::Real(scaled as f64 / f64::from(1 << FRACTION)),
            Measure::Bytes => Value::Bytes(Bytes::new(scaled >> FRACTION)),
        };
        out.gauge("average", length(self.average));
        out.gauge("min", length(self.parameters.min));
        out.gauge("max", length(self.parameters.max));
        let chance = Probability::from_parts(self.parameters.p_b(self.average));
        out.gauge("probability", Value::Share(chance));
        out.gauge("early", Value::Count(self.early));
        out.gauge("forced", Value::Count(self.forced));
        out.gauge("marks", Value::Count(self.marks));
        self.child.inspect(out);
    }

    fn retune(&mut self, now: Instant, plan: &dyn Plan) -> bool {
        let plan: &dyn Any = plan;
        let Some(plan) = plan.downcast_ref::<RedPlan>() else {
            return false;
        };
        // An average in packets says nothing about bytes.
        let same = plan.parameters.measure == self.parameters.measure;
        if !same || !self.child.retune(now, &*plan.child.plan) {
            return false;
        }
        self.parameters = plan.parameters.clone();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Link;
    use crate::packet::{ClassId, Ecn};
    use crate::random::Seed;
    use crate::settings::{Raw, Table};
    use crate::tree::{DisciplineSpec, Registry};
    use crate::trials;

    const LINK: Link = Link::new(Bandwidth::mbit(8), Bytes::new(1000));

    #[derive(Default)]
    struct Witness {
        dropped: Vec<Reason>,
        marked: u64,
    }

    impl Sink for Witness {
        fn drop(&mut self, _packet: Packet, why: Reason) {
            self.dropped.push(why);
        }
        fn mark(&mut self, packet: &Packet, _why: Reason) {
            assert_eq!(packet.ecn, Ecn::Ce);
            self.marked += 1;
        }
    }

    fn red(settings: Table) -> Red {
        let mut problems = Vec::new();
        let settings = Settings::read(&settings, &[], &mut problems).expect("good settings");
        let parameters = Parameters::new(&settings, LINK.bandwidth).expect("good settings");
        let fifo = DisciplineSpec::new("fifo")
            .check(&Registry::builtin(), LINK)
            .expect("a good plan");
        Red::new(parameters, fifo.build(Seed(1)), Seed(2).stream())
    }

    fn packet(len: u64, ecn: Ecn) -> Packet {
        Packet {
            ecn,
            ..Packet::new(Bytes::new(len), Instant::START, ClassId(0))
        }
    }

    fn packets(n: f64) -> u64 {
        (n * f64::from(1 << FRACTION)) as u64
    }

    /// Offers `n` packets to a queue of ten, at a constant average.
    fn offer(red: &mut Red, average: f64, ecn: Ecn, n: usize) -> Witness {
        let mut seen = Witness::default();
        red.average = 0;
        while red.child.backlog().packets < 10 {
            let _ = red.enqueue(Instant::START, packet(1000, Ecn::NotEct), &mut seen);
        }
        assert!(seen.dropped.is_empty());
        for _ in 0..n {
            red.average = packets(average);
            // A weight of 1/65536 leaves it there; what comes in goes out.
            if red.enqueue(Instant::START, packet(1000, ecn), &mut seen) == Verdict::Queued {
                assert!(matches!(red.dequeue(Instant::START, &mut seen), Next::Ready(_)));
            }
        }
        seen
    }

    fn standing() -> Table {
        Table::default().text("weight", "1/65536")
    }

    /// The gaps between drops at p = 1/16: how many packets came up to each, the dropped one
    /// included, of this many drops.
    fn gaps(spacing: &str, drops: u32) -> [u32; 33] {
        let mut red = red(Table::default().text("spacing", spacing));
        let mut counts = [0; 33];
        for _ in 0..drops {
            let mut gap = 1;
            while !red.should_drop(ONE / 16, Bytes::new(1)) {
                gap += 1;
            }
            counts[gap] += 1;
            red.count = 0;
        }
        counts
    }

    #[test]
    fn gaps_between_drops_are_uniform_and_as_wide_as_each_method_has_them() {
        for (spacing, from, to, bound) in [
            // Chi-squared with 15 and 31 degrees of freedom, 0.1 %.
            ("uniform", 1, 16, 37.7),
            ("altq", 1, 32, 61.1),
            ("wait", 17, 32, 37.7),
        ] {
            let rounds = 40_000;
            let counts = gaps(spacing, rounds);
            let expected = f64::from(rounds) / (to - from + 1) as f64;
            let chi: f64 = counts[from..=to]
                .iter()
                .map(|&n| (f64::from(n) - expected).powi(2) / expected)
                .sum();
            assert!(chi < bound, "{spacing}: chi-squared {chi}: {counts:?}");
            let outside: u32 = counts[..from].iter().chain(&counts[to + 1..]).sum();
            assert_eq!(outside, 0, "{spacing}: {counts:?}");
        }
    }

    #[test]
    fn altqs_spacing_drops_half_as_many_as_floyds_and_ns_2s_a_third() {
        let drops = ["uniform", "altq", "wait"].map(|spacing| {
            let table = standing().text("spacing", spacing);
            offer(&mut red(table), 14.0, Ecn::NotEct, 20_000).dropped.len() as f64
        });
        // p_b is 0.09: a gap is at most 12, at most 23, and 13 to 23 packets.
        for (drops, gap) in drops.into_iter().zip([6.06, 11.6, 17.6]) {
            assert!(
                (20_000.0 / drops / gap - 1.0).abs() < 0.03,
                "{drops} drops, a gap of {gap}"
            );
        }
    }

    #[test]
    fn the_average_approaches_a_step_with_the_stated_constant() {
        for n in [2, 64, 512, 65_536] {
            let parameters = red(Table::default().text("weight", &format!("1/{n}"))).parameters;
            let (mut average, mut expected) = (0, 0.0);
            for _ in 0..4 * n {
                average = parameters.sample(average, 100);
                expected += (100.0 - expected) / f64::from(n);
            }
            let off = (average as f64 / f64::from(1 << FRACTION) - expected).abs();
            assert!(
                off <= f64::from(n) / f64::from(1 << FRACTION),
                "1/{n}: off by {off} packets"
            );
        }
    }

    #[test]
    fn the_chance_rises_to_max_p_at_max_and_to_one_at_twice_max() {
        let parameters = red(Table::default()).parameters;
        for (average, chance) in [
            (0.0, 0.0),
            (5.0, 0.0),
            (10.0, 0.05),
            (15.0, 0.1),
            (22.5, 0.55),
            (30.0, 1.0),
        ] {
            let found = parameters.p_b(packets(average)) as f64 / ONE as f64;
            assert!(
                (found - chance).abs() < 1e-7,
                "at {average}: {found}, not {chance}"
            );
        }
        let steep = red(Table::default().with("gentle", Raw::Boolean(false))).parameters;
        assert_eq!(steep.p_b(packets(15.0)), ONE);
        assert!(steep.p_b(packets(14.9)) < ONE / 10);
    }

    #[test]
    fn idle_time_decays_the_average_as_that_many_empty_samples() {
        // 1,000 bytes take 1 ms at 8 Mbit/s.
        for m in [1, 2, 7, 100, 1_000, 20_000] {
            let mut red = red(Table::default().text("weight", "1/512"));
            red.average = packets(20.0);
            let mut repeated = red.average;
            (0..m).for_each(|_| repeated = red.parameters.sample(repeated, 0));
            red.observe(Instant::from_nanos(m * 1_000_000));
            let off = red.average.abs_diff(repeated);
            // The repeated one rounds m times, which settles at 512 parts.
            assert!(off <= 512, "{m} slots: {} and {repeated}", red.average);
            let exact = 20.0 * (511.0f64 / 512.0).powi(m as i32);
            assert!((red.average as f64 / f64::from(1 << FRACTION) - exact).abs() < 1e-6);
        }
        let mut forgetful = red(Table::default());
        forgetful.average = packets(20.0);
        forgetful.observe(Instant::NEVER);
        assert_eq!(forgetful.average, 0);
    }

    #[test]
    fn ecn_capable_packets_are_marked_and_others_dropped() {
        let marked = offer(&mut red(standing()), 14.0, Ecn::Ect0, 2_000);
        assert!(marked.dropped.is_empty());
        let dropped = offer(&mut red(standing()), 14.0, Ecn::NotEct, 2_000);
        assert_eq!(dropped.marked, 0);
        assert!(dropped.dropped.iter().all(|&why| why == Reason::Early));
        // p_b is 0.09, so the mean gap is between 6 and 6.1.
        for hits in [marked.marked, dropped.dropped.len() as u64] {
            assert!((300..365).contains(&hits), "{hits} hits");
        }
        let off = standing().with("ecn", Raw::Boolean(false));
        assert_eq!(offer(&mut red(off), 14.0, Ecn::Ect0, 2_000).marked, 0);
    }

    #[test]
    fn ecn_capable_packets_are_dropped_above_max() {
        let seen = offer(&mut red(standing()), 22.0, Ecn::Ect1, 1_000);
        assert_eq!(seen.marked, 0);
        assert!(seen.dropped.len() > 500 && seen.dropped.iter().all(|&why| why == Reason::Early));
    }

    #[test]
    fn every_packet_is_dropped_above_twice_max_and_none_below_min() {
        let seen = offer(&mut red(standing()), 31.0, Ecn::Ect0, 100);
        assert_eq!(seen.dropped, vec![Reason::Forced; 100]);
        let steep = standing().with("gentle", Raw::Boolean(false));
        assert_eq!(
            offer(&mut red(steep), 16.0, Ecn::Ect0, 100).dropped,
            vec![Reason::Forced; 100]
        );
        let seen = offer(&mut red(standing()), 4.9, Ecn::Ect0, 1_000);
        assert!(seen.dropped.is_empty() && seen.marked == 0);
    }

    #[test]
    fn nothing_is_dropped_while_fewer_than_two_packets_are_held() {
        let mut red = red(standing());
        let mut seen = Witness::default();
        for _ in 0..100 {
            red.average = packets(40.0);
            let _ = red.enqueue(Instant::START, packet(1000, Ecn::NotEct), &mut seen);
            let _ = red.enqueue(Instant::START, packet(1000, Ecn::NotEct), &mut seen);
            while let Next::Ready(_) = red.dequeue(Instant::START, &mut seen) {}
        }
        assert!(seen.dropped.is_empty());
    }

    #[test]
    fn in_bytes_a_packet_is_dropped_in_proportion_to_its_length() {
        let mut red = red(Table::default().text("measure", "bytes").text("min", "5 kB"));
        let (mut short, mut long) = (0u32, 0u32);
        let mut dice = Seed(7).stream();
        for _ in 0..200_000 {
            let len = if dice.below(2) == 0 { 100 } else { 1_000 };
            if red.should_drop(ONE / 50, Bytes::new(len)) {
                *(if len == 100 { &mut short } else { &mut long }) += 1;
                red.count = 0;
            }
        }
        let ratio = f64::from(long) / f64::from(short);
        assert!((9.0..11.0).contains(&ratio), "{long} long and {short} short");
    }

    #[test]
    fn a_refusal_below_keeps_its_reason_and_starts_a_new_gap() {
        let mut red = red(Table::default().with("min", Raw::Integer(1_000)));
        let mut seen = Witness::default();
        red.count = 9;
        for _ in 0..101 {
            let _ = red.enqueue(Instant::START, packet(1000, Ecn::NotEct), &mut seen);
        }
        assert_eq!((seen.dropped, red.count, red.early), (vec![Reason::Full], 0, 0));
    }

    #[test]
    fn the_largest_threshold_and_queue_do_not_overflow() {
        let table = Table::default()
            .text("measure", "bytes")
            .text("min", "10 GB")
            .text("max", "64 GiB");
        for weight in ["1/1", "1/65536"] {
            let parameters = red(table.clone().text("weight", weight)).parameters;
            let mut average = 0;
            for _ in 0..1_000_000 {
                average = parameters.sample(average, u64::MAX);
            }
            assert!(average <= MAX_QUEUE << FRACTION && average >= parameters.certain);
            assert_eq!(parameters.p_b(average), ONE);
            assert!(parameters.p_b(parameters.max).abs_diff(parameters.max_p.parts()) <= 32);
        }
    }

    #[test]
    fn settings_that_cannot_work_are_refused_with_a_reason() {
        let cases = [
            (
                Table::default().with("max", Raw::Integer(5)),
                "`max` must be larger than `min`",
            ),
            (
                Table::default().with("min", Raw::Integer(0)),
                "`min` must be at least 1",
            ),
            (
                Table::default().text("min", "5 kB"),
                "the queue is measured in packets",
            ),
            (Table::default().text("weight", "1/500"), "a power of two"),
            (
                Table::default().text("max_p", "0 %"),
                "`max_p` must be more than 0",
            ),
        ];
        for (settings, message) in cases {
            let spec = DisciplineSpec {
                settings,
                ..DisciplineSpec::new("red")
            };
            let problems = spec.check(&Registry::builtin(), LINK).expect_err("cannot work");
            assert!(problems[0].message.contains(message), "{problems:?}");
        }
    }

    #[test]
    fn its_state_is_shown_in_the_measure() {
        let mut by_packets = red(Table::default());
        by_packets.average = packets(2.5);
        (by_packets.early, by_packets.forced, by_packets.marks) = (1, 2, 3);
        let max_p = by_packets.parameters.max_p;
        let shown = |average, min, max, probability| {
            [
                ("average", average),
                ("min", min),
                ("max", max),
                ("probability", Value::Share(probability)),
                ("early", Value::Count(1)),
                ("forced", Value::Count(2)),
                ("marks", Value::Count(3)),
            ]
        };
        let real = Value::Real;
        let expected = shown(real(2.5), real(5.0), real(15.0), Probability::ZERO);
        assert_eq!(trials::gauges(&by_packets)[..7], expected);
        by_packets.average = packets(15.0);
        let expected = shown(real(15.0), real(5.0), real(15.0), max_p);
        assert_eq!(trials::gauges(&by_packets)[..7], expected);
        let mut by_bytes = red(Table::default().text("measure", "bytes"));
        (by_bytes.early, by_bytes.forced, by_bytes.marks) = (1, 2, 3);
        by_bytes.average = packets(30_000.5);
        let bytes = |n| Value::Bytes(Bytes::new(n));
        let expected = shown(bytes(30_000), bytes(5_000), bytes(15_000), Probability::ONE);
        assert_eq!(trials::gauges(&by_bytes)[..7], expected);
        assert_eq!(
            trials::gauges(&by_bytes)[7],
            ("limit", Value::Count(100)),
            "the queue below"
        );
    }

    #[test]
    fn other_settings_are_adopted_in_the_same_measure_over_the_same_queue() {
        let mut red = red(Table::default());
        let fifo = |limit| DisciplineSpec {
            settings: Table::default().with("limit", Raw::Integer(limit)),
            ..DisciplineSpec::new("fifo")
        };
        let over = |table, child| trials::planned_over("red", table, child).plan;
        let min = |n| Table::default().with("min", Raw::Integer(n));
        let seen = |red: &Red| (red.parameters.min >> FRACTION, trials::gauge(red, "limit"));
        assert!(!red.retune(
            Instant::START,
            &*trials::planned("fifo", Table::default(), LINK).plan
        ));
        assert!(!red.retune(Instant::START, &*over(min(7), DisciplineSpec::new("codel"))));
        assert!(!red.retune(Instant::START, &*over(min(7).text("measure", "bytes"), fifo(9))));
        assert_eq!(seen(&red), (5, Some(Value::Count(100))));
        assert!(red.retune(Instant::START, &*over(min(7), fifo(9))));
        assert_eq!(seen(&red), (7, Some(Value::Count(9))));
    }

    #[test]
    fn one_that_takes_over_goes_on_with_an_average_in_the_same_measure() {
        let at = |n| Instant::from_nanos(n);
        for (measure, same) in [("packets", true), ("bytes", false)] {
            for (idle, since) in [(None, 9), (Some(at(3)), 3)] {
                let mut former = red(Table::default());
                (former.average, former.count, former.idle_since) = (1, 2, idle);
                (former.early, former.forced, former.marks) = (3, 4, 5);
                let mut red = red(Table::default().text("measure", measure));
                assert_eq!(red.take_over(at(9), &mut former), 0);
                let found = (red.average, red.count, red.early, red.forced, red.marks);
                assert_eq!(found, if same { (1, 2, 3, 4, 5) } else { (0, 0, 0, 0, 0) });
                let idle = if same { (at(since), at(9)) } else { (at(0), at(0)) };
                assert_eq!((red.idle_since, red.clock), (Some(idle.0), idle.1));
            }
        }
    }

    #[test]
    fn it_is_idle_while_nothing_is_in_the_queue_below() {
        let (mut red, mut seen) = (red(Table::default()), Witness::default());
        let at = |n| Instant::from_nanos(n);
        (1..=2).for_each(|n| _ = red.enqueue(at(n), packet(100, Ecn::NotEct), &mut seen));
        assert_eq!((red.idle_since, red.clock), (None, at(2)));
        let _ = red.dequeue(at(3), &mut seen);
        assert_eq!(red.idle_since, None);
        red.flush(&mut Portion::of(1, 1), &mut seen);
        assert_eq!(
            red.idle_since, None,
            "a portion that is spent may have ended it or not"
        );
        red.flush(&mut Portion::whole(), &mut seen);
        assert_eq!((red.idle_since, red.clock), (Some(at(3)), at(3)));
        assert!(matches!(red.dequeue(at(8), &mut seen), Next::Empty));
        assert_eq!((red.idle_since, red.clock), (Some(at(3)), at(8)));
    }

    #[test]
    fn the_classes_below_it_are_found() {
        let plan = trials::planned_over("red", Table::default(), trials::two_classes());
        trials::finds_two_classes_below(&mut *trials::built(&plan));
    }
}
