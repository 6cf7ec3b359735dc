//! Classes that stay through a change of the policy and do not keep all that they have, in words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// So many classes are named in a line.
const NAMED: usize = 12;

/// Classes of an interface that stay and begin anew: what they have queued is handed over, packet
/// by packet, and what was known of it is not.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ClassesAnew {
    /// The interface.
    pub interface: String,
    /// The names of the classes, in the order of the tree; none where it has no classes: then its
    /// one queue does.
    pub classes: Vec<String>,
    /// Of so many that there are then.
    pub of: u64,
    /// What of them.
    pub what: Forgotten,
    /// Why.
    pub why: String,
}

/// What of a class begins anew.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Forgotten {
    /// All that its discipline knows of it: its turn, deficit, deadlines, credit, averages; and
    /// what its queue knows.
    Class,
    /// What its discipline knows of it: its turn, deficit, deadlines, credit. What its queue knows
    /// is kept.
    Turns,
    /// What its queue knows: flows with their turns, averages, the state of drops. What the class
    /// has to send by is kept.
    Queue,
}

impl fmt::Display for ClassesAnew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            interface,
            classes,
            of,
            what,
            why,
        } = self;
        let count = classes.len();
        write!(f, "{interface}: ")?;
        match (count, u64::try_from(count) == Ok(*of)) {
            (0, _) => f.write_str("its queue begins anew")?,
            (1, true) => f.write_str("its class begins anew")?,
            (_, true) => write!(f, "all {count} classes begin anew")?,
            (1, false) => write!(f, "1 of {of} classes begins anew")?,
            (_, false) => write!(f, "{count} of {of} classes begin anew")?,
        }
        if count > 0 {
            let named = classes.iter().take(NAMED).map(String::as_str);
            write!(f, " ({}", named.collect::<Vec<_>>().join(", "))?;
            match count.saturating_sub(NAMED) {
                0 => f.write_str(")")?,
                more => write!(f, " and {more} more)")?,
            }
            f.write_str(match what {
                Forgotten::Class => {
                    ": packets stay, and turns, deficits, deadlines, credit and averages do not"
                }
                Forgotten::Turns => {
                    ": packets and what is known of flows and drops stay, and turns, deficits, deadlines and credit do not"
                }
                Forgotten::Queue => ": packets and turns stay, and what is known of flows and drops does not",
            })?;
        }
        write!(f, "; {why}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_many_which_what_and_why() {
        let line = |count: usize, of: u64, what| {
            let all = ClassesAnew {
                interface: "wan0".into(),
                classes: (0..count).map(|number| format!("c{number}")).collect(),
                of,
                what,
                why: "the discipline is another one".into(),
            };
            all.to_string()
        };
        assert_eq!(
            line(0, 0, Forgotten::Class),
            "wan0: its queue begins anew; the discipline is another one"
        );
        assert_eq!(
            line(1, 3, Forgotten::Queue),
            "wan0: 1 of 3 classes begins anew (c0): packets and turns stay, and what is known of flows and \
             drops does not; the discipline is another one"
        );
        let many = line(14, 14, Forgotten::Class);
        assert!(
            many.starts_with("wan0: all 14 classes begin anew (c0, c1"),
            "{many}"
        );
        assert!(
            many.contains("c11 and 2 more): packets stay, and turns"),
            "{many}"
        );
    }
}
