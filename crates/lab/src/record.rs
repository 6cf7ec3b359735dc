//! Records the bytes offered to an emulated link and sent by it, in time bins: the bandwidth meter
//! of the GNET-1 in the PSPacer paper.
//!
//! Offered bytes count in the bin in which the emulator received them. It reads its clock once per
//! batch, so a burst that arrived together counts in one bin. Sent bytes are spread exactly over
//! their transmission time.

use engine::discipline::Verdict;
use engine::units::{Bytes, Duration, Instant};
use measure::delay::FineDelays;
use measure::promised::{FoundArrival, PromisedArrivals};
use measure::series::ByteSeries;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bins at most; later bytes are not recorded.
const MAX_BINS: u64 = 10_000_000;

/// The contents of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recorded {
    /// Bytes offered, by the time of their arrival.
    pub offered: ByteSeries,
    /// Bytes sent, by their transmission time.
    pub sent: ByteSeries,
    /// The largest backlog, in bytes.
    pub deepest: Bytes,
    /// Queueing delays: from arrival until the first bit is on the wire.
    pub waited: FineDelays,
    /// What came for each class that something is promised to.
    pub promised: BTreeMap<String, PromisedArrivals>,
}

/// A record that a link writes and others read. Clones share the same record.
#[derive(Clone, Debug)]
pub struct Record {
    end: Instant,
    inner: Arc<Mutex<Recorded>>,
}

impl Record {
    /// A record from this time on, in bins of this length.
    pub fn new(origin: Instant, bin: Duration) -> Self {
        let series = ByteSeries::new(origin, bin);
        let inner = Recorded {
            offered: series.clone(),
            sent: series,
            deepest: Bytes::ZERO,
            waited: FineDelays::default(),
            promised: BTreeMap::new(),
        };
        Self {
            end: origin + bin.times(MAX_BINS),
            inner: Arc::new(Mutex::new(inner)),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Recorded> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn offered(&self, now: Instant, len: Bytes, backlog: Bytes) {
        if now < self.end {
            let mut inner = self.inner();
            inner.offered.add(now, len.get());
            inner.deepest = inner.deepest.max(backlog);
        }
    }

    pub(crate) fn sent(&self, arrived: Instant, from: Instant, to: Instant, len: Bytes) {
        if to < self.end {
            let mut inner = self.inner();
            inner.sent.spread(from, to, len.get());
            inner.waited.record(from.since(arrived));
        }
    }

    pub(crate) fn promised(&self, now: Instant, found: FoundArrival<'_>, verdict: Verdict) {
        let mut inner = self.inner();
        if !inner.promised.contains_key(found.class) {
            inner
                .promised
                .insert(found.class.to_owned(), PromisedArrivals::default());
        }
        if let Some(class) = inner.promised.get_mut(found.class) {
            class.comes(now, found.early, verdict != Verdict::Queued);
        }
    }

    /// Copies what was recorded so far.
    pub fn read(&self) -> Recorded {
        self.inner().clone()
    }
}

impl Recorded {
    /// Writes a line for each bin: its time in seconds, the offered and the sent rate in bit/s.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn write_csv(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "time_s,offered_bps,sent_bps")?;
        let bins = self.offered.bytes().len().max(self.sent.bytes().len());
        let bin = self.offered.bin();
        let rate = |series: &ByteSeries, n: usize| {
            let bytes = series.bytes().get(n).copied().unwrap_or(0);
            engine::units::Bandwidth::of(Bytes::new(bytes), bin).bits()
        };
        for n in 0..bins {
            let at = bin.times(n as u64).as_secs_f64();
            writeln!(out, "{at:.6},{},{}", rate(&self.offered, n), rate(&self.sent, n))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{CableSwitch, EmulatedLink, TraceBegin};
    use engine::discipline::{Next, Reason, Sink};
    use engine::link::Link;
    use engine::packet::Buffer;
    use engine::packet::Packet;
    use engine::random::Seed;
    use engine::settings::Table;
    use engine::shaped_queue::ShapedQueue;
    use engine::tree::TreePlan;
    use engine::tree::{ClassSpec, DisciplineSpec, Registry};
    use engine::units::Bandwidth;
    use measure::promise::ClassPromise;
    use netio::pool::Offload;

    #[test]
    fn offered_and_sent_bytes_are_recorded_in_bins() {
        let origin = Instant::from_nanos(1_000_000);
        let record = Record::new(origin, Duration::from_micros(100));
        record.offered(origin, Bytes::new(1_000), Bytes::new(1_000));
        record.offered(
            origin + Duration::from_micros(50),
            Bytes::new(500),
            Bytes::new(1_500),
        );
        record.sent(
            origin,
            origin + Duration::from_micros(50),
            origin + Duration::from_micros(250),
            Bytes::new(1_000),
        );
        let read = record.read();
        assert_eq!(read.deepest, Bytes::new(1_500));
        assert_eq!(read.waited.longest(), Duration::from_micros(50));
        let mut csv = Vec::new();
        read.write_csv(&mut csv).expect("memory");
        let expected = "time_s,offered_bps,sent_bps\n0.000000,120000000,20000000\n\
                        0.000100,0,40000000\n0.000200,0,20000000\n";
        assert_eq!(String::from_utf8(csv).expect("text"), expected);
    }

    const RATE: Bandwidth = Bandwidth::mbit(20);

    struct Policed(u64);

    impl Sink for Policed {
        fn drop(&mut self, _packet: Packet, why: Reason) {
            assert_eq!(why, Reason::Policed);
            self.0 += 1;
        }
    }

    /// A call of 4 Mbit/s with 2 kB at once, over `ips`.
    fn plan() -> TreePlan {
        let call = Table::default()
            .text("rate", "4 Mbit/s")
            .text("burst", "2 kB")
            .text("delay", "20 ms");
        let class = |name: &str, settings, default| ClassSpec {
            name: name.into(),
            settings,
            default,
            ..ClassSpec::default()
        };
        let spec = DisciplineSpec {
            classes: vec![class("call", call, false), class("rest", Table::default(), true)].into(),
            ..DisciplineSpec::new("ips")
        };
        let link = Link::new(RATE, Bytes::new(1_514));
        spec.check(&Registry::builtin(), link).expect("a good plan")
    }

    /// Of a sender that is held up now and then, and sends at once what it should have sent
    /// meanwhile, `ips` polices what exceeds the curve and nothing else, by a computation that
    /// shares no code with it.
    #[test]
    fn what_is_policed_exceeds_the_curve_and_what_exceeds_it_is_policed() {
        let plan = plan();
        let call = plan.class("call").expect("a class");
        let bound = plan.bounds().into_iter().find(|case| case.class == Some(call));
        let promise = ClassPromise {
            class: call,
            bound: bound.expect("a case").bound.expect("a bound"),
            link: RATE,
        };
        let record = Record::new(Instant::START, Duration::from_millis(100));
        let mut wire = EmulatedLink::new(RATE).wire(
            plan.root.conserves_work(),
            Some(record.clone()),
            CableSwitch::default(),
            TraceBegin::default(),
        );
        let mut queue = ShapedQueue::new(plan.build(Seed(1)), None);
        wire.promised(&plan, &[promise]);
        let (mut policed, mut arrived) = (Policed(0), 0);
        let mut rng = Seed(2).stream();
        let (mut due, mut now) = (Instant::START, Instant::START);
        for number in 0..20_000_u32 {
            // 294 bytes each 588 us are 4 Mbit/s.
            due = due + Duration::from_micros(588);
            let held_up = if rng.below(200) == 0 {
                rng.below(12_000)
            } else {
                rng.below(100)
            };
            now = now.max(due + Duration::from_micros(held_up));
            let mut packet = Packet::new(Bytes::new(294), now, call);
            // The frames of what has left, or was dropped, are those of others later.
            packet.buffer = Buffer(number % 128);
            let _ = wire.enqueue(&mut queue, now, packet, &mut policed);
            while let Next::Ready(_) = wire.next(&mut queue, now, &mut policed) {
                wire.hands_over(now, &mut [0; 294], &mut Offload::default());
                arrived += 1;
            }
        }
        let found = record.read().promised.remove("call").expect("what came");
        assert_eq!((found.packets, found.refused), (20_000, 0));
        assert_eq!((found.policed, found.exceeded), (policed.0, policed.0));
        assert_eq!(found.exceeded_at.len() as u64, policed.0);
        assert!(
            (50..2_000).contains(&policed.0) && arrived > 17_000,
            "{}",
            policed.0
        );
        // 2 kB and what 1 ms brings are 5 ms at 4 Mbit/s.
        let most = Duration::from_millis(12);
        assert!(
            found.earliest > Duration::ZERO && found.earliest < most,
            "{}",
            found.earliest
        );
    }
}
