//! Floods of messages with invented neighbours, sessions and senders: memory stays bounded, what is
//! invented is forgotten, and the reservations of others are made meanwhile.

#[path = "network/admit_all.rs"]
mod admit_all;
#[path = "floods/lifetimes.rs"]
mod lifetimes;
#[path = "floods/neighbours.rs"]
mod neighbours;
#[path = "floods/node.rs"]
mod node;
#[path = "floods/paths.rs"]
mod paths;
