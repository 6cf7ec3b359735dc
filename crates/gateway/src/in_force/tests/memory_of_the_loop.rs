//! What a change of very many classes touches of memory in the packet loop: counted in page faults
//! of its thread, as it is flat only if nothing is made, copied or dropped there by the class; and
//! in bytes that a turn takes and gives back, as a long list that grows or is freed there makes the
//! allocator tidy up, or give its pages back to the system.

use super::*;

/// Page faults of this thread so far that needed no disk.
fn faults() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("/proc");
    // The name of the thread, in parentheses, may have spaces.
    let (_, rest) = stat.rsplit_once(')').expect("a name");
    let field = rest.split_whitespace().nth(7).expect("minflt");
    field.parse().expect("a number")
}

/// What a change beside the packet loop made its thread touch.
fn touched(rig: &mut Rig, policy: impl Fn() -> InterfacePolicy + Sync) -> u64 {
    let mut rng = Seed(5).stream();
    let before = faults();
    let _ = rig.make(&mut rng, false, |in_force| {
        let policy = policy();
        Ok(in_force.put(policy.clone(), policy)?.adopted)
    });
    faults() - before
}

/// Less than a page for each of a hundred classes; what the test itself takes is some.
const FEW_PAGES: u64 = 64;

#[test]
fn a_change_among_20_000_classes_makes_the_loop_touch_no_more_memory_than_one_among_20() {
    // So much is always mapped anew, in pages of whatever size.
    let before = faults();
    let fresh = vec![1u8; 64 << 20];
    assert!(faults() > before, "{} bytes are touched", fresh.len());
    drop(fresh);
    let [drr, hfsc] = [KINDS[0], KINDS[2]];
    for classes in [20, 20_000] {
        let registry = Registry::builtin().with(&COUNTED);
        let mut rig = Rig::new(&counted(drr, classes, None), registry);
        // Code and stacks are touched first.
        touched(&mut rig, || counted(drr, classes, Some(1)));
        touched(&mut rig, || counted(hfsc, classes, None));
        touched(&mut rig, || counted(drr, classes, None));
        let other_class = touched(&mut rig, || counted(drr, classes, Some(classes / 2)));
        let one_more = touched(&mut rig, || counted(drr, classes + 1, Some(classes / 2)));
        let other_kind = touched(&mut rig, || counted(hfsc, classes + 1, None));
        let all = [other_class, one_more, other_kind];
        assert!(all.iter().all(|&pages| pages < FEW_PAGES), "{classes}: {all:?}");
    }
}

/// Classes, of which a 20th goes, and as many come.
const MANY: usize = 6_000;

/// What a turn of the packet loop gives back at most: less than any list of 300 classes.
const GIVEN_BACK: i64 = 8 << 10;
/// What it takes at most.
const TAKEN: u64 = 4 << 10;

#[test]
fn no_turn_takes_or_gives_back_the_lists_of_a_change() {
    let kinds = [
        ("drr", "weight = 1"),
        ("hfsc", "linkshare = \"5 kbit/s\""),
        ("cbq", "rate = \"5 kbit/s\""),
    ];
    for (kind, setting) in kinds {
        let text = |numbers: &mut dyn Iterator<Item = usize>| {
            let class = |number: usize| {
                format!(
                    "[[interface.wan0.class]]\nname = \"c{number}\"\ndefault = {}\n{setting}\n\
                     [[interface.wan0.filter]]\nclass = \"c{number}\"\ndestination = \"10.0.{}.{}\"\n",
                    number == 0,
                    number / 256,
                    number % 256
                )
            };
            let classes: String = numbers.map(class).collect();
            read(&format!(
                "version = 1\n[interface.wan0]\nbandwidth = \"200 Mbit/s\"\ndiscipline = \"{kind}\"\n{classes}"
            ))
        };
        let base = text(&mut (0..MANY));
        let next = text(
            &mut (0..MANY)
                .filter(|class| class % 20 != 7)
                .chain(MANY..MANY + MANY / 20),
        );
        let mut rig = Rig::new(&base, Registry::builtin());
        for policy in [&next, &base, &next] {
            let in_force = &rig.in_force;
            let (worker, now) = (&mut rig.worker, &mut rig.now);
            let (mut least, mut most) = (0, 0);
            std::thread::scope(|scope| {
                let asked = scope.spawn(|| in_force.put(policy.clone(), policy.clone()));
                while !asked.is_finished() {
                    *now = *now + Duration::from_micros(50);
                    let turn = allocation_counter::measure(|| _ = worker.turn_at(*now));
                    least = least.min(turn.bytes_current);
                    most = most.max(turn.bytes_max);
                }
                let adopted = asked.join().expect("no panic").expect("a change").adopted;
                assert_eq!(adopted, Adopted::InPlace, "{kind}");
            });
            assert!(-least < GIVEN_BACK, "{kind}: {} bytes in one turn", -least);
            assert!(most < TAKEN, "{kind}: {most} bytes in one turn");
        }
    }
}
