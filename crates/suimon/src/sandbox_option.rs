//! The option `--no-sandbox`, of the verbs that give up rights.

use clap::Args;
use gateway::confined::Sandbox;

/// Whether rights are given up.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct SandboxOption {
    /// Keep all rights of whoever starts it, for the diagnosis of a fault; docs/security.md says
    /// which it gives up otherwise
    #[arg(long)]
    no_sandbox: bool,
}

impl SandboxOption {
    /// As chosen on the command line.
    pub fn chosen(self) -> Sandbox {
        match self.no_sandbox {
            true => Sandbox::Off,
            false => Sandbox::On,
        }
    }
}
