//! What is in force on each managed interface: the current policy, and the reservations added to
//! it.
//!
//! A change is always a whole checked tree. The worker adopts it while packets flow; the backlog
//! moves into the classes of the same names.

use crate::as_asked;
use crate::change_log::{ChangeLog, LoggedChange, Put};
use crate::direction::{by_filters, secret_seed};
use crate::expected::ExpectedOf;
use crate::signalling::trees::Trees;
use crate::vacancies::{self, Fitted};
use crate::what_if::beginning;
use crate::whole_tree::{self, FEW, MANY, WholeTree};
use control::begins_anew::ClassesAnew;
use control::class_change::ClassChanged;
use control::difference::Difference;
use control::policy::InterfacePolicy;
use control::protocol::Refusal;
use engine::packet::ClassId;
use engine::random::Seed;
use engine::reserved::ReservedLayout;
use engine::tree::{ClassSpec, Registry, TreePlan};
use engine::units::Bandwidth;
use measure::promise::ClassPromise;
use netio::classify::FewFilters;
use netio::handle::{
    Adopted, Becomes, ChangedSettings, ClassAdopted, ClassChanges, ClassRetune, ComingClass, CutClass,
    Declined, Handle, Reclassified, Retune, Unanswered,
};
use netio::rehearsal::Rehearsal;
use netio::time::CallerTime;
use netio::worker::PathId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// A managed interface.
#[derive(Clone, Debug)]
pub struct InterfaceInForce {
    /// The worker's path.
    pub path: PathId,
    /// The policy, with all changes since the start: what the worker runs, or where something may
    /// be reserved, what that is made of.
    pub policy: InterfacePolicy,
    /// The same plus the reservations: what is promised.
    pub promised: Arc<InterfacePolicy>,
    /// What the worker runs: the policy, plus the reservations, and places for more classes.
    pub whole: Arc<InterfacePolicy>,
    /// Where changes are written down, while what passes is recorded.
    log: Option<Arc<ChangeLog>>,
}

impl InterfaceInForce {
    /// In the worker's path there runs `whole`, which is this policy, plus reservations.
    fn new(path: PathId, policy: InterfacePolicy, whole: InterfacePolicy) -> Self {
        let (policy, whole) = same_tree(policy, whole);
        Self {
            path,
            promised: Arc::new(policy.clone()),
            policy,
            whole,
            log: None,
        }
    }

    /// Whether the policy is what the worker runs.
    fn runs_policy(&self) -> bool {
        self.policy.plan.is_amended_by(&self.whole.plan)
    }

    /// Puts these in the place of what was in force.
    fn adopt(
        &mut self,
        (policy, promised, whole): (InterfacePolicy, Arc<InterfacePolicy>, InterfacePolicy),
        put: Option<Put>,
    ) {
        let (policy, whole) = same_tree(policy, whole);
        if let (Some(log), Some(put)) = (&self.log, put) {
            log.push(LoggedChange {
                whole: Arc::clone(&whole),
                put,
                said: Difference::of(&self.policy, &policy).changes,
            });
        }
        (self.policy, self.promised, self.whole) = (policy, promised, whole);
    }
}

/// Refuses to record what a policy does, or to have it do what was recorded, if its rate varies: no
/// tape has that.
pub(crate) fn refuse_varying(policy: &InterfacePolicy) -> Result<(), Refusal> {
    match policy.autorate {
        None => Ok(()),
        Some(_) => Err(Refusal {
            message: format!(
                "the rate of {} follows its line (`autorate`), and no recording has it",
                policy.name
            ),
            help: Some("leave `autorate` out for the time of the recording".into()),
        }),
    }
}

/// Refuses to try another policy beside it if it sees hosts behind this one: a tape has what is on
/// the wire, where they are one.
pub(crate) fn refuse_behind(policy: &InterfacePolicy) -> Result<(), Refusal> {
    match policy.settings.nat {
        false => Ok(()),
        true => Err(Refusal {
            message: format!(
                "{} sees hosts behind this one (`nat`), and a shadow would see one host alone",
                policy.name
            ),
            help: Some(
                "leave `nat` out for the time of the shadow, or try the policy in the simulator".into(),
            ),
        }),
    }
}

/// What a policy promises to its reservations, by the numbers that their classes have in what the
/// worker runs.
fn to_reservations(promised: &InterfacePolicy, whole: &InterfacePolicy) -> Vec<ClassPromise> {
    match promised.reserve {
        Some(_) => ClassPromise::to_reservations(&promised.plan, || promised.bounds(), &whole.plan),
        None => Vec::new(),
    }
}

/// One tree for both where nothing is reserved: then a change of one class is one of both.
fn same_tree(policy: InterfacePolicy, whole: InterfacePolicy) -> (InterfacePolicy, Arc<InterfacePolicy>) {
    let policy = match policy.reserve {
        Some(_) => policy,
        None => whole.clone(),
    };
    (policy, Arc::new(whole))
}

/// What a change has come to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Adoption {
    /// How the tree has adopted it.
    pub adopted: Adopted,
    /// Classes that stay and have begun anew; all others have kept all that they had.
    pub begins_anew: Vec<ClassesAnew>,
}

impl Adoption {
    /// So, and by classes that have all kept what they had.
    fn of_all(adopted: Adopted) -> Self {
        Self {
            adopted,
            begins_anew: Vec::new(),
        }
    }
}

/// What executes changes of a tree.
trait Executes {
    /// By the class, or why not.
    fn change_classes(&mut self, changes: ClassChanges) -> Result<Result<Adopted, Declined>, Refusal>;

    /// As a whole.
    fn retune(&mut self, retune: Retune) -> Result<Adopted, Refusal>;
}

/// The worker, on this path.
struct Live<'a> {
    handle: &'a Handle,
    path: PathId,
}

impl Executes for Live<'_> {
    fn change_classes(&mut self, changes: ClassChanges) -> Result<Result<Adopted, Declined>, Refusal> {
        self.handle.change_classes(self.path, changes).map_err(refused)
    }

    fn retune(&mut self, retune: Retune) -> Result<Adopted, Refusal> {
        self.handle.retune(self.path, retune).map_err(refused)
    }
}

/// A rehearsal, of a path that has a tape or none.
struct Rehearsed {
    rehearsal: Rehearsal,
    taped: bool,
}

impl Executes for Rehearsed {
    fn change_classes(&mut self, changes: ClassChanges) -> Result<Result<Adopted, Declined>, Refusal> {
        Ok(match self.taped {
            true => Err(Declined::Taped),
            false => self.rehearsal.change_classes(changes),
        })
    }

    fn retune(&mut self, retune: Retune) -> Result<Adopted, Refusal> {
        Ok(self.rehearsal.retune(retune))
    }
}

/// All managed interfaces.
#[derive(Debug)]
pub struct InForce {
    handle: Handle,
    registry: Registry,
    managed: Mutex<Vec<InterfaceInForce>>,
}

impl InForce {
    /// These interfaces, with the worker's path of each; changes are checked with these kinds.
    pub fn new(
        handle: Handle,
        registry: Registry,
        managed: impl IntoIterator<Item = (PathId, InterfacePolicy)>,
    ) -> Self {
        let managed = managed.into_iter();
        let managed = managed.map(|(path, policy)| ((path, policy.clone()), policy));
        Self::running(handle, registry, managed)
    }

    /// The same, where workers run other trees of these policies: each policy with what is run.
    pub fn running(
        handle: Handle,
        registry: Registry,
        managed: impl IntoIterator<Item = ((PathId, InterfacePolicy), InterfacePolicy)>,
    ) -> Self {
        let managed = managed
            .into_iter()
            .map(|((path, policy), whole)| InterfaceInForce::new(path, policy, whole));
        Self {
            handle,
            registry,
            managed: Mutex::new(managed.collect()),
        }
    }

    /// The time of whoever asks the worker.
    pub(crate) fn time(&self) -> &CallerTime {
        self.handle.time()
    }

    /// The kinds that policies may name.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    fn lock(&self) -> MutexGuard<'_, Vec<InterfaceInForce>> {
        self.managed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current state.
    pub fn all(&self) -> Vec<InterfaceInForce> {
        self.lock().clone()
    }

    /// The policy in force on this interface.
    ///
    /// # Errors
    ///
    /// Returns an error if it is no longer managed.
    pub(crate) fn policy_of(&self, interface: &str) -> Result<InterfacePolicy, Refusal> {
        let all = self.lock();
        let found = all.iter().find(|managed| managed.policy.name == interface);
        found
            .map(|managed| managed.policy.clone())
            .ok_or_else(|| Refusal::new(format!("{interface} is no longer managed")))
    }

    /// In what the worker does not run the policies, by interface.
    ///
    /// # Errors
    ///
    /// Returns an error if the worker does not respond.
    pub(crate) fn unlike(&self) -> Result<BTreeMap<String, Vec<String>>, Refusal> {
        // No change comes in between.
        let all = self.lock();
        let snapshot = self.handle.inspect().map_err(refused)?;
        let unlike = |managed: &InterfaceInForce| match snapshot.paths.get(managed.path.0) {
            Some(path) => as_asked::unlike(path, &managed.whole),
            None => vec!["it is no longer managed".into()],
        };
        let found = all
            .iter()
            .map(|managed| (managed.policy.name.clone(), unlike(managed)));
        Ok(found.collect())
    }

    /// The same, of the interface on which this class was changed alone.
    ///
    /// # Errors
    ///
    /// Returns an error if the worker does not respond.
    pub(crate) fn unlike_in_class(&self, interface: &str, class: ClassId) -> Result<Vec<String>, Refusal> {
        // No change comes in between.
        let all = self.lock();
        let Some(managed) = all.iter().find(|managed| managed.policy.name == interface) else {
            return Ok(vec!["it is no longer managed".into()]);
        };
        let path = self.handle.inspect_class(managed.path, class).map_err(refused)?;
        Ok(as_asked::unlike_in_class(&path, &managed.whole, class))
    }

    /// What is expected of each interface.
    pub fn expectations(&self) -> Vec<ExpectedOf> {
        let all = self.lock();
        let of = |managed: &InterfaceInForce| {
            let InterfacePolicy {
                name, expectations, ..
            } = &managed.policy;
            (name.clone(), Arc::clone(expectations))
        };
        all.iter().map(of).collect()
    }

    /// What the worker runs on this path, for as long as `work` takes: no change comes in between.
    /// `None` while a change is under way, or where nothing is managed.
    pub(crate) fn while_in_force<T>(
        &self,
        path: PathId,
        work: impl FnOnce(&InterfacePolicy) -> T,
    ) -> Option<T> {
        let all = match self.managed.try_lock() {
            Ok(all) => all,
            Err(TryLockError::Poisoned(all)) => all.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let managed = all.iter().find(|managed| managed.path == path)?;
        Some(work(&managed.whole))
    }

    /// Whether the worker still runs what it ran then.
    pub fn runs_still(&self, then: &InterfaceInForce) -> bool {
        let all = self.lock();
        all.iter()
            .any(|now| now.path == then.path && Arc::ptr_eq(&now.whole, &then.whole))
    }

    /// Makes the worker run `whole` on the interface of this policy.
    ///
    /// # Errors
    ///
    /// Returns an error if the interface is no longer managed, or the worker does not respond.
    pub fn put(&self, policy: InterfacePolicy, whole: InterfacePolicy) -> Result<Adoption, Refusal> {
        // The lock is held until the worker has replied, so that two changes cannot overtake each
        // other.
        let mut all = self.lock();
        let gone = || Refusal::new(format!("{} is no longer managed", policy.name));
        let managed = all
            .iter_mut()
            .find(|managed| managed.policy.name == policy.name)
            .ok_or_else(gone)?;
        let promised = Arc::new(whole.clone());
        let mut live = Live {
            handle: &self.handle,
            path: managed.path,
        };
        let (whole, adoption, put) = self.execute(&managed.whole, whole, &mut live)?;
        managed.adopt((policy, promised, whole), put);
        self.watch_promises(managed)?;
        netio::heap::give_back();
        Ok(adoption)
    }

    /// What `put` would do on this interface, tried without packets beside the packet loop. It says
    /// nothing of an interface that is not managed.
    ///
    /// # Errors
    ///
    /// Returns an error if the worker does not respond, or there is no memory for it.
    pub(crate) fn foresee(&self, whole: InterfacePolicy) -> Result<Vec<ClassesAnew>, Refusal> {
        let Some(managed) = self
            .all()
            .into_iter()
            .find(|managed| managed.policy.name == whole.name)
        else {
            return Ok(Vec::new());
        };
        let beginning = beginning(&managed.whole, secret_seed());
        let no_memory = |why| Refusal::new(format!("no memory to rehearse the change: {why}"));
        let mut rehearsed = Rehearsed {
            rehearsal: Rehearsal::new(beginning).map_err(no_memory)?,
            taped: self.handle.is_taped(managed.path).map_err(refused)?,
        };
        let (_, adoption, _) = self.execute(&managed.whole, whole, &mut rehearsed)?;
        netio::heap::give_back();
        Ok(adoption.begins_anew)
    }

    /// Makes the running tree the wanted one: by the class if it can, otherwise as a whole.
    fn execute(
        &self,
        running: &InterfacePolicy,
        wanted: InterfacePolicy,
        by: &mut dyn Executes,
    ) -> Result<(InterfacePolicy, Adoption, Option<Put>), Refusal> {
        let (whole, few) = self.fitted(running, wanted);
        let why = match few {
            Ok(few) => {
                let begins_anew = whole_tree::of_single_classes(running, &whole, &few, &self.registry);
                match by.change_classes(few)? {
                    Ok(adopted) => {
                        let adoption = Adoption { adopted, begins_anew };
                        // With a tape that is declined.
                        return Ok((whole, adoption, None));
                    }
                    Err(declined) => WholeTree::Declined(declined),
                }
            }
            Err(why) => why,
        };
        let (whole, adopted, put) = self.put_whole(running, whole, by)?;
        let begins_anew = match adopted {
            Adopted::InPlace => Vec::new(),
            Adopted::Rebuilt { .. } => whole_tree::of_new_tree(running, &whole, &why, &self.registry),
        };
        Ok((whole, Adoption { adopted, begins_anew }, Some(put)))
    }

    /// Has the worker hold departures of reservations' classes against the bounds that are promised
    /// to them.
    fn watch_promises(&self, managed: &InterfaceInForce) -> Result<(), Refusal> {
        let promises = to_reservations(&managed.promised, &managed.whole);
        self.handle.promise(managed.path, &promises).map_err(refused)
    }

    /// A policy with its classes in the places of the running tree, if they fit there; and how that
    /// becomes the policy's by the class, or why it does not.
    fn fitted(
        &self,
        running: &InterfacePolicy,
        whole: InterfacePolicy,
    ) -> (InterfacePolicy, Result<ClassChanges, WholeTree>) {
        let Fitted {
            spec,
            renewed,
            requeued,
        } = match vacancies::fit(&running.spec, &whole.spec) {
            Ok(fitted) => fitted,
            Err(why) => return (whole, Err(why)),
        };
        let Some(mut fitted) = vacancies::with_tree(&whole, spec, &self.registry) else {
            return (whole, Err(WholeTree::OtherParents));
        };
        keep_numbers(running, &mut fitted);
        let few = by_class(running, &fitted, &renewed, &requeued);
        (fitted, few)
    }

    /// Makes the worker run a policy whose tree it adopts as a whole, or builds anew.
    fn put_whole(
        &self,
        running: &InterfacePolicy,
        whole: InterfacePolicy,
        by: &mut dyn Executes,
    ) -> Result<(InterfacePolicy, Adopted, Put), Refusal> {
        let mut whole = match running.plan.has_classes_of(&whole.plan) {
            true => whole,
            // With new places.
            false => vacancies::laid_out(&whole, &self.registry),
        };
        let renumbered = !running.plan.has_classes_of(&whole.plan);
        if !renumbered {
            keep_numbers(running, &mut whole);
        }
        let retune = Retune {
            plan: whole.plan.clone(),
            seed: secret_seed(),
            // The classes may have new numbers now.
            classify: (renumbered || !Arc::ptr_eq(&running.filters, &whole.filters))
                .then(|| by_filters(&whole)),
            bandwidth: other_bandwidth(running, &whole),
            guarantees: whole.guarantees(),
        };
        let put = Put {
            seed: retune.seed,
            class: None,
            reclassified: retune.classify.is_some(),
            bandwidth: retune.bandwidth,
        };
        let adopted = by.retune(retune)?;
        Ok((whole, adopted, put))
    }

    /// Writes changes of this interface down from now on. `begin` begins with that in the worker,
    /// and says how many changes that has made.
    pub(crate) fn log_changes(
        &self,
        path: PathId,
        begin: impl FnOnce() -> Result<u64, Refusal>,
    ) -> Result<Arc<ChangeLog>, Refusal> {
        // No change comes in between.
        let mut all = self.lock();
        let managed = all.iter_mut().find(|managed| managed.path == path);
        let managed = managed.ok_or_else(|| Refusal::new("it is no longer managed"))?;
        refuse_varying(&managed.policy)?;
        let log = Arc::new(ChangeLog::new(begin()?, Arc::clone(&managed.whole)));
        managed.log = Some(Arc::clone(&log));
        Ok(log)
    }

    /// Writes them down no more.
    pub(crate) fn forget_changes(&self, path: PathId) {
        let mut all = self.lock();
        let managed = all.iter_mut().filter(|managed| managed.path == path);
        managed.for_each(|managed| managed.log = None);
    }

    /// Makes the worker run a policy that was changed in the settings of this class alone, on an
    /// interface without reservations. The class, if the worker has adopted it alone.
    ///
    /// # Errors
    ///
    /// As [`InForce::put`].
    pub fn put_class(
        &self,
        changed: InterfacePolicy,
        class: &str,
    ) -> Result<(Adoption, Option<ClassId>), Refusal> {
        match self.adopts_class(&changed, class)? {
            None => Ok((self.put(changed.clone(), changed)?, None)),
            alone => Ok((Adoption::of_all(Adopted::InPlace), alone)),
        }
    }

    /// The class, if the worker has adopted it by itself.
    fn adopts_class(&self, changed: &InterfacePolicy, class: &str) -> Result<Option<ClassId>, Refusal> {
        let mut all = self.lock();
        let managed = all.iter_mut().find(|managed| managed.policy.name == changed.name);
        let Some((managed, class)) = managed.and_then(|managed| {
            let amended = managed.runs_policy() && managed.policy.plan.is_amended_by(&changed.plan);
            amended.then_some((managed, changed.plan.class(class)?))
        }) else {
            return Ok(None);
        };
        let retune = ClassRetune {
            plan: changed.plan.clone(),
            class,
            guarantee: changed.guarantee(class).unwrap_or(Bandwidth::ZERO),
        };
        let adopted = self.handle.retune_class(managed.path, retune).map_err(refused)?;
        if adopted == ClassAdopted::WholeOnly {
            return Ok(None);
        }
        let promised = Arc::new(changed.clone());
        let put = Put {
            seed: Seed(0),
            class: Some(class),
            reclassified: false,
            bandwidth: None,
        };
        managed.adopt((changed.clone(), promised, changed.clone()), Some(put));
        Ok(Some(class))
    }

    /// Makes the worker run a policy in which one class came or went, on an interface without
    /// reservations; by that class alone, if the worker can: then the class, too.
    ///
    /// # Errors
    ///
    /// As [`InForce::put`].
    pub fn put_changed(&self, changed: ClassChanged) -> Result<(Adoption, Option<ClassId>), Refusal> {
        let adopted = match changed.alone {
            true => self.adopts_changed(&changed)?,
            false => None,
        };
        match adopted {
            Some(adopted) => Ok((adopted, Some(changed.class))),
            None => Ok((self.put(changed.policy.clone(), changed.policy)?, None)),
        }
    }

    /// The same; `None` if nothing has changed, since that looks at all classes or filters.
    fn adopts_changed(&self, changed: &ClassChanged) -> Result<Option<Adoption>, Refusal> {
        let mut all = self.lock();
        let policy = &changed.policy;
        let managed = all.iter_mut().find(|managed| managed.policy.name == policy.name);
        let Some(managed) = managed.filter(|managed| managed.runs_policy()) else {
            return Ok(None);
        };
        let Some(changes) = one_class(&managed.policy, changed) else {
            return Ok(None);
        };
        let begins_anew = whole_tree::of_single_classes(&managed.policy, policy, &changes, &self.registry);
        let adopted = self.handle.change_classes(managed.path, changes);
        let Ok(adopted) = adopted.map_err(refused)? else {
            return Ok(None);
        };
        let promised = Arc::new(policy.clone());
        managed.adopt((policy.clone(), promised, policy.clone()), None);
        Ok(Some(Adoption { adopted, begins_anew }))
    }
}

/// How a running policy gets one other class, or loses one; `None` if too many others lose packets
/// to it.
fn one_class(running: &InterfacePolicy, changed: &ClassChanged) -> Option<ClassChanges> {
    let ClassChanged {
        policy,
        class,
        gone,
        come,
        ..
    } = changed;
    let filters = come.iter().map(|(_, filter)| filter);
    let mut affected: BTreeSet<ClassId> = filters
        .flat_map(|filter| vacancies::losing(&running.filters, filter))
        .collect();
    if !come.is_empty() {
        affected.extend(running.plan.default);
    }
    affected.remove(class);
    if affected.len() >= FEW {
        return None;
    }
    let seed = secret_seed();
    let (come_to, mut cut) = renewed(&running.plan, policy, &[*class], seed)?;
    cut.extend(affected_by(affected, &policy.plan, seed)?);
    cut.sort_by_key(|cut| cut.class);
    let few = FewFilters {
        gone: gone.clone(),
        come: come.clone(),
    };
    Some(ClassChanges {
        plan: policy.plan.clone(),
        bandwidth: None,
        come: come_to,
        cut,
        changed: Vec::new(),
        classify: (few != FewFilters::default()).then_some(Reclassified::ButFor(few)),
    })
}

/// These classes of a plan, from which others take packets, with queues for what stays.
fn affected_by(classes: BTreeSet<ClassId>, plan: &TreePlan, seed: Seed) -> Option<Vec<CutClass>> {
    let cut = |class| {
        Some(CutClass {
            class,
            queue: plan.build_class(class, seed)?,
            becomes: Becomes::Itself,
        })
    };
    classes.into_iter().map(cut).collect()
}

/// Places that have another class now, or none: those that come into vacant ones, and all others.
fn renewed(
    running: &TreePlan,
    whole: &InterfacePolicy,
    places: &[ClassId],
    seed: Seed,
) -> Option<(Vec<ComingClass>, Vec<CutClass>)> {
    let (mut come, mut cut) = (Vec::new(), Vec::new());
    for &class in places {
        let queue = whole.plan.build_class(class, seed)?;
        let guarantee = whole.guarantee(class).unwrap_or(Bandwidth::ZERO);
        let [was, is] = [running, &whole.plan].map(|plan| Some(plan.info(class)?.vacant));
        if was? {
            come.push(ComingClass {
                class,
                queue,
                guarantee,
            });
            continue;
        }
        cut.push(CutClass {
            class,
            queue,
            becomes: match is? {
                true => Becomes::Vacant,
                false => Becomes::Another(guarantee),
            },
        });
    }
    Some((come, cut))
}

/// The rate to which an interface is shaped from now on, if it is another one. Another thread gives
/// those that follow their lines their rates.
fn other_bandwidth(running: &InterfacePolicy, whole: &InterfacePolicy) -> Option<Bandwidth> {
    Some(whole.link().bandwidth)
        .filter(|bandwidth| *bandwidth != running.link().bandwidth && whole.autorate.is_none())
}

/// The same filters have the same numbers: those that the worker's classifier knows.
fn keep_numbers(running: &InterfacePolicy, whole: &mut InterfacePolicy) {
    if running.filters == whole.filters {
        whole.filters = Arc::clone(&running.filters);
    }
}

/// How the running tree becomes another with the same places, of which these have other classes or
/// queues.
///
/// # Errors
///
/// If that is not done by the class.
fn by_class(
    running: &InterfacePolicy,
    whole: &InterfacePolicy,
    places: &[usize],
    requeued: &[usize],
) -> Result<ClassChanges, WholeTree> {
    let ids = |numbers: &[usize]| -> Vec<ClassId> {
        let id = |&number: &usize| ClassId(u32::try_from(number).unwrap_or(u32::MAX));
        numbers.iter().map(id).collect()
    };
    let (mut places, requeued) = (ids(places), ids(requeued));
    places.sort_unstable();
    let mut changed: BTreeSet<ClassId> = requeued.into_iter().collect();
    let others = whole.plan.changed_classes(&running.plan, &places);
    changed.extend(others.ok_or(WholeTree::AsAWhole)?);
    // A queue adopts its settings with all classes that are in it.
    let inside = |class: &ClassId| whole.spec.classes.get(class.0 as usize);
    let crowded = |class: &ClassSpec| class.discipline.as_ref().map_or(0, vacancies::classes_in) > FEW;
    if let Some(crowded) = changed.iter().filter_map(inside).find(|class| crowded(class)) {
        return Err(WholeTree::Crowded(crowded.name.as_str().into()));
    }
    let mut affected = vacancies::affected(running, whole).ok_or(WholeTree::Filters)?;
    affected.retain(|class| places.binary_search(class).is_err());
    let concerned = places.len() + affected.len();
    if concerned > MANY {
        return Err(WholeTree::TooMany(concerned));
    }
    let guarantee = |class: ClassId| whole.guarantee(class).unwrap_or(Bandwidth::ZERO);
    let seed = secret_seed();
    let kept = || WholeTree::AsAWhole;
    let (come, mut cut) = renewed(&running.plan, whole, &places, seed).ok_or_else(kept)?;
    cut.extend(affected_by(affected, &whole.plan, seed).ok_or_else(kept)?);
    cut.sort_by_key(|cut| cut.class);
    let same = Arc::ptr_eq(&running.filters, &whole.filters) && running.plan.default == whole.plan.default;
    Ok(ClassChanges {
        plan: whole.plan.clone(),
        bandwidth: other_bandwidth(running, whole),
        come,
        cut,
        changed: changed
            .into_iter()
            .map(|class| ChangedSettings {
                class,
                guarantee: guarantee(class),
            })
            .collect(),
        classify: (!same).then(|| Reclassified::Anew(by_filters(whole))),
    })
}

impl Trees for Arc<InForce> {
    fn managed(&self) -> Vec<InterfacePolicy> {
        self.lock().iter().map(|managed| managed.policy.clone()).collect()
    }

    fn adopt(&self, policy: &InterfacePolicy, layout: ReservedLayout) -> Result<Vec<ClassesAnew>, Refusal> {
        let put = self.put(policy.clone(), policy.with_reservations(layout));
        put.map(|adoption| adoption.begins_anew)
    }
}

/// The refusal if the worker does not execute a command.
pub fn refused(why: Unanswered) -> Refusal {
    Refusal::new(why.to_string())
}

#[cfg(test)]
mod tests;
