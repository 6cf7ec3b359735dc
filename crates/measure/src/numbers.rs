//! Human-readable numbers: four significant digits and a unit. (The engine's own texts are exact.)

use std::fmt::Write;

/// Formats a rate, such as `19.98 Mbit/s`.
pub fn rate(bps: u64) -> String {
    made(|text| append_rate(text, bps))
}

/// The same, appended.
pub fn append_rate(text: &mut String, bps: u64) {
    scaled(
        text,
        bps as f64,
        &["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"],
    );
}

/// Formats a length, such as `1.5 kB`.
pub fn bytes(bytes: u64) -> String {
    made(|text| scaled(text, bytes as f64, &["B", "kB", "MB", "GB", "TB", "PB"]))
}

/// Formats a time, such as `4.31 ms`.
pub fn time(ns: u64) -> String {
    made(|text| append_time(text, ns))
}

/// The same, appended.
pub fn append_time(text: &mut String, ns: u64) {
    scaled(text, ns as f64, &["ns", "µs", "ms", "s"]);
}

/// Formats a count, such as `1.234 M`; exact below ten thousand.
pub fn count(n: u64) -> String {
    if n < 10_000 {
        return n.to_string();
    }
    made(|text| scaled(text, n as f64, &["", "k", "M", "G", "T"]))
}

/// Formats a share, such as `12.5 %`.
pub fn share(share: f64) -> String {
    made(|text| append_share(text, share))
}

/// The same, appended.
pub fn append_share(text: &mut String, share: f64) {
    append_digits(text, share * 100.0, 3);
    text.push_str(" %");
}

/// Formats a share with three digits that count, however small it is, such as `0.00102 %`.
pub fn small_share(share: f64) -> String {
    let per_cent = share * 100.0;
    let zeros = match per_cent > 0.0 && per_cent < 1.0 {
        true => -per_cent.log10() as i32,
        false => 0,
    };
    // One is that before the point.
    let significant = 3 + i32::from(per_cent < 1.0) + zeros;
    made(|text| {
        append_digits(text, per_cent, significant);
        text.push_str(" %");
    })
}

/// Formats a number with this many significant digits, without trailing zeros.
pub fn digits(value: f64, significant: i32) -> String {
    made(|text| append_digits(text, value, significant))
}

fn made(append: impl FnOnce(&mut String)) -> String {
    let mut text = String::new();
    append(&mut text);
    text
}

fn scaled(text: &mut String, mut value: f64, units: &[&str]) {
    let mut units = units.iter().peekable();
    while let Some(unit) = units.next() {
        // 999.96 would print as 1000.
        if value < 999.95 || units.peek().is_none() {
            append_digits(text, value, 4);
            if !unit.is_empty() {
                text.push(' ');
                text.push_str(unit);
            }
            return;
        }
        value /= 1000.0;
    }
}

fn append_digits(text: &mut String, value: f64, significant: i32) {
    /// Below it every whole number is exact.
    const EXACT: f64 = (1u64 << 53) as f64;
    if value.fract() == 0.0 && value.abs() < EXACT && value.is_sign_positive() {
        let _ = write!(text, "{}", value as u64);
        return;
    }
    let whole = if value.abs() < 1.0 {
        1
    } else {
        value.abs().log10() as i32 + 1
    };
    let decimals = usize::try_from(significant - whole).unwrap_or(0);
    let begin = text.len();
    let _ = write!(text, "{value:.decimals$}");
    if text[begin..].contains('.') {
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_four_digits_and_change_their_unit_in_time() {
        for (bps, text) in [
            (0, "0 bit/s"),
            (999, "999 bit/s"),
            (19_984_999, "19.98 Mbit/s"),
            (999_960_000, "1 Gbit/s"),
            (20_000_000, "20 Mbit/s"),
            (800_000_000_000, "800 Gbit/s"),
        ] {
            assert_eq!(rate(bps), text);
        }
        assert_eq!(time(4_312_345), "4.312 ms");
        assert_eq!(
            (count(9_999), count(1_234_567)),
            ("9999".into(), "1.235 M".into())
        );
        assert_eq!((share(0.125), share(0.0)), ("12.5 %".into(), "0 %".into()));
    }

    #[test]
    fn a_small_share_has_three_digits_that_count() {
        for (share, text) in [
            (0.0, "0 %"),
            (0.00001, "0.001 %"),
            (0.0000102449, "0.00102 %"),
            (0.0025, "0.25 %"),
            (0.0099996, "1 %"),
            (0.01234, "1.23 %"),
            (0.98765, "98.8 %"),
            (12.3456, "1235 %"),
            (1.0 / 3.0e9, "0.0000000333 %"),
        ] {
            assert_eq!(small_share(share), text);
        }
    }
}
