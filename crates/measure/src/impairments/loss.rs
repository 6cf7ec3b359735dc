//! Which packets a wire loses: every n-th packet, the packets of a list, each packet with a
//! probability, or bursts. What else can befall chosen packets chooses them alike.
//!
//! Packets are numbered from 1, in the order in which they leave. Bursts follow Gilbert
//! ("Capacity of a burst-noise channel", Bell System Technical Journal 39, 1960) and Elliott
//! ("Estimates of error rates for codes on burst-noise channels", the same 42, 1963): a wire is in
//! a good or in a bad state, each with a loss of its own, and before each packet it may change.
//! Written by their length, bursts are those in which every packet is lost, and none outside: the
//! bad state is left with probability 1/*n*, so a burst has *n* packets on average, and entered as
//! often as the configured share of lost packets requires.

use engine::random::{Rng, Seed};
use engine::settings::{Raw, SettingValue, describe};
use engine::units::Probability;
use std::fmt;

/// How a wire loses packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Loss {
    /// No loss.
    #[default]
    None,
    /// Every n-th packet.
    Every(u64),
    /// These packets.
    Listed(PacketList),
    /// Each packet with this probability.
    Random(Probability),
    /// This share of all packets, in bursts of this mean length.
    Bursts(Probability, u32),
    /// In two states.
    GilbertElliott(TwoStates),
}

/// The model of Gilbert and Elliott: a wire in a good or in a bad state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TwoStates {
    /// The probability that the good state ends before a packet.
    pub worsens: Probability,
    /// The probability that the bad state ends before a packet.
    pub recovers: Probability,
    /// The loss in the bad state.
    pub bad: Probability,
    /// The loss in the good state.
    pub good: Probability,
}

/// The word before the four numbers of [`TwoStates`].
const TWO_STATES: &str = "gilbert-elliott ";

impl TwoStates {
    /// Reads up to four shares: from good to bad, back, the loss in bad, the loss in good.
    fn read(text: &str) -> Option<Self> {
        let shares = text.split(',').map(|share| share.trim().parse().ok());
        let shares: Vec<Probability> = shares.collect::<Option<_>>()?;
        let [worsens, recovers, rest @ ..] = shares.as_slice() else {
            return None;
        };
        let (bad, good) = match rest {
            [] => (Probability::ONE, Probability::ZERO),
            [bad] => (*bad, Probability::ZERO),
            [bad, good] => (*bad, *good),
            _ => return None,
        };
        Some(Self {
            worsens: *worsens,
            recovers: *recovers,
            bad,
            good,
        })
    }
}

impl fmt::Display for TwoStates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            worsens,
            recovers,
            bad,
            good,
        } = self;
        write!(f, "{TWO_STATES}{worsens}, {recovers}, {bad}, {good}")
    }
}

/// Packets of a link by their numbers, the first being 1: `7, 12-15`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketList {
    /// The first and the last of each range, in ascending order; the first `len` are used.
    ranges: [(u32, u32); PacketList::MOST],
    len: usize,
}

impl PacketList {
    /// Numbers and ranges at most.
    pub const MOST: usize = 16;

    /// Reads numbers and ranges, ascending, with commas between; none if they are something else.
    fn read(text: &str) -> Option<Self> {
        let mut list = Self {
            ranges: [(0, 0); Self::MOST],
            len: 0,
        };
        let mut above = 0;
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let [first, last]: [u32; 2] = [first.trim().parse().ok()?, last.trim().parse().ok()?];
            if first <= above || last < first {
                return None;
            }
            above = last;
            *list.ranges.get_mut(list.len)? = (first, last);
            list.len += 1;
        }
        Some(list)
    }

    fn has(&self, number: u64) -> bool {
        let within = |(first, last): &(u32, u32)| (u64::from(*first)..=u64::from(*last)).contains(&number);
        self.ranges[..self.len].iter().any(within)
    }
}

impl fmt::Display for PacketList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (first, last)) in self.ranges[..self.len].iter().enumerate() {
            f.write_str(if index > 0 { ", " } else { "" })?;
            match first == last {
                true => write!(f, "{first}")?,
                false => write!(f, "{first}-{last}")?,
            }
        }
        Ok(())
    }
}

impl SettingValue for Loss {
    const UNIT: &'static str = "\"nothing\", a share such as \"0.1 %\", \"0.1 % in bursts of 5\", \"gilbert-elliott 1 %, 25 %, 80 %, \
         0.1 %\" (from good to bad, back, loss in bad, loss in good), \"every 1000\", or up to 16 ascending numbers and ranges \
         such as \"packets 7, 12-15\"";
    fn from_raw(raw: &Raw) -> Result<Self, String> {
        let wrong = || format!("expected {}; found {}", Self::UNIT, describe(raw));
        let Raw::Text(text) = raw else {
            return Err(wrong());
        };
        let text = text.trim();
        let whole = |n: &str| n.trim().parse().ok().filter(|&n: &u32| n > 0).ok_or_else(wrong);
        if text == "nothing" {
            return Ok(Self::None);
        }
        if let Some(n) = text.strip_prefix("every ") {
            return whole(n).map(|n| Self::Every(n.into()));
        }
        if let Some(list) = text.strip_prefix("packets ") {
            return PacketList::read(list).map(Self::Listed).ok_or_else(wrong);
        }
        if let Some(states) = text.strip_prefix(TWO_STATES) {
            return TwoStates::read(states)
                .map(Self::GilbertElliott)
                .ok_or_else(wrong);
        }
        let (share, bursts) = match text.split_once("in bursts of") {
            Some((share, n)) => (share.trim(), Some(whole(n)?)),
            None => (text, None),
        };
        let share = share.parse().map_err(|_| wrong())?;
        Ok(match bursts {
            _ if share == Probability::ZERO => Self::None,
            Some(n) => Self::Bursts(share, n),
            None => Self::Random(share),
        })
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.pad("nothing"),
            Self::Every(n) => write!(f, "every {n}"),
            Self::Listed(list) => write!(f, "packets {list}"),
            Self::Random(share) => write!(f, "{share}"),
            Self::Bursts(share, n) => write!(f, "{share} in bursts of {n}"),
            Self::GilbertElliott(states) => states.fmt(f),
        }
    }
}

/// Packets that something else than loss befalls, chosen as lost ones are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ChosenPackets(pub Loss);

impl SettingValue for ChosenPackets {
    const UNIT: &'static str =
        "\"nothing\", or packets as of `loss`, such as \"1 %\" or \"packets 7, 12-15\"";

    fn from_raw(raw: &Raw) -> Result<Self, String> {
        let wrong = |_| format!("expected {}; found {}", Self::UNIT, describe(raw));
        Loss::from_raw(raw).map(Self).map_err(wrong)
    }
}

impl fmt::Display for ChosenPackets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Decides for each packet whether the wire loses it, or what else befalls it.
#[derive(Clone, Debug)]
pub struct LossModel {
    loss: Loss,
    rng: Rng,
    passed: u64,
    /// The model is in its bad state.
    bad: bool,
    /// The states of bursts.
    states: TwoStates,
}

/// What has no states has these.
const NO_STATES: TwoStates = TwoStates {
    worsens: Probability::ZERO,
    recovers: Probability::ONE,
    bad: Probability::ONE,
    good: Probability::ZERO,
};

impl LossModel {
    /// A model of this loss; its random numbers are those of this seed.
    pub fn new(loss: Loss, seed: Seed) -> Self {
        let mut model = Self {
            loss,
            rng: seed.stream(),
            passed: 0,
            bad: false,
            states: NO_STATES,
        };
        model.becomes(loss);
        model
    }

    /// Takes another loss from the next packet on. Packets keep their numbers, and a burst that
    /// the other loss does not have ends.
    pub fn becomes(&mut self, loss: Loss) {
        self.loss = loss;
        self.states = match loss {
            // Bursts of n packets at a share p: p / (n (1 - p)) bursts begin per packet outside a
            // burst.
            Loss::Bursts(share, n) => {
                let n = n.max(1);
                let good = Probability::ONE.parts() - share.parts().min(Probability::ONE.parts());
                TwoStates {
                    worsens: Probability::ratio(share.parts(), good.saturating_mul(n.into()).max(1)),
                    recovers: Probability::ratio(1, n.into()),
                    ..NO_STATES
                }
            }
            Loss::GilbertElliott(states) => states,
            _ => {
                self.bad = false;
                NO_STATES
            }
        };
    }

    /// Returns whether the next packet is lost.
    #[inline]
    pub fn loses_next(&mut self) -> bool {
        self.passed += 1;
        match self.loss {
            Loss::None => false,
            Loss::Every(n) => n > 0 && self.passed.is_multiple_of(n),
            Loss::Listed(list) => list.has(self.passed),
            Loss::Random(p) => self.rng.chance(p),
            Loss::Bursts(..) => self.turns(),
            Loss::GilbertElliott(states) => match self.turns() {
                true => self.rng.chance(states.bad),
                false => self.rng.chance(states.good),
            },
        }
    }

    /// Changes the state, or does not; returns whether it is bad now.
    fn turns(&mut self) -> bool {
        let turn = match self.bad {
            true => self.states.recovers,
            false => self.states.worsens,
        };
        self.bad ^= self.rng.chance(turn);
        self.bad
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Loss, String> {
        Loss::from_raw(&Raw::Text(text.into()))
    }

    fn states([worsens, recovers, bad, good]: [Probability; 4]) -> Loss {
        Loss::GilbertElliott(TwoStates {
            worsens,
            recovers,
            bad,
            good,
        })
    }

    #[test]
    fn losses_are_parsed_as_they_are_printed_and_nonsense_is_refused() {
        let percent = |n| Probability::ratio(n, 100);
        for (text, loss) in [
            ("nothing", Loss::None),
            ("0 %", Loss::None),
            ("every 1000", Loss::Every(1_000)),
            ("2 %", Loss::Random(percent(2))),
            ("2 % in bursts of 5", Loss::Bursts(percent(2), 5)),
            (
                "gilbert-elliott 1 %, 25 %, 80 %, 3 %",
                states([1, 25, 80, 3].map(percent)),
            ),
            ("gilbert-elliott 1 %, 25 %", states([1, 25, 100, 0].map(percent))),
        ] {
            assert_eq!(read(text), Ok(loss));
            assert_eq!(read(&loss.to_string()), Ok(loss), "{loss}");
        }
        let listed = read("packets 7,12-15, 4000000000").expect("a list");
        assert_eq!(listed.to_string(), "packets 7, 12-15, 4000000000");
        assert_eq!(read(&listed.to_string()), Ok(listed));
        let sixteen = (1..=16).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
        assert!(read(&format!("packets {sixteen}")).is_ok());
        for wrong in [
            &format!("packets {sixteen},17"),
            "packets ",
            "packets 0",
            "packets 3-2",
            "packets 5, 5",
            "packets 7, 3-9",
            "packets 1-",
            "packets 5000000000",
            "",
            "every 0",
            "often",
            "2 % in bursts of 0",
            "2 % in bursts of",
            "in bursts of 3",
            "120 %",
            "gilbert-elliott",
            "gilbert-elliott 1 %",
            "gilbert-elliott 1 %, 25 %, 80 %, 3 %, 4 %",
            "gilbert-elliott 1 %, 25 %, 180 %",
        ] {
            assert!(read(wrong).is_err(), "{wrong} was accepted");
        }
    }

    #[test]
    fn bursts_have_their_share_and_their_length_and_a_seed_repeats_them() {
        let losses = |seed| {
            let mut model = LossModel::new(Loss::Bursts(Probability::ratio(2, 100), 5), Seed(seed));
            (0..2_000_000).map(|_| model.loses_next()).collect::<Vec<_>>()
        };
        let lost = losses(1);
        let all = lost.iter().filter(|lost| **lost).count() as f64;
        let bursts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
        let share = all / lost.len() as f64;
        assert!((0.019..0.021).contains(&share), "{share} are lost");
        assert!(
            (4.8..5.2).contains(&(all / bursts)),
            "a burst has {}",
            all / bursts
        );
        assert!(lost == losses(1) && lost != losses(2));
    }

    #[test]
    fn a_random_share_is_lost_one_by_one() {
        let mut model = LossModel::new(Loss::Random(Probability::ratio(1, 10)), Seed(7));
        let lost = (0..1_000_000).filter(|_| model.loses_next()).count();
        assert!((98_000..102_000).contains(&lost), "{lost}");
        let mut model = LossModel::new(Loss::Every(4), Seed(7));
        let lost: Vec<usize> = (1..=12).filter(|_| model.loses_next()).collect();
        assert_eq!(lost, [4, 8, 12]);
        let mut model = LossModel::new(read("packets 2, 5-7, 12").expect("a list"), Seed(7));
        let lost: Vec<usize> = (1..=20).filter(|_| model.loses_next()).collect();
        assert_eq!(lost, [2, 5, 6, 7, 12]);
    }

    /// The share of lost packets is that of the states, and a run of them as long as the chain of
    /// states says: P(lost) / (P(lost) − P(two lost in a row)).
    #[test]
    fn gilbert_and_elliotts_states_lose_the_share_and_the_runs_of_their_theory() {
        for parts in [
            [10, 250, 1_000, 0],
            [20, 100, 700, 5],
            [300, 400, 500, 100],
            [900, 800, 900, 20],
        ] {
            let [p, r, bad, good] = parts.map(|n| n as f64 / 1_000.0);
            let in_bad = p / (p + r);
            let share = in_bad * bad + (1.0 - in_bad) * good;
            let after_bad = (1.0 - r) * bad + r * good;
            let after_good = p * bad + (1.0 - p) * good;
            let twice = in_bad * bad * after_bad + (1.0 - in_bad) * good * after_good;
            let run = share / (share - twice);
            let loss = states(parts.map(|n| Probability::ratio(n, 1_000)));
            let mut model = LossModel::new(loss, Seed(9));
            let lost: Vec<bool> = (0..3_000_000).map(|_| model.loses_next()).collect();
            let all = lost.iter().filter(|lost| **lost).count() as f64;
            let runs = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
            let near = |got: f64, expected: f64| (got / expected - 1.0).abs() < 0.02;
            let got = (all / lost.len() as f64, all / runs);
            assert!(
                near(got.0, share) && near(got.1, run),
                "{loss}: {got:?}, {share} and {run} expected"
            );
        }
    }
}
