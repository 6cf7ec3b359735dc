//! How filters are laid out: lists, tables and cuts, what changes cost, and what memory they take.

use super::*;
use crate::classify::filter::{FlagPattern, Ports, Prefix};
use crate::classify::pattern::{SHORT, rank, words};
use crate::header::FlowKey;
use crate::packet::ClassId;
use crate::random::Seed;

const SECRET: Secret = [
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7344,
    0xa409_3822_299f_31d0,
    0x082e_fa98_ec4e_6c89,
    0x4528_21e6_38d0_1377,
    0xbe54_66cf_34e9_0c6c,
];

fn filter() -> Filter {
    Filter::new(ClassId(1))
}

fn prefix(address: u32, len: u8) -> Option<Prefix> {
    Prefix::new(core::net::Ipv4Addr::from_bits(address).into(), len)
}

/// From one host.
fn from_host(n: u32) -> Filter {
    Filter {
        source: prefix(0x0a00_0000 + n, 32),
        ..filter()
    }
}

/// To one host.
fn to_host(n: u32) -> Filter {
    Filter {
        destination: prefix(0x0a00_0000 + n, 32),
        ..filter()
    }
}

/// Flags are never hashed: no table separates these, and none covers another.
fn flagged(n: u8) -> Filter {
    Filter {
        tcp_flags: FlagPattern::new(n, !n),
        ..filter()
    }
}

fn to_ports(low: u16, high: u16) -> Filter {
    Filter {
        destination_port: Ports::new(low, high),
        ..filter()
    }
}

fn from_ports(low: u16, high: u16) -> Filter {
    Filter {
        source_port: Ports::new(low, high),
        ..filter()
    }
}

/// Seven that take ten ports each, from this one on.
fn tens(first: u16) -> impl Iterator<Item = Filter> {
    (0..7).map(move |n| to_ports(first + 10 * n, first + 10 * n + 9))
}

/// Entries of these filters, the first of the highest rank.
fn entries(filters: impl IntoIterator<Item = Filter>) -> (Vec<Entry<SHORT>>, Masks<SHORT>) {
    let mut masks = Masks::default();
    let entry = |(n, filter): (u64, Filter)| {
        let rank = 1_000_000 - Rank::from(n);
        Entry::new(&filter, Family::V4, rank, &mut masks)
    };
    let entries = (0..).zip(filters).map(entry).collect();
    (entries, masks)
}

fn number(filter: &Filter, n: u64) -> Rank {
    rank(filter, n)
}

/// A space of filters whose numbers are their places.
fn space(filters: impl IntoIterator<Item = Filter>) -> Space<SHORT> {
    let mut masks = Masks::default();
    let entry = |(n, filter): (u64, Filter)| Entry::new(&filter, Family::V4, number(&filter, n), &mut masks);
    let entries = (0..).zip(filters).map(entry).collect();
    Space::new(entries, masks, SECRET)
}

/// A space whose root is these, cut by their ports.
fn cut(filters: impl IntoIterator<Item = Filter>) -> Space<SHORT> {
    let (entries, masks) = entries(filters);
    let mut space = Space::new(Vec::new(), masks, SECRET);
    space.root = space.cut(entries, Side::Destination);
    space
}

fn tables(space: &Space<SHORT>) -> &Tables<SHORT> {
    match space.node_at(space.root) {
        Some(Node::Tables(tables)) => tables,
        other => panic!("{other:?}"),
    }
}

fn tables_mut(space: &mut Space<SHORT>) -> &mut Tables<SHORT> {
    match &mut space.nodes[(space.root & !NODE) as usize] {
        Node::Tables(tables) => tables,
        other => panic!("{other:?}"),
    }
}

fn cut_at(space: &Space<SHORT>, bucket: u32) -> &Cut<SHORT> {
    match space.node_at(bucket) {
        Some(Node::Cut(cut)) => cut,
        other => panic!("{other:?}"),
    }
}

fn is_list(space: &Space<SHORT>, bucket: u32) -> bool {
    space.node_at(bucket).is_none()
}

/// Entries and nodes of a bucket.
fn held(space: &Space<SHORT>, bucket: u32) -> (usize, usize) {
    let sum = |(a, b): (usize, usize), (c, d): (usize, usize)| (a + c, b + d);
    match space.node_at(bucket) {
        None => {
            let ranks: Vec<Rank> = space.in_list(bucket).map(|entry| entry.rank).collect();
            assert!(ranks.is_sorted_by(|a, b| a > b), "{ranks:?}");
            (ranks.len(), 0)
        }
        Some(Node::Free) => panic!("a free node is in use"),
        Some(Node::Tables(node)) => {
            assert!(node.tables.is_sorted_by(|a, b| a.best >= b.best));
            let buckets = node.tables.iter().flat_map(Table::buckets).chain([node.rest]);
            buckets.map(|bucket| held(space, bucket)).fold((0, 1), sum)
        }
        Some(Node::Cut(cut)) => cut.parts.iter().map(|part| held(space, *part)).fold((0, 1), sum),
    }
}

fn check_slots(space: &Space<SHORT>) {
    let used = (
        space.entries.len() - space.free_entries.len(),
        space.nodes.len() - space.free_nodes.len(),
    );
    assert_eq!(held(space, space.root), used);
}

fn key(source: u32, port: u16) -> FlowKey {
    FlowKey {
        family: Family::V4,
        source: source.into(),
        source_port: Some(port),
        destination_port: Some(port),
        protocol: 17,
        ..FlowKey::default()
    }
}

// ----------------------------------------------------------------------------------------------
// building

#[test]
fn six_filters_are_a_list_and_seven_are_a_table() {
    let six = space((0..6).map(from_host));
    assert!(is_list(&six, six.root));
    assert_eq!((six.entries.len(), six.nodes.len()), (6, 0));
    let seven = space((0..7).map(from_host));
    let node = tables(&seven);
    assert_eq!(node.tables.len(), 1);
    assert_eq!(node.tables[0].shape, Shape([32, 0, 0, 0, 0, 0, 0, 0, 0]));
    assert_eq!(node.tables[0].best, number(&from_host(6), 6));
    assert_eq!(node.tables[0].buckets().count(), 7);
    assert_eq!((node.rest, node.rest_best), (NOTHING, 0));
    assert_eq!((node.fixed, node.built, node.changed), (Shape::default(), 7, 0));
    check_slots(&seven);
}

#[test]
fn tables_stand_in_the_order_of_the_best_in_them_and_what_is_left_knows_its_best() {
    let ruled = |rule: u32, filter: Filter| Filter { rule, ..filter };
    let from = (0..10).map(|n| ruled(n, from_host(n)));
    let to = (0..9).map(|n| ruled(20 + n, to_host(n)));
    let rest = (0..3).map(|n| ruled(40 + u32::from(n), flagged(n)));
    let all: Vec<Filter> = from.chain(to).chain(rest).collect();
    let space = space(all.iter().copied());
    let node = tables(&space);
    let best: Vec<Rank> = node.tables.iter().map(|table| table.best).collect();
    assert_eq!(best, [number(&all[18], 18), number(&all[9], 9)]);
    assert_eq!(node.tables[0].shape, Shape([0, 32, 0, 0, 0, 0, 0, 0, 0]));
    assert_eq!(node.rest_best, number(&all[21], 21));
    assert_eq!((node.built, space.in_list(node.rest).count()), (22, 3));
    check_slots(&space);
}

#[test]
fn the_best_of_none_is_nobodys_rank() {
    assert_eq!(best::<SHORT>(&[]), 0);
    let (entries, _) = entries([filter(), filter()]);
    assert_eq!(best(&entries), 1_000_000);
}

#[test]
fn a_large_space_has_room_for_more_and_a_small_one_does_not() {
    let small = space((0..1_024).map(from_host));
    assert_eq!((small.entries.len(), small.entries.capacity()), (1_024, 1_024));
    let large = space((0..1_025).map(from_host));
    assert_eq!((large.entries.len(), large.entries.capacity()), (1_025, 2_049));
    assert_eq!(large.masks.room().0, 1);
}

#[test]
fn there_is_room_for_a_sixteenth_more() {
    let (entries, masks) = entries((0..17_600).map(from_host));
    let space = Space::new(entries, masks, SECRET);
    assert_eq!((space.entries.len(), space.entries.capacity()), (17_600, 18_700));
}

#[test]
fn there_is_room_for_more_masks_where_there_are_many() {
    let of = |n: u32| Filter {
        source: prefix(0, (n / 33) as u8),
        destination: prefix(0, (n % 33) as u8),
        ..filter()
    };
    let few = space((0..1_024).map(of));
    assert_eq!(few.masks.room(), (1_024, 1_024));
    let many = space((0..1_030).map(of));
    assert_eq!(many.masks.room(), (1_030, 2_054));
}

/// Filters whose sources repeat: so many of the first, of the second, and so on.
fn gain_of(groups: &[u32], stride: usize) -> Option<u64> {
    let hosts = (0..)
        .zip(groups)
        .flat_map(|(n, many)| (0..*many).map(move |_| from_host(n)));
    let (space, filters) = shaped(hosts);
    space.gain(
        filters.iter(),
        Shape([32, 0, 0, 0, 0, 0, 0, 0, 0]),
        stride,
        &mut vec![7],
    )
}

/// Filters with their shapes, and an empty space with their masks.
fn shaped(filters: impl IntoIterator<Item = Filter>) -> (Space<SHORT>, Vec<(Shape, Entry<SHORT>)>) {
    let (entries, masks) = entries(filters);
    let shaped = entries.into_iter().map(|entry| (entry.shape(&masks), entry));
    let shaped = shaped.collect();
    (Space::new(Vec::new(), masks, SECRET), shaped)
}

#[test]
fn a_table_gains_the_halvings_of_each_bucket_in_quarters_of_a_bit() {
    // Of eight that are told apart, each has two halvings more than one of a pair.
    assert_eq!(gain_of(&[1; 8], 1), Some(8 * 8));
    assert_eq!(gain_of(&[2; 4], 1), Some(8 * 8));
    assert_eq!(gain_of(&[4; 2], 1), Some(8 * 4));
    // log₂ 12⁴ = 14.3…, log₂ 6⁴ = 10.3…: six is a short list.
    assert_eq!(gain_of(&[6; 2], 1), Some(12 * (14 - 10)));
    // log₂ 14⁴ = 15.2…, log₂ 7⁴ = 11.2…: seven need a space below, which counts half.
    assert_eq!(gain_of(&[7; 2], 1), Some(14 * (15 - 11) / 2));
}

#[test]
fn a_table_that_gains_next_to_nothing_is_none() {
    assert_eq!(gain_of(&[8], 1), None);
    assert_eq!(gain_of(&[], 1), None);
    // Just half a bit each, for 16; and a quarter of a bit less in all.
    assert_eq!(gain_of(&[8, 8], 1), Some(2 * 16));
    assert_eq!(gain_of(&[14, 2], 1), None);
    assert_eq!(gain_of(&[15, 1], 1), None);
}

#[test]
fn a_table_gains_from_those_alone_that_it_can_take() {
    let filters = (0..7).map(from_host).chain([to_host(0)]);
    let (space, filters) = shaped(filters);
    let gain = |shape| space.gain(filters.iter(), Shape(shape), 1, &mut Vec::new());
    assert_eq!(gain([32, 0, 0, 0, 0, 0, 0, 0, 0]), Some(7 * 8));
    assert_eq!(gain([0, 32, 0, 0, 0, 0, 0, 0, 0]), Some(8));
    assert_eq!(gain([32, 32, 0, 0, 0, 0, 0, 0, 0]), None);
}

#[test]
fn what_a_sample_has_not_seen_is_estimated_from_its_collisions() {
    // One of four is looked at: of 32 in all, none meets another.
    assert_eq!(gain_of(&[1; 8], 4), Some(8 * (20 - 4)));
    // Two pairs of four: four meetings, so that there are 1 + 4 · 4 / 4 to a bucket.
    assert_eq!(gain_of(&[2, 2], 4), Some(2 * 2 * (16 - 9)));
    // Four that meet, of 13, and four others, of 1 + 12 · 4 / 8 each; both more than a short list.
    assert_eq!(
        gain_of(&[4, 1, 1, 1, 1], 4),
        Some(4 * (20 - 14) / 2 + 4 * ((20 - 11) / 2))
    );
}

/// The shapes worth a try of filters with so many bits of source and destination.
fn worth_a_try(shapes: &[(u8, u8)], fixed: (u8, u8)) -> Vec<(u8, u8)> {
    let (_, some) = shaped([filter()]);
    let shape = |(source, destination)| Shape([source, destination, 0, 0, 0, 0, 0, 0, 0]);
    let sample: Vec<(Shape, Entry<SHORT>)> = shapes
        .iter()
        .map(|bits| (shape(*bits), some[0].1.clone()))
        .collect();
    let sample: Vec<&(Shape, Entry<SHORT>)> = sample.iter().collect();
    let found = candidates(&sample, &shape(fixed));
    found.into_iter().map(|shape| (shape.0[0], shape.0[1])).collect()
}

#[test]
fn candidates_are_the_commonest_shapes_and_what_they_share() {
    let shapes = [(8, 24), (24, 8), (8, 24), (24, 8), (24, 8)];
    assert_eq!(worth_a_try(&shapes, (0, 0)), [(24, 8), (8, 24), (8, 8)]);
    // They fix all that is fixed, and more.
    assert_eq!(worth_a_try(&shapes, (8, 8)), [(24, 8), (8, 24)]);
    assert_eq!(worth_a_try(&shapes, (16, 0)), [(24, 8)]);
    assert_eq!(worth_a_try(&shapes, (24, 8)), []);
    assert_eq!(worth_a_try(&[(32, 0), (0, 32)], (0, 0)), [(32, 0), (0, 32)]);
}

#[test]
fn candidates_are_of_24_shapes_and_about_a_hundred() {
    let nested: Vec<(u8, u8)> = (1..=30).map(|bits| (bits, 0)).collect();
    let expected: Vec<(u8, u8)> = (7..=30).rev().map(|bits| (bits, 0)).collect();
    assert_eq!(worth_a_try(&nested, (0, 0)), expected);
    // The n-th has n − 1 in common with those before it: after 13 there are 24 + 78.
    let apart: Vec<(u8, u8)> = (0..24).map(|bits| (bits, 23 - bits)).collect();
    let found = worth_a_try(&apart, (0, 0));
    assert_eq!(found.len(), 24 + 78);
    assert_eq!(found[24..27], [(22, 0), (21, 0), (21, 1)]);
}

#[test]
fn the_shape_that_separates_most_is_chosen_and_none_for_a_short_list() {
    let choose = |from: u32, to: u32| {
        let hosts = (0..from).map(from_host).chain((0..to).map(to_host));
        let (space, filters) = shaped(hosts);
        space.choose(&filters, &Shape::default()).map(|shape| shape.0)
    };
    assert_eq!(choose(3, 3), None);
    assert_eq!(choose(4, 3), Some([32, 0, 0, 0, 0, 0, 0, 0, 0]));
    assert_eq!(choose(3, 4), Some([0, 32, 0, 0, 0, 0, 0, 0, 0]));
    // A sample is of all of them, and not of the first.
    assert_eq!(choose(2_800, 5_400), Some([0, 32, 0, 0, 0, 0, 0, 0, 0]));
    let (space, alike) = shaped((0..9).map(flagged));
    assert_eq!(space.choose(&alike, &Shape::default()), None);
}

#[test]
fn a_bucket_that_is_too_full_is_a_space_of_its_own_on_other_bits() {
    // Two sources, each with nine destinations; and many sources, so that these are hashed.
    let both = |n: u32| Filter {
        destination: prefix(n, 32),
        ..from_host(1_000)
    };
    let space = space((0..20).map(from_host).chain((0..9).map(both)));
    let node = tables(&space);
    assert_eq!(node.tables.len(), 1);
    let below: Vec<u32> = node.tables[0]
        .buckets()
        .filter(|bucket| !is_list(&space, *bucket))
        .collect();
    assert_eq!((below.len(), node.tables[0].buckets().count()), (1, 21));
    let Some(Node::Tables(below)) = space.node_at(below[0]) else {
        panic!("a space of tables")
    };
    assert_eq!(below.tables[0].shape, Shape([32, 32, 0, 0, 0, 0, 0, 0, 0]));
    assert_eq!((below.fixed, below.built), (node.tables[0].shape, 9));
    check_slots(&space);
}

#[test]
fn coarse_shapes_are_tried_first_and_fine_ones_on_what_is_left() {
    // Cut to a multiple of four, prefixes of 30 and 31 bits are one table.
    let net = |n: u32| Filter {
        source: prefix(n << 8, if n.is_multiple_of(2) { 30 } else { 31 }),
        ..filter()
    };
    let coarse = space((0..16).map(net));
    assert_eq!(tables(&coarse).tables.len(), 1);
    assert_eq!(tables(&coarse).tables[0].shape.0[0], 28);
    // Of one net of 28 bits, they differ beyond it alone.
    let near = |n: u32| Filter {
        source: prefix(2 * n, 31),
        ..filter()
    };
    let fine = space((0..8).map(near));
    assert_eq!(tables(&fine).tables[0].shape.0[0], 31);
    assert_eq!(held(&fine, fine.root), (8, 1));
}

// ----------------------------------------------------------------------------------------------
// cutting

/// The pieces of these filters and what is left of the budget.
fn pieces(
    filters: impl IntoIterator<Item = Filter>,
    range: (u16, u16),
    mut budget: usize,
) -> (Vec<(u16, Vec<usize>)>, usize) {
    let (entries, masks) = entries(filters);
    let (all, mut found) = ((0..entries.len()).collect(), Vec::new());
    split(
        &entries,
        &masks,
        all,
        Side::Destination,
        range,
        &mut budget,
        &mut found,
    );
    (found, budget)
}

const EVERY: (u16, u16) = (0, u16::MAX);

#[test]
fn ports_are_cut_at_the_middle_of_the_bounds_until_six_are_left() {
    // Bounds: 10, 10, 20, 20 … 60, 60, 70; the seventh of 13 is 40.
    let two = vec![(0, vec![0, 1, 2, 3]), (40, vec![4, 5, 6])];
    assert_eq!(pieces(tens(0), EVERY, 100), (two.clone(), 100 - 7 - 4 - 3));
    assert_eq!(
        pieces(tens(0).take(6), EVERY, 100),
        (vec![(0, vec![0, 1, 2, 3, 4, 5])], 94)
    );
    // Until the budget is spent.
    assert_eq!(pieces(tens(0), EVERY, 8), (two, 0));
    assert_eq!(
        pieces(tens(0), EVERY, 7),
        (vec![(0, vec![0, 1, 2, 3, 4, 5, 6])], 0)
    );
}

#[test]
fn only_bounds_within_the_range_cut_it() {
    // Not 10, where the range begins, nor 80, where it has ended.
    let two = vec![(10, vec![0, 1, 2, 3]), (50, vec![4, 5, 6])];
    assert_eq!(pieces(tens(10), (10, 79), 100).0, two);
    // But 70, where the last port of the range is.
    assert_eq!(pieces(tens(10), (10, 70), 100).0, two);
}

#[test]
fn a_piece_has_those_alone_that_meet_it() {
    let four = [
        to_ports(0, 9),
        to_ports(0, 10),
        to_ports(19, 30),
        to_ports(20, 30),
    ];
    assert_eq!(pieces(four, (10, 19), 100), (vec![(10, vec![1, 2])], 98));
}

#[test]
fn in_a_piece_what_an_earlier_one_covers_is_left_out() {
    let marked = |filter: Filter| Filter {
        mark: Some(1),
        ..filter
    };
    let some = [to_ports(10, 19), to_ports(12, 13), marked(to_ports(0, 99))];
    assert_eq!(pieces(some, (10, 19), 100).0, [(10, vec![0])]);
    // One that takes a part of the ports covers none, nor one that takes less in other fields.
    let some = [to_ports(11, 19), to_ports(12, 13), marked(to_ports(0, 99))];
    assert_eq!(pieces(some, (10, 19), 100).0, [(10, vec![0, 1, 2])]);
    let some = [to_ports(10, 18), marked(to_ports(10, 19)), to_ports(12, 13)];
    assert_eq!(pieces(some, (10, 19), 100).0, [(10, vec![0, 1, 2])]);
}

#[test]
fn four_at_most_cover_others_and_each_takes_all_ports_of_the_piece() {
    let of = |net: u32, (low, high)| Filter {
        source: prefix(0x0a00_0000 | net << 8, 24),
        ..to_ports(low, high)
    };
    let wide = (0..5).map(|net| of(net, EVERY));
    let narrow = [of(3, (5, 6)), of(4, (5, 6))];
    assert_eq!(
        pieces(wide.chain(narrow), EVERY, 100).0,
        [(0, vec![0, 1, 2, 3, 4, 6])]
    );
    // Those that take a part are none of the four.
    let parts = [(0, 9), (0, 8), (90, 99), (91, 99)].map(|part| of(9, part));
    let others = [of(0, EVERY), of(0, (5, 6))];
    assert_eq!(
        pieces(parts.into_iter().chain(others), (0, 99), 100).0,
        [(0, vec![0, 1, 2, 3, 4])]
    );
}

#[test]
fn six_are_not_cut_and_seven_are_a_list_for_each_piece() {
    let six = cut(tens(0).take(6));
    assert!(is_list(&six, six.root));
    let seven = cut(tens(0));
    let node = cut_at(&seven, seven.root);
    assert_eq!(
        (node.side, &node.bounds[..], node.members.len()),
        (Side::Destination, &[40][..], 7)
    );
    let ranks = |part: u32| seven.in_list(part).map(|entry| 1_000_000 - entry.rank).collect();
    let parts: Vec<Vec<Rank>> = node.parts.iter().map(|part| ranks(*part)).collect();
    assert_eq!(parts, [vec![0, 1, 2, 3], vec![4, 5, 6]]);
    check_slots(&seven);
}

#[test]
fn where_destination_ports_tell_nobody_apart_source_ports_do_or_nothing() {
    let by_source = cut((0..7).map(|n| from_ports(10 * n, 10 * n + 9)));
    let node = cut_at(&by_source, by_source.root);
    assert_eq!(
        (node.side, &node.bounds[..], node.parts.len()),
        (Side::Source, &[40][..], 2)
    );
    check_slots(&by_source);
    let by_none = cut((0..9).map(flagged));
    assert!(is_list(&by_none, by_none.root));
    assert_eq!(by_none.in_list(by_none.root).count(), 9);
}

/// Seven from different ports to these.
fn seven_to(low: u16, high: u16) -> impl Iterator<Item = Filter> {
    from_to(7, low, high)
}

fn from_to(many: u16, low: u16, high: u16) -> impl Iterator<Item = Filter> {
    (0..many).map(move |n| Filter {
        source_port: Ports::new(10 * n, 10 * n + 9),
        ..to_ports(low, high)
    })
}

#[test]
fn a_piece_of_destination_ports_is_cut_again_by_source_ports() {
    let space = cut(seven_to(0, 9).chain(seven_to(10, 19)));
    let node = cut_at(&space, space.root);
    assert_eq!((node.side, &node.bounds[..]), (Side::Destination, &[10, 20][..]));
    assert_eq!(node.parts.len(), 3);
    for part in &node.parts[..2] {
        let part = cut_at(&space, *part);
        assert_eq!(
            (part.side, &part.bounds[..], part.members.len()),
            (Side::Source, &[40][..], 7)
        );
        assert!(part.parts.iter().all(|list| is_list(&space, *list)));
    }
    assert_eq!(node.parts[2], NOTHING);
    assert_eq!(held(&space, space.root), (14, 3));
    check_slots(&space);
}

#[test]
fn a_cut_that_copies_is_good_while_no_piece_has_more_than_half() {
    // Seven or eight that another protocol keeps from being covered are in two pieces.
    let both = |many: u16| {
        from_to(many, 0, 19).map(|filter| Filter {
            protocol: Some(17),
            ..filter
        })
    };
    let others = || seven_to(0, 9).chain(seven_to(10, 19)).chain(seven_to(20, 29));
    let half = cut(both(7).chain(others()));
    let node = cut_at(&half, half.root);
    assert_eq!(
        (node.side, &node.bounds[..]),
        (Side::Destination, &[10, 20, 30][..])
    );
    let more = cut(both(8).chain(others()));
    assert_eq!(cut_at(&more, more.root).side, Side::Source);
    check_slots(&half);
    check_slots(&more);
}

#[test]
fn a_node_knows_by_which_ports_it_is_to_be_cut() {
    assert_eq!(Node::<SHORT>::Free.side(), Side::Destination);
    let by_source = cut((0..7).map(|n| from_ports(10 * n, 10 * n + 9)));
    let node = by_source.node_at(by_source.root).expect("a node");
    assert_eq!(node.side(), Side::Source);
}

// ----------------------------------------------------------------------------------------------
// changing

fn add(space: &mut Space<SHORT>, n: u64, filter: Filter) {
    space.add(&filter, Family::V4, number(&filter, n));
}

fn remove(space: &mut Space<SHORT>, n: u64, filter: Filter) {
    space.remove(&filter, Family::V4, number(&filter, n));
}

#[test]
fn a_list_becomes_a_table_with_the_seventh() {
    let mut space = space([]);
    for n in 0..6 {
        add(&mut space, n.into(), from_host(n));
        assert!(is_list(&space, space.root));
        check_slots(&space);
    }
    add(&mut space, 6, from_host(6));
    assert_eq!(tables(&space).built, 7);
    check_slots(&space);
}

#[test]
fn a_long_list_is_tried_again_when_it_has_doubled() {
    let mut space = space((0..7).map(flagged));
    assert!(is_list(&space, space.root));
    add(&mut space, 7, from_host(1));
    assert!(is_list(&space, space.root));
    add(&mut space, 8, from_host(2));
    let node = tables(&space);
    assert_eq!(
        (node.built, node.tables.len(), space.in_list(node.rest).count()),
        (9, 1, 7)
    );
    check_slots(&space);
}

#[test]
fn tables_are_built_anew_after_more_changes_than_there_were_filters() {
    let mut space = space((0..7).map(from_host));
    for n in 7..20 {
        add(&mut space, n.into(), from_host(n));
        check_slots(&space);
    }
    assert_eq!((tables(&space).built, tables(&space).changed), (7, 13));
    let entries = space.entries.len();
    add(&mut space, 20, from_host(20));
    assert_eq!((tables(&space).built, tables(&space).changed), (21, 0));
    assert_eq!((space.nodes.len(), space.entries.len()), (1, entries + 1));
    check_slots(&space);
    // Removals count, those of nobody do not.
    for n in 0..20 {
        remove(&mut space, n, from_host(n as u32));
        remove(&mut space, n, from_host(n as u32));
    }
    assert_eq!((tables(&space).built, tables(&space).changed), (21, 20));
    for n in 30..37 {
        add(&mut space, n.into(), from_host(n));
    }
    assert_eq!((tables(&space).built, tables(&space).changed), (21, 27));
    add(&mut space, 37, from_host(37));
    assert_eq!((tables(&space).built, tables(&space).changed), (9, 0));
    check_slots(&space);
}

#[test]
fn tables_that_removals_have_worn_are_built_anew() {
    let mut space = space((0..20).map(from_host));
    tables_mut(&mut space).changed = 25;
    remove(&mut space, 0, from_host(0));
    assert_eq!((tables(&space).built, tables(&space).changed), (20, 26));
    remove(&mut space, 0, from_host(0));
    assert_eq!((tables(&space).built, tables(&space).changed), (20, 26));
    remove(&mut space, 1, from_host(1));
    assert_eq!((tables(&space).built, tables(&space).changed), (18, 0));
    check_slots(&space);
}

#[test]
fn an_added_filter_goes_into_the_finest_table_that_it_fits_or_to_the_rest() {
    let net = |n: u32| Filter {
        source: prefix(n << 16, 16),
        ..filter()
    };
    let mut space = space((0..40).map(net).chain((0..30).map(from_host)));
    let shapes: Vec<u8> = tables(&space)
        .tables
        .iter()
        .map(|table| table.shape.0[0])
        .collect();
    let buckets = |space: &Space<SHORT>| -> Vec<usize> {
        tables(space)
            .tables
            .iter()
            .map(|table| table.buckets().count())
            .collect()
    };
    let before = buckets(&space);
    add(&mut space, 100, from_host(0x00ff_0000));
    let after = buckets(&space);
    let (finest, _) = (0..)
        .zip(&shapes)
        .max_by_key(|(_, bits)| **bits)
        .expect("a table");
    for (n, (before, after)) in (0..).zip(before.iter().zip(&after)) {
        assert_eq!(before + usize::from(n == finest), *after, "{shapes:?}");
    }
    let ruled = Filter {
        rule: 9,
        ..flagged(1)
    };
    add(&mut space, 101, ruled);
    assert_eq!(tables(&space).rest_best, number(&ruled, 101));
    add(&mut space, 102, flagged(2));
    assert_eq!(tables(&space).rest_best, number(&ruled, 101));
    assert_eq!(buckets(&space), after);
    check_slots(&space);
}

#[test]
fn a_table_with_a_better_filter_goes_before_the_others() {
    let ruled = |rule: u32, filter: Filter| Filter { rule, ..filter };
    let from = (0..10).map(|n| ruled(1, from_host(n)));
    let mut space = space(from.chain((0..10).map(|n| ruled(2, to_host(n)))));
    assert_eq!(tables(&space).tables[0].shape.0[..2], [0, 32]);
    add(&mut space, 20, ruled(1, from_host(20)));
    assert_eq!(tables(&space).tables[0].shape.0[..2], [0, 32]);
    assert_eq!(
        tables(&space).tables[1].best,
        number(&ruled(1, from_host(20)), 20)
    );
    add(&mut space, 21, ruled(3, from_host(21)));
    assert_eq!(tables(&space).tables[0].shape.0[..2], [32, 0]);
    assert_eq!(
        tables(&space).tables[0].best,
        number(&ruled(3, from_host(21)), 21)
    );
}

#[test]
fn a_filter_leaves_a_list_from_any_place_and_its_slot_is_used_again() {
    for n in 0..6 {
        let mut space = space((0..6).map(flagged));
        remove(&mut space, n.into(), flagged(n));
        assert_eq!(space.free_entries.len(), 1);
        assert_eq!(space.in_list(space.root).count(), 5);
        let gone = number(&flagged(n), n.into());
        assert!(space.in_list(space.root).all(|entry| entry.rank != gone));
        remove(&mut space, n.into(), flagged(n));
        check_slots(&space);
        add(&mut space, 9, flagged(n));
        assert_eq!((space.entries.len(), space.free_entries.len()), (6, 0));
        check_slots(&space);
    }
}

#[test]
fn a_cut_is_cut_anew_by_its_side_when_a_filter_comes_or_goes() {
    let mut space = cut((0..8).map(|n| from_ports(10 * n, 10 * n + 9)));
    let nodes = space.nodes.len();
    let gone = space.entries[0].clone();
    let is_there = |space: &Space<SHORT>| {
        cut_at(space, space.root)
            .members
            .iter()
            .any(|member| member.rank == gone.rank)
    };
    assert!(is_there(&space));
    space.root = space.take(space.root, &gone).expect("it was there");
    assert!(!is_there(&space));
    assert_eq!(space.take(space.root, &gone), None);
    let node = cut_at(&space, space.root);
    assert_eq!((node.side, node.members.len()), (Side::Source, 7));
    check_slots(&space);
    space.root = space.insert(space.root, gone.clone(), Shape::default());
    let node = cut_at(&space, space.root);
    assert_eq!((node.side, node.members.len()), (Side::Source, 8));
    assert_eq!(space.nodes.len(), nodes);
    check_slots(&space);
}

#[test]
fn no_slot_is_lost_and_the_best_is_found_whatever_comes_and_goes() {
    let mut rng = Seed(4).stream();
    let mut draw = || {
        let (host, port) = (rng.below(12) as u32, rng.below(90) as u16);
        let filter = match rng.below(5) {
            0 => from_host(host),
            1 => Filter {
                source: prefix(0x0a00_0000 + (host << 8), 22),
                ..to_ports(port, port + 9)
            },
            2 => flagged(host as u8),
            _ => Filter {
                source: prefix(0x0a00_0000, 8),
                ..to_ports(port, port + 3)
            },
        };
        (filter, rng.below(3) == 0, rng.bits())
    };
    let first: Vec<Filter> = (0..80).map(|_| draw().0).collect();
    let mut model: Vec<(Rank, Filter)> = (0..)
        .zip(&first)
        .map(|(n, filter)| (number(filter, n), *filter))
        .collect();
    let mut space = space(first);
    for n in 80..480 {
        let (filter, goes, bits) = draw();
        if goes {
            let (rank, filter) = model.swap_remove(bits as usize % model.len());
            space.remove(&filter, Family::V4, rank);
        } else {
            add(&mut space, n, filter);
            model.push((number(&filter, n), filter));
        }
        assert_eq!(
            space.entries.len() - space.free_entries.len(),
            held(&space, space.root).0
        );
        let key = key(0x0a00_0000 + (bits >> 32) as u32 % 12, (bits >> 20) as u16 % 100);
        let best = model
            .iter()
            .filter(|(_, filter)| filter.matches(&key))
            .map(|(rank, _)| *rank);
        assert_eq!(space.find(&words(&key)).rank, best.max().unwrap_or(0));
        check_slots(&space);
    }
}

// ----------------------------------------------------------------------------------------------
// what a change costs

fn adds(space: &Space<SHORT>, filter: Filter) -> bool {
    space.adds_in_place(&filter, Family::V4, number(&filter, 1 << 40))
}

/// The same with room for so many more.
fn with_room<T>(items: Vec<T>, more: usize) -> Vec<T> {
    let mut roomy = Vec::with_capacity(items.len() + more);
    roomy.extend(items);
    roomy
}

#[test]
fn few_entries_and_nodes_may_be_moved_and_for_many_there_must_be_room() {
    let mut space = space((0..7).map(from_host));
    let adds = |space: &Space<SHORT>| adds(space, from_host(9));
    // 24 copies of each of 16 filters.
    for (len, more, fits) in [(1_024, 0, true), (1_025, 383, false), (1_025, 384, true)] {
        space.entries.resize(len, Entry::EMPTY);
        space.entries = with_room(std::mem::take(&mut space.entries), more);
        assert_eq!(adds(&space), fits, "{len} {more}");
    }
    space.entries = with_room(std::mem::take(&mut space.entries), 383);
    assert!(!adds(&space));
    space.free_entries.push(1_024);
    assert!(adds(&space));
    for (len, more, fits) in [(1_024, 0, true), (1_025, 383, false), (1_025, 384, true)] {
        space.nodes.resize(len, Node::Free);
        space.nodes = with_room(std::mem::take(&mut space.nodes), more);
        assert_eq!(adds(&space), fits, "{len} {more}");
    }
    space.nodes = with_room(std::mem::take(&mut space.nodes), 383);
    assert!(!adds(&space));
    space.free_nodes.push(1_024);
    assert!(adds(&space));
}

#[test]
fn few_masks_may_be_moved_and_for_many_there_must_be_room() {
    let mut masks = Masks::<SHORT>::default();
    let mut seen = Vec::new();
    for n in 0..700_u32 {
        let of = Filter {
            source: prefix(0, (n / 33) as u8),
            destination: prefix(0, (n % 33) as u8),
            ..filter()
        };
        let _ = Entry::new(&of, Family::V4, 1, &mut masks);
        let (many, capacity) = masks.room();
        if many == capacity {
            let space = Space::new(Vec::new(), masks.clone(), SECRET);
            seen.push((many, space.has_room_for_a_mask()));
        }
    }
    // A copy has room for what it holds.
    let space = Space::new(Vec::new(), masks.clone(), SECRET);
    assert_eq!(space.masks.room(), (700, 700));
    assert!(!space.has_room_for_a_mask() && !adds(&space, filter()));
    assert!(Space::new(Vec::new(), masks, SECRET).has_room_for_a_mask());
    assert_eq!(seen[seen.len() - 3..], [(128, true), (256, true), (512, false)]);
}

#[test]
fn a_list_of_more_than_sixteen_is_not_sorted_anew_in_place() {
    let in_place = |many: u8| adds(&space((0..many).map(flagged)), flagged(99));
    assert_eq!(
        [0, 6, 15, 16, 17, 18].map(in_place),
        [true, true, true, true, false, false]
    );
}

#[test]
fn a_cut_of_more_than_sixteen_is_not_cut_anew_in_place() {
    for (many, little) in [(16, true), (17, false)] {
        let space = cut((0..many).map(|n| to_ports(10 * n, 10 * n + 9)));
        let members = &cut_at(&space, space.root).members;
        assert_eq!(adds(&space, to_ports(5, 6)), little);
        let sought = |rank: Rank| {
            let mut entry = members[0].clone();
            entry.rank = rank;
            Sought {
                entry,
                shape: Shape::default(),
            }
        };
        // One that is there, and one that is not.
        let takes = |rank| space.takes_few(space.root, &sought(rank));
        assert_eq!(takes(members[0].rank), Some(little));
        assert_eq!(takes(7), if little { None } else { Some(false) });
    }
}

fn node_of(built: usize, changed: usize) -> Tables<SHORT> {
    Tables {
        tables: Vec::new(),
        rest: NOTHING,
        rest_best: 0,
        fixed: Shape::default(),
        built,
        changed,
    }
}

#[test]
fn tables_wear_with_six_changes_more_than_there_were_filters() {
    assert!(!node_of(10, 16).worn() && node_of(10, 17).worn());
    // Few filters are built anew at any time.
    assert!(node_of(16, 1_000).lasts());
    assert!(node_of(17, 22).lasts() && !node_of(17, 23).lasts());
}

#[test]
fn tables_take_a_filter_in_place_while_they_last_and_its_bucket_is_short() {
    let mut space = space((0..20).map(from_host).chain((0..17).map(flagged)));
    assert_eq!(space.in_list(tables(&space).rest).count(), 17);
    // A bucket of its own, one that is there, and the rest, which is long.
    assert!(adds(&space, from_host(99)) && adds(&space, from_host(1)));
    assert!(!adds(&space, flagged(99)));
    tables_mut(&mut space).changed = 37 + 5;
    assert!(adds(&space, from_host(99)));
    tables_mut(&mut space).changed = 37 + 6;
    assert!(!adds(&space, from_host(99)));
}

#[test]
fn a_filter_is_added_to_a_long_bucket_elsewhere() {
    let alike = |n: u8| Filter {
        tcp_flags: FlagPattern::new(n, !n),
        ..from_host(500)
    };
    let space = space((0..40).map(from_host).chain((0..17).map(alike)));
    assert!(adds(&space, from_host(7)) && adds(&space, from_host(99)));
    assert!(!adds(&space, from_host(500)));
    // Of the long bucket, the first sixteen are found soon.
    let removes = |n: u8| {
        let (filter, n) = (alike(n), 40 + u64::from(n));
        space.removes_in_place(&filter, Family::V4, number(&filter, n))
    };
    assert!(!removes(0));
    assert!((1..17).all(removes));
}

#[test]
fn a_full_large_table_takes_no_other_bucket_in_place() {
    let mut space = space((0..800).map(from_host));
    let table = &mut tables_mut(&mut space).tables[0];
    let some = table.buckets().next().expect("a bucket");
    let mut hash = 0_u32;
    while table.has_room() {
        hash = hash.wrapping_add(0x9e37_79b1);
        table.set(hash, some);
    }
    assert!(adds(&space, from_host(799)));
    assert!(!adds(&space, from_host(800)));
}

#[test]
fn a_filter_leaves_a_list_in_place_if_it_is_among_the_first_sixteen() {
    for (many, last_leaves) in [(16_u8, true), (17, false)] {
        let space = space((0..many).map(flagged));
        let takes = |n: u8| {
            let filter = flagged(n);
            let rank = number(&filter, n.into());
            space.takes_few(space.root, &Sought::new(&filter, Family::V4, rank))
        };
        // The newest goes first.
        assert_eq!((takes(many - 1), takes(1)), (Some(true), Some(true)));
        assert_eq!(takes(0), Some(last_leaves));
        assert_eq!(takes(many), if last_leaves { None } else { Some(false) });
        let removes = space.removes_in_place(&flagged(many), Family::V4, 1);
        assert_eq!(removes, last_leaves);
    }
}

#[test]
fn a_filter_leaves_tables_in_place_while_they_last() {
    let mut space = space((0..20).map(from_host).chain((0..3).map(flagged)));
    let takes = |space: &Space<SHORT>, n: u64, filter: Filter| {
        let rank = number(&filter, n);
        space.takes_few(space.root, &Sought::new(&filter, Family::V4, rank))
    };
    for (changed, little) in [(0, true), (28, true), (29, false)] {
        tables_mut(&mut space).changed = changed;
        assert_eq!(takes(&space, 3, from_host(3)), Some(little));
        assert_eq!(takes(&space, 21, flagged(1)), Some(little));
        assert_eq!(takes(&space, 3, from_host(4)), None);
    }
}

// ----------------------------------------------------------------------------------------------
// taking apart, and memory

#[test]
fn what_is_taken_apart_is_whole_and_all_slots_are_free() {
    let tables = space(
        (0..20)
            .map(from_host)
            .chain((0..9).map(to_host))
            .chain((0..3).map(flagged)),
    );
    let cut = cut(seven_to(0, 9).chain(seven_to(10, 19)));
    for (mut space, many) in [(tables, 32), (cut, 14)] {
        let mut ranks: Vec<Rank> = space
            .dismantle_bucket(space.root)
            .into_iter()
            .map(|entry| entry.rank)
            .collect();
        ranks.sort_unstable();
        ranks.dedup();
        assert_eq!(ranks.len(), many);
        assert_eq!(space.free_entries.len(), space.entries.len());
        assert_eq!(space.free_nodes.len(), space.nodes.len());
        assert!(space.nodes.iter().all(|node| matches!(node, Node::Free)));
    }
    let mut none = space([]);
    assert!(none.dismantle(Node::Free).is_empty());
}

#[test]
fn memory_is_counted_to_the_byte() {
    assert_eq!(space([]).memory(), 0);
    // One mask takes 3 words, where there is room for 4, and 3 and a number in the tree.
    let masks = 4 * 24 + 28;
    let six = space((0..6).map(from_host));
    assert_eq!(six.memory(), masks + 6 * 64);
    // A node and a table, where there is room for 4 each; the table has 2 groups of 72 bytes.
    let mut seven = space((0..7).map(from_host));
    let (node, table) = (size_of::<Node<SHORT>>(), size_of::<Table<SHORT>>());
    let all = masks + 7 * 64 + 4 * node + 4 * table + 2 * 72;
    assert_eq!(seven.memory(), all);
    seven.free_entries.reserve_exact(10);
    seven.free_nodes.reserve_exact(3);
    assert_eq!(seven.memory(), all + 13 * 4);
}

#[test]
fn memory_of_a_cut_is_that_of_its_members_parts_and_bounds() {
    let mut space = cut(tens(0));
    let cut = match &mut space.nodes[0] {
        Node::Cut(cut) => cut,
        other => panic!("{other:?}"),
    };
    cut.members.reserve_exact(3);
    cut.bounds.reserve_exact(9);
    cut.parts.reserve_exact(5);
    let cut = (
        cut.members.capacity(),
        cut.parts.capacity(),
        cut.bounds.capacity(),
    );
    assert_eq!(cut, (10, 7, 10));
    let outside = space.masks.memory()
        + space.entries.capacity() * 64
        + space.nodes.capacity() * size_of::<Node<SHORT>>();
    assert_eq!(space.memory(), outside + 10 * 64 + 7 * 4 + 10 * 2);
}
