//! `suimon replay RECORDING`: the packets of a recording, done again.

use crate::commands::Context;
use crate::exit::{Exit, Failure};
use control::calendar;
use engine::units::{Duration, Instant};
use gateway::recording::{Around, DoneAgain, MAGIC, PacketAgain, Recording};
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
    let mut file = File::open(path).map_err(|why| wrong(why.to_string()))?;
    let recording = Recording::read(&mut file).map_err(|why| wrong(format!("it {why}")))?;
    let spans = recording.spans().map_err(wrong)?;
    let clock = Clock::of(&recording);
    let Some((word, around)) = moment else {
        for number in 0..spans.len() {
            let again = recording.again(number, cx.registry, None, &mut |_| {});
            let done = again.map_err(|why| Failure::at_run_time(format!("stretch {}: {why}", number + 1)))?;
            match json {
                true => writeln!(cx.out, "{}", stretch_json(&clock, &done))?,
                false => stretch(cx.out, &clock, number + 1, &done)?,
            }
        }
        return left_out(cx.out, &clock, &recording, json);
    };
    let begin = spans.iter().flatten().map(|(first, _)| *first).next();
    let begin = begin.ok_or_else(|| wrong("nothing is in it".into()))?;
    let at = clock.moment(word, begin).map_err(Failure::usage)?;
    let (since, until) = (at - around, at + around);
    let covers =
        |span: &Option<(Instant, Instant)>| span.is_some_and(|(first, last)| first < until && last >= since);
    let found: Vec<usize> = (0..spans.len())
        .filter(|number| covers(&spans[*number]))
        .collect();
    if found.is_empty() {
        let ends = spans.iter().flatten().map(|(_, last)| *last).max();
        let [begin, end] = [begin, ends.unwrap_or(begin)].map(|at| clock.shown(at));
        return Err(wrong(format!(
            "it has nothing at that time: it is from {begin} to {end}"
        )));
    }
    for number in found {
        let again = |drops| {
            let around = Around { since, until, drops };
            let again = recording.again(number, cx.registry, Some(around), &mut |_| {});
            again.map_err(|why| Failure::at_run_time(format!("stretch {}: {why}", number + 1)))
        };
        let (left, dropped) = (again(false)?, again(true)?);
        let mut packets: Vec<&PacketAgain> = left.packets.iter().chain(&dropped.packets).collect();
        packets.sort_by_key(|packet| (packet.ended, packet.arrived));
        for packet in packets {
            match json {
                true => writeln!(cx.out, "{}", packet_json(&clock, packet))?,
                false => shown(cx.out, &clock, packet)?,
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
    }
    Ok(Exit::Done)
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

fn stretch(out: &mut dyn Write, clock: &Clock, number: usize, done: &DoneAgain) -> io::Result<()> {
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
    done.changes
        .iter()
        .try_for_each(|(at, said)| writeln!(out, "  {} {}", clock.shown(*at), said.join("; ")))
}

fn stretch_json(clock: &Clock, done: &DoneAgain) -> serde_json::Value {
    let at = |at: Instant| clock.nanos(at);
    let changes = done.changes.iter();
    json!({
        "begin_ns": done.span.map(|(first, _)| at(first)),
        "end_ns": done.span.map(|(_, last)| at(last)),
        "sent_packets": done.totals.sent.packets,
        "dropped_packets": done.totals.dropped.packets,
        "changes": changes.map(|(when, said)| json!({"at_ns": at(*when), "changes": said})).collect::<Vec<_>>(),
    })
}

/// What the recording does not have, if that is so.
fn left_out(out: &mut dyn Write, clock: &Clock, recording: &Recording, json: bool) -> Result<Exit, Failure> {
    if let Some(since) = recording.head.full_ns.filter(|_| !json) {
        let since = clock.shown(Instant::from_nanos(since));
        writeln!(
            out,
            "from {since} on its ring was full, and nothing could go: the queue was not empty since"
        )?;
    }
    Ok(Exit::Done)
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
