//! What `cbq` promises, on a virtual clock: guarantees, sharing, limits, bursts, and its manners
//! towards children and hosts.

#[path = "cbq/guarantee.rs"]
mod guarantee;
#[path = "cbq/limit.rs"]
mod limit;
#[path = "cbq/manners.rs"]
mod manners;
#[path = "cbq/policy.rs"]
mod policy;
#[path = "cbq/rig.rs"]
mod rig;
#[path = "cbq/sharing.rs"]
mod sharing;
