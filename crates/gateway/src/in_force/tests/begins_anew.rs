//! Which classes keep what they have: what is told after a change, and foreseen of one, is what the
//! way that it took makes of them.

use super::random_policies::RandomPolicy;
use super::*;
use control::begins_anew::{ClassesAnew, Forgotten};
use engine::shaped_queue::HEIRS;
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

/// What is replaced in the tree, which classes begin anew in which respect, and a word of why.
type Case = (
    &'static str,
    &'static str,
    &'static [(&'static [&'static str], Forgotten, &'static str)],
);

const CASES: [Case; 11] = [
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
        &[(&["above"], Forgotten::Queue, "class with child classes")],
    ),
    (
        "linkshare = \"4 Mbit/s\"\nparent = \"above\"",
        "linkshare = \"4 Mbit/s\"\nparent = \"higher\"\n\
         [[interface.wan0.class]]\nname = \"higher\"\nlinkshare = \"20 Mbit/s\"",
        &[(
            &["above"],
            Forgotten::Queue,
            "class higher is new and has child classes",
        )],
    ),
    (
        "name = \"inner\", default = true",
        "name = \"inner\", default = true }, { name = \"another\"",
        &[],
    ),
    ("linkshare = \"20 Mbit/s\"", "linkshare = \"21 Mbit/s\"", &[]),
    ("name = \"shared\"", "name = \"common\"", &[]),
    (
        "kind = \"drr\"",
        "kind = \"wrr\"",
        &[
            (&["inner"], Forgotten::Turns, "class shared, which comes, goes"),
            (&["shared"], Forgotten::Queue, "class shared, which comes, goes"),
        ],
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
fn more_classes_than_places_are_another_tree_in_which_all_go_on() {
    let classes = |count: u16| (0..count).map(|flow| (flow, 4)).collect();
    for (more, adopted) in [(8, Adopted::InPlace), (9, Adopted::Rebuilt { dropped: 0 })] {
        let mut rig = Rig::new(&policy(KINDS[0], &classes(4)), Registry::builtin());
        let (foreseen, told) = rig.told_of(&policy(KINDS[0], &classes(4 + more)));
        assert_eq!((&foreseen[..], &told.begins_anew[..]), (&[][..], &[][..]));
        assert_eq!(told.adopted, adopted);
    }
}

#[test]
fn in_a_tree_with_too_many_classes_all_begin_anew() {
    let text = |kind: &str, classes: usize| {
        let class = |class| {
            format!(
                "[[interface.wan0.class]]\nname = \"c{class}\"\ndefault = {}\n",
                class == 0
            )
        };
        let classes: String = (0..classes).map(class).collect();
        format!("version = 1\n[interface.wan0]\nbandwidth = \"9 Gbit/s\"\ndiscipline = \"{kind}\"\n{classes}")
    };
    for (classes, what) in [(50, Forgotten::Turns), (HEIRS + 1, Forgotten::Class)] {
        let mut rig = Rig::new(&read(&text("drr", classes)), Registry::builtin());
        let (foreseen, told) = rig.told_of(&read(&text("wrr", classes)));
        assert_eq!(foreseen, told.begins_anew);
        assert_eq!((foreseen.len(), foreseen[0].what), (1, what));
        assert_eq!(foreseen[0].classes.len(), classes);
    }
}

#[test]
fn while_what_passes_goes_to_a_tape_the_tree_is_another_one() {
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
    let (foreseen, told) = rig.told_of(&policy(KINDS[1], &classes(5)));
    assert_eq!(foreseen, told.begins_anew);
    assert_eq!(foreseen[0].classes, ["c0", "c1", "c2", "c3", "c4"]);
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
