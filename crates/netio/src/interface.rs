//! An interface as the kernel reports it: index, address, MTU, bridge, queues.
//!
//! Read by one netlink request (RTM_GETLINK) and one ioctl in the thread's own network namespace; a
//! mounted /sys may be that of another one.

#![expect(unsafe_code, reason = "socket calls and an ioctl take structures by address")]

use crate::netlink::{Netlink, NetlinkRequest, attribute, text, word};
use crate::sys::datagram_socket;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The state of an interface when it was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its index.
    pub index: u32,
    /// Its Ethernet address.
    pub address: [u8; 6],
    /// Whether its frames have an Ethernet header: those of tun, WireGuard and PPP have none.
    pub ethernet: bool,
    /// Its MTU: the longest IP packet.
    pub mtu: usize,
    /// Whether it is up.
    pub up: bool,
    /// Whether its link has a carrier: a cable, and an other end that is up.
    pub carrier: bool,
    /// The index of the bridge (or other master) that it is a port of.
    pub master: Option<u32>,
    /// Frames sent, by the interface's own counter.
    pub sent: Option<u64>,
    /// Bytes of these, by the same.
    pub sent_bytes: Option<u64>,
}

const IFINFO: usize = 16;

/// `IFF_LOWER_UP` of `linux/if.h`.
const LOWER_UP: u32 = 1 << 16;

impl Interface {
    /// Looks an interface up by its name.
    ///
    /// # Errors
    /// `ENODEV` if there is none of this name.
    pub fn named(name: &str) -> io::Result<Self> {
        if name.is_empty() || name.len() >= libc::IFNAMSIZ {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        ask(0, Some(name))
    }

    /// Looks an interface up by its index.
    ///
    /// # Errors
    /// `ENODEV` if there is none with this index.
    pub fn numbered(index: u32) -> io::Result<Self> {
        ask(index, None)
    }

    /// The Ethernet address of its bridge.
    ///
    /// # Errors
    /// If the bridge has been removed meanwhile.
    pub fn master_address(&self) -> io::Result<Option<[u8; 6]>> {
        self.master
            .map(|index| Self::numbered(index).map(|bridge| bridge.address))
            .transpose()
    }

    /// Brings it up, without ARP.
    ///
    /// # Errors
    /// If that is not permitted, or the interface has been removed.
    pub fn bring_up(&self) -> io::Result<()> {
        let mut request = request(&self.name);
        let flags = libc::IFF_UP | libc::IFF_NOARP;
        request.ifr_ifru.ifru_flags = flags as i16;
        let socket = datagram_socket()?;
        // SAFETY: the request is valid for what this command reads.
        let answer = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw mut request) };
        if answer < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    /// How many receive queues are in use; 1 where the driver does not report it.
    ///
    /// # Errors
    /// If the interface has been removed.
    pub fn receive_queues(&self) -> io::Result<u32> {
        self.channels().map(|channels| (channels[5] + channels[8]).max(1))
    }

    /// How many transmit queues are in use; 1 where the driver does not report it.
    ///
    /// # Errors
    /// If the interface has been removed.
    pub fn transmit_queues(&self) -> io::Result<u32> {
        self.channels().map(|channels| (channels[6] + channels[8]).max(1))
    }

    /// Its offloads by the names of `ethtool -k`, and whether each is on; those that the driver
    /// does not report are off.
    ///
    /// # Errors
    /// If the interface has been removed.
    pub fn offloads(&self) -> io::Result<Vec<(&'static str, bool)>> {
        const OFFLOADS: [(&str, u32); 5] = [
            ("rx-checksumming", 0x14),
            ("tx-checksumming", 0x16),
            ("tso", 0x1e),
            ("gso", 0x23),
            ("gro", 0x2b),
        ];
        // `struct ethtool_value`: command, value.
        let is_on = |(name, get)| Ok((name, self.ethtool([get, 0])?[1] != 0));
        OFFLOADS.into_iter().map(is_on).collect()
    }

    /// Whether its driver joins what it receives (LRO): such frames cannot be passed on as they
    /// came.
    ///
    /// # Errors
    /// If the interface has been removed.
    pub fn joins_what_it_receives(&self) -> io::Result<bool> {
        const GET_FLAGS: u32 = 0x25;
        const LRO: u32 = 1 << 15;
        Ok(self.ethtool([GET_FLAGS, 0])?[1] & LRO != 0)
    }

    /// How many packets its transmit ring holds, where the driver reports it.
    ///
    /// # Errors
    /// If the interface has been removed.
    pub fn transmit_ring(&self) -> io::Result<Option<u32>> {
        const GET_RINGS: u32 = 0x10;
        // `struct ethtool_ringparam`: command, four maxima, then receive (three sizes), transmit.
        let mut rings = [0; 9];
        rings[0] = GET_RINGS;
        Ok(Some(self.ethtool(rings)?[8]).filter(|ring| *ring > 0))
    }

    /// `struct ethtool_channels`: command, four maxima, then receive, transmit, other, combined.
    fn channels(&self) -> io::Result<[u32; 9]> {
        const GET_CHANNELS: u32 = 0x3c;
        let mut channels = [0u32; 9];
        channels[0] = GET_CHANNELS;
        self.ethtool(channels)
    }

    /// Asks the driver by a structure of words, of which the first is the command; all are 0 if it
    /// does not know it.
    fn ethtool<const WORDS: usize>(&self, mut words: [u32; WORDS]) -> io::Result<[u32; WORDS]> {
        const SIOCETHTOOL: libc::c_ulong = 0x8946;
        let mut request = request(&self.name);
        request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
        let socket = datagram_socket()?;
        // SAFETY: the request and the words it points to are valid for what these commands read
        // and write.
        if unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) } < 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::EOPNOTSUPP) => Ok([0; WORDS]),
                _ => Err(error),
            };
        }
        Ok(words)
    }
}

/// The speed of an interface's link, where the driver reports one.
pub fn speed(name: &str) -> Option<engine::units::Bandwidth> {
    let socket = datagram_socket().ok()?;
    crate::sys::interface_speed(socket.as_fd(), name)
}

/// An empty request about an interface.
fn request(name: &str) -> libc::ifreq {
    let nothing = libc::__c_anonymous_ifr_ifru {
        ifru_data: std::ptr::null_mut(),
    };
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: nothing,
    };
    for (to, from) in request
        .ifr_name
        .iter_mut()
        .take(libc::IFNAMSIZ - 1)
        .zip(name.bytes())
    {
        *to = from.cast_signed();
    }
    request
}

/// Looks up by name, or by index if there is no name.
fn ask(index: u32, name: Option<&str>) -> io::Result<Interface> {
    let mut head = [0; IFINFO];
    head[4..8].copy_from_slice(&index.to_ne_bytes());
    let request = NetlinkRequest::new(libc::RTM_GETLINK, 0, &head);
    let request = match name {
        Some(name) => request.text(libc::IFLA_IFNAME, name),
        None => request,
    };
    read(&Netlink::open()?.ask(request)?)
}

/// Reads a link message with its attributes.
fn read(answer: &[u8]) -> io::Result<Interface> {
    let short = || io::Error::new(io::ErrorKind::InvalidData, "a truncated netlink answer");
    let flags = word(answer, 8).ok_or_else(short)?;
    let rest = answer.get(IFINFO..).ok_or_else(short)?;
    let kind = answer.get(2..4).and_then(|kind| kind.try_into().ok());
    let kind = kind.map(u16::from_ne_bytes).ok_or_else(short)?;
    let number = |kind| attribute(rest, kind).and_then(|value| word(value, 0));
    // `rtnl_link_stats64`: packets received, packets sent, bytes received, bytes sent.
    let stats = |at: usize| {
        attribute(rest, libc::IFLA_STATS64)
            .and_then(|counts| counts.get(at..at + 8)?.try_into().ok())
            .map(u64::from_ne_bytes)
    };
    Ok(Interface {
        name: attribute(rest, libc::IFLA_IFNAME).map(text).unwrap_or_default(),
        index: word(answer, 4).ok_or_else(short)?,
        address: attribute(rest, libc::IFLA_ADDRESS)
            .and_then(|address| address.get(..6)?.try_into().ok())
            .unwrap_or_default(),
        ethernet: [libc::ARPHRD_ETHER, libc::ARPHRD_LOOPBACK].contains(&kind),
        mtu: number(libc::IFLA_MTU).unwrap_or(0) as usize,
        up: flags & libc::IFF_UP as u32 != 0,
        carrier: flags & LOWER_UP != 0,
        master: number(libc::IFLA_MASTER),
        sent: stats(8),
        sent_bytes: stats(24),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_ethernet_header_is_told_by_its_type() {
        let of = |kind: u16| {
            let mut answer = [0; IFINFO];
            answer[2..4].copy_from_slice(&kind.to_ne_bytes());
            read(&answer).expect("whole").ethernet
        };
        assert!(of(libc::ARPHRD_ETHER) && Interface::named("lo").expect("lo").ethernet);
        assert!(![libc::ARPHRD_NONE, libc::ARPHRD_PPP].into_iter().any(of));
    }

    #[test]
    fn the_loopback_is_found_by_name_and_by_index() {
        let lo = Interface::named("lo").unwrap();
        assert_eq!((lo.name.as_str(), lo.address, lo.master), ("lo", [0; 6], None));
        assert!(lo.mtu >= 1500);
        assert_eq!(Interface::numbered(lo.index).unwrap(), lo);
        assert_eq!(lo.receive_queues().unwrap(), 1);
    }

    #[test]
    fn an_interface_that_does_not_exist_is_an_error() {
        for name in ["", "none0", "a-name-that-is-too-long"] {
            let error = Interface::named(name).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ENODEV), "{name}: {error}");
        }
    }

    #[test]
    fn a_truncated_answer_is_refused_without_panic() {
        let whole: Vec<u8> = (0..200u8).collect();
        for len in 0..whole.len() {
            let _ = read(&whole[..len]);
        }
        assert!(read(&whole[..IFINFO - 1]).is_err());
    }
}
