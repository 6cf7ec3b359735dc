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
    /// The links that it passes, in order.
    pub(crate) path: Box<[u32]>,
}

/// Which links leave each node, and whither.
#[derive(Debug, Default)]
pub(crate) struct Map {
    /// For each node: (link, the node at its end).
    out: Vec<Vec<(u32, u32)>>,
}

impl Map {
    pub(crate) fn node(&mut self) {
        self.out.push(Vec::new());
    }

    pub(crate) fn link(&mut self, from: u32, to: u32, link: u32) {
        self.out[from as usize].push((link, to));
    }

    /// The links from one node to another; `None` if there is no way.
    pub(crate) fn route(&self, from: u32, to: u32) -> Option<Box<[u32]>> {
        let mut came: Vec<Option<(u32, u32)>> = vec![None; self.out.len()];
        let mut next = VecDeque::from([from]);
        while let Some(node) = next.pop_front() {
            if node == to {
                break;
            }
            for &(link, end) in &self.out[node as usize] {
                // Nothing lies behind a host with one link, and that back: thousands of them cost next to nothing.
                let last = matches!(self.out[end as usize][..], [(_, back)] if back == node);
                let on_the_way = end == to || !last;
                if on_the_way && end != from && came[end as usize].is_none() {
                    came[end as usize] = Some((link, node));
                    next.push_back(end);
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
        Some(path.into())
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
}
