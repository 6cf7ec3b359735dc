//! Relays: a port of the loopback address outside of a lab leads through its link, for programs of
//! which one can change only a port.
//!
//! ```text
//! to a server outside: client ─ 127.0.0.1:5433 ─▶ inside ══ link ══▶ outside ─▶ db:5432
//! to one in the lab:   client ─ 127.0.0.1:8080 ─▶ outside ══ link ══▶ inside:8000
//! ```
//!
//! A TCP connection is three: the client's, one over the link, the server's. Each half is closed
//! when its other end was. What the client or the server sends is acknowledged at once, and waits
//! in the relay's socket buffers for the link.
//!
//! Who has entered a lab cannot make sockets outside of it. So the ports are bound before, and a
//! process beside the lab connects to servers, and passes the sockets in.

use crate::error::{Doing, Error, Result};
use crate::host::Host;
use crate::nesting::BehindLink;
use crate::sys::beside::{fork_beside, receive_descriptor, send_descriptor};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// The name of the host behind the link.
pub const INSIDE: &str = "inside";
/// Relays of one lab at most: their numbers are one byte.
const MOST: usize = 64;
/// Connections of one relay at a time.
const CONNECTIONS: usize = 512;
/// How long a server outside may take to answer. Meanwhile other connections wait.
const PATIENCE: Duration = Duration::from_secs(5);
/// After an accept that failed, such as for want of descriptors.
const AGAIN: Duration = Duration::from_millis(20);

/// A port, and where it leads: `5433:db:5432`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RelaySpec {
    /// The port of the loopback address; 0: any that is free.
    pub port: u16,
    /// The server: a host outside, or [`INSIDE`].
    pub host: String,
    /// The server's port.
    pub to: u16,
}

impl FromStr for RelaySpec {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let split = || {
            let (port, rest) = text.split_once(':')?;
            let (host, to) = rest.rsplit_once(':')?;
            let host = host
                .strip_prefix('[')
                .map_or(Some(host), |host| host.strip_suffix(']'))?;
            let to = to.parse().ok().filter(|to| *to != 0)?;
            (!host.is_empty()).then_some(())?;
            Some(Self {
                port: port.parse().ok()?,
                host: host.to_owned(),
                to,
            })
        };
        split().ok_or_else(|| {
            format!("`{text}` is not PORT:HOST:PORT, such as 5433:db:5432 or 8080:inside:8000")
        })
    }
}

/// Ports that are bound, and wait for their lab.
#[derive(Debug)]
pub struct PreparedRelays {
    ports: Vec<(TcpListener, RelaySpec)>,
    connector: Option<Connector>,
}

impl PreparedRelays {
    /// Binds the ports: must be called before [`enter`](crate::enter).
    ///
    /// # Errors
    /// If a port is taken, or a server's name is unknown.
    pub fn new(specs: &[RelaySpec]) -> Result<Self> {
        if specs.len() > MOST {
            return Err(Error::other(
                "relay",
                format!("at most {MOST} ports of a lab lead somewhere"),
            ));
        }
        for RelaySpec { host, to, .. } in specs.iter().filter(|spec| spec.is_beyond()) {
            let doing = || format!("relay to {host}:{to}");
            (host.as_str(), *to).to_socket_addrs().doing(doing)?;
        }
        // First, so that it does not keep the ports open.
        let connector = specs.iter().any(RelaySpec::is_beyond);
        let connector = connector.then(|| Connector::start(specs)).transpose();
        let connector = connector.doing(|| "start a process beside the lab".to_owned())?;
        let mut ports = Vec::new();
        for spec in specs {
            let doing = || format!("listen on 127.0.0.1:{}", spec.port);
            let port = TcpListener::bind((Ipv4Addr::LOCALHOST, spec.port)).doing(doing);
            let port = port.map_err(|why| match why.kind() {
                io::ErrorKind::AddrInUse => why.help("choose another port: 0 is any that is free"),
                _ => why,
            })?;
            ports.push((port, spec.clone()));
        }
        Ok(Self { ports, connector })
    }

    /// Opens them through the link; where each listens and leads. They last until this process
    /// ends.
    ///
    /// # Errors
    /// If a thread or a socket of the lab cannot be made.
    pub fn open(self, behind: &BehindLink) -> Result<Vec<(SocketAddr, RelaySpec)>> {
        let mut opened = Vec::new();
        for (number, (port, spec)) in (0u8..).zip(self.ports) {
            let doing = || format!("relay to {}:{}", spec.host, spec.to);
            let at = port.local_addr().doing(doing)?;
            match self.connector.clone().filter(|_| spec.is_beyond()) {
                None => {
                    let server = SocketAddr::new(behind.inside_address, spec.to);
                    forward(&behind.outside, port, move || TcpStream::connect(server))?;
                }
                Some(connector) => {
                    let outside = IpAddr::clone(&behind.outside_address);
                    let far = behind
                        .outside
                        .call(|| TcpListener::bind((outside, 0)))?
                        .doing(doing)?;
                    let through = far.local_addr().doing(doing)?;
                    forward(&behind.outside, far, move || connector.connect(number))?;
                    forward(&behind.inside, port, move || TcpStream::connect(through))?;
                }
            }
            opened.push((at, spec));
        }
        Ok(opened)
    }
}

impl RelaySpec {
    /// Whether the server is not in the lab.
    fn is_beyond(&self) -> bool {
        self.host != INSIDE
    }
}

/// Joins each connection of the port to one that `onward` makes, on threads of this host.
fn forward(
    host: &Host,
    port: TcpListener,
    onward: impl Fn() -> io::Result<TcpStream> + Send + Sync + 'static,
) -> Result<()> {
    let (onward, open) = (Arc::new(onward), Arc::new(AtomicUsize::new(0)));
    let accept = move || {
        loop {
            let Ok((near, _)) = port.accept() else {
                thread::sleep(AGAIN);
                continue;
            };
            if open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS {
                open.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let (onward, open) = (Arc::clone(&onward), OpenConnection(Arc::clone(&open)));
            // Without a thread the connection is closed.
            let _ = thread::Builder::new().name("relay".into()).spawn(move || {
                let _open = open;
                if let Ok(far) = onward() {
                    join(&near, &far);
                }
            });
        }
    };
    host.spawn("relays", accept).map(drop)
}

/// Counts a connection as open until it is dropped.
struct OpenConnection(Arc<AtomicUsize>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Carries both halves until both have ended, or one has failed.
fn join(near: &TcpStream, far: &TcpStream) {
    // They are small messages' sockets, too.
    let _ = near.set_nodelay(true).and_then(|()| far.set_nodelay(true));
    thread::scope(|scope| {
        scope.spawn(|| carry(near, far));
        carry(far, near);
    });
}

/// Carries what comes from one to the other, and its end.
fn carry(mut from: &TcpStream, mut to: &TcpStream) {
    let ended = match io::copy(&mut from, &mut to) {
        Ok(_) => to.shutdown(Shutdown::Write),
        Err(_) => from.shutdown(Shutdown::Both).and(to.shutdown(Shutdown::Both)),
    };
    // Whoever has closed already need not be told.
    let _ = ended;
}

/// The process beside the lab that connects to servers.
#[derive(Clone, Debug)]
struct Connector(Arc<Mutex<UnixStream>>);

impl Connector {
    fn start(specs: &[RelaySpec]) -> io::Result<Self> {
        let over = fork_beside(|asked| serve(asked, specs))?;
        Ok(Self(Arc::new(Mutex::new(over))))
    }

    /// A connection to the server of this relay.
    fn connect(&self, number: u8) -> io::Result<TcpStream> {
        let mut over = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        over.write_all(&[number])?;
        let (_, socket) = receive_descriptor(&over)?;
        socket
            .map(TcpStream::from)
            .ok_or_else(|| io::ErrorKind::ConnectionRefused.into())
    }
}

/// Answers each number by a connection to that server, or without one, until the lab has ended.
fn serve(mut asked: UnixStream, specs: &[RelaySpec]) {
    let mut number = [0];
    while asked.read_exact(&mut number).is_ok() {
        let Some(spec) = specs.get(usize::from(number[0])) else {
            return;
        };
        let answered = match reach(spec) {
            Ok(socket) => send_descriptor(&asked, number[0], socket.as_fd()),
            Err(why) => {
                // Nobody else sees it: to the client, the connection ends.
                let _ = writeln!(io::stderr(), "suimon: {}:{}: {why}", spec.host, spec.to);
                asked.write_all(&number)
            }
        };
        if answered.is_err() {
            return;
        }
    }
}

/// Connects to the first of the server's addresses that answers.
fn reach(spec: &RelaySpec) -> io::Result<TcpStream> {
    let mut refused = io::Error::from(io::ErrorKind::NotFound);
    for address in (spec.host.as_str(), spec.to).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(socket) => return Ok(socket),
            Err(why) => refused = why,
        }
    }
    Err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relay_is_a_port_a_host_and_a_port() {
        let read = |text: &str| text.parse::<RelaySpec>().map(|it| (it.port, it.host, it.to));
        assert_eq!(read("5433:db:5432"), Ok((5433, "db".into(), 5432)));
        assert_eq!(read("0:[::1]:80"), Ok((0, "::1".into(), 80)));
        for wrong in [
            "5433",
            "5433:db",
            "5433::5432",
            "db:5432:1",
            "1:db:0",
            "1:db:70000",
            "1:[::1:80",
            "",
        ] {
            assert!(read(wrong).is_err(), "{wrong} was accepted");
        }
    }
}
