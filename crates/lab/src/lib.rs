//! A lab: hosts made of network namespaces on one machine, joined by links, with real programs and real
//! sockets in them. In reading order:
//!
//! - [`isolation`]: the box that everything happens in, and that takes everything with it when it goes;
//! - [`host`]: a network namespace, its interfaces, and work done inside it;
//! - [`topology`]: hosts joined by links;
//! - [`emulator`]: the thread that moves frames over such a link;
//! - [`addressing`]: addresses and routes that nobody wants to write;
//! - [`link`]: the discipline that makes a link of a queue: rate, delay, buffer, losses, jitter;
//! - [`record`]: what came to a link and what it sent, bin by bin;
//! - [`program`]: real programs in a host, bounded in time;
//! - [`traffic`]: senders and receivers of our own, bounded in time and amount;
//! - [`netlink`]: how interfaces are made, without calling any other program.
//!
//! Absent on purpose: names in `/run/netns`, files, root. Namespaces are held by descriptors alone, inside a
//! PID namespace of their own, so nothing can be left behind.

pub mod addressing;
pub mod emulator;
pub mod error;
pub mod host;
pub mod isolation;
pub mod link;
pub mod netlink;
pub mod program;
pub mod record;
mod sys;
pub mod topology;
pub mod traffic;

pub use emulator::{Direction, Emulator};
pub use error::{Error, Result};
pub use host::{Address, Host};
pub use isolation::{enter, isolated, isolated_as};
pub use link::Link;
pub use program::{Output, Program, Running};
pub use record::Record;
pub use topology::Lab;
