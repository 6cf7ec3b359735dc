//! What a campaign of faults says, and how it is judged: each sort of fault by its count, its
//! median and its worst.

use super::load::Silence;
use measure::confidence::StraightLine;
use std::collections::BTreeMap;
use std::time::Duration;

/// Without traffic at most, after a fault.
const OUTAGE: Duration = Duration::from_millis(100);
/// Until it is shaped again at most, after the next start or the mending.
const SHAPED: Duration = Duration::from_secs(1);
/// What a process may grow by over all of its faults, in KiB, by the line that fits best.
const GROWTH: f64 = 2_048.0;

/// What traffic felt of a fault.
#[derive(Clone, Copy, Debug)]
pub struct Felt {
    pub silence: Silence,
    pub shaped: Duration,
}

impl Felt {
    fn is_in_time(&self) -> bool {
        self.silence.sent <= OUTAGE && self.shaped <= SHAPED
    }
}

/// All of a campaign.
pub struct Told {
    what: String,
    felt: BTreeMap<&'static str, Vec<Felt>>,
}

impl Told {
    pub fn new(what: String) -> Self {
        eprintln!("faults: {what}");
        Self {
            what,
            felt: BTreeMap::new(),
        }
    }

    pub fn of(&mut self, fault: &'static str, felt: Felt) {
        if !felt.is_in_time() {
            eprintln!("late: {fault}: {felt:?}");
        }
        self.felt.entry(fault).or_default().push(felt);
    }

    /// A process had these descriptors all the while, and this memory after each fault.
    pub fn held(&mut self, kind: &str, descriptors: usize, memory: &[f64]) {
        // Memory that is used once stays: the first part tells nothing of what grows.
        let memory = &memory[memory.len() / 4..];
        let line = StraightLine::through(memory);
        eprintln!(
            "faults: {kind}: {descriptors} descriptors after each failure; {:.0} KiB of its own, {:+.2} ± {:.2} KiB a failure (95 %) over the last {}",
            line.mean, line.slope, line.within, line.count
        );
        assert!(line.sure_growth() <= GROWTH, "it grows: {memory:?}");
    }

    /// Tells it. All were in time; in CI, where others use the machine too, most.
    pub fn judge(&self, all: bool) {
        let (mut count, mut late) = (0, 0);
        for (fault, felt) in &self.felt {
            let of = |key: fn(&Felt) -> Duration| {
                let mut times: Vec<Duration> = felt.iter().map(key).collect();
                times.sort_unstable();
                [times[times.len() / 2], times[times.len() - 1]].map(|time| time.as_millis())
            };
            let [median, worst] = of(|felt| felt.silence.sent);
            let [_, by_clock] = of(|felt| felt.silence.by_clock);
            let shaped = of(|felt| felt.shaped);
            eprintln!(
                "faults: {fault}: {} times; without traffic {median} ms at the median, {worst} ms at most ({by_clock} with what the machine stood still); shaped again after {} ms at the median, {} ms at most",
                felt.len(),
                shaped[0],
                shaped[1]
            );
            count += felt.len();
            late += felt.iter().filter(|felt| !felt.is_in_time()).count();
        }
        eprintln!(
            "faults: {}: {count} in all; later than {OUTAGE:?} or {SHAPED:?}: {late}",
            self.what
        );
        let most = if all { 0 } else { count / 5 };
        assert!(late <= most, "{late} of {count} were late");
    }
}
