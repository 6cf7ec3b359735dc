//! Requests are admitted or refused with numbers, and every layout is sound.

use super::*;
use crate::traffic_control::PoliceFlags;
use crate::wire::TokenBucket;
use engine::link::Link;
use engine::reserved::ReserveSettings;
use engine::settings::{Raw, Span, Table};
use engine::tree::{ClassSpec, DisciplineSpec, Registry};
use proptest::prelude::*;

/// What Ethernet adds to a datagram: header, FCS, preamble and inter-frame gap.
const HEADERS: u64 = 38;

fn budget(kind: &str, settings: Table) -> InterfaceBudget {
    let link = Link::new(Bandwidth::mbit(100), Bytes::new(1500 + HEADERS));
    let rate = match kind {
        "cbq" => Table::default().text("rate", "1 Mbit/s"),
        "hfsc" => Table::default().text("linkshare", "1 Mbit/s"),
        _ => Table::default(),
    };
    let rest = ClassSpec {
        name: "rest".into(),
        default: true,
        settings: rate,
        ..ClassSpec::default()
    };
    let mut spec = DisciplineSpec {
        classes: vec![rest].into(),
        ..DisciplineSpec::new(kind)
    };
    if kind == "wrr" {
        spec.settings = spec.settings.with("cycle", Raw::Integer(10));
    }
    let settings = ReserveSettings::read(&settings, &[], &mut Vec::new()).expect("sound");
    let room = Reservable::new(&Registry::builtin(), &spec, link, &settings, Span::default()).expect("room");
    InterfaceBudget::Managed(Box::new(ManagedInterface {
        delay: settings.delay.or_else(|| room.worst_delay()),
        plan: spec.check(&Registry::builtin(), link).expect("sound"),
        filters: Vec::new(),
        framing: Framing::add(24),
        mtu: 1500,
        room,
    }))
}

fn state(kind: &str, settings: Table) -> AdmissionState {
    let mut state = AdmissionState::new();
    state.set_budget(0, budget(kind, settings));
    state
}

fn bucket(rate: Bandwidth, minimum: u32) -> TokenBucket {
    TokenBucket {
        rate: Real::nearest(rate.bits() / 8),
        bucket: Real::nearest(3000),
        peak: Real::INFINITE,
        minimum,
        maximum: 1500,
    }
}

fn request(flowspec: Flowspec) -> TcRequest {
    TcRequest {
        flowspec,
        tspec: *flowspec.bucket(),
        police: PoliceFlags::default(),
        before: ErrorTerms::default(),
    }
}

fn load(mbit: u64) -> TcRequest {
    request(Flowspec::ControlledLoad(bucket(Bandwidth::mbit(mbit), 1500)))
}

fn guaranteed(mbit: u64) -> TcRequest {
    let bucket = bucket(Bandwidth::mbit(mbit), 1500);
    request(Flowspec::Guaranteed {
        bucket,
        rate: bucket.rate,
        slack: 0,
    })
}

fn handle(answer: Result<Granted, AdmissionFailure>) -> RHandle {
    answer.expect("there is room").rhandle
}

#[test]
fn the_link_rate_counts_and_a_refusal_shows_what_is_available() {
    let mut state = state("drr", Table::default().text("share", "50 %"));
    handle(state.add_flowspec(0, &load(40)));
    let used = Bandwidth::bits_per_sec(40_000_000 / 1500 * 1538 + 1);
    let usage = state.usage(0).expect("managed");
    let (counted, whole) = (usage.reserved, usage.reservable);
    assert!(
        counted.bits().abs_diff(40_000_000 * 1538 / 1500) < 16,
        "{counted} {used}"
    );
    assert_eq!(whole, Bandwidth::mbit(50));
    let small = request(Flowspec::ControlledLoad(bucket(Bandwidth::mbit(5), 38)));
    let refused = state
        .add_flowspec(0, &small)
        .expect_err("packets of 38 bytes need twice their rate");
    assert_eq!(
        (refused.error.code, refused.error.value),
        (code::ADMISSION, value::BANDWIDTH)
    );
    assert_eq!(
        (refused.requested, refused.available),
        (Bandwidth::mbit(10), whole - counted)
    );
    assert_eq!(state.reservations().count(), 1);
    assert!(state.add_flowspec(0, &load(5)).is_ok(), "full packets fit");
}

#[test]
fn a_failed_change_leaves_the_old_reservation_and_less_is_never_refused() {
    for kind in ["wrr", "drr", "cbq", "hfsc", "ips", "pacer"] {
        let mut state = state(kind, Table::default());
        let first = handle(state.add_flowspec(0, &load(35)));
        handle(state.add_flowspec(0, &load(25)));
        state.take_changed();
        let before = state.reservation(first).cloned();
        assert!(state.modify_flowspec(first, &load(60)).is_err(), "{kind}");
        assert_eq!(state.reservation(first).cloned(), before, "{kind}");
        assert!(state.take_changed().is_empty(), "{kind}: nothing has changed");
        // The budget has shrunk below what is reserved.
        state.set_budget(0, budget(kind, Table::default().text("share", "20 %")));
        assert_eq!(state.modify_flowspec(first, &load(30)), Ok(None), "{kind}");
        assert!(state.modify_flowspec(first, &load(50)).is_err(), "{kind}");
    }
}

#[test]
fn another_policy_is_tried_against_what_reservations_were_promised_and_changes_nothing() {
    let mut state = state("drr", Table::default().text("share", "60 %"));
    let first = handle(state.add_flowspec(0, &guaranteed(20)));
    handle(state.add_flowspec(0, &load(30)));
    state.take_changed();
    let tried = |settings| state.tried(0, &budget("drr", settings)).expect("managed");
    let same = tried(Table::default().text("share", "60 %"));
    assert!(same.layout.is_ok() && same.over.is_none(), "{same:?}");
    assert_eq!(same.broken, []);
    // Less room than is taken.
    let small = tried(Table::default().text("share", "30 %"));
    let (taken, capacity) = small.over.expect("too much");
    assert!(taken > capacity, "{taken} of {capacity}");
    // `wrr` guarantees no delay; what was promised without one stays whole.
    let tried = state
        .tried(0, &budget("wrr", Table::default().text("share", "60 %")))
        .expect("managed");
    assert_eq!(tried.broken.len(), 1, "{tried:?}");
    let (
        rhandle,
        BrokenPromise::Delay {
            promised,
            bound: None,
        },
    ) = tried.broken[0]
    else {
        panic!("{tried:?}")
    };
    assert_eq!(rhandle, first);
    assert!(promised > Duration::ZERO);
    assert!(state.take_changed().is_empty());
}

#[test]
fn a_repeated_call_has_no_effect_and_a_deleted_reservation_leaves_nothing() {
    let mut state = state("drr", Table::default());
    let one = handle(state.add_flowspec(0, &load(10)));
    let (session, sender) = flow(5000, 0);
    for _ in 0..2 {
        state.add_filter(one, &session, &sender);
        assert_eq!(state.modify_flowspec(one, &load(10)), Ok(None));
    }
    assert_eq!(state.take_changed().into_iter().collect::<Vec<_>>(), [0]);
    let layout = state.lay_out(0).expect("managed").expect("it fits");
    assert_eq!(layout.plan.class("resv-1").map(|class| class.0), Some(1));
    assert_eq!(layout.filters.len(), 2, "the flow's and the signalling's");
    state.delete_filter(one, &session, &sender);
    state.delete_flowspec(one);
    state.delete_flowspec(one);
    assert_eq!(state.usage(0).map(|usage| usage.reserved), Some(Bandwidth::ZERO));
    assert!(
        state
            .lay_out(0)
            .expect("managed")
            .expect("sound")
            .plan
            .class("resv-1")
            .is_none()
    );
}

fn flow(port: u16, from: u16) -> (Session, SenderTemplate) {
    let session = Session {
        destination: "10.0.3.2".parse().expect("an address"),
        protocol: 17,
        port,
        police: true,
    };
    let sender = SenderTemplate::Port {
        address: "10.0.1.1".parse().expect("an address"),
        port: from,
    };
    (session, sender)
}

#[test]
fn a_port_of_zero_and_a_flow_label_are_filters_too() {
    let (session, sender) = flow(5000, 0);
    let any = filter(&session, &sender).expect("a filter");
    assert_eq!(
        (any.source_port, any.destination_port),
        (None, Some(Ports::one(5000)))
    );
    let (session, sender) = flow(0, 0);
    assert_eq!(
        filter(&session, &sender).expect("a filter").destination_port,
        None
    );
    let address = core::net::Ipv6Addr::LOCALHOST;
    let session = Session {
        destination: address.into(),
        ..session
    };
    let label = filter(&session, &SenderTemplate::FlowLabel { address, label: 77 }).expect("a filter");
    assert_eq!(
        (label.flow_label, label.source.map(|prefix| prefix.len())),
        (Some(77), Some(128))
    );
}

#[test]
fn a_delay_is_guaranteed_only_where_bytes_are_counted_and_it_holds() {
    let refusal = |state: &mut AdmissionState| {
        state
            .add_flowspec(0, &guaranteed(10))
            .expect_err("no delay")
            .error
            .value
    };
    assert_eq!(
        refusal(&mut state("wrr", Table::default())),
        value::SERVICE_UNSUPPORTED
    );
    assert_eq!(
        refusal(&mut state("cbq", Table::default())),
        value::SERVICE_UNSUPPORTED
    );
    assert_eq!(state("wrr", Table::default()).advertise(0).guaranteed, None);

    // The D that follows from `smallest` holds for any number of reservations.
    let mut usual = state("drr", Table::default());
    assert!(usual.advertise(0).guaranteed.is_some());
    for _ in 0..7 {
        handle(usual.add_flowspec(0, &guaranteed(1)));
    }
    for _ in 0..50 {
        handle(usual.add_flowspec(0, &load(1)));
    }

    // A shorter D holds because requests that would break it are refused. Under `cbq` those of
    // controlled load have a lower priority, and break none.
    for (kind, delay, further) in [
        ("drr", "15 ms", load(1)),
        ("cbq", "15 ms", guaranteed(1)),
        ("ips", "3 ms", guaranteed(1)),
    ] {
        let settings = Table::default().text("delay", delay);
        let mut state = state(kind, settings);
        let first = handle(state.add_flowspec(0, &guaranteed(20)));
        let refused = (0..60)
            .find_map(|_| state.add_flowspec(0, &further).err())
            .expect("too many reservations");
        assert_eq!(
            (refused.error.code, refused.error.value),
            (code::ADMISSION, value::DELAY),
            "{kind}"
        );
        assert!(state.reservation(first).is_some());
    }
}

#[test]
fn a_burst_has_grown_by_what_the_hops_before_added() {
    let mut state = state("cbq", Table::default().text("delay", "30 ms"));
    let mut credit = |dsum: u32| {
        let mut request = guaranteed(8);
        request.before = ErrorTerms {
            rate_dependent: 500,
            rate_independent: dsum,
        };
        let one = handle(state.add_flowspec(0, &request));
        let layout = state.lay_out(0).expect("managed").expect("it fits");
        state.delete_flowspec(one);
        let classes = layout.plan.classes.iter();
        let sends = classes
            .filter_map(|class| class.arrivals)
            .next()
            .expect("a class");
        sends.burst.get()
    };
    // 1 MB/s for 20 ms, and the headers of every 1,500 bytes.
    let with_headers = |bytes: u64| (bytes * 1_538).div_ceil(1_500);
    assert_eq!(credit(0), with_headers(3_500));
    assert_eq!(credit(20_000), with_headers(23_500));
}

proptest! {
    #[test]
    fn no_budget_is_exceeded_and_every_layout_is_sound(
        calls in prop::collection::vec((0u8..4, 0usize..12, 1u64..40), 1..60),
    ) {
        for kind in ["wrr", "drr", "cbq", "hfsc", "ips", "pacer"] {
            let mut state = state(kind, Table::default());
            let mut known: Vec<RHandle> = Vec::new();
            for &(what, which, mbit) in &calls {
                let one = known.get(which % known.len().max(1)).copied();
                match (what, one) {
                    (0, Some(one)) => {
                        state.delete_flowspec(one);
                        known.retain(|other| *other != one);
                    }
                    (1, Some(one)) => drop(state.modify_flowspec(one, &load(mbit))),
                    _ => known.extend(state.add_flowspec(0, &load(mbit)).map(|granted| granted.rhandle)),
                }
                let usage = state.usage(0).expect("managed");
                prop_assert!(usage.reserved <= usage.reservable, "{}: {:?}", kind, usage);
                let layout = state.lay_out(0).expect("managed");
                prop_assert!(layout.is_ok(), "{}: {:?}", kind, layout.err());
                prop_assert_eq!(state.reservations().count(), known.len());
            }
        }
    }
}

#[test]
fn what_is_held_on_an_interface_is_the_sum_of_its_reservations() {
    let mut state = state("drr", Table::default());
    state.set_budget(1, budget("drr", Table::default()));
    assert_eq!(state.held(0), Held::default());
    let handles = [10, 20, 5].map(|mbit| handle(state.add_flowspec(0, &load(mbit))));
    let other = handle(state.add_flowspec(1, &load(7)));
    let rate = |state: &AdmissionState, handle| state.reservation(handle).expect("it is there").link_rate;
    let all: Bandwidth = handles.iter().map(|handle| rate(&state, *handle)).sum();
    let held = |rate, reservations| Held { rate, reservations };
    assert_eq!(state.held(0), held(all, 3));
    assert_eq!(state.held(1), held(rate(&state, other), 1));
    assert_eq!(state.held(2), Held::default());
    assert_eq!(state.usage(0).map(|usage| usage.reserved), Some(all));
    let left = all - rate(&state, handles[1]);
    state.delete_flowspec(handles[1]);
    assert_eq!(state.held(0), held(left, 2));
}

#[test]
fn datagrams_as_long_as_the_mtu_are_admitted_and_longer_ones_are_not() {
    let asks = |maximum| {
        request(Flowspec::ControlledLoad(TokenBucket {
            maximum,
            ..bucket(Bandwidth::mbit(1), 64)
        }))
    };
    let mut unlimited = AdmissionState::new();
    unlimited.set_budget(0, InterfaceBudget::Unlimited { mtu: 1_400 });
    for (maximum, admitted) in [(1_399, true), (1_400, true), (1_401, false), (9_000, false)] {
        let answer = unlimited.add_flowspec(0, &asks(maximum));
        let refused = answer.as_ref().err().map(|failure| failure.error);
        let expected = (!admitted).then_some(ErrorCode::new(code::ADMISSION, value::MTU));
        assert_eq!(refused, expected, "{maximum}");
        if let Ok(granted) = answer {
            let one = unlimited.reservation(granted.rhandle).expect("it is there");
            assert_eq!(one.link_rate, Bandwidth::ZERO);
        }
    }
    let advertised = unlimited.advertise(0);
    assert_eq!((advertised.bandwidth, advertised.mtu), (Real::INFINITE, 1_400));
    let mut managed = state("drr", Table::default());
    for (maximum, admitted) in [(1_499, true), (1_500, true), (1_501, false)] {
        assert_eq!(
            managed.add_flowspec(0, &asks(maximum)).is_ok(),
            admitted,
            "{maximum}"
        );
    }
}

#[test]
fn a_change_is_in_force_and_reported_and_the_same_again_is_not() {
    let mut state = state("drr", Table::default());
    let one = handle(state.add_flowspec(0, &load(10)));
    let before = state.reservation(one).expect("it is there").link_rate;
    state.take_changed();
    for mbit in [20, 5, 10] {
        for changed in [true, false] {
            assert_eq!(state.modify_flowspec(one, &load(mbit)), Ok(None));
            let found = state.reservation(one).expect("it is there");
            assert_eq!(found.request, load(mbit));
            let exact = before.bits() * mbit / 10;
            assert!(found.link_rate.bits().abs_diff(exact) <= 16, "{found:?}");
            assert_eq!(state.take_changed().contains(&0), changed, "{mbit}");
        }
    }
    let unknown = state
        .modify_flowspec(RHandle(77), &load(1))
        .expect_err("there is none");
    assert_eq!(unknown.error.code, code::TRAFFIC_CONTROL_SYSTEM);
}

fn managed(budget: InterfaceBudget) -> ManagedInterface {
    match budget {
        InterfaceBudget::Managed(managed) => *managed,
        InterfaceBudget::Unlimited { .. } => panic!("it is managed"),
    }
}

#[test]
fn a_class_queues_twice_its_burst_in_its_shortest_packets() {
    let managed = managed(budget("drr", Table::default()));
    for (minimum, depth) in [
        (64, 3_000),
        (64, 30_000),
        (500, 20_000),
        (1_500, 60_000),
        (10, 30_000),
    ] {
        let bucket = TokenBucket {
            bucket: Real::nearest(depth),
            ..bucket(Bandwidth::mbit(8), minimum)
        };
        let reservation = Reservation {
            interface: 0,
            request: request(Flowspec::ControlledLoad(bucket)),
            link_rate: Bandwidth::mbit(9),
            flows: BTreeSet::from([flow(5_000, 1), flow(5_000, 2)]),
        };
        let class = managed.reserved(RHandle(3), &reservation);
        let shortest = u64::from(minimum.max(SHORTEST));
        let with_headers = |bytes: u64| (bytes * (shortest + HEADERS)).div_ceil(shortest);
        assert_eq!(class.least.get(), shortest + HEADERS);
        assert_eq!(class.sends.burst.get(), with_headers(depth));
        assert_eq!(
            class.sends.rate,
            Bandwidth::bits_per_sec(with_headers(1_000_000) * 8)
        );
        let packets = with_headers(depth) / (shortest + HEADERS);
        assert_eq!(u64::from(class.limit), (2 * packets).clamp(QUEUE.0, QUEUE.1));
        assert_eq!((class.number, class.rate), (3, Bandwidth::mbit(9)));
        assert_eq!((class.filters.len(), class.latency), (2, None));
    }
}

#[test]
fn a_link_rate_is_advertised_in_bytes_of_the_longest_datagrams() {
    let managed = managed(budget("drr", Table::default()));
    let wire = 1_500 + HEADERS;
    for (bits, bytes) in [
        (0, 0),
        (8 * wire, 1_500),
        (8 * wire + 7, 1_500),
        (8 * (wire + 1), 1_500),
        (8 * (wire + 2), 1_501),
        (80 * wire, 15_000),
        (8_000 * wire, 1_500_000),
    ] {
        let found = managed.datagram_rate(Bandwidth::bits_per_sec(bits));
        assert_eq!(found, Real::nearest(bytes), "{bits}");
    }
}

#[test]
fn a_reservation_keeps_its_datagrams_where_the_new_mtu_is_no_shorter() {
    let mut state = state("drr", Table::default());
    let one = handle(state.add_flowspec(0, &load(10)));
    for (mtu, broken) in [(1_501, false), (1_500, false), (1_499, true), (500, true)] {
        let mut new = managed(budget("drr", Table::default()));
        new.mtu = mtu;
        let tried = state.tried(0, &InterfaceBudget::Managed(Box::new(new)));
        let expected = broken.then_some((one, BrokenPromise::Datagrams(1_500)));
        assert_eq!(tried.expect("managed").broken, Vec::from_iter(expected), "{mtu}");
    }
}

#[test]
fn the_delay_that_a_refusal_names_is_the_least_with_which_the_request_fits_to_a_hundredth() {
    for (kind, millis, further) in [
        ("drr", 15, load(1)),
        ("cbq", 15, guaranteed(1)),
        ("ips", 3, guaranteed(1)),
    ] {
        // So many requests fit a D of so many nanoseconds, and what the next is told.
        let fitting = |nanos: u64, most: usize| {
            let micros = nanos.div_ceil(1_000);
            let mut state = state(kind, Table::default().text("delay", &format!("{micros} us")));
            handle(state.add_flowspec(0, &guaranteed(20)));
            for count in 0..most {
                if let Err(failure) = state.add_flowspec(0, &further) {
                    return (count, failure.possible_delay);
                }
            }
            (most, None)
        };
        let nanos = millis * 1_000_000;
        let (count, possible) = fitting(nanos, 60);
        let possible = possible.expect("there is one").nanos();
        assert!(possible > nanos, "{kind}: {possible}");
        assert_eq!(fitting(possible, count + 1).0, count + 1, "{kind}: it fits");
        let less = (possible - possible / 50).max(nanos);
        assert!(fitting(less, count + 1).0 <= count, "{kind}: less is not enough");
    }
}
