//! `suimon set`, `enable`, `disable`, `detach`: changes to a running suimon while packets flow.

use crate::exit::{Exit, Failure};
use clap::Args;
use control::protocol::{Change, Reply, Request};
use control::socket::Client;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;

/// Which running suimon is meant, and how it answers.
#[derive(Debug, Args)]
pub struct Target {
    /// The running suimon, by name or by the path of its socket; not needed if there is only one
    #[arg(long, value_name = "NAME|PATH")]
    pub socket: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl Target {
    fn tell(&self, request: &Request, out: &mut dyn Write) -> Result<Exit, Failure> {
        let reply = Client::connect(self.socket.as_deref())?.ask(request)?;
        match &reply {
            Reply::Refused(why) if !self.json => {
                return Err(Failure::usage(why.to_string()));
            }
            _ if self.json => writeln!(out, "{}", json!(reply))?,
            Reply::Done { message } => writeln!(out, "{message}")?,
            other => writeln!(out, "{}", json!(other))?,
        }
        Ok(if matches!(reply, Reply::Refused(_)) {
            Exit::Usage
        } else {
            Exit::Done
        })
    }
}

/// Change settings of a class of a running suimon; the whole tree is checked first
#[derive(Debug, Args)]
pub struct Set {
    /// The interface
    interface: String,
    /// The class
    class: String,
    /// The new values, as they would stand in a policy, without quotes: rate=20Mbit/s
    #[arg(required = true, value_name = "SETTING=VALUE", value_parser = change)]
    changes: Vec<(String, Change)>,
    #[command(flatten)]
    target: Target,
}

fn change(word: &str) -> Result<(String, Change), String> {
    match word.split_once('=') {
        Some((key, value)) if !key.is_empty() && !value.is_empty() => {
            Ok((key.trim().into(), Change::from_word(value.trim())))
        }
        _ => Err("expected a setting and its value, such as rate=20Mbit/s".into()),
    }
}

impl Set {
    /// Asks for the change.
    pub fn run(self, out: &mut dyn Write) -> Result<Exit, Failure> {
        let changes: BTreeMap<String, Change> = self.changes.into_iter().collect();
        let (interface, class) = (self.interface, self.class);
        self.target.tell(
            &Request::Set {
                interface,
                class,
                changes,
            },
            out,
        )
    }
}

/// An interface of a running suimon, or all.
#[derive(Debug, Args)]
pub struct Switch {
    /// The interface; all, if none is named
    interface: Option<String>,
    #[command(flatten)]
    target: Target,
}

impl Switch {
    /// Lets the policy rule.
    pub fn enable(self, out: &mut dyn Write) -> Result<Exit, Failure> {
        let interface = self.interface;
        self.target.tell(&Request::Enable { interface }, out)
    }

    /// Lets packets pass unmanaged.
    pub fn disable(self, out: &mut dyn Write) -> Result<Exit, Failure> {
        let interface = self.interface;
        self.target.tell(&Request::Disable { interface }, out)
    }

    /// Leaves the interface to the kernel.
    pub fn detach(self, out: &mut dyn Write) -> Result<Exit, Failure> {
        let interface = self.interface;
        self.target.tell(&Request::Detach { interface }, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_a_setting_and_its_value() {
        let rate = Change::Text("20Mbit/s".into());
        assert_eq!(change("rate=20Mbit/s"), Ok(("rate".into(), rate)));
        assert_eq!(change("priority=7"), Ok(("priority".into(), Change::Integer(7))));
        for wrong in ["rate", "=7", "rate="] {
            assert!(change(wrong).is_err(), "{wrong} was accepted");
        }
    }

    #[test]
    fn nobody_there_is_a_failure_at_run_time_that_names_the_socket() {
        let target = Target {
            socket: Some("/nonexistent/suimon.sock".into()),
            json: false,
        };
        let failure = target
            .tell(&Request::Version {}, &mut Vec::new())
            .expect_err("nobody is there");
        assert_eq!(failure.exit, Exit::Failed);
        assert!(
            failure.message.contains("/nonexistent/suimon.sock"),
            "{}",
            failure.message
        );
    }
}
