//! `suimon enable`: the policy rules again.

use super::target::Target;
use crate::commands::Context;
use crate::exit::{Exit, Failure};
use clap::Args;
use control::protocol::Request;

/// Let the policy rule again
#[derive(Debug, Args)]
pub struct Enable {
    /// The interface; all, if none is named
    interface: Option<String>,
    #[command(flatten)]
    target: Target,
}

impl Enable {
    /// Sends the request.
    pub fn run(self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let interface = self.interface;
        self.target.tell(&Request::Enable { interface }, cx.out)
    }
}
