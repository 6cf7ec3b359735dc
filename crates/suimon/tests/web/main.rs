//! `suimon web`: the page in a real browser, its events, `/metrics`, `/api/status`, `suimon top`,
//! `suimon status --json` and `suimon explain` say the same of a running program, and nobody is
//! served who came by a name.

#[path = "../stubs/asked.rs"]
mod asked;
mod browser;
mod openapi;
mod promtool;
mod quotas;
mod scrolled;
#[path = "../stubs/terminal.rs"]
mod stub;
mod undo;
mod what_if;

use browser::Browser;
use control::difference::{Breaking, GenerationView};
use control::explained::{ExplainRequest, Explained, explained};
use control::policy::{InterfacePolicy, Policy};
use control::protocol::{Refusal, SettingChanges};
use control::provenance::Provenance;
use control::quota::QuotaView;
use control::snapshot::{ClassReading, ExperienceOfInterface, InterfaceReading, Reading};
use control::socket::{Handler, Server};
use engine::discipline::{Next, Reason, Sink};
use engine::header::FlowKey;
use engine::inspect::View;
use engine::packet::{Buffer, ClassId, Packet};
use engine::queue::{Count, Stats};
use engine::random::Seed;
use engine::tree::Registry;
use engine::units::{Bytes, Duration, Instant};
use measure::delay::Delays;
use measure::round_trips::{ExperienceCounts, RoundTripTable};
use measure::waits::{WaitRecorder, Wanted};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::num::NonZero;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use stub::terminal;

const SUIMON: &str = env!("CARGO_BIN_EXE_suimon");
const INTERFACE: &str = "version = 1\n[interface.wan0]\nbandwidth = \"20 Mbit/s\"\ndiscipline = \"drr\"\n";

/// Classes of these names, the last of them the default one.
fn policy(names: &[String]) -> String {
    let classes = names
        .iter()
        .map(|name| format!("[[interface.wan0.class]]\nname = \"{name}\"\n"));
    classes.fold(INTERFACE.to_owned(), |text, class| text + &class) + "default = true\n"
}

/// A running suimon whose classes send at constant rates, or nothing any more.
struct Steady {
    text: String,
    policy: Arc<InterfacePolicy>,
    moving: bool,
    /// The hosts behind it whose connections are measured, if any are.
    hosts: u8,
    /// How quotas of classes stand.
    quotas: BTreeMap<String, QuotaView>,
    /// How often it was read: 100 ms pass between two readings.
    readings: AtomicU64,
    /// The generation in force: the first or the second.
    in_force: AtomicU64,
}

/// The time between two readings.
const READING: Duration = Duration::from_millis(100);
/// The length of each packet.
const LENGTH: Bytes = Bytes::new(1_000);
/// How long each packet waits.
const WAIT: Duration = Duration::from_millis(3);

/// Its queues drop nothing.
struct Never;

impl Sink for Never {
    fn drop(&mut self, packet: Packet, why: Reason) {
        panic!("{packet:?} is dropped: {why:?}");
    }
}

/// Classes with delays; more would take long to make.
const DELAYED: u32 = 10;

impl Steady {
    fn new(names: &[String], moving: bool) -> Self {
        Self::of(policy(names), moving)
    }

    fn of(text: String, moving: bool) -> Self {
        let read = Policy::read("test", &text, &Registry::builtin(), &[]);
        let mut policy = read.unwrap_or_else(|mistakes| panic!("{}", mistakes.render(false)));
        Self {
            text,
            policy: Arc::new(policy.interfaces.remove(0)),
            moving,
            hosts: 0,
            quotas: BTreeMap::new(),
            readings: AtomicU64::new(1),
            in_force: AtomicU64::new(2),
        }
    }

    /// What a class has sent after so many readings: the first 7 kB each time, and each 1 kB more.
    fn sent(class: u32, readings: u64) -> Count {
        let packets = u64::from(Self::packets(class)) * readings;
        Count {
            packets,
            bytes: LENGTH.times(packets),
        }
    }

    fn packets(class: u32) -> u32 {
        7 + class
    }

    /// What a recorder beside the engine's queue sees in so many readings: the packets of each
    /// arrive together, and leave together when they have waited.
    fn waits(&self, class: Option<ClassId>, keep: usize, readings: u64) -> Explained {
        let plan = &self.policy.plan;
        let mut queue = plan.build(Seed(1));
        let wanted = Wanted {
            class,
            drops: false,
            keep,
            since: Instant::START,
            until: Instant::NEVER,
        };
        let mut waits = WaitRecorder::new(wanted, Some(plan.clone()), None);
        for reading in 0..readings {
            let at = Instant::START + READING.times(reading);
            let classes = (0..plan.classes.len()).map(|class| ClassId(class as u32));
            for class in classes.flat_map(|class| (0..Self::packets(class.0)).map(move |_| class)) {
                let mut packet = Packet::new(LENGTH, at, class);
                packet.buffer = Buffer(queue.backlog().packets as u32);
                waits.arrives(at, &packet, &queue, FlowKey::default);
                let _ = queue.enqueue(at, packet, &mut Never);
                waits.arrived();
            }
            while let Next::Ready(packet) = queue.dequeue(at + WAIT, &mut Never) {
                waits.departs(at + WAIT, &packet, None, &queue);
            }
        }
        explained(&self.policy, &waits.finish(), &[])
    }

    fn class(class: u32, readings: u64) -> ClassReading {
        let mut delays = Delays::default();
        let delayed = if class < DELAYED { readings } else { 0 };
        (0..delayed).for_each(|_| delays.record(WAIT));
        ClassReading {
            class: ClassId(class),
            sent: Self::sent(class, readings),
            short: Count::default(),
            delays,
            held_up: None,
        }
    }

    /// What a host has after so many readings: of each, 10 segments or
    /// more, and a round trip of 20 ms or more.
    fn host(host: u8, readings: u64) -> (IpAddr, ExperienceCounts) {
        let segments = (10 + u64::from(host)) * readings;
        let mut trips = RoundTripTable::default();
        (0..readings).for_each(|_| trips.record(Duration::from_millis(20 + u64::from(host))));
        let counts = ExperienceCounts {
            whole: trips.counts(),
            handshakes: trips.counts(),
            segments,
            offered: LENGTH.times(segments),
            ..ExperienceCounts::default()
        };
        (IpAddr::from([10, 0, 0, host]), counts)
    }

    fn stats(sent: Count) -> Stats {
        Stats {
            offered: sent,
            sent,
            ..Stats::default()
        }
    }

    fn interface(&self, readings: u64) -> InterfaceReading {
        let classes = u32::try_from(self.policy.plan.classes.len()).expect("a number");
        let all = (0..classes).map(|class| Self::sent(class, readings));
        let totals = Self::stats(all.fold(Count::default(), |sum, sent| Count {
            packets: sum.packets + sent.packets,
            bytes: sum.bytes + sent.bytes,
        }));
        let view = |class: Option<u32>| View {
            class: class.map(ClassId),
            kind: "fifo",
            stats: class.map_or(totals, |class| Self::stats(Self::sent(class, readings))),
            gauges: Vec::new(),
        };
        InterfaceReading {
            not_enforced: Some("wan0 is down".into()),
            totals,
            views: std::iter::once(None)
                .chain((0..classes).map(Some))
                .map(view)
                .collect(),
            classes: (0..classes).map(|class| Self::class(class, readings)).collect(),
            experience: (self.hosts > 0).then(|| ExperienceOfInterface {
                hosts: (1..=self.hosts).map(|host| Self::host(host, readings)).collect(),
                ..ExperienceOfInterface::default()
            }),
            quotas: self.quotas.clone(),
            ..InterfaceReading::of(Arc::clone(&self.policy))
        }
    }
}

impl Handler for Steady {
    fn version(&self) -> String {
        "steady".into()
    }

    fn read(&self) -> Result<Reading, Refusal> {
        let readings = match self.moving {
            true => self.readings.fetch_add(1, Ordering::Relaxed),
            false => 1,
        };
        Ok(Reading {
            unconfined: Vec::new(),
            at: Instant::START + READING.times(readings),
            policy: "steady".into(),
            interfaces: vec![self.interface(readings)],
        })
    }

    fn history(&self) -> Result<Vec<GenerationView>, Refusal> {
        let in_force = self.in_force.load(Ordering::Relaxed);
        let generation = |number, by: &str, changes: Vec<String>| GenerationView {
            number,
            age_ms: 3_000 - 1_000 * number,
            by: by.into(),
            provenance: Provenance {
                author: Some("root".into()),
                reason: None,
            },
            changes,
            in_force: number == in_force,
            unconfirmed_ms: None,
        };
        let change = "wan0: bandwidth: 10 Mbit/s → 20 Mbit/s".into();
        Ok(vec![
            generation(1, "run", Vec::new()),
            generation(2, "set", vec![change]),
        ])
    }

    fn rollback(&self, to: Option<u64>, _breaking: Breaking, by: Provenance) -> Result<String, Refusal> {
        match to {
            Some(to @ 1..=2) => {
                self.in_force.store(to, Ordering::Relaxed);
                Ok(format!("generation {to} again, {by}"))
            }
            _ => Err(Refusal::new("there is no such generation")),
        }
    }

    fn policy_text(&self) -> Result<String, Refusal> {
        Ok(self.text.clone())
    }

    fn explain(&self, wanted: &ExplainRequest, _stop: &dyn Fn() -> bool) -> Result<Explained, Refusal> {
        let readings = Duration::from_millis(wanted.for_ms).nanos() / READING.nanos();
        Ok(self.waits(wanted.class_of(&self.policy)?, wanted.packets, readings))
    }

    fn switch(&self, _interface: Option<&str>, _on: bool) -> Result<String, Refusal> {
        Err(Refusal::new("nothing changes it"))
    }

    fn detach(&self, _interface: Option<&str>) -> Result<String, Refusal> {
        Err(Refusal::new("nothing changes it"))
    }

    fn set(&self, _changes: &SettingChanges, _by: Provenance) -> Result<String, Refusal> {
        Err(Refusal::new("nothing changes it"))
    }
}

fn names(count: u32) -> Vec<String> {
    (0..count).map(|class| format!("site-{class}")).collect()
}

/// `suimon web` beside it; both end with this.
struct Web {
    folder: PathBuf,
    socket: String,
    address: String,
    /// What has to be known to change something; nothing if nothing can be changed.
    token: String,
    child: Child,
    _server: Server,
}

impl Web {
    fn start(name: &str, of: Steady) -> Self {
        Self::start_with(name, of, &[])
    }

    fn start_with(name: &str, of: Steady, options: &[&str]) -> Self {
        let folder = std::env::temp_dir().join(format!("suimon-web-{name}-{}", std::process::id()));
        let socket = folder.join("steady.sock");
        let server = Server::start(&socket, Arc::new(of)).expect("a server");
        let socket = socket.display().to_string();
        let mut child = Command::new(SUIMON)
            .args(["web", "--listen", "127.0.0.1:0", "--socket", &socket])
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let out = child.stdout.as_mut().expect("a pipe");
        let mut lines = BufReader::new(out).lines();
        let line = lines.next().expect("a line").expect("its address");
        let token = match options.contains(&"--undo") {
            false => String::new(),
            true => {
                let line = lines.next().expect("a line").expect("its token");
                let (_, token) = line.split_once("#token=").expect("a token");
                token.split(' ').next().expect("a word").to_owned()
            }
        };
        let address = line
            .trim_start_matches("http://")
            .split('/')
            .next()
            .expect("an address");
        Self {
            folder,
            socket,
            address: address.to_owned(),
            token,
            child,
            _server: server,
        }
    }

    fn ask(&self, path: &str, host: &str) -> TcpStream {
        self.send(&format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        ))
    }

    fn send(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        let patience = std::time::Duration::from_secs(60);
        stream.set_read_timeout(Some(patience)).expect("set");
        stream.write_all(request.as_bytes()).expect("sent");
        stream
    }

    /// What is answered to a question that is sent, with further header fields.
    fn post(&self, path: &str, host: &str, fields: &str, body: &str) -> String {
        let length = body.len();
        let mut text = String::new();
        self.send(&format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\n{fields}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        ))
        .read_to_string(&mut text)
        .expect("an answer");
        text
    }

    /// The status line, and the body.
    fn get(&self, path: &str, host: &str) -> (String, String) {
        let mut text = String::new();
        self.ask(path, host).read_to_string(&mut text).expect("an answer");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        (
            head.lines().next().unwrap_or_default().to_owned(),
            body.to_owned(),
        )
    }

    /// The first state that the page is told.
    fn state(&self, is: impl Fn(&Value) -> bool) -> Value {
        let lines = BufReader::new(self.ask("/api/events", "localhost")).lines();
        for line in lines {
            let line = line.expect("an event");
            let Some(text) = line.strip_prefix("data: ") else {
                continue;
            };
            let state: Value = serde_json::from_str(text).expect("JSON");
            if is(&state) {
                return state;
            }
        }
        panic!("the events ended")
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn the_page_the_metrics_and_the_status_say_the_same() {
    let web = Web::start("apis", Steady::new(&names(2), false));
    let status = Command::new(SUIMON)
        .args(["status", "--json", "--interval", "0s", "--socket", &web.socket])
        .output()
        .expect("it runs");
    assert_eq!(status.status.code(), Some(5), "it is not enforced: {status:?}");
    let status: Value = serde_json::from_slice(&status.stdout).expect("JSON");
    let of = |from: &Value| from["interfaces"][0].clone();
    let status = of(&status);
    let (line, api) = web.get("/api/status", "127.0.0.1");
    assert!(line.contains("200"), "{line}");
    let api: Value = serde_json::from_str(&api).expect("JSON");
    assert_eq!(of(&api)["classes"], status["classes"]);
    let (line, metrics) = web.get("/metrics", "localhost");
    assert!(line.contains("200"), "{line}");
    let event = of(&web.state(|state| state["snapshot"].is_object())["snapshot"]);
    assert_eq!(event["not_enforced"], status["not_enforced"]);
    assert!(
        metrics.contains("suimon_enforced{interface=\"wan0\"} 0.0"),
        "{metrics}"
    );
    for class in 0..2 {
        let (shown, known) = (&event["classes"][class], &status["classes"][class]);
        assert_eq!(shown["name"], known["name"]);
        assert_eq!(
            shown["backlog_packets"].as_u64().unwrap_or(0),
            known["backlog_packets"]
        );
        let (name, bytes) = (known["name"].as_str().expect("a name"), &known["sent_bytes"]);
        let counted = format!("suimon_class_bytes_total{{interface=\"wan0\",class=\"{name}\"}} {bytes}\n");
        assert!(metrics.contains(&counted), "{counted} is not in {metrics}");
    }
    let (line, page) = web.get("/", "localhost");
    assert!(line.contains("200") && page.contains("page.js"), "{line}");
    for file in ["/page.js", "/page.css", "/uplot.js", "/uplot.css"] {
        let (line, text) = web.get(file, "localhost");
        assert!(line.contains("200") && !text.is_empty(), "{file}: {line}");
    }
    // A page elsewhere may have a browser ask here by a name of its own.
    for path in ["/", "/metrics", "/api/status", "/api/events"] {
        let (line, _) = web.get(path, "rebound.example");
        assert!(line.contains("403"), "{path}: {line}");
    }
}

/// A browser at the page of this web; `None`, and a skip, where there is none.
fn opened(web: &Web, size: (u32, u32)) -> Option<Browser> {
    let token = match web.token.as_str() {
        "" => String::new(),
        token => format!("#token={token}"),
    };
    let browser = Browser::open(&web.folder, &format!("http://{}/{token}", web.address), size);
    if browser.is_none() {
        skips::skipped("chromium is not installed");
    }
    browser
}

/// What `suimon status --json` says, over a fifth of a second.
fn status(web: &Web) -> Value {
    let status = Command::new(SUIMON)
        .args(["status", "--json", "--interval", "200ms", "--socket", &web.socket])
        .output()
        .expect("it runs");
    serde_json::from_slice(&status.stdout).expect("JSON")
}

/// What `suimon explain --live` says of a class: how many of its packets left in half a second, and
/// the one that waited longest.
fn explained_of(web: &Web, class: &str) -> (u64, Value) {
    let asked = [
        "explain",
        "--live",
        "wan0",
        "--class",
        class,
        "--for",
        "500ms",
        "--slowest",
        "1",
    ];
    let explain = |more: &[&str]| {
        let output = Command::new(SUIMON)
            .args(asked)
            .args(["--socket", &web.socket])
            .args(more)
            .output()
            .expect("it runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let json: Value = serde_json::from_str(&explain(&["--json"])).expect("JSON");
    let (seen, packet) = (
        json["seen_packets"].as_u64().expect("a number"),
        &json["packets"][0],
    );
    // People read the same.
    let words = explain(&[]);
    let waited = measure::numbers::time(packet["wait_ns"].as_u64().expect("a wait"));
    for said in [
        format!("wan0: {seen} packets left; the 1 that waited longest:"),
        format!(", class {class}, 1 kB: waited {waited}"),
    ] {
        assert!(words.contains(&said), "{said:?} is not in\n{words}");
    }
    (seen, packet.clone())
}

/// Bandwidths and delays of classes that send at constant rates: in the page that a person sees, in
/// `top` on a terminal, in `status --json`, from Prometheus' counters, and of the packets that
/// `explain` shows; and round trips of hosts, where they are told.
#[test]
fn a_browser_top_status_metrics_and_explain_agree() {
    let steady = Steady {
        hosts: 3,
        ..Steady::new(&names(4), true)
    };
    let web = Web::start_with("agree", steady, &["--hosts"]);
    let Some(mut browser) = opened(&web, (1200, 1000)) else {
        return;
    };
    let status = status(&web);
    let classes = status["interfaces"][0]["classes"].as_array().expect("classes");
    let top = top(&web.socket, 100);
    let (_, first) = web.get("/metrics", "localhost");
    let (_, second) = web.get("/metrics", "localhost");
    browser.wait_for("document.querySelectorAll('tbody tr').length > 5");
    browser.wait_for("document.querySelector('tbody').textContent.includes('kbit/s')");
    for (class, known) in classes.iter().enumerate() {
        let name = known["name"].as_str().expect("a name");
        // 1 kB a packet, 7 or more packets in 100 ms.
        let bits = 80_000 * (7 + class as u64);
        assert_eq!(known["got_bps"], bits, "{name}");
        let (seen, slowest) = explained_of(&web, name);
        let length = slowest["bytes"].as_u64().expect("a length");
        assert_eq!(2 * seen * length * 8, bits, "{name}: in half a second");
        assert_eq!(slowest["class"], name);
        // What waited longest is exact, a percentile at most 1/16 above.
        let wait = slowest["wait_ns"].as_u64().expect("a wait");
        assert_eq!(known["delay"]["max_ns"].as_u64(), Some(wait), "{name}");
        let p99 = known["delay"]["p99_ns"].as_u64().expect("a delay");
        assert!(wait <= p99 && p99 <= wait + wait / 16, "{name}: {wait}, {p99}");
        // Those of its class that came with it were before it.
        let before: u64 = (slowest["before"].as_array().expect("a list").iter())
            .filter(|before| before["class"] == name)
            .map(|before| before["packets"].as_u64().expect("a number"))
            .sum();
        assert!(before < 7 + class as u64, "{name}: {before}");
        let row = format!(
            "[...document.querySelectorAll('tbody tr')].find(row => row.cells[0].textContent === '{name}')"
        );
        let cell = |index: u8| format!("{row}.cells[{index}].textContent");
        browser.wait_for(&format!("{row}.cells[2].textContent === rate({bits})"));
        let p99 = format!("{} === time({})", cell(6), known["delay"]["p99_ns"]);
        browser.wait_for(&p99);
        let shown = measure::numbers::rate(bits);
        let line = top.lines().find(|line| line.contains(name));
        assert!(
            line.is_some_and(|line| line.contains(&shown)),
            "{name}: {shown} in\n{top}"
        );
        let counter = |metrics: &str| -> u64 {
            let begin = format!("suimon_class_bytes_total{{interface=\"wan0\",class=\"{name}\"}} ");
            let line = metrics.lines().find_map(|line| line.strip_prefix(&begin));
            line.and_then(|count| count.parse().ok()).expect("a counter")
        };
        // Between two scrapes are as many readings for one class as for another.
        let first_class = (counter(&second) - counter(&first)) / (7 + class as u64);
        assert!(
            first_class >= 1_000 && first_class.is_multiple_of(1_000),
            "{name}: {first_class}"
        );
    }
    hosts_agree(&mut browser, &status, &second);
    let badge = browser.evaluate("document.querySelector('.badge').textContent");
    assert_eq!(
        (badge, &status["interfaces"][0]["not_enforced"]),
        (json!("not enforced"), &json!("wan0 is down"))
    );
    assert_eq!(
        browser.evaluate("document.querySelector('.why').textContent"),
        "wan0 is down"
    );
}

/// What hosts have, in the page, in `status --json`, and from Prometheus' metrics.
fn hosts_agree(browser: &mut Browser, status: &Value, metrics: &str) {
    browser.evaluate("document.querySelector('.hosts').open = true");
    let hosts = status["interfaces"][0]["hosts"].as_array().expect("hosts");
    assert_eq!(hosts.len(), 3);
    for host in hosts {
        let address = host["address"].as_str().expect("an address");
        let last = address
            .rsplit('.')
            .next()
            .and_then(|last| last.parse::<u64>().ok());
        let trip = (20 + last.expect("a number")) * 1_000_000;
        let [p50, p99] = ["p50_ns", "p99_ns"].map(|of| host["whole"][of].as_u64().expect("a time"));
        // At most 1/64 off.
        assert!(p50.abs_diff(trip) <= trip / 64 && p99 == p50, "{host}");
        let metric = |of: &str| -> f64 {
            let begin = format!("suimon_host_{of}");
            let line = metrics.lines().find_map(|line| line.strip_prefix(&begin));
            let value = line.and_then(|value| value.trim_start_matches('}').trim().parse().ok());
            value.unwrap_or_else(|| panic!("no {begin} in\n{metrics}"))
        };
        let of = format!("interface=\"wan0\",host=\"{address}\"");
        let seconds = metric(&format!(
            "round_trip_seconds{{{of},side=\"whole\",percentile=\"99\"}}"
        ));
        assert_eq!((seconds * 1e9).round() as u64, p99, "{host}");
        let rpm = metric(&format!("round_trips_per_minute{{{of}}}"));
        assert_eq!(Some(rpm), host["rpm"].as_f64(), "{host}");
        let call = metric(&format!("quality_of_outcome{{{of},application=\"call\"}}"));
        assert_eq!(Some(call), host["quality"]["call"].as_f64(), "{host}");
        browser.wait_for(&format!(
            "[...document.querySelectorAll('.hosts tbody tr')].some(({{ cells }}) =>
                cells[0].textContent === '{address}' && cells[1].textContent === time({p50}) &&
                cells[2].textContent === time({p99}) && cells[5].textContent === '{rpm}' &&
                cells[6].textContent === '{call}')"
        ));
    }
}

/// What `suimon top` shows on a terminal of so many columns once there are rates, as text.
fn top(socket: &str, columns: u16) -> String {
    let (mut ours, theirs) = terminal();
    let [rows, columns] = [40, columns].map(|size| NonZero::new(size).expect("not zero"));
    let size = Winsize {
        ws_row: rows.get(),
        ws_col: columns.get(),
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&theirs, size).expect("a size");
    let side = || theirs.try_clone().expect("a descriptor");
    let mut child = Command::new(SUIMON)
        .args(["top", "--socket", socket])
        .stdin(side())
        .stdout(side())
        .stderr(side())
        .spawn()
        .expect("it starts");
    let mut screen = vt100::Parser::new(rows, columns, 0);
    let mut some = [0; 4096];
    let begin = std::time::Instant::now();
    while !screen.screen().contents().contains("kbit/s") {
        assert!(
            begin.elapsed().as_secs() < 20,
            "no rates in\n{}",
            screen.screen().contents()
        );
        let length = ours.read(&mut some).expect("it draws");
        screen.process(&some[..length]);
    }
    // The rest of what it draws at once.
    let length = ours.read(&mut some).expect("it draws");
    screen.process(&some[..length]);
    let _ = child.kill();
    let _ = child.wait();
    screen.screen().contents()
}
