//! Suimon's command line as a library: [`main`] with the kinds of disciplines that policies may
//! name.
//!
//! A program of five lines that adds its own kind has every verb: the kind can be checked,
//! simulated, built in a lab and run on an interface (`examples/my_discipline.rs`). A verb is one
//! file under `commands/`; it prints only through the writer in its context.

#![forbid(unsafe_code)]

mod captured;
mod closed_loop;
mod commands;
mod exit;
mod explained;
mod instruments;
mod kept_points;
mod line;
mod log;
mod monitor;
mod recreated;
mod sandbox_option;
mod screen;
mod source;
mod tc_commands;
mod worst_cases;

use clap::{CommandFactory, Parser};
use commands::{Command, Context};
use engine::tree::Registry;
use std::io::{self, Write};
use std::process::ExitCode;

/// Manages network traffic at the bottleneck link and at the host behind it.
#[derive(Debug, Parser)]
#[command(name = "suimon", version, arg_required_else_help = true, after_help = exit::HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The command line, for its manual and completions.
fn command_line() -> clap::Command {
    Cli::command()
}

/// Runs the verb that the command line names, and returns its exit code. Policies may name the
/// kinds of `registry`.
pub fn main(registry: Registry) -> ExitCode {
    // Before the threads that read a policy have heaps.
    netio::heap::keep_little();
    let command = Cli::parse_from(commands::nine::rewrite(std::env::args_os())).command;
    let mut out = io::stdout().lock();
    let answer = command
        .run(&mut Context {
            registry: &registry,
            out: &mut out,
        })
        .and_then(|exit| Ok(out.flush().map(|()| exit)?));
    match answer {
        Ok(exit) => exit.into(),
        Err(failure) => {
            failure.report();
            if failure.exit == exit::Exit::OutputClosed {
                gateway::supervise::end_by_closed_pipe();
            }
            failure.exit.into()
        }
    }
}
