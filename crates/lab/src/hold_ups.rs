//! What this machine held a datagram up for, apart from what the links of a lab did with it.
//!
//! Nothing guarantees when a thread runs: those of links may be late to take a packet or to hand it
//! over, and its receiver to read it. Datagrams of a [`Stream`](crate::traffic::udp::Stream) carry
//! a [`Stamp`], which every link brings up to date: by how much sooner the datagram would have
//! come, at least, if no thread had been late, and everything else had been as it was. The
//! difference from its delay is an upper bound of what the network that is emulated did with it.
//!
//! What counts, and what does not:
//!
//! - Between a handing over and the next taking there is nothing in the emulated network, so more
//!   than [`LATENESS`] there is the machine's. Less is usual, and never counts.
//! - What is handed over later than its link says has been held up for the difference.
//! - A packet that comes late to a queue need not leave it later: it might have waited there. Had
//!   it come sooner, it would have left as soon as what was before it. So of the time for which it
//!   was held up before, that counts on for which the link was idle: at a busy link, nothing.
//! - Where a queue may hold packets back with an idle link (a shaper), or a wire has jitter or
//!   reorders, nothing counts on.

use crate::traffic::datagram::Stamp;
use engine::header::Headers;
use engine::link::LATENESS;
use engine::units::{Duration, Instant};
use netio::checksum;
use netio::pool::Offload;
use std::collections::VecDeque;

/// The number of UDP, and the length of its header.
const UDP: u8 = 17;
const UDP_HEADER: usize = 8;

/// Stamps a datagram that is sent now.
pub(crate) fn begin(payload: &mut [u8]) {
    let stamp = Stamp {
        handed: netio::clock::now(),
        held: Duration::ZERO,
        conforms: None,
    };
    stamp.write(payload);
}

/// The way of a packet over a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Passage {
    /// When its queue took it.
    pub(crate) taken: Instant,
    /// When it was due at the far end.
    pub(crate) due: Instant,
    /// Whether it keeps to the curve of what the link promises it; none if it promises nothing.
    pub(crate) conforms: Option<bool>,
}

/// When a link was idle: as many of the latest times as it remembers.
#[derive(Debug, Default)]
pub(crate) struct IdleTimes(VecDeque<Idle>);

#[derive(Clone, Copy, Debug)]
struct Idle {
    from: Instant,
    until: Instant,
    /// How long it was idle before.
    before: Duration,
}

/// At 10,000 packets a second that do not queue, the times of 0.4 s.
const REMEMBERED: usize = 4_096;

impl IdleTimes {
    /// It was idle once more.
    pub(crate) fn add(&mut self, from: Instant, until: Instant) {
        let before = self.0.back().map_or(Duration::ZERO, |last| last.all());
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(Idle { from, until, before });
    }

    /// For how long it was idle between these times; less if it does not remember.
    fn between(&self, from: Instant, to: Instant) -> Duration {
        self.up_to(to) - self.up_to(from)
    }

    fn up_to(&self, time: Instant) -> Duration {
        let begun = self.0.partition_point(|idle| idle.from < time);
        match begun.checked_sub(1).map(|last| self.0[last]) {
            Some(last) => last.before + time.min(last.until).since(last.from),
            None => self.0.front().map_or(Duration::ZERO, |first| first.before),
        }
    }
}

impl Idle {
    fn all(self) -> Duration {
        self.before + self.until.since(self.from)
    }
}

impl Stamp {
    /// What it was held up for, taken now.
    pub fn held_by(&self, now: Instant) -> Duration {
        self.held + if_late(now.since(self.handed))
    }

    /// This stamp behind a link that hands over now; without idle times nothing counts on.
    pub(crate) fn over(&self, passage: &Passage, idle: Option<&IdleTimes>, now: Instant) -> Self {
        let sooner = passage.taken - self.held_by(passage.taken);
        let counts_on = idle.map_or(Duration::ZERO, |idle| idle.between(sooner, passage.taken));
        Self {
            handed: now,
            held: counts_on + if_late(now.since(passage.due)),
            conforms: self.conforms.or(passage.conforms),
        }
    }
}

fn if_late(by: Duration) -> Duration {
    if by > LATENESS { by } else { Duration::ZERO }
}

/// Brings the stamp of a frame up to date that leaves a link now, if it has one.
pub(crate) fn hands_over(
    frame: &mut [u8],
    offload: &Offload,
    passage: &Passage,
    idle: Option<&IdleTimes>,
    now: Instant,
) {
    let headers = Headers::parse(frame, 0);
    let single_udp = headers.key.protocol == UDP && offload.gso.is_none();
    let Some(at) = headers.l4.filter(|_| single_udp) else {
        return;
    };
    let datagram = frame.get_mut(usize::from(at)..);
    let Some((udp, payload)) = datagram.and_then(|udp| udp.split_at_mut_checked(UDP_HEADER)) else {
        return;
    };
    let Some(stamp) = Stamp::read(payload) else {
        return;
    };
    let before = checksum::add(0, Stamp::bytes(payload));
    stamp.over(passage, idle, now).write(payload);
    let after = checksum::add(0, Stamp::bytes(payload));
    // One that is yet to be finished covers what will be there then. Zero is none.
    let field = u16::from_be_bytes([udp[6], udp[7]]);
    if offload.checksum.is_none() && field != 0 {
        let [before, after] = [before, after].map(checksum::fold);
        let field = checksum::update(field, before, after);
        udp[6..8].copy_from_slice(&(if field == 0 { 0xffff } else { field }).to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{CableSwitch, EmulatedLink, TraceBegin};
    use crate::traffic::datagram::Head;
    use engine::discipline::{Next, Reason, Sink};
    use engine::packet::{Buffer, ClassId, Packet};
    use engine::random::{Rng, Seed};
    use engine::settings::{Raw, Table};
    use engine::shaped_queue::{CATCH_UP, ShapedQueue};
    use engine::tree::{ClassSpec, DisciplineSpec, Registry, TreePlan};
    use engine::units::{Bandwidth, Bytes};

    const ZERO: Duration = Duration::ZERO;

    fn at(us: u64) -> Instant {
        Instant::from_nanos(us * 1_000)
    }

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    /// Handed over at 100 ms and held up for 10 ms before: what counts behind a link that was idle
    /// at these times, took it then, and hands it over now.
    fn held(taken: u64, idle: Option<&[(u64, u64)]>, due: u64, now: u64) -> u64 {
        let stamp = Stamp {
            handed: at(100_000),
            held: us(10_000),
            conforms: None,
        };
        let passage = Passage {
            taken: at(taken),
            due: at(due),
            conforms: None,
        };
        let times = idle.map(|spans| {
            let mut times = IdleTimes::default();
            spans
                .iter()
                .for_each(|&(from, until)| times.add(at(from), at(until)));
            times
        });
        let over = stamp.over(&passage, times.as_ref(), at(now));
        assert_eq!(over.handed, at(now));
        over.held.nanos() / 1_000
    }

    #[test]
    fn a_hold_up_counts_on_as_far_as_the_next_link_was_idle_meanwhile() {
        let taken = 100_500;
        let counted = |idle: &[_]| held(taken, Some(idle), 105_000, 105_900);
        assert_eq!(counted(&[(0, taken)]), 10_000, "idle all the while");
        assert_eq!(
            counted(&[(0, 99_000), (99_500, 120_000)]),
            9_500,
            "but for a packet"
        );
        assert_eq!(counted(&[(97_000, taken)]), 3_500, "it sent until then");
        assert_eq!(counted(&[(0, 94_500)]), 4_000, "it has sent since then");
        assert_eq!(
            counted(&[(0, 90_500), (101_000, 105_000)]),
            0,
            "it sent all the while"
        );
        assert_eq!(counted(&[]), 0, "it never was idle");
        assert_eq!(held(taken, None, 105_000, 105_900), 0, "it may hold packets back");
        assert_eq!(
            held(103_000, Some(&[(0, 103_000)]), 105_000, 105_000),
            13_000,
            "taken late"
        );
        assert_eq!(
            held(taken, Some(&[(0, taken)]), 105_000, 106_001),
            11_001,
            "handed over late"
        );
        assert_eq!(held(taken, None, 105_000, 106_001), 1_001);
        assert_eq!(held(taken, None, 105_000, 106_000), 0, "that is usual");
    }

    #[test]
    fn a_link_remembers_the_latest_times_and_counts_no_others() {
        let mut idle = IdleTimes::default();
        for n in 0..10_000 {
            idle.add(at(10 * n), at(10 * n + 4));
        }
        assert_eq!(idle.between(at(99_000), at(99_500)), us(200));
        assert_eq!(idle.between(at(99_002), at(99_012)), us(4));
        assert_eq!(idle.between(at(0), at(200_000)), us(4 * REMEMBERED as u64));
        assert_eq!(idle.between(at(0), at(1_000)), ZERO, "forgotten");
    }

    struct NoDrops;

    impl Sink for NoDrops {
        fn drop(&mut self, _packet: Packet, why: Reason) {
            panic!("dropped: {why:?}");
        }
    }

    /// A packet that comes to a queue.
    #[derive(Clone, Copy)]
    struct Coming {
        at: Instant,
        len: u64,
        class: u32,
    }

    /// When the packet with this number is due at the far end, and by how much sooner it would have
    /// been by its stamp.
    fn passes(
        plan: &TreePlan,
        bandwidth: Option<Bandwidth>,
        packets: &[Coming],
        number: usize,
        before: Duration,
    ) -> (Instant, Duration) {
        let clock = |rate| engine::link_clock::LinkClock::new(rate, CATCH_UP);
        let mut queue = ShapedQueue::new(plan.build(Seed(1)), bandwidth.map(clock));
        let link = EmulatedLink::new(Bandwidth::mbit(8)).delay(us(3_000));
        let mut wire = link.wire(
            plan.root.conserves_work(),
            None,
            CableSwitch::default(),
            TraceBegin::default(),
        );
        let mut order: Vec<usize> = (0..packets.len()).collect();
        order.sort_by_key(|&index| (packets[index].at, index));
        for index in order {
            let Coming { at, len, class } = packets[index];
            let mut packet = Packet::new(Bytes::new(len), at, ClassId(class));
            packet.buffer = Buffer(index as u32);
            let _ = wire.enqueue(&mut queue, at, packet, &mut NoDrops);
        }
        let mut now = Instant::START;
        loop {
            match wire.next(&mut queue, now, &mut NoDrops) {
                Next::Ready(one) => {
                    let mut frame = frame();
                    let stamp = Stamp {
                        handed: one.packet.arrived,
                        held: before,
                        conforms: None,
                    };
                    stamp.write(&mut frame[42..]);
                    wire.hands_over(now, &mut frame, &mut Offload::default());
                    if one.packet.buffer == Buffer(number as u32) {
                        let stamp = Stamp::read(&frame[42..]).expect("a stamp");
                        return (now, stamp.held);
                    }
                }
                Next::Wait(until) => now = until,
                Next::Empty => panic!("it never left"),
            }
        }
    }

    /// A datagram of ours over IPv4, without a checksum.
    fn frame() -> Vec<u8> {
        let mut frame = vec![0; 42 + 64];
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        frame[14] = 0x45;
        frame[16..18].copy_from_slice(&92_u16.to_be_bytes());
        frame[22..24].copy_from_slice(&[64, UDP]);
        frame[38..40].copy_from_slice(&72_u16.to_be_bytes());
        let head = Head {
            stream: 1,
            number: 2,
            sent: 3,
            end: false,
        };
        head.write(&mut frame[42..]);
        frame
    }

    fn tree(kind: &str) -> TreePlan {
        let class = |name: &str, key: &str, value: Raw, default| ClassSpec {
            name: name.into(),
            default,
            settings: Table::default().with(key, value),
            discipline: Some(DisciplineSpec::new("fifo")),
            ..ClassSpec::default()
        };
        let classes = match kind {
            "fifo" => Vec::new(),
            "priq" => vec![
                class("low", "priority", Raw::Integer(0), true),
                class("high", "priority", Raw::Integer(1), false),
            ],
            _ => vec![
                class("low", "weight", Raw::Integer(1), true),
                class("high", "weight", Raw::Integer(3), false),
            ],
        };
        let spec = DisciplineSpec {
            classes: classes.into(),
            ..DisciplineSpec::new(kind)
        };
        let link = engine::link::Link::new(Bandwidth::mbit(8), Bytes::new(1_514));
        spec.check(&Registry::builtin(), link)
            .unwrap_or_else(|problems| panic!("{kind}: {problems:?}"))
    }

    fn coming(rng: &mut Rng, busy: u64, classes: u64) -> Coming {
        Coming {
            at: at(50_000 + rng.below(busy)),
            len: 64 + rng.below(1_450),
            class: rng.below(classes) as u32,
        }
    }

    /// The rule, held against what would have been: the same packets, of which one comes sooner. It
    /// would never have been later than its delay without what counts; and much counts.
    #[test]
    fn what_counts_is_never_more_than_a_packet_would_have_been_sooner() {
        let mut rng = Seed(17).stream();
        let (mut counted, mut exact, mut nothing) = (0, 0, 0);
        for case in 0..6_000 {
            let kind = ["fifo", "drr", "priq"][case % 3];
            let plan = tree(kind);
            let classes = plan.classes.len().max(1) as u64;
            let bandwidth = (case % 2 == 0).then(|| Bandwidth::mbit(6));
            let busy = 5_000 + rng.below(60_000);
            let others: Vec<Coming> = (0..rng.below(40))
                .map(|_| coming(&mut rng, busy, classes))
                .collect();
            let own = coming(&mut rng, busy, classes);
            let before = us(1_001 + rng.below(20_000));
            let late = [&others[..], &[own]].concat();
            let punctual = Coming {
                at: own.at - before,
                ..own
            };
            let sooner = [&others[..], &[punctual]].concat();
            let (due, held) = passes(&plan, bandwidth, &late, others.len(), before);
            let (would_be, _) = passes(&plan, bandwidth, &sooner, others.len(), ZERO);
            assert!(
                due - held >= would_be,
                "{kind}, case {case}: due at {due}, held up for {held} of {before}, it would have been due at {would_be}"
            );
            counted += u64::from(held > ZERO);
            exact += u64::from(held == before);
            nothing += u64::from(held == ZERO);
        }
        assert!(
            counted > 4_000 && exact > 500 && nothing > 300,
            "{counted}, {exact}, {nothing} of 6000"
        );
    }
}
