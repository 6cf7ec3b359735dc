//! A tree of disciplines and classes as configured, unchecked: what a policy's reader writes down
//! and `tree` checks.

use crate::bounds::ArrivalCurve;
use crate::settings::{Span, Table};
use crate::structures::shared_list::SharedList;
use crate::units::{Bandwidth, Bytes, Rate};

/// A discipline as configured, unchecked.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DisciplineSpec {
    /// The kind's name.
    pub kind: String,
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
    pub name: String,
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
            kind: kind.into(),
            ..Self::default()
        }
    }
}
