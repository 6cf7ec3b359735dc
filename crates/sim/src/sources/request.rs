//! Requests and answers over datagrams: the client asks, waits for the whole answer, thinks, and asks again.
//!
//! What is lost is not asked for again: after its patience the client counts the request as unanswered and goes on with
//! the next, so losses show as such and not as long response times.

use super::chance::Spells;
use super::{Active, Spell};
use crate::agent::{Agent, Context};
use crate::packet::{Packet, Payload};
use engine::packet::Ecn;
use engine::random::Seed;
use engine::units::{Bytes, Duration, Instant};
use measure::delay::Delays;
use std::collections::VecDeque;

/// Ethernet's, IPv4's and UDP's headers.
const HEADERS: u64 = 14 + 20 + 8;
const ETHERNET: u64 = 14;

/// Ethernet's least frame, without FCS.
const LEAST: u64 = 60;

/// What is asked and answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exchange {
    /// The data of a request, which is one datagram.
    pub request: Bytes,
    /// The data of an answer, in as many datagrams as it takes.
    pub answer: Bytes,
    /// The longest IP packet.
    pub mtu: Bytes,
    /// How long the server takes.
    pub after: Duration,
    /// From an answer to the next request.
    pub think: Spell,
    /// How long the client waits for an answer.
    pub patience: Duration,
    /// The ECN field of all packets.
    pub ecn: Ecn,
    /// When the client asks; answers come when they come.
    pub active: Active,
}

impl Default for Exchange {
    /// A small request, a small answer at once, and the next request at once: "ping-pong".
    fn default() -> Self {
        Self {
            request: Bytes::new(64),
            answer: Bytes::new(64),
            mtu: Bytes::new(1500),
            after: Duration::ZERO,
            think: Spell::Fixed(Duration::ZERO),
            patience: Duration::from_secs(1),
            ecn: Ecn::NotEct,
            active: Active::default(),
        }
    }
}

impl Exchange {
    /// The client, which calls, and the server.
    pub fn pair(&self, seed: Seed) -> [Box<dyn Agent>; 2] {
        [Box::new(Client::new(self, seed)), Box::new(Server::new(self))]
    }

    /// The data of a full datagram.
    fn full(&self) -> u64 {
        (self.mtu.get() + ETHERNET).saturating_sub(HEADERS).max(1)
    }

    /// How many datagrams an answer has.
    fn datagrams(&self) -> u64 {
        self.answer.get().div_ceil(self.full()).max(1)
    }

    fn packet(&self, number: u64, data: u64) -> Packet {
        let frame = Bytes::new((data + HEADERS).max(LEAST));
        let mut packet = Packet::new(frame, Payload::Datagram(number));
        packet.ecn = self.ecn;
        packet
    }
}

/// Asks.
#[derive(Clone, Debug)]
pub struct Client {
    exchange: Exchange,
    think: Spells,
    /// From a request to the last bit of its answer.
    pub times: Delays,
    /// Requests that were sent.
    pub requests: u64,
    /// Requests for whose answer the client did not wait any longer.
    pub unanswered: u64,
    /// When the last request was sent, and how many datagrams of its answer are missing, while it is waited for.
    waiting: Option<(Instant, u64)>,
}

impl Client {
    fn new(exchange: &Exchange, seed: Seed) -> Self {
        Self {
            exchange: exchange.clone(),
            think: Spells::new(exchange.think, seed.fork("think")),
            times: Delays::default(),
            requests: 0,
            unanswered: 0,
            waiting: None,
        }
    }

    /// How many requests were answered.
    pub fn answered(&self) -> u64 {
        self.times.count()
    }
}

impl Agent for Client {
    fn wake(&mut self, cx: &mut Context<'_>) {
        self.unanswered += u64::from(self.waiting.take().is_some());
        match self.exchange.active.resumes(cx.now()) {
            Some(begin) if begin > cx.now() => cx.wake_at(begin),
            Some(now) => {
                self.requests += 1;
                let data = self.exchange.request.get();
                cx.send(self.exchange.packet(self.requests, data));
                self.waiting = Some((now, self.exchange.datagrams()));
                // Without patience nothing would ever be answered, and time would stand still.
                cx.wake_at(now + self.exchange.patience.max(Duration::from_nanos(1)));
            }
            None => {}
        }
    }

    fn receive(&mut self, cx: &mut Context<'_>, packet: &Packet) {
        cx.deliver(packet.frame);
        if packet.payload != Payload::Datagram(self.requests) {
            return;
        }
        if let Some((since, missing)) = &mut self.waiting {
            *missing -= 1;
            if *missing == 0 {
                self.times.record(cx.now().since(*since));
                self.waiting = None;
                cx.wake_at(cx.now() + self.think.draw());
            }
        }
    }
}

/// Answers.
#[derive(Clone, Debug)]
pub struct Server {
    exchange: Exchange,
    /// When each answer is ready, and its number.
    ready: VecDeque<(Instant, u64)>,
}

impl Server {
    fn new(exchange: &Exchange) -> Self {
        Self {
            exchange: exchange.clone(),
            ready: VecDeque::new(),
        }
    }
}

impl Agent for Server {
    fn wake(&mut self, cx: &mut Context<'_>) {
        while let Some(&(at, number)) = self.ready.front() {
            if at > cx.now() {
                cx.wake_at(at);
                return;
            }
            self.ready.pop_front();
            let mut left = self.exchange.answer.get();
            for _ in 0..self.exchange.datagrams() {
                let data = left.min(self.exchange.full());
                left -= data;
                cx.send(self.exchange.packet(number, data));
            }
        }
    }

    fn receive(&mut self, cx: &mut Context<'_>, packet: &Packet) {
        cx.deliver(packet.frame);
        if let Payload::Datagram(number) = packet.payload {
            self.ready.push_back((cx.now() + self.exchange.after, number));
            self.wake(cx);
        }
    }
}
