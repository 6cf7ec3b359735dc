//! Admission of flows that need a delay: IPS ("interrupt packet scheduling", Kusaka and Sugano),
//! with two rules.
//!
//! A flow states a rate ρ, a burst σ and the delay *D* that it needs. IPS turns the flows into
//! priorities, by increasing *D*, and tests every one:
//!
//! - [`Rule::Paper`]: σᵢ and the bursts of all flows above it are at most *C* *Dᵢ*;
//! - [`Rule::Sound`]: the bound of [strict priority](crate::bounds) is at most *Dᵢ*. It counts,
//!   beyond the paper's rule, the packet that is being sent, the device's ring, and the new bursts
//!   of higher flows.
//!
//! A flow is admitted if it and every admitted flow keep their *D*; otherwise nothing changes, and
//! the [`AdmissionRefusal`] states what was requested, what is possible, which flow is in the way
//! and what would fit. So a guarantee is never weakened: later flows can raise a flow's bound,
//! never above the delay that it requested.
//!
//! For the paper's rule the order by *D* admits all whenever any order does. For the sound rule
//! another order is better now and then (a flow of a high rate and a long *D* below one of a low
//! rate and a slightly longer *D*); then a flow is refused that could have been admitted, and never
//! the other way round.
//!
//! Where there are fewer priorities than flows, neighbours in the order share one, and count in
//! full for each other.

use crate::bounds::{ArrivalCurve, Bound, PriorityClass, RateLatency, shown, strict_priority};
use crate::choices;
use crate::units::{Bandwidth, Bytes, Duration};
use std::fmt;

choices! {
    /// The rule by which flows are admitted.
    pub enum Rule {
        /// A bound that holds.
        Sound = "sound",
        /// As the paper computes it.
        Paper = "paper",
    }
}

/// A flow that requests a delay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowRequest {
    /// Its name, for messages, and for leaving.
    pub name: String,
    /// The arrival curve of its senders.
    pub arrivals: ArrivalCurve,
    /// The delay that it needs, from its arrival to its last bit on the link.
    pub delay: Duration,
}

/// An admitted flow's priority and guarantees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdmittedPlace {
    /// Its priority now, from 0; the larger is served first.
    pub priority: u32,
    /// Its worst-case delay by the rule, at most what it requested.
    pub delay: Duration,
    /// The bytes that its queue must hold so that nothing is dropped.
    pub queue: Bytes,
}

/// Why a flow cannot be admitted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Why {
    /// A flow of this name is admitted already.
    Known,
    /// The rates together would be more than the link.
    Rate {
        /// What is left.
        left: Bandwidth,
    },
    /// Its own delay: flows with shorter delays go first.
    Own {
        /// The delay that is possible with its place; none if there is no bound.
        possible: Option<Duration>,
        /// The flow above it with the largest burst.
        above: Option<String>,
    },
    /// Another flow would lose its guarantee.
    Other {
        /// Which.
        name: String,
        /// Its guaranteed delay.
        guaranteed: Duration,
        /// What it would get; none if there were no bound.
        would: Option<Duration>,
    },
}

/// Why a flow is refused, with the numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AdmissionRefusal {
    /// What was requested.
    pub request: FlowRequest,
    /// What stands against it.
    pub why: Why,
    /// The shortest delay with which it could come in as it is.
    pub fits_delay: Option<Duration>,
    /// The largest burst with which it could come in, its rate and delay as they are.
    pub fits_burst: Option<Bytes>,
}

impl fmt::Display for AdmissionRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FlowRequest {
            name,
            arrivals,
            delay,
        } = &self.request;
        let worst = |time: &Option<Duration>| time.map_or("no bound".into(), |time| shown(time).to_string());
        match &self.why {
            Why::Known => write!(f, "`{name}` has a guaranteed delay already"),
            Why::Rate { left } => write!(
                f,
                "`{name}` asks for {}, and {left} of the link is left",
                arrivals.rate
            ),
            Why::Own { possible, above } => {
                write!(
                    f,
                    "`{name}` asks for {delay}, and {} is possible",
                    worst(possible)
                )?;
                let above = above.as_ref().map(|above| format!("; `{above}` goes before it"));
                f.write_str(&above.unwrap_or_default())
            }
            Why::Other {
                name: other,
                guaranteed,
                would,
            } => write!(
                f,
                "`{name}` with a delay of {delay} would raise `{other}` from its guaranteed {guaranteed} to {}",
                worst(would)
            ),
        }
    }
}

impl AdmissionRefusal {
    /// What would fit, in words.
    pub fn advice(&self) -> String {
        let delay = self
            .fits_delay
            .map(|delay| format!("a delay of {}", shown(delay)));
        let burst = self
            .fits_burst
            .filter(|burst| *burst > Bytes::ZERO)
            .map(|burst| format!("a burst of {burst}"));
        match (delay, burst) {
            (None, None) => {
                "nothing like it fits: its rate is too large, or the others ask for too much".into()
            }
            (Some(one), None) | (None, Some(one)) => format!("it would fit with {one}"),
            (Some(one), Some(other)) => format!("it would fit with {one}, or with {other}"),
        }
    }
}

/// The admitted flows of one link.
#[derive(Clone, Debug)]
pub struct Admission {
    rule: Rule,
    link: Bandwidth,
    ahead: Bytes,
    priorities: u32,
    /// By increasing delay; of equal ones, in order of admission.
    flows: Vec<FlowRequest>,
    /// Their priorities. They stay when another flow leaves: neighbours put together anew could do
    /// worse than before.
    levels: Vec<u32>,
}

impl Admission {
    /// A link without flows. `ahead` is what may have been handed to the device before, see
    /// [`Link::ahead`](crate::link::Link::ahead).
    pub fn new(rule: Rule, link: Bandwidth, ahead: Bytes, priorities: u32) -> Self {
        Self {
            rule,
            link,
            ahead,
            priorities: priorities.max(1),
            flows: Vec::new(),
            levels: Vec::new(),
        }
    }

    /// The admitted flows, by increasing delay.
    pub fn flows(&self) -> &[FlowRequest] {
        &self.flows
    }

    /// Admits a flow, if every guarantee can be kept; otherwise nothing changes.
    ///
    /// # Errors
    /// Why it is refused, and what would fit.
    pub fn admit(&mut self, flow: FlowRequest) -> Result<AdmittedPlace, Box<AdmissionRefusal>> {
        if self.flows.iter().any(|other| other.name == flow.name) {
            return Err(Box::new(AdmissionRefusal {
                request: flow,
                why: Why::Known,
                fits_delay: None,
                fits_burst: None,
            }));
        }
        match self.with(&flow) {
            Ok((flows, index)) => {
                self.levels = self.prioritised(flows.len());
                self.flows = flows;
                self.places()[index].ok_or_else(|| {
                    self.refusal(
                        flow,
                        Why::Own {
                            possible: None,
                            above: None,
                        },
                    )
                })
            }
            Err(why) => Err(self.refusal(flow, why)),
        }
    }

    /// Removes a flow; no other gets less by it. `false` if there is none of this name.
    pub fn leave(&mut self, name: &str) -> bool {
        let index = self.flows.iter().position(|flow| flow.name == name);
        index
            .map(|index| (self.flows.remove(index), self.levels.remove(index)))
            .is_some()
    }

    /// Changes an admitted flow as a whole: its new arrival curve and delay hold, or its old ones
    /// still do.
    ///
    /// # Errors
    /// Why the change is refused, and what would fit.
    pub fn change(&mut self, flow: FlowRequest) -> Result<AdmittedPlace, Box<AdmissionRefusal>> {
        let mut other = self.clone();
        other.leave(&flow.name);
        let place = other.admit(flow)?;
        *self = other;
        Ok(place)
    }

    /// The place of a flow that is in.
    pub fn place(&self, name: &str) -> Option<AdmittedPlace> {
        let index = self.flows.iter().position(|flow| flow.name == name)?;
        self.places()[index]
    }

    /// The places of all flows that are in, in their order.
    pub fn places(&self) -> Vec<Option<AdmittedPlace>> {
        self.placed(&self.flows, &self.levels)
    }

    /// The flows with this one among them, and where; or what stands against it.
    fn with(&self, flow: &FlowRequest) -> Result<(Vec<FlowRequest>, usize), Why> {
        let used: Bandwidth = self.flows.iter().map(|flow| flow.arrivals.rate).sum();
        let left = self.link - used;
        if flow.arrivals.rate > left {
            return Err(Why::Rate { left });
        }
        let index = self.flows.partition_point(|other| other.delay <= flow.delay);
        let mut flows = self.flows.clone();
        flows.insert(index, flow.clone());
        let places = self.placed(&flows, &self.prioritised(flows.len()));
        let kept = |at: usize| places[at].is_some_and(|place| place.delay <= flows[at].delay);
        let delay = |at: usize| places[at].map(|place| place.delay);
        if !kept(index) {
            let above = flows[..index].iter().max_by_key(|other| other.arrivals.burst);
            return Err(Why::Own {
                possible: delay(index),
                above: above.map(|above| above.name.clone()),
            });
        }
        match (0..flows.len()).find(|&at| !kept(at)) {
            None => Ok((flows, index)),
            Some(at) => Err(Why::Other {
                name: flows[at].name.clone(),
                guaranteed: flows[at].delay,
                would: delay(at),
            }),
        }
    }

    /// The bounds that hold for flows as they would be placed, by name, whatever rule let them in.
    pub fn sound(
        link: Bandwidth,
        ahead: Bytes,
        priorities: u32,
        flows: &[FlowRequest],
    ) -> Vec<(String, Option<Bound>)> {
        let mut flows = flows.to_vec();
        flows.sort_by_key(|flow| flow.delay);
        let all = Self::new(Rule::Sound, link, ahead, priorities);
        let places = all.placed(&flows, &all.prioritised(flows.len()));
        let bound = |(flow, place): (FlowRequest, Option<AdmittedPlace>)| {
            let bound = place.map(|place| Bound {
                delay: place.delay,
                backlog: place.queue,
                arrivals: Some(flow.arrivals),
                shortest: Bytes::ZERO,
            });
            (flow.name, bound)
        };
        flows.into_iter().zip(places).map(bound).collect()
    }

    /// The places of these flows with these priorities; none where there is no bound.
    fn placed(&self, flows: &[FlowRequest], levels: &[u32]) -> Vec<Option<AdmittedPlace>> {
        let class = |(flow, &priority): (&FlowRequest, &u32)| PriorityClass {
            priority,
            arrivals: flow.arrivals,
        };
        let classes: Vec<PriorityClass> = flows.iter().zip(levels).map(class).collect();
        let services = strict_priority(self.link, self.ahead, &classes);
        let place = |(service, class): (&RateLatency, &PriorityClass)| {
            let sound = service.bound(class.arrivals);
            let (delay, queue) = match self.rule {
                Rule::Sound => sound.map(|bound| (bound.delay, bound.backlog))?,
                // The bursts of its own and of higher flows, at the speed of the link; the burst is
                // the queue.
                Rule::Paper => {
                    let before = service.before - u128::from(self.ahead.get());
                    let alone = ArrivalCurve {
                        rate: Bandwidth::ZERO,
                        burst: class.arrivals.burst,
                    };
                    let bound = RateLatency::after(before, self.link).bound(alone)?;
                    (bound.delay, class.arrivals.burst)
                }
            };
            Some(AdmittedPlace {
                priority: class.priority,
                delay,
                queue,
            })
        };
        services.iter().zip(&classes).map(place).collect()
    }

    /// The priorities of so many flows in order: one each, as far as there are enough.
    fn prioritised(&self, flows: usize) -> Vec<u32> {
        let count = flows as u64;
        let levels = u64::from(self.priorities).min(count);
        (0..count)
            .rev()
            .map(|behind| (behind * levels / count) as u32)
            .collect()
    }

    fn refusal(&self, request: FlowRequest, why: Why) -> Box<AdmissionRefusal> {
        let fits_delay = self.fitting_delay(&request);
        let fits_burst = match why {
            Why::Rate { .. } | Why::Known => None,
            _ => self.fitting_burst(&request),
        };
        Box::new(AdmissionRefusal {
            request,
            why,
            fits_delay,
            fits_burst,
        })
    }

    /// The shortest delay, not shorter than requested, with which a flow fits: tried behind every
    /// other.
    fn fitting_delay(&self, request: &FlowRequest) -> Option<Duration> {
        let later = self
            .flows
            .iter()
            .map(|flow| flow.delay)
            .filter(|delay| *delay > request.delay);
        std::iter::once(request.delay).chain(later).find_map(|delay| {
            match self.with(&FlowRequest {
                delay,
                ..request.clone()
            }) {
                Ok(_) => Some(delay),
                // With its place it could have that, if it keeps the place by it.
                Err(Why::Own {
                    possible: Some(possible),
                    ..
                }) => {
                    let possible = shown(possible);
                    self.with(&FlowRequest {
                        delay: possible,
                        ..request.clone()
                    })
                    .is_ok()
                    .then_some(possible)
                }
                Err(_) => None,
            }
        })
    }

    /// The largest burst with which a flow fits; none if not even without one.
    fn fitting_burst(&self, request: &FlowRequest) -> Option<Bytes> {
        let fits = |burst: u64| {
            let arrivals = ArrivalCurve {
                burst: Bytes::new(burst),
                ..request.arrivals
            };
            self.with(&FlowRequest {
                arrivals,
                ..request.clone()
            })
            .is_ok()
        };
        if !fits(0) {
            return None;
        }
        let (mut fitting, mut too_large) = (0, request.arrivals.burst.get());
        while too_large - fitting > 1 {
            let middle = fitting + (too_large - fitting) / 2;
            *(if fits(middle) {
                &mut fitting
            } else {
                &mut too_large
            }) = middle;
        }
        Some(Bytes::new(fitting))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Rng, Seed};

    const LINK: Bandwidth = Bandwidth::mbit(10);
    const FRAME: Bytes = Bytes::new(1_518);

    fn flow(name: &str, packets: u64, kbit: u64, millis: u64) -> FlowRequest {
        let arrivals = ArrivalCurve {
            rate: Bandwidth::kbit(kbit),
            burst: FRAME.times(packets),
        };
        FlowRequest {
            name: name.into(),
            arrivals,
            delay: Duration::from_millis(millis),
        }
    }

    fn link(rule: Rule) -> Admission {
        Admission::new(rule, LINK, FRAME, u32::MAX)
    }

    #[test]
    fn the_papers_figures_are_its_rule() {
        let mut ips = link(Rule::Paper);
        let mut delay = |flow: FlowRequest| {
            ips.admit(flow)
                .map(|place| (place.delay.nanos(), place.queue.get()))
        };
        assert_eq!(delay(flow("1", 8, 1_910, 10)), Ok((9_715_200, 8 * 1_518)));
        ips.leave("1");
        let delays = |flows: &[FlowRequest]| -> u64 {
            let mut ips = link(Rule::Paper);
            let places = flows.iter().map(|flow| ips.admit(flow.clone()).expect("it fits"));
            places.last().expect("a flow").delay.nanos()
        };
        let (two, three) = (flow("2", 8, 3_100, 10), flow("3", 16, 1_960, 30));
        assert_eq!(delays(&[two.clone(), flow("1", 8, 1_910, 20)]), 19_430_400);
        assert_eq!(delays(&[two, three, flow("1", 8, 1_910, 40)]), 38_860_800);
    }

    #[test]
    fn the_papers_rule_guarantees_less_than_what_can_happen() {
        let mut ips = link(Rule::Sound);
        let refusal = ips
            .admit(flow("1", 8, 1_910, 10))
            .expect_err("a packet may be on the wire");
        assert_eq!(
            refusal.why,
            Why::Own {
                possible: Some(Duration::from_nanos(10_929_600)),
                above: None
            }
        );
        assert_eq!(refusal.fits_delay, Some(Duration::from_micros(10_930)));
        assert_eq!(refusal.fits_burst, Some(Bytes::new(12_500 - 1_518)));
        let text = format!("{refusal}: {}", refusal.advice());
        assert_eq!(
            text,
            "`1` asks for 10 ms, and 10.93 ms is possible: it would fit with a delay of 10.93 ms, or with a burst of 10.982 kB"
        );
    }

    #[test]
    fn who_is_in_the_way_is_named_with_the_numbers() {
        let mut ips = link(Rule::Sound);
        ips.admit(flow("voice", 2, 1_000, 5)).expect("it fits");
        let refusal = ips
            .admit(flow("game", 2, 1_000, 4))
            .expect_err("voice comes after it");
        let would = Some(Duration::from_nanos(6_746_667));
        assert_eq!(
            refusal.why,
            Why::Other {
                name: "voice".into(),
                guaranteed: Duration::from_millis(5),
                would
            }
        );
        let fits = refusal.fits_delay.expect("behind voice");
        assert!(
            ips.admit(FlowRequest {
                delay: fits,
                ..flow("game", 2, 1_000, 0)
            })
            .is_ok(),
            "{fits}"
        );
        let refusal = ips.admit(flow("more", 1, 9_000, 1_000)).expect_err("10 Mbit/s");
        assert_eq!(
            refusal.why,
            Why::Rate {
                left: Bandwidth::mbit(8)
            }
        );
    }

    #[test]
    fn a_change_that_breaks_a_guarantee_changes_nothing() {
        let mut ips = link(Rule::Sound);
        ips.admit(flow("a", 2, 1_000, 5)).expect("it fits");
        ips.admit(flow("b", 2, 1_000, 9)).expect("it fits");
        let before = ips.flows().to_vec();
        assert!(ips.change(flow("a", 6, 1_000, 9)).is_err());
        assert_eq!(ips.flows(), before);
        assert!(ips.change(flow("a", 1, 2_000, 4)).is_ok());
    }

    fn any(rng: &mut Rng, number: u64) -> FlowRequest {
        let delay = Duration::from_micros(1_000 + rng.below(200_000));
        let arrivals = ArrivalCurve {
            rate: Bandwidth::kbit(1 + rng.below(1_500)),
            burst: Bytes::new(64 + rng.below(20_000)),
        };
        FlowRequest {
            name: number.to_string(),
            arrivals,
            delay,
        }
    }

    #[test]
    fn admission_never_weakens_a_guarantee_however_flows_come_and_go() {
        for (rule, priorities) in [
            (Rule::Sound, u32::MAX),
            (Rule::Sound, 7),
            (Rule::Paper, u32::MAX),
            (Rule::Paper, 7),
        ] {
            let mut rng = Seed(u64::from(priorities)).stream();
            let (mut admitted, mut refused) = (0, 0);
            let mut ips = Admission::new(rule, LINK, FRAME, priorities);
            for number in 0..2_000 {
                match rng.below(3) {
                    0 if !ips.flows().is_empty() => {
                        let name = ips.flows()[rng.below(ips.flows().len() as u64) as usize]
                            .name
                            .clone();
                        assert!(ips.leave(&name));
                    }
                    _ => match ips.admit(any(&mut rng, number)) {
                        Ok(_) => admitted += 1,
                        Err(_) => refused += 1,
                    },
                }
                for (flow, place) in ips.flows().iter().zip(ips.places()) {
                    assert!(
                        place.is_some_and(|place| place.delay <= flow.delay),
                        "{flow:?} {place:?}"
                    );
                }
                let rates: Bandwidth = ips.flows().iter().map(|flow| flow.arrivals.rate).sum();
                assert!(rates <= LINK);
            }
            assert!(
                admitted > 200 && refused > 100,
                "{admitted} and {refused}: nothing was tried"
            );
        }
    }

    #[test]
    fn what_would_fit_fits() {
        let mut rng = Seed(5).stream();
        let mut ips = link(Rule::Sound);
        let (mut delays, mut bursts) = (0, 0);
        for number in 0..300 {
            let request = any(&mut rng, number);
            let Err(refusal) = ips.admit(request.clone()) else {
                continue;
            };
            if let Some(delay) = refusal.fits_delay {
                assert!(
                    ips.clone()
                        .admit(FlowRequest {
                            delay,
                            ..request.clone()
                        })
                        .is_ok(),
                    "{refusal:?}"
                );
                delays += 1;
            }
            if let Some(burst) = refusal.fits_burst {
                let arrivals = ArrivalCurve {
                    burst,
                    ..request.arrivals
                };
                assert!(
                    ips.clone().admit(FlowRequest { arrivals, ..request }).is_ok(),
                    "{refusal:?}"
                );
                bursts += 1;
            }
            if rng.below(3) == 0 {
                let name = ips.flows()[0].name.clone();
                ips.leave(&name);
            }
        }
        assert!(delays > 20 && bursts > 20, "{delays}, {bursts}");
    }

    #[test]
    fn a_link_is_filled_to_the_last_bit_and_a_flow_that_is_in_is_not_let_in_again() {
        let mut ips = link(Rule::Sound);
        ips.admit(flow("a", 1, 4_000, 1_000)).expect("it fits");
        let known = ips.admit(flow("a", 1, 1, 1_000)).expect_err("it is in");
        assert_eq!(
            (known.why, known.fits_delay, known.fits_burst),
            (Why::Known, None, None)
        );
        let refusal = ips
            .admit(flow("b", 1, 6_001, 1_000))
            .expect_err("1 kbit/s too much");
        let left = Bandwidth::mbit(6);
        assert_eq!(
            (refusal.why.clone(), refusal.fits_burst),
            (Why::Rate { left }, None)
        );
        assert_eq!(
            refusal.advice(),
            "nothing like it fits: its rate is too large, or the others ask for too much"
        );
        assert!(ips.admit(flow("b", 1, 6_000, 1_000)).is_ok());
        assert!(ips.place("b").is_some() && ips.place("c").is_none());
        assert!(!ips.leave("c") && ips.leave("b") && !ips.leave("b"));
        assert_eq!((ips.flows().len(), ips.places().len()), (1, 1));
    }

    #[test]
    fn flows_are_in_the_order_of_their_delays_and_of_equal_ones_of_admission() {
        let mut ips = link(Rule::Sound);
        for (name, millis) in [("a", 300), ("b", 200), ("c", 300), ("d", 100)] {
            ips.admit(flow(name, 1, 100, millis)).expect("it fits");
        }
        let names: Vec<&str> = ips.flows().iter().map(|flow| flow.name.as_str()).collect();
        assert_eq!(names, ["d", "b", "a", "c"]);
        let priorities: Vec<_> = ips
            .places()
            .iter()
            .map(|place| place.map(|place| place.priority))
            .collect();
        assert_eq!(priorities, [Some(3), Some(2), Some(1), Some(0)]);
    }

    #[test]
    fn flows_share_priorities_where_there_are_not_enough() {
        let levels =
            |priorities, flows| Admission::new(Rule::Sound, LINK, FRAME, priorities).prioritised(flows);
        assert_eq!(levels(u32::MAX, 3), [2, 1, 0]);
        assert_eq!(levels(3, 3), [2, 1, 0]);
        assert_eq!(levels(2, 5), [1, 1, 0, 0, 0]);
        assert_eq!(levels(0, 2), [0, 0], "there is one");
        assert_eq!(levels(4, 0), []);
    }

    #[test]
    fn the_bounds_that_hold_are_told_in_the_order_of_delays() {
        let flows = [flow("slow", 2, 2_000, 9), flow("quick", 1, 1_000, 5)];
        let bounds = Admission::sound(LINK, FRAME, u32::MAX, &flows);
        let told: Vec<_> = bounds
            .iter()
            .map(|(name, bound)| {
                (
                    name.as_str(),
                    bound.map(|bound| (bound.delay.nanos(), bound.arrivals)),
                )
            })
            .collect();
        // A frame takes 1.2144 ms; the slower one has 9 Mbit/s after the device and the quick one.
        let slow = (1_518u64 * 4 * 8_000).div_ceil(9);
        assert_eq!(
            told,
            [
                ("quick", Some((2_428_800, Some(flows[1].arrivals)))),
                ("slow", Some((slow, Some(flows[0].arrivals))))
            ]
        );
    }
}
