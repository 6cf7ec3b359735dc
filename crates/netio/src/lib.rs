//! Suimon's input and output: ports, and the loop between them. In reading order:
//!
//! - [`pool`]: the bytes of frames; the engine has only their metadata;
//! - [`port`]: what a port is, what it can do, and how it fails;
//! - [`ports`]: the ports, one file each, and the list of kinds that a policy can name;
//! - [`segment`], [`checksum`]: a network card's offloads, for ports without them;
//! - [`capture_file`]: captures, read and written;
//! - [`worker`]: the loop that moves packets from port to port through the engine's queues;
//! - [`tcp`], [`window_clamp`]: TCP connections whose windows the loop clamps;
//! - [`experience`]: round trips and losses of TCP connections that pass, by class and host;
//! - [`realiser`]: how packets leave at the departure times of a pacing discipline;
//! - [`replay`]: what went through a queue, recorded beside the loop, and done again;
//! - [`fail_open`]: ports fed by programs in the kernel, so that traffic flows without us;
//!   [`fail_closed`]: a limit for that traffic;
//! - [`backlog`]: what a worker hands over to that of another program, which takes its place;
//! - [`time`]: that of whoever asks a worker, the machine's or a simulation's;
//! - [`beside`]: threads beside the loop that end when nobody wants them any more;
//! - [`echo`]: round trips to a host on the other side of a line;
//! - [`signalling`], [`routes`], [`wake`]: for a signalling protocol in another thread;
//! - [`bpf`]: the kernel programs; [`mapping`]: memory shared with the kernel.
//!
//! `unsafe` is confined to files that open with an `expect` for it; every system call is wrapped
//! once.

pub mod capture_file;
pub mod carried;
pub mod checksum;
pub mod tcp;
pub mod window_clamp;

// All else is of Linux; the above is compiled for the browser too.
cfg_if::cfg_if! {
    if #[cfg(target_os = "linux")] {
        pub mod backlog;
        pub mod beside;
        pub mod bpf;
        mod budget;
        pub mod classify;
        pub mod clock;
        pub mod echo;
        pub mod experience;
        pub mod fail_closed;
        pub mod fail_open;
        pub mod handle;
        pub mod heap;
        pub mod hold_ups;
        pub mod inspection;
        pub mod interface;
        pub mod mapping;
        mod messages;
        mod meter;
        mod neighbours;
        pub mod nat;
        pub mod netlink;
        mod path;
        mod pause;
        pub mod pool;
        pub mod port;
        pub mod ports;
        mod probes;
        pub mod realiser;
        pub mod rehearsal;
        pub mod replay;
        pub mod routes;
        mod same_classes;
        pub mod segment;
        pub mod signalling;
        mod spares;
        mod sync;
        mod sys;
        pub mod time;
        pub mod vnet;
        pub mod wake;
        pub mod wire;
        pub mod worker;

        pub use meter::ClassMeter;
    }
}
