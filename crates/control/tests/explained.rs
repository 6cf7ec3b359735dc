//! Packets whose waits are known by heart, explained: one case for each main kind. The queue is
//! served as the packet loop serves it: at the bandwidth of its link, with exact timers.

use control::explained::{Explained, ExplainedPacket, explained};
use control::policy::{InterfacePolicy, Policy};
use engine::discipline::{Next, Reason, Sink};
use engine::header::{Family, FlowKey};
use engine::inspect::Inspection;
use engine::link_clock::LinkClock;
use engine::packet::{Buffer, ClassId, Packet};
use engine::random::Seed;
use engine::shaped_queue::{CATCH_UP, ShapedQueue};
use engine::tree::Registry;
use engine::units::{Bytes, Duration, Instant};
use measure::waits::{WaitRecorder, Wanted};

fn policy(text: &str) -> InterfacePolicy {
    let head = "version = 1\n[interface.wan0]\nbandwidth = \"8 Mbit/s\"\n";
    let read = Policy::read("test", &format!("{head}{text}"), &Registry::builtin(), &[]);
    read.unwrap_or_else(|mistakes| panic!("{}", mistakes.render(false)))
        .interfaces
        .remove(0)
}

fn class(name: &str, settings: &str) -> String {
    format!("[[interface.wan0.class]]\nname = \"{name}\"\n{settings}\n")
}

fn us(micros: u64) -> Instant {
    Instant::START + Duration::from_micros(1_000_000 + micros)
}

/// An interface with a recorder. 8 Mbit/s: a byte is a microsecond.
struct Host {
    policy: InterfacePolicy,
    queue: ShapedQueue,
    recorder: WaitRecorder,
    due: Option<Instant>,
    packets: u32,
}

struct Drops<'a>(&'a mut WaitRecorder, Instant);

impl Sink for Drops<'_> {
    fn drop(&mut self, packet: Packet, why: Reason) {
        self.0.drops(self.1, &packet, why);
    }
    fn mark(&mut self, packet: &Packet, why: Reason) {
        self.0.marks(packet, why);
    }
}

impl Host {
    fn new(text: &str, class: Option<&str>, drops: bool) -> Self {
        let policy = policy(text);
        let bandwidth = policy.link().bandwidth;
        let wanted = Wanted {
            class: class.map(|name| policy.plan.class(name).expect("a class")),
            drops,
            keep: 2,
            since: Instant::START,
            until: us(60_000_000),
        };
        let clock = LinkClock::new(bandwidth, CATCH_UP);
        Self {
            queue: ShapedQueue::new(policy.plan.build(Seed(1)), Some(clock)),
            recorder: WaitRecorder::new(wanted, Some(policy.plan.clone()), Some(bandwidth)),
            policy,
            due: None,
            packets: 0,
        }
    }

    /// A packet of this class arrives.
    fn arrives(&mut self, at: u64, class: &str, len: u64) {
        let class = self.policy.plan.class(class).unwrap_or(ClassId(0));
        let mut packet = Packet::new(Bytes::new(len), us(at), class);
        packet.buffer = Buffer(self.packets);
        self.packets += 1;
        let key = || FlowKey {
            family: Family::V4,
            protocol: 17,
            source: 0x0a00_0001,
            destination: 0x0a00_0002,
            source_port: Some(4000),
            destination_port: Some(5060),
            ..FlowKey::default()
        };
        self.recorder.arrives(us(at), &packet, self.queue.queue(), key);
        let mut drops = Drops(&mut self.recorder, us(at));
        let _ = self.queue.enqueue(us(at), packet, &mut drops);
        self.recorder.arrived();
    }

    /// Asks the queue at this time, until it has nothing for now; it asks late by as much as the
    /// caller is.
    fn asks(&mut self, at: u64) {
        loop {
            let next = self.queue.dequeue(us(at), &mut Drops(&mut self.recorder, us(at)));
            match next {
                Next::Ready(packet) => {
                    let due = self.due.take().filter(|due| *due <= us(at));
                    self.recorder.departs(us(at), &packet, due, self.queue.queue());
                }
                Next::Wait(until) => return self.due = Some(until),
                Next::Empty => return self.due = None,
            }
        }
    }

    /// Asks whenever the queue wants it, until this time.
    fn runs(&mut self, from: u64, until: u64) {
        self.asks(from);
        while let Some(due) = self.due.filter(|due| *due <= us(until)) {
            let nanos = due.since(us(0)).nanos();
            self.asks(nanos.div_ceil(1_000));
        }
    }

    fn explained(self) -> Explained {
        let mut views = Vec::new();
        self.queue.queue().inspect(&mut Inspection::new(&mut views));
        let all = explained(&self.policy, &self.recorder.finish(), &views);
        for packet in &all.packets {
            let parts = packet.busy_ns + packet.before_ns + packet.held_ns + packet.held_up_ns;
            assert_eq!(parts, packet.wait_ns, "the parts add up: {packet:?}");
        }
        all
    }

    fn slowest(self) -> ExplainedPacket {
        self.explained().packets.remove(0)
    }
}

fn before(packet: &ExplainedPacket) -> Vec<(&str, u64, u64)> {
    let all = packet.before.iter();
    all.map(|before| (before.class.as_str(), before.packets, before.bytes))
        .collect()
}

/// What a gauge of its own class showed when it arrived.
fn gauge(packet: &ExplainedPacket, name: &str) -> serde_json::Value {
    let shown = &packet.on_arrival[0];
    let found = shown.gauges.iter().find(|gauge| gauge.name == name);
    found
        .unwrap_or_else(|| panic!("no {name}: {shown:?}"))
        .value
        .clone()
}

/// What waits behind a packet that the host made late is late by that, too, but for what the link
/// catches up. It had been told as held back by its discipline.
#[test]
fn a_packet_behind_those_that_the_host_held_up_is_told_how_long_that_was() {
    let mut host = Host::new("discipline = \"fifo\"\n", None, false);
    (0..20).for_each(|_| host.arrives(0, "", 1000));
    host.runs(0, 2_500);
    // The packet of 3 ms leaves 59 ms late, and 5 ms of that are caught up.
    host.runs(62_000, 100_000);
    let packet = host.slowest();
    assert_eq!((packet.wait_ns, packet.before_ns), (73_000_000, 19_000_000));
    assert_eq!((packet.held_up_ns, packet.held_ns), (54_000_000, 0));
}

/// A wake-up that is late as usual has no part in what a bucket holds back.
#[test]
fn a_packet_that_a_bucket_holds_back_is_not_told_as_held_up_by_a_host_that_is_late_as_usual() {
    let bucket = "discipline = { kind = \"tbf\", rate = \"4 Mbit/s\", burst = \"2 kB\", child = \"fifo\" }\n";
    let mut host = Host::new(bucket, None, false);
    (0..20).for_each(|_| host.arrives(0, "", 1000));
    host.asks(0);
    while let Some(due) = host.due {
        host.asks(due.since(us(0)).nanos() / 1_000 + 400);
    }
    let packet = host.slowest();
    assert!(packet.held_up_ns <= 401_000, "{packet:?}");
    assert!(packet.held_ns > 10_000_000, "{packet:?}");
}

#[test]
fn priq_a_packet_waits_for_the_higher_class_and_for_what_the_link_had_begun() {
    let classes = class("voice", "priority = 7") + &class("bulk", "priority = 1\ndefault = true");
    let filter = "[[interface.wan0.filter]]\nclass = \"voice\"\nprotocol = \"tcp\"\n";
    let mut host = Host::new(
        &format!("discipline = \"priq\"\n{classes}{filter}"),
        Some("bulk"),
        false,
    );
    host.arrives(0, "voice", 1000);
    host.asks(0);
    // 600 µs of it are left when the bulk packet comes, behind one of its own and two of voice.
    host.arrives(400, "bulk", 500);
    host.arrives(400, "bulk", 700);
    host.arrives(500, "voice", 200);
    host.arrives(600, "voice", 300);
    host.runs(600, 10_000);
    let packet = host.slowest();
    assert_eq!(
        before(&packet),
        [("voice", 2, 500), ("bulk", 1, 500)],
        "{packet:?}"
    );
    assert_eq!(
        packet
            .before
            .iter()
            .map(|before| &before.why[..])
            .collect::<Vec<_>>(),
        [
            "its priority 7 is above 1",
            "of its own class, and queued before it"
        ]
    );
    assert_eq!((packet.busy_ns, packet.before_ns), (600_000, 1_000_000));
    assert_eq!((packet.wait_ns, packet.held_ns), (1_600_000, 0));
    assert_eq!(packet.on_arrival[0].backlog_packets, 1);
    assert_eq!(packet.flow, "10.0.0.1:4000 -> 10.0.0.2:5060 udp");
    assert_eq!(packet.filters.len(), 1);
    assert_eq!(packet.filters[0].misses.len(), 1, "{packet:?}");
    let lines = packet.lines();
    assert!(
        lines[0].ends_with("class bulk, 700 B: waited 1.6 ms"),
        "{lines:?}"
    );
}

#[test]
fn cbq_a_class_without_credit_that_may_not_borrow_is_held_and_one_that_may_says_of_whom() {
    let tree = |borrow: bool| {
        let small = format!("rate = \"2 Mbit/s\"\nborrow = {borrow}\nmaxburst = 1\nminburst = 1");
        let classes = class("small", &small) + &class("rest", "rate = \"4 Mbit/s\"\ndefault = true");
        format!("discipline = \"cbq\"\n{classes}")
    };
    let run = |borrow: bool| {
        let mut host = Host::new(&tree(borrow), Some("small"), false);
        (0..10).for_each(|_| host.arrives(0, "small", 1000));
        host.runs(0, 100_000);
        host.slowest()
    };
    let held = run(false);
    // Nine before it, at the link's rate; it waited for credit at a quarter of that.
    assert_eq!(before(&held), [("small", 9, 9000)]);
    assert_eq!((held.busy_ns, held.before_ns), (0, 9_000_000));
    assert!(held.held_ns > 20_000_000, "{held:?}");
    assert_eq!(held.borrowed, []);
    assert_eq!(gauge(&held, "priority"), 1);
    let lent = run(true);
    assert_eq!((lent.before_ns, lent.held_ns), (9_000_000, 0));
    assert_eq!(lent.borrowed.len(), 1, "{lent:?}");
    assert_eq!(lent.borrowed[0].of, None, "of the link");
    assert!(lent.borrowed[0].bytes >= 5_000, "{lent:?}");
}

#[test]
fn drr_a_packet_waits_for_the_turns_of_the_others_and_shows_quantum_and_deficit() {
    let classes = class("a", "weight = 1") + &class("b", "weight = 2\ndefault = true");
    let mut host = Host::new(&format!("discipline = \"drr\"\n{classes}"), Some("a"), false);
    (0..6).for_each(|_| host.arrives(0, "b", 1514));
    host.arrives(0, "a", 1514);
    host.arrives(0, "a", 1514);
    host.runs(0, 100_000);
    let packet = host.slowest();
    // b has two packets a turn: two, a's first, two.
    assert_eq!(before(&packet), [("b", 4, 4 * 1514), ("a", 1, 1514)]);
    assert_eq!(packet.wait_ns, 5 * 1_514_000);
    assert_eq!(packet.before_ns, packet.wait_ns);
    assert_eq!(gauge(&packet, "quantum"), 1514);
    assert!(gauge(&packet, "deficit").is_u64(), "{packet:?}");
    assert!(packet.before[0].why.starts_with("in turn: "), "{packet:?}");
}

#[test]
fn tbf_a_packet_waits_for_tokens() {
    let text = "discipline = { kind = \"tbf\", rate = \"1 Mbit/s\", burst = \"2 kB\" }\n";
    let mut host = Host::new(text, None, false);
    (0..3).for_each(|_| host.arrives(0, "", 1000));
    host.runs(0, 100_000);
    let packet = host.slowest();
    // Two had tokens; the third has to wait 8 ms for its own.
    assert_eq!(before(&packet), [("all", 2, 2000)]);
    assert_eq!((packet.before_ns, packet.held_ns), (2_000_000, 6_000_000));
    assert_eq!(gauge(&packet, "tokens"), 2000);
    assert!(
        packet
            .lines()
            .iter()
            .any(|line| line.contains("its discipline held it back"))
    );
}

#[test]
fn red_a_drop_shows_its_reason_and_the_chance_that_its_average_gave() {
    let text = "discipline = { kind = \"red\", min = 2, max = 4, weight = \"1/1\" }\n";
    let mut host = Host::new(text, None, true);
    (0..20).for_each(|_| host.arrives(0, "", 1000));
    let explained = host.explained();
    assert!(explained.seen_packets >= 10, "{explained:?}");
    let packet = &explained.packets[1];
    let drop = packet.dropped.as_ref().expect("a drop");
    assert_eq!((drop.reason.as_str(), packet.wait_ns), ("forced", 0));
    assert!(gauge(packet, "average").as_f64() >= Some(4.0), "{packet:?}");
    assert_eq!(gauge(packet, "probability"), 1.0, "{packet:?}");
    assert!(packet.on_arrival[0].backlog_packets >= 4, "{packet:?}");
}

#[test]
fn ips_a_packet_of_a_lower_priority_waits_for_the_higher_and_its_bound_is_shown() {
    let guaranteed = |name: &str, delay: &str| {
        let more = "rate = \"1 Mbit/s\"\nburst = \"4 kB\"\njitter = \"0 s\"";
        class(name, &format!("{more}\ndelay = \"{delay}\""))
    };
    let classes =
        guaranteed("voice", "10 ms") + &guaranteed("film", "60 ms") + &class("rest", "default = true");
    let mut host = Host::new(&format!("discipline = \"ips\"\n{classes}"), Some("film"), false);
    host.arrives(0, "film", 1000);
    host.arrives(0, "voice", 1000);
    host.arrives(0, "voice", 1000);
    host.runs(0, 100_000);
    let packet = host.slowest();
    assert_eq!(before(&packet), [("voice", 2, 2000)]);
    assert_eq!((packet.wait_ns, packet.before_ns), (2_000_000, 2_000_000));
    assert!(gauge(&packet, "bound").as_u64() > Some(2_000_000), "{packet:?}");
}

#[test]
fn a_host_that_is_late_is_told_from_a_link_that_is_busy() {
    let mut host = Host::new("discipline = \"fifo\"\n", None, false);
    (0..3).for_each(|_| host.arrives(0, "", 1000));
    host.asks(0);
    // The second was due at 1000 µs, the third at 2000 µs.
    host.asks(3_500);
    // Both waited as long, the one that left first comes first.
    let packet = host.explained().packets.remove(1);
    assert_eq!((packet.wait_ns, packet.before_ns), (3_500_000, 2_000_000));
    assert_eq!((packet.held_up_ns, packet.held_ns), (1_500_000, 0));
    // It was planned for 2 ms.
    assert_eq!(packet.planned_ns, Some(2_000_000));
    let words = packet.lines();
    let departure = "  due 2 ms after its arrival, left after 3.5 ms";
    assert!(words.iter().any(|line| line == departure), "{words:?}");
}

/// Without a host in between a packet leaves when it is due, and a dropped one is due never.
#[test]
fn the_planned_departure_is_the_real_one_in_exact_time_and_a_dropped_packet_has_none() {
    let mut host = Host::new("discipline = { kind = \"fifo\", limit = 3 }\n", None, false);
    (0..3).for_each(|_| host.arrives(0, "", 1000));
    host.runs(0, 10_000);
    for packet in host.explained().packets {
        assert_eq!(packet.planned_ns, Some(packet.wait_ns), "{packet:?}");
    }
    let mut host = Host::new("discipline = { kind = \"fifo\", limit = 3 }\n", None, true);
    (0..5).for_each(|_| host.arrives(0, "", 1000));
    let packets = host.explained().packets;
    assert_eq!(packets.len(), 2);
    for packet in packets {
        assert_eq!(packet.planned_ns, None, "{packet:?}");
        let words = packet.lines();
        assert!(!words.iter().any(|line| line.contains("due")), "{words:?}");
    }
}

#[test]
fn what_is_recorded_is_bounded_and_ends_with_a_change() {
    let mut host = Host::new("discipline = \"fifo\"\n", None, false);
    (0..50).for_each(|_| host.arrives(0, "", 1000));
    host.runs(0, 30_000);
    host.recorder.changed();
    host.runs(30_000, 100_000);
    let explained = host.explained();
    assert_eq!(explained.packets.len(), 2, "as many as were asked for");
    assert_eq!(explained.seen_packets, 31);
    assert_eq!(explained.over.as_deref(), Some("the policy was changed"));
    assert_eq!(before(&explained.packets[0]), [("all", 30, 30_000)]);
}

#[test]
fn filters_were_asked_of_a_packet_with_headers_in_a_tree_with_classes() {
    let classes = class("voice", "priority = 7") + &class("bulk", "priority = 1\ndefault = true");
    let filter = "[[interface.wan0.filter]]\nclass = \"voice\"\nprotocol = \"tcp\"\n";
    let mut host = Host::new(&format!("discipline = \"priq\"\n{classes}{filter}"), None, false);
    host.arrives(0, "bulk", 500);
    host.runs(0, 10_000);
    let asked = host.slowest().filters;
    let told: Vec<_> = asked.iter().map(|one| (&*one.filter, &*one.class)).collect();
    assert_eq!(told, [("tcp", "voice")]);
}
