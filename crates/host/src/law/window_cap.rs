//! The aggregate window cap: what the windows of all members together are while the link is free.
//!
//! It is near one bandwidth-delay product (BDP), and some segments more. It decays while the link
//! is full and grows while windows limit the flows and the link is not full, so it stays where the
//! link is just full. Three things correct it:
//!
//! - *Losses.* Windows that overflow a buffer are lowered, not below a BDP, and do not grow up to
//!   that size again for a while. A sender whose losses go on all the same makes them itself, as
//!   BBR does in a shallow buffer: then windows have room for what arrives beyond holes, and
//!   further losses lower nothing for a while.
//! - *Probes.* If a raise yields longer RTTs and no more throughput, the link is full at the rate
//!   that it carries.
//! - *Searches.* Windows that are just full hide that the line carries more: its rate was taken for
//!   too low, or has risen. Every few seconds they are raised by a quarter for a few round trips;
//!   as long as the link then carries more, they are raised further. None raises to a size that
//!   overflowed a buffer, while that is remembered.
//!
//! # Constants
//!
//! As in the head of `scavenger`: what a value too small / too large does, and where it comes from;
//! "matrix" is docs/measurements/nine-matrix.md.
//!
//! ```text
//! START               1.25 BDP  the first download is slow / new flows meet a queue (1.5: 2 % of
//!                               the link); model
//! SEGMENTS            8         short paths: less than a burst fits / queue on slow links; chosen
//! GROWTH              1.05      slow after a route change / overshoot fills the buffer; chosen
//! DECAY               0.98      throughput dips / the queue drains late; model
//! MIN                 0.3 BDP   throughput dips / a min RTT measured too long keeps a queue;
//!                               measured
//! MAX                 8 BDP     a min RTT measured too short costs throughput / losses decide, not
//!                               windows; measured
//! PAUSE               5 s       the cap oscillates / a queue stays; chosen
//! PROBE_RAISE         1.25      noise decides / the probe takes long; chosen
//! PROBE_GAIN          1.03      a full link is not noticed / a slow ramp is taken for one; chosen
//! PROBE_RTT           1.12      noise decides / a full link is not noticed; chosen
//! LOWERED             0.85      throughput dips / the next slow growth overflows again; matrix
//!                               (0.7 and 0.9: much the same)
//! BELOW_OVERFLOW      0.9       throughput dips / losses; matrix (0.8 and 1: much the same)
//! REMEMBERED          20 s      losses / lines that rise are found late; matrix (8 s: the same)
//! IN_VAIN             3         losses by chance open the windows / BBR is held down; matrix
//! WITH_HOLES          2.5 BDP   what arrives beyond holes holds BBR down / a queue; matrix
//! SEARCH_FIRST        1 s       new flows meet a raise / a rate taken for too low stays; matrix
//! SEARCH_EVERY        2.5 s     as SEARCH_FIRST; matrix
//! SEARCH_RAISE        1.25      many searches / shallow buffers overflow; matrix
//! SEARCH_RTTS         4         BBR has not answered yet / a queue stands longer; matrix
//! SEARCH_GAIN         1.05      noise goes on / a slow answer ends it; matrix (1.03: the same)
//! ```

use super::flow_controller::intervals;

/// At first, in BDPs and in segments in addition.
const START: f64 = 1.25;
const SEGMENTS: f64 = 8.0;
/// Its bounds in BDPs.
const MIN: f64 = 0.3;
const MAX: f64 = 8.0;
/// Growth and decay in a tick.
const GROWTH: f64 = 1.05;
const DECAY: f64 = 0.98;
/// No decay for this many seconds after growth.
const PAUSE: f64 = 5.0;

/// Raised by this factor, a probe is judged: by less gain of throughput than this, and more growth
/// of RTTs than that, the link is full.
const PROBE_RAISE: f64 = 1.25;
const PROBE_GAIN: f64 = 1.03;
const PROBE_RTT: f64 = 1.12;

/// A loss lowers it to this part, and its segments to half, but not below this many;
const LOWERED: f64 = 0.85;
const SEGMENTS_MIN: f64 = 1.0;
/// again after this many seconds and this many RTTs.
const AGAIN: f64 = 0.1;
const AGAIN_RTTS: f64 = 2.0;
/// It grows up to this part of what overflowed a buffer, for this many seconds.
const BELOW_OVERFLOW: f64 = 0.9;
const REMEMBERED: f64 = 20.0;
/// So many losses in succession, each within this many seconds and RTTs after the one before, are
/// not of the windows. Then it is this, and losses lower nothing for as long as they are
/// remembered.
const IN_VAIN: u32 = 3;
const SUCCESSION: f64 = 1.0;
const SUCCESSION_RTTS: f64 = 4.0;
const WITH_HOLES: f64 = 2.5;

/// The first search after this many seconds of a full link, the next ones after this many more.
const SEARCH_FIRST: f64 = 1.0;
const SEARCH_EVERY: f64 = 2.5;
/// It raises by this factor for this many seconds and RTTs; from this gain on the line carries
/// more.
const SEARCH_RAISE: f64 = 1.25;
const SEARCH_TIME: f64 = 0.1;
const SEARCH_RTTS: f64 = 4.0;
const SEARCH_GAIN: f64 = 1.05;

/// What a tick on a free link shows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct FreeLink {
    /// The time since the last tick, in seconds.
    pub(super) seconds: f64,
    /// What the link carries over two, four and eight usual ticks.
    pub(super) recent: f64,
    pub(super) total: f64,
    pub(super) settled: f64,
    /// It carries its rate, or nearly.
    pub(super) full: bool,
    pub(super) nearly_full: bool,
    /// Windows limit those flows that are due most of the link.
    pub(super) binds: bool,
    /// A queue is being explained.
    pub(super) busy: bool,
    /// A queue stands; RTTs may show one; RTTs exceed what needs no explanation.
    pub(super) queued: bool,
    pub(super) may_be_queued: bool,
    pub(super) delayed: bool,
    /// Data were lost.
    pub(super) lost: bool,
    /// Connections have neither begun nor ended for a while, and the rate may be another one.
    pub(super) may_search: bool,
    /// The mean RTT and the longest one, in seconds, and a BDP in segments.
    pub(super) rtt: f64,
    pub(super) longest: f64,
    pub(super) segments: f64,
}

/// The cap when a probe began, and what the link carried with it.
#[derive(Clone, Copy, PartialEq, Debug)]
struct CapProbe {
    products: f64,
    total: f64,
    rtt: f64,
}

/// The cap.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct WindowCap {
    /// In BDPs, and the segments in addition.
    products: f64,
    segments: f64,
    /// Seconds until it may decay.
    pause: f64,
    /// Whether it was binding at the last tick.
    binds: bool,
    probe: Option<CapProbe>,
    /// The BDPs that overflowed a buffer, and the seconds since a loss lowered it.
    overflowed: f64,
    lowered: f64,
    in_vain: u32,
    /// Losses lower nothing for this many seconds.
    deaf: f64,
    search: RateSearch,
}

impl Default for WindowCap {
    fn default() -> Self {
        Self {
            products: START,
            segments: SEGMENTS,
            pause: 0.0,
            binds: false,
            probe: None,
            overflowed: f64::INFINITY,
            lowered: 0.0,
            in_vain: 0,
            deaf: 0.0,
            search: RateSearch::default(),
        }
    }
}

impl WindowCap {
    /// In BDPs, and in segments in addition.
    pub(super) fn windows(&self) -> (f64, f64) {
        let raise = self.search.raise();
        (self.products * raise, self.segments * raise)
    }

    /// Whether a search has raised windows.
    pub(super) fn is_searching(&self) -> bool {
        self.search.running.is_some()
    }

    /// Other traffic begins: what trickles after it is no measure of the link.
    pub(super) fn is_interrupted(&mut self) {
        self.probe = None;
        self.search.running = None;
    }

    /// Other traffic has ended.
    pub(super) fn is_free(&mut self) {
        self.products = self.products.max(1.0);
    }

    /// Takes a tick in. The rate at which the link is full, if a probe has just shown it.
    pub(super) fn adjust(&mut self, link: &FreeLink) -> Option<f64> {
        self.pause = (self.pause - link.seconds).max(0.0);
        self.lower(link);
        let fits = SEARCH_RAISE * self.products <= BELOW_OVERFLOW * self.overflowed;
        if self.search.turn(link, fits) {
            (self.overflowed, self.lowered) = (SEARCH_RAISE * self.products, 0.0);
        }
        let steps = intervals(link.seconds);
        let bound_before = std::mem::replace(&mut self.binds, link.binds);
        if link.full || (!link.binds && link.nearly_full) {
            self.probe = None;
            if self.pause == 0.0 {
                self.products = (self.products * DECAY.powf(steps)).max(MIN);
            }
            return None;
        }
        // What had not bound before has not had its effect yet.
        if !link.binds || !bound_before || link.busy || link.queued {
            return None;
        }
        let now = CapProbe {
            products: self.products,
            total: link.total,
            rtt: link.rtt,
        };
        let before = *self.probe.get_or_insert(now);
        let most = (self.overflowed * BELOW_OVERFLOW).max(self.products).min(MAX);
        self.products = (self.products * GROWTH.powf(steps)).min(most);
        self.segments = (self.segments * GROWTH.powf(steps)).min(SEGMENTS);
        self.pause = PAUSE;
        if self.products < PROBE_RAISE * before.products {
            return None;
        }
        self.probe = Some(now);
        let in_vain = link.total < PROBE_GAIN * before.total && now.rtt > PROBE_RTT * before.rtt;
        in_vain.then(|| {
            (self.products, self.pause) = (before.products, 0.0);
            link.settled
        })
    }

    /// Lowers it after losses.
    fn lower(&mut self, link: &FreeLink) {
        self.lowered += link.seconds;
        self.deaf = (self.deaf - link.seconds).max(0.0);
        if self.lowered > REMEMBERED {
            self.overflowed = f64::INFINITY;
        }
        let again = self.lowered >= AGAIN + AGAIN_RTTS * link.longest;
        if !link.lost || !again || self.deaf > 0.0 || self.search.running.is_some() {
            return;
        }
        let follows = self.lowered < SUCCESSION + SUCCESSION_RTTS * link.longest;
        // Where RTTs grow, too, others may fill the buffer.
        self.in_vain = if follows && !link.delayed {
            self.in_vain + 1
        } else {
            0
        };
        (self.lowered, self.probe, self.pause) = (0.0, None, 0.0);
        if self.in_vain >= IN_VAIN {
            (self.products, self.segments, self.overflowed) = (WITH_HOLES, SEGMENTS, f64::INFINITY);
            (self.in_vain, self.deaf) = (0, REMEMBERED);
            return;
        }
        self.overflowed = self.products.max(1.0);
        self.segments = (self.segments / 2.0).max(SEGMENTS_MIN);
        let one = (1.0 - self.segments / link.segments.max(1.0)).max(MIN);
        self.products = (self.products * LOWERED).max(one.min(self.products));
    }
}

/// A search for a higher rate of the link.
#[derive(Clone, Copy, PartialEq, Debug)]
struct RateSearch {
    /// Seconds of a full link until the next one.
    wait: f64,
    /// Seconds since it began, or had its last gain, and what the link carried then.
    running: Option<(f64, f64)>,
}

impl Default for RateSearch {
    fn default() -> Self {
        Self {
            wait: SEARCH_FIRST,
            running: None,
        }
    }
}

impl RateSearch {
    /// The factor on all windows.
    fn raise(&self) -> f64 {
        if self.running.is_some() { SEARCH_RAISE } else { 1.0 }
    }

    /// Takes a tick in. Whether it has just lost data in vain. None begins that does not fit.
    fn turn(&mut self, link: &FreeLink, fits: bool) -> bool {
        let Some((past, before)) = self.running else {
            if fits && link.full && link.may_search && !link.busy && !link.may_be_queued {
                self.wait -= link.seconds;
                self.running = (self.wait <= 0.0).then_some((0.0, link.recent));
            }
            return false;
        };
        let past = past + link.seconds;
        self.running = Some((past, before));
        if past < SEARCH_TIME + SEARCH_RTTS * link.rtt && !link.lost {
            return false;
        }
        let gains = link.recent > SEARCH_GAIN * before;
        self.wait = SEARCH_EVERY;
        self.running = (gains && !link.lost).then_some((0.0, link.recent));
        link.lost && !gains
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tick of 50 ms on a full link of 100 Mbit/s and 20 ms.
    fn full() -> FreeLink {
        FreeLink {
            seconds: 0.05,
            recent: 100e6,
            total: 100e6,
            settled: 100e6,
            full: true,
            nearly_full: true,
            binds: true,
            busy: false,
            queued: false,
            may_be_queued: false,
            delayed: false,
            lost: false,
            may_search: false,
            rtt: 0.02,
            longest: 0.02,
            segments: 172.0,
        }
    }

    /// One that carries 90 Mbit/s, by its windows.
    fn short() -> FreeLink {
        FreeLink {
            recent: 90e6,
            total: 90e6,
            full: false,
            nearly_full: false,
            ..full()
        }
    }

    /// One in which data are lost.
    fn lossy() -> FreeLink {
        FreeLink {
            lost: true,
            binds: false,
            ..short()
        }
    }

    /// The windows in BDPs, after so many of these ticks.
    fn after(cap: &mut WindowCap, ticks: u32, link: &FreeLink) -> f64 {
        (0..ticks).for_each(|_| _ = cap.adjust(link));
        let (products, segments) = cap.windows();
        products + segments / link.segments
    }

    #[test]
    fn windows_that_overflowed_a_buffer_are_lowered_and_stay_below_that_size_for_a_while() {
        let mut cap = WindowCap::default();
        let before = after(&mut cap, 10, &short());
        let overflowed = cap.products;
        let lowered = after(&mut cap, 1, &lossy());
        assert!(
            lowered < 0.9 * before && lowered >= 1.0,
            "{before:.2} to {lowered:.2}"
        );
        after(&mut cap, 100, &short());
        assert!(cap.products <= 0.9 * overflowed, "5 s later: {:.2}", cap.products);
        after(&mut cap, 400, &short());
        assert!(cap.products > overflowed, "25 s later: {:.2}", cap.products);
    }

    #[test]
    fn losses_that_go_on_whatever_the_windows_are_lower_them_no_more() {
        let mut cap = WindowCap::default();
        let mut least = f64::INFINITY;
        for _ in 0..200 {
            least = least.min(after(&mut cap, 1, &lossy()));
        }
        assert!(least >= 1.0, "{least:.2}");
        assert!(after(&mut cap, 1, &lossy()) >= WITH_HOLES);
        // Others that fill a buffer look so, but RTTs grow.
        let mut cap = WindowCap::default();
        let others = FreeLink {
            delayed: true,
            ..lossy()
        };
        assert!(after(&mut cap, 200, &others) <= 1.1);
    }

    #[test]
    fn a_search_raises_windows_as_long_as_the_link_carries_more() {
        let mut cap = WindowCap::default();
        let searches = FreeLink {
            may_search: true,
            ..full()
        };
        let (mut rate, mut least) = (25e6, 0);
        for tick in 0..200 {
            // The line has become four times as fast, and windows are what limits.
            let raise = cap.search.raise();
            rate *= if raise > 1.0 { raise.powf(0.25) } else { 1.0 };
            let total = f64::min(rate, 100e6);
            rate = total;
            cap.adjust(&FreeLink {
                recent: total,
                ..searches
            });
            if total < 99e6 {
                least = tick;
            }
        }
        assert!((20..60).contains(&least), "found after {least} ticks of 50 ms");
    }

    #[test]
    fn a_search_that_loses_data_is_not_repeated_while_that_is_remembered() {
        let mut cap = WindowCap::default();
        let mut begun = Vec::new();
        for tick in 0..1_200 {
            let was = cap.search.running.is_some();
            // The cap stays as it is.
            cap.pause = PAUSE;
            cap.adjust(&FreeLink {
                may_search: true,
                lost: was,
                ..full()
            });
            if cap.search.running.is_some() && !was {
                begun.push(tick);
            }
        }
        let gaps: Vec<i32> = begun.windows(2).map(|two| two[1] - two[0]).collect();
        assert!(!gaps.is_empty(), "{begun:?}");
        assert!(gaps.iter().all(|gap| (400..=460).contains(gap)), "{gaps:?}");
        assert!(
            cap.products <= START,
            "a search lowers nothing: {:.2}",
            cap.products
        );
    }
}
