//! Packets in many FIFO lists that share one array: for disciplines with a queue for each of many
//! flows.
//!
//! A list is two indices and its counts, so thousands of empty ones cost little; the array grows to
//! the largest backlog of all lists and is reused.

use crate::packet::Packet;
use crate::portion::Portion;
use crate::prefetch::Prefetched;
use crate::sink::Sink;
use std::collections::VecDeque;

/// No slot.
const NONE: u32 = u32::MAX;

/// One list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    first: u32,
    last: u32,
    bytes: u64,
}

impl List {
    pub(crate) const EMPTY: Self = Self {
        first: NONE,
        last: NONE,
        bytes: 0,
    };

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first == NONE
    }

    /// Whether it has exactly one packet.
    #[inline]
    pub(crate) fn is_single(&self) -> bool {
        self.first == self.last && self.first != NONE
    }

    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// A packet and the slot of the one behind it; or a free slot and the next free one. One cache line
/// and not less: half of the slots would be in two.
#[derive(Debug)]
#[repr(align(64))]
struct Slot {
    packet: Packet,
    next: u32,
}

/// The packets of all lists.
#[derive(Debug)]
pub(crate) struct Store {
    slots: Vec<Slot>,
    free: u32,
    packets: u64,
    bytes: u64,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: NONE,
            packets: 0,
            bytes: 0,
        }
    }
}

impl Store {
    /// Slots that there are, free ones included.
    #[cfg(test)]
    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Packets in all lists.
    pub(crate) fn packets(&self) -> u64 {
        self.packets
    }

    /// Bytes in all lists.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends a packet to a list.
    #[inline]
    pub(crate) fn push(&mut self, list: &mut List, packet: Packet) {
        let len = packet.len.get();
        let filled = Slot { packet, next: NONE };
        let slot = match self.slots.get_mut(self.free as usize) {
            Some(slot) => {
                let index = self.free;
                self.free = slot.next;
                *slot = filled;
                index
            }
            None => {
                self.slots.push(filled);
                self.slots.len() as u32 - 1
            }
        };
        match self.slots.get_mut(list.last as usize) {
            Some(last) => last.next = slot,
            None => list.first = slot,
        }
        list.last = slot;
        list.bytes += len;
        self.packets += 1;
        self.bytes += len;
    }

    /// The oldest packet of a list.
    #[inline]
    pub(crate) fn oldest(&self, list: &List) -> Option<&Packet> {
        self.slots.get(list.first as usize).map(|slot| &slot.packet)
    }

    /// The same, to change it.
    #[inline]
    pub(crate) fn oldest_mut(&mut self, list: &List) -> Option<&mut Packet> {
        let slot = self.slots.get_mut(list.first as usize)?;
        Some(&mut slot.packet)
    }

    /// Reads what appending to a list needs, once the list is in the cache.
    #[inline]
    pub(crate) fn prefetch_end(&self, list: &List) -> Prefetched {
        let last = self.slots.get(list.last as usize);
        Prefetched::word(last.map_or(0, |slot| slot.next.into()))
    }

    /// Takes the oldest packet of a list.
    #[inline]
    pub(crate) fn pop(&mut self, list: &mut List) -> Option<Packet> {
        let packet = Packet::leave(self.oldest(list)?);
        self.remove_oldest(list);
        Some(packet)
    }

    /// Hands over what is in these lists, one after the other. Whether all of it is gone, and the
    /// portion allows for more.
    pub(crate) fn flush(
        &mut self,
        lists: &mut VecDeque<List>,
        portion: &mut Portion,
        sink: &mut dyn Sink,
    ) -> bool {
        while let Some(list) = lists.front_mut() {
            if !portion.flush(sink, || self.pop(list)) {
                return false;
            }
            lists.pop_front();
            portion.looked();
            if portion.is_spent() {
                return false;
            }
        }
        true
    }

    /// Removes the oldest packet of a list, which [`Store::oldest`] returned.
    #[inline]
    pub(crate) fn remove_oldest(&mut self, list: &mut List) {
        let index = list.first;
        let Some(slot) = self.slots.get_mut(index as usize) else {
            return;
        };
        let len = slot.packet.len.get();
        list.first = std::mem::replace(&mut slot.next, self.free);
        self.free = index;
        if list.first == NONE {
            list.last = NONE;
        }
        list.bytes -= len;
        self.packets -= 1;
        self.bytes -= len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::ClassId;
    use crate::random::Seed;
    use crate::units::{Bytes, Instant};

    #[test]
    fn lists_that_share_an_array_keep_their_own_packets_in_order() {
        let (mut rng, mut store) = (Seed(9).stream(), Store::default());
        let mut lists = [List::EMPTY; 5];
        let mut known: [VecDeque<u64>; 5] = Default::default();
        for len in 1..5_000 {
            let at = rng.below(5) as usize;
            if rng.below(2) == 0 {
                store.push(
                    &mut lists[at],
                    Packet::new(Bytes::new(len), Instant::START, ClassId(0)),
                );
                known[at].push_back(len);
            } else {
                assert_eq!(
                    store.pop(&mut lists[at]).map(|p| p.len.get()),
                    known[at].pop_front()
                );
            }
            assert_eq!(lists[at].is_empty(), known[at].is_empty());
            assert_eq!(lists[at].bytes(), known[at].iter().sum::<u64>());
        }
        assert_eq!(
            store.packets(),
            known.iter().map(|list| list.len() as u64).sum::<u64>()
        );
        assert_eq!(store.bytes(), known.iter().flatten().sum::<u64>());
        assert!(store.slots.len() < 500, "slots are used again");
    }
}
