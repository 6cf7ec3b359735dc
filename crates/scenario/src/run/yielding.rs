//! Classes that yield in a simulation: the clamping stage of the packet loop and the control law of
//! `suimon run`, at the links whose policies have such classes.
//!
//! The data of a connection passes the queue of such a link, and its ACKs the link back between the
//! same hosts. The stage sees headers as they would be on the wire, with windows in units of 128
//! bytes, as Linux has them. The law looks as often as beside a packet loop.

use crate::Scenario;
use crate::language::DirectionConfig;
use engine::framing::Framing;
use engine::header::{FlowKey, Headers};
use engine::packet::ClassId;
use engine::units::{Bytes, Instant};
use gateway::yielding::{ClampedPath, YieldController};
use netio::tcp::{Ends, Limit};
use netio::window_clamp::{ClampSnapshot, FrameSize, WindowClamp};
use sim::capture::headers;
use sim::packet::SimPacket;
use sim::simulation::{LinkId, Simulation};
use sim::stage::Stage;
use sim::tcp::WINDOW_SCALE;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What both stages of a link and its law share.
#[derive(Debug)]
struct Clamped {
    now: Instant,
    clamp: WindowClamp,
    /// Bytes offered to the link of the data, and to that of the ACKs.
    carried: [Bytes; 2],
}

#[derive(Clone, Debug)]
struct SharedClamp(Arc<Mutex<Clamped>>);

impl SharedClamp {
    fn get(&self) -> MutexGuard<'_, Clamped> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClampedPath for SharedClamp {
    fn watch(&mut self) -> io::Result<ClampSnapshot> {
        let Clamped { now, clamp, carried } = &mut *self.get();
        let mut snapshot = clamp.snapshot(*now, *carried);
        // A simulation is the same each time: the order of a table is not.
        snapshot.connections.sort_by_key(|one| one.connection.ends);
        Ok(snapshot)
    }

    fn clamp(&mut self, limits: Vec<(Ends, Option<Limit>)>) -> io::Result<()> {
        let Clamped { now, clamp, .. } = &mut *self.get();
        clamp.set_limits(*now, &limits);
        Ok(())
    }
}

/// Before the queue of the link that carries the data.
#[derive(Debug)]
struct DataStage {
    shared: SharedClamp,
    /// For each class of the policy, its index among those that yield.
    places: Vec<Option<usize>>,
    framing: Framing,
    bytes: Vec<u8>,
}

impl Stage for DataStage {
    fn pass(&mut self, now: Instant, key: &FlowKey, packet: &SimPacket, class: ClassId) -> Option<u64> {
        self.bytes.clear();
        headers::write_scaled(&mut self.bytes, key, packet, WINDOW_SCALE);
        let len = self.framing.on_wire(packet.frame);
        let size = FrameSize { len, segments: 1 };
        let place = self.places.get(class.0 as usize).copied().flatten();
        let Clamped { clamp, carried, .. } = &mut *self.shared.get();
        carried[0] += len;
        clamp.on_data(now, &Headers::parse(&self.bytes, 0), &self.bytes, size, place);
        None
    }
}

/// Before the queue of the link that carries the ACKs.
#[derive(Debug)]
struct AckStage {
    shared: SharedClamp,
    framing: Framing,
    bytes: Vec<u8>,
}

impl Stage for AckStage {
    fn pass(&mut self, now: Instant, key: &FlowKey, packet: &SimPacket, _class: ClassId) -> Option<u64> {
        self.bytes.clear();
        headers::write_scaled(&mut self.bytes, key, packet, WINDOW_SCALE);
        self.shared.get().carried[1] += self.framing.on_wire(packet.frame);
        let at = Headers::parse(&self.bytes, 0).l4.map(usize::from)?;
        let field = |bytes: &[u8]| Some(u16::from_be_bytes([*bytes.get(at + 14)?, *bytes.get(at + 15)?]));
        let before = field(&self.bytes);
        // Nobody reads the checksum.
        self.shared
            .get()
            .clamp
            .clamp_ack(now, &mut self.bytes, true, true);
        let after = field(&self.bytes)?;
        (before != Some(after)).then_some(u64::from(after) << WINDOW_SCALE)
    }
}

/// The classes that yield at one link.
struct YieldingLink {
    /// The direction of the data.
    direction: usize,
    shared: SharedClamp,
    controller: YieldController<SharedClamp>,
    due: Instant,
}

/// The classes that yield in a scenario.
#[derive(Default)]
pub(super) struct SimulatedYields(Vec<YieldingLink>);

impl std::fmt::Debug for SimulatedYields {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SimulatedYields").field(&self.0.len()).finish()
    }
}

impl SimulatedYields {
    /// Puts the stages before the links of this scenario.
    pub(super) fn new(scenario: &Scenario, sim: &mut Simulation, links: &[LinkId]) -> Self {
        let mut yields = Self::default();
        for (index, direction) in scenario.directions.iter().enumerate() {
            yields.0.extend(yielding(index, direction, sim, links));
        }
        yields
    }

    /// The host at the beginning of this direction begins anew: it has seen no SYN of the
    /// connections that there are.
    pub(super) fn restart(&mut self, index: usize, direction: &DirectionConfig, now: Instant) {
        for link in self.0.iter_mut().filter(|link| link.direction == index) {
            link.shared.get().clamp.forget();
            if let Some(policy) = &direction.policy {
                link.controller = YieldController::new(link.shared.clone(), policy);
            }
            link.due = now + link.controller.interval();
        }
    }

    /// When a law looks next.
    pub(super) fn due(&self) -> Instant {
        let due = self.0.iter().map(|link| link.due);
        due.min().unwrap_or(Instant::NEVER)
    }

    /// The laws whose time has come look, and set windows.
    pub(super) fn turn(&mut self, now: Instant) {
        for link in self.0.iter_mut().filter(|link| link.due <= now) {
            link.shared.get().now = now;
            // In a simulation nothing fails to answer.
            let _ = link.controller.tick();
            link.due = now + link.controller.interval();
        }
    }
}

fn yielding(
    index: usize,
    direction: &DirectionConfig,
    sim: &mut Simulation,
    links: &[LinkId],
) -> Option<YieldingLink> {
    let [data, back] = [links[index], links[index ^ 1]];
    let policy = direction.policy.as_ref()?;
    let classes = &policy.yields;
    if classes.is_empty() {
        return None;
    }
    let shared = SharedClamp(Arc::new(Mutex::new(Clamped {
        now: Instant::START,
        clamp: WindowClamp::new(classes.len()),
        carried: [Bytes::ZERO; 2],
    })));
    let place = |name: &str| classes.iter().position(|yields| yields.class == name);
    let stage = DataStage {
        shared: shared.clone(),
        places: policy.plan.classes.iter().map(|info| place(&info.name)).collect(),
        framing: policy.link().framing,
        bytes: Vec::new(),
    };
    sim.stage(data, Box::new(stage));
    let stage = AckStage {
        shared: shared.clone(),
        framing: policy.link().framing,
        bytes: Vec::new(),
    };
    sim.stage(back, Box::new(stage));
    let controller = YieldController::new(shared.clone(), policy);
    Some(YieldingLink {
        direction: index,
        due: Instant::START + controller.interval(),
        shared,
        controller,
    })
}
