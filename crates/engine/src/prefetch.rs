//! Prefetching: reading the memory that the next packets will need, before they need it.
//!
//! With very many queues, a packet costs the cache lines that have to be fetched for it. A
//! discipline that knows which of its queues come next reads the lines of all of them in one loop:
//! no read depends on another, so the processor fetches them at the same time instead of one after
//! the other.
//!
//! Safe Rust has no prefetch instruction, so the lines are read for real; [`Prefetched`] carries
//! the words that were read, so that the compiler keeps the reads.

use std::hint::black_box;

/// The words that were read ahead, folded into one. End with [`Prefetched::done`].
#[must_use = "reads whose result is not used are optimised away"]
#[derive(Clone, Copy, Debug)]
pub struct Prefetched(u64);

impl Prefetched {
    /// Nothing was read.
    pub const NOTHING: Self = Self(0);

    /// This word was read.
    #[inline]
    pub fn word(word: u64) -> Self {
        Self(word)
    }

    /// Both were read.
    #[inline]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }

    /// Pretends to use what was read, which keeps the reads.
    #[inline]
    pub fn done(self) {
        black_box(self.0);
    }
}
