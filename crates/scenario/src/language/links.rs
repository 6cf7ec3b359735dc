//! The links of a scenario, and the policy at each of their ends.

use crate::folder::Files;
use crate::{link_policies, link_traces};
use control::policy::{InterfacePolicy, PolicyReader};
use control::sections::Section;
use control::values::TomlValue;
use engine::framing::Framing;
use engine::settings;
use engine::settings::{Problem, Raw, Table, unknown};
use engine::tree::Registry;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use measure::impairments::{
    ChosenPackets, ImpairmentSchedule, ImpairmentScript, Impairments, Jitter, Loss, Reordering,
};
use measure::link_trace::LinkTrace;
use sim::link::Completion;
use std::ops::RangeInclusive;

settings! {
    /// The settings of a link in both directions; `[link.back]` overrides those of the reverse
    /// direction.
    pub struct LinkSettings {
        /// The rate of the wire, framing included
        rate: Bandwidth = required,
            "the conditions to be tested", "none";
        /// Its rate over time, and perhaps its delay and loss, in place of `rate`: a file, CSV or a
        /// packet-delivery trace of Mahimahi, or a model such as `model train, seed 7, at 20 %`
        trace: String = derived "one rate",
            "the conditions to be tested", "none";
        /// The propagation delay, in each direction
        delay: Duration = default "0 s",
            "the conditions to be tested", "none";
        /// The buffer of an end without a policy, in bytes, besides the frame that is being sent
        buffer: Bytes = derived "100 ms at the rate, at least 10 full frames",
            "too small: bursts are dropped and the link idles; too large: needless queueing delay",
            "common in routers";
        /// What the link costs on a path: packets take the cheapest, of equal ones that of the
        /// fewest links
        cost: u32 = default "1",
            "packets take other paths", "the fewest links";
        /// The medium that it shares with other links: a section `[[medium]]` of this name
        medium: String = derived "a wire of its own",
            "the conditions to be tested", "none";
        /// The bytes that the wire adds to each frame
        framing: Framing = default "none",
            "too little: small packets cost less than on the real link", "frames count as policies count them";
        /// The loss model of the wire
        loss: Loss = default "nothing",
            "the conditions to be tested", "none";
        /// The packets of which a bit is flipped on the wire; who receives them drops them
        corrupt: ChosenPackets = default "nothing",
            "the conditions to be tested", "none";
        /// The packets that arrive twice
        duplicate: ChosenPackets = default "nothing",
            "the conditions to be tested", "none";
        /// What is added to `delay`, at random
        jitter: Jitter = default "0 s",
            "the conditions to be tested", "none";
        /// The packets that others overtake: which, and by how much later they come
        reorder: Reordering = default "nothing",
            "the conditions to be tested", "none";
        /// What befalls single packets, by their numbers, besides
        script: ImpairmentScript = default "nothing",
            "the conditions to be tested", "none";
        /// The longest IP packet
        mtu: Bytes = default "1500 B",
            "smaller: more packets for the same bytes", "Ethernet";
        /// The transmit ring in packets, including the packet on the wire
        transmit_ring: u32 = default "1",
            "too large: packets wait behind the policy, where priorities have no effect",
            "the minimum; `suimon run` has 64";
        /// Whether the driver fills gaps with gap frames, where the policy asks for them (`pacer`
        /// with `gap = "frames"`)
        gap_frames: bool = default "false",
            "true: the wire is never idle while paced packets wait, and its bytes are the clock", "none";
        /// The granularity of the driver's timers
        timer_tick: Duration = derived "exact",
            "10 ms is that of BSD in 1998: classes are delayed by up to two ticks", "Cho 1999, section 4.2.7";
        /// How the driver learns that the wire is free
        completion: Completion = default "estimated",
            "exact: behind a wire that is no faster than the policy's `bandwidth`, packets fill the transmit ring",
            "`suimon run`; Cho 1999, section 4.2.5";
    }
}

impl LinkSettings {
    /// What befalls packets on the wire.
    pub fn impairments(&self) -> Impairments {
        Impairments {
            loss: self.loss,
            corruption: self.corrupt,
            duplication: self.duplicate,
            reordering: self.reorder,
            jitter: self.jitter,
            script: self.script.clone(),
        }
    }
}

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct DirectionConfig {
    /// The sending host, by index.
    pub from: usize,
    /// The receiving host, by index.
    pub to: usize,
    /// `from > to`, by name.
    pub name: String,
    /// The settings of the wire.
    pub settings: LinkSettings,
    /// What it is over time: of a `trace`, or as `[[change]]`s of the link make it.
    pub trace: Option<LinkTrace>,
    /// What befalls packets later, as `[[change]]`s of the link make it.
    pub later: ImpairmentSchedule,
    /// The policy; `None`: a plain buffer.
    pub policy: Option<InterfacePolicy>,
}

impl DirectionConfig {
    /// What the wire could carry from one time of the scenario to another.
    pub fn capacity(&self, from: Instant, to: Instant) -> Bytes {
        match &self.trace {
            None => self.settings.rate.bytes_in(to.since(from)),
            Some(trace) => {
                let [from, to] = [from, to].map(|at| at.since(Instant::START));
                trace.capacity(from, to)
            }
        }
    }

    /// The buffer of an end without a policy.
    pub fn buffer(&self) -> Bytes {
        let full = (self.settings.mtu + Bytes::new(14)).times(10);
        let usual = self.settings.rate.bytes_in(Duration::from_millis(100)).max(full);
        self.settings.buffer.unwrap_or(usual)
    }
}

/// The rates that a link may have.
pub(super) const RATES: RangeInclusive<Bandwidth> = Bandwidth::kbit(8)..=Bandwidth::gbit(800);
/// The longest delay of a link.
pub(super) const LONGEST_DELAY: Duration = Duration::from_secs(3600);
const OF_LINK: &[&str] = &["between", "policy", "back"];

/// The names of the hosts, in the order of the links.
pub(super) fn hosts_of(sections: &[Section<'_>]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let ends = sections
        .iter()
        .filter_map(|section| section.get("between")?.value.items());
    for item in ends.flatten() {
        if let Raw::Text(name) = item.raw()
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    names
}

/// Reads a link, in both directions.
pub(super) fn read(
    reader: &mut PolicyReader<'_>,
    registry: &Registry,
    files: Files<'_>,
    section: &Section<'_>,
    hosts: &[String],
) -> Option<[DirectionConfig; 2]> {
    let back = section.section("back", &mut reader.problems);
    let mut way = |mut table: Table, of: &Section<'_>, also: &[&str]| {
        let trace = link_traces::read(&mut table, files, &mut reader.problems);
        let settings = LinkSettings::read(&table, also, &mut reader.problems);
        let settings =
            settings.and_then(|settings| sensible(settings, trace.as_ref(), of, &mut reader.problems));
        (settings, trace)
    };
    let (settings, trace) = way(section.table(|_| true), section, OF_LINK);
    let (back, trace_back) = match back {
        None => (settings.clone(), trace.clone()),
        Some(back) => way(link_traces::back(section, &back, OF_LINK), &back, &[]),
    };
    let between = super::ends(section, hosts, &mut reader.problems);
    let both = [settings, back];
    let policies = policies(reader, registry, files, section, hosts, between, &both);
    if between.is_some() {
        without_effect(reader, section, &both, &policies);
    }
    let [a, b] = between?;
    let [forward, back] = both;
    let [of_a, of_b] = policies;
    let direction = |from: usize, to: usize, settings, trace, policy| DirectionConfig {
        from,
        to,
        name: format!("{} > {}", hosts[from], hosts[to]),
        settings,
        trace,
        later: ImpairmentSchedule::default(),
        policy,
    };
    Some([
        direction(a, b, forward?, trace, of_a),
        direction(b, a, back?, trace_back, of_b),
    ])
}

fn sensible(
    settings: LinkSettings,
    trace: Option<&LinkTrace>,
    section: &Section<'_>,
    problems: &mut Vec<Problem>,
) -> Option<LinkSettings> {
    let before = problems.len();
    let mut refuse = |key: &str, wrong: bool, message: &str| {
        if wrong {
            let at = section.get(key).map_or(section.at, |pair| pair.value.at);
            problems.push(Problem::new(at, message));
        }
    };
    let LinkSettings {
        rate,
        delay,
        buffer,
        mtu,
        transmit_ring,
        framing,
        gap_frames,
        cost,
        ..
    } = settings;
    let by_opportunities = trace.is_some_and(LinkTrace::counts_opportunities);
    refuse(
        "framing",
        by_opportunities && framing != Framing::PLAIN,
        "a packet-delivery trace counts 1504 B for a full frame, whatever the framing: leave it out",
    );
    refuse(
        "gap_frames",
        trace.is_some() && gap_frames,
        "gap frames need a wire of one rate: leave out one of `trace` and `gap_frames`",
    );
    let slow = !RATES.contains(&rate);
    refuse("rate", slow, "`rate` must be from 8 kbit/s to 800 Gbit/s");
    refuse("cost", cost == 0, "`cost` must be 1 at least");
    refuse("delay", delay > LONGEST_DELAY, "`delay` must be at most 3600 s");
    refuse(
        "mtu",
        mtu < Bytes::new(68) || mtu > Bytes::new(65_535),
        "`mtu` must be from 68 B to 65535 B",
    );
    let small = buffer.is_some_and(|buffer| buffer < mtu + Bytes::new(14));
    refuse(
        "buffer",
        small,
        "`buffer` must hold one full frame: the `mtu` and 14 B",
    );
    let ring = transmit_ring == 0 || transmit_ring > 65_536;
    refuse(
        "transmit_ring",
        ring,
        "`transmit_ring` must be from 1 to 65536 packets",
    );
    (problems.len() == before).then_some(settings)
}

/// The policies of a link's two ends.
fn policies(
    reader: &mut PolicyReader<'_>,
    registry: &Registry,
    files: Files<'_>,
    section: &Section<'_>,
    hosts: &[String],
    between: Option<[usize; 2]>,
    settings: &[Option<LinkSettings>; 2],
) -> [Option<InterfacePolicy>; 2] {
    let mut policies = [None, None];
    let Some(section) = section.section("policy", &mut reader.problems) else {
        return policies;
    };
    for pair in section.iter() {
        let end = between.and_then(|ends| ends.iter().position(|&host| hosts[host] == pair.key));
        let link = end.and_then(|end| settings[end].as_ref());
        let ring = link.map_or(1, |link| link.transmit_ring);
        let interface = link_policies::read(reader, registry, files, pair, ring);
        let Some(ends) = between else { continue };
        let Some(end) = end else {
            let names = ends.iter().map(|&host| hosts[host].as_str());
            reader
                .problems
                .push(unknown("end of this link", &pair.key, pair.key_at, names));
            continue;
        };
        if let (Some(interface), Some(settings)) = (&interface, link) {
            fits(reader, &pair.value, interface, settings);
        }
        policies[end] = interface;
    }
    policies
}

/// Warns of settings that are of a driver where no policy has one, or of a plain buffer where there
/// is none. What stands in `back` is for the second end alone, and in its place.
fn without_effect(
    reader: &mut PolicyReader<'_>,
    section: &Section<'_>,
    settings: &[Option<LinkSettings>; 2],
    policies: &[Option<InterfacePolicy>; 2],
) {
    const DRIVER: [&str; 3] = ["transmit_ring", "timer_tick", "completion"];
    let has_policy = |end: usize| policies[end].is_some();
    let fills_gaps = |end: usize| {
        let pacing = policies[end]
            .as_ref()
            .and_then(|policy| policy.plan.root.plan.pacing());
        let asked = settings[end].as_ref().is_none_or(|settings| settings.gap_frames);
        !asked || pacing.is_some_and(|pacing| pacing.frames)
    };
    let back = section.section("back", &mut Vec::new());
    let back = back.as_ref();
    let mut look = |key: &str, matters: &dyn Fn(usize) -> bool, why: &str| {
        let behind = back.and_then(|back| back.get(key));
        let ends = if behind.is_some() { 0..1 } else { 0..2 };
        for (pair, mut ends) in [(section.get(key), ends), (behind, 1..2)] {
            let Some(pair) = pair.filter(|_| !ends.any(matters)) else {
                continue;
            };
            let message = format!("`{key}` has no effect here: {why}");
            reader
                .warnings
                .push(Problem::new(pair.key_at, message).help("leave it out"));
        }
    };
    for key in DRIVER {
        look(key, &has_policy, "no end that it is for has a policy");
    }
    let none = "no end that it is for has a policy that asks for gap frames";
    look("gap_frames", &fills_gaps, none);
    let queues = "each end that it is for has a policy with queues of its own";
    look("buffer", &|end| !has_policy(end), queues);
}

/// Refuses a policy whose `max_frame` is below the link's, and warns of one that is faster than the
/// link.
fn fits(
    reader: &mut PolicyReader<'_>,
    value: &TomlValue<'_>,
    interface: &InterfacePolicy,
    link: &LinkSettings,
) {
    let at = |key: &str| {
        let inside = value
            .section()
            .and_then(|section| section.get(key).map(|pair| pair.value.at));
        inside.unwrap_or(value.at)
    };
    if interface.settings.bandwidth > link.rate {
        let message = format!(
            "`bandwidth` of the policy is {}, more than the link's rate, {}",
            interface.settings.bandwidth, link.rate
        );
        let help =
            "the queue builds up in the link's buffer, and classes get less than their guaranteed rates";
        reader
            .warnings
            .push(Problem::new(at("bandwidth"), message).help(help));
    }
    let longest = link.mtu + Bytes::new(14);
    let max_frame = interface.settings.max_frame;
    if max_frame < longest {
        let [longest, max_frame] = [longest, max_frame].map(Bytes::get);
        let message =
            format!("the policy's `max_frame` is {max_frame} B, and the link carries frames of {longest} B");
        let help =
            format!("write `max_frame = \"{longest} B\"` in the policy, or give the link a smaller `mtu`");
        reader
            .problems
            .push(Problem::new(at("max_frame"), message).help(help));
    }
}
