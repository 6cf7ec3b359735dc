//! `suimon man`: the manual pages.

use crate::commands::Context;
use crate::exit::{Exit, Failure};
use clap::Args;
use std::fs;
use std::path::PathBuf;

/// Write the manual pages, one for each verb, into a folder
#[derive(Debug, Args)]
pub struct Man {
    /// The folder, made if there is none
    folder: PathBuf,
}

impl Man {
    /// Writes them.
    pub fn run(self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let folder = self.folder.display();
        fs::create_dir_all(&self.folder)
            .and_then(|()| clap_mangen::generate_to(crate::command_line(), &self.folder))
            .map_err(|why| Failure::at_run_time(format!("cannot write the manual into {folder}: {why}")))?;
        writeln!(cx.out, "man -l {folder}/suimon.1")?;
        Ok(Exit::Done)
    }
}
