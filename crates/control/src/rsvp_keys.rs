//! The key file for RSVP message authentication (RFC 2747): a separate TOML file, so that the
//! policy need not be secret. It opens nothing.
//!
//! ```toml
//! [[key]]
//! id = 1
//! secret = "hex:5b0c1d…"
//! ```
//!
//! Mistakes are reported by line and column only. Neither the line nor a value is quoted, since it
//! may be the secret.

use crate::sections::{self, Section};
use core::fmt;
use core::net::IpAddr;
use engine::choices;
use engine::settings;
use engine::settings::{Problem, Raw, SettingValue, Span};
use engine::units::Duration;

choices! {
    /// The algorithm of the keyed message digest.
    pub enum DigestAlgorithm {
        /// HMAC-SHA-256.
        HmacSha256 = "hmac-sha256",
        /// HMAC-MD5, the only one in RFC 2747.
        HmacMd5 = "hmac-md5",
    }
}

/// The bytes of a secret; `Debug` hides them.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl SettingValue for Secret {
    const UNIT: &'static str =
        "a text in quotes, or \"hex:\" and hexadecimal digits; best 32 random bytes, at least 8";
    fn from_raw(raw: &Raw) -> Result<Self, String> {
        const LEAST: usize = 8;
        let wrong = || format!("expected {}", Self::UNIT);
        let Raw::Text(text) = raw else {
            return Err(wrong());
        };
        let bytes = match text.strip_prefix("hex:") {
            Some(digits) => bytes(digits).ok_or_else(wrong)?,
            None => text.clone().into_bytes(),
        };
        if bytes.len() < LEAST {
            return Err(format!("{}; this one has {} bytes", wrong(), bytes.len()));
        }
        Ok(Self(bytes))
    }
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = digits
        .chars()
        .map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// The identifier of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyId(pub u64);

impl SettingValue for KeyId {
    const UNIT: &'static str = "a whole number below 281474976710656 (48 bits)";
    fn from_raw(raw: &Raw) -> Result<Self, String> {
        let number = match raw {
            Raw::Integer(number) => u64::try_from(*number).ok().filter(|number| number >> 48 == 0),
            _ => None,
        };
        number.map(Self).ok_or_else(|| format!("expected {}", Self::UNIT))
    }
}

/// Which nodes send with a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhoseKey {
    /// All nodes on the link, including this one.
    Shared,
    /// This node only.
    Local,
    /// This neighbour only.
    Neighbour(IpAddr),
}

impl SettingValue for WhoseKey {
    const UNIT: &'static str = "\"all\", \"ours\", or the address of a neighbour";
    fn from_raw(raw: &Raw) -> Result<Self, String> {
        let read = match raw {
            Raw::Text(text) if text == "all" => Some(Self::Shared),
            Raw::Text(text) if text == "ours" => Some(Self::Local),
            Raw::Text(text) => text.parse().ok().map(Self::Neighbour),
            _ => None,
        };
        read.ok_or_else(|| format!("expected {}", Self::UNIT))
    }
}

/// A time, in seconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Time(pub u64);

impl SettingValue for Time {
    const UNIT: &'static str = "a time with its zone in quotes, such as \"2027-01-31T12:00:00Z\"";
    fn from_raw(raw: &Raw) -> Result<Self, String> {
        let read = match raw {
            Raw::Text(text) => text.parse().ok().and_then(|time| seconds(&time)),
            _ => None,
        };
        read.map(Self).ok_or_else(|| format!("expected {}", Self::UNIT))
    }
}

/// Seconds since 1970, if date, time and zone are all given and the time is not before 1970.
fn seconds(time: &toml::value::Datetime) -> Option<u64> {
    let (date, clock, offset) = (time.date?, time.time?, time.offset?);
    let minutes = match offset {
        toml::value::Offset::Z => 0,
        toml::value::Offset::Custom { minutes } => i64::from(minutes),
    };
    // Years begin in March here, so that the leap day is the last day.
    let (year, month) = (i64::from(date.year), i64::from(date.month));
    let (year, month) = match month {
        3.. => (year, month - 3),
        _ => (year - 1, month + 9),
    };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + i64::from(date.day);
    // 1 January 1970, counted in the same way.
    let days = days - 719_469;
    let minutes = days * 24 * 60 + i64::from(clock.hour) * 60 + i64::from(clock.minute) - minutes;
    u64::try_from(minutes * 60 + i64::from(clock.second.unwrap_or(0))).ok()
}

settings! {
    /// A key.
    pub struct KeySettings {
        /// The key identifier, the same at both ends
        id: KeyId = required, "", "RFC 2747, section 2: 48 bits, unique to its sender";
        /// The secret
        secret: Secret = required, "too short: it can be guessed", "RFC 2104: as long as the digest";
        /// The digest algorithm
        algorithm: DigestAlgorithm = default "hmac-sha256",
            "`hmac-md5` is for neighbours that support nothing else", "RFC 2747 has only MD5, which is obsolete";
        /// The sender: all nodes on the link, this node only, or one neighbour only
        whose: WhoseKey = default "all",
            "with a key for each sender, a leaked key compromises only that sender", "RFC 2747, section 3: keys belong to a sender and an interface";
        /// The only interface that uses it
        interface: String = derived "all of `interfaces`", "", "";
        /// From when this node sends with it
        begins: Time = derived "always", "", "RFC 2747, section 5.2: KeyStartValid";
        /// Until when this node sends with it; the last key stays in use if there is no other, and
        /// `status` reports it
        ends: Time = derived "for ever", "", "RFC 2747, section 5.2: KeyEndValid";
        /// How long before `begins` and after `ends` it is accepted
        margin: Duration = default "300 s",
            "too short: messages are dropped where clocks differ; too long: a retired key is accepted for longer", "clocks that are set by hand";
    }
}

/// Reads a key file.
///
/// # Errors
///
/// A line for each mistake: `path:line:column: what`.
pub fn read(path: &str, text: &str) -> Result<Vec<KeySettings>, String> {
    let (mut problems, mut syntax) = (Vec::new(), None);
    let keys = sections::parse(text, &mut problems, |root, problems| {
        syntax = Some(problems.len());
        Some(keys(&root, problems))
    });
    let syntax = syntax.unwrap_or(problems.len());
    // The messages of the parser may quote the file.
    for problem in problems.iter_mut().take(syntax) {
        problem.help = None;
    }
    match keys {
        Some(keys) if problems.is_empty() => Ok(keys),
        _ => {
            let lines = problems.iter().map(|problem| line(path, text, problem));
            Err(lines.collect::<Vec<_>>().join("\n"))
        }
    }
}

fn line(path: &str, text: &str, problem: &Problem) -> String {
    let before = text.get(..problem.at.start()).unwrap_or_default();
    let column = before.rsplit('\n').next().map_or(0, |rest| rest.chars().count()) + 1;
    let help = problem
        .help
        .as_ref()
        .map_or_else(String::new, |help| format!("; {help}"));
    format!(
        "{path}:{}:{column}: {}{help}",
        before.matches('\n').count() + 1,
        problem.message
    )
}

fn keys(root: &Section<'_>, problems: &mut Vec<Problem>) -> Vec<KeySettings> {
    for pair in root.iter().filter(|pair| pair.key != "key") {
        problems.push(Problem::new(pair.key_at, "a key file has only [[key]] tables"));
    }
    let sections = root.sections("key", "key", problems);
    if sections.is_empty() && problems.is_empty() {
        problems.push(Problem::new(
            Span::default(),
            "there is no key in it: add a [[key]] table with `id` and `secret`",
        ));
    }
    let mut keys: Vec<KeySettings> = Vec::new();
    for section in sections {
        let Some(key) = KeySettings::read(&section.table(|_| true), &[], problems) else {
            continue;
        };
        if let (Some(begins), Some(ends)) = (key.begins, key.ends)
            && begins >= ends
        {
            problems.push(Problem::new(section.at, "it ends before it begins"));
        }
        if keys.iter().any(|other| other.clashes(&key)) {
            problems.push(Problem::new(
                section.at,
                format!("there is another key {} on the same interface", key.id.0),
            ));
        }
        keys.push(key);
    }
    keys
}

impl KeySettings {
    /// Whether the key is used on this interface.
    pub fn is_on(&self, interface: &str) -> bool {
        self.interface.as_deref().is_none_or(|only| only == interface)
    }

    /// Whether two keys are ambiguous in received or in sent messages. Keys for sending and keys
    /// for verification are separate.
    fn clashes(&self, other: &Self) -> bool {
        let apart = |a: WhoseKey, b: WhoseKey| a == WhoseKey::Local && matches!(b, WhoseKey::Neighbour(_));
        let together = match (&self.interface, &other.interface) {
            (Some(one), Some(two)) => one == two,
            _ => true,
        };
        self.id == other.id && together && !apart(self.whose, other.whose) && !apart(other.whose, self.whose)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "[[key]]\nid = 1\nsecret = \"a secret of some length\"\n";

    #[test]
    fn a_key_has_an_identifier_a_secret_and_defaults() {
        let keys = read("keys", ONE).expect("a valid file");
        assert_eq!(keys[0].id, KeyId(1));
        assert_eq!(keys[0].secret.0, b"a secret of some length");
        assert_eq!(
            (keys[0].algorithm, keys[0].whose),
            (DigestAlgorithm::HmacSha256, WhoseKey::Shared)
        );
        assert!(keys[0].is_on("wan0") && keys[0].begins.is_none());
        assert!(!format!("{keys:?}").contains("length"), "{keys:?}");
    }

    #[test]
    fn secrets_are_bytes_too() {
        let text = ONE.replace("a secret of some length", "hex:00ffA0b1c2d3e4f5");
        let keys = read("keys", &text).expect("a valid file");
        assert_eq!(keys[0].secret.0, [0, 0xff, 0xa0, 0xb1, 0xc2, 0xd3, 0xe4, 0xf5]);
    }

    #[test]
    fn mistakes_are_reported_by_position_and_without_the_secret() {
        for (text, place, what) in [
            (
                "[[key]]\nid = 1\nsecret = hush hush hush\n",
                "keys:3:10: ",
                "a text must be in quotes",
            ),
            (
                "[[key]]\nid = 1\nsecret = \"hush\"\n",
                "keys:3:10: ",
                "this one has 4 bytes",
            ),
            (
                "[[key]]\nid = 1\nsecret = \"hex:hushhush\"\n",
                "keys:3:10: ",
                "hexadecimal",
            ),
            (
                "[[key]]\nid = 1\nsecret = \"hush hush\nhush\"\n",
                "keys:",
                "this is not TOML",
            ),
            (
                "[[key]]\nid = -1\nsecret = \"hush hush\"\n",
                "keys:2:6: ",
                "48 bits",
            ),
            ("[[key]]\nid = 1\n", "keys:1:1: ", "`secret` is missing"),
            ("[key]\nid = 1\n", "keys:", "[[key]]"),
            ("", "keys:1:1: ", "no key"),
            (
                "[[key]]\nid = 1\nsecret = \"hush hush\"\n[[key]]\nid = 1\nsecret = \"hush hush\"\n",
                "keys:4:1: ",
                "another key 1",
            ),
            (
                "[[key]]\nid = 1\nsecret = \"hush hush\"\nends = \"soon\"\n",
                "keys:4:8: ",
                "with its zone",
            ),
        ] {
            let error = read("keys", text).expect_err(text);
            assert!(error.starts_with(place) && error.contains(what), "{error}");
            assert!(!error.contains("hush"), "{error}");
        }
    }

    #[test]
    fn our_key_and_a_neighbours_key_may_have_the_same_identifier() {
        let two = |one: &str, other: &str| {
            let text = format!("{ONE}whose = \"{one}\"\n{ONE}whose = \"{other}\"\n");
            read("keys", &text).is_ok()
        };
        assert!(two("ours", "10.0.2.2") && two("10.0.2.2", "ours"));
        assert!(!two("10.0.2.2", "10.0.2.3") && !two("all", "ours"));
        let apart = format!("{ONE}interface = \"lan0\"\n{ONE}interface = \"wan0\"\n");
        let keys = read("keys", &apart).expect("on two interfaces");
        assert!(keys[0].is_on("lan0") && !keys[0].is_on("wan0"));
    }

    #[test]
    fn times_are_seconds_since_1970() {
        let read = |text: &str| Time::from_raw(&Raw::Text(text.into())).ok().map(|time| time.0);
        assert_eq!(read("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(read("2000-02-29T12:34:56Z"), Some(951_827_696));
        assert_eq!(read("2026-11-22T07:00:00+01:00"), Some(1_795_327_200));
        assert_eq!(read("2026-11-22T07:00:00"), None, "no zone");
        assert_eq!(read("1969-12-31T23:59:59Z"), None);
    }
}
