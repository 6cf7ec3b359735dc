//! Suimon's input and output. In reading order:
//!
//! - [`pool`]: where the bytes of frames are while the engine holds their metadata;
//! - [`port`]: what a port is, what it can do, and how it fails;
//! - [`af_packet`], [`tap`], [`pcap`], [`memory`], [`model_wire`]: the ports, one file each;
//! - [`captured`]: any of them with a capture of what it puts out;
//! - [`segment`], [`checksum`]: what a network card would do, where a port has none that does;
//! - [`worker`]: the loop that moves packets from port to port through the engine's queues;
//! - [`tcp`], [`window_clamp`]: connections whose windows it holds on their way;
//! - [`realiser`]: how the times of a pacing discipline come true at a port;
//! - [`fail_open`]: ports fed by programs in the kernel, such that traffic flows when we do not;
//! - [`signalling`], [`routes`], [`wake`]: for programs beside the loop that speak with other routers;
//! - [`bpf`]: those programs; [`mapping`]: memory shared with the kernel.
//!
//! `unsafe` is confined to the files that open with an `expect` for it; every system call is wrapped once.

pub mod bpf;
pub mod checksum;
pub mod classify;
pub mod clock;
pub mod fail_open;
pub mod handle;
pub mod interface;
pub mod mapping;
mod messages;
mod meter;
pub mod netlink;
mod path;
mod pause;
pub mod pool;
pub mod port;
pub mod ports;
pub mod realiser;
pub mod routes;
pub mod segment;
pub mod signalling;
mod sys;
pub mod tcp;
pub mod vnet;
pub mod wake;
pub mod window_clamp;
pub mod worker;

pub use meter::ClassMeter;
