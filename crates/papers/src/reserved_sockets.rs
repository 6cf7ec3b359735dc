//! K1 between sockets: four hosts and two routers of a lab, each with the kernel's own forwarding,
//! and `suimon` on those that speak RSVP. `suimon reserve` makes the reservation, and RSVP installs
//! it hop by hop.
//!
//! ```text
//!   a (reserve) ─┐                                    ┌─ b (accept)
//!                ├─ r1 (run) ── 100 Mbit/s ── r2 (run) ─┤
//!   c ───────────┘                                    └─ d
//! ```

use super::punctual::{Attempt, most_punctual};
use super::reserved_streams::{HEADERS, LINK, LinkService, MOST, ON_WIRE, PORT, PacketStream};
use super::{Options, Progress, Row, RowValue};
use crate::Error;
use control::protocol::{Reply, Request};
use control::socket::Client;
use engine::units::Bandwidth;
use lab::traffic::generator::TrafficShape;
use lab::traffic::udp::{self, StreamRun};
use lab::{Address, Host, Lab, Running};
use plot::Series;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How it is measured.
pub const REMARK: &str = "lab: the six hosts and routers as network namespaces, with real sockets. The \
    kernels of R1 and R2 forward. Packets from R1 to R2 pass `suimon run` with 100 Mbit/s, preamble, FCS \
    and gap counted; so do packets from R2 to B. B runs `suimon accept`, A runs `suimon reserve` with 40 \
    Mbit/s of the wire; RSVP creates the classes. 2 s of each load (quick: 1 s, and four loads). A load whose \
    senders were late by more than 5 ms is sent again, at most twice: of three, that counts whose senders were most punctual.";

const SETTLE: Duration = Duration::from_millis(300);
/// The timeout for a program or a reservation.
const PATIENCE: Duration = Duration::from_secs(10);
/// Programs that are left over end by themselves.
const LIMIT: Duration = Duration::from_secs(600);
/// The reservation, in per cent of the wire.
const RESERVED: u64 = 40;
/// The machine's cost of a packet does not depend on its length, so short packets are sent over a
/// link of a tenth of the rate.
const SLOWER: u64 = 10;
/// The headers that a reservation does not count.
const ETHERNET: u64 = netio::port::ETHERNET as u64;
/// The disturbers' destination port.
const DISTURBED: u16 = 6_001;

/// One discipline's curve: delivered data of the measured flow with each number of disturbers, in
/// Mbit/s.
#[derive(Clone, Debug)]
pub struct Curve {
    pub discipline: LinkService,
    pub reserved: bool,
    pub points: Vec<(u64, f64)>,
}

/// The result of the lab.
#[derive(Clone, Debug)]
pub struct LabCurves {
    pub curves: Vec<Curve>,
    /// Short packets reserved among long ones.
    pub unequal: Vec<(LinkService, f64)>,
}

/// The streams of the paper's packet length, by its first reading.
const MEASURED: PacketStream = PacketStream::new(1_440, 309);
const DISTURBER: PacketStream = PacketStream::new(1_440, 1_174);

/// Packets of 200 bytes of data: a tenth of 37.3 Mbit/s.
fn short() -> PacketStream {
    slower(&PacketStream::of_rate(200, 373))
}

fn slower(stream: &PacketStream) -> PacketStream {
    PacketStream {
        interval: stream.interval.times(SLOWER),
        ..*stream
    }
}

const DISCIPLINES: [LinkService; 2] = [LinkService::Wrr, LinkService::Drr];

/// Measures the curves; `None` where labs cannot be made.
///
/// # Errors
///
/// Returns an error if the lab or a program fails.
pub fn measure(options: &Options, progress: &mut dyn Progress) -> Result<Option<LabCurves>, Error> {
    if options.lab.is_err() {
        return Ok(None);
    }
    let (loads, span): (&[u64], _) = match options.quick {
        true => (&[0, 3, 6, MOST], Duration::from_secs(1)),
        false => (&[0, 1, 2, 3, 4, 5, 6, 7, 8, MOST], Duration::from_secs(2)),
    };
    let mut lab_curves = LabCurves {
        curves: Vec::new(),
        unequal: Vec::new(),
    };
    for (index, discipline) in DISCIPLINES.into_iter().enumerate() {
        progress.show(
            0.5 + 0.25 * index as f64,
            &format!("sockets in the lab, {}", discipline.name()),
        );
        let rig = Rig::start(discipline, LINK)?;
        for reserved in [false, true] {
            let _held = reserved.then(|| rig.reserve(&MEASURED)).transpose()?;
            let point = |&disturbers| Ok((disturbers, rig.load(&MEASURED, &DISTURBER, disturbers, span)?));
            let points = loads.iter().map(point).collect::<Result<_, Error>>()?;
            lab_curves.curves.push(Curve {
                discipline,
                reserved,
                points,
            });
        }
        drop(rig);
        let rig = Rig::start(discipline, slow())?;
        let _held = rig.reserve(&short())?;
        let delivered = rig.load(&short(), &slower(&DISTURBER), MOST, span)?;
        lab_curves.unequal.push((discipline, delivered));
    }
    Ok(Some(lab_curves))
}

/// The claims on the lab, with its results.
pub fn rows(lab_curves: Option<&LabCurves>, options: &Options) -> Vec<Row> {
    match (lab_curves, &options.lab) {
        (Some(lab_curves), _) => {
            let unequal = lab_curves
                .unequal
                .iter()
                .map(|&(discipline, delivered)| mixed(discipline, delivered));
            lab_curves.curves.iter().map(Curve::row).chain(unequal).collect()
        }
        (None, why) => {
            let why = why.as_ref().err().map_or("", String::as_str);
            let row = |discipline: LinkService| {
                let what = format!("lab: {}, reserved: {LEAST}", discipline.name());
                Row::unmeasured(what, RowValue::from("keeps its rate"), "%", why)
            };
            DISCIPLINES.map(row).into()
        }
    }
}

const LEAST: &str = "lowest part of its offered rate at any load";

impl Curve {
    /// The chart's line over the disturbers' load.
    pub fn series(&self) -> Series {
        let name = match self.reserved {
            true => format!("{}, reserved", self.discipline.name()),
            false => format!("{}, not reserved", self.discipline.name()),
        };
        let points = self.points.iter();
        let points =
            points.map(|&(disturbers, delivered)| (DISTURBER.on_ethernet(disturbers), delivered * 1e6));
        Series::marked(&name, points.collect())
    }

    fn row(&self) -> Row {
        let offer = MEASURED.offer();
        let of = |what: &str| format!("lab: {}, {what}", self.discipline.name());
        if !self.reserved {
            let last = self.points.last().map_or(0.0, |point| point.1);
            let in_proportion = MEASURED.in_proportion(&DISTURBER, MOST);
            return Row::rounded(
                of("not reserved: with nine disturbers"),
                "falls with the load",
                last,
                "Mbit/s",
                (0.85 * in_proportion..0.85 * offer).contains(&last),
                format!(
                    "Required: less than 85 % of its offered rate, and at least 85 % of the {in_proportion:.1} Mbit/s that it has if \
                     all lose in proportion. It shares one class with the disturbers."
                ),
            );
        }
        let least = self
            .points
            .iter()
            .map(|point| point.1 / offer * 100.0)
            .fold(100.0, f64::min);
        Row::rounded(
            of(&format!("reserved: {LEAST}")),
            "keeps its rate",
            least,
            "%",
            least >= 95.0,
            "Required: at least 95 % of its offered rate with any number of disturbers from none to nine.",
        )
    }
}

/// Short packets reserved among long ones.
fn mixed(discipline: LinkService, delivered: f64) -> Row {
    let reserved = reserved_rate(&short());
    let by_packets = short().by_packets(&DISTURBER) / SLOWER as f64;
    let (holds, note) = match discipline {
        LinkService::Drr => (
            (delivered / reserved - 1.0).abs() < 0.03,
            "Required: the data rate of 4 of the wire's 10 Mbit/s, within 3 %.",
        ),
        _ => (
            (0.85 * by_packets..0.6 * reserved).contains(&delivered),
            "Required: at least 85 % of 4 packets of 10, and less than 60 % of the data rate of 4 of the wire's 10 \
             Mbit/s, since shares go by packets.",
        ),
    };
    let what = format!(
        "lab: unequal packets, {}: 200-byte data reserved, all rates a tenth",
        discipline.name()
    );
    Row::rounded(what, RowValue::Nothing, delivered, "Mbit/s", holds, note)
}

fn slow() -> Bandwidth {
    Bandwidth::bits_per_sec(LINK.bits() / SLOWER)
}

/// The reserved rate on the slow link, in Mbit/s of data.
fn reserved_rate(stream: &PacketStream) -> f64 {
    (slow().bits() * RESERVED) as f64 / 1e8 * stream.offer() / stream.on_wire()
}

/// The six hosts and routers, all running.
struct Rig {
    hosts: [Host; 6],
    link: Bandwidth,
    running: Vec<Running>,
    files: PathBuf,
    _lab: Lab,
}

impl Drop for Rig {
    fn drop(&mut self) {
        // Programs must end before the directory of their sockets goes.
        self.running.clear();
        let _ = fs::remove_dir_all(&self.files);
    }
}

const NAMES: [&str; 6] = ["a", "b", "c", "d", "r1", "r2"];
/// The networks: their two ends, and the third octet of the address.
const LINKS: [([usize; 2], [&str; 2], u8); 5] = [
    ([0, 4], ["eth0", "lan0"], 1),
    ([1, 5], ["eth0", "lan0"], 2),
    ([2, 4], ["eth0", "lan1"], 3),
    ([3, 5], ["eth0", "lan1"], 4),
    ([4, 5], ["wan0", "wan0"], 5),
];
const TO_B: Ipv4Addr = Ipv4Addr::new(10, 10, 2, 1);
const TO_D: Ipv4Addr = Ipv4Addr::new(10, 10, 4, 1);

fn policy(out: &str, discipline: LinkService, link: Bandwidth) -> String {
    let kind = match discipline {
        LinkService::Drr => "drr",
        _ => "wrr",
    };
    format!(
        "version = 1\n[port]\negress = \"{out}\"\n[rsvp]\ninterfaces = [\"wan0\", \"lan0\"]\n\
         [interface.{out}]\nbandwidth = \"{} Mbit/s\"\noverhead = \"{ON_WIRE} B\"\nmax_frame = \"1514 B\"\n\
         discipline = \"{kind}\"\nreserve = {{ share = \"50 %\" }}\n\
         [[interface.{out}.class]]\nname = \"rest\"\ndefault = true\n\
         discipline = {{ kind = \"fifo\", limit = 50 }}\n",
        link.bits() / 1_000_000
    )
}

impl Rig {
    fn start(discipline: LinkService, link: Bandwidth) -> Result<Self, Error> {
        let mut lab = Lab::new();
        let [a, b, c, d, r1, r2] = NAMES.map(|name| lab.host(name));
        let hosts = [a?, b?, c?, d?, r1?, r2?];
        for ([host, other], [interface, of_other], network) in LINKS {
            lab.veth((&hosts[host], interface), (&hosts[other], of_other))?;
            for (end, (at, interface)) in [(host, interface), (other, of_other)].into_iter().enumerate() {
                let ip = [10, 10, network, 1 + end as u8];
                hosts[at].address(interface, Address::new(ip, 24))?;
            }
        }
        for (at, gateway) in [
            (0, [10, 10, 1, 2]),
            (1, [10, 10, 2, 2]),
            (2, [10, 10, 3, 2]),
            (3, [10, 10, 4, 2]),
            (4, [10, 10, 5, 2]),
            (5, [10, 10, 5, 1]),
        ] {
            hosts[at].default_route(gateway.into())?;
        }
        let files =
            std::env::temp_dir().join(format!("suimon-k1-{}-{}", std::process::id(), discipline.name()));
        let mut rig = Self {
            hosts,
            link,
            running: Vec::new(),
            files,
            _lab: lab,
        };
        let cannot = |e: std::io::Error| Error::new(format!("cannot write policies: {e}"));
        fs::create_dir_all(&rig.files).map_err(cannot)?;
        for (router, out) in [("r1", "wan0"), ("r2", "lan0")] {
            fs::write(rig.file(router, "toml"), policy(out, discipline, link)).map_err(cannot)?;
            rig.host(router).forward()?;
            rig.launch(router, &["run", &rig.file(router, "toml")])?;
        }
        rig.launch("b", &["accept"])?;
        Ok(rig)
    }

    fn host(&self, name: &str) -> &Host {
        let at = NAMES.iter().position(|known| *known == name);
        &self.hosts[at.unwrap_or_default()]
    }

    fn file(&self, name: &str, kind: &str) -> String {
        self.files.join(format!("{name}.{kind}")).display().to_string()
    }

    fn suimon(&self, name: &str, arguments: &[&str]) -> Result<Running, Error> {
        let program =
            std::env::current_exe().map_err(|e| Error::new(format!("cannot find this program: {e}")))?;
        let program = self.host(name).program(&program.display().to_string());
        Ok(program.args(arguments).limit(LIMIT).start()?)
    }

    /// Starts a permanent program there and waits until it responds.
    fn launch(&mut self, name: &str, arguments: &[&str]) -> Result<(), Error> {
        let socket = self.file(name, "sock");
        let running = self.suimon(name, &[arguments, &["--socket", &socket]].concat())?;
        let answers = || Ok(Client::connect(Some(&socket)).is_ok());
        let running = wait(&format!("`suimon {}` in {name}", arguments[0]), running, answers)?;
        self.running.push(running);
        Ok(())
    }

    /// Reserves [`RESERVED`] per cent for such packets, until the returned program is dropped.
    fn reserve(&self, stream: &PacketStream) -> Result<Running, Error> {
        let packet = stream.data + HEADERS - ETHERNET;
        let rate = format!(
            "{} bit/s",
            self.link.bits() * RESERVED / 100 * packet / (stream.data + HEADERS + ON_WIRE)
        );
        let (to, packet) = (format!("{TO_B}:{PORT}"), format!("{packet}B"));
        let arguments = ["reserve", "--to", &to, "--rate", &rate, "--packet", &packet];
        let running = self.suimon("a", &arguments)?;
        let installed = || Ok(self.reservations("r1")? == 1 && self.reservations("r2")? == 1);
        wait("a reservation", running, installed)
    }

    /// The number of reservations there.
    fn reservations(&self, router: &str) -> Result<usize, Error> {
        match Client::connect(Some(&self.file(router, "sock")))?.ask(&Request::Reservations {})? {
            Reply::Reservations(status) => Ok(status
                .senders
                .iter()
                .map(|sender| sender.reservations.len())
                .sum()),
            Reply::Refused(why) => Err(why.into()),
            other => Err(Error::new(format!("{router} reports {other:?}"))),
        }
    }

    /// Delivered data of the measured flow among this many disturbers, in Mbit/s.
    fn load(
        &self,
        measured: &PacketStream,
        disturber: &PacketStream,
        disturbers: u64,
        span: Duration,
    ) -> Result<f64, Error> {
        most_punctual(|| self.send(measured, disturber, disturbers, span))
    }

    fn send(
        &self,
        measured: &PacketStream,
        disturber: &PacketStream,
        disturbers: u64,
        span: Duration,
    ) -> Result<Attempt<f64>, Error> {
        let whole = SETTLE + span + SETTLE / 3;
        let start = |from: &str, to: &str, address: SocketAddr, stream: &PacketStream, times: u64| {
            let interval = Duration::from_nanos(stream.interval.nanos() / times);
            let count = (whole.as_nanos() / interval.as_nanos()) as u64;
            let shape = TrafficShape::even(stream.data as usize, interval, count);
            udp::Stream { to: address, shape }.start(self.host(from), self.host(to))
        };
        let disturbing = (disturbers > 0)
            .then(|| start("c", "d", (TO_D, DISTURBED).into(), disturber, disturbers))
            .transpose()?;
        let report = start("a", "b", (TO_B, PORT).into(), measured, 1)?.finish()?;
        let mut late = report.late[1];
        if let Some(run) = disturbing {
            run.stop();
            late = late.max(StreamRun::finish(run)?.late[1]);
        }
        let counted = |sent: Duration| sent >= SETTLE && sent < SETTLE + span;
        let arrived = report
            .arrivals
            .iter()
            .filter(|arrival| counted(arrival.sent))
            .count();
        Ok(Attempt {
            found: arrived as f64 * measured.data as f64 * 8.0 / span.as_secs_f64() / 1e6,
            late,
        })
    }
}

/// Waits until the condition holds, as long as the program runs.
fn wait(what: &str, running: Running, holds: impl Fn() -> Result<bool, Error>) -> Result<Running, Error> {
    let until = Instant::now() + PATIENCE;
    while !holds()? {
        if !running.is_running() {
            let message = running.wait()?.err;
            return Err(Error::new(format!("{what} ended: {}", message.trim())));
        }
        if Instant::now() > until {
            return Err(Error::new(format!("timed out waiting for {what}")));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(running)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_curve_that_falls_and_an_unreserved_one_that_does_not_fail() {
        let row = |reserved, last| {
            let points = vec![(0, 37.28), (9, last)];
            Curve {
                discipline: LinkService::Drr,
                reserved,
                points,
            }
            .row()
        };
        assert!(row(true, 36.0).is_shown() && !row(true, 35.0).is_shown());
        assert!(row(false, 30.0).is_shown() && !row(false, 36.0).is_shown());
        // Nor does one that starves: the paper's loses in proportion.
        assert!(!row(false, 22.0).is_shown());
    }

    #[test]
    fn short_packets_get_their_share_of_the_wire_only_by_bytes() {
        assert!((reserved_rate(&short()) - 3.008).abs() < 0.001);
        assert!(mixed(LinkService::Drr, 3.0).is_shown() && !mixed(LinkService::Drr, 2.8).is_shown());
        assert!(mixed(LinkService::Wrr, 0.8).is_shown() && !mixed(LinkService::Wrr, 3.0).is_shown());
        assert!(!mixed(LinkService::Wrr, 0.5).is_shown());
    }
}
