//! SESSION, and the common format of FILTER_SPEC and SENDER_TEMPLATE (RFC 2205, appendices A.1, A.9
//! and A.10).

use super::object::{Object, family, read_address, write_address};
use super::reader::{Misread, Reader};
use core::net::{IpAddr, Ipv6Addr};

/// SESSION: a data flow with a destination and a protocol.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Session {
    /// DestAddress, unicast or multicast.
    pub destination: IpAddr,
    /// The transport protocol; never 0.
    pub protocol: u8,
    /// DstPort; 0 where the protocol has no ports.
    pub port: u16,
    /// E_Police: no node so far polices the traffic of the sender.
    pub police: bool,
}

const E_POLICE: u8 = 1;

impl Object for Session {
    fn c_type(&self) -> u8 {
        family(self.destination)
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_address(self.destination, out);
        out.push(self.protocol);
        out.push(if self.police { E_POLICE } else { 0 });
        out.extend(self.port.to_be_bytes());
    }

    fn read(c_type: u8, body: &mut Reader<'_>) -> Result<Self, Misread> {
        let destination = read_address(c_type, body)?;
        let protocol = body.u8()?;
        if protocol == 0 {
            return Err(Misread::Value);
        }
        let police = body.u8()? & E_POLICE != 0;
        let port = body.u16()?;
        Ok(Self {
            destination,
            protocol,
            port,
            police,
        })
    }
}

/// SENDER_TEMPLATE and FILTER_SPEC: one sender of a session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SenderTemplate {
    /// A host and a source port; 0 where the protocol has no ports.
    Port {
        /// The source address.
        address: IpAddr,
        /// The source port.
        port: u16,
    },
    /// An IPv6 host and a 20-bit flow label.
    FlowLabel {
        /// The source address.
        address: Ipv6Addr,
        /// The flow label.
        label: u32,
    },
}

impl SenderTemplate {
    /// The source address.
    pub const fn address(&self) -> IpAddr {
        match self {
            Self::Port { address, .. } => *address,
            Self::FlowLabel { address, .. } => IpAddr::V6(*address),
        }
    }
}

impl Object for SenderTemplate {
    fn c_type(&self) -> u8 {
        match self {
            Self::Port { address, .. } => family(*address),
            Self::FlowLabel { .. } => 3,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_address(self.address(), out);
        match self {
            Self::Port { port, .. } => out.extend(u32::from(*port).to_be_bytes()),
            Self::FlowLabel { label, .. } => out.extend((label & 0x000f_ffff).to_be_bytes()),
        }
    }

    fn read(c_type: u8, body: &mut Reader<'_>) -> Result<Self, Misread> {
        if c_type == 3 {
            let address = body.v6()?;
            // An unused byte, and four unused bits above the label.
            let label = body.u32()? & 0x000f_ffff;
            return Ok(Self::FlowLabel { address, label });
        }
        let address = read_address(c_type, body)?;
        let (_unused, port) = (body.u16()?, body.u16()?);
        Ok(Self::Port { address, port })
    }
}
