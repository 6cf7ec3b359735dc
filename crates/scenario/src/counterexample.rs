//! A scenario of an arrival pattern against a bound, to be replayed: one file for the scenario with
//! the policy in it, and one for the packets of each class.
//!
//! The policy is that of one interface, behind a link of its bandwidth. Its filters are replaced:
//! each class gets a destination port of its own, so that packets reach the class that they are
//! meant for whatever the policy's filters are.

use engine::link::Link;
use engine::units::{Bytes, Duration};
use sim::adversary::{Adversary, FIRST_PORT, HOSTS};
use sim::link::Completion;
use std::fmt::Write;
use toml::{Table, Value};

/// A file of the scenario.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScenarioFile {
    /// Its name.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// Keys of an interface that a scenario's policy does not have, or has otherwise.
const LEFT_OUT: &[&str] = &["filter", "reserve"];

/// The worst pattern against a target: the scenario, named `name.toml`, and the packets of each
/// class. None if the policy's text has no such interface.
pub fn files(
    name: &str,
    policy: &str,
    interface: &str,
    link: Link,
    adversary: &Adversary,
    target: usize,
) -> Option<Vec<ScenarioFile>> {
    let document: Table = policy.parse().ok()?;
    let mut rules = document.get("interface")?.get(interface)?.as_table()?.clone();
    rules.retain(|key, _| !LEFT_OUT.contains(&key));
    let ports = adversary.senders().iter().zip(FIRST_PORT..);
    let filters: Vec<Value> = ports
        .filter(|(sender, _)| sender.class.is_some())
        .map(|(sender, port)| filter(&sender.name, port))
        .collect();
    if !filters.is_empty() {
        rules.insert("filter".into(), Value::Array(filters));
    }
    let packets = adversary.worst_packets(target);
    let judged = &adversary.targets()[target];
    let all = packets.iter().flat_map(|packets| packets.iter());
    let sent = all.clone().map(|(at, _)| *at).max().unwrap_or_default();
    let bytes = all.fold(Bytes::ZERO, |sum, (_, frame)| sum + link.framing.on_wire(*frame));
    let duration = sent + link.bandwidth.time_to_send(bytes).times(2) + Duration::from_secs(1);
    let (mut traces, mut flows) = (Vec::new(), Vec::new());
    for (((sender, packets), port), number) in adversary
        .senders()
        .iter()
        .zip(&packets)
        .zip(FIRST_PORT..)
        .zip(1..)
    {
        let Some((first, _)) = packets.first() else {
            continue;
        };
        let file = format!("{name}-{number}.trace");
        let mut flow = Table::new();
        flow.insert("name".into(), sender.name.clone().into());
        flow.insert("between".into(), HOSTS.map(Value::from).to_vec().into());
        flow.insert("kind".into(), "trace".into());
        flow.insert("file".into(), file.clone().into());
        flow.insert("start".into(), exact(*first).into());
        flow.insert("source_port".into(), i64::from(port).into());
        flow.insert("destination_port".into(), i64::from(port).into());
        flows.push(Value::Table(flow));
        traces.push(ScenarioFile {
            name: file,
            text: trace(&sender.name, packets),
        });
    }
    let mut expected = Table::new();
    expected.insert(
        "flow".into(),
        adversary.senders()[judged.sender].name.clone().into(),
    );
    expected.insert("metric".into(), "delay-max".into());
    expected.insert("at_most".into(), exact(judged.bound.delay).into());
    let mut wire = Table::new();
    wire.insert("between".into(), HOSTS.map(Value::from).to_vec().into());
    wire.insert("rate".into(), format!("{} bit/s", link.bandwidth.bits()).into());
    wire.insert("framing".into(), link.framing.setting().into());
    wire.insert("transmit_ring".into(), i64::from(link.ring).into());
    // As the search had it: packets wait in the ring behind the policy, too.
    wire.insert("completion".into(), Completion::Exact.name().into());
    let mut policies = Table::new();
    policies.insert(HOSTS[0].into(), Value::Table(rules));
    wire.insert("policy".into(), Value::Table(policies));
    let mut scenario = Table::new();
    scenario.insert("version".into(), 1.into());
    scenario.insert("duration".into(), exact(duration).into());
    scenario.insert("link".into(), vec![Value::Table(wire)].into());
    scenario.insert("flow".into(), flows.into());
    scenario.insert("expect".into(), vec![Value::Table(expected)].into());
    let head = format!(
        "# The worst pattern that `suimon prove` found against `{}` of `{interface}`: {} of a bound of {}.\n\
         # The delay is that of the flow: from its arrival to the last bit on the link.\n",
        adversary.senders()[judged.sender].name,
        judged.worst,
        judged.bound.delay
    );
    let mut files = vec![ScenarioFile {
        name: format!("{name}.toml"),
        text: format!("{head}{}", toml::to_string(&scenario).ok()?),
    }];
    files.append(&mut traces);
    Some(files)
}

fn filter(class: &str, port: u16) -> Value {
    let mut filter = Table::new();
    filter.insert("class".into(), class.into());
    filter.insert("protocol".into(), "udp".into());
    filter.insert("destination_port".into(), i64::from(port).into());
    Value::Table(filter)
}

/// A time without rounding.
fn exact(time: Duration) -> String {
    format!("{} ns", time.nanos())
}

/// The packets as the kind `trace` reads them.
fn trace(class: &str, packets: &[(Duration, Bytes)]) -> String {
    let mut text = format!("# The packets of class `{class}`: seconds, and bytes of the frame.\n");
    for (at, frame) in packets {
        let nanos = at.nanos();
        let _ = writeln!(
            text,
            "{}.{:09} {}",
            nanos / 1_000_000_000,
            nanos % 1_000_000_000,
            frame.get()
        );
    }
    text
}
