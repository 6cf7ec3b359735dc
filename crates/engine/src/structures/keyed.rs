//! A hash table from keys to a fixed number of members; allocates nothing after construction.
//!
//! Chains run through an array indexed by the member's number. There are as many chains as members,
//! so the mean chain has one member, and keys are compared in full. An adversary who chooses keys
//! must not know how they are mixed.

use crate::random::mix;

/// No member.
const NONE: u32 = u32::MAX;

/// The keys of the members 0 to n − 1; none has one at first.
#[derive(Debug)]
pub(crate) struct Keyed {
    heads: Vec<u32>,
    /// Of each member: its key if it has one, and the next in its chain.
    keys: Vec<Option<u64>>,
    next: Vec<u32>,
}

impl Keyed {
    /// For this many members.
    pub(crate) fn new(members: usize) -> Self {
        Self {
            heads: vec![NONE; members.next_power_of_two()],
            keys: vec![None; members],
            next: vec![NONE; members],
        }
    }

    fn chain(&self, key: u64) -> usize {
        mix(key) as usize & (self.heads.len() - 1)
    }

    /// The member with this key.
    #[inline]
    pub(crate) fn find(&self, key: u64) -> Option<u32> {
        let mut at = self.heads[self.chain(key)];
        while at != NONE && self.keys[at as usize] != Some(key) {
            at = self.next[at as usize];
        }
        (at != NONE).then_some(at)
    }

    /// Gives a member a key that no other has, in place of its own.
    pub(crate) fn set(&mut self, member: u32, key: u64) {
        self.clear(member);
        let chain = self.chain(key);
        self.keys[member as usize] = Some(key);
        self.next[member as usize] = std::mem::replace(&mut self.heads[chain], member);
    }

    /// Removes a member's key, if it has one.
    pub(crate) fn clear(&mut self, member: u32) {
        let Some(key) = self.keys[member as usize].take() else {
            return;
        };
        let chain = self.chain(key);
        let after = self.next[member as usize];
        if self.heads[chain] == member {
            self.heads[chain] = after;
            return;
        }
        let mut at = self.heads[chain];
        while self.next[at as usize] != member {
            at = self.next[at as usize];
        }
        self.next[at as usize] = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;
    use std::collections::HashMap;

    #[test]
    fn agrees_with_a_map() {
        let (mut rng, mut keyed) = (Seed(3).stream(), Keyed::new(50));
        let mut known: HashMap<u64, u32> = HashMap::new();
        for _ in 0..20_000 {
            let (member, key) = (rng.below(50) as u32, rng.below(90));
            assert_eq!(keyed.find(key), known.get(&key).copied());
            if rng.below(3) == 0 {
                keyed.clear(member);
                known.retain(|_, other| *other != member);
            } else if !known.contains_key(&key) {
                keyed.set(member, key);
                known.retain(|_, other| *other != member);
                known.insert(key, member);
            }
        }
        assert!(known.len() > 20, "{known:?}");
    }
}
