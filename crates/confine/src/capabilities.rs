//! Capabilities (capabilities(7)): which each role keeps.

use crate::Role;
use rustix::thread::{CapabilitySet, CapabilitySets};

/// Sockets of packets, addresses of interfaces, filters and BPF programs, as long as ports may have
/// to be opened again.
const PORTS: CapabilitySet = CapabilitySet::NET_ADMIN
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::BPF);

/// What this role keeps. `foreign`: files or folders that it changes, or a socket that it asks, are
/// another user's.
fn kept(role: Role, foreign: bool) -> CapabilitySet {
    let mut files = CapabilitySet::DAC_READ_SEARCH;
    if foreign {
        files |= CapabilitySet::DAC_OVERRIDE | CapabilitySet::CHOWN | CapabilitySet::FOWNER;
    }
    match role {
        Role::Program => PORTS | CapabilitySet::SYS_NICE | files,
        Role::DataPlane => PORTS | CapabilitySet::SYS_NICE,
        Role::Control => files,
        Role::Rsvp => CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW | CapabilitySet::DAC_READ_SEARCH,
        // The kernel lists its connections for nobody else.
        Role::Connections => CapabilitySet::NET_ADMIN,
        // Root may ask another user's program.
        Role::Web | Role::Viewer if foreign => CapabilitySet::DAC_OVERRIDE,
        Role::Law | Role::Probe | Role::Web | Role::Viewer => CapabilitySet::empty(),
    }
}

/// Drops all others from every set of this thread.
pub(crate) fn keep(role: Role, foreign: bool) -> Result<(), String> {
    let failed = |why: rustix::io::Errno| format!("capabilities cannot be dropped: {why}");
    let now = rustix::thread::capabilities(None).map_err(failed)?;
    let kept = kept(role, foreign);
    // It takes a capability to leave the bounding set; without it this thread could gain none
    // anyway, as there are no new privileges.
    if now.effective.contains(CapabilitySet::SETPCAP) {
        for capability in CapabilitySet::all().difference(kept).iter() {
            match rustix::thread::remove_capability_from_bounding_set(capability) {
                // An older kernel does not know it.
                Ok(()) | Err(rustix::io::Errno::INVAL) => {}
                Err(why) => return Err(failed(why)),
            }
        }
    }
    let sets = CapabilitySets {
        effective: now.effective & kept,
        permitted: now.permitted & kept,
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, sets).map_err(failed)
}
