//! Paths as a flood sends them.

use core::net::{IpAddr, Ipv4Addr};
use rsvp::wire::{
    Content, Frame, Hop, Message, MessageId, Path, Real, Refresh, SenderDescriptor, SenderTemplate, Session,
    TokenBucket,
};

pub(crate) const TTL: u8 = 64;

/// An address that nobody has.
pub(crate) const fn invented(number: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(0x0a80_0000 + number))
}

/// A session with the receiver behind us.
pub(crate) const fn session(port: u16) -> Session {
    Session {
        destination: IpAddr::V4(Ipv4Addr::new(10, 9, 0, 2)),
        protocol: 17,
        port,
        police: false,
    }
}

/// A Tspec of 1 Mbit/s.
pub(crate) fn bucket() -> TokenBucket {
    TokenBucket {
        rate: Real::nearest(125_000),
        bucket: Real::nearest(3000),
        peak: Real::INFINITE,
        minimum: 64,
        maximum: 1500,
    }
}

/// A Path of this sender, with this previous hop and R.
pub(crate) fn path(session: Session, sender: SenderTemplate, hop: IpAddr, refresh: Refresh) -> Path {
    Path {
        session,
        hop: Hop { address: hop, lih: 7 },
        refresh,
        policy: Vec::new(),
        sender: SenderDescriptor {
            template: sender,
            tspec: Content::Known(bucket()),
            adspec: None,
        },
    }
}

/// The same as a message that supports refresh reduction, with a MESSAGE_ID.
pub(crate) fn numbered(path: Path, id: u32) -> Frame {
    Frame {
        refresh_reduction: true,
        message_id: Some(MessageId {
            ack_desired: true,
            epoch: 9,
            id,
        }),
        ..Frame::plain(TTL, Message::Path(path))
    }
}
