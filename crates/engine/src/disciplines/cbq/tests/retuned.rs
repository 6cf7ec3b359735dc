//! The tree by credits while plans change, and its rows against a look at all of its classes.

use super::{Course, MS, built, bursty, check, check_on, class, limited, older, over, with};
use crate::discipline::Discipline;
use crate::disciplines::cbq::Mode;
use crate::disciplines::cbq::state::{ASLEEP, BACKLOGGED, BORROW, Cbq, LISTED, OVER};
use crate::inspect::Value;
use crate::packet::{ClassId, Packet};
use crate::random::{Rng, Seed};
use crate::settings::Table;
use crate::sinks::Nowhere;
use crate::structures::rings::{NONE, PRIORITIES};
use crate::tree::{ClassSpec, TreePlan};
use crate::units::{Bandwidth, Bytes, Instant};

fn by_packets(sharing: &str) -> Table {
    older(sharing).text("round_robin", "packet")
}

/// Who belongs into which set, under formal sharing.
fn wanted(cbq: &Cbq) -> Vec<(usize, u32)> {
    let mut wanted = Vec::new();
    for number in 0..cbq.link() {
        let node = &cbq.nodes[number];
        let mut demand = node.demand;
        if number < cbq.leaves() && demand != 0 {
            if node.flags & LISTED != 0 {
                wanted.push((usize::from(node.priority), number as u32));
            }
            demand = 1 << cbq.lent_priority(number);
        }
        for priority in (0..PRIORITIES).filter(|priority| demand >> priority & 1 != 0) {
            if node.flags & BORROW != 0 {
                let owner = cbq.place_of(node.parent as usize, priority);
                wanted.push((cbq.borrowers(owner), cbq.place_of(number, priority)));
            }
        }
    }
    wanted.sort_unstable();
    wanted
}

/// The demand of a node by a look at its children.
fn demanded(cbq: &Cbq, parent: usize) -> u8 {
    let children = (0..cbq.link()).filter(|&child| cbq.nodes[child].parent as usize == parent);
    children
        .filter(|&child| cbq.nodes[child].flags & BORROW != 0)
        .map(|child| match cbq.nodes[child].demand {
            1 if child < cbq.leaves() => 1 << cbq.lent_priority(child),
            demand => demand,
        })
        .fold(0, |all, one| all | one)
}

/// Sets, rows, timers and counts under formal sharing.
fn audit(cbq: &mut Cbq) {
    let next = |set: usize, place: &mut super::super::state::Membership| match set < PRIORITIES {
        true => place.row.next,
        false => place.feed.next,
    };
    let mut members = cbq.sets.members(&mut cbq.places, next);
    members.sort_unstable();
    assert_eq!(members, wanted(cbq));
    for number in 0..cbq.nodes.len() {
        let (node, link) = (&cbq.nodes[number], number == cbq.link());
        let due = if link { None } else { cbq.wheel.get(number as u32) };
        if number >= cbq.leaves() {
            assert_eq!(node.demand, demanded(cbq, number), "{number}");
        }
        let listed = node.flags & LISTED != 0;
        assert_eq!(listed, node.demand != 0 && node.flags & OVER == 0, "{number}");
        let regulated = node.demand != 0 && !listed && node.credit.rate > 0;
        assert_eq!(due.is_some(), regulated || node.flags & ASLEEP != 0, "{number}");
        for priority in (0..PRIORITIES).filter(|_| node.level > 0) {
            let head = cbq.rows.head(usize::from(node.level), priority);
            let there = listed && node.demand >> priority & 1 != 0;
            assert!(!there || head != NONE);
        }
    }
    let unsatisfied = cbq.nodes[..cbq.leaves()]
        .iter()
        .filter(|leaf| leaf.is_unsatisfied());
    assert_eq!(cbq.unsatisfied, unsatisfied.count());
    let backlogged = cbq.queues.iter().filter(|queue| !queue.is_empty());
    assert_eq!(cbq.backlogged, backlogged.count());
    for (leaf, queue) in cbq.queues.iter().enumerate() {
        assert_eq!(cbq.nodes[leaf].flags & BACKLOGGED != 0, !queue.is_empty());
    }
}

/// A tree in three levels with places; rates by the second of the random streams.
fn drawn(kinds: u64, rng: &mut Rng) -> TreePlan {
    let mut kind = Seed(kinds).stream();
    let kbit = |most: u64, rng: &mut Rng| format!("{} kbit/s", 1_000 + rng.below(most));
    let mut classes = vec![
        class("x", "", &format!("{} kbit/s", 2_000 + rng.below(1_000))),
        class("y", "x", &kbit(1, rng)),
        limited(class("z", "", &kbit(1_000, rng))),
        ClassSpec::place(0, None),
        ClassSpec::place(1, Some("x")),
    ];
    for number in 0..10 {
        let rate = [0, 0, 1 + rng.below(250), 1 + rng.below(250)][rng.below(4) as usize];
        let rate = if number == 3 { 100 } else { rate };
        let leaf = class(
            &format!("l{number}"),
            ["", "x", "y", "z"][number % 4],
            &format!("{rate} kbit/s"),
        );
        let leaf = with(leaf, "priority", [0, 2, 7][kind.below(3) as usize]);
        let leaf = bursty(leaf, 1 + rng.below(3) as i64);
        classes.push(if number == 5 { over(leaf, "sluice") } else { leaf });
    }
    let excess = ["share", "priority"][kinds as usize % 2];
    let round_robin = ["weighted", "packet"][kinds as usize / 2 % 2];
    check(
        Table::default()
            .text("excess", excess)
            .text("round_robin", round_robin),
        &classes,
    )
}

#[test]
fn rows_sets_and_timers_are_as_a_look_at_all_classes_says() {
    for seed in 0..8 {
        let mut rng = Seed(seed).stream();
        let mut course = Course::of(drawn(seed, &mut rng));
        let (mut one, mut whole) = (0, 0);
        for _ in 0..120 {
            let name = format!("l{}", rng.below(10));
            course.offer(&name, 1);
            audit(course.cbq());
            for _ in 0..rng.below(4) {
                match course.take() {
                    Ok(_) => {}
                    Err(Some(at)) if rng.below(3) == 0 => course.now = at,
                    Err(_) => course.now += rng.below(2 * MS),
                }
                audit(course.cbq());
            }
            if rng.below(6) == 0 {
                let plan = drawn(seed, &mut rng);
                let names = ["x", "y", "z", "l0", "l1", "l2", "l3"];
                one += u32::from(course.retune_class(&plan, names[rng.below(7) as usize]));
                audit(course.cbq());
            }
            if rng.below(20) == 0 {
                let plan = drawn(seed, &mut rng);
                // One queue keeps its settings; all else is taken over.
                assert!(!course.retune(&plan));
                whole += 1;
                audit(course.cbq());
            }
        }
        assert!(one > 0 && whole > 0);
        while course.timed(1).len() == 1 {}
        audit(course.cbq());
    }
}

fn orgs(x: &str, y: &str) -> TreePlan {
    let classes = [
        class("x", "", x),
        class("y", "", y),
        class("a", "x", "0 bit/s"),
        class("b", "y", "0 bit/s"),
        ClassSpec::place(0, None),
    ];
    check(Table::default().text("excess", "priority"), &classes)
}

#[test]
fn a_class_above_others_moves_to_lanes_of_its_new_weight_with_those_that_wait() {
    let mut course = Course::of(orgs("1 Mbit/s", "1 Mbit/s"));
    let [x, y] = ["x", "y"].map(|name| course.number(name));
    course.offer("a", 5);
    course.offer("b", 5);
    let _ = course.order(2);
    for rate in ["4 Mbit/s", "500 kbit/s"] {
        let plan = orgs(rate, "1 Mbit/s");
        assert!(course.retune_class(&plan, "x"));
        let cbq = course.cbq();
        let lent = cbq
            .weights
            .lent_to_another(cbq.plan.classes[x].rated())
            .expect("a lane");
        let former = cbq
            .weights
            .lent_to_another(cbq.plan.classes[y].rated())
            .expect("a lane");
        assert!(lent != former);
        for priority in 0..PRIORITIES {
            assert_eq!(cbq.places[cbq.place_of(x, priority) as usize].lent.weight, lent);
            assert_eq!(cbq.places[cbq.place_of(y, priority) as usize].lent.weight, former);
        }
        audit(cbq);
    }
    assert_eq!(course.timed(99).len(), 8);
}

#[test]
fn without_places_a_class_above_others_keeps_its_rate_unless_turns_are_by_packets() {
    let tree = |settings: Table, x: ClassSpec| check(settings, &[x, class("a", "x", "1 Mbit/s")]);
    let plain = || class("x", "", "2 Mbit/s");
    let takes = |settings: fn() -> Table, x: ClassSpec| {
        let mut course = Course::of(tree(settings(), plain()));
        let taken = course.retune_class(&tree(settings(), x.clone()), "x");
        assert_eq!(course.cbq().by_class, taken);
        taken
    };
    let packets: fn() -> Table = || by_packets("formal");
    assert!(takes(packets, class("x", "", "3 Mbit/s")));
    assert!(!takes(Table::default, class("x", "", "3 Mbit/s")));
    assert!(takes(Table::default, bursty(plain(), 9)));
    assert!(!takes(packets, limited(plain())));
}

#[test]
fn one_leaf_takes_over_its_rate_and_the_whole_plan_brings_the_rest() {
    let tree = |a: &str, b: &str| check(by_packets("formal"), &[class("a", "", a), class("b", "", b)]);
    let mut course = Course::of(tree("1 Mbit/s", "1 Mbit/s"));
    let rates = |course: &mut Course| [0, 1].map(|leaf| course.cbq().nodes[leaf].credit.rate);
    let next = tree("2 Mbit/s", "3 Mbit/s");
    assert!(course.retune_class(&next, "a"));
    assert_eq!(rates(&mut course), [2_000_000, 1_000_000]);
    assert!(course.cbq().by_class);
    assert!(course.retune(&next));
    assert_eq!(rates(&mut course), [2_000_000, 3_000_000]);
    assert!(!course.cbq().by_class);
    // The same plan again changes nothing.
    assert!(course.retune(&next));
}

#[test]
fn one_leaf_is_refused_what_belongs_elsewhere() {
    let x = || class("x", "", "4 Mbit/s");
    let plain = || [x(), class("a", "x", "1 Mbit/s"), class("b", "x", "1 Mbit/s")];
    let of = |classes: &[ClassSpec]| check(by_packets("formal"), classes);
    let refused = |classes: &[ClassSpec]| {
        let mut course = Course::of(of(&plain()));
        let refused = !course.retune_class(&of(classes), "a");
        assert_eq!(course.cbq().by_class, !refused);
        refused
    };
    assert!(!refused(&plain()));
    assert!(refused(&[
        x(),
        over(class("a", "x", "1 Mbit/s"), "sluice"),
        class("b", "x", "1 Mbit/s")
    ]));
    assert!(refused(&[
        x(),
        class("a", "", "1 Mbit/s"),
        class("b", "x", "1 Mbit/s")
    ]));
    // As many leaves, each with its number and parent, and a class more.
    let y = class("y", "", "1 Mbit/s");
    assert!(refused(&[
        x(),
        y,
        class("a", "x", "1 Mbit/s"),
        class("b", "y", "1 Mbit/s")
    ]));
    let mut course = Course::of(of(&plain()));
    assert!(
        !course
            .mode
            .retune_class(Instant::START, &*of(&plain()).root.plan, ClassId(77))
    );
    // Nor does a class above others that there was not, or that was another.
    let more = [
        x(),
        class("y", "", "1 Mbit/s"),
        class("a", "x", "1 Mbit/s"),
        class("b", "y", "1 Mbit/s"),
    ];
    assert!(!course.retune_class(&of(&more), "y") && !course.retune_class(&of(&more), "x"));
    let swapped = [
        class("a", "", "1 Mbit/s"),
        class("x", "", "4 Mbit/s"),
        class("b", "x", "1 Mbit/s"),
    ];
    let beside = [x(), class("a", "", "1 Mbit/s"), class("b", "x", "1 Mbit/s")];
    let mut course = Course::of(of(&beside));
    assert!(!course.retune_class(&of(&swapped), "x"));
    let sluiced = |rate: &str| of(&[over(class("a", "", rate), "sluice")]);
    let mut course = Course::of(sluiced("1 Mbit/s"));
    assert!(!course.retune_class(&sluiced("2 Mbit/s"), "a"));
    assert!(!course.cbq().by_class);
}

#[test]
fn a_waiting_leaf_of_another_priority_moves_there() {
    for sharing in ["formal", "top-level", "ancestors-only"] {
        for whole in [true, false] {
            let tree = |priority| {
                let b = with(bursty(class("b", "", "2 Mbit/s"), 9), "priority", priority);
                check(by_packets(sharing), &[bursty(class("a", "", "2 Mbit/s"), 9), b])
            };
            let mut course = Course::of(tree(1));
            course.offer("a", 4);
            course.offer("b", 4);
            assert_eq!(course.order(2), "a b");
            let next = tree(5);
            assert!(if whole {
                course.retune(&next)
            } else {
                course.retune_class(&next, "b")
            });
            assert_eq!(course.cbq().nodes[1].priority, 5);
            assert_eq!(course.order(9), "b b b a a a", "{sharing}, whole {whole}");
        }
    }
}

#[test]
fn a_tree_answers_whether_all_queues_have_taken_over_their_settings() {
    let tree = |kinds: &[&str]| {
        let one = |(number, kind): (usize, &&str)| over(class(&format!("l{number}"), "", "1 Mbit/s"), kind);
        let classes: Vec<ClassSpec> = kinds.iter().enumerate().map(one).collect();
        check(Table::default(), &classes)
    };
    for (kinds, adopted) in [
        (&["fifo"][..], true),
        (&["fifo", "fifo"][..], true),
        (&["fifo", "fifo", "fifo"][..], true),
        (&["fifo", "sluice"][..], false),
        (&["sluice", "fifo"][..], false),
        (&["sluice", "sluice"][..], false),
    ] {
        let mut course = Course::of(tree(kinds));
        assert_eq!(course.retune(&tree(kinds)), adopted, "{kinds:?}");
    }
    let mut course = Course::of(tree(&["fifo", "fifo"]));
    assert!(!course.retune(&tree(&["fifo", "sluice"])) && !course.retune(&tree(&["fifo"])));
}

#[test]
fn what_is_no_class_s_is_taken_over_alone_if_classes_stand_where_they_stood() {
    for (root, same, other) in [
        (None, "formal", "top-level"),
        (Some("100 %"), "top-level", "formal"),
    ] {
        let settings = |sharing: &str| match root {
            Some(root) if sharing != "formal" => older(sharing).text("root_rate", root),
            _ => older(sharing),
        };
        let tree = |settings: Table| check(settings, &[class("a", "", "1 Mbit/s")]);
        let mut course = Course::of(tree(settings(same)));
        let refused = tree(settings(other));
        assert!(!course.mode.retune_own(Instant::START, &*refused.root.plan));
        assert!(!course.mode.is_by_class());
        let next = tree(settings(same).text("link", "port"));
        assert!(course.mode.retune_own(Instant::START, &*next.root.plan));
        assert!(course.mode.is_by_class());
        let shaped = match &course.mode {
            Mode::Crediting(cbq) => cbq.rules.shaped,
            Mode::Averaging(cbq) => cbq.plan.settings.link == super::super::PacedBy::Shaped,
        };
        assert!(!shaped);
    }
}

#[test]
fn a_plan_with_an_estimator_keeps_packets_and_counts() {
    let tree = |root: bool| {
        let settings = older("top-level");
        let settings = if root {
            settings.text("root_rate", "100 %")
        } else {
            settings
        };
        check(
            settings,
            &[class("a", "", "1 Mbit/s"), class("b", "", "1 Mbit/s")],
        )
    };
    let mut course = Course::of(tree(false));
    course.offer("a", 9);
    let _ = course.order(3);
    for root in [true, false] {
        let (before, lent) = (course.counts("a"), course.count("", "lent"));
        assert!(before[2] > 0 && lent > 0);
        assert!(course.retune(&tree(root)));
        assert_eq!((course.counts("a"), course.count("", "lent")), (before, lent));
        assert_eq!(course.timed(2).len(), 2);
    }
    assert_eq!(course.timed(9).len(), 2);
}

fn half() -> TreePlan {
    check(
        Table::default(),
        &[limited(class("a", "", "4 Mbit/s")), class("b", "", "1 Mbit/s")],
    )
}

/// A packet that its former tree hands on.
fn hand_on(course: &mut Course, name: &str) {
    let mut packet = Packet::new(Bytes::new(1_000), course.at(), course.id(name));
    packet.handed_on = true;
    let _ = course.mode.enqueue(course.at(), packet, &mut Nowhere);
}

/// A tree whose `a` takes over from another.
fn successor(former: &mut Course, plan: TreePlan) -> Course {
    let mut next = Course::of(plan);
    next.now = former.now;
    let (class, was) = (next.id("a"), former.id("a"));
    next.mode
        .take_over_class(former.at(), class, &mut former.mode, was);
    next
}

#[test]
fn a_class_that_waited_for_credit_waits_on_in_another_tree() {
    let mut former = Course::of(half());
    former.offer("a", 2);
    assert_eq!(former.times(1), [0]);
    former.now = MS;
    let mut next = successor(&mut former, half());
    hand_on(&mut next, "a");
    assert_eq!(next.state("a"), Value::State("suspended"));
    assert_eq!(next.times(1), [2 * MS]);
    // One that had no packets waits for no more than some credit.
    let mut former = Course::of(half());
    former.offer("a", 1);
    assert_eq!(former.times(1), [0]);
    former.now = 2 * MS;
    let mut next = successor(&mut former, half());
    next.offer("a", 1);
    assert_eq!(next.times(1), [2 * MS]);
}

#[test]
fn credit_beyond_a_burst_is_kept_by_a_class_that_waits_for_its_turn() {
    let tree = |sharing: &str| {
        check(
            older(sharing),
            &[class("a", "", "4 Mbit/s"), class("b", "", "1 Mbit/s")],
        )
    };
    let plenty = 5 * 8_000_000_000_000;
    for (sharing, waits, left) in [
        ("formal", true, plenty),
        ("formal", false, 1),
        ("top-level", true, 1),
    ] {
        let mut former = Course::of(tree("formal"));
        if waits {
            former.offer("a", 1);
        }
        former.cbq().nodes[0].credit.left = plenty;
        let mut next = successor(&mut former, tree(sharing));
        assert_eq!(next.cbq().nodes[0].credit.left, left, "{sharing}, {waits}");
    }
}

#[test]
fn a_class_without_a_rate_has_nothing_to_go_on_with() {
    let tree = |rate: &str| {
        check(
            Table::default(),
            &[class("a", "", rate), class("b", "", "1 Mbit/s")],
        )
    };
    for (old, new, left) in [
        ("0 bit/s", "4 Mbit/s", 1),
        ("4 Mbit/s", "0 bit/s", 0),
        ("4 Mbit/s", "4 Mbit/s", -77),
    ] {
        let mut former = Course::of(tree(old));
        former.cbq().nodes[0].credit.left = -77;
        let mut next = successor(&mut former, tree(new));
        assert_eq!(next.cbq().nodes[0].credit.left, left, "{old}, {new}");
    }
}

#[test]
fn what_is_left_of_a_turn_goes_on_where_it_has_the_same_weight() {
    let tree = |b: &str| check(Table::default(), &[class("a", "", "1 Mbit/s"), class("b", "", b)]);
    for (b, left) in [("1 Mbit/s", (70, 80)), ("3 Mbit/s", (0, 0))] {
        let mut former = Course::of(tree("1 Mbit/s"));
        let place = &mut former.cbq().places[0];
        (place.own.left, place.lent.left) = (70, 80);
        let mut next = successor(&mut former, tree(b));
        let place = &next.cbq().places[0];
        assert_eq!((place.own.left, place.lent.left), left);
    }
}

#[test]
fn the_clock_of_the_link_goes_on_in_another_tree_at_its_bandwidth() {
    let mut former = Course::of(half());
    former.offer("b", 1);
    assert_eq!(former.times(1), [0]);
    let mut next = successor(&mut former, half());
    assert_eq!(next.cbq().clock.free_at(), MS);
    assert_eq!(next.cbq().was_ready, None);
    // A millisecond at 8 Mbit/s is half of one at 16.
    let classes = [limited(class("a", "", "4 Mbit/s")), class("b", "", "1 Mbit/s")];
    let faster = check_on(Bandwidth::mbit(16), Table::default(), &classes);
    let mut next = successor(&mut former, faster);
    assert_eq!(next.cbq().clock.free_at(), MS / 2);
    // Somebody could send since the first packet came.
    former.offer("b", 3);
    former.now = 3 * MS;
    let mut next = successor(&mut former, half());
    assert_eq!(next.cbq().was_ready, Some(0));
    hand_on(&mut next, "b");
    assert_eq!((next.cbq().clock.ready(), next.cbq().was_ready), (0, None));
}

#[test]
fn a_leaf_that_becomes_another_class_begins_anew_and_returns_its_queue() {
    let tree = || {
        check(
            by_packets("formal"),
            &[class("a", "", "4 Mbit/s"), class("b", "", "1 Mbit/s")],
        )
    };
    let mut course = Course::of(tree());
    course.offer("a", 4);
    course.offer("b", 1);
    let _ = course.order(2);
    let (plan, class) = (tree(), course.id("a"));
    let queue = built(&plan, "a");
    let former = course
        .mode
        .renew_class(course.at(), &*plan.root.plan, class, queue);
    let former = former.expect("a leaf");
    assert_eq!(
        former.held().packets + course.cbq().queues[1].backlog().packets,
        3
    );
    assert_eq!(course.counts("a"), [0; 5]);
    assert_eq!(course.state("a"), Value::State("idle"));
    assert_eq!(course.cbq().nodes[0].credit.left, 1);
    audit(course.cbq());
    let unknown = course
        .mode
        .renew_class(course.at(), &*plan.root.plan, ClassId(77), built(&plan, "a"));
    assert!(unknown.is_none());
}

#[test]
fn a_leaf_whose_queue_is_exchanged_is_empty_and_keeps_its_credit() {
    let mut course = Course::of(half());
    course.offer("a", 3);
    assert_eq!(course.order(1), "a");
    let (queue, class) = (built(&half(), "a"), course.id("a"));
    let left = course.cbq().nodes[0].credit.left;
    let former = course
        .mode
        .exchange_queue(course.at(), class, queue)
        .expect("a leaf");
    assert_eq!(former.held().packets, 2);
    assert_eq!(course.cbq().nodes[0].credit.left, left);
    assert_eq!(course.cbq().backlogged, 0);
    assert_eq!(course.take(), Err(None));
    audit(course.cbq());
}

#[test]
fn only_a_leaf_has_a_discipline_and_every_class_its_owner() {
    let classes = [class("x", "", "4 Mbit/s"), class("a", "x", "1 Mbit/s")];
    for settings in [Table::default(), older("top-level").text("root_rate", "100 %")] {
        let mut course = Course::new(settings, &classes);
        let [a, x] = ["a", "x"].map(|name| course.id(name));
        assert!(course.mode.leaf(a).is_some());
        assert!(course.mode.leaf(x).is_none() && course.mode.leaf(ClassId(77)).is_none());
        assert!(course.mode.owner(a).is_some() && course.mode.owner(x).is_some());
        assert!(course.mode.owner(ClassId(77)).is_none());
    }
}

#[test]
fn a_regulated_class_with_another_rate_waits_for_what_it_lacks_at_that_rate() {
    for sharing in ["formal", "top-level"] {
        for whole in [true, false] {
            let tree = |rate: &str| check(by_packets(sharing), &[limited(class("a", "", rate))]);
            let mut course = Course::of(tree("1 Mbit/s"));
            course.offer("a", 3);
            assert_eq!(course.times(1), [0]);
            course.now = 4 * MS;
            assert_eq!(course.take(), Err(Some(8 * MS)));
            // Half of the packet is paid for; the other half comes four times as fast.
            let next = tree("4 Mbit/s");
            assert!(if whole {
                course.retune(&next)
            } else {
                course.retune_class(&next, "a")
            });
            assert_eq!(course.times(1), [5 * MS], "{sharing}, whole {whole}");
        }
    }
}
