//! Rings through an array, and turns by bytes: deficit round robin among those with a backlog.
//!
//! A ring is known by its head, the member whose turn it is; links stand in the members, so that
//! joining and leaving take constant time and no memory. Turns are those of deficit round robin
//! (Shreedhar and Varghese, 1995), with the deficit kept: a member may send while its turn has
//! bytes left, and the last packet may overdraw it.

/// No member.
pub(crate) const NONE: u32 = u32::MAX;

/// 1.0 as a weight.
pub(crate) const ONE: u64 = 1 << 16;

/// A member's neighbours in its ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Neighbours {
    pub(crate) next: u32,
    pub(crate) previous: u32,
}

impl Neighbours {
    /// In no ring.
    pub(crate) const FREE: Self = Self {
        next: NONE,
        previous: NONE,
    };
}

/// Inserts a member at the end of the ring with this head, and returns the head. `link` finds a
/// member's neighbours.
#[inline]
pub(crate) fn insert<T>(
    all: &mut [T],
    link: impl Fn(&mut T) -> &mut Neighbours,
    head: u32,
    member: u32,
) -> u32 {
    if head == NONE {
        *link(&mut all[member as usize]) = Neighbours {
            next: member,
            previous: member,
        };
        return member;
    }
    let last = link(&mut all[head as usize]).previous;
    *link(&mut all[member as usize]) = Neighbours {
        next: head,
        previous: last,
    };
    link(&mut all[last as usize]).next = member;
    link(&mut all[head as usize]).previous = member;
    head
}

/// Removes a member from the ring with this head, and returns the head.
#[inline]
pub(crate) fn remove<T>(
    all: &mut [T],
    link: impl Fn(&mut T) -> &mut Neighbours,
    head: u32,
    member: u32,
) -> u32 {
    let Neighbours { next, previous } = *link(&mut all[member as usize]);
    if next == member {
        return NONE;
    }
    link(&mut all[previous as usize]).next = next;
    link(&mut all[next as usize]).previous = previous;
    if head == member { next } else { head }
}

/// Priorities of a level.
pub(crate) const PRIORITIES: usize = 8;

/// The heads of rings by level and priority, with bitmaps that find the first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rows {
    /// Levels with a ring.
    busy: u64,
    /// Of each level: the priorities with a ring, and the heads.
    levels: Vec<(u8, [u32; PRIORITIES])>,
}

impl Rows {
    /// This many levels, at most 64, without rings.
    pub(crate) fn new(levels: usize) -> Self {
        Self {
            busy: 0,
            levels: vec![(0, [NONE; PRIORITIES]); levels],
        }
    }

    /// Whether there is no ring.
    pub(crate) fn is_empty(&self) -> bool {
        self.busy == 0
    }

    /// The lowest level with a ring, and there the highest priority.
    #[inline]
    pub(crate) fn first(&self) -> Option<(usize, usize)> {
        if self.busy == 0 {
            return None;
        }
        let level = self.busy.trailing_zeros() as usize;
        Some((level, self.levels[level].0.ilog2() as usize))
    }

    /// The head of a ring.
    #[inline]
    pub(crate) fn head(&self, level: usize, priority: usize) -> u32 {
        self.levels[level].1[priority]
    }

    /// Sets the head of a ring; [`NONE`] when it is empty.
    #[inline]
    pub(crate) fn set(&mut self, level: usize, priority: usize, head: u32) {
        let (occupied, heads) = &mut self.levels[level];
        heads[priority] = head;
        *occupied = *occupied & !(1 << priority) | u8::from(head != NONE) << priority;
        self.busy = self.busy & !(1 << level) | u64::from(*occupied != 0) << level;
    }
}

/// What is left of a turn, in bytes, and how long turns are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turn {
    pub(crate) left: i32,
    pub(crate) weight: u32,
}

impl Turn {
    /// Adds a new turn to what is left of the old one; `unit` is the length of one of weight
    /// [`ONE`], at most 1 MiB.
    pub(crate) fn grow(&mut self, unit: u64) {
        self.left = self
            .left
            .saturating_add(((unit * u64::from(self.weight)) / ONE) as i32);
    }

    /// Charges `len`; `true` if the turn is over.
    pub(crate) fn spend(&mut self, len: u64) -> bool {
        self.left = self.left.saturating_sub(i32::try_from(len).unwrap_or(i32::MAX));
        self.left <= 0
    }
}

/// The first member from the head on whose turn has bytes left; each one passed over gets another
/// turn. A ring of one has no turns.
#[inline]
pub(crate) fn whose_turn<T>(
    all: &mut [T],
    look: impl Fn(&mut T) -> (Neighbours, &mut Turn),
    head: u32,
    unit: u64,
) -> u32 {
    let mut at = head;
    loop {
        let (link, turn) = look(&mut all[at as usize]);
        if turn.left > 0 || link.next == at {
            return at;
        }
        turn.grow(unit);
        if turn.left > 0 {
            return at;
        }
        at = link.next;
    }
}

/// Weights for turns in proportion to rates: 1 on average.
#[derive(Clone, Copy, Debug, Default)]
struct Average {
    sum: u128,
    count: u128,
}

impl Average {
    /// Another member of the ring.
    fn add(&mut self, rate: u64) {
        self.sum += u128::from(rate);
        self.count += 1;
    }

    /// The weight of a member. Its floor bounds how often a member is passed over before its turn
    /// covers a packet.
    fn weight(self, rate: u64) -> u32 {
        let one = u128::from(ONE);
        match self.sum {
            0 => ONE as u32,
            sum => (u128::from(rate) * self.count * one / sum).clamp(one / 16, one * 256) as u32,
        }
    }
}

/// The weights of nodes (rate, parent, priority), the first `leaves` of which are leaves: among the
/// leaves of its priority, and among the children of its parent.
pub(crate) fn weights(nodes: &[(u64, u32, u32)], leaves: usize) -> Vec<(u32, u32)> {
    let mut siblings = vec![Average::default(); nodes.len() + 1];
    let mut alike = [Average::default(); PRIORITIES];
    for (number, &(rate, parent, priority)) in nodes.iter().enumerate() {
        siblings[parent as usize].add(rate);
        if number < leaves {
            alike[priority as usize].add(rate);
        }
    }
    let weights = |&(rate, parent, priority): &(u64, u32, u32)| {
        let alike = alike[priority as usize].weight(rate);
        (alike, siblings[parent as usize].weight(rate))
    };
    nodes.iter().map(weights).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_leave_from_anywhere_and_join_at_the_end() {
        let mut links = [Neighbours::FREE; 4];
        let order = |links: &[Neighbours], head: u32| {
            let next = |at: &u32| Some(links[*at as usize].next).filter(|next| *next != head);
            std::iter::successors(Some(head), next).collect::<Vec<_>>()
        };
        let mut head = NONE;
        for member in 0..4 {
            head = insert(&mut links, |link| link, head, member);
        }
        assert_eq!(order(&links, head), [0, 1, 2, 3]);
        head = remove(&mut links, |link| link, head, 0);
        head = remove(&mut links, |link| link, head, 2);
        assert_eq!(order(&links, head), [1, 3]);
        head = insert(&mut links, |link| link, head, 2);
        assert_eq!(order(&links, head), [1, 3, 2]);
        for member in 1..4 {
            head = remove(&mut links, |link| link, head, member);
        }
        assert_eq!(head, NONE);
    }

    #[test]
    fn weights_are_one_on_average_and_bounded() {
        let mut average = Average::default();
        [1, 2, 3].iter().for_each(|&rate| average.add(rate));
        assert_eq!(
            [1, 2, 3].map(|rate| u64::from(average.weight(rate)) * 2 / ONE),
            [1, 2, 3]
        );
        assert_eq!(u64::from(average.weight(0)), ONE / 16);
        assert_eq!(u64::from(Average::default().weight(7)), ONE);
    }
}
