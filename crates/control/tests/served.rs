//! A client and a server over a real socket, with a fake packet loop behind it.

use control::difference::{Applied, Breaking, Difference};
use control::explained::{ExplainRequest, Explained};
use control::policy::{InterfacePolicy, Policy};
use control::protocol::{Refusal, Reply, Request, SettingChanges};
use control::provenance::Provenance;
use control::snapshot::{
    ClassReading, ClassView, ExperienceOfInterface, InterfaceReading, Reading, Snapshot, State, StatusDetail,
};
use control::socket::{self, Client, Handler, Server};
use control::what_if::ShadowReport;
use engine::discipline::{Reason, Sink};
use engine::inspect::{Inspection, Value, View};
use engine::packet::{ClassId, Packet};
use engine::queue::{Count, Stats};
use engine::random::Seed;
use engine::settings::Raw;
use engine::tree::Registry;
use engine::units::{Bytes, Duration, Instant};
use measure::delay::Delays;
use measure::round_trips::{ExperienceCounts, RoundTripTable};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A link of 10 Mbit/s with `all` over `bulk` (8 Mbit/s) and `voice` (2 Mbit/s).
fn interface() -> InterfacePolicy {
    let mut text =
        "version = 1\n[interface.wan0]\nbandwidth = \"10 Mbit/s\"\ndiscipline = \"cbq\"\n".to_owned();
    for class in [
        "name = \"all\"\nrate = \"10 Mbit/s\"",
        "name = \"bulk\"\nparent = \"all\"\nrate = \"80 %\"\ndefault = true",
        "name = \"voice\"\nparent = \"all\"\nrate = \"2 Mbit/s\"\ndiscipline = { kind = \"fifo\", limit = 3 }",
    ] {
        text += &format!("[[interface.wan0.class]]\n{class}\n");
    }
    let mut policy = Policy::read("t.toml", &text, &Registry::builtin(), &[]).expect("a good policy");
    policy.interfaces.remove(0)
}

/// A reading after so many seconds in which voice sent 1 Mbit/s and bulk 4 Mbit/s.
fn reading(policy: &Arc<InterfacePolicy>, seconds: u64, state: State) -> Reading {
    let count = |bytes: u64| Count {
        packets: bytes / 1000,
        bytes: Bytes::new(bytes),
    };
    let class = |id: u32, bytes: u64, delay: u64| {
        let mut delays = Delays::default();
        (0..seconds).for_each(|second| delays.record(Duration::from_millis(delay + second)));
        let class = ClassId(id);
        let reading = ClassReading {
            class,
            sent: count(bytes),
            short: Count::default(),
            delays,
            held_up: None,
        };
        let mut stats = Stats {
            offered: count(bytes + 6000),
            sent: count(bytes),
            dropped: count(2000),
            ..Stats::default()
        };
        stats.reasons[0] = 2;
        let gauges = vec![
            ("limit", Value::Count(100)),
            ("borrowed", Value::Bytes(Bytes::new(77))),
        ];
        let view = View {
            class: Some(class),
            kind: "fifo",
            stats,
            gauges,
        };
        (reading, view)
    };
    let (bulk, bulk_view) = class(1, 500_000 * seconds, 10);
    let (voice, voice_view) = class(2, 125_000 * seconds, 1);
    // For an interior class a discipline reports the sum of the classes below it.
    let mut all_view = View {
        class: Some(ClassId(0)),
        stats: bulk_view.stats,
        ..View::default()
    };
    all_view.stats += voice_view.stats;
    let interface = InterfaceReading {
        state,
        totals: Stats {
            offered: count(625_000 * seconds),
            sent: count(625_000 * seconds),
            ..Stats::default()
        },
        views: vec![View::default(), all_view, bulk_view, voice_view],
        classes: vec![bulk, voice],
        experience: Some(experience(seconds)),
        ..InterfaceReading::of(Arc::clone(policy))
    };
    Reading {
        unconfined: Vec::new(),
        at: Instant::START + Duration::from_secs(seconds),
        policy: "t".into(),
        interfaces: vec![interface],
    }
}

/// Of each class 100 segments a second, of which `voice` repeats one; each second a round trip of
/// `bulk` takes that many milliseconds.
fn experience(seconds: u64) -> ExperienceOfInterface {
    let mut table = RoundTripTable::default();
    (1..=seconds).for_each(|second| table.record(Duration::from_millis(second)));
    let counts = |repeated: u64| ExperienceCounts {
        segments: 100 * seconds,
        repeated: repeated * seconds,
        ..ExperienceCounts::default()
    };
    let bulk = ExperienceCounts {
        whole: table.counts(),
        ..counts(0)
    };
    ExperienceOfInterface {
        classes: [(ClassId(1), bulk.clone()), (ClassId(2), counts(1))].into(),
        hosts: vec![([10, 0, 0, 9].into(), bulk)],
    }
}

/// Interior classes and the interface have that of all below, over the interval; counters go on.
#[test]
fn what_connections_have_is_that_of_the_interval_and_parents_have_all() {
    let policy = Arc::new(interface());
    let readings = [10, 12].map(|seconds| reading(&policy, seconds, State::Enabled));
    let snapshot = readings[1].snapshot(Some(&readings[0]));
    let wan0 = &snapshot.interfaces[0];
    let of = |class: usize| wan0.classes[class].traffic.experience.clone().expect("measured");
    let [all, bulk, voice] = [0, 1, 2].map(of);
    assert_eq!(wan0.traffic.experience.as_ref(), Some(&all));
    assert_eq!((all.segments, all.repeated, all.loss), (2_400, 12, 0.005));
    assert_eq!((bulk.loss, voice.loss, voice.whole), (0.0, 0.01, None));
    let whole = all.whole.expect("those of `bulk`");
    assert_eq!((whole.samples, bulk.whole), (2, Some(whole)));
    assert!(whole.p99_ns.abs_diff(12_000_000) < 200_000, "{whole:?}");
    assert_eq!(
        (all.rpm, voice.quality),
        (None, None),
        "no handshake, no round trip"
    );
    assert_eq!(wan0.hosts.len(), 1);
    assert_eq!(wan0.hosts[0].experience.whole, Some(whole));
    let json = serde_json::to_string(&snapshot).expect("JSON");
    assert!(json.contains("\"address\":\"10.0.0.9\""), "{json}");
    let back: Snapshot = serde_json::from_str(&json).expect("the same");
    assert_eq!(back, snapshot);
}

#[test]
fn rates_and_delays_are_those_of_the_interval_and_parents_are_sums() {
    let policy = Arc::new(interface());
    let (early, late) = (
        reading(&policy, 10, State::Enabled),
        reading(&policy, 12, State::Enabled),
    );
    let snapshot = late.snapshot(Some(&early));
    let wan0 = &snapshot.interfaces[0];
    let names: Vec<_> = wan0.classes.iter().map(|c| (c.name.as_str(), c.depth)).collect();
    assert_eq!(names, [("all", 0), ("bulk", 1), ("voice", 1)]);
    let measured: Vec<_> = wan0.classes.iter().map(|c| c.traffic.got_bps).collect();
    assert_eq!(measured, [Some(5_000_000), Some(4_000_000), Some(1_000_000)]);
    assert_eq!(wan0.traffic.got_bps, Some(5_000_000));
    let offered: Vec<_> = wan0.classes.iter().map(|c| c.traffic.offered_bps).collect();
    assert_eq!(
        offered, measured,
        "the backlog and what was dropped stay the same"
    );
    assert_eq!(wan0.traffic.offered_bps, Some(5_000_000));
    let configured: Vec<_> = wan0.classes.iter().filter_map(|c| c.asked_bps).collect();
    // A percentage is of the link, rounded down to a bit per second.
    assert_eq!(configured, [10_000_000, 8_000_000, 2_000_000]);
    let voice = &wan0.classes[2].traffic;
    let delay = voice.delay.expect("packets were sent");
    assert!(
        delay.p50_ns >= 11_000_000 && delay.max_ns < 13_000_000,
        "{delay:?}"
    );
    assert_eq!((voice.backlog_packets, voice.backlog_bytes), (4, 4000));
    assert_eq!(voice.drops, BTreeMap::from([("full".to_owned(), 2)]));
    let all = &wan0.classes[0].traffic;
    assert_eq!((all.backlog_packets, all.dropped_packets), (8, 4));
    assert_eq!(snapshot.interval_ns, Some(2_000_000_000));
    // What is written class by class is what is read whole.
    let written = serde_json::to_string(&late.streamed(Some(&early), StatusDetail::Full)).expect("JSON");
    assert_eq!(written, serde_json::to_string(&snapshot).expect("JSON"));
    let alone = late.snapshot(None);
    assert_eq!(
        (alone.interval_ns, alone.interfaces[0].traffic.got_bps),
        (None, None)
    );
}

#[test]
fn a_brief_status_leaves_out_what_is_zero_and_what_no_table_shows() {
    let policy = Arc::new(interface());
    let (early, mut late) = (
        reading(&policy, 10, State::Enabled),
        reading(&policy, 12, State::Enabled),
    );
    late.interfaces[0].views[3]
        .gauges
        .push(("yields", Value::State("free")));
    let full = late.snapshot(Some(&early));
    let write = |detail| serde_json::to_string(&late.streamed(Some(&early), detail)).expect("JSON");
    let text = write(StatusDetail::Brief);
    assert!(text.len() < write(StatusDetail::Full).len());
    let mut brief: Snapshot = serde_json::from_str(&text).expect("a snapshot");
    let shown = |class: &ClassView| -> Vec<String> {
        class.gauges.iter().map(|gauge| gauge.name.to_string()).collect()
    };
    let classes = &mut brief.interfaces[0].classes;
    assert_eq!(shown(&classes[0]), [""; 0]);
    assert_eq!(shown(&classes[1]), ["borrowed"]);
    assert_eq!(shown(&classes[2]), ["limit", "borrowed", "yields"]);
    for (class, whole) in classes.iter_mut().zip(&full.interfaces[0].classes) {
        class.gauges.clone_from(&whole.gauges);
        // The rates say it.
        assert_eq!(class.share, None);
        class.share = whole.share;
    }
    assert_eq!(brief, full);
}

#[test]
fn a_packet_counts_once_in_each_class_above_it() {
    struct Discard;
    impl Sink for Discard {
        fn drop(&mut self, _packet: Packet, _why: Reason) {}
    }
    let policy = Arc::new(interface());
    let mut queue = policy.plan.build(Seed(1));
    for class in [1, 1, 2, 2, 2, 2] {
        let packet = Packet::new(Bytes::new(1000), Instant::START, ClassId(class));
        let _ = queue.enqueue(Instant::START, packet, &mut Discard);
    }
    let mut reading = reading(&policy, 0, State::Enabled);
    queue.inspect(&mut Inspection::new(&mut reading.interfaces[0].views));
    let snapshot = reading.snapshot(None);
    let counts = |c: &ClassView| (c.traffic.backlog_packets, c.traffic.dropped_packets);
    let counts: Vec<_> = snapshot.interfaces[0].classes.iter().map(counts).collect();
    assert_eq!(counts, [(5, 1), (2, 0), (3, 1)]);
}

#[test]
fn reset_counters_give_no_absurd_rate() {
    let policy = Arc::new(interface());
    let (mut early, late) = (
        reading(&policy, 10, State::Enabled),
        reading(&policy, 2, State::Enabled),
    );
    early.at = Instant::START;
    let snapshot = late.snapshot(Some(&early));
    assert_eq!(snapshot.interfaces[0].classes[2].traffic.got_bps, Some(1_000_000));
}

/// A packet loop whose clock advances by a second with every reading.
struct Fake {
    readings: AtomicU64,
    policy: Mutex<Arc<InterfacePolicy>>,
    state: Mutex<State>,
    /// How long a reading takes.
    takes: std::time::Duration,
    /// Shadows that ended before their time.
    stopped: AtomicU64,
}

impl Fake {
    fn new() -> Arc<Self> {
        Self::taking(std::time::Duration::ZERO)
    }

    fn taking(takes: std::time::Duration) -> Arc<Self> {
        Arc::new(Self {
            takes,
            stopped: AtomicU64::new(0),
            readings: AtomicU64::new(0),
            policy: Mutex::new(Arc::new(interface())),
            state: Mutex::new(State::Enabled),
        })
    }
}

impl Fake {
    /// Blocks for this time, or until `stop`, which it counts.
    fn goes_on(&self, span: std::time::Duration, stop: &dyn Fn() -> bool) -> Result<(), Refusal> {
        let end = std::time::Instant::now() + span;
        while std::time::Instant::now() < end {
            if stop() {
                self.stopped.fetch_add(1, Ordering::Relaxed);
                return Err(Refusal::new("stopped"));
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        Ok(())
    }
}

impl Handler for Fake {
    fn version(&self) -> String {
        "fake".into()
    }

    fn read(&self) -> Result<Reading, Refusal> {
        std::thread::sleep(self.takes);
        let seconds = self.readings.fetch_add(1, Ordering::Relaxed) + 1;
        let policy = self.policy.lock().expect("not poisoned");
        let state = *self.state.lock().expect("not poisoned");
        Ok(reading(&policy, seconds, state))
    }

    fn switch(&self, interface: Option<&str>, on: bool) -> Result<String, Refusal> {
        if interface.is_some_and(|name| name != "wan0") {
            return Err(Refusal::new("no such interface"));
        }
        *self.state.lock().expect("not poisoned") = if on { State::Enabled } else { State::Disabled };
        Ok("switched".into())
    }

    fn detach(&self, _interface: Option<&str>) -> Result<String, Refusal> {
        Ok("detached".into())
    }

    fn set(&self, wanted: &SettingChanges, _by: Provenance) -> Result<String, Refusal> {
        let (class, changes) = (wanted.class.as_deref().unwrap_or(""), &wanted.changes);
        let changes: Vec<(&str, Raw)> = changes.iter().map(|(k, v)| (k.as_str(), v.raw())).collect();
        let mut policy = self.policy.lock().expect("not poisoned");
        let changed = policy.with_class_settings(&Registry::builtin(), class, &changes)?;
        *policy = Arc::new(changed);
        Ok(format!("{class} is changed"))
    }

    fn apply(
        &self,
        _file: &Path,
        confirm_within: Option<std::time::Duration>,
        _breaking: Breaking,
        _by: Provenance,
        stop: &dyn Fn() -> bool,
    ) -> Result<Applied, Refusal> {
        self.goes_on(confirm_within.unwrap_or_default(), stop)?;
        Ok(Applied {
            message: "applied".into(),
            difference: Difference::default(),
        })
    }

    fn explain(&self, wanted: &ExplainRequest, stop: &dyn Fn() -> bool) -> Result<Explained, Refusal> {
        self.goes_on(std::time::Duration::from_millis(wanted.for_ms), stop)?;
        Ok(Explained {
            interface: wanted.interface.clone(),
            seen_packets: wanted.for_ms,
            over: None,
            packets: Vec::new(),
        })
    }

    fn shadow(
        &self,
        _file: &Path,
        _interface: Option<&str>,
        span: std::time::Duration,
        stop: &dyn Fn() -> bool,
    ) -> Result<ShadowReport, Refusal> {
        self.goes_on(span, stop)?;
        Ok(ShadowReport {
            span_ns: span.as_nanos() as u64,
            classes: Vec::new(),
        })
    }
}

/// A socket path of its own for each test; its directory is removed when it is dropped.
struct SocketPath(PathBuf);

impl SocketPath {
    fn new(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("suimon-test-{}-{name}", std::process::id()));
        Self(directory.join("control.sock"))
    }

    fn name(&self) -> &str {
        self.0.to_str().expect("a path of text")
    }
}

impl Drop for SocketPath {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0.parent().expect("a directory"));
    }
}

#[test]
fn a_client_gets_the_readings_of_the_server() {
    let place = SocketPath::new("served");
    let server = Server::start(&place.0, Fake::new()).expect("a server");
    assert_eq!(
        std::fs::metadata(server.path()).expect("it").permissions().mode() & 0o777,
        0o600
    );
    let mut client = Client::connect(Some(place.name())).expect("a connection");
    let now = client.status(std::time::Duration::ZERO, false).expect("a status");
    assert_eq!((now.version, now.interval_ns), (1, None));
    let over = client
        .status(std::time::Duration::from_millis(10), false)
        .expect("a status");
    assert_eq!(over.interfaces[0].traffic.got_bps, Some(5_000_000));
    let reply = client
        .ask(&Request::Disable { interface: None })
        .expect("a reply");
    assert_eq!(
        reply,
        Reply::Done {
            message: "switched".into(),
            difference: None,
        }
    );
    let now = client.status(std::time::Duration::ZERO, false).expect("a status");
    assert_eq!(now.interfaces[0].state, State::Disabled);
    let wrong = Request::Enable {
        interface: Some("lan0".into()),
    };
    assert_eq!(
        client.ask(&wrong),
        Ok(Reply::Refused(Refusal::new("no such interface")))
    );
}

/// Sends a request, and leaves the connection open.
fn sent(place: &SocketPath, request: &Request) -> UnixStream {
    let mut stream = UnixStream::connect(&place.0).expect("it serves");
    let line = serde_json::to_string(request).expect("JSON");
    writeln!(stream, "{line}").expect("it reads");
    stream
}

fn reply(stream: UnixStream) -> String {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).expect("a reply");
    line
}

#[test]
fn what_takes_long_ends_with_whoever_asked_and_not_when_they_ask_no_more() {
    let place = SocketPath::new("shadow");
    let fake = Fake::new();
    let server = Server::start(&place.0, Arc::clone(&fake) as Arc<dyn Handler>).expect("a server");
    let shadow = |span_ms: u64| Request::Shadow {
        file: "/new.toml".into(),
        interface: None,
        span_ms,
    };
    let explain = |for_ms: u64| {
        Request::Explain(ExplainRequest {
            interface: "wan0".into(),
            class: None,
            drops: false,
            packets: 1,
            for_ms,
        })
    };
    for (request, answer) in [
        (shadow(50), "\"span_ns\":50000000"),
        (explain(50), "\"seen_packets\":50"),
    ] {
        let half = sent(&place, &request);
        half.shutdown(std::net::Shutdown::Write).expect("half closed");
        assert!(reply(half).contains(answer), "{request:?}");
    }
    for wrong in [0, 3_600_001, u64::MAX] {
        assert!(
            reply(sent(&place, &shadow(wrong))).contains("1 ms to 1 h"),
            "{wrong}"
        );
    }
    assert_eq!(fake.stopped.load(Ordering::Relaxed), 0);
    let apply = Request::Apply {
        file: "/new.toml".into(),
        confirm_within_ms: Some(3_600_000),
        break_reservations: Breaking::Refused,
        reason: None,
    };
    for (at, long) in (0..).zip([shadow(3_600_000), explain(3_600_000), apply]) {
        drop(sent(&place, &long));
        let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while fake.stopped.load(Ordering::Relaxed) == at {
            assert!(std::time::Instant::now() < end, "it goes on for nobody: {long:?}");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
    // The end of the program is an end, too: whoever waits does not hold it up.
    let waits = sent(&place, &explain(3_600_000));
    drop(server);
    drop(waits);
}

/// Once a client gave up after eight seconds, and the change came into force after that.
#[test]
fn a_client_waits_for_as_long_as_its_request_is_worked_on() {
    let place = SocketPath::new("long");
    let _server = Server::start(&place.0, Fake::new()).expect("a server");
    let apply = |takes_ms: u64| Request::Apply {
        file: "/new.toml".into(),
        confirm_within_ms: Some(takes_ms),
        break_reservations: Breaking::Refused,
        reason: None,
    };
    // A sign of life stands before the reply, which is JSON all the same.
    let mut stream = sent(&place, &apply(2_500));
    let mut first = [0];
    stream.read_exact(&mut first).expect("a sign");
    assert_eq!(first, *b" ");
    let line = reply(stream);
    let read: Reply = serde_json::from_str(&format!(" {line}")).expect("a reply");
    assert!(matches!(read, Reply::Done { .. }), "{read:?}");
    // Longer than it waits for one that shows none.
    let mut client = Client::connect(Some(place.name())).expect("a connection");
    let answer = client.ask(&apply(9_500)).expect("a reply");
    assert!(matches!(answer, Reply::Done { .. }), "{answer:?}");
    // The connection goes on.
    assert!(matches!(
        client.ask(&Request::Version {}),
        Ok(Reply::Version { .. })
    ));
}

#[test]
fn following_gives_a_reply_for_every_interval_until_the_server_ends() {
    let place = SocketPath::new("follow");
    let server = Server::start(&place.0, Fake::new()).expect("a server");
    let mut client = Client::connect(Some(place.name())).expect("a connection");
    let first = client
        .status(std::time::Duration::from_millis(10), true)
        .expect("the first");
    let second = socket::snapshot(client.next_reply().expect("the second")).expect("a status");
    assert!(second.at_ns > first.at_ns);
    drop(server);
    let end = std::iter::from_fn(|| Some(client.next_reply())).find_map(Result::err);
    let end = end.expect("it ends");
    assert!(end.message.contains("has ended"), "{end}");
    assert!(!place.0.exists(), "the socket is still there");
}

#[test]
fn an_unknown_request_is_refused_and_an_endless_line_cut_off() {
    let place = SocketPath::new("garbage");
    let _server = Server::start(&place.0, Fake::new()).expect("a server");
    let mut stream = UnixStream::connect(&place.0).expect("a connection");
    stream
        .write_all(b"{\"request\":\"stauts\"}\n\xff\xfe\n{\"request\":\"version\"}\n")
        .expect("written");
    let mut lines = BufReader::new(stream.try_clone().expect("a copy")).lines();
    let mut line = || lines.next().expect("a line").expect("text");
    assert!(line().contains("refused"));
    assert!(line().contains("refused"));
    assert!(line().contains("\"program\":\"fake\""));
    let mut stream = UnixStream::connect(&place.0).expect("a connection");
    // The server may close before all is written.
    let _ = stream.write_all(&vec![b'x'; socket::LINE + 10]);
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.contains("at most") || answer.is_empty(), "{answer}");
    assert!(Client::connect(Some(place.name())).is_ok(), "the server is gone");
}

#[test]
fn a_reader_that_does_not_read_disturbs_nobody() {
    let place = SocketPath::new("slow");
    let _server = Server::start(&place.0, Fake::new()).expect("a server");
    let mut slow = UnixStream::connect(&place.0).expect("a connection");
    slow.write_all(b"{\"request\":\"status\",\"interval_ms\":1,\"follow\":true}\n")
        .expect("written");
    let mut client = Client::connect(Some(place.name())).expect("a connection");
    for _ in 0..100 {
        client.status(std::time::Duration::ZERO, false).expect("a status");
    }
    let open: Vec<_> = (0..socket::CONNECTIONS)
        .map(|_| UnixStream::connect(&place.0))
        .collect();
    let mut last = String::new();
    let full = open.last().expect("one").as_ref().expect("a connection");
    BufReader::new(full).read_line(&mut last).expect("an answer");
    assert!(last.contains("connections of this suimon are taken"), "{last}");
}

#[test]
fn a_stale_socket_is_replaced_and_a_served_one_is_not() {
    let place = SocketPath::new("stale");
    let living = Server::start(&place.0, Fake::new()).expect("a server");
    let refused = Server::start(&place.0, Fake::new()).expect_err("it lives");
    assert!(refused.to_string().contains("another suimon"), "{refused}");
    drop(living);
    drop(std::os::unix::net::UnixListener::bind(&place.0).expect("a socket that nobody serves"));
    let server = Server::start(&place.0, Fake::new()).expect("it was dead");
    drop(server);
    std::fs::write(&place.0, "precious").expect("a file");
    assert!(
        Server::start(&place.0, Fake::new()).is_err(),
        "a file was replaced"
    );
    assert_eq!(
        std::fs::read_to_string(&place.0).expect("still there"),
        "precious"
    );
}

/// A server in a child process, which is killed when this is dropped.
struct ServerProcess(Child);

impl ServerProcess {
    /// Runs this test again in a child process, where [`serve_if_asked`] serves.
    fn start(test: &str, place: &SocketPath) -> Self {
        let mut program = Command::new(std::env::current_exe().expect("this program"));
        program.args(["--exact", test]).env(SERVE, &place.0);
        let child = program.stdout(Stdio::null()).spawn().expect("it starts");
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while Client::connect(Some(place.name())).is_err() {
            assert!(std::time::Instant::now() < until, "nothing is served");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Self(child)
    }

    fn signal(&self, name: &str) {
        let kill = Command::new("kill")
            .args([&format!("-{name}"), &self.0.id().to_string()])
            .status();
        assert!(kill.expect("kill runs").success());
    }

    /// Sends `SIGSTOP`, and waits until all threads are stopped.
    fn stop(&self) {
        self.signal("STOP");
        let is_stopped = |thread: std::fs::DirEntry| {
            let status = std::fs::read_to_string(thread.path().join("status"));
            status.is_ok_and(|status| status.contains("State:\tT"))
        };
        let threads =
            || std::fs::read_dir(format!("/proc/{}/task", self.0.id())).expect("the process exists");
        while !threads().flatten().all(is_stopped) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const SERVE: &str = "SUIMON_TEST_SERVE";

/// Serves for a while if a test started this process for it; returns whether it did.
fn serve_if_asked() -> bool {
    let Some(path) = std::env::var_os(SERVE) else {
        return false;
    };
    let _server = Server::start(&PathBuf::from(path), Fake::new()).expect("a server");
    std::thread::sleep(std::time::Duration::from_secs(60));
    true
}

/// Once it held one of the places for five minutes with each byte.
#[test]
fn a_request_that_trickles_in_is_refused_after_seconds_in_all() {
    let place = SocketPath::new("trickles");
    let _server = Server::start(&place.0, Fake::new()).expect("a server");
    let mut stream = UnixStream::connect(&place.0).expect("a connection");
    let mut reader = stream.try_clone().expect("another descriptor");
    let began = std::time::Instant::now();
    let writes = std::thread::spawn(move || {
        // Each byte comes long before a connection counts as idle.
        for _ in 0..200 {
            if stream.write_all(b" ").is_err() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    });
    let mut said = String::new();
    let _ = reader.read_to_string(&mut said);
    let took = began.elapsed().as_secs_f64();
    writes.join().expect("the client");
    assert!(said.contains("5 s to arrive"), "{said}");
    assert!((4.5..15.0).contains(&took), "{took} s");
}

#[test]
fn a_stopped_program_is_not_waited_for_and_a_slow_one_is() {
    if serve_if_asked() {
        return;
    }
    let place = SocketPath::new("stopped");
    let apart = ServerProcess::start("a_stopped_program_is_not_waited_for_and_a_slow_one_is", &place);
    let mut client = Client::connect(Some(place.name())).expect("a connection");
    apart.stop();
    let why = client.ask(&Request::Confirm {}).expect_err("it is stopped");
    // It may go on, and carry it out.
    assert!(why.message.contains("is stopped: whether"), "{why}");
    assert!(why.help.is_some_and(|help| help.contains("suimon history")));
    let mut client = Client::connect(Some(place.name())).expect("a connection");
    let why = client.ask(&Request::Version {}).expect_err("it is stopped");
    assert!(why.message.ends_with("is stopped"), "{why}");
    let help = why.help.expect("what to do");
    assert!(help.contains(&format!("kill -CONT {}", apart.0.id())), "{help}");
    apart.signal("CONT");
    let mut client = Client::connect(Some(place.name())).expect("a connection");
    assert!(matches!(
        client.ask(&Request::Version {}),
        Ok(Reply::Version { .. })
    ));
    let slow = SocketPath::new("slowly");
    let _server = Server::start(&slow.0, Fake::taking(std::time::Duration::from_secs(3))).expect("a server");
    let mut client = Client::connect(Some(slow.name())).expect("a connection");
    client.status(std::time::Duration::ZERO, false).expect("a status");
}

#[test]
fn with_all_connections_taken_a_client_is_told_so() {
    let place = SocketPath::new("full");
    let _server = Server::start(&place.0, Fake::new()).expect("a server");
    let open: Vec<_> = (0..=socket::CONNECTIONS)
        .map(|_| UnixStream::connect(&place.0).expect("a connection"))
        .collect();
    let client = Client::connect(Some(place.name()));
    let reply = client.and_then(|mut client| client.ask(&Request::Version {}));
    let Ok(Reply::Refused(why)) = reply else {
        panic!("{reply:?}")
    };
    assert!(
        why.message.contains("connections of this suimon are taken"),
        "{why}"
    );
    drop(open);
}

#[test]
fn requests_that_keep_their_connection_leave_some_for_short_ones() {
    let place = SocketPath::new("lasting");
    let _server = Server::start(&place.0, Fake::new()).expect("a server");
    let follow = Request::Status {
        interval_ms: 1000,
        follow: true,
        detail: StatusDetail::Full,
    };
    let clients: Vec<Client> = (0..socket::LASTING)
        .map(|_| {
            let mut client = Client::connect(Some(place.name())).expect("a connection");
            client.tell(&follow).expect("sent");
            client
        })
        .collect();
    // The requests are read by a thread each; until the last is, one more may be let in.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let refused = loop {
        let mut one_more = Client::connect(Some(place.name())).expect("a connection");
        one_more.tell(&follow).expect("sent");
        // A refusal comes at once, a status after its interval.
        if let Ok(Reply::Refused(why)) = one_more.next_reply() {
            break why;
        }
        assert!(std::time::Instant::now() < until, "nobody is refused");
    };
    assert!(refused.message.contains("are taken"), "{refused}");
    let mut short = Client::connect(Some(place.name())).expect("a connection");
    short.status(std::time::Duration::ZERO, false).expect("a status");
    drop(clients);
}

#[test]
fn control_characters_in_a_reply_do_not_reach_the_terminal() {
    let place = SocketPath::new("controls");
    std::fs::create_dir(place.0.parent().expect("a directory")).expect("made");
    let listener = std::os::unix::net::UnixListener::bind(&place.0).expect("a socket");
    let serve = std::thread::spawn(move || {
        let mut stream = listener.accept().expect("a client").0;
        let line = b"{\"reply\":\"done\",\"message\":\"a\\u001b]0;owned\\u0007b\\tc\xc2\x9b2Jd\x7f\"}\n";
        stream.write_all(line).expect("sent");
        let mut request = String::new();
        BufReader::new(&stream)
            .read_line(&mut request)
            .expect("a request");
    });
    let mut client = Client::connect(Some(place.name())).expect("a connection");
    let reply = client.ask(&Request::Version {}).expect("a reply");
    serve.join().expect("served");
    let Reply::Done { message, .. } = reply else {
        panic!("{reply:?}")
    };
    assert_eq!(message, "a\\u{1b}]0;owned\\u{7}b\tc\\u{9b}2Jd\\u{7f}");
}

#[test]
fn a_socket_that_another_user_could_have_made_is_not_trusted() {
    let place = SocketPath::new("trust");
    let _server = Server::start(&place.0, Fake::new()).expect("a server");
    let directory = place.0.parent().expect("a directory");
    let mode = |mode| std::fs::set_permissions(directory, std::fs::Permissions::from_mode(mode));
    mode(0o777).expect("ours");
    let why = Client::connect(Some(place.name())).expect_err("anyone may have put it there");
    assert!(why.message.contains("another user may write in"), "{why}");
    mode(0o1777).expect("ours");
    assert!(Client::connect(Some(place.name())).is_ok(), "as in /tmp");
    mode(0o700).expect("ours");
    let alias = directory.join("alias.sock");
    std::os::unix::fs::symlink(&place.0, &alias).expect("a link");
    let why = Client::connect(alias.to_str()).expect_err("a link");
    assert!(why.message.contains("is not a socket"), "{why}");
    if std::os::unix::fs::chown(&place.0, Some(65534), None).is_ok() {
        let why = Client::connect(Some(place.name())).expect_err("not its owner serves it");
        assert!(why.message.contains("served by another user"), "{why}");
    }
}

#[test]
fn packets_that_found_no_memory_are_counted_with_their_class_and_frames_that_reached_no_queue_too() {
    let mut reading = reading(&Arc::new(interface()), 1, State::Enabled);
    let wan0 = &mut reading.interfaces[0];
    wan0.classes[0].short = Count {
        packets: 3,
        bytes: Bytes::new(300),
    };
    wan0.frames.missed = 7;
    let snapshot = reading.snapshot(None);
    for class in &snapshot.interfaces[0].classes[..2] {
        assert_eq!(class.traffic.drops.get("memory"), Some(&3), "{}", class.name);
    }
    let json = serde_json::to_value(&snapshot).expect("json");
    assert_eq!(json["interfaces"][0]["frames"]["missed"], 7);
}
