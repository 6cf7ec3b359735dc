//! Winner trees over numbered elements, each of which belongs to one tree: the least key first.
//!
//! Compare [`heaps`](crate::structures::heaps): these are for many elements, the first of which
//! gets a new key all the time. In a heap that element sinks to the bottom, and each level's
//! comparison determines which memory the next level needs; the processor mispredicts two times of
//! three, or waits. Here each element has a fixed position in a row of four, and the least of a row
//! is an item of the row above. A new key concerns the rows between that position and the root.
//! These rows are known at once, so they are fetched in parallel and compared without a branch
//! (Knuth, "The art of computer programming", vol. 3, section 5.4.1, replacement selection by a
//! tree of winners). The cost: a tree is as high as all its elements need, however few are in.
//!
//! Key and element are one word of 128 bits, so that a row is one cache line. Of equal keys the
//! smaller element comes first. No allocation after construction.

use crate::structures::heaps::{ABSENT, item, key_and_element};

const ARITY: usize = 4;

/// Elements that are compared with each other, or the winners of the rows below.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Row([u128; ARITY]);

impl Row {
    /// Writes an item, and returns the winner of the row.
    #[inline(always)]
    fn put(&mut self, at: usize, item: u128) -> u128 {
        let items = &mut self.0;
        items[at % ARITY] = item;
        let other = |bits: usize| items[(at ^ bits) % ARITY];
        // The three others do not depend on the rows below.
        item.min(other(1).min(other(2)).min(other(3)))
    }
}

/// So many rows are gone through at a time; and the rows that are above those below them.
const CLIMB: usize = 4;
const ABOVE: usize = (ARITY.pow(CLIMB as u32) - 1) / (ARITY - 1);
/// No item: the winner of some row stays, and all above it.
const STAYS: u128 = ABSENT - 1;

/// Writes an item, and above it the winners of so many rows as are climbed at a time, or of all up
/// to the root. Returns the last, found without a branch, as it cannot be predicted. `EARLY`: ends
/// where a winner stays.
///
/// Not inlined, and unrolled: in a loop the compiler would make branches of it.
#[inline(never)]
fn climb<const EARLY: bool>(rows: &mut [Row], place: usize, item: u128) -> u128 {
    let (mut row, mut at, mut winner) = (place / ARITY, place % ARITY, item);
    for _ in 0..CLIMB {
        if EARLY && rows[row].0[at] == winner {
            return STAYS;
        }
        winner = rows[row].put(at, winner);
        if row == 0 {
            break;
        }
        (row, at) = ((row - 1) / ARITY, (row - 1) % ARITY);
    }
    winner
}

/// Rows in heap order: row *r* has those from 4*r* + 1 on below it, and the lowest have the
/// elements.
#[derive(Clone, Debug)]
struct Tree {
    first: u128,
    /// Index of its first row.
    base: u32,
}

/// The trees.
#[derive(Clone, Debug)]
pub(crate) struct WinnerTrees {
    rows: Vec<Row>,
    trees: Vec<Tree>,
    /// Of each element: its row, and its position in the row.
    places: Vec<u32>,
}

impl WinnerTrees {
    /// This many trees; `homes` is each element's.
    pub(crate) fn new(homes: impl IntoIterator<Item = usize>, trees: usize) -> Self {
        let mut members = vec![0; trees];
        let nth = |home: usize| {
            members[home] += 1;
            (home, members[home] - 1)
        };
        let nths: Vec<(usize, usize)> = homes.into_iter().map(nth).collect();
        let (mut rows, mut lowest) = (0, Vec::with_capacity(trees));
        let tree = |&members: &usize| {
            let rows_of_elements = members.div_ceil(ARITY).max(1);
            // Each row but the highest is below one of these.
            let above = (rows_of_elements - 1).div_ceil(ARITY - 1);
            let base = rows;
            lowest.push(base + above);
            rows += above + rows_of_elements;
            Tree {
                first: ABSENT,
                base: base as u32,
            }
        };
        let trees = members.iter().map(tree).collect();
        let place = |&(tree, nth): &(usize, usize)| (lowest[tree] * ARITY + nth) as u32;
        Self {
            places: nths.iter().map(place).collect(),
            rows: vec![Row([ABSENT; ARITY]); rows],
            trees,
        }
    }

    /// The element with the least key of a tree, and its key.
    #[inline]
    pub(crate) fn first(&self, tree: usize) -> Option<(u128, u32)> {
        key_and_element(self.trees[tree].first)
    }

    /// Whether a tree is empty.
    #[inline]
    pub(crate) fn is_empty(&self, tree: usize) -> bool {
        self.trees[tree].first == ABSENT
    }

    /// Whether an element is in its tree.
    #[inline]
    pub(crate) fn holds(&self, element: u32) -> bool {
        let place = self.places[element as usize] as usize;
        self.rows[place / ARITY].0[place % ARITY] != ABSENT
    }

    /// Inserts an element of this tree with this key, or changes its key; keys of 2⁹⁶ − 1 and more
    /// are clamped to the largest below.
    #[inline]
    pub(crate) fn set(&mut self, tree: usize, element: u32, key: u128) {
        self.put(tree, element, item(key, element));
    }

    /// Changes the key of an element of this tree, if it is in it.
    #[inline]
    pub(crate) fn change(&mut self, tree: usize, element: u32, key: u128) {
        if self.holds(element) {
            self.put(tree, element, item(key, element));
        }
    }

    /// Removes an element from its tree; does nothing if it is not in it.
    #[inline]
    pub(crate) fn remove(&mut self, tree: usize, element: u32) {
        self.put(tree, element, ABSENT);
    }

    fn put(&mut self, tree: usize, element: u32, item: u128) {
        let Tree { first, base } = &mut self.trees[tree];
        let mut place = self.places[element as usize] as usize - ARITY * *base as usize;
        let (rows, mut winner) = (&mut self.rows[*base as usize..], item);
        // With the first element all winners change, and with another few or none.
        let all = *first as u32 == element;
        loop {
            winner = match all {
                true => climb::<false>(rows, place, winner),
                false => climb::<true>(rows, place, winner),
            };
            match (place / ARITY).checked_sub(ABOVE) {
                _ if winner == STAYS => return,
                Some(row) => place = row / ARITY.pow(CLIMB as u32 - 1),
                None => break,
            }
        }
        *first = winner;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_tree_of_many_rows_agrees_with_a_sorted_set() {
        let (mut rng, mut model) = (Seed(7).stream(), BTreeSet::new());
        let (elements, mut keys) = (5_000, vec![None; 5_000]);
        let mut trees = WinnerTrees::new((0..elements).map(|_| 0), 1);
        for step in 0..40_000 {
            // The first of all mostly, as the one that is served has a new key.
            let first = model.first().map(|(_, element): &(u128, u32)| *element);
            let element = first.filter(|_| step % 3 > 0);
            let element = element.unwrap_or(rng.below(elements as u64) as u32);
            let key = Some(u128::from(rng.below(1 << 20))).filter(|_| rng.below(8) > 0);
            let old = std::mem::replace(&mut keys[element as usize], key);
            old.map(|old| model.remove(&(old, element)));
            match key {
                Some(key) => {
                    trees.set(0, element, key);
                    model.insert((key, element));
                }
                None => trees.remove(0, element),
            }
            assert_eq!(trees.first(0), model.first().copied(), "step {step}");
        }
        assert!(model.len() > 1_000, "{}", model.len());
    }

    proptest! {
        #[test]
        fn agree_with_sorted_sets(
            elements in 1u32..90,
            steps in prop::collection::vec((0u32..90, 0u128..50, 0u32..4), 1..300),
        ) {
            let home = |element: u32| (element % 5 / 2) as usize;
            let mut trees = WinnerTrees::new((0..elements).map(home), 3);
            let mut models = [BTreeSet::new(), BTreeSet::new(), BTreeSet::new()];
            for (element, key, what) in steps {
                let element = element % elements;
                let tree = home(element);
                let key = if key == 49 { u128::MAX } else { key };
                models[tree].retain(|(_, t)| *t != element);
                if what == 0 {
                    trees.remove(tree, element);
                } else {
                    trees.set(tree, element, key);
                    models[tree].insert((key.min((1 << 96) - 2), element));
                }
                prop_assert_eq!(trees.holds(element), what > 0);
                for (tree, model) in models.iter().enumerate() {
                    prop_assert_eq!(trees.first(tree), model.first().copied());
                    prop_assert_eq!(trees.is_empty(tree), model.is_empty());
                }
            }
        }
    }

    #[test]
    fn a_tree_has_a_row_for_four_elements_and_the_rows_above_them() {
        for (elements, rows) in [
            (0_usize, 1),
            (1, 1),
            (4, 1),
            (5, 3),
            (8, 3),
            (9, 4),
            (16, 5),
            (17, 7),
            (64, 21),
            (65, 23),
        ] {
            let trees = WinnerTrees::new((0..elements).map(|_| 0), 1);
            assert_eq!(trees.rows.len(), rows, "{elements}");
            // The elements are in the lowest rows, in order.
            let lowest = rows - elements.div_ceil(4).max(1);
            let expected = (0..elements).map(|nth| (lowest * 4 + nth) as u32);
            assert!(trees.places.iter().copied().eq(expected), "{:?}", trees.places);
        }
    }

    #[test]
    fn trees_stand_one_behind_the_other() {
        let trees = WinnerTrees::new([0, 2, 0, 0, 0, 0], 3);
        let bases: Vec<u32> = trees.trees.iter().map(|tree| tree.base).collect();
        assert_eq!((bases, trees.rows.len()), (vec![0, 3, 4], 5));
        assert_eq!(trees.places, [4, 16, 5, 6, 7, 8]);
    }

    #[test]
    fn a_key_is_changed_of_an_element_that_is_in_its_tree_alone() {
        let mut trees = WinnerTrees::new([0, 0, 1], 2);
        trees.change(0, 1, 5);
        assert!(trees.is_empty(0) && !trees.holds(1));
        trees.set(0, 1, 5);
        trees.change(0, 1, 7);
        trees.change(0, 0, 1);
        assert_eq!((trees.first(0), trees.holds(0)), (Some((7, 1)), false));
        trees.set(0, 0, 7);
        // Of equal keys the smaller element.
        assert_eq!(trees.first(0), Some((7, 0)));
        assert!(trees.is_empty(1));
        trees.remove(0, 0);
        assert_eq!((trees.first(0), trees.first(1)), (Some((7, 1)), None));
    }

    #[test]
    fn a_row_returns_its_least_item_wherever_it_is_written() {
        for at in 0..ARITY {
            for item in [5, 15, 25, 35, 45] {
                let mut row = Row([10, 20, 30, 40]);
                let mut plain = row.0;
                plain[at] = item;
                assert_eq!(row.put(at, item), *plain.iter().min().expect("four"));
                assert_eq!(row.0, plain);
            }
        }
    }
}
