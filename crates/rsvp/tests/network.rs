//! Hosts and routers on a virtual clock: reservations are made, refreshed, refused, repaired and
//! torn down.

#[path = "network/again.rs"]
mod again;
#[path = "network/alone.rs"]
mod alone;
#[path = "network/answers.rs"]
mod answers;
#[path = "wire/arbitrary.rs"]
mod arbitrary;
#[path = "network/groups.rs"]
mod groups;
#[path = "network/killers.rs"]
mod killers;
#[path = "network/life.rs"]
mod life;
#[path = "network/merging.rs"]
mod merging;
#[path = "network/oracle.rs"]
mod oracle;
#[path = "network/refusals.rs"]
mod refusals;
#[path = "network/rig.rs"]
mod rig;
#[path = "network/simulation.rs"]
mod simulation;
#[path = "network/times.rs"]
mod times;
#[path = "network/topology.rs"]
mod topology;
#[path = "network/trouble.rs"]
mod trouble;
