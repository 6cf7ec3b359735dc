//! The entries of a tape: a kind, a time, a length and a body.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use engine::units::Instant;

/// What an entry is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Begin,
    Heard,
    Timers,
    RoutesChanged,
    Resynchronise,
    Interface,
    AddSender,
    RemoveSender,
    Reserve,
    Release,
    Route,
    Budget,
    Sent,
    Upcall,
    Installed,
}

const KINDS: [Kind; 15] = [
    Kind::Begin,
    Kind::Heard,
    Kind::Timers,
    Kind::RoutesChanged,
    Kind::Resynchronise,
    Kind::Interface,
    Kind::AddSender,
    Kind::RemoveSender,
    Kind::Reserve,
    Kind::Release,
    Kind::Route,
    Kind::Budget,
    Kind::Sent,
    Kind::Upcall,
    Kind::Installed,
];

pub(super) fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend(value.to_le_bytes());
}

pub(super) fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend(value.to_le_bytes());
}

/// 0, 4 or 6, and the address.
pub(super) fn put_address(out: &mut Vec<u8>, address: Option<IpAddr>) {
    match address {
        None => out.push(0),
        Some(IpAddr::V4(v4)) => {
            out.push(4);
            out.extend(v4.octets());
        }
        Some(IpAddr::V6(v6)) => {
            out.push(6);
            out.extend(v6.octets());
        }
    }
}

pub(super) fn write(out: &mut Vec<u8>, kind: Kind, at: Instant, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind as u8);
    put_u64(out, at.nanos());
    let length = out.len();
    put_u32(out, 0);
    body(out);
    let body = out.len() - length - 4;
    // A body is a message and a few fields.
    out[length..length + 4].copy_from_slice(&(body as u32).to_le_bytes());
}

/// An entry as it is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    pub(super) kind: Kind,
    pub(super) at: Instant,
    pub(super) body: Fields<'a>,
}

/// What is left of a body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn address(&mut self) -> Option<Option<IpAddr>> {
        Some(match self.u8()? {
            0 => None,
            4 => Some(IpAddr::V4(Ipv4Addr::from(self.array::<4>()?))),
            6 => Some(IpAddr::V6(Ipv6Addr::from(self.array::<16>()?))),
            _ => return None,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Reads entries; none where they are damaged.
pub(super) struct Entries<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Entries<'a> {
    type Item = Option<Entry<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let entry = self.read();
        if entry.is_none() {
            self.0 = &[];
        }
        Some(entry)
    }
}

impl<'a> Entries<'a> {
    fn read(&mut self) -> Option<Entry<'a>> {
        let mut fields = Fields(self.0);
        let kind = *KINDS.get(usize::from(fields.u8()?))?;
        let at = Instant::from_nanos(fields.u64()?);
        let length = usize::try_from(fields.u32()?).ok()?;
        let (body, rest) = fields.0.split_at_checked(length)?;
        self.0 = rest;
        Some(Entry {
            kind,
            at,
            body: Fields(body),
        })
    }
}
