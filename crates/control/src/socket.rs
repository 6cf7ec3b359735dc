//! The control socket: a Unix socket that a running suimon serves, for `status`, `top`, `set` and
//! other clients.
//!
//! Each connection has its own thread. All resources are bounded: the number of connections, the
//! length of a line, and the time in which a client must read a reply; a client that does not read
//! is disconnected. No connection blocks another. The [`Handler`] sends commands to the packet loop
//! and waits for the reply in the connection's thread. While a request takes long its client gets
//! a space every second, which may stand before a reply in JSON: so it waits for as long as the
//! request is worked on, and no longer.
//!
//! The user that runs the program and root may connect. The mode of the socket enforces it, and the
//! credentials of the peer are checked too, since some systems ignore the mode of a socket.

use crate::difference::{Applied, Breaking, Difference, GenerationView};
use crate::explained::{ExplainRequest, Explained};
use crate::hand_over::HandingOver;
use crate::protocol::{Amendment, INTERVAL_MS, Refusal, Reply, Request, SettingChanges, VERSION, printable};
use crate::provenance::Provenance;
use crate::recorded::RecordingFile;
use crate::reservation::{Lease, Reservations};
use crate::run_directory::{OF_ROOT, connect, directory, prepare};
use crate::snapshot::{ClassView, Reading, Snapshot, StatusDetail};
use crate::what_if::{self, ShadowReport};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::UCred;
use serde::Serialize;
use std::fmt;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The maximum number of connections. One more is root's.
pub const CONNECTIONS: usize = 256;

/// The maximum number of connections that a request keeps for itself, such as a reservation or
/// `top`. The others are left for short requests.
pub const LASTING: usize = CONNECTIONS - 16;

/// The maximum length of a request in bytes.
pub const LINE: usize = 64 * 1024;

/// The shortest interval of status replies.
pub const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// How long a client may leave a reply unread, how long a request may take to arrive as a whole
/// once it has begun, and how long an idle connection is kept.
const PATIENCE: Duration = Duration::from_secs(2);
const ARRIVAL: Duration = Duration::from_secs(5);
const IDLE: Duration = Duration::from_secs(60);
/// How long a program that takes over may be silent: it reads a policy, and opens its ports.
const HANDING_OVER: Duration = Duration::from_secs(30);
/// How often a client whose request takes long is shown that it is being worked on.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);
/// The interval at which a connection that only receives checks whether the server is stopping.
const STOP_POLL: Duration = Duration::from_millis(200);
/// How long a client waits for data before it checks whether the program is stopped (`SIGSTOP`),
/// and the interval of further checks.
const SILENCE: Duration = Duration::from_secs(2);

/// Carries out requests. It is called from several threads and may block on the packet loop; the
/// packet loop must never block on it.
pub trait Handler: Send + Sync + 'static {
    /// The program's version.
    fn version(&self) -> String;
    /// Reads all counters.
    fn read(&self) -> Result<Reading, Refusal>;
    /// Reads what a [brief](StatusDetail::Brief) status says. The default: all.
    ///
    /// # Errors
    ///
    /// As [`Handler::read`].
    fn read_brief(&self) -> Result<Reading, Refusal> {
        self.read()
    }
    /// What a later reading is compared with: the totals, and what left of each class. The default:
    /// all.
    ///
    /// # Errors
    ///
    /// As [`Handler::read`].
    fn read_departures(&self) -> Result<Reading, Refusal> {
        self.read()
    }
    /// A status was written, and what it was made of is freed: of very many classes it is much.
    fn status_sent(&self) {}
    /// Enables the policy (`on`), or bypasses it: on one interface, or on all if none is named.
    /// Returns a message for the user.
    fn switch(&self, interface: Option<&str>, on: bool) -> Result<String, Refusal>;
    /// Hands an interface, or all, back to the kernel.
    fn detach(&self, interface: Option<&str>) -> Result<String, Refusal>;
    /// Changes settings. The whole tree is checked first; a refusal leaves it unchanged.
    fn set(&self, changes: &SettingChanges, by: Provenance) -> Result<String, Refusal>;
    /// Adds a class, or removes one; a refusal leaves all unchanged.
    fn change_class(&self, _change: &Amendment, _by: Provenance) -> Result<String, Refusal> {
        Err(no_policy())
    }
    /// Writes what was set into the policy's file.
    fn save(&self, _by: Provenance) -> Result<String, Refusal> {
        Err(no_policy())
    }
    /// What the policy of this file differs in from the one in force; given up on `stop`.
    fn plan(&self, _file: &Path, _stop: &dyn Fn() -> bool) -> Result<Difference, Refusal> {
        Err(no_policy())
    }
    /// Puts the policy of this file into force, as a whole or not at all; and back after this time,
    /// unless it is confirmed. `stop`: whoever asked does not wait any more; then it is given up if
    /// it is not yet being put into force.
    fn apply(
        &self,
        _file: &Path,
        _confirm_within: Option<Duration>,
        _breaking: Breaking,
        _by: Provenance,
        _stop: &dyn Fn() -> bool,
    ) -> Result<Applied, Refusal> {
        Err(no_policy())
    }
    /// Keeps a change that would be undone otherwise.
    fn confirm(&self) -> Result<String, Refusal> {
        Err(no_policy())
    }
    /// Puts back what was in force before, or the generation of this number.
    fn rollback(&self, _to: Option<u64>, _breaking: Breaking, _by: Provenance) -> Result<String, Refusal> {
        Err(no_policy())
    }
    /// What was in force, change by change.
    fn history(&self) -> Result<Vec<GenerationView>, Refusal> {
        Err(no_policy())
    }
    /// The text of the policy in force.
    fn policy_text(&self) -> Result<String, Refusal> {
        Err(no_policy())
    }
    /// Why packets wait, or are dropped; blocks for the time that is asked for, or until `stop`.
    fn explain(&self, _wanted: &ExplainRequest, _stop: &dyn Fn() -> bool) -> Result<Explained, Refusal> {
        Err(no_policy())
    }
    /// Runs the policy of this file beside the one in force for so long, or until `stop`.
    fn shadow(
        &self,
        _file: &Path,
        _interface: Option<&str>,
        _span: Duration,
        _stop: &dyn Fn() -> bool,
    ) -> Result<ShadowReport, Refusal> {
        Err(no_policy())
    }
    /// Records what passes an interface, in a ring of so many bytes.
    fn record(&self, _interface: Option<&str>, _memory: u64) -> Result<String, Refusal> {
        Err(no_policy())
    }
    /// What is in that ring.
    fn recorded(&self, _interface: Option<&str>) -> Result<RecordingFile, Refusal> {
        Err(no_policy())
    }
    /// Records no more.
    fn end_recording(&self, _interface: Option<&str>) -> Result<String, Refusal> {
        Err(no_policy())
    }
    /// Begins to hand over to another program.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot, with what to do instead.
    fn hand_over(&self) -> Result<Box<dyn HandingOver + '_>, Refusal> {
        Err(no_policy())
    }
    /// The RSVP node, if the program has one.
    fn reservations(&self) -> Result<&dyn Reservations, Refusal> {
        Err(no_rsvp())
    }
}

/// The refusal of a program that enforces no policy.
fn no_policy() -> Refusal {
    Refusal::new("this suimon enforces no policy".to_owned())
}

/// The refusal of a program without an RSVP node.
pub fn no_rsvp() -> Refusal {
    Refusal {
        message: "this suimon does not speak RSVP".into(),
        help: Some("write an [rsvp] section in its policy".into()),
    }
}

// Paths of sockets.

/// The path of a socket: an argument with a `/` is a path, any other is a name in the [run
/// directory](crate::run_directory).
pub fn path_of(name: &str) -> PathBuf {
    if name.contains('/') {
        return PathBuf::from(name);
    }
    directory().join(format!("{name}.sock"))
}

/// The socket to connect to: the named one, or the only one that is served.
///
/// # Errors
///
/// Returns an error if no socket is named and not exactly one program is running.
pub fn find(named: Option<&str>) -> Result<PathBuf, Refusal> {
    if let Some(name) = named {
        return Ok(path_of(name));
    }
    only(&served())
}

/// The folder in which [`find`] looks for this socket; it may not exist yet.
pub fn folder_of(named: Option<&str>) -> PathBuf {
    match named.map(path_of) {
        None => directory(),
        Some(path) => path.parent().unwrap_or(Path::new(".")).to_path_buf(),
    }
}

/// The socket of the program that manages this interface, or has a class of this name, unless one
/// is named.
///
/// # Errors
///
/// Returns an error if no socket is named, and no running program manages the interface, nor one
/// alone an interface with such a class.
pub fn find_managing(named: Option<&str>, interface: &str) -> Result<PathBuf, Refusal> {
    if let Some(name) = named {
        return Ok(path_of(name));
    }
    managing(&served(), interface, |path| {
        let path = path.to_string_lossy();
        let snapshot = Client::connect(Some(&path))
            .and_then(|mut client| client.status_with(Duration::ZERO, false, StatusDetail::Brief));
        // A program without a data plane, such as `suimon accept`, manages nothing.
        let interfaces = snapshot.map(|snapshot| snapshot.interfaces).unwrap_or_default();
        let names = |classes: Vec<ClassView>| classes.into_iter().map(|class| class.name).collect();
        interfaces
            .into_iter()
            .map(|interface| (interface.name, names(interface.classes)))
            .collect()
    })
}

/// An interface, and the names of its classes.
type Managed = (String, Vec<String>);

/// The one of these sockets whose program manages an interface, or the only one with a class of
/// this name.
fn managing(
    found: &[PathBuf],
    wanted: &str,
    interfaces: impl Fn(&Path) -> Vec<Managed>,
) -> Result<PathBuf, Refusal> {
    if found.len() < 2 {
        return only(found);
    }
    let asked = |path: &PathBuf| {
        let interfaces = interfaces(path).into_iter();
        interfaces.map(|of| (path.clone(), of)).collect::<Vec<_>>()
    };
    let all: Vec<(PathBuf, Managed)> = found.iter().flat_map(asked).collect();
    if let Some((path, _)) = all.iter().find(|(_, (name, _))| name == wanted) {
        return Ok(path.clone());
    }
    let has = |(_, (_, classes)): &&(PathBuf, Managed)| classes.iter().any(|class| class == wanted);
    let having: Vec<&(PathBuf, Managed)> = all.iter().filter(has).collect();
    fn names<'a>(of: impl IntoIterator<Item = &'a (PathBuf, Managed)>) -> Vec<&'a str> {
        of.into_iter().map(|(_, (name, _))| name.as_str()).collect()
    }
    match having[..] {
        [(path, _)] => Ok(path.clone()),
        [] => Err(Refusal {
            message: format!("no running suimon manages {wanted}"),
            help: Some(format!("those that run manage {}", names(&all).join(", "))),
        }),
        _ => Err(Refusal::ambiguous_class(wanted, &names(having))),
    }
}

/// The sockets in the directory of this user that are served.
fn served() -> Vec<PathBuf> {
    let entries = fs::read_dir(directory()).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "sock") && connect(path).is_ok())
        .collect();
    found.sort();
    found
}

/// The only one of these sockets.
fn only(found: &[PathBuf]) -> Result<PathBuf, Refusal> {
    let directory = directory();
    match found {
        [] => Err(Refusal {
            message: format!("no running suimon in {}", directory.display()),
            help: Some(
                if Path::new(OF_ROOT).exists() && directory != Path::new(OF_ROOT) {
                    format!("root's sockets are in {OF_ROOT}: try again as root")
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

/// Serves a socket until it is dropped.
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

/// The stop flag of the server; it also wakes connections that sleep between two replies.
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

    /// Sleeps until this time; returns `false` if the server stops earlier.
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
    /// Serves this path. It replaces a socket that a dead program left there, but not one that is
    /// still served.
    ///
    /// # Errors
    ///
    /// Returns an error if the path is in use or cannot be bound, or the thread cannot be started.
    pub fn start(path: &Path, handler: Arc<dyn Handler>) -> io::Result<Self> {
        let listener = bind(path)?;
        let stop = Arc::new(Stop::default());
        let stop_flag = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("control".into())
            .spawn(move || accept(&listener, &handler, &stop_flag))?;
        Ok(Self {
            path: path.into(),
            stop,
            thread: Some(thread),
        })
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.set();
        // A connection wakes the thread from `accept`. If connecting fails, do not join the thread.
        let woken = UnixStream::connect(&self.path).is_ok();
        let _ = fs::remove_file(&self.path);
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        // A directory that was chosen by path may be shared; the socket's mode protects it.
        if parent == directory() || !parent.exists() {
            prepare(parent)?;
        }
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

fn accept(listener: &UnixListener, handler: &Arc<dyn Handler>, stop: &Arc<Stop>) {
    let open = Arc::new(AtomicUsize::new(0));
    let lasting = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        if stop.is_set() {
            return;
        }
        let Ok(stream) = stream else {
            // Most likely out of file descriptors: wait until some are closed instead of spinning.
            if !stop.sleep_until(Instant::now() + Duration::from_millis(100)) {
                return;
            }
            continue;
        };
        let taken = open.fetch_add(1, Ordering::AcqRel);
        if let Err(why) = admit(&stream, taken) {
            let _ = stream.set_write_timeout(Some(Duration::from_millis(10)));
            let _ = send(&stream, &Reply::Refused(why));
            open.fetch_sub(1, Ordering::AcqRel);
            continue;
        }
        let (handler, stop, counter) = (Arc::clone(handler), Arc::clone(stop), Arc::clone(&open));
        let lasting = Arc::clone(&lasting);
        let serve = move || {
            // An error means that the peer has gone; nobody is left to receive a report.
            let _ = Connection {
                stream: &stream,
                handler: &*handler,
                stop: &stop,
                lasting: &lasting,
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

fn peer(stream: &UnixStream) -> Result<UCred, Refusal> {
    let peer = rustix::net::sockopt::socket_peercred(stream);
    peer.map_err(|e| Refusal::new(format!("cannot tell who asks: {e}")))
}

/// Whether this peer is served, while so many are.
fn admit(stream: &UnixStream, taken: usize) -> Result<(), Refusal> {
    let peer = peer(stream)?.uid;
    if !peer.is_root() && peer != rustix::process::geteuid() {
        return Err(Refusal::new("this suimon belongs to another user"));
    }
    match taken < CONNECTIONS + usize::from(peer.is_root()) {
        true => Ok(()),
        false => Err(all_taken(CONNECTIONS)),
    }
}

fn all_taken(places: usize) -> Refusal {
    Refusal {
        message: format!("all {places} connections of this suimon are taken"),
        help: Some("end a `top` or a `reserve` that is no longer needed".into()),
    }
}

fn send(stream: &UnixStream, reply: &Reply) -> io::Result<()> {
    write_line(stream, reply)
}

fn write_line<C: Serialize>(stream: &UnixStream, reply: &Reply<C>) -> io::Result<()> {
    // Not made in memory first: with very many classes a status is longer than all of its policy.
    let mut line = io::BufWriter::with_capacity(BUFFER, stream);
    serde_json::to_writer(&mut line, reply)?;
    line.write_all(b"\n")?;
    line.flush()
}

/// What is written to a socket in one go at most.
const BUFFER: usize = 64 << 10;

struct Connection<'a> {
    stream: &'a UnixStream,
    handler: &'a dyn Handler,
    stop: &'a Stop,
    lasting: &'a AtomicUsize,
}

impl Connection<'_> {
    fn serve(&self) -> io::Result<()> {
        self.stream.set_write_timeout(Some(PATIENCE))?;
        let mut lines = BufReader::new(self.stream);
        let mut line = Vec::new();
        while !self.stop.is_set() {
            self.stream.set_read_timeout(Some(IDLE))?;
            line.clear();
            if lines.fill_buf()?.is_empty() {
                return Ok(());
            }
            if let Err(late) = self.read_request(&mut lines, &mut line) {
                let seconds = ARRIVAL.as_secs();
                let why = Refusal::new(format!("a request has {seconds} s to arrive as a whole"));
                send(self.stream, &Reply::Refused(why))?;
                return Err(late);
            }
            if line.len() > LINE {
                let why = Refusal::new(format!("a request has at most {LINE} bytes"));
                return send(self.stream, &Reply::Refused(why));
            }
            match serde_json::from_slice(&line) {
                Ok(Request::Status {
                    interval_ms,
                    follow: true,
                    detail,
                }) => self.keep(|| self.status(interval_ms, true, detail))?,
                Ok(Request::Status {
                    interval_ms, detail, ..
                }) => {
                    self.status(interval_ms, false, detail)?;
                    self.handler.status_sent();
                }
                Ok(Request::Recorded { interface }) => self.send_recording(interface.as_deref())?,
                Ok(Request::HandOver {}) => return self.hand_over(&mut lines, &mut line),
                Ok(Request::Reserve { wanted }) => {
                    return self.follow_lease(
                        lines,
                        |node, tell| node.reserve(&wanted, tell),
                        Reply::Reservation,
                    );
                }
                Ok(Request::Trial { wanted }) => {
                    return self.follow_lease(
                        lines,
                        |node, tell| node.trial(&wanted, tell),
                        Reply::Reservation,
                    );
                }
                Ok(Request::Watch {}) => {
                    return self.follow_lease(lines, |node, tell| node.watch(tell), Reply::Notice);
                }
                Ok(request) => send(self.stream, &self.at_work(|| self.answer(request)))?,
                Err(error) => {
                    let why = Refusal {
                        message: format!("not a request: {error}"),
                        help: Some("`suimon kinds --schema socket` prints what a request may say".into()),
                    };
                    send(self.stream, &Reply::Refused(why))?;
                }
            }
        }
        Ok(())
    }

    /// Reads a request, of which something has arrived, until its end or a byte beyond [`LINE`]. A
    /// client that sends it byte by byte holds its place no longer than another.
    fn read_request(&self, lines: &mut BufReader<&UnixStream>, line: &mut Vec<u8>) -> io::Result<()> {
        let deadline = Instant::now() + ARRIVAL;
        loop {
            let arrived = lines.fill_buf()?;
            let end = arrived.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            let taken = end.unwrap_or(arrived.len()).min(LINE + 1 - line.len());
            line.extend_from_slice(&arrived[..taken]);
            lines.consume(taken);
            // Without more to come it is as complete as it gets.
            if end.is_some() || taken == 0 || line.len() > LINE {
                return Ok(());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.stream.set_read_timeout(Some(left))?;
        }
    }

    /// Serves a request that keeps the connection, if there is room for one more.
    fn keep(&self, serve: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let served = match self.lasting.fetch_add(1, Ordering::AcqRel) < LASTING {
            true => serve(),
            false => send(self.stream, &Reply::Refused(all_taken(LASTING))),
        };
        self.lasting.fetch_sub(1, Ordering::AcqRel);
        served
    }

    /// Does what may take long, and shows meanwhile that it goes on.
    fn at_work<T>(&self, work: impl FnOnce() -> T) -> T {
        std::thread::scope(|scope| {
            let (done, is_done) = channel::<()>();
            let mut stream = self.stream;
            let signs = move || {
                while is_done.recv_timeout(SIGN_OF_LIFE) == Err(RecvTimeoutError::Timeout) {
                    // One that does not read is found to have gone by whoever looks for that.
                    if stream.write_all(b" ").is_err() {
                        return;
                    }
                }
            };
            // Without a thread for it the client waits for as long as one that gets no signs.
            let _ = std::thread::Builder::new()
                .name("control-sign".into())
                .spawn_scoped(scope, signs);
            let result = work();
            drop(done);
            result
        })
    }

    /// Whether whoever asked waits no longer; it may have said already that it asks no more.
    fn has_gone(&self) -> bool {
        let mut waiting = [PollFd::new(self.stream, PollFlags::HUP)];
        poll(&mut waiting, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// Whether nobody gets an answer any more.
    fn is_over(&self) -> bool {
        self.stop.is_set() || self.has_gone()
    }

    /// Who asks, and why.
    fn provenance(&self, reason: Option<String>) -> Result<Provenance, Refusal> {
        let peer = peer(self.stream)?;
        Ok(Provenance::of(peer.pid.as_raw_pid(), peer.uid.as_raw(), reason))
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
            Request::Enable { interface } => done(handler.switch(interface.as_deref(), true)),
            Request::Disable { interface } => done(handler.switch(interface.as_deref(), false)),
            Request::Detach { interface } => done(handler.detach(interface.as_deref())),
            Request::Set(changes) => {
                let reason = changes.reason.clone();
                done(self.provenance(reason).and_then(|by| handler.set(&changes, by)))
            }
            Request::AddClass(added) => {
                let by = self.provenance(added.reason.clone());
                done(by.and_then(|by| handler.change_class(&Amendment::Added(added), by)))
            }
            Request::RemoveClass(removed) => {
                let by = self.provenance(removed.reason.clone());
                done(by.and_then(|by| handler.change_class(&Amendment::Removed(removed), by)))
            }
            Request::Save {} => done(self.provenance(None).and_then(|by| handler.save(by))),
            Request::Plan { file } => handler
                .plan(Path::new(&file), &|| self.is_over())
                .map(Reply::Plan),
            Request::Apply {
                file,
                confirm_within_ms,
                break_reservations,
                reason,
            } => {
                let within = confirm_within_ms.map(Duration::from_millis);
                let by = self.provenance(reason);
                let stop = || self.is_over();
                by.and_then(|by| handler.apply(Path::new(&file), within, break_reservations, by, &stop))
                    .map(|Applied { message, difference }| Reply::Done {
                        message,
                        difference: Some(Box::new(difference)),
                    })
            }
            Request::Confirm {} => done(handler.confirm()),
            Request::Rollback {
                to,
                break_reservations,
                reason,
            } => {
                let by = self.provenance(reason);
                done(by.and_then(|by| handler.rollback(to, break_reservations, by)))
            }
            Request::Explain(wanted) => handler
                .explain(&wanted, &|| self.is_over())
                .map(|explained| Reply::Explained(Box::new(explained))),
            Request::History {} => handler
                .history()
                .map(|generations| Reply::History { generations }),
            Request::Policy {} => handler.policy_text().map(|text| Reply::Policy { text }),
            Request::Shadow {
                file,
                interface,
                span_ms,
            } => {
                let stop = || self.is_over();
                what_if::span(span_ms)
                    .and_then(|span| handler.shadow(Path::new(&file), interface.as_deref(), span, &stop))
                    .map(Reply::Shadow)
            }
            Request::Record { interface, memory } => done(handler.record(interface.as_deref(), memory)),
            Request::RecordEnd { interface } => done(handler.end_recording(interface.as_deref())),
            Request::Change { number, rate_bps } => done(
                handler
                    .reservations()
                    .and_then(|node| node.change(number, rate_bps)),
            ),
            Request::Reservations {} => handler
                .reservations()
                .and_then(|node| node.status())
                .map(|status| Reply::Reservations(Box::new(status))),
            // `serve` handles these: they take over the connection.
            Request::Status { .. }
            | Request::Recorded { .. }
            | Request::Reserve { .. }
            | Request::Trial { .. }
            | Request::Watch {}
            | Request::HandOver {}
            | Request::Leave { .. }
            | Request::Left {}
            | Request::TakenOver {} => Err(Refusal::new("this request has a connection of its own")),
        };
        done.unwrap_or_else(Reply::Refused)
    }

    /// Sends a recording, behind a line that says how long it is.
    fn send_recording(&self, interface: Option<&str>) -> io::Result<()> {
        match self.handler.recorded(interface) {
            Ok(file) => {
                let bytes = file.bytes();
                send(self.stream, &Reply::Recording { bytes })?;
                file.write(&mut &*self.stream)
            }
            Err(why) => send(self.stream, &Reply::Refused(why)),
        }
    }

    /// Hands over to the program that asks, step by step. If the connection ends before the last,
    /// this one goes on.
    fn hand_over(&self, lines: &mut BufReader<&UnixStream>, line: &mut Vec<u8>) -> io::Result<()> {
        let mut place = match self.handler.hand_over() {
            Ok(place) => place,
            Err(why) => return send(self.stream, &Reply::Refused(why)),
        };
        let agreed = |()| Reply::Done {
            message: "it leaves then".into(),
            difference: None,
        };
        send(self.stream, &Reply::HandOver(Box::new(place.offer())))?;
        self.stream.set_write_timeout(Some(HANDING_OVER))?;
        while !self.stop.is_set() {
            self.stream.set_read_timeout(Some(HANDING_OVER))?;
            line.clear();
            if lines.fill_buf()?.is_empty() {
                return Ok(());
            }
            self.read_request(lines, line)?;
            match serde_json::from_slice(line)? {
                Request::Leave { at_ns, realtime_ns } => {
                    let done = place.agree(at_ns, realtime_ns).map(agreed);
                    send(self.stream, &done.unwrap_or_else(Reply::Refused))?;
                }
                Request::Left {} => match place.left() {
                    Ok(backlog) => {
                        let bytes = backlog.len() as u64;
                        send(self.stream, &Reply::Backlog { bytes })?;
                        (&mut &*self.stream).write_all(&backlog)?;
                    }
                    Err(why) => send(self.stream, &Reply::Refused(why))?,
                },
                Request::TakenOver {} => {
                    let process = peer(self.stream).map_or(0, |peer| peer.pid.as_raw_pid());
                    let message = place.end(process);
                    let difference = None;
                    send(self.stream, &Reply::Done { message, difference })?;
                    // The connection ends with this program: then its place is free.
                    while !lines.fill_buf()?.is_empty() {
                        lines.consume(lines.buffer().len());
                    }
                    return Ok(());
                }
                _ => {
                    let why = Refusal::new("this connection hands over to another program");
                    send(self.stream, &Reply::Refused(why))?;
                }
            }
        }
        Ok(())
    }

    /// Begins a lease that lasts as long as the connection, and forwards its events to the client.
    fn follow_lease<T: Send>(
        &self,
        lines: BufReader<&UnixStream>,
        begin: impl FnOnce(&dyn Reservations, Sender<T>) -> Result<Lease, Refusal>,
        reply: impl Fn(T) -> Reply + Sync,
    ) -> io::Result<()> {
        self.keep(|| self.lend(lines, begin, reply))
    }

    fn lend<T: Send>(
        &self,
        mut lines: BufReader<&UnixStream>,
        begin: impl FnOnce(&dyn Reservations, Sender<T>) -> Result<Lease, Refusal>,
        reply: impl Fn(T) -> Reply + Sync,
    ) -> io::Result<()> {
        let (tell, events) = channel();
        let lease = match self.handler.reservations().and_then(|node| begin(node, tell)) {
            Ok(lease) => lease,
            Err(why) => return send(self.stream, &Reply::Refused(why)),
        };
        self.stream.set_read_timeout(Some(STOP_POLL))?;
        std::thread::scope(|scope| {
            scope.spawn(|| forward(self.stream, events, &reply));
            let mut unread = [0; 256];
            while !self.stop.is_set() {
                match lines.read(&mut unread) {
                    Ok(0) => break,
                    // Input is ignored: the connection belongs to the lease.
                    Ok(_) => {}
                    Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                    Err(_) => break,
                }
            }
            // Dropping the lease closes the channel, which ends the other thread.
            drop(lease);
        });
        Ok(())
    }

    fn status(&self, interval_ms: u64, follow: bool, detail: StatusDetail) -> io::Result<()> {
        let interval = Duration::from_millis(interval_ms);
        let read = || match detail {
            StatusDetail::Full => self.handler.read(),
            StatusDetail::Brief => self.handler.read_brief(),
        };
        let earlier = match interval.is_zero() {
            true => read(),
            false => self.handler.read_departures(),
        };
        let mut earlier = match earlier {
            Ok(reading) if interval.is_zero() => {
                let snapshot = reading.streamed(None, detail);
                return write_line(self.stream, &Reply::Status(Box::new(snapshot)));
            }
            Ok(reading) => reading,
            Err(why) => return send(self.stream, &Reply::Refused(why)),
        };
        let interval = interval.max(SHORTEST_INTERVAL);
        let mut due = Instant::now();
        loop {
            // After a slow reply, skip the missed intervals instead of sending a burst.
            due = (due + interval).max(Instant::now());
            if !self.stop.sleep_until(due) {
                return Ok(());
            }
            let reading = match read() {
                Ok(reading) => reading,
                Err(why) => return send(self.stream, &Reply::Refused(why)),
            };
            let snapshot = reading.streamed(Some(&earlier), detail);
            write_line(self.stream, &Reply::Status(Box::new(snapshot)))?;
            if !follow {
                return Ok(());
            }
            earlier = reading;
        }
    }
}

/// Sends events until the channel closes. It disconnects a peer that does not read; the reading
/// thread sees that as the end of the connection.
fn forward<T>(stream: &UnixStream, events: Receiver<T>, reply: &impl Fn(T) -> Reply) {
    for event in events {
        if send(stream, &reply(event)).is_err() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
            return;
        }
    }
}

fn done(result: Result<String, Refusal>) -> Result<Reply, Refusal> {
    result.map(|message| Reply::Done {
        message,
        difference: None,
    })
}

// The client.

/// A connection to a running program.
#[derive(Debug)]
pub struct Client {
    lines: BufReader<UnixStream>,
    path: PathBuf,
    /// The timeout of a reply; `None`: no timeout.
    patience: Option<Duration>,
    /// The last request may change what is in force.
    changes: bool,
}

impl Client {
    /// Connects. `named` is a name or a path; it may be `None` if only one program is running.
    ///
    /// # Errors
    ///
    /// Returns an error if the socket cannot be found or nothing serves it.
    pub fn connect(named: Option<&str>) -> Result<Self, Refusal> {
        let path = find(named)?;
        let stream = connect(&path)
            .and_then(|stream| stream.set_read_timeout(Some(SILENCE)).map(|()| stream))
            .map_err(|error| connection_refusal(&path, &error))?;
        Ok(Self {
            lines: BufReader::new(stream),
            path,
            patience: None,
            changes: false,
        })
    }

    /// Sends a request and waits for its first reply.
    ///
    /// # Errors
    ///
    /// Returns an error if the request cannot be sent, the reply times out, or it cannot be parsed.
    pub fn ask(&mut self, request: &Request) -> Result<Reply, Refusal> {
        let interval = match request {
            Request::Status { interval_ms, .. } => Duration::from_millis(*interval_ms),
            Request::Shadow { span_ms, .. } => Duration::from_millis(*span_ms),
            _ => Duration::from_millis(INTERVAL_MS),
        };
        // The program waits up to five seconds for its packet loop before it refuses. As it works
        // on the request it says so every second.
        self.patience = Some(interval + Duration::from_secs(7));
        match self.tell(request) {
            // A program that closes at once may have said why.
            Err(gone) => self.next_reply().map_err(|_| gone),
            Ok(()) => self.next_reply(),
        }
    }

    /// Sends a request.
    ///
    /// # Errors
    ///
    /// Returns an error if the request cannot be written to the connection.
    pub fn tell(&mut self, request: &Request) -> Result<(), Refusal> {
        self.changes = request.changes();
        let mut line = serde_json::to_vec(request).map_err(|e| self.gone(&e.into()))?;
        line.push(b'\n');
        self.lines.get_mut().write_all(&line).map_err(|e| self.gone(&e))
    }

    /// Copies so many bytes, which follow a reply.
    ///
    /// # Errors
    ///
    /// Returns an error if they do not come, or cannot be written.
    pub fn take_bytes(&mut self, bytes: u64, out: &mut dyn Write) -> io::Result<()> {
        match io::copy(&mut (&mut self.lines).take(bytes), out)? {
            copied if copied == bytes => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Waits for the next reply, as after a status request with `follow`.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection ends or fails, or the reply cannot be parsed.
    pub fn next_reply(&mut self) -> Result<Reply, Refusal> {
        let mut line = Vec::new();
        match self.read_line(&mut line) {
            Ok(0) => Err(self.gone(&io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => printable_reply(&line).map_err(|error| {
                let message = format!("cannot parse the reply of {}: {error}", self.path.display());
                Refusal {
                    message,
                    help: Some("it may be another version of suimon".into()),
                }
            }),
            Err(error) => Err(self.gone(&error)),
        }
    }

    /// Reads a line. The timeout counts from the last bytes that arrived; a stopped program fails
    /// at once.
    fn read_line(&mut self, line: &mut Vec<u8>) -> io::Result<usize> {
        let mut last_data = Instant::now();
        loop {
            let length = line.len();
            match self.lines.read_until(b'\n', line) {
                Err(error) if is_silence(&error) => {
                    if line.len() > length {
                        last_data = Instant::now();
                    }
                    if let Some(patience) = self.patience
                        && (last_data.elapsed() >= patience || self.stopped().is_some())
                    {
                        return Err(error);
                    }
                }
                read => return read,
            }
        }
    }

    /// The process that serves the socket, if it can be told.
    pub fn process(&self) -> Option<i32> {
        let peer = rustix::net::sockopt::socket_peercred(self.lines.get_ref()).ok()?;
        Some(peer.pid.as_raw_pid())
    }

    /// The process ID of the server if it is stopped; `None` also where `/proc` does not show it.
    fn stopped(&self) -> Option<i32> {
        let process = self.process()?;
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let stopped = status.lines().any(|line| line.starts_with("State:\tT"));
        stopped.then_some(process)
    }

    /// Waits until the program that is asked has ended, or closes the connection; so long at most.
    /// Whether it has.
    pub fn wait_for_end(&mut self, longest: Duration) -> bool {
        let until = Instant::now() + longest;
        while Instant::now() < until {
            let left = until
                .saturating_duration_since(Instant::now())
                .max(STOP_POLL / 100);
            let _ = self.lines.get_ref().set_read_timeout(Some(left));
            match self.lines.fill_buf() {
                Ok([]) => return true,
                Ok(more) => {
                    let length = more.len();
                    self.lines.consume(length);
                }
                Err(error) if is_silence(&error) || error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return true,
            }
        }
        false
    }

    /// A guard that closes the connection when it is dropped, even while another thread reads.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection's descriptor cannot be duplicated.
    pub fn hang_up_later(&self) -> Result<HangUp, Refusal> {
        let stream = self.lines.get_ref().try_clone();
        stream.map(HangUp).map_err(|e| self.gone(&e))
    }

    /// Removes the timeout of replies.
    pub fn wait_for_ever(&mut self) {
        self.patience = None;
    }

    /// The metrics over an interval.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection fails, or the reply is a refusal or no status.
    pub fn status(&mut self, interval: Duration, follow: bool) -> Result<Snapshot, Refusal> {
        self.status_with(interval, follow, StatusDetail::Full)
    }

    /// The same in this detail.
    ///
    /// # Errors
    ///
    /// As [`Client::status`].
    pub fn status_with(
        &mut self,
        interval: Duration,
        follow: bool,
        detail: StatusDetail,
    ) -> Result<Snapshot, Refusal> {
        let interval_ms = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
        let reply = self.ask(&Request::Status {
            interval_ms,
            follow,
            detail,
        })?;
        snapshot(reply)
    }

    fn gone(&self, error: &io::Error) -> Refusal {
        let why = self.why_gone(error);
        match self.changes {
            false => why,
            true => Refusal {
                message: format!(
                    "{}: whether what was asked for is in force is not known",
                    why.message
                ),
                help: Some(match why.help {
                    Some(help) => format!("{help}; `suimon history` tells it"),
                    None => "`suimon history` tells it".into(),
                }),
            },
        }
    }

    fn why_gone(&self, error: &io::Error) -> Refusal {
        let message = match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                format!("the suimon at {} has ended", self.path.display())
            }
            _ if is_silence(error) => {
                if let Some(process) = self.stopped() {
                    return Refusal {
                        message: format!("the suimon at {} is stopped", self.path.display()),
                        help: Some(format!("`kill -CONT {process}` resumes it")),
                    };
                }
                format!("the suimon at {} does not answer", self.path.display())
            }
            _ => format!("the suimon at {}: {error}", self.path.display()),
        };
        Refusal::new(message)
    }
}

/// A reply whose texts are all [`printable`].
fn printable_reply(line: &[u8]) -> serde_json::Result<Reply> {
    // In JSON, C0 is escaped as \u00..; DEL and C1 may stand as they are. Names hardly ever have
    // any of these bytes: looked for in pieces, which a processor compares many bytes at a time.
    let hint = |byte: &u8| matches!(byte, b'\\' | 0x7f | 0xc2);
    let has_hint = |piece: &[u8]| piece.iter().fold(false, |found, byte| found | hint(byte));
    let suspicious = |pair: &[u8]| pair == b"\\u" || pair[1] == 0x7f || pair[0] == 0xc2;
    if !line.chunks(256).any(has_hint) || !line.windows(2).any(suspicious) {
        return Reply::parse(line);
    }
    let mut value = serde_json::from_slice(line)?;
    escape_controls(&mut value);
    serde_json::from_value(value)
}

fn escape_controls(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::String(text) => *text = printable(text),
        serde_json::Value::Array(list) => list.iter_mut().for_each(escape_controls),
        serde_json::Value::Object(map) => {
            let escape = |(key, mut value): (String, serde_json::Value)| {
                escape_controls(&mut value);
                (printable(&key), value)
            };
            *map = std::mem::take(map).into_iter().map(escape).collect();
        }
        _ => {}
    }
}

/// Whether the error is only a timeout.
fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Closes a connection when it is dropped.
#[derive(Debug)]
pub struct HangUp(UnixStream);

impl Drop for HangUp {
    fn drop(&mut self) {
        // The peer may have closed it already.
        let _ = self.0.shutdown(std::net::Shutdown::Both);
    }
}

/// Explains why connecting failed; most often the program has ended.
fn connection_refusal(path: &Path, error: &io::Error) -> Refusal {
    let path = path.display();
    let (message, help) = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => (
            format!("no suimon answers at {path}"),
            "check whether `suimon run` is still running",
        ),
        io::ErrorKind::PermissionDenied if error.get_ref().is_some() => (
            error.to_string(),
            "ask as the user that runs the program, or as root",
        ),
        io::ErrorKind::PermissionDenied => (
            format!("the suimon at {path} belongs to another user"),
            "try again as that user, or as root",
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
/// Returns an error if the reply is a refusal or no status.
pub fn snapshot(reply: Reply) -> Result<Snapshot, Refusal> {
    match reply {
        Reply::Status(snapshot) => Ok(*snapshot),
        Reply::Refused(why) => Err(why),
        other => Err(Refusal::new(format!("expected a status, got {other:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_finds_the_program_that_manages_the_interface_or_alone_has_the_class() {
        let found: Vec<PathBuf> = ["accept", "lan", "wan"].map(PathBuf::from).to_vec();
        let of = |name: &str, classes: &[&str]| -> Managed {
            (name.into(), classes.iter().map(ToString::to_string).collect())
        };
        let interfaces = |path: &Path| match path.to_str() {
            Some("lan") => vec![of("lan0", &["office", "pe"]), of("lan1", &["calls"])],
            Some("wan") => vec![of("pe", &["calls"])],
            _ => Vec::new(),
        };
        // The name of an interface comes before that of a class.
        assert_eq!(managing(&found, "pe", interfaces), Ok(PathBuf::from("wan")));
        assert_eq!(managing(&found, "lan1", interfaces), Ok(PathBuf::from("lan")));
        assert_eq!(managing(&found, "office", interfaces), Ok(PathBuf::from("lan")));
        let several = managing(&found, "calls", interfaces).expect_err("two have it");
        assert!(several.message.ends_with("lan1, pe"), "{several}");
        let nobody = managing(&found, "eth9", interfaces).expect_err("nobody manages it");
        assert!(nobody.message.contains("eth9"), "{nobody}");
        assert!(nobody.help.is_some_and(|help| help.ends_with("lan0, lan1, pe")));
        // The only one is asked, and says itself what it manages.
        assert_eq!(
            managing(&found[..1], "pe", interfaces),
            Ok(PathBuf::from("accept"))
        );
        assert!(only(&found).is_err());
    }
}
