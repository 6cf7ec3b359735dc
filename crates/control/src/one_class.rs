//! The one class in which a policy's new text differs from the text in force: found, read and put
//! into the policy without a reading of the rest.
//!
//! Only the [tables that differ](crate::class_tables) are read, of both texts. If these say that
//! one class comes or goes with its filters, or has other settings, and the policy in force has
//! what the old ones say, the new policy is made as if somebody had asked for that change by name.
//! Whatever is not surely so, mistakes included, is left to a reading of the whole text.

use crate::class_change::ClassChanged;
use crate::class_tables::{self, Difference};
use crate::filters::{self, MOST_OF_ALL};
use crate::policy::{InterfacePolicy, PolicyReader};
use crate::sections::{self, Section};
use crate::shared_text::SharedText;
use engine::classify::Filter;
use engine::packet::ClassId;
use engine::settings::Problem;
use engine::tree::{ClassSpec, DisciplineSpec, Registry};
use std::borrow::Cow;

/// What a new text of a policy says otherwise.
#[derive(Debug)]
pub enum Otherwise {
    /// Nothing of what is in force.
    Nothing,
    /// One class.
    Class(Box<OneClass>),
}

/// A policy that differs in one class from the one in force.
#[derive(Debug)]
pub struct OneClass {
    /// The class.
    pub class: String,
    /// What comes of it.
    pub becomes: ClassBecomes,
}

/// How a class differs.
#[derive(Debug)]
pub enum ClassBecomes {
    /// It comes or goes.
    Renewed(ClassChanged),
    /// It has other settings.
    Amended(InterfacePolicy),
}

impl ClassBecomes {
    /// The filters of the class that go with it, and those that come with it.
    pub fn filters(&self, old: &InterfacePolicy) -> [Vec<Filter>; 2] {
        match self {
            Self::Renewed(changed) => [
                changed.gone_of(old).copied().collect(),
                changed.come.iter().map(|(_, filter)| *filter).collect(),
            ],
            Self::Amended(_) => Default::default(),
        }
    }

    /// The policy of its interface.
    pub fn policy(&self) -> &InterfacePolicy {
        match self {
            Self::Renewed(changed) => &changed.policy,
            Self::Amended(policy) => policy,
        }
    }
}

/// What a new text says otherwise than the one of which these policies were made. `None` if only a
/// reading of the whole can tell: that text is not [in tables](class_tables::is_in_tables), or more
/// differs.
pub fn otherwise(
    (old, new): (&SharedText, &SharedText),
    policies: &[InterfacePolicy],
    registry: &Registry,
) -> Option<Otherwise> {
    let parts = Parts::of(old, new);
    if parts.old == parts.new {
        return Some(Otherwise::Nothing);
    }
    if !old.is_in_tables() {
        return None;
    }
    let places = class_tables::differences(&parts.old, &parts.new)?;
    let first = places.first()?;
    let one_of_both = [&parts.old[first.old.clone()], &parts.new[first.new.clone()]];
    let interface = one_of_both
        .into_iter()
        .find(|text| !text.is_empty())
        .and_then(class_tables::interface_of)?;
    let policy = policies.iter().find(|policy| policy.name == interface)?;
    let reader = Reader { policy, registry };
    let mut said = Said::default();
    for place in &places {
        said.add(&reader, &parts, place)?;
    }
    let found = said.one_class(policy, registry)?;
    if let Otherwise::Class(one) = &found {
        one.becomes.policy().refuse_wrong_then(registry).ok()?;
    }
    Some(found)
}

/// The parts of two texts in which all is that differs, and what both have before and after them.
struct Parts<'a> {
    before: &'a str,
    old: Cow<'a, str>,
    new: Cow<'a, str>,
    after: &'a str,
}

impl<'a> Parts<'a> {
    /// Of the edits of one text, from the table on before those that they are in; of other texts
    /// all.
    fn of(old: &'a SharedText, new: &'a SharedText) -> Self {
        let Some(part) = old.part_apart(new) else {
            return Self {
                before: "",
                old: old.whole(),
                new: new.whole(),
                after: "",
            };
        };
        let base = old.base();
        let start = class_tables::last_before(base, class_tables::last_before(base, part.start));
        let end = class_tables::first_after(base, part.end);
        Self {
            before: &base[..start],
            old: old.between(start..end),
            new: new.between(start..end),
            after: &base[end..],
        }
    }
}

/// Reads tables of an interface.
struct Reader<'a> {
    policy: &'a InterfacePolicy,
    registry: &'a Registry,
}

/// A filter without the number of its class, and that class's name.
type Named = (String, Filter);

impl Reader<'_> {
    /// The classes and filters of a part of a text.
    fn read(&self, text: &str) -> Option<(Vec<ClassSpec>, Vec<Named>)> {
        if text.is_empty() {
            return Some(Default::default());
        }
        let name = class_tables::interface_of(text).filter(|name| *name == self.policy.name)?;
        let mut problems = Vec::new();
        let found = sections::parse(text, &mut problems, |root, problems| {
            let interface = root.section("interface", problems)?.section(name, problems)?;
            let classes = interface.sections("class", "class", problems);
            let classes: Option<Vec<_>> = classes.iter().map(|section| self.class(section)).collect();
            let filters = interface.sections("filter", "filter", problems);
            let filters: Option<Vec<_>> = (filters.iter())
                .map(|section| named_filters(section, problems))
                .collect();
            Some((classes?, filters?.concat()))
        })?;
        problems.is_empty().then_some(found)
    }

    /// A class that concerns nothing but itself.
    fn class(&self, section: &Section<'_>) -> Option<ClassSpec> {
        let kind = self.registry.find(&self.policy.spec.kind)?;
        let class = PolicyReader::new(self.registry).lone_class(section, kind)?;
        let inner = class.discipline.as_ref();
        let plain = !inner.is_some_and(DisciplineSpec::has_classes) && class.sends.is_none();
        plain.then_some(class)
    }
}

fn named_filters(section: &Section<'_>, problems: &mut Vec<Problem>) -> Option<Vec<Named>> {
    let (class, _) = section.text("class", problems)?;
    let filters = filters::read(section, ClassId(0), problems).into_iter();
    Some(filters.map(|filter| (class.to_owned(), filter)).collect())
}

/// What two texts say where they differ.
#[derive(Default)]
struct Said {
    before: Vec<ClassSpec>,
    after: Vec<ClassSpec>,
    gone: Vec<Named>,
    come: Vec<Named>,
    /// Whether a place is not after a table of the same interface: another order of the interfaces
    /// may follow from what comes or goes there.
    is_outside: bool,
}

impl Said {
    /// Adds what is said at one place. `None` if filters get another order.
    fn add(&mut self, reader: &Reader<'_>, parts: &Parts<'_>, place: &Difference) -> Option<()> {
        let (old, new) = (&*parts.old, &*parts.new);
        let interface = reader.policy.name.as_str();
        let (classes, filters) = reader.read(&old[place.old.clone()])?;
        let (new_classes, new_filters) = reader.read(&new[place.new.clone()])?;
        self.before.extend(classes);
        self.after.extend(new_classes);
        let (gone, come, rest) = differing(&filters, &new_filters);
        if !come.is_empty() {
            let has_filter = |text: &str| class_tables::has_table(text, interface, "filter");
            let is_last =
                rest.is_empty() && ![&new[place.new.end..], parts.after].into_iter().any(has_filter);
            let has_others = [parts.before, old, parts.after].into_iter().any(has_filter);
            if !is_last || !has_others || !gone.is_empty() || !self.come.is_empty() {
                return None;
            }
        }
        self.gone.extend_from_slice(gone);
        self.come.extend_from_slice(come);
        let former = &new[place.before..place.new.start];
        self.is_outside |= class_tables::interface_of(former) != Some(interface);
        Some(())
    }

    /// The one class that differs; `None` if more does, or it cannot be told alone what comes of
    /// it.
    fn one_class(self, policy: &InterfacePolicy, registry: &Registry) -> Option<Otherwise> {
        let is_in = |all: &[ClassSpec], class: &ClassSpec| all.iter().any(|one| one.says_as(class));
        let before: Vec<_> = (self.before.iter())
            .filter(|class| !is_in(&self.after, class))
            .collect();
        let after: Vec<_> = (self.after.iter())
            .filter(|class| !is_in(&self.before, class))
            .collect();
        let filters = (&*self.gone, &*self.come);
        let becomes = match (&*before, &*after, filters) {
            ([], [], ([], [])) if self.before.len() == self.after.len() => return Some(Otherwise::Nothing),
            ([], [new], ([], come)) if !self.is_outside => {
                ClassBecomes::Renewed(comes(policy, registry, new, come)?)
            }
            ([old], [], (gone, [])) if !self.is_outside => {
                ClassBecomes::Renewed(goes(policy, registry, old, gone)?)
            }
            ([old], [new], ([], [])) => ClassBecomes::Amended(amended(policy, old, new)?),
            _ => return None,
        };
        let class = before.iter().chain(&after).next()?.name.to_string();
        let is_twice = |(place, class): (usize, &ClassSpec)| {
            self.after[..place].iter().any(|other| other.name == class.name)
        };
        let distinct = !self.after.iter().enumerate().any(is_twice);
        distinct.then(|| Otherwise::Class(Box::new(OneClass { class, becomes })))
    }
}

/// Of two lists what the first has alone, what the second has alone, and what both have at their
/// ends.
fn differing<'a, T: PartialEq>(old: &'a [T], new: &'a [T]) -> (&'a [T], &'a [T], &'a [T]) {
    let alike = |(old, new): &(&T, &T)| old == new;
    let first = old.iter().zip(new).take_while(alike).count();
    let (old, new) = (&old[first..], &new[first..]);
    let last = old.iter().rev().zip(new.iter().rev()).take_while(alike).count();
    let (new, rest) = new.split_at(new.len() - last);
    (&old[..old.len() - last], new, rest)
}

fn comes(
    policy: &InterfacePolicy,
    registry: &Registry,
    class: &ClassSpec,
    filters: &[Named],
) -> Option<ClassChanged> {
    let is_own = filters.iter().all(|(name, _)| class.name == name.as_str());
    let have_room = policy.filters.len() + filters.len() <= MOST_OF_ALL;
    let filters = filters.iter().map(|(_, filter)| *filter).collect();
    let changed = policy.with_class(registry, class.clone(), filters)?;
    (is_own && have_room && changed.alone).then_some(changed)
}

fn goes(
    policy: &InterfacePolicy,
    registry: &Registry,
    class: &ClassSpec,
    filters: &[Named],
) -> Option<ClassChanged> {
    let number = policy.plan.class(&class.name)?;
    let is_in_force = policy.spec.classes.get(number.0 as usize)?.says_as(class);
    let as_read = |filter: &Filter| Filter {
        class: ClassId(0),
        ..*filter
    };
    let changed = policy.without_class(registry, &class.name)?;
    let own = changed.gone_of(policy);
    let own = own.map(|filter| (class.name.to_string(), as_read(filter)));
    let are_all = own.eq(filters.iter().cloned());
    (is_in_force && are_all && changed.alone).then_some(changed)
}

/// With other settings of a class, and nothing else of it.
fn amended(policy: &InterfacePolicy, old: &ClassSpec, new: &ClassSpec) -> Option<InterfacePolicy> {
    let number = policy.plan.class(&old.name)?;
    let in_force = policy.spec.classes.get(number.0 as usize)?;
    let settings_alone = ClassSpec {
        settings: old.settings.clone(),
        ..new.clone()
    };
    let is_expected = (policy.expectations.iter()).any(|of| of.class.as_deref() == Some(&*old.name));
    let alone = settings_alone.says_as(old) && policy.is_settled_by_class() && !is_expected;
    if !alone || !in_force.settings.says_as(&old.settings) {
        return None;
    }
    policy.amended(&old.name, |class| class.settings = new.settings.clone())
}

#[cfg(test)]
mod tests;
