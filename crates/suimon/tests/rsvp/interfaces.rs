//! Several managed interfaces in one process, and both modes of a port: the router's two interfaces
//! carry reservations in both directions, while frames pass a bump in the wire beside them.

use crate::rig::{LONG, Plan, Rig, in_turn, until};
use control::reservation::SenderView;
use control::snapshot::InterfaceView;
use control::socket::Client;
use lab::traffic::generator::TrafficShape;
use lab::traffic::udp::Stream;
use std::net::SocketAddr;
use std::time::Duration;

#[test]
fn one_process_manages_several_interfaces_and_both_modes_of_a_port() {
    let plan = Plan {
        port: "egress = [\"wan0\", \"lan0\"]\nbetween = [\"bump0\", \"bump1\"]",
        more: "[interface.lan0]\nbandwidth = \"30 Mbit/s\"\ndiscipline = \"cbq\"\n\
               reserve = { share = \"50 %\" }\n\
               [[interface.lan0.class]]\nname = \"rest\"\nrate = \"10 Mbit/s\"\ndefault = true\n\
               [interface.bump1]\nbandwidth = \"20 Mbit/s\"\ndiscipline = \"drr\"\n\
               [[interface.bump1.class]]\nname = \"rest\"\ndefault = true\n",
        bump: true,
        ..Plan::default()
    };
    in_turn(|| lab::isolated(|| Rig::start(&plan).into_iter().for_each(both_directions)));
}

fn both_directions(mut rig: Rig) {
    assert!(rig.launch(Rig::at("a")), "a accepts, too");
    let there = rig.hold("10.0.3.2:5000", "8M");
    let back = [
        "reserve",
        "--to",
        "10.0.1.1:5001",
        "--rate",
        "6M",
        "--packet",
        "1000B",
    ];
    let back = rig
        .suimon("b", &back)
        .args(["--wait", "20s", "--", "sleep", "100"]);
    let back = back.limit(Duration::from_secs(120)).start().expect("it starts");
    until("both are reserved", LONG, || {
        [5000, 5001]
            .iter()
            .all(|port| rig.reserved("r1", *port).len() == 1)
    });
    assert_eq!(interface_of(&rig, 5000), Some("wan0".into()));
    assert_eq!(interface_of(&rig, 5001), Some("lan0".into()));
    let reserved = rig.reserved("r1", 5001);
    assert!(reserved[0].0.is_some(), "enforced by a class: {reserved:?}");
    for managed in ["wan0", "lan0"] {
        assert_eq!(classes_on(&rig, managed), 1, "of {managed}");
    }
    a_bump_in_the_wire_carries_frames(&rig);
    // One direction ends, and the other stays.
    drop(there);
    until("one is torn down", LONG, || classes_on(&rig, "wan0") == 0);
    assert_eq!(classes_on(&rig, "lan0"), 1);
    drop(back);
    until("the other, too", LONG, || classes_on(&rig, "lan0") == 0);
}

fn a_bump_in_the_wire_carries_frames(rig: &Rig) {
    let before = sent_by(rig, "bump1");
    let stream = Stream {
        to: SocketAddr::from(([10, 0, 9, 2], 7000)),
        shape: TrafficShape::per_second(100, 500, Duration::from_millis(500)),
    };
    let stream = stream.start(&rig.hosts[0], &rig.hosts[3]).expect("a stream");
    let report = stream.finish().expect("a report");
    assert!(report.sent > 0);
    let arrived = report.arrivals.len() as u64;
    assert!(2 * arrived > report.sent, "{arrived} of {}", report.sent);
    assert!(sent_by(rig, "bump1") >= before + arrived);
}

fn interface_of(rig: &Rig, port: u16) -> Option<String> {
    let of = |sender: &SenderView| sender.flow.port == port;
    let sender = rig.status("r1").senders.into_iter().find(of)?;
    Some(sender.reservations.first()?.interface.clone())
}

/// The classes of reservations on an interface of r1.
fn classes_on(rig: &Rig, interface: &str) -> usize {
    let classes = managed(rig, interface).classes;
    let reserved = classes.iter().filter(|class| class.name.starts_with("resv-"));
    reserved.count()
}

/// The packets that an interface of r1 has sent.
fn sent_by(rig: &Rig, interface: &str) -> u64 {
    let classes = managed(rig, interface).classes;
    classes.iter().map(|class| class.traffic.sent_packets).sum()
}

/// What r1 says of an interface that it manages.
fn managed(rig: &Rig, interface: &str) -> InterfaceView {
    let mut client = Client::connect(Some(&rig.socket(Rig::at("r1")))).expect("it answers");
    let snapshot = client.status(Duration::ZERO, false).expect("a status");
    let mut interfaces = snapshot.interfaces.into_iter();
    let found = interfaces.find(|found| found.name == interface);
    found.expect("it is managed")
}
