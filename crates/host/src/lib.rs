//! Priorities between programs by TCP flow control.
//!
//! After Shiokawa, Honda and Yuba, "A realization of QoS by TCP flow-control at OS level": the
//! connections of chosen programs yield to all other traffic while the link is busy, and run freely
//! otherwise. In reading order:
//!
//! - [`tick`]: the input of a control law: the link's counters, members (commands or classes), and
//!   samples of their connections;
//! - [`order`]: its output: the limit of each connection, and the reason, human-readable;
//! - [`law`]: control laws, from the one to the other; pure functions of their input and state;
//! - [`actuator`]: takes samples from a kernel and puts orders into effect;
//! - `borrowed`: the unprivileged actuator, on sockets borrowed from their programs;
//! - [`rewrite`]: the actuator for root, on passing ACKs; `udp_policer`: for UDP;
//! - [`interface`], [`bottlenet`]: the interfaces, and the configured rates of their links;
//! - [`coordinate`]: the nines of one user act as one;
//! - [`supervise`]: a command under nine, and the processes that look after it;
//! - `guest_link`: the link of a connection in another network namespace, such as a container's;
//! - [`process_filter`]: processes chosen by program, control group, user and hour; [`rules`]: from
//!   a file;
//! - `ledger`: the modified sockets, for whoever must restore them;
//! - `process_root`: the processes of a nine; `process_tree`, `sockets`: what `/proc` lists;
//! - `sys`: system calls.

pub mod actuator;
pub mod law;
pub mod order;
pub mod rewrite;
pub mod tick;

// All else is of Linux; the above is compiled for the browser too.
cfg_if::cfg_if! {
    if #[cfg(target_os = "linux")] {
        mod borrowed;
        pub mod bottlenet;
        pub mod coordinate;
        mod guest_link;
        pub mod interface;
        mod ledger;
        pub mod member_actuator;
        pub mod process_filter;
        mod process_root;
        mod process_tree;
        pub mod rules;
        mod sockets;
        pub mod supervise;
        mod sys;
        mod udp_policer;
    }
}

pub use actuator::Actuator;
pub use law::Law;
pub use order::{FlowLimit, LimitOrder, LimitReason};
pub use tick::{
    Bottleneck, ConnectionId, DataDirection, FlowSample, LawInput, LinkCounters, Member, MemberId,
};
