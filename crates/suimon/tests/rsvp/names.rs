//! Refresh reduction (RFC 2961): state is refreshed by its MESSAGE_ID, and times out when its
//! MESSAGE_ID no longer arrives.

use crate::rig::{LIFETIME, LONG, Plan, R, Rig, SLACK, in_turn, until};
use control::protocol::{Reply, Request};
use control::reservation::{ReservationRequest, ReservationState, USUAL_PACKET};
use control::socket::Client;
use std::net::IpAddr;

const COUNT: u16 = 11;

#[test]
fn state_is_refreshed_by_message_id_and_times_out_without() {
    in_turn(|| lab::isolated(|| Rig::start(&Plan::default()).into_iter().for_each(refreshed)));
}

/// Keeps a reservation as long as the connection lasts.
fn held(rig: &Rig, port: u16, from_port: u16) -> Client {
    let mut client = Client::connect(Some(&rig.socket(Rig::at("a")))).expect("it answers");
    let wanted = ReservationRequest {
        to: IpAddr::from([10, 0, 3, 2]),
        port,
        protocol: 17,
        from: None,
        from_port,
        rate_bps: 400_000,
        burst_bytes: 0,
        packet_bytes: USUAL_PACKET,
        delay_us: None,
    };
    client.tell(&Request::Reserve { wanted }).expect("it hears");
    loop {
        match client.next_reply().expect("an answer") {
            Reply::Reservation(ReservationState::Reserved { .. }) => return client,
            Reply::Reservation(ReservationState::Refused(why)) => panic!("{why:?}"),
            Reply::Refused(why) => panic!("{why:?}"),
            _ => {}
        }
    }
}

fn refreshed(mut rig: Rig) {
    assert!(rig.launch(Rig::at("a")), "others run");
    let held: Vec<Client> = (0..2 * COUNT)
        .map(|n| held(&rig, 5000 + n % COUNT, 4000 + n / COUNT))
        .collect();
    let all = held.len();
    until("all are reserved", LONG, || {
        rig.classes("r1").len() == all && rig.classes("r2").len() == all
    });
    let summarised = |rig: &Rig| {
        rig.status("a")
            .refresh_reduction
            .map_or(0, |counts| counts.summarised)
    };
    // Refreshes are sent in full until the first acknowledgement has arrived.
    std::thread::sleep(2 * R);
    let before = (rig.status("r1").heard, summarised(&rig));
    // Longer than the lifetime of state that is not refreshed.
    std::thread::sleep(LIFETIME + R);
    assert_eq!((rig.classes("r1").len(), rig.classes("r2").len()), (all, all));
    let (received, summarised) = (rig.status("r1").heard - before.0, summarised(&rig) - before.1);
    // Paths from one side and Resvs from the other, one per R each; MESSAGE_IDs are sent
    // together, at most eight times per R.
    let plain = 2 * all as u64 * 6;
    eprintln!(
        "{received} messages received by r1, where plain RSVP has {plain}; {summarised} refreshes were summarised"
    );
    assert!(received < plain / 2, "{received} of {plain}");
    assert!(summarised > 3 * all as u64, "{summarised}");

    rig.running[0].take().expect("it runs").kill().expect("its end");
    until("they time out", LIFETIME + SLACK, || {
        rig.classes("r1").is_empty() && rig.classes("r2").is_empty()
    });
    drop(held);
}
