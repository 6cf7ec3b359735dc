//! What K1 sends, and over what link: section 4.1 of Maeshima, Ito, Ishikura and Asami, for the
//! simulator and for sockets.

use engine::units::{Bandwidth, Duration};

/// The link between the routers.
pub const LINK: Bandwidth = Bandwidth::mbit(100);
/// C's own Ethernet carries no more disturbers.
pub const MOST: u64 = 9;
/// Headers of UDP, IP and Ethernet, without FCS.
pub const HEADERS: u64 = 8 + 20 + 14;
/// What the wire adds: FCS, preamble and gap.
pub const ON_WIRE: u64 = 24;
/// The measured flow's destination port.
pub const PORT: u16 = 5_001;

/// A stream: bytes of data in each packet, and the interval in µs.
#[derive(Clone, Copy, Debug)]
pub struct PacketStream {
    pub data: u64,
    pub interval: Duration,
}

impl PacketStream {
    pub const fn new(data: u64, micros: u64) -> Self {
        Self {
            data,
            interval: Duration::from_micros(micros),
        }
    }

    /// A stream of this rate of data, in Mbit/s.
    pub const fn of_rate(data: u64, tenths: u64) -> Self {
        Self {
            data,
            interval: Duration::from_nanos(data * 8 * 10_000 / tenths),
        }
    }

    /// The rate of data, in Mbit/s.
    pub fn offer(&self) -> f64 {
        self.data as f64 * 8e3 / self.interval.nanos() as f64
    }

    /// The rate on the wire, in Mbit/s.
    pub fn on_wire(&self) -> f64 {
        self.offer() * (self.data + HEADERS + ON_WIRE) as f64 / self.data as f64
    }

    /// Its rate of data if all lose in proportion to their load, in Mbit/s.
    pub fn in_proportion(&self, other: &Self, others: u64) -> f64 {
        let all = self.on_wire() + other.on_wire() * others as f64;
        self.offer() * (LINK.bits() as f64 / 1e6 / all).min(1.0)
    }

    /// Its rate of data if it has 4 packets of 10 among others that fill the link, in Mbit/s.
    pub fn by_packets(&self, other: &Self) -> f64 {
        let on_wire = |stream: &Self| (stream.data + HEADERS + ON_WIRE) as f64;
        let part = 4.0 * self.data as f64 / (4.0 * on_wire(self) + 6.0 * on_wire(other));
        LINK.bits() as f64 / 1e6 * part
    }

    /// The rate of this many streams in bit/s, Ethernet header included as on the paper's axis.
    pub fn on_ethernet(&self, times: u64) -> f64 {
        (self.data + HEADERS) as f64 * 8e9 / self.interval.nanos() as f64 * times as f64
    }
}

/// R1's discipline at the link to R2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkService {
    /// No reservation.
    Fifo,
    /// WRR by packets, 4 of 10, dequeued whenever the link has room.
    Wrr,
    /// The same, polled at intervals as in the paper's router.
    Polled,
    /// DRR, by bytes.
    Drr,
}

impl LinkService {
    /// Its name in tables and charts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fifo => "not reserved (FIFO)",
            Self::Wrr => "WRR",
            Self::Polled => "WRR, polled",
            Self::Drr => "DRR",
        }
    }
}
