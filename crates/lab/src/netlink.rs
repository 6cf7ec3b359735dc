//! Configures the interfaces, addresses and routes of a lab by routing netlink; only what a lab
//! needs.

use crate::error::{Doing, Error, Result};
use netio::netlink::{self, NetlinkRequest, attribute, word};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

const VETH_INFO_PEER: u16 = 1;
const IFLA_INET6_ADDR_GEN_MODE: u16 = 8;
const IN6_ADDR_GEN_MODE_NONE: u8 = 1;

/// `struct ifinfomsg`, with the flags and the mask of those to change.
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

/// A netlink socket of one network namespace.
#[derive(Debug)]
pub struct LabNetlink(netlink::Netlink);

impl LabNetlink {
    /// For the current namespace of the calling thread; the socket stays in that namespace.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses a netlink socket.
    pub fn open() -> Result<Self> {
        netlink::Netlink::open()
            .doing(|| "open a netlink socket".into())
            .map(Self)
    }

    /// Sends a request and waits for the answer; returns its payload, which may be empty.
    fn request(&mut self, message: NetlinkRequest) -> io::Result<Vec<u8>> {
        self.0.ask(message)
    }

    /// The index of an interface.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such interface, or the kernel's answer is malformed.
    pub fn index(&mut self, name: &str) -> Result<u32> {
        let message =
            NetlinkRequest::new(libc::RTM_GETLINK, 0, &link_head(0, 0, 0)).text(libc::IFLA_IFNAME, name);
        let answer = self
            .request(message)
            .doing(|| format!("find interface `{name}`"))?;
        word(&answer, 4).ok_or_else(|| Error::other(format!("find interface `{name}`"), "no answer"))
    }

    /// The Ethernet address of an interface.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such interface, or it has no Ethernet address.
    pub fn mac(&mut self, name: &str) -> Result<[u8; 6]> {
        let doing = || format!("read the Ethernet address of `{name}`");
        let message =
            NetlinkRequest::new(libc::RTM_GETLINK, 0, &link_head(0, 0, 0)).text(libc::IFLA_IFNAME, name);
        let answer = self.request(message).doing(doing)?;
        answer
            .get(16..)
            .and_then(|rest| attribute(rest, libc::IFLA_ADDRESS)?.try_into().ok())
            .ok_or_else(|| Error::other(doing(), "it has none"))
    }

    fn create(
        &mut self,
        name: &str,
        more: impl FnOnce(NetlinkRequest) -> NetlinkRequest,
        info: impl FnOnce(NetlinkRequest) -> NetlinkRequest,
    ) -> io::Result<Vec<u8>> {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let message = NetlinkRequest::new(libc::RTM_NEWLINK, flags, &link_head(0, 0, 0));
        let message = more(message.text(libc::IFLA_IFNAME, name));
        self.request(message.nest(libc::IFLA_LINKINFO, info))
    }

    /// Makes a veth pair, one end here and one in another namespace.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses the pair, for example because a name is taken.
    pub fn veth(&mut self, name: &str, peer: &str, namespace: BorrowedFd<'_>) -> Result<()> {
        self.veth_with_queues(name, peer, namespace, 1)
    }

    /// As [`veth`](Self::veth), with this number of queues per side and direction.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses the pair, for example because a name is taken.
    pub fn veth_with_queues(
        &mut self,
        name: &str,
        peer: &str,
        namespace: BorrowedFd<'_>,
        queues: u32,
    ) -> Result<()> {
        let fd = namespace.as_raw_fd().cast_unsigned();
        let many = |message: NetlinkRequest| {
            message
                .number(libc::IFLA_NUM_TX_QUEUES, queues)
                .number(libc::IFLA_NUM_RX_QUEUES, queues)
        };
        let info = |info: NetlinkRequest| {
            let info = info.text(libc::IFLA_INFO_KIND, "veth");
            info.nest(libc::IFLA_INFO_DATA, |data| {
                data.nest(VETH_INFO_PEER, |other| {
                    let other = other.raw(&link_head(0, 0, 0)).text(libc::IFLA_IFNAME, peer);
                    many(other).number(libc::IFLA_NET_NS_FD, fd)
                })
            })
        };
        self.create(name, many, info)
            .doing(|| format!("make the pair of interfaces `{name}` and `{peer}`"))
            .map(drop)
    }

    /// Makes a bridge.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses the bridge, for example because the name is taken.
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
        message: impl FnOnce(NetlinkRequest) -> NetlinkRequest,
    ) -> Result<()> {
        let index = self.index(name)?;
        let start = NetlinkRequest::new(libc::RTM_NEWLINK, 0, &link_head(index, flags, flags));
        self.request(message(start))
            .doing(|| format!("{what} of interface `{name}`"))
            .map(drop)
    }

    /// Brings an interface up.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such interface, or the kernel refuses the change.
    pub fn up(&mut self, name: &str) -> Result<()> {
        self.change(name, "change the state", libc::IFF_UP as u32, |m| m)
    }

    /// Brings an interface down.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such interface, or the kernel refuses the change.
    pub fn down(&mut self, name: &str) -> Result<()> {
        let index = self.index(name)?;
        let head = link_head(index, 0, libc::IFF_UP as u32);
        self.request(NetlinkRequest::new(libc::RTM_NEWLINK, 0, &head))
            .doing(|| format!("change the state of interface `{name}`"))
            .map(drop)
    }

    /// Makes an interface a port of a bridge.
    ///
    /// # Errors
    ///
    /// Returns an error if either interface does not exist, or the kernel refuses the change.
    pub fn enslave(&mut self, name: &str, bridge: &str) -> Result<()> {
        let master = self.index(bridge)?;
        self.change(name, "set the bridge", 0, |m| m.number(libc::IFLA_MASTER, master))
    }

    /// Sets the MTU.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such interface, or the kernel refuses this MTU.
    pub fn mtu(&mut self, name: &str, mtu: u32) -> Result<()> {
        self.change(name, "set the MTU", 0, |m| m.number(libc::IFLA_MTU, mtu))
    }

    /// Gives an interface another name.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such interface, the name is taken, or the interface is up
    /// and the kernel refuses to rename it therefore.
    pub fn rename(&mut self, name: &str, to: &str) -> Result<()> {
        self.change(name, "rename it", 0, |m| m.text(libc::IFLA_IFNAME, to))
    }

    /// Limits the segments in one super-frame; 1 switches super-frames off.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such interface, or the kernel refuses this limit.
    pub fn gso_max_segs(&mut self, name: &str, segments: u32) -> Result<()> {
        self.change(name, "limit the super-frames", 0, |m| {
            m.number(libc::IFLA_GSO_MAX_SEGS, segments)
        })
    }

    /// Moves an interface into another namespace.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such interface, or the kernel refuses to move it there.
    pub fn move_to(&mut self, name: &str, namespace: BorrowedFd<'_>) -> Result<()> {
        let fd = namespace.as_raw_fd().cast_unsigned();
        self.change(name, "change the namespace", 0, |m| {
            m.number(libc::IFLA_NET_NS_FD, fd)
        })
    }

    /// Disables the link-local IPv6 address of an interface that only carries frames.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such interface, or the kernel refuses the change.
    pub fn no_link_local(&mut self, name: &str) -> Result<()> {
        self.change(name, "switch off the link-local address", 0, |m| {
            m.nest(libc::IFLA_AF_SPEC, |families| {
                families.nest(libc::AF_INET6 as u16, |inet6| {
                    inet6.with(IFLA_INET6_ADDR_GEN_MODE, &[IN6_ADDR_GEN_MODE_NONE])
                })
            })
        })
    }

    /// Removes an interface, and with it the other end of a veth pair.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such interface, or the kernel refuses to remove it.
    pub fn delete(&mut self, name: &str) -> Result<()> {
        let index = self.index(name)?;
        self.request(NetlinkRequest::new(libc::RTM_DELLINK, 0, &link_head(index, 0, 0)))
            .doing(|| format!("remove interface `{name}`"))
            .map(drop)
    }

    /// Gives an interface an address. IPv6 addresses are usable at once, without duplicate address
    /// detection.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such interface, or the kernel refuses the address.
    pub fn address(&mut self, name: &str, address: IpAddr, prefix: u8) -> Result<()> {
        let index = self.index(name)?;
        let flags = match address {
            IpAddr::V4(_) => 0,
            IpAddr::V6(_) => libc::IFA_F_NODAD as u8,
        };
        let mut head = vec![family(address), prefix, flags, libc::RT_SCOPE_UNIVERSE];
        head.extend(index.to_ne_bytes());
        let message = NetlinkRequest::new(libc::RTM_NEWADDR, libc::NLM_F_CREATE | libc::NLM_F_REPLACE, &head)
            .with(libc::IFA_LOCAL, &octets(address))
            .with(libc::IFA_ADDRESS, &octets(address));
        self.request(message)
            .doing(|| format!("give interface `{name}` the address {address}/{prefix}"))
            .map(drop)
    }

    /// Adds a route to this prefix through that gateway.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses the route, for example because it cannot reach the
    /// gateway.
    pub fn route(&mut self, to: IpAddr, prefix: u8, gateway: IpAddr) -> Result<()> {
        self.route_from(None, to, prefix, gateway)
    }

    /// The same; connections that this host begins have the address `source`, if given.
    ///
    /// # Errors
    ///
    /// As [`route`](Self::route).
    pub fn route_from(
        &mut self,
        source: Option<IpAddr>,
        to: IpAddr,
        prefix: u8,
        gateway: IpAddr,
    ) -> Result<()> {
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
        let mut message = NetlinkRequest::new(
            libc::RTM_NEWROUTE,
            libc::NLM_F_CREATE | libc::NLM_F_REPLACE,
            &head,
        )
        .with(libc::RTA_GATEWAY, &octets(gateway));
        if prefix > 0 {
            message = message.with(libc::RTA_DST, &octets(to));
        }
        if let Some(source) = source {
            message = message.with(libc::RTA_PREFSRC, &octets(source));
        }
        self.request(message)
            .doing(|| format!("add a route to {to}/{prefix} by {gateway}"))
            .map(drop)
    }

    /// Adds a permanent neighbour entry, so that no ARP is needed.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such interface, or the kernel refuses the entry.
    pub fn neighbour(&mut self, name: &str, address: IpAddr, mac: [u8; 6]) -> Result<()> {
        let index = self.index(name)?;
        let mut head = vec![family(address), 0, 0, 0];
        head.extend(index.to_ne_bytes());
        head.extend(libc::NUD_PERMANENT.to_ne_bytes());
        head.extend([0, libc::RTN_UNICAST]);
        let message = NetlinkRequest::new(
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
