//! `suimon reserve`: bandwidth along a path, as long as a command runs; and what there is to see of it.
//!
//! The reservation's life is that of a connection to the node that speaks RSVP on this host. However this process ends, the
//! connection does, and the node tears down what it held.

mod hold;
mod look;
mod node;

use crate::commands::Context;
use crate::exit::{Exit, Failure};
use clap::{Args, Subcommand};
use control::reservation::{USUAL_PACKET, Wanted};
use engine::units::{Bandwidth, Bytes, Duration};
use gateway::signalling::client::{self, Found};
use hold::{Check, Hold};
use look::{Ask, Change};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

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
    /// The file of keys of a node of our own, this user's alone (mode 600)
    #[arg(long, value_name = "FILE")]
    keys: Option<String>,
    /// A node of our own tells all state anew whole (no RFC 2961)
    #[arg(long)]
    no_refresh_reduction: bool,
}

impl OwnNode {
    /// What a node of our own is told.
    fn options(&self) -> Vec<String> {
        let mut options = vec!["--refresh".to_owned(), self.refresh.clone()];
        if let Some(keys) = &self.keys {
            options.extend(["--keys".to_owned(), keys.clone()]);
        }
        if self.no_refresh_reduction {
            options.push("--no-refresh-reduction".to_owned());
        }
        options
    }
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
        Ok(client::running_or_own(
            self.node.socket.as_deref(),
            &self.node.options(),
        )?)
    }

    fn wait(&self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.wait.nanos())
    }
}

impl Reserve {
    /// Does what was asked.
    pub fn run(self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let out = &mut *cx.out;
        match self.what {
            Some(What::Check(check)) => check.run(out),
            Some(What::Status(ask)) => ask.status(out),
            Some(What::Explain(ask)) => ask.explain(out),
            Some(What::Watch(ask)) => ask.watch(out),
            Some(What::Change(change)) => change.run(out),
            Some(What::Node(args)) => node::serve(&args, out),
            None => self.hold.run(),
        }
    }
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
