//! `own`: packets that a program brings ([`crate::brought`]).

use super::datagrams::{datagrams, listened};
use super::kind::{FlowContext, FlowSource, SettingGroup, SourceKind, SourceReader, Transport};
use crate::brought::{Brought, OwnFailure, OwnPacket, OwnSequence};
use engine::packet::Ecn;
use engine::settings;
use engine::units::{Bytes, Duration};
use sim::agent::Agent;
use sim::sources::{DatagramSource, Timing};
use std::fmt;
use std::sync::Arc;

/// The kind, for the list.
pub static KIND: SourceKind = SourceKind {
    name: "own",
    summary: "packets that a program sends through the interface in Python or Rust",
    transport: Transport::Udp,
    settings: &[&OWN],
    read,
};

settings! {
    /// Settings of `own`.
    pub struct OwnSettings {
        /// Whether its packets are ECN-capable: ECT(0), or ECT(1) for L4S
        ecn: Ecn = default "false", "true: packets are marked where others are dropped", "most are not";
    }
}

static OWN: SettingGroup = SettingGroup(OwnSettings::SETTINGS);

/// Frames at one instant, at most: a source whose time stands still would never end.
const AT_ONCE: u32 = 1_000_000;

/// A flow of this kind.
#[derive(Clone, Debug)]
struct OwnSource {
    settings: OwnSettings,
    brought: Option<Brought>,
}

fn read(reader: &mut SourceReader<'_>) -> Option<Arc<dyn FlowSource>> {
    Some(Arc::new(OwnSource {
        settings: reader.group(OwnSettings::SETTINGS, OwnSettings::read)?,
        brought: None,
    }))
}

impl FlowSource for OwnSource {
    fn label(&self) -> String {
        KIND.name.into()
    }

    fn with_packets(&self, brought: &Brought) -> Option<Arc<dyn FlowSource>> {
        Some(Arc::new(Self {
            brought: Some(brought.clone()),
            ..self.clone()
        }))
    }

    fn lacks_packets(&self) -> bool {
        self.brought.is_none()
    }

    fn agents(&self, context: &FlowContext<'_>) -> Vec<[Box<dyn Agent>; 2]> {
        let brought = self
            .brought
            .as_ref()
            .expect("it is not run without: lacks_packets");
        // The sequence sets the lengths.
        let datagrams = datagrams(context, Bytes::ZERO, self.settings.ecn);
        let asked = Asked {
            sequence: Some(brought.packets.of(context.seed)),
            previous: Duration::ZERO,
            due: None,
            at_once: 0,
            longest: context.mtu + Bytes::new(14),
            flow: brought.flow.clone(),
            failure: brought.failure.clone(),
        };
        listened(DatagramSource::new(datagrams, asked))
    }
}

/// The timing of a sequence that is asked for one packet after the other.
struct Asked {
    /// None after its end or its failure.
    sequence: Option<OwnSequence>,
    previous: Duration,
    /// The packet that is sent next, once it was asked for.
    due: Option<(Duration, Bytes)>,
    /// How many packets before it had its time.
    at_once: u32,
    longest: Bytes,
    flow: String,
    failure: OwnFailure,
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asked")
            .field("due", &self.due)
            .finish_non_exhaustive()
    }
}

impl Asked {
    fn ask(&mut self) {
        self.due = match self.sequence.as_mut().and_then(Iterator::next) {
            Some(packet) => packet.and_then(|packet| self.checked(packet)).map_or_else(
                |error| {
                    self.failure.tell(error);
                    None
                },
                Some,
            ),
            None => None,
        };
        if self.due.is_none() {
            self.sequence = None;
        }
    }

    fn checked(&mut self, (at, frame): (Duration, Bytes)) -> OwnPacket {
        let flow = &self.flow;
        if at < self.previous {
            let before = self.previous;
            return Err(
                format!("flow `{flow}`: time went back: a packet at {at} after one at {before}").into(),
            );
        }
        self.at_once = if at > self.previous { 0 } else { self.at_once + 1 };
        if self.at_once > AT_ONCE {
            let why = format!("flow `{flow}`: time stands still: more than {AT_ONCE} packets at {at}");
            return Err(why.into());
        }
        if frame < Bytes::new(42) || frame > self.longest {
            let (longest, frame) = (self.longest.get(), frame.get());
            return Err(format!(
                "flow `{flow}`: frames must have from 42 B to {longest} B, the longest on this path; here is one \
                 of {frame} B"
            )
            .into());
        }
        Ok((at, frame))
    }
}

impl Timing for Asked {
    fn first(&mut self) -> Option<Duration> {
        if self.due.is_none() {
            self.ask();
        }
        // The difference of times that were checked is at least zero.
        self.due.map(|(at, _)| at - self.previous)
    }

    fn next(&mut self, _sent: Bytes) -> Option<Duration> {
        self.previous = self.due.take().map_or(self.previous, |(at, _)| at);
        self.first()
    }

    fn length(&self) -> Option<Bytes> {
        self.due.map(|(_, frame)| frame)
    }
}
