//! Downloads over one link between two hosts of a lab, by the kernels' TCP, with a law at the
//! receiving host. The law rewrites the windows of outgoing ACKs (`host::rewrite`, which loads BPF
//! programs).
//!
//! ```text
//!  server ═══ the link: rate, delay, buffer ═══ home: the law, and its actuator
//! ```

use crate::Error;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use host::law::{INTERVAL, Law};
use host::rewrite::{InterfaceRewriter, WindowRewriter};
use host::{Actuator, Bottleneck, LawInput, LinkCounters, Member, MemberId};
use lab::traffic::tcp::{Bulk, BulkRun, Connects};
use lab::{EmulatedLink, Host, Lab};
use netio::bpf::windows::Side;
use netio::clock;
use std::net::{Ipv4Addr, SocketAddr};

pub(super) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
/// A member's downloads come from this port plus its number; other traffic comes from the port
/// itself.
const MEMBERS: u16 = 5_000;
const OTHERS: u16 = 7_000;

/// The two hosts and the link between them.
#[derive(Debug)]
pub struct Bed {
    _lab: Lab,
    pub(super) server: Host,
    pub(super) home: Host,
    /// The host that clamps windows: home, or its router.
    rewriter_host: Host,
}

impl Bed {
    /// A link of this rate, with half of the round-trip time in each direction and this buffer
    /// towards home.
    ///
    /// # Errors
    ///
    /// Returns an error if the lab cannot be made.
    pub fn new(rate: Bandwidth, round_trip: Duration, buffer: Bytes) -> Result<Self, Error> {
        let made = || -> lab::Result<Self> {
            let mut lab = Lab::new();
            let (server, home) = (lab.host("server")?, lab.host("home")?);
            let link = EmulatedLink::new(rate)
                .delay(Duration::from_nanos(round_trip.nanos() / 2))
                .buffer(buffer);
            lab.link((&server, "eth0"), (&home, "eth0"), link.clone(), link)?;
            for (host, address) in [(&server, "10.9.0.1/24"), (&home, "10.9.0.2/24")] {
                host.address(
                    "eth0",
                    address.parse().map_err(|e| lab::Error::other("an address", e))?,
                )?;
            }
            Ok(Self {
                _lab: lab,
                rewriter_host: home.clone(),
                server,
                home,
            })
        };
        made().map_err(Error::from)
    }

    /// Switches window scaling off, so windows can be set to the byte, up to 64 KB.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel's setting cannot be changed.
    pub fn without_scaling(self) -> Result<Self, Error> {
        self.home.set("net/ipv4/tcp_window_scaling", "0")?;
        Ok(self)
    }
}

/// A download.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Download {
    /// The member; `None`: other traffic.
    pub member: Option<u32>,
    /// The beginning, in seconds.
    pub from: f64,
    /// The end, in seconds.
    pub until: f64,
}

/// The control of windows during a run.
pub struct WindowRule {
    /// The law; `None` leaves windows alone.
    pub law: Option<Box<dyn Law + Send>>,
    /// The members.
    pub members: Vec<Member>,
    /// The law's description of the link.
    pub bottleneck: Bottleneck,
    /// The senders' congestion control.
    pub congestion: &'static str,
}

/// Each download's bytes of payload at each sampling time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DownloadBytes {
    times: Vec<f64>,
    bytes: Vec<Vec<u64>>,
}

impl DownloadBytes {
    /// A download's mean rate between two times, in Mbit/s.
    pub fn rate(&self, download: usize, from: f64, to: f64) -> f64 {
        let at = |time: f64| {
            let at = self.times.partition_point(|t| *t < time);
            at.min(self.times.len().saturating_sub(1))
        };
        let (first, last) = (at(from), at(to));
        let (Some(a), Some(b)) = (self.times.get(first), self.times.get(last)) else {
            return 0.0;
        };
        let bytes = self.bytes[last][download] - self.bytes[first][download];
        bytes as f64 * 8e-6 / (b - a).max(1e-3)
    }

    /// The total rate of these downloads.
    pub fn rates(&self, downloads: std::ops::Range<usize>, from: f64, to: f64) -> f64 {
        downloads.map(|download| self.rate(download, from, to)).sum()
    }

    /// The last sampling time before a download's last byte.
    pub fn ended(&self, download: usize) -> f64 {
        let all = self.bytes.last().map_or(0, |bytes| bytes[download]);
        let whole = self.bytes.partition_point(|bytes| bytes[download] < all);
        self.times.get(whole.saturating_sub(1)).copied().unwrap_or(0.0)
    }

    /// How long after `from` these downloads first have this rate for half a second, in seconds;
    /// `None` if not before `until`.
    pub fn reached(
        &self,
        downloads: std::ops::Range<usize>,
        rate: f64,
        from: f64,
        until: f64,
    ) -> Option<f64> {
        let sustained = |time: &&f64| **time >= from && **time + 0.5 <= until;
        let found = self
            .times
            .iter()
            .filter(sustained)
            .find(|time| self.rates(downloads.clone(), **time, **time + 0.5) >= rate);
        found.map(|time| time - from)
    }

    /// The total rate over time for charts: the middle of each span, and bit/s.
    pub fn curve(&self, downloads: std::ops::Range<usize>, span: f64) -> Vec<(f64, f64)> {
        let end = self.times.last().copied().unwrap_or(0.0);
        let spans = (0..(end / span) as usize).map(|n| n as f64 * span);
        spans
            .map(|from| {
                (
                    from + span / 2.0,
                    self.rates(downloads.clone(), from, from + span) * 1e6,
                )
            })
            .collect()
    }
}

/// Runs these downloads under a rule for this many seconds.
///
/// # Errors
///
/// Returns an error if a program fails or BPF programs cannot be loaded.
pub fn run(
    bed: &Bed,
    downloads: &[Download],
    mut rule: WindowRule,
    seconds: f64,
) -> Result<DownloadBytes, Error> {
    let measure = || -> Result<DownloadBytes, Error> {
        let mut actuator = match rule.law {
            Some(_) => Some(WindowRewriter::at(InterfaceRewriter::new(
                "eth0",
                Side::Leaving,
                Box::new(member_of),
            )?)),
            None => None,
        };
        let mut runs: Vec<Option<BulkRun>> = downloads.iter().map(|_| None).collect();
        let mut counted = DownloadBytes::default();
        let begin = clock::now();
        loop {
            let now = clock::now();
            let time = now.since(begin).as_secs_f64();
            for (download, run) in downloads.iter().zip(&mut runs) {
                if run.is_none() && time >= download.from {
                    *run = Some(start(bed, download, &rule)?);
                }
                if let Some(run) = run.as_ref().filter(|_| time >= download.until) {
                    run.stop();
                }
            }
            counted.times.push(time);
            let received = |run: &Option<BulkRun>| run.as_ref().map_or(0, BulkRun::received);
            counted.bytes.push(runs.iter().map(received).collect());
            let mut interval = INTERVAL;
            if let (Some(actuator), Some(law)) = (&mut actuator, &mut rule.law) {
                let flows = actuator.samples(now)?;
                let (link, now) = clock::timed(carried);
                let orders = law.tick(&LawInput {
                    now,
                    link: link?,
                    bottleneck: rule.bottleneck,
                    members: &rule.members,
                    flows: &flows,
                });
                actuator.apply(&orders)?;
                interval = law.interval();
            }
            if time >= seconds {
                return Ok(counted);
            }
            wait(now + interval);
        }
    };
    bed.rewriter_host.call(measure)?
}

fn wait(until: Instant) {
    let left = until.since(clock::now());
    std::thread::sleep(std::time::Duration::from_nanos(left.nanos()));
}

/// The member of a download, by its port.
fn member_of(ends: &netio::tcp::Ends) -> Option<MemberId> {
    let port = ends.there.port();
    (MEMBERS..OTHERS)
        .contains(&port)
        .then(|| MemberId(u32::from((port - MEMBERS) / 100)))
}

fn start(bed: &Bed, download: &Download, rule: &WindowRule) -> Result<BulkRun, Error> {
    let ports = match download.member {
        Some(member) => MEMBERS + 100 * u16::try_from(member).unwrap_or(0),
        None => OTHERS,
    };
    let length = std::time::Duration::from_secs_f64(download.until - download.from);
    let mut last = None;
    // Each download has its own listening port.
    for port in ports..ports + 100 {
        let bulk = Bulk {
            who: Connects::Receiver,
            congestion: rule.congestion.into(),
            ..Bulk::new(SocketAddr::from((SERVER, port)), length)
        };
        match bulk.start(&bed.server, &bed.home) {
            Ok(run) => return Ok(run),
            Err(e) => last = Some(e),
        }
    }
    Err(last.map_or_else(|| Error::new("no port is free"), Error::from))
}

/// The counters of `eth0` of this thread's network namespace.
pub(super) fn carried() -> Result<LinkCounters, Error> {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev")?;
    let line = text.lines().find_map(|line| line.trim().strip_prefix("eth0:"));
    let counters: Vec<u64> = line
        .unwrap_or_default()
        .split_ascii_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let counter = |at: usize| Bytes::new(counters.get(at).copied().unwrap_or(0));
    Ok(LinkCounters {
        received: counter(0),
        sent: counter(8),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::law::Scavenger;
    use host::{DataDirection, FlowLimit, LimitOrder, LimitReason};

    #[test]
    fn rates_are_of_the_given_span() {
        let counted = DownloadBytes {
            times: (0..=40).map(|n| f64::from(n) * 0.1).collect(),
            bytes: (0..=40_u64)
                .map(|n| vec![n * 125_000, n.saturating_sub(10) * 12_500])
                .collect(),
        };
        assert!((counted.rate(0, 1.0, 2.0) - 10.0).abs() < 1e-9);
        assert!((counted.rates(0..2, 2.0, 4.0) - 11.0).abs() < 1e-9);
        let reached = counted.reached(1..2, 0.99, 0.0, 4.0);
        assert!(
            reached.is_some_and(|after| (0.9..1.1).contains(&after)),
            "{reached:?}"
        );
        assert_eq!(counted.reached(1..2, 2.0, 0.0, 4.0), None);
    }

    #[test]
    fn a_download_ends_with_its_last_byte() {
        let counted = DownloadBytes {
            times: (0..=4).map(f64::from).collect(),
            bytes: [[0, 0], [5, 1], [9, 2], [9, 3], [9, 4]].map(Vec::from).to_vec(),
        };
        assert_eq!((counted.ended(0), counted.ended(1)), (1.0, 3.0));
    }

    /// Clamps every window to this many bytes.
    struct Clamp(u64);

    impl Law for Clamp {
        fn tick(&mut self, tick: &LawInput<'_>) -> Vec<LimitOrder> {
            let order = |flow: &host::FlowSample| LimitOrder {
                flow: flow.id,
                direction: DataDirection::Download,
                limit: FlowLimit::Window(Bytes::new(self.0)),
                reason: LimitReason::LinkIsFull,
            };
            tick.flows.iter().map(order).collect()
        }
    }

    /// The same with a router between the link and home, which clamps home's windows.
    fn behind_a_router() -> lab::Result<Bed> {
        let mut lab = Lab::new();
        let (server, router, home) = (lab.host("server")?, lab.host("router")?, lab.host("home")?);
        let link = EmulatedLink::new(Bandwidth::mbit(10))
            .delay(Duration::from_millis(10))
            .buffer(Bytes::new(64_000));
        lab.link((&server, "eth0"), (&router, "eth0"), link.clone(), link)?;
        lab.veth((&router, "eth1"), (&home, "eth0"))?;
        for (host, interface, address) in [
            (&server, "eth0", "10.9.0.1/24"),
            (&router, "eth0", "10.9.0.2/24"),
            (&router, "eth1", "10.9.1.1/24"),
            (&home, "eth0", "10.9.1.2/24"),
        ] {
            host.address(interface, address.parse().expect("an address"))?;
        }
        router.forward()?;
        server.default_route("10.9.0.2".parse().expect("an address"))?;
        home.default_route("10.9.1.1".parse().expect("an address"))?;
        Ok(Bed {
            _lab: lab,
            server,
            home,
            rewriter_host: router,
        })
    }

    #[test]
    fn a_router_clamps_the_windows_of_the_hosts_behind_it() {
        lab::isolated(|| {
            let bed = behind_a_router().expect("a lab");
            match run(&bed, &[LOW], rule(Clamp(6_016)), 3.0) {
                Ok(counted) => {
                    let rate = counted.rate(0, 1.0, 3.0);
                    assert!((0.3..2.6).contains(&rate), "{rate}");
                }
                Err(e) if e.to_string().contains("CAP_BPF") => skips::skipped(e.to_string()),
                Err(e) => panic!("{}", e),
            }
        });
    }

    fn rule(law: impl Law + Send + 'static) -> WindowRule {
        WindowRule {
            law: Some(Box::new(law)),
            members: vec![Member::new(MemberId(0))],
            bottleneck: Bottleneck::Stated(Bandwidth::mbit(10)),
            congestion: "cubic",
        }
    }

    const LOW: Download = Download {
        member: Some(0),
        from: 0.0,
        until: 3.0,
    };

    fn on_a_bed(downloads: &[Download], rule: WindowRule, seconds: f64) -> Option<DownloadBytes> {
        let rate = Bandwidth::mbit(10);
        let bed = Bed::new(rate, Duration::from_millis(20), Bytes::new(64_000)).expect("a lab");
        match run(&bed, downloads, rule, seconds) {
            Ok(counted) => Some(counted),
            // Without root there are namespaces, but no BPF programs.
            Err(e) if e.to_string().contains("CAP_BPF") => {
                skips::skipped(e.to_string());
                None
            }
            Err(e) => panic!("{}", e),
        }
    }

    #[test]
    fn a_rewritten_window_limits_the_kernels_sender() {
        lab::isolated(|| {
            let Some(counted) = on_a_bed(&[LOW], rule(Clamp(6_016)), 3.0) else {
                return;
            };
            // 6016 bytes in 20 ms: at most 2.4 Mbit/s on any machine, but not zero.
            let rate = counted.rate(0, 1.0, 3.0);
            assert!((0.3..2.6).contains(&rate), "{rate}");
        });
    }

    #[test]
    fn the_law_lets_a_new_flow_have_most_of_the_link() {
        lab::isolated(|| {
            let high = Download {
                member: None,
                from: 2.0,
                until: 6.0,
            };
            let low = Download { until: 6.0, ..LOW };
            // Timing must not decide: three tries, and a bound below what a quiet machine measures.
            for last in [false, false, true] {
                let law = Scavenger::new(DataDirection::Download);
                let Some(counted) = on_a_bed(&[low, high], rule(law), 6.0) else {
                    return;
                };
                let (lone, high) = (counted.rate(0, 1.0, 2.0), counted.rate(1, 3.0, 6.0));
                if lone > 5.0 && high > 6.0 {
                    return;
                }
                assert!(!last, "alone {lone:.2}, the new flow {high:.2} Mbit/s");
            }
        });
    }
}
