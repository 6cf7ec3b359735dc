//! Sends datagrams at set times: evenly, or in bursts.
//!
//! The times are absolute, counted from the beginning, so that being late once does not slow the
//! stream: a sender that was held up sends what is due at once, and says how late it was.

use crate::error::{Doing, Error, Result};
use crate::sys::process::wake_sharply;
use crate::traffic::datagram::{Head, LEAST_PAYLOAD};
use crate::traffic::sample::Sample;
use crate::traffic::tcp::is_timeout;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// How long a send may block, and how long the sender sleeps at most before it looks whether it is
/// to stop.
const GLANCE: Duration = Duration::from_millis(50);

/// The end of a stream is said this often, since datagrams are lost.
const ENDINGS: usize = 3;

/// When which datagrams leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TrafficShape {
    /// Bytes of payload in each, at least [`LEAST_PAYLOAD`].
    pub payload: usize,
    /// From the beginning of one datagram to the next in its burst.
    pub interval: Duration,
    /// Datagrams in a burst, at least 1.
    pub burst: u32,
    /// From the beginning of one burst to the next.
    pub period: Duration,
    /// Datagrams in all.
    pub count: u64,
}

impl TrafficShape {
    /// Datagrams of this payload, one every `interval`.
    pub const fn even(payload: usize, interval: Duration, count: u64) -> Self {
        Self {
            payload,
            interval,
            burst: 1,
            period: interval,
            count,
        }
    }

    /// So many datagrams of this payload a second, for so long.
    pub fn per_second(rate: u32, payload: usize, duration: Duration) -> Self {
        let interval = Duration::from_secs(1) / rate.max(1);
        let count = duration.as_nanos() / interval.as_nanos().max(1);
        Self::even(payload, interval, u64::try_from(count).unwrap_or(u64::MAX))
    }

    /// When the datagram of this number is to leave, since the beginning.
    pub fn due(&self, number: u64) -> Duration {
        let burst = u64::from(self.burst.max(1));
        let nanos = |each: Duration, times: u64| each.as_nanos() * u128::from(times);
        let nanos = nanos(self.period, number / burst) + nanos(self.interval, number % burst);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// What a sender did.
#[derive(Clone, Debug)]
pub struct SendReport {
    /// Datagrams handed to the kernel, or that the kernel refused for want of room.
    pub datagrams: u64,
    /// Of these, what the kernel refused: its buffer was full, or nobody listens.
    pub refused: u64,
    /// How late each left, in nanoseconds.
    pub late: Sample,
    /// From the first to the last.
    pub took: Duration,
}

/// A socket to this address from this one, or from any.
///
/// # Errors
///
/// Returns an error if the socket cannot be bound to `from` or connected to `to`.
pub fn socket(to: SocketAddr, from: Option<SocketAddr>) -> Result<UdpSocket> {
    let any = match to {
        SocketAddr::V4(_) => (std::net::Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let from = from.unwrap_or(any);
    let socket = UdpSocket::bind(from).doing(|| format!("bind to {from}"))?;
    let connect = |socket: UdpSocket| {
        socket.connect(to)?;
        // Where nobody takes frames off the interface, the socket's buffer stays full.
        socket.set_write_timeout(Some(GLANCE))?;
        Ok(socket)
    };
    connect(socket).doing(|| format!("send to {to}"))
}

/// Sends the stream until its end or until `stop` says so, then says its end. `clock` gives the
/// time that the receiver compares with its own, in nanoseconds.
///
/// # Errors
///
/// Returns an error if sending fails for another reason than a full buffer or an unreachable
/// receiver, which only count as refused.
pub fn send(
    socket: &UdpSocket,
    stream: u64,
    shape: &TrafficShape,
    clock: impl Fn() -> u64,
    stop: impl Fn() -> bool,
) -> io::Result<SendReport> {
    wake_sharply();
    let mut payload = vec![0; shape.payload.max(LEAST_PAYLOAD)];
    let mut sent = SendReport {
        datagrams: 0,
        refused: 0,
        late: Sample::new(stream),
        took: Duration::ZERO,
    };
    let begin = Instant::now();
    while sent.datagrams < shape.count {
        let due = shape.due(sent.datagrams);
        if !sleep_until(begin, due, &stop) {
            break;
        }
        let late = begin.elapsed().saturating_sub(due);
        sent.late.take(late.as_nanos() as i64);
        let head = Head {
            stream,
            number: sent.datagrams,
            sent: clock(),
            end: false,
        };
        head.write(&mut payload);
        sent.refused += u64::from(!offer(socket, &payload)?);
        sent.datagrams += 1;
        sent.took = begin.elapsed();
    }
    say_the_end(socket, stream, sent.datagrams, &clock)?;
    Ok(sent)
}

/// Sleeps; whether the stream goes on.
fn sleep_until(begin: Instant, due: Duration, stop: &impl Fn() -> bool) -> bool {
    loop {
        if stop() {
            return false;
        }
        let left = due.saturating_sub(begin.elapsed());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(GLANCE));
    }
}

fn say_the_end(socket: &UdpSocket, stream: u64, count: u64, clock: &impl Fn() -> u64) -> io::Result<()> {
    let mut payload = [0; LEAST_PAYLOAD];
    for _ in 0..ENDINGS {
        std::thread::sleep(GLANCE);
        let head = Head {
            stream,
            number: count,
            sent: clock(),
            end: true,
        };
        head.write(&mut payload);
        offer(socket, &payload)?;
    }
    Ok(())
}

/// Hands a datagram to the kernel; whether it took it. A full buffer loses it as a network would; a
/// port that nobody listens on any more, too.
fn offer(socket: &UdpSocket, payload: &[u8]) -> io::Result<bool> {
    const PASSING: [i32; 5] = [
        libc::ENOBUFS,
        libc::ECONNREFUSED,
        libc::EHOSTUNREACH,
        libc::ENETUNREACH,
        libc::ENETDOWN,
    ];
    let passing =
        |e: &io::Error| e.raw_os_error().is_some_and(|n| PASSING.contains(&n)) || is_timeout(e.kind());
    match socket.send(payload) {
        Ok(_) => Ok(true),
        Err(e) if passing(&e) => Ok(false),
        Err(e) => Err(e),
    }
}

impl SendReport {
    /// The error of a stream of which nothing could be sent: nobody listens, or there is no way.
    ///
    /// # Errors
    ///
    /// Returns an error if there were datagrams and every one of them was refused.
    pub fn check(&self, to: SocketAddr) -> Result<()> {
        if self.datagrams > 0 && self.refused == self.datagrams {
            return Err(Error::other(
                format!("send to {to}"),
                "every datagram was refused: no route, or nobody listens there",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_begin_at_their_period_and_datagrams_at_their_interval() {
        let shape = TrafficShape {
            payload: 100,
            interval: Duration::from_micros(180),
            burst: 8,
            period: Duration::from_millis(48),
            count: 100,
        };
        let due = |n| shape.due(n).as_micros();
        assert_eq!(
            [0, 1, 7, 8, 9, 16].map(due),
            [0, 180, 1260, 48_000, 48_180, 96_000]
        );
    }

    #[test]
    fn an_even_stream_keeps_its_rate_for_years() {
        let shape = TrafficShape::even(1468, Duration::from_micros(309), u64::MAX);
        assert_eq!(shape.due(1 << 40).as_nanos(), 309_000 << 40);
    }
}
