//! State lives as long as its neighbour says, up to a ceiling.

use crate::node::{FRIEND, node, reserve, sender, status};
use crate::paths::{TTL, numbered, path, session};
use engine::units::{Duration, Instant};
use rsvp::reduction::{ReductionShim, Settings};
use rsvp::wire::{Frame, Message, MessageIdList, MessageIds, Refresh};

/// 5.25 times 5 min.
const CEILING: Duration = Duration::from_secs(1575);

#[test]
fn one_message_does_not_leave_state_for_261_days() {
    let mut node = node(1000);
    let path = path(session(1), sender(1), FRIEND, Refresh::millis(u32::MAX));
    node.handle_frame(Instant::START, 0, TTL, Frame::plain(TTL, Message::Path(path)));
    reserve(&mut node, Instant::START, 1, 1, FRIEND, Refresh::millis(u32::MAX));
    let status = status(&node, 1);
    assert_eq!(status.psbs[0].expires.since(Instant::START), CEILING);
    assert_eq!(status.rsbs[0].expires.since(Instant::START), CEILING);
    node.handle_timeout(Instant::START + CEILING);
    assert_eq!((node.senders(), node.reservations()), (0, 0));
}

#[test]
fn a_stored_message_has_the_same_ceiling() {
    let mut shim = ReductionShim::new(Settings::new(vec![vec![FRIEND]], 5));
    let path = path(session(1), sender(1), FRIEND, Refresh::millis(u32::MAX));
    assert_eq!(
        shim.incoming(Instant::START, 0, FRIEND, TTL, numbered(path, 1))
            .len(),
        1
    );
    let summary = |now| {
        let list = MessageIdList {
            epoch: 9,
            ids: MessageIds::Neighbour(vec![1]),
        };
        (now, Frame::plain(TTL, Message::Srefresh(vec![list])))
    };
    let (now, refresh) = summary(Instant::START + Duration::from_secs(1000));
    shim.handle_timeout(now);
    assert_eq!(shim.incoming(now, 0, FRIEND, TTL, refresh).len(), 1);
    let (now, refresh) = summary(now + CEILING);
    shim.handle_timeout(now);
    assert_eq!(shim.incoming(now, 0, FRIEND, TTL, refresh).len(), 0);
}
