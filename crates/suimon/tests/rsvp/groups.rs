//! A multicast session: the Path follows the kernel's multicast routes, beside the daemon that made
//! them, to the hosts that have joined the group; their reservation comes back by both routers.

use crate::rig::{LONG, Plan, Rig, SLACK, in_turn, until};
use lab::group_routes::GroupRoutes;
use std::net::{Ipv4Addr, UdpSocket};

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
const SENDER: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);

/// The routes of both routers: from a, by r1 and r2, to b's link.
fn routed(rig: &Rig) -> [GroupRoutes; 2] {
    [("r1", "lan0", "wan0"), ("r2", "wan0", "lan0")].map(|(router, from, to)| {
        let host = &rig.hosts[Rig::at(router)];
        let routes = GroupRoutes::new(host, &[from, to]).expect("a multicast router");
        routes.add(SENDER, GROUP, from, &[to]).expect("a route");
        routes
    })
}

/// A socket on b that has joined the group.
fn joined(rig: &Rig) -> UdpSocket {
    let join = || -> std::io::Result<UdpSocket> {
        let socket = UdpSocket::bind("0.0.0.0:5000")?;
        socket.join_multicast_v4(&GROUP, &Ipv4Addr::new(10, 0, 3, 2))?;
        Ok(socket)
    };
    rig.hosts[Rig::at("b")]
        .call(join)
        .expect("a thread")
        .expect("it joins")
}

#[test]
fn a_group_is_reserved_for_along_the_kernels_multicast_routes() {
    in_turn(|| {
        lab::isolated(|| {
            Rig::start(&Plan::default())
                .into_iter()
                .for_each(reserved_for_a_group)
        })
    });
}

fn reserved_for_a_group(rig: Rig) {
    let routes = routed(&rig);
    let holding = rig.hold("239.1.2.3:5000", "8M");
    // Nobody has joined.
    until("the Path is at b's router", LONG, || {
        rig.status("r2").senders.len() == 1
    });
    assert!(rig.reserved("r2", 5000).is_empty() && rig.status("b").senders.is_empty());
    let socket = joined(&rig);
    until("both routers have reserved", LONG + SLACK, || {
        ["r1", "r2"].map(|router| rig.reserved(router, 5000).len()) == [1, 1]
    });
    assert_eq!(rig.reserved("r1", 5000)[0].1, 8_000_000);
    assert_eq!(rig.classes("r1"), ["resv-1"]);
    // Without routes the Path goes no further, and what is behind it is torn down.
    drop(routes);
    until("r1 has no route for the group", LONG + SLACK, || {
        rig.reserved("r2", 5000).is_empty() && rig.classes("r1").is_empty()
    });
    drop((socket, holding));
}

#[test]
fn a_group_of_ipv6_is_refused_by_name() {
    in_turn(|| {
        lab::isolated(|| {
            let Some(rig) = Rig::start(&Plan::default()) else {
                return;
            };
            let arguments = ["reserve", "--to", "[ff15::7]:5000", "--rate", "8M", "--", "true"];
            let refused = rig.output("a", &arguments);
            assert_ne!(refused.status.code(), Some(0), "{refused:?}");
            assert!(refused.err.contains("a group of IPv6"), "{refused:?}");
        });
    });
}
