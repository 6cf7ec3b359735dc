//! What if a class had another rate, or an interface another bandwidth: the policy in force with
//! and without that change, [simulated](crate::simulated) under the traffic of now.
//!
//! Nothing live is changed, and nothing could be: the running program is asked for the text of its
//! policy, and twice for its counters. All work is bounded: one simulation at a time, so many
//! classes, so many packets, so much time.

use crate::simulated::{self, FLOWS, Offered, ROUND_TRIP};
use control::policy::{InterfacePolicy, Policy};
use control::policy_text;
use control::protocol::{Amendment, Refusal, Reply, Request, SettingChange, SettingChanges};
use control::snapshot::{Snapshot, StatusDetail, Traffic};
use control::socket::Client;
use control::what_if::Figures;
use engine::framing::Framing;
use engine::tree::Registry;
use engine::units::{Bandwidth, Bytes, Duration as Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::{Mutex, TryLockError};
use std::time::{Duration, Instant};

/// Classes of a policy at most.
const CLASSES: usize = 5_000;

/// Classes with traffic at most.
const BUSY: usize = 1_000;

/// Between two readings of the counters.
const MEASURED: Duration = Duration::from_secs(1);

/// How long both simulations may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// What is to be tried.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WhatIfRequest {
    /// The interface.
    interface: String,
    /// The class; none for the interface itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    class: Option<String>,
    /// The setting: `rate` of a class, `bandwidth` of an interface, or another.
    setting: String,
    /// Its value, as a policy has it.
    value: SettingChange,
}

/// What came of it.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[schemars(rename = "WhatIf")]
pub(crate) struct WhatIfReport {
    /// How long was simulated, after two seconds that do not count.
    simulated_ns: u64,
    /// The round trip of greedy classes without the queue.
    round_trip_ns: u64,
    /// So many connections, or flows of datagrams, each class was taken for.
    flows: u8,
    /// Each class with traffic.
    classes: Vec<WhatIfClass>,
}

/// A class with traffic.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
struct WhatIfClass {
    /// Its name; that of the interface where there are no classes.
    class: String,
    /// What was offered to it while it was measured.
    offered_bps: u64,
    /// Whether it lost, marked or kept packets waiting: it is taken for TCP connections that take
    /// what they are given. Otherwise it is taken for datagrams at the measured rate.
    greedy: bool,
    /// What it gets in the simulator as things are.
    now: Figures,
    /// What it would get.
    then: Figures,
}

/// Why there is no report.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// Another is being simulated.
    Busy,
    /// It cannot be tried.
    Refused(String),
    /// The running program does not say what is needed.
    Gone(Refusal),
}

impl From<Refusal> for Unanswered {
    fn from(why: Refusal) -> Self {
        Self::Gone(why)
    }
}

fn refused<T>(why: impl Into<String>) -> Result<T, Unanswered> {
    Err(Unanswered::Refused(why.into()))
}

/// Simulates one change at a time.
#[derive(Debug)]
pub(crate) struct WhatIf {
    registry: Registry,
    alone: Mutex<()>,
}

impl WhatIf {
    /// For policies that name these kinds.
    pub(crate) fn new(registry: Registry) -> Self {
        Self {
            registry,
            alone: Mutex::new(()),
        }
    }

    /// What would come of a change of the program at this socket, or the only one.
    pub(crate) fn answer(
        &self,
        socket: Option<&str>,
        wanted: &WhatIfRequest,
    ) -> Result<WhatIfReport, Unanswered> {
        let _alone = match self.alone.try_lock() {
            Ok(alone) => alone,
            Err(TryLockError::Poisoned(alone)) => alone.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(Unanswered::Busy),
        };
        let mut client = Client::connect(socket)?;
        let text = match client.ask(&Request::Policy {})? {
            Reply::Policy { text } => text,
            Reply::Refused(why) => return Err(why.into()),
            _ => return Err(Refusal::new("an answer that is no policy").into()),
        };
        let [now, then] = self.both(&text, wanted)?;
        let offered = measured(&mut client, &now)?;
        report(&now, &then, &offered)
    }

    /// The policy of the interface in force, and as it would be.
    fn both(&self, text: &str, wanted: &WhatIfRequest) -> Result<[InterfacePolicy; 2], Unanswered> {
        let changes = Amendment::Set(SettingChanges {
            interface: wanted.interface.clone(),
            class: wanted.class.clone(),
            changes: [(wanted.setting.clone(), wanted.value.clone())].into(),
            until_ms: None,
            reason: None,
        });
        let now = self.read(text, &wanted.interface)?;
        if now.plan.classes.len() > CLASSES {
            return refused(format!("policies of up to {CLASSES} classes are simulated here"));
        }
        let changed = policy_text::with(text, [&changes]).map_err(Unanswered::Refused)?;
        Ok([now, self.read(&changed, &wanted.interface)?])
    }

    fn read(&self, text: &str, interface: &str) -> Result<InterfacePolicy, Unanswered> {
        let read = Policy::read("the policy", text, &self.registry, &[]);
        let policy = read.map_err(|mistakes| {
            let places = mistakes.places();
            let words = places.iter().take(3).map(|place| match place.help {
                Some(help) => format!("{}; {help}", place.message),
                None => place.message.to_owned(),
            });
            Unanswered::Refused(words.collect::<Vec<_>>().join("\n"))
        })?;
        let found = policy.interfaces.into_iter().find(|of| of.name == interface);
        found.ok_or_else(|| Unanswered::Refused(format!("{interface} is not managed")))
    }
}

/// Both simulated, and set beside each other.
fn report(
    now: &InterfacePolicy,
    then: &InterfacePolicy,
    offered: &[Offered],
) -> Result<WhatIfReport, Unanswered> {
    let fastest = now.link().bandwidth.max(then.link().bandwidth);
    let Some(span) = simulated::span(fastest, offered) else {
        return refused(
            "so many packets a second are not simulated here; `suimon shadow` tries a policy beside the one in force",
        );
    };
    let end = Instant::now() + PATIENCE;
    let both = [now, then].map(|policy| simulated::simulate(policy, offered, span, &|| Instant::now() > end));
    let [Some(now_gets), Some(then_gets)] = both else {
        return refused(format!("it took longer than {} s", PATIENCE.as_secs()));
    };
    let classes = offered.iter().zip(now_gets.into_iter().zip(then_gets));
    let classes = classes.filter_map(|(of, (now_gets, then_gets))| {
        Some(WhatIfClass {
            class: of.class.clone().unwrap_or_else(|| now.name.clone()),
            offered_bps: of.rate.bits(),
            greedy: of.greedy,
            now: now_gets?,
            then: then_gets?,
        })
    });
    Ok(WhatIfReport {
        simulated_ns: span.1.nanos(),
        round_trip_ns: ROUND_TRIP.nanos(),
        flows: FLOWS,
        classes: classes.collect(),
    })
}

/// What is offered to each class at present.
fn measured(client: &mut Client, policy: &InterfacePolicy) -> Result<Vec<Offered>, Unanswered> {
    let mut read = || client.status_with(Duration::ZERO, false, StatusDetail::Brief);
    let earlier = read()?;
    std::thread::sleep(MEASURED);
    let later = read()?;
    let offered = offered([&earlier, &later], policy);
    match offered.len() {
        0 => refused("there is no traffic now, so nothing can be said"),
        1..=BUSY => Ok(offered),
        _ => refused(format!("up to {BUSY} classes with traffic are simulated here")),
    }
}

/// What was offered to the leaf classes of a policy between two readings; of its whole where it has
/// no classes.
fn offered<'a>([earlier, later]: [&'a Snapshot; 2], policy: &InterfacePolicy) -> Vec<Offered> {
    let span = Span::from_nanos(later.at_ns.saturating_sub(earlier.at_ns));
    let of = |snapshot: &'a Snapshot| snapshot.interfaces.iter().find(|of| of.name == policy.name);
    let Some((earlier, later)) = of(earlier).zip(of(later)) else {
        return Vec::new();
    };
    let framing = policy.link().framing;
    if policy.plan.classes.is_empty() {
        let all = arrived(&earlier.traffic, &later.traffic, span, framing);
        return all.into_iter().collect();
    }
    let named = earlier
        .classes
        .iter()
        .map(|class| (class.name.as_str(), &class.traffic));
    let before: HashMap<&str, &Traffic> = named.collect();
    let leaves = later.classes.iter().filter(|class| class.leaf);
    let known = leaves.filter(|class| policy.plan.class(&class.name).is_some());
    let each = known.filter_map(|class| {
        let before = before.get(class.name.as_str())?;
        let offered = arrived(before, &class.traffic, span, framing)?;
        Some(Offered {
            class: Some(class.name.clone()),
            ..offered
        })
    });
    each.collect()
}

/// What arrived between two readings; nothing if nothing did.
fn arrived(earlier: &Traffic, later: &Traffic, span: Span, framing: Framing) -> Option<Offered> {
    // What was sent or dropped, and what more waits than did.
    let bytes = |of: &Traffic| of.sent_bytes + of.dropped_bytes + of.backlog_bytes;
    let packets = |of: &Traffic| of.sent_packets + of.dropped_packets + of.backlog_packets;
    let bytes = bytes(later).saturating_sub(bytes(earlier));
    let packets = packets(later).saturating_sub(packets(earlier));
    if packets == 0 || bytes == 0 {
        return None;
    }
    let signals = |of: &Traffic| of.dropped_packets + of.marked_packets;
    let waits = |of: &Traffic| of.backlog_packets > 1;
    Some(Offered {
        class: None,
        rate: Bandwidth::of(Bytes::new(bytes), span),
        frame: framing.longest_within(Bytes::new(bytes / packets)),
        greedy: signals(later) > signals(earlier) || waits(earlier) && waits(later),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets of 500 B sent, dropped and waiting.
    fn traffic(sent: u64, dropped: u64, waiting: u64) -> Traffic {
        let mut traffic = Traffic::default();
        (traffic.sent_packets, traffic.sent_bytes) = (sent, 500 * sent);
        (traffic.dropped_packets, traffic.dropped_bytes) = (dropped, 500 * dropped);
        (traffic.backlog_packets, traffic.backlog_bytes) = (waiting, 500 * waiting);
        traffic
    }

    fn found(earlier: &Traffic, later: &Traffic) -> Option<(u64, u64, bool)> {
        let framing = Framing::add(20);
        let of = arrived(earlier, later, Span::from_millis(500), framing)?;
        Some((of.rate.bits(), of.frame.get(), of.greedy))
    }

    #[test]
    fn what_arrived_is_what_was_sent_dropped_or_waits_since() {
        let kbit = |packets: u64| packets * 500 * 8 * 2;
        let earlier = traffic(100, 10, 0);
        assert_eq!(
            found(&earlier, &traffic(150, 10, 1)),
            Some((kbit(51), 480, false))
        );
        assert_eq!(
            found(&earlier, &traffic(150, 11, 0)),
            Some((kbit(51), 480, true)),
            "it lost one"
        );
        let mut marked = traffic(150, 10, 0);
        marked.marked_packets = 1;
        assert_eq!(found(&earlier, &marked), Some((kbit(50), 480, true)));
        // One that waits at a moment tells nothing; several at both do.
        let waits = |count| traffic(100, 10, count);
        assert_eq!(
            found(&waits(1), &traffic(150, 10, 9)),
            Some((kbit(58), 480, false))
        );
        assert_eq!(
            found(&waits(9), &traffic(150, 10, 4)),
            Some((kbit(45), 480, true))
        );
        // Nothing came, or another program counts from the start again.
        assert_eq!(found(&earlier, &earlier), None);
        assert_eq!(found(&earlier, &traffic(5, 0, 0)), None);
    }
}
