//! The budget of the frame pool: how many slots the frames of each class may occupy.
//!
//! Memory is reserved as bandwidth is. Seven eighths of the slots of each size are for queues; the
//! rest is for frames in ports and in bypass, and for what arrives. Of these seven eighths, half is
//! reserved: for each interface with a policy alike (for one without, an eighth of that), and
//! within an interface for each class that takes packets, one half in equal parts and the other in
//! proportion to the rates that the policy guarantees. A class is always given its reserve. When
//! one class alone is guaranteed another rate, its reserve changes in the proportion of the last
//! division; when the sum of the rates has moved by more than an eighth, there is another division,
//! and each class gets its part of that [piece by piece](Budget::divide_on).
//!
//! The other half is shared by dynamic thresholds (Choudhury and Hahne, "Dynamic queue length
//! thresholds for shared-memory packet switches", IEEE/ACM Transactions on Networking 6(2), 1998):
//! beyond its reserve a class may occupy up to [`ALPHA`] times what is free. So when memory is
//! short the longest queues are the first that get no more. Receiving never stops: what arrives has
//! the eighth that is in no budget. It departs from pushing packets out of the longest queue (as
//! CAKE does for its own limit) in that nothing queued is dropped; the longest queue drops what
//! arrives for it instead.
//!
//! A worker of whose paths none has a policy has no budget: an emulated link counts all that is in
//! flight on it, and its pool is sized for that.

use engine::packet::ClassId;
use engine::tree::{ClassInfo, TreePlan};
use engine::units::Bandwidth;

/// Slot sizes.
const SIZES: usize = 2;

/// How often what is free a class may occupy beyond its reserve: one alone two thirds of what is
/// shared.
const ALPHA: u64 = 2;

/// One part in so many of the slots is in no budget.
const IN_FLIGHT: u32 = 8;

/// Nor are so many of the big ones, half at most: each port keeps a batch of them to receive into.
const RECEIVING: u32 = 192;

/// How far the sum of the guaranteed rates may move, in parts of itself, before all is divided
/// anew.
const DRIFT: u128 = 8;

/// Of so many classes all is divided anew when one comes or goes; of more, one that comes has what
/// the last division gave to each, as far as there is as much.
const FEW: usize = 1_024;

/// A path without a policy counts as so much less than one with a policy.
const UNMANAGED: u64 = 8;

/// How many of these slots, the small and the big ones, queued frames may occupy.
pub(crate) fn for_queues([small, big]: [u32; SIZES]) -> [u32; SIZES] {
    let receiving = RECEIVING.min(big / 2);
    [small - small / IN_FLIGHT, big - (big / IN_FLIGHT).max(receiving)]
}

/// Who occupies a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Owner {
    pub(crate) path: u16,
    /// How often the path's classes had been numbered anew.
    pub(crate) numbering: u16,
    pub(crate) class: ClassId,
}

/// Whether a frame may occupy its slot until it leaves.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    /// It may, and is charged.
    Charged,
    /// Its class has had its part, and what is shared is short.
    Short,
}

/// What one path needs of the pool.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) enum Claim {
    /// It has no policy: one short queue.
    #[default]
    Unmanaged,
    /// Of each class by number: whether it takes packets, and the rate in bit/s that it is
    /// guaranteed.
    Managed(Vec<Option<u64>>),
}

impl Claim {
    /// The claim of a path with this plan, of whose classes these are guaranteed rates.
    pub(crate) fn of(plan: Option<&TreePlan>, guarantees: &[(ClassId, Bandwidth)]) -> Self {
        let Some(plan) = plan else { return Self::Unmanaged };
        let leaf = |info: &ClassInfo| (info.leaf && !info.vacant).then_some(0);
        let mut classes: Vec<_> = plan.classes.iter().map(leaf).collect();
        if classes.is_empty() {
            classes.push(Some(0));
        }
        for (class, rate) in guarantees {
            if let Some(Some(guaranteed)) = classes.get_mut(class.0 as usize) {
                *guaranteed = rate.bits();
            }
        }
        Self::Managed(classes)
    }

    fn weight(&self) -> u64 {
        match self {
            Self::Unmanaged => 1,
            Self::Managed(_) => UNMANAGED,
        }
    }

    fn classes(&self) -> &[Option<u64>] {
        match self {
            Self::Unmanaged => &[Some(0)],
            Self::Managed(classes) => classes,
        }
    }
}

/// The slots of one class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Account {
    used: [u32; SIZES],
    reserve: [u32; SIZES],
}

impl Account {
    /// What it occupies beyond its reserve.
    fn beyond(&self, size: usize) -> u32 {
        self.used[size].saturating_sub(self.reserve[size])
    }

    /// Occupies one more; how many more that is beyond its reserve.
    fn take(&mut self, size: usize) -> u32 {
        let before = self.beyond(size);
        self.used[size] += 1;
        self.beyond(size) - before
    }
}

/// How the slots of one size that are reserved for a path were divided among its classes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Division {
    /// For each class that takes packets.
    each: u64,
    /// In proportion to the rates, together.
    by_rate: u64,
    /// The sum of the rates.
    rates: u128,
    /// Classes that take packets.
    leaves: u64,
}

impl Division {
    fn new(classes: &[Option<u64>], slots: u64) -> Self {
        let leaves = classes.iter().flatten().count() as u64;
        let rates = classes.iter().flatten().map(|rate| u128::from(*rate)).sum();
        Self::of(leaves, rates, slots)
    }

    /// Among so many classes that take packets, with this sum of their rates.
    fn of(leaves: u64, rates: u128, slots: u64) -> Self {
        let by_rate = if rates == 0 { 0 } else { slots - slots / 2 };
        Self {
            each: (slots - by_rate) / leaves.max(1),
            by_rate,
            rates,
            leaves,
        }
    }

    /// The reserve of a class, if it takes packets: by its rate.
    fn part(&self, class: Option<u64>) -> u32 {
        let part = class.map_or(0, |rate| {
            let by_rate = u128::from(self.by_rate) * u128::from(rate) / self.rates.max(1);
            u128::from(self.each) + by_rate
        });
        u32::try_from(part).unwrap_or(u32::MAX)
    }
}

/// The classes of one path, together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Sums {
    /// How often they have been numbered anew.
    numbering: u16,
    /// Their reserves.
    given: [u32; SIZES],
    /// What they occupy beyond them.
    beyond: [u32; SIZES],
}

/// Of each slot size, how many are reserved for the classes of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ReservedSlots([u64; SIZES]);

/// A claim of the classes of another tree, with its division, which is made beside the packet loop.
/// After [`Budget::succeed`], what it has replaced.
#[derive(Debug)]
pub(crate) struct PreparedClaim {
    /// The claim.
    pub(crate) claim: Claim,
    accounts: Vec<Account>,
    divisions: [Division; SIZES],
    given: [u32; SIZES],
    reserved: ReservedSlots,
}

impl PreparedClaim {
    /// Of a path for whose classes so much is reserved.
    pub(crate) fn new(claim: Claim, reserved: ReservedSlots) -> Self {
        let divisions = reserved.0.map(|slots| Division::new(claim.classes(), slots));
        let account = |class: &Option<u64>| Account {
            used: [0; SIZES],
            reserve: divisions.map(|division| division.part(*class)),
        };
        let accounts: Vec<Account> = claim.classes().iter().map(account).collect();
        let given = |size: usize| accounts.iter().map(|account| account.reserve[size]).sum();
        Self {
            given: std::array::from_fn(given),
            claim,
            accounts,
            divisions,
            reserved,
        }
    }
}

/// The part of the slots of one size that no class has alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Shared {
    total: u32,
    used: u32,
}

/// The budget of a pool.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    claims: Vec<Claim>,
    accounts: Vec<Vec<Account>>,
    /// Of each path.
    divisions: Vec<[Division; SIZES]>,
    /// The sum of the rates of each path now, and how many classes take packets.
    claimed: Vec<(u128, u64)>,
    /// The class of each path up to which all have their parts of its division; none if all do.
    dividing: Vec<Option<u32>>,
    sums: Vec<Sums>,
    shared: [Shared; SIZES],
    /// Some path has a policy.
    in_force: bool,
}

impl Budget {
    /// This path has this claim from now on.
    pub(crate) fn claim(&mut self, path: usize, claim: Claim, slots: [u32; SIZES]) {
        if self.claims.len() <= path {
            self.claims.resize(path + 1, Claim::Unmanaged);
            self.accounts.resize_with(path + 1, Vec::new);
            self.divisions.resize(path + 1, Default::default());
            self.claimed.resize(path + 1, (0, 0));
            self.dividing.resize(path + 1, None);
            self.sums.resize(path + 1, Sums::default());
        }
        self.claims[path] = claim;
        self.divide(slots);
    }

    /// What is reserved for the classes of this path, if it has a policy.
    pub(crate) fn reserved(&self, path: usize, slots: [u32; SIZES]) -> ReservedSlots {
        let weight = |(number, claim): (usize, &Claim)| match number == path {
            true => UNMANAGED,
            false => claim.weight(),
        };
        let weights: u64 = self.claims.iter().enumerate().map(weight).sum();
        let reserved = |queues: u32| u64::from(queues / 2) * UNMANAGED / weights.max(1);
        ReservedSlots(for_queues(slots).map(reserved))
    }

    /// From now on this path has this claim, for the same classes, which get their parts piece by
    /// piece. What it has replaced is left in `prepared`.
    pub(crate) fn adopt(&mut self, path: usize, prepared: &mut PreparedClaim, slots: [u32; SIZES]) {
        std::mem::swap(&mut self.claims[path], &mut prepared.claim);
        if prepared.claim == Claim::Unmanaged || prepared.reserved != self.reserved(path, slots) {
            return self.divide(slots);
        }
        self.adopt_divisions(path, prepared.divisions);
        self.dividing[path] = Some(0);
    }

    fn adopt_divisions(&mut self, path: usize, divisions: [Division; SIZES]) {
        self.divisions[path] = divisions;
        self.claimed[path] = (divisions[0].rates, divisions[0].leaves);
    }

    /// From now on another tree of this path has this claim. What its former tree still occupies
    /// is forgotten: to be queued, it is charged anew. In a time that does not grow with the number
    /// of classes, for a path that had a policy.
    pub(crate) fn succeed(
        &mut self,
        path: usize,
        numbering: u16,
        prepared: &mut PreparedClaim,
        slots: [u32; SIZES],
    ) {
        std::mem::swap(&mut self.claims[path], &mut prepared.claim);
        std::mem::swap(&mut self.accounts[path], &mut prepared.accounts);
        self.adopt_divisions(path, prepared.divisions);
        self.dividing[path] = None;
        let new = Sums {
            numbering,
            given: prepared.given,
            beyond: [0; SIZES],
        };
        let old = std::mem::replace(&mut self.sums[path], new);
        if prepared.claim == Claim::Unmanaged || prepared.reserved != self.reserved(path, slots) {
            return self.divide(slots);
        }
        for (size, shared) in self.shared.iter_mut().enumerate() {
            shared.total = shared.total + old.given[size] - new.given[size];
            shared.used -= old.beyond[size];
        }
    }

    /// From now on this class of a path is guaranteed this rate, or takes no packets; in a time
    /// that does not grow with the number of classes. If there is another division by that, others
    /// get their parts of it later.
    pub(crate) fn claim_rate(&mut self, owner: Owner, rate: Option<u64>, slots: [u32; SIZES]) {
        let (path, class) = (usize::from(owner.path), owner.class.0 as usize);
        let Some(Claim::Managed(classes)) = self.claims.get_mut(path) else {
            return;
        };
        let few = classes.len() <= FEW;
        let Some(claimed) = classes.get_mut(class) else {
            return;
        };
        let old = std::mem::replace(claimed, rate);
        let came_or_went = old.is_some() != rate.is_some();
        let bits = |rate: Option<u64>| u128::from(rate.unwrap_or(0));
        let (rates, leaves) = &mut self.claimed[path];
        *rates = *rates + bits(rate) - bits(old);
        *leaves = *leaves + u64::from(rate.is_some()) - u64::from(old.is_some());
        let (rates, leaves) = (*rates, *leaves);
        let divided = self.divisions[path][0].rates;
        if came_or_went && few || rates.abs_diff(divided) > divided / DRIFT {
            let ReservedSlots(reserved) = self.reserved(path, slots);
            self.divisions[path] = reserved.map(|slots| Division::of(leaves, rates, slots));
            self.dividing[path] = Some(0);
            if few {
                self.divide_on(FEW);
            }
        }
        self.give_part(path, class);
    }

    /// Gives so many classes of each path their parts of its last division, if not all have them.
    pub(crate) fn divide_on(&mut self, most: usize) {
        for path in 0..self.dividing.len() {
            let Some(next) = self.dividing[path].take() else {
                continue;
            };
            let (next, all) = (next as usize, self.accounts[path].len());
            let until = next.saturating_add(most).min(all);
            (next..until).for_each(|class| self.give_part(path, class));
            self.dividing[path] = (until < all).then_some(until as u32);
        }
    }

    /// Whether there are classes without their parts of the last division.
    pub(crate) fn is_dividing(&self) -> bool {
        self.dividing.iter().any(Option::is_some)
    }

    /// Gives a class its part of the last division, as far as others leave so much.
    fn give_part(&mut self, path: usize, class: usize) {
        let rate = self.claims[path].classes().get(class).copied().flatten();
        let (account, sums) = (&mut self.accounts[path][class], &mut self.sums[path]);
        for (size, shared) in self.shared.iter_mut().enumerate() {
            let part = self.divisions[path][size].part(rate);
            let before = (account.reserve[size], account.beyond(size));
            let part = part.min(shared.total + before.0);
            account.reserve[size] = part;
            sums.given[size] = sums.given[size] + part - before.0;
            sums.beyond[size] = sums.beyond[size] + account.beyond(size) - before.1;
            shared.total = shared.total + before.0 - part;
            shared.used = shared.used + account.beyond(size) - before.1;
        }
    }

    fn divide(&mut self, slots: [u32; SIZES]) {
        self.dividing.fill(None);
        self.in_force = self.claims.iter().any(|claim| *claim != Claim::Unmanaged);
        for (claim, accounts) in self.claims.iter().zip(&mut self.accounts) {
            accounts.resize(claim.classes().len(), Account::default());
        }
        let weights: u64 = self.claims.iter().map(Claim::weight).sum();
        for (size, queues) in for_queues(slots).into_iter().enumerate() {
            let reserved = u64::from(queues / 2);
            let accounts = self.accounts.iter_mut().zip(&mut self.divisions);
            let paths = self.claims.iter().zip(accounts).zip(&mut self.claimed);
            for ((claim, (accounts, divisions)), claimed) in paths {
                let division = Division::new(claim.classes(), reserved * claim.weight() / weights);
                for (class, account) in claim.classes().iter().zip(accounts) {
                    account.reserve[size] = division.part(*class);
                }
                divisions[size] = division;
                *claimed = (division.rates, division.leaves);
            }
            for (accounts, sums) in self.accounts.iter().zip(&mut self.sums) {
                sums.given[size] = accounts.iter().map(|account| account.reserve[size]).sum();
                sums.beyond[size] = accounts.iter().map(|account| account.beyond(size)).sum();
            }
            self.shared[size] = Shared {
                total: queues - self.sums.iter().map(|sums| sums.given[size]).sum::<u32>(),
                used: self.sums.iter().map(|sums| sums.beyond[size]).sum(),
            };
        }
    }

    /// None of a tree that has been replaced.
    fn account(&mut self, owner: Owner) -> Option<&mut Account> {
        let path = usize::from(owner.path);
        let accounts = self.accounts.get_mut(path)?;
        if self.sums[path].numbering != owner.numbering {
            return None;
        }
        // What has no class of its own is counted with the first.
        let class = Some(owner.class.0 as usize).filter(|class| *class < accounts.len());
        accounts.get_mut(class.unwrap_or(0))
    }

    /// Charges a slot of this size, if the owner may have one more.
    pub(crate) fn charge(&mut self, owner: Owner, size: usize) -> Admission {
        if !self.in_force {
            return Admission::Charged;
        }
        let shared = self.shared[size];
        let alone = self.accounts.len() == 1 && self.accounts[0].len() == 1;
        let Some(account) = self.account(owner) else {
            return Admission::Charged;
        };
        if account.used[size] >= account.reserve[size] {
            let free = shared.total.saturating_sub(shared.used);
            let beyond = u64::from(account.beyond(size));
            if free == 0 || (!alone && beyond >= ALPHA * u64::from(free)) {
                return Admission::Short;
            }
        }
        let beyond = account.take(size);
        self.share(owner, size, beyond);
        Admission::Charged
    }

    /// Charges a slot of this size, of a frame that has waited in another tree: its class keeps
    /// what it has, though another may be guaranteed more now, and takes in no more until it has as
    /// much as it may.
    pub(crate) fn keep(&mut self, owner: Owner, size: usize) {
        if !self.in_force {
            return;
        }
        if let Some(account) = self.account(owner) {
            let beyond = account.take(size);
            self.share(owner, size, beyond);
        }
    }

    /// A class has so many more of what is shared.
    fn share(&mut self, owner: Owner, size: usize, more: u32) {
        self.shared[size].used += more;
        self.sums[usize::from(owner.path)].beyond[size] += more;
    }

    /// Gives back what was charged.
    pub(crate) fn discharge(&mut self, owner: Owner, size: usize) {
        if !self.in_force {
            return;
        }
        let Some(account) = self.account(owner) else {
            return;
        };
        let beyond = account.beyond(size) > 0;
        debug_assert!(
            account.used[size] > 0,
            "{owner:?} gives back what it does not have"
        );
        account.used[size] = account.used[size].saturating_sub(1);
        if beyond {
            self.shared[size].used -= 1;
            self.sums[usize::from(owner.path)].beyond[size] -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: [u32; SIZES] = [32_768, 2_048];

    fn owner(class: u32) -> Owner {
        Owner {
            path: 0,
            numbering: 0,
            class: ClassId(class),
        }
    }

    fn take_all(budget: &mut Budget, class: u32) -> u32 {
        let takes = || budget.charge(owner(class), 0) == Admission::Charged;
        std::iter::repeat_with(takes).take_while(|took| *took).count() as u32
    }

    #[test]
    fn whoever_takes_all_that_he_can_leaves_the_others_their_reserve_and_a_third_of_what_is_shared() {
        let mut budget = Budget::default();
        let mut classes = vec![Some(10_000); 401];
        classes[400] = Some(20_000_000);
        budget.claim(0, Claim::Managed(classes), SLOTS);
        take_all(&mut budget, 0);
        let Shared { total, used } = budget.shared[0];
        assert!((total - used).abs_diff(total / 3) <= 1, "{used} of {total}");
        let others: u32 = (1..400).map(|class| take_all(&mut budget, class)).sum();
        assert!(others > total / 4, "{others}");
        // A quarter of what is reserved by number, and almost all that is reserved by rate.
        let voice = take_all(&mut budget, 400);
        assert!(voice > 5_000, "{voice}");
    }

    #[test]
    fn what_was_taken_and_given_back_is_as_if_it_had_not_been_taken() {
        let mut budget = Budget::default();
        budget.claim(0, Claim::Managed(vec![None, Some(0), Some(7)]), SLOTS);
        let before = (budget.shared, budget.accounts.clone());
        for class in [1, 2, 1] {
            let took = take_all(&mut budget, class);
            (0..took).for_each(|_| budget.discharge(owner(class), 0));
        }
        assert_eq!((budget.shared, budget.accounts.clone()), before);
    }

    #[test]
    fn a_new_claim_counts_what_is_occupied() {
        let mut budget = Budget::default();
        budget.claim(0, Claim::Managed(vec![Some(1), Some(1)]), SLOTS);
        let took = take_all(&mut budget, 0);
        budget.claim(0, Claim::Managed(vec![Some(1), Some(9)]), SLOTS);
        assert_eq!(budget.accounts[0][0].used[0], took);
        (0..took).for_each(|_| budget.discharge(owner(0), 0));
        assert_eq!(budget.shared[0].used, 0);
    }

    #[test]
    fn classes_that_are_guaranteed_other_rates_one_by_one_have_what_a_division_gives_them() {
        let mut random = engine::random::Seed(1).stream();
        for round in 0..200 {
            let count = 1 + random.below(40) as usize;
            let mut classes: Vec<Option<u64>> = (0..count).map(|_| Some(random.below(1_000))).collect();
            classes[0] = None;
            let [mut one, mut all] = [Budget::default(), Budget::default()];
            one.claim(0, Claim::Managed(classes.clone()), SLOTS);
            one.claim(1, Claim::Unmanaged, SLOTS);
            all.claim(1, Claim::Unmanaged, SLOTS);
            let mut held = vec![0; count];
            for _ in 0..60 {
                let class = random.below(count as u64) as u32;
                let taken =
                    (0..random.below(60)).filter(|_| one.charge(owner(class), 0) == Admission::Charged);
                held[class as usize] += taken.count();
                let class = random.below(count as u64) as u32;
                let rate = random.below(1_000);
                one.claim_rate(owner(class), Some(rate), SLOTS);
                assert!(!one.is_dividing());
                classes[class as usize] = Some(rate);
                all.claim(0, Claim::Managed(classes.clone()), SLOTS);
                let reserved = |budget: &Budget| -> u32 {
                    budget
                        .accounts
                        .iter()
                        .flatten()
                        .map(|account| account.reserve[0])
                        .sum()
                };
                // What is shared is what is not reserved.
                assert_eq!(
                    one.shared[0].total + reserved(&one),
                    all.shared[0].total + reserved(&all)
                );
                let beyond: u32 = one
                    .accounts
                    .iter()
                    .flatten()
                    .map(|account| account.beyond(0))
                    .sum();
                assert_eq!(one.shared[0].used, beyond, "round {round}");
                for (one, all) in one.accounts[0].iter().zip(&all.accounts[0]) {
                    let (one, all) = (f64::from(one.reserve[0]), f64::from(all.reserve[0]));
                    assert!((one - all).abs() <= all / 7.0 + 1.0, "{one} against {all}");
                }
            }
            for (class, held) in held.into_iter().enumerate() {
                (0..held).for_each(|_| one.discharge(owner(class as u32), 0));
            }
            assert_eq!(one.shared[0].used, 0);
            one.claim(0, Claim::Managed(classes), SLOTS);
            assert_eq!(
                (one.shared, &one.accounts[0][0]),
                (all.shared, &all.accounts[0][0])
            );
        }
    }

    #[test]
    fn very_many_classes_get_their_parts_of_another_division_in_pieces_and_in_the_end_what_one_gives() {
        const MANY: u32 = 5_000;
        const SLOTS: [u32; SIZES] = [200_000, 20_000];
        let rate = |class: u32| Some(u64::from(class % 7) * 1_000);
        let [mut pieces, mut whole] = [Budget::default(), Budget::default()];
        let mut classes: Vec<_> = (0..MANY).map(rate).collect();
        pieces.claim(0, Claim::Managed(classes.clone()), SLOTS);
        // Some are beyond their reserve, which changes.
        let took: Vec<u32> = [1, 2, 6].map(|class| take_all(&mut pieces, class)).into();
        let mut divisions = 0;
        for class in 0..MANY {
            let rate = rate(class).map(|rate| rate * 3);
            pieces.claim_rate(owner(class), rate, SLOTS);
            classes[class as usize] = rate;
            if class % 64 == 0 {
                divisions += u32::from(pieces.dividing[0] == Some(0));
                pieces.divide_on(256);
            }
            let given: u32 = pieces.accounts[0].iter().map(|account| account.reserve[0]).sum();
            if class % 500 == 0 {
                assert_eq!(given, pieces.sums[0].given[0]);
                assert_eq!(given + pieces.shared[0].total, for_queues(SLOTS)[0]);
            }
        }
        assert!(divisions > 4, "{divisions} divisions");
        while pieces.is_dividing() {
            pieces.divide_on(256);
        }
        whole.claim(0, Claim::Managed(classes.clone()), SLOTS);
        let near = |a: u32, b: u32| a.abs_diff(b) <= b / 7 + 1;
        let both = pieces.accounts[0].iter().zip(&whole.accounts[0]);
        both.for_each(|(a, b)| assert!(near(a.reserve[0], b.reserve[0]), "{a:?}, {b:?}"));
        // The same claim as a whole, in place: exactly what one division gives.
        let reserved = pieces.reserved(0, SLOTS);
        pieces.adopt(
            0,
            &mut PreparedClaim::new(Claim::Managed(classes), reserved),
            SLOTS,
        );
        assert!(pieces.is_dividing());
        while pieces.is_dividing() {
            pieces.divide_on(256);
        }
        let reserves = |budget: &Budget| -> Vec<_> {
            budget.accounts[0].iter().map(|account| account.reserve).collect()
        };
        assert_eq!(reserves(&pieces), reserves(&whole));
        assert_eq!(pieces.divisions, whole.divisions);
        for (class, took) in [1, 2, 6].into_iter().zip(took) {
            (0..took).for_each(|_| pieces.discharge(owner(class), 0));
        }
        assert_eq!((pieces.shared, &pieces.accounts), (whole.shared, &whole.accounts));
    }

    #[test]
    fn the_claim_of_another_tree_is_as_if_it_was_the_first_and_what_the_former_had_is_forgotten() {
        let classes = |number: usize| -> Vec<Option<u64>> {
            let rate = |class| (class % 5 != 4).then_some(class as u64 * 1_000);
            (0..number).map(rate).collect()
        };
        let (mut budget, mut fresh) = (Budget::default(), Budget::default());
        for budget in [&mut budget, &mut fresh] {
            budget.claim(1, Claim::Unmanaged, SLOTS);
        }
        budget.claim(0, Claim::Managed(classes(10)), SLOTS);
        fresh.claim(0, Claim::Managed(classes(30)), SLOTS);
        let before = [3, 0, 1].map(|class| take_all(&mut budget, class));
        assert!(budget.shared[0].used > 0 && before[0] > 0);
        let other = Owner { path: 1, ..owner(0) };
        assert_eq!(budget.charge(other, 0), fresh.charge(other, 0));
        budget.claim_rate(owner(2), Some(500), SLOTS);
        let mut prepared = PreparedClaim::new(Claim::Managed(classes(30)), budget.reserved(0, SLOTS));
        budget.succeed(0, 1, &mut prepared, SLOTS);
        assert_eq!((budget.shared, &budget.accounts), (fresh.shared, &fresh.accounts));
        assert_eq!(budget.divisions, fresh.divisions);
        // What was charged before is given back to nobody.
        (0..before[0]).for_each(|_| budget.discharge(owner(3), 0));
        assert_eq!((budget.shared, &budget.accounts), (fresh.shared, &fresh.accounts));
        // The same is divided anew, at leisure.
        let shared = budget.shared;
        budget.divide(SLOTS);
        assert_eq!(budget.shared, shared);
        let took = |budget: &mut Budget, numbering| {
            let takes = || {
                budget.charge(
                    Owner {
                        numbering,
                        ..owner(3)
                    },
                    0,
                ) == Admission::Charged
            };
            std::iter::repeat_with(takes).take_while(|took| *took).count()
        };
        assert_eq!(took(&mut budget, 1), took(&mut fresh, 0));
        // A path that had no policy: the others' parts become less.
        let mut prepared = PreparedClaim::new(Claim::Managed(classes(7)), budget.reserved(1, SLOTS));
        budget.succeed(1, 1, &mut prepared, SLOTS);
        let mut both = Budget::default();
        both.claim(1, Claim::Managed(classes(7)), SLOTS);
        both.claim(0, Claim::Managed(classes(30)), SLOTS);
        assert_eq!(budget.shared[0].total, both.shared[0].total);
        assert_eq!(budget.divisions, both.divisions);
    }

    #[test]
    fn what_waits_is_kept_though_another_class_of_the_next_tree_is_guaranteed_more() {
        let mut budget = Budget::default();
        budget.claim(0, Claim::Managed(vec![Some(1), Some(1)]), SLOTS);
        let took = take_all(&mut budget, 0);
        let claim = Claim::Managed(vec![Some(1), Some(1), Some(9)]);
        let mut prepared = PreparedClaim::new(claim, budget.reserved(0, SLOTS));
        budget.succeed(0, 1, &mut prepared, SLOTS);
        let next = |class| Owner {
            numbering: 1,
            ..owner(class)
        };
        (0..took).for_each(|_| budget.keep(next(0), 0));
        assert_eq!(budget.accounts[0][0].used[0], took);
        // It takes in no more, and the other has its reserve.
        assert_eq!(budget.charge(next(0), 0), Admission::Short);
        let reserve = budget.accounts[0][2].reserve[0];
        let others = (0..reserve).filter(|_| budget.charge(next(2), 0) == Admission::Charged);
        assert_eq!(others.count() as u32, reserve);
        (0..took).for_each(|_| budget.discharge(next(0), 0));
        (0..reserve).for_each(|_| budget.discharge(next(2), 0));
        assert_eq!(budget.shared[0].used, 0);
        budget.divide(SLOTS);
        assert_eq!(budget.shared[0].used, 0);
    }

    #[test]
    fn one_class_alone_may_have_all_and_a_worker_without_policy_has_no_budget() {
        let mut budget = Budget::default();
        budget.claim(0, Claim::Unmanaged, SLOTS);
        assert_eq!(
            (0..100_000).find(|_| budget.charge(owner(0), 0) == Admission::Short),
            None
        );
        budget.claim(0, Claim::Managed(vec![Some(0)]), SLOTS);
        assert_eq!(take_all(&mut budget, 0), SLOTS[0] - SLOTS[0] / IN_FLIGHT);
        assert_eq!([for_queues([64, 338]), for_queues([64, 1])], [[56, 169], [56, 1]]);
    }
}
