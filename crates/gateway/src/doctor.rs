//! What of this machine and an interface helps or hinders a policy there, and what to do about it.
//!
//! [`Observed`] is what the kernel says, [`symptoms`] is what it means. Only [`fix`] changes
//! anything.

use crate::claim::{Claim, Claimant};
use crate::facts::{self, Facts};
use engine::units::Bandwidth;
use netio::interface::Interface;
use std::fs;
use std::path::Path;

/// How much a symptom matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Gravity {
    /// As it should be.
    Good,
    /// Works, but perhaps not as expected.
    Note,
    /// A policy would not have its effect.
    Bad,
}

/// One thing that was looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Symptom {
    /// How much it matters.
    pub gravity: Gravity,
    /// What was found, in a line.
    pub what: String,
    /// What to do: a command, or a sentence.
    pub remedy: Option<String>,
}

impl Symptom {
    fn of(gravity: Gravity, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        let remedy = remedy.into();
        Self {
            gravity,
            what: what.into(),
            remedy: (!remedy.is_empty()).then_some(remedy),
        }
    }

    fn good(what: impl Into<String>) -> Self {
        Self::of(Gravity::Good, what, "")
    }
}

/// What the kernel says of an interface.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Observed {
    /// Its name.
    pub name: String,
    /// Whether it is administratively up.
    pub up: bool,
    /// Whether it has a carrier, if that is known.
    pub carrier: Option<bool>,
    /// The speed of its link, if the driver reports one.
    pub speed: Option<Bandwidth>,
    /// `full` or `half`, if the driver reports it.
    pub duplex: Option<String>,
    /// Whether it is a radio.
    pub wireless: bool,
    /// Its bridge or other master.
    pub master: Option<String>,
    /// The kind of its root qdisc.
    pub qdisc: Option<String>,
    /// The rate of a limit of suimon's there (`fail_closed`): of one that runs, or that was killed.
    pub limit: Option<Bandwidth>,
    /// Who manages it.
    pub claimant: Claimant,
    /// The filters at its hooks, where those of old kernels are used.
    pub filters: Vec<String>,
    /// Its offloads that are on.
    pub offloads: Vec<&'static str>,
    /// Whether its hardware or driver joins what it receives (LRO), which cannot be passed on.
    pub lro: bool,
    /// How many transmit queues it has.
    pub transmit_queues: u32,
    /// How many packets its transmit ring holds, if the driver reports it.
    pub ring: Option<u32>,
    /// Whether the default route goes by it.
    pub default_route: bool,
    /// Whether this host passes on packets for others.
    pub forwards: bool,
    /// How many connections the kernel or the card forwards by themselves (flow tables), if that
    /// can be read.
    pub offloaded_connections: Option<usize>,
}

impl Observed {
    /// What the kernel says of this interface now; `None` if there is none.
    pub fn of(name: &str) -> Option<Self> {
        let (facts, interface) = (Facts::of(name)?, Interface::named(name).ok()?);
        let sys = |file: &str| facts::sysfs(name, interface.index, file);
        let offloads = interface.offloads().unwrap_or_default();
        let on = offloads
            .into_iter()
            .filter(|(_, on)| *on)
            .map(|(offload, _)| offload);
        Some(Self {
            up: facts.up,
            carrier: sys("carrier").map(|carrier| carrier == "1"),
            speed: facts.speed.filter(|speed| *speed > Bandwidth::ZERO),
            duplex: sys("duplex").filter(|duplex| duplex != "unknown"),
            wireless: sys("uevent").is_some_and(|uevent| uevent.contains("DEVTYPE=wlan")),
            master: facts.master,
            qdisc: netio::fail_closed::root_kind(interface.index).ok().flatten(),
            limit: netio::fail_closed::rate_of(interface.index).ok().flatten(),
            claimant: Claimant::of(name),
            filters: netio::bpf::clsact::names(interface.index)
                .ok()
                .flatten()
                .unwrap_or_default(),
            offloads: on.collect(),
            lro: interface.joins_what_it_receives().unwrap_or(false),
            transmit_queues: interface.transmit_queues().unwrap_or(1),
            ring: interface.transmit_ring().ok().flatten(),
            default_route: facts::default_route().as_deref() == Some(name),
            forwards: facts::forwards(),
            offloaded_connections: offloaded_connections(),
            name: name.into(),
        })
    }
}

/// Whether the program can give up the rights that it does not need.
fn confinement(lacking: &[String]) -> Symptom {
    match lacking {
        [] => Symptom::good("a running program gives up what it does not need: seccomp, Landlock"),
        lacking => Symptom::of(
            Gravity::Note,
            lacking.join("; "),
            "see docs/security.md; the rest is given up all the same",
        ),
    }
}

/// Needs root.
fn offloaded_connections() -> Option<usize> {
    let table = fs::read_to_string("/proc/self/net/nf_conntrack").ok()?;
    let passes_by = |line: &&str| line.contains("[OFFLOAD]") || line.contains("[HW_OFFLOAD]");
    Some(table.lines().filter(passes_by).count())
}

/// What that means for a policy on this interface.
pub fn symptoms(of: &Observed) -> Vec<Symptom> {
    let mut found = link(of);
    found.extend(others(of));
    found.extend(frames(of));
    found
}

/// The link itself.
fn link(of: &Observed) -> Vec<Symptom> {
    let name = &of.name;
    let mut found = Vec::new();
    found.push(match (of.up, of.carrier) {
        (false, _) => Symptom::of(Gravity::Bad, "it is down", format!("ip link set {name} up")),
        (true, Some(false)) => Symptom::of(
            Gravity::Bad,
            "it has no carrier",
            "plug the cable in, or switch the other end on",
        ),
        (true, _) => Symptom::good("it is up"),
    });
    found.push(match &of.speed {
        Some(speed) => Symptom::good(format!("its link has {speed}")),
        None => Symptom::of(
            Gravity::Note,
            "its driver does not tell the speed of its link",
            "measure the line, and give `run` a rate",
        ),
    });
    if of.duplex.as_deref() == Some("half") {
        let remedy = "look at the cable and at the settings of the other end: one of them does not negotiate";
        found.push(Symptom::of(
            Gravity::Bad,
            "it is half duplex: collisions, and both directions share its rate",
            remedy,
        ));
    }
    if of.wireless {
        let remedy = "choose a rate that it always has; packets wait in the radio whenever it has less";
        found.push(Symptom::of(
            Gravity::Note,
            "it is a radio, whose rate varies",
            remedy,
        ));
    }
    found.push(match (of.default_route, of.forwards) {
        (true, true) => Symptom::of(
            Gravity::Note,
            "the default route goes by it, and this host routes: where it translates addresses (NAT), all devices are one on the wire",
            "for a share for each device write `nat = true` beside its bandwidth, or manage the interface towards them",
        ),
        (true, false) => Symptom::good("the default route goes by it: what leaves is the upload"),
        (false, _) => Symptom::good("no default route goes by it: what leaves is the download of what is behind it"),
    });
    if let Some(master) = &of.master {
        found.push(Symptom::of(
            Gravity::Note,
            format!("it is a port of {master}"),
            format!("manage both ports of {master}, by `between`: it forwards when suimon does not"),
        ));
    }
    found
}

/// What else handles its packets.
fn others(of: &Observed) -> Vec<Symptom> {
    /// Qdiscs that do not limit the rate.
    const PLAIN: [&str; 8] = [
        "noqueue",
        "mq",
        "pfifo_fast",
        "pfifo",
        "bfifo",
        "fq",
        "fq_codel",
        "codel",
    ];
    let name = &of.name;
    let remove = format!("tc qdisc del dev {name} root");
    let mut found = Vec::new();
    if of.claimant == Claimant::Somebody {
        found.push(Symptom::good(
            "a suimon that runs manages it: see `suimon status`",
        ));
    }
    found.push(match (&of.limit, of.qdisc.as_deref()) {
        (Some(rate), _) => limit(of.claimant, *rate, name, &remove),
        (None, Some(kind)) if !PLAIN.contains(&kind) => Symptom::of(
            Gravity::Note,
            format!("the kernel's `{kind}` is there; what suimon sends bypasses it, the rest does not"),
            remove,
        ),
        (None, kind) => Symptom::good(format!("its qdisc is {}", kind.unwrap_or("none"))),
    });
    if !of.filters.is_empty() {
        let remedy = match of.claimant {
            Claimant::Somebody => String::new(),
            Claimant::Nobody | Claimant::Unknown => {
                format!("tc qdisc del dev {name} clsact   # if no program that runs needs them")
            }
        };
        let what = format!("filters are at its hooks: {}", of.filters.join(", "));
        found.push(Symptom::of(Gravity::Note, what, remedy));
    }
    match of.offloaded_connections {
        Some(count) if count > 0 => found.push(Symptom::of(
            Gravity::Bad,
            format!("{count} connections are forwarded by a flow table, past every policy"),
            "take the `flowtable` out of the firewall's rules",
        )),
        _ => {}
    }
    found
}

/// A limit of suimon's: what the kernel sends while no suimon does.
fn limit(claimant: Claimant, rate: Bandwidth, name: &str, remove: &str) -> Symptom {
    match claimant {
        Claimant::Somebody => Symptom::good(format!(
            "should that suimon be killed, the kernel sends {rate} at most (`fail_closed`)"
        )),
        Claimant::Nobody => Symptom::of(
            Gravity::Note,
            format!("a killed suimon has left a limit of {rate}"),
            format!("start it again, or `suimon doctor {name} --fix`, or: {remove}"),
        ),
        Claimant::Unknown => Symptom::of(
            Gravity::Note,
            format!("a limit of {rate} is there, of a suimon that runs or that was killed"),
            "ask as root, who sees which",
        ),
    }
}

/// Removes what a killed suimon has left at this interface, and keeps others from managing it
/// meanwhile. What was done; the next `run` makes it again.
///
/// # Errors
/// If a suimon that runs manages it, or the kernel refuses.
pub fn fix(name: &str) -> Result<Vec<Symptom>, String> {
    let _claim = Claim::on(&[name])?;
    let index = Interface::named(name).map_err(|e| format!("{name}: {e}"))?.index;
    let removed = netio::fail_closed::remove(index);
    let removed = removed.map_err(|e| format!("cannot remove the limit of {name}: {e}"))?;
    Ok(vec![Symptom::good(match removed {
        Some(rate) => {
            format!("removed the limit of {rate} that a killed suimon had left: what is sent has none now")
        }
        None => "no killed suimon has left a limit: nothing was changed".into(),
    })])
}

/// How it handles frames.
fn frames(of: &Observed) -> Vec<Symptom> {
    let name = &of.name;
    let mut found = Vec::new();
    if of.lro && of.forwards {
        found.push(Symptom::of(
            Gravity::Bad,
            "it joins what it receives (LRO), and this host routes: such frames cannot be passed on as they came",
            format!("ethtool -K {name} lro off"),
        ));
    }
    found.push(match of.offloads.is_empty() {
        true => Symptom::of(
            Gravity::Note,
            "its offloads are off: every packet costs its own system call",
            format!("ethtool -K {name} tso on gso on gro on"),
        ),
        false => Symptom::good(format!(
            "offloads: {}; super-frames that would take longer than 1 ms are cut by `run`",
            of.offloads.join(", ")
        )),
    });
    if of.transmit_queues > 1 {
        found.push(Symptom::of(
            Gravity::Good,
            format!("{} transmit queues", of.transmit_queues),
            format!("ethtool -L {name} combined 1   # for pacing by gap frames alone"),
        ));
    }
    if let Some(ring) = of.ring {
        found.push(Symptom::good(format!(
            "its transmit ring holds {ring} packets; `transmit_ring` of them are used at once, 64 unless a policy says otherwise"
        )));
    }
    found
}

/// What the machine itself has.
pub fn machine() -> Vec<Symptom> {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let release = text("/proc/sys/kernel/osrelease");
    let clock = text("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    vec![
        kernel(&release),
        privileges(&text("/proc/self/status")),
        confinement(&confine::lacking()),
        match Path::new("/dev/net/tun").exists() {
            true => Symptom::good("TAP devices: /dev/net/tun"),
            false => Symptom::of(
                Gravity::Bad,
                "there is no /dev/net/tun: nothing on one interface can be managed",
                "modprobe tun   # in a container: pass the device in",
            ),
        },
        match &*clock {
            "hpet" | "acpi_pm" | "jiffies" => Symptom::of(
                Gravity::Note,
                format!("the clock is {clock}, which is slow to read: less than half of the packet rate"),
                "see `clocksource=` and `tsc=` of the kernel's command line",
            ),
            _ => Symptom::good(format!("the clock is {clock}")),
        },
        match processors {
            1 => Symptom::of(
                Gravity::Note,
                "one processor for everything",
                "below 100 Mbit/s that is enough",
            ),
            n => Symptom::good(format!(
                "{n} processors; a thread for each direction from four on"
            )),
        },
    ]
}

fn kernel(release: &str) -> Symptom {
    let mut numbers = release
        .split(['.', '-'])
        .map_while(|number| number.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    match version {
        v if v >= (6, 6) => Symptom::good(format!(
            "Linux {release}: programs by tcx links, which end with the process"
        )),
        v if v >= (5, 8) => Symptom::of(
            Gravity::Note,
            format!(
                "Linux {release}: programs by clsact filters, which a killed process leaves; they let everything pass"
            ),
            "Linux 6.6 has tcx links",
        ),
        _ => Symptom::of(
            Gravity::Bad,
            format!("Linux {release} is not supported"),
            "Linux 6.1 is the oldest that is tested",
        ),
    }
}

/// From `/proc/self/status`.
fn privileges(status: &str) -> Symptom {
    const NEEDED: [(u32, &str); 3] = [(12, "NET_ADMIN"), (13, "NET_RAW"), (39, "BPF")];
    const ADMIN: u64 = 1 << 21;
    const NICE: u64 = 1 << 23;
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    let Some(effective) = effective else {
        return Symptom::of(Gravity::Note, "its privileges cannot be read", "");
    };
    // CAP_SYS_ADMIN includes CAP_BPF.
    let has = |bit: u32| effective & (1 << bit) != 0 || bit == 39 && effective & ADMIN != 0;
    let missing: Vec<&str> = NEEDED
        .into_iter()
        .filter(|(bit, _)| !has(*bit))
        .map(|(_, name)| name)
        .collect();
    if !missing.is_empty() {
        let what = format!("`run` would lack {}", missing.join(", "));
        return Symptom::of(
            Gravity::Note,
            what,
            "run it as root; this command tells more as root too",
        );
    }
    match effective & NICE != 0 {
        true => Symptom::good("privileges: all that `run` needs"),
        false => Symptom::of(
            Gravity::Note,
            "without SYS_NICE packets wait for the processor on a busy machine",
            "run it as root, or give it SYS_NICE",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fine() -> Observed {
        Observed {
            name: "eth0".into(),
            up: true,
            carrier: Some(true),
            speed: Some(Bandwidth::gbit(1)),
            duplex: Some("full".into()),
            qdisc: Some("fq_codel".into()),
            offloads: vec!["tso", "gro"],
            transmit_queues: 1,
            default_route: true,
            ..Observed::default()
        }
    }

    #[test]
    fn nothing_is_wrong_with_a_usual_interface() {
        let found = symptoms(&fine());
        assert!(
            found.iter().all(|symptom| symptom.gravity == Gravity::Good),
            "{found:?}"
        );
    }

    #[test]
    fn each_hindrance_is_named_with_its_remedy() {
        type Change = fn(&mut Observed);
        let cases: [(Change, Gravity, &str); 13] = [
            (|of| of.up = false, Gravity::Bad, "ip link set eth0 up"),
            (|of| of.carrier = Some(false), Gravity::Bad, "cable"),
            (|of| of.duplex = Some("half".into()), Gravity::Bad, "negotiate"),
            (|of| of.speed = None, Gravity::Note, "measure the line"),
            (|of| of.wireless = true, Gravity::Note, "always has"),
            (|of| of.forwards = true, Gravity::Note, "towards them"),
            (
                |of| of.master = Some("br0".into()),
                Gravity::Note,
                "both ports of br0",
            ),
            (
                |of| of.qdisc = Some("htb".into()),
                Gravity::Note,
                "tc qdisc del dev eth0 root",
            ),
            (
                |of| of.limit = Some(Bandwidth::mbit(4)),
                Gravity::Note,
                "tc qdisc del dev eth0 root",
            ),
            (
                |of| (of.limit, of.claimant) = (Some(Bandwidth::mbit(4)), Claimant::Unknown),
                Gravity::Note,
                "as root",
            ),
            (|of| of.filters = vec!["other".into()], Gravity::Note, "clsact"),
            (|of| of.offloaded_connections = Some(3), Gravity::Bad, "flowtable"),
            (
                |of| (of.lro, of.forwards, of.default_route) = (true, true, false),
                Gravity::Bad,
                "lro off",
            ),
        ];
        for (change, gravity, remedy) in cases {
            let mut of = fine();
            change(&mut of);
            let found = symptoms(&of);
            let wrong: Vec<&Symptom> = found.iter().filter(|f| f.gravity != Gravity::Good).collect();
            let [one] = *wrong else {
                panic!("{remedy}: {found:?}")
            };
            assert_eq!(one.gravity, gravity, "{one:?}");
            assert!(one.remedy.as_ref().is_some_and(|r| r.contains(remedy)), "{one:?}");
        }
    }

    #[test]
    fn what_a_running_suimon_has_at_an_interface_is_not_to_be_removed() {
        let of = Observed {
            limit: Some(Bandwidth::mbit(4)),
            claimant: Claimant::Somebody,
            filters: vec!["suimon".into()],
            ..fine()
        };
        let found = symptoms(&of);
        let removes = |symptom: &&Symptom| symptom.remedy.as_ref().is_some_and(|r| r.contains("del"));
        assert_eq!(found.iter().find(removes), None, "{found:?}");
        assert!(
            found.iter().all(|symptom| !symptom.what.contains("left")),
            "{found:?}"
        );
    }

    #[test]
    fn the_kernel_and_privileges_are_judged_by_what_run_needs() {
        let gravity = |release| kernel(release).gravity;
        let releases = ["6.6.0", "6.18.1-fc", "6.1.0-13-amd64", "5.4.0", ""];
        assert_eq!(
            releases.map(gravity),
            [
                Gravity::Good,
                Gravity::Good,
                Gravity::Note,
                Gravity::Bad,
                Gravity::Bad
            ]
        );
        let of = |caps: &str| privileges(&format!("Name:\tx\nCapEff:\t{caps}\n"));
        assert_eq!(of("000001ffffffffff").gravity, Gravity::Good);
        assert!(of("0000000000000000").what.contains("NET_ADMIN, NET_RAW, BPF"));
        // SYS_ADMIN in place of BPF, and no SYS_NICE.
        assert!(of("0000000000203000").what.contains("SYS_NICE"));
    }
}
