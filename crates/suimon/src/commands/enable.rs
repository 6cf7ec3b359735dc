//! `suimon enable`: applies the policy again.

use super::target::Target;
use crate::commands::Context;
use crate::exit::{Exit, Failure};
use clap::Args;
use control::protocol::Request;

/// Apply the policy again
#[derive(Debug, Args)]
pub struct Enable {
    /// The interface; all by default
    interface: Option<String>,
    #[command(flatten)]
    target: Target,
}

impl Enable {
    /// Sends the request.
    pub fn run(self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let interface = self.interface;
        self.target.request(&Request::Enable { interface }, cx.out)
    }
}
