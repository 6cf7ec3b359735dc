//! Qdiscs, classes and filters, as they are read from JSON and from words alike.

use super::json::Node;
use crate::place::{ImportError, Place};
use crate::rates;
use engine::units::{Bandwidth, Bytes, Duration};
use std::fmt;

/// `1:10`, in hexadecimal; the minor number of a qdisc is 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Handle {
    pub(super) major: u16,
    pub(super) minor: u16,
}

impl Handle {
    pub(super) fn read(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once(':')?;
        let part = |digits: &str| match digits {
            "" => Some(0),
            digits => u16::from_str_radix(digits, 16).ok(),
        };
        Some(Self {
            major: part(major)?,
            minor: part(minor)?,
        })
    }

    /// Its qdisc.
    pub(super) const fn qdisc(self) -> Self {
        Self { minor: 0, ..self }
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.minor {
            0 => write!(f, "{:x}:", self.major),
            minor => write!(f, "{:x}:{minor:x}", self.major),
        }
    }
}

/// Options in the order in which they are given.
#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    pub(super) list: Vec<(String, Node)>,
    pub(super) at: Place,
}

impl Options {
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        self.list
            .iter()
            .find(|(own, _)| own == key)
            .map(|(_, value)| value)
    }

    fn read<T>(
        &self,
        key: &str,
        what: &str,
        read: impl Fn(&Node) -> Option<T>,
    ) -> Result<Option<T>, ImportError> {
        let Some(node) = self.get(key) else {
            return Ok(None);
        };
        let wrong = || ImportError::new(self.at, format!("`{key}`: expected {what}; found `{node}`"));
        read(node).map(Some).ok_or_else(wrong)
    }

    /// A rate: bytes per second in JSON, with a unit in words; none if it is unlimited.
    pub(super) fn rate(&self, key: &str) -> Result<Option<Bandwidth>, ImportError> {
        if self.get(key).and_then(Node::text) == Some("unlimited") {
            return Ok(None);
        }
        self.read(key, "a rate such as 20mbit", |node| match node {
            Node::Whole(bytes) => Some(rates::tc_json(*bytes)),
            Node::Text(text) => rates::tc(text),
            _ => None,
        })
    }

    /// A length in bytes.
    pub(super) fn size(&self, key: &str) -> Result<Option<Bytes>, ImportError> {
        self.read(key, "a length such as 32k", |node| match node {
            Node::Whole(bytes) => Some(Bytes::new(*bytes)),
            // `1600b/8`, with the length of a cell.
            Node::Text(text) => rates::tc_size(text.split('/').next().unwrap_or(text)),
            _ => None,
        })
    }

    /// A time: microseconds in JSON.
    pub(super) fn time(&self, key: &str) -> Result<Option<Duration>, ImportError> {
        self.read(key, "a time such as 5ms", |node| match node {
            Node::Whole(us) if *us < u64::MAX / 1_000 => Some(Duration::from_micros(*us)),
            Node::Text(text) => rates::tc_time(text),
            _ => None,
        })
    }

    /// A whole number.
    pub(super) fn integer(&self, key: &str) -> Result<Option<u64>, ImportError> {
        self.read(key, "a whole number", |node| match node {
            Node::Whole(number) => Some(*number),
            Node::Text(text) => text.trim_end_matches(['p', 'b']).parse().ok(),
            _ => None,
        })
    }

    /// Whether it is given, and not as false.
    pub(super) fn flag(&self, key: &str) -> bool {
        self.get(key).is_some_and(|node| *node != Node::Boolean(false))
    }
}

#[derive(Clone, Debug)]
pub(super) struct Qdisc {
    pub(super) device: String,
    pub(super) kind: String,
    pub(super) handle: Handle,
    /// None for the root.
    pub(super) parent: Option<Handle>,
    pub(super) options: Options,
    pub(super) at: Place,
}

#[derive(Clone, Debug)]
pub(super) struct Class {
    /// What is not said is known by the qdisc.
    pub(super) device: Option<String>,
    pub(super) handle: Handle,
    /// None, or a qdisc, at the top.
    pub(super) parent: Option<Handle>,
    pub(super) options: Options,
    pub(super) at: Place,
}

/// A comparison of u32: a word of the packet, masked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Match {
    pub(super) value: u32,
    pub(super) mask: u32,
    pub(super) offset: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Filter {
    pub(super) device: Option<String>,
    pub(super) parent: Option<Handle>,
    pub(super) protocol: String,
    pub(super) preference: u64,
    pub(super) kind: String,
    pub(super) flow: Option<Handle>,
    pub(super) matches: Vec<Match>,
    pub(super) options: Options,
    /// What of it cannot be asked for.
    pub(super) odd: Option<String>,
    pub(super) at: Place,
}

/// All that is read.
#[derive(Clone, Debug, Default)]
pub(super) struct Objects {
    pub(super) qdiscs: Vec<Qdisc>,
    pub(super) classes: Vec<Class>,
    pub(super) filters: Vec<Filter>,
    /// The first qdisc that names no device.
    pub(super) unnamed: Option<Place>,
}

impl Objects {
    /// The classes of this qdisc.
    pub(super) fn classes_of<'a>(&'a self, qdisc: &'a Qdisc) -> impl Iterator<Item = &'a Class> {
        let own = move |class: &&Class| {
            class.handle.qdisc() == qdisc.handle
                && class.device.as_ref().is_none_or(|device| *device == qdisc.device)
        };
        self.classes.iter().filter(own)
    }

    /// The qdisc below this class or qdisc.
    pub(super) fn below(&self, device: &str, handle: Handle) -> Option<&Qdisc> {
        let mut all = self.qdiscs.iter();
        all.find(|qdisc| qdisc.device == device && qdisc.parent == Some(handle))
    }
}
