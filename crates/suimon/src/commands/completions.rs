//! `suimon completions`: what a shell needs to complete the command line.

use crate::commands::Context;
use crate::exit::{Exit, Failure};
use clap::Args;
use clap_complete::Shell;

/// Print the completions of a shell: `suimon completions bash > /etc/bash_completion.d/suimon`
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    /// Prints them.
    pub fn run(self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut crate::command_line(), "suimon", &mut text);
        cx.out.write_all(&text)?;
        Ok(Exit::Done)
    }
}
