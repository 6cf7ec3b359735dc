//! `autorate` of a scenario's policies: which host is asked, and that there is one.

use super::{DirectionConfig, HostConfig};
use control::autorate::AutorateConfig;
use control::sections::Section;
use engine::settings::Problem;

/// The host that is asked: the first target that is the address of one.
pub(crate) fn asked_host(hosts: &[HostConfig], config: &AutorateConfig) -> Option<usize> {
    let place = |target| hosts.iter().position(|host| host.address == target);
    config.targets.iter().copied().find_map(place)
}

/// Refuses policies of these links that ask nobody who is there.
pub(super) fn refuse_unasked(
    links: &[Section<'_>],
    directions: &[DirectionConfig],
    hosts: &[HostConfig],
    problems: &mut Vec<Problem>,
) {
    for (section, pair) in links.iter().zip(directions.chunks(2)) {
        for direction in pair {
            let policy = direction.policy.as_ref();
            let Some(config) = policy.and_then(|policy| policy.autorate.as_ref()) else {
                continue;
            };
            if asked_host(hosts, config).is_none() {
                let at = section.get("policy").map_or(section.at, |pair| pair.key_at);
                let message = "no host has the address of a target of `autorate`: nobody is asked";
                let help = format!(
                    "give the host on the other side of the line one: [host.NAME] with `address = \"{}\"`",
                    config
                        .targets
                        .first()
                        .map(ToString::to_string)
                        .unwrap_or_default()
                );
                problems.push(Problem::new(at, message).help(help));
            }
        }
    }
}
