//! The UMEM (frame memory) of an AF_XDP socket, and the owner of each frame.
//!
//! The kernel reads and writes the frames that were lent to it. This file does not trust its
//! accounting: each frame has an owner here, and an address from the kernel is accepted only if it
//! lies within a frame that was lent for that purpose. So no two [`UmemFrame`]s refer to the same
//! bytes, and no bytes are accessed while they are lent.

#![expect(
    unsafe_code,
    reason = "slices of memory that the kernel writes while it is lent to it"
)]

use crate::mapping::Mapping;
use std::io;
use std::ptr::NonNull;

/// What a frame was lent for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loan {
    /// To receive into.
    Receive,
    /// To be sent.
    Transmit,
}

/// A frame that is not lent. There is only one of these for each frame.
#[derive(PartialEq, Eq, Debug)]
#[must_use = "a frame must be lent or given back, or its memory leaks"]
pub struct UmemFrame(u32);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owner {
    /// In the free list.
    Free,
    /// There is a [`UmemFrame`] for it.
    User,
    Kernel(Loan),
}

/// The memory of one socket, in frames of one size.
#[derive(Debug)]
pub struct Umem {
    memory: Mapping,
    frame: usize,
    owners: Vec<Owner>,
    free: Vec<u32>,
}

impl Umem {
    /// `frames` frames of `frame` bytes, which is a power of two.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses so much memory.
    pub fn new(frames: u32, frame: usize) -> io::Result<Self> {
        assert!(frame.is_power_of_two(), "the kernel wants a power of two");
        Ok(Self {
            memory: Mapping::anonymous(frames as usize * frame)?,
            frame,
            owners: vec![Owner::Free; frames as usize],
            free: (0..frames).collect(),
        })
    }

    /// Address and length of the memory, for the kernel.
    pub fn area(&self) -> (NonNull<u8>, usize) {
        (self.memory.start(), self.memory.len())
    }

    /// Bytes of a frame.
    pub fn frame_len(&self) -> usize {
        self.frame
    }

    /// How many frames are unused.
    pub fn unused(&self) -> usize {
        self.free.len()
    }

    /// An unused frame.
    pub fn take(&mut self) -> Option<UmemFrame> {
        let frame = self.free.pop()?;
        self.owners[frame as usize] = Owner::User;
        Some(UmemFrame(frame))
    }

    /// Puts a frame back into the free list.
    pub fn give_back(&mut self, frame: UmemFrame) {
        self.owners[frame.0 as usize] = Owner::Free;
        self.free.push(frame.0);
    }

    /// Lends a frame to the kernel; returns its address.
    pub fn lend(&mut self, frame: UmemFrame, what_for: Loan) -> u64 {
        self.owners[frame.0 as usize] = Owner::Kernel(what_for);
        u64::from(frame.0) * self.frame as u64
    }

    /// Takes back a frame by the address that the kernel returned: the frame, and the offset in it.
    /// `None` if no such frame was lent for that.
    pub fn claim(&mut self, address: u64, what_for: Loan) -> Option<(UmemFrame, usize)> {
        let (index, place) = (address / self.frame as u64, address % self.frame as u64);
        let index = u32::try_from(index).ok()?;
        let owner = self.owners.get_mut(index as usize)?;
        if *owner != Owner::Kernel(what_for) {
            return None;
        }
        *owner = Owner::User;
        Some((UmemFrame(index), usize::try_from(place).ok()?))
    }

    /// Bytes of a frame; `None` if they do not lie within it.
    pub fn bytes(&self, frame: &UmemFrame, from: usize, len: usize) -> Option<&[u8]> {
        let at = self.pointer(frame, from, len)?;
        // SAFETY: within the mapping (checked), and the frame is ours, so the kernel does not write
        // to it; nobody else does while `self` is borrowed.
        Some(unsafe { std::slice::from_raw_parts(at, len) })
    }

    /// Bytes of a frame, to change; `None` if they do not lie within it.
    pub fn bytes_mut(&mut self, frame: &UmemFrame, from: usize, len: usize) -> Option<&mut [u8]> {
        let at = self.pointer(frame, from, len)?;
        // SAFETY: as `bytes`, and `self` is borrowed for this alone.
        Some(unsafe { std::slice::from_raw_parts_mut(at, len) })
    }

    fn pointer(&self, frame: &UmemFrame, from: usize, len: usize) -> Option<*mut u8> {
        let within = from.checked_add(len)? <= self.frame && (frame.0 as usize) < self.owners.len();
        // SAFETY: the frames are contiguous in the mapping, and these bytes lie within one of them.
        within.then(|| unsafe {
            self.memory
                .start()
                .as_ptr()
                .add(frame.0 as usize * self.frame + from)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_comes_back_only_as_it_was_lent_and_only_once() {
        let mut umem = Umem::new(2, 2048).unwrap();
        let frame = umem.take().unwrap();
        let address = umem.lend(frame, Loan::Receive);
        assert_eq!(umem.claim(address, Loan::Transmit), None);
        let (frame, place) = umem.claim(address + 256, Loan::Receive).unwrap();
        assert_eq!(place, 256);
        assert_eq!(umem.claim(address, Loan::Receive), None);
        umem.give_back(frame);
        assert_eq!(umem.unused(), 2);
        assert_eq!(umem.claim(address, Loan::Receive), None);
        assert_eq!(umem.claim(u64::MAX, Loan::Receive), None);
        assert_eq!(umem.claim(2 * 2048, Loan::Receive), None);
    }

    #[test]
    fn bytes_never_extend_into_the_next_frame() {
        let mut umem = Umem::new(2, 2048).unwrap();
        let (one, other) = (umem.take().unwrap(), umem.take().unwrap());
        umem.bytes_mut(&one, 0, 2048).unwrap().fill(1);
        assert_eq!(umem.bytes(&other, 0, 2048), Some(&[0; 2048][..]));
        assert_eq!(umem.bytes(&one, 1, 2048), None);
        assert_eq!(umem.bytes(&one, usize::MAX, 2), None);
        umem.give_back(one);
        umem.give_back(other);
        assert_eq!(umem.take().map(|f| f.0), Some(0));
    }
}
