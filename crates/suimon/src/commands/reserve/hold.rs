//! Holding a reservation while a command runs, and asking what the path offers.

use super::Flow;
use crate::exit::{Exit, Failure};
use clap::Args;
use control::protocol::{Reply, Request};
use control::reservation::{Denial, Offer, Progress, Wanted};
use control::socket::{Client, HangUp};
use gateway::signalling::client::{Found, Guard};
use gateway::signalling::speaker;
use gateway::supervise::heed_signals;
use serde_json::json;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::Instant;

/// How often it looks at the command, at signals and at what the node says.
const GLANCE: std::time::Duration = std::time::Duration::from_millis(20);

/// What is to be held, and beside what.
#[derive(Debug, Args)]
pub(super) struct Hold {
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

/// What is to be asked.
#[derive(Debug, Args)]
pub(super) struct Check {
    #[command(flatten)]
    flow: Flow,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What is known of a reservation that is being made.
enum Outcome {
    Reserved,
    Refused,
    Nothing,
}

impl Hold {
    /// Does it.
    pub(super) fn run(self) -> Result<Exit, Failure> {
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
                    "nobody answered for {} within {}: is there an RSVP receiver (`suimon accept`), and do the routers pass it on? `suimon reserve explain` \
                     at each says what was refused or not believed there",
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
    client.wait_for_ever();
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
    /// Does it.
    pub(super) fn run(self, out: &mut dyn Write) -> Result<Exit, Failure> {
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
