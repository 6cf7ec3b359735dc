//! The cases: a discipline of the kernel, ours with the same settings, and the traffic for both.
//!
//! Most are below a token bucket of 10 Mbit/s, since the kernel's disciplines have no link of
//! their own here; then ours are too.

use super::traffic::{Flow, PORT, Source};

/// One comparison.
pub struct Case {
    pub name: &'static str,
    /// Kernel modules.
    pub modules: &'static [&'static str],
    /// The arguments of `tc`, a line for each call, without `dev r1`.
    pub tc: &'static str,
    /// The qdisc with the flows' classes.
    pub filter_at: &'static str,
    /// Our policy: the part in `[link.policy.a]`.
    pub policy: &'static str,
    /// The delay of the return path, for TCP.
    pub round_trip_ms: u64,
    pub seconds: u64,
    pub flows: &'static [Flow],
}

/// The defaults of most cases.
const DEFAULTS: Case = Case {
    name: "",
    modules: &["sch_tbf"],
    tc: "",
    filter_at: "10:",
    policy: "",
    round_trip_ms: 0,
    seconds: 20,
    flows: &[],
};

impl Case {
    /// The complete commands.
    pub fn tc_lines(&self) -> Vec<String> {
        let device = |line: &str| {
            let (object, rest) = line.split_once(" add ").unwrap_or((line, ""));
            format!("tc {object} add dev r1 {rest}")
        };
        let filter = |(number, flow): (usize, &Flow)| {
            let port = PORT + number as u16;
            let (at, class) = (self.filter_at, flow.class?.1);
            Some(format!(
                "tc filter add dev r1 parent {at} protocol ip prio 1 u32 match ip dport {port} 0xffff flowid {class}"
            ))
        };
        let filters = self.flows.iter().enumerate().filter_map(filter);
        self.tc.lines().map(device).chain(filters).collect()
    }
}

/// The case of this name.
pub fn find(name: &str) -> Option<&'static Case> {
    ALL.iter().find(|case| case.name == name)
}

const fn poisson(name: &'static str, kbit: u64, frame: u64) -> Flow {
    Flow::new(name, Source::Poisson { kbit }, frame)
}

/// Light traffic that measures the queueing delay beside the others.
const PROBE: Flow = poisson("probe", 100, 114);
/// The same beside TCP: during its slow start, and afterwards.
const START: Flow = poisson("probe, first 5 s", 100, 114).during(0, 5);
const LATER: Flow = poisson("probe, then", 100, 114).during(5, 20);
const TCP: Flow = Flow::new("tcp", Source::Tcp, 1_514);

/// All of them, in the order of the page.
pub const ALL: &[Case] = &[
    Case {
        name: "none",
        modules: &[],
        filter_at: "",
        flows: &[poisson("full", 6_000, 1_514), poisson("short", 500, 214)],
        ..DEFAULTS
    },
    Case {
        name: "tbf",
        tc: "qdisc add root handle 1: tbf rate 5mbit burst 15140 limit 45420",
        policy: "discipline = { kind = \"tbf\", rate = \"5 Mbit/s\", burst = \"15140 B\", child = { kind = \"fifo\", limit_bytes = \"45420 B\" } }",
        flows: &[
            Flow::new(
                "bursts",
                Source::Burst {
                    frames: 50,
                    period_ms: 200,
                },
                1_514,
            ),
            poisson("probe", 100, 114),
        ],
        ..DEFAULTS
    },
    Case {
        name: "fifo",
        tc: "\
qdisc add root handle 1: tbf rate 10mbit burst 3028 limit 1000000
qdisc add parent 1:1 handle 10: pfifo limit 50",
        policy: "discipline = { kind = \"tbf\", rate = \"10 Mbit/s\", burst = \"3028 B\", child = { kind = \"fifo\", limit = 50 } }",
        flows: &[poisson("full", 9_500, 1_514), poisson("short", 1_000, 214)],
        ..DEFAULTS
    },
    Case {
        name: "fifo-bytes",
        tc: "\
qdisc add root handle 1: tbf rate 10mbit burst 3028 limit 1000000
qdisc add parent 1:1 handle 10: bfifo limit 40000",
        policy: "discipline = { kind = \"tbf\", rate = \"10 Mbit/s\", burst = \"3028 B\", child = { kind = \"fifo\", limit = 10000, limit_bytes = \"40 kB\" } }",
        flows: &[poisson("full", 9_500, 1_514), poisson("short", 1_000, 214)],
        ..DEFAULTS
    },
    Case {
        name: "priq",
        modules: &["sch_tbf", "sch_prio", "cls_u32"],
        tc: "\
qdisc add root handle 1: tbf rate 10mbit burst 3028 limit 1000000
qdisc add parent 1:1 handle 10: prio bands 2 priomap 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
qdisc add parent 10:1 handle 101: pfifo limit 100
qdisc add parent 10:2 handle 102: pfifo limit 100",
        policy: "\
discipline = { kind = \"tbf\", rate = \"10 Mbit/s\", burst = \"3028 B\", child = \"priq\" }
[[link.policy.a.class]]
name = \"voice\"
priority = 7
[[link.policy.a.class]]
name = \"rest\"
priority = 0
default = true",
        flows: &[
            poisson("voice", 1_000, 214).in_class("voice", "10:1"),
            poisson("rest", 12_000, 1_514).in_class("rest", "10:2"),
        ],
        ..DEFAULTS
    },
    Case {
        name: "drr",
        modules: &["sch_tbf", "sch_drr", "cls_u32"],
        tc: "\
qdisc add root handle 1: tbf rate 10mbit burst 3028 limit 1000000
qdisc add parent 1:1 handle 10: drr
class add parent 10: classid 10:1 drr quantum 1514
class add parent 10: classid 10:2 drr quantum 3028
qdisc add parent 10:1 handle 101: pfifo limit 50
qdisc add parent 10:2 handle 102: pfifo limit 50",
        policy: "\
discipline = { kind = \"tbf\", rate = \"10 Mbit/s\", burst = \"3028 B\", child = { kind = \"drr\", quantum = \"1514 B\" } }
[[link.policy.a.class]]
name = \"one\"
weight = 1
default = true
discipline = { kind = \"fifo\", limit = 50 }
[[link.policy.a.class]]
name = \"two\"
weight = 2
discipline = { kind = \"fifo\", limit = 50 }",
        flows: &[
            poisson("one-full", 8_000, 1_514).in_class("one", "10:1"),
            poisson("two-short", 10_000, 514).in_class("two", "10:2"),
        ],
        ..DEFAULTS
    },
    Case {
        name: "wfq",
        modules: &["sch_tbf", "sch_sfq"],
        tc: "\
qdisc add root handle 1: tbf rate 10mbit burst 3028 limit 1000000
qdisc add parent 1:1 handle 10: sfq limit 127 depth 127 quantum 1514 headdrop",
        policy: "discipline = { kind = \"tbf\", rate = \"10 Mbit/s\", burst = \"3028 B\", child = { kind = \"wfq\", queues = 1024, quantum = \"1514 B\", limit_bytes = \"192278 B\", perturb = \"100 s\" } }",
        flows: &[
            poisson("much", 8_000, 1_514),
            poisson("some", 6_000, 1_514),
            poisson("little", 500, 214),
        ],
        ..DEFAULTS
    },
    Case {
        name: "red",
        modules: &["sch_tbf", "sch_red"],
        tc: "\
qdisc add root handle 1: tbf rate 10mbit burst 3028 limit 1000000
qdisc add parent 1:1 handle 10: red limit 400000 min 15140 max 45420 avpkt 1514 burst 40 probability 0.1 bandwidth 10mbit ecn harddrop",
        policy: "discipline = { kind = \"tbf\", rate = \"10 Mbit/s\", burst = \"3028 B\", child = { kind = \"red\", measure = \"bytes\", min = \"15140 B\", max = \"45420 B\", max_p = \"10 %\", gentle = false, weight = \"1/128\", packet_size = \"1514 B\", bandwidth = \"10 Mbit/s\", child = { kind = \"fifo\", limit = 1000, limit_bytes = \"400 kB\" } } }",
        seconds: 60,
        flows: &[
            poisson("loses", 5_150, 1_514),
            poisson("is-marked", 5_150, 1_514).with_ecn(),
        ],
        ..DEFAULTS
    },
    Case {
        name: "codel",
        modules: &["sch_tbf", "sch_codel"],
        tc: "\
qdisc add root handle 1: tbf rate 10mbit burst 3028 limit 1000000
qdisc add parent 1:1 handle 10: codel limit 1000 target 5ms interval 100ms",
        policy: "discipline = { kind = \"tbf\", rate = \"10 Mbit/s\", burst = \"3028 B\", child = { kind = \"codel\", target = \"5 ms\", interval = \"100 ms\", limit = 1000 } }",
        flows: &[
            Flow::new("steady", Source::Constant { kbit: 10_500 }, 1_514),
            PROBE,
        ],
        ..DEFAULTS
    },
    Case {
        name: "codel-tcp",
        modules: &["sch_tbf", "sch_codel"],
        tc: "\
qdisc add root handle 1: tbf rate 10mbit burst 3028 limit 1000000
qdisc add parent 1:1 handle 10: codel limit 1000 target 5ms interval 100ms",
        policy: "discipline = { kind = \"tbf\", rate = \"10 Mbit/s\", burst = \"3028 B\", child = { kind = \"codel\", target = \"5 ms\", interval = \"100 ms\", limit = 1000 } }",
        round_trip_ms: 20,
        flows: &[TCP, START, LATER],
        ..DEFAULTS
    },
    Case {
        name: "fq_codel",
        modules: &["sch_tbf", "sch_fq_codel"],
        tc: "\
qdisc add root handle 1: tbf rate 10mbit burst 3028 limit 1000000
qdisc add parent 1:1 handle 10: fq_codel limit 10240 flows 1024 quantum 1514 target 5ms interval 100ms",
        policy: "discipline = { kind = \"tbf\", rate = \"10 Mbit/s\", burst = \"3028 B\", child = { kind = \"fq_codel\", flows = 1024, quantum = \"1514 B\", target = \"5 ms\", interval = \"100 ms\", limit = 10240 } }",
        flows: &[
            poisson("much", 8_000, 1_514),
            poisson("some", 4_000, 1_514),
            poisson("sparse", 200, 214),
        ],
        ..DEFAULTS
    },
    Case {
        name: "fq_codel-tcp",
        modules: &["sch_tbf", "sch_fq_codel"],
        tc: "\
qdisc add root handle 1: tbf rate 10mbit burst 3028 limit 1000000
qdisc add parent 1:1 handle 10: fq_codel limit 10240 flows 1024 quantum 1514 target 5ms interval 100ms",
        policy: "discipline = { kind = \"tbf\", rate = \"10 Mbit/s\", burst = \"3028 B\", child = { kind = \"fq_codel\", flows = 1024, quantum = \"1514 B\", target = \"5 ms\", interval = \"100 ms\", limit = 10240 } }",
        round_trip_ms: 20,
        flows: &[
            TCP,
            Flow::new("tcp later", Source::Tcp, 1_514).during(5, 15),
            START,
            LATER,
        ],
        ..DEFAULTS
    },
    Case {
        name: "cake",
        modules: &["sch_cake"],
        tc: "qdisc add root handle 1: cake bandwidth 10mbit besteffort triple-isolate memlimit 1500000",
        policy: "discipline = { kind = \"cake\", rate = \"10 Mbit/s\", tins = \"besteffort\", limit_bytes = \"1 MB\" }",
        flows: &[
            poisson("one of three", 6_000, 1_514).between(11, 11),
            poisson("two of three", 6_000, 1_514).between(11, 12),
            poisson("three of three", 4_000, 514).between(11, 13),
            poisson("alone", 8_000, 1_514).between(12, 14),
            poisson("sparse", 200, 214).between(13, 14),
        ],
        ..DEFAULTS
    },
    Case {
        name: "cake-tins",
        modules: &["sch_cake"],
        tc: "qdisc add root handle 1: cake bandwidth 10mbit diffserv4 triple-isolate memlimit 1500000",
        policy: "discipline = { kind = \"cake\", rate = \"10 Mbit/s\", tins = \"diffserv4\", limit_bytes = \"1 MB\" }",
        flows: &[
            poisson("best effort", 8_000, 1_514),
            poisson("bulk", 4_000, 1_514).with_dscp(8),
            poisson("video", 3_000, 1_514).with_dscp(34),
            poisson("voice", 4_000, 1_514).with_dscp(46),
        ],
        ..DEFAULTS
    },
    Case {
        name: "cake-tcp",
        modules: &["sch_cake"],
        tc: "qdisc add root handle 1: cake bandwidth 10mbit besteffort triple-isolate",
        policy: "discipline = { kind = \"cake\", rate = \"10 Mbit/s\", tins = \"besteffort\" }",
        round_trip_ms: 20,
        flows: &[
            TCP.between(1, 11),
            Flow::new("tcp later", Source::Tcp, 1_514).between(1, 12).during(5, 15),
            START,
            LATER,
        ],
        ..DEFAULTS
    },
    Case {
        name: "pie",
        modules: &["sch_tbf", "sch_pie"],
        tc: "\
qdisc add root handle 1: tbf rate 10mbit burst 3028 limit 1000000
qdisc add parent 1:1 handle 10: pie limit 1000 target 15ms tupdate 20ms alpha 4 beta 20",
        policy: "discipline = { kind = \"tbf\", rate = \"10 Mbit/s\", burst = \"3028 B\", child = { kind = \"pie\", target = \"15 ms\", update = \"30 ms\", limit = 1000 } }",
        flows: &[poisson("full", 10_500, 1_514), PROBE],
        ..DEFAULTS
    },
    Case {
        name: "pie-tcp",
        modules: &["sch_tbf", "sch_pie"],
        tc: "\
qdisc add root handle 1: tbf rate 10mbit burst 3028 limit 1000000
qdisc add parent 1:1 handle 10: pie limit 1000 target 15ms tupdate 20ms alpha 4 beta 20",
        policy: "discipline = { kind = \"tbf\", rate = \"10 Mbit/s\", burst = \"3028 B\", child = { kind = \"pie\", target = \"15 ms\", update = \"30 ms\", limit = 1000 } }",
        round_trip_ms: 20,
        flows: &[TCP, START, LATER],
        ..DEFAULTS
    },
    Case {
        name: "cbq",
        modules: &["sch_htb", "cls_u32"],
        tc: "\
qdisc add root handle 1: htb
class add parent 1: classid 1:1 htb rate 10mbit burst 3028 cburst 3028 quantum 1514
class add parent 1:1 classid 1:10 htb rate 5mbit ceil 10mbit burst 3028 cburst 3028 quantum 7570
class add parent 1:1 classid 1:20 htb rate 2mbit ceil 10mbit burst 3028 cburst 3028 quantum 3028
class add parent 1:1 classid 1:30 htb rate 3mbit ceil 3mbit burst 3028 cburst 3028 quantum 4542
qdisc add parent 1:10 handle 110: pfifo limit 50
qdisc add parent 1:20 handle 120: pfifo limit 50
qdisc add parent 1:30 handle 130: pfifo limit 50",
        filter_at: "1:",
        policy: "\
bandwidth = \"10 Mbit/s\"
discipline = { kind = \"cbq\" }
[[link.policy.a.class]]
name = \"five\"
rate = \"5 Mbit/s\"
maxburst = 2
default = true
discipline = { kind = \"fifo\", limit = 50 }
[[link.policy.a.class]]
name = \"two\"
rate = \"2 Mbit/s\"
maxburst = 2
discipline = { kind = \"fifo\", limit = 50 }
[[link.policy.a.class]]
name = \"three\"
rate = \"3 Mbit/s\"
maxburst = 2
borrow = false
discipline = { kind = \"fifo\", limit = 50 }",
        flows: &[
            poisson("five", 9_000, 1_514).in_class("five", "1:10"),
            poisson("two", 6_000, 1_514).in_class("two", "1:20"),
            poisson("three", 5_000, 1_514)
                .in_class("three", "1:30")
                .during(10, 20),
        ],
        ..DEFAULTS
    },
    Case {
        name: "hfsc",
        modules: &["sch_tbf", "sch_hfsc", "cls_u32"],
        tc: "\
qdisc add root handle 1: tbf rate 10mbit burst 3028 limit 1000000
qdisc add parent 1:1 handle 10: hfsc
class add parent 10: classid 10:1 hfsc rt m1 428kbit d 4ms m2 300kbit ls m2 300kbit
class add parent 10: classid 10:2 hfsc ls m2 6mbit
class add parent 10: classid 10:3 hfsc ls m2 2mbit
qdisc add parent 10:1 handle 101: pfifo limit 50
qdisc add parent 10:2 handle 102: pfifo limit 50
qdisc add parent 10:3 handle 103: pfifo limit 50",
        policy: "\
discipline = { kind = \"tbf\", rate = \"10 Mbit/s\", burst = \"3028 B\", child = \"hfsc\" }
[[link.policy.a.class]]
name = \"voice\"
realtime = \"428 kbit/s for 4 ms, then 300 kbit/s\"
linkshare = \"300 kbit/s\"
discipline = { kind = \"fifo\", limit = 50 }
[[link.policy.a.class]]
name = \"six\"
linkshare = \"6 Mbit/s\"
default = true
discipline = { kind = \"fifo\", limit = 50 }
[[link.policy.a.class]]
name = \"two\"
linkshare = \"2 Mbit/s\"
discipline = { kind = \"fifo\", limit = 50 }",
        flows: &[
            Flow::new("voice", Source::Constant { kbit: 200 }, 214).in_class("voice", "10:1"),
            poisson("six", 9_000, 1_514).in_class("six", "10:2"),
            poisson("two", 9_000, 1_514).in_class("two", "10:3"),
        ],
        ..DEFAULTS
    },
];
