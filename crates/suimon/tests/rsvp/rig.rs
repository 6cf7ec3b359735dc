//! Two hosts and two routers, and their programs.

use crate::answering::answering;
use control::protocol::{Reply, Request};
use control::reservation::{RsvpStatus, SenderView};
use control::socket::Client;
use lab::traffic::generator::TrafficShape;
use lab::traffic::udp::{Stream, StreamRun};
use lab::{Host, Lab, Output, Running};
use netio::interface::Interface;
use netio::signalling::{Envelope, Signalling};
use rsvp::wire::{Frame, Message};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// One test at a time: they depend on timing.
static TURN: Mutex<()> = Mutex::new(());

/// Half of a link of 40 Mbit/s may be reserved.
pub(crate) const RESERVABLE: u64 = 20_000_000;
pub(crate) const R: Duration = Duration::from_secs(1);
/// (K + 1/2) × 1.5 × R.
pub(crate) const LIFETIME: Duration = Duration::from_millis(5250);
/// The delay that a busy machine may add.
pub(crate) const SLACK: Duration = Duration::from_secs(3);

/// The four nodes, in a row.
const NAMES: [&str; 4] = ["a", "r1", "r2", "b"];

pub(crate) struct Rig {
    _lab: Lab,
    pub(crate) hosts: [Host; 4],
    pub(crate) files: PathBuf,
    pub(crate) running: [Option<Running>; 4],
    pub(crate) plan: Plan,
}

fn unique() -> u128 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |span| span.as_nanos())
}

/// The settings that differ between tests.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The discipline of r1 on wan0, in TOML.
    pub(crate) discipline: &'static str,
    /// A setting of its class, and the end of the line.
    pub(crate) class: &'static str,
    /// More of `reserve` of each router.
    pub(crate) reserve: [&'static str; 2],
    /// More of `[rsvp]` of each router; `@` is the directory of the files.
    pub(crate) routers: [&'static str; 2],
    /// The rules of `accept`.
    pub(crate) accept: &'static [&'static str],
    /// More options of `accept` and `reserve`.
    pub(crate) hosts: &'static [&'static str],
    /// R of all nodes.
    pub(crate) refresh: &'static str,
    /// Files that only their owner may read, by name.
    pub(crate) files: &'static [(&'static str, &'static str)],
    /// A second, unmanaged link between the routers, wan1.
    pub(crate) second: bool,
    /// What the port of r1 is attached to.
    pub(crate) port: &'static str,
    /// The rest of the policy of r1.
    pub(crate) more: &'static str,
    /// A link from a to b through r1, which does not route it: from bump0 to bump1.
    pub(crate) bump: bool,
    /// How long each program may run.
    pub(crate) limit: Duration,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            discipline: "drr",
            class: "",
            reserve: ["", ""],
            routers: ["", ""],
            accept: &["--port", "5000-5010"],
            hosts: &[],
            refresh: "1 s",
            files: &[],
            second: false,
            port: "egress = \"wan0\"",
            more: "",
            bump: false,
            limit: Duration::from_secs(120),
        }
    }
}

impl Plan {
    /// The policies of r1 and r2.
    fn policies(&self) -> [String; 2] {
        let second = if self.second { ", \"wan1\"" } else { "" };
        let policy = |[port, out]: [&str; 2], discipline: &str, class: &str, reserve: &str, rsvp: &str| {
            format!(
                "version = 1\n[port]\n{port}\n\
                 [rsvp]\ninterfaces = [\"wan0\", \"lan0\"{second}]\nrefresh = \"{}\"\n{rsvp}\n\
                 [interface.{out}]\nbandwidth = \"40 Mbit/s\"\ndiscipline = \"{discipline}\"\nreserve = {{ {reserve} }}\n\
                 [[interface.{out}.class]]\nname = \"rest\"\ndiscipline = \"fifo\"\n{class}default = true\n",
                self.refresh
            )
        };
        let [r1, r2] = self.routers;
        let share = |percent: u32, more: &str| format!("share = \"{percent} %\"{more}");
        let [narrow, wide] = [share(50, self.reserve[0]), share(75, self.reserve[1])];
        [
            policy([self.port, "wan0"], self.discipline, self.class, &narrow, r1) + self.more,
            policy(
                ["egress = \"lan0\"", "lan0"],
                "cbq",
                "rate = \"10 Mbit/s\"\n",
                &wide,
                r2,
            ),
        ]
    }
}

impl Rig {
    /// Starts all nodes; `None` if the machine forbids it.
    pub(crate) fn start(plan: &Plan) -> Option<Self> {
        let mut lab = Lab::new();
        let hosts = NAMES.map(|name| lab.host(name).expect("a host"));
        let [a, r1, r2, b] = &hosts;
        for (one, other) in [
            ((a, "eth0"), (r1, "lan0")),
            ((r1, "wan0"), (r2, "wan0")),
            ((r2, "lan0"), (b, "eth0")),
        ] {
            lab.veth(one, other).expect("a pair");
        }
        if plan.second {
            lab.veth((r1, "wan1"), (r2, "wan1")).expect("a pair");
            for (host, end) in [(r1, 1), (r2, 2)] {
                let text = format!("10.0.4.{end}/24");
                host.address("wan1", text.parse().expect("an address"))
                    .expect("set");
            }
        }
        if plan.bump {
            for (host, own, end, bump) in [(a, "eth1", 1, "bump0"), (b, "eth1", 2, "bump1")] {
                lab.veth((host, own), (r1, bump)).expect("a pair");
                let text = format!("10.0.9.{end}/24");
                host.address(own, text.parse().expect("an address")).expect("set");
            }
        }
        let addresses = [
            (a, "eth0", 1, 1),
            (r1, "lan0", 1, 2),
            (r1, "wan0", 2, 1),
            (r2, "wan0", 2, 2),
            (r2, "lan0", 3, 1),
            (b, "eth0", 3, 2),
        ];
        for (host, interface, link, end) in addresses {
            for text in [format!("10.0.{link}.{end}/24"), format!("fd00:{link}::{end}/64")] {
                host.address(interface, text.parse().expect("an address"))
                    .expect("set");
            }
        }
        for (host, gateways) in [
            (a, ["10.0.1.2", "fd00:1::2"]),
            (r1, ["10.0.2.2", "fd00:2::2"]),
            (r2, ["10.0.2.1", "fd00:2::1"]),
            (b, ["10.0.3.1", "fd00:3::1"]),
        ] {
            for gateway in gateways {
                host.default_route(gateway.parse().expect("an address"))
                    .expect("a route");
            }
        }
        [r1, r2]
            .iter()
            .for_each(|router| router.forward().expect("forwarding"));
        let files =
            std::env::temp_dir().join(format!("suimon-rsvp-test-{}-{}", std::process::id(), unique()));
        fs::create_dir_all(&files).expect("a directory");
        for (name, text) in ["r1", "r2"].into_iter().zip(plan.policies()) {
            let text = text.replace('@', &files.display().to_string());
            fs::write(files.join(format!("{name}.toml")), text).expect("a file");
        }
        for (name, text) in plan.files {
            keep(&files.join(name), text);
        }
        let mut rig = Self {
            _lab: lab,
            hosts,
            files,
            running: [None, None, None, None],
            plan: plan.clone(),
        };
        [1, 2, 3].into_iter().all(|at| rig.launch(at)).then_some(rig)
    }

    pub(crate) fn at(name: &str) -> usize {
        NAMES
            .iter()
            .position(|known| *known == name)
            .expect("one of the four")
    }

    pub(crate) fn socket(&self, at: usize) -> String {
        self.files
            .join(format!("{}.sock", NAMES[at]))
            .display()
            .to_string()
    }

    /// Starts the program of a node; `false` if the machine forbids it.
    pub(crate) fn launch(&mut self, at: usize) -> bool {
        let (socket, file) = (
            self.socket(at),
            self.files
                .join(format!("{}.toml", NAMES[at]))
                .display()
                .to_string(),
        );
        let program = self.hosts[at]
            .program(env!("CARGO_BIN_EXE_suimon"))
            .limit(self.plan.limit);
        let program = match NAMES[at].starts_with('r') {
            true => program.args(["run", &file, "--socket", &socket]),
            false => program
                .args(["accept", "--socket", &socket])
                .args(self.plan.accept)
                .args(self.host_options()),
        };
        let running = program.start().expect("the program starts");
        self.running[at] = answering(running, &socket, Duration::from_secs(10), &[]);
        self.running[at].is_some()
    }

    /// The options of every host's node.
    pub(crate) fn host_options(&self) -> Vec<String> {
        let mut options = vec!["--refresh".to_owned(), self.plan.refresh.to_owned()];
        let files = self.files.display().to_string();
        options.extend(self.plan.hosts.iter().map(|option| option.replace('@', &files)));
        options
    }

    pub(crate) fn status(&self, name: &str) -> RsvpStatus {
        let mut client = Client::connect(Some(&self.socket(Self::at(name)))).expect("it answers");
        match client.ask(&Request::Reservations {}).expect("an answer") {
            Reply::Reservations(status) => *status,
            other => panic!("{other:?}"),
        }
    }

    /// The reservations of a node for this destination port: class and rate.
    pub(crate) fn reserved(&self, name: &str, port: u16) -> Vec<(Option<String>, u64)> {
        let of = |sender: &SenderView| sender.flow.port == port;
        let status = self.status(name);
        let promises = status
            .senders
            .into_iter()
            .filter(of)
            .flat_map(|sender| sender.reservations);
        promises
            .map(|promise| (promise.class, promise.rate_bps))
            .collect()
    }

    /// The packets that a class of a node has sent; `None` if it does not exist.
    pub(crate) fn sent(&self, name: &str, class: &str) -> Option<u64> {
        let mut client = Client::connect(Some(&self.socket(Self::at(name)))).expect("it answers");
        let snapshot = client.status(Duration::ZERO, false).expect("a status");
        let mut classes = snapshot.interfaces[0].classes.iter();
        let found = classes.find(|found| found.name == class)?;
        Some(found.traffic.sent_packets)
    }

    /// The classes of reservations in a node's data plane.
    pub(crate) fn classes(&self, name: &str) -> Vec<String> {
        let mut client = Client::connect(Some(&self.socket(Self::at(name)))).expect("it answers");
        let snapshot = client.status(Duration::ZERO, false).expect("a status");
        let classes = snapshot.interfaces[0]
            .classes
            .iter()
            .map(|class| class.name.clone());
        classes.filter(|name| name.starts_with("resv-")).collect()
    }

    pub(crate) fn suimon(&self, name: &str, arguments: &[&str]) -> lab::Program {
        self.hosts[Self::at(name)]
            .program(env!("CARGO_BIN_EXE_suimon"))
            .args(arguments)
    }

    pub(crate) fn output(&self, name: &str, arguments: &[&str]) -> Output {
        self.suimon(name, arguments)
            .limit(Duration::from_secs(20))
            .output()
            .expect("it ends")
    }

    /// A program on a that keeps a reservation while it sleeps.
    pub(crate) fn hold(&self, to: &str, rate: &str) -> Running {
        self.hold_with(to, rate, &[])
    }

    /// The same with more options.
    pub(crate) fn hold_with(&self, to: &str, rate: &str, options: &[&str]) -> Running {
        let arguments = ["reserve", "--to", to, "--rate", rate];
        self.suimon("a", &arguments)
            .args(["--packet", "1000B", "--wait", "20s"])
            .args(options)
            .args(self.host_options())
            .args(["--", "sleep", "100"])
            .limit(Duration::from_secs(120))
            .start()
            .expect("it starts")
    }

    pub(crate) fn udp(&self, port: u16, rate: u32, duration: Duration) -> StreamRun {
        let to = SocketAddr::from(([10, 0, 3, 2], port));
        Stream {
            to,
            shape: TrafficShape::per_second(rate, 972, duration),
        }
        .start(&self.hosts[0], &self.hosts[3])
        .expect("a stream")
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.files);
    }
}

/// Writes a file that only its owner may read, replacing an existing one.
pub(crate) fn keep(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).expect("a file");
    fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).expect("a mode");
    fs::rename(&new, path).expect("it is renamed");
}

pub(crate) fn kill(id: u32, signal: &str) {
    let sent = Command::new("sh")
        .args(["-c", &format!("kill -{signal} {id}")])
        .status();
    assert!(sent.is_ok_and(|status| status.success()), "cannot send {signal}");
}

/// Sends a hand-made RSVP message from a host.
pub(crate) fn send(host: &Host, interface: &str, envelope: Envelope, bytes: &[u8]) {
    let sent = host.call(|| {
        let index = Interface::named(interface).expect("it is there").index;
        let signalling = Signalling::open(interface, index).expect("a socket");
        signalling.send(&envelope, bytes)
    });
    sent.expect("a thread").expect("it is sent");
}

/// A message with the default frame fields.
pub(crate) fn framed(message: Message) -> Frame {
    Frame::plain(64, message)
}

/// Waits until the condition holds. Returns the time that it took.
pub(crate) fn until(what: &str, limit: Duration, holds: impl Fn() -> bool) -> Duration {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < limit, "{what}: not within {limit:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    eprintln!("{what}: after {:?}", begin.elapsed());
    begin.elapsed()
}

pub(crate) fn in_turn(body: impl FnOnce()) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    body();
}

pub(crate) const LONG: Duration = Duration::from_secs(10);
