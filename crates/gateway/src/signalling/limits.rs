//! Limits of state that neighbours have reached: counted, shown, and logged once a minute each.
//!
//! Anybody on a link can reach them, so no line is logged for each message.

use super::interfaces::SignallingInterface;
use super::overview;
use control::reservation::LimitView;
use engine::units::{Duration, Instant};
use rsvp::node::{LimitOutcome, LimitedState};
use rsvp::places::{Neighbour, Shortage};
use rsvp::reduction::ReductionCounts;
use rsvp::traffic_control::InterfaceId;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The least time between two lines of the log about one limit.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// A limit that was reached.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Limit {
    /// Of the state of neighbours on an interface.
    State(LimitedState, InterfaceId, LimitOutcome),
    /// Of neighbours with refresh reduction: one was forgotten, or got no place.
    NeighbourEvicted,
    NeighbourRefused,
}

/// How often a limit was reached.
#[derive(Clone, Copy, Debug)]
struct Reached {
    count: u64,
    last: Instant,
    /// The last neighbour.
    from: Option<IpAddr>,
    logged: Option<Instant>,
}

/// The limits that were reached. There are a few for each interface.
#[derive(Debug, Default)]
pub struct Limits {
    reached: BTreeMap<Limit, Reached>,
    reduction: ReductionCounts,
}

impl Limits {
    /// State of a neighbour was refused or torn down. Returns a line for the log, if it is time for
    /// one.
    pub fn state(
        &mut self,
        now: Instant,
        state: LimitedState,
        neighbour: Neighbour,
        outcome: LimitOutcome,
        interfaces: &[SignallingInterface],
    ) -> Option<String> {
        let limit = Limit::State(state, neighbour.interface, outcome);
        self.count(now, limit, 1, Some(neighbour.address), interfaces)
    }

    /// The statistics of refresh reduction as they are now. Returns lines for the log.
    pub fn reduction(
        &mut self,
        now: Instant,
        counts: ReductionCounts,
        interfaces: &[SignallingInterface],
    ) -> Vec<String> {
        let before = std::mem::replace(&mut self.reduction, counts);
        let evicted = counts.evicted_neighbours - before.evicted_neighbours;
        let refused = counts.without_place - before.without_place;
        [
            (Limit::NeighbourEvicted, evicted),
            (Limit::NeighbourRefused, refused),
        ]
        .into_iter()
        .filter_map(|(limit, more)| self.count(now, limit, more, None, interfaces))
        .collect()
    }

    fn count(
        &mut self,
        now: Instant,
        limit: Limit,
        more: u64,
        from: Option<IpAddr>,
        interfaces: &[SignallingInterface],
    ) -> Option<String> {
        if more == 0 {
            return None;
        }
        let reached = self.reached.entry(limit).or_insert(Reached {
            count: 0,
            last: now,
            from,
            logged: None,
        });
        reached.count += more;
        reached.last = now;
        reached.from = from;
        if reached.logged.is_some_and(|logged| now < logged + LOG_INTERVAL) {
            return None;
        }
        reached.logged = Some(now);
        let view = view(now, limit, *reached, interfaces);
        Some(format!("{}; {} so far", view.message, view.count))
    }

    /// For clients, the latest last.
    pub fn views(&self, now: Instant, interfaces: &[SignallingInterface]) -> Vec<LimitView> {
        let mut all: Vec<_> = self.reached.iter().collect();
        all.sort_by_key(|(_, reached)| reached.last);
        let one = |(limit, reached): (&Limit, &Reached)| view(now, *limit, *reached, interfaces);
        all.into_iter().map(one).collect()
    }
}

fn view(now: Instant, limit: Limit, reached: Reached, interfaces: &[SignallingInterface]) -> LimitView {
    let name = |id: InterfaceId| overview::name(interfaces, id);
    let (word, interface, message) = match limit {
        Limit::State(state, id, outcome) => {
            let (word, what) = match state {
                LimitedState::Senders => ("senders", "path state"),
                LimitedState::Reservations => ("reservations", "reservation requests"),
            };
            let interface = name(id);
            let message = match outcome {
                LimitOutcome::Evicted => format!(
                    "{interface}: full: {what} that nobody had reserved for was torn down to make room"
                ),
                LimitOutcome::Refused(Shortage::Neighbour) => {
                    format!("{interface}: {what} refused: a neighbour has its share")
                }
                LimitOutcome::Refused(Shortage::Interface) => {
                    format!("{interface}: {what} refused: the interface has its share")
                }
                LimitOutcome::Refused(Shortage::Total) => {
                    format!("{interface}: {what} refused: this node is full")
                }
            };
            (word, Some(interface), message)
        }
        Limit::NeighbourEvicted => (
            "neighbours",
            None,
            "neighbours that were silent longest were forgotten to make room".into(),
        ),
        Limit::NeighbourRefused => (
            "neighbours",
            None,
            "messages of neighbours without a place were processed as plain RSVP".into(),
        ),
    };
    LimitView {
        what: word.into(),
        interface,
        from: reached.from,
        message,
        count: reached.count,
        seconds_ago: now.since(reached.last).as_secs_f64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_counted_whole_and_logged_once_a_minute() {
        let mut limits = Limits::default();
        let refused = LimitOutcome::Refused(Shortage::Neighbour);
        let mut lines = Vec::new();
        for at in 0..600_u64 {
            let now = Instant::START + Duration::from_millis(at * 200);
            let from = Neighbour {
                interface: 0,
                address: IpAddr::from([10, 0, (at >> 8) as u8, at as u8]),
            };
            lines.extend(limits.state(now, LimitedState::Senders, from, refused, &[]));
        }
        assert_eq!(lines.len(), 2, "{lines:?}");
        let views = limits.views(Instant::START + Duration::from_secs(120), &[]);
        assert_eq!((views.len(), views[0].count), (1, 600));
    }
}
