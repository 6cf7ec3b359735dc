//! `suimon apply`: puts another policy into force in a running suimon.

use super::target::{Target, absolute};
use crate::commands::Context;
use crate::exit::{Exit, Failure};
use clap::Args;
use control::protocol::Request;
use engine::units::Duration;

/// Put a policy into force in a running suimon, as a whole, while packets flow (see `suimon plan`)
#[derive(Debug, Args)]
pub struct Apply {
    /// The policy, a TOML file
    policy: String,
    /// Undo the change after this time, unless `suimon confirm` is called
    #[arg(long, value_name = "TIME")]
    confirm_within: Option<Duration>,
    /// Put it into force although reservations in force lose what they were promised (`suimon plan`
    /// says which)
    #[arg(long)]
    break_reservations: bool,
    /// Why; `suimon history` shows it
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    target: Target,
}

impl Apply {
    /// Sends the request.
    pub fn run(self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let file = absolute(&self.policy)?;
        let confirm_within_ms = self.confirm_within.map(|time| time.nanos().div_ceil(1_000_000));
        let request = Request::Apply {
            file,
            confirm_within_ms,
            break_reservations: self.break_reservations.into(),
            reason: self.reason,
        };
        self.target.request(&request, cx.out)
    }
}
