//! Route changes under a reservation (RFC 2205, section 3.6): it follows them, and leaves nothing
//! behind.

use crate::rig::{LONG, Plan, Rig, SLACK, in_turn, until};
use std::time::Duration;

/// The time that a changed route may settle.
const SETTLES: Duration = Duration::from_secs(2);

/// R is so long that no refresh can replace local repair.
#[test]
fn a_reservation_follows_the_route_long_before_it_is_refreshed() {
    let plan = Plan {
        refresh: "60 s",
        second: true,
        ..Plan::default()
    };
    in_turn(|| lab::isolated(|| Rig::start(&plan).into_iter().for_each(follows)));
}

fn follows(rig: Rig) {
    let held = rig.hold("10.0.3.2:5000", "8M");
    until("it is reserved", LONG, || {
        rig.reserved("r1", 5000).len() == 1 && rig.reserved("r2", 5000).len() == 1
    });
    let [before, last] = ["r1", "r2"].map(|router| rig.classes(router));
    assert_eq!((before.len(), last.len()), (1, 1));
    let previous = || {
        rig.status("r2")
            .senders
            .first()
            .and_then(|sender| sender.previous)
    };
    assert_eq!(previous(), "10.0.2.1".parse().ok());

    let r1 = &rig.hosts[Rig::at("r1")];
    let by = "10.0.4.2".parse().expect("an address");
    r1.route("10.0.3.0/24".parse().expect("a prefix"), by)
        .expect("a route");
    until("it has moved to the other link", SETTLES + SLACK, || {
        previous() == "10.0.4.1".parse().ok()
            && rig.classes("r1").is_empty()
            && rig.reserved("r1", 5000) == [(None, 8_000_000)]
    });
    assert_eq!(rig.classes("r2"), last, "downstream nothing has changed");

    // The link fails, and the route with it.
    r1.netlink(|netlink| netlink.down("wan1")).expect("it is down");
    until("it is back on the first link", SETTLES + SLACK, || {
        previous() == "10.0.2.1".parse().ok() && rig.classes("r1").len() == 1
    });
    until("no second reservation is left", SLACK, || {
        rig.reserved("r1", 5000).len() == 1 && rig.reserved("r2", 5000).len() == 1
    });
    assert_eq!(rig.classes("r2"), last);
    drop(held);
}
