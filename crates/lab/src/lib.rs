//! A lab: hosts that are network namespaces on one machine, joined by links, with real programs and
//! sockets in them. In reading order:
//!
//! - [`isolation`]: the namespaces that contain a whole lab, and end with it;
//! - [`host`]: a network namespace, its interfaces, and work done inside it;
//! - [`topology`]: hosts joined by links;
//! - [`emulator`]: the thread that moves frames over such a link;
//! - [`addressing`]: addresses and routes, assigned;
//! - [`link`]: the discipline that turns a queue into a link: rate, delay, buffer, losses, jitter;
//! - [`record`]: what a link was offered and what it sent, bin by bin;
//! - [`program`]: real programs in a host, bounded in time;
//! - [`traffic`]: senders and receivers of our own, bounded in time and amount;
//! - [`netlink`]: how interfaces are made, without calling any other program.
//!
//! Absent on purpose: names in `/run/netns`, files, root. Descriptors alone keep the namespaces,
//! inside a PID namespace of their own, so nothing can be left behind.

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

pub use emulator::{EmulatedDirection, Emulator};
pub use error::{Error, Result};
pub use host::{Address, Host};
pub use isolation::{enter, isolated, isolated_as};
pub use link::EmulatedLink;
pub use program::{Output, Program, Running};
pub use record::Record;
pub use topology::Lab;
