//! Which document a text is: a policy, the topology of a lab, or a scenario. Each is known by keys
//! that only it has, so that one given in place of another is named as what it is.

use crate::sections::{self, Section};
use engine::settings::{Problem, Span};

/// The documents that this program reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Document {
    /// What rules the packets that leave interfaces.
    Policy,
    /// Hosts and links of a lab.
    Topology,
    /// Hosts, links, flows and expectations of a simulation.
    Scenario,
}

impl Document {
    /// What this text is; none if its syntax or its keys do not say.
    pub fn of(text: &str) -> Option<Self> {
        let found = |root: Section<'_>, _: &mut Vec<Problem>| recognised(&root).map(|(document, _)| document);
        sections::parse(text, &mut Vec::new(), found)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Policy => "a policy",
            Self::Topology => "a topology",
            Self::Scenario => "a scenario",
        }
    }

    /// What to do with this document where another was expected.
    const fn help(self, expected: Self) -> &'static str {
        match (self, expected) {
            (Self::Policy, Self::Scenario) => {
                "`suimon check FILE` shows what it means; a scenario names it: `policy.server = \"FILE\"`"
            }
            (Self::Policy, _) => {
                "`suimon check FILE` shows what it means, `suimon run FILE` puts it into force"
            }
            (Self::Topology, Self::Scenario) => {
                "`suimon lab FILE` builds it; a scenario also has a `duration` and sections [[flow]]"
            }
            (Self::Topology, _) => "`suimon lab FILE` builds it",
            (Self::Scenario, _) => "`suimon sim FILE` runs it",
        }
    }

    /// The problem of another document in place of this one.
    pub fn refuse_others(self, root: &Section<'_>) -> Option<Problem> {
        let (found, at) = recognised(root)?;
        // With a section of its own, a text is the one that was expected, and its other keys are
        // mistakes in it.
        let own = match self {
            Self::Policy => root.get("interface").is_some(),
            Self::Topology => found == Self::Policy && root.get("hosts").is_some(),
            Self::Scenario => false,
        };
        if own || found == self {
            return None;
        }
        let message = format!("this is {}, not {}", found.name(), self.name());
        Some(Problem::new(at, message).help(found.help(self)))
    }
}

/// The document, and the key that shows it.
fn recognised(root: &Section<'_>) -> Option<(Document, Span)> {
    let keys = [
        ("interface", Document::Policy),
        ("duration", Document::Scenario),
        ("flow", Document::Scenario),
        ("expect", Document::Scenario),
        ("sweep", Document::Scenario),
        ("hosts", Document::Topology),
    ];
    let mut found = keys
        .iter()
        .filter_map(|(key, document)| Some((*document, root.get(key)?.key_at)));
    found.next()
}
