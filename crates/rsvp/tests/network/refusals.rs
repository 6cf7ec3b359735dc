//! What one router refuses, whom it tells of it, and what it keeps then.

use crate::alone::{
    Router, down, failed, fixed, interface, kinds, mbit, path, plain, resv, resvs, router, settings, shared,
    up, wildcard,
};
use crate::rig::{bucket, sender, session};
use core::net::{IpAddr, Ipv4Addr};
use engine::units::Bandwidth;
use rsvp::node::{CallError, Event, ReceiverId, Settings};
use rsvp::places::Places;
use rsvp::wire::{
    Content, Descriptors, Flowspec, Message, Opaque, Resv, ResvErr, Scope, SenderTemplate, code,
};

/// A sender on another host.
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(10, 0, 77, 1);
const HERE: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);

fn elsewhere() -> SenderTemplate {
    SenderTemplate::Port {
        address: ELSEWHERE.into(),
        port: 1,
    }
}

fn policy(byte: u8, length: usize) -> Vec<Opaque> {
    vec![Opaque {
        class: 14,
        c_type: 1,
        data: vec![byte; length],
    }]
}

fn events(router: &mut Router) -> Vec<Event> {
    core::iter::from_fn(|| router.node.poll_event()).collect()
}

#[test]
fn a_changed_scope_or_policy_goes_on_by_itself_and_together() {
    let mut router = plain();
    router.path(1, 10);
    router.hear(0, Message::Path(path(up(10), elsewhere())));
    assert_eq!(sender(1).address(), IpAddr::V4(HERE));
    let mut ask = |scope: &[Ipv4Addr], policy: Vec<Opaque>| {
        let asked = Resv {
            scope: Some(Scope::V4(scope.to_vec())),
            policy: policy.clone(),
            ..resv(down(1, 20), wildcard(10))
        };
        let sent = resvs(&router.resv(asked));
        for (_, resv) in &sent {
            assert_eq!(resv.scope, Some(Scope::V4(scope.to_vec())));
            assert_eq!(resv.policy, policy);
        }
        sent.len()
    };
    assert_eq!(ask(&[HERE], Vec::new()), 1);
    assert_eq!(ask(&[HERE], Vec::new()), 0);
    assert_eq!(ask(&[HERE, ELSEWHERE], policy(1, 4)), 1);
    assert_eq!(ask(&[HERE, ELSEWHERE], policy(1, 4)), 0);
    assert_eq!(ask(&[ELSEWHERE], policy(1, 4)), 1);
    assert_eq!(ask(&[ELSEWHERE], policy(2, 4)), 1);
}

#[test]
fn a_request_that_goes_on_to_any_previous_hop_is_not_confirmed_here() {
    let receiver = IpAddr::from([10, 1, 1, 20]);
    for hops in 1..=4 {
        let mut router = plain();
        for hop in 0..hops {
            router.path(hop + 1, 10 + hop as u8);
        }
        let asked = Resv {
            confirm: Some(receiver),
            ..resv(down(1, 20), wildcard(10))
        };
        let sent = router.resv(asked.clone());
        assert_eq!(kinds(&sent), vec![2; hops.into()]);
        assert!(
            resvs(&sent)
                .iter()
                .all(|(_, resv)| resv.confirm == Some(receiver))
        );
        // The same again changes nothing upstream.
        assert_eq!(kinds(&router.resv(asked)), [7]);
    }
}

#[test]
fn what_a_previous_hop_has_rejected_is_not_confirmed() {
    for (asked, rejected) in [
        (fixed(1, 20), fixed(1, 20)),
        (shared(&[1], 20), shared(&[1], 20)),
        (wildcard(20), wildcard(20)),
    ] {
        let mut router = plain();
        router.path(1, 10);
        let asked = Resv {
            confirm: Some(IpAddr::from([10, 1, 1, 20])),
            ..resv(down(1, 20), asked)
        };
        assert_eq!(kinds(&router.resv(asked.clone())), [2]);
        assert_eq!(kinds(&router.resv(asked.clone())), [7]);
        router.hear(0, Message::ResvErr(failed(up(10), code::ADMISSION, rejected)));
        assert_eq!(router.status().bsbs.len(), 1);
        assert_eq!(router.resv(asked.clone()), []);
        // The blockade goes with the previous hop.
        router.path(1, 11);
        assert_eq!(router.status().bsbs, []);
        assert_eq!(kinds(&router.resv(asked)), [7]);
    }
}

#[test]
fn an_error_counts_only_from_the_previous_hop_and_by_its_interface() {
    let mut router = plain();
    router.path(1, 10);
    router.resv(resv(down(1, 20), fixed(1, 20)));
    let error = |from| Message::ResvErr(failed(up(from), code::ADMISSION, fixed(1, 20)));
    assert_eq!(router.hear(0, error(11)), []);
    assert_eq!(router.hear(2, error(10)), []);
    assert_eq!(router.status().bsbs, []);
    let sent = router.hear(0, error(10));
    assert_eq!((sent.len(), sent[0].0), (1, down(1, 20).address));
    assert_eq!(router.status().bsbs.len(), 1);
}

#[test]
fn rfc_2205_3_1_8_with_in_place_only_those_are_told_who_requested_too_much() {
    for (code, in_place, rate, told) in [
        (code::ADMISSION, true, 20, &[20][..]),
        (code::ADMISSION, false, 20, &[20, 21][..]),
        (code::POLICY, true, 20, &[20, 21][..]),
        (code::POLICY, false, 20, &[20, 21][..]),
        // Both requested less than what failed.
        (code::ADMISSION, true, 30, &[20, 21][..]),
        // Both requested at least that.
        (code::ADMISSION, true, 5, &[20, 21][..]),
    ] {
        let mut router = router(settings(), &[1, 2], false);
        router.path(1, 10);
        router.resv(resv(down(1, 20), fixed(1, 20)));
        router.resv(resv(down(2, 21), fixed(1, 5)));
        let mut error = failed(up(10), code, fixed(1, rate));
        error.error.in_place = in_place;
        let sent = router.hear(0, Message::ResvErr(error));
        let errors = sent.iter().filter_map(|(to, message)| match message {
            Message::ResvErr(error) => {
                assert_eq!(error.descriptors, fixed(1, rate));
                Some(*to)
            }
            _ => None,
        });
        let expected: Vec<IpAddr> = told.iter().map(|end| down(end - 19, *end).address).collect();
        assert_eq!(errors.collect::<Vec<_>>(), expected, "{code} {in_place} {rate}");
        let blockaded = usize::from(code == code::ADMISSION);
        assert_eq!(router.status().bsbs.len(), blockaded);
    }
}

#[test]
fn an_error_of_a_wildcard_request_goes_on_with_the_part_of_its_scope_that_it_concerns() {
    let told = |asked: Descriptors<Content<Flowspec>>, scope: Option<Vec<Ipv4Addr>>| {
        let mut router = plain();
        router.path(1, 10);
        router.hear(0, Message::Path(path(up(10), elsewhere())));
        router.resv(resv(down(1, 20), asked.clone()));
        let error = ResvErr {
            scope: scope.map(Scope::V4),
            ..failed(up(10), code::POLICY, asked)
        };
        let sent = router.hear(0, Message::ResvErr(error));
        let errors = sent.into_iter().map(|(_, message)| match message {
            Message::ResvErr(error) => error.scope,
            other => panic!("{other:?}"),
        });
        errors.collect::<Vec<_>>()
    };
    let v4 = |list: &[Ipv4Addr]| Some(Scope::V4(list.to_vec()));
    assert_eq!(told(wildcard(10), None), [None]);
    assert_eq!(told(wildcard(10), Some(vec![HERE])), [v4(&[HERE])]);
    assert_eq!(
        told(wildcard(10), Some(vec![Ipv4Addr::LOCALHOST, ELSEWHERE, HERE])),
        [v4(&[HERE, ELSEWHERE])]
    );
    assert_eq!(told(wildcard(10), Some(vec![Ipv4Addr::LOCALHOST])), []);
    assert_eq!(told(shared(&[1], 10), None), [None]);
    assert_eq!(told(shared(&[1], 10), Some(vec![HERE])), [None]);
    assert_eq!(told(shared(&[1], 10), Some(vec![ELSEWHERE])), []);
}

#[test]
fn a_refused_request_leaves_the_count_of_reservations_and_is_told_in_its_style() {
    for style in 0..3 {
        let asked = |n| match style {
            0 => wildcard(n),
            1 => shared(&[1, 2], n),
            _ => fixed(1, n),
        };
        let known = match style {
            0 => Descriptors::Wildcard(mbit(200)),
            1 => Descriptors::SharedExplicit(mbit(200), vec![sender(1), sender(2)]),
            _ => Descriptors::Fixed(vec![(mbit(200), sender(1))]),
        };
        let entries = if style == 1 { 2 } else { 1 };
        let mut router = plain();
        let mut wide = path(up(10), sender(1));
        wide.sender.tspec = Content::Known(bucket(Bandwidth::mbit(500)));
        router.hear(0, Message::Path(wide.clone()));
        wide.sender.template = sender(2);
        router.hear(0, Message::Path(wide));
        events(&mut router);
        // Refused as it is new.
        assert_eq!(
            router.refused(resv(down(1, 20), asked(200))),
            Some(code::ADMISSION)
        );
        assert_eq!(router.node.reservations(), 0);
        let told = events(&mut router);
        let [
            Event::AdmissionFailed {
                requested,
                nhop,
                interface,
                ..
            },
        ] = told.as_slice()
        else {
            panic!("{told:?}");
        };
        assert_eq!((requested, *nhop, *interface), (&known, down(1, 20).address, 1));
        assert_eq!(router.status().rsbs, []);
        // Refused as a change.
        assert_eq!(kinds(&router.resv(resv(down(1, 20), asked(5)))), [2]);
        assert_eq!(router.node.reservations(), entries);
        let sent = router.resv(resv(down(1, 20), asked(200)));
        let [(_, Message::ResvErr(error))] = sent.as_slice() else {
            panic!("{sent:?}");
        };
        assert!(error.error.in_place);
        assert_eq!(router.node.reservations(), entries);
        let kept = router.status().rsbs;
        assert!(kept.iter().all(|rsb| rsb.flowspec == mbit(5)) && kept.len() == entries);
    }
}

#[test]
fn a_reservation_takes_places_for_what_it_carries_until_it_is_torn_down() {
    // A neighbour has 25 places, and 10 KiB take ten beside that of the request.
    let limited = Settings {
        max_reservations: Places::of(100),
        ..settings()
    };
    let mut router = router(limited, &[1], false);
    for port in 1..=4 {
        router.path(port, 10);
    }
    let carrying = |port, length| Resv {
        policy: policy(1, length),
        ..resv(down(1, 20), fixed(port, 1))
    };
    for _ in 0..3 {
        for port in [1, 2] {
            let mut next = carrying(port, 10_240);
            next.hop = down(1, 20);
            assert_eq!(router.refused(next), None, "{port}");
            // Each sender's request is in one state block, which carries the objects once.
            assert_eq!(router.node.reservations(), usize::from(port));
        }
        // Another next hop has its own share.
        let mut other = carrying(3, 24_576);
        other.hop = down(1, 21);
        assert_eq!(router.refused(other.clone()), None);
        assert_eq!(
            router.refused(carrying(1, 24_576)),
            Some(code::SYSTEM),
            "27 places"
        );
        assert_eq!(router.refused(carrying(1, 23_552)), None, "25 places");
        // The interface has 50 of them.
        other.hop = down(1, 22);
        other.policy = policy(1, 0);
        assert_eq!(router.refused(other.clone()), Some(code::SYSTEM));
        router.resv_tear(down(1, 21), Descriptors::Fixed(vec![((), sender(3))]));
        assert_eq!(router.refused(other), None);
        router.resv_tear(down(1, 22), Descriptors::Fixed(vec![((), sender(3))]));
        router.resv_tear(
            down(1, 20),
            Descriptors::Fixed(vec![((), sender(1)), ((), sender(2))]),
        );
        assert_eq!(router.node.reservations(), 0);
    }
}

#[test]
fn a_shared_reservation_has_a_limit_of_senders_and_others_have_none() {
    let limited = || Settings {
        max_shared_senders: 2,
        ..settings()
    };
    for asked in [wildcard(1), shared(&[1], 1)] {
        let mut router = router(limited(), &[1], false);
        router.path(1, 10);
        router.path(2, 10);
        assert_eq!(kinds(&router.resv(resv(down(1, 20), asked.clone()))), [2]);
        // The third is refused; those that are known may change, and another may ask.
        assert_eq!(kinds(&router.path(3, 10)), [3]);
        assert_eq!(router.node.senders(), 2);
        let mut changed = path(up(10), sender(2));
        changed.sender.tspec = Content::Known(bucket(Bandwidth::mbit(7)));
        assert_eq!(kinds(&router.hear(0, Message::Path(changed)))[0], 1);
        assert_eq!(router.refused(resv(down(1, 21), asked.clone())), None);
        // One that leaves makes room.
        router.path_tear(2, 10);
        assert_eq!(kinds(&router.path(3, 10))[0], 1);
    }
    let three = || {
        let mut router = router(limited(), &[1], false);
        for port in 1..=3 {
            assert_eq!(kinds(&router.path(port, 10)), [1]);
        }
        router
    };
    let mut router = three();
    assert_eq!(router.refused(resv(down(1, 20), wildcard(1))), Some(code::SYSTEM));
    assert_eq!(
        router.refused(resv(down(1, 20), shared(&[1], 1))),
        Some(code::SYSTEM)
    );
    for (end, port) in [(20, 1), (21, 1), (22, 2)] {
        assert_eq!(router.refused(resv(down(1, end), fixed(port, 1))), None);
    }
    assert_eq!(kinds(&router.path(4, 10)), [1]);
}

#[test]
fn a_session_has_a_limit_of_next_hops_within_which_each_may_change() {
    let limited = Settings {
        max_next_hops: 2,
        ..settings()
    };
    let mut router = router(limited, &[1], false);
    router.path(1, 10);
    for end in [20, 21] {
        assert_eq!(router.refused(resv(down(1, end), fixed(1, 1))), None);
    }
    assert_eq!(router.refused(resv(down(1, 22), fixed(1, 1))), Some(code::SYSTEM));
    assert_eq!(router.refused(resv(down(1, 21), fixed(1, 2))), None);
    router.resv_tear(down(1, 20), Descriptors::Fixed(vec![((), sender(1))]));
    assert_eq!(router.refused(resv(down(1, 22), fixed(1, 1))), None);
}

#[test]
fn senders_on_this_host_are_counted_once_however_often_they_change() {
    let limited = Settings {
        max_senders: Places::unshared(2),
        ..settings()
    };
    let mut router = router(limited, &[1], false);
    let now = router.now;
    let add = |router: &mut Router, port, rate| {
        let tspec = bucket(Bandwidth::mbit(rate));
        router.node.add_sender(now, session(), sender(port), tspec)
    };
    for round in 0..3 {
        assert_eq!(add(&mut router, 1, 1 + round), Ok(()));
        assert_eq!(add(&mut router, 1, 2 + round), Ok(()));
        assert_eq!(add(&mut router, 2, 1), Ok(()));
        assert_eq!(add(&mut router, 3, 1), Err(CallError::Full));
        assert_eq!(add(&mut router, 2, 2), Ok(()));
        assert_eq!(router.node.senders(), 2);
        router.node.remove_sender(now, &session(), sender(2));
        assert_eq!(add(&mut router, 3, 1), Ok(()));
        router.node.remove_sender(now, &session(), sender(3));
    }
    assert_eq!(router.node.senders(), 1);
}

#[test]
fn reservations_of_this_host_are_counted_by_filter_spec_and_given_back() {
    let limited = Settings {
        max_reservations: Places::unshared(2),
        interfaces: (0..3).map(|id| interface(id, 1000)).collect(),
        ..settings()
    };
    let mut router = router(limited, &[], true);
    for port in 1..=4 {
        router.path(port, 10);
    }
    let now = router.now;
    let ask = |router: &mut Router, receiver, ports: &[u16]| {
        let list = ports.iter().map(|port| (mbit(1), sender(*port))).collect();
        router
            .node
            .reserve(now, ReceiverId(receiver), &session(), Descriptors::Fixed(list))
    };
    for _ in 0..3 {
        assert_eq!(ask(&mut router, 1, &[1, 2, 3]), Err(CallError::Full));
        assert_eq!(router.node.reservations(), 0);
        assert_eq!(ask(&mut router, 1, &[1, 2]), Ok(()));
        // In place of its own; and for nobody else.
        assert_eq!(ask(&mut router, 1, &[2, 3]), Ok(()));
        assert_eq!(ask(&mut router, 1, &[1, 2, 3]), Err(CallError::Full));
        assert_eq!(ask(&mut router, 2, &[1]), Err(CallError::Full));
        assert_eq!(router.node.reservations(), 2);
        assert_eq!(ask(&mut router, 1, &[3]), Ok(()));
        assert_eq!(ask(&mut router, 2, &[1]), Ok(()));
        for receiver in [1, 2] {
            router.node.release(now, ReceiverId(receiver), &session());
        }
        assert_eq!(router.node.reservations(), 0);
    }
}

#[test]
fn the_application_of_a_sender_is_told_of_each_change_of_its_reservation_once() {
    let mut router = plain();
    let now = router.now;
    let tspec = bucket(Bandwidth::mbit(50));
    assert_eq!(router.node.add_sender(now, session(), sender(1), tspec), Ok(()));
    assert_eq!(kinds(&router.sent()), [1]);
    let reserved = |descriptors: &Descriptors<Content<Flowspec>>, n| {
        vec![Event::Reserved {
            session: session(),
            sender: sender(1),
            style: descriptors.style(),
            flowspec: mbit(n),
        }]
    };
    for asked in [fixed(1, 10), wildcard(10)] {
        router.resv(resv(down(1, 20), asked.clone()));
        assert_eq!(events(&mut router), reserved(&asked, 10));
        let carrying = Resv {
            policy: policy(1, 4),
            ..resv(down(1, 20), asked.clone())
        };
        router.resv(carrying);
        assert_eq!(events(&mut router), [], "it carries something else");
        // A smaller one of another next hop, and its end.
        let (smaller, torn) = match asked {
            Descriptors::Wildcard(_) => (wildcard(5), Descriptors::Wildcard(())),
            _ => (fixed(1, 5), Descriptors::Fixed(vec![((), sender(1))])),
        };
        router.resv(resv(down(1, 21), smaller));
        assert_eq!(events(&mut router), []);
        router.resv_tear(down(1, 20), torn.clone());
        assert_eq!(events(&mut router), reserved(&asked, 5));
        router.resv_tear(down(1, 21), torn);
        let ended = Event::Unreserved {
            session: session(),
            sender: sender(1),
        };
        assert_eq!(events(&mut router), [ended]);
    }
}
