//! Suimon's simulator: discrete events in integer nanoseconds around the engine itself.
//!
//! In reading order:
//!
//! - [`simulation`]: add nodes, links and flows, then let time pass;
//! - [`link`]: the engine's queue, a driver, a wire; [`medium`]: a wire that several hosts share;
//! - [`agent`], [`packet`]: what sends and receives, and what it sends;
//! - [`sources`]: sources that ignore congestion; [`tcp`], [`quic`]: those that respond to
//!   it;
//! - [`meter`]: what passed; [`capture`]: the same packet by packet, for files;
//!   [`promised`]: whether promises to classes are kept.
//!
//! The same description and seed give the same results, bit for bit, in debug and release builds.
//! A node that shares nothing with others changes nothing for them. Events are ordered by time and
//! order of scheduling; randomness is forked by names; clocks, threads and files are absent on
//! purpose.
//!
//! # Example
//!
//! Two hosts, a bottleneck of 10 Mbit/s under a CoDel policy, and a TCP connection with CUBIC:
//!
//! ```
//! use engine::header::FlowKey;
//! use engine::link::Link;
//! use engine::random::Seed;
//! use engine::tree::{DisciplineSpec, Registry};
//! use engine::units::{Bandwidth, Bytes, Duration, Instant};
//! use sim::link::{Driver, LinkQueue, LinkSpec, PolicyQueue};
//! use sim::simulation::{End, Simulation};
//! use sim::tcp;
//!
//! let mut sim = Simulation::new(Seed(1));
//! let [client, server] = ["client", "server"].map(|name| sim.node(name));
//!
//! // The policy: one discipline for the whole link, checked as `suimon check` checks it.
//! let rate = Bandwidth::mbit(10);
//! let plan = DisciplineSpec::new("codel")
//!     .check(&Registry::builtin(), Link::new(rate, Bytes::new(1514)))
//!     .expect("a policy");
//! let policy = PolicyQueue {
//!     plan,
//!     filters: Vec::new(),
//!     driver: Driver::default(),
//! };
//! let wire = LinkSpec::new(rate, Duration::from_millis(10));
//! let bottleneck = sim.link(
//!     client,
//!     server,
//!     wire.clone().queue(LinkQueue::Policy(Box::new(policy))),
//! );
//! sim.link(server, client, wire);
//! sim.watch(bottleneck, Duration::from_millis(100));
//!
//! let settings = tcp::Settings {
//!     control: &tcp::congestion::cubic::CONTROL,
//!     ..tcp::Settings::default()
//! };
//! let flow = sim
//!     .flow([client, server], FlowKey::default(), Instant::START, tcp::pair(&settings))
//!     .expect("the links are a route there and back");
//!
//! sim.run_until(Instant::START + Duration::from_secs(10));
//!
//! let delivered = sim.delivered(flow, End::Responder).bytes;
//! assert!(delivered > Bytes::new(11_000_000), "{delivered}: the link is full");
//! let delays = &sim.meter(bottleneck).expect("it is watched").classes()[0].queueing_delays;
//! assert!(delays.mean() < Duration::from_millis(10), "CoDel keeps the queue short");
//! ```

#![forbid(unsafe_code)]

pub mod adversary;
pub mod agent;
pub mod capture;
mod event_queue;
pub mod exhaustive;
pub mod link;
pub mod medium;
pub mod meter;
pub mod packet;
pub mod promised;
pub mod quic;
pub mod route;
pub mod simulation;
pub mod sources;
pub mod stage;
mod stream;
pub mod tcp;
