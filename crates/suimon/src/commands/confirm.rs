//! `suimon confirm`: keeps a change that would be undone otherwise.

use super::target::Target;
use crate::commands::Context;
use crate::exit::{Exit, Failure};
use clap::Args;
use control::protocol::Request;

/// Keep the change that `apply --confirm-within` made
#[derive(Debug, Args)]
pub struct Confirm {
    #[command(flatten)]
    target: Target,
}

impl Confirm {
    /// Sends the request.
    pub fn run(&self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        self.target.request(&Request::Confirm {}, cx.out)
    }
}
