//! The control socket: a Unix socket that a running program serves and `status`, `top` and `set`
//! ask.
//!
//! A thread for each connection, a few at most, all bounded: lines have a length limit, a reader
//! that does not read is dropped, and nobody waits for anybody. The packet loop is asked through
//! the [`Handler`], which sends it a command and waits in the connection's own thread.
//!
//! Who may connect: the user that runs the program, and root. The socket's mode says so, and the
//! peer's credentials are checked, since the mode of a socket is not heeded everywhere.

use crate::protocol::{INTERVAL_MS, Refusal, Reply, Request, SettingChange, VERSION};
use crate::reservation::{Lease, Reservations};
use crate::snapshot::{Reading, Snapshot};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Connections served at a time; a reservation has one as long as it lasts.
pub const CONNECTIONS: usize = 256;

/// Bytes of a request at most.
pub const LINE: usize = 64 * 1024;

/// The shortest interval of status replies.
pub const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// How long a reader may leave a reply unread, and an idle connection stays.
const PATIENCE: Duration = Duration::from_secs(2);
const IDLE: Duration = Duration::from_secs(300);
/// How often a connection that only listens looks whether the server ends.
const GLANCE: Duration = Duration::from_millis(200);
/// How long a program may be silent before a client looks whether it is stopped, and how often it
/// looks again.
const SILENCE: Duration = Duration::from_secs(2);

/// What a running program does on request. Called from several threads; may wait for the packet
/// loop, which must never wait for it.
pub trait Handler: Send + Sync + 'static {
    /// The program's version.
    fn version(&self) -> String;
    /// All there is to see, as it stands.
    fn read(&self) -> Result<Reading, Refusal>;
    /// Lets the policy rule, or packets pass unmanaged; everywhere if no interface is named. Says
    /// what was done.
    fn switch(&self, interface: Option<&str>, on: bool) -> Result<String, Refusal>;
    /// Leaves an interface, or all, to the kernel.
    fn detach(&self, interface: Option<&str>) -> Result<String, Refusal>;
    /// Changes settings of a class; the whole tree is checked first, and nothing changes if it is
    /// refused.
    fn set_class(
        &self,
        interface: &str,
        class: &str,
        changes: &BTreeMap<String, SettingChange>,
    ) -> Result<String, Refusal>;
    /// The node that bandwidth is reserved by, where the program has one.
    fn reservations(&self) -> Result<&dyn Reservations, Refusal> {
        Err(no_rsvp())
    }
}

/// What a program says that has no such node.
pub fn no_rsvp() -> Refusal {
    Refusal {
        message: "this suimon does not speak RSVP".into(),
        help: Some("write an [rsvp] section in its policy".into()),
    }
}

// Where sockets are.

/// The directory of the sockets of root's programs.
const OF_ROOT: &str = "/run/suimon";

/// The directory of the sockets of this user's programs.
pub fn directory() -> PathBuf {
    let user = rustix::process::geteuid();
    if user.is_root() {
        return PathBuf::from(OF_ROOT);
    }
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty()) {
        Some(path) => PathBuf::from(path).join("suimon"),
        None => std::env::temp_dir().join(format!("suimon-{}", user.as_raw())),
    }
}

/// The socket that is meant: a path has a `/`, a name is looked up in the [`directory`].
pub fn path_of(name: &str) -> PathBuf {
    if name.contains('/') {
        return PathBuf::from(name);
    }
    directory().join(format!("{name}.sock"))
}

/// The socket to connect to: the one named, or the only one there is.
///
/// # Errors
///
/// Returns an error if no socket is named and not exactly one program is running.
pub fn find(named: Option<&str>) -> Result<PathBuf, Refusal> {
    if let Some(name) = named {
        return Ok(path_of(name));
    }
    let directory = directory();
    let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "sock") && UnixStream::connect(path).is_ok())
        .collect();
    found.sort();
    match found.as_slice() {
        [] => Err(Refusal {
            message: format!("no suimon is running that can be seen in {}", directory.display()),
            help: Some(
                if Path::new(OF_ROOT).exists() && directory != Path::new(OF_ROOT) {
                    format!("root's are in {OF_ROOT}: ask again as root")
                } else {
                    "start one with `suimon run POLICY`, or name its socket with --socket".into()
                },
            ),
        }),
        [only] => Ok(only.clone()),
        several => {
            let names = several.iter().filter_map(|path| path.file_stem()?.to_str());
            Err(Refusal {
                message: format!("several are running: {}", names.collect::<Vec<_>>().join(", ")),
                help: Some("choose one with --socket NAME".into()),
            })
        }
    }
}

// The server.

/// A socket that is served until this is dropped.
pub struct Server {
    path: PathBuf,
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// Tells connections to end, also those that sleep between two replies.
#[derive(Debug, Default)]
struct Stop {
    stopped: AtomicBool,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Stop {
    fn is_set(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    fn set(&self) {
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.stopped.store(true, Ordering::Release);
        drop(guard);
        self.changed.notify_all();
    }

    /// Sleeps until this time; `false` if it was told to stop.
    fn sleep_until(&self, when: Instant) -> bool {
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.is_set() {
            let left = when.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            let woken = self.changed.wait_timeout(guard, left);
            guard = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }
}

impl Server {
    /// Serves this path. A socket that a dead program has left there is replaced; a living one is
    /// not.
    ///
    /// # Errors
    ///
    /// Returns an error if the path is in use or cannot be bound, or the thread cannot be started.
    pub fn start(path: &Path, handler: Arc<dyn Handler>) -> io::Result<Self> {
        let listener = bind(path)?;
        let stop = Arc::new(Stop::default());
        let told = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("control".into())
            .spawn(move || accept(&listener, &handler, &told))?;
        Ok(Self {
            path: path.into(),
            stop,
            thread: Some(thread),
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.set();
        // A connection wakes the thread that waits for one; if it cannot be made, the thread is not
        // waited for.
        let woken = UnixStream::connect(&self.path).is_ok();
        let _ = fs::remove_file(&self.path);
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        own_directory(parent)?;
    }
    let explain = |what: String| io::Error::new(io::ErrorKind::AddrInUse, what);
    if let Ok(found) = fs::symlink_metadata(path) {
        if !found.file_type().is_socket() {
            return Err(explain(format!("{} exists and is not a socket", path.display())));
        }
        if UnixStream::connect(path).is_ok() {
            return Err(explain(format!(
                "another suimon serves {}; give this one a name of its own with --socket",
                path.display()
            )));
        }
        fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Makes the directory if need be. One in a place where others can write must be ours.
fn own_directory(path: &Path) -> io::Result<()> {
    if !path.exists() {
        return fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    }
    let metadata = fs::symlink_metadata(path)?;
    if path == directory() && metadata.uid() != rustix::process::geteuid().as_raw() {
        let message = format!("{} belongs to another user", path.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    Ok(())
}

fn accept(listener: &UnixListener, handler: &Arc<dyn Handler>, stop: &Arc<Stop>) {
    let open = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        if stop.is_set() {
            return;
        }
        let Ok(stream) = stream else {
            // Out of descriptors, most likely: wait for some to be closed rather than spin.
            if !stop.sleep_until(Instant::now() + Duration::from_millis(100)) {
                return;
            }
            continue;
        };
        if open.fetch_add(1, Ordering::AcqRel) >= CONNECTIONS {
            let full = Refusal::new(format!("all {CONNECTIONS} connections are taken"));
            let _ = stream.set_write_timeout(Some(Duration::from_millis(10)));
            let _ = send(&stream, &Reply::Refused(full));
            open.fetch_sub(1, Ordering::AcqRel);
            continue;
        }
        let (handler, stop, counter) = (Arc::clone(handler), Arc::clone(stop), Arc::clone(&open));
        let serve = move || {
            // An error here is the peer's going away: there is nobody to tell.
            let _ = Connection {
                stream: &stream,
                handler: &*handler,
                stop: &stop,
            }
            .serve();
            counter.fetch_sub(1, Ordering::AcqRel);
        };
        if std::thread::Builder::new()
            .name("control-peer".into())
            .spawn(serve)
            .is_err()
        {
            open.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

fn send(mut stream: &UnixStream, reply: &Reply) -> io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    stream.write_all(&line)
}

struct Connection<'a> {
    stream: &'a UnixStream,
    handler: &'a dyn Handler,
    stop: &'a Stop,
}

impl Connection<'_> {
    fn serve(&self) -> io::Result<()> {
        self.stream.set_write_timeout(Some(PATIENCE))?;
        self.stream.set_read_timeout(Some(IDLE))?;
        let peer = rustix::net::sockopt::socket_peercred(self.stream)?.uid;
        if !peer.is_root() && peer != rustix::process::geteuid() {
            return send(
                self.stream,
                &Reply::Refused(Refusal::new("this suimon belongs to another user")),
            );
        }
        let mut lines = BufReader::new(self.stream);
        let mut line = Vec::new();
        while !self.stop.is_set() {
            line.clear();
            let mut bounded = (&mut lines).take(LINE as u64 + 1);
            if bounded.read_until(b'\n', &mut line)? == 0 {
                return Ok(());
            }
            if line.len() > LINE {
                let why = Refusal::new(format!("a request has at most {LINE} bytes"));
                return send(self.stream, &Reply::Refused(why));
            }
            match serde_json::from_slice(&line) {
                Ok(Request::Status { interval_ms, follow }) => self.status(interval_ms, follow)?,
                Ok(Request::Reserve { wanted }) => {
                    return self.hold(
                        lines,
                        |node, tell| node.reserve(&wanted, tell),
                        Reply::Reservation,
                    );
                }
                Ok(Request::Trial { wanted }) => {
                    return self.hold(lines, |node, tell| node.trial(&wanted, tell), Reply::Reservation);
                }
                Ok(Request::Watch {}) => {
                    return self.hold(lines, |node, tell| node.watch(tell), Reply::Notice);
                }
                Ok(request) => send(self.stream, &self.answer(request))?,
                Err(error) => {
                    let why = Refusal::new(format!("not a request: {error}"));
                    send(self.stream, &Reply::Refused(why))?;
                }
            }
        }
        Ok(())
    }

    fn answer(&self, request: Request) -> Reply {
        let handler = self.handler;
        let done = match request {
            Request::Version {} => {
                return Reply::Version {
                    protocol: VERSION,
                    program: handler.version(),
                };
            }
            Request::Status { .. } => handler
                .read()
                .map(|reading| Reply::Status(Box::new(reading.snapshot(None)))),
            Request::Enable { interface } => done(handler.switch(interface.as_deref(), true)),
            Request::Disable { interface } => done(handler.switch(interface.as_deref(), false)),
            Request::Detach { interface } => done(handler.detach(interface.as_deref())),
            Request::Set {
                interface,
                class,
                changes,
            } => done(handler.set_class(&interface, &class, &changes)),
            Request::Change { number, rate_bps } => done(
                handler
                    .reservations()
                    .and_then(|node| node.change(number, rate_bps)),
            ),
            Request::Reservations {} => handler
                .reservations()
                .and_then(|node| node.status())
                .map(|status| Reply::Reservations(Box::new(status))),
            // They take over the connection, before this is asked.
            Request::Reserve { .. } | Request::Trial { .. } | Request::Watch {} => {
                Err(Refusal::new("this request has a connection of its own"))
            }
        };
        done.unwrap_or_else(Reply::Refused)
    }

    /// Begins something that lasts as long as the connection, and passes on what it tells.
    fn hold<T: Send>(
        &self,
        mut lines: BufReader<&UnixStream>,
        begin: impl FnOnce(&dyn Reservations, Sender<T>) -> Result<Lease, Refusal>,
        reply: impl Fn(T) -> Reply + Sync,
    ) -> io::Result<()> {
        let (tell, told) = channel();
        let held = match self.handler.reservations().and_then(|node| begin(node, tell)) {
            Ok(held) => held,
            Err(why) => return send(self.stream, &Reply::Refused(why)),
        };
        self.stream.set_read_timeout(Some(GLANCE))?;
        std::thread::scope(|scope| {
            scope.spawn(|| pass_on(self.stream, told, &reply));
            let mut unread = [0; 256];
            while !self.stop.is_set() {
                match lines.read(&mut unread) {
                    Ok(0) => break,
                    // What is said now is not heeded: the connection is the reservation's.
                    Ok(_) => {}
                    Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                    Err(_) => break,
                }
            }
            // Nothing is told from here on, so that the other thread ends.
            drop(held);
        });
        Ok(())
    }

    fn status(&self, interval_ms: u64, follow: bool) -> io::Result<()> {
        let interval = Duration::from_millis(interval_ms);
        let mut earlier = match self.handler.read() {
            Ok(reading) if interval.is_zero() => {
                return send(self.stream, &Reply::Status(Box::new(reading.snapshot(None))));
            }
            Ok(reading) => reading,
            Err(why) => return send(self.stream, &Reply::Refused(why)),
        };
        let interval = interval.max(SHORTEST_INTERVAL);
        let mut due = Instant::now();
        loop {
            // A reply that took long to be read does not make the next ones come in a heap.
            due = (due + interval).max(Instant::now());
            if !self.stop.sleep_until(due) {
                return Ok(());
            }
            let reading = match self.handler.read() {
                Ok(reading) => reading,
                Err(why) => return send(self.stream, &Reply::Refused(why)),
            };
            let snapshot = reading.snapshot(Some(&earlier));
            send(self.stream, &Reply::Status(Box::new(snapshot)))?;
            if !follow {
                return Ok(());
            }
            earlier = reading;
        }
    }
}

/// Sends what is told, until nobody tells any more. A peer that does not read is cut off, which the
/// other thread sees.
fn pass_on<T>(stream: &UnixStream, told: Receiver<T>, reply: &impl Fn(T) -> Reply) {
    for one in told {
        if send(stream, &reply(one)).is_err() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
            return;
        }
    }
}

fn done(result: Result<String, Refusal>) -> Result<Reply, Refusal> {
    result.map(|message| Reply::Done { message })
}

// The client.

/// A connection to a running program.
#[derive(Debug)]
pub struct Client {
    lines: BufReader<UnixStream>,
    path: PathBuf,
    /// How long a reply may take; `None`: for ever.
    patience: Option<Duration>,
}

impl Client {
    /// Connects; `named` is a name or a path, and may be left out if only one program is running.
    ///
    /// # Errors
    ///
    /// Returns an error if the socket cannot be found, or nobody answers there.
    pub fn connect(named: Option<&str>) -> Result<Self, Refusal> {
        let path = find(named)?;
        let stream = UnixStream::connect(&path)
            .and_then(|stream| stream.set_read_timeout(Some(SILENCE)).map(|()| stream))
            .map_err(|error| unanswered(&path, &error))?;
        Ok(Self {
            lines: BufReader::new(stream),
            path,
            patience: None,
        })
    }

    /// Sends a request and waits for its first reply.
    ///
    /// # Errors
    ///
    /// Returns an error if the request cannot be sent, or no reply comes in time that can be
    /// understood.
    pub fn ask(&mut self, request: &Request) -> Result<Reply, Refusal> {
        let interval = match request {
            Request::Status { interval_ms, .. } => Duration::from_millis(*interval_ms),
            _ => Duration::from_millis(INTERVAL_MS),
        };
        // The program may itself wait for its packet loop, and says so after five seconds.
        self.patience = Some(interval + Duration::from_secs(7));
        self.tell(request)?;
        self.next_reply()
    }

    /// Sends a request.
    ///
    /// # Errors
    ///
    /// Returns an error if the request cannot be written to the connection.
    pub fn tell(&mut self, request: &Request) -> Result<(), Refusal> {
        let mut line = serde_json::to_vec(request).map_err(|e| self.gone(&e.into()))?;
        line.push(b'\n');
        self.lines.get_mut().write_all(&line).map_err(|e| self.gone(&e))
    }

    /// Waits for the next reply, after a status request that goes on.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection ends or fails, or the reply cannot be understood.
    pub fn next_reply(&mut self) -> Result<Reply, Refusal> {
        let mut line = Vec::new();
        match self.read_line(&mut line) {
            Ok(0) => Err(self.gone(&io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => serde_json::from_slice(&line).map_err(|error| {
                let message = format!(
                    "{} answers what cannot be understood: {error}",
                    self.path.display()
                );
                Refusal {
                    message,
                    help: Some("it may be another version of suimon".into()),
                }
            }),
            Err(error) => Err(self.gone(&error)),
        }
    }

    /// Waits for a line as long as the patience lasts since the last that came of it, but not for a
    /// program that is stopped.
    fn read_line(&mut self, line: &mut Vec<u8>) -> io::Result<usize> {
        let mut silent = Instant::now();
        loop {
            let had = line.len();
            match self.lines.read_until(b'\n', line) {
                Err(error) if is_silence(&error) => {
                    if line.len() > had {
                        silent = Instant::now();
                    }
                    if let Some(patience) = self.patience
                        && (silent.elapsed() >= patience || self.stopped().is_some())
                    {
                        return Err(error);
                    }
                }
                read => return read,
            }
        }
    }

    /// The process that is asked, if it is stopped; nothing where it cannot be seen.
    fn stopped(&self) -> Option<i32> {
        let peer = rustix::net::sockopt::socket_peercred(self.lines.get_ref()).ok()?;
        let process = peer.pid.as_raw_pid();
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let stopped = status.lines().any(|line| line.starts_with("State:\tT"));
        stopped.then_some(process)
    }

    /// Ends the connection when it goes, whoever reads from it then.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection's descriptor cannot be duplicated.
    pub fn hang_up_later(&self) -> Result<HangUp, Refusal> {
        let stream = self.lines.get_ref().try_clone();
        stream.map(HangUp).map_err(|e| self.gone(&e))
    }

    /// Waits for ever for each reply from now on.
    pub fn wait_for_ever(&mut self) {
        self.patience = None;
    }

    /// The metrics over an interval.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection fails, or the program refuses or answers with something
    /// else.
    pub fn status(&mut self, interval: Duration, follow: bool) -> Result<Snapshot, Refusal> {
        let interval_ms = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
        let reply = self.ask(&Request::Status { interval_ms, follow })?;
        snapshot(reply)
    }

    fn gone(&self, error: &io::Error) -> Refusal {
        let message = match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                format!("the suimon at {} has ended", self.path.display())
            }
            _ if is_silence(error) => {
                if let Some(process) = self.stopped() {
                    return Refusal {
                        message: format!("the suimon at {} is stopped", self.path.display()),
                        help: Some(format!("`kill -CONT {process}` lets it go on")),
                    };
                }
                format!("the suimon at {} does not answer", self.path.display())
            }
            _ => format!("the suimon at {}: {error}", self.path.display()),
        };
        Refusal::new(message)
    }
}

/// Whether nothing came for a while, and nothing else is wrong.
fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Ends a connection when it goes.
#[derive(Debug)]
pub struct HangUp(UnixStream);

impl Drop for HangUp {
    fn drop(&mut self) {
        // The peer may have been first.
        let _ = self.0.shutdown(std::net::Shutdown::Both);
    }
}

/// Why there is no connection, shortest for what happens most: the program has gone.
fn unanswered(path: &Path, error: &io::Error) -> Refusal {
    let path = path.display();
    let (message, help) = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => (
            format!("no suimon answers at {path}"),
            "see whether `suimon run` is still running",
        ),
        io::ErrorKind::PermissionDenied => (
            format!("the suimon at {path} belongs to another user"),
            "ask again as that user, or as root",
        ),
        _ => (
            format!("no suimon answers at {path}: {error}"),
            "name the socket of a running one with --socket",
        ),
    };
    Refusal {
        message,
        help: Some(help.into()),
    }
}

/// The metrics in a reply.
///
/// # Errors
///
/// Returns an error if the reply is a refusal or anything else but a status.
pub fn snapshot(reply: Reply) -> Result<Snapshot, Refusal> {
    match reply {
        Reply::Status(snapshot) => Ok(*snapshot),
        Reply::Refused(why) => Err(why),
        other => Err(Refusal::new(format!("expected a status, got {other:?}"))),
    }
}
