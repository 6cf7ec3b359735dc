//! Powers, logarithms and the gamma function in fixed point, by integers alone: the same bits on
//! every machine, which the functions of its library need not have.
//!
//! A power of two is the product of the roots 2^(1/2), 2^(1/4), … of its fraction's bits; a
//! logarithm is found bit by bit, by squaring. Both are right to some 2⁻³⁰ of the value.

/// The bits of fractions.
pub(crate) const BITS: u32 = 32;
/// One.
pub(crate) const ONE: i128 = 1 << BITS;
/// log₂ e.
pub(crate) const LOG2_E: i128 = 6_196_328_018;
/// ½ ln 2π.
const HALF_LN_2PI: i128 = 3_946_810_947;

/// One with 62 bits of fraction.
const WIDE: u128 = 1 << 62;

/// 2^(2^−(n+1)), with 62 bits of fraction.
const ROOTS: [u128; BITS as usize] = {
    let mut roots = [0; BITS as usize];
    let (mut at, mut last) = (0, 2 * WIDE);
    while at < roots.len() {
        last = (last * WIDE).isqrt();
        roots[at] = last;
        at += 1;
    }
    roots
};

/// The greatest exponent of a power of two; beyond it the power is that of this.
const GREATEST: i128 = 62;

/// 2 to this power.
pub(crate) fn power_of_two(exponent: i128) -> i128 {
    let whole = (exponent >> BITS).min(GREATEST);
    let fraction = exponent & (ONE - 1);
    let bits = (0..BITS)
        .zip(ROOTS)
        .filter(|(bit, _)| fraction >> (BITS - 1 - bit) & 1 == 1);
    let product = bits.fold(WIDE, |product, (_, root)| (product * root) >> 62);
    match u32::try_from(whole) {
        Ok(whole) => (product as i128) >> 30 << whole,
        Err(_) => (product as i128) >> 30 >> (-whole).min(127) as u32,
    }
}

/// log₂ of this; of nothing that of the least number.
pub(crate) fn log2(of: i128) -> i128 {
    let of = of.max(1) as u128;
    let whole = 127 - of.leading_zeros();
    let mut rest = if whole <= 62 {
        of << (62 - whole)
    } else {
        of >> (whole - 62)
    };
    let mut fraction = 0;
    for bit in (0..BITS).rev() {
        rest = (rest * rest) >> 62;
        if rest >= 2 * WIDE {
            rest >>= 1;
            fraction |= 1 << bit;
        }
    }
    (i128::from(whole) - i128::from(BITS)) * ONE + fraction
}

/// This times that.
pub(crate) fn times(a: i128, b: i128) -> i128 {
    (a * b) >> BITS
}

/// This by that.
pub(crate) fn over(a: i128, b: i128) -> i128 {
    (a << BITS) / b
}

/// Γ of a number from 1 to 101, by Stirling's series from 8 further on.
pub(crate) fn gamma(of: i128) -> i128 {
    let far = of + 8 * ONE;
    let ln = over(log2(far), LOG2_E);
    let series = over(ONE, 12 * far) - over(ONE, 360 * times(times(far, far), far));
    let ln_gamma = times(far - ONE / 2, ln) - far + HALF_LN_2PI + series;
    // The product of the eight that were passed is taken off as a logarithm: it may be great.
    let passed: i128 = (0..8).map(|step| log2(of + step * ONE)).sum();
    power_of_two(times(ln_gamma, LOG2_E) - passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn float(of: i128) -> f64 {
        of as f64 / ONE as f64
    }

    fn fixed(of: f64) -> i128 {
        (of * ONE as f64) as i128
    }

    #[test]
    fn powers_and_logarithms_are_those_of_real_numbers() {
        let mut exponent = -20.0;
        while exponent < 40.0 {
            let power = float(power_of_two(fixed(exponent)));
            let exact = exponent.exp2();
            assert!(
                (power - exact).abs() <= exact * 2e-9 + 3e-10,
                "2^{exponent}: {power}"
            );
            if exponent > -10.0 {
                let back = float(log2(fixed(exact)));
                assert!(
                    (back - exponent).abs() < 1e-6 + 1e-9 / exact,
                    "log2 {exact}: {back}"
                );
            }
            exponent += 0.0937;
        }
        assert_eq!(power_of_two(0), ONE);
        assert_eq!(power_of_two(ONE), 2 * ONE);
        assert_eq!(power_of_two(-ONE), ONE / 2);
        assert_eq!((log2(ONE), log2(8 * ONE), log2(0)), (0, 3 * ONE, -32 * ONE));
        // Beyond its range it is the greatest, or nothing.
        assert_eq!(power_of_two(500 * ONE), power_of_two(62 * ONE));
        assert_eq!(power_of_two(-500 * ONE), 0);
    }

    #[test]
    fn gamma_is_that_of_its_table() {
        let root_pi = std::f64::consts::PI.sqrt();
        for (of, exact) in [
            (1.0, 1.0),
            (1.5, root_pi / 2.0),
            (2.0, 1.0),
            (3.5, 15.0 * root_pi / 8.0),
            (6.0, 120.0),
            (11.0, 3_628_800.0),
        ] {
            let found = float(gamma(fixed(of)));
            assert!((found / exact - 1.0).abs() < 1e-6, "{of}: {found}");
        }
    }
}
