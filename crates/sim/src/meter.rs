//! Meters: what passed a link, class by class and flow by flow, and what a flow's end delivered.
//!
//! - [`Series`]: bytes over time, by the time of their bits, at any bin;
//! - [`Levels`]: what waited, weighted by time;
//! - [`Tally`], [`Window`]: what passed of one class or stream, in all or within a window asked for beforehand;
//! - [`LinkMeter`]: what looks at a link; [`Received`]: at a flow's end;
//! - [`jain`], [`borrowed`]: fairness, and what a class of CBQ got beyond its allotment.
//!
//! A link reckons ahead: it says at once when a packet that waits will start. The meter keeps that until time has come
//! there, so what it shows is always what has happened.

mod levels;
mod window;

pub use levels::Levels;
pub use measure::series::Series;
pub use window::{Tally, Window};

use engine::discipline::Reason;
use engine::inspect::{Inspection, Value};
use engine::packet::ClassId;
use engine::queue::{Count, Queue};
use engine::units::{Bytes, Duration, Instant};
use levels::Held;
use std::collections::VecDeque;

/// What a meter is to look at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Watch {
    /// The bins of series.
    pub bin: Duration,
    /// Times from, and before, which all is tallied on its own.
    pub windows: Vec<(Instant, Instant)>,
    /// Whether each flow is tallied, beside each class.
    pub flows: bool,
}

impl From<Duration> for Watch {
    /// Classes, without windows.
    fn from(bin: Duration) -> Self {
        Self {
            bin,
            windows: Vec::new(),
            flows: false,
        }
    }
}

/// A packet that goes onto a wire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Departure {
    pub(crate) class: ClassId,
    pub(crate) stream: u32,
    pub(crate) frame: Bytes,
    /// When it was offered to the link.
    pub(crate) arrived: Instant,
    /// When it stops waiting: a driver with a ring takes packets before their time.
    pub(crate) taken: Instant,
    /// When its first bit goes onto the wire.
    pub(crate) start: Instant,
    /// When its last bit has.
    pub(crate) finish: Instant,
}

/// A packet that a queue gave up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loss {
    pub(crate) class: ClassId,
    pub(crate) stream: u32,
    pub(crate) frame: Bytes,
    pub(crate) arrived: Instant,
    pub(crate) why: Reason,
}

/// What passed a link.
#[derive(Clone, Debug)]
pub struct LinkMeter {
    /// All of it, then the windows, the earlier first.
    windows: Vec<Window>,
    /// The first window that has not passed.
    open: usize,
    flows: bool,
    all: Held,
    classes: Vec<Held>,
    /// The class above each, if there is one: what waits in a class waits in that, too.
    parents: Vec<Option<ClassId>>,
    /// Packets whose time has not come.
    ahead: VecDeque<Departure>,
    /// Gap frames, with their slots; and how often the wire idled when it should have been full.
    gaps: Count,
    dry: u64,
}

impl LinkMeter {
    /// Of as many classes as there are parents.
    pub(crate) fn new(since: Instant, watch: Watch, parents: Vec<Option<ClassId>>) -> Self {
        let classes = parents.len();
        let mut asked: Vec<_> = watch.windows.into_iter().filter(|(from, to)| from < to).collect();
        asked.sort_unstable();
        let whole = Window::new([since, Instant::NEVER], Some(watch.bin), classes);
        let windows = asked
            .into_iter()
            .map(|(from, to)| Window::new([from, to], None, classes));
        Self {
            windows: std::iter::once(whole).chain(windows).collect(),
            open: 1,
            flows: watch.flows,
            all: Held::nothing(since),
            classes: vec![Held::nothing(since); classes],
            parents,
            ahead: VecDeque::new(),
            gaps: Count::default(),
            dry: 0,
        }
    }

    /// The gap frames that its driver has made, with the bytes of wire that they take; they are in nothing else.
    pub fn gaps(&self) -> Count {
        self.gaps
    }

    /// How often a driver that makes gap frames came too late to keep its wire busy.
    pub fn dry(&self) -> u64 {
        self.dry
    }

    pub(crate) fn gap(&mut self, slot: Bytes) {
        self.gaps += slot;
    }

    pub(crate) fn ran_dry(&mut self) {
        self.dry += 1;
    }

    /// Since when it looks.
    pub fn since(&self) -> Instant {
        self.windows[0].from
    }

    /// All since it looks.
    pub fn whole(&self) -> &Window {
        &self.windows[0]
    }

    /// The windows that were asked for, by their beginnings.
    pub fn windows(&self) -> &[Window] {
        &self.windows[1..]
    }

    /// The window that was asked for with these bounds.
    pub fn window(&self, from: Instant, to: Instant) -> Option<&Window> {
        self.windows()
            .iter()
            .find(|window| window.from == from && window.to == to)
    }

    /// Each class since it looks, by its number; the only one, where no policy rules.
    pub fn classes(&self) -> &[Tally] {
        self.windows[0].classes()
    }

    /// Each stream that has been seen since it looks, by its number, if flows are watched.
    pub fn streams(&self) -> &[Tally] {
        self.windows[0].streams()
    }

    /// What waited in all classes together since it looks.
    pub fn queue(&self) -> &Levels {
        self.windows[0].queue()
    }

    /// The whole, and the windows that something between these times concerns.
    fn concerned(&mut self, to: Instant) -> impl Iterator<Item = &mut Window> {
        let (whole, windows) = self.windows.split_at_mut(1);
        let open = windows[self.open - 1..]
            .iter_mut()
            .take_while(move |window| window.from <= to);
        whole.iter_mut().chain(open)
    }

    fn stream(&self, stream: u32) -> Option<usize> {
        self.flows.then_some(stream as usize)
    }

    /// Brings it up to this time.
    pub(crate) fn advance(&mut self, now: Instant) {
        while let Some(&packet) = self.ahead.front()
            && packet.start <= now
        {
            self.ahead.pop_front();
            self.started(&packet);
        }
        while self.windows.get(self.open).is_some_and(|window| window.to <= now) {
            self.settle(self.windows[self.open].to);
            self.open += 1;
        }
    }

    /// Accounts for what waited until this time.
    fn settle(&mut self, now: Instant) {
        self.level(now);
        (0..self.classes.len()).for_each(|class| self.class_level(class, now));
    }

    /// Brings it up to this time, so that it can be read.
    pub(crate) fn settle_until(&mut self, now: Instant) {
        self.advance(now);
        self.settle(now);
    }

    /// Accounts for what waited until now in all classes together, unless there is but one.
    fn level(&mut self, now: Instant) {
        let held = self.all;
        if held.since < now && self.classes.len() > 1 {
            self.concerned(now).for_each(|window| window.held(held, now));
            self.all.since = now;
        }
    }

    /// Accounts for what waited until now, and changes it, in all and in a class and those above.
    fn change(&mut self, now: Instant, class: ClassId, change: impl Fn(&mut Held)) {
        self.level(now);
        change(&mut self.all);
        let mut at = Some(class);
        while let Some(ClassId(class)) = at {
            self.class_level(class as usize, now);
            change(&mut self.classes[class as usize]);
            at = self.parents[class as usize];
        }
    }

    fn class_level(&mut self, class: usize, now: Instant) {
        let held = self.classes[class];
        if held.since < now {
            self.concerned(now)
                .for_each(|window| window.class_held(class, held, now));
            self.classes[class].since = now;
        }
    }

    /// A packet is offered; if it is refused, it is also [`dropped`](Self::dropped).
    pub(crate) fn offered(&mut self, now: Instant, class: ClassId, frame: Bytes) {
        self.advance(now);
        self.change(now, class, |held| held.add(frame));
    }

    fn removed(&mut self, now: Instant, class: ClassId, frame: Bytes, arrived: Instant) {
        if arrived >= self.since() {
            self.change(now, class, |held| held.remove(frame));
        }
    }

    /// A packet goes onto the wire, perhaps later.
    pub(crate) fn departed(&mut self, now: Instant, packet: &Departure) {
        self.advance(now);
        if packet.taken <= now {
            self.removed(now, packet.class, packet.frame, packet.arrived);
        }
        if packet.start <= now {
            self.counted(packet);
        } else {
            self.ahead.push_back(*packet);
        }
    }

    /// The time has come for a packet that was to go onto the wire later.
    fn started(&mut self, packet: &Departure) {
        if packet.taken == packet.start {
            self.removed(packet.start, packet.class, packet.frame, packet.arrived);
        }
        self.counted(packet);
    }

    fn counted(&mut self, packet: &Departure) {
        let stream = self.stream(packet.stream);
        self.concerned(packet.finish)
            .for_each(|window| window.departed(packet, stream));
    }

    /// A packet finds a plain buffer full.
    pub(crate) fn refused(&mut self, now: Instant, stream: u32, frame: Bytes) {
        let class = ClassId(0);
        self.offered(now, class, frame);
        let loss = Loss {
            class,
            stream,
            frame,
            arrived: now,
            why: Reason::Full,
        };
        self.dropped(now, &loss);
    }

    /// A packet that was offered is lost.
    pub(crate) fn dropped(&mut self, now: Instant, loss: &Loss) {
        self.advance(now);
        self.removed(now, loss.class, loss.frame, loss.arrived);
        let stream = self.stream(loss.stream);
        self.concerned(now)
            .for_each(|window| window.dropped(now, loss, stream));
    }

    /// A packet is marked.
    pub(crate) fn marked(&mut self, now: Instant, class: ClassId, stream: u32) {
        self.advance(now);
        let stream = self.stream(stream);
        self.concerned(now)
            .for_each(|window| window.marked(now, class.0 as usize, stream));
    }
}

/// What a flow's end has delivered to its program.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// How many bytes.
    pub bytes: Bytes,
    /// Over time, if somebody wanted to know.
    pub series: Option<Series>,
}

impl Received {
    pub(crate) fn watched(since: Instant, bin: Duration) -> Self {
        Self {
            bytes: Bytes::ZERO,
            series: Some(Series::new(since, bin)),
        }
    }

    pub(crate) fn deliver(&mut self, now: Instant, bytes: Bytes) {
        self.bytes += bytes;
        if let Some(series) = &mut self.series {
            series.add(now, bytes.get());
        }
    }
}

/// Jain's index of fairness: (Σx)² / (n Σx²), 1 if all have the same, 1/n if one has all. `None` if there is nothing
/// to share, or nobody. (Jain, Chiu and Hawe 1984, DEC TR-301.)
pub fn jain(shares: impl IntoIterator<Item = u64>) -> Option<f64> {
    let (mut n, mut sum, mut squares) = (0u32, 0.0, 0.0);
    for share in shares {
        let share = share as f64;
        (n, sum, squares) = (n + 1, sum + share, squares + share * share);
    }
    (squares > 0.0).then(|| sum * sum / (f64::from(n) * squares))
}

/// A number from the gauges of a class, such as `borrowed` or `lent` of CBQ, as it stands; `None` if its discipline has no
/// such gauge. For a window, look at its beginning and at its end.
pub fn gauge(queue: &Queue, class: ClassId, name: &str) -> Option<Value> {
    let mut views = Vec::new();
    queue.inspect(&mut Inspection::new(&mut views));
    let view = views.iter().find(|view| view.class == Some(class))?;
    view.gauges
        .iter()
        .find(|(gauge, _)| *gauge == name)
        .map(|(_, value)| *value)
}

/// The bytes that a class of CBQ has sent beyond its allotment, so far.
pub fn borrowed(queue: &Queue, class: ClassId) -> Option<Bytes> {
    match gauge(queue, class, "borrowed")? {
        Value::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}
