//! Winner trees over numbered things, each of which belongs to one of them: the least key first.
//!
//! As [`heaps`](crate::structures::heaps), for the case that many things are in and the first of them gets a new key all the time. In a heap that
//! one sinks to the bottom, and at each level where to look next is known only when the level above has been compared; a processor
//! guesses, wrongly two times of three, or waits. Here each thing has its place in a row of four, the least of a row is
//! an item of the row above, and a new key concerns the rows between its place and the top: which rows those are is known at
//! once, so that they are fetched at one time and compared without a branch (Knuth, "The art of computer programming",
//! vol. 3, section 5.4.1, replacement selection by a tree of winners). What it costs: a tree is as high as all its things
//! need, however few are in.
//!
//! Key and thing are one word of 128 bits, so that a row is one line of a cache. Of equal keys the smaller thing comes
//! first. No allocation after construction.

use crate::structures::heaps::{NOBODY, item, key_and_thing};

const ARITY: usize = 4;

/// Things that are compared with each other, or the firsts of the rows below.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Row([u128; ARITY]);

impl Row {
    /// Puts an item in, and returns the first of the row. Which one that is cannot be guessed, so it is found without a branch.
    ///
    /// A function of its own for that: in the loop that calls it the compiler would make branches, as it does in short loops.
    #[inline(never)]
    fn put(&mut self, at: usize, item: u128) -> u128 {
        let items = &mut self.0;
        items[at % ARITY] = item;
        let other = |bits: usize| items[(at ^ bits) % ARITY];
        // The three others do not depend on the rows below.
        item.min(other(1).min(other(2)).min(other(3)))
    }
}

/// Its rows stand in the order of a heap: row *r* has those from 4*r* + 1 on below it, and the lowest have the things.
#[derive(Clone, Debug)]
struct Tree {
    first: u128,
    /// Where its rows begin.
    base: u32,
}

/// The trees.
#[derive(Clone, Debug)]
pub(crate) struct WinnerTrees {
    rows: Vec<Row>,
    trees: Vec<Tree>,
    /// Of each thing: its row, and which of the row it is.
    places: Vec<u32>,
}

impl WinnerTrees {
    /// So many trees; `homes` is each thing's.
    pub(crate) fn new(homes: impl IntoIterator<Item = usize>, trees: usize) -> Self {
        let mut members = vec![0; trees];
        let nth = |home: usize| {
            members[home] += 1;
            (home, members[home] - 1)
        };
        let nths: Vec<(usize, usize)> = homes.into_iter().map(nth).collect();
        let (mut rows, mut lowest) = (0, Vec::with_capacity(trees));
        let tree = |&members: &usize| {
            let rows_of_things = members.div_ceil(ARITY).max(1);
            // Each row but the highest is below one of these.
            let above = (rows_of_things - 1).div_ceil(ARITY - 1);
            let base = rows;
            lowest.push(base + above);
            rows += above + rows_of_things;
            Tree {
                first: NOBODY,
                base: base as u32,
            }
        };
        let trees = members.iter().map(tree).collect();
        let place = |&(tree, nth): &(usize, usize)| (lowest[tree] * ARITY + nth) as u32;
        Self {
            places: nths.iter().map(place).collect(),
            rows: vec![Row([NOBODY; ARITY]); rows],
            trees,
        }
    }

    /// The thing with the least key of a tree, and its key.
    #[inline]
    pub(crate) fn first(&self, tree: usize) -> Option<(u128, u32)> {
        key_and_thing(self.trees[tree].first)
    }

    /// Whether a tree has nothing in it.
    #[inline]
    pub(crate) fn is_empty(&self, tree: usize) -> bool {
        self.trees[tree].first == NOBODY
    }

    /// Whether a thing is in its tree.
    #[inline]
    pub(crate) fn holds(&self, thing: u32) -> bool {
        let place = self.places[thing as usize] as usize;
        self.rows[place / ARITY].0[place % ARITY] != NOBODY
    }

    /// Gives a thing of this tree this key; keys of 2⁹⁶ − 1 and more are as the largest below.
    #[inline]
    pub(crate) fn set(&mut self, tree: usize, thing: u32, key: u128) {
        self.put(tree, thing, item(key, thing));
    }

    /// Takes a thing out of its tree; nothing happens if it is not in it.
    #[inline]
    pub(crate) fn remove(&mut self, tree: usize, thing: u32) {
        self.put(tree, thing, NOBODY);
    }

    fn put(&mut self, tree: usize, thing: u32, item: u128) {
        let place = self.places[thing as usize] as usize;
        let tree = &mut self.trees[tree];
        let rows = &mut self.rows[tree.base as usize..];
        let (mut row, mut at, mut first) = (place / ARITY - tree.base as usize, place % ARITY, item);
        loop {
            let row_of_it = &mut rows[row];
            if row_of_it.0[at % ARITY] == first {
                return;
            }
            first = row_of_it.put(at, first);
            if row == 0 {
                break;
            }
            (row, at) = ((row - 1) / ARITY, (row - 1) % ARITY);
        }
        tree.first = first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn agree_with_sorted_sets(
            things in 1u32..90,
            steps in prop::collection::vec((0u32..90, 0u128..50, 0u32..4), 1..300),
        ) {
            let home = |thing: u32| (thing % 5 / 2) as usize;
            let mut trees = WinnerTrees::new((0..things).map(home), 3);
            let mut models = [BTreeSet::new(), BTreeSet::new(), BTreeSet::new()];
            for (thing, key, what) in steps {
                let thing = thing % things;
                let tree = home(thing);
                let key = if key == 49 { u128::MAX } else { key };
                models[tree].retain(|(_, t)| *t != thing);
                if what == 0 {
                    trees.remove(tree, thing);
                } else {
                    trees.set(tree, thing, key);
                    models[tree].insert((key.min((1 << 96) - 2), thing));
                }
                prop_assert_eq!(trees.holds(thing), what > 0);
                for (tree, model) in models.iter().enumerate() {
                    prop_assert_eq!(trees.first(tree), model.first().copied());
                    prop_assert_eq!(trees.is_empty(tree), model.is_empty());
                }
            }
        }
    }
}
