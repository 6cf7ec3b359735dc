//! What `cbq` guarantees, on a virtual clock: rates, sharing, limits, bursts, and retuning
//! towards children and hosts.

#[path = "cbq/averages.rs"]
mod averages;
#[path = "cbq/guarantee.rs"]
mod guarantee;
#[path = "cbq/limit.rs"]
mod limit;
#[path = "cbq/policy.rs"]
mod policy;
#[path = "cbq/retune.rs"]
mod retune;
#[path = "cbq/rig.rs"]
mod rig;
#[path = "cbq/sharing.rs"]
mod sharing;
