//! Which packets that come to a link keep to the arrival curve of what is promised to their class.
//!
//! A link tells it from the times at which packets reach its queue, by a
//! [meter](engine::conformance) that shares nothing with the disciplines that police. It writes it
//! into our datagrams ([`Stamp`](crate::traffic::datagram::Stamp)), and counts what came, and what
//! the queue refused, in its [record](crate::record::Record): so what was policed can be held
//! against what did not conform, and a receiver knows which packets were promised anything.

use engine::conformance::ConformanceMeter;
use engine::packet::{ClassId, Packet};
use engine::tree::TreePlan;
use engine::units::{Duration, Instant};
use netio::promise::ClassPromise;
use std::collections::HashMap;

/// The classes of a link that something is promised to.
#[derive(Debug, Default)]
pub(crate) struct PromisedCurves {
    classes: Vec<PromisedClass>,
    /// What was found of packets in the queue, by their frames.
    found: HashMap<u32, bool>,
}

#[derive(Debug)]
struct PromisedClass {
    name: String,
    /// Its number in the present plan.
    number: Option<ClassId>,
    /// None if it is promised whatever is sent.
    meter: Option<ConformanceMeter>,
}

/// What was found of a packet that comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FoundArrival<'a> {
    /// Its class.
    pub(crate) class: &'a str,
    /// By how much it is too early, if it is.
    pub(crate) early: Option<Duration>,
}

impl PromisedCurves {
    /// These are promised to classes of this plan.
    pub(crate) fn promised(&mut self, plan: &TreePlan, promises: &[ClassPromise]) {
        for promise in promises {
            let Some(info) = plan.info(promise.class) else {
                continue;
            };
            let curve = promise.bound.arrivals;
            match self.classes.iter_mut().find(|class| class.name == info.name) {
                Some(class) => ConformanceMeter::renew(&mut class.meter, curve),
                None => self.classes.push(PromisedClass {
                    name: info.name.to_string(),
                    number: None,
                    meter: curve.map(ConformanceMeter::new),
                }),
            }
        }
        self.renumbered(plan);
    }

    /// Classes have these numbers now.
    pub(crate) fn renumbered(&mut self, plan: &TreePlan) {
        for class in &mut self.classes {
            class.number = plan.class(&class.name);
        }
    }

    /// A packet comes to the queue; nothing is found if its class is promised nothing.
    pub(crate) fn comes(&mut self, now: Instant, packet: &Packet) -> Option<FoundArrival<'_>> {
        if self.classes.is_empty() {
            return None;
        }
        // Its frame may have been that of a packet that was dropped in the queue.
        self.found.remove(&packet.buffer.0);
        let own = |class: &&mut PromisedClass| class.number == Some(packet.class);
        let class = self.classes.iter_mut().find(own)?;
        let early = class
            .meter
            .as_mut()
            .and_then(|meter| meter.arrives(now, packet.len));
        self.found.insert(packet.buffer.0, early.is_none());
        Some(FoundArrival {
            class: &class.name,
            early,
        })
    }

    /// What was found of a packet that leaves the queue.
    pub(crate) fn leaves(&mut self, packet: &Packet) -> Option<bool> {
        match self.found.is_empty() {
            true => None,
            false => self.found.remove(&packet.buffer.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{CableSwitch, EmulatedLink, TraceBegin};
    use crate::record::Record;
    use engine::discipline::{Next, Reason, Sink};
    use engine::link::Link;
    use engine::packet::Buffer;
    use engine::random::Seed;
    use engine::settings::Table;
    use engine::shaped_queue::ShapedQueue;
    use engine::tree::{ClassSpec, DisciplineSpec, Registry};
    use engine::units::{Bandwidth, Bytes};
    use netio::pool::Offload;

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
