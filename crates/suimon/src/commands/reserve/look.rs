//! Shows the reservations of a node, and changes one.

use crate::exit::{Exit, Failure};
use clap::Args;
use control::protocol::{Reply, Request};
use control::reservation::{RsvpInterfaceView, RsvpStatus, SenderView};
use control::socket::Client;
use engine::bounds::shown;
use engine::units::{Bandwidth, Duration};
use gateway::signalling::client;
use gateway::signalling::overview;
use serde_json::json;
use std::io::{self, Write};

/// Which node to query.
#[derive(Debug, Args)]
pub(super) struct Query {
    /// The node's control socket; if not given, that of the node on this host
    #[arg(long, value_name = "NAME|PATH")]
    socket: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The change.
#[derive(Debug, Args)]
pub(super) struct Change {
    /// The reservation's number, as `status` shows it
    number: u64,
    /// The new rate, in IP datagrams
    #[arg(long, value_name = "RATE", value_parser = crate::commands::rsvp_options::rate)]
    rate: Bandwidth,
    #[command(flatten)]
    query: Query,
}

impl Query {
    fn client(&self) -> Result<Client, Failure> {
        let found = client::running(self.socket.as_deref())?;
        Ok(Client::connect(Some(&found.socket))?)
    }

    fn read(&self) -> Result<RsvpStatus, Failure> {
        match self.client()?.ask(&Request::Reservations {})? {
            Reply::Reservations(status) => Ok(*status),
            Reply::Refused(why) => Err(why.into()),
            other => Err(Failure::at_run_time(format!("expected a status, got {other:?}"))),
        }
    }

    /// Runs the verb.
    pub(super) fn status(&self, out: &mut dyn Write) -> Result<Exit, Failure> {
        let status = self.read()?;
        if self.json {
            writeln!(out, "{}", json!(status))?;
            return Ok(Exit::Done);
        }
        let keys = status.interfaces.iter().any(|link| link.keys.is_some());
        for link in &status.interfaces {
            show_link(out, link, keys)?;
        }
        for sender in &status.senders {
            show_sender(out, sender)?;
        }
        if status.senders.is_empty() {
            writeln!(out, "there is no path state")?;
        }
        if let Some(counts) = &status.refresh_reduction
            && counts.summarised > 0
        {
            writeln!(
                out,
                "refresh reduction: {} refreshes summarised; {} messages retransmitted, {} given up",
                counts.summarised, counts.retransmitted, counts.given_up
            )?;
        }
        let dropped: u64 = status.dropped.iter().map(|dropped| dropped.count).sum();
        if dropped > 0 {
            writeln!(
                out,
                "{dropped} messages failed the integrity check; `suimon reserve explain` shows whose, and advises"
            )?;
        }
        if status.malformed + status.overflow > 0 {
            writeln!(
                out,
                "{} messages received; {} malformed, {} beyond the rate limit",
                status.heard, status.malformed, status.overflow
            )?;
        }
        Ok(Exit::Done)
    }

    /// Runs the verb.
    pub(super) fn explain(&self, out: &mut dyn Write) -> Result<Exit, Failure> {
        let status = self.read()?;
        if self.json {
            writeln!(
                out,
                "{}",
                json!({
                    "refusals": status.refusals,
                    "dropped": status.dropped,
                    "limits": status.limits,
                    "interfaces": status.interfaces,
                })
            )?;
            return Ok(Exit::Done);
        }
        for refusal in &status.refusals {
            let whom = refusal
                .flow
                .as_ref()
                .map_or_else(|| "several senders".into(), ToString::to_string);
            let delay = refusal.possible_delay_us.map_or_else(String::new, |delay| {
                format!("; it could guarantee a delay of {}", Duration::from_micros(delay))
            });
            writeln!(
                out,
                "{:.0} s ago, {whom}: refused on {}: {}; requested {}, available {}, as the link counts{delay}",
                refusal.seconds_ago,
                refusal.interface,
                refusal.reason,
                overview::rate(refusal.asked_bps),
                overview::rate(refusal.left_bps)
            )?;
        }
        for dropped in &status.dropped {
            writeln!(
                out,
                "{:.0} s ago, {}: {} messages from {} were dropped: {}",
                dropped.seconds_ago, dropped.interface, dropped.count, dropped.from, dropped.message
            )?;
        }
        for limit in &status.limits {
            let from = limit
                .from
                .map_or_else(String::new, |from| format!(", last of {from}"));
            writeln!(
                out,
                "{:.0} s ago, {}: {} times{from}",
                limit.seconds_ago, limit.message, limit.count
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
                    overview::rate(whole.saturating_sub(used)),
                    overview::rate(whole)
                )?;
            }
        }
        Ok(Exit::Done)
    }

    /// Runs the verb.
    pub(super) fn watch(&self, out: &mut dyn Write) -> Result<Exit, Failure> {
        let mut client = self.client()?;
        client.wait_for_ever();
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

/// Shows an interface; `keys`: whether any interface has keys.
fn show_link(out: &mut dyn Write, link: &RsvpInterfaceView, keys: bool) -> io::Result<()> {
    let room = match (link.reserved_bps, link.reservable_bps) {
        (Some(used), Some(whole)) => format!(
            "{} of {} reserved, as the link counts",
            overview::rate(used),
            overview::rate(whole)
        ),
        _ => "not managed: no admission control, and no enforcement".into(),
    };
    let keys = match link.keys {
        None if keys => "; no key: messages of any host on the link are accepted",
        None => "",
        Some(keys) if keys.stale => "; the sending key has expired, and there is no other",
        Some(keys) if keys.required => "; messages must carry INTEGRITY",
        Some(_) => "; messages carry INTEGRITY, and those without it pass",
    };
    let error = link
        .error
        .as_ref()
        .map_or_else(String::new, |error| format!("; {error}"));
    writeln!(out, "{}: {room}{keys}{error}", link.name)
}

fn show_sender(out: &mut dyn Write, sender: &SenderView) -> io::Result<()> {
    let number = sender.number.map_or_else(String::new, |number| {
        format!(" (number {number}, of a local program)")
    });
    let answered = match (sender.answered, sender.bound_ns) {
        (false, _) => String::new(),
        (true, None) => "; terminated here".into(),
        (true, Some(bound)) => {
            let bound = shown(Duration::from_nanos(bound));
            format!("; terminated here, at most {bound} in queues")
        }
    };
    let previous = match (sender.previous, sender.forgotten_in_s) {
        (Some(previous), Some(seconds)) => {
            format!("; previous hop {previous}, times out in {seconds:.0} s unless refreshed")
        }
        _ => String::new(),
    };
    writeln!(
        out,
        "{}: sends {}{number}{answered}{previous}",
        sender.flow,
        overview::rate(sender.sends_bps)
    )?;
    for reservation in &sender.reservations {
        let service = if reservation.guaranteed {
            "guaranteed"
        } else {
            "controlled load"
        };
        let class = reservation.class.as_ref().map_or_else(String::new, |class| {
            format!(
                ", class {class}, which takes {}",
                overview::rate(reservation.link_rate_bps)
            )
        });
        writeln!(
            out,
            "  {}: {} {service}{class}",
            reservation.interface,
            overview::rate(reservation.rate_bps)
        )?;
    }
    Ok(())
}

impl Change {
    /// Runs the verb.
    pub(super) fn run(self, out: &mut dyn Write) -> Result<Exit, Failure> {
        let request = Request::Change {
            number: self.number,
            rate_bps: self.rate.bits(),
        };
        let reply = self.query.client()?.ask(&request)?;
        if self.query.json {
            writeln!(out, "{}", json!(reply))?;
        }
        match reply {
            Reply::Done { message, .. } if !self.query.json => writeln!(out, "{message}")?,
            Reply::Refused(_) if self.query.json => return Ok(Exit::Refused),
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
