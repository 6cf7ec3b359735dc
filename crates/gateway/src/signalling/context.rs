//! What is around a node: interfaces with their sockets, routes, and notices that they have
//! changed. All are the kernel's; a simulated router has its own.

use netio::interface::Interface;
use netio::routes::{Changes, GroupRoute, Leads, OwnAddress, Routes};
use netio::signalling::{Arrival, Envelope, Signalling};
use std::fmt::Debug;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, BorrowedFd};

/// Sends and receives messages on one interface.
pub trait MessageSocket: Debug + Send {
    /// The next message and its bytes; none if there is none. Never blocks.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be read.
    fn receive(&mut self) -> io::Result<Option<(Arrival, &[u8])>>;
    /// Sends a message.
    ///
    /// # Errors
    ///
    /// Returns an error if the message is not sent.
    fn send(&self, envelope: &Envelope, message: &[u8]) -> io::Result<()>;
    /// The descriptors to wait for.
    fn descriptors(&self) -> Vec<BorrowedFd<'_>>;
}

/// Looks up routes and addresses: [`Routes`].
pub trait RouteTable: Debug + Send {
    /// The route to this address.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be looked up.
    fn to(&self, destination: IpAddr) -> io::Result<Leads>;
    /// How what a source sends to a group is forwarded; `None` if it is not.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be looked up.
    fn of_group(&self, source: Ipv4Addr, group: Ipv4Addr) -> io::Result<Option<GroupRoute>>;
    /// Whether a program on this host has joined a group.
    ///
    /// # Errors
    ///
    /// Returns an error if the list cannot be read.
    fn has_joined(&self, group: Ipv4Addr) -> io::Result<bool>;
    /// All addresses of all interfaces.
    ///
    /// # Errors
    ///
    /// Returns an error if they cannot be listed.
    fn addresses(&self) -> io::Result<Vec<OwnAddress>>;
}

/// What is around a node.
pub trait NodeContext: Send {
    /// The routes.
    ///
    /// # Errors
    ///
    /// Returns an error if they cannot be read.
    fn routes(&self) -> io::Result<Box<dyn RouteTable>>;
    /// Looks an interface up by its name.
    ///
    /// # Errors
    ///
    /// `ENODEV` if there is none of this name.
    fn named(&self, name: &str) -> io::Result<Interface>;
    /// Looks an interface up by its index.
    ///
    /// # Errors
    ///
    /// `ENODEV` if there is none with this index.
    fn numbered(&self, index: u32) -> io::Result<Interface>;
    /// Opens the sockets of an interface.
    ///
    /// # Errors
    ///
    /// Returns an error if they are refused.
    fn open(&self, name: &str, index: u32) -> io::Result<Box<dyn MessageSocket>>;
    /// Whether routes, addresses or links may have changed since the last call. Never blocks.
    fn have_changed(&mut self) -> bool;
    /// The descriptor to wait for until they change, where there is one.
    fn changes(&self) -> Option<BorrowedFd<'_>>;
}

/// Those of the network namespace of the calling thread.
#[derive(Debug)]
pub struct KernelContext(Changes);

impl KernelContext {
    /// Subscribes to changes.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses a netlink socket, or the subscription.
    pub fn watch() -> io::Result<Self> {
        Changes::watch().map(Self)
    }
}

impl NodeContext for KernelContext {
    fn routes(&self) -> io::Result<Box<dyn RouteTable>> {
        Ok(Box::new(Routes::open()?))
    }

    fn named(&self, name: &str) -> io::Result<Interface> {
        Interface::named(name)
    }

    fn numbered(&self, index: u32) -> io::Result<Interface> {
        Interface::numbered(index)
    }

    fn open(&self, name: &str, index: u32) -> io::Result<Box<dyn MessageSocket>> {
        Ok(Box::new(Signalling::open(name, index)?))
    }

    fn have_changed(&mut self) -> bool {
        self.0.any().unwrap_or(true)
    }

    fn changes(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }
}

impl RouteTable for Routes {
    fn to(&self, destination: IpAddr) -> io::Result<Leads> {
        self.to(destination)
    }

    fn of_group(&self, source: Ipv4Addr, group: Ipv4Addr) -> io::Result<Option<GroupRoute>> {
        self.of_group(source, group)
    }

    fn has_joined(&self, group: Ipv4Addr) -> io::Result<bool> {
        self.has_joined(group)
    }

    fn addresses(&self) -> io::Result<Vec<OwnAddress>> {
        self.addresses()
    }
}

impl MessageSocket for Signalling {
    fn receive(&mut self) -> io::Result<Option<(Arrival, &[u8])>> {
        self.receive()
    }

    fn send(&self, envelope: &Envelope, message: &[u8]) -> io::Result<()> {
        self.send(envelope, message)
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.descriptors().collect()
    }
}
