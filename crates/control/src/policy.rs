//! A policy: TOML text → a checked plan for every interface, or every mistake in it.
//!
//! ```toml
//! version = 1
//! [port]
//! between = ["lan0", "wan0"]
//! [interface.wan0]                # what leaves by wan0
//! bandwidth = "20 Mbit/s"
//! discipline = "fifo"
//! ```
//!
//! Quantities carry their unit in quotes; a key that is not known is a mistake and never ignored.
//! What a discipline or a class may say is declared by its kind in the engine; nothing of it is
//! repeated here.

use crate::diagnostics::{Diagnostics, Severity};
use crate::documents::Document;
use crate::filters;
use crate::port_config::{self, PortConfig};
use crate::rsvp_config::{self, RsvpConfig};
use crate::sections::{self, Section, TomlValue};
use crate::yields::{self, Yields, YieldsSettings};
use engine::disciplines::DEFAULT_LEAF;
use engine::kind::{Children, Kind};
use engine::link::Link;
use engine::port_kind::{Attachment, PortKind};
use engine::reserved::{Reservable, ReserveSettings};
use engine::settings;
use engine::settings::{Problem, Raw, Span, unknown};
use engine::tree::{ClassSpec, DisciplineSpec, Registry, TreePlan};
use engine::units::{Bandwidth, Bytes, Rate};

settings! {
    /// The settings of an interface.
    pub struct InterfaceSettings {
        /// The rate of the link behind it: what leaves is held to this
        bandwidth: Bandwidth = required,
            "too large: the queue builds up elsewhere, where no policy rules; too small: the link idles",
            "measure the link; take a few per cent less";
        /// What the link adds to each frame beyond what the interface shows
        overhead: Bytes = default "0 B",
            "too small: small packets overload the link; too large: the link idles",
            "0 B counts frames as the interface shows them, Ethernet header included";
        /// The longest frame, without overhead
        max_frame: Bytes = default "1514 B",
            "too small: limits may be less than a frame; too large: they are laxer than needed",
            "Ethernet's 1500 B and its header";
    }
}

settings! {
    /// What the senders of a class promise: `sends = { rate = "2 Mbit/s", burst = "12 kB" }`.
    pub struct SendsSettings {
        /// What they send at most, in the long run
        rate: Rate = required, "too small: the bound does not hold", "what the senders state";
        /// What they send at most at once, beyond that
        burst: Bytes = required, "too small: the bound does not hold", "what the senders state";
    }
}

/// A policy that may be applied: everything in it has been checked.
#[derive(Clone, Debug)]
pub struct Policy {
    /// How and where packets are moved; none in a policy for a lab or a simulation.
    pub port: Option<PortConfig>,
    /// Where RSVP is spoken, if it is.
    pub rsvp: Option<RsvpConfig>,
    /// One for each direction that is managed.
    pub interfaces: Vec<InterfacePolicy>,
    /// What is legal and may surprise.
    pub warnings: Diagnostics,
}

/// The policy of what leaves by one interface.
#[derive(Clone, Debug)]
pub struct InterfacePolicy {
    /// Its name.
    pub name: String,
    /// The link's facts.
    pub settings: InterfaceSettings,
    /// The tree as asked for, which a change at run time amends.
    pub spec: DisciplineSpec,
    /// The tree as checked.
    pub plan: TreePlan,
    /// Which packets go into which class.
    pub filters: Vec<engine::classify::Filter>,
    /// What of it may be reserved, if anything.
    pub reserve: Option<Reserve>,
    /// Classes whose downloads yield, in the policy's order.
    pub yields: Vec<Yields>,
}

/// What of an interface may be reserved.
#[derive(Clone, Debug)]
pub struct Reserve {
    /// As the policy says.
    pub settings: ReserveSettings,
    /// Where it says so.
    pub at: Span,
    /// The tree with room for reservations.
    pub room: Reservable,
}

impl Policy {
    /// Reads and checks a policy for a caller that can open these kinds of port; without any, a
    /// simulation, `kind` of `[port]` and its own settings are not looked at.
    ///
    /// # Errors
    /// With every mistake in it.
    pub fn read(
        path: &str,
        text: &str,
        registry: &Registry,
        ports: &[&'static PortKind],
    ) -> Result<Self, Diagnostics> {
        let mut reader = PolicyReader::new(registry);
        let mut syntax = Vec::new();
        let read = sections::parse(text, &mut syntax, |root, problems| {
            let read = reader.policy(&root, ports);
            problems.append(&mut reader.problems);
            read
        });
        let mut diagnostics = Diagnostics::new(path, text);
        diagnostics.fill(Severity::Mistake, syntax);
        diagnostics.fill(Severity::Warning, reader.warnings);
        match read {
            Some((port, rsvp, interfaces)) if diagnostics.mistakes() == 0 => Ok(Self {
                port,
                rsvp,
                interfaces,
                warnings: diagnostics,
            }),
            _ => Err(diagnostics),
        }
    }

    /// The policy of what leaves by this interface.
    pub fn interface(&self, name: &str) -> Option<&InterfacePolicy> {
        self.interfaces.iter().find(|interface| interface.name == name)
    }
}

impl InterfacePolicy {
    /// The link, in the basis in which packets are counted.
    pub fn link(&self) -> Link {
        self.plan.link
    }

    /// The same interface behind a device that holds so many packets, checked as a whole.
    ///
    /// # Errors
    /// Every promise that such a device would break.
    pub fn behind(&self, registry: &Registry, ring: u32) -> Result<Self, Vec<Problem>> {
        self.checked(registry, self.spec.clone(), self.link().with_ring(ring))
    }

    /// The same interface with settings of one class changed, checked as a whole; nothing changes
    /// if the new tree has a fault. The problems' places mean nothing, since the change stands in
    /// no file.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such class, the new tree has a fault, or the reservations do
    /// not fit it.
    pub fn with_class_settings(
        &self,
        registry: &Registry,
        class: &str,
        changes: &[(&str, Raw)],
    ) -> Result<Self, Vec<Problem>> {
        let mut spec = self.spec.clone();
        let Some(found) = find_class(&mut spec, class) else {
            let names = self.plan.classes.iter().map(|c| c.name.as_str());
            return Err(vec![unknown("class", class, Span::default(), names)]);
        };
        for (key, value) in changes {
            found.settings = std::mem::take(&mut found.settings).with(key, value.clone());
        }
        self.checked(registry, spec, self.link())
    }

    fn checked(&self, registry: &Registry, spec: DisciplineSpec, link: Link) -> Result<Self, Vec<Problem>> {
        let plan = spec.check(registry, link)?;
        let reserve = match &self.reserve {
            Some(Reserve { settings, at, .. }) => Some(Reserve {
                room: Reservable::new(registry, &spec, link, settings, *at)?,
                settings: settings.clone(),
                at: *at,
            }),
            None => None,
        };
        Ok(Self {
            spec,
            plan,
            reserve,
            ..self.clone()
        })
    }
}

/// Warns where a kind that guarantees delays stands below one that holds packets back or has others
/// before them: it promises as if it were alone on the link.
fn warn_of_promises_below(spec: &DisciplineSpec, registry: &Registry, warnings: &mut Vec<Problem>) {
    let properties = |spec: &DisciplineSpec| registry.find(&spec.kind).map(|kind| kind.properties);
    let adds_no_delay = properties(spec).is_some_and(|outer| outer.adds_no_delay);
    let below = spec.classes.iter().filter_map(|class| class.discipline.as_ref());
    for inner in below.chain(spec.child.as_deref()) {
        if !adds_no_delay && properties(inner).is_some_and(|inner| inner.guarantees_delays) {
            let message = format!(
                "`{}` stands below `{}`, and counts nothing of what that adds: its delays are not sure",
                inner.kind, spec.kind
            );
            let help = format!(
                "make `{}` the interface's discipline, and put others into its best-effort classes",
                inner.kind
            );
            warnings.push(Problem::new(inner.at, message).help(help));
        }
        warn_of_promises_below(inner, registry, warnings);
    }
}

fn link(settings: &InterfaceSettings, ring: u32) -> Link {
    Link::new(settings.bandwidth, settings.max_frame + settings.overhead)
        .with_overhead(settings.overhead)
        .with_ring(ring)
}

/// Packets that the device of a port holds; without a port the one on the wire alone.
fn ring(port: Option<&PortConfig>) -> u32 {
    port.map_or(1, |port| port.settings.transmit_ring)
}

fn find_class<'a>(spec: &'a mut DisciplineSpec, name: &str) -> Option<&'a mut ClassSpec> {
    if let Some(index) = spec.classes.iter().position(|class| class.name == name) {
        return spec.classes.get_mut(index);
    }
    let inner = spec
        .classes
        .iter_mut()
        .filter_map(|class| class.discipline.as_mut());
    let below = spec.child.as_deref_mut();
    inner.chain(below).find_map(|spec| find_class(spec, name))
}

/// What a policy is made of.
type Whole = (Option<PortConfig>, Option<RsvpConfig>, Vec<InterfacePolicy>);

/// Reads the parts of a policy, of a topology or of a scenario that they share, and gathers what is
/// wrong with them.
#[derive(Debug)]
pub struct PolicyReader<'a> {
    registry: &'a Registry,
    /// Mistakes so far.
    pub problems: Vec<Problem>,
    /// Warnings so far.
    pub warnings: Vec<Problem>,
    /// Of the interface that is being read.
    yields: Vec<Yields>,
}

const ROOT: &[&str] = &["version", "port", "rsvp", "interface"];
const OF_INTERFACE: &[&str] = &["discipline", "class", "filter", "reserve"];
const OF_DISCIPLINE: &[&str] = &["kind", "child", "class"];
const OF_CLASS: &[&str] = &["name", "parent", "default", "discipline", "sends", "yields"];

impl<'a> PolicyReader<'a> {
    /// Reads with these kinds of disciplines.
    pub fn new(registry: &'a Registry) -> Self {
        Self {
            registry,
            problems: Vec::new(),
            warnings: Vec::new(),
            yields: Vec::new(),
        }
    }

    fn policy(&mut self, root: &Section<'_>, ports: &[&'static PortKind]) -> Option<Whole> {
        if let Some(other) = Document::Policy.refuse_others(root) {
            self.problems.push(other);
            return None;
        }
        for pair in root.iter().filter(|pair| !ROOT.contains(&pair.key)) {
            let what = if pair.value.section().is_some() {
                "section"
            } else {
                "setting"
            };
            self.problems
                .push(unknown(what, pair.key, pair.key_at, ROOT.iter().copied()));
        }
        self.version(root);
        let port = root
            .section("port", &mut self.problems)
            .map(|section| port_config::read(&section, ports, &mut self.problems, &mut self.warnings));
        let rsvp = root
            .section("rsvp", &mut self.problems)
            .map(|section| rsvp_config::read(&section, &mut self.problems));
        let mut interfaces = Vec::new();
        match root.get("interface") {
            None => self.problems.push(
                Problem::new(root.at, "no interface is managed")
                    .help("write a section such as [interface.wan0] with `bandwidth` and `discipline`"),
            ),
            Some(_) => {
                let sections = root.section("interface", &mut self.problems)?;
                for pair in sections.iter() {
                    self.of_the_port(pair.key, pair.key_at, port.as_ref().and_then(Option::as_ref));
                    let ring = ring(port.as_ref().and_then(Option::as_ref));
                    let interface = self.interface(pair.key, &pair.value, ring);
                    self.warn_of_idle(interface.as_ref(), port.as_ref().and_then(Option::as_ref));
                    interfaces.push(interface);
                }
            }
        }
        let interfaces = interfaces.into_iter().collect::<Option<Vec<_>>>()?;
        let port = port.map_or(Some(None), |port| port.map(Some))?;
        let rsvp = rsvp.map_or(Some(None), |rsvp| rsvp.map(Some))?;
        let at = root.get("rsvp").map_or(root.at, |pair| pair.key_at);
        self.together(port.as_ref(), rsvp.as_ref().map(|rsvp| (rsvp, at)), &interfaces);
        Some((port, rsvp, interfaces))
    }

    /// RSVP, the port and what may be reserved fit each other.
    fn together(
        &mut self,
        port: Option<&PortConfig>,
        rsvp: Option<(&RsvpConfig, Span)>,
        interfaces: &[InterfacePolicy],
    ) {
        let reservable = interfaces
            .iter()
            .filter_map(|interface| Some((&interface.name, interface.reserve.as_ref()?.at)));
        for (name, at) in reservable {
            match rsvp {
                None => self.warnings.push(
                    Problem::new(at, "nothing is reserved here: the policy has no [rsvp] section").help(
                        format!("write one with `interfaces = [\"{name}\"]` and those that senders come by"),
                    ),
                ),
                Some((rsvp, _)) if !rsvp.interfaces.contains(name) => self.problems.push(
                    Problem::new(
                        at,
                        format!("RSVP is not spoken on `{name}`, so nothing can be reserved there"),
                    )
                    .help("add it to `interfaces` of [rsvp]"),
                ),
                Some(_) => {}
            }
        }
        if let (Some((_, at)), Some(port)) = (rsvp, port)
            && !matches!(port.attachment, Attachment::Egress(_))
        {
            let problem = Problem::new(
                at,
                "RSVP is spoken by routers and hosts, and this port is neither",
            );
            self.problems
                .push(problem.help("let the kernel route, and manage what it sends: `egress = \"wan0\"`"));
        }
    }

    /// Refuses another version than 1.
    pub fn version(&mut self, root: &Section<'_>) {
        let Some(pair) = root.get("version") else {
            let problem = Problem::new(root.at, "`version` is missing");
            self.problems
                .push(problem.help("start the policy with `version = 1`"));
            return;
        };
        if pair.value.raw() != Raw::Integer(1) {
            let problem = pair.value.wrong("`version`: expected 1");
            self.problems
                .push(problem.help("this program reads version 1 of the format"));
        }
    }

    /// Refuses an interface by which the port cannot send.
    fn of_the_port(&mut self, name: &str, at: Span, port: Option<&PortConfig>) {
        if let Some(why) = port_config::wrong_interface_name(name) {
            self.problems.push(Problem::new(at, why));
            return;
        }
        let interfaces = port.map(PortConfig::interfaces).unwrap_or_default();
        if !interfaces.is_empty() && !interfaces.contains(&name) {
            self.problems
                .push(unknown("interface of the port", name, at, interfaces));
        }
    }

    /// Warns where nothing yields, as nobody who could hold windows sees them.
    fn warn_of_idle(&mut self, interface: Option<&InterfacePolicy>, port: Option<&PortConfig>) {
        let idle = interface.zip(yields::idle(port));
        for (yields, why) in idle
            .iter()
            .flat_map(|(interface, why)| interface.yields.iter().map(move |y| (y, why)))
        {
            let message = format!("`{}` does not yield: {why}", yields.class);
            self.warnings.push(Problem::new(yields.at, message));
        }
    }

    /// One section of an interface, whose device holds so many packets.
    pub fn interface(&mut self, name: &str, value: &TomlValue<'_>, ring: u32) -> Option<InterfacePolicy> {
        let Some(section) = value.section() else {
            let expected = format!("expected a section [interface.{name}]");
            self.problems.push(value.wrong(&expected));
            return None;
        };
        let before = self.problems.len();
        self.yields.clear();
        let settings = InterfaceSettings::read(&section.table(|_| true), OF_INTERFACE, &mut self.problems);
        let settings = settings.and_then(|settings| self.sensible(settings, &section));
        let spec = self.outermost(name, &section);
        let filters = section.sections("filter", &format!("interface.{name}.filter"), &mut self.problems);
        let spec = spec?;
        // A tree can be checked only for a link; for want of one, take a fast one that no sum
        // exceeds.
        let assumed = Link::new(Bandwidth::gbit(800), Bytes::new(1514));
        let link = settings.as_ref().map_or(assumed, |settings| link(settings, ring));
        let plan = match spec.check(self.registry, link) {
            Ok(plan) => Some(plan),
            Err(mut problems) => {
                self.problems.append(&mut problems);
                None
            }
        };
        let reserve = self.reserve(&section, &spec, link, plan.is_some());
        let mut warnings = Vec::new();
        let filters = filters::read_all(&filters, &spec, plan.as_ref(), &mut self.problems, &mut warnings);
        let yields = std::mem::take(&mut self.yields);
        for (yields, plan) in yields.iter().zip(plan.iter().cycle()) {
            self.problems.extend(yields.mistakes(plan, link.bandwidth));
            warnings.extend(yields.warnings(plan, &filters, link.bandwidth));
        }
        if self.problems.len() > before {
            return None;
        }
        // Only now: beside mistakes, most warnings are their consequences.
        self.warnings.append(&mut warnings);
        self.warnings
            .extend(plan.iter().flat_map(|plan| plan.notices.clone()));
        warn_of_promises_below(&spec, self.registry, &mut self.warnings);
        Some(InterfacePolicy {
            name: name.into(),
            settings: settings?,
            spec,
            plan: plan?,
            filters,
            reserve,
            yields,
        })
    }

    /// What of an interface may be reserved. A tree that is wrong anyhow is not asked for room.
    fn reserve(
        &mut self,
        section: &Section<'_>,
        spec: &DisciplineSpec,
        link: Link,
        sound: bool,
    ) -> Option<Reserve> {
        let at = section.get("reserve")?.value.at;
        let own = section.section("reserve", &mut self.problems)?;
        let settings = ReserveSettings::read(&own.table(|_| true), &[], &mut self.problems)?;
        if !sound {
            return None;
        }
        match Reservable::new(self.registry, spec, link, &settings, at) {
            Ok(room) => Some(Reserve { settings, at, room }),
            Err(mut problems) => {
                self.problems.append(&mut problems);
                None
            }
        }
    }

    fn sensible(&mut self, settings: InterfaceSettings, section: &Section<'_>) -> Option<InterfaceSettings> {
        let at = |key: &str| section.get(key).map_or(section.at, |pair| pair.value.at);
        let before = self.problems.len();
        if settings.bandwidth < Bandwidth::kbit(8) || settings.bandwidth > Bandwidth::gbit(800) {
            let message = "`bandwidth` must be from 8 kbit/s to 800 Gbit/s";
            self.problems.push(Problem::new(at("bandwidth"), message));
        }
        if settings.max_frame < Bytes::new(60) || settings.max_frame > Bytes::new(65_549) {
            let message = "`max_frame` must be from 60 B to 65549 B";
            self.problems.push(Problem::new(at("max_frame"), message));
        }
        if settings.overhead > Bytes::new(512) {
            self.problems.push(
                Problem::new(at("overhead"), "`overhead` must be at most 512 B")
                    .help("it is what the link adds to each frame, such as \"24 B\" for Ethernet's preamble, FCS and gap"),
            );
        }
        (self.problems.len() == before).then_some(settings)
    }

    /// The discipline of the interface with the interface's classes in it.
    fn outermost(&mut self, name: &str, section: &Section<'_>) -> Option<DisciplineSpec> {
        let has_classes = section.get("class").is_some();
        let mut spec = match section.get("discipline") {
            Some(pair) => self.discipline(&pair.value)?,
            None if has_classes => {
                let classful = |kind: &&Kind| matches!(kind.children, Children::Classes { .. });
                let kind = self
                    .registry
                    .kinds()
                    .find(classful)
                    .map_or(DEFAULT_LEAF.name, |kind| kind.name);
                let message = "`discipline` is missing: classes need one that has classes";
                let problem = Problem::new(section.at, message);
                self.problems
                    .push(problem.help(format!("write `discipline = \"{kind}\"`")));
                // The classes are still checked, as that discipline would.
                DisciplineSpec {
                    at: section.at,
                    ..DisciplineSpec::new(kind)
                }
            }
            None => DisciplineSpec::default_leaf(section.at),
        };
        if has_classes {
            // Of a RED over CBQ the classes are CBQ's.
            let mut holder = &mut spec;
            while self
                .kind(holder)
                .is_some_and(|kind| kind.children == Children::One)
            {
                match holder.child {
                    Some(ref mut child) => holder = child,
                    None => break,
                }
            }
            let kind = self.kind(holder);
            let sections = section.sections("class", &format!("interface.{name}.class"), &mut self.problems);
            let classes = self.classes(&sections, kind);
            holder.classes.extend(classes);
        }
        Some(spec)
    }

    fn kind(&self, spec: &DisciplineSpec) -> Option<&'static Kind> {
        self.registry.find(&spec.kind)
    }

    /// A discipline: its kind alone, or a table.
    fn discipline(&mut self, value: &TomlValue<'_>) -> Option<DisciplineSpec> {
        if let Some(kind) = value.value.as_str() {
            let settings = settings::Table {
                at: value.at,
                ..Default::default()
            };
            return Some(DisciplineSpec {
                at: value.at,
                settings,
                ..DisciplineSpec::new(kind)
            });
        }
        let Some(section) = value.section() else {
            let expected = "expected a discipline such as \"fifo\" or { kind = \"fifo\", limit = 50 }";
            self.problems.push(value.wrong(expected));
            return None;
        };
        let Some((name, at)) = section.text("kind", &mut self.problems) else {
            if section.get("kind").is_none() {
                let names: Vec<_> = self.registry.kinds().map(|kind| kind.name).collect();
                let message = format!("`kind` is missing: one of {}", names.join(", "));
                self.problems.push(Problem::new(section.at, message));
            }
            return None;
        };
        let kind = self.registry.find(name);
        let former: Vec<&str> = kind
            .iter()
            .flat_map(|kind| kind.properties.former)
            .map(|(key, _)| *key)
            .collect();
        let settings = self.known(
            &section,
            at,
            OF_DISCIPLINE,
            kind.map(|kind| kind.settings),
            &former,
        );
        let child = match section.get("child") {
            Some(pair) => Some(Box::new(self.discipline(&pair.value)?)),
            None => None,
        };
        let sections = section.sections("class", "….discipline.class", &mut self.problems);
        let classes = self.classes(&sections, kind);
        Some(DisciplineSpec {
            kind: name.into(),
            at,
            settings,
            child,
            classes,
        })
    }

    /// The settings of a section without the generic keys; refuses what its kind does not declare.
    /// What it declared in a `former` release goes through: the tree's check says what became of
    /// it.
    fn known(
        &mut self,
        section: &Section<'_>,
        at: Span,
        generic: &[&str],
        declared: Option<&[settings::Setting]>,
        former: &[&str],
    ) -> settings::Table {
        let is_declared = |key: &str| {
            former.contains(&key)
                || declared.is_none_or(|settings| settings.iter().any(|setting| setting.name == key))
        };
        for pair in section.iter() {
            if !generic.contains(&pair.key) && !is_declared(pair.key) {
                let names = declared.unwrap_or_default().iter().map(|setting| setting.name);
                let known = names.chain(generic.iter().copied());
                self.problems
                    .push(unknown("setting", pair.key, pair.key_at, known));
            }
        }
        let mut table = section.table(|key| !generic.contains(&key) && is_declared(key));
        table.at = at;
        // The kind finds the same once the tree is whole; here also where it is not.
        settings::refuse_wrong(&table, declared.unwrap_or_default(), &mut self.problems);
        table
    }

    fn classes(&mut self, sections: &[Section<'_>], kind: Option<&'static Kind>) -> Vec<ClassSpec> {
        let mut classes = Vec::with_capacity(sections.len());
        for (index, section) in sections.iter().enumerate() {
            classes.push(self.class(section, index, kind));
        }
        classes
    }

    fn class(&mut self, section: &Section<'_>, index: usize, kind: Option<&'static Kind>) -> ClassSpec {
        let (name, at) = self.class_name(section, index);
        let declared = kind.map(|kind| kind.class_settings);
        // A class of a discipline without classes is refused as a whole, so not for its settings
        // too.
        let declared =
            declared.filter(|_| kind.is_some_and(|k| matches!(k.children, Children::Classes { .. })));
        let settings = self.known(section, at, OF_CLASS, declared, &[]);
        let parent = section
            .text("parent", &mut self.problems)
            .map(|(name, at)| (name.to_owned(), at));
        let default = section.get("default").is_some_and(|pair| {
            let value = pair.value.value.as_bool();
            if value.is_none() {
                let problem = pair
                    .value
                    .wrong("`default`: expected true or false, without quotes");
                self.problems.push(problem);
            }
            value.unwrap_or(false)
        });
        let discipline = section
            .get("discipline")
            .and_then(|pair| self.discipline(&pair.value));
        let sends = section
            .section("sends", &mut self.problems)
            .and_then(|sends| SendsSettings::read(&sends.table(|_| true), &[], &mut self.problems));
        if let Some(pair) = section.get("yields")
            && let Some(own) = section.section("yields", &mut self.problems)
            && let Some(settings) = YieldsSettings::read(&own.table(|_| true), &[], &mut self.problems)
        {
            self.yields.push(Yields {
                class: name.clone(),
                at: pair.key_at,
                settings,
            });
        }
        ClassSpec {
            name,
            at,
            parent,
            default,
            settings,
            discipline,
            sends: sends.map(|sends| (sends.rate, sends.burst)),
        }
    }

    fn class_name(&mut self, section: &Section<'_>, index: usize) -> (String, Span) {
        let stand_in = (format!("class number {}", index + 1), section.at);
        let Some((name, at)) = section.text("name", &mut self.problems) else {
            if section.get("name").is_none() {
                let problem = Problem::new(section.at, "`name` is missing: every class has one");
                self.problems.push(problem.help("write `name = \"voice\"`"));
            }
            return stand_in;
        };
        if name.is_empty() || name.len() > 64 || name.contains(|c: char| c.is_whitespace() || c.is_control())
        {
            let message = "the name of a class has 1 to 64 bytes and no blanks";
            self.problems.push(Problem::new(at, message));
            return stand_in;
        }
        (name.into(), at)
    }
}
