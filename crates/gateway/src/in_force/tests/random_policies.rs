//! Random policies of one interface, each drawn from the one before: other rates, another
//! structure, other disciplines, other filters, another bandwidth.

use engine::random::Rng;
use std::collections::BTreeSet;
use std::fmt::Write;

/// What can differ between two of them.
pub(crate) const ASPECTS: [&str; 5] = ["rates", "structure", "disciplines", "filters", "bandwidth"];

const KINDS: [&str; 8] = ["cbq", "hfsc", "drr", "priq", "wrr", "fq_codel", "cake", "fifo"];
const CLASSES: usize = 6;

#[derive(Clone, PartialEq, Debug)]
struct Class {
    name: u64,
    weight: u64,
    inner: u64,
    /// Below the class `group`, where the kind has such.
    grouped: bool,
}

/// A policy.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct RandomPolicy {
    /// Its bandwidth.
    pub(crate) mbit: u64,
    /// Its discipline.
    pub(crate) kind: &'static str,
    /// Kept also while the discipline has none.
    classes: Vec<Class>,
    group_weight: u64,
    default: u64,
    /// The class of each flow that has a filter.
    filters: Vec<Option<u64>>,
}

/// What the flows of one class get of the link while all flows have packets.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Share {
    pub(crate) flows: Vec<usize>,
    /// A part of the link.
    pub(crate) part: f64,
    /// They get this, and not more.
    pub(crate) exact: bool,
}

impl RandomPolicy {
    /// A policy for so many flows.
    pub(crate) fn draw(rng: &mut Rng, flows: usize) -> Self {
        let classes = (0..1 + rng.below(CLASSES as u64)).map(|name| Self::class(rng, name));
        let mut policy = Self {
            classes: classes.collect(),
            mbit: 30 + rng.below(31),
            kind: KINDS[rng.below(KINDS.len() as u64) as usize],
            group_weight: 1 + rng.below(9),
            default: 0,
            filters: vec![None; flows],
        };
        policy.default = policy.any_class(rng);
        for flow in 0..flows {
            policy.filters[flow] = (rng.below(4) > 0).then(|| policy.any_class(rng));
        }
        policy
    }

    fn class(rng: &mut Rng, name: u64) -> Class {
        Class {
            name,
            weight: 1 + rng.below(9),
            inner: rng.below(5),
            grouped: rng.below(3) == 0,
        }
    }

    fn any_class(&self, rng: &mut Rng) -> u64 {
        self.classes[rng.below(self.classes.len() as u64) as usize].name
    }

    /// Another policy, that differs in one respect or in many.
    pub(crate) fn next(&self, rng: &mut Rng) -> Self {
        loop {
            let mut next = self.clone();
            next.change(rng);
            if !next.differences(self).is_empty() {
                return next;
            }
        }
    }

    fn change(&mut self, rng: &mut Rng) {
        let class = rng.below(self.classes.len() as u64) as usize;
        match rng.below(8) {
            0 => self.mbit = 30 + rng.below(31),
            1 => self.classes[class].weight = 1 + rng.below(9),
            2 => self.classes[class].inner = rng.below(5),
            3 => self.kind = KINDS[rng.below(KINDS.len() as u64) as usize],
            4 => {
                let flow = rng.below(self.filters.len() as u64) as usize;
                self.filters[flow] = (rng.below(4) > 0).then(|| self.any_class(rng));
            }
            5 => self.default = self.any_class(rng),
            6 => self.restructure(rng, class),
            _ => *self = Self::draw(rng, self.filters.len()),
        }
    }

    fn restructure(&mut self, rng: &mut Rng, class: usize) {
        match rng.below(3) {
            0 if self.classes.len() < CLASSES => {
                let free = (0..).find(|name| self.classes.iter().all(|class| class.name != *name));
                self.classes.push(Self::class(rng, free.expect("there are few")));
            }
            1 if self.classes.len() > 1 => {
                let gone = self.classes.remove(class).name;
                let filters = self.filters.iter_mut().filter(|class| **class == Some(gone));
                filters.for_each(|class| *class = None);
                if self.default == gone {
                    self.default = self.classes[0].name;
                }
            }
            _ => self.classes[class].grouped ^= true,
        }
    }

    fn has_classes(&self) -> bool {
        !["fq_codel", "cake", "fifo"].contains(&self.kind)
    }

    /// Whether this class is below the group.
    fn is_grouped(&self, class: &Class) -> bool {
        ["cbq", "hfsc"].contains(&self.kind) && class.grouped
    }

    fn class_of(&self, flow: usize) -> u64 {
        self.filters[flow].unwrap_or(self.default)
    }

    /// In what it differs from another.
    pub(crate) fn differences(&self, other: &Self) -> BTreeSet<&'static str> {
        let mut found = BTreeSet::new();
        let mut differs = |aspect, differs| {
            if differs {
                found.insert(aspect);
            }
        };
        differs("bandwidth", self.mbit != other.mbit);
        differs("disciplines", self.kind != other.kind);
        let both = (self.has_classes(), other.has_classes());
        differs("structure", both.0 != both.1);
        if both == (true, true) {
            let names =
                |of: &Self| -> Vec<_> { of.classes.iter().map(|c| (c.name, of.is_grouped(c))).collect() };
            differs("structure", names(self) != names(other));
            let same = |class: &Class| other.classes.iter().find(|other| other.name == class.name);
            for (class, other) in self
                .classes
                .iter()
                .filter_map(|class| Some((class, same(class)?)))
            {
                differs("rates", class.weight != other.weight);
                differs("disciplines", Inner::of(class) != Inner::of(other));
            }
            let grouped = |of: &Self| of.classes.iter().any(|class| of.is_grouped(class));
            differs(
                "rates",
                grouped(self) && grouped(other) && self.group_weight != other.group_weight,
            );
            differs(
                "filters",
                self.filters != other.filters || self.default != other.default,
            );
        }
        found
    }

    /// Its text after this head, with a port for each flow.
    pub(crate) fn text(&self, head: &str, ports: &[u16]) -> String {
        let mut text = format!(
            "version = 1\n{head}[interface.wan0]\nbandwidth = \"{} Mbit/s\"\ndiscipline = \"{}\"\n",
            self.mbit, self.kind
        );
        if !self.has_classes() {
            return text;
        }
        let of_class = |name: &str, setting: &str, more: &str| {
            format!("[[interface.wan0.class]]\nname = \"{name}\"\n{setting}\n{more}")
        };
        let whole = self.mbit * 1_000;
        let (top, below) = (self.weights(false), self.weights(true));
        let group = whole * self.group_weight / top;
        if below > 0 {
            text += &of_class("group", &self.setting(self.group_weight, group, 0), "");
        }
        for (n, class) in self.classes.iter().enumerate() {
            let grouped = self.is_grouped(class);
            let rate = match grouped {
                true => group * class.weight / below,
                false => whole * class.weight / top,
            };
            let mut more = format!("default = {}\n", class.name == self.default);
            more += &Inner::of(class).text(class.name);
            if grouped {
                more += "parent = \"group\"\n";
            }
            text += &of_class(
                &format!("c{}", class.name),
                &self.setting(class.weight, rate, n as u64),
                &more,
            );
        }
        for (class, port) in self.filters.iter().zip(ports) {
            if let Some(class) = class {
                let _ = write!(
                    text,
                    "[[interface.wan0.filter]]\nclass = \"c{class}\"\nprotocol = \"udp\"\ndestination_port = {port}\n"
                );
            }
        }
        text
    }

    /// The setting of a class that says what it gets.
    fn setting(&self, weight: u64, kbit: u64, number: u64) -> String {
        match self.kind {
            "cbq" => format!("rate = \"{kbit} kbit/s\""),
            "hfsc" => format!("linkshare = \"{weight} Mbit/s\""),
            "priq" => format!("priority = {}", self.priority(weight, number)),
            _ => format!("weight = {weight}"),
        }
    }

    /// No two classes have the same.
    fn priority(&self, weight: u64, number: u64) -> u64 {
        weight * CLASSES as u64 + number
    }

    /// The sum of the weights of these classes; with that of the group, if they are not in it.
    fn weights(&self, grouped: bool) -> u64 {
        let own = |class: &&Class| self.is_grouped(class) == grouped;
        let sum: u64 = self.classes.iter().filter(own).map(|class| class.weight).sum();
        let group = !grouped && self.classes.iter().any(|class| self.is_grouped(class));
        sum + if group { self.group_weight } else { 0 }
    }

    /// What each class gets while all flows have packets of the same length.
    pub(crate) fn shares(&self) -> Vec<Share> {
        let flows = 0..self.filters.len();
        if !self.has_classes() {
            let part = 1.0 / flows.len() as f64;
            // Two flows may meet in one queue by their hash, and share what one has.
            let (part, exact) = match self.kind {
                "fifo" => (part, true),
                _ => (part / 2.0, false),
            };
            let own = |flow| Share {
                flows: vec![flow],
                part,
                exact,
            };
            return flows.map(own).collect();
        }
        let of = |class: &Class| -> Vec<usize> {
            let own = flows.clone().filter(|flow| self.class_of(*flow) == class.name);
            own.collect()
        };
        let busy: Vec<(usize, &Class, Vec<usize>)> = self
            .classes
            .iter()
            .enumerate()
            .map(|(n, class)| (n, class, of(class)))
            .filter(|(.., flows)| !flows.is_empty())
            .collect();
        let all_busy = busy.len() == self.classes.len();
        let first = busy
            .iter()
            .map(|(n, class, _)| self.priority(class.weight, *n as u64))
            .max();
        // A class of `cbq` that has no packets leaves its rate to others, not by their rates alone.
        let counts: Vec<&Class> = match self.kind {
            "cbq" => self.classes.iter().collect(),
            _ => busy.iter().map(|(_, class, _)| *class).collect(),
        };
        let sum = |grouped| -> u64 {
            let own = counts.iter().filter(|class| self.is_grouped(class) == grouped);
            own.map(|class| class.weight).sum()
        };
        let (top, below) = (sum(false), sum(true));
        let group = if below > 0 { self.group_weight } else { 0 };
        let part = |n: usize, class: &Class| match self.kind {
            "priq" => f64::from(u8::from(Some(self.priority(class.weight, n as u64)) == first)),
            _ if self.is_grouped(class) => {
                class.weight as f64 / below as f64 * group as f64 / (top + group) as f64
            }
            _ => class.weight as f64 / (top + group) as f64,
        };
        let share = |(n, class, flows): (usize, &Class, Vec<usize>)| Share {
            flows,
            part: part(n, class),
            exact: self.kind != "cbq" || all_busy,
        };
        busy.into_iter().map(share).collect()
    }
}

/// The discipline of a class.
#[derive(PartialEq)]
enum Inner {
    Plain,
    FqCodel,
    Codel,
    /// With one class.
    Drr,
}

impl Inner {
    fn of(class: &Class) -> Self {
        match class.inner {
            0 => Self::FqCodel,
            1 => Self::Codel,
            2 => Self::Drr,
            _ => Self::Plain,
        }
    }

    fn text(&self, class: u64) -> String {
        match self {
            Self::Plain => String::new(),
            Self::FqCodel => "discipline = \"fq_codel\"\n".into(),
            Self::Codel => "discipline = \"codel\"\n".into(),
            Self::Drr => format!(
                "discipline = {{ kind = \"drr\", class = [{{ name = \"in{class}\", default = true }}] }}\n"
            ),
        }
    }
}
