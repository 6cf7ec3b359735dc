//! A wire's own impairments, loss, jitter and reordering. The simulator's links and the lab's
//! emulated links share these models; the random numbers come from a given seed.
//!
//! Loss: every n-th packet, the packets of a list, each packet with a probability, or bursts.
//! Packets are numbered from 1, in the order in which they leave. Bursts follow Gilbert
//! ("Capacity of a burst-noise channel", Bell System Technical Journal 39, 1960): in the bad state
//! every packet is lost. The model leaves the bad state with probability 1/*n*, so a burst has *n*
//! packets on average. It enters the state as often as the configured share of lost packets
//! requires.
//!
//! Jitter: an extra delay, uniform from zero to a bound. Packets keep their order, as on a single
//! path: a packet that would overtake arrives with its predecessor.
//!
//! Reordering: the packets that are chosen, as lost ones are, take a longer way. They arrive later
//! by a fixed time, and what follows overtakes them meanwhile.

use engine::random::{Rng, Seed};
use engine::settings::{Raw, SettingValue, describe};
use engine::units::{Duration, Instant, Probability};
use std::fmt;

/// How a wire loses packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// No loss.
    None,
    /// Every n-th packet.
    Every(u64),
    /// These packets.
    Listed(PacketList),
    /// Each packet with this probability.
    Random(Probability),
    /// This share of all packets, in bursts of this mean length.
    Bursts(Probability, u32),
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
    const UNIT: &'static str = "\"nothing\", a share such as \"0.1 %\", \"0.1 % in bursts of 5\", \"every 1000\", or up to \
         16 ascending numbers and ranges such as \"packets 7, 12-15\"";
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
        }
    }
}

/// Which packets take a longer way, and by how much.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reordering {
    /// Those that would be lost by this.
    pub which: Loss,
    /// By how much longer it is.
    pub by: Duration,
}

impl Reordering {
    /// All packets keep their order.
    pub const NONE: Self = Self {
        which: Loss::None,
        by: Duration::ZERO,
    };
    /// The longest.
    pub const LONGEST: Duration = Duration::from_secs(60);
}

impl SettingValue for Reordering {
    const UNIT: &'static str = "\"nothing\", or packets as of `loss` and how much later they come, such as \"1 % by 5 ms\" or \"packets 20 by 1 ms\"";
    fn from_raw(raw: &Raw) -> Result<Self, String> {
        let wrong = || format!("expected {}; found {}", Self::UNIT, describe(raw));
        let Raw::Text(text) = raw else {
            return Err(wrong());
        };
        if text.trim() == "nothing" {
            return Ok(Self::NONE);
        }
        let (which, by) = text.rsplit_once(" by ").ok_or_else(wrong)?;
        let which = Loss::from_raw(&Raw::Text(which.into())).map_err(|_| wrong())?;
        let by = by.trim().parse().map_err(|_| wrong())?;
        if by > Self::LONGEST {
            return Err(format!("at most {} later", Self::LONGEST));
        }
        Ok(match which {
            Loss::None => Self::NONE,
            _ if by == Duration::ZERO => Self::NONE,
            _ => Self { which, by },
        })
    }
}

impl fmt::Display for Reordering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NONE => f.pad("nothing"),
            Self { which, by } => write!(f, "{which} by {by}"),
        }
    }
}

/// Decides for each packet whether the wire loses it.
#[derive(Clone, Debug)]
pub struct LossModel {
    loss: Loss,
    rng: Rng,
    passed: u64,
    /// The model is in a burst.
    bad: bool,
    /// The probability that a burst begins.
    begin: Probability,
}

impl LossModel {
    /// A model of this loss with its own random numbers.
    pub fn new(loss: Loss, seed: Seed) -> Self {
        Self::with(loss, seed.fork("loss"))
    }

    fn with(loss: Loss, seed: Seed) -> Self {
        let mut model = Self {
            loss,
            rng: seed.stream(),
            passed: 0,
            bad: false,
            begin: Probability::ZERO,
        };
        model.becomes(loss);
        model
    }

    /// Takes another loss from the next packet on. Packets keep their numbers, and a burst that
    /// the other loss does not have ends.
    pub fn becomes(&mut self, loss: Loss) {
        self.loss = loss;
        self.begin = match loss {
            // Bursts of n packets at a share p: p / (n (1 - p)) bursts begin per packet outside a
            // burst.
            Loss::Bursts(share, n) => {
                let good = Probability::ONE.parts() - share.parts().min(Probability::ONE.parts());
                Probability::ratio(share.parts(), good.saturating_mul(n.max(1).into()).max(1))
            }
            _ => {
                self.bad = false;
                Probability::ZERO
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
            Loss::Bursts(_, n) => {
                let turn = if self.bad {
                    Probability::ratio(1, n.max(1).into())
                } else {
                    self.begin
                };
                self.bad ^= self.rng.chance(turn);
                self.bad
            }
        }
    }
}

/// Has some packets arrive later than those that follow them.
#[derive(Clone, Debug)]
pub struct ReorderModel {
    /// It chooses them.
    which: LossModel,
    by: Duration,
}

impl ReorderModel {
    /// A model of this reordering with its own random numbers.
    pub fn new(reordering: Reordering, seed: Seed) -> Self {
        Self {
            which: LossModel::with(reordering.which, seed.fork("reordering")),
            by: reordering.by,
        }
    }

    /// By how much later the next packet arrives.
    #[inline]
    pub fn next_is_later_by(&mut self) -> Duration {
        match self.which.loses_next() {
            true => self.by,
            false => Duration::ZERO,
        }
    }
}

/// Delays packets and keeps their order.
#[derive(Clone, Debug)]
pub struct Jitter {
    most: Duration,
    rng: Rng,
    last: Instant,
}

impl Jitter {
    /// Jitter of up to `most`, with its own random numbers.
    pub fn new(most: Duration, seed: Seed) -> Self {
        Self {
            most,
            rng: seed.fork("jitter").stream(),
            last: Instant::START,
        }
    }

    /// The arrival time of a packet that would arrive at `at` without jitter. Never before an
    /// earlier packet's arrival.
    #[inline]
    pub fn arrival(&mut self, at: Instant) -> Instant {
        if self.most == Duration::ZERO {
            return at;
        }
        let longer = Duration::from_nanos(self.rng.below(self.most.nanos().saturating_add(1)));
        self.last = self.last.max(at + longer);
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Loss, String> {
        Loss::from_raw(&Raw::Text(text.into()))
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
        ] {
            assert!(read(wrong).is_err(), "{wrong} was accepted");
        }
    }

    #[test]
    fn reorderings_are_parsed_as_they_are_printed_and_nonsense_is_refused() {
        let read = |text: &str| Reordering::from_raw(&Raw::Text(text.into()));
        let by = |ms| Duration::from_millis(ms);
        for (text, which, ms) in [
            ("1 % by 5 ms", Loss::Random(Probability::ratio(1, 100)), 5),
            ("every 100 by 2ms", Loss::Every(100), 2),
            (
                "2 % in bursts of 5 by 1 ms",
                Loss::Bursts(Probability::ratio(2, 100), 5),
                1,
            ),
        ] {
            let reordering = Reordering { which, by: by(ms) };
            assert_eq!(read(text), Ok(reordering));
            assert_eq!(read(&reordering.to_string()), Ok(reordering), "{reordering}");
        }
        for nothing in ["nothing", "0 % by 5 ms", "1 % by 0 s", "nothing by 5 ms"] {
            assert_eq!(read(nothing), Ok(Reordering::NONE), "{nothing}");
        }
        assert_eq!(Reordering::NONE.to_string(), "nothing");
        for wrong in [
            "",
            "1 %",
            "by 5 ms",
            "1 % by",
            "1 % by 5",
            "often by 5 ms",
            "1 % by 61 s",
        ] {
            assert!(read(wrong).is_err(), "{wrong} was accepted");
        }
        let mut model = ReorderModel::new(read("packets 2, 4-5 by 1 ms").expect("a list"), Seed(1));
        let later: Vec<u64> = (0..6)
            .map(|_| model.next_is_later_by().nanos() / 1_000_000)
            .collect();
        assert_eq!(later, [0, 1, 0, 1, 1, 0]);
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

    #[test]
    fn jitter_is_uniform_up_to_its_bound_and_keeps_the_order() {
        let mut jitter = Jitter::new(Duration::from_micros(100), Seed(3));
        let (mut sum, mut last) = (0, Instant::START);
        for n in 0..100_000u64 {
            // Packets are far apart, so that their order does not matter.
            let at = Instant::from_nanos(n * 1_000_000);
            let arrival = jitter.arrival(at);
            assert!(arrival >= at && arrival <= at + Duration::from_micros(100));
            sum += arrival.since(at).nanos();
        }
        let mean = sum / 100_000;
        assert!((49_000..51_000).contains(&mean), "{mean} ns on average");
        let begin = Instant::from_nanos(200_000_000_000);
        for n in 0..1_000u64 {
            let arrival = jitter.arrival(begin + Duration::from_micros(n));
            assert!(arrival >= last);
            last = arrival;
        }
        assert_eq!(Jitter::new(Duration::ZERO, Seed(3)).arrival(begin), begin);
    }
}
