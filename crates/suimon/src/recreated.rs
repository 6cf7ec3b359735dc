//! `suimon replay RECORDING`: the packets of a recording, done again.

use crate::commands::Context;
use crate::exit::{Exit, Failure};
use crate::source;
use control::calendar;
use engine::tree::Registry;
use engine::units::{Duration, Instant};
use gateway::recording::{Around, DoneAgain, MAGIC, PacketAgain, Recording};
use gateway::signalling::again::SignallingStep;
use measure::numbers;
use serde_json::json;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

/// Whether a file begins as a recording does; one that cannot be read does not.
pub(crate) fn is_recording(path: &Path) -> bool {
    let mut begin = [0; MAGIC.len()];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut begin));
    read.is_ok() && begin == *MAGIC
}

/// Does it again, as a whole or around a moment.
pub(crate) fn show(
    path: &Path,
    moment: Option<(&str, Duration)>,
    json: bool,
    cx: &mut Context<'_>,
) -> Result<Exit, Failure> {
    let wrong = |why: String| Failure::usage(format!("{}: {why}", path.display()));
    let mut file = source::opened("recording", path)?;
    let recording = Recording::read(&mut file).map_err(|why| wrong(format!("it {why}")))?;
    let spans = recording.spans().map_err(wrong)?;
    let clock = Clock::of(&recording);
    let file = Opened {
        recording,
        spans,
        clock,
        json,
    };
    match moment {
        None => whole(&file, cx),
        Some((word, around)) => {
            let at = file
                .moment(word, cx.registry)?
                .ok_or_else(|| wrong("nothing is in it".into()))?;
            let within = (at - around, at + around);
            match file.around(within, cx)? {
                true => Ok(Exit::Done),
                false => Err(wrong(file.nothing_then())),
            }
        }
    }
}

/// A recording, and how it is shown.
struct Opened {
    recording: Recording,
    /// Of each stretch.
    spans: Vec<Option<(Instant, Instant)>>,
    clock: Clock,
    json: bool,
}

/// Does all of it again.
fn whole(file: &Opened, cx: &mut Context<'_>) -> Result<Exit, Failure> {
    let Opened {
        recording,
        clock,
        json,
        ..
    } = file;
    for number in 0..file.spans.len() {
        let failed = |why| Failure::at_run_time(format!("stretch {}: {why}", number + 1));
        let done = recording
            .again(number, cx.registry, None, &mut |_| {})
            .map_err(failed)?;
        let headers = recording.headers_since(number).map_err(failed)?;
        match json {
            true => writeln!(cx.out, "{}", stretch_json(clock, &done, headers))?,
            false => stretch(cx.out, clock, number + 1, &done, headers)?,
        }
    }
    let steps = signalling(recording, cx.registry, (Instant::START, Instant::NEVER))?;
    if recording.head.signalling.is_some() {
        counted(cx.out, clock, &steps, *json)?;
    }
    left_out(cx.out, clock, recording, *json)?;
    Ok(Exit::Done)
}

impl Opened {
    /// The moment that is meant; after the beginning of the packets, or of RSVP if there are none.
    fn moment(&self, word: &str, registry: &Registry) -> Result<Option<Instant>, Failure> {
        let of_packets = self.spans.iter().flatten().map(|(first, _)| *first).next();
        let begin = match of_packets {
            Some(first) => Some(first),
            None => {
                let steps = signalling(&self.recording, registry, (Instant::START, Instant::NEVER))?;
                steps.first().map(|step| step.at)
            }
        };
        let moment = begin.map(|begin| self.clock.moment(word, begin));
        moment.transpose().map_err(Failure::usage)
    }

    /// That it has nothing at a moment, and what it has.
    fn nothing_then(&self) -> String {
        let spans = || self.spans.iter().flatten();
        let (first, last) = (spans().map(|span| span.0).min(), spans().map(|span| span.1).max());
        let shown = |at: Instant| self.clock.shown(at);
        let packets = match first.zip(last) {
            Some((first, last)) => format!("its packets are from {} to {}", shown(first), shown(last)),
            None => "it has no packets".into(),
        };
        let full = self.recording.head.full_ns.map(Instant::from_nanos);
        let full = full.map(|since| format!("; its ring was full from {} on", shown(since)));
        format!(
            "it has nothing at that time: {packets}{}",
            full.unwrap_or_default()
        )
    }

    /// Shows what was from one moment to before another; whether that is anything.
    fn around(&self, (since, until): (Instant, Instant), cx: &mut Context<'_>) -> Result<bool, Failure> {
        let Self {
            recording,
            spans,
            clock,
            json,
        } = self;
        let covers = |span: &Option<(Instant, Instant)>| {
            span.is_some_and(|(first, last)| first < until && last >= since)
        };
        let found: Vec<usize> = (0..spans.len())
            .filter(|number| covers(&spans[*number]))
            .collect();
        let steps = signalling(recording, cx.registry, (since, until))?;
        for number in &found {
            self.packets(*number, (since, until), cx)?;
        }
        for step in &steps {
            match json {
                true => writeln!(cx.out, "{}", step_json(clock, step))?,
                false => {
                    let interface = step.interface.iter().map(|name| format!("{name} "));
                    let interface = interface.collect::<String>();
                    let SignallingStep { at, what, words, .. } = step;
                    writeln!(cx.out, "{} RSVP {interface}{what}: {words}", clock.shown(*at))?;
                }
            }
        }
        Ok(!found.is_empty() || !steps.is_empty())
    }

    /// The packets of a stretch, and changes of its policy.
    fn packets(
        &self,
        number: usize,
        (since, until): (Instant, Instant),
        cx: &mut Context<'_>,
    ) -> Result<(), Failure> {
        let (clock, json) = (&self.clock, self.json);
        let again = |drops| {
            let around = Around { since, until, drops };
            let again = self
                .recording
                .again(number, cx.registry, Some(around), &mut |_| {});
            again.map_err(|why| Failure::at_run_time(format!("stretch {}: {why}", number + 1)))
        };
        let (left, dropped) = (again(false)?, again(true)?);
        let mut packets: Vec<&PacketAgain> = left.packets.iter().chain(&dropped.packets).collect();
        packets.sort_by_key(|packet| (packet.ended, packet.arrived));
        for packet in packets {
            match json {
                true => writeln!(cx.out, "{}", packet_json(clock, packet))?,
                false => shown(cx.out, clock, packet)?,
            }
        }
        let within = |(at, _): &&(Instant, Vec<String>)| *at >= since && *at < until;
        for (at, changes) in left.changes.iter().filter(within).filter(|_| !json) {
            writeln!(
                cx.out,
                "{} the policy changed: {}",
                clock.shown(*at),
                changes.join("; ")
            )?;
        }
        Ok(())
    }
}

/// What RSVP heard, was told and did from one moment to before another, done again as a whole.
fn signalling(
    recording: &Recording,
    registry: &Registry,
    (since, until): (Instant, Instant),
) -> Result<Vec<SignallingStep>, Failure> {
    let mut steps = Vec::new();
    let again = recording.signalling_again(registry, &mut |step| {
        steps.extend(Some(step).filter(|step| step.at >= since && step.at < until));
    });
    again.map_err(Failure::at_run_time)?;
    Ok(steps)
}

fn counted(out: &mut dyn Write, clock: &Clock, steps: &[SignallingStep], json: bool) -> io::Result<()> {
    let of = |what: &str| steps.iter().filter(|step| step.what == what).count();
    let [first, last] = [steps.first(), steps.last()].map(|step| step.map(|step| step.at));
    let [heard, asked, ended, sent, told] = ["heard", "asked", "ended", "sent", "told"].map(of);
    match (json, first.zip(last)) {
        (true, span) => writeln!(
            out,
            "{}",
            json!({"rsvp": {
                "begin_ns": span.map(|(first, _)| clock.nanos(first)),
                "end_ns": span.map(|(_, last)| clock.nanos(last)),
                "heard": heard, "asked": asked, "ended": ended, "sent": sent, "told": told,
            }})
        ),
        (false, None) => writeln!(out, "RSVP: nothing was heard or asked"),
        (false, Some((first, last))) => writeln!(
            out,
            "RSVP: {} for {}: {heard} messages heard, {asked} requests of programs and {ended} ends; \
             {sent} messages sent and {told} times told, each as it was",
            clock.shown(first),
            numbers::time(last.since(first).nanos())
        ),
    }
}

fn step_json(clock: &Clock, step: &SignallingStep) -> serde_json::Value {
    json!({
        "at_ns": clock.nanos(step.at), "rsvp": step.what, "interface": step.interface, "words": step.words,
    })
}

/// The tape's clock, and that of the computer.
struct Clock {
    saved: Instant,
    saved_ms: u64,
}

impl Clock {
    fn of(recording: &Recording) -> Self {
        Self {
            saved: Instant::from_nanos(recording.head.saved_ns),
            saved_ms: recording.head.saved_ms,
        }
    }

    /// A moment of the tape in nanoseconds since 1970.
    fn nanos(&self, at: Instant) -> u64 {
        let saved = self.saved_ms.saturating_mul(1_000_000);
        let (before, after) = (self.saved.since(at).nanos(), at.since(self.saved).nanos());
        saved.saturating_sub(before).saturating_add(after)
    }

    fn shown(&self, at: Instant) -> String {
        let nanos = self.nanos(at);
        format!(
            "{}.{:09}",
            calendar::shown(nanos / 1_000_000),
            nanos % 1_000_000_000
        )
    }

    /// The moment of the tape that is meant.
    fn moment(&self, word: &str, begin: Instant) -> Result<Instant, String> {
        if let Ok(after) = word.parse::<Duration>() {
            return Ok(begin + after);
        }
        // The last such time of the day before it was saved.
        let day = 24 * 3_600 * 1_000;
        let ms = calendar::moment(word, self.saved_ms.saturating_sub(day))
            .map_err(|why| format!("--at: {why}, or how long after the beginning, such as 2.5s"))?;
        let before = Duration::from_millis(self.saved_ms.saturating_sub(ms));
        let after = Duration::from_millis(ms.saturating_sub(self.saved_ms));
        Ok(self.saved - before + after)
    }
}

fn stretch(
    out: &mut dyn Write,
    clock: &Clock,
    number: usize,
    done: &DoneAgain,
    headers: Option<Instant>,
) -> io::Result<()> {
    let Some((first, last)) = done.span else {
        return writeln!(out, "{number}: nothing is in it");
    };
    let [sent, dropped] = [done.totals.sent, done.totals.dropped].map(|count| numbers::count(count.packets));
    writeln!(
        out,
        "{number}: {} for {}: {sent} packets left and {dropped} were dropped, each when it was",
        clock.shown(first),
        numbers::time(last.since(first).nanos())
    )?;
    if let Some(since) = headers {
        let since = clock.shown(since.min(last));
        writeln!(
            out,
            "  packets that arrived before {since} have no headers: the queue was not empty for longer than the ring lasts"
        )?;
    }
    done.changes
        .iter()
        .try_for_each(|(at, said)| writeln!(out, "  {} {}", clock.shown(*at), said.join("; ")))
}

fn stretch_json(clock: &Clock, done: &DoneAgain, headers: Option<Instant>) -> serde_json::Value {
    let at = |at: Instant| clock.nanos(at);
    let changes = done.changes.iter();
    json!({
        "begin_ns": done.span.map(|(first, _)| at(first)),
        "end_ns": done.span.map(|(_, last)| at(last)),
        "headers_since_ns": headers.zip(done.span).map(|(since, (_, last))| at(since.min(last))),
        "sent_packets": done.totals.sent.packets,
        "dropped_packets": done.totals.dropped.packets,
        "changes": changes.map(|(when, said)| json!({"at_ns": at(*when), "changes": said})).collect::<Vec<_>>(),
    })
}

/// What the recording does not have, if that is so.
fn left_out(out: &mut dyn Write, clock: &Clock, recording: &Recording, json: bool) -> io::Result<()> {
    let head = &recording.head;
    let of_rsvp = head.signalling.as_ref().and_then(|said| said.full_ns);
    for (full, name, words) in [
        (
            of_rsvp,
            "rsvp_full_since_ns",
            "the tape of RSVP was full, and the node has not been without state since",
        ),
        (
            head.full_ns,
            "full_since_ns",
            "its ring was full, and nothing could go: the queue was not empty since",
        ),
    ] {
        let Some(since) = full.map(Instant::from_nanos) else {
            continue;
        };
        match json {
            true => writeln!(out, "{}", json!({name: clock.nanos(since)}))?,
            false => writeln!(out, "from {} on {words}", clock.shown(since))?,
        }
    }
    Ok(())
}

fn shown(out: &mut dyn Write, clock: &Clock, packet: &PacketAgain) -> io::Result<()> {
    let ends = if packet.explained.dropped.is_some() {
        "dropped"
    } else {
        "left"
    };
    writeln!(
        out,
        "{} arrived, {} {ends}",
        clock.shown(packet.arrived),
        clock.shown(packet.ended)
    )?;
    let lines = packet.explained.lines();
    lines.iter().try_for_each(|line| writeln!(out, "  {line}"))
}

fn packet_json(clock: &Clock, packet: &PacketAgain) -> serde_json::Value {
    json!({
        "arrived_ns": clock.nanos(packet.arrived),
        "ended_ns": clock.nanos(packet.ended),
        "explained": packet.explained,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::recorded::RecordingHead;
    use gateway::recording::checksum_of;
    use serde_json::Value;

    /// A recording of the fuzz corpus, whose older packets have no headers, saved as if its ring
    /// had been full.
    fn full(name: &str) -> std::path::PathBuf {
        let corpus = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../fuzz/corpus/recordings/drops-short"
        );
        let file = std::fs::read(corpus).expect("a recording");
        let length: [u8; 8] = file[12..20].try_into().expect("eight bytes");
        let (head, tape) = file[20..file.len() - 8].split_at(u64::from_le_bytes(length) as usize);
        let mut head: RecordingHead = serde_json::from_slice(head).expect("a head");
        head.full_ns = Some(head.saved_ns);
        let head = serde_json::to_vec(&head).expect("a head");
        let mut bytes = file[..12].to_vec();
        bytes.extend((head.len() as u64).to_le_bytes());
        bytes.extend(head);
        bytes.extend(tape);
        bytes.extend(checksum_of(&bytes).to_le_bytes());
        let path = std::env::temp_dir().join(format!("suimon-{name}-{}.rec", std::process::id()));
        std::fs::write(&path, bytes).expect("written");
        path
    }

    fn shown(path: &Path, moment: Option<(&str, Duration)>, json: bool) -> String {
        let registry = Registry::builtin();
        let mut out = Vec::new();
        let mut cx = Context {
            registry: &registry,
            out: &mut out,
        };
        let done = show(path, moment, json, &mut cx);
        assert!(
            matches!(done, Ok(Exit::Done)),
            "{:?}",
            done.map_err(|why| why.message)
        );
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn what_a_recording_leaves_out_is_said_in_words_and_in_json() {
        let path = full("full");
        let words = shown(&path, None, false);
        assert!(words.contains("have no headers"), "{words}");
        assert!(words.contains("on its ring was full"), "{words}");
        let json = shown(&path, None, true);
        let lines: Vec<Value> = json
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        let since = |line: &Value| line["headers_since_ns"].as_u64().zip(line["begin_ns"].as_u64());
        let later = lines.iter().filter_map(since).any(|(since, begin)| since > begin);
        let full = lines.iter().filter(|line| line["full_since_ns"].is_u64());
        assert_eq!((later, full.count()), (true, 1), "{json}");
        std::fs::remove_file(path).expect("removed");
    }

    #[test]
    fn packets_without_headers_are_shown_with_their_classes_and_times() {
        let path = full("shown");
        let hour = Duration::from_secs(3_600);
        let all = shown(&path, Some(("0s", hour)), true);
        let packets: Vec<Value> = all
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        let dropped = |packet: &&Value| !packet["explained"]["dropped"].is_null();
        let drops = packets.iter().filter(dropped).count();
        assert!(
            drops > 5 && packets.len() - drops > 10,
            "{drops} of {}",
            packets.len()
        );
        let words = shown(&path, Some(("0s", hour)), false);
        let with = words.matches("1 kB: ").count();
        let addressed = words.matches("->").count();
        assert!(
            addressed > 0 && addressed < with,
            "{addressed} of {with}: {words}"
        );
        std::fs::remove_file(path).expect("removed");
    }
}
