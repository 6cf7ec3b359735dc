//! Why packets waited on a simulated link: recorded from the beginning to the end.

use super::network::Network;
use crate::Error;
use crate::Scenario;
use control::explained::{ExplainRequest, Explained, explained};
use engine::inspect::Inspection;
use engine::settings::{Problem, Span, unknown};
use engine::units::Instant;
use measure::waits::Wanted;

/// Begins to record at the link that the request names as its interface. The link's number.
pub(super) fn begin(
    network: &mut Network,
    scenario: &Scenario,
    wanted: &ExplainRequest,
) -> Result<usize, Error> {
    let mut all = scenario.directions.iter();
    let Some(found) = all.position(|direction| direction.name == wanted.interface) else {
        let names = scenario
            .directions
            .iter()
            .map(|direction| direction.name.as_str());
        return Err(unknown("link", &wanted.interface, Span::default(), names).into());
    };
    let no_policy = || {
        let message = format!("`{}` has no policy: it is a plain buffer", wanted.interface);
        Problem::new(Span::default(), message).help("name a link with a discipline")
    };
    let policy = scenario.directions[found].policy.as_ref().ok_or_else(no_policy)?;
    let class = match &wanted.class {
        Some(name) => Some(policy.plan.leaf(name, Span::default())?),
        None => None,
    };
    let wanted = Wanted {
        class,
        drops: wanted.drops,
        keep: wanted.packets,
        since: Instant::START,
        until: Instant::NEVER,
    };
    network.sim.explain(network.links[found], wanted);
    Ok(found)
}

/// What was recorded at this link.
pub(super) fn end(network: &mut Network, scenario: &Scenario, link: usize) -> Option<Explained> {
    let recorded = network.sim.explained(network.links[link])?;
    let direction = &scenario.directions[link];
    let mut views = Vec::new();
    let (queue, _) = network.sim.queue(network.links[link])?;
    queue.inspect(&mut Inspection::new(&mut views));
    let told = explained(direction.policy.as_ref()?, &recorded, &views);
    Some(Explained {
        interface: direction.name.clone(),
        ..told
    })
}
