//! Hosts and routers on a virtual clock: reservations are made, kept, refused, repaired and ended.

#[path = "network/answers.rs"]
mod answers;
#[path = "wire/arbitrary.rs"]
mod arbitrary;
#[path = "network/life.rs"]
mod life;
#[path = "network/rig.rs"]
mod rig;
#[path = "network/trouble.rs"]
mod trouble;
