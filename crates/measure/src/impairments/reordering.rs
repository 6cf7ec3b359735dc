//! Packets that others overtake: those that are chosen, as lost ones are, take a longer way. They
//! arrive later by a fixed time, and what follows overtakes them meanwhile.

use super::loss::{Loss, LossModel};
use engine::random::Seed;
use engine::settings::{Raw, SettingValue, describe};
use engine::units::Duration;
use std::fmt;

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

impl Default for Reordering {
    fn default() -> Self {
        Self::NONE
    }
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

/// Has some packets arrive later than those that follow them.
#[derive(Clone, Debug)]
pub(super) struct ReorderModel {
    /// It chooses them.
    which: LossModel,
    by: Duration,
}

impl ReorderModel {
    /// A model of this reordering; its random numbers are those of this seed.
    pub(super) fn new(reordering: Reordering, seed: Seed) -> Self {
        Self {
            which: LossModel::new(reordering.which, seed),
            by: reordering.by,
        }
    }

    /// Takes another reordering from the next packet on.
    pub(super) fn becomes(&mut self, reordering: Reordering) {
        self.which.becomes(reordering.which);
        self.by = reordering.by;
    }

    /// By how much later the next packet arrives.
    pub(super) fn next_is_later_by(&mut self) -> Duration {
        match self.which.loses_next() {
            true => self.by,
            false => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::units::Probability;

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
}
