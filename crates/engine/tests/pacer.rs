//! What `pacer` guarantees: exact departures on modelled wires, bounds on lateness, no bursts,
//! admission.

#[path = "pacer/bounds.rs"]
mod bounds;
#[path = "pacer/exact.rs"]
mod exact;
#[path = "pacer/rig.rs"]
mod rig;
