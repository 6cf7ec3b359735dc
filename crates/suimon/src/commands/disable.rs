//! `suimon disable`: lets packets pass unmanaged.

use super::target::Target;
use crate::commands::Context;
use crate::exit::{Exit, Failure};
use clap::Args;
use control::protocol::Request;

/// Let packets pass unmanaged; the backlog is kept
#[derive(Debug, Args)]
pub struct Disable {
    /// The interface; all by default
    interface: Option<String>,
    #[command(flatten)]
    target: Target,
}

impl Disable {
    /// Sends the request.
    pub fn run(self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let interface = self.interface;
        self.target.request(&Request::Disable { interface }, cx.out)
    }
}
