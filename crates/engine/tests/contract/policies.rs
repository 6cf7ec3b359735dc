//! Random valid policies of every kind, from the kinds' own declarations.
//!
//! A setting's type says what values it can have; [`VALUES`] narrows that where one setting depends
//! on another or on the link. What a kind's own `check` still refuses is drawn again.

use engine::kind::{Children, Kind};
use engine::link::Link;
use engine::random::{Rng, Seed};
use engine::settings::{Fallback, Raw, Setting, SettingValue, Table};
use engine::tree::{ClassSpec, DisciplineSpec, Registry, TreePlan};
use engine::units::{Bandwidth, Bytes, Duration, Probability, Rate};

/// Where a setting stands in a tree of classes.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    depth: usize,
    /// It is a class's, which has no class above it.
    top: bool,
    /// It is a class's, which has classes below it.
    interior: bool,
}

impl Place {
    /// A discipline's own.
    fn own(depth: usize) -> Self {
        Self {
            depth,
            top: false,
            interior: false,
        }
    }
}

type Draw = fn(&mut Rng, Place) -> Raw;

/// The kinds that the test knows, each with those settings whose values do not follow from their
/// type.
pub const VALUES: &[(&str, &[(&str, Draw)])] = &[
    ("fifo", &[("limit_bytes", |rng, _| bytes(rng, 1_514, 100_000))]),
    (
        "red",
        &[
            ("min", |rng, _| Raw::Integer(between(rng, 1, 8) as i64)),
            ("max", |rng, _| Raw::Integer(between(rng, 4, 30) as i64)),
            ("weight", |rng, _| Raw::Text(format!("1/{}", 1 << rng.below(17)))),
        ],
    ),
    (
        "codel",
        &[
            ("target", |rng, _| micros(rng, 1, 5_000)),
            ("interval", |rng, _| micros(rng, 5_001, 100_000)),
        ],
    ),
    (
        "fq_codel",
        &[
            ("target", |rng, _| micros(rng, 1, 5_000)),
            ("interval", |rng, _| micros(rng, 5_001, 100_000)),
            ("flows", |rng, _| Raw::Integer(between(rng, 1, 16) as i64)),
            ("quantum", |rng, _| bytes(rng, 256, 3_000)),
            ("limit_bytes", |rng, _| bytes(rng, 1_514, 100_000)),
        ],
    ),
    (
        "cake",
        &[
            ("rate", |rng, place| match rng.below(4) {
                0 => Raw::Text("unlimited".into()),
                _ => percent(rng, 1, 100 / (1 + place.depth as u64)),
            }),
            ("target", |rng, _| micros(rng, 1, 5_000)),
            ("interval", |rng, _| micros(rng, 5_001, 100_000)),
            ("flows", |rng, _| Raw::Integer(between(rng, 1, 16) as i64)),
            ("quantum", |rng, _| bytes(rng, 256, 3_000)),
            ("limit_bytes", |rng, _| bytes(rng, 1_514, 100_000)),
        ],
    ),
    (
        "pie",
        &[
            ("target", |rng, _| micros(rng, 1, 20_000)),
            ("update", |rng, _| micros(rng, 10, 30_000)),
        ],
    ),
    (
        "blue",
        &[
            ("limit", |rng, _| Raw::Integer(between(rng, 10, 40) as i64)),
            ("threshold", |rng, _| Raw::Integer(between(rng, 1, 10) as i64)),
        ],
    ),
    (
        "police",
        &[
            ("burst", |rng, _| bytes(rng, 1_514, 100_000)),
            ("excess_burst", |rng, _| bytes(rng, 1_514, 100_000)),
            ("rate", |rng, _| percent(rng, 1, 40)),
            ("excess_rate", |rng, _| percent(rng, 40, 80)),
            ("green", |rng, _| action(rng)),
            ("yellow", |rng, _| action(rng)),
            ("red", |rng, _| action(rng)),
        ],
    ),
    (
        "rio",
        &[
            ("green_min", |rng, _| Raw::Integer(between(rng, 3, 8) as i64)),
            ("green_max", |rng, _| Raw::Integer(between(rng, 9, 20) as i64)),
            ("yellow_min", |rng, _| Raw::Integer(between(rng, 2, 4) as i64)),
            ("yellow_max", |rng, _| Raw::Integer(between(rng, 5, 9) as i64)),
            ("red_min", |rng, _| Raw::Integer(between(rng, 1, 2) as i64)),
            ("red_max", |rng, _| Raw::Integer(between(rng, 3, 5) as i64)),
            ("weight", |rng, _| Raw::Text(format!("1/{}", 1 << rng.below(17)))),
        ],
    ),
    (
        "dualpi2",
        &[
            ("target", |rng, _| micros(rng, 1, 20_000)),
            ("rtt_max", |rng, _| micros(rng, 1_000, 200_000)),
            ("update", |rng, _| micros(rng, 10, 30_000)),
            ("coupling", |rng, _| Raw::Integer(between(rng, 1, 4) as i64)),
            ("classic_share", |rng, _| percent(rng, 1, 50)),
        ],
    ),
    (
        "cbq",
        &[
            ("rate", |rng, place| {
                let (from, to) = [(12, 25), (2, 4), (0, 1)][place.depth.min(2)];
                let from = if rng.below(4) == 0 { 0 } else { from };
                percent(rng, from, to)
            }),
            ("priority", |rng, _| Raw::Integer(rng.below(8) as i64)),
            ("minburst", |rng, _| Raw::Integer(between(rng, 1, 4) as i64)),
        ],
    ),
    (
        "shaper",
        &[("rate", |rng, place| {
            percent(rng, 1, 100 / (1 + place.depth as u64))
        })],
    ),
    ("shortest", &[]),
    (
        "priq",
        &[("priority", |rng, _| Raw::Integer(rng.below(256) as i64))],
    ),
    (
        "tbf",
        &[
            ("rate", |rng, place| {
                percent(rng, 1, 100 / (1 + place.depth as u64))
            }),
            ("burst", |rng, _| bytes(rng, 1_514, 60_000)),
            ("peak", |rng, _| percent(rng, 50, 100)),
            ("peak_burst", |rng, _| bytes(rng, 1_514, 6_000)),
        ],
    ),
    (
        "pacer",
        &[
            ("rate", |rng, place| {
                percent(rng, 1, [20, 5, 1][place.depth.min(2)])
            }),
            ("wire", |_, _| Raw::Text("100 Mbit/s".into())),
            ("tags", |rng, _| Raw::Integer(rng.below(3) as i64)),
            ("packet", |rng, _| bytes(rng, 60, 1_514)),
        ],
    ),
    (
        "wrr",
        &[
            ("cycle", |rng, _| Raw::Integer(between(rng, 1, 20) as i64)),
            ("weight", |rng, _| Raw::Integer(between(rng, 1, 5) as i64)),
            ("rate", |rng, place| {
                percent(rng, 1, 25 / (1 + place.depth as u64))
            }),
            ("interval", |rng, _| {
                Raw::Text(format!("{} us", between(rng, 1, 9_000)))
            }),
        ],
    ),
    (
        "hfsc",
        &[
            ("realtime", |rng, place| {
                curve(rng, [15, 5, 2][place.depth.min(2)])
            }),
            ("linkshare", |rng, _| curve(rng, 50)),
            ("upperlimit", |rng, place| {
                curve(rng, [90, 60, 30][place.depth.min(2)])
            }),
        ],
    ),
    (
        "drr",
        &[
            ("quantum", |rng, _| bytes(rng, 1_514, 6_000)),
            ("weight", |rng, _| Raw::Integer(between(rng, 1, 9) as i64)),
        ],
    ),
    (
        "ips",
        &[
            ("rate", |rng, _| percent(rng, 1, 10)),
            ("burst", |rng, _| bytes(rng, 1_514, 20_000)),
            ("delay", |rng, _| micros(rng, 8_000, 60_000)),
            ("longest", |rng, _| bytes(rng, 1_514, 70_000)),
            // What is sent last is out of order, as the docs say; the exam allows that to nobody.
            ("excess", |_, _| Raw::Text("drop".into())),
        ],
    ),
    (
        "wfq",
        &[
            ("queues", |rng, _| Raw::Integer(between(rng, 1, 16) as i64)),
            ("limit_bytes", |rng, _| bytes(rng, 1_514, 100_000)),
            ("quantum", |rng, _| bytes(rng, 64, 3_000)),
            ("perturb", |rng, _| {
                Raw::Text(format!("{} ms", between(rng, 1, 3)))
            }),
            ("weights", |rng, _| {
                Raw::Text(format!("0: {}", between(rng, 1, 9)))
            }),
        ],
    ),
];

/// Whether a setting is drawn, by its place and by those drawn before it.
type Tie = fn(&Table, Place) -> Wanted;

enum Wanted {
    /// It would be refused.
    No,
    Perhaps,
    Yes,
}

/// Settings that depend on their place, or on others of the same table, declared before them. Drawn
/// one by one, hardly any policy of such a kind would be valid.
const TIES: &[(&str, &str, Tie)] = &[
    ("cbq", "root_rate", |drawn, _| {
        let older = has(drawn, "sharing") && !is(drawn, "sharing", "formal");
        perhaps(older)
    }),
    ("cbq", "root_maxburst", |drawn, _| {
        perhaps(has(drawn, "root_rate"))
    }),
    ("cbq", "efficient", |drawn, _| perhaps(has(drawn, "root_rate"))),
    ("cbq", "overbook", |drawn, _| perhaps(has(drawn, "root_rate"))),
    ("cake", "ingress", |drawn, _| {
        perhaps(!is(drawn, "rate", "unlimited"))
    }),
    ("drr", "quantum", |drawn, _| perhaps(!has(drawn, "weight"))),
    ("hfsc", "realtime", |_, place| perhaps(!place.interior)),
    ("hfsc", "linkshare", |drawn, _| match has(drawn, "realtime") {
        true => Wanted::Perhaps,
        false => Wanted::Yes,
    }),
    ("ips", "burst", |drawn, _| perhaps(has(drawn, "rate"))),
    ("ips", "delay", |drawn, _| only(has(drawn, "rate"))),
    ("ips", "jitter", |drawn, _| perhaps(has(drawn, "delay"))),
    ("pacer", "rate", |_, place| match place.top && !place.interior {
        true => Wanted::Perhaps,
        false => Wanted::Yes,
    }),
    ("police", "excess_rate", |drawn, _| {
        let two = is(drawn, "meter", "trtcm") || is(drawn, "meter", "trtcm-4115");
        perhaps(two)
    }),
    ("police", "aware", |drawn, _| {
        let colours = has(drawn, "meter") && !is(drawn, "meter", "token-bucket");
        perhaps(colours)
    }),
    ("rio", "green_max", |drawn, _| perhaps(has(drawn, "green_min"))),
    ("rio", "yellow_max", |drawn, _| perhaps(has(drawn, "yellow_min"))),
    ("rio", "red_max", |drawn, _| perhaps(has(drawn, "red_min"))),
    ("tbf", "peak_burst", |drawn, _| perhaps(has(drawn, "peak"))),
    ("wfq", "weights", |drawn, _| perhaps(!has(drawn, "perturb"))),
    ("wrr", "interval", |drawn, _| perhaps(is(drawn, "mode", "poll"))),
    ("wrr", "rate", |drawn, _| perhaps(!has(drawn, "weight"))),
];

fn has(table: &Table, setting: &str) -> bool {
    table.get(setting).is_some()
}

fn is(table: &Table, setting: &str, value: &str) -> bool {
    let value = Raw::Text(value.into());
    table.get(setting).is_some_and(|entry| entry.value == value)
}

fn perhaps(allowed: bool) -> Wanted {
    if allowed { Wanted::Perhaps } else { Wanted::No }
}

fn only(needed: bool) -> Wanted {
    if needed { Wanted::Yes } else { Wanted::No }
}

/// The link that policies are for.
pub const LINK: Link = Link::new(Bandwidth::mbit(100), Bytes::new(1_514));

fn bytes(rng: &mut Rng, from: u64, to: u64) -> Raw {
    Raw::Text(format!("{} B", between(rng, from, to)))
}

fn action(rng: &mut Rng) -> Raw {
    let actions = ["pass", "drop", "precedence", "af12", "ef", "0"];
    Raw::Text(actions[rng.below(6) as usize].into())
}

fn micros(rng: &mut Rng, from: u64, to: u64) -> Raw {
    Raw::Text(format!("{} us", between(rng, from, to)))
}

fn percent(rng: &mut Rng, from: u64, to: u64) -> Raw {
    Raw::Text(format!("{} %", between(rng, from, to)))
}

/// A service curve of up to this many per cent.
fn curve(rng: &mut Rng, most: u64) -> Raw {
    let mut rate = || between(rng, 1, most);
    let (m1, m2) = (rate(), rate());
    let us = between(rng, 1, 20_000);
    Raw::Text(match rng.below(3) {
        0 => format!("{m2} %"),
        1 => format!("{m1} % for {us} us, then {m2} %"),
        _ => format!("{us} B in {} us, then {m2} %", 10 * us),
    })
}

fn between(rng: &mut Rng, from: u64, to: u64) -> u64 {
    from + rng.below(to - from + 1)
}

/// A value of the setting's type; `None` if the type is not known here.
fn by_type(setting: &Setting, rng: &mut Rng) -> Option<Raw> {
    let unit = setting.unit;
    if let Some(choices) = unit.strip_prefix("one of ") {
        let choices: Vec<&str> = choices.split('"').skip(1).step_by(2).collect();
        return Some(Raw::Text(
            choices[rng.below(choices.len() as u64) as usize].into(),
        ));
    }
    // Small numbers are where limits bite; each decade is as likely as another.
    let mut size = |decades: u64| {
        let top = 10u64.pow(1 + rng.below(decades) as u32);
        between(rng, 1, top)
    };
    Some(match unit {
        _ if unit == bool::UNIT => Raw::Boolean(rng.below(2) == 0),
        _ if unit == u32::UNIT => Raw::Integer(size(3) as i64),
        _ if unit == Bytes::UNIT => Raw::Text(format!("{} B", size(6))),
        _ if unit == Duration::UNIT => Raw::Text(format!("{} us", size(7))),
        _ if unit == Bandwidth::UNIT => Raw::Text(format!("{} kbit/s", 8 * size(4))),
        _ if unit == Probability::UNIT || unit == Rate::UNIT => percent(rng, 1, 100),
        _ => return None,
    })
}

fn table(kind: &Kind, settings: &[Setting], rng: &mut Rng, place: Place) -> Table {
    let (_, values) = VALUES.iter().find(|(name, _)| *name == kind.name).unwrap_or_else(|| {
        panic!(
            "the contract test does not know kind `{0}`: add a line (\"{0}\", &[]) to VALUES in \
             tests/contract/policies.rs, with a generator for each setting whose values its type does not tell",
            kind.name
        )
    });
    for (name, _) in *values {
        let known = kind
            .settings
            .iter()
            .chain(kind.class_settings)
            .any(|s| s.name == *name);
        assert!(known, "VALUES has `{name}`, which kind `{}` does not", kind.name);
    }
    let mut table = Table::default();
    for setting in settings {
        let tied = TIES
            .iter()
            .find(|tie| (tie.0, tie.1) == (kind.name, setting.name))
            .map(|(.., tie)| tie(&table, place));
        let wanted = match tied {
            Some(Wanted::Yes) => true,
            Some(Wanted::No) => false,
            Some(Wanted::Perhaps) | None => setting.default == Fallback::Required || rng.below(2) == 0,
        };
        if !wanted {
            continue;
        }
        let own = values.iter().find(|(name, _)| *name == setting.name);
        let value = match own {
            Some((_, draw)) => Some(draw(rng, place)),
            None => by_type(setting, rng),
        };
        let value = value.unwrap_or_else(|| {
            panic!(
                "setting `{}` of kind `{}` is {}, for which the contract test has no values: add a generator \
                 to VALUES in tests/contract/policies.rs",
                setting.name, kind.name, setting.unit
            )
        });
        table = table.with(setting.name, value);
    }
    table
}

/// A tree in the making.
struct Drawing<'a> {
    rng: &'a mut Rng,
    names: u32,
}

impl Drawing<'_> {
    /// A discipline of this kind with `child` below it, or in its classes.
    fn discipline(&mut self, kind: &Kind, child: Option<&Kind>, depth: usize) -> DisciplineSpec {
        let settings = table(kind, kind.settings, self.rng, Place::own(depth));
        let mut spec = DisciplineSpec {
            settings,
            ..DisciplineSpec::new(kind.name)
        };
        match kind.children {
            Children::None => {}
            Children::One => spec.child = self.below(child, depth).map(Box::new),
            Children::Classes { nested } => {
                self.classes(&mut spec, kind, child, nested, (None, depth));
                let leaf = |class: &&mut ClassSpec| class.default;
                let defaults = spec.classes.iter_mut().filter(leaf).count();
                let keep = self.rng.below(defaults as u64) as usize;
                for (i, class) in spec.classes.iter_mut().filter(leaf).enumerate() {
                    class.default = i == keep;
                }
            }
        }
        spec
    }

    /// The discipline below: the wanted one, over a plain one where it needs something below
    /// itself.
    fn below(&mut self, child: Option<&Kind>, depth: usize) -> Option<DisciplineSpec> {
        child.map(|kind| self.discipline(kind, None, depth + 1))
    }

    /// Classes of one discipline; every leaf is marked as a default class, of which one is kept
    /// later.
    fn classes(
        &mut self,
        spec: &mut DisciplineSpec,
        kind: &Kind,
        child: Option<&Kind>,
        nested: bool,
        (parent, depth): (Option<&str>, usize),
    ) {
        for _ in 0..between(self.rng, 1, if depth == 0 { 4 } else { 3 }) {
            let name = format!("class-{}", self.names);
            self.names += 1;
            let interior = nested && depth < 2 && self.rng.below(3) == 0;
            let wanted = self.rng.below(4) > 0;
            let place = Place {
                depth,
                top: parent.is_none(),
                interior,
            };
            spec.classes.push(ClassSpec {
                name: name.clone().into(),
                parent: parent.map(Into::into),
                default: !interior,
                settings: table(kind, kind.class_settings, self.rng, place),
                discipline: match interior || !wanted {
                    true => None,
                    false => self.below(child, depth),
                },
                ..ClassSpec::default()
            });
            if interior {
                self.classes(spec, kind, child, nested, (Some(&name), depth + 1));
            }
        }
    }
}

/// The spec with some settings drawn anew: a change that may be asked for while packets flow.
fn changed(registry: &Registry, spec: &DisciplineSpec, rng: &mut Rng, depth: usize) -> DisciplineSpec {
    let kind = registry.find(&spec.kind).expect("a kind that was drawn");
    let mut spec = spec.clone();
    let change = |table: &mut Table, settings: &[Setting], rng: &mut Rng, place: Place| {
        for entry in self::table(kind, settings, rng, place).entries {
            if rng.below(3) == 0 {
                *table = std::mem::take(table).with(&entry.key, entry.value);
            }
        }
    };
    change(&mut spec.settings, kind.settings, rng, Place::own(depth));
    if let Some(child) = &mut spec.child {
        **child = changed(registry, child, rng, depth + 1);
    }
    let places: Vec<Place> = (0..spec.classes.len())
        .map(|class| place_of(&spec, class, depth))
        .collect();
    for (class, place) in spec.classes.iter_mut().zip(places) {
        change(&mut class.settings, kind.class_settings, rng, place);
        if let Some(inner) = &mut class.discipline {
            *inner = changed(registry, inner, rng, depth + 1);
        }
    }
    spec
}

/// Where the class of this number stands, in a discipline at this depth.
fn place_of(spec: &DisciplineSpec, class: usize, depth: usize) -> Place {
    let classes = &spec.classes;
    let parent_of = |class: &ClassSpec| class.parent.as_ref().map(|parent| parent.name.clone());
    let mut above = 0;
    let mut parent = parent_of(&classes[class]);
    while let Some(name) = parent {
        above += 1;
        parent = classes
            .iter()
            .find(|class| class.name == name)
            .and_then(parent_of);
    }
    let name = Some(classes[class].name.as_str());
    Place {
        depth: depth + above,
        top: above == 0,
        interior: classes.iter().any(|class| parent_of(class).as_deref() == name),
    }
}

#[allow(dead_code, reason = "the test of amended plans uses it")]
/// The spec with some settings of one of its own classes drawn anew, and the number of that class.
pub fn with_a_class_changed(kind: &Kind, spec: &DisciplineSpec, rng: &mut Rng) -> (DisciplineSpec, usize) {
    let mut spec = spec.clone();
    let chosen = rng.below(spec.classes.len() as u64) as usize;
    let place = place_of(&spec, chosen, 0);
    let class = &mut spec.classes[chosen];
    for entry in table(kind, kind.class_settings, rng, place).entries {
        if rng.below(2) == 0 {
            class.settings = std::mem::take(&mut class.settings).with(&entry.key, entry.value);
        }
    }
    (spec, chosen)
}

/// A random valid policy, and its plan.
pub struct Policy {
    /// As it was drawn.
    pub spec: DisciplineSpec,
    /// Checked.
    pub plan: TreePlan,
    /// A plan of the same shape with other settings.
    pub other: TreePlan,
}

/// As many as make a failure for mere chance impossible: of every pair at least one in
/// [`ONE_IN`] is valid.
const TRIES: usize = 50 * ONE_IN;
const ONE_IN: usize = 20;

/// What a policy of this kind may look like, valid or not.
fn a_spec(kind: &Kind, child: Option<&Kind>, rng: &mut Rng) -> DisciplineSpec {
    Drawing { rng, names: 0 }.discipline(kind, child, 0)
}

#[allow(dead_code, reason = "one test judges the drawing itself")]
/// That enough of what is drawn is valid.
pub fn are_seldom_refused(registry: &Registry, kind: &Kind, child: Option<&Kind>, seed: Seed) {
    let mut rng = seed.stream();
    let draws = 600;
    let valid = (0..draws)
        .filter(|_| a_spec(kind, child, &mut rng).check(registry, LINK).is_ok())
        .count();
    let child = child.map(|child| child.name);
    assert!(
        valid * ONE_IN >= draws,
        "of {draws} policies of kind `{}` over {child:?} only {valid} are valid: tie settings that exclude or \
         need others, in TIES in tests/contract/policies.rs",
        kind.name
    );
}

/// A random policy of any kind or pair.
#[allow(dead_code, reason = "of the contract alone")]
pub fn draw_any(registry: &Registry, seed: Seed) -> Policy {
    let (kinds, mut rng): (Vec<&'static Kind>, _) = (registry.kinds().collect(), seed.stream());
    let mut any = || kinds[rng.below(kinds.len() as u64) as usize];
    let (kind, child) = (any(), any());
    let child = (kind.children != Children::None).then_some(child);
    draw(registry, kind, child, seed)
}

/// A random valid policy of this kind, with `child` below it; without one, with plain queues.
#[allow(dead_code, reason = "some tests draw policies for links of their own")]
pub fn draw(registry: &Registry, kind: &Kind, child: Option<&Kind>, seed: Seed) -> Policy {
    draw_for(registry, LINK, kind, child, seed)
}

/// The same for a link with the bandwidth of [`LINK`].
pub fn draw_for(registry: &Registry, link: Link, kind: &Kind, child: Option<&Kind>, seed: Seed) -> Policy {
    let mut rng = seed.stream();
    let mut refused = Vec::new();
    for _ in 0..TRIES {
        let spec = a_spec(kind, child, &mut rng);
        match spec.check(registry, link) {
            Ok(plan) => {
                let change = |_| changed(registry, &spec, &mut rng, 0).check(registry, link).ok();
                let other = (0..100).find_map(change).unwrap_or_else(|| plan.clone());
                return Policy { spec, plan, other };
            }
            Err(problems) => refused = problems,
        }
    }
    panic!(
        "{TRIES} random policies of kind `{}` over {:?} were all refused, the last for {refused:?}: narrow the values \
         in VALUES in tests/contract/policies.rs",
        kind.name,
        child.map(|child| child.name)
    );
}
