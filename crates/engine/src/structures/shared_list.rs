//! A list whose copies share what they have in common.
//!
//! The items stand in blocks of 64, and copies hold the same blocks. Whoever changes an item of a
//! list that has copies gets a block of its own for it; a copy of n items takes n / 64 counts of
//! references. A policy of very many classes changes one class at a time, while readers still hold
//! what was in force before.

use std::iter::{FlatMap, FusedIterator};
use std::ops::{Index, IndexMut, Range};
use std::slice;
use std::sync::Arc;

/// Items in a block.
const BLOCK: usize = 64;

/// A list in blocks, which its copies share.
#[derive(Clone, PartialEq, Debug)]
pub struct SharedList<T> {
    /// All but the last are full.
    blocks: Vec<Arc<Vec<T>>>,
}

impl<T> Default for SharedList<T> {
    fn default() -> Self {
        Self { blocks: Vec::new() }
    }
}

impl<T> SharedList<T> {
    /// How many items there are.
    pub fn len(&self) -> usize {
        let last = self.blocks.last().map_or(0, |block| block.len());
        self.blocks.len().saturating_sub(1) * BLOCK + last
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The item at this place.
    pub fn get(&self, index: usize) -> Option<&T> {
        self.blocks.get(index / BLOCK)?.get(index % BLOCK)
    }

    /// The first item.
    pub fn first(&self) -> Option<&T> {
        self.get(0)
    }

    /// All items, in order.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter {
            list: self,
            left: 0..self.len(),
        }
    }
}

impl<T: PartialEq> SharedList<T> {
    /// Shares the blocks that are equal to another list's at the same place.
    pub fn share_with(&mut self, other: &Self) {
        for (own, others) in self.blocks.iter_mut().zip(&other.blocks) {
            if own == others {
                *own = Arc::clone(others);
            }
        }
    }
}

impl<T: Clone> SharedList<T> {
    /// The item at this place, to be changed; its block is no longer shared.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        let block = self.blocks.get_mut(index / BLOCK)?;
        // Not for an index out of range.
        (index % BLOCK < block.len()).then(|| &mut Arc::make_mut(block)[index % BLOCK])
    }

    /// All items, to be changed; nothing is shared then.
    pub fn iter_mut(&mut self) -> IterMut<'_, T> {
        self.blocks
            .iter_mut()
            .flat_map(|block| Arc::make_mut(block).iter_mut())
    }

    /// Adds an item at the end.
    pub fn push(&mut self, item: T) {
        match self.blocks.last_mut().filter(|block| block.len() < BLOCK) {
            Some(block) => Arc::make_mut(block).push(item),
            None => self.blocks.push(Arc::new(vec![item])),
        }
    }
}

impl<T: Clone> Extend<T> for SharedList<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        let mut items = items.into_iter();
        let short = (BLOCK - self.len() % BLOCK) % BLOCK;
        items.by_ref().take(short).for_each(|item| self.push(item));
        self.blocks.append(&mut items.collect::<Self>().blocks);
    }
}

impl<T> FromIterator<T> for SharedList<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut items = items.into_iter().fuse();
        let blocks = std::iter::from_fn(|| {
            let block: Vec<T> = items.by_ref().take(BLOCK).collect();
            (!block.is_empty()).then(|| Arc::new(block))
        });
        Self {
            blocks: blocks.collect(),
        }
    }
}

impl<T> From<Vec<T>> for SharedList<T> {
    fn from(items: Vec<T>) -> Self {
        items.into_iter().collect()
    }
}

impl<T> Index<usize> for SharedList<T> {
    type Output = T;

    fn index(&self, index: usize) -> &T {
        &self.blocks[index / BLOCK][index % BLOCK]
    }
}

impl<T: Clone> IndexMut<usize> for SharedList<T> {
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut Arc::make_mut(&mut self.blocks[index / BLOCK])[index % BLOCK]
    }
}

impl<'a, T> IntoIterator for &'a SharedList<T> {
    type Item = &'a T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<'a, T: Clone> IntoIterator for &'a mut SharedList<T> {
    type Item = &'a mut T;
    type IntoIter = IterMut<'a, T>;

    fn into_iter(self) -> IterMut<'a, T> {
        self.iter_mut()
    }
}

/// The items of a [`SharedList`], to be changed.
pub type IterMut<'a, T> = FlatMap<
    slice::IterMut<'a, Arc<Vec<T>>>,
    slice::IterMut<'a, T>,
    fn(&'a mut Arc<Vec<T>>) -> slice::IterMut<'a, T>,
>;

/// The items of a [`SharedList`].
#[derive(Clone, Debug)]
pub struct Iter<'a, T> {
    list: &'a SharedList<T>,
    left: Range<usize>,
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        self.list.get(self.left.next()?)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.left.size_hint()
    }
}

impl<T> DoubleEndedIterator for Iter<'_, T> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.list.get(self.left.next_back()?)
    }
}

impl<T> ExactSizeIterator for Iter<'_, T> {}
impl<T> FusedIterator for Iter<'_, T> {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Copies and their changes, against lists that share nothing.
        #[test]
        fn a_change_is_seen_in_its_own_list_and_in_no_copy(
            len in 0usize..300,
            changes in prop::collection::vec((any::<bool>(), 0usize..300, any::<u32>()), 0..40),
        ) {
            let mut plain = vec![(0..len as u32).collect::<Vec<_>>()];
            let mut lists = vec![plain[0].iter().copied().collect::<SharedList<_>>()];
            for (copies, at, value) in changes {
                if copies {
                    plain.push(plain[at % plain.len()].clone());
                    lists.push(lists[at % lists.len()].clone());
                }
                let (last, list) = (plain.last_mut().expect("one"), lists.last_mut().expect("one"));
                match last.get_mut(at) {
                    Some(item) => (*item, list[at]) = (value, value),
                    None => {
                        prop_assert_eq!(list.get_mut(at), None);
                        last.push(value);
                        list.push(value);
                    }
                }
            }
            for (plain, list) in plain.iter().zip(&lists) {
                prop_assert!(list.iter().eq(plain) && list.iter().rev().eq(plain.iter().rev()));
                prop_assert_eq!((list.len(), list.first(), list.is_empty()), (plain.len(), plain.first(), plain.is_empty()));
            }
        }
    }

    #[test]
    fn one_changed_item_of_many_costs_a_block() {
        let list: SharedList<u32> = (0..100_000).collect();
        let mut changed = list.clone();
        changed[50_000] = 7;
        let own = |(a, b): &(&Arc<Vec<u32>>, &Arc<Vec<u32>>)| !Arc::ptr_eq(a, b);
        assert_eq!(list.blocks.iter().zip(&changed.blocks).filter(own).count(), 1);
        assert_eq!((list[50_000], changed[50_000]), (50_000, 7));
    }

    #[test]
    fn equal_blocks_of_lists_that_were_made_apart_can_be_shared() {
        let list: SharedList<u32> = (0..1_000).collect();
        let mut other: SharedList<u32> = (0..1_010).collect();
        other[70] = 7;
        let before = other.clone();
        other.share_with(&list);
        let same = |(a, b): &(&Arc<Vec<u32>>, &Arc<Vec<u32>>)| Arc::ptr_eq(a, b);
        // Of 16 blocks one has another item, and the last is longer.
        assert_eq!(list.blocks.iter().zip(&other.blocks).filter(same).count(), 14);
        assert_eq!(before, other);
    }

    #[test]
    fn a_list_is_extended_behind_its_last_item_and_shares_its_full_blocks() {
        for len in [0, 1, 2, 63, 64, 65, 127, 128, 130] {
            for more in [0, 1, 62, 63, 64, 65, 200] {
                let list: SharedList<u32> = (0..len).collect();
                let mut longer = list.clone();
                longer.extend(len..len + more);
                assert!(longer.iter().copied().eq(0..len + more), "{len} {more}");
                let all = (len + more) as usize;
                assert_eq!((longer.len(), longer.blocks.len()), (all, all.div_ceil(64)));
                assert!(longer.blocks.iter().rev().skip(1).all(|block| block.len() == 64));
                let same = list
                    .blocks
                    .iter()
                    .zip(&longer.blocks)
                    .take_while(|(a, b)| Arc::ptr_eq(a, b));
                let full = if more == 0 {
                    list.blocks.len()
                } else {
                    len as usize / 64
                };
                assert_eq!(same.count(), full, "{len} {more}");
                assert!(list.iter().copied().eq(0..len));
            }
        }
    }

    #[test]
    fn items_are_counted_and_found_by_their_places() {
        let mut list: SharedList<u32> = (0..130).collect::<Vec<u32>>().into();
        assert_eq!(
            (list.len(), list.is_empty(), list.first()),
            (130, false, Some(&0))
        );
        for at in [0, 63, 64, 127, 128, 129] {
            assert_eq!((list.get(at), list[at]), (Some(&(at as u32)), at as u32));
        }
        assert!(list.get(130).is_none() && list.get_mut(130).is_none() && list.get_mut(1_000).is_none());
        if let Some(item) = list.get_mut(129) {
            *item = 7;
        }
        list.iter_mut().take(65).for_each(|item| *item += 1);
        (&mut list).into_iter().skip(128).for_each(|item| *item += 2);
        let some = [0, 64, 65, 127, 128, 129].map(|at| list[at]);
        assert_eq!(some, [1, 65, 65, 127, 130, 9]);
        let mut left = list.iter();
        assert_eq!(
            (left.len(), left.next(), left.next_back(), left.len()),
            (130, Some(&1), Some(&9), 128)
        );
        assert_eq!((&list).into_iter().size_hint(), (130, Some(130)));
        let none = SharedList::<u32>::default();
        assert_eq!(
            (none.len(), none.is_empty(), none.first(), none.iter().len()),
            (0, true, None, 0)
        );
    }

    #[test]
    fn a_place_beyond_the_end_costs_no_block() {
        let list: SharedList<u32> = (0..70).collect();
        let mut copy = list.clone();
        assert!([70, 127, 128].into_iter().all(|at| copy.get_mut(at).is_none()));
        assert!(
            list.blocks
                .iter()
                .zip(&copy.blocks)
                .all(|(a, b)| Arc::ptr_eq(a, b))
        );
    }
}
