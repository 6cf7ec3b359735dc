//! What round trips under load are worth to a person: a grade, round trips per minute, and the
//! quality of outcome of an application.
//!
//! - [`Grade`]: how much longer 95 of 100 round trips take under load than the median one takes on
//!   the idle line. The limits are those that speed tests with a grade for bufferbloat use.
//! - [`responsiveness`]: round trips per minute, after draft-ietf-ippm-responsiveness-08. It
//!   departs: the peer of `verify` speaks no TLS and no HTTP, so a foreign round trip is the mean
//!   of a TCP handshake and of a request on the new connection, and a loaded one is a request on a
//!   loaded connection.
//! - [`QualityRequirement::outcome`]: the quality of outcome, after draft-ietf-ippm-qoo-09: the
//!   part of the way from useless (0) to perfect (100) at the worst of what an application
//!   requires. What the applications here require is our own choice, by [`CALL`], [`GAME`] and
//!   [`PAGE`].

use engine::units::Duration;
use std::fmt::{self, Display, Formatter};

/// Round trips, however they are kept.
pub trait Sampled {
    /// The time that `per_mille` of 1000 answered ones do not exceed (nearest rank); `None` without
    /// any.
    fn quantile(&self, per_mille: u16) -> Option<Duration>;

    /// The mean of all but the longest twentieth: the draft's trimmed mean (section 4.4), in
    /// nanoseconds. `None` without any.
    fn trimmed_mean(&self) -> Option<f64>;
}

/// Round trips, and how many were not answered.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RoundTrips {
    /// Sorted.
    times: Vec<Duration>,
    lost: u64,
}

impl RoundTrips {
    /// Of these times, and so many without an answer.
    pub fn new(mut times: Vec<Duration>, lost: u64) -> Self {
        times.sort_unstable();
        Self { times, lost }
    }

    /// How many were answered.
    pub fn answered(&self) -> usize {
        self.times.len()
    }

    /// The part that was not answered, 0 to 1.
    pub fn loss(&self) -> f64 {
        let sent = self.times.len() as u64 + self.lost;
        if sent == 0 {
            0.0
        } else {
            self.lost as f64 / sent as f64
        }
    }
}

impl Sampled for RoundTrips {
    fn quantile(&self, per_mille: u16) -> Option<Duration> {
        let rank = (self.times.len() * usize::from(per_mille)).div_ceil(1000);
        self.times.get(rank.max(1) - 1).copied()
    }

    fn trimmed_mean(&self) -> Option<f64> {
        let kept = (self.times.len() * 95).div_ceil(100);
        let sum: f64 = self.times[..kept].iter().map(|time| time.nanos() as f64).sum();
        (kept > 0).then(|| sum / kept as f64)
    }
}

/// Round trips per minute: the mean of the foreign and the loaded ones. `None` if one kind has no
/// round trip.
pub fn responsiveness<S: Sampled>(handshakes: &S, requests: &S, loaded: &S) -> Option<u64> {
    let a_minute = |nanos: f64| 60e9 / nanos.max(1.0);
    let foreign = a_minute(f64::midpoint(
        handshakes.trimmed_mean()?,
        requests.trimmed_mean()?,
    ));
    let loaded = a_minute(loaded.trimmed_mean()?);
    Some(f64::midpoint(foreign, loaded).round() as u64)
}

/// A letter for what load adds to a round trip; the best one first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Grade {
    /// Less than 5 ms.
    APlus,
    /// Less than 30 ms.
    A,
    /// Less than 60 ms.
    B,
    /// Less than 200 ms.
    C,
    /// Less than 400 ms.
    D,
    /// More.
    F,
}

impl Grade {
    /// All, with the milliseconds below which each is given; the last is given for everything.
    const ALL: [(Self, &'static str, u64); 6] = [
        (Self::APlus, "A+", 5),
        (Self::A, "A", 30),
        (Self::B, "B", 60),
        (Self::C, "C", 200),
        (Self::D, "D", 400),
        (Self::F, "F", u64::MAX),
    ];

    /// The grade of so much more under load.
    pub fn of(added: Duration) -> Self {
        let found = Self::ALL
            .iter()
            .find(|(_, _, below)| added.nanos() / 1_000_000 < *below);
        found.map_or(Self::F, |(grade, _, _)| *grade)
    }

    /// The grade by its letter.
    ///
    /// # Errors
    ///
    /// Returns the letters, if it is none.
    pub fn read(text: &str) -> Result<Self, String> {
        let found = Self::ALL
            .iter()
            .find(|(_, letter, _)| text.eq_ignore_ascii_case(letter));
        found
            .map(|(grade, _, _)| *grade)
            .ok_or_else(|| "expected A+, A, B, C, D or F".into())
    }
}

impl Display for Grade {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let letter = Self::ALL.iter().find(|(grade, _, _)| grade == self);
        f.pad(letter.map_or("F", |(_, letter, _)| letter))
    }
}

/// What an application requires of a line: a quantile of round trips, and losses, with which it is
/// perfect, and with which it is of no use.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct QualityRequirement {
    /// The application.
    pub name: &'static str,
    /// Of 1000 round trips, how many must keep it.
    per_mille: u16,
    perfect: Duration,
    useless: Duration,
    perfect_loss: f64,
    useless_loss: f64,
}

/// A call: 99 of 100 round trips within 150 ms (mouth to ear within 150 ms is good by ITU-T G.114;
/// half a round trip and what both ends hold back are within it), useless at 400 ms.
pub const CALL: QualityRequirement = QualityRequirement {
    name: "call",
    per_mille: 990,
    perfect: Duration::from_millis(150),
    useless: Duration::from_millis(400),
    perfect_loss: 0.001,
    useless_loss: 0.05,
};

/// A game: 99 of 100 round trips within 50 ms, useless at 200 ms.
pub const GAME: QualityRequirement = QualityRequirement {
    name: "game",
    per_mille: 990,
    perfect: Duration::from_millis(50),
    useless: Duration::from_millis(200),
    perfect_loss: 0.001,
    useless_loss: 0.03,
};

/// A page: nine of ten round trips within 100 ms, useless at 1 s; it has some 20 of them.
pub const PAGE: QualityRequirement = QualityRequirement {
    name: "page",
    per_mille: 900,
    perfect: Duration::from_millis(100),
    useless: Duration::from_secs(1),
    perfect_loss: 0.01,
    useless_loss: 0.1,
};

impl QualityRequirement {
    /// The quality of outcome with these round trips and this loss (0 to 1), 0 to 100. `None`
    /// without an answered round trip.
    pub fn outcome(&self, of: &impl Sampled, loss: f64) -> Option<u8> {
        let nanos = |time: Duration| time.nanos() as f64;
        let time = of.quantile(self.per_mille)?;
        let delay = part(nanos(time), nanos(self.perfect), nanos(self.useless));
        let loss = part(loss, self.perfect_loss, self.useless_loss);
        Some((100.0 * delay.min(loss)).round() as u8)
    }
}

/// 1 at the perfect value or below, 0 at the useless one or above, linear between.
fn part(value: f64, perfect: f64, useless: f64) -> f64 {
    (1.0 - (value - perfect) / (useless - perfect)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(times: &[u64]) -> RoundTrips {
        RoundTrips::new(times.iter().map(|ms| Duration::from_millis(*ms)).collect(), 0)
    }

    #[test]
    fn quantiles_are_nearest_ranks() {
        let of = millis(&(1..=100).rev().collect::<Vec<_>>());
        let at = |per_mille| of.quantile(per_mille).map(Duration::nanos);
        assert_eq!(at(500), Some(50_000_000));
        assert_eq!(at(950), Some(95_000_000));
        assert_eq!(at(1000), Some(100_000_000));
        assert_eq!(at(0), Some(1_000_000));
        assert_eq!(millis(&[]).quantile(500), None);
    }

    #[test]
    fn a_grade_is_given_from_its_limit_on() {
        let grade = |ms: u64| Grade::of(Duration::from_millis(ms)).to_string();
        let limits = [
            (0, "A+"),
            (4, "A+"),
            (5, "A"),
            (29, "A"),
            (30, "B"),
            (59, "B"),
            (60, "C"),
        ];
        let more = [(199, "C"), (200, "D"), (399, "D"), (400, "F"), (10_000, "F")];
        for (ms, letter) in limits.into_iter().chain(more) {
            assert_eq!(grade(ms), letter, "{ms} ms");
            assert_eq!(
                Grade::read(letter).map(|grade| grade.to_string()),
                Ok(letter.into())
            );
        }
        assert!(Grade::A < Grade::B, "the better is the lesser");
        assert!(Grade::read("E").is_err());
    }

    /// 20 ms of a handshake and 40 ms of a request are 2,000 round trips a minute, 60 ms of a
    /// loaded one 1,000.
    #[test]
    fn responsiveness_is_the_mean_of_foreign_and_loaded() {
        let of = responsiveness(&millis(&[20]), &millis(&[40]), &millis(&[60]));
        assert_eq!(of, Some(1_500));
        assert_eq!(responsiveness(&millis(&[20]), &millis(&[40]), &millis(&[])), None);
    }

    /// Of 20 times the longest does not count.
    #[test]
    fn the_longest_twentieth_is_trimmed() {
        let mut times = vec![20; 19];
        times.push(5_000);
        let of = millis(&times);
        assert_eq!(responsiveness(&of, &of, &of), Some(3_000));
    }

    #[test]
    fn an_outcome_is_as_good_as_the_worst_of_delay_and_loss() {
        let outcome = |ms: u64, lost| {
            let of = RoundTrips::new(vec![Duration::from_millis(ms); 1_000 - lost as usize], lost);
            CALL.outcome(&of, of.loss())
        };
        assert_eq!(outcome(150, 0), Some(100));
        assert_eq!(outcome(275, 0), Some(50), "half of the way to 400 ms");
        assert_eq!(outcome(400, 0), Some(0));
        assert_eq!(outcome(9_000, 0), Some(0));
        assert_eq!(outcome(1, 1), Some(100));
        assert_eq!(outcome(1, 50), Some(0));
        assert_eq!(outcome(275, 13), Some(50), "the loss alone would be 76");
        assert_eq!(CALL.outcome(&RoundTrips::default(), 0.0), None);
    }
}
