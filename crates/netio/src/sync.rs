//! Locks and atomics by which a thread meets another, or the kernel, one name for each. The crate
//! `interleavings` puts loom's in their place and tries every order of what two threads do.

pub(crate) use std::sync::{Mutex, atomic};
