//! Rings through an array, and sets of members that share by weight: deficit round robin among
//! those with a backlog, in constant time whatever their weights.
//!
//! A ring is known by its head, the member whose turn it is; links stand in the members, so that
//! joining and leaving take constant time and no memory. Turns are those of deficit round robin
//! (Shreedhar and Varghese, 1995), with the deficit kept: a member may send while its turn has
//! bytes left, and the last packet may overdraw it. [`Sets`] keeps weights that are far apart from
//! each other.

/// No member.
pub(crate) const NONE: u32 = u32::MAX;

/// A member's neighbours in its ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Neighbours {
    pub(crate) next: u32,
    pub(crate) previous: u32,
}

impl Neighbours {
    /// In no ring.
    pub(crate) const FREE: Self = Self {
        next: NONE,
        previous: NONE,
    };
}

/// Inserts a member at the end of the ring with this head, and returns the head. `link` finds a
/// member's neighbours.
#[inline]
pub(crate) fn insert<T>(
    all: &mut [T],
    link: impl Fn(&mut T) -> &mut Neighbours,
    head: u32,
    member: u32,
) -> u32 {
    if head == NONE {
        *link(&mut all[member as usize]) = Neighbours {
            next: member,
            previous: member,
        };
        return member;
    }
    let last = link(&mut all[head as usize]).previous;
    *link(&mut all[member as usize]) = Neighbours {
        next: head,
        previous: last,
    };
    link(&mut all[last as usize]).next = member;
    link(&mut all[head as usize]).previous = member;
    head
}

/// Removes a member from the ring with this head, and returns the head.
#[inline]
pub(crate) fn remove<T>(
    all: &mut [T],
    link: impl Fn(&mut T) -> &mut Neighbours,
    head: u32,
    member: u32,
) -> u32 {
    let Neighbours { next, previous } = *link(&mut all[member as usize]);
    if next == member {
        return NONE;
    }
    link(&mut all[previous as usize]).next = next;
    link(&mut all[next as usize]).previous = previous;
    if head == member { next } else { head }
}

/// Priorities of a level.
pub(crate) const PRIORITIES: usize = 8;

/// The heads of rings by level and priority, with bitmaps that find the first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rows {
    /// Levels with a ring.
    busy: u64,
    /// Of each level: the priorities with a ring, and the heads.
    levels: Vec<(u8, [u32; PRIORITIES])>,
}

impl Rows {
    /// This many levels, at most 64, without rings.
    pub(crate) fn new(levels: usize) -> Self {
        Self {
            busy: 0,
            levels: vec![(0, [NONE; PRIORITIES]); levels],
        }
    }

    /// Whether there is no ring.
    pub(crate) fn is_empty(&self) -> bool {
        self.busy == 0
    }

    /// The lowest level with a ring, and there the highest priority.
    #[inline]
    pub(crate) fn first(&self) -> Option<(usize, usize)> {
        if self.busy == 0 {
            return None;
        }
        let level = self.busy.trailing_zeros() as usize;
        Some((level, self.levels[level].0.ilog2() as usize))
    }

    /// The head of a ring.
    #[inline]
    pub(crate) fn head(&self, level: usize, priority: usize) -> u32 {
        self.levels[level].1[priority]
    }

    /// Sets the head of a ring; [`NONE`] when it is empty.
    #[inline]
    pub(crate) fn set(&mut self, level: usize, priority: usize, head: u32) {
        let (occupied, heads) = &mut self.levels[level];
        heads[priority] = head;
        *occupied = *occupied & !(1 << priority) | u8::from(head != NONE) << priority;
        self.busy = self.busy & !(1 << level) | u64::from(*occupied != 0) << level;
    }
}

/// What is left of a turn, in bytes, and how long turns are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turn {
    pub(crate) left: i32,
    pub(crate) weight: Weight,
}

/// The weight of a member of a set, and its lane there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Weight {
    value: u64,
    pub(crate) lane: u32,
}

impl Default for Weight {
    /// As all others: members take turns packet by packet.
    fn default() -> Self {
        Self { value: 1, lane: 0 }
    }
}

impl Turn {
    /// No bytes left, and this weight.
    pub(crate) fn new(weight: Weight) -> Self {
        Self { left: 0, weight }
    }

    /// Adds a new turn to what is left of the old one: a `unit`, at most 1 MiB, for the least
    /// weight of the lane, and less than two for the largest.
    pub(crate) fn grow(&mut self, unit: u64) {
        let Weight { value, .. } = self.weight;
        self.left = self.left.saturating_add(((unit * value) >> value.ilog2()) as i32);
    }

    /// Charges `len`; `true` if the turn is over.
    fn spend(&mut self, len: u64) -> bool {
        self.left = self.left.saturating_sub(i32::try_from(len).unwrap_or(i32::MAX));
        self.left <= 0
    }
}

/// The first member from the head on whose turn has bytes left; each one passed over gets another
/// turn. A turn is at least a unit, so if no packet is longer than that nobody is passed over
/// twice. A ring of one has no turns.
#[inline]
fn whose_turn<T>(
    all: &mut [T],
    look: impl Fn(&mut T) -> (&mut Neighbours, &mut Turn),
    head: u32,
    unit: u64,
) -> u32 {
    let mut at = head;
    loop {
        let (link, turn) = look(&mut all[at as usize]);
        if turn.left > 0 || link.next == at {
            return at;
        }
        turn.grow(unit);
        if turn.left > 0 {
            return at;
        }
        at = link.next;
    }
}

/// How members take turns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turns {
    /// One packet each.
    Packets,
    /// By bytes, in proportion to their weights; turns are this long, see [`Turn::grow`].
    Bytes(u64),
}

/// Sets of members that share in proportion to their weights, however far these are apart.
///
/// Deficit round robin alone would pass a member of little weight over many times for each packet
/// that it sends. So a set has lanes, one for each power of two between its weights: members of a
/// lane, whose weights differ by less than a factor of two, take turns in a ring; lanes share in
/// proportion to the sums of the weights of their members with a backlog, by start-time fair
/// queueing (Goyal, Vin and Cheng, 1996). Those without a backlog count for nothing. A choice looks
/// at each lane once, of which there are at most 41, and at one member.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sets {
    sets: Vec<Set>,
    lanes: Vec<Lane>,
}

#[derive(Clone, Copy, Debug)]
struct Set {
    /// Its lanes, and which of them have members.
    first: u32,
    many: u32,
    busy: u64,
    /// The start tag of the packet sent last, and the latest finish tag.
    now: u128,
    latest: u128,
}

#[derive(Clone, Copy, Debug)]
struct Lane {
    head: u32,
    /// Of the weights of its members.
    sum: u64,
    /// The start tag of its next packet.
    time: u128,
}

/// The weights of a set add up to about this, so that tags are exact to a thousandth of a packet.
const WHOLE: u64 = 1 << 40;
/// What a byte adds to the tag of a lane whose weights add up to 1.
const BYTE: u32 = 42;

impl Sets {
    /// Sets with this many lanes each.
    pub(crate) fn new(lanes: impl IntoIterator<Item = u32>) -> Self {
        let mut all = Self::default();
        for many in lanes {
            all.sets.push(Set {
                first: all.lanes.len() as u32,
                many,
                busy: 0,
                now: 0,
                latest: 0,
            });
            let lane = Lane {
                head: NONE,
                sum: 0,
                time: 0,
            };
            all.lanes.extend((0..many).map(|_| lane));
        }
        all
    }

    /// Puts a member into a set, at the end of its lane; whether the set was empty.
    pub(crate) fn insert<T>(
        &mut self,
        all: &mut [T],
        look: impl Fn(&mut T) -> (&mut Neighbours, &mut Turn),
        set: usize,
        member: u32,
    ) -> bool {
        let Weight { value, lane } = look(&mut all[member as usize]).1.weight;
        let set = &mut self.sets[set];
        let first = set.busy == 0;
        let row = &mut self.lanes[(set.first + lane) as usize];
        if row.head == NONE {
            set.busy |= 1 << lane;
            row.time = row.time.max(set.now);
        }
        row.sum += value;
        row.head = insert(all, |one| look(one).0, row.head, member);
        first
    }

    /// Takes a member out of a set; whether the set is empty then.
    pub(crate) fn remove<T>(
        &mut self,
        all: &mut [T],
        look: impl Fn(&mut T) -> (&mut Neighbours, &mut Turn),
        set: usize,
        member: u32,
    ) -> bool {
        let Weight { value, lane } = look(&mut all[member as usize]).1.weight;
        let set = &mut self.sets[set];
        let row = &mut self.lanes[(set.first + lane) as usize];
        row.sum -= value;
        row.head = remove(all, |one| look(one).0, row.head, member);
        if row.head == NONE {
            set.busy &= !(1 << lane);
        }
        if set.busy == 0 {
            set.now = set.latest;
        }
        set.busy == 0
    }

    /// The lane of a set that goes first, apart from those in `without`, a bitmap.
    #[inline]
    pub(crate) fn first_lane(&self, set: usize, without: u64) -> Option<u32> {
        let set = &self.sets[set];
        let among = set.busy & !without;
        (among != 0).then(|| earliest(&self.lanes[set.first as usize..], among))
    }

    /// The head of a lane; [`NONE`] if it is empty.
    pub(crate) fn head(&self, set: usize, lane: u32) -> u32 {
        self.lanes[(self.sets[set].first + lane) as usize].head
    }

    /// The number of a lane among those of all sets.
    #[inline]
    pub(crate) fn lane(&self, set: usize, lane: u32) -> usize {
        (self.sets[set].first + lane) as usize
    }

    /// Makes another member the head of its lane.
    pub(crate) fn set_head(&mut self, set: usize, lane: u32, head: u32) {
        self.lanes[(self.sets[set].first + lane) as usize].head = head;
    }

    /// The member of a set whose turn it is; the set is not empty.
    #[inline]
    pub(crate) fn next<T>(
        &mut self,
        all: &mut [T],
        look: impl Fn(&mut T) -> (&mut Neighbours, &mut Turn),
        set: usize,
        turns: Turns,
    ) -> u32 {
        let set = &self.sets[set];
        let lanes = &mut self.lanes[set.first as usize..];
        let lane = match set.many {
            1 => 0,
            _ => earliest(lanes, set.busy),
        };
        let row = &mut lanes[lane as usize];
        if let Turns::Bytes(unit) = turns {
            row.head = whose_turn(all, look, row.head, unit);
        }
        row.head
    }

    /// A member of a set has sent a packet.
    #[inline]
    pub(crate) fn sent<T>(
        &mut self,
        all: &mut [T],
        look: impl Fn(&mut T) -> (&mut Neighbours, &mut Turn),
        (set, member): (usize, u32),
        len: u64,
        turns: Turns,
    ) {
        let (link, turn) = look(&mut all[member as usize]);
        let set = &mut self.sets[set];
        let row = &mut self.lanes[(set.first + turn.weight.lane) as usize];
        if link.next != member && (turns == Turns::Packets || turn.spend(len)) {
            row.head = link.next;
        }
        if set.many > 1 {
            set.now = row.time;
            row.time += u128::from((len.min(LONGEST) << BYTE) / row.sum);
            set.latest = set.latest.max(row.time);
        }
    }

    /// The members of every set, lane by lane, each from the head on.
    pub(crate) fn members<T>(&self, all: &mut [T], look: impl Fn(usize, &mut T) -> u32) -> Vec<(usize, u32)> {
        let mut found = Vec::new();
        for (number, set) in self.sets.iter().enumerate() {
            for lane in &self.lanes[set.first as usize..(set.first + set.many) as usize] {
                let mut at = lane.head;
                while at != NONE {
                    found.push((number, at));
                    let next = look(number, &mut all[at as usize]);
                    at = if next == lane.head { NONE } else { next };
                }
            }
        }
        found
    }
}

/// Of these lanes, a bitmap that is not empty, the one whose next packet has the earliest tag.
#[inline]
fn earliest(lanes: &[Lane], among: u64) -> u32 {
    let (mut first, mut others) = (among.trailing_zeros(), among & (among - 1));
    if others == 0 {
        return first;
    }
    let mut time = lanes[first as usize].time;
    while others != 0 {
        let other = others.trailing_zeros();
        others &= others - 1;
        let its = lanes[other as usize].time;
        if its < time {
            (first, time) = (other, its);
        }
    }
    first
}

/// The longest packet that a tag counts: 4 MiB, less a byte.
const LONGEST: u64 = (1 << (u64::BITS - BYTE)) - 1;

/// The octaves of weights whose sums cannot overflow.
const HIGHEST_OCTAVES: u64 = (1 << 44) - 1;

/// The rates of a set's possible members, which become their weights.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Rates {
    sum: u128,
    count: u128,
    /// The lanes that they need: bit *i* for weights from 2^*i* on.
    octaves: u64,
}

impl Rates {
    /// Another member.
    fn add(&mut self, rate: u64) {
        self.sum += u128::from(rate);
        self.count += 1;
    }

    /// The weight of a member. One that is allotted nothing has no proportion to the others: it
    /// counts as a sixteenth of their mean.
    fn value(&self, rate: u64) -> u64 {
        let whole = u128::from(WHOLE);
        let value = match (self.sum, rate) {
            (0, _) => whole / self.count.max(1),
            (_, 0) => whole / (16 * self.count.max(1)),
            (sum, rate) => u128::from(rate) * whole / sum,
        };
        (value as u64).max(1)
    }

    /// Notes the lane that a member needs.
    fn note(&mut self, rate: u64) {
        self.octaves |= 1 << self.value(rate).ilog2();
    }

    /// The weight of a member; its lane is the number of smaller octaves that the set has.
    fn weight(&self, rate: u64) -> Weight {
        let value = self.value(rate);
        let smaller = (1 << value.ilog2()) - 1;
        Weight {
            value,
            lane: (self.octaves & smaller).count_ones(),
        }
    }

    /// Other lanes, for members that may come: with weights up to eight times as large or small, or
    /// without a rate.
    fn widen(&mut self) {
        const BEYOND: u32 = 3;
        self.note(0);
        for _ in 0..BEYOND {
            self.octaves |= (self.octaves << 1 | self.octaves >> 1) & HIGHEST_OCTAVES;
        }
    }

    /// The weight of a member that is not one of these, if there is a lane for it.
    fn weight_of_another(&self, rate: u64) -> Option<Weight> {
        let octave = 1 << self.value(rate).ilog2();
        (self.octaves & octave != 0).then(|| self.weight(rate))
    }

    fn lanes(&self) -> u32 {
        self.octaves.count_ones().max(1)
    }
}

/// A node as its weights need it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rated {
    pub(crate) rate: u64,
    pub(crate) parent: u32,
    pub(crate) priority: u32,
    /// A place for a node that may come: it has no packets.
    pub(crate) vacant: bool,
}

/// The weights of nodes, by rate, and the lanes that their sets need.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Weights {
    /// Of each node: among the leaves of its priority, and among the children of its parent.
    pub(crate) own: Vec<Weight>,
    pub(crate) lent: Vec<Weight>,
    /// Of the leaves of each priority, and of the children of each node; the link is the last.
    pub(crate) alike: [u32; PRIORITIES],
    pub(crate) siblings: Vec<u32>,
    /// Of what these are proportions; where there are places for other nodes.
    basis: Option<Box<Basis>>,
}

/// The rates of the sets.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Basis {
    alike: [Rates; PRIORITIES],
    siblings: Vec<Rates>,
}

impl Weights {
    /// Of nodes of which the first `leaves` are leaves. Where there are places for others, leaves
    /// of all priorities have weights on one scale, so that there are lanes for those of a priority
    /// that has none yet.
    pub(crate) fn of(nodes: &[Rated], leaves: usize) -> Self {
        let mut siblings = vec![Rates::default(); nodes.len() + 1];
        let mut alike: [Rates; PRIORITIES] = Default::default();
        let places = nodes.iter().any(|node| node.vacant);
        let each = |act: fn(&mut Rates, u64), siblings: &mut [Rates], alike: &mut [Rates]| {
            for (number, node) in nodes.iter().enumerate().filter(|(_, node)| !node.vacant) {
                act(&mut siblings[node.parent as usize], node.rate);
                if number < leaves {
                    let sets = if places {
                        0..PRIORITIES
                    } else {
                        node.priority as usize..node.priority as usize + 1
                    };
                    alike[sets].iter_mut().for_each(|rates| act(rates, node.rate));
                }
            }
        };
        each(Rates::add, &mut siblings, &mut alike);
        each(Rates::note, &mut siblings, &mut alike);
        if places {
            alike.iter_mut().for_each(Rates::widen);
            let parents = nodes.iter().filter(|node| node.vacant);
            let mut parents: Vec<u32> = parents.map(|node| node.parent).collect();
            parents.dedup();
            parents
                .iter()
                .for_each(|&parent| siblings[parent as usize].widen());
        }
        let own = |(number, node): (usize, &Rated)| match number < leaves {
            true => alike[node.priority as usize].weight(node.rate),
            false => Weight::default(),
        };
        let weights = Self {
            own: nodes.iter().enumerate().map(own).collect(),
            lent: nodes
                .iter()
                .map(|node| siblings[node.parent as usize].weight(node.rate))
                .collect(),
            alike: alike.each_ref().map(Rates::lanes),
            siblings: siblings.iter().map(Rates::lanes).collect(),
            basis: None,
        };
        let basis = places.then(|| Box::new(Basis { alike, siblings }));
        Self { basis, ..weights }
    }

    /// The weights of a leaf that is not among these nodes, or has another rate, in proportion to
    /// theirs: among the leaves of its priority, and among its siblings. `None` if there is no lane
    /// for it.
    pub(crate) fn of_another(&self, leaf: Rated) -> Option<(Weight, Weight)> {
        let basis = self.basis.as_ref()?;
        let own = basis.alike[leaf.priority as usize].weight_of_another(leaf.rate)?;
        Some((own, self.lent_to_another(leaf)?))
    }

    /// The same among its siblings alone.
    pub(crate) fn lent_to_another(&self, node: Rated) -> Option<Weight> {
        let basis = self.basis.as_ref()?;
        basis.siblings[node.parent as usize].weight_of_another(node.rate)
    }

    /// The same for this many nodes that take turns packet by packet.
    pub(crate) fn equal(nodes: usize) -> Self {
        Self {
            own: vec![Weight::default(); nodes],
            lent: vec![Weight::default(); nodes],
            alike: [1; PRIORITIES],
            siblings: vec![1; nodes + 1],
            basis: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn members_leave_from_anywhere_and_join_at_the_end() {
        let mut links = [Neighbours::FREE; 4];
        let order = |links: &[Neighbours], head: u32| {
            let next = |at: &u32| Some(links[*at as usize].next).filter(|next| *next != head);
            std::iter::successors(Some(head), next).collect::<Vec<_>>()
        };
        let mut head = NONE;
        for member in 0..4 {
            head = insert(&mut links, |link| link, head, member);
        }
        assert_eq!(order(&links, head), [0, 1, 2, 3]);
        head = remove(&mut links, |link| link, head, 0);
        head = remove(&mut links, |link| link, head, 2);
        assert_eq!(order(&links, head), [1, 3]);
        head = insert(&mut links, |link| link, head, 2);
        assert_eq!(order(&links, head), [1, 3, 2]);
        for member in 1..4 {
            head = remove(&mut links, |link| link, head, member);
        }
        assert_eq!(head, NONE);
    }

    /// A member in a test.
    #[derive(Clone, Debug)]
    struct Member {
        link: Neighbours,
        turn: Turn,
    }

    thread_local! {
        static LOOKS: Cell<u64> = const { Cell::new(0) };
    }

    fn look(member: &mut Member) -> (&mut Neighbours, &mut Turn) {
        LOOKS.set(LOOKS.get() + 1);
        (&mut member.link, &mut member.turn)
    }

    /// One set of members with these rates, none with a backlog.
    fn set_of(rates: &[u64]) -> (Sets, Vec<Member>) {
        let node = |&rate: &u64| Rated {
            rate,
            parent: rates.len() as u32,
            priority: 0,
            vacant: false,
        };
        let nodes: Vec<Rated> = rates.iter().map(node).collect();
        let weights = Weights::of(&nodes, rates.len());
        let member = |&weight: &Weight| Member {
            link: Neighbours::FREE,
            turn: Turn::new(weight),
        };
        let lanes = weights.siblings[rates.len()];
        (Sets::new([lanes]), weights.lent.iter().map(member).collect())
    }

    /// What each of these members sends of so many packets, in bytes; and the most members that
    /// were looked at for one packet.
    fn share(rates: &[u64], active: &[usize], packets: u64, len: impl Fn(u64) -> u64) -> (Vec<u64>, u64) {
        let (mut sets, mut members) = set_of(rates);
        for &member in active {
            let _ = sets.insert(&mut members, look, 0, member as u32);
        }
        let mut worst = 0;
        let mut sent = vec![0; rates.len()];
        for packet in 0..packets {
            let before = LOOKS.get();
            let member = sets.next(&mut members, look, 0, Turns::Bytes(1_500));
            let len = len(packet);
            sets.sent(&mut members, look, (0, member), len, Turns::Bytes(1_500));
            sent[member as usize] += len;
            worst = worst.max(LOOKS.get() - before);
        }
        (sent, worst)
    }

    #[test]
    fn members_share_by_weight_whoever_is_idle() {
        let (sent, _) = share(&[1, 2, 5, 90], &[0, 1, 2], 80_000, |packet| 64 + packet % 1_437);
        let all: u64 = sent.iter().sum();
        for (sent, due) in sent.iter().zip([125u64, 250, 625, 0]) {
            assert!(
                (sent * 1_000).abs_diff(due * all) <= 6_000 * 1_500,
                "{sent} of {all}, due {due}"
            );
        }
    }

    #[test]
    fn a_thousand_members_of_weights_from_one_to_a_million_cost_two_looks_a_packet() {
        // From 1 to 10⁶ in equal ratios, in no order of lanes.
        let rates: Vec<u64> = (0..1_000)
            .map(|n| 10f64.powf(6.0 * f64::from(n * 7 % 1_000) / 999.0) as u64)
            .collect();
        let everybody: Vec<usize> = (0..1_000).collect();
        let light: Vec<usize> = (0..1_000).filter(|&n| rates[n] < 20).collect();
        for active in [everybody, light] {
            let packets = 2_000_000;
            let (sent, worst) = share(&rates, &active, packets, |_| 1_500);
            assert!(worst <= 2, "{worst} looks for one packet");
            let whole: u64 = active.iter().map(|&n| rates[n]).sum();
            for &n in &active {
                let due = packets as f64 * 1_500.0 * rates[n] as f64 / whole as f64;
                let off = (sent[n] as f64 - due).abs();
                // A turn of its own, and what its lane may be ahead or behind.
                assert!(
                    off <= 4.0 * 1_500.0 + due * 0.02,
                    "rate {}: {} of {due}",
                    rates[n],
                    sent[n]
                );
            }
        }
    }

    #[test]
    fn who_comes_back_is_neither_ahead_nor_behind() {
        // The light one sends a packet now and then; the heavy one was alone meanwhile.
        let (mut sets, mut members) = set_of(&[1_000_000, 1_000]);
        let turns = Turns::Bytes(1_500);
        let _ = sets.insert(&mut members, look, 0, 0);
        let packet = |sets: &mut Sets, members: &mut Vec<Member>| {
            let member = sets.next(members, look, 0, turns);
            sets.sent(members, look, (0, member), 1_500, turns);
            member
        };
        for _ in 0..50 {
            for _ in 0..2_000 {
                assert_eq!(packet(&mut sets, &mut members), 0);
            }
            let _ = sets.insert(&mut members, look, 0, 1);
            let waits = (0..2_000)
                .take_while(|_| packet(&mut sets, &mut members) == 0)
                .count();
            assert!(waits <= 2, "it waits for {waits} packets");
            // Its next one waits for its share.
            let waits = (0..2_000)
                .take_while(|_| packet(&mut sets, &mut members) == 0)
                .count();
            assert!((990..=1_010).contains(&waits), "it waits for {waits} packets");
            let _ = sets.remove(&mut members, look, 0, 1);
        }
    }

    #[test]
    fn weights_are_in_proportion_and_nobody_has_none() {
        let mut rates = Rates::default();
        [1, 2, 3, 0].iter().for_each(|&rate| rates.add(rate));
        let value = |rate| rates.value(rate) as f64 / WHOLE as f64;
        for (rate, due) in [(1, 1.0 / 6.0), (2, 2.0 / 6.0), (3, 0.5), (0, 1.0 / 64.0)] {
            assert!((value(rate) - due).abs() < 1e-9, "{rate}: {}", value(rate));
        }
    }

    #[test]
    fn the_first_of_rows_is_the_lowest_level_and_there_the_highest_priority() {
        let mut rows = Rows::new(64);
        assert_eq!(
            (rows.first(), rows.is_empty(), rows.head(3, 2)),
            (None, true, NONE)
        );
        for (level, priority, head, first) in [
            (63, 0, 5, (63, 0)),
            (3, 2, 6, (3, 2)),
            (3, 7, 7, (3, 7)),
            (4, 7, 8, (3, 7)),
            (3, 7, 9, (3, 7)),
            (3, 7, NONE, (3, 2)),
            (3, 2, NONE, (4, 7)),
            (4, 7, NONE, (63, 0)),
        ] {
            rows.set(level, priority, head);
            assert_eq!((rows.first(), rows.is_empty()), (Some(first), false));
            assert_eq!(rows.head(level, priority), head);
        }
        rows.set(63, 0, NONE);
        assert_eq!((rows.first(), rows.is_empty()), (None, true));
    }

    fn turn(left: i32, value: u64) -> Turn {
        Turn {
            left,
            weight: Weight { value, lane: 0 },
        }
    }

    #[test]
    fn a_turn_grows_by_a_unit_for_the_least_weight_of_a_lane() {
        let grown = |left, value| {
            let mut turn = turn(left, value);
            turn.grow(1_000);
            turn.left
        };
        assert_eq!(
            [grown(0, 1), grown(7, 1), grown(0, 2), grown(0, 3)],
            [1_000, 1_007, 1_000, 1_500]
        );
        assert_eq!([grown(-1_000, 1 << 40), grown(0, (1 << 40) - 1)], [0, 1_999]);
        assert_eq!(grown(i32::MAX - 1, 1), i32::MAX);
        assert_eq!(Turn::new(Weight::default()).left, 0);
    }

    #[test]
    fn a_turn_is_over_when_no_byte_is_left() {
        let mut turn = turn(10, 1);
        assert_eq!((turn.spend(9), turn.left), (false, 1));
        assert_eq!((turn.spend(1), turn.left), (true, 0));
        assert_eq!((turn.spend(5), turn.left), (true, -5));
        assert_eq!((turn.spend(u64::MAX), turn.left), (true, i32::MIN));
        turn.left = 10;
        assert_eq!((turn.spend(u64::MAX), turn.left), (true, 10 - i32::MAX));
    }

    /// Members of one ring with so many bytes left, and weight 1.
    fn ring_of(left: &[i32]) -> Vec<Member> {
        let member = |&left: &i32| Member {
            link: Neighbours::FREE,
            turn: turn(left, 1),
        };
        let mut members: Vec<Member> = left.iter().map(member).collect();
        let mut head = NONE;
        for member in 0..left.len() as u32 {
            head = insert(&mut members, |one| look(one).0, head, member);
        }
        members
    }

    #[test]
    fn who_has_bytes_left_is_next_and_others_get_a_turn() {
        for (left, next, after) in [
            (vec![1, 0], 0, vec![1, 0]),
            (vec![0, 5], 0, vec![100, 5]),
            (vec![-99, 5], 0, vec![1, 5]),
            (vec![-100, 5], 1, vec![0, 5]),
            (vec![-100, -100, -50], 2, vec![0, 0, 50]),
            (vec![-100, -150], 0, vec![100, -50]),
            // A ring of one has no turns.
            (vec![-100], 0, vec![-100]),
        ] {
            let mut members = ring_of(&left);
            assert_eq!(whose_turn(&mut members, look, 0, 100), next, "{left:?}");
            let turns: Vec<i32> = members.iter().map(|one| one.turn.left).collect();
            assert_eq!(turns, after);
        }
    }

    /// Two lanes: two members of a quarter, and one of a half.
    fn of_two_lanes() -> (Sets, Vec<Member>) {
        let (mut sets, mut members) = set_of(&[1, 1, 2]);
        assert_eq!(sets.sets[0].many, 2);
        let first: Vec<bool> = (0..3)
            .map(|one| sets.insert(&mut members, look, 0, one))
            .collect();
        assert_eq!(first, [true, false, false]);
        (sets, members)
    }

    #[test]
    fn a_packets_tag_is_its_length_over_the_weights_of_its_lane() {
        let (mut sets, mut members) = of_two_lanes();
        assert_eq!((sets.lanes[0].sum, sets.lanes[1].sum), (WHOLE / 2, WHOLE / 2));
        sets.sent(&mut members, look, (0, 2), 1_000, Turns::Packets);
        // 8 for a byte, as the lane has half of all.
        assert_eq!(
            (sets.sets[0].now, sets.sets[0].latest, sets.lanes[1].time),
            (0, 8_000, 8_000)
        );
        sets.sent(&mut members, look, (0, 2), 500, Turns::Packets);
        assert_eq!(
            (sets.sets[0].now, sets.sets[0].latest, sets.lanes[1].time),
            (8_000, 12_000, 12_000)
        );
        sets.sent(&mut members, look, (0, 0), 100, Turns::Packets);
        assert_eq!(
            (sets.sets[0].now, sets.sets[0].latest, sets.lanes[0].time),
            (0, 12_000, 800)
        );
        // What is longer than a tag counts is as long as that.
        sets.sent(&mut members, look, (0, 0), 1 << 40, Turns::Packets);
        assert_eq!(sets.lanes[0].time, 800 + 8 * ((1 << 22) - 1));
    }

    #[test]
    fn the_lane_with_the_earliest_tag_goes_first_and_of_equals_the_lower() {
        let (mut sets, mut members) = of_two_lanes();
        assert_eq!(
            (
                sets.first_lane(0, 0),
                sets.first_lane(0, 1),
                sets.first_lane(0, 3)
            ),
            (Some(0), Some(1), None)
        );
        assert_eq!(sets.next(&mut members, look, 0, Turns::Packets), 0);
        sets.sent(&mut members, look, (0, 0), 100, Turns::Packets);
        assert_eq!((sets.first_lane(0, 0), sets.first_lane(0, 2)), (Some(1), Some(0)));
        assert_eq!(sets.next(&mut members, look, 0, Turns::Packets), 2);
        sets.sent(&mut members, look, (0, 2), 100, Turns::Packets);
        // One packet each.
        assert_eq!(sets.next(&mut members, look, 0, Turns::Packets), 1);
        assert_eq!((sets.head(0, 0), sets.head(0, 1), sets.lane(0, 1)), (1, 2, 1));
        sets.set_head(0, 0, 0);
        assert_eq!(sets.head(0, 0), 0);
        let after = |_: usize, member: &mut Member| member.link.next;
        assert_eq!(sets.members(&mut members, after), [(0, 0), (0, 1), (0, 2)]);
    }

    #[test]
    fn a_set_begins_again_where_its_latest_packet_ended() {
        let (mut sets, mut members) = of_two_lanes();
        sets.sent(&mut members, look, (0, 2), 1_000, Turns::Packets);
        sets.sent(&mut members, look, (0, 0), 10, Turns::Packets);
        let empty: Vec<bool> = [2, 0, 1]
            .map(|one| sets.remove(&mut members, look, 0, one))
            .into();
        assert_eq!(empty, [false, false, true]);
        assert_eq!(
            (sets.sets[0].now, sets.sets[0].busy, sets.first_lane(0, 0)),
            (8_000, 0, None)
        );
        assert_eq!(
            (sets.head(0, 0), sets.lanes[0].sum, sets.lanes[1].sum),
            (NONE, 0, 0)
        );
        assert!(sets.insert(&mut members, look, 0, 1));
        assert_eq!(
            (sets.lanes[0].time, sets.lanes[0].sum, sets.sets[0].busy),
            (8_000, WHOLE / 4, 1)
        );
    }

    #[test]
    fn a_set_of_one_lane_has_no_tags_and_its_head_moves_when_a_turn_is_over() {
        let (mut sets, mut members) = set_of(&[1, 1]);
        for member in 0..2 {
            let _ = sets.insert(&mut members, look, 0, member);
        }
        let turns = Turns::Bytes(1_000);
        assert_eq!(sets.next(&mut members, look, 0, turns), 0);
        sets.sent(&mut members, look, (0, 0), 999, turns);
        assert_eq!((sets.head(0, 0), members[0].turn.left), (0, 1));
        sets.sent(&mut members, look, (0, 0), 1, turns);
        assert_eq!((sets.head(0, 0), members[0].turn.left), (1, 0));
        assert_eq!(
            (sets.sets[0].now, sets.sets[0].latest, sets.lanes[0].time),
            (0, 0, 0)
        );
        // Alone, a member has no turns.
        sets.remove(&mut members, look, 0, 0);
        sets.sent(&mut members, look, (0, 1), 999, turns);
        assert_eq!((sets.head(0, 0), members[1].turn.left), (1, 0));
    }

    #[test]
    fn sets_stand_one_behind_the_other() {
        let mut sets = Sets::new([2, 1, 3]);
        assert_eq!(sets.lanes.len(), 6);
        assert_eq!((sets.lane(0, 1), sets.lane(1, 0), sets.lane(2, 2)), (1, 2, 5));
        sets.set_head(2, 1, 9);
        assert_eq!((sets.head(2, 1), sets.lanes[4].head), (9, 9));
    }

    fn rates(all: &[u64]) -> Rates {
        let mut rates = Rates::default();
        all.iter().for_each(|rate| rates.add(*rate));
        all.iter().for_each(|rate| rates.note(*rate));
        rates
    }

    #[test]
    fn weights_are_parts_of_the_whole_to_the_unit() {
        let mixed = rates(&[1, 3, 0, 4]);
        assert_eq!(
            [1, 3, 4, 8].map(|rate| mixed.value(rate)),
            [WHOLE / 8, WHOLE / 8 * 3, WHOLE / 2, WHOLE]
        );
        // A sixteenth of the mean, which is a quarter.
        assert_eq!(mixed.value(0), WHOLE / 64);
        assert_eq!(mixed.octaves, 1 << 37 | 1 << 38 | 1 << 34 | 1 << 39);
        let lanes = [0, 1, 3, 4].map(|rate| mixed.weight(rate).lane);
        assert_eq!((lanes, mixed.lanes()), ([0, 1, 2, 3], 4));
        assert_eq!(
            (rates(&[0, 0]).value(0), rates(&[0, 0]).value(5)),
            (WHOLE / 2, WHOLE / 2)
        );
        assert_eq!((rates(&[]).value(0), rates(&[]).lanes()), (WHOLE, 1));
        assert_eq!(rates(&[u64::MAX, u64::MAX]).value(1), 1);
    }

    #[test]
    fn lanes_are_widened_by_three_octaves_each_way_and_one_for_no_rate() {
        let mut wide = rates(&[1, 1]);
        assert_eq!(wide.octaves, 1 << 39);
        assert_eq!(
            wide.weight_of_another(1),
            Some(Weight {
                value: 1 << 39,
                lane: 0
            })
        );
        assert_eq!([0, 2].map(|rate| wide.weight_of_another(rate)), [None, None]);
        wide.widen();
        // From 39, and from 35, as a sixteenth of the mean.
        assert_eq!((wide.octaves, wide.lanes()), ((1 << 43) - (1 << 32), 11));
        assert_eq!(
            wide.weight_of_another(0),
            Some(Weight {
                value: 1 << 35,
                lane: 3
            })
        );
        assert_eq!(
            wide.weight_of_another(8),
            Some(Weight {
                value: 1 << 42,
                lane: 10
            })
        );
        assert_eq!(wide.weight_of_another(16), None);
        // None is so high that a sum could overflow.
        let mut high = rates(&[1]);
        high.octaves = 1 << 42;
        high.widen();
        assert_eq!(high.octaves, (1 << 44) - (1 << 33));
    }

    fn rated(rate: u64, parent: u32, priority: u32, vacant: bool) -> Rated {
        Rated {
            rate,
            parent,
            priority,
            vacant,
        }
    }

    fn weight(value: u64, lane: u32) -> Weight {
        Weight { value, lane }
    }

    #[test]
    fn nodes_have_weights_among_their_priority_and_among_their_siblings() {
        let nodes = [
            rated(1, 2, 0, false),
            rated(3, 2, 1, false),
            rated(4, 3, 0, false),
        ];
        let weights = Weights::of(&nodes, 2);
        assert_eq!(
            weights.own,
            [weight(WHOLE, 0), weight(WHOLE, 0), Weight::default()]
        );
        assert_eq!(
            weights.lent,
            [weight(WHOLE / 4, 0), weight(WHOLE / 4 * 3, 1), weight(WHOLE, 0)]
        );
        assert_eq!(
            (weights.alike, weights.siblings.clone()),
            ([1; PRIORITIES], vec![1, 1, 2, 1])
        );
        // There are no places for others.
        assert_eq!(weights.of_another(nodes[0]), None);
        assert_eq!(weights.lent_to_another(nodes[0]), None);
        let equal = Weights::equal(3);
        assert_eq!(
            (equal.own, equal.lent),
            (vec![Weight::default(); 3], vec![Weight::default(); 3])
        );
        assert_eq!((equal.alike, equal.siblings), ([1; PRIORITIES], vec![1; 4]));
    }

    #[test]
    fn where_nodes_may_come_there_are_lanes_for_them_in_every_priority() {
        let leaves = [rated(1, 3, 0, false), rated(3, 3, 1, false), rated(0, 3, 0, true)];
        let nodes = [leaves[0], leaves[1], leaves[2], rated(4, 4, 0, false)];
        let weights = Weights::of(&nodes, 3);
        // Octaves 32 to 42: those of a quarter, three quarters, and nothing, and three each way.
        assert_eq!(
            (weights.alike, weights.siblings.clone()),
            ([11; PRIORITIES], vec![1, 1, 1, 11, 1])
        );
        let three = [weight(1 << 38, 6), weight(3 << 38, 7), weight(1 << 35, 3)];
        assert_eq!(
            (&weights.own[..3], weights.own[3]),
            (&three[..], Weight::default())
        );
        assert_eq!(
            (&weights.lent[..3], weights.lent[3]),
            (&three[..], weight(WHOLE, 0))
        );
        let another = |rate, parent| weights.of_another(rated(rate, parent, 5, false));
        assert_eq!(another(2, 3), Some((weight(1 << 39, 7), weight(1 << 39, 7))));
        assert_eq!(another(16, 3), Some((weight(1 << 42, 10), weight(1 << 42, 10))));
        assert_eq!((another(32, 3), another(8, 4)), (None, None));
        assert_eq!(another(4, 4), Some((weight(1 << 40, 8), weight(WHOLE, 0))));
        assert_eq!(
            weights.lent_to_another(rated(4, 4, 0, false)),
            Some(weight(WHOLE, 0))
        );
        assert_eq!(weights.lent_to_another(rated(8, 4, 0, false)), None);
    }
}
