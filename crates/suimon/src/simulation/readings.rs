//! What has been counted at an instant, of whatever an expectation can be about.

use super::network::Network;
use control::scenario::{Scenario, Subject};
use engine::delay::Delays;
use engine::discipline::Reason;
use engine::inspect::{Inspection, Value, View};
use engine::packet::ClassId;
use engine::tree::TreePlan;
use engine::units::{Bandwidth, Bytes, Instant};
use sim::meter::Tally;
use sim::simulation::{End, FlowId, LinkId, Simulation};
use sim::sources::Listener;

/// Counts that only grow.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// Packets.
    pub packets: u64,
    /// Delays of packets.
    pub delays: Delays,
    /// Packets dropped.
    pub dropped: [u64; Reason::ALL.len()],
    /// Packets marked.
    pub marked: u64,
    /// Bytes borrowed.
    pub borrowed: Bytes,
}

impl Reading {
    fn add(&mut self, meter: &Tally) {
        self.packets += meter.sent.packets;
        self.delays.merge(&meter.waited);
        self.marked += meter.marked;
        for (sum, one) in self.dropped.iter_mut().zip(meter.dropped) {
            *sum += one;
        }
    }

    /// All that was dropped.
    pub fn drops(&self) -> u64 {
        self.dropped.iter().sum()
    }
}

/// Readings and series of a network, by the scenario's numbers.
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

    /// The meters of the leaves that belong to a class, or of all, if none is named.
    fn leaves(&self, direction: usize, class: Option<ClassId>) -> impl Iterator<Item = &Tally> {
        let link = self.network.links[direction];
        let plan = self.sim().queue(link).map(|(_, plan)| plan);
        let meters = self.sim().meter(link).map_or(&[][..], |meter| meter.classes());
        let belongs = move |index: usize| match (class, plan) {
            (Some(class), Some(plan)) => is_below(plan, ClassId(index as u32), class),
            _ => true,
        };
        meters
            .iter()
            .enumerate()
            .filter(move |(index, _)| belongs(*index))
            .map(|(_, meter)| meter)
    }

    /// What a subject has counted by now.
    pub fn reading(&self, subject: Subject) -> Reading {
        let mut reading = Reading::default();
        match subject {
            Subject::Class { direction, class } => {
                self.leaves(direction, Some(class))
                    .for_each(|meter| reading.add(meter));
                reading.borrowed = self.borrowed(direction, class).unwrap_or_default();
            }
            Subject::Link(direction) => self.leaves(direction, None).for_each(|meter| reading.add(meter)),
            Subject::Flow(flow) => {
                for &copy in &self.network.flows[flow] {
                    if let Some(listener) = self.listener(copy) {
                        reading.packets += listener.packets;
                        reading.delays.merge(&listener.delays);
                    }
                }
            }
            Subject::All => {}
        }
        reading
    }

    /// The bytes of a subject in each bin.
    pub fn series(&self, subject: Subject) -> Vec<u64> {
        let mut sum = Vec::new();
        match subject {
            Subject::Class { direction, class } => {
                self.leaves(direction, Some(class))
                    .for_each(|meter| add(&mut sum, meter.series.bytes()));
            }
            Subject::Link(direction) => {
                self.leaves(direction, None)
                    .for_each(|meter| add(&mut sum, meter.series.bytes()));
            }
            Subject::Flow(flow) => {
                self.network.flows[flow]
                    .iter()
                    .for_each(|&copy| add(&mut sum, self.copy_series(copy)));
            }
            Subject::All => {
                self.network
                    .flows
                    .iter()
                    .flatten()
                    .for_each(|&copy| add(&mut sum, self.copy_series(copy)));
            }
        }
        sum
    }

    /// What one copy of a flow got in each bin.
    pub fn copy_series(&self, copy: FlowId) -> &[u64] {
        let received = self.sim().received(copy, End::Answerer);
        received.series.as_ref().map_or(&[], |series| series.bytes())
    }

    /// The other end of a source that does not wait for answers.
    pub fn listener(&self, copy: FlowId) -> Option<&Listener> {
        self.sim().agent(copy, End::Answerer)
    }

    fn views(&self, link: LinkId) -> Vec<View> {
        let mut views = Vec::new();
        if let Some((queue, _)) = self.sim().queue(link) {
            queue.inspect(&mut Inspection::new(&mut views));
        }
        views
    }

    fn gauge(&self, direction: usize, class: ClassId, name: &str) -> Option<Value> {
        let views = self.views(self.network.links[direction]);
        let view = views.into_iter().find(|view| view.class == Some(class))?;
        view.gauges
            .into_iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }

    /// What a class has borrowed, if its discipline lends.
    pub fn borrowed(&self, direction: usize, class: ClassId) -> Option<Bytes> {
        match self.gauge(direction, class, "borrowed")? {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// What a class is sure of, if its discipline promises that.
    pub fn target(&self, direction: usize, class: ClassId) -> Option<Bandwidth> {
        match self.gauge(direction, class, "rate")? {
            Value::Bandwidth(rate) => Some(rate),
            _ => None,
        }
    }
}

/// Whether a class is another, or below it.
fn is_below(plan: &TreePlan, class: ClassId, above: ClassId) -> bool {
    let mut at = Some(class);
    while let Some(here) = at {
        if here == above {
            return true;
        }
        at = plan.info(here).and_then(|info| info.parent);
    }
    false
}

fn add(sum: &mut Vec<u64>, bytes: &[u64]) {
    if sum.len() < bytes.len() {
        sum.resize(bytes.len(), 0);
    }
    sum.iter_mut().zip(bytes).for_each(|(sum, bytes)| *sum += bytes);
}

/// The bytes of a series from one instant to another; of bins that are cut, the part in proportion.
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
