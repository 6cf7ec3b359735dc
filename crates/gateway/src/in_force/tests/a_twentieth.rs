//! A 20th of very many classes come, as many go, and as many get another setting, in one change: by
//! the class, with work for these alone.

use super::*;

/// Kinds, and a setting of a class with two values of which all classes have room.
const KINDS: [(&str, [&str; 2]); 4] = [
    ("drr", ["weight = 1", "weight = 2"]),
    ("wrr", ["weight = 1", "weight = 2"]),
    ("hfsc", ["linkshare = \"20 kbit/s\"", "linkshare = \"30 kbit/s\""]),
    ("cbq", ["rate = \"20 kbit/s\"", "rate = \"30 kbit/s\""]),
];

/// Classes with these numbers; the first is the default.
fn classes(
    (kind, values): (&str, [&str; 2]),
    numbers: impl Iterator<Item = usize>,
    other: impl Fn(usize) -> bool,
) -> InterfacePolicy {
    let mut text =
        format!("version = 1\n[interface.wan0]\nbandwidth = \"200 Mbit/s\"\ndiscipline = \"{kind}\"\n");
    for number in numbers {
        let _ = write!(
            text,
            "[[interface.wan0.class]]\nname = \"c{number}\"\ndefault = {}\n{}\n\
             [[interface.wan0.filter]]\nclass = \"c{number}\"\ndestination = \"10.0.{}.{}\"\n",
            number == 0,
            values[usize::from(other(number))],
            number / 256,
            number % 256,
        );
    }
    read(&text)
}

#[test]
fn as_many_are_touched_as_change() {
    for kind in KINDS {
        for many in [200, 2_000] {
            let base = classes(kind, 0..many, |_| false);
            let stay = (0..many).filter(|class| class % 20 != 7);
            let next = classes(kind, stay.chain(many..many + many / 20), |class| class % 20 == 3);
            let mut rig = Rig::new(&base, Registry::builtin());
            let running = rig.in_force.all().remove(0).whole;
            let (_, changes) = rig.in_force.fitted(&running, next.clone());
            let changes = changes.unwrap_or_else(|why| panic!("{kind:?}: {why}"));
            let twentieth = many / 20;
            // Those that go, and the default class, whose packets those that come may have had.
            assert_eq!(
                (changes.come.len(), changes.cut.len(), changes.changed.len()),
                (twentieth, twentieth + 1, twentieth),
                "{kind:?} {many}"
            );
            let (foreseen, told) = rig.told_of(&next);
            assert_eq!(
                (foreseen, told.begins_anew),
                (Vec::new(), Vec::new()),
                "{kind:?} {many}"
            );
            assert_eq!(told.adopted, Adopted::InPlace);
            let (foreseen, told) = rig.told_of(&base);
            assert_eq!(
                (foreseen, told.begins_anew),
                (Vec::new(), Vec::new()),
                "{kind:?} {many}"
            );
        }
    }
}

/// Half of all classes are others from one change to the next: they take the places of those that
/// go where there are no vacant ones.
#[test]
fn more_may_come_than_there_are_places_where_as_many_go() {
    for kind in KINDS {
        let halves = [0, 1].map(|rest| {
            let others = (1..400).filter(move |class| class % 2 == rest);
            classes(kind, [0].into_iter().chain(others), |_| false)
        });
        let mut rig = Rig::new(&halves[0], Registry::builtin());
        for policy in halves.iter().cycle().skip(1).take(4) {
            let (foreseen, told) = rig.told_of(policy);
            assert_eq!((foreseen, told.begins_anew), (Vec::new(), Vec::new()), "{kind:?}");
            assert_eq!(told.adopted, Adopted::InPlace, "{kind:?}");
        }
    }
}
