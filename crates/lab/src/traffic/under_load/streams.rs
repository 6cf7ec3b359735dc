//! The connections that fill the line in one direction, what they carry, and requests on them.

use super::ping::{LIMIT, Trip};
use super::{FRAME, HEAD, Head, Role, UNSENT};
use crate::sys::socket::set_unsent_limit;
use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two requests on a connection.
const QUESTIONS: Duration = Duration::from_millis(200);

/// A connection on which nothing moves for so long has ended.
const SILENCE: Duration = Duration::from_secs(10);
/// Bytes that are read at once at most.
const BUFFER: usize = 256 << 10;
/// How closely it is noted how much has arrived.
const NOTES: Duration = Duration::from_millis(10);

/// What one connection has carried, and the requests on it.
#[derive(Debug, Default)]
pub(super) struct Carried {
    /// When it was known, and how many bytes had arrived until then.
    pub arrived: Vec<(Instant, u64)>,
    /// The round trips of its requests.
    pub trips: Vec<Trip>,
}

/// The requests of a connection, by number.
#[derive(Default)]
struct Questions(Mutex<Vec<Trip>>);

impl Questions {
    /// The number of the next one, which begins now.
    fn ask(&self) -> u64 {
        let mut trips = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        trips.push(Trip {
            at: Instant::now(),
            took: None,
        });
        trips.len() as u64 - 1
    }

    fn answer(&self, number: u64) {
        let mut trips = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let trip = usize::try_from(number)
            .ok()
            .and_then(|number| trips.get_mut(number));
        if let Some(trip) = trip {
            trip.took = trip.took.or(Some(trip.at.elapsed()));
        }
    }
}

fn connect(to: SocketAddr, role: Role) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&to, LIMIT.saturating_mul(5))?;
    stream.set_nodelay(true)?;
    set_unsent_limit(&stream, UNSENT)?;
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SILENCE))?;
    stream.write_all(&role.hello())?;
    Ok(stream)
}

/// Fills the line with one connection until `stop` is set.
pub(super) fn download(to: SocketAddr, stop: &AtomicBool) -> io::Result<Carried> {
    let mut asking = connect(to, Role::Download)?;
    let mut stream = BufReader::with_capacity(BUFFER, asking.try_clone()?);
    let questions = Questions::default();
    let mut arrived = Vec::new();
    std::thread::scope(|scope| {
        let questioner = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                asking.write_all(&questions.ask().to_be_bytes())?;
                std::thread::sleep(QUESTIONS);
            }
            // Ends what is read.
            asking.shutdown(Shutdown::Both)
        });
        let mut frame = [0; FRAME];
        let (mut bytes, mut noted) = (0, Instant::now());
        while stream.read_exact(&mut frame).is_ok() {
            bytes += FRAME as u64;
            if noted.elapsed() >= NOTES {
                noted = Instant::now();
                arrived.push((noted, bytes));
            }
            if let Head::Number(number) = head(&frame) {
                questions.answer(number);
            }
        }
        // The end is wanted, or the peer's; what arrived is known.
        let _ = questioner.join();
    });
    finished(arrived, questions, stop)
}

/// Fills the line towards the peer with one connection until `stop` is set.
pub(super) fn upload(to: SocketAddr, stop: &AtomicBool) -> io::Result<Carried> {
    let mut stream = connect(to, Role::Upload)?;
    let mut answers = stream.try_clone()?;
    let questions = Questions::default();
    let mut arrived = Vec::new();
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut next = Instant::now();
            while !stop.load(Ordering::Relaxed) {
                let mut frame = [0; FRAME];
                if Instant::now() >= next {
                    next = Instant::now() + QUESTIONS;
                    frame[..HEAD].copy_from_slice(&Head::Number(questions.ask()).bytes());
                }
                stream.write_all(&frame)?;
            }
            stream.shutdown(Shutdown::Both)
        });
        let mut answer = [0; HEAD];
        while answers.read_exact(&mut answer).is_ok() {
            match Head::read(answer) {
                Head::Number(number) => questions.answer(number),
                Head::Arrived(bytes) => arrived.push((Instant::now(), bytes)),
                Head::Data => {}
            }
        }
        let _ = answers.shutdown(Shutdown::Both);
        let _ = sender.join();
    });
    finished(arrived, questions, stop)
}

fn head(frame: &[u8; FRAME]) -> Head {
    let mut head = [0; HEAD];
    head.copy_from_slice(&frame[..HEAD]);
    Head::read(head)
}

/// What a connection carried; an error if it ended before it was to.
fn finished(arrived: Vec<(Instant, u64)>, questions: Questions, stop: &AtomicBool) -> io::Result<Carried> {
    if !stop.load(Ordering::Relaxed) {
        let why = "the peer ended a connection, or nothing moved on it for ten seconds";
        return Err(io::Error::new(io::ErrorKind::ConnectionReset, why));
    }
    Ok(Carried {
        arrived,
        trips: questions.0.into_inner().unwrap_or_else(PoisonError::into_inner),
    })
}
