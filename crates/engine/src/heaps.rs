//! Heaps over one set of numbered things, each of which is in at most one of them: the least key first.
//!
//! Four children a node, and key and thing in one word of 128 bits, so that the children fill one cache line: a heap of many
//! is memory to be fetched and not comparisons. A thing's place is kept, so that its key can change and it can
//! leave in logarithmic time. Of equal keys the smaller thing comes first. No allocation after construction.

/// In no heap.
const NOWHERE: u32 = u32::MAX;
const ARITY: usize = 4;
/// Keys are less than 2 to this.
const KEY_BITS: u32 = 96;

/// The heaps.
#[derive(Clone, Debug)]
pub(crate) struct Heaps {
    /// Keys, shifted, and things.
    heaps: Vec<Vec<u128>>,
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
            heaps: sizes.into_iter().map(Vec::with_capacity).collect(),
            places: vec![NOWHERE; things],
        }
    }

    /// The thing with the least key, and its key.
    #[inline]
    pub(crate) fn first(&self, heap: usize) -> Option<(u128, u32)> {
        self.heaps[heap].first().map(|&item| (item >> 32, item as u32))
    }

    /// Whether a heap has nothing in it.
    #[inline]
    pub(crate) fn is_empty(&self, heap: usize) -> bool {
        self.heaps[heap].is_empty()
    }

    /// Whether a thing is in a heap.
    #[inline]
    pub(crate) fn holds(&self, thing: u32) -> bool {
        self.places[thing as usize] != NOWHERE
    }

    /// Gives a thing this key, in its heap; keys of 2⁹⁶ and more are as the largest below.
    #[inline]
    pub(crate) fn set(&mut self, heap: usize, thing: u32, key: u128) {
        let items = &mut self.heaps[heap];
        let item = key.min((1 << KEY_BITS) - 1) << 32 | u128::from(thing);
        let at = match self.places[thing as usize] {
            NOWHERE => {
                items.push(item);
                items.len() - 1
            }
            place => {
                items[place as usize] = item;
                place as usize
            }
        };
        self.settle(heap, at);
    }

    /// Takes a thing out of its heap; nothing happens if it is in none.
    #[inline]
    pub(crate) fn remove(&mut self, heap: usize, thing: u32) {
        let at = std::mem::replace(&mut self.places[thing as usize], NOWHERE);
        if at == NOWHERE {
            return;
        }
        let at = at as usize;
        self.heaps[heap].swap_remove(at);
        if at < self.heaps[heap].len() {
            self.settle(heap, at);
        }
    }

    /// Moves an item up or down to where it belongs.
    fn settle(&mut self, heap: usize, mut at: usize) {
        let items = &mut self.heaps[heap][..];
        let item = items[at];
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if items[parent] < item {
                break;
            }
            items[at] = items[parent];
            self.places[thing_of(items[at])] = at as u32;
            at = parent;
        }
        loop {
            let first = ARITY * at + 1;
            let children = &items[first.min(items.len())..(first + ARITY).min(items.len())];
            let Some((nth, &least)) = children.iter().enumerate().min_by_key(|(_, item)| **item) else {
                break;
            };
            if least > item {
                break;
            }
            items[at] = least;
            self.places[thing_of(least)] = at as u32;
            at = first + nth;
        }
        items[at] = item;
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
                    models[heap].insert((key.min((1 << 96) - 1), thing));
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
