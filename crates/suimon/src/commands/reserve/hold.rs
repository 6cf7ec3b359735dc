//! Keeps a reservation while a command runs, and queries what the path offers.

use super::Flow;
use crate::exit::{Exit, Failure};
use clap::Args;
use control::protocol::{Reply, Request};
use control::reservation::{PathOffer, PathRefusal, ReservationRequest, ReservationState};
use control::socket::{Client, HangUp};
use engine::units::Duration;
use gateway::signalling::client::{FoundNode, TemporaryNode};
use gateway::signalling::overview;
use gateway::supervise::handle_signals;
use serde_json::json;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::Instant;

/// The polling interval for the command, signals and the node.
const POLL_INTERVAL: std::time::Duration = std::time::Duration::from_millis(20);

/// The reservation, and the command to run.
#[derive(Debug, Args)]
pub(super) struct Hold {
    #[command(flatten)]
    flow: Flow,
    /// Run the command even if nothing could be reserved
    #[arg(long)]
    or_run_anyway: bool,
    /// Print JSON, a line for each change, on standard error
    #[arg(long)]
    json: bool,
    /// The command and its arguments; without one the reservation lasts until Ctrl-C
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

/// The reservation to query.
#[derive(Debug, Args)]
pub(super) struct Check {
    #[command(flatten)]
    flow: Flow,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The result of a reservation request.
enum PathReply {
    Reserved,
    Refused,
    Unanswered,
}

impl Hold {
    /// Runs the verb.
    pub(super) fn run(self) -> Result<Exit, Failure> {
        let wanted = self.flow.wanted()?;
        let end = Arc::new(AtomicBool::new(false));
        handle_signals(&end).map_err(|e| Failure::at_run_time(format!("cannot handle signals: {e}")))?;
        let found = self.flow.found(wanted.to)?;
        let connection = ask(
            found,
            &Request::Reserve {
                wanted: wanted.clone(),
            },
        )?;
        match self.await_reply(&connection, &end)? {
            PathReply::Reserved => {}
            PathReply::Refused if self.or_run_anyway => {}
            PathReply::Unanswered if self.or_run_anyway && !end.load(Ordering::Relaxed) => {
                self.print(
                    "no reply; the command runs without a reservation",
                    &json!({ "state": "unanswered" }),
                );
            }
            PathReply::Refused => return Ok(Exit::Refused),
            PathReply::Unanswered => {
                let message = format!(
                    "no reply for {} within {}: does the receiver run RSVP (`suimon accept`), and do the routers forward it? \
                     `suimon reserve explain` on each shows what was refused or dropped there",
                    wanted.to, self.flow.wait
                );
                self.print(&message, &json!({ "state": "unanswered" }));
                return Ok(Exit::Unanswered);
            }
        }
        let exit = match self.command.split_first() {
            Some((name, arguments)) => {
                let child = Command::new(name).args(arguments).spawn();
                let child = child.map_err(|e| Failure::at_run_time(format!("cannot run `{name}`: {e}")))?;
                self.accompany(child, &connection, &end)?
            }
            None => {
                while !end.load(Ordering::Relaxed) && self.print_changes(&connection)?.is_continue() {
                    std::thread::sleep(POLL_INTERVAL);
                }
                Exit::Done
            }
        };
        Ok(exit)
    }

    /// Prints to standard error: standard output is the command's.
    fn print(&self, message: &str, json: &serde_json::Value) {
        // A closed standard error is no reason to end.
        let _ = match self.json {
            true => writeln!(io::stderr(), "{json}"),
            false => writeln!(io::stderr(), "suimon: {message}"),
        };
    }

    fn print_progress(&self, progress: &ReservationState) {
        let message = match progress {
            ReservationState::Asked { .. } | ReservationState::Offer(_) if !self.json => return,
            ReservationState::Asked { number } => format!("requested, as number {number}"),
            ReservationState::Reserved {
                rate_bps, guaranteed, ..
            } => {
                let what = if *guaranteed { " with a delay" } else { "" };
                format!("reserved {}{what}", overview::rate(*rate_bps))
            }
            ReservationState::Lost { .. } => {
                "the reservation is lost; it will be restored with the path".into()
            }
            ReservationState::Refused(refusal) => refusal_text(refusal),
            ReservationState::Offer(_) => String::new(),
        };
        self.print(&message, &json!(progress));
    }

    fn await_reply(
        &self,
        connection: &ReservationConnection,
        end: &AtomicBool,
    ) -> Result<PathReply, Failure> {
        let until = Instant::now() + self.flow.wait();
        while Instant::now() < until && !end.load(Ordering::Relaxed) {
            let Some(progress) = connection.next()? else {
                continue;
            };
            self.print_progress(&progress);
            match progress {
                ReservationState::Reserved { .. } => return Ok(PathReply::Reserved),
                ReservationState::Refused(_) => return Ok(PathReply::Refused),
                _ => {}
            }
        }
        Ok(PathReply::Unanswered)
    }

    /// Prints the changes since the last call; breaks once the node has ended.
    fn print_changes(&self, connection: &ReservationConnection) -> Result<ControlFlow<()>, Failure> {
        loop {
            match connection.replies.try_recv() {
                Ok(Reply::Reservation(progress)) => self.print_progress(&progress),
                Ok(_) => {}
                Err(TryRecvError::Empty) => return Ok(ControlFlow::Continue(())),
                Err(TryRecvError::Disconnected) => {
                    self.print(
                        "the node has ended, and the reservation with it",
                        &json!({ "state": "lost" }),
                    );
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
    }

    /// Waits for the end of the command; a signal to end is passed on to it.
    fn accompany(
        &self,
        mut child: Child,
        connection: &ReservationConnection,
        end: &AtomicBool,
    ) -> Result<Exit, Failure> {
        let (mut connected, mut passed) = (true, false);
        loop {
            let ended = child
                .try_wait()
                .map_err(|e| Failure::at_run_time(format!("cannot wait for the command: {e}")))?;
            if let Some(status) = ended {
                return Ok(status.into());
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
            connected = connected && self.print_changes(connection)?.is_continue();
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// A refusal, human-readable.
fn refusal_text(refusal: &PathRefusal) -> String {
    let left = refusal.left_bps.map_or_else(String::new, |left| {
        format!(
            "; {} available on the bottleneck link of the path",
            overview::rate(left)
        )
    });
    format!(
        "refused by {}: {}; requested {}{left}{}",
        refusal.node,
        refusal.reason,
        overview::rate(refusal.asked_bps),
        possible_delay(refusal.possible_delay_us)
    )
}

/// The delay that a path could guarantee, human-readable.
fn possible_delay(micros: Option<u64>) -> String {
    micros.map_or_else(String::new, |micros| {
        format!(
            "; the shortest delay that it can guarantee now is {}",
            Duration::from_micros(micros)
        )
    })
}

/// A connection that keeps a reservation, and the replies on it.
struct ReservationConnection {
    replies: Receiver<Reply>,
    // In this order: first the reservation ends, then the temporary node.
    _hang_up: HangUp,
    _temporary: Option<TemporaryNode>,
}

/// Sends a request on a connection of its own; the replies arrive on a channel.
fn ask(node: FoundNode, request: &Request) -> Result<ReservationConnection, Failure> {
    let mut client = Client::connect(Some(&node.socket))?;
    let hang_up = client.hang_up_later()?;
    let first = client.ask(request)?;
    if let Reply::Refused(why) = first {
        return Err(why.into());
    }
    client.wait_for_ever();
    let (sender, replies) = channel();
    std::thread::spawn(move || {
        let mut reply = Ok(first);
        while let Ok(one) = reply {
            if sender.send(one).is_err() {
                return;
            }
            reply = client.next_reply();
        }
    });
    Ok(ReservationConnection {
        replies,
        _hang_up: hang_up,
        _temporary: node.temporary,
    })
}

impl ReservationConnection {
    /// The next state of the reservation, if it comes soon.
    fn next(&self) -> Result<Option<ReservationState>, Failure> {
        match self.replies.recv_timeout(POLL_INTERVAL) {
            Ok(Reply::Reservation(progress)) => Ok(Some(progress)),
            Ok(Reply::Refused(why)) => Err(why.into()),
            Ok(_) | Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Failure::at_run_time("the node has ended")),
        }
    }
}

impl Check {
    /// Runs the verb.
    pub(super) fn run(self, out: &mut dyn Write) -> Result<Exit, Failure> {
        let wanted = self.flow.wanted()?;
        let found = self.flow.found(wanted.to)?;
        let connection = ask(
            found,
            &Request::Trial {
                wanted: wanted.clone(),
            },
        )?;
        let until = Instant::now() + self.flow.wait();
        while Instant::now() < until {
            match connection.next()? {
                Some(ReservationState::Offer(offer)) => {
                    show_offer(out, &wanted, &offer, self.json)?;
                    return Ok(if offer.fits { Exit::Done } else { Exit::Refused });
                }
                Some(ReservationState::Refused(refusal)) => {
                    match self.json {
                        true => writeln!(out, "{}", json!(ReservationState::Refused(refusal)))?,
                        false => writeln!(out, "{}", refusal_text(&refusal))?,
                    }
                    return Ok(Exit::Refused);
                }
                _ => {}
            }
        }
        match self.json {
            true => writeln!(out, "{}", json!({ "state": "unanswered" }))?,
            false => writeln!(out, "no reply for {} within {}", wanted.to, self.flow.wait)?,
        }
        Ok(Exit::Unanswered)
    }
}

fn show_offer(
    out: &mut dyn Write,
    wanted: &ReservationRequest,
    offer: &PathOffer,
    as_json: bool,
) -> io::Result<()> {
    if as_json {
        return writeln!(out, "{}", json!(ReservationState::Offer(offer.clone())));
    }
    let left = offer.left_bps.map_or_else(
        || "no link has a limit".into(),
        |left| format!("{} available on the bottleneck link", overview::rate(left)),
    );
    let rate = offer.rate_for_delay_bps.map_or_else(String::new, |rate| {
        format!(", which takes {}", overview::rate(rate))
    });
    let requested = overview::rate(wanted.rate_bps);
    match &offer.why {
        None => writeln!(
            out,
            "{requested} would fit{rate}: {left}; {} hops, datagrams of up to {} bytes",
            offer.hops, offer.mtu_bytes
        ),
        Some(why) => writeln!(
            out,
            "{requested} would not fit{rate}: {why}; {left}{}",
            possible_delay(offer.possible_delay_us)
        ),
    }
}
