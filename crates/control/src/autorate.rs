//! `[interface.NAME.autorate]`: the rate of an interface follows a line that varies, by the round
//! trips to a host on its other side.
//!
//! This file has the settings and their diagnostics, and what is shown of it. `suimon run` carries
//! it out: the control law is in the crate `host`, the prober in `gateway`, and why it is so in
//! `docs/decisions/autorate.md`. The tree of the interface stays that of its `bandwidth`, which is
//! the most that is sent; only the clock behind the tree gets another rate. So shares by weight
//! hold at every rate, and what is promised as a rate must fit into the least.

use crate::sections::Section;
use crate::values::TomlValue;
use engine::packet::ClassId;
use engine::port_kind::{Attachment, device};
use engine::settings::{Problem, Span};
use engine::tree::{DisciplineSpec, Registry, TreePlan};
use engine::units::{Bandwidth, Duration, Rate};
use engine::{choices, settings};
use measure::numbers;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::net::IpAddr;

choices! {
    /// On which side of the interface's queue the line is.
    pub enum LineSide {
        /// What leaves the queue enters the line.
        Ahead = "ahead",
        /// What enters the queue has left the line.
        Behind = "behind",
    }
}

settings! {
    /// How the rate of an interface follows its line, beside `targets`.
    pub struct AutorateSettings {
        /// The least rate: what is promised to classes must fit into it
        min: Rate = default "10 %",
            "too small: hosts wait for a rate that a lost answer took; too large: a line that carries less has a queue",
            "lines vary by ten";
        /// The rate to begin with
        start: Rate = derived "between `min` and `bandwidth`, as many times one as the other is of it",
            "-", "it is found within a second";
        /// The queue that may stand in the line: above it the rate falls
        queue: Duration = default "3 ms",
            "too small: answers that are late by chance lower the rate; too large: all wait so long",
            "a frame or two at some Mbit/s";
        /// On which side of the queue the line is
        line: LineSide = derived "behind for `NAME:in`, which is received; ahead for others",
            "the wrong one: what the line carries is not seen", "between two interfaces, downloads leave by the inner one: \"behind\"";
    }
}

/// A checked section.
#[derive(Clone, PartialEq, Debug)]
pub struct AutorateConfig {
    /// The hosts that are asked: the first, and the next one where that does not answer.
    pub targets: Vec<IpAddr>,
    /// The other settings.
    pub settings: AutorateSettings,
    /// Where the policy has it.
    pub at: Span,
}

/// How it stands, as `status` shows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AutorateView {
    /// What is sent at most now.
    pub rate_bps: u64,
    /// The least that this may become.
    pub min_bps: u64,
    /// The most: the interface's bandwidth.
    pub max_bps: u64,
    /// `idle`, `probing`, `following`, `capped`; or `blind: …`, and why.
    pub state: String,
    /// It cannot see what the line carries: no host answers, and it sends the least; or the delay
    /// shows nothing, and it sends the most.
    pub blind: bool,
    /// The host that is asked.
    pub target: String,
    /// The round trip to it without a queue; none before the first answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_ns: Option<u64>,
    /// By how much the last round trip was longer.
    pub queue_ns: u64,
}

/// Hosts at most.
const MOST_TARGETS: usize = 8;
const SHORTEST_QUEUE: Duration = Duration::from_millis(3);
const LONGEST_QUEUE: Duration = Duration::from_secs(1);
const LEAST: Bandwidth = Bandwidth::kbit(8);
/// The setting beside those declared.
pub(crate) const TARGETS: &str = "targets";

/// Reads the section; `None` if a problem was reported.
pub(crate) fn read(section: &Section<'_>, at: Span, problems: &mut Vec<Problem>) -> Option<AutorateConfig> {
    let before = problems.len();
    let settings = AutorateSettings::read(&section.table(|_| true), &[TARGETS], problems);
    let targets = match section.get(TARGETS) {
        Some(pair) => targets(&pair.value, problems),
        None => {
            let missing = "`targets` is missing: the hosts whose round trips tell of the line's queue";
            let help =
                "name one or more on the other side of the line that answer pings: `targets = [\"9.9.9.9\"]`";
            problems.push(Problem::new(section.at, missing).help(help));
            Vec::new()
        }
    };
    let settings = settings?;
    if settings.queue < SHORTEST_QUEUE || settings.queue > LONGEST_QUEUE {
        let at = section.get("queue").map_or(at, |pair| pair.value.at);
        let message = format!("`queue` must be from {SHORTEST_QUEUE} to {LONGEST_QUEUE}");
        problems.push(Problem::new(at, message));
    }
    (problems.len() == before).then_some(AutorateConfig {
        targets,
        settings,
        at,
    })
}

fn targets(value: &TomlValue<'_>, problems: &mut Vec<Problem>) -> Vec<IpAddr> {
    let expected = "`targets`: expected addresses of hosts in quotes such as [\"9.9.9.9\", \"2620:fe::fe\"]";
    let Some(items) = value.items() else {
        problems.push(value.wrong(expected));
        return Vec::new();
    };
    if items.is_empty() || items.len() > MOST_TARGETS {
        let message = format!("`targets` are 1 to {MOST_TARGETS} hosts; found {}", items.len());
        problems.push(Problem::new(value.at, message));
    }
    let mut found: Vec<IpAddr> = Vec::new();
    for item in items {
        match item.value.as_str().and_then(|text| text.parse().ok()) {
            None => problems.push(item.wrong(expected)),
            Some(address) => match no_host_beyond(address) {
                Some(why) => problems.push(Problem::new(item.at, format!("`{address}` {why}"))),
                None if found.contains(&address) => {
                    problems.push(Problem::new(item.at, format!("`{address}` twice")));
                }
                None => found.push(address),
            },
        }
    }
    found
}

/// Why no line leads to this address; none if one may.
fn no_host_beyond(address: IpAddr) -> Option<&'static str> {
    match address {
        _ if address.is_loopback() => Some("is this host: no line leads to it"),
        _ if address.is_unspecified() => Some("is no host's address"),
        _ if address.is_multicast() => Some("is the address of many hosts"),
        IpAddr::V4(v4) if v4.is_broadcast() => Some("is the address of many hosts"),
        IpAddr::V6(v6) if v6.is_unicast_link_local() => Some("is a neighbour's, which lines do not lead to"),
        _ => None,
    }
}

impl AutorateConfig {
    /// The least and the most that may be sent, on an interface of this bandwidth.
    pub fn bounds(&self, bandwidth: Bandwidth) -> [Bandwidth; 2] {
        [self.settings.min.on(bandwidth), bandwidth]
    }

    /// The rate to begin with, if it is stated.
    pub fn start(&self, bandwidth: Bandwidth) -> Option<Bandwidth> {
        self.settings.start.map(|rate| rate.on(bandwidth))
    }

    /// On which side of the queue of this interface the line is.
    pub fn line(&self, interface: &str) -> LineSide {
        let received = device(interface) != interface;
        let usual = if received {
            LineSide::Behind
        } else {
            LineSide::Ahead
        };
        self.settings.line.unwrap_or(usual)
    }

    /// What a difference shows of it.
    pub(crate) fn words(&self, bandwidth: Bandwidth) -> String {
        let targets: Vec<String> = self.targets.iter().map(ToString::to_string).collect();
        let start = self.start(bandwidth).map(shown);
        let start = start.map_or_else(String::new, |rate| format!(" from {rate}"));
        let line = self
            .settings
            .line
            .map_or_else(String::new, |line| format!(", {} it", line.name()));
        let [least, _] = self.bounds(bandwidth);
        format!(
            "down to {}{start}, {} of queue, by {}{line}",
            shown(least),
            self.settings.queue,
            targets.join(" or ")
        )
    }

    /// The mistakes in it, on an interface that is sound otherwise.
    pub(crate) fn mistakes(&self, of: &Concerned<'_>, registry: &Registry) -> Vec<Problem> {
        let mut found = Vec::new();
        let mut wrong = |message: String, help: &str| found.push(Problem::new(self.at, message).help(help));
        let [least, most] = self.bounds(of.plan.link.bandwidth);
        if least >= most {
            wrong(
                format!(
                    "`min`, {}, is not below `bandwidth`, {}, which is the most: nothing follows the line",
                    shown(least),
                    shown(most)
                ),
                "make `min` what the line carries at worst, and `bandwidth` what it carries at best",
            );
        } else if least < LEAST {
            wrong(
                format!("`min`, {}, must be at least {}", shown(least), shown(LEAST)),
                "no frame would leave in time",
            );
        }
        if let Some(start) = self.start(most).filter(|start| *start < least || *start > most) {
            wrong(
                format!(
                    "`start`, {}, is not between `min`, {}, and `bandwidth`, {}",
                    shown(start),
                    shown(least),
                    shown(most)
                ),
                "leave it out",
            );
        }
        if let Some(what) = of.settled(registry) {
            wrong(
                format!("{what}, and `autorate` varies that"),
                "leave one of both out",
            );
        }
        if let Some(promised) = of.promised(registry).filter(|promised| *promised > least) {
            wrong(
                format!(
                    "classes are promised {} together, and `autorate` may go down to {}",
                    shown(promised),
                    shown(least)
                ),
                "rates in per cent are of `bandwidth`: state less, or raise `min`; weights (`drr`, `wfq`) share whatever rate there is",
            );
        }
        found
    }
}

fn shown(rate: Bandwidth) -> String {
    numbers::rate(rate.bits())
}

/// What of an interface the rate concerns.
pub(crate) struct Concerned<'a> {
    pub(crate) spec: &'a DisciplineSpec,
    pub(crate) plan: &'a TreePlan,
    /// The rates that settings of classes state.
    pub(crate) stated: HashMap<ClassId, Bandwidth>,
    /// Whether classes yield.
    pub(crate) yields: bool,
    /// Whether RSVP may reserve of it.
    pub(crate) reserves: bool,
}

impl Concerned<'_> {
    /// What is settled for one rate of the link.
    fn settled(&self, registry: &Registry) -> Option<String> {
        let kind = &self.spec.kind;
        if let Some(kind) = guarantees_delays(self.spec, registry) {
            return Some(format!("`{kind}` guarantees delays by the link's rate"));
        }
        if self.plan.root.plan.pacing().is_some() {
            return Some(format!(
                "`{kind}` sends each packet at its time by the link's rate"
            ));
        }
        match (self.yields, self.reserves) {
            (true, _) => Some("`yields` clamps connections by the link's rate".into()),
            (_, true) => Some("`reserve` promises parts of the link's rate for good".into()),
            _ => None,
        }
    }

    /// The rates that the outermost classes are promised together, however slow the link is; none
    /// where they have parts of whatever rate there is.
    fn promised(&self, registry: &Registry) -> Option<Bandwidth> {
        let mut spec = self.spec;
        while spec.classes.is_empty() {
            spec = spec.child.as_deref()?;
        }
        let has_parts = registry.find(&spec.kind)?.properties.follows_any_rate;
        let (plan, link) = (self.plan, self.plan.link.bandwidth);
        let outermost = spec.classes.iter();
        let outermost = outermost.filter(|class| !class.vacant && class.parent.is_none());
        let rate = |id: ClassId| {
            let served = plan.root.plan.serves(Some(id), link);
            served.or_else(|| self.stated.get(&id).copied())
        };
        let rates = outermost.filter_map(|class| rate(plan.class(&class.name)?));
        let bits = rates.map(Bandwidth::bits).fold(0, u64::saturating_add);
        (!has_parts).then_some(Bandwidth::bits_per_sec(bits))
    }
}

/// A discipline in this tree that guarantees delays.
fn guarantees_delays<'a>(spec: &'a DisciplineSpec, registry: &Registry) -> Option<&'a str> {
    let kind = registry.find(&spec.kind);
    if kind.is_some_and(|kind| kind.properties.guarantees_delays) {
        return Some(&spec.kind);
    }
    let below = spec.classes.iter().filter_map(|class| class.discipline.as_ref());
    let mut below = below.chain(spec.child.as_deref());
    below.find_map(|inner| guarantees_delays(inner, registry))
}

/// Why there is no line at the port of this interface; `None` if there may be.
pub(crate) fn no_line(attachment: &Attachment) -> Option<&'static str> {
    match attachment {
        Attachment::Files { .. } => Some("packets of a file take no line"),
        Attachment::Between(..) | Attachment::Egress(_) | Attachment::Ingress(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_no_line_leads_to_is_no_target() {
        let many = Some("is the address of many hosts");
        for (address, why) in [
            ("9.9.9.9", None),
            ("192.168.1.1", None),
            ("2620:fe::fe", None),
            ("fd00::1", None),
            ("127.0.0.9", Some("is this host: no line leads to it")),
            ("::1", Some("is this host: no line leads to it")),
            ("0.0.0.0", Some("is no host's address")),
            ("224.0.0.1", many),
            ("ff02::1", many),
            ("255.255.255.255", many),
            ("255.255.255.254", None),
            ("fe80::1", Some("is a neighbour's, which lines do not lead to")),
        ] {
            assert_eq!(no_host_beyond(address.parse().expect(address)), why, "{address}");
        }
    }

    fn read(autorate: &str, interface: &str) -> Result<AutorateConfig, String> {
        let text = format!(
            "version = 1\n[interface.wan0]\nbandwidth = \"10 Mbit/s\"\n\
             autorate = {{ targets = [\"9.9.9.9\", \"1.1.1.1\"]{autorate} }}\n{interface}"
        );
        let read = crate::policy::Policy::read("test", &text, &Registry::builtin(), &[]);
        let policy = read.map_err(|mistakes| mistakes.render(false))?;
        Ok(policy.interfaces[0].autorate.clone().expect("it follows"))
    }

    #[test]
    fn autorate_is_told_with_all_that_is_stated() {
        let words = |autorate| read(autorate, "").expect(autorate).words(Bandwidth::mbit(10));
        assert_eq!(
            words(""),
            "down to 1 Mbit/s, 3 ms of queue, by 9.9.9.9 or 1.1.1.1"
        );
        assert_eq!(
            words(", min = \"20 %\", start = \"5 Mbit/s\", queue = \"7 ms\", line = \"behind\""),
            "down to 2 Mbit/s from 5 Mbit/s, 7 ms of queue, by 9.9.9.9 or 1.1.1.1, behind it"
        );
    }

    #[test]
    fn the_first_rate_is_from_the_least_to_the_most() {
        for (start, sound) in [
            ("999 kbit/s", false),
            ("1 Mbit/s", true),
            ("10 Mbit/s", true),
            ("10001 kbit/s", false),
        ] {
            let found = read(&format!(", min = \"1 Mbit/s\", start = \"{start}\""), "");
            assert_eq!(found.is_ok(), sound, "{start}: {found:?}");
            let told = found.err().unwrap_or_default();
            assert!(sound || told.contains("is not between `min`"), "{told}");
        }
    }

    #[test]
    fn the_least_rate_is_below_the_bandwidth_and_lets_frames_leave() {
        for (min, why) in [
            ("7 kbit/s", "must be at least 8 kbit/s"),
            ("8 kbit/s", ""),
            ("9999 kbit/s", ""),
            ("10 Mbit/s", "nothing follows the line"),
        ] {
            let told = read(&format!(", min = \"{min}\""), "").err().unwrap_or_default();
            assert!(
                told.contains(why) && told.is_empty() == why.is_empty(),
                "{min}: {told}"
            );
        }
    }

    #[test]
    fn what_the_outermost_classes_are_promised_fits_into_the_least_rate() {
        let tree = "discipline = \"cbq\"\n[[interface.wan0.class]]\nname = \"a\"\nrate = \"3 Mbit/s\"\n\
            [[interface.wan0.class]]\nname = \"b\"\nparent = \"a\"\nrate = \"2 Mbit/s\"\n\
            [[interface.wan0.class]]\nname = \"c\"\nrate = \"1 Mbit/s\"\ndefault = true\n";
        assert!(read(", min = \"4 Mbit/s\"", tree).is_ok());
        let told = read(", min = \"3999 kbit/s\"", tree).expect_err("too much");
        assert!(told.contains("classes are promised 4 Mbit/s together"), "{told}");
    }
}
