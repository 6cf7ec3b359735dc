//! A UDP socket that tells when the kernel received a datagram: to wake the program that reads it
//! takes longer, and is no part of the way.

use crate::error::{Doing, Result};
use crate::sys::socket::{receive_stamped, set_receive_buffer, stamp_arrivals};
use crate::traffic::tcp::is_timeout;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, SystemTime};

/// The receive timeout, after which [`StampedSocket::receive`] returns.
const TIMEOUT: Duration = Duration::from_millis(50);
/// The socket's receive buffer, if the kernel allows so much: for delays of this process.
const BUFFER: u32 = 8 << 20;

/// Such a socket.
#[derive(Debug)]
pub struct StampedSocket(UdpSocket);

/// Nanoseconds since 1970: the clock that sender and receiver share.
pub fn wall_clock() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

impl StampedSocket {
    /// Listens on this address.
    ///
    /// # Errors
    ///
    /// Returns an error if the address cannot be bound, or the socket cannot be set up.
    pub fn listen(on: SocketAddr) -> Result<Self> {
        let listen = || {
            let socket = UdpSocket::bind(on)?;
            socket.set_read_timeout(Some(TIMEOUT))?;
            set_receive_buffer(&socket, BUFFER)?;
            stamp_arrivals(&socket)?;
            Ok(Self(socket))
        };
        listen().doing(|| format!("listen on {on}"))
    }

    /// The address it listens on.
    ///
    /// # Errors
    ///
    /// Returns an error if the socket's own address cannot be read.
    pub fn address(&self) -> Result<SocketAddr> {
        self.0.local_addr().doing(|| "learn the receiver's port".into())
    }

    /// The length of the next datagram and the time of its arrival by [`wall_clock`]; none if none
    /// has come within 50 ms.
    ///
    /// # Errors
    ///
    /// Returns an error if receiving fails for any reason other than the timeout.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Option<(usize, u64)>> {
        match receive_stamped(&self.0, buffer) {
            Ok((len, stamp)) => Ok(Some((len, stamp.unwrap_or_else(wall_clock)))),
            Err(e) if is_timeout(e.kind()) => Ok(None),
            Err(e) => Err(e).doing(|| "receive".into()),
        }
    }
}
