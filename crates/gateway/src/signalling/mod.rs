//! RSVP with sockets, routes and a clock around the core of `crates/rsvp`: a thread that speaks it
//! for a router or a host.
//!
//! - [`speaker`]: the thread; [`handle`]: commands to it;
//! - [`shim`]: integrity and refresh reduction, between the node and its sockets; [`key_file`]: the
//!   keys;
//! - [`context`]: the kernel as a node sees it; [`interfaces`], [`routing`]: the interfaces with
//!   their sockets, and the routes through them;
//! - [`local_senders`]: reservations of programs on this host; [`receiver_proxy`]: Paths to which
//!   this host replies by rules;
//! - [`service_hint`]: the service that a sender wants, in an object of its own; [`reasons`]:
//!   texts of error codes;
//! - [`standalone`]: a node without a data plane, on a host;
//! - [`client`], [`beacon`]: how a verb finds a node, and an interface has only one;
//! - [`trees`], [`budgets`]: how a reservation becomes a class; [`tried_policy`]: what another
//!   policy would do to reservations; [`overview`]: status and events; [`limits`]: which limits of
//!   state were reached; [`again`]: what a recording has of all this, done again.

pub mod again;
pub mod beacon;
pub mod budgets;
pub mod client;
pub mod context;
pub mod handle;
pub mod interfaces;
pub mod key_file;
pub mod limits;
pub mod local_senders;
pub mod overview;
pub mod reasons;
pub mod receiver_proxy;
pub mod routing;
pub mod service_hint;
pub mod shim;
pub mod speaker;
pub mod standalone;
pub mod trees;
pub mod tried_policy;
