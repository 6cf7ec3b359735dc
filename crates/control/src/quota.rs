//! `quota` of a class: how much it may carry in a day, a week or a month, and which settings it has
//! once that is used up.
//!
//! This file has the settings and their diagnostics, and how a quota stands as a snapshot shows it.
//! `suimon run` counts, and sets what is stated for after it as `suimon set … until` does: so that
//! the packet loop does nothing more, and all is as before when the next day, week or month begins.

use crate::calendar::Period;
use crate::sections::Section;
use crate::setting_change::SettingChange;
use engine::settings;
use engine::settings::{Problem, Raw, Setting, SettingValue, Span, Table, describe, unknown};
use engine::units::{Bytes, patterns};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// So many bytes in each such time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Volume {
    /// The bytes, counted as the interface counts packets.
    pub bytes: Bytes,
    /// The time.
    pub per: Period,
}

impl fmt::Display for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, per) = (self.bytes.get(), self.per.name());
        // As people write it: 50 GB, 5 GiB.
        let binary = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
        let fits = |(shift, _): &&(u32, &str)| bytes.is_multiple_of(1 << *shift);
        match binary.iter().find(fits).filter(|_| !bytes.is_multiple_of(1_000)) {
            Some((shift, unit)) => write!(f, "{} {unit} per {per}", bytes >> shift),
            None => write!(f, "{} per {per}", self.bytes),
        }
    }
}

impl SettingValue for Volume {
    const UNIT: &'static str = "a volume such as \"50 GB per month\", or per week or day";

    fn from_raw(raw: &Raw) -> Result<Self, String> {
        let Raw::Text(text) = raw else {
            return Err(format!("expected {}; found {}", Self::UNIT, describe(raw)));
        };
        let (bytes, per) = text
            .split_once(" per ")
            .ok_or_else(|| format!("expected {}; found \"{text}\"", Self::UNIT))?;
        let bytes: Bytes = bytes
            .parse()
            .map_err(|why: engine::units::UnitError| why.to_string())?;
        if bytes == Bytes::ZERO {
            return Err("a volume of nothing is used up at once".into());
        }
        let per = Period::from_raw(&Raw::Text(per.trim().into()))?;
        Ok(Self { bytes, per })
    }

    fn pattern() -> Option<String> {
        let length = patterns::length();
        let length = length.strip_suffix(r"\s*$")?;
        Some(format!(r"{length}\s+per\s+(day|week|month)\s*$"))
    }
}

settings! {
    /// How much a class may carry: `quota = { volume = "50 GB per month" }`.
    pub struct QuotaSettings {
        /// What it may carry in a day from midnight, a week from Monday, or a month, by the
        /// computer's clock: together with the class of this name of the other direction, where
        /// that is managed too
        volume: Volume = required,
            "counted twice a second: what is used up may be exceeded by what passes in half a second",
            "the contract";
    }
}

/// The settings that a class has once its quota is used up.
pub const THEN: &str = "then";

/// A class with a quota.
#[derive(Clone, PartialEq, Debug)]
pub struct Quota {
    /// Its name.
    pub class: String,
    /// Where the policy declares it.
    pub at: Span,
    /// Its settings.
    pub settings: QuotaSettings,
    /// What the class has in place of its own settings once the volume is used up, until the time
    /// is over; nothing: it is told, and nothing changes.
    pub then: Vec<(String, Raw)>,
}

impl Quota {
    /// Reads the quota of this class, whose kind declares these settings for classes.
    pub(crate) fn read(
        section: &Section<'_>,
        (class, at): (&str, Span),
        declared: &[Setting],
        problems: &mut Vec<Problem>,
    ) -> Option<Self> {
        let before = problems.len();
        let settings = QuotaSettings::read(&section.table(|key| key != THEN), &[THEN], problems);
        let then = section
            .section(THEN, problems)
            .map(|section| section.table(|_| true))
            .unwrap_or_default();
        refuse_other(&then, declared, problems);
        let changes = then.entries.iter();
        let changes = changes.map(|entry| (entry.key.to_string(), entry.value.clone()));
        let (then, sound) = (changes.collect(), problems.len() == before);
        let settings = settings.filter(|_| sound)?;
        Some(Self {
            class: class.into(),
            at,
            settings,
            then,
        })
    }

    /// The settings that the class has then, by name.
    pub fn afterwards(&self) -> BTreeMap<String, SettingChange> {
        let changes = self.then.iter();
        changes
            .filter_map(|(key, value)| Some((key.clone(), SettingChange::of(value)?)))
            .collect()
    }

    /// `50 GB per month, then upperlimit = 1 Mbit/s`.
    pub fn words(&self) -> String {
        let changes = self.then.iter().map(|(key, value)| format!("{key} = {value}"));
        let changes: Vec<String> = changes.collect();
        match changes.is_empty() {
            true => format!("{}, then it is told", self.settings.volume),
            false => format!("{}, then {}", self.settings.volume, changes.join(", ")),
        }
    }
}

/// Refuses what is no setting of a class of this kind. None need be there.
fn refuse_other(table: &Table, declared: &[Setting], problems: &mut Vec<Problem>) {
    for entry in &table.entries {
        match declared.iter().find(|setting| setting.name == entry.key) {
            None => {
                let names = declared.iter().map(|setting| setting.name);
                problems.push(unknown("setting of a class", &entry.key, entry.key_at, names));
            }
            Some(setting) => problems.extend((setting.accepts)(&entry.value).err().map(|why| {
                let message = format!("`{}`: {why}", setting.name);
                Problem::new(entry.at, message)
            })),
        }
    }
}

/// How a class's quota stands.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct QuotaView {
    /// What the class may carry in the time.
    pub volume_bytes: u64,
    /// The time: `day`, `week` or `month`.
    pub per: String,
    /// What it has carried since the time began, in both directions where both are managed.
    pub used_bytes: u64,
    /// When the next time begins, in milliseconds since 1970.
    pub ends_ms: u64,
    /// Whether the volume is used up.
    pub used_up: bool,
    /// The settings that the policy states for when it is used up, until the next time begins.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub then: BTreeMap<String, SettingChange>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{InterfacePolicy, Policy};
    use engine::tree::Registry;

    fn read(quota: &str) -> Result<InterfacePolicy, String> {
        let text = format!(
            "version = 1\n[interface.wan0]\nbandwidth = \"10 Mbit/s\"\ndiscipline = \"hfsc\"\n\
             [[interface.wan0.class]]\nname = \"anna\"\nlinkshare = \"2 Mbit/s\"\nquota = {quota}\n\
             [[interface.wan0.class]]\nname = \"others\"\ndefault = true\nrealtime = \"7 Mbit/s\"\n"
        );
        let read = Policy::read("test", &text, &Registry::builtin(), &[]);
        read.map(|mut policy| policy.interfaces.remove(0))
            .map_err(|mistakes| mistakes.render(false))
    }

    #[test]
    fn a_volume_has_a_length_and_a_time_of_the_calendar() {
        let volume = |text: &str| Volume::from_raw(&Raw::Text(text.into()));
        let gigabytes = |n: u64, per| {
            let bytes = Bytes::new(n * 1_000_000_000);
            Ok(Volume { bytes, per })
        };
        assert_eq!(volume("50 GB per month"), gigabytes(50, Period::Month));
        assert_eq!(volume("2GB per  week"), gigabytes(2, Period::Week));
        let binary = volume("1 GiB per day").expect("a volume");
        assert_eq!(binary.bytes, Bytes::new(1 << 30));
        for text in [
            "50 GB per month",
            "5 GiB per day",
            "1500 kB per week",
            "1 KiB per day",
        ] {
            let shown = volume(text).map(|volume| volume.to_string());
            assert_eq!(shown.and_then(|shown| volume(&shown)), volume(text), "{text}");
        }
        let pattern = Volume::pattern().expect("editors know it");
        assert!(pattern.ends_with(r")\s+per\s+(day|week|month)\s*$"), "{pattern}");
        for wrong in [
            "50 GB",
            "50 per month",
            "0 B per day",
            "5 GB per hour",
            "5 Mbit/s per day",
            "",
        ] {
            assert!(volume(wrong).is_err(), "{wrong} was accepted");
        }
    }

    #[test]
    fn a_quota_is_read_with_what_comes_after_it() {
        let policy = read("{ volume = \"50 GB per month\", then = { upperlimit = \"1 Mbit/s\" } }");
        let policy = policy.expect("a policy");
        assert_eq!(
            policy.quotas[0].words(),
            "50 GB per month, then upperlimit = 1 Mbit/s"
        );
        let told = read("{ volume = \"5 GiB per day\" }").expect("a policy");
        assert_eq!(told.quotas[0].words(), "5 GiB per day, then it is told");
    }

    #[test]
    fn what_cannot_be_set_when_the_time_comes_is_refused_before() {
        let cases = [
            ("{ then = { upperlimit = \"1 Mbit/s\" } }", "`volume` is missing"),
            (
                "{ volume = \"5 GB per month\", then = { upperlimt = \"1 Mbit/s\" } }",
                "did you mean `upperlimit`",
            ),
            (
                "{ volume = \"5 GB per month\", then = { upperlimit = 7 } }",
                "`upperlimit`: expected",
            ),
            (
                "{ volume = \"5 GB per month\", then = 7 }",
                "`then`: expected a table",
            ),
            (
                "{ volume = \"5 GB per month\", than = {} }",
                "did you mean `then`",
            ),
            ("\"5 GB per month\"", "`quota`: expected a table"),
            // More than the link has, with what is promised to others.
            (
                "{ volume = \"5 GB per month\", then = { realtime = \"4 Mbit/s\" } }",
                "once the quota of `anna` is used up",
            ),
        ];
        for (quota, why) in cases {
            let found = read(quota).expect_err(quota);
            assert!(found.contains(why), "{quota}: {found}");
        }
    }
}
