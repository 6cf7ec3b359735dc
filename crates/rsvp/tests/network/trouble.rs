//! Requests that do not fit are refused with the numbers and harm no others; loss and arbitrary
//! messages leave no orphans.

use crate::arbitrary::single;
use crate::rig::{A, Arrival, B, Network, R1, R2, SECOND, bucket, node, receiver, sender, session};
use engine::random::Seed;
use engine::units::{Bandwidth, Duration, Instant, Probability};
use proptest::prelude::*;
use rsvp::node::Event;
use rsvp::wire::{Descriptors, code, value};

/// A network where only the second link is short of capacity.
fn narrow() -> Network {
    let mut network = Network::new(Bandwidth::mbit(1000), 3);
    network.put(R1, Bandwidth::mbit(100));
    network
}

#[test]
fn a_third_reservation_that_does_not_fit_is_refused_without_effect_on_the_first_two() {
    let mut network = narrow();
    network.reserve(1, Bandwidth::mbit(40));
    network.reserve(2, Bandwidth::mbit(40));
    network.events_at(B);
    network.reserve(3, Bandwidth::mbit(40));
    let at_b = network.events_at(B);
    let [
        Event::Path { .. },
        Event::ReservationFailed {
            failed: Descriptors::Fixed(refused),
            error,
            ..
        },
    ] = at_b.as_slice()
    else {
        panic!("{at_b:?}");
    };
    assert_eq!(
        (refused[0].1, error.code, error.value),
        (sender(3), code::ADMISSION, value::BANDWIDTH)
    );
    assert!(!error.in_place && !error.not_guilty);
    let at_r1 = network.events_at(R1);
    let [
        Event::AdmissionFailed {
            interface: 1,
            failure,
            ..
        },
    ] = at_r1.as_slice()
    else {
        panic!("{at_r1:?}");
    };
    assert_eq!(
        (failure.requested, failure.available),
        (Bandwidth::mbit(40), Bandwidth::mbit(20))
    );
    network.run(SECOND.times(30));
    assert_eq!(network.rates(R1), [40_000_000, 40_000_000]);
    assert_eq!(network.rates(A), [40_000_000, 40_000_000]);
}

#[test]
fn rfc_2205_3_5_a_larger_request_that_fails_leaves_the_old_reservation_in_place() {
    let mut network = narrow();
    network.reserve(1, Bandwidth::mbit(40));
    network.events_at(B);
    network.request(1, Bandwidth::mbit(140));
    network.run(Duration::from_millis(20));
    let at_b = network.events_at(B);
    let [Event::ReservationFailed { error, .. }] = at_b.as_slice() else {
        panic!("{at_b:?}");
    };
    assert!(error.in_place);
    network.run(SECOND.times(30));
    assert_eq!(network.rates(R1), [40_000_000]);
    assert_eq!(network.rates(A), [40_000_000]);
    network.request(1, Bandwidth::mbit(60));
    network.run(Duration::from_millis(20));
    assert_eq!(
        (network.rates(R1), network.rates(R2)),
        (vec![60_000_000], vec![60_000_000])
    );
}

#[test]
fn the_same_seed_gives_the_same_course() {
    let run = |seed| {
        let mut network = Network::new(Bandwidth::mbit(100), seed);
        network.loss = Probability::ratio(3, 10);
        let now = network.now;
        network.nodes[A]
            .add_sender(now, session(), sender(1), bucket(Bandwidth::mbit(1)))
            .expect("A may send");
        network.run(SECOND.times(60));
        (network.sent, network.events)
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7).0, run(8).0);
}

#[test]
fn under_loss_and_restarts_no_promise_outlives_its_path() {
    for seed in 0..300 {
        let mut network = Network::new(Bandwidth::mbit(100), seed);
        network.loss = Probability::ratio(3, 10);
        let now = network.now;
        network.nodes[A]
            .add_sender(now, session(), sender(1), bucket(Bandwidth::mbit(1)))
            .expect("A may send");
        network.run(SECOND.times(10));
        if network.nodes[B].senders() > 0 {
            network.request(1, Bandwidth::mbit(1));
        }
        network.run(SECOND.times(10));
        network.restart(if seed % 2 == 0 { R1 } else { R2 });
        network.run(SECOND.times(5));
        let now = network.now;
        network.nodes[A].remove_sender(now, &session(), sender(1));
        // Every hop may have to time out by itself, one after the other.
        network.run(SECOND.times(20));
        assert_eq!(
            (network.reservations(), network.senders()),
            (vec![0; 4], vec![0; 4]),
            "seed {seed}"
        );
    }
}

/// What the first router receives while reservations are made, changed and torn down.
fn received() -> Vec<Arrival> {
    let mut network = Network::new(Bandwidth::mbit(100), 5);
    network.log = Some(Vec::new());
    network.reserve(1, Bandwidth::mbit(40));
    network.reserve(2, Bandwidth::mbit(80));
    network.request(1, Bandwidth::mbit(90));
    network.run(SECOND.times(2));
    let now = network.now;
    network.nodes[B].release(now, receiver(1), &session());
    network.run(SECOND);
    let now = network.now;
    network.nodes[A].remove_sender(now, &session(), sender(1));
    network.run(SECOND);
    network
        .log
        .into_iter()
        .flatten()
        .filter(|(to, ..)| *to == R1)
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn real_messages_repeated_out_of_order_and_altered_leave_no_orphan(
        picks in prop::collection::vec(
            (any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<Option<u8>>(), 0..2_000u64),
            1..60,
        ),
    ) {
        let messages = received();
        let mut router = node(R1, Bandwidth::mbit(100), Seed(1));
        let mut now = Instant::START;
        for (which, place, change, later) in picks {
            let (_, interface, ttl, mut bytes) = which.get(&messages).clone();
            if let Some(byte) = change {
                let place = place.index(bytes.len());
                bytes[place] = byte;
                // No checksum, so that the altered message is accepted.
                bytes[2..4].fill(0);
            }
            now = now + Duration::from_millis(later);
            let (before, held) = (router.senders(), router.reservations());
            router.handle_timeout(now);
            let _ = router.handle_packet(now, interface, ttl, &bytes);
            let books = router.traffic_control();
            prop_assert!(books.reserved.len() <= router.senders());
            prop_assert_eq!(books.reserved.len(), books.filters.len());
            let mut answers = 0;
            while router.poll_transmit().is_some() {
                answers += 1;
            }
            // A Path and a Resv, or their tears, for each sender that is due, and for the message;
            // and for each reservation that ends meanwhile a Resv of what is left, or a tear.
            prop_assert!(
                answers <= 2 * (before + 1) + held,
                "{answers} messages with {before} senders and {held} reservations"
            );
        }
        router.handle_timeout(now + SECOND.times(1 << 25));
        prop_assert_eq!(router.senders(), 0);
        prop_assert!(router.traffic_control().reserved.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn after_any_messages_a_node_times_out_all_state(
        frames in prop::collection::vec((single(), 0..3u32, any::<u8>(), 0..10_000u64), 1..20),
    ) {
        let mut router = node(R1, Bandwidth::mbit(100), Seed(1));
        let mut now = Instant::START;
        for (frame, interface, ttl, later) in frames {
            now = now + Duration::from_millis(later);
            router.handle_timeout(now);
            let bytes = frame.encode().expect("it fits");
            let _ = router.handle_packet(now, interface, ttl, &bytes);
            while router.poll_transmit().is_some() {}
        }
        prop_assert!(router.senders() <= 100);
        // Longer than any lifetime that a message can set.
        router.handle_timeout(now + SECOND.times(1 << 25));
        prop_assert_eq!(router.senders(), 0);
        prop_assert!(router.traffic_control().reserved.is_empty());
    }
}
