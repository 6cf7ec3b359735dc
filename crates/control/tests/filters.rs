//! What a filter of a policy stands for: the packets that it takes, with lists, flags and lengths.

use control::filters;
use control::policy::{InterfacePolicy, Policy};
use engine::classify::Filter;
use engine::settings::{Raw, Table};
use engine::tree::Registry;

fn policy(filters: &str) -> InterfacePolicy {
    let text = format!(
        "version = 1\n[interface.wan0]\nbandwidth = \"8 Mbit/s\"\ndiscipline = \"priq\"\n\
         [[interface.wan0.class]]\nname = \"first\"\npriority = 1\n\
         [[interface.wan0.class]]\nname = \"rest\"\npriority = 0\ndefault = true\n{filters}"
    );
    let read = Policy::read("test", &text, &Registry::builtin(), &[]);
    let policy = read.unwrap_or_else(|mistakes| panic!("{}", mistakes.render(false)));
    assert_eq!(policy.warnings.to_string(), "");
    policy.interfaces.into_iter().next().expect("an interface")
}

/// The filters that a section with these fields stands for, in words.
fn words(fields: &str) -> Vec<String> {
    let policy = policy(&format!(
        "[[interface.wan0.filter]]\nclass = \"first\"\n{fields}\n"
    ));
    policy.filters.iter().map(filters::words).collect()
}

#[test]
fn a_list_stands_for_one_filter_of_each_value_and_lists_for_each_combination() {
    assert_eq!(
        words("protocol = [\"tcp\", \"udp\"]\ndestination_port = [53, \"5060-5061\"]\nsource_port = 7"),
        [
            "tcp, source port 7, destination port 53",
            "tcp, source port 7, destination port 5060-5061",
            "udp, source port 7, destination port 53",
            "udp, source port 7, destination port 5060-5061",
        ]
    );
    assert_eq!(words("dscp = [\"ef\", 8]"), ["dscp ef", "dscp cs1"]);
    assert_eq!(words("source = [\"10.0.0.1\"]"), words("source = \"10.0.0.1\""));
}

#[test]
fn addresses_of_both_families_in_lists_make_the_combinations_that_packets_have() {
    let both = "[\"10.0.0.0/8\", \"2001:db8::/32\"]";
    assert_eq!(
        words(&format!("source = {both}\ndestination = {both}")),
        [
            "from 10.0.0.0/8, to 10.0.0.0/8",
            "from 2001:db8::/32, to 2001:db8::/32",
        ]
    );
}

#[test]
fn acks_go_first_by_flags_and_length() {
    let policy = policy(
        "[[interface.wan0.filter]]\nclass = \"first\"\ntcp_flags = \"ack, !syn, !fin\"\nlength = \"0-80\"\n",
    );
    let filter: &Filter = policy.filters.iter().next().expect("a filter");
    assert_eq!(filters::words(filter), "tcp flags !fin, !syn, ack, length 0-80");
    let ack = |length: u16, flags: u8| engine::header::FlowKey {
        family: engine::header::Family::V4,
        protocol: 6,
        tcp_flags: Some(flags),
        length,
        ..engine::header::FlowKey::default()
    };
    assert!(filter.matches(&ack(52, 0x10)) && !filter.matches(&ack(81, 0x10)));
    assert_eq!(
        filters::mismatches(filter, &ack(1500, 0x12)),
        ["tcp flags !fin, !syn, ack", "length 0-80"]
    );
}

#[test]
fn a_protocol_is_told_by_its_name_or_number_and_some_have_ports() {
    for (text, number, ports) in [
        ("tcp", 6, true),
        ("udp", 17, true),
        ("17", 17, true),
        ("33", 33, true),
        ("132", 132, true),
        ("136", 136, true),
        ("icmp", 1, false),
        ("ospf", 89, false),
        ("0", 0, false),
        ("255", 255, false),
    ] {
        assert_eq!(filters::protocol_number(text), Ok(number), "{text}");
        assert_eq!(filters::has_ports(number), ports, "{text}");
    }
    for wrong in ["256", "-1", "tpc", ""] {
        assert!(filters::protocol_number(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_packet_has_the_properties_of_filters_and_no_others() {
    let of = Table::default()
        .text("source", "10.0.0.1")
        .text("protocol", "udp")
        .with("destination_port", Raw::Integer(53));
    let key = filters::packet(&of).expect("a packet");
    assert_eq!(
        (key.source, key.protocol, key.destination_port),
        (0x0a00_0001, 17, Some(53))
    );
    for other in ["sorce", "class", "rule"] {
        let problems = filters::packet(&of.clone().text(other, "1")).expect_err(other);
        let told: Vec<_> = problems.into_iter().map(|problem| problem.message).collect();
        assert_eq!(told, [format!("unknown property of a packet `{other}`")]);
    }
}
