//! One router by itself, message by message: what it sends and keeps for each.

use crate::rig::{SECOND, TestAdmission, bucket, controlled_load, sender, session};
use core::net::IpAddr;
use engine::random::Seed;
use engine::units::{Bandwidth, Duration, Instant};
use rsvp::node::{Node, RsvpInterface, SessionStatus, Settings};
use rsvp::traffic_control::{InterfaceId, Route, Routing};
use rsvp::wire::{
    Content, Descriptors, ErrorCode, ErrorSpec, Flowspec, Frame, Hop, Message, Path, PathTear, Refresh, Resv,
    ResvErr, ResvTear, SenderDescriptor, SenderTemplate, code,
};

/// Where all data goes, and all messages that are not for a neighbour.
pub(crate) struct Ways {
    pub(crate) outgoing: Vec<InterfaceId>,
    pub(crate) local: bool,
}

impl Routing for Ways {
    fn route(&self, _: Option<IpAddr>, _: IpAddr) -> Route {
        Route {
            outgoing: self.outgoing.clone(),
            local: self.local,
            ..Route::NONE
        }
    }
}

/// A router with three interfaces; data comes by the first.
pub(crate) struct Router {
    pub(crate) now: Instant,
    pub(crate) node: Node<TestAdmission, Ways>,
}

/// Longer than any test: state of neighbours does not time out.
const LONG: Refresh = Refresh::millis(300_000);

/// An interface of the router, whose R is this.
pub(crate) fn interface(id: u8, millis: u32) -> RsvpInterface {
    RsvpInterface {
        addresses: vec![IpAddr::from([10, 1, id, 1])],
        refresh: Refresh::millis(millis),
    }
}

pub(crate) fn settings() -> Settings {
    Settings::new((0..3).map(|id| interface(id, 1000)).collect(), Seed(1))
}

pub(crate) fn router(settings: Settings, outgoing: &[InterfaceId], local: bool) -> Router {
    let ways = Ways {
        outgoing: outgoing.to_vec(),
        local,
    };
    let admission = TestAdmission::new(Bandwidth::mbit(100));
    Router {
        now: Instant::START,
        node: Node::new(settings, admission, ways),
    }
}

/// A router whose data leaves through the second interface.
pub(crate) fn plain() -> Router {
    router(settings(), &[1], false)
}

/// A previous hop on the first interface.
pub(crate) fn up(end: u8) -> Hop {
    Hop {
        address: IpAddr::from([10, 1, 0, end]),
        lih: 7,
    }
}

/// A next hop on an interface.
pub(crate) fn down(interface: u8, end: u8) -> Hop {
    Hop {
        address: IpAddr::from([10, 1, interface, end]),
        lih: interface.into(),
    }
}

pub(crate) fn mbit(n: u64) -> Flowspec {
    controlled_load(Bandwidth::mbit(n))
}

pub(crate) fn fixed(port: u16, n: u64) -> Descriptors<Content<Flowspec>> {
    Descriptors::Fixed(vec![(Content::Known(mbit(n)), sender(port))])
}

pub(crate) fn shared(ports: &[u16], n: u64) -> Descriptors<Content<Flowspec>> {
    Descriptors::SharedExplicit(
        Content::Known(mbit(n)),
        ports.iter().map(|port| sender(*port)).collect(),
    )
}

pub(crate) fn wildcard(n: u64) -> Descriptors<Content<Flowspec>> {
    Descriptors::Wildcard(Content::Known(mbit(n)))
}

pub(crate) fn path(hop: Hop, template: SenderTemplate) -> Path {
    Path {
        session: session(),
        hop,
        refresh: LONG,
        policy: Vec::new(),
        sender: SenderDescriptor {
            template,
            tspec: Content::Known(bucket(Bandwidth::mbit(50))),
            adspec: None,
        },
    }
}

pub(crate) fn resv(hop: Hop, descriptors: Descriptors<Content<Flowspec>>) -> Resv {
    Resv {
        session: session(),
        hop,
        refresh: LONG,
        confirm: None,
        scope: None,
        policy: Vec::new(),
        descriptors,
    }
}

/// A previous hop rejects this.
pub(crate) fn failed(from: Hop, code: u8, descriptors: Descriptors<Content<Flowspec>>) -> ResvErr {
    ResvErr {
        session: session(),
        hop: from,
        error: ErrorSpec::new(from.address, ErrorCode::new(code, 2)),
        scope: None,
        policy: Vec::new(),
        descriptors,
    }
}

/// A message as it was sent: to whom, and what.
pub(crate) type Sent = (IpAddr, Message);

impl Router {
    /// The messages that it sends now.
    pub(crate) fn sent(&mut self) -> Vec<Sent> {
        let sent = core::iter::from_fn(|| self.node.poll_transmit());
        let decoded = |bytes: &[u8]| Frame::decode(bytes).expect("it is sound").message;
        sent.map(|sent| (sent.destination, decoded(&sent.bytes)))
            .collect()
    }

    /// A message arrives on an interface.
    pub(crate) fn hear(&mut self, interface: InterfaceId, message: Message) -> Vec<Sent> {
        let bytes = Frame::plain(63, message).encode().expect("it fits");
        let read = self.node.handle_packet(self.now, interface, 63, &bytes);
        assert_eq!(read, Ok(()));
        self.sent()
    }

    /// A Path of a sender with this port arrives from this previous hop.
    pub(crate) fn path(&mut self, port: u16, from: u8) -> Vec<Sent> {
        self.hear(0, Message::Path(path(up(from), sender(port))))
    }

    pub(crate) fn path_tear(&mut self, port: u16, from: u8) -> Vec<Sent> {
        let tear = PathTear {
            session: session(),
            hop: up(from),
            sender: sender(port),
        };
        self.hear(0, Message::PathTear(tear))
    }

    pub(crate) fn resv(&mut self, resv: Resv) -> Vec<Sent> {
        self.hear(resv.hop.lih, Message::Resv(resv))
    }

    pub(crate) fn resv_tear(&mut self, hop: Hop, descriptors: Descriptors<()>) -> Vec<Sent> {
        let tear = ResvTear {
            session: session(),
            hop,
            scope: None,
            descriptors,
        };
        self.hear(hop.lih, Message::ResvTear(tear))
    }

    /// The code of the error with which a Resv is answered, and nothing else is sent.
    pub(crate) fn refused(&mut self, resv: Resv) -> Option<u8> {
        let to = resv.hop.address;
        match self.resv(resv).as_slice() {
            [(found, Message::ResvErr(error))] if *found == to => Some(error.error.code),
            _ => None,
        }
    }

    pub(crate) fn pass(&mut self, span: Duration) -> Vec<Sent> {
        let end = self.now + span;
        let mut sent = Vec::new();
        while let Some(due) = self.node.poll_timeout().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.node.handle_timeout(self.now);
            sent.extend(self.sent());
        }
        self.now = end;
        sent
    }

    pub(crate) fn status(&self) -> SessionStatus {
        self.node.status_of(&session()).expect("there is state")
    }
}

/// The Resvs among what was sent, with their destinations.
pub(crate) fn resvs(sent: &[Sent]) -> Vec<(IpAddr, Resv)> {
    let resv = |(to, message): &Sent| match message {
        Message::Resv(resv) => Some((*to, resv.clone())),
        _ => None,
    };
    sent.iter().filter_map(resv).collect()
}

/// The types of what was sent.
pub(crate) fn kinds(sent: &[Sent]) -> Vec<u8> {
    sent.iter().map(|(_, message)| message.kind()).collect()
}

#[test]
fn rfc_2205_3_7_a_longer_r_is_approached_by_30_percent_or_a_millisecond_and_a_shorter_one_taken_at_once() {
    let mut settings = settings();
    settings.interfaces[1] = interface(1, 1);
    let mut router = router(settings, &[1], false);
    let refresh = |sent: &[Sent]| match sent {
        [(_, Message::Path(path))] => path.refresh.as_millis(),
        other => panic!("not one Path: {other:?}"),
    };
    let mut found = vec![refresh(&router.path(1, 10))];
    router.node.set_interface(1, interface(1, 30));
    for _ in 0..14 {
        let nanos = u64::from(found[found.len() - 1]) * 1_000_000;
        let due = router.node.poll_timeout().expect("a refresh");
        let wait = due.since(router.now).nanos();
        assert!((nanos / 2..=nanos * 3 / 2).contains(&wait), "{wait} of {nanos}");
        router.now = due;
        router.node.handle_timeout(due);
        found.push(refresh(&router.sent()));
    }
    assert_eq!(found, [1, 2, 3, 4, 5, 6, 7, 9, 11, 14, 18, 23, 29, 30, 30]);
    router.node.set_interface(1, interface(1, 5));
    router.now = router.node.poll_timeout().expect("a refresh");
    router.node.handle_timeout(router.now);
    assert_eq!(refresh(&router.sent()), 5);
}

#[test]
fn a_session_is_known_while_it_has_state_and_is_forgotten_with_it() {
    let mut router = plain();
    let policed = rsvp::wire::Session {
        police: true,
        ..session()
    };
    let other = rsvp::wire::Session {
        port: 5001,
        ..session()
    };
    assert!(!router.node.has_path(&session(), &sender(1)));
    assert_eq!(router.node.status(), []);
    router.path(1, 10);
    assert!(router.node.has_path(&session(), &sender(1)) && router.node.has_path(&policed, &sender(1)));
    assert!(!router.node.has_path(&session(), &sender(2)) && !router.node.has_path(&other, &sender(1)));
    router.resv(resv(down(1, 20), fixed(1, 10)));
    let all = router.node.status();
    assert_eq!(all, [router.status()]);
    assert_eq!(all[0].session, session());
    let counts = (all[0].psbs.len(), all[0].rsbs.len(), all[0].tcsbs.len());
    assert_eq!((counts, all[0].sent_resvs.len()), ((1, 1, 1), 1));
    router.path_tear(1, 10);
    assert!(!router.node.has_path(&session(), &sender(1)));
    assert_eq!(router.node.status(), []);
    // Its host may now have a session without ports.
    let mut path = path(up(10), sender(0));
    path.session.port = 0;
    assert_eq!(kinds(&router.hear(0, Message::Path(path))), [1]);
}

#[test]
fn what_claims_to_come_from_one_of_our_own_addresses_is_ignored() {
    let mut router = plain();
    for id in 0..3 {
        let own = IpAddr::from([10, 1, id, 1]);
        let looped = path(Hop { address: own, lih: 1 }, sender(1));
        assert_eq!(router.hear(0, Message::Path(looped)), []);
        assert_eq!(router.node.senders(), 0);
    }
    router.path(1, 10);
    for id in 0..3 {
        let own = IpAddr::from([10, 1, id, 1]);
        let looped = resv(Hop { address: own, lih: 1 }, fixed(1, 10));
        assert_eq!(router.resv(looped), []);
        assert_eq!(router.node.reservations(), 0);
    }
    assert_eq!(kinds(&router.resv(resv(down(1, 20), fixed(1, 10)))), [2]);
}

#[test]
fn a_previous_hop_that_has_torn_down_its_senders_is_sent_no_resv_tear() {
    let mut router = plain();
    router.path(1, 10);
    router.path(2, 11);
    let sent = resvs(&router.resv(resv(down(1, 20), wildcard(10))));
    assert_eq!(
        sent.iter().map(|(to, _)| *to).collect::<Vec<_>>(),
        [up(10).address, up(11).address]
    );
    // The other, which is alone now, needs no SCOPE any more.
    let sent = router.path_tear(1, 10);
    assert_eq!(kinds(&sent), [5, 2]);
    assert_eq!((sent[1].0, &resvs(&sent)[0].1.scope), (up(11).address, &None));
    assert_eq!(kinds(&router.path_tear(2, 11)), [5]);
    assert_eq!(router.node.status(), []);
}

#[test]
fn a_next_hop_that_leaves_is_torn_down_upstream_only_as_far_as_nobody_else_asks() {
    let mut router = plain();
    router.path(1, 10);
    router.path(2, 10);
    let both = |n| {
        Descriptors::Fixed(vec![
            (Content::Known(mbit(n)), sender(1)),
            (Content::Known(mbit(n)), sender(2)),
        ])
    };
    router.resv(resv(down(1, 20), both(10)));
    router.resv(resv(down(1, 21), fixed(1, 10)));
    let torn = Descriptors::Fixed(vec![((), sender(1)), ((), sender(2))]);
    let sent = router.resv_tear(down(1, 20), torn);
    let [(to, Message::ResvTear(tear))] = sent.as_slice() else {
        panic!("{sent:?}");
    };
    assert_eq!(*to, up(10).address);
    assert_eq!(tear.descriptors, Descriptors::Fixed(vec![((), sender(2))]));
    // What it does not have changes nothing, however often it is torn down.
    let torn = Descriptors::Fixed(vec![((), sender(2))]);
    assert_eq!(router.resv_tear(down(1, 20), torn.clone()), []);
    assert_eq!(router.resv_tear(down(1, 21), torn), []);
    assert_eq!(router.node.reservations(), 1);
}

#[test]
fn a_path_tear_of_a_former_previous_hop_ends_that_one_alone() {
    let mut router = plain();
    router.path(1, 10);
    router.path(1, 11);
    assert_eq!(router.path_tear(1, 12), []);
    assert_eq!(router.path_tear(1, 10), []);
    // Nobody is left to return to.
    assert_eq!(kinds(&router.path_tear(1, 11)), [5]);
    assert_eq!(router.node.senders(), 0);

    router.path(1, 10);
    router.path(1, 11);
    assert_eq!(router.path_tear(1, 12), []);
    assert_eq!(router.path_tear(1, 11), [], "the former one is back");
    assert_eq!(router.status().psbs[0].phop.map(|phop| phop.hop), Some(up(10)));
    assert_eq!(kinds(&router.path_tear(1, 10)), [5]);
}

#[test]
fn data_does_not_go_back_where_it_comes_from() {
    let mut router = router(settings(), &[0, 1, 2], false);
    let through = |router: &mut Router| {
        let mut found = Vec::new();
        while let Some(sent) = router.node.poll_transmit() {
            found.push(sent.interface);
        }
        found.sort_unstable();
        found.dedup();
        found
    };
    let bytes = Frame::plain(63, Message::Path(path(up(10), sender(1))))
        .encode()
        .expect("it fits");
    assert_eq!(router.node.handle_packet(router.now, 0, 63, &bytes), Ok(()));
    assert_eq!(through(&mut router), [1, 2]);
    router.node.routes_changed(router.now);
    for _ in 0..10 {
        router.now = router.node.poll_timeout().expect("a refresh");
        router.node.handle_timeout(router.now);
        assert!(through(&mut router).iter().all(|by| [1, 2].contains(by)));
    }
    assert_eq!(router.status().psbs[0].outgoing, [1, 2]);
}

#[test]
fn rfc_2205_3_6_a_path_follows_a_changed_route_after_two_seconds_and_no_timer_starts_without_a_change() {
    let slow = Settings::new((0..3).map(|id| interface(id, 30_000)).collect(), Seed(1));
    let change = |router: &mut Router, outgoing: &[InterfaceId], local| {
        let ways = router.node.routing_mut();
        (ways.outgoing, ways.local) = (outgoing.to_vec(), local);
        router.node.routes_changed(router.now);
    };
    for (before, after) in [
        ((&[1][..], false), (&[2][..], false)),
        ((&[1][..], false), (&[1, 2][..], false)),
        ((&[1, 2][..], false), (&[2][..], false)),
        ((&[1][..], false), (&[1][..], true)),
        ((&[1][..], true), (&[1][..], false)),
    ] {
        let mut router = router(slow.clone(), before.0, before.1);
        router.path(1, 10);
        let due = router.node.poll_timeout();
        assert!(due >= Some(router.now + SECOND.times(15)), "{due:?}");
        router.now = router.now + SECOND;
        change(&mut router, before.0, before.1);
        assert_eq!(router.node.poll_timeout(), due, "nothing has changed");
        change(&mut router, after.0, after.1);
        assert_eq!(router.node.poll_timeout(), Some(router.now + SECOND.times(2)));
        router.pass(SECOND.times(2));
        let found = &router.status().psbs[0];
        assert_eq!((found.outgoing.as_slice(), found.local), after);
    }
}

#[test]
fn a_refresh_restarts_no_timer_of_what_was_not_sent_with_it() {
    let mut router = plain();
    router.path(1, 10);
    router.path(2, 10);
    router.resv(resv(down(1, 20), fixed(1, 10)));
    router.resv(resv(down(1, 20), fixed(2, 10)));
    let mut refreshed = 0;
    // The reservation for the first sender changes all the time.
    for step in 0..10 {
        let sent = router.pass(Duration::from_millis(400));
        let sent = resvs(&sent);
        let of_both = |resv: &Resv| matches!(&resv.descriptors, Descriptors::Fixed(list) if list.len() == 2);
        refreshed += sent.iter().filter(|(_, resv)| of_both(resv)).count();
        let sent = resvs(&router.resv(resv(down(1, 20), fixed(1, 11 + step))));
        assert_eq!(sent.len(), 1);
        assert_eq!(sent[0].1.descriptors, fixed(1, 11 + step));
    }
    // Once in 0.5 R to 1.5 R.
    assert!((2..=8).contains(&refreshed), "{refreshed}");
}

#[test]
fn only_what_has_changed_goes_to_the_previous_hop() {
    let mut router = plain();
    router.path(1, 10);
    router.path(2, 10);
    router.resv(resv(down(1, 20), fixed(1, 10)));
    router.resv(resv(down(1, 20), fixed(2, 10)));
    let sent = resvs(&router.resv(resv(down(1, 21), fixed(1, 20))));
    assert_eq!(sent, [(up(10).address, sent[0].1.clone())]);
    assert_eq!(sent[0].1.descriptors, fixed(1, 20));
    // Rejected, so that the smaller request alone goes on.
    let sent = router.hear(0, Message::ResvErr(failed(up(10), code::ADMISSION, fixed(1, 20))));
    let sent = resvs(&sent);
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].1.descriptors, fixed(1, 10));

    let mut router = plain();
    router.path(1, 10);
    router.path(2, 10);
    assert_eq!(kinds(&router.resv(resv(down(1, 20), shared(&[1, 2], 20)))), [2]);
    // A smaller request merges into the larger one.
    assert_eq!(router.resv(resv(down(1, 21), shared(&[1, 2], 10))), []);
    // A larger one goes on, with all senders.
    let sent = resvs(&router.resv(resv(down(1, 21), shared(&[1], 30))));
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].1.descriptors, shared(&[1, 2], 30));
}
