//! What Linux 2.4 did with SACK: FACK, and cwnd by rate halving.

use super::mechanisms::Bench;
use super::*;

fn established() -> Bench<TcpSender> {
    let settings = Settings {
        recovery: Recovery::Linux24Sack,
        control: &scalable::CONTROL,
        initial_window: 80,
        ..Settings::default()
    };
    Bench::established(&settings).0
}

impl Bench<TcpSender> {
    /// Nothing in order beyond `ack`, and these segments above it; what is sent then.
    fn sacks(&mut self, ack: u64, block: (u64, u64)) -> Vec<u64> {
        let sent = self.acknowledge(ms(1), ack, block, false);
        sent.iter().map(|(segment, _)| segment.seq / MSS).collect()
    }
}

/// Three may be displaced; of what is more than that below the highest that arrived, all is lost.
#[test]
fn all_below_the_third_before_the_highest_is_lost_at_once() {
    let mut bench = established();
    bench.sacks(0, (20, 21));
    assert_eq!(
        bench.agent.statistics.recoveries, 1,
        "by one SACK block of one segment"
    );
    // 80 were out, and limited transmit has sent none: 1 arrived, and 18 are lost.
    assert_eq!(bench.agent.pipe(), (80 - 1 - 18 + 1) * MSS, "and one is repaired");
    let mut bench = established();
    assert_eq!(bench.sacks(0, (1, 3)), [80, 81], "two above a hole are no loss");
    assert_eq!(bench.agent.statistics.recoveries, 0);
}

/// What is sent in a recovery is not judged before its end: then it is, at once.
#[test]
fn losses_of_new_data_wait_for_the_end_of_the_recovery() {
    let mut bench = established();
    bench.sacks(0, (1, 40));
    let mut new = Vec::new();
    for up_to in 41..=80 {
        new.extend(bench.sacks(0, (1, up_to)));
    }
    assert_eq!(new.first(), Some(&80), "the hole was repaired first: {new:?}");
    // Of the new ones only the last arrives.
    let last = *new.last().expect("some were sent");
    assert!(last > 90);
    let before = bench.agent.pipe();
    bench.sacks(0, (last, last + 1));
    assert!(
        bench.agent.pipe() >= before - MSS,
        "only that one has left the network"
    );
    assert_eq!(bench.agent.statistics.recoveries, 1);
    bench.sacks(80, (last, last + 1));
    assert_eq!(bench.agent.statistics.recoveries, 2, "a recovery of their own");
}

/// Scalable TCP gives up an eighth, but a round trip of rate halving leaves half, and slow start
/// leads back.
#[test]
fn a_recovery_leaves_half_of_cwnd_and_slow_start_leads_back_to_ssthresh() {
    let mut bench = established();
    for up_to in 2..=80 {
        bench.sacks(0, (1, up_to));
    }
    // Two went by limited transmit.
    let mut acked = 82;
    bench.sacks(acked, (0, 0));
    let left = bench.agent.cwnd() / MSS;
    assert!((36..=44).contains(&left), "{left} of 80");
    for _ in 0..40 {
        acked += 1;
        bench.sacks(acked, (0, 0));
    }
    let grown = bench.agent.cwnd() / MSS;
    assert!((68..=71).contains(&grown), "{grown}: ssthresh is 70");
}
