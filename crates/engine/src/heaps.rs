//! Heaps over one set of numbered things, each of which is in at most one of them: the least key first.
//!
//! Four children a node, and key and thing in one word of 128 bits, so that the children are one cache line: a heap of many
//! is memory to be fetched and not comparisons. A thing's place is kept, so that its key can change and it can
//! leave in logarithmic time. Of equal keys the smaller thing comes first. No allocation after construction.
//!
//! Where the same thing is first and gets a new key all the time, [`tournaments`](crate::tournaments) are faster; a heap costs
//! what those in it cost, however many may come.

/// In no heap.
const NOWHERE: u32 = u32::MAX;
const ARITY: usize = 4;
/// Nobody: comes after everybody.
pub(crate) const NOBODY: u128 = u128::MAX;
/// The largest key, of 96 bits: the one after it is nobody's.
const LARGEST: u128 = (1 << 96) - 2;

/// A thing and its key in one word: the order of words is that of keys, and of things where those are equal. Larger keys are as the
/// largest.
#[inline]
pub(crate) fn item(key: u128, thing: u32) -> u128 {
    key.min(LARGEST) << 32 | u128::from(thing)
}

/// The key and the thing again; none of nobody.
#[inline]
pub(crate) fn key_and_thing(item: u128) -> Option<(u128, u32)> {
    (item != NOBODY).then_some((item >> 32, item as u32))
}

/// The children of a node, or of nobody: the first row has the top alone, as its last. So row *n* + 1 has the children of
/// node *n*, and node *n* is in row (*n* + 3) / 4.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Row([u128; ARITY]);

impl Row {
    /// Which item is the least. That cannot be guessed, so it is found without a branch. A function of its own for that: in
    /// the loop that calls it the compiler would make branches, as it does in short loops.
    #[inline(never)]
    fn least(&self) -> usize {
        let [a, b, c, d] = self.0;
        let (left, right) = (usize::from(b < a), usize::from(d < c));
        let (first, second) = (self.0[left], self.0[2 + right]);
        left + usize::from(second < first) * (2 + right - left)
    }
}

/// One heap: its rows have room for all that may come.
#[derive(Clone, Debug)]
struct Heap {
    rows: Vec<Row>,
    len: usize,
}

impl Heap {
    fn new(size: usize) -> Self {
        let row = Row([NOBODY; ARITY]);
        Self {
            rows: vec![row; (size + ARITY - 1).div_ceil(ARITY) + 1],
            len: 0,
        }
    }

    #[inline]
    fn item(&mut self, node: usize) -> &mut u128 {
        let place = node + ARITY - 1;
        &mut self.rows[place / ARITY].0[place % ARITY]
    }

    #[inline]
    fn first(&self) -> u128 {
        self.rows[0].0[ARITY - 1]
    }
}

/// The heaps.
#[derive(Clone, Debug)]
pub(crate) struct Heaps {
    /// Keys, shifted, and things.
    heaps: Vec<Heap>,
    /// Of each thing.
    places: Vec<u32>,
}

fn thing_of(item: u128) -> usize {
    (item as u32) as usize
}

impl Heaps {
    /// Heaps for so many things each; `things` is the number of all.
    pub(crate) fn new(sizes: impl IntoIterator<Item = usize>, things: usize) -> Self {
        Self {
            heaps: sizes.into_iter().map(Heap::new).collect(),
            places: vec![NOWHERE; things],
        }
    }

    /// The thing with the least key, and its key.
    #[inline]
    pub(crate) fn first(&self, heap: usize) -> Option<(u128, u32)> {
        key_and_thing(self.heaps[heap].first())
    }

    /// Whether a heap has nothing in it.
    #[inline]
    pub(crate) fn is_empty(&self, heap: usize) -> bool {
        self.heaps[heap].len == 0
    }

    /// Whether a thing is in a heap.
    #[inline]
    pub(crate) fn holds(&self, thing: u32) -> bool {
        self.places[thing as usize] != NOWHERE
    }

    /// Gives a thing this key, in its heap; keys of 2⁹⁶ − 1 and more are as the largest below.
    #[inline]
    pub(crate) fn set(&mut self, heap: usize, thing: u32, key: u128) {
        let items = &mut self.heaps[heap];
        let at = match self.places[thing as usize] {
            NOWHERE => {
                items.len += 1;
                items.len - 1
            }
            place => place as usize,
        };
        self.settle(heap, at, item(key, thing));
    }

    /// Takes a thing out of its heap; nothing happens if it is in none.
    #[inline]
    pub(crate) fn remove(&mut self, heap: usize, thing: u32) {
        let at = std::mem::replace(&mut self.places[thing as usize], NOWHERE);
        if at == NOWHERE {
            return;
        }
        let at = at as usize;
        let items = &mut self.heaps[heap];
        items.len -= 1;
        let last = std::mem::replace(items.item(items.len), NOBODY);
        if at < items.len {
            self.settle(heap, at, last);
        }
    }

    /// Puts an item into this place, which is free, or above or below it where it belongs.
    fn settle(&mut self, heap: usize, mut at: usize, item: u128) {
        let items = &mut self.heaps[heap];
        while at > 0 {
            let parent = (at - 1) / ARITY;
            let above = *items.item(parent);
            if above < item {
                break;
            }
            *items.item(at) = above;
            self.places[thing_of(above)] = at as u32;
            at = parent;
        }
        while let Some(row) = items.rows.get(at + 1) {
            let nth = row.least();
            let least = row.0[nth % ARITY];
            if least > item {
                break;
            }
            let child = ARITY * at + 1 + nth;
            *items.item(at) = least;
            self.places[thing_of(least)] = at as u32;
            at = child;
        }
        *items.item(at) = item;
        self.places[thing_of(item)] = at as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn agree_with_sorted_sets(steps in prop::collection::vec((0u32..40, 0u128..50, 0u32..4), 1..300)) {
            let mut heaps = Heaps::new([20, 20], 40);
            let mut models = [BTreeSet::new(), BTreeSet::new()];
            for (thing, key, what) in steps {
                let heap = (thing % 2) as usize;
                let key = if key == 49 { u128::MAX } else { key };
                models[heap].retain(|(_, t)| *t != thing);
                if what == 0 {
                    heaps.remove(heap, thing);
                } else {
                    heaps.set(heap, thing, key);
                    models[heap].insert((key.min((1 << 96) - 2), thing));
                }
                prop_assert_eq!(heaps.holds(thing), what > 0);
                for (heap, model) in models.iter().enumerate() {
                    prop_assert_eq!(heaps.first(heap), model.first().copied());
                    prop_assert_eq!(heaps.is_empty(heap), model.is_empty());
                }
            }
        }
    }
}
