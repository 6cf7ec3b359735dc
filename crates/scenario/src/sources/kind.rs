//! A kind of traffic source: what its file declares, and how it reads a section `[[flow]]`.

use crate::brought::{Brought, OwnControl};
use crate::folder::Files;
use control::sections::Section;
use engine::random::Seed;
use engine::settings::{Problem, Setting, Table, refuse_unknown};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use host::DataDirection;
use sim::agent::Agent;
use std::fmt;
use std::sync::Arc;

/// A kind of source.
#[derive(Debug)]
pub struct SourceKind {
    /// The name in scenarios.
    pub name: &'static str,
    /// A phrase for lists.
    pub summary: &'static str,
    /// The transport protocol of its packets.
    pub transport: Transport,
    /// Its settings: groups that it shares with other kinds, and its own.
    pub settings: &'static [&'static SettingGroup],
    /// Reads and checks the settings; `None` if it reported a problem.
    pub read: fn(&mut SourceReader<'_>) -> Option<Arc<dyn FlowSource>>,
}

impl PartialEq for SourceKind {
    /// Names are unique.
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// A transport protocol of sources.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// QUIC, which is UDP's in headers.
    Quic,
}

impl Transport {
    /// IANA's protocol number.
    pub fn protocol(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp | Self::Quic => 17,
        }
    }
}

/// Settings of one kind, or those that several kinds share.
#[derive(Debug)]
pub struct SettingGroup(pub &'static [Setting]);

/// The checked source of a flow.
pub trait FlowSource: fmt::Debug + Send + Sync {
    /// Its label in reports: usually the name of its kind.
    fn label(&self) -> String;

    /// The shortest and the longest frame, where the settings determine them.
    fn frames(&self) -> Option<[Bytes; 2]> {
        None
    }

    /// What the delays of its flow are.
    fn delays(&self) -> MeasuredDelays {
        MeasuredDelays::OneWay
    }

    /// Whether it plays video: it is measured how.
    fn plays(&self) -> bool {
        false
    }

    /// How it yields, if one of its ends runs it under `nine`.
    fn nine(&self) -> Option<NineSettings> {
        None
    }

    /// What sends it through real sockets in a lab; none if only the simulator has such a source.
    fn in_lab(&self) -> Option<LabSource<'_>> {
        None
    }

    /// The same source with a program's own congestion control; none if it has no congestion
    /// control.
    fn with_control(&self, _own: OwnControl) -> Option<Arc<dyn FlowSource>> {
        None
    }

    /// The source that sends a program's own packets, and tells there of its failure; none unless
    /// its kind is `own`.
    fn with_packets(&self, _brought: &Brought) -> Option<Arc<dyn FlowSource>> {
        None
    }

    /// Whether it waits for a program's packets, so that it cannot run without.
    fn lacks_packets(&self) -> bool {
        false
    }

    /// The connections of one copy of the flow.
    fn connections(&self) -> u32 {
        1
    }

    /// The agents at the two ends of each connection of one copy: initiator and responder. All
    /// connections but the first start when the first wakes them.
    fn agents(&self, context: &FlowContext<'_>) -> Vec<[Box<dyn Agent>; 2]>;
}

/// What the delays of a flow are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MeasuredDelays {
    /// None are measured.
    Unmeasured,
    /// Of datagrams, from the sender to the receiver.
    OneWay,
    /// Of responses, from the request to the last byte; these are counted by this name.
    Responses(&'static str),
}

impl MeasuredDelays {
    /// What responses are counted as.
    pub fn counted(self) -> Option<&'static str> {
        match self {
            Self::Responses(name) => Some(name),
            Self::Unmeasured | Self::OneWay => None,
        }
    }
}

/// What `nine` is told about a flow: its options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NineSettings {
    /// Whether its receiver runs it, or its sender.
    pub direction: DataDirection,
    /// Its share of what other traffic leaves.
    pub weight: u32,
    /// Its rate at most.
    pub cap: Option<Bandwidth>,
    /// The rate below which it need not yield.
    pub floor: Option<Bandwidth>,
    /// The rate of the line, as stated at its host.
    pub bottlenet: Option<Bandwidth>,
}

impl NineSettings {
    /// Of the flow's path, the link at the host of its nine, in the direction of the data.
    pub fn link(&self, path: &[usize]) -> Option<usize> {
        let link = match self.direction {
            DataDirection::Download => path.last(),
            DataDirection::Upload => path.first(),
        };
        link.copied()
    }
}

/// What sends a flow through real sockets.
#[derive(Clone, Copy, Debug)]
pub enum LabSource<'a> {
    /// The kernel's TCP.
    Bulk {
        /// The congestion control, by the kernel's name.
        control: &'a str,
        /// How much it sends; none: without end.
        total: Option<Bytes>,
    },
    /// Datagrams at set times.
    Datagrams {
        /// The length of each frame.
        frame: Bytes,
        /// Frames in a burst.
        burst: u32,
        /// From one frame of a burst to the next.
        gap: Duration,
        /// From the start of a burst to the start of the next.
        period: Duration,
    },
}

/// The properties of a flow that the agents of its source need.
#[derive(Clone, Copy, Debug)]
pub struct FlowContext<'a> {
    /// When this copy starts.
    pub start: Instant,
    /// The spans in which it sends.
    pub active: &'a [(Instant, Instant)],
    /// The path MTU.
    pub mtu: Bytes,
    /// The seed of its random numbers.
    pub seed: Seed,
}

/// The section of a flow, as its kind reads it.
pub struct SourceReader<'a> {
    /// The section `[[flow]]`.
    pub section: &'a Section<'a>,
    table: Table,
    pub(super) files: Files<'a>,
    pub(super) problems: &'a mut Vec<Problem>,
}

/// The `read` of a struct of settings, made by [`engine::settings!`].
type Read<T> = fn(&Table, &[&str], &mut Vec<Problem>) -> Option<T>;

impl SourceKind {
    /// Reads the source of a flow of this kind. `also` names the keys of a flow of any kind.
    pub(crate) fn read_source(
        &self,
        section: &Section<'_>,
        files: Files<'_>,
        also: &[&str],
        problems: &mut Vec<Problem>,
    ) -> Option<Arc<dyn FlowSource>> {
        let table = section.table(|_| true);
        let (first, others) = self.settings.split_first()?;
        let others = others
            .iter()
            .flat_map(|group| group.0)
            .map(|setting| setting.name);
        let also: Vec<&str> = also.iter().copied().chain(others).collect();
        refuse_unknown(&table, first.0, &also, problems);
        (self.read)(&mut SourceReader {
            section,
            table,
            files,
            problems,
        })
    }
}

impl SourceReader<'_> {
    /// Reads a group of settings; `None` if it reported a problem.
    pub fn group<T>(&mut self, settings: &[Setting], read: Read<T>) -> Option<T> {
        // Keys that are in no group have been refused.
        let own = |key: &str| settings.iter().any(|setting| setting.name == key);
        let entries = self.table.entries.iter().filter(|entry| own(&entry.key));
        let table = Table {
            entries: entries.cloned().collect(),
            at: self.table.at,
        };
        read(&table, &[], self.problems)
    }

    /// Reports a problem of a key's value if it is `wrong`.
    pub fn refuse(&mut self, key: &str, wrong: bool, message: &str) {
        if wrong {
            let at = self
                .section
                .get(key)
                .map_or(self.section.at, |pair| pair.value.at);
            self.problems.push(Problem::new(at, message));
        }
    }
}
