//! `suimon run`: puts a policy into force on real interfaces, until it is ended.

use crate::commands::Context;
use crate::exit::{Exit, Failure};
use crate::line::{LinePolicy, Rates};
use crate::log::LogOptions;
use crate::sandbox_option::SandboxOption;
use crate::source;
use clap::Args;
use control::policy::Policy;
use engine::tree::Registry;
use gateway::enforce::{Origin, enforce};
use gateway::facts::{self, Facts};
use gateway::kept::{Kept, MadeOf};
use gateway::selfcheck;
use std::path::{Path, PathBuf};

/// Put a policy into force on real interfaces, until SIGINT, SIGTERM or `suimon detach`; SIGHUP
/// applies the file again
#[derive(Debug, Args)]
pub struct Run {
    /// The policy, a TOML file (see `suimon check`), `-` for standard input; or an interface: cake
    /// for what leaves and arrives by it, fair per device
    #[arg(value_name = "FILE|INTERFACE")]
    policy: String,
    #[command(flatten)]
    rates: Rates,
    /// Name or path of the control socket; by default the policy file's name
    #[arg(long, value_name = "NAME|PATH")]
    socket: Option<String>,
    /// Keep every change in this folder, and begin with what was last confirmed there, however the
    /// last run ended; the file counts if it was changed since and that run ended in order
    #[arg(long, value_name = "FOLDER")]
    state: Option<PathBuf>,
    #[command(flatten)]
    log: LogOptions,
    #[command(flatten)]
    sandbox: SandboxOption,
}

impl Run {
    /// Runs it.
    pub fn run(&self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        self.log.begin();
        let (policy, state, made_of) = self.read(cx.registry)?;
        let name = self.name();
        let socket = self.socket.as_deref().unwrap_or(&name);
        let file = match self.policy.as_str() {
            "-" => None,
            _ if self.is_interface() => None,
            file => Some(std::path::absolute(file)?),
        };
        let origin = Origin {
            file: file.as_deref(),
            state,
            made_of,
            sandbox: self.sandbox.chosen(),
            heir: None,
        };
        enforce(&policy, cx.registry, origin, &name, socket, &mut |_| Ok(()))?;
        Ok(Exit::Done)
    }

    /// The policy to begin with, where its generations are kept, and what it was made of.
    fn read(&self, registry: &Registry) -> Result<(Policy, Option<Kept>, MadeOf), Failure> {
        let text = self.text()?;
        let (state, made_of) = match &self.state {
            None => (None, MadeOf::text(&self.policy, &text)),
            Some(folder) => {
                let begun = Kept::begin(folder, &self.policy, &text);
                let (kept, made_of, news) = begun.map_err(Failure::at_run_time)?;
                if let Some(news) = news {
                    tracing::info!("{news}");
                }
                (Some(kept), made_of)
            }
        };
        let policy = source::made(&made_of, registry)?;
        self.log.diagnostics(&policy.warnings);
        Ok((policy, state, made_of))
    }

    /// Whether an interface is named, and no file.
    fn is_interface(&self) -> bool {
        self.policy != "-" && !Path::new(&self.policy).exists() && Facts::of(&self.policy).is_some()
    }

    /// The policy's text.
    fn text(&self) -> Result<String, Failure> {
        if self.is_interface() {
            let line = LinePolicy::of(&self.policy, self.rates).map_err(Failure::usage)?;
            line.notes().iter().for_each(|note| tracing::info!("{note}"));
            return Ok(line.text());
        }
        let is_file = self.policy == "-" || Path::new(&self.policy).exists();
        if !is_file && !self.policy.contains(['/', '.']) {
            let missing = selfcheck::missing(&facts::names(), &self.policy);
            return Err(Failure::usage(format!(
                "there is no file {}: {missing}",
                self.policy
            )));
        }
        if !self.rates.are_missing() {
            return Err(Failure::usage(format!(
                "{}: rates are for an interface; a policy has its own `bandwidth`",
                self.policy
            )));
        }
        source::load("policy", &self.policy)
    }

    /// The policy's name: its file's, without the ending.
    fn name(&self) -> String {
        match Path::new(&self.policy).file_stem() {
            Some(stem) if self.policy != "-" => stem.to_string_lossy().into_owned(),
            _ => "policy".into(),
        }
    }
}
