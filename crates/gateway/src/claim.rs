//! Claims interfaces, so that two programs do not both forward the same frames: a
//! [lock](NamespaceLock) for each, in a directory where no other user can write.

use control::run_directory::NamespaceLock;
use rustix::net::{AddressFamily, SocketType, socket};
use rustix::process::geteuid;

/// Released when this is dropped.
#[derive(Debug)]
pub struct Claim {
    _locks: Vec<NamespaceLock>,
}

impl Claim {
    /// Claims these interfaces; the error names an interface that another program has claimed.
    ///
    /// # Errors
    ///
    /// Returns an error if another program has claimed one of the interfaces, or the run directory
    /// cannot be used.
    pub fn on(interfaces: &[&str]) -> Result<Self, String> {
        let claim = |name: &&str| match NamespaceLock::take(name, "") {
            Ok(Some(lock)) => Ok(lock),
            Ok(None) => Err(format!(
                "another suimon manages {name}; end it with `suimon detach` or SIGTERM"
            )),
            Err(e) => Err(format!("cannot claim {name}: {e}")),
        };
        let locks = interfaces.iter().map(claim).collect::<Result<_, _>>()?;
        Ok(Self { _locks: locks })
    }
}

/// Who manages an interface, as far as this user can see.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Claimant {
    /// No suimon does.
    #[default]
    Nobody,
    /// A suimon that lives does, also one that is stopped.
    Somebody,
    /// Only root of this network namespace sees all claims.
    Unknown,
}

impl Claimant {
    /// That of the interface of this name in the network namespace of this thread. Nothing is
    /// claimed by it.
    pub fn of(interface: &str) -> Self {
        match NamespaceLock::text(interface) {
            Some(_) => Self::Somebody,
            None if is_root_here() => Self::Nobody,
            None => Self::Unknown,
        }
    }
}

/// Whether this is root of the network namespace of this thread. Root of a user namespace may be
/// in one of another's, where packet sockets are refused.
fn is_root_here() -> bool {
    geteuid().is_root() && socket(AddressFamily::PACKET, SocketType::RAW, None).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};

    #[test]
    fn an_interface_is_claimed_once_at_a_time() {
        let name = format!("none{}", std::process::id());
        let claim = Claim::on(&[&name]).expect("free");
        let second = Claim::on(&[&name]).expect_err("taken");
        assert!(second.contains("another suimon manages"), "{second}");
        assert_eq!(Claimant::of(&name), Claimant::Somebody);
        drop(claim);
        assert_ne!(Claimant::of(&name), Claimant::Somebody);
        assert!(Claim::on(&[&name]).is_ok());
    }

    /// Abstract names belong to whoever comes first, so a claim by such a name could be forestalled
    /// by any user.
    #[test]
    fn an_abstract_socket_of_another_user_does_not_keep_us_from_starting() {
        let name = format!("taken{}", std::process::id());
        let address = SocketAddr::from_abstract_name(format!("suimon:{name}")).expect("a name");
        let _squatter = UnixListener::bind_addr(&address).expect("free");
        assert!(Claim::on(&[&name]).is_ok());
    }
}
