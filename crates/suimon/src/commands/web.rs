//! `suimon web`: a running suimon over HTTP, read only unless changes may be undone.

use crate::commands::Context;
use crate::exit::{Exit, Failure};
use crate::sandbox_option::SandboxOption;
use clap::Args;
use confine::{Confinement, Role};
use gateway::confined::Sandbox;
use std::net::{SocketAddr, TcpListener};
use web::addresses::LISTEN;
use web::experience_metrics::HostMetrics;
use web::server::{self, Served};
use web::token::Token;

/// Show a running suimon in a browser, and to Prometheus: a live page, `/metrics`, `/api/status`,
/// `/api/history`, `/api/what-if`, and what describes them all, `/api/openapi.json`; read only but
/// for `--undo`
#[derive(Debug, Args)]
pub struct Web {
    /// The address to listen on; whoever reaches it can read
    #[arg(long, default_value = LISTEN, value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// Let whoever opens the page by the address that is told at the start undo changes, and put
    /// other generations back
    #[arg(long)]
    undo: bool,
    /// Have what each host behind an interface has in `/metrics`, too, by its address, where the
    /// policy measures it (`experience = "hosts"`); whoever keeps the metrics keeps the addresses
    #[arg(long)]
    hosts: bool,
    /// The running suimon, by name or by the path of its socket; by default the only one
    #[arg(long, value_name = "NAME|PATH")]
    socket: Option<String>,
    #[command(flatten)]
    sandbox: SandboxOption,
}

impl Web {
    /// Serves until it is ended.
    pub fn run(self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let listener = TcpListener::bind(self.listen).map_err(|why| {
            Failure::at_run_time(format!(
                "cannot listen on {}: {why}; choose another with `--listen`",
                self.listen
            ))
        })?;
        let at = listener.local_addr()?;
        writeln!(
            cx.out,
            "http://{at}/   the page; http://{at}/metrics for Prometheus"
        )?;
        let token = self
            .undo
            .then(Token::new)
            .transpose()
            .map_err(|why| Failure::at_run_time(format!("cannot make a token for `--undo`: {why}")))?;
        let may_change = match &token {
            None => "nobody can change anything",
            Some(_) => "who has the token can undo changes, and it is not encrypted on its way",
        };
        if let Some(token) = &token {
            writeln!(
                cx.out,
                "http://{at}/#token={}   the page, from where changes can be undone",
                token.told()
            )?;
        }
        if !at.ip().is_loopback() {
            writeln!(cx.out, "everyone who reaches {at} can read; {may_change}")?;
        }
        if self.sandbox.chosen() == Sandbox::On {
            // It looks there for the only socket, perhaps one of a program that starts later.
            let folder = control::socket::folder_of(self.socket.as_deref());
            let confinement = Confinement::changing([]).with_file(&folder).reading([folder]);
            for lacking in confinement.enter(Role::Web) {
                writeln!(cx.out, "warning: {lacking}")?;
            }
        }
        cx.out.flush()?;
        let served = Served {
            socket: self.socket,
            registry: cx.registry.clone(),
            token,
            hosts: match self.hosts {
                true => HostMetrics::ByAddress,
                false => HostMetrics::Absent,
            },
        };
        server::serve(listener, served)?;
        Ok(Exit::Done)
    }
}
