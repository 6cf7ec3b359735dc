//! A tree of classes, sources that keep some of them backlogged, and a virtual clock.

use engine::discipline::{Next, Reason, Sink};
use engine::inspect::{Inspection, Value, View};
use engine::link::Link;
use engine::packet::{ClassId, Packet};
use engine::queue::Queue;
use engine::random::Seed;
use engine::settings::{Problem, Raw, Table};
use engine::tree::{ClassSpec, DisciplineSpec, Registry, TreePlan};
use engine::units::{Bandwidth, Bytes, Duration, Instant};

/// The longest packet of every link here.
pub const MTU: u64 = 1_500;

/// A class of this name and rate below `parent` (empty: at the top).
pub fn class(name: &str, parent: &str, rate: &str) -> ClassSpec {
    ClassSpec {
        name: name.into(),
        parent: (!parent.is_empty()).then(|| parent.into()),
        settings: Table::default().text("rate", rate),
        ..ClassSpec::default()
    }
}

/// Short ways to set a class's settings.
pub trait With {
    fn number(self, key: &str, value: i64) -> Self;
    fn limited(self) -> Self;
}

impl With for ClassSpec {
    fn number(mut self, key: &str, value: i64) -> Self {
        self.settings = self.settings.with(key, Raw::Integer(value));
        self
    }

    fn limited(mut self) -> Self {
        self.settings = self.settings.with("borrow", Raw::Boolean(false));
        self
    }
}

/// Checks a tree of these classes; the last leaf is the default class.
pub fn check(settings: Table, link: Bandwidth, classes: &[ClassSpec]) -> Result<TreePlan, Vec<Problem>> {
    check_with(&Registry::builtin(), settings, link, classes)
}

pub fn check_with(
    registry: &Registry,
    settings: Table,
    link: Bandwidth,
    classes: &[ClassSpec],
) -> Result<TreePlan, Vec<Problem>> {
    let mut classes = classes.to_vec();
    let parents: Vec<String> = classes
        .iter()
        .filter_map(|c| Some(c.parent.clone()?.name))
        .collect();
    if let Some(last) = classes
        .iter_mut()
        .rfind(|c| !parents.iter().any(|parent| c.name == *parent))
    {
        last.default = true;
    }
    let spec = DisciplineSpec {
        settings,
        classes: classes.into(),
        ..DisciplineSpec::new("cbq")
    };
    let mtu = Bytes::new(MTU);
    spec.check(registry, Link::new(link, mtu))
}

/// What was dropped.
#[derive(Default)]
pub struct Drops(pub Vec<(u32, Reason)>);

impl Sink for Drops {
    fn drop(&mut self, packet: Packet, why: Reason) {
        self.0.push((packet.class.0, why));
    }
}

/// A running tree. Classes are numbered as in the list it was made from.
pub struct Rig {
    pub queue: Queue,
    pub plan: TreePlan,
    pub now: Instant,
    pub dropped: Drops,
    /// Bytes sent, by class.
    pub sent: Vec<u64>,
    /// Packet lengths of the classes that are always backlogged; 0 for the others.
    pub greedy: Vec<u64>,
    /// When and from which class packets left.
    pub log: Vec<(Instant, u32)>,
}

impl Rig {
    pub fn new(settings: Table, link: Bandwidth, classes: &[ClassSpec]) -> Self {
        Self::of(check(settings, link, classes).unwrap_or_else(|problems| panic!("{problems:#?}")))
    }

    pub fn of(plan: TreePlan) -> Self {
        let classes = plan.classes.len();
        Self {
            queue: plan.build(Seed(1)),
            plan,
            now: Instant::START,
            dropped: Drops::default(),
            sent: vec![0; classes],
            greedy: vec![0; classes],
            log: Vec::new(),
        }
    }

    pub fn number(&self, name: &str) -> usize {
        self.plan.class(name).expect("a class").0 as usize
    }

    /// From now on these classes have packets of this length.
    pub fn start(&mut self, names: &[&str], len: u64) {
        for name in names {
            let class = self.number(name);
            self.greedy[class] = len;
            self.fill(class);
        }
    }

    /// No more packets from these; what is queued leaves.
    pub fn stop(&mut self, names: &[&str]) {
        for name in names {
            let class = self.number(name);
            self.greedy[class] = 0;
        }
    }

    pub fn offer(&mut self, class: usize, len: u64) {
        let packet = Packet::new(Bytes::new(len), self.now, ClassId(class as u32));
        let _ = self.queue.enqueue(self.now, packet, &mut self.dropped);
    }

    fn fill(&mut self, class: usize) {
        for _ in 0..4 {
            self.offer(class, self.greedy[class]);
        }
    }

    /// Takes what may leave now, by class and length; a greedy class gets another packet at once.
    pub fn take(&mut self) -> Next<(usize, u64)> {
        let packet = match self.queue.dequeue(self.now, &mut self.dropped) {
            Next::Ready(packet) => packet,
            Next::Wait(at) => return Next::Wait(at),
            Next::Empty => return Next::Empty,
        };
        let (class, len) = (packet.class.0 as usize, packet.len.get());
        self.sent[class] += len;
        self.log.push((self.now, packet.class.0));
        if self.greedy[class] > 0 {
            self.offer(class, self.greedy[class]);
        }
        Next::Ready((class, len))
    }

    /// Runs for so long with a host that is always in time.
    pub fn run(&mut self, span: Duration) {
        let end = self.now + span;
        while self.now < end {
            match self.take() {
                Next::Ready(_) => {}
                Next::Wait(at) => self.now = at.min(end),
                Next::Empty => self.now = end,
            }
        }
    }

    /// Runs for this long; returns the bandwidth of each of these classes in that time, in kbit/s.
    pub fn rates(&mut self, names: &[&str], span: Duration) -> Vec<f64> {
        let before = self.sent.clone();
        self.run(span);
        let rate = |name: &&str| {
            let class = self.number(name);
            (self.sent[class] - before[class]) as f64 * 8.0 / span.as_secs_f64() / 1_000.0
        };
        names.iter().map(rate).collect()
    }

    pub fn views(&self) -> Vec<View> {
        let mut views = Vec::new();
        self.queue.inspect(&mut Inspection::new(&mut views));
        views
    }

    /// A gauge of a class.
    pub fn gauge(&self, class: &str, gauge: &str) -> Value {
        let id = self.plan.class(class);
        let views = self.views();
        let view = views.iter().find(|view| view.class == id).expect("a view");
        let found = view.gauges.iter().find(|g| g.0 == gauge);
        found.expect("a gauge").1
    }
}

/// Asserts that each rate is within `percent` of what is expected.
pub fn near(got: &[f64], expected: &[f64], percent: f64) {
    let close = |(got, expected): (&f64, &f64)| (got - expected).abs() <= expected * percent / 100.0 + 1e-9;
    assert!(
        got.len() == expected.len() && got.iter().zip(expected).all(close),
        "got {got:?}, expected {expected:?}"
    );
}
