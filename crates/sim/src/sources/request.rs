//! Request/response over datagrams: the client sends a request, waits for the whole response,
//! thinks, and sends the next.
//!
//! Nothing is retransmitted. After a timeout the client counts the request as unanswered and sends
//! the next, so that losses show as such and not as long response times.

use super::active::Active;
use super::distributions::{TimeDistribution, TimeSampler};
use crate::agent::{Agent, Context};
use crate::packet::{Payload, SimPacket};
use engine::packet::Ecn;
use engine::random::Seed;
use engine::units::{Bytes, Duration, Instant};
use measure::delay::FineDelays;
use std::collections::VecDeque;

/// Ethernet's, IPv4's and UDP's headers.
const HEADERS: u64 = 14 + 20 + 8;
const ETHERNET: u64 = 14;

/// Ethernet's shortest frame, without FCS.
const SHORTEST: u64 = 60;

/// The settings of a client and its server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestResponse {
    /// The data of a request: one datagram.
    pub request: Bytes,
    /// The data of a response, in as many datagrams as it takes.
    pub response: Bytes,
    /// The longest IP packet.
    pub mtu: Bytes,
    /// The server's processing time.
    pub service_time: Duration,
    /// From a response to the next request.
    pub think_time: TimeDistribution,
    /// How long the client waits for a response.
    pub timeout: Duration,
    /// The ECN field of all packets.
    pub ecn: Ecn,
    /// When the client sends requests; responses are sent at any time.
    pub active: Active,
}

impl Default for RequestResponse {
    /// A small request, a small response at once, and the next request at once: "ping-pong".
    fn default() -> Self {
        Self {
            request: Bytes::new(64),
            response: Bytes::new(64),
            mtu: Bytes::new(1500),
            service_time: Duration::ZERO,
            think_time: TimeDistribution::Fixed(Duration::ZERO),
            timeout: Duration::from_secs(1),
            ecn: Ecn::NotEct,
            active: Active::default(),
        }
    }
}

impl RequestResponse {
    /// The client, which initiates, and the server.
    pub fn pair(&self, seed: Seed) -> [Box<dyn Agent>; 2] {
        [
            Box::new(RequestClient::new(self, seed)),
            Box::new(RequestServer::new(self)),
        ]
    }

    /// The data of a full datagram.
    fn full(&self) -> u64 {
        (self.mtu.get() + ETHERNET).saturating_sub(HEADERS).max(1)
    }

    /// The datagrams of a response.
    fn datagrams(&self) -> u64 {
        self.response.get().div_ceil(self.full()).max(1)
    }

    fn packet(&self, number: u64, data: u64) -> SimPacket {
        let frame = Bytes::new((data + HEADERS).max(SHORTEST));
        let mut packet = SimPacket::new(frame, Payload::Datagram(number));
        packet.ecn = self.ecn;
        packet
    }
}

/// The client.
#[derive(Clone, Debug)]
pub struct RequestClient {
    settings: RequestResponse,
    think_time: TimeSampler,
    /// From a request to the last bit of its response.
    pub response_times: FineDelays,
    /// Requests sent.
    pub requests: u64,
    /// Requests that timed out.
    pub unanswered: u64,
    pending: Option<PendingRequest>,
}

/// The request that the client waits for.
#[derive(Clone, Copy, Debug)]
struct PendingRequest {
    sent: Instant,
    /// Datagrams of its response that have not arrived.
    missing: u64,
}

impl RequestClient {
    fn new(settings: &RequestResponse, seed: Seed) -> Self {
        Self {
            settings: settings.clone(),
            think_time: TimeSampler::new(settings.think_time.clone(), seed.fork("think")),
            response_times: FineDelays::default(),
            requests: 0,
            unanswered: 0,
            pending: None,
        }
    }

    /// The number of requests answered.
    pub fn answered(&self) -> u64 {
        self.response_times.count()
    }
}

impl Agent for RequestClient {
    fn wake(&mut self, cx: &mut Context<'_>) {
        self.unanswered += u64::from(self.pending.take().is_some());
        match self.settings.active.resumes(cx.now()) {
            Some(begin) if begin > cx.now() => cx.wake_at(begin),
            Some(now) => {
                self.requests += 1;
                let data = self.settings.request.get();
                cx.send(self.settings.packet(self.requests, data));
                self.pending = Some(PendingRequest {
                    sent: now,
                    missing: self.settings.datagrams(),
                });
                // With a timeout of zero, time would stand still.
                cx.wake_at(now + self.settings.timeout.max(Duration::from_nanos(1)));
            }
            None => {}
        }
    }

    fn receive(&mut self, cx: &mut Context<'_>, packet: &SimPacket) {
        cx.deliver(packet.frame);
        if packet.payload != Payload::Datagram(self.requests) {
            return;
        }
        if let Some(pending) = &mut self.pending {
            pending.missing -= 1;
            if pending.missing == 0 {
                self.response_times.record(cx.now().since(pending.sent));
                self.pending = None;
                cx.wake_at(cx.now() + self.think_time.draw());
            }
        }
    }
}

/// The server.
#[derive(Clone, Debug)]
pub struct RequestServer {
    settings: RequestResponse,
    /// When each response is ready, and its number.
    ready: VecDeque<(Instant, u64)>,
}

impl RequestServer {
    fn new(settings: &RequestResponse) -> Self {
        Self {
            settings: settings.clone(),
            ready: VecDeque::new(),
        }
    }
}

impl Agent for RequestServer {
    fn wake(&mut self, cx: &mut Context<'_>) {
        while let Some(&(at, number)) = self.ready.front() {
            if at > cx.now() {
                cx.wake_at(at);
                return;
            }
            self.ready.pop_front();
            let mut left = self.settings.response.get();
            for _ in 0..self.settings.datagrams() {
                let data = left.min(self.settings.full());
                left -= data;
                cx.send(self.settings.packet(number, data));
            }
        }
    }

    fn receive(&mut self, cx: &mut Context<'_>, packet: &SimPacket) {
        cx.deliver(packet.frame);
        if let Payload::Datagram(number) = packet.payload {
            self.ready
                .push_back((cx.now() + self.settings.service_time, number));
            self.wake(cx);
        }
    }
}
