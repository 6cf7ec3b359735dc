//! `suimon reserve`: bandwidth along a path, as long as a command runs; and what there is to see of it.
//!
//! The reservation's life is that of a connection to the node that speaks RSVP on this host. However this process ends, the
//! connection does, and the node tears down what it held.

use crate::daemon::supervise::heed_signals;
use crate::exit::{Exit, Failure};
use crate::signalling::alone::Alone;
use crate::signalling::client::{self, Found, Guard, READY};
use crate::signalling::speaker;
use clap::{Args, Subcommand};
use control::protocol::{Reply, Request};
use control::reservation::{Denial, Offer, Progress, Reservations, SenderView, Status, USUAL_PACKET, Wanted};
use control::socket::{Client, HangUp, path_of};
use engine::units::{Bandwidth, Bytes, Duration};
use serde_json::json;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::Instant;

/// How often it looks at the command, at signals and at what the node says.
const GLANCE: std::time::Duration = std::time::Duration::from_millis(20);

/// Reserve bandwidth along the path to a host, as long as a command runs (RSVP)
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub struct Reserve {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    hold: Hold,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Ask what the path offers, without reserving
    Check(Check),
    /// Show what is reserved, and what this node has heard
    Status(Ask),
    /// Show why reservations were refused: which hop, what was asked, how much is left
    Explain(Ask),
    /// Print everything that happens to reservations, until Ctrl-C
    Watch(Ask),
    /// Change the rate of a reservation that a program on this host holds
    Change(Change),
    /// A node for as long as standard input is open
    #[command(hide = true)]
    Node(super::accept::NodeArgs),
}

/// What is to be reserved.
#[derive(Debug, Args)]
struct Flow {
    /// The receiver, as HOST:PORT; HOST alone for a protocol without ports
    #[arg(long, value_name = "HOST[:PORT]")]
    to: Option<String>,
    /// What is sent, in IP datagrams: 40M, or "40 Mbit/s"
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate: Option<Bandwidth>,
    /// The source, as HOST, HOST:PORT or :PORT; the route's address and any port if not given
    #[arg(long, value_name = "[HOST][:PORT]")]
    from: Option<String>,
    /// The transport protocol: udp, tcp, gre, esp, ipip, or a number
    #[arg(long, default_value = "udp", value_parser = super::accept::protocol)]
    protocol: u8,
    /// What is sent at once: 64kB; 10 ms of the rate if not given
    #[arg(long, value_name = "LENGTH", value_parser = length)]
    burst: Option<Bytes>,
    /// The shortest packet, which says how much headers add on links: shorter ones count as this
    #[arg(long, value_name = "LENGTH", value_parser = length)]
    packet: Option<Bytes>,
    /// A delay that no packet is to exceed: guaranteed service, where the routers offer it
    #[arg(long, value_name = "TIME", value_parser = time)]
    delay: Option<Duration>,
    /// How long to wait for the path's answer
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    wait: Duration,
    #[command(flatten)]
    node: OwnNode,
}

/// Which node is asked.
#[derive(Debug, Args)]
struct OwnNode {
    /// The node's control socket; if not given, one that runs on this host, or else one of our own, as root
    #[arg(long, value_name = "NAME|PATH")]
    socket: Option<String>,
    /// How often a node of our own tells state anew
    #[arg(long, value_name = "TIME", default_value = "30s")]
    refresh: String,
}

#[derive(Debug, Args)]
struct Hold {
    #[command(flatten)]
    flow: Flow,
    /// Run the command also if nothing could be reserved
    #[arg(long)]
    or_run_anyway: bool,
    /// Print JSON, a line for each change, on standard error
    #[arg(long)]
    json: bool,
    /// The command and its arguments; without one the reservation is held until Ctrl-C
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

#[derive(Debug, Args)]
struct Check {
    #[command(flatten)]
    flow: Flow,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Ask {
    /// The node's control socket; one that runs on this host, if not given
    #[arg(long, value_name = "NAME|PATH")]
    socket: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Change {
    /// The reservation's number, as `status` shows it
    number: u64,
    /// The new rate, in IP datagrams
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate: Bandwidth,
    #[command(flatten)]
    ask: Ask,
}

/// A rate on the command line: as in a policy, or a number with k, M or G, in bit/s.
pub fn rate(text: &str) -> Result<Bandwidth, String> {
    let short = text.ends_with(['k', 'M', 'G', 'T']);
    let text = if short {
        format!("{text}bit/s")
    } else {
        text.into()
    };
    text.parse().map_err(|e: engine::units::UnitError| e.to_string())
}

fn length(text: &str) -> Result<Bytes, String> {
    text.parse().map_err(|e: engine::units::UnitError| e.to_string())
}

fn time(text: &str) -> Result<Duration, String> {
    text.parse().map_err(|e: engine::units::UnitError| e.to_string())
}

/// A host and a port, looked up; the port is 0 where there is none.
fn place(text: &str) -> Result<(IpAddr, u16), Failure> {
    if let Ok(address) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Ok((address, 0));
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok((address.ip(), address.port()));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') => (
            host,
            port.parse::<u16>()
                .map_err(|_| Failure::usage(format!("`{port}` is no port")))?,
        ),
        _ => (text, 0),
    };
    let found = (host, port)
        .to_socket_addrs()
        .map_err(|e| Failure::usage(format!("{host}: {e}")))?;
    let first = found
        .into_iter()
        .next()
        .map(|address| (address.ip(), address.port()));
    first.ok_or_else(|| Failure::usage(format!("{host} has no address")))
}

impl Flow {
    fn wanted(&self) -> Result<Wanted, Failure> {
        let missing = || Failure::usage("say what to reserve: --to HOST:PORT --rate 40M");
        let (text, rate) = (
            self.to.as_deref().ok_or_else(missing)?,
            self.rate.ok_or_else(missing)?,
        );
        let has_ports = control::filters::has_ports(self.protocol);
        let (to, port) = place(text)?;
        if has_ports && port == 0 {
            return Err(Failure::usage(format!(
                "`--to {text}` needs a port: --to {text}:5000"
            )));
        }
        let (from, from_port) = match self.from.as_deref() {
            None => (None, 0),
            Some(text) => match text.strip_prefix(':') {
                Some(port) => (
                    None,
                    port.parse()
                        .map_err(|_| Failure::usage(format!("`{port}` is no port")))?,
                ),
                None => {
                    let (from, port) = place(text)?;
                    (Some(from), port)
                }
            },
        };
        let bytes = |length: Option<Bytes>, usual: u32| {
            length.map_or(usual, |length| u32::try_from(length.get()).unwrap_or(u32::MAX))
        };
        Ok(Wanted {
            to,
            port,
            protocol: self.protocol,
            from,
            from_port,
            rate_bps: rate.bits(),
            burst_bytes: self.burst.map_or(0, Bytes::get),
            packet_bytes: bytes(self.packet, USUAL_PACKET),
            delay_us: self.delay.map(|delay| (delay.nanos() / 1_000).max(1)),
        })
    }

    fn found(&self) -> Result<Found, Failure> {
        let options = ["--refresh".to_owned(), self.node.refresh.clone()];
        client::running_or_own(self.node.socket.as_deref(), &options)
    }

    fn wait(&self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.wait.nanos())
    }
}

impl Reserve {
    /// Does what was asked.
    pub fn run(self, out: &mut dyn Write) -> Result<Exit, Failure> {
        match self.what {
            Some(What::Check(check)) => check.run(out),
            Some(What::Status(ask)) => ask.status(out),
            Some(What::Explain(ask)) => ask.explain(out),
            Some(What::Watch(ask)) => ask.watch(out),
            Some(What::Change(change)) => change.run(out),
            Some(What::Node(node)) => serve(&node, out),
            None => self.hold.run(),
        }
    }
}

/// What is known of a reservation that is being made.
enum Outcome {
    Reserved,
    Refused,
    Nothing,
}

impl Hold {
    fn run(self) -> Result<Exit, Failure> {
        let wanted = self.flow.wanted()?;
        let end = Arc::new(AtomicBool::new(false));
        heed_signals(&end).map_err(|e| Failure::at_run_time(format!("cannot heed signals: {e}")))?;
        let found = self.flow.found()?;
        let told = ask(
            found,
            &Request::Reserve {
                wanted: wanted.clone(),
            },
        )?;
        match self.await_answer(&told, &end)? {
            Outcome::Reserved => {}
            Outcome::Refused if self.or_run_anyway => {}
            Outcome::Nothing if self.or_run_anyway && !end.load(Ordering::Relaxed) => {
                self.say(
                    "no answer; the command runs without a reservation",
                    &json!({ "state": "unanswered" }),
                );
            }
            Outcome::Refused => return Ok(Exit::Refused),
            Outcome::Nothing => {
                let message = format!(
                    "nobody answered for {} within {}: is there an RSVP receiver (`suimon accept`), and do the routers pass it on?",
                    wanted.to, self.flow.wait
                );
                self.say(&message, &json!({ "state": "unanswered" }));
                return Ok(Exit::Unanswered);
            }
        }
        let exit = match self.command.split_first() {
            Some((name, arguments)) => {
                let child = Command::new(name).args(arguments).spawn();
                let child = child.map_err(|e| Failure::at_run_time(format!("cannot run `{name}`: {e}")))?;
                self.accompany(child, &told, &end)?
            }
            None => {
                while !end.load(Ordering::Relaxed) && self.tell_news(&told)? {
                    std::thread::sleep(GLANCE);
                }
                Exit::Done
            }
        };
        Ok(exit)
    }

    /// On standard error: standard output is the command's.
    fn say(&self, message: &str, json: &serde_json::Value) {
        // Nobody may be reading; that is no reason to end.
        let _ = match self.json {
            true => writeln!(io::stderr(), "{json}"),
            false => writeln!(io::stderr(), "suimon: {message}"),
        };
    }

    fn say_progress(&self, progress: &Progress) {
        let message = match progress {
            Progress::Asked { .. } | Progress::Offer(_) if !self.json => return,
            Progress::Asked { number } => format!("asked, as number {number}"),
            Progress::Reserved {
                rate_bps, guaranteed, ..
            } => {
                let what = if *guaranteed { " with a delay" } else { "" };
                format!("reserved {}{what}", speaker::rate(*rate_bps))
            }
            Progress::Lost { .. } => "the reservation is lost; it comes back when the path does".into(),
            Progress::Refused(denial) => refusal(denial),
            Progress::Offer(_) => String::new(),
        };
        self.say(&message, &json!(progress));
    }

    fn await_answer(&self, told: &Lasting, end: &AtomicBool) -> Result<Outcome, Failure> {
        let until = Instant::now() + self.flow.wait();
        while Instant::now() < until && !end.load(Ordering::Relaxed) {
            let Some(progress) = told.next()? else { continue };
            self.say_progress(&progress);
            match progress {
                Progress::Reserved { .. } => return Ok(Outcome::Reserved),
                Progress::Refused(_) => return Ok(Outcome::Refused),
                _ => {}
            }
        }
        Ok(Outcome::Nothing)
    }

    /// Says what has happened since. `false`: the node has gone.
    fn tell_news(&self, told: &Lasting) -> Result<bool, Failure> {
        loop {
            match told.told.try_recv() {
                Ok(Reply::Reservation(progress)) => self.say_progress(&progress),
                Ok(_) => {}
                Err(TryRecvError::Empty) => return Ok(true),
                Err(TryRecvError::Disconnected) => {
                    self.say(
                        "the node has ended, and the reservation with it",
                        &json!({ "state": "lost" }),
                    );
                    return Ok(false);
                }
            }
        }
    }

    /// Waits for the command's end; a signal to end is passed on to it.
    fn accompany(&self, mut child: Child, told: &Lasting, end: &AtomicBool) -> Result<Exit, Failure> {
        let (mut connected, mut passed) = (true, false);
        loop {
            let ended = child
                .try_wait()
                .map_err(|e| Failure::at_run_time(format!("cannot wait for the command: {e}")))?;
            if let Some(status) = ended {
                return Ok(Exit::Passed(code(status)));
            }
            if end.load(Ordering::Relaxed) && !std::mem::replace(&mut passed, true) {
                let id = i32::try_from(child.id())
                    .ok()
                    .and_then(rustix::process::Pid::from_raw);
                if let Some(id) = id {
                    // It may have ended just now.
                    let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
                }
            }
            connected = connected && self.tell_news(told)?;
            std::thread::sleep(GLANCE);
        }
    }
}

/// How a command ended, as shells say it.
fn code(status: ExitStatus) -> u8 {
    const BY_SIGNAL: i32 = 128;
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| BY_SIGNAL + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

/// A refusal, for people.
fn refusal(denial: &Denial) -> String {
    let left = denial.left_bps.map_or_else(String::new, |left| {
        format!(
            "; the narrowest link on the path had {} left",
            speaker::rate(left)
        )
    });
    format!(
        "refused by {}: {}; asked {}{left}",
        denial.node,
        denial.reason,
        speaker::rate(denial.asked_bps)
    )
}

/// A connection on which something lasts, and what is told on it.
struct Lasting {
    told: Receiver<Reply>,
    // In this order: first what lasts ends, then the node that was started for it.
    _connection: HangUp,
    _guard: Option<Guard>,
}

/// Sends a request on a connection of its own; its replies come by a channel, as long as the connection lasts.
fn ask(found: Found, request: &Request) -> Result<Lasting, Failure> {
    let mut client = Client::connect(Some(&found.socket))?;
    let connection = client.hang_up_later()?;
    let first = client.ask(request)?;
    if let Reply::Refused(why) = first {
        return Err(why.into());
    }
    client.set_patience(None)?;
    let (tell, told) = channel();
    std::thread::spawn(move || {
        let mut reply = Ok(first);
        while let Ok(one) = reply {
            if tell.send(one).is_err() {
                return;
            }
            reply = client.next_reply();
        }
    });
    Ok(Lasting {
        told,
        _connection: connection,
        _guard: found.guard,
    })
}

impl Lasting {
    /// The next thing told, if it comes soon.
    fn next(&self) -> Result<Option<Progress>, Failure> {
        match self.told.recv_timeout(GLANCE) {
            Ok(Reply::Reservation(progress)) => Ok(Some(progress)),
            Ok(Reply::Refused(why)) => Err(why.into()),
            Ok(_) | Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Failure::at_run_time("the node has ended")),
        }
    }
}

impl Check {
    fn run(self, out: &mut dyn Write) -> Result<Exit, Failure> {
        let wanted = self.flow.wanted()?;
        let found = self.flow.found()?;
        let told = ask(
            found,
            &Request::Trial {
                wanted: wanted.clone(),
            },
        )?;
        let until = Instant::now() + self.flow.wait();
        while Instant::now() < until {
            match told.next()? {
                Some(Progress::Offer(offer)) => {
                    show_offer(out, &wanted, &offer, self.json)?;
                    return Ok(if offer.fits { Exit::Done } else { Exit::Refused });
                }
                Some(Progress::Refused(denial)) => {
                    match self.json {
                        true => writeln!(out, "{}", json!(Progress::Refused(denial)))?,
                        false => writeln!(out, "{}", refusal(&denial))?,
                    }
                    return Ok(Exit::Refused);
                }
                _ => {}
            }
        }
        match self.json {
            true => writeln!(out, "{}", json!({ "state": "unanswered" }))?,
            false => writeln!(out, "nobody answered for {} within {}", wanted.to, self.flow.wait)?,
        }
        Ok(Exit::Unanswered)
    }
}

fn show_offer(out: &mut dyn Write, wanted: &Wanted, offer: &Offer, as_json: bool) -> io::Result<()> {
    if as_json {
        return writeln!(out, "{}", json!(Progress::Offer(offer.clone())));
    }
    let left = offer.left_bps.map_or_else(
        || "no link has a limit".into(),
        |left| format!("{} left on the narrowest link", speaker::rate(left)),
    );
    let rate = offer.rate_for_delay_bps.map_or_else(String::new, |rate| {
        format!(", which takes {}", speaker::rate(rate))
    });
    let asked = speaker::rate(wanted.rate_bps);
    match &offer.why {
        None => writeln!(
            out,
            "{asked} would fit{rate}: {left}; {} hops, datagrams of up to {} bytes",
            offer.hops, offer.mtu_bytes
        ),
        Some(why) => writeln!(out, "{asked} would not fit{rate}: {why}; {left}"),
    }
}

impl Ask {
    fn client(&self) -> Result<Client, Failure> {
        let found = client::running(self.socket.as_deref())?;
        Ok(Client::connect(Some(&found.socket))?)
    }

    fn read(&self) -> Result<Status, Failure> {
        match self.client()?.ask(&Request::Reservations {})? {
            Reply::Reservations(status) => Ok(*status),
            Reply::Refused(why) => Err(why.into()),
            other => Err(Failure::at_run_time(format!("expected a status, got {other:?}"))),
        }
    }

    fn status(&self, out: &mut dyn Write) -> Result<Exit, Failure> {
        let status = self.read()?;
        if self.json {
            writeln!(out, "{}", json!(status))?;
            return Ok(Exit::Done);
        }
        for link in &status.interfaces {
            let room = match (link.reserved_bps, link.reservable_bps) {
                (Some(used), Some(whole)) => format!(
                    "{} of {} reserved, as the link counts",
                    speaker::rate(used),
                    speaker::rate(whole)
                ),
                _ => "not managed: nothing is refused, and nothing is guarded".into(),
            };
            let error = link
                .error
                .as_ref()
                .map_or_else(String::new, |error| format!("; {error}"));
            writeln!(out, "{}: {room}{error}", link.name)?;
        }
        for sender in &status.senders {
            show_sender(out, sender)?;
        }
        if status.senders.is_empty() {
            writeln!(out, "no sender has been heard of")?;
        }
        if status.malformed + status.overflow > 0 {
            writeln!(
                out,
                "{} messages heard; {} were malformed, {} too many",
                status.heard, status.malformed, status.overflow
            )?;
        }
        Ok(Exit::Done)
    }

    fn explain(&self, out: &mut dyn Write) -> Result<Exit, Failure> {
        let status = self.read()?;
        if self.json {
            writeln!(
                out,
                "{}",
                json!({ "refusals": status.refusals, "interfaces": status.interfaces })
            )?;
            return Ok(Exit::Done);
        }
        for refusal in &status.refusals {
            let whom = refusal
                .flow
                .as_ref()
                .map_or_else(|| "several senders".into(), ToString::to_string);
            writeln!(
                out,
                "{:.0} s ago, {whom}: refused on {}: {}; asked {}, left {}, as the link counts",
                refusal.seconds_ago,
                refusal.interface,
                refusal.reason,
                speaker::rate(refusal.asked_bps),
                speaker::rate(refusal.left_bps)
            )?;
        }
        if status.refusals.is_empty() {
            writeln!(out, "this node has refused nothing")?;
        }
        for link in status.interfaces {
            if let (Some(used), Some(whole)) = (link.reserved_bps, link.reservable_bps) {
                writeln!(
                    out,
                    "{}: {} left of {}",
                    link.name,
                    speaker::rate(whole.saturating_sub(used)),
                    speaker::rate(whole)
                )?;
            }
        }
        Ok(Exit::Done)
    }

    fn watch(&self, out: &mut dyn Write) -> Result<Exit, Failure> {
        let mut client = self.client()?;
        client.set_patience(None)?;
        client.tell(&Request::Watch {})?;
        loop {
            match client.next_reply()? {
                Reply::Notice(notice) if self.json => writeln!(out, "{}", json!(notice))?,
                Reply::Notice(notice) => writeln!(out, "{}", notice.message)?,
                Reply::Refused(why) => return Err(why.into()),
                _ => {}
            }
            out.flush()?;
        }
    }
}

fn show_sender(out: &mut dyn Write, sender: &SenderView) -> io::Result<()> {
    let number = sender.number.map_or_else(String::new, |number| {
        format!(" (number {number}, of a program here)")
    });
    let answered = if sender.answered { "; answered here" } else { "" };
    writeln!(
        out,
        "{}: sends {}{number}{answered}",
        sender.flow,
        speaker::rate(sender.sends_bps)
    )?;
    for promise in &sender.promises {
        let service = if promise.guaranteed {
            "guaranteed"
        } else {
            "controlled load"
        };
        let class = promise.class.as_ref().map_or_else(String::new, |class| {
            format!(
                ", class {class}, which takes {}",
                speaker::rate(promise.counts_bps)
            )
        });
        writeln!(
            out,
            "  {}: {} {service}{class}",
            promise.interface,
            speaker::rate(promise.rate_bps)
        )?;
    }
    Ok(())
}

impl Change {
    fn run(self, out: &mut dyn Write) -> Result<Exit, Failure> {
        let request = Request::Change {
            number: self.number,
            rate_bps: self.rate.bits(),
        };
        let reply = self.ask.client()?.ask(&request)?;
        if self.ask.json {
            writeln!(out, "{}", json!(reply))?;
        }
        match reply {
            Reply::Done { message } if !self.ask.json => writeln!(out, "{message}")?,
            Reply::Refused(_) if self.ask.json => return Ok(Exit::Refused),
            Reply::Refused(why) => {
                return Err(Failure {
                    exit: Exit::Refused,
                    message: why.to_string(),
                });
            }
            _ => {}
        }
        Ok(Exit::Done)
    }
}

/// A node that lasts as long as standard input, and as the programs that hold something.
fn serve(node: &super::accept::NodeArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let end = Arc::new(AtomicBool::new(false));
    heed_signals(&end).map_err(|e| Failure::at_run_time(format!("cannot heed signals: {e}")))?;
    let socket = path_of(&node.socket);
    let alone = match Alone::start(node.config(Vec::new()), &socket, &end) {
        Ok(alone) => alone,
        Err(failure) => {
            writeln!(out, "{}", failure.message)?;
            return Ok(Exit::Failed);
        }
    };
    writeln!(out, "{READY}")?;
    out.flush()?;
    let gone = Arc::new(AtomicBool::new(false));
    let sees = Arc::clone(&gone);
    std::thread::spawn(move || {
        let mut unread = [0; 64];
        while matches!(io::stdin().read(&mut unread), Ok(1..)) {}
        sees.store(true, Ordering::Relaxed);
    });
    let held = || {
        alone
            .handle
            .status()
            .is_ok_and(|status| status.senders.iter().any(|sender| sender.number.is_some()))
    };
    while !end.load(Ordering::Relaxed) && (!gone.load(Ordering::Relaxed) || held()) {
        std::thread::sleep(GLANCE);
    }
    alone.end();
    // The directory was made for it alone; if something else is in it, it stays.
    let _ = socket.parent().map(std::fs::remove_dir);
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_in_short_and_as_in_a_policy() {
        assert_eq!(rate("40M"), Ok(Bandwidth::mbit(40)));
        assert_eq!(rate("40 Mbit/s"), Ok(Bandwidth::mbit(40)));
        assert_eq!(rate("1.5G"), Ok(Bandwidth::mbit(1500)));
        assert!(rate("40").is_err(), "bits or bytes?");
    }

    #[test]
    fn places_are_addresses_with_or_without_ports() {
        let read = |text: &str| place(text).map_err(|failure| failure.message);
        assert_eq!(read("10.0.0.1:5000"), Ok((IpAddr::from([10, 0, 0, 1]), 5000)));
        assert_eq!(read("10.0.0.1"), Ok((IpAddr::from([10, 0, 0, 1]), 0)));
        assert_eq!(
            read("[fd00::1]:80"),
            Ok(("fd00::1".parse().expect("an address"), 80))
        );
        assert_eq!(read("fd00::1"), Ok(("fd00::1".parse().expect("an address"), 0)));
        assert!(read("10.0.0.1:x").is_err());
    }
}
