//! What a packet costs whose connection is watched: `count` takes the steps whose instructions
//! `cargo xtask instructions` counts, two rows of each (one warms up); without it they are timed in
//! turn, net of a row `generator` without a watch.
//! A step is a packet of downloads: of three, two are segments with data and one is their
//! acknowledgment, in the other direction. Headers are parsed outside, as the packet loop does for
//! its filters anyhow.
#![allow(clippy::print_stdout, reason = "a bench prints its numbers")]

use counted::counted;
use engine::header::Headers;
use engine::packet::ClassId;
use engine::random::Seed;
use engine::units::{Bytes, Duration, Instant};
use netio::experience::{Direction, ExperienceObserver, ExperienceOf, ExperienceWatch};
use netio::window_clamp::FrameSize;
use std::hint::black_box;
use std::sync::Arc;

const STEPS: u32 = 60_000;
/// How often each row is timed, in turn with the others.
const TURNS: usize = 21;
const HEADER: usize = 14 + 20 + 32;
const DATA: u32 = 1_448;

/// Named as the function of the engine's bench whose calls are counted.
mod counted {
    #[inline(never)]
    pub(crate) fn counted(steps: u32, mut step: impl FnMut()) {
        (0..steps).for_each(|_| step());
    }
}

/// Downloads of so many connections, turn by turn.
struct Downloads {
    connections: u32,
    step: u32,
    frame: Vec<u8>,
    observers: Option<[ExperienceObserver; 2]>,
}

impl Downloads {
    fn new(connections: u32, watched: bool) -> Self {
        let keeps = [Some(ExperienceOf::Classes), Some(ExperienceOf::Hosts)];
        let watch = Arc::new(ExperienceWatch::new(keeps, Seed(1)));
        let observer = |direction| ExperienceObserver::new(Arc::clone(&watch), direction);
        let both = || [Direction::There, Direction::Back].map(observer);
        let mut frame = vec![0; HEADER + DATA as usize];
        frame[12..18].copy_from_slice(&[8, 0, 0x45, 0, 5, 220]);
        (frame[22], frame[23]) = (64, 6);
        frame[46] = 0x80;
        frame[47] = 16;
        frame[54..58].copy_from_slice(&[1, 1, 8, 10]);
        Self {
            connections,
            step: 0,
            frame,
            observers: watched.then(both),
        }
    }

    fn step(&mut self) {
        let number = self.step;
        self.step += 1;
        let (exchange, part) = (number / 3, number % 3);
        let (connection, turn) = (exchange % self.connections, exchange / self.connections);
        let back = part < 2;
        // 12 us a packet; timestamps of 1 ms.
        let at = Duration::from_micros(12).times(number.into());
        let stamp = 7 + (at.nanos() / 1_000_000) as u32;
        let sent = (turn * 2 + part.min(1)) * DATA;
        let (host, server) = ((0x0a00_0000 | connection).to_be_bytes(), [192, 0, 2, 1]);
        let frame = &mut self.frame;
        let length = if back { HEADER + DATA as usize } else { HEADER };
        frame[16..18].copy_from_slice(&(length as u16 - 14).to_be_bytes());
        let (from, to) = if back { (server, host) } else { (host, server) };
        frame[26..30].copy_from_slice(&from);
        frame[30..34].copy_from_slice(&to);
        let ports = if back {
            [1, 187, 156, 64]
        } else {
            [156, 64, 1, 187]
        };
        frame[34..38].copy_from_slice(&ports);
        let (own, acknowledged) = if back { (sent, 1) } else { (1, sent + DATA) };
        frame[38..42].copy_from_slice(&own.to_be_bytes());
        frame[42..46].copy_from_slice(&acknowledged.to_be_bytes());
        frame[58..62].copy_from_slice(&stamp.to_be_bytes());
        frame[62..66].copy_from_slice(&stamp.to_be_bytes());
        let headers = black_box(Headers::parse(&frame[..length], 0));
        let size = FrameSize {
            len: Bytes::new(length as u64),
            segments: 1,
        };
        if let Some(observers) = &mut self.observers {
            let observer = &mut observers[usize::from(back)];
            observer.see(Instant::START + at, &headers, &frame[..length], ClassId(1), size);
        }
    }
}

fn main() {
    let count = std::env::args().any(|argument| argument == "count");
    let rows = [
        ("generator", 1, false),
        ("experience, downloads", 1, true),
        ("experience, downloads", 1_000, true),
    ];
    if count {
        for (what, connections, watched) in rows {
            let mut downloads = Downloads::new(connections, watched);
            (0..2).for_each(|_| counted(STEPS, || downloads.step()));
            println!("{STEPS} {what}, {connections}");
        }
        return;
    }
    let mut turns = rows.map(|_| Vec::new());
    for _ in 0..TURNS {
        for ((_, connections, watched), turns) in rows.iter().zip(&mut turns) {
            let mut downloads = Downloads::new(*connections, *watched);
            counted(STEPS, || downloads.step());
            let begin = std::time::Instant::now();
            counted(STEPS, || downloads.step());
            turns.push(begin.elapsed().as_nanos() as f64 / f64::from(STEPS));
        }
    }
    let [generator, watched @ ..] = turns;
    println!("| connections | ns a packet, median of {TURNS} | least | most |\n|---|---:|---:|---:|");
    for ((_, connections, _), turns) in rows[1..].iter().zip(&watched) {
        let mut net: Vec<f64> = turns.iter().zip(&generator).map(|(all, own)| all - own).collect();
        net.sort_by(f64::total_cmp);
        println!(
            "| {connections} | {:.1} | {:.1} | {:.1} |",
            net[TURNS / 2],
            net[0],
            net[TURNS - 1]
        );
    }
}
