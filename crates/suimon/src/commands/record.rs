//! `suimon record`: what passes an interface, in a ring, to be done again by `suimon replay`.

use super::target::Target;
use crate::commands::Context;
use crate::exit::{Exit, Failure};
use clap::{Args, Subcommand};
use control::protocol::{Reply, Request};
use engine::units::Bytes;
use measure::numbers;
use serde_json::json;
use std::fs::{self, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Record what passes an interface of a running suimon, headers and times, in a ring in memory, and
/// save it as a file that `replay` does again packet by packet
#[derive(Debug, Args)]
pub struct Record {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Begin
    Start {
        /// The ring; when it is full the oldest packets go
        #[arg(long, value_name = "SIZE", default_value = "64 MB")]
        memory: Bytes,
        #[command(flatten)]
        of: Of,
    },
    /// Save what is in the ring; the recording goes on
    Save {
        /// A file that does not exist yet
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        of: Of,
    },
    /// End, and forget what is in the ring
    Stop {
        #[command(flatten)]
        of: Of,
    },
}

/// What is recorded.
#[derive(Debug, Args)]
struct Of {
    /// The interface; by default the only one that is managed
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    #[command(flatten)]
    target: Target,
}

impl Record {
    /// Begins, saves or ends.
    pub fn run(self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        match self.what {
            What::Start { memory, of } => {
                let Of { interface, target } = of;
                let memory = memory.get();
                target.request(&Request::Record { interface, memory }, cx.out)
            }
            What::Stop { of } => {
                let Of { interface, target } = of;
                target.request(&Request::RecordEnd { interface }, cx.out)
            }
            What::Save { file, of } => save(&file, of, cx.out),
        }
    }
}

fn save(path: &Path, of: Of, out: &mut dyn Write) -> Result<Exit, Failure> {
    let Of { interface, target } = of;
    let (mut client, reply) = target.begin(&Request::Recorded { interface })?;
    let bytes = match reply {
        Reply::Recording { bytes } => bytes,
        Reply::Refused(why) => return Err(Failure::usage(why.to_string())),
        other => {
            let other = json!(other);
            return Err(Failure::at_run_time(format!("unexpected reply: {other}")));
        }
    };
    let shown = path.display();
    // Addresses of users are in it.
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    let file = made.map_err(|why| {
        Failure::usage(format!(
            "cannot make {shown}: {why}; name a file that does not exist yet"
        ))
    })?;
    let mut writer = BufWriter::new(file);
    let copied = client
        .take_bytes(bytes, &mut writer)
        .and_then(|()| writer.flush());
    if let Err(why) = copied {
        // A part of it is of no use.
        let _ = fs::remove_file(path);
        return Err(Failure::at_run_time(format!("{shown} could not be saved: {why}")));
    }
    match target.json {
        true => writeln!(out, "{}", json!({"file": path, "bytes": bytes}))?,
        false => writeln!(
            out,
            "{shown}: {}; do it again with `suimon replay {shown}`",
            numbers::bytes(bytes)
        )?,
    }
    Ok(Exit::Done)
}
