//! The test rig: two hosts over a bottleneck link, a server that sends without end, and programs
//! under nine.
//!
//! ```text
//!  home (nine, and programs without it) ── rate, delay, buffer ── server
//! ```

use engine::units::{Bandwidth, Bytes, Duration as Span};
use lab::traffic::tcp::{Bulk, BulkRun};
use lab::{EmulatedLink, Host, Lab, Running};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

pub const SUIMON: &str = env!("CARGO_BIN_EXE_suimon");

/// The server's ports: it sends with CUBIC, or with BBR; or it receives, and records when the
/// client closes.
pub const CUBIC: u16 = 8000;
pub const BBR: u16 = 8001;
pub const SINK: u16 = 8002;

/// The length of what is sent to a client whose name begins with `object`.
const OBJECT: usize = 100_000;

/// The server's record: the bytes sent to each client, by name, and the times of closes.
#[derive(Default)]
struct ServerLog {
    sent: BTreeMap<String, Arc<AtomicU64>>,
    closed: Vec<SystemTime>,
}

pub struct Rig {
    pub home: Host,
    pub server: Host,
    pub files: PathBuf,
    log: Arc<Mutex<ServerLog>>,
    ports: AtomicU64,
    lab: Lab,
}

impl Rig {
    /// A link of this rate with an RTT of 20 ms and this buffer in bytes.
    pub fn new(mbit: u64, buffer: u64) -> Self {
        Self::over(mbit, Span::from_millis(20), buffer)
    }

    /// A link of this rate with this RTT and this buffer in bytes.
    pub fn over(mbit: u64, rtt: Span, buffer: u64) -> Self {
        let mut lab = Lab::new();
        let [home, server] = ["home", "server"].map(|name| lab.host(name).expect("a host"));
        let link = EmulatedLink::new(Bandwidth::mbit(mbit))
            .delay(Span::from_nanos(rtt.nanos() / 2))
            .buffer(Bytes::new(buffer));
        lab.link((&server, "eth0"), (&home, "eth0"), link.clone(), link)
            .expect("a link");
        for (host, address) in [(&home, "10.0.0.1/24"), (&server, "10.0.0.2/24")] {
            host.address("eth0", address.parse().expect("an address"))
                .expect("set");
        }
        let unique = format!("suimon-nine-{}-{:?}", std::process::id(), Instant::now());
        let files = std::env::temp_dir().join(unique.replace(|c: char| !c.is_ascii_alphanumeric(), "-"));
        std::fs::create_dir_all(&files).expect("a directory");
        let rig = Self {
            home,
            server,
            files,
            log: Arc::default(),
            ports: AtomicU64::new(9_000),
            lab,
        };
        rig.serve(CUBIC, "cubic");
        let there = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")
            .unwrap_or_default();
        if there.contains("bbr") {
            rig.serve(BBR, "bbr");
        }
        rig.serve(SINK, "cubic");
        rig
    }

    /// Serves a port, in threads that end with the test's process.
    fn serve(&self, port: u16, congestion: &'static str) {
        let to = SocketAddr::from(([10, 0, 0, 2], port));
        let listener = self
            .server
            .call(|| TcpListener::bind(to))
            .expect("in the host")
            .expect("listens");
        let log = Arc::clone(&self.log);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let log = Arc::clone(&log);
                std::thread::spawn(move || serve_one(stream, port, congestion, &log));
            }
        });
    }

    /// A container of `home`: a host in a network namespace of its own, for which `home` forwards.
    pub fn container(&mut self) -> Host {
        let container = self.lab.host("container").expect("a host");
        let wire = self.lab.veth((&self.home, "bridge0"), (&container, "eth0"));
        wire.expect("a wire");
        for (host, interface, address) in [
            (&self.home, "bridge0", "10.0.1.1/24"),
            (&container, "eth0", "10.0.1.2/24"),
        ] {
            let address = address.parse().expect("an address");
            host.address(interface, address).expect("set");
        }
        self.home.forward().expect("forwards");
        for (host, by) in [(&container, "10.0.1.1"), (&self.server, "10.0.0.1")] {
            let gateway = by.parse().expect("an address");
            host.default_route(gateway).expect("a route");
        }
        container
    }

    /// A network namespace with a link of its own to the server, past `home`.
    pub fn apart(&mut self) -> Host {
        let apart = self.lab.host("apart").expect("a host");
        let wire = self.lab.veth((&self.server, "eth1"), (&apart, "eth0"));
        wire.expect("a wire");
        for (host, interface, address) in [
            (&self.server, "eth1", "10.0.2.1/24"),
            (&apart, "eth0", "10.0.2.2/24"),
        ] {
            let address = address.parse().expect("an address");
            host.address(interface, address).expect("set");
        }
        let gateway = "10.0.2.1".parse().expect("an address");
        apart.default_route(gateway).expect("a route");
        apart
    }

    /// `suimon nine` with these arguments, in `home`; without capabilities, except for
    /// `--rewrite` and `--udp`, which need them.
    pub fn nine(&self, words: &[&str]) -> Running {
        let privileged = words.iter().any(|word| ["--rewrite", "--udp"].contains(word));
        let suimon = lab::published(SUIMON);
        let suimon = suimon.to_str().expect("a path in UTF-8");
        let program = match privileged {
            true => self.home.program(suimon),
            false => self.home.unprivileged(suimon),
        };
        let program = program.arg("nine").args(words);
        let program = program.env("XDG_RUNTIME_DIR", &self.files);
        program
            .limit(Duration::from_secs(300))
            .start()
            .expect("nine starts")
    }

    /// Runs `suimon` with these arguments in `home` and returns its output.
    pub fn suimon(&self, words: &[&str]) -> String {
        let suimon = lab::published(SUIMON);
        let program = self.home.program(suimon.to_str().expect("a path in UTF-8"));
        let program = program.args(words);
        let output = program
            .env("XDG_RUNTIME_DIR", &self.files)
            .output()
            .expect("it starts");
        assert!(output.status.success(), "{words:?}: {output:?}");
        output.out
    }

    /// The status by `nine top --json`.
    pub fn top(&self) -> Value {
        serde_json::from_str(&self.suimon(&["nine", "top", "--json"])).expect("JSON")
    }

    /// A script for `bash` that downloads as the client of this name.
    pub fn download(port: u16, name: &str) -> String {
        format!("exec 3<>/dev/tcp/10.0.0.2/{port}; echo GET /{name} HTTP/1.0 >&3; exec cat <&3 >/dev/null")
    }

    /// A script for `bash` that downloads short objects for ever, each by a connection of its own,
    /// so many at a time.
    pub fn objects(port: u16, at_once: usize) -> String {
        format!(
            "fetch() {{ while :; do exec 3<>/dev/tcp/10.0.0.2/{port} || sleep 0.1; \
             echo GET /object HTTP/1.0 >&3; cat <&3 >/dev/null; exec 3>&-; done; }}; \
             for n in $(seq {at_once}); do fetch & done; wait"
        )
    }

    /// A download without nine, for this long.
    pub fn high(&self, congestion: &str, length: Duration) -> BulkRun {
        let port = self.ports.fetch_add(1, Ordering::Relaxed) as u16;
        let to = SocketAddr::from(([10, 0, 0, 1], port));
        let bulk = Bulk {
            congestion: congestion.into(),
            ..Bulk::new(to, length)
        };
        bulk.start(&self.server, &self.home).expect("a download")
    }

    /// The bytes that the server has sent to this client.
    pub fn sent(&self, name: &str) -> u64 {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.sent.get(name).map_or(0, |sent| sent.load(Ordering::Relaxed))
    }

    /// The times of the clients' closes.
    pub fn closed(&self) -> Vec<SystemTime> {
        self.log
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .closed
            .clone()
    }

    /// The bytes that `home` has received, as its interface counts frames.
    pub fn received(&self) -> u64 {
        let text = self
            .home
            .call(|| std::fs::read_to_string("/proc/thread-self/net/dev"));
        let text = text.expect("in the host").expect("readable");
        let line = text
            .lines()
            .find(|line| line.trim_start().starts_with("eth0:"))
            .expect("eth0");
        let rest = line.split_once(':').expect("a colon").1;
        rest.split_whitespace()
            .next()
            .and_then(|n| n.parse().ok())
            .expect("a number")
    }
}

impl Rig {
    /// Bytes queued before the link to `home`: for the bench.
    #[cfg_attr(test, allow(dead_code, reason = "the bench uses it"))]
    pub fn waiting(&self) -> u64 {
        let snapshot = self.lab.links()[0].inspect().expect("a running link");
        let backlog = snapshot.paths[lab::Emulator::FORTH.0].views[0].stats.backlog();
        backlog.bytes.get()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.files);
    }
}

/// Serves one connection.
fn serve_one(mut stream: TcpStream, port: u16, congestion: &str, log: &Mutex<ServerLog>) {
    let _ = rustix::net::sockopt::set_tcp_congestion(&stream, congestion);
    let mut request = [0; 1024];
    let len = stream.read(&mut request).unwrap_or(0);
    let text = String::from_utf8_lossy(&request[..len]).into_owned();
    let name = text.split(['/', ' ']).nth(2).unwrap_or("").to_string();
    let lock = || log.lock().unwrap_or_else(PoisonError::into_inner);
    if port == SINK {
        while matches!(stream.read(&mut request), Ok(1..)) {}
        lock().closed.push(SystemTime::now());
        return;
    }
    let is_object = name.starts_with("object");
    let count = Arc::clone(lock().sent.entry(name).or_default());
    if is_object {
        let object = vec![0x5a; OBJECT];
        let _ = stream.write_all(&object);
        count.fetch_add(OBJECT as u64, Ordering::Relaxed);
        return;
    }
    let head = "HTTP/1.0 200 OK\r\nContent-Length: 1000000000000\r\n\r\n";
    let _ = stream.write_all(head.as_bytes());
    let chunk = [0x5a; 16 << 10];
    loop {
        match stream.write(&chunk) {
            Ok(n) => count.fetch_add(n as u64, Ordering::Relaxed),
            Err(e) if e.kind() == ErrorKind::Interrupted => 0,
            Err(_) => return,
        };
    }
}
