//! Invented neighbours at the refresh-reduction shim.

use crate::paths::{TTL, invented, numbered, path, session};
use core::net::{IpAddr, Ipv4Addr};
use engine::units::{Duration, Instant};
use rsvp::reduction::{ReductionShim, Settings};
use rsvp::wire::{Frame, Message, MessageIdAck, MessageIdList, MessageIds, Refresh, SenderTemplate};

const US: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
    IpAddr::V4(Ipv4Addr::new(10, 1, 0, 1)),
];
const FRIEND: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 0, 2));
const FLOOD: u32 = 24_000;
/// 1,600 messages a second.
const GAP: Duration = Duration::from_micros(625);

fn shim() -> ReductionShim {
    ReductionShim::new(Settings::new(US.map(|address| vec![address]).to_vec(), 5))
}

const fn sender(port: u16) -> SenderTemplate {
    SenderTemplate::Port {
        address: IpAddr::V4(Ipv4Addr::new(10, 8, 0, 1)),
        port,
    }
}

/// One session and sender, from another hop each time.
fn flood(
    shim: &mut ReductionShim,
    begin: Instant,
    mut meanwhile: impl FnMut(&mut ReductionShim, Instant, u32),
) {
    for number in 0..FLOOD {
        let now = begin + GAP.times(number.into());
        let path = path(session(1), sender(1), invented(number), Refresh::millis(300));
        let heard = shim.incoming(now, 0, US[1], TTL, numbered(path, number + 1));
        assert_eq!(heard.len(), 1, "it goes to the node all the same");
        meanwhile(shim, now, number);
        shim.handle_timeout(now);
        while shim.poll_transmit().is_some() {}
    }
}

#[test]
fn a_flood_of_invented_neighbours_takes_bounded_memory() {
    let mut shim = shim();
    let memory = allocation_counter::measure(|| flood(&mut shim, Instant::START, |_, _, _| {}));
    assert!(
        memory.bytes_current < 4 << 20,
        "{FLOOD} messages left {} KiB",
        memory.bytes_current >> 10
    );
}

#[test]
fn invented_neighbours_are_forgotten_when_they_are_silent() {
    let mut shim = shim();
    flood(&mut shim, Instant::START, |_, _, _| {});
    assert!((1..=1024).contains(&shim.neighbours()), "{}", shim.neighbours());
    let counts = shim.counts();
    assert_eq!(
        counts.evicted_neighbours + shim.neighbours() as u64,
        u64::from(FLOOD)
    );
    shim.handle_timeout(Instant::START + GAP.times(FLOOD.into()) + Duration::from_secs(31));
    assert_eq!(shim.neighbours(), 0);
    assert_eq!(shim.poll_timeout(), None, "nothing is left to wait for");
}

#[test]
fn the_messages_of_others_are_stored_and_summarised_during_a_flood() {
    let mut shim = shim();
    let stored = |id: u32| {
        let path = path(session(2), sender(id as u16), FRIEND, Refresh::millis(30_000));
        numbered(path, id)
    };
    let mut refreshed = 0;
    flood(&mut shim, Instant::START, |shim, now, number| {
        if number == 1000 {
            (1..=50).for_each(|id| assert_eq!(shim.incoming(now, 1, FRIEND, TTL, stored(id)).len(), 1));
        } else if number > 1000 && number % 1000 == 0 {
            let list = MessageIdList {
                epoch: 9,
                ids: MessageIds::Neighbour((1..=50).collect()),
            };
            let summary = Frame {
                refresh_reduction: true,
                ..Frame::plain(TTL, Message::Srefresh(vec![list]))
            };
            refreshed += shim.incoming(now, 1, FRIEND, TTL, summary).len();
        }
    });
    assert_eq!(refreshed, 50 * 22, "each refresh of each message");
    assert_eq!(shim.counts().unknown_ids, 0);
}

#[test]
fn acknowledgements_of_nothing_leave_no_trace() {
    let mut shim = shim();
    for number in 0..1000 {
        let ack = Frame {
            refresh_reduction: true,
            acknowledgements: vec![MessageIdAck {
                known: true,
                epoch: 5,
                id: number,
            }],
            ..Frame::plain(TTL, Message::Ack)
        };
        assert!(
            shim.incoming(Instant::START, 0, invented(number), TTL, ack)
                .is_empty()
        );
    }
    assert_eq!(shim.neighbours(), 0);
}

#[test]
fn a_neighbour_without_refresh_reduction_collects_no_acknowledgements() {
    let mut shim = shim();
    let memory = allocation_counter::measure(|| {
        for id in 1..100_000 {
            let path = path(session(1), sender(1), FRIEND, Refresh::millis(300));
            let frame = Frame {
                refresh_reduction: false,
                ..numbered(path, id)
            };
            shim.incoming(Instant::START, 1, FRIEND, TTL, frame);
            shim.handle_timeout(Instant::START + Duration::from_secs(1));
            while shim.poll_transmit().is_some() {}
        }
    });
    assert!(memory.bytes_current < 100_000, "{} bytes", memory.bytes_current);
}
