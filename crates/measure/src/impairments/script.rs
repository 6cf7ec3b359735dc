//! What befalls single packets of a wire, by their numbers: `drop 7, 12-15; swap 20, 21; duplicate
//! 30; corrupt 40; delay 50 by 20 ms`.
//!
//! Packets are numbered from 1, in the order in which they leave; lost ones count. A number stands
//! in a script once.

use engine::settings::{Raw, SettingValue, describe};
use engine::units::Duration;
use std::fmt;
use std::sync::Arc;

/// What befalls a packet of a script.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ScriptedFate {
    /// It is lost.
    Drop,
    /// It arrives twice.
    Duplicate,
    /// A bit of it arrives flipped.
    Corrupt,
    /// It arrives behind the one that follows it.
    Swap,
    /// It arrives later.
    Delay(Duration),
}

/// Packets of a script that follow each other, by number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ScriptedPackets {
    first: u32,
    last: u32,
    fate: ScriptedFate,
}

/// What befalls single packets of a wire. Clones share it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImpairmentScript(Arc<[ScriptedPackets]>);

impl Default for ImpairmentScript {
    fn default() -> Self {
        Self(Arc::from([]))
    }
}

/// Numbers and ranges of a script at most.
const MOST: usize = 10_000;
/// The longest delay of a packet.
const LONGEST: Duration = Duration::from_secs(60);

impl ImpairmentScript {
    /// How long a packet waits at most for the next one, behind which it is to arrive.
    pub const PATIENCE: Duration = Duration::from_secs(1);

    /// Whether nothing befalls any packet.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// By how much later than others a packet of it arrives at most.
    pub(super) fn latest(&self) -> Duration {
        let later = |packets: &ScriptedPackets| match packets.fate {
            ScriptedFate::Delay(by) => by,
            ScriptedFate::Swap => Self::PATIENCE,
            _ => Duration::ZERO,
        };
        self.0.iter().map(later).max().unwrap_or(Duration::ZERO)
    }

    fn read(text: &str) -> Result<Self, String> {
        let mut all = Vec::new();
        for statement in text.split(';').map(str::trim) {
            read_statement(statement, &mut all).map_err(|why| format!("`{statement}`: {why}"))?;
            if all.len() > MOST {
                return Err(format!("a script has at most {MOST} numbers and ranges"));
            }
        }
        all.sort_by_key(|packets| packets.first);
        let twice = all.windows(2).find(|pair| pair[0].last >= pair[1].first);
        if let Some([_, second]) = twice {
            return Err(format!("packet {} is named twice", second.first));
        }
        Ok(Self(all.into()))
    }
}

fn read_statement(statement: &str, all: &mut Vec<ScriptedPackets>) -> Result<(), String> {
    let (verb, rest) = statement.split_once(' ').unwrap_or((statement, ""));
    let (packets, fate) = match verb {
        "drop" => (rest, ScriptedFate::Drop),
        "duplicate" => (rest, ScriptedFate::Duplicate),
        "corrupt" => (rest, ScriptedFate::Corrupt),
        "swap" => (rest, ScriptedFate::Swap),
        "delay" => {
            let (packets, by) = rest
                .split_once(" by ")
                .ok_or("by how much? Such as `delay 20 by 5 ms`")?;
            let by: Duration = by
                .trim()
                .parse()
                .map_err(|_| format!("`{}` is no time such as `5 ms`", by.trim()))?;
            if by > LONGEST {
                return Err(format!("at most {LONGEST} later"));
            }
            (packets, ScriptedFate::Delay(by))
        }
        _ => return Err("expected `drop`, `swap`, `duplicate`, `corrupt` or `delay`".into()),
    };
    let ranges = packets.split(',').map(|part| read_range(part.trim()));
    let mut ranges = ranges.collect::<Result<Vec<_>, String>>()?;
    if fate == ScriptedFate::Swap {
        ranges = swapped(&ranges)?;
    }
    all.extend(
        ranges
            .into_iter()
            .map(|(first, last)| ScriptedPackets { first, last, fate }),
    );
    Ok(())
}

fn read_range(part: &str) -> Result<(u32, u32), String> {
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    let number = |text: &str| {
        let number = text.trim().parse().ok().filter(|&number: &u32| number > 0);
        number.ok_or_else(|| format!("`{}` is no number of a packet: the first is 1", text.trim()))
    };
    let (first, last) = (number(first)?, number(last)?);
    match first <= last {
        true => Ok((first, last)),
        false => Err(format!("`{part}` ends before it begins")),
    }
}

/// The two packets that change places.
fn swapped(ranges: &[(u32, u32)]) -> Result<Vec<(u32, u32)>, String> {
    match *ranges {
        [(a, a_last), (b, b_last)] if a == a_last && b == b_last && a.checked_add(1) == Some(b) => Ok(vec![(a, b)]),
        [(a, b)] if a.checked_add(1) == Some(b) => Ok(vec![(a, b)]),
        _ => Err(
            "two packets that follow each other change places, such as `swap 20, 21`; a packet that others overtake is \
             `delay 20 by 5 ms`"
                .into(),
        ),
    }
}

impl SettingValue for ImpairmentScript {
    const UNIT: &'static str = "\"nothing\", or statements such as \"drop 7, 12-15; swap 20, 21; duplicate 30; corrupt 40; delay 50 by 20 ms\", \
         by the numbers of packets, each once";

    fn from_raw(raw: &Raw) -> Result<Self, String> {
        match raw {
            Raw::Text(text) if text.trim() == "nothing" => Ok(Self::default()),
            Raw::Text(text) => Self::read(text.trim()),
            _ => Err(format!("expected {}; found {}", Self::UNIT, describe(raw))),
        }
    }
}

impl fmt::Display for ImpairmentScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.pad("nothing");
        }
        for (index, ScriptedPackets { first, last, fate }) in self.0.iter().enumerate() {
            f.write_str(if index > 0 { "; " } else { "" })?;
            let verb = match fate {
                ScriptedFate::Drop => "drop",
                ScriptedFate::Duplicate => "duplicate",
                ScriptedFate::Corrupt => "corrupt",
                ScriptedFate::Swap => "swap",
                ScriptedFate::Delay(_) => "delay",
            };
            match (fate, first == last) {
                (ScriptedFate::Swap, _) => write!(f, "{verb} {first}, {last}"),
                (_, true) => write!(f, "{verb} {first}"),
                (_, false) => write!(f, "{verb} {first}-{last}"),
            }?;
            if let ScriptedFate::Delay(by) = fate {
                write!(f, " by {by}")?;
            }
        }
        Ok(())
    }
}

/// Follows a script packet by packet.
#[derive(Clone, Debug)]
pub(super) struct ScriptReader {
    script: ImpairmentScript,
    /// The number of the packet before the next.
    passed: u64,
    /// The first packets of the script that are not past.
    next: usize,
}

impl ScriptReader {
    pub(super) fn new(script: ImpairmentScript) -> Self {
        Self {
            script,
            passed: 0,
            next: 0,
        }
    }

    /// What befalls the next packet. Of two that change places, the first is told.
    pub(super) fn next_fate(&mut self) -> Option<ScriptedFate> {
        self.passed += 1;
        let packets = self.script.0.get(self.next)?;
        if self.passed < u64::from(packets.first) {
            return None;
        }
        if self.passed == u64::from(packets.last) {
            self.next += 1;
        }
        let second = packets.fate == ScriptedFate::Swap && self.passed > u64::from(packets.first);
        (!second).then_some(packets.fate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ImpairmentScript, String> {
        ImpairmentScript::from_raw(&Raw::Text(text.into()))
    }

    #[test]
    fn a_script_tells_each_packet_its_fate_and_is_printed_as_it_is_read() {
        let script =
            read("swap 5, 6; drop 2,8-9; duplicate 4 ; corrupt 7; delay 3, 11 by 20 ms").expect("a script");
        let printed =
            "drop 2; delay 3 by 20 ms; duplicate 4; swap 5, 6; corrupt 7; drop 8-9; delay 11 by 20 ms";
        assert_eq!(script.to_string(), printed);
        assert_eq!(read(printed), Ok(script.clone()));
        assert_eq!(script.latest(), ImpairmentScript::PATIENCE);
        let mut reader = ScriptReader::new(script);
        let fates: Vec<_> = (0..13).map(|_| reader.next_fate()).collect();
        let later = Some(ScriptedFate::Delay(Duration::from_millis(20)));
        let dropped = Some(ScriptedFate::Drop);
        let expected = [
            None,
            dropped,
            later,
            Some(ScriptedFate::Duplicate),
            Some(ScriptedFate::Swap),
            None,
            Some(ScriptedFate::Corrupt),
            dropped,
            dropped,
            None,
            later,
            None,
            None,
        ];
        assert_eq!(fates, expected);
        let nothing = read("nothing").expect("no script");
        assert!(nothing.is_empty() && nothing.to_string() == "nothing");
    }

    #[test]
    fn a_script_with_a_mistake_is_refused_with_the_statement() {
        for (wrong, why) in [
            ("", "expected `drop`"),
            ("drop 7;", "expected `drop`"),
            ("lose 7", "`lose 7`: expected `drop`"),
            ("drop", "`` is no number"),
            ("drop 0", "`0` is no number of a packet: the first is 1"),
            ("drop 3-2", "`3-2` ends before it begins"),
            ("drop 7; corrupt 5-9", "packet 7 is named twice"),
            ("drop 7, 7", "packet 7 is named twice"),
            ("swap 20, 22", "follow each other"),
            ("swap 21, 20", "follow each other"),
            ("swap 20", "follow each other"),
            ("swap 20, 21; swap 21, 22", "packet 21 is named twice"),
            ("delay 20", "by how much?"),
            ("delay 20 by 5", "`5` is no time"),
            ("delay 20 by 61 s", "at most 60 s later"),
        ] {
            let said = read(wrong).expect_err(wrong);
            assert!(said.contains(why), "{wrong}: {said}");
        }
        let many = (1..=10_001).map(|n| format!("drop {}", 2 * n));
        let said = read(&many.collect::<Vec<_>>().join("; ")).expect_err("too many");
        assert!(said.contains("at most 10000"), "{said}");
    }
}
