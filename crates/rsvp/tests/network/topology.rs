//! Nodes on links with two or more ends, and the routes over them: shortest paths to hosts; to
//! groups one tree for all senders, or the shortest paths from each. The order of the links
//! breaks ties.

use core::net::{IpAddr, Ipv4Addr};
use rsvp::traffic_control::{InterfaceId, Route};
use std::collections::{BTreeSet, VecDeque};

/// The group of all tests.
pub(crate) const GROUP: IpAddr = IpAddr::V4(Ipv4Addr::new(239, 0, 0, 1));

pub(crate) fn is_group(address: IpAddr) -> bool {
    address.is_multicast()
}

/// Each link's nodes, in order of their ends.
#[derive(Clone)]
pub(crate) struct Topology(pub(crate) Vec<Vec<usize>>);

impl Topology {
    /// A, R1, R2 and B in a row, with a second link between the routers.
    pub(crate) fn row() -> Self {
        Self(vec![vec![0, 1], vec![1, 2], vec![2, 3], vec![1, 2]])
    }

    /// Four hosts, 0 and 1 behind router 4, 2 and 3 behind router 5.
    pub(crate) fn dumbbell() -> Self {
        Self(vec![vec![0, 4], vec![1, 4], vec![4, 5], vec![5, 2], vec![5, 3]])
    }

    /// Host 0 behind router 1, and routers 2 and 3 with hosts 4 and 5 on one Ethernet with it.
    pub(crate) fn ethernet() -> Self {
        Self(vec![vec![0, 1], vec![1, 2, 3], vec![2, 4], vec![3, 5]])
    }

    /// Four routers in a ring, a host behind each: router n has host n + 4.
    pub(crate) fn ring() -> Self {
        Self(vec![
            vec![0, 1],
            vec![1, 2],
            vec![2, 3],
            vec![3, 0],
            vec![0, 4],
            vec![1, 5],
            vec![2, 6],
            vec![3, 7],
        ])
    }

    /// An Ethernet with three routers, two of them also connected by a link, and a host behind
    /// each: router n has host n + 3.
    pub(crate) fn mesh() -> Self {
        Self(vec![
            vec![0, 1, 2],
            vec![1, 2],
            vec![0, 3],
            vec![1, 4],
            vec![2, 5],
        ])
    }

    /// Five routers in a ring, a host behind each: router n has host n + 5.
    pub(crate) fn pentagon() -> Self {
        let ring = (0..5).map(|at| vec![at, (at + 1) % 5]);
        Self(ring.chain((0..5).map(|at| vec![at, at + 5])).collect())
    }

    /// The router of RFC 2205, figure 3: S1 (node 1) on its first link; a router with S2 and S3 (2
    /// and 3) on its second; R1 (4) on the third; R2 and R3 (5 and 6) on the fourth.
    pub(crate) fn figure_3() -> Self {
        Self(vec![
            vec![0, 1],
            vec![0, 7],
            vec![0, 4],
            vec![0, 5, 6],
            vec![7, 2],
            vec![7, 3],
        ])
    }

    /// The address of an end of a link.
    pub(crate) const fn address(link: usize, end: usize) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(10, 0, link as u8 + 1, end as u8 + 1))
    }

    pub(crate) fn nodes(&self) -> usize {
        self.0.iter().flatten().max().map_or(0, |most| most + 1)
    }

    /// Nodes with one link.
    pub(crate) fn hosts(&self) -> Vec<usize> {
        (0..self.nodes())
            .filter(|at| self.links_of(*at).len() == 1)
            .collect()
    }

    /// The links of a node, in the order of its interfaces.
    pub(crate) fn links_of(&self, at: usize) -> Vec<usize> {
        (0..self.0.len())
            .filter(|link| self.0[*link].contains(&at))
            .collect()
    }

    pub(crate) fn interface(&self, at: usize, link: usize) -> InterfaceId {
        let links = self.links_of(at);
        let place = links.iter().position(|of| *of == link);
        place.expect("the node is on the link") as InterfaceId
    }

    pub(crate) fn addresses(&self, at: usize) -> Vec<IpAddr> {
        let end = |link: usize| self.0[link].iter().position(|node| *node == at);
        let links = self.links_of(at);
        links
            .into_iter()
            .map(|link| Self::address(link, end(link).expect("the node is on the link")))
            .collect()
    }

    /// A host's one address.
    pub(crate) fn host(&self, at: usize) -> IpAddr {
        self.addresses(at)[0]
    }

    pub(crate) fn others(&self, link: usize, at: usize) -> Vec<usize> {
        self.0[link].iter().copied().filter(|node| *node != at).collect()
    }

    fn owner(&self, address: IpAddr) -> Option<usize> {
        (0..self.nodes()).find(|at| self.addresses(*at).contains(&address))
    }
}

/// A link, and the node at its other end.
type Hop = (usize, usize);

/// All routes at one time.
pub(crate) struct Tables {
    topology: Topology,
    /// From node to node.
    next: Vec<Vec<Option<Hop>>>,
    /// The tree's hops from each node, for each source.
    trees: Vec<Vec<Vec<Hop>>>,
    members: BTreeSet<usize>,
}

impl Tables {
    pub(crate) fn new(
        topology: &Topology,
        avoided: &[usize],
        members: &BTreeSet<usize>,
        shared: bool,
    ) -> Self {
        let count = topology.nodes();
        let usable: Vec<usize> = (0..topology.0.len())
            .filter(|link| !avoided.contains(link))
            .collect();
        // The next hop from each node on its shortest path to this one.
        let towards = |to: usize| {
            let mut hops: Vec<Option<Hop>> = vec![None; count];
            let mut seen = BTreeSet::from([to]);
            let mut queue = VecDeque::from([to]);
            while let Some(at) = queue.pop_front() {
                for link in usable.iter().filter(|link| topology.0[**link].contains(&at)) {
                    for other in topology.others(*link, at) {
                        if seen.insert(other) {
                            hops[other] = Some((*link, at));
                            queue.push_back(other);
                        }
                    }
                }
            }
            hops
        };
        let all: Vec<Vec<Option<Hop>>> = (0..count).map(towards).collect();
        let next = (0..count)
            .map(|from| (0..count).map(|to| all[to][from]).collect())
            .collect();
        let tree = |root: usize| {
            let mut joined: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); topology.0.len()];
            for (at, hop) in all[root].iter().enumerate() {
                if let Some((link, parent)) = *hop {
                    joined[link].extend([at, parent]);
                }
            }
            // A node on the tree receives from all others on its link.
            let mut tree = vec![Vec::new(); count];
            for (link, nodes) in joined.iter().enumerate() {
                for at in nodes {
                    tree[*at].extend(
                        nodes
                            .iter()
                            .filter(|other| *other != at)
                            .map(|other| (link, *other)),
                    );
                }
            }
            tree
        };
        let trees = (0..count)
            .map(|source| tree(if shared { 0 } else { source }))
            .collect();
        Self {
            topology: topology.clone(),
            next,
            trees,
            members: members.clone(),
        }
    }

    /// The hop from a node to a host.
    pub(crate) fn next(&self, at: usize, destination: IpAddr) -> Option<Hop> {
        self.next[at][self.topology.owner(destination)?]
    }

    pub(crate) fn route(&self, at: usize, source: Option<IpAddr>, destination: IpAddr) -> Route {
        if is_group(destination) {
            return source
                .and_then(|source| self.topology.owner(source))
                .map_or(Route::NONE, |source| self.group(at, source));
        }
        match self.topology.owner(destination) {
            Some(owner) if owner == at => Route::local(),
            Some(_) => self.next(at, destination).map_or(Route::NONE, |(link, _)| {
                Route::through(self.topology.interface(at, link))
            }),
            None => Route::NONE,
        }
    }

    /// The route of data from this source to the group, from this node on.
    fn group(&self, at: usize, source: usize) -> Route {
        let towards = (at != source)
            .then(|| self.tree_hop(source, at, source))
            .flatten();
        let came_by = towards.map(|(link, _)| link);
        let mut by: Vec<usize> = Vec::new();
        for (link, next) in &self.trees[source][at] {
            if Some(*link) != came_by && !by.contains(link) && self.leads(source, *next, at, *link) {
                by.push(*link);
            }
        }
        by.sort_unstable();
        Route {
            incoming: came_by.map(|link| self.topology.interface(at, link)),
            outgoing: by
                .into_iter()
                .map(|link| self.topology.interface(at, link))
                .collect(),
            local: self.members.contains(&at),
        }
    }

    /// Whether a member is at this node or downstream of it, away from the other node.
    fn leads(&self, source: usize, at: usize, from: usize, by: usize) -> bool {
        let on = |(link, next): &Hop| *next != from && *link != by && self.leads(source, *next, at, *link);
        self.members.contains(&at) || self.trees[source][at].iter().any(on)
    }

    /// The first hop on the tree of a source from one node to another.
    fn tree_hop(&self, source: usize, from: usize, to: usize) -> Option<Hop> {
        let mut queue: VecDeque<(usize, Option<Hop>)> = VecDeque::from([(from, None)]);
        let mut seen = BTreeSet::from([from]);
        while let Some((at, first)) = queue.pop_front() {
            if at == to {
                return first;
            }
            for hop in &self.trees[source][at] {
                if seen.insert(hop.1) {
                    queue.push_back((hop.1, first.or(Some(*hop))));
                }
            }
        }
        None
    }

    /// The nodes with their outgoing links from a source to a host or member, in order; `None`
    /// without a path.
    pub(crate) fn path(&self, from: usize, to: usize, group: bool) -> Option<Vec<Hop>> {
        let mut way = Vec::new();
        let mut at = from;
        while at != to {
            let hop = if group {
                self.tree_hop(from, at, to)
            } else {
                self.next[at][to]
            };
            let (link, next) = hop?;
            way.push((at, link));
            at = next;
        }
        Some(way)
    }
}
