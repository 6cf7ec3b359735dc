//! `suimon class`: adds a class to a running suimon, or removes one, while packets flow, for good
//! or for a time.

use super::amending::{self, Amending};
use crate::commands::Context;
use crate::exit::{Exit, Failure};
use clap::{Args, Subcommand};
use control::calendar;
use control::protocol::{AddedClass, AddedQuota, RemovedClass, Request, SettingChange};
use std::collections::BTreeMap;

/// Add a class to an interface of a running suimon, or remove one
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct Class {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Add a class with its filters
    ///
    /// `suimon class add wan0 guests rate=3Mbit/s --filter source=10.9.0.0/16` adds what a policy
    /// would say of it; `--quota "50 GB per month" --then rate=64kbit/s` how much it may carry, and
    /// what it has then. With `for 2h` or `until 18:00` at the end it goes again then.
    Add(Add),
    /// Remove a class with its filters; its packets go where the other filters put them
    ///
    /// With `for 2h` or `until 18:00` at the end it is there again then.
    Remove(Remove),
}

#[derive(Debug, Args)]
#[command(
    override_usage = "suimon class add [OPTIONS] INTERFACE CLASS [SETTING=VALUE]... [for TIME | until CLOCK]"
)]
struct Add {
    /// The interface, the name of the class, and what a policy says of it, without quotes:
    /// rate=20Mbit/s, parent=home, discipline=fifo; then for how long, if not for good
    #[arg(value_name = "WORD", required = true)]
    words: Vec<String>,
    /// A filter of the class: protocol=udp,destination_port=53
    #[arg(long, value_name = "FIELD=VALUE,...")]
    filter: Vec<String>,
    /// How much it may carry in a day, a week or a month: "50 GB per month"
    #[arg(long, value_name = "VOLUME")]
    quota: Option<String>,
    /// A setting that it has once its quota is used up, until the next time begins:
    /// upperlimit=1Mbit/s
    #[arg(long, value_name = "SETTING=VALUE", requires = "quota")]
    then: Vec<String>,
    #[command(flatten)]
    amending: Amending,
}

#[derive(Debug, Args)]
#[command(override_usage = "suimon class remove [OPTIONS] INTERFACE CLASS [for TIME | until CLOCK]")]
struct Remove {
    /// The interface and the class; then for how long, if not for good
    #[arg(value_name = "WORD", required = true)]
    words: Vec<String>,
    #[command(flatten)]
    amending: Amending,
}

/// The interface, the class, the other words, and the moment at which it ends.
type Named<'a> = (&'a str, &'a str, &'a [String], Option<u64>);

fn named(words: &[String], now_ms: u64) -> Result<Named<'_>, String> {
    let (words, until_ms) = amending::end(words, now_ms)?;
    match words {
        [interface, class, rest @ ..] if !class.contains('=') => Ok((interface, class, rest, until_ms)),
        _ => Err("expected an interface and the name of a class".into()),
    }
}

fn added(add: &Add, now_ms: u64) -> Result<AddedClass, String> {
    let (interface, class, rest, until_ms) = named(&add.words, now_ms)?;
    let quota = |volume: &String| {
        Ok::<_, String>(AddedQuota {
            volume: volume.clone(),
            then: settings(&add.then)?,
        })
    };
    Ok(AddedClass {
        interface: interface.into(),
        class: class.into(),
        settings: settings(rest)?,
        filters: (add.filter.iter().map(|filter| settings(&fields(filter)))).collect::<Result<_, _>>()?,
        quota: add.quota.as_ref().map(quota).transpose()?,
        until_ms,
        reason: None,
    })
}

/// Settings with their values.
fn settings(words: &[String]) -> Result<BTreeMap<String, SettingChange>, String> {
    words.iter().map(|word| amending::change(word)).collect()
}

/// The fields of a filter: what follows a comma and has no key belongs to the value before, as in
/// `tcp_flags=ack,!syn`.
fn fields(filter: &str) -> Vec<String> {
    let mut fields: Vec<String> = Vec::new();
    for part in filter.split(',') {
        match fields.last_mut().filter(|_| !part.contains('=')) {
            Some(value) => *value += &format!(",{part}"),
            None => fields.push(part.to_owned()),
        }
    }
    fields
}

fn removed(words: &[String], now_ms: u64) -> Result<RemovedClass, String> {
    match named(words, now_ms)? {
        (interface, class, [], until_ms) => Ok(RemovedClass {
            interface: interface.into(),
            class: class.into(),
            until_ms,
            reason: None,
        }),
        (_, _, [first, ..], _) => Err(format!(
            "`{first}`: expected nothing more, or `for TIME` or `until CLOCK`"
        )),
    }
}

impl Class {
    /// Sends the request.
    pub fn run(self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let now_ms = calendar::now_ms();
        let (request, amending) = match self.what {
            What::Add(add) => {
                let added = added(&add, now_ms).map_err(Failure::usage)?;
                let reason = add.amending.reason.clone();
                (Request::AddClass(AddedClass { reason, ..added }), add.amending)
            }
            What::Remove(Remove { words, amending }) => {
                let removed = removed(&words, now_ms).map_err(Failure::usage)?;
                let reason = amending.reason.clone();
                (Request::RemoveClass(RemovedClass { reason, ..removed }), amending)
            }
        };
        amending.send(&request, cx.out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    /// What this command line asks for.
    fn added(line: &str, more: &[&str]) -> Result<AddedClass, String> {
        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            add: Add,
        }
        let words = line.split(' ').chain(more.iter().copied());
        let read = Line::try_parse_from(std::iter::once("add").chain(words));
        super::added(&read.map_err(|why| why.to_string())?.add, 1_000)
    }

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_class_is_added_with_settings_and_filters_and_for_how_long() {
        let filters = [
            "--filter=protocol=udp,destination_port=53",
            "--filter=dscp=8",
            "--filter=tcp_flags=ack,!syn,length=0-80",
        ];
        let found = added("wan0 guests rate=3Mbit/s parent=home for 2h", &filters);
        let found = found.expect("a class");
        assert_eq!((&*found.interface, &*found.class), ("wan0", "guests"));
        assert_eq!(found.settings.keys().collect::<Vec<_>>(), ["parent", "rate"]);
        assert_eq!(found.filters[0]["protocol"], SettingChange::Text("udp".into()));
        assert_eq!(found.filters[1]["dscp"], SettingChange::Integer(8));
        assert_eq!(
            found.filters[2]["tcp_flags"],
            SettingChange::Text("ack,!syn".into())
        );
        assert_eq!(found.filters[2]["length"], SettingChange::Text("0-80".into()));
        assert_eq!((found.until_ms, found.quota), (Some(7_201_000), None));
        assert!(added("wan0 guests", &[]).is_ok_and(|found| found.settings.is_empty()));
        let found = removed(&words("wan0 guests"), 0).expect("a class");
        assert_eq!((&*found.class, found.until_ms), ("guests", None));
    }

    #[test]
    fn a_class_is_added_with_a_quota() {
        let quota = ["--quota", "50 GB per month", "--then", "upperlimit=1Mbit/s"];
        let found = added("wan0 anna linkshare=5Mbit/s", &quota).expect("a class");
        let quota = found.quota.expect("a quota");
        assert_eq!(quota.volume, "50 GB per month");
        assert_eq!(quota.then["upperlimit"], SettingChange::Text("1Mbit/s".into()));
        assert!(
            added("wan0 anna", &["--then", "rate=1Mbit/s"]).is_err(),
            "after what?"
        );
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for wrong in [
            "wan0",
            "wan0 rate=1Mbit/s",
            "wan0 guests rate",
            "wan0 guests for ever",
        ] {
            assert!(added(wrong, &[]).is_err(), "{wrong} was accepted");
        }
        assert!(added("wan0 guests", &["--filter=protocol"]).is_err());
        for wrong in ["wan0", "wan0 guests rate=1Mbit/s", "wan0 guests others"] {
            assert!(removed(&words(wrong), 0).is_err(), "{wrong} was accepted");
        }
    }
}
