//! A source of datagrams at the times of a [`Timing`]. It ignores what it receives.

use super::datagrams::Datagrams;
use crate::agent::{Agent, Context};
use crate::packet::SimPacket;
use engine::units::{Bytes, Duration, Instant};
use std::fmt::Debug;

/// When a source sends. Times are relative, so a timing depends on neither clocks nor flows.
pub trait Timing: Debug + Send + 'static {
    /// From the beginning of the flow or of an active span to the first packet; `None`: no packet
    /// is left.
    fn first(&mut self) -> Option<Duration>;

    /// From a packet of this length to the next; `None`: it was the last.
    fn next(&mut self, sent: Bytes) -> Option<Duration>;

    /// The length of the packet that is due, if the timing defines it.
    fn length(&self) -> Option<Bytes> {
        None
    }
}

/// Sends datagrams at times.
#[derive(Clone, Debug)]
pub struct DatagramSource<T> {
    datagrams: Datagrams,
    timing: T,
    /// When the next packet is due; `None` between active spans.
    due: Option<Instant>,
}

impl<T: Timing> DatagramSource<T> {
    /// A source of these datagrams; of frames of a length, for [`Bytes`].
    pub fn new(datagrams: impl Into<Datagrams>, timing: T) -> Self {
        Self {
            datagrams: datagrams.into(),
            timing,
            due: None,
        }
    }

    /// The number of packets sent.
    pub fn sent(&self) -> u64 {
        self.datagrams.sent()
    }

    /// When it sends next; `None` in a pause and after the last packet. A packet that was due in a
    /// pause is dropped.
    fn due(&mut self, now: Instant) -> Option<Instant> {
        let begin = self.datagrams.active.resumes(now)?;
        match self.due {
            Some(due) if begin == now => Some(due),
            _ if begin == now => self.timing.first().map(|wait| now + wait),
            _ => None,
        }
    }
}

impl<T: Timing> Agent for DatagramSource<T> {
    fn wake(&mut self, cx: &mut Context<'_>) {
        let now = cx.now();
        self.due = self.due(now);
        while self.due.is_some_and(|due| due <= now) {
            let length = self.timing.length();
            let sent = self.datagrams.send(cx, length);
            self.due = self.timing.next(sent).map(|gap| now + gap);
        }
        match self.due {
            Some(due) => cx.wake_at(due),
            // Between spans; within one, no packet is left.
            None => {
                if let Some(begin) = self.datagrams.active.resumes(now).filter(|begin| *begin > now) {
                    cx.wake_at(begin);
                }
            }
        }
    }

    fn receive(&mut self, _cx: &mut Context<'_>, _packet: &SimPacket) {}
}
