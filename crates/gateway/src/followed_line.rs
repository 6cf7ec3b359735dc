//! One line that is followed: which host is asked, which probes wait for their answers, and what
//! the law says. It has no socket and no clock, so that a simulation follows its lines by the same.

use control::autorate::{AutorateConfig, AutorateView, LineSide};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use host::law::autorate::{Autorate, AutorateInput, AutorateOrder, ProbeAnswer};
use netio::carried::PathCarried;
use std::collections::VecDeque;
use std::net::IpAddr;

/// A host that has not answered for so long is given up for the next.
const GIVE_UP: Duration = Duration::from_secs(2);
/// Probes that wait for their answers at most: of ten seconds.
const MOST_WAITING: usize = 400;

/// A probe that was sent.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    number: u64,
    sent: Instant,
    /// What the path had sent by then.
    carried: Bytes,
}

/// A line and its law.
#[derive(Debug, Default)]
pub struct FollowedLine {
    /// What was asked for at the last turn, and for which bandwidth.
    config: Option<(AutorateConfig, Bandwidth)>,
    line: Option<LineSide>,
    law: Option<Autorate>,
    /// The place in the list of the host that is asked, and since when.
    asked: (usize, Instant),
    waiting: VecDeque<Waiting>,
    answers: Vec<ProbeAnswer>,
    order: Option<AutorateOrder>,
}

impl FollowedLine {
    /// On which side of the queue it is; none before the first turn.
    pub fn side(&self) -> Option<LineSide> {
        self.line
    }

    /// The host that is asked; none before the first turn.
    pub fn target(&self) -> Option<IpAddr> {
        let (config, _) = self.config.as_ref()?;
        config.targets.get(self.asked.0).copied()
    }

    /// Whether it was loaded at the last turn.
    pub fn is_loaded(&self) -> bool {
        self.law.as_ref().is_some_and(Autorate::is_loaded)
    }

    /// A probe with this number was sent. Numbers ascend.
    pub fn sent(&mut self, number: u64, at: Instant, carried: PathCarried) {
        self.waiting.push_back(Waiting {
            number,
            sent: at,
            carried: carried.sent,
        });
        if self.waiting.len() > MOST_WAITING {
            self.waiting.pop_front();
        }
    }

    /// The answer of this probe arrived, when so much was carried; `None`: it is not known how
    /// much. One that is overtaken, or of a probe that is not known, says nothing.
    pub fn answered(&mut self, number: u64, at: Instant, carried: Option<PathCarried>) {
        // What was sent before an answered probe and is not answered is lost, or late.
        while let Some(probe) = self.waiting.front().copied() {
            if probe.number > number {
                return;
            }
            self.waiting.pop_front();
            let carried = match self.line {
                Some(LineSide::Behind) => carried.map(|carried| carried.offered),
                _ => Some(probe.carried),
            };
            if let Some(carried) = carried.filter(|_| probe.number == number) {
                self.answers.push(ProbeAnswer {
                    sent: probe.sent,
                    answered: at.max(probe.sent),
                    carried,
                });
            }
        }
    }

    /// The rate from now on, by what has been answered and carried. `elsewhere`: the line's other
    /// direction is loaded.
    pub fn turn(
        &mut self,
        config: &AutorateConfig,
        (interface, bandwidth): (&str, Bandwidth),
        carried: PathCarried,
        elsewhere: bool,
    ) -> AutorateOrder {
        let (now, bounds) = (carried.at, config.bounds(bandwidth));
        let former = self.config.as_ref();
        if former.is_none_or(|(former, _)| former.targets != config.targets) {
            self.asked = (0, now);
        }
        let line = Some(config.line(interface));
        if line != self.line {
            // What it has counted was another thing.
            (self.line, self.law) = (line, None);
        }
        self.config = Some((config.clone(), bandwidth));
        let law = self.law.get_or_insert_with(|| {
            let law = Autorate::new(now, bounds);
            match config.start(bandwidth) {
                Some(rate) => law.starting_at(rate),
                None => law,
            }
        });
        let order = law.tick(&AutorateInput {
            now,
            bounds,
            answers: &self.answers,
            waiting_since: self.waiting.front().map(|probe| probe.sent),
            carried: match line {
                Some(LineSide::Behind) => carried.offered,
                _ => carried.sent,
            },
            standing: config.settings.queue,
            elsewhere,
        });
        self.answers.clear();
        self.order = Some(order);
        self.give_up(now);
        order
    }

    /// Turns to the next host if the present one is silent.
    fn give_up(&mut self, now: Instant) {
        let hosts = self.config.as_ref().map_or(1, |(config, _)| config.targets.len());
        let silent = |probe: &Waiting| now.since(probe.sent.max(self.asked.1)) > GIVE_UP;
        if hosts > 1 && self.waiting.front().is_some_and(silent) {
            self.asked = ((self.asked.0 + 1) % hosts, now);
        }
    }

    /// How it stands; none before the first turn.
    pub fn view(&self) -> Option<AutorateView> {
        let ((config, bandwidth), order) = (self.config.as_ref()?, self.order?);
        let [min_bps, max_bps] = config.bounds(*bandwidth).map(Bandwidth::bits);
        Some(AutorateView {
            rate_bps: order.rate.bits(),
            min_bps,
            max_bps,
            state: order.state.name().into(),
            blind: order.state.is_blind(),
            target: self.target()?.to_string(),
            base_ns: order.base.map(Duration::nanos),
            queue_ns: order.queue.nanos(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::policy::{InterfacePolicy, Policy};
    use engine::tree::Registry;

    const BANDWIDTH: Bandwidth = Bandwidth::mbit(20);

    fn config(more: &str) -> AutorateConfig {
        let text = format!(
            "version = 1\n[interface.wan0]\nbandwidth = \"20 Mbit/s\"\n\
             autorate = {{ targets = [\"192.0.2.1\", \"192.0.2.2\"], min = \"1 Mbit/s\"{more} }}\n"
        );
        let policy = Policy::read("test", &text, &Registry::builtin(), &[]).expect("a policy");
        let autorate = |interface: InterfacePolicy| interface.autorate;
        let mut found = policy.interfaces.into_iter().filter_map(autorate);
        found.next().expect("it has one")
    }

    fn carried(ms: u64, bytes: u64) -> PathCarried {
        let [offered, sent] = [bytes, bytes / 2].map(Bytes::new);
        PathCarried {
            at: Instant::START + Duration::from_millis(ms),
            offered,
            sent,
        }
    }

    fn turn(line: &mut FollowedLine, config: &AutorateConfig, ms: u64) -> AutorateOrder {
        line.turn(config, ("wan0", BANDWIDTH), carried(ms, 0), false)
    }

    #[test]
    fn a_silent_host_is_given_up_for_the_next_and_that_for_the_first() {
        let (mut line, config) = (FollowedLine::default(), config(""));
        let first: IpAddr = "192.0.2.1".parse().expect("an address");
        let second: IpAddr = "192.0.2.2".parse().expect("an address");
        let (mut number, mut asked) = (0, Vec::new());
        for tick in 0..400 {
            let order = turn(&mut line, &config, 25 * tick);
            assert_eq!(order.rate, Bandwidth::mbit(1), "nobody has answered");
            let target = line.target().expect("one of both");
            if asked.last() != Some(&target) {
                asked.push(target);
            }
            line.sent(number, carried(25 * tick, 0).at, carried(25 * tick, 0));
            number += 1;
        }
        assert_eq!(asked, [first, second, first, second, first]);
        // One that answers stays.
        for tick in 400..600 {
            line.answered(number - 1, carried(25 * tick, 0).at, None);
            turn(&mut line, &config, 25 * tick);
            assert_eq!(line.target(), Some(first), "{tick}");
            line.sent(number, carried(25 * tick, 0).at, carried(25 * tick, 0));
            number += 1;
        }
        assert!(
            line.view()
                .is_some_and(|view| !view.blind && view.target == "192.0.2.1")
        );
    }

    #[test]
    fn an_answer_carries_what_had_gone_before_the_line_or_what_has_come_from_it() {
        for (more, expected) in [("", 1_000), (", line = \"behind\"", 6_000)] {
            let (mut line, config) = (FollowedLine::default(), config(more));
            turn(&mut line, &config, 0);
            line.sent(0, carried(1, 2_000).at, carried(1, 2_000));
            line.answered(0, carried(31, 6_000).at, Some(carried(31, 6_000)));
            assert_eq!(line.answers.len(), 1);
            assert_eq!(line.answers[0].carried, Bytes::new(expected), "{more}");
        }
    }

    #[test]
    fn what_is_lost_late_or_unknown_says_nothing() {
        let (mut line, config) = (FollowedLine::default(), config(""));
        turn(&mut line, &config, 0);
        for number in [0, 1, 2, 5] {
            line.sent(number, carried(25 * number, 0).at, carried(25 * number, 0));
        }
        let at = carried(100, 0).at;
        line.answered(2, at, None);
        assert_eq!(
            (line.answers.len(), line.waiting.len()),
            (1, 1),
            "the first two are lost"
        );
        for number in [0, 1, 2, 3, 4, 7] {
            line.answered(number, at, None);
        }
        assert_eq!(line.answers.len(), 1, "twice, late, and never sent");
        assert!(
            line.waiting.is_empty(),
            "5 was sent before one that seems to be answered"
        );
        for number in 8..2_000 {
            line.sent(number, at, carried(100, 0));
        }
        assert_eq!(line.waiting.len(), MOST_WAITING);
    }

    #[test]
    fn it_begins_where_it_is_told_and_keeps_what_it_knows_over_a_change_of_bounds() {
        let (mut line, other) = (FollowedLine::default(), config(", start = \"12 Mbit/s\""));
        line.sent(0, carried(0, 0).at, carried(0, 0));
        line.answered(0, carried(20, 0).at, None);
        let order = turn(&mut line, &other, 25);
        assert!((11..=13).contains(&(order.rate.bits() / 1_000_000)), "{order:?}");
        let narrower = line.turn(&other, ("wan0", Bandwidth::mbit(8)), carried(50, 0), false);
        let bits = narrower.rate.bits();
        assert!((7_900_000..=8_000_000).contains(&bits), "{narrower:?}");
        assert_eq!(line.view().map(|view| view.max_bps), Some(8_000_000));
    }
}
