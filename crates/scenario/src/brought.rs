//! What a program may bring to a scenario: sources and congestion controls, by the names of flows.
//!
//! A source is an iterator: it is asked for the next packet, its time since the start of the flow
//! and the length of its frame. A congestion control is one of the simulator's
//! ([`CongestionControl`]). What is wrong with either ends the run: [`OwnFailure`] has the error.
//!
//! ```
//! use engine::tree::Registry;
//! use engine::units::{Bytes, Duration};
//! use scenario::Scenarios;
//! use scenario::folder::Folder;
//! use scenario::run::outcome::Point;
//! use scenario::run::run;
//! use scenario::brought::{OwnControl, OwnPackets, OwnParts};
//! use scenario::brought::{Ack, CongestionControl, CongestionEvent, ConnectionStart};
//!
//! /// Eight segments, whatever happens.
//! #[derive(Debug)]
//! struct Eight(u64);
//!
//! impl CongestionControl for Eight {
//!     fn on_ack(&mut self, _: &Ack) {}
//!     fn on_loss(&mut self, _: &CongestionEvent) {}
//!     fn on_rto(&mut self, _: &CongestionEvent) {}
//!     fn cwnd(&self) -> u64 {
//!         8 * self.0
//!     }
//!     fn in_slow_start(&self) -> bool {
//!         false
//!     }
//! }
//!
//! let text = r#"
//!     version = 1
//!     duration = "10 s"
//!     [[link]]
//!     between = ["here", "there"]
//!     rate = "10 Mbit/s"
//!     delay = "50 ms"
//!     [[flow]]
//!     name = "window"
//!     between = ["here", "there"]
//!     kind = "tcp"
//!     [[flow]]
//!     name = "camera"
//!     between = ["here", "there"]
//!     kind = "own"
//! "#;
//! let folder = Folder::of("");
//! let scenarios = Scenarios::read("mine", text, &Registry::builtin(), &folder)?;
//! let mut scenario = scenarios.point(1, &folder)?;
//!
//! // Every 40 ms a frame, in turns of 1,200 and of 400 bytes.
//! let camera = OwnPackets::new(|_seed| {
//!     (0..).map(|n| {
//!         let frame = if n % 2 == 0 { 1_200 } else { 400 };
//!         Ok((Duration::from_millis(40 * n), Bytes::new(frame)))
//!     })
//! });
//! let eight = OwnControl::new("eight", |start: &ConnectionStart| Box::new(Eight(start.mss)));
//! scenario.bring(&OwnParts::default().source("camera", camera).control("window", eight))?;
//!
//! let outcome = run("mine", &scenario, Point::only(), &[], &mut |_, _| {})?;
//! // 25 frames per second of 800 bytes each, in the mean.
//! let camera = &outcome.flows[1];
//! assert!((158_000..=160_000).contains(&camera.rate.bits()), "{}", camera.rate);
//! // Eight segments of 1,448 bytes in a round trip of 100 ms and a little, after the handshake.
//! let window = &outcome.flows[0];
//! assert!((880_000..=926_000).contains(&window.rate.bits()), "{}", window.rate);
//! # Ok::<(), scenario::Error>(())
//! ```

use crate::error::{Error, OwnError};
use engine::random::Seed;
use engine::units::{Bytes, Duration};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

pub use sim::tcp::OwnControl;
pub use sim::tcp::control::{Ack, CongestionControl, CongestionEvent, ConnectionStart};

/// A packet of a program's own source: its time since the start of the flow, and the length of its
/// frame; or why there is none.
pub type OwnPacket = Result<(Duration, Bytes), OwnError>;

/// The packets of one copy of a flow, in the order of time.
pub(crate) type OwnSequence = Box<dyn Iterator<Item = OwnPacket> + Send>;

/// What makes the packets of a program's own source, for each copy of its flow.
#[derive(Clone)]
pub struct OwnPackets(Arc<dyn Fn(Seed) -> OwnSequence + Send + Sync>);

impl OwnPackets {
    /// `make` gets the seed of the copy's random numbers, when the simulation is built.
    pub fn new<I: Iterator<Item = OwnPacket> + Send + 'static>(
        make: impl Fn(Seed) -> I + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(move |seed| Box::new(make(seed))))
    }

    /// Those of the copy with this seed.
    pub(crate) fn of(&self, seed: Seed) -> OwnSequence {
        (self.0)(seed)
    }
}

impl fmt::Debug for OwnPackets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnPackets")
    }
}

/// Where what a program brings tells that it failed: the first error ends the run.
#[derive(Clone, Debug, Default)]
pub struct OwnFailure(Arc<Mutex<Option<OwnError>>>);

impl OwnFailure {
    /// It failed; of several errors the first counts.
    pub fn tell(&self, error: OwnError) {
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(error);
    }

    /// The error, if there is one.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        first.take().map_or(Ok(()), |error| Err(Error::Own(error)))
    }
}

/// What makes a congestion control that can tell of its failure.
type MakeControl = dyn Fn(&OwnFailure) -> OwnControl + Send + Sync;

/// What a program brings to a scenario, by the names of flows.
#[derive(Default)]
pub struct OwnParts {
    pub(crate) sources: BTreeMap<String, OwnPackets>,
    pub(crate) controls: BTreeMap<String, Box<MakeControl>>,
}

impl fmt::Debug for OwnParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            self.sources.keys().collect(),
            self.controls.keys().collect::<Vec<_>>(),
        ];
        f.debug_tuple("OwnParts").field(&names).finish()
    }
}

impl OwnParts {
    /// With the packets of a flow of kind `own`.
    #[must_use]
    pub fn source(mut self, flow: &str, packets: OwnPackets) -> Self {
        self.sources.insert(flow.into(), packets);
        self
    }

    /// With the congestion control of all copies of a flow with TCP.
    #[must_use]
    pub fn control(self, flow: &str, control: OwnControl) -> Self {
        self.fallible_control(flow, move |_| control.clone())
    }

    /// The same for a control that can fail: it tells so where `make` is told to.
    #[must_use]
    pub fn fallible_control(
        mut self,
        flow: &str,
        make: impl Fn(&OwnFailure) -> OwnControl + Send + Sync + 'static,
    ) -> Self {
        self.controls.insert(flow.into(), Box::new(make));
        self
    }
}

/// The packets of a flow, and where their source tells that it failed.
#[derive(Clone, Debug)]
pub struct Brought {
    pub(crate) flow: String,
    pub(crate) packets: OwnPackets,
    pub(crate) failure: OwnFailure,
}
