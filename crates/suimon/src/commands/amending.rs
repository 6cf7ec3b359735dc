//! What the verbs share that amend the policy in force: `set` and `class`.

use super::target::Target;
use crate::exit::{Exit, Failure};
use clap::Args;
use control::calendar;
use control::protocol::{Request, SettingChange};
use engine::units::Duration;
use std::io::Write;

/// Whether the policy's file gets it, why, and where it is sent.
#[derive(Debug, Args)]
pub(super) struct Amending {
    /// Write what was changed, and stays, into the policy's file, whose comments and order are
    /// kept
    #[arg(long)]
    save: bool,
    /// Why; `suimon history` shows it
    #[arg(long, value_name = "TEXT")]
    pub(super) reason: Option<String>,
    #[command(flatten)]
    target: Target,
}

impl Amending {
    /// Sends a request for a change, and the one that writes it into the file if that is wanted.
    pub(super) fn send(&self, request: &Request, out: &mut dyn Write) -> Result<Exit, Failure> {
        let done = self.target.request(request, out)?;
        match self.save && done == Exit::Done {
            true => self.write(out),
            false => Ok(done),
        }
    }

    /// Sends the request that writes what stays into the file.
    pub(super) fn write(&self, out: &mut dyn Write) -> Result<Exit, Failure> {
        self.target.request(&Request::Save {}, out)
    }
}

/// The words before `for TIME` or `until CLOCK`, and the moment that these say.
pub(super) fn end(words: &[String], now_ms: u64) -> Result<(&[String], Option<u64>), String> {
    Ok(match words {
        [words @ .., word, time] if word == "for" => (words, Some(after(time, now_ms)?)),
        [words @ .., word, time] if word == "until" => (words, Some(calendar::moment(time, now_ms)?)),
        words => (words, None),
    })
}

/// The moment after this time.
fn after(time: &str, now_ms: u64) -> Result<u64, String> {
    let time: Duration = time.parse().map_err(|why| format!("`{time}`: {why}"))?;
    Ok(now_ms.saturating_add(time.nanos().div_ceil(1_000_000)))
}

/// A setting and its new value.
pub(super) fn change(word: &str) -> Result<(String, SettingChange), String> {
    SettingChange::assignment(word).ok_or_else(|| {
        format!(
            "`{word}`: expected a setting and its value, such as rate=20Mbit/s, or `for TIME` or `until CLOCK` at the end"
        )
    })
}
