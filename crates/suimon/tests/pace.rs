//! `suimon pace` from the command line, on a pair of interfaces: what it refuses and why, the
//! rate of real TCP, a rate changed by one command, its reported precision, and traffic that
//! flows on when it is killed.
//!
//! Skipped, and reported as such, where the machine forbids BPF. Rates are asserted with room for
//! a busy machine.

#[path = "stubs/answering.rs"]
mod answering;

use answering::answering;
use control::protocol::{Reply, Request};
use control::snapshot::StatusDetail;
use control::socket::Client;
use engine::units::Bandwidth;
use lab::traffic::tcp::{Bulk, BulkRun};
use lab::{Host, Lab, Output, Running};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

struct Rig {
    _lab: Lab,
    a: Host,
    b: Host,
    socket: PathBuf,
}

impl Drop for Rig {
    /// A program that was killed leaves its socket behind.
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.socket);
    }
}

impl Rig {
    fn new(which: &str) -> Self {
        let mut lab = Lab::new();
        let [a, b] = ["a", "b"].map(|name| lab.host(name).expect("a host"));
        lab.veth((&a, "eth0"), (&b, "eth0")).expect("a pair");
        for (host, address) in [(&a, "10.0.0.1/24"), (&b, "10.0.0.2/24")] {
            host.address("eth0", address.parse().expect("an address"))
                .expect("set");
        }
        let socket = std::env::temp_dir().join(format!("suimon-pace-{which}-{}.sock", std::process::id()));
        Self {
            _lab: lab,
            a,
            b,
            socket,
        }
    }

    fn program(&self, arguments: &[&str]) -> lab::Program {
        let socket = self.socket.display().to_string();
        let all = arguments.iter().copied().chain(["--socket", socket.as_str()]);
        let program = self.a.program(env!("CARGO_BIN_EXE_suimon")).args(all);
        program.limit(Duration::from_secs(60))
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.program(arguments).output().expect("it ends")
    }

    /// Starts pacing, and returns once it responds; `None` if the machine forbids it.
    fn pace(&self, more: &[&str]) -> Option<Running> {
        let running = self
            .program(&[&["pace", "eth0"], more].concat())
            .start()
            .expect("it starts");
        let socket = self.socket.display().to_string();
        answering(running, &socket, Duration::from_secs(20), &[])
    }

    fn tcp(&self) -> BulkRun {
        let to = SocketAddr::from(([10, 0, 0, 2], 6_000));
        Bulk::new(to, Duration::from_secs(30))
            .start(&self.a, &self.b)
            .expect("a transfer")
    }
}

/// The rate of frames with FCS over a second, computed from TCP's data.
fn measured(run: &BulkRun) -> f64 {
    let (before, begin) = (run.received(), Instant::now());
    std::thread::sleep(Duration::from_secs(1));
    let bytes = (run.received() - before) as f64 * 1_518.0 / 1_448.0;
    bytes * 8.0 / begin.elapsed().as_secs_f64() / 1e6
}

/// Returns whether it reaches this rate in Mbit/s within a time limit; a busy machine takes longer.
fn settles(run: &BulkRun, rate: f64) -> bool {
    (0..10).any(|_| {
        let measured = measured(run);
        eprintln!("{measured:.2} of {rate} Mbit/s");
        (rate * 0.93..rate * 1.03).contains(&measured)
    })
}

#[test]
fn a_hosts_egress_is_paced_and_one_command_changes_the_rate() {
    lab::isolated(|| {
        let rig = Rig::new("rate");
        let Some(pacing) = rig.pace(&["--rate", "40Mbit/s"]) else {
            return;
        };
        let tcp = rig.tcp();
        assert!(settles(&tcp, 40.0));
        let set = rig.run(&["set", "eth0", "all", "rate=10Mbit/s"]);
        assert!(
            set.status.success() && set.out.contains("rate = 10Mbit/s"),
            "{set:?}"
        );
        assert!(settles(&tcp, 10.0));
        // A second one explains how to change the rate.
        let second = rig.run(&["pace", "eth0", "--rate", "20Mbit/s"]);
        assert!(
            second.status.code() == Some(2) && second.err.contains("suimon set eth0 all rate="),
            "{second:?}"
        );
        let status = rig.run(&["status"]);
        for word in ["realiser timer", "late-p99", "late-starts", "held-up"] {
            assert!(status.out.contains(word), "{word} is missing in {}", status.out);
        }
        let request = Request::Status {
            interval_ms: 0,
            follow: false,
            detail: StatusDetail::Full,
        };
        let mut client = Client::connect(rig.socket.to_str()).expect("it answers");
        let Reply::Status(seen) = client.ask(&request).expect("an answer") else {
            panic!("no status")
        };
        let gauge = |name: &str| {
            let gauges = &seen.interfaces[0].gauges;
            gauges
                .iter()
                .find(|gauge| gauge.name == name)
                .and_then(|gauge| gauge.value.as_u64())
        };
        assert!(gauge("waited") > Some(100), "{seen:?}");
        let output = pacing.kill().expect("its output");
        // After the kill the kernel's own path is used, at its own speed.
        let free = (0..10).map(|_| measured(&tcp)).find(|measured| *measured > 60.0);
        assert!(free.is_some(), "traffic does not flow on");
        let said = output.err + &output.out;
        for word in [
            "launch times are ignored",
            "does not serialise frames",
            "by timers",
            "frame-fcs",
            "without suimon",
        ] {
            let rings = word == "does not serialise frames" && said.contains("transmit rings");
            assert!(rings || said.contains(word), "{word} is missing in {}", said);
        }
    });
}

#[test]
fn an_unusable_realiser_is_refused_with_the_reason() {
    lab::isolated(|| {
        let rig = Rig::new("refused");
        let refused = |more: &[&str]| {
            let output = rig.run(&[&["pace", "eth0"], more].concat());
            assert!(!output.status.success() && !output.timed_out, "{output:?}");
            (output.status.code(), output.err)
        };
        let (code, why) = refused(&["--rate", "100Mbit/s", "--realiser", "gap"]);
        if !why.contains("not permitted") {
            assert!(
                why.contains("does not serialise frames") || why.contains("transmit rings"),
                "{why}"
            );
            assert!(code == Some(2) && why.contains("gap = \"timer\""), "{why}");
            let (_, why) = refused(&["--rate", "100Mbit/s", "--realiser", "launch"]);
            assert!(why.contains("launch times are ignored"), "{why}");
        }
        // 1 Gbit/s of frames exceeds a wire of 1 Gbit/s; 1 Gbit/s of slots does not.
        let (code, why) = refused(&["--rate", "125MB/s", "--wire", "1Gbit/s", "--realiser", "timer"]);
        assert!(
            code == Some(2) && why.contains("126.65 MB/s of the wire, which carries 125.00 MB/s"),
            "{why}"
        );
        let output = rig.run(&["pace", "eht0", "--rate", "1Mbit/s"]);
        assert!(
            output.status.code() == Some(2) && output.err.contains("did you mean `eth0`?"),
            "{output:?}"
        );
    });
}

#[test]
fn each_second_is_an_object_in_json_and_the_end_is_clean() {
    lab::isolated(|| {
        let rig = Rig::new("json");
        let more = [
            "--rate",
            "30Mbit/s",
            "--basis",
            "wire",
            "--realiser",
            "timer",
            "--wire",
            "1Gbit/s",
            "--json",
            "--fail-closed",
        ];
        let Some(pacing) = rig.pace(&more) else { return };
        let limit = || netio::fail_closed::rate_of(netio::interface::Interface::named("eth0")?.index);
        let limit = || rig.a.call(limit).expect("a thread").expect("the qdiscs");
        let tcp = rig.tcp();
        std::thread::sleep(Duration::from_millis(2_500));
        assert_eq!(limit(), Some(Bandwidth::mbit(30)), "the kernel's limit");
        let detached = rig.run(&["detach"]);
        assert!(detached.status.success(), "{detached:?}");
        let output = pacing.wait().expect("it ends");
        assert!(output.status.success(), "{output:?}");
        assert_eq!(limit(), None, "the kernel's limit after a clean end");
        let lines: Vec<serde_json::Value> = output
            .out
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        let last = lines.last().expect("a line");
        assert_eq!(
            (&last["basis"], &last["realiser"]),
            (&"wire".into(), &"timer".into())
        );
        let rate = last["rate_bps"].as_u64().expect("a number");
        eprintln!("{last}");
        assert!(rate <= Bandwidth::mbit(33).bits(), "{last}");
        drop(tcp);
    });
}
