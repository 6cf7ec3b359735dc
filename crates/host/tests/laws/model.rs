//! A packet-level model of a bottleneck with TCP senders, to close the loop of a law in no time.
//!
//! It has a drop-tail buffer; slow start with HyStart; CUBIC's growth and decrease, or [`Bbr`];
//! windows whose right edge never moves left; and the persist timer below one segment. The
//! interface counts an upload before the bottleneck, and a download behind it. The model is coarse
//! beside a kernel: a loss is detected one round trip later, and retransmissions are not modelled.

use crate::bbr::Bbr;
use engine::units::{Bytes, Duration, Instant};
use host::{
    Bottleneck, ConnectionId, DataDirection, FlowLimit, FlowSample, Law, LawInput, LimitOrder, LinkCounters,
    Member, MemberId,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

const MSS: u64 = 1_448;
const FRAME: u64 = 1_514;
const SCALE: u8 = 7;
const MS: u64 = 1_000_000;
/// The longest time for which an ACK waits for a second segment.
const DELAYED_ACK: u64 = 40 * MS;
/// The persist timer of a sender whose window is smaller than a segment.
const PERSIST: u64 = 220 * MS;
/// The initial window of a receiver; the kernel lets it grow.
const FREE: u64 = 65_535;
/// The delay from the bottleneck to the receiver, which is next to it.
const BEHIND: u64 = MS;
/// The ACKs of a frame, in frames: every second one is acknowledged.
const ACK: f64 = 66.0 / 1_514.0 / 2.0;
/// The time resolution of recorded rates.
const BIN: u64 = 100 * MS;

/// The load that the application offers.
#[derive(Clone, Copy, Debug)]
pub enum Offered {
    /// Unlimited.
    All,
    /// A burst of `bytes` of frames every `every` milliseconds.
    Bursts { bytes: u64, every: u64 },
}

/// A connection to add.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// Its member; none: other traffic.
    pub member: Option<u32>,
    pub from: u64,
    pub until: u64,
    pub offered: Offered,
    /// The round trip without a queue, in milliseconds.
    pub rtt: u64,
    /// BBR; otherwise CUBIC.
    pub bbr: bool,
    /// Another host's behind the same line: the interface does not count it.
    pub unseen: bool,
}

impl Spec {
    pub fn of(member: Option<u32>, from: u64, until: u64) -> Self {
        Self {
            member,
            from,
            until,
            offered: Offered::All,
            rtt: 20,
            bbr: false,
            unseen: false,
        }
    }
}

#[derive(Debug)]
struct Flow {
    spec: Spec,
    cwnd: f64,
    ssthresh: f64,
    before_loss: f64,
    lost_at: u64,
    /// CUBIC's K: seconds after a loss until it regains the former cwnd.
    plateau: f64,
    start: SlowStart,
    bbr: Option<Bbr>,
    /// Segments: sent, acknowledged or deemed lost, and the right edge of the window.
    sent: u64,
    done: u64,
    edge: u64,
    available: u64,
    owed: u64,
    window: u64,
    pace: f64,
    paced_until: u64,
    carried: u64,
    lost: u64,
    rtt: f64,
    /// The sending time of a segment whose ACK waits for a second one: of an upload.
    unacked: Option<u64>,
    woken: bool,
    bins: Vec<u64>,
}

/// The state of Linux's HyStart: the current round and the minimum RTT, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct SlowStart {
    shortest: u64,
    round_ends: u64,
    round_began: u64,
    last_ack: u64,
    round_trip: u64,
    samples: u32,
}

impl SlowStart {
    const fn new() -> Self {
        Self {
            shortest: u64::MAX,
            round_ends: 0,
            round_began: 0,
            last_ack: 0,
            round_trip: u64::MAX,
            samples: 0,
        }
    }

    /// Whether slow start ends with this ACK: the ACK train of a round lasts half an RTT, or the
    /// RTT has grown by an eighth (4 to 16 ms).
    fn is_over(&mut self, now: u64, round_trip: u64, done: u64, sent: u64, window: f64) -> bool {
        self.shortest = self.shortest.min(round_trip);
        if window < 16.0 {
            return false;
        }
        if done > self.round_ends {
            *self = Self {
                round_ends: sent,
                round_began: now,
                last_ack: now,
                round_trip: u64::MAX,
                samples: 0,
                ..*self
            };
        }
        let mut over = false;
        if now - self.last_ack <= 2 * MS {
            self.last_ack = now;
            over |= now - self.round_began > (self.shortest + MS) / 2;
        }
        self.round_trip = self.round_trip.min(round_trip);
        self.samples += 1;
        over |=
            self.samples > 8 && self.round_trip > self.shortest + (self.shortest / 8).clamp(4 * MS, 16 * MS);
        over
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    Start(usize),
    /// A segment reaches the receiver; the sending time.
    Arrive(usize, u64),
    /// Its ACK reaches the sender, with the window's right edge and the sending time.
    Ack(usize, u64, u64),
    /// A segment is deemed lost; the sending time.
    Loss(usize, u64),
    Wake(usize),
    Burst(usize),
    Tick,
}

/// The bottleneck, its connections, and the law at the receiver.
pub struct Model {
    now: u64,
    rate: u64,
    buffer: u64,
    free_at: u64,
    received: u64,
    flows: Vec<Flow>,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    members: Vec<Member>,
    bottleneck: Bottleneck,
    direction: DataDirection,
    /// The right edge may move left, as with windows rewritten in ACKs.
    pub shrinks: bool,
    /// What samples report of what was carried.
    pub counted: f64,
    /// What the link's counter reports of a byte at this time in milliseconds.
    pub counts: fn(u64) -> f64,
    /// Whether the tick at this time in milliseconds is missed.
    pub missed: fn(u64) -> bool,
    /// The line's own delay of a frame that passes at this time in nanoseconds, beyond the queue's:
    /// of a radio link, for instance. Frames stay in order.
    pub jitter: fn(u64) -> u64,
    passed_at: u64,
    /// What this host sends by the other direction at this time in milliseconds, besides ACKs, in
    /// Mbit/s, and how long its queue takes there, in milliseconds.
    pub other_way: fn(u64) -> (f64, f64),
    sent: f64,
    ticked_at: u64,
    acked_at: u64,
    /// All orders, with their times in milliseconds.
    pub orders: Vec<(u64, Vec<LimitOrder>)>,
}

impl Model {
    pub fn new(mbit: u64, buffer: u64, members: &[Member], bottleneck: Bottleneck) -> Self {
        Self {
            now: 0,
            rate: mbit * 1_000_000,
            buffer,
            free_at: 0,
            received: 0,
            flows: Vec::new(),
            events: BinaryHeap::new(),
            members: members.to_vec(),
            bottleneck,
            direction: DataDirection::Download,
            shrinks: false,
            counted: 0.99,
            counts: |_| 1.0,
            missed: |_| false,
            jitter: |_| 0,
            passed_at: 0,
            other_way: |_| (0.0, 0.0),
            sent: 0.0,
            ticked_at: 0,
            acked_at: 0,
            orders: Vec::new(),
        }
    }

    pub fn upload(mut self) -> Self {
        self.direction = DataDirection::Upload;
        self
    }

    /// The line has this rate from now on.
    pub fn becomes(&mut self, mbit: u64) {
        let left = u128::from(self.free_at.saturating_sub(self.now)) * u128::from(self.rate);
        self.rate = mbit * 1_000_000;
        self.free_at = self.now + u64::try_from(left / u128::from(self.rate)).unwrap_or_default();
    }

    pub fn add(&mut self, spec: Spec) -> usize {
        let number = self.flows.len();
        self.at(spec.from * MS, Event::Start(number));
        if let Offered::Bursts { .. } = spec.offered {
            self.at(spec.from * MS, Event::Burst(number));
        }
        self.flows.push(Flow {
            spec,
            cwnd: 10.0,
            ssthresh: f64::INFINITY,
            before_loss: 0.0,
            lost_at: 0,
            plateau: 0.0,
            start: SlowStart::new(),
            bbr: spec.bbr.then(Bbr::new),
            sent: 0,
            done: 0,
            edge: 45,
            available: match spec.offered {
                Offered::All => u64::MAX,
                Offered::Bursts { .. } => 0,
            },
            owed: 0,
            window: if spec.member.is_some() { FREE } else { 6_000_000 },
            pace: f64::INFINITY,
            paced_until: 0,
            carried: 0,
            lost: 0,
            rtt: 0.0,
            unacked: None,
            woken: false,
            bins: Vec::new(),
        });
        number
    }

    fn at(&mut self, time: u64, event: Event) {
        self.events.push(Reverse((time, event)));
    }

    /// Runs until this time in milliseconds.
    pub fn run(&mut self, law: &mut dyn Law, until: u64) {
        if self.orders.is_empty() {
            self.at(0, Event::Tick);
        }
        while let Some(&Reverse((time, event))) = self.events.peek() {
            if time > until * MS {
                return;
            }
            self.events.pop();
            self.now = time;
            self.handle(event, law);
        }
    }

    fn handle(&mut self, event: Event, law: &mut dyn Law) {
        match event {
            Event::Start(i) => self.send(i),
            Event::Arrive(i, sent) => {
                let queue = ((self.other_way)(self.now / MS).1 * MS as f64) as u64;
                let flow = &mut self.flows[i];
                let back = self.now + flow.spec.rtt * MS - BEHIND;
                // ACKs stay in order.
                let acked_at = match queue {
                    0 if back >= self.acked_at => back,
                    queue => self.acked_at.max(back + queue),
                };
                // A sender measures RTTs from the first of two segments.
                let measured_from = match flow.unacked.take() {
                    None if self.direction == DataDirection::Upload => {
                        flow.unacked = Some(sent);
                        None
                    }
                    first => Some(first.map_or(sent, |first| first.max(sent.saturating_sub(DELAYED_ACK)))),
                };
                if let Some(from) = measured_from {
                    let rtt = (acked_at - from) as f64 / 1e9;
                    flow.rtt += (rtt - flow.rtt) * if flow.rtt == 0.0 { 1.0 } else { 0.125 };
                }
                flow.carried += FRAME;
                if !flow.spec.unseen {
                    self.sent += ACK * FRAME as f64;
                    if self.direction == DataDirection::Download {
                        self.received += (FRAME as f64 * (self.counts)(self.now / MS)).round() as u64;
                    }
                }
                let bin = usize::try_from(self.now / BIN).unwrap_or_default();
                flow.bins.resize(flow.bins.len().max(bin + 1), 0);
                flow.bins[bin] += FRAME;
                let edge = flow.carried / FRAME + flow.lost + flow.window / MSS;
                if queue > 0 {
                    self.acked_at = acked_at;
                }
                self.at(acked_at, Event::Ack(i, edge, sent));
            }
            Event::Ack(i, edge, sent) => {
                let shrinks = self.shrinks;
                let now = self.now;
                let flow = &mut self.flows[i];
                flow.on_ack(now, sent);
                flow.edge = if shrinks { edge } else { flow.edge.max(edge) };
                self.send(i);
            }
            Event::Loss(i, sent) => {
                let flow = &mut self.flows[i];
                flow.done += 1;
                flow.lost += 1;
                flow.edge += 1;
                // Once for all that was sent before the last decrease.
                if flow.bbr.is_none() && sent >= flow.lost_at {
                    flow.lost_at = self.now;
                    flow.before_loss = flow.cwnd;
                    flow.plateau = (flow.cwnd * 0.3 / 0.4).cbrt();
                    flow.cwnd = (flow.cwnd * 0.7).max(2.0);
                    flow.ssthresh = flow.cwnd;
                }
                self.send(i);
            }
            Event::Wake(i) => {
                self.flows[i].woken = false;
                self.flows[i].edge = self.flows[i].edge.max(self.flows[i].sent + 1);
                self.send(i);
            }
            Event::Burst(i) => {
                let Offered::Bursts { bytes, every } = self.flows[i].spec.offered else {
                    return;
                };
                let flow = &mut self.flows[i];
                flow.owed += bytes;
                flow.available += flow.owed / FRAME;
                flow.owed %= FRAME;
                self.at(self.now + every * MS, Event::Burst(i));
                self.send(i);
            }
            Event::Tick => {
                if !(self.missed)(self.now / MS) {
                    self.tick(law);
                }
                self.at(self.now + law.interval().nanos(), Event::Tick);
            }
        }
    }

    fn alive(&self, i: usize) -> bool {
        let spec = self.flows[i].spec;
        (spec.from * MS..spec.until * MS).contains(&self.now)
    }

    fn send(&mut self, i: usize) {
        while self.alive(i) {
            let flow = &mut self.flows[i];
            let in_flight = flow.sent - flow.done;
            if flow.available == 0 || in_flight as f64 + 1.0 > flow.cwnd {
                return;
            }
            if flow.sent >= flow.edge {
                if in_flight == 0 && !flow.woken {
                    flow.woken = true;
                    self.at(self.now + PERSIST, Event::Wake(i));
                }
                return;
            }
            if flow.paced_until > self.now {
                if !flow.woken {
                    flow.woken = true;
                    let at = flow.paced_until;
                    self.at(at, Event::Wake(i));
                }
                return;
            }
            flow.sent += 1;
            flow.available -= 1;
            // What goes passes the interface before the line, and is lost behind it.
            if self.direction == DataDirection::Upload && !flow.spec.unseen {
                self.received += (FRAME as f64 * (self.counts)(self.now / MS)).round() as u64;
            }
            let mut pace = flow.pace;
            if let Some(bbr) = &mut flow.bbr {
                bbr.on_send(self.now);
                pace = pace.min(bbr.pacing_rate().map_or(pace, |rate| rate * FRAME as f64 * 8.0));
            }
            if pace.is_finite() {
                flow.paced_until = self.now + (FRAME as f64 * 8e9 / pace) as u64;
            }
            let rtt = flow.spec.rtt * MS;
            let waiting = self.free_at.saturating_sub(self.now);
            if waiting * self.rate / 8_000_000_000 + FRAME > self.buffer {
                self.at(self.now + waiting + rtt, Event::Loss(i, self.now));
                continue;
            }
            self.free_at = self.free_at.max(self.now) + FRAME * 8_000_000_000 / self.rate;
            let passes = self.free_at + (self.jitter)(self.free_at) + BEHIND;
            self.passed_at = self.passed_at.max(passes);
            self.at(self.passed_at, Event::Arrive(i, self.now));
        }
    }

    fn tick(&mut self, law: &mut dyn Law) {
        let now = Instant::from_nanos(self.now);
        let alive: Vec<usize> = (0..self.flows.len())
            .filter(|&i| self.flows[i].spec.member.is_some() && self.alive(i))
            .collect();
        let counted = self.counted;
        let reading = |&i: &usize| {
            let flow = &self.flows[i];
            // ACKs are not counted.
            let totals = match self.direction {
                DataDirection::Download => [flow.carried, 0, 0],
                DataDirection::Upload => {
                    let unacknowledged = flow.sent - flow.done + flow.lost;
                    [0, flow.sent * FRAME, unacknowledged * FRAME]
                }
            };
            let [received, sent, unacknowledged] =
                totals.map(|bytes| Bytes::new((bytes as f64 * counted) as u64));
            FlowSample {
                id: ConnectionId(i as u64),
                member: MemberId(flow.spec.member.unwrap_or_default()),
                at: now,
                received,
                sent,
                unacknowledged,
                rtt: (flow.rtt > 0.0).then(|| Duration::from_nanos((flow.rtt * 1e9) as u64)),
                min_rtt: (flow.rtt > 0.0).then(|| Duration::from_millis(flow.spec.rtt)),
                mss: Bytes::new(MSS),
                scale: SCALE,
                window: Bytes::new(flow.window),
                losses: flow.lost,
            }
        };
        let flows: Vec<FlowSample> = alive.iter().map(reading).collect();
        self.sent += (self.other_way)(self.now / MS).0 * (self.now - self.ticked_at) as f64 / 8e3;
        self.ticked_at = self.now;
        let [this, other] = [self.received, self.sent as u64].map(Bytes::new);
        let orders = law.tick(&LawInput {
            now,
            link: match self.direction {
                DataDirection::Download => LinkCounters {
                    received: this,
                    sent: other,
                },
                DataDirection::Upload => LinkCounters {
                    received: other,
                    sent: this,
                },
            },
            bottleneck: self.bottleneck,
            members: &self.members,
            flows: &flows,
        });
        assert_eq!(orders.len(), flows.len(), "one order for each connection");
        for (i, order) in alive.iter().zip(&orders) {
            assert_eq!((order.flow.0, order.direction), (*i as u64, self.direction));
            let flow = &mut self.flows[*i];
            (flow.window, flow.pace) = match order.limit {
                FlowLimit::Free => (FREE + 2 * MSS * flow.cwnd as u64, f64::INFINITY),
                FlowLimit::Window(window) => {
                    assert_eq!(window.get() % (1 << SCALE), 0, "what the scale can express");
                    (window.get(), f64::INFINITY)
                }
                FlowLimit::Parked => (0, f64::INFINITY),
                FlowLimit::Pace(rate) => (6_000_000, rate.bits() as f64),
            };
        }
        self.orders.push((self.now / MS, orders));
        // A raised window is advertised at once where no data in flight would bring an ACK.
        for i in alive {
            let flow = &mut self.flows[i];
            if flow.sent == flow.done {
                flow.edge = flow.edge.max(flow.done + flow.window / MSS);
                self.send(i);
            }
        }
    }

    /// The rate of a connection in Mbit/s between these times in milliseconds.
    pub fn rate(&self, flow: usize, from: u64, to: u64) -> f64 {
        let bins = (from * MS / BIN) as usize..(to * MS / BIN) as usize;
        let bytes: u64 = bins
            .map(|bin| self.flows[flow].bins.get(bin).copied().unwrap_or_default())
            .sum();
        bytes as f64 * 8.0 / ((to - from) as f64 * 1e3)
    }

    /// The queueing delay now, in milliseconds.
    pub fn queue_ms(&self) -> f64 {
        self.free_at.saturating_sub(self.now) as f64 / MS as f64
    }

    /// The total rate of all connections.
    pub fn total(&self, from: u64, to: u64) -> f64 {
        (0..self.flows.len()).map(|flow| self.rate(flow, from, to)).sum()
    }

    /// The rate of each member.
    pub fn by_member(&self, from: u64, to: u64) -> BTreeMap<u32, f64> {
        let mut rates = BTreeMap::new();
        for (i, flow) in self.flows.iter().enumerate() {
            if let Some(member) = flow.spec.member {
                *rates.entry(member).or_default() += self.rate(i, from, to);
            }
        }
        rates
    }
}

impl Flow {
    fn on_ack(&mut self, now: u64, sent: u64) {
        let in_flight = (self.sent - self.done) as f64;
        self.done += 1;
        if let Some(bbr) = &mut self.bbr {
            bbr.on_ack(now, sent);
            self.cwnd = bbr.cwnd();
            return;
        }
        let slow = self.cwnd < self.ssthresh;
        if slow
            && self
                .start
                .is_over(now, now - sent, self.done, self.sent, self.cwnd)
        {
            (self.ssthresh, self.before_loss, self.lost_at) = (self.cwnd, self.cwnd, now);
        }
        if in_flight + 1.0 < self.cwnd * 0.8 {
            return;
        }
        if self.cwnd < self.ssthresh {
            self.cwnd += 1.0;
            return;
        }
        let past = (now - self.lost_at) as f64 / 1e9 + self.rtt;
        let target = 0.4 * (past - self.plateau).powi(3) + self.before_loss;
        self.cwnd += ((target - self.cwnd) / self.cwnd).clamp(0.5 / self.cwnd, 0.5);
    }
}
