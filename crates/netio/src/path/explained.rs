//! Why packets of a path wait: the recorder beside its queue, while somebody asks.

use super::{Path, headers_behind};
use crate::handle::ExplainWish;
use crate::pool::Pool;
use engine::packet::Packet;
use engine::units::{Duration, Instant};
use measure::waits::{RecordedWaits, WaitRecorder};

/// How long after its end a recording waits for whoever asked for it.
const LEFT: Duration = Duration::from_millis(5_000);

/// What became of a wish.
#[derive(Debug)]
pub(crate) enum Wished {
    /// It records.
    Begun,
    /// It records for somebody else.
    Taken,
    /// What was recorded.
    Recorded(Box<RecordedWaits>),
    /// Nothing is recorded.
    Nothing,
}

impl Path {
    /// Begins to record, or ends it.
    pub(crate) fn explain(&mut self, now: Instant, wish: ExplainWish) -> Wished {
        match wish {
            ExplainWish::Begin(_) if self.waits.as_ref().is_some_and(|old| now < old.until()) => {
                Wished::Taken
            }
            ExplainWish::Begin(wanted) => {
                let recorder = WaitRecorder::new(wanted, self.plan.clone(), self.queue.bandwidth());
                self.waits = Some(Box::new(recorder));
                self.note_plain();
                Wished::Begun
            }
            ExplainWish::End => {
                let waits = self.waits.take();
                self.note_plain();
                let recorded = |waits: Box<WaitRecorder>| Wished::Recorded(Box::new(waits.finish()));
                waits.map_or(Wished::Nothing, recorded)
            }
        }
    }

    /// Shows the recorder a packet that arrives; nobody may be waiting for it any more.
    #[inline(never)]
    pub(super) fn record_arrival(&mut self, pool: &Pool, packet: &Packet) {
        let now = packet.arrived;
        let forgotten = |waits: &mut Box<WaitRecorder>| now > waits.until() + LEFT;
        if self.waits.take_if(forgotten).is_some() {
            self.note_plain();
        }
        let (queue, mark, behind) = (self.queue.queue(), self.mark, self.behind.as_ref());
        if let Some(waits) = &mut self.waits {
            let key = || headers_behind(behind, pool.bytes(packet.buffer), mark).key;
            waits.arrives(now, packet, queue, key);
        }
    }
}
