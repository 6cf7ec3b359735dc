//! The simulator for a page in a browser: it checks a scenario, runs it step by step, and tells its
//! outcome, as `suimon sim --json` does. In reading order:
//!
//! - [`requests`]: what the page asks, and the answers;
//! - [`simulator`]: who answers, with the run that goes on;
//! - [`files`]: the files that a scenario may name: those that the page brought;
//! - [`words`]: what can be written where, for completion;
//! - [`exports`]: how a request comes in and its answer goes out, as bytes.
//!
//! It reads no clock and no file, so it is tested like any other crate; compiled for
//! `wasm32-unknown-unknown` it is the module that the page loads (`cargo xtask site`).

pub mod exports;
pub mod files;
pub mod requests;
pub mod simulator;
pub mod words;

pub use simulator::Simulator;
