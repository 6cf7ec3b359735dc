//! What the machine itself costs, beside which a benchmark is read: a read of memory that depends
//! on the one before, a system call, a word to another processor and back. `cargo xtask bench` puts
//! it above the figures.
#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// Bytes over which the reads wander.
const SIZES: [(&str, usize); 4] = [
    ("32 kB", 32 << 10),
    ("512 kB", 512 << 10),
    ("8 MB", 8 << 20),
    ("256 MB", 256 << 20),
];
const LINE: usize = 64;
const ROUNDS: usize = 5;

/// Prints a table in Markdown; each figure is the least of a few rounds.
fn main() {
    println!("| limit | ns |\n|---|---:|");
    for (size, bytes) in SIZES {
        println!("| a dependent read within {size} | {:.1} |", reads(bytes));
    }
    println!("| a system call (getpid) | {:.0} |", system_calls());
    println!("| a word to another processor and back | {:.0} |", round_trips());
}

/// ns for each of `count` turns of the work, the least of the rounds.
fn least(count: usize, mut work: impl FnMut()) -> f64 {
    let round = |_| {
        let start = Instant::now();
        work();
        start.elapsed().as_nanos() as f64 / count as f64
    };
    (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min)
}

/// Follows a random cycle through all lines of the memory.
fn reads(bytes: usize) -> f64 {
    let lines = bytes / LINE;
    let words = LINE / size_of::<u32>();
    let mut order: Vec<u32> = (1..lines as u32).collect();
    let mut random = engine::random::Seed(1).stream();
    for i in (1..order.len()).rev() {
        order.swap(i, random.below(i as u64 + 1) as usize);
    }
    let mut next = vec![0u32; lines * words];
    let mut at = 0;
    for line in order {
        next[at * words] = line;
        at = line as usize;
    }
    let count = lines.clamp(1 << 18, 1 << 21);
    let mut at = 0;
    least(count, || {
        for _ in 0..count {
            at = next[at * words] as usize;
        }
        black_box(at);
    })
}

fn system_calls() -> f64 {
    const COUNT: usize = 100_000;
    let call = |_| {
        black_box(std::process::id());
    };
    least(COUNT, || (0..COUNT).for_each(call))
}

/// Two threads, of which each waits for the other's word.
fn round_trips() -> f64 {
    const COUNT: u32 = 20_000;
    let word = AtomicU32::new(0);
    let wait_for = |value| {
        while word.load(Ordering::Acquire) != value {
            std::hint::spin_loop();
        }
    };
    least(COUNT as usize, || {
        word.store(0, Ordering::Release);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for turn in 0..COUNT {
                    wait_for(2 * turn + 1);
                    word.store(2 * turn + 2, Ordering::Release);
                }
            });
            for turn in 0..COUNT {
                word.store(2 * turn + 1, Ordering::Release);
                wait_for(2 * turn + 2);
            }
        });
    })
}
