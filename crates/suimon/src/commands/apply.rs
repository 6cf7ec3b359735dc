//! `suimon apply`: puts another policy into force in a running suimon.

use super::target::{Target, absolute};
use crate::commands::Context;
use crate::exit::{Exit, Failure};
use clap::Args;
use control::protocol::Request;

/// Put a policy into force in a running suimon, as a whole, while packets flow (see `suimon plan`)
#[derive(Debug, Args)]
pub struct Apply {
    /// The policy, a TOML file
    policy: String,
    #[command(flatten)]
    target: Target,
}

impl Apply {
    /// Sends the request.
    pub fn run(&self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let file = absolute(&self.policy, cx.registry)?;
        self.target.request(&Request::Apply { file }, cx.out)
    }
}
