//! The course of a link over time: its rate, and perhaps its delay and loss, from a file or from
//! changes that are known beforehand. The simulator's links and the lab's follow the same one
//! ([`wire_model`](crate::wire_model)).
//!
//! Two formats are read. Mahimahi's (Netravali and others, USENIX ATC 2015; `link_queue.cc` of its
//! mm-link): each line is a millisecond at which 1504 bytes may leave, an IP packet of 1500 and the
//! four bytes that its TUN device puts before it. What an opportunity does not use goes to the next
//! packet in the queue, else it is lost; the trace begins anew after its last line. And CSV, with a
//! head that names the columns:
//!
//! ```text
//! time (s),rate (Mbit/s),delay (ms),loss (%)
//! 0,42.5,31,0.1
//! 0.1,38,35,0.1
//! ```
//!
//! A unit stands in the head of its column or in each cell. A line holds until the time of the
//! next, the last one as long as the one before it; then it begins anew. A trace of one line is
//! constant.

use crate::impairments::Loss;
use engine::settings::{Raw, SettingValue};
use engine::units::{Bandwidth, Bytes, Duration};
use std::fmt;
use std::sync::Arc;

/// Bytes of an opportunity, as Mahimahi counts them.
pub(crate) const OPPORTUNITY: u64 = 1504;
/// What a frame has beyond what Mahimahi counts: an Ethernet header, less the header of a TUN
/// device.
pub(crate) const BEYOND: u64 = 14 - 4;
/// A frame that takes one whole opportunity.
const FULL_FRAME: u64 = OPPORTUNITY + BEYOND;
/// Lines of a trace at most.
const MOST_LINES: usize = 4_000_000;
const MILLI: u64 = 1_000_000;
/// The longest delay of a line, as that of a link in the lab.
const LONGEST_DELAY: Duration = Duration::from_secs(60);
/// The fastest rate of a line, as that of a link.
const FASTEST: Bandwidth = Bandwidth::gbit(800);

/// What a link is from a time on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkStep {
    /// From when on, since the beginning.
    pub at: Duration,
    /// The rate; zero: nothing leaves.
    pub rate: Bandwidth,
    /// The delay, if it is another than the link's own.
    pub delay: Option<Duration>,
    /// The loss, if it is another than the link's own.
    pub loss: Option<Loss>,
}

/// How a link's capacity is given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Course {
    /// By steps, the first at zero; from the start again after the period, if there is one.
    Steps(Arc<[LinkStep]>, Option<Duration>),
    /// By opportunities: milliseconds, ascending; the last one is the period.
    Opportunities(Arc<[u32]>),
}

/// The course of a link over time. Clones share it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkTrace(pub(crate) Course);

/// Why a text is no trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceMistake {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, and what to write.
    pub why: String,
}

impl fmt::Display for TraceMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

impl std::error::Error for TraceMistake {}

impl LinkTrace {
    /// A course by steps that does not begin anew: what is scheduled. The first is at zero, and
    /// their times ascend.
    pub fn scheduled(steps: Vec<LinkStep>) -> Self {
        Self(Course::Steps(steps.into(), None))
    }

    /// Reads a trace in either format: CSV if its first line has a comma.
    ///
    /// # Errors
    ///
    /// Returns the first mistake, with its line.
    pub fn read(text: &str) -> Result<Self, TraceMistake> {
        let lines = text.lines().count();
        if lines > MOST_LINES {
            let why = format!("a trace has at most {MOST_LINES} lines; cut it, it begins anew at its end");
            return Err(mistake(MOST_LINES, why));
        }
        let first = text.lines().next().unwrap_or_default();
        let read = match first.contains(',') {
            true => csv(text)?,
            false => opportunities(text)?,
        };
        if read.mean() == Bandwidth::bits_per_sec(0) {
            return Err(mistake(
                lines,
                "nothing ever leaves by this trace: give a line a rate",
            ));
        }
        Ok(read)
    }

    /// Whether it counts frames as Mahimahi does, which knows no framing.
    pub fn counts_opportunities(&self) -> bool {
        matches!(self.0, Course::Opportunities(_))
    }

    /// After how long it begins anew; none: never.
    pub fn period(&self) -> Option<Duration> {
        match &self.0 {
            Course::Steps(_, period) => *period,
            Course::Opportunities(all) => {
                Some(Duration::from_millis(all.last().copied().unwrap_or(1).into()))
            }
        }
    }

    /// The mean rate over a period, or without one the first rate. An opportunity is a frame of
    /// 1514 bytes.
    pub fn mean(&self) -> Bandwidth {
        match (self.period(), &self.0) {
            (Some(period), _) => Bandwidth::of(self.capacity(Duration::ZERO, period), period),
            (None, Course::Steps(steps, _)) => steps[0].rate,
            (None, Course::Opportunities(_)) => Bandwidth::bits_per_sec(0),
        }
    }

    /// The highest rate: of a step, or of a tenth of a second of opportunities.
    pub fn peak(&self) -> Bandwidth {
        match &self.0 {
            Course::Steps(steps, _) => {
                let rates = steps.iter().map(|step| step.rate);
                rates.max().unwrap_or(Bandwidth::bits_per_sec(0))
            }
            Course::Opportunities(all) => {
                let mut begin = 0;
                let most = all.iter().enumerate().map(|(index, at)| {
                    while all[begin].saturating_add(100) <= *at {
                        begin += 1;
                    }
                    index + 1 - begin
                });
                let most = most.max().unwrap_or(0) as u64;
                Bandwidth::of(Bytes::new(FULL_FRAME).times(most), Duration::from_millis(100))
            }
        }
    }

    /// The longest delay of its steps; zero if they have none.
    pub fn longest_delay(&self) -> Duration {
        match &self.0 {
            Course::Steps(steps, _) => {
                let delays = steps.iter().filter_map(|step| step.delay);
                delays.max().unwrap_or(Duration::ZERO)
            }
            Course::Opportunities(_) => Duration::ZERO,
        }
    }

    /// Whether a step of it has a loss of its own.
    pub fn has_loss(&self) -> bool {
        match &self.0 {
            Course::Steps(steps, _) => steps.iter().any(|step| step.loss.is_some()),
            Course::Opportunities(_) => false,
        }
    }

    /// What could leave from one time to another, since its beginning.
    pub fn capacity(&self, from: Duration, to: Duration) -> Bytes {
        let [before, after] = [from, to].map(|at| self.capacity_until(at));
        Bytes::new(u64::try_from(after.saturating_sub(before) / 8_000_000_000).unwrap_or(u64::MAX))
    }

    /// What could leave until a time, in nanobits.
    fn capacity_until(&self, at: Duration) -> u128 {
        let (laps, rest) = match self.period().map(Duration::nanos) {
            Some(period) if period > 0 => (at.nanos() / period, at.nanos() % period),
            _ => (0, at.nanos()),
        };
        let within = |rest: u64| match &self.0 {
            Course::Steps(steps, period) => {
                let ends = steps[1..].iter().map(|step| step.at.nanos());
                let ends = ends.chain([period.map_or(u64::MAX, Duration::nanos)]);
                let spans = steps.iter().zip(ends).map(|(step, end)| {
                    let span = end.min(rest).saturating_sub(step.at.nanos());
                    u128::from(step.rate.bits()) * u128::from(span)
                });
                spans.sum::<u128>()
            }
            Course::Opportunities(all) => {
                let passed = all.partition_point(|ms| u64::from(*ms) * MILLI <= rest);
                passed as u128 * u128::from(FULL_FRAME) * 8_000_000_000
            }
        };
        let whole = if laps > 0 {
            within(self.period().map_or(0, Duration::nanos))
        } else {
            0
        };
        whole * u128::from(laps) + within(rest)
    }
}

fn mistake(line: usize, why: impl Into<String>) -> TraceMistake {
    TraceMistake {
        line,
        why: why.into(),
    }
}

/// Mahimahi's format.
fn opportunities(text: &str) -> Result<LinkTrace, TraceMistake> {
    let mut all: Vec<u32> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let ms = line.trim().parse::<u32>().map_err(|_| {
            let help = "a packet-delivery trace has a whole number of milliseconds a line, such as `17`; \
                        CSV begins with a head such as `time (s),rate (Mbit/s)`";
            mistake(number, format!("{help}; found `{}`", shown(line)))
        })?;
        if all.last().is_some_and(|before| ms < *before) {
            return Err(mistake(
                number,
                "its time is before that of the line above; sort the lines",
            ));
        }
        all.push(ms);
    }
    match all.last() {
        None => Err(mistake(1, "it is empty: write a millisecond a line, or CSV")),
        Some(0) => Err(mistake(
            all.len(),
            "a trace must last for some time: its last line is 0",
        )),
        Some(_) => Ok(LinkTrace(Course::Opportunities(all.into()))),
    }
}

/// A column of CSV.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Time,
    Rate,
    Delay,
    Loss,
}

const HEAD: &str = "the first line names the columns: `time` and `rate`, and perhaps `delay` and `loss`, each once, \
     such as `time (s),rate (Mbit/s),delay (ms)`";

/// The columns of a head, each with the unit of its cells, if it says one.
fn head(line: &str) -> Option<Vec<(Column, String)>> {
    let mut columns: Vec<(Column, String)> = Vec::new();
    for cell in line.split(',') {
        let (name, unit) = match cell.trim().strip_suffix(')') {
            Some(open) => open.split_once('(')?,
            None => (cell, ""),
        };
        let column = match name.trim() {
            "time" => Column::Time,
            "rate" => Column::Rate,
            "delay" => Column::Delay,
            "loss" => Column::Loss,
            _ => return None,
        };
        if columns.iter().any(|(other, _)| *other == column) {
            return None;
        }
        columns.push((column, unit.trim().to_owned()));
    }
    let has = |column| columns.iter().any(|(other, _)| *other == column);
    (has(Column::Time) && has(Column::Rate)).then_some(columns)
}

fn csv(text: &str) -> Result<LinkTrace, TraceMistake> {
    let mut lines = text.lines().zip(1..);
    let columns = lines.next().and_then(|(line, _)| head(line));
    let columns = columns.ok_or_else(|| mistake(1, HEAD))?;
    let mut steps: Vec<LinkStep> = Vec::new();
    for (line, number) in lines {
        let step = step(&columns, line).map_err(|why| mistake(number, why))?;
        match steps.last() {
            None if step.at > Duration::ZERO => {
                return Err(mistake(
                    number,
                    "the first time must be 0: the trace begins with it",
                ));
            }
            Some(before) if step.at <= before.at => {
                return Err(mistake(number, "its time must be after that of the line above"));
            }
            _ => {}
        }
        steps.push(step);
    }
    let period = match steps.as_slice() {
        [] => return Err(mistake(2, "there is no line below the head: write `0,…`")),
        [_] => None,
        [.., before, last] => Some(last.at + (last.at - before.at)),
    };
    Ok(LinkTrace(Course::Steps(steps.into(), period)))
}

fn step(columns: &[(Column, String)], line: &str) -> Result<LinkStep, String> {
    let cells: Vec<&str> = line.split(',').map(str::trim).collect();
    if cells.len() != columns.len() {
        let (found, head) = (cells.len(), columns.len());
        return Err(format!(
            "it has {found} cells, and the head {head}; write one for each column"
        ));
    }
    let mut step = LinkStep {
        at: Duration::ZERO,
        rate: Bandwidth::bits_per_sec(0),
        delay: None,
        loss: None,
    };
    for ((column, unit), cell) in columns.iter().zip(cells) {
        let text = format!("{cell} {unit}");
        let wrong = |why: &dyn fmt::Display| format!("`{}`: {why}", shown(text.trim()));
        match column {
            Column::Time => step.at = text.parse().map_err(|why| wrong(&why))?,
            Column::Rate => step.rate = text.parse().map_err(|why| wrong(&why))?,
            Column::Delay => step.delay = Some(text.parse().map_err(|why| wrong(&why))?),
            Column::Loss => {
                let loss = Loss::from_raw(&Raw::Text(text.trim().to_owned()));
                step.loss = Some(loss.map_err(|why| wrong(&why))?);
            }
        }
    }
    if step.delay.is_some_and(|delay| delay > LONGEST_DELAY) {
        return Err(format!("its delay is above {LONGEST_DELAY}"));
    }
    if step.rate > FASTEST {
        return Err(format!("its rate is above {FASTEST}"));
    }
    Ok(step)
}

/// The beginning of a text, for a message.
fn shown(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::units::Probability;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_trace_of_opportunities_has_its_period_its_mean_and_its_peak() {
        let trace = LinkTrace::read("0\n5\n5\n10\n").expect("a trace");
        assert_eq!(trace.period(), Some(ms(10)));
        // Four frames in each period; the first of the next begins when this one ends.
        assert_eq!(trace.mean(), Bandwidth::of(Bytes::new(4 * 1514), ms(10)));
        assert_eq!(trace.capacity(ms(5), ms(20)), Bytes::new(6 * 1514));
        assert_eq!(trace.capacity(Duration::ZERO, ms(9)), Bytes::new(2 * 1514));
        let burst = LinkTrace::read("1\n2\n3\n1000\n").expect("a trace");
        assert_eq!(burst.peak(), Bandwidth::of(Bytes::new(3 * 1514), ms(100)));
    }

    #[test]
    fn csv_has_its_units_in_the_head_or_in_the_cells() {
        let by_head = LinkTrace::read("time (s),rate (Mbit/s),delay (ms),loss (%)\n0,10,30,1\n0.5,0,40,0\n");
        let by_cells =
            LinkTrace::read("time,rate,delay,loss\n0 s,10 Mbit/s,30 ms,1 %\n500 ms,0 bit/s,40 ms,0 %\n");
        assert_eq!(by_head, by_cells);
        let trace = by_head.expect("a trace");
        let Course::Steps(steps, period) = &trace.0 else {
            panic!("{trace:?}")
        };
        assert_eq!(
            *period,
            Some(ms(1000)),
            "the last line lasts as long as the one before"
        );
        assert_eq!(steps[0].delay, Some(ms(30)));
        assert_eq!(steps[0].loss, Some(Loss::Random(Probability::ratio(1, 100))));
        assert_eq!(
            (trace.mean(), trace.peak()),
            (Bandwidth::mbit(5), Bandwidth::mbit(10))
        );
        assert_eq!(trace.longest_delay(), ms(40));
        assert_eq!(trace.capacity(ms(250), ms(1250)), Bytes::new(625_000));
        let one = LinkTrace::read("time,rate\n0 s,7 Mbit/s\n").expect("a trace");
        assert_eq!((one.period(), one.mean()), (None, Bandwidth::mbit(7)));
    }

    #[test]
    fn a_mistake_has_its_line_and_what_to_write() {
        for (text, line, why) in [
            ("", 1, "empty"),
            ("0\n0\n", 2, "last for some time"),
            ("5\n4\n", 2, "sort the lines"),
            ("5\n\n6\n", 2, "whole number of milliseconds"),
            ("-5\n", 1, "whole number"),
            ("5.5\n", 1, "whole number"),
            ("99999999999\n", 1, "whole number"),
            ("rate,time,rate\n", 1, "each once"),
            ("time,speed\n", 1, "names the columns"),
            ("time (s),delay (ms)\n0,1\n", 1, "`time` and `rate`"),
            ("time,rate\n", 2, "no line below"),
            ("time,rate\n1 s,5 Mbit/s\n", 2, "must be 0"),
            (
                "time,rate\n0 s,5 Mbit/s\n0 s,5 Mbit/s\n",
                3,
                "after that of the line above",
            ),
            ("time,rate\n0 s,5\n", 2, "the unit is missing"),
            ("time,rate\n0 s,5 Mbit/s,\n", 2, "3 cells"),
            (
                "time,rate\n0 s,0 Mbit/s\n1 s,0 Mbit/s\n",
                3,
                "nothing ever leaves",
            ),
            ("time,rate,loss\n0 s,1 Mbit/s,often\n", 2, "in bursts of 5"),
            ("time,rate,delay\n0 s,1 Mbit/s,2 min\n", 2, "above 60 s"),
            ("time,rate\n0 s,900 Gbit/s\n", 2, "above 800 Gbit/s"),
        ] {
            let wrong = LinkTrace::read(text).expect_err(text);
            assert_eq!(wrong.line, line, "{text:?}: {wrong}");
            assert!(wrong.to_string().contains(why), "{text:?}: {wrong}");
        }
    }

    #[test]
    fn any_damage_is_refused_or_read_without_panic() {
        let whole = "time (s),rate (Mbit/s),delay (ms)\n0,10,30\n0.5,0,40\n";
        for at in 0..whole.len() {
            let (head, tail) = whole.split_at(at);
            for text in [head, tail, &format!("{head}9999999999999999999999{tail}")] {
                if let Ok(trace) = LinkTrace::read(text) {
                    let _ = (trace.mean(), trace.peak(), trace.capacity(ms(1), ms(5)));
                }
            }
        }
    }
}
