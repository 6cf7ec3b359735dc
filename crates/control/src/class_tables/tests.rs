//! What differs between random texts, and which texts can be told apart by their tables.

use super::*;
use engine::random::{Rng, Seed};

/// Tables that follow one another in random texts; some are alike.
const PARTS: [&str; 7] = [
    "[[interface.a.class]]\nname = \"x\"\n",
    "[[interface.a.class]]\nname = \"ä\" # [[interface.a.class]]\n",
    "[[interface.a.filter]]\nclass = \"x\"\n\n",
    "[[interface.a.filter]]\nclass = \"x\"\ndscp = 8\n",
    "[[interface.b.class]]\nname = \"x\"\r\n",
    "[[interface.b.expect]]\nat_most = 1\n[rsvp]\n",
    "[[interface.a.class]]\nname = \"xx\"\n",
];

fn any(rng: &mut Rng) -> &'static str {
    PARTS[rng.below(PARTS.len() as u64) as usize]
}

/// The new text, made of the old one by what differs.
fn replaced(old: &str, new: &str, places: &[Difference]) -> String {
    let (mut made, mut at) = (String::new(), 0);
    for place in places {
        made += &old[at..place.old.start];
        assert!(old[..place.old.start].ends_with('\n') && new[..place.new.start].ends_with('\n'));
        made += &new[place.new.clone()];
        at = place.old.end;
    }
    made + &old[at..]
}

#[test]
fn what_differs_makes_the_new_text_of_the_old_one_and_is_little() {
    let mut rng = Seed(7).stream();
    let (mut told, mut not) = (0, 0);
    for _ in 0..3_000 {
        let many = 1 + rng.below(200);
        let parts: Vec<&str> = (0..many).map(|_| any(&mut rng)).collect();
        let mut edited = parts.clone();
        for _ in 0..rng.below(4) {
            let at = rng.below(edited.len() as u64) as usize;
            match rng.below(4) {
                0 => drop(edited.remove(at)),
                1 => edited[at] = any(&mut rng),
                2 => edited.insert(at, any(&mut rng)),
                _ => edited.swap(at, 0),
            }
            if edited.is_empty() {
                edited.push(any(&mut rng));
            }
        }
        let text = |parts: &[&str]| format!("version = 1\n[interface.a]\n{}", parts.concat());
        let (old, new) = (text(&parts), text(&edited));
        let Some(places) = differences(&old, &new) else {
            not += 1;
            continue;
        };
        told += 1;
        assert_eq!(replaced(&old, &new, &places), new);
        let read: usize = places.iter().map(|place| place.new.len()).sum();
        assert!(read < 3_000, "{read} bytes of {}", new.len());
        let mut before = places.iter().map(|place| place.before);
        assert!(before.all(|at| at == 0 || new[at..].starts_with(BEGIN)));
    }
    assert!(told > 1_500 && not < 500, "{told} told, {not} not");
}

#[test]
fn a_text_is_in_tables_if_its_lines_tell_its_headers() {
    let head = "version = 1 # [\n[interface.wan-0_1]\nlist = [\n  1,\n]\n";
    for part in PARTS {
        assert!(is_in_tables(&format!("{head}{part}")), "{part}");
    }
    for other in [
        "name = \"\"\"x\"\"\"\n",
        "name = '''\nx'''\n",
        "  [rsvp]\n",
        "[ rsvp ]\n",
        "[interface.\"a\"]\n",
        "[[interface.a.class]] x\n",
        "[interface.a.class.discipline]\n",
        "[[interface.a.filter.more]]\n",
        "[rsvp\n",
        "[[1, 2],\n",
    ] {
        assert!(!is_in_tables(&format!("{head}{other}")), "{other}");
    }
    assert!(
        is_in_tables("[interface.a.discipline.class]\n"),
        "that is none of the tables"
    );
}

#[test]
fn a_part_of_a_text_is_of_one_interface_or_is_not_told() {
    let of = |parts: &[&str]| interface_of(&parts.concat()).map(str::to_owned);
    assert_eq!(of(&[PARTS[0], PARTS[2], PARTS[1]]).as_deref(), Some("a"));
    assert_eq!(of(&[PARTS[4]]).as_deref(), Some("b"));
    for other in [
        &[PARTS[0], PARTS[4]][..],
        &[PARTS[5]],
        &[PARTS[0], "[interface.a]\n"],
        &[PARTS[0], "  [[interface.a.class]]\n"],
        &[PARTS[0], "name = '''x'''\n"],
        &["\n", PARTS[0]],
        &[],
    ] {
        assert_eq!(of(other), None, "{other:?}");
    }
}
