//! `suimon detach`: hands interfaces back to the kernel.

use super::target::Target;
use crate::commands::Context;
use crate::exit::{Exit, Failure};
use clap::Args;
use control::protocol::Request;

/// Hand the interfaces of a running suimon back to the kernel, and end it
#[derive(Debug, Args)]
pub struct Detach {
    /// The interface; all by default
    interface: Option<String>,
    #[command(flatten)]
    target: Target,
}

impl Detach {
    /// Sends the request.
    pub fn run(self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let interface = self.interface;
        self.target.request(&Request::Detach { interface }, cx.out)
    }
}
