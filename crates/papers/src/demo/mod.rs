//! The demo: the paper's Fig. 8 (Cho 1999, section 5.3) with real TCP, on a link that it makes itself.
//!
//! [`course`] makes the hosts and the link, and runs the traffic once; [`answer`] compares what the classes
//! got with what they asked for, by policy and by plain FIFO, and reports it.
//!
//! Departures from the paper: sources join 3.5 s apart instead of 5 s, so that all is over within a minute;
//! and the background's class has the 34 Mbit/s that are left as its own rate instead of 95 % of the link,
//! since the checked tree does not promise more than there is. What it gets is the same: the rest.

pub mod answer;
pub mod course;
