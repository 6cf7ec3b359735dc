//! `suimon set`: changes settings of a class of a running suimon while packets flow.

use super::target::Target;
use crate::commands::Context;
use crate::exit::{Exit, Failure};
use clap::Args;
use control::protocol::{Request, SettingChange};
use std::collections::BTreeMap;

/// Change settings of a class of a running suimon; the whole tree is checked before
#[derive(Debug, Args)]
pub struct Set {
    /// The interface
    interface: String,
    /// The class
    class: String,
    /// The new values, written as in a policy, without quotes: rate=20Mbit/s
    #[arg(required = true, value_name = "SETTING=VALUE", value_parser = change)]
    changes: Vec<(String, SettingChange)>,
    #[command(flatten)]
    target: Target,
}

fn change(word: &str) -> Result<(String, SettingChange), String> {
    match word.split_once('=') {
        Some((key, value)) if !key.is_empty() && !value.is_empty() => {
            Ok((key.trim().into(), SettingChange::from_word(value.trim())))
        }
        _ => Err("expected a setting and its value, such as rate=20Mbit/s".into()),
    }
}

impl Set {
    /// Sends the request.
    pub fn run(self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let changes: BTreeMap<String, SettingChange> = self.changes.into_iter().collect();
        let (interface, class) = (self.interface, self.class);
        self.target.request(
            &Request::Set {
                interface,
                class,
                changes,
            },
            cx.out,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_a_setting_and_its_value() {
        let rate = SettingChange::Text("20Mbit/s".into());
        assert_eq!(change("rate=20Mbit/s"), Ok(("rate".into(), rate)));
        assert_eq!(
            change("priority=7"),
            Ok(("priority".into(), SettingChange::Integer(7)))
        );
        for wrong in ["rate", "=7", "rate="] {
            assert!(change(wrong).is_err(), "{wrong} was accepted");
        }
    }
}
