//! The live screen of `suimon top` (ALTQ's cbqmonitor): what was seen, and how it is drawn. It draws into any
//! ratatui frame, so that tests see what people see.

pub mod bands;
#[cfg(test)]
pub mod example;
pub mod history;
pub mod screen;
