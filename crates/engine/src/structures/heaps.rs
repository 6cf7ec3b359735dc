//! Heaps of numbered elements: the least key first, and of equal keys the smaller element.
//!
//! Four children a node, and key and element in one word of 128 bits, so that the children are one
//! cache line: in a large heap the cost is memory to be fetched and not comparisons. [`Heaps`]
//! partition one set of elements, each of which is in at most one of them; they keep the position
//! of each, so that its key can change and it can leave in logarithmic time. From a
//! [`PriorityQueue`] only the first can be taken. No allocation after construction.
//!
//! Where the first element gets a new key all the time, a
//! [`winner_tree`](crate::structures::winner_tree) is faster; a heap costs what the elements in it
//! cost, however many may come.

/// In no heap.
const NOWHERE: u32 = u32::MAX;
const ARITY: usize = 4;
/// No element: compares greater than every element.
pub(crate) const ABSENT: u128 = u128::MAX;
/// The largest key, of 96 bits: the one above it is [`ABSENT`]'s.
const LARGEST: u128 = (1 << 96) - 2;

/// Key and element in one word: words compare as keys do, then as elements. Larger keys are clamped
/// to the largest.
#[inline]
pub(crate) fn item(key: u128, element: u32) -> u128 {
    key.min(LARGEST) << 32 | u128::from(element)
}

/// The key and the element of a word; none of [`ABSENT`].
#[inline]
pub(crate) fn key_and_element(item: u128) -> Option<(u128, u32)> {
    (item != ABSENT).then_some((item >> 32, item as u32))
}

/// The children of a node. The first row has the root alone, as its last: row *n* + 1 has the
/// children of node *n*, and node *n* is in row (*n* + 3) / 4.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Row([u128; ARITY]);

impl Row {
    /// The position of the least item, of equals the first, found without a branch, as the
    /// processor cannot predict it. Not inlined: in the caller's loop the compiler would turn it
    /// into branches, as it does in short loops.
    #[inline(never)]
    fn least(&self) -> usize {
        let [a, b, c, d] = self.0;
        let (left, right) = (usize::from(b < a), usize::from(d < c));
        let (first, second) = (self.0[left], self.0[2 + right]);
        left + usize::from(second < first) * (2 + right - left)
    }
}

/// One heap: its rows have room for all elements that may come, each once.
#[derive(Clone, Debug)]
struct Heap {
    /// Keys, shifted, and elements.
    rows: Vec<Row>,
    len: usize,
}

impl Heap {
    fn new(size: usize) -> Self {
        let row = Row([ABSENT; ARITY]);
        Self {
            rows: vec![row; (size + ARITY - 1).div_ceil(ARITY) + 1],
            len: 0,
        }
    }

    #[inline]
    fn first(&self) -> u128 {
        self.rows[0].0[ARITY - 1]
    }

    /// It grows, if more come than it has room for.
    fn push(&mut self, item: u128) {
        if self.len.div_ceil(ARITY) >= self.rows.len() {
            self.rows.push(Row([ABSENT; ARITY]));
        }
        let at = self.raise(self.len, item, |_, _| {});
        *self.item(at) = item;
        self.len += 1;
    }

    fn pop(&mut self) -> Option<u128> {
        let first = self.first();
        let last = self.take_last()?;
        if self.len > 0 {
            let at = self.sink(0, last, |_, _| {});
            *self.item(at) = last;
        }
        Some(first)
    }

    #[inline]
    fn item(&mut self, node: usize) -> &mut u128 {
        let place = node + ARITY - 1;
        &mut self.rows[place / ARITY].0[place % ARITY]
    }

    #[inline]
    fn take_last(&mut self) -> Option<u128> {
        self.len = self.len.checked_sub(1)?;
        Some(std::mem::replace(self.item(self.len), ABSENT))
    }

    /// Moves a hole at this position up to where the item belongs. `moved` is called with each item
    /// that moves down, and its new position.
    #[inline]
    fn raise(&mut self, mut at: usize, item: u128, mut moved: impl FnMut(u128, usize)) -> usize {
        while at > 0 {
            let parent = (at - 1) / ARITY;
            let above = *self.item(parent);
            if above < item {
                break;
            }
            *self.item(at) = above;
            moved(above, at);
            at = parent;
        }
        at
    }

    /// Moves a hole at this position down to where the item belongs. `moved` is called with each
    /// item that moves up, and its new position.
    #[inline]
    fn sink(&mut self, mut at: usize, item: u128, mut moved: impl FnMut(u128, usize)) -> usize {
        while let Some(row) = self.rows.get(at + 1) {
            let nth = row.least();
            let least = row.0[nth % ARITY];
            if least > item {
                break;
            }
            *self.item(at) = least;
            moved(least, at);
            at = ARITY * at + 1 + nth;
        }
        at
    }
}

/// This many of the first are kept in order.
pub(crate) const FRONT: usize = 64;

/// A bounded priority queue, from which only the first element leaves: those with the least keys in
/// a sorted front, and a heap of the others. While there are few, as a rule, one comes and goes by
/// copying a part of the front, which takes no unpredictable branches.
#[derive(Clone, Debug)]
pub(crate) struct PriorityQueue {
    /// Sorted, the first last; before all of the heap.
    front: Vec<u128>,
    heap: Heap,
}

impl PriorityQueue {
    /// For this many elements.
    pub(crate) fn new(size: usize) -> Self {
        Self {
            front: Vec::with_capacity(size.min(FRONT)),
            heap: Heap::new(size),
        }
    }

    /// The element with the least key.
    #[inline]
    pub(crate) fn first(&self) -> Option<u32> {
        self.front.last().map(|&item| item as u32)
    }

    /// The least key.
    #[inline]
    pub(crate) fn first_key(&self) -> Option<u128> {
        self.front.last().map(|&item| item >> 32)
    }

    /// Inserts an element, which may be in the queue with another key; keys of 2⁹⁶ − 1 and more are
    /// clamped to the largest below.
    #[inline]
    pub(crate) fn push(&mut self, element: u32, key: u128) {
        let item = item(key, element);
        if self.front.len() == FRONT {
            let last = self.front[0];
            self.heap.push(item.max(last));
            if item > last {
                return;
            }
            self.front.remove(0);
        } else if item > self.heap.first() {
            return self.heap.push(item);
        }
        let at = self.front.partition_point(|&one| one > item);
        self.front.insert(at, item);
    }

    /// Removes the first, if there is one.
    #[inline]
    pub(crate) fn pop(&mut self) {
        self.front.pop();
        if self.front.is_empty() && self.heap.len > 0 {
            self.refill();
        }
    }

    /// Half of a front, so that alternating pushes and pops do not thrash.
    fn refill(&mut self) {
        while self.front.len() < FRONT / 2
            && let Some(item) = self.heap.pop()
        {
            self.front.push(item);
        }
        self.front.reverse();
    }

    /// Removes all.
    pub(crate) fn clear(&mut self) {
        self.front.clear();
        self.heap.rows.fill(Row([ABSENT; ARITY]));
        self.heap.len = 0;
    }
}

/// Heaps of one set of elements.
#[derive(Clone, Debug)]
pub(crate) struct Heaps {
    heaps: Vec<Heap>,
    /// Of each element: its position, or [`NOWHERE`].
    places: Vec<u32>,
}

impl Heaps {
    /// Heaps with room for `sizes` elements; `elements` is the number of all.
    pub(crate) fn new(sizes: impl IntoIterator<Item = usize>, elements: usize) -> Self {
        Self {
            heaps: sizes.into_iter().map(Heap::new).collect(),
            places: vec![NOWHERE; elements],
        }
    }

    /// The element with the least key, and its key.
    #[inline]
    pub(crate) fn first(&self, heap: usize) -> Option<(u128, u32)> {
        key_and_element(self.heaps[heap].first())
    }

    /// Inserts an element into its heap with this key, or changes its key; keys of 2⁹⁶ − 1 and more
    /// are clamped to the largest below.
    #[inline]
    pub(crate) fn set(&mut self, heap: usize, element: u32, key: u128) {
        let items = &mut self.heaps[heap];
        let at = match self.places[element as usize] {
            NOWHERE => {
                items.len += 1;
                items.len - 1
            }
            place => place as usize,
        };
        self.settle(heap, at, item(key, element));
    }

    /// Whether an element is in a heap.
    pub(crate) fn holds(&self, element: u32) -> bool {
        self.places[element as usize] != NOWHERE
    }

    /// Removes an element from its heap; does nothing if it is in none.
    #[inline]
    pub(crate) fn remove(&mut self, heap: usize, element: u32) {
        let at = std::mem::replace(&mut self.places[element as usize], NOWHERE) as usize;
        if at == NOWHERE as usize {
            return;
        }
        let items = &mut self.heaps[heap];
        if let Some(last) = items.take_last().filter(|_| at < items.len) {
            self.settle(heap, at, last);
        }
    }

    /// Puts an item into this hole, or above or below it where it belongs.
    fn settle(&mut self, heap: usize, at: usize, item: u128) {
        let items = &mut self.heaps[heap];
        let mut moved = |item: u128, at: usize| self.places[(item as u32) as usize] = at as u32;
        let mut to = items.raise(at, item, &mut moved);
        // What has moved up, or was appended, is less than all below.
        if to == at && at + 1 < items.len {
            to = items.sink(at, item, &mut moved);
        }
        let at = to;
        *items.item(at) = item;
        moved(item, at);
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
            for (element, key, what) in steps {
                let heap = (element % 2) as usize;
                let key = if key == 49 { u128::MAX } else { key };
                models[heap].retain(|(_, t)| *t != element);
                if what == 0 {
                    heaps.remove(heap, element);
                } else {
                    heaps.set(heap, element, key);
                    models[heap].insert((key.min((1 << 96) - 2), element));
                }
                for (heap, model) in models.iter().enumerate() {
                    prop_assert_eq!(heaps.first(heap), model.first().copied());
                }
            }
        }
    }

    proptest! {
        #[test]
        fn the_first_come_as_out_of_a_sorted_set(
            steps in prop::collection::vec((0u128..900, -1..4i32), 1..60),
        ) {
            let (mut queue, mut model) = (PriorityQueue::new(3_000), BTreeSet::new());
            for (n, (key, what)) in (0u32..).zip(steps) {
                // Dozens at a time, so that some are in the heap.
                for element in 40 * n..40 * n + 40 {
                    if what > 0 {
                        let key = key * u128::from(element * 7_919 % 101) / 100;
                        queue.push(element, key);
                        model.insert((key, element));
                    } else if what == 0 {
                        queue.pop();
                        model.pop_first();
                    }
                    prop_assert_eq!(queue.first(), model.first().map(|first| first.1));
                }
                if what < 0 && key < 100 {
                    queue.clear();
                    model.clear();
                }
            }
        }
    }

    #[test]
    fn the_least_of_a_row_is_found_wherever_it_is_and_of_equals_the_first() {
        for least in 0..ARITY {
            for second in (0..ARITY).filter(|second| *second != least) {
                let mut row = Row([9; ARITY]);
                (row.0[least], row.0[second]) = (1, 5);
                assert_eq!(row.least(), least);
                row.0[second] = 1;
                assert_eq!(row.least(), least.min(second));
            }
        }
        assert_eq!(Row([ABSENT; ARITY]).least(), 0);
    }

    #[test]
    fn an_item_is_a_key_above_an_element_and_the_largest_keys_are_one() {
        assert_eq!(item(0, 7), 7);
        assert_eq!(item(3, 5), 3 << 32 | 5);
        assert_eq!(key_and_element(item(3, 5)), Some((3, 5)));
        assert_eq!(key_and_element(ABSENT), None);
        let largest = (1 << 96) - 2;
        for (key, kept) in [
            (largest - 1, largest - 1),
            (largest, largest),
            (largest + 1, largest),
        ] {
            assert_eq!(key_and_element(item(key, u32::MAX)), Some((kept, u32::MAX)));
        }
    }

    #[test]
    fn a_heap_has_rows_for_all_that_may_come_and_grows_for_more() {
        for (size, rows) in [(0, 2), (1, 2), (2, 3), (5, 3), (6, 4), (9, 4), (10, 5)] {
            assert_eq!(Heap::new(size).rows.len(), rows, "{size}");
        }
        let mut heap = Heap::new(0);
        for n in 0..22_u128 {
            heap.push(100 - n);
            // Behind the root, which has a row, four in each.
            assert_eq!(heap.rows.len(), (n as usize).div_ceil(4).max(1) + 1, "{n}");
            assert_eq!((heap.len, heap.first()), (n as usize + 1, 100 - n));
        }
        let left: Vec<u128> = std::iter::from_fn(|| heap.pop()).collect();
        assert!(left.into_iter().eq(79..=100));
        assert_eq!((heap.len, heap.first(), heap.pop()), (0, ABSENT, None));
    }

    /// How many are in the front of a queue, and in its heap.
    fn parts(queue: &PriorityQueue) -> (usize, usize) {
        (queue.front.len(), queue.heap.len)
    }

    #[test]
    fn the_front_takes_64_and_is_refilled_by_half_when_it_is_empty() {
        let mut queue = PriorityQueue::new(200);
        assert_eq!((queue.first(), queue.first_key()), (None, None));
        for n in 0..100 {
            queue.push(n, 1_000 + u128::from(n));
            assert_eq!(
                parts(&queue),
                ((n as usize + 1).min(64), (n as usize).saturating_sub(63))
            );
        }
        for n in 0..100 {
            assert_eq!(
                (queue.first(), queue.first_key()),
                (Some(n), Some(1_000 + u128::from(n)))
            );
            let expected = match n {
                0..64 => (64 - n as usize, 36),
                64..96 => (96 - n as usize, 4),
                _ => (100 - n as usize, 0),
            };
            assert_eq!(parts(&queue), expected, "{n}");
            queue.pop();
        }
        assert_eq!((queue.first(), parts(&queue)), (None, (0, 0)));
        queue.pop();
        assert_eq!(queue.first(), None);
    }

    #[test]
    fn a_lesser_key_pushes_the_last_of_a_full_front_into_the_heap() {
        let mut queue = PriorityQueue::new(200);
        (10..74).for_each(|n| queue.push(n, n.into()));
        assert_eq!(parts(&queue), (64, 0));
        queue.push(5, 5);
        assert_eq!(
            (queue.first(), parts(&queue), queue.heap.first()),
            (Some(5), (64, 1), item(73, 73))
        );
        // What is beyond the first of the heap goes there, whatever room the front has.
        queue.pop();
        queue.push(80, 80);
        assert_eq!(parts(&queue), (63, 2));
        queue.push(70, 72);
        assert_eq!((parts(&queue), queue.first()), ((64, 2), Some(10)));
        queue.clear();
        assert_eq!(
            (queue.first(), parts(&queue), queue.heap.first()),
            (None, (0, 0), ABSENT)
        );
    }

    #[test]
    fn an_element_is_held_from_when_it_is_set_until_it_is_removed() {
        let mut heaps = Heaps::new([4, 4], 6);
        assert!((0..6).all(|element| !heaps.holds(element)));
        for (element, key) in [(0, 30), (2, 20), (4, 10)] {
            heaps.set(0, element, key);
        }
        assert_eq!(
            [0, 1, 2, 3, 4, 5].map(|element| heaps.holds(element)),
            [true, false, true, false, true, false]
        );
        heaps.remove(0, 2);
        heaps.remove(0, 2);
        assert!(!heaps.holds(2) && heaps.holds(0) && heaps.holds(4));
        assert_eq!((heaps.first(0), heaps.first(1)), (Some((10, 4)), None));
        heaps.set(0, 4, 40);
        assert_eq!(heaps.first(0), Some((30, 0)));
        assert_eq!(heaps.heaps[0].len, 2);
    }

    #[test]
    fn every_position_is_known_whatever_comes_and_goes() {
        let mut rng = crate::random::Seed(3).stream();
        let mut heaps = Heaps::new([60], 60);
        for _ in 0..2_000 {
            let element = rng.below(60) as u32;
            match rng.below(3) {
                0 => heaps.remove(0, element),
                _ => heaps.set(0, element, u128::from(rng.below(40))),
            }
            let len = heaps.heaps[0].len;
            assert_eq!((0..60).filter(|element| heaps.holds(*element)).count(), len);
            for at in 0..len {
                let item = *heaps.heaps[0].item(at);
                assert_eq!(heaps.places[(item as u32) as usize], at as u32);
                assert!(at == 0 || *heaps.heaps[0].item((at - 1) / 4) < item);
            }
        }
    }
}
