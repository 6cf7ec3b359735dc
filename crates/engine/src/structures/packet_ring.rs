//! A ring of packets that grows as needed: first in, first out.
//!
//! As a `VecDeque`, with two differences for the sake of many short queues: a ring that becomes
//! empty starts over at its beginning, so that a short queue reuses the same memory, and a slot is
//! occupied or free by the ring's two indices alone.

use crate::packet::Packet;

/// The packets from `first` to before `next`; both wrap, and their low bits are a slot.
#[derive(Debug, Default)]
pub(crate) struct PacketRing {
    /// None, or a power of two.
    slots: Box<[Packet]>,
    first: u32,
    next: u32,
}

const SMALLEST: usize = 4;

impl PacketRing {
    /// Appends a packet.
    #[inline]
    pub(crate) fn push(&mut self, packet: Packet) {
        if self.next.wrapping_sub(self.first) as usize == self.slots.len() {
            self.grow();
        }
        let last = self.slots.len().wrapping_sub(1);
        self.slots[self.next as usize & last] = packet;
        self.next = self.next.wrapping_add(1);
    }

    /// Appends packets that leave these slots, with one look at the memory for all of them.
    pub(crate) fn extend(&mut self, packets: &[Packet]) {
        while self.slots.len() - (self.next.wrapping_sub(self.first) as usize) < packets.len() {
            self.grow();
        }
        let (mut next, last) = (self.next, self.slots.len().wrapping_sub(1));
        for packet in packets {
            self.slots[next as usize & last] = Packet::leave(packet);
            next = next.wrapping_add(1);
        }
        self.next = next;
    }

    /// The oldest packet.
    #[inline]
    pub(crate) fn oldest(&self) -> Option<&Packet> {
        match self.first == self.next {
            true => None,
            false => Some(self.slot(self.first)),
        }
    }

    /// Removes the oldest packet, which [`PacketRing::oldest`] returned.
    #[inline]
    pub(crate) fn remove_oldest(&mut self) {
        self.first = self.first.wrapping_add(1);
        if self.first == self.next {
            (self.first, self.next) = (0, 0);
        }
    }

    /// The packet that was appended last.
    #[inline]
    pub(crate) fn newest(&self) -> Option<&Packet> {
        match self.first == self.next {
            true => None,
            false => Some(self.slot(self.next.wrapping_sub(1))),
        }
    }

    /// The slot of the next packet, if there is one.
    #[inline]
    pub(crate) fn place(&self) -> Option<&Packet> {
        self.slots
            .get(self.next as usize & self.slots.len().wrapping_sub(1))
    }

    #[inline]
    fn slot(&self, index: u32) -> &Packet {
        &self.slots[index as usize & (self.slots.len().wrapping_sub(1))]
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let held = self.next.wrapping_sub(self.first);
        let mut slots = Vec::with_capacity((2 * self.slots.len()).max(SMALLEST));
        slots.extend((0..held).map(|nth| Packet::leave(self.slot(self.first.wrapping_add(nth)))));
        slots.resize_with(slots.capacity(), || Packet::NONE);
        (self.first, self.next) = (0, held);
        self.slots = slots.into_boxed_slice();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;
    use crate::units::Bytes;
    use std::collections::VecDeque;

    #[test]
    fn agrees_with_a_deque() {
        let (mut rng, mut ring, mut deque) = (Seed(3).stream(), PacketRing::default(), VecDeque::new());
        for step in 0..50_000 {
            // Longer and longer, then drained, again and again.
            let many = step / 1_000 % 10;
            let full = deque.len() > many * many;
            let packet = |len: u64| Packet {
                len: Bytes::new(len),
                ..Packet::NONE
            };
            let (is_burst, some) = (rng.below(64) == 0, rng.below(12));
            if is_burst && !full {
                deque.extend((0..some).map(|nth| step as u64 + nth));
                let burst: Vec<_> = (0..some).map(|nth| packet(step as u64 + nth)).collect();
                ring.extend(&burst);
            } else if rng.below(16) < if full { 6 } else { 10 } {
                deque.push_back(step as u64);
                ring.push(packet(step as u64));
            } else {
                let oldest = ring.oldest().map(|packet| packet.len.get());
                assert_eq!(oldest, deque.pop_front());
                if oldest.is_some() {
                    ring.remove_oldest();
                }
            }
            assert_eq!(
                ring.newest().map(|packet| packet.len.get()),
                deque.back().copied()
            );
        }
        assert!(ring.slots.len() >= 64, "{} slots", ring.slots.len());
    }

    fn of(len: u64) -> Packet {
        Packet {
            len: Bytes::new(len),
            ..Packet::NONE
        }
    }

    /// The slot that the next packet takes, if there is one.
    fn place_in(ring: &PacketRing) -> Option<usize> {
        let place = ring.place()?;
        ring.slots.iter().position(|slot| std::ptr::eq(slot, place))
    }

    #[test]
    fn the_place_of_the_next_packet_goes_round_the_slots() {
        let mut ring = PacketRing::default();
        assert_eq!(place_in(&ring), None);
        for expected in [1, 2, 3, 0] {
            ring.push(of(1));
            assert_eq!((place_in(&ring), ring.slots.len()), (Some(expected), 4));
        }
        ring.remove_oldest();
        ring.push(of(1));
        assert_eq!(place_in(&ring), Some(1));
        (0..4).for_each(|_| ring.remove_oldest());
        // An empty one starts over.
        assert_eq!((place_in(&ring), ring.first, ring.next), (Some(0), 0, 0));
        assert!(ring.oldest().is_none() && ring.newest().is_none());
    }

    #[test]
    fn a_ring_doubles_when_it_is_full_and_not_before() {
        let mut ring = PacketRing::default();
        ring.extend(&[]);
        assert_eq!(ring.slots.len(), 0);
        let burst = |many: u64| (0..many).map(of).collect::<Vec<_>>();
        for (many, slots) in [(3, 4), (1, 4), (1, 8), (3, 8), (1, 16), (8, 32)] {
            ring.extend(&burst(many));
            assert_eq!(ring.slots.len(), slots);
        }
        let mut ring = PacketRing::default();
        for n in 1..=17 {
            ring.push(of(n));
            let slots = [4, 8, 16, 32].into_iter().find(|slots| n as usize <= *slots);
            assert_eq!(Some(ring.slots.len()), slots);
        }
        for n in 1..=17 {
            assert_eq!(ring.oldest().map(|packet| packet.len.get()), Some(n));
            assert_eq!(ring.newest().map(|packet| packet.len.get()), Some(17));
            ring.remove_oldest();
        }
    }
}
