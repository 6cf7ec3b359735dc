//! Hundreds of classes that come, go and lose packets in one change: by the class, too, and what
//! arrives meanwhile waits for a few of them at a time.

use super::random_changes::Bench;
use super::*;

/// Classes beside those of the flows.
const OTHERS: u64 = 700;

/// Classes of these flows, and of these others, which have ports that no packet has.
fn with_others(
    kind: (&str, &str),
    flows: &BTreeMap<u16, u64>,
    others: impl Iterator<Item = u64>,
) -> InterfacePolicy {
    let mut text = text(kind, flows);
    // So little for each that all fit.
    let setting = kind.1.replace("{}00", "{}").replace("{}", "4");
    for other in others {
        let _ = write!(
            text,
            "[[interface.wan0.class]]\nname = \"x{other}\"\ndiscipline = \"fifo\"\n{setting}\n\
             [[interface.wan0.filter]]\nclass = \"x{other}\"\nprotocol = \"udp\"\ndestination_port = {}\n",
            5_000 + other
        );
    }
    read(&text)
}

/// How many classes of one are not in the other.
fn differ(one: &InterfacePolicy, other: &InterfacePolicy) -> usize {
    let names = |policy: &InterfacePolicy| -> BTreeSet<String> {
        let classes = policy.plan.classes.iter();
        classes.map(|info| info.name.to_string()).collect()
    };
    names(one).symmetric_difference(&names(other)).count()
}

#[test]
fn hundreds_of_classes_come_and_go_at_once_in_place_and_no_packet_is_lost_or_overtaken() {
    // A class of `priq` has one of 256 priorities, so it is never among very many.
    for kind in KINDS.into_iter().filter(|(kind, _)| *kind != "priq") {
        let mut rng = Seed(11).fork(kind.1).stream();
        let mut flows: BTreeMap<u16, u64> = (0..FIRST).map(|flow| (flow, 4)).collect();
        let mut running = with_others(kind, &flows, 0..OTHERS);
        let mut rig = Rig::new(&running, Registry::builtin());
        let mut many = 0;
        for round in 0..8 {
            // No more than the default class has room for.
            let burst = rng.below(60);
            rig.send(&mut rng, burst);
            rig.turn();
            for _ in 0..4 {
                let flow = 1 + rng.below(u64::from(FLOWS) - 1) as u16;
                if flows.remove(&flow).is_none() {
                    flows.insert(flow, 1 + rng.below(8));
                }
            }
            let stay = |other: &u64| round % 2 == 1 || other.is_multiple_of(2);
            let next = with_others(kind, &flows, (0..OTHERS).filter(stay));
            many += usize::from(differ(&running, &next) > FEW);
            let adopted = rig.change(&next, &mut rng, round == 3);
            assert_eq!(adopted, Adopted::InPlace, "{kind:?}, {round}");
            rig.runs_as_asked(&mut rng);
            running = next;
        }
        assert_eq!(many, 8, "{kind:?}");
        for _ in 0..20_000 {
            rig.now = rig.now + Duration::from_micros(100);
            rig.turn();
        }
        assert_eq!(rig.arrived, rig.sent, "{kind:?}");
    }
}

/// Each piece of the change takes 100 µs; a packet every 200 µs, which an idle link sends at once.
#[test]
fn what_arrives_while_hundreds_change_waits_a_millisecond_at_most() {
    let kind = KINDS[0];
    let flows: BTreeMap<u16, u64> = (0..4).map(|flow| (flow, 4)).collect();
    let policies = [2, 1].map(|step| with_others(kind, &flows, (0..OTHERS).step_by(step)));
    let [fewer, more] = &policies;
    assert!(differ(fewer, more) > FEW);
    let begin = Instant::START + Duration::from_secs(1);
    let sent = super::random_changes::steady(begin, 200, Duration::from_micros(200));
    let mut bench = Bench::new(more, begin);
    let mut coming = &sent[..];
    // Those of `more` go, and come again.
    for policy in [fewer, more] {
        let pieces = bench.change(policy, &mut coming, Duration::from_micros(100));
        assert!(pieces > 80, "{pieces} pieces");
    }
    bench.run_with(&mut coming, begin + Duration::from_secs(1));
    let delays = bench.delays(&sent);
    let longest = delays.iter().max().expect("packets");
    assert!(*longest <= 1_000_000, "{longest} ns");
}
