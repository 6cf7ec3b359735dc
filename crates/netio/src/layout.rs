//! Where the headers of a frame begin: what segmentation, ECN marks and lengths need, and no more.
//!
//! The classifier reads addresses and ports by itself ([`engine`]); this reads no field that it does not need
//! to walk on. Up to two VLAN tags, IPv4 options and IPv6 extension headers are passed over (RFC 8200,
//! section 4). Anything else, cut off or malformed, has no layout.

/// The protocol number of TCP.
pub const TCP: u8 = 6;
/// The protocol number of UDP.
pub const UDP: u8 = 17;

/// Where the headers of an IP packet in a frame begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// The IP header.
    pub network: usize,
    /// Whether it is IPv6.
    pub v6: bool,
    /// What follows the IP header with its options or extensions.
    pub transport: usize,
    /// Its protocol.
    pub protocol: u8,
}

fn word(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]))
}

/// Where the IP header begins, and whether it is IPv6.
pub fn network(frame: &[u8]) -> Option<(usize, bool)> {
    let mut at = 12;
    for _ in 0..3 {
        match word(frame, at)? {
            0x8100 | 0x88a8 => at += 4,
            0x0800 => return Some((at + 2, false)),
            0x86dd => return Some((at + 2, true)),
            _ => return None,
        }
    }
    None
}

impl Layout {
    /// The layout of a frame; `None` if it is no IP packet, a later fragment, or cut off.
    pub fn of(frame: &[u8]) -> Option<Self> {
        let (network, v6) = network(frame)?;
        if v6 {
            Self::of_v6(frame, network)
        } else {
            Self::of_v4(frame, network)
        }
    }

    fn of_v4(frame: &[u8], network: usize) -> Option<Self> {
        let header = frame.get(network..network + 20)?;
        let words = usize::from(header[0] & 15);
        let first_fragment = word(header, 6)? & 0x1fff == 0;
        let transport = network + words * 4;
        let good = header[0] >> 4 == 4 && words >= 5 && first_fragment && transport <= frame.len();
        good.then_some(Self {
            network,
            v6: false,
            transport,
            protocol: header[9],
        })
    }

    fn of_v6(frame: &[u8], network: usize) -> Option<Self> {
        let header = frame.get(network..network + 40)?;
        if header[0] >> 4 != 6 {
            return None;
        }
        let (mut protocol, mut transport) = (header[6], network + 40);
        // Hop-by-hop, routing, destination options; bounded, since garbage may point anywhere.
        for _ in 0..8 {
            if !matches!(protocol, 0 | 43 | 60) {
                return (transport <= frame.len() && protocol != 44).then_some(Self {
                    network,
                    v6: true,
                    transport,
                    protocol,
                });
            }
            let next = *frame.get(transport)?;
            transport += (usize::from(*frame.get(transport + 1)?) + 1) * 8;
            protocol = next;
        }
        None
    }

    /// Where the payload of TCP or UDP begins; `None` for other protocols, or cut off.
    pub fn payload(&self, frame: &[u8]) -> Option<usize> {
        let length = match self.protocol {
            TCP => usize::from(frame.get(self.transport + 12)? >> 4) * 4,
            UDP => 8,
            _ => return None,
        };
        let payload = self.transport + length;
        (length >= 8 && payload <= frame.len()).then_some(payload)
    }
}
