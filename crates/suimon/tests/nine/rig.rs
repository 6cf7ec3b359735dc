//! Two hosts over a link that is the bottleneck, a server that sends without end, and programs under nine.
//!
//! ```text
//!  home (nine, and programs without it) ── rate, delay, buffer ── server
//! ```

use engine::units::{Bandwidth, Bytes, Duration as Span};
use lab::traffic::tcp::{Bulk, BulkRun};
use lab::{Host, Lab, Link, Program, Running};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// The server's ports: it sends by cubic, by BBR; it takes without end, and notes when the other end closed.
pub const CUBIC: u16 = 8000;
pub const BBR: u16 = 8001;
pub const TAKES: u16 = 8002;

/// What the server has sent to, or when it was closed by, each client, by name.
#[derive(Default)]
struct Book {
    sent: BTreeMap<String, Arc<AtomicU64>>,
    closed: Vec<SystemTime>,
}

pub struct Rig {
    pub home: Host,
    pub server: Host,
    pub files: PathBuf,
    book: Arc<Mutex<Book>>,
    ports: AtomicU64,
    lab: Lab,
}

impl Rig {
    /// A link of so many Mbit/s with a round trip of 20 ms, and a buffer of so many bytes.
    pub fn new(mbit: u64, buffer: u64) -> Self {
        let mut lab = Lab::new();
        let [home, server] = ["home", "server"].map(|name| lab.host(name).expect("a host"));
        let link = Link::new(Bandwidth::mbit(mbit))
            .delay(Span::from_millis(10))
            .buffer(Bytes::new(buffer));
        lab.link((&server, "eth0"), (&home, "eth0"), link, link)
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
            book: Arc::default(),
            ports: AtomicU64::new(9_000),
            lab,
        };
        rig.serve(CUBIC, "cubic");
        let there = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")
            .unwrap_or_default();
        if there.contains("bbr") {
            rig.serve(BBR, "bbr");
        }
        rig.serve(TAKES, "cubic");
        rig
    }

    /// Threads that end with the test's process.
    fn serve(&self, port: u16, congestion: &'static str) {
        let to = SocketAddr::from(([10, 0, 0, 2], port));
        let listener = self
            .server
            .call(|| TcpListener::bind(to))
            .expect("in the host")
            .expect("listens");
        let book = Arc::clone(&self.book);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let book = Arc::clone(&book);
                std::thread::spawn(move || one(stream, port, congestion, &book));
            }
        });
    }

    /// A program in `home`, without any capability: whoever has made a namespace has them all in it.
    pub fn unprivileged(&self, name: &str) -> Program {
        let program = self.home.program("setpriv");
        program.args(["--bounding-set=-all", "--inh-caps=-all"]).arg(name)
    }

    /// `suimon nine` with these words, in `home`; without any capability, but where it is to rewrite windows.
    pub fn nine(&self, words: &[&str]) -> Running {
        let program = match words.contains(&"--rewrite") {
            true => self.home.program(env!("CARGO_BIN_EXE_suimon")),
            false => self.unprivileged(env!("CARGO_BIN_EXE_suimon")),
        };
        let program = program.arg("nine").args(words);
        let program = program.env("XDG_RUNTIME_DIR", &self.files);
        program
            .limit(Duration::from_secs(300))
            .start()
            .expect("nine starts")
    }

    /// `suimon` with these words in `home`, to its end: what it printed.
    pub fn suimon(&self, words: &[&str]) -> String {
        let program = self.home.program(env!("CARGO_BIN_EXE_suimon")).args(words);
        let output = program
            .env("XDG_RUNTIME_DIR", &self.files)
            .output()
            .expect("it starts");
        assert!(output.status.success(), "{words:?}: {output:?}");
        output.out
    }

    /// What `nine top --json` says.
    pub fn top(&self) -> Value {
        serde_json::from_str(&self.suimon(&["nine", "top", "--json"])).expect("JSON")
    }

    /// Downloads by `bash`, as a client under this name: words for a command line.
    pub fn download(port: u16, name: &str) -> String {
        format!("exec 3<>/dev/tcp/10.0.0.2/{port}; echo GET /{name} HTTP/1.0 >&3; exec cat <&3 >/dev/null")
    }

    /// A download without nine, from the server, for so long.
    pub fn high(&self, congestion: &str, length: Duration) -> BulkRun {
        let port = self.ports.fetch_add(1, Ordering::Relaxed) as u16;
        let to = SocketAddr::from(([10, 0, 0, 1], port));
        let bulk = Bulk {
            congestion: congestion.into(),
            ..Bulk::new(to, length)
        };
        bulk.start(&self.server, &self.home).expect("a download")
    }

    /// What the server has sent to this client.
    pub fn sent(&self, name: &str) -> u64 {
        let book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        book.sent.get(name).map_or(0, |sent| sent.load(Ordering::Relaxed))
    }

    /// When clients closed.
    pub fn closed(&self) -> Vec<SystemTime> {
        self.book
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .closed
            .clone()
    }

    /// Bytes that `home` has received: for the bench.
    #[cfg_attr(test, allow(dead_code, reason = "the bench uses it"))]
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
    /// Bytes that wait before the link to `home`: for the bench.
    #[cfg_attr(test, allow(dead_code, reason = "the bench uses it"))]
    pub fn waiting(&self) -> u64 {
        let seen = self.lab.links()[0].inspect().expect("a running link");
        let gauges = &seen.paths[lab::Emulator::FORTH.0].views[0].gauges;
        let waiting = gauges.iter().find(|(name, _)| *name == "waiting");
        match waiting {
            Some((_, engine::inspect::Value::Bytes(bytes))) => bytes.get(),
            _ => 0,
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.files);
    }
}

/// One connection of the server's.
fn one(mut stream: TcpStream, port: u16, congestion: &str, book: &Mutex<Book>) {
    let _ = rustix::net::sockopt::set_tcp_congestion(&stream, congestion);
    let mut request = [0; 1024];
    let len = stream.read(&mut request).unwrap_or(0);
    let text = String::from_utf8_lossy(&request[..len]).into_owned();
    let name = text.split(['/', ' ']).nth(2).unwrap_or("").to_string();
    let lock = || book.lock().unwrap_or_else(PoisonError::into_inner);
    if port == TAKES {
        while matches!(stream.read(&mut request), Ok(1..)) {}
        lock().closed.push(SystemTime::now());
        return;
    }
    let count = Arc::clone(lock().sent.entry(name).or_default());
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

/// Asks again and again, until it is so or the time is over.
pub fn until(limit: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    while Instant::now() < end {
        if is_so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    false
}
