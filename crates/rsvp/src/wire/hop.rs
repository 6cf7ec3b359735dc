//! RSVP_HOP, TIME_VALUES, SCOPE and RESV_CONFIRM (RFC 2205, appendices A.2, A.4, A.6 and A.14).

use super::object::{Object, family, read_address, write_address};
use super::reader::{Misread, Reader};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use engine::units::Duration;

/// RSVP_HOP: the node that sent a message, as PHOP or NHOP.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Hop {
    /// The address of its interface.
    pub address: IpAddr,
    /// The logical interface handle (LIH): in a Path, that of the outgoing interface; a Resv
    /// returns it.
    pub lih: u32,
}

impl Object for Hop {
    fn c_type(&self) -> u8 {
        family(self.address)
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_address(self.address, out);
        out.extend(self.lih.to_be_bytes());
    }

    fn read(c_type: u8, body: &mut Reader<'_>) -> Result<Self, Misread> {
        let address = read_address(c_type, body)?;
        let lih = body.u32()?;
        Ok(Self { address, lih })
    }
}

/// TIME_VALUES: the refresh period R of a node. Never zero, which would be state without a
/// lifetime.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Refresh(u32);

/// K of RFC 2205, section 3.7: state survives K - 1 lost refreshes in a row.
const K: u64 = 3;

impl Refresh {
    /// The longest R that is accepted of a neighbour unless a host configures another. TIME_VALUES
    /// has room for 49 days, with which one message would leave state for most of a year.
    pub const LONGEST_ACCEPTED: Self = Self(300_000);

    /// A period in milliseconds, at least one.
    pub const fn millis(ms: u32) -> Self {
        Self(if ms == 0 { 1 } else { ms })
    }

    /// The period in milliseconds.
    pub const fn as_millis(self) -> u32 {
        self.0
    }

    /// The period.
    pub const fn period(self) -> Duration {
        Duration::from_millis(self.0 as u64)
    }

    /// The lifetime L of state with this R: (K + 1/2) × 1.5 × R (RFC 2205, section 3.7).
    pub const fn lifetime(self) -> Duration {
        Duration::from_nanos(self.period().times((2 * K + 1) * 3).nanos() / 4)
    }
}

impl Object for Refresh {
    fn c_type(&self) -> u8 {
        1
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.0.to_be_bytes());
    }

    fn read(c_type: u8, body: &mut Reader<'_>) -> Result<Self, Misread> {
        match (c_type, body.u32()?) {
            (1, 0) => Err(Misread::Value),
            (1, ms) => Ok(Self(ms)),
            _ => Err(Misread::CType),
        }
    }
}

/// SCOPE: the senders to which a wildcard reservation is forwarded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Scope {
    /// IPv4 senders.
    V4(Vec<Ipv4Addr>),
    /// IPv6 senders.
    V6(Vec<Ipv6Addr>),
}

impl Object for Scope {
    fn c_type(&self) -> u8 {
        match self {
            Self::V4(_) => 1,
            Self::V6(_) => 2,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::V4(list) => out.extend(list.iter().flat_map(Ipv4Addr::octets)),
            Self::V6(list) => out.extend(list.iter().flat_map(Ipv6Addr::octets)),
        }
    }

    fn read(c_type: u8, body: &mut Reader<'_>) -> Result<Self, Misread> {
        match c_type {
            1 => body.all(Reader::v4).map(Self::V4),
            2 => body.all(Reader::v6).map(Self::V6),
            _ => Err(Misread::CType),
        }
    }
}

/// RESV_CONFIRM holds only the receiver's address.
impl Object for IpAddr {
    fn c_type(&self) -> u8 {
        family(*self)
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_address(*self, out);
    }

    fn read(c_type: u8, body: &mut Reader<'_>) -> Result<Self, Misread> {
        read_address(c_type, body)
    }
}
