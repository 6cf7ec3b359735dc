//! Samples of the variables of sending TCPs, and QUICs, over a run of the simulator, as the lab
//! takes those of the kernel's: of each flow's first copy, from its first round-trip time until all
//! that it sent is acknowledged, as often as a run reports its progress.

use super::network::Network;
use super::outcome::{FlowOutcome, TcpSample};
use crate::Scenario;
use engine::units::{Bytes, Duration, Instant};
use sim::quic::QuicSender;
use sim::simulation::{End, FlowId};
use sim::tcp::TcpSender;

/// The samples of each flow so far.
#[derive(Debug)]
pub(super) struct TcpSamples {
    of: Vec<Vec<TcpSample>>,
    every: Duration,
    /// When the next are due.
    due: Instant,
}

impl TcpSamples {
    /// None yet; they are taken so often.
    pub(super) fn new(scenario: &Scenario, every: Duration) -> Self {
        Self {
            of: vec![Vec::new(); scenario.flows.len()],
            every,
            due: Instant::START + every,
        }
    }

    /// Takes a sample of each flow, if they are due.
    pub(super) fn take(&mut self, network: &Network, at: Instant) {
        if at < self.due {
            return;
        }
        self.due = self.due + self.every;
        for (copies, samples) in network.flows.iter().zip(&mut self.of) {
            let sample = copies.first().and_then(|&copy| of_sender(network, copy, at));
            samples.extend(sample);
        }
    }

    /// Gives them to the flows' outcomes.
    pub(super) fn tell(self, flows: &mut [FlowOutcome]) {
        for (flow, samples) in flows.iter_mut().zip(self.of) {
            flow.tcp = samples;
        }
    }
}

/// A sample of the sender of a connection, while it has something to send and knows its round trip.
fn of_sender(network: &Network, connection: FlowId, at: Instant) -> Option<TcpSample> {
    let sample = |cwnd, rtt, retransmissions| TcpSample {
        at,
        cwnd: Bytes::new(cwnd),
        rtt,
        retransmissions,
    };
    if let Some(sender) = network.sim.agent::<QuicSender>(connection, End::Initiator) {
        let rtt = sender.rtt().srtt().filter(|_| sender.finished.is_none());
        return rtt.map(|rtt| sample(sender.cwnd(), rtt, sender.statistics.lost));
    }
    let sender = network.sim.agent::<TcpSender>(connection, End::Initiator)?;
    let rtt = sender.rtt().srtt().filter(|_| sender.finished.is_none());
    rtt.map(|rtt| sample(sender.cwnd(), rtt, sender.statistics.retransmissions))
}
