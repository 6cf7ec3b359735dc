//! A setting's new value, as a client sends it, a command line has it and a policy gets it.

use engine::settings::Raw;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// A setting's new value.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SettingChange {
    /// `true` or `false`.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A text, with its unit.
    Text(String),
}

impl SettingChange {
    /// Parses a value of the command line: `20Mbit/s`, `7` or `true`.
    pub fn from_word(word: &str) -> Self {
        match (word.parse(), word.parse()) {
            (Ok(n), _) => Self::Integer(n),
            (_, Ok(b)) => Self::Boolean(b),
            _ => Self::Text(word.into()),
        }
    }

    /// A setting and its value, such as `rate=20Mbit/s`; none if it is not written so.
    pub fn assignment(word: &str) -> Option<(String, Self)> {
        let (key, value) = word.split_once('=')?;
        let both = !key.is_empty() && !value.is_empty();
        both.then(|| (key.trim().into(), Self::from_word(value.trim())))
    }

    /// A value as a policy has it; none if a client cannot send such a one.
    pub fn of(raw: &Raw) -> Option<Self> {
        match raw {
            Raw::Text(text) => Some(Self::Text(text.clone())),
            Raw::Integer(n) => Some(Self::Integer(*n)),
            Raw::Boolean(is) => Some(Self::Boolean(*is)),
            _ => None,
        }
    }

    /// The value as a policy has it.
    pub fn raw(&self) -> Raw {
        match self {
            Self::Boolean(b) => Raw::Boolean(*b),
            Self::Integer(n) => Raw::Integer(*n),
            Self::Text(text) => Raw::Text(text.clone()),
        }
    }
}

impl fmt::Display for SettingChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean(b) => b.fmt(f),
            Self::Integer(n) => n.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// Settings with their values, such as `rate = 5 Mbit/s, priority = 7`.
pub(crate) fn assignments(of: &BTreeMap<String, SettingChange>) -> String {
    let list = of.iter().map(|(key, value)| format!("{key} = {value}"));
    list.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_values_become_policy_values() {
        assert_eq!(
            SettingChange::from_word("20Mbit/s").raw(),
            Raw::Text("20Mbit/s".into())
        );
        assert_eq!(SettingChange::from_word("7").raw(), Raw::Integer(7));
        assert_eq!(SettingChange::from_word("true").raw(), Raw::Boolean(true));
    }

    #[test]
    fn an_assignment_has_a_setting_and_a_value() {
        let of = |word| SettingChange::assignment(word);
        let some = |key: &str, value| Some((key.to_owned(), value));
        assert_eq!(
            of("rate=2Mbit/s"),
            some("rate", SettingChange::Text("2Mbit/s".into()))
        );
        assert_eq!(of("priority = 7"), some("priority", SettingChange::Integer(7)));
        assert_eq!(of("ecn=a=b"), some("ecn", SettingChange::Text("a=b".into())));
        for none in ["rate", "rate=", "=7", "="] {
            assert_eq!(of(none), None, "{none}");
        }
    }

    #[test]
    fn a_policys_value_is_sent_as_it_is_written() {
        for value in [
            SettingChange::Text("2 Mbit/s".into()),
            SettingChange::Integer(-7),
            SettingChange::Boolean(true),
            SettingChange::Boolean(false),
        ] {
            assert_eq!(SettingChange::of(&value.raw()), Some(value));
        }
        assert_eq!(SettingChange::of(&Raw::Other("table")), None);
    }
}
