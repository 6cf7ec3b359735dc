//! What a path has carried, for whoever follows its line.

use engine::units::{Bytes, Instant};

/// What a path has carried since it was made, in the basis of its policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathCarried {
    /// When.
    pub at: Instant,
    /// What was offered to it, dropped or not.
    pub offered: Bytes,
    /// What it has sent.
    pub sent: Bytes,
}
