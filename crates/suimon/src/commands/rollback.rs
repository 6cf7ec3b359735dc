//! `suimon rollback`: puts back what was in force before.

use super::target::Target;
use crate::commands::Context;
use crate::exit::{Exit, Failure};
use clap::Args;
use control::protocol::Request;

/// Undo the last change, once more the one before it, or put back an earlier generation, while
/// packets flow
#[derive(Debug, Args)]
pub struct Rollback {
    /// The generation's number (see `suimon history`); by default the latest that differs from
    /// what is in force and was not undone
    generation: Option<u64>,
    /// Put it back although reservations in force lose what they were promised
    #[arg(long)]
    break_reservations: bool,
    /// Why; `suimon history` shows it
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    target: Target,
}

impl Rollback {
    /// Sends the request.
    pub fn run(self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let request = Request::Rollback {
            to: self.generation,
            break_reservations: self.break_reservations.into(),
            reason: self.reason,
        };
        self.target.request(&request, cx.out)
    }
}
