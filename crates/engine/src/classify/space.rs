//! The search: a tuple space that is merged, subdivided, and pruned by precedence.
//!
//! Tuple space search (Srinivasan, Suri and Varghese, 1999) keeps one hash table for each
//! combination of prefix lengths, of which there may be thousands. As in TupleMerge (Daly and
//! others, 2019), a table here hashes fewer bits than its filters fix, so that a few tables cover
//! them all. Departures:
//!
//! - which tables there are is chosen from the filters, by how well each would separate them, not
//!   by fixed rules;
//! - a bucket that is too full becomes a space of its own, on the bits not yet used, so no list
//!   grows long because the filters cluster in one place;
//! - filters that differ in port ranges alone are separated by cutting the range of ports, and in
//!   each piece a filter that an earlier one covers is left out.
//!
//! Tables stand in the order of the best precedence in them (the pruning of Open vSwitch): once a
//! match is found, tables that cannot beat it are skipped. Every match is verified on the whole
//! filter, so hashes affect speed alone.

use super::filter::Filter;
use super::pattern::{Entry, KeyWords, Masks, NOTHING, Rank, Secret, Shape, Side, hash};
use super::table::Table;
use crate::header::Family;
use crate::random::mix;

/// Filters in a list at most, if there is a way to separate them.
const SHORT_LIST: usize = 6;
/// Filters examined to choose a table.
const SAMPLE: usize = 4096;
/// Shapes tried as a table on the sample, and of these on all filters.
const CANDIDATES: usize = 96;
const FINALISTS: usize = 8;
/// By how much a bit is worth less where a space below is needed.
const UNSOLVED: u64 = 2;
/// Copies and comparisons that cutting the ports may take, for each filter.
const CUT_BUDGET: usize = 24;
/// For so many entries or nodes there is room for one more, and for some at least, so that many
/// need not be moved soon.
const SPARE: usize = 16;
/// Filters that a change in place may sort anew, and entries and nodes that may be moved.
const FEW: usize = 16;
const MOVED: usize = 1024;
/// The bit of a bucket that is a node, not the head of a list.
const NODE: u32 = 1 << 31;

/// The filters of one family.
#[derive(Clone, Debug)]
pub(super) struct Space<const N: usize> {
    secret: Secret,
    masks: Masks<N>,
    root: u32,
    entries: Vec<Entry<N>>,
    nodes: Vec<Node<N>>,
    free_entries: Vec<u32>,
    free_nodes: Vec<u32>,
}

/// A bucket that is more than a list.
#[derive(Clone, Debug)]
enum Node<const N: usize> {
    Free,
    Tables(Tables<N>),
    Cut(Cut<N>),
}

impl<const N: usize> Node<N> {
    /// By which ports its contents are to be cut anew.
    fn side(&self) -> Side {
        match self {
            Self::Cut(cut) => cut.side,
            Self::Free | Self::Tables(_) => Side::Destination,
        }
    }
}

#[derive(Clone, Debug)]
struct Tables<const N: usize> {
    /// Ordered by `best`, the highest first.
    tables: Vec<Table<N>>,
    /// What is in no table.
    rest: u32,
    rest_best: Rank,
    /// What all filters here have fixed and was hashed above.
    fixed: Shape,
    /// Filters when it was built, and additions and removals since.
    built: usize,
    changed: usize,
}

#[derive(Clone, Debug)]
struct Cut<const N: usize> {
    side: Side,
    /// The lowest port of each part but the first.
    bounds: Vec<u16>,
    parts: Vec<u32>,
    /// All filters, by precedence, for when one is added or removed.
    members: Vec<Entry<N>>,
}

/// An entry whose place is looked for, and its shape.
#[derive(Debug)]
struct Sought<const N: usize> {
    entry: Entry<N>,
    shape: Shape,
}

impl<const N: usize> Sought<N> {
    fn new(filter: &Filter, family: Family, rank: Rank) -> Self {
        let (entry, mask) = Entry::unnumbered(filter, family, rank);
        let shape = entry.shape_under(&mask);
        Self { entry, shape }
    }
}

/// The best match so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Match {
    pub(super) rank: Rank,
    pub(super) class: u32,
}

impl<const N: usize> Space<N> {
    /// A space with these entries.
    pub(super) fn new(entries: Vec<Entry<N>>, masks: Masks<N>, secret: Secret) -> Self {
        let mut space = Self {
            secret,
            masks,
            root: NOTHING,
            entries: Vec::with_capacity(entries.len()),
            nodes: Vec::new(),
            free_entries: Vec::new(),
            free_nodes: Vec::new(),
        };
        space.root = space.build(entries, Shape::default(), true);
        let spare = |len: usize| if len <= MOVED { 0 } else { (len / SPARE).max(MOVED) };
        space.entries.reserve_exact(spare(space.entries.len()));
        space.nodes.reserve_exact(spare(space.nodes.len()));
        let (masks, _) = space.masks.room();
        space.masks.reserve(spare(masks));
        space
    }

    /// The entry of the highest rank that takes the packet; rank 0 if none does.
    #[inline]
    pub(super) fn find(&self, key: &KeyWords<N>) -> Match {
        let mut found = Match { rank: 0, class: 0 };
        self.search(self.root, key, &mut found);
        found
    }

    #[inline]
    fn search(&self, bucket: u32, key: &KeyWords<N>, found: &mut Match) {
        if bucket & NODE == 0 {
            self.scan(bucket, key, found);
        } else {
            self.search_node(bucket, key, found);
        }
    }

    fn search_node(&self, bucket: u32, key: &KeyWords<N>, found: &mut Match) {
        match &self.nodes[(bucket & !NODE) as usize] {
            Node::Tables(node) => {
                for table in &node.tables {
                    if table.best <= found.rank {
                        break;
                    }
                    let bucket = table.get(hash(&self.secret, key, &table.mask));
                    self.search(bucket, key, found);
                }
                if node.rest_best > found.rank {
                    self.search(node.rest, key, found);
                }
            }
            Node::Cut(cut) => {
                let port = cut.side.port(key);
                let part = cut.bounds.partition_point(|bound| *bound <= port);
                self.search(cut.parts[part], key, found);
            }
            Node::Free => {}
        }
    }

    /// Searches a list, which is in order of precedence.
    #[inline]
    fn scan(&self, mut at: u32, key: &KeyWords<N>, found: &mut Match) {
        while let Some(entry) = self.entries.get(at as usize) {
            if entry.rank <= found.rank {
                return;
            }
            if entry.matches(key, &self.masks) {
                *found = Match {
                    rank: entry.rank,
                    class: entry.class,
                };
                return;
            }
            at = entry.next;
        }
    }

    // ------------------------------------------------------------------------------------------
    // building

    /// A bucket of these entries, which agree in the `fixed` bits.
    fn build(&mut self, entries: Vec<Entry<N>>, fixed: Shape, coarse: bool) -> u32 {
        if entries.len() <= SHORT_LIST {
            return self.list(entries);
        }
        let built = entries.len();
        let mut rest: Vec<(Shape, Entry<N>)> = entries
            .into_iter()
            .map(|entry| (self.shape(&entry, coarse), entry))
            .collect();
        let mut tables = Vec::new();
        while let Some(shape) = self.choose(&rest, &fixed) {
            let taken = rest
                .extract_if(.., |(own, _)| own.fits(&shape))
                .map(|(_, entry)| entry);
            let taken: Vec<_> = taken.collect();
            let table = self.table(taken, shape);
            tables.push(table);
        }
        let rest: Vec<_> = rest.into_iter().map(|(_, entry)| entry).collect();
        if tables.is_empty() {
            return if coarse {
                self.build(rest, fixed, false)
            } else {
                self.cut(rest, Side::Destination)
            };
        }
        tables.sort_by_key(|table| std::cmp::Reverse(table.best));
        let rest_best = best(&rest);
        let rest = if coarse {
            self.build(rest, fixed, false)
        } else {
            self.cut(rest, Side::Destination)
        };
        self.node(Node::Tables(Tables {
            tables,
            rest,
            rest_best,
            fixed,
            built,
            changed: 0,
        }))
    }

    fn shape(&self, entry: &Entry<N>, coarse: bool) -> Shape {
        let shape = entry.shape(&self.masks);
        if coarse { shape.coarse::<N>() } else { shape }
    }

    /// A table of these entries, all of which fix its shape.
    fn table(&mut self, entries: Vec<Entry<N>>, shape: Shape) -> Table<N> {
        let mask = shape.mask();
        let mut hashed: Vec<(u32, Entry<N>)> = entries
            .into_iter()
            .map(|entry| (hash(&self.secret, &entry.value, &mask), entry))
            .collect();
        hashed.sort_unstable_by_key(|(hash, entry)| (*hash, std::cmp::Reverse(entry.rank)));
        let buckets = hashed.chunk_by(|a, b| a.0 == b.0).count();
        let mut table = Table::new(shape, buckets);
        table.best = hashed.iter().map(|(_, entry)| entry.rank).max().unwrap_or(0);
        for group in hashed.chunk_by(|a, b| a.0 == b.0) {
            let entries = group.iter().map(|(_, entry)| entry.clone()).collect();
            let bucket = self.build(entries, shape, false);
            table.set(group[0].0, bucket);
        }
        table
    }

    /// The shape whose table separates most filters, of those that fix more than `fixed`; `None` if
    /// none separates enough. A sample chooses the shapes that are then tried on all.
    fn choose(&self, rest: &[(Shape, Entry<N>)], fixed: &Shape) -> Option<Shape> {
        if rest.len() <= SHORT_LIST {
            return None;
        }
        let stride = rest.len().div_ceil(SAMPLE);
        let sample: Vec<&(Shape, Entry<N>)> = (0..rest.len() / stride)
            .map(|i| &rest[i * stride + (mix(self.secret[0] ^ i as u64) % stride as u64) as usize])
            .collect();
        let candidates = candidates(&sample, fixed);
        let mut hashes = Vec::with_capacity(rest.len());
        let mut tried: Vec<(u64, Shape)> = candidates
            .into_iter()
            .filter_map(|shape| {
                Some((
                    self.gain(sample.iter().copied(), shape, stride, &mut hashes)?,
                    shape,
                ))
            })
            .collect();
        tried.sort_unstable_by(|a, b| b.cmp(a));
        if stride == 1 {
            return tried.first().map(|(_, shape)| *shape);
        }
        let all = tried.into_iter().take(FINALISTS);
        let exactly =
            all.filter_map(|(_, shape)| Some((self.gain(rest.iter(), shape, 1, &mut hashes)?, shape)));
        exactly.max().map(|(_, shape)| shape)
    }

    /// How well a table of this shape separates filters, counted in bits: for each filter that it
    /// can take, how often the number of filters in its bucket would be halved. Half of that where
    /// a list would still be too long, since a space below costs more than another table beside.
    /// `None` for next to nothing.
    fn gain<'a>(
        &self,
        filters: impl ExactSizeIterator<Item = &'a (Shape, Entry<N>)>,
        shape: Shape,
        stride: usize,
        hashes: &mut Vec<u32>,
    ) -> Option<u64> {
        let quarters = |n: usize| u64::from((n as u128).pow(4).max(1).ilog2());
        let whole = quarters(filters.len() * stride);
        let mask = shape.mask();
        hashes.clear();
        let fitting = filters.filter(|(own, _)| own.fits(&shape));
        hashes.extend(fitting.map(|(_, entry)| hash(&self.secret, &entry.value, &mask)));
        hashes.sort_unstable();
        // The size of a bucket with one filter of the sample cannot be seen, but collisions in the
        // sample estimate it.
        let meetings: usize = hashes
            .chunk_by(|a, b| a == b)
            .map(|same| same.len() * (same.len() - 1))
            .sum();
        let average = if stride == 1 {
            1
        } else {
            1 + meetings * stride / hashes.len().max(1)
        };
        let among = |same: usize| ((same - 1) * stride + 1).max(average).max(2);
        let gain: u64 = hashes
            .chunk_by(|a, b| a == b)
            .map(|same| {
                let among = among(same.len());
                let bits = same.len() as u64 * whole.saturating_sub(quarters(among));
                if among <= SHORT_LIST {
                    bits
                } else {
                    bits / UNSOLVED
                }
            })
            .sum();
        (gain > 0 && gain * UNSOLVED >= 4 * hashes.len() as u64).then_some(gain)
    }

    /// Entries that no table separates: a list, or one for each piece of the range of ports.
    fn cut(&mut self, mut entries: Vec<Entry<N>>, side: Side) -> u32 {
        if entries.len() <= SHORT_LIST {
            return self.list(entries);
        }
        entries.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.rank));
        let mut pieces = Vec::new();
        let mut budget = CUT_BUDGET * entries.len();
        split(
            &entries,
            &self.masks,
            (0..entries.len()).collect(),
            side,
            (0, u16::MAX),
            &mut budget,
            &mut pieces,
        );
        let longest = pieces.iter().map(|(_, members)| members.len()).max().unwrap_or(0);
        if longest * 2 > entries.len() && pieces.iter().map(|(_, m)| m.len()).sum::<usize>() > entries.len() {
            return match side {
                Side::Destination => self.cut(entries, Side::Source),
                Side::Source => self.list(entries),
            };
        }
        let bounds = pieces.iter().skip(1).map(|(low, _)| *low).collect();
        let mut parts = Vec::with_capacity(pieces.len());
        for (_, members) in pieces {
            let members: Vec<_> = members.into_iter().map(|i| entries[i].clone()).collect();
            let smaller = members.len() < entries.len() && side == Side::Destination;
            parts.push(if smaller {
                self.cut(members, Side::Source)
            } else {
                self.list(members)
            });
        }
        self.node(Node::Cut(Cut {
            side,
            bounds,
            parts,
            members: entries,
        }))
    }

    fn node(&mut self, node: Node<N>) -> u32 {
        let at = match self.free_nodes.pop() {
            Some(at) => at,
            None => {
                self.nodes.push(Node::Free);
                index(self.nodes.len() - 1)
            }
        };
        self.nodes[at as usize] = node;
        at | NODE
    }

    /// A list in order of precedence.
    fn list(&mut self, mut entries: Vec<Entry<N>>) -> u32 {
        entries.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.rank));
        let mut next = NOTHING;
        // Back to front, so that each knows its next; the slots are taken front to back, to lie in
        // order.
        let places: Vec<u32> = entries.iter().map(|_| self.reserve()).collect();
        for (place, entry) in places.into_iter().zip(entries).rev() {
            self.entries[place as usize] = entry;
            self.entries[place as usize].next = next;
            next = place;
        }
        next
    }

    fn reserve(&mut self) -> u32 {
        self.free_entries.pop().unwrap_or_else(|| {
            self.entries.push(Entry::EMPTY);
            index(self.entries.len() - 1)
        })
    }

    // ------------------------------------------------------------------------------------------
    // changing

    /// Adds a filter, for packets of this family.
    pub(super) fn add(&mut self, filter: &Filter, family: Family, rank: Rank) {
        let entry = Entry::new(filter, family, rank, &mut self.masks);
        self.root = self.insert(self.root, entry, Shape::default());
    }

    fn insert(&mut self, bucket: u32, entry: Entry<N>, fixed: Shape) -> u32 {
        if bucket & NODE == 0 {
            return self.insert_in_list(bucket, entry, fixed);
        }
        let at = (bucket & !NODE) as usize;
        match std::mem::replace(&mut self.nodes[at], Node::Free) {
            Node::Tables(mut node) => {
                node.changed += 1;
                if node.worn() {
                    let fixed = node.fixed;
                    let mut entries = self.dismantle(Node::Tables(node));
                    entries.push(entry);
                    self.free_nodes.push(index(at));
                    return self.build(entries, fixed, fixed == Shape::default());
                }
                self.insert_in_tables(&mut node, entry);
                self.nodes[at] = Node::Tables(node);
                bucket
            }
            node => {
                let side = node.side();
                let mut entries = self.dismantle(node);
                entries.push(entry);
                self.free_nodes.push(index(at));
                self.cut(entries, side)
            }
        }
    }

    fn insert_in_tables(&mut self, node: &mut Tables<N>, entry: Entry<N>) {
        let (shape, rank) = (entry.shape(&self.masks), entry.rank);
        let fitting = node.tables.iter_mut().filter(|table| shape.fits(&table.shape));
        let Some(table) = fitting.max_by_key(|table| table.shape.bits()) else {
            node.rest_best = node.rest_best.max(rank);
            node.rest = self.insert(node.rest, entry, node.fixed);
            return;
        };
        let hash = hash(&self.secret, &entry.value, &table.mask);
        let bucket = self.insert(table.get(hash), entry, table.shape);
        table.set(hash, bucket);
        if rank > table.best {
            table.best = rank;
            node.tables.sort_by_key(|table| std::cmp::Reverse(table.best));
        }
    }

    fn insert_in_list(&mut self, head: u32, entry: Entry<N>, fixed: Shape) -> u32 {
        let mut entries = self.dismantle_list(head);
        entries.push(entry);
        // A long list could not be separated; try again each time it has doubled.
        let try_again = (entries.len() - 1).is_power_of_two() || entries.len() == SHORT_LIST + 1;
        if try_again {
            self.build(entries, fixed, false)
        } else {
            self.list(entries)
        }
    }

    /// Removes the filter's entry.
    pub(super) fn remove(&mut self, filter: &Filter, family: Family, rank: Rank) {
        let entry = Entry::new(filter, family, rank, &mut self.masks);
        self.root = self.take(self.root, &entry).unwrap_or(self.root);
    }

    /// The bucket without the entry; `None` if it was not in it.
    fn take(&mut self, bucket: u32, entry: &Entry<N>) -> Option<u32> {
        if bucket & NODE == 0 {
            return self.take_from_list(bucket, entry.rank);
        }
        let at = (bucket & !NODE) as usize;
        match std::mem::replace(&mut self.nodes[at], Node::Free) {
            Node::Tables(mut node) => {
                let taken = self.take_from_tables(&mut node, entry);
                node.changed += usize::from(taken.is_some());
                if node.worn() {
                    let fixed = node.fixed;
                    let entries = self.dismantle(Node::Tables(node));
                    self.free_nodes.push(index(at));
                    return Some(self.build(entries, fixed, fixed == Shape::default()));
                }
                self.nodes[at] = Node::Tables(node);
                taken.map(|()| bucket)
            }
            Node::Cut(cut) if cut.members.iter().all(|member| member.rank != entry.rank) => {
                self.nodes[at] = Node::Cut(cut);
                None
            }
            node => {
                let side = node.side();
                let mut entries = self.dismantle(node);
                entries.retain(|member| member.rank != entry.rank);
                self.free_nodes.push(index(at));
                Some(self.cut(entries, side))
            }
        }
    }

    fn take_from_tables(&mut self, node: &mut Tables<N>, entry: &Entry<N>) -> Option<()> {
        let shape = entry.shape(&self.masks);
        // It went into the finest that fitted then, which need not be the finest now.
        let fitting = node.tables.iter_mut().filter(|table| shape.fits(&table.shape));
        for table in fitting {
            let hash = hash(&self.secret, &entry.value, &table.mask);
            if let Some(bucket) = self.take(table.get(hash), entry) {
                table.set(hash, bucket);
                return Some(());
            }
        }
        node.rest = self.take(node.rest, entry)?;
        Some(())
    }

    fn take_from_list(&mut self, head: u32, rank: Rank) -> Option<u32> {
        let (mut before, mut at) = (NOTHING, head);
        while let Some(entry) = self.entries.get(at as usize) {
            let next = entry.next;
            if entry.rank == rank {
                self.free_entries.push(at);
                if before == NOTHING {
                    return Some(next);
                }
                self.entries[before as usize].next = next;
                return Some(head);
            }
            (before, at) = (at, next);
        }
        None
    }

    // ------------------------------------------------------------------------------------------
    // what a change costs

    /// See [`Classifier::adds_in_place`](super::Classifier::adds_in_place).
    pub(super) fn adds_in_place(&self, filter: &Filter, family: Family, rank: Rank) -> bool {
        let room = |len: usize, capacity: usize, free: usize| {
            len <= MOVED || capacity - len + free >= CUT_BUDGET * FEW
        };
        room(
            self.entries.len(),
            self.entries.capacity(),
            self.free_entries.len(),
        ) && room(self.nodes.len(), self.nodes.capacity(), self.free_nodes.len())
            && self.has_room_for_a_mask()
            && self.inserts_few(self.root, &Sought::new(filter, family, rank))
    }

    /// Whether masks need not be moved for one more, or are few.
    fn has_room_for_a_mask(&self) -> bool {
        let (masks, capacity) = self.masks.room();
        masks < capacity || masks <= FEW * FEW
    }

    /// Whether `insert` sorts few anew.
    fn inserts_few(&self, bucket: u32, sought: &Sought<N>) -> bool {
        let Some(node) = self.node_at(bucket) else {
            return self.in_list(bucket).nth(FEW).is_none();
        };
        match node {
            Node::Free => true,
            Node::Cut(cut) => cut.members.len() <= FEW,
            Node::Tables(node) => {
                let fitting = node.tables.iter().filter(|table| sought.shape.fits(&table.shape));
                node.lasts()
                    && match fitting.max_by_key(|table| table.shape.bits()) {
                        Some(table) => {
                            let hash = hash(&self.secret, &sought.entry.value, &table.mask);
                            let bucket = table.get(hash);
                            (bucket != NOTHING || table.has_room()) && self.inserts_few(bucket, sought)
                        }
                        None => self.inserts_few(node.rest, sought),
                    }
            }
        }
    }

    /// See [`Classifier::removes_in_place`](super::Classifier::removes_in_place).
    pub(super) fn removes_in_place(&self, filter: &Filter, family: Family, rank: Rank) -> bool {
        let sought = Sought::new(filter, family, rank);
        self.takes_few(self.root, &sought).unwrap_or(true)
    }

    /// Whether `take` sorts few anew; `None` if the entry is not in this bucket, and few were
    /// looked at.
    fn takes_few(&self, bucket: u32, sought: &Sought<N>) -> Option<bool> {
        let Some(node) = self.node_at(bucket) else {
            let mut all = self.in_list(bucket);
            let found = all.by_ref().take(FEW).any(|own| own.rank == sought.entry.rank);
            return if found {
                Some(true)
            } else {
                all.next().map(|_| false)
            };
        };
        match node {
            Node::Free => None,
            Node::Cut(cut) if cut.members.len() > FEW => Some(false),
            Node::Cut(cut) => cut
                .members
                .iter()
                .any(|member| member.rank == sought.entry.rank)
                .then_some(true),
            Node::Tables(node) => {
                let fitting = node.tables.iter().filter(|table| sought.shape.fits(&table.shape));
                let mut buckets =
                    fitting.map(|table| table.get(hash(&self.secret, &sought.entry.value, &table.mask)));
                let found = buckets.find_map(|bucket| self.takes_few(bucket, sought));
                let found = found.or_else(|| self.takes_few(node.rest, sought));
                found.map(|few| few && node.lasts())
            }
        }
    }

    fn node_at(&self, bucket: u32) -> Option<&Node<N>> {
        (bucket & NODE != 0).then(|| &self.nodes[(bucket & !NODE) as usize])
    }

    /// The entries of a list.
    fn in_list(&self, head: u32) -> impl Iterator<Item = &Entry<N>> {
        let first = self.entries.get(head as usize);
        std::iter::successors(first, |entry| self.entries.get(entry.next as usize))
    }

    // ------------------------------------------------------------------------------------------
    // taking apart

    /// The entries of a bucket, whose slots become free.
    fn dismantle_bucket(&mut self, bucket: u32) -> Vec<Entry<N>> {
        if bucket & NODE == 0 {
            return self.dismantle_list(bucket);
        }
        let at = bucket & !NODE;
        let node = std::mem::replace(&mut self.nodes[at as usize], Node::Free);
        self.free_nodes.push(at);
        self.dismantle(node)
    }

    fn dismantle_list(&mut self, mut at: u32) -> Vec<Entry<N>> {
        let mut entries = Vec::new();
        while let Some(entry) = self.entries.get(at as usize) {
            self.free_entries.push(at);
            at = entry.next;
            entries.push(entry.clone());
        }
        entries
    }

    fn dismantle(&mut self, node: Node<N>) -> Vec<Entry<N>> {
        match node {
            Node::Free => Vec::new(),
            Node::Tables(node) => {
                let mut entries = self.dismantle_bucket(node.rest);
                for bucket in node.tables.iter().flat_map(Table::buckets) {
                    entries.append(&mut self.dismantle_bucket(bucket));
                }
                entries
            }
            Node::Cut(cut) => {
                for part in cut.parts {
                    self.dismantle_bucket(part);
                }
                cut.members
            }
        }
    }

    /// Bytes on the heap.
    pub(super) fn memory(&self) -> usize {
        let node = |node: &Node<N>| match node {
            Node::Free => 0,
            Node::Tables(node) => {
                node.tables.capacity() * size_of::<Table<N>>()
                    + node.tables.iter().map(Table::memory).sum::<usize>()
            }
            Node::Cut(cut) => {
                cut.members.capacity() * size_of::<Entry<N>>()
                    + cut.parts.capacity() * 4
                    + cut.bounds.capacity() * 2
            }
        };
        self.masks.memory()
            + self.entries.capacity() * size_of::<Entry<N>>()
            + self.nodes.capacity() * size_of::<Node<N>>()
            + self.nodes.iter().map(node).sum::<usize>()
            + (self.free_entries.capacity() + self.free_nodes.capacity()) * 4
    }
}

impl<const N: usize> Tables<N> {
    /// Whether it has changed so much that a rebuild pays: the cost, spread over the changes, is
    /// small.
    fn worn(&self) -> bool {
        self.changed > self.built + SHORT_LIST
    }

    /// Whether it has few filters, or one change more does not wear it.
    fn lasts(&self) -> bool {
        self.built <= FEW || self.changed < self.built + SHORT_LIST
    }
}

fn index(at: usize) -> u32 {
    // A list's slots and nodes are far fewer than 2³¹: each takes more than 64 bytes.
    at as u32 & !NODE
}

fn best<const N: usize>(entries: &[Entry<N>]) -> Rank {
    entries.iter().map(|entry| entry.rank).max().unwrap_or(0)
}

/// Shapes worth trying: the commonest, and what they have in common.
fn candidates<const N: usize>(sample: &[&(Shape, Entry<N>)], fixed: &Shape) -> Vec<Shape> {
    let mut shapes: Vec<Shape> = sample.iter().map(|(shape, _)| *shape).collect();
    shapes.sort_unstable();
    let mut counted: Vec<(usize, Shape)> = shapes
        .chunk_by(|a, b| a == b)
        .map(|same| (same.len(), same[0]))
        .collect();
    counted.sort_unstable_by(|a, b| b.cmp(a));
    let mut found: Vec<Shape> = counted
        .into_iter()
        .take(CANDIDATES / 4)
        .map(|(_, shape)| shape)
        .collect();
    let mut i = 1;
    while i < found.len() && found.len() < CANDIDATES {
        for j in 0..i {
            let meet = found[i].meet(&found[j]);
            if !found.contains(&meet) {
                found.push(meet);
            }
        }
        i += 1;
    }
    found.retain(|shape| shape.fits(fixed) && shape != fixed);
    found
}

/// Cuts the ports from `range.0` to `range.1` at the middle of the members' bounds until few
/// members are left in each piece, and collects the pieces: the lowest port, and the members, of
/// which those that an earlier one covers are left out.
fn split<const N: usize>(
    entries: &[Entry<N>],
    masks: &Masks<N>,
    members: Vec<usize>,
    side: Side,
    range: (u16, u16),
    budget: &mut usize,
    pieces: &mut Vec<(u16, Vec<usize>)>,
) {
    let mut kept: Vec<usize> = Vec::new();
    let mut wide: Vec<usize> = Vec::new();
    for member in members {
        let (low, high) = entries[member].range(side);
        if high < range.0
            || low > range.1
            || wide
                .iter()
                .any(|&w| entries[w].covers(&entries[member], side, range, masks))
        {
            continue;
        }
        if low <= range.0 && range.1 <= high && wide.len() < 4 {
            wide.push(member);
        }
        kept.push(member);
    }
    *budget = budget.saturating_sub(kept.len());
    let mut bounds: Vec<u16> = Vec::new();
    if kept.len() > SHORT_LIST && *budget > 0 {
        for &member in &kept {
            let (low, high) = entries[member].range(side);
            bounds.extend(
                [low, high.saturating_add(1)]
                    .iter()
                    .filter(|&&at| at > range.0 && at <= range.1),
            );
        }
    }
    if bounds.is_empty() {
        pieces.push((range.0, kept));
        return;
    }
    let middle = bounds.len() / 2;
    let at = *bounds.select_nth_unstable(middle).1;
    split(
        entries,
        masks,
        kept.clone(),
        side,
        (range.0, at - 1),
        budget,
        pieces,
    );
    split(entries, masks, kept, side, (at, range.1), budget, pieces);
}

#[cfg(test)]
mod tests;
