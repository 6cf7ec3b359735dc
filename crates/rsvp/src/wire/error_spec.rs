//! ERROR_SPEC with its codes and values (RFC 2205, appendices A.5 and B).

use super::object::{Object, family, read_address, write_address};
use super::reader::{Misread, Reader};
use core::net::IpAddr;

/// An error code and its value (RFC 2205, appendix B).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ErrorCode {
    /// One of [`code`].
    pub code: u8,
    /// Details; their meaning depends on the code, see [`value`].
    pub value: u16,
}

impl ErrorCode {
    /// An error of this code and value.
    pub const fn new(code: u8, value: u16) -> Self {
        Self { code, value }
    }
}

/// ERROR_SPEC: an error, and the node that detected it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ErrorSpec {
    /// The node that detected it.
    pub node: IpAddr,
    /// InPlace: an earlier reservation stays in force.
    pub in_place: bool,
    /// NotGuilty: this receiver requested less than what failed. Set only in upcalls to
    /// applications.
    pub not_guilty: bool,
    /// One of [`code`].
    pub code: u8,
    /// Details; their meaning depends on the code.
    pub value: u16,
}

impl ErrorSpec {
    /// An error that this node detected, without flags.
    pub const fn new(node: IpAddr, error: ErrorCode) -> Self {
        Self {
            node,
            in_place: false,
            not_guilty: false,
            code: error.code,
            value: error.value,
        }
    }
}

/// Error codes.
pub mod code {
    /// No error: the contents of a ResvConf.
    pub const CONFIRMATION: u8 = 0;
    /// Admission control refused.
    pub const ADMISSION: u8 = 1;
    /// Policy control refused.
    pub const POLICY: u8 = 2;
    /// There is no path state for this Resv.
    pub const NO_PATH: u8 = 3;
    /// There is path state, but for none of the senders that this Resv names.
    pub const NO_SENDER: u8 = 4;
    /// Another style is in place; the value is the low half of its option vector.
    pub const CONFLICTING_STYLE: u8 = 5;
    /// Unknown style.
    pub const UNKNOWN_STYLE: u8 = 6;
    /// Zero and non-zero destination ports for one destination and protocol.
    pub const CONFLICTING_DESTINATION_PORTS: u8 = 7;
    /// SenderTemplate ports zero and non-zero in one session.
    pub const CONFLICTING_SENDER_PORTS: u8 = 8;
    /// The reservation was preempted by a more important one.
    pub const PREEMPTED: u8 = 12;
    /// Unknown object class; the value is class and C-Type.
    pub const UNKNOWN_CLASS: u8 = 13;
    /// Unknown C-Type; the value is class and C-Type.
    pub const UNKNOWN_C_TYPE: u8 = 14;
    /// Traffic control does not accept the request.
    pub const TRAFFIC_CONTROL: u8 = 21;
    /// Traffic control failed.
    pub const TRAFFIC_CONTROL_SYSTEM: u8 = 22;
    /// RSVP itself failed.
    pub const SYSTEM: u8 = 23;
}

/// Values of [`code::ADMISSION`] and [`code::TRAFFIC_CONTROL`].
pub mod value {
    /// Admission: the delay cannot be met.
    pub const DELAY: u16 = 1;
    /// Admission: the bandwidth is not available.
    pub const BANDWIDTH: u16 = 2;
    /// Admission: the largest packet exceeds the MTU of the interface.
    pub const MTU: u16 = 3;
    /// Traffic control: the service cannot be merged with the one in place.
    pub const SERVICE_CONFLICT: u16 = 1;
    /// Traffic control: the service is not offered.
    pub const SERVICE_UNSUPPORTED: u16 = 2;
    /// Traffic control: bad flowspec.
    pub const BAD_FLOWSPEC: u16 = 3;
    /// Traffic control: bad Tspec.
    pub const BAD_TSPEC: u16 = 4;
    /// Traffic control: bad Adspec.
    pub const BAD_ADSPEC: u16 = 5;
}

const IN_PLACE: u8 = 1;
const NOT_GUILTY: u8 = 2;

impl Object for ErrorSpec {
    fn c_type(&self) -> u8 {
        family(self.node)
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_address(self.node, out);
        let in_place = if self.in_place { IN_PLACE } else { 0 };
        let not_guilty = if self.not_guilty { NOT_GUILTY } else { 0 };
        out.extend([in_place | not_guilty, self.code]);
        out.extend(self.value.to_be_bytes());
    }

    fn read(c_type: u8, body: &mut Reader<'_>) -> Result<Self, Misread> {
        let node = read_address(c_type, body)?;
        let flags = body.u8()?;
        Ok(Self {
            node,
            in_place: flags & IN_PLACE != 0,
            not_guilty: flags & NOT_GUILTY != 0,
            code: body.u8()?,
            value: body.u16()?,
        })
    }
}
