//! Round trips that do not load the line: datagrams, handshakes, requests on new connections.

use super::{HELLO, Role};
use crate::traffic::tcp::is_timeout;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between two datagrams: those of a call.
const DATAGRAMS: Duration = Duration::from_millis(20);
/// Between two new connections.
const CONNECTIONS: Duration = Duration::from_millis(100);
/// What takes longer is lost.
pub(super) const LIMIT: Duration = Duration::from_secs(2);
/// Bytes of a datagram: a small packet of a call.
const LENGTH: usize = 160;

/// A round trip: when it began, and how long it took; nothing if it was lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Trip {
    pub at: Instant,
    pub took: Option<Duration>,
}

/// Sends datagrams until `stop` is set, and waits for the last answers.
pub(super) fn datagrams(to: SocketAddr, stop: &AtomicBool) -> io::Result<Vec<Trip>> {
    let any = match to {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(to)?;
    let mut trips: Vec<Trip> = Vec::new();
    let mut next = Instant::now();
    let mut datagram = [0; LENGTH];
    datagram[..HELLO.len()].copy_from_slice(&HELLO);
    loop {
        let now = Instant::now();
        let open = trips.iter().rev().find(|trip| trip.took.is_none());
        let over = stop.load(Ordering::Relaxed);
        if over && open.is_none_or(|trip| now >= trip.at + LIMIT) {
            return Ok(trips);
        }
        if !over && now >= next {
            datagram[HELLO.len()..][..8].copy_from_slice(&(trips.len() as u64).to_be_bytes());
            trips.push(Trip {
                at: Instant::now(),
                took: None,
            });
            // What the kernel does not send is lost, and counts as such.
            let _ = socket.send(&datagram);
            next += DATAGRAMS;
            continue;
        }
        let wait = next.saturating_duration_since(now).max(Duration::from_millis(1));
        socket.set_read_timeout(Some(if over { DATAGRAMS } else { wait }))?;
        answer(&socket, &mut trips)?;
    }
}

/// Takes an answer, if one comes in time.
fn answer(socket: &UdpSocket, trips: &mut [Trip]) -> io::Result<()> {
    let mut buffer = [0; LENGTH + 1];
    let length = match socket.recv(&mut buffer) {
        Ok(length) => length,
        Err(e) if is_timeout(e.kind()) => return Ok(()),
        // The peer has ended: what was sent is lost. The pause keeps this from spinning.
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
            std::thread::sleep(Duration::from_millis(1));
            return Ok(());
        }
        Err(e) => return Err(e),
    };
    let now = Instant::now();
    let mut number = [0; 8];
    number.copy_from_slice(&buffer[HELLO.len()..][..8]);
    let number = usize::try_from(u64::from_be_bytes(number)).unwrap_or(usize::MAX);
    if let Some(trip) = trips.get_mut(number).filter(|_| length == LENGTH) {
        let took = now.duration_since(trip.at);
        trip.took = trip.took.or((took < LIMIT).then_some(took));
    }
    Ok(())
}

/// Makes connections until `stop` is set: their handshakes, and a request on each.
pub(super) fn connections(to: SocketAddr, stop: &AtomicBool) -> [Vec<Trip>; 2] {
    let mut trips = [Vec::new(), Vec::new()];
    while !stop.load(Ordering::Relaxed) {
        let at = Instant::now();
        let stream = TcpStream::connect_timeout(&to, LIMIT);
        let took = stream.is_ok().then(|| at.elapsed());
        trips[0].push(Trip { at, took });
        if let Ok(stream) = stream {
            let at = Instant::now();
            let took = request(stream).is_ok().then(|| at.elapsed());
            trips[1].push(Trip { at, took });
        }
        std::thread::sleep(CONNECTIONS.saturating_sub(at.elapsed()));
    }
    trips
}

fn request(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LIMIT))?;
    let mut question = [0; 16];
    question[..8].copy_from_slice(&Role::Question.hello());
    stream.write_all(&question)?;
    stream.read_exact(&mut question[8..])
}
