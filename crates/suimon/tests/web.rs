//! `suimon web`: the page's events, `/metrics`, `/api/status` and `suimon status --json` say the
//! same of a running program, and nobody is served who came by a name.

use control::policy::Policy;
use control::protocol::{Refusal, SettingChanges};
use control::provenance::Provenance;
use control::snapshot::{ClassReading, FrameCounts, InterfaceReading, Reading, State};
use control::socket::{Handler, Server};
use engine::inspect::View;
use engine::packet::ClassId;
use engine::queue::{Count, Stats};
use engine::tree::Registry;
use engine::units::{Bytes, Duration, Instant};
use measure::delay::Delays;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

const SUIMON: &str = env!("CARGO_BIN_EXE_suimon");
const POLICY: &str = "version = 1\n[interface.wan0]\nbandwidth = \"20 Mbit/s\"\ndiscipline = \"drr\"\n\
                      [[interface.wan0.class]]\nname = \"calls\"\n\
                      [[interface.wan0.class]]\nname = \"rest\"\ndefault = true\n";

/// A running suimon whose counters stand still.
struct Still(Reading);

impl Still {
    fn new() -> Self {
        let read = Policy::read("test", POLICY, &Registry::builtin(), &[]);
        let mut policy = read.unwrap_or_else(|mistakes| panic!("{}", mistakes.render(false)));
        let sent = |class: u64| Count {
            packets: 7 + class,
            bytes: Bytes::new(1_000 * (7 + class)),
        };
        let stats = |class| Stats {
            offered: sent(class),
            sent: sent(class),
            ..Stats::default()
        };
        let reading = |class: u32| {
            let mut delays = Delays::default();
            delays.record(Duration::from_millis(3));
            ClassReading {
                class: ClassId(class),
                sent: sent(class.into()),
                short: Count::default(),
                delays,
            }
        };
        let view = |class: Option<u32>| View {
            class: class.map(ClassId),
            kind: "fifo",
            stats: stats(class.unwrap_or(2).into()),
            gauges: Vec::new(),
        };
        Self(Reading {
            unconfined: Vec::new(),
            at: Instant::from_nanos(5),
            policy: "still".into(),
            interfaces: vec![InterfaceReading {
                policy: Arc::new(policy.interfaces.remove(0)),
                state: State::Enabled,
                error: None,
                not_enforced: Some("wan0 is down".into()),
                totals: stats(2),
                views: vec![view(None), view(Some(0)), view(Some(1))],
                classes: vec![reading(0), reading(1)],
                frames: FrameCounts::default(),
            }],
        })
    }
}

impl Handler for Still {
    fn version(&self) -> String {
        "still".into()
    }

    fn read(&self) -> Result<Reading, Refusal> {
        Ok(self.0.clone())
    }

    fn switch(&self, _interface: Option<&str>, _on: bool) -> Result<String, Refusal> {
        Err(Refusal::new("it stands still"))
    }

    fn detach(&self, _interface: Option<&str>) -> Result<String, Refusal> {
        Err(Refusal::new("it stands still"))
    }

    fn set(&self, _changes: &SettingChanges, _by: Provenance) -> Result<String, Refusal> {
        Err(Refusal::new("it stands still"))
    }
}

/// `suimon web` beside it; both end with this.
struct Web {
    folder: PathBuf,
    socket: String,
    address: String,
    child: Child,
    _server: Server,
}

impl Web {
    fn start() -> Self {
        let folder = std::env::temp_dir().join(format!("suimon-web-{}", std::process::id()));
        let socket = folder.join("still.sock");
        let server = Server::start(&socket, Arc::new(Still::new())).expect("a server");
        let socket = socket.display().to_string();
        let mut child = Command::new(SUIMON)
            .args(["web", "--listen", "127.0.0.1:0", "--socket", &socket])
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        let out = child.stdout.as_mut().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("its address");
        let address = line
            .trim_start_matches("http://")
            .split('/')
            .next()
            .expect("an address");
        Self {
            folder,
            socket,
            address: address.to_owned(),
            child,
            _server: server,
        }
    }

    fn ask(&self, path: &str, host: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        let patience = std::time::Duration::from_secs(20);
        stream.set_read_timeout(Some(patience)).expect("set");
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        )
        .expect("sent");
        stream
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

    /// The first state of the program that the page is told.
    fn event(&self) -> Value {
        let lines = BufReader::new(self.ask("/api/events", "localhost")).lines();
        for line in lines {
            let line = line.expect("an event");
            let Some(text) = line.strip_prefix("data: ") else {
                continue;
            };
            let state: Value = serde_json::from_str(text).expect("JSON");
            if state.get("snapshot").is_some() {
                return state["snapshot"].clone();
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
    let web = Web::start();
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
    let event = of(&web.event());
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
