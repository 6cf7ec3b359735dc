//! Who is next by averages, on rings that are set up by hand, and packet by packet.

use super::*;
use crate::disciplines::cbq::averaging::BACKLOGGED;
use crate::disciplines::cbq::averaging::tests::{estimated, ring};
use crate::disciplines::cbq::tests::{Course, LEN, MS, bursty, check, class, limited, with};
use crate::settings::{Raw, Table};
use crate::tree::ClassSpec;

/// Leaves `l0`, `l1` and so on of the same rate below the link.
fn equals(leaves: usize, settings: Table) -> Course {
    let rate = format!("{} bit/s", 8_000_000 / leaves);
    let leaf = |number: usize| class(&format!("l{number}"), "", &rate);
    let classes: Vec<ClassSpec> = (0..leaves).map(leaf).collect();
    Course::new(settings, &classes)
}

fn ancestors() -> Table {
    estimated("ancestors-only", "100 %")
}

/// The ring of turns of priority 1.
fn turns(tree: &Averaging) -> Vec<usize> {
    ring(tree.turns[1], |leaf| tree.leaves[leaf].turn.next)
}

#[test]
fn leaves_join_the_turns_by_number() {
    let mut course = equals(5, ancestors());
    let tree = course.averaging();
    for leaf in [3, 1, 4, 0, 2] {
        tree.join(leaf, 0, 0);
    }
    assert_eq!(turns(tree), [3, 4, 0, 1, 2]);
    tree.leave(4);
    tree.leave(3);
    assert_eq!(turns(tree), [0, 1, 2]);
    tree.join(3, 0, 0);
    assert_eq!(turns(tree), [0, 1, 2, 3]);
}

#[test]
fn a_leaf_whose_predecessor_has_sent_last_has_its_turn_now() {
    for (last, head) in [(1, 2), (3, 3)] {
        let mut course = equals(5, ancestors());
        let tree = course.averaging();
        tree.join(1, 0, 0);
        tree.join(3, 0, 0);
        (tree.turns[1], tree.last[1]) = (3, last);
        // That the next one has bytes left does not matter.
        tree.leaves[3].left = 9;
        tree.join(2, 0, 0);
        assert_eq!(tree.turns[1], head);
    }
}

#[test]
fn a_leaf_alone_goes_on_before_one_that_joins_while_it_has_bytes_left() {
    for (left, head) in [(0, 2), (1, 1), (-5, 2)] {
        let mut course = equals(5, ancestors());
        let tree = course.averaging();
        tree.join(1, 0, 0);
        (tree.last[1], tree.leaves[1].left) = (1, left);
        tree.join(2, 0, 0);
        assert_eq!(tree.turns[1], head, "{left}");
    }
}

#[test]
fn whoever_joins_far_from_the_head_is_the_last_of_the_round() {
    let even = || (0..20).map(|n| 2 * n);
    for (leaf, next) in [(13, 14), (15, 0), (39, 0)] {
        let mut course = equals(40, ancestors());
        let tree = course.averaging();
        even().for_each(|even| tree.join(even, 0, 0));
        assert_eq!(turns(tree), even().collect::<Vec<_>>());
        tree.join(leaf, 0, 0);
        assert_eq!(tree.leaves[leaf].turn.next, next);
        assert_eq!(tree.turns[1], 0);
    }
}

#[test]
fn whoever_joins_has_nothing_left_of_its_turn() {
    let mut course = equals(2, ancestors());
    let tree = course.averaging();
    tree.leaves[0].left = 700;
    tree.join(0, 0, 0);
    assert_eq!((tree.leaves[0].left, tree.members[0].demand), (0, 1));
    tree.leave(0);
    assert_eq!((tree.members[0].demand, tree.turns[1]), (0, NONE));
}

/// Two classes far within their limits, always with packets.
fn pair(a: &str, b: &str, settings: Table) -> Course {
    let mut course = Course::new(
        settings,
        &[bursty(class("a", "", a), 900), bursty(class("b", "", b), 900)],
    );
    course.now = 10_000 * MS;
    course.offer("a", 30);
    course.offer("b", 30);
    course
}

/// The same with packets of the longest length for turns.
fn longest(mut class: ClassSpec) -> ClassSpec {
    class.settings.entries.retain(|entry| entry.key != "packet_size");
    bursty(class, 900)
}

#[test]
fn equal_classes_go_on_while_their_turns_have_bytes_left() {
    let classes = ["a", "b"].map(|name| longest(class(name, "", "40 %")));
    let mut course = Course::new(ancestors(), &classes);
    course.now = 10_000 * MS;
    course.offer("a", 30);
    course.offer("b", 30);
    // Turns of 1,500 bytes; what is overdrawn is missing from the next.
    assert_eq!(course.order(12), "a a b b a b a a b b a b");
}

#[test]
fn turns_are_by_the_rates_and_one_without_bytes_is_passed_over() {
    let classes = [("a", "60 %"), ("b", "20 %")].map(|(name, rate)| longest(class(name, "", rate)));
    let mut course = Course::new(ancestors(), &classes);
    course.now = 10_000 * MS;
    course.offer("a", 30);
    course.offer("b", 30);
    // 2,250 and 750 bytes. The fourth turn of b would begin with nothing.
    assert_eq!(course.order(15), "a a a b a a b a a b a a a a a");
    let (a, b) = (
        course.averaging().leaves[0].left,
        course.averaging().leaves[1].left,
    );
    assert_eq!((a, b), (-750, 0));
    assert_eq!(course.order(1), "b");
}

#[test]
fn packet_by_packet_classes_alternate_whatever_their_rates() {
    let mut course = pair("60 %", "20 %", ancestors().text("round_robin", "packet"));
    assert_eq!(course.order(6), "a b a b a b");
}

#[test]
fn the_higher_priority_goes_first_while_it_may() {
    let classes = [
        class("a", "", "20 %"),
        with(class("b", "", "20 %"), "priority", 6),
    ];
    let mut course = Course::new(ancestors(), &classes.map(|class| bursty(class, 900)));
    course.now = 10_000 * MS;
    course.offer("a", 2);
    course.offer("b", 3);
    assert_eq!(course.order(9), "b b b a a");
}

#[test]
fn a_turn_moves_on_when_its_bytes_are_used_up_or_nobody_lent() {
    let cases = [
        (Some(400), 1_000, 600, 0),
        (Some(1_000), 1_000, 0, 1),
        (Some(1_200), 1_000, -200, 1),
        (Some(10), 0, 0, 1),
        (Some(10), -10, -10, 1),
        (None, 1_000, 1_000, 1),
    ];
    for (len, before, after, head) in cases {
        let mut course = equals(2, ancestors());
        let tree = course.averaging();
        tree.join(0, 0, 0);
        tree.join(1, 0, 0);
        tree.leaves[0].left = before;
        tree.move_turn(0, 1, len);
        let now = (tree.leaves[0].left, tree.turns[1], tree.last[1]);
        assert_eq!(now, (after, head, 0), "{len:?}");
    }
}

#[test]
fn a_tag_grows_by_the_length_over_the_rate_from_the_later_start() {
    // Half of the link: twice 4,096 for a byte.
    let take = |weighted: bool, tag: u128, others: u128, len: u64| {
        let round_robin = if weighted { "weighted" } else { "packet" };
        let mut course = equals(2, ancestors().text("round_robin", round_robin));
        let tree = course.averaging();
        (tree.leaves[0].tag, tree.tags[1]) = (tag, others);
        tree.take_turn(0, 1, len);
        (tree.leaves[0].tag, tree.tags[1])
    };
    assert_eq!(take(true, 0, 0, LEN), (8_192_000, 0));
    assert_eq!(take(true, 500, 300, LEN), (8_192_500, 500));
    assert_eq!(take(true, 300, 500, LEN), (8_192_500, 500));
    // No packet counts for more than 1 MiB.
    assert_eq!(take(true, 0, 0, 3 << 20), (8_192 << 20, 0));
    assert_eq!(take(false, 0, 0, LEN), (4_096, 0));
}

#[test]
fn the_tag_of_a_leaf_that_waits_changes_where_its_lenders_wait() {
    let classes = [
        class("x", "", "4 Mbit/s"),
        class("y", "x", "3 Mbit/s"),
        class("a", "y", "1 Mbit/s"),
        class("b", "y", "1 Mbit/s"),
    ];
    let mut course = Course::new(ancestors(), &classes);
    let [x, y] = ["x", "y"].map(|name| course.number(name));
    let tree = course.averaging();
    for leaf in [0, 1] {
        tree.join(leaf, 0, 0);
        tree.turn_over(leaf, true, 0, 0);
    }
    tree.turn_over(y, true, 0, 0);
    let firsts = |tree: &Averaging| [x, y].map(|node| tree.pools.first(node, 1));
    assert_eq!(firsts(tree), [Some(0); 2]);
    tree.take_turn(0, 1, LEN);
    assert_eq!(firsts(tree), [Some(0); 2]);
    tree.take_turn(1, 1, 2 * LEN);
    let first = tree.leaves[0].tag;
    assert_eq!(firsts(tree), [Some(first); 2]);
    assert_eq!((tree.lender_of(0), tree.lender_of(1)), (Some(x), Some(x)));
    // The first of y's pool leaves, and the other stands for it.
    tree.leave(0);
    let first = tree.leaves[1].tag;
    assert_eq!(firsts(tree), [Some(first); 2]);
    tree.leave(1);
    assert_eq!(firsts(tree), [None; 2]);
    assert!(!tree.pools.any());
    assert_eq!([x, y].map(|node| tree.members[node].demand), [0; 2]);
}

#[test]
fn a_leaf_over_its_limit_may_send_if_somebody_up_to_the_level_lends() {
    let classes = [
        class("x", "", "4 Mbit/s"),
        class("a", "x", "1 Mbit/s"),
        limited(class("b", "x", "1 Mbit/s")),
    ];
    let mut course = Course::new(ancestors(), &classes);
    let (x, link) = (course.number("x"), 3);
    let tree = course.averaging();
    let permitted = |tree: &Averaging, leaf| [0, 1, 2].map(|level| tree.permitted(leaf, level));
    tree.join(0, 0, 0);
    tree.join(1, 0, 0);
    assert_eq!(permitted(tree, 0), [Some(0); 3]);
    tree.turn_over(0, true, 0, 0);
    assert_eq!(permitted(tree, 0), [None, Some(x), Some(x)]);
    tree.turn_over(x, true, 0, 0);
    assert_eq!(permitted(tree, 0), [None, None, Some(link)]);
    tree.turn_over(link, true, 0, 0);
    assert_eq!(permitted(tree, 0), [None; 3]);
    assert_eq!(permitted(tree, 1), [Some(1); 3]);
    tree.turn_over(link, false, 0, 0);
    tree.turn_over(1, true, 0, 0);
    assert_eq!(permitted(tree, 1), [None; 3]);
}

#[test]
fn a_leaf_is_refused_once_until_it_is_within_its_limit() {
    let mut course = Course::new(
        ancestors(),
        &[limited(class("a", "", "1 Mbit/s")), class("b", "", "1 Mbit/s")],
    );
    let tree = course.averaging();
    tree.join(0, 0, 0);
    tree.join(1, 0, 0);
    assert!(!tree.refuse_all(0));
    tree.turn_over(0, true, 0, 0);
    let chosen = tree.choose(0).map(|chosen| (chosen.leaf, chosen.lender));
    assert_eq!(chosen, Some((1, Some(1))));
    assert_eq!(
        (tree.tallies[0].delays, tree.members[0].flags & REFUSED),
        (1, REFUSED)
    );
    let _ = tree.choose(0);
    assert!(!tree.refuse_all(0));
    assert_eq!(tree.tallies[0].delays, 1);
    tree.turn_over(0, false, 0, 0);
    assert_eq!(tree.members[0].flags & (REFUSED | OVER | FRESH), 0);
    tree.turn_over(0, true, 0, 0);
    tree.turn_over(1, true, 0, 0);
    assert!(tree.refuse_all(0));
    assert_eq!((tree.tallies[0].delays, tree.tallies[1].delays), (2, 1));
    assert_eq!(tree.fresh[1], NONE);
}

/// Ten leaves of which the first eight are over their limit and may not borrow.
fn eight_over() -> Course {
    let leaf = |number: usize| {
        let leaf = class(&format!("l{number}"), "", "1 %");
        if number < 8 { limited(leaf) } else { leaf }
    };
    let classes: Vec<ClassSpec> = (0..10).map(leaf).collect();
    let mut course = Course::new(ancestors(), &classes);
    let tree = course.averaging();
    (0..10).for_each(|leaf| tree.join(leaf, 0, 0));
    (0..8).for_each(|leaf| tree.turn_over(leaf, true, 0, 0));
    course
}

#[test]
fn beyond_eight_leaves_that_may_not_send_the_least_tag_decides() {
    let mut course = eight_over();
    let tree = course.averaging();
    tree.turn_over(8, true, 0, 0);
    tree.turn_over(8, false, 0, 0);
    assert!(tree.choose_by_turns(1, 2, 0).is_none());
    assert_eq!(tree.choose(0).map(|chosen| chosen.leaf), Some(8));
    tree.take_turn(8, 1, LEN);
    tree.tags[1] = 0;
    let chosen = tree.choose(0).expect("somebody may send");
    assert_eq!((chosen.leaf, chosen.lender, chosen.priority), (9, Some(9), 1));
    // From the second on it is within eight.
    tree.turns[1] = 1;
    assert_eq!(tree.choose(0).map(|chosen| chosen.leaf), Some(8));
}

#[test]
fn if_nobody_may_send_the_first_borrower_goes_on_for_nothing() {
    for (turn, expected) in [(0, 8), (1, 8), (9, 9)] {
        let mut course = eight_over();
        let tree = course.averaging();
        [8, 9, 10]
            .iter()
            .for_each(|&node| tree.turn_over(node, true, 0, 0));
        tree.turns[1] = turn;
        let chosen = tree.choose(0).expect("it borrows");
        assert_eq!((chosen.leaf, chosen.lender, chosen.priority), (expected, None, 1));
        assert!(tree.may_send());
        tree.customs.efficient = false;
        assert!(tree.choose(0).is_none() && !tree.may_send());
    }
}

#[test]
fn without_efficient_the_cutoff_is_passed_level_by_level_rather_than_send_for_nothing() {
    for (efficient, lender) in [(true, None), (false, Some(2))] {
        let settings = estimated("top-level", "100 %").with("efficient", Raw::Boolean(efficient));
        let classes = [
            class("x", "", "4 Mbit/s"),
            class("a", "x", "1 Mbit/s"),
            class("b", "x", "1 Mbit/s"),
        ];
        let mut course = Course::new(settings, &classes);
        let tree = course.averaging();
        tree.join(0, 0, 0);
        tree.turn_over(0, true, 0, 0);
        tree.cutoff = 0;
        let chosen = tree.choose(0).expect("a may send");
        assert_eq!((chosen.leaf, chosen.lender), (0, lender));
        tree.cutoff = 1;
        assert_eq!(tree.choose(0).and_then(|chosen| chosen.lender), Some(2));
        // Any ancestor lends where there is no cutoff.
        (tree.cutoff, tree.customs.top_level) = (0, false);
        assert_eq!(tree.choose(0).and_then(|chosen| chosen.lender), Some(2));
    }
}

#[test]
fn a_packet_moves_the_cutoff_to_the_level_of_its_lender_or_lifts_it() {
    let classes = [class("x", "", "6 Mbit/s"), class("a", "x", "2 Mbit/s")];
    let settings = || estimated("top-level", "100 %");
    let mut course = Course::new(settings(), &classes.map(|class| bursty(class, 16)));
    course.now = 10_000 * MS;
    assert_eq!(course.averaging().cutoff, 2);
    course.offer("a", 5);
    assert_eq!(course.averaging().cutoff, 0);
    let cutoffs: Vec<u8> = (0..4)
        .map(|_| {
            let _ = course.order(1);
            course.averaging().cutoff
        })
        .collect();
    // With one packet left the queue is almost empty.
    assert_eq!(cutoffs, [0, 0, 0, 2]);
    course.offer("a", 3);
    let tree = course.averaging();
    for (before, after) in [(0, 0), (1, 1), (2, 1)] {
        tree.cutoff = before;
        tree.move_cutoff(1, 0, 10_010 * MS);
        assert_eq!(tree.cutoff, after);
    }
    // A lender that is overlimit then.
    let classes = [class("x", "", "6 Mbit/s"), class("a", "x", "2 Mbit/s")];
    let mut course = Course::new(settings(), &classes);
    course.offer("a", 5);
    assert_eq!(course.order(1), "a");
    assert_eq!(course.averaging().cutoff, 2);
}

#[test]
fn an_arrival_lowers_the_cutoff_to_the_first_node_within_its_limit() {
    let classes = [
        class("x", "", "6 Mbit/s"),
        class("a", "x", "2 Mbit/s"),
        limited(class("b", "x", "1 Mbit/s")),
    ];
    let mut course = Course::new(estimated("top-level", "100 %"), &classes);
    let tree = course.averaging();
    let lowered = |tree: &mut Averaging, leaf: usize, cutoff: u8| {
        tree.cutoff = cutoff;
        tree.lower_cutoff(leaf, 0);
        tree.cutoff
    };
    assert_eq!([0, 1, 2].map(|cutoff| lowered(tree, 0, cutoff)), [0; 3]);
    // Far too fast: both leaves are over their limits, then x too.
    for leaf in [0, 1] {
        tree.members[leaf].average.update(8_000_000_000_000, MS, MS);
    }
    assert_eq!([0, 1, 2].map(|cutoff| lowered(tree, 0, cutoff)), [0, 1, 1]);
    assert_eq!([0, 1, 2].map(|cutoff| lowered(tree, 1, cutoff)), [0, 1, 2]);
    tree.members[2].average.update(80_000_000_000_000, MS, MS);
    assert_eq!([0, 1, 2].map(|cutoff| lowered(tree, 0, cutoff)), [0, 1, 2]);
}

#[test]
fn a_leaf_that_is_refused_sends_a_packets_time_after_its_last_and_a_nanosecond() {
    let mut course = Course::new(ancestors(), &[limited(class("a", "", "4 Mbit/s"))]);
    course.offer("a", 4);
    assert_eq!(course.times(3), [0, 2 * MS + 1, 4 * MS + 2]);
    assert_eq!(course.counts("a"), [3, 2, 0, 0, 0]);
    assert_eq!(course.times(3), [6 * MS + 3]);
    assert_eq!(course.take(), Err(None));
    assert_eq!(course.counts("a"), [3, 3, 0, 0, 0]);
}

#[test]
fn a_refused_leaf_wakes_up_on_ticks_two_ahead_at_least() {
    for (rate, expected) in [("4 Mbit/s", [0, 10 * MS]), ("200 kbit/s", [0, 45 * MS])] {
        let settings = ancestors().text("tick", "5 ms");
        let mut course = Course::new(settings, &[limited(class("a", "", rate))]);
        course.offer("a", 2);
        assert_eq!(course.times(2), expected, "{rate}");
    }
}

#[test]
fn a_leaf_borrows_from_its_parent_and_both_count_it() {
    let classes = [class("x", "", "100 %"), class("a", "x", "2 Mbit/s")];
    let mut course = Course::new(ancestors(), &classes);
    course.offer("a", 4);
    assert_eq!(course.times(3), [0, MS, 2 * MS]);
    let [a, x] = ["a", "x"].map(|name| course.counts(name));
    assert_eq!((a[2], a[3]), (2, 2_000));
    assert_eq!(x[4] + course.count("", "lent"), 2_000);
    assert_eq!(course.averaging().members[0].flags & BACKLOGGED, BACKLOGGED);
}

#[test]
fn what_is_sent_for_nothing_is_lent_by_the_link_and_charged_to_nobody() {
    let mut course = Course::new(estimated("ancestors-only", "1 %"), &[class("a", "", "80 kbit/s")]);
    course.offer("a", 4);
    assert_eq!(course.order(2), "a a");
    let average = |course: &mut Course| {
        let tree = course.averaging();
        [0, 1].map(|node| {
            (
                tree.members[node].average.bytes(),
                tree.members[node].average.until(),
            )
        })
    };
    let before = average(&mut course);
    let tag = course.averaging().leaves[0].tag;
    assert_eq!(course.times(1), [2 * MS]);
    assert_eq!(average(&mut course), before);
    assert_eq!(course.averaging().leaves[0].tag, tag);
    assert_eq!(course.counts("a")[2..], [2, 2_000, 0]);
    assert_eq!(course.count("", "lent"), 2_000);
}

#[test]
fn a_plan_with_other_customs_is_followed_at_once() {
    let mut course = pair("60 %", "20 %", ancestors().text("round_robin", "packet"));
    assert_eq!(course.order(2), "a b");
    let other = check(
        estimated("top-level", "100 %").text("link", "port"),
        &[
            bursty(class("a", "", "60 %"), 900),
            bursty(class("b", "", "20 %"), 900),
        ],
    );
    assert!(course.retune(&other));
    let customs = course.averaging().customs;
    assert!(customs.top_level && customs.weighted && !customs.shaped && customs.efficient);
    assert_eq!(customs.tick, None);
}

#[test]
fn a_class_without_a_rate_that_is_refused_still_sends_only_what_it_borrows() {
    // The link lends 10 % of itself; while it does not, the class waits.
    let settings = estimated("ancestors-only", "10 %").with("efficient", Raw::Boolean(false));
    let mut course = Course::new(settings, &[class("a", "", "0 bit/s")]);
    course.offer("a", 8);
    let times = course.times(8);
    assert!(times[7] >= 60 * MS, "{times:?}");
    assert_eq!(course.counts("a")[2..], [8, 8_000, 0]);
}
