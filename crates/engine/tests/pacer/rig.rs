//! A tree of paced classes, and a modelled wire behind it that is filled with gap frames, or left
//! idle until a timer ends.

use engine::byte_clock::WireSlots;
use engine::discipline::{Next, Reason, Sink};
use engine::link::Link;
use engine::packet::{ClassId, Packet};
use engine::portion::Portion;
use engine::queue::Queue;
use engine::random::Seed;
use engine::settings::{Problem, Raw, Table};
use engine::tree::{ClassSpec, DisciplineSpec, Registry, TreePlan};
use engine::units::{Bandwidth, Bytes, Instant};

/// Nothing may be dropped here.
pub struct NoLoss;

impl Sink for NoLoss {
    fn drop(&mut self, packet: Packet, why: Reason) {
        panic!("{packet:?} was lost: {why}");
    }
}

/// A class of this name, parent (empty: at the top) and rate (empty: best effort) that sends
/// packets of this length.
pub fn class(name: &str, parent: &str, rate: &str, packet: u64) -> ClassSpec {
    let settings = Table::default().text("packet", &format!("{packet} B"));
    ClassSpec {
        name: name.into(),
        parent: (!parent.is_empty()).then(|| parent.into()),
        settings: if rate.is_empty() {
            settings
        } else {
            settings.text("rate", rate)
        },
        discipline: Some(DisciplineSpec {
            settings: Table::default().with("limit", Raw::Integer(1_000_000)),
            ..DisciplineSpec::new("fifo")
        }),
        ..ClassSpec::default()
    }
}

pub fn frames() -> Table {
    Table::default().text("gap", "frames")
}

pub fn timer() -> Table {
    Table::default()
}

/// Checks a tree of these classes; the last leaf is the default class.
pub fn check(
    settings: Table,
    (link, mtu): (Bandwidth, u64),
    classes: &[ClassSpec],
) -> Result<TreePlan, Vec<Problem>> {
    let mut classes = classes.to_vec();
    let parents: Vec<String> = classes
        .iter()
        .filter_map(|c| Some(c.parent.clone()?.name))
        .collect();
    for class in classes
        .iter_mut()
        .filter(|c| parents.iter().any(|parent| c.name == *parent))
    {
        class.discipline = None;
    }
    if let Some(last) = classes
        .iter_mut()
        .rfind(|c| !parents.iter().any(|parent| c.name == *parent))
    {
        last.default = true;
    }
    let spec = DisciplineSpec {
        settings,
        classes: classes.into(),
        ..DisciplineSpec::new("pacer")
    };
    let mtu = Bytes::new(mtu);
    spec.check(&Registry::builtin(), Link::new(link, mtu))
}

/// A packet that went onto the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start {
    /// In byte-times.
    pub at: u64,
    pub class: u32,
    pub len: u64,
}

/// A queue and its wire.
pub struct Rig {
    pub queue: Queue,
    pub slots: WireSlots,
    bits: u64,
    /// Of the classes.
    pub names: Vec<String>,
    /// Up to where the wire is filled, in byte-times.
    pub at: u64,
    pub log: Vec<Start>,
    /// The slots of gap frames.
    pub gaps: Vec<u64>,
    /// Packet lengths of the classes that are always backlogged; 0 for the others.
    pub greedy: Vec<u64>,
}

impl Rig {
    pub fn new(settings: Table, link: (Bandwidth, u64), classes: &[ClassSpec]) -> Self {
        let tags = match settings.get("tags").map(|entry| &entry.value) {
            Some(Raw::Integer(tags)) => *tags as u64,
            _ => 0,
        };
        let plan = check(settings, link, classes).unwrap_or_else(|problems| panic!("{problems:#?}"));
        let names: Vec<_> = plan.classes.iter().map(|class| class.name.to_string()).collect();
        Self {
            queue: plan.build(Seed(1)),
            slots: WireSlots {
                overhead: 0,
                tags,
                longest: link.1,
            },
            bits: link.0.bits(),
            at: 0,
            log: Vec::new(),
            gaps: Vec::new(),
            greedy: vec![0; names.len()],
            names,
        }
    }

    /// The nanosecond in which the wire is at this byte, as a clock shows it.
    fn nanos(&self, at: u64, up: bool) -> u64 {
        let work = u128::from(at) * 8_000_000_000;
        let bits = u128::from(self.bits);
        (if up { work.div_ceil(bits) } else { work / bits }) as u64
    }

    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.nanos(self.at, false))
    }

    /// Another tree takes this one's place: classes are the same by their names, and their backlog
    /// moves.
    pub fn replace(&mut self, settings: Table, link: (Bandwidth, u64), classes: &[ClassSpec]) {
        self.replace_and_move(settings, link, classes, 0);
    }

    /// The same, where the backlog moves so many byte-times later.
    pub fn replace_and_move(
        &mut self,
        settings: Table,
        link: (Bandwidth, u64),
        classes: &[ClassSpec],
        later: u64,
    ) {
        struct Moving(Vec<Packet>);
        impl Sink for Moving {
            fn drop(&mut self, packet: Packet, _why: Reason) {
                self.0.push(packet);
            }

            fn hands_over(&self) -> bool {
                true
            }
        }
        let plan = check(settings, link, classes).unwrap_or_else(|problems| panic!("{problems:#?}"));
        let (now, old) = (self.now(), std::mem::take(&mut self.names));
        let renumber = |class: ClassId| plan.class(&old[class.0 as usize]);
        let mut former = std::mem::replace(&mut self.queue, plan.build(Seed(1)));
        self.queue.carry_over(now, &mut former, renumber);
        let mut moving = Moving(Vec::new());
        former.flush(&mut Portion::whole(), &mut moving);
        self.at += later;
        let now = self.now();
        for mut packet in moving.0 {
            if let Some(class) = renumber(packet.class) {
                packet.class = class;
                let _ = self.queue.enqueue(now, packet, &mut NoLoss);
            }
        }
        self.names = plan.classes.iter().map(|class| class.name.to_string()).collect();
        self.greedy = vec![0; self.names.len()];
    }

    pub fn offer(&mut self, class: u32, len: u64) {
        let packet = Packet::new(Bytes::new(len), self.now(), ClassId(class));
        let _ = self.queue.enqueue(self.now(), packet, &mut NoLoss);
    }

    /// From now on this class always has packets of this length.
    pub fn start(&mut self, class: u32, len: u64) {
        self.greedy[class as usize] = len;
        (0..2).for_each(|_| self.offer(class, len));
    }

    /// One answer of the queue: the packet is sent, the gap filled or waited for; `false` if there
    /// is no backlog, or the wait would be beyond `end`.
    pub fn step(&mut self, end: u64) -> bool {
        let now = self.now();
        match self.queue.dequeue(now, &mut NoLoss) {
            Next::Ready(packet) => {
                let (class, len) = (packet.class.0, packet.len.get());
                self.log.push(Start {
                    at: self.at,
                    class,
                    len,
                });
                self.at += self.slots.slot(packet.len);
                let greedy = self.greedy[class as usize];
                if greedy > 0 {
                    self.offer(class, greedy);
                }
                true
            }
            Next::Wait(until) => {
                if let Some(slot) = self.queue.gap(Bytes::new(self.slots.longest_slot())) {
                    self.gaps.push(slot.get());
                    self.at += slot.get();
                    return self.at <= end;
                }
                // The first byte that starts then or later.
                let byte = (u128::from(until.nanos()) * u128::from(self.bits)).div_ceil(8_000_000_000) as u64;
                assert!(self.nanos(byte, true) >= until.nanos() && byte > self.at);
                if byte > end {
                    return false;
                }
                self.at = byte;
                true
            }
            Next::Empty => false,
        }
    }

    /// Serves up to this byte-time.
    pub fn run(&mut self, end: u64) {
        while self.at <= end && self.step(end) {}
    }

    /// When the packets of this class started.
    pub fn starts(&self, class: u32) -> Vec<u64> {
        self.log
            .iter()
            .filter(|start| start.class == class)
            .map(|start| start.at)
            .collect()
    }
}
