//! `suimon export --tc`: a policy as commands for the kernel's own disciplines.

use crate::commands::Context;
use crate::exit::{Exit, Failure};
use crate::{source, tc_commands};
use clap::Args;

/// Print the commands of tc that come nearest to a policy, with what is lost as comments
#[derive(Debug, Args)]
pub struct Export {
    /// The policy, a TOML file
    policy: String,
    /// As commands for `tc -batch`: the only form there is
    #[arg(long, required = true)]
    tc: bool,
}

impl Export {
    /// Prints them.
    pub fn run(&self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let policy = source::policy(&self.policy, cx.registry)?;
        write!(cx.out, "{}", tc_commands::of(&policy, &self.policy))?;
        Ok(Exit::Done)
    }
}
