//! A link that varies, in two places: the simulator's and the lab's, given the same arrivals, let
//! the same packets arrive at the same times, to the nanosecond, and lose the same ones.
//!
//! Traces of both formats are drawn at random, with outages, delays and losses that change, and
//! bursts that overflow the buffer. The lab's wire runs without its thread, on a clock of the
//! test's own, and is called late at random, which must not matter.

use engine::discipline::{Next, Reason, Sink};
use engine::header::FlowKey;
use engine::packet::{Buffer, ClassId, Packet};
use engine::random::{Rng, Seed};
use engine::shaped_queue::ShapedQueue;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use lab::{CableSwitch, EmulatedLink, TraceBegin};
use measure::impairments::Loss;
use measure::link_trace::LinkTrace;
use sim::agent::{Agent, Context};
use sim::link::{LinkQueue, LinkSpec};
use sim::packet::{Payload, SimPacket};
use sim::simulation::{End, Simulation};
use std::collections::VecDeque;
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
        .loss(link.loss)
        .jitter(link.jitter)
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
                seen.push((now, u64::from(arrival.packet.buffer.0)));
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
    let (mut arrived, mut missing) = (0, 0);
    for seed in 0..traces {
        let mut rng = Seed(seed).fork("varying").stream();
        let text = if rng.below(2) == 0 {
            csv(&mut rng)
        } else {
            opportunities(&mut rng)
        };
        let trace = LinkTrace::read(&text).expect("a trace");
        let loss = [Loss::None, Loss::Every(7)][rng.below(2) as usize];
        let jitter = Duration::from_micros([0, rng.below(5_000)][rng.below(2) as usize]);
        let link = EmulatedLink::new(Bandwidth::mbit(1))
            .delay(Duration::from_micros(rng.below(10_000)))
            .buffer(Bytes::new(3_000 + rng.below(60_000)))
            // The seed that the simulation gives to its link from a to b.
            .impaired(loss, jitter, Seed(7).fork("link").fork("a").fork("b"))
            .trace(Some(trace));
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
        assert_eq!(numbers(&late), numbers(&expected), "seed {seed}, late:\n{text}");
        arrived += expected.len() as u64;
        missing += ARRIVALS - expected.len() as u64;
    }
    // Both happen: packets pass, and packets are lost or find the buffer full.
    assert!(arrived > ARRIVALS * traces / 10, "only {arrived} arrive");
    assert!(missing > ARRIVALS * traces / 10, "only {missing} do not");
}
