//! `ingress`: what this host, or a router, receives on an interface, by a [`Detour`].
//!
//! The queue at the other end of the line is the provider's. This one shortens it by being a little
//! slower than the line: packets then wait here, where the policy applies, and TCP's senders
//! follow.

use super::detour::Detour;
use super::{Kind, Lane, Open, Opened, Opening};
use crate::bpf::Means;
use crate::bpf::syscall::{Hook, HookPlace};
use crate::fail_open;
use crate::port::PortError;
use engine::port_kind::{Needs, PortKind, device};

/// What this host receives on an interface.
pub static KIND: Kind = Kind {
    declared: PortKind {
        name: "ingress",
        summary: "what this host receives on an interface, redirected through a TAP device of ours",
        needs: Needs::Received,
        has_wire: false,
        alone: None,
        settings: &[],
    },
    open: Open::Ingress(on),
};

fn on(managed: &str, opening: &Opening<'_>) -> Result<Opened, PortError> {
    let limit = opening.fail_open_after;
    // Before the detour whose place it takes: what that hands back would have to pass this one.
    let place = match opening.takes_over {
        true => HookPlace::First,
        false => HookPlace::Last,
    };
    let port = Detour::open(device(managed), Hook::Ingress, place, opening.transmit_ring)?;
    let tap = port.tap().to_owned();
    let (port, pulse) = fail_open::single(port, limit, Means::Best)?;
    let without_us = fail_open::takeover(limit, port.attached());
    Ok(Opened {
        ports: vec![Box::new(port)],
        lanes: vec![Lane {
            from: 0,
            to: 0,
            interface: Some(managed.into()),
        }],
        gates: vec![super::over(pulse, 0..1)],
        without_us: format!("{without_us}; received frames pass through {tap}"),
        warnings: Vec::new(),
    })
}
