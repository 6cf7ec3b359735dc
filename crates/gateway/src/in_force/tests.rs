//! Classes come, go, and change, at random and under load: no packet is lost, duplicated or
//! reordered within its flow, and the tree is not built anew.

mod a_twentieth;
mod begins_anew;
#[allow(dead_code, reason = "tests of the engine use more of it")]
#[path = "../../../engine/tests/stubs/counted.rs"]
mod counted;
mod filters_in_order;
mod many_at_once;
mod memory_of_the_loop;
mod own_settings;
mod random_changes;
mod random_policies;
mod reservations;

use super::*;
use crate::direction;
use control::policy::Policy;
use control::protocol::{AddedClass, Amendment, RemovedClass, SettingChange};
use counted::{ADOPTED, COUNTED, VISITED};
use engine::random::{Rng, Seed};
use engine::settings::{Raw, Table};
use engine::tree::DisciplineSpec;
use engine::units::{Duration, Instant};
use netio::pool::Offload;
use netio::port::Capabilities;
use netio::ports::memory::Memory;
use netio::worker::{Settings, Worker};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::Ordering;

/// The kinds whose classes come and go one by one, with a setting of a class.
const KINDS: [(&str, &str); 6] = [
    ("drr", "weight = {}"),
    ("wrr", "weight = {}"),
    ("hfsc", "linkshare = \"{}00 kbit/s\""),
    ("hfsc", "realtime = \"{}00 kbit/s\""),
    ("cbq", "rate = \"{}00 kbit/s\""),
    ("priq", "priority = {unique}"),
];
/// Flows, and so many classes at most: flow *n* has class *n*, if there is one.
const FLOWS: u16 = 20;
/// Classes at the beginning: as many can come as there are places.
const FIRST: u16 = 12;

/// The setting of the class of a flow, with this value.
fn setting(kind: (&str, &str), flow: u64, value: u64) -> String {
    let unique = value * u64::from(FLOWS) + flow;
    let setting = kind.1.replace("{}", &value.to_string());
    setting.replace("{unique}", &unique.to_string())
}

/// A class of each of these flows, with the value of its setting; the first is the default.
fn text(kind: (&str, &str), classes: &BTreeMap<u16, u64>) -> String {
    let mut text = format!(
        "version = 1\n[interface.wan0]\nbandwidth = \"200 Mbit/s\"\ndiscipline = \"{}\"\n",
        kind.0
    );
    for (flow, value) in classes {
        let setting = setting(kind, (*flow).into(), *value);
        let _ = write!(
            text,
            "[[interface.wan0.class]]\nname = \"c{flow}\"\ndefault = {}\ndiscipline = \"fifo\"\n{setting}\n\
             [[interface.wan0.filter]]\nclass = \"c{flow}\"\nprotocol = \"udp\"\ndestination_port = {}\n",
            *flow == 0,
            1_000 + flow
        );
    }
    text
}

/// The policy of one interface.
fn read(text: &str) -> InterfacePolicy {
    let read = Policy::read("test", text, &Registry::builtin(), &[]);
    read.unwrap_or_else(|why| panic!("{}\n{text}", why.render(false)))
        .interfaces
        .remove(0)
}

fn policy(kind: (&str, &str), classes: &BTreeMap<u16, u64>) -> InterfacePolicy {
    read(&text(kind, classes))
}

/// A UDP packet of this flow, with its number.
fn frame_of(flow: u16, number: u32, length: usize) -> Vec<u8> {
    let mut frame = vec![0; length];
    let datagram = length as u16 - 14;
    // Able to take a mark of congestion.
    frame[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0x02]);
    frame[16..18].copy_from_slice(&datagram.to_be_bytes());
    frame[22..24].copy_from_slice(&[64, 17]);
    frame[26..34].copy_from_slice(&[10, 1, 0, 1, 10, 0, 0, 1]);
    frame[34..36].copy_from_slice(&5_000u16.to_be_bytes());
    frame[36..38].copy_from_slice(&(1_000 + flow).to_be_bytes());
    frame[38..40].copy_from_slice(&(datagram - 20).to_be_bytes());
    frame[42..44].copy_from_slice(&flow.to_be_bytes());
    frame[44..48].copy_from_slice(&number.to_be_bytes());
    frame
}

/// What that tells of its flow, and its number.
fn told(frame: &[u8]) -> (usize, u32) {
    let bytes = |range: std::ops::Range<usize>| frame[range].iter();
    let flow = bytes(42..44).fold(0, |all, &byte| all << 8 | usize::from(byte));
    (
        flow,
        bytes(44..48).fold(0, |all, &byte| all << 8 | u32::from(byte)),
    )
}

/// The same with so many classes of one queue each that counts what it is asked.
fn counted(kind: (&str, &str), classes: u64, other: Option<u64>) -> InterfacePolicy {
    counted_at("200 Mbit/s", kind, classes, other)
}

/// The same of this bandwidth.
fn counted_at(bandwidth: &str, kind: (&str, &str), classes: u64, other: Option<u64>) -> InterfacePolicy {
    let value = |class| if other == Some(class) { 3 } else { 4 };
    counted_of((bandwidth, kind, &[]), classes, value)
}

/// The same with these own settings, and such a value for each class.
fn counted_of(
    (bandwidth, kind, own): (&str, (&str, &str), &[(&str, &str)]),
    classes: u64,
    value: impl Fn(u64) -> u64,
) -> InterfacePolicy {
    let small = text(kind, &(0..2).map(|flow| (flow, 4)).collect());
    let small = read(&small.replace("200 Mbit/s", bandwidth));
    let mut spec = DisciplineSpec::clone(&small.spec);
    for (key, value) in own {
        spec.settings = std::mem::take(&mut spec.settings).text(key, value);
    }
    let first = spec.classes[0].clone();
    spec.classes = (0..classes)
        .map(|class| {
            let mut of = first.clone();
            (of.name, of.default) = (format!("c{class}").into(), class == 0);
            of.discipline = Some(DisciplineSpec::of(&COUNTED));
            // So little that all of them fit.
            let text = kind
                .1
                .replace("{}00", "{}")
                .replace("{}", &value(class).to_string());
            let (key, value) = text.split_once(" = ").expect("a setting");
            of.settings = match value.parse::<i64>() {
                Ok(number) => Table::default().with(key, Raw::Integer(number)),
                Err(_) => Table::default().text(key, value.trim_matches('"')),
            };
            of
        })
        .collect();
    let registry = Registry::builtin().with(&COUNTED);
    vacancies::with_tree(&small, spec, &registry).expect("a tree")
}

struct Rig {
    worker: Worker,
    handle: Handle,
    path: PathId,
    in_force: InForce,
    left: Memory,
    right: Memory,
    now: Instant,
    sent: [u32; FLOWS as usize],
    arrived: [u32; FLOWS as usize],
    /// Changes of one class for which the classifier was built anew: where its secret seed has a
    /// filter hash to, there was no room, or what goes leaves a table without any.
    reclassified: u64,
    /// Queues that adopted other settings: in one turn at most, and in all.
    most_adopted: usize,
    all_adopted: usize,
}

impl Rig {
    fn new(policy: &InterfacePolicy, registry: Registry) -> Self {
        let (mut worker, handle) = Worker::new(Settings::default()).expect("a worker");
        let mut port = |name| {
            let capabilities = Capabilities::plain(1500, 64);
            let [near, far] = Memory::pair([name, "far end"], capabilities).expect("a wire");
            (worker.add_port(Box::new(near)), far)
        };
        let ((from, left), (to, right)) = (port("lan0"), port("wan0"));
        let whole = vacancies::laid_out(policy, &registry);
        let path = worker.add_path(direction::managed(&whole, from, to));
        let in_force = InForce::running(handle.clone(), registry, [((path, policy.clone()), whole)]);
        Self {
            worker,
            handle,
            path,
            in_force,
            left,
            right,
            now: Instant::START + Duration::from_secs(1),
            sent: [0; FLOWS as usize],
            reclassified: 0,
            most_adopted: 0,
            all_adopted: 0,
            arrived: [0; FLOWS as usize],
        }
    }

    fn send(&mut self, rng: &mut Rng, packets: u64) {
        for _ in 0..packets {
            let flow = rng.below(u64::from(FLOWS)) as u16;
            let number = &mut self.sent[usize::from(flow)];
            self.left.send(&frame_of(flow, *number, 214), Offload::default());
            *number += 1;
        }
    }

    /// A turn of the worker. What arrives is the next of its flow.
    fn turn(&mut self) {
        let before = ADOPTED.load(Ordering::Relaxed);
        let _ = self.worker.turn_at(self.now);
        let adopted = ADOPTED.load(Ordering::Relaxed) - before;
        self.most_adopted = self.most_adopted.max(adopted);
        self.all_adopted += adopted;
        while let Some(frame) = self.right.take() {
            let (flow, number) = told(&frame.bytes);
            assert_eq!(number, self.arrived[flow], "flow {flow}");
            self.arrived[flow] += 1;
        }
    }

    /// Puts a policy into force while packets flow; and switches the discipline off and on
    /// meanwhile.
    fn change(&mut self, policy: &InterfacePolicy, rng: &mut Rng, switched: bool) -> Adopted {
        self.make(rng, switched, |in_force| {
            Ok(in_force.put(policy.clone(), policy.clone())?.adopted)
        })
    }

    /// One class comes or goes while packets flow. `None` if that looks at all.
    fn change_class(&mut self, change: &Amendment, rng: &mut Rng, switched: bool) -> Option<Adopted> {
        let policy = self.in_force.policy_of("wan0").expect("it is managed");
        let registry = Registry::builtin().with(&COUNTED);
        let changed = policy.with_class_change(&registry, change)?;
        let mut alone = true;
        let adopted = self.make(rng, switched, |in_force| {
            if let Some(adopted) = in_force.adopts_changed(&changed)? {
                assert_eq!(in_force.unlike_in_class("wan0", changed.class)?, [""; 0]);
                return Ok(adopted.adopted);
            }
            alone = false;
            Ok(in_force
                .put(changed.policy.clone(), changed.policy.clone())?
                .adopted)
        });
        self.reclassified += u64::from(!alone);
        Some(adopted)
    }

    /// That the worker runs what it was asked, as it tells while packets flow.
    fn runs_as_asked(&mut self, rng: &mut Rng) {
        let _ = self.make(rng, false, |in_force| {
            let unlike = in_force.unlike()?;
            assert!(unlike.values().all(Vec::is_empty), "{unlike:?}");
            Ok(Adopted::InPlace)
        });
    }

    fn make(
        &mut self,
        rng: &mut Rng,
        switched: bool,
        change: impl FnOnce(&InForce) -> Result<Adopted, Refusal> + Send,
    ) -> Adopted {
        let in_force = std::mem::replace(
            &mut self.in_force,
            InForce::new(self.handle.clone(), Registry::builtin(), []),
        );
        let (handle, path) = (self.handle.clone(), self.path);
        let adopted = std::thread::scope(|scope| {
            let asked = scope.spawn(|| change(&in_force));
            let switch = scope.spawn(move || {
                if switched {
                    handle.switch(path, false).expect("an answer");
                    handle.switch(path, true).expect("an answer");
                }
            });
            while !asked.is_finished() || !switch.is_finished() {
                let few = rng.below(4);
                self.send(rng, few);
                self.now = self.now + Duration::from_micros(50);
                self.turn();
            }
            asked.join().expect("no panic").expect("a change")
        });
        self.in_force = in_force;
        adopted
    }
}

#[test]
fn classes_come_go_and_change_in_place_and_no_packet_is_lost_or_overtaken() {
    for kind in KINDS {
        let mut rng = Seed(7).fork(kind.1).stream();
        let mut classes: BTreeMap<u16, u64> = (0..FIRST).map(|flow| (flow, 4)).collect();
        let mut rig = Rig::new(&policy(kind, &classes), Registry::builtin());
        let (mut changes, mut in_place) = (0, 0);
        for _ in 0..60 {
            for _ in 0..rng.below(4) {
                let (burst, flow) = (rng.below(60), rng.below(u64::from(FLOWS)) as u16);
                rig.send(&mut rng, burst);
                rig.now = rig.now + Duration::from_micros(rng.below(3_000));
                rig.turn();
                // One change of several classes, at times.
                match classes.remove(&flow) {
                    Some(_) if flow > 0 && rng.below(2) == 0 => {}
                    _ => drop(classes.insert(flow, 1 + rng.below(8))),
                }
            }
            let switched = rng.below(8) == 0;
            let adopted = rig.change(&policy(kind, &classes), &mut rng, switched);
            (changes, in_place) = (changes + 1, in_place + u32::from(adopted == Adopted::InPlace));
            rig.runs_as_asked(&mut rng);
        }
        for _ in 0..20_000 {
            rig.now = rig.now + Duration::from_micros(100);
            rig.turn();
        }
        assert_eq!(rig.arrived, rig.sent, "{kind:?}");
        assert_eq!(in_place, changes, "{kind:?}");
        let whole = Arc::clone(&rig.in_force.lock()[0].whole);
        let named = whole.plan.classes.iter().filter(|info| !info.vacant);
        assert_eq!(named.count(), classes.len(), "{kind:?}");
    }
}

/// A class of this flow that comes, or goes.
fn one(kind: (&str, &str), flow: u64, comes: bool, discipline: &str) -> Amendment {
    let (interface, class) = ("wan0".to_owned(), format!("c{flow}"));
    let (until_ms, reason) = (None, None);
    if !comes {
        return Amendment::Removed(RemovedClass {
            interface,
            class,
            until_ms,
            reason,
        });
    }
    let setting = setting(kind, flow, 4).replace('"', "");
    let words = [format!("discipline={discipline}"), setting.replace(" = ", "=")];
    let fields = [
        "protocol=udp".to_owned(),
        format!("destination_port={}", 1_000 + flow % 60_000),
    ];
    let table = |words: &[String]| {
        words
            .iter()
            .map(|word| SettingChange::assignment(word).expect("one"))
            .collect()
    };
    Amendment::Added(AddedClass {
        interface,
        class,
        settings: table(&words),
        filters: vec![table(&fields)],
        quota: None,
        until_ms,
        reason,
    })
}

#[test]
fn one_class_comes_or_goes_alone_and_no_packet_is_lost_or_overtaken() {
    for kind in KINDS {
        let mut rng = Seed(8).fork(kind.1).stream();
        let mut classes: BTreeMap<u16, u64> = (0..FIRST).map(|flow| (flow, 4)).collect();
        let mut rig = Rig::new(&policy(kind, &classes), Registry::builtin());
        for round in 0..100 {
            let (burst, flow) = (rng.below(60), 1 + rng.below(u64::from(FLOWS) - 1) as u16);
            rig.send(&mut rng, burst);
            rig.now = rig.now + Duration::from_micros(rng.below(3_000));
            rig.turn();
            let comes = classes.remove(&flow).is_none();
            if comes {
                classes.insert(flow, 4);
            }
            let change = one(kind, flow.into(), comes, "fifo");
            let switched = rng.below(8) == 0;
            let adopted = rig.change_class(&change, &mut rng, switched);
            assert_eq!(adopted, Some(Adopted::InPlace), "{kind:?}, {round}: {change}");
            rig.runs_as_asked(&mut rng);
        }
        let now = rig.in_force.policy_of("wan0").expect("it is managed");
        let named = now.plan.classes.iter().filter(|info| !info.vacant);
        assert_eq!((named.count(), now.filters.len()), (classes.len(), classes.len()));
        for _ in 0..20_000 {
            rig.now = rig.now + Duration::from_micros(100);
            rig.turn();
        }
        assert_eq!(rig.arrived, rig.sent, "{kind:?}");
        // About one in two thousand is.
        assert!(rig.reclassified <= 4, "{kind:?}: {}", rig.reclassified);
    }
}

/// Where nothing is compared with all classes either.
fn one_that_comes_or_goes_alone_visits_no_other() {
    // A class of `priq` has one of 256 priorities, so it is never among very many.
    for kind in KINDS.into_iter().filter(|kind| kind.0 != "priq") {
        for classes in [10, 1_000, 10_000] {
            let base = counted(kind, classes, None);
            let mut rig = Rig::new(&base, Registry::builtin().with(&COUNTED));
            VISITED.store(0, Ordering::Relaxed);
            let mut visited = 0;
            for _ in 0..5 {
                (rig.reclassified, visited) = (0, 0);
                for comes in [true, false] {
                    let change = one((kind.0, &kind.1.replace("00 ", " ")), classes, comes, "counted");
                    let adopted = rig.change_class(&change, &mut Seed(1).stream(), false);
                    assert_eq!(adopted, Some(Adopted::InPlace), "{kind:?}, {classes}");
                }
                visited += VISITED.swap(0, Ordering::Relaxed);
                if rig.reclassified == 0 {
                    break;
                }
            }
            assert_eq!(rig.reclassified, 0, "{kind:?}, {classes}: five times in turn");
            // The check after each builds a queue beside, and looks at it and the running one.
            assert!((1..=10).contains(&visited), "{kind:?}, {classes}: {visited}");
        }
    }
}

/// What follows from the link is adopted class by class, a few in each turn of the loop.
fn another_bandwidth_visits_few_at_a_time() {
    const CLASSES: u64 = 5_000;
    for kind in KINDS.into_iter().filter(|kind| kind.0 != "priq") {
        let mut rig = Rig::new(&counted(kind, CLASSES, None), Registry::builtin().with(&COUNTED));
        for bandwidth in ["100 Mbit/s", "400 Mbit/s"] {
            (rig.most_adopted, rig.all_adopted) = (0, 0);
            let adopted = rig.change(
                &counted_at(bandwidth, kind, CLASSES, None),
                &mut Seed(1).stream(),
                false,
            );
            assert_eq!(adopted, Adopted::InPlace, "{kind:?}, {bandwidth}");
            assert_eq!(rig.all_adopted, CLASSES as usize, "{kind:?}, {bandwidth}");
            assert!(rig.most_adopted <= 64, "{kind:?}: {} in a turn", rig.most_adopted);
        }
    }
}

type Pair = (&'static str, &'static str);

/// Kinds with own settings, with which all classes take over what each alone is in, a few in each
/// turn of the loop.
const SHARED: [(Pair, &[Pair]); 4] = [
    (("pacer", "rate = \"{}00 kbit/s\""), &[("wire", "1 Gbit/s")]),
    (("wrr", "weight = {}"), &[("mode", "poll")]),
    (("cbq", "rate = \"{}00 kbit/s\""), &[("sharing", "top-level")]),
    (
        ("cbq", "rate = \"{}00 kbit/s\""),
        &[("sharing", "ancestors-only"), ("root_rate", "90 %")],
    ),
];

/// Another value for all classes, or for one; however many there are.
fn what_all_share_visits_few_at_a_time() {
    for (kind, own) in SHARED {
        for classes in [10, 1_000, 10_000] {
            let with = |value: u64| counted_of(("200 Mbit/s", kind, own), classes, |_| value);
            let mut rig = Rig::new(&with(4), Registry::builtin().with(&COUNTED));
            for value in [5, 4] {
                (rig.most_adopted, rig.all_adopted) = (0, 0);
                let adopted = rig.change(&with(value), &mut Seed(1).stream(), false);
                assert_eq!(adopted, Adopted::InPlace, "{kind:?}, {own:?}, {classes}");
                assert_eq!(rig.all_adopted, classes as usize, "{kind:?}, {own:?}");
                let most = rig.most_adopted;
                assert!((1..=64).contains(&most), "{kind:?}, {own:?}: {most} in a turn");
            }
        }
    }
}

/// Counted, not timed: the whole of a change, in the packet loop and beside it, makes, changes and
/// empties as many queues among very many classes as among few.
#[test]
fn one_class_that_comes_goes_or_changes_visits_no_other() {
    // Not tests of their own, since what is counted is counted together.
    one_that_comes_or_goes_alone_visits_no_other();
    another_bandwidth_visits_few_at_a_time();
    what_all_share_visits_few_at_a_time();
    for kind in KINDS.into_iter().filter(|kind| kind.0 != "priq") {
        let visits = [10, 1_000, 10_000].map(|classes| {
            let base = counted(kind, classes, None);
            let more = counted(kind, classes + 1, None);
            let other = counted(kind, classes, Some(classes / 2));
            let mut rig = Rig::new(&base, Registry::builtin().with(&COUNTED));
            // Of what is counted at all, each queue is made once.
            assert!(VISITED.swap(0, Ordering::Relaxed) >= classes as usize);
            [more, base.clone(), other, base].map(|policy| {
                let adopted = rig.change(&policy, &mut Seed(1).stream(), false);
                assert_eq!(adopted, Adopted::InPlace, "{kind:?}, {classes}");
                VISITED.swap(0, Ordering::Relaxed)
            })
        });
        let [few, more, many] = visits;
        assert!(few == more && more == many, "{kind:?}: {visits:?}");
        // Of one that goes, whose queue holds nothing, none is made or looked at.
        let [comes, goes, set, back] = few;
        let visited = [comes, set, back].iter().all(|one| (1..=3).contains(one)) && goes <= 3;
        assert!(visited, "{kind:?}: {few:?}");
    }
}
