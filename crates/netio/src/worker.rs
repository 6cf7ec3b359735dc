//! The loop that moves packets: from ports, through queues, to ports; any number of each in one
//! thread.
//!
//! A turn: handle the commands; receive a batch from each port that has something, read the clock,
//! classify and queue; send from each path what may leave while its port has room; kick each port
//! once; and if there was nothing to do, wait for an arrival, for room, or for the earliest due
//! time. A port that fails does not stop the others: its error is kept for inspection, its backlog
//! is dropped and counted (`Reason::Port`), and it is tried again every tenth of a second.
//!
//! Where a kernel program takes over while the process hangs, a [`Gate`] reports it: the kernel has
//! already forwarded what was received before the loop came back, so that is dropped as stale. The
//! worker also leaves traffic to the kernel by itself while it cannot carry it: while one of its
//! ports is broken, and when the pool has been exhausted for [`SHORT`].
//!
//! A clean end switches the disciplines off and sends what is queued, for [`DRAIN`] at most; then
//! the kernel takes over, what arrived before that is sent too, and the rest is counted as flushed.

use crate::classify::{Classify, Everything};
use crate::clock::{self, Moment};
use crate::experience::{Direction, ExperienceObserver, ExperienceWatch};
use crate::handle::{Aside, Command, Handle, PathView, PortView, Turns, WorkerSnapshot};
use crate::hold_ups::{HoldUp, HoldUpLog};
use crate::inspection::{Detail, InspectionJob, PathSlice, Progress};
use crate::nat::BehindNat;
use crate::path::{Intake, Path, Waiting};
use crate::pause::{Pause, Wait, Waited};
use crate::pool::{Pool, PoolUsage, Slots};
use crate::port::{Capabilities, Fault, Port, PortError};
use crate::realiser::Realiser;
use crate::sys::Bell;
use crate::window_clamp::{ClampSnapshot, WindowClamp};
use crate::wire::PathWire;
use engine::discipline::Reason;
use engine::framing::Framing;
use engine::link::LATENESS;
use engine::packet::{Buffer, ClassId};
use engine::queue::Queue;
use engine::tree::TreePlan;
use engine::units::{Bandwidth, Duration, Instant};
use measure::hold_ups::HoldUps;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

pub(crate) mod leaving;

use leaving::Leaving;

/// How soon a failed port is tried again.
const RETRY: Duration = Duration::from_millis(100);

/// The longest sleep when nothing is due.
const NAP: Duration = Duration::from_millis(100);

/// The longest time that a clean end takes for what is queued. Below that an operator notices
/// nothing; it is what 600 kB take at 10 Mbit/s.
pub const DRAIN: Duration = Duration::from_millis(500);

/// The longest sleep while a clean end is under way.
const DRAIN_NAP: Duration = Duration::from_millis(1);

/// For how long the pool may be exhausted before traffic is left to the kernel.
pub const SHORT: Duration = Duration::from_millis(10);

/// One part in so many of the slots must be free again before traffic is taken back.
const FREE_AGAIN: u32 = 16;

/// Batches received (or, after a lapse, discarded) in one go at most, so that a flood cannot keep
/// the loop there.
const BATCHES: usize = 1024;

/// Classes that get another part of the pool between two batches at most.
const DIVIDED: usize = 256;

/// A port of a worker.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PortId(pub usize);

/// A path of a worker.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PathId(pub usize);

/// Settings of a worker.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// The pool of frames, shared by all ports.
    pub slots: Slots,
    /// How long before a due time it wakes, to spin for the rest: precision against use of the
    /// processor. Zero: it only sleeps.
    pub guard: Duration,
    /// A super-frame that would take longer than this at its path's bandwidth is split on arrival.
    pub split_above: Duration,
    /// The longest time between two calls of the gate's heartbeat, while the process is not
    /// stopped.
    pub heartbeat: Duration,
    /// It may run later than it was to by this, as is usual; what is more is a
    /// [hold-up](crate::hold_ups).
    pub lateness: Duration,
    /// Run under `SCHED_FIFO` at the lowest priority, where that is permitted.
    pub realtime: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            slots: Slots::default(),
            guard: Duration::from_micros(60),
            split_above: Duration::from_millis(1),
            heartbeat: Duration::from_millis(1),
            lateness: LATENESS,
            realtime: false,
        }
    }
}

/// The worker's side of a kernel program that forwards by itself while the worker is silent.
pub trait Gate: Send {
    /// Whether the kernel has taken over since the last beat (or there has been no beat): then what
    /// was received since must not be sent again.
    fn lapsed(&mut self, now: Instant) -> bool;
    /// Records that the worker is alive and whole: it takes traffic.
    fn beat(&mut self, now: Instant);
    /// Leaves traffic to the kernel until the next beat: something is broken here.
    fn stand_aside(&mut self, now: Instant);
    /// What arrives from this moment on is the worker's, which counts as alive from now on; until
    /// then it is another program's.
    fn take_from(&mut self, moment: Moment);
    /// Whether frames are told apart by their arrival timestamps: then it can take from a moment
    /// that is to come. Otherwise it takes what it is given from the call on.
    fn tells_by_arrival(&self) -> bool;
    /// What arrives from this moment on is another program's, until another moment is named.
    fn leave_at(&mut self, moment: Moment);
}

/// The specification of a path.
pub struct PathSpec {
    /// Its name, as snapshots show it.
    pub name: String,
    /// The port that packets come from. One port feeds one path.
    pub from: PortId,
    /// The port that they go to. Paths may share it.
    pub to: PortId,
    /// The mark that filters see.
    pub mark: u32,
    /// Chooses each packet's class.
    pub classify: Box<dyn Classify>,
    /// Queues and schedules them.
    pub queue: Queue,
    /// The plan that the queue was built from, if any: with it classes keep their packets when the
    /// plan changes.
    pub plan: Option<TreePlan>,
    /// What leaves is shaped to this rate, and super-frames are split by it; `None`: no limit, and
    /// they are split only where the destination cannot take them.
    pub bandwidth: Option<Bandwidth>,
    /// From a frame to the length that its packet has.
    pub framing: Framing,
    /// Makes the departure times of a pacing discipline come true, attached to the port; `None`:
    /// the worker waits, and catches up with whatever it missed.
    pub realiser: Option<Box<dyn Realiser>>,
    /// The wire behind the queue, if the worker models one; `None`: the port has its own.
    pub wire: Option<Box<dyn PathWire>>,
    /// The rates that classes of the plan are guaranteed: memory is reserved for them accordingly.
    pub guarantees: Vec<(ClassId, Bandwidth)>,
}

impl PathSpec {
    /// A path from one port to another by this queue, in which all packets are of its first class:
    /// not marked, not shaped, not paced, and without a plan.
    pub fn new(name: impl Into<String>, (from, to): (PortId, PortId), queue: Queue) -> Self {
        Self {
            name: name.into(),
            from,
            to,
            mark: 0,
            classify: Box::new(Everything(ClassId(0))),
            queue,
            plan: None,
            bandwidth: None,
            framing: Framing::PLAIN,
            realiser: None,
            wire: None,
            guarantees: Vec::new(),
        }
    }
}

/// A port in a worker.
#[derive(Debug)]
struct Slot {
    port: Box<dyn Port>,
    capabilities: Capabilities,
    /// Its path, if packets are taken from it.
    feeds: Option<usize>,
    /// The gate of the kernel programs that can take over from it, if there are any.
    gate: Option<usize>,
    error: Option<PortError>,
    retry_at: Instant,
    failures: u64,
    /// Something may have arrived.
    ready: bool,
    /// A path waits for room in it.
    wants_room: bool,
}

impl Slot {
    /// Whether its input has ended. It can still be sent to.
    fn ended(&self) -> bool {
        self.error
            .as_ref()
            .is_some_and(|error| error.fault == Fault::Ended)
    }

    /// Whether it is of no use until it is revived.
    fn broken(&self) -> bool {
        self.error.is_some() && !self.ended()
    }
}

/// The gate of some ports. Each stands aside by itself: an interface that fails leaves the others
/// managed.
struct GateOfPorts {
    gate: Box<dyn Gate>,
    /// Traffic has been taken since the last lapse.
    taking: bool,
    /// Why traffic is left to the kernel.
    aside: Option<Aside>,
}

/// Two paths of which one carries data, and the other its acknowledgments, whose windows are
/// clamped.
#[derive(Debug)]
struct ClampedPair {
    data: usize,
    acknowledgments: usize,
    clamp: WindowClamp,
}

impl ClampedPair {
    /// Its connections, and what both paths have carried.
    fn snapshot(&mut self, now: Instant, paths: &[Path]) -> ClampSnapshot {
        let both = [self.data, self.acknowledgments];
        self.clamp.snapshot(now, both.map(|path| paths[path].offered()))
    }
}

/// Moves packets.
pub struct Worker {
    settings: Settings,
    pool: Pool,
    slots: Vec<Slot>,
    paths: Vec<Path>,
    clamped: Vec<ClampedPair>,
    gates: Vec<GateOfPorts>,
    inbox: Receiver<Command>,
    /// Commands that wait until a change of their path has ended.
    put_off: VecDeque<Command>,
    /// Inspections under way, in the order in which they were asked for.
    inspections: VecDeque<InspectionJob>,
    bell: Arc<Bell>,
    pause: Pause,
    batch: Vec<Buffer>,
    turns: Turns,
    first_path: usize,
    /// Since when the pool has been exhausted.
    short_since: Option<Instant>,
    /// A clean end is under way, and ends by then.
    ending: Option<Instant>,
    /// Another program takes over, or has.
    leaving: Option<Leaving>,
    /// The time, if the caller has a clock of its own.
    set_time: Option<Instant>,
    /// When a caller with a clock of its own was told to wait, and until when.
    told: Option<(Instant, Instant)>,
    /// The wait that ended last, until it is judged by what came in it.
    waited: Option<Wait>,
    /// Where its hold-ups are written down beside others', if they are.
    hold_ups: Option<HoldUpLog>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("ports", &self.slots)
            .finish_non_exhaustive()
    }
}

/// What is left to do after a turn of the loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// There may be more at once.
    Busy,
    /// Nothing before this time, unless something arrives; [`Instant::NEVER`] if nothing is queued.
    Idle(Instant),
    /// It was stopped, or all inputs have ended and everything is sent.
    Done,
}

impl Worker {
    /// A worker without ports and paths, and the handle that controls it.
    ///
    /// # Errors
    /// If there is no memory for the pool, or no descriptor for the bell.
    pub fn new(settings: Settings) -> io::Result<(Self, Handle)> {
        let bell = Arc::new(Bell::new()?);
        let (handle, inbox) = Handle::new(bell.clone());
        let worker = Self {
            settings,
            pool: Pool::new(settings.slots)?,
            slots: Vec::new(),
            paths: Vec::new(),
            clamped: Vec::new(),
            gates: Vec::new(),
            inbox,
            put_off: VecDeque::new(),
            inspections: VecDeque::new(),
            bell,
            pause: Pause::new(settings.guard, settings.lateness),
            batch: Vec::new(),
            turns: Turns::default(),
            first_path: 0,
            short_since: None,
            ending: None,
            leaving: None,
            set_time: None,
            told: None,
            waited: None,
            hold_ups: None,
        };
        Ok((worker, handle))
    }

    /// Adds a port.
    pub fn add_port(&mut self, port: Box<dyn Port>) -> PortId {
        self.slots.push(Slot {
            capabilities: port.capabilities(),
            port,
            feeds: None,
            gate: None,
            error: None,
            retry_at: Instant::START,
            failures: 0,
            ready: true,
            wants_room: false,
        });
        PortId(self.slots.len() - 1)
    }

    /// Adds a path.
    ///
    /// # Panics
    /// If a port is not of this worker, or the first feeds a path already.
    pub fn add_path(&mut self, path: PathSpec) -> PathId {
        assert!(path.to.0 < self.slots.len(), "no such port");
        let taken = self.slots[path.from.0].feeds.replace(self.paths.len());
        assert!(taken.is_none(), "the port feeds a path already");
        let id = self.paths.len();
        self.paths.push(Path::new(path, id, &mut self.pool));
        PathId(id)
    }

    /// From now on the path sees packets as of the hosts behind this one that they are of.
    ///
    /// # Panics
    /// If the path is not of this worker.
    pub fn look_behind(&mut self, path: PathId, behind: BehindNat) {
        self.paths[path.0].set_behind(behind);
    }

    /// How many paths it has.
    pub(crate) fn path_count(&self) -> usize {
        self.paths.len()
    }

    /// From now on the TCP connections of these classes of `data` can be [watched](Handle::watch)
    /// and [clamped](Handle::clamp), in their acknowledgments, which go by the other path.
    ///
    /// # Panics
    /// If a path is not of this worker.
    pub fn clamp(&mut self, data: PathId, acknowledgments: PathId, classes: Vec<String>) {
        assert!(acknowledgments.0 < self.paths.len(), "no such path");
        self.clamped.push(ClampedPair {
            data: data.0,
            acknowledgments: acknowledgments.0,
            clamp: WindowClamp::new(classes.len()),
        });
        self.paths[data.0].set_yields(classes);
    }

    /// From now on its hold-ups are written down there, too.
    pub fn log_hold_ups(&mut self, log: &HoldUpLog) {
        self.hold_ups = Some(log.clone());
    }

    /// Judges the wait that ended last, now that the first of what came in it is known.
    fn judge_wait(&mut self, first: Option<Instant>) {
        let waited = self.waited.take();
        if let Some(hold_up) = waited.and_then(|wait| wait.held_up(first, self.settings.lateness)) {
            self.was_held_up(hold_up);
        }
    }

    /// The host held it up.
    #[cold]
    fn was_held_up(&mut self, hold_up: HoldUp) {
        self.turns.held_up += HoldUps::once(hold_up.length());
        self.hold_ups.iter().for_each(|log| log.note(hold_up));
        self.paths.iter_mut().for_each(|path| path.held_up(hold_up));
    }

    /// From now on what arrives for this path shows round trips to this watch, together with its
    /// other path, which may be another worker's.
    ///
    /// # Panics
    /// If the path is not of this worker.
    pub fn watch_experience(&mut self, path: PathId, watch: Arc<ExperienceWatch>, direction: Direction) {
        self.paths[path.0].set_observer(ExperienceObserver::new(watch, direction));
    }

    /// Sets the gate of these ports.
    ///
    /// # Panics
    /// If a port is not of this worker, or has a gate already.
    pub fn set_gate(&mut self, gate: Box<dyn Gate>, ports: &[PortId]) {
        for port in ports {
            let taken = self.slots[port.0].gate.replace(self.gates.len());
            assert!(taken.is_none(), "the port has a gate already");
        }
        self.gates.push(GateOfPorts {
            gate,
            taking: false,
            aside: None,
        });
    }

    /// Runs until it is stopped, or every input has ended and everything is sent. Returns the last
    /// snapshot.
    pub fn run(mut self) -> WorkerSnapshot {
        self.turns.realtime = self.pause.prepare(self.settings.realtime);
        loop {
            match self.step() {
                Turn::Busy => {}
                Turn::Idle(until) => self.sleep(until),
                Turn::Done => break,
            }
        }
        // Before the ports: what arrives while they close goes the kernel's way.
        self.gates.clear();
        let now = self.now();
        self.show(now)
    }

    /// One turn over all ports, without waiting: for programs that have a loop of their own.
    pub fn turn(&mut self) -> Turn {
        self.slots.iter_mut().for_each(|slot| slot.ready = true);
        self.step()
    }

    /// As [`turn`](Self::turn), at this time of the caller's own clock, which stands still until
    /// the next call. A call that comes later than the last one asked for is a hold-up. A gate has
    /// to go by the same clock: not the kernel's.
    pub fn turn_at(&mut self, now: Instant) -> Turn {
        self.set_time = Some(now);
        self.waited = self.told.map(|(began, until)| Wait {
            began,
            ended: now,
            held_up: HoldUp::noticed(until, now, self.settings.lateness),
        });
        let turn = self.turn();
        self.told = match turn {
            Turn::Idle(until) => Some((now, until)),
            Turn::Busy | Turn::Done => None,
        };
        turn
    }

    fn now(&self) -> Instant {
        self.set_time.unwrap_or_else(clock::now)
    }

    /// One turn over the ports that may have something.
    fn step(&mut self) -> Turn {
        self.turns.turns += 1;
        if self.handle_commands().is_break() {
            return Turn::Done;
        }
        let inspecting = self.inspect_on();
        let changing = self.change_on();
        let leaving = self.leave_on();
        self.revive();
        let received = self.receive();
        let now = self.now();
        let (sent, until) = self.send(now);
        if let Some(latest) = self.ending
            && (self.is_drained() || self.now() >= latest)
        {
            let over = self.now() >= latest;
            if self.leave_to_kernel() && !over {
                return Turn::Busy;
            }
            self.flush(now);
            return Turn::Done;
        }
        if received || sent || changing || inspecting || leaving {
            return Turn::Busy;
        }
        if self.has_ended() {
            return Turn::Done;
        }
        Turn::Idle(until.min(self.leaves_by()))
    }

    /// Does a piece of each change that is under way. Whether there is one.
    fn change_on(&mut self) -> bool {
        let mut changing = self.pool.divide_on(DIVIDED);
        for index in 0..self.paths.len() {
            if self.paths[index].is_changing() {
                let now = self.now();
                self.paths[index].go_on(now, &mut self.pool);
                changing = true;
            }
        }
        changing
    }

    /// Carries out the commands that are waiting. `Break`: one of them was to stop.
    fn handle_commands(&mut self) -> ControlFlow<()> {
        let mut earlier = std::mem::take(&mut self.put_off).into_iter();
        while let Some(command) = earlier.next().or_else(|| self.inbox.try_recv().ok()) {
            if command.needs_rest().is_some_and(|path| !self.is_at_rest(path)) {
                self.put_off.push_back(command);
                continue;
            }
            let now = self.now();
            // Whoever asked may have given up waiting; then nobody receives the answer.
            match command {
                Command::Stop => self.begin_end(),
                Command::Place(wish) => self.change_place(wish),
                Command::Abort => return ControlFlow::Break(()),
                Command::Inspect { detail, requester } => {
                    self.inspections.push_back(InspectionJob::new(detail, requester));
                }
                Command::Look { at, slice, done } => done.send(self.look(at, slice)),
                Command::Sent { path, mut of, done } => {
                    let path = self.paths.get_mut(path.0);
                    let tree = path.and_then(|path| path.sent(&mut of));
                    done.send((tree, of));
                }
                Command::Switch { path, on, done } => {
                    let (path, pool) = (self.paths.get_mut(path.0), &mut self.pool);
                    let known = path.is_some();
                    path.into_iter().for_each(|path| path.switch(now, pool, on));
                    done.send(known);
                }
                Command::Present { path, done } => {
                    let path = self.paths.get(path.0);
                    done.send(path.map(|path| path.present(&self.pool)));
                }
                Command::Retune { path, retune, done } => {
                    let (path, pool) = (self.paths.get_mut(path.0), &mut self.pool);
                    match path {
                        Some(path) => path.retune(now, pool, retune, done),
                        None => done.send(None),
                    }
                }
                Command::RetuneClass { path, retune, done } => {
                    let (path, pool) = (self.paths.get_mut(path.0), &mut self.pool);
                    done.send(path.map(|path| path.retune_class(now, pool, *retune)));
                }
                Command::Tape { path, wish, done } => {
                    let path = self.paths.get_mut(path.0);
                    done.send(path.map(|path| path.wish(now, wish)));
                }
                Command::ChangeClasses { path, changes, done } => {
                    let (path, pool) = (self.paths.get_mut(path.0), &mut self.pool);
                    match path {
                        Some(path) => path.begin_change(now, pool, changes, done),
                        None => done.send(None),
                    }
                }
                Command::Explain { path, wish, done } => {
                    let path = self.paths.get_mut(path.0);
                    done.send(path.map(|path| path.explain(now, wish)));
                }
                Command::Watch { path, done } => {
                    let pair = self.clamped.iter_mut().find(|pair| pair.data == path.0);
                    done.send(pair.map(|pair| pair.snapshot(now, &self.paths)));
                }
                Command::Hold { path, limits, done } => {
                    let pair = self.clamped.iter_mut().find(|pair| pair.data == path.0);
                    let known = pair.is_some();
                    pair.into_iter()
                        .for_each(|pair| pair.clamp.set_limits(now, &limits));
                    done.send(known);
                }
                Command::Restart { path, done } => done.send(self.restart(path)),
                Command::Shape { path, rate, done } => {
                    let path = self.paths.get_mut(path.0);
                    done.send(path.map(|path| path.shape(now, rate)));
                }
                Command::PassProbes { path, idents, done } => {
                    let path = self.paths.get_mut(path.0);
                    let known = path.is_some();
                    if let Some(path) = path {
                        path.pass_probes(idents);
                    }
                    done.send(known);
                }
                Command::Promise { path, promises, done } => {
                    let path = self.paths.get_mut(path.0);
                    let known = path.is_some();
                    path.into_iter().for_each(|path| path.promise(&promises));
                    done.send(known);
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Whether a path has no change under way, and no command waits for the end of one.
    fn is_at_rest(&self, path: PathId) -> bool {
        let changing = self.paths.get(path.0).is_some_and(Path::is_changing);
        let waits = |command: &Command| command.needs_rest() == Some(path);
        !changing && !self.put_off.iter().any(waits)
    }

    /// Shows a path, and of its classes this.
    fn look(
        &mut self,
        (path, class): (PathId, ClassId),
        mut slice: Box<PathSlice>,
    ) -> Option<(PathView, Box<PathSlice>)> {
        let (now, path) = (self.now(), self.paths.get_mut(path.0)?);
        let window = class.0..class.0.saturating_add(1);
        path.slice(now, Detail::Everything, window, &mut slice);
        Some((path.show_whole(), slice))
    }

    /// Empties a path, and forgets what it clamps. Returns whether there is such a path.
    fn restart(&mut self, path: PathId) -> bool {
        let Some(emptied) = self.paths.get_mut(path.0) else {
            return false;
        };
        emptied.abandon(&mut self.pool, Reason::Flushed);
        let pairs = self.clamped.iter_mut().filter(|pair| pair.data == path.0);
        pairs.for_each(|pair| pair.clamp.forget());
        true
    }

    /// Carries the first of the inspections on that does not wait for its requester, by a slice.
    /// Whether there is more to do.
    fn inspect_on(&mut self) -> bool {
        let now = self.now();
        for _ in 0..self.inspections.len() {
            let Some(job) = self.inspections.front_mut() else {
                break;
            };
            match job.go_on(now, &mut self.paths) {
                Progress::UnderWay => return true,
                // Its requester rings.
                Progress::Waits => self.inspections.rotate_left(1),
                Progress::Complete => {
                    if let Some(job) = self.inspections.pop_front() {
                        let paths = self.paths.iter().map(Path::show_whole).collect();
                        job.finish(self.show_with(now, paths));
                    }
                    return !self.inspections.is_empty();
                }
            }
        }
        false
    }

    /// Revives the failed ports whose time has come.
    fn revive(&mut self) {
        if !self.slots.iter().any(Slot::broken) {
            return;
        }
        let now = self.now();
        for slot in &mut self.slots {
            if !slot.broken() || slot.retry_at > now {
                continue;
            }
            slot.error = slot.port.revive(&mut self.pool).err();
            slot.retry_at = now + RETRY;
            slot.ready = true;
            slot.capabilities = slot.port.capabilities();
        }
    }

    /// Receives and queues a batch from each port that may have something. Returns whether anything
    /// came.
    fn receive(&mut self) -> bool {
        let (mut any, mut first) = (false, None);
        for index in 0..self.slots.len() {
            let Some(path) = self.slots[index].feeds else {
                continue;
            };
            let gate = self.slots[index].gate;
            // At the end, an input that no kernel program takes over would go on for ever.
            if self.ending.is_some() && gate.is_none() {
                continue;
            }
            if !self.slots[index].ready || self.slots[index].error.is_some() {
                continue;
            }
            // Where frames carry their time of arrival, all of them are received before the queue
            // sees a later time.
            for _ in 0..BATCHES {
                self.receive_from(index);
                if self.waited.is_some() {
                    first = first.into_iter().chain(self.first_arrival()).min();
                }
                let now = self.now();
                if let Some(gate) = gate.filter(|gate| self.lapsed(*gate, now)) {
                    self.discard_stale(gate, Some(path));
                    break;
                }
                any |= self.slots[index].ready;
                if !self.accept(index, path, now) {
                    break;
                }
            }
        }
        self.judge_wait(first);
        let now = self.now();
        // Where a program redirects frames to us instead of copying them, nothing arrives after a
        // lapse until the next beat: the beat must not wait for an arrival.
        for gate in 0..self.gates.len() {
            if self.lapsed(gate, now) {
                self.discard_stale(gate, None);
            } else {
                self.gates[gate].taking = true;
                self.pulse(gate, now);
            }
        }
        any
    }

    /// When the first frame of the batch arrived, where its port tells.
    fn first_arrival(&self) -> Option<Instant> {
        self.pool.arrived(*self.batch.first()?)
    }

    fn lapsed(&mut self, gate: usize, now: Instant) -> bool {
        self.gates[gate].gate.lapsed(now)
    }

    /// Beats; or leaves traffic to the kernel, if this worker cannot carry it now.
    fn pulse(&mut self, gate: usize, now: Instant) {
        let aside = self.trouble(gate, now);
        // At the end there is none any more.
        let Some(of_ports) = self.gates.get_mut(gate) else {
            return;
        };
        of_ports.aside = aside;
        match aside {
            None => of_ports.gate.beat(now),
            Some(_) => {
                of_ports.taking = false;
                of_ports.gate.stand_aside(now);
            }
        }
    }

    /// Why the traffic of this gate's ports is to be left to the kernel.
    fn trouble(&mut self, gate: usize, now: Instant) -> Option<Aside> {
        if self.has_left() {
            return Some(Aside::HandedOver);
        }
        let enough = || {
            let free = |usage: PoolUsage| usage.total - usage.used;
            self.pool
                .usage()
                .into_iter()
                .any(|usage| free(usage) > usage.total / FREE_AGAIN)
        };
        // The pool is that of all ports.
        let was_short = self.gates.iter().any(|gate| gate.aside == Some(Aside::Memory));
        let short = if was_short {
            !enough()
        } else {
            self.pool.is_exhausted()
        };
        self.short_since = short.then(|| self.short_since.unwrap_or(now));
        let mut own = self.slots.iter().filter(|slot| slot.gate == Some(gate));
        if own.any(Slot::broken) {
            return Some(Aside::Port);
        }
        self.short_since
            .filter(|since| now.since(*since) >= SHORT)
            .map(|_| Aside::Memory)
    }

    /// Begins a clean end: everything queued is sent as fast as the ports take it.
    fn begin_end(&mut self) {
        let now = self.now();
        self.ending.get_or_insert(now + DRAIN);
        let Self { paths, pool, .. } = self;
        paths.iter_mut().for_each(|path| path.switch(now, pool, false));
    }

    /// Whether nothing is queued, and the ports have sent all that they have taken.
    fn is_drained(&self) -> bool {
        let sent = |slot: &Slot| slot.broken() || slot.port.unsent() == 0;
        self.paths.iter().all(Path::is_empty) && self.slots.iter().all(sent)
    }

    /// From now on the kernel forwards; what arrived before is taken, and still to be sent. Whether
    /// there was such a kernel's program until now.
    fn leave_to_kernel(&mut self) -> bool {
        let mut gates = std::mem::take(&mut self.gates);
        if gates.is_empty() {
            return false;
        }
        let now = self.now();
        gates
            .iter_mut()
            .for_each(|of_ports| of_ports.gate.stand_aside(now));
        let gated = |slot: &Slot| slot.gate.is_some();
        self.receive_all(gated, |worker, index, path| {
            let _ = worker.accept(index, path, worker.now());
        });
        self.slots.iter_mut().for_each(|slot| slot.gate = None);
        true
    }

    /// The last of a clean end: what can be sent is, and the rest is dropped.
    fn flush(&mut self, now: Instant) {
        let _ = self.send(now);
        let Self { paths, pool, .. } = self;
        paths
            .iter_mut()
            .for_each(|path| path.abandon(pool, Reason::Flushed));
    }

    /// Gives the batch to its path. Returns whether there may be more frames that arrived before
    /// `now`.
    fn accept(&mut self, index: usize, path: usize, now: Instant) -> bool {
        let Self {
            slots,
            paths,
            pool,
            batch,
            settings,
            clamped,
            ..
        } = self;
        let to = &slots[paths[path].to.0];
        let timed = batch.first().is_some_and(|frame| pool.arrived(*frame).is_some());
        for frame in batch.drain(..) {
            if to.broken() {
                paths[path].refuse(pool, frame, Reason::Port);
            } else {
                for pair in clamped.iter_mut().filter(|pair| pair.acknowledgments == path) {
                    let unfinished = pool.offload(frame).checksum.is_some();
                    let enabled = paths[pair.data].is_enabled();
                    pair.clamp
                        .clamp_ack(now, pool.bytes_mut(frame), unfinished, enabled);
                }
                let pair = clamped.iter_mut().find(|pair| pair.data == path);
                let windows = pair.map(|pair| &mut pair.clamp);
                let intake = Intake {
                    now,
                    to: &to.capabilities,
                    split_above: settings.split_above,
                    windows,
                };
                paths[path].accept(pool, frame, intake);
            }
        }
        paths[path].queue_gathered(pool);
        timed && slots[index].ready && slots[index].error.is_none()
    }

    /// Receives a batch from a port, and notes whether there may be more.
    fn receive_from(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let result = slot.port.receive(&mut self.pool, &mut self.batch);
        slot.ready = !self.batch.is_empty();
        if let Err(error) = result {
            self.fail(index, error);
        }
    }

    /// Receives what waits in every `chosen` port that feeds a path, batch by batch, and gives each
    /// to `take` with the port and the path; [`BATCHES`] of a port at most.
    fn receive_all(&mut self, chosen: impl Fn(&Slot) -> bool, mut take: impl FnMut(&mut Self, usize, usize)) {
        for index in 0..self.slots.len() {
            let Some(path) = self.slots[index].feeds.filter(|_| chosen(&self.slots[index])) else {
                continue;
            };
            for _ in 0..BATCHES {
                if self.slots[index].error.is_some() {
                    break;
                }
                self.receive_from(index);
                take(self, index, path);
                if !self.slots[index].ready {
                    break;
                }
            }
        }
    }

    /// Drops the batch that this path would take: the kernel has forwarded it.
    fn refuse_stale(&mut self, path: usize) {
        let Self {
            paths, pool, batch, ..
        } = self;
        batch
            .drain(..)
            .for_each(|frame| paths[path].refuse(pool, frame, Reason::Stale));
    }

    /// Discards what waits in every port of a gate, since the kernel has forwarded it by itself,
    /// and takes over again. The batch that was just received belongs to `path`, if there is one.
    fn discard_stale(&mut self, gate: usize, path: Option<usize>) {
        // The first turn takes over from the kernel, and after trouble too: that is no lapse.
        self.turns.lapses += u64::from(self.gates[gate].taking);
        self.gates[gate].taking = false;
        if let Some(path) = path {
            self.refuse_stale(path);
        }
        let own = |slot: &Slot| slot.gate == Some(gate);
        self.receive_all(own, |worker, _, path| worker.refuse_stale(path));
        let now = self.now();
        self.pulse(gate, now);
    }

    /// Sends from each path. Returns whether more can be sent at once, and until when nothing else
    /// is due.
    fn send(&mut self, now: Instant) -> (bool, Instant) {
        let (mut busy, mut until) = (false, Instant::NEVER);
        self.slots.iter_mut().for_each(|slot| slot.wants_room = false);
        let (count, emptying) = (self.paths.len(), self.is_emptying());
        // A different path begins each time, so that none always has first choice of a shared
        // port's room.
        self.first_path = (self.first_path + 1) % count.max(1);
        for offset in 0..count {
            let path = &mut self.paths[(self.first_path + offset) % count];
            let slot = &mut self.slots[path.to.0];
            if slot.broken() {
                until = until.min(slot.retry_at);
                continue;
            }
            if emptying {
                continue;
            }
            match path.drain(now, &mut self.pool, slot.port.as_mut()) {
                Waiting::Empty => {}
                Waiting::Until(at) => until = until.min(at),
                Waiting::Room(look) => {
                    slot.wants_room = true;
                    until = until.min(look);
                }
                Waiting::More => busy = true,
            }
        }
        for index in 0..self.slots.len() {
            if self.slots[index].broken() {
                until = until.min(self.slots[index].retry_at);
            } else if let Err(error) = self.slots[index].port.kick(&mut self.pool) {
                self.fail(index, error);
            }
        }
        (busy, until)
    }

    /// Notes that a port has failed, and drops the backlog of its paths.
    fn fail(&mut self, index: usize, error: PortError) {
        let (ended, now) = (error.fault == Fault::Ended, self.now());
        let slot = &mut self.slots[index];
        slot.error = Some(error);
        if ended {
            return;
        }
        slot.retry_at = now + RETRY;
        slot.failures += 1;
        for path in self.paths.iter_mut().filter(|path| path.to.0 == index) {
            path.abandon(&mut self.pool, Reason::Port);
        }
        // At once: every frame until then would be taken and dropped.
        if let Some(gate) = self.slots[index].gate {
            self.pulse(gate, now);
        }
    }

    /// Whether every input has ended and everything is sent.
    fn has_ended(&self) -> bool {
        let mut inputs = self.slots.iter().filter(|slot| slot.feeds.is_some()).peekable();
        let any = inputs.peek().is_some();
        any && inputs.all(Slot::ended) && self.paths.iter().all(Path::is_empty)
    }

    /// How long it sleeps at most when nothing is due.
    pub fn longest_nap(&self) -> Duration {
        match (self.gates.is_empty(), self.ending) {
            (_, Some(_)) => DRAIN_NAP,
            (false, None) => self.settings.heartbeat.min(NAP),
            (true, None) => NAP,
        }
    }

    /// Waits for arrivals, room, a command, or this time.
    fn sleep(&mut self, until: Instant) {
        let longest = self.longest_nap();
        let ports = self.slots.iter().map(|slot| {
            let of_use = !slot.broken() && (slot.wants_room || !slot.ended());
            of_use.then_some((slot.port.as_ref(), slot.wants_room))
        });
        let Waited { asleep, spun, wait } = self.pause.wait(until, longest, &self.bell, ports);
        for (index, slot) in self.slots.iter_mut().enumerate() {
            slot.ready |= self.pause.is_ready(index);
        }
        self.turns.asleep += asleep;
        self.turns.spun += spun;
        self.waited = Some(wait);
    }

    /// A snapshot of everything.
    pub fn show(&mut self, now: Instant) -> WorkerSnapshot {
        let paths = self.paths.iter_mut().map(|path| path.show(now)).collect();
        self.show_with(now, paths)
    }

    fn show_with(&self, now: Instant, paths: Vec<PathView>) -> WorkerSnapshot {
        WorkerSnapshot {
            at: now,
            paths,
            ports: self
                .slots
                .iter()
                .map(|slot| PortView {
                    name: slot.port.name().into(),
                    capabilities: slot.capabilities,
                    counters: slot.port.counters(),
                    error: slot.error.as_ref().map(ToString::to_string),
                    bypassed: slot.port.bypassed(),
                    failures: slot.failures,
                    unsent: slot.port.unsent(),
                    aside: slot.gate.and_then(|gate| self.gates.get(gate)?.aside),
                })
                .collect(),
            pool: self.pool.usage(),
            turns: self.turns,
        }
    }
}
