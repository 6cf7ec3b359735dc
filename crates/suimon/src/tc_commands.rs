//! A policy as the commands of tc(8) that come nearest to it, with what is lost as comments.
//!
//! Each interface has one tree below the handle `1:`; a class's minor number is its number in the
//! policy, from 2 on, since 1:1 is the link. `cbq`, `drr` and `wrr` become HTB: a rate that is
//! guaranteed, and a ceil up to which a class borrows. Filters become flower, one preference each,
//! since the lowest that matches decides there.
//!
//! What arrives is queued on an ifb device there: its commands are comments, since they are of
//! `ip`.

use control::filters;
use control::policy::{InterfacePolicy, Policy};
use engine::classify::{Filter, Ports};
use engine::framing::{Framing, Linklayer};
use engine::header::Family;
use engine::packet::ClassId;
use engine::port_kind::{device, received};
use engine::settings::{Raw, SettingValue};
use engine::tree::{ClassSpec, DisciplineSpec};
use engine::units::{Bandwidth, Bytes, Duration, Rate};
use std::fmt::Write;

/// Bytes of an Ethernet header: cake counts from the IP packet on.
const ETHERNET: i64 = 14;
/// The greatest preference of a filter.
const LAST: usize = 0xffff;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// The commands, to be read by `tc -batch`.
pub fn of(policy: &Policy, path: &str) -> String {
    let mut out = format!("# The kernel's commands nearest to {path}: tc -batch FILE\n");
    for interface in &policy.interfaces {
        let mut commands = Commands::new(interface);
        commands.interface();
        out += "\n";
        for lost in &commands.lost {
            let _ = writeln!(out, "# {}: lost: {lost}", interface.name);
        }
        out += &commands.text;
    }
    out
}

struct Commands<'a> {
    interface: &'a InterfacePolicy,
    /// The device whose qdisc it is.
    device: String,
    text: String,
    lost: Vec<String>,
}

/// What a discipline has in a setting.
fn setting<T: SettingValue>(table: &engine::settings::Table, key: &str) -> Option<T> {
    T::from_raw(&table.get(key)?.value).ok()
}

/// The minimum packet unit, where there is one.
fn mpu(framing: Framing) -> String {
    match framing.mpu().get() {
        0 => String::new(),
        least => format!(" mpu {least}"),
    }
}

fn tc_rate(rate: Bandwidth) -> String {
    format!("{}bit", rate.bits())
}

fn tc_time(time: Duration) -> String {
    format!("{}us", time.nanos().div_ceil(1_000))
}

impl<'a> Commands<'a> {
    fn new(interface: &'a InterfacePolicy) -> Self {
        let name = interface.name.as_str();
        let own = device(name);
        let mut text = String::new();
        let device = if name == received(own) {
            let ifb: String = format!("ifb-{own}").chars().take(15).collect();
            let _ = writeln!(
                text,
                "# ip link add {ifb} type ifb && ip link set {ifb} up\n\
                 # tc qdisc add dev {own} clsact\n\
                 # tc filter add dev {own} ingress matchall action mirred egress redirect dev {ifb}"
            );
            ifb
        } else {
            own.to_owned()
        };
        Self {
            interface,
            device,
            text,
            lost: Vec::new(),
        }
    }

    fn link(&self) -> Bandwidth {
        self.interface.settings.bandwidth
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn lost(&mut self, what: impl Into<String>) {
        let what = what.into();
        if !self.lost.contains(&what) {
            self.lost.push(what);
        }
    }

    fn qdisc(&mut self, place: &str, what: &str) {
        let line = format!("qdisc replace dev {} {place} {what}", self.device);
        self.line(&line);
    }

    fn class(&mut self, parent: &str, id: &str, what: &str) {
        let line = format!(
            "class replace dev {} parent {parent} classid {id} {what}",
            self.device
        );
        self.line(&line);
    }

    fn interface(&mut self) {
        let spec = &*self.interface.spec;
        if self.interface.autorate.is_some() {
            self.lost("`autorate`: the kernel's rate stays `bandwidth`");
        }
        match &*spec.kind {
            "cake"
                if setting::<Rate>(&spec.settings, "rate")
                    .is_none_or(|rate| rate.on(self.link()) == self.link()) =>
            {
                let framing = self.interface.settings.framing();
                let framing = match framing {
                    Framing::PLAIN => "raw".to_owned(),
                    // It counts the overhead from the IP packet on.
                    other => {
                        let overhead = i64::from(other.overhead().get()) + ETHERNET;
                        let units = match other.linklayer() {
                            Linklayer::Ethernet => "",
                            Linklayer::Atm => " atm",
                            Linklayer::Ptm => " ptm",
                        };
                        format!("overhead {overhead}{}{units}", mpu(other))
                    }
                };
                let rate = tc_rate(self.link());
                let what = self.cake(spec, &format!("bandwidth {rate}"));
                self.qdisc("root handle 1:", &format!("{what} {framing}"));
            }
            "priq" => self.priorities(spec),
            "hfsc" => self.curves(spec),
            "cbq" | "drr" | "wrr" => self.rates(spec),
            _ => {
                let ceil = tc_rate(self.link());
                self.qdisc("root handle 1:", "htb default 1");
                let what = format!("htb rate {ceil}{}", self.framing());
                self.class("1:", "1:1", &what);
                if !spec.classes.is_empty() {
                    self.lost(format!(
                        "the classes of `{}`, which the kernel has not",
                        spec.kind
                    ));
                    self.queue("parent 1:1", Some(&DisciplineSpec::new("fq_codel")));
                    return;
                }
                self.queue("parent 1:1", Some(spec));
            }
        }
        if !self.interface.spec.classes.is_empty() {
            self.filters();
        }
    }

    /// How HTB and its classes count a packet.
    fn framing(&mut self) -> String {
        let framing = self.interface.settings.framing();
        let overhead = match framing.overhead().get() {
            0 => String::new(),
            less @ ..0 => {
                self.lost(format!("`overhead` of {less} B: `htb` only adds; `stab` can"));
                String::new()
            }
            more => format!(" overhead {more}"),
        };
        let units = match framing.linklayer() {
            Linklayer::Ethernet => "",
            Linklayer::Atm => " linklayer atm",
            Linklayer::Ptm => {
                self.lost("`linklayer` ptm, which `htb` has not: take a bandwidth 1.6 % lower");
                ""
            }
        };
        format!("{overhead}{}{units}", mpu(framing))
    }

    /// The number of a class of the outermost discipline.
    fn number(&self, name: &str) -> Option<ClassId> {
        self.interface.plan.class(name)
    }

    fn id(&self, name: &str) -> String {
        let number = self.number(name).map_or(0, |id| id.0);
        format!("1:{:x}", number + 2)
    }

    fn default(&self) -> u32 {
        self.interface.plan.default.map_or(0, |id| id.0 + 2)
    }

    fn parent(&self, class: &ClassSpec) -> String {
        class
            .parent
            .as_ref()
            .map_or("1:1".into(), |parent| self.id(&parent.name))
    }

    fn is_leaf(&self, class: &ClassSpec) -> bool {
        let info = self
            .number(&class.name)
            .and_then(|id| self.interface.plan.info(id));
        info.is_some_and(|info| info.leaf)
    }

    /// Classes before those below them.
    fn in_order(&self, spec: &DisciplineSpec) -> Vec<ClassSpec> {
        let mut all: Vec<ClassSpec> = spec.classes.iter().cloned().collect();
        let depth = |class: &ClassSpec| {
            let mut depth = 0;
            let mut at = class.parent.as_ref().map(|parent| parent.name.clone());
            while let Some(name) = at.filter(|_| depth < 64) {
                depth += 1;
                let above = spec.classes.iter().find(|class| class.name == name);
                at = above
                    .and_then(|class| class.parent.as_ref())
                    .map(|parent| parent.name.clone());
            }
            depth
        };
        all.sort_by_cached_key(depth);
        all
    }

    /// `cbq`, `drr`, `wrr`: HTB.
    fn rates(&mut self, spec: &DisciplineSpec) {
        let link = self.link();
        let framing = self.framing();
        let whole = tc_rate(link);
        self.qdisc("root handle 1:", &format!("htb default {:x}", self.default()));
        self.class("1:", "1:1", &format!("htb rate {whole}{framing}"));
        let weight = |class: &ClassSpec| u64::from(setting::<u32>(&class.settings, "weight").unwrap_or(1));
        let weights: u64 = spec.classes.iter().map(weight).sum();
        if spec.kind != "cbq" {
            self.lost(format!(
                "turns of `{}`: each class has its part of the link as its rate",
                spec.kind
            ));
        }
        for class in self.in_order(spec) {
            let given = setting::<Rate>(&class.settings, "rate").map(|rate| rate.on(link));
            let part = Bandwidth::bits_per_sec(link.bits() / weights.max(1) * weight(&class));
            let rate = given.unwrap_or(if spec.kind == "cbq" { Bandwidth::ZERO } else { part });
            let rate = rate.max(Bandwidth::kbit(8));
            let borrows = setting::<bool>(&class.settings, "borrow").unwrap_or(true);
            let ceil = if borrows { link } else { rate };
            // There the smallest number is first.
            let priority = 7 - setting::<u32>(&class.settings, "priority").unwrap_or(1).min(7);
            let priority = if spec.kind == "cbq" {
                format!(" prio {priority}")
            } else {
                String::new()
            };
            let what = format!(
                "htb rate {} ceil {}{priority}{framing}",
                tc_rate(rate),
                tc_rate(ceil)
            );
            self.made(&class, &what);
        }
    }

    /// `hfsc`: the same there.
    fn curves(&mut self, spec: &DisciplineSpec) {
        let link = tc_rate(self.link());
        if self.interface.settings.framing() != Framing::PLAIN {
            self.lost("`overhead`, `mpu` and `linklayer`: `tc qdisc … stab` counts them");
        }
        self.qdisc("root handle 1:", &format!("hfsc default {:x}", self.default()));
        self.class("1:", "1:1", &format!("hfsc ls m2 {link} ul m2 {link}"));
        for class in self.in_order(spec) {
            let mut what = "hfsc".to_owned();
            let text = |key: &str| match class.settings.get(key).map(|entry| &entry.value) {
                Some(Raw::Text(text)) => Some(text.clone()),
                _ => None,
            };
            let share = text("linkshare").or_else(|| text("realtime"));
            for (word, given) in [
                ("rt", text("realtime")),
                ("ls", share),
                ("ul", text("upperlimit")),
            ] {
                let Some(given) = given.filter(|_| word != "rt" || self.is_leaf(&class)) else {
                    continue;
                };
                match self.curve(&given) {
                    Some(curve) => {
                        let _ = write!(what, " {word} {curve}");
                    }
                    None => self.lost(format!("the curve `{given}`")),
                }
            }
            self.made(&class, &what);
        }
    }

    fn curve(&self, text: &str) -> Option<String> {
        let rate = |text: &str| Some(tc_rate(text.trim().parse::<Rate>().ok()?.on(self.link())));
        let Some((first, then)) = text.split_once(',') else {
            return Some(format!("m2 {}", rate(text)?));
        };
        let long = rate(then.trim().strip_prefix("then ")?)?;
        if let Some((short, time)) = first.split_once(" for ") {
            let time = tc_time(time.trim().parse().ok()?);
            return Some(format!("m1 {} d {time} m2 {long}", rate(short)?));
        }
        let (bytes, time) = first.split_once(" in ")?;
        let bytes: Bytes = bytes.trim().parse().ok()?;
        Some(format!(
            "umax {}b dmax {} rate {long}",
            bytes.get(),
            tc_time(time.trim().parse().ok()?)
        ))
    }

    /// A class, and its queue.
    fn made(&mut self, class: &ClassSpec, what: &str) {
        let (parent, id) = (self.parent(class), self.id(&class.name));
        self.line(&format!("# {}", class.name));
        self.class(&parent, &id, what);
        if self.is_leaf(class) {
            self.queue(&format!("parent {id}"), class.discipline.as_ref());
        }
        let yields = self
            .interface
            .yields
            .iter()
            .any(|yields| yields.class == class.name);
        if yields {
            self.lost(format!("`yields` of {}", class.name));
        }
        let mut quotas = self.interface.quotas.iter();
        if quotas.any(|quota| quota.class == class.name) {
            self.lost(format!("`quota` of {}", class.name));
        }
        for key in ["maxburst", "minburst", "packet_size"] {
            if class.settings.get(key).is_some() {
                self.lost(format!("`{key}` of {}", class.name));
            }
        }
    }

    /// `priq`: bands below the rate of the link.
    fn priorities(&mut self, spec: &DisciplineSpec) {
        let mut classes: Vec<&ClassSpec> = spec.classes.iter().collect();
        let priority =
            |class: &&ClassSpec| std::cmp::Reverse(setting::<u32>(&class.settings, "priority").unwrap_or(0));
        classes.sort_by_key(priority);
        if classes.len() > 16 {
            self.lost("priorities after the first 15: they are one there");
        }
        let bands = classes.len().clamp(2, 16);
        let default = classes
            .iter()
            .position(|class| class.default)
            .unwrap_or(0)
            .min(15);
        let map = [default.to_string().as_str()].repeat(16).join(" ");
        let what = format!("htb rate {}{}", tc_rate(self.link()), self.framing());
        self.qdisc("root handle 1:", "htb default 1");
        self.class("1:", "1:1", &what);
        self.qdisc(
            "parent 1:1 handle 2:",
            &format!("prio bands {bands} priomap {map}"),
        );
        for (band, class) in (1..=16).zip(&classes) {
            self.line(&format!("# {}", class.name));
            self.queue(&format!("parent 2:{band:x}"), class.discipline.as_ref());
        }
    }

    /// The queue of a leaf.
    fn queue(&mut self, place: &str, spec: Option<&DisciplineSpec>) {
        let Some(spec) = spec else {
            return self.qdisc(place, "pfifo limit 100");
        };
        let what = self.leaf(spec);
        self.qdisc(place, &what);
    }

    fn leaf(&mut self, spec: &DisciplineSpec) -> String {
        let table = &spec.settings;
        let number =
            |key: &str| setting::<u32>(table, key).map_or(String::new(), |value| format!(" {key} {value}"));
        let time = |key: &str| {
            setting::<Duration>(table, key)
                .map_or(String::new(), |value| format!(" {key} {}", tc_time(value)))
        };
        let size = |key: &str, there: &str| {
            setting::<Bytes>(table, key).map_or(String::new(), |value| format!(" {there} {}", value.get()))
        };
        let ecn = if setting::<bool>(table, "ecn").unwrap_or(true) {
            "ecn"
        } else {
            "noecn"
        };
        match &*spec.kind {
            "fq_codel" => format!(
                "fq_codel{}{}{}{}{}{} {ecn}",
                number("limit"),
                number("flows"),
                size("quantum", "quantum"),
                size("limit_bytes", "memory_limit"),
                time("target"),
                time("interval")
            ),
            "codel" => format!(
                "codel{}{}{} {ecn}",
                number("limit"),
                time("target"),
                time("interval")
            ),
            "pie" => format!("pie{}{} {ecn}", number("limit"), time("target")),
            "cake" => {
                let rate = setting::<Rate>(table, "rate").map(|rate| tc_rate(rate.on(self.link())));
                self.cake(
                    spec,
                    &rate.map_or("unlimited".into(), |rate| format!("bandwidth {rate}")),
                )
            }
            "wfq" => {
                let perturb =
                    setting::<Duration>(table, "perturb").map_or(10, |time| time.nanos() / 1_000_000_000);
                format!("sfq perturb {perturb}")
            }
            "fifo" => match setting::<Bytes>(table, "limit_bytes") {
                Some(limit) => format!("bfifo limit {}b", limit.get()),
                None => format!("pfifo limit {}", setting::<u32>(table, "limit").unwrap_or(100)),
            },
            "tbf" => {
                let rate = setting::<Rate>(table, "rate").map_or(self.link(), |rate| rate.on(self.link()));
                let usual = rate.bytes_in(Duration::from_millis(5)).max(Bytes::new(2_000));
                let burst = setting::<Bytes>(table, "burst").unwrap_or(usual);
                if spec.child.as_ref().is_some_and(|child| child.kind != "fifo") {
                    self.lost("the discipline below `tbf`: a plain queue of 50 ms");
                }
                format!("tbf rate {} burst {}b latency 50ms", tc_rate(rate), burst.get())
            }
            other => {
                self.lost(format!("`{other}` of a class: fq_codel"));
                "fq_codel".into()
            }
        }
    }

    fn cake(&mut self, spec: &DisciplineSpec, rate: &str) -> String {
        let table = &spec.settings;
        let tins: String = setting(table, "tins").unwrap_or_else(|| "diffserv3".into());
        let fair: String = setting(table, "fair").unwrap_or_else(|| "triple".into());
        let fair = if fair == "triple" {
            "triple-isolate".into()
        } else {
            fair
        };
        for key in ["flows", "quantum", "target", "ecn", "limit_bytes"] {
            if table.get(key).is_some() {
                self.lost(format!("`{key}` of cake"));
            }
        }
        let rtt = setting::<Duration>(table, "interval")
            .map_or(String::new(), |rtt| format!(" rtt {}", tc_time(rtt)));
        let nat = if self.interface.settings.nat { " nat" } else { "" };
        let drops_count: bool = setting(table, "ingress").unwrap_or_default();
        let ingress = if drops_count { " ingress" } else { "" };
        format!("cake {rate} {tins} {fair}{nat}{ingress}{rtt}")
    }

    fn filters(&mut self) {
        let interface = self.interface;
        let is_priq = interface.spec.kind == "priq";
        let mut preference = 0;
        for filter in filters::in_order(&interface.filters) {
            let Some(class) = self.flow(filter.class, is_priq) else {
                self.lost(format!(
                    "a filter into a class of an inner discipline: {}",
                    filters::words(filter)
                ));
                continue;
            };
            let matches = keys(filter);
            if matches.is_empty() {
                self.lost(format!("a filter: {}", filters::words(filter)));
            }
            for words in matches {
                preference += 1;
                if preference > LAST {
                    return self.lost("filters after the first 65535");
                }
                let parent = if is_priq { "2:" } else { "1:" };
                let line = format!(
                    "filter add dev {} parent {parent} pref {preference} {words} classid {class}",
                    self.device
                );
                self.line(&line);
            }
        }
        if is_priq {
            // The link's one class takes all.
            let line = format!(
                "filter add dev {} parent 1: pref 1 matchall classid 1:1",
                self.device
            );
            self.line(&line);
        }
    }

    /// The class of this number there.
    fn flow(&self, class: ClassId, is_priq: bool) -> Option<String> {
        let info = self.interface.plan.info(class)?;
        let spec = self
            .interface
            .spec
            .classes
            .iter()
            .find(|own| own.name == info.name)?;
        if !is_priq {
            return Some(self.id(&spec.name));
        }
        let priority = |class: &ClassSpec| setting::<u32>(&class.settings, "priority").unwrap_or(0);
        let before = self
            .interface
            .spec
            .classes
            .iter()
            .filter(|own| priority(own) > priority(spec))
            .count();
        Some(format!("2:{:x}", before.min(15) + 1))
    }
}

/// Flower's words for each of the cases that a filter has: families, and the protocols of ports;
/// none if it asks for what flower does not.
fn keys(filter: &Filter) -> Vec<String> {
    if filter.flow_label.is_some()
        || filter.length.is_some()
        || filter.dscp.is_some_and(|dscp| dscp.mask() != 0x3f)
    {
        return Vec::new();
    }
    let only_mark = Filter {
        mark: filter.mark,
        rule: filter.rule,
        ..Filter::new(filter.class)
    } == *filter;
    if let Some(mark) = filter.mark {
        return if only_mark {
            vec![format!("protocol all handle {mark} fw")]
        } else {
            Vec::new()
        };
    }
    let has_ports = filter.source_port.is_some() || filter.destination_port.is_some();
    let flags = filter.tcp_flags;
    let protocols: Vec<Option<u8>> = match filter.protocol.or(flags.map(|_| TCP)) {
        Some(protocol) => vec![Some(protocol)],
        None if has_ports => vec![Some(TCP), Some(UDP)],
        None => vec![None],
    };
    let mut all = Vec::new();
    for family in filter.families().filter(|family| *family != Family::Other) {
        for protocol in &protocols {
            let mut words = format!(
                "protocol {} flower",
                if family == Family::V6 { "ipv6" } else { "ip" }
            );
            let mut word = |key: &str, value: Option<String>| {
                if let Some(value) = value {
                    let _ = write!(words, " {key} {value}");
                }
            };
            let name = |protocol: &u8| match *protocol {
                TCP => "tcp".to_owned(),
                UDP => "udp".to_owned(),
                other => format!("0x{other:x}"),
            };
            let ports = |ports: Ports| match ports.low() == ports.high() {
                true => ports.low().to_string(),
                false => format!("{}-{}", ports.low(), ports.high()),
            };
            word("ip_proto", protocol.as_ref().map(name));
            word("src_ip", filter.source.map(|prefix| prefix.to_string()));
            word("dst_ip", filter.destination.map(|prefix| prefix.to_string()));
            word("src_port", filter.source_port.map(ports));
            word("dst_port", filter.destination_port.map(ports));
            word(
                "tcp_flags",
                flags.map(|flags| format!("0x{:x}/0x{:x}", flags.set(), flags.mask())),
            );
            word(
                "ip_tos",
                filter.dscp.map(|dscp| format!("0x{:x}/0xfc", dscp.value() << 2)),
            );
            all.push(words);
        }
    }
    all
}
