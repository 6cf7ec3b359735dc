//! A campaign of faults against `suimon run` under load: it is killed at random moments, also while
//! it starts, and things fail at random around a program that goes on. Each time:
//!
//! - traffic is back within 100 ms, by the kernel's bridge or by suimon, as the fault has it;
//! - it is shaped again within a second of the next start, or of the mending, from below and from
//!   above;
//! - nothing is left behind: no qdisc, link, program or file that was not there before;
//! - after a failure the process has the descriptors that it had, and its memory does not grow.
//!
//! ```text
//!  a ─── lan0 │ r: suimon over the kernel's bridge │ wan0 ─── b
//! ```
//!
//! And hostile input does not take from classes what they are guaranteed: mutated frames through
//! the live pair of ports, floods of several sorts, garbage at the control socket.
//!
//! 20 kills, and 12 failures by each of two kinds of port. `SUIMON_FAULTS=1000` makes so many of
//! each, by the seed `SUIMON_FAULTS_SEED`; `cargo xtask faults` writes what they said.

#[path = "stubs/answering.rs"]
mod answering;
#[path = "stubs/asked.rs"]
mod asked_for;
#[path = "fail_open/failures.rs"]
mod failures;
#[path = "stubs/holdings.rs"]
mod holdings;
#[path = "fail_open/hostile.rs"]
mod hostile;
#[path = "fail_open/load.rs"]
mod load;
#[path = "../../../fuzz/src/mutate.rs"]
mod mutate;
#[path = "stubs/tampering.rs"]
mod tampering;
#[path = "fail_open/told.rs"]
mod told;

use answering::answering;
use asked_for::number;
use engine::random::{Rng, Seed};
use failures::{Carries, Failure, shaped_again};
use hostile::Flood;
use lab::host::{OffloadFeature, know_each_other};
use lab::netlink::LabNetlink;
use lab::{Host, Lab, Output, Running};
use load::{FILLED, Kept, Load, PROBES, RATE, is_shaped};
use netio::netlink::{Netlink, NetlinkRequest, attribute, text, word};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use told::{Felt, Told};

/// One test at a time: they measure times and rates.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The seed, and how many faults a campaign makes; without one there are as many as CI makes.
fn asked() -> (u64, Option<u64>) {
    (number("SUIMON_FAULTS_SEED").unwrap_or(1), number("SUIMON_FAULTS"))
}

const BY_DIRECTION: &str = "af_packet by direction";
/// The kinds of port over a bridge.
const KINDS: [(&str, &str); 3] = [
    ("af_packet", ""),
    (BY_DIRECTION, "workers = \"per-direction\"\n"),
    ("af_xdp", "kind = \"af_xdp\"\n"),
];
/// The class of little rate and a long queue.
const HOG: u16 = 6_004;
const POLICY: &str = "memory = \"32 MiB\"
[interface.wan0]
bandwidth = \"40 Mbit/s\"
discipline = \"cbq\"
[[interface.wan0.class]]
name = \"filled\"
rate = \"8 Mbit/s\"
borrow = false
discipline = { kind = \"fifo\", limit = 50 }
[[interface.wan0.class]]
name = \"hog\"
rate = \"100 kbit/s\"
borrow = false
discipline = { kind = \"fifo\", limit = 1000000 }
[[interface.wan0.class]]
name = \"probes\"
rate = \"6 Mbit/s\"
[[interface.wan0.class]]
name = \"rest\"
rate = \"20 Mbit/s\"
default = true
";

fn policy(kind: usize) -> String {
    let filter = |class: &str, port: u16| {
        format!(
            "[[interface.wan0.filter]]\nclass = \"{class}\"\nprotocol = \"udp\"\ndestination_port = \"{port}\"\n"
        )
    };
    [
        format!(
            "version = 1\n[port]\nbetween = [\"lan0\", \"wan0\"]\n{}",
            KINDS[kind].1
        ),
        POLICY.to_owned(),
        filter("filled", FILLED),
        filter("hog", HOG),
        filter("probes", PROBES),
    ]
    .concat()
}

fn to_b(port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 2], port))
}

/// The router's side on which a failure is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    Lan,
    Wan,
}

impl Side {
    fn router(self) -> &'static str {
        match self {
            Self::Lan => "lan0",
            Self::Wan => "wan0",
        }
    }

    fn host(self, rig: &Rig) -> &Host {
        match self {
            Self::Lan => &rig.a,
            Self::Wan => &rig.b,
        }
    }
}

/// The hosts, what flows between them, and `suimon run` on one of them.
struct Rig {
    load: Load,
    _lab: Lab,
    a: Host,
    r: Host,
    b: Host,
    files: PathBuf,
    suimon: Option<Running>,
    /// What there was on the router before the first start.
    before: BTreeSet<String>,
}

impl Rig {
    fn new(name: &str) -> Self {
        let mut lab = Lab::new();
        let [a, r, b] = ["a", "r", "b"].map(|name| lab.host(name).expect("a host"));
        lab.veth((&a, "eth0"), (&r, "lan0")).expect("a pair");
        lab.veth((&r, "wan0"), (&b, "eth0")).expect("a pair");
        r.bridge("br0", &["lan0", "wan0"]).expect("a bridge");
        for (host, address) in [(&a, "10.0.0.1/24"), (&b, "10.0.0.2/24")] {
            let set = host.address("eth0", address.parse().expect("an address"));
            set.expect("set");
        }
        introduce(&a, &b);
        // In a box of its own, another test's process may have the same number.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("later");
        let files = std::env::temp_dir().join(format!("suimon-faults-{name}-{}", now.as_nanos()));
        fs::create_dir_all(&files).expect("a folder");
        let load = Load::start(&a, &b, to_b);
        let mut rig = Self {
            load,
            _lab: lab,
            a,
            r,
            b,
            files,
            suimon: None,
            before: BTreeSet::new(),
        };
        rig.before = rig.there();
        rig
    }

    fn id(&self) -> u32 {
        self.suimon.as_ref().expect("it runs").id()
    }

    fn socket(&self) -> String {
        self.files.join("control.sock").display().to_string()
    }

    /// Begins to start the program by this kind of port.
    fn begin(&self, kind: usize) -> Running {
        let file = self.files.join("policy.toml");
        fs::write(&file, policy(kind)).expect("a file");
        let program = self.r.program(env!("CARGO_BIN_EXE_suimon"));
        let file = file.display().to_string();
        let program = program.args(["run", &file, "--socket", &self.socket()]);
        let limit = Duration::from_secs(4 * 3_600);
        program.limit(limit).start().expect("the program starts")
    }

    /// Starts it and waits until it answers; `false` where the machine forbids this kind of port.
    fn launch(&mut self, kind: usize) -> bool {
        let began = self.begin(kind);
        let patience = Duration::from_secs(20);
        self.suimon = answering(began, &self.socket(), patience, &["has no AF_XDP"]);
        self.suimon.is_some()
    }

    /// Kills the program, and looks into what it has said.
    fn kill(&mut self) {
        unbroken(&self.suimon.take().expect("it runs").kill().expect("its end"));
    }

    /// Asks the program to end, which it does in order.
    fn end(&mut self) {
        self.signal("TERM");
        let output = self.suimon.take().expect("it runs").wait().expect("its end");
        unbroken(&output);
        assert!(output.status.success(), "{output:?}");
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("sh")
            .args(["-c", &format!("kill -{name} {}", self.id())])
            .status();
        assert!(sent.is_ok_and(|status| status.success()), "cannot send {name}");
    }

    /// Does as `ip` would, on the router.
    fn link(&self, work: impl FnOnce(&mut LabNetlink) -> lab::Result<()>) {
        self.r.netlink(work).expect("done");
    }

    /// Does as `tc` would, on the router.
    fn ask_kernel(&self, work: impl FnOnce() -> std::io::Result<()> + Send) {
        self.r.call(work).expect("a call").expect("done");
    }

    fn offload(&self, name: &str, what: OffloadFeature, on: bool) {
        self.r.offload(name, what, on).expect("an offload");
    }

    /// Makes a link of the router anew, with all that went with it. It has another name first.
    fn make_anew<T>(&self, side: Side, first: impl FnOnce(&str) -> T) -> T {
        let host = side.host(self);
        self.link(|n| n.veth("new0", "eth0", host.namespace()));
        let done = first("new0");
        self.link(|n| {
            n.enslave("new0", "br0")?;
            n.rename("new0", side.router())?;
            n.up(side.router())
        });
        host.netlink(|n| n.up("eth0")).expect("up");
        let address = match side {
            Side::Lan => "10.0.0.1/24",
            Side::Wan => "10.0.0.2/24",
        };
        host.address("eth0", address.parse().expect("an address"))
            .expect("set");
        introduce(&self.a, &self.b);
        done
    }

    /// Links, qdiscs and programs on the router.
    fn there(&self) -> BTreeSet<String> {
        let list = self.r.call(on_this_host).expect("a call");
        list.expect("the kernel lists them")
    }

    /// Waits until the kernel has taken note of every carrier, which it looks at once a second at
    /// most: until then links carry nothing, whoever forwards. When that was.
    fn links_are_up(&self) -> Instant {
        let until = Instant::now() + Duration::from_secs(10);
        let all_up = |host: &Host| host.call(are_up).expect("a call").expect("the kernel lists them");
        while ![&self.a, &self.r, &self.b].into_iter().all(all_up) {
            assert!(Instant::now() < until, "a link does not go up");
            std::thread::sleep(Duration::from_millis(1));
        }
        Instant::now()
    }

    /// How many descriptors the program has, and how much memory of its own is resident, in KiB.
    fn holds(&self) -> (usize, u64) {
        holdings::of(self.id())
    }

    /// What a program that was killed must not leave. Its socket may stay, which the next replaces.
    fn nothing_is_left(&self, what: &str) {
        let there = self.there();
        let new: Vec<_> = there.symmetric_difference(&self.before).collect();
        assert!(
            new.is_empty(),
            "{what}: was or is not left on the router: {new:?}"
        );
        let names = fs::read_dir(&self.files).expect("the folder").flatten();
        let names: BTreeSet<String> = names
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        let known = ["policy.toml", "control.sock"];
        let unknown = names.iter().find(|name| !known.contains(&name.as_str()));
        assert_eq!(unknown, None, "{what}: a file is left");
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.files);
    }
}

/// Each end knows the other's address: who asks for it is no part of this. Forgotten when an end's
/// interface goes down.
fn introduce(a: &Host, b: &Host) {
    let [own, other]: [[IpAddr; 1]; 2] = [[[10, 0, 0, 1].into()], [[10, 0, 0, 2].into()]];
    know_each_other([(a, "eth0"), (b, "eth0")], [&own, &other]).expect("set");
}

/// It has not panicked, and no invariant was broken.
fn unbroken(output: &Output) {
    assert!(!output.err.contains("panicked"), "{}", output.err);
}

fn links(netlink: &Netlink) -> std::io::Result<Vec<Vec<u8>>> {
    netlink.list(NetlinkRequest::new(libc::RTM_GETLINK, 0, &[0; 16]))
}

/// Whether all links of this thread's namespace are up, or have no such state, as the loopback.
fn are_up() -> std::io::Result<bool> {
    const UNKNOWN: u8 = 0;
    const UP: u8 = 6;
    let state = |link: &Vec<u8>| {
        let state = attribute(link.get(16..).unwrap_or_default(), libc::IFLA_OPERSTATE);
        state.and_then(|state| state.first().copied())
    };
    let links = links(&Netlink::open()?)?;
    Ok(links
        .iter()
        .map(state)
        .all(|state| state == Some(UP) || state == Some(UNKNOWN)))
}

/// The kernel lists no programs at an interface.
const NO_LINKS: &str = "no list of programs";

/// Links, qdiscs and programs of this thread's namespace, each with what a program might change.
fn on_this_host() -> std::io::Result<BTreeSet<String>> {
    const NAME: u16 = libc::IFLA_IFNAME;
    const PROMISCUITY: u16 = 30;
    let netlink = Netlink::open()?;
    let (mut all, mut names) = (BTreeSet::new(), BTreeMap::new());
    for link in &links(&netlink)? {
        let attributes = link.get(16..).unwrap_or_default();
        let name = attribute(attributes, NAME).map(text).unwrap_or_default();
        names.insert(word(link, 4), name.clone());
        let of = |kind| attribute(attributes, kind).and_then(|value| word(value, 0));
        let [promiscuity, bridge] = [of(PROMISCUITY), of(libc::IFLA_MASTER)];
        let state = format!("{name}: promiscuity {promiscuity:?}, master {bridge:?}");
        let programs = netio::bpf::syscall::detach_all(word(link, 4).unwrap_or_default());
        let programs = programs.map_or(NO_LINKS.to_owned(), |count| format!("programs {count}"));
        all.insert(format!("{state}, {programs}"));
    }
    let qdiscs = netlink.list(NetlinkRequest::new(libc::RTM_GETQDISC, 0, &[0; 20]))?;
    for qdisc in &qdiscs {
        let kind = attribute(qdisc.get(20..).unwrap_or_default(), 1).map(text);
        let (interface, parent) = (names.get(&word(qdisc, 4)), word(qdisc, 12));
        all.insert(format!("qdisc of {interface:?} at {parent:?}: {kind:?}"));
    }
    Ok(all)
}

/// The kinds of port that this machine permits, each of which was tried once.
fn permitted(rig: &mut Rig) -> Vec<usize> {
    let mut permitted = Vec::new();
    for kind in 0..KINDS.len() {
        if rig.launch(kind) {
            permitted.push(kind);
            rig.kill();
        }
    }
    permitted
}

/// What traffic has felt since then, until it is shaped again after `from`.
fn felt(rig: &Rig, since: Instant, from: Instant, what: &str) -> Felt {
    let shaped = shaped_again(&rig.load, from, what);
    Felt {
        silence: rig.load.silence(since),
        shaped,
    }
}

/// Kills the program that runs, and starts another by this kind of port; now and then one that is
/// killed while it starts, too.
fn kill_and_start(rig: &mut Rig, kind: usize, random: &mut Rng, told: &mut Told) {
    rig.load.forget();
    std::thread::sleep(Duration::from_millis(20 + random.below(100)));
    let mut name = "killed";
    let killed = Instant::now();
    rig.kill();
    std::thread::sleep(Duration::from_millis(250 + random.below(100)));
    carried(rig, Carries::Kernel, "killed");
    rig.nothing_is_left("after a kill");
    if random.below(3) == 0 {
        name = "killed, and again while it starts";
        let began = rig.begin(kind);
        std::thread::sleep(Duration::from_millis(random.below(150)));
        unbroken(&began.kill().expect("its end"));
        std::thread::sleep(Duration::from_millis(150));
        rig.nothing_is_left("after a kill while it starts");
    }
    let started = Instant::now();
    assert!(rig.launch(kind), "it ran before");
    let felt = felt(rig, killed, started, name);
    assert!(rig.load.tcp_since(killed) > 0, "TCP does not go on");
    told.of(name, felt);
}

/// Over so long a time is measured who carries traffic while a fault lasts.
const WITHOUT: Duration = Duration::from_millis(100);

#[test]
fn a_program_that_is_killed_again_and_again_fails_open_and_leaves_nothing() {
    let _turn = turn();
    lab::isolated(|| {
        let (seed, times) = asked();
        let mut rig = Rig::new("killed");
        let kinds = permitted(&mut rig);
        if kinds.is_empty() {
            return;
        }
        let mut random = Seed(seed).stream();
        let mut told = Told::new(format!("kills, seed {seed}"));
        let draw = |random: &mut Rng| kinds[random.below(kinds.len() as u64) as usize];
        assert!(rig.launch(draw(&mut random)), "it ran before");
        shaped_again(&rig.load, Instant::now(), "at the start");
        for _ in 0..times.unwrap_or(20) {
            let kind = draw(&mut random);
            kill_and_start(&mut rig, kind, &mut random, &mut told);
        }
        rig.kill();
        told.judge(times.is_some());
    });
}

/// It is carried as said: over one tenth of a second of the next three seconds, since the machine
/// may hold the load up.
fn carried(rig: &Rig, carries: Carries, what: &str) {
    let mut rates = Vec::new();
    let as_said = (0..30).any(|_| {
        let rate = rig.load.rate_of_last(WITHOUT);
        rates.push(rate);
        let is = match carries {
            Carries::Kernel => rate > 2.0 * RATE,
            Carries::Suimon => is_shaped(rate),
            Carries::Either => rate > 2.0 * RATE || is_shaped(rate),
            Carries::Nobody => rate == 0.0,
        };
        if !is {
            std::thread::sleep(WITHOUT);
        }
        is
    });
    assert!(as_said, "{what}: {carries:?} carries {rates:.1?} Mbit/s");
}

/// Makes and mends a failure of the program that runs.
fn fail_and_mend(rig: &Rig, kind: usize, failure: Failure, random: &mut Rng, told: &mut Told) {
    let side = [Side::Lan, Side::Wan][random.below(2) as usize];
    let what = format!("{} ({})", failure.name(), side.router());
    rig.load.forget();
    std::thread::sleep(Duration::from_millis(20 + random.below(50)));
    let begun = Instant::now();
    let made = failure.make(rig, side);
    // What a link itself takes is not the program's.
    let flaps = matches!(failure, Failure::NoDescriptors | Failure::AttachRefused);
    let made_at = if flaps { rig.links_are_up() } else { begun };
    std::thread::sleep(failure.lasts(random));
    let carries = failure.carries(KINDS[kind].0);
    carried(rig, carries, &what);
    let mending = Instant::now();
    failure.mend(rig, side, made);
    let (since, from) = match carries {
        Carries::Nobody => [rig.links_are_up(); 2].into(),
        _ => (made_at, mending),
    };
    told.of(failure.name(), felt(rig, since, from, &what));
}

/// Each sort of failure in an order that is drawn, again and again.
struct Deck {
    sorts: Vec<Failure>,
    left: Vec<Failure>,
}

impl Deck {
    /// Those that can be made with this kind of port.
    fn of(rig: &Rig, kind: usize) -> Self {
        let mut sorts = failures::ALL.to_vec();
        // AF_XDP has its programs at another hook, and before Linux 6.6 filters are not refused.
        let has_links = !rig.there().iter().any(|one| one.contains(NO_LINKS));
        sorts.retain(|one| *one != Failure::AttachRefused || (has_links && KINDS[kind].0 != "af_xdp"));
        Self {
            sorts,
            left: Vec::new(),
        }
    }

    fn draw(&mut self, random: &mut Rng) -> Failure {
        if self.left.is_empty() {
            self.left.clone_from(&self.sorts);
        }
        self.left
            .swap_remove(random.below(self.left.len() as u64) as usize)
    }
}

/// So many failures of one process by this kind of port. Its descriptors and its memory stay.
fn fail(rig: &mut Rig, kind: usize, times: u64, random: &mut Rng, told: &mut Told) {
    let mut deck = Deck::of(rig, kind);
    assert!(rig.launch(kind), "it ran before");
    shaped_again(&rig.load, Instant::now(), "at the start");
    // Memory that is used once stays.
    fail_and_mend(rig, kind, Failure::PoolExhausted, random, told);
    // One may be closed, or opened anew, just then.
    let mut counted: Vec<usize> = (0..9)
        .map(|_| {
            std::thread::sleep(Duration::from_millis(100));
            rig.holds().0
        })
        .collect();
    counted.sort_unstable();
    let descriptors = counted[4];
    let mut memory = Vec::new();
    for _ in 0..times {
        let failure = deck.draw(random);
        fail_and_mend(rig, kind, failure, random, told);
        let until = Instant::now() + Duration::from_secs(2);
        while rig.holds().0 != descriptors {
            let (now, name) = (holdings::descriptors(rig.id()), failure.name());
            assert!(Instant::now() < until, "{name}: {now:?}, before {descriptors}");
            std::thread::sleep(Duration::from_millis(10));
        }
        memory.push(rig.holds().1 as f64);
    }
    told.held(KINDS[kind].0, descriptors, &memory);
    rig.end();
}

#[test]
fn a_program_around_which_all_sorts_of_things_fail_fails_open_and_works_again() {
    let _turn = turn();
    lab::isolated(|| {
        let (seed, times) = asked();
        let mut rig = Rig::new("failing");
        let kinds = permitted(&mut rig);
        let mut random = Seed(seed).stream();
        let mut told = Told::new(format!("failures, seed {seed}"));
        let each = times.map_or(12, |times| times.div_ceil(kinds.len().max(1) as u64));
        // In CI each sort once of two kinds of port: the other has the first one's programs.
        let tried = |kind: &usize| times.is_some() || KINDS[*kind].0 != BY_DIRECTION;
        for kind in kinds.into_iter().filter(tried) {
            fail(&mut rig, kind, each, &mut random, &mut told);
            rig.nothing_is_left("after a clean end");
        }
        told.judge(times.is_some());
    });
}

/// In a flood the filled class keeps its rate, within this part of it, and probes are neither lost
/// nor late.
const KEPT_RATE: f64 = 0.05;
const KEPT_LOST: f64 = 0.01;
const KEPT_LATE: Duration = Duration::from_millis(10);

fn is_kept(kept: &Kept, flood: Flood, inputs: u64) -> bool {
    eprintln!(
        "faults: {inputs} inputs of {}: {:.2} Mbit/s in a class of {RATE}; of the probes {:.2} % lost, 99 of 100 within {} ms, none for {} ms at most",
        flood.name(),
        kept.rate,
        100.0 * kept.lost.max(0.0),
        kept.late.as_millis(),
        kept.silence.sent.as_millis()
    );
    (kept.rate / RATE - 1.0).abs() <= KEPT_RATE
        && kept.lost.abs() <= KEPT_LOST
        && kept.late <= KEPT_LATE
        && kept.silence.sent <= Duration::from_millis(100)
}

#[test]
fn classes_keep_what_they_are_guaranteed_in_floods_of_hostile_input() {
    let _turn = turn();
    lab::isolated(|| {
        let (seed, times) = asked();
        let mut rig = Rig::new("hostile");
        if !rig.launch(0) {
            return;
        }
        shaped_again(&rig.load, Instant::now(), "at the start");
        let (descriptors, memory) = rig.holds();
        for flood in hostile::ALL {
            let inputs = times.map_or(8_000, |times| match flood {
                Flood::Mutated => times * 1_000,
                _ => times * 100,
            });
            // A machine that does other things may hold the program or the load up.
            let kept = (0..3).any(|_| is_kept(&hostile::flood(&rig, flood, seed, inputs), flood, inputs));
            assert!(kept, "{}: not kept in three attempts", flood.name());
        }
        std::thread::sleep(Duration::from_secs(1));
        let now = rig.holds();
        assert_eq!(now.0, descriptors);
        eprintln!(
            "faults: after all floods {} KiB of its own, before {memory}",
            now.1
        );
        rig.end();
        rig.nothing_is_left("after a clean end");
    });
}
