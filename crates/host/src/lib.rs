//! Priorities between programs by TCP's own flow control (Shiokawa, Honda and Yuba, "A realization of QoS by TCP
//! flow-control at OS level"): the connections of chosen programs yield to everything else while the link is busy, and run
//! free otherwise. In reading order:
//!
//! - [`reading`]: what is known of the link, of members (commands, classes) and of their connections at one time;
//! - [`order`]: what is to be done with a connection, and why, in words for people;
//! - [`law`]: from the one to the other; time is an argument, and nothing is read or written;
//! - [`actuator`]: what takes readings from a kernel and puts orders into effect;
//! - `borrowed`: the actuator without privilege, sockets borrowed from their programs;
//! - [`rewrite`]: the one for root, on the way of packets; `datagrams`: what is done with UDP;
//! - [`link`], [`bottlenet`]: the interfaces, and what their users have said of them;
//! - [`coordinate`]: the nines of one user act as one;
//! - [`supervise`]: a command under nine, and the processes that look after it;
//! - `sys`: system calls.

pub mod actuator;
mod borrowed;
pub mod bottlenet;
pub mod coordinate;
mod datagrams;
pub mod law;
pub mod link;
pub mod order;
pub mod reading;
pub mod rewrite;
mod sockets;
pub mod supervise;
mod sys;

pub use actuator::Actuator;
pub use law::Law;
pub use order::{Hold, Order, Why};
pub use reading::{Bottleneck, Direction, FlowId, FlowReading, LinkReading, Member, MemberId, Tick};
