//! On any impaired path the receiver gets every byte once and in order, and the connection ends.

use super::*;
use crate::link::LinkQueue;
use engine::units::Probability;
use measure::impairments::{ChosenPackets, ImpairmentSchedule, Impairments, Jitter, PacketOrder, Reordering};
use proptest::prelude::*;

fn share() -> impl Strategy<Value = Loss> {
    (0u64..25).prop_map(|n| Loss::Random(Probability::ratio(n, 100)))
}

/// What befalls packets besides loss: each of it in every fourth case.
fn any_impairments() -> impl Strategy<Value = Impairments> {
    let some = || proptest::option::weighted(0.25, share());
    let later = proptest::option::weighted(0.25, (share(), 0u64..200));
    let jitter = proptest::option::weighted(0.25, (0u64..50, any::<bool>()));
    (some(), some(), later, jitter).prop_map(|(corruption, duplication, later, jitter)| Impairments {
        corruption: ChosenPackets(corruption.unwrap_or_default()),
        duplication: ChosenPackets(duplication.unwrap_or_default()),
        reordering: later.map_or_else(Reordering::default, |(which, by)| Reordering {
            which,
            by: ms(by),
        }),
        jitter: jitter.map_or_else(Jitter::default, |(most, ordered)| Jitter {
            order: if ordered {
                PacketOrder::Kept
            } else {
                PacketOrder::Free
            },
            ..ms(most).into()
        }),
        ..Impairments::default()
    })
}

fn any_settings() -> impl Strategy<Value = Settings> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let sizes = (1u64..400_000, 1u32..50, 1_000u64..200_000, 500u64..9_000);
    let reads = proptest::option::weighted(0.3, 1u64..50);
    let losses = (any::<bool>(), any::<bool>(), any::<bool>());
    let recoveries = prop_oneof![
        Just(Recovery::Sack),
        Just(Recovery::NewReno),
        Just(Recovery::Linux24),
        Just(Recovery::Linux24Sack)
    ];
    let rule = |linux| if linux { RtoRule::Linux } else { RtoRule::Rfc6298 };
    (0..CONTROLS.len(), flags, sizes, reads, losses, recoveries).prop_map(
        move |(control, flags, sizes, reads, losses, recovery)| Settings {
            control: CONTROLS[control],
            ecn: flags.0,
            delayed_ack: flags.1,
            byte_counting: flags.2,
            pacing: flags.3,
            hystart: flags.0 != flags.1,
            recovery,
            rack: losses.0,
            tlp: losses.1,
            rto: rule(losses.2),
            total: Some(Bytes::new(sizes.0)),
            initial_window: sizes.1,
            receive_window: Bytes::new(sizes.2),
            mtu: Bytes::new(sizes.3),
            read_rate: reads.map(Bandwidth::mbit),
            ..Settings::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_byte_is_delivered_once_in_order_and_the_connection_ends(
        settings in any_settings(),
        loss in prop_oneof![
            Just(Loss::None),
            (2u64..60).prop_map(Loss::Every),
            (0u64..25).prop_map(|n| Loss::Random(Probability::ratio(n, 100))),
        ],
        back in share(),
        impairments in [any_impairments(), any_impairments()],
        buffer in 9_100u64..200_000,
        mbit in 1u64..200,
        delay in 0u64..80,
        seed: u64,
    ) {
        let mut simulation = Simulation::new(Seed(seed));
        let [a, b] = ["a", "b"].map(|name| simulation.node(name));
        let link = LinkSpec::new(Bandwidth::mbit(mbit), ms(delay)).queue(LinkQueue::TailDrop(Bytes::new(buffer)));
        let [there, other] = impairments;
        let nothing_changes = ImpairmentSchedule::default;
        simulation.link(a, b, link.clone().impaired(there, nothing_changes()).loss(loss));
        simulation.link(b, a, link.impaired(other, nothing_changes()).loss(back));
        let flow = simulation.flow([a, b], FlowKey::default(), Instant::START, pair(&settings)).expect("links");
        // Timeouts back off to two minutes each, so a bad path needs hours.
        simulation.run_until(at(Duration::from_secs(80_000)));
        let (sender, receiver) = (sender(&simulation, flow), receiver(&simulation, flow));
        let total = settings.total.map_or(0, Bytes::get);
        prop_assert_eq!(simulation.delivered(flow, End::Responder).bytes.get(), total);
        prop_assert_eq!(receiver.rcv_nxt(), total + 1);
        prop_assert!(sender.finished.is_some(), "{:?}", sender);
        prop_assert_eq!(sender.acknowledged(), total + 1);
        prop_assert_eq!(sender.pipe(), 0);
        prop_assert_eq!(simulation.in_flight(), 0);
        let events = simulation.events();
        prop_assert!(events < 200 * (10 + total / settings.mss().get()) + 20_000, "{events} events");
    }
}
