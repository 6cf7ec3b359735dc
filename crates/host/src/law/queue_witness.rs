//! The third witness: a queue that stands while the link carries less than its rate.
//!
//! What the interface counts and what the rate should be explain a queue only if the two agree: a
//! queue that members and counted traffic fill stands at the full rate. A queue at less means one
//! of two things, and a trial tells them apart. Windows are lowered to what would leave half of
//! the tolerated queue, were members alone.
//!
//! - The link carries as much as before, and the queue shrinks: its rate is what it carries. It was
//!   stated too high or has fallen, or other hosts behind the line take a fixed part of it.
//! - It carries less: the room was taken. Other hosts behind the line, whose traffic the interface
//!   does not count, want more. Members then keep the smallest window until the queue has gone.
//!   They return by seven tenths in a round trip; a queue on the way is another trial. Soon after
//!   members have yielded, a trial finds the link full only from half of its rate on: those that
//!   have just returned carry little, and carry on at that beside others, too.
//!
//! A flow of another host that has lost data in its slow start grows slower than members return,
//! so that it gets less for some seconds. In a buffer of a quarter of a BDP, or of a few
//! milliseconds, its queue is within the tolerance: see `overflow_witness`.
//!
//! What a queue is told by (see `flow_controller`):
//!
//! - Jitter is none: the tolerated delay follows how much RTTs go to and fro from tick to tick. A
//!   queue grows, and drains, over many ticks.
//! - RTTs are smoothed. When a queue has gone, members that yield have few samples, and the
//!   smoothed RTT shows it for seconds: so the present RTT is told from the change.
//! - Where RTTs vary, the queue has gone when they are as they usually are.

use super::flow_controller::{FlowController, LEAST};

/// A queue stands from this many seconds and this many RTTs on; beside counted traffic, whose
/// bursts make queues too, from more.
const STANDS_FOR: f64 = 0.1;
const STANDS_BESIDE_OTHERS: f64 = 0.6;
const STANDS_RTTS: f64 = 2.0;
/// A trial is judged this many seconds and this many RTTs after the windows were lowered.
const TRIAL_TIME: f64 = 0.2;
const TRIAL_RTTS: f64 = 2.0;
/// What the trial leaves of what was carried at least, if the link's rate is what it carries; and
/// the least part of the load that explains a queue, soon after members have yielded.
const CARRIES_ON: f64 = 0.95;
const TELLS: f64 = 0.5;
/// The queue has gone after this many seconds and this many RTTs without it. Each return in vain
/// doubles the seconds, up to a maximum, for this many seconds.
const GONE_FOR: f64 = 0.1;
const GONE_MAX: f64 = 0.4;
const GONE_RTTS: f64 = 1.0;
const IN_VAIN: f64 = 5.0;
/// So many times in succession the queue stood no longer than this many seconds and RTTs while
/// members yielded: nobody else fills it. A radio link whose delay grows with what it carries looks
/// so. The witness then keeps silent for this many seconds.
const FALSE_ALARMS: u32 = 4;
const SHORT: f64 = 0.5;
const SHORT_RTTS: f64 = 5.0;
const SILENT: f64 = 30.0;
/// Windows return by this factor in an RTT.
const RETURN: f64 = 1.7;

/// The link's load in a tick.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct LinkLoad {
    /// What the link carries, and what it carried in the last few ticks; each over a round trip or
    /// more.
    pub(super) total: f64,
    pub(super) recent: f64,
    /// A queue is explained while it carries this.
    pub(super) full: f64,
    /// The longest RTT, and the time since the last tick, in seconds.
    pub(super) round_trip: f64,
    pub(super) seconds: f64,
    /// Windows were not changed for a while: RTTs and rates are those of the present windows.
    pub(super) settled: bool,
    /// There is counted traffic of others.
    pub(super) beside_others: bool,
    /// Seconds since data were lost.
    pub(super) unlost_for: f64,
}

/// What the witness is doing.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
enum WitnessState {
    /// No queue that has to be explained.
    #[default]
    Watches,
    /// Windows were lowered this many seconds ago, when the link carried `total`.
    Trial { total: f64, seconds: f64 },
    /// Traffic that is not counted takes part of the link.
    Yields,
}

/// The witness's state.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct QueueWitness {
    state: WitnessState,
    /// Seconds without a queue after which members return, and seconds since they last yielded.
    gone_for: f64,
    since: f64,
    /// For how long the queue stood while members yielded, in seconds, how often in succession it
    /// was short, and for how long the witness keeps silent.
    queue_stood: f64,
    short_yields: u32,
    silent: f64,
    /// The rate at which the link was last seen full, in bits per second.
    full_at: Option<f64>,
}

impl Default for QueueWitness {
    fn default() -> Self {
        Self {
            state: WitnessState::Watches,
            gone_for: GONE_FOR,
            since: IN_VAIN,
            queue_stood: 0.0,
            short_yields: 0,
            silent: 0.0,
            full_at: None,
        }
    }
}

impl QueueWitness {
    /// Whether members yield to traffic that is not counted.
    pub(super) fn yields(&self) -> bool {
        self.state == WitnessState::Yields
    }

    /// Whether a queue is being explained: no time to raise windows.
    pub(super) fn is_busy(&self) -> bool {
        self.state != WitnessState::Watches
    }

    /// The rate at which a trial has just found the link full.
    pub(super) fn take_full_at(&mut self) -> Option<f64> {
        self.full_at.take()
    }

    /// Takes a tick in and moves the ceilings of the connections.
    pub(super) fn watch<'a>(&mut self, flows: impl Iterator<Item = &'a mut FlowController>, link: LinkLoad) {
        let mut flows: Vec<&mut FlowController> = flows.collect();
        let seconds = link.seconds;
        let explained = link.recent >= link.full || !link.settled;
        for flow in &mut flows {
            flow.watch_queue(explained, link.beside_others, seconds);
        }
        self.since += seconds;
        self.silent = (self.silent - seconds).max(0.0);
        if self.since > IN_VAIN {
            (self.gone_for, self.short_yields) = (GONE_FOR, 0);
        }
        if self.silent > 0.0 {
            return;
        }
        self.state = match self.state {
            WitnessState::Watches if stands(flows.iter().map(|flow| &**flow), &link) => {
                begin_trial(&mut flows, &link)
            }
            WitnessState::Watches => WitnessState::Watches,
            WitnessState::Trial { total, seconds: past }
                if past + seconds < TRIAL_TIME + TRIAL_RTTS * link.round_trip =>
            {
                WitnessState::Trial {
                    total,
                    seconds: past + seconds,
                }
            }
            WitnessState::Trial { total: before, .. } => self.judge(&mut flows, before, &link),
            WitnessState::Yields => self.give_way(&mut flows, explained, link),
        };
    }

    fn judge(&mut self, flows: &mut [&mut FlowController], before: f64, link: &LinkLoad) -> WitnessState {
        let tells = self.since >= IN_VAIN || link.total >= TELLS * link.full;
        if tells && link.total >= CARRIES_ON * before {
            self.full_at = Some(link.total);
            flows.iter_mut().for_each(|flow| flow.lift_ceiling());
            return WitnessState::Watches;
        }
        if self.is_false_alarm(flows, link) {
            flows.iter_mut().for_each(|flow| flow.lift_ceiling());
            return WitnessState::Watches;
        }
        for flow in flows.iter_mut().filter(|flow| flow.ceiling.is_finite()) {
            flow.ceiling = LEAST * flow.mss;
        }
        if self.since < IN_VAIN {
            self.gone_for = (2.0 * self.gone_for).min(GONE_MAX);
        }
        (self.since, self.queue_stood) = (0.0, 0.0);
        WitnessState::Yields
    }

    /// Whether the queue went each time at once when members yielded, so that nobody else fills it.
    /// Where data are lost, another one may have halved its rate.
    fn is_false_alarm(&mut self, flows: &[&mut FlowController], link: &LinkLoad) -> bool {
        let rtt = flows.iter().map(|flow| flow.base_rtt()).fold(0.0, f64::max);
        let again = self.since < IN_VAIN;
        let short = self.queue_stood <= SHORT + SHORT_RTTS * rtt && link.unlost_for > IN_VAIN;
        self.short_yields = if again && short { self.short_yields + 1 } else { 0 };
        if self.short_yields < FALSE_ALARMS {
            return false;
        }
        (self.short_yields, self.silent) = (0, SILENT);
        true
    }

    /// Members keep the smallest window while the queue stands, and return after it.
    fn give_way(
        &mut self,
        flows: &mut [&mut FlowController],
        explained: bool,
        link: LinkLoad,
    ) -> WitnessState {
        self.since = 0.0;
        if flows.iter().any(|flow| flow.unqueued_for == 0.0) {
            self.queue_stood += link.seconds;
        }
        if explained {
            flows.iter_mut().for_each(|flow| flow.lift_ceiling());
            return WitnessState::Watches;
        }
        let returns = |flow: &&FlowController| flow.ceiling > 2.0 * LEAST * flow.mss;
        if stands(flows.iter().map(|flow| &**flow).filter(returns), &link) {
            return begin_trial(flows, &link);
        }
        for flow in flows.iter_mut().filter(|flow| flow.ceiling.is_finite()) {
            if flow.unqueued_for >= self.gone_for + GONE_RTTS * flow.base_rtt() {
                flow.ceiling *= RETURN.powf((link.seconds / flow.latest_rtt()).min(4.0));
                if flow.ceiling >= 2.0 * flow.wanted {
                    flow.lift_ceiling();
                }
            }
        }
        match flows.iter().any(|flow| flow.ceiling.is_finite()) {
            true => WitnessState::Yields,
            false => WitnessState::Watches,
        }
    }
}

/// Whether one of these connections has seen a queue for long enough.
fn stands<'a>(mut flows: impl Iterator<Item = &'a FlowController>, link: &LinkLoad) -> bool {
    let least = match link.beside_others {
        true => STANDS_BESIDE_OTHERS,
        false => STANDS_FOR,
    };
    flows.any(|flow| flow.queued_for >= least + STANDS_RTTS * flow.base_rtt())
}

/// Lowers the windows to what would leave half of the tolerated queue.
fn begin_trial(flows: &mut [&mut FlowController], link: &LinkLoad) -> WitnessState {
    for flow in flows.iter_mut().filter(|flow| flow.queued_for > 0.0) {
        let ceiling = flow.in_flight_with_less_queue().min(flow.ceiling);
        flow.ceiling = ceiling.max(LEAST * flow.mss);
    }
    // A line that has just become slower carried more a few ticks ago, and members that return
    // carried less.
    WitnessState::Trial {
        total: link.recent,
        seconds: 0.0,
    }
}
