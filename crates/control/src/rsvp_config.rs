//! The `[rsvp]` section: on which interfaces a node speaks RSVP, and which senders it answers by itself. Neutral: it opens
//! nothing. What of an interface may be reserved stands with the interface (`reserve`).

use crate::filters::{Addresses, PortRange, Protocol};
use crate::sections::{Section, Value};
use core::net::IpAddr;
use engine::choices;
use engine::classify::Prefix;
use engine::settings;
use engine::settings::{Problem, Span};
use engine::units::{Bandwidth, Duration};

choices! {
    /// What is asked of messages where there are keys. One that is protected must always be right.
    pub enum Protection {
        /// Those that are not protected are dropped.
        Required = "required",
        /// They are let through: for the time in which neighbours are given keys.
        Optional = "optional",
    }
}

settings! {
    /// The settings of a node that speaks RSVP.
    pub struct RsvpSettings {
        /// How often state is told anew, on average: R of RFC 2205
        refresh: Duration = default "30 s",
            "too short: work for everybody; too long: what a lost neighbour had reserved stays for minutes (5.25 times this)",
            "RFC 2205, section 3.7";
        /// Messages heard at most on an interface, in a second
        most_messages: u32 = default "5000",
            "too small: reservations of a busy network end; too large: a flood of messages keeps the processor busy",
            "RFC 6398: what is taken off the forwarding path is limited; about 75000 sessions at the default refresh";
        /// A file of keys: neighbours that know them are believed, and no others (RFC 2747)
        keys: String = derived "none: whoever is on a link is believed",
            "it must be its owner's alone (mode 600)", "whoever can write to a link can reserve, and end what others have reserved";
        /// Whether messages without a key are dropped on interfaces that have one
        protection: Protection = default "required",
            "`optional` believes everybody; for the time in which neighbours are given keys", "RFC 2747, section 1";
        /// What stands is refreshed by its name, and what is new is sent until it is acknowledged, with neighbours that can (RFC 2961)
        refresh_reduction: bool = default "true",
            "`false` for neighbours that misread it", "RFC 2961: neighbours that cannot get plain RSVP";
    }
}

settings! {
    /// Whose Paths are answered with a reservation.
    pub struct AcceptSettings {
        /// Where to: of this node's own addresses, or of hosts behind it for which it answers
        to: Addresses = derived "this node's own addresses",
            "a prefix of hosts that reserve for themselves takes that from them", "RFC 5945, section 4.1";
        /// Where from
        from: Addresses = derived "anywhere", "", "";
        /// The transport protocol
        protocol: Protocol = derived "any", "", "";
        /// Destination ports
        port: PortRange = derived "any", "", "";
        /// The most that one reservation may be, in bytes of IP datagrams
        up_to: Bandwidth = derived "what the links on the way admit",
            "too small: senders get less than they ask for, or nothing", "whoever owns the links has set `share` and `largest` there";
    }
}

/// A checked `[rsvp]` section.
#[derive(Clone, PartialEq, Debug)]
pub struct RsvpConfig {
    /// Where RSVP is spoken, in the order given, which gives them their numbers.
    pub interfaces: Vec<String>,
    /// The rest.
    pub settings: RsvpSettings,
    /// Neighbours that need no key.
    pub unprotected: Vec<IpAddr>,
    /// Who is answered.
    pub accept: Vec<Accept>,
}

/// Whose Paths are answered with a reservation.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Accept {
    /// Where to; `None`: this node's own addresses.
    pub to: Option<Prefix>,
    /// Where from.
    pub from: Option<Prefix>,
    /// The transport protocol.
    pub protocol: Option<u8>,
    /// Destination ports.
    pub port: Option<engine::classify::Ports>,
    /// The most that one reservation may be.
    pub up_to: Option<Bandwidth>,
}

/// What a Path is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offered {
    /// Its session's destination.
    pub to: IpAddr,
    /// Whether that is an address of this node.
    pub own: bool,
    /// The sender.
    pub from: IpAddr,
    /// The transport protocol.
    pub protocol: u8,
    /// The destination port.
    pub port: u16,
}

impl Accept {
    /// Whether it speaks of this.
    pub fn covers(&self, offered: &Offered) -> bool {
        self.to.map_or(offered.own, |to| contains(to, offered.to))
            && self.from.is_none_or(|from| contains(from, offered.from))
            && self.protocol.is_none_or(|protocol| protocol == offered.protocol)
            && self
                .port
                .is_none_or(|port| (port.low()..=port.high()).contains(&offered.port))
    }

    /// Whether it answers for this address, which is not the node's own.
    pub fn answers_for(&self, address: IpAddr) -> bool {
        self.to.is_some_and(|to| contains(to, address))
    }
}

impl From<AcceptSettings> for Accept {
    fn from(read: AcceptSettings) -> Self {
        Self {
            to: read.to.map(|addresses| addresses.0),
            from: read.from.map(|addresses| addresses.0),
            protocol: read.protocol.map(|protocol| protocol.0),
            port: read.port.map(|port| port.0),
            up_to: read.up_to,
        }
    }
}

fn contains(prefix: Prefix, address: IpAddr) -> bool {
    let width = if address.is_ipv4() { 32 } else { 128 };
    let one = Prefix::new(address, width);
    one.is_some_and(|one| one.family() == prefix.family() && one.bits() & prefix.mask() == prefix.bits())
}

const OF_RSVP: &[&str] = &["interfaces", "accept", "unprotected"];

/// Reads the section; `None` if a problem was reported.
pub(crate) fn read(section: &Section<'_>, problems: &mut Vec<Problem>) -> Option<RsvpConfig> {
    let before = problems.len();
    let settings = RsvpSettings::read(&section.table(|key| !OF_RSVP.contains(&key)), &[], problems);
    let at = |key: &str| section.get(key).map_or(section.at, |pair| pair.value.at);
    if let Some(settings) = &settings {
        refuse_absurd(settings, at, problems);
    }
    let interfaces = match section.get("interfaces") {
        Some(pair) => interfaces(&pair.value, problems),
        None => {
            let problem = Problem::new(section.at, "`interfaces` is missing: where RSVP is spoken");
            problems.push(
                problem
                    .help("name those towards hosts and other routers: `interfaces = [\"lan0\", \"wan0\"]`"),
            );
            Vec::new()
        }
    };
    let unprotected = section.get("unprotected");
    let unprotected = unprotected.map_or_else(Vec::new, |pair| neighbours(&pair.value, problems));
    let sections = section.sections("accept", "rsvp.accept", problems);
    let read = |section: &Section<'_>| {
        AcceptSettings::read(&section.table(|_| true), &[], problems).map(Accept::from)
    };
    let accept: Vec<Accept> = sections.iter().filter_map(read).collect();
    let settings = settings?;
    (problems.len() == before).then_some(RsvpConfig {
        interfaces,
        settings,
        unprotected,
        accept,
    })
}

fn neighbours(value: &Value<'_>, problems: &mut Vec<Problem>) -> Vec<IpAddr> {
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
    if settings.most_messages == 0 {
        problems.push(Problem::new(
            at("most_messages"),
            "`most_messages` must be at least 1: nothing would be heard",
        ));
    }
}

fn interfaces(value: &Value<'_>, problems: &mut Vec<Problem>) -> Vec<String> {
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
    fn an_accept_rule_covers_what_it_says_and_nothing_else() {
        let offered = Offered {
            to: IpAddr::from([10, 0, 3, 2]),
            own: true,
            from: IpAddr::from([10, 0, 1, 1]),
            protocol: 17,
            port: 5000,
        };
        let prefix = |text: &str| text.parse::<Prefix>().ok();
        let any = Accept::default();
        assert!(
            any.covers(&offered)
                && !any.covers(&Offered {
                    own: false,
                    ..offered
                })
        );
        let narrow = Accept {
            to: prefix("10.0.3.0/24"),
            from: prefix("10.0.0.0/16"),
            protocol: Some(17),
            port: "5000-5010".parse().ok(),
            up_to: None,
        };
        assert!(
            narrow.covers(&Offered {
                own: false,
                ..offered
            }),
            "it answers for hosts behind it"
        );
        for other in [
            Offered {
                to: IpAddr::from([10, 0, 4, 2]),
                ..offered
            },
            Offered {
                from: IpAddr::from([10, 1, 1, 1]),
                ..offered
            },
            Offered {
                protocol: 6,
                ..offered
            },
            Offered {
                port: 5011,
                ..offered
            },
            Offered {
                to: "fd00::1".parse().expect("an address"),
                ..offered
            },
        ] {
            assert!(!narrow.covers(&other), "{other:?}");
        }
        assert!(!any.answers_for(offered.to) && narrow.answers_for(offered.to));
    }
}
