//! The engine's cost per packet, measured in this process: one packet in, one packet out, as with a
//! nearly empty queue.
//!
//! A step is the worker's work for a packet whose bytes it has: parse the headers, classify,
//! enqueue, dequeue. Simulated time advances by [`APART`] per packet, so CBQ's classes stay within
//! their rates, as in the paper.

use super::cost_treatments::{SEED, Treatment};
use super::rounds::Rounds;
use engine::discipline::{Next, Reason, Sink};
use engine::header::Headers;
use engine::packet::{ClassId, Packet};
use engine::queue::Queue;
use engine::units::{Bytes, Duration, Instant};
use netio::classify::Classify;
use std::collections::VecDeque;
use std::hint::black_box;

/// The interval between packets.
const APART: Duration = Duration::from_millis(1);

/// The size of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// Rounds; in each, every contender has its turn.
    pub rounds: usize,
    /// Packets in a turn: fewer than fit into a time slice.
    pub steps: u32,
}

impl Effort {
    /// The size for a quick or a full run.
    pub fn of(quick: bool) -> Self {
        Self {
            rounds: if quick { 101 } else { 401 },
            steps: 4_000,
        }
    }
}

/// The path of the packets.
enum Through {
    /// Two moves without a call, as ALTQ's macros.
    Plain(VecDeque<Packet>),
    Engine {
        /// None: packets are not classified.
        classify: Option<Box<dyn Classify>>,
        queue: Queue,
    },
}

/// One of the compared packet paths.
pub struct Contender {
    through: Through,
    now: Instant,
}

/// A sink that expects no drops.
struct PanicSink;

impl Sink for PanicSink {
    fn drop(&mut self, _packet: Packet, why: Reason) {
        panic!("a nearly empty queue dropped a packet: {why:?}");
    }
}

impl Contender {
    /// A plain ring.
    pub fn plain() -> Self {
        Self::through(Through::Plain(VecDeque::with_capacity(64)))
    }

    /// This discipline and its filters.
    pub fn by(treatment: &Treatment) -> Self {
        Self::classified(
            treatment,
            treatment.filters.is_some().then(|| treatment.classify()),
        )
    }

    /// The same with another classifier.
    pub fn classified(treatment: &Treatment, classify: Option<Box<dyn Classify>>) -> Self {
        Self::through(Through::Engine {
            classify,
            queue: treatment.plan.build(SEED),
        })
    }

    fn through(through: Through) -> Self {
        Self {
            through,
            now: Instant::START,
        }
    }

    #[inline]
    fn step(&mut self, frame: &[u8]) -> Packet {
        self.now = self.now + APART;
        let mut packet = Packet::new(Bytes::new(frame.len() as u64), self.now, ClassId(0));
        match &mut self.through {
            Through::Plain(ring) => {
                ring.push_back(packet);
                match black_box(ring).pop_front() {
                    Some(packet) => packet,
                    None => panic!("a packet is gone"),
                }
            }
            Through::Engine { classify, queue } => {
                if let Some(classify) = classify {
                    classify.classify(&Headers::parse(black_box(frame), 0), &mut packet);
                }
                let _ = queue.enqueue(self.now, packet, &mut PanicSink);
                loop {
                    match queue.dequeue(self.now, &mut PanicSink) {
                        Next::Ready(packet) => break packet,
                        Next::Wait(at) => self.now = at,
                        Next::Empty => panic!("a packet is gone"),
                    }
                }
            }
        }
    }

    /// The mean time of a step, in ns.
    fn turn(&mut self, frame: &[u8], steps: u32) -> f64 {
        // Warm-up: reloads what the previous contender has evicted from the caches.
        (0..steps / 8).for_each(|_| drop(black_box(self.step(frame))));
        let begin = std::time::Instant::now();
        (0..steps).for_each(|_| drop(black_box(self.step(frame))));
        begin.elapsed().as_nanos() as f64 / f64::from(steps)
    }
}

/// Measures the contenders in turns.
pub fn measure(contenders: &mut [Contender], frame: &[u8], effort: Effort) -> Rounds {
    let mut rounds = Rounds::default();
    for _ in 0..effort.rounds {
        rounds.push(
            contenders
                .iter_mut()
                .map(|contender| contender.turn(frame, effort.steps))
                .collect(),
        );
    }
    rounds
}

/// An Ethernet frame with a UDP packet of this much payload from 10.8.0.1 to 10.8.0.2.
pub fn frame(payload: usize) -> Vec<u8> {
    let ip = u16::try_from(20 + 8 + payload).unwrap_or(u16::MAX).to_be_bytes();
    let udp = u16::try_from(8 + payload).unwrap_or(u16::MAX).to_be_bytes();
    let mut frame = vec![0x02; 12];
    frame.extend([0x08, 0x00]);
    frame.extend([0x45, 0, ip[0], ip[1], 0, 0, 0x40, 0, 64, 17, 0, 0]);
    frame.extend([10, 8, 0, 1, 10, 8, 0, 2]);
    frame.extend([0x9c, 0x40, 0x13, 0x88, udp[0], udp[1], 0, 0]);
    frame.resize(frame.len() + payload, 0);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::link::Link;
    use engine::units::Bandwidth;

    const LINK: Link = Link::new(Bandwidth::mbit(135), Bytes::new(9_194));

    #[test]
    fn every_path_passes_every_packet_and_cbq_finds_its_class_and_flow() {
        let treatments = [
            Treatment::fifo,
            Treatment::red,
            Treatment::wfq,
            Treatment::cbq,
            Treatment::cbq_red,
        ]
        .map(|treatment| treatment(LINK));
        let frame = frame(64);
        for treatment in &treatments {
            let mut contender = Contender::by(treatment);
            for _ in 0..1_000 {
                let packet = contender.step(&frame);
                assert_eq!(
                    (packet.len.get(), packet.class),
                    (106, ClassId(0)),
                    "{}",
                    treatment.plan.root.kind.name
                );
                assert_eq!(
                    packet.flow.full == 0,
                    treatment.filters.is_none(),
                    "{}",
                    treatment.plan.root.kind.name
                );
            }
            assert_eq!(
                contender.now,
                Instant::START + APART.times(1_000),
                "{}: it waited",
                treatment.plan.root.kind.name
            );
        }
    }

    #[test]
    fn each_round_has_a_value_of_each_contender() {
        let mut contenders = [Contender::plain(), Contender::by(&Treatment::cbq(LINK))];
        let effort = Effort { rounds: 3, steps: 50 };
        let rounds = measure(&mut contenders, &frame(1), effort);
        assert!(rounds.of(0) > 0.0 && rounds.of(1) > 0.0 && rounds.of(2).is_nan());
    }
}
