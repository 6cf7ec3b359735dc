//! `suimon detach`: interfaces are left to the kernel.

use super::target::Target;
use crate::commands::Context;
use crate::exit::{Exit, Failure};
use clap::Args;
use control::protocol::Request;

/// Leave the interfaces of a running suimon to the kernel, and end it
#[derive(Debug, Args)]
pub struct Detach {
    /// The interface; all, if none is named
    interface: Option<String>,
    #[command(flatten)]
    target: Target,
}

impl Detach {
    /// Sends the request.
    pub fn run(self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let interface = self.interface;
        self.target.tell(&Request::Detach { interface }, cx.out)
    }
}
