//! Quotas over a month in virtual time: reached, limited, kept over a crash, an orderly end and
//! another policy, and begun anew with the month.

use super::kernel::{Kernel, locked};
use super::machine::{Load, World};
use super::policy_file;
use super::router::Router;
use crate::state_folder::replace;
use control::calendar::{self, Period};
use control::difference::Breaking;
use control::protocol::{AddedClass, AddedQuota, Amendment, RemovedClass, SettingChange, SettingChanges};
use control::provenance::Provenance;
use control::quota::QuotaView;
use control::snapshot::ClassView;
use control::socket::Handler;
use engine::random::Seed;
use engine::settings::Raw;
use engine::units::{Bandwidth, Duration, Instant};
use netio::time::SimulatedTime;
use serde_json::{Value, json};
use std::fs;

/// A router that is overloaded both ways, whose class `a` may carry so much.
fn policy(volume: &str) -> String {
    let interface = |name: &str| {
        format!(
            "[interface.{name}]\nbandwidth = \"20 Mbit/s\"\ndiscipline = \"hfsc\"\n\
             [[interface.{name}.class]]\nname = \"home\"\nlinkshare = \"10 Mbit/s\"\n\
             [[interface.{name}.class]]\nname = \"a\"\nparent = \"home\"\nlinkshare = \"5 Mbit/s\"\n\
             quota = {{ volume = \"{volume}\", then = {{ upperlimit = \"200 kbit/s\" }} }}\n\
             [[interface.{name}.class]]\nname = \"rest\"\nlinkshare = \"10 Mbit/s\"\ndefault = true\n\
             [[interface.{name}.filter]]\nclass = \"a\"\nprotocol = \"udp\"\ndestination_port = 5001\n"
        )
    };
    format!(
        "version = 1\n[port]\nbetween = [\"lan0\", \"wan0\"]\n{}{}",
        interface("lan0"),
        interface("wan0")
    )
}

fn router(name: &str, text: &str) -> Router {
    let file = policy_file(name);
    fs::write(&file, text).expect("the policy's file is written");
    let speed = Bandwidth::mbit(100);
    let kernel = Kernel::new(Instant::START + Duration::from_secs(1_000), speed, 16);
    let world = World::new(kernel, Seed(7).fork("traffic").stream());
    world.machine().load = Load::Overload;
    let mut router = Router::new(world, &file, 4 << 20);
    router.begin(false).expect("it begins");
    router
}

fn seconds(router: &mut Router, seconds: u64) {
    router.run(Duration::from_secs(seconds), false);
}

/// Class `a` of both interfaces.
fn both(router: &Router) -> [ClassView; 2] {
    let program = router.program.as_ref().expect("a program");
    let now = program.service.read().expect("an answer").snapshot(None);
    ["lan0", "wan0"].map(|name| {
        let mut interfaces = now.interfaces.iter();
        let interface = interfaces.find(|one| one.name == name).expect(name);
        let class = interface.classes.iter().find(|class| class.name == "a");
        class.expect("class a").clone()
    })
}

/// Its quota, which is the same on both sides.
fn quota(router: &Router) -> QuotaView {
    let [lan, wan] = both(router).map(|class| class.quota.expect("a quota"));
    assert_eq!(lan, wan);
    lan
}

/// What limits class `a` of both interfaces now.
fn limits(router: &Router) -> [Option<String>; 2] {
    let program = router.program.as_ref().expect("a program");
    ["lan0", "wan0"].map(|name| {
        let policy = program.in_force.policy_of(name).expect(name);
        let mut classes = policy.spec.classes.iter();
        let class = classes.find(|class| class.name == "a").expect("class a");
        let limit = class.settings.get("upperlimit")?;
        match &limit.value {
            Raw::Text(text) => Some(text.clone()),
            other => panic!("{other:?}"),
        }
    })
}

fn limited() -> [Option<String>; 2] {
    [(); 2].map(|()| Some("200 kbit/s".to_owned()))
}

/// The numbers of the generations that are kept.
fn generations(router: &Router) -> Vec<u64> {
    let program = router.program.as_ref().expect("a program");
    let history = program.changes.history();
    history.iter().map(|generation| generation.number).collect()
}

fn apply(router: &Router, text: &str, within: Option<std::time::Duration>) -> String {
    fs::write(&router.file, text).expect("written");
    let program = router.program.as_ref().expect("a program");
    let by = Provenance::default();
    let done = (program.service).apply(&router.file, within, Breaking::Refused, by, &|| false);
    done.expect("a policy").message
}

fn roll_back(router: &Router, to: Option<u64>) -> String {
    let program = router.program.as_ref().expect("a program");
    let done = program
        .service
        .rollback(to, Breaking::Refused, Provenance::default());
    done.expect("an earlier generation")
}

fn wanted(class: &str, key: &str, value: &str) -> SettingChanges {
    SettingChanges {
        interface: "wan0".into(),
        class: Some(class.into()),
        changes: [(key.to_owned(), SettingChange::Text(value.into()))].into(),
        until_ms: None,
        reason: None,
    }
}

/// `suimon set wan0 a upperlimit=…` and the like.
fn set(router: &Router, class: &str, key: &str, value: &str) {
    let program = router.program.as_ref().expect("a program");
    let wanted = wanted(class, key, value);
    let done = program.service.set(&wanted, Provenance::default());
    done.expect("it is set");
}

#[test]
fn a_quota_is_counted_both_ways_limits_when_it_is_used_up_and_survives_what_a_program_does_not() {
    let mut router = router("quota", &policy("1 MB per month"));
    seconds(&mut router, 1);
    let before = quota(&router);
    assert!(!before.used_up && before.used_bytes > 100_000, "{before:?}");
    assert_eq!((before.volume_bytes, &*before.per), (1_000_000, "month"));
    let now_ms = router.world.now_ms();
    assert_eq!(Some(before.ends_ms), calendar::end_of(Period::Month, now_ms));
    assert_eq!(limits(&router), [None, None]);

    seconds(&mut router, 5);
    let reached = quota(&router);
    assert!(reached.used_up, "{reached:?}");
    assert_eq!(limits(&router), limited());
    let sent: u64 = both(&router).iter().map(|class| class.traffic.sent_bytes).sum();
    let since = sent - reached.used_bytes;
    assert!(
        since < 40_000,
        "{since} B since the last look, of 200 kbit/s each way"
    );

    // It gets no more than that now.
    seconds(&mut router, 10);
    let later: u64 = both(&router).iter().map(|class| class.traffic.sent_bytes).sum();
    let most = 2 * 10 * 200_000 / 8;
    let more = later - sent;
    assert!(
        more > most / 2 && more < most + 20_000,
        "{more} B in 10 s, {most} allowed"
    );
    assert_eq!(generations(&router), [1], "nobody has made another");

    // A crash forgets a minute at most, and no limit.
    let counted = quota(&router).used_bytes;
    router.crash(true);
    router.begin(false).expect("it begins again");
    seconds(&mut router, 1);
    assert_eq!(limits(&router), limited());
    let after = quota(&router);
    assert!(
        after.used_up && after.used_bytes + 1_000_000 > counted,
        "{after:?}"
    );

    // An orderly end forgets nothing.
    seconds(&mut router, 3);
    let counted = quota(&router).used_bytes;
    router.end().expect("it ends");
    router.begin(false).expect("it begins again");
    assert_eq!(limits(&router), limited());
    seconds(&mut router, 1);
    assert!(quota(&router).used_bytes > counted);
    assert_eq!(generations(&router), [1]);
}

#[test]
fn a_quota_begins_anew_with_the_month_and_so_does_its_class() {
    let mut router = router("quota-month", &policy("1 MB per month"));
    seconds(&mut router, 5);
    assert_eq!(limits(&router), limited());
    let ends_ms = quota(&router).ends_ms;
    // A second before the month's end nothing is over.
    let to = |router: &Router, ms: u64| {
        let now_ms = router.world.now_ms();
        router.world.machine().wall_ms += i64::try_from(ms).expect("a time") - now_ms as i64;
    };
    to(&router, ends_ms - 2_000);
    seconds(&mut router, 1);
    assert_eq!(limits(&router), limited());
    assert!(quota(&router).used_up);
    router.world.machine().load = Load::Idle;
    seconds(&mut router, 2);
    let anew = quota(&router);
    // What had to wait leaves now.
    assert!(!anew.used_up && anew.used_bytes < 600_000, "{anew:?}");
    assert_eq!(Some(anew.ends_ms), calendar::end_of(Period::Month, ends_ms));
    assert_eq!(limits(&router), [None, None]);
    assert_eq!(
        generations(&router),
        [1],
        "its end is no change of anybody's either"
    );

    // The same over the end of the next month, of which the program sees nothing.
    router.world.machine().load = Load::Overload;
    seconds(&mut router, 5);
    assert_eq!(limits(&router), limited());
    router.crash(true);
    to(&router, anew.ends_ms + 1);
    router.world.machine().load = Load::Idle;
    router.begin(false).expect("it begins");
    assert_eq!(limits(&router), [None, None]);
    seconds(&mut router, 1);
    assert!(quota(&router).used_bytes < 200_000);
}

#[test]
fn another_policy_keeps_the_count_and_what_somebody_undoes_stays_undone() {
    let mut router = router("quota-policy", &policy("1 MB per month"));
    seconds(&mut router, 5);
    assert_eq!(limits(&router), limited());
    let used = quota(&router).used_bytes;
    // More is bought.
    apply(&router, &policy("1 GB per month"), None);
    assert_eq!(limits(&router), [None, None]);
    seconds(&mut router, 2);
    let more = quota(&router);
    assert!(more.used_bytes > used && !more.used_up, "{more:?}");
    assert_eq!(limits(&router), [None, None]);
    // Less again.
    apply(&router, &policy("2 MB per month"), None);
    seconds(&mut router, 6);
    assert_eq!(limits(&router), limited());

    // By hand, and that stays.
    set(&router, "a", "upperlimit", "5 Mbit/s");
    seconds(&mut router, 3);
    let by_hand = ["200 kbit/s", "5 Mbit/s"].map(|limit| Some(limit.to_owned()));
    assert_eq!(limits(&router), by_hand);
    // Also over a crash.
    router.crash(true);
    router.begin(false).expect("it begins again");
    seconds(&mut router, 2);
    assert_eq!(limits(&router), by_hand);
}

#[test]
fn what_is_set_for_a_time_lifts_a_limit_and_leaves_it_then() {
    let mut router = router("quota-lifted", &policy("1 MB per month"));
    seconds(&mut router, 5);
    assert_eq!(limits(&router), limited());
    let program = router.program.as_ref().expect("a program");
    let lifted = SettingChanges {
        until_ms: Some(router.world.now_ms() + 3_000),
        ..wanted("a", "upperlimit", "5 Mbit/s")
    };
    let done = program.service.set(&lifted, Provenance::default());
    done.expect("it is set");
    seconds(&mut router, 2);
    assert_eq!(limits(&router)[1].as_deref(), Some("5 Mbit/s"));
    seconds(&mut router, 3);
    assert_eq!(limits(&router), limited());
}

#[test]
fn a_policy_that_comes_again_has_its_quotas_again() {
    let mut router = router("quota-again", &policy("1 MB per month"));
    seconds(&mut router, 5);
    assert_eq!(limits(&router), limited());
    apply(&router, &policy("1 GB per month"), None);
    seconds(&mut router, 1);
    assert_eq!(limits(&router), [None, None]);
    apply(&router, &policy("1 MB per month"), None);
    seconds(&mut router, 1);
    assert_eq!(limits(&router), limited());
    // Faster than anybody looks.
    apply(&router, &policy("1 GB per month"), None);
    apply(&router, &policy("1 MB per month"), None);
    seconds(&mut router, 1);
    assert_eq!(limits(&router), limited());
}

#[test]
fn what_is_gone_back_to_has_what_quotas_have_brought_since() {
    let mut router = router("quota-back", &policy("1 MB per month"));
    set(&router, "rest", "linkshare", "9 Mbit/s");
    seconds(&mut router, 5);
    assert_eq!((generations(&router), limits(&router)), (vec![1, 2], limited()));
    let said = roll_back(&router, None);
    assert!(said.contains("rest: linkshare"), "{said}");
    assert!(!said.contains("upperlimit"), "{said}");
    assert_eq!(
        (generations(&router), limits(&router)),
        (vec![1, 2, 3], limited())
    );
    // And a start goes on with it.
    router.crash(true);
    router.begin(false).expect("it begins again");
    assert_eq!(limits(&router), limited());
    // Another text has what it states.
    let other = policy("1 MB per month").replace("200 kbit/s", "300 kbit/s");
    apply(&router, &other, None);
    seconds(&mut router, 1);
    let faster = [(); 2].map(|()| Some("300 kbit/s".to_owned()));
    assert_eq!(limits(&router), faster);
    roll_back(&router, None);
    assert_eq!(limits(&router), limited());
    seconds(&mut router, 1);
    assert_eq!(limits(&router), limited());
}

#[test]
fn a_change_that_waits_to_be_confirmed_gets_quotas_and_its_undoing_keeps_them() {
    let mut router = router("quota-waits", &policy("1 GB per month"));
    let within = Some(std::time::Duration::from_secs(20));
    seconds(&mut router, 5);
    apply(&router, &policy("1 MB per month"), within);
    seconds(&mut router, 1);
    assert_eq!(limits(&router), limited(), "nobody has to confirm it first");
    let program = router.program.as_ref().expect("a program");
    program.changes.confirm().expect("it waits");
    let faster = policy("1 MB per month").replace("linkshare = \"10 Mbit/s\"", "linkshare = \"9 Mbit/s\"");
    apply(&router, &faster, within);
    seconds(&mut router, 1);
    assert_eq!(limits(&router), limited());
    seconds(&mut router, 20);
    assert_eq!(generations(&router).last(), Some(&4), "it is undone");
    assert_eq!(limits(&router), limited());
}

#[test]
fn a_change_is_refused_that_would_be_wrong_once_a_quota_is_used_up() {
    let text = policy("1 GB per month").replace("upperlimit = \"200 kbit/s\"", "realtime = \"4 Mbit/s\"");
    let mut router = router("quota-wrong", &text);
    seconds(&mut router, 1);
    let program = router.program.as_ref().expect("a program");
    // 17 and 4 do not fit into 20 Mbit/s, and 17 alone would.
    let wanted = wanted("rest", "realtime", "17 Mbit/s");
    let by = Provenance::default();
    let other = program.service.set(&wanted, by.clone());
    let added = Amendment::Added(AddedClass {
        interface: "wan0".into(),
        class: "more".into(),
        settings: wanted.changes,
        filters: Vec::new(),
        quota: None,
        until_ms: None,
        reason: None,
    });
    let added = program.service.change_class(&added, by);
    for refused in [other, added] {
        let why = refused.expect_err("it is too much then").message;
        assert!(why.contains("once the quota of `a` is used up"), "{why}");
    }
    set(&router, "rest", "realtime", "15 Mbit/s");
}

#[test]
fn a_class_comes_with_a_quota_of_its_own() {
    let mut router = router("quota-comes", &policy("1 GB per month"));
    seconds(&mut router, 1);
    let program = router.program.as_ref().expect("a program");
    let wanted = Amendment::Added(AddedClass {
        interface: "wan0".into(),
        class: "b".into(),
        settings: [("linkshare".to_owned(), SettingChange::Text("1 Mbit/s".into()))].into(),
        filters: vec![
            [
                ("protocol".to_owned(), SettingChange::Text("udp".into())),
                ("destination_port".to_owned(), SettingChange::Integer(5002)),
            ]
            .into(),
        ],
        quota: Some(AddedQuota {
            volume: "100 kB per day".into(),
            then: [("upperlimit".to_owned(), SettingChange::Text("64 kbit/s".into()))].into(),
        }),
        until_ms: None,
        reason: None,
    });
    let done = program.service.change_class(&wanted, Provenance::default());
    let done = done.expect("it comes");
    assert!(
        done.contains("quota 100 kB per day, then upperlimit = 64 kbit/s"),
        "{done}"
    );
    seconds(&mut router, 8);
    let of_b = |router: &Router| {
        let program = router.program.as_ref().expect("a program");
        let now = program.service.read().expect("an answer").snapshot(None);
        let mut classes = now.interfaces.into_iter().flat_map(|one| one.classes);
        classes
            .find(|class| class.name == "b")
            .and_then(|class| class.quota)
    };
    let full = of_b(&router).expect("it has a quota");
    assert!(full.used_up && full.volume_bytes == 100_000, "{full:?}");
    // A start has it again.
    router.crash(true);
    router.begin(false).expect("it begins again");
    seconds(&mut router, 1);
    let program = router.program.as_ref().expect("a program");
    assert!(of_b(&router).expect("it has a quota").used_up);
    let policy = program.in_force.policy_of("wan0").expect("managed");
    let limit = policy.spec.classes.iter().find(|class| class.name == "b");
    let limit = limit
        .and_then(|class| class.settings.get("upperlimit"))
        .map(|limit| limit.value.clone());
    assert_eq!(limit, Some(Raw::Text("64 kbit/s".into())));
    assert_eq!(
        generations(&router),
        [1, 2],
        "the class that came, and nothing of its quota"
    );
}

/// A class `home` has the quota, of which `a` and `b` are parts.
#[test]
fn a_class_that_goes_does_not_count_again_what_those_beside_it_have_carried() {
    let quota = "quota = { volume = \"1 GB per month\", then = { upperlimit = \"200 kbit/s\" } }\n";
    let text = policy("1 GB per month").replace(quota, "");
    let text = ["lan0", "wan0"].iter().fold(text, |text, name| {
        let home = format!("[[interface.{name}.class]]\nname = \"home\"\nlinkshare = \"10 Mbit/s\"\n");
        let idle = format!(
            "[[interface.{name}.class]]\nname = \"b\"\nparent = \"home\"\nlinkshare = \"5 Mbit/s\"\n\
             [[interface.{name}.filter]]\nclass = \"b\"\nprotocol = \"udp\"\ndestination_port = 5002\n"
        );
        text.replace(&home, &format!("{home}{quota}")) + &idle
    });
    let mut router = router("quota-below", &text);
    let used = |router: &Router| {
        let program = router.program.as_ref().expect("a program");
        let now = program.service.read().expect("an answer").snapshot(None);
        let mut classes = now.interfaces.iter().flat_map(|one| &one.classes);
        let home = classes.find(|class| class.name == "home").expect("home");
        home.quota.clone().expect("a quota").used_bytes
    };
    seconds(&mut router, 3);
    router.world.machine().load = Load::Idle;
    seconds(&mut router, 3);
    let before = used(&router);
    assert!(before > 500_000, "{before}");
    for interface in ["lan0", "wan0"] {
        let gone = Amendment::Removed(RemovedClass {
            interface: interface.into(),
            class: "a".into(),
            until_ms: None,
            reason: None,
        });
        let program = router.program.as_ref().expect("a program");
        let done = program.service.change_class(&gone, Provenance::default());
        done.expect("it goes");
    }
    seconds(&mut router, 2);
    assert_eq!(used(&router), before);
    // What comes below counts, too.
    router.world.machine().load = Load::Overload;
    seconds(&mut router, 2);
    assert!(used(&router) > before);
}

/// A house of so many peers, of which all have used up theirs.
#[test]
fn very_many_quotas_that_are_used_up_are_no_generations() {
    const PEERS: usize = 100;
    const NAMES: [&str; 2] = ["lan0", "wan0"];
    let text = NAMES.iter().fold(policy("1 MB per month"), |text, name| {
        (0..PEERS).fold(text, |text, peer| {
            text + &format!(
                "[[interface.{name}.class]]\nname = \"peer-{peer}\"\nlinkshare = \"10 kbit/s\"\n\
                 quota = {{ volume = \"1 B per month\", then = {{ upperlimit = \"8 kbit/s\" }} }}\n"
            )
        })
    });
    let mut router = router("quota-many", &text);
    seconds(&mut router, 1);
    let ends_ms = quota(&router).ends_ms;
    router.end().expect("it ends");
    let record = |name: &str, peer: usize| json!({ "interface": name, "class": format!("peer-{peer}"), "per": "month", "used_bytes": 9, "ends_ms": ends_ms });
    let records = NAMES
        .iter()
        .flat_map(|name| (0..PEERS).map(|peer| record(name, peer)));
    let records = Value::from_iter(records).to_string();
    replace(&mut router.disk, "quotas.json", records.as_bytes()).expect("it is written");
    router.begin(false).expect("it begins again");
    seconds(&mut router, 15);
    let program = router.program.as_ref().expect("a program");
    for name in NAMES {
        let policy = program.in_force.policy_of(name).expect(name);
        let limited = policy.spec.classes.iter().filter(|class| {
            let limit = class.settings.get("upperlimit").map(|limit| limit.value.clone());
            limit == Some(Raw::Text("8 kbit/s".into()))
        });
        assert_eq!(limited.count(), PEERS);
    }
    assert_eq!(generations(&router), [1]);
}

#[test]
fn what_cannot_be_written_is_counted_all_the_same() {
    let mut router = router("quota-disk", &policy("1 MB per month"));
    router.disk.goes_off_after(Some(0));
    seconds(&mut router, 8);
    let full = quota(&router);
    assert!(full.used_up, "{full:?}");
    assert_eq!(
        limits(&router),
        [None, None],
        "nothing is set that a restart would forget"
    );
    router.disk.goes_off_after(None);
    seconds(&mut router, 62);
    assert_eq!(limits(&router), limited());
    assert!(locked(&router.world.machine().kernel).wrong.is_none());
}
