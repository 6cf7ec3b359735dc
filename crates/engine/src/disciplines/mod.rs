//! The disciplines, one file or folder each, and the one list of them.
//!
//! To add one: copy `fifo.rs`, write the algorithm, and name it here twice: its `mod` line, which
//! rustfmt follows, and its place in the list. `cargo xtask tidy` says which of the two is missing.

use crate::kind::Kind;

pub mod blue;
pub mod cake;
pub mod cbq;
pub mod codel;
pub mod drr;
pub mod dualpi2;
pub mod fifo;
pub mod fq_codel;
pub mod hfsc;
pub mod ips;
pub mod pacer;
pub mod pie;
pub mod police;
pub mod priq;
pub mod red;
pub mod rio;
pub mod tbf;
pub mod wfq;
pub mod wrr;

/// The discipline of a leaf class, and of an interface without classes, for which a policy names
/// none: a queue for each flow, kept short. A tree that is built in code has [`PLAIN_LEAF`] there.
pub static DEFAULT_LEAF: &Kind = &fq_codel::KIND;

/// The discipline of a leaf whose queue is as long as was computed or meant.
pub static PLAIN_LEAF: &Kind = &fifo::KIND;

/// Every kind of this crate, in the order in which they are listed to people.
pub static KINDS: &[&Kind] = &[
    &fifo::KIND,
    &red::KIND,
    &codel::KIND,
    &fq_codel::KIND,
    &cake::KIND,
    &pie::KIND,
    &dualpi2::KIND,
    &blue::KIND,
    &rio::KIND,
    &police::KIND,
    &cbq::KIND,
    &wfq::KIND,
    &priq::KIND,
    &drr::KIND,
    &wrr::KIND,
    &hfsc::KIND,
    &tbf::KIND,
    &ips::KIND,
    &pacer::KIND,
];
