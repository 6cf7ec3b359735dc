//! What the instruments of a path, `traffic` and `verify`, have in common.

use crate::exit::Failure;
use std::io::IsTerminal;
use std::net::{Ipv6Addr, SocketAddr, ToSocketAddrs};

/// The first address of HOST:PORT.
pub fn resolve(to: &str) -> Result<SocketAddr, Failure> {
    let unknown = |why: String| {
        Failure::usage(format!(
            "{to}: {why}; expected HOST:PORT, such as 192.0.2.1:5001 or [2001:db8::1]:5001"
        ))
    };
    let mut addresses = to.to_socket_addrs().map_err(|e| unknown(e.to_string()))?;
    addresses.next().ok_or_else(|| unknown("no address".into()))
}

/// Where to listen: PORT of all addresses, or ADDRESS:PORT.
pub fn address(on: &str) -> Result<SocketAddr, Failure> {
    let port = on
        .parse()
        .map(|port: u16| SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port));
    port.or_else(|_| resolve(on))
}

/// Erases what shows the progress.
pub fn clear_progress() {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
}

/// The payload of a stream over time.
#[derive(Debug)]
pub struct StreamSeries {
    pub name: String,
    /// The middle of each bin since the first stream's begin, in seconds, and bits per second.
    pub points: Vec<(f64, f64)>,
}

impl StreamSeries {
    /// Of a stream that began so many nanoseconds after the first, in bins of nanoseconds.
    pub fn of(name: String, begin: u64, (bin, bins): (u64, &[u64])) -> Self {
        let at = |k: usize| (begin as f64 + (k as f64 + 0.5) * bin as f64) / 1e9;
        let bins = bins.iter().enumerate();
        let points = bins.map(|(k, &bytes)| (at(k), bytes as f64 * 8e9 / bin as f64));
        Self {
            name,
            points: points.collect(),
        }
    }
}
