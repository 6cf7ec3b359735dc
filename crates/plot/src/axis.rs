//! Axes: their range, their ticks, and how a value is written with its unit.
//!
//! Values are in base units (bits per second, seconds, bytes, per cent). The axis chooses the
//! prefix that suits its greatest value, so each tick is a short number and the unit appears once.
//! On a logarithmic axis each tick has its own prefix.

/// The unit of an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AxisUnit {
    /// A number without a unit, or with this unit, which takes no prefix.
    Number(&'static str),
    /// Per cent.
    #[default]
    Percent,
    /// Bits per second.
    Rate,
    /// Seconds.
    Time,
    /// Bytes.
    Bytes,
}

type Prefix = (&'static str, f64);

impl AxisUnit {
    /// This unit's prefixes, smallest first, each with its multiple of the base unit.
    fn prefixes(self) -> &'static [Prefix] {
        match self {
            Self::Number(_) => &[("", 1.0)],
            Self::Percent => &[("%", 1.0)],
            Self::Rate => &[("bit/s", 1.0), ("kbit/s", 1e3), ("Mbit/s", 1e6), ("Gbit/s", 1e9)],
            Self::Time => &[("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)],
            Self::Bytes => &[("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9)],
        }
    }

    /// The prefix that suits values up to `most`.
    fn suits(self, most: f64) -> Prefix {
        if let Self::Number(name) = self {
            return (name, 1.0);
        }
        let prefixes = self.prefixes();
        // Zero is written 0 s, not 0 ns.
        let most = if most == 0.0 { 1.0 } else { most.abs() };
        let suiting = prefixes.iter().rev().find(|(_, factor)| most >= factor * 0.999);
        *suiting.unwrap_or(&prefixes[0])
    }

    /// Formats a value with its unit, to three digits.
    pub fn show(self, value: f64) -> String {
        if !value.is_finite() {
            return "–".into();
        }
        let (name, factor) = self.suits(value);
        let number = digits(value / factor);
        match name {
            "" => number,
            name => format!("{number} {name}"),
        }
    }
}

/// Formats a number to three digits, or as an integer if that has more; no trailing zeros.
pub fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 99.95 || v == 0.0 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.9995 => 2,
        v => (2.0 - v.log10().floor()).min(12.0) as usize,
    };
    trimmed(format!("{value:.decimals$}"))
}

fn trimmed(text: String) -> String {
    let short = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    if short == "-0" { "0".into() } else { short.into() }
}

/// One axis.
#[derive(Clone, Debug, Default)]
pub struct Axis {
    /// The label; the unit is added.
    pub label: String,
    /// The unit of the values.
    pub unit: AxisUnit,
    /// Logarithmic scale. Values of zero and below are drawn at the axis's beginning.
    pub logarithmic: bool,
    /// The beginning. Default: zero, or the least value if that is negative or the axis is
    /// logarithmic.
    pub from: Option<f64>,
    /// The end. Default: a little above the greatest value.
    pub to: Option<f64>,
}

impl Axis {
    /// A linear axis that spans the values.
    pub fn new(label: &str, unit: AxisUnit) -> Self {
        Self {
            label: label.into(),
            unit,
            ..Self::default()
        }
    }

    /// Makes the axis logarithmic.
    #[must_use]
    pub fn logarithmic(self) -> Self {
        Self {
            logarithmic: true,
            ..self
        }
    }

    /// Sets the range of the axis.
    #[must_use]
    pub fn between(self, from: f64, to: f64) -> Self {
        Self {
            from: Some(from),
            to: Some(to),
            ..self
        }
    }
}

/// A tick: a value and its text.
#[derive(Clone, PartialEq, Debug)]
pub struct Tick {
    /// The value.
    pub at: f64,
    /// The text; empty for a minor tick.
    pub text: String,
}

/// An axis scaled to its values.
#[derive(Clone, Debug)]
pub struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
    prefix: Prefix,
    unit: AxisUnit,
    label: String,
}

impl Scale {
    /// The scale of this axis for these values. Values that are not numbers are skipped.
    pub fn of(axis: &Axis, values: impl Iterator<Item = f64>) -> Self {
        let usable = |v: &f64| v.is_finite() && (!axis.logarithmic || *v > 0.0);
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(usable) {
            (least, most) = (least.min(value), most.max(value));
        }
        if least > most {
            (least, most) = if axis.logarithmic { (1.0, 10.0) } else { (0.0, 1.0) };
        }
        let (low, high) = if axis.logarithmic {
            let low = axis.from.filter(usable).unwrap_or(round_below(least));
            let high = axis.to.filter(usable).unwrap_or(round_above(most));
            (low, if high > low { high } else { low * 10.0 })
        } else {
            let low = axis.from.unwrap_or(least.min(0.0));
            let high = axis.to.unwrap_or(most + (most - low) * 0.04);
            (low, if high > low { high } else { low + 1.0 })
        };
        Self {
            low,
            high,
            logarithmic: axis.logarithmic,
            prefix: axis.unit.suits(high.abs().max(low.abs())),
            unit: axis.unit,
            label: axis.label.clone(),
        }
    }

    /// The position of a value from 0 (beginning) to 1 (end), clamped to the axis.
    pub fn place(&self, value: f64) -> f64 {
        let part = if self.logarithmic {
            (value.max(self.low) / self.low).log10() / (self.high / self.low).log10()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        part.clamp(0.0, 1.0)
    }

    /// Returns whether a value is between beginning and end.
    pub fn has(&self, value: f64) -> bool {
        value.is_finite() && value <= self.high && (self.logarithmic || value >= self.low)
    }

    /// The title of the axis, with its unit.
    pub fn name(&self) -> String {
        let unit = if self.logarithmic && self.prefix.0 != "%" {
            ""
        } else {
            self.prefix.0
        };
        match (self.label.as_str(), unit) {
            ("", unit) => unit.into(),
            (label, "") => label.into(),
            (label, unit) => format!("{label}, {unit}"),
        }
    }

    /// About this many ticks, at round numbers.
    pub fn ticks(&self, about: usize) -> Vec<Tick> {
        if self.logarithmic {
            return self.factors(about);
        }
        let (_, factor) = self.prefix;
        let step = round_above((self.high - self.low) / factor / about.max(1) as f64);
        let decimals = (-step.log10().floor()).clamp(0.0, 12.0) as usize;
        let (first, last) = (
            (self.low / factor / step - 1e-9).ceil() as i64,
            (self.high / factor / step + 1e-9).floor() as i64,
        );
        let tick = |n: i64| Tick {
            at: n as f64 * step * factor,
            text: trimmed_zero(format!("{:.decimals$}", n as f64 * step)),
        };
        (first..=last).map(tick).collect()
    }

    /// Ticks at powers of ten. Only each n-th is named where there are many; where there are few, 2
    /// and 5 times the powers are added.
    fn factors(&self, about: usize) -> Vec<Tick> {
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let decades = (self.high / self.low).log10();
        let every = (decades / about.max(1) as f64).ceil().max(1.0) as i32;
        let fine = decades * 3.0 <= about as f64;
        let mut ticks = Vec::new();
        for power in first..=last {
            for times in [1, 2, 5] {
                let at = f64::from(times) * 10f64.powi(power);
                if at < self.low * 0.999 || at > self.high * 1.001 {
                    continue;
                }
                let named = fine || (times == 1 && (power - first) % every == 0);
                let text = if named { self.unit.show(at) } else { String::new() };
                ticks.push(Tick { at, text });
            }
        }
        ticks
    }
}

fn trimmed_zero(text: String) -> String {
    if text.trim_start_matches('-').chars().all(|c| c == '0' || c == '.') {
        "0".into()
    } else {
        text
    }
}

/// The nearest round number (1, 2 or 5 times a power of ten) above.
pub fn round_above(at_least: f64) -> f64 {
    let power = 10f64.powf(at_least.max(1e-12).log10().floor());
    let rounds = [1.0, 2.0, 5.0, 10.0].map(|n| n * power);
    let above = rounds.into_iter().find(|&round| round >= at_least * (1.0 - 1e-9));
    above.unwrap_or(rounds[3])
}

/// The nearest round number below.
pub fn round_below(at_most: f64) -> f64 {
    let power = 10f64.powf(at_most.max(1e-12).log10().floor());
    let rounds = [5.0, 2.0, 1.0].map(|n| n * power);
    let below = rounds.into_iter().find(|&round| round <= at_most * (1.0 + 1e-9));
    below.unwrap_or(power)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(ticks: &[Tick]) -> Vec<&str> {
        ticks.iter().map(|tick| tick.text.as_str()).collect()
    }

    #[test]
    fn round_numbers_are_above_and_below() {
        assert_eq!([0.03, 1.0, 21.0, 24.8].map(round_above), [0.05, 1.0, 50.0, 50.0]);
        assert_eq!([0.03, 1.0, 21.0, 99.0].map(round_below), [0.02, 1.0, 20.0, 50.0]);
    }

    #[test]
    fn a_value_has_three_digits_and_the_prefix_that_suits_it() {
        let shown = [
            AxisUnit::Rate.show(18_437_000.0),
            AxisUnit::Rate.show(0.0),
            AxisUnit::Time.show(0.0),
            AxisUnit::Time.show(0.000_25),
            AxisUnit::Time.show(12.0),
            AxisUnit::Time.show(0.001),
            AxisUnit::Bytes.show(1514.0),
            AxisUnit::Percent.show(99.0),
            AxisUnit::Number("").show(0.012_34),
            AxisUnit::Number("").show(f64::NAN),
        ];
        let expected = [
            "18.4 Mbit/s",
            "0 bit/s",
            "0 s",
            "250 µs",
            "12 s",
            "1 ms",
            "1.51 kB",
            "99 %",
            "0.0123",
            "–",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn ticks_of_equal_distance_are_round_in_the_prefix_of_the_axis() {
        let scale = Scale::of(&Axis::new("", AxisUnit::Rate), [0.0, 96e6].into_iter());
        assert_eq!(scale.name(), "Mbit/s");
        assert_eq!(texts(&scale.ticks(5)), ["0", "20", "40", "60", "80"]);
        let small = Scale::of(
            &Axis::new("time", AxisUnit::Time).between(0.0, 0.5),
            std::iter::empty(),
        );
        assert_eq!(small.name(), "time, ms");
        assert_eq!(texts(&small.ticks(5)), ["0", "100", "200", "300", "400", "500"]);
    }

    #[test]
    fn ticks_of_equal_factors_have_each_their_own_unit() {
        let axis = Axis::new("delay", AxisUnit::Time).logarithmic();
        let scale = Scale::of(&axis, [0.0, 30e-6, 0.2].into_iter());
        let ticks = scale.ticks(5);
        let named: Vec<&str> = texts(&ticks).into_iter().filter(|t| !t.is_empty()).collect();
        assert_eq!(named, ["100 µs", "1 ms", "10 ms", "100 ms"]);
        assert_eq!(scale.place(0.0), 0.0);
        assert_eq!(scale.place(0.2), 1.0);
        assert_eq!(scale.name(), "delay");
    }

    #[test]
    fn no_values_equal_values_and_no_numbers_still_make_an_axis() {
        for logarithmic in [false, true] {
            let axis = Axis {
                logarithmic,
                ..Axis::new("", AxisUnit::Number(""))
            };
            for values in [
                vec![],
                vec![0.0],
                vec![5.0, 5.0],
                vec![f64::NAN, f64::INFINITY],
                vec![-1.0],
            ] {
                let scale = Scale::of(&axis, values.iter().copied());
                assert!(scale.high > scale.low, "{values:?}");
                assert!(!scale.ticks(5).is_empty(), "{values:?}");
                assert!((0.0..=1.0).contains(&scale.place(3.0)), "{values:?}");
            }
        }
    }
}
