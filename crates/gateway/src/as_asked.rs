//! Whether a worker runs what was asked of it: looked at after each change.
//!
//! After that of a whole policy a tree is built of it, and shown as the running one is: each class
//! has to be there with the same disciplines in its queue, and with the same settings, as far as
//! they are shown. Of a class that was changed alone, the plan tells what it is to show, and the
//! others are not looked at. The link's bandwidth is compared, and of the filters their sum.

use control::policy::InterfacePolicy;
use control::{readout, snapshot};
use engine::inspect::{Inspection, Value, View};
use engine::packet::ClassId;
use engine::random::Seed;
use engine::tree::TreePlan;
use netio::handle::PathView;
use std::collections::HashMap;

/// Gauges that show a setting, whatever has passed.
const SETTINGS: [&str; 13] = [
    "rate",
    "quantum",
    "weight",
    "priority",
    "maxburst",
    "minburst",
    "realtime-rate",
    "linkshare",
    "upperlimit",
    "limit",
    "target",
    "min",
    "max",
];
/// So many are told of an interface; one would do.
const MOST: usize = 5;

/// In what a path does not run this policy, which has the numbers of the running classes.
pub(crate) fn unlike(path: &PathView, policy: &InterfacePolicy) -> Vec<String> {
    let mut found = unlike_as_a_whole(path, policy);
    let plan = &policy.plan;
    let mut asked = Vec::new();
    plan.build(Seed(0)).inspect(&mut Inspection::new(&mut asked));
    let running: HashMap<Option<ClassId>, &View> = path.views.iter().map(|view| (view.class, view)).collect();
    for asked in &asked {
        found.extend(unlike_asked(running.get(&asked.class).copied(), asked, plan));
    }
    if running.len() > asked.len() {
        let more = running.len() - asked.len();
        found.push(format!("{more} classes run that the policy does not have"));
    }
    found.truncate(MOST);
    found
}

/// The same of a path of which this class alone is shown, which was changed alone.
pub(crate) fn unlike_in_class(path: &PathView, policy: &InterfacePolicy, class: ClassId) -> Vec<String> {
    let mut found = unlike_as_a_whole(path, policy);
    let plan = &policy.plan;
    let running = path.views.iter().find(|view| view.class == Some(class));
    let mut shown = Vec::new();
    let queue = plan.build_class(class, Seed(0));
    if let Some(queue) = &queue {
        queue.discipline.inspect(&mut Inspection::new(&mut shown));
    }
    let mut asked = View {
        class: Some(class),
        kind: queue.map_or("", |queue| queue.kind),
        gauges: plan.root.plan.settings_of(class),
        ..View::default()
    };
    // The first is of the queue itself.
    asked
        .gauges
        .extend(shown.first().into_iter().flat_map(|queue| &queue.gauges));
    found.extend(unlike_asked(running, &asked, plan));
    found
}

/// In what the link and the filters are not as asked.
fn unlike_as_a_whole(path: &PathView, policy: &InterfacePolicy) -> Vec<String> {
    let mut found = Vec::new();
    // The rate of one that follows its line is set beside; one whose gap frames fill it has none.
    let bandwidth = policy.link().bandwidth;
    let other = path.bandwidth.filter(|runs| *runs != bandwidth);
    if let Some(runs) = other.filter(|_| policy.autorate.is_none()) {
        found.push(format!("its bandwidth is {runs}, and was to be {bandwidth}"));
    }
    if let Some(by) = path.classifies_by {
        let asked = policy.filters.sum();
        if by.filters != asked {
            let (runs, asked) = (by.filters.filters, asked.filters);
            found.push(format!("its {runs} filters are not the {asked} of the policy"));
        }
        if by.unmatched != policy.plan.class_of(None) {
            found.push("what no filter takes does not go to its default class".into());
        }
    }
    found
}

/// In what a class, or the tree as a whole, does not run as it was asked.
fn unlike_asked(running: Option<&View>, asked: &View, plan: &TreePlan) -> Option<String> {
    let why = match running {
        None => Some("is not there".into()),
        Some(running) => different(running, asked),
    }?;
    let name = match asked.class.and_then(|class| plan.info(class)) {
        Some(info) => format!("class {}", info.name),
        None => "its discipline".into(),
    };
    Some(format!("{name} {why}"))
}

/// In what a class does not run as it was asked.
fn different(running: &View, asked: &View) -> Option<String> {
    if running.kind != asked.kind {
        let kind = |view: &View| match view.kind {
            "" => "no queue",
            kind => kind,
        };
        return Some(format!("has {}, and was to have {}", kind(running), kind(asked)));
    }
    let settings = |view: &View| -> Vec<(&'static str, Value)> {
        let shown = |(gauge, _): &&(&str, Value)| SETTINGS.contains(gauge);
        view.gauges.iter().filter(shown).copied().collect()
    };
    let (running, asked) = (settings(running), settings(asked));
    let both = running
        .iter()
        .zip(&asked)
        .find(|(running, asked)| running != asked);
    match both {
        Some((running, asked)) => {
            let words = |shown| readout::gauge(&snapshot::gauge(shown));
            let (runs, asked) = (words(running), words(asked));
            Some(format!("has {} {runs}, and was to have {asked}", running.0))
        }
        None if running.len() != asked.len() => Some("shows other settings than it was to have".into()),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::what_if::candidate;
    use control::policy::Policy;
    use engine::tree::Registry;
    use engine::units::{Bytes, Duration, Instant};

    fn read(text: &str) -> Policy {
        let read = Policy::read("test", text, &Registry::builtin(), &netio::ports::declared());
        read.unwrap_or_else(|mistakes| panic!("{}\n{text}", mistakes.render(false)))
    }

    /// A path of this policy, through which a second of twice its bandwidth has passed.
    fn runs(policy: &InterfacePolicy) -> PathView {
        let mut runs = candidate(policy, Seed(1)).expect("memory");
        let bytes = policy
            .link()
            .bandwidth
            .bytes_in(Duration::from_millis(2_000))
            .get();
        let packets = (bytes / 1_000).clamp(20, 2_000);
        let mut rng = Seed(7).stream();
        for packet in 0..packets {
            let at = Instant::START + Duration::from_micros(packet * 1_000_000 / packets);
            let mut headers = [0; 42];
            headers[12..16].copy_from_slice(&[0x08, 0x00, 0x45, rng.below(256) as u8]);
            headers[22..24].copy_from_slice(&[64, [6, 17][rng.below(2) as usize]]);
            headers[26..34].copy_from_slice(&[10, 0, 0, rng.below(9) as u8, 10, 0, 1, rng.below(9) as u8]);
            headers[34..38].copy_from_slice(&[rng.below(256) as u8, 80, [0, 19][rng.below(2) as usize], 196]);
            let frame = Bytes::new(64 + rng.below(1_400));
            runs.arrive(at, frame, &headers, &mut |_| {}).expect("room");
        }
        runs.show()
    }

    /// Nobody is told of a fault that is none: each kind, and each policy that is there to be
    /// copied, shows the settings that it was asked for, whatever has passed.
    #[test]
    fn what_runs_as_it_was_asked_has_nothing_to_tell() {
        let registry = Registry::builtin();
        let alone = |kind: &str| {
            let text = format!(
                "version = 1\n[interface.wan0]\nbandwidth = \"10 Mbit/s\"\ndiscipline = \"{kind}\"\n"
            );
            Policy::read("test", &text, &registry, &[]).ok()
        };
        let alone: Vec<Policy> = registry.kinds().filter_map(|kind| alone(kind.name)).collect();
        assert!(alone.len() >= 10, "{}", alone.len());
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
        let files = std::fs::read_dir(folder).expect("examples");
        let texts = files.filter_map(|file| std::fs::read_to_string(file.expect("a file").path()).ok());
        let copied: Vec<Policy> = texts
            .filter_map(|text| Policy::read("test", &text, &registry, &netio::ports::declared()).ok())
            .collect();
        assert!(copied.len() >= 5, "{}", copied.len());
        for policy in alone.iter().chain(&copied) {
            for interface in &policy.interfaces {
                let found = unlike(&runs(interface), interface);
                assert_eq!(found, [""; 0], "{:?}", interface.spec);
            }
        }
    }

    const ASKED: &str = "version = 1\n[interface.wan0]\nbandwidth = \"10 Mbit/s\"\ndiscipline = \"priq\"\n\
        [[interface.wan0.class]]\nname = \"calls\"\npriority = 7\ndiscipline = { kind = \"fifo\", limit = 50 }\n\
        [[interface.wan0.class]]\nname = \"rest\"\npriority = 1\ndefault = true\n\
        [[interface.wan0.filter]]\nclass = \"calls\"\nprotocol = \"udp\"\n\
        [[interface.wan0.filter]]\nclass = \"rest\"\nprotocol = \"tcp\"\n";

    /// Where this runs in place of what was asked, that is told so.
    fn is_told(runs_now: &str, why: &str) {
        let asked = &read(ASKED).interfaces[0];
        let found = unlike(&runs(&read(runs_now).interfaces[0]), asked);
        assert!(found.iter().any(|found| found.contains(why)), "{why}: {found:?}");
    }

    #[test]
    fn each_difference_from_what_was_asked_is_told() {
        let asked = &read(ASKED).interfaces[0];
        assert_eq!(unlike(&runs(asked), asked), [""; 0]);
        let tcp = "[[interface.wan0.filter]]\nclass = \"rest\"\nprotocol = \"tcp\"\n";
        let guests = "[[interface.wan0.class]]\nname = \"guests\"\npriority = 2\n[[interface.wan0.filter]]";
        for (from, to, why) in [
            (
                "10 Mbit/s",
                "11 Mbit/s",
                "its bandwidth is 11 Mbit/s, and was to be 10 Mbit/s",
            ),
            (
                "limit = 50",
                "limit = 40",
                "class calls has limit 40, and was to have 50",
            ),
            (
                "priority = 7",
                "priority = 6",
                "class calls has priority 6, and was to have 7",
            ),
            (
                "kind = \"fifo\", limit = 50",
                "kind = \"red\"",
                "class calls has red, and was to have fifo",
            ),
            (
                "protocol = \"udp\"",
                "protocol = \"icmp\"",
                "its 2 filters are not the 2 of the policy",
            ),
            (
                "class = \"rest\"\nprotocol",
                "class = \"calls\"\nprotocol",
                "its 2 filters are not the 2",
            ),
            (tcp, "", "its 1 filters are not the 2 of the policy"),
            (
                "[[interface.wan0.filter]]",
                guests,
                "1 classes run that the policy does not have",
            ),
        ] {
            is_told(&ASKED.replacen(from, to, 1), why);
        }
        let without = ASKED.replace("priority = 7\n", "").replace("priority = 1\n", "");
        is_told(
            &without.replace("priq", "drr"),
            "its discipline has drr, and was to have priq",
        );
        // The other way round a class is missing.
        let more = &read(&ASKED.replacen("[[interface.wan0.filter]]", guests, 1)).interfaces[0];
        let found = unlike(&runs(asked), more);
        assert!(found.contains(&"class guests is not there".into()), "{found:?}");
        let undefaulted = ASKED.replace("\ndefault = true", "");
        let other = undefaulted.replace("priority = 7\n", "priority = 7\ndefault = true\n");
        is_told(&other, "what no filter takes does not go to its default class");
    }

    /// Policies with two classes each, of a kind that changes classes by their names: a setting of
    /// the class that is changed, another value of it, and how the difference is told.
    const KINDS: [(&str, &str, &str, &str); 7] = [
        ("drr", "quantum = \"2000 B\"", "quantum = \"3 kB\"", "quantum"),
        ("wrr", "weight = 2", "weight = 3", "weight"),
        ("priq", "priority = 7", "priority = 6", "priority"),
        ("cbq", "rate = \"2 Mbit/s\"", "rate = \"3 Mbit/s\"", "rate"),
        (
            "cbq",
            "rate = \"2 Mbit/s\"\nmaxburst = 8",
            "rate = \"2 Mbit/s\"",
            "maxburst",
        ),
        (
            "hfsc",
            "realtime = \"2 Mbit/s\"",
            "realtime = \"3 Mbit/s\"",
            "realtime-rate",
        ),
        (
            "hfsc",
            "linkshare = \"2 Mbit/s\"\nupperlimit = \"4 Mbit/s\"",
            "linkshare = \"2 Mbit/s\"\nupperlimit = \"5 Mbit/s\"",
            "upperlimit",
        ),
    ];

    #[test]
    fn a_class_that_was_changed_alone_is_compared_with_its_plan() {
        for (kind, setting, other, shown) in KINDS {
            let rest = match kind {
                "priq" => "priority = 1",
                "cbq" | "hfsc" => setting,
                _ => "weight = 1",
            };
            let text = |setting: &str, queue: &str| {
                format!(
                    "version = 1\n[interface.wan0]\nbandwidth = \"10 Mbit/s\"\ndiscipline = \"{kind}\"\n\
                     [[interface.wan0.class]]\nname = \"calls\"\n{setting}\ndiscipline = {queue}\n\
                     [[interface.wan0.class]]\nname = \"rest\"\n{rest}\ndefault = true\n\
                     [[interface.wan0.filter]]\nclass = \"calls\"\nprotocol = \"udp\"\n"
                )
            };
            let short = "{ kind = \"fifo\", limit = 50 }";
            let asked = &read(&text(setting, short)).interfaces[0];
            let calls = asked.plan.class("calls").expect("the class");
            let found = |running: &str| unlike_in_class(&runs(&read(running).interfaces[0]), asked, calls);
            let as_asked = text(setting, short);
            assert_eq!(found(&as_asked), [""; 0], "{kind}");
            let differs = [
                (text(other, short), format!("class calls has {shown} ")),
                (
                    text(setting, "{ kind = \"fifo\", limit = 40 }"),
                    "class calls has limit 40, and was to have 50".into(),
                ),
                (
                    text(setting, "{ kind = \"codel\" }"),
                    "class calls has codel, and was to have fifo".into(),
                ),
                (
                    as_asked.replace("udp", "tcp"),
                    "its 1 filters are not the 1".into(),
                ),
            ];
            for (running, why) in differs {
                let found = found(&running);
                let one = matches!(&found[..], [one] if one.starts_with(&why));
                assert!(one, "{kind}: {why}: {found:?}");
            }
        }
    }
}
