//! The interface's bandwidth and the discipline's own settings change while packets flow, with and
//! without other changes: what runs is what was asked, in place, with nothing lost or overtaken.

use super::*;

/// Kinds with a setting of a class, and other values of their own settings.
const OWN: [(&str, &str, &[&str]); 5] = [
    ("drr", "weight = {}", &[""]),
    (
        "wrr",
        "weight = {}",
        &[
            "",
            ", mode = \"poll\", interval = \"1 ms\"",
            ", mode = \"poll\", interval = \"500 us\"",
        ],
    ),
    (
        "hfsc",
        "linkshare = \"{}00 kbit/s\"",
        &["", ", limit_burst = \"2 ms\""],
    ),
    (
        "cbq",
        "rate = \"{}00 kbit/s\"",
        &[
            "",
            ", round_robin = \"packet\"",
            ", sharing = \"top-level\"",
            ", sharing = \"ancestors-only\"",
            ", sharing = \"top-level\", root_rate = \"90 %\"",
            ", link = \"shaped\"",
        ],
    ),
    ("priq", "priority = {unique}", &[""]),
];
const BANDWIDTHS: [&str; 3] = ["200 Mbit/s", "100 Mbit/s", "400 Mbit/s"];

/// The policy of these classes with another bandwidth and own settings.
fn with_own(
    (kind, class, own): (&str, &str, &str),
    bandwidth: &str,
    classes: &BTreeMap<u16, u64>,
) -> InterfacePolicy {
    let discipline = format!("discipline = {{ kind = \"{kind}\"{own} }}");
    let text = text((kind, class), classes)
        .replace("200 Mbit/s", bandwidth)
        .replace(&format!("discipline = \"{kind}\""), &discipline);
    read(&text)
}

#[test]
fn bandwidth_and_own_settings_change_while_packets_flow() {
    for (kind, class, values) in OWN {
        // How many packets flow meanwhile is the host's choice, what changes is not.
        let [mut rng, mut chosen] = ["packets", "changes"].map(|what| Seed(9).fork(kind).fork(what).stream());
        let mut classes: BTreeMap<u16, u64> = (0..FIRST).map(|flow| (flow, 4)).collect();
        let mut rig = Rig::new(&policy((kind, class), &classes), Registry::builtin());
        let mut of_bandwidth_in_place = 0;
        let mut now = (values[0], BANDWIDTHS[0]);
        for _ in 0..60 {
            let burst = rng.below(60);
            rig.send(&mut rng, burst);
            rig.now = rig.now + Duration::from_micros(rng.below(3_000));
            rig.turn();
            let wanted = (
                values[chosen.below(values.len() as u64) as usize],
                BANDWIDTHS[chosen.below(3) as usize],
            );
            if chosen.below(2) == 0 {
                let flow = 1 + chosen.below(u64::from(FIRST) - 1) as u16;
                classes.insert(flow, 1 + chosen.below(8));
            }
            let asked = with_own((kind, class, wanted.0), wanted.1, &classes);
            let adopted = rig.change(&asked, &mut rng, false);
            if wanted.0 == now.0 && wanted.1 != now.1 {
                assert_eq!(adopted, Adopted::InPlace, "{kind}, {wanted:?}");
                of_bandwidth_in_place += 1;
            }
            now = wanted;
            let whole = Arc::clone(&rig.in_force.lock()[0].whole);
            assert!(
                whole.spec.settings == asked.spec.settings,
                "{kind}: {wanted:?} was asked"
            );
            assert_eq!(whole.link().bandwidth, asked.link().bandwidth);
            rig.runs_as_asked(&mut rng);
        }
        for _ in 0..40_000 {
            rig.now = rig.now + Duration::from_micros(100);
            rig.turn();
        }
        assert_eq!(rig.arrived, rig.sent, "{kind}");
        assert!(
            of_bandwidth_in_place > 5,
            "{kind}: {of_bandwidth_in_place} of bandwidth alone"
        );
    }
}
