//! Counters at an instant, for every subject that an expectation can have.

use super::network::Network;
use crate::Scenario;
use crate::language::Subject;
use engine::discipline::Reason;
use engine::inspect::Value;
use engine::packet::ClassId;
use engine::queue::Queue;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use measure::delay::FineDelays;
use sim::meter::{self, BacklogLevels, MeterRow, MeterTally};
use sim::quic::application::ObjectStreams;
use sim::quic::{QuicReceiver, QuicSender};
use sim::simulation::{End, FlowId, Simulation};
use sim::sources::Listener;
use sim::tcp::objects::ObjectWriter;
use sim::tcp::pages::PageConnection;
use sim::tcp::responses::ResponseWriter;
use sim::tcp::video::{Playback, VideoPlayer};
use sim::tcp::{self, TcpSender};

/// Monotonic counters of values that no meter counts by windows.
#[derive(Clone, Debug, Default)]
pub struct MeterReading {
    /// Packets that a flow's receivers got.
    pub packets: u64,
    /// Their one-way delays; for requests and pages, response times.
    pub delays: FineDelays,
    /// Completed responses.
    pub answers: u64,
    /// Retransmitted segments; of QUIC, packets that were found lost, whose data goes again.
    pub retransmissions: u64,
    /// Retransmission timeouts; of QUIC, probe timeouts.
    pub timeouts: u64,
    /// What has become of playing video, in all copies.
    pub playback: Playback,
    /// Bytes that a class borrowed.
    pub borrowed: Bytes,
    /// For how long a reservation was in force.
    pub in_force: Duration,
}

impl MeterReading {
    /// Adds the times of responses.
    fn answered(&mut self, times: &FineDelays) {
        self.answers += times.count();
        self.delays.merge(times);
    }
}

/// The traffic of a link, or of a class there, in some interval.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// Packets.
    pub packets: u64,
    /// Their bytes, at the times of their bits on the wire.
    pub bytes: u64,
    /// Queueing delays.
    pub waited: FineDelays,
    /// Packets dropped.
    pub dropped: [u64; Reason::ALL.len()],
    /// Packets marked.
    pub marked: u64,
    /// The backlog.
    pub queue: BacklogLevels,
    /// Bytes in each bin; for a window there is one bin.
    pub series: Vec<u64>,
}

impl Counted {
    fn add(&mut self, tally: &MeterTally) {
        self.packets += tally.sent.packets;
        self.bytes += tally.series.total();
        self.waited.merge(&tally.queueing_delays);
        self.marked += tally.marked;
        let reasons = self.dropped.iter_mut().zip(tally.drops_by_reason);
        reasons.for_each(|(sum, one)| *sum += one);
        add(&mut self.series, tally.series.bytes());
    }

    /// The number of packets dropped.
    pub fn drops(&self) -> u64 {
        self.dropped.iter().sum()
    }
}

/// Readings and series of a network, indexed as in the scenario.
#[derive(Debug)]
pub struct Meters<'a> {
    /// The network.
    pub network: &'a Network,
    /// Its scenario.
    pub scenario: &'a Scenario,
}

impl Meters<'_> {
    fn sim(&self) -> &Simulation {
        &self.network.sim
    }

    /// The traffic of a link, or of a class there by its row in the meter: within a window that the
    /// meter was set up with, or in the whole run.
    pub fn counted(
        &self,
        direction: usize,
        class: Option<ClassId>,
        window: Option<(Instant, Instant)>,
    ) -> Counted {
        let link = self.network.links[direction];
        let mut counted = Counted::default();
        let Some(meter) = self.sim().meter(link) else {
            return counted;
        };
        let found = match window {
            Some((from, to)) => meter.window(from, to),
            None => Some(meter.whole()),
        };
        let Some(found) = found else {
            return counted;
        };
        match class {
            Some(class) => {
                let above = class.0 as usize;
                for (row, tally) in found.classes().iter().enumerate() {
                    if is_below(meter.rows(), row, above) {
                        counted.add(tally);
                    }
                    if row == above {
                        counted.queue.clone_from(&tally.backlog);
                    }
                }
            }
            None => {
                let total = found.total();
                counted.add(&total);
                counted.queue = total.backlog;
            }
        }
        counted
    }

    /// The current counters of a subject that no meter counts by windows.
    pub fn reading(&self, subject: Subject) -> MeterReading {
        let mut reading = MeterReading::default();
        match subject {
            Subject::Class { direction, class } => {
                reading.borrowed = self.borrowed(direction, class).unwrap_or_default();
            }
            Subject::Flow(flow) => {
                for copy in self.copies(flow) {
                    self.of_connections(copy, &mut reading);
                }
            }
            Subject::Reservation(index) => {
                let signalling = self.network.signalling.as_ref();
                let log = signalling.and_then(|signalling| signalling.logs().get(index));
                reading.in_force = log.map_or(Duration::ZERO, |log| log.in_force(self.sim().now()));
            }
            Subject::Link(_) | Subject::All => {}
        }
        reading
    }

    /// The connections of each copy of a flow.
    pub fn copies(&self, flow: usize) -> impl ExactSizeIterator<Item = &[FlowId]> + Clone {
        let each = self.scenario.flows[flow].source.connections().max(1);
        self.network.flows[flow].chunks(each as usize)
    }

    /// Adds the counters of one copy of a flow.
    fn of_connections(&self, copy: &[FlowId], reading: &mut MeterReading) {
        for (number, &connection) in copy.iter().enumerate() {
            if let Some(listener) = self.listener(connection) {
                reading.packets += listener.packets;
                reading.delays.merge(&listener.delays);
            }
            if let Some(sender) = self.sim().agent::<TcpSender>(connection, End::Initiator) {
                reading.retransmissions += sender.statistics.retransmissions;
                reading.timeouts += sender.statistics.timeouts;
                // Each connection of a browser tells of all.
                if let (0, Some(pages)) = (number, sender.application::<ResponseWriter<PageConnection>>()) {
                    for took in pages.client().load_times() {
                        reading.answers += 1;
                        reading.delays.record(took);
                    }
                }
                if let Some(video) = sender.application::<ResponseWriter<VideoPlayer>>() {
                    let played = video.client().playback(self.sim().now());
                    reading.playback = reading.playback.with(&played);
                }
                if let Some(objects) = sender.application::<ObjectWriter>() {
                    reading.answered(&objects.client().times);
                }
            }
            if let Some(sender) = self.sim().agent::<QuicSender>(connection, End::Initiator) {
                reading.retransmissions += sender.statistics.lost;
                reading.timeouts += sender.statistics.probe_timeouts;
                if let Some(objects) = sender.application::<ObjectStreams>() {
                    reading.answered(&objects.client().times);
                }
            }
            if let Some(receiver) = self.sim().agent::<QuicReceiver>(connection, End::Responder) {
                reading.packets += receiver.packets;
            }
            if let Some(receiver) = self.sim().agent::<tcp::TcpReceiver>(connection, End::Responder) {
                reading.packets += receiver.segments;
            }
        }
    }

    /// The bytes that a flow, or all flows, received in each bin.
    pub fn received(&self, flow: Option<usize>) -> Vec<u64> {
        let mut sum = Vec::new();
        let flows = &self.network.flows;
        let flows = flow.map_or(flows.as_slice(), |flow| &flows[flow..=flow]);
        flows
            .iter()
            .flatten()
            .for_each(|&connection| add(&mut sum, self.series(connection)));
        sum
    }

    /// The bytes that one connection received in each bin.
    pub fn series(&self, connection: FlowId) -> &[u64] {
        let received = self.sim().delivered(connection, End::Responder);
        received.series.as_ref().map_or(&[], |series| series.bytes())
    }

    /// The receiver of a datagram source.
    pub fn listener(&self, copy: FlowId) -> Option<&Listener> {
        self.sim().agent(copy, End::Responder)
    }

    /// The queue of a direction, and the class in it that continues this row of the meter; none
    /// if the class is gone.
    fn queue(&self, direction: usize, class: ClassId) -> Option<(&Queue, ClassId)> {
        let link = self.network.links[direction];
        let (queue, plan) = self.sim().queue(link)?;
        let row = self.sim().meter(link)?.rows().get(class.0 as usize)?;
        Some((queue, plan.class(&row.name)?))
    }

    /// The bytes that a class has borrowed, if its discipline lends.
    pub fn borrowed(&self, direction: usize, class: ClassId) -> Option<Bytes> {
        let (queue, class) = self.queue(direction, class)?;
        meter::borrowed(queue, class)
    }

    /// The rate that a class's discipline guarantees, if any.
    pub fn target(&self, direction: usize, class: ClassId) -> Option<Bandwidth> {
        let (queue, class) = self.queue(direction, class)?;
        match meter::gauge(queue, class, "rate")? {
            Value::Bandwidth(rate) => Some(rate),
            _ => None,
        }
    }
}

/// Whether a class is `above` itself, or below it.
fn is_below(rows: &[MeterRow], row: usize, above: usize) -> bool {
    let mut at = Some(row);
    while let Some(here) = at {
        if here == above {
            return true;
        }
        at = rows.get(here).and_then(|row| row.parent);
    }
    false
}

fn add(sum: &mut Vec<u64>, bytes: &[u64]) {
    if sum.len() < bytes.len() {
        sum.resize(bytes.len(), 0);
    }
    sum.iter_mut().zip(bytes).for_each(|(sum, bytes)| *sum += bytes);
}

/// The bytes of a series between two instants; partial bins count in proportion.
pub fn between(series: &[u64], bin: u64, from: Instant, to: Instant) -> u64 {
    let (from, to) = (from.nanos(), to.nanos());
    let (first, last) = (
        (from / bin) as usize,
        (to.div_ceil(bin) as usize).min(series.len()),
    );
    let part = |index: usize| {
        let begin = index as u64 * bin;
        let inside = to.min(begin + bin).saturating_sub(from.max(begin));
        (u128::from(series[index]) * u128::from(inside) / u128::from(bin)) as u64
    };
    (first..last).map(part).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_takes_whole_bins_and_parts_of_those_that_it_cuts() {
        let at = Instant::from_nanos;
        let series = [100, 200, 300];
        assert_eq!(between(&series, 10, at(0), at(30)), 600);
        assert_eq!(between(&series, 10, at(10), at(20)), 200);
        assert_eq!(between(&series, 10, at(5), at(25)), 50 + 200 + 150);
        assert_eq!(between(&series, 10, at(12), at(15)), 60);
        assert_eq!(between(&series, 10, at(20), at(90)), 300);
        assert_eq!(between(&[], 10, at(0), at(90)), 0);
    }
}
