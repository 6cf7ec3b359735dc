//! `suimon pace IFACE --rate R`: paces all that this host sends through an interface at one rate,
//! with even packet intervals.
//!
//! It is `suimon run` with a policy of one `pacer` class for the host's egress, so everything
//! works as there: `status`, `top`, fail-open, and `suimon set IFACE all rate=R2` while packets
//! flow. Super-frames are segmented.

use crate::commands::Context;
use crate::exit::{Exit, Failure};
use crate::log::LogOptions;
use crate::sandbox_option::SandboxOption;
use clap::{Args, ValueEnum};
use control::policy::{InterfacePolicy, Policy};
use control::socket::Client;
use engine::byte_clock::Basis;
use engine::queue::Count;
use engine::settings::{Raw, SettingValue};
use engine::tree::Registry;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use gateway::enforce::{Origin, enforce};
use gateway::facts::{self, Facts};
use gateway::kept::MadeOf;
use gateway::realise::PacedInterface;
use gateway::selfcheck;
use measure::numbers;
use netio::handle::{Turns, WorkerSnapshot};
use serde_json::json;
use std::io::{self, Write};

/// Pace what this host sends through an interface: even packet intervals, exact in the long run
#[derive(Debug, Args)]
pub struct Pace {
    /// The interface
    interface: String,
    /// The rate, such as 62.5MB/s
    #[arg(long, value_name = "RATE")]
    rate: Bandwidth,
    /// Which bytes the rate counts: wire (slots), frame-fcs, frame, ip
    #[arg(long, value_name = "BASIS", default_value = "frame-fcs", value_parser = basis)]
    basis: Basis,
    /// The realiser: gap frames, launch times of the device, or the packet loop's timer; auto
    /// tries them
    #[arg(long, value_enum, default_value_t = Wanted::Auto)]
    realiser: Wanted,
    /// The frames on the wire in a gap
    #[arg(long, value_enum, default_value_t = Frame::Pause)]
    gap_frame: Frame,
    /// The speed of the wire, if the driver does not report it
    #[arg(long, value_name = "RATE")]
    wire: Option<Bandwidth>,
    /// How long before a packet's time to wake, to spin for the rest
    #[arg(long, value_name = "TIME", default_value = "60us")]
    spin: Duration,
    /// How much of the time missed in a hold-up of the host to catch up at the speed of the wire;
    /// by default a full frame's at the rate
    #[arg(long, value_name = "TIME")]
    catch_up: Option<Duration>,
    /// The interface keeps to this rate also while this program is dead or hangs, by a qdisc of the
    /// kernel, which stays after a kill; `set` does not change it
    #[arg(long)]
    fail_closed: bool,
    /// Name or path of the control socket; by default pace-IFACE
    #[arg(long, value_name = "NAME|PATH")]
    socket: Option<String>,
    /// Report the achieved rate and precision in JSON, an object each second
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    log: LogOptions,
    #[command(flatten)]
    sandbox: SandboxOption,
}

/// The realiser option.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Wanted {
    Auto,
    Gap,
    Launch,
    Timer,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Frame {
    Pause,
    Void,
}

fn basis(word: &str) -> Result<Basis, String> {
    Basis::from_raw(&Raw::Text(word.into()))
}

/// The name of the class, by which `suimon set` changes the rate.
const CLASS: &str = "all";
/// The maximum backlog in packets: a host's TCP fills the queue up to its window, as nothing
/// signals congestion.
const LIMIT: u32 = 20_000;

impl Pace {
    /// Paces until SIGINT, SIGTERM or `suimon detach`.
    pub fn run(&self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        self.log.begin();
        let out = &mut *cx.out;
        let name = format!("pace-{}", self.interface);
        let socket = self.socket.as_deref().unwrap_or(&name);
        if Client::connect(Some(socket)).is_ok() {
            return Err(Failure::usage(format!(
                "{} is paced already; `suimon set {} {CLASS} rate=…` changes the rate, `suimon detach` ends it",
                self.interface, self.interface
            )));
        }
        let place = self.attach_point()?;
        let wire = self.speed()?;
        let mut tried = Vec::new();
        let means = self.means(&place, wire, &mut tried)?;
        let text = self.policy(&place, wire, means);
        let policy = self.read(&text)?;
        let origin = Origin {
            made_of: MadeOf::text("-", &text),
            sandbox: self.sandbox.chosen(),
            ..Origin::default()
        };
        tried.iter().for_each(|why| tracing::info!("{why}"));
        let mut reporter = Reporter::new(self.basis, self.json);
        let mut report = |snapshot: &WorkerSnapshot| reporter.show(snapshot, out);
        enforce(&policy, cx.registry, origin, &name, socket, &mut report)?;
        Ok(Exit::Done)
    }

    fn attach_point(&self) -> Result<PacedInterface, Failure> {
        if Facts::of(&self.interface).is_none() {
            return Err(Failure::usage(selfcheck::missing(
                &facts::names(),
                &self.interface,
            )));
        }
        Ok(PacedInterface::named(&self.interface)?)
    }

    /// The speed of the wire.
    fn speed(&self) -> Result<Bandwidth, Failure> {
        let known = netio::interface::speed(&self.interface);
        self.wire.or(known).ok_or_else(|| {
            Failure::usage(format!(
                "the driver of {} does not report the speed of its wire; give it: --wire 1Gbit/s",
                self.interface
            ))
        })
    }

    /// Chooses what the policy configures: gap frames or not, and the port's realiser.
    fn means(
        &self,
        place: &PacedInterface,
        wire: Bandwidth,
        tried: &mut Vec<String>,
    ) -> Result<(bool, &'static str), Failure> {
        match self.realiser {
            Wanted::Gap => return Ok((true, "timer")),
            Wanted::Launch => return Ok((false, "launch")),
            Wanted::Timer => return Ok((false, "timer")),
            Wanted::Auto => {}
        }
        // A launch time costs nothing; gap frames cost the whole link up to the next switch.
        let probe = self.read(&self.policy(place, wire, (true, "timer")))?;
        let Some(port) = &probe.port else {
            return Ok((false, "timer"));
        };
        let pacing = |interface: &InterfacePolicy| interface.plan.root.plan.pacing();
        if let Some(pacing) = probe.interfaces.first().and_then(pacing) {
            match place.try_launch(pacing, &port.settings) {
                Ok(_) => return Ok((false, "launch")),
                Err(why) => tried.push(why.to_string()),
            }
        }
        match place.try_gaps(wire, &port.settings) {
            Ok(_) => Ok((true, "timer")),
            Err(why) => {
                tried.push(why.to_string());
                Ok((false, "timer"))
            }
        }
    }

    /// The equivalent policy.
    fn policy(&self, place: &PacedInterface, wire: Bandwidth, (frames, realiser): (bool, &str)) -> String {
        let Self {
            interface,
            rate,
            basis,
            spin,
            catch_up,
            fail_closed,
            ..
        } = self;
        let (gap, frame) = (
            if frames { "frames" } else { "timer" },
            if self.gap_frame == Frame::Void {
                "void"
            } else {
                "pause"
            },
        );
        let catch_up = catch_up.map_or_else(String::new, |time| format!("catch_up = \"{time}\"\n"));
        let closed = match fail_closed {
            true => format!("fail_closed = \"{} bit/s\"\n", rate.bits()),
            false => String::new(),
        };
        format!(
            "version = 1\n[port]\negress = \"{interface}\"\nspin = \"{spin}\"\n{catch_up}{closed}\
             realiser = \"{realiser}\"\ngap_frame = \"{frame}\"\n[interface.\"{interface}\"]\nbandwidth = \"{} bit/s\"\n\
             max_frame = \"{} B\"\ndiscipline = {{ kind = \"pacer\", basis = \"{}\", gap = \"{gap}\" }}\n\
             [[interface.\"{interface}\".class]]\nname = \"{CLASS}\"\ndefault = true\nrate = \"{} bit/s\"\n\
             discipline = {{ kind = \"fifo\", limit = {LIMIT} }}\n",
            wire.bits(),
            place.mtu() + netio::port::ETHERNET,
            basis.name(),
            rate.bits(),
        )
    }

    fn read(&self, text: &str) -> Result<Policy, Failure> {
        Policy::read("pace", text, &Registry::builtin(), &netio::ports::declared()).map_err(|diagnostics| {
            let what = |place: &control::diagnostics::LocatedDiagnostic<'_>| match place.help {
                Some(help) => format!("{}; {help}", place.message),
                None => place.message.to_string(),
            };
            let mistakes: Vec<String> = diagnostics.places().iter().map(what).collect();
            Failure::usage(format!(
                "{} cannot be paced like this: {}",
                self.interface,
                mistakes.join("; ")
            ))
        })
    }
}

/// Reports the achieved rate and precision.
struct Reporter {
    basis: Basis,
    json: bool,
    begin: Option<Instant>,
    last: Option<Reported>,
}

/// What the last report counted from.
#[derive(Clone, Copy)]
struct Reported {
    at: Instant,
    sent: Count,
    turns: Turns,
}

/// The parts of a time in which the packet loop was busy, and of that spinning: what pacing costs,
/// in per cent of a processor.
fn price(before: Turns, turns: Turns, span: Duration) -> [u64; 2] {
    let part = |time: Duration| time.nanos().min(span.nanos()) * 100 / span.nanos().max(1);
    [
        100 - part(turns.asleep - before.asleep),
        part(turns.spun - before.spun),
    ]
}

/// The minimum interval between reports.
const REPORT_INTERVAL: Duration = Duration::from_millis(900);

impl Reporter {
    fn new(basis: Basis, json: bool) -> Self {
        Self {
            basis,
            json,
            begin: None,
            last: None,
        }
    }

    fn show(&mut self, snapshot: &WorkerSnapshot, out: &mut dyn Write) -> io::Result<()> {
        let Some(path) = snapshot.paths.first() else {
            return Ok(());
        };
        let sent = path.totals.sent;
        let begin = *self.begin.get_or_insert(snapshot.at);
        let now = Reported {
            at: snapshot.at,
            sent,
            turns: snapshot.turns,
        };
        let Some(before) = self.last else {
            self.last = Some(now);
            return Ok(());
        };
        let span = now.at.since(before.at);
        if span < REPORT_INTERVAL {
            return Ok(());
        }
        self.last = Some(now);
        let rate = Bandwidth::of(counted(self.basis, sent - before.sent), span).bits();
        let [busy, spinning] = price(before.turns, now.turns, span);
        let Some(realised) = &path.realised else {
            return Ok(());
        };
        let achieved = &realised.achieved;
        let late = |per_mille| achieved.lateness.quantile(per_mille).nanos();
        let at = snapshot.at.since(begin).as_secs_f64();
        if self.json {
            let line = json!({
                "at_s": at, "rate_bps": rate, "basis": self.basis.name(), "realiser": realised.by,
                "waited": achieved.lateness.count(), "late_p50_ns": late(500), "late_p99_ns": late(990),
                "late_longest_ns": achieved.lateness.longest().nanos(), "late_starts": achieved.late,
                "held_up_ns": achieved.held_up.nanos(), "dry_rings": achieved.dry,
                "busy_percent": busy, "spinning_percent": spinning,
                "gap_frames": achieved.gaps.packets, "dropped_packets": path.totals.dropped.packets,
            });
            writeln!(out, "{line}")?;
        } else {
            writeln!(
                out,
                "{at:6.1} s  {} ({})  by {}: late by {} at the median, {} at the 99th percentile, {} at most; {} by more than a frame; \
                 held up {}; ring dry {} times; {} dropped; {busy} % of a processor, {spinning} % spinning",
                numbers::rate(rate),
                self.basis.name(),
                realised.by,
                numbers::time(late(500)),
                numbers::time(late(990)),
                numbers::time(achieved.lateness.longest().nanos()),
                numbers::count(achieved.late),
                numbers::time(achieved.held_up.nanos()),
                numbers::count(achieved.dry),
                numbers::count(path.totals.dropped.packets),
            )?;
        }
        out.flush()
    }
}

/// Bytes of frames without FCS, as the queue counts them, in a basis; without the padding of the
/// shortest frames.
fn counted(basis: Basis, sent: Count) -> Bytes {
    let more = |each: u64| sent.bytes + Bytes::new(each).times(sent.packets);
    match basis {
        Basis::Wire => more(engine::byte_clock::WIRE_OVERHEAD),
        Basis::FrameFcs => more(4),
        Basis::Frame => sent.bytes,
        Basis::Ip => Bytes::new(
            sent.bytes
                .get()
                .saturating_sub(netio::port::ETHERNET as u64 * sent.packets),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_price_is_the_time_not_asleep_and_the_time_spun() {
        let ms = Duration::from_millis;
        let turns = |asleep, spun| Turns {
            asleep: ms(asleep),
            spun: ms(spun),
            ..Turns::default()
        };
        assert_eq!(price(turns(100, 10), turns(700, 100), ms(1_000)), [40, 9]);
    }

    #[test]
    fn bytes_are_counted_in_the_given_basis() {
        let sent = Count {
            packets: 10,
            bytes: Bytes::new(15_140),
        };
        let each = [Basis::Wire, Basis::FrameFcs, Basis::Frame, Basis::Ip]
            .map(|basis| counted(basis, sent).get() / 10);
        assert_eq!(each, [1_538, 1_518, 1_514, 1_500]);
        assert!(basis("frame-fcs").is_ok() && basis("frames").is_err());
    }
}
