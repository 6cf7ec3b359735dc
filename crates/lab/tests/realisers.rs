//! Realisers on kernel interfaces without a wire: the self-test refuses what cannot work there,
//! with its measurement; timers work.

use engine::discipline::Pacing;
use engine::units::{Bandwidth, Duration};
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
fn a_veth_pair_does_not_serialise_frames_and_ignores_launch_times() {
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
        // In the host's thread: interfaces are looked up in the calling thread's namespace.
        let mut prove = |realiser: &(dyn Realiser + Sync)| {
            let (port, pool) = (&mut port, &mut pool);
            a.call(move || realiser.prove(port, pool))
                .expect("a thread")
                .map_err(|why| why.to_string())
        };
        let gaps = GapFrames::new(GapFrame::Pause, interface.address, wire, mtu);
        let pacing = Pacing {
            wire,
            frames: false,
            period: Duration::ZERO,
        };
        let launch = LaunchTime::new(interface.address, pacing, mtu, None);
        let why = prove(&gaps).expect_err("there is no wire");
        eprintln!("gap frames: {why}");
        assert!(
            why.contains("does not serialise frames") || why.contains("transmit rings"),
            "{why}"
        );
        let why = prove(&launch).expect_err("launch times are ignored");
        eprintln!("launch times: {why}");
        assert!(why.contains("launch times are ignored"), "{why}");
        prove(&Timer::new(pacing, mtu, None)).expect("timers work everywhere");
    });
}
