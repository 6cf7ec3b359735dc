//! The fourth witness: data that were lost.
//!
//! A buffer on the way overflows where the link is full, also one so shallow that RTTs hardly show
//! its queue. So a loss tells the link's rate, if what the link carried was level before: within a
//! slow start, bursts overflow a shallow buffer at half of the rate. A lossy radio link that is not
//! full is taken for slower than it is, until a search finds that it carries more
//! (`window_cap`).

use super::flow_controller::FlowController;
use super::rate_meter::RateMeter;

/// The link's rate is level if that of the last RTT exceeds that of the last three by no more.
const LEVEL: f64 = 1.15;
const RTTS: f64 = 3.0;
/// Such an RTT is at least and at most so many seconds.
const SPAN_MIN: f64 = 0.05;
const SPAN_MAX: f64 = 0.15;
/// What the link carries for this many seconds and this many RTTs without a loss, it carries.
const UNLOST: f64 = 0.4;
const UNLOST_RTTS: f64 = 2.0;

/// The witness's state.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct LossWitness {
    /// Seconds since data were last lost.
    since: f64,
    /// Losses go on, an RTT apart at most, and the rate was level when they began.
    episode: bool,
    level: bool,
    /// They began in this tick.
    begins: bool,
    /// The most that the link carried for a while without a loss, in bits per second.
    proven: f64,
}

impl Default for LossWitness {
    fn default() -> Self {
        Self {
            since: f64::INFINITY,
            episode: false,
            level: false,
            begins: false,
            proven: 0.0,
        }
    }
}

impl LossWitness {
    /// Whether data were lost in this tick.
    pub(super) fn is_losing(&self) -> bool {
        self.since == 0.0
    }

    /// Whether losses began in this tick, after an RTT or more without.
    pub(super) fn begins(&self) -> bool {
        self.begins
    }

    /// The most that the link carried for a while without a loss, in bits per second.
    pub(super) fn proven(&self) -> f64 {
        self.proven
    }

    /// Seconds since data were lost.
    pub(super) fn since(&self) -> f64 {
        self.since
    }

    /// Takes a tick in, after `same` seconds in which connections neither began nor ended. The rate
    /// of the full link, if data were lost within the last RTT.
    pub(super) fn read<'a>(
        &mut self,
        flows: impl Iterator<Item = &'a FlowController>,
        meter: &RateMeter,
        same: f64,
        seconds: f64,
    ) -> Option<f64> {
        let (mut rtt, mut lost) = (0.0_f64, false);
        for flow in flows {
            (rtt, lost) = (rtt.max(flow.rtt), lost || flow.lost);
        }
        self.since = if lost { 0.0 } else { self.since + seconds };
        if self.since > UNLOST + UNLOST_RTTS * rtt && same > UNLOST {
            self.proven = self.proven.max(meter.total(UNLOST));
        }
        let span = rtt.clamp(SPAN_MIN, SPAN_MAX);
        let (last, before) = (meter.total(span), meter.total(RTTS * span));
        self.begins = lost && !self.episode;
        if self.begins {
            self.level = last <= LEVEL * before && same > RTTS * span;
        }
        self.episode = self.since <= rtt;
        (self.episode && self.level && last > 0.0).then_some(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tick::{
        Bottleneck, ConnectionId, DataDirection, FlowSample, LawInput, LinkCounters, MemberId,
    };
    use engine::units::{Bytes, Duration, Instant};

    /// What the witness says at each tick of 50 ms, in which a connection with an RTT of 50 ms
    /// carries so many Mbit/s, and loses data or not.
    fn says(ticks: &[(u64, bool)]) -> Vec<Option<f64>> {
        let (mut witness, mut meter) = (LossWitness::default(), RateMeter::new(DataDirection::Download));
        let (mut carried, mut losses, mut flow) = (0, 0, None);
        let mut at = Instant::START;
        let mut read = |mbit: u64, lost: bool| {
            carried += mbit * 6_250;
            losses += u64::from(lost);
            at = at + Duration::from_millis(50);
            let sample = FlowSample {
                received: Bytes::new(carried),
                rtt: Some(Duration::from_millis(50)),
                min_rtt: Some(Duration::from_millis(50)),
                window: Bytes::new(1 << 20),
                losses,
                ..FlowSample::new(ConnectionId(1), MemberId(1), at)
            };
            let link = LinkCounters {
                received: Bytes::new(carried),
                sent: Bytes::ZERO,
            };
            meter.read(&LawInput {
                now: at,
                link,
                bottleneck: Bottleneck::Auto,
                members: &[],
                flows: &[sample],
            });
            let flow = flow.get_or_insert_with(|| FlowController::new(&sample, DataDirection::Download));
            flow.update(&sample, mbit as f64 * 1e6, 0.05);
            witness.read(std::iter::once(&*flow), &meter, 1.0, 0.05)
        };
        ticks.iter().map(|&(mbit, lost)| read(mbit, lost)).collect()
    }

    #[test]
    fn a_loss_of_a_level_flow_tells_the_rate() {
        let ticks = [(10, false), (10, false), (10, false), (10, false), (10, true)];
        let said = says(&ticks);
        assert_eq!(said[..4], [None; 4]);
        assert!(said[4].is_some_and(|rate| (rate - 10e6).abs() < 1e5), "{said:?}");
    }

    #[test]
    fn a_loss_within_a_slow_start_tells_none() {
        let ticks = [
            (1, false),
            (2, false),
            (4, false),
            (8, false),
            (16, true),
            (16, true),
            (8, true),
        ];
        assert_eq!(says(&ticks), [None; 7]);
    }
}
