//! How a connection learns what is lost, and how much it sends until that is repaired.
//!
//! - **`sack`**: the receiver reports what arrived (RFC 2018), so all holes are repaired in about a
//!   round trip, and cwnd follows proportional rate reduction (RFC 9937).
//! - **`newreno`** (RFC 6582): ACKs have no SACK blocks. Three duplicates show one loss. Each ACK
//!   that covers a part of what was outstanding shows the next, so a recovery takes a round trip
//!   per lost segment. cwnd is ssthresh from the start; duplicates inflate it, which is the same
//!   as counting their segments out of the network. After the last loss cwnd is ssthresh at once,
//!   and what that admits goes in one burst (section 3.2, step 3, second option). Of the partial
//!   ACKs the first alone starts the timer anew, so many losses end in a timeout ("impatient").
//! - **`linux-2.4`**: the same without SACK as Linux 2.4 did it. In a recovery every second ACK
//!   takes a segment off cwnd, down to half of ssthresh, and cwnd is never more than a segment
//!   above what is in the network. So after many losses it is a segment or two, and slow start
//!   leads from there to ssthresh, which still is that of the window that overflowed. Each partial
//!   ACK starts the timer anew ("slow but steady").
//! - **`linux-2.4-sack`**: what that kernel does where receivers report, which is its default. As
//!   soon as a segment arrived, all before the third below it that did not are lost (FACK: Mathis
//!   and Mahdavi, SIGCOMM 1996), of those that were outstanding when the recovery began. cwnd is as
//!   in `linux-2.4`: a recovery of a round trip leaves about half of it whatever ssthresh is, and
//!   slow start leads back to that.
//!
//! Without SACK losses are not judged by time (RACK needs the blocks), and after a timeout all
//! that was outstanding is sent again, as far as ACKs do not come before it. Duplicates that do not
//! cover more than the last recovery or timeout had outstanding show nothing (RFC 6582, section
//! 3.2, step 2): they may be echoes of needless retransmissions.

engine::choices! {
    /// How losses are found and repaired.
    pub enum Recovery {
        /// By what receivers report (RFC 2018, 6675, 8985 and 9937).
        Sack = "sack",
        /// By duplicate ACKs alone (RFC 6582).
        NewReno = "newreno",
        /// The same, as Linux 2.4 did it.
        Linux24 = "linux-2.4",
        /// By what receivers report, as Linux 2.4 did it.
        Linux24Sack = "linux-2.4-sack",
    }
}

impl Recovery {
    /// Whether receivers report what arrived out of order.
    pub const fn has_sack(self) -> bool {
        matches!(self, Self::Sack | Self::Linux24Sack)
    }
}

/// What governs cwnd during a recovery.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reduction {
    Proportional(RateReduction),
    /// cwnd is ssthresh at once (RFC 6582).
    AtOnce {
        /// No partial ACK came yet; the first alone starts the timer anew.
        first: bool,
    },
    Halving(RateHalving),
}

/// Proportional rate reduction (RFC 9937, as in Linux). Below ssthresh as much is sent as is
/// delivered, and a segment more per ACK while recovery makes progress. Where retransmissions are
/// dropped too, packet conservation lets the sender slow down further.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RateReduction {
    /// prr_delivered.
    delivered: u64,
    /// prr_out.
    pub(super) sent: u64,
    /// RecoverFS: FlightSize at the beginning of recovery.
    recover_fs: u64,
    /// The bytes that may be in the network until the next ACK.
    pub(super) cwnd: u64,
}

impl RateReduction {
    pub(super) fn new(recover_fs: u64) -> Self {
        Self {
            recover_fs,
            ..Self::default()
        }
    }

    /// An ACK; `safe` if it acknowledged new data and nothing more was deemed lost.
    pub(super) fn on_ack(&mut self, delivered: u64, pipe: u64, ssthresh: u64, mss: u64, safe: bool) {
        self.delivered += delivered;
        let may_send = if pipe > ssthresh {
            let due = u128::from(self.delivered) * u128::from(ssthresh);
            (due.div_ceil(u128::from(self.recover_fs.max(1))) as u64).saturating_sub(self.sent)
        } else {
            let conserved = self.delivered.saturating_sub(self.sent).max(delivered);
            (conserved + if safe { mss } else { 0 }).min(ssthresh - pipe)
        };
        // The first retransmission goes at once.
        self.cwnd = pipe
            + if self.sent == 0 {
                may_send.max(mss)
            } else {
                may_send
            };
    }
}

/// Linux 2.4's reduction: a segment less with every second ACK.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateHalving {
    /// The bytes that may be in the network.
    pub(super) cwnd: u64,
    /// The next ACK is the second.
    second: bool,
}

impl RateHalving {
    /// From the cwnd before the loss.
    pub(super) fn new(cwnd: u64) -> Self {
        Self { cwnd, second: false }
    }

    /// An ACK; `pipe` without what it lets the sender retransmit.
    pub(super) fn on_ack(&mut self, pipe: u64, ssthresh: u64, mss: u64) {
        if self.second && self.cwnd > ssthresh / 2 {
            self.cwnd = self.cwnd.saturating_sub(mss);
        }
        self.second = !self.second;
        self.cwnd = self.cwnd.min(pipe + mss);
    }
}
