//! The expected reservations on every hop, computed from senders, requests and routes, without
//! any message.

use crate::rig::Network;
use crate::topology::{Tables, is_group};
use core::net::IpAddr;
use rsvp::wire::SenderTemplate;
use std::collections::{BTreeMap, BTreeSet};

/// Rate and bucket in bytes, the only differences between requests of the simulation. Two of them
/// may be unordered.
pub(crate) type Amount = (u64, u64);

fn most(a: Amount, b: Amount) -> Amount {
    (a.0.max(b.0), a.1.max(b.1))
}

/// How reservations are merged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Wildcard,
    Fixed,
    Shared,
}

/// The requests of programs at a node, by the program's number.
pub(crate) type Requests = BTreeMap<(usize, u64), Request>;

/// What a program requests. With a wildcard the senders do not matter; only style FF has several
/// amounts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) amounts: BTreeMap<SenderTemplate, Amount>,
}

/// On a node, towards a link: how much, and for whom.
pub(crate) type Reservations = BTreeSet<(usize, usize, Amount, BTreeSet<SenderTemplate>)>;

/// The path state along the senders' paths.
struct Paths {
    /// The previous hop and link.
    previous: BTreeMap<(usize, SenderTemplate), (usize, usize)>,
    /// The outgoing links.
    by: BTreeMap<(usize, SenderTemplate), BTreeSet<usize>>,
    here: BTreeSet<(usize, SenderTemplate)>,
}

impl Paths {
    fn new(
        tables: &Tables,
        session: IpAddr,
        senders: &BTreeMap<SenderTemplate, usize>,
        ends: &BTreeSet<usize>,
    ) -> Self {
        let mut paths = Self {
            previous: BTreeMap::new(),
            by: BTreeMap::new(),
            here: BTreeSet::new(),
        };
        for (sender, from) in senders {
            for end in ends {
                let Some(path) = tables.path(*from, *end, is_group(session)) else {
                    continue;
                };
                paths.here.insert((*end, *sender));
                let next = path.iter().skip(1).map(|(at, _)| *at).chain([*end]);
                for ((at, link), next) in path.iter().zip(next) {
                    paths.by.entry((*at, *sender)).or_default().insert(*link);
                    paths.previous.insert((next, *sender), (*at, *link));
                }
            }
        }
        paths
    }

    fn leaves(&self, at: usize, sender: SenderTemplate, link: usize) -> bool {
        self.by.get(&(at, sender)).is_some_and(|by| by.contains(&link))
    }
}

/// The expected reservations.
pub(crate) fn reservations(
    tables: &Tables,
    session: IpAddr,
    senders: &BTreeMap<SenderTemplate, usize>,
    ends: &BTreeSet<usize>,
    (kind, requests): (Kind, &Requests),
) -> Reservations {
    let paths = Paths::new(tables, session, senders, ends);
    match kind {
        Kind::Fixed => fixed(tables, session, senders, &paths, requests),
        _ => together(kind, senders, &paths, requests),
    }
}

fn fixed(
    tables: &Tables,
    session: IpAddr,
    senders: &BTreeMap<SenderTemplate, usize>,
    paths: &Paths,
    requests: &Requests,
) -> Reservations {
    let mut all: BTreeMap<(usize, usize, SenderTemplate), Amount> = BTreeMap::new();
    for ((end, _), request) in requests {
        for (sender, amount) in &request.amounts {
            if !paths.here.contains(&(*end, *sender)) {
                continue;
            }
            let path = tables.path(senders[sender], *end, is_group(session));
            for (at, link) in path.into_iter().flatten() {
                let place = all.entry((at, link, *sender)).or_default();
                *place = most(*place, *amount);
            }
        }
    }
    let one = |((at, link, sender), amount)| (at, link, amount, BTreeSet::from([sender]));
    all.into_iter().map(one).collect()
}

/// Shared reservations: each node requests from each previous hop what its next hops request,
/// until nothing changes.
fn together(
    kind: Kind,
    senders: &BTreeMap<SenderTemplate, usize>,
    paths: &Paths,
    requests: &Requests,
) -> Reservations {
    let everyone: BTreeSet<SenderTemplate> = senders.keys().copied().collect();
    let listed = |request: &Request| match kind {
        Kind::Wildcard => everyone.clone(),
        _ => request.amounts.keys().copied().collect(),
    };
    // From a node to its previous hop, over a link.
    let mut requested: BTreeMap<(usize, usize, usize), (Amount, BTreeSet<SenderTemplate>)> = BTreeMap::new();
    loop {
        let mut next = BTreeMap::new();
        for ((at, sender), (before, link)) in &paths.previous {
            let mut add = |amount: Amount| {
                let place: &mut (Amount, BTreeSet<SenderTemplate>) =
                    next.entry((*at, *before, *link)).or_default();
                place.0 = most(place.0, amount);
                place.1.insert(*sender);
            };
            for ((end, _), request) in requests {
                let meant =
                    end == at && paths.here.contains(&(*at, *sender)) && listed(request).contains(sender);
                if let (true, Some(amount)) = (meant, request.amounts.values().next()) {
                    add(*amount);
                }
            }
            for ((_, to, over), (amount, list)) in &requested {
                if to == at && list.contains(sender) && paths.leaves(*at, *sender, *over) {
                    add(*amount);
                }
            }
        }
        if next == requested {
            break;
        }
        requested = next;
    }
    let mut all: BTreeMap<(usize, usize), (Amount, BTreeSet<SenderTemplate>)> = BTreeMap::new();
    for ((_, to, link), (amount, list)) in requested {
        let place = all.entry((to, link)).or_default();
        place.0 = most(place.0, amount);
        let named = |sender: &&SenderTemplate| kind == Kind::Wildcard || list.contains(sender);
        let passing = everyone.iter().filter(|sender| paths.leaves(to, **sender, link));
        place.1.extend(passing.filter(named));
    }
    let one = |((at, link), (amount, list))| (at, link, amount, list);
    all.into_iter().map(one).collect()
}

impl Network {
    /// The actual reservations.
    pub(crate) fn reserved(&self) -> Reservations {
        let mut all = BTreeSet::new();
        for (at, node) in self.nodes.iter().enumerate() {
            let books = node.traffic_control();
            for (handle, (interface, request)) in &books.reserved {
                let bucket = request.flowspec.bucket();
                let filters = books.filters.iter().filter(|(of, _)| of == handle);
                let new = all.insert((
                    at,
                    self.topology.links_of(at)[*interface as usize],
                    (bucket.rate.ceil(), bucket.bucket.ceil()),
                    filters.map(|(_, sender)| *sender).collect(),
                ));
                assert!(new, "a duplicate reservation");
            }
        }
        all
    }
}
