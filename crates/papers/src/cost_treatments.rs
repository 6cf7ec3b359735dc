//! The packet treatments whose costs are compared: a discipline with the filters that it needs.
//!
//! As in the paper, the work to learn what the discipline needs is part of its cost: FIFO reads
//! nothing, WFQ the flow, CBQ headers and filters.

use engine::classify::{Classifier, Filter, Ports};
use engine::disciplines::{cbq, fifo, red, wfq, wrr};
use engine::link::Link;
use engine::packet::ClassId;
use engine::random::Seed;
use engine::settings::Table;
use engine::tree::{ClassSpec, DisciplineSpec, Registry, TreePlan};
use netio::classify::{ByFilters, Classify, Everything};

/// The seed of hashes and RED. No traffic here is hostile.
pub const SEED: Seed = Seed(1);

/// The protocol number of UDP.
const UDP: u8 = 17;
/// The protocol number of TCP.
const TCP: u8 = 6;

/// A discipline and its filters.
#[derive(Clone, Debug)]
pub struct Treatment {
    /// The discipline.
    pub plan: TreePlan,
    /// The filters; `None` skips even the flow hash.
    pub filters: Option<Vec<Filter>>,
}

impl Treatment {
    fn new(spec: &DisciplineSpec, link: Link, filters: Option<Vec<Filter>>) -> Self {
        let plan = spec.check(&Registry::builtin(), link);
        Self {
            // All specs are in this file.
            plan: plan.unwrap_or_else(|problems| panic!("{}: {problems:?}", spec.kind)),
            filters,
        }
    }

    /// The engine's FIFO without classification: the paper's FIFOQ.
    pub fn fifo(link: Link) -> Self {
        Self::new(&DisciplineSpec::of(&fifo::KIND), link, None)
    }

    /// RED over a FIFO.
    pub fn red(link: Link) -> Self {
        Self::new(&DisciplineSpec::of(&red::KIND), link, None)
    }

    /// WFQ, by flows.
    pub fn wfq(link: Link) -> Self {
        Self::new(&DisciplineSpec::of(&wfq::KIND), link, Some(Vec::new()))
    }

    /// CBQ with the paper's three classes. The measured traffic is in the first.
    pub fn cbq(link: Link) -> Self {
        let [first, second, third] = [60, 30, 10].map(|rate| class(&format!("class-{rate}"), rate * 10));
        Self::cbq_of(link, vec![first, second, third])
    }

    /// The same with RED in each class.
    pub fn cbq_red(link: Link) -> Self {
        let classes = [60, 30, 10].map(|rate| ClassSpec {
            discipline: Some(DisciplineSpec::of(&red::KIND)),
            ..class(&format!("class-{rate}"), rate * 10)
        });
        Self::cbq_of(link, classes.to_vec())
    }

    /// The RSVP paper's WRR: four of ten packets for UDP to this port, the others for the default
    /// class.
    pub fn reservation(link: Link, port: u16) -> Self {
        let class = |name: &str, rate: &str, default| ClassSpec {
            name: name.into(),
            settings: Table::default().text("rate", rate),
            default,
            ..ClassSpec::default()
        };
        let spec = DisciplineSpec {
            classes: vec![class("reserved", "40 %", false), class("rest", "60 %", true)].into(),
            ..DisciplineSpec::of(&wrr::KIND)
        };
        let reserved = Filter {
            protocol: Some(UDP),
            destination_port: Some(Ports::one(port)),
            ..Filter::new(ClassId(0))
        };
        Self::new(&spec, link, Some(vec![reserved]))
    }

    /// CBQ with this many classes, and filters for the first one only.
    pub fn cbq_classes(link: Link, classes: u32) -> Self {
        let rest = (1..classes).map(|n| class(&format!("class-{n}"), 1));
        let classes = std::iter::once(class("measured", 600)).chain(rest);
        Self::cbq_of(link, classes.collect())
    }

    fn cbq_of(link: Link, mut classes: Vec<ClassSpec>) -> Self {
        // When treatments change, the backlog moves to the default class; so nothing is overtaken.
        if let Some(first) = classes.first_mut() {
            first.default = true;
        }
        let spec = DisciplineSpec {
            classes: classes.into(),
            ..DisciplineSpec::of(&cbq::KIND)
        };
        Self::new(&spec, link, Some(measured()))
    }

    /// The same with more filters. Among equals the later ones match first.
    #[must_use]
    pub fn with_filters(mut self, more: impl IntoIterator<Item = Filter>) -> Self {
        self.filters.get_or_insert_default().extend(more);
        self
    }

    /// The classifier.
    pub fn classify(&self) -> Box<dyn Classify> {
        match &self.filters {
            None => Box::new(Everything(ClassId(0))),
            Some(filters) => {
                let classifier = Classifier::new(filters.iter().copied(), SEED);
                Box::new(ByFilters::new(classifier, &self.plan, SEED))
            }
        }
    }
}

/// The filters that put the measured traffic into the first class.
fn measured() -> Vec<Filter> {
    let by = |protocol| Filter {
        protocol: Some(protocol),
        ..Filter::new(ClassId(0))
    };
    vec![by(UDP), by(TCP)]
}

/// A class with this many thousandths of the link that may borrow.
fn class(name: &str, thousandths: u32) -> ClassSpec {
    ClassSpec {
        name: name.into(),
        settings: Table::default().text("rate", &format!("{}.{} %", thousandths / 10, thousandths % 10)),
        ..ClassSpec::default()
    }
}
