//! Randomness that is given at construction: a small seeded generator, forked by name.
//!
//! Each node of a tree forks its own stream by its path, so that adding a node does not change the
//! random numbers of the others. The generator is xoshiro256** (Blackman and Vigna, 2018), seeded
//! by splitmix64. It is not cryptographic: whoever sees its output can predict it.

/// A stream of pseudo-random numbers.
#[derive(Clone, Debug)]
pub struct Rng([u64; 4]);

/// A seed from which streams are forked by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seed(pub u64);

/// One step of splitmix64: a well-mixed word from each state.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Seed {
    /// The seed of a part with this name: the same for the same name, unrelated for another.
    pub fn fork(self, name: &str) -> Self {
        Self(
            name.bytes()
                .fold(mix(self.0 ^ 0x6a09_e667_f3bc_c909), |hash, byte| {
                    mix(hash ^ u64::from(byte))
                }),
        )
    }

    /// The stream of this seed.
    pub fn stream(self) -> Rng {
        let word = |n: u64| mix(self.0.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        Rng([word(1), word(2), word(3), word(4)])
    }
}

impl Rng {
    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.0;
        let out = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        out
    }

    /// A number from 0 to `bound` − 1 (0 for a bound of 0); the bias is below `bound` / 2⁶⁴.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// `true` with this probability.
    pub fn chance(&mut self, p: crate::units::Probability) -> bool {
        (self.bits() >> 32) < p.parts()
    }
}
