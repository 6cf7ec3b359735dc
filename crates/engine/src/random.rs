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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Probability;

    /// The first numbers of the authors' own program for the state 1, 2, 3, 4.
    const PUBLISHED: [u64; 10] = [
        11_520,
        0,
        1_509_978_240,
        1_215_971_899_390_074_240,
        1_216_172_134_540_287_360,
        607_988_272_756_665_600,
        16_172_922_978_634_559_625,
        8_476_171_486_693_032_832,
        10_595_114_339_597_558_777,
        2_904_607_092_377_533_576,
    ];

    fn published() -> Rng {
        Rng([1, 2, 3, 4])
    }

    #[test]
    fn the_generator_is_the_published_one() {
        let mut rng = published();
        assert_eq!(PUBLISHED.map(|_| rng.bits()), PUBLISHED);
    }

    /// Those of splitmix64 for the seed 1234567, as its authors give them.
    #[test]
    fn a_stream_is_seeded_by_splitmix() {
        let Rng(state) = Seed(1_234_567).stream();
        assert_eq!(
            state,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431
            ]
        );
    }

    #[test]
    fn a_name_is_mixed_into_the_seed_byte_by_byte() {
        let begun = mix(5 ^ 0x6a09_e667_f3bc_c909);
        assert_eq!(Seed(5).fork(""), Seed(begun));
        assert_eq!(Seed(5).fork("ab"), Seed(mix(mix(begun ^ 97) ^ 98)));
        let names = ["", "a", "b", "ab", "ba", "aa"];
        let mut seeds = names.map(|name| Seed(5).fork(name).0);
        seeds.sort_unstable();
        assert!(seeds.windows(2).all(|pair| pair[0] != pair[1]));
        assert_ne!(Seed(5).fork("a"), Seed(6).fork("a"));
    }

    #[test]
    fn a_number_below_a_bound_is_that_part_of_it() {
        let mut rng = published();
        let below = |rng: &mut Rng, bound| rng.below(bound);
        assert_eq!([0; 3].map(|_| below(&mut rng, 1 << 40)), [0, 0, 90]);
        // 1215971899390074240 is 6.6 % of 2^64, 607988272756665600 is 3.3 %.
        assert_eq!(below(&mut rng, 1_000), 65);
        assert_eq!(below(&mut rng, 0), 0);
        assert_eq!(below(&mut rng, 1_000), 32);
        assert_eq!(below(&mut rng, 100), 87);
    }

    #[test]
    fn a_chance_is_taken_by_the_upper_half_of_the_bits() {
        let chance = |parts| {
            let mut rng = published();
            let mut taken = PUBLISHED.map(|_| rng.chance(Probability::from_parts(parts)));
            taken.reverse();
            taken[6]
        };
        let upper = PUBLISHED[3] >> 32;
        assert!(!chance(upper) && chance(upper + 1) && chance(1 << 32));
        let mut rng = published();
        assert!(!rng.chance(Probability::ZERO) && rng.chance(Probability::from_parts(1)));
    }
}
