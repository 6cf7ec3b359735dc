//! Executes the requests of the control socket on a running worker.
//!
//! The worker never blocks on a request. A change of a class is first checked as part of the
//! whole tree, so an invalid one is refused and nothing changes.

use super::autorate::AutorateGauges;
use super::changes::{AppliedFile, Changed, PolicyChanges};
use super::enforced::Enforcement;
use super::expected::Expected;
use super::in_force::{InForce, InterfaceInForce, refuse_behind, refuse_varying, refused};
use super::yielding::YieldGauges;
use crate::confined::Sandbox;
use crate::experience::{ExperienceReader, ExperienceReaders};
use crate::hand_over::{self, LeavingPlace, TakenBy};
use crate::promises_kept;
use crate::quotas::{Carrying, Counters, Quotas};
use crate::realise;
use crate::recorder::Recorder;
use crate::recording::{self, RING};
use crate::shadow::shadow;
use crate::signalling::speaker;
use control::difference::{Applied, Breaking, Difference, GenerationView};
use control::explained::{self, ExplainRequest, Explained};
use control::hand_over::HandingOver;
use control::policy::InterfacePolicy;
use control::protocol::{Amendment, HandOverOffer, Refusal, SettingChanges, UsedUp};
use control::provenance::Provenance;
use control::recorded::RecordingFile;
use control::reservation::Reservations;
use control::snapshot::{BORROWED, ClassReading, FrameCounts, InterfaceReading, NatView, Reading, State};
use control::socket::{Handler, no_rsvp};
use control::what_if::ShadowReport;
use engine::packet::ClassId;
use engine::units::Instant;
use netio::handle::{Handle, PathView, PortView, Wanted, WorkerSnapshot};
use netio::inspection::Detail;
use netio::nat::NatTable;
use netio::pool::PoolUsage;
use netio::worker::PortId;
use std::collections::BTreeMap;
use std::mem::take;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often to look whether whoever asked for a recording still waits for it.
const LOOK: Duration = Duration::from_millis(50);

/// The running program behind its control socket.
#[derive(Debug)]
pub struct ControlService {
    name: String,
    begin: Instant,
    handle: Handle,
    in_force: Arc<InForce>,
    changes: Arc<PolicyChanges>,
    enforcement: Arc<Enforcement>,
    expected: Arc<Expected>,
    speaker: Option<speaker::SpeakerHandle>,
    yielding: YieldGauges,
    autorate: AutorateGauges,
    quotas: Quotas,
    detach: Arc<AtomicBool>,
    /// The policy's file, and whether rights were given up.
    begun: (Option<PathBuf>, Sandbox),
    taken_by: TakenBy,
    unconfined: Vec<String>,
    experience: ExperienceReaders,
    /// The connections of hosts behind this one, where a policy has `nat`.
    behind: Option<Arc<NatTable>>,
    /// What did not run as it was asked after the last change, by interface.
    unlike: Mutex<BTreeMap<String, String>>,
    /// What is recorded, by interface.
    recorders: Mutex<BTreeMap<String, Recorder>>,
}

impl ControlService {
    /// Serves the policies in force in this worker. `detach` is set when the program is to end.
    pub fn new(
        name: &str,
        handle: Handle,
        in_force: Arc<InForce>,
        changes: Arc<PolicyChanges>,
        speaker: Option<speaker::SpeakerHandle>,
        yielding: YieldGauges,
        detach: Arc<AtomicBool>,
    ) -> Self {
        let quotas = Quotas::new(changes.port().cloned(), changes.kept_quotas());
        Self {
            name: name.into(),
            begin: handle.time().now(),
            handle,
            in_force,
            changes,
            enforcement: Arc::default(),
            expected: Arc::default(),
            speaker,
            yielding,
            autorate: AutorateGauges::default(),
            quotas,
            detach,
            begun: (None, Sandbox::default()),
            taken_by: TakenBy::default(),
            unconfined: Vec::new(),
            experience: ExperienceReaders::new(),
            behind: None,
            unlike: Mutex::default(),
            recorders: Mutex::default(),
        }
    }

    /// The same of a program that was begun with this file: one that takes its place is begun so.
    #[must_use]
    pub fn begun(self, file: Option<&Path>, sandbox: Sandbox) -> Self {
        Self {
            begun: (file.map(Path::to_path_buf), sandbox),
            ..self
        }
    }

    /// The process that has taken this one's place.
    pub(crate) fn taken_by(&self) -> Option<i32> {
        self.taken_by.process()
    }

    /// The same, which also shows what could not be taken away from the program.
    #[must_use]
    pub fn unconfined(self, unconfined: Vec<String>) -> Self {
        Self { unconfined, ..self }
    }

    /// The same, which also shows how rates follow their lines.
    #[must_use]
    pub fn following(self, autorate: AutorateGauges) -> Self {
        Self { autorate, ..self }
    }

    /// The same, which also shows what is measured of the connections that pass, and what is known
    /// of those of hosts behind this one.
    #[must_use]
    pub fn connections(self, experience: ExperienceReaders, behind: Option<Arc<NatTable>>) -> Self {
        Self {
            experience,
            behind,
            ..self
        }
    }

    /// The same, which also shows whether what runs has effect, and what it is expected to keep.
    #[must_use]
    pub fn watching(self, enforcement: Arc<Enforcement>, expected: Arc<Expected>) -> Self {
        Self {
            enforcement,
            expected,
            ..self
        }
    }

    fn read_to(&self, detail: Detail) -> Result<Reading, Refusal> {
        let mut snapshot = self.handle.inspect_to(detail).map_err(refused)?;
        let interfaces = self
            .in_force
            .all()
            .iter()
            .filter_map(|managed| reading(managed, &mut snapshot, self))
            .collect();
        Ok(Reading {
            at: Instant::START + snapshot.at.since(self.begin),
            policy: self.name.clone(),
            interfaces,
            unconfined: self.unconfined.clone(),
        })
    }

    /// Counts what classes with quotas have carried, and sets what their policy states for those
    /// that have used theirs up.
    pub(crate) fn look_at_quotas(&self) {
        let managed = self.in_force.all();
        if managed.iter().all(|managed| managed.policy.quotas.is_empty()) {
            return;
        }
        let (carrying, time) = (carrying(&managed), self.handle.time());
        self.count_quotas(&carrying, &Counters::Running(&self.handle));
        let (made_of, whole) = self.changes.standing();
        let is_set = |used_up: &UsedUp| made_of.has_used_up(used_up);
        for used_up in self.quotas.used_up(&carrying, time.now(), whole, is_set) {
            let done = self.changes.use_up(&used_up);
            let done = done.map(|changed| self.verified(&used_up.interface, changed));
            let done = told("quota", &Provenance::default(), done);
            self.quotas
                .was_set(&used_up, done.map(|_| whole).map_err(|_| time.now()));
        }
        self.write_quotas(false);
    }

    /// Counts what left before the end of all workers, and keeps it.
    pub(crate) fn end_quotas(&self, last: &WorkerSnapshot) {
        self.count_quotas(&carrying(&self.in_force.all()), &Counters::Ended(last));
        self.write_quotas(true);
    }

    /// Counts what has left until now, and keeps it.
    fn keep_quotas(&self) {
        self.count_quotas(&carrying(&self.in_force.all()), &Counters::Running(&self.handle));
        self.write_quotas(true);
    }

    fn count_quotas(&self, carrying: &[Carrying<'_>], counters: &Counters<'_>) {
        self.quotas.count(carrying, counters, self.handle.time().now_ms());
    }

    fn write_quotas(&self, at_end: bool) {
        let keep = |counted: &[u8]| self.changes.keep_quotas(counted);
        self.quotas.write(self.handle.time().now(), at_end, keep);
    }

    /// Looks whether what is in force runs as it was asked and has effect, after a change. What is
    /// not so is logged, and said here; `status` says so until the next change.
    pub(crate) fn verify(&self) -> Vec<String> {
        let unlike = self.in_force.unlike().unwrap_or_default();
        // Told first: until all of it is known, `status` says what it said before.
        let unlike = unlike.into_iter().filter_map(told_unlike).collect();
        *self.unlike() = unlike;
        self.not_enforced(|_| true)
    }

    /// The same of an interface, on which that was changed.
    fn verify_changed(&self, interface: &str, changed: &Changed) -> Vec<String> {
        let Some(class) = changed.alone else {
            return self.verify();
        };
        self.look_at_class(interface, class);
        self.not_enforced(|name| name == interface)
    }

    /// Looks whether this class alone runs as it was asked.
    fn look_at_class(&self, interface: &str, class: ClassId) {
        let found = self.in_force.unlike_in_class(interface, class);
        let told = told_unlike((interface.into(), found.unwrap_or_default()));
        self.unlike().extend(told);
    }

    /// What was done on an interface, and what of that is not so.
    fn verified(&self, interface: &str, changed: Changed) -> String {
        let not_so = self.verify_changed(interface, &changed);
        with_lines(changed.message, not_so)
    }

    /// A file's policy that was put into force, and what of that is not so.
    pub(crate) fn verified_file(&self, done: AppliedFile) -> Applied {
        let mut applied = done.applied;
        // What was not so before is looked at again.
        let alone = done.alone.filter(|_| self.unlike().is_empty());
        applied.difference.not_enforced = match alone {
            Some((interface, class)) => {
                self.look_at_class(&interface, class);
                self.not_enforced(|_| true)
            }
            None => self.verify(),
        };
        applied
    }

    /// Which of these interfaces are not enforced, and why.
    fn not_enforced(&self, of: impl Fn(&str) -> bool) -> Vec<String> {
        let reading = match self.read_to(Detail::Paths) {
            Ok(reading) => reading,
            Err(why) => return vec![format!("whether it is enforced is not known: {why}")],
        };
        let interfaces = reading.interfaces.into_iter();
        interfaces
            .filter(|interface| of(&interface.policy.name))
            .filter_map(|interface| {
                let why = interface.not_enforced?;
                Some(format!("{}: NOT ENFORCED: {why}", interface.policy.name))
            })
            .collect()
    }

    fn unlike(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.unlike.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The named interface, or the only one.
    fn only(&self, interface: Option<&str>) -> Result<InterfaceInForce, Refusal> {
        let mut chosen = self.chosen(interface)?;
        match (chosen.pop(), chosen.is_empty()) {
            (Some(only), true) => Ok(only),
            (last, _) => Err(Refusal {
                message: format!("{} are managed", names(&self.chosen(interface)?)),
                help: last.map(|_| "name one with --interface".into()),
            }),
        }
    }

    /// The same changes with the interface and the class that are meant: what is named in the place
    /// of an interface may be a class of the only one that has it.
    fn meant(&self, wanted: &SettingChanges) -> Result<SettingChanges, Refusal> {
        let all = self.in_force.all();
        if all.iter().any(|managed| managed.policy.name == wanted.interface) {
            return Ok(wanted.clone());
        }
        let class = match (&wanted.class, &*wanted.interface) {
            (None, "") => {
                let interface = self.only(None)?.policy.name;
                return Ok(SettingChanges {
                    interface,
                    ..wanted.clone()
                });
            }
            (None, word) => word,
            (Some(class), "") => class,
            (Some(_), unknown) => {
                self.chosen(Some(unknown))?;
                unknown
            }
        };
        let names = all
            .iter()
            .filter(|managed| managed.policy.plan.class(class).is_some());
        let names: Vec<&str> = names.map(|managed| managed.policy.name.as_str()).collect();
        match names[..] {
            [interface] => Ok(SettingChanges {
                interface: interface.into(),
                class: Some(class.into()),
                ..wanted.clone()
            }),
            [] if wanted.interface.is_empty() => Err(Refusal::new(format!(
                "no managed interface has a class `{class}`"
            ))),
            [] => self.chosen(Some(class)).map(|_| wanted.clone()),
            _ => Err(Refusal::ambiguous_class(class, &names)),
        }
    }

    /// What is recorded.
    fn recorders(&self) -> MutexGuard<'_, BTreeMap<String, Recorder>> {
        self.recorders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The named interface, or all.
    fn chosen(&self, interface: Option<&str>) -> Result<Vec<InterfaceInForce>, Refusal> {
        let all = self.in_force.all();
        let Some(name) = interface else { return Ok(all) };
        let names: Vec<String> = all.iter().map(|managed| managed.policy.name.clone()).collect();
        let found: Vec<InterfaceInForce> = all
            .into_iter()
            .filter(|managed| managed.policy.name == name)
            .collect();
        if found.is_empty() {
            let names = names.iter().map(String::as_str);
            return Err(engine::settings::unknown("interface", name, Default::default(), names).into());
        }
        Ok(found)
    }
}

/// Logs in what an interface does not run as it was asked, if in anything; the interface, and why.
fn told_unlike((interface, found): (String, Vec<String>)) -> Option<(String, String)> {
    let why = format!("what runs is not what was asked: {}", found.join("; "));
    (!found.is_empty()).then(|| {
        tracing::error!(interface, "{interface}: not enforced: {why}");
        (interface, why)
    })
}

/// What was done, and more lines below it.
fn with_lines(done: String, lines: Vec<String>) -> String {
    lines.into_iter().fold(done, |done, line| done + "\n" + &line)
}

/// Logs what became of a client's request for a change.
fn log_request(verb: &'static str, by: &Provenance, done: Result<&str, &Refusal>) {
    let title = format!("{verb} {by}");
    let (title, author, reason) = (title.trim_end(), by.author.as_deref(), by.reason.as_deref());
    match done {
        Ok(message) => tracing::info!(request = verb, author, reason, "{title}: {message}"),
        Err(why) => tracing::info!(request = verb, author, reason, "{title}: refused: {why}"),
    }
}

/// The same for one that is answered in words.
fn told(verb: &'static str, by: &Provenance, done: Result<String, Refusal>) -> Result<String, Refusal> {
    log_request(verb, by, done.as_deref());
    done
}

impl Handler for ControlService {
    fn version(&self) -> String {
        env!("CARGO_PKG_VERSION").into()
    }

    fn read(&self) -> Result<Reading, Refusal> {
        self.read_to(Detail::Everything)
    }

    fn read_brief(&self) -> Result<Reading, Refusal> {
        let yields = |managed: &InterfaceInForce| !managed.policy.yields.is_empty();
        // Of classes that yield, all gauges are shown.
        self.read_to(match self.in_force.all().iter().any(yields) {
            true => Detail::Everything,
            false => Detail::Counters(&[BORROWED]),
        })
    }

    fn read_departures(&self) -> Result<Reading, Refusal> {
        self.read_to(Detail::Departures)
    }

    fn status_sent(&self) {
        /// A status of fewer classes leaves some megabytes.
        const MANY: usize = 10_000;
        let classes = |managed: &InterfaceInForce| managed.whole.plan.classes.len();
        if self.in_force.all().iter().map(classes).sum::<usize>() >= MANY {
            netio::heap::give_back();
        }
    }

    fn hand_over(&self) -> Result<Box<dyn HandingOver + '_>, Refusal> {
        if let Some(why) = hand_over::hinders(&self.changes, self.speaker.is_some()) {
            return Err(why);
        }
        let made_of = self.changes.hand_over(true)?;
        let (file, sandbox) = &self.begun;
        let text = |path: &PathBuf| path.to_string_lossy().into_owned();
        let offer = HandOverOffer {
            name: self.name.clone(),
            program: self.version(),
            file: file.as_ref().map(text),
            state: self.changes.folder().as_ref().map(text),
            confined: *sandbox == Sandbox::On,
            policy: made_of.handed_over(),
        };
        let run = (&*self.changes, &self.handle);
        let end = (&self.taken_by, &*self.detach);
        let keep = Box::new(|| self.keep_quotas());
        Ok(Box::new(LeavingPlace::of(keep, run, end, offer)))
    }

    fn switch(&self, interface: Option<&str>, on: bool) -> Result<String, Refusal> {
        let chosen = self.chosen(interface)?;
        for managed in &chosen {
            self.handle.switch(managed.path, on).map_err(refused)?;
        }
        let state = if on {
            "the policy is in force"
        } else {
            "packets pass unmanaged, in order"
        };
        let done = Ok(format!("{}: {state}", names(&chosen)));
        told(
            if on { "enable" } else { "disable" },
            &Provenance::default(),
            done,
        )
    }

    fn detach(&self, interface: Option<&str>) -> Result<String, Refusal> {
        let chosen = self.chosen(interface)?;
        if chosen.len() < self.in_force.all().len() {
            let message = format!("{} is managed together with other interfaces", names(&chosen));
            return Err(Refusal {
                message,
                help: Some("disable it, or detach without naming an interface".into()),
            });
        }
        self.detach.store(true, Ordering::Relaxed);
        Ok(format!(
            "{}: handed back to the kernel; suimon ends",
            names(&chosen)
        ))
    }

    fn set(&self, wanted: &SettingChanges, by: Provenance) -> Result<String, Refusal> {
        let wanted = &self.meant(wanted)?;
        let done = self.changes.set(wanted, by.clone());
        told(
            "set",
            &by,
            done.map(|changed| self.verified(&wanted.interface, changed)),
        )
    }

    fn change_class(&self, wanted: &Amendment, by: Provenance) -> Result<String, Refusal> {
        self.chosen(Some(wanted.interface()))?;
        let done = self.changes.change_class(wanted, by.clone());
        told(
            "class",
            &by,
            done.map(|changed| self.verified(wanted.interface(), changed)),
        )
    }

    fn save(&self, by: Provenance) -> Result<String, Refusal> {
        told("save", &by.clone(), self.changes.save(by))
    }

    fn plan(&self, file: &Path, stop: &dyn Fn() -> bool) -> Result<Difference, Refusal> {
        self.changes.plan(file, stop)
    }

    fn apply(
        &self,
        file: &Path,
        confirm_within: Option<Duration>,
        breaking: Breaking,
        by: Provenance,
        stop: &dyn Fn() -> bool,
    ) -> Result<Applied, Refusal> {
        let done = self
            .changes
            .apply(file, confirm_within, breaking, by.clone(), stop);
        let done = done.map(|done| self.verified_file(done));
        log_request("apply", &by, done.as_ref().map(|applied| &*applied.message));
        done
    }

    fn confirm(&self) -> Result<String, Refusal> {
        told("confirm", &Provenance::default(), self.changes.confirm())
    }

    fn rollback(&self, to: Option<u64>, breaking: Breaking, by: Provenance) -> Result<String, Refusal> {
        let done = self.changes.rollback(to, breaking, by.clone());
        let verified = done.map(|done| with_lines(done, self.verify()));
        told("rollback", &by, verified)
    }

    fn history(&self) -> Result<Vec<GenerationView>, Refusal> {
        Ok(self.changes.history())
    }

    fn policy_text(&self) -> Result<String, Refusal> {
        self.changes.policy_text()
    }

    fn explain(&self, wanted: &ExplainRequest, stop: &dyn Fn() -> bool) -> Result<Explained, Refusal> {
        let chosen = self.chosen(Some(&wanted.interface))?;
        let managed = chosen.first().ok_or_else(|| Refusal::new("nothing is managed"))?;
        if wanted.for_ms == 0 || wanted.for_ms > explained::LONGEST_MS {
            return Err(Refusal {
                message: format!(
                    "packets are recorded for {} s at most",
                    explained::LONGEST_MS / 1000
                ),
                help: Some("name a shorter time".into()),
            });
        }
        let span = engine::units::Duration::from_millis(wanted.for_ms);
        let begin = Wanted {
            class: wanted.class_of(&managed.whole)?,
            drops: wanted.drops,
            keep: wanted.packets,
            since: Instant::START,
            until: self.handle.time().now() + span,
        };
        let begun = self
            .handle
            .begin_explaining(managed.path, begin)
            .map_err(refused)?;
        if !begun {
            return Err(Refusal {
                message: "packets of this interface are recorded for somebody else".into(),
                help: Some("try again when that has ended".into()),
            });
        }
        while !stop() {
            let left = begin.until.since(self.handle.time().now());
            if left == engine::units::Duration::ZERO {
                break;
            }
            self.handle
                .time()
                .sleep(Duration::from_nanos(left.nanos()).min(LOOK));
        }
        let recorded = self.handle.end_explaining(managed.path).map_err(refused)?;
        let recorded = recorded.ok_or_else(|| Refusal::new("the recording is gone"))?;
        let mut now = self.handle.inspect().map_err(refused)?;
        let path = now.paths.get_mut(managed.path.0);
        let views = path.map(|path| take(&mut path.views)).unwrap_or_default();
        Ok(explained::explained(&managed.whole, &recorded, &views))
    }

    fn shadow(
        &self,
        file: &Path,
        interface: Option<&str>,
        span: Duration,
        stop: &dyn Fn() -> bool,
    ) -> Result<ShadowReport, Refusal> {
        let policy = self.changes.policy_in(file)?;
        let managed = &self.only(interface)?;
        let name = &managed.policy.name;
        let new = policy
            .interface(name)
            .ok_or_else(|| Refusal::new(format!("{} has no policy for {name}", file.display())))?;
        refuse_varying(&managed.policy)?;
        refuse_varying(new)?;
        refuse_behind(&managed.policy)?;
        // What is read afterwards has the classes of then.
        let changed = || !self.in_force.runs_still(managed);
        let report = shadow(&self.handle, managed, new, span, &|| changed() || stop())?;
        match changed() {
            false => Ok(report),
            true => Err(Refusal {
                message: format!("what is in force on {name} has changed meanwhile"),
                help: Some("begin again: a shadow is compared with one policy".into()),
            }),
        }
    }

    fn record(&self, interface: Option<&str>, memory: u64) -> Result<String, Refusal> {
        if !RING.contains(&memory) {
            return Err(Refusal {
                message: "a recording has 1 MiB to 1 GiB of memory".into(),
                help: Some("say so with --memory".into()),
            });
        }
        let managed = self.only(interface)?;
        let mut recorders = self.recorders();
        let name = &managed.policy.name;
        if let Some(recorder) = recorders.get(name) {
            return Err(Refusal {
                message: format!("it is recorded already: {}", recorder.state()),
                help: Some("end that with `suimon record stop`, to begin anew".into()),
            });
        }
        let memory = usize::try_from(memory).unwrap_or(usize::MAX);
        let recorder = Recorder::begin(&self.handle, &self.in_force, &managed, memory)?;
        recorders.insert(name.clone(), recorder);
        Ok(format!("{name}: what passes is recorded from now on"))
    }

    fn recorded(&self, interface: Option<&str>) -> Result<RecordingFile, Refusal> {
        let name = self.only(interface)?.policy.name;
        let recorders = self.recorders();
        let signalling = match &self.speaker {
            Some(speaker) => speaker.recorded()?,
            None => None,
        };
        let history = self.changes.history();
        match recorders.get(&name) {
            Some(recorder) => recorder.save(history, signalling),
            // RSVP is on its tape whether packets are recorded or not.
            None if signalling.is_some() => {
                let head = recording::empty_head(&name, history);
                recording::file(head, RecordingFile(Vec::new()), signalling)
            }
            None => Err(not_recorded(&name)),
        }
    }

    fn end_recording(&self, interface: Option<&str>) -> Result<String, Refusal> {
        let name = self.only(interface)?.policy.name;
        let recorder = self.recorders().remove(&name);
        match recorder {
            Some(_) => Ok(format!("{name}: what was recorded is forgotten")),
            None => Err(not_recorded(&name)),
        }
    }

    fn reservations(&self) -> Result<&dyn Reservations, Refusal> {
        self.speaker
            .as_ref()
            .map(|speaker| speaker as &dyn Reservations)
            .ok_or_else(no_rsvp)
    }
}

fn carrying(managed: &[InterfaceInForce]) -> Vec<Carrying<'_>> {
    let all = managed.iter().map(|managed| Carrying {
        policy: &managed.policy,
        plan: &managed.whole.plan,
        path: managed.path,
    });
    all.collect()
}

fn not_recorded(interface: &str) -> Refusal {
    Refusal {
        message: format!("{interface} is not recorded"),
        help: Some("begin with `suimon record start`".into()),
    }
}

fn names(managed: &[InterfaceInForce]) -> String {
    let names: Vec<&str> = managed
        .iter()
        .map(|managed| managed.policy.name.as_str())
        .collect();
    names.join(", ")
}

fn reading(
    managed: &InterfaceInForce,
    snapshot: &mut WorkerSnapshot,
    service: &ControlService,
) -> Option<InterfaceReading> {
    let ControlService {
        yielding,
        enforcement,
        expected,
        ..
    } = service;
    let unlike = service.unlike().get(&managed.policy.name).cloned();
    // A path has one policy.
    let (views, classes) = snapshot
        .paths
        .get_mut(managed.path.0)
        .map(|path| (take(&mut path.views), take(&mut path.classes)))?;
    let snapshot = &*snapshot;
    let path = snapshot.paths.get(managed.path.0)?;
    // Its own errors come before those of the ingress port.
    let [own, ingress] = [path.to, path.from].map(|port| snapshot.ports.get(port.0));
    let trouble = |port: Option<&PortView>| port.and_then(PortView::trouble);
    let aside = ingress.and_then(|port| port.aside);
    let shortage = || aside.map(|why| why.to_string());
    let error = trouble(own).or_else(|| trouble(ingress)).or_else(shortage);
    let mut views = views;
    promises_kept::tell(&classes, &mut views);
    let classes = classes.into_iter().map(|meter| ClassReading {
        class: meter.class,
        sent: meter.sent,
        short: meter.short,
        delays: meter.delays,
        held_up: meter.held_up,
    });
    if let (Some(whole), Some(realised)) = (views.first_mut(), &path.realised) {
        whole.gauges.extend(realise::gauges(realised));
    }
    let yields = !managed.policy.yields.is_empty();
    for view in views.iter_mut().filter(|_| yields) {
        let name = view.class.and_then(|class| managed.whole.plan.info(class));
        let gauges = name.and_then(|info| yielding.of(&managed.policy.name, &info.name));
        view.gauges.extend(gauges.into_iter().flatten());
    }
    let error = error.map(|error| match aside {
        Some(_) => format!("{error}; meanwhile the kernel forwards"),
        None => error,
    });
    let disabled = (!path.enabled).then(|| "it is disabled".to_owned());
    let not_enforced = disabled.or_else(|| error.clone());
    Some(InterfaceReading {
        policy: Arc::clone(&managed.whole),
        state: if path.enabled {
            State::Enabled
        } else {
            State::Disabled
        },
        not_enforced: not_enforced
            .or(unlike)
            .or_else(|| enforcement.reason(&managed.policy.name)),
        error,
        totals: path.totals,
        views,
        classes: classes.collect(),
        frames: frames(path, snapshot),
        hold_ups: snapshot.turns.held_up,
        expectations: expected.of(&managed.policy.name),
        experience: service
            .experience
            .get(&managed.policy.name)
            .map(ExperienceReader::read),
        autorate: service.autorate.of(&managed.policy.name),
        quotas: service.quotas.of(&managed.policy, service.handle.time().now_ms()),
        nat: nat(&managed.policy, service.behind.as_deref()),
    })
}

/// What is known of hosts behind this one, where the policy asks for it and the kernel tells.
fn nat(policy: &InterfacePolicy, behind: Option<&NatTable>) -> Option<NatView> {
    let table = behind.filter(|_| policy.settings.nat)?;
    Some(NatView {
        connections: table.kept(),
        without_room: table.without_room(),
        listed_again: table.listed_again(),
    })
}

/// What became of frames outside the queues of this path.
fn frames(path: &PathView, snapshot: &WorkerSnapshot) -> FrameCounts {
    let port = |id: PortId| snapshot.ports.get(id.0).map(|port| port.counters);
    let (from, to) = (
        port(path.from).unwrap_or_default(),
        port(path.to).unwrap_or_default(),
    );
    let slots = |count: fn(&PoolUsage) -> u64| snapshot.pool.iter().map(count).sum();
    FrameCounts {
        missed: from.missed,
        refused: from.refused,
        unsent: to.dropped,
        exhausted: slots(|usage| usage.exhausted),
        used_slots: slots(|usage| usage.used.into()),
        slots: slots(|usage| usage.total.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::direction;
    use crate::kept::MadeOf;
    use control::policy::Policy;
    use control::protocol::SettingChange;
    use engine::inspect::Value;
    use engine::settings::Raw;
    use engine::tree::Registry;
    use engine::units::Bytes;
    use netio::port::Capabilities;
    use netio::ports::memory::Memory;
    use netio::worker::{Settings, Worker};

    mod asked;
    mod recorded;

    const CLASSES: usize = 200;

    fn text() -> String {
        let class = |n: usize| {
            format!(
                "[[interface.wan0.class]]\nname = \"c{n}\"\ndefault = {}\n",
                n == 0
            )
        };
        let head = "version = 1\n[interface.wan0]\nbandwidth = \"1 Gbit/s\"\ndiscipline = \"drr\"\n";
        format!("{head}{}", (0..CLASSES).map(class).collect::<String>())
    }

    fn drr() -> Policy {
        Policy::read("test", &text(), &Registry::builtin(), &[]).expect("a policy")
    }

    /// A service over a worker that runs this policy between two ports in memory.
    fn served(policy: &Policy) -> (ControlService, Handle, std::thread::JoinHandle<WorkerSnapshot>) {
        let (service, handle, thread, _) = served_between(policy);
        (service, handle, thread)
    }

    /// The service, how its worker is asked, its thread, and the far ends of its ports.
    type Served = (
        ControlService,
        Handle,
        std::thread::JoinHandle<WorkerSnapshot>,
        [Memory; 2],
    );

    fn served_between(policy: &Policy) -> Served {
        let (mut worker, handle) = Worker::new(Settings::default()).expect("a worker");
        let mut port = |name| {
            let able = Capabilities::plain(1500, 64);
            let [near, far] = Memory::pair([name, "far end"], able).expect("a wire");
            (worker.add_port(Box::new(near)), far)
        };
        let ((from, input), (to, output)) = (port("lan0"), port("wan0"));
        let interface = &policy.interfaces[0];
        let path = worker.add_path(direction::managed(interface, from, to));
        let thread = std::thread::spawn(move || worker.run());
        let in_force = InForce::new(handle.clone(), Registry::builtin(), [(path, interface.clone())]);
        let in_force = Arc::new(in_force);
        let changes = PolicyChanges::new(
            Arc::clone(&in_force),
            None,
            policy,
            None,
            MadeOf::text("test", text()),
        )
        .expect("no disk");
        let changes = Arc::new(changes);
        let (none, detach) = (YieldGauges::default(), Arc::default());
        let service = ControlService::new("test", handle.clone(), in_force, changes, None, none, detach);
        (service, handle, thread, [input, output])
    }

    fn set(service: &ControlService, class: usize, weight: i64) -> Result<String, Refusal> {
        set_until(service, class, weight, None)
    }

    fn set_until(
        service: &ControlService,
        class: usize,
        weight: i64,
        until_ms: Option<u64>,
    ) -> Result<String, Refusal> {
        let wanted = SettingChanges {
            interface: "wan0".into(),
            class: Some(format!("c{class}")),
            changes: [("weight".to_owned(), SettingChange::Integer(weight))].into(),
            until_ms,
            reason: None,
        };
        service.set(&wanted, Provenance::default())
    }

    #[test]
    fn changes_that_several_clients_make_at_once_are_all_in_force() {
        let policy = drr();
        let (service, handle, thread) = served(&policy);
        std::thread::scope(|scope| {
            for client in 0..4 {
                let service = &service;
                scope.spawn(move || {
                    let own = (0..CLASSES).filter(|class| class % 4 == client);
                    own.for_each(|class| {
                        set(service, class, 2 + class as i64).expect("a good weight");
                    });
                });
            }
        });
        set(&service, 3, 0).expect_err("no weight");
        let reading = service.read().expect("an answer");
        let interface = &reading.interfaces[0];
        for view in &interface.views[1..] {
            let class = u64::from(view.class.expect("of a class").0);
            let quantum = (
                "quantum",
                Value::Bytes(engine::units::Bytes::new(1514 * (2 + class))),
            );
            assert!(view.gauges.contains(&quantum), "{view:?}");
        }
        // The policy in force says the same as the worker, and so does a check of it.
        let (in_force, registry) = (&interface.policy, Registry::builtin());
        for (class, weight) in in_force.spec.classes.iter().zip(2..) {
            let given = class.settings.get("weight").map(|entry| &entry.value);
            assert_eq!(given, Some(&Raw::Integer(weight)), "{}", class.name);
        }
        let anew = in_force
            .spec
            .check(&registry, in_force.link())
            .expect("a good tree");
        assert_eq!(format!("{:?}", in_force.plan), format!("{anew:?}"));
        handle.stop();
        thread.join().expect("an orderly end");
    }

    #[test]
    fn a_brief_status_says_the_same_though_most_gauges_of_classes_are_not_read_for_it() {
        let text = "version = 1\n[interface.wan0]\nbandwidth = \"1 Gbit/s\"\ndiscipline = \"cbq\"\n\
                    [[interface.wan0.class]]\nname = \"a\"\nrate = \"40 %\"\ndefault = true\n\
                    [[interface.wan0.class]]\nname = \"b\"\nrate = \"30 %\"\n";
        let policy = Policy::read("test", text, &Registry::builtin(), &[]).expect("a policy");
        let (service, handle, thread) = served(&policy);
        let all = service.read().expect("an answer");
        let few = Reading {
            at: all.at,
            ..service.read_brief().expect("an answer")
        };
        let gauges = |reading: &Reading| {
            let views = reading.interfaces[0].views.iter();
            views.map(|view| view.gauges.len()).collect::<Vec<_>>()
        };
        let ([whole, most @ ..], [same, one @ ..]) = (&*gauges(&all), &*gauges(&few)) else {
            panic!("a view of the whole")
        };
        // What a class has not borrowed is neither kept nor said.
        assert_eq!((whole, one), (same, [0, 0].as_slice()));
        assert!(most.iter().all(|gauges| *gauges > 5), "{most:?}");
        let said = |reading: &Reading| {
            let brief = reading.streamed(None, control::snapshot::StatusDetail::Brief);
            serde_json::to_string(&brief).expect("JSON")
        };
        assert_eq!(said(&all), said(&few));
        assert!(!said(&few).contains(BORROWED), "{}", said(&few));
        let mut borrows = all.clone();
        let views = borrows.interfaces[0].views.iter_mut().skip(1);
        for gauge in views
            .flat_map(|view| &mut view.gauges)
            .filter(|gauge| gauge.0 == BORROWED)
        {
            gauge.1 = Value::Bytes(Bytes::new(7));
        }
        for view in &mut borrows.interfaces[0].views {
            *view = view.with_gauges(&[BORROWED]);
        }
        assert_eq!(gauges(&borrows)[1..], [1, 1], "what it has borrowed is kept");
        assert_eq!(
            said(&borrows).matches("\"value\":7").count(),
            2,
            "{}",
            said(&borrows)
        );
        handle.stop();
        thread.join().expect("an orderly end");
    }

    /// The weight of a class in the policy in force; 1 unless it is set.
    fn weight(service: &ControlService, class: usize) -> Option<Raw> {
        let all = service.in_force.all();
        let spec = &all[0].policy.spec.classes[class];
        spec.settings.get("weight").map(|entry| entry.value.clone())
    }

    #[test]
    fn what_is_over_ends_also_where_another_set_comes_before_its_end_is_noticed() {
        let policy = drr();
        let (service, handle, thread) = served(&policy);
        let soon = control::calendar::now_ms() + 200;
        set_until(&service, 1, 9, Some(soon)).expect("a good weight");
        assert_eq!(weight(&service, 1), Some(Raw::Integer(9)));
        assert_eq!(service.changes.settle(), None, "it is not over");
        std::thread::sleep(Duration::from_millis(300));
        set(&service, 2, 5).expect("a good weight");
        let ended = service.changes.settle().expect("it is over");
        let ended = ended.expect("it can be ended");
        assert!(ended.contains("what was set for a time is over"), "{ended}");
        assert_eq!(weight(&service, 1), None);
        assert_eq!(weight(&service, 2), Some(Raw::Integer(5)));
        assert_eq!(service.changes.settle(), None);
        let past = set_until(&service, 1, 9, Some(soon)).expect_err("it is over");
        assert!(past.message.contains("is over already"), "{past}");
        handle.stop();
        thread.join().expect("an orderly end");
    }

    #[test]
    fn a_rollback_undoes_the_last_change_that_counts_and_another_the_one_before() {
        let policy = drr();
        let (service, handle, thread) = served(&policy);
        let weights = || [1, 2].map(|class| weight(&service, class));
        let is = |weight: i64| Some(Raw::Integer(weight));
        set(&service, 1, 5).expect("a good weight");
        set(&service, 2, 7).expect("a good weight");
        let soon = control::calendar::now_ms() + 50;
        set_until(&service, 1, 9, Some(soon)).expect("a good weight");
        std::thread::sleep(Duration::from_millis(100));
        let ended = service.changes.settle().expect("it is over");
        ended.expect("it can be ended");
        let back = || {
            service
                .changes
                .rollback(None, Breaking::Refused, Provenance::default())
        };
        // Neither the set that is over nor its end: both would change nothing.
        let said = back().expect("something to undo");
        assert!(said.contains("generation 2 is in force again, as 6"), "{said}");
        assert_eq!(weights(), [is(5), None]);
        let said = back().expect("something to undo");
        assert!(said.contains("generation 1 is in force again, as 7"), "{said}");
        assert_eq!(weights(), [None, None]);
        let why = back().expect_err("nothing is left");
        assert!(why.message.contains("nothing that was in force before"), "{why}");
        set(&service, 1, 3).expect("a good weight");
        back().expect("something to undo");
        assert_eq!(weights(), [None, None]);
        handle.stop();
        thread.join().expect("an orderly end");
    }

    #[test]
    fn applies_confirms_rollbacks_and_time_outs_at_once_follow_one_another() {
        let policy = drr();
        let (service, handle, thread) = served(&policy);
        let files = [2, 3].map(|weight| {
            let file = std::env::temp_dir().join(format!("suimon-{}-{weight}.toml", std::process::id()));
            let other = |text: String, class: usize| {
                text.replace(
                    &format!("name = \"c{class}\"\n"),
                    &format!("name = \"c{class}\"\nweight = {weight}\n"),
                )
            };
            std::fs::write(&file, [1, 2].into_iter().fold(text(), other)).expect("a file");
            file
        });
        let (changes, by) = (&service.changes, Provenance::default);
        // Each may be refused, as another waits; none may leave half of it behind.
        let done = std::sync::atomic::AtomicU32::new(0);
        let count = |outcome: Result<(), Refusal>| {
            done.fetch_add(u32::from(outcome.is_ok()), std::sync::atomic::Ordering::Relaxed);
        };
        let begun = std::time::Instant::now();
        let goes_on = || {
            done.load(std::sync::atomic::Ordering::Relaxed) < 60 && begun.elapsed() < Duration::from_secs(60)
        };
        let again = |step: &mut dyn FnMut()| {
            while goes_on() {
                step();
                std::thread::yield_now();
            }
        };
        std::thread::scope(|scope| {
            for (file, within) in files.iter().zip([None, Some(Duration::from_millis(1))]) {
                scope.spawn(move || {
                    let apply = || changes.apply(file, within, Breaking::Refused, by(), &|| false);
                    again(&mut || count(apply().map(drop)));
                });
            }
            scope.spawn(|| {
                again(&mut || count(changes.rollback(None, Breaking::Refused, by()).map(drop)));
            });
            scope.spawn(|| again(&mut || count(changes.confirm().map(drop))));
            scope.spawn(|| again(&mut || drop(changes.settle())));
        });
        std::thread::sleep(Duration::from_millis(2));
        while changes.settle().is_some() {}
        files
            .iter()
            .for_each(|file| std::fs::remove_file(file).expect("it is there"));
        let history = changes.history();
        let steps = history.windows(2);
        assert!(
            steps.into_iter().all(|two| two[1].number == two[0].number + 1),
            "{history:?}"
        );
        assert!(
            history
                .iter()
                .rev()
                .enumerate()
                .all(|(n, one)| one.in_force == (n == 0))
        );
        assert!(
            history.iter().all(|one| one.unconfirmed_ms.is_none()),
            "{history:?}"
        );
        assert!(
            done.load(std::sync::atomic::Ordering::Relaxed) >= 60,
            "{history:?}"
        );
        // One whole policy is in force, in words and in the worker.
        assert_eq!(weight(&service, 1), weight(&service, 2));
        let reading = service.read().expect("an answer");
        let view = |class| {
            let mut views = reading.interfaces[0].views.iter();
            let view = views.find(|view| view.class == Some(engine::packet::ClassId(class)));
            view.expect("of a class").gauges.clone()
        };
        assert_eq!(view(1), view(2));
        handle.stop();
        thread.join().expect("an orderly end");
    }

    #[test]
    fn a_shadow_is_refused_where_hosts_behind_are_seen() {
        let text = "version = 1\n[interface.wan0]\nbandwidth = \"20 Mbit/s\"\nnat = true\n";
        let policy = Policy::read("test", text, &Registry::builtin(), &[]).expect("a policy");
        let file = std::env::temp_dir().join(format!("suimon-behind-{}.toml", std::process::id()));
        std::fs::write(&file, text).expect("written");
        let (service, handle, thread) = served(&policy);
        let why = service.shadow(&file, None, Duration::from_millis(1), &|| false);
        let why = why.expect_err("one host alone");
        assert!(why.message.contains("`nat`"), "{why}");
        std::fs::remove_file(file).expect("removed");
        handle.stop();
        thread.join().expect("an orderly end");
    }

    #[test]
    fn what_varies_is_neither_recorded_nor_shadowed_and_keeps_its_rate_over_a_change() {
        let text = |rate: u32| {
            format!(
                "version = 1\n[interface.wan0]\nbandwidth = \"{rate} Mbit/s\"\n\
                 autorate = {{ targets = [\"192.0.2.1\"] }}\n"
            )
        };
        let read = |rate| Policy::read("test", &text(rate), &Registry::builtin(), &[]).expect("a policy");
        let (policy, faster) = (read(20), read(40));
        let (service, handle, thread, [input, _output]) = served_between(&policy);
        let file = std::env::temp_dir().join(format!("suimon-varies-{}.toml", std::process::id()));
        std::fs::write(&file, text(40)).expect("written");
        let recorded = service.record(None, 1 << 20).expect_err("it varies");
        let shadowed = service.shadow(&file, None, Duration::from_millis(1), &|| false);
        for why in [recorded, shadowed.expect_err("it varies")] {
            assert!(why.message.contains("`autorate`"), "{why}");
        }
        std::fs::remove_file(file).expect("removed");
        let path = service.in_force.all()[0].path;
        // So slow that hardly a packet leaves, whatever the policy says then.
        let slow = engine::units::Bandwidth::bits_per_sec(80);
        handle.shape(path, Some(slow)).expect("an answer");
        let changed = faster.interfaces[0].clone();
        service.in_force.put(changed.clone(), changed).expect("it can");
        for _ in 0..20 {
            input.send(&[0; 1_000], netio::pool::Offload::default());
        }
        let begun = std::time::Instant::now();
        while handle.shape(path, None).expect("an answer").offered.get() < 20_000 {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "what was sent does not arrive"
            );
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(50));
        let sent = handle.shape(path, None).expect("an answer").sent.get();
        assert_eq!(sent, 1_000, "the change did not set the rate");
        handle.stop();
        thread.join().expect("an orderly end");
    }

    #[test]
    fn a_shadow_ends_when_the_policy_in_force_changes() {
        let policy = drr();
        let file = std::env::temp_dir().join(format!("suimon-changed-{}.toml", std::process::id()));
        std::fs::write(&file, text()).expect("written");
        let (service, handle, thread) = served(&policy);
        let runs = AtomicBool::new(false);
        let stop = || {
            runs.store(true, Ordering::Relaxed);
            false
        };
        let why = std::thread::scope(|scope| {
            let shadow = scope.spawn(|| service.shadow(&file, None, Duration::from_secs(60), &stop));
            while !runs.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            set(&service, 1, 9).expect("a good weight");
            shadow.join().expect("a thread").expect_err("it has changed")
        });
        assert!(why.message.contains("has changed meanwhile"), "{why}");
        std::fs::remove_file(file).expect("removed");
        handle.stop();
        thread.join().expect("an orderly end");
    }

    /// A burst in two classes: all of it is in both, to the packet.
    #[test]
    fn a_shadow_has_the_packets_that_its_policy_has_live() {
        let text = "version = 1\n[interface.wan0]\nbandwidth = \"10 Mbit/s\"\ndiscipline = \"drr\"\n\
                    [[interface.wan0.class]]\nname = \"few\"\ndiscipline = { kind = \"fifo\", limit = 1000 }\n\
                    [[interface.wan0.class]]\nname = \"rest\"\ndefault = true\n\
                    discipline = { kind = \"fifo\", limit = 1000 }\n\
                    [[interface.wan0.filter]]\nclass = \"few\"\ndscp = \"ef\"\n";
        let policy = Policy::read("test", text, &Registry::builtin(), &[]).expect("a policy");
        let file = std::env::temp_dir().join(format!("suimon-shadow-{}.toml", std::process::id()));
        std::fs::write(&file, text).expect("written");
        let (service, handle, thread, [input, output]) = served_between(&policy);
        let (runs, all_left) = (AtomicBool::new(false), AtomicBool::new(false));
        let minute = Duration::from_secs(60);
        let briefly = || service.shadow(&file, None, Duration::from_millis(1), &|| false);
        let stop = || {
            runs.store(true, Ordering::Relaxed);
            all_left.load(Ordering::Relaxed)
        };
        let report = std::thread::scope(|scope| {
            let shadow = scope.spawn(|| service.shadow(&file, None, minute, &stop));
            while !runs.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            let why = briefly().expect_err("it has one already").message;
            assert!(why.contains("has a shadow already"), "{why}");
            for number in 0..200u8 {
                let mut frame = [0; 1_000];
                frame[12..14].copy_from_slice(&[8, 0]);
                let dscp = if number % 4 == 0 { 46 << 2 } else { 0 };
                frame[14..18].copy_from_slice(&[0x45, dscp, 3, 218]);
                (frame[22], frame[23], frame[33]) = (64, 17, number);
                input.send(&frame, netio::pool::Offload::default());
            }
            let mut left = 0;
            while left < 200 {
                left += u32::from(output.take().is_some());
                std::thread::yield_now();
            }
            all_left.store(true, Ordering::Relaxed);
            shadow.join().expect("a thread").expect("a report")
        });
        assert_eq!(report.classes.len(), 2, "{report:?}");
        for beside in &report.classes {
            let (live, candidate) = (beside.live.expect("live"), beside.candidate.expect("beside"));
            let packets = if beside.class == "few" { 50 } else { 150 };
            assert_eq!((live.sent, live.dropped), (packets, 0), "{report:?}");
            assert_eq!((candidate.sent, candidate.dropped), (packets, 0), "{report:?}");
            assert_eq!(live.rate_bps, candidate.rate_bps);
            // The live loop is late, never early; the link takes 160 ms for all.
            assert!(candidate.p50_ns > 10_000_000, "{report:?}");
            assert!(live.p50_ns + live.p50_ns / 8 >= candidate.p50_ns, "{report:?}");
        }
        assert!(briefly().is_ok(), "the former one has ended");
        std::fs::remove_file(file).expect("removed");
        handle.stop();
        thread.join().expect("an orderly end");
    }
}
