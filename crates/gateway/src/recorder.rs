//! The flight recorder: what passed an interface lately, in a ring of bounded size, from which it
//! can be done again.
//!
//! The packet loop writes a [tape](netio::replay::tape); a thread keeps it. A tape can be done
//! again from where the path takes a tree of a known seed: there a new *stretch* begins. The first
//! begins at once, and what is queued is queued again, in the order in which the former tree hands
//! it over; the others begin when nothing is queued. When the ring is full the oldest stretch goes.
//! So that a discipline seldom forgets what it has learnt, a new one is asked for only when the
//! last has an eighth of the ring.
//!
//! Where the queue never is empty for as long as the ring lasts, there is no such place, and
//! nothing can be forgotten: then the older part of the stretch is kept [in short
//! form](stretch), without headers. When three quarters of the ring are that, it has no room any
//! more: it stays as it is, and later packets are left out until the queue is empty.

mod stretch;

use crate::change_log::ChangeLog;
use crate::direction::secret_seed;
use crate::in_force::{InForce, InterfaceInForce, refused};
use crate::recording;
use control::difference::GenerationView;
use control::policy::InterfacePolicy;
use control::protocol::Refusal;
use control::recorded::{RecordedSignalling, RecordingFile, RecordingHead, Stretch};
use engine::discipline::DetachedQueue;
use engine::random::Seed;
use engine::units::Instant;
use measure::numbers;
use netio::beside::ThreadBeside;
use netio::clock;
use netio::handle::{Handle, TapeWish};
use netio::replay::event;
use netio::replay::tape::{BeginsAnew, Read, Rebase, TapeReader, Taped, tape};
use netio::worker::PathId;
use std::collections::VecDeque;
use std::fmt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use stretch::RingStretch;

/// How often the tape is looked at: in this time 400 MB/s of it wait, and no more.
const LOOK: Duration = Duration::from_millis(20);
/// Stretches in a full ring, about.
const STRETCHES: usize = 8;
/// The part of the ring that keeps headers at least: one in so many.
const WHOLE: usize = 4;

/// Records what passes an interface, until it is dropped.
pub(crate) struct Recorder {
    ring: Arc<Mutex<Ring>>,
    thread: Option<ThreadBeside>,
    in_force: Arc<InForce>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

/// A tree with which a stretch is to begin.
struct Offered {
    policy: Arc<InterfacePolicy>,
    seed: Seed,
    changes: u64,
}

/// What a tree that begins a stretch has replaced, to be dropped here.
type FormerTree = Box<dyn DetachedQueue>;

struct Ring {
    handle: Handle,
    path: PathId,
    interface: String,
    log: Arc<ChangeLog>,
    reader: TapeReader,
    limit: usize,
    stretches: VecDeque<RingStretch>,
    offered: Option<Offered>,
    /// Whether the tape's own beginning was seen, where disciplines are in the midst of things.
    began: bool,
    full: Option<Instant>,
    over: Option<&'static str>,
    former: (Sender<FormerTree>, Receiver<FormerTree>),
}

impl Recorder {
    /// Records this interface in a ring of so many bytes.
    pub(crate) fn begin(
        handle: &Handle,
        in_force: &Arc<InForce>,
        managed: &InterfaceInForce,
        limit: usize,
    ) -> Result<Self, Refusal> {
        let (writer, reader) = tape();
        let (name, path) = (managed.policy.name.clone(), managed.path);
        let log = in_force.log_changes(path, || {
            match handle.tape(path, TapeWish::Start(writer)).map_err(refused)? {
                Taped::Done { changes, .. } => Ok(changes),
                Taped::Taken => Err(Refusal {
                    message: format!("{name} has a shadow or a recording"),
                    help: Some("wait until it ends, or end it: suimon record stop".into()),
                }),
                Taped::NotOfThisPath | Taped::Stale => Err(Refusal::new(format!(
                    "{name} is paced by gap frames: what leaves depends on the wire, which no tape has"
                ))),
            }
        })?;
        let mut ring = Ring {
            handle: handle.clone(),
            path,
            interface: managed.policy.name.clone(),
            log,
            reader,
            limit,
            stretches: VecDeque::new(),
            offered: None,
            began: false,
            full: None,
            over: None,
            former: channel(),
        };
        ring.keep();
        let ring = Arc::new(Mutex::new(ring));
        let kept = Arc::clone(&ring);
        let thread = ThreadBeside::start("recorder", move |ended| {
            while !ended() {
                lock(&kept).keep();
                std::thread::sleep(LOOK);
            }
        });
        let mut recorder = Self {
            ring,
            thread: None,
            in_force: Arc::clone(in_force),
        };
        recorder.thread = Some(thread.map_err(|why| Refusal::new(format!("no thread for it: {why}")))?);
        Ok(recorder)
    }

    /// What is in the ring, as a file.
    pub(crate) fn save(
        &self,
        generations: Vec<GenerationView>,
        signalling: Option<(RecordedSignalling, Vec<u8>)>,
    ) -> Result<RecordingFile, Refusal> {
        let mut ring = lock(&self.ring);
        ring.flush();
        // What RSVP did is worth a file without a packet too.
        if signalling.is_none() {
            ring.has_some()?;
        }
        let (head, tape) = ring.save(generations);
        drop(ring);
        recording::file(head, tape, signalling)
    }

    /// How much is in the ring, in words.
    pub(crate) fn state(&self) -> String {
        lock(&self.ring).state()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        drop(self.thread.take());
        let path = lock(&self.ring).stop();
        self.in_force.forget_changes(path);
    }
}

fn lock(ring: &Mutex<Ring>) -> MutexGuard<'_, Ring> {
    ring.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ring {
    fn stop(&self) -> PathId {
        // If the loop has ended, so has the tape.
        let _ = self.handle.tape(self.path, TapeWish::Stop);
        self.path
    }

    /// Keeps what was written, and asks for a new stretch where one is due.
    fn keep(&mut self) {
        self.take_written();
        self.former.1.try_iter().for_each(drop);
        if self.over.is_some() || !self.is_due() {
            return;
        }
        // One that was offered before a change is taken before it or never.
        if self.offered.is_some() {
            self.flush();
            if !self.is_due() {
                return;
            }
        }
        let (changes, policy) = self.log.present();
        let seed = secret_seed();
        let rebase = Rebase {
            when: match self.stretches.is_empty() {
                true => BeginsAnew::AtOnce,
                false => BeginsAnew::WhenEmpty,
            },
            queue: policy.plan.build(seed),
            changes,
            former: self.former.0.clone(),
        };
        if let Ok(Taped::Done { .. }) = self.handle.tape(self.path, TapeWish::Rebase(rebase)) {
            self.offered = Some(Offered {
                policy,
                seed,
                changes,
            });
        }
    }

    fn is_due(&self) -> bool {
        let present = self.log.present().0;
        let offered = self.offered.as_ref();
        let large = |last: &RingStretch| last.held() >= self.limit / STRETCHES;
        offered.is_none_or(|offered| offered.changes != present)
            && (self.full.is_some() || self.stretches.back().is_none_or(large))
    }

    fn flush(&mut self) {
        let _ = self.handle.tape(self.path, TapeWish::Flush);
        self.take_written();
    }

    fn take_written(&mut self) {
        while self.over.is_none() {
            match self.reader.read(Duration::ZERO) {
                Read::Chunk(chunk) => self.take(chunk),
                Read::Nothing => return,
                Read::Torn => {
                    self.over = Some("the tape was written faster than it was kept, and tore");
                }
                Read::Ended => self.over = Some("the packet loop has ended"),
            }
        }
    }

    fn take(&mut self, chunk: Vec<u8>) {
        if event::begins(&chunk) && std::mem::replace(&mut self.began, true) {
            self.begin_stretch();
        }
        let room = self.full.is_none();
        let Some(last) = self.stretches.back_mut().filter(|_| room) else {
            return self.reader.give_back(chunk);
        };
        last.push(chunk);
        while self.held() > self.limit {
            if self.stretches.len() > 1 {
                self.forget_oldest();
            } else if !self.shorten() {
                self.full = Some(clock::now());
                return;
            }
        }
    }

    fn held(&self) -> usize {
        self.stretches.iter().map(RingStretch::held).sum()
    }

    /// Makes room where nothing can be forgotten, if there is enough to shorten.
    fn shorten(&mut self) -> bool {
        let limit = self.limit;
        let only = self.stretches.front_mut();
        let enough = only.filter(|only| only.whole() > limit / WHOLE);
        let Some(chunk) = enough.and_then(RingStretch::shorten) else {
            return false;
        };
        // One that is being written into a file goes with that.
        if let Ok(chunk) = Arc::try_unwrap(chunk) {
            self.reader.give_back(chunk);
        }
        true
    }

    fn begin_stretch(&mut self) {
        let Some(offered) = self.offered.take() else {
            return;
        };
        self.full = None;
        self.stretches
            .push_back(RingStretch::new(offered.policy, offered.seed, offered.changes));
    }

    fn forget_oldest(&mut self) {
        let Some(oldest) = self.stretches.pop_front() else {
            return;
        };
        oldest
            .into_chunks()
            .for_each(|chunk| self.reader.give_back(chunk));
        let first = self.stretches.front().map(|stretch| stretch.first_change);
        self.log.forget(first.unwrap_or(0));
    }

    fn state(&self) -> String {
        let Self { interface, limit, .. } = self;
        let [held, limit] = [self.held(), *limit].map(|bytes| numbers::bytes(bytes as u64));
        let over = self
            .over
            .map_or_else(String::new, |why| format!("; it is over: {why}"));
        format!("{interface}: {held} of {limit} are in use{over}")
    }

    /// That something is recorded, or why not.
    fn has_some(&self) -> Result<(), Refusal> {
        if !self.stretches.iter().all(RingStretch::is_empty) {
            return Ok(());
        }
        Err(Refusal {
            message: format!("nothing of {} is recorded yet", self.interface),
            help: Some(match self.over {
                Some(why) => why.into(),
                None => "it begins when the discipline is on, and what passed by it has left".into(),
            }),
        })
    }

    fn save(&self, generations: Vec<GenerationView>) -> (RecordingHead, RecordingFile) {
        let nexts = self.stretches.iter().skip(1).map(|next| Some(next.first_change));
        let stretches = self.stretches.iter().zip(nexts.chain([None]));
        let form = |(stretch, next): (&RingStretch, Option<u64>)| -> Stretch {
            let changes = self.log.between(stretch.first_change, next);
            stretch.form(changes.iter().map(|change| change.form()).collect())
        };
        let head = RecordingHead {
            full_ns: self.full.map(Instant::nanos),
            stretches: stretches.map(form).collect(),
            ..recording::empty_head(&self.interface, generations)
        };
        let chunks = self.stretches.iter().flat_map(RingStretch::parts);
        (head, RecordingFile(chunks.cloned().collect()))
    }
}
