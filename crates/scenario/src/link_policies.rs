//! The policy at an end of a link, in the simulator and in the lab: a policy file of `suimon run`,
//! or a section with the same settings.
//!
//! What only `suimon run` does with a policy is refused where it is written for the link, and said
//! where it stands in a file: that file serves `suimon run` too.

use crate::folder::Files;
use control::diagnostics::Diagnostics;
use control::policy::{InterfacePolicy, Policy, PolicyReader};
use control::values::KeyValue;
use control::yields::Yields;
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
    if let Some(file) = pair.value.value.as_str() {
        let at = pair.value.at;
        let interface = from_file(reader, registry, files, (file, at), ring)?;
        let idle = interface.yields.iter().map(|yields| not_here(yields, at));
        reader.warnings.extend(idle);
        return Some(interface);
    }
    if pair.value.section().is_none() {
        let expected = "expected the path of a policy in quotes, or a section as [interface.…] of a policy";
        reader.problems.push(pair.value.wrong(expected));
        return None;
    }
    let interface = reader.interface(&pair.key, &pair.value, ring)?;
    let refused = interface.yields.iter().map(|yields| not_here(yields, yields.at));
    reader.problems.extend(refused);
    Some(interface)
}

fn not_here(yields: &Yields, at: Span) -> Problem {
    let message = format!(
        "`{}` does not yield here: `yields` acts in `suimon run` only",
        yields.class
    );
    Problem::new(at, message)
        .help("leave `yields` out; `control = \"ledbat++\"` of a simulated flow yields by itself")
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
            let help = "a path is relative to the directory of the scenario";
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

#[cfg(test)]
mod tests {
    use crate::folder::{Packets, Store};
    use crate::{Scenarios, topology::Topology};
    use engine::tree::Registry;

    const YIELDING: &str = "version = 1\n[interface.wan0]\nbandwidth = \"8 Mbit/s\"\ndiscipline = \"drr\"\n\
                            [[interface.wan0.class]]\nname = \"bulk\"\nyields = {}\n\
                            [[interface.wan0.class]]\nname = \"rest\"\ndefault = true\n";

    /// One policy file, whatever its path.
    struct OneFile(&'static str);

    impl Store for OneFile {
        fn text(&self, _path: &str) -> Result<String, String> {
            Ok(self.0.into())
        }

        fn capture(&self, _path: &str) -> Result<Packets, String> {
            Err("there is none".into())
        }
    }

    /// A link with this policy, as a scenario and as a topology: what the reader says to each.
    fn said(policy: &str) -> [Result<String, String>; 2] {
        let link = format!(
            "[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"10 Mbit/s\"\n{policy}\n\
             [[flow]]\nbetween = [\"a\", \"b\"]\nkind = \"tcp\"\n"
        );
        let (registry, files) = (Registry::builtin(), OneFile(YIELDING));
        let text = format!("version = 1\nduration = \"1 s\"\n{link}");
        let scenario = Scenarios::read("s.toml", &text, &registry, &files);
        let link = link.split("[[flow]]").next().unwrap_or_default();
        let text = format!("version = 1\nhosts = [\"a\", \"b\"]\n{link}");
        let topology = Topology::read("t.toml", &text, &registry, &files);
        [
            scenario
                .map(|read| read.warnings.to_string())
                .map_err(|wrong| wrong.to_string()),
            topology
                .map(|read| read.warnings.to_string())
                .map_err(|wrong| wrong.to_string()),
        ]
    }

    #[test]
    fn a_policy_of_run_serves_simulator_and_lab_and_what_does_not_act_is_said() {
        for (said, place) in said("policy.a = \"router.toml\"")
            .into_iter()
            .zip(["s.toml:6:12", "t.toml:6:12"])
        {
            let said = said.expect("a good policy");
            assert!(
                said.contains(place) && said.contains("`bulk` does not yield here"),
                "{said}"
            );
        }
    }

    #[test]
    fn yields_written_for_a_link_is_refused() {
        let own = "[link.policy.a]\nbandwidth = \"8 Mbit/s\"\ndiscipline = \"drr\"\n\
                   [[link.policy.a.class]]\nname = \"bulk\"\nyields = {}\n\
                   [[link.policy.a.class]]\nname = \"rest\"\ndefault = true";
        for said in said(own) {
            let said = said.expect_err("yields");
            assert!(
                said.contains(":11:1") && said.contains("`bulk` does not yield here"),
                "{said}"
            );
        }
    }
}
