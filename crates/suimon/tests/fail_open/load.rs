//! Traffic that goes on while faults are made, and what arrived of it, millisecond by millisecond.
//!
//! One thread sends and receives all of it, so that time in which the machine does not let it run
//! counts for neither: a silence is a number of its turns, each a millisecond after the one before,
//! in which no probe arrived.

use lab::Host;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// From one turn of the sender to the next.
const TURN: Duration = Duration::from_millis(1);
/// What has this port fills a class that may not borrow.
pub const FILLED: u16 = 6_001;
const TCP: u16 = 6_002;
pub const PROBES: u16 = 6_003;
const PROBE: usize = 100;
const FULL: usize = 1_200;
/// A full datagram with the headers of UDP, IP and Ethernet, in bits.
const FRAME: f64 = (FULL + 42) as f64 * 8.0;
/// Full datagrams in a second: 24.8 Mbit/s are offered to a class of [`RATE`].
const OFFERED: u64 = 2_500;
/// So many at once at most, by a sender that was held up.
const BURST: u64 = 50;
/// What TCP writes in a turn: 16 Mbit/s.
const WRITTEN: usize = 2_000;
/// What the filled class has, in Mbit/s.
pub const RATE: f64 = 8.0;
/// Over such a time its rate is taken, three times in succession.
const WINDOW: Duration = Duration::from_millis(100);

/// One turn: when, how many probes arrived, how late the latest was in turns, and what else had
/// arrived by then.
#[derive(Clone, Copy)]
struct Turn {
    at: Instant,
    probes: u64,
    late: u64,
    full: u64,
    tcp: u64,
}

/// A time without a probe.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Silence {
    /// In turns of the sender, each a millisecond at least.
    pub sent: Duration,
    /// By the clock, also while the machine let nobody send.
    pub by_clock: Duration,
}

/// What classes kept over some time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Kept {
    pub silence: Silence,
    /// The filled class's rate, in Mbit/s.
    pub rate: f64,
    /// Of the probes, the part that was lost, and the delay of 99 of 100 turns, in turns.
    pub lost: f64,
    pub late: Duration,
}

/// The traffic.
pub struct Load {
    turns: Arc<Mutex<Vec<Turn>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

struct Ends {
    probes: [UdpSocket; 2],
    full: [UdpSocket; 2],
    tcp: [TcpStream; 2],
}

/// Connected sockets in two hosts that do not block.
fn ends(a: &Host, b: &Host, to: fn(u16) -> SocketAddr) -> Ends {
    let udp = |port| {
        let sender = a.call(|| {
            let socket = UdpSocket::bind(("10.0.0.1", 0)).expect("a socket");
            socket.connect(to(port)).expect("an address");
            socket
        });
        let receiver = b.call(|| UdpSocket::bind(("0.0.0.0", port)).expect("a socket"));
        let sockets = [sender.expect("a host"), receiver.expect("a host")];
        for socket in &sockets {
            socket.set_nonblocking(true).expect("set");
        }
        sockets
    };
    let listener = b.call(|| TcpListener::bind(("0.0.0.0", TCP)).expect("a socket"));
    let sender = a.call(|| TcpStream::connect(to(TCP)).expect("a connection"));
    let receiver = listener.expect("a host").accept().expect("a connection").0;
    let tcp = [sender.expect("a host"), receiver];
    for socket in &tcp {
        socket.set_nonblocking(true).expect("set");
    }
    Ends {
        probes: udp(PROBES),
        full: udp(FILLED),
        tcp,
    }
}

/// How many datagrams of this length have arrived. Others' are not counted.
fn drain(socket: &UdpSocket, length: usize, mut each: impl FnMut(&[u8])) -> u64 {
    let (mut buffer, mut count) = ([0; 2_000], 0);
    loop {
        match socket.recv(&mut buffer) {
            Ok(got) if got == length => {
                each(&buffer[..got]);
                count += 1;
            }
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => return count,
            Err(e) => panic!("receiving: {e}"),
        }
    }
}

impl Ends {
    /// Sends what is due in this turn. What the kernel refuses, as while there is no route, is
    /// lost.
    fn send(&mut self, turn: u64, full: u64) {
        let mut probe = [1; PROBE];
        probe[..8].copy_from_slice(&turn.to_be_bytes());
        let _ = self.probes[0].send(&probe);
        for _ in 0..full.min(BURST) {
            let _ = self.full[0].send(&[2; FULL]);
        }
        let _ = self.tcp[0].write(&[3; WRITTEN]);
    }

    fn read_tcp(&mut self) -> u64 {
        let (mut buffer, mut all) = ([0; 16_384], 0);
        loop {
            match self.tcp[1].read(&mut buffer) {
                Ok(0) => panic!("the connection has ended"),
                Ok(got) => all += got as u64,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return all,
                Err(e) => panic!("the connection: {e}"),
            }
        }
    }

    fn run(mut self, turns: &Mutex<Vec<Turn>>, stop: &AtomicBool) {
        // Where it may: others' work is not to hold it up.
        let _ = rustix::process::nice(-20);
        let begin = Instant::now();
        let (mut due, mut number, mut sent, mut full, mut tcp) = (begin, 0u64, 0, 0, 0);
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let offered = begin.elapsed().as_micros() as u64 * OFFERED / 1_000_000;
            self.send(number, offered - sent);
            sent = offered;
            full += drain(&self.full[1], FULL, |_| {});
            tcp += self.read_tcp();
            let mut late = 0;
            let probes = drain(&self.probes[1], PROBE, |probe| {
                let turn = probe[..8].iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
                late = number.saturating_sub(turn).max(late);
            });
            number += 1;
            let at = Instant::now();
            let turn = Turn {
                at,
                probes,
                late,
                full,
                tcp,
            };
            turns.lock().unwrap_or_else(PoisonError::into_inner).push(turn);
            // Turns that were missed are not caught up.
            due = (due + TURN).max(at);
        }
    }
}

impl Load {
    /// Starts it from `a` to `b`, at these addresses.
    pub fn start(a: &Host, b: &Host, to: fn(u16) -> SocketAddr) -> Self {
        let (turns, stop) = (Arc::default(), Arc::new(AtomicBool::new(false)));
        let (own, stops) = (Arc::clone(&turns), Arc::clone(&stop));
        let ends = ends(a, b, to);
        let thread = std::thread::spawn(move || ends.run(&own, &stops));
        Self {
            turns,
            stop,
            thread: Some(thread),
        }
    }

    /// The turns since then. Those before are forgotten.
    fn since(&self, from: Instant) -> Vec<Turn> {
        let turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns[turns.partition_point(|turn| turn.at < from)..].to_vec()
    }

    /// Forgets what was before now.
    pub fn forget(&self) {
        let thread = self.thread.as_ref();
        assert!(
            thread.is_some_and(|thread| !thread.is_finished()),
            "the load has ended"
        );
        self.turns.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The longest time without a probe that began then or later, or is not over.
    pub fn silence(&self, from: Instant) -> Silence {
        longest_silence(&self.since(from))
    }

    /// The rate in Mbit/s of the class that is filled, over the time before now.
    pub fn rate_of_last(&self, time: Duration) -> f64 {
        rate(&self.since(Instant::now() - time))
    }

    /// What classes have kept since then.
    pub fn kept_since(&self, from: Instant) -> Kept {
        let turns = self.since(from);
        let count = turns.len().max(1);
        let arrived: u64 = turns.iter().map(|turn| turn.probes).sum();
        let mut late: Vec<u64> = turns.iter().map(|turn| turn.late).collect();
        late.sort_unstable();
        let p99 = late.get(count * 99 / 100).copied().unwrap_or(u64::MAX);
        Kept {
            silence: longest_silence(&turns),
            rate: rate(&turns),
            lost: 1.0 - arrived as f64 / count as f64,
            late: TURN * u32::try_from(p99).unwrap_or(u32::MAX),
        }
    }

    /// What TCP has received since then, in bytes.
    pub fn tcp_since(&self, from: Instant) -> u64 {
        let turns = self.since(from);
        let ends = turns.first().zip(turns.last());
        ends.map_or(0, |(first, last)| last.tcp - first.tcp)
    }

    /// How long after `from` the filled class began to have its rate, from below and from above,
    /// for three windows in succession; none if it has not within this time.
    pub fn shaped_since(&self, from: Instant, patience: Duration) -> Option<Duration> {
        while from.elapsed() < patience {
            if let Some(at) = first_shaped(&self.since(from)) {
                return Some(at - from);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn longest_silence(turns: &[Turn]) -> Silence {
    let Some(first) = turns.first() else {
        return Silence::default();
    };
    let (mut longest, mut silent, mut heard) = (Silence::default(), 0, first.at);
    for turn in turns {
        silent += 1;
        let now = Silence {
            sent: TURN * silent,
            by_clock: turn.at - heard,
        };
        longest = longest.max(now);
        if turn.probes > 0 {
            (silent, heard) = (0, turn.at);
        }
    }
    longest
}

/// Of the filled class, over these turns, in Mbit/s.
fn rate(turns: &[Turn]) -> f64 {
    let (Some(first), Some(last)) = (turns.first(), turns.last()) else {
        return 0.0;
    };
    (last.full - first.full) as f64 * FRAME * 1e-6 / (last.at - first.at).as_secs_f64()
}

/// Whether it is what the policy gives: the bounds leave room for four datagrams in a window, and
/// for a packet loop that is held up.
pub fn is_shaped(rate: f64) -> bool {
    (0.85 * RATE..1.1 * RATE).contains(&rate)
}

/// When the first of three windows began that all have the policy's rate.
fn first_shaped(turns: &[Turn]) -> Option<Instant> {
    let after = |from: usize| {
        let until = turns[from].at + WINDOW;
        let to = from + turns[from..].partition_point(|turn| turn.at < until);
        (to < turns.len()).then_some(to)
    };
    let shaped = |from: usize| after(from).filter(|to| is_shaped(rate(&turns[from..=*to])));
    let begins = (0..turns.len()).find(|from| {
        let third = shaped(*from).and_then(shaped).and_then(shaped);
        third.is_some()
    });
    begins.map(|from| turns[from].at)
}

#[test]
fn silences_and_rates_are_told_turn_by_turn() {
    let begin = Instant::now();
    // Of 600 turns the probes of 40 are lost, in two of which the machine stood still for 50 ms;
    // then the class has its 8 Mbit/s, and before that three times as much.
    let mut at = begin;
    let turns: Vec<Turn> = (0..600u64)
        .map(|n| {
            at += TURN * if n == 210 || n == 220 { 50 } else { 1 };
            let held = n.saturating_sub(300) * 8_000 / 9_936;
            Turn {
                at,
                probes: u64::from(!(200..240).contains(&n)),
                full: (n.min(300) * 24_000 / 9_936) + held,
                late: 0,
                tcp: 0,
            }
        })
        .collect();
    let silence = longest_silence(&turns);
    assert_eq!(silence.sent, TURN * 41);
    assert_eq!(silence.by_clock, TURN * (41 + 98));
    let shaped = first_shaped(&turns).expect("in the second half");
    let expected = turns[300].at;
    assert!(shaped + WINDOW / 5 > expected && shaped < expected + WINDOW / 5);
    assert_eq!(first_shaped(&turns[..500]), None);
    assert!(!is_shaped(24.0) && !is_shaped(4.0));
}
