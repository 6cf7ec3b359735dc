//! The pool of frames: their bytes, of which the engine has the metadata.
//!
//! Slots come in two sizes: small ones for frames of an ordinary MTU, and big ones for super-frames
//! (GSO) and jumbo frames. A port that cannot know the length beforehand receives into big slots
//! and [moves](Pool::shrink) small frames out of them. Taking and freeing a slot is O(1); memory
//! that was never used is never touched; the slot freed last is taken first. An exhausted pool
//! counts that: then frames wait in the kernel's buffers, or are dropped and counted. Who may
//! occupy how many slots while they are queued is the business of `budget`.
//!
//! Each frame starts with [`HEADROOM`] bytes of free room before it, for the virtio-net header of a
//! port that passes offloads on, and for VLAN tags that the kernel took out of the frame. Inside
//! Suimon a tag is always in the bytes; a port whose kernel interface keeps it elsewhere puts it
//! back.

use crate::budget::{self, Admission, Budget, Claim, Owner, PreparedClaim, ReservedSlots};
use crate::checksum::Unfinished;
use crate::sys::Region;
use engine::packet::Buffer;
use engine::units::{Bandwidth, Bytes, Instant};
use std::io;
use std::ops::AddAssign;

/// Free bytes before a frame as it is received.
pub const HEADROOM: usize = 64;

/// Bytes of a small slot, headroom included.
const SMALL: usize = 2048;

/// Bytes of a big slot, headroom included: 64 KiB of IP packet, Ethernet header and tags.
const BIG: usize = 65_536 + 512;

/// Which protocol's segments a super-frame consists of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gso {
    /// TCP over IPv4.
    Tcp4,
    /// TCP over IPv6.
    Tcp6,
    /// UDP over either, datagrams of equal length (the kernel's `UDP_L4`).
    Udp,
}

/// What is left to be done with a frame by whoever sends it: the content of the virtio-net header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Offload {
    /// A super-frame, to be cut into segments of [`segment`](Self::segment) bytes of payload.
    pub gso: Option<Gso>,
    /// Whether only the first segment may carry TCP's CWR flag.
    pub ecn: bool,
    /// Bytes of payload in each segment but the last.
    pub segment: u16,
    /// Bytes of header, or a hint of it: the kernel gives the length of the linear part. Passed on
    /// unchanged.
    pub header: u16,
    /// The checksum to be finished.
    pub checksum: Option<Unfinished>,
}

/// How many slots of each size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slots {
    /// For frames up to about 1980 bytes.
    pub small: u32,
    /// For frames up to 64 KiB of IP packet.
    pub big: u32,
}

impl Default for Slots {
    /// 64 MiB of small and 128 MiB of big slots, if they are ever all used.
    fn default() -> Self {
        Self {
            small: 32_768,
            big: 2_048,
        }
    }
}

impl Slots {
    /// The slots that queued frames may occupy; the others are for frames in ports, and for what
    /// arrives.
    #[must_use]
    pub fn for_queues(self) -> Self {
        let [small, big] = budget::for_queues([self.small, self.big]);
        Self { small, big }
    }

    /// Slots for this much memory at most, a third of it in small ones, and at least one of each.
    pub fn within(memory: Bytes) -> Self {
        let of = |part: u64, slot: usize| u32::try_from((part / slot as u64).max(1)).unwrap_or(u32::MAX / 4);
        let small = memory.get() / 3;
        Self {
            small: of(small, SMALL),
            big: of(memory.get() - small, BIG),
        }
    }
}

/// How full a pool is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PoolUsage {
    /// Slots in use.
    pub used: u32,
    /// All slots.
    pub total: u32,
    /// How often no slot was free.
    pub exhausted: u64,
}

impl AddAssign for PoolUsage {
    fn add_assign(&mut self, other: Self) {
        self.used += other.used;
        self.total += other.total;
        self.exhausted += other.exhausted;
    }
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    start: u32,
    len: u32,
    offload: Offload,
    /// Its launch time, where the device keeps such times.
    launch: Option<Instant>,
    /// When it arrived, where its port reports that.
    arrived: Option<Instant>,
    /// Who it is charged to, while it is queued.
    owner: Option<Owner>,
    taken: bool,
}

/// Slots of one size.
#[derive(Debug)]
struct Shelf {
    /// The first slot's place in the region.
    base: usize,
    slot: usize,
    total: u32,
    /// One for each slot that was ever used.
    frames: Vec<Frame>,
    free: Vec<u32>,
    exhausted: u64,
}

impl Shelf {
    fn new(base: usize, slot: usize, total: u32) -> Self {
        let capacity = total as usize;
        let (frames, free) = (Vec::with_capacity(capacity), Vec::with_capacity(capacity));
        Self {
            base,
            slot,
            total,
            frames,
            free,
            exhausted: 0,
        }
    }

    fn take(&mut self) -> Option<u32> {
        let start = HEADROOM as u32;
        let fresh = Frame {
            start,
            len: 0,
            offload: Offload::default(),
            launch: None,
            arrived: None,
            owner: None,
            taken: true,
        };
        if let Some(index) = self.free.pop() {
            self.frames[index as usize] = fresh;
            return Some(index);
        }
        let index = u32::try_from(self.frames.len()).ok().filter(|i| *i < self.total);
        match index {
            Some(_) => self.frames.push(fresh),
            None => self.exhausted += 1,
        }
        index
    }

    fn usage(&self) -> PoolUsage {
        let used = (self.frames.len() - self.free.len()) as u32;
        PoolUsage {
            used,
            total: self.total,
            exhausted: self.exhausted,
        }
    }
}

/// A bounded pool of frames.
#[derive(Debug)]
pub struct Pool {
    region: Region,
    small: Shelf,
    big: Shelf,
    budget: Budget,
}

impl Pool {
    /// A pool of this many slots. Fails only if the address space cannot be had.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses so much address space.
    pub fn new(slots: Slots) -> io::Result<Self> {
        let small = SMALL * slots.small as usize;
        let region = Region::new(small + BIG * slots.big as usize)?;
        Ok(Self {
            region,
            small: Shelf::new(0, SMALL, slots.small),
            big: Shelf::new(small, BIG, slots.big),
            budget: Budget::default(),
        })
    }

    /// The shelf of a buffer, and its index there.
    fn shelf(&self, buffer: Buffer) -> (&Shelf, usize) {
        match buffer.0.checked_sub(self.small.total) {
            None => (&self.small, buffer.0 as usize),
            Some(index) => (&self.big, index as usize),
        }
    }

    fn frame_mut(&mut self, buffer: Buffer) -> &mut Frame {
        let frame = match buffer.0.checked_sub(self.small.total) {
            None => &mut self.small.frames[buffer.0 as usize],
            Some(index) => &mut self.big.frames[index as usize],
        };
        assert!(frame.taken, "slot {} is used after it was given back", buffer.0);
        frame
    }

    /// The frame's metadata and the place of its slot in the region.
    fn frame(&self, buffer: Buffer) -> (&Frame, usize) {
        let (shelf, index) = self.shelf(buffer);
        let frame = &shelf.frames[index];
        assert!(frame.taken, "slot {} is used after it was given back", buffer.0);
        (frame, shelf.base + index * shelf.slot)
    }

    /// A slot for a frame of up to `len` bytes; `None`, and counted, if there is none.
    pub fn take(&mut self, len: usize) -> Option<Buffer> {
        if HEADROOM + len <= SMALL {
            return self.small.take().map(Buffer).or_else(|| self.take_big());
        }
        if HEADROOM + len <= BIG {
            self.take_big()
        } else {
            None
        }
    }

    /// A big slot, for a frame of unknown length.
    pub fn take_big(&mut self) -> Option<Buffer> {
        self.big.take().map(|index| Buffer(self.small.total + index))
    }

    /// A slot to receive a frame of unknown length into: a big one, else a small one. Receiving
    /// goes on while there is either; a frame that does not fit a small one is refused.
    pub fn take_any(&mut self) -> Option<Buffer> {
        self.take_big().or_else(|| self.small.take().map(Buffer))
    }

    /// A slot with these bytes in it.
    pub fn put(&mut self, bytes: &[u8], offload: Offload) -> Option<Buffer> {
        let buffer = self.take(bytes.len())?;
        self.set_len(buffer, bytes.len());
        self.bytes_mut(buffer).copy_from_slice(bytes);
        self.set_offload(buffer, offload);
        Some(buffer)
    }

    /// Gives a slot back.
    ///
    /// # Panics
    /// If it had been given back already.
    pub fn free(&mut self, buffer: Buffer) {
        self.discharge(buffer);
        self.frame_mut(buffer).taken = false;
        match buffer.0.checked_sub(self.small.total) {
            None => self.small.free.push(buffer.0),
            Some(index) => self.big.free.push(index),
        }
    }

    /// The size of a buffer's slot, as the budget counts them.
    fn size(&self, buffer: Buffer) -> usize {
        usize::from(buffer.0 >= self.small.total)
    }

    /// This path has this claim to slots.
    pub(crate) fn claim(&mut self, path: usize, claim: Claim) {
        let slots = [self.small.total, self.big.total];
        self.budget.claim(path, claim, slots);
    }

    /// The same of a claim that was prepared, in a time that does not grow with the number of
    /// classes. What it has replaced is left in `prepared`.
    pub(crate) fn adopt(&mut self, path: usize, prepared: &mut PreparedClaim) {
        let slots = [self.small.total, self.big.total];
        self.budget.adopt(path, prepared, slots);
    }

    /// Gives the next classes their parts of the last division. Whether there are any.
    pub(crate) fn divide_on(&mut self, most: usize) -> bool {
        let dividing = self.budget.is_dividing();
        self.budget.divide_on(most);
        dividing
    }

    /// What is reserved for the classes of a path with a policy.
    pub(crate) fn reserved(&self, path: usize) -> ReservedSlots {
        self.budget.reserved(path, [self.small.total, self.big.total])
    }

    /// From now on another tree of this path has this claim, in place of the one that is left in
    /// `prepared`. What the former tree has queued is charged no longer.
    pub(crate) fn succeed(&mut self, path: usize, numbering: u16, prepared: &mut PreparedClaim) {
        let slots = [self.small.total, self.big.total];
        self.budget.succeed(path, numbering, prepared, slots);
    }

    /// From now on this class is guaranteed this rate; none if it takes no packets.
    pub(crate) fn claim_rate(&mut self, owner: Owner, rate: Option<Bandwidth>) {
        let slots = [self.small.total, self.big.total];
        self.budget.claim_rate(owner, rate.map(Bandwidth::bits), slots);
    }

    /// Charges a frame that is to be queued to its class, until it is discharged or freed.
    pub(crate) fn charge(&mut self, buffer: Buffer, owner: Owner) -> Admission {
        self.discharge(buffer);
        let admission = self.budget.charge(owner, self.size(buffer));
        if admission == Admission::Charged {
            self.frame_mut(buffer).owner = Some(owner);
        }
        admission
    }

    /// The frame has waited in another tree of its path, and is queued again for this owner.
    pub(crate) fn keep(&mut self, buffer: Buffer, owner: Owner) {
        self.discharge(buffer);
        self.budget.keep(owner, self.size(buffer));
        self.frame_mut(buffer).owner = Some(owner);
    }

    /// The frame is queued no longer.
    pub(crate) fn discharge(&mut self, buffer: Buffer) {
        if let Some(owner) = self.frame_mut(buffer).owner.take() {
            let size = self.size(buffer);
            self.budget.discharge(owner, size);
        }
    }

    /// Whether the buffer is a big slot.
    pub fn is_big(&self, buffer: Buffer) -> bool {
        self.size(buffer) == 1
    }

    /// Whether not one slot is free.
    pub fn is_exhausted(&self) -> bool {
        let full = |shelf: &Shelf| shelf.usage().used >= shelf.total;
        full(&self.small) && full(&self.big)
    }

    /// The frame's bytes, from the Ethernet header on.
    pub fn bytes(&self, buffer: Buffer) -> &[u8] {
        let (frame, slot) = self.frame(buffer);
        self.region.bytes(slot + frame.start as usize, frame.len as usize)
    }

    /// The frame's bytes, to change.
    pub fn bytes_mut(&mut self, buffer: Buffer) -> &mut [u8] {
        let (frame, slot) = self.frame(buffer);
        let (from, len) = (slot + frame.start as usize, frame.len as usize);
        self.region.bytes_mut(from, len)
    }

    /// The frame's length.
    pub fn len(&self, buffer: Buffer) -> usize {
        self.frame(buffer).0.len as usize
    }

    /// The greatest length that the frame can have where it starts now.
    pub fn capacity(&self, buffer: Buffer) -> usize {
        let (shelf, index) = self.shelf(buffer);
        shelf.slot - shelf.frames[index].start as usize
    }

    /// Sets the frame's length; bytes beyond the former length are whatever the slot held.
    ///
    /// # Panics
    /// If the slot is too small for it.
    pub fn set_len(&mut self, buffer: Buffer, len: usize) {
        assert!(
            len <= self.capacity(buffer),
            "a frame of {len} bytes does not fit its slot"
        );
        self.frame_mut(buffer).len = len as u32;
    }

    /// What was left to be done with the frame.
    pub fn offload(&self, buffer: Buffer) -> Offload {
        self.frame(buffer).0.offload
    }

    /// Sets what is left to be done with the frame.
    pub fn set_offload(&mut self, buffer: Buffer, offload: Offload) {
        self.frame_mut(buffer).offload = offload;
    }

    /// When the frame arrived, where its port tells.
    pub fn arrived(&self, buffer: Buffer) -> Option<Instant> {
        self.frame(buffer).0.arrived
    }

    /// Sets when the frame arrived.
    pub fn set_arrived(&mut self, buffer: Buffer, at: Instant) {
        self.frame_mut(buffer).arrived = Some(at);
    }

    /// When the frame is to leave, where a device does that by itself.
    pub fn launch(&self, buffer: Buffer) -> Option<Instant> {
        self.frame(buffer).0.launch
    }

    /// Sets when the frame is to leave.
    pub fn set_launch(&mut self, buffer: Buffer, at: Instant) {
        self.frame_mut(buffer).launch = Some(at);
    }

    /// Lengthens the frame by `n` bytes at its front.
    ///
    /// # Panics
    /// If that is more than the headroom left.
    pub fn grow_front(&mut self, buffer: Buffer, n: usize) {
        let frame = self.frame_mut(buffer);
        assert!(n <= frame.start as usize, "no headroom left");
        frame.start -= n as u32;
        frame.len += n as u32;
    }

    /// Shortens the frame by `n` bytes at its front, which become headroom.
    ///
    /// # Panics
    /// If the frame is shorter.
    pub fn cut_front(&mut self, buffer: Buffer, n: usize) {
        let frame = self.frame_mut(buffer);
        assert!(n <= frame.len as usize, "the frame is shorter than its header");
        frame.start += n as u32;
        frame.len -= n as u32;
    }

    /// Copies bytes of one frame into another.
    ///
    /// # Panics
    /// If it is the same frame, or either is too short.
    pub fn copy(&mut self, from: Buffer, at: usize, to: Buffer, place: usize, len: usize) {
        assert!(from != to && at + len <= self.len(from) && place + len <= self.len(to));
        let address = |buffer: Buffer, offset: usize| {
            let (frame, slot) = self.frame(buffer);
            slot + frame.start as usize + offset
        };
        let (from, to) = (address(from, at), address(to, place));
        self.region.copy(from, to, len);
    }

    /// Another frame with the same bytes; none if there is no slot.
    pub fn twin(&mut self, of: Buffer) -> Option<Buffer> {
        let len = self.len(of);
        let twin = self.take(len)?;
        self.set_len(twin, len);
        self.copy(of, 0, twin, 0, len);
        self.set_offload(twin, self.offload(of));
        Some(twin)
    }

    /// The `N` bytes before the frame.
    ///
    /// # Panics
    /// If there is less headroom.
    pub fn front<const N: usize>(&self, buffer: Buffer) -> [u8; N] {
        let (frame, slot) = self.frame(buffer);
        assert!(N <= frame.start as usize, "no headroom left");
        let mut front = [0; N];
        front.copy_from_slice(self.region.bytes(slot + frame.start as usize - N, N));
        front
    }

    /// Moves a frame that fits a small slot out of its big one. Where no small slot is free it
    /// stays.
    #[must_use]
    pub fn shrink(&mut self, buffer: Buffer) -> Buffer {
        let (frame, slot) = self.frame(buffer);
        let (frame, from) = (*frame, slot + frame.start as usize);
        if buffer.0 < self.small.total || HEADROOM + frame.len as usize > SMALL {
            return buffer;
        }
        let Some(index) = self.small.take() else {
            return buffer;
        };
        let moved = Buffer(index);
        let to = self.frame(moved).1 + HEADROOM;
        self.region.copy(from, to, frame.len as usize);
        *self.frame_mut(moved) = Frame {
            start: HEADROOM as u32,
            ..frame
        };
        self.free(buffer);
        moved
    }

    /// Where the frame is, for a system call that reads it.
    pub(crate) fn place(&self, buffer: Buffer) -> (*mut u8, usize) {
        let (frame, slot) = self.frame(buffer);
        let len = frame.len as usize;
        (self.region.address(slot + frame.start as usize, len), len)
    }

    /// Where a system call may write: the slot from `front` bytes before the frame on.
    pub(crate) fn place_with_front(&mut self, buffer: Buffer, front: usize) -> (*mut u8, usize) {
        let len = self.capacity(buffer) + front;
        let (frame, slot) = self.frame(buffer);
        assert!(front <= frame.start as usize, "no headroom left");
        (self.region.address(slot + frame.start as usize - front, len), len)
    }

    /// How full the small and the big slots are.
    pub fn usage(&self) -> [PoolUsage; 2] {
        [self.small.usage(), self.big.usage()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(small: u32, big: u32) -> Pool {
        Pool::new(Slots { small, big }).expect("memory")
    }

    #[test]
    fn a_full_pool_says_so_and_counts_it() {
        let mut pool = pool(2, 1);
        let all: Vec<Buffer> = (0..3).map(|_| pool.take(60).expect("a slot")).collect();
        assert_eq!(pool.take(60), None);
        assert_eq!(
            pool.usage()[1],
            PoolUsage {
                used: 1,
                total: 1,
                exhausted: 1
            }
        );
        all.into_iter().for_each(|b| pool.free(b));
        assert_eq!(pool.usage().map(|u| u.used), [0, 0]);
        assert!(pool.take(60).is_some());
    }

    #[test]
    fn a_frame_too_long_for_any_slot_is_refused() {
        assert_eq!(pool(1, 1).take(BIG), None);
    }

    #[test]
    fn bytes_and_offload_survive_the_move_to_a_small_slot() {
        let mut pool = pool(4, 4);
        let offload = Offload {
            checksum: Some(Unfinished {
                start: 34,
                offset: 16,
            }),
            ..Offload::default()
        };
        let big = pool.take_big().expect("a slot");
        pool.set_len(big, 100);
        pool.bytes_mut(big).fill(7);
        pool.set_offload(big, offload);
        let small = pool.shrink(big);
        assert_ne!(small, big);
        assert_eq!(
            (pool.bytes(small), pool.offload(small)),
            (&[7u8; 100][..], offload)
        );
        assert_eq!(pool.usage().map(|u| u.used), [1, 0]);
    }

    #[test]
    fn a_header_can_be_put_before_a_frame_and_taken_off() {
        let mut pool = pool(1, 0);
        let buffer = pool.put(b"frame", Offload::default()).expect("a slot");
        pool.grow_front(buffer, 4);
        pool.bytes_mut(buffer)[..4].copy_from_slice(b"tag:");
        assert_eq!(pool.bytes(buffer), b"tag:frame");
        pool.cut_front(buffer, 4);
        assert_eq!(pool.bytes(buffer), b"frame");
    }

    #[test]
    #[should_panic(expected = "after it was given back")]
    fn giving_back_twice_is_noticed() {
        let mut pool = pool(1, 0);
        let buffer = pool.take(1).expect("a slot");
        pool.free(buffer);
        pool.free(buffer);
    }
}
