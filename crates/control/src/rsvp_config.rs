//! The `[rsvp]` section: the interfaces on which a node speaks RSVP, and the Path messages that it
//! answers as a receiver proxy. It opens nothing. What may be reserved on an interface is
//! configured there (`reserve`).

use crate::filters::{Addresses, PortRange, Protocol};
use crate::sections::Section;
use crate::values::TomlValue;
use core::net::IpAddr;
use engine::choices;
use engine::classify::Prefix;
use engine::settings;
use engine::settings::{Problem, Span};
use engine::units::{Bandwidth, Bytes, Duration};

choices! {
    /// Whether messages must carry INTEGRITY on interfaces with keys. An INTEGRITY object that is
    /// present must always verify.
    pub enum Protection {
        /// Messages without it are dropped.
        Required = "required",
        /// Messages without it are accepted, while keys are being distributed to neighbours.
        Optional = "optional",
    }
}

choices! {
    /// How the reservations for the senders of one session share the path (RFC 2205, section 1.3).
    pub enum AcceptStyle {
        /// FF: a reservation for each sender.
        Fixed = "ff",
        /// SE: one reservation that the senders share; those that the rule covers.
        SharedExplicit = "se",
        /// WF: one reservation that all senders of the session share.
        Wildcard = "wf",
    }
}

settings! {
    /// The settings of a node that speaks RSVP.
    pub struct RsvpSettings {
        /// R of RFC 2205: the mean refresh period
        refresh: Duration = default "30 s",
            "too short: load on all nodes; too long: reservations of a failed neighbour stay for minutes (5.25 times this)",
            "RFC 2205, section 3.7";
        /// The most messages received on an interface in a second
        most_messages: u32 = default "5000",
            "too small: reservations of a busy network time out; too large: a flood of messages keeps the processor busy",
            "RFC 6398: Router Alert packets are rate-limited; about 75000 sessions at the default refresh";
        /// The longest refresh period that is accepted of a neighbour: its state lives 5.25 times
        /// as long
        longest_refresh: Duration = derived "5 min, or `refresh` if that is longer",
            "too short: state of neighbours with a longer one times out between their refreshes; too long: state that one message has left stays for hours",
            "RFC 2205, section 3.7, has no limit: TIME_VALUES has room for 49 days";
        /// The most senders of neighbours with path state, and the most reservation requests: half
        /// of them for an interface, a quarter for a neighbour
        most_senders: u32 = default "100000",
            "too small: senders and requests are refused; too large: a flood takes memory, about 1.5 kB each",
            "about 150 MB";
        /// The key file: only messages of neighbours with these keys are accepted (RFC 2747)
        keys: String = derived "none: messages of any node on a link are accepted",
            "only its owner may read it (mode 600)", "without keys, any node on a link can reserve, and tear down reservations of others";
        /// Whether messages without INTEGRITY are dropped on interfaces that have a key
        protection: Protection = default "required",
            "`optional` accepts any node; use it while keys are being distributed to neighbours", "RFC 2747, section 1";
        /// Refresh reduction with capable neighbours: summary refreshes, and reliable delivery of
        /// new state (RFC 2961)
        refresh_reduction: bool = default "true",
            "`false` for neighbours that misread it", "RFC 2961: other neighbours get plain RSVP";
        /// How much is kept of what the node has heard, for recordings of the interfaces
        kept_messages: Bytes = default "8 MiB",
            "too small: what is reserved is soon not in a recording any more; too large: memory that others could use",
            "each message takes its own length and 16 to 60 bytes; as much again while a recording is written";
    }
}

settings! {
    /// Which Path messages are answered with a reservation.
    pub struct AcceptSettings {
        /// The destinations: this node's own addresses, or hosts behind it, whose receiver proxy it
        /// is
        to: Addresses = derived "this node's own addresses",
            "hosts in the prefix can no longer reserve for themselves", "RFC 5945, section 4.1";
        /// The senders
        from: Addresses = derived "anywhere", "", "";
        /// The transport protocol
        protocol: Protocol = derived "any", "", "";
        /// The destination ports
        port: PortRange = derived "any", "", "";
        /// The style: a reservation for each sender (`ff`), or one of the greatest rate that they
        /// share
        style: AcceptStyle = default "ff",
            "`se` and `wf`: senders that transmit at the same time share the rate of one; `wf` also admits senders that no rule covers",
            "RFC 2205, section 1.3";
        /// The greatest rate of one reservation, in bytes of IP datagrams
        up_to: Bandwidth = derived "what the links on the path admit",
            "too small: senders are refused", "the limits of a link are `share` and `largest` of its `reserve`";
    }
}

/// A checked `[rsvp]` section.
#[derive(Clone, PartialEq, Debug)]
pub struct RsvpConfig {
    /// The interfaces that speak RSVP; their order gives their identifiers.
    pub interfaces: Vec<String>,
    /// The other settings.
    pub settings: RsvpSettings,
    /// Neighbours whose messages need no INTEGRITY.
    pub unprotected: Vec<IpAddr>,
    /// The rules of the receiver proxy.
    pub accept: Vec<AcceptRule>,
}

/// A rule of the receiver proxy: which Path messages are answered with a reservation.
#[derive(Clone, PartialEq, Debug)]
pub struct AcceptRule {
    /// The destinations; `None`: this node's own addresses.
    pub to: Option<Prefix>,
    /// The senders.
    pub from: Option<Prefix>,
    /// The transport protocol.
    pub protocol: Option<u8>,
    /// The destination ports.
    pub port: Option<engine::classify::Ports>,
    /// The style of the reservations.
    pub style: AcceptStyle,
    /// The greatest rate of one reservation.
    pub up_to: Option<Bandwidth>,
}

/// The fields of a Path message that rules match.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IncomingPath {
    /// The destination of the session.
    pub to: IpAddr,
    /// Whether the destination is an address of this node.
    pub own: bool,
    /// The sender.
    pub from: IpAddr,
    /// The transport protocol.
    pub protocol: u8,
    /// The destination port.
    pub port: u16,
}

impl RsvpSettings {
    /// The defaults, with this mean refresh period.
    pub const fn refreshed(refresh: Duration) -> Self {
        Self {
            refresh,
            most_messages: 5_000,
            longest_refresh: None,
            most_senders: 100_000,
            keys: None,
            protection: Protection::Required,
            refresh_reduction: true,
            kept_messages: Bytes::new(8 << 20),
        }
    }

    /// The longest refresh period that is accepted of a neighbour.
    pub fn longest_accepted(&self) -> Duration {
        const USUAL: Duration = Duration::from_secs(300);
        self.longest_refresh.unwrap_or(USUAL.max(self.refresh))
    }
}

impl AcceptRule {
    /// Whether the rule matches a Path message.
    pub fn covers(&self, path: &IncomingPath) -> bool {
        self.to.map_or(path.own, |to| contains(to, path.to))
            && self.from.is_none_or(|from| contains(from, path.from))
            && self.protocol.is_none_or(|protocol| protocol == path.protocol)
            && self
                .port
                .is_none_or(|port| (port.low()..=port.high()).contains(&path.port))
    }

    /// Whether the node is the receiver proxy for this address, which is not its own.
    pub fn answers_for(&self, address: IpAddr) -> bool {
        self.to.is_some_and(|to| contains(to, address))
    }
}

impl Default for AcceptRule {
    fn default() -> Self {
        Self {
            to: None,
            from: None,
            protocol: None,
            port: None,
            style: AcceptStyle::Fixed,
            up_to: None,
        }
    }
}

impl From<AcceptSettings> for AcceptRule {
    fn from(read: AcceptSettings) -> Self {
        Self {
            to: read.to.map(|addresses| addresses.0),
            from: read.from.map(|addresses| addresses.0),
            protocol: read.protocol.map(|protocol| protocol.0),
            port: read.port.map(|port| port.0),
            style: read.style,
            up_to: read.up_to,
        }
    }
}

fn contains(prefix: Prefix, address: IpAddr) -> bool {
    let width = if address.is_ipv4() { 32 } else { 128 };
    let one = Prefix::new(address, width);
    one.is_some_and(|one| one.family() == prefix.family() && one.bits() & prefix.mask() == prefix.bits())
}

const OTHER_KEYS: &[&str] = &["interfaces", "accept", "unprotected"];

/// Reads the section; `None` if a problem was reported.
pub(crate) fn read(section: &Section<'_>, problems: &mut Vec<Problem>) -> Option<RsvpConfig> {
    let before = problems.len();
    let settings = RsvpSettings::read(&section.table(|key| !OTHER_KEYS.contains(&key)), &[], problems);
    let at = |key: &str| section.get(key).map_or(section.at, |pair| pair.value.at);
    if let Some(settings) = &settings {
        refuse_absurd(settings, at, problems);
    }
    let interfaces = match section.get("interfaces") {
        Some(pair) => interfaces(&pair.value, problems),
        None => {
            let problem = Problem::new(
                section.at,
                "`interfaces` is missing: the interfaces that speak RSVP",
            );
            problems.push(
                problem
                    .help("list those towards hosts and other routers: `interfaces = [\"lan0\", \"wan0\"]`"),
            );
            Vec::new()
        }
    };
    let unprotected = section.get("unprotected");
    let unprotected = unprotected.map_or_else(Vec::new, |pair| neighbours(&pair.value, problems));
    let sections = section.sections("accept", "rsvp.accept", problems);
    let read = |section: &Section<'_>| {
        AcceptSettings::read(&section.table(|_| true), &[], problems).map(AcceptRule::from)
    };
    let accept: Vec<AcceptRule> = sections.iter().filter_map(read).collect();
    let settings = settings?;
    (problems.len() == before).then_some(RsvpConfig {
        interfaces,
        settings,
        unprotected,
        accept,
    })
}

fn neighbours(value: &TomlValue<'_>, problems: &mut Vec<Problem>) -> Vec<IpAddr> {
    let expected = "`unprotected`: expected addresses of neighbours in quotes such as [\"10.0.1.7\"]";
    let Some(items) = value.items() else {
        problems.push(value.wrong(expected));
        return Vec::new();
    };
    let mut found = Vec::new();
    for item in items {
        match item.value.as_str().and_then(|text| text.parse().ok()) {
            Some(address) => found.push(address),
            None => problems.push(item.wrong(expected)),
        }
    }
    found
}

fn refuse_absurd(settings: &RsvpSettings, at: impl Fn(&str) -> Span, problems: &mut Vec<Problem>) {
    let (shortest, longest) = (Duration::from_millis(100), Duration::from_secs(3600));
    if settings.refresh < shortest || settings.refresh > longest {
        problems.push(Problem::new(
            at("refresh"),
            format!("`refresh` must be from {shortest} to {longest}"),
        ));
    }
    if settings
        .longest_refresh
        .is_some_and(|most| most < settings.refresh)
    {
        problems.push(Problem::new(
            at("longest_refresh"),
            "`longest_refresh` must not be below `refresh`: state of the neighbours would time out",
        ));
    }
    if settings.most_senders < 8 {
        problems.push(Problem::new(
            at("most_senders"),
            "`most_senders` must be at least 8: a neighbour gets a quarter of it",
        ));
    }
    if settings.most_messages == 0 {
        problems.push(Problem::new(
            at("most_messages"),
            "`most_messages` must be at least 1: nothing would be received",
        ));
    }
}

fn interfaces(value: &TomlValue<'_>, problems: &mut Vec<Problem>) -> Vec<String> {
    let expected = "`interfaces`: expected names in quotes such as [\"lan0\", \"wan0\"]";
    let Some(items) = value.items() else {
        problems.push(value.wrong(expected));
        return Vec::new();
    };
    if items.is_empty() {
        problems.push(Problem::new(value.at, format!("{expected}; found none")));
    }
    let mut names: Vec<String> = Vec::new();
    for item in items {
        match item.value.as_str() {
            None => problems.push(item.wrong(expected)),
            Some(name) => match crate::port_config::wrong_interface_name(name) {
                Some(why) => problems.push(Problem::new(item.at, why)),
                None if names.iter().any(|known| known == name) => {
                    problems.push(Problem::new(item.at, format!("`{name}` twice")));
                }
                None => names.push(name.into()),
            },
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_accept_rule_covers_its_conditions_and_nothing_else() {
        let path = IncomingPath {
            to: IpAddr::from([10, 0, 3, 2]),
            own: true,
            from: IpAddr::from([10, 0, 1, 1]),
            protocol: 17,
            port: 5000,
        };
        let prefix = |text: &str| text.parse::<Prefix>().ok();
        let any = AcceptRule::default();
        assert!(any.covers(&path) && !any.covers(&IncomingPath { own: false, ..path }));
        let narrow = AcceptRule {
            to: prefix("10.0.3.0/24"),
            from: prefix("10.0.0.0/16"),
            protocol: Some(17),
            port: "5000-5010".parse().ok(),
            ..AcceptRule::default()
        };
        assert!(
            narrow.covers(&IncomingPath { own: false, ..path }),
            "it is the proxy for hosts behind it"
        );
        for other in [
            IncomingPath {
                to: IpAddr::from([10, 0, 4, 2]),
                ..path
            },
            IncomingPath {
                from: IpAddr::from([10, 1, 1, 1]),
                ..path
            },
            IncomingPath { protocol: 6, ..path },
            IncomingPath { port: 5011, ..path },
            IncomingPath {
                to: "fd00::1".parse().expect("an address"),
                ..path
            },
        ] {
            assert!(!narrow.covers(&other), "{other:?}");
        }
        assert!(!any.answers_for(path.to) && narrow.answers_for(path.to));
    }
}
