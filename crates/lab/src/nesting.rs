//! A command behind one link, and such a command within another, like the nesting shells of
//! Mahimahi (Netravali and others, USENIX ATC 2015): the link leads from a namespace of the
//! command's own to the one in which the lab was started.
//!
//! ```text
//! outside 100.64.0.1 ── link ── 100.64.0.2 inside, and outside 100.68.0.1 ── link ── 100.68.0.2
//! ```
//!
//! Mahimahi translates addresses at each step. Here every lab has a block of 100.64.0.0/10, which
//! RFC 6598 keeps for networks behind a provider's, and one route to it, so that a server sees
//! which client it talks to. A block has its own link's network and fifteen blocks of a sixteenth
//! for the labs within: six deep.

use crate::addressing::Address;
use crate::emulator::EmulatedDirection;
use crate::error::{Doing, Error, Result};
use crate::host::{Host, know_each_other};
use crate::sys::namespace;
use crate::topology::Lab;
use netio::routes::Routes;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;

/// The interface of a command behind a link.
pub const INSIDE: &str = "inside";
/// The block of an outermost lab.
const ROOT: NestedBlock = NestedBlock {
    base: 0x6440_0000,
    prefix: 10,
};
/// Each step within takes this many bits of the address.
const STEP: u8 = 4;
/// The network of a link.
const OF_LINK: u8 = 30;

/// The addresses of a lab and of those within it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct NestedBlock {
    base: u32,
    prefix: u8,
}

impl NestedBlock {
    fn address(self, host: u32, prefix: u8) -> Address {
        Address::new(Ipv4Addr::from_bits(self.base + host), prefix)
    }

    /// The whole block.
    fn network(self) -> Address {
        self.address(0, self.prefix)
    }

    /// The two ends of its link: outside and inside.
    fn ends(self) -> [Address; 2] {
        [1, 2].map(|host| self.address(host, OF_LINK))
    }

    /// Block `number` within it, from 0 to 14.
    fn within(self, number: u32) -> Option<Self> {
        let prefix = self.prefix + STEP;
        (prefix <= OF_LINK).then(|| Self {
            base: self.base + ((number + 1) << (32 - u32::from(prefix))),
            prefix,
        })
    }

    /// The block whose inside has this address.
    fn of_inside(address: IpAddr) -> Option<Self> {
        let IpAddr::V4(address) = address else { return None };
        let base = address.to_bits().checked_sub(2)?;
        let offset = base.checked_sub(ROOT.base)?;
        // The number of a block within another is never 0, so that its base tells its length.
        let mut prefixes = (ROOT.prefix..=OF_LINK).step_by(usize::from(STEP));
        let prefix = prefixes.find(|prefix| offset.trailing_zeros() >= u32::from(32 - prefix))?;
        (offset < 1 << (32 - ROOT.prefix)).then_some(Self { base, prefix })
    }
}

/// What is outside of a command's link.
#[derive(Debug)]
pub enum FarSide {
    /// A namespace of the lab's own, with nothing in it.
    Nothing,
    /// The namespace of a command that is itself behind a link.
    Enclosing(OwnedFd, EnclosingBlock),
}

/// The addresses of the lab around this one.
#[derive(Clone, Copy, Debug)]
pub struct EnclosingBlock(NestedBlock);

impl FarSide {
    /// Looks around: must be called before [`enter`](crate::enter).
    ///
    /// # Errors
    /// If the namespace and its addresses cannot be read.
    pub fn look() -> Result<Self> {
        let doing = || "read the addresses of this network namespace".to_owned();
        let own = netio::interface::Interface::named(INSIDE);
        let Ok(own) = own else { return Ok(Self::Nothing) };
        let addresses = Routes::open()
            .and_then(|routes| routes.addresses())
            .doing(doing)?;
        let mut own = addresses.iter().filter(|address| address.interface == own.index);
        let Some(block) = own.find_map(|own| NestedBlock::of_inside(own.address)) else {
            return Ok(Self::Nothing);
        };
        let namespace = File::open("/proc/self/ns/net").doing(doing)?;
        Ok(Self::Enclosing(namespace.into(), EnclosingBlock(block)))
    }
}

/// A namespace for a command, behind a link.
#[derive(Debug)]
pub struct BehindLink {
    /// The link.
    pub lab: Lab,
    /// Where the link leads to.
    pub outside: Host,
    /// Where the command belongs.
    pub inside: Host,
    /// The address of the outside on the link.
    pub outside_address: IpAddr,
    /// The address of the inside.
    pub inside_address: IpAddr,
    /// The name of the interface outside.
    pub outside_interface: String,
}

impl BehindLink {
    /// Makes the namespace, and the link from the outside to it and back.
    ///
    /// # Errors
    /// If something of it cannot be made, or the labs are nested too deep.
    pub fn build(around: FarSide, forth: EmulatedDirection, back: EmulatedDirection) -> Result<Self> {
        let mut lab = Lab::new();
        let (outside, enclosing) = match around {
            FarSide::Nothing => (lab.host("outside")?, None),
            FarSide::Enclosing(namespace, block) => (Host::existing("outside", namespace)?, Some(block.0)),
        };
        let inside = lab.host("inside")?;
        // Nothing but what programs send is on the link, so that the first packet is theirs: no
        // IPv6, whose hosts announce themselves. A kernel without it has no such setting.
        for host in [&outside, &inside] {
            let _ = host.set("net/ipv6/conf/default/disable_ipv6", "1");
        }
        // Two labs that start at once in one namespace must not choose the same number.
        let doing = || "wait for other labs in this namespace".to_owned();
        namespace::lock(outside.namespace()).doing(doing)?;
        let (block, far) = free_block(&outside, enclosing)?;
        let [near, own] = block.ends();
        lab.link((&outside, &far), (&inside, INSIDE), forth, back)?;
        namespace::unlock(outside.namespace()).doing(doing)?;
        outside.address(&far, near)?;
        inside.address(INSIDE, own)?;
        know_each_other([(&outside, &far), (&inside, INSIDE)], [&[near.ip], &[own.ip]])?;
        outside.forward()?;
        outside.route(block.network(), own.ip)?;
        inside.default_route(near.ip)?;
        Ok(Self {
            lab,
            outside,
            inside,
            outside_address: near.ip,
            inside_address: own.ip,
            outside_interface: far,
        })
    }
}

/// A block that no other lab here has, and the name of the interface that claims it.
fn free_block(outside: &Host, enclosing: Option<NestedBlock>) -> Result<(NestedBlock, String)> {
    let Some(enclosing) = enclosing else {
        return Ok((ROOT, "lab0".into()));
    };
    let refused = |why: &str| Err(Error::other("make a lab within this lab", why));
    for number in 0..15 {
        let name = format!("lab{number}");
        let Some(block) = enclosing.within(number) else {
            return refused("labs are nested at most six deep; run this command in an outer one");
        };
        if outside.netlink(|n| n.index(&name)).is_err() {
            return Ok((block, name));
        }
    }
    refused("there are fifteen already; end one of them, or nest them")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_within_blocks_are_disjoint_and_known_by_the_address_inside() {
        fn descend(block: NestedBlock, depth: u32, seen: &mut Vec<u32>) -> u32 {
            let [outside, inside] = block.ends();
            assert_eq!(NestedBlock::of_inside(inside.ip), Some(block), "{inside}");
            assert_eq!(NestedBlock::of_inside(outside.ip), None, "{outside}");
            seen.push(block.base);
            // The corners of each level are enough.
            let below = [0, 7, 14].into_iter().filter_map(|n| block.within(n));
            below.map(|b| descend(b, depth + 1, seen)).max().unwrap_or(depth)
        }
        let mut seen = Vec::new();
        assert_eq!(descend(ROOT, 1, &mut seen), 6);
        seen.sort_unstable();
        assert!(seen.windows(2).all(|pair| pair[1] - pair[0] >= 4), "they overlap");
        let last = seen.last().expect("blocks");
        assert!(
            *last < ROOT.base + (1 << 22),
            "the last is beyond 100.127.255.255"
        );
        for other in ["10.0.0.2", "100.128.0.2", "100.63.255.2", "0.0.0.1", "::2"] {
            assert_eq!(
                NestedBlock::of_inside(other.parse().expect("an address")),
                None,
                "{other}"
            );
        }
    }
}
