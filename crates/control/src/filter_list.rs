//! The filters of an interface in the policy's order. A list with a few other filters shares the
//! rest with the one that it was made of.
//!
//! A filter keeps its place, which is its number in a classifier of this list
//! ([`FilterList::numbered`]): one that goes leaves a gap, and one that comes stands at the end, as
//! it would in the policy's text. Beside each stands what it can meet in 24 bytes, so that a look
//! at all of very many filters reads little.

use engine::classify::{Filter, FilterId, FilterSum, Ports, Prefix};
use engine::header::Family;
use engine::packet::ClassId;
use engine::structures::shared_list::SharedList;

/// Filters, of which some may have gone.
#[derive(Clone, Debug, Default)]
pub struct FilterList {
    places: SharedList<Option<Filter>>,
    reaches: SharedList<Reach>,
    sum: FilterSum,
}

/// Which packets a filter takes at most, and of which class it is.
#[derive(Clone, Copy, Debug)]
struct Reach {
    class: ClassId,
    /// The first 32 bits of addresses, from the least to the greatest.
    source: (u32, u32),
    destination: (u32, u32),
    destination_port: (u16, u16),
}

fn first_bits(prefix: Option<Prefix>) -> (u32, u32) {
    let Some(prefix) = prefix else {
        return (0, u32::MAX);
    };
    let shift = if prefix.family() == Family::V6 { 96 } else { 0 };
    let (bits, mask) = ((prefix.bits() >> shift) as u32, (prefix.mask() >> shift) as u32);
    (bits, bits | !mask)
}

impl Reach {
    fn of(filter: &Filter) -> Self {
        let ports = |ports: Ports| (ports.low(), ports.high());
        Self {
            class: filter.class,
            source: first_bits(filter.source),
            destination: first_bits(filter.destination),
            destination_port: filter.destination_port.map_or((0, u16::MAX), ports),
        }
    }

    /// Whether one packet may be in both. `false` is certain.
    fn meets(&self, other: &Self) -> bool {
        fn overlap<T: PartialOrd>(a: (T, T), b: (T, T)) -> bool {
            a.0 <= b.1 && b.0 <= a.1
        }
        overlap(self.destination, other.destination)
            && overlap(self.source, other.source)
            && overlap(self.destination_port, other.destination_port)
    }
}

impl FilterList {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.sum.filters
    }

    /// The sum over them, with their numbers.
    pub fn sum(&self) -> FilterSum {
        self.sum
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Filter> {
        self.places.iter().flatten()
    }

    /// All, in order, with their numbers.
    pub fn numbered(&self) -> impl Iterator<Item = (FilterId, &Filter)> {
        let all = (0..).map(FilterId).zip(self.places.iter());
        all.filter_map(|(id, filter)| Some((id, filter.as_ref()?)))
    }

    /// The place of each number; empty where a filter has gone.
    pub fn places(&self) -> &SharedList<Option<Filter>> {
        &self.places
    }

    /// All, in order.
    pub fn to_vec(&self) -> Vec<Filter> {
        self.iter().copied().collect()
    }

    /// The one with this number, unless it has gone.
    pub fn get(&self, id: FilterId) -> Option<&Filter> {
        self.places.get(usize::try_from(id.0).ok()?)?.as_ref()
    }

    /// Those of this class, with their numbers.
    pub fn of_class(&self, class: ClassId) -> impl Iterator<Item = (FilterId, &Filter)> {
        self.chosen(move |reach| reach.class == class)
    }

    /// Those that may take a packet that this one takes too.
    pub fn meeting<'a>(&'a self, filter: &'a Filter) -> impl Iterator<Item = &'a Filter> {
        let reach = Reach::of(filter);
        let near = self.chosen(move |other| other.meets(&reach));
        near.map(|(_, other)| other).filter(|other| other.meets(filter))
    }

    fn chosen(&self, choose: impl Fn(&Reach) -> bool) -> impl Iterator<Item = (FilterId, &Filter)> {
        let all = (0..).map(FilterId).zip(&self.reaches);
        let chosen = all.filter(move |(_, reach)| choose(reach));
        chosen.filter_map(|(id, _)| Some((id, self.get(id)?)))
    }

    /// The list without these, and with others at its end; and the numbers of the others.
    pub fn changed(&self, gone: &[FilterId], come: &[Filter]) -> (Self, Vec<(FilterId, Filter)>) {
        let mut list = self.clone();
        for id in gone {
            let place = usize::try_from(id.0)
                .ok()
                .and_then(|place| list.places.get_mut(place));
            if let Some(former) = place.and_then(Option::take) {
                list.sum.remove(*id, &former);
            }
        }
        let numbers = (list.places.len() as u64..).map(FilterId);
        let come: Vec<_> = numbers.zip(come.iter().copied()).collect();
        for (_, filter) in &come {
            list.push(*filter);
        }
        (list, come)
    }

    /// Whether each filter's number is its place among them: none has gone.
    pub fn is_gapless(&self) -> bool {
        self.places.len() == self.len()
    }

    /// Whether so few of its places are gaps that another change need not write it anew.
    pub fn is_dense(&self) -> bool {
        self.places.len() <= 2 * self.len() + 64
    }

    fn push(&mut self, filter: Filter) {
        self.sum.add(FilterId(self.places.len() as u64), &filter);
        self.places.push(Some(filter));
        self.reaches.push(Reach::of(&filter));
    }
}

impl PartialEq for FilterList {
    /// Whether they have the same filters in the same order, wherever there are gaps.
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl FromIterator<Filter> for FilterList {
    fn from_iter<I: IntoIterator<Item = Filter>>(filters: I) -> Self {
        let mut list = Self::default();
        filters.into_iter().for_each(|filter| list.push(filter));
        list
    }
}

impl From<Vec<Filter>> for FilterList {
    fn from(filters: Vec<Filter>) -> Self {
        filters.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::random::Seed;

    /// A filter with some of the fields that a reach knows, and one that it does not.
    fn filter(class: u32, rng: &mut engine::random::Rng) -> Filter {
        let prefix = |rng: &mut engine::random::Rng| {
            let v6 = rng.below(4) == 0;
            let (octet, len) = (rng.below(4) as u8, rng.below(if v6 { 129 } else { 33 }) as u8);
            let address = match v6 {
                true => [octet; 16].into(),
                false => std::net::IpAddr::from([octet; 4]),
            };
            Prefix::new(address, len)
        };
        let (low, wide) = (rng.below(20) as u16, rng.below(5) as u16);
        Filter {
            source: prefix(rng).filter(|_| rng.below(2) == 0),
            destination: prefix(rng).filter(|_| rng.below(4) > 0),
            destination_port: Ports::new(low, low + wide).filter(|_| rng.below(2) == 0),
            protocol: (rng.below(3) == 0).then(|| if rng.below(2) == 0 { 6 } else { 17 }),
            ..Filter::new(ClassId(class))
        }
    }

    #[test]
    fn what_is_found_among_changes_is_what_a_look_at_all_finds() {
        let mut rng = Seed(3).stream();
        let mut plain: Vec<(u64, Filter)> = (0..200)
            .map(|id| (id, filter(id as u32 % 50, &mut rng)))
            .collect();
        let mut list: FilterList = plain.iter().map(|(_, filter)| *filter).collect();
        let (first, mut next, mut met) = (list.clone(), 200, 0);
        for round in 0..300 {
            let class = rng.below(50) as u32;
            let gone: Vec<_> = list.of_class(ClassId(class)).map(|(id, _)| id).collect();
            let of_class = plain.iter().filter(|(_, filter)| filter.class == ClassId(class));
            assert_eq!(gone, of_class.map(|(id, _)| FilterId(*id)).collect::<Vec<_>>());
            let come: Vec<Filter> = (0..rng.below(6)).map(|_| filter(class, &mut rng)).collect();
            let (changed, numbered) = list.changed(&gone, &come);
            plain.retain(|(_, filter)| filter.class != ClassId(class));
            plain.extend((next..).zip(come.iter().copied()));
            next += come.len() as u64;
            let expected = plain.iter().rev().take(come.len()).rev();
            assert!(
                numbered
                    .iter()
                    .map(|(id, filter)| (id.0, *filter))
                    .eq(expected.copied())
            );
            let wanted = filter(99, &mut rng);
            let found: Vec<&Filter> = changed.meeting(&wanted).collect();
            met += found.len();
            let all = plain.iter().map(|(_, filter)| filter);
            assert_eq!(
                found,
                all.filter(|other| other.meets(&wanted)).collect::<Vec<_>>(),
                "{round}"
            );
            assert!(
                changed
                    .numbered()
                    .map(|(id, filter)| (id.0, *filter))
                    .eq(plain.iter().copied())
            );
            assert_eq!(changed.sum(), FilterSum::of(changed.numbered()));
            let compact = FilterList::from(changed.to_vec());
            assert_eq!((compact.len(), &compact), (plain.len(), &changed));
            list = changed;
        }
        assert!(met > 1_000, "{met} were met");
        assert!(!list.is_dense(), "it has many gaps by now");
        assert_eq!(first.len(), 200, "the list that it was made of has not changed");
    }

    #[test]
    fn what_is_apart_in_one_field_does_not_come_near() {
        let whole = Filter {
            source: Prefix::new([10, 0, 0, 0].into(), 8),
            destination: Prefix::new([20, 0, 0, 0].into(), 8),
            destination_port: Ports::new(10, 20),
            ..Filter::new(ClassId(0))
        };
        let meets = |other: Filter| Reach::of(&whole).meets(&Reach::of(&other));
        assert!(meets(whole) && meets(Filter::new(ClassId(1))));
        let ports = |low, high| Filter {
            destination_port: Ports::new(low, high),
            ..whole
        };
        assert!(meets(ports(20, 30)) && meets(ports(0, 10)));
        assert!(!meets(ports(21, 30)) && !meets(ports(0, 9)));
        let source = Prefix::new([11, 0, 0, 0].into(), 8);
        assert!(!meets(Filter { source, ..whole }));
        let destination = Prefix::new([19, 0, 0, 0].into(), 8);
        assert!(!meets(Filter { destination, ..whole }));
    }

    #[test]
    fn a_list_is_gapless_until_one_goes_and_dense_until_most_are_gone() {
        let none = FilterList::default();
        assert!(none.is_empty() && none.is_gapless() && none.is_dense());
        let all: FilterList = (0..100).map(|class| Filter::new(ClassId(class))).collect();
        assert!(!all.is_empty() && all.is_gapless() && all.is_dense());
        let without = |many: u64| {
            let gone: Vec<_> = (0..many).map(FilterId).collect();
            all.changed(&gone, &[]).0
        };
        assert!(!without(1).is_gapless() && without(1).is_dense());
        // 100 places: twice 18 filters and 64 are as many, twice 17 and 64 are fewer.
        assert!(without(82).is_dense() && !without(83).is_dense());
        assert!(!without(99).is_empty() && without(100).is_empty());
    }
}
