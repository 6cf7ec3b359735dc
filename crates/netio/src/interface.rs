//! What the kernel knows of an interface: index, address, MTU, the bridge over it, its receive queues.
//!
//! By one netlink request (RTM_GETLINK) and one ioctl, in the process's own network namespace; /sys may
//! show another one.

#![expect(unsafe_code, reason = "socket calls and an ioctl take structures by address")]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// An interface as it was when asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its number.
    pub index: u32,
    /// Its Ethernet address.
    pub address: [u8; 6],
    /// The longest IP packet.
    pub mtu: usize,
    /// Whether it is up.
    pub up: bool,
    /// The index of the bridge (or other master) that it is a port of.
    pub master: Option<u32>,
}

const HEADER: usize = 16;
const IFINFO: usize = 16;

impl Interface {
    /// Looks an interface up by its name.
    pub fn named(name: &str) -> io::Result<Self> {
        let padded = name.len().min(libc::IFNAMSIZ - 1).next_multiple_of(4).max(4);
        if name.is_empty() || name.len() >= libc::IFNAMSIZ {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        // One attribute: its length, its kind, the name with at least one zero behind it.
        let mut attribute = vec![0u8; 4 + padded + 4];
        attribute[..2].copy_from_slice(&(4 + name.len() as u16 + 1).to_ne_bytes());
        attribute[2..4].copy_from_slice(&libc::IFLA_IFNAME.to_ne_bytes());
        attribute[4..4 + name.len()].copy_from_slice(name.as_bytes());
        ask(0, &attribute)
    }

    /// Looks an interface up by its number.
    pub fn numbered(index: u32) -> io::Result<Self> {
        ask(index, &[])
    }

    /// The Ethernet address of the bridge over it.
    pub fn master_address(&self) -> io::Result<Option<[u8; 6]>> {
        self.master
            .map(|index| Self::numbered(index).map(|bridge| bridge.address))
            .transpose()
    }

    /// Brings it up, without ARP.
    pub fn bring_up(&self) -> io::Result<()> {
        let mut request = request(&self.name);
        let flags = libc::IFF_UP | libc::IFF_NOARP;
        request.ifr_ifru.ifru_flags = flags as i16;
        let socket = socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
        // SAFETY: the request is valid for what this command reads.
        let answer = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw mut request) };
        if answer < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    /// How many receive queues are in use; 1 where the driver does not say.
    pub fn receive_queues(&self) -> io::Result<u32> {
        const GET_CHANNELS: u32 = 0x3c;
        const SIOCETHTOOL: libc::c_ulong = 0x8946;
        // Command, four maxima, then receive, transmit, other, combined.
        let mut channels = [0u32; 9];
        channels[0] = GET_CHANNELS;
        let mut request = request(&self.name);
        request.ifr_ifru.ifru_data = channels.as_mut_ptr().cast();
        let socket = socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
        // SAFETY: the request and the channels it points to are valid for what this command reads and writes.
        if unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) } < 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::EOPNOTSUPP) => Ok(1),
                _ => Err(error),
            };
        }
        Ok((channels[5] + channels[8]).max(1))
    }
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

fn socket(family: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: no addresses in it.
    let fd = unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nobody else knows.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sends RTM_GETLINK and reads the answer.
fn ask(index: u32, attribute: &[u8]) -> io::Result<Interface> {
    let socket = socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)?;
    let mut request = vec![0u8; HEADER + IFINFO];
    request[..4].copy_from_slice(&((HEADER + IFINFO + attribute.len()) as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&libc::RTM_GETLINK.to_ne_bytes());
    request[6..8].copy_from_slice(&(libc::NLM_F_REQUEST as u16).to_ne_bytes());
    request[HEADER + 4..HEADER + 8].copy_from_slice(&index.to_ne_bytes());
    request.extend_from_slice(attribute);
    let mut answer = vec![0u8; 32 * 1024];
    // SAFETY: both buffers are valid for their lengths. The kernel answers before `send` returns.
    let got = unsafe {
        if libc::send(socket.as_raw_fd(), request.as_ptr().cast(), request.len(), 0) < 0 {
            return Err(io::Error::last_os_error());
        }
        libc::recv(socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0)
    };
    let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
    read(&answer[..got])
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

/// Reads one netlink message: an error, or a link with its attributes.
fn read(message: &[u8]) -> io::Result<Interface> {
    let short = || io::Error::new(io::ErrorKind::InvalidData, "a netlink answer that is cut off");
    let kind = number(message, 4).map(u16::from_ne_bytes).ok_or_else(short)?;
    if i32::from(kind) == libc::NLMSG_ERROR {
        let code = number(message, HEADER)
            .map(i32::from_ne_bytes)
            .ok_or_else(short)?;
        return Err(io::Error::from_raw_os_error(code.wrapping_neg()));
    }
    let index = number(message, HEADER + 4)
        .map(u32::from_ne_bytes)
        .ok_or_else(short)?;
    let flags = number(message, HEADER + 8)
        .map(u32::from_ne_bytes)
        .ok_or_else(short)?;
    let up = flags & libc::IFF_UP as u32 != 0;
    let mut link = Interface {
        name: String::new(),
        index,
        address: [0; 6],
        mtu: 0,
        up,
        master: None,
    };
    let mut at = HEADER + IFINFO;
    while let (Some(len), Some(kind)) = (number(message, at), number(message, at + 2)) {
        let (len, kind) = (usize::from(u16::from_ne_bytes(len)), u16::from_ne_bytes(kind));
        let Some(value) = message.get(at + 4..at + len).filter(|_| len >= 4) else {
            break;
        };
        let word = number(value, 0).map(u32::from_ne_bytes);
        match kind {
            libc::IFLA_IFNAME => {
                let name = value.split(|b| *b == 0).next().unwrap_or_default();
                link.name = String::from_utf8_lossy(name).into_owned();
            }
            libc::IFLA_ADDRESS => link.address = number(value, 0).unwrap_or_default(),
            libc::IFLA_MTU => link.mtu = word.unwrap_or(0) as usize,
            libc::IFLA_MASTER => link.master = word,
            _ => {}
        }
        at += len.next_multiple_of(4);
    }
    Ok(link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_found_by_name_and_by_number() {
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
    fn a_cut_off_answer_is_refused_without_panic() {
        let whole: Vec<u8> = (0..200u8).collect();
        for len in 0..whole.len() {
            let _ = read(&whole[..len]);
        }
        assert!(read(&[0; 5]).is_err());
    }
}
