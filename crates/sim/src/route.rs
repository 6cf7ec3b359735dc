//! The way that packets take through a network: a simulation's, and what a scenario says of it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The links of the route of the least cost from one node to another (Dijkstra's algorithm); among
/// equals that of the fewest links, among these that whose last link begins nearer by cost, and
/// then the one by the links that leave a node first. `None` if there is no route.
///
/// `leaving` gives the links that leave a node, each with the node at its end and its cost.
pub fn cheapest<L: Copy, Links: Iterator<Item = (L, usize, u32)>>(
    nodes: usize,
    [from, to]: [usize; 2],
    leaving: impl Fn(usize) -> Links,
) -> Option<Vec<L>> {
    let mut reached_by: Vec<Option<(L, usize)>> = vec![None; nodes];
    // Cost and links of the best way so far.
    let mut best = vec![(u64::MAX, 0_u32); nodes];
    best[from] = (0, 0);
    let (mut found, mut next) = (0_u32, BinaryHeap::from([Reverse(((0, 0), 0, from))]));
    while let Some(Reverse((way, _, node))) = next.pop() {
        if node == to {
            break;
        }
        if way > best[node] {
            continue;
        }
        for (link, end, cost) in leaving(node) {
            let longer = (way.0 + u64::from(cost), way.1 + 1);
            if longer < best[end] {
                best[end] = longer;
                reached_by[end] = Some((link, node));
                found += 1;
                next.push(Reverse((longer, found, end)));
            }
        }
    }
    let (mut path, mut node) = (Vec::new(), to);
    while node != from {
        let (link, previous) = reached_by[node]?;
        path.push(link);
        node = previous;
    }
    path.reverse();
    Some(path)
}
