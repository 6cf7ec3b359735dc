//! Classes that yield: the control law of `nine` over the connections of a gateway's classes.
//!
//! The law is [`host::law::Scavenger`]; the windows are clamped in ACKs that pass through the
//! worker ([`netio::window_clamp`]). A thread beside the worker takes a snapshot of the connections
//! twenty times a second, fifty while the link is full, runs the law, and gives the worker the
//! window limits. If the thread hangs, the limits expire a second later.

cfg_if::cfg_if! {
    if #[cfg(target_os = "linux")] {
        mod beside;

        #[cfg(test)]
        pub(crate) use beside::Yielding;
        pub use beside::{YieldGauges, start};
    }
}

use control::policy::InterfacePolicy;
use control::yields::least_round_trip;
use engine::units::{Bandwidth, Duration};
use host::law::{Law, Scavenger};
use host::rewrite::{ConnectionLimit, ConnectionList, MemberConnection, RewritePoint, WindowRewriter};
use host::{
    Actuator, Bottleneck, DataDirection, FlowSample, LawInput, LimitOrder, LimitReason, LinkCounters, Member,
    MemberId,
};
use netio::tcp::{Ends, Limit};
use netio::window_clamp::{ClampSnapshot, ClassConnection};
use std::collections::BTreeMap;
use std::io;

/// The state of each class that yields, by the names of interface and class.
pub type ClassStates = BTreeMap<(String, String), ClassState>;

/// The state of a class that yields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassState {
    /// What the law does with its connections.
    pub yields: &'static str,
    /// Its connections.
    pub connections: u64,
    /// Those whose SYN was not seen.
    pub left_alone: u64,
    /// The shortest round trip over which a connection can yield.
    pub least_round_trip: Duration,
}

/// A path whose connections are clamped: of a worker, or of a simulated link.
pub trait ClampedPath {
    /// Its connections, and what it has carried.
    ///
    /// # Errors
    ///
    /// If it does not answer.
    fn watch(&mut self) -> io::Result<ClampSnapshot>;

    /// Sets these limits, and keeps all others in force for a while.
    ///
    /// # Errors
    ///
    /// If it does not answer.
    fn clamp(&mut self, limits: Vec<(Ends, Option<Limit>)>) -> io::Result<()>;
}

/// A path as the rewrite point.
#[derive(Debug)]
struct ClassRewriter<P> {
    path: P,
    snapshot: ClampSnapshot,
}

impl<P: ClampedPath> RewritePoint for ClassRewriter<P> {
    fn connections(&mut self) -> io::Result<ConnectionList> {
        self.snapshot = self.path.watch()?;
        let assign = |one: &ClassConnection| MemberConnection {
            connection: one.connection,
            member: Some(member(one.class)),
        };
        // The path reads the link's counter and the connections at the same time.
        Ok(ConnectionList {
            at: self.snapshot.at,
            connections: self.snapshot.connections.iter().map(assign).collect(),
        })
    }

    fn set_limits(&mut self, limits: Vec<ConnectionLimit>) -> io::Result<()> {
        let limits = limits.into_iter().map(|one| (one.ends, one.limit)).collect();
        self.path.clamp(limits)
    }
}

fn member(class: usize) -> MemberId {
    MemberId(u32::try_from(class).unwrap_or(u32::MAX))
}

/// The law of one interface, and its actuator.
pub struct YieldController<P> {
    interface: String,
    classes: Vec<String>,
    members: Vec<Member>,
    link: Bandwidth,
    /// The shortest round trip over which a connection can yield.
    least_round_trip: Duration,
    law: Scavenger,
    rewriter: WindowRewriter<ClassRewriter<P>>,
}

impl<P: ClampedPath> YieldController<P> {
    /// For the classes of this interface that yield, whose packets take this path.
    pub fn new(path: P, interface: &InterfacePolicy) -> Self {
        let link = interface.settings.bandwidth;
        let classes = interface.yields.iter();
        let members = classes.clone().enumerate().map(|(class, yields)| {
            let [cap, floor] = yields.rates(link);
            Member {
                weight: yields.settings.weight,
                cap,
                floor,
                ..Member::new(member(class))
            }
        });
        Self {
            interface: interface.name.clone(),
            members: members.collect(),
            classes: classes.map(|yields| yields.class.clone()).collect(),
            link,
            least_round_trip: least_round_trip(link, interface.settings.max_frame),
            law: Scavenger::new(DataDirection::Download),
            rewriter: WindowRewriter::at(ClassRewriter {
                path,
                snapshot: ClampSnapshot::default(),
            }),
        }
    }

    /// The time until the next turn.
    pub fn interval(&self) -> Duration {
        self.law.interval()
    }

    /// Takes a snapshot, runs the law and sets the limits. Returns the states of the classes.
    ///
    /// # Errors
    ///
    /// If the path does not answer.
    pub fn tick(&mut self) -> io::Result<ClassStates> {
        let flows = self.rewriter.listed()?;
        let snapshot = &self.rewriter.point().snapshot;
        let orders = self.law.tick(&LawInput {
            now: snapshot.at,
            link: LinkCounters {
                received: snapshot.carried,
                sent: snapshot.carried_back,
            },
            bottleneck: Bottleneck::Enforced(self.link),
            members: &self.members,
            flows: &flows,
        });
        let left_alone = snapshot.left_alone.clone();
        self.rewriter.apply(&orders)?;
        let state = |(class, name): (usize, &String)| {
            let of_class = flows
                .iter()
                .zip(&orders)
                .filter(|(flow, _)| flow.member == member(class));
            let state = ClassState {
                yields: strictest(of_class.clone(), self.least_round_trip),
                connections: of_class.count() as u64,
                left_alone: left_alone.get(class).copied().unwrap_or(0),
                least_round_trip: self.least_round_trip,
            };
            ((self.interface.clone(), name.clone()), state)
        };
        Ok(self.classes.iter().enumerate().map(state).collect())
    }
}

/// The state of a class: the strictest of its connections' orders, or that they cannot be kept over
/// a round trip below `least`.
fn strictest<'a>(
    orders: impl Iterator<Item = (&'a FlowSample, &'a LimitOrder)>,
    least: Duration,
) -> &'static str {
    let ranked = |flow: &FlowSample, reason: &LimitReason| match reason {
        LimitReason::LinkIsFree => (0, "free"),
        LimitReason::Cap(_) => (1, "at its cap"),
        LimitReason::Floor(_) => (2, "at its floor"),
        LimitReason::YieldsTo(_) | LimitReason::QueueGrows(_) | LimitReason::LinkIsFull
            if flow.min_rtt.is_some_and(|rtt| rtt < least) =>
        {
            (6, "cannot yield: round trip too short")
        }
        LimitReason::YieldsTo(_) | LimitReason::QueueGrows(_) | LimitReason::LinkIsFull => (3, "yields"),
        LimitReason::WaitsItsTurn => (4, "takes turns"),
        LimitReason::OnsetOfOthers => (5, "makes room"),
    };
    let all = orders.map(|(flow, order)| ranked(flow, &order.reason));
    all.max().map_or("free", |(_, state)| state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::units::Instant;
    use host::{ConnectionId, FlowLimit};

    /// At 10 Mbit/s.
    const LEAST: Duration = Duration::from_micros(12_112);

    #[test]
    fn the_smallest_window_of_the_law_is_the_one_that_check_counts_with() {
        assert_eq!(
            host::law::flow_controller::LEAST,
            control::yields::LEAST_WINDOW as f64
        );
    }

    fn flow() -> FlowSample {
        FlowSample::new(ConnectionId(1), MemberId(0), Instant::START)
    }

    #[test]
    fn the_state_of_a_class_is_the_strictest_of_its_connections() {
        let flow = flow();
        let order = |reason| LimitOrder {
            flow: ConnectionId(1),
            direction: DataDirection::Download,
            limit: FlowLimit::Free,
            reason,
        };
        let orders = [
            LimitReason::Cap(Bandwidth::mbit(1)),
            LimitReason::WaitsItsTurn,
            LimitReason::LinkIsFree,
        ]
        .map(order);
        assert_eq!(
            strictest(orders.iter().map(|order| (&flow, order)), LEAST),
            "takes turns"
        );
        assert_eq!(strictest([].into_iter(), LEAST), "free");
    }

    #[test]
    fn a_class_is_said_not_to_yield_over_a_round_trip_that_is_too_short() {
        let order = LimitOrder {
            flow: ConnectionId(1),
            direction: DataDirection::Download,
            limit: FlowLimit::Free,
            reason: LimitReason::LinkIsFull,
        };
        let state = |micros: u64| {
            let flow = FlowSample {
                min_rtt: Some(Duration::from_micros(micros)),
                ..flow()
            };
            strictest([(&flow, &order)].into_iter(), LEAST)
        };
        assert_eq!(state(12_200), "yields");
        assert_eq!(state(12_000), "cannot yield: round trip too short");
    }
}
