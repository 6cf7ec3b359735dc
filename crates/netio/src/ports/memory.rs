//! Two ports joined back to back in this process: a wire for tests, also between threads.
//!
//! Each end is a [`Port`]; a test can also use it directly by [`Memory::send`] and
//! [`Memory::take`]. The test chooses the capabilities. [`Memory::set_link`] makes the interface
//! fail.

use crate::pool::{Offload, Pool};
use crate::port::{Capabilities, Counters, Fault, Port, PortError, Wake};
use crate::sys::Bell;
use engine::packet::Buffer;
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Frames received at once.
const BATCH: usize = 64;

/// The state of the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LinkState {
    /// It works.
    #[default]
    Up,
    /// Both ends report that the interface is down.
    Down,
    /// Both ends report that the interface is gone.
    Gone,
}

/// A frame on the wire.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OnWire {
    /// From the Ethernet header on.
    pub bytes: Vec<u8>,
    /// Its offload description.
    pub offload: Offload,
}

#[derive(Debug, Default)]
struct Wire {
    /// Frames in flight to each side.
    lanes: [VecDeque<OnWire>; 2],
    link: LinkState,
}

/// One end.
#[derive(Debug)]
pub struct Memory {
    name: String,
    side: usize,
    wire: Arc<Mutex<Wire>>,
    /// `bells[side]` wakes that side: a frame arrived, room appeared, or the link state changed.
    bells: Arc<[Bell; 2]>,
    capabilities: Capabilities,
    staged: VecDeque<Buffer>,
    counters: Counters,
}

impl Memory {
    /// The two ends of a wire with room for `transmit_ring` frames in each direction.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses the descriptors by which the ends wake each other.
    pub fn pair(names: [&str; 2], capabilities: Capabilities) -> io::Result<[Self; 2]> {
        let wire = Arc::new(Mutex::new(Wire::default()));
        let bells = Arc::new([Bell::new()?, Bell::new()?]);
        Ok([0, 1].map(|side| Self {
            name: names[side].into(),
            side,
            wire: wire.clone(),
            bells: bells.clone(),
            capabilities,
            staged: VecDeque::new(),
            counters: Counters::default(),
        }))
    }

    fn wire(&self) -> MutexGuard<'_, Wire> {
        self.wire.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn other(&self) -> usize {
        1 - self.side
    }

    /// Sends a frame, even without room.
    pub fn send(&self, bytes: &[u8], offload: Offload) {
        self.wire().lanes[self.other()].push_back(OnWire {
            bytes: bytes.into(),
            offload,
        });
        self.bells[self.other()].ring();
    }

    /// Takes the oldest frame that has arrived.
    pub fn take(&self) -> Option<OnWire> {
        let frame = self.wire().lanes[self.side].pop_front();
        self.bells[self.other()].ring();
        frame
    }

    /// Makes the link fail, or work again.
    pub fn set_link(&self, link: LinkState) {
        self.wire().link = link;
        self.bells.iter().for_each(Bell::ring);
    }

    fn check(&self, wire: &Wire, doing: &'static str) -> Result<(), PortError> {
        match wire.link {
            LinkState::Up => Ok(()),
            LinkState::Down => Err(PortError::fault(&self.name, doing, Fault::Down)),
            LinkState::Gone => Err(PortError::fault(&self.name, doing, Fault::Gone)),
        }
    }
}

impl Port for Memory {
    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Buffer>) -> Result<(), PortError> {
        self.bells[self.side].clear();
        let wire = self.wire.clone();
        let mut wire = wire.lock().unwrap_or_else(PoisonError::into_inner);
        self.check(&wire, "receiving")?;
        let lane = &mut wire.lanes[self.side];
        let some = !lane.is_empty();
        for frame in lane.drain(..lane.len().min(BATCH)) {
            match pool.put(&frame.bytes, frame.offload) {
                Some(buffer) => {
                    self.counters.received += 1;
                    self.counters.received_bytes += frame.bytes.len() as u64;
                    into.push(buffer);
                }
                None => self.counters.refused += 1,
            }
        }
        if !lane.is_empty() {
            self.bells[self.side].ring();
        }
        if some {
            self.bells[self.other()].ring();
        }
        Ok(())
    }

    fn room(&self) -> usize {
        let in_flight = self.wire().lanes[self.other()].len() + self.staged.len();
        self.capabilities.transmit_ring.saturating_sub(in_flight)
    }

    fn transmit(&mut self, _pool: &mut Pool, frame: Buffer) {
        self.staged.push_back(frame);
    }

    fn kick(&mut self, pool: &mut Pool) -> Result<(), PortError> {
        if self.staged.is_empty() {
            return Ok(());
        }
        let shared = self.wire.clone();
        let mut wire = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.check(&wire, "sending");
        for buffer in std::mem::take(&mut self.staged) {
            let bytes = pool.bytes(buffer).to_vec();
            if state.is_ok() {
                self.counters.sent += 1;
                self.counters.sent_bytes += bytes.len() as u64;
                let offload = pool.offload(buffer);
                wire.lanes[self.other()].push_back(OnWire { bytes, offload });
            } else {
                self.counters.dropped += 1;
            }
            pool.free(buffer);
        }
        self.bells[self.other()].ring();
        state
    }

    fn wake(&self, _room: bool) -> Option<Wake<'_>> {
        let fd = self.bells[self.side].as_fd();
        Some(Wake {
            fd,
            events: libc::POLLIN,
            retry: None,
        })
    }

    fn revive(&mut self, _pool: &mut Pool) -> Result<(), PortError> {
        self.check(&self.wire(), "opening")
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Slots;

    fn pair() -> (Pool, [Memory; 2]) {
        let pool = Pool::new(Slots { small: 8, big: 1 }).expect("memory");
        let ends = Memory::pair(["left", "right"], Capabilities::plain(1500, 2)).expect("two ends");
        (pool, ends)
    }

    #[test]
    fn what_one_end_sends_the_other_receives_and_room_is_bounded() {
        let (mut pool, [mut left, mut right]) = pair();
        for byte in 0..2 {
            let buffer = pool.put(&[byte; 60], Offload::default()).expect("a slot");
            assert!(left.room() > 0);
            left.transmit(&mut pool, buffer);
        }
        assert_eq!(left.room(), 0);
        left.kick(&mut pool).expect("a working wire");
        let mut got = Vec::new();
        right.receive(&mut pool, &mut got).expect("a working wire");
        let first: Vec<u8> = got.iter().map(|b| pool.bytes(*b)[0]).collect();
        assert_eq!((first, left.room()), (vec![0, 1], 2));
    }

    #[test]
    fn a_link_that_is_down_is_an_error_that_names_the_port_and_drops_what_was_staged() {
        let (mut pool, [mut left, right]) = pair();
        let buffer = pool.put(&[1; 60], Offload::default()).expect("a slot");
        left.transmit(&mut pool, buffer);
        right.set_link(LinkState::Down);
        let error = left.kick(&mut pool).expect_err("the link is down");
        assert_eq!((error.fault, left.counters().dropped), (Fault::Down, 1));
        assert!(error.to_string().contains("left"));
        assert_eq!(pool.usage()[0].used, 0);
        right.set_link(LinkState::Up);
        assert!(left.revive(&mut pool).is_ok());
    }
}
