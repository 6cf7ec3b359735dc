//! Which paths see hosts behind this one, where it translates addresses: both directions of each
//! interface whose policy asks for it (`nat`).

use crate::direction::secret_seed;
use control::policy::Policy;
use engine::port_kind::device;
use netio::nat::{NatSide, NatWatch};
use netio::ports::Lane;

/// Who hears of translated connections, and the lanes whose packets are seen by them.
#[derive(Debug)]
pub(crate) struct SeenBehind {
    pub(crate) watch: NatWatch,
    pub(crate) lanes: Vec<(usize, NatSide)>,
}

/// What a policy asks for, and why it cannot be had.
pub(crate) fn seen_behind(policy: &Policy, lanes: &[Lane]) -> (Option<SeenBehind>, Option<String>) {
    let asked = |name: &str| {
        let mut interfaces = policy.interfaces.iter();
        interfaces.any(|one| one.settings.nat && device(&one.name) == device(name))
    };
    let side = |(index, lane): (usize, &Lane)| {
        let name = lane.interface.as_deref().filter(|name| asked(name))?;
        let leaves = name == device(name);
        Some((
            index,
            if leaves {
                NatSide::Source
            } else {
                NatSide::Destination
            },
        ))
    };
    let lanes: Vec<_> = lanes.iter().enumerate().filter_map(side).collect();
    if lanes.is_empty() {
        return (None, None);
    }
    match NatWatch::open(secret_seed()) {
        Ok(watch) => (Some(SeenBehind { watch, lanes }), None),
        Err(why) => {
            let blind = format!(
                "`nat`: hosts behind this one are not seen, and count as one: the kernel tells of no connections: {why}"
            );
            (None, Some(blind))
        }
    }
}
