//! A quota on real sockets: `suimon run` on a host, both directions of its interface managed,
//! counts what a peer sends and receives, gives it the smaller rate once that is used up, and goes
//! on so after `kill -9`.
//!
//! Skipped, and reported as such, where the machine forbids BPF.

#[path = "stubs/answering.rs"]
mod answering;
#[allow(dead_code, reason = "other tests use more of it")]
#[path = "stubs/directory.rs"]
mod directory;
#[path = "stubs/until.rs"]
mod until;

use answering::answering;
use control::snapshot::ClassView;
use control::socket::Client;
use directory::TestDirectory;
use lab::traffic::tcp::Bulk;
use lab::{Host, Lab, Running};
use serde_json::Value;
use std::process::Command;
use std::time::Duration;
use until::until;

const SUIMON: &str = env!("CARGO_BIN_EXE_suimon");
const PATIENCE: Duration = Duration::from_secs(30);
const VOLUME: u64 = 3_000_000;

fn policy() -> String {
    let interface = |name: &str, rest: &str| {
        format!(
            "[interface.{name}]\nbandwidth = \"40 Mbit/s\"\ndiscipline = \"hfsc\"\n\
             [[interface.{name}.class]]\nname = \"peer\"\nlinkshare = \"20 Mbit/s\"\n\
             quota = {{ volume = \"3 MB per month\", then = {{ upperlimit = \"400 kbit/s\" }} }}\n\
             [[interface.{name}.class]]\nname = \"others\"\nlinkshare = \"20 Mbit/s\"\ndefault = true\n\
             [[interface.{name}.filter]]\nclass = \"peer\"\n{rest} = \"10.0.0.2\"\n"
        )
    };
    format!(
        "version = 1\n[port]\negress = \"eth0\"\ningress = \"eth0\"\n{}{}",
        interface("eth0", "destination"),
        interface("\"eth0:in\"", "source")
    )
}

/// `suimon run` with a state; `None` if the machine forbids it.
fn run(on: &Host, files: &TestDirectory) -> Option<Running> {
    let [policy, socket, state] = ["policy.toml", "control.sock", "state"].map(|name| files.path(name));
    let words = ["run", &policy, "--socket", &socket, "--state", &state];
    let program = on.program(SUIMON).args(words).limit(Duration::from_secs(100));
    answering(program.start().expect("it starts"), &socket, PATIENCE, &[])
}

/// The class of both directions, over this time.
fn peer(files: &TestDirectory, over: Duration) -> [ClassView; 2] {
    let mut client = Client::connect(Some(&files.path("control.sock"))).expect("it answers");
    let now = client.status(over, false).expect("a status");
    ["eth0", "eth0:in"].map(|name| {
        let mut interfaces = now.interfaces.iter();
        let interface = interfaces.find(|one| one.name == name).expect(name);
        let class = interface.classes.iter().find(|class| class.name == "peer");
        class.expect("the class").clone()
    })
}

fn used_up(files: &TestDirectory) -> bool {
    let quota = peer(files, Duration::ZERO)[0].quota.clone();
    quota.expect("a quota").used_up
}

/// The numbers of what `suimon history` shows.
fn generations(files: &TestDirectory) -> Vec<u64> {
    let socket = files.path("control.sock");
    let shown = Command::new(SUIMON)
        .args(["history", "--json", "--socket", &socket])
        .output();
    let shown: Value = serde_json::from_slice(&shown.expect("it runs").stdout).expect("JSON");
    let all = shown["generations"].as_array().expect("generations").iter();
    all.filter_map(|generation| generation["number"].as_u64())
        .collect()
}

#[test]
fn a_peer_has_the_smaller_rate_once_its_quota_is_used_up_also_after_a_crash() {
    lab::isolated(|| {
        let mut lab = Lab::new();
        let [own, other] = ["own", "other"].map(|name| lab.host(name).expect("a host"));
        lab.veth((&own, "eth0"), (&other, "eth0")).expect("a pair");
        for (host, address) in [(&own, "10.0.0.1/24"), (&other, "10.0.0.2/24")] {
            host.address("eth0", address.parse().expect("an address"))
                .expect("set");
        }
        let files = TestDirectory::new("quota");
        files.write("policy.toml", &policy());
        let Some(suimon) = run(&own, &files) else { return };
        let bulk = Bulk::new(([10, 0, 0, 2], 5_001).into(), Duration::from_secs(90));
        let transfer = bulk.start(&own, &other).expect("a transfer");
        assert!(
            until(PATIENCE, || used_up(&files)),
            "{:?}",
            peer(&files, Duration::ZERO)
        );

        // Both directions are in the count, and both have the smaller rate.
        let [out, back] = peer(&files, Duration::ZERO);
        let quota = out.quota.clone().expect("a quota");
        assert_eq!(Some(&quota), back.quota.as_ref());
        assert!(
            quota.used_bytes >= VOLUME && back.traffic.sent_bytes > 0,
            "{quota:?}"
        );
        assert!(quota.used_bytes <= out.traffic.sent_bytes + back.traffic.sent_bytes);
        let slow = || {
            let [out, _] = peer(&files, Duration::from_secs(1));
            out.traffic.got_bps.is_some_and(|bps| bps > 0 && bps <= 450_000)
        };
        assert!(
            until(PATIENCE, slow),
            "{:?}",
            peer(&files, Duration::from_secs(1))
        );

        // Nobody has changed anything.
        assert_eq!(generations(&files), [1]);

        // `status` tells it, and until when.
        let status = Command::new(SUIMON)
            .args([
                "status",
                "--interval",
                "0s",
                "--socket",
                &files.path("control.sock"),
            ])
            .output()
            .expect("it runs");
        let status = String::from_utf8_lossy(&status.stdout).into_owned();
        assert!(status.contains("peer: quota used up: "), "{status}");
        assert!(
            status.contains(" of 3 MB per month, which begins anew 20"),
            "{status}"
        );

        // The transfer goes on without suimon, and so is not counted meanwhile.
        let killed = suimon.kill().expect("it is killed");
        assert!(
            !killed.out.contains("panicked") && !killed.err.contains("panicked"),
            "{killed:?}"
        );
        let Some(suimon) = run(&own, &files) else {
            panic!("it ran before")
        };
        assert!(
            until(PATIENCE, || used_up(&files)),
            "{:?}",
            peer(&files, Duration::ZERO)
        );
        assert!(
            until(PATIENCE, slow),
            "{:?}",
            peer(&files, Duration::from_secs(1))
        );
        assert_eq!(generations(&files), [1], "after a crash and a start, too");
        transfer.stop();
        drop(suimon);
    });
}
