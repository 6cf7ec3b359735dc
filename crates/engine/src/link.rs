//! The link behind a tree of disciplines: each of its facts, stated once.
//!
//! A discipline reads these facts here and has no setting that repeats one. Whoever makes a plan
//! fills them in from the one place that states them: the interface of a policy, its port, or the
//! link of a scenario.

use crate::framing::{Framing, Overhead};
use crate::settings::{Raw, SettingValue};
use crate::units::{Bandwidth, Bytes, Duration};

/// Facts about the link that a tree is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// Its bandwidth, in the basis in which packets' lengths are counted.
    pub bandwidth: Bandwidth,
    /// The longest packet, in the same basis.
    pub mtu: Bytes,
    /// From the frame that an interface shows to the length that every packet has here.
    pub framing: Framing,
    /// Packets that the device holds at most, the one on the wire included: its transmit ring.
    pub ring: u32,
    /// By how much later than it was to whoever moves the packets may run, as is usual. In that
    /// time the device may have nothing to send.
    pub lateness: Duration,
}

/// A thread of a program runs later than it was to by at most this, as is usual. What is more is a
/// hold-up of its host.
pub const LATENESS: Duration = Duration::from_millis(1);
/// The longest super-packet: 64 KiB of IP and its header.
pub const LONGEST_SUPER: Bytes = Bytes::new(65_549);
/// Ports cut super-packets that would take longer.
const SPLIT: Duration = Duration::from_millis(1);

impl Link {
    /// A link whose packets count as frames and whose device holds only the packet on the wire.
    pub const fn new(bandwidth: Bandwidth, mtu: Bytes) -> Self {
        Self {
            bandwidth,
            mtu,
            framing: Framing::PLAIN,
            ring: 1,
            lateness: Duration::ZERO,
        }
    }

    /// The same with this framing, which the lengths include already.
    #[must_use]
    pub const fn with_framing(self, framing: Framing) -> Self {
        Self { framing, ..self }
    }

    /// The same behind a device that holds so many packets.
    #[must_use]
    pub const fn with_ring(self, ring: u32) -> Self {
        Self { ring, ..self }
    }

    /// The same where whoever moves the packets may be late by so much.
    #[must_use]
    pub const fn with_lateness(self, lateness: Duration) -> Self {
        Self { lateness, ..self }
    }

    /// The longest packet, super-packets included.
    pub fn longest(&self) -> Bytes {
        self.bandwidth.bytes_in(SPLIT).min(LONGEST_SUPER).max(self.mtu)
    }

    /// What may go before a packet that arrives, whatever its class: a full ring, of which the last
    /// may be a packet of this length, and what the link could have sent while nobody gave it
    /// anything.
    pub fn ahead(&self, longest: Bytes) -> Bytes {
        let ring = self.mtu.times(u64::from(self.ring.saturating_sub(1))) + self.mtu.max(longest);
        ring + self.missed()
    }

    /// What the link carries in the time by which whoever moves the packets may be late; a begun
    /// byte in full.
    pub fn missed(&self) -> Bytes {
        let nanobits = u128::from(self.bandwidth.bits()) * u128::from(self.lateness.nanos());
        Bytes::new(u64::try_from(nanobits.div_ceil(8_000_000_000)).unwrap_or(u64::MAX))
    }
}

/// A fact of a link that settings of disciplines once repeated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fact {
    /// What [`Link::framing`] adds to each frame.
    Overhead,
    /// [`Link::ring`].
    Ring,
}

impl Fact {
    /// The fact, as a policy writes it.
    pub fn of(self, link: Link) -> Raw {
        match self {
            Self::Overhead => link.framing.overhead().into(),
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
            Self::Overhead => Overhead::from_raw(value)? == link.framing.overhead(),
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
    fn lateness_is_as_if_what_the_link_carries_in_it_went_before() {
        let link = Link::new(Bandwidth::mbit(10), Bytes::new(1_500));
        let ahead = |lateness| link.with_lateness(lateness).ahead(link.mtu);
        assert_eq!(ahead(LATENESS), Bytes::new(1_500 + 1_250));
        assert_eq!(ahead(Duration::from_nanos(1)), Bytes::new(1_501), "rounded up");
    }

    #[test]
    fn a_fact_agrees_by_value_and_not_by_spelling() {
        let link = Link::new(Bandwidth::gbit(1), Bytes::new(1_538))
            .with_framing(Framing::add(24))
            .with_ring(64);
        let text = |text: &str| Raw::Text(text.into());
        assert_eq!(Fact::Overhead.agrees(&text("0.024 kB"), link), Ok(true));
        assert_eq!(Fact::Overhead.agrees(&text("0 B"), link), Ok(false));
        assert_eq!(Fact::Ring.agrees(&Raw::Integer(64), link), Ok(true));
        assert!(Fact::Ring.agrees(&text("64"), link).is_err());
    }
}
