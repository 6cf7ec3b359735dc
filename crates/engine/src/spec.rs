//! A tree of disciplines and classes as configured, unchecked: what a policy's reader writes down
//! and `tree` checks.

use crate::bounds::ArrivalCurve;
use crate::class_name::ClassName;
use crate::settings::{Span, Table};
use crate::structures::shared_list::SharedList;
use crate::units::{Bandwidth, Bytes, Rate};
use std::borrow::Cow;
use std::collections::HashMap;

/// A discipline as configured, unchecked.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DisciplineSpec {
    /// The kind's name.
    pub kind: Cow<'static, str>,
    /// Where the kind is named.
    pub at: Span,
    /// Its settings.
    pub settings: Table,
    /// The discipline below, for kinds with one child; FIFO if not given.
    pub child: Option<Box<DisciplineSpec>>,
    /// Its classes, for kinds with classes, in any order.
    pub classes: SharedList<ClassSpec>,
}

/// A class as configured, unchecked.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ClassSpec {
    /// Its name, unique in the tree.
    pub name: ClassName,
    /// Where it is named.
    pub at: Span,
    /// Its parent; none at the top.
    pub parent: Option<ParentSpec>,
    /// Whether it takes what no filter takes.
    pub default: bool,
    /// The settings that its discipline's kind declares for classes.
    pub settings: Table,
    /// The discipline of its queue; FIFO if not given.
    pub discipline: Option<DisciplineSpec>,
    /// The arrival curve of its senders, if stated.
    pub sends: Option<ArrivalCurveSpec>,
    /// A place for a class that may come: it gets nothing, and no packets. Only for kinds with
    /// [`Properties::vacancies`](crate::kind::Properties::vacancies).
    pub vacant: bool,
}

/// A class's parent as configured.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ParentSpec {
    /// Its name.
    pub name: String,
    /// Where it is named.
    pub at: Span,
}

impl From<&str> for ParentSpec {
    /// A parent that code names.
    fn from(name: &str) -> Self {
        Self {
            name: name.into(),
            at: Span::default(),
        }
    }
}

/// An arrival curve as configured: its rate may be a part of the link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ArrivalCurveSpec {
    /// ρ
    pub rate: Rate,
    /// σ
    pub burst: Bytes,
}

impl ArrivalCurveSpec {
    /// On a link of this bandwidth.
    pub fn on(self, bandwidth: Bandwidth) -> ArrivalCurve {
        ArrivalCurve {
            rate: self.rate.on(bandwidth),
            burst: self.burst,
        }
    }
}

impl From<ArrivalCurve> for ArrivalCurveSpec {
    fn from(curve: ArrivalCurve) -> Self {
        Self {
            rate: Rate::Absolute(curve.rate),
            burst: curve.burst,
        }
    }
}

impl DisciplineSpec {
    /// A discipline of this kind with no settings.
    pub fn new(kind: &str) -> Self {
        Self {
            kind: kind.to_owned().into(),
            ..Self::default()
        }
    }

    /// Whether it has classes, or a discipline below it has.
    pub fn has_classes(&self) -> bool {
        !self.classes.is_empty() || self.child.as_deref().is_some_and(Self::has_classes)
    }

    /// The classes of the tree.
    pub fn class_specs(&self) -> ClassSpecs<'_> {
        let mut outermost = self;
        while let Some(child) = outermost
            .child
            .as_deref()
            .filter(|_| outermost.classes.is_empty())
        {
            outermost = child;
        }
        let mut specs = ClassSpecs {
            outermost: &outermost.classes,
            inner: HashMap::new(),
        };
        specs.gather_below(outermost);
        specs
    }

    /// Whether both say the same, wherever it stands.
    pub fn says_as(&self, other: &Self) -> bool {
        self.kind == other.kind
            && self.settings.says_as(&other.settings)
            && both(self.child.as_deref(), other.child.as_deref(), Self::says_as)
            && self.classes.len() == other.classes.len()
            && self
                .classes
                .iter()
                .zip(&other.classes)
                .all(|(old, new)| old.says_as(new))
    }
}

impl ClassSpec {
    /// A vacant place with this number, below this class or at the top. No class of a policy has
    /// such a name; all such names are before those of classes, in the order of the numbers.
    pub fn place(number: usize, parent: Option<&str>) -> Self {
        Self {
            name: format!("\0{number:09}").into(),
            parent: parent.map(ParentSpec::from),
            vacant: true,
            ..Self::default()
        }
    }

    /// The name of its parent; none at the top.
    pub fn parent_name(&self) -> Option<&str> {
        self.parent.as_ref().map(|parent| parent.name.as_str())
    }

    /// Whether both say the same, wherever it stands.
    pub fn says_as(&self, other: &Self) -> bool {
        self.name == other.name
            && self.parent_name() == other.parent_name()
            && (self.default, self.sends, self.vacant) == (other.default, other.sends, other.vacant)
            && self.settings.says_as(&other.settings)
            && both(
                self.discipline.as_ref(),
                other.discipline.as_ref(),
                DisciplineSpec::says_as,
            )
    }
}

/// The classes of a tree, found by what its [plan](crate::tree::TreePlan) calls them: of very many
/// classes without a look at their names.
#[derive(Debug)]
pub struct ClassSpecs<'a> {
    /// Those of the outermost discipline with classes, which have the first numbers.
    outermost: &'a SharedList<ClassSpec>,
    /// Those in their queues.
    inner: HashMap<&'a str, &'a ClassSpec>,
}

impl<'a> ClassSpecs<'a> {
    /// The class with this number and name.
    pub fn find(&self, number: usize, name: &str) -> Option<&'a ClassSpec> {
        let outermost = self.outermost.get(number).filter(|class| class.name == name);
        outermost.or_else(|| self.inner.get(name).copied())
    }

    fn gather_below(&mut self, spec: &'a DisciplineSpec) {
        let inner = spec.classes.iter().filter_map(|class| class.discipline.as_ref());
        for spec in inner.chain(spec.child.as_deref()) {
            let classes = spec.classes.iter();
            self.inner
                .extend(classes.map(|class| (class.name.as_str(), class)));
            self.gather_below(spec);
        }
    }
}

/// Whether both are missing, or there and the same.
fn both<T>(old: Option<&T>, new: Option<&T>, same: impl Fn(&T, &T) -> bool) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => same(old, new),
        (old, new) => old.is_none() && new.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(name: &str) -> ClassSpec {
        ClassSpec {
            name: name.into(),
            ..ClassSpec::default()
        }
    }

    fn with(classes: Vec<ClassSpec>) -> DisciplineSpec {
        DisciplineSpec {
            classes: classes.into(),
            ..DisciplineSpec::new("drr")
        }
    }

    fn around(child: DisciplineSpec) -> DisciplineSpec {
        DisciplineSpec {
            child: Some(Box::new(child)),
            ..DisciplineSpec::new("red")
        }
    }

    #[test]
    fn a_discipline_has_classes_if_one_below_it_has() {
        assert!(!DisciplineSpec::new("fifo").has_classes());
        assert!(!around(DisciplineSpec::new("fifo")).has_classes());
        assert!(with(vec![class("a")]).has_classes());
        assert!(around(around(with(vec![class("a")]))).has_classes());
        let both = DisciplineSpec {
            classes: vec![class("a")].into(),
            ..around(DisciplineSpec::new("fifo"))
        };
        assert!(both.has_classes());
    }

    #[test]
    fn disciplines_that_differ_in_anything_but_their_place_do_not_say_the_same() {
        let limit = |n: u32| Table::default().with("limit", n);
        let base = DisciplineSpec {
            settings: limit(5),
            child: Some(Box::new(DisciplineSpec::new("fifo"))),
            ..with(vec![class("a"), class("b")])
        };
        let elsewhere = DisciplineSpec {
            at: Span::new(3, 4),
            ..base.clone()
        };
        assert!(base.says_as(&base) && base.says_as(&elsewhere) && elsewhere.says_as(&base));
        let others = [
            DisciplineSpec {
                kind: "wrr".into(),
                ..base.clone()
            },
            DisciplineSpec {
                settings: limit(6),
                ..base.clone()
            },
            DisciplineSpec {
                child: None,
                ..base.clone()
            },
            DisciplineSpec {
                child: Some(Box::new(DisciplineSpec::new("red"))),
                ..base.clone()
            },
            DisciplineSpec {
                classes: vec![class("a")].into(),
                ..base.clone()
            },
            DisciplineSpec {
                classes: vec![class("a"), class("c")].into(),
                ..base.clone()
            },
        ];
        for other in others {
            assert!(!base.says_as(&other) && !other.says_as(&base), "{other:?}");
        }
    }

    #[test]
    fn classes_that_differ_in_anything_but_their_place_do_not_say_the_same() {
        let base = class("a");
        let elsewhere = ClassSpec {
            at: Span::new(3, 4),
            ..base.clone()
        };
        assert!(base.says_as(&base) && base.says_as(&elsewhere));
        let curve = ArrivalCurveSpec {
            rate: Rate::Absolute(Bandwidth::mbit(1)),
            burst: Bytes::new(1),
        };
        let others = [
            class("b"),
            ClassSpec {
                parent: Some("b".into()),
                ..base.clone()
            },
            ClassSpec {
                default: true,
                ..base.clone()
            },
            ClassSpec {
                sends: Some(curve),
                ..base.clone()
            },
            ClassSpec {
                vacant: true,
                ..base.clone()
            },
            ClassSpec {
                settings: Table::default().with("weight", 2),
                ..base.clone()
            },
            ClassSpec {
                discipline: Some(DisciplineSpec::new("red")),
                ..base.clone()
            },
        ];
        for other in others {
            assert!(!base.says_as(&other) && !other.says_as(&base), "{other:?}");
            assert!(other.says_as(&other.clone()));
        }
    }

    #[test]
    fn both_are_missing_or_both_there_and_the_same() {
        let both = |old: Option<u8>, new: Option<u8>| both(old.as_ref(), new.as_ref(), |a, b| a == b);
        assert!(both(None, None) && both(Some(1), Some(1)));
        assert!(!both(Some(1), Some(2)) && !both(Some(1), None) && !both(None, Some(1)));
    }

    #[test]
    fn a_place_is_vacant_and_has_a_name_before_those_of_classes() {
        let (top, below) = (ClassSpec::place(3, None), ClassSpec::place(4, Some("a")));
        assert_eq!(
            (&top.name[..], top.parent_name(), top.vacant),
            ("\u{0}000000003", None, true)
        );
        assert_eq!(
            (&below.name[..], below.parent_name(), below.vacant),
            ("\u{0}000000004", Some("a"), true)
        );
        assert_eq!(below.parent, Some(ParentSpec::from("a")));
    }

    #[test]
    fn a_class_is_found_by_its_number_with_its_name_or_by_its_name_inside() {
        let holder = ClassSpec {
            discipline: Some(with(vec![class("in1"), class("in2")])),
            ..class("b")
        };
        let spec = around(with(vec![class("a"), holder]));
        let specs = spec.class_specs();
        let found = |number, name| specs.find(number, name).map(|class| class.name.as_str());
        assert_eq!(found(0, "a"), Some("a"));
        assert_eq!(found(1, "b"), Some("b"));
        assert_eq!(
            (found(0, "b"), found(2, "a")),
            (None, None),
            "of the outermost by number"
        );
        assert_eq!((found(2, "in1"), found(3, "in2")), (Some("in1"), Some("in2")));
    }

    #[test]
    fn an_arrival_curve_may_be_a_part_of_the_link() {
        let curve = ArrivalCurveSpec {
            rate: Rate::Share(crate::units::Share::percent(40)),
            burst: Bytes::new(7),
        };
        let on = ArrivalCurve {
            rate: Bandwidth::mbit(4),
            burst: Bytes::new(7),
        };
        assert_eq!(curve.on(Bandwidth::mbit(10)), on);
        assert_eq!(ArrivalCurveSpec::from(on).on(Bandwidth::mbit(99)), on);
    }
}
