//! What the endpoints do, one thing a test.

use super::*;
use crate::link::Hold;

#[test]
fn a_file_arrives_whole_and_the_connection_ends() {
    let settings = Settings {
        total: Some(Bytes::new(1_000_000)),
        ..Settings::default()
    };
    let link = LinkSpec::new(Bandwidth::mbit(10), ms(10)).hold(Hold::Buffer(Bytes::new(30_000)));
    let (mut simulation, flow) = connection(&settings, link);
    simulation.run_until(at(ms(3_000)));
    assert_eq!(
        simulation.received(flow, End::Answerer).bytes,
        Bytes::new(1_000_000)
    );
    let sender = sender(&simulation, flow);
    assert!(sender.finished.is_some());
    assert!(sender.statistics.retransmissions > 0);
    assert_eq!(sender.statistics.timeouts, 0);
    assert!(receiver(&simulation, flow).finished < sender.finished);
    assert_eq!(simulation.travelling(), 0);
}
