//! `yields` of a class: its TCP downloads use only the capacity that other traffic leaves, by
//! clamping their receive windows.
//!
//! This file has the settings and their diagnostics. `suimon run` puts them into effect: the
//! control law is in the crate `host`, the window clamp in the packet loop of `netio`.

use crate::port_config::PortConfig;
use engine::classify::Filter;
use engine::packet::ClassId;
use engine::port_kind::Attachment;
use engine::port_kind::opposite;
use engine::settings;
use engine::settings::{Problem, Span};
use engine::tree::TreePlan;
use engine::units::{Bandwidth, Bytes, Duration, Rate};

settings! {
    /// How a class yields to other traffic: `yields = { weight = 2, floor = "1 Mbit/s" }`.
    pub struct YieldsSettings {
        /// Its share of the capacity that other traffic leaves, relative to other yielding classes
        weight: u32 = default "1", "1 to 1000", "";
        /// The greatest rate of all its TCP connections together
        cap: Rate = derived "the link's rate",
            "below two segments per round trip, connections take turns of half a second", "";
        /// The rate up to which they need not yield
        floor: Rate = derived "nothing",
            "too large: other traffic is delayed; none: long downloads may almost stop", "";
    }
}

/// A yielding class.
#[derive(Clone, PartialEq, Debug)]
pub struct Yields {
    /// Its name.
    pub class: String,
    /// Where the policy declares it.
    pub at: Span,
    /// Its settings.
    pub settings: YieldsSettings,
}

const TCP: u8 = 6;

/// The smallest window that a connection is clamped to, in full segments.
pub const LEAST_WINDOW: u64 = 2;
/// A connection that keeps more than about one part in so many of the link does not yield.
const YIELDED_PART: u64 = 5;

/// The shortest round trip, without queues, over which a connection can be slowed down on a link
/// of this rate with longest frames of this length: its smallest window then takes a fifth of it.
///
/// Over a shorter one it keeps more, up to the share that its discipline gives the class: where
/// classes have queues of their own, no queue of others makes its round trip longer.
pub fn least_round_trip(link: Bandwidth, longest: Bytes) -> Duration {
    link.time_to_send(longest.times(LEAST_WINDOW * YIELDED_PART))
}

impl Yields {
    /// Its cap and floor on a link of this rate.
    pub fn rates(&self, link: Bandwidth) -> [Option<Bandwidth>; 2] {
        [self.settings.cap, self.settings.floor].map(|rate| rate.map(|rate| rate.on(link)))
    }

    /// The mistakes in it, on a link of this rate.
    pub(crate) fn mistakes(&self, plan: &TreePlan, link: Bandwidth) -> Vec<Problem> {
        let mut found = Vec::new();
        let mut wrong = |message: String, help: &str| found.push(Problem::new(self.at, message).help(help));
        let inner = |id: ClassId| plan.info(id).is_some_and(|info| !info.leaf);
        if plan.class(&self.class).is_some_and(inner) {
            wrong(
                format!(
                    "`{}` is an interior class, which has no connections of its own",
                    self.class
                ),
                "write `yields` into those of them that should yield",
            );
        }
        if !(1..=1000).contains(&self.settings.weight) {
            wrong("`weight` must be from 1 to 1000".into(), "the default is 1");
        }
        if let [Some(cap), Some(floor)] = self.rates(link)
            && floor > cap
        {
            wrong(
                format!("the floor of {floor} is above the cap of {cap}"),
                "a class gets at least its floor and at most its cap",
            );
        }
        found
    }

    /// The settings without effect, on a link of this rate.
    pub(crate) fn warnings(&self, plan: &TreePlan, filters: &[Filter], link: Bandwidth) -> Vec<Problem> {
        let mut found = Vec::new();
        let mut warn = |message: String, help: &str| found.push(Problem::new(self.at, message).help(help));
        let [cap, floor] = self.rates(link);
        if floor.is_some_and(|floor| floor >= link) {
            warn(
                format!("`{}` never yields: its floor is the link's rate", self.class),
                "make `floor` smaller, or leave `yields` out",
            );
        }
        if cap.is_some_and(|cap| cap >= link) {
            warn(
                format!("the cap of `{}` has no effect: it is the link's rate", self.class),
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
                format!("nothing in `{}` yields: its filters match no TCP", self.class),
                "UDP and QUIC have no window; limit them with `police`",
            );
        }
        found
    }
}

/// Why `yields` has no effect on the port of this interface; `None` if it has.
pub(crate) fn idle(port: Option<&PortConfig>, interface: &str) -> Option<&'static str> {
    let both = port.is_some_and(|port| port.interfaces().contains(&&*opposite(interface)));
    let port = port.and_then(|port| port.of_interface(interface));
    match port.map(|port| &port.attachment) {
        Some(Attachment::Egress(_) | Attachment::Ingress(_)) if both => None,
        None => Some(
            "there is no [port]; `suimon run` sees both directions of a connection between two interfaces",
        ),
        Some(Attachment::Between(..)) => None,
        Some(Attachment::Egress(_)) => Some(
            "this port sees what leaves, but not the ACKs that arrive; \
             manage what arrives too, by `ingress`, or use `between`",
        ),
        Some(Attachment::Ingress(_)) => Some(
            "this port sees what arrives, but not the ACKs that leave; \
             manage what leaves too, by `egress`, or use `between`",
        ),
        Some(Attachment::Files { .. }) => Some("senders in a file do not react"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulated: over 5 ms at 10 Mbit/s two segments keep a quarter of the link; over 20 ms, a
    /// tenth.
    #[test]
    fn the_least_round_trip_follows_the_links_rate() {
        let least = |mbit| least_round_trip(Bandwidth::mbit(mbit), Bytes::new(1_514)).nanos() / 1_000;
        assert_eq!([10, 100, 1_000].map(least), [12_112, 1_211, 121]);
    }
}
