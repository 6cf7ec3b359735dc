//! The traffic of a case: which frame each flow sends when, computed in advance, so that the
//! kernel and the simulator get the same packets at the same times.

use std::fmt::Write;
use std::time::Duration;

/// How a flow sends.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// A Poisson process with this mean rate.
    Poisson { kbit: u64 },
    /// At constant intervals.
    Constant { kbit: u64 },
    /// Bursts of this many frames at 100 Mbit/s, at this period in milliseconds.
    Burst { frames: u32, period_ms: u64 },
    /// One greedy connection with the congestion control of most hosts: CUBIC.
    Tcp,
}

/// The first destination port; each flow has the next.
pub const PORT: u16 = 9_000;

/// One flow of a case.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    pub name: &'static str,
    pub source: Source,
    /// Bytes of each frame, the Ethernet header included.
    pub frame: u64,
    /// Whether its packets are ECN-capable.
    pub ecn: bool,
    /// The DSCP of its packets.
    pub dscp: u8,
    /// The last byte of the addresses of the hosts that send and receive: 10.0.1.x and 10.0.2.x.
    pub hosts: (u8, u8),
    /// Our class, and the `flowid` of the same class of the kernel's.
    pub class: Option<(&'static str, &'static str)>,
    /// The seconds in which it starts and stops; `(0, 0)` is always.
    pub active: (u64, u64),
}

/// The Ethernet, IP and UDP headers.
pub const HEADERS: u64 = 14 + 20 + 8;

impl Flow {
    /// A flow without a class, not ECN-capable, that sends all the time.
    pub const fn new(name: &'static str, source: Source, frame: u64) -> Self {
        Self {
            name,
            source,
            frame,
            ecn: false,
            dscp: 0,
            hosts: (1, 1),
            class: None,
            active: (0, 0),
        }
    }

    /// The same in our class, and in the kernel's.
    pub const fn in_class(mut self, ours: &'static str, theirs: &'static str) -> Self {
        self.class = Some((ours, theirs));
        self
    }

    /// ECN-capable.
    pub const fn with_ecn(mut self) -> Self {
        self.ecn = true;
        self
    }

    /// With this DSCP.
    pub const fn with_dscp(mut self, dscp: u8) -> Self {
        self.dscp = dscp;
        self
    }

    /// Between these hosts.
    pub const fn between(mut self, from: u8, to: u8) -> Self {
        self.hosts = (from, to);
        self
    }

    /// The addresses of the hosts that send and receive.
    pub fn addresses(&self) -> (String, String) {
        (
            format!("10.0.1.{}", self.hosts.0),
            format!("10.0.2.{}", self.hosts.1),
        )
    }

    /// Sending from this second until that one.
    pub const fn during(mut self, from: u64, to: u64) -> Self {
        self.active = (from, to);
        self
    }

    /// When it starts and stops, in a case of this duration.
    pub fn span(&self, seconds: u64) -> (Duration, Duration) {
        let (from, to) = self.active;
        let to = if to == 0 { seconds } else { to };
        (Duration::from_secs(from), Duration::from_secs(to))
    }

    /// The sending times of its frames, from the beginning; none for TCP.
    pub fn times(&self, number: usize, seconds: u64) -> Vec<Duration> {
        let (from, to) = self.span(seconds);
        let mut random = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(number as u64 + 1);
        let mut times = Vec::new();
        let mut at = from;
        while at < to {
            let copies = match self.source {
                Source::Burst { frames, .. } => frames,
                Source::Tcp => return times,
                Source::Poisson { .. } | Source::Constant { .. } => 1,
            };
            let apart = Duration::from_nanos(self.frame * 80);
            times.extend((0..copies).map(|copy| at + apart * copy));
            at += match self.source {
                Source::Burst { period_ms, .. } => Duration::from_millis(period_ms),
                Source::Poisson { kbit } => self.gap(kbit).mul_f64(exponential(&mut random)),
                Source::Constant { kbit } => self.gap(kbit),
                Source::Tcp => return times,
            };
        }
        times
    }

    fn gap(&self, kbit: u64) -> Duration {
        Duration::from_nanos(self.frame * 8 * 1_000_000 / kbit.max(1))
    }

    /// The file of a `trace` flow.
    pub fn trace(&self, number: usize, seconds: u64) -> String {
        self.traced(&self.times(number, seconds))
    }

    /// The same of frames that were sent at these times.
    pub fn traced(&self, times: &[Duration]) -> String {
        let mut lines = String::new();
        for at in times {
            let _ = writeln!(lines, "{}.{:09} {}", at.as_secs(), at.subsec_nanos(), self.frame);
        }
        lines
    }
}

/// Exponentially distributed with mean 1, from an xorshift generator.
fn exponential(state: &mut u64) -> f64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    let uniform = ((*state >> 11) as f64 + 1.0) / (1_u64 << 53) as f64;
    -uniform.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_sends_its_mean_rate_and_is_reproducible() {
        let flow = Flow::new("x", Source::Poisson { kbit: 1_000 }, 1_250).during(2, 202);
        let times = flow.times(3, 300);
        assert!((19_000..21_000).contains(&times.len()), "{}", times.len());
        assert!(times.iter().all(|at| (2..202).contains(&at.as_secs())));
        assert_eq!(times, flow.times(3, 300));
    }

    #[test]
    fn a_burst_is_sent_at_link_rate_and_repeated_after_its_period() {
        let burst = Source::Burst {
            frames: 3,
            period_ms: 400,
        };
        let lines = Flow::new("x", burst, 100).trace(0, 1);
        assert_eq!(lines.lines().count(), 9);
        assert_eq!(lines.lines().nth(2), Some("0.000016000 100"));
        assert_eq!(lines.lines().nth(3), Some("0.400000000 100"));
    }
}
