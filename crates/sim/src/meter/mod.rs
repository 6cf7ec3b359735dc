//! Meters: what passed a link, per class and per flow, and what a flow delivered.
//!
//! - [`ByteSeries`]: bytes over time, by the time of their bits, in bins of any length;
//! - [`BacklogLevels`]: the backlog, weighted by time;
//! - [`MeterTally`], [`MeterWindow`]: what passed of one class or stream, in all or within a
//!   configured window;
//! - [`LinkMeter`]: the meter of a link; [`Delivered`]: of the end of a flow;
//! - [`jain`], [`borrowed`]: fairness, and what a class of CBQ sent beyond its allotment.
//!
//! A link computes ahead: it knows at once when a queued packet will start. The meter keeps such
//! departures until their time has come, so it always shows what has happened.

mod backlog;
mod records;
mod window;

pub use backlog::BacklogLevels;
pub use measure::series::ByteSeries;
pub(crate) use records::{Departure, DropRecord};
pub use window::{MeterTally, MeterWindow};

use backlog::Backlog;
use engine::discipline::Reason;
use engine::inspect::{Inspection, Value};
use engine::packet::ClassId;
use engine::queue::{Count, Queue};
use engine::tree::{ClassInfo, TreePlan};
use engine::units::{Bytes, Duration, Instant};
use std::collections::VecDeque;

/// The settings of a meter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MeterSettings {
    /// The length of a series' bins.
    pub bin: Duration,
    /// Windows that are tallied apart: from the first time to before the second.
    pub windows: Vec<(Instant, Instant)>,
    /// Whether each stream is tallied, beside each class.
    pub flows: bool,
}

impl From<Duration> for MeterSettings {
    /// Bins of this length, classes, no windows.
    fn from(bin: Duration) -> Self {
        Self {
            bin,
            windows: Vec::new(),
            flows: false,
        }
    }
}

/// A class that a meter counts. It keeps its row while plans come and go, some with the class and
/// some without it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MeterRow {
    /// The name of the class; empty where there is no policy.
    pub name: String,
    /// The row of its parent, if it has one: the backlog of a class counts in its parent too.
    pub parent: Option<usize>,
}

/// The meter of a link.
#[derive(Clone, Debug)]
pub struct LinkMeter {
    /// The whole time, then the windows by their beginnings.
    windows: Vec<MeterWindow>,
    /// The first window that has not passed.
    open: usize,
    flows: bool,
    all: Backlog,
    classes: Vec<Backlog>,
    /// What each class is called, by its row.
    rows: Vec<MeterRow>,
    /// The row of each class of the plan in force.
    row_of: Vec<u32>,
    /// Departures whose time has not come.
    ahead: VecDeque<Departure>,
    /// Gap frames, with the bytes of their slots.
    gaps: Count,
    /// How often the wire idled although the driver was to keep it busy.
    underruns: u64,
}

impl LinkMeter {
    /// A meter of the classes of this plan, by their numbers; of one class without a plan.
    pub(crate) fn new(since: Instant, settings: MeterSettings, plan: Option<&TreePlan>) -> Self {
        let mut rows: Vec<MeterRow> = plan.map_or_else(Vec::new, |plan| {
            let row = |class: &ClassInfo| MeterRow {
                name: class.name.to_string(),
                parent: class.parent.map(|parent| parent.0 as usize),
            };
            plan.classes.iter().map(row).collect()
        });
        // A queue without classes counts as one.
        if rows.is_empty() {
            rows.push(MeterRow {
                name: String::new(),
                parent: None,
            });
        }
        let classes = rows.len();
        let mut windows: Vec<_> = settings
            .windows
            .into_iter()
            .filter(|(from, to)| from < to)
            .collect();
        windows.sort_unstable();
        let whole = MeterWindow::new(since, Instant::NEVER, Some(settings.bin), classes);
        let windows = windows
            .into_iter()
            .map(|(from, to)| MeterWindow::new(from, to, None, classes));
        Self {
            windows: std::iter::once(whole).chain(windows).collect(),
            open: 1,
            flows: settings.flows,
            all: Backlog::empty(since),
            classes: vec![Backlog::empty(since); classes],
            row_of: (0..classes as u32).collect(),
            rows,
            ahead: VecDeque::new(),
            gaps: Count::default(),
            underruns: 0,
        }
    }

    /// The classes, by their rows. Those of the plan in force when it began are first, by their
    /// numbers.
    pub fn rows(&self) -> &[MeterRow] {
        &self.rows
    }

    fn row(&self, class: ClassId) -> ClassId {
        ClassId(self.row_of.get(class.0 as usize).copied().unwrap_or_default())
    }

    /// Another plan is in force: its classes continue the rows of their names, and new names get
    /// new rows.
    pub(crate) fn adopt(&mut self, now: Instant, plan: &TreePlan) {
        self.settle_until(now);
        self.all.since = now;
        let known = self.rows.len();
        let mut row_of = Vec::with_capacity(plan.classes.len());
        for class in plan.classes.iter() {
            let found = self.rows.iter().position(|row| row.name == class.name);
            row_of.push(found.unwrap_or(self.rows.len()) as u32);
            if found.is_none() {
                self.rows.push(MeterRow {
                    name: class.name.to_string(),
                    parent: None,
                });
                self.classes.push(Backlog::empty(now));
                self.windows.iter_mut().for_each(MeterWindow::add_class);
            }
        }
        for (class, &row) in plan.classes.iter().zip(&row_of) {
            if row as usize >= known {
                let parent = class.parent.map(|parent| row_of[parent.0 as usize] as usize);
                self.rows[row as usize].parent = parent;
            }
        }
        self.row_of = row_of;
    }

    /// A queued packet is taken out of its class, to be classified anew.
    pub(crate) fn taken_out(&mut self, now: Instant, class: ClassId, frame: Bytes, arrived: Instant) {
        self.removed(now, self.row(class), frame, arrived);
    }

    /// It is queued again.
    pub(crate) fn put_back(&mut self, now: Instant, class: ClassId, frame: Bytes, arrived: Instant) {
        if arrived >= self.since() {
            self.change(now, self.row(class), |backlog| backlog.add(frame));
        }
    }

    /// The gap frames that the driver has sent, with the bytes of their slots; nothing else counts
    /// them.
    pub fn gaps(&self) -> Count {
        self.gaps
    }

    /// How often a driver that sends gap frames came too late to keep its wire busy.
    pub fn underruns(&self) -> u64 {
        self.underruns
    }

    pub(crate) fn gap(&mut self, slot: Bytes) {
        self.gaps += slot;
    }

    pub(crate) fn underrun(&mut self) {
        self.underruns += 1;
    }

    /// When it began.
    pub fn since(&self) -> Instant {
        self.windows[0].from
    }

    /// Everything since it began.
    pub fn whole(&self) -> &MeterWindow {
        &self.windows[0]
    }

    /// The configured windows, by their beginnings.
    pub fn windows(&self) -> &[MeterWindow] {
        &self.windows[1..]
    }

    /// The configured window with these bounds.
    pub fn window(&self, from: Instant, to: Instant) -> Option<&MeterWindow> {
        self.windows()
            .iter()
            .find(|window| window.from == from && window.to == to)
    }

    /// Each class since it began, by its row; without a policy there is one.
    pub fn classes(&self) -> &[MeterTally] {
        self.windows[0].classes()
    }

    /// Each stream seen since it began, by its number, if streams are tallied.
    pub fn streams(&self) -> &[MeterTally] {
        self.windows[0].streams()
    }

    /// The backlog of all classes together since it began.
    pub fn backlog(&self) -> &BacklogLevels {
        self.windows[0].backlog()
    }

    /// Counts in the whole time, and in the open windows that begin by then.
    #[inline]
    fn count(&mut self, to: Instant, count: impl Fn(&mut MeterWindow)) {
        count(&mut self.windows[0]);
        let open = self.windows[self.open..].iter_mut();
        open.take_while(|window| window.from <= to).for_each(count);
    }

    fn stream(&self, stream: u32) -> Option<usize> {
        self.flows.then_some(stream as usize)
    }

    /// Counts departures, and closes windows, up to this time.
    pub(crate) fn advance(&mut self, now: Instant) {
        while let Some(packet) = self.ahead.pop_front_if(|packet| packet.start <= now) {
            self.started(&packet);
        }
        while self.windows.get(self.open).is_some_and(|window| window.to <= now) {
            self.record(self.windows[self.open].to);
            self.open += 1;
        }
    }

    /// Records all backlogs up to this time.
    fn record(&mut self, now: Instant) {
        self.record_all(now);
        (0..self.classes.len()).for_each(|class| self.record_class(class, now));
    }

    /// Brings it up to this time, so that it can be read.
    pub(crate) fn settle_until(&mut self, now: Instant) {
        self.advance(now);
        self.record(now);
        self.settle();
    }

    /// Lets what it has recorded be read.
    pub(crate) fn settle(&mut self) {
        self.windows.iter_mut().for_each(MeterWindow::settle);
    }

    /// Records the backlog of all classes together until now, unless there is only one class.
    fn record_all(&mut self, now: Instant) {
        let backlog = self.all;
        if self.classes.len() > 1 && backlog.since < now {
            self.count(now, |window| window.record_all(backlog, now));
            self.all.since = now;
        }
    }

    /// Records the backlogs until now of a class by its row, of its ancestors and of all together,
    /// and changes them.
    fn change(&mut self, now: Instant, class: ClassId, change: impl Fn(&mut Backlog)) {
        self.record_all(now);
        change(&mut self.all);
        let mut at = Some(class.0 as usize);
        while let Some(row) = at {
            self.record_class(row, now);
            change(&mut self.classes[row]);
            at = self.rows[row].parent;
        }
    }

    fn record_class(&mut self, class: usize, now: Instant) {
        let backlog = self.classes[class];
        if backlog.since < now {
            self.count(now, |window| window.record_class(class, backlog, now));
            self.classes[class].since = now;
        }
    }

    /// A packet arrives at the queue; if it is refused, it is also [`dropped`](Self::dropped).
    pub(crate) fn offered(&mut self, now: Instant, class: ClassId, frame: Bytes) {
        self.advance(now);
        self.change(now, self.row(class), |backlog| backlog.add(frame));
    }

    fn removed(&mut self, now: Instant, class: ClassId, frame: Bytes, arrived: Instant) {
        if arrived >= self.since() {
            self.change(now, class, |backlog| backlog.remove(frame));
        }
    }

    /// A packet goes onto the wire, perhaps later.
    pub(crate) fn departed(&mut self, now: Instant, packet: &Departure) {
        self.advance(now);
        let packet = &Departure {
            class: self.row(packet.class),
            ..*packet
        };
        if packet.dequeued <= now {
            self.removed(now, packet.class, packet.frame, packet.arrived);
        }
        if packet.start <= now {
            self.counted(packet);
        } else {
            self.ahead.push_back(*packet);
        }
    }

    /// The time of a departure has come.
    fn started(&mut self, packet: &Departure) {
        if packet.dequeued == packet.start {
            self.removed(packet.start, packet.class, packet.frame, packet.arrived);
        }
        self.counted(packet);
    }

    fn counted(&mut self, packet: &Departure) {
        let stream = self.stream(packet.stream);
        self.count(packet.finish, |window| window.departed(packet, stream));
    }

    /// The queue and the device lose what has not started.
    pub(crate) fn emptied(&mut self, now: Instant) {
        self.advance(now);
        for packet in std::mem::take(&mut self.ahead) {
            if packet.dequeued > now {
                self.removed(now, packet.class, packet.frame, packet.arrived);
            }
            let record = DropRecord {
                class: packet.class,
                stream: packet.stream,
                frame: packet.frame,
                arrived: packet.arrived,
                why: Reason::Flushed,
            };
            let stream = self.stream(packet.stream);
            self.count(now, |window| window.dropped(now, &record, stream));
        }
    }

    /// A packet finds a tail-drop buffer full.
    pub(crate) fn refused(&mut self, now: Instant, stream: u32, frame: Bytes) {
        let class = ClassId(0);
        self.offered(now, class, frame);
        let record = DropRecord {
            class,
            stream,
            frame,
            arrived: now,
            why: Reason::Full,
        };
        self.dropped(now, &record);
    }

    /// A packet is dropped.
    pub(crate) fn dropped(&mut self, now: Instant, record: &DropRecord) {
        self.advance(now);
        let record = &DropRecord {
            class: self.row(record.class),
            ..*record
        };
        self.removed(now, record.class, record.frame, record.arrived);
        let stream = self.stream(record.stream);
        self.count(now, |window| window.dropped(now, record, stream));
    }

    /// A packet is marked.
    pub(crate) fn marked(&mut self, now: Instant, class: ClassId, stream: u32) {
        self.advance(now);
        let stream = self.stream(stream);
        let row = self.row(class).0 as usize;
        self.count(now, |window| window.marked(now, row, stream));
    }
}

/// What an end of a flow has delivered to its application.
#[derive(Clone, Debug, Default)]
pub struct Delivered {
    /// The number of bytes.
    pub bytes: Bytes,
    /// Packets that came with a flipped bit: their checksum told, and they were dropped.
    pub corrupt: u64,
    /// The bytes over time, if they are [watched](crate::simulation::Simulation::watch_flow).
    pub series: Option<ByteSeries>,
}

impl Delivered {
    pub(crate) fn watched(since: Instant, bin: Duration) -> Self {
        Self {
            bytes: Bytes::ZERO,
            corrupt: 0,
            series: Some(ByteSeries::new(since, bin)),
        }
    }

    pub(crate) fn deliver(&mut self, now: Instant, bytes: Bytes) {
        self.bytes += bytes;
        if let Some(series) = &mut self.series {
            series.add(now, bytes.get());
        }
    }
}

/// Jain's fairness index (Σx)² / (n Σx²): 1 if all shares are equal, 1/n if one has all. `None` if
/// there are no shares, or all are zero (Jain, Chiu and Hawe 1984, DEC TR-301).
pub fn jain(shares: impl IntoIterator<Item = u64>) -> Option<f64> {
    let (mut n, mut sum, mut squares) = (0u32, 0.0, 0.0);
    for share in shares {
        let share = share as f64;
        (n, sum, squares) = (n + 1, sum + share, squares + share * share);
    }
    (squares > 0.0).then(|| sum * sum / (f64::from(n) * squares))
}

/// The present value of a class's gauge, such as `borrowed` or `lent` of CBQ; `None` if its
/// discipline has no such gauge. For a window, take the difference of its ends.
pub fn gauge(queue: &Queue, class: ClassId, name: &str) -> Option<Value> {
    let mut views = Vec::new();
    queue.inspect(&mut Inspection::new(&mut views));
    let view = views.iter().find(|view| view.class == Some(class))?;
    view.gauges
        .iter()
        .find(|(gauge, _)| *gauge == name)
        .map(|(_, value)| *value)
}

/// The bytes that a class of CBQ has sent beyond its allotment by now.
pub fn borrowed(queue: &Queue, class: ClassId) -> Option<Bytes> {
    match gauge(queue, class, "borrowed")? {
        Value::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}
