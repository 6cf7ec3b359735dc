//! `suimon check`: reads a policy or a scenario, and reports every mistake in it, or shows
//! what it means.

use crate::commands::Context;
use crate::exit::{Exit, Failure};
use crate::source;
use crate::worst_cases;
use clap::Args;
use control::autorate::AutorateConfig;
use control::diagnostics::{Diagnostics, Severity};
use control::documents::Document;
use control::filters;
use control::policy::{InterfacePolicy, InterfaceSettings, Policy};
use control::port_config::AttachedPort;
use control::protocol::SettingChange;
use control::readout;
use control::snapshot;
use control::yields::{Yields, least_round_trip};
use engine::disciplines::PLAIN_LEAF;
use engine::framing::Framing;
use engine::packet::ClassId;
use engine::port_kind::{Attachment, device};
use engine::tree::{ClassInfo, TreePlan};
use engine::units::{Bandwidth, Probability};
use measure::numbers;
use plot::colour;
use plot::text::{self, Align};
use scenario::report::preview;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::iter;

/// Check a policy or a scenario: show what it means, or every mistake in it
#[derive(Debug, Args)]
pub struct Check {
    /// The policy or the scenario, a TOML file; `-` reads standard input
    policy: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Check {
    /// Checks it.
    pub fn run(&self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let Context { registry, out } = cx;
        let (registry, out) = (*registry, &mut **out);
        let text = source::load("policy", &self.policy)?;
        let mut read = Policy::read(&self.policy, &text, registry, &netio::ports::declared());
        // A scenario is no valid policy: a valid policy is read once.
        if read.is_err() && Document::of(&text) == Some(Document::Scenario) {
            let accepted = preview::check(&self.policy, &text, registry, self.json, out)?;
            return Ok(if accepted { Exit::Done } else { Exit::Usage });
        }
        let colour = colour::wanted(&io::stdout());
        // There may be a line for each of very many classes.
        let out = &mut io::BufWriter::new(out);
        if let Ok(policy) = &mut read {
            let memory = gateway::memory::warnings(policy, registry);
            policy.warnings.fill(Severity::Warning, memory);
        }
        match &read {
            _ if self.json => writeln!(out, "{:#}", to_json(&self.policy, &read))?,
            Ok(policy) => {
                write!(out, "{}", policy.warnings.render(colour))?;
                show(out, &self.policy, policy)?;
            }
            Err(diagnostics) => write!(out, "{}", diagnostics.render(colour))?,
        }
        out.flush()?;
        let exit = if read.is_ok() { Exit::Done } else { Exit::Usage };
        // The program ends. What it has of very many classes is not given back piece by piece.
        std::mem::forget(read);
        Ok(exit)
    }
}

fn show(out: &mut dyn Write, path: &str, policy: &Policy) -> io::Result<()> {
    let counted = |n: usize, what: &str, many: &str| format!("{n} {}", if n == 1 { what } else { many });
    let classes = policy.interfaces.iter().map(|i| i.plan.classes.len()).sum();
    let filters = policy.interfaces.iter().map(|i| i.filters.len()).sum();
    writeln!(
        out,
        "{path}: valid: {}, {}, {}",
        counted(policy.interfaces.len(), "interface", "interfaces"),
        counted(classes, "class", "classes"),
        counted(filters, "filter", "filters"),
    )?;
    if let Some(port) = &policy.port {
        writeln!(out)?;
        let ring = port.settings.transmit_ring;
        for attached in &port.attached {
            writeln!(out, "port {}", port_text(attached, ring))?;
        }
        for name in port.interfaces() {
            if policy.interface(name).is_none() {
                writeln!(out, "     {name} is not managed: what takes it passes in order")?;
            }
        }
    }
    if policy.port.is_none() {
        writeln!(
            out,
            "no [port]: for `sim` and links of `lab` only; `run` needs one: between = [\"lan0\", \"wan0\"]"
        )?;
    }
    policy
        .interfaces
        .iter()
        .try_for_each(|interface| show_interface(out, interface))
}

fn port_text(port: &AttachedPort, ring: u32) -> String {
    let location = match &port.attachment {
        Attachment::Between(a, b) => format!("between {a} and {b}"),
        Attachment::Egress(interface) => format!("for what this host sends through {interface}"),
        Attachment::Ingress(managed) => format!("for what this host receives on {}", device(managed)),
        Attachment::Files { read, write } => format!("from {read} to {write}"),
    };
    format!(
        "{} {location}, {ring} packets in the transmit ring",
        port.kind_name()
    )
}

fn show_interface(out: &mut dyn Write, interface: &InterfacePolicy) -> io::Result<()> {
    let settings = &interface.settings;
    let framing = match settings.framing() {
        Framing::PLAIN => String::new(),
        other => format!(" of {other}"),
    };
    let (name, rate) = (&interface.name, numbers::rate(settings.bandwidth.bits()));
    writeln!(
        out,
        "\n{name}  {rate}{framing}  {}",
        readout::discipline(&interface.spec)
    )?;
    let plan = &interface.plan;
    let classes = interface.spec.class_specs();
    let order = snapshot::depth_first(plan);
    let depths: Vec<usize> = order.iter().map(|(_, depth)| *depth).collect();
    let rows = order
        .iter()
        .zip(text::branches(&depths))
        .map(|(&(index, _), branch)| {
            let info = &plan.classes[index];
            let class = classes.find(index, &info.name);
            let rate = class.and_then(|class| snapshot::configured_rate(class, settings.bandwidth));
            let share = rate.map(|rate| Probability::ratio(rate.bits(), settings.bandwidth.bits()).as_f64());
            let queue = class.filter(|_| info.leaf).map(|class| match &class.discipline {
                Some(spec) => readout::discipline(spec),
                None => PLAIN_LEAF.name.into(),
            });
            vec![
                format!("{branch}{}", info.name),
                rate.map(|rate| numbers::rate(rate.bits())).unwrap_or_default(),
                share.map(numbers::share).unwrap_or_default(),
                class
                    .map(|class| readout::settings(&class.settings, &["rate"]))
                    .unwrap_or_default(),
                queue.unwrap_or_default(),
                default_text(plan, index, class.is_some_and(|class| class.default)),
            ]
        });
    let (left, right) = (Align::Left, Align::Right);
    for line in text::table(&rows.collect::<Vec<_>>(), &[left, right, right, left, left, left]) {
        writeln!(out, "{line}")?;
    }
    for yields in &interface.yields {
        writeln!(out, "{} yields {}", yields.class, yields_text(yields, settings))?;
    }
    for quota in interface.quotas.iter() {
        writeln!(out, "{} has {}", quota.class, quota.words())?;
    }
    if let Some(autorate) = &interface.autorate {
        writeln!(out, "autorate: {}", autorate_text(autorate, settings.bandwidth))?;
    }
    for line in worst_cases::lines(interface) {
        writeln!(out, "{line}")?;
    }
    show_filters(out, interface)
}

/// Marks the class of what no filter takes; and a class that is the default of the queue of another
/// class alone.
fn default_text(plan: &TreePlan, index: usize, declared: bool) -> String {
    let class = ClassId(u32::try_from(index).unwrap_or(u32::MAX));
    if plan.default == Some(class) {
        return "default".into();
    }
    let above = |info: &&ClassInfo| info.parent.and_then(|parent| plan.info(parent));
    // A parent within the same discipline takes no packets itself.
    let mut parents = iter::successors(plan.info(class).as_ref().and_then(above), |info| above(info));
    match parents.find(|info| info.leaf).filter(|_| declared) {
        Some(owner) => format!("default in {}", owner.name),
        None => String::new(),
    }
}

/// `with weight 2, at most 5 Mbit/s, not below 1 Mbit/s; only over round trips from 12.1 ms`
fn yields_text(yields: &Yields, interface: &InterfaceSettings) -> String {
    let link = interface.bandwidth;
    let [cap, floor] = yields
        .rates(link)
        .map(|rate| rate.map(|rate| numbers::rate(rate.bits())));
    let mut text = vec![format!("with weight {}", yields.settings.weight)];
    text.extend(cap.map(|cap| format!("at most {cap}")));
    text.extend(floor.map(|floor| format!("not below {floor}")));
    let least = numbers::time(least_round_trip(link, interface.max_frame).nanos());
    format!(
        "{}; only over round trips from {least}, without queues: over shorter ones it keeps more of the link",
        text.join(", ")
    )
}

/// `from 2 Mbit/s to 20 Mbit/s, by 3 ms of queue on the way to 9.9.9.9; …`
fn autorate_text(autorate: &AutorateConfig, bandwidth: Bandwidth) -> String {
    let [least, most] = autorate.bounds(bandwidth).map(|rate| numbers::rate(rate.bits()));
    let queue = numbers::time(autorate.settings.queue.nanos());
    let targets: Vec<String> = autorate.targets.iter().map(ToString::to_string).collect();
    format!(
        "follows the line from {least} to {most}, by {queue} of queue on the way to {}; \
         weights share whatever rate there is, and rates, also those in per cent, are what they are at {most}",
        targets.join(" or ")
    )
}

fn show_filters(out: &mut dyn Write, interface: &InterfacePolicy) -> io::Result<()> {
    let plan = &interface.plan;
    let filters = filters::in_order(&interface.filters);
    if !filters.is_empty() {
        writeln!(out, "filters, the first that matches decides:")?;
    }
    let unmatched = plan.default.and_then(|class| plan.info(class));
    let others = unmatched.map(|info| {
        vec![
            "  anything else".into(),
            format!("→ {}", info.name),
            String::new(),
        ]
    });
    let rows = filters.iter().map(|filter| {
        let class = plan.info(filter.class).map_or("", |info| info.name.as_str());
        let rule = if filter.rule == 0 {
            String::new()
        } else {
            format!("rule {}", filter.rule)
        };
        vec![
            format!("  {}", filters::words(filter)),
            format!("→ {class}"),
            rule,
        ]
    });
    let rows = rows.chain(others.filter(|_| !filters.is_empty()));
    for line in text::table(&rows.collect::<Vec<_>>(), &[Align::Left; 3]) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn to_json(path: &str, read: &Result<Policy, Diagnostics>) -> Value {
    let diagnostics = match read {
        Ok(policy) => &policy.warnings,
        Err(diagnostics) => diagnostics,
    };
    let interfaces: Vec<Value> = match read {
        Ok(policy) => policy.interfaces.iter().map(interface_json).collect(),
        Err(_) => Vec::new(),
    };
    let port = read.as_ref().ok().and_then(|policy| policy.port.as_ref());
    json!({
        "policy": path,
        "accepted": read.is_ok(),
        "mistakes": diagnostics.mistakes(),
        "diagnostics": diagnostics.places(),
        "port": port.map(|port| json!({
            "interfaces": port.interfaces(),
            "transmit_ring": port.settings.transmit_ring,
            "attached": port.attached.iter().map(|attached| json!({
                "kind": attached.kind_name(), "interfaces": attached.interfaces(),
            })).collect::<Vec<_>>(),
            // That of the first.
            "kind": port.attached.first().map(AttachedPort::kind_name),
        })),
        "interfaces": interfaces,
    })
}

fn interface_json(interface: &InterfacePolicy) -> Value {
    let plan = &interface.plan;
    let specs = interface.spec.class_specs();
    let rate = |index: usize, name: &str| {
        let class = specs.find(index, name)?;
        snapshot::configured_rate(class, interface.settings.bandwidth)
    };
    let classes = snapshot::depth_first(plan).into_iter().map(|(index, depth)| {
        let info = &plan.classes[index];
        let parent = info.parent.and_then(|parent| plan.info(parent));
        json!({ "name": info.name.as_str(), "parent": parent.map(|p| p.name.as_str()), "depth": depth, "leaf": info.leaf,
                "yields": interface.yields.iter().find(|yields| yields.class == info.name).map(|yields| {
                    let settings = &interface.settings;
                    let [cap, floor] = yields.rates(settings.bandwidth);
                    let least = least_round_trip(settings.bandwidth, settings.max_frame);
                    json!({ "weight": yields.settings.weight, "cap_bps": cap.map(Bandwidth::bits),
                            "floor_bps": floor.map(Bandwidth::bits), "least_round_trip_ns": least.nanos() })
                }),
                "quota": interface.quotas.iter().find(|quota| quota.class == info.name).map(|quota| {
                    let volume = quota.settings.volume;
                    let then = quota.then.iter();
                    let then: BTreeMap<_, _> = then
                        .map(|(key, value)| (key.clone(), SettingChange::of(value)))
                        .collect();
                    json!({ "volume_bytes": volume.bytes.get(), "per": volume.per.name(), "then": then })
                }),
                "default": plan.default.is_some_and(|class| class.0 as usize == index),
                "rate_bps": rate(index, &info.name).map(Bandwidth::bits) })
    });
    let filters = filters::in_order(&interface.filters).into_iter().map(|filter| {
        json!({ "class": plan.info(filter.class).map(|info| info.name.as_str()), "rule": filter.rule,
                "takes": filters::words(filter) })
    });
    json!({
        "name": interface.name,
        "bandwidth_bps": interface.settings.bandwidth.bits(),
        "overhead_bytes": interface.settings.overhead.get(),
        "mpu_bytes": interface.settings.mpu.get(),
        "linklayer": interface.settings.linklayer.name(),
        "discipline": readout::discipline(&interface.spec),
        "classes": classes.collect::<Vec<_>>(),
        "worst_cases": worst_cases::json(interface),
        "autorate": interface.autorate.as_ref().map(|autorate| {
            let [least, most] = autorate.bounds(interface.settings.bandwidth);
            json!({ "min_bps": least.bits(), "max_bps": most.bits(), "targets": &autorate.targets,
                    "queue_ns": autorate.settings.queue.nanos() })
        }),
        "filters": filters.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(policy: &str, json: bool) -> (Exit, String) {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../control/tests/policies/");
        let policy = format!("{root}{policy}");
        let mut out = Vec::new();
        let exit = Check { policy, json }
            .run(&mut Context {
                registry: &engine::tree::Registry::builtin(),
                out: &mut out,
            })
            .expect("an existing file");
        (exit, String::from_utf8(out).expect("text").replace(root, ""))
    }

    #[test]
    fn check_says_over_which_round_trips_a_class_cannot_yield() {
        let (_, shown) = check("yields_idle.toml", false);
        let line = "datagrams yields with weight 1, at most 20 Mbit/s; only over round trips from 6.056 ms, without queues";
        assert!(shown.contains(line), "{shown}");
        let (_, shown) = check("yields_idle.toml", true);
        let value: Value = serde_json::from_str(&shown).expect("JSON");
        let class = &value["interfaces"][0]["classes"][0]["yields"];
        assert_eq!(class["least_round_trip_ns"], 6_056_000, "{shown}");
    }

    #[test]
    fn a_valid_policy_is_shown_as_a_tree() {
        let (exit, shown) = check("cbq_good.toml", false);
        let expected = "\
cbq_good.toml: valid: 1 interface, 4 classes, 3 filters

port af_packet between lan0 and wan0, 64 packets in the transmit ring
     lan0 is not managed: what takes it passes in order

wan0  20 Mbit/s  cbq sharing=formal
├─ office    16 Mbit/s  80 %
│  ├─ voice   2 Mbit/s  10 %  priority=7  fq_codel
│  └─ work   14 Mbit/s  70 %              red ecn=true over fifo
└─ rest       4 Mbit/s  20 %              fq_codel                default
no bound on delays: none guaranteed: `sends` states no rate and burst
filters, the first that matches decides:
  ipv4, from 10.1.0.0/16           → work   rule 10
  udp, destination port 5060-5070  → voice
  dscp ef                          → voice
  anything else                    → rest
";
        assert_eq!((exit, shown.as_str()), (Exit::Done, expected), "\n{shown}");
    }

    #[test]
    fn check_says_that_a_policy_without_a_port_is_for_sim_only() {
        let (exit, shown) = check("warnings.toml", false);
        assert_eq!(exit, Exit::Done, "{shown}");
        assert!(
            shown.contains("no [port]: for `sim` and links of `lab` only"),
            "{shown}"
        );
        let (_, shown) = check("cbq_good.toml", false);
        assert!(!shown.contains("no [port]"), "{shown}");
    }

    #[test]
    fn the_default_class_below_wrappers_is_the_same_in_text_and_json() {
        let (exit, shown) = check("default_below_wrappers.toml", false);
        assert_eq!(exit, Exit::Done, "{shown}");
        let row = |name: &str| {
            let named = |line: &&str| line.split_whitespace().any(|word| word == name);
            shown
                .lines()
                .find(named)
                .unwrap_or_else(|| panic!("{name}: {shown}"))
                .to_owned()
        };
        assert!(row("bulk").ends_with(" default"), "{shown}");
        assert!(row("mail").ends_with(" default in office"), "{shown}");
        assert!(
            !row("voice").contains("default") && !row("rest").contains("default"),
            "{shown}"
        );
        assert!(
            shown.contains("anything else") && row("anything").ends_with("→ bulk"),
            "{shown}"
        );
        let (_, shown) = check("default_below_wrappers.toml", true);
        let value: Value = serde_json::from_str(&shown).expect("json");
        let classes = value["interfaces"][0]["classes"].as_array().expect("a list");
        let defaults = classes.iter().filter(|class| class["default"] == true);
        assert_eq!(defaults.map(|class| &class["name"]).collect::<Vec<_>>(), ["bulk"]);
    }

    #[test]
    fn all_mistakes_are_shown_with_the_exit_code_for_configuration() {
        let (exit, shown) = check("many.toml", false);
        assert_eq!(exit, Exit::Usage);
        assert!(shown.ends_with("many.toml: 12 mistakes\n"), "{shown}");
    }

    #[test]
    fn json_has_the_positions_of_mistakes_and_the_classes_of_a_valid_policy() {
        let (_, shown) = check("cbq_sum.toml", true);
        let value: Value = serde_json::from_str(&shown).expect("json");
        let diagnostic = &value["diagnostics"][0];
        assert_eq!(
            (&diagnostic["line"], &diagnostic["column"]),
            (&json!(17), &json!(8))
        );
        assert_eq!(value["accepted"], false);
        let (_, shown) = check("cbq_good.toml", true);
        let value: Value = serde_json::from_str(&shown).expect("json");
        assert_eq!(value["interfaces"][0]["classes"][1]["name"], "voice");
        assert_eq!(value["interfaces"][0]["classes"][1]["rate_bps"], 2_000_000);
    }
}
