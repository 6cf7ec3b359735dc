//! `suimon reserve`: reserves bandwidth along a path while a command runs; and shows reservations.
//!
//! A reservation lasts as long as a connection to the node that speaks RSVP on this host. However
//! this process ends, the connection ends too, and the node tears the reservation down.

mod hold;
mod look;
mod node;

use crate::commands::Context;
use crate::exit::{Exit, Failure};
use clap::{Args, Subcommand};
use control::reservation::{ReservationRequest, USUAL_PACKET};
use engine::units::{Bandwidth, Bytes, Duration};
use gateway::signalling::client::{self, FoundNode};
use hold::{Check, Hold};
use look::{Change, Query};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// Reserve bandwidth along the path to a host while a command runs (RSVP)
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
    /// Query what the path offers, without reserving
    Check(Check),
    /// Show the reservations and the path state of this node
    Status(Query),
    /// Show why reservations were refused: which hop, what was requested, what is available
    Explain(Query),
    /// Print everything that happens to reservations, until Ctrl-C
    Watch(Query),
    /// Change the rate of a reservation of a program on this host
    Change(Change),
    /// A temporary node, until standard input ends
    #[command(hide = true)]
    Node(super::rsvp_options::NodeArgs),
}

/// The flow, and its reservation.
#[derive(Debug, Args)]
struct Flow {
    /// The receiver, as HOST:PORT; HOST alone for a protocol without ports
    #[arg(long, value_name = "HOST[:PORT]")]
    to: Option<String>,
    /// The rate, in IP datagrams: 40M, or "40 Mbit/s"
    #[arg(long, value_name = "RATE", value_parser = super::rsvp_options::rate)]
    rate: Option<Bandwidth>,
    /// The source, as HOST, HOST:PORT or :PORT; by default the route's address and any port
    #[arg(long, value_name = "[HOST][:PORT]")]
    from: Option<String>,
    /// The transport protocol: udp, tcp, gre, esp, ipip, or a number
    #[arg(long, default_value = "udp", value_parser = super::rsvp_options::protocol)]
    protocol: u8,
    /// The bucket depth: 64kB; by default 10 ms of the rate
    #[arg(long, value_name = "LENGTH", value_parser = length)]
    burst: Option<Bytes>,
    /// The minimum policed unit, which determines the header overhead; shorter packets count as
    /// this
    #[arg(long, value_name = "LENGTH", value_parser = length)]
    packet: Option<Bytes>,
    /// A bound on the queueing delay: guaranteed service, if the routers offer it
    #[arg(long, value_name = "TIME", value_parser = time)]
    delay: Option<Duration>,
    /// How long to wait for the path's reply
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    wait: Duration,
    #[command(flatten)]
    node: NodeChoice,
}

/// The node to connect to, or to start.
#[derive(Debug, Args)]
struct NodeChoice {
    /// The node's control socket; if not given, that of the node on this host, or of a temporary
    /// one (root)
    #[arg(long, value_name = "NAME|PATH")]
    socket: Option<String>,
    /// The refresh period R of a temporary node
    #[arg(long, value_name = "TIME", default_value = "30s")]
    refresh: String,
    /// The key file of a temporary node; only this user may read it (mode 600)
    #[arg(long, value_name = "FILE")]
    keys: Option<String>,
    /// No refresh reduction (RFC 2961) in a temporary node
    #[arg(long)]
    no_refresh_reduction: bool,
}

impl NodeChoice {
    /// The options of a temporary node.
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

fn length(text: &str) -> Result<Bytes, String> {
    text.parse().map_err(|e: engine::units::UnitError| e.to_string())
}

fn time(text: &str) -> Result<Duration, String> {
    text.parse().map_err(|e: engine::units::UnitError| e.to_string())
}

/// Resolves a host and a port; the port is 0 if there is none.
fn endpoint(text: &str) -> Result<(IpAddr, u16), Failure> {
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
                .map_err(|_| Failure::usage(format!("`{port}` is not a port")))?,
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
    fn wanted(&self) -> Result<ReservationRequest, Failure> {
        let missing = || Failure::usage("missing arguments: --to HOST:PORT --rate 40M");
        let (text, rate) = (
            self.to.as_deref().ok_or_else(missing)?,
            self.rate.ok_or_else(missing)?,
        );
        let has_ports = control::filters::has_ports(self.protocol);
        let (to, port) = endpoint(text)?;
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
                        .map_err(|_| Failure::usage(format!("`{port}` is not a port")))?,
                ),
                None => {
                    let (from, port) = endpoint(text)?;
                    (Some(from), port)
                }
            },
        };
        let bytes = |length: Option<Bytes>, usual: u32| {
            length.map_or(usual, |length| u32::try_from(length.get()).unwrap_or(u32::MAX))
        };
        Ok(ReservationRequest {
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

    /// The node that a request for this destination goes to.
    fn found(&self, to: IpAddr) -> Result<FoundNode, Failure> {
        Ok(client::running_or_own(
            self.node.socket.as_deref(),
            to,
            &self.node.options(),
        )?)
    }

    fn wait(&self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.wait.nanos())
    }
}

impl Reserve {
    /// Runs the verb.
    pub fn run(self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let out = &mut *cx.out;
        match self.what {
            Some(What::Check(check)) => check.run(out),
            Some(What::Status(query)) => query.status(out),
            Some(What::Explain(query)) => query.explain(out),
            Some(What::Watch(query)) => query.watch(out),
            Some(What::Change(change)) => change.run(out),
            Some(What::Node(args)) => node::serve(&args, out),
            None => self.hold.run(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::rsvp_options::rate;

    #[test]
    fn rates_are_read_in_short_and_as_in_a_policy() {
        assert_eq!(rate("40M"), Ok(Bandwidth::mbit(40)));
        assert_eq!(rate("40 Mbit/s"), Ok(Bandwidth::mbit(40)));
        assert_eq!(rate("1.5G"), Ok(Bandwidth::mbit(1500)));
        assert!(rate("40").is_err(), "bits or bytes?");
    }

    #[test]
    fn endpoints_are_addresses_with_or_without_ports() {
        let read = |text: &str| endpoint(text).map_err(|failure| failure.message);
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
