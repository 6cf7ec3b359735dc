//! A host: a network namespace kept open by a descriptor, its interfaces, and work done inside it.

use crate::addressing::Address;
use crate::error::{Doing, Error, Result};
use crate::netlink::LabNetlink;
use crate::sys::{namespace, socket};
use std::fmt;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", self.ip, self.prefix))
    }
}

/// Offloads of an interface, as `ethtool -K` names them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum OffloadFeature {
    /// Checksums in the transmit direction; TCP super-frames depend on it.
    Transmit = 0x17,
    /// TCP super-frames (TSO).
    Tso = 0x1f,
    /// Super-frames in general (GSO).
    Gso = 0x24,
    /// Merging of received segments (GRO).
    Gro = 0x2c,
}

/// What to do where `/proc/sys` is read-only.
const MASKED: &str = "in a container that is permitted by `podman run --security-opt unmask=/proc/sys`, or \
                      `docker run --security-opt systempaths=unconfined`";

#[derive(Debug)]
struct Inner {
    name: String,
    namespace: Arc<OwnedFd>,
    netlink: Mutex<LabNetlink>,
}

/// A host. Clones are the same host. Its namespace ends with the last clone, program and socket.
#[derive(Clone, Debug)]
pub struct Host(Arc<Inner>);

impl Host {
    /// A new host with nothing but its loopback interface, which is up.
    ///
    /// # Errors
    /// If the namespace cannot be made; the error names the missing privilege.
    pub fn new(name: &str) -> Result<Self> {
        let made = in_new_thread(name, || {
            let doing = || format!("make a network namespace for host `{name}`");
            let namespace = namespace::unshare_network()
                .doing(doing)
                .map_err(|e| e.help("run as root, or call `lab::enter` at the start of `main`"))?;
            // A lab's addresses are unique: no half a second of duplicate address detection, no
            // router solicitation. A kernel without IPv6 has no such settings.
            for (setting, value) in [("accept_dad", "0"), ("router_solicitations", "0")] {
                for conf in ["all", "default"] {
                    let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{conf}/{setting}"), value);
                }
            }
            let mut netlink = LabNetlink::open()?;
            netlink.up("lo")?;
            Ok((namespace, netlink))
        })?;
        let (namespace, netlink) = made?;
        Ok(Self::of(name, namespace, netlink))
    }

    /// A host that is there already: this network namespace.
    ///
    /// # Errors
    /// If the namespace cannot be entered.
    pub fn existing(name: &str, namespace: OwnedFd) -> Result<Self> {
        let doing = || format!("enter the network namespace of host `{name}`");
        let opened = in_new_thread(name, || {
            namespace::enter_network(namespace.as_fd()).doing(doing)?;
            LabNetlink::open()
        })?;
        Ok(Self::of(name, namespace, opened?))
    }

    fn of(name: &str, namespace: OwnedFd, netlink: LabNetlink) -> Self {
        Self(Arc::new(Inner {
            name: name.into(),
            namespace: Arc::new(namespace),
            netlink: Mutex::new(netlink),
        }))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Its network namespace.
    pub fn namespace(&self) -> BorrowedFd<'_> {
        self.0.namespace.as_fd()
    }

    pub(crate) fn namespace_owned(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.0.namespace)
    }

    /// Configures its interfaces by netlink.
    ///
    /// # Errors
    /// If `work` fails.
    pub fn netlink<T>(&self, work: impl FnOnce(&mut LabNetlink) -> Result<T>) -> Result<T> {
        let mut netlink = self.0.netlink.lock().unwrap_or_else(PoisonError::into_inner);
        work(&mut netlink)
    }

    /// Moves the calling thread into this host permanently: its new sockets belong to the host.
    ///
    /// # Errors
    /// If the thread may not change its namespace.
    pub fn enter(&self) -> Result<()> {
        namespace::enter_network(self.namespace()).doing(|| format!("enter host `{}`", self.name()))
    }

    /// Runs `work` inside this host, on a thread of its own, and waits for it.
    ///
    /// # Errors
    /// If the thread cannot be started or may not enter the namespace.
    pub fn call<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        in_new_thread(self.name(), || self.enter().map(|()| work()))?
    }

    /// Starts `work` inside this host, on a thread of its own.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<Result<T>>> {
        let host = self.clone();
        Builder::new()
            .name(name.into())
            .spawn(move || host.enter().map(|()| work()))
            .doing(|| format!("start a thread for `{name}`"))
    }

    /// Gives an interface an address, such as "10.0.0.1/24".
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn address(&self, interface: &str, address: Address) -> Result<()> {
        self.netlink(|n| n.address(interface, address.ip, address.prefix))
    }

    /// Adds a route to this prefix through that gateway.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn route(&self, to: Address, gateway: IpAddr) -> Result<()> {
        self.netlink(|n| n.route(to.ip, to.prefix, gateway))
    }

    /// Adds a route to this one address through that gateway; what this host sends by it comes from
    /// its address `source`.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn route_from(&self, source: IpAddr, to: IpAddr, gateway: IpAddr) -> Result<()> {
        let prefix = if to.is_ipv4() { 32 } else { 128 };
        self.netlink(|n| n.route_from(Some(source), to, prefix, gateway))
    }

    /// Adds the default route through that gateway.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn default_route(&self, gateway: IpAddr) -> Result<()> {
        self.route(Address::everything(gateway), gateway)
    }

    /// Makes a kernel bridge with these interfaces as ports, and brings it up.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn bridge(&self, name: &str, interfaces: &[&str]) -> Result<()> {
        self.netlink(|n| {
            n.bridge(name)?;
            n.no_link_local(name)?;
            for interface in interfaces {
                n.enslave(interface, name)?;
            }
            n.up(name)
        })
    }

    /// Makes this host a router.
    ///
    /// # Errors
    /// If the settings cannot be written.
    pub fn forward(&self) -> Result<()> {
        self.set("net/ipv4/ip_forward", "1")?;
        self.set("net/ipv6/conf/all/forwarding", "1")
    }

    /// Sets a network sysctl of this host, by its path below `/proc/sys`.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn set(&self, setting: &str, value: &str) -> Result<()> {
        self.call(|| std::fs::write(format!("/proc/sys/{setting}"), value))?
            .doing(|| format!("set `{setting}` in host `{}`", self.name()))
            .map_err(|e| match e.kind() {
                ErrorKind::ReadOnlyFilesystem => e.help(MASKED),
                _ => e,
            })
    }

    /// Switches an offload of an interface on or off.
    ///
    /// # Errors
    /// If the driver refuses it.
    pub fn offload(&self, interface: &str, what: OffloadFeature, on: bool) -> Result<()> {
        self.call(|| socket::ethtool_set(interface, what as u32, u32::from(on)))?
            .doing(|| format!("set an offload of `{interface}` in host `{}`", self.name()))
    }
}

/// Tells the hosts at both ends of a link, each with its addresses there, the Ethernet address of
/// the other: no ARP and no neighbour discovery, which would add a round trip to the first packet.
///
/// # Errors
/// If an interface does not exist, or the kernel refuses an entry.
pub fn know_each_other(ends: [(&Host, &str); 2], addresses: [&[IpAddr]; 2]) -> Result<()> {
    for (near, far) in [(0, 1), (1, 0)] {
        let (host, interface) = ends[near];
        let mac = ends[far].0.netlink(|n| n.mac(ends[far].1))?;
        for &address in addresses[far] {
            host.netlink(|n| n.neighbour(interface, address, mac))?;
        }
    }
    Ok(())
}

/// Runs `work` on a new thread, which may then belong to another namespace, and waits for it.
fn in_new_thread<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = Builder::new()
            .name(name.into())
            .spawn_scoped(scope, work)
            .doing(|| format!("start a thread for `{name}`"))?;
        // A panic of the thread goes on in the caller.
        thread
            .join()
            .map_or_else(|panic| std::panic::resume_unwind(panic), Ok)
    })
}

/// Refuses names that the kernel would refuse, with a clearer message.
pub(crate) fn check_interface_name(name: &str) -> Result<()> {
    let fits = !name.is_empty() && name.len() < libc::IFNAMSIZ;
    if fits
        && name
            .bytes()
            .all(|b| b.is_ascii_graphic() && b != b'/' && b != b':')
    {
        return Ok(());
    }
    Err(Error::other(
        format!("name an interface `{name}`"),
        "a name has 1 to 15 letters, digits, dots, dashes or underscores",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_with_its_prefix_or_refused() {
        let address: Address = "10.0.0.1/24".parse().expect("good");
        assert_eq!(
            (address.to_string().as_str(), address.prefix),
            ("10.0.0.1/24", 24)
        );
        assert!("fd00::1/64".parse::<Address>().is_ok());
        for wrong in ["10.0.0.1", "10.0.0.1/33", "fd00::1/129", "here/8", "", "/"] {
            assert!(wrong.parse::<Address>().is_err(), "{wrong} was accepted");
        }
    }
}
