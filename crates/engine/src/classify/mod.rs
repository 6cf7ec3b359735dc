//! Filters, and the classifier that finds the one that matches a packet.
//!
//! Follows the classifier of ALTQ (Cho 1999, section 4.2.1) in what a filter can express, and
//! departs from it in two ways. There, a filter with an exact destination beat every other whatever
//! its rule number, since the search looked there first; here precedence is explicit, and the
//! result does not depend on the search. There, all other filters stood in one list that was
//! searched from end to end; here the cost does not grow with their number (see
//! `docs/decisions/classifier.md` for the search, and what was measured).
//!
//! **Precedence.** Of the filters that match, the one wins with
//! 1. the higher rule number ([`Filter::rule`], 0 if not given);
//! 2. among equals, the more fixed bits ([`Filter::fixed_bits`]);
//! 3. among equals, the later one to be added.
//!
//! **Ports.** A filter with a port range, be it 0–65535, matches only packets whose ports can be
//! seen: not a later fragment, not a packet truncated before its ports, not ICMP. Flags of TCP
//! likewise.

mod filter;
mod pattern;
mod space;
mod table;

pub use filter::{DscpPattern, Filter, FilterError, FlagPattern, Lengths, Ports, Prefix};

use crate::header::{Family, FlowKey};
use crate::packet::ClassId;
use crate::random::Seed;
use crate::structures::shared_list::SharedList;
use pattern::{Entry, LONG, Masks, SHORT, Secret, id, rank, words};
use space::{Match, Space};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// A filter of a classifier, from when it is added until it is removed. Later ones are greater;
/// none is used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FilterId(pub u64);

/// How many filters there are, how many of them divide flows, and a sum over them and their numbers
/// that hardly any others have: to compare lists without a look at each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FilterSum {
    /// How many.
    pub filters: usize,
    dividing: usize,
    sum: u64,
}

impl FilterSum {
    /// Of these.
    pub fn of<'a>(filters: impl IntoIterator<Item = (FilterId, &'a Filter)>) -> Self {
        let mut all = Self::default();
        filters.into_iter().for_each(|(id, filter)| all.add(id, filter));
        all
    }

    /// One comes.
    pub fn add(&mut self, id: FilterId, filter: &Filter) {
        self.filters += 1;
        self.dividing += usize::from(filter.divides_flows());
        self.sum = self.sum.wrapping_add(part(id, filter));
    }

    /// One of them goes.
    pub fn remove(&mut self, id: FilterId, filter: &Filter) {
        self.filters -= 1;
        self.dividing -= usize::from(filter.divides_flows());
        self.sum = self.sum.wrapping_sub(part(id, filter));
    }
}

fn part(id: FilterId, filter: &Filter) -> u64 {
    let mut hasher = DefaultHasher::new();
    (id, filter).hash(&mut hasher);
    hasher.finish()
}

/// The filters of a classifier by their numbers. What it began with is shared with whoever has the
/// list: of very many it is as long as the search. Changes stand beside it, so that none copies a
/// part of the list.
#[derive(Clone, Debug, Default)]
struct Numbered {
    first: SharedList<Option<Filter>>,
    /// Those of the list that were removed.
    gone: BTreeSet<u64>,
    /// Those that came, which are later than the list.
    come: BTreeMap<u64, Filter>,
}

impl Numbered {
    /// All, in order.
    fn iter(&self) -> impl Iterator<Item = (u64, &Filter)> {
        let first = (0..).zip(self.first.iter());
        let first = first.filter_map(|(id, filter)| Some((id, filter.as_ref()?)));
        let stay = first.filter(|(id, _)| !self.gone.contains(id));
        stay.chain(self.come.iter().map(|(id, filter)| (*id, filter)))
    }

    fn get(&self, id: u64) -> Option<&Filter> {
        let first = usize::try_from(id).ok().and_then(|place| self.first.get(place));
        let stays = first
            .and_then(Option::as_ref)
            .filter(|_| !self.gone.contains(&id));
        stays.or_else(|| self.come.get(&id))
    }

    fn remove(&mut self, id: u64) -> Option<Filter> {
        if let Some(came) = self.come.remove(&id) {
            return Some(came);
        }
        let filter = *self.get(id)?;
        self.gone.insert(id);
        Some(filter)
    }
}

/// Filters, ready for the search.
#[derive(Clone, Debug)]
pub struct Classifier {
    filters: Numbered,
    sum: FilterSum,
    next: u64,
    other: Space<SHORT>,
    v4: Space<SHORT>,
    v6: Space<LONG>,
}

impl Classifier {
    /// A classifier with these filters, added in this order: the n-th has [`FilterId`] n, from 0.
    /// The seed keys the search's hashes: senders must not be able to aim at its worst case.
    ///
    /// Built at once, it is faster than the same filters added one by one: build a large one beside
    /// the running one.
    pub fn new(filters: impl IntoIterator<Item = Filter>, seed: Seed) -> Self {
        Self::of_list(filters.into_iter().map(Some).collect(), seed)
    }

    /// The same of a list, which it shares: each filter's number is its place, and some places may
    /// be empty.
    pub fn of_list(list: SharedList<Option<Filter>>, seed: Seed) -> Self {
        let next = list.len() as u64;
        let filters = Numbered {
            first: list,
            ..Numbered::default()
        };
        let mut rng = seed.fork("classifier").stream();
        let secret = std::array::from_fn(|_| rng.bits());
        Self {
            next,
            other: space(&filters, Family::Other, secret),
            v4: space(&filters, Family::V4, secret),
            v6: space(&filters, Family::V6, secret),
            sum: FilterSum::of(filters.iter().map(|(id, filter)| (FilterId(id), filter))),
            filters,
        }
    }

    /// Adds a filter. The cost does not grow with the number of filters, but once the number has
    /// doubled the search is rebuilt, and filters that differ in nothing but port ranges are sorted
    /// anew together.
    pub fn add(&mut self, filter: Filter) -> FilterId {
        let id = FilterId(self.next);
        self.add_as(id, filter);
        id
    }

    /// The same with a number that the filter has already, which is later than all others.
    pub fn add_as(&mut self, FilterId(id): FilterId, filter: Filter) {
        assert!(
            id >= self.next,
            "filters are numbered in the order in which they are added"
        );
        self.next = id + 1;
        self.filters.come.insert(id, filter);
        self.sum.add(FilterId(id), &filter);
        for family in filter.families() {
            let rank = rank(&filter, id);
            match family {
                Family::Other => self.other.add(&filter, family, rank),
                Family::V4 => self.v4.add(&filter, family, rank),
                Family::V6 => self.v6.add(&filter, family, rank),
            }
        }
    }

    /// Whether `add` of this filter touches a few dozen others at most, and moves no table. If not,
    /// a large classifier is built anew elsewhere.
    pub fn adds_in_place(&self, filter: &Filter) -> bool {
        // No number decides that.
        let rank = rank(filter, self.next);
        filter.families().all(|family| match family {
            Family::Other => self.other.adds_in_place(filter, family, rank),
            Family::V4 => self.v4.adds_in_place(filter, family, rank),
            Family::V6 => self.v6.adds_in_place(filter, family, rank),
        })
    }

    /// The same of `remove`. A filter that is not there is removed in no time.
    pub fn removes_in_place(&self, id: FilterId) -> bool {
        self.filters.get(id.0).is_none_or(|filter| {
            let rank = rank(filter, id.0);
            filter.families().all(|family| match family {
                Family::Other => self.other.removes_in_place(filter, family, rank),
                Family::V4 => self.v4.removes_in_place(filter, family, rank),
                Family::V6 => self.v6.removes_in_place(filter, family, rank),
            })
        })
    }

    /// Removes a filter; `None` if it is not there. The cost is as of `add`.
    pub fn remove(&mut self, id: FilterId) -> Option<Filter> {
        let filter = self.filters.remove(id.0)?;
        self.sum.remove(id, &filter);
        for family in filter.families() {
            let rank = rank(&filter, id.0);
            match family {
                Family::Other => self.other.remove(&filter, family, rank),
                Family::V4 => self.v4.remove(&filter, family, rank),
                Family::V6 => self.v6.remove(&filter, family, rank),
            }
        }
        Some(filter)
    }

    /// What the filters come to.
    pub fn sum(&self) -> FilterSum {
        self.sum
    }

    /// How many filters there are.
    pub fn len(&self) -> usize {
        self.sum.filters
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.sum.filters == 0
    }

    /// Whether packets of one flow may get different classes.
    pub fn divides_flows(&self) -> bool {
        self.sum.dividing > 0
    }

    /// The filter of this number.
    pub fn filter(&self, id: FilterId) -> Option<&Filter> {
        self.filters.get(id.0)
    }

    #[inline]
    fn search(&self, key: &FlowKey) -> Option<Match> {
        let found = match key.family {
            Family::Other => self.other.find(&words(key)),
            Family::V4 => self.v4.find(&words(key)),
            Family::V6 => self.v6.find(&words(key)),
        };
        (found.rank != 0).then_some(found)
    }

    /// The filter that takes this packet, and its class.
    pub fn find(&self, key: &FlowKey) -> Option<(FilterId, ClassId)> {
        self.search(key)
            .map(|found| (FilterId(id(found.rank)), ClassId(found.class)))
    }

    /// The class of this packet; `None` if no filter takes it.
    #[inline]
    pub fn classify(&self, key: &FlowKey) -> Option<ClassId> {
        self.search(key).map(|found| ClassId(found.class))
    }

    /// Bytes on the heap that the search takes, without the list of filters (about 100 bytes each).
    pub fn memory(&self) -> usize {
        self.other.memory() + self.v4.memory() + self.v6.memory()
    }
}

/// The search for packets of this family.
fn space<const N: usize>(filters: &Numbered, family: Family, secret: Secret) -> Space<N> {
    let mut masks = Masks::default();
    let fit = filters
        .iter()
        .filter(|(_, filter)| filter.families().any(|own| own == family));
    let entries = fit
        .map(|(id, filter)| Entry::new(filter, family, rank(filter, id), &mut masks))
        .collect();
    Space::new(entries, masks, secret)
}

#[cfg(test)]
mod tests;
