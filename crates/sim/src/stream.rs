//! Streams: what one endpoint sends to another, and the links that it takes.
//!
//! A conversation has two endpoints and two streams, numbered alike: endpoint `s` sends on stream `s`, and what it
//! sends arrives at endpoint `s ^ 1`. Routes are the fewest links, the earlier declared one among equals.

use engine::header::FlowKey;
use std::collections::VecDeque;

/// What an endpoint sends to its peer.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    /// The header fields of its packets, for classifiers.
    pub(crate) key: FlowKey,
    /// Where its route begins among all routes' links.
    pub(crate) first: u32,
}

impl Stream {
    /// The header fields of a packet whose code point may have been changed on the way.
    pub(crate) fn key_of(&self, remarked: Option<u8>) -> FlowKey {
        FlowKey {
            dscp: remarked.unwrap_or(self.key.dscp),
            ..self.key
        }
    }
}

/// Which links leave each node, and whither.
#[derive(Debug, Default)]
pub(crate) struct Map {
    /// For each node: (link, the node at its end).
    out: Vec<Vec<(u32, u32)>>,
    /// For each node: (link, the node that it comes from).
    into: Vec<Vec<(u32, u32)>>,
}

impl Map {
    pub(crate) fn node(&mut self) {
        self.out.push(Vec::new());
        self.into.push(Vec::new());
    }

    pub(crate) fn link(&mut self, from: u32, to: u32, link: u32) {
        self.out[from as usize].push((link, to));
        self.into[to as usize].push((link, from));
    }

    /// The links from one node to another; `None` if there is no way. Where there is but one link to take, it is
    /// taken from either end before anything is searched, so that a thousand hosts behind a router cost nothing.
    pub(crate) fn route(&self, from: u32, to: u32) -> Option<Vec<u32>> {
        let (mut path, mut end) = (Vec::new(), Vec::new());
        let (mut start, mut goal) = (from, to);
        while start != goal
            && path.len() <= self.out.len()
            && let [(link, next)] = self.out[start as usize][..]
        {
            path.push(link);
            start = next;
        }
        while start != goal
            && end.len() <= self.out.len()
            && let [(link, before)] = self.into[goal as usize][..]
        {
            end.push(link);
            goal = before;
        }
        path.extend(self.search(start, goal)?);
        path.extend(end.into_iter().rev());
        Some(path)
    }

    /// Breadth first.
    fn search(&self, from: u32, to: u32) -> Option<Vec<u32>> {
        let mut came: Vec<Option<(u32, u32)>> = vec![None; self.out.len()];
        let mut next = VecDeque::from([from]);
        'all: while let Some(node) = next.pop_front() {
            for &(link, end) in &self.out[node as usize] {
                if end != from && came[end as usize].is_none() {
                    came[end as usize] = Some((link, node));
                    next.push_back(end);
                }
                if end == to {
                    break 'all;
                }
            }
        }
        let (mut path, mut node) = (Vec::new(), to);
        while node != from {
            let (link, before) = came[node as usize]?;
            path.push(link);
            node = before;
        }
        path.reverse();
        Some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_has_the_fewest_links_and_the_first_declared_among_equals() {
        let mut map = Map::default();
        (0..5).for_each(|_| map.node());
        for (link, (from, to)) in [(0, 1), (1, 3), (0, 2), (2, 3), (0, 4), (3, 0)]
            .into_iter()
            .enumerate()
        {
            map.link(from, to, link as u32);
        }
        assert_eq!(map.route(0, 3).as_deref(), Some(&[0, 1][..]));
        assert_eq!(map.route(0, 0).as_deref(), Some(&[][..]));
        assert_eq!(map.route(4, 0), None);
    }

    #[test]
    fn a_ring_of_one_way_links_that_does_not_pass_the_goal_is_no_way() {
        let mut map = Map::default();
        (0..4).for_each(|_| map.node());
        for (link, (from, to)) in [(0, 1), (1, 2), (2, 0)].into_iter().enumerate() {
            map.link(from, to, link as u32);
        }
        assert_eq!(map.route(0, 2).as_deref(), Some(&[0, 1][..]));
        assert_eq!(map.route(0, 3), None);
    }
}
