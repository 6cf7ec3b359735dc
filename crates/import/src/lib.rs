//! Other programs' traffic control files as policies: what ALTQ, pf, tc, OpenWrt's SQM, LibreQoS
//! and WireGuard are told, in Suimon's words; and what netem is told, as links of a lab. In reading
//! order:
//!
//! - [`place`]: where something stands in a file, and the words of a line;
//! - [`rates`]: the units of each program, which look alike and are not;
//! - [`draft`]: a policy as it is put together, and its text;
//! - one module for each format: text → draft.
//!
//! What a policy cannot say is never left out silently: it is in [`Draft::losses`], each with its
//! place, and in the head of the text. A condition of a filter that cannot be translated takes
//! the whole filter with it, since the rest would match more packets than were meant.

#![forbid(unsafe_code)]

mod altq;
pub mod draft;
mod framing;
mod libreqos;
mod missing;
mod netem;
mod pf;
pub mod place;
pub mod rates;
mod sqm;
mod tc;
mod wireguard;

pub use draft::Draft;
pub use missing::{ClientQuota, Missing};
pub use place::{ImportError, Place, SourceFile};

/// A format that can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// altq.conf(5), as altqd reads it.
    Altq,
    /// pf.conf(5): queues of FreeBSD and NetBSD (ALTQ) and of OpenBSD.
    Pf,
    /// tc(8): what `tc -j qdisc`, `class` and `filter` show, and its commands.
    Tc,
    /// netem by tc(8): its commands, and what `tc qdisc` shows.
    Netem,
    /// OpenWrt's /etc/config/sqm.
    Sqm,
    /// LibreQoS's ShapedDevices.csv and network.json.
    LibreQos,
    /// wg-quick(8).
    WireGuard,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Altq,
        Self::Pf,
        Self::Tc,
        Self::Netem,
        Self::Sqm,
        Self::LibreQos,
        Self::WireGuard,
    ];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Altq => "altq",
            Self::Pf => "pf",
            Self::Tc => "tc",
            Self::Netem => "netem",
            Self::Sqm => "sqm",
            Self::LibreQos => "libreqos",
            Self::WireGuard => "wireguard",
        }
    }

    /// Whether it makes a topology for the lab, not a policy.
    pub const fn makes_topology(self) -> bool {
        matches!(self, Self::Netem)
    }

    /// The format of this name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// The format that a text looks like, by the first line that says something.
    pub fn guess(text: &str) -> Option<Self> {
        let said = text.lines().map(str::trim);
        let mut said = said.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let first = said.next()?;
        let word = first.split_whitespace().next()?;
        let has = |wanted: &str| text.lines().any(|line| line.trim().starts_with(wanted));
        match word {
            _ if netem::looks_so(text) => Some(Self::Netem),
            "[Interface]" | "[Peer]" => Some(Self::WireGuard),
            "tc" | "qdisc" => Some(Self::Tc),
            "class" if first.contains("htb") || first.contains("hfsc") => Some(Self::Tc),
            "config" if has("config queue") => Some(Self::Sqm),
            "interface" | "class" => Some(Self::Altq),
            _ if first.starts_with("Circuit ID") => Some(Self::LibreQos),
            _ if first.starts_with('[') => Some(Self::Tc),
            _ if first.starts_with('{') => Some(Self::LibreQos),
            _ if ["altq on ", "queue ", "match ", "pass "]
                .iter()
                .any(|word| has(word)) =>
            {
                Some(Self::Pf)
            }
            _ if has("tc qdisc") || has("tc class") => Some(Self::Tc),
            _ => None,
        }
    }

    /// Reads these files.
    ///
    /// # Errors
    ///
    /// Returns the first mistake in them, or what is missing.
    pub fn read(self, sources: &[SourceFile<'_>], missing: &Missing) -> Result<Draft, ImportError> {
        let one = || match sources {
            [one] => Ok(*one),
            _ => Err(ImportError::new(
                Place::default(),
                format!("`{}` is read from one file", self.name()),
            )),
        };
        let mut draft = match self {
            Self::Altq => altq::read(one()?, missing),
            Self::Pf => pf::read(one()?, missing),
            Self::Tc => tc::read(one()?, missing),
            Self::Netem => netem::read(one()?),
            Self::Sqm => sqm::read(one()?),
            Self::LibreQos => libreqos::read(sources, missing),
            Self::WireGuard => wireguard::read(one()?, missing),
        }?;
        draft.finish()?;
        Ok(draft)
    }
}
