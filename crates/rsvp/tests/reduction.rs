//! Refresh reduction: setup that survives loss, refreshes that are names, and plain RSVP to those
//! who know no other.

#[path = "wire/arbitrary.rs"]
mod arbitrary;
#[path = "reduction/hostile.rs"]
mod hostile;
#[path = "reduction/pair.rs"]
mod pair;
#[path = "reduction/refreshes.rs"]
mod refreshes;
