//! `recvmmsg` and `sendmmsg` on slots of the pool.
#![expect(unsafe_code, reason = "the kernel reads and writes slots through pointers")]

use crate::pool::Pool;
use engine::packet::Buffer;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Frames per call at most.
pub(crate) const BATCH: usize = 64;

/// Room for a `PACKET_AUXDATA` message and an arrival timestamp, aligned for `struct cmsghdr`.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

const CONTROL: usize = 96;

/// The arrays for both calls, allocated once.
pub(crate) struct Messages {
    headers: Vec<libc::mmsghdr>,
    vectors: Vec<libc::iovec>,
    controls: Vec<Control>,
}

// SAFETY: its pointers are set and used within one call, and not dereferenced between calls.
unsafe impl Send for Messages {}

impl std::fmt::Debug for Messages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Messages").finish_non_exhaustive()
    }
}

/// A frame to send.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outgoing<'a> {
    /// In a slot, with its launch time on the socket's clock, if any.
    Frame(Buffer, Option<u64>),
    /// Outside the pool.
    Bytes(&'a [u8]),
}

/// One received message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Message {
    /// Bytes, including the header in front.
    pub(crate) len: usize,
    /// Whether the slot was too short for it.
    pub(crate) truncated: bool,
    /// The VLAN tag that the kernel removed from the frame: TPID and TCI.
    pub(crate) tag: Option<[u16; 2]>,
    /// When it arrived, on `CLOCK_REALTIME`, if the socket reports it.
    pub(crate) arrived: Option<u64>,
}

impl Messages {
    pub(crate) fn new() -> Self {
        // SAFETY: all-zero is valid for both: null pointers and zero lengths.
        let (header, vector) = unsafe { (mem::zeroed::<libc::mmsghdr>(), mem::zeroed::<libc::iovec>()) };
        Self {
            headers: vec![header; BATCH],
            vectors: vec![vector; BATCH],
            controls: vec![Control([0; CONTROL]); BATCH],
        }
    }

    /// The control buffer of a message. No reference to the array is made, which would end what was
    /// made for the messages before.
    fn control(&mut self, index: usize) -> *mut libc::c_void {
        self.controls.as_mut_ptr().wrapping_add(index).cast()
    }

    /// Points the arrays at buffers, each an address and a length.
    fn point_at(&mut self, buffers: impl Iterator<Item = (*mut u8, usize)>, controls: bool) -> usize {
        let mut count = 0;
        for (index, (address, len)) in buffers.take(BATCH).enumerate() {
            let vector = self.vectors.as_mut_ptr().wrapping_add(index);
            // SAFETY: there are as many vectors as frames in a batch.
            unsafe {
                vector.write(libc::iovec {
                    iov_base: address.cast(),
                    iov_len: len,
                });
            }
            let control = self.control(index);
            let header = &mut self.headers[index];
            header.msg_len = 0;
            header.msg_hdr.msg_flags = 0;
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            (header.msg_hdr.msg_control, header.msg_hdr.msg_controllen) = if controls {
                (control, CONTROL as _)
            } else {
                (std::ptr::null_mut(), 0)
            };
            count = index + 1;
        }
        count
    }

    /// Receives into these slots, each frame with `front` bytes of header before it (in the slot's
    /// headroom). Returns how many were filled, from the first on.
    pub(crate) fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        pool: &mut Pool,
        slots: &[Buffer],
        front: usize,
    ) -> io::Result<usize> {
        let buffers = slots.iter().map(|&slot| pool.place_with_front(slot, front));
        let count = self.point_at(buffers, true);
        // SAFETY: the first `count` headers point to vectors, control buffers and slots that live
        // until the call returns; the slots are distinct and borrowed exclusively with the pool.
        let filled = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                count as _,
                // C libraries differ in the types of counts and flags.
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        usize::try_from(filled).map_err(|_| io::Error::last_os_error())
    }

    /// Sets the launch time of this message (`SCM_TXTIME`).
    fn set_time(&mut self, index: usize, time: u64) {
        let control = self.control(index);
        let header = &mut self.headers[index].msg_hdr;
        header.msg_control = control;
        // SAFETY: the control buffer is aligned for the message's header, and has room for it and
        // eight bytes of data.
        unsafe {
            header.msg_controllen = libc::CMSG_SPACE(size_of::<u64>() as u32) as _;
            // Not a reference: the data are behind what it would be of.
            let message = libc::CMSG_FIRSTHDR(header);
            (*message).cmsg_level = libc::SOL_SOCKET;
            (*message).cmsg_type = libc::SCM_TXTIME;
            (*message).cmsg_len = libc::CMSG_LEN(size_of::<u64>() as u32) as _;
            libc::CMSG_DATA(message).cast::<u64>().write_unaligned(time);
        }
    }

    /// One of the messages of the last `receive`.
    pub(crate) fn message(&self, index: usize) -> Message {
        let header = &self.headers[index];
        let mut message = Message {
            len: header.msg_len as usize,
            truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            tag: None,
            arrived: None,
        };
        let header = &header.msg_hdr;
        // SAFETY: the kernel filled the control buffer; its address and length in the header are
        // still those of `self.controls`. Each message in it is as long as its type requires.
        unsafe {
            // Not references: the data are behind what they would be of.
            let mut control = libc::CMSG_FIRSTHDR(header);
            while !control.is_null() {
                let data = libc::CMSG_DATA(control);
                match ((*control).cmsg_level, (*control).cmsg_type) {
                    (libc::SOL_PACKET, libc::PACKET_AUXDATA) => {
                        message.tag = tag(&data.cast::<libc::tpacket_auxdata>().read_unaligned());
                    }
                    (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                        let time = data.cast::<libc::timespec>().read_unaligned();
                        let seconds = time.tv_sec.unsigned_abs().saturating_mul(1_000_000_000);
                        message.arrived = Some(seconds.saturating_add(time.tv_nsec.unsigned_abs()));
                    }
                    _ => {}
                }
                control = libc::CMSG_NXTHDR(header, control);
            }
        }
        message
    }

    /// Sends these frames, from the first on. Returns how many the kernel took; an error concerns
    /// the first frame.
    pub(crate) fn send<'a>(
        &mut self,
        socket: BorrowedFd<'_>,
        pool: &'a Pool,
        frames: impl Iterator<Item = Outgoing<'a>> + Clone,
    ) -> io::Result<usize> {
        let buffers = frames.clone().map(|frame| match frame {
            Outgoing::Frame(frame, _) => pool.place(frame),
            Outgoing::Bytes(bytes) => (bytes.as_ptr().cast_mut(), bytes.len()),
        });
        let count = self.point_at(buffers, false);
        for (index, frame) in frames.take(count).enumerate() {
            if let Outgoing::Frame(_, Some(time)) = frame {
                self.set_time(index, time);
            }
        }
        // SAFETY: the first `count` headers point to vectors and frames that live until the call
        // returns, and the kernel only reads them.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                count as _,
                libc::MSG_DONTWAIT as _,
            )
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

/// The VLAN tag that the kernel removed from the frame.
fn tag(aux: &libc::tpacket_auxdata) -> Option<[u16; 2]> {
    let has = |flag: u32| aux.tp_status & flag != 0;
    let protocol = if has(libc::TP_STATUS_VLAN_TPID_VALID) {
        aux.tp_vlan_tpid
    } else {
        0x8100
    };
    has(libc::TP_STATUS_VLAN_VALID).then_some([protocol, aux.tp_vlan_tci])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::{Offload, Slots};

    /// Writes a control message behind others, as the kernel does; the length of all.
    fn put<T>(header: &mut libc::msghdr, used: usize, kind: (i32, i32), data: T) -> usize {
        let (own, whole) = (header.msg_control, header.msg_controllen);
        // SAFETY: the control buffer has room for it behind the others; lengths are of its type.
        unsafe {
            header.msg_control = own.byte_add(used);
            let message = libc::CMSG_FIRSTHDR(header);
            (*message).cmsg_level = kind.0;
            (*message).cmsg_type = kind.1;
            (*message).cmsg_len = libc::CMSG_LEN(size_of::<T>() as u32) as _;
            libc::CMSG_DATA(message).cast::<T>().write_unaligned(data);
            (header.msg_control, header.msg_controllen) = (own, whole);
            used + libc::CMSG_SPACE(size_of::<T>() as u32) as usize
        }
    }

    /// Does what `recvmmsg` does with the first headers, one for each frame.
    fn receive_in_place_of_the_kernel(messages: &mut Messages, frames: &[&[u8]]) {
        let headers = messages.headers.as_mut_ptr();
        for (index, frame) in frames.iter().enumerate() {
            // SAFETY: the headers point to vectors, slots and control buffers that live.
            let header = unsafe { &mut *headers.add(index) };
            header.msg_len = frame.len() as u32;
            let header = &mut header.msg_hdr;
            // SAFETY: as above, and the slot is as long as the vector says.
            unsafe {
                let vector = *header.msg_iov;
                assert!(frame.len() <= vector.iov_len);
                let slot = vector.iov_base.cast::<u8>();
                slot.copy_from_nonoverlapping(frame.as_ptr(), frame.len());
            }
            // SAFETY: zero is valid: there is no tag.
            let mut tagged: libc::tpacket_auxdata = unsafe { mem::zeroed() };
            tagged.tp_status = libc::TP_STATUS_VLAN_VALID;
            tagged.tp_vlan_tci = 100 + index as u16;
            let arrived = libc::timespec {
                tv_sec: 2,
                tv_nsec: 7,
            };
            let first = put(header, 0, (libc::SOL_PACKET, libc::PACKET_AUXDATA), tagged);
            let stamped = (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS);
            header.msg_controllen = put(header, first, stamped, arrived) as _;
        }
    }

    #[test]
    fn each_message_has_its_slot_its_tag_and_its_time() {
        let mut pool = Pool::new(Slots { small: 4, big: 0 }).expect("memory");
        let slots: Vec<Buffer> = (0..3).map(|_| pool.take(1500).expect("a slot")).collect();
        let mut messages = Messages::new();
        let buffers = slots.iter().map(|&slot| pool.place_with_front(slot, 4));
        assert_eq!(messages.point_at(buffers, true), 3);
        let frames: [&[u8]; 3] = [b"fourone", b"fourtwo.", b"fourthree"];
        receive_in_place_of_the_kernel(&mut messages, &frames);
        for (index, (slot, frame)) in slots.iter().zip(frames).enumerate() {
            let message = messages.message(index);
            let expected = Message {
                len: frame.len(),
                truncated: false,
                tag: Some([0x8100, 100 + index as u16]),
                arrived: Some(2_000_000_007),
            };
            assert_eq!(message, expected);
            pool.set_len(*slot, frame.len() - 4);
            assert_eq!(pool.bytes(*slot), &frame[4..]);
        }
    }

    #[test]
    fn a_launch_time_is_of_its_own_message() {
        let mut pool = Pool::new(Slots { small: 4, big: 0 }).expect("memory");
        let frames = [b"one", b"two"].map(|it| pool.put(it, Offload::default()).expect("a slot"));
        let mut messages = Messages::new();
        assert_eq!(
            messages.point_at(frames.iter().map(|&it| pool.place(it)), false),
            2
        );
        messages.set_time(1, 77);
        let headers = &mut messages.headers;
        assert!(headers[0].msg_hdr.msg_control.is_null());
        let header = &headers[1].msg_hdr;
        // SAFETY: the control buffer of a launch time, which lives.
        unsafe {
            let control = libc::CMSG_FIRSTHDR(header);
            assert_eq!((*control).cmsg_type, libc::SCM_TXTIME);
            assert_eq!(libc::CMSG_DATA(control).cast::<u64>().read_unaligned(), 77);
            let vector = *header.msg_iov;
            let sent = std::slice::from_raw_parts(vector.iov_base.cast::<u8>(), vector.iov_len);
            assert_eq!(sent, b"two");
        }
    }
}
