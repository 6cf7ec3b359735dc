//! The running suimon to which a verb sends a request, and how its reply is shown.

use crate::exit::{Exit, Failure};
use crate::source;
use clap::Args;
use control::protocol::{Reply, Request};
use control::socket::{self, Client};
use control::text_file;
use serde_json::json;
use std::io::Write;

/// The absolute path of a policy, for a program that has another working directory, and that reads
/// and checks it.
pub(super) fn absolute(policy: &str) -> Result<String, Failure> {
    if policy == "-" {
        return Err(Failure::usage(
            "the running suimon reads the policy itself: name a file",
        ));
    }
    let unfound = |why| source::unread("policy", policy, &text_file::reason(&why));
    std::fs::metadata(policy).map_err(unfound)?;
    let path = std::path::absolute(policy).map_err(unfound)?;
    Ok(path.to_string_lossy().into_owned())
}

/// Which running suimon gets the request, and the format of its reply.
#[derive(Debug, Args)]
pub struct Target {
    /// The running suimon, by name or by the path of its socket; by default the only one, or the
    /// one that manages the named interface
    #[arg(long, value_name = "NAME|PATH")]
    pub socket: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl Target {
    /// Sends the request, and returns the reply.
    pub(super) fn ask(&self, request: &Request) -> Result<Reply, Failure> {
        self.begin(request).map(|(_, reply)| reply)
    }

    /// Sends the request, and returns the reply, and what more of it follows.
    pub(super) fn begin(&self, request: &Request) -> Result<(Client, Reply), Failure> {
        let named = self.socket.as_deref();
        let path = match request.interface() {
            Some(interface) => socket::find_managing(named, interface)?,
            None => socket::find(named)?,
        };
        let mut client = Client::connect(Some(&path.to_string_lossy()))?;
        let reply = client.ask(request)?;
        Ok((client, reply))
    }

    /// Sends the request, and shows the reply.
    pub(super) fn request(&self, request: &Request, out: &mut dyn Write) -> Result<Exit, Failure> {
        let reply = self.ask(request)?;
        match &reply {
            Reply::Refused(why) if !self.json => {
                return Err(Failure::usage(why.to_string()));
            }
            _ if self.json => writeln!(out, "{}", json!(reply))?,
            Reply::Done { message, difference } => {
                let effects = difference.iter().flat_map(|difference| difference.effects());
                write_most(&effects.collect::<Vec<_>>(), out)?;
                writeln!(out, "{message}")?;
            }
            other => writeln!(out, "{}", json!(other))?,
        }
        Ok(exit(&reply))
    }
}

/// Lines of one sort that are shown to a reader; JSON has all.
const SHOWN: usize = 40;

/// Writes the first of these lines, and how many more there are: a change of a link's 100,000
/// classes changes what is promised to each.
pub(super) fn write_most(lines: &[String], out: &mut dyn Write) -> std::io::Result<()> {
    for line in lines.iter().take(SHOWN) {
        writeln!(out, "{line}")?;
    }
    match lines.len().saturating_sub(SHOWN) {
        0 => Ok(()),
        more => writeln!(out, "... and {more} more like these; --json shows all"),
    }
}

/// How a verb ends that got this reply.
fn exit(reply: &Reply) -> Exit {
    match reply {
        Reply::Refused(_) => Exit::Usage,
        Reply::Done {
            difference: Some(difference),
            ..
        } if !difference.not_enforced.is_empty() => Exit::Bypass,
        _ => Exit::Done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::difference::Difference;

    #[test]
    fn of_very_many_lines_the_first_are_shown_and_the_others_counted() {
        let shown = |count: usize| {
            let lines: Vec<String> = (0..count).map(|line| format!("line {line}")).collect();
            let mut out = Vec::new();
            write_most(&lines, &mut out).expect("a buffer");
            String::from_utf8(out).expect("text")
        };
        assert_eq!(shown(0), "");
        assert_eq!(shown(SHOWN).lines().count(), SHOWN);
        assert_eq!(shown(SHOWN).lines().last(), Some("line 39"));
        let more = shown(100_000);
        assert_eq!(more.lines().count(), SHOWN + 1);
        assert_eq!(
            more.lines().last(),
            Some("... and 99960 more like these; --json shows all")
        );
    }

    #[test]
    fn what_was_applied_and_is_not_enforced_ends_with_5() {
        let reply = |not_enforced: &[&str]| Reply::Done {
            message: "home.toml is in force".into(),
            difference: Some(Box::new(Difference {
                not_enforced: not_enforced.iter().map(ToString::to_string).collect(),
                ..Difference::default()
            })),
        };
        assert_eq!(exit(&reply(&[])), Exit::Done);
        assert_eq!(exit(&reply(&["wan0: not enforced: wan0 is down"])), Exit::Bypass);
    }

    #[test]
    fn a_missing_daemon_is_a_failure_at_run_time_that_names_the_socket() {
        let target = Target {
            socket: Some("/nonexistent/suimon.sock".into()),
            json: false,
        };
        let failure = target
            .request(&Request::Version {}, &mut Vec::new())
            .expect_err("no daemon runs");
        assert_eq!(failure.exit, Exit::Failed);
        assert!(
            failure.message.contains("/nonexistent/suimon.sock"),
            "{}",
            failure.message
        );
    }
}
