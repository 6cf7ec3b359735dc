//! A link whose wire is a medium that others share: what its driver has taken waits in the device
//! until the medium lets its host send.

use super::{LinkContext, QueueState, SimLink, Transmission};
use crate::medium::Access;
use engine::units::{Duration, Instant};
use std::collections::VecDeque;

impl SimLink {
    /// When a transmission on its medium would end that begins now; none if nothing waits.
    pub(crate) fn end_on_medium(&self, cx: &LinkContext<'_>, access: &Access) -> Option<Instant> {
        let begin = cx.now + access.preamble();
        let device = self.extras.get()?.device.as_ref()?;
        let ends = device.iter().scan(begin, |end, waiting| {
            let frame = self.framing.on_wire(cx.store.get(waiting.packet).frame());
            *end = *end + access.time_of(frame, self.wire.rate());
            Some(*end)
        });
        let most = access.aggregation() as usize;
        let fits = |(number, end): &(usize, Instant)| *number == 0 || end.since(cx.now) <= access.longest();
        ends.enumerate()
            .take(most)
            .take_while(fits)
            .map(|(_, end)| end)
            .last()
    }

    /// What waits is sent on its medium, until such an end; it arrives, or it is lost. Returns
    /// whether more waits.
    pub(crate) fn send_on_medium(
        &mut self,
        cx: &mut LinkContext<'_>,
        access: &Access,
        end: Instant,
        arrives: bool,
    ) -> bool {
        let mut start = cx.now;
        let mut first = true;
        while start < end
            && let Some(waiting) = self.extras.device().and_then(VecDeque::pop_front)
        {
            let frame = cx.store.get(waiting.packet).frame();
            let preamble = if first { access.preamble() } else { Duration::ZERO };
            let time = access.time_of(self.framing.on_wire(frame), self.wire.rate());
            let finish = start + preamble + time;
            let dequeued = match &mut self.queue {
                QueueState::Policy(driven) => {
                    if let Some(left) = driven.ring.iter_mut().find(|left| **left == Instant::NEVER) {
                        *left = finish;
                    }
                    waiting.dequeued
                }
                QueueState::TailDrop(buffer) => {
                    buffer.gives(frame);
                    start
                }
                QueueState::Unlimited => start,
            };
            let transmission = Transmission {
                dequeued,
                start,
                ..waiting
            };
            self.departs(cx, &transmission, finish, arrives);
            (start, first) = (finish, false);
        }
        self.drive(cx);
        self.extras.device().is_some_and(|device| !device.is_empty())
    }
}
