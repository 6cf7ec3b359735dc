//! The control protocol: one JSON object per line, in both directions.
//!
//! ```text
//! → {"request":"status","interval_ms":1000,"follow":true}
//! ← {"reply":"status","version":1,"policy":"office","interfaces":[…]}      every second
//! → {"request":"set","interface":"wan0","class":"voice","changes":{"rate":"3 Mbit/s"}}
//! ← {"reply":"done","message":"wan0: voice: rate = 3 Mbit/s"}
//! ← {"reply":"refused","message":"…","help":"…"}                           nothing has changed
//! ```
//!
//! A request that is not understood is refused by name, with the connection kept.

pub use crate::refusal::Refusal;
use crate::reservation::{Notice, ReservationRequest, ReservationState, RsvpStatus};
use crate::snapshot::Snapshot;
use engine::settings::Raw;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The version of the protocol. It rises when an old client would misunderstand.
pub const VERSION: u32 = 1;

/// The interval of a status request that names none.
pub const INTERVAL_MS: u64 = 1000;

/// What can be asked.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "lowercase", deny_unknown_fields)]
pub enum Request {
    /// Who is there.
    Version {},
    /// The metrics over an interval, which begins now; 0 for counters alone, at once.
    Status {
        /// The interval.
        #[serde(default = "default_interval")]
        interval_ms: u64,
        /// Whether to go on, with a reply for every interval.
        #[serde(default)]
        follow: bool,
    },
    /// Let the policy rule; everywhere, if no interface is named.
    Enable {
        /// The interface.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
    },
    /// Let packets pass unmanaged; nothing that is held is lost.
    Disable {
        /// The interface.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
    },
    /// Leave the interface to the kernel; the program ends if none is left.
    Detach {
        /// The interface.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
    },
    /// Change settings of a class.
    Set {
        /// The interface.
        interface: String,
        /// The class.
        class: String,
        /// Settings by name, as they would stand in a policy.
        changes: BTreeMap<String, SettingChange>,
    },
    /// Reserve bandwidth along the path, as long as the connection lasts; a reply for each change
    /// in how it fares.
    Reserve {
        /// What.
        wanted: ReservationRequest,
    },
    /// Ask what the path offers.
    Trial {
        /// What for.
        wanted: ReservationRequest,
    },
    /// Change the rate of a reservation that a program on this node holds.
    Change {
        /// Its number.
        number: u64,
        /// The new rate, in bit/s of IP datagrams.
        rate_bps: u64,
    },
    /// What is known of reservations.
    Reservations {},
    /// A reply for everything that happens to reservations, from now on.
    Watch {},
}

fn default_interval() -> u64 {
    INTERVAL_MS
}

/// A setting's new value.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SettingChange {
    /// `true` or `false`.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A text, with its unit.
    Text(String),
}

impl SettingChange {
    /// As it stands on a command line: `20Mbit/s`, `7` or `true`.
    pub fn from_word(word: &str) -> Self {
        match (word.parse(), word.parse()) {
            (Ok(n), _) => Self::Integer(n),
            (_, Ok(b)) => Self::Boolean(b),
            _ => Self::Text(word.into()),
        }
    }

    /// As a policy's value.
    pub fn raw(&self) -> Raw {
        match self {
            Self::Boolean(b) => Raw::Boolean(*b),
            Self::Integer(n) => Raw::Integer(*n),
            Self::Text(text) => Raw::Text(text.clone()),
        }
    }
}

impl fmt::Display for SettingChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean(b) => b.fmt(f),
            Self::Integer(n) => n.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// What is answered.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "lowercase")]
pub enum Reply {
    /// The metrics.
    Status(Box<Snapshot>),
    /// It is done.
    Done {
        /// What was done.
        message: String,
    },
    /// It was not done, and nothing has changed.
    Refused(Refusal),
    /// How a reservation fares.
    Reservation(ReservationState),
    /// What is known of reservations.
    Reservations(Box<RsvpStatus>),
    /// Something happened to a reservation.
    Notice(Notice),
    /// Who is there.
    Version {
        /// [`VERSION`].
        protocol: u32,
        /// The program's version.
        program: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_documented() {
        let read = |text| serde_json::from_str::<Request>(text).map_err(|e| e.to_string());
        assert_eq!(
            read(r#"{"request":"status"}"#),
            Ok(Request::Status {
                interval_ms: 1000,
                follow: false
            })
        );
        assert_eq!(
            read(r#"{"request":"disable"}"#),
            Ok(Request::Disable { interface: None })
        );
        let set = read(
            r#"{"request":"set","interface":"wan0","class":"voice","changes":{"rate":"3 Mbit/s","priority":7}}"#,
        );
        let Ok(Request::Set { changes, .. }) = set else {
            panic!("{set:?}")
        };
        assert_eq!(changes["rate"].raw(), Raw::Text("3 Mbit/s".into()));
        assert_eq!(changes["priority"].raw(), Raw::Integer(7));
        for wrong in [
            r#"{"request":"stauts"}"#,
            r#"{"request":"status","intreval_ms":1}"#,
            "[]",
            "{",
        ] {
            assert!(read(wrong).is_err(), "{wrong} was accepted");
        }
    }

    #[test]
    fn a_word_on_the_command_line_becomes_what_a_policy_would_have() {
        assert_eq!(
            SettingChange::from_word("20Mbit/s").raw(),
            Raw::Text("20Mbit/s".into())
        );
        assert_eq!(SettingChange::from_word("7").raw(), Raw::Integer(7));
        assert_eq!(SettingChange::from_word("true").raw(), Raw::Boolean(true));
    }
}
