//! The least and the greatest value of settings of a policy, each with its neighbour that is
//! refused; and names.

use control::policy::{InterfacePolicy, Policy};
use engine::packet::ClassId;
use engine::settings::Raw;
use engine::tree::Registry;
use engine::units::Bandwidth;

/// The mistakes in it; nothing if there are none.
fn mistakes(text: &str) -> String {
    let read = Policy::read("test", text, &Registry::builtin(), &[]);
    read.err()
        .map(|mistakes| mistakes.render(false))
        .unwrap_or_default()
}

fn refused(text: &str, sound: bool, why: &str) {
    let found = mistakes(text);
    assert_eq!(found.is_empty(), sound, "{text}\n{found}");
    assert!(sound || found.contains(why), "{text}\n{found}");
}

#[test]
fn settings_of_a_port_have_bounds() {
    for (setting, value, sound) in [
        ("transmit_ring", "0", false),
        ("transmit_ring", "1", true),
        ("transmit_ring", "65536", true),
        ("transmit_ring", "65537", false),
        ("spin", "\"10 ms\"", true),
        ("spin", "\"10001 us\"", false),
        ("lateness", "\"99 us\"", false),
        ("lateness", "\"100 us\"", true),
        ("lateness", "\"10 ms\"", true),
        ("lateness", "\"10001 us\"", false),
        ("memory", "\"33554431 B\"", false),
        ("memory", "\"32 MiB\"", true),
        ("memory", "\"64 GiB\"", true),
        ("memory", "\"68719476737 B\"", false),
        ("catch_up", "\"10 ms\"", true),
        ("catch_up", "\"10001 us\"", false),
        ("fail_open_after", "\"9999 us\"", false),
        ("fail_open_after", "\"10 ms\"", true),
    ] {
        let text = format!(
            "version = 1\n[port]\negress = \"wan0\"\n{setting} = {value}\n[interface.wan0]\nbandwidth = \"1 Mbit/s\"\n"
        );
        refused(&text, sound, &format!("`{setting}` must be"));
    }
}

#[test]
fn the_bandwidth_and_the_longest_frame_have_bounds() {
    for (setting, value, sound) in [
        ("bandwidth", "7999 bit/s", false),
        ("bandwidth", "8 kbit/s", true),
        ("bandwidth", "800 Gbit/s", true),
        ("bandwidth", "800001 Mbit/s", false),
        ("max_frame", "59 B", false),
        ("max_frame", "60 B", true),
    ] {
        let bandwidth = match setting {
            "bandwidth" => "",
            _ => "bandwidth = \"1 Mbit/s\"\n",
        };
        let text = format!("version = 1\n[interface.wan0]\n{bandwidth}{setting} = \"{value}\"\n");
        refused(&text, sound, &format!("`{setting}` must be from"));
    }
}

#[test]
fn an_interface_has_a_name_that_the_kernel_may_give() {
    for (name, sound) in [
        ("", false),
        ("w", true),
        ("fifteen_letters", true),
        ("sixteen__letters", false),
        ("a b", false),
        ("a/b", false),
        ("a:b", false),
        ("a\\u0007b", false),
    ] {
        let text = format!("version = 1\n[interface.\"{name}\"]\nbandwidth = \"1 Mbit/s\"\n");
        refused(&text, sound, "cannot be an interface");
    }
}

#[test]
fn the_name_of_a_class_has_1_to_64_bytes_and_no_spaces() {
    for (name, sound) in [
        (String::new(), false),
        ("a".into(), true),
        ("a".repeat(64), true),
        ("a".repeat(65), false),
        ("a b".into(), false),
        ("a\\tb".into(), false),
        ("a\\u0007b".into(), false),
    ] {
        let text = format!(
            "version = 1\n[interface.wan0]\nbandwidth = \"1 Mbit/s\"\ndiscipline = \"drr\"\n\
             [[interface.wan0.class]]\nname = \"{name}\"\ndefault = true\n"
        );
        refused(&text, sound, "1 to 64 bytes and no spaces");
    }
}

#[test]
fn times_of_rsvp_have_bounds() {
    for (settings, why) in [
        ("refresh = \"99 ms\"", "`refresh` must be from"),
        ("refresh = \"100 ms\"", ""),
        ("refresh = \"3600 s\"\nlongest_refresh = \"3600 s\"", ""),
        (
            "refresh = \"3601 s\"\nlongest_refresh = \"3601 s\"",
            "`refresh` must be from",
        ),
        ("refresh = \"9 s\"\nlongest_refresh = \"9 s\"", ""),
        (
            "refresh = \"9 s\"\nlongest_refresh = \"8999 ms\"",
            "`longest_refresh` must not be below",
        ),
        ("most_senders = 7", "`most_senders` must be at least 8"),
        ("most_senders = 8", ""),
        ("most_messages = 0", "`most_messages` must be at least 1"),
        ("most_messages = 1", ""),
    ] {
        let text = format!(
            "version = 1\n[rsvp]\ninterfaces = [\"wan0\"]\n{settings}\n[interface.wan0]\nbandwidth = \"1 Mbit/s\"\n"
        );
        refused(&text, why.is_empty(), why);
    }
}

#[test]
fn neighbours_without_a_key_are_kept_in_their_order() {
    let text = "version = 1\n[rsvp]\ninterfaces = [\"wan0\"]\nunprotected = [\"10.0.1.7\", \"fd00::1\"]\n\
                [interface.wan0]\nbandwidth = \"1 Mbit/s\"\n";
    let read = Policy::read("test", text, &Registry::builtin(), &[]);
    let rsvp = read.expect("a policy").rsvp.expect("RSVP");
    let shown: Vec<_> = rsvp.unprotected.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["10.0.1.7", "fd00::1"]);
}

#[test]
fn a_floor_may_be_as_high_as_the_cap_and_no_higher() {
    for (floor, sound) in [("2 Mbit/s", true), ("2001 kbit/s", false)] {
        let text = format!(
            "version = 1\n[interface.wan0]\nbandwidth = \"10 Mbit/s\"\ndiscipline = \"drr\"\n\
             [[interface.wan0.class]]\nname = \"a\"\ndefault = true\n\
             yields = {{ cap = \"2 Mbit/s\", floor = \"{floor}\" }}\n"
        );
        refused(&text, sound, "is above the cap");
    }
}

#[test]
fn classes_yield_where_both_directions_of_an_interface_are_managed() {
    for (port, both) in [
        ("egress = \"wan0\"\ningress = \"wan0\"", true),
        ("egress = [\"wan0\", \"lan0\"]", false),
        ("egress = \"wan0\"", false),
        ("between = [\"wan0\", \"lan0\"]", true),
    ] {
        let text = format!(
            "version = 1\n[port]\n{port}\n[interface.wan0]\nbandwidth = \"10 Mbit/s\"\ndiscipline = \"drr\"\n\
             [[interface.wan0.class]]\nname = \"a\"\ndefault = true\nyields = {{}}\n"
        );
        let read = Policy::read("test", &text, &Registry::builtin(), &[]);
        let policy = read.unwrap_or_else(|mistakes| panic!("{}", mistakes.render(false)));
        let warned = policy.warnings.to_string();
        assert_eq!(warned.contains("does not yield"), !both, "{port}\n{warned}");
    }
}

#[test]
fn a_filter_stands_for_4096_combinations_at_most() {
    let ports = |from: u16, many: u16| {
        (from..from + many)
            .map(|port| port.to_string())
            .collect::<Vec<_>>()
    };
    for (sources, sound) in [(64, true), (65, false)] {
        let text = format!(
            "version = 1\n[interface.wan0]\nbandwidth = \"1 Mbit/s\"\ndiscipline = \"drr\"\n\
             [[interface.wan0.class]]\nname = \"a\"\ndefault = true\n\
             [[interface.wan0.class]]\nname = \"b\"\n\
             [[interface.wan0.filter]]\nclass = \"b\"\nprotocol = \"udp\"\n\
             source_port = [{}]\ndestination_port = [{}]\n",
            ports(100, sources).join(", "),
            ports(1_000, 64).join(", "),
        );
        refused(&text, sound, "more than 4096 combinations");
    }
}

const TREE: &str = "version = 1\n[interface.wan0]\nbandwidth = \"10 Mbit/s\"\ndiscipline = \"cbq\"\n\
    [[interface.wan0.class]]\nname = \"calls\"\nrate = \"20 %\"\n\
    [[interface.wan0.class]]\nname = \"rest\"\nrate = \"5 Mbit/s\"\ndefault = true\n\
    discipline = { kind = \"drr\", class = [{ name = \"web\", weight = 1 }, { name = \"mail\", default = true }] }\n";

fn tree() -> InterfacePolicy {
    let read = Policy::read("test", TREE, &Registry::builtin(), &[]);
    let mut policy = read.unwrap_or_else(|mistakes| panic!("{}", mistakes.render(false)));
    policy.interfaces.remove(0)
}

#[test]
fn the_rate_of_a_class_is_guaranteed_and_no_weight_is() {
    let policy = tree();
    let of = |name| policy.plan.class(name).expect(name);
    let (calls, rest) = (of("calls"), of("rest"));
    let (two, five) = (Bandwidth::mbit(2), Bandwidth::mbit(5));
    assert_eq!(policy.guarantees(), [(calls, two), (rest, five)]);
    assert_eq!(policy.guarantee(calls), Some(two));
    assert_eq!(policy.guarantee(rest), Some(five));
    assert_eq!(policy.guarantee(ClassId(99)), None);
}

#[test]
fn a_setting_is_that_of_the_class_meant_wherever_it_stands() {
    let (policy, registry) = (tree(), Registry::builtin());
    let set = |class: &str, key: &str, value| policy.with_class_settings(&registry, class, &[(key, value)]);
    let changed = set("web", "weight", Raw::Integer(9)).expect("a class");
    let weights = |policy: &InterfacePolicy| -> Vec<_> {
        let inner = policy.spec.classes[1].discipline.as_ref().expect("drr");
        let weight = |settings: &engine::settings::Table| settings.get("weight").map(|e| e.value.clone());
        inner
            .classes
            .iter()
            .map(|class| weight(&class.settings))
            .collect()
    };
    assert_eq!(weights(&policy), [Some(Raw::Integer(1)), None]);
    assert_eq!(weights(&changed), [Some(Raw::Integer(9)), None]);
    let changed = set("calls", "rate", Raw::Text("3 Mbit/s".into())).expect("a class");
    assert_eq!(changed.guarantee(ClassId(0)), Some(Bandwidth::mbit(3)));
    assert_eq!(changed.guarantee(ClassId(1)), Some(Bandwidth::mbit(5)));
    let problems = set("cals", "rate", Raw::Integer(1)).expect_err("no class");
    let told: Vec<_> = problems
        .iter()
        .map(|problem| (&*problem.message, problem.help.as_deref()))
        .collect();
    assert_eq!(told, [("unknown class `cals`", Some("did you mean `calls`?"))]);
}

#[test]
fn what_rsvp_may_reserve_of_an_interface_is_of_one_that_speaks_it() {
    let interface = "[interface.wan0]\nbandwidth = \"10 Mbit/s\"\ndiscipline = \"cbq\"\n\
        reserve = { share = \"50 %\" }\n\
        [[interface.wan0.class]]\nname = \"rest\"\nrate = \"40 %\"\ndefault = true\n";
    let of = |rsvp: &str| mistakes(&format!("version = 1\n{rsvp}{interface}"));
    assert_eq!(of(""), "", "it is warned of");
    assert_eq!(of("[rsvp]\ninterfaces = [\"lan0\", \"wan0\"]\n"), "");
    let told = of("[rsvp]\ninterfaces = [\"lan0\"]\n");
    assert!(told.contains("RSVP is not spoken on `wan0`"), "{told}");
}
