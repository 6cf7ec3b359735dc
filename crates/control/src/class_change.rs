//! One class that comes to a policy in force, or goes, without a look at the others.
//!
//! What is found here to be in order is what a reading of the whole text finds to be, and makes;
//! whatever concerns more than the class itself, or would be refused, is left to that. The class
//! takes a [place](ClassSpec::vacant) in the tree, or leaves one, so all others keep their numbers.
//! A kind that cannot check one class alone checks the tree, and the text is still not read.

use crate::filters;
use crate::policy::{InterfacePolicy, PolicyReader};
use crate::policy_text;
use crate::protocol::{AddedClass, Amendment};
use crate::sections;
use engine::classify::{Filter, FilterId};
use engine::packet::ClassId;
use engine::tree::{ClassSpec, DisciplineSpec, Registry};
use std::sync::Arc;

/// A policy with another class in one place, or none.
#[derive(Clone, Debug)]
pub struct ClassChanged {
    /// The policy.
    pub policy: InterfacePolicy,
    /// The place.
    pub class: ClassId,
    /// The numbers of the filters that are gone.
    pub gone: Vec<FilterId>,
    /// The filters that came, with their numbers.
    pub come: Vec<(FilterId, Filter)>,
    /// Whether it was checked alone: all other classes have the very settings that they had.
    pub alone: bool,
}

impl ClassChanged {
    /// The filters that are gone, of the policy that they were in.
    pub(crate) fn gone_of<'a>(&'a self, old: &'a InterfacePolicy) -> impl Iterator<Item = &'a Filter> {
        self.gone.iter().filter_map(|id| old.filters.get(*id))
    }
}

impl InterfacePolicy {
    /// The policy with this change of one class; `None` if only a reading of the whole text can
    /// tell what that makes.
    pub fn with_class_change(&self, registry: &Registry, change: &Amendment) -> Option<ClassChanged> {
        match change {
            Amendment::Added(added) => {
                let (class, filters) = read(registry, &self.spec.kind, added)?;
                self.with_class(registry, class, filters)
            }
            Amendment::Removed(removed) => self.without_class(registry, &removed.class),
            _ => None,
        }
    }

    /// Whether nothing that is settled for the interface as a whole follows from all its classes:
    /// what can be reserved, how classes yield, and whether all fits into the least rate of a line
    /// that varies.
    pub(crate) fn is_settled_by_class(&self) -> bool {
        self.reserve.is_none() && self.autorate.is_none() && self.yields.is_empty()
    }

    /// With a class, which was [read alone](PolicyReader::lone_class), and its filters, whose
    /// number of a class means nothing yet.
    pub(crate) fn with_class(
        &self,
        registry: &Registry,
        class: ClassSpec,
        filters: Vec<Filter>,
    ) -> Option<ClassChanged> {
        let parent = match class.parent_name() {
            Some(name) => Some(self.plan.class(name)?),
            None => None,
        };
        let place = self.plan.place_below(parent)?;
        let filters = filters.into_iter().map(|filter| Filter {
            class: place,
            ..filter
        });
        self.changed(registry, place, class, &[], &filters.collect::<Vec<_>>())
    }

    pub(crate) fn without_class(&self, registry: &Registry, name: &str) -> Option<ClassChanged> {
        let class = self.plan.class(name)?;
        let (info, spec) = (self.plan.info(class)?, self.spec.classes.get(class.0 as usize)?);
        let has_classes = spec.discipline.as_ref().is_some_and(DisciplineSpec::has_classes);
        let has_quota = self.quotas.iter().any(|of| of.class == name);
        let is_expected = self
            .expectations
            .iter()
            .any(|of| of.class.as_deref() == Some(name));
        if info.vacant || spec.name != name || has_classes || is_expected || has_quota {
            return None;
        }
        // Without classes below it, its parent becomes a leaf.
        let siblings = (0..).map(ClassId).zip(self.plan.classes.iter());
        let mut siblings = siblings.filter(|(id, other)| *id != class && !other.vacant);
        if info.parent.is_some() && !siblings.any(|(_, other)| other.parent == info.parent) {
            return None;
        }
        let gone: Vec<_> = self.filters.of_class(class).map(|(id, _)| id).collect();
        let place = ClassSpec::place(class.0 as usize, spec.parent_name());
        self.changed(registry, class, place, &gone, &[])
    }

    fn changed(
        &self,
        registry: &Registry,
        class: ClassId,
        new: ClassSpec,
        gone: &[FilterId],
        come: &[Filter],
    ) -> Option<ClassChanged> {
        let alone = self.is_settled_by_class() && self.filters.is_dense();
        if !alone || !registry.find(&self.spec.kind)?.properties.vacancies {
            return None;
        }
        let mut spec = DisciplineSpec::clone(&self.spec);
        *spec.classes.get_mut(class.0 as usize)? = new;
        let renewed = self.plan.renewed(&spec, class, registry);
        let alone = renewed.is_some();
        let plan = renewed.or_else(|| spec.check(registry, self.link()).ok())?;
        let (filters, come) = self.filters.changed(gone, come);
        Some(ClassChanged {
            policy: Self {
                plan,
                spec: Arc::new(spec),
                filters: Arc::new(filters),
                ..self.clone()
            },
            class,
            gone: gone.to_vec(),
            come,
            alone,
        })
    }
}

/// The class, as a policy of an interface with a discipline of this kind would have it, and its
/// filters, whose number of a class means nothing yet.
fn read(registry: &Registry, kind: &str, added: &AddedClass) -> Option<(ClassSpec, Vec<Filter>)> {
    let alone = Amendment::Added(AddedClass {
        interface: "of".into(),
        ..added.clone()
    });
    let text = policy_text::with("[interface.of]\n", [&alone]).ok()?;
    let mut problems = Vec::new();
    let found = sections::parse(&text, &mut problems, |root, problems| {
        let interface = root.section("interface", problems)?.section("of", problems)?;
        let classes = interface.sections("class", "class", problems);
        let class = PolicyReader::new(registry).lone_class(classes.first()?, registry.find(kind)?)?;
        let filters = interface.sections("filter", "filter", problems);
        let read = |section| filters::read(section, ClassId(0), problems);
        Some((class, filters.iter().flat_map(read).collect()))
    })?;
    problems.is_empty().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::policy::Policy;
    use crate::protocol::{AddedQuota, RemovedClass, SettingChange};

    const CLASSES: &str = "[[interface.wan0.class]]\nname = \"a\"\nrate = \"1 Mbit/s\"\n\
        [[interface.wan0.class]]\nname = \"b\"\nrate = \"2 Mbit/s\"\n\
        [[interface.wan0.class]]\nname = \"c\"\nparent = \"b\"\nrate = \"1 Mbit/s\"\n\
        [[interface.wan0.class]]\nname = \"d\"\nrate = \"4 Mbit/s\"\ndefault = true\n\
        [[interface.wan0.filter]]\nclass = \"c\"\nprotocol = \"udp\"\n\
        [[interface.wan0.filter]]\nclass = \"a\"\nprotocol = \"tcp\"\n";

    fn read(more: &str) -> InterfacePolicy {
        let head = "version = 1\n[interface.wan0]\nbandwidth = \"10 Mbit/s\"\ndiscipline = \"cbq\"\n";
        let text = format!("{head}{CLASSES}{more}");
        let read = Policy::read("test", &text, &Registry::builtin(), &[]);
        let mut policy = read.unwrap_or_else(|mistakes| panic!("{}", mistakes.render(false)));
        policy.interfaces.remove(0)
    }

    /// The same with a place at the top and one below `b`: classes 4 and 5.
    fn with_places(policy: &InterfacePolicy) -> InterfacePolicy {
        let mut spec = DisciplineSpec::clone(&policy.spec);
        for parent in [None, Some("b")] {
            let place = ClassSpec::place(spec.classes.len(), parent);
            spec.classes.push(place);
        }
        InterfacePolicy {
            plan: spec.check(&Registry::builtin(), policy.link()).expect("a tree"),
            spec: Arc::new(spec),
            ..policy.clone()
        }
    }

    fn added(settings: &[(&str, &str)]) -> AddedClass {
        let settings = settings
            .iter()
            .map(|(key, value)| ((*key).to_owned(), SettingChange::from_word(value)));
        let filter = [("protocol".to_owned(), SettingChange::Text("icmp".into()))];
        AddedClass {
            interface: "wan0".into(),
            class: "new".into(),
            settings: settings.collect(),
            filters: vec![filter.into()],
            quota: None,
            until_ms: None,
            reason: None,
        }
    }

    fn comes(policy: &InterfacePolicy, added: AddedClass) -> Option<ClassChanged> {
        policy.with_class_change(&Registry::builtin(), &Amendment::Added(added))
    }

    fn goes(policy: &InterfacePolicy, class: &str) -> Option<ClassChanged> {
        let removed = RemovedClass {
            interface: "wan0".into(),
            class: class.into(),
            until_ms: None,
            reason: None,
        };
        policy.with_class_change(&Registry::builtin(), &Amendment::Removed(removed))
    }

    #[test]
    fn a_class_takes_a_place_of_its_parent_and_its_filters_come_last() {
        let policy = with_places(&read(""));
        for (parent, place) in [(None, 4), (Some("b"), 5)] {
            let mut wanted = added(&[("rate", "1kbit/s")]);
            let said = parent.map(|parent| ("parent".to_owned(), SettingChange::from_word(parent)));
            wanted.settings.extend(said);
            let changed = comes(&policy, wanted).expect("a place");
            assert_eq!((changed.class, changed.gone), (ClassId(place), vec![]));
            let filter = Filter {
                protocol: Some(1),
                ..Filter::new(ClassId(place))
            };
            assert_eq!(changed.come, [(FilterId(2), filter)]);
            assert_eq!(changed.policy.filters.len(), 3);
            let class = &changed.policy.spec.classes[place as usize];
            assert_eq!(
                (&*class.name, class.vacant, class.parent_name()),
                ("new", false, parent)
            );
            assert_eq!(changed.policy.plan.class("new"), Some(ClassId(place)));
        }
    }

    #[test]
    fn a_class_that_has_no_place_or_concerns_more_than_itself_is_left_to_the_whole_text() {
        let policy = with_places(&read(""));
        assert!(
            comes(&read(""), added(&[("rate", "1kbit/s")])).is_none(),
            "no place"
        );
        let below = added(&[("rate", "1kbit/s"), ("parent", "a")]);
        assert!(comes(&policy, below).is_none(), "no place below `a`");
        let below = added(&[("rate", "1kbit/s"), ("parent", "nobody")]);
        assert!(comes(&policy, below).is_none(), "no such parent");
        assert!(
            comes(&policy, added(&[("rat", "1kbit/s")])).is_none(),
            "no such setting"
        );
        let quota = Some(AddedQuota {
            volume: "5 GB per day".into(),
            then: Default::default(),
        });
        let with_quota = AddedClass {
            quota,
            ..added(&[("rate", "1kbit/s")])
        };
        assert!(
            comes(&policy, with_quota).is_none(),
            "a quota is counted elsewhere"
        );
    }

    #[test]
    fn a_class_that_goes_leaves_its_place_and_takes_its_filters_along() {
        let policy = with_places(&read(""));
        let changed = goes(&policy, "a").expect("it goes");
        assert_eq!(changed.class, ClassId(0));
        assert_eq!((changed.gone, changed.come), (vec![FilterId(1)], vec![]));
        assert!(changed.policy.spec.classes[0].vacant);
        assert_eq!(changed.policy.plan.class("a"), None);
        assert_eq!(changed.policy.plan.place_below(None), Some(ClassId(0)));
        let left: Vec<_> = changed.policy.filters.iter().map(|filter| filter.class).collect();
        assert_eq!(left, [ClassId(2)]);
    }

    #[test]
    fn a_class_whose_end_concerns_others_is_left_to_the_whole_text() {
        let policy = with_places(&read(""));
        let place = policy.spec.classes[4].name.to_string();
        assert!(goes(&policy, &place).is_none(), "it is but a place");
        assert!(goes(&policy, "nobody").is_none());
        assert!(goes(&policy, "c").is_none(), "`b` becomes a leaf");
        let sister = "[[interface.wan0.class]]\nname = \"e\"\nparent = \"b\"\nrate = \"1 kbit/s\"\n";
        let changed = goes(&read(sister), "c").expect("`b` has another one");
        assert_eq!(changed.policy.spec.classes[2].parent_name(), Some("b"));
        let expected = "[[interface.wan0.expect]]\nclass = \"a\"\nmetric = \"drops\"\nat_most = 0\n";
        let expected = read(expected);
        assert!(goes(&expected, "a").is_none(), "something is expected of it");
        assert!(goes(&read(""), "a").is_some());
        let quota = "[[interface.wan0.class]]\nname = \"q\"\nrate = \"1 kbit/s\"\nquota = { volume = \"5 GB per day\" }\n";
        assert!(goes(&read(quota), "q").is_none(), "it has a quota");
        assert!(goes(&read(quota), "a").is_some());
        let inner = "[[interface.wan0.class]]\nname = \"i\"\nrate = \"1 kbit/s\"\n\
            discipline = { kind = \"drr\", class = [{ name = \"j\", default = true }] }\n";
        assert!(goes(&read(inner), "i").is_none(), "it has classes of its own");
        assert!(goes(&read(inner), "j").is_none(), "it is another discipline's");
    }

    #[test]
    fn where_what_is_settled_follows_from_all_classes_a_change_of_one_is_left_to_the_whole_text() {
        let yields = "[[interface.wan0.class]]\nname = \"y\"\nrate = \"1 kbit/s\"\nyields = {}\n";
        let varies = "[interface.wan0.autorate]\ntargets = [\"9.9.9.9\"]\nmin = \"9 Mbit/s\"\n";
        for more in [yields, varies] {
            let policy = with_places(&read(more));
            assert!(goes(&policy, "a").is_none(), "{more}");
            assert!(comes(&policy, added(&[("rate", "1kbit/s")])).is_none(), "{more}");
        }
    }
}
