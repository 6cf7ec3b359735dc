//! Interfaces, addresses and routes by routing netlink (RFC 3549; the kernel's `rtnetlink(7)`): a small
//! encoder, and a socket that turns the kernel's refusal into its own words (extended acknowledgements).
//!
//! Absent: listening to changes, and whatever a lab does not need.

use crate::error::{Doing, Error, Result};
use crate::sys::socket;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

const VETH_INFO_PEER: u16 = 1;
const IFLA_INET6_ADDR_GEN_MODE: u16 = 8;
const IN6_ADDR_GEN_MODE_NONE: u8 = 1;
const NLMSGERR_ATTR_MSG: u16 = 1;
const HEADER: usize = 16;

/// A message being written.
#[derive(Debug)]
struct Message(Vec<u8>);

impl Message {
    /// A request of this kind; `fixed` is the structure that follows the header.
    fn new(kind: u16, flags: i32, fixed: &[u8]) -> Self {
        let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK | flags) as u16;
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend(fixed);
        Self(bytes)
    }

    /// Adds an attribute.
    fn with(mut self, kind: u16, payload: &[u8]) -> Self {
        let len = (4 + payload.len()) as u16;
        self.0.extend(len.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(payload);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// Adds an attribute that is a text ending in zero.
    fn text(self, kind: u16, text: &str) -> Self {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        self.with(kind, &bytes)
    }

    fn number(self, kind: u16, n: u32) -> Self {
        self.with(kind, &n.to_ne_bytes())
    }

    /// Adds an attribute that holds attributes, after `head`.
    fn nest(mut self, kind: u16, head: &[u8], inside: impl FnOnce(Self) -> Self) -> Self {
        let start = self.0.len();
        self.0.extend([0; 2]);
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(head);
        let mut whole = inside(self);
        let len = (whole.0.len() - start) as u16;
        whole.0[start..start + 2].copy_from_slice(&len.to_ne_bytes());
        whole
    }

    /// The finished bytes.
    fn finish(mut self, sequence: u32) -> Vec<u8> {
        let len = self.0.len() as u32;
        self.0[..4].copy_from_slice(&len.to_ne_bytes());
        self.0[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.0
    }
}

/// `struct ifinfomsg`, with the flags to change.
fn link_head(index: u32, flags: u32, change: u32) -> [u8; 16] {
    let mut head = [0; 16];
    head[4..8].copy_from_slice(&index.to_ne_bytes());
    head[8..12].copy_from_slice(&flags.to_ne_bytes());
    head[12..].copy_from_slice(&change.to_ne_bytes());
    head
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    }
}

fn family(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => libc::AF_INET as u8,
        IpAddr::V6(_) => libc::AF_INET6 as u8,
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at + 4)?;
    word.try_into().ok().map(u32::from_ne_bytes)
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    let half = bytes.get(at..at + 2)?;
    half.try_into().ok().map(u16::from_ne_bytes)
}

/// The payload of the first attribute of this kind.
fn attribute(mut bytes: &[u8], kind: u16) -> Option<&[u8]> {
    loop {
        let len = usize::from(half(bytes, 0)?);
        if len < 4 {
            return None;
        }
        if half(bytes, 2)? == kind {
            return bytes.get(4..len);
        }
        bytes = bytes.get(len.next_multiple_of(4)..)?;
    }
}

/// What one message of an answer says.
enum Answer {
    Done,
    Refused(io::Error),
    Link(Vec<u8>),
}

/// Reads the first message of an answer.
fn read_answer(bytes: &[u8]) -> Option<(u32, Answer)> {
    let kind = half(bytes, 4)?;
    let flags = i32::from(half(bytes, 6)?);
    let sequence = word(bytes, 8)?;
    if i32::from(kind) != libc::NLMSG_ERROR {
        return Some((sequence, Answer::Link(bytes.get(HEADER..)?.to_vec())));
    }
    let code = word(bytes, HEADER)?.cast_signed();
    if code == 0 {
        return Some((sequence, Answer::Done));
    }
    let plain = io::Error::from_raw_os_error(-code);
    // The original message's header is repeated, then come the attributes.
    let text = (flags & libc::NLM_F_ACK_TLVS != 0)
        .then(|| attribute(bytes.get(HEADER + 4 + HEADER..)?, NLMSGERR_ATTR_MSG))
        .flatten()
        .map(|text| String::from_utf8_lossy(text).trim_end_matches('\0').to_string());
    let error = match text {
        Some(text) if !text.is_empty() => io::Error::new(plain.kind(), format!("{plain}: {text}")),
        _ => plain,
    };
    Some((sequence, Answer::Refused(error)))
}

/// A connection to the kernel about one network namespace.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

impl Netlink {
    /// About the namespace that the calling thread is in now; afterwards usable from anywhere.
    pub fn open() -> Result<Self> {
        let socket = socket::open_netlink().doing(|| "open a netlink socket".into())?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Sends a request and waits for its outcome; the answer's payload, if it has one.
    fn request(&mut self, message: Message) -> io::Result<Vec<u8>> {
        self.sequence += 1;
        socket::send(&self.socket, &message.finish(self.sequence))?;
        let mut buffer = vec![0; 32 << 10];
        let mut payload = Vec::new();
        loop {
            let len = socket::receive(&self.socket, &mut buffer)?;
            let mut rest = &buffer[..len];
            while let Some(size) = word(rest, 0).map(|n| n as usize).filter(|&n| n >= HEADER) {
                let this = &rest[..size.min(rest.len())];
                match read_answer(this) {
                    Some((sequence, _)) if sequence != self.sequence => {}
                    Some((_, Answer::Done)) => return Ok(payload),
                    Some((_, Answer::Refused(error))) => return Err(error),
                    Some((_, Answer::Link(answer))) => payload = answer,
                    None => return Err(io::Error::other("the kernel's answer is cut short")),
                }
                rest = rest.get(size.next_multiple_of(4)..).unwrap_or_default();
            }
        }
    }

    /// The number of an interface.
    pub fn index(&mut self, name: &str) -> Result<u32> {
        let message = Message::new(libc::RTM_GETLINK, 0, &link_head(0, 0, 0)).text(libc::IFLA_IFNAME, name);
        let answer = self
            .request(message)
            .doing(|| format!("find interface `{name}`"))?;
        word(&answer, 4).ok_or_else(|| Error::other(format!("find interface `{name}`"), "no answer"))
    }

    /// The Ethernet address of an interface.
    pub fn mac(&mut self, name: &str) -> Result<[u8; 6]> {
        let doing = || format!("read the Ethernet address of `{name}`");
        let message = Message::new(libc::RTM_GETLINK, 0, &link_head(0, 0, 0)).text(libc::IFLA_IFNAME, name);
        let answer = self.request(message).doing(doing)?;
        answer
            .get(16..)
            .and_then(|rest| attribute(rest, libc::IFLA_ADDRESS)?.try_into().ok())
            .ok_or_else(|| Error::other(doing(), "it has none"))
    }

    fn create(
        &mut self,
        name: &str,
        more: impl FnOnce(Message) -> Message,
        info: impl FnOnce(Message) -> Message,
    ) -> io::Result<Vec<u8>> {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let message = Message::new(libc::RTM_NEWLINK, flags, &link_head(0, 0, 0));
        let message = more(message.text(libc::IFLA_IFNAME, name));
        self.request(message.nest(libc::IFLA_LINKINFO, &[], info))
    }

    /// Makes a pair of joined interfaces, one here and one in another namespace.
    pub fn veth(&mut self, name: &str, peer: &str, namespace: BorrowedFd<'_>) -> Result<()> {
        self.veth_with_queues(name, peer, namespace, 1)
    }

    /// As [`veth`](Self::veth), each side with so many queues in each direction.
    pub fn veth_with_queues(
        &mut self,
        name: &str,
        peer: &str,
        namespace: BorrowedFd<'_>,
        queues: u32,
    ) -> Result<()> {
        let fd = namespace.as_raw_fd().cast_unsigned();
        let many = |message: Message| {
            message
                .number(libc::IFLA_NUM_TX_QUEUES, queues)
                .number(libc::IFLA_NUM_RX_QUEUES, queues)
        };
        let info = |info: Message| {
            let info = info.text(libc::IFLA_INFO_KIND, "veth");
            info.nest(libc::IFLA_INFO_DATA, &[], |data| {
                data.nest(VETH_INFO_PEER, &link_head(0, 0, 0), |other| {
                    many(other.text(libc::IFLA_IFNAME, peer)).number(libc::IFLA_NET_NS_FD, fd)
                })
            })
        };
        self.create(name, many, info)
            .doing(|| format!("make the pair of interfaces `{name}` and `{peer}`"))
            .map(drop)
    }

    /// Makes a bridge.
    pub fn bridge(&mut self, name: &str) -> Result<()> {
        let nothing = |message| message;
        self.create(name, nothing, |info| info.text(libc::IFLA_INFO_KIND, "bridge"))
            .doing(|| format!("make the bridge `{name}`"))
            .map(drop)
    }

    fn change(
        &mut self,
        name: &str,
        what: &str,
        flags: u32,
        message: impl FnOnce(Message) -> Message,
    ) -> Result<()> {
        let index = self.index(name)?;
        let start = Message::new(libc::RTM_NEWLINK, 0, &link_head(index, flags, flags));
        self.request(message(start))
            .doing(|| format!("{what} of interface `{name}`"))
            .map(drop)
    }

    /// Switches an interface on.
    pub fn up(&mut self, name: &str) -> Result<()> {
        self.change(name, "change the state", libc::IFF_UP as u32, |m| m)
    }

    /// Switches an interface off.
    pub fn down(&mut self, name: &str) -> Result<()> {
        let index = self.index(name)?;
        let head = link_head(index, 0, libc::IFF_UP as u32);
        self.request(Message::new(libc::RTM_NEWLINK, 0, &head))
            .doing(|| format!("change the state of interface `{name}`"))
            .map(drop)
    }

    /// Puts an interface under a bridge.
    pub fn enslave(&mut self, name: &str, bridge: &str) -> Result<()> {
        let master = self.index(bridge)?;
        self.change(name, "set the bridge", 0, |m| m.number(libc::IFLA_MASTER, master))
    }

    /// Sets the longest packet, Ethernet header not counted.
    pub fn mtu(&mut self, name: &str, mtu: u32) -> Result<()> {
        self.change(name, "set the MTU", 0, |m| m.number(libc::IFLA_MTU, mtu))
    }

    /// Limits how many segments the host puts into one super-frame; 1 switches them off.
    pub fn gso_max_segs(&mut self, name: &str, segments: u32) -> Result<()> {
        self.change(name, "limit the super-frames", 0, |m| {
            m.number(libc::IFLA_GSO_MAX_SEGS, segments)
        })
    }

    /// Moves an interface into another namespace.
    pub fn move_to(&mut self, name: &str, namespace: BorrowedFd<'_>) -> Result<()> {
        let fd = namespace.as_raw_fd().cast_unsigned();
        self.change(name, "change the namespace", 0, |m| {
            m.number(libc::IFLA_NET_NS_FD, fd)
        })
    }

    /// Keeps the kernel from giving the interface an IPv6 address of its own accord: for interfaces that
    /// carry frames and are no one's address.
    pub fn no_link_local(&mut self, name: &str) -> Result<()> {
        self.change(name, "switch off the link-local address", 0, |m| {
            m.nest(libc::IFLA_AF_SPEC, &[], |families| {
                families.nest(libc::AF_INET6 as u16, &[], |inet6| {
                    inet6.with(IFLA_INET6_ADDR_GEN_MODE, &[IN6_ADDR_GEN_MODE_NONE])
                })
            })
        })
    }

    /// Removes an interface; a pair's other end goes with it.
    pub fn delete(&mut self, name: &str) -> Result<()> {
        let index = self.index(name)?;
        self.request(Message::new(libc::RTM_DELLINK, 0, &link_head(index, 0, 0)))
            .doing(|| format!("remove interface `{name}`"))
            .map(drop)
    }

    /// Gives an interface an address. IPv6 addresses are usable at once: no one else can have them.
    pub fn address(&mut self, name: &str, address: IpAddr, prefix: u8) -> Result<()> {
        let index = self.index(name)?;
        let flags = match address {
            IpAddr::V4(_) => 0,
            IpAddr::V6(_) => libc::IFA_F_NODAD as u8,
        };
        let mut head = vec![family(address), prefix, flags, libc::RT_SCOPE_UNIVERSE];
        head.extend(index.to_ne_bytes());
        let message = Message::new(libc::RTM_NEWADDR, libc::NLM_F_CREATE | libc::NLM_F_REPLACE, &head)
            .with(libc::IFA_LOCAL, &octets(address))
            .with(libc::IFA_ADDRESS, &octets(address));
        self.request(message)
            .doing(|| format!("give interface `{name}` the address {address}/{prefix}"))
            .map(drop)
    }

    /// Adds a route: what goes to this prefix goes to that gateway.
    pub fn route(&mut self, to: IpAddr, prefix: u8, gateway: IpAddr) -> Result<()> {
        let head = [
            family(to),
            prefix,
            0,
            0,
            libc::RT_TABLE_MAIN,
            libc::RTPROT_STATIC,
            libc::RT_SCOPE_UNIVERSE,
            libc::RTN_UNICAST,
            0,
            0,
            0,
            0,
        ];
        let mut message = Message::new(
            libc::RTM_NEWROUTE,
            libc::NLM_F_CREATE | libc::NLM_F_REPLACE,
            &head,
        )
        .with(libc::RTA_GATEWAY, &octets(gateway));
        if prefix > 0 {
            message = message.with(libc::RTA_DST, &octets(to));
        }
        self.request(message)
            .doing(|| format!("add a route to {to}/{prefix} by {gateway}"))
            .map(drop)
    }

    /// Says which Ethernet address a neighbour has, for good, so that no ARP is needed.
    pub fn neighbour(&mut self, name: &str, address: IpAddr, mac: [u8; 6]) -> Result<()> {
        let index = self.index(name)?;
        let mut head = vec![family(address), 0, 0, 0];
        head.extend(index.to_ne_bytes());
        head.extend(libc::NUD_PERMANENT.to_ne_bytes());
        head.extend([0, libc::RTN_UNICAST]);
        let message = Message::new(
            libc::RTM_NEWNEIGH,
            libc::NLM_F_CREATE | libc::NLM_F_REPLACE,
            &head,
        )
        .with(libc::NDA_DST, &octets(address))
        .with(libc::NDA_LLADDR, &mac);
        self.request(message)
            .doing(|| format!("add the neighbour {address} on interface `{name}`"))
            .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_attributes_carry_their_length_and_are_padded() {
        let bytes = Message::new(libc::RTM_NEWLINK, 0, &[])
            .nest(libc::IFLA_LINKINFO, &[], |m| m.text(libc::IFLA_INFO_KIND, "veth"))
            .finish(7);
        assert_eq!(word(&bytes, 0), Some(16 + 4 + 12), "4 + 5 bytes, padded to 12");
        assert_eq!(word(&bytes, 8), Some(7));
        let info = attribute(&bytes[HEADER..], libc::IFLA_LINKINFO).expect("the nest");
        assert_eq!(attribute(info, libc::IFLA_INFO_KIND), Some(&b"veth\0"[..]));
    }

    #[test]
    fn a_cut_answer_is_refused_without_panic() {
        let whole = Message::new(libc::NLMSG_ERROR as u16, libc::NLM_F_ACK_TLVS, &[1; 24])
            .text(NLMSGERR_ATTR_MSG, "why")
            .finish(1);
        for len in 0..whole.len() {
            let _ = read_answer(&whole[..len]);
        }
        assert!(matches!(read_answer(&whole), Some((1, Answer::Refused(_)))));
    }
}
