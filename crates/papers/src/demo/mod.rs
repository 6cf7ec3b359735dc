//! The demo: the paper's Fig. 8 (Cho 1999, section 5.3) with real TCP, on a link that it makes
//! itself.
//!
//! [`run`] makes the hosts and the link and runs the traffic once. [`comparison`] compares the
//! classes' measured and configured rates, with the policy and with plain FIFO, and reports them.
//!
//! Departures from the paper: sources join 3.5 s apart instead of 5 s, so that the demo ends within
//! a minute. The best-effort class is configured with the remaining 34 Mbit/s instead of 95 % of
//! the link, since admission does not guarantee more than the link has. Its measured rate is the
//! same: the remainder.

pub mod comparison;
pub mod run;
