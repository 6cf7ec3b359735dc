//! Realisers on real interfaces of the kernel that have no wire: the trial refuses what cannot work
//! there, and says what it has measured; timers work.

use engine::units::Bandwidth;
use lab::Lab;
use netio::interface::Interface;
use netio::pool::{Pool, Slots};
use netio::port::{Port, PortError};
use netio::ports::af_packet::{self, AfPacket};
use netio::realiser::Realiser;
use netio::realiser::gap::{GapFrame, GapFrames};
use netio::realiser::launch::LaunchTime;
use netio::realiser::timer::Timer;

#[test]
fn a_pair_of_interfaces_has_no_busy_wire_and_keeps_no_launch_times() {
    lab::isolated(|| {
        let mut lab = Lab::new();
        let [a, b] = ["a", "b"].map(|name| lab.host(name).expect("a host"));
        lab.veth((&a, "eth0"), (&b, "eth0")).expect("a pair");
        let opened = a.call(|| {
            let interface = Interface::named("eth0").expect("it is there");
            let settings = af_packet::Settings {
                receive: false,
                promiscuous: false,
                ..af_packet::Settings::new("eth0")
            };
            Ok::<_, PortError>((interface, AfPacket::open(settings)?))
        });
        let (interface, mut port) = opened.expect("a thread").expect("a port");
        let mut pool = Pool::new(Slots { small: 8, big: 1 }).expect("memory");
        let wire = port.capabilities().speed.unwrap_or(Bandwidth::gbit(10));
        let mtu = interface.mtu;
        // Asked in the host: what the interface is, is asked of the namespace that asks.
        let mut prove = |realiser: &(dyn Realiser + Sync)| {
            let (port, pool) = (&mut port, &mut pool);
            a.call(move || realiser.prove(port, pool))
                .expect("a thread")
                .map_err(|why| why.to_string())
        };
        let gaps = GapFrames::new(GapFrame::Pause, interface.address, wire, mtu);
        let launch = LaunchTime::new(interface.address, wire, mtu);
        let why = prove(&gaps).expect_err("there is no wire");
        eprintln!("gap frames: {why}");
        assert!(
            why.contains("has no wire that is busy") || why.contains("transmit rings"),
            "{why}"
        );
        let why = prove(&launch).expect_err("nobody keeps them");
        eprintln!("launch times: {why}");
        assert!(why.contains("launch times are ignored"), "{why}");
        prove(&Timer::new(wire, mtu)).expect("timers work everywhere");
    });
}
