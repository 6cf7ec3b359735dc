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
    /// such a name, and all such names are before those of classes.
    pub fn place(number: usize, parent: Option<&str>) -> Self {
        Self {
            name: format!("\0{number}").into(),
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
