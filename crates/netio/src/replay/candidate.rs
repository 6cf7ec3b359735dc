//! Another policy, given arrivals as they were or are: its tree before a link of its own, which
//! takes packets when they are due and never late.
//!
//! A live path is the same but for two things: it may come late to a packet, by what its host's
//! scheduler takes, and its port may have no room.

use super::event::TapedArrival;
use super::{Beginning, TooMany, headers_pool, put};
use crate::handle::{ExplainWish, PathView};
use crate::path::{Path, Wished};
use crate::pool::Pool;
use crate::replay::recreation::Departure;
use engine::discipline::Next;
use engine::framing::Framing;
use engine::packet::{ClassId, Dscp, Ecn, Packet};
use engine::units::{Bytes, Instant};
use measure::waits::{RecordedWaits, Wanted};
use std::io;

/// A policy beside the one in force.
#[derive(Debug)]
pub struct Candidate {
    path: Path,
    pool: Pool,
    /// From a frame to what its link carries.
    framing: Framing,
    /// What is due, and by when it was served.
    due: Instant,
    now: Instant,
}

impl Candidate {
    /// A policy that begins with nothing queued.
    ///
    /// # Errors
    /// If there is no memory for headers.
    pub fn new(beginning: Beginning) -> io::Result<Self> {
        let mut pool = headers_pool()?;
        let framing = beginning.framing;
        Ok(Self {
            path: Path::new(beginning.spec(), 0, &mut pool).of_traffic_again(),
            pool,
            framing,
            due: Instant::NEVER,
            now: Instant::START,
        })
    }

    /// Records why packets wait, from now on.
    pub fn begin_explaining(&mut self, wanted: Wanted) {
        let _ = self.path.explain(self.now, ExplainWish::Begin(wanted));
    }

    /// Ends that, and returns what was recorded.
    pub fn end_explaining(&mut self) -> Option<RecordedWaits> {
        match self.path.explain(self.now, ExplainWish::End) {
            Wished::Recorded(recorded) => Some(*recorded),
            _ => None,
        }
    }

    /// A frame of this length arrives, of which these are the first bytes. A time before an earlier
    /// one counts as that.
    ///
    /// # Errors
    /// If too many packets are queued.
    pub fn arrive(
        &mut self,
        at: Instant,
        frame: Bytes,
        headers: &[u8],
        leaving: &mut dyn FnMut(Departure<'_>),
    ) -> Result<(), TooMany> {
        let parsed = engine::header::Headers::parse(headers, 0);
        let (ecn, dscp) = (parsed.key.ecn, parsed.key.dscp);
        self.take(at, self.framing.on_wire(frame), (ecn, dscp), headers, leaving)
    }

    /// What arrived at a live path whose link has this framing arrives here too. If its own link
    /// has another one, it counts as the longest frame that takes as much on the live link: where
    /// that pads or cuts into cells, up to that much too long.
    ///
    /// # Errors
    /// If too many packets are queued.
    pub fn arrive_too(
        &mut self,
        arrival: &TapedArrival<'_>,
        live: Framing,
        leaving: &mut dyn FnMut(Departure<'_>),
    ) -> Result<(), TooMany> {
        // Of a super-frame each segment has the framing; its own policy splits as the live one.
        let len = match live == self.framing {
            true => arrival.len,
            false => self.framing.on_wire(live.longest_within(arrival.len)),
        };
        let marks = (arrival.ecn, arrival.dscp);
        self.take(arrival.at, len, marks, arrival.headers, leaving)
    }

    fn take(
        &mut self,
        at: Instant,
        len: Bytes,
        (ecn, dscp): (Ecn, u8),
        headers: &[u8],
        leaving: &mut dyn FnMut(Departure<'_>),
    ) -> Result<(), TooMany> {
        let at = at.max(self.now);
        self.run_until(at, leaving);
        let mut packet = Packet::new(len, at, ClassId(0));
        (packet.ecn, packet.dscp) = (ecn, Dscp::arrived(dscp));
        packet.buffer = put(&mut self.pool, headers)?;
        self.path.offer_classified(&mut self.pool, packet);
        self.serve(at, leaving);
        Ok(())
    }

    /// Lets time pass, up to and including `end`.
    pub fn run_until(&mut self, end: Instant, leaving: &mut dyn FnMut(Departure<'_>)) {
        while self.due <= end {
            self.serve(self.due, leaving);
        }
        self.now = self.now.max(end);
    }

    fn serve(&mut self, at: Instant, leaving: &mut dyn FnMut(Departure<'_>)) {
        let next = self
            .path
            .ask_again(at, u32::MAX, &mut self.pool, &mut |at, packet, headers| {
                leaving(Departure { at, packet, headers });
            });
        self.due = match next {
            Next::Wait(until) => until,
            Next::Ready(()) | Next::Empty => Instant::NEVER,
        };
    }

    /// Packets that are queued.
    pub fn backlog(&self) -> u64 {
        self.path.backlog()
    }

    /// What has passed so far, as a snapshot of a path shows it.
    pub fn show(&mut self) -> PathView {
        self.path.show(self.now)
    }
}
