//! No message of a neighbour harms the shim, or makes it store more than its limits.

use crate::arbitrary::single;
use core::net::{IpAddr, Ipv4Addr};
use engine::units::{Duration, Instant};
use proptest::prelude::*;
use rsvp::node::Transmit;
use rsvp::places::Places;
use rsvp::reduction::{ReductionShim, Settings};
use rsvp::wire::Frame;

const US: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const THEM: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_messages_in_any_order_leave_it_working(
        messages in prop::collection::vec((single(), any::<bool>(), any::<bool>(), 0u64..2000), 1..30),
    ) {
        let mut settings = Settings::new(vec![vec![US]], 5);
        settings.assume_capable = true;
        settings.max_stored = Places::unshared(3);
        settings.max_neighbours = Places::unshared(1);
        let mut shim = ReductionShim::new(settings);
        let mut now = Instant::START;
        for (frame, ours, router_alert, wait) in messages {
            let bytes = frame.encode().expect("it fits");
            if ours {
                shim.outgoing(now, Transmit {
                    interface: 0,
                    source: US,
                    destination: THEM,
                    router_alert,
                    ttl: frame.send_ttl,
                    bytes,
                });
            } else {
                for (_, received) in shim.incoming(now, 0, THEM, frame.send_ttl, frame) {
                    prop_assert!(received.message_id.is_none() && received.acknowledgements.is_empty());
                }
            }
            now = now + Duration::from_millis(wait);
            shim.handle_timeout(now);
            prop_assert!(shim.poll_timeout().is_none_or(|due| due > now));
            while let Some(transmit) = shim.poll_transmit() {
                prop_assert!(transmit.bytes.len() >= 8);
                prop_assert_eq!(transmit.bytes[0] >> 4, 1);
            }
        }
        // Every message that waits for an acknowledgement gives up in the end.
        for _ in 0..10_000 {
            let Some(due) = shim.poll_timeout() else {
                return Ok(());
            };
            shim.handle_timeout(due);
            while shim.poll_transmit().is_some() {}
        }
        prop_assert!(false, "it never becomes idle");
    }
}

#[test]
fn a_message_overtaken_by_a_newer_one_is_ignored() {
    let path = |id, rate: u32| {
        let bytes = [
            &[0x11, 1, 0, 0, 63, 0, 0, 92][..],
            &[0, 12, 23, 1, 1, 0, 0, 9, 0, 0, 0, id],
            &[0, 12, 1, 1, 10, 0, 9, 2, 17, 0, 0x13, 0x88],
            &[0, 12, 3, 1, 10, 0, 0, 2, 0, 0, 0, 7],
            &[0, 8, 5, 1, 0, 0, 0x75, 0x30],
            &[0, 12, 11, 1, 10, 0, 8, 1, 0, 0, 0x0f, 0xa0],
            &[0, 36, 12, 2, 0, 0, 0, 7, 1, 0, 0, 6, 127, 0, 0, 5],
            &rate.to_be_bytes(),
            &[
                0x46, 0x1c, 0x40, 0, 0x7f, 0x80, 0, 0, 0, 0, 0, 64, 0, 0, 0x05, 0xdc,
            ],
        ];
        let mut bytes = bytes.concat();
        bytes[7] = u8::try_from(bytes.len()).expect("it is short");
        Frame::decode(&bytes).expect("a Path")
    };
    let mut shim = ReductionShim::new(Settings::new(vec![vec![US]], 5));
    let mut received = |frame| shim.incoming(Instant::START, 0, THEM, 63, frame).len();
    assert_eq!(received(path(5, 0x4a98_9680)), 1);
    assert_eq!(received(path(7, 0x4a98_9681)), 1);
    assert_eq!(received(path(6, 0x4a98_9682)), 0);
    assert_eq!(received(path(7, 0x4a98_9681)), 1);
    // MESSAGE_IDs wrap around.
    assert_eq!(received(path(250, 0x4a98_9683)), 1);
    shim.handle_timeout(Instant::START + Duration::from_secs(1));
    let answer = Frame::decode(&shim.poll_transmit().expect("an answer").bytes).expect("an Ack");
    assert_eq!(answer.acknowledgements.len(), 5);
}
