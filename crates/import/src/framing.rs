//! What a link carries for a frame, as `tc` and sqm-scripts write it.
//!
//! The kernel counts in one way everywhere: add, at least `mpu`, then cells. Cake counts the
//! overhead from the IP packet on; `stab`, HTB and a policy from the Ethernet header on, which has
//! 14 bytes.

use crate::draft::Draft;
use crate::place::Place;
use engine::framing::{Framing, Linklayer, MinimumUnit, Overhead};
use engine::settings::{Raw, SettingValue};
use engine::units::Bytes;

const ETHERNET: i64 = 14;

/// Where an overhead begins to count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CountsFrom {
    /// The IP packet.
    Ip,
    /// The Ethernet header.
    Frame,
}

/// A framing as it is written there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Written {
    pub(crate) from: CountsFrom,
    pub(crate) overhead: i64,
    pub(crate) mpu: u64,
    pub(crate) linklayer: Linklayer,
}

/// Cake's words for lines (tc-cake(8)): overhead, least, units.
const CAKES: [(&str, i64, u64, Linklayer); 13] = [
    ("conservative", 48, 0, Linklayer::Atm),
    ("ipoa-vcmux", 8, 0, Linklayer::Atm),
    ("ipoa-llcsnap", 16, 0, Linklayer::Atm),
    ("bridged-vcmux", 24, 0, Linklayer::Atm),
    ("bridged-llcsnap", 32, 0, Linklayer::Atm),
    ("pppoa-vcmux", 10, 0, Linklayer::Atm),
    ("pppoa-llc", 14, 0, Linklayer::Atm),
    ("pppoe-vcmux", 32, 0, Linklayer::Atm),
    ("pppoe-llcsnap", 40, 0, Linklayer::Atm),
    ("pppoe-ptm", 30, 0, Linklayer::Ptm),
    ("bridged-ptm", 22, 0, Linklayer::Ptm),
    ("ethernet", 38, 84, Linklayer::Ethernet),
    ("docsis", 18, 64, Linklayer::Ethernet),
];

impl Written {
    /// Frames as they are.
    pub(crate) const fn frames(from: CountsFrom) -> Self {
        let overhead = match from {
            CountsFrom::Ip => ETHERNET,
            CountsFrom::Frame => 0,
        };
        Self {
            from,
            overhead,
            mpu: 0,
            linklayer: Linklayer::Ethernet,
        }
    }

    /// One of cake's words for a line.
    pub(crate) fn of_cake(word: &str) -> Option<Self> {
        let known = CAKES.iter().find(|(name, ..)| *name == word);
        known.map(|(_, overhead, mpu, linklayer)| Self {
            from: CountsFrom::Ip,
            overhead: *overhead,
            mpu: *mpu,
            linklayer: *linklayer,
        })
    }

    /// That of a policy. What a policy cannot say is told as lost.
    pub(crate) fn read(self, at: Place, draft: &mut Draft) -> Framing {
        let more = match self.from {
            CountsFrom::Ip => self.overhead.saturating_sub(ETHERNET),
            CountsFrom::Frame => self.overhead,
        };
        let text = |bytes: i64| Raw::Text(format!("{bytes} B"));
        let overhead = Overhead::from_raw(&text(more)).unwrap_or_else(|_| {
            draft.lost(
                at,
                format!("`overhead {}`: more or less than any link adds", self.overhead),
            );
            Overhead::default()
        });
        let mpu = MinimumUnit::from_raw(&Raw::Bytes(Bytes::new(self.mpu))).unwrap_or_else(|_| {
            draft.lost(at, format!("`mpu {}`: more than any link pads to", self.mpu));
            MinimumUnit::default()
        });
        Framing::of(overhead, mpu, self.linklayer)
    }
}

/// The units of a `linklayer`; nothing if it says none.
pub(crate) fn linklayer(word: &str) -> Option<Linklayer> {
    match word {
        "atm" | "adsl" => Some(Linklayer::Atm),
        "ptm" => Some(Linklayer::Ptm),
        "ethernet" | "noatm" | "unspec" => Some(Linklayer::Ethernet),
        _ => None,
    }
}
