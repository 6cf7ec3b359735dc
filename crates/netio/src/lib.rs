//! Ports: where packets come from and go to.
//!
//! - [`bpf`]: the kernel's side of a port, as constant programs;
//! - [`mapping`]: memory shared with the kernel.

pub mod bpf;
pub mod mapping;
