//! A policy: TOML text → a checked plan for every interface, or all mistakes in it.
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
//! Quantities are strings with a unit. An unknown key is a mistake; it is never ignored. The
//! settings of a discipline and its classes are declared by its kind in the engine and are not
//! repeated here.

use crate::autorate::{self, AutorateConfig, Concerned};
use crate::diagnostics::{Diagnostics, Severity};
use crate::documents::Document;
use crate::expectations::{self, WatchedExpectation};
use crate::experienced::ExperienceSetting;
use crate::filter_list::FilterList;
use crate::filters;
use crate::port_config::{self, AttachedPort, PortConfig};
use crate::quota::Quota;
use crate::rsvp_config::{self, RsvpConfig};
use crate::sections::{self, Section};
use crate::values::{KeyValue, TomlValue};
use crate::yields::{self, Yields, YieldsSettings};
use engine::bounds::WorstCase;
use engine::disciplines::DEFAULT_LEAF;
use engine::framing::{Framing, Linklayer, MinimumUnit, Overhead};
use engine::kind::{Children, Kind};
use engine::link::{LONGEST_SUPER, Link};
use engine::packet::ClassId;
use engine::port_kind::{Attachment, PortKind, device};
use engine::reserved::{Reservable, ReserveSettings, ReservedLayout};
use engine::settings;
use engine::settings::SettingValue;
use engine::settings::{Problem, Raw, Span, nearest, unknown};
use engine::tree::{ArrivalCurveSpec, ClassInfo, ClassSpec, DisciplineSpec, ParentSpec, Registry, TreePlan};
use engine::units::{Bandwidth, Bytes, Duration, Rate};
use std::collections::HashSet;
use std::sync::Arc;

settings! {
    /// The settings of an interface.
    pub struct InterfaceSettings {
        /// The rate of the link behind it; the interface sends no faster
        bandwidth: Bandwidth = required,
            "too large: the queue builds up elsewhere, beyond the policy's control; too small: the link idles",
            "measure the link; take a few per cent less";
        /// What the link adds to each frame as the interface reports it, or leaves out
        overhead: Overhead = default "0 B",
            "too small: small packets overload the link; too large: the link idles",
            "0 B counts frames as the interface reports them, Ethernet header included";
        /// What a frame takes at least on the link, `overhead` included: the minimum packet unit
        mpu: MinimumUnit = default "0 B",
            "too small: acknowledgements and calls overload the link; too large: it idles",
            "0 B: as much as it has";
        /// In which units the link carries bytes: `atm` for ADSL, `ptm` for VDSL2
        linklayer: Linklayer = default "ethernet",
            "another than the line's: some packet sizes overload it, or it idles by up to 9 %",
            "the modem shows the line's";
        /// The longest frame, without overhead
        max_frame: Bytes = default "1514 B",
            "too small: limits may be less than a frame; too large: limits are looser than necessary",
            "Ethernet's 1500 B and its header";
        /// Whether hosts behind this one are seen in packets whose addresses it translates (NAT):
        /// fair shares, filters and `experience` are by their own addresses, in both directions
        nat: bool = default "false",
            "false on a router's line: all devices count as one; true elsewhere: a hash and a look for each packet",
            "only the host that translates addresses knows them";
        /// What is measured by the TCP connections that pass: round trips on both sides, and what
        /// had to be repeated
        experience: ExperienceSetting = default "off",
            "classes, hosts: some 200 instructions a packet and up to 25 MB; both directions must pass; hosts are those behind the interface, 1,024 at most",
            "what is not asked for costs nothing";
    }
}

impl InterfaceSettings {
    /// From a frame to what the link carries.
    pub fn framing(&self) -> Framing {
        Framing::of(self.overhead, self.mpu, self.linklayer)
    }
}

settings! {
    /// The arrival curve of a class: `sends = { rate = "2 Mbit/s", burst = "12 kB" }`.
    pub struct SendsSettings {
        /// The token rate: what they send at most in the long run
        rate: Rate = required, "too small: the bound does not hold", "what the senders state";
        /// The bucket depth: what they send at most at once, beyond the rate
        burst: Bytes = required, "too small: the bound does not hold", "what the senders state";
    }
}

/// A policy that has been checked completely.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The port; `None` in a policy for a lab or a simulation.
    pub port: Option<PortConfig>,
    /// The RSVP settings, if RSVP is enabled.
    pub rsvp: Option<RsvpConfig>,
    /// The managed interfaces, each for the packets that leave by it.
    pub interfaces: Vec<InterfacePolicy>,
    /// Warnings.
    pub warnings: Diagnostics,
}

/// The policy of the packets that leave by one interface.
#[derive(Clone, Debug)]
pub struct InterfacePolicy {
    /// Its name.
    pub name: String,
    /// The settings of the link.
    pub settings: InterfaceSettings,
    /// The tree as written; changes at run time amend it. One that runs has
    /// [places](ClassSpec::vacant) for classes that may come.
    pub spec: Arc<DisciplineSpec>,
    /// The checked tree.
    pub plan: TreePlan,
    /// Which packets go into which class.
    pub filters: Arc<FilterList>,
    /// What RSVP may reserve of it, if anything.
    pub reserve: Option<Reserve>,
    /// Classes whose downloads yield, in the policy's order.
    pub yields: Vec<Yields>,
    /// Classes that may carry so much in a day, a week or a month.
    pub quotas: Arc<[Quota]>,
    /// What it is expected to keep while it runs.
    pub expectations: Arc<[WatchedExpectation]>,
    /// How its rate follows a line that varies, if it does.
    pub autorate: Option<AutorateConfig>,
}

/// What RSVP may reserve of an interface.
#[derive(Clone, Debug)]
pub struct Reserve {
    /// The settings in the policy.
    pub settings: ReserveSettings,
    /// Their position in the policy.
    pub at: Span,
    /// The tree in which classes for reservations can be added.
    pub room: Reservable,
}

impl Policy {
    /// Reads and checks a policy for a caller that can open these kinds of port. With no kinds, as
    /// for a simulation, `kind` of `[port]` and the settings of kinds are not checked.
    ///
    /// # Errors
    ///
    /// Returns all mistakes in the policy.
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
                warnings: diagnostics.kept(),
            }),
            _ => Err(diagnostics),
        }
    }

    /// The policy of the packets that leave by this interface.
    pub fn interface(&self, name: &str) -> Option<&InterfacePolicy> {
        self.interfaces.iter().find(|interface| interface.name == name)
    }
}

impl InterfacePolicy {
    /// The link, in the basis in which this policy counts packets.
    pub fn link(&self) -> Link {
        self.plan.link
    }

    /// The rates that the policy guarantees to classes: what their settings `rate`, or `realtime`
    /// as a plain rate, say.
    pub fn guarantees(&self) -> Vec<(ClassId, Bandwidth)> {
        let specs = self.spec.class_specs();
        let classes = self.plan.classes.iter().zip(0..);
        let of = |(info, id): (&ClassInfo, u32)| {
            let class = specs.find(id as usize, &info.name)?;
            Some((ClassId(id), guarantee(class, self.settings.bandwidth)?))
        };
        classes.filter_map(of).collect()
    }

    /// The same interface with a transmit ring of `ring` packets; the whole tree is checked again.
    ///
    /// # Errors
    ///
    /// Returns every delay bound that this ring would violate.
    pub fn behind(&self, registry: &Registry, ring: u32) -> Result<Self, Vec<Problem>> {
        self.checked(registry, Arc::clone(&self.spec), self.link().with_ring(ring))
    }

    /// The same interface with changed settings of one class; the whole tree is checked. The
    /// positions of the problems have no meaning, since the change is not in a file.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such class, the new tree has a mistake, or the reservations
    /// do not fit into it.
    pub fn with_class_settings(
        &self,
        registry: &Registry,
        class: &str,
        changes: &[(&str, Raw)],
    ) -> Result<Self, Vec<Problem>> {
        if let Some(amended) = self.amended(class, |found| change_settings(found, changes)) {
            return Ok(amended);
        }
        let mut spec = DisciplineSpec::clone(&self.spec);
        let Some(found) = find_class(&mut spec, class) else {
            let named = self.plan.classes.iter().filter(|class| !class.vacant);
            let names = named.map(|class| class.name.as_str());
            return Err(vec![unknown("class", class, Span::default(), names)]);
        };
        change_settings(found, changes);
        self.checked(registry, Arc::new(spec), self.link())
    }

    /// The same interface with a change of the settings of one class, if it can be told without a
    /// look at the other classes that it is in order; in a time that hardly grows with their
    /// number.
    pub(crate) fn amended(&self, class: &str, change: impl FnOnce(&mut ClassSpec)) -> Option<Self> {
        // What can be reserved, and whether all fits into the least rate, follows from all classes.
        if self.reserve.is_some() || self.autorate.is_some() {
            return None;
        }
        let number = self.plan.class(class)?;
        let mut spec = DisciplineSpec::clone(&self.spec);
        let found = spec.classes.get_mut(number.0 as usize)?;
        if found.name != class || found.vacant {
            return None;
        }
        change(found);
        Some(Self {
            plan: self.plan.amended(&spec, number)?,
            spec: Arc::new(spec),
            ..self.clone()
        })
    }

    /// The rate that the policy guarantees to this class of the outermost discipline; `None` if it
    /// guarantees none, or the class is not one of these.
    pub fn guarantee(&self, class: ClassId) -> Option<Bandwidth> {
        guarantee(self.spec.classes.get(class.0 as usize)?, self.settings.bandwidth)
    }

    /// The same interface with reservations in its tree.
    pub fn with_reservations(&self, layout: ReservedLayout) -> Self {
        let ReservedLayout { spec, plan, filters } = layout;
        Self {
            spec: Arc::new(spec),
            plan,
            filters: Arc::new(filters.into()),
            ..self.clone()
        }
    }

    fn checked(
        &self,
        registry: &Registry,
        spec: Arc<DisciplineSpec>,
        link: Link,
    ) -> Result<Self, Vec<Problem>> {
        let plan = spec.check(registry, link)?;
        let reserve = match &self.reserve {
            Some(Reserve { settings, at, .. }) => Some(Reserve {
                room: Reservable::new(registry, &spec, link, settings, *at)?,
                settings: settings.clone(),
                at: *at,
            }),
            None => None,
        };
        let changed = Self {
            spec,
            plan,
            reserve,
            ..self.clone()
        };
        match changed.mistakes_of_autorate(registry) {
            mistakes if mistakes.is_empty() => Ok(changed),
            mistakes => Err(mistakes),
        }
    }

    fn mistakes_of_autorate(&self, registry: &Registry) -> Vec<Problem> {
        let Some(autorate) = &self.autorate else {
            return Vec::new();
        };
        let concerned = Concerned {
            spec: &self.spec,
            plan: &self.plan,
            stated: self.guarantees().into_iter().collect(),
            yields: !self.yields.is_empty(),
            reserves: self.reserve.is_some(),
        };
        autorate.mistakes(&concerned, registry)
    }

    /// What would be wrong once quotas are used up: all of them, or one.
    fn mistakes_of_quotas(&self, registry: &Registry) -> Vec<Problem> {
        let all: Vec<&Quota> = self
            .quotas
            .iter()
            .filter(|quota| !quota.then.is_empty())
            .collect();
        let Some(first) = all.first() else {
            return Vec::new();
        };
        let Err(together) = self.used_up(registry, &all) else {
            return Vec::new();
        };
        let mut alone = all
            .iter()
            .filter_map(|quota| Some((*quota, self.used_up(registry, &[*quota]).err()?)));
        let (quota, problems) = alone.next().unwrap_or((*first, together));
        let told = |problem: Problem| {
            let message = format!(
                "once the quota of `{}` is used up: {}",
                quota.class, problem.message
            );
            Problem::new(quota.at, message)
        };
        problems.into_iter().map(told).collect()
    }

    /// Refuses it if a class could not be given, once its quota is used up, what is stated for it
    /// then.
    ///
    /// # Errors
    ///
    /// Returns what would be wrong.
    pub fn refuse_wrong_then(&self, registry: &Registry) -> Result<(), Vec<Problem>> {
        let problems = self.mistakes_of_quotas(registry);
        if problems.is_empty() {
            Ok(())
        } else {
            Err(problems)
        }
    }

    /// The same interface with these quotas used up.
    fn used_up(&self, registry: &Registry, quotas: &[&Quota]) -> Result<Self, Vec<Problem>> {
        let mut spec = DisciplineSpec::clone(&self.spec);
        for quota in quotas {
            let changes = quota.then.iter().map(|(key, value)| (&**key, value.clone()));
            let changes: Vec<(&str, Raw)> = changes.collect();
            let number = self.plan.class(&quota.class).map_or(0, |class| class.0 as usize);
            match spec.classes.get_mut(number) {
                Some(class) if class.name == quota.class => change_settings(class, &changes),
                _ => find_class(&mut spec, &quota.class)
                    .into_iter()
                    .for_each(|class| change_settings(class, &changes)),
            }
        }
        self.checked(registry, Arc::new(spec), self.link())
    }

    /// The worst case of each class ([`TreePlan::bounds`]). None has a bound where the line varies.
    pub fn bounds(&self) -> Vec<WorstCase> {
        const VARIES: &str = "the line varies, and what was sent before `autorate` has followed waits in it";
        let mut cases = self.plan.bounds();
        if self.autorate.is_some() {
            cases.iter_mut().for_each(|case| case.bound = Err(VARIES.into()));
        }
        cases
    }

    /// The rate that is there whatever happens: the bandwidth, or what `autorate` may go down to.
    pub fn least_rate(&self) -> Bandwidth {
        let bandwidth = self.link().bandwidth;
        let autorate = self.autorate.as_ref();
        autorate.map_or(bandwidth, |autorate| autorate.bounds(bandwidth)[0])
    }
}

/// Hosts behind are seen in both directions of an interface, whichever of its sections says so.
fn translate_both_ways(interfaces: &mut [InterfacePolicy]) {
    let translating = interfaces.iter().filter(|one| one.settings.nat);
    let devices: Vec<String> = translating.map(|one| device(&one.name).to_owned()).collect();
    for one in interfaces {
        one.settings.nat = devices.iter().any(|name| name == device(&one.name));
    }
}

/// Warns where a kind that guarantees delays is below one that delays packets: its bounds assume
/// that it has the link for itself.
fn warn_of_nested_guarantees(spec: &DisciplineSpec, registry: &Registry, warnings: &mut Vec<Problem>) {
    let properties = |spec: &DisciplineSpec| registry.find(&spec.kind).map(|kind| kind.properties);
    let adds_no_delay = properties(spec).is_some_and(|outer| outer.adds_no_delay);
    let below = spec.classes.iter().filter_map(|class| class.discipline.as_ref());
    for inner in below.chain(spec.child.as_deref()) {
        if !adds_no_delay && properties(inner).is_some_and(|inner| inner.guarantees_delays) {
            let message = format!(
                "`{}` is below `{}`, whose delay its bounds do not include: they are not guaranteed",
                inner.kind, spec.kind
            );
            let help = format!(
                "make `{}` the interface's discipline, and put others into its best-effort classes",
                inner.kind
            );
            warnings.push(Problem::new(inner.at, message).help(help));
        }
        warn_of_nested_guarantees(inner, registry, warnings);
    }
}

fn default_leaf(at: Span) -> DisciplineSpec {
    DisciplineSpec {
        at,
        ..DisciplineSpec::of(DEFAULT_LEAF)
    }
}

/// What is between a policy's disciplines and the wire.
#[derive(Clone, Copy, Debug)]
pub struct Device {
    /// [`Link::ring`].
    pub ring: u32,
    /// [`Link::lateness`].
    pub lateness: Duration,
}

impl Device {
    /// A wire behind a queue of so many packets, and nobody who might be late.
    pub fn wire(ring: u32) -> Self {
        Self {
            ring,
            lateness: Duration::ZERO,
        }
    }

    /// That of a port; without one the packet on the wire.
    fn of(port: Option<&PortConfig>) -> Self {
        port.map_or(Self::wire(1), |port| Self {
            ring: port.settings.transmit_ring,
            lateness: port.settings.lateness,
        })
    }
}

fn link(settings: &InterfaceSettings, device: Device) -> Link {
    let framing = settings.framing();
    Link::new(settings.bandwidth, framing.on_wire(settings.max_frame))
        .with_framing(framing)
        .with_ring(device.ring)
        .with_lateness(device.lateness)
}

fn change_settings(class: &mut ClassSpec, changes: &[(&str, Raw)]) {
    for (key, value) in changes {
        class.settings = std::mem::take(&mut class.settings).with(key, value.clone());
    }
}

/// The rate that the settings of a class guarantee.
fn guarantee(class: &ClassSpec, link: Bandwidth) -> Option<Bandwidth> {
    let given = ["rate", "realtime"].iter();
    let given = given.filter_map(|key| class.settings.get(key)).next()?;
    Rate::from_raw(&given.value).ok().map(|rate| rate.on(link))
}

fn find_class<'a>(spec: &'a mut DisciplineSpec, name: &str) -> Option<&'a mut ClassSpec> {
    let is_meant = |class: &ClassSpec| class.name == name && !class.vacant;
    if let Some(index) = spec.classes.iter().position(is_meant) {
        return spec.classes.get_mut(index);
    }
    let inner = spec
        .classes
        .iter_mut()
        .filter_map(|class| class.discipline.as_mut());
    let below = spec.child.as_deref_mut();
    inner.chain(below).find_map(|spec| find_class(spec, name))
}

/// The parts of a policy.
type Whole = (Option<PortConfig>, Option<RsvpConfig>, Vec<InterfacePolicy>);

/// Reads the parts that policies, topologies and scenarios share, and collects their problems.
#[derive(Debug)]
pub struct PolicyReader<'a> {
    registry: &'a Registry,
    /// Mistakes so far.
    pub problems: Vec<Problem>,
    /// Warnings so far.
    pub warnings: Vec<Problem>,
    /// `yields` of the interface that is being read.
    yields: Vec<Yields>,
    /// And `quota`.
    quotas: Vec<Quota>,
}

const ROOT: &[&str] = &["version", "port", "rsvp", "interface"];
const OF_INTERFACE: &[&str] = &["discipline", "class", "filter", "reserve", "expect", "autorate"];
const OF_DISCIPLINE: &[&str] = &["kind", "child", "class"];
const OF_CLASS: &[&str] = &[
    "name",
    "parent",
    "default",
    "discipline",
    "sends",
    "yields",
    "quota",
];

impl<'a> PolicyReader<'a> {
    /// A reader that knows these kinds of disciplines.
    pub fn new(registry: &'a Registry) -> Self {
        Self {
            registry,
            problems: Vec::new(),
            warnings: Vec::new(),
            yields: Vec::new(),
            quotas: Vec::new(),
        }
    }

    fn policy(&mut self, root: &Section<'_>, ports: &[&'static PortKind]) -> Option<Whole> {
        if let Some(other) = Document::Policy.refuse_others(root) {
            self.problems.push(other);
            return None;
        }
        for pair in root.iter().filter(|pair| !ROOT.contains(&&*pair.key)) {
            let what = if pair.value.section().is_some() {
                "section"
            } else {
                "setting"
            };
            self.problems
                .push(unknown(what, &pair.key, pair.key_at, ROOT.iter().copied()));
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
            // A misspelt section has been told.
            None if root
                .iter()
                .any(|pair| nearest(&pair.key, ["interface"]).is_some()) => {}
            None => self.problems.push(
                Problem::new(root.at, "no interface is managed")
                    .help("write a section such as [interface.wan0] with `bandwidth` and `discipline`"),
            ),
            Some(_) => {
                let sections = root.section("interface", &mut self.problems)?;
                for pair in sections.iter() {
                    self.of_the_port(&pair.key, pair.key_at, port.as_ref().and_then(Option::as_ref));
                    let of_port = port.as_ref().and_then(Option::as_ref);
                    let interface = self.interface(&pair.key, &pair.value, Device::of(of_port));
                    self.warn_of_idle(interface.as_ref(), of_port);
                    self.refuse_lineless(interface.as_ref(), of_port);
                    self.refuse_nat_elsewhere(pair, of_port);
                    interfaces.push(interface);
                }
            }
        }
        let mut interfaces = interfaces.into_iter().collect::<Option<Vec<_>>>()?;
        translate_both_ways(&mut interfaces);
        let port = port.map_or(Some(None), |port| port.map(Some))?;
        let rsvp = rsvp.map_or(Some(None), |rsvp| rsvp.map(Some))?;
        let at = root.get("rsvp").map_or(root.at, |pair| pair.key_at);
        self.check_rsvp(port.as_ref(), rsvp.as_ref().map(|rsvp| (rsvp, at)), &interfaces);
        Some((port, rsvp, interfaces))
    }

    /// Checks that RSVP, the port and the reservable interfaces are consistent.
    fn check_rsvp(
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
                    Problem::new(
                        at,
                        "nothing can be reserved here: the policy has no [rsvp] section",
                    )
                    .help(format!(
                        "write one with `interfaces = [\"{name}\"]` and the interfaces towards the senders"
                    )),
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
        if let (Some((rsvp, at)), Some(port)) = (rsvp, port) {
            self.check_hops(port, rsvp, at);
        }
    }

    /// Checks that RSVP is spoken where the kernel routes: a port that forwards frames between two
    /// interfaces has no address that a neighbour could name as its hop.
    fn check_hops(&mut self, port: &PortConfig, rsvp: &RsvpConfig, at: Span) {
        let routes = |port: &AttachedPort| matches!(port.attachment, Attachment::Egress(_));
        let bridged = |name: &&String| port.of_interface(name).is_some_and(|port| !routes(port));
        let message = if !port.attached.iter().any(routes) {
            "RSVP is spoken by routers and hosts, and this port is neither".into()
        } else if let Some(name) = rsvp.interfaces.iter().find(bridged) {
            format!("RSVP is spoken by routers and hosts, and `{name}` is one end of a bump in the wire")
        } else {
            return;
        };
        let help = "let the kernel route, and manage what it sends: `egress = \"wan0\"`";
        self.problems.push(Problem::new(at, message).help(help));
    }

    /// Refuses versions other than 1.
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

    /// Refuses an interface that is not one of the port's.
    fn of_the_port(&mut self, name: &str, at: Span, port: Option<&PortConfig>) {
        if let Some(why) = port_config::wrong_interface_name(device(name)) {
            self.problems.push(Problem::new(at, why));
            return;
        }
        let interfaces = port.map(PortConfig::interfaces).unwrap_or_default();
        if !interfaces.is_empty() && !interfaces.contains(&name) {
            self.problems
                .push(unknown("interface of the port", name, at, interfaces));
        }
    }

    /// Warns of `yields` without effect: the port does not see both directions of connections,
    /// so
    /// windows cannot be clamped.
    fn warn_of_idle(&mut self, interface: Option<&InterfacePolicy>, port: Option<&PortConfig>) {
        let idle = interface.and_then(|found| Some((found, yields::idle(port, &found.name)?)));
        for (yields, why) in idle
            .iter()
            .flat_map(|(interface, why)| interface.yields.iter().map(move |y| (y, why)))
        {
            let message = format!("`{}` does not yield: {why}", yields.class);
            self.warnings.push(Problem::new(yields.at, message));
        }
    }

    /// Refuses `autorate` where there is no line.
    fn refuse_lineless(&mut self, interface: Option<&InterfacePolicy>, port: Option<&PortConfig>) {
        let found = interface.and_then(|found| Some((found, found.autorate.as_ref()?)));
        let port = found.and_then(|(found, _)| port?.of_interface(&found.name));
        let why = port.and_then(|port| autorate::no_line(&port.attachment));
        if let (Some((_, autorate)), Some(why)) = (found, why) {
            self.problems
                .push(Problem::new(autorate.at, format!("nothing to follow: {why}")));
        }
    }

    /// Refuses `nat` where it is not this host that translates.
    fn refuse_nat_elsewhere(&mut self, interface: &KeyValue<'_>, port: Option<&PortConfig>) {
        let said = interface.value.section().and_then(|section| section.get("nat"));
        let port = port.and_then(|port| port.of_interface(&interface.key));
        let (Some(said), Some(port)) = (said, port) else {
            return;
        };
        let elsewhere = match port.attachment {
            Attachment::Egress(_) | Attachment::Ingress(_) => return,
            Attachment::Between(..) => "this host bridges there, and another one translates addresses",
            Attachment::Files { .. } => "nobody translates the addresses of a file's packets",
        };
        let help =
            "leave it out, or manage the interface of the host that translates, by `egress` and `ingress`";
        self.problems
            .push(Problem::new(said.key_at, format!("no hosts behind: {elsewhere}")).help(help));
    }

    /// Reads the section of an interface with this device.
    pub fn interface(
        &mut self,
        name: &str,
        value: &TomlValue<'_>,
        device: Device,
    ) -> Option<InterfacePolicy> {
        let Some(section) = value.section() else {
            let expected = format!("expected a section [interface.{name}]");
            self.problems.push(value.wrong(&expected));
            return None;
        };
        let before = self.problems.len();
        self.yields.clear();
        self.quotas.clear();
        let settings = InterfaceSettings::read(&section.table(|_| true), OF_INTERFACE, &mut self.problems);
        let settings = settings.and_then(|settings| self.sensible(settings, &section));
        let spec = self.outermost(name, &section);
        // Read when the tree has been checked: those of very many classes take much memory.
        let header = format!("interface.{name}.filter");
        let filters = |problems: &mut Vec<Problem>| section.each_section("filter", &header, problems);
        let Some(spec) = spec else {
            let _ = filters(&mut self.problems);
            return None;
        };
        // A tree is checked against a link. Without one, assume a fast link, so that no sum of
        // rates exceeds it.
        let assumed = Link::new(Bandwidth::gbit(800), Bytes::new(1514));
        let link = settings
            .as_ref()
            .map_or(assumed, |settings| link(settings, device));
        let plan = match spec.check(self.registry, link) {
            Ok(plan) => Some(plan),
            Err(mut problems) => {
                self.problems.append(&mut problems);
                None
            }
        };
        let reserve = self.reserve(&section, &spec, link, plan.is_some());
        let mut warnings = Vec::new();
        let filters = filters(&mut self.problems);
        // Where reservations get their classes, packets come by those.
        let reserved = reserve
            .as_ref()
            .and_then(|reserve| reserve.settings.class.as_deref());
        let filters = filters::read_all(
            filters,
            &spec,
            plan.as_ref(),
            reserved,
            &mut self.problems,
            &mut warnings,
        );
        let header = format!("interface.{name}.expect");
        let expected = section.each_section("expect", &header, &mut self.problems);
        let experience = settings
            .as_ref()
            .map_or(ExperienceSetting::Off, |settings| settings.experience);
        let expected = expected
            .filter_map(|section| expectations::read(&section, plan.as_ref(), experience, &mut self.problems))
            .collect();
        let autorate = section.get("autorate").and_then(|pair| {
            let own = section.section("autorate", &mut self.problems)?;
            autorate::read(&own, pair.key_at, &mut self.problems)
        });
        let yields = std::mem::take(&mut self.yields);
        for (yields, plan) in yields.iter().zip(plan.iter().cycle()) {
            self.problems.extend(yields.mistakes(plan, link.bandwidth));
            warnings.extend(yields.warnings(plan, &filters, link.bandwidth));
        }
        if self.problems.len() > before {
            return None;
        }
        // Warn only without mistakes: otherwise most warnings would be consequences of those.
        self.warnings.append(&mut warnings);
        self.warnings
            .extend(plan.iter().flat_map(|plan| plan.notices.iter().cloned()));
        warn_of_nested_guarantees(&spec, self.registry, &mut self.warnings);
        let interface = InterfacePolicy {
            name: name.into(),
            settings: settings?,
            spec: Arc::new(spec),
            plan: plan?,
            filters: Arc::new(filters.into()),
            reserve,
            yields,
            quotas: std::mem::take(&mut self.quotas).into(),
            expectations: expected,
            autorate,
        };
        let mut mistakes = interface.mistakes_of_autorate(self.registry);
        mistakes.extend(interface.mistakes_of_quotas(self.registry));
        let sound = mistakes.is_empty();
        self.problems.extend(mistakes);
        sound.then_some(interface)
    }

    /// Reads what RSVP may reserve of an interface. Space in the tree is checked only if the
    /// tree is
    /// `sound`.
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
        if settings.max_frame < Bytes::new(60) || settings.max_frame > LONGEST_SUPER {
            let message = format!("`max_frame` must be from 60 B to {} B", LONGEST_SUPER.get());
            self.problems.push(Problem::new(at("max_frame"), message));
        }
        (self.problems.len() == before).then_some(settings)
    }

    /// Reads the discipline of the interface, with the interface's classes.
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
                // Check the classes as that discipline would.
                DisciplineSpec {
                    at: section.at,
                    ..DisciplineSpec::new(kind)
                }
            }
            None => default_leaf(section.at),
        };
        if has_classes {
            // If a discipline such as RED has CBQ as its child, the classes are those of CBQ.
            let mut parent = &mut spec;
            while self
                .kind(parent)
                .is_some_and(|kind| kind.children == Children::One)
            {
                match parent.child {
                    Some(ref mut child) => parent = child,
                    None => break,
                }
            }
            let kind = self.kind(parent);
            let sections =
                section.each_section("class", &format!("interface.{name}.class"), &mut self.problems);
            let classes = self.classes(sections, kind);
            parent.classes.extend(classes);
        }
        self.fill_leaves(&mut spec);
        Some(spec)
    }

    /// Gives each leaf for which no discipline is named the usual one: not where its length is
    /// computed, by its discipline or from what its senders promise.
    fn fill_leaves(&self, spec: &mut DisciplineSpec) {
        let plain = self
            .kind(spec)
            .is_none_or(|kind| kind.properties.needs_plain_queues);
        let parents = spec.classes.iter().filter_map(|class| class.parent.as_ref());
        let parents: HashSet<&str> = parents.map(|parent| parent.name.as_str()).collect();
        let interior = |class: &ClassSpec| parents.contains(class.name.as_str());
        let interior: Vec<bool> = spec.classes.iter().map(interior).collect();
        for (class, interior) in spec.classes.iter_mut().zip(interior) {
            self.fill_leaf(class, plain || interior);
        }
        if let Some(child) = &mut spec.child {
            self.fill_leaves(child);
        }
    }

    /// The same for a class: unless it is to stay plain.
    fn fill_leaf(&self, class: &mut ClassSpec, plain: bool) {
        match &mut class.discipline {
            Some(inner) => self.fill_leaves(inner),
            None if plain || class.sends.is_some() => {}
            none => *none = Some(default_leaf(class.at)),
        }
    }

    /// Reads a class of a discipline of this kind that has no classes below it, nor anything that
    /// concerns more than itself; `None` if it has, or a problem was reported.
    pub(crate) fn lone_class(&mut self, section: &Section<'_>, kind: &'static Kind) -> Option<ClassSpec> {
        let mut class = self.class(section, 0, Some(kind));
        self.fill_leaf(&mut class, kind.properties.needs_plain_queues);
        let alone = self.problems.is_empty() && self.yields.is_empty() && self.quotas.is_empty();
        alone.then_some(class)
    }

    fn kind(&self, spec: &DisciplineSpec) -> Option<&'static Kind> {
        self.registry.find(&spec.kind)
    }

    /// Reads a discipline: the name of its kind, or a table.
    fn discipline(&mut self, value: &TomlValue<'_>) -> Option<DisciplineSpec> {
        if let Some(kind) = value.value.as_str() {
            let settings = settings::Table {
                at: value.at,
                ..Default::default()
            };
            return Some(DisciplineSpec {
                at: value.at,
                settings,
                ..self
                    .registry
                    .find(kind)
                    .map_or_else(|| DisciplineSpec::new(kind), DisciplineSpec::of)
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
        let sections = section.each_section("class", "….discipline.class", &mut self.problems);
        let classes = self.classes(sections, kind);
        Some(DisciplineSpec {
            kind: name.to_owned().into(),
            at,
            settings,
            child,
            classes: classes.into(),
        })
    }

    /// The settings of a section without the generic keys. Refuses settings that its kind does not
    /// declare; `former` settings, declared by an earlier release, pass: the check of the tree
    /// reports their replacement.
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
            if !generic.contains(&&*pair.key) && !is_declared(&pair.key) {
                let names = declared.unwrap_or_default().iter().map(|setting| setting.name);
                let known = names.chain(generic.iter().copied());
                self.problems
                    .push(unknown("setting", &pair.key, pair.key_at, known));
            }
        }
        let mut table = section.table(|key| !generic.contains(&key) && is_declared(key));
        table.at = at;
        // The check of the tree reports the same, but runs only if the tree is complete.
        let declared = declared.unwrap_or_default();
        settings::refuse_wrong(&table, declared, &mut self.problems);
        table.declared_by(declared)
    }

    fn classes<'t>(
        &mut self,
        sections: impl Iterator<Item = Section<'t>>,
        kind: Option<&'static Kind>,
    ) -> Vec<ClassSpec> {
        let class = |(index, section): (usize, Section<'_>)| self.class(&section, index, kind);
        sections.enumerate().map(class).collect()
    }

    fn class(&mut self, section: &Section<'_>, index: usize, kind: Option<&'static Kind>) -> ClassSpec {
        let (name, at) = self.class_name(section, index);
        let declared = kind.map(|kind| kind.class_settings);
        // A class of a classless discipline is refused as a whole, not for its settings too.
        let declared =
            declared.filter(|_| kind.is_some_and(|k| matches!(k.children, Children::Classes { .. })));
        let settings = self.known(section, at, OF_CLASS, declared, &[]);
        let parent = section
            .text("parent", &mut self.problems)
            .map(|(name, at)| ParentSpec {
                name: name.to_owned(),
                at,
            });
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
        if let Some(pair) = section.get("quota")
            && let Some(own) = section.section("quota", &mut self.problems)
        {
            let declared = declared.unwrap_or_default();
            let quota = Quota::read(&own, (name.as_str(), pair.key_at), declared, &mut self.problems);
            self.quotas.extend(quota);
        }
        ClassSpec {
            vacant: false,
            name: name.into(),
            at,
            parent,
            default,
            settings,
            discipline,
            sends: sends.map(|sends| ArrivalCurveSpec {
                rate: sends.rate,
                burst: sends.burst,
            }),
        }
    }

    fn class_name(&mut self, section: &Section<'_>, index: usize) -> (String, Span) {
        let placeholder = (format!("class number {}", index + 1), section.at);
        let Some((name, at)) = section.text("name", &mut self.problems) else {
            if section.get("name").is_none() {
                let problem = Problem::new(section.at, "`name` is missing: every class has one");
                self.problems.push(problem.help("write `name = \"voice\"`"));
            }
            return placeholder;
        };
        if name.is_empty() || name.len() > 64 || name.contains(|c: char| c.is_whitespace() || c.is_control())
        {
            let message = "the name of a class has 1 to 64 bytes and no spaces";
            self.problems.push(Problem::new(at, message));
            return placeholder;
        }
        (name.into(), at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The discipline of each class of this interface, or none.
    fn leaves(interface: &str) -> Vec<Option<String>> {
        let text = format!("version = 1\n[interface.wan0]\nbandwidth = \"10 Mbit/s\"\n{interface}");
        let read = Policy::read("test", &text, &Registry::builtin(), &[]);
        let policy = read.unwrap_or_else(|mistakes| panic!("{text}{}", mistakes.render(false)));
        let [interface] = &*policy.interfaces else {
            panic!("one interface")
        };
        let kind = |class: &ClassSpec| class.discipline.as_ref().map(|spec| spec.kind.to_string());
        match interface.spec.classes.is_empty() {
            true => vec![Some(interface.spec.kind.to_string())],
            false => interface.spec.classes.iter().map(kind).collect(),
        }
    }

    #[test]
    fn nat_of_one_direction_is_that_of_both() {
        let text = "version = 1\n[interface.wan0]\nbandwidth = \"1 Mbit/s\"\nnat = true\n\
                    [interface.\"wan0:in\"]\nbandwidth = \"1 Mbit/s\"\n[interface.lan0]\nbandwidth = \"1 Mbit/s\"\n";
        let read = Policy::read("test", text, &Registry::builtin(), &[]);
        let policy = read.unwrap_or_else(|mistakes| panic!("{}", mistakes.render(false)));
        let nat: Vec<_> = policy
            .interfaces
            .iter()
            .map(|one| (&*one.name, one.settings.nat))
            .collect();
        assert_eq!(nat, [("wan0", true), ("wan0:in", true), ("lan0", false)]);
    }

    #[test]
    fn a_leaf_for_which_none_is_named_has_a_short_queue_for_each_flow() {
        let short = || Some(DEFAULT_LEAF.name.to_owned());
        assert_eq!(leaves(""), [short()]);
        let class = |rest: &str| format!("discipline = \"cbq\"\n{rest}");
        let two = class(
            "[[interface.wan0.class]]\nname = \"a\"\nrate = \"40 %\"\n\
             [[interface.wan0.class]]\nname = \"b\"\nparent = \"a\"\nrate = \"40 %\"\ndefault = true\n",
        );
        assert_eq!(leaves(&two), [None, short()]);
        let named = class(
            "[[interface.wan0.class]]\nname = \"a\"\nrate = \"40 %\"\ndefault = true\ndiscipline = \"red\"\n",
        );
        assert_eq!(leaves(&named), [Some("red".into())]);
    }

    #[test]
    fn a_queue_whose_length_is_computed_or_meant_stays_plain() {
        let sends = "discipline = \"drr\"\n[[interface.wan0.class]]\nname = \"a\"\ndefault = true\n\
                     sends = { rate = \"1 Mbit/s\", burst = \"3 kB\" }\n";
        let paced = "discipline = \"pacer\"\n[[interface.wan0.class]]\nname = \"a\"\ndefault = true\nrate = \"1 Mbit/s\"\n";
        let delayed = "discipline = \"ips\"\n[[interface.wan0.class]]\nname = \"a\"\ndefault = true\n";
        for text in [sends, paced, delayed] {
            assert_eq!(leaves(text), [None], "{text}");
        }
    }
}
