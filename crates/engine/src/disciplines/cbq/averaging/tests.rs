//! The tree by averages: what it keeps, against a look at all of its classes; and changes of plans.

use super::{ASLEEP, Averaging, BACKLOGGED, BORROW, FRESH, OVER, REFUSED};
use crate::discipline::Discipline;
use crate::disciplines::cbq::tests::{Course, MS, bursty, check, class, limited, over, with};
use crate::inspect::Value;
use crate::packet::ClassId;
use crate::random::{Rng, Seed};
use crate::settings::{Raw, Table};
use crate::structures::rings::{NONE, PRIORITIES};
use crate::tree::{ClassSpec, TreePlan};
use crate::units::Instant;

pub(super) fn estimated(sharing: &str, root: &str) -> Table {
    Table::default().text("sharing", sharing).text("root_rate", root)
}

/// The tag by which a node waits or lends in a priority, if it does.
fn tag(tree: &Averaging, node: usize, priority: usize) -> Option<u128> {
    let member = &tree.members[node];
    match tree.leaves.get(node) {
        Some(leaf) => (member.demand != 0 && usize::from(member.priority) == priority).then_some(leaf.tag),
        None => waiting(tree, node, priority),
    }
}

/// The least tag of those that would borrow from a node.
fn waiting(tree: &Averaging, node: usize, priority: usize) -> Option<u128> {
    let children = tree.members[..tree.members.len() - 1].iter().enumerate();
    children
        .filter(|(_, child)| child.parent as usize == node && child.flags & OVER != 0)
        .filter(|(_, child)| child.flags & BORROW != 0)
        .filter_map(|(child, _)| tag(tree, child, priority))
        .min()
}

/// The members of a ring, from its head on.
pub(super) fn ring(head: u32, next: impl Fn(usize) -> u32) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = head;
    while at != NONE {
        found.push(at as usize);
        let after = next(at as usize);
        at = if after == head { NONE } else { after };
    }
    found
}

/// The rings of a priority, and who belongs into them.
fn audit_rings(tree: &Averaging, priority: usize) {
    let leaves = &tree.leaves;
    let sorted = |mut ring: Vec<usize>| {
        ring.sort_unstable();
        ring
    };
    let those = |wanted: u8, unwanted: u8| -> Vec<usize> {
        let members = tree.members[..leaves.len()].iter().enumerate();
        members
            .filter(|(_, leaf)| leaf.demand != 0 && usize::from(leaf.priority) == priority)
            .filter(|(_, leaf)| leaf.flags & (wanted | unwanted) == wanted)
            .map(|(number, _)| number)
            .collect()
    };
    let turns = ring(tree.turns[priority], |leaf| leaves[leaf].turn.next);
    assert_eq!(sorted(turns), those(0, 0));
    let borrowers = ring(tree.borrowers[priority], |leaf| leaves[leaf].borrower.next);
    assert_eq!(sorted(borrowers), those(BORROW, 0));
    let fresh = ring(tree.fresh[priority], |leaf| leaves[leaf].fresh.next);
    assert_eq!(sorted(fresh), those(OVER, REFUSED));
}

/// The pools and candidates of a priority; whether there is a candidate.
fn audit_pools(tree: &Averaging, priority: usize) -> bool {
    let link = tree.members.len() - 1;
    for node in tree.leaves.len()..=link {
        let first = waiting(tree, node, priority);
        assert_eq!(tree.pools.first(node, priority), first, "node {node}");
        assert_eq!(tree.members[node].demand & 1 << priority != 0, first.is_some());
    }
    let top = tree.members[link].level;
    let mut any = false;
    for level in 0..=top {
        let within = (0..=link).filter(|&node| tree.members[node].flags & OVER == 0);
        let best = within
            .filter(|&node| tree.members[node].level <= level)
            .filter_map(|node| tag(tree, node, priority))
            .min();
        let found = tree.pools.best_of(priority, level);
        let stands = found.map(|spot| tree.leaves[tree.pools.leaf(spot, priority)].tag);
        assert_eq!(stands, best, "up to level {level}");
        any |= best.is_some();
    }
    any
}

/// The flags and timers of all.
fn audit_timers(tree: &Averaging, now: u64) {
    let clock = tree.clock.idle(now);
    for (number, member) in tree.members.iter().enumerate() {
        let due = tree.wheel.get(number as u32).map(Instant::nanos);
        if member.flags & ASLEEP != 0 {
            assert!(due.is_some() && member.demand == 0);
        } else if member.demand == 0 {
            assert_eq!(due, None, "{number} waits for nothing");
        } else if member.flags & OVER == 0 {
            assert!(due.is_none() && !member.average.is_over(clock), "{number}");
        } else if member.average.until() == u64::MAX {
            assert_eq!(due, None, "{number} never is within its limit");
        } else {
            let until = member.average.until() + tree.clock.behind();
            assert!(due.is_some_and(|due| due <= until), "{number}: {due:?}, {until}");
        }
        if number < tree.leaves.len() {
            let fresh = member.demand != 0 && member.flags & (OVER | REFUSED) == OVER;
            assert_eq!(member.flags & FRESH != 0, fresh);
            let holds = !tree.queues[number].is_empty();
            assert_eq!(member.flags & BACKLOGGED != 0, holds);
            assert_eq!(member.demand != 0, holds && member.flags & ASLEEP == 0);
        }
    }
    let backlogged = tree.queues.iter().filter(|queue| !queue.is_empty());
    assert_eq!(tree.backlogged, backlogged.count());
}

fn audit(tree: &Averaging, now: u64) {
    let mut any = false;
    for priority in [0, 2, 7] {
        audit_rings(tree, priority);
        any |= audit_pools(tree, priority);
    }
    assert_eq!(tree.pools.any(), any);
    assert!((0..PRIORITIES).all(|priority| [0, 2, 7].contains(&priority) || tree.turns[priority] == NONE));
    audit_timers(tree, now);
}

/// The level of the first node within its limit from a leaf up.
fn unsatisfied(tree: &Averaging, leaf: usize, clock: u64) -> Option<u8> {
    let (link, mut node) = (tree.members.len() - 1, leaf);
    loop {
        let member = &tree.members[node];
        match () {
            () if !member.average.is_over(clock) => return Some(member.level),
            () if node == link || member.flags & BORROW == 0 => return None,
            () => node = member.parent as usize,
        }
    }
}

/// Classes in three levels; `rates` are those of the leaves, in kbit/s.
fn classes(kinds: &mut Rng, rates: &[u64]) -> Vec<ClassSpec> {
    let mut classes = vec![
        class("x", "", "2 Mbit/s"),
        class("y", "x", "1 Mbit/s"),
        limited(class("z", "", "1 Mbit/s")),
    ];
    for (number, rate) in rates.iter().enumerate() {
        let parent = ["", "x", "y", "z"][number % 4];
        let leaf = class(&format!("l{number}"), parent, &format!("{rate} kbit/s"));
        let leaf = with(leaf, "priority", [0, 2, 7][kinds.below(3) as usize]);
        let leaf = bursty(leaf, 1 + kinds.below(4) as i64);
        let leaf = if number == 5 { over(leaf, "sluice") } else { leaf };
        classes.push(if kinds.below(5) == 0 && number > 3 {
            limited(leaf)
        } else {
            leaf
        });
    }
    classes
}

/// A tree with random rates of its leaves, all else by the seed of the kinds.
fn drawn(kinds: u64, rng: &mut Rng) -> TreePlan {
    let rates: Vec<u64> = (0..12)
        .map(|number| match rng.below(4) {
            // Without a rate only who may borrow.
            0 if number < 4 => 0,
            _ => 1 + rng.below(250),
        })
        .collect();
    let mut kinds_of = Seed(kinds).stream();
    let sharing = ["top-level", "ancestors-only"][kinds as usize % 2];
    let root = ["40 %", "100 %"][kinds as usize / 2 % 2];
    let settings = estimated(sharing, root).with("efficient", Raw::Boolean(kinds.is_multiple_of(3)));
    check(settings, &classes(&mut kinds_of, &rates))
}

#[test]
fn pools_rings_and_timers_are_as_a_look_at_all_classes_says() {
    for seed in 0..8 {
        let mut rng = Seed(seed).stream();
        let mut course = Course::of(drawn(seed, &mut rng));
        for _ in 0..120 {
            let name = format!("l{}", rng.below(12));
            let leaf = course.number(&name);
            let before = course.averaging().cutoff;
            course.offer(&name, 1);
            let now = course.now;
            let tree = course.averaging();
            if tree.customs.top_level {
                let clock = tree.clock.idle(now);
                let least = unsatisfied(tree, leaf, clock).unwrap_or(before);
                assert_eq!(tree.cutoff, before.min(least));
            }
            audit(tree, now);
            for _ in 0..rng.below(4) {
                match course.take() {
                    Ok(_) => {}
                    Err(Some(at)) if rng.below(3) == 0 => course.now = at,
                    Err(_) => course.now += rng.below(2 * MS),
                }
                let now = course.now;
                audit(course.averaging(), now);
            }
            if rng.below(8) == 0 {
                let plan = drawn(seed, &mut rng);
                let name = format!("l{}", rng.below(12));
                // The queue of one keeps its settings.
                assert_eq!(course.retune_class(&plan, &name), name != "l5");
                let now = course.now;
                audit(course.averaging(), now);
            }
        }
        while course.timed(1).len() == 1 {}
        let now = course.now;
        audit(course.averaging(), now);
    }
}

fn half() -> ClassSpec {
    limited(class("a", "", "4 Mbit/s"))
}

#[test]
fn a_class_by_averages_shows_what_it_does() {
    let mut course = Course::new(
        estimated("top-level", "100 %"),
        &[half(), class("b", "", "1 Mbit/s")],
    );
    assert_eq!(course.state("a"), Value::State("idle"));
    course.offer("a", 2);
    assert_eq!(course.state("a"), Value::State("ready"));
    assert_eq!(course.order(1), "a");
    assert_eq!(course.state("a"), Value::State("suspended"));
    assert_eq!(course.gauge("a", "credit"), Value::Credit(-31));
    course.offer("b", 3);
    course.now = MS;
    assert_eq!(course.order(1), "b");
    assert_eq!(course.state("b"), Value::State("borrowing"));
}

#[test]
fn a_class_that_gets_a_rate_while_it_waits_sends_at_once() {
    let tree = |rate: &str| {
        let settings = estimated("ancestors-only", "10 %").with("efficient", Raw::Boolean(false));
        check(settings, &[class("a", "", rate), class("b", "", "100 kbit/s")])
    };
    let mut course = Course::of(tree("0 bit/s"));
    course.offer("b", 1);
    assert_eq!(course.order(1), "b");
    // The link is over its 10 %, and nobody else may send.
    course.now = 2 * MS;
    course.offer("a", 2);
    let Err(Some(later)) = course.take() else {
        panic!("a has no rate");
    };
    assert!(later > 3 * MS);
    course.now = 3 * MS;
    assert!(course.retune_class(&tree("2 Mbit/s"), "a"));
    assert_eq!(course.averaging().clock.ready(), 3 * MS);
    assert_eq!(course.state("a"), Value::State("ready"));
    // And without a rate again it waits for a lender, without a timer.
    let plan = tree("0 bit/s");
    assert!(course.retune_class(&plan, "a"));
    assert_eq!(course.state("a"), Value::State("borrowing"));
    assert_eq!(course.averaging().wheel.get(0), None);
    assert!(course.retune_class(&tree("2 Mbit/s"), "a"));
    assert_eq!(course.times(1), [3 * MS]);
}

#[test]
fn an_idle_class_that_gets_a_rate_is_not_made_a_candidate() {
    let tree = |rate: &str| check(estimated("top-level", "100 %"), &[class("a", "", rate)]);
    let mut course = Course::of(tree("0 bit/s"));
    assert!(course.retune_class(&tree("1 Mbit/s"), "a"));
    assert!(!course.averaging().pools.any());
    assert_eq!(course.state("a"), Value::State("idle"));
    course.offer("a", 1);
    assert_eq!(course.state("a"), Value::State("ready"));
}

fn nested(a: ClassSpec, b: ClassSpec, x: ClassSpec) -> TreePlan {
    check(estimated("top-level", "100 %"), &[x, a, b])
}

fn plain() -> TreePlan {
    nested(
        class("a", "x", "1 Mbit/s"),
        class("b", "", "1 Mbit/s"),
        class("x", "", "4 Mbit/s"),
    )
}

#[test]
fn one_class_takes_over_its_rate_where_it_is_among_the_others() {
    let mut course = Course::of(plain());
    let (a, b, x) = (course.number("a"), course.number("b"), course.number("x"));
    let other = nested(
        class("a", "x", "2 Mbit/s"),
        class("b", "", "3 Mbit/s"),
        with(class("x", "", "5 Mbit/s"), "priority", 6),
    );
    assert!(course.retune_class(&other, "a"));
    let rates = |course: &mut Course| {
        let tree = course.averaging();
        [a, b, x].map(|number| tree.members[number].average.limits())
    };
    let own = |plan: &TreePlan| {
        let mut fresh = Course::of(plan.clone());
        rates(&mut fresh)
    };
    let (old, new) = (own(&plain()), own(&other));
    assert_eq!(rates(&mut course), [new[0], old[1], old[2]]);
    let tree = course.averaging();
    assert_eq!(tree.leaves[a].share, tree.plan.shares[a]);
    // The priority of a class above leaves means nothing.
    assert!(course.retune_class(&other, "x"));
    assert_eq!(rates(&mut course), [new[0], old[1], new[2]]);
    // The plan as a whole brings what is missing, although it is the one that is known already.
    assert!(course.retune(&other));
    assert_eq!(rates(&mut course), new);
    assert!(!course.averaging().by_class);
}

#[test]
fn a_class_that_limits_itself_takes_over_its_rate_too() {
    let tree = |rate: &str| check(estimated("top-level", "100 %"), &[limited(class("a", "", rate))]);
    let mut course = Course::of(tree("1 Mbit/s"));
    assert!(course.retune_class(&tree("2 Mbit/s"), "a"));
    assert_eq!(
        course.gauge("a", "rate"),
        Value::Bandwidth(crate::units::Bandwidth::mbit(2))
    );
}

#[test]
fn one_class_is_refused_what_moves_it() {
    let (b, x) = (|| class("b", "", "1 Mbit/s"), || class("x", "", "4 Mbit/s"));
    let a = || class("a", "x", "1 Mbit/s");
    let refused = |plan: TreePlan| {
        let mut course = Course::of(plain());
        let refused = !course.retune_class(&plan, "a");
        assert_eq!(course.averaging().by_class, !refused);
        refused
    };
    assert!(!refused(nested(a(), b(), x())));
    assert!(refused(nested(with(a(), "priority", 5), b(), x())));
    assert!(refused(nested(limited(a()), b(), x())));
    assert!(refused(nested(over(a(), "sluice"), b(), x())));
    assert!(refused(nested(
        class("a", "", "1 Mbit/s"),
        class("b", "x", "1 Mbit/s"),
        x()
    )));
    // As many leaves, each with the same number and parent, and a class more.
    let settings = || estimated("top-level", "100 %");
    let more = [x(), class("y", "", "1 Mbit/s"), a(), class("b", "y", "1 Mbit/s")];
    let fewer = [x(), a(), class("b", "x", "1 Mbit/s")];
    let mut course = Course::of(check(settings(), &fewer));
    assert!(!course.retune_class(&check(settings(), &more), "a"));
    let mut course = Course::of(plain());
    assert!(
        !course
            .mode
            .retune_class(Instant::START, &*plain().root.plan, ClassId(77))
    );
    // A queue that keeps its settings keeps the class from taking over others.
    let sluiced = |rate: &str| check(settings(), &[over(class("a", "", rate), "sluice")]);
    let mut course = Course::of(sluiced("1 Mbit/s"));
    assert!(!course.retune_class(&sluiced("2 Mbit/s"), "a"));
    assert!(!course.averaging().by_class);
}

#[test]
fn a_class_of_another_priority_moves_with_its_packets_and_keeps_its_past() {
    let tree = |priority| {
        let a = with(bursty(class("a", "", "2 Mbit/s"), 9), "priority", priority);
        check(
            estimated("top-level", "100 %"),
            &[a, bursty(class("b", "", "2 Mbit/s"), 9)],
        )
    };
    let mut course = Course::of(tree(1));
    course.now = 1_000 * MS;
    course.offer("a", 5);
    course.offer("b", 5);
    assert_eq!(course.order(2), "a b");
    let tree_of = |course: &mut Course| {
        let tree = course.averaging();
        let average = tree.members[0].average;
        (
            average.until(),
            average.bytes(),
            tree.leaves[0].tag,
            tree.tags,
            tree.tallies[0].over,
        )
    };
    let before = tree_of(&mut course);
    assert!(course.retune(&tree(5)));
    assert_eq!(tree_of(&mut course), before);
    let tree_now = course.averaging();
    assert_eq!((tree_now.members[0].priority, tree_now.backlogged), (5, 2));
    assert!(!tree_now.by_class);
    assert_eq!(course.order(9), "a a a a b b b b");
}

#[test]
fn a_class_of_another_tree_goes_on_with_its_average_tag_and_turn() {
    let tree = |rate: &str| {
        let classes = [bursty(class("a", "", rate), 9), class("b", "", "1 Mbit/s")];
        check(estimated("top-level", "100 %"), &classes)
    };
    for (rate, same) in [("2 Mbit/s", true), ("1 Mbit/s", false)] {
        let mut former = Course::of(tree("2 Mbit/s"));
        former.now = 1_000 * MS;
        former.offer("a", 3);
        assert_eq!(former.order(2), "a a");
        let mut next = Course::of(tree(rate));
        let (class, at) = (next.id("a"), former.at());
        next.mode.take_over_class(at, class, &mut former.mode, class);
        let (own, was) = (next.averaging(), former.averaging());
        let state = |tree: &Averaging, node: usize| {
            let average = tree.members[node].average;
            (average.until(), average.is_over(1_001 * MS))
        };
        assert_eq!([state(own, 0), state(own, 2)], [state(was, 0), state(was, 2)]);
        assert!(was.members[0].average.bytes() != 0 && was.leaves[0].tag != 0 && was.leaves[0].left != 0);
        assert_eq!(
            own.members[0].average.bytes() == was.members[0].average.bytes(),
            same
        );
        assert_eq!((own.tags, own.clock.free_at()), (was.tags, was.clock.free_at()));
        let turn = |tree: &Averaging| (tree.leaves[0].tag, tree.leaves[0].left);
        assert_eq!(turn(own), if same { turn(was) } else { (0, 0) });
    }
}
