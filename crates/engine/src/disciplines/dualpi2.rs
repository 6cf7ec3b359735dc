//! `dualpi2`: two queues for one link, a very short one for scalable (L4S) senders and one for
//! classic senders, coupled so that flows of both get similar rates.
//!
//! De Schepper, Briscoe and White, RFC 9332 (2023), sections 2 and 2.5 and appendix A, in the RFC's
//! names. A packet with ECT(1) or CE goes to the queue L, any other to C. Every *T* (`update`, the
//! RFC's Tupdate), with *τ* the age of the oldest packet, *τ'* that of the last update, and *R* =
//! `rtt_max`:
//!
//! ```text
//! p'   ← p' + α (τ − target) + β (τ − τ')      α = 0.1 T / R²,  β = 0.3 / R,  0 ≤ p' ≤ 1
//! p_C  = p'²                                   of C: marks if ECN-capable, drops otherwise, on dequeue
//! p_CL = k p', at most 1                       coupled to L, so p_C = (p_CL / k)²
//! p_L  = max(p_CL, p'_L)                       of L: marks;  p'_L, the native L4S AQM, rises from 0 to 1 as the packet's own
//!                                              sojourn time does from `step` to `step` + `ramp`; 0 if no more than a full
//!                                              packet is in L
//! ```
//!
//! Overload, when p_CL reaches 1 (p_C = 1/k²): L drops packets too, with probability p_C, and C
//! drops where it would mark. L's marks are spaced evenly (when a sum of probabilities passes 1),
//! C's are random.
//!
//! L has priority, but not strictly. `wrr`: while both are backlogged C gets `classic_share` of the
//! bytes. `time-shift`: L goes first unless C's oldest packet is older than L's by more than
//! `shift`.
//!
//! There is no timer: updates that are due are made at the next call, each with the delay that the
//! queue had at its time (as in `pie`). While the queues are empty *p'* falls by the same amount
//! each time, so any number of these are made at once; at most 1,024 others are.
//!
//! Arithmetic: probabilities have 60 fractional bits; changes of *p'* are rounded toward zero.
//!
//! Departures: *τ* is the greater age of both queues' oldest packets, so that L alone can overload
//! the controller too; C drops and marks nothing while no more than two full packets are queued,
//! for slow links, and the last packet is not dropped; the limit is in packets.

use crate::discipline::{Build, Discipline, Next, Plan, Reason, Sink, Verdict};
use crate::inspect::{Inspection, Value};
use crate::kind::{Check, Children, Kind, Properties};
use crate::link::Link;
use crate::packet::{Ecn, Packet};
use crate::portion::Portion;
use crate::random::Rng;
use crate::settings::Problem;
use crate::units::{Bytes, Duration, Instant, Probability};
use crate::{choices, settings};
use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

/// The registration.
pub static KIND: Kind = Kind {
    name: "dualpi2",
    summary: "Two coupled queues: very low delay for L4S senders, a controlled one for classic senders, like rates",
    reference: "De Schepper, Briscoe and White, RFC 9332, \"Dual-queue coupled active queue management\", 2023",
    children: Children::None,
    settings: Settings::SETTINGS,
    class_settings: &[],
    properties: Properties {
        takes_over: true,
        ..Properties::NONE
    },
    check,
};

choices! {
    /// How the link is shared between the queues.
    pub enum Schedule {
        /// By weight.
        Wrr = "wrr",
        /// By age.
        TimeShift = "time-shift",
    }
}

settings! {
    /// Settings of `dualpi2`.
    pub struct Settings {
        /// The target delay of classic traffic
        target: Duration = derived "15 ms, or the time to send 1.5 full packets if that is longer",
            "too small: classic senders do not fill the link; too large: queueing delay for nothing",
            "RFC 9332, appendix A.1";
        /// The longest round trip of most flows, which sets how fast the controller acts
        rtt_max: Duration = default "100 ms",
            "too small: the controller swings; too large: it reacts late",
            "RFC 9332, appendix A.1";
        /// How often the controller runs
        update: Duration = default "16 ms",
            "too small: work, and noise; too large: reacts late",
            "RFC 9332, appendix A.1";
        /// The coupling factor k
        coupling: u32 = default "2",
            "too small: L4S senders get more than classic ones; too large: less",
            "RFC 9332, section 2.1 and appendix C";
        /// The sojourn time in the L4S queue from which its own marks begin
        step: Duration = derived "800 us, or the time to send 1.5 full packets if that is longer",
            "too small: the link idles; too large: L4S packets are delayed for nothing",
            "RFC 9332, appendix A.1 (minTh)";
        /// By how much longer a sojourn time its marks rise from none to all; 0 for a step
        ramp: Duration = default "400 us",
            "too small: marks come in runs; too large: the L4S queue grows",
            "RFC 9332, appendix A.1 (range)";
        /// How the queues take turns
        schedule: Schedule = default "wrr",
            "time-shift: bounds the difference of the queueing delays instead of a share",
            "RFC 9332, section 2.3 and appendix A.1";
        /// With wrr: the classic queue's share while both are backlogged
        classic_share: Probability = default "10 %",
            "too small: unresponsive L4S senders starve classic ones; too large: L4S packets wait for classic ones",
            "RFC 9332, section 4.2.1 asks for a small one";
        /// With time-shift: how much longer classic packets wait than L4S ones
        shift: Duration = derived "twice target",
            "too small: L4S packets wait for classic ones; too large: classic ones are delayed",
            "RFC 9332, appendix A.1 (tshift)";
        /// Packets queued at most, in both queues
        limit: u32 = default "10000",
            "too small: bursts are dropped; too large: only memory",
            "RFC 9332, appendix A.1: 250 ms at the link's rate";
    }
}

/// 1.0 as a probability.
const ONE: u64 = 1 << 60;
/// Updates of backlogged queues, made at once at most.
const MAX_UPDATES: u32 = 1_024;

/// A checked plan.
#[derive(Clone, PartialEq, Debug)]
struct DualPlan {
    target: Duration,
    rtt: Duration,
    update: Duration,
    coupling: u64,
    step: Duration,
    ramp: Duration,
    schedule: Schedule,
    /// Of 2³².
    share: u64,
    shift: Duration,
    limit: usize,
    mtu: u64,
}

impl DualPlan {
    /// The error names the setting and its fault.
    fn new(settings: &Settings, link: Link) -> Result<Self, (&'static str, String)> {
        let (milli, second) = (Duration::from_millis(1), Duration::from_secs(1));
        let packets = link
            .bandwidth
            .time_to_send(Bytes::new(link.mtu.get() * 3 / 2))
            .min(second);
        let target = settings.target.unwrap_or(packets.max(milli.times(15)));
        let within = |key, value: Duration, from: Duration, to: Duration| match value < from || value > to {
            true => Err((key, format!("`{key}` must be from {from} to {to}"))),
            false => Ok(value),
        };
        let micro = Duration::from_micros(1);
        let share = settings.classic_share.parts();
        if !(1..=Probability::ONE.parts() / 2).contains(&share) {
            return Err((
                "classic_share",
                "`classic_share` must be more than 0 % and at most 50 %".into(),
            ));
        }
        if !(1..=16).contains(&settings.coupling) {
            return Err(("coupling", "`coupling` must be from 1 to 16; 2 is usual".into()));
        }
        if settings.limit == 0 {
            return Err((
                "limit",
                "`limit` must be at least 1: a queue of 0 drops every packet".into(),
            ));
        }
        Ok(Self {
            target: within("target", target, micro, second.times(60))?,
            rtt: within("rtt_max", settings.rtt_max, milli, second.times(10))?,
            update: within("update", settings.update, micro.times(10), second)?,
            coupling: u64::from(settings.coupling),
            step: settings.step.unwrap_or(packets.max(micro.times(800))),
            ramp: settings.ramp,
            schedule: settings.schedule,
            share,
            shift: settings.shift.unwrap_or(target.times(2)),
            limit: settings.limit as usize,
            mtu: link.mtu.get(),
        })
    }

    /// The change of p'.
    fn change(&self, delay: Duration, former: Duration) -> i128 {
        let signed = |span: Duration| i128::from(span.nanos().min(60_000_000_000));
        let (one, rtt) = (i128::from(ONE), signed(self.rtt));
        let integral = (signed(delay) - signed(self.target)) * signed(self.update) * one / (10 * rtt * rtt);
        let proportional = (signed(delay) - signed(former)) * one * 3 / (10 * rtt);
        integral + proportional
    }

    /// p'_L, L's own marking probability.
    fn p_l_native(&self, wait: Duration) -> u64 {
        let over = wait.nanos().saturating_sub(self.step.nanos());
        match (wait > self.step, over >= self.ramp.nanos()) {
            (false, _) => 0,
            (true, true) => ONE,
            (true, false) => (u128::from(over) * u128::from(ONE) / u128::from(self.ramp.nanos())) as u64,
        }
    }
}

/// p'².
fn square(p: u64) -> u64 {
    ((u128::from(p) * u128::from(p)) >> 60) as u64
}

fn check(check: &mut Check<'_>) -> Option<Arc<dyn Plan>> {
    let settings = Settings::read(check.settings, &[], check.problems)?;
    match DualPlan::new(&settings, check.link) {
        Ok(plan) => Some(Arc::new(plan)),
        Err((key, message)) => {
            let at = check.settings.place(key);
            check.problems.push(Problem::new(at, message));
            None
        }
    }
}

impl Plan for DualPlan {
    fn build(&self, cx: &Build) -> Box<dyn Discipline> {
        Box::new(Dual::new(self.clone(), cx.rng()))
    }
}

#[derive(Debug, Default)]
struct Fifo {
    packets: VecDeque<Packet>,
    bytes: u64,
}

impl Fifo {
    fn push(&mut self, packet: Packet) {
        self.bytes += packet.len.get();
        self.packets.push_back(packet);
    }

    fn pop(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.len.get();
        Some(packet)
    }

    /// The age of the oldest packet.
    fn age(&self, now: Instant) -> Duration {
        self.packets
            .front()
            .map_or(Duration::ZERO, |packet| now.since(packet.arrived))
    }
}

#[derive(Debug)]
struct Dual {
    plan: DualPlan,
    rng: Rng,
    low: Fifo,
    classic: Fifo,
    /// p'.
    p_prime: u64,
    /// The sum of L's probabilities since its last mark.
    sum: u64,
    /// At the last update.
    delay: Duration,
    next_update: Instant,
    /// How far C is behind its share, in bytes · 2³².
    deficit: u64,
    marks: [u64; 2],
    dropped: [u64; 2],
}

/// What happens to a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Pass,
    Mark,
    Drop,
}

impl Dual {
    fn new(plan: DualPlan, rng: Rng) -> Self {
        Self {
            rng,
            low: Fifo::default(),
            classic: Fifo::default(),
            p_prime: 0,
            sum: 0,
            delay: Duration::ZERO,
            next_update: Instant::START + plan.update,
            deficit: 0,
            marks: [0; 2],
            dropped: [0; 2],
            plan,
        }
    }

    fn is_empty(&self) -> bool {
        self.low.packets.is_empty() && self.classic.packets.is_empty()
    }

    /// p_CL, which is 1 in an overload.
    fn p_cl(&self) -> u64 {
        self.p_prime.saturating_mul(self.plan.coupling).min(ONE)
    }

    /// Makes the updates that have become due.
    fn catch_up(&mut self, now: Instant) {
        if now < self.next_update {
            return;
        }
        for _ in 0..MAX_UPDATES {
            let at = self.next_update;
            if now < at || self.is_empty() && self.delay == Duration::ZERO {
                break;
            }
            let delay = self.low.age(at).max(self.classic.age(at));
            self.adjust(self.plan.change(delay, self.delay));
            self.delay = delay;
            self.next_update = at + self.plan.update;
        }
        if now >= self.next_update {
            let missed = now.since(self.next_update).nanos() / self.plan.update.nanos() + 1;
            if self.is_empty() {
                self.adjust(i128::from(missed) * self.plan.change(Duration::ZERO, Duration::ZERO));
            }
            self.next_update = self.next_update + self.plan.update.times(missed);
        }
    }

    fn adjust(&mut self, change: i128) {
        self.p_prime = (i128::from(self.p_prime) + change).clamp(0, i128::from(ONE)) as u64;
    }

    /// Whether L is next. Both queues are backlogged.
    fn low_first(&self, now: Instant) -> bool {
        match self.plan.schedule {
            Schedule::TimeShift => self.low.age(now) + self.plan.shift >= self.classic.age(now),
            Schedule::Wrr => {
                let len = self.classic.packets.front().map_or(0, |packet| packet.len.get());
                self.deficit < len * (Probability::ONE.parts() - self.plan.share)
            }
        }
    }

    /// Takes the next packet; whether it comes from L.
    fn take(&mut self, now: Instant) -> Option<(bool, Packet)> {
        if self.low.packets.is_empty() || self.classic.packets.is_empty() {
            self.deficit = 0;
            let low = self.low.pop().map(|packet| (true, packet));
            return low.or_else(|| self.classic.pop().map(|packet| (false, packet)));
        }
        if self.low_first(now) {
            let packet = self.low.pop()?;
            self.deficit = self.deficit.saturating_add(packet.len.get() * self.plan.share);
            return Some((true, packet));
        }
        let packet = self.classic.pop()?;
        self.deficit = self
            .deficit
            .saturating_sub(packet.len.get() * (Probability::ONE.parts() - self.plan.share));
        Some((false, packet))
    }

    fn draw(&mut self, p: u64) -> bool {
        self.rng.bits() >> 4 < p
    }

    fn fate_of_low(&mut self, packet: &Packet, now: Instant) -> Fate {
        let coupled = self.p_cl();
        let overload = coupled == ONE;
        if overload && self.draw(square(self.p_prime)) {
            return Fate::Drop;
        }
        let several = self.low.bytes + packet.len.get() > self.plan.mtu;
        let native = if several {
            self.plan.p_l_native(now.since(packet.arrived))
        } else {
            0
        };
        // Both are at most 1, so the sum is below 2.
        self.sum += coupled.max(native);
        if self.sum < ONE {
            return Fate::Pass;
        }
        self.sum -= ONE;
        Fate::Mark
    }

    fn fate_of_classic(&mut self, packet: &Packet) -> Fate {
        let held = self.low.bytes + self.classic.bytes + packet.len.get();
        if held <= 2 * self.plan.mtu || !self.draw(square(self.p_prime)) {
            return Fate::Pass;
        }
        let overload = self.p_cl() == ONE;
        if packet.ecn == Ecn::NotEct || overload {
            Fate::Drop
        } else {
            Fate::Mark
        }
    }
}

impl Discipline for Dual {
    fn enqueue(&mut self, now: Instant, packet: Packet, sink: &mut dyn Sink) -> Verdict {
        self.catch_up(now);
        if self.low.packets.len() + self.classic.packets.len() >= self.plan.limit {
            sink.drop(packet, Reason::Full);
            return Verdict::Dropped(Reason::Full);
        }
        match packet.ecn {
            Ecn::Ect1 | Ecn::Ce => self.low.push(packet),
            Ecn::NotEct | Ecn::Ect0 => self.classic.push(packet),
        }
        Verdict::Queued
    }

    fn dequeue(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<Packet> {
        self.catch_up(now);
        while let Some((low, mut packet)) = self.take(now) {
            let fate = if low {
                self.fate_of_low(&packet, now)
            } else {
                self.fate_of_classic(&packet)
            };
            let queue = usize::from(!low);
            match fate {
                // The last one stays: the caller was promised a packet.
                Fate::Drop if !self.is_empty() => {
                    self.dropped[queue] += 1;
                    sink.drop(packet, Reason::Early);
                    continue;
                }
                Fate::Mark if packet.mark() => {
                    self.marks[queue] += 1;
                    sink.mark(&packet, Reason::Early);
                }
                Fate::Mark | Fate::Drop | Fate::Pass => {}
            }
            return Next::Ready(packet);
        }
        Next::Empty
    }

    fn flush(&mut self, portion: &mut Portion, sink: &mut dyn Sink) {
        let mut queues = [&mut self.low, &mut self.classic].into_iter();
        if queues.all(|queue| portion.flush(sink, || queue.pop())) {
            self.deficit = 0;
        }
    }

    fn take_over(&mut self, now: Instant, former: &mut dyn Discipline) -> u32 {
        if let Some(former) = former.of_type::<Self>() {
            // By what it holds now.
            former.catch_up(now);
            *self = Self {
                plan: self.plan.clone(),
                rng: former.rng.clone(),
                low: Fifo::default(),
                classic: Fifo::default(),
                ..*former
            };
        }
        0
    }

    fn inspect(&self, out: &mut Inspection<'_>) {
        let share = |p: u64| Value::Share(Probability::from_parts(p >> 28));
        out.gauge("delay", Value::Duration(self.delay));
        out.gauge("p_classic", share(square(self.p_prime)));
        out.gauge("p_coupled", share(self.p_cl()));
        let state = if self.p_cl() == ONE { "overload" } else { "normal" };
        out.gauge("state", Value::State(state));
        out.gauge("l4s_bytes", Value::Bytes(Bytes::new(self.low.bytes)));
        out.gauge("classic_bytes", Value::Bytes(Bytes::new(self.classic.bytes)));
        out.gauge("l4s_marks", Value::Count(self.marks[0]));
        out.gauge("classic_marks", Value::Count(self.marks[1]));
        out.gauge("l4s_dropped", Value::Count(self.dropped[0]));
        out.gauge("classic_dropped", Value::Count(self.dropped[1]));
    }

    fn retune(&mut self, now: Instant, plan: &dyn Plan) -> bool {
        let plan: &dyn Any = plan;
        let Some(plan) = plan.downcast_ref::<DualPlan>() else {
            return false;
        };
        if plan.update != self.plan.update {
            self.catch_up(now);
            self.next_update = now + plan.update;
        }
        self.plan = plan.clone();
        true
    }
}

#[cfg(test)]
mod tests {
    // The coupling and the ramp by numbers; the rest with senders that respond to marks and drops.
    use super::*;
    use crate::packet::ClassId;
    use crate::random::Seed;
    use crate::settings::{Raw, Table};
    use crate::sinks::Drops;
    use crate::trials;
    use crate::units::Bandwidth;

    /// A packet of 1,000 bytes takes 0.1 ms.
    const LINK: Link = Link::new(Bandwidth::mbit(80), Bytes::new(1000));

    fn dual(table: Table) -> Dual {
        let settings = Settings::read(&table, &[], &mut Vec::new()).expect("good settings");
        let plan = DualPlan::new(&settings, LINK).expect("good settings");
        Dual::new(plan, Seed(8).stream())
    }

    fn packet(now: Instant, flow: u32, ecn: Ecn) -> Packet {
        let mut packet = Packet::new(Bytes::new(1000), now, ClassId(0));
        (packet.ecn, packet.flow.full) = (ecn, flow);
        packet
    }

    fn slot(n: u64) -> Instant {
        Instant::from_nanos(n * 100_000)
    }

    /// The share of packets that are marked or dropped at a constant p', with no queueing delay.
    fn drops(chance: u64, ecn: Ecn) -> f64 {
        let (mut dual, mut dropped, n) = (dual(Table::default()), Drops::default(), 100_000u64);
        for _ in 0..n {
            dual.p_prime = chance;
            while dual.low.packets.len() + dual.classic.packets.len() < 10 {
                let _ = dual.enqueue(slot(0), packet(slot(0), 0, ecn), &mut dropped);
            }
            let _ = dual.dequeue(slot(0), &mut dropped);
        }
        let dropped = dual.dropped.iter().sum::<u64>();
        (dual.marks.iter().sum::<u64>() + dropped) as f64 / (n + dropped) as f64
    }

    #[test]
    fn the_probabilities_are_coupled_as_the_square_of_the_kth_part() {
        for p in [0.02, 0.1, 0.2, 0.3, 0.45] {
            let chance = (p * ONE as f64) as u64;
            let mut one = dual(Table::default());
            one.p_prime = chance;
            let (classic, coupled) = (square(chance) as f64 / ONE as f64, one.p_cl() as f64 / ONE as f64);
            assert!((classic - (coupled / 2.0).powi(2)).abs() < 1e-12);
            // And so are the marks: L's evenly spaced, C's at random.
            assert!((drops(chance, Ecn::Ect1) - 2.0 * p).abs() < 1e-4);
            for ecn in [Ecn::Ect0, Ecn::NotEct] {
                let found = drops(chance, ecn);
                assert!(
                    (found - p * p).abs() < 0.03 * p + 0.0005,
                    "{ecn:?} at {p}: {found}"
                );
            }
        }
    }

    #[test]
    fn packets_are_told_apart_by_their_ecn_field() {
        let (mut dual, mut dropped) = (dual(Table::default()), Drops::default());
        for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
            let _ = dual.enqueue(slot(0), packet(slot(0), 0, ecn), &mut dropped);
        }
        assert_eq!((dual.low.packets.len(), dual.classic.packets.len()), (2, 2));
        let _ = dual.dequeue(slot(0), &mut dropped);
        assert_eq!(dual.low.packets.len(), 1, "L goes first");
    }

    #[test]
    fn the_native_probability_is_a_ramp_and_without_one_a_step() {
        let plan = dual(Table::default()).plan;
        let at = |plan: &DualPlan, us: u64| plan.p_l_native(Duration::from_micros(us)) as f64 / ONE as f64;
        assert_eq!(
            [0, 800, 900, 1_000, 1_200, 9_999].map(|us| at(&plan, us)),
            [0.0, 0.0, 0.25, 0.5, 1.0, 1.0]
        );
        let step = dual(Table::default().text("ramp", "0 s").text("step", "1 ms")).plan;
        assert_eq!([999, 1_000, 1_001].map(|us| at(&step, us)), [0.0, 0.0, 1.0]);
    }

    #[test]
    fn the_controller_follows_its_law() {
        let plan = dual(Table::default()).plan;
        for (delay, former) in [(0, 0), (15, 15), (30, 15), (10, 40), (200, 0)] {
            let found =
                plan.change(Duration::from_millis(delay), Duration::from_millis(former)) as f64 / ONE as f64;
            // α = 0.1 · 16 ms / (100 ms)² = 0.16 Hz and β = 0.3 / 100 ms = 3 Hz.
            let (delay, former) = (delay as f64 / 1e3, former as f64 / 1e3);
            let expected = 0.16 * (delay - 0.015) + 3.0 * (delay - former);
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
    }

    #[test]
    fn updates_made_late_are_those_a_timer_would_have_made() {
        let run = |step: usize| {
            let (mut dual, mut dropped) = (dual(Table::default()), Drops::default());
            for _ in 0..3 {
                let _ = dual.enqueue(slot(0), packet(slot(0), 0, Ecn::NotEct), &mut dropped);
            }
            (0..=3_000).step_by(step).for_each(|at| dual.catch_up(slot(at)));
            dual.flush(&mut Portion::whole(), &mut dropped);
            (3_000..=6_000)
                .step_by(step)
                .for_each(|at| dual.catch_up(slot(at)));
            (dual.p_prime, dual.delay, dual.next_update)
        };
        assert_eq!(run(1), run(3_000));
        assert!(run(1).0 > 0);
    }

    /// A sender that keeps a window in flight over a round trip of 20 ms and the queue.
    struct Sender {
        ecn: Ecn,
        window: f64,
        in_flight: f64,
        /// Responds to drops and marks once in a round trip.
        deaf_until: u64,
        /// L4S: the moving average of the marked share, and when it was last used.
        share: f64,
        marked: f64,
        answered: f64,
    }

    impl Sender {
        fn new(ecn: Ecn) -> Self {
            Self {
                ecn,
                window: 10.0,
                in_flight: 0.0,
                deaf_until: 0,
                share: 0.0,
                marked: 0.0,
                answered: 0.0,
            }
        }

        /// An ACK arrives: Reno for classic senders, DCTCP for L4S ones.
        fn hear(&mut self, now: u64, hit: bool) {
            self.in_flight -= 1.0;
            self.window += 1.0 / self.window;
            self.answered += 1.0;
            self.marked += f64::from(u8::from(hit));
            if self.ecn != Ecn::Ect1 {
                if hit && now >= self.deaf_until {
                    (self.window, self.deaf_until) = (self.window / 2.0, now + 350);
                }
            } else if now >= self.deaf_until {
                self.share += (self.marked / self.answered - self.share) / 16.0;
                if self.marked > 0.0 {
                    self.window *= 1.0 - self.share / 2.0;
                }
                (self.marked, self.answered, self.deaf_until) = (0.0, 0.0, now + 200);
            }
            self.window = self.window.max(2.0);
        }
    }

    /// The result: the mean queueing delay in ms, classic and L4S, and each sender's packets.
    fn run(table: Table, senders: &mut [Sender]) -> ([f64; 2], Vec<u64>) {
        let mut dual = dual(table);
        let mut answers: VecDeque<(u64, usize, bool)> = VecDeque::new();
        let (mut waits, mut sent) = ([(0.0, 0u32); 2], vec![0; senders.len()]);
        let (warm, end) = (100_000, 400_000);
        for at in 0..end {
            while let Some((_, sender, hit)) = answers.pop_front_if(|(due, ..)| *due <= at) {
                senders[sender].hear(at, hit);
            }
            let mut dropped = Drops::default();
            for (i, sender) in senders.iter_mut().enumerate() {
                // At most four at once, as paced senders.
                for _ in 0..4 {
                    if sender.in_flight + 1.0 <= sender.window {
                        sender.in_flight += 1.0;
                        let _ = dual.enqueue(slot(at), packet(slot(at), i as u32, sender.ecn), &mut dropped);
                    }
                }
            }
            if let Next::Ready(packet) = dual.dequeue(slot(at), &mut dropped) {
                let sender = packet.flow.full as usize;
                let kind = usize::from(senders[sender].ecn == Ecn::Ect1);
                answers.push_back((at + 200, sender, packet.ecn == Ecn::Ce));
                if at >= warm {
                    waits[kind].0 += slot(at).since(packet.arrived).nanos() as f64 / 1e6;
                    waits[kind].1 += 1;
                    sent[sender] += 1;
                }
            }
            answers.extend(
                dropped
                    .0
                    .iter()
                    .map(|&(sender, _)| (at + 200, sender as usize, true)),
            );
        }
        (waits.map(|(sum, n)| sum / f64::from(n.max(1))), sent)
    }

    #[test]
    fn the_delay_of_classic_senders_comes_to_the_target() {
        for ecn in [Ecn::NotEct, Ecn::Ect0] {
            let mut senders: Vec<_> = (0..10).map(|_| Sender::new(ecn)).collect();
            let ([classic, _], sent) = run(Table::default(), &mut senders);
            assert!((11.0..19.0).contains(&classic), "{ecn:?}: {classic} ms");
            assert!(sent.iter().sum::<u64>() > 290_000, "the link is used");
        }
    }

    #[test]
    fn the_l4s_queue_stays_short_beside_a_classic_one_and_both_get_like_rates() {
        for schedule in ["wrr", "time-shift"] {
            let kinds = [Ecn::NotEct, Ecn::Ect1].into_iter().cycle().take(8);
            let mut senders: Vec<_> = kinds.map(Sender::new).collect();
            let ([classic, low], sent) = run(Table::default().text("schedule", schedule), &mut senders);
            assert!(
                low < 1.5 && (10.0..22.0).contains(&classic),
                "{schedule}: {low} ms and {classic} ms"
            );
            let of = |kind: usize| sent.iter().skip(kind).step_by(2).sum::<u64>() as f64;
            let ratio = of(1) / of(0);
            assert!(
                (0.4..2.5).contains(&ratio),
                "{schedule}: L4S gets {ratio} of classic, {sent:?}"
            );
        }
    }

    /// Two packets for every one that the link can send, of unresponsive senders; the backlog in
    /// the end, and drops.
    fn overload(ecns: [Ecn; 2]) -> (Dual, Vec<u32>) {
        let (mut dual, mut dropped) = (dual(Table::default()), Drops::default());
        for at in 0..200_000 {
            for (flow, ecn) in (0..).zip(ecns) {
                let _ = dual.enqueue(slot(at), packet(slot(at), flow, ecn), &mut dropped);
            }
            let _ = dual.dequeue(slot(at), &mut dropped);
        }
        let drops =
            [0, 1].map(|flow| dropped.0.iter().filter(|&&l| l == (flow, Reason::Early)).count() as u32);
        (dual, drops.to_vec())
    }

    #[test]
    fn in_an_overload_both_queues_drop_packets_and_stay_near_the_target() {
        for ecns in [[Ecn::Ect1; 2], [Ecn::Ect0; 2], [Ecn::NotEct; 2]] {
            let (dual, drops) = overload(ecns);
            assert_eq!(dual.p_cl(), ONE, "{ecns:?}");
            // 20 s of twice the link: half is dropped, and at random, not by the limit.
            assert!(
                drops.iter().all(|&n| (90_000..105_000).contains(&n)),
                "{ecns:?}: {drops:?}"
            );
            assert!(
                dual.delay < Duration::from_millis(25),
                "{ecns:?}: {:?}",
                dual.delay
            );
        }
    }

    #[test]
    fn classic_packets_get_their_share_beside_l4s_senders_that_never_yield() {
        let (mut dual, mut dropped, mut classic) = (dual(Table::default()), Drops::default(), 0);
        for at in 0..2_000 {
            // Both queues stay backlogged.
            dual.p_prime = 0;
            let _ = dual.enqueue(slot(at), packet(slot(at), 0, Ecn::Ect1), &mut dropped);
            let _ = dual.enqueue(slot(at), packet(slot(at), 1, Ecn::NotEct), &mut dropped);
            if let Next::Ready(packet) = dual.dequeue(slot(at), &mut dropped) {
                classic += packet.flow.full;
            }
        }
        assert!(
            (195..=200).contains(&classic),
            "{classic} of 2,000 for a share of 10 %"
        );
    }

    fn plan(table: &Table, link: Link) -> Result<DualPlan, &'static str> {
        let settings = Settings::read(table, &[], &mut Vec::new()).expect("settings");
        DualPlan::new(&settings, link).map_err(|(key, _)| key)
    }

    #[test]
    fn the_usual_target_and_step_are_a_packet_and_a_half_on_slow_links() {
        let found = |bits| {
            let link = Link::new(Bandwidth::bits_per_sec(bits), Bytes::new(1_001));
            let plan = plan(&Table::default(), link).expect("good settings");
            [plan.target, plan.step, plan.shift].map(Duration::nanos)
        };
        // 1,501 bytes.
        assert_eq!(found(1_000_000_000), [15_000_000, 800_000, 30_000_000]);
        assert_eq!(found(8_000_000), [15_000_000, 1_501_000, 30_000_000]);
        assert_eq!(found(80_000), [150_100_000, 150_100_000, 300_200_000]);
        assert_eq!(found(8_000), [1_000_000_000, 1_000_000_000, 2_000_000_000]);
    }

    #[test]
    fn settings_are_refused_beyond_their_limits_and_not_at_them() {
        let text = |key, value| plan(&Table::default().text(key, value), LINK).err();
        for (key, too_small, least, most, too_large) in [
            ("target", "999 ns", "1 us", "60 s", "60.000000001 s"),
            ("rtt_max", "999.999 us", "1 ms", "10 s", "10.000000001 s"),
            ("update", "9.999 us", "10 us", "1 s", "1.000000001 s"),
            ("classic_share", "0 %", "1 %", "50 %", "50.1 %"),
        ] {
            for wrong in [too_small, too_large] {
                assert_eq!(text(key, wrong), Some(key), "{key} = {wrong}");
            }
            for right in [least, most] {
                assert_eq!(text(key, right), None, "{key} = {right}");
            }
        }
        let number = |key, n| plan(&Table::default().with(key, Raw::Integer(n)), LINK).err();
        assert_eq!(
            [0, 1, 16, 17].map(|n| number("coupling", n).is_some()),
            [true, false, false, true]
        );
        assert_eq!([0, 1].map(|n| number("limit", n).is_some()), [true, false]);
    }

    #[test]
    fn a_delay_beyond_a_minute_is_as_one_of_a_minute() {
        let plan = dual(Table::default()).plan;
        let [minute, hour] = [60, 3_600].map(Duration::from_secs);
        assert_eq!(plan.change(hour, hour), plan.change(minute, minute));
        assert_ne!(
            plan.change(hour, hour),
            plan.change(Duration::from_secs(59), hour)
        );
    }

    #[test]
    fn an_update_is_made_at_its_time_and_of_idle_queues_all_at_once() {
        let mut dual = dual(Table::default());
        let fall = -dual.plan.change(Duration::ZERO, Duration::ZERO) as u64;
        dual.p_prime = ONE / 2;
        dual.catch_up(Instant::from_nanos(15_999_999));
        assert_eq!((dual.p_prime, dual.next_update), (ONE / 2, slot(160)));
        dual.catch_up(slot(160));
        assert_eq!((dual.p_prime, dual.next_update), (ONE / 2 - fall, slot(320)));
        dual.catch_up(Instant::from_nanos(63_999_999));
        assert_eq!((dual.p_prime, dual.next_update), (ONE / 2 - 3 * fall, slot(640)));
        dual.catch_up(slot(640 + 160 * 10_000_000));
        assert_eq!(
            (dual.p_prime, dual.next_update),
            (0, slot(800 + 160 * 10_000_000))
        );
    }

    #[test]
    fn an_update_takes_the_greater_age_and_after_a_thousand_late_ones_the_rest_are_skipped() {
        let (mut dual, mut dropped) = (dual(Table::default()), Drops::default());
        let _ = dual.enqueue(slot(10), packet(slot(10), 0, Ecn::NotEct), &mut dropped);
        let _ = dual.enqueue(slot(20), packet(slot(20), 0, Ecn::Ect1), &mut dropped);
        dual.catch_up(slot(160));
        assert_eq!(dual.delay, slot(160).since(slot(10)));
        assert!(matches!(dual.classic.pop(), Some(packet) if packet.arrived == slot(10)));
        dual.catch_up(slot(320));
        assert_eq!(dual.delay, slot(320).since(slot(20)));
        dual.catch_up(slot(160 * 5_000));
        assert_eq!(dual.delay, slot(160 * 1_026).since(slot(20)));
        assert_eq!(
            (dual.next_update, dual.p_prime),
            (slot(160 * 5_001), ONE),
            "held, so nothing decays"
        );
    }

    #[test]
    fn a_delay_that_has_ended_is_seen_once_more_by_an_empty_queue() {
        let mut dual = dual(Table::default());
        (dual.p_prime, dual.delay) = (ONE / 2, Duration::from_millis(5));
        let change = dual.plan.change(Duration::ZERO, dual.delay);
        dual.catch_up(slot(160));
        let expected = (i128::from(ONE / 2) + change) as u64;
        assert_eq!(
            (dual.p_prime, dual.delay, dual.next_update),
            (expected, Duration::ZERO, slot(320))
        );
    }

    /// The queues of so many packets, as they take turns: L or C.
    fn turns(dual: &mut Dual, now: Instant, n: usize) -> String {
        let turn = |_| dual.take(now).map(|(low, _)| if low { 'L' } else { 'C' });
        (0..n).map_while(turn).collect()
    }

    fn both(table: Table) -> Dual {
        let mut dual = dual(table);
        for _ in 0..10 {
            dual.low.push(packet(slot(0), 0, Ecn::Ect1));
            dual.classic.push(packet(slot(0), 0, Ecn::NotEct));
        }
        dual
    }

    #[test]
    fn the_classic_queue_gets_its_share_of_the_bytes_exactly() {
        let mut quarter = both(Table::default().text("classic_share", "25 %"));
        assert_eq!(turns(&mut quarter, slot(0), 12), "LLLCLLLCLLLC");
        assert_eq!((quarter.low.bytes, quarter.classic.bytes), (1_000, 7_000));
        assert_eq!(turns(&mut quarter, slot(0), 9), "LCCCCCCC");
        assert_eq!(quarter.deficit, 0);
        let mut half = both(Table::default().text("classic_share", "50 %"));
        assert_eq!(turns(&mut half, slot(0), 4), "LCLC");
        // A packet of twice the length needs twice the deficit.
        half.classic.packets[0].len = Bytes::new(2_000);
        half.classic.bytes += 1_000;
        assert_eq!(turns(&mut half, slot(0), 4), "LLCL");
    }

    #[test]
    fn by_age_the_classic_queue_goes_first_only_when_it_is_older_by_more_than_the_shift() {
        let table = Table::default()
            .text("schedule", "time-shift")
            .text("shift", "1 ms");
        for (late, expected) in [(0, "L"), (1, "C")] {
            let mut dual = both(table.clone());
            dual.low.packets[0].arrived = Instant::from_nanos(1_000_000 + late);
            assert_eq!(turns(&mut dual, slot(30), 1), expected);
        }
    }

    #[test]
    fn the_native_marks_are_of_more_than_a_packet_and_of_the_queueing_delay() {
        let fate = |behind: u64, waited: u64, coupled: u64, sum: u64| {
            let mut dual = dual(Table::default());
            (dual.low.bytes, dual.p_prime, dual.sum) = (behind, coupled / 2, sum);
            let fate = dual.fate_of_low(&packet(slot(0), 0, Ecn::Ect1), slot(waited));
            (fate, dual.sum)
        };
        assert_eq!(fate(0, 12, 0, 5), (Fate::Pass, 5), "a full packet and no more");
        assert_eq!(fate(1, 12, 0, 5), (Fate::Mark, 5), "after 1.2 ms");
        assert_eq!(fate(1, 10, 0, 0), (Fate::Pass, ONE / 2));
        assert_eq!(fate(1, 10, 0, ONE / 2), (Fate::Mark, 0));
        assert_eq!(fate(1, 10, 0, ONE / 2 - 1), (Fate::Pass, ONE - 1));
        assert_eq!(
            fate(1, 10, ONE / 4 * 3, 0),
            (Fate::Pass, ONE / 4 * 3),
            "the greater of both"
        );
        assert_eq!(
            fate(1, 9, ONE / 8, 0),
            (Fate::Pass, ONE / 4),
            "the greater of both"
        );
    }

    /// One whose next number of the dice is less than a 64th, and that number.
    fn foreseen() -> (Dual, u64) {
        let mut dual = dual(Table::default());
        loop {
            let dice = dual.rng.clone().bits() >> 4;
            if dice < ONE / 64 {
                return (dual, dice);
            }
            let _ = dual.rng.bits();
        }
    }

    #[test]
    fn a_chance_is_met_by_what_is_less_than_it() {
        for (more, met) in [(0, false), (1, true)] {
            let (mut dual, dice) = foreseen();
            assert_eq!(dual.draw(dice + more), met);
        }
    }

    #[test]
    fn classic_packets_are_signalled_beyond_two_packets_by_marks_where_they_can_be() {
        let fate = |low: u64, classic: u64, p_prime: u64, ecn| {
            let (mut dual, _) = foreseen();
            (dual.low.bytes, dual.classic.bytes, dual.p_prime) = (low, classic, p_prime);
            dual.fate_of_classic(&packet(slot(0), 0, ecn))
        };
        // A quarter's square is more than the dice show, and twice a quarter no overload.
        let quarter = ONE / 4;
        assert_eq!(fate(400, 600, quarter, Ecn::NotEct), Fate::Pass);
        assert_eq!(fate(401, 600, quarter, Ecn::NotEct), Fate::Drop);
        assert_eq!(fate(400, 601, quarter, Ecn::Ect0), Fate::Mark);
        assert_eq!(fate(400, 601, 0, Ecn::NotEct), Fate::Pass);
        assert_eq!(fate(400, 601, ONE / 2 - 1, Ecn::Ect0), Fate::Mark);
        assert_eq!(fate(400, 601, ONE / 2, Ecn::Ect0), Fate::Drop, "an overload");
        assert_eq!(fate(400, 599, ONE, Ecn::Ect0), Fate::Pass);
    }

    #[test]
    fn an_overload_drops_all_but_the_last_of_both() {
        let (mut dual, mut dropped) = (dual(Table::default()), Drops::default());
        for flow in 0..3 {
            dual.low.push(packet(slot(0), flow, Ecn::Ect1));
            dual.classic.push(packet(slot(0), 10 + flow, Ecn::Ect0));
        }
        dual.p_prime = ONE;
        let Next::Ready(last) = dual.dequeue(slot(1), &mut dropped) else {
            panic!("one was promised")
        };
        // Two full packets are a backlog in which nothing classic is dropped.
        assert_eq!((last.flow.full, dual.dropped), (11, [3, 1]));
        let gone: Vec<u32> = dropped.0.iter().map(|(flow, _)| *flow).collect();
        assert_eq!(gone, [0, 1, 2, 10]);
        let mut low = both(Table::default());
        (low.low, low.classic) = (Fifo::default(), Fifo::default());
        low.p_prime = ONE;
        (0..3).for_each(|flow| low.low.push(packet(slot(0), flow, Ecn::Ect1)));
        assert!(matches!(low.dequeue(slot(1), &mut dropped), Next::Ready(last) if last.flow.full == 2));
        assert_eq!((low.dropped, low.is_empty()), ([2, 0], true));
    }

    #[test]
    fn both_queues_together_hold_the_limit() {
        let (mut dual, mut dropped) = (dual(Table::default()), Drops::default());
        dual.plan.limit = 3;
        for (flow, ecn) in [Ecn::Ect0, Ecn::Ect1, Ecn::Ce, Ecn::Ect0].into_iter().enumerate() {
            let verdict = dual.enqueue(slot(0), packet(slot(0), flow as u32, ecn), &mut dropped);
            assert_eq!(verdict == Verdict::Queued, flow < 3);
        }
        assert_eq!(dropped.0, [(3, Reason::Full)]);
        assert_eq!((dual.low.bytes, dual.classic.bytes), (2_000, 1_000));
    }

    #[test]
    fn another_interval_begins_at_once_and_other_settings_leave_it() {
        let mut dual = dual(Table::default());
        let other = |table| trials::planned("dualpi2", table, LINK).plan;
        let fifo = trials::planned("fifo", Table::default(), LINK);
        assert!(!dual.retune(slot(7), &*fifo.plan));
        assert!(dual.retune(slot(7), &*other(Table::default().with("limit", Raw::Integer(9)))));
        assert_eq!((dual.plan.limit, dual.next_update), (9, slot(160)));
        dual.p_prime = ONE / 2;
        assert!(dual.retune(slot(170), &*other(Table::default().text("update", "20 ms"))));
        assert_eq!((dual.plan.limit, dual.next_update), (10_000, slot(370)));
        assert!(dual.p_prime < ONE / 2, "what was due is made before");
    }

    #[test]
    fn one_that_takes_over_goes_on_with_all_but_the_packets() {
        let mut former = both(Table::default());
        (former.sum, former.deficit, former.marks, former.dropped) = (5, 6, [7, 8], [9, 10]);
        let mut dual = dual(Table::default().with("limit", Raw::Integer(9)));
        assert_eq!(dual.take_over(slot(160), &mut former), 0);
        assert_eq!(
            (dual.delay, dual.next_update),
            (Duration::from_millis(16), slot(320))
        );
        assert_eq!((dual.sum, dual.deficit), (5, 6));
        assert_eq!((dual.marks, dual.dropped), ([7, 8], [9, 10]));
        assert!(dual.is_empty() && dual.low.bytes + dual.classic.bytes == 0 && dual.plan.limit == 9);
        assert_eq!(
            (dual.p_prime, dual.rng.bits()),
            (former.p_prime, former.rng.bits())
        );
    }

    #[test]
    fn a_flush_that_ends_forgets_the_turns() {
        let (mut dual, mut dropped) = (both(Table::default()), Drops::default());
        dual.deficit = 5;
        dual.flush(&mut Portion::of(15, 1), &mut dropped);
        assert_eq!((dual.low.bytes, dual.classic.bytes, dual.deficit), (0, 5_000, 5));
        dual.flush(&mut Portion::whole(), &mut dropped);
        assert_eq!((dual.classic.bytes, dual.deficit, dropped.0.len()), (0, 0, 20));
    }

    #[test]
    fn its_state_is_shown() {
        let mut dual = both(Table::default());
        let _ = dual.low.pop();
        (dual.p_prime, dual.delay) = (ONE / 4, Duration::from_millis(3));
        (dual.marks, dual.dropped) = ([1, 2], [3, 4]);
        let bytes = |n| Value::Bytes(Bytes::new(n));
        assert_eq!(
            trials::gauges(&dual),
            [
                ("delay", Value::Duration(Duration::from_millis(3))),
                ("p_classic", Value::Share(Probability::ratio(1, 16))),
                ("p_coupled", Value::Share(Probability::ratio(1, 2))),
                ("state", Value::State("normal")),
                ("l4s_bytes", bytes(9_000)),
                ("classic_bytes", bytes(10_000)),
                ("l4s_marks", Value::Count(1)),
                ("classic_marks", Value::Count(2)),
                ("l4s_dropped", Value::Count(3)),
                ("classic_dropped", Value::Count(4)),
            ]
        );
        dual.p_prime = ONE / 2;
        assert_eq!(trials::gauge(&dual, "state"), Some(Value::State("overload")));
    }
}
