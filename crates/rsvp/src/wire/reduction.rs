//! MESSAGE_ID, its acknowledgements and its lists (RFC 2961, sections 4 and 5).

use super::object::Object;
use super::reader::{Misread, Reader};
use core::net::{Ipv4Addr, Ipv6Addr};

const EPOCH: u32 = 0x00ff_ffff;
const ACK_DESIRED: u32 = 1 << 24;

/// Names a message, so that a refresh need only say the name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MessageId {
    /// The sender wants to hear that it arrived.
    pub ack_desired: bool,
    /// Changes when the sender restarts; 24 bits.
    pub epoch: u32,
    /// The number.
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

/// MESSAGE_ID_ACK, or MESSAGE_ID_NACK for a name that is not known.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MessageIdAck {
    /// Known, and therefore acknowledged.
    pub known: bool,
    /// The epoch of the name; 24 bits.
    pub epoch: u32,
    /// The number.
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

/// The names of MESSAGE_ID_LIST, with what else tells them apart where they went to a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MessageIds {
    /// Of the neighbour that sends the list.
    Neighbour(Vec<u32>),
    /// With their IPv4 sources.
    SourceV4(Vec<(u32, Ipv4Addr)>),
    /// With their IPv6 sources.
    SourceV6(Vec<(u32, Ipv6Addr)>),
    /// With IPv4 sources and groups.
    GroupV4(Vec<(u32, Ipv4Addr, Ipv4Addr)>),
    /// With IPv6 sources and groups.
    GroupV6(Vec<(u32, Ipv6Addr, Ipv6Addr)>),
}

/// One MESSAGE_ID_LIST of a summary refresh.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MessageIdList {
    /// The epoch of all names in the list; 24 bits.
    pub epoch: u32,
    /// The names.
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
