//! `suimon export`: a policy as commands for the kernel's own disciplines, or the policy that runs
//! as a file.

use super::target::Target;
use crate::commands::Context;
use crate::exit::{Exit, Failure};
use crate::{source, tc_commands};
use clap::Args;
use control::protocol::{Reply, Request};
use serde_json::json;

/// Print the commands of tc that come nearest to a policy, with what is lost as comments. Or, with
/// --live, the policy in force in a running suimon, with what was set, added and removed since its
/// file was read
#[derive(Debug, Args)]
pub struct Export {
    /// The policy, a TOML file
    #[arg(required_unless_present = "live", conflicts_with = "live")]
    policy: Option<String>,
    /// As commands for `tc -batch`: the only form there is of a file
    #[arg(long, required_unless_present = "live", conflicts_with = "live")]
    tc: bool,
    /// The policy in force in a running suimon, as a file has it
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    target: Target,
}

impl Export {
    /// Prints them.
    pub fn run(&self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let Some(file) = &self.policy else {
            return self.in_force(cx);
        };
        let policy = source::policy(file, cx.registry)?;
        write!(cx.out, "{}", tc_commands::of(&policy, file))?;
        Ok(Exit::Done)
    }

    fn in_force(&self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let reply = self.target.ask(&Request::Policy {})?;
        match &reply {
            _ if self.target.json => writeln!(cx.out, "{}", json!(reply))?,
            Reply::Policy { text } => write!(cx.out, "{text}")?,
            Reply::Refused(why) => return Err(Failure::usage(why.to_string())),
            other => {
                let other = json!(other);
                return Err(Failure::at_run_time(format!("unexpected reply: {other}")));
            }
        }
        Ok(match reply {
            Reply::Refused(_) => Exit::Usage,
            _ => Exit::Done,
        })
    }
}
