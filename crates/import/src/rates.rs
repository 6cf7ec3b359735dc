//! The units of each program. The same letters mean different things: `20mbps` is bytes in tc,
//! `20Mb` is bits in pf, `20M` is bits in altq.conf and in OpenBSD's pf, a bare number is kbit/s in
//! SQM, Mbit/s in LibreQoS, and bits or bytes per second in what tc prints as JSON.

use engine::units::{Bandwidth, Bytes, Duration};

/// A decimal number and what stands behind it.
fn number(text: &str) -> Option<(&str, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let digits = number.bytes().filter(u8::is_ascii_digit).count();
    (digits > 0 && digits <= 18 && number.matches('.').count() <= 1).then_some((number, unit))
}

/// `number × scale ÷ divisor`, rounded down.
fn scaled(number: &str, scale: u64, divisor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let parse = |digits: &str| {
        if digits.is_empty() {
            Ok(0)
        } else {
            digits.parse::<u128>()
        }
    };
    let parts = 10u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let all = parse(whole).ok()?.checked_mul(parts)? + parse(fraction).ok()?;
    u64::try_from(all.checked_mul(u128::from(scale))? / parts / u128::from(divisor)).ok()
}

/// A rate of tc(8), section UNITS: bits, or bytes where the unit ends with `bps`; a bare number is
/// bits per second, and case does not matter.
pub fn tc(text: &str) -> Option<Bandwidth> {
    let (number, unit) = number(text)?;
    let unit = unit.to_ascii_lowercase();
    let (prefix, of) = match unit.strip_suffix("bit") {
        Some(prefix) => (prefix, 1),
        None if unit.is_empty() => ("", 1),
        None => (unit.strip_suffix("bps")?, 8),
    };
    let scale = match prefix {
        "" => 1,
        "k" => 1_000,
        "m" => 1_000_000,
        "g" => 1_000_000_000,
        "t" => 1_000_000_000_000,
        "ki" => 1 << 10,
        "mi" => 1 << 20,
        "gi" => 1 << 30,
        "ti" => 1 << 40,
        _ => return None,
    };
    scaled(number, scale * of, 1).map(Bandwidth::bits_per_sec)
}

/// A rate in JSON of tc: bytes per second.
pub fn tc_json(bytes: u64) -> Bandwidth {
    Bandwidth::bits_per_sec(bytes.saturating_mul(8))
}

/// A length of tc(8): prefixes are powers of 1024, a bare number and `b` are bytes.
pub fn tc_size(text: &str) -> Option<Bytes> {
    let (number, unit) = number(text)?;
    let (scale, divisor) = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => (1, 1),
        "k" | "kb" => (1 << 10, 1),
        "m" | "mb" => (1 << 20, 1),
        "g" | "gb" => (1 << 30, 1),
        "kbit" => (1 << 10, 8),
        "mbit" => (1 << 20, 8),
        "gbit" => (1 << 30, 8),
        _ => return None,
    };
    scaled(number, scale, divisor).map(Bytes::new)
}

/// A time of tc(8): a bare number is microseconds.
pub fn tc_time(text: &str) -> Option<Duration> {
    let (number, unit) = number(text)?;
    let scale = match unit.to_ascii_lowercase().as_str() {
        "s" | "sec" | "secs" => 1_000_000_000,
        "ms" | "msec" | "msecs" => 1_000_000,
        "" | "us" | "usec" | "usecs" => 1_000,
        "ns" | "nsec" | "nsecs" => 1,
        _ => return None,
    };
    scaled(number, scale, 1).map(Duration::from_nanos)
}

/// A rate of altq.conf(5) and of OpenBSD's pf.conf(5): bits per second, with `K`, `M` or `G`.
pub fn bits(text: &str) -> Option<Bandwidth> {
    let (number, unit) = number(text)?;
    let scale = match unit.to_ascii_uppercase().as_str() {
        "" => 1,
        "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        _ => return None,
    };
    scaled(number, scale, 1).map(Bandwidth::bits_per_sec)
}

/// A rate of pf.conf(5) with ALTQ: bits per second as `b`, `Kb`, `Mb` or `Gb`.
pub fn pf(text: &str) -> Option<Bandwidth> {
    match number(text)?.1 {
        "" => bits(text),
        _ => bits(text.strip_suffix('b').unwrap_or(text)),
    }
}

/// A share in per cent of a rate.
pub fn percent(text: &str, of: Bandwidth) -> Option<Bandwidth> {
    let (number, unit) = number(text)?;
    if unit != "%" {
        return None;
    }
    scaled(number, of.bits(), 100).map(Bandwidth::bits_per_sec)
}

/// A bare number of SQM: kbit/s.
pub fn sqm(text: &str) -> Option<Bandwidth> {
    thousands(text, 1_000)
}

/// A bare number of LibreQoS: Mbit/s, with decimals.
pub fn libreqos(text: &str) -> Option<Bandwidth> {
    thousands(text, 1_000_000)
}

fn thousands(text: &str, scale: u64) -> Option<Bandwidth> {
    let (number, unit) = number(text.trim())?;
    if !unit.is_empty() {
        return None;
    }
    scaled(number, scale, 1).map(Bandwidth::bits_per_sec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tc_writes_bits_and_bytes_alike() {
        let bits = |text| tc(text).map(Bandwidth::bits);
        assert_eq!(bits("20mbit"), Some(20_000_000));
        assert_eq!(bits("20mbps"), Some(160_000_000));
        assert_eq!(bits("20Mbps"), Some(160_000_000), "case does not matter");
        assert_eq!(bits("1.5Gbit"), Some(1_500_000_000));
        assert_eq!(bits("64kibit"), Some(65_536));
        assert_eq!(bits("5000"), Some(5_000));
        for wrong in ["20M", "20Mb", "mbit", "", "1..2mbit", "99999999999999999999mbit"] {
            assert_eq!(tc(wrong), None, "{wrong}");
        }
        assert_eq!(tc_json(2_500_000), Bandwidth::mbit(20));
        assert_eq!(tc_size("32k"), Some(Bytes::new(32_768)));
        assert_eq!(tc_size("1600b"), Some(Bytes::new(1_600)));
        assert_eq!(tc_time("50ms"), Some(Duration::from_millis(50)));
        assert_eq!(tc_time("4999"), Some(Duration::from_micros(4_999)));
    }

    #[test]
    fn pf_writes_bits_as_b_and_openbsd_leaves_it_out() {
        assert_eq!(pf("20Mb"), Some(Bandwidth::mbit(20)));
        assert_eq!(pf("1.5Mb"), Some(Bandwidth::kbit(1_500)));
        assert_eq!(pf("800b"), Some(Bandwidth::bits_per_sec(800)));
        assert_eq!(pf("20M"), Some(Bandwidth::mbit(20)));
        assert_eq!(pf("20MB"), None);
        assert_eq!(percent("25%", Bandwidth::mbit(20)), Some(Bandwidth::mbit(5)));
        assert_eq!(percent("25", Bandwidth::mbit(20)), None);
    }

    #[test]
    fn altq_writes_bits_without_a_word() {
        assert_eq!(bits("10M"), Some(Bandwidth::mbit(10)));
        assert_eq!(bits("384K"), Some(Bandwidth::kbit(384)));
        assert_eq!(bits("10Mb"), None);
    }

    #[test]
    fn sqm_writes_kbit_and_libreqos_mbit() {
        assert_eq!(sqm("85000"), Some(Bandwidth::mbit(85)));
        assert_eq!(sqm("85Mbit"), None);
        assert_eq!(libreqos("155"), Some(Bandwidth::mbit(155)));
        assert_eq!(libreqos("2.5"), Some(Bandwidth::kbit(2_500)));
        assert_eq!(libreqos("10M"), None);
    }
}
