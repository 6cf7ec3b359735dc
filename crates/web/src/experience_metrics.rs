//! What passing connections tell, as metrics: of each class, and where it was asked for of each
//! host by its address.

use control::experienced::ExperienceView;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) const NANOS: f64 = 1e9;

/// Whether hosts are told apart, which their addresses do: whoever keeps the metrics keeps those.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostMetrics {
    /// No address is in them.
    Absent,
    /// Each host whose connections are measured has its own.
    ByAddress,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OfSide {
    side: &'static str,
    percentile: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OfApplication {
    application: &'static str,
}

/// The metrics of those whose labels these are.
#[derive(Debug)]
pub(crate) struct ExperienceMetrics<L> {
    round_trip: Family<(L, OfSide), Gauge<f64, AtomicU64>>,
    offered: Family<L, Counter>,
    segments: Family<L, Counter>,
    repeated: Family<L, Counter>,
    responsiveness: Family<L, Gauge<f64, AtomicU64>>,
    quality: Family<(L, OfApplication), Gauge<f64, AtomicU64>>,
}

impl<L: Clone + Eq + Hash> Default for ExperienceMetrics<L> {
    fn default() -> Self {
        Self {
            round_trip: Family::default(),
            offered: Family::default(),
            segments: Family::default(),
            repeated: Family::default(),
            responsiveness: Family::default(),
            quality: Family::default(),
        }
    }
}

impl<L: Clone + Eq + Hash + Debug + EncodeLabelSet + Send + Sync + 'static> ExperienceMetrics<L> {
    /// Gives each its name, after `of`, and its help.
    pub(crate) fn register(&self, of: &str, registry: &mut Registry) {
        let name = |rest: &str| format!("{of}_{rest}");
        registry.register(
            name("round_trip_seconds"),
            "Round trips of TCP connections since the start: from here ahead, from here behind, and between their ends",
            self.round_trip.clone(),
        );
        registry.register(
            name("tcp_offered_bytes"),
            "Bytes of frames with TCP data that arrived for it",
            self.offered.clone(),
        );
        registry.register(
            name("tcp_segments"),
            "TCP segments with data that arrived for it",
            self.segments.clone(),
        );
        registry.register(
            name("tcp_repeated_segments"),
            "Those among them whose data had passed before",
            self.repeated.clone(),
        );
        registry.register(
            name("round_trips_per_minute"),
            "Responsiveness under working conditions since the start",
            self.responsiveness.clone(),
        );
        registry.register(
            name("quality_of_outcome"),
            "How far an application is from useless (0) to perfect (100) since the start",
            self.quality.clone(),
        );
    }

    /// Tells what this one has.
    pub(crate) fn tell(&self, of: &L, experience: &ExperienceView) {
        set(&self.offered.get_or_create(of), experience.offered_bytes);
        set(&self.segments.get_or_create(of), experience.segments);
        set(&self.repeated.get_or_create(of), experience.repeated);
        let sides = [
            ("ahead", experience.ahead),
            ("behind", experience.behind),
            ("whole", experience.whole),
        ];
        for (side, times) in sides {
            let Some(times) = times else { continue };
            for (percentile, nanos) in [("50", times.p50_ns), ("99", times.p99_ns)] {
                let label = (of.clone(), OfSide { side, percentile });
                self.round_trip.get_or_create(&label).set(nanos as f64 / NANOS);
            }
        }
        if let Some(rpm) = experience.rpm {
            self.responsiveness.get_or_create(of).set(rpm as f64);
        }
        let Some(quality) = experience.quality else { return };
        for (application, value) in [
            ("call", quality.call),
            ("game", quality.game),
            ("page", quality.page),
        ] {
            let label = (of.clone(), OfApplication { application });
            self.quality.get_or_create(&label).set(value.into());
        }
    }
}

/// The program counts; this only says how far it has come.
pub(crate) fn set(counter: &Counter, count: u64) {
    counter.inner().store(count, Ordering::Relaxed);
}
