//! A link that varies and is impaired, in two places: the simulator's and the lab's, given the same
//! arrivals, let the same packets arrive at the same times, to the nanosecond, and lose, damage,
//! double and reorder the same ones.
//!
//! Traces of both formats are drawn at random, with outages, delays and losses that change,
//! impairments that change, and bursts that overflow the buffer. The lab's wire runs without its
//! thread, on a clock of the test's own, and is called late at random, which must not matter.

use engine::discipline::{Next, Reason, Sink};
use engine::header::FlowKey;
use engine::packet::{Buffer, ClassId, Packet};
use engine::random::{Rng, Seed};
use engine::settings::{Raw, SettingValue};
use engine::shaped_queue::ShapedQueue;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use lab::{CableSwitch, EmulatedLink, TraceBegin};
use measure::impairments::{ImpairmentSchedule, Impairments};
use measure::link_trace::LinkTrace;
use netio::pool::Offload;
use sim::agent::{Agent, Context};
use sim::link::{LinkQueue, LinkSpec};
use sim::packet::{Payload, SimPacket};
use sim::simulation::{End, Simulation, link_seed};
use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write;

/// Traces in the debug build of CI; `VARYING_TRACES` says otherwise.
const TRACES: u64 = 300;
const ARRIVALS: u64 = 400;

/// Sends its packets at their times, or notes what arrives.
#[derive(Debug, Default)]
struct Noted {
    to_send: VecDeque<(Instant, SimPacket)>,
    arrived: Vec<(Instant, u64)>,
}

impl Agent for Noted {
    fn wake(&mut self, cx: &mut Context<'_>) {
        while let Some((_, packet)) = self.to_send.pop_front_if(|(at, _)| *at <= cx.now()) {
            cx.send(packet);
        }
        if let Some((at, _)) = self.to_send.front() {
            cx.wake_at(*at);
        }
    }

    fn receive(&mut self, cx: &mut Context<'_>, packet: &SimPacket) {
        if let Payload::Datagram(number) = packet.payload {
            self.arrived.push((cx.now(), number));
        }
    }
}

struct Dropped(u64);

impl Sink for Dropped {
    fn drop(&mut self, _packet: Packet, _why: Reason) {
        self.0 += 1;
    }
}

fn simulated(link: &EmulatedLink, arrivals: &[(Instant, Bytes)]) -> Vec<(Instant, u64)> {
    let mut sim = Simulation::new(Seed(7));
    let (a, b) = (sim.node("a"), sim.node("b"));
    let spec = LinkSpec::new(link.rate, link.delay)
        .queue(LinkQueue::TailDrop(link.buffer))
        .impaired(link.impairments.clone(), link.later.clone())
        .trace(link.trace.clone());
    sim.link(a, b, spec);
    sim.link(b, a, LinkSpec::new(link.rate, Duration::ZERO));
    let numbered = arrivals.iter().zip(0..);
    let packets = numbered.map(|((at, len), number)| (*at, SimPacket::new(*len, Payload::Datagram(number))));
    let source = Noted {
        to_send: packets.collect(),
        ..Noted::default()
    };
    let ends: [Box<dyn Agent>; 2] = [Box::new(source), Box::new(Noted::default())];
    let flow = sim
        .flow([a, b], FlowKey::default(), arrivals[0].0, ends)
        .expect("a route");
    sim.run_until(Instant::START + Duration::from_secs(3600));
    let receiver: &Noted = sim.agent(flow, End::Responder).expect("a receiver");
    receiver.arrived.clone()
}

/// What the lab's wire lets arrive; its thread calls up to `late` nanoseconds late.
fn emulated(
    link: &EmulatedLink,
    arrivals: &[(Instant, Bytes)],
    late: u64,
    rng: &mut Rng,
) -> Vec<(Instant, u64)> {
    let begin = TraceBegin::default();
    begin.set(Instant::START);
    let mut queue = ShapedQueue::new(link.tail_drop(), None);
    let mut wire = link.wire(true, None, CableSwitch::default(), begin);
    let (mut sink, mut seen) = (Dropped(0), Vec::new());
    let mut numbered = arrivals.iter().zip(0..).peekable();
    let mut now = Instant::START;
    loop {
        let next = wire.next(&mut queue, now, &mut sink);
        let due = match next {
            Next::Ready(arrival) => {
                let mut frame = [0; 60];
                wire.hands_over(now, &mut frame, &mut Offload::default());
                // Its receiver drops what has a flipped bit.
                if frame == [0; 60] {
                    seen.push((now, u64::from(arrival.packet.buffer.0)));
                }
                continue;
            }
            Next::Wait(until) => until,
            Next::Empty => Instant::NEVER,
        };
        let arrives = numbered.peek().map(|((at, _), _)| *at).unwrap_or(Instant::NEVER);
        if due.min(arrives) == Instant::NEVER {
            return seen;
        }
        if arrives < due {
            now = arrives;
            let ((_, len), number) = numbered.next().expect("it was there");
            let mut packet = Packet::new(*len, now, ClassId(0));
            packet.buffer = Buffer(number);
            let _ = wire.enqueue(&mut queue, now, packet, &mut sink);
        } else {
            // A thread that comes late finds what was due in the meantime.
            now = (due + Duration::from_nanos(rng.below(late + 1))).min(arrives.max(due));
        }
    }
}

/// One of these texts, as a setting.
fn one_of<T: SettingValue>(rng: &mut Rng, texts: &[&str]) -> T {
    let text = texts[rng.below(texts.len() as u64) as usize];
    T::from_raw(&Raw::Text(text.into())).expect(text)
}

fn impairments(rng: &mut Rng) -> Impairments {
    Impairments {
        loss: one_of(
            rng,
            &[
                "nothing",
                "every 7",
                "3 %",
                "5 % in bursts of 4",
                "gilbert-elliott 5 %, 30 %, 90 %, 1 %",
            ],
        ),
        corruption: one_of(rng, &["nothing", "nothing", "4 %", "packets 3, 90-99"]),
        duplication: one_of(rng, &["nothing", "nothing", "5 %", "every 11"]),
        reordering: one_of(rng, &["nothing", "6 % by 7 ms", "every 13 by 40 ms"]),
        jitter: one_of(
            rng,
            &[
                "0 s",
                "5 ms",
                "normal 3 ms, deviation 1 ms",
                "exponential 2 ms",
                "pareto 1 ms, unordered",
            ],
        ),
        script: one_of(
            rng,
            &[
                "nothing",
                "drop 7, 12-15; swap 20, 21; duplicate 30; corrupt 40; delay 50 by 20 ms",
                "swap 1, 2; swap 3, 4; swap 200, 201",
            ],
        ),
    }
}

/// Changes of them; each other run has none.
fn changes(rng: &mut Rng) -> ImpairmentSchedule {
    let (mut at, mut all) = (0, Vec::new());
    for _ in 0..rng.below(2) * rng.below(6) {
        at += rng.below(600_000_000);
        all.push((Duration::from_nanos(at), impairments(rng)));
    }
    ImpairmentSchedule::new(all)
}

fn csv(rng: &mut Rng) -> String {
    let mut text = String::from("time (us),rate (kbit/s),delay (us),loss (%)\n");
    let mut at = 0;
    for line in 0..2 + rng.below(40) {
        let rate = [0, 100 + rng.below(9_000), 1 + rng.below(900_000)][rng.below(3) as usize];
        let rate = if line == 0 { 500 + rng.below(5_000) } else { rate };
        let loss = [0, 0, rng.below(60)][rng.below(3) as usize];
        writeln!(text, "{at},{rate},{},{loss}", rng.below(30_000)).expect("memory");
        at += 1 + rng.below(90_000);
    }
    text
}

fn opportunities(rng: &mut Rng) -> String {
    let (mut text, mut at) = (String::new(), 0);
    for _ in 0..2 + rng.below(200) {
        at += [0, 0, 1, rng.below(20), rng.below(200)][rng.below(5) as usize];
        writeln!(text, "{at}").expect("memory");
    }
    writeln!(text, "{}", at + 1).expect("memory");
    text
}

/// Bursts, trickles and silence; some at whole milliseconds, when opportunities are.
fn arrivals(rng: &mut Rng) -> Vec<(Instant, Bytes)> {
    let mut at = 0;
    let one = |_| {
        at += [0, 1, rng.below(2_000_000), rng.below(20_000_000)][rng.below(4) as usize];
        if rng.below(8) == 0 {
            at = at.next_multiple_of(1_000_000);
        }
        let len = [60, 1_514, 60 + rng.below(1_455)][rng.below(3) as usize];
        (Instant::from_nanos(at), Bytes::new(len))
    };
    (0..ARRIVALS).map(one).collect()
}

#[test]
fn the_same_packets_arrive_in_the_simulator_and_in_the_lab_over_any_trace() {
    let traces = std::env::var("VARYING_TRACES").map_or(TRACES, |n| n.parse().expect("a number"));
    let (mut arrived, mut missing, mut again, mut overtaken) = (0, 0, 0, 0);
    for seed in 0..traces {
        let mut rng = Seed(seed).fork("varying").stream();
        let text = if rng.below(2) == 0 {
            csv(&mut rng)
        } else {
            opportunities(&mut rng)
        };
        let trace = LinkTrace::read(&text).expect("a trace");
        let link = EmulatedLink::new(Bandwidth::mbit(1))
            .delay(Duration::from_micros(rng.below(10_000)))
            .buffer(Bytes::new(3_000 + rng.below(60_000)))
            .impaired(impairments(&mut rng), link_seed(Seed(7), ["a", "b"]))
            .impaired_later(changes(&mut rng))
            .trace((rng.below(4) > 0).then_some(trace));
        let arrivals = arrivals(&mut rng);
        let expected = simulated(&link, &arrivals);
        assert_eq!(
            emulated(&link, &arrivals, 0, &mut rng),
            expected,
            "seed {seed}:\n{text}"
        );
        // Late calls change when the thread sees a packet, not which packets there are.
        let late = emulated(&link, &arrivals, 3_000_000, &mut rng);
        let numbers = |all: &[(Instant, u64)]| all.iter().map(|(_, number)| *number).collect::<Vec<_>>();
        let different = numbers(&expected).iter().collect::<BTreeSet<_>>().len();
        again += expected.len() as u64 - different as u64;
        overtaken += expected.windows(2).filter(|pair| pair[1].1 < pair[0].1).count() as u64;
        assert_eq!(numbers(&late), numbers(&expected), "seed {seed}, late:\n{text}");
        arrived += expected.len() as u64;
        missing += ARRIVALS.saturating_sub(expected.len() as u64);
    }
    // Both happen: packets pass, and packets are lost or find the buffer full.
    assert!(arrived > ARRIVALS * traces / 10, "only {arrived} arrive");
    assert!(missing > ARRIVALS * traces / 10, "only {missing} do not");
    assert!(
        again > traces && overtaken > traces,
        "{again} arrive twice, {overtaken} late"
    );
}
