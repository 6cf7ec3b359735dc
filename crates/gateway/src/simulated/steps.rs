//! What befalls a router, step by step, and what must be so after each.

use super::connections::Connections;
use super::kernel::{NAMES, locked};
use super::machine::{Load, PROMISED, World};
use super::policies::{self, Fixed, pick};
use super::reservations::Reservations;
use super::router::{Router, accounts};
use crate::kept::MadeOf;
use crate::state_folder::failing::Failure;
use control::difference::Breaking;
use control::explained::ExplainRequest;
use control::protocol::{AddedClass, Amendment, Refusal, RemovedClass, SettingChange, SettingChanges};
use control::provenance::Provenance;
use control::socket::Handler;
use engine::random::{Rng, Seed};
use engine::units::{Duration, Instant};
use netio::time::SimulatedTime;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// A kind of step, in the order of [`KINDS`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Kind {
    Run,
    Calm,
    Load,
    Apply,
    ApplyToConfirm,
    ApplyMistaken,
    Confirm,
    Rollback,
    Set,
    SetForATime,
    Class,
    Switch,
    Status,
    Explain,
    GarbageRequest,
    GarbageFrames,
    HeldUp,
    Stopped,
    LostWakeUps,
    ClockIsSet,
    RingFull,
    PortDown,
    PortGone,
    SendError,
    ReceiveError,
    DiskFull,
    CrashAtWrite,
    Crash,
    Restart,
    Reserve,
    ChangeReservation,
    EndReservation,
    BadSignalling,
    GarbageMessages,
    SignallingError,
    NeighbourCrash,
    LawHeldUp,
}

/// All kinds, with how often each is drawn.
pub(super) const KINDS: [(Kind, u64); 37] = [
    (Kind::Run, 8),
    (Kind::Calm, 3),
    (Kind::Load, 4),
    (Kind::Apply, 4),
    (Kind::ApplyToConfirm, 3),
    (Kind::ApplyMistaken, 1),
    (Kind::Confirm, 2),
    (Kind::Rollback, 2),
    (Kind::Set, 3),
    (Kind::SetForATime, 2),
    (Kind::Class, 3),
    (Kind::Switch, 1),
    (Kind::Status, 1),
    (Kind::Explain, 1),
    (Kind::GarbageRequest, 1),
    (Kind::GarbageFrames, 1),
    (Kind::HeldUp, 2),
    (Kind::Stopped, 1),
    (Kind::LostWakeUps, 1),
    (Kind::ClockIsSet, 1),
    (Kind::RingFull, 2),
    (Kind::PortDown, 1),
    (Kind::PortGone, 1),
    (Kind::SendError, 1),
    (Kind::ReceiveError, 1),
    (Kind::DiskFull, 2),
    (Kind::CrashAtWrite, 2),
    (Kind::Crash, 1),
    (Kind::Restart, 1),
    (Kind::Reserve, 16),
    (Kind::ChangeReservation, 4),
    (Kind::EndReservation, 5),
    (Kind::BadSignalling, 4),
    (Kind::GarbageMessages, 3),
    (Kind::SignallingError, 3),
    (Kind::NeighbourCrash, 2),
    (Kind::LawHeldUp, 3),
];

/// So many of them, the last but one, need RSVP; the last needs a class that yields.
const OF_RSVP: usize = 7;

/// A step, with a seed of its own: what it does depends on no other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) kind: Kind,
    pub(super) seed: u64,
}

/// Draws the steps of a seed.
pub(super) fn drawn(seed: u64) -> Vec<Step> {
    let mut rng = Seed(seed).fork("steps").stream();
    let kinds = kinds(seed);
    let many = 6 + rng.below(18);
    (0..many).map(|_| Step::drawn(&mut rng, &kinds)).collect()
}

/// The kinds that may befall the router of a seed.
pub(super) fn kinds(seed: u64) -> Vec<(Kind, u64)> {
    let (of_all, of_some) = KINDS.split_at(KINDS.len() - 1 - OF_RSVP);
    let (of_rsvp, of_law) = of_some.split_at(OF_RSVP);
    let mut kinds = of_all.to_vec();
    if policies::speaks_rsvp(seed) {
        kinds.extend(of_rsvp);
    }
    if policies::yields(seed) {
        kinds.extend(of_law);
    }
    kinds
}

impl Step {
    /// One of these kinds, each as often as it says.
    pub(super) fn drawn(rng: &mut Rng, kinds: &[(Kind, u64)]) -> Self {
        let mut at = rng.below(kinds.iter().map(|(_, often)| often).sum());
        let found = kinds.iter().find(|(_, often)| {
            let here = at < *often;
            at = at.saturating_sub(*often);
            here
        });
        Self {
            kind: found.map_or(Kind::Run, |(kind, _)| *kind),
            seed: rng.bits(),
        }
    }
}

/// What a run of steps has shown.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    pub(super) kinds: BTreeMap<Kind, u64>,
    pub(super) frames: super::kernel::Frames,
    pub(super) turns: u64,
    pub(super) virtual_ms: u64,
    /// Requests that were done, and that were refused.
    pub(super) done: u64,
    pub(super) refused: u64,
    pub(super) crashes_in_writes: u64,
    /// Hold-ups that the packet loops have told at the end.
    pub(super) hold_ups: u64,
    pub(super) reserved: super::reservations::Reserved,
    /// Segments of connections that their hosts have got.
    pub(super) segments: u64,
    /// A digest of all that came to pass.
    pub(super) digest: u64,
}

/// A run of steps.
pub(super) struct Run {
    seed: u64,
    pub(super) router: Router,
    fixed: Fixed,
    pub(super) reservations: Reservations,
    /// What a start may go on with: one, unless a failing disk leaves it open.
    confirmed: Vec<MadeOf>,
    /// A change waits to be confirmed.
    waits: bool,
    in_force: MadeOf,
    /// The workers may have got, or get yet, what was refused since they did not answer in time.
    enabled: bool,
    pub(super) trace: Vec<String>,
    shown: Shown,
}

/// Does all steps of a seed. What was shown; or what was wrong, with the trace.
pub(super) fn run(seed: u64, steps: &[Step], file: &Path) -> Result<Shown, (String, Vec<String>)> {
    super::rng::draw_from(Some(Seed(seed).fork("rng")));
    let mut run = Run::begin(seed, 1, file);
    let mut done = run.started(Ok(()));
    for step in steps {
        done = done.and_then(|()| run.befalls(*step));
    }
    let done = done.and_then(|()| run.ends());
    super::rng::draw_from(None);
    match done {
        Ok(()) => Ok(run.shown),
        Err(why) => Err((format!("at {}: {why}", run.at()), run.trace)),
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

impl Run {
    /// Refreshes of RSVP are so many times as slow as a short run has to have them.
    pub(super) fn begin(seed: u64, slower: u64, file: &Path) -> Self {
        let mut rng = Seed(seed).fork("router").stream();
        let fixed = Fixed::of(seed, slower, &mut rng);
        let text = policies::policy(&mut rng, &fixed);
        let speed = engine::units::Bandwidth::bits_per_sec(100_000_000);
        let begin = Instant::START + Duration::from_secs(1_000);
        let kernel = super::kernel::Kernel::new(begin, speed, fixed.ring);
        let router = Router::new(
            World::new(kernel, Seed(seed).fork("traffic").stream()),
            file,
            (1 + rng.below(8)) << 20,
        );
        if policies::yields(seed) {
            let rng = Seed(seed).fork("connections").stream();
            router.world.machine().connections = Some(Connections::new(1, begin, rng));
        }
        std::fs::write(file, &text).expect("the policy's file is written");
        Self {
            seed,
            confirmed: vec![MadeOf::text(&file.display().to_string(), &text)],
            reservations: Reservations::of(&router.world, &fixed),
            fixed,
            router,
            waits: false,
            in_force: MadeOf::default(),
            enabled: true,
            trace: Vec::new(),
            shown: Shown::default(),
        }
    }

    /// A step, and what must be so after it.
    pub(super) fn befalls(&mut self, step: Step) -> Result<(), String> {
        self.trace.push(format!("{:>9} {step:?}", self.at()));
        *self.shown.kinds.entry(step.kind).or_default() += 1;
        self.step(step).and_then(|()| self.check())
    }

    pub(super) fn at(&self) -> String {
        let now = self.router.world.now().since(Instant::START).nanos() / 1_000;
        format!("{}.{:03} ms", now / 1_000 - 1_000_000, now % 1_000)
    }

    fn disturb(&self, span: Duration) {
        let machine = self.router.world.machine();
        let mut kernel = locked(&machine.kernel);
        let until = kernel.now + span;
        kernel.disturb(until);
    }

    fn excuse(&self, span: Duration) {
        let machine = self.router.world.machine();
        let mut kernel = locked(&machine.kernel);
        let until = kernel.now + span;
        kernel.excuse(until);
        // A queue that was built meanwhile goes first.
        kernel.disturb(until + ms(1_000));
    }

    /// Starts the program; it must go on with what was confirmed.
    pub(super) fn started(&mut self, before: Result<(), String>) -> Result<(), String> {
        before?;
        let mut rng = Seed(self.router.world.now().nanos()).stream();
        self.router.begin(rng.below(2) == 0)?;
        self.excuse(ms(100));
        let now_ms = self.router.world.now_ms();
        let found = self.program()?.changes.standing().0;
        let left = |one: &MadeOf| one.clone().at(now_ms);
        let good = self.confirmed.iter().any(|one| left(one).reads_as(&left(&found)));
        if !good {
            return Err(format!(
                "the start goes on with {found:?}, and not with the last confirmed: {:?}",
                self.confirmed
            ));
        }
        self.confirmed = vec![found.clone()];
        (self.in_force, self.waits, self.enabled) = (found, false, true);
        self.reservations.begun();
        self.note_policy();
        Ok(())
    }

    fn program(&mut self) -> Result<&mut super::router::Program, String> {
        self.router
            .program
            .as_mut()
            .ok_or_else(|| "no program runs".into())
    }

    /// What the policies in force allow and promise.
    fn note_policy(&mut self) {
        let Some(program) = &self.router.program else {
            return;
        };
        let machine = self.router.world.machine();
        let mut kernel = locked(&machine.kernel);
        for managed in program.in_force.all() {
            // With the reservations.
            let policy = &managed.promised;
            let number = super::kernel::leaves_by(&policy.name);
            let rate = policy.link().bandwidth;
            kernel.allow(number, self.enabled.then_some(rate));
            kernel.bounds[number].clear();
            if !self.enabled {
                continue;
            }
            let cases = policy.bounds();
            let flows = std::iter::once((0, "voice")).chain(self.reservations.classes(number));
            for (flow, class) in flows {
                let class = policy.plan.class(class);
                let case = cases.iter().find(|case| class.is_some() && case.class == class);
                let bound = case.and_then(|case| case.bound.as_ref().ok());
                // The bound has the usual lateness in it, and a ring of the policy's; the wire is
                // beyond it.
                let bound = bound.filter(|bound| bound.arrivals.is_some());
                kernel.bounds[number].extend(bound.map(|bound| (flow, bound.delay + ms(1))));
            }
        }
    }

    /// The rate is the old or the new one meanwhile.
    fn allow_any(&self) {
        let machine = self.router.world.machine();
        let mut kernel = locked(&machine.kernel);
        (0..2).for_each(|number| kernel.allow(number, None));
    }

    /// Does a request, and follows what became of it.
    fn request(
        &mut self,
        ask: impl FnOnce(&super::router::Program) -> Result<String, Refusal>,
    ) -> Result<Result<String, Refusal>, String> {
        self.allow_any();
        self.disturb(ms(1_000));
        let program = self.router.program.as_ref().ok_or("no program runs")?;
        let answer = ask(program);
        self.disturb(ms(1_000));
        let told = match &answer {
            Ok(said) => format!("done: {}", first_line(said)),
            Err(why) => format!("refused: {}", first_line(&why.message)),
        };
        self.trace.push(format!("{:>9}   {told}", self.at()));
        match answer {
            Ok(_) => self.shown.done += 1,
            Err(_) => self.shown.refused += 1,
        }
        self.note_policy();
        Ok(answer)
    }

    /// What is in force now was asked for, and waits or not.
    fn changed(&mut self, answer: &Result<String, Refusal>, waits: bool, back: bool) -> Result<(), String> {
        let now = self.program()?.changes.standing().0;
        let same = now.reads_as(&self.in_force);
        match answer {
            Ok(_) if waits => self.waits |= !same,
            Ok(_) if back && self.router.disk.is_failing() => {
                self.confirmed.push(now.clone());
                self.waits = false;
            }
            Ok(_) => {
                self.confirmed = vec![now.clone()];
                self.waits = false;
            }
            Err(_) if same => {}
            // In force, until a restart undoes it.
            Err(why) if why.message.contains("a restart undoes it") => self.waits = true,
            Err(why) => return Err(format!("refused, and yet it is in force: {why}")),
        }
        self.in_force = now;
        Ok(())
    }

    /// What ends by itself, or was not confirmed, may have changed what is in force.
    fn follow(&mut self) -> Result<(), String> {
        let (Some(program), failing) = (&self.router.program, self.router.disk.is_failing()) else {
            return Ok(());
        };
        let now = program.changes.standing().0;
        let waits = program
            .changes
            .history()
            .last()
            .is_some_and(|last| last.unconfirmed_ms.is_some());
        if now.reads_as(&self.in_force) {
            return Ok(());
        }
        let undone = self.waits && !waits;
        let now_ms = self.router.world.now_ms();
        // Some of it may be over since it was put into force again.
        let left = |one: &MadeOf| one.clone().at(now_ms);
        let known = self.confirmed.iter().any(|one| left(one).reads_as(&left(&now)));
        let ended = left(&self.in_force).reads_as(&left(&now));
        if !(undone && known || ended || self.in_force.timed() > now.timed()) {
            return Err(format!(
                "what is in force has changed by itself: {now:?}, was {:?}",
                self.in_force
            ));
        }
        match failing {
            true => self.confirmed.push(now.clone()),
            false => self.confirmed = vec![now.clone()],
        }
        self.trace.push(format!(
            "{:>9}   by itself: {}",
            self.at(),
            if undone { "undone" } else { "ended" }
        ));
        (self.waits, self.in_force) = (waits, now);
        self.note_policy();
        Ok(())
    }

    pub(super) fn run(&mut self, span: Duration) -> Result<(), String> {
        // The rate may change at an end of what was set for a time.
        if self.waits || self.in_force.timed() > 0 {
            self.allow_any();
            self.disturb(span);
        }
        self.router.run(span, false);
        self.follow()?;
        self.note_policy();
        Ok(())
    }

    fn step(&mut self, step: Step) -> Result<(), String> {
        let mut rng = Seed(step.seed).stream();
        let rng = &mut rng;
        match step.kind {
            Kind::Run => self.run(ms(1 + rng.below(60)))?,
            Kind::Calm => {
                self.router.world.machine().load = Load::Low;
                self.run(ms(1_600))?;
            }
            Kind::Load => {
                let load = [Load::Idle, Load::Low, Load::Bursts, Load::Overload][rng.below(4) as usize];
                self.router.world.machine().load = load;
                self.disturb(ms(1_000));
                self.run(ms(1 + rng.below(30)))?;
            }
            Kind::LawHeldUp => {
                let span = ms(200 + rng.below(2_500));
                let until = self.router.world.now_here() + span;
                self.program()?.hold_law_up(until);
                self.run(span)?;
            }
            Kind::Apply | Kind::ApplyToConfirm | Kind::ApplyMistaken => self.apply(step.kind, rng)?,
            Kind::Confirm => {
                let answer = self.request(|program| program.service.confirm())?;
                if answer.is_ok() {
                    self.changed(&answer, false, false)?;
                }
            }
            Kind::Rollback => {
                let to = (rng.below(3) == 0).then(|| 1 + rng.below(6));
                let answer = self.request(|program| {
                    program
                        .service
                        .rollback(to, Breaking::Allowed, Provenance::default())
                })?;
                self.changed(&answer, false, true)?;
            }
            Kind::Set | Kind::SetForATime => self.set(step.kind == Kind::SetForATime, rng)?,
            Kind::Class => self.class(rng)?,
            Kind::Switch => self.switch(rng)?,
            Kind::Status => {
                let answer = self.request(|program| {
                    let reading = program.service.read()?;
                    Ok(reading
                        .streamed(None, control::snapshot::StatusDetail::Brief)
                        .policy)
                })?;
                answer.map_err(|why| why.message)?;
            }
            Kind::Explain => {
                let wanted = ExplainRequest {
                    interface: pick(rng, &NAMES).into(),
                    class: (rng.below(3) == 0).then(|| policies::word(rng)),
                    drops: rng.below(2) == 0,
                    packets: rng.below(20) as usize,
                    for_ms: 1 + rng.below(40),
                };
                let _ = self.request(|program| {
                    let explained = program.service.explain(&wanted, &|| false)?;
                    Ok(explained
                        .packets
                        .iter()
                        .flat_map(control::explained::ExplainedPacket::lines)
                        .collect())
                })?;
            }
            Kind::GarbageRequest => self.garbage_request(rng)?,
            Kind::RingFull | Kind::PortDown | Kind::PortGone | Kind::SendError | Kind::ReceiveError => {
                self.interface_fails(step.kind, rng)?;
            }
            Kind::DiskFull | Kind::CrashAtWrite | Kind::Crash | Kind::Restart => {
                self.is_cut_off(step.kind, rng)?
            }
            Kind::GarbageFrames | Kind::HeldUp | Kind::Stopped | Kind::LostWakeUps | Kind::ClockIsSet => {
                self.goes_wrong(step.kind, rng)?;
            }
            Kind::Reserve
            | Kind::ChangeReservation
            | Kind::EndReservation
            | Kind::BadSignalling
            | Kind::GarbageMessages
            | Kind::SignallingError
            | Kind::NeighbourCrash => {
                let told = self.reservations.step(step.kind, rng)?;
                self.trace.push(format!("{:>9}   {told}", self.at()));
                self.run(ms(1 + rng.below(60)))?;
            }
        }
        Ok(())
    }

    /// The policy of its beginning is applied, and in force.
    pub(super) fn applies(&mut self, text: &str) -> Result<(), String> {
        let file = self.router.file.clone();
        std::fs::write(&file, text).map_err(|why| why.to_string())?;
        let answer = self.asks_to_apply(&file, None, Breaking::Allowed)?;
        answer.map(|_| ()).map_err(|why| why.message)
    }

    fn asks_to_apply(
        &mut self,
        file: &Path,
        within: Option<std::time::Duration>,
        breaking: Breaking,
    ) -> Result<Result<String, Refusal>, String> {
        let answer = self.request(|program| {
            let by = Provenance::default();
            let applied = program.service.apply(file, within, breaking, by, &|| false)?;
            Ok(applied.message)
        })?;
        self.changed(&answer, within.is_some(), false)?;
        Ok(answer)
    }

    fn apply(&mut self, kind: Kind, rng: &mut Rng) -> Result<(), String> {
        let mistaken = kind == Kind::ApplyMistaken;
        let text = match mistaken {
            true => policies::mistaken(rng, &self.fixed),
            false => policies::policy(rng, &self.fixed),
        };
        let file = match mistaken {
            true => self.router.file.with_extension("mistaken"),
            false => self.router.file.clone(),
        };
        std::fs::write(&file, &text).map_err(|why| why.to_string())?;
        let within =
            (kind == Kind::ApplyToConfirm).then(|| std::time::Duration::from_millis(20 + rng.below(400)));
        let answer = self.asks_to_apply(&file, within, Breaking::Refused)?;
        if !mistaken && answer.is_ok() {
            let found = self.program()?.changes.policy_text().map_err(|why| why.message)?;
            let in_force_already = answer.as_ref().is_ok_and(|said| said.contains("already"));
            if found != text && !in_force_already {
                return Err("what is in force is not what was applied".into());
            }
        }
        Ok(())
    }

    fn set(&mut self, for_a_time: bool, rng: &mut Rng) -> Result<(), String> {
        let class = match rng.below(4) {
            0 => None,
            _ => Some(pick(rng, &["voice", "a", "rest"]).to_owned()),
        };
        let pair = match &class {
            None => ("bandwidth", format!("{} Mbit/s", 5 + rng.below(30))),
            Some(_) => match rng.below(4) {
                0 => ("weight", (1 + rng.below(9)).to_string()),
                1 => ("priority", (rng.below(9)).to_string()),
                2 => ("linkshare", format!("{} kbit/s", 500 + rng.below(900))),
                _ => ("rate", format!("{} kbit/s", 500 + rng.below(900))),
            },
        };
        let until_ms = for_a_time.then(|| self.router.world.now_ms() + 10 + rng.below(500));
        let wanted = SettingChanges {
            interface: pick(rng, &NAMES).into(),
            class,
            changes: [(pair.0.to_owned(), SettingChange::from_word(&pair.1))].into(),
            until_ms,
            reason: None,
        };
        let answer = self.request(|program| program.service.set(&wanted, Provenance::default()))?;
        self.changed(&answer, false, false)
    }

    fn class(&mut self, rng: &mut Rng) -> Result<(), String> {
        let (interface, name) = (pick(rng, &NAMES).to_owned(), format!("c{}", rng.below(3)));
        let until_ms = (rng.below(3) == 0).then(|| self.router.world.now_ms() + 10 + rng.below(500));
        let there = self.router.program.as_ref().is_some_and(|program| {
            let all = program.in_force.all();
            let managed = all.iter().find(|managed| managed.policy.name == interface);
            managed.is_some_and(|managed| managed.policy.plan.class(&name).is_some())
        });
        let wanted = match there {
            true => Amendment::Removed(RemovedClass {
                interface,
                class: name,
                until_ms,
                reason: None,
            }),
            false => {
                let kind = self.router.program.as_ref().and_then(|program| {
                    let all = program.in_force.all();
                    let managed = all.iter().find(|managed| managed.policy.name == interface)?;
                    Some(managed.policy.spec.kind.to_string())
                });
                let setting = match kind.as_deref() {
                    Some("drr" | "wrr") => ("weight", "2"),
                    Some("priq") => ("priority", "3"),
                    Some("hfsc") => ("linkshare", "500kbit/s"),
                    _ => ("rate", "500kbit/s"),
                };
                let port = (5_000 + rng.below(7)).to_string();
                let filter = [("protocol", "udp"), ("destination_port", &*port)];
                let table = |pairs: &[(&str, &str)]| -> BTreeMap<String, SettingChange> {
                    let pairs = pairs.iter();
                    pairs
                        .map(|(key, value)| ((*key).to_owned(), SettingChange::from_word(value)))
                        .collect()
                };
                Amendment::Added(AddedClass {
                    interface,
                    class: name,
                    settings: table(&[setting]),
                    filters: vec![table(&filter)],
                    quota: None,
                    until_ms,
                    reason: None,
                })
            }
        };
        let answer = self.request(|program| program.service.change_class(&wanted, Provenance::default()))?;
        self.changed(&answer, false, false)
    }

    fn switch(&mut self, rng: &mut Rng) -> Result<(), String> {
        self.enabled = false;
        self.allow_any();
        let off = self.request(|program| program.service.switch(None, false))?;
        self.run(ms(1 + rng.below(60)))?;
        let on = self.request(|program| program.service.switch(None, true))?;
        self.enabled = true;
        off.and(on).map_err(|why| why.message)?;
        // What passed in order while it was off, leaves first.
        self.allow_any();
        self.router.run(ms(300), false);
        self.follow()?;
        self.disturb(ms(500));
        self.note_policy();
        Ok(())
    }

    fn garbage_request(&mut self, rng: &mut Rng) -> Result<(), String> {
        let words: Vec<String> = (0..4).map(|_| policies::word(rng)).collect();
        let settings = SettingChanges {
            interface: words[0].clone(),
            class: (rng.below(2) == 0).then(|| words[1].clone()),
            changes: [(words[2].clone(), SettingChange::from_word(&words[3]))].into(),
            until_ms: (rng.below(3) == 0).then(|| rng.bits()),
            reason: None,
        };
        let answer = self.request(|program| match rng.below(4) {
            0 => program.service.set(&settings, Provenance::default()),
            1 => program.service.change_class(
                &Amendment::Removed(RemovedClass {
                    interface: words[0].clone(),
                    class: words[1].clone(),
                    until_ms: None,
                    reason: None,
                }),
                Provenance::default(),
            ),
            2 => program.service.switch(Some(&words[0]), true),
            _ => {
                let applied = program.service.apply(
                    Path::new("/nowhere/at/all"),
                    None,
                    Breaking::Refused,
                    Provenance::default(),
                    &|| false,
                )?;
                Ok(applied.message)
            }
        })?;
        let same = self.program()?.changes.standing().0.reads_as(&self.in_force);
        match same {
            // Even what waits to be confirmed.
            true => Ok(()),
            false => self.changed(&answer, false, false),
        }
    }

    /// CallerTime, the processor or senders are not as they should be.
    fn goes_wrong(&mut self, kind: Kind, rng: &mut Rng) -> Result<(), String> {
        match kind {
            Kind::GarbageFrames => {
                self.disturb(ms(1_000));
                self.router.world.machine().garbage(1 + rng.below(200));
                self.run(ms(5))?;
            }
            Kind::HeldUp | Kind::Stopped => {
                let span = ms(1 + rng.below(if kind == Kind::HeldUp { 40 } else { 1_500 }));
                self.excuse(span + ms(60));
                let mut machine = self.router.world.machine();
                let until = machine.now() + span;
                machine.hold_up(rng.bits(), until);
                let all = kind == Kind::Stopped;
                if all {
                    (0..2).for_each(|one| machine.hold_up(one, until));
                }
                drop(machine);
                // A program that is stopped asks for nothing, either.
                match all {
                    true => self.router.run(span, true),
                    false => self.run(span)?,
                }
            }
            Kind::LostWakeUps => {
                let span = ms(1 + rng.below(80));
                self.disturb(span + ms(1_000));
                let mut machine = self.router.world.machine();
                machine.deaf_until = machine.now() + span;
                drop(machine);
                self.run(span)?;
            }
            Kind::ClockIsSet => {
                let by = rng.below(20_000) as i64 - 10_000;
                self.router.world.machine().wall_ms += by;
                self.run(ms(1))?;
            }
            other => return Err(format!("{other:?} is none of these")),
        }
        Ok(())
    }

    /// An interface does not work for a while.
    fn interface_fails(&mut self, kind: Kind, rng: &mut Rng) -> Result<(), String> {
        let number = rng.below(2) as usize;
        match kind {
            Kind::RingFull => {
                let span = ms(1 + rng.below(150));
                self.excuse(span + ms(30));
                let machine = self.router.world.machine();
                let mut kernel = locked(&machine.kernel);
                let until = kernel.now + span;
                kernel.interfaces[number].blocked = until;
                drop(kernel);
                drop(machine);
                self.run(ms(1 + rng.below(100)))?;
            }
            Kind::PortDown | Kind::PortGone => {
                self.allow_any();
                let span = ms(1 + rng.below(1_500));
                self.excuse(span + ms(200));
                let kernel = Arc::clone(&self.router.world.machine().kernel);
                locked(&kernel).takes_away(number, kind == Kind::PortGone);
                self.run(span)?;
                if span > ms(1_200) {
                    let why = self.program()?.not_enforced()?;
                    if why[number].is_none() {
                        return Err(format!(
                            "{} does not work, and status says nothing",
                            NAMES[number]
                        ));
                    }
                }
                locked(&kernel).gives_back(number);
                self.run(ms(1))?;
            }
            Kind::SendError | Kind::ReceiveError => {
                let kernel = Arc::clone(&self.router.world.machine().kernel);
                self.excuse(ms(1_200));
                let errors = [
                    libc_errors::ENOBUFS,
                    libc_errors::EMFILE,
                    libc_errors::EIO,
                    libc_errors::ENODEV,
                ];
                for _ in 0..1 + rng.below(4) {
                    let error = errors[rng.below(4) as usize];
                    let interface = &mut locked(&kernel).interfaces[number];
                    match kind {
                        Kind::SendError => interface.send_errors.push_back(error),
                        _ => interface.receive_errors.push_back(error),
                    }
                }
                self.run(ms(1 + rng.below(300)))?;
            }
            other => return Err(format!("{other:?} is none of these")),
        }
        Ok(())
    }

    /// The disk fails, or the program ends, in order or not.
    fn is_cut_off(&mut self, kind: Kind, rng: &mut Rng) -> Result<(), String> {
        match kind {
            Kind::DiskFull => {
                self.router.disk.fails(Failure::Full, 1 + rng.below(6) as usize);
                self.request_in_trouble(rng)?;
                self.run(ms(1 + rng.below(30)))?;
                self.router.disk.goes_off_after(None);
            }
            Kind::CrashAtWrite => {
                self.router.disk.fails(Failure::Off, 1 + rng.below(7) as usize);
                let before = self.confirmed.clone();
                self.request_in_trouble(rng)?;
                if self.router.disk.is_off() {
                    self.shown.crashes_in_writes += 1;
                    // Done, or not.
                    self.confirmed.extend(before);
                }
                self.crash(rng)?;
            }
            Kind::Crash => self.crash(rng)?,
            Kind::Restart => {
                let waited = self.waits;
                self.allow_any();
                self.excuse(ms(3_000));
                self.ended()?;
                let text = std::fs::read_to_string(&self.router.file).map_err(|why| why.to_string())?;
                if !waited {
                    // The file may have been edited, by an apply that was refused.
                    let file = self.router.file.display().to_string();
                    self.confirmed.push(MadeOf::text(&file, &text));
                }
                self.router.run(ms(rng.below(50)), false);
                self.started(Ok(()))?;
            }
            other => return Err(format!("{other:?} is none of these")),
        }
        Ok(())
    }

    /// A request, whatever comes of it, while the disk fails.
    fn request_in_trouble(&mut self, rng: &mut Rng) -> Result<(), String> {
        match rng.below(5) {
            0 => self.apply(Kind::Apply, rng),
            1 => self.apply(Kind::ApplyToConfirm, rng),
            2 => self.set(false, rng),
            3 => self.class(rng),
            _ => {
                let answer = self.request(|program| {
                    program
                        .service
                        .rollback(None, Breaking::Allowed, Provenance::default())
                })?;
                self.changed(&answer, false, true)
            }
        }
    }

    fn crash(&mut self, rng: &mut Rng) -> Result<(), String> {
        self.allow_any();
        self.excuse(ms(3_000));
        self.router.crash(rng.below(2) == 0);
        self.router.disk.goes_off_after(None);
        self.router.run(ms(rng.below(120)), false);
        self.started(Ok(()))
    }

    /// The program ends in order: nothing is held, and all slots are given back.
    fn ended(&mut self) -> Result<(), String> {
        let last = self.router.end()?;
        let all = netio::handle::WorkerSnapshot::joined(last);
        let (wrong, held) = all.map_or_else(Default::default, |last| accounts(&last, &self.router.world));
        // What a port could not send goes with it.
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(format!("at the end, {held} held: {}", wrong.join("; "))),
        }
    }

    /// What must be so after each step.
    fn check(&mut self) -> Result<(), String> {
        let (wrong, _) = self.router.accounts();
        if let Some(what) = self.fault_of_kernel() {
            return Err(what);
        }
        if !wrong.is_empty() {
            return Err(wrong.join("; "));
        }
        if let Some(program) = &self.router.program {
            self.reservations.check(program)?;
        }
        let files = crate::state_folder::Folder::names(&self.router.disk);
        let files = files.map_err(|why| why.to_string())?.len();
        if files > 80 {
            return Err(format!("{files} files are in the state's folder"));
        }
        Ok(())
    }

    /// Reservations are what whoever has asked for them was told; and then they end.
    fn reservations_end(&mut self) -> Result<(), String> {
        if self.fixed.refresh.is_none() {
            return Ok(());
        }
        let program = self.router.program.as_ref().ok_or("no program runs")?;
        self.reservations.judge(program)?;
        self.check()?;
        self.reservations.end_all();
        // What a mutilated message has left goes away by itself.
        for _ in 0..10 {
            self.run(ms(400 * self.fixed.slower))?;
            let program = self.router.program.as_ref().ok_or("no program runs")?;
            if !self.reservations.are_there(program) {
                break;
            }
        }
        let program = self.router.program.as_ref().ok_or("no program runs")?;
        self.reservations.are_gone(program, &self.router)?;
        Ok(())
    }

    fn fault_of_kernel(&self) -> Option<String> {
        let machine = self.router.world.machine();
        let mut kernel = locked(&machine.kernel);
        kernel.wrong.take()
    }

    /// All works again: what is in force is in force, and nothing is reserved or held any more.
    pub(super) fn settles(&mut self) -> Result<(), String> {
        self.router.world.machine().load = Load::Idle;
        self.excuse(ms(3_000));
        self.reservations.all_works();
        let segments = self.router.segments();
        self.run(ms(2_500 * self.fixed.slower))?;
        if self.router.world.machine().connections.is_some() && self.router.segments() == segments {
            return Err("all works, and no connection goes on".into());
        }
        self.connections_wait(true);
        self.reservations_end()?;
        if policies::yields(self.seed) {
            // Their class may have a small part of a slow link, and no more.
            self.run(ms(2_000))?;
        }
        let router = &self.router;
        if let Some(program) = &router.program {
            let found = program.contradictions(|made_of| router.read(made_of));
            if !found.is_empty() {
                return Err(format!(
                    "what runs is not what is said to be in force: {}",
                    found.join("; ")
                ));
            }
            let why = program.not_enforced()?;
            if let Some(why) = why.iter().flatten().next() {
                return Err(format!("all works, and status says: {why}"));
            }
            let history = program.changes.history();
            let numbers: BTreeSet<u64> = history.iter().map(|one| one.number).collect();
            if history.len() > 32 || numbers.len() != history.len() {
                return Err(format!("{} generations: {numbers:?}", history.len()));
            }
        }
        self.check()?;
        let told = self.router.world.machine().show();
        self.shown.hold_ups = told.map_or(0, |told| told.turns.held_up.times);
        // What the promised flow sends is all that may be on its way.
        let (_, held) = self.router.accounts();
        if held > 4 {
            return Err(format!("{held} packets are still held, with {PROMISED:?} alone"));
        }
        self.connections_wait(false);
        Ok(())
    }

    /// The hosts of connections send nothing for a while, or go on.
    fn connections_wait(&self, wait: bool) {
        let mut machine = self.router.world.machine();
        machine.connections.iter_mut().for_each(|all| all.wait = wait);
    }

    /// After all steps: nothing is left behind.
    fn ends(&mut self) -> Result<(), String> {
        self.settles()?;
        self.allow_any();
        self.ended()?;
        self.check()?;
        self.shown = self.so_far();
        let Shown { frames, .. } = self.shown;
        let words = [
            frames.sent,
            frames.forwarded,
            frames.lost,
            self.shown.turns,
            self.shown.virtual_ms,
        ];
        self.shown.digest = words.iter().fold(self.router.disk.writes(), |sum, word| {
            sum.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17) ^ word
        });
        Ok(())
    }

    /// What was shown until now.
    pub(super) fn so_far(&self) -> Shown {
        let machine = self.router.world.machine();
        let (turns, virtual_ms) = (machine.turns, machine.now().nanos() / 1_000_000 - 1_000_000);
        drop(machine);
        Shown {
            turns,
            virtual_ms,
            frames: self.router.frames(),
            segments: self.router.segments(),
            reserved: self.reservations.shown(),
            ..self.shown.clone()
        }
    }
}

/// Errors of system calls, as Linux numbers them.
mod libc_errors {
    pub(super) const EIO: i32 = 5;
    pub(super) const ENODEV: i32 = 19;
    pub(super) const EMFILE: i32 = 24;
    pub(super) const ENOBUFS: i32 = 105;
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
