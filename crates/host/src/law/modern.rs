//! The default law: members run free until there is other traffic, and then have what it leaves.
//!
//! After measurements of what kernels do with windows (docs/decisions/laws-of-windows.md). With the link's rate B, the other traffic H (what the
//! link carries less what members do) and T for all members together:
//!
//! | state | until | T |
//! |---|---|---|
//! | free | H is above 4 % of B | B; a lid on all windows together, near one bandwidth-delay product |
//! | onset | H no longer grows, 0.15 to 0.5 s | 2 % of B: a slow start that finds an empty queue comes to its end |
//! | active | H is below 4 % for 0.15 s | 0.96 B − H − m, 2 % of B at least; m is 4 to 15 % of B while the link is full, else it decays |
//!
//! The 2 % are for senders like BBR. They climb by a quarter in a round trip and a half from what they had last, however much the
//! window allows: from two segments a round trip they would have 100 Mbit/s again after 0.7 s, and faster links later.
//!
//! The lid decides how soon a clamp is felt, and how much of the link's buffer a newcomer finds free. It follows what the link
//! needs to be just full: it falls slowly while the link is full, and grows fast when it is not and the lid binds those who are to
//! have most of it: one that recovers from losses is not helped by larger windows of the others. What it brings to raise it shows
//! where the link is full, if that is below the rate that was stated.
//! So neither a round trip that was measured too long nor one measured too short costs throughput. The margin m lets other traffic that can use more grow into
//! it; traffic that cannot leaves the rest to members. T is divided by weight, with floors and caps ([`super::share`]);
//! what one does not use, others get. A window is its rate times the round trip, corrected by what is
//! measured ([`super::windows`]). Shares below two segments a round trip go in turns. Uploads are paced to their share. The law wants to
//! be asked more often while a newcomer would find the link full: its third round decides how its slow start ends.
//! Without a rate there is [`super::delay`].

use super::Law;
use super::delay::Delay;
use super::estimate::Estimate;
use super::rates::{Meter, Rates};
use super::share::{Claim, divide};
use super::windows::{Steered, Turns, intervals, pace, takes_turns};
use super::{INTERVAL, WATCHFUL};
use crate::order::{Hold, Order, Why};
use crate::reading::{Bottleneck, Direction, FlowId, FlowReading, Member, Tick};
use engine::units::{Bandwidth, Duration};
use std::collections::BTreeMap;

/// Other traffic is there once it has had this part of the link over so many seconds, and so many bits beside: a few packets of
/// somebody's are no traffic, and what one tick says of many connections the next one may take back. A slow start begins with
/// ten segments, and twenty: 9 % of 100 Mbit/s over 40 ms.
const APPEARS: [(f64, f64, f64); 4] = [
    (0.02, 0.12, 40_000.0),
    (0.04, 0.05, 40_000.0),
    (SHORT, THERE, 40_000.0),
    (0.4, THERE, 0.0),
];
/// It is gone after so many seconds below this part.
const THERE: f64 = 0.04;
const QUIET: f64 = 0.15;
/// Over how many seconds rates are compared.
const SHORT: f64 = 0.1;
const LONG: f64 = 0.2;
/// Over how many seconds the link's own rate is read.
const SEEN: f64 = 0.4;
/// How long an onset lasts, in seconds, and by how much other traffic must still grow in [`SHORT`] for it to go on.
const ONSET: (f64, f64) = (0.15, 0.5);
const GROWS: f64 = 1.1;
/// The link is full from here on; what comes from here on finds little room; what is aimed at while there is other traffic.
const FULL: f64 = 0.98;
const NEARLY_FULL: f64 = 0.9;
const AIM: f64 = 0.96;
/// What members keep, however much others want.
const KEPT: f64 = 0.02;
/// The margin while the link is full: at least and at most this part of it, between them twice what other traffic has grown by in
/// [`SHORT`]; and what remains of it after each interval in which the link is not.
const MARGIN: (f64, f64) = (0.04, 0.15);
const DECAY: f64 = 0.9;
/// The lid in bandwidth-delay products and segments beside; how it grows in an interval, and how far.
const LID: f64 = 1.25;
const LID_SEGMENTS: f64 = 8.0;
const LID_GROWS: f64 = 1.05;
const LID_MOST: f64 = 8.0;
/// A lid that was raised by so much, and brought no more than that, but longer round trips: then the link is full at what it carries.
const RAISED: f64 = 1.25;
const BROUGHT: f64 = 1.03;
const LONGER: f64 = 1.12;
/// How far and how fast it falls while the link is full (a product may be overestimated, where a round trip was never seen
/// without a queue), and for how many seconds it does not after it had to grow.
const LID_LEAST: f64 = 0.3;
const LID_FALLS: f64 = 0.98;
const LID_RESTS: f64 = 5.0;
/// Uploads on a free link are paced to their shares of a little less than all while a queue stands, else of a little more. How much,
/// follows in each interval by these factors: the rate may be wrong.
const UNDER: f64 = 0.98;
const OVER: f64 = 1.02;
const OVER_FALLS: f64 = 0.94;
const OVER_GROWS: f64 = 1.01;
/// More than any link carries, in bits per second.
const UNLIMITED: f64 = 1e15;
/// An upload is paced to a segment in so many seconds at least: the next one is due when it is given more.
const NEXT: f64 = 0.2;

/// What the law is about.
#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    /// For so many seconds.
    Free {
        seconds: f64,
    },
    Onset {
        seconds: f64,
    },
    Active,
}

/// What connections are to have, in the sequence of the tick, and which of them their members' caps hold.
struct Shares {
    targets: Vec<f64>,
    capped: Vec<bool>,
}

impl Shares {
    /// The targets of those that caps hold; the others' are infinite.
    fn of_caps(&self) -> Vec<f64> {
        let of_cap = |(&target, &capped): (&f64, &bool)| if capped { target } else { f64::INFINITY };
        self.targets.iter().zip(&self.capped).map(of_cap).collect()
    }

    /// Those that no cap holds, with their targets.
    fn uncapped<'a>(&'a self, tick: &'a Tick<'_>) -> impl Iterator<Item = (&'a FlowReading, f64)> + 'a {
        let all = tick.flows.iter().zip(&self.targets).zip(&self.capped);
        all.filter_map(|((reading, &target), &capped)| (!capped).then_some((reading, target)))
    }
}

/// What there was when the lid began to grow.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Raise {
    lid: f64,
    total: f64,
    rtt: f64,
}

/// The law's state.
#[derive(Clone, Debug)]
pub struct Modern {
    direction: Direction,
    meter: Meter,
    estimate: Estimate,
    state: State,
    /// For so many seconds there has been no other traffic.
    quiet: f64,
    margin: f64,
    lid: f64,
    lid_rests: f64,
    raise: Option<Raise>,
    over: f64,
    watchful: bool,
    flows: BTreeMap<FlowId, Steered>,
    given: BTreeMap<FlowId, f64>,
    turns: Turns,
    delay: Delay,
    orders: BTreeMap<FlowId, Order>,
}

impl Modern {
    /// Of this direction.
    pub fn new(direction: Direction) -> Self {
        Self {
            direction,
            meter: Meter::new(direction),
            estimate: Estimate::default(),
            state: State::Free { seconds: 0.0 },
            quiet: 0.0,
            margin: MARGIN.1,
            lid: LID,
            lid_rests: 0.0,
            raise: None,
            over: OVER,
            watchful: false,
            flows: BTreeMap::new(),
            given: BTreeMap::new(),
            turns: Turns::default(),
            delay: Delay::default(),
            orders: BTreeMap::new(),
        }
    }

    /// The link's rate as the law has it; none while it goes by round trips alone. What was seen takes the place of a stated
    /// rate that is not far from it: people state nominal rates, and on another basis.
    pub fn rate(&self, bottleneck: Bottleneck) -> Option<Bandwidth> {
        let seen = self
            .estimate
            .rate()
            .map(|rate| Bandwidth::bits_per_sec(rate as u64));
        match bottleneck {
            Bottleneck::Stated(stated) => {
                let near = stated.bits() / 10 * 8..=stated.bits() / 10 * 12;
                seen.filter(|seen| near.contains(&seen.bits())).or(Some(stated))
            }
            Bottleneck::Auto => seen,
            Bottleneck::Unknown => None,
        }
    }

    /// Keeps the state of connections that there are, and takes the readings in.
    fn see(&mut self, tick: &Tick<'_>, rates: &Rates) {
        let known: BTreeMap<FlowId, Steered> = std::mem::take(&mut self.flows);
        for (reading, rate) in tick.flows.iter().zip(&rates.flows) {
            let mut flow = known
                .get(&reading.id)
                .copied()
                .unwrap_or_else(|| Steered::new(reading));
            flow.see(reading, *rate, rates.seconds);
            self.flows.insert(reading.id, flow);
        }
        let queue = self.flows.values().any(Steered::queue_stands);
        let free = matches!(self.state, State::Free { seconds } if seconds > SEEN);
        self.estimate
            .see(rates.seconds, self.meter.total(SEEN), queue, free);
    }

    /// Whether other traffic has come, where there was none for so many seconds.
    fn others_appear(&self, rate: f64, free: f64) -> bool {
        APPEARS.iter().any(|&(over, part, bits)| {
            let others = self.meter.others(over);
            let is_since = over <= free.max(self.meter.last());
            is_since && others > part * rate && others * over.max(self.meter.last()) >= bits
        })
    }

    fn is_full(&self, rate: f64) -> bool {
        self.meter.total(LONG) >= FULL * rate
    }

    /// Moves to the next state.
    fn turn(&mut self, rate: f64, seconds: f64) {
        let others = |seconds| self.meter.others(seconds);
        // The last of other traffic, and what was before that.
        let (last, before) = (others(SHORT), 2.0 * others(LONG) - others(SHORT));
        self.margin *= DECAY.powf(intervals(seconds));
        if self.is_full(rate) {
            let (least, most) = MARGIN;
            self.margin = self.margin.max((2.0 * (last - before) / rate).clamp(least, most));
        }
        self.quiet = match others(0.0) < THERE * rate {
            true => self.quiet + seconds,
            false => 0.0,
        };
        // Half a tick early rather than a tick late.
        let gone = self.quiet > QUIET - seconds / 2.0;
        let next = match self.state {
            State::Free { seconds: past } if self.others_appear(rate, past + seconds) => {
                (self.margin, self.quiet) = (MARGIN.1, 0.0);
                State::Onset { seconds: 0.0 }
            }
            State::Free { seconds: past } => State::Free {
                seconds: past + seconds,
            },
            State::Onset { seconds: past }
                if past + seconds < ONSET.0 || (past + seconds < ONSET.1 && last > GROWS * before) =>
            {
                State::Onset {
                    seconds: past + seconds,
                }
            }
            State::Onset { .. } | State::Active if gone => State::Free { seconds: 0.0 },
            State::Onset { .. } | State::Active => State::Active,
        };
        if matches!(next, State::Free { .. }) && !matches!(self.state, State::Free { .. }) {
            self.flows.values_mut().for_each(Steered::straighten);
            self.lid = self.lid.max(1.0);
        }
        self.state = next;
    }

    /// What all members together are to have.
    fn together(&self, rate: f64) -> f64 {
        match self.state {
            State::Free { .. } => rate,
            State::Onset { .. } => KEPT * rate,
            State::Active => {
                let others = self.meter.others(LONG).max(self.meter.others(SHORT));
                (AIM * rate - others - self.margin * rate).max(KEPT * rate)
            }
        }
    }

    /// What each connection is to have, in the sequence of the tick; `demands` are what each can use at most.
    fn targets(&self, tick: &Tick<'_>, together: f64, demand: impl Fn(&Steered) -> f64) -> Vec<f64> {
        let mut members: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (i, reading) in tick.flows.iter().enumerate() {
            members.entry(reading.member.0).or_default().push(i);
        }
        let of = |i: usize| self.flows.get(&tick.flows[i].id).map_or(f64::INFINITY, &demand);
        let claim = |flows: &Vec<usize>| {
            let member = settings(tick.members, &tick.flows[flows[0]]);
            let bits = |rate: Option<Bandwidth>| rate.map(|rate| rate.bits() as f64);
            Claim {
                weight: f64::from(member.weight.max(1)),
                floor: bits(member.floor).unwrap_or(0.0),
                most: bits(member.cap)
                    .unwrap_or(f64::INFINITY)
                    .min(flows.iter().map(|&i| of(i)).sum()),
            }
        };
        let claims: Vec<Claim> = members.values().map(claim).collect();
        let mut targets = vec![0.0; tick.flows.len()];
        for (flows, share) in members.values().zip(divide(together, &claims)) {
            let equal = |&i: &usize| Claim {
                weight: 1.0,
                floor: 0.0,
                most: of(i),
            };
            let claims: Vec<Claim> = flows.iter().map(equal).collect();
            for (&i, target) in flows.iter().zip(divide(share, &claims)) {
                targets[i] = target;
            }
        }
        targets
    }

    /// What each is to have of this rate.
    fn shares(&self, tick: &Tick<'_>, rate: f64) -> Shares {
        let targets = self.targets(tick, rate, |flow| flow.demand);
        let is_capped = |reading| is_capped(tick, reading, &targets);
        let capped = tick.flows.iter().map(is_capped).collect();
        Shares { targets, capped }
    }

    /// While the link is free: a lid on all windows together, in proportion to shares; where a cap binds, its rate.
    fn fill(&mut self, tick: &Tick<'_>, rate: f64, seconds: f64) {
        let full = self.is_full(rate);
        let shares = self.shares(tick, rate);
        self.move_lid(tick, rate, full, &shares, seconds);
        let fair = self.targets(tick, rate, |_| f64::INFINITY);
        let lid = self.lid * self.compare(tick, full, &shares, seconds);
        let goes = self.take_turns(tick, &shares.of_caps(), false, seconds);
        let Shares { targets, capped } = shares;
        // What uploads little, such as the acknowledgments of downloads, needs no pace.
        let busy = self.meter.total(LONG) >= NEARLY_FULL * rate;
        self.over = match self.flows.values().any(Steered::queue_stands) {
            true => (self.over * OVER_FALLS.powf(intervals(seconds))).max(UNDER),
            false => (self.over * OVER_GROWS.powf(intervals(seconds))).clamp(OVER, LID_MOST),
        };
        let over = self.over;
        for (i, reading) in tick.flows.iter().enumerate() {
            let Some(flow) = self.flows.get_mut(&reading.id) else {
                continue;
            };
            if !goes[i] {
                flow.park();
                self.give(reading, targets[i], Hold::Parked, why_capped(tick, reading));
                continue;
            }
            let capped = capped[i];
            // One that did not use its share until now may begin to.
            let share = targets[i].max(fair[i]);
            if capped {
                if targets[i] > flow.unit() {
                    flow.correct(flow.mean, targets[i], seconds);
                }
                flow.steer(targets[i], flow.base(), 0.0, seconds);
            } else {
                let beside = LID_SEGMENTS * (share / rate).min(1.0);
                flow.steer(share, flow.base() * lid, beside, seconds);
            }
            flow.judge_demand(targets[i], seconds);
            let hold = match self.direction {
                Direction::Download => Hold::Window(flow.window()),
                Direction::Upload if capped => Hold::Pace(pace(targets[i])),
                Direction::Upload if busy => Hold::Pace(pace(share * over)),
                Direction::Upload => Hold::Free,
            };
            let why = match capped {
                true => why_capped(tick, reading),
                false => Why::LinkIsFree,
            };
            self.give(reading, targets[i], hold, why);
        }
    }

    /// The lid, and whether moving it shows at which rate the link is full.
    fn move_lid(&mut self, tick: &Tick<'_>, rate: f64, full: bool, shares: &Shares, seconds: f64) {
        // It binds where windows hold those who are to have most of the link. Who recovers from losses fills no window, and is not
        // helped by larger ones for the rest.
        let (mut all, mut held) = (0.0, 0.0);
        for (reading, target) in shares.uncapped(tick) {
            let is_held = self.flows.get(&reading.id).is_some_and(Steered::is_held);
            all += target;
            held += if is_held { target } else { 0.0 };
        }
        let binds = all > 0.0 && 2.0 * held >= all;
        let (total, intervals) = (self.meter.total(LONG), intervals(seconds));
        self.lid_rests = (self.lid_rests - seconds).max(0.0);
        if full || (!binds && total >= NEARLY_FULL * rate) {
            self.raise = None;
            if self.lid_rests == 0.0 {
                self.lid = (self.lid * LID_FALLS.powf(intervals)).max(LID_LEAST);
            }
        } else if binds {
            let rtt = self.round_trip();
            let now = Raise {
                lid: self.lid,
                total,
                rtt,
            };
            let before = *self.raise.get_or_insert(now);
            self.lid = (self.lid * LID_GROWS.powf(intervals)).min(LID_MOST);
            self.lid_rests = LID_RESTS;
            if self.lid >= RAISED * before.lid {
                self.raise = Some(now);
                if total < BROUGHT * before.total && rtt > LONGER * before.rtt {
                    self.estimate.is_full_at(self.meter.total(SEEN));
                    (self.lid, self.lid_rests) = (before.lid, 0.0);
                }
            }
        }
    }

    /// The mean round trip of what is on its way, in seconds.
    fn round_trip(&self) -> f64 {
        let sum = |what: fn(&Steered) -> f64| self.flows.values().map(what).sum::<f64>();
        sum(|flow| flow.mean * flow.rtt) / sum(|flow| flow.mean).max(1.0)
    }

    /// Compares the shares of connections on a free link with what they should be, and corrects windows by that; the factor that
    /// leaves all corrected windows together as they were.
    fn compare(&mut self, tick: &Tick<'_>, full: bool, shares: &Shares, seconds: f64) -> f64 {
        let (all, wanted) = (self.meter.total(LONG), shares.targets.iter().sum::<f64>());
        let (all, wanted) = (all.max(1.0), wanted.max(1.0));
        let is_short = |flow: &Steered, target: f64| flow.mean / all < target / wanted;
        // While one has less than its share for another reason than its window, the rest has more for that reason.
        let shown = |(reading, target): (&FlowReading, f64)| {
            let flow = self.flows.get(&reading.id);
            flow.is_none_or(|flow| !is_short(flow, target) || flow.is_held() || flow.demand.is_finite())
        };
        let all_shown = shares.uncapped(tick).all(shown);
        let (mut plain, mut corrected) = (0.0, 0.0);
        for (reading, target) in shares.uncapped(tick) {
            if let Some(flow) = self.flows.get_mut(&reading.id) {
                if full && tick.flows.len() > 1 && (all_shown || is_short(flow, target)) {
                    flow.correct(flow.mean / all, target / wanted, seconds);
                }
                let window = target * flow.base();
                plain += window;
                corrected += flow.correction() * window;
            }
        }
        if corrected > 0.0 { plain / corrected } else { 1.0 }
    }

    fn give(&mut self, reading: &FlowReading, target: f64, hold: Hold, why: Why) {
        self.given.insert(reading.id, target);
        let order = order(reading, self.direction, hold, why);
        self.orders.insert(reading.id, order);
    }

    /// Who may go, where some have targets that no window is small enough for.
    fn take_turns(&mut self, tick: &Tick<'_>, targets: &[f64], somebody: bool, seconds: f64) -> Vec<bool> {
        if !takes_turns(self.direction) {
            return vec![true; targets.len()];
        }
        let weight = |reading| f64::from(settings(tick.members, reading).weight.max(1));
        let weights: Vec<f64> = tick.flows.iter().map(weight).collect();
        let mut places: Vec<usize> = (0..targets.len()).collect();
        places.sort_by_key(|&i| tick.flows[i].id);
        let sorted = |values: &[f64]| -> Vec<f64> { places.iter().map(|&i| values[i]).collect() };
        let mut flows: Vec<&mut Steered> = self.flows.values_mut().collect();
        let (targets, weights) = (sorted(targets), sorted(&weights));
        let going = self
            .turns
            .go(tick.now, seconds, &mut flows, &targets, &weights, somebody);
        let mut goes = vec![true; going.len()];
        for (place, going) in places.into_iter().zip(going) {
            goes[place] = going;
        }
        goes
    }

    /// While the link's rate is not known.
    fn go_by_delay(&mut self, tick: &Tick<'_>, seconds: f64) {
        let shares = self.shares(tick, UNLIMITED);
        let goes = self.take_turns(tick, &shares.of_caps(), false, seconds);
        for ((reading, target), goes) in tick.flows.iter().zip(shares.targets).zip(goes) {
            let Some(flow) = self.flows.get_mut(&reading.id) else {
                continue;
            };
            let (hold, why) = if goes {
                let member = settings(tick.members, reading);
                flow.judge_demand(target, seconds);
                self.delay.steer(flow, &member, target, seconds, self.direction)
            } else {
                flow.park();
                (Hold::Parked, why_capped(tick, reading))
            };
            self.orders
                .insert(reading.id, order(reading, self.direction, hold, why));
        }
    }

    /// While there is other traffic: each connection at its rate, or waiting for its turn.
    fn hold(&mut self, tick: &Tick<'_>, rate: f64, seconds: f64) {
        let Shares { targets, capped } = self.shares(tick, self.together(rate));
        let all_capped = capped.iter().all(|&capped| capped);
        let goes = self.take_turns(tick, &targets, !all_capped, seconds);
        let others = Bandwidth::bits_per_sec(self.meter.others(LONG) as u64);
        let onset = matches!(self.state, State::Onset { .. });
        for (((reading, target), capped), goes) in tick.flows.iter().zip(targets).zip(capped).zip(goes) {
            let Some(flow) = self.flows.get_mut(&reading.id) else {
                continue;
            };
            let given = self.given.get(&reading.id);
            if !onset && target > flow.unit() && given.is_some_and(|given| *given > flow.unit()) {
                flow.correct(flow.mean, target, seconds);
                flow.judge_demand(target, seconds);
            }
            let (hold, why) = if goes {
                flow.steer(target, flow.base(), 0.0, seconds);
                let hold = match self.direction {
                    Direction::Download => Hold::Window(flow.window()),
                    Direction::Upload => Hold::Pace(pace(target.max(flow.mss * 8.0 / NEXT))),
                };
                let member = settings(tick.members, reading);
                let why = match member.floor {
                    _ if capped => why_capped(tick, reading),
                    Some(floor) if self.together(rate) < floor.bits() as f64 => Why::Floor(floor),
                    _ if onset => Why::OnsetOfOthers,
                    _ => Why::YieldsTo(others),
                };
                (hold, why)
            } else {
                flow.park();
                (Hold::Parked, Why::WaitsItsTurn)
            };
            self.give(reading, target, hold, why);
        }
    }
}

impl Law for Modern {
    fn tick(&mut self, tick: &Tick<'_>) -> Vec<Order> {
        if let Some(rates) = self.meter.read(tick) {
            self.see(tick, &rates);
            match self.rate(tick.bottleneck).map(|rate| rate.bits() as f64) {
                Some(rate) if rate > 0.0 => {
                    self.turn(rate, rates.seconds);
                    match self.state {
                        State::Free { .. } => self.fill(tick, rate, rates.seconds),
                        _ => self.hold(tick, rate, rates.seconds),
                    }
                    self.watchful = match self.state {
                        State::Free { .. } => {
                            !tick.flows.is_empty() && self.meter.total(SHORT) >= NEARLY_FULL * rate
                        }
                        State::Onset { .. } => true,
                        State::Active => false,
                    };
                }
                _ => {
                    self.watchful = false;
                    self.go_by_delay(tick, rates.seconds);
                }
            }
            let alive = &self.flows;
            self.orders.retain(|id, _| alive.contains_key(id));
            self.given.retain(|id, _| alive.contains_key(id));
        }
        let first = |reading: &FlowReading| order(reading, self.direction, Hold::Free, Why::LinkIsFree);
        let of = |reading: &FlowReading| {
            self.orders
                .get(&reading.id)
                .copied()
                .unwrap_or_else(|| first(reading))
        };
        tick.flows.iter().map(of).collect()
    }

    fn interval(&self) -> Duration {
        if self.watchful { WATCHFUL } else { INTERVAL }
    }
}

fn order(reading: &FlowReading, direction: Direction, hold: Hold, why: Why) -> Order {
    Order {
        flow: reading.id,
        direction,
        hold,
        why,
    }
}

/// The settings of a connection's member; those of a plain one if it is not in the list.
fn settings(members: &[Member], reading: &FlowReading) -> Member {
    let found = members.iter().find(|member| member.id == reading.member);
    found.copied().unwrap_or(Member::new(reading.member))
}

/// Whether its member has all that its cap allows.
fn is_capped(tick: &Tick<'_>, reading: &FlowReading, targets: &[f64]) -> bool {
    let cap = settings(tick.members, reading).cap;
    cap.is_some_and(|cap| {
        let of = tick
            .flows
            .iter()
            .zip(targets)
            .filter(|(flow, _)| flow.member == reading.member);
        of.map(|(_, target)| target).sum::<f64>() >= 0.999 * cap.bits() as f64
    })
}

fn why_capped(tick: &Tick<'_>, reading: &FlowReading) -> Why {
    let cap = settings(tick.members, reading).cap;
    cap.map_or(Why::LinkIsFree, Why::Cap)
}
