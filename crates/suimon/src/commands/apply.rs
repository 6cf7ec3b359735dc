//! `suimon apply`: puts another policy into force in a running suimon.

use super::target::{Target, absolute};
use crate::commands::Context;
use crate::exit::{Exit, Failure};
use clap::Args;
use control::protocol::{Reply, Request};
use engine::units::Duration;

/// Put a policy into force in a running suimon, as a whole, while packets flow (see `suimon plan`)
#[derive(Debug, Args)]
pub struct Apply {
    /// The policy, a TOML file
    policy: String,
    /// Undo the change after this time, unless `suimon confirm` is called
    #[arg(long, value_name = "TIME")]
    confirm_within: Option<Duration>,
    /// Why; `suimon history` shows it
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    target: Target,
}

impl Apply {
    /// Sends the request.
    pub fn run(self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let file = absolute(&self.policy, cx.registry)?;
        let confirm_within_ms = self.confirm_within.map(|time| time.nanos().div_ceil(1_000_000));
        if !self.target.json {
            // What is refused is refused below.
            let plan = self.target.ask(&Request::Plan { file: file.clone() })?;
            if let Reply::Plan(difference) = plan {
                for effect in difference.effects() {
                    writeln!(cx.out, "{effect}")?;
                }
                cx.out.flush()?;
            }
        }
        let request = Request::Apply {
            file,
            confirm_within_ms,
            reason: self.reason,
        };
        self.target.request(&request, cx.out)
    }
}
