//! Turns: where shares are below two segments a round trip, only some connections send at a time.
//! Over short paths two segments a round trip are many times a share: there a turn ends when its
//! credit does, and it is looked when that may be.

use super::flow_controller::FlowController;
use engine::units::{Duration, Instant};

/// How long a turn lasts, unless the path is short.
const TURN: Duration = Duration::from_millis(500);
/// The least time until it is looked whether a turn is over, in seconds.
const LEAST_LOOK: f64 = 0.005;
/// The credit of a connection at most, in seconds of its smallest window's rate.
const MAX_CREDIT: f64 = 20.0;

/// Whether at least one connection must send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LeastOne {
    /// Yes: all members together must not stop.
    Needed,
    /// No: caps decide.
    NotNeeded,
}

/// A connection that may take part in turns.
#[derive(Debug)]
pub(super) struct Candidate<'a> {
    pub(super) flow: &'a mut FlowController,
    /// Its target rate.
    pub(super) target: f64,
    /// Its member's weight.
    pub(super) weight: f64,
}

impl Candidate<'_> {
    /// Whether its target is too small for a window.
    fn is_small(&self) -> bool {
        self.target < self.flow.min_window_rate()
    }
}

/// Schedules the turns by credit.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct TurnScheduler {
    next: Instant,
    /// After so many seconds the credit of one that sends, and need not, will be used up.
    used_up: Option<f64>,
}

impl TurnScheduler {
    /// Which connections send now. All whose target is large enough for a window do. Of the others,
    /// as many as their targets together carry, those with the most credit first. One without
    /// credit sends only if one must and no other does.
    pub(super) fn go(
        &mut self,
        now: Instant,
        seconds: f64,
        all: &mut [Candidate<'_>],
        least_one: LeastOne,
    ) -> Vec<bool> {
        let small: Vec<usize> = (0..all.len()).filter(|&i| all[i].is_small()).collect();
        let mut goes: Vec<bool> = (0..all.len()).map(|i| !small.contains(&i)).collect();
        let sum = |what: &dyn Fn(&Candidate<'_>) -> f64| small.iter().map(|&i| what(&all[i])).sum::<f64>();
        let unit = sum(&|one| one.flow.min_window_rate()) / small.len().max(1) as f64;
        let (together, weight) = (sum(&|one| one.target), sum(&|one| one.weight));
        let least = usize::from(least_one == LeastOne::Needed && small.len() == all.len());
        let places = ((together / unit.max(1.0)).ceil() as usize).max(least);
        for &i in &small {
            let one = &mut all[i];
            let due = if least == 1 && together < unit {
                unit * one.weight / weight
            } else {
                one.target
            };
            let unit = one.flow.min_window_rate();
            let credit = one.flow.credit + (due - one.flow.rate) * seconds;
            // Its debt is one turn at most: what it carried before it took part does not count.
            one.flow.credit = credit.clamp(-TURN.as_secs_f64() * unit, MAX_CREDIT * unit);
        }
        if now >= self.next {
            self.next = now + TURN;
            small.iter().for_each(|&i| all[i].flow.turn = false);
        }
        // Within a turn those that send go on, and new places are filled at once.
        let mut order = small;
        order.sort_by(|&a, &b| {
            let (one, other) = (&all[a].flow, &all[b].flow);
            other
                .turn
                .cmp(&one.turn)
                .then(other.credit.total_cmp(&one.credit))
                .then(a.cmp(&b))
        });
        self.used_up = None;
        for (n, i) in order.into_iter().enumerate() {
            let flow = &mut all[i].flow;
            let quick = flow.is_quick();
            flow.turn = n < least || (n < places && (flow.turn && !quick || flow.credit > 0.0));
            goes[i] = flow.turn;
            if flow.turn && quick && n >= least {
                let used_up = flow.credit / flow.min_window_rate();
                self.used_up = Some(self.used_up.map_or(used_up, |other| other.min(used_up)));
            }
        }
        goes
    }

    /// When to look again, if that is before so long.
    pub(super) fn looks_within(&self, interval: Duration) -> Duration {
        match self.used_up {
            Some(seconds) => {
                Duration::from_nanos((seconds.clamp(LEAST_LOOK, interval.as_secs_f64()) * 1e9) as u64)
            }
            None => interval,
        }
    }
}
