//! A discipline outside Suimon's tree, as a whole program: `shortest` sends the shortest packet
//! first.
//!
//! The program has every verb of `suimon`, and policies may name `shortest` wherever they may name
//! a discipline: in [a policy](my_discipline/policy.toml), in [a
//! scenario](my_discipline/scenario.toml).
//!
//! ```sh
//! cargo run --example my_discipline -- kinds shortest
//! cargo run --example my_discipline -- check examples/my_discipline/policy.toml
//! cargo run --example my_discipline -- sim examples/my_discipline/scenario.toml
//! cargo run --example my_discipline -- run examples/my_discipline/policy.toml     # as root
//! ```
//!
//! To write your own, copy this file into a package that depends on `engine` and `suimon`. The
//! contract is documented at `engine::discipline::Discipline`. You write no counters, no peek and
//! no timers.
//!
//! Shortest first gives the least mean queueing delay of all orders (Schrage and Miller, "The queue
//! M/G/1 with the shortest remaining processing time discipline", 1966), and starves long packets
//! while short ones keep the link busy: an example, not advice.

#![forbid(unsafe_code)]

use engine::discipline::{Build, Discipline, Next, Plan, Reason, Sink, Verdict};
use engine::inspect::{Inspection, Value};
use engine::kind::{Check, Children, Kind, Properties};
use engine::packet::Packet;
use engine::portion::Portion;
use engine::settings;
use engine::settings::Problem;
use engine::tree::Registry;
use engine::units::{Bytes, Instant};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    suimon::main(Registry::builtin().with(&KIND))
}

/// The registration: what `kinds`, `check` and every error message know of it.
static KIND: Kind = Kind {
    name: "shortest",
    summary: "The shortest packet first; equal ones in the order of arrival",
    reference: "Schrage and Miller, 1966",
    children: Children::None,
    settings: Settings::SETTINGS,
    class_settings: &[],
    properties: Properties::NONE,
    check,
};

settings! {
    /// Settings of `shortest`, declared once: reader, check, help and documentation follow.
    struct Settings {
        /// Packets queued at most; the longest is dropped
        limit: u32 = default "1000",
            "too small: bursts are dropped; too large: long packets are queued for long",
            "an example";
    }
}

/// Text to plan: every mistake is reported here, with its place in the policy.
fn check(check: &mut Check<'_>) -> Option<Arc<dyn Plan>> {
    let settings = Settings::read(check.settings, &[], check.problems)?;
    if settings.limit == 0 {
        let at = check
            .settings
            .get("limit")
            .map_or(check.settings.at, |entry| entry.at);
        check
            .problems
            .push(Problem::new(at, "`limit` must be at least 1"));
        return None;
    }
    Some(Arc::new(settings))
}

impl Plan for Settings {
    fn build(&self, _cx: &Build) -> Box<dyn Discipline> {
        Box::new(Shortest {
            queued: BTreeMap::new(),
            arrivals: 0,
            limit: self.limit as usize,
        })
    }
}

/// The backlog in the order in which it leaves: by length, then by arrival.
#[derive(Debug)]
struct Shortest {
    queued: BTreeMap<(Bytes, u64), Packet>,
    arrivals: u64,
    limit: usize,
}

impl Discipline for Shortest {
    fn enqueue(&mut self, _now: Instant, packet: Packet, sink: &mut dyn Sink) -> Verdict {
        let longest = self.queued.last_key_value().map(|((len, _), _)| *len);
        if self.queued.len() >= self.limit {
            if longest.is_none_or(|longest| longest <= packet.len) {
                sink.drop(packet, Reason::Full);
                return Verdict::Dropped(Reason::Full);
            }
            if let Some((_, longest)) = self.queued.pop_last() {
                sink.drop(longest, Reason::Longest);
            }
        }
        self.arrivals += 1;
        self.queued.insert((packet.len, self.arrivals), packet);
        Verdict::Queued
    }

    fn dequeue(&mut self, _now: Instant, _sink: &mut dyn Sink) -> Next<Packet> {
        let first = self.queued.pop_first();
        first.map_or(Next::Empty, |(_, packet)| Next::Ready(packet))
    }

    fn flush(&mut self, portion: &mut Portion, sink: &mut dyn Sink) {
        portion.flush(sink, || self.queued.pop_first().map(|(_, packet)| packet));
    }

    /// Shown by `status`, `top` and the metrics.
    fn inspect(&self, out: &mut Inspection<'_>) {
        out.gauge("limit", Value::Count(self.limit as u64));
    }
}
