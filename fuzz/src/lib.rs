//! Fuzzing on stable Rust.
//!
//! A [`FuzzTarget`] is a function of bytes that panics when an invariant is broken. Its inputs are
//! mutated from a small corpus in `fuzz/corpus/NAME` ([`mutate`]): the input of run `n` is a
//! function of corpus, seed and `n` alone, so a failure is repeated by naming them. There is no
//! feedback from coverage, which stable Rust cannot give without another compiler's
//! instrumentation; the seeds are whole messages and files of every kind instead, and the mutations
//! know lengths, words and lines. [`drive`] runs a target, and shortens what fails.
//!
//! `cargo test -p fuzz` replays the corpora and runs each target for a moment; `cargo xtask fuzz`
//! runs them for long. A finding becomes a named test where its fault was.

#![forbid(unsafe_code)]

pub mod drive;
pub mod mutate;
pub mod targets;

// The exam of the contract test, which examines queues under random operations.
#[path = "../../crates/engine/tests/contract/exam.rs"]
mod exam;
#[path = "../../crates/engine/tests/contract/ledger.rs"]
mod ledger;
#[path = "../../crates/engine/tests/contract/policies.rs"]
mod policies;

pub use targets::{FuzzTarget, TARGETS};
