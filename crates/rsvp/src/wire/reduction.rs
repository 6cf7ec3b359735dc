//! MESSAGE_ID, MESSAGE_ID_ACK and MESSAGE_ID LIST (RFC 2961, sections 4 and 5).

use super::object::Object;
use super::reader::{Misread, Reader};
use core::net::{Ipv4Addr, Ipv6Addr};

const EPOCH: u32 = 0x00ff_ffff;
const ACK_DESIRED: u32 = 1 << 24;

/// MESSAGE_ID: identifies a message, so that a refresh need not repeat it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MessageId {
    /// ACK_Desired.
    pub ack_desired: bool,
    /// The epoch of the sender: changes when it restarts; 24 bits.
    pub epoch: u32,
    /// The message identifier.
    pub id: u32,
}

impl Object for MessageId {
    fn c_type(&self) -> u8 {
        1
    }

    fn write(&self, out: &mut Vec<u8>) {
        let flags = if self.ack_desired { ACK_DESIRED } else { 0 };
        out.extend((flags | self.epoch & EPOCH).to_be_bytes());
        out.extend(self.id.to_be_bytes());
    }

    fn read(c_type: u8, body: &mut Reader<'_>) -> Result<Self, Misread> {
        if c_type != 1 {
            return Err(Misread::CType);
        }
        let (word, id) = (body.u32()?, body.u32()?);
        Ok(Self {
            ack_desired: word & ACK_DESIRED != 0,
            epoch: word & EPOCH,
            id,
        })
    }
}

/// MESSAGE_ID_ACK, or MESSAGE_ID_NACK for an unknown MESSAGE_ID.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MessageIdAck {
    /// Whether the MESSAGE_ID is known: an ACK, not a NACK.
    pub known: bool,
    /// The epoch of the MESSAGE_ID; 24 bits.
    pub epoch: u32,
    /// The message identifier.
    pub id: u32,
}

impl Object for MessageIdAck {
    fn c_type(&self) -> u8 {
        if self.known { 1 } else { 2 }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend((self.epoch & EPOCH).to_be_bytes());
        out.extend(self.id.to_be_bytes());
    }

    fn read(c_type: u8, body: &mut Reader<'_>) -> Result<Self, Misread> {
        let known = match c_type {
            1 => true,
            2 => false,
            _ => return Err(Misread::CType),
        };
        let (epoch, id) = (body.u32()? & EPOCH, body.u32()?);
        Ok(Self { known, epoch, id })
    }
}

/// The entries of a MESSAGE_ID LIST; those for multicast sessions carry addresses too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MessageIds {
    /// MESSAGE_ID LIST: identifiers of the neighbour that sends it.
    Neighbour(Vec<u32>),
    /// IPv4 MESSAGE_ID SRC_LIST: with source addresses.
    SourceV4(Vec<(u32, Ipv4Addr)>),
    /// IPv6 MESSAGE_ID SRC_LIST: with source addresses.
    SourceV6(Vec<(u32, Ipv6Addr)>),
    /// IPv4 MESSAGE_ID MCAST_LIST: with source and group addresses.
    GroupV4(Vec<(u32, Ipv4Addr, Ipv4Addr)>),
    /// IPv6 MESSAGE_ID MCAST_LIST: with source and group addresses.
    GroupV6(Vec<(u32, Ipv6Addr, Ipv6Addr)>),
}

/// One MESSAGE_ID LIST of a summary refresh.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MessageIdList {
    /// The epoch of all its identifiers; 24 bits.
    pub epoch: u32,
    /// The identifiers.
    pub ids: MessageIds,
}

impl Object for MessageIdList {
    fn c_type(&self) -> u8 {
        match self.ids {
            MessageIds::Neighbour(_) => 1,
            MessageIds::SourceV4(_) => 2,
            MessageIds::SourceV6(_) => 3,
            MessageIds::GroupV4(_) => 4,
            MessageIds::GroupV6(_) => 5,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend((self.epoch & EPOCH).to_be_bytes());
        match &self.ids {
            MessageIds::Neighbour(list) => out.extend(list.iter().flat_map(|id| id.to_be_bytes())),
            MessageIds::SourceV4(list) => {
                for (id, source) in list {
                    out.extend(id.to_be_bytes());
                    out.extend(source.octets());
                }
            }
            MessageIds::SourceV6(list) => {
                for (id, source) in list {
                    out.extend(id.to_be_bytes());
                    out.extend(source.octets());
                }
            }
            MessageIds::GroupV4(list) => {
                for (id, source, group) in list {
                    out.extend(id.to_be_bytes());
                    out.extend(source.octets());
                    out.extend(group.octets());
                }
            }
            MessageIds::GroupV6(list) => {
                for (id, source, group) in list {
                    out.extend(id.to_be_bytes());
                    out.extend(source.octets());
                    out.extend(group.octets());
                }
            }
        }
    }

    fn read(c_type: u8, body: &mut Reader<'_>) -> Result<Self, Misread> {
        let epoch = body.u32()? & EPOCH;
        let ids = match c_type {
            1 => MessageIds::Neighbour(body.all(Reader::u32)?),
            2 => MessageIds::SourceV4(body.all(|b| Ok((b.u32()?, b.v4()?)))?),
            3 => MessageIds::SourceV6(body.all(|b| Ok((b.u32()?, b.v6()?)))?),
            4 => MessageIds::GroupV4(body.all(|b| Ok((b.u32()?, b.v4()?, b.v4()?)))?),
            5 => MessageIds::GroupV6(body.all(|b| Ok((b.u32()?, b.v6()?, b.v6()?)))?),
            _ => return Err(Misread::CType),
        };
        Ok(Self { epoch, ids })
    }
}
