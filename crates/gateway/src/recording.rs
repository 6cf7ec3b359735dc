//! A recording as a file, and done again: the packets of its stretches leave as they did.
//!
//! `suimonFR`, a version (4 bytes, little-endian), the length of the head (8 bytes), the
//! [head](control::recorded::RecordingHead) as JSON, the tapes of the stretches, each with its
//! older part [in short form](netio::replay::shortened), that of RSVP, and a checksum (FNV-1a, 64
//! bits) of all before it. Version 1 had nothing in short form, 2 nothing queued at the beginning,
//! and 3 no filters. A file is untrusted: what is not so is an error, and reading takes no more
//! memory than a few times its size.

use crate::signalling::again::{SignallingStep, signalling_again};
use control::calendar::now_ms;
use control::difference::GenerationView;
use control::explained::{ExplainedPacket, explained};
use control::policy::InterfacePolicy;
use control::protocol::Refusal;
use control::recorded::{
    RecordedChange, RecordedPolicy, RecordedSignalling, RecordingFile, RecordingHead, Stretch,
};
use engine::packet::ClassId;
use engine::queue::Stats;
use engine::random::Seed;
use engine::tree::Registry;
use engine::units::{Bandwidth, Bytes, Instant};
use measure::waits::{Ended, MOST, Wanted};
use netio::classify::{Classify, Everything};
use netio::clock;
use netio::handle::{ClassRetune, Retune};
use netio::replay::Beginning;
use netio::replay::event::{BrokenTape, Events, TapeEvent};
use netio::replay::recreation::{Change, Departure, Recreation};
use netio::replay::shortened::{ShortEvent, ShortEvents};
use std::io::Read;
use std::sync::Arc;

/// What every recording begins with.
pub const MAGIC: &[u8; 8] = b"suimonFR";
const VERSION: u32 = 4;
/// Bytes before the head.
const FIXED: usize = 20;
/// The longest recording that is read, in bytes.
pub const LONGEST: u64 = 1_200 << 20;
/// Memory that a ring has at most, and at least, in bytes.
pub const RING: std::ops::RangeInclusive<u64> = 1 << 20..=1 << 30;

/// FNV-1a goes on from `sum`.
fn checksum(sum: u64, bytes: &[u8]) -> u64 {
    let one = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(sum, one)
}

const EMPTY: u64 = 0xcbf2_9ce4_8422_2325;

/// The checksum at the end of a recording of which these are the bytes before it.
pub fn checksum_of(bytes: &[u8]) -> u64 {
    checksum(EMPTY, bytes)
}

/// The head of a recording that is made now, and has nothing yet.
pub(crate) fn empty_head(interface: &str, generations: Vec<GenerationView>) -> RecordingHead {
    RecordingHead {
        interface: interface.into(),
        program: env!("CARGO_PKG_VERSION").into(),
        saved_ns: clock::now().nanos(),
        saved_ms: now_ms(),
        full_ns: None,
        stretches: Vec::new(),
        generations,
        signalling: None,
    }
}

/// A recording of these tapes: of stretches, and of RSVP.
pub(crate) fn file(
    mut head: RecordingHead,
    mut tape: RecordingFile,
    signalling: Option<(RecordedSignalling, Vec<u8>)>,
) -> Result<RecordingFile, Refusal> {
    if let Some((said, bytes)) = signalling {
        head.signalling = Some(said);
        tape.0.push(Arc::new(bytes));
    }
    let head = serde_json::to_vec(&head).map_err(|why| Refusal::new(why.to_string()))?;
    let mut before = MAGIC.to_vec();
    before.extend(VERSION.to_le_bytes());
    before.extend((head.len() as u64).to_le_bytes());
    before.extend(head);
    let mut parts = vec![Arc::new(before)];
    parts.extend(tape.0);
    let sum = parts.iter().fold(EMPTY, |sum, part| checksum(sum, part));
    parts.push(Arc::new(sum.to_le_bytes().to_vec()));
    Ok(RecordingFile(parts))
}

/// A recording that was read.
#[derive(Debug)]
pub struct Recording {
    /// What it says beside its tape.
    pub head: RecordingHead,
    bytes: Vec<u8>,
    /// Where its tape begins.
    tape: usize,
}

/// What a stretch was, done again.
#[derive(Clone, Debug, Default)]
pub struct DoneAgain {
    /// The first and the last moment, by the tape's clock.
    pub span: Option<(Instant, Instant)>,
    /// What was offered, sent and dropped.
    pub totals: Stats,
    /// Changes of the policy, with their moments.
    pub changes: Vec<(Instant, Vec<String>)>,
    /// The packets that were looked at, in the order of their ends.
    pub packets: Vec<PacketAgain>,
}

/// A packet that left or was dropped again.
#[derive(Clone, PartialEq, Debug)]
pub struct PacketAgain {
    /// When it arrived.
    pub arrived: Instant,
    /// When it left, or was dropped.
    pub ended: Instant,
    /// Why it waited, or was dropped.
    pub explained: ExplainedPacket,
}

/// What is done with a packet that arrived: its time, its frame, and its headers.
pub type EachArrival<'a, E> = dyn FnMut(Instant, Bytes, &[u8]) -> Result<(), E> + 'a;

/// Packets that are looked at: those that ended within these moments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Around {
    /// From here.
    pub since: Instant,
    /// To before here.
    pub until: Instant,
    /// Those that were dropped; otherwise those that left.
    pub drops: bool,
}

impl Recording {
    /// Reads one.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with it.
    pub fn read(from: &mut dyn Read) -> Result<Self, String> {
        let mut bytes = Vec::new();
        let read = from.take(LONGEST + 1).read_to_end(&mut bytes);
        read.map_err(|why| format!("cannot be read: {why}"))?;
        if bytes.len() as u64 > LONGEST {
            return Err(format!("is longer than a recording, {} MiB", LONGEST >> 20));
        }
        Self::of(bytes)
    }

    fn of(mut bytes: Vec<u8>) -> Result<Self, String> {
        let fixed = bytes
            .first_chunk::<FIXED>()
            .filter(|fixed| fixed.starts_with(MAGIC));
        let fixed = fixed.ok_or("is no recording of suimon")?;
        let word = |at: usize| -> [u8; 4] { std::array::from_fn(|byte| fixed[at + byte]) };
        let version = u32::from_le_bytes(word(8));
        if !(1..=VERSION).contains(&version) {
            return Err(format!(
                "is a recording of version {version}; this suimon reads 1 to {VERSION}"
            ));
        }
        let length = u64::from(u32::from_le_bytes(word(12))) | u64::from(u32::from_le_bytes(word(16))) << 32;
        let rest = bytes.len().checked_sub(FIXED + 8).ok_or("is cut off")?;
        let head = usize::try_from(length).ok().filter(|head| *head <= rest);
        let tape = FIXED + head.ok_or("is cut off, or damaged")?;
        let sum = bytes.split_off(bytes.len() - 8);
        if sum != checksum_of(&bytes).to_le_bytes() {
            return Err("is cut off, or damaged: its checksum is another".into());
        }
        let head: RecordingHead = serde_json::from_slice(&bytes[FIXED..tape])
            .map_err(|why| format!("has a head that cannot be read: {why}"))?;
        let signalling = head.signalling.iter().map(|said| said.tape_bytes);
        let tapes = head.stretches.iter().map(Stretch::bytes).chain(signalling);
        let sum = tapes.fold(0u64, u64::saturating_add);
        if sum != (bytes.len() - tape) as u64 {
            return Err("has a tape of another length than its head says".into());
        }
        Ok(Self { head, bytes, tape })
    }

    /// Its stretches, each with its tape: the part in short form, and the rest.
    fn stretches(&self) -> impl Iterator<Item = (&Stretch, [&[u8]; 2])> {
        let mut rest = &self.bytes[self.tape..];
        self.head.stretches.iter().map(move |stretch| {
            // Their sum is the length of the whole.
            let parts = [stretch.short_bytes, stretch.tape_bytes].map(|bytes| {
                let (own, after) = rest.split_at(bytes as usize);
                rest = after;
                own
            });
            (stretch, parts)
        })
    }

    /// Does again what RSVP did, if it was spoken; `seen` is told each step.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be done again as it was.
    pub fn signalling_again(
        &self,
        registry: &Registry,
        seen: &mut dyn FnMut(SignallingStep),
    ) -> Result<(), String> {
        let Some(said) = &self.head.signalling else {
            return Ok(());
        };
        // It is the last of the tapes, whose sum is the length of all.
        let tape = &self.bytes[self.bytes.len() - said.tape_bytes as usize..];
        signalling_again(said, tape, registry, seen)
    }

    /// Gives each packet as it came to the interface: when, the longest frame that takes as much on
    /// its link as it took, and its headers; as long as that goes well. How many others there are,
    /// whose headers are no longer kept.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with it.
    pub fn arrivals<E>(
        &self,
        registry: &Registry,
        each: &mut EachArrival<'_, E>,
    ) -> Result<Result<u64, E>, String> {
        let mut without = 0;
        for (stretch, parts) in self.stretches() {
            let policy = policy(&stretch.policy, &self.head.interface, registry)?;
            let framing = policy.link().framing;
            for event in events(parts) {
                let arrival = match event.map_err(|why| why.to_string())? {
                    ShortEvent::Whole(TapeEvent::Arrival(arrival)) => arrival,
                    // It arrived while what was queued moved into another tree.
                    ShortEvent::Whole(TapeEvent::Held(held)) if !held.handed_on => held.packet,
                    _ => continue,
                };
                if arrival.headers.is_empty() {
                    without += 1;
                    continue;
                }
                let frame = framing.longest_within(arrival.len);
                if let Err(why) = each(arrival.at, frame, arrival.headers) {
                    return Ok(Err(why));
                }
            }
        }
        Ok(Ok(without))
    }

    /// The first and the last moment of each stretch.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with a tape.
    pub fn spans(&self) -> Result<Vec<Option<(Instant, Instant)>>, String> {
        let span = |(_, parts): (&Stretch, [&[u8]; 2])| {
            events(parts).try_fold(None, |span: Option<(Instant, Instant)>, event| {
                let at = time_of(&event.map_err(|why| why.to_string())?);
                Ok(at.map_or(span, |at| Some((span.map_or(at, |(first, _)| first), at))))
            })
        };
        self.stretches().map(span).collect()
    }

    /// Does the stretch of this number again, and looks at some packets.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be done again as it was, or there is none.
    pub fn again(
        &self,
        number: usize,
        registry: &Registry,
        around: Option<Around>,
        leaving: &mut dyn FnMut(Departure<'_>),
    ) -> Result<DoneAgain, String> {
        let (stretch, parts) = self.stretches().nth(number).ok_or("there is no such stretch")?;
        let policy = policy(&stretch.policy, &self.head.interface, registry)?;
        let beginning = beginning(&policy, Seed(stretch.seed));
        let recreation = Recreation::new(beginning).map_err(|why| format!("no memory for it: {why}"))?;
        let mut player = Player {
            recreation,
            policy,
            around,
            done: DoneAgain::default(),
        };
        player.look();
        let mut changes = stretch.changes.iter();
        for event in events(parts) {
            let event = event.map_err(|why| why.to_string())?;
            let at = time_of(&event);
            if let Some(at) = at {
                let first = player.done.span.map_or(at, |(first, _)| first);
                player.done.span = Some((first, at));
                if around.is_some_and(|around| at >= around.until) {
                    break;
                }
            }
            let changed = matches!(event, ShortEvent::Whole(TapeEvent::Changed { .. }));
            let mut change = None;
            if changed {
                let next = changes.next().ok_or("a change is missing")?;
                change = Some(player.change(next, &self.head.interface, registry, at)?);
            }
            let again = player
                .recreation
                .again_in_short(&event, &mut || change.take(), leaving);
            again.map_err(|why| why.to_string())?;
            if changed {
                player.look();
            }
        }
        Ok(player.end())
    }

    /// Since when the packets of a stretch have headers, if its older part has none.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with its tape.
    pub fn headers_since(&self, number: usize) -> Result<Option<Instant>, String> {
        let stretch = self.stretches().nth(number);
        let Some((_, [_, tape])) = stretch.filter(|(stretch, _)| stretch.short_bytes > 0) else {
            return Ok(None);
        };
        let times = events([&[], tape]).map(|event| event.map(|event| time_of(&event)));
        let first = times
            .filter_map(Result::transpose)
            .next()
            .transpose()
            .map_err(|why: BrokenTape| why.to_string())?;
        Ok(Some(first.unwrap_or(Instant::NEVER)))
    }
}

/// The events of a tape: those of its part in short form, and those of the rest.
fn events<'a>([short, whole]: [&'a [u8]; 2]) -> impl Iterator<Item = Result<ShortEvent<'a>, BrokenTape>> {
    let whole = Events::new(whole).map(|event| event.map(ShortEvent::Whole));
    ShortEvents::new(short).chain(whole)
}

fn time_of(event: &ShortEvent<'_>) -> Option<Instant> {
    match event {
        ShortEvent::Asked { at, .. } => Some(*at),
        ShortEvent::Check(_) => None,
        ShortEvent::Whole(event) => match event {
            TapeEvent::Start { at, .. } | TapeEvent::Changed { at, .. } => Some(*at),
            TapeEvent::Arrival(arrival) => Some(arrival.at),
            TapeEvent::Asked(asked) => Some(asked.at),
            TapeEvent::Held(held) => Some(held.at),
            TapeEvent::Moved(moved) => Some(moved.at),
            TapeEvent::Link(_)
            | TapeEvent::Switched { .. }
            | TapeEvent::Abandoned { .. }
            | TapeEvent::MovedAtOnce { .. } => None,
        },
    }
}

fn policy(
    recorded: &RecordedPolicy,
    interface: &str,
    registry: &Registry,
) -> Result<InterfacePolicy, String> {
    recorded.policy(interface, registry).map_err(|problems| {
        let why = problems.first().map_or("", |problem| problem.message.as_str());
        format!("has a policy that this suimon does not accept: {why}")
    })
}

fn beginning(policy: &InterfacePolicy, seed: Seed) -> Beginning {
    Beginning {
        name: policy.name.clone(),
        plan: policy.plan.clone(),
        seed,
        // The tape has its answers.
        classify: Box::new(Everything(ClassId(0))),
        bandwidth: Some(policy.link().bandwidth),
        framing: policy.link().framing,
        guarantees: Vec::new(),
    }
}

/// Does a stretch again, and looks at packets.
struct Player {
    recreation: Recreation,
    policy: InterfacePolicy,
    around: Option<Around>,
    done: DoneAgain,
}

impl Player {
    /// Looks at packets from now on.
    fn look(&mut self) {
        if let Some(around) = self.around {
            self.recreation.begin_explaining(Wanted {
                class: None,
                drops: around.drops,
                keep: MOST,
                since: around.since,
                until: around.until,
            });
        }
    }

    /// Takes what was seen so far, by the names of the present policy.
    fn see(&mut self) {
        let Some(recorded) = self.recreation.end_explaining() else {
            return;
        };
        let views = self.recreation.show().views;
        let told = explained(&self.policy, &recorded, &views);
        let both = recorded.packets.iter().zip(told.packets);
        self.done.packets.extend(both.map(|(packet, explained)| {
            let (Ended::Left { at: ended, .. } | Ended::Dropped { at: ended, .. }) = packet.ended;
            PacketAgain {
                arrived: packet.arrived.at,
                ended,
                explained,
            }
        }));
    }

    fn change(
        &mut self,
        change: &RecordedChange,
        interface: &str,
        registry: &Registry,
        at: Option<Instant>,
    ) -> Result<Change, String> {
        self.see();
        let former = self.policy.plan.clone();
        self.policy = policy(&change.policy, interface, registry)?;
        let changed = (at.unwrap_or(Instant::START), change.changes.clone());
        self.done.changes.push(changed);
        if let Some(class) = change.class.map(ClassId) {
            let amended = former.amended(&self.policy.spec, class);
            self.policy.plan = amended.ok_or("has a change of a class that is none")?;
            return Ok(Change::Class(ClassRetune {
                plan: self.policy.plan.clone(),
                class,
                guarantee: Bandwidth::ZERO,
            }));
        }
        let anew = || Box::new(Everything(ClassId(0))) as Box<dyn Classify>;
        Ok(Change::Whole(Retune {
            plan: self.policy.plan.clone(),
            seed: Seed(change.seed),
            classify: change.reclassified.then(anew),
            bandwidth: change.bandwidth_bps.map(Bandwidth::bits_per_sec),
            guarantees: Vec::new(),
        }))
    }

    fn end(mut self) -> DoneAgain {
        self.see();
        self.done.totals = self.recreation.show().totals;
        self.done.packets.sort_by_key(|packet| packet.ended);
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of the fuzz corpus with this version's number; the first version's were the same
    /// where nothing is in short form.
    fn of_version(name: &str, version: u32) -> Vec<u8> {
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/recordings");
        let mut file = std::fs::read(format!("{corpus}/{name}")).expect("a recording");
        file.truncate(file.len() - 8);
        file[8..12].copy_from_slice(&version.to_le_bytes());
        let sum = checksum_of(&file);
        file.extend(sum.to_le_bytes());
        file
    }

    /// What an earlier suimon has written is read and done again by this one, packet by packet.
    #[test]
    fn recordings_of_earlier_versions_are_done_again() {
        for (name, version, expected) in [
            ("drops", 1, (20, 20, 0)),
            ("drops", 2, (20, 20, 0)),
            ("drops-short", 2, (20, 20, 0)),
            ("changed", 1, (31, 39, 1)),
            ("changed", 2, (31, 39, 1)),
            ("changed-short", 2, (31, 39, 1)),
        ] {
            let file = of_version(name, version);
            let recording = Recording::read(&mut &file[..]).expect("it is read");
            let (mut sent, mut dropped, mut changes) = (0, 0, 0);
            for stretch in 0..recording.head.stretches.len() {
                let done = recording.again(stretch, &Registry::builtin(), None, &mut |_| {});
                let done = done.unwrap_or_else(|why| panic!("{name}, version {version}: {why}"));
                sent += done.totals.sent.packets;
                dropped += done.totals.dropped.packets;
                changes += done.changes.len();
            }
            assert_eq!((sent, dropped, changes), expected, "{name}, version {version}");
        }
        for version in [0, VERSION + 1] {
            let file = of_version("drops", version);
            let said = Recording::read(&mut &file[..]).expect_err("no such version");
            assert!(said.contains(&format!("of version {version}")), "{said}");
        }
    }
}
