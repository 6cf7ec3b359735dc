//! A hash table from keys to numbered members, of which there are at most so many; a member takes
//! memory from its first key on.
//!
//! Chains run through an array indexed by the member's number. There are as many chains as members,
//! so the mean chain has one member, and keys are compared in full. An adversary who chooses keys
//! must not know how they are mixed.

use crate::random::mix;

/// No member.
const NONE: u32 = u32::MAX;
/// In no chain.
const FREE: u32 = u32::MAX - 1;

/// A member's key, and the next in its chain; [`FREE`] if it has no key.
#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u64,
    next: u32,
}

/// The keys of the members 0 to n − 1; none has one at first.
#[derive(Debug)]
pub(crate) struct Keyed {
    heads: Vec<u32>,
    /// Of the members up to the last that had a key.
    entries: Vec<Entry>,
}

impl Keyed {
    /// For this many members.
    pub(crate) fn new(members: usize) -> Self {
        Self {
            heads: vec![NONE; members.next_power_of_two()],
            entries: Vec::new(),
        }
    }

    #[inline]
    fn chain(&self, key: u64) -> usize {
        mix(key) as usize & (self.heads.len() - 1)
    }

    /// The member with this key.
    #[inline]
    pub(crate) fn find(&self, key: u64) -> Option<u32> {
        let mut at = self.heads[self.chain(key)];
        while let Some(entry) = self.entries.get(at as usize) {
            if entry.key == key {
                return Some(at);
            }
            at = entry.next;
        }
        None
    }

    /// Gives a member a key that no other has, in place of its own.
    pub(crate) fn set(&mut self, member: u32, key: u64) {
        self.clear(member);
        if self.entries.len() <= member as usize {
            let free = Entry { key: 0, next: FREE };
            self.entries.resize(member as usize + 1, free);
        }
        let chain = self.chain(key);
        let next = std::mem::replace(&mut self.heads[chain], member);
        self.entries[member as usize] = Entry { key, next };
    }

    /// Removes a member's key, if it has one.
    pub(crate) fn clear(&mut self, member: u32) {
        let Some(entry) = self.entries.get_mut(member as usize) else {
            return;
        };
        let Entry { key, next: after } = *entry;
        if after == FREE {
            return;
        }
        entry.next = FREE;
        let chain = self.chain(key);
        if self.heads[chain] == member {
            self.heads[chain] = after;
            return;
        }
        let mut at = self.heads[chain];
        while self.entries[at as usize].next != member {
            at = self.entries[at as usize].next;
        }
        self.entries[at as usize].next = after;
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
