//! Filters of which several take the same packets, and whose order decides: another order is
//! another class for some flows, and no other class is touched.

use super::*;

/// The classes, and after their own filters one for each of these, in this order, which takes the
/// flows next to its own as well.
fn ordered(kind: (&str, &str), classes: &BTreeMap<u16, u64>, order: &[u16]) -> InterfacePolicy {
    let mut text = text(kind, classes);
    for flow in order {
        let (first, last) = (1_000 + flow.saturating_sub(3), 1_003 + flow);
        let _ = write!(
            text,
            "[[interface.wan0.filter]]\nclass = \"c{flow}\"\nprotocol = \"udp\"\n\
             destination_port = \"{first}-{last}\"\n"
        );
    }
    read(&text)
}

#[test]
fn another_order_of_filters_is_adopted_in_place_and_no_packet_is_lost_or_overtaken() {
    for kind in KINDS {
        let mut rng = Seed(9).fork(kind.1).stream();
        // Each second flow has no class of its own.
        let classes: BTreeMap<u16, u64> = (0..FLOWS).step_by(2).map(|flow| (flow, 4)).collect();
        let mut order: Vec<u16> = classes.keys().copied().collect();
        let mut rig = Rig::new(&ordered(kind, &classes, &order), Registry::builtin());
        for round in 0..60 {
            let burst = rng.below(60);
            rig.send(&mut rng, burst);
            rig.now = rig.now + Duration::from_micros(rng.below(3_000));
            rig.turn();
            for _ in 0..=rng.below(2) {
                let [a, b] = [(); 2].map(|()| rng.below(order.len() as u64) as usize);
                order.swap(a, b);
            }
            let adopted = rig.change(&ordered(kind, &classes, &order), &mut rng, false);
            assert_eq!(adopted, Adopted::InPlace, "{kind:?}, {round}");
            rig.runs_as_asked(&mut rng);
        }
        for _ in 0..20_000 {
            rig.now = rig.now + Duration::from_micros(100);
            rig.turn();
        }
        assert_eq!(rig.arrived, rig.sent, "{kind:?}");
    }
}

#[test]
fn another_order_concerns_the_classes_of_filters_that_meet() {
    let kind = KINDS[0];
    let classes: BTreeMap<u16, u64> = (0..FLOWS).step_by(2).map(|flow| (flow, 4)).collect();
    let named = |policy: &InterfacePolicy, other: &InterfacePolicy| -> Vec<String> {
        let affected = vacancies::affected(policy, other).expect("they can be told");
        let name = |class: ClassId| policy.plan.info(class).expect("a class").name.to_string();
        affected.into_iter().map(name).collect()
    };
    let before = ordered(kind, &classes, &[4, 16, 8, 12]);
    let none: [&str; 0] = [];
    assert_eq!(named(&before, &before), none);
    // Of 16 and 8 none takes a packet of the other's; those that each meets are next to it.
    let after = ordered(kind, &classes, &[4, 8, 16, 12]);
    assert_eq!(
        named(&before, &after),
        ["c4", "c6", "c8", "c10", "c12", "c14", "c16", "c18"]
    );
}
