//! Announces the node of a network namespace on an abstract Unix socket, whose name belongs to the
//! namespace like its interfaces. There is only one: two nodes would both receive every message,
//! and each would reject what the other has state for.

use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const NAME: &str = "suimon-rsvp";
const TIMEOUT: Duration = Duration::from_secs(2);

fn name() -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(NAME)
}

/// Gives clients the path of the node's control socket, until it is dropped.
#[derive(Debug)]
pub struct Beacon {
    end: Arc<AtomicBool>,
}

impl Beacon {
    /// Announces a node whose control socket has this path.
    ///
    /// # Errors
    ///
    /// If the namespace has a node already.
    pub fn announce(path: &Path) -> Result<Self, String> {
        let listener = name()
            .and_then(|name| UnixListener::bind_addr(&name))
            .map_err(|e| match e.kind() {
                io::ErrorKind::AddrInUse => {
                    "another suimon speaks RSVP on this host; see `suimon reserve status`".into()
                }
                _ => format!("cannot announce the node: {e}"),
            })?;
        let end = Arc::new(AtomicBool::new(false));
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let ends = Arc::clone(&end);
        let answer = move || {
            for stream in listener.incoming() {
                if ends.load(Ordering::Acquire) {
                    return;
                }
                if let Ok(mut stream) = stream {
                    let _ = stream.set_write_timeout(Some(TIMEOUT));
                    let _ = stream.write_all(path.as_os_str().as_encoded_bytes());
                }
            }
        };
        let spawned = std::thread::Builder::new().name("beacon".into()).spawn(answer);
        spawned
            .map(|_| Self { end })
            .map_err(|e| format!("cannot announce the node: {e}"))
    }
}

impl Drop for Beacon {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Release);
        // A connection wakes the thread, which then closes the socket.
        drop(name().and_then(|name| UnixStream::connect_addr(&name)));
    }
}

/// The control socket of the namespace's node, if there is one.
pub fn find() -> Option<PathBuf> {
    let mut stream = name().and_then(|name| UnixStream::connect_addr(&name)).ok()?;
    stream.set_read_timeout(Some(TIMEOUT)).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    (!text.is_empty()).then(|| PathBuf::from(text))
}
