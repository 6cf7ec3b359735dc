//! The peer behind the line.

use super::{FRAME, HEAD, HELLO, Head, LONGEST, MOST_CONNECTIONS, Role, UNSENT};
use crate::error::{Doing, Result};
use crate::sys::socket::set_unsent_limit;
use crate::traffic::tcp::is_timeout;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// How often it is looked whether it shall end.
const CHECK: Duration = Duration::from_millis(50);
/// How often an upload is told how much has arrived.
const TELL: Duration = Duration::from_millis(100);
/// The longest datagram that is answered.
const DATAGRAM: usize = 256;

/// Answers [`LineTest`](super::LineTest)s at one port of TCP and UDP.
#[derive(Debug)]
pub struct Responder {
    listener: TcpListener,
    socket: UdpSocket,
}

/// A connection that is served, until when.
struct Served {
    until: Instant,
    stream: TcpStream,
    thread: std::thread::JoinHandle<()>,
}

impl Responder {
    /// Listens there; port 0 chooses one.
    ///
    /// # Errors
    ///
    /// Returns an error if the port is taken or may not be used.
    pub fn bind(at: SocketAddr) -> Result<Self> {
        let doing = || format!("listen on {at}");
        let listener = TcpListener::bind(at).doing(doing)?;
        let socket = UdpSocket::bind(listener.local_addr().doing(doing)?).doing(doing)?;
        listener.set_nonblocking(true).doing(doing)?;
        socket.set_read_timeout(Some(CHECK)).doing(doing)?;
        Ok(Self { listener, socket })
    }

    /// Where it listens.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until `stop` is set.
    ///
    /// # Errors
    ///
    /// Returns an error if the port cannot be used any more.
    pub fn run(&self, stop: &AtomicBool) -> io::Result<()> {
        std::thread::scope(|scope| {
            let datagrams = scope.spawn(|| self.echo(stop));
            let accepted = self.accept(stop);
            stop.store(true, Ordering::Relaxed);
            let echoed = datagrams
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            accepted.and(echoed)
        })
    }

    fn echo(&self, stop: &AtomicBool) -> io::Result<()> {
        let mut buffer = [0; DATAGRAM + 1];
        while !stop.load(Ordering::Relaxed) {
            match self.socket.recv_from(&mut buffer) {
                Ok((length, from)) if length <= DATAGRAM && buffer[..length].starts_with(&HELLO) => {
                    // An answer that cannot be sent is a lost one.
                    let _ = self.socket.send_to(&buffer[..length], from);
                }
                Ok(_) => {}
                // An earlier answer met a closed port.
                Err(e) if is_timeout(e.kind()) || e.kind() == ErrorKind::ConnectionRefused => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn accept(&self, stop: &AtomicBool) -> io::Result<()> {
        let mut served: Vec<Served> = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            served.retain(|one| !one.thread.is_finished());
            for one in served.iter().filter(|one| one.until <= Instant::now()) {
                let _ = one.stream.shutdown(Shutdown::Both);
            }
            match self.listener.accept() {
                // It is closed at once.
                Ok(_) if served.len() >= MOST_CONNECTIONS => {}
                // One that is gone already, or that no thread can serve, is that one's trouble.
                Ok((stream, _)) => served.extend(serve(stream).ok()),
                Err(e) if e.kind() == ErrorKind::WouldBlock => std::thread::sleep(Duration::from_millis(1)),
                Err(e) if matches!(e.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {}
                Err(e) => return Err(e),
            }
        }
        for one in served {
            let _ = one.stream.shutdown(Shutdown::Both);
            let _ = one.thread.join();
        }
        Ok(())
    }
}

/// Serves a connection in a thread of its own.
fn serve(stream: TcpStream) -> io::Result<Served> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    set_unsent_limit(&stream, UNSENT)?;
    let mut own = stream.try_clone()?;
    // However it ends, there is nobody to tell but the other end.
    let thread = std::thread::Builder::new().name("peer".into()).spawn(move || {
        let _ = converse(&mut own);
        let _ = own.shutdown(Shutdown::Both);
    })?;
    Ok(Served {
        until: Instant::now() + LONGEST,
        stream,
        thread,
    })
}

fn converse(stream: &mut TcpStream) -> io::Result<()> {
    let mut hello = [0; 8];
    stream.read_exact(&mut hello)?;
    match Role::read(hello) {
        Some(Role::Download) => {
            let (ask, asked) = channel();
            let mut questions = stream.try_clone()?;
            std::thread::scope(|scope| {
                scope.spawn(move || listen(&mut questions, &ask));
                let sent = send(stream, &asked);
                // The thread that listens ends with this.
                let _ = stream.shutdown(Shutdown::Both);
                sent
            })
        }
        Some(Role::Upload) => receive(stream),
        Some(Role::Question) => loop {
            let mut question = [0; 8];
            stream.read_exact(&mut question)?;
            stream.write_all(&question)?;
        },
        None => Ok(()),
    }
}

fn listen(stream: &mut TcpStream, ask: &Sender<u64>) {
    let mut number = [0; 8];
    while stream.read_exact(&mut number).is_ok() && ask.send(u64::from_be_bytes(number)).is_ok() {}
}

fn send(stream: &mut TcpStream, asked: &Receiver<u64>) -> io::Result<()> {
    let mut frame = [0; FRAME];
    loop {
        let head = asked.try_recv().map_or(Head::Data, Head::Number);
        frame[..HEAD].copy_from_slice(&head.bytes());
        stream.write_all(&frame)?;
    }
}

fn receive(stream: &mut TcpStream) -> io::Result<()> {
    let mut frame = [0; FRAME];
    let (mut arrived, mut told) = (0, Instant::now());
    loop {
        stream.read_exact(&mut frame)?;
        arrived += FRAME as u64;
        let mut head = [0; HEAD];
        head.copy_from_slice(&frame[..HEAD]);
        if let number @ Head::Number(_) = Head::read(head) {
            stream.write_all(&number.bytes())?;
        }
        if told.elapsed() >= TELL {
            told = Instant::now();
            stream.write_all(&Head::Arrived(arrived).bytes())?;
        }
    }
}
