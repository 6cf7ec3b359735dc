//! How much of a long job one call does: [`Portion`]. A host that must not stop for as long as a
//! whole backlog takes does a portion, goes on with something else, and comes back.

use crate::packet::Packet;
use crate::sink::{Reason, Sink};

/// What one call may do before it returns with the rest undone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Portion {
    packets: u64,
    looks: u64,
}

impl Portion {
    /// So many packets, and looks at so many places where there may be some (classes, mostly): at
    /// least one of each.
    pub fn of(packets: u32, looks: u32) -> Self {
        Self {
            packets: u64::from(packets).max(1),
            looks: u64::from(looks).max(1),
        }
    }

    /// All that there is.
    pub const fn whole() -> Self {
        Self {
            packets: u64::MAX,
            looks: u64::MAX,
        }
    }

    /// Whether nothing may be done any more. A job that returns with this may have been done, or
    /// not: whoever gave the portion comes back with another one. With one that is not spent, it
    /// is done.
    #[inline]
    pub const fn is_spent(&self) -> bool {
        self.packets == 0 || self.looks == 0
    }

    /// A place has been looked at, and nothing is left there.
    #[inline]
    pub fn looked(&mut self) {
        self.looks = self.looks.saturating_sub(1);
    }

    /// A packet has left.
    #[inline]
    pub fn left(&mut self) {
        self.packets = self.packets.saturating_sub(1);
    }

    /// Flushes packets until there are no more, or the portion is spent. Whether there are no
    /// more.
    pub fn flush(&mut self, sink: &mut dyn Sink, mut next: impl FnMut() -> Option<Packet>) -> bool {
        while !self.is_spent() {
            let Some(packet) = next() else { return true };
            self.left();
            sink.drop(packet, Reason::Flushed);
        }
        false
    }
}

/// How far a job has come that looks at one place after the other.
#[derive(Debug, Default)]
pub struct Tour(usize);

impl Tour {
    /// Goes on where the last portion ended, with `one` of `many` places at a time, which may need
    /// several portions itself. Whether all are done; then the next call begins anew.
    pub fn go_on(
        &mut self,
        many: usize,
        portion: &mut Portion,
        mut one: impl FnMut(usize, &mut Portion),
    ) -> bool {
        while self.0 < many && !portion.is_spent() {
            one(self.0, portion);
            if !portion.is_spent() {
                self.0 += 1;
                portion.looked();
            }
        }
        let done = !portion.is_spent();
        if done {
            self.0 = 0;
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::ClassId;
    use crate::sinks::Drops;
    use crate::units::{Bytes, Instant};
    use std::collections::VecDeque;

    #[test]
    fn a_tour_of_tours_ends_with_the_least_of_portions_and_skips_and_repeats_nothing() {
        let packet = |flow: u32| {
            let mut packet = Packet::new(Bytes::new(100), Instant::START, ClassId(0));
            packet.flow.full = flow;
            packet
        };
        for (packets, looks) in [(1, 1), (1, 100), (100, 1), (2, 3), (100, 100)] {
            let mut places: Vec<Vec<VecDeque<Packet>>> = vec![
                vec![],
                vec![[0, 1].map(packet).into(), VecDeque::new()],
                vec![VecDeque::new(), [2].map(packet).into()],
                vec![VecDeque::new()],
            ];
            let mut inner: Vec<Tour> = places.iter().map(|_| Tour::default()).collect();
            let (mut tour, mut drops, mut portions) = (Tour::default(), Drops::default(), 0);
            loop {
                portions += 1;
                assert!(
                    portions < 50,
                    "{packets} packets and {looks} looks: it never ends"
                );
                let before = drops.0.len();
                let mut portion = Portion::of(packets, looks);
                let mut looked = 0;
                let done = tour.go_on(places.len(), &mut portion, |at, portion| {
                    let queues = &mut places[at];
                    let all = queues.len();
                    inner[at].go_on(all, portion, |at, portion| {
                        looked += 1;
                        portion.flush(&mut drops, || queues[at].pop_front());
                    });
                });
                assert!(drops.0.len() - before <= packets as usize && looked <= looks as usize + 1);
                assert_eq!(done, !portion.is_spent());
                if done {
                    break;
                }
            }
            assert_eq!(drops.0, [0, 1, 2].map(|flow| (flow, Reason::Flushed)));
        }
    }

    #[test]
    fn a_portion_of_nothing_is_one_of_a_packet() {
        let mut portion = Portion::of(0, 0);
        assert!(!portion.is_spent());
        portion.left();
        assert!(portion.is_spent());
        let mut whole = Portion::whole();
        (0..1_000).for_each(|_| whole.looked());
        assert!(!whole.is_spent());
    }
}
