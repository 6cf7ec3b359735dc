//! Refresh reduction: set-up that survives loss, summary refreshes by MESSAGE_ID, and plain RSVP
//! with neighbours that support nothing else.

#[path = "network/admit_all.rs"]
mod admit_all;
#[path = "reduction/alone.rs"]
mod alone;
#[path = "wire/arbitrary.rs"]
mod arbitrary;
#[path = "reduction/hostile.rs"]
mod hostile;
#[path = "reduction/pair.rs"]
mod pair;
#[path = "reduction/refreshes.rs"]
mod refreshes;
