//! The default control law: members use what competing traffic leaves, divided by weight.
//!
//! It is a lower-than-best-effort ("scavenger") law in the sense of RFC 6297, with two differences
//! from LEDBAT and its kin: it runs at the receiver, on advertised windows, and it reacts to
//! *other* traffic and not to queueing delay. The measurements behind it are in
//! docs/measurements/windows.md, the choice in docs/decisions/laws-of-windows.md.
//!
//! Let B be the link's rate, and H the rate of other traffic: what the link carries less what
//! members carry. The law gives all members together the rate T:
//!
//! | state | until | T |
//! |---|---|---|
//! | free | H appears (`ONSETS`) | B, under the aggregate window cap |
//! | onset | H no longer grows; 0.15 to 0.5 s | 2 % of B; long paths: at least 0.95 B − 3 H |
//! | active | H is below 4 % of B for 0.15 s | 0.96 B − H − m, at least 2 % of B |
//!
//! - *Onset.* Members stop almost completely, so that the slow start of the new flow finds an empty
//!   queue and runs to its end. Over long paths, where a slow start takes a second, they leave it
//!   what it will have in one and a half round trips.
//! - *Margin m.* 4 to 15 % of B while the link is full, decaying while it is not. Other traffic
//!   that can use more grows into it; traffic that cannot leaves the rest to members.
//! - *Reserve.* Members keep 2 % of B for senders like BBR. BBR raises its rate by a quarter every
//!   one and a half round trips, from the rate that it had, whatever the window allows. From 2 %
//!   of 100 Mbit/s it is back within half a second.
//! - *Aggregate window cap.* While the link is free, the windows of all members together are capped
//!   near one bandwidth-delay product (BDP), where the link is just full (`window_cap`). The cap
//!   decides how soon a clamp takes effect, and how much of the link's buffer a new flow finds
//!   empty. An RTT that was measured too long or too short costs no throughput. Windows that
//!   overflow a buffer are lowered; windows that are just full are raised every few seconds for a
//!   moment, since they would hide that the line carries more.
//! - *Losses* tell the rate where a buffer is too shallow for a queue that RTTs show
//!   (`loss_witness`). Beside others, a loss halves what members take, since others need the room
//!   of their saw teeth. Losses of a link that was once full without any, and now carries less,
//!   tell of hosts that are not counted (`overflow_witness`).
//! - *B.* A stated rate is a hint: the estimate ([`super::rate_estimate`]) precedes it from the
//!   first evidence on. A queue that stands while the link carries less than B is judged by a
//!   trial: B is wrong, or hosts that are not counted take part of the link
//!   (`queue_witness`).
//! - *The other direction.* Its queue is in RTTs, too, and is none that members or others make here
//!   (`other_way`). Connections that carry data that way are left out (`this_way`): here they have
//!   acknowledgments alone, whose rate comes off T.
//! - *Division.* T is divided by weight, with floors and caps ([`super::share`]). What one member
//!   does not use, the others get. A flow's window is its rate times its minimum RTT, corrected by
//!   what is measured ([`super::flow_controller`]). Shares below two segments a round trip are
//!   served in turns.
//! - *Uploads* are paced at their share. They pass the interface before the line: what the line
//!   carries of them is what was acknowledged, and other traffic is what the interface counts
//!   beyond what they sent. Their RTTs contain the wait for the second of two segments, which are
//!   acknowledged together.
//! - *Ticks.* The law asks for more frequent ticks while a new flow would find the link full: the
//!   third round of a slow start decides how it ends.
//!
//! Where B is unknown, [`super::delay_law`] applies.
//!
//! # Constants
//!
//! Fractions are of B; a tick is the usual interval of 50 ms. The second line of each constant is
//! the effect of a value that is too small / too large, and where the value comes from:
//!
//! - measured: with kernels' TCP, see docs/measurements/windows.md;
//! - model: a test of the closed loop, crates/host/tests/laws.rs, covers the effect;
//! - chosen: by reasoning; the sensitivity was not measured.
//!
//! ```text
//! ONSETS              -         other traffic has appeared: rate over a time, and bits
//!     stray packets start an onset / a slow start ends early in a full queue; model
//! AMONG_LOSSES        0.25 B    the least rate of an onset within LONG_MEAN of members' losses
//!     what they receive twice starts onsets / slow starts meet members' data; measured
//! PRESENT             0.04 B    other traffic below this counts as none
//!     counters that err by 2 % (measured) start onsets / slow flows are not yielded to; chosen
//! QUIET_TIME          0.15 s    this long below PRESENT, other traffic has ended
//!     each gap of a burst ends the active state / members return late; model
//! SHORT_MEAN          0.1 s     the mean that shows growth: two ticks
//!     noise of single ticks / slow reaction; chosen
//! LONG_MEAN           0.2 s     the mean that shows level: four ticks
//!     as SHORT_MEAN; chosen
//! LINK_MEAN           0.4 s     the mean from which B is estimated
//!     noise of counters enters B / slow link changes are missed; chosen
//! ONSET_MIN           0.15 s    an onset lasts at least this
//!     the slow start meets members' data / each burst stops members longer; model
//! ONSET_MAX           0.5 s     an onset lasts at most this
//!     slow starts over long RTTs end early / members stop longer; chosen
//! ONSET_GROWTH        1.1       other traffic still grows: ratio from one SHORT_MEAN to the next
//!     noise prolongs the onset / the onset ends during slow start; chosen
//! FULL                0.98 B    the link is full
//!     the cap decays below need / a counter that reads low is never full; measured
//! FULL_OF_PACED       0.94 B    the same of uploads, whose paces exceed TARGET_LOAD by nothing
//!     others grow and members make no room / capacity is wasted; model, measured
//! NEARLY_FULL         0.9 B     a new flow finds little room: ticks are frequent
//!     needless ticks / HyStart ends new flows early; chosen
//! TARGET_LOAD         0.96 B    aimed-at load while there is other traffic
//!     capacity is wasted / a standing queue hides that others want more; model
//! RESERVE             0.02 B    members keep this, however much others want
//!     BBR returns late / others get less (2 % costs 1.3 % at 100 Mbit/s); measured
//! MARGIN_MIN, _MAX    0.04, 0.15 B    bounds of the margin m while the link is full
//!     others cannot grow / capacity is wasted; model
//! MARGIN_DECAY        0.9       of m remains after a tick in which the link is not full
//!     others that pause lose their room / capacity is wasted; chosen
//! LONG_RTT            40 ms     from this RTT on members yield as the new flow grows, not at once
//!     queues within slow starts / the link is idle for a second; model
//! ONSET_LOAD, _ROOM   0.95, 3   members keep 0.95 B less three times what others carry
//!     the link is idle / slow starts meet a queue; model
//! MUCH                0.1 B     the smallest window of all is no less: then even that has turns
//!     senders stand still / others get less; measured
//! RESTRAINT           0.5       what a loss beside others leaves of what members carry
//!     others lose again and again / capacity is wasted; model
//! RESTRAINT_GROWTH    0.1 B/s   what they may take more after it
//!     capacity is wasted / others lose again; model
//! EXPLAINS_QUEUE      0.9 B     a queue at this load is that of members and counted traffic
//!     uncounted hosts wait / bursts and losses start trials; model
//! CONTRADICTS         1.25      the user is told of a stated rate that is wrong by this ratio
//!     nominal rates are called wrong / a wrong rate is not reported; chosen
//! PACE_QUEUED_MIN     0.98 B    least upload pace while a queue stands
//!     uploads lose throughput / the queue does not drain; model
//! PACE_MIN            1.02 B    least upload pace without a queue
//!     a rate stated too low limits uploads / a queue builds fast; model
//! PACE_DECAY, _GROWTH 0.94, 1.01      change of the upload pace in a tick, with and without queue
//!     oscillation / slow adaptation (decay), slow adaptation / oscillation (growth); chosen
//! PACE_SEGMENT_TIME   0.2 s     least upload pace while yielding: one segment in this time
//!     yields too little / the kernel timer for the next segment is far away; chosen
//! ```

use super::cap_budget::CapBudgets;
use super::delay_law::DelayLaw;
use super::flow_controller::{FlowController, intervals, pace, takes_turns};
use super::loss_witness::LossWitness;
use super::other_way::OtherWay;
use super::overflow_witness::{OverflowWitness, OverflowingLink};
use super::queue_witness::{LinkLoad, QueueWitness};
use super::rate_estimate::{LinkEvidence, RateEstimate};
use super::rate_meter::{RateMeter, TickRates};
use super::share::{ShareClaim, divide};
use super::this_way::ThisWay;
use super::turns::{Candidate, LeastOne, TurnScheduler};
use super::window_cap::{FreeLink, WindowCap};
use super::{INTERVAL, Law, WATCHFUL};
use crate::order::{FlowLimit, LimitOrder, LimitReason};
use crate::tick::{Bottleneck, ConnectionId, DataDirection, FlowSample, LawInput, Member};
use engine::units::{Bandwidth, Duration};
use std::collections::BTreeMap;

/// Evidence that other traffic has appeared.
struct OnsetEvidence {
    /// Its mean over this many seconds
    over: f64,
    /// is above this fraction of B,
    fraction: f64,
    /// and it has carried this many bits: a few packets are no traffic, and the error of one tick
    /// over many connections may be reversed by the next.
    bits: f64,
}

/// Any of these is an onset. A slow start begins with 10 segments, then 20: 9 % of 100 Mbit/s over
/// 40 ms.
const ONSETS: [OnsetEvidence; 4] = [
    OnsetEvidence {
        over: 0.02,
        fraction: 0.12,
        bits: 40_000.0,
    },
    OnsetEvidence {
        over: 0.04,
        fraction: 0.05,
        bits: 40_000.0,
    },
    OnsetEvidence {
        over: SHORT_MEAN,
        fraction: PRESENT,
        bits: 40_000.0,
    },
    OnsetEvidence {
        over: 0.4,
        fraction: PRESENT,
        bits: 0.0,
    },
];
const AMONG_LOSSES: f64 = 0.25;
const PRESENT: f64 = 0.04;
const QUIET_TIME: f64 = 0.15;

const SHORT_MEAN: f64 = 0.1;
const LONG_MEAN: f64 = 0.2;
const LINK_MEAN: f64 = 0.4;

const ONSET_MIN: f64 = 0.15;
const ONSET_MAX: f64 = 0.5;
const ONSET_GROWTH: f64 = 1.1;

const FULL: f64 = 0.98;
const FULL_OF_PACED: f64 = 0.94;
const NEARLY_FULL: f64 = 0.9;
const TARGET_LOAD: f64 = 0.96;
const RESERVE: f64 = 0.02;

/// A queue at this load or more is explained: members and counted traffic fill it.
const EXPLAINS_QUEUE: f64 = 0.9;

const MARGIN_MIN: f64 = 0.04;
const MARGIN_MAX: f64 = 0.15;
const MARGIN_DECAY: f64 = 0.9;

const LONG_RTT: f64 = 0.04;
const ONSET_LOAD: f64 = 0.95;
const ONSET_ROOM: f64 = 3.0;

const MUCH: f64 = 0.1;

const RESTRAINT: f64 = 0.5;
const RESTRAINT_GROWTH: f64 = 0.1;

const PACE_QUEUED_MIN: f64 = 0.98;
const PACE_MIN: f64 = 1.02;
/// The pace factor without a queue grows up to this, more than any error of a stated rate.
const PACE_MAX: f64 = 8.0;
const PACE_DECAY: f64 = 0.94;
const PACE_GROWTH: f64 = 1.01;
const PACE_SEGMENT_TIME: f64 = 0.2;

/// A measured rate contradicts a stated one from this ratio on.
const CONTRADICTS: f64 = 1.25;

/// More than any link's rate, in bits per second.
const UNLIMITED: f64 = 1e15;

/// What the law is doing; see the head.
#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    /// For this many seconds.
    Free {
        seconds: f64,
    },
    Onset {
        seconds: f64,
    },
    Active {
        seconds: f64,
    },
}

/// The target rates of the connections, in the sequence of the tick.
struct Shares {
    targets: Vec<f64>,
    /// Whether its member's cap limits it.
    capped: Vec<bool>,
}

impl Shares {
    /// The targets of capped connections; infinite for the others.
    fn of_capped(&self) -> Vec<f64> {
        let target = |(&target, &capped): (&f64, &bool)| if capped { target } else { f64::INFINITY };
        self.targets.iter().zip(&self.capped).map(target).collect()
    }

    /// The connections that no cap limits, with their targets.
    fn uncapped<'a>(&'a self, tick: &'a LawInput<'_>) -> impl Iterator<Item = (&'a FlowSample, f64)> + 'a {
        let all = tick.flows.iter().zip(&self.targets).zip(&self.capped);
        all.filter_map(|((sample, &target), &capped)| (!capped).then_some((sample, target)))
    }
}

/// The law's state.
#[derive(Clone, Debug)]
pub struct Scavenger {
    direction: DataDirection,
    meter: RateMeter,
    estimate: RateEstimate,
    witness: QueueWitness,
    this_way: ThisWay,
    /// The mean rate of acknowledgments, of data of the other direction.
    acknowledgments: f64,
    other_way: OtherWay,
    state: State,
    /// Seconds since a connection began or ended.
    same_flows: f64,
    /// Seconds without other traffic.
    quiet: f64,
    /// The margin, as a fraction of B.
    margin: f64,
    /// What members take beside others at most after losses, as a fraction of B.
    restraint: f64,
    window_cap: WindowCap,
    losses: LossWitness,
    overflow: OverflowWitness,
    /// The pace of uploads on a free link, as a fraction of their share.
    pace_factor: f64,
    watchful: bool,
    controllers: BTreeMap<ConnectionId, FlowController>,
    last_targets: BTreeMap<ConnectionId, f64>,
    turns: TurnScheduler,
    delay_law: DelayLaw,
    orders: BTreeMap<ConnectionId, LimitOrder>,
    budgets: CapBudgets,
    /// The members, with the caps that apply now.
    members: Vec<Member>,
}

impl Scavenger {
    /// For this direction.
    pub fn new(direction: DataDirection) -> Self {
        Self {
            direction,
            meter: RateMeter::new(direction),
            estimate: RateEstimate::default(),
            witness: QueueWitness::default(),
            this_way: ThisWay::new(direction),
            acknowledgments: 0.0,
            other_way: OtherWay::new(direction),
            state: State::Free { seconds: 0.0 },
            same_flows: 0.0,
            quiet: 0.0,
            margin: MARGIN_MAX,
            restraint: 1.0,
            window_cap: WindowCap::default(),
            losses: LossWitness::default(),
            overflow: OverflowWitness::default(),
            pace_factor: PACE_MIN,
            watchful: false,
            controllers: BTreeMap::new(),
            last_targets: BTreeMap::new(),
            turns: TurnScheduler::default(),
            delay_law: DelayLaw::default(),
            orders: BTreeMap::new(),
            budgets: CapBudgets::default(),
            members: Vec::new(),
        }
    }

    /// The link's rate that the law works with; none while it works by delay alone. A stated rate
    /// is a hint: what was seen precedes it, a queue below it or a flow above it.
    pub fn rate(&self, bottleneck: Bottleneck) -> Option<Bandwidth> {
        let bits = |rate: f64| Bandwidth::bits_per_sec(rate as u64);
        let estimated = self.estimate.rate().map(bits);
        match bottleneck {
            Bottleneck::Stated(stated) => {
                let highest = bits(self.estimate.highest());
                Some(estimated.unwrap_or(stated.max(highest)))
            }
            Bottleneck::Enforced(rate) => Some(rate),
            Bottleneck::Auto => estimated,
            Bottleneck::Unknown => None,
        }
    }

    /// The link's measured rate, if a rate was stated that it contradicts by a quarter or more.
    pub fn contradiction(&self, bottleneck: Bottleneck) -> Option<Bandwidth> {
        let Bottleneck::Stated(stated) = bottleneck else {
            return None;
        };
        let (stated, measured) = (stated.bits() as f64, self.rate(bottleneck)?);
        let ratio = measured.bits() as f64 / stated.max(1.0);
        (!(1.0 / CONTRADICTS..=CONTRADICTS).contains(&ratio)).then_some(measured)
    }

    /// Takes the samples in, and drops the state of connections that have ended.
    fn update(&mut self, tick: &LawInput<'_>, rates: &TickRates) {
        let known: BTreeMap<ConnectionId, FlowController> = std::mem::take(&mut self.controllers);
        let same =
            known.len() == tick.flows.len() && tick.flows.iter().all(|flow| known.contains_key(&flow.id));
        self.same_flows = if same {
            self.same_flows + rates.seconds
        } else {
            0.0
        };
        for (sample, rate) in tick.flows.iter().zip(&rates.flows) {
            let mut flow = known
                .get(&sample.id)
                .copied()
                .unwrap_or_else(|| FlowController::new(sample, self.direction));
            flow.update(sample, *rate, rates.seconds);
            self.controllers.insert(sample.id, flow);
        }
        self.excuse_other_way(tick);
        let queued = self.controllers.values().filter(|flow| flow.may_be_queued());
        let queued_rtt = queued.map(|flow| flow.rtt).reduce(f64::max);
        let free = matches!(self.state, State::Free { seconds } if seconds > LINK_MEAN);
        let flows = self.controllers.values();
        let lost_at = self
            .losses
            .read(flows, &self.meter, self.same_flows, rates.seconds);
        self.estimate.update(LinkEvidence {
            seconds: rates.seconds,
            rate: self.meter.total(LINK_MEAN),
            queued_rtt,
            lost_at,
            free: free && !self.is_explaining(),
            stated: match tick.bottleneck {
                Bottleneck::Stated(rate) | Bottleneck::Enforced(rate) => rate.bits() as f64,
                Bottleneck::Auto | Bottleneck::Unknown => 0.0,
            },
        });
    }

    /// Takes what RTTs have in addition for a queue of the other direction, where that may be.
    fn excuse_other_way(&mut self, tick: &LawInput<'_>) {
        let Some(rate) = self.rate(tick.bottleneck).map(|rate| rate.bits() as f64) else {
            return;
        };
        let total = self.meter.total(SHORT_MEAN);
        // ACKs of what has just ended are still in its mean.
        self.other_way
            .read(tick, total.max(self.meter.total(LINK_MEAN)), rate);
        let may_grow = self.other_way.is_full() && total < EXPLAINS_QUEUE * rate;
        let may_stand = self.other_way.may_be_queued();
        let flows = self.controllers.values_mut();
        flows.for_each(|flow| flow.excuse(may_grow, may_stand));
    }

    /// Looks for a queue that what was counted does not explain.
    fn watch_queue(&mut self, rate: f64, seconds: f64) {
        let past = match self.state {
            State::Free { seconds } | State::Active { seconds } => seconds,
            State::Onset { .. } => 0.0,
        };
        // Within a round trip data may come in one burst, which fills the link for a moment.
        let round_trip = self.longest_rtt();
        let recent = self.meter.total(SHORT_MEAN.max(round_trip));
        let total = self.meter.total(LONG_MEAN.max(round_trip));
        let link = LinkLoad {
            full: EXPLAINS_QUEUE * rate,
            settled: past.min(self.same_flows) > LINK_MEAN,
            beside_others: !matches!(self.state, State::Free { .. }),
            unlost_for: self.losses.since(),
            total: match self.direction {
                DataDirection::Download => total,
                // Paces swing about what the line carries.
                DataDirection::Upload => total.max(recent),
            },
            recent,
            round_trip,
            seconds,
        };
        if !self.overflow.yields() {
            self.witness.watch(self.controllers.values_mut(), link);
        }
        self.watch_losses(rate, link);
        let full_at = self.witness.take_full_at().or(self.overflow.take_full_at());
        if let Some(rate) = full_at {
            self.estimate.is_full_at(rate);
        }
    }

    /// Looks for losses that no window explains.
    fn watch_losses(&mut self, rate: f64, load: LinkLoad) {
        let raised = self.witness.is_busy() || self.window_cap.is_searching();
        // Over a long path a false alarm costs seconds, and others that have lost data need them.
        let long = self.is_long();
        let link = OverflowingLink {
            lost: self.losses.is_losing(),
            unexplained: self.losses.begins() && load.settled && !load.beside_others && !raised && !long,
            load,
            other_way: self.other_way.may_be_queued(),
            proven: self.losses.proven(),
            rate,
        };
        self.overflow.watch(self.controllers.values_mut(), link);
    }

    /// Whether a witness is explaining what it sees: what is carried is no measure of the link.
    fn is_explaining(&self) -> bool {
        self.witness.is_busy() || self.overflow.yields()
    }

    /// Whether other traffic has appeared, after `free` seconds without any.
    fn is_onset(&self, rate: f64, free: f64) -> bool {
        // What arrives twice, or was counted ahead, looks like other traffic.
        let least = match self.losses.since() <= LONG_MEAN {
            true => AMONG_LOSSES,
            false => 0.0,
        };
        ONSETS.iter().any(|evidence| {
            let others = self.meter.others(evidence.over);
            let in_free_time = evidence.over <= free.max(self.meter.last());
            let bits = others * evidence.over.max(self.meter.last());
            in_free_time && others > evidence.fraction.max(least) * rate && bits >= evidence.bits
        })
    }

    fn is_full(&self, rate: f64) -> bool {
        let full = match self.direction {
            DataDirection::Download => FULL,
            DataDirection::Upload => FULL_OF_PACED,
        };
        self.meter.total(LONG_MEAN) >= full * rate
    }

    /// Moves to the next state.
    fn advance(&mut self, rate: f64, seconds: f64) {
        let others = |seconds| self.meter.others(seconds);
        // The last SHORT_MEAN of other traffic, and the one before.
        let (last, before) = (others(SHORT_MEAN), 2.0 * others(LONG_MEAN) - others(SHORT_MEAN));
        self.margin *= MARGIN_DECAY.powf(intervals(seconds));
        if self.is_full(rate) {
            let growth = 2.0 * (last - before) / rate;
            self.margin = self.margin.max(growth.clamp(MARGIN_MIN, MARGIN_MAX));
        }
        self.quiet = match others(0.0) < PRESENT * rate {
            true => self.quiet + seconds,
            false => 0.0,
        };
        // Rather half a tick early than a tick late.
        let gone = self.quiet > QUIET_TIME - seconds / 2.0;
        let next = match self.state {
            State::Free { seconds: past } if self.is_onset(rate, past + seconds) => {
                (self.margin, self.quiet) = (MARGIN_MAX, 0.0);
                self.window_cap.is_interrupted();
                State::Onset { seconds: 0.0 }
            }
            State::Free { seconds: past } => State::Free {
                seconds: past + seconds,
            },
            State::Onset { seconds: past }
                if past + seconds < ONSET_MIN
                    || (past + seconds < ONSET_MAX && last > ONSET_GROWTH * before) =>
            {
                State::Onset {
                    seconds: past + seconds,
                }
            }
            State::Onset { .. } | State::Active { .. } if gone => State::Free { seconds: 0.0 },
            State::Onset { .. } => State::Active { seconds: 0.0 },
            State::Active { seconds: past } => State::Active {
                seconds: past + seconds,
            },
        };
        if matches!(next, State::Free { .. }) && !matches!(self.state, State::Free { .. }) {
            self.controllers
                .values_mut()
                .for_each(FlowController::reset_correction);
            self.window_cap.is_free();
        }
        self.restraint = match next {
            State::Active { seconds: past } if past > 0.0 && self.losses.is_losing() => {
                let members = (self.meter.total(SHORT_MEAN) - last).max(0.0) / rate;
                (RESTRAINT * members.min(self.restraint)).max(RESERVE)
            }
            State::Active { .. } => (self.restraint + RESTRAINT_GROWTH * seconds).min(1.0),
            _ => 1.0,
        };
        self.state = next;
    }

    /// Whether the members' paths are long.
    fn is_long(&self) -> bool {
        let rtts = self.controllers.values().map(FlowController::base_rtt);
        rtts.fold(f64::INFINITY, f64::min) > LONG_RTT
    }

    /// The rate T of all members together, less that of their acknowledgments.
    fn members_rate(&self, rate: f64) -> f64 {
        let reserve = RESERVE * rate;
        let all = match self.state {
            State::Free { .. } => rate,
            State::Onset { .. } if self.is_long() => {
                let others = self.meter.others(0.0).max(self.meter.others(SHORT_MEAN));
                ONSET_LOAD * rate - ONSET_ROOM * others
            }
            State::Onset { .. } => reserve,
            State::Active { .. } => {
                let others = self.meter.others(LONG_MEAN).max(self.meter.others(SHORT_MEAN));
                let left = TARGET_LOAD * rate - others - self.margin * rate;
                left.min(self.restraint * rate)
            }
        };
        (all - self.acknowledgments).max(reserve)
    }

    /// The target of each connection, in the sequence of the tick. `demand` is what one can use.
    fn targets(&self, tick: &LawInput<'_>, total: f64, demand: impl Fn(&FlowController) -> f64) -> Vec<f64> {
        let mut members: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (i, sample) in tick.flows.iter().enumerate() {
            members.entry(sample.member.0).or_default().push(i);
        }
        let demand = |i: usize| {
            self.controllers
                .get(&tick.flows[i].id)
                .map_or(f64::INFINITY, &demand)
        };
        let claim = |flows: &Vec<usize>| {
            let member = settings(tick.members, &tick.flows[flows[0]]);
            let bits = |rate: Option<Bandwidth>| rate.map(|rate| rate.bits() as f64);
            ShareClaim {
                weight: f64::from(member.weight.max(1)),
                floor: bits(member.floor).unwrap_or(0.0),
                most: bits(member.cap)
                    .unwrap_or(f64::INFINITY)
                    .min(flows.iter().map(|&i| demand(i)).sum()),
            }
        };
        let claims: Vec<ShareClaim> = members.values().map(claim).collect();
        let mut targets = vec![0.0; tick.flows.len()];
        for (flows, share) in members.values().zip(divide(total, &claims)) {
            let equal = |&i: &usize| ShareClaim {
                weight: 1.0,
                floor: 0.0,
                most: demand(i),
            };
            let claims: Vec<ShareClaim> = flows.iter().map(equal).collect();
            for (&i, target) in flows.iter().zip(divide(share, &claims)) {
                targets[i] = target;
            }
        }
        targets
    }

    /// The shares of this rate.
    fn shares(&self, tick: &LawInput<'_>, rate: f64) -> Shares {
        let targets = self.targets(tick, rate, |flow| flow.demand);
        let is_capped = |sample| is_capped(tick, sample, &targets);
        let capped = tick.flows.iter().map(is_capped).collect();
        Shares { targets, capped }
    }

    /// The orders while the link is free: the aggregate window cap, divided in proportion to
    /// shares. A capped connection gets the rate of its cap.
    fn limit_when_free(&mut self, tick: &LawInput<'_>, rate: f64, seconds: f64) {
        let left = self.members_rate(rate);
        let shares = self.shares(tick, left);
        let fair = self.targets(tick, left, |_| f64::INFINITY);
        // No window limits uploads.
        let (products, segments) = match self.direction {
            DataDirection::Download => {
                let full = self.is_full(rate);
                self.adjust_cap(tick, rate, full, &shares, seconds);
                let (products, segments) = self.window_cap.windows();
                (products * self.balance(tick, full, &shares, seconds), segments)
            }
            DataDirection::Upload => (1.0, 0.0),
        };
        let goes = self.take_turns(tick, &shares.of_capped(), LeastOne::NotNeeded, seconds);
        let Shares { targets, capped } = shares;
        let intervals = intervals(seconds);
        self.pace_factor = match self.controllers.values().any(FlowController::may_be_queued) {
            true => (self.pace_factor * PACE_DECAY.powf(intervals)).max(PACE_QUEUED_MIN),
            false => (self.pace_factor * PACE_GROWTH.powf(intervals)).clamp(PACE_MIN, PACE_MAX),
        };
        let (pace_factor, parks) = (self.pace_factor, self.overflow.parks());
        let yields = self.witness.yields() || self.overflow.yields();
        for (i, sample) in tick.flows.iter().enumerate() {
            let Some(flow) = self.controllers.get_mut(&sample.id) else {
                continue;
            };
            if parks || !goes[i] {
                flow.park();
                let reason = match goes[i] {
                    true => LimitReason::QueueGrows(flow.queue_us()),
                    false => cap_reason(tick, sample),
                };
                let limit = match self.direction {
                    DataDirection::Download => FlowLimit::Parked,
                    DataDirection::Upload => FlowLimit::Pace(pace(least_pace(flow))),
                };
                self.order(sample, targets[i], limit, reason);
                continue;
            }
            let capped = capped[i];
            // A connection that has not used its share may begin to.
            let share = targets[i].max(fair[i]);
            if capped {
                if targets[i] > flow.min_window_rate() {
                    flow.correct(flow.mean, targets[i], seconds);
                }
                flow.steer(targets[i], flow.base_rtt(), 0.0, seconds);
            } else {
                let extra = segments * (share / rate).min(1.0);
                flow.steer(share, flow.base_rtt() * products, extra, seconds);
            }
            flow.judge_demand(targets[i], seconds);
            let ceiling = flow.ceiling_rate();
            let limit = match self.direction {
                DataDirection::Download => FlowLimit::Window(flow.window()),
                DataDirection::Upload if capped => FlowLimit::Pace(pace(targets[i].min(ceiling))),
                DataDirection::Upload => FlowLimit::Pace(pace((share * pace_factor).min(ceiling))),
            };
            let reason = match capped {
                true => cap_reason(tick, sample),
                false if yields && ceiling.is_finite() => LimitReason::QueueGrows(flow.queue_us()),
                false => LimitReason::LinkIsFree,
            };
            self.order(sample, targets[i], limit, reason);
        }
    }

    /// Moves the aggregate window cap by what this tick shows.
    fn adjust_cap(&mut self, tick: &LawInput<'_>, rate: f64, full: bool, shares: &Shares, seconds: f64) {
        // The cap binds if windows limit connections that are due half of the link or more.
        let (mut all, mut limited) = (0.0, 0.0);
        for (sample, target) in shares.uncapped(tick) {
            let flow = self.controllers.get(&sample.id);
            all += target;
            limited += match flow.is_some_and(FlowController::is_window_limited) {
                true => target,
                false => 0.0,
            };
        }
        let flows = || self.controllers.values();
        let least = |what: fn(&FlowController) -> f64| flows().map(what).fold(f64::INFINITY, f64::min);
        let total = self.meter.total(LONG_MEAN);
        // Connections that begin and end make queues of their own.
        let same = self.same_flows > LINK_MEAN;
        let link = FreeLink {
            seconds,
            recent: self.meter.total(SHORT_MEAN),
            total,
            settled: self.meter.total(LINK_MEAN),
            full,
            nearly_full: total >= NEARLY_FULL * rate,
            binds: all > 0.0 && 2.0 * limited >= all,
            busy: self.is_explaining(),
            queued: same && flows().any(FlowController::is_queued),
            may_be_queued: flows().any(FlowController::may_be_queued),
            delayed: flows().any(FlowController::is_delayed),
            lost: self.losses.is_losing() && !self.overflow.yields(),
            may_search: same && !matches!(tick.bottleneck, Bottleneck::Enforced(_)),
            rtt: self.mean_rtt(),
            longest: self.longest_rtt(),
            segments: rate * least(FlowController::base_rtt) / 8.0 / least(|flow| flow.mss),
        };
        if let Some(rate) = self.window_cap.adjust(&link) {
            self.estimate.is_full_at(rate);
        }
    }

    /// The longest RTT, in seconds.
    fn longest_rtt(&self) -> f64 {
        let rtts = self.controllers.values().map(|flow| flow.rtt);
        rtts.fold(0.0, f64::max)
    }

    /// The mean RTT of the data in flight, in seconds, without the other direction's queue.
    fn mean_rtt(&self) -> f64 {
        let sum = |what: fn(&FlowController) -> f64| self.controllers.values().map(what).sum::<f64>();
        sum(|flow| flow.mean * flow.rtt_of_this_way()) / sum(|flow| flow.mean).max(1.0)
    }

    /// Corrects windows on a free link by the measured shares. Returns the factor that keeps the
    /// sum of all corrected windows as it was.
    fn balance(&mut self, tick: &LawInput<'_>, full: bool, shares: &Shares, seconds: f64) -> f64 {
        let (all, wanted) = (self.meter.total(LONG_MEAN), shares.targets.iter().sum::<f64>());
        let (all, wanted) = (all.max(1.0), wanted.max(1.0));
        let is_short = |flow: &FlowController, target: f64| flow.mean / all < target / wanted;
        // While a connection is short of its share for another reason than its window, the others
        // exceed theirs for that same reason, and their windows stay.
        let is_explained = |(sample, target): (&FlowSample, f64)| {
            let flow = self.controllers.get(&sample.id);
            flow.is_none_or(|flow| {
                !is_short(flow, target) || flow.is_window_limited() || flow.demand.is_finite()
            })
        };
        let all_explained = shares.uncapped(tick).all(is_explained);
        let (mut plain, mut corrected) = (0.0, 0.0);
        for (sample, target) in shares.uncapped(tick) {
            if let Some(flow) = self.controllers.get_mut(&sample.id) {
                if full && tick.flows.len() > 1 && (all_explained || is_short(flow, target)) {
                    flow.correct(flow.mean / all, target / wanted, seconds);
                }
                let window = target * flow.base_rtt();
                plain += window;
                corrected += flow.correction() * window;
            }
        }
        if corrected > 0.0 { plain / corrected } else { 1.0 }
    }

    fn order(&mut self, sample: &FlowSample, target: f64, limit: FlowLimit, reason: LimitReason) {
        self.last_targets.insert(sample.id, target);
        let order = order(sample, self.direction, limit, reason);
        self.orders.insert(sample.id, order);
    }

    /// Which connections send now, where some have targets too small for a window.
    fn take_turns(
        &mut self,
        tick: &LawInput<'_>,
        targets: &[f64],
        least_one: LeastOne,
        seconds: f64,
    ) -> Vec<bool> {
        if !takes_turns(self.direction) {
            return vec![true; targets.len()];
        }
        let mut indices: Vec<usize> = (0..targets.len()).collect();
        indices.sort_by_key(|&i| tick.flows[i].id);
        let mut candidates: Vec<Candidate<'_>> = self
            .controllers
            .values_mut()
            .zip(&indices)
            .map(|(flow, &i)| Candidate {
                flow,
                target: targets[i],
                weight: f64::from(settings(tick.members, &tick.flows[i]).weight.max(1)),
            })
            .collect();
        let going = self.turns.go(tick.now, seconds, &mut candidates, least_one);
        let mut goes = vec![true; going.len()];
        for (i, going) in indices.into_iter().zip(going) {
            goes[i] = going;
        }
        goes
    }

    /// The connections that carry data in this direction, and their rates.
    fn of_this_way(&mut self, tick: &LawInput<'_>, rates: TickRates) -> (Vec<FlowSample>, TickRates) {
        let all = tick.flows.iter().copied().zip(rates.flows);
        let (ours, others): (Vec<_>, Vec<_>) = all.partition(|(sample, _)| self.this_way.has(sample));
        let acknowledgments: f64 = others.iter().map(|(_, rate)| rate).sum();
        let weight = (rates.seconds / LONG_MEAN).min(1.0);
        self.acknowledgments += (acknowledgments - self.acknowledgments) * weight;
        let (samples, flows) = ours.into_iter().unzip();
        (samples, TickRates { flows, ..rates })
    }

    /// What is said of a connection: its last order. One that carries data in the other direction
    /// keeps its limit for the time when it does in this one.
    fn said(&self, tick: &LawInput<'_>, sample: &FlowSample) -> LimitOrder {
        let last = self.orders.get(&sample.id).copied();
        let last =
            last.unwrap_or_else(|| order(sample, self.direction, FlowLimit::Free, LimitReason::LinkIsFree));
        let reason = match last.reason {
            _ if !self.this_way.has(sample) => LimitReason::LinkIsFree,
            LimitReason::Cap(_) => cap_reason(tick, sample),
            reason => reason,
        };
        LimitOrder { reason, ..last }
    }

    /// The orders of a tick, for the connections of this direction.
    fn limit(&mut self, tick: &LawInput<'_>, rates: &TickRates) {
        self.update(tick, rates);
        self.watchful = false;
        let rate = self.rate(tick.bottleneck).map(|rate| rate.bits() as f64);
        let Some(rate) = rate.filter(|rate| *rate > 0.0) else {
            self.limit_by_delay(tick, rates.seconds);
            return;
        };
        self.watch_queue(rate, rates.seconds);
        self.advance(rate, rates.seconds);
        match self.state {
            State::Free { .. } => self.limit_when_free(tick, rate, rates.seconds),
            _ => self.limit_when_busy(tick, rate, rates.seconds),
        }
        self.watchful = match self.state {
            State::Free { .. } => {
                let nearly_full = self.meter.total(SHORT_MEAN) >= NEARLY_FULL * rate;
                !tick.flows.is_empty() && (nearly_full || self.overflow.is_on_its_way())
            }
            State::Onset { .. } => true,
            State::Active { .. } => false,
        };
    }

    /// The orders while the link's rate is unknown.
    fn limit_by_delay(&mut self, tick: &LawInput<'_>, seconds: f64) {
        let shares = self.shares(tick, UNLIMITED);
        let goes = self.take_turns(tick, &shares.of_capped(), LeastOne::NotNeeded, seconds);
        for ((sample, target), goes) in tick.flows.iter().zip(shares.targets).zip(goes) {
            let Some(flow) = self.controllers.get_mut(&sample.id) else {
                continue;
            };
            let (limit, reason) = if goes {
                let member = settings(tick.members, sample);
                flow.judge_demand(target, seconds);
                self.delay_law
                    .limit(flow, &member, target, seconds, self.direction)
            } else {
                flow.park();
                (FlowLimit::Parked, cap_reason(tick, sample))
            };
            self.orders
                .insert(sample.id, order(sample, self.direction, limit, reason));
        }
    }

    /// The orders while there is other traffic: each connection at its target rate, or waiting for
    /// its turn.
    fn limit_when_busy(&mut self, tick: &LawInput<'_>, rate: f64, seconds: f64) {
        let Shares { targets, capped } = self.shares(tick, self.members_rate(rate));
        // Over a short path the smallest window may be much of the link. Elsewhere one always
        // sends: a sender that stands still forgets its rate.
        let is_much = |flow: &FlowController| flow.is_quick() && flow.min_window_rate() > MUCH * rate;
        let much = self.controllers.values().all(is_much);
        let least_one = match much || capped.iter().all(|&capped| capped) {
            true => LeastOne::NotNeeded,
            false => LeastOne::Needed,
        };
        let goes = self.take_turns(tick, &targets, least_one, seconds);
        let others = Bandwidth::bits_per_sec(self.meter.others(LONG_MEAN) as u64);
        let onset = matches!(self.state, State::Onset { .. });
        for (((sample, target), capped), goes) in tick.flows.iter().zip(targets).zip(capped).zip(goes) {
            let Some(flow) = self.controllers.get_mut(&sample.id) else {
                continue;
            };
            let least = flow.min_window_rate();
            let last_target = self.last_targets.get(&sample.id);
            if !onset && target > least && last_target.is_some_and(|last| *last > least) {
                flow.correct(flow.mean, target, seconds);
                flow.judge_demand(target, seconds);
            }
            let (limit, reason) = if goes {
                flow.steer(target, flow.base_rtt(), 0.0, seconds);
                let limit = match self.direction {
                    DataDirection::Download => FlowLimit::Window(flow.window()),
                    DataDirection::Upload => {
                        let target = target.min(flow.ceiling_rate());
                        FlowLimit::Pace(pace(target.max(least_pace(flow))))
                    }
                };
                let member = settings(tick.members, sample);
                let reason = match member.floor {
                    _ if capped => cap_reason(tick, sample),
                    Some(floor) if self.members_rate(rate) < floor.bits() as f64 => LimitReason::Floor(floor),
                    _ if onset => LimitReason::OnsetOfOthers,
                    _ => LimitReason::YieldsTo(others),
                };
                (limit, reason)
            } else {
                flow.park();
                (FlowLimit::Parked, LimitReason::WaitsItsTurn)
            };
            self.order(sample, target, limit, reason);
        }
    }
}

impl Law for Scavenger {
    fn tick(&mut self, stated: &LawInput<'_>) -> Vec<LimitOrder> {
        let read = self.meter.read(stated);
        if let Some(rates) = &read {
            self.members = self.budgets.adjust(stated, self.direction, rates.seconds);
            self.this_way.read(stated);
        }
        let members = std::mem::take(&mut self.members);
        if let Some(rates) = read {
            let (flows, rates) = self.of_this_way(stated, rates);
            let tick = LawInput {
                members: &members,
                flows: &flows,
                ..*stated
            };
            self.limit(&tick, &rates);
            let ways = &self.this_way;
            self.orders.retain(|id, _| ways.knows(*id));
            self.last_targets.retain(|id, _| ways.knows(*id));
        }
        self.members = members;
        stated
            .flows
            .iter()
            .map(|sample| self.said(stated, sample))
            .collect()
    }

    fn interval(&self) -> Duration {
        let usual = if self.watchful { WATCHFUL } else { INTERVAL };
        self.turns.looks_within(usual)
    }
}

fn order(sample: &FlowSample, direction: DataDirection, limit: FlowLimit, reason: LimitReason) -> LimitOrder {
    LimitOrder {
        flow: sample.id,
        direction,
        limit,
        reason,
    }
}

/// What an upload that sends next to nothing is paced at, in bits per second.
fn least_pace(flow: &FlowController) -> f64 {
    flow.mss * 8.0 / PACE_SEGMENT_TIME
}

/// The settings of a connection's member; the default ones if it is not in the list.
fn settings(members: &[Member], sample: &FlowSample) -> Member {
    let found = members.iter().find(|member| member.id == sample.member);
    found.copied().unwrap_or(Member::new(sample.member))
}

/// Whether its member's targets add up to the member's cap.
fn is_capped(tick: &LawInput<'_>, sample: &FlowSample, targets: &[f64]) -> bool {
    let cap = settings(tick.members, sample).cap;
    cap.is_some_and(|cap| {
        let of_member = tick
            .flows
            .iter()
            .zip(targets)
            .filter(|(flow, _)| flow.member == sample.member);
        of_member.map(|(_, target)| target).sum::<f64>() >= 0.999 * cap.bits() as f64
    })
}

fn cap_reason(tick: &LawInput<'_>, sample: &FlowSample) -> LimitReason {
    let cap = settings(tick.members, sample).cap;
    cap.map_or(LimitReason::LinkIsFree, LimitReason::Cap)
}
