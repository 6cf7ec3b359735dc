//! A command behind one link, from a topology of two hosts: `outside`, where the link leads to, and
//! `inside`, where the command belongs.

use crate::Error;
use crate::lab::{Instruments, direction};
use crate::lab_policies::LabPolicies;
use crate::topology::{LinkConfig, Topology};
use engine::random::Seed;
use engine::tree::Registry;
use lab::EmulatedDirection;
use lab::nesting::{BehindLink, FarSide};

/// The command's namespace behind its link, and the link's policies. Dropping it removes them.
#[derive(Debug)]
pub struct BuiltLink {
    /// The namespaces and the link.
    pub behind: BehindLink,
    /// The policies at its ends.
    pub policies: LabPolicies,
}

/// The two directions of the first link of a topology: from its first host, which is outside, to
/// its second, and back.
///
/// # Errors
///
/// Returns an error if the link has no rate.
pub fn directions(
    topology: &Topology,
    instruments: &Instruments,
    seed: Seed,
) -> Result<[EmulatedDirection; 2], Error> {
    let way = |link: &LinkConfig, side: usize| {
        let settings = &link.settings[side];
        let seed = seed.fork(["forth", "back"][side]);
        let built = direction(
            settings.rate?,
            settings,
            (link.traces[side].clone(), link.later[side].clone()),
            link.policies[side].as_ref(),
            seed,
        );
        Some(instruments.on((0, side), built))
    };
    let link = topology.links.first();
    link.and_then(|link| Some([way(link, 0)?, way(link, 1)?]))
        .ok_or_else(|| {
            let why = "a link with a rate is needed";
            lab::Error::other("make a link", why).into()
        })
}

/// Builds the first link of a topology, from its first host, which is outside, to its second.
///
/// # Errors
///
/// Returns an error if the link has no rate, or something of it cannot be made.
pub fn build(
    topology: &Topology,
    registry: &Registry,
    instruments: &Instruments,
    seed: Seed,
    around: FarSide,
) -> Result<BuiltLink, Error> {
    let [forth, back] = directions(topology, instruments, seed)?;
    let behind = BehindLink::build(around, forth, back)?;
    let interface = |(_, side): (usize, usize)| match side {
        0 => behind.outside_interface.clone(),
        _ => lab::nesting::INSIDE.to_owned(),
    };
    let hosts = [&behind.outside, &behind.inside];
    let policies = LabPolicies::start(&behind.lab, &hosts, topology, registry, interface);
    let policies = policies.map_err(Error::Started)?;
    Ok(BuiltLink { behind, policies })
}
