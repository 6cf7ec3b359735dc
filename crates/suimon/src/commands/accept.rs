//! `suimon accept`: a receiver proxy that answers Path messages by rules, so that senders need no
//! RSVP program at the other end.

use super::rsvp_options::{NodeArgs, protocol, rate};
use crate::commands::Context;
use crate::exit::{Exit, Failure};
use crate::sandbox_option::SandboxOption;
use clap::Args;
use confine::Role;
use control::rsvp_config::{AcceptRule, AcceptStyle};
use control::socket::path_of;
use engine::classify::{Ports, Prefix};
use engine::units::Bandwidth;
use gateway::signalling::standalone::{self, StandaloneNode};
use gateway::supervise::handle_signals;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The interval of its checks for the end.
const POLL_INTERVAL: std::time::Duration = std::time::Duration::from_millis(50);

/// Reserve for senders towards this host, until SIGINT or SIGTERM; root, or CAP_NET_RAW
#[derive(Debug, Args)]
pub struct Accept {
    /// Only for these senders: an address or a prefix
    #[arg(long, value_name = "PREFIX", value_parser = prefix)]
    from: Option<Prefix>,
    /// For these hosts behind this one, as their proxy; by default this host's own addresses
    #[arg(long, value_name = "PREFIX", value_parser = prefix)]
    to: Option<Prefix>,
    /// Only for these destination ports: 5000, or 5000-5010
    #[arg(long, value_name = "PORTS", value_parser = ports)]
    port: Option<Ports>,
    /// Only for this transport protocol: udp, tcp, gre, esp, or a number
    #[arg(long, value_parser = protocol)]
    protocol: Option<u8>,
    /// The style: a reservation for each sender (ff), or one that they share (se: those that are
    /// covered here; wf: all of the session)
    #[arg(long, default_value = "ff", value_parser = style)]
    style: AcceptStyle,
    /// The maximum rate of one reservation, in IP datagrams
    #[arg(long, value_name = "RATE", value_parser = rate)]
    up_to: Option<Bandwidth>,
    #[command(flatten)]
    node: NodeArgs,
    #[command(flatten)]
    sandbox: SandboxOption,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn prefix(text: &str) -> Result<Prefix, String> {
    text.parse().map_err(|e: engine::classify::FilterError| e.0)
}

fn style(text: &str) -> Result<AcceptStyle, String> {
    match text {
        "ff" => Ok(AcceptStyle::Fixed),
        "se" => Ok(AcceptStyle::SharedExplicit),
        "wf" => Ok(AcceptStyle::Wildcard),
        _ => Err("expected ff, se or wf".into()),
    }
}

fn ports(text: &str) -> Result<Ports, String> {
    text.parse().map_err(|e: engine::classify::FilterError| e.0)
}

impl Accept {
    /// Answers Path messages until a signal or a client ends it.
    pub fn run(self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        self.node.log.begin();
        let out = &mut *cx.out;
        let rule = AcceptRule {
            to: self.to,
            from: self.from,
            protocol: self.protocol,
            port: self.port,
            style: self.style,
            up_to: self.up_to,
        };
        let end = Arc::new(AtomicBool::new(false));
        handle_signals(&end).map_err(|e| Failure::at_run_time(format!("cannot handle signals: {e}")))?;
        let socket = path_of(&self.node.socket);
        let config = self.node.config(vec![rule]);
        let confinement = standalone::confinement(self.sandbox.chosen(), &config, &socket)?;
        for lacking in confinement.enter(Role::Program) {
            tracing::warn!("{lacking}");
        }
        let node = StandaloneNode::start(config, &socket, &end, &confinement)?;
        if self.json {
            writeln!(out, "{}", json!({ "state": "accepting", "socket": node.path() }))?;
        } else {
            writeln!(
                out,
                "accepting reservations; control socket {}",
                node.path().display()
            )?;
        }
        out.flush()?;
        while !end.load(Ordering::Relaxed) {
            std::thread::sleep(POLL_INTERVAL);
        }
        node.end();
        Ok(Exit::Done)
    }
}
