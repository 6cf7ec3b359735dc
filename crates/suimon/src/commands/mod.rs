//! The verbs: one file each, with a struct of arguments and a method `run`; and their only list.
//!
//! To add one: write its file, and name it here twice: in a `mod` line, which rustfmt follows,
//! and in the list.

use crate::exit::{Exit, Failure};
use clap::Subcommand;
use engine::tree::Registry;
use std::io::Write;

mod accept;
mod amending;
mod apply;
mod bottlenet;
mod check;
mod class;
mod completions;
mod confirm;
mod demo;
mod detach;
mod disable;
mod doctor;
mod enable;
mod explain;
mod export;
mod fault;
mod history;
mod import;
mod init;
mod kinds;
mod lab;
mod lab_link;
mod link_shape;
mod man;
pub(crate) mod nine;
mod nine_top;
mod pace;
mod plan;
mod prove;
mod record;
mod replay;
mod reproduce;
mod reserve;
mod rollback;
mod rsvp_options;
mod run;
mod set;
mod shadow;
mod sim;
mod status;
mod target;
mod top;
mod traffic;
mod traffic_tcp;
mod upgrade;
mod verify;
mod web;

/// What a verb may use besides its arguments.
pub struct Context<'a> {
    /// The kinds of disciplines that policies may name.
    pub registry: &'a Registry,
    /// The output. A closed pipe ends the verb quietly; tests read it.
    pub out: &'a mut dyn Write,
}

/// Declares the verbs and how each is run.
macro_rules! verbs {
    ($($file:ident::$verb:ident),* $(,)?) => {
        /// A verb with its arguments.
        #[derive(Debug, Subcommand)]
        pub(crate) enum Command {
            // Boxed, so that a verb with many arguments does not enlarge the others.
            $($verb(Box<$file::$verb>)),*
        }

        impl Command {
            /// Runs the verb.
            pub(crate) fn run(self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
                match self {
                    $(Self::$verb(verb) => (*verb).run(cx)),*
                }
            }
        }
    };
}

verbs! {
    accept::Accept,
    apply::Apply,
    bottlenet::Bottlenet,
    check::Check,
    class::Class,
    completions::Completions,
    confirm::Confirm,
    demo::Demo,
    detach::Detach,
    disable::Disable,
    doctor::Doctor,
    enable::Enable,
    explain::Explain,
    export::Export,
    fault::Fault,
    history::History,
    import::Import,
    init::Init,
    kinds::Kinds,
    lab::Lab,
    man::Man,
    nine::Nine,
    nine_top::NineTop,
    pace::Pace,
    plan::Plan,
    prove::Prove,
    record::Record,
    replay::Replay,
    reproduce::Reproduce,
    reserve::Reserve,
    rollback::Rollback,
    run::Run,
    set::Set,
    shadow::Shadow,
    sim::Sim,
    status::Status,
    top::Top,
    traffic::Traffic,
    upgrade::Upgrade,
    verify::Verify,
    web::Web,
}
