//! `suimon accept`: a host that answers reservations by rule, so that who sends need not ask anybody at the other end.

use crate::commands::Context;
use crate::exit::{Exit, Failure};
use clap::Args;
use control::rsvp_config::{Accept as Rule, Protection, RsvpConfig, RsvpSettings};
use control::socket::path_of;
use engine::classify::{Ports, Prefix};
use engine::units::{Bandwidth, Duration};
use gateway::signalling::alone::Alone;
use gateway::supervise::heed_signals;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How often it looks whether it is to end.
const GLANCE: std::time::Duration = std::time::Duration::from_millis(50);

/// Answer reservations of senders towards this host, until SIGINT or SIGTERM; root, or CAP_NET_RAW
#[derive(Debug, Args)]
pub struct Accept {
    /// From these senders only: an address or a prefix
    #[arg(long, value_name = "PREFIX", value_parser = prefix)]
    from: Option<Prefix>,
    /// For these hosts behind this one, for which it answers; this host's own addresses if not given
    #[arg(long, value_name = "PREFIX", value_parser = prefix)]
    to: Option<Prefix>,
    /// To these destination ports only: 5000, or 5000-5010
    #[arg(long, value_name = "PORTS", value_parser = ports)]
    port: Option<Ports>,
    /// Of this transport protocol only: udp, tcp, gre, esp, or a number
    #[arg(long, value_parser = protocol)]
    protocol: Option<u8>,
    /// No more than this for one reservation, in IP datagrams
    #[arg(long, value_name = "RATE", value_parser = super::reserve::rate)]
    up_to: Option<Bandwidth>,
    #[command(flatten)]
    node: NodeArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What a node is told that runs on a host by itself.
#[derive(Debug, Args)]
pub struct NodeArgs {
    /// Speak RSVP on this interface only; may be given several times. All that have an address, if not given
    #[arg(long, value_name = "NAME")]
    interface: Vec<String>,
    /// How often state is told anew, on average
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = refresh)]
    refresh: Duration,
    /// A file of keys with which messages are protected, this user's alone (mode 600)
    #[arg(long, value_name = "FILE")]
    keys: Option<String>,
    /// Tell all state anew whole, as neighbours need that misread refreshes by name (RFC 2961)
    #[arg(long)]
    no_refresh_reduction: bool,
    /// Name or path of the control socket
    #[arg(long, value_name = "NAME|PATH", default_value = "rsvp")]
    pub socket: String,
}

fn prefix(text: &str) -> Result<Prefix, String> {
    text.parse().map_err(|e: engine::classify::FilterError| e.0)
}

fn ports(text: &str) -> Result<Ports, String> {
    text.parse().map_err(|e: engine::classify::FilterError| e.0)
}

fn refresh(text: &str) -> Result<Duration, String> {
    let read: Duration = text
        .parse()
        .map_err(|e: engine::units::UnitError| e.to_string())?;
    let sound = read >= Duration::from_millis(100) && read <= Duration::from_secs(3600);
    sound
        .then_some(read)
        .ok_or_else(|| "a refresh period is from 100 ms to 1 h".into())
}

/// A transport protocol by name or number.
pub fn protocol(text: &str) -> Result<u8, String> {
    control::filters::protocol_number(text)
}

impl NodeArgs {
    /// A node with these rules.
    pub fn config(&self, accept: Vec<Rule>) -> RsvpConfig {
        const USUAL: u32 = 5000;
        RsvpConfig {
            interfaces: self.interface.clone(),
            settings: RsvpSettings {
                refresh: self.refresh,
                most_messages: USUAL,
                keys: self.keys.clone(),
                protection: Protection::Required,
                refresh_reduction: !self.no_refresh_reduction,
            },
            unprotected: Vec::new(),
            accept,
        }
    }
}

impl Accept {
    /// Answers until it is told to end.
    pub fn run(self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let out = &mut *cx.out;
        let rule = Rule {
            to: self.to,
            from: self.from,
            protocol: self.protocol,
            port: self.port,
            up_to: self.up_to,
        };
        let end = Arc::new(AtomicBool::new(false));
        heed_signals(&end).map_err(|e| Failure::at_run_time(format!("cannot heed signals: {e}")))?;
        let socket = path_of(&self.node.socket);
        let node = Alone::start(self.node.config(vec![rule]), &socket, &end)?;
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
            std::thread::sleep(GLANCE);
        }
        node.end();
        Ok(Exit::Done)
    }
}
