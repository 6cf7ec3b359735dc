//! What is by chance in the program is drawn from the seed here: seeds of trees, and of the hashes
//! of flows.

use engine::random::{Rng, Seed};
use std::cell::RefCell;

thread_local! {
    static DRAWN: RefCell<Option<Rng>> = const { RefCell::new(None) };
}

/// From now on all seeds of this thread are drawn from this one; or none.
pub(super) fn draw_from(seed: Option<Seed>) {
    DRAWN.set(seed.map(Seed::stream));
}

/// The next, in a simulation.
pub(crate) fn drawn() -> Option<Seed> {
    DRAWN.with_borrow_mut(|rng| rng.as_mut().map(|rng| Seed(rng.bits())))
}

/// Whether this thread simulates.
pub(crate) fn is_drawn() -> bool {
    DRAWN.with_borrow(Option::is_some)
}
