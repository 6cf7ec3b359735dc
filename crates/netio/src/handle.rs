//! A running worker from outside: commands from other threads, and snapshots for them.
//!
//! Commands wait in a channel and are handled between batches; an event descriptor wakes a sleeping
//! worker. A snapshot costs traffic no more than the copying of its numbers, and of very many
//! classes the worker copies a [slice](crate::inspection) between two batches.

mod leaving;

use crate::budget::{Claim, PreparedClaim, ReservedSlots};
use crate::carried::PathCarried;
use crate::classify::{ClassifiesBy, Classify};
use crate::inspection::{Blanks, Collected, Detail, MOST_BLANKS, PathSlice, Piece, Requester, SLICE};
use crate::meter::{ClassMeter, Meters};
use crate::path::Wished;
pub use crate::path::{Becomes, ChangedSettings, ClassChanges, ComingClass, CutClass, Reclassified};
use crate::path::{ChangedByClass, ClassJob};
use crate::pool::PoolUsage;
use crate::port::{Capabilities, Counters};
use crate::realiser::Achieved;
use crate::replay::tape::{Rebase, Tape, Taped};
use crate::same_classes::SameClasses;
use crate::sys::Bell;
use crate::tcp::{Ends, Limit};
use crate::time::CallerTime;
use crate::window_clamp::ClampSnapshot;
use crate::worker::leaving::PlaceWish;
use crate::worker::{PathId, PortId, Worker};
use engine::inspect::View;
use engine::packet::ClassId;
use engine::queue::{Count, Queue, Stats};
use engine::random::Seed;
use engine::structures::shared_list::SharedList;
use engine::tree::{ClassInfo, TreePlan};
use engine::units::{Bandwidth, Duration, Instant};
pub use leaving::{AgreedLeave, NotLeft};
use measure::delay::Delays;
use measure::hold_ups::HoldUps;
use measure::impairments::ImpairmentCounts;
use measure::promise::ClassPromise;
pub use measure::waits::{RecordedWaits, Wanted};
use std::any::Any;
use std::fmt;
use std::ops::AddAssign;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, mpsc};

/// How long a command waits for its answer. A worker handles commands about every millisecond at
/// least.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// How long whoever inspects very many classes sleeps before looking for the next slices, so that
/// the worker need not wake anybody for each.
const LOOK: std::time::Duration = std::time::Duration::from_micros(300);

/// Promises that a worker takes between two batches at most.
const PROMISES: usize = 64;

/// Classes that adopt a plan as a whole at most. Where there are more, they adopt it [class by
/// class](ClassChanges), or a new tree takes the place of theirs.
const AT_ONCE: usize = 256;

/// A new plan for a path.
pub struct Retune {
    /// The plan.
    pub plan: TreePlan,
    /// The seed of a tree that has to be built anew.
    pub seed: Seed,
    /// The classifier that goes with the plan; `None` keeps the present one, which is right if and
    /// only if the classes keep their numbers.
    pub classify: Option<Box<dyn Classify>>,
    /// What leaves is shaped to this rate, and super-frames are split by it; `None` keeps the
    /// present rate.
    pub bandwidth: Option<Bandwidth>,
    /// The rates that classes of the plan are guaranteed: memory is reserved for them accordingly.
    pub guarantees: Vec<(ClassId, Bandwidth)>,
}

/// What a path runs: whoever prepares another plan for it needs that.
#[derive(Debug)]
pub(crate) struct PresentPlan {
    /// The plan.
    pub(crate) plan: Option<TreePlan>,
    /// The changes that the path had adopted by then.
    pub(crate) changes: u64,
    /// The classes whose connections are clamped.
    pub(crate) yields: Arc<[String]>,
    /// The part of the pool for its classes.
    pub(crate) reserved: ReservedSlots,
    /// Whether what passes goes to a tape.
    pub(crate) taped: bool,
}

/// A new plan, with all that is made of it beside the packet loop, as far as that takes longer the
/// more classes there are.
#[derive(Debug)]
pub(crate) struct PreparedRetune {
    pub(crate) retune: Retune,
    /// The changes that the path had adopted when this was made: if there are others, it is of no
    /// use.
    pub(crate) changes: u64,
    /// Whether the classes, their filters and the outermost discipline are those that there are,
    /// and so few that the packet loop may look at all of them at once.
    pub(crate) same: bool,
    /// The tree, which is needed if some discipline cannot adopt its settings.
    pub(crate) tree: Queue,
    /// How its classes follow the present ones.
    pub(crate) classes: Arc<SameClasses>,
    /// What they claim of the pool.
    pub(crate) claim: PreparedClaim,
    /// Their meters.
    pub(crate) meters: Meters,
    /// Which of them are clamped.
    pub(crate) clamp_indices: Vec<Option<usize>>,
}

impl PreparedRetune {
    /// Of this plan, for a path that runs that one.
    pub(crate) fn new(retune: Retune, present: &PresentPlan) -> Self {
        let Retune { plan, seed, .. } = &retune;
        let same = retune.classify.is_none()
            && present.plan.as_ref().is_some_and(|old| {
                old.root.kind.name == plan.root.kind.name
                    && old.has_classes_of(plan)
                    && old.default == plan.default
                    && plan.classes.len() <= AT_ONCE
            });
        let claim = Claim::of(Some(plan), &retune.guarantees);
        Self {
            changes: present.changes,
            same,
            tree: plan.build(*seed),
            classes: Arc::new(SameClasses::of(present.plan.as_ref(), plan)),
            claim: PreparedClaim::new(claim, present.reserved),
            meters: Meters::new(u32::try_from(plan.classes.len().max(1)).unwrap_or(u32::MAX)),
            clamp_indices: clamp_indices(&present.yields, plan),
            retune,
        }
    }
}

/// The index of each class of a plan among those whose connections are clamped.
pub(crate) fn clamp_indices(yields: &[String], plan: &TreePlan) -> Vec<Option<usize>> {
    let index = |info: &ClassInfo| yields.iter().position(|name| *name == info.name);
    match yields.is_empty() {
        true => Vec::new(),
        false => plan.classes.iter().map(index).collect(),
    }
}

/// What a worker answers to a new plan.
#[derive(Debug)]
pub(crate) enum Retuned {
    /// It is in force, and whatever was queued is in its tree.
    Adopted(Adopted, Retired),
    /// Nothing has changed: the path runs another plan than the one that it was prepared for.
    Stale(Box<PreparedRetune>),
}

/// Where the answer to a request goes. It has room for that one from the beginning, so that the
/// packet loop takes no memory to answer.
#[derive(Debug)]
pub(crate) struct Done<T>(SyncSender<T>);

impl<T> Done<T> {
    /// One, and where its answer is awaited.
    pub(crate) fn new() -> (Self, Receiver<T>) {
        let (done, answer) = sync_channel(1);
        (Self(done), answer)
    }

    /// Answers. Whoever asked may have given up waiting. A channel is much machine code, and once
    /// for each kind of answer is enough.
    #[inline(never)]
    pub(crate) fn send(&self, answer: T) {
        let _ = self.0.try_send(answer);
    }
}

/// What a change has left over, to be dropped by whoever asked for it: with very many classes that
/// takes longer than the packet loop may wait.
#[derive(Default)]
pub(crate) struct Retired(pub(crate) Vec<Box<dyn Any + Send>>);

impl Retired {
    /// Takes it.
    pub(crate) fn keep(&mut self, left_over: impl Any + Send) {
        self.0.push(Box::new(left_over));
    }
}

impl fmt::Debug for Retired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Retired").field(&self.0.len()).finish()
    }
}

impl fmt::Debug for Retune {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retune")
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}

/// A plan of which only the settings of one class are new.
#[derive(Debug)]
pub struct ClassRetune {
    /// The plan: [amended](TreePlan::amended) from the present one.
    pub plan: TreePlan,
    /// The class.
    pub class: ClassId,
    /// The rate that it is guaranteed: memory is reserved for it accordingly.
    pub guarantee: Bandwidth,
}

/// How a new plan was adopted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Adopted {
    /// Every discipline took its new settings, and kept its state.
    InPlace,
    /// The tree was built anew, and the backlog moved into it, class by class of the same name.
    Rebuilt {
        /// Packets that the new tree refused; they count as dropped there.
        dropped: u64,
    },
}

/// Why a path does not change classes by themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Declined {
    /// What passes goes to a tape, which tells of whole plans.
    Taped,
    /// The present filters would change in place, and that takes long.
    Filters,
    /// A discipline adopts these settings with all others only, or with a new tree.
    Discipline,
}

/// Whether the new settings of one class were adopted by themselves.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClassAdopted {
    /// They are in force.
    InPlace,
    /// Nothing has changed: the disciplines adopt whole plans only.
    WholeOnly,
}

/// What is wanted of the recorder of a path.
#[derive(Debug)]
pub(crate) enum ExplainWish {
    /// It begins.
    Begin(Wanted),
    /// It ends, and hands over what it has.
    End,
}

/// The classes of the tree that runs, if there is one; and what was asked of some.
type SentOf = (Option<Arc<SharedList<ClassInfo>>>, Vec<(ClassId, Count)>);

/// What a worker can be asked.
#[derive(Debug)]
pub(crate) enum Command {
    Inspect {
        detail: Detail,
        requester: Requester,
    },
    Look {
        at: (PathId, ClassId),
        slice: Box<PathSlice>,
        done: Done<Option<(PathView, Box<PathSlice>)>>,
    },
    Sent {
        path: PathId,
        of: Vec<(ClassId, Count)>,
        done: Done<SentOf>,
    },
    Switch {
        path: PathId,
        on: bool,
        done: Done<bool>,
    },
    Present {
        path: PathId,
        done: Done<Option<PresentPlan>>,
    },
    Retune {
        path: PathId,
        retune: Box<PreparedRetune>,
        done: Done<Option<Retuned>>,
    },
    RetuneClass {
        path: PathId,
        retune: Box<ClassRetune>,
        done: Done<Option<ClassAdopted>>,
    },
    Explain {
        path: PathId,
        wish: ExplainWish,
        done: Done<Option<Wished>>,
    },
    ChangeClasses {
        path: PathId,
        changes: Box<ClassJob>,
        done: Done<Option<ChangedByClass>>,
    },
    Watch {
        path: PathId,
        done: Done<Option<ClampSnapshot>>,
    },
    Hold {
        path: PathId,
        limits: Vec<(Ends, Option<Limit>)>,
        done: Done<bool>,
    },
    Restart {
        path: PathId,
        done: Done<bool>,
    },
    Shape {
        path: PathId,
        rate: Option<Bandwidth>,
        done: Done<Option<PathCarried>>,
    },
    PassProbes {
        path: PathId,
        idents: Vec<u16>,
        done: Done<bool>,
    },
    Promise {
        path: PathId,
        promises: Vec<ClassPromise>,
        done: Done<bool>,
    },
    Tape {
        path: PathId,
        wish: TapeWish,
        done: Done<Option<Taped>>,
    },
    Place(PlaceWish),
    Stop,
    Abort,
}

impl Command {
    /// The path that has to be at rest for it: whose change, if one is under way, is ended first.
    pub(crate) fn needs_rest(&self) -> Option<PathId> {
        match self {
            Self::Switch { path, .. }
            | Self::Retune { path, .. }
            | Self::RetuneClass { path, .. }
            | Self::ChangeClasses { path, .. }
            | Self::Promise { path, .. }
            | Self::Tape { path, .. } => Some(*path),
            _ => None,
        }
    }
}

/// What is wanted of a path's tape.
#[derive(Debug)]
pub enum TapeWish {
    /// That the path writes on this one.
    Start(Tape),
    /// That the reader gets what is written so far.
    Flush,
    /// That it begins anew with this tree, at once or when nothing is queued; not before the
    /// discipline is on and what passed by it has left.
    Rebase(Rebase),
    /// That nothing is written any more.
    Stop,
}

/// Why a command was not carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unanswered {
    /// The worker has ended.
    Ended,
    /// It did not answer in time: it hangs, or is stopped.
    Silent,
    /// It has no such path.
    NoSuchPath,
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ended => "the worker has ended",
            Self::Silent => "the worker does not answer; it may be stopped",
            Self::NoSuchPath => "the worker has no such path",
        })
    }
}

impl std::error::Error for Unanswered {}

/// Asks a worker, or several as if they were one, from any thread.
#[derive(Clone, Debug)]
pub struct Handle {
    workers: Arc<[WorkerLine]>,
    time: CallerTime,
}

/// How one worker is asked.
#[derive(Clone, Debug)]
struct WorkerLine {
    commands: Sender<Command>,
    bell: Arc<Bell>,
    /// The number of its first path.
    first_path: usize,
}

impl WorkerLine {
    fn tell(&self, command: Command) -> Result<(), Unanswered> {
        self.commands.send(command).map_err(|_| Unanswered::Ended)?;
        self.bell.ring();
        Ok(())
    }
}

impl Handle {
    pub(crate) fn new(bell: Arc<Bell>) -> (Self, Receiver<Command>) {
        let (commands, inbox) = channel();
        let line = WorkerLine {
            commands,
            bell,
            first_path: 0,
        };
        (
            Self {
                workers: Arc::new([line]),
                time: CallerTime::default(),
            },
            inbox,
        )
    }

    /// One handle for these workers, whose paths and ports are numbered one worker after the other.
    /// Each is asked by its own handle, so that no path may be added to a worker any more.
    ///
    /// # Panics
    /// If there are not as many handles as workers.
    pub fn joined(workers: &[Worker], handles: &[Self]) -> Self {
        assert_eq!(workers.len(), handles.len(), "a handle for each worker");
        let mut first_path = 0;
        let mut lines = Vec::with_capacity(workers.len());
        for (worker, handle) in workers.iter().zip(handles) {
            lines.extend(handle.workers.iter().map(|line| WorkerLine {
                first_path: first_path + line.first_path,
                ..line.clone()
            }));
            first_path += worker.path_count();
        }
        Self {
            workers: lines.into(),
            time: CallerTime::default(),
        }
    }

    /// The same for somebody who lives in this time: answers are waited for in it, and who asks by
    /// this handle does all else by it, too.
    #[must_use]
    pub fn in_time(self, time: CallerTime) -> Self {
        Self { time, ..self }
    }

    /// The time of whoever asks by it.
    pub fn time(&self) -> &CallerTime {
        &self.time
    }

    fn await_from<T>(&self, answer: &Receiver<T>) -> Result<T, Unanswered> {
        self.time.receive(answer, PATIENCE).map_err(|e| match e {
            mpsc::RecvTimeoutError::Timeout => Unanswered::Silent,
            mpsc::RecvTimeoutError::Disconnected => Unanswered::Ended,
        })
    }

    /// Asks the worker of a path, with the number that the path has there. What waits for a change
    /// to end, or is one, takes as long as that takes, in pieces between batches: it is waited for
    /// as long as the worker answers other questions in time.
    fn ask<T>(
        &self,
        path: PathId,
        command: impl FnOnce(PathId, Done<T>) -> Command,
    ) -> Result<T, Unanswered> {
        let (line, own) = self.line(path)?;
        let (reply, answer) = Done::new();
        let command = command(own, reply);
        let takes_long = command.needs_rest().is_some();
        line.tell(command)?;
        loop {
            match self.await_from(&answer) {
                Err(Unanswered::Silent) if takes_long => self.answers(path)?,
                answered => return answered,
            }
        }
    }

    /// The worker of a path, and the number that the path has there.
    fn line(&self, path: PathId) -> Result<(&WorkerLine, PathId), Unanswered> {
        let mut lines = self.workers.iter().rev();
        let line = lines.find(|line| line.first_path <= path.0);
        let line = line.ok_or(Unanswered::NoSuchPath)?;
        Ok((line, PathId(path.0 - line.first_path)))
    }

    /// Whether the worker of a path answers.
    fn answers(&self, path: PathId) -> Result<(), Unanswered> {
        let (line, path) = self.line(path)?;
        let (done, answer) = Done::new();
        line.tell(Command::Present { path, done })?;
        self.await_from(&answer).map(drop)
    }

    /// A snapshot of everything.
    ///
    /// # Errors
    /// If the worker has ended or does not answer.
    pub fn inspect(&self) -> Result<WorkerSnapshot, Unanswered> {
        self.inspect_to(Detail::Everything)
    }

    /// A snapshot that shows this much of the classes. With many of them, what it shows of each was
    /// read within the time that the others took.
    ///
    /// # Errors
    /// If the worker has ended or does not answer.
    pub fn inspect_to(&self, detail: Detail) -> Result<WorkerSnapshot, Unanswered> {
        let many = self.workers.len();
        // All that can be under way at once, so that no worker waits for room.
        let (pieces, answer) = sync_channel(many * (MOST_BLANKS + 1));
        let blanks: Vec<Arc<Blanks>> = (0..many).map(|_| Blanks::new(detail)).collect();
        // All at once, so that they show about the same instant.
        for (worker, line) in self.workers.iter().enumerate() {
            let requester = Requester {
                worker,
                pieces: pieces.clone(),
                blanks: Arc::clone(&blanks[worker]),
            };
            line.tell(Command::Inspect { detail, requester })?;
        }
        drop(pieces);
        let mut collected: Vec<Collected> = (0..many).map(|_| Collected::default()).collect();
        let mut shown: Vec<Option<WorkerSnapshot>> = (0..many).map(|_| None).collect();
        let mut more = false;
        while shown.iter().any(Option::is_none) {
            let (worker, piece) = self.next_piece(&answer, more)?;
            match piece {
                Piece::Classes(mut slice) => {
                    let classes = slice.tree.as_ref().map_or(0, |tree| tree.len());
                    more = (slice.window.end as usize) < classes;
                    let bell = &self.workers[worker].bell;
                    blanks[worker].bring(detail, classes, bell);
                    collected[worker].add(&mut slice, detail);
                    blanks[worker].give(slice, bell);
                }
                Piece::Rest(rest) => {
                    shown[worker] = Some(std::mem::take(&mut collected[worker]).complete(*rest));
                }
            }
        }
        WorkerSnapshot::joined(shown.into_iter().flatten()).ok_or(Unanswered::Ended)
    }

    /// The next piece of an inspection; one of which `more` come is given some time first.
    fn next_piece(
        &self,
        answer: &Receiver<(usize, Piece)>,
        more: bool,
    ) -> Result<(usize, Piece), Unanswered> {
        if let Ok(piece) = answer.try_recv() {
            return Ok(piece);
        }
        if more {
            self.time.sleep(LOOK);
        }
        self.await_from(answer)
    }

    /// A path, and of its classes this alone; in a time that does not grow with their number.
    ///
    /// # Errors
    /// If the worker has no such path, has ended, or does not answer.
    pub fn inspect_class(&self, path: PathId, class: ClassId) -> Result<PathView, Unanswered> {
        let slice = Box::new(PathSlice::blank(Detail::Everything, 1));
        let shown = self.ask(path, |path, done| {
            let at = (path, class);
            Command::Look { at, slice, done }
        })?;
        let (view, slice) = shown.ok_or(Unanswered::NoSuchPath)?;
        // The first is of the tree as a whole.
        let views = slice.views.into_iter().filter(|view| view.class == Some(class));
        Ok(PathView {
            views: views.collect(),
            ..view
        })
    }

    /// What these classes of this tree have sent since the path was made, in their order, without a
    /// look at the others: the packet loop tells [`SLICE`] between two batches. `None` if there is
    /// another tree by now, whose numbers are other classes'.
    ///
    /// # Errors
    /// If the worker has no such path, has ended, or does not answer.
    pub fn sent_by(
        &self,
        path: PathId,
        tree: &SharedList<ClassInfo>,
        classes: &[ClassId],
    ) -> Result<Option<Vec<Count>>, Unanswered> {
        let mut all = Vec::with_capacity(classes.len());
        for some in classes.chunks(SLICE as usize) {
            let of = some.iter().map(|class| (*class, Count::default())).collect();
            let asked = |path, done| Command::Sent { path, of, done };
            let (found, sent) = self.ask(path, asked)?;
            let found = found.ok_or(Unanswered::NoSuchPath)?;
            let name = |tree: &SharedList<ClassInfo>, class: ClassId| {
                let info = tree.get(class.0 as usize);
                info.filter(|info| !info.vacant).map(|info| info.name.clone())
            };
            if some
                .iter()
                .any(|class| name(&found, *class) != name(tree, *class))
            {
                return Ok(None);
            }
            all.extend(sent.into_iter().map(|(_, sent)| sent));
        }
        Ok(Some(all))
    }

    /// Switches a path's discipline on or off. Off: packets pass in order at full speed, its
    /// backlog first; nothing is dropped.
    ///
    /// # Errors
    /// If the worker has no such path, has ended, or does not answer.
    pub fn switch(&self, path: PathId, on: bool) -> Result<(), Unanswered> {
        let known = self.ask(path, |path, done| Command::Switch { path, on, done })?;
        if known {
            Ok(())
        } else {
            Err(Unanswered::NoSuchPath)
        }
    }

    /// Gives a path a new plan while packets flow. If its disciplines cannot adopt that in place, a
    /// new tree, which was built here, beside the packet loop, takes the place of the present one.
    /// What was queued moves into it between batches, in pieces; when all of it has, the former
    /// tree is dropped here.
    ///
    /// # Errors
    /// If the worker has no such path, has ended, or does not answer.
    pub fn retune(&self, path: PathId, retune: Retune) -> Result<Adopted, Unanswered> {
        let mut retune = retune;
        loop {
            let present = self.ask(path, |path, done| Command::Present { path, done })?;
            let present = present.ok_or(Unanswered::NoSuchPath)?;
            let prepared = Box::new(PreparedRetune::new(retune, &present));
            let retuned = self.ask(path, |path, done| Command::Retune {
                path,
                retune: prepared,
                done,
            })?;
            match retuned.ok_or(Unanswered::NoSuchPath)? {
                Retuned::Adopted(adopted, _retired) => return Ok(adopted),
                Retuned::Stale(prepared) => retune = prepared.retune,
            }
        }
    }

    /// Gives one class of a path new settings while packets flow; in a time that does not grow with
    /// the number of classes.
    ///
    /// # Errors
    /// If the worker has no such path, has ended, or does not answer.
    pub fn retune_class(&self, path: PathId, retune: ClassRetune) -> Result<ClassAdopted, Unanswered> {
        let retune = Box::new(retune);
        self.ask(path, |path, done| Command::RetuneClass { path, retune, done })?
            .ok_or(Unanswered::NoSuchPath)
    }

    /// Tells a path what is wanted of its [tape](crate::replay::tape).
    ///
    /// # Errors
    /// If the worker has no such path, has ended, or does not answer.
    pub fn tape(&self, path: PathId, wish: TapeWish) -> Result<Taped, Unanswered> {
        self.ask(path, |path, done| Command::Tape { path, wish, done })?
            .ok_or(Unanswered::NoSuchPath)
    }

    /// Begins to record why packets of a path wait; `false` if that is done for somebody else. The
    /// recording ends by itself.
    ///
    /// # Errors
    ///
    /// Returns an error if the worker has ended, does not answer, or has no such path.
    pub fn begin_explaining(&self, path: PathId, wanted: Wanted) -> Result<bool, Unanswered> {
        let wish = ExplainWish::Begin(wanted);
        let wished = self.ask(path, |path, done| Command::Explain { path, wish, done })?;
        Ok(matches!(wished.ok_or(Unanswered::NoSuchPath)?, Wished::Begun))
    }

    /// Ends that, and returns what was recorded; `None` if nothing was.
    ///
    /// # Errors
    ///
    /// Returns an error if the worker has ended, does not answer, or has no such path.
    pub fn end_explaining(&self, path: PathId) -> Result<Option<RecordedWaits>, Unanswered> {
        let wish = ExplainWish::End;
        let wished = self.ask(path, |path, done| Command::Explain { path, wish, done })?;
        Ok(match wished.ok_or(Unanswered::NoSuchPath)? {
            Wished::Recorded(recorded) => Some(*recorded),
            _ => None,
        })
    }

    /// Changes classes of a path while packets flow, in pieces between batches that do not
    /// grow with the number of classes. If it cannot, why: then nothing has changed, or a part of
    /// it, and the plan is to be [adopted as a whole](Self::retune).
    ///
    /// # Errors
    /// If the worker has no such path, has ended, or does not answer.
    pub fn change_classes(
        &self,
        path: PathId,
        changes: ClassChanges,
    ) -> Result<Result<Adopted, Declined>, Unanswered> {
        let changes = ClassJob::of(changes);
        let answer = self.ask(path, |path, done| Command::ChangeClasses { path, changes, done })?;
        Ok(match answer.ok_or(Unanswered::NoSuchPath)? {
            ChangedByClass::Adopted(adopted, _left_over) => Ok(adopted),
            ChangedByClass::Refused(why, _left_over) => Err(why),
        })
    }

    /// Whether what passes a path goes to a tape.
    ///
    /// # Errors
    /// If the worker has no such path, has ended, or does not answer.
    pub fn is_taped(&self, path: PathId) -> Result<bool, Unanswered> {
        let present = self.ask(path, |path, done| Command::Present { path, done })?;
        present.map(|present| present.taped).ok_or(Unanswered::NoSuchPath)
    }

    /// The connections of a path whose windows can be clamped
    /// ([`Worker::clamp`](crate::worker::Worker::clamp)).
    ///
    /// # Errors
    ///
    /// Returns an error if the worker has ended, does not answer, or has no such path.
    pub fn watch(&self, path: PathId) -> Result<ClampSnapshot, Unanswered> {
        self.ask(path, |path, done| Command::Watch { path, done })?
            .ok_or(Unanswered::NoSuchPath)
    }

    /// Clamps these, and frees those that have no limit, until the next call or for
    /// [`LIMIT_LIFETIME`](crate::window_clamp::LIMIT_LIFETIME).
    ///
    /// # Errors
    ///
    /// Returns an error if the worker has ended, does not answer, or has no such path.
    pub fn clamp(&self, path: PathId, limits: Vec<(Ends, Option<Limit>)>) -> Result<(), Unanswered> {
        let known = self.ask(path, |path, done| Command::Hold { path, limits, done })?;
        if known {
            Ok(())
        } else {
            Err(Unanswered::NoSuchPath)
        }
    }

    /// Drops what a path has queued and on its wire ([`Reason::Flushed`]), and forgets the
    /// connections that it clamps, as if the worker had been started anew. Its settings stay.
    ///
    /// # Errors
    ///
    /// Returns an error if the worker has ended, does not answer, or has no such path.
    ///
    /// [`Reason::Flushed`]: engine::discipline::Reason::Flushed
    pub fn restart(&self, path: PathId) -> Result<(), Unanswered> {
        let known = self.ask(path, |path, done| Command::Restart { path, done })?;
        known.then_some(()).ok_or(Unanswered::NoSuchPath)
    }

    /// What a path has carried. With a `rate`, it is shaped to that from now on: its tree, which is
    /// of the policy's bandwidth, stays as it is.
    ///
    /// # Errors
    ///
    /// Returns an error if the worker has ended, does not answer, or has no such path.
    pub fn shape(&self, path: PathId, rate: Option<Bandwidth>) -> Result<PathCarried, Unanswered> {
        self.ask(path, |path, done| Command::Shape { path, rate, done })?
            .ok_or(Unanswered::NoSuchPath)
    }

    /// Echo requests and answers with these [identifiers](crate::echo::Echo::idents) pass a path
    /// before what is queued: they are to tell of another queue.
    ///
    /// # Errors
    ///
    /// Returns an error if the worker has ended, does not answer, or has no such path.
    pub fn pass_probes(&self, path: PathId, idents: Vec<u16>) -> Result<(), Unanswered> {
        let known = self.ask(path, |path, done| Command::PassProbes { path, idents, done })?;
        known.then_some(()).ok_or(Unanswered::NoSuchPath)
    }

    /// These are promised to classes of the plan in force from now on: every departure is held
    /// against its promise. A promise ends with its class.
    ///
    /// # Errors
    ///
    /// Returns an error if the worker has ended, does not answer, or has no such path.
    pub fn promise(&self, path: PathId, promises: &[ClassPromise]) -> Result<(), Unanswered> {
        for few in promises.chunks(PROMISES) {
            let promises = few.to_vec();
            let known = self.ask(path, |path, done| Command::Promise { path, promises, done })?;
            known.then_some(()).ok_or(Unanswered::NoSuchPath)?;
        }
        Ok(())
    }

    /// Ends the worker cleanly: its disciplines are switched off, what is queued is sent, for half
    /// a second at most, and what is left then is dropped and counted ([`Reason::Flushed`]).
    ///
    /// [`Reason::Flushed`]: engine::discipline::Reason::Flushed
    pub fn stop(&self) {
        self.end(|| Command::Stop);
    }

    /// Ends the worker after the present batch; what is queued is gone.
    pub fn abort(&self) {
        self.end(|| Command::Abort);
    }

    fn end(&self, command: impl Fn() -> Command) {
        for line in self.workers.iter() {
            // If the command cannot be sent, the worker has ended already.
            let _ = line.tell(command());
        }
    }
}

/// A worker at an instant.
#[derive(Clone, Debug)]
pub struct WorkerSnapshot {
    /// When.
    pub at: Instant,
    /// The paths, by [`PathId`].
    pub paths: Vec<PathView>,
    /// The ports, by [`PortId`].
    pub ports: Vec<PortView>,
    /// The small and the big slots.
    pub pool: [PoolUsage; 2],
    /// The loop's own numbers.
    pub turns: Turns,
}

impl WorkerSnapshot {
    /// One snapshot of several workers, whose paths and ports are numbered one worker after the
    /// other; `None` of none.
    pub fn joined(all: impl IntoIterator<Item = Self>) -> Option<Self> {
        all.into_iter().reduce(|mut whole, next| {
            let shift = whole.ports.len();
            whole.paths.extend(next.paths.into_iter().map(|mut path| {
                path.from.0 += shift;
                path.to.0 += shift;
                path
            }));
            whole.ports.extend(next.ports);
            for (usage, more) in whole.pool.iter_mut().zip(next.pool) {
                *usage += more;
            }
            whole.turns += next.turns;
            whole.at = whole.at.max(next.at);
            whole
        })
    }
}

/// Why a worker leaves traffic to the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aside {
    /// A port does not work.
    Port,
    /// There has been no free slot for frames for some time.
    Memory,
    /// Another program has taken over.
    HandedOver,
}

impl fmt::Display for Aside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Port => "a port does not work",
            Self::Memory => "no memory for frames is free",
            Self::HandedOver => "another program has taken over",
        })
    }
}

/// A path at an instant.
#[derive(Clone, Debug)]
pub struct PathView {
    /// Its name.
    pub name: String,
    /// The port that packets come from.
    pub from: PortId,
    /// The port that they go to.
    pub to: PortId,
    /// Whether its discipline is on.
    pub enabled: bool,
    /// The kind of its discipline.
    pub kind: &'static str,
    /// The bandwidth of its link, if it has one.
    pub bandwidth: Option<Bandwidth>,
    /// By what it classifies, if that can be told.
    pub classifies_by: Option<ClassifiesBy>,
    /// What was offered, sent and dropped since the path was made, over all its trees.
    pub totals: Stats,
    /// The present tree: first as a whole, then class by class. Its counts begin when it was built;
    /// packets that were moved into another tree count as flushed.
    pub views: Vec<View>,
    /// What left, class by class.
    pub classes: Vec<ClassMeter>,
    /// Backlog outside the discipline, to be sent first: after it was switched off.
    pub bypass: Count,
    /// How late packets left that had to wait for their due time.
    pub lateness: Delays,
    /// Super-frames that were split, and segments they became.
    pub split: (u64, u64),
    /// What has befallen packets on its wire, if the worker models one.
    pub impaired: Option<ImpairmentCounts>,
    /// How its realiser does, if it has one.
    pub realised: Option<Realised>,
}

/// A realiser and how well it did.
#[derive(Clone, Debug)]
pub struct Realised {
    /// Its name.
    pub by: &'static str,
    /// How well packets started at their times.
    pub achieved: Achieved,
}

/// A port at an instant.
#[derive(Clone, Debug)]
pub struct PortView {
    /// Its interface.
    pub name: String,
    /// What it can do.
    pub capabilities: Capabilities,
    /// What has passed.
    pub counters: Counters,
    /// Why it does not work, if it does not.
    pub error: Option<String>,
    /// Whether [frames pass it by](crate::port::Port::bypassed), though it works.
    pub bypassed: bool,
    /// How often it failed.
    pub failures: u64,
    /// Frames that it has taken and could not send yet.
    pub unsent: usize,
    /// Why the kernel forwards in place of the worker what arrives here, if it does because
    /// something is broken.
    pub aside: Option<Aside>,
}

impl PortView {
    /// Why frames do not go through it, if they do not.
    pub fn trouble(&self) -> Option<String> {
        let why = "a program that hands frames to suimon was detached by another: start suimon anew";
        let bypassed = || self.bypassed.then(|| format!("{}: {why}", self.name));
        self.error.clone().or_else(bypassed)
    }
}

/// The loop's own numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Turns {
    /// Turns of the loop.
    pub turns: u64,
    /// Time it slept.
    pub asleep: Duration,
    /// Time it spun, waiting for a due time.
    pub spun: Duration,
    /// Lapses: how often the process was stopped for so long that the kernel took over.
    pub lapses: u64,
    /// How often and how long the host let it wait longer than it was to.
    pub held_up: HoldUps,
    /// Whether it runs under `SCHED_FIFO`: configured, and permitted.
    pub realtime: bool,
}

impl AddAssign for Turns {
    fn add_assign(&mut self, other: Self) {
        self.turns += other.turns;
        self.asleep += other.asleep;
        self.spun += other.spun;
        self.lapses += other.lapses;
        self.held_up += other.held_up;
        self.realtime &= other.realtime;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::SimulatedTime;
    use std::sync::{Mutex, PoisonError};

    /// A worker that switches after a time, and answers other questions at once, until it hangs.
    #[derive(Debug)]
    struct Busy {
        state: Mutex<(Receiver<Command>, Vec<Done<bool>>, u64)>,
        unanswered: Mutex<Vec<Done<bool>>>,
        switches_at: u64,
        hangs_at: u64,
    }

    impl SimulatedTime for Busy {
        fn now(&self) -> Instant {
            let (.., seconds) = &*self.state.lock().unwrap_or_else(PoisonError::into_inner);
            Instant::START + Duration::from_secs(*seconds)
        }

        fn now_ms(&self) -> u64 {
            0
        }

        fn pass(&self) {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let (inbox, switches, seconds) = &mut *state;
            *seconds += 1;
            if *seconds >= self.hangs_at {
                return;
            }
            for command in inbox.try_iter() {
                match command {
                    Command::Switch { done, .. } => switches.push(done),
                    Command::Present { done, .. } => done.send(None),
                    Command::Restart { done, .. } => self.unanswered.lock().expect("alone").push(done),
                    other => panic!("{other:?}"),
                }
            }
            if *seconds >= self.switches_at {
                for done in switches.drain(..) {
                    done.send(true);
                }
            }
        }
    }

    fn busy(switches_at: u64, hangs_at: u64) -> (Handle, Arc<Busy>) {
        let (handle, inbox) = Handle::new(Arc::new(Bell::new().expect("a descriptor")));
        let state = Mutex::new((inbox, Vec::new(), 0));
        let busy = Arc::new(Busy {
            state,
            unanswered: Mutex::default(),
            switches_at,
            hangs_at,
        });
        (
            handle.in_time(CallerTime::simulated(Arc::clone(&busy) as _)),
            busy,
        )
    }

    #[test]
    fn what_takes_long_is_waited_for_while_the_worker_answers() {
        let (handle, time) = busy(600, u64::MAX);
        assert_eq!(handle.switch(PathId(0), false), Ok(()));
        assert_eq!(time.now(), Instant::START + Duration::from_secs(600));
        // One that does not answer in time is not at work.
        let (handle, time) = busy(600, 100);
        assert_eq!(handle.switch(PathId(0), false), Err(Unanswered::Silent));
        assert!(
            time.now() <= Instant::START + Duration::from_secs(112),
            "{:?}",
            time.now()
        );
        // What waits for nothing has its answer at once, or none.
        let (handle, time) = busy(600, u64::MAX);
        assert_eq!(handle.restart(PathId(0)), Err(Unanswered::Silent));
        assert!(
            time.now() <= Instant::START + Duration::from_secs(6),
            "{:?}",
            time.now()
        );
    }
}
