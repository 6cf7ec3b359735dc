//! `suimon set`: changes settings of a running suimon while packets flow, for good or for a time.

use super::amending::{self, Amending};
use crate::commands::Context;
use crate::exit::{Exit, Failure};
use clap::Args;
use control::calendar;
use control::protocol::{Request, SettingChange, SettingChanges};
use std::collections::BTreeMap;

/// Change settings of a class or an interface of a running suimon; the whole tree is checked before
///
/// `suimon set wan0 calls rate=6Mbit/s` changes a class, `suimon set wan0 bandwidth=18Mbit/s` the
/// interface or its discipline. Where only one interface has such a class, or is managed, it need
/// not be named: `suimon set calls rate=6Mbit/s`. With `for 2h` or `until 18:00` at the end what
/// was before is in force again then.
#[derive(Debug, Args)]
#[command(
    override_usage = "suimon set [OPTIONS] [INTERFACE] [CLASS] SETTING=VALUE... [for TIME | until CLOCK]
       suimon set --save"
)]
pub struct Set {
    /// The interface, a class of it unless the interface itself is meant, and the new values,
    /// written as in a policy, without quotes: rate=20Mbit/s; then for how long, if not for good:
    /// `for 2h`, `until 18:00`, `until "2026-12-24 18:00"`
    #[arg(value_name = "WORD", required_unless_present = "save")]
    words: Vec<String>,
    #[command(flatten)]
    amending: Amending,
}

/// What the words ask for.
fn changes(words: &[String], now_ms: u64) -> Result<SettingChanges, String> {
    let expected =
        || "expected an interface, a class if one is meant, and settings such as rate=20Mbit/s".to_owned();
    // A single name may be an interface's or a class's: the running program knows.
    let (interface, words) = match words.split_first() {
        Some((name, rest)) if !name.contains('=') => (name.as_str(), rest),
        _ => ("", words),
    };
    let (class, words) = match words.split_first() {
        Some((class, rest)) if !class.contains('=') => (Some(class.clone()), rest),
        _ => (None, words),
    };
    let (words, until_ms) = amending::end(words, now_ms)?;
    let changes: BTreeMap<String, SettingChange> = words
        .iter()
        .map(|word| amending::change(word))
        .collect::<Result<_, _>>()?;
    if changes.is_empty() {
        return Err(expected());
    }
    Ok(SettingChanges {
        interface: interface.into(),
        class,
        changes,
        until_ms,
        reason: None,
    })
}

impl Set {
    /// Sends the request.
    pub fn run(self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        if self.words.is_empty() {
            return self.amending.write(cx.out);
        }
        let changes = changes(&self.words, calendar::now_ms()).map_err(Failure::usage)?;
        let reason = self.amending.reason.clone();
        let wanted = SettingChanges { reason, ..changes };
        self.amending.send(&Request::Set(wanted), cx.out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Result<SettingChanges, String> {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        changes(&words, 1_000)
    }

    #[test]
    fn the_words_name_an_interface_perhaps_a_class_and_settings() {
        let rate = SettingChange::Text("20Mbit/s".into());
        let set = read("wan0 calls rate=20Mbit/s priority=7").expect("a class");
        assert_eq!(set.class.as_deref(), Some("calls"));
        assert_eq!(set.changes["rate"], rate);
        assert_eq!(set.changes["priority"], SettingChange::Integer(7));
        let set = read("wan0 bandwidth=20Mbit/s").expect("an interface");
        assert_eq!((set.class, set.until_ms), (None, None));
        assert_eq!(set.changes["bandwidth"], rate);
        let set = read("bandwidth=20Mbit/s").expect("the only interface");
        assert_eq!((&*set.interface, set.class), ("", None));
    }

    #[test]
    fn the_last_words_may_say_when_it_ends() {
        let until = |words| read(words).map(|set| set.until_ms);
        assert_eq!(until("wan0 calls rate=1Mbit/s for 2h"), Ok(Some(7_201_000)));
        assert!(until("wan0 calls rate=1Mbit/s until 18:00").is_ok_and(|until| until.is_some()));
        // A class may have such a name.
        assert_eq!(
            read("wan0 for rate=1Mbit/s").map(|set| set.class),
            Ok(Some("for".into()))
        );
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for wrong in [
            "wan0",
            "wan0 calls",
            "wan0 calls rate",
            "wan0 calls =7",
            "wan0 calls rate=",
            "wan0 calls for 2h",
            "wan0 calls rate=1Mbit/s for",
            "wan0 calls rate=1Mbit/s for ever",
            "wan0 calls rate=1Mbit/s until noon",
            "wan0 calls rate=1Mbit/s for 2h priority=7",
        ] {
            assert!(read(wrong).is_err(), "{wrong} was accepted");
        }
    }
}
