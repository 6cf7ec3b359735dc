//! Which type of document a text is: a policy, a lab topology, or a scenario. Each type has keys of
//! its own, so that a message can name the type of a file that was passed by mistake.

use crate::sections::{self, Section};
use engine::settings::{Problem, Span};

/// The documents that this program reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Document {
    /// The disciplines, classes and filters of interfaces.
    Policy,
    /// The hosts and links of a lab.
    Topology,
    /// The hosts, links, flows and expectations of a simulation.
    Scenario,
}

impl Document {
    /// The type of this text; `None` if its keys do not tell, or it is not TOML.
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

    /// Advice for this document where another was expected.
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

    /// The problem, if the text is another type of document than this one.
    pub fn refuse_others(self, root: &Section<'_>) -> Option<Problem> {
        let (found, at) = recognised(root)?;
        // A text with a section of the expected type is of that type; its foreign keys are
        // mistakes.
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

/// The document, and the position of the key that identifies it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_what_its_keys_tell() {
        for (text, document) in [
            ("version = 1\n[interface.wan0]\n", Some(Document::Policy)),
            ("[hosts.a]\n", Some(Document::Topology)),
            ("duration = \"1 s\"\n[hosts.a]\n", Some(Document::Scenario)),
            ("[[flow]]\n", Some(Document::Scenario)),
            ("[[expect]]\n", Some(Document::Scenario)),
            ("[sweep]\n", Some(Document::Scenario)),
            ("version = 1\n", None),
            ("interface", None),
        ] {
            assert_eq!(Document::of(text), document, "{text}");
        }
    }

    #[test]
    fn another_document_is_refused_unless_it_has_a_section_of_the_expected() {
        use Document::{Policy, Scenario, Topology};
        let refused = |expected: Document, text: &str| {
            let found = |root: Section<'_>, _: &mut Vec<Problem>| Some(expected.refuse_others(&root));
            let problem = sections::parse(text, &mut Vec::new(), found).expect("TOML");
            problem.map(|problem| problem.message)
        };
        let (policy, topology, scenario) = ("[interface.wan0]\n", "[hosts.a]\n", "[[flow]]\n");
        let both = "[interface.wan0]\n[hosts.a]\n";
        for (expected, text, message) in [
            (Policy, policy, None),
            (Policy, topology, Some("this is a topology, not a policy")),
            (Policy, scenario, Some("this is a scenario, not a policy")),
            (Policy, both, None),
            (Topology, policy, Some("this is a policy, not a topology")),
            (Topology, topology, None),
            (
                Topology,
                "[[flow]]\n[hosts.a]\n",
                Some("this is a scenario, not a topology"),
            ),
            (Topology, both, None),
            (Scenario, policy, Some("this is a policy, not a scenario")),
            (Scenario, topology, Some("this is a topology, not a scenario")),
            (Scenario, scenario, None),
            (Scenario, "version = 1\n", None),
        ] {
            assert_eq!(
                refused(expected, text).as_deref(),
                message,
                "{expected:?}: {text}"
            );
        }
    }
}
