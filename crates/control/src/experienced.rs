//! What users of a class, or behind an address, have of the link: as a snapshot shows what passing
//! connections tell.
//!
//! The round trip of a connection is measured between its ends, on both sides of this host. The
//! figures that are made of it follow their drafts as [`measure::experience`] says, and depart: the
//! round trips are those of applications, not of probes, so what an application takes for its
//! answer is in them; and of a new connection only the handshake is seen.

use engine::choices;
use engine::units::{Duration, Probability};
use measure::experience::{CALL, GAME, PAGE, Sampled, responsiveness};
use measure::round_trips::{ExperienceCounts, RoundTripCounts};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

choices! {
    /// What is measured of an interface by the connections that pass.
    pub enum ExperienceSetting {
        /// Nothing.
        Off = "off",
        /// What its classes have.
        Classes = "classes",
        /// What its classes have, and each host behind it.
        Hosts = "hosts",
    }
}

/// What the TCP connections of an interface, a class or a host have. Counters go from the start,
/// and round trips, loss and what is made of them over the interval.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ExperienceView {
    /// From here to where the packets go, and back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<RoundTripView>,
    /// From here to where the packets come from, and back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<RoundTripView>,
    /// Both together: between the ends of a connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<RoundTripView>,
    /// Bytes of frames with TCP data that arrived here for it, since the start.
    pub offered_bytes: u64,
    /// TCP segments with data since the start.
    pub segments: u64,
    /// Those whose data had passed before, since the start.
    pub repeated: u64,
    /// The part of the segments that had to be repeated, over the interval.
    pub loss: f64,
    /// Round trips a minute under working conditions, by handshakes and by transfers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rpm: Option<u64>,
    /// The quality of outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<QualityView>,
}

/// Round trips of an interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RoundTripView {
    /// How many were measured.
    pub samples: u64,
    /// The median; at most 1/64 off.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
}

/// The quality of outcome: how far an application is from useless (0) to perfect (100).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct QualityView {
    /// Of a call.
    pub call: u8,
    /// Of a game.
    pub game: u8,
    /// Of a page.
    pub page: u8,
}

/// What a host behind an interface has: that of all its TCP connections, in both directions.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HostView {
    /// Its address.
    pub address: IpAddr,
    /// What it has.
    #[serde(flatten)]
    pub experience: ExperienceView,
}

impl ExperienceView {
    /// Of these counts, over the time since the earlier ones.
    pub(crate) fn of(now: &ExperienceCounts, earlier: Option<&ExperienceCounts>) -> Self {
        let recent = earlier.map_or_else(|| now.clone(), |earlier| now.since(earlier));
        let (whole, loss) = (&recent.whole, recent.loss());
        let quality = |of: &measure::experience::QualityRequirement| of.outcome(whole, loss);
        let quality = quality(&CALL)
            .zip(quality(&GAME))
            .zip(quality(&PAGE))
            .map(|((call, game), page)| QualityView { call, game, page });
        Self {
            ahead: round_trips(&recent.ahead),
            behind: round_trips(&recent.behind),
            whole: round_trips(whole),
            offered_bytes: now.offered.get(),
            segments: now.segments,
            repeated: now.repeated,
            loss,
            rpm: responsiveness(&recent.handshakes, &recent.handshakes, whole),
            quality,
        }
    }

    /// The loss as expectations judge it.
    pub(crate) fn loss_parts(&self) -> u64 {
        const WHOLE: u64 = 1_000_000_000;
        Probability::ratio((self.loss * WHOLE as f64) as u64, WHOLE).parts()
    }
}

fn round_trips(of: &RoundTripCounts) -> Option<RoundTripView> {
    let at = |per_mille| of.quantile(per_mille).map(Duration::nanos);
    Some(RoundTripView {
        samples: of.answered(),
        p50_ns: at(500)?,
        p99_ns: at(990)?,
    })
}

/// The hosts, those that were offered most first.
pub(crate) fn hosts(
    now: &[(IpAddr, ExperienceCounts)],
    earlier: &[(IpAddr, ExperienceCounts)],
) -> Vec<HostView> {
    let before = |address| earlier.iter().find(|(of, _)| *of == address);
    let view = |(address, counts): &(IpAddr, ExperienceCounts)| HostView {
        address: *address,
        experience: ExperienceView::of(counts, before(*address).map(|(_, counts)| counts)),
    };
    let mut views: Vec<HostView> = now.iter().map(view).collect();
    views.sort_by_key(|host| (std::cmp::Reverse(host.experience.offered_bytes), host.address));
    views
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::round_trips::RoundTripTable;

    fn counts(handshakes: u64, whole: u64, repeated: u64) -> ExperienceCounts {
        let table = |ms: u64| {
            let mut table = RoundTripTable::default();
            (0..1_000).for_each(|_| table.record(Duration::from_millis(ms)));
            table.counts()
        };
        ExperienceCounts {
            whole: table(whole),
            handshakes: table(handshakes),
            segments: 1_000,
            repeated,
            ..ExperienceCounts::default()
        }
    }

    /// The mean of 20 ms and of 60 ms a round trip, 3,000 and 1,000 a minute; a call is half way to
    /// useless at 275 ms, and at 2.55 % loss.
    #[test]
    fn figures_follow_their_drafts() {
        let view = ExperienceView::of(&counts(20, 60, 0), None);
        let rpm = view.rpm.expect("both were measured");
        assert!((1_970..=2_030).contains(&rpm), "{rpm}");
        assert_eq!(view.quality.map(|of| (of.call, of.page)), Some((100, 100)));
        let slow = ExperienceView::of(&counts(20, 275, 0), None)
            .quality
            .expect("measured");
        assert!((48..=52).contains(&slow.call), "{slow:?}");
        let lossy = ExperienceView::of(&counts(20, 20, 26), None);
        let quality = lossy.quality.expect("measured");
        assert!((48..=50).contains(&quality.call), "{quality:?}");
        assert_eq!(lossy.loss_parts(), Probability::ratio(26, 1_000).parts());
    }

    /// What was before the interval does not count in it, and counters go on.
    #[test]
    fn an_interval_has_its_own_round_trips() {
        let (before, mut now) = (counts(20, 300, 500), counts(20, 300, 500));
        assert_eq!(ExperienceView::of(&now, Some(&before)).whole, None);
        let after = counts(20, 40, 500);
        now.merge(&after);
        let view = ExperienceView::of(&now, Some(&before));
        let whole = view.whole.expect("measured");
        assert!(
            whole.p99_ns.abs_diff(40_000_000) < 1_000_000 && whole.samples == 1_000,
            "{whole:?}"
        );
        assert_eq!((view.repeated, view.loss), (1_000, 0.5));
    }

    #[test]
    fn hosts_are_those_of_now_and_the_busiest_is_first() {
        let address = |n| IpAddr::from([10, 0, 0, n]);
        let with = |offered| ExperienceCounts {
            offered: engine::units::Bytes::new(offered),
            ..counts(20, 60, 0)
        };
        let now = [
            (address(1), with(5)),
            (address(2), with(9)),
            (address(3), with(5)),
        ];
        let before = [(address(2), with(9)), (address(7), with(1))];
        let views = hosts(&now, &before);
        let order: Vec<IpAddr> = views.iter().map(|host| host.address).collect();
        assert_eq!(order, [2, 1, 3].map(address));
        assert_eq!(views[0].experience.whole, None, "nothing since");
        assert!(views[1].experience.whole.is_some(), "new since");
    }
}
