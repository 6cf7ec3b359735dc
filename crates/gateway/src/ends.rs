//! What will be in force after each of the ends to come, of what was set, added or removed for a
//! time.
//!
//! A change is refused if one of these would be wrong. They are kept beside what is in force and
//! get each change as well, class by class, so that none is read again: of very many classes they
//! share all that is alike. What cannot be told so is read as a whole.

use crate::kept::MadeOf;
use crate::vacancies;
use control::policy::InterfacePolicy;
use control::protocol::Amendment;
use engine::settings::Raw;
use engine::tree::Registry;
use std::collections::BTreeMap;

/// The policies after each end, by its time in milliseconds since 1970.
pub(crate) type After = BTreeMap<u64, Vec<InterfacePolicy>>;

/// The ends of a generation.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    /// Its number; 0 if they are not known.
    pub(crate) generation: u64,
    pub(crate) after: After,
}

/// A change of what is in force.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Changing<'a> {
    /// The change.
    pub(crate) change: &'a Amendment,
    /// The number of what is in force before, and its policies.
    pub(crate) generation: u64,
    pub(crate) policies: &'a [InterfacePolicy],
    /// What that was made of, and what the next is made of.
    pub(crate) from: &'a MadeOf,
    pub(crate) to: &'a MadeOf,
}

impl Ends {
    /// What is in force after all that ends by this time; `None` if nothing does, or it is not
    /// known of this generation.
    pub(crate) fn after(&self, generation: u64, now_ms: u64) -> Option<&[InterfacePolicy]> {
        let mut over = self.after.range(..=now_ms);
        let known = self.generation == generation;
        over.next_back()
            .filter(|_| known)
            .map(|(_, policies)| policies.as_slice())
    }

    /// What will be in force after each end once this change is made; `read` reads as a whole what
    /// is left after one.
    ///
    /// # Errors
    ///
    /// Returns the first error of `read`.
    pub(crate) fn with<E>(
        &self,
        changing: &Changing<'_>,
        registry: &Registry,
        read: impl Fn(u64) -> Result<Vec<InterfacePolicy>, E>,
    ) -> Result<After, E> {
        let Changing { change, from, to, .. } = changing;
        // Otherwise it takes the place of what would end: then that uncovers what it had covered.
        let comes_beside = from.timed() + ending(change) == to.timed();
        let former = from.ends();
        let after = |end: u64| {
            let before = match former.range(..=end).next() {
                None => Some(changing.policies),
                Some(_) => self.after(changing.generation, end),
            };
            let is_over = change.until_ms().is_some_and(|until| until <= end);
            let known = before.filter(|_| comes_beside).and_then(|before| match is_over {
                true => Some(before.to_vec()),
                false => changed(before, change, registry),
            });
            match known {
                Some(known) => Ok(known),
                // With places, so that the next class that comes reads nothing.
                None => Ok(read(end)?
                    .iter()
                    .map(|policy| laid_out(policy, registry))
                    .collect()),
            }
        };
        to.ends().into_iter().map(|end| Ok((end, after(end)?))).collect()
    }
}

/// A policy as it would run.
fn laid_out(policy: &InterfacePolicy, registry: &Registry) -> InterfacePolicy {
    match policy.reserve {
        Some(_) => policy.clone(),
        None => vacancies::laid_out(policy, registry),
    }
}

/// How many parts of a change end by themselves.
fn ending(change: &Amendment) -> usize {
    match change {
        change if change.until_ms().is_none() => 0,
        // Each setting is one.
        change => change.settings().map_or(1, BTreeMap::len),
    }
}

/// These policies with a change of a class; `None` if it is another change, or might be wrong.
fn changed(
    policies: &[InterfacePolicy],
    change: &Amendment,
    registry: &Registry,
) -> Option<Vec<InterfacePolicy>> {
    let at = policies
        .iter()
        .position(|policy| policy.name == change.interface())?;
    let policy = &policies[at];
    let new = match change.settings() {
        Some(settings) => {
            let raw = settings.iter().map(|(key, value)| (&**key, value.raw()));
            let raw: Vec<(&str, Raw)> = raw.collect();
            policy.with_class_settings(registry, change.class()?, &raw).ok()?
        }
        None => policy.with_class_change(registry, change)?.policy,
    };
    let mut policies = policies.to_vec();
    policies[at] = new;
    Some(policies)
}

#[cfg(test)]
mod tests;
