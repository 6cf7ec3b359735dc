//! Quotas over a month in virtual time: reached, limited, kept over a crash, an orderly end and
//! another policy, and begun anew with the month.

use super::kernel::{Kernel, locked};
use super::machine::{Load, World};
use super::policy_file;
use super::router::Router;
use control::calendar::{self, Period};
use control::difference::Breaking;
use control::protocol::SettingChange;
use control::provenance::Provenance;
use control::quota::QuotaView;
use control::snapshot::ClassView;
use control::socket::Handler;
use engine::random::Seed;
use engine::settings::Raw;
use engine::units::{Bandwidth, Duration, Instant};
use netio::time::SimulatedTime;
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
    let program = router.program.as_ref().expect("a program");
    let history = program.changes.history();
    let said = format!("{:?}", history.last().expect("a change"));
    assert!(said.contains("1 MB per month are used up"), "{said}");

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
    let apply = |router: &Router, volume: &str| {
        fs::write(&router.file, policy(volume)).expect("written");
        let program = router.program.as_ref().expect("a program");
        let by = Provenance::default();
        let done = program
            .service
            .apply(&router.file, None, Breaking::Refused, by, &|| false);
        done.map(|applied| applied.message)
    };
    // More is bought.
    apply(&router, "1 GB per month").expect("a policy");
    assert_eq!(limits(&router), [None, None]);
    seconds(&mut router, 2);
    let more = quota(&router);
    assert!(more.used_bytes > used && !more.used_up, "{more:?}");
    assert_eq!(limits(&router), [None, None]);
    // Less again.
    apply(&router, "2 MB per month").expect("a policy");
    seconds(&mut router, 6);
    assert_eq!(limits(&router), limited());

    // By hand, and that stays.
    let program = router.program.as_ref().expect("a program");
    let wanted = control::protocol::SettingChanges {
        interface: "wan0".into(),
        class: Some("a".into()),
        changes: [("upperlimit".to_owned(), SettingChange::Text("5 Mbit/s".into()))].into(),
        until_ms: None,
        reason: None,
    };
    program
        .service
        .set(&wanted, Provenance::default())
        .expect("it is set");
    seconds(&mut router, 3);
    let [lan, wan] = limits(&router);
    assert_eq!(
        (lan, wan.as_deref()),
        (Some("200 kbit/s".into()), Some("5 Mbit/s"))
    );
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
