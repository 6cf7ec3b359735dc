//! Which classes keep what they have: what is told after a change, and foreseen of one, is what the
//! way that it took makes of them.

use super::random_policies::RandomPolicy;
use super::*;
use control::begins_anew::{ClassesAnew, Forgotten};
use netio::handle::TapeWish;
use netio::replay::tape::tape;

/// Four classes, of which one has classes in its queue, and one child classes.
const TREE: &str = "version = 1\n[interface.wan0]\nbandwidth = \"200 Mbit/s\"\ndiscipline = \"hfsc\"\n\
     [[interface.wan0.class]]\nname = \"calls\"\nlinkshare = \"5 Mbit/s\"\ndiscipline = \"fifo\"\n\
     [[interface.wan0.class]]\nname = \"rest\"\nlinkshare = \"9 Mbit/s\"\ndefault = true\n\
     [[interface.wan0.class]]\nname = \"above\"\nlinkshare = \"20 Mbit/s\"\n\
     [[interface.wan0.class]]\nname = \"below\"\nlinkshare = \"4 Mbit/s\"\nparent = \"above\"\n\
     [[interface.wan0.class]]\nname = \"shared\"\nlinkshare = \"6 Mbit/s\"\n\
     discipline = { kind = \"drr\", class = [{ name = \"inner\", default = true }] }\n\
     [[interface.wan0.filter]]\nclass = \"calls\"\nprotocol = \"udp\"\ndestination_port = 1000\n";
/// Those without classes in their queues, in the order of the tree.
const OTHERS: [&str; 5] = ["calls", "rest", "above", "below", "inner"];

/// What is replaced in the tree, which classes begin anew in which respect, and a word of why.
type Case = (
    &'static str,
    &'static str,
    &'static [(&'static [&'static str], Forgotten, &'static str)],
);

const CASES: [Case; 10] = [
    ("linkshare = \"5 Mbit/s\"", "linkshare = \"7 Mbit/s\"", &[]),
    ("200 Mbit/s", "150 Mbit/s", &[]),
    (
        "discipline = \"hfsc\"",
        "discipline = { kind = \"hfsc\", limit_burst = \"2 ms\" }",
        &[],
    ),
    (
        "discipline = \"fifo\"",
        "discipline = \"codel\"",
        &[(&["calls"], Forgotten::Class, "another discipline for its packets")],
    ),
    ("destination_port = 1000", "destination_port = 1001", &[]),
    (
        "linkshare = \"4 Mbit/s\"\nparent = \"above\"",
        "linkshare = \"4 Mbit/s\"",
        &[
            (&["above", "shared"], Forgotten::Class, "class with child classes"),
            (
                &["calls", "rest", "below", "inner"],
                Forgotten::Turns,
                "class with child classes",
            ),
        ],
    ),
    (
        "linkshare = \"4 Mbit/s\"\nparent = \"above\"",
        "linkshare = \"4 Mbit/s\"\nparent = \"higher\"\n\
         [[interface.wan0.class]]\nname = \"higher\"\nlinkshare = \"20 Mbit/s\"",
        &[
            (
                &["above", "shared"],
                Forgotten::Class,
                "class higher is new and has child classes",
            ),
            (
                &["calls", "rest", "below", "inner"],
                Forgotten::Turns,
                "class higher is new and has child classes",
            ),
        ],
    ),
    (
        "name = \"inner\", default = true",
        "name = \"inner\", default = true }, { name = \"another\"",
        &[
            (&["shared"], Forgotten::Class, "class shared, which comes, goes"),
            (&OTHERS, Forgotten::Turns, "class shared, which comes, goes"),
        ],
    ),
    ("linkshare = \"20 Mbit/s\"", "linkshare = \"21 Mbit/s\"", &[]),
    (
        "name = \"shared\"",
        "name = \"common\"",
        &[(&OTHERS, Forgotten::Turns, "class shared, which comes, goes")],
    ),
];

impl Rig {
    /// Does this beside the packet loop, which no packet passes.
    fn beside<T: Send>(&mut self, work: impl FnOnce(&InForce) -> Result<T, Refusal> + Send) -> T {
        let Self {
            worker,
            in_force,
            now,
            ..
        } = self;
        let in_force = &*in_force;
        std::thread::scope(|scope| {
            let asked = scope.spawn(move || work(in_force));
            while !asked.is_finished() {
                *now = *now + Duration::from_micros(50);
                let _ = worker.turn_at(*now);
            }
            asked.join().expect("no panic").expect("an answer")
        })
    }

    /// What a change is foreseen to come to, and what it is told to have come to.
    pub(super) fn told_of(&mut self, policy: &InterfacePolicy) -> (Vec<ClassesAnew>, Adoption) {
        self.beside(|in_force| {
            let foreseen = in_force.foresee(policy.clone())?;
            Ok((foreseen, in_force.put(policy.clone(), policy.clone())?))
        })
    }
}

#[test]
fn a_change_tells_exactly_the_classes_that_begin_anew() {
    for (from, to, expected) in CASES {
        assert!(TREE.contains(from), "{from}");
        let mut rig = Rig::new(&read(TREE), Registry::builtin());
        let (foreseen, told) = rig.told_of(&read(&TREE.replace(from, to)));
        let found = &told.begins_anew;
        assert_eq!(foreseen, *found, "{to}");
        assert_eq!(found.len(), expected.len(), "{to}: {found:?}");
        for (found, (classes, what, why)) in found.iter().zip(expected) {
            assert_eq!(
                (&found.classes[..], found.what),
                (&names(classes)[..], *what),
                "{to}"
            );
            assert!(found.why.contains(why), "{to}: {}", found.why);
        }
    }
}

fn names(classes: &[&str]) -> Vec<String> {
    classes.iter().map(ToString::to_string).collect()
}

#[test]
fn more_classes_than_places_begin_all_anew_and_as_many_none() {
    let classes = |count: u16| (0..count).map(|flow| (flow, 4)).collect();
    for (more, all) in [(8, false), (9, true)] {
        let mut rig = Rig::new(&policy(KINDS[0], &classes(4)), Registry::builtin());
        let (foreseen, told) = rig.told_of(&policy(KINDS[0], &classes(4 + more)));
        assert_eq!(foreseen, told.begins_anew);
        // The default class, whose packets they get, has a queue that goes on.
        let Some(found) = foreseen.first() else {
            assert!(!all);
            continue;
        };
        assert!(all && foreseen.len() == 1, "{foreseen:?}");
        assert_eq!((found.classes.len(), found.what), (4, Forgotten::Turns));
        assert!(
            found.why.contains("at the top than there are places"),
            "{found:?}"
        );
    }
}

#[test]
fn while_what_passes_goes_to_a_tape_all_begin_anew() {
    let classes = |count: u16| (0..count).map(|flow| (flow, 4)).collect();
    let mut rig = Rig::new(&policy(KINDS[0], &classes(4)), Registry::builtin());
    let (writer, _reader) = tape();
    let (handle, path) = (rig.handle.clone(), rig.path);
    rig.beside(move |_| {
        handle.tape(path, TapeWish::Start(writer)).map_err(refused)?;
        Ok(())
    });
    let (foreseen, told) = rig.told_of(&policy(KINDS[0], &classes(5)));
    assert_eq!(foreseen, told.begins_anew);
    assert!(matches!(told.adopted, Adopted::Rebuilt { .. }), "{told:?}");
    assert_eq!(foreseen[0].classes, ["c0", "c1", "c2", "c3"]);
    assert!(foreseen[0].why.contains("recorded"), "{foreseen:?}");
}

#[test]
fn what_is_foreseen_of_random_changes_is_what_they_come_to() {
    const PORTS: [u16; 5] = [1_000, 1_001, 1_002, 1_003, 1_004];
    let (mut rng, text) = (Seed(6).stream(), |policy: &RandomPolicy| policy.text("", &PORTS));
    let mut policy = RandomPolicy::draw(&mut rng, PORTS.len());
    let mut rig = Rig::new(&read(&text(&policy)), Registry::builtin());
    let (mut rebuilt, mut silent) = (0, 0);
    for round in 0..120 {
        policy = policy.next(&mut rng);
        let (foreseen, told) = rig.told_of(&read(&text(&policy)));
        assert_eq!(foreseen, told.begins_anew, "{round}: {policy:?}");
        let is_anew = foreseen.iter().any(|anew| anew.what != Forgotten::Queue);
        rebuilt += u32::from(matches!(told.adopted, Adopted::Rebuilt { .. }) && is_anew);
        silent += u32::from(told.adopted == Adopted::InPlace && !is_anew);
    }
    assert!(rebuilt > 10 && silent > 10, "{rebuilt} {silent}");
}
