//! Which host behind this one a connection is of, by what its packets show on the line: written by
//! one thread, read by packet loops, which never wait for it.
//!
//! Connections are found by a hash of 64 bits under a secret; nobody can aim two at one entry. Of a
//! row of [`WAYS`] entries any may have any of its connections, and one for which there is no room
//! is not kept: its packets are this host's own, as without a table. A reader that meets an entry
//! while it is exchanged takes it for none, or, if it is made anew for the same connection just
//! then, may see another host for one packet.

use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::atomic::{AtomicU64, fence};
use engine::header::{FlowHasher, FlowKey};
use engine::random::Seed;

/// Entries that a connection may have.
const WAYS: usize = 8;

/// The most entries: 24 bytes each. Half of them may be taken before many find their rows full.
const MOST: usize = 1 << 17;
/// The fewest.
const FEWEST: usize = 1 << 10;

/// No connection's hash.
const FREE: u64 = 0;

/// An entry: the hash of a connection, and the address of its host.
#[derive(Debug, Default)]
struct Place {
    hash: AtomicU64,
    address: [AtomicU64; 2],
}

/// The connections of hosts behind this one.
#[derive(Debug)]
pub struct NatTable {
    places: Box<[Place]>,
    hasher: FlowHasher,
    kept: AtomicU64,
    without_room: AtomicU64,
    listed_again: AtomicU64,
}

impl NatTable {
    /// One with room for as many connections as the kernel keeps, and for 65,536 at most.
    pub fn new(connections: usize, seed: Seed) -> Self {
        let places = (connections.saturating_mul(2))
            .next_power_of_two()
            .clamp(FEWEST, MOST);
        Self::with_places(places, seed)
    }

    /// One with so many entries.
    pub(crate) fn with_places(places: usize, seed: Seed) -> Self {
        Self {
            places: (0..places).map(|_| Place::default()).collect(),
            hasher: FlowHasher::new(seed.fork("translated connections")),
            kept: AtomicU64::new(0),
            without_room: AtomicU64::new(0),
            listed_again: AtomicU64::new(0),
        }
    }

    /// Connections that it has.
    pub fn kept(&self) -> u64 {
        self.kept.load(Relaxed)
    }

    /// How often a connection has found no room, since it was made.
    pub fn without_room(&self) -> u64 {
        self.without_room.load(Relaxed)
    }

    /// How often the kernel could not tell all that happened, and was asked for all it has.
    pub fn listed_again(&self) -> u64 {
        self.listed_again.load(Relaxed)
    }

    /// The kernel is asked for all.
    pub(super) fn is_listed_again(&self) {
        self.listed_again.fetch_add(1, Relaxed);
    }

    fn hash(&self, leaving: &FlowKey) -> u64 {
        self.hasher.wide(leaving).max(FREE + 1)
    }

    /// The number of the first of a hash's places.
    fn row(&self, hash: u64) -> usize {
        (hash >> 32) as usize % (self.places.len() / WAYS) * WAYS
    }

    /// The host of the connection whose packets leave like this, if it is one behind.
    #[inline]
    pub fn host(&self, leaving: &FlowKey) -> Option<u128> {
        let hash = self.hash(leaving);
        let row = self.row(hash);
        for place in &self.places[row..row + WAYS] {
            if place.hash.load(Acquire) != hash {
                continue;
            }
            let [low, high] = [0, 1].map(|half| u128::from(place.address[half].load(Relaxed)));
            fence(Acquire);
            return (place.hash.load(Relaxed) == hash).then_some(high << 64 | low);
        }
        None
    }

    /// The connection whose packets leave like this is of this host. For one thread. The place that
    /// it has, if there is room.
    pub(super) fn put(&self, leaving: &FlowKey, host: u128) -> Option<usize> {
        let hash = self.hash(leaving);
        let row = self.row(hash);
        let find = |wanted| {
            let place = |&at: &usize| self.places[at].hash.load(Relaxed) == wanted;
            (row..row + WAYS).find(place)
        };
        let Some(at) = find(hash).or_else(|| find(FREE)) else {
            self.without_room.fetch_add(1, Relaxed);
            return None;
        };
        self.clear(at);
        let place = &self.places[at];
        // A reader that sees the new address sees the former hash no more.
        fence(Release);
        place.address[0].store(host as u64, Relaxed);
        place.address[1].store((host >> 64) as u64, Relaxed);
        place.hash.store(hash, Release);
        self.kept.fetch_add(1, Relaxed);
        Some(at)
    }

    /// It has ended. For the same thread.
    pub(super) fn remove(&self, leaving: &FlowKey) {
        let hash = self.hash(leaving);
        let row = self.row(hash);
        let found = (row..row + WAYS).find(|&at| self.places[at].hash.load(Relaxed) == hash);
        found.into_iter().for_each(|at| self.clear(at));
    }

    fn clear(&self, at: usize) {
        if self.places[at].hash.swap(FREE, Relaxed) != FREE {
            self.kept.fetch_sub(1, Relaxed);
        }
    }

    /// Forgets all but those in these places. For the same thread.
    pub(super) fn keep_only(&self, seen: &[usize]) {
        let mut stays = vec![false; self.places.len()];
        seen.iter().for_each(|&at| stays[at] = true);
        let others = (0..stays.len()).filter(|&at| !stays[at]);
        others.for_each(|at| self.clear(at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::header::Family;
    use std::collections::HashMap;
    use std::sync::atomic::AtomicBool;

    fn key(number: u32) -> FlowKey {
        FlowKey {
            source: 0xc000_0201,
            destination: 0xc633_6401,
            family: Family::V4,
            protocol: 6,
            source_port: Some((number & 0xffff) as u16),
            destination_port: Some((number >> 16) as u16),
            ..FlowKey::default()
        }
    }

    /// 200,000 connections that come and go, at most 400 at a time, as in a map.
    #[test]
    fn connections_come_and_go_as_in_a_map() {
        let table = NatTable::new(0, Seed(1));
        let (mut model, mut rng) = (HashMap::new(), Seed(2).stream());
        for turn in 0..200_000u32 {
            let number = rng.below(400) as u32;
            match rng.below(3) {
                0 => {
                    table.remove(&key(number));
                    model.remove(&number);
                }
                _ => {
                    let host = u128::from(turn) << 60 | 7;
                    assert!(table.put(&key(number), host).is_some(), "{turn}");
                    model.insert(number, host);
                }
            }
            let asked = rng.below(400) as u32;
            assert_eq!(table.host(&key(asked)), model.get(&asked).copied(), "{turn}");
            assert_eq!(table.kept(), model.len() as u64);
        }
        assert_eq!(table.without_room(), 0);
    }

    /// Twice as many as there is room for: each is known or not, and none is another's.
    #[test]
    fn a_flood_of_connections_ends_at_the_tables_room() {
        let table = NatTable::new(0, Seed(3));
        let room = 2 * FEWEST as u32;
        let kept: Vec<u32> = (0..room)
            .filter(|&number| table.put(&key(number), number.into()).is_some())
            .collect();
        let all = (0..room).filter(|&number| table.host(&key(number)) == Some(number.into()));
        assert!(all.eq(kept.iter().copied()));
        assert_eq!(table.kept() + table.without_room(), u64::from(room));
        assert!(table.kept() > FEWEST as u64 * 9 / 10 && table.kept() <= FEWEST as u64);
        let seen: Vec<usize> = table.put(&key(kept[0]), 1).into_iter().collect();
        table.keep_only(&seen);
        assert_eq!((table.kept(), table.host(&key(kept[0]))), (1, Some(1)));
        assert_eq!(table.host(&key(kept[1])), None);
    }

    /// Both halves of an address are those that were written together.
    #[test]
    fn a_reader_beside_the_writer_sees_whole_addresses() {
        let (table, end) = (NatTable::new(0, Seed(4)), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut found, mut asked) = (0, 0u32);
                while !end.load(Relaxed) || found == 0 {
                    asked = asked.wrapping_add(1);
                    if let Some(host) = table.host(&key(asked % 3_000)) {
                        found += 1;
                        assert_eq!((host >> 64) as u64, host as u64);
                    }
                }
            });
            let written = |number: u32| u128::from(number) << 64 | u128::from(number);
            for turn in 0..300_000u32 {
                // A connection has one host for as long as it lasts.
                match turn % 2 {
                    0 => {
                        table.put(&key(turn % 3_000), written(turn % 3_000));
                    }
                    _ => table.remove(&key(turn.wrapping_mul(7) % 3_000)),
                }
            }
            table.put(&key(0), written(0));
            end.store(true, Relaxed);
        });
    }
}
