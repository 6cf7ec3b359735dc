//! `suimon`, the one binary. A verb is one file under `commands/`; this file only chooses it and turns its
//! answer into an exit code. Whatever a verb prints goes through the writer that it is given, so that a
//! closed pipe ends it quietly and a test can read it.

#![forbid(unsafe_code)]

mod commands;
mod exit;
mod monitor;
mod source;
mod worst_cases;

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
    Accept(commands::accept::Accept),
    Bottlenet(commands::bottlenet::Bottlenet),
    Check(commands::check::Check),
    Demo(commands::demo::Demo),
    /// Leave the interfaces of a running suimon to the kernel, and end it
    Detach(commands::set::Switch),
    /// Let packets pass unmanaged; nothing that waits is lost
    Disable(commands::set::Switch),
    /// Let the policy rule again
    Enable(commands::set::Switch),
    Kinds(commands::kinds::Kinds),
    Lab(commands::lab::LabVerb),
    Nine(commands::nine::Nine),
    #[command(hide = true)]
    NineTop(commands::nine_top::NineTop),
    Pace(commands::pace::Pace),
    Reproduce(commands::reproduce::Reproduce),
    Reserve(Box<commands::reserve::Reserve>),
    Run(commands::run::Run),
    Set(commands::set::Set),
    Sim(commands::sim::Sim),
    Status(commands::status::Status),
    Top(commands::top::Top),
    Traffic(commands::traffic::Traffic),
}

impl Command {
    fn run(self, out: &mut dyn Write) -> Result<Exit, Failure> {
        match self {
            Self::Accept(verb) => verb.run(out),
            Self::Bottlenet(verb) => verb.run(out),
            Self::Check(verb) => verb.run(out),
            Self::Demo(verb) => verb.run(out),
            Self::Detach(verb) => verb.detach(out),
            Self::Disable(verb) => verb.disable(out),
            Self::Enable(verb) => verb.enable(out),
            Self::Kinds(verb) => verb.run(out),
            Self::Lab(verb) => verb.run(out),
            Self::Nine(verb) => verb.run(),
            Self::NineTop(verb) => verb.run(out),
            Self::Pace(verb) => verb.run(out),
            Self::Reproduce(verb) => verb.run(out),
            Self::Reserve(verb) => verb.run(out),
            Self::Run(verb) => verb.run(out),
            Self::Set(verb) => verb.run(out),
            Self::Sim(verb) => verb.run(out),
            Self::Status(verb) => verb.run(out),
            Self::Top(verb) => verb.run(out),
            Self::Traffic(verb) => verb.run(out),
        }
    }
}

fn main() -> ExitCode {
    let command = Cli::parse_from(commands::nine::rewrite(std::env::args_os())).command;
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
