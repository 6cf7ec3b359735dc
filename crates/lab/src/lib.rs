//! A lab: hosts that are network namespaces on one machine, joined by links, with real programs and
//! sockets in them. In reading order:
//!
//! - [`isolation`]: the namespaces around a whole lab, which end with it;
//! - [`host`]: a network namespace, its interfaces, and work done inside it;
//! - [`topology`]: hosts joined by links;
//! - [`emulator`]: the thread that moves frames over such a link;
//! - [`addressing`]: assignment of addresses and routes;
//! - [`link`]: the wire behind a queue: rate, delay, buffer, impairments;
//! - [`hold_ups`]: what this machine adds to the delays of datagrams, counted apart;
//!   [`stood_still`]: when it stood still altogether;
//! - [`nesting`]: a command behind one link, and such commands within one another;
//! - [`way_out`]: to the internet, by a network stack in user space;
//! - [`fault`]: an interface that is there already, behind such a link, without what uses it;
//! - [`relay`]: a port outside that leads through the link;
//! - [`record`]: bytes offered to a link and sent by it, in time bins;
//! - [`program`]: real programs in a host, with a time limit;
//! - [`traffic`]: our own senders and receivers, limited in time and amount;
//! - [`netlink`]: makes interfaces, without calling other programs.
//!
//! Absent on purpose: names in `/run/netns`, files, root. Only descriptors keep the namespaces
//! open, inside a PID namespace of their own, so nothing can be left behind.

pub mod addressing;
pub mod error;
pub mod stood_still;
pub mod traffic;

// All else is of Linux; the above is compiled for the browser too.
cfg_if::cfg_if! {
    if #[cfg(target_os = "linux")] {
        pub mod emulator;
        pub mod fault;
        mod flipped;
        pub mod group_routes;
        pub mod hold_ups;
        pub mod host;
        pub mod isolation;
        pub mod link;
        pub mod nesting;
        pub mod netlink;
        pub mod program;
        pub mod published;
        pub mod record;
        pub mod relay;
        mod sys;
        pub mod topology;
        pub mod way_out;

        pub use emulator::{EmulatedDirection, Emulator, RuledQueue};
        pub use fault::LinkFault;
        pub use host::Host;
        pub use isolation::{enter, isolated, isolated_as};
        pub use link::{CableSwitch, EmulatedLink, TraceBegin};
        pub use program::{HeldSignals, Output, Program, Running};
        pub use published::published;
        pub use record::Record;
        pub use topology::Lab;
    }
}

pub use addressing::Address;
pub use error::{Error, Result};
