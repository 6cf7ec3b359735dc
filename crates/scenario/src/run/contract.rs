//! Whether what a reservation guarantees was kept, in the simulator or in a lab: no packet that
//! keeps to what is reserved is lost, and none takes longer than the bound. In the simulator, at
//! each hop too.
//!
//! The first link on the path that has a class for the flow tells which packets keep to it, by the
//! times at which they reach its queue ([`measure::promised`]), and writes it into them. What
//! exceeds it is promised nothing, and may be policed. In a lab a sender that this machine held up
//! sends such packets: all at once what it should have sent meanwhile. So each of them is held
//! against the hold-ups of its sender and of the links before.

use super::held_up::{self, Delayed};
use super::judge::verdict;
use super::outcome::{Judgement, KeptContract, KeptHop};
use crate::Scenario;
use crate::language::{Expectation, Metric, ReservationConfig, Subject};
use control::expectations::Bounds;
use control::judged::are_few;
use engine::units::{Duration, Instant};
use lab::stood_still::StoodStill;
use measure::hold_ups::HoldUp;
use measure::promised::PromisedArrivals;

/// What is usual on the way from a sender to the first class, beside propagation.
const USUAL: Duration = Duration::from_millis(10);

/// What is known of a reserved flow.
pub(super) struct ReservedTraffic<'a> {
    /// The name of the reservation, and its index.
    pub(super) name: &'a str,
    pub(super) index: usize,
    /// The first link with a class for it, and what came there.
    pub(super) at: &'a str,
    pub(super) came: PromisedArrivals,
    /// The propagation delay from the sender to there.
    pub(super) flight: Duration,
    /// Hold-ups of the sender, and of all links.
    pub(super) hold_ups: Vec<HoldUp>,
    /// How many are on their way that kept to it.
    pub(super) on_the_way: u64,
    /// How each hop kept what it promised to those that came to it.
    pub(super) hops: Vec<KeptHop>,
    /// What arrived, of what something was promised to, and whether it kept to it.
    pub(super) got: Vec<(bool, Delayed)>,
    /// The bound from end to end, propagation included.
    pub(super) limit: Option<Duration>,
}

impl ReservedTraffic<'_> {
    fn promised(&self) -> impl Iterator<Item = Delayed> + Clone {
        let promised = self.got.iter().filter(|(conforms, _)| *conforms);
        promised.map(|(_, delayed)| *delayed)
    }

    /// What has become of it.
    pub(super) fn contract(&self) -> KeptContract {
        let promised = self.came.packets - self.came.exceeded;
        let arrived = self.promised().count() as u64 + self.on_the_way;
        let longest = self.came.exceeded_at.iter().filter_map(|at| self.held_up(*at));
        let apart = self.promised().filter(|one| one.apart).count() as u64;
        let are_apart = are_few(apart, self.promised().count() as u64);
        let is_late = |one: &Delayed| {
            let over = self.limit.is_some_and(|limit| one.delay - one.held > limit);
            over && !(are_apart && one.apart)
        };
        KeptContract {
            at: self.at.into(),
            packets: self.came.packets,
            exceeded: self.came.exceeded,
            earliest: self.came.earliest,
            policed: self.came.policed,
            held_up: longest.clone().count() as u64,
            longest: longest.max().unwrap_or_default(),
            lost: promised.saturating_sub(arrived),
            late: self.promised().filter(is_late).count() as u64,
            hops: self.hops.clone(),
        }
    }

    /// The longest hold-up because of which a packet may have come then.
    fn held_up(&self, at: Instant) -> Option<Duration> {
        let after = self.flight + USUAL;
        let concerns = |one: &&HoldUp| one.from < at && at < one.worked_off() + after;
        let all = self.hold_ups.iter().filter(concerns);
        all.map(|one| one.length()).max()
    }

    /// The verdicts: none was lost, and none took longer than the bound.
    pub(super) fn judged(&self, contract: &KeptContract, still: &StoodStill) -> Vec<Judgement> {
        let expect = |what: &str, metric, at_most| Expectation {
            what: format!("reservation {}: {what}", self.name),
            subject: Subject::Reservation(self.index),
            metric,
            from: Instant::START,
            to: Instant::NEVER,
            bounds: Bounds {
                at_least: None,
                at_most: Some(at_most),
            },
        };
        let lost = expect("packets lost that kept to it", Metric::Drops, 0);
        let late = self.limit.map(|limit| {
            let longest = expect("the longest delay of these", Metric::DelayMax, limit.nanos());
            held_up::judge(&longest, self.promised(), still)
        });
        let at_hop = |hop: &KeptHop| {
            let late = expect(&format!("packets late at {}", hop.at), Metric::Packets, 0);
            verdict(&late, hop.late)
        };
        std::iter::once(verdict(&lost, contract.lost))
            .chain(late)
            .chain(contract.hops.iter().map(at_hop))
            .collect()
    }
}

/// Whether nothing that a reservation promises is broken by what the scenario does to its path.
pub(super) fn may_be_promised(scenario: &Scenario, reservation: &ReservationConfig) -> bool {
    let path = scenario.path(scenario.flows[reservation.flow].between);
    let is_whole = |direction: usize| {
        let direction = &scenario.directions[direction];
        direction.trace.is_none() && direction.later.is_empty() && direction.settings.impairments().are_none()
    };
    scenario.failures.is_empty() && path.into_iter().all(is_whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * MS)
    }

    fn delayed(delay: u64, held: u64) -> Delayed {
        Delayed {
            delay: Duration::from_millis(delay),
            held: Duration::from_millis(held),
            apart: false,
        }
    }

    /// 103 packets came, of which 3 exceeded it, at 205, 206 and 900 ms; one of these passed. The
    /// sender was held up from 190 to 200 ms. 20 ms are promised.
    fn traffic(got: Vec<(bool, Delayed)>) -> ReservedTraffic<'static> {
        ReservedTraffic {
            name: "call",
            index: 0,
            at: "left > right",
            came: PromisedArrivals {
                packets: 103,
                exceeded_at: vec![at(205), at(206), at(900)],
                exceeded: 3,
                earliest: Duration::from_millis(2),
                policed: 2,
                refused: 0,
            },
            flight: Duration::from_millis(1),
            hold_ups: vec![HoldUp {
                from: at(190),
                until: at(200),
            }],
            on_the_way: 0,
            hops: Vec::new(),
            got,
            limit: Some(Duration::from_millis(20)),
        }
    }

    fn verdicts(got: Vec<(bool, Delayed)>) -> (KeptContract, Vec<bool>) {
        let traffic = traffic(got);
        let contract = traffic.contract();
        let judged = traffic.judged(&contract, &StoodStill::default());
        (contract, judged.iter().map(|one| one.met).collect())
    }

    #[test]
    fn what_exceeds_is_promised_nothing_and_told_with_its_hold_ups() {
        let got = [vec![(true, delayed(20, 0)); 100], vec![(false, delayed(90, 0))]].concat();
        let (contract, met) = verdicts(got);
        let expected = KeptContract {
            at: "left > right".into(),
            packets: 103,
            exceeded: 3,
            earliest: Duration::from_millis(2),
            policed: 2,
            held_up: 2,
            longest: Duration::from_millis(10),
            lost: 0,
            late: 0,
            hops: Vec::new(),
        };
        assert_eq!((contract, met), (expected, vec![true, true]));
    }

    #[test]
    fn what_is_on_its_way_is_not_lost_and_a_hop_that_was_late_breaks_it() {
        let hop = |at: &str, late| KeptHop {
            at: at.into(),
            late,
            ..KeptHop::default()
        };
        let told = |on_the_way, late| {
            let traffic = ReservedTraffic {
                on_the_way,
                hops: vec![hop("left > right", 0), hop("right > end", late)],
                ..traffic(vec![(true, delayed(20, 0)); 98])
            };
            let contract = traffic.contract();
            let judged = traffic.judged(&contract, &StoodStill::default());
            let met: Vec<bool> = judged.iter().map(|one| one.met).collect();
            (contract.lost, met)
        };
        assert_eq!(told(2, 0), (0, vec![true; 4]));
        assert_eq!(told(1, 0), (1, vec![false, true, true, true]));
        assert_eq!(told(2, 1), (0, vec![true, true, true, false]));
    }

    #[test]
    fn a_packet_that_kept_to_it_and_is_lost_or_late_breaks_it() {
        let all = vec![(true, delayed(20, 0)); 100];
        let told = |got: Vec<(bool, Delayed)>| {
            let (contract, met) = verdicts(got);
            (contract.lost, contract.late, met)
        };
        assert_eq!(told(all[..99].to_vec()), (1, 0, vec![false, true]));
        // One that exceeded it does not stand for it.
        let other = [all[..99].to_vec(), vec![(false, delayed(9, 0))]].concat();
        assert_eq!(told(other), (1, 0, vec![false, true]));
        let late = [all[..99].to_vec(), vec![(true, delayed(21, 0))]].concat();
        assert_eq!(told(late), (0, 1, vec![true, false]));
        let held_up = [all[..99].to_vec(), vec![(true, delayed(21, 1))]].concat();
        assert_eq!(told(held_up), (0, 0, vec![true, true]), "the machine's");
    }
}
