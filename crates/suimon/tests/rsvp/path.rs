//! The life of a reservation along a path: made, refreshed, changed, refused, repaired, torn down,
//! timed out.

use crate::rig::{LIFETIME, LONG, Plan, R, RESERVABLE, Rig, SLACK, in_turn, kill, until};
use lab::traffic::udp::StreamRun;
use std::cell::Cell;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

#[test]
fn reserve_change_refuse_repair_and_tear_along_a_path() {
    in_turn(|| lab::isolated(|| Rig::start(&Plan::default()).into_iter().for_each(along_a_path)));
}

fn along_a_path(mut rig: Rig) {
    let first = rig.hold("10.0.3.2:5000", "8M");
    until("the first is reserved", LONG, || {
        rig.reserved("r1", 5000).len() == 1 && rig.reserved("r2", 5000).len() == 1
    });
    // It uses the node that the first has started.
    let second = rig.hold("10.0.3.2:5001", "6M");
    until("the second is reserved", LONG, || {
        rig.reserved("r1", 5001).len() == 1 && rig.reserved("r2", 5001).len() == 1
    });
    for (router, classes) in [("r1", ["resv-1", "resv-2"]), ("r2", ["resv-1", "resv-2"])] {
        assert_eq!(rig.classes(router), classes, "{router}");
    }

    traffic_keeps_its_reservation_while_others_are_refused(&rig);
    changes_apply_along_the_whole_path_or_not_at_all(&rig);

    // The router in the middle is killed, and restarts.
    let r1 = Rig::at("r1");
    rig.running[r1].take().expect("it runs").kill().expect("its end");
    assert!(rig.launch(r1), "it ran before");
    let back = until("both are back", 3 * R + SLACK, || {
        rig.reserved("r1", 5000).len() == 1 && rig.reserved("r1", 5001).len() == 1
    });
    eprintln!("two refresh periods are at most {:?}; it took {back:?}", 3 * R);
    assert_eq!(rig.classes("r1").len(), 2, "no orphan");
    assert_eq!(
        rig.classes("r2"),
        ["resv-1", "resv-2"],
        "the neighbour keeps both and no other"
    );

    // An end is signalled; the other reservation stays.
    kill(second.id(), "TERM");
    assert_eq!(second.wait().expect("its end").status.code(), Some(128 + 15));
    until("the second is torn", LIFETIME - 3 * R / 2, || {
        rig.classes("r1").len() == 1 && rig.classes("r2").len() == 1
    });
    // If killed, it cannot signal its end; the node that it started can.
    let begin = Instant::now();
    kill(first.id(), "KILL");
    until("the first is torn after a kill", LIFETIME - 3 * R / 2, || {
        rig.classes("r1").is_empty() && rig.classes("r2").is_empty()
    });
    assert!(begin.elapsed() < LIFETIME - 3 * R / 2, "it timed out instead");
    drop(first);
    until("b has removed both", LONG, || rig.status("b").senders.is_empty());
}

/// Two streams within their reservations, one far above the remaining rate, and a request that
/// does not fit.
fn traffic_keeps_its_reservation_while_others_are_refused(rig: &Rig) {
    // 1000 bytes of IP each, so 7.2, 5.6 and 40 Mbit/s of IP.
    let span = Duration::from_secs(2);
    let mut lost = (0.0, 0.0);
    for _ in 0..4 {
        let streams = [(5000, 900), (5001, 700)].map(|(port, rate)| rig.udp(port, rate, span));
        let flood = rig.udp(6000, 5000, span);
        std::thread::sleep(span / 4);
        refuse_a_third(rig);
        let share = |stream: StreamRun| {
            let report = stream.finish().expect("a report");
            report.lost() as f64 / report.sent.max(1) as f64
        };
        lost = (streams.map(share).iter().sum::<f64>(), share(flood));
        eprintln!(
            "loss of the reserved flows: {:.4}, of the rest: {:.4}",
            lost.0, lost.1
        );
        // A busy machine may delay the sender of the flood, or the packet loop.
        if lost.0 < 0.01 && lost.1 > 0.1 {
            return;
        }
    }
    panic!(
        "the reserved streams lost {:.4} beside the flood's {:.4}",
        lost.0, lost.1
    );
}

fn refuse_a_third(rig: &Rig) {
    let reserved = || {
        (
            rig.reserved("r1", 5000),
            rig.reserved("r1", 5001),
            rig.classes("r1"),
        )
    };
    let before = reserved();
    let third = [
        "reserve",
        "--to",
        "10.0.3.2:5002",
        "--rate",
        "10M",
        "--json",
        "--",
        "touch",
        "/nonexistent",
    ];
    let refused = rig.output("a", &third);
    assert_eq!(refused.status.code(), Some(6), "{refused:?}");
    let last: serde_json::Value = refused
        .err
        .lines()
        .last()
        .and_then(|line| serde_json::from_str(line).ok())
        .expect("JSON");
    assert_eq!(
        (&last["state"], &last["node"]),
        (&"refused".into(), &"10.0.2.1".into()),
        "{last}"
    );
    // 14 of 20 Mbit/s are taken by packets of 1000 bytes with headers of 14.
    let left = last["left_bps"].as_u64().expect("the available rate");
    assert!((5_500_000..6_000_000).contains(&left), "{left}");
    let explained = rig.output("r1", &["reserve", "explain"]);
    assert!(
        explained
            .out
            .contains("10.0.1.1 -> 10.0.3.2:5002 udp: refused on wan0"),
        "{explained:?}"
    );
    assert!(explained.out.contains("requested 10.14 Mbit/s"), "{explained:?}");
    assert_eq!(reserved(), before, "the others were affected");
}

fn changes_apply_along_the_whole_path_or_not_at_all(rig: &Rig) {
    let status: serde_json::Value =
        serde_json::from_str(&rig.output("a", &["reserve", "status", "--json"]).out).expect("JSON");
    let of = |port: u64| {
        status["senders"]
            .as_array()
            .and_then(|all| all.iter().find(|one| one["flow"]["port"] == port))
    };
    let number = of(5000)
        .and_then(|one| one["number"].as_u64())
        .expect("a number")
        .to_string();
    let change = |rate: &str| rig.output("a", &["reserve", "change", &number, "--rate", rate]);
    let changed = change("9M");
    assert!(changed.status.success(), "{changed:?}");
    for router in ["r1", "r2"] {
        assert_eq!(rig.reserved(router, 5000)[0].1, 9_000_000, "{router}");
    }
    let refused = change("15M");
    assert_eq!(refused.status.code(), Some(6), "{refused:?}");
    assert!(
        refused
            .err
            .contains("10.0.2.1 refuses: the bandwidth is not available"),
        "{refused:?}"
    );
    until("the old rate is in force", LONG, || {
        rig.reserved("r1", 5000)[0].1 == 9_000_000
    });

    let check = |rate: &str| {
        rig.output(
            "a",
            &[
                "reserve",
                "check",
                "--to",
                "10.0.3.2:5003",
                "--rate",
                rate,
                "--json",
            ],
        )
    };
    for (rate, code) in [("3M", 0), ("15M", 6)] {
        let output = check(rate);
        assert_eq!(output.status.code(), Some(code), "{rate}: {output:?}");
        let offer: serde_json::Value = serde_json::from_str(&output.out).expect("JSON");
        assert!(
            offer["left_bps"]
                .as_u64()
                .is_some_and(|left| left < RESERVABLE - 14_000_000),
            "{offer}"
        );
    }
    assert_eq!(rig.classes("r1").len(), 2, "a trial reserves nothing");
    let unknown = rig.output(
        "a",
        &["reserve", "--to", "10.0.3.2:7000", "--rate", "1M", "--", "true"],
    );
    assert_eq!(
        unknown.status.code(),
        Some(6),
        "b does not accept that port: {unknown:?}"
    );
    let passed = rig.output(
        "a",
        &[
            "reserve",
            "--to",
            "10.0.3.2:5004",
            "--rate",
            "1M",
            "--",
            "sh",
            "-c",
            "exit 9",
        ],
    );
    assert_eq!(passed.status.code(), Some(9), "{passed:?}");
    // It ends before its teardown has reached every node.
    until("the ended reservation is torn down", SLACK, || {
        rig.classes("r1").len() == 2 && rig.classes("r2").len() == 2
    });
}

#[test]
fn unrefreshed_state_times_out_and_ipv6_works_the_same_way() {
    in_turn(|| lab::isolated(|| Rig::start(&Plan::default()).into_iter().for_each(times_out)));
}

fn times_out(mut rig: Rig) {
    // Its node is a separate program, which is killed.
    assert!(rig.launch(Rig::at("a")), "others run");
    let held = rig.hold("[fd00:3::2]:5000", "4M");
    until("it is reserved", LONG, || {
        !rig.reserved("r1", 5000).is_empty() && !rig.reserved("r2", 5000).is_empty()
    });
    let sender = rig.status("r1").senders.remove(0);
    assert_eq!(sender.flow.to_string(), "fd00:1::1 -> [fd00:3::2]:5000 udp");
    assert_eq!(sender.previous, "fd00:1::1".parse().ok());
    let class = rig.classes("r1").remove(0);
    let sent = rig.hosts[0].call(|| {
        let udp = UdpSocket::bind("[::]:0").expect("a socket");
        for _ in 0..50 {
            udp.send_to(&[0; 500], "[fd00:3::2]:5000").expect("it is sent");
        }
    });
    sent.expect("a thread");
    until("its packets have passed its class", LONG, || {
        rig.sent("r1", &class) == Some(50)
    });
    let node = rig.running[0].take().expect("it runs");
    // The earliest timeout at r1, as it reports itself.
    let due = Cell::new(Instant::now());
    let look = || {
        let now = Instant::now();
        let status = rig.status("r1");
        let left = status.senders.iter().find_map(|sender| sender.forgotten_in_s);
        if let Some(left) = left {
            due.set(due.get().max(now + Duration::from_secs_f64(left)));
        }
        left
    };
    until("it is refreshed", LONG, || look().is_some_and(|left| left > 5.0));
    node.kill().expect("its end");
    until("it has timed out", LIFETIME + SLACK, || look().is_none());
    let age = Instant::now().duration_since(due.get()) + LIFETIME;
    eprintln!("that is {age:?} after its last refresh");
    assert!(Instant::now() >= due.get(), "it timed out too early");
    assert!(age < LIFETIME + SLACK, "{age:?}");
    until("no class is left", SLACK, || {
        rig.classes("r1").is_empty() && rig.classes("r2").is_empty()
    });
    drop(held);
    // Without an RSVP node and without a reply, the message says so.
    let nobody = rig.output(
        "a",
        &[
            "reserve",
            "--to",
            "10.0.3.99:5000",
            "--rate",
            "1M",
            "--wait",
            "1s",
            "--",
            "true",
        ],
    );
    assert_eq!(nobody.status.code(), Some(7), "{nobody:?}");
}
