//! The control protocol: one JSON object per line, in both directions.
//!
//! ```text
//! → {"request":"status","interval_ms":1000,"follow":true}
//! ← {"reply":"status","version":1,"policy":"office","interfaces":[…]}      every second
//! → {"request":"set","interface":"wan0","class":"voice","changes":{"rate":"3 Mbit/s"}}
//! ← {"reply":"done","message":"wan0: voice: rate = 3 Mbit/s"}
//! → {"request":"addclass","interface":"wan0","class":"guests","settings":{"rate":"1 Mbit/s"},
//!    "filters":[{"protocol":"udp"}]}
//! ← {"reply":"refused","message":"…","help":"…"}                           nothing was changed
//! ```
//!
//! An unknown request is refused with a reason; the connection stays open. docs/socket.md is the
//! reference, and [`crate::schema::socket`] makes the published schema of these types.

use crate::calendar;
use crate::difference::{Breaking, Difference, GenerationView};
use crate::explained::{ExplainRequest, Explained};
pub use crate::refusal::Refusal;
use crate::reservation::{Notice, ReservationRequest, ReservationState, RsvpStatus};
pub use crate::setting_change::SettingChange;
use crate::setting_change::assignments;
use crate::snapshot::{ClassView, Snapshot, StatusDetail};
use crate::what_if::ShadowReport;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The version of the protocol. It is incremented by incompatible changes.
pub const VERSION: u32 = 1;

/// The interval of a status request that names none.
pub const INTERVAL_MS: u64 = 1000;

/// A request of a client.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "request", rename_all = "lowercase", deny_unknown_fields)]
pub enum Request {
    /// Asks for the versions of protocol and program.
    Version {},
    /// The metrics over an interval that begins now; with interval 0 the counters alone, at once.
    Status {
        /// The interval; at least 10 ms, or 0.
        #[serde(default = "default_interval")]
        interval_ms: u64,
        /// Whether to send a reply for every further interval.
        #[serde(default)]
        follow: bool,
        /// How much to say of each class.
        #[serde(default, skip_serializing_if = "StatusDetail::is_full")]
        detail: StatusDetail,
    },
    /// Enable the policy; on all interfaces if none is named.
    Enable {
        /// The interface.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
    },
    /// Bypass the policy. Queued packets are sent, not dropped.
    Disable {
        /// The interface.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
    },
    /// Hand the interface back to the kernel. The program ends with its last interface.
    Detach {
        /// The interface.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
    },
    /// Change settings of an interface or a class.
    Set(SettingChanges),
    /// Add a class of the interface's discipline, with filters.
    AddClass(AddedClass),
    /// Remove a class, with its filters.
    RemoveClass(RemovedClass),
    /// Write what was set, added and removed, but for what ends by itself, into the policy's file.
    Save {},
    /// What a policy differs in from the one in force; nothing is changed.
    Plan {
        /// The absolute path of the policy, which the program reads.
        file: String,
    },
    /// Puts a policy into force while packets flow, or refuses it as a whole.
    Apply {
        /// The absolute path of the policy, which the program reads.
        file: String,
        /// After this time the change is undone, unless it is confirmed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        confirm_within_ms: Option<u64>,
        /// Whether reservations in force may lose what they were promised.
        #[serde(default, skip_serializing_if = "Breaking::is_refused")]
        break_reservations: Breaking,
        /// Why; the history shows it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Keeps a change that would be undone otherwise.
    Confirm {},
    /// Undoes the last change that was not undone, or puts back the generation of this number.
    Rollback {
        /// The number.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<u64>,
        /// Whether reservations in force may lose what they were promised.
        #[serde(default, skip_serializing_if = "Breaking::is_refused")]
        break_reservations: Breaking,
        /// Why; the history shows it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// What was in force, change by change.
    History {},
    /// The policy in force, as text: with what was set, added and removed since its file was read.
    Policy {},
    /// Why packets of an interface wait, or are dropped: recorded for this time.
    Explain(ExplainRequest),
    /// Runs a policy beside the one in force on the headers of live traffic, for some time; nothing
    /// is changed.
    Shadow {
        /// The absolute path of the policy, which the program reads.
        file: String,
        /// The interface; it can be left out where one is managed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
        /// For how long, an hour at most.
        span_ms: u64,
    },
    /// Record what passes an interface, in a ring in memory.
    Record {
        /// The interface; it can be left out where one is managed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
        /// The ring, in bytes.
        memory: u64,
    },
    /// What is in the ring; it follows the reply.
    Recorded {
        /// The interface.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
    },
    /// Record no more, and forget what was.
    RecordEnd {
        /// The interface.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
    },
    /// Reserve bandwidth along the path for as long as the connection lasts. Each change of the
    /// reservation's state is a reply.
    Reserve {
        /// The reservation.
        wanted: ReservationRequest,
    },
    /// Ask whether the path would admit a reservation, and what it offers.
    Trial {
        /// The reservation.
        wanted: ReservationRequest,
    },
    /// Change the rate of a reservation that a program on this node has requested.
    Change {
        /// Its number.
        number: u64,
        /// The new rate, in bit/s of IP datagrams.
        rate_bps: u64,
    },
    /// The RSVP state of the node.
    Reservations {},
    /// A reply for every RSVP event from now on.
    Watch {},
    /// Hand over to another program, which asks. Until its connection ends nothing is changed.
    HandOver {},
    /// That program takes what arrives from this moment on; with `left`, after the reply, it gets
    /// what waits.
    Leave {
        /// The moment, by `CLOCK_MONOTONIC`.
        at_ns: u64,
        /// The same by `CLOCK_REALTIME`, of which the arrival timestamps of frames are.
        realtime_ns: u64,
    },
    /// What waits, after the moment agreed on.
    Left {},
    /// That program manages all: the one that is asked ends.
    TakenOver {},
}

impl Request {
    /// Whether what is in force may be another policy by it.
    pub fn changes(&self) -> bool {
        matches!(
            self,
            Self::Set(_)
                | Self::AddClass(_)
                | Self::RemoveClass(_)
                | Self::Apply { .. }
                | Self::Confirm {}
                | Self::Rollback { .. }
        )
    }

    /// The interface that it names, or a class of it, if it names one.
    pub fn interface(&self) -> Option<&str> {
        match self {
            Self::Set(set) => Some(set.named()).filter(|word| !word.is_empty()),
            Self::AddClass(added) => Some(&added.interface),
            Self::RemoveClass(removed) => Some(&removed.interface),
            Self::Explain(wanted) => Some(&wanted.interface),
            Self::Enable { interface }
            | Self::Disable { interface }
            | Self::Detach { interface }
            | Self::Record { interface, .. }
            | Self::Recorded { interface }
            | Self::RecordEnd { interface }
            | Self::Shadow { interface, .. } => interface.as_deref(),
            _ => None,
        }
    }
}

fn default_interval() -> u64 {
    INTERVAL_MS
}

/// Other settings of an interface or a class.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SettingChanges {
    /// The interface. A class's name in its place, or none, is that of the only one that has the
    /// class; none without a class is the only one that is managed.
    #[serde(default)]
    pub interface: String,
    /// The class; none for the interface and its discipline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Settings by name, with values as in a policy.
    pub changes: BTreeMap<String, SettingChange>,
    /// When they end, in milliseconds since 1970: what was in force before then is again. None:
    /// they stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<u64>,
    /// Why; the history shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl SettingChanges {
    /// The word that tells which interface is meant: its name, or a class's.
    fn named(&self) -> &str {
        match &self.class {
            Some(class) if self.interface.is_empty() => class,
            _ => &self.interface,
        }
    }
}

impl fmt::Display for SettingChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.interface)?;
        if let Some(class) = &self.class {
            write!(f, "{class}: ")?;
        }
        f.write_str(&assignments(&self.changes))?;
        match self.until_ms {
            Some(until) => write!(f, ", until {}", calendar::shown(until)),
            None => Ok(()),
        }
    }
}

/// A class that comes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddedClass {
    /// The interface.
    pub interface: String,
    /// The name of the class.
    pub class: String,
    /// What a policy says of it, by key: `parent`, `discipline`, and its settings.
    pub settings: BTreeMap<String, SettingChange>,
    /// Its filters, each as a policy has it, without `class`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<BTreeMap<String, SettingChange>>,
    /// How much it may carry, as `quota` of a policy has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<AddedQuota>,
    /// When it goes again, in milliseconds since 1970; none: it stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<u64>,
    /// Why; the history shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The quota of a class that comes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddedQuota {
    /// What it may carry, such as `50 GB per month`.
    pub volume: String,
    /// The settings that it has once that is used up, by name; none: it is told.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub then: BTreeMap<String, SettingChange>,
}

/// A class that goes, with its filters.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemovedClass {
    /// The interface.
    pub interface: String,
    /// The name of the class.
    pub class: String,
    /// When it is there again, in milliseconds since 1970; none: it is gone for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<u64>,
    /// Why; the history shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What a class has since its quota is used up: no request, the policy states it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UsedUp {
    /// The quota, such as `50 GB per month`.
    pub quota: String,
    /// The interface.
    pub interface: String,
    /// The class.
    pub class: String,
    /// Settings by name, with values as in a policy.
    pub changes: BTreeMap<String, SettingChange>,
    /// When it begins anew, in milliseconds since 1970: then they end.
    pub until_ms: u64,
}

/// What was changed of a policy since its text was read.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Amendment {
    /// Settings that a quota has brought.
    UsedUp(UsedUp),
    /// Settings.
    Set(SettingChanges),
    /// A class that came.
    Added(AddedClass),
    /// A class that went.
    Removed(RemovedClass),
}

impl Amendment {
    /// The interface.
    pub fn interface(&self) -> &str {
        match self {
            Self::UsedUp(used_up) => &used_up.interface,
            Self::Set(set) => &set.interface,
            Self::Added(added) => &added.interface,
            Self::Removed(removed) => &removed.interface,
        }
    }

    /// The class; none for the interface and its discipline.
    pub fn class(&self) -> Option<&str> {
        match self {
            Self::UsedUp(used_up) => Some(&used_up.class),
            Self::Set(set) => set.class.as_deref(),
            Self::Added(added) => Some(&added.class),
            Self::Removed(removed) => Some(&removed.class),
        }
    }

    /// When it ends, in milliseconds since 1970; none: it stays.
    pub fn until_ms(&self) -> Option<u64> {
        match self {
            Self::UsedUp(used_up) => Some(used_up.until_ms),
            Self::Set(set) => set.until_ms,
            Self::Added(added) => added.until_ms,
            Self::Removed(removed) => removed.until_ms,
        }
    }

    /// Whether a quota has brought it, and not somebody's request.
    pub fn is_by_quota(&self) -> bool {
        matches!(self, Self::UsedUp(_))
    }

    /// The settings that change; none if a class comes or goes.
    pub fn settings(&self) -> Option<&BTreeMap<String, SettingChange>> {
        match self {
            Self::UsedUp(used_up) => Some(&used_up.changes),
            Self::Set(set) => Some(&set.changes),
            Self::Added(_) | Self::Removed(_) => None,
        }
    }
}

impl fmt::Display for Amendment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(set) => return set.fmt(f),
            Self::UsedUp(UsedUp {
                interface,
                class,
                changes,
                quota,
                ..
            }) => write!(
                f,
                "{interface}: {class}: {}, as {quota} are used up",
                assignments(changes)
            )?,
            Self::Added(added) => {
                write!(f, "{}: new class {}", added.interface, added.class)?;
                if !added.settings.is_empty() {
                    write!(f, ": {}", assignments(&added.settings))?;
                }
                for filter in &added.filters {
                    write!(f, "; filter {}", assignments(filter))?;
                }
                if let Some(AddedQuota { volume, then }) = &added.quota {
                    write!(f, "; quota {volume}")?;
                    if !then.is_empty() {
                        write!(f, ", then {}", assignments(then))?;
                    }
                }
            }
            Self::Removed(removed) => write!(f, "{}: class {} goes", removed.interface, removed.class)?,
        }
        match self.until_ms() {
            Some(until) => write!(f, ", until {}", calendar::shown(until)),
            None => Ok(()),
        }
    }
}

/// What a program needs in order to take the place of the one that runs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HandOverOffer {
    /// The name by which the policy is told from others.
    pub name: String,
    /// The version of the program that runs.
    pub program: String,
    /// The absolute path of the policy's file, which SIGHUP has it read again; none if it was read
    /// from elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The folder of its generations; none if they are in memory alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Whether it has given up the rights that it does not need.
    pub confined: bool,
    /// What is in force.
    pub policy: PolicyInForce,
}

/// What is in force, as the text that was read and what was changed since.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PolicyInForce {
    /// The name of the file, as it was given.
    pub file: String,
    /// Its text.
    pub text: String,
    /// The generation beside which the text is kept; 0 if beside none.
    pub text_of: u64,
    /// What was set, added and removed since, in order.
    pub since: Vec<Amendment>,
}

/// A reply of the server. `C`: see [`Snapshot`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Reply", description = "A reply of the server.")]
#[serde(tag = "reply", rename_all = "lowercase")]
pub enum Reply<C = Vec<ClassView>> {
    /// The metrics.
    Status(Box<Snapshot<C>>),
    /// The request was carried out.
    Done {
        /// What was done.
        message: String,
        /// What an `apply` has changed, and what that does to guarantees.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        difference: Option<Box<Difference>>,
    },
    /// What a policy differs in from the one in force.
    Plan(Difference),
    /// Why packets waited, or were dropped.
    Explained(Box<Explained>),
    /// What was in force, the latest last.
    History {
        /// The generations that are kept.
        generations: Vec<GenerationView>,
    },
    /// The policy in force.
    Policy {
        /// As a policy's file has it.
        text: String,
    },
    /// What a policy would have done beside the one in force.
    Shadow(ShadowReport),
    /// A recording.
    Recording {
        /// So many bytes of it follow the line.
        bytes: u64,
    },
    /// The request was refused, and nothing was changed.
    Refused(Refusal),
    /// The state of a reservation.
    Reservation(ReservationState),
    /// The RSVP state of the node.
    Reservations(Box<RsvpStatus>),
    /// An RSVP event.
    Notice(Notice),
    /// What another program needs to take this one's place.
    HandOver(Box<HandOverOffer>),
    /// The frames that wait, for the program that takes over.
    Backlog {
        /// So many bytes of them follow the line.
        bytes: u64,
    },
    /// The versions of protocol and program.
    Version {
        /// [`VERSION`].
        #[schemars(description = "The version of requests and replies; incompatible changes increment it.")]
        protocol: u32,
        /// The program's version.
        program: String,
    },
}

impl Reply {
    /// Parses a reply.
    ///
    /// # Errors
    ///
    /// Returns an error if the line is not a reply.
    pub fn parse(line: &[u8]) -> serde_json::Result<Self> {
        // The metrics of very many classes are long. Where the tag comes first, as a server writes
        // it, nothing has to be stored until the tag is known.
        match line.starts_with(br#"{"reply":"status","#) {
            true => serde_json::from_slice(line).map(Self::Status),
            false => serde_json::from_slice(line),
        }
    }
}

/// A text that can be shown on a terminal: a control character, by which a name could move the
/// cursor or set the title, is shown as its code. Line breaks and tabs stay.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_control() && !matches!(c, '\n' | '\t') => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::settings::Raw;

    #[test]
    fn a_status_is_parsed_wherever_its_tag_stands() {
        let status =
            r#"{"version":1,"policy":"p","at_ns":5,"interval_ns":null,"basis":"frame","interfaces":[]"#;
        let first = format!(r#"{{"reply":"status",{}}}"#, &status[1..]);
        let last = format!(r#"{status},"reply":"status"}}"#);
        let [first, last] = [first, last].map(|line| Reply::parse(line.as_bytes()).expect("a status"));
        assert!(matches!(&first, Reply::Status(snapshot) if snapshot.at_ns == 5));
        assert_eq!(first, last);
        let written = serde_json::to_string(&first).expect("JSON");
        assert!(
            written.starts_with(r#"{"reply":"status","version":1,"#),
            "{written}"
        );
        assert!(Reply::parse(br#"{"reply":"status","version":1}"#).is_err());
    }

    #[test]
    fn requests_are_parsed_as_documented() {
        let read = |text| serde_json::from_str::<Request>(text).map_err(|e| e.to_string());
        assert_eq!(
            read(r#"{"request":"status"}"#),
            Ok(Request::Status {
                interval_ms: 1000,
                follow: false,
                detail: StatusDetail::Full,
            })
        );
        assert_eq!(
            read(r#"{"request":"disable"}"#),
            Ok(Request::Disable { interface: None })
        );
        let set = read(
            r#"{"request":"set","interface":"wan0","class":"voice","changes":{"rate":"3 Mbit/s","priority":7}}"#,
        );
        let Ok(Request::Set(SettingChanges { changes, .. })) = set else {
            panic!("{set:?}")
        };
        assert_eq!(changes["rate"].raw(), Raw::Text("3 Mbit/s".into()));
        assert_eq!(changes["priority"].raw(), Raw::Integer(7));
        for wrong in [
            r#"{"request":"stauts"}"#,
            r#"{"request":"status","intreval_ms":1}"#,
            r#"{"request":"set","interface":"wan0","changes":{},"utnil_ms":1}"#,
            "[]",
            "{",
        ] {
            assert!(read(wrong).is_err(), "{wrong} was accepted");
        }
    }

    #[test]
    fn what_changed_a_policy_is_told_apart_as_it_stands_on_the_disk() {
        let read = |text: &str| serde_json::from_str::<Amendment>(text).map_err(|e| e.to_string());
        // As records of former versions have it.
        let set = r#"{"interface":"wan0","class":"a","changes":{"weight":2},"until_ms":5}"#;
        assert!(matches!(read(set), Ok(Amendment::Set(set)) if set.until_ms == Some(5)));
        let added = r#"{"interface":"wan0","class":"a","settings":{}}"#;
        assert!(matches!(read(added), Ok(Amendment::Added(_))));
        let removed = r#"{"interface":"wan0","class":"a"}"#;
        assert!(matches!(read(removed), Ok(Amendment::Removed(_))));
        let used_up =
            r#"{"quota":"5 GB per day","interface":"wan0","class":"a","changes":{"weight":2},"until_ms":5}"#;
        assert!(matches!(read(used_up), Ok(Amendment::UsedUp(_))));
        for text in [set, added, removed, used_up] {
            let found = read(text).expect("one of them");
            assert_eq!(serde_json::to_string(&found).expect("JSON"), text);
            assert_eq!((found.interface(), found.class()), ("wan0", Some("a")));
        }
        assert!(read(r#"{"interface":"wan0","class":"a","chnages":{}}"#).is_err());
    }

    #[test]
    fn a_request_for_other_settings_names_its_interface_or_else_its_class() {
        let named = |interface: &str, class: Option<&str>| {
            let request = Request::Set(SettingChanges {
                interface: interface.into(),
                class: class.map(str::to_owned),
                changes: BTreeMap::new(),
                until_ms: None,
                reason: None,
            });
            request.interface().map(str::to_owned)
        };
        assert_eq!(named("wan0", None).as_deref(), Some("wan0"));
        assert_eq!(named("wan0", Some("calls")).as_deref(), Some("wan0"));
        assert_eq!(named("", Some("calls")).as_deref(), Some("calls"));
        assert_eq!(named("", None), None);
    }
}
