//! A medium that hosts share: one of them sends at a time, in whichever direction.
//!
//! A link on a medium has its queue and driver as any other; what the driver takes waits in the
//! device until the host may send. A host has one turn for all of its links on the medium, and
//! takes these in turn. How it comes to send is [`Access`]:
//!
//! - **turns**: hosts that have something take turns, a packet each, and never disturb one another.
//! - **DCF**, the access of Wi-Fi (IEEE 802.11, section 10.3): a host waits until the medium was
//!   idle for DIFS, and then for as many slots as it has drawn from its contention window. While
//!   others send, its count stands still. Hosts that begin in the same slot collide: all of it is
//!   lost, each doubles its window and draws again, up to the retry limit. What arrives alone is
//!   acknowledged after SIFS, and the window is the least again; then the host draws, too
//!   (post-backoff). With aggregation several packets of one link share a preamble and an
//!   acknowledgment.
//!
//! Everybody hears everybody, at once; nobody captures the medium in a collision; a packet fails by
//! collision alone; rates are those of links and do not adapt; after a collision hosts wait for
//! DIFS, as in Bianchi's model, and not for EIFS.

use crate::event_queue::{Event, EventQueue};
use engine::random::{Rng, Seed};
use engine::units::{Bandwidth, Bytes, Duration, Instant};

/// How hosts come to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// One after the other, with a pause after each packet.
    Turns {
        /// The pause.
        gap: Duration,
    },
    /// By the distributed coordination function of IEEE 802.11.
    Dcf(Dcf),
}

/// What a DCF has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dcf {
    /// A slot.
    pub slot: Duration,
    /// The time before an acknowledgment.
    pub sifs: Duration,
    /// The time for which the medium is idle before slots are counted.
    pub difs: Duration,
    /// What precedes the bits of a transmission.
    pub preamble: Duration,
    /// An acknowledgment with its preamble.
    pub ack: Duration,
    /// The bytes that a packet has beyond its frame.
    pub overhead: Bytes,
    /// The least contention window: a host draws from 0 to this.
    pub cw_min: u32,
    /// The greatest.
    pub cw_max: u32,
    /// How often a packet is sent again at most.
    pub retries: u32,
    /// The packets of a transmission at most.
    pub aggregation: u32,
    /// The time of a transmission at most, if it has several packets.
    pub longest: Duration,
}

impl Access {
    /// The most packets of one transmission.
    pub(crate) fn aggregation(&self) -> u32 {
        match self {
            Self::Turns { .. } => 1,
            Self::Dcf(dcf) => dcf.aggregation.max(1),
        }
    }

    /// The time of a transmission at most, if it has several packets.
    pub(crate) fn longest(&self) -> Duration {
        match self {
            Self::Turns { .. } => Duration::ZERO,
            Self::Dcf(dcf) => dcf.longest,
        }
    }

    /// What precedes the first bit of a transmission.
    pub(crate) fn preamble(&self) -> Duration {
        match self {
            Self::Turns { .. } => Duration::ZERO,
            Self::Dcf(dcf) => dcf.preamble,
        }
    }

    /// How long a frame takes at a rate, without what precedes the first.
    pub(crate) fn time_of(&self, frame: Bytes, rate: Bandwidth) -> Duration {
        let overhead = match self {
            Self::Turns { .. } => Bytes::ZERO,
            Self::Dcf(dcf) => dcf.overhead,
        };
        rate.time_to_send(frame + overhead)
    }
}

/// What has happened on a medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MediumCounts {
    /// Transmissions that arrived.
    pub transmissions: u64,
    /// Times at which several hosts sent at once.
    pub collisions: u64,
    /// Packets that reached the retry limit.
    pub given_up: u64,
    /// The time in which the medium was busy, acknowledgments included.
    pub busy: Duration,
}

/// A host on a medium.
#[derive(Clone, Debug)]
struct Station {
    node: u32,
    /// Its links, each with whether something waits there.
    links: Vec<(u32, bool)>,
    /// The link that sent last.
    turn: usize,
    /// It has something to send.
    contends: bool,
    /// The slot in which it sends, counted from the last time that the medium became idle.
    slot: u64,
    window: u32,
    /// How often its packet has collided.
    tries: u32,
}

/// A link that may send now, by its station.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sender {
    station: usize,
    place: usize,
    pub(crate) link: u32,
}

/// A medium.
#[derive(Debug)]
pub(crate) struct Medium {
    id: u32,
    pub(crate) access: Access,
    rng: Rng,
    stations: Vec<Station>,
    /// When it became idle, or will.
    idle_from: Instant,
    /// The station that sent last.
    last: usize,
    /// When its event is due; never: there is none.
    armed: Instant,
    pub(crate) counts: MediumCounts,
}

impl Medium {
    pub(crate) fn new(id: u32, access: Access, seed: Seed) -> Self {
        Self {
            id,
            access,
            rng: seed.stream(),
            stations: Vec::new(),
            idle_from: Instant::START,
            last: 0,
            armed: Instant::NEVER,
            counts: MediumCounts::default(),
        }
    }

    /// A link that leaves a node joins it.
    pub(crate) fn join(&mut self, node: u32, link: u32) {
        let known = self.stations.iter_mut().find(|station| station.node == node);
        match known {
            Some(station) => station.links.push((link, false)),
            None => self.stations.push(Station {
                node,
                links: vec![(link, false)],
                turn: 0,
                contends: false,
                slot: 0,
                window: self.least_window(),
                tries: 0,
            }),
        }
    }

    fn least_window(&self) -> u32 {
        match self.access {
            Access::Turns { .. } => 0,
            Access::Dcf(dcf) => dcf.cw_min,
        }
    }

    fn draw(&mut self, window: u32) -> u64 {
        self.rng.below(u64::from(window) + 1)
    }

    /// Something waits at a link from now on.
    pub(crate) fn ready(&mut self, now: Instant, link: u32, events: &mut EventQueue) {
        let mut all = self.stations.iter_mut().enumerate();
        let found = all.find_map(|(number, station)| {
            let place = station.links.iter_mut().find(|(known, _)| *known == link)?;
            place.1 = true;
            Some((number, std::mem::replace(&mut station.contends, true)))
        });
        if let Some((number, false)) = found {
            self.defer(now, number);
        }
        self.arm(now, events);
    }

    /// A station begins to contend. If the medium has been idle for DIFS, and its last count is
    /// over, it sends in the next slot.
    fn defer(&mut self, now: Instant, number: usize) {
        let Access::Dcf(dcf) = self.access else {
            return;
        };
        let begin = self.idle_from + dcf.difs;
        let station = &self.stations[number];
        if now >= begin {
            let next = now.since(begin).nanos().div_ceil(dcf.slot.nanos().max(1));
            self.stations[number].slot = station.slot.max(next);
        } else if station.slot == 0 {
            self.stations[number].slot = self.draw(station.window);
        }
    }

    /// When the next transmission begins, as far as is known.
    fn due(&self) -> Instant {
        let contending = self.stations.iter().filter(|station| station.contends);
        match self.access {
            Access::Turns { .. } => contending.map(|_| self.idle_from).next(),
            Access::Dcf(dcf) => contending
                .map(|station| station.slot)
                .min()
                .map(|slot| self.idle_from + dcf.difs + dcf.slot.times(slot)),
        }
        .unwrap_or(Instant::NEVER)
    }

    fn arm(&mut self, now: Instant, events: &mut EventQueue) {
        let due = self.due();
        if due < self.armed {
            self.armed = due.max(now);
            events.schedule(self.armed, Event::Medium(self.id));
        }
    }

    /// Its event has come: who sends now, none if that is later.
    pub(crate) fn senders(&mut self, now: Instant, events: &mut EventQueue) -> Vec<Sender> {
        if self.armed != now {
            return Vec::new();
        }
        self.armed = Instant::NEVER;
        if self.due() > now {
            self.arm(now, events);
            return Vec::new();
        }
        let many = self.stations.len();
        let chosen: Vec<usize> = match self.access {
            Access::Turns { .. } => {
                let mut turns = (1..=many).map(|step| (self.last + step) % many);
                let next = turns.find(|&number| self.stations[number].contends);
                next.into_iter().collect()
            }
            Access::Dcf(_) => {
                let contending = self.stations.iter().filter(|station| station.contends);
                let slot = contending.map(|station| station.slot).min().unwrap_or(0);
                let mut chosen = Vec::new();
                for (number, station) in self.stations.iter_mut().enumerate() {
                    if station.contends && station.slot == slot {
                        chosen.push(number);
                    }
                    // Counts stand still while others send.
                    station.slot = station.slot.saturating_sub(slot);
                }
                chosen
            }
        };
        let sender = |&number: &usize| {
            let station = &self.stations[number];
            let links = station.links.len();
            let mut turns = (1..=links).map(|step| (station.turn + step) % links);
            // Of a packet that collided, the same link sends again.
            let again = Some(station.turn).filter(|&turn| station.tries > 0 && station.links[turn].1);
            let place = again.or_else(|| turns.find(|&place| station.links[place].1))?;
            Some(Sender {
                station: number,
                place,
                link: station.links[place].0,
            })
        };
        chosen.iter().filter_map(sender).collect()
    }

    /// A transmission has begun that arrives, with its last bit at this time; or nothing waited at
    /// the link after all. `more` waits there.
    pub(crate) fn sent(&mut self, now: Instant, sender: Sender, end: Option<Instant>, more: bool) {
        self.is_left(sender, more);
        let Some(end) = end else {
            return;
        };
        self.counts.transmissions += 1;
        self.last = sender.station;
        self.idle_from = match self.access {
            Access::Turns { gap } => end + gap,
            Access::Dcf(dcf) => end + dcf.sifs + dcf.ack,
        };
        self.counts.busy += self.idle_from.since(now);
    }

    /// The packet of a sender is done with.
    fn is_left(&mut self, sender: Sender, more: bool) {
        let window = self.least_window();
        let slot = self.draw(window);
        let station = &mut self.stations[sender.station];
        station.links[sender.place].1 = more;
        station.turn = sender.place;
        station.contends = station.links.iter().any(|(_, waits)| *waits);
        (station.window, station.tries, station.slot) = (window, 0, slot);
    }

    /// These have begun at once, the longest until this time. Returns those whose packet has
    /// reached the retry limit.
    pub(crate) fn collided(&mut self, now: Instant, senders: &[Sender], end: Instant) -> Vec<Sender> {
        let Access::Dcf(dcf) = self.access else {
            return Vec::new();
        };
        self.counts.collisions += 1;
        self.idle_from = end;
        self.counts.busy += end.since(now);
        let mut over = Vec::new();
        for &sender in senders {
            let station = &mut self.stations[sender.station];
            station.turn = sender.place;
            station.tries += 1;
            if station.tries > dcf.retries {
                over.push(sender);
                continue;
            }
            station.window = (2 * station.window + 1).min(dcf.cw_max);
            let window = station.window;
            self.stations[sender.station].slot = self.draw(window);
        }
        over
    }

    /// A packet has reached the retry limit; `more` waits at its link.
    pub(crate) fn given_up(&mut self, sender: Sender, more: bool) {
        self.counts.given_up += 1;
        self.is_left(sender, more);
    }

    /// Whoever still has something contends for what follows.
    pub(crate) fn goes_on(&mut self, now: Instant, events: &mut EventQueue) {
        self.arm(now, events);
    }
}
