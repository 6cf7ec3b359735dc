//! A soak: one router that runs for days of virtual time, among changes, reservations and faults,
//! with minutes in between in which nothing comes to pass. Each hour all comes to rest, with the
//! policy of the beginning and without neighbours: what the heap has then must not grow.
//!
//! Three hours; `SUIMON_SOAK=60` makes a day of every two, as `cargo xtask soak` does.

use super::kernel::locked;
use super::machine::Load;
use super::policies::{speaks_rsvp, yields};
use super::steps::{Kind, Run, Shown, Step, kinds};
use engine::random::{Rng, Seed};
use engine::units::{Duration, Instant};
use measure::confidence::StraightLine;
use std::io::{self, Write};
use std::path::Path;

/// In seconds.
const HOUR: u64 = 3_600;
/// Refreshes of RSVP are so many times as slow as in a short run.
const SLOWER: u64 = 10;
/// The longest rest between two steps, in milliseconds.
const REST: u64 = 120_000;
/// A rest is looked at so often, at first and later.
const AT_FIRST: Duration = Duration::from_millis(50);
const LATER: Duration = Duration::from_secs(1);
/// What the program does not live through.
const ENDS: [Kind; 3] = [Kind::Crash, Kind::CrashAtWrite, Kind::Restart];
/// What the heap may have grown by in all, in KiB, after the first quarter of the hours.
const GROWTH: f64 = 16.0;
/// So few hours tell nothing of a slope.
const FEW: usize = 24;

impl Run {
    /// Nobody sends anything for so long.
    fn rests(&mut self, span: Duration) -> Result<(), String> {
        self.router.world.machine().load = Load::None;
        let mut left = span;
        // What was dropped, and not sent, waits no more: that is seen by the counts.
        for _ in 0..10 {
            self.run(left.min(AT_FIRST))?;
            left -= left.min(AT_FIRST);
            self.router.accounts();
        }
        while left > Duration::ZERO {
            self.run(left.min(LATER))?;
            left -= left.min(LATER);
        }
        self.router.world.machine().load = Load::Low;
        Ok(())
    }

    /// Steps and rests, until then.
    fn goes_on(&mut self, until: Instant, kinds: &[(Kind, u64)], rng: &mut Rng) -> Result<(), String> {
        while self.router.world.now_here() < until {
            self.befalls(Step::drawn(rng, kinds))?;
            self.rests(Duration::from_millis(rng.below(REST)))?;
        }
        Ok(())
    }

    /// All comes to rest, as it was in the beginning.
    fn is_as_at_first(&mut self, text: &str) -> Result<(), String> {
        self.settles()?;
        // What a full disk left to be confirmed.
        self.befalls(Step {
            kind: Kind::Confirm,
            seed: 0,
        })?;
        self.applies(text)?;
        // What their nodes remember is not the router's.
        (0..2).for_each(|link| self.reservations.cut_off(link));
        self.rests(Duration::from_secs(2))?;
        let (wrong, held) = self.router.accounts();
        if held > 0 || !wrong.is_empty() {
            let wrong = wrong.join("; ");
            return Err(format!("{held} packets are held, with no traffic: {wrong}"));
        }
        self.trace.clear();
        locked(&self.router.world.machine().kernel).forgets()
    }
}

/// The heap at rest after each hour, in KiB beyond that at the start, and what came to pass; or
/// what was wrong, with the trace of the last hour.
fn soaked(seed: u64, hours: u64, file: &Path) -> Result<(Vec<f64>, Shown), (String, Vec<String>)> {
    super::rng::draw_from(Some(Seed(seed).fork("rng")));
    let mut run = Run::begin(seed, SLOWER, file);
    let text = std::fs::read_to_string(file).expect("the policy");
    let mut kinds = kinds(seed);
    kinds.retain(|(kind, _)| !ENDS.contains(kind));
    let mut rng = Seed(seed).fork("soak").stream();
    let mut done = run.started(Ok(()));
    let (begun, mut bytes, mut heap) = (run.router.world.now_here(), 0, Vec::new());
    for hour in 1..=hours {
        let until = begun + Duration::from_secs(hour * HOUR);
        let taken = allocation_counter::measure(|| {
            let ended = run.goes_on(until, &kinds, &mut rng);
            done = done.clone().and(ended).and_then(|()| run.is_as_at_first(&text));
        });
        if let Err(why) = done {
            return Err((format!("at {}: {why}", run.at()), run.trace));
        }
        bytes += taken.bytes_current;
        heap.push(bytes as f64 / 1_024.0);
        if hour.is_multiple_of(24) {
            // A campaign shows what comes by this way as it comes.
            let _ = writeln!(io::stdout(), "{} of {} days", hour / 24, hours.div_ceil(24));
        }
    }
    super::rng::draw_from(None);
    Ok((heap, run.so_far()))
}

#[test]
fn a_router_that_runs_for_days_does_not_grow() {
    let hours = super::asked("SUIMON_SOAK").map_or(3, |half_days| 12 * half_days);
    let seed = (0..).find(|seed| speaks_rsvp(*seed) && yields(*seed));
    let seed = seed.unwrap_or_default();
    let soaked = soaked(seed, hours, &super::policy_file("soak"));
    let (heap, shown) =
        soaked.unwrap_or_else(|(why, trace)| panic!("seed {seed}, {why}\n{}", trace.join("\n")));
    let later = &heap[heap.len() / 4..];
    let line = StraightLine::through(later);
    let least = later.iter().copied().fold(f64::INFINITY, f64::min);
    let most = later.iter().copied().fold(0.0, f64::max);
    let steps: u64 = shown.kinds.values().sum();
    eprintln!(
        "soak: {hours} virtual hours of one program: {steps} steps, of which {} requests were done and {} refused; \
         {} frames sent, {} windows lowered, {} reservations told to be in force, {} hosts cut off",
        shown.done,
        shown.refused,
        shown.frames.sent,
        shown.frames.lowered,
        shown.reserved.reserved,
        shown.kinds.get(&Kind::NeighbourCrash).copied().unwrap_or(0)
    );
    eprintln!(
        "soak: its heap at rest after each: {:.0} KiB more than at the start ({least:.0} to {most:.0}), {:+.4} ± {:.4} \
         KiB an hour (95 %) over the last {}",
        line.mean, line.slope, line.within, line.count
    );
    if heap.len() >= FEW {
        assert!(line.sure_growth() <= GROWTH, "it grows: {heap:?}");
        assert!(shown.reserved.reserved > 100 && shown.done > 100, "{shown:?}");
    }
}
