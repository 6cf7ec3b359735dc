//! `cake`: one discipline for a home's or an office's link: shaper, precedence by DSCP, fair shares
//! by host *and* by flow, and every flow's queue kept short.
//!
//! Høiland-Jørgensen, Täht and Morton, "Piece of CAKE: a comprehensive queue management solution
//! for home gateways", LANMAN 2018, and its public documentation (tc-cake(8)). From the outside in:
//!
//! **Shaper** (section III.A of the paper). A clock that each packet moves on by its length over
//! `rate`; nothing leaves before it. Idle time earns no credit, so there is never a burst: in any
//! time *T* in which the host dequeues on time, at most *r T* + one packet leave. A host that is
//! woken late may catch up by 5 ms, as on an interface.
//!
//! **Tins** (III.B). A packet's DSCP selects one of up to four tins, which have an order and a
//! *threshold*, a part of the rate:
//!
//! ```text
//! tin:                  best effort   bulk    video   voice      from the lowest to the highest
//! threshold:            all           1/16    1/2     1/4
//! ```
//!
//! Each tin has a clock of its threshold. The highest tin whose clock is due is served; if none is,
//! the one whose clock is due first. The clock is never more than the packet just sent ahead, so
//! what a tin took of an idle link is not charged to it later. So a tin has precedence for as long
//! as it takes less than its threshold, and above it gets what the others leave: nobody gains by
//! marking everything "voice". Without a rate there are no clocks, and tins take turns by bytes in
//! proportion to their thresholds.
//!
//! **Hosts and flows** (III.C): `flows/host_fair.rs`. **COBALT** (III.D), CoDel and BLUE for each
//! queue: `flows/cobalt.rs`. CoDel's target is at least two rounds of the tin's flows, and four
//! packets.
//!
//! **Ingress** (`ingress` of tc-cake(8)). Where packets are shaped that have arrived, what is
//! dropped has taken the line already. So a drop moves the clocks of the shaper, the tin and, if
//! COBALT chose it, the flow, as a packet that leaves does: what *arrives* keeps to the rate, and
//! the queue before the line stays empty. While there is a backlog at least 2/3 of the rate leave,
//! whatever is dropped, by a second clock that has its say packet by packet (CAKE's runs on from
//! when the queue was empty last); and the clock of the shaper is at most an interval ahead for
//! drops, since senders have heard of older ones.
//!
//! Departures, besides those of `host_fair.rs` and the last two: the clock of the shaper is exact;
//! the limit counts bytes on the wire and not memory; CoDel's target counts a tin's flows also
//! without `ingress`. What the link adds to a packet is in its length already (`overhead` of the
//! interface). Not here: the ACK filter and `wash` (docs/disciplines/not-built.md); `nat` is a
//! setting of the interface.

use super::codel::Law;
use crate::bounds::{Terms, WorstCase};
use crate::discipline::{Build, Discipline, Next, Plan, Reason, Sink, Verdict};
use crate::flows::host_fair::{Fair, Flows, FlowsLaw, Shortened};
use crate::inspect::{Inspection, Value};
use crate::kind::{Check, Children, Kind, Properties};
use crate::link::Link;
use crate::link_clock::LinkClock;
use crate::packet::{Dscp, Packet};
use crate::portion::Portion;
use crate::random::Rng;
use crate::settings::{Problem, Raw, SettingValue};
use crate::units::{Bandwidth, Bytes, Duration, Instant, Rate};
use crate::{choices, settings};
use std::any::Any;
use std::sync::Arc;

/// The registration.
pub static KIND: Kind = Kind {
    name: "cake",
    summary: "A shaper, precedence by DSCP, fair shares by host and by flow, and every flow's queue kept short",
    reference: "Høiland-Jørgensen, Täht and Morton, \"Piece of CAKE\", LANMAN 2018",
    children: Children::None,
    settings: Settings::SETTINGS,
    class_settings: &[],
    properties: Properties {
        takes_over: true,
        elsewhere: &["sqm", "cake_mq"],
        ..Properties::NONE
    },
    check,
};

choices! {
    /// Which tins there are.
    pub enum Tins {
        /// One for all.
        BestEffort = "besteffort",
        /// Best effort, bulk and voice.
        DiffServ3 = "diffserv3",
        /// Best effort, bulk, video and voice.
        DiffServ4 = "diffserv4",
    }
}

/// A tin's name and its threshold in 16ths of the rate; the lowest first.
const TINS: [(&str, u64); 4] = [("best_effort", 16), ("bulk", 1), ("video", 8), ("voice", 4)];
const BULK: usize = 1;
const VIDEO: usize = 2;
const VOICE: usize = 3;

impl Tins {
    /// Those that there are, by their number in [`TINS`].
    fn all(self) -> &'static [usize] {
        match self {
            Self::BestEffort => &[0],
            Self::DiffServ3 => &[0, BULK, VOICE],
            Self::DiffServ4 => &[0, BULK, VIDEO, VOICE],
        }
    }

    /// Which of [`Tins::all`] takes this DSCP: CS1 and LE (RFC 8622) are bulk; CS6, CS7, EF,
    /// VOICE-ADMIT (RFC 5865) and the old "minimum delay" of RFC 1349 are voice. With four tins CS4
    /// and CS5 are voice too, and CS2, CS3, AF2x to AF4x and the "minimum delay" are video.
    fn of(self, dscp: Dscp) -> usize {
        let tin = match (dscp.value(), self) {
            (_, Self::BestEffort) => 0,
            (1 | 8, _) => BULK,
            (44 | 46 | 48 | 56, _) | (4, Self::DiffServ3) | (32 | 40, Self::DiffServ4) => VOICE,
            (4 | 16 | 18 | 20 | 22 | 24 | 26 | 28 | 30 | 34 | 36 | 38, Self::DiffServ4) => VIDEO,
            _ => 0,
        };
        self.all().iter().position(|&other| other == tin).unwrap_or(0)
    }
}

/// A rate to shape to, or none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shaped(Option<Rate>);

impl SettingValue for Shaped {
    const UNIT: &'static str =
        "a rate such as \"20 Mbit/s\", a share of the link such as \"40 %\", or \"unlimited\"";
    fn from_raw(raw: &Raw) -> Result<Self, String> {
        match raw {
            Raw::Text(text) if text == "unlimited" => Ok(Self(None)),
            other => Rate::from_raw(other)
                .map(|rate| Self(Some(rate)))
                .map_err(|e| format!("{e}; or \"unlimited\"")),
        }
    }
}

settings! {
    /// Settings of `cake`.
    pub struct Settings {
        /// The rate to which packets are shaped
        rate: Shaped = default "100 %",
            "above the rate of the narrowest link: the queue builds up there; \"unlimited\": another discipline has to shape",
            "the link's bandwidth, to which the interface shapes it too";
        /// Among whom shares are equal
        fair: Fair = default "triple",
            "flows: a host with more connections gets more; hosts: a host's flows are not distinguished",
            "tc-cake(8)";
        /// Which tins the DSCP chooses from
        tins: Tins = default "diffserv3",
            "besteffort: marks mean nothing",
            "tc-cake(8)";
        /// How many queues there are for flows
        flows: u32 = default "1024",
            "fewer than flows backlogged at once: some share a queue; too large: memory, 250 B for each",
            "tc-cake(8)";
        /// How far a flow may be ahead of its share and still precede the others
        quantum: Bytes = derived "the link's longest packet",
            "too small: sparse flows are delayed by others; too large: the first packets of bulk flows precede all others",
            "RFC 8290, section 4.1.2";
        /// Bytes queued at most, by all queues together
        limit_bytes: Bytes = derived "what the rate brings in four intervals, at least 1 MB; 32 MB if unlimited",
            "too small: bursts are dropped; too large: memory, and long queueing delays behind unresponsive senders until BLUE acts",
            "tc-cake(8), which has at least 4 MB of the kernel's memory";
        /// The acceptable sojourn time
        target: Duration = derived "for each tin 5 ms, or the time to send 1.5 full packets at its threshold if that is longer",
            "too small: flows do not reach their share; too large: queueing delay for nothing",
            "RFC 8289, section 4.3";
        /// How long the sojourn time must exceed target before the first drop; about the longest
        /// round trip of most flows
        interval: Duration = derived "100 ms, and what target has above 5 ms",
            "too small: drops before senders can react; too large: long delays before the first drop",
            "RFC 8289, section 4.3";
        /// Whether ECN-capable packets are marked instead of dropped
        ecn: bool = default "true",
            "false: ECN-capable senders suffer drops for nothing",
            "RFC 8290, section 5.2.6; BLUE never marks, since it is for unresponsive senders";
        /// Whether dropped packets count against the rate: for what has arrived by the line
        ingress: bool = default "false",
            "false where packets have come by the line: what is dropped fills the queue before it; true where they go to it: a drop takes rate for nothing",
            "tc-cake(8)";
    }
}

const MAX_FLOWS: u32 = 1 << 16;
/// How far a caller that is woken late may catch up while there is a backlog.
const CATCH_UP: Duration = Duration::from_millis(5);
const LEAST_LIMIT: Bytes = Bytes::new(1_000_000);
const UNSHAPED_LIMIT: Bytes = Bytes::new(32_000_000);

/// A tin as checked.
#[derive(Clone, PartialEq, Debug)]
struct TinPlan {
    name: &'static str,
    /// Its threshold.
    rate: Bandwidth,
    /// What it may send on a visit if there is no rate.
    turn: i64,
    law: Law,
    /// The time of a full packet at the threshold.
    packet_time: Duration,
}

/// A checked plan.
#[derive(Clone, PartialEq, Debug)]
struct CakePlan {
    rate: Option<Bandwidth>,
    fair: Fair,
    choice: Tins,
    tins: Vec<TinPlan>,
    flows: u32,
    quantum: u64,
    limit: u64,
    ingress: bool,
}

fn check(check: &mut Check<'_>) -> Option<Arc<dyn Plan>> {
    let settings = Settings::read(check.settings, &[], check.problems)?;
    let (link, mut wrong) = (check.link, Vec::new());
    let rate = settings.rate.0.map(|rate| rate.on(link.bandwidth));
    if rate == Some(Bandwidth::ZERO) {
        wrong.push((
            "rate",
            "`rate` must be more than 0: nothing could leave".to_string(),
        ));
    }
    if rate.is_none() && settings.ingress {
        let why = "`ingress` counts what is dropped against `rate`, and there is none: state it, or leave `ingress` out";
        wrong.push(("ingress", why.into()));
    }
    if !(1..=MAX_FLOWS).contains(&settings.flows) {
        wrong.push(("flows", format!("`flows` must be from 1 to {MAX_FLOWS}")));
    }
    let quantum = settings.quantum.unwrap_or(link.mtu.max(Bytes::new(256))).get();
    if !(256..=1 << 30).contains(&quantum) {
        wrong.push(("quantum", "`quantum` must be from 256 B to 1 GiB".into()));
    }
    if settings.limit_bytes.is_some_and(|limit| limit < link.mtu) {
        wrong.push((
            "limit_bytes",
            format!("`limit_bytes` is less than one full packet ({})", link.mtu),
        ));
    }
    let of_all = rate.unwrap_or(link.bandwidth);
    let mut tin = |number: usize| {
        let (name, part) = TINS[number];
        let rate =
            Bandwidth::bits_per_sec((u128::from(of_all.bits()) * u128::from(part)).div_ceil(16) as u64);
        let law = Law::new(
            settings.target,
            settings.interval,
            settings.ecn,
            Link {
                bandwidth: rate,
                ..link
            },
        );
        let law = law.map_err(|fault| wrong.push(fault)).ok()?;
        let turn = (part * link.mtu.get().max(256)).min(1 << 40) as i64;
        Some(TinPlan {
            name,
            rate,
            turn,
            law,
            packet_time: rate.time_to_send(link.mtu),
        })
    };
    let tins: Vec<TinPlan> = settings
        .tins
        .all()
        .iter()
        .filter_map(|&number| tin(number))
        .collect();
    let at = |key: &str| check.settings.place(key);
    // A fault of the law shows in every tin.
    wrong.dedup();
    let problems: Vec<_> = wrong
        .into_iter()
        .map(|(key, message)| Problem::new(at(key), message))
        .collect();
    if !problems.is_empty() {
        check.problems.extend(problems);
        return None;
    }
    let longest = tins.iter().map(|tin| tin.law.interval).max()?;
    let usual = rate.map_or(UNSHAPED_LIMIT, |rate| {
        rate.bytes_in(longest.times(4)).max(LEAST_LIMIT)
    });
    Some(Arc::new(CakePlan {
        rate,
        fair: settings.fair,
        choice: settings.tins,
        tins,
        flows: settings.flows,
        quantum,
        limit: settings.limit_bytes.unwrap_or(usual.max(link.mtu)).get(),
        ingress: settings.ingress,
    }))
}

impl CakePlan {
    /// How long BLUE's drop probability stays after a change, in each tin.
    fn freezes(&self) -> impl ExactSizeIterator<Item = Duration> + '_ {
        self.tins.iter().map(|tin| tin.law.target)
    }

    /// Whether flows have the same queues and tins in another plan: others would move packets that
    /// are queued.
    fn is_laid_out_as(&self, other: &Self) -> bool {
        (self.flows, self.fair, self.choice) == (other.flows, other.fair, other.choice)
    }

    fn law_of_flows(&self) -> FlowsLaw {
        FlowsLaw {
            quantum: self.quantum,
            drops_count: self.ingress,
        }
    }
}

impl Plan for CakePlan {
    fn build(&self, cx: &Build) -> Box<dyn Discipline> {
        let mut rng = cx.rng();
        Box::new(Cake {
            flows: Flows::new(
                self.fair,
                self.flows,
                self.law_of_flows(),
                self.freezes(),
                rng.bits(),
            ),
            tins: self
                .tins
                .iter()
                .map(|tin| Tin {
                    pace: pace(tin.rate),
                    turn: 0,
                })
                .collect(),
            shaper: self.rate.map(|rate| Shaper::new(rate, self.ingress)),
            visited: 0,
            rng,
            waits: 0,
            awaited: Vec::new(),
            plan: self.clone(),
        })
    }

    fn bounds(&self, _terms: &Terms<'_>) -> Vec<WorstCase> {
        let why =
            "a packet is delayed by all backlogged flows and hosts, and nothing bounds how many there are";
        vec![WorstCase {
            class: None,
            bound: Err(why.into()),
        }]
    }
}

/// A tin's clock. While the tin is backlogged, what it did not get of its threshold is not
/// forgotten.
fn pace(rate: Bandwidth) -> LinkClock {
    LinkClock::new(rate, Duration::from_nanos(u64::MAX))
}

/// A tin at work.
#[derive(Debug)]
struct Tin {
    pace: LinkClock,
    /// Bytes left of its turn, if there is no rate.
    turn: i64,
}

impl Tin {
    /// Takes this much of the rate.
    fn charge(&mut self, now: Instant, len: Bytes) {
        let ahead = self.pace.busy_until(now).is_some();
        self.pace.send(now, len);
        // One that was due is ahead by this packet at most.
        if ahead {
            self.pace.forgive(now + self.pace.rate().time_to_send(len));
        }
    }
}

/// What packets wait for.
#[derive(Debug)]
struct Shaper {
    clock: LinkClock,
    /// With `ingress`: what leaves at least.
    least: Option<LinkClock>,
}

impl Shaper {
    fn new(rate: Bandwidth, ingress: bool) -> Self {
        Self {
            clock: LinkClock::new(rate, CATCH_UP),
            least: ingress.then(|| LinkClock::new(least(rate), CATCH_UP)),
        }
    }

    /// Nothing was queued before.
    fn start(&mut self, now: Instant) {
        self.clock.start(now);
        if let Some(least) = &mut self.least {
            least.start(now);
        }
    }

    /// When a packet may leave, if not yet.
    fn busy_until(&self, now: Instant) -> Option<Instant> {
        let by_rate = self.clock.busy_until(now)?;
        match &self.least {
            Some(least) => least.busy_until(now).map(|at| at.min(by_rate)),
            None => Some(by_rate),
        }
    }

    /// A packet leaves.
    fn send(&mut self, now: Instant, len: Bytes) {
        self.clock.send(now, len);
        if let Some(least) = &mut self.least {
            least.send(now, len);
            least.forgive(now + least.rate().time_to_send(len));
        }
    }

    /// Packets of this length are dropped that count; the clock may be this far ahead for it.
    fn lose(&mut self, now: Instant, len: Bytes, most: Duration) {
        let latest = self.clock.free_at().max(now + most);
        self.clock.send(now, len);
        self.clock.forgive(latest);
    }

    fn retune(&mut self, rate: Bandwidth, ingress: bool, now: Instant) {
        self.clock.retune(rate, now);
        self.least = ingress.then(|| match self.least.take() {
            Some(mut clock) => {
                clock.retune(least(rate), now);
                clock
            }
            None => {
                let mut clock = LinkClock::new(least(rate), CATCH_UP);
                clock.start(now);
                clock
            }
        });
    }
}

/// What leaves at least of a rate to which what arrives is shaped.
fn least(rate: Bandwidth) -> Bandwidth {
    Bandwidth::bits_per_sec((u128::from(rate.bits()) * 2).div_ceil(3) as u64)
}

#[derive(Debug)]
struct Cake {
    plan: CakePlan,
    flows: Flows,
    tins: Vec<Tin>,
    shaper: Option<Shaper>,
    /// The tin whose turn it is, if there is no rate.
    visited: usize,
    rng: Rng,
    /// Dequeues that had to wait for the rate.
    waits: u64,
    /// By tin, packets that another one is still to hand on: for its clocks they are here.
    awaited: Vec<u64>,
}

impl Cake {
    /// Starts the clocks that a packet of this tin finds at rest.
    #[inline]
    fn start_clocks(&mut self, now: Instant, tin: usize, handed_on: bool) {
        if !self.awaited.is_empty() {
            match handed_on {
                true => return self.receive(now, tin),
                false => self.awaited.clear(),
            }
        }
        if let (0, Some(shaper)) = (self.flows.held(), &mut self.shaper) {
            shaper.start(now);
        }
        if self.flows.packets(tin) == 0 {
            self.tins[tin].pace.start(now);
        }
    }

    /// The same for one that another one hands on.
    #[cold]
    fn receive(&mut self, now: Instant, tin: usize) {
        let idle = self.awaited.iter().all(|awaited| *awaited == 0);
        if let (true, 0, Some(shaper)) = (idle, self.flows.held(), &mut self.shaper) {
            shaper.start(now);
        }
        let awaited = &mut self.awaited[tin];
        if *awaited == 0 && self.flows.packets(tin) == 0 {
            self.tins[tin].pace.start(now);
        }
        *awaited = awaited.saturating_sub(1);
    }

    /// The tin to serve; a backlogged one, if any is.
    fn tin(&mut self, now: Instant) -> usize {
        match self.shaper {
            Some(_) => self.by_clock(now),
            None => self.by_turn(),
        }
    }

    fn by_clock(&self, now: Instant) -> usize {
        if let Some(tin) = self.flows.only() {
            return tin;
        }
        let busy = (0..self.tins.len())
            .rev()
            .filter(|&tin| self.flows.packets(tin) > 0);
        // The first of equals is the highest.
        busy.min_by_key(|&tin| self.tins[tin].pace.busy_until(now))
            .unwrap_or(0)
    }

    fn by_turn(&mut self) -> usize {
        if self.flows.held() == 0 {
            return self.visited;
        }
        loop {
            let tin = &mut self.tins[self.visited];
            if self.flows.packets(self.visited) == 0 {
                tin.turn = tin.turn.min(0);
            } else if tin.turn > 0 {
                return self.visited;
            }
            self.visited = (self.visited + 1) % self.tins.len();
            if self.flows.packets(self.visited) > 0 {
                self.tins[self.visited].turn += self.plan.tins[self.visited].turn;
            }
        }
    }

    /// A packet of this tin leaves.
    fn charge(&mut self, tin: usize, now: Instant, len: Bytes) {
        let Some(shaper) = &mut self.shaper else {
            self.tins[tin].turn -= len.get() as i64;
            return;
        };
        shaper.send(now, len);
        self.tins[tin].charge(now, len);
    }

    /// What a tin holds, where drops count.
    #[inline]
    fn counted_of(&self, tin: usize) -> Option<Bytes> {
        self.plan.ingress.then(|| self.flows.bytes_in(tin))
    }

    /// What has gone from a tin since it held that much, but for what was sent, is dropped.
    #[inline]
    fn charge_since(&mut self, tin: usize, now: Instant, before: Option<Bytes>, sent: Bytes) {
        if let Some(before) = before {
            let gone = before - self.flows.bytes_in(tin);
            self.charge_drops(tin, now, (gone - sent).get());
        }
    }

    /// Packets of this tin are dropped.
    fn charge_drops(&mut self, tin: usize, now: Instant, len: u64) {
        if let (true, Some(shaper), 1..) = (self.plan.ingress, &mut self.shaper, len) {
            shaper.lose(now, Bytes::new(len), self.plan.tins[tin].law.interval);
            self.tins[tin].charge(now, Bytes::new(len));
        }
    }

    /// CoDel's law in this tin, with a target of a few rounds at least.
    fn law(&self, tin: usize) -> Law {
        let TinPlan { law, packet_time, .. } = self.plan.tins[tin];
        let round = packet_time.times((2 * self.flows.bulk(tin)).max(4));
        Law {
            target: law.target.max(round),
            ..law
        }
    }
}

impl Discipline for Cake {
    fn enqueue(&mut self, now: Instant, packet: Packet, sink: &mut dyn Sink) -> Verdict {
        let tin = self.plan.choice.of(packet.dscp);
        self.start_clocks(now, tin, packet.handed_on);
        let queue = self.flows.put(now, tin, packet);
        while self.flows.bytes() > self.plan.limit {
            let Some(Shortened {
                queue: shortened,
                tin,
                len,
            }) = self.flows.shorten(now, sink)
            else {
                break;
            };
            self.charge_drops(tin, now, len.get());
            // The arriving packet is the last of its queue, so it was dropped if and only if none
            // is left there.
            if shortened == queue && self.flows.is_empty(queue) {
                return Verdict::Dropped(Reason::Longest);
            }
        }
        Verdict::Queued
    }

    fn dequeue(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<Packet> {
        while self.flows.held() > 0 {
            if let Some(at) = self.shaper.as_ref().and_then(|shaper| shaper.busy_until(now)) {
                self.waits += 1;
                return Next::Wait(at);
            }
            let tin = self.tin(now);
            let law = self.law(tin);
            let before = self.counted_of(tin);
            if let Some(packet) = self.flows.serve(tin, &law, now, &mut self.rng, sink) {
                self.charge_since(tin, now, before, packet.len);
                self.charge(tin, now, packet.len);
                return Next::Ready(packet);
            }
            self.charge_since(tin, now, before, Bytes::ZERO);
        }
        Next::Empty
    }

    fn flush(&mut self, portion: &mut Portion, sink: &mut dyn Sink) {
        self.flows.flush(portion, sink);
    }

    fn take_over(&mut self, now: Instant, former: &mut dyn Discipline) -> u32 {
        let same = |former: &&mut Self| former.plan.is_laid_out_as(&self.plan);
        let Some(former) = former.of_type::<Self>().filter(same) else {
            return 0;
        };
        let own = std::mem::replace(&mut self.plan, former.plan.clone());
        std::mem::swap(&mut self.rng, &mut former.rng);
        std::mem::swap(&mut self.tins, &mut former.tins);
        self.shaper = former.shaper.take();
        (self.visited, self.waits) = (former.visited, former.waits);
        let awaited = (0..self.tins.len()).map(|tin| former.flows.packets(tin));
        self.awaited = awaited.collect();
        let looked = self.flows.take_over(&mut former.flows);
        let _ = self.retune(now, &own);
        looked
    }

    fn inspect(&self, out: &mut Inspection<'_>) {
        if let Some(shaper) = &self.shaper {
            out.gauge("rate", Value::Bandwidth(shaper.clock.rate()));
            out.gauge("waits", Value::Count(self.waits));
        }
        for (number, tin) in self.plan.tins.iter().enumerate() {
            out.gauge(tin.name, Value::Bytes(self.flows.bytes_in(number)));
        }
        self.flows.inspect(out);
        out.gauge("limit", Value::Bytes(Bytes::new(self.plan.limit)));
    }

    fn retune(&mut self, now: Instant, plan: &dyn Plan) -> bool {
        let plan: &dyn Any = plan;
        let Some(plan) = plan.downcast_ref::<CakePlan>() else {
            return false;
        };
        if !self.plan.is_laid_out_as(plan) {
            return false;
        }
        if (plan.rate, plan.ingress) != (self.plan.rate, self.plan.ingress) {
            self.shaper = plan.rate.map(|rate| match self.shaper.take() {
                Some(mut shaper) => {
                    shaper.retune(rate, plan.ingress, now);
                    shaper
                }
                None => Shaper::new(rate, plan.ingress),
            });
        }
        for (tin, (old, new)) in self.tins.iter_mut().zip(self.plan.tins.iter().zip(&plan.tins)) {
            if old.rate != new.rate {
                let since = tin.pace.free_at();
                tin.pace = pace(new.rate);
                tin.pace.start(since);
            }
        }
        self.flows.retune(plan.law_of_flows(), plan.freezes());
        self.plan = plan.clone();
        true
    }
}

#[cfg(test)]
mod tests {
    // What is not seen from outside; the rest is in `tests/cake.rs`.
    use super::*;
    use crate::settings::{Raw, Table};
    use crate::trials::{self, LINK};

    fn millis(n: u64) -> Instant {
        Instant::from_nanos(n * 1_000_000)
    }

    /// A thousand bytes take a millisecond.
    const PACKET: Bytes = Bytes::new(1_000);

    fn tin() -> Tin {
        Tin {
            pace: pace(Bandwidth::mbit(8)),
            turn: 0,
        }
    }

    #[test]
    fn a_tin_that_was_due_is_charged_and_one_that_was_ahead_is_a_packet_ahead_at_most() {
        let mut tin = tin();
        tin.pace.start(millis(5));
        for expected in [6, 6] {
            tin.charge(millis(5), PACKET);
            assert_eq!(tin.pace.free_at(), millis(expected));
        }
        tin.charge(millis(9), PACKET);
        assert_eq!(
            tin.pace.free_at(),
            millis(7),
            "what it did not get is not forgotten"
        );
        tin.charge(millis(9), PACKET.times(9));
        assert_eq!(tin.pace.free_at(), millis(16), "it was due");
    }

    fn cake(table: Table) -> Box<dyn Discipline> {
        trials::built(&trials::planned("cake", table, LINK))
    }

    #[test]
    fn tins_have_sixteenths_of_the_rate_and_new_clocks_for_a_new_rate() {
        let rates = |cake: &mut dyn Discipline| -> Vec<u64> {
            let cake = cake.of_type::<Cake>().expect("a `cake`");
            let rate = |tin: &Tin| tin.pace.rate().bits();
            cake.tins.iter().map(rate).collect()
        };
        let mut cake = cake(
            Table::default()
                .text("tins", "besteffort")
                .text("rate", "8 Mbit/s"),
        );
        assert_eq!(rates(&mut *cake), [8_000_000]);
        let own = cake.of_type::<Cake>().expect("a `cake`");
        own.tins[0].pace.start(millis(9));
        let other = |table: Table| trials::planned("cake", table, LINK).plan;
        let slower = Table::default()
            .text("tins", "besteffort")
            .text("rate", "4 Mbit/s");
        assert!(cake.retune(millis(3), &*other(slower.clone())));
        assert_eq!(rates(&mut *cake), [4_000_000]);
        let own = cake.of_type::<Cake>().expect("a `cake`");
        assert_eq!(own.tins[0].pace.free_at(), millis(9));
        // A clock of the same rate goes on with its remainder.
        own.tins[0].pace.send(millis(9), Bytes::new(1));
        let former = own.tins[0].pace.state();
        assert!(cake.retune(millis(3), &*other(slower.with("ingress", Raw::Boolean(true)))));
        let own = cake.of_type::<Cake>().expect("a `cake`");
        assert_eq!(own.tins[0].pace.state(), former);
        assert!(own.shaper.as_ref().is_some_and(|shaper| shaper.least.is_some()));
        assert!(!cake.retune(millis(3), &*other(Table::default())), "other tins");
        assert!(!cake.retune(millis(3), &*trials::planned("fifo", Table::default(), LINK).plan));
        let unlimited = Table::default()
            .text("tins", "besteffort")
            .text("rate", "unlimited");
        assert!(cake.retune(millis(3), &*other(unlimited)));
        assert!(cake.of_type::<Cake>().is_some_and(|cake| cake.shaper.is_none()));
    }

    #[test]
    fn settings_are_refused_beyond_their_limits_and_not_at_them() {
        let ends = [
            ("limit_bytes", "999 B", "1000 B"),
            ("quantum", "255 B", "256 B"),
            ("quantum", "1073741825 B", "1073741824 B"),
            ("rate", "0 bit/s", "1 kbit/s"),
        ];
        trials::ends_between("cake", LINK, &ends);
        let flows = |n| trials::refused("cake", Table::default().with("flows", Raw::Integer(n)), LINK);
        let found = [0, 1, 1 << 16, (1 << 16) + 1].map(|n| flows(n).is_some());
        assert_eq!(found, [true, false, false, true]);
        let ingress = |rate| {
            let table = Table::default()
                .with("ingress", Raw::Boolean(true))
                .text("rate", rate);
            trials::refused("cake", table, LINK).is_some()
        };
        assert!(ingress("unlimited") && !ingress("8 Mbit/s"));
    }

    #[test]
    fn the_usual_limit_is_four_intervals_and_a_megabyte_at_least() {
        let limit = |rate: &str| {
            let table = Table::default().text("tins", "besteffort").text("rate", rate);
            trials::gauge(&*cake(table), "limit")
        };
        let bytes = |n| Some(Value::Bytes(Bytes::new(n)));
        assert_eq!(limit("8 Mbit/s"), bytes(1_000_000));
        assert_eq!(limit("80 Mbit/s"), bytes(4_000_000));
        assert_eq!(limit("unlimited"), bytes(32_000_000));
    }
}
