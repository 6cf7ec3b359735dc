//! `tbf`: a token bucket filter in front of one queue. It shapes packets to a rate, with bursts up
//! to a bound.
//!
//! The token bucket of RFC 2215, section 3 (TOKEN_BUCKET_TSPEC) as a shaper: with *r* the rate and
//! *b* the burst, what leaves in any time *T* is at most *b* + *r T*; with a peak rate *p* also at
//! most *M* + *p T*. Tokens are nanobits: rate (bit/s) × time (ns) is a whole number of them, so
//! nothing is rounded, and a backlogged queue gets its rate exactly (if the burst is longer than
//! its packets by what the rate brings in 1 ns, so that a full bucket loses no part of one).
//!
//! A packet leaves when there are tokens for all of it. The wait ends in the first nanosecond in
//! which there are.
//!
//! Departures from what other systems call by this name (ALTQ's regulator, Linux's tbf): the first
//! lets a packet go when there is any token, so a burst is longer by a packet; the second drops
//! packets longer than the burst. Here such a packet (a super-packet; the burst is at least the
//! link's longest packet) goes when the bucket is full, and overdraws it: for it, read *b* as its
//! length. A packet without tokens yet has been peeked at and pinned; later ones wait behind it.

use crate::bounds::{Terms, WorstCase};
use crate::discipline::{Build, Discipline, Next, Plan, Sink, Verdict};
use crate::inspect::{Inspection, Value};
use crate::kind::{Check, Children, Kind, Properties, QueuePlan};
use crate::link::Link;
use crate::packet::{ClassId, Packet};
use crate::portion::Portion;
use crate::queue::Queue;
use crate::settings;
use crate::sharing::credit;
use crate::sharing::credit::{Credit, nanobits};
use crate::units::{Bandwidth, Bytes, Duration, Instant, Rate};
use std::any::Any;
use std::sync::Arc;

/// The registration.
pub static KIND: Kind = Kind {
    name: "tbf",
    summary: "A token bucket in front of one queue: a rate, and bursts up to a bound",
    reference: "RFC 2215, section 3; ALTQ, \"token bucket regulator\"",
    children: Children::One,
    settings: Settings::SETTINGS,
    class_settings: &[],
    properties: Properties {
        only_delays: true,
        takes_over: true,
        ..Properties::NONE
    },
    check,
};

settings! {
    /// Settings of `tbf`.
    pub struct Settings {
        /// The rate to which packets are shaped
        rate: Rate = required,
            "above the rate of the narrowest link: the queue builds up there, where no policy rules",
            "-";
        /// Bytes that may leave at once after a pause
        burst: Bytes = derived "what 5 ms at the rate bring, at least the link's longest packet",
            "too small: a host that is woken late wastes rate; too large: the next device has to buffer the burst",
            "as the catch-up of a link";
        /// The rate within a burst
        peak: Rate = derived "no bound: a burst leaves at the port's speed",
            "just above `rate`: no bursts at all",
            "RFC 2215, the peak rate of a Tspec";
        /// Bytes that may leave at once at the peak rate
        peak_burst: Bytes = derived "the link's longest packet",
            "larger: fewer wake-ups",
            "RFC 2215, the maximum packet size of a Tspec";
    }
}

/// Bursts are kept in nanobits in 63 bits.
const LONGEST_BURST: Bytes = Bytes::new(1_000_000_000);
const CATCH_UP: Duration = Duration::from_millis(5);

#[derive(Clone, Debug)]
struct TbfPlan {
    /// The bucket of the rate, and that of the peak rate.
    buckets: [Option<(Bandwidth, Bytes)>; 2],
    child: QueuePlan,
}

fn check(check: &mut Check<'_>) -> Option<Arc<dyn Plan>> {
    let settings = Settings::read(check.settings, &[], check.problems)?;
    let (link, mtu) = (check.link.bandwidth, check.link.mtu);
    let rate = settings.rate.on(link);
    let peak = settings.peak.map(|peak| peak.on(link));
    let mut wrong = Vec::new();
    if rate == Bandwidth::ZERO {
        wrong.push((
            "rate",
            "`rate` must be more than 0: nothing could leave".to_string(),
        ));
    }
    if peak.is_some_and(|peak| peak < rate) {
        wrong.push(("peak", format!("`peak` is less than `rate` ({rate})")));
    }
    if settings.peak_burst.is_some() && peak.is_none() {
        wrong.push(("peak_burst", "`peak_burst` needs a `peak`".into()));
    }
    for (key, burst) in [("burst", settings.burst), ("peak_burst", settings.peak_burst)] {
        if burst.is_some_and(|burst| burst < mtu) {
            wrong.push((key, format!("`{key}` is less than one full packet ({mtu})")));
        }
        if burst.is_some_and(|burst| burst > LONGEST_BURST) {
            wrong.push((key, format!("`{key}` is more than {LONGEST_BURST}")));
        }
    }
    if !wrong.is_empty() {
        check.refuse(wrong);
        return None;
    }
    let burst = settings
        .burst
        .unwrap_or(rate.bytes_in(CATCH_UP).max(mtu).min(LONGEST_BURST));
    let peak = peak.map(|peak| (peak, settings.peak_burst.unwrap_or(mtu)));
    Some(Arc::new(TbfPlan {
        buckets: [Some((rate, burst)), peak],
        child: check.child.take()?,
    }))
}

impl TbfPlan {
    /// What passes in the long run on this link.
    fn slowest(&self, link: Bandwidth) -> Bandwidth {
        let rates = self.buckets.iter().flatten().map(|(rate, _)| *rate);
        rates.fold(link, Bandwidth::min)
    }
}

impl Plan for TbfPlan {
    /// Those of the queue below, on a link of this rate: while there is a backlog, and however
    /// empty the bucket was, *r t* less what is counted here leaves in any time *t*. Counted are
    /// the packet that has been peeked at and waits for its tokens, the time of the class's own
    /// packet on the link, and the overdraft of one that is longer than the burst, all at *r*.
    fn bounds(&self, terms: &Terms<'_>) -> Vec<WorstCase> {
        let below = |terms: &Terms<'_>| self.child.plan.bounds(terms);
        let overdrafts = self
            .buckets
            .iter()
            .flatten()
            .map(|(_, burst)| terms.longest - *burst);
        let ahead = terms.ahead + terms.longest.times(2) + overdrafts.sum();
        let mut cases = below(&Terms {
            link: Link {
                bandwidth: self.slowest(terms.link.bandwidth),
                ..terms.link
            },
            ahead,
            ..*terms
        });
        if !self.child.kind.properties.follows_any_rate {
            let why = format!(
                "what `{}` guarantees assumes the whole link, and `tbf` above it gives less",
                self.child.kind.name
            );
            cases.iter_mut().for_each(|case| case.bound = Err(why.clone()));
        }
        cases
    }

    fn serves(&self, class: Option<ClassId>, link: Bandwidth) -> Option<Bandwidth> {
        self.child.plan.serves(class, self.slowest(link))
    }

    fn build(&self, cx: &Build) -> Box<dyn Discipline> {
        Box::new(Tbf {
            buckets: self.buckets.map(|bucket| bucket.map(Bucket::new)),
            child: self.child.build(&cx.part("child")),
            kind: self.child.kind.name,
            waits: 0,
            pins: false,
        })
    }
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    credit: Credit,
    /// Its depth, in nanobits.
    full: i64,
}

impl Bucket {
    fn new((rate, burst): (Bandwidth, Bytes)) -> Self {
        let full = nanobits(burst.get());
        let mut credit = Credit::default();
        (credit.rate, credit.left) = (rate.bits(), full);
        Self { credit, full }
    }

    /// The nanoseconds from `now` until there are tokens for `len`.
    #[inline]
    fn wait(&mut self, now: u64, len: Bytes) -> u64 {
        self.credit.accrue(now, Some(self.full));
        let lacks = nanobits(len.get()).min(self.full) - self.credit.left;
        if lacks <= 0 {
            0
        } else {
            (lacks as u64).div_ceil(self.credit.rate.max(1))
        }
    }

    /// Adopts another rate and depth; its tokens stay, up to the new depth.
    fn adopt(&mut self, now: u64, new: Self) {
        self.credit.accrue(now, Some(self.full));
        (self.credit.rate, self.full) = (new.credit.rate, new.full);
        self.credit.left = self.credit.left.min(self.full);
    }
}

#[derive(Debug)]
struct Tbf {
    buckets: [Option<Bucket>; 2],
    child: Queue,
    kind: &'static str,
    /// Dequeues that had to wait for tokens.
    waits: u64,
    /// The next packet that is handed on was the child's next one there.
    pins: bool,
}

impl Tbf {
    /// Buckets of other rates and depths from `now` on; tokens stay.
    fn adopt(&mut self, now: Instant, buckets: [Option<Bucket>; 2]) {
        for (old, new) in self.buckets.iter_mut().zip(buckets) {
            match (old.as_mut(), new) {
                (Some(old), Some(new)) => old.adopt(now.nanos(), new),
                (_, new) => {
                    *old = new.map(|mut bucket| {
                        bucket.credit.updated = now.nanos();
                        bucket
                    });
                }
            }
        }
    }
}

impl Discipline for Tbf {
    fn enqueue(&mut self, now: Instant, packet: Packet, sink: &mut dyn Sink) -> Verdict {
        if std::mem::take(&mut self.pins) && packet.handed_on {
            self.child.pin_first(packet);
            return Verdict::Queued;
        }
        self.child.enqueue(now, packet, sink)
    }

    fn dequeue(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<Packet> {
        let len = match self.child.peek(now, sink) {
            Next::Ready(packet) => packet.len,
            Next::Wait(at) => return Next::Wait(at),
            Next::Empty => return Next::Empty,
        };
        let mut buckets = self.buckets.iter_mut().flatten();
        let wait = buckets
            .by_ref()
            .map(|bucket| bucket.wait(now.nanos(), len))
            .max()
            .unwrap_or(0);
        if wait > 0 {
            self.waits += 1;
            return Next::Wait(now + Duration::from_nanos(wait));
        }
        self.buckets
            .iter_mut()
            .flatten()
            .for_each(|bucket| bucket.credit.left -= nanobits(len.get()));
        self.child.dequeue(now, sink)
    }

    fn flush(&mut self, portion: &mut Portion, sink: &mut dyn Sink) {
        self.child.flush(portion, sink);
    }

    fn take_over(&mut self, now: Instant, former: &mut dyn Discipline) -> u32 {
        let Some(former) = former.of_type::<Self>() else {
            return 0;
        };
        let own = std::mem::replace(&mut self.buckets, former.buckets);
        self.adopt(now, own);
        self.waits = former.waits;
        self.pins = former.child.is_pinned();
        self.child.take_over(now, &mut former.child)
    }

    fn leaf(&mut self, class: ClassId) -> Option<&mut dyn Discipline> {
        self.child.discipline_mut().leaf(class)
    }

    fn owner(&mut self, class: ClassId) -> Option<&mut dyn Discipline> {
        self.child.discipline_mut().owner(class)
    }

    fn inspect(&self, out: &mut Inspection<'_>) {
        let names = [("rate", "burst", "tokens"), ("peak", "peak_burst", "peak_tokens")];
        for (bucket, (rate, burst, tokens)) in self.buckets.iter().zip(names) {
            let Some(bucket) = bucket else { continue };
            out.gauge(
                rate,
                Value::Bandwidth(Bandwidth::bits_per_sec(bucket.credit.rate)),
            );
            out.gauge(
                burst,
                Value::Bytes(Bytes::new((bucket.full / credit::NANOBITS) as u64)),
            );
            out.gauge(tokens, Value::Credit(bucket.credit.left / credit::NANOBITS));
        }
        out.gauge("waits", Value::Count(self.waits));
        self.child.inspect(out);
    }

    fn retune(&mut self, now: Instant, plan: &dyn Plan) -> bool {
        let plan: &dyn Any = plan;
        let Some(plan) = plan.downcast_ref::<TbfPlan>() else {
            return false;
        };
        if plan.child.kind.name != self.kind || !self.child.retune(now, plan.child.plan.as_ref()) {
            return false;
        }
        self.adopt(now, plan.buckets.map(|bucket| bucket.map(Bucket::new)));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Link;
    use crate::packet::ClassId;
    use crate::random::Seed;
    use crate::settings::Problem;
    use crate::settings::{Raw, Table};
    use crate::sinks::Nowhere;
    use crate::tree::{DisciplineSpec, Registry};
    use crate::trials;
    use proptest::prelude::*;

    fn check(settings: Table) -> Result<Queue, Vec<Problem>> {
        let fifo = DisciplineSpec {
            settings: Table::default().with("limit", Raw::Integer(1_000_000)),
            ..DisciplineSpec::new("fifo")
        };
        let spec = DisciplineSpec {
            settings,
            child: Some(Box::new(fifo)),
            ..DisciplineSpec::new("tbf")
        };
        let link = Link::new(Bandwidth::gbit(800), Bytes::new(1_514));
        spec.check(&Registry::builtin(), link)
            .map(|plan| plan.build(Seed(1)))
    }

    fn offer(queue: &mut Queue, now: Instant, len: u64) {
        let packet = Packet::new(Bytes::new(len), now, ClassId(0));
        assert_eq!(queue.enqueue(now, packet, &mut Nowhere), Verdict::Queued);
    }

    /// Serves a queue from `start` on, waking up when due; the departures as (time, bytes).
    fn serve(queue: &mut Queue, mut now: u64) -> Vec<(u64, u64)> {
        let mut sent = Vec::new();
        loop {
            match queue.dequeue(Instant::from_nanos(now), &mut Nowhere) {
                Next::Ready(packet) => sent.push((now, packet.len.get())),
                Next::Wait(at) => now = at.nanos(),
                Next::Empty => return sent,
            }
        }
    }

    /// The largest excess of what left in any window over rate × window, in nanobits.
    fn excess(sent: &[(u64, u64)], rate: u64) -> i128 {
        // Over the windows that end with this packet: the running maximum of a walk.
        let (mut level, mut most, mut last) = (0i128, 0i128, sent[0].0);
        for &(at, len) in sent {
            level =
                (level - i128::from(rate) * i128::from(at - last)).max(0) + i128::from(len) * 8_000_000_000;
            (most, last) = (most.max(level), at);
        }
        most
    }

    fn rates() -> impl Strategy<Value = u64> {
        (0u32..27, 1u64..2_000)
            .prop_map(|(bits, odd)| (8_000u64 << bits).saturating_add(odd * 7).min(800_000_000_000))
    }

    proptest! {
        #[test]
        fn what_leaves_in_any_window_is_at_most_burst_and_rate_times_window(
            rate in rates(),
            burst in 1_514u64..60_000,
            peak in prop_oneof![Just(None), (101u64..900).prop_map(Some)],
            arrivals in prop::collection::vec((0u32..30, any::<u64>(), 1u64..1_515), 1..300),
        ) {
            let mut table = Table::default().text("rate", &format!("{rate} bit/s")).text("burst", &format!("{burst} B"));
            let peak = peak.map(|percent| rate * percent / 100);
            if let Some(peak) = peak {
                table = table.text("peak", &format!("{peak} bit/s"));
            }
            let mut queue = check(table).expect("a good plan");
            let (mut now, mut sent) = (1_000_000u64, Vec::new());
            for (bits, gap, len) in arrivals {
                // Up to the arrival, as told; then the packet.
                let arrival = now + (gap & ((1 << bits) - 1));
                while let Next::Wait(at) = match queue.dequeue(Instant::from_nanos(now), &mut Nowhere) {
                    Next::Ready(packet) => { sent.push((now, packet.len.get())); Next::Wait(Instant::from_nanos(now)) }
                    other => other,
                } {
                    if at.nanos() > arrival { break }
                    now = at.nanos();
                }
                now = arrival;
                offer(&mut queue, Instant::from_nanos(now), len);
            }
            sent.extend(serve(&mut queue, now));
            prop_assert!(excess(&sent, rate) <= i128::from(burst) * 8_000_000_000);
            if let Some(peak) = peak {
                prop_assert!(excess(&sent, peak) <= 1_514 * 8_000_000_000);
            }
        }

        #[test]
        fn a_backlogged_queue_gets_its_rate_exactly(rate in rates(), lens in prop::collection::vec(1u64..1_515, 200)) {
            let table = Table::default().text("rate", &format!("{rate} bit/s")).text("burst", "1700 B");
            let mut queue = check(table).expect("a good plan");
            lens.iter().for_each(|&len| offer(&mut queue, Instant::START, len));
            let mut bytes = 0u64;
            for (at, len) in serve(&mut queue, 0) {
                bytes += len;
                // Each packet leaves in the first nanosecond in which burst + rate × time covers
                // all up to it.
                let due = (u128::from(bytes.saturating_sub(1_700)) * 8_000_000_000).div_ceil(u128::from(rate));
                prop_assert_eq!(u128::from(at), due);
            }
        }
    }

    #[test]
    fn a_packet_longer_than_the_burst_goes_when_the_bucket_is_full_and_is_paid_for() {
        let table = Table::default().text("rate", "8 Mbit/s").text("burst", "2 kB");
        let mut queue = check(table).expect("a good plan");
        [1_000, 60_000, 1_000]
            .into_iter()
            .for_each(|len| offer(&mut queue, Instant::START, len));
        // 1 MB/s: full again after 1 ms; then an overdraft of 58,000 bytes, and 1,000 more.
        assert_eq!(
            serve(&mut queue, 0),
            [(0, 1_000), (1_000_000, 60_000), (60_000_000, 1_000)]
        );
    }

    #[test]
    fn a_peak_rate_spreads_the_burst() {
        let table = Table::default().text("rate", "8 Mbit/s").text("burst", "10 kB");
        let table = table.text("peak", "80 Mbit/s").text("peak_burst", "2 kB");
        let mut queue = check(table).expect("a good plan");
        (0..6).for_each(|_| offer(&mut queue, Instant::START, 1_000));
        let times: Vec<u64> = serve(&mut queue, 0).into_iter().map(|(at, _)| at).collect();
        assert_eq!(times, [0, 0, 100_000, 200_000, 300_000, 400_000]);
    }

    #[test]
    fn settings_that_cannot_work_are_refused_with_a_reason() {
        let rate = || Table::default().text("rate", "1 Mbit/s");
        let cases = [
            (Table::default(), "`rate` is missing"),
            (Table::default().text("rate", "0 bit/s"), "must be more than 0"),
            (rate().text("burst", "1 kB"), "less than one full packet"),
            (rate().text("burst", "2 GB"), "more than 1 GB"),
            (rate().text("peak", "1 kbit/s"), "less than `rate`"),
            (rate().text("peak_burst", "2 kB"), "needs a `peak`"),
        ];
        for (table, message) in cases {
            let problems = check(table).expect_err("cannot work");
            assert!(problems[0].message.contains(message), "{problems:?}");
        }
    }

    fn over(rate: &str, burst: &str, peak: Option<&str>, child: DisciplineSpec) -> QueuePlan {
        let table = Table::default().text("rate", rate).text("burst", burst);
        let table = match peak {
            Some(peak) => table.text("peak", peak).text("peak_burst", "3 kB"),
            None => table,
        };
        trials::planned_over("tbf", table, child)
    }

    fn plain(rate: &str, burst: &str, peak: Option<&str>) -> QueuePlan {
        over(rate, burst, peak, DisciplineSpec::new("fifo"))
    }

    /// The rate in Mbit/s, the burst and the tokens, of this bucket.
    fn shown(tbf: &dyn Discipline, names: [&str; 3]) -> Option<(u64, u64, i64)> {
        let [rate, burst, tokens] = names.map(|name| trials::gauge(tbf, name));
        match (rate?, burst?, tokens?) {
            (Value::Bandwidth(rate), Value::Bytes(burst), Value::Credit(tokens)) => {
                Some((rate.bits() / 1_000_000, burst.get(), tokens))
            }
            other => panic!("{other:?}"),
        }
    }

    const OWN: [&str; 3] = ["rate", "burst", "tokens"];
    const PEAK: [&str; 3] = ["peak", "peak_burst", "peak_tokens"];

    fn millis(n: u64) -> Instant {
        Instant::from_nanos(n * 1_000_000)
    }

    fn send(tbf: &mut dyn Discipline, now: Instant, len: u64) -> Next<u64> {
        let packet = Packet::new(Bytes::new(len), now, ClassId(0));
        assert_eq!(tbf.enqueue(now, packet, &mut Nowhere), Verdict::Queued);
        match tbf.dequeue(now, &mut Nowhere) {
            Next::Ready(packet) => Next::Ready(packet.len.get()),
            Next::Wait(until) => Next::Wait(until),
            Next::Empty => Next::Empty,
        }
    }

    #[test]
    fn tokens_stay_up_to_the_new_burst_when_it_is_retuned() {
        let mut tbf = trials::built(&plain("8 Mbit/s", "10 kB", None));
        assert_eq!(shown(&*tbf, OWN), Some((8, 10_000, 10_000)));
        assert_eq!(send(&mut *tbf, millis(0), 4_000), Next::Ready(4_000));
        assert_eq!(shown(&*tbf, OWN), Some((8, 10_000, 6_000)));
        // A byte comes each microsecond up to then.
        assert!(tbf.retune(millis(1), &*plain("16 Mbit/s", "20 kB", None).plan));
        assert_eq!(shown(&*tbf, OWN), Some((16, 20_000, 7_000)));
        assert!(tbf.retune(millis(2), &*plain("8 Mbit/s", "5 kB", None).plan));
        assert_eq!(shown(&*tbf, OWN), Some((8, 5_000, 5_000)));
        assert_eq!(shown(&*tbf, PEAK), None);
        assert!(tbf.retune(millis(2), &*plain("8 Mbit/s", "5 kB", Some("80 Mbit/s")).plan));
        assert_eq!(shown(&*tbf, PEAK), Some((80, 3_000, 3_000)));
        assert_eq!(send(&mut *tbf, millis(2), 3_000), Next::Ready(3_000));
        assert_eq!(
            (shown(&*tbf, OWN), shown(&*tbf, PEAK)),
            (Some((8, 5_000, 2_000)), Some((80, 3_000, 0)))
        );
        let wait = Next::Wait(Instant::from_nanos(2_100_000));
        assert_eq!(send(&mut *tbf, millis(2), 1_000), wait, "of the peak rate");
        assert_eq!(trials::gauge(&*tbf, "waits"), Some(Value::Count(1)));
        assert!(tbf.retune(millis(2), &*plain("8 Mbit/s", "5 kB", None).plan));
        assert_eq!(shown(&*tbf, PEAK), None);
    }

    #[test]
    fn a_plan_whose_queue_below_is_another_is_not_adopted() {
        let fifo = |limit| DisciplineSpec {
            settings: Table::default().with("limit", Raw::Integer(limit)),
            ..DisciplineSpec::new("fifo")
        };
        let red = |measure: &str| DisciplineSpec {
            settings: Table::default().text("measure", measure),
            ..DisciplineSpec::new("red")
        };
        let mut tbf = trials::built(&plain("8 Mbit/s", "10 kB", None));
        let alone = trials::planned("fifo", Table::default(), trials::LINK);
        assert!(!tbf.retune(millis(0), &*alone.plan));
        let other = over("16 Mbit/s", "10 kB", None, DisciplineSpec::new("codel"));
        assert!(!tbf.retune(millis(0), &*other.plan));
        assert_eq!(shown(&*tbf, OWN), Some((8, 10_000, 10_000)));
        assert!(tbf.retune(millis(0), &*over("8 Mbit/s", "10 kB", None, fifo(7)).plan));
        assert_eq!(trials::gauge(&*tbf, "limit"), Some(Value::Count(7)));
        let mut tbf = trials::built(&over("8 Mbit/s", "10 kB", None, red("packets")));
        assert!(!tbf.retune(millis(0), &*over("16 Mbit/s", "10 kB", None, red("bytes")).plan));
        assert_eq!(shown(&*tbf, OWN), Some((8, 10_000, 10_000)));
    }

    #[test]
    fn one_that_takes_over_has_the_tokens_and_the_waits() {
        let mut former = trials::built(&plain("8 Mbit/s", "10 kB", None));
        assert_eq!(send(&mut *former, millis(0), 9_000), Next::Ready(9_000));
        assert!(matches!(send(&mut *former, millis(0), 2_000), Next::Wait(_)));
        let mut tbf = trials::built(&plain("16 Mbit/s", "20 kB", None));
        assert_eq!(tbf.take_over(millis(3), &mut *former), 0);
        assert_eq!(shown(&*tbf, OWN), Some((16, 20_000, 4_000)));
        assert_eq!(trials::gauge(&*tbf, "waits"), Some(Value::Count(1)));
        // What was peeked at is the first here, whatever the limit.
        let packet = |handed_on| Packet {
            handed_on,
            ..Packet::new(Bytes::new(2_000), millis(3), ClassId(0))
        };
        assert_eq!(
            tbf.enqueue(millis(3), packet(true), &mut Nowhere),
            Verdict::Queued
        );
        assert_eq!(
            tbf.enqueue(millis(3), packet(false), &mut Nowhere),
            Verdict::Queued
        );
        assert!(matches!(tbf.dequeue(millis(3), &mut Nowhere), Next::Ready(packet) if packet.handed_on));
    }

    #[test]
    fn the_usual_burst_is_that_of_5_ms_and_at_least_a_packet() {
        let burst = |rate: &str| {
            let plan = trials::planned("tbf", Table::default().text("rate", rate), trials::LINK);
            shown(&*trials::built(&plan), OWN).map(|(_, burst, _)| burst)
        };
        assert_eq!(burst("8 Mbit/s"), Some(5_000));
        assert_eq!(burst("1 Mbit/s"), Some(1_000));
        assert_eq!(burst("2000 Gbit/s"), Some(1_000_000_000));
    }

    #[test]
    fn bursts_and_peaks_are_refused_beyond_their_limits_and_not_at_them() {
        let refused = |key: &str, value: &str| {
            let table = Table::default().text("rate", "8 Mbit/s").text("peak", "8 Mbit/s");
            trials::refused("tbf", table.text(key, value), trials::LINK).is_some()
        };
        for key in ["burst", "peak_burst"] {
            let found = ["999 B", "1000 B", "1000000000 B", "1000000001 B"].map(|value| refused(key, value));
            assert_eq!(found, [true, false, false, true], "{key}");
        }
        let rates = Table::default().text("rate", "8 Mbit/s");
        let peak = |peak: &str| trials::refused("tbf", rates.clone().text("peak", peak), trials::LINK);
        assert!(peak("7999999 bit/s").is_some() && peak("8 Mbit/s").is_none());
    }

    #[test]
    fn the_classes_below_it_are_found_and_served_by_the_least_rate() {
        let plan = over("4 Mbit/s", "10 kB", None, trials::two_classes());
        trials::finds_two_classes_below(&mut *trials::built(&plan));
        let half = Some(Bandwidth::mbit(2));
        assert_eq!(plan.plan.serves(Some(ClassId(1)), Bandwidth::mbit(8)), half);
        let slower = Some(Bandwidth::mbit(1));
        assert_eq!(
            plan.plan.serves(Some(ClassId(1)), Bandwidth::mbit(2)),
            slower,
            "a slower link"
        );
        assert_eq!(plan.plan.serves(Some(ClassId(2)), Bandwidth::mbit(8)), None);
    }
}
