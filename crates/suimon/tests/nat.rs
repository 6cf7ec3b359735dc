//! A router that translates addresses, and `suimon run` on its line with `nat`: hosts behind it are
//! told apart by what the kernel says of their connections.
//!
//! ```text
//!  one, 192.168.1.2 ── lan0 ┐
//!                           router: masquerade ── wan0, 198.51.100.1 ── far, 198.51.100.9
//!  two, 192.168.2.2 ── lan1 ┘
//! ```

#[path = "stubs/answering.rs"]
mod answering;
#[path = "stubs/directory.rs"]
mod directory;

use answering::answering;
use control::snapshot::Snapshot;
use directory::TestDirectory;
use lab::traffic::tcp::{Bulk, BulkRun};
use lab::{Host, Lab, Running};
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

/// What leaves the line is of the router; what arrives for its port 2222 is two's.
const RULES: &str = "table ip nat {\n\
    chain leave { type nat hook postrouting priority 100; oifname \"wan0\" masquerade; }\n\
    chain arrive { type nat hook prerouting priority -100; iifname \"wan0\" tcp dport 2222 dnat to 192.168.2.2:9000; }\n\
    }\n";

/// A router with two hosts behind.
struct Home {
    _lab: Lab,
    one: Host,
    two: Host,
    router: Host,
    far: Host,
    files: TestDirectory,
}

impl Home {
    /// `None`, and reported as skipped, where this machine cannot translate.
    fn new(name: &str) -> Option<Self> {
        let mut lab = Lab::new();
        let [one, two, router, far] =
            ["one", "two", "router", "far"].map(|host| lab.host(host).expect("a host"));
        let links = [(&one, "lan0"), (&two, "lan1"), (&far, "wan0")];
        for (host, port) in links {
            lab.veth((host, "eth0"), (&router, port)).expect("a link");
        }
        for (host, interface, address) in [
            (&one, "eth0", "192.168.1.2/24"),
            (&two, "eth0", "192.168.2.2/24"),
            (&router, "lan0", "192.168.1.1/24"),
            (&router, "lan1", "192.168.2.1/24"),
            (&router, "wan0", "198.51.100.1/24"),
            (&far, "eth0", "198.51.100.9/24"),
        ] {
            let address = address.parse().expect("an address");
            host.address(interface, address).expect("it is set");
        }
        for (host, gateway) in [(&one, "192.168.1.1"), (&two, "192.168.2.1")] {
            host.default_route(gateway.parse().expect("an address"))
                .expect("a route");
        }
        router.forward().expect("it forwards");
        let files = TestDirectory::new(name);
        let rules = files.write("rules.nft", RULES);
        let set = router.program("nft").args(["-f", &rules]);
        let why = match set.limit(Duration::from_secs(20)).output() {
            Ok(output) if output.status.success() => None,
            Ok(output) => Some(output.err),
            Err(why) => Some(why.to_string()),
        };
        if let Some(why) = why {
            skips::skipped(format_args!("nft does not translate here: {why}"));
            return None;
        }
        Some(Self {
            _lab: lab,
            one,
            two,
            router,
            far,
            files,
        })
    }

    /// `suimon run` with both directions of the line, `nat` or not.
    fn run(&self, nat: bool, out: &str, back: &str) -> Option<Running> {
        let policy = format!(
            "version = 1\n[port]\negress = \"wan0\"\ningress = \"wan0\"\n\
             [interface.wan0]\nbandwidth = \"20 Mbit/s\"\nnat = {nat}\nexperience = \"hosts\"\n{out}\n\
             [interface.\"wan0:in\"]\nbandwidth = \"50 Mbit/s\"\nexperience = \"hosts\"\n{back}\n"
        );
        let policy = self.files.write("policy.toml", &policy);
        let program = self.router.program(env!("CARGO_BIN_EXE_suimon"));
        let program = program.args(["run", &policy, "--socket", &self.files.path("s.sock")]);
        let running = program
            .limit(Duration::from_secs(120))
            .start()
            .expect("it starts");
        answering(running, &self.files.path("s.sock"), Duration::from_secs(20), &[])
    }

    fn status(&self) -> Snapshot {
        let mut program = Command::new(env!("CARGO_BIN_EXE_suimon"));
        let program = program.args([
            "status",
            "--json",
            "--interval",
            "0s",
            "--socket",
            &self.files.path("s.sock"),
        ]);
        serde_json::from_slice(&program.output().expect("it runs").stdout).expect("a snapshot")
    }

    /// A transfer of a host to the far one.
    fn upload(&self, from: &Host, port: u16, seconds: u64) -> BulkRun {
        let to = SocketAddr::from(([198, 51, 100, 9], port));
        let bulk = Bulk::new(to, Duration::from_secs(seconds));
        bulk.start(from, &self.far).expect("a transfer")
    }

    /// What part of both hosts' payload the first one's single upload had beside six of the other,
    /// in the last three of five seconds, in per cent.
    fn share_of_one_beside_six(&self) -> u64 {
        let single = self.upload(&self.one, 5_000, 5);
        let six: Vec<_> = (1..=6)
            .map(|nth| self.upload(&self.two, 5_000 + nth, 5))
            .collect();
        std::thread::sleep(Duration::from_secs(2));
        let total = || six.iter().map(|run| run.received()).sum::<u64>();
        let before = (single.received(), total());
        std::thread::sleep(Duration::from_millis(2_700));
        let (one, two) = (single.received() - before.0, total() - before.1);
        single.finish().expect("an end");
        six.into_iter()
            .for_each(|run| drop(run.finish().expect("an end")));
        assert!(
            one + two > 3_000_000,
            "the link was not used: {one} and {two} bytes"
        );
        100 * one / (one + two)
    }
}

const FAIR: [&str; 2] = [
    "discipline = { kind = \"cake\", fair = \"dual-srchost\" }",
    "discipline = { kind = \"cake\", fair = \"dual-dsthost\" }",
];

/// The claim itself, and that it is `nat` that does it.
#[test]
fn each_host_behind_a_translating_router_has_its_share() {
    lab::isolated(|| {
        let Some(home) = Home::new("shares") else { return };
        for (nat, least, most) in [(true, 43, 57), (false, 5, 30)] {
            let [out, back] = FAIR;
            let Some(running) = home.run(nat, out, back) else {
                return;
            };
            let share = home.share_of_one_beside_six();
            assert!((least..=most).contains(&share), "{nat}: {share} per cent");
            let hosts: Vec<String> = home
                .status()
                .interfaces
                .iter()
                .filter(|of| of.name == "wan0:in")
                .flat_map(|of| of.hosts.iter().map(|host| host.address.to_string()))
                .collect();
            let behind = ["192.168.1.2", "192.168.2.2"].map(|host| hosts.iter().any(|seen| seen == host));
            assert_eq!(behind, [nat; 2], "{hosts:?}");
            for of in home.status().interfaces {
                let known = of
                    .nat
                    .map(|of| (of.connections >= 7, of.without_room, of.listed_again));
                assert_eq!(known, nat.then_some((true, 0, 0)), "{:?}", of.nat);
            }
            drop(running.kill());
        }
    });
}

/// Filters by the addresses of hosts behind, of connections from both sides, in both directions.
#[test]
fn filters_see_hosts_behind_a_translating_router() {
    lab::isolated(|| {
        let Some(home) = Home::new("filters") else { return };
        let classes = |name: &str, end: &str| {
            format!(
                "discipline = \"drr\"\n\
                 [[interface.{name}.class]]\nname = \"two\"\n\
                 [[interface.{name}.class]]\nname = \"rest\"\ndefault = true\n\
                 [[interface.{name}.filter]]\nclass = \"two\"\n{end} = \"192.168.2.2\"\n"
            )
        };
        let [out, back] = [classes("wan0", "source"), classes("\"wan0:in\"", "destination")];
        let Some(_running) = home.run(true, &out, &back) else {
            return;
        };
        let sent = || {
            let snapshot = home.status();
            let of = |interface: &str, class: &str| {
                let found = snapshot.interfaces.iter().find(|of| of.name == interface);
                let mut classes = found.expect("it is managed").classes.iter();
                let class = classes.find(|of| of.name == class).expect("it is there");
                class.traffic.sent_bytes
            };
            [
                ("wan0", "two"),
                ("wan0", "rest"),
                ("wan0:in", "two"),
                ("wan0:in", "rest"),
            ]
            .map(|(interface, class)| of(interface, class))
        };
        let moved = |work: &dyn Fn()| {
            let before = sent();
            work();
            let after = sent();
            [0, 1, 2, 3].map(|index| after[index] - before[index])
        };
        // Beginnings of connections are the router's own until the kernel has told of them.
        const FEW: u64 = 20_000;
        let from_two = moved(&|| drop(home.upload(&home.two, 6_000, 2).finish().expect("an end")));
        assert!(from_two[0] > 1_000_000 && from_two[1] < FEW, "{from_two:?}");
        assert!(from_two[2] > FEW && from_two[3] < FEW, "{from_two:?}");
        let from_one = moved(&|| drop(home.upload(&home.one, 6_001, 2).finish().expect("an end")));
        assert!(from_one[0] < FEW && from_one[1] > 1_000_000, "{from_one:?}");
        // The far host connects to the router, and two answers.
        let to_two = moved(&|| {
            let listens = home
                .two
                .call(|| TcpListener::bind("192.168.2.2:9000").expect("a socket"));
            let listens = listens.expect("its host");
            let served = std::thread::spawn(move || {
                let (mut stream, _) = listens.accept().expect("a connection");
                stream.write_all(&[7; 3_000_000]).expect("it is sent");
            });
            let read = || {
                let mut stream = TcpStream::connect("198.51.100.1:2222").expect("a connection");
                std::io::copy(&mut stream, &mut std::io::sink()).expect("it is read")
            };
            assert_eq!(home.far.call(read).expect("its host"), 3_000_000);
            served.join().expect("an end");
        });
        assert!(to_two[0] > 1_000_000 && to_two[1] < FEW, "{to_two:?}");
        assert!(to_two[2] > FEW && to_two[3] < FEW, "{to_two:?}");
    });
}
