//! `suimon`, the one binary. A verb is one file under `commands/`; this file only chooses it and turns its
//! answer into an exit code. Whatever a verb prints goes through the writer that it is given, so that a
//! closed pipe ends it quietly and a test can read it.

#![forbid(unsafe_code)]

mod commands;
mod daemon;
mod demo;
mod exit;
mod report;

use clap::{Parser, Subcommand};
use exit::{Exit, Failure};
use std::io::{self, Write};
use std::process::ExitCode;

/// Manages network traffic where it matters: at the bottleneck link and at the host behind it.
#[derive(Debug, Parser)]
#[command(name = "suimon", version, arg_required_else_help = true, after_help = exit::HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(commands::check::Check),
    Demo(commands::demo::Demo),
    Kinds(commands::kinds::Kinds),
    Lab(commands::lab::LabVerb),
    Run(commands::run::Run),
}

impl Command {
    fn run(self, out: &mut dyn Write) -> Result<Exit, Failure> {
        match self {
            Self::Check(verb) => verb.run(out),
            Self::Demo(verb) => verb.run(out),
            Self::Kinds(verb) => verb.run(out),
            Self::Lab(verb) => verb.run(out),
            Self::Run(verb) => verb.run(out),
        }
    }
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let mut out = io::stdout().lock();
    let answer = command
        .run(&mut out)
        .and_then(|exit| Ok(out.flush().map(|()| exit)?));
    match answer {
        Ok(exit) => exit.into(),
        Err(failure) => {
            failure.report();
            failure.exit.into()
        }
    }
}
