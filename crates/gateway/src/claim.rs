//! Claims interfaces, so that two programs do not both forward the same frames.
//!
//! A claim is an abstract Unix socket for each interface: its name belongs to the network
//! namespace, as the interface does, and the kernel removes it when the process ends, however
//! that happens.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

/// Released when this is dropped.
#[derive(Debug)]
pub struct Claim {
    _sockets: Vec<UnixListener>,
}

impl Claim {
    /// Claims these interfaces; the error names an interface that another program has claimed.
    ///
    /// # Errors
    ///
    /// Returns an error if another program has claimed one of the interfaces, or a claim's socket
    /// cannot be bound.
    pub fn on(interfaces: &[&str]) -> Result<Self, String> {
        let claim = |name: &&str| {
            let address = SocketAddr::from_abstract_name(format!("suimon:{name}"));
            address
                .and_then(|address| UnixListener::bind_addr(&address))
                .map_err(|e| match e.kind() {
                    io::ErrorKind::AddrInUse => {
                        format!("another suimon manages {name}; end it with `suimon detach` or SIGTERM")
                    }
                    _ => format!("cannot claim {name}: {e}"),
                })
        };
        let sockets = interfaces.iter().map(claim).collect::<Result<_, _>>()?;
        Ok(Self { _sockets: sockets })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_claimed_once_at_a_time() {
        let name = format!("none{}", std::process::id());
        let claim = Claim::on(&[&name]).expect("free");
        let second = Claim::on(&[&name]).expect_err("taken");
        assert!(second.contains("another suimon manages"), "{second}");
        drop(claim);
        assert!(Claim::on(&[&name]).is_ok());
    }
}
