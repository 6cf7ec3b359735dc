//! `suimon bottlenet RATE`, also as `bottlenet`: what is known of the rate of the link next to this host (the paper's
//! `bottlenet`). Without a word, `nine` estimates it.

use super::nine::{make_directory, own_place, places};
use crate::exit::{Exit, Failure};
use clap::Args;
use engine::units::Bandwidth;
use host::bottlenet::{Word, Words};
use host::link;
use serde_json::{Value, json};
use std::io::Write;

/// Say how fast the link next to this host is, for `nine`
#[derive(Debug, Args)]
#[command(
    after_help = "It is counted as the interface counts frames, and holds until the end of the session; as root, for \
                        all users. A user's own word comes first."
)]
pub struct Bottlenet {
    /// The rate, such as 50Mbit/s; `auto` to estimate it (the default), `off` to go by delay alone, `show` to see
    #[arg(value_name = "RATE|auto|off|show", default_value = "show")]
    what: String,
    /// The rate of what goes out, if it differs
    #[arg(long, value_name = "RATE")]
    up: Option<Bandwidth>,
    /// The interface; that of the default route if not given
    #[arg(short, long, value_name = "NAME")]
    interface: Option<String>,
    /// Show as JSON
    #[arg(long)]
    json: bool,
}

impl Bottlenet {
    /// Keeps what was said, or shows it.
    pub fn run(&self, out: &mut dyn Write) -> Result<Exit, Failure> {
        let word = match self.what.as_str() {
            "show" => return self.show(out),
            "auto" => Word::Auto,
            "off" => Word::Off,
            rate => self.rate(rate)?,
        };
        if self.up.is_some() && !matches!(word, Word::Rate { .. }) {
            return Err(Failure::usage("--up goes with a rate"));
        }
        let interface = link::chosen(self.interface.as_deref()).map_err(Failure::usage)?;
        let directory = make_directory(&own_place())?;
        let cannot = |e| Failure::at_run_time(format!("cannot keep it in {}: {e}", directory.display()));
        let mut words = Words::read(&directory).map_err(cannot)?;
        words.interfaces.insert(interface.clone(), word);
        words.write(&directory).map_err(cannot)?;
        if self.json {
            writeln!(out, "{}", json!({ "interface": interface, "bottlenet": word }))?;
        } else {
            writeln!(out, "{interface}: {}", said(word))?;
        }
        Ok(Exit::Done)
    }

    fn rate(&self, text: &str) -> Result<Word, Failure> {
        let hint = |e: String| {
            let bare = text.bytes().all(|b| b.is_ascii_digit());
            let hint = if bare {
                format!("; did you mean {text}kbit/s?")
            } else {
                String::new()
            };
            Failure::usage(format!("{e}{hint}"))
        };
        let rate: Bandwidth = text.parse().map_err(|e| hint(format!("{e}")))?;
        if rate == Bandwidth::ZERO || self.up == Some(Bandwidth::ZERO) {
            return Err(Failure::usage(
                "a link has a rate above zero; `bottlenet off` if it is not known",
            ));
        }
        Ok(Word::Rate {
            down_bps: rate.bits(),
            up_bps: self.up.map(Bandwidth::bits),
        })
    }

    fn show(&self, out: &mut dyn Write) -> Result<Exit, Failure> {
        let mut seen: Vec<Value> = Vec::new();
        for place in places() {
            let words = Words::read(&place).map_err(|e| {
                Failure::at_run_time(format!("cannot read what is in {}: {e}", place.display()))
            })?;
            for (interface, word) in words.interfaces {
                let counts = !seen.iter().any(|one| one["interface"] == interface.as_str());
                if self.interface.as_ref().is_none_or(|name| *name == interface) {
                    let whose = if place == own_place() { "own" } else { "host" };
                    if !self.json {
                        let other = if counts { "" } else { " (but your own word counts)" };
                        writeln!(out, "{interface}: {}{other}", said(word))?;
                    }
                    seen.push(json!({
                        "interface": interface, "bottlenet": word, "whose": whose, "counts": counts,
                    }));
                }
            }
            if place == own_place() && places().last() == Some(&place) {
                break;
            }
        }
        if self.json {
            writeln!(out, "{}", Value::Array(seen))?;
        } else if seen.is_empty() {
            writeln!(out, "nothing has been said: rates are estimated (auto)")?;
        }
        Ok(Exit::Done)
    }
}

/// As people read it.
pub fn said(word: Word) -> String {
    let rate = |bps| Bandwidth::bits_per_sec(bps).to_string();
    match word {
        Word::Rate { down_bps, up_bps } => match up_bps {
            Some(up) => format!("{} in, {} out", rate(down_bps), rate(up)),
            None => rate(down_bps),
        },
        Word::Auto => "auto: estimated".into(),
        Word::Off => "off: not guessed, only delay decides".into(),
    }
}
