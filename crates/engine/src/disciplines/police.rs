//! `police`: meters what arrives, and passes, remarks or drops each packet by its colour. It queues
//! nothing and delays nothing: what passes goes to the queue below.
//!
//! Meters, with buckets *C* (`rate`, `burst`) and *E* (`excess_rate`, `excess_burst`), both full at
//! first, and a packet of *B* bytes. "Pre-" is the colour it arrives with, if `aware`; otherwise
//! every packet arrives green.
//!
//! ```text
//! token-bucket           C ≥ B: green, C −= B;                            else red
//! srtcm      RFC 2697    pre-green, C ≥ B: green, C −= B;   not pre-red, E ≥ B: yellow, E −= B;   else red
//!                        `rate` fills C, and E with what C cannot take; there is no `excess_rate`
//! trtcm      RFC 2698    pre-red or E < B: red;   pre-yellow or C < B: yellow, E −= B;   else green, C −= B, E −= B
//!                        E is the RFC's P: `excess_rate` is the peak rate, `excess_burst` the peak burst
//! trtcm-4115 RFC 4115    as srtcm, but `excess_rate` fills E
//! ```
//!
//! Colours travel as the drop precedence of an assured forwarding DSCP (RFC 2597): AFx1 is green,
//! AFx2 yellow, AFx3 red; a packet with another DSCP is pre-green. `rio` reads them.
//!
//! A packet that a change of the tree hands on was judged when it arrived: it passes as it is,
//! takes no tokens and is not counted again. So a change drops nothing that a meter had let in.
//!
//! Arithmetic: tokens are counted in 10⁻⁹ bit, so that rate times time is a whole number: the meter
//! is exact at any rate, and a sender that keeps to its rate is never red for rounding.
//!
//! Departures: lengths are those of frames as everywhere in the engine, where the RFCs count IP
//! packets.

use crate::discipline::{Build, Discipline, Next, Plan, Reason, Sink, Verdict};
use crate::inspect::{Inspection, Value};
use crate::kind::{Check, Children, Kind, Properties, QueuePlan};
use crate::packet::{ClassId, Packet};
use crate::portion::Portion;
use crate::queue::Queue;
use crate::settings::{Problem, Raw, SettingValue, describe};
use crate::units::{Bandwidth, Bytes, Duration, Instant, Rate};
use crate::{choices, settings};
use std::any::Any;
use std::sync::Arc;

/// The registration.
pub static KIND: Kind = Kind {
    name: "police",
    summary: "Meters arrivals against rates and bursts, and passes, remarks or drops them by their colour",
    reference: "RFC 2697, RFC 2698, RFC 4115 (single-rate and two-rate three-colour markers); RFC 2597, RFC 2475",
    children: Children::One,
    settings: Settings::SETTINGS,
    class_settings: &[],
    properties: Properties {
        adds_no_delay: true,
        takes_over: true,
        ..Properties::NONE
    },
    check,
};

choices! {
    /// How packets are metered.
    pub enum MeterType {
        /// One rate, two colours.
        TokenBucket = "token-bucket",
        /// RFC 2697.
        SrTcm = "srtcm",
        /// RFC 2698.
        TrTcm = "trtcm",
        /// RFC 4115.
        TrTcm4115 = "trtcm-4115",
    }
}

/// What happens to packets of a colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// They pass as they are.
    Pass,
    /// They are dropped.
    Drop,
    /// The drop precedence of an assured forwarding DSCP is set to the colour.
    Precedence,
    /// They pass with this DSCP.
    Remark(u8),
}

/// The value of a DSCP's name.
fn dscp(name: &str) -> Option<u8> {
    let digit = |text: &str, most: u8| text.parse::<u8>().ok().filter(|n| *n <= most);
    if let Some(af) = name.strip_prefix("af") {
        let number = digit(af, 43)?;
        let (class, precedence) = (number / 10, number % 10);
        return ((1..=4).contains(&class) && (1..=3).contains(&precedence))
            .then_some(8 * class + 2 * precedence);
    }
    match name {
        "ef" => Some(46),
        "le" => Some(1),
        _ => match name.strip_prefix("cs") {
            Some(class) => digit(class, 7).map(|class| 8 * class),
            None => digit(name, 63),
        },
    }
}

impl SettingValue for Action {
    const UNIT: &'static str =
        "\"pass\", \"drop\", \"precedence\", or a DSCP to set, such as \"af12\", \"ef\", \"cs1\" or \"10\"";
    fn from_raw(raw: &Raw) -> Result<Self, String> {
        let wrong = || format!("expected {}; found {}", Self::UNIT, describe(raw));
        match raw {
            Raw::Text(text) => match text.as_str() {
                "pass" => Ok(Self::Pass),
                "drop" => Ok(Self::Drop),
                "precedence" => Ok(Self::Precedence),
                name => dscp(name).map(Self::Remark).ok_or_else(wrong),
            },
            _ => Err(wrong()),
        }
    }
}

settings! {
    /// Settings of `police`.
    pub struct Settings {
        /// How packets are metered
        meter: MeterType = default "token-bucket",
            "srtcm forgives longer bursts; trtcm and trtcm-4115 allow a second rate",
            "the simplest";
        /// The rate that is green
        rate: Rate = required,
            "too small: good packets are red; too large: nothing is policed",
            "the sender's contract";
        /// How far green may run ahead of the rate
        burst: Bytes = derived "10 ms of the rate, and at least 4 full packets",
            "too small: good senders' bursts are red; too large: long bursts pass",
            "RFC 2697 asks for at least the longest packet";
        /// The second rate: the peak (trtcm), or what is yellow above the rate (trtcm-4115)
        excess_rate: Rate = derived "twice the rate for trtcm, the rate for trtcm-4115",
            "too small: little is yellow; too large: little is red",
            "the sender's contract";
        /// How far yellow may run ahead, or the peak burst (trtcm)
        excess_burst: Bytes = derived "the burst",
            "as burst",
            "RFC 2697, 2698, 4115";
        /// Whether packets keep a worse colour that they arrive with
        aware: bool = default "false",
            "true: what was yellow stays yellow or becomes red, as after another meter",
            "the colour-aware mode of the RFCs";
        /// What happens to green packets
        green: Action = default "pass",
            "drop: a fault in most policies",
            "RFC 2475, section 2.3.3";
        /// What happens to yellow packets
        yellow: Action = default "precedence",
            "drop: yellow is as red",
            "RFC 2597";
        /// What happens to red packets
        red: Action = default "drop",
            "pass or precedence: the sender's excess competes with others",
            "RFC 2475, section 2.3.3";
    }
}

/// The largest burst, whose tokens fit in 64 bits with room to spare.
const MAX_BURST: u64 = 1 << 30;
/// Tokens of a byte.
const BYTE: u64 = 8_000_000_000;

/// A packet's colour.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Colour {
    Green,
    Yellow,
    Red,
}

/// The parameters of a meter.
#[derive(Clone, PartialEq, Debug)]
struct Parameters {
    meter: MeterType,
    rates: [u64; 2],
    bursts: [u64; 2],
    aware: bool,
    actions: [Action; 3],
}

#[derive(Debug)]
struct PolicePlan {
    parameters: Parameters,
    child: QueuePlan,
}

impl Parameters {
    /// The error names the setting and its fault.
    fn new(settings: &Settings, link: Bandwidth, mtu: Bytes) -> Result<Self, (&'static str, String)> {
        let rate = settings.rate.on(link);
        if rate == Bandwidth::ZERO {
            return Err((
                "rate",
                "`rate` must be more than 0; to drop everything, set green, yellow and red to drop".into(),
            ));
        }
        let two = [MeterType::TrTcm, MeterType::TrTcm4115].contains(&settings.meter);
        if settings.excess_rate.is_some() && !two {
            return Err((
                "excess_rate",
                format!(
                    "`excess_rate` says nothing to the meter `{}`",
                    settings.meter.name()
                ),
            ));
        }
        if settings.aware && settings.meter == MeterType::TokenBucket {
            return Err((
                "aware",
                "`aware` says nothing to the meter `token-bucket`: it has no colour-aware mode".into(),
            ));
        }
        let derived = if settings.meter == MeterType::TrTcm {
            rate.bits().saturating_mul(2)
        } else {
            rate.bits()
        };
        let excess = settings
            .excess_rate
            .map_or(derived, |excess| excess.on(link).bits());
        if settings.meter == MeterType::TrTcm && excess < rate.bits() {
            return Err((
                "excess_rate",
                "`excess_rate` is the peak rate and must be at least `rate`".into(),
            ));
        }
        let usual = rate.bytes_in(Duration::from_millis(10)).max(mtu.times(4));
        let burst = settings.burst.unwrap_or(usual.min(Bytes::new(MAX_BURST))).get();
        let excess_burst = settings.excess_burst.map_or(burst, Bytes::get);
        for (key, burst) in [("burst", burst), ("excess_burst", excess_burst)] {
            if burst < mtu.get() || burst > MAX_BURST {
                let message = format!(
                    "`{key}` must be from one full packet ({mtu}) to 1 GiB: longer packets would be red"
                );
                return Err((key, message));
            }
        }
        Ok(Self {
            meter: settings.meter,
            rates: [rate.bits(), if two { excess } else { 0 }],
            bursts: [burst * BYTE, excess_burst * BYTE],
            aware: settings.aware,
            actions: [settings.green, settings.yellow, settings.red],
        })
    }
}

fn check(check: &mut Check<'_>) -> Option<Arc<dyn Plan>> {
    let settings = Settings::read(check.settings, &[], check.problems)?;
    match Parameters::new(&settings, check.link.bandwidth, check.link.mtu) {
        Ok(parameters) => Some(Arc::new(PolicePlan {
            parameters,
            child: check.child.take()?,
        })),
        Err((key, message)) => {
            let at = check.settings.place(key);
            check.problems.push(Problem::new(at, message));
            None
        }
    }
}

impl Plan for PolicePlan {
    fn build(&self, cx: &Build) -> Box<dyn Discipline> {
        let child = self.child.build(&cx.part("child"));
        Box::new(Police {
            buckets: Buckets::new(&self.parameters),
            parameters: self.parameters.clone(),
            child,
            counts: [0; 3],
        })
    }
}

/// The buckets C and E, and when they were filled.
#[derive(Clone, Copy, Debug)]
struct Buckets {
    tokens: [u64; 2],
    filled: Instant,
}

impl Buckets {
    fn new(parameters: &Parameters) -> Self {
        Self {
            tokens: parameters.bursts,
            filled: Instant::START,
        }
    }

    fn fill(&mut self, parameters: &Parameters, now: Instant) {
        let span = u128::from(now.since(self.filled).nanos());
        self.filled = self.filled.max(now);
        let mut spilt = 0;
        for (i, tokens) in self.tokens.iter_mut().enumerate() {
            let more = u128::from(parameters.rates[i]) * span;
            // What overflows C goes to E in RFC 2697, and is discarded elsewhere.
            let inflow = more
                + if parameters.meter == MeterType::SrTcm {
                    spilt
                } else {
                    0
                };
            let full = u128::from(*tokens) + inflow;
            let burst = u128::from(parameters.bursts[i]);
            spilt = full.saturating_sub(burst);
            *tokens = full.min(burst) as u64;
        }
    }

    /// The colour of a packet of this length and pre-colour; takes its tokens.
    fn colour(&mut self, parameters: &Parameters, now: Instant, len: Bytes, came: Colour) -> Colour {
        self.fill(parameters, now);
        // Longer than any bucket: never green or yellow.
        let need = len.get().saturating_mul(BYTE);
        let [committed, excess] = self.tokens.map(|tokens| tokens >= need);
        let (colour, takes) = match parameters.meter {
            MeterType::TokenBucket if committed => (Colour::Green, [true, false]),
            MeterType::TokenBucket => (Colour::Red, [false; 2]),
            MeterType::TrTcm => match (came, excess, committed) {
                (Colour::Red, ..) | (_, false, _) => (Colour::Red, [false; 2]),
                (Colour::Yellow, ..) | (.., false) => (Colour::Yellow, [false, true]),
                _ => (Colour::Green, [true; 2]),
            },
            MeterType::SrTcm | MeterType::TrTcm4115 => match came {
                Colour::Green if committed => (Colour::Green, [true, false]),
                Colour::Green | Colour::Yellow if excess => (Colour::Yellow, [false, true]),
                _ => (Colour::Red, [false; 2]),
            },
        };
        for (tokens, takes) in self.tokens.iter_mut().zip(takes) {
            *tokens -= if takes { need } else { 0 };
        }
        colour
    }
}

#[derive(Debug)]
struct Police {
    parameters: Parameters,
    buckets: Buckets,
    child: Queue,
    counts: [u64; 3],
}

impl Police {
    fn came(&self, packet: &Packet) -> Colour {
        match packet.dscp.precedence() {
            Some(2) if self.parameters.aware => Colour::Yellow,
            Some(3) if self.parameters.aware => Colour::Red,
            _ => Colour::Green,
        }
    }
}

impl Discipline for Police {
    fn enqueue(&mut self, now: Instant, mut packet: Packet, sink: &mut dyn Sink) -> Verdict {
        if packet.handed_on {
            return self.child.enqueue(now, packet, sink);
        }
        let came = self.came(&packet);
        let colour = self.buckets.colour(&self.parameters, now, packet.len, came);
        self.counts[colour as usize] += 1;
        match self.parameters.actions[colour as usize] {
            Action::Pass => {}
            Action::Drop => {
                sink.drop(packet, Reason::Policed);
                return Verdict::Dropped(Reason::Policed);
            }
            Action::Precedence if packet.dscp.precedence().is_some() => {
                let class = packet.dscp.value() >> 3;
                packet.dscp.remark(class << 3 | (colour as u8 + 1) << 1);
            }
            Action::Precedence => {}
            Action::Remark(dscp) => packet.dscp.remark(dscp),
        }
        self.child.enqueue(now, packet, sink)
    }

    fn dequeue(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<Packet> {
        self.child.dequeue(now, sink)
    }

    fn flush(&mut self, portion: &mut Portion, sink: &mut dyn Sink) {
        self.child.flush(portion, sink);
    }

    fn take_over(&mut self, now: Instant, former: &mut dyn Discipline) -> u32 {
        let Some(former) = former.of_type::<Self>() else {
            return 0;
        };
        former.buckets.fill(&former.parameters, now);
        self.buckets = former.buckets;
        for (tokens, burst) in self.buckets.tokens.iter_mut().zip(self.parameters.bursts) {
            *tokens = burst.min(*tokens);
        }
        self.counts = former.counts;
        self.child.take_over(now, &mut former.child)
    }

    fn leaf(&mut self, class: ClassId) -> Option<&mut dyn Discipline> {
        self.child.discipline_mut().leaf(class)
    }

    fn owner(&mut self, class: ClassId) -> Option<&mut dyn Discipline> {
        self.child.discipline_mut().owner(class)
    }

    fn inspect(&self, out: &mut Inspection<'_>) {
        let [committed, excess] = self
            .buckets
            .tokens
            .map(|tokens| Value::Bytes(Bytes::new(tokens / BYTE)));
        for (name, count) in ["green", "yellow", "red"].into_iter().zip(self.counts) {
            out.gauge(name, Value::Count(count));
        }
        out.gauge("committed", committed);
        if self.parameters.meter != MeterType::TokenBucket {
            out.gauge("excess", excess);
        }
        self.child.inspect(out);
    }

    fn retune(&mut self, now: Instant, plan: &dyn Plan) -> bool {
        let plan: &dyn Any = plan;
        let Some(plan) = plan.downcast_ref::<PolicePlan>() else {
            return false;
        };
        if !self.child.retune(now, &*plan.child.plan) {
            return false;
        }
        if plan.parameters != self.parameters {
            self.buckets.fill(&self.parameters, now);
            for (tokens, burst) in self.buckets.tokens.iter_mut().zip(plan.parameters.bursts) {
                *tokens = burst.min(*tokens);
            }
            self.parameters = plan.parameters.clone();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Link;
    use crate::packet::{ClassId, Dscp};
    use crate::random::Seed;
    use crate::settings::Table;
    use crate::shaped_queue::{ShapedQueue, hand_over};
    use crate::tree::{DisciplineSpec, Registry};
    use crate::trials;
    use Colour::{Green, Red, Yellow};

    const LINK: Link = Link::new(Bandwidth::mbit(100), Bytes::new(1000));

    fn parameters(table: Table) -> Parameters {
        let settings = Settings::read(&table, &[], &mut Vec::new()).expect("good settings");
        Parameters::new(&settings, LINK.bandwidth, LINK.mtu).expect("good settings")
    }

    /// 8 Mbit/s is 1,000 bytes in a millisecond; the excess rate is twice that.
    fn meter(name: &str) -> Table {
        let table = Table::default()
            .text("meter", name)
            .text("rate", "8 Mbit/s")
            .text("burst", "2000 B");
        let table = table.text("excess_burst", "3000 B");
        if name.starts_with("trtcm") {
            table.text("excess_rate", "16 Mbit/s")
        } else {
            table
        }
    }

    /// The colours of packets: when (in µs), how long, the colour they arrive with, and the colour
    /// expected.
    fn vector(table: Table, steps: &[(u64, u64, Colour, Colour)]) {
        let parameters = parameters(table);
        let mut buckets = Buckets::new(&parameters);
        for (i, &(at, len, came, expected)) in steps.iter().enumerate() {
            let now = Instant::from_nanos(at * 1_000);
            let found = buckets.colour(&parameters, now, Bytes::new(len), came);
            assert_eq!(
                found,
                expected,
                "{} step {i}: {:?}",
                parameters.meter.name(),
                buckets.tokens.map(|t| t / BYTE)
            );
        }
    }

    #[test]
    fn a_token_bucket_lets_the_burst_and_then_the_rate_through_to_a_byte() {
        vector(
            meter("token-bucket"),
            &[
                (0, 1000, Green, Green),
                (0, 1000, Green, Green),
                (0, 1, Green, Red),
                (999, 1000, Green, Red), // 999 B
                (1_000, 1000, Green, Green),
                (1_000, 1, Green, Red),
                (9_000, 2000, Green, Green), // full again, and no more
                (9_001, 2, Green, Red),
            ],
        );
    }

    #[test]
    fn srtcm_colours_as_rfc_2697() {
        vector(
            meter("srtcm"),
            &[
                (0, 1500, Green, Green),  // C 500, E 3000
                (0, 1000, Green, Yellow), // C 500, E 2000
                (0, 500, Green, Green),   // C 0
                (0, 2000, Green, Yellow), // E 0
                (0, 1, Green, Red),
                (1_000, 1000, Green, Green), // C 1000 → 0; E gets nothing before C is full
                (1_000, 1, Green, Red),
                (4_000, 1000, Yellow, Yellow), // 3000: C 2000, E 1000 → 0
                (4_000, 1, Yellow, Red),       // C is full, but not for yellow
                (4_000, 1, Red, Red),
                (4_000, 2000, Green, Green),
            ],
        );
    }

    #[test]
    fn trtcm_colours_as_rfc_2698() {
        vector(
            meter("trtcm"),
            &[
                (0, 1500, Green, Green),  // C 500, P 1500
                (0, 1000, Green, Yellow), // C 500, P 500
                (0, 600, Green, Red),     // more than P, though it would take nothing
                (0, 500, Green, Green),   // C 0, P 0
                (0, 1, Green, Red),
                (500, 1000, Green, Yellow),    // C 500, P 1000 → 0
                (500, 100, Green, Red),        // C has 500, but P comes first
                (1_000, 1000, Yellow, Yellow), // C 1000, P 1000 → 0
                (1_500, 1000, Red, Red),       // C 1500, P 1000
                (1_500, 1000, Green, Green),   // C 500, P 0
            ],
        );
    }

    #[test]
    fn trtcm_of_rfc_4115_takes_a_green_packet_from_one_bucket_only() {
        vector(
            meter("trtcm-4115"),
            &[
                (0, 1500, Green, Green),   // C 500, E 3000
                (0, 1000, Green, Yellow),  // E 2000
                (0, 500, Green, Green),    // C 0
                (0, 2000, Yellow, Yellow), // E 0
                (0, 1, Green, Red),
                (500, 1000, Green, Yellow), // C 500, E 1000 → 0
                (500, 500, Yellow, Red),    // C is not for yellow
                (500, 500, Green, Green),
                (500, 1, Red, Red),
            ],
        );
    }

    #[test]
    fn a_sender_that_keeps_to_its_rate_is_never_red() {
        let table = Table::default()
            .text("rate", "7777777 bit/s")
            .text("burst", "1001 B");
        let parameters = parameters(table);
        let mut buckets = Buckets::new(&parameters);
        for i in 0..100_000u128 {
            // Each packet at the first nanosecond at which its tokens are there; the last byte
            // keeps what that rounds up.
            let at = (i * 8_000_000_000_000).div_ceil(7_777_777) as u64;
            let found = buckets.colour(&parameters, Instant::from_nanos(at), Bytes::new(1000), Green);
            assert_eq!(found, Green, "packet {i}");
        }
    }

    #[derive(Default)]
    struct Drops(u32);

    impl Sink for Drops {
        fn drop(&mut self, _packet: Packet, why: Reason) {
            assert_eq!(why, Reason::Policed);
            self.0 += 1;
        }
    }

    #[test]
    fn a_token_bucket_that_is_to_heed_colours_is_refused_since_it_has_no_such_mode() {
        let table = meter("token-bucket").with("aware", Raw::Boolean(true));
        let spec = DisciplineSpec {
            settings: table,
            ..DisciplineSpec::new("police")
        };
        let report = spec.check(&Registry::builtin(), LINK).expect_err("refused");
        assert!(
            format!("{report:?}").contains("`aware` says nothing to the meter `token-bucket`"),
            "{report:?}"
        );
    }

    #[test]
    fn colours_become_drop_precedences_new_marks_and_drops() {
        let table = meter("srtcm")
            .text("green", "af21")
            .with("aware", Raw::Boolean(true));
        let spec = DisciplineSpec {
            settings: table,
            ..DisciplineSpec::new("police")
        };
        let mut queue = spec
            .check(&Registry::builtin(), LINK)
            .expect("a good plan")
            .build(Seed(1));
        let mut dropped = Drops::default();
        let now = Instant::START;
        // AF31 green, AF32 yellow, best effort from yellow, AF33 red.
        for (dscp, len) in [(26, 1000), (28, 1000), (0, 1500), (30, 10)] {
            let mut packet = Packet::new(Bytes::new(len), now, ClassId(0));
            packet.dscp = Dscp::arrived(dscp);
            let _ = queue.enqueue(now, packet, &mut dropped);
        }
        let mut left = Vec::new();
        while let Next::Ready(packet) = queue.dequeue(now, &mut dropped) {
            left.push((packet.dscp.value(), packet.dscp.to_write().is_some()));
        }
        assert_eq!((left, dropped.0), (vec![(18, true), (28, false), (0, false)], 1));
    }

    #[test]
    fn packets_that_a_change_hands_on_are_not_policed_again() {
        let plan = DisciplineSpec {
            settings: meter("token-bucket").text("green", "ef").text("red", "pass"),
            ..DisciplineSpec::new("police")
        };
        let plan = plan.check(&Registry::builtin(), LINK).expect("a good plan");
        let dropping = DisciplineSpec {
            settings: meter("token-bucket").text("green", "drop").text("red", "drop"),
            ..DisciplineSpec::new("police")
        };
        let dropping = dropping.check(&Registry::builtin(), LINK).expect("a good plan");
        let (mut dropped, now) = (Drops::default(), Instant::START);
        let mut queue = ShapedQueue::new(plan.build(Seed(1)), None);
        for _ in 0..4 {
            let _ = queue.enqueue(now, Packet::new(Bytes::new(1000), now, ClassId(0)), &mut dropped);
        }
        for plan in [&plan, &dropping] {
            let packets = hand_over(&mut queue.replace(now, plan.build(Seed(1)), Some));
            for packet in packets {
                let _ = queue.enqueue(now, packet, &mut dropped);
            }
        }
        let mut left = Vec::new();
        while let Next::Ready(packet) = queue.dequeue(now, &mut dropped) {
            left.push(packet.dscp.value());
        }
        assert_eq!((left, dropped.0), (vec![46, 46, 0, 0], 0));
    }

    #[test]
    fn names_of_dscps_are_those_of_the_rfcs() {
        let known = [
            ("af11", 10),
            ("af43", 38),
            ("ef", 46),
            ("cs0", 0),
            ("cs7", 56),
            ("le", 1),
            ("63", 63),
        ];
        known
            .iter()
            .for_each(|&(name, value)| assert_eq!(dscp(name), Some(value), "{name}"));
        ["af14", "af51", "af1", "cs8", "64", "x", ""]
            .iter()
            .for_each(|name| assert_eq!(dscp(name), None, "{name}"));
    }

    fn fault(table: &Table) -> Option<&'static str> {
        let settings = Settings::read(table, &[], &mut Vec::new()).expect("settings");
        let parameters = Parameters::new(&settings, LINK.bandwidth, LINK.mtu);
        parameters.err().map(|(key, _)| key)
    }

    #[test]
    fn rates_and_bursts_are_refused_beyond_their_limits_and_not_at_them() {
        let of = |name: &str, rate: &str| Table::default().text("meter", name).text("rate", rate);
        assert_eq!(fault(&of("srtcm", "0 bit/s")), Some("rate"));
        let excess = |name, rate| fault(&of(name, "8 Mbit/s").text("excess_rate", rate));
        assert_eq!(excess("trtcm", "7999999 bit/s"), Some("excess_rate"));
        assert_eq!(excess("trtcm", "8 Mbit/s"), None);
        assert_eq!(excess("trtcm", "9 Mbit/s"), None);
        assert_eq!(excess("trtcm-4115", "1 bit/s"), None);
        for name in ["srtcm", "token-bucket"] {
            assert_eq!(excess(name, "9 Mbit/s"), Some("excess_rate"));
        }
        for key in ["burst", "excess_burst"] {
            let of = |burst| fault(&of("srtcm", "8 Mbit/s").text(key, burst));
            for wrong in ["999 B", "1073741825 B"] {
                assert_eq!(of(wrong), Some(key), "{wrong}");
            }
            for right in ["1000 B", "1073741824 B"] {
                assert_eq!(of(right), None, "{right}");
            }
        }
        let aware = |name| fault(&of(name, "8 Mbit/s").with("aware", Raw::Boolean(true)));
        assert_eq!([aware("srtcm"), aware("token-bucket")], [None, Some("aware")]);
    }

    #[test]
    fn rates_and_bursts_that_are_not_given_follow_from_the_rate() {
        let of = |name: &str, rate: &str| {
            let parameters = parameters(Table::default().text("meter", name).text("rate", rate));
            (parameters.rates, parameters.bursts.map(|burst| burst / BYTE))
        };
        let rate = 8_000_000;
        assert_eq!(of("token-bucket", "8 Mbit/s"), ([rate, 0], [10_000; 2]));
        assert_eq!(of("srtcm", "8 Mbit/s"), ([rate, 0], [10_000; 2]));
        assert_eq!(of("trtcm", "8 Mbit/s"), ([rate, 2 * rate], [10_000; 2]));
        assert_eq!(
            of("trtcm-4115", "1 Mbit/s"),
            ([1_000_000; 2], [4_000; 2]),
            "four packets"
        );
        assert_eq!(of("srtcm", "1000 Gbit/s").1, [1 << 30; 2], "at most");
    }

    fn over(table: Table, child: &str) -> QueuePlan {
        trials::planned_over("police", table, DisciplineSpec::new(child))
    }

    /// The tokens of both buckets, and the packets of each colour.
    fn shown(police: &dyn Discipline) -> [Option<Value>; 5] {
        ["committed", "excess", "green", "yellow", "red"].map(|name| trials::gauge(police, name))
    }

    fn expected(committed: u64, excess: u64, colours: [u64; 3]) -> [Option<Value>; 5] {
        let [committed, excess] = [committed, excess].map(|n| Some(Value::Bytes(Bytes::new(n))));
        let [green, yellow, red] = colours.map(|n| Some(Value::Count(n)));
        [committed, excess, green, yellow, red]
    }

    /// A meter that has let 1,500 bytes through, and 1,000 in excess, at the start.
    fn used() -> Box<dyn Discipline> {
        let mut police = trials::built(&over(meter("srtcm"), "fifo"));
        for len in [1_500, 1_000, 2_500] {
            let packet = Packet::new(Bytes::new(len), Instant::START, ClassId(0));
            let _ = police.enqueue(Instant::START, packet, &mut Drops::default());
        }
        assert_eq!(shown(&*police), expected(500, 2_000, [1, 1, 1]));
        police
    }

    #[test]
    fn tokens_stay_up_to_the_new_bursts_when_it_is_retuned() {
        let at = Instant::from_nanos(1_000_000);
        let other = |burst: &str, excess: &str, child| {
            let table = meter("srtcm").text("burst", burst).text("excess_burst", excess);
            over(table, child).plan
        };
        let mut police = used();
        assert!(police.retune(at, &*over(meter("srtcm"), "fifo").plan));
        assert_eq!(
            shown(&*police),
            expected(500, 2_000, [1, 1, 1]),
            "nothing has changed"
        );
        let alone = trials::planned("fifo", Table::default(), LINK);
        assert!(!police.retune(at, &*alone.plan));
        assert!(!police.retune(at, &*other("9000 B", "9000 B", "codel")));
        assert_eq!(shown(&*police), expected(500, 2_000, [1, 1, 1]));
        assert!(police.retune(at, &*other("9000 B", "9000 B", "fifo")));
        assert_eq!(
            shown(&*police),
            expected(1_500, 2_000, [1, 1, 1]),
            "1,000 bytes came"
        );
        assert!(police.retune(at, &*other("1000 B", "1001 B", "fifo")));
        assert_eq!(shown(&*police), expected(1_000, 1_001, [1, 1, 1]));
    }

    #[test]
    fn one_that_takes_over_has_the_tokens_up_to_its_bursts_and_the_counts() {
        let at = Instant::from_nanos(1_000_000);
        let table = meter("srtcm")
            .text("burst", "1200 B")
            .text("excess_burst", "9000 B");
        let mut police = trials::built(&over(table, "fifo"));
        assert_eq!(police.take_over(at, &mut *used()), 0);
        assert_eq!(shown(&*police), expected(1_200, 2_000, [1, 1, 1]));
    }

    #[test]
    fn a_token_bucket_shows_no_excess_and_marks_what_has_a_precedence() {
        let table = meter("token-bucket").text("red", "precedence");
        let mut police = trials::built(&over(table, "fifo"));
        for (dscp, len) in [(26, 2_000), (26, 2_000), (46, 2_000)] {
            let mut packet = Packet::new(Bytes::new(len), Instant::START, ClassId(0));
            packet.dscp = Dscp::arrived(dscp);
            let _ = police.enqueue(Instant::START, packet, &mut Drops::default());
        }
        let green_and_red = [
            Some(Value::Count(1)),
            Some(Value::Count(0)),
            Some(Value::Count(2)),
        ];
        assert_eq!(
            (shown(&*police)[1], &shown(&*police)[2..]),
            (None, &green_and_red[..])
        );
        // AF31 passes, then AF33; expedited forwarding has no precedence.
        for expected in [26, 30, 46] {
            let next = police.dequeue(Instant::START, &mut Drops::default());
            assert!(
                matches!(next, Next::Ready(packet) if packet.dscp.value() == expected),
                "{expected}"
            );
        }
    }

    #[test]
    fn the_classes_below_it_are_found() {
        let plan = trials::planned_over("police", meter("srtcm"), trials::two_classes());
        trials::finds_two_classes_below(&mut *trials::built(&plan));
    }
}
