//! Numbered elements, the least key first, of which mostly the first leaves: a sorted front, and a
//! heap of those beyond it.
//!
//! As the [`PriorityQueue`](crate::structures::heaps::PriorityQueue) of the same parts, but any
//! element can leave: in the front it is found by its key, and the heap knows positions. While
//! there are few, as a rule, one comes and goes by copying a part of the front, which takes fewer
//! instructions than a heap and no unpredictable branches. No allocation after construction.

use crate::structures::heaps::{FRONT, Heaps, item, key_and_element};

/// Elements with keys.
#[derive(Debug)]
pub(crate) struct FrontedHeap {
    /// Sorted, the first last; before all of the heap.
    front: Vec<u128>,
    heap: Heaps,
}

/// The only heap.
const HEAP: usize = 0;

impl FrontedHeap {
    /// For the elements 0 to `size` − 1.
    pub(crate) fn new(size: usize) -> Self {
        Self {
            front: Vec::with_capacity(size.min(FRONT)),
            heap: Heaps::new([size], size),
        }
    }

    /// The element with the least key.
    #[inline]
    pub(crate) fn first(&self) -> Option<u32> {
        self.front.last().map(|&item| item as u32)
    }

    fn place(&self, item: u128) -> usize {
        self.front.partition_point(|&one| one > item)
    }

    /// Inserts an element that is not in it.
    #[inline(never)]
    pub(crate) fn push(&mut self, element: u32, key: u64) {
        let item = item(key.into(), element);
        let at = self.place(item);
        if self.front.len() == FRONT {
            // The last of the front, or this one.
            let last = if at == 0 { item } else { self.front.remove(0) };
            self.push_beyond(last);
            if at > 0 {
                self.front.insert(at - 1, item);
            }
        } else if at == 0
            && self
                .heap
                .first(HEAP)
                .is_some_and(|first| first < (key.into(), element))
        {
            self.heap.set(HEAP, element, key.into());
        } else {
            self.front.insert(at, item);
        }
    }

    fn push_beyond(&mut self, item: u128) {
        if let Some((key, element)) = key_and_element(item) {
            self.heap.set(HEAP, element, key);
        }
    }

    /// Removes the first, if there is one.
    #[inline]
    pub(crate) fn pop(&mut self) {
        self.front.pop();
        if self.front.is_empty() {
            self.refill();
        }
    }

    /// Removes an element that has this key, or is not in it.
    pub(crate) fn remove(&mut self, element: u32, key: u64) {
        let item = item(key.into(), element);
        let at = self.place(item);
        if self.front.get(at) != Some(&item) {
            return self.heap.remove(HEAP, element);
        }
        self.front.remove(at);
        if self.front.is_empty() {
            self.refill();
        }
    }

    /// Half of a front, so that alternating insertions and removals do not thrash.
    fn refill(&mut self) {
        while self.front.len() < FRONT / 2
            && let Some((key, element)) = self.heap.first(HEAP)
        {
            self.heap.remove(HEAP, element);
            self.front.push(item(key, element));
        }
        self.front.reverse();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn any_element_leaves_as_from_a_sorted_set(
            many in prop_oneof![1u32..40, 1u32..400],
            steps in prop::collection::vec((any::<u32>(), prop_oneof![0u64..50, any::<u64>()], 0u8..5), 1..800),
        ) {
            let (mut heap, mut model) = (FrontedHeap::new(many as usize), BTreeMap::new());
            for (element, key, what) in steps {
                let element = element % many;
                let first = model.iter().map(|(&element, &key)| (key, element)).min();
                match (what, model.get(&element).copied()) {
                    (0, _) => {
                        heap.pop();
                        first.map(|(_, element)| model.remove(&element));
                    }
                    (1, former) => {
                        heap.remove(element, former.unwrap_or(key));
                        model.remove(&element);
                    }
                    (_, Some(former)) if what == 2 => {
                        heap.remove(element, former);
                        heap.push(element, key);
                        model.insert(element, key);
                    }
                    (_, Some(_)) => {}
                    (_, None) => {
                        heap.push(element, key);
                        model.insert(element, key);
                    }
                }
                let first = model.iter().map(|(&element, &key)| (key, element)).min();
                prop_assert_eq!(heap.first(), first.map(|(_, element)| element));
            }
            // All leave in order.
            let mut left: Vec<_> = model.into_iter().map(|(element, key)| (key, element)).collect();
            left.sort_unstable();
            for (_, element) in left {
                prop_assert_eq!(heap.first(), Some(element));
                heap.pop();
            }
            prop_assert_eq!(heap.first(), None);
        }
    }
}
