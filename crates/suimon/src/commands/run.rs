//! `suimon run`: puts a policy into force on real interfaces, until it is ended.

use crate::commands::Context;
use crate::exit::{Exit, Failure};
use crate::source;
use clap::Args;
use control::policy::Policy;
use engine::tree::Registry;
use gateway::enforce::enforce;
use plot::colour;
use std::io;
use std::path::Path;

/// Put a policy into force on real interfaces, until SIGINT, SIGTERM or `suimon detach`; SIGHUP
/// applies the file again
#[derive(Debug, Args)]
pub struct Run {
    /// The policy, a TOML file (see `suimon check`); `-` reads standard input
    policy: String,
    /// Name or path of the control socket; by default the policy file's name
    #[arg(long, value_name = "NAME|PATH")]
    socket: Option<String>,
}

impl Run {
    /// Runs it.
    pub fn run(&self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let out = &mut *cx.out;
        let policy = self.read(cx.registry)?;
        let name = self.name();
        let socket = self.socket.as_deref().unwrap_or(&name);
        let file = match self.policy.as_str() {
            "-" => None,
            file => Some(std::path::absolute(file)?),
        };
        enforce(
            &policy,
            cx.registry,
            file.as_deref(),
            &name,
            socket,
            out,
            &mut |_, _| Ok(()),
        )?;
        Ok(Exit::Done)
    }

    fn read(&self, registry: &Registry) -> Result<Policy, Failure> {
        let policy = source::policy(&self.policy, registry)?;
        if !policy.warnings.is_empty() {
            eprint!("{}", policy.warnings.render(colour::wanted(&io::stderr())));
        }
        Ok(policy)
    }

    /// The policy's name: its file's, without the ending.
    fn name(&self) -> String {
        match Path::new(&self.policy).file_stem() {
            Some(stem) if self.policy != "-" => stem.to_string_lossy().into_owned(),
            _ => "policy".into(),
        }
    }
}
