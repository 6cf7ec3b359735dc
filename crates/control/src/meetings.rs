//! Which of very many filters may take a packet that another one takes too, for many such
//! questions: without a comparison of each pair.
//!
//! Filters that state the same fields stand together, once for each of these fields by what they
//! state there: addresses, ports, marks and flow labels are ranges. A question to such a group is
//! put in the field that both state and that tells most of the group apart: what overlaps there is
//! compared as a whole. A group that states none of the question's fields is compared with it
//! filter by filter, since most of it meets.

use engine::classify::{Filter, Ports, Prefix};
use engine::header::Family;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// The fields that are ranges.
const FIELDS: usize = 6;

/// A value of a field, and the family of addresses.
type Value = (u8, u128);

/// From the least value to the greatest.
type Range = (Value, Value);

/// What a filter states of each field.
fn ranges(filter: &Filter) -> [Option<Range>; FIELDS] {
    let addresses = |prefix: Prefix| {
        let (family, all) = match prefix.family() {
            Family::V6 => (6, u128::MAX),
            _ => (4, u128::from(u32::MAX)),
        };
        (
            (family, prefix.bits()),
            (family, prefix.bits() | (all & !prefix.mask())),
        )
    };
    let numbers = |low: u32, high: u32| ((0, u128::from(low)), (0, u128::from(high)));
    let ports = |ports: Ports| numbers(ports.low().into(), ports.high().into());
    let number = |number: u32| numbers(number, number);
    [
        filter.destination.map(addresses),
        filter.source.map(addresses),
        filter.destination_port.map(ports),
        filter.source_port.map(ports),
        filter.mark.map(number),
        filter.flow_label.map(number),
    ]
}

/// Filters, to be asked which of them meet others.
#[derive(Debug)]
pub struct Meetings<'a> {
    groups: Vec<Group<'a>>,
}

/// Filters that state the same fields.
#[derive(Debug, Default)]
struct Group<'a> {
    filters: Vec<&'a Filter>,
    /// Of each field that they state.
    by_field: [Option<Overlaps>; FIELDS],
}

impl<'a> Meetings<'a> {
    /// Of these.
    pub fn of(filters: impl Iterator<Item = &'a Filter>) -> Self {
        let mut groups: BTreeMap<[bool; FIELDS], Group<'a>> = BTreeMap::new();
        for filter in filters {
            let stated = ranges(filter).map(|range| range.is_some());
            groups.entry(stated).or_default().filters.push(filter);
        }
        for (stated, group) in &mut groups {
            for field in (0..FIELDS).filter(|field| stated[*field]) {
                let of_field = group.filters.iter().map(|filter| ranges(filter)[field]);
                group.by_field[field] = Some(Overlaps::of(of_field.flatten()));
            }
        }
        Self {
            groups: groups.into_values().collect(),
        }
    }

    /// Gives those that may take a packet of this one to `each`, until that breaks off. `left` is
    /// how many may still be compared: each that is counts it down, and none is at 0.
    pub fn with(
        &self,
        filter: &Filter,
        left: &mut usize,
        each: &mut dyn FnMut(&'a Filter) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let asked = ranges(filter);
        for group in &self.groups {
            let mut compare = |at: usize| {
                *left = left
                    .checked_sub(1)
                    .map_or(ControlFlow::Break(()), ControlFlow::Continue)?;
                match group.filters[at].meets(filter) {
                    true => each(group.filters[at]),
                    false => ControlFlow::Continue(()),
                }
            };
            let both = asked.iter().zip(&group.by_field);
            let both = both.filter_map(|(range, by_field)| (*range).zip(by_field.as_ref()));
            match both.max_by_key(|(_, by_field)| by_field.different) {
                Some((range, by_field)) => by_field.each(range, &mut compare)?,
                None => (0..group.filters.len()).try_for_each(compare)?,
            }
        }
        ControlFlow::Continue(())
    }
}

/// Ranges by their least values, above which stands a tree of the greatest: of each half of them,
/// of each half of that, and so on.
#[derive(Debug)]
struct Overlaps {
    least: Vec<Value>,
    /// The number of each, in the order in which they were given.
    numbers: Vec<u32>,
    /// The greatest of all is the second; below it, a node has the two at twice its place.
    greatest: Vec<Option<Value>>,
    /// How many different least values there are.
    different: usize,
}

impl Overlaps {
    fn of(ranges: impl Iterator<Item = Range>) -> Self {
        let mut all: Vec<(Range, u32)> = ranges.zip(0..).collect();
        all.sort_unstable();
        let leaves = all.len().next_power_of_two();
        let mut greatest = vec![None; leaves];
        greatest.extend(all.iter().map(|((_, high), _)| Some(*high)));
        greatest.resize(2 * leaves, None);
        for node in (1..leaves).rev() {
            greatest[node] = greatest[2 * node].max(greatest[2 * node + 1]);
        }
        let least: Vec<Value> = all.iter().map(|((low, _), _)| *low).collect();
        Self {
            different: least.chunk_by(|a, b| a == b).count(),
            numbers: all.into_iter().map(|(_, number)| number).collect(),
            greatest,
            least,
        }
    }

    /// The numbers of those that overlap this one.
    fn each(&self, (low, high): Range, found: &mut dyn FnMut(usize) -> ControlFlow<()>) -> ControlFlow<()> {
        let leaves = self.greatest.len() / 2;
        // Those from here on begin behind it.
        let behind = self.least.partition_point(|least| *least <= high);
        // A node, the first leaf below it, and how many there are.
        let mut pending = vec![(1, 0, leaves)];
        while let Some((node, first, wide)) = pending.pop() {
            if first >= behind || self.greatest[node] < Some(low) {
                continue;
            }
            if wide == 1 {
                found(self.numbers[first] as usize)?;
                continue;
            }
            let half = wide / 2;
            pending.push((2 * node + 1, first + half, half));
            pending.push((2 * node, first, half));
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::packet::ClassId;
    use engine::random::{Rng, Seed};

    fn filter(class: u32, rng: &mut Rng) -> Filter {
        let prefix = |rng: &mut Rng| {
            let v6 = rng.below(3) == 0;
            let (octet, len) = (rng.below(5) as u8, rng.below(if v6 { 129 } else { 33 }) as u8);
            let address = match v6 {
                true => [octet; 16].into(),
                false => std::net::IpAddr::from([octet; 4]),
            };
            Prefix::new(address, len)
        };
        let ports = |rng: &mut Rng| {
            let low = rng.below(30) as u16;
            Ports::new(low, low + rng.below(6) as u16)
        };
        let one_in = |rng: &mut Rng, many: u64| rng.below(many) == 0;
        Filter {
            destination: prefix(rng).filter(|_| !one_in(rng, 3)),
            source: prefix(rng).filter(|_| one_in(rng, 3)),
            destination_port: ports(rng).filter(|_| one_in(rng, 3)),
            source_port: ports(rng).filter(|_| one_in(rng, 5)),
            mark: one_in(rng, 6).then(|| rng.below(4) as u32),
            flow_label: one_in(rng, 9).then(|| rng.below(3) as u32),
            protocol: one_in(rng, 3).then(|| [6, 17][rng.below(2) as usize]),
            ..Filter::new(ClassId(class))
        }
    }

    #[test]
    fn those_that_meet_are_those_of_a_look_at_all() {
        let mut rng = Seed(5).stream();
        for many in [0, 1, 2, 3, 50, 700] {
            let all: Vec<Filter> = (0..many).map(|class| filter(class, &mut rng)).collect();
            let meetings = Meetings::of(all.iter());
            for _ in 0..200 {
                let asked = filter(u32::MAX, &mut rng);
                let (mut found, mut left) = (Vec::new(), usize::MAX);
                let ended = meetings.with(&asked, &mut left, &mut |one| {
                    found.push(one.class.0);
                    ControlFlow::Continue(())
                });
                assert!(ended.is_continue());
                found.sort_unstable();
                let met = all.iter().filter(|one| one.meets(&asked));
                assert_eq!(found, met.map(|one| one.class.0).collect::<Vec<_>>(), "{asked:?}");
            }
        }
    }

    #[test]
    fn very_many_questions_compare_hardly_more_pairs_than_meet() {
        let address = |number: u32| Prefix::new(std::net::IpAddr::from(number.to_be_bytes()), 32);
        let host = |number: u32| Filter {
            destination: address(number),
            ..Filter::new(ClassId(number))
        };
        let compared = |many: u32| {
            let all: Vec<Filter> = (0..many).map(host).collect();
            let meetings = Meetings::of(all.iter());
            let (mut left, mut met) = (usize::MAX, 0);
            for number in 0..many {
                let _ = meetings.with(&host(number), &mut left, &mut |_| {
                    met += 1;
                    ControlFlow::Continue(())
                });
            }
            assert_eq!(met, many);
            usize::MAX - left
        };
        assert_eq!((compared(1_000), compared(10_000)), (1_000, 10_000));
    }

    #[test]
    fn no_more_are_compared_than_may_be() {
        let all: Vec<Filter> = (0..9).map(|class| Filter::new(ClassId(class))).collect();
        let meetings = Meetings::of(all.iter());
        let (mut left, mut met) = (4, 0);
        let ended = meetings.with(&all[0], &mut left, &mut |_| {
            met += 1;
            ControlFlow::Continue(())
        });
        assert_eq!((ended, left, met), (ControlFlow::Break(()), 0, 4));
    }
}
