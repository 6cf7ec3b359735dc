//! `yields` of a class: its TCP downloads have what other traffic leaves of the link, by the windows that their receivers advertise.
//!
//! Who holds them is `suimon run` (the law is the host crate's, the rewriting the packet loop's). Here are the settings, and what is
//! wrong with them or does nothing.

use crate::port_config::PortConfig;
use engine::classify::Filter;
use engine::packet::ClassId;
use engine::port_kind::Attachment;
use engine::settings;
use engine::settings::{Problem, Span};
use engine::tree::TreePlan;
use engine::units::{Bandwidth, Rate};

settings! {
    /// How a class yields: `yields = { weight = 2, floor = "1 Mbit/s" }`.
    pub struct YieldsSettings {
        /// Its share of what other traffic leaves, relative to the other classes that yield
        weight: u32 = default "1", "1 to 1000", "";
        /// More than this its TCP connections together never get
        cap: Rate = derived "the link's rate",
            "below two segments a round trip connections go and wait in half seconds", "";
        /// Less than this they are not asked to yield
        floor: Rate = derived "nothing",
            "too large: other traffic waits for them; none: long downloads may stand nearly still", "";
    }
}

/// A class that yields.
#[derive(Clone, PartialEq, Debug)]
pub struct Yields {
    /// Its name.
    pub class: String,
    /// Where the policy says so.
    pub at: Span,
    /// How.
    pub settings: YieldsSettings,
}

const TCP: u8 = 6;

impl Yields {
    /// What it may have at most, and what it is not asked to yield below, on a link of this rate.
    pub fn rates(&self, link: Bandwidth) -> [Option<Bandwidth>; 2] {
        [self.settings.cap, self.settings.floor].map(|rate| rate.map(|rate| rate.on(link)))
    }

    /// What is wrong with it on a link of this rate.
    pub(crate) fn mistakes(&self, plan: &TreePlan, link: Bandwidth) -> Vec<Problem> {
        let mut found = Vec::new();
        let mut wrong = |message: String, help: &str| found.push(Problem::new(self.at, message).help(help));
        let inner = |id: ClassId| plan.info(id).is_some_and(|info| !info.leaf);
        if plan.class(&self.class).is_some_and(inner) {
            wrong(
                format!(
                    "`{}` has classes below it and no connections of its own",
                    self.class
                ),
                "write `yields` into those of them that are to yield",
            );
        }
        if !(1..=1000).contains(&self.settings.weight) {
            wrong("`weight` must be from 1 to 1000".into(), "without, it is 1");
        }
        if let [Some(cap), Some(floor)] = self.rates(link)
            && floor > cap
        {
            wrong(
                format!("the floor of {floor} is above the cap of {cap}"),
                "a class has at least its floor and at most its cap",
            );
        }
        found
    }

    /// What of it does nothing, on a link of this rate.
    pub(crate) fn warnings(&self, plan: &TreePlan, filters: &[Filter], link: Bandwidth) -> Vec<Problem> {
        let mut found = Vec::new();
        let mut warn = |message: String, help: &str| found.push(Problem::new(self.at, message).help(help));
        let [cap, floor] = self.rates(link);
        if floor.is_some_and(|floor| floor >= link) {
            warn(
                format!("`{}` never yields: its floor is the whole link", self.class),
                "make `floor` smaller, or leave `yields` out",
            );
        }
        if cap.is_some_and(|cap| cap >= link) {
            warn(
                format!("the cap of `{}` does nothing: it is the whole link", self.class),
                "leave it out",
            );
        }
        let class = plan.class(&self.class);
        let mut own = filters
            .iter()
            .filter(|filter| Some(filter.class) == class)
            .peekable();
        let others = |filter: &Filter| filter.protocol.is_some_and(|protocol| protocol != TCP);
        if class != plan.default && own.peek().is_some() && own.all(others) {
            warn(
                format!("nothing in `{}` yields: its filters take no TCP", self.class),
                "UDP and QUIC have no window; `police` is what limits them",
            );
        }
        found
    }
}

/// Why nothing yields by this port, if so.
pub(crate) fn idle(port: Option<&PortConfig>) -> Option<&'static str> {
    match port.map(|port| &port.attachment) {
        None => Some(
            "there is no [port]; `suimon run` between two interfaces sees a connection's both directions",
        ),
        Some(Attachment::Between(..)) => None,
        Some(Attachment::Egress(_)) => Some(
            "this port sees what leaves, and not the acknowledgments that come; \
             use `between`, or `suimon nine --behind NAME` on the host that routes",
        ),
        Some(Attachment::Files { .. }) => Some("senders in a file do not listen"),
    }
}
