//! Sends datagrams at set times: evenly, or in bursts.
//!
//! Times are relative to the start of the stream, so one delay does not lower the rate: a delayed
//! sender sends what is due at once, and reports its lateness.

use crate::error::{Doing, Error, Result};
use crate::sys::process::minimise_timer_slack;
use crate::traffic::datagram::{Head, LEAST_PAYLOAD};
use crate::traffic::sample::Sample;
use crate::traffic::tcp::is_timeout;
use engine::link::LATENESS;
use engine::units;
use netio::hold_ups::HoldUp;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// How long a send may block, and how long the sender sleeps at most before it checks whether to
/// stop.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// How often the end of a stream is announced, since datagrams may be lost.
const ENDINGS: usize = 3;

/// Sizes and times of the datagrams of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TrafficShape {
    /// Bytes of payload in each, at least [`LEAST_PAYLOAD`].
    pub payload: usize,
    /// From one datagram to the next in its burst.
    pub interval: Duration,
    /// Datagrams in a burst, at least 1.
    pub burst: u32,
    /// From the start of one burst to the next.
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

    /// Datagrams of this payload, `rate` of them per second for this duration.
    pub fn per_second(rate: u32, payload: usize, duration: Duration) -> Self {
        let interval = Duration::from_secs(1) / rate.max(1);
        let count = duration.as_nanos() / interval.as_nanos().max(1);
        Self::even(payload, interval, u64::try_from(count).unwrap_or(u64::MAX))
    }

    /// When the datagram with this number is due, from the start of the stream.
    pub fn due(&self, number: u64) -> Duration {
        let burst = u64::from(self.burst.max(1));
        let nanos = |each: Duration, times: u64| each.as_nanos() * u128::from(times);
        let nanos = nanos(self.period, number / burst) + nanos(self.interval, number % burst);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// The report of a sender.
#[derive(Clone, Debug)]
pub struct SendReport {
    /// Datagrams given to the kernel, including those that it refused.
    pub datagrams: u64,
    /// Datagrams that the kernel refused: its buffer was full, or nobody listens.
    pub refused: u64,
    /// How late each was sent, in nanoseconds.
    pub late: Sample,
    /// When the sender was held up: from when it was to send until it did. What it sends late until
    /// it has caught up is of one.
    pub hold_ups: Vec<HoldUp>,
    /// From the start of the stream to the last datagram.
    pub took: Duration,
}

/// A socket connected to this address, bound to `from` if given.
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
        // If nobody takes frames off the interface, the socket's buffer stays full.
        socket.set_write_timeout(Some(CHECK_INTERVAL))?;
        Ok(socket)
    };
    connect(socket).doing(|| format!("send to {to}"))
}

/// Sends the stream until its end or until `stop` returns true, then announces the end. `clock` is
/// the time that the receiver compares with its own, in nanoseconds; `complete` writes what else a
/// datagram carries.
///
/// # Errors
///
/// Returns an error if sending fails for a reason other than a full buffer or an unreachable
/// receiver, which count as refused.
pub fn send(
    socket: &UdpSocket,
    stream: u64,
    shape: &TrafficShape,
    clock: impl Fn() -> u64,
    complete: impl Fn(&mut [u8]),
    stop: impl Fn() -> bool,
) -> io::Result<SendReport> {
    minimise_timer_slack();
    let mut payload = vec![0; shape.payload.max(LEAST_PAYLOAD)];
    let mut sent = SendReport {
        datagrams: 0,
        refused: 0,
        late: Sample::new(stream),
        hold_ups: Vec::new(),
        took: Duration::ZERO,
    };
    let begin = Instant::now();
    let mut was_late = false;
    while sent.datagrams < shape.count {
        let due = shape.due(sent.datagrams);
        if !sleep_until(begin, due, &stop) {
            break;
        }
        let late = begin.elapsed().saturating_sub(due);
        sent.late.take(late.as_nanos() as i64);
        let held_up = held_up(late);
        if !was_late {
            sent.hold_ups.extend(held_up);
        }
        was_late = held_up.is_some();
        let head = Head {
            stream,
            number: sent.datagrams,
            sent: clock(),
            end: false,
        };
        head.write(&mut payload);
        complete(&mut payload);
        sent.refused += u64::from(!offer(socket, &payload)?);
        sent.datagrams += 1;
        sent.took = begin.elapsed();
    }
    announce_end(socket, stream, sent.datagrams, &clock)?;
    Ok(sent)
}

/// The hold-up that ends now, if this is later than is usual.
fn held_up(late: Duration) -> Option<HoldUp> {
    let late = units::Duration::from_nanos(late.as_nanos() as u64);
    (late > LATENESS).then(|| {
        let until = netio::clock::now();
        HoldUp {
            from: until - late,
            until,
        }
    })
}

/// Sleeps until `due`; false if the sender is to stop.
fn sleep_until(begin: Instant, due: Duration, stop: &impl Fn() -> bool) -> bool {
    loop {
        if stop() {
            return false;
        }
        let left = due.saturating_sub(begin.elapsed());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(CHECK_INTERVAL));
    }
}

fn announce_end(socket: &UdpSocket, stream: u64, count: u64, clock: &impl Fn() -> u64) -> io::Result<()> {
    let mut payload = [0; LEAST_PAYLOAD];
    for _ in 0..ENDINGS {
        std::thread::sleep(CHECK_INTERVAL);
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

/// Gives a datagram to the kernel; returns whether it was accepted. A full buffer or a closed port
/// is no error: the datagram counts as refused.
fn offer(socket: &UdpSocket, payload: &[u8]) -> io::Result<bool> {
    const REFUSALS: [i32; 5] = [
        libc::ENOBUFS,
        libc::ECONNREFUSED,
        libc::EHOSTUNREACH,
        libc::ENETUNREACH,
        libc::ENETDOWN,
    ];
    let refused =
        |e: &io::Error| e.raw_os_error().is_some_and(|n| REFUSALS.contains(&n)) || is_timeout(e.kind());
    match socket.send(payload) {
        Ok(_) => Ok(true),
        Err(e) if refused(&e) => Ok(false),
        Err(e) => Err(e),
    }
}

impl SendReport {
    /// Fails if nothing of the stream could be sent: nobody listens, or there is no route.
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
    fn bursts_start_at_their_period_and_datagrams_at_their_interval() {
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
