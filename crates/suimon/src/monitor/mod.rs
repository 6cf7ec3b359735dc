//! The live screen of `suimon top`, after ALTQ's cbqmonitor. It draws into any ratatui frame, so
//! that tests see the screen of a terminal.

pub mod bands;
#[cfg(test)]
pub mod example;
pub mod listed;
pub mod samples;
pub mod screen;
