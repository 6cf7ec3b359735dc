//! Keys (RFC 2747): only neighbours with the keys are trusted.

use crate::rig::{LONG, Plan, R, Rig, SLACK, framed, in_turn, keep, kill, send, until};
use netio::interface::Interface;
use netio::signalling::{Arrival, Envelope, Signalling};
use rsvp::wire::{Hop, Message, PathTear, SenderTemplate, Session};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// One key between the routers, another for the hosts, of the algorithm of old nodes.
const HOSTS: &str = "[[key]]\nid = 2\nsecret = \"for the hosts of this site\"\nalgorithm = \"hmac-md5\"\n";
const ROUTERS: &str = "[[key]]\nid = 1\nsecret = \"hex:00112233445566778899aabbccddeeff\"\ninterface = \"wan0\"\n\
                       [[key]]\nid = 2\nsecret = \"for the hosts of this site\"\nalgorithm = \"hmac-md5\"\ninterface = \"lan0\"\n";
const WRONG: &str = "[[key]]\nid = 1\nsecret = \"hex:ff112233445566778899aabbccddeeff\"\n";

#[test]
fn neighbours_with_the_same_keys_are_trusted_and_others_are_not() {
    let plan = Plan {
        routers: ["keys = \"@/r1.keys\"", "keys = \"@/r2.keys\""],
        hosts: &["--keys", "@/hosts.keys"],
        files: &[("r1.keys", ROUTERS), ("r2.keys", WRONG), ("hosts.keys", HOSTS)],
        ..Plan::default()
    };
    in_turn(|| lab::isolated(|| Rig::start(&plan).into_iter().for_each(trusted)));
}

fn explained(rig: &Rig, name: &str, what: &str) -> bool {
    rig.output(name, &["reserve", "explain"]).out.contains(what)
}

fn trusted(mut rig: Rig) {
    wrong_key(&rig);
    // A new file replaces it, and takes effect without a restart.
    keep(&rig.files.join("r2.keys"), ROUTERS);
    let held = rig.hold("10.0.3.2:5000", "4M");
    until("it is reserved", LONG, || {
        rig.reserved("r1", 5000).len() == 1 && rig.reserved("r2", 5000).len() == 1
    });
    let status = rig.output("r2", &["reserve", "status"]).out;
    assert!(status.contains("messages must carry INTEGRITY"), "{status}");
    let other = rig.hold("[fd00:3::2]:5001", "4M");
    until("IPv6 works the same way", LONG, || {
        rig.reserved("r1", 5001).len() == 1 && rig.reserved("r2", 5001).len() == 1
    });
    kill(other.id(), "TERM");
    until("it is torn", Duration::from_secs(4), || {
        rig.classes("r1").len() == 1 && rig.classes("r2").len() == 1
    });
    forged(&rig);
    replayed(&rig);
    assert_eq!(
        (rig.reserved("r1", 5000).len(), rig.reserved("r2", 5000).len()),
        (1, 1)
    );
    // A router that has lost its neighbours' sequence numbers challenges them.
    let r1 = Rig::at("r1");
    rig.running[r1].take().expect("it runs").kill().expect("its end");
    assert!(rig.launch(r1), "it ran before");
    until("it is back", 3 * R + SLACK, || {
        rig.reserved("r1", 5000).len() == 1
    });
    kill(held.id(), "TERM");
    until("it is torn", Duration::from_secs(4), || {
        rig.classes("r1").is_empty() && rig.classes("r2").is_empty()
    });
}

fn wrong_key(rig: &Rig) {
    let keys = rig.files.join("hosts.keys").display().to_string();
    let arguments = [
        "reserve",
        "--to",
        "10.0.3.2:5000",
        "--rate",
        "4M",
        "--wait",
        "2s",
        "--refresh",
        "1s",
    ];
    let output = rig
        .suimon("a", &arguments)
        .args(["--keys", &keys, "--", "true"])
        .limit(Duration::from_secs(20))
        .output()
        .expect("it ends");
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    for router in ["r1", "r2"] {
        assert_eq!(rig.classes(router), [""; 0], "{router}");
    }
    assert!(rig.status("r2").senders.is_empty(), "no state was created there");
    let why = rig.output("r2", &["reserve", "explain"]).out;
    assert!(
        why.contains("messages from 10.0.2.1 were dropped: the digest is wrong"),
        "{why}"
    );
    let status = rig.output("r2", &["reserve", "status"]).out;
    assert!(status.contains("messages failed the integrity check"), "{status}");
}

/// A host without a key tries to tear down the reservations of others.
fn forged(rig: &Rig) {
    let a = IpAddr::from([10, 0, 1, 1]);
    let b = IpAddr::from([10, 0, 3, 2]);
    let tear = framed(Message::PathTear(PathTear {
        session: Session {
            destination: b,
            protocol: 17,
            port: 5000,
            police: false,
        },
        hop: Hop { address: a, lih: 0 },
        sender: SenderTemplate::Port { address: a, port: 0 },
    }));
    let envelope = Envelope {
        source: a,
        destination: b,
        ttl: 64,
        alert: true,
    };
    send(
        &rig.hosts[Rig::at("a")],
        "eth0",
        envelope,
        &tear.encode().expect("it fits"),
    );
    until("r1 reports that it had no key", LONG, || {
        explained(
            rig,
            "r1",
            "messages from 10.0.1.1 were dropped: they carry no INTEGRITY",
        )
    });
}

/// A host replays a neighbour's message.
fn replayed(rig: &Rig) {
    let caught = rig.hosts[Rig::at("b")].call(|| {
        let index = Interface::named("eth0").expect("it is there").index;
        let mut signalling = Signalling::open("eth0", index).expect("a socket");
        let until = Instant::now() + LONG;
        while Instant::now() < until {
            if let Ok(Some((arrival, bytes))) = signalling.receive() {
                return Some((arrival, bytes.to_vec()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    });
    let (arrival, bytes): (Arrival, Vec<u8>) = caught.expect("a thread").expect("a refresh arrives");
    let envelope = Envelope {
        source: arrival.source,
        destination: IpAddr::from([10, 0, 3, 2]),
        ttl: arrival.ttl,
        alert: false,
    };
    send(&rig.hosts[Rig::at("r2")], "lan0", envelope, &bytes);
    until("b reports that it was received before", LONG, || {
        explained(rig, "b", "they were received before")
    });
}
