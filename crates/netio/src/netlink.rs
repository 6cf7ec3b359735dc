//! Routing netlink (RFC 3549; the kernel's `rtnetlink(7)`): requests with their complete answers,
//! and errors with the kernel's text if it has one (extended acknowledgements).
//!
//! Used for [`crate::interface`] and [`crate::routes`], for the clsact filters of BPF programs
//! before Linux 6.6, and by the lab, which makes interfaces. Netfilter's messages have the same
//! form: [`crate::nat`] hears of connections by them.

#![expect(unsafe_code, reason = "socket calls take buffers by address")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The length of a message's header.
pub(crate) const HEADER: usize = 16;

/// A request under construction.
#[derive(Debug)]
pub struct NetlinkRequest(Vec<u8>);

impl NetlinkRequest {
    /// A request of this message type; `fixed` is the structure after the header.
    pub fn new(kind: u16, flags: i32, fixed: &[u8]) -> Self {
        let flags = (libc::NLM_F_REQUEST | flags) as u16;
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend(fixed);
        Self(bytes)
    }

    /// Appends raw bytes: the structure at the start of some nested attributes.
    #[must_use]
    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    /// Adds an attribute.
    #[must_use]
    pub fn with(mut self, kind: u16, payload: &[u8]) -> Self {
        self.0.extend(((4 + payload.len()) as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(payload);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// Adds an attribute that is a number.
    #[must_use]
    pub fn number(self, kind: u16, n: u32) -> Self {
        self.with(kind, &n.to_ne_bytes())
    }

    /// Adds an attribute that is a zero-terminated string.
    #[must_use]
    pub fn text(self, kind: u16, text: &str) -> Self {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        self.with(kind, &bytes)
    }

    /// Adds a nested attribute.
    #[must_use]
    pub fn nest(mut self, kind: u16, inside: impl FnOnce(Self) -> Self) -> Self {
        let start = self.0.len();
        self.0.extend([0; 2]);
        self.0.extend(kind.to_ne_bytes());
        let mut whole = inside(self);
        let len = (whole.0.len() - start) as u16;
        whole.0[start..start + 2].copy_from_slice(&len.to_ne_bytes());
        whole
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        let len = self.0.len() as u32;
        self.0[..4].copy_from_slice(&len.to_ne_bytes());
        self.0
    }
}

/// A netlink socket, bound to the network namespace in which it was opened.
#[derive(Debug)]
pub struct Netlink(OwnedFd);

impl Netlink {
    /// For the current namespace of the calling thread; afterwards usable from any thread.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses a netlink socket.
    pub fn open() -> io::Result<Self> {
        Self::open_for(libc::NETLINK_ROUTE)
    }

    /// The same, to another part of the kernel than that of routes (`NETLINK_…`).
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses a netlink socket.
    pub fn open_for(part: i32) -> io::Result<Self> {
        // SAFETY: no addresses in it.
        let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, part) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that nobody else owns.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        // Without these options errors are numbers alone, as before Linux 4.12.
        for option in [libc::NETLINK_EXT_ACK, libc::NETLINK_CAP_ACK] {
            let on = 1_i32;
            // SAFETY: the option's value is four bytes, which live until the call returns.
            unsafe {
                let value = (&raw const on).cast();
                libc::setsockopt(socket.as_raw_fd(), libc::SOL_NETLINK, option, value, 4);
            }
        }
        Ok(Self(socket))
    }

    /// Subscribes to the events of these multicast groups.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses a netlink socket, or the subscription.
    pub fn listen(groups: u32) -> io::Result<Self> {
        Self::open()?.subscribed(groups)
    }

    /// Subscribes it to the events of these multicast groups of its part of the kernel.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses the subscription.
    pub fn subscribed(self, groups: u32) -> io::Result<Self> {
        // SAFETY: all-zero is a valid address structure.
        let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        address.nl_family = libc::AF_NETLINK as u16;
        address.nl_groups = groups;
        let len = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
        // SAFETY: the kernel reads `len` bytes of a structure of that size.
        match unsafe { libc::bind(self.0.as_raw_fd(), (&raw const address).cast(), len) } {
            0 => Ok(self),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Discards all pending events without blocking; returns whether there were any.
    ///
    /// # Errors
    ///
    /// Returns an error if the socket cannot be read.
    pub fn drain(&self) -> io::Result<bool> {
        Ok(self.events(|_, _| {})? != Pending::Nothing)
    }

    /// Reads all pending events without blocking: the type and the body of each message.
    ///
    /// # Errors
    ///
    /// Returns an error if the socket cannot be read.
    pub fn events(&self, mut each: impl FnMut(u16, &[u8])) -> io::Result<Pending> {
        let mut buffer = [0u8; 8 * 1024];
        let mut seen = Pending::Nothing;
        loop {
            let (to, len) = (buffer.as_mut_ptr().cast(), buffer.len());
            // SAFETY: the buffer is valid for its length.
            let received = unsafe { libc::recv(self.0.as_raw_fd(), to, len, libc::MSG_DONTWAIT) };
            if let Ok(len) = usize::try_from(received) {
                messages(&buffer[..len]).for_each(|(kind, body)| each(kind, body));
                seen = seen.max(Pending::Some);
                continue;
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                // The socket's buffer overflowed: there were events.
                Some(libc::ENOBUFS) => seen = Pending::Lost,
                Some(libc::EINTR) => {}
                Some(libc::EAGAIN) => return Ok(seen),
                _ => return Err(error),
            }
        }
    }

    /// Sends a request for one object, or for a change. Returns the answer without its header;
    /// empty if there is none.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses the request, or its answer cannot be read or is
    /// truncated.
    pub fn ask(&self, request: NetlinkRequest) -> io::Result<Vec<u8>> {
        let mut first = None;
        self.exchange(request, libc::NLM_F_ACK, &mut |answer| {
            first.get_or_insert_with(|| answer.to_vec());
        })?;
        Ok(first.unwrap_or_default())
    }

    /// Sends a request for a list (a dump). Returns each answer without its header.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses the request, or its answers cannot be read or are
    /// truncated.
    pub fn list(&self, request: NetlinkRequest) -> io::Result<Vec<Vec<u8>>> {
        let mut answers = Vec::new();
        self.list_each(request, |answer| answers.push(answer.to_vec()))?;
        Ok(answers)
    }

    /// The same, for lists that are long: gives each answer, without its header, as it comes.
    ///
    /// # Errors
    ///
    /// As of [`list`](Self::list).
    pub fn list_each(&self, request: NetlinkRequest, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        self.exchange(request, libc::NLM_F_DUMP, &mut each)
    }

    fn exchange(&self, request: NetlinkRequest, flags: i32, each: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let mut bytes = request.finish();
        let all = half(&bytes, 6).unwrap_or(0) | flags as u16;
        bytes[6..8].copy_from_slice(&all.to_ne_bytes());
        // SAFETY: the buffer is valid for its length.
        if unsafe { libc::send(self.0.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut buffer = vec![0u8; 32 * 1024];
        loop {
            // SAFETY: the buffer is valid for its length.
            let received =
                unsafe { libc::recv(self.0.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
            let len = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
            if read(&buffer[..len], each)? {
                return Ok(());
            }
        }
    }
}

impl AsFd for Netlink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What events there were.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Pending {
    /// None.
    Nothing,
    /// All have been read.
    Some,
    /// Some found no room and are gone.
    Lost,
}

/// The messages of a datagram of events: type and body of each. Stops where the bytes are
/// truncated.
fn messages(mut datagram: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = word(datagram, 0)? as usize;
        let kind = half(datagram, 4)?;
        let body = datagram.get(HEADER..len)?;
        datagram = datagram.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, body))
    })
}

/// Reads the messages of one datagram; `true` when the answer is complete.
fn read(mut datagram: &[u8], each: &mut dyn FnMut(&[u8])) -> io::Result<bool> {
    let short = || io::Error::new(io::ErrorKind::InvalidData, "a truncated netlink answer");
    while !datagram.is_empty() {
        let len = word(datagram, 0).ok_or_else(short)? as usize;
        let kind = i32::from(half(datagram, 4).ok_or_else(short)?);
        let body = datagram.get(HEADER..len).ok_or_else(short)?;
        match kind {
            libc::NLMSG_DONE => return Ok(true),
            libc::NLMSG_ERROR => {
                return match word(body, 0).ok_or_else(short)?.cast_signed() {
                    0 => Ok(true),
                    code => Err(refusal(code.wrapping_neg(), half(datagram, 6), body)),
                };
            }
            _ => each(body),
        }
        datagram = datagram.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// The error of a refused request: its code, and the kernel's text.
fn refusal(code: i32, flags: Option<u16>, body: &[u8]) -> io::Error {
    const MESSAGE: u16 = 1;
    let error = io::Error::from_raw_os_error(code);
    let extended = flags.is_some_and(|flags| i32::from(flags) & libc::NLM_F_ACK_TLVS != 0);
    // The code and the request's header come first.
    let attributes = body.get(4 + HEADER..).filter(|_| extended);
    match attributes.and_then(|rest| attribute(rest, MESSAGE)).map(text) {
        Some(reason) if !reason.is_empty() => io::Error::new(error.kind(), format!("{error}: {reason}")),
        _ => error,
    }
}

/// Iterates over attributes: type and payload. Stops where the bytes are truncated.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(half(bytes, 0)?);
        let kind = half(bytes, 2)?;
        let value = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The payload of the first attribute of this type.
pub fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes)
        .find(|(this, _)| *this == kind)
        .map(|(_, value)| value)
}

/// The string up to the first zero.
pub fn text(bytes: &[u8]) -> String {
    let text = bytes.split(|b| *b == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

/// Four bytes as a number, in host byte order.
pub fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_attributes_carry_their_length_and_are_padded() {
        let bytes = NetlinkRequest::new(libc::RTM_NEWQDISC, 0, &[])
            .nest(2, |r| r.text(7, "four").with(8, &[1, 0, 0, 0]))
            .finish();
        assert_eq!(word(&bytes, 0), Some(16 + 4 + 12 + 8));
        let inside = attribute(&bytes[HEADER..], 2).unwrap();
        assert_eq!(attribute(inside, 7).map(text).as_deref(), Some("four"));
        assert_eq!(attribute(inside, 8), Some(&[1, 0, 0, 0][..]));
        assert_eq!(attribute(inside, 9), None);
    }

    #[test]
    fn a_truncated_answer_is_refused_without_panic() {
        let whole = NetlinkRequest::new(libc::NLMSG_ERROR as u16, 0, &(-libc::ENODEV).to_ne_bytes()).finish();
        for len in 1..whole.len() {
            let error = read(&whole[..len], &mut |_| {}).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{len}");
        }
        let error = read(&whole, &mut |_| {}).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
    }

    #[test]
    fn an_error_has_the_kernels_text_if_there_is_one() {
        let mut fixed = (-libc::EPERM).to_ne_bytes().to_vec();
        fixed.extend([0; HEADER]);
        let whole = NetlinkRequest::new(libc::NLMSG_ERROR as u16, libc::NLM_F_ACK_TLVS, &fixed)
            .text(1, "not you")
            .finish();
        let error = read(&whole, &mut |_| {}).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(error.to_string().ends_with(": not you"), "{error}");
        for len in 1..whole.len() {
            read(&whole[..len], &mut |_| {}).unwrap_err();
        }
    }
}
