//! Streams, the packets of one endpoint to its peer, and their routes.
//!
//! A flow has two endpoints and two streams, numbered alike: endpoint `s` sends on stream `s`, and
//! its packets arrive at endpoint `s ^ 1`. A route has the fewest links; among equals it takes the
//! links that were added first.

use crate::route;
use engine::header::FlowKey;
use std::collections::BTreeSet;

/// The packets of an endpoint to its peer.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    /// The header fields of its packets, for classifiers.
    pub(crate) key: FlowKey,
    /// The first hop of its route, an index into the links of all routes.
    pub(crate) first_hop: u32,
    /// The nodes that routes lead between; none if it keeps the route that it was given.
    pub(crate) routed: Option<[u32; 2]>,
}

impl Stream {
    /// The header fields of a packet whose DSCP may have been remarked on the way.
    pub(crate) fn key_of(&self, remarked: Option<u8>) -> FlowKey {
        FlowKey {
            dscp: remarked.unwrap_or(self.key.dscp),
            ..self.key
        }
    }
}

/// The links between nodes.
#[derive(Debug, Default)]
pub(crate) struct Topology {
    /// For each link, what it costs on a route.
    costs: Vec<u32>,
    /// For each node, the links that leave it: (link, the node at its end).
    out: Vec<Vec<(u32, u32)>>,
    /// For each node, the links that reach it: (link, the node at its beginning).
    into: Vec<Vec<(u32, u32)>>,
    /// The links that routes avoid, where there is another way.
    avoided: BTreeSet<u32>,
}

impl Topology {
    pub(crate) fn add_node(&mut self) {
        self.out.push(Vec::new());
        self.into.push(Vec::new());
    }

    /// Adds the next link.
    pub(crate) fn add_link(&mut self, from: u32, to: u32, link: u32, cost: u32) {
        self.costs.push(cost);
        self.out[from as usize].push((link, to));
        self.into[to as usize].push((link, from));
    }

    /// Routes avoid these links from now on, and no others.
    pub(crate) fn avoid(&mut self, links: BTreeSet<u32>) {
        self.avoided = links;
    }

    /// The node at the end of a link.
    pub(crate) fn end_of(&self, link: u32) -> Option<u32> {
        let mut all = self.out.iter().flatten();
        all.find(|(number, _)| *number == link).map(|(_, end)| *end)
    }

    /// The links from one node to another; `None` if there is no route.
    pub(crate) fn route(&self, from: u32, to: u32) -> Option<Vec<u32>> {
        let around = (!self.avoided.is_empty()).then(|| self.search(from, to, &self.avoided));
        around.flatten().or_else(|| self.usual_route(from, to))
    }

    /// A route by any links. From either end, the only link is taken without a search, so that a
    /// thousand hosts behind a router cost nothing.
    fn usual_route(&self, from: u32, to: u32) -> Option<Vec<u32>> {
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
            && let [(link, previous)] = self.into[goal as usize][..]
        {
            end.push(link);
            goal = previous;
        }
        path.extend(self.search(start, goal, &BTreeSet::new())?);
        path.extend(end.into_iter().rev());
        Some(path)
    }

    /// The route of the least cost without these links.
    fn search(&self, from: u32, to: u32, without: &BTreeSet<u32>) -> Option<Vec<u32>> {
        route::cheapest(self.out.len(), [from as usize, to as usize], |node| {
            let links = self.out[node].iter();
            let usable = links.filter(|(link, _)| !without.contains(link));
            usable.map(|&(link, end)| (link, end as usize, self.costs[link as usize]))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_has_the_fewest_links_and_among_equals_the_first_added() {
        let mut topology = Topology::default();
        (0..5).for_each(|_| topology.add_node());
        for (link, (from, to)) in [(0, 1), (1, 3), (0, 2), (2, 3), (0, 4), (3, 0)]
            .into_iter()
            .enumerate()
        {
            topology.add_link(from, to, link as u32, 1);
        }
        assert_eq!(topology.route(0, 3).as_deref(), Some(&[0, 1][..]));
        assert_eq!(topology.route(0, 0).as_deref(), Some(&[][..]));
        assert_eq!(topology.route(4, 0), None);
    }

    #[test]
    fn a_ring_of_one_way_links_without_the_goal_is_no_route() {
        let mut topology = Topology::default();
        (0..4).for_each(|_| topology.add_node());
        for (link, (from, to)) in [(0, 1), (1, 2), (2, 0)].into_iter().enumerate() {
            topology.add_link(from, to, link as u32, 1);
        }
        assert_eq!(topology.route(0, 2).as_deref(), Some(&[0, 1][..]));
        assert_eq!(topology.route(0, 3), None);
    }
}
