//! The four rings of an AF_XDP socket: each has one producer and one consumer, one of which is the
//! kernel.
//!
//! The layout is the kernel's (Documentation/networking/af_xdp.rst): two free-running counters, a
//! word of flags, and a power of two of entries, at offsets that the kernel reports. An entry is
//! one 64-bit word (fill, completion: an address) or two (receive, transmit: address; length and
//! options). Everything is read and written as atomics, so this file is safe code whatever the
//! kernel does, and works the same in plain memory. The counters order all other accesses: a
//! producer writes entries with relaxed stores and publishes them with release; a consumer acquires
//! them.

use crate::mapping::Mapping;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::atomic::{AtomicU32, AtomicU64};
use std::io;

/// Offsets in a ring's memory, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct RingLayout {
    /// The producer's counter.
    pub producer: usize,
    /// The consumer's counter.
    pub consumer: usize,
    /// The flags.
    pub flags: usize,
    /// The first entry.
    pub entries: usize,
}

/// A receive or transmit entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Descriptor {
    /// Address in the UMEM.
    pub address: u64,
    /// Length in bytes.
    pub len: u32,
    /// Flags: whether the packet continues in the next entry.
    pub options: u32,
}

impl Descriptor {
    /// As the two words of an entry: the second is two 32-bit fields in native order.
    pub fn words(self) -> [u64; 2] {
        let ([a, b, c, d], [e, f, g, h]) = (self.len.to_ne_bytes(), self.options.to_ne_bytes());
        [self.address, u64::from_ne_bytes([a, b, c, d, e, f, g, h])]
    }

    /// From the two words of an entry.
    pub fn from_words([address, second]: [u64; 2]) -> Self {
        let [a, b, c, d, e, f, g, h] = second.to_ne_bytes();
        let (len, options) = (u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h]));
        Self {
            address,
            len,
            options,
        }
    }
}

const NEED_WAKEUP: u32 = 1;

/// A ring whose entries are `W` words.
#[derive(Debug)]
struct Ring<const W: usize> {
    memory: Mapping,
    layout: RingLayout,
    size: u32,
}

impl<const W: usize> Ring<W> {
    fn new(memory: Mapping, layout: RingLayout, size: u32) -> io::Result<Self> {
        let end = layout.entries + size as usize * W * 8;
        let counters = [layout.producer, layout.consumer, layout.flags];
        let fits = size.is_power_of_two()
            && end <= memory.len()
            && layout.entries.is_multiple_of(8)
            && counters.iter().all(|at| at % 4 == 0 && at + 4 <= layout.entries);
        if !fits {
            return Err(io::Error::other(format!(
                "the kernel's ring layout is not supported: {layout:?}"
            )));
        }
        Ok(Self { memory, layout, size })
    }

    fn cell(&self, at: usize) -> &AtomicU32 {
        &self.memory.halves()[at / 4]
    }

    fn entry(&self, counter: u32) -> &[AtomicU64] {
        let first = self.layout.entries / 8 + (counter & (self.size - 1)) as usize * W;
        &self.memory.words()[first..first + W]
    }
}

/// The producer of a ring that the kernel consumes.
#[derive(Debug)]
pub struct Producer<const W: usize> {
    ring: Ring<W>,
    next: u32,
}

impl<const W: usize> Producer<W> {
    /// For an unused ring of `size` entries.
    ///
    /// # Errors
    ///
    /// Returns an error if the size is no power of two, or the layout does not fit the memory.
    pub fn new(memory: Mapping, layout: RingLayout, size: u32) -> io::Result<Self> {
        Ok(Self {
            ring: Ring::new(memory, layout, size)?,
            next: 0,
        })
    }

    /// How many entries can be pushed.
    pub fn room(&self) -> u32 {
        self.ring.size - self.pending().min(self.ring.size)
    }

    /// How many entries the consumer has not taken yet.
    pub fn pending(&self) -> u32 {
        self.next
            .wrapping_sub(self.ring.cell(self.ring.layout.consumer).load(Acquire))
    }

    /// Writes an entry; `false` if there is no room. The consumer sees it after
    /// [`Producer::publish`].
    pub fn push(&mut self, entry: [u64; W]) -> bool {
        if self.room() == 0 {
            return false;
        }
        for (to, from) in self.ring.entry(self.next).iter().zip(entry) {
            to.store(from, Relaxed);
        }
        self.next = self.next.wrapping_add(1);
        true
    }

    /// Makes the pushed entries visible to the consumer.
    pub fn publish(&self) {
        self.ring
            .cell(self.ring.layout.producer)
            .store(self.next, Release);
    }

    /// Whether the kernel needs a system call to continue (need-wakeup).
    pub fn wants_wakeup(&self) -> bool {
        self.ring.cell(self.ring.layout.flags).load(Relaxed) & NEED_WAKEUP != 0
    }
}

/// The consumer of a ring that the kernel fills.
#[derive(Debug)]
pub struct Consumer<const W: usize> {
    ring: Ring<W>,
    next: u32,
}

impl<const W: usize> Consumer<W> {
    /// For an unused ring of `size` entries.
    ///
    /// # Errors
    ///
    /// Returns an error if the size is no power of two, or the layout does not fit the memory.
    pub fn new(memory: Mapping, layout: RingLayout, size: u32) -> io::Result<Self> {
        Ok(Self {
            ring: Ring::new(memory, layout, size)?,
            next: 0,
        })
    }

    /// How many entries there are to read.
    pub fn waiting(&self) -> u32 {
        let written = self.ring.cell(self.ring.layout.producer).load(Acquire);
        written.wrapping_sub(self.next).min(self.ring.size)
    }

    /// Reads an entry. The producer may reuse it after [`Consumer::release`].
    pub fn pop(&mut self) -> Option<[u64; W]> {
        if self.waiting() == 0 {
            return None;
        }
        let mut out = [0; W];
        for (to, from) in out.iter_mut().zip(self.ring.entry(self.next)) {
            *to = from.load(Relaxed);
        }
        self.next = self.next.wrapping_add(1);
        Some(out)
    }

    /// Returns the popped entries to the producer.
    pub fn release(&self) {
        self.ring
            .cell(self.ring.layout.consumer)
            .store(self.next, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: RingLayout = RingLayout {
        producer: 0,
        consumer: 64,
        flags: 128,
        entries: 192,
    };

    /// Both sides of one ring, on a memory file that is mapped twice in place of the kernel.
    fn both<const W: usize>(size: u32) -> (Producer<W>, Consumer<W>) {
        let [one, other] = crate::mapping::tests::twice(1 << 17);
        (
            Producer::new(one, LAYOUT, size).unwrap(),
            Consumer::new(other, LAYOUT, size).unwrap(),
        )
    }

    #[test]
    fn entries_come_out_in_order_and_only_once_published() {
        let (mut to, mut from) = both::<2>(4);
        let entry = |n| Descriptor {
            address: n,
            len: n as u32 + 60,
            options: 1,
        };
        assert!(to.push(entry(1).words()) && to.push(entry(2).words()));
        assert_eq!(from.pop(), None);
        to.publish();
        assert_eq!(from.pop().map(Descriptor::from_words), Some(entry(1)));
        assert_eq!(from.pop().map(Descriptor::from_words), Some(entry(2)));
        assert_eq!(from.pop(), None);
    }

    #[test]
    fn a_full_ring_accepts_nothing_until_entries_are_released() {
        let (mut to, mut from) = both::<1>(2);
        assert!(to.push([1]) && to.push([2]) && !to.push([3]));
        to.publish();
        assert_eq!(from.pop(), Some([1]));
        assert!(!to.push([3]));
        from.release();
        assert!(to.push([3]));
        assert_eq!((to.room(), to.pending()), (0, 2));
    }

    #[test]
    fn counters_wrap_around() {
        let (mut to, mut from) = both::<1>(4);
        (to.next, from.next) = (u32::MAX - 1, u32::MAX - 1);
        to.publish();
        from.release();
        for n in 0..40 {
            assert!(to.push([n]));
            to.publish();
            assert_eq!(from.pop(), Some([n]));
            from.release();
        }
    }

    #[test]
    fn nonsense_counters_of_the_kernel_do_no_harm() {
        let (mut to, mut from) = both::<1>(4);
        to.next = 1 << 30;
        to.publish();
        assert_eq!(from.waiting(), 4);
        assert_eq!(to.room(), 0);
        assert!(!to.push([1]));
        assert!(from.pop().is_some());
    }

    #[test]
    fn a_layout_beyond_the_memory_is_refused() {
        let memory = || crate::mapping::Mapping::anonymous(4096).unwrap();
        assert!(Consumer::<2>::new(memory(), LAYOUT, 256).is_err());
        assert!(Consumer::<2>::new(memory(), LAYOUT, 100).is_err());
        assert!(
            Consumer::<2>::new(
                memory(),
                RingLayout {
                    flags: 4096,
                    ..LAYOUT
                },
                4
            )
            .is_err()
        );
    }

    #[test]
    fn two_threads_pass_a_million_entries_in_order() {
        // A large ring: on one processor each thread switch may cost a tick.
        let (mut to, mut from) = both::<2>(4096);
        let writer = std::thread::spawn(move || {
            let mut n = 0u64;
            while n < 1_000_000 {
                if to.push([n, !n]) {
                    n += 1;
                    to.publish();
                } else {
                    std::thread::yield_now();
                }
            }
        });
        let mut n = 0u64;
        while n < 1_000_000 {
            if let Some(entry) = from.pop() {
                assert_eq!(entry, [n, !n]);
                n += 1;
                from.release();
            } else {
                std::thread::yield_now();
            }
        }
        writer.join().unwrap();
    }
}
