//! The policy at an end of a link, in the simulator and in the lab: a policy file of `suimon run`,
//! or a section with the same settings.

use crate::folder::Files;
use control::diagnostics::Diagnostics;
use control::policy::{Device, InterfacePolicy, Policy, PolicyReader};
use control::values::KeyValue;
use engine::settings::{Problem, Span, unknown};
use engine::tree::Registry;

/// Reads `policy.HOST` of a link whose transmit ring has this many packets.
pub(crate) fn read(
    reader: &mut PolicyReader<'_>,
    registry: &Registry,
    files: Files<'_>,
    pair: &KeyValue<'_>,
    ring: u32,
) -> Option<InterfacePolicy> {
    let read = either(reader, registry, files, pair, ring)?;
    // By the calendar, of which a scenario sees seconds.
    reader.warnings.extend(read.quotas.first().map(|quota| {
        let message = format!(
            "the quota of `{}` is not counted here: `suimon run` does",
            quota.class
        );
        Problem::new(pair.key_at, message)
    }));
    Some(read)
}

/// From a file, or from the section itself.
fn either(
    reader: &mut PolicyReader<'_>,
    registry: &Registry,
    files: Files<'_>,
    pair: &KeyValue<'_>,
    ring: u32,
) -> Option<InterfacePolicy> {
    if let Some(file) = pair.value.value.as_str() {
        let at = pair.value.at;
        return from_file(reader, registry, files, (file, at), ring);
    }
    if pair.value.section().is_none() {
        let expected = "expected the path of a policy in quotes, or a section as [interface.…] of a policy";
        reader.problems.push(pair.value.wrong(expected));
        return None;
    }
    reader.interface(&pair.key, &pair.value, Device::wire(ring))
}

/// Reads an interface from a policy file: `home-router.toml`, or `home-router.toml: wan0` if it has
/// several. Its transmit ring is that of the scenario's link, not that of the file's port.
fn from_file(
    reader: &mut PolicyReader<'_>,
    registry: &Registry,
    files: Files<'_>,
    (word, at): (&str, Span),
    ring: u32,
) -> Option<InterfacePolicy> {
    let (path, interface) = match word.rsplit_once(": ") {
        Some((path, name)) => (path.trim(), Some(name.trim())),
        None => (word, None),
    };
    let text = match files.text(path) {
        Ok(text) => text,
        Err(why) => {
            let message = format!("cannot read the policy `{path}`: {why}");
            let help = match registry.kinds().any(|kind| kind.name == path) {
                true => format!(
                    "a discipline needs a bandwidth: write {{ bandwidth = \"10 Mbit/s\", discipline = \"{path}\" }}"
                ),
                false => "a path is relative to the directory of the scenario".into(),
            };
            reader.problems.push(Problem::new(at, message).help(help));
            return None;
        }
    };
    let policy = match Policy::read(path, &text, registry, &[]) {
        Ok(policy) => policy,
        Err(diagnostics) => {
            reader.problems.push(not_good(path, &diagnostics, at));
            return None;
        }
    };
    let names = || policy.interfaces.iter().map(|interface| interface.name.as_str());
    let found = match (interface, policy.interfaces.as_slice()) {
        (Some(name), _) => policy
            .interface(name)
            .ok_or_else(|| unknown("interface of the policy", name, at, names())),
        (None, [only]) => Ok(only),
        (None, _) => {
            let names: Vec<&str> = names().collect();
            let message = format!("the policy `{path}` has several interfaces: {}", names.join(", "));
            let help = format!("choose one: \"{path}: {}\"", names.first().unwrap_or(&"wan0"));
            Err(Problem::new(at, message).help(help))
        }
    };
    let behind = |interface: &InterfacePolicy| {
        interface.behind(registry, ring).map_err(|problems| {
            let words: Vec<String> = problems.into_iter().map(|problem| problem.message).collect();
            let message = format!(
                "the policy `{path}` cannot be used on this link: {}",
                words.join("; ")
            );
            Problem::new(at, message).help("the transmit ring here is the link's `transmit_ring`")
        })
    };
    found
        .and_then(behind)
        .map_err(|problem| reader.problems.push(problem))
        .ok()
}

fn not_good(path: &str, diagnostics: &Diagnostics, at: Span) -> Problem {
    let located = diagnostics.places();
    let words = located
        .iter()
        .take(3)
        .map(|place| format!("{path}:{}:{}: {}", place.line, place.column, place.message));
    let message = format!(
        "the policy cannot be used: {}",
        words.collect::<Vec<_>>().join("; ")
    );
    Problem::new(at, message).help(format!("`suimon check` on {path} shows every mistake in it"))
}
