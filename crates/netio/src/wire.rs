//! A wire that the packet loop models behind a path's queue, instead of a device: what leaves the
//! queue is in flight before it reaches the port. The lab's links are such wires; a real device
//! has its own.

use crate::pool::Offload;
use engine::discipline::{Next, Sink, Verdict};
use engine::packet::Packet;
use engine::shaped_queue::ShapedQueue;
use engine::tree::TreePlan;
use engine::units::{Bandwidth, Instant};
use measure::impairments::ImpairmentCounts;
use measure::promise::ClassPromise;
use std::fmt;

/// A packet that has arrived at the far end of a wire.
#[derive(Debug)]
pub struct WireArrival {
    /// The packet.
    pub packet: Packet,
    /// When it left the queue.
    pub left: Instant,
    /// Whether it is a copy that the wire makes: its bytes are those of the original, which is on
    /// the wire yet and arrives next.
    pub copy: bool,
}

/// Takes packets from a path's queue, and lets them arrive later.
pub trait PathWire: fmt::Debug + Send {
    /// How fast it carries frames.
    fn rate(&self) -> Bandwidth;

    /// A packet arrives at the queue.
    fn enqueue(
        &mut self,
        queue: &mut ShapedQueue,
        now: Instant,
        packet: Packet,
        sink: &mut dyn Sink,
    ) -> Verdict;

    /// A packet arrives that goes onto it before those that are queued.
    fn carry(&mut self, queue: &mut ShapedQueue, now: Instant, packet: Packet, sink: &mut dyn Sink);

    /// The next packet at its far end. Never empty while the queue or the wire holds one.
    fn next(&mut self, queue: &mut ShapedQueue, now: Instant, sink: &mut dyn Sink) -> Next<WireArrival>;

    /// The packet that [`next`](Self::next) gave last is handed over now, as this frame; the wire
    /// may change it, and what is left to the hardware to do with it.
    fn hands_over(&mut self, now: Instant, frame: &mut [u8], offload: &mut Offload);

    /// Whether something befalls packets on it one by one: then a super-frame is cut before it goes
    /// onto it.
    fn is_impaired(&self) -> bool;

    /// What has befallen packets on it.
    fn impaired(&self) -> ImpairmentCounts;

    /// How many packets are in flight.
    fn in_flight(&self) -> usize;

    /// Shows each packet in flight.
    fn each(&mut self, see: &mut dyn FnMut(&mut Packet));

    /// Gives what is in flight to the sink.
    fn flush(&mut self, sink: &mut dyn Sink);

    /// The queue is served at another rate: what it said of its next packet does not hold any more.
    fn reshaped(&mut self, now: Instant);

    /// These are promised to classes of the plan in force from now on.
    fn promised(&mut self, plan: &TreePlan, promises: &[ClassPromise]);

    /// The queue has adopted this plan: what it said of its next packet does not hold any more.
    fn retuned(&mut self, now: Instant, plan: &TreePlan);
}
