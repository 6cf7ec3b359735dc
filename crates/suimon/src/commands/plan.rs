//! `suimon plan`: what a policy differs in from the one that a running suimon has in force, and
//! what that does to guarantees and bounds.

use super::target::{Target, absolute, write_most};
use crate::commands::Context;
use crate::exit::{Exit, Failure};
use clap::Args;
use control::protocol::{Reply, Request};
use serde_json::json;

/// Show what `apply` would change on a running suimon, and what that does to guarantees and bounds;
/// exit code 3 if there is something
#[derive(Debug, Args)]
pub struct Plan {
    /// The policy, a TOML file
    policy: String,
    #[command(flatten)]
    target: Target,
}

impl Plan {
    /// Asks, and shows the reply.
    pub fn run(&self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let file = absolute(&self.policy)?;
        let reply = self.target.ask(&Request::Plan { file })?;
        if self.target.json {
            writeln!(cx.out, "{}", json!(reply))?;
        }
        let difference = match reply {
            Reply::Plan(difference) => difference,
            Reply::Refused(_) if self.target.json => return Ok(Exit::Usage),
            Reply::Refused(why) => return Err(Failure::usage(why.to_string())),
            other => {
                return Err(Failure::at_run_time(format!(
                    "unexpected reply: {}",
                    json!(other)
                )));
            }
        };
        let exit = if difference.is_empty() {
            Exit::Done
        } else {
            Exit::Differs
        };
        if self.target.json {
            return Ok(exit);
        }
        if difference.is_empty() {
            writeln!(cx.out, "{} is in force: nothing to do", self.policy)?;
        }
        write_most(&difference.effects(), &mut cx.out)?;
        write_most(&difference.changes, &mut cx.out)?;
        if !difference.needs_restart.is_empty() {
            writeln!(
                cx.out,
                "a running suimon cannot change these; end it, and run it with this policy:"
            )?;
        }
        for what in &difference.needs_restart {
            writeln!(cx.out, "  {what}")?;
        }
        Ok(exit)
    }
}
