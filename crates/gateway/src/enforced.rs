//! Whether what runs is enforced, looked at again and again: a shaper that has lost its effect in
//! silence is worse than none.
//!
//! The packet loop knows of its own ports. What it cannot see is compared with what it was when the
//! program began: whether the interfaces are there and up, the bridge that forwards when the
//! program fails, qdiscs behind it, and offloads.

use control::port_config::PortConfig;
use engine::port_kind::{Attachment, device};
use netio::interface::Interface;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// An interface as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Standing {
    up: bool,
    master: Option<String>,
    qdisc: Option<String>,
    offloads: Vec<(&'static str, bool)>,
}

impl Standing {
    fn of(name: &str) -> Option<Self> {
        let found = Interface::named(name).ok()?;
        let master = found.master.and_then(|index| Interface::numbered(index).ok());
        Some(Self {
            up: found.up,
            master: master.map(|master| master.name),
            qdisc: netio::fail_closed::root_kind(found.index).ok().flatten(),
            offloads: found.offloads().unwrap_or_default(),
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
        if let (Some(before), true) = (&self.master, self.master != now.master) {
            return Some(format!(
                "{name} is no longer in {before}, which forwards when suimon fails"
            ));
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
}

/// What is watched of the managed interfaces.
#[derive(Debug, Default)]
pub struct Enforcement {
    /// The interfaces as they were.
    before: BTreeMap<String, Standing>,
    /// Of each managed interface, by which interfaces its packets pass.
    passing: Vec<(String, Vec<String>)>,
    /// Why a managed interface's policy is not enforced.
    reasons: Mutex<BTreeMap<String, String>>,
}

impl Enforcement {
    /// Of these interfaces, as they are now.
    pub fn new<'a>(config: &PortConfig, managed: impl IntoIterator<Item = &'a str>) -> Self {
        let passing = |name: &str| match config.of_interface(name).map(|port| &port.attachment) {
            Some(Attachment::Between(a, b)) => vec![a.clone(), b.clone()],
            _ => vec![device(name).to_owned()],
        };
        let managed = managed.into_iter();
        let passing: Vec<_> = managed.map(|name| (name.to_owned(), passing(name))).collect();
        let names = passing.iter().flat_map(|(_, names)| names);
        // Files have no interface.
        let before = names.filter_map(|name| Some((name.clone(), Standing::of(name)?)));
        Self {
            before: before.collect(),
            passing,
            reasons: Mutex::default(),
        }
    }

    /// Looks again. What has changed since the last look, in words.
    pub fn look(&self) -> Vec<String> {
        let lost = |(name, before): (&String, &Standing)| {
            let lost = before.lost(name, Standing::of(name).as_ref());
            lost.map(|why| (name.clone(), why))
        };
        let lost: BTreeMap<String, String> = self.before.iter().filter_map(lost).collect();
        let mut reasons = self.reasons.lock().unwrap_or_else(PoisonError::into_inner);
        let mut news = Vec::new();
        for (managed, names) in &self.passing {
            let why = names.iter().find_map(|name| lost.get(name));
            match (why, reasons.get(managed)) {
                (Some(why), known) if known != Some(why) => {
                    news.push(format!("{managed}: not enforced: {why}"));
                    reasons.insert(managed.clone(), why.clone());
                }
                (None, Some(_)) => {
                    news.push(format!("{managed}: enforced again"));
                    reasons.remove(managed);
                }
                _ => {}
            }
        }
        news
    }

    /// Why the policy of this interface is not enforced, as far as was seen at the last look.
    pub fn reason(&self, interface: &str) -> Option<String> {
        let reasons = self.reasons.lock().unwrap_or_else(PoisonError::into_inner);
        reasons.get(interface).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_a_policy_idle_is_named_and_what_does_not_is_passed_over() {
        let before = Standing {
            up: true,
            master: Some("br0".into()),
            qdisc: Some("noqueue".into()),
            offloads: vec![("tso", true), ("gro", false)],
        };
        let now = |change: fn(&mut Standing)| {
            let mut now = before.clone();
            change(&mut now);
            before.lost("wan0", Some(&now))
        };
        assert_eq!(now(|_| {}), None);
        assert!(before.lost("wan0", None).is_some_and(|why| why.contains("gone")));
        type Change = fn(&mut Standing);
        let cases: [(Change, &str); 4] = [
            (|now| now.up = false, "wan0 is down"),
            (|now| now.master = None, "no longer in br0"),
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
        // Whoever builds the bridge after the start loses nothing.
        let bare = Standing {
            master: None,
            ..before.clone()
        };
        assert_eq!(bare.lost("wan0", Some(&before)), None);
    }
}
