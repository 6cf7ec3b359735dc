//! A kind of port, as a policy sees it: its name, what it is attached to, and its own settings.
//!
//! The engine opens no port. The declaration stands here because the reader of policies (crate
//! `control`) and the ports (crate `netio`) both see the engine, and not each other. Each port
//! declares itself in its own file, which also opens it; whoever reads a policy passes the list of
//! declarations to the reader.

use crate::settings::Setting;

/// What a port is attached to, as `[port]` must name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Needs {
    /// Two interfaces, `between = ["lan0", "wan0"]`: a bump in the wire.
    TwoInterfaces,
    /// One interface, `egress = "eth0"`: what this host itself sends.
    OneInterface,
    /// One interface, `ingress = "eth0"`: what this host receives.
    Received,
    /// Two files, `read = "in.pcapng"` and `write = "out.pcapng"`.
    TwoFiles,
}

impl Needs {
    /// How a policy writes it.
    pub const fn example(self) -> &'static str {
        match self {
            Self::TwoInterfaces => "`between = [\"lan0\", \"wan0\"]`",
            Self::OneInterface => "`egress = \"eth0\"`",
            Self::Received => "`ingress = \"eth0\"`",
            Self::TwoFiles => "`read = \"in.pcapng\"` and `write = \"out.pcapng\"`",
        }
    }
}

/// The interfaces or files that a port is attached to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Attachment {
    /// A bump in the wire between two interfaces: what enters by one leaves by the other.
    Between(String, String),
    /// What this host itself sends on this interface.
    Egress(String),
    /// What this host receives on an interface; the [name](received) under which it is managed.
    Ingress(String),
    /// From one file of packets into another.
    Files {
        /// Where packets come from.
        read: String,
        /// Where they go.
        write: String,
    },
}

impl Attachment {
    /// What a kind of port must need to be attached here.
    pub const fn needs(&self) -> Needs {
        match self {
            Self::Between(..) => Needs::TwoInterfaces,
            Self::Egress(_) => Needs::OneInterface,
            Self::Ingress(_) => Needs::Received,
            Self::Files { .. } => Needs::TwoFiles,
        }
    }
}

/// No interface has such a name.
const RECEIVED: &str = ":in";

/// The name under which a policy manages what this interface receives: `eth0:in`.
pub fn received(interface: &str) -> String {
    format!("{interface}{RECEIVED}")
}

/// The interface that a managed name means: of `eth0:in` it is `eth0`.
pub fn device(managed: &str) -> &str {
    managed.strip_suffix(RECEIVED).unwrap_or(managed)
}

/// The name under which a policy manages the other direction of an interface: of `eth0` it is
/// `eth0:in`, and the reverse.
pub fn opposite(managed: &str) -> String {
    match managed.strip_suffix(RECEIVED) {
        Some(device) => device.to_owned(),
        None => received(managed),
    }
}

/// A kind of port.
#[derive(Debug)]
pub struct PortKind {
    /// The name in policies.
    pub name: &'static str,
    /// One sentence for lists.
    pub summary: &'static str,
    /// What it is attached to.
    pub needs: Needs,
    /// Whether it sends by interfaces that exist before it is opened and have a wire. They are
    /// inspected first, and a pacing discipline may use the wire (gap frames, launch times) there.
    pub has_wire: bool,
    /// Why two programs cannot have such a port at a time, so that none takes over from another;
    /// `None`: they can.
    pub alone: Option<&'static str>,
    /// Settings that this kind has beside those of every port.
    pub settings: &'static [Setting],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_directions_of_an_interface_are_opposite() {
        assert_eq!(received("eth0"), "eth0:in");
        assert_eq!((device("eth0:in"), device("eth0")), ("eth0", "eth0"));
        assert_eq!(
            (&opposite("eth0")[..], &opposite("eth0:in")[..]),
            ("eth0:in", "eth0")
        );
    }

    #[test]
    fn what_a_port_is_attached_to_says_what_it_needs() {
        let name = || "a".to_owned();
        let needs = [
            Attachment::Between(name(), name()),
            Attachment::Egress(name()),
            Attachment::Ingress(name()),
            Attachment::Files {
                read: name(),
                write: name(),
            },
        ]
        .map(|attachment| attachment.needs());
        let all = [
            Needs::TwoInterfaces,
            Needs::OneInterface,
            Needs::Received,
            Needs::TwoFiles,
        ];
        assert_eq!(needs, all);
        let keys = ["`between = ", "`egress = ", "`ingress = ", "`read = "];
        for (needs, key) in all.iter().zip(keys) {
            assert!(needs.example().starts_with(key), "{}", needs.example());
        }
    }
}
