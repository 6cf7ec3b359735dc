//! Rings through an array, and turns by bytes: who is served next among those who wait.
//!
//! A ring is known by its head, the member whose turn it is; links stand in the members, so that joining and
//! leaving take constant time and no memory. Turns are those of deficit round robin (Shreedhar and Varghese,
//! 1995), with the debt kept: a member may send while its turn has bytes left, and the last packet may be longer.

/// No member.
pub(crate) const NONE: u32 = u32::MAX;

/// 1.0 as a weight.
pub(crate) const ONE: u64 = 1 << 16;

/// A member's neighbours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) next: u32,
    pub(crate) previous: u32,
}

impl Link {
    /// In no ring.
    pub(crate) const FREE: Self = Self {
        next: NONE,
        previous: NONE,
    };
}

/// Puts a member at the end of the ring of this head, and returns the head. `link` finds a member's link.
#[inline]
pub(crate) fn insert<T>(all: &mut [T], link: impl Fn(&mut T) -> &mut Link, head: u32, member: u32) -> u32 {
    if head == NONE {
        *link(&mut all[member as usize]) = Link {
            next: member,
            previous: member,
        };
        return member;
    }
    let last = link(&mut all[head as usize]).previous;
    *link(&mut all[member as usize]) = Link {
        next: head,
        previous: last,
    };
    link(&mut all[last as usize]).next = member;
    link(&mut all[head as usize]).previous = member;
    head
}

/// Takes a member out of the ring of this head, and returns the head.
#[inline]
pub(crate) fn remove<T>(all: &mut [T], link: impl Fn(&mut T) -> &mut Link, head: u32, member: u32) -> u32 {
    let Link { next, previous } = *link(&mut all[member as usize]);
    if next == member {
        return NONE;
    }
    link(&mut all[previous as usize]).next = next;
    link(&mut all[next as usize]).previous = previous;
    if head == member { next } else { head }
}

/// What is left of a turn, in bytes, and how long turns are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turn {
    pub(crate) left: i32,
    pub(crate) weight: u32,
}

impl Turn {
    /// A new turn, after the old one; `unit` is as long as one of weight [`ONE`], at most 1 MiB.
    pub(crate) fn grow(&mut self, unit: u64) {
        self.left = self
            .left
            .saturating_add(((unit * u64::from(self.weight)) / ONE) as i32);
    }

    /// Takes `len` off; whether the turn is over.
    pub(crate) fn spend(&mut self, len: u64) -> bool {
        self.left = self.left.saturating_sub(i32::try_from(len).unwrap_or(i32::MAX));
        self.left <= 0
    }
}

/// Weights for turns in proportion to rates: 1 on average.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Average {
    sum: u128,
    count: u128,
}

impl Average {
    /// One more who takes turns.
    pub(crate) fn add(&mut self, rate: u64) {
        self.sum += u128::from(rate);
        self.count += 1;
    }

    /// The weight of one. Its floor bounds how often one is passed over before its turn is long enough for a packet.
    pub(crate) fn weight(self, rate: u64) -> u32 {
        let one = u128::from(ONE);
        match self.sum {
            0 => ONE as u32,
            sum => (u128::from(rate) * self.count * one / sum).clamp(one / 16, one * 256) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_leave_from_anywhere_and_join_at_the_end() {
        let mut links = [Link::FREE; 4];
        let order = |links: &[Link], head: u32| {
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
