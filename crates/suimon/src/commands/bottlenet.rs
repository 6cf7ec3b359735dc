//! `suimon bottlenet RATE`, also as `bottlenet`: states the rate of the link next to this host
//! (the paper's `bottlenet`). Without a setting, `nine` estimates it.

use super::nine::{make_directory, own_directory, setting_directories};
use crate::commands::Context;
use crate::exit::{Exit, Failure};
use clap::Args;
use engine::units::Bandwidth;
use host::bottlenet::{BottlenetFile, BottlenetSetting};
use host::interface;
use serde_json::{Value, json};
use std::io::Write;

/// State the rate of the link next to this host, for `nine`
#[derive(Debug, Args)]
#[command(
    after_help = "The rate counts frames as the interface does. It applies until the end of the session; if \
                        root sets it, to all users. A user's own setting takes precedence."
)]
pub struct Bottlenet {
    /// The downlink rate, such as 50Mbit/s; `auto`: estimated (the default); `off`: control by
    /// queueing delay alone; `show`: the settings
    #[arg(value_name = "RATE|auto|off|show", default_value = "show")]
    what: String,
    /// The uplink rate, if it differs
    #[arg(long, value_name = "RATE")]
    up: Option<Bandwidth>,
    /// The interface [default: that of the default route]
    #[arg(short, long, value_name = "NAME")]
    interface: Option<String>,
    /// Show as JSON
    #[arg(long)]
    json: bool,
}

impl Bottlenet {
    /// Stores a setting, or shows the settings.
    ///
    /// # Errors
    ///
    /// If the arguments are wrong, or the file of settings cannot be read or written.
    pub fn run(&self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let out = &mut *cx.out;
        let setting = match self.what.as_str() {
            "show" => return self.show(out),
            "auto" => BottlenetSetting::Auto,
            "off" => BottlenetSetting::Off,
            rate => self.rate(rate)?,
        };
        if self.up.is_some() && !matches!(setting, BottlenetSetting::Rate { .. }) {
            return Err(Failure::usage("--up needs a rate"));
        }
        let interface = interface::choose(self.interface.as_deref()).map_err(Failure::usage)?;
        let directory = make_directory(&own_directory())?;
        let cannot = |e| {
            Failure::at_run_time(format!(
                "cannot store the setting in {}: {e}",
                directory.display()
            ))
        };
        let mut file = BottlenetFile::read(&directory).map_err(cannot)?;
        file.interfaces.insert(interface.clone(), setting);
        file.write(&directory).map_err(cannot)?;
        if self.json {
            writeln!(out, "{}", json!({ "interface": interface, "bottlenet": setting }))?;
        } else {
            writeln!(out, "{interface}: {setting}")?;
        }
        Ok(Exit::Done)
    }

    fn rate(&self, text: &str) -> Result<BottlenetSetting, Failure> {
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
                "the rate must be above zero; use `bottlenet off` if it is not known",
            ));
        }
        Ok(BottlenetSetting::Rate {
            down_bps: rate.bits(),
            up_bps: self.up.map(Bandwidth::bits),
        })
    }

    fn show(&self, out: &mut dyn Write) -> Result<Exit, Failure> {
        let mut shown: Vec<Value> = Vec::new();
        for directory in setting_directories() {
            let file = BottlenetFile::read(&directory).map_err(|e| {
                Failure::at_run_time(format!(
                    "cannot read the settings in {}: {e}",
                    directory.display()
                ))
            })?;
            for (interface, setting) in file.interfaces {
                let counts = !shown.iter().any(|one| one["interface"] == interface.as_str());
                if self.interface.as_ref().is_none_or(|name| *name == interface) {
                    let whose = if directory == own_directory() {
                        "own"
                    } else {
                        "host"
                    };
                    if !self.json {
                        let other = if counts {
                            ""
                        } else {
                            " (overridden by your own setting)"
                        };
                        writeln!(out, "{interface}: {setting}{other}")?;
                    }
                    shown.push(json!({
                        "interface": interface, "bottlenet": setting, "whose": whose, "counts": counts,
                    }));
                }
            }
            if directory == own_directory() && setting_directories().last() == Some(&directory) {
                break;
            }
        }
        if self.json {
            writeln!(out, "{}", Value::Array(shown))?;
        } else if shown.is_empty() {
            writeln!(out, "no settings: rates are estimated (auto)")?;
        }
        Ok(Exit::Done)
    }
}
