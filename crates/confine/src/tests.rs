//! What a confined thread cannot do, tried; and what it still can. Rights are a thread's, so each
//! test confines one of its own.

use crate::{Confinement, Role};
use rustix::net::{SendAncillaryBuffer, SendFlags};
use std::fs::{self, File};
use std::io::{ErrorKind, IoSlice};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::Command;

const ALL: [Role; 9] = [
    Role::Program,
    Role::DataPlane,
    Role::Control,
    Role::Rsvp,
    Role::Law,
    Role::Probe,
    Role::Connections,
    Role::Web,
    Role::Viewer,
];

/// A folder of this test, which ends with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("suimon-confine-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Whether this kernel has all that is used here; otherwise a test says that it could not run.
fn is_whole() -> bool {
    let lacking = crate::lacking();
    if !lacking.is_empty() {
        skips::skipped(lacking.join("; "));
    }
    lacking.is_empty()
}

fn within<T: Send>(role: Role, folder: &Folder, work: impl FnOnce() -> T + Send) -> T {
    Confinement::changing([folder.0.clone()]).within(role, work)
}

fn kind<T>(done: std::io::Result<T>) -> Option<ErrorKind> {
    done.err().map(|why| why.kind())
}

const DENIED: Option<ErrorKind> = Some(ErrorKind::PermissionDenied);

#[test]
fn nobody_starts_a_process_and_everybody_reads_the_clock() {
    if !is_whole() {
        return;
    }
    for role in ALL {
        let folder = Folder::new(&format!("process-{role:?}"));
        let (started, now) = within(role, &folder, || {
            (
                kind(Command::new("/bin/true").status()),
                std::time::Instant::now(),
            )
        });
        assert_eq!(started, DENIED, "{role:?}");
        assert!(now.elapsed().as_secs() < 60);
    }
    assert!(
        Command::new("/bin/true").status().is_ok(),
        "this thread keeps its rights"
    );
}

#[test]
fn threads_are_started_by_all_but_the_data_plane() {
    if !is_whole() {
        return;
    }
    for role in ALL {
        let folder = Folder::new(&format!("threads-{role:?}"));
        let started = within(role, &folder, || std::thread::Builder::new().spawn(|| ()).is_ok());
        assert_eq!(started, role != Role::DataPlane, "{role:?}");
    }
}

#[test]
fn files_are_written_in_the_folders_named_and_by_the_roles_that_do() {
    if !is_whole() {
        return;
    }
    let elsewhere = Folder::new("elsewhere");
    fs::write(elsewhere.0.join("there"), "text").expect("a file");
    for role in ALL {
        let folder = Folder::new(&format!("files-{role:?}"));
        let inside = folder.0.join("inside");
        let (made, exchanged, outside, removed, read) = within(role, &folder, || {
            (
                kind(fs::write(&inside, "text")),
                kind(fs::rename(&inside, folder.0.join("other"))),
                kind(File::create(elsewhere.0.join("new"))),
                kind(fs::remove_file(elsewhere.0.join("there"))),
                kind(fs::read(elsewhere.0.join("there"))),
            )
        });
        let may = matches!(role, Role::Program | Role::Control);
        let expected = if may { None } else { DENIED };
        assert_eq!((made, exchanged), (expected, expected), "{role:?}");
        assert_eq!((outside, removed), (DENIED, DENIED), "{role:?}");
        assert_eq!(read, expected, "{role:?}: it reads what it is not told to");
    }
}

#[test]
fn sockets_are_made_by_the_roles_that_do_and_nobody_speaks_tcp() {
    if !is_whole() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    for role in ALL {
        let folder = Folder::new(&format!("sockets-{role:?}"));
        let path = folder.0.join("socket");
        let (datagrams, connected, listens, serves) = within(role, &folder, || {
            (
                UdpSocket::bind("127.0.0.1:0").is_ok(),
                TcpStream::connect(address).is_ok(),
                TcpListener::bind("127.0.0.1:0").is_ok(),
                UnixListener::bind(&path).is_ok(),
            )
        });
        let may = matches!(role, Role::Program | Role::DataPlane | Role::Control | Role::Rsvp);
        assert_eq!(datagrams, may, "{role:?}");
        assert!(!connected && !listens, "{role:?}");
        assert_eq!(serves, matches!(role, Role::Program | Role::Control), "{role:?}");
    }
}

/// Two sockets, of which the first is connected to the second.
fn connected() -> [UdpSocket; 2] {
    let [near, far] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a socket"));
    near.connect(far.local_addr().expect("its address"))
        .expect("an address");
    [near, far]
}

#[test]
fn a_prober_asks_by_the_sockets_that_it_has() {
    if !is_whole() {
        return;
    }
    let [near, _far] = connected();
    let send = || {
        let (mut nothing, flags) = (SendAncillaryBuffer::default(), SendFlags::empty());
        let sent = rustix::net::sendmsg(&near, &[IoSlice::new(b"?")], &mut nothing, flags);
        kind(sent.map_err(std::io::Error::from))
    };
    let folder = Folder::new("asks");
    assert_eq!(within(Role::Probe, &folder, send), None);
    assert_eq!(within(Role::Law, &folder, send), DENIED);
}

#[test]
fn who_hears_of_connections_asks_by_the_sockets_that_it_has() {
    if !is_whole() {
        return;
    }
    let [near, _far] = connected();
    let folder = Folder::new("hears");
    assert_eq!(within(Role::Connections, &folder, || kind(near.send(b"?"))), None);
    assert_eq!(within(Role::Law, &folder, || kind(near.send(b"?"))), DENIED);
}

#[test]
fn who_shows_a_program_connects_to_its_socket() {
    if !is_whole() {
        return;
    }
    let folder = Folder::new("connects");
    let path = folder.0.join("socket");
    let _listener = UnixListener::bind(&path).expect("a socket");
    for role in [Role::Web, Role::Viewer] {
        let confinement = Confinement::changing([]).reading([folder.0.clone()]);
        assert!(
            confinement.within(role, || UnixStream::connect(&path).is_ok()),
            "{role:?}"
        );
    }
    let law = Confinement::changing([]).within(Role::Law, || kind(UnixStream::connect(&path)));
    assert_eq!(law, DENIED);
}

/// The capabilities of a thread, by its own status.
fn capabilities() -> u64 {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapPrm:"));
    line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(u64::MAX)
}

#[test]
fn capabilities_are_dropped_and_do_not_come_back() {
    let before = capabilities();
    const NET_ADMIN: u64 = 1 << 12;
    const SYS_ADMIN: u64 = 1 << 21;
    let folder = Folder::new("capabilities");
    let (ports, after, again) = Confinement::changing([folder.0.clone()]).within(Role::DataPlane, || {
        let ports = capabilities();
        // A wider role gives nothing back.
        let confinement = Confinement::changing([]);
        let _ = confinement.enter(Role::Control);
        let after = capabilities();
        let _ = confinement.enter(Role::Program);
        (ports, after, capabilities())
    });
    assert_eq!(ports & SYS_ADMIN, 0);
    assert_eq!(ports & NET_ADMIN, before & NET_ADMIN);
    assert_eq!((after & NET_ADMIN, again & NET_ADMIN), (0, 0));
    assert_eq!(capabilities(), before, "this thread keeps its rights");
}

#[test]
fn without_confinement_nothing_is_taken_away() {
    let started = Confinement::none().within(Role::Law, || Command::new("/bin/true").status().is_ok());
    assert!(started);
}
