//! The link behind a tree of disciplines: each of its facts, stated once.
//!
//! A discipline reads these facts here and has no setting that repeats one. Whoever makes a plan
//! fills them in from the one place that states them: the interface of a policy, its port, or the
//! link of a scenario.

use crate::settings::{Raw, SettingValue};
use crate::units::{Bandwidth, Bytes, Duration};

/// Facts about the link that a tree is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// Its bandwidth, in the basis in which packets' lengths are counted.
    pub bandwidth: Bandwidth,
    /// The longest packet, in the same basis.
    pub mtu: Bytes,
    /// Framing that every packet's length includes, beyond the frame that an interface shows.
    pub overhead: Bytes,
    /// Packets that the device holds at most, the one on the wire included: its transmit ring.
    pub ring: u32,
}

/// The longest super-packet: 64 KiB of IP and its header.
pub const LONGEST_SUPER: Bytes = Bytes::new(65_549);
/// Ports cut super-packets that would take longer.
const SPLIT: Duration = Duration::from_millis(1);

impl Link {
    /// A link whose packets have no overhead and whose device holds only the packet on the wire.
    pub const fn new(bandwidth: Bandwidth, mtu: Bytes) -> Self {
        Self {
            bandwidth,
            mtu,
            overhead: Bytes::ZERO,
            ring: 1,
        }
    }

    /// The same with this overhead, which the lengths include already.
    #[must_use]
    pub const fn with_overhead(self, overhead: Bytes) -> Self {
        Self { overhead, ..self }
    }

    /// The same behind a device that holds so many packets.
    #[must_use]
    pub const fn with_ring(self, ring: u32) -> Self {
        Self { ring, ..self }
    }

    /// The longest packet, super-packets included.
    pub fn longest(&self) -> Bytes {
        self.bandwidth.bytes_in(SPLIT).min(LONGEST_SUPER).max(self.mtu)
    }

    /// What may be in the device when a packet arrives: a full ring, of which the last may be a
    /// packet of this length.
    pub fn ahead(&self, longest: Bytes) -> Bytes {
        self.mtu.times(u64::from(self.ring.saturating_sub(1))) + self.mtu.max(longest)
    }
}

/// A fact of a link that settings of disciplines once repeated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fact {
    /// [`Link::overhead`].
    Overhead,
    /// [`Link::ring`].
    Ring,
}

impl Fact {
    /// The fact, as a policy writes it.
    pub fn of(self, link: Link) -> Raw {
        match self {
            Self::Overhead => link.overhead.into(),
            Self::Ring => link.ring.into(),
        }
    }

    /// Where it is stated.
    pub fn stated(self) -> &'static str {
        match self {
            Self::Overhead => "`overhead` of the interface",
            Self::Ring => "`transmit_ring` of [port], or of the scenario's link",
        }
    }

    /// Whether a value states the same.
    ///
    /// # Errors
    /// What was expected, if the value cannot be read.
    pub fn agrees(self, value: &Raw, link: Link) -> Result<bool, String> {
        Ok(match self {
            Self::Overhead => Bytes::from_raw(value)? == link.overhead,
            Self::Ring => u32::from_raw(value)? == link.ring,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ahead_is_the_ring_and_its_last_packet_may_be_the_longest() {
        let link = Link::new(Bandwidth::mbit(100), Bytes::new(1_500));
        assert_eq!(link.longest(), Bytes::new(12_500), "1 ms");
        assert_eq!(link.ahead(link.mtu), Bytes::new(1_500));
        assert_eq!(
            link.with_ring(4).ahead(link.longest()),
            Bytes::new(3 * 1_500 + 12_500)
        );
    }

    #[test]
    fn a_fact_agrees_by_value_and_not_by_spelling() {
        let link = Link::new(Bandwidth::gbit(1), Bytes::new(1_538))
            .with_overhead(Bytes::new(24))
            .with_ring(64);
        let text = |text: &str| Raw::Text(text.into());
        assert_eq!(Fact::Overhead.agrees(&text("0.024 kB"), link), Ok(true));
        assert_eq!(Fact::Overhead.agrees(&text("0 B"), link), Ok(false));
        assert_eq!(Fact::Ring.agrees(&Raw::Integer(64), link), Ok(true));
        assert!(Fact::Ring.agrees(&text("64"), link).is_err());
    }
}
