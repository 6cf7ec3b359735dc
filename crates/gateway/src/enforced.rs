//! Whether what runs is enforced, looked at again and again: a shaper that has lost its effect in
//! silence is worse than none.
//!
//! The packet loop knows of its own ports. What it cannot see is compared with what it was when the
//! program began: whether the interfaces are there, up and connected, the bridge that forwards when
//! the program fails, qdiscs behind it, and offloads. Of a loop that was held up, the gates count
//! the lapses; workers add theirs, so all managed interfaces are told of it.

use crate::passing_by::{Look, PassingBy};
use control::port_config::PortConfig;
use engine::port_kind::{Attachment, device};
use engine::queue::Count;
use engine::units::Bytes;
use netio::interface::Interface;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// An interface as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Standing {
    pub(crate) up: bool,
    pub(crate) carrier: bool,
    pub(crate) master: Option<Master>,
    pub(crate) qdisc: Option<String>,
    pub(crate) offloads: Vec<(&'static str, bool)>,
    pub(crate) sent: Option<Count>,
}

/// The bridge that an interface is in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Master {
    pub(crate) name: String,
    pub(crate) up: bool,
}

impl Standing {
    fn of(name: &str) -> Option<Self> {
        let found = Interface::named(name).ok()?;
        let master = found.master.and_then(|index| Interface::numbered(index).ok());
        Some(Self {
            up: found.up,
            carrier: found.carrier,
            master: master.map(|Interface { name, up, .. }| Master { name, up }),
            qdisc: netio::fail_closed::root_kind(found.index).ok().flatten(),
            offloads: found.offloads().unwrap_or_default(),
            sent: found.sent.zip(found.sent_bytes).map(|(packets, bytes)| Count {
                packets,
                bytes: Bytes::new(bytes),
            }),
        })
    }

    /// Why a policy on this interface, which was so, is not enforced.
    fn lost(&self, name: &str, now: Option<&Self>) -> Option<String> {
        let Some(now) = now else {
            return Some(format!("{name} is gone, or has another name"));
        };
        if !now.up {
            return Some(format!("{name} is down"));
        }
        if self.carrier && !now.carrier {
            return Some(format!(
                "{name} has no carrier: its cable is out, or its other end is down"
            ));
        }
        if let Some(why) = self.bridge_lost(name, now) {
            return Some(why);
        }
        if self.qdisc != now.qdisc {
            let kind = |qdisc: &Option<String>| qdisc.clone().unwrap_or_else(|| "none".into());
            return Some(format!(
                "the qdisc of {name} is {}, and was {}",
                kind(&now.qdisc),
                kind(&self.qdisc)
            ));
        }
        let mut offloads = now
            .offloads
            .iter()
            .filter(|offload| !self.offloads.contains(offload));
        let (offload, on) = offloads.next()?;
        let state = if *on { "on" } else { "off" };
        Some(format!("the offload `{offload}` of {name} was switched {state}"))
    }

    /// Why the bridge, if it was in one, forwards no more when the program fails.
    fn bridge_lost(&self, name: &str, now: &Self) -> Option<String> {
        let before = self.master.as_ref()?;
        let why = "which forwards when suimon fails";
        match now.master.as_ref().filter(|now| now.name == before.name) {
            None => Some(format!("{name} is no longer in {}, {why}", before.name)),
            Some(now) if before.up && !now.up => Some(format!("{}, {why}, is down", before.name)),
            Some(_) => None,
        }
    }
}

/// For so many looks a hold-up is told: a second.
const TOLD: u8 = 2;

/// How often the kernel took over, and for how many looks that is still to be told.
#[derive(Clone, Copy, Debug, Default)]
struct HeldUp {
    lapses: u64,
    looks: u8,
}

impl HeldUp {
    /// Looks again; the reason, if it was held up a moment ago.
    fn look(&mut self, lapses: u64) -> Option<&'static str> {
        self.looks = match lapses > self.lapses {
            true => TOLD,
            false => self.looks.saturating_sub(1),
        };
        self.lapses = lapses;
        let why = "suimon was held up, and the kernel took over meanwhile";
        (self.looks > 0).then_some(why)
    }
}

type LookAt = dyn Fn(&str) -> Option<Standing> + Send + Sync;

/// How an interface of this name is looked at.
pub(crate) struct Looker(Box<LookAt>);

impl Looker {
    /// By this.
    #[cfg(test)]
    pub(crate) fn by(look: impl Fn(&str) -> Option<Standing> + Send + Sync + 'static) -> Self {
        Self(Box::new(look))
    }
}

impl Default for Looker {
    /// As the kernel has it.
    fn default() -> Self {
        Self(Box::new(Standing::of))
    }
}

impl fmt::Debug for Looker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Looker")
    }
}

/// What is watched of the managed interfaces.
#[derive(Debug, Default)]
pub struct Enforcement {
    looker: Looker,
    /// The interfaces as they were.
    before: BTreeMap<String, Standing>,
    /// Of each managed interface, by which interfaces its packets pass.
    passing: Vec<(String, Vec<String>)>,
    /// The managed interfaces whose own counters say what they send.
    counting: Vec<String>,
    /// What passes by the engine at each of these.
    passing_by: Mutex<BTreeMap<String, PassingBy>>,
    /// How many frames an interface may have taken and not sent.
    under_way: u64,
    /// Whether the loop was held up.
    held_up: Mutex<HeldUp>,
    /// Why a managed interface's policy is not enforced.
    reasons: Mutex<BTreeMap<String, String>>,
}

impl Enforcement {
    /// Of these interfaces, as they are now.
    pub fn new<'a>(config: &PortConfig, managed: impl IntoIterator<Item = &'a str>) -> Self {
        Self::looking(Looker::default(), config, managed)
    }

    /// The same, looked at so.
    pub(crate) fn looking<'a>(
        looker: Looker,
        config: &PortConfig,
        managed: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let passing = |name: &str| match config.of_interface(name).map(|port| &port.attachment) {
            Some(Attachment::Between(a, b)) => vec![a.clone(), b.clone()],
            _ => vec![device(name).to_owned()],
        };
        let managed: Vec<&str> = managed.into_iter().collect();
        let has_wire = |name: &str| config.of_interface(name).is_some_and(|port| port.has_wire());
        let counting = managed.iter().filter(|name| has_wire(name));
        let counting = counting.map(|name| (*name).to_owned()).collect();
        let managed = managed.into_iter();
        let passing: Vec<_> = managed.map(|name| (name.to_owned(), passing(name))).collect();
        let names = passing.iter().flat_map(|(_, names)| names);
        // Files have no interface.
        let before = names.filter_map(|name| Some((name.clone(), looker.0(name)?)));
        Self {
            before: before.collect(),
            looker,
            passing,
            counting,
            passing_by: Mutex::default(),
            under_way: config.settings.transmit_ring.into(),
            held_up: Mutex::default(),
            reasons: Mutex::default(),
        }
    }

    /// Looks again; `handed_over` says what the engine has handed over to a managed interface since
    /// its start, as the interface counts, and `again` asks it once more; `lapses` how often the
    /// kernel took over meanwhile, since the loop was held up. What has changed since the last
    /// look is logged.
    pub fn look(
        &self,
        handed_over: impl Fn(&str) -> Option<Count>,
        again: impl Fn(&str) -> Option<Count>,
        lapses: u64,
    ) {
        let mut held_up = self.held_up.lock().unwrap_or_else(PoisonError::into_inner);
        let held_up = held_up.look(lapses).map(str::to_owned);
        let now = self.before.keys().map(|name| (name, self.looker.0(name)));
        let now: BTreeMap<&String, Option<Standing>> = now.collect();
        let lost = |(name, before): (&String, &Standing)| {
            let lost = before.lost(name, now.get(name)?.as_ref());
            lost.map(|why| (name.clone(), why))
        };
        let mut lost: BTreeMap<String, String> = self.before.iter().filter_map(lost).collect();
        for managed in &self.counting {
            let sent = now.get(managed).and_then(|now| now.as_ref()?.sent);
            let by = sent.zip(handed_over(managed));
            let by = by.and_then(|(interface, engine)| {
                let look = Look { interface, engine };
                self.passes_by(managed, look, || again(managed))
            });
            if let Some(why) = by {
                lost.entry(managed.clone()).or_insert(why);
            }
        }
        let mut reasons = self.reasons.lock().unwrap_or_else(PoisonError::into_inner);
        for (managed, names) in &self.passing {
            let lost = names.iter().find_map(|name| lost.get(name));
            let why = lost.or(held_up.as_ref());
            match (why, reasons.get(managed)) {
                (Some(why), known) => {
                    if !known.is_some_and(|known| is_same(known, why)) {
                        tracing::warn!(interface = managed, "{managed}: not enforced: {why}");
                    }
                    reasons.insert(managed.clone(), why.clone());
                }
                (None, Some(_)) => {
                    tracing::info!(interface = managed, "{managed}: enforced again");
                    reasons.remove(managed);
                }
                (None, None) => {}
            }
        }
    }

    /// Too much passes by the engine, in words.
    fn passes_by(&self, managed: &str, look: Look, again: impl FnOnce() -> Option<Count>) -> Option<String> {
        let mut all = self.passing_by.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = all
            .entry(managed.to_owned())
            .or_default()
            .look(look, self.under_way, again)?;
        let share = passed.bytes.get() as f64 / passed.of.get().max(1) as f64;
        let percent = (share * 100.0).round();
        Some(format!(
            "{percent} % of what {managed} sends passes by suimon: by a second route, a flow table or an offload"
        ))
    }

    /// Why the policy of this interface is not enforced, as far as was seen at the last look.
    pub fn reason(&self, interface: &str) -> Option<String> {
        let reasons = self.reasons.lock().unwrap_or_else(PoisonError::into_inner);
        reasons.get(interface).cloned()
    }
}

/// Whether it is the same fault: figures change from look to look.
fn is_same(known: &str, why: &str) -> bool {
    let words = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "");
    words(known) == words(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_a_policy_idle_is_named_and_what_does_not_is_passed_over() {
        let before = Standing {
            up: true,
            carrier: true,
            master: Some(Master {
                name: "br0".into(),
                up: true,
            }),
            qdisc: Some("noqueue".into()),
            offloads: vec![("tso", true), ("gro", false)],
            sent: None,
        };
        let now = |change: fn(&mut Standing)| {
            let mut now = before.clone();
            change(&mut now);
            before.lost("wan0", Some(&now))
        };
        assert_eq!(now(|_| {}), None);
        assert!(before.lost("wan0", None).is_some_and(|why| why.contains("gone")));
        type Change = fn(&mut Standing);
        let cases: [(Change, &str); 7] = [
            (|now| now.up = false, "wan0 is down"),
            (|now| now.carrier = false, "wan0 has no carrier"),
            (|now| now.master = None, "no longer in br0"),
            (
                |now| {
                    now.master
                        .iter_mut()
                        .for_each(|bridge| bridge.name = "br1".into())
                },
                "no longer in br0",
            ),
            (
                |now| now.master.iter_mut().for_each(|bridge| bridge.up = false),
                "br0, which forwards when suimon fails, is down",
            ),
            (
                |now| now.qdisc = Some("tbf".into()),
                "the qdisc of wan0 is tbf, and was noqueue",
            ),
            (
                |now| now.offloads[1].1 = true,
                "the offload `gro` of wan0 was switched on",
            ),
        ];
        for (change, why) in cases {
            let found = now(change).expect("a reason");
            assert!(found.contains(why), "{found}");
        }
        // Whoever builds the bridge or plugs in the cable after the start loses nothing.
        let bare = Standing {
            master: None,
            carrier: false,
            ..before.clone()
        };
        assert_eq!(bare.lost("wan0", Some(&before)), None);
        assert_eq!(bare.lost("wan0", Some(&bare)), None);
    }

    #[test]
    fn a_hold_up_is_told_for_a_second_and_each_anew() {
        let mut held_up = HeldUp::default();
        let mut told = |lapses: &[u64]| -> Vec<bool> {
            lapses
                .iter()
                .map(|lapses| held_up.look(*lapses).is_some())
                .collect()
        };
        assert_eq!(told(&[0, 0, 1, 1, 1]), [false, false, true, true, false]);
        assert_eq!(told(&[2, 5, 5, 5, 5]), [true, true, true, false, false]);
    }
}
