//! Recordings of the flight recorder: the file of a stranger, done again.
//!
//! A mutated file has a wrong checksum and is refused. So it is given the right one, and the length
//! of its tapes that its head says, where that can be: then what is behind is reached.

use super::FuzzTarget;
use crate::mutate::InputShape;
use control::recorded::RecordingHead;
use engine::tree::Registry;
use engine::units::{Duration, Instant};
use gateway::recording::{Around, Recording, checksum_of};

pub(super) const TARGET: FuzzTarget = FuzzTarget {
    name: "recordings",
    about: "recordings: read, done again and looked at, or refused; nothing ends that did not arrive, and again it is the same",
    shape: InputShape::Binary(24_000),
    tree: &[],
    make: || {
        let registry = Registry::builtin();
        Box::new(move |file| judge(file, &registry))
    },
};

/// Bytes before the head: its length is the last eight.
const FIXED: usize = 20;
const CHECKSUM: usize = 8;

/// The same with a head that fits what follows it, and the right checksum.
fn mended(file: &[u8]) -> Option<Vec<u8>> {
    let fixed = file.first_chunk::<FIXED>()?;
    let head = u64::from_le_bytes(*fixed.last_chunk()?);
    let rest = file[FIXED..].len().checked_sub(CHECKSUM)?;
    let head = usize::try_from(head).ok().filter(|head| *head <= rest)?;
    let (text, tape) = file[FIXED..FIXED + rest].split_at(head);
    let text = match serde_json::from_slice::<RecordingHead>(text) {
        Ok(mut head) => {
            fit(&mut head, tape.len() as u64);
            serde_json::to_vec(&head).ok()?
        }
        Err(_) => text.to_vec(),
    };
    let mut mended = fixed[..FIXED - 8].to_vec();
    mended.extend((text.len() as u64).to_le_bytes());
    mended.extend(text);
    mended.extend(tape);
    mended.extend(checksum_of(&mended).to_le_bytes());
    Some(mended)
}

/// Each tape is as long as it says, as far as there is anything; the last takes the rest.
fn fit(head: &mut RecordingHead, mut rest: u64) {
    head.stretches.truncate(4);
    let signalling = head.signalling.iter_mut().map(|said| &mut said.tape_bytes);
    let stretches = head.stretches.iter_mut();
    let mut tapes: Vec<&mut u64> = stretches
        .flat_map(|stretch| [&mut stretch.short_bytes, &mut stretch.tape_bytes])
        .chain(signalling)
        .collect();
    for tape in &mut tapes {
        **tape = rest.min(**tape);
        rest -= **tape;
    }
    if let Some(last) = tapes.last_mut() {
        **last += rest;
    }
}

fn judge(file: &[u8], registry: &Registry) {
    let _ = Recording::read(&mut &file[..]);
    let Some(file) = mended(file) else {
        return;
    };
    let Ok(recording) = Recording::read(&mut &file[..]) else {
        return;
    };
    let _ = recording.spans();
    let mut steps = 0;
    let again = recording.signalling_again(registry, &mut |_| steps += 1);
    let mut as_many = 0;
    let twice = recording.signalling_again(registry, &mut |_| as_many += 1);
    assert_eq!((steps, again), (as_many, twice), "RSVP, twice");
    for number in 0..recording.head.stretches.len() {
        stretch(&recording, number, registry);
    }
}

fn stretch(recording: &Recording, number: usize, registry: &Registry) {
    let _ = recording.headers_since(number);
    let mut left = 0u64;
    let whole = recording.again(number, registry, None, &mut |_| left += 1);
    if let Ok(done) = &whole {
        let totals = &done.totals;
        assert_eq!(totals.sent.packets, left, "what left was counted");
        let ended = totals.sent.packets + totals.dropped.packets;
        assert!(ended <= totals.offered.packets, "{ended} have ended");
    }
    for drops in [false, true] {
        let around = Around {
            since: Instant::START,
            until: Instant::NEVER - Duration::from_nanos(1),
            drops,
        };
        let looked = recording.again(number, registry, Some(around), &mut |_| {});
        if let (Ok(done), Ok(looked)) = (&whole, &looked)
            && looked.span == done.span
        {
            assert_eq!(looked.totals, done.totals, "the same, looked at");
            let arrived = |packet: &gateway::recording::PacketAgain| packet.arrived <= packet.ended;
            assert!(looked.packets.iter().all(arrived), "one ended before it arrived");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netio::replay::event::{Events, TapeEvent};
    use netio::replay::shortened::{ShortEvent, ShortEvents};
    use std::collections::BTreeSet;

    fn name(event: &TapeEvent<'_>) -> &'static str {
        match event {
            TapeEvent::Start { .. } => "start",
            TapeEvent::Link(_) => "link",
            TapeEvent::Held(_) => "held",
            TapeEvent::Arrival(_) => "arrival",
            TapeEvent::Asked(_) => "asked",
            TapeEvent::Switched { .. } => "switched",
            TapeEvent::Abandoned { .. } => "abandoned",
            TapeEvent::MovedAtOnce { .. } => "moved at once",
            TapeEvent::Moved(_) => "moved",
            TapeEvent::Changed { class: false, .. } => "changed",
            TapeEvent::Changed { class: true, .. } => "changed class",
        }
    }

    const ALL: [&str; 11] = [
        "abandoned",
        "arrival",
        "asked",
        "changed",
        "changed class",
        "held",
        "link",
        "moved",
        "moved at once",
        "start",
        "switched",
    ];

    /// What no input has, mutation seldom makes: each event of a tape is in one, as it is written
    /// and in short form. All of them are done again.
    #[test]
    fn every_event_of_a_tape_is_in_the_corpus() {
        let (mut whole, mut short) = (BTreeSet::new(), BTreeSet::new());
        let registry = Registry::builtin();
        for file in TARGET.corpus().expect("a corpus") {
            let recording = Recording::read(&mut &file[..]).expect("a recording");
            let stretches = recording.head.stretches.iter();
            let tapes: u64 = stretches.clone().map(|stretch| stretch.bytes()).sum();
            let mut rest = &file[file.len() - CHECKSUM - tapes as usize..];
            for (number, stretch) in stretches.enumerate() {
                let done = recording.again(number, &registry, None, &mut |_| {});
                done.expect("it is done again");
                let (older, after) = rest.split_at(stretch.short_bytes as usize);
                let (newer, after) = after.split_at(stretch.tape_bytes as usize);
                rest = after;
                for event in ShortEvents::new(older) {
                    match event.expect("an event") {
                        ShortEvent::Whole(event) => short.insert(name(&event)),
                        ShortEvent::Asked { .. } => short.insert("asked"),
                        ShortEvent::Check(_) => false,
                    };
                }
                whole.extend(Events::new(newer).map(|event| name(&event.expect("an event"))));
            }
        }
        assert_eq!(Vec::from_iter(whole), ALL, "as it is written");
        assert_eq!(Vec::from_iter(short), ALL, "in short form");
    }
}
