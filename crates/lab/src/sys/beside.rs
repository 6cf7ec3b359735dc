//! A process beside the lab, in the namespaces of whoever started it; descriptors that it
//! passes into the lab.
#![expect(unsafe_code, reason = "fork, and messages with descriptors, are system calls")]

use super::check;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

/// Forks; the child runs `work` with its end of a pair of sockets and ends, at the latest with this
/// process. This process must have one thread. The terminal's signals do not reach the child.
pub(crate) fn fork_beside(work: impl FnOnce(UnixStream)) -> io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    // SAFETY: this process has one thread, so the child may call any function; it never returns.
    unsafe {
        if check(libc::fork())? == 0 {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            libc::setpgid(0, 0);
            drop(ours);
            work(theirs);
            libc::_exit(0);
        }
    }
    Ok(ours)
}

/// Room for the control message of one descriptor, aligned as its header.
type ControlMessage = [u64; 4];

/// Calls `with` with a message of one byte and room for a control message of one descriptor.
fn message<T>(byte: &mut u8, control: &mut ControlMessage, with: impl FnOnce(&mut libc::msghdr) -> T) -> T {
    let mut part = libc::iovec {
        iov_base: std::ptr::from_mut(byte).cast(),
        iov_len: 1,
    };
    // SAFETY: all-zero is a valid `msghdr`.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    // SAFETY: a calculation without pointers.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(size_of::<RawFd>() as u32) } as _;
    with(&mut message)
}

/// Sends a byte, and a descriptor with it.
pub(crate) fn send_descriptor(over: &UnixStream, mut byte: u8, descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let mut control = ControlMessage::default();
    message(&mut byte, &mut control, |message| {
        // SAFETY: the control message has room for its header and one descriptor.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as _;
            libc::CMSG_DATA(header)
                .cast::<RawFd>()
                .write_unaligned(descriptor.as_raw_fd());
            check(libc::sendmsg(over.as_raw_fd(), message, libc::MSG_NOSIGNAL) as i32).map(drop)
        }
    })
}

/// Receives a byte, and the descriptor that came with it, if one did.
pub(crate) fn receive_descriptor(over: &UnixStream) -> io::Result<(u8, Option<OwnedFd>)> {
    let (mut byte, mut control) = (0, ControlMessage::default());
    let descriptor = message(&mut byte, &mut control, |message| {
        // SAFETY: the kernel fills what the message points to; a descriptor that it made is ours.
        unsafe {
            let length = check(libc::recvmsg(over.as_raw_fd(), message, libc::MSG_CMSG_CLOEXEC) as i32)?;
            if length == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
            }
            let header = libc::CMSG_FIRSTHDR(message);
            let has = !header.is_null()
                && (*header).cmsg_level == libc::SOL_SOCKET
                && (*header).cmsg_type == libc::SCM_RIGHTS;
            Ok(has.then(|| OwnedFd::from_raw_fd(libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned())))
        }
    })?;
    Ok((byte, descriptor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    #[test]
    fn a_descriptor_arrives_with_its_byte_and_a_byte_alone_without() {
        let (near, mut far) = UnixStream::pair().expect("a pair");
        let (mut passed, kept) = UnixStream::pair().expect("a pair");
        send_descriptor(&far, 7, kept.as_fd()).expect("sent");
        far.write_all(&[8]).expect("sent");
        drop(kept);
        let (byte, descriptor) = receive_descriptor(&near).expect("received");
        let mut other = UnixStream::from(descriptor.expect("a descriptor"));
        other.write_all(b"x").expect("it is open");
        let mut read = [0];
        passed.read_exact(&mut read).expect("it is the same socket");
        assert_eq!((byte, read), (7, *b"x"));
        let (byte, descriptor) = receive_descriptor(&near).expect("received");
        assert!(byte == 8 && descriptor.is_none());
        drop(far);
        assert!(receive_descriptor(&near).is_err(), "the end");
    }
}
