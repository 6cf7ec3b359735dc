//! A class that yields in a scenario keeps what `docs/policy.md` says that it keeps: other traffic
//! has nearly what it has alone, the line is full meanwhile, and changes hands within a second.

#[path = "stubs/outcome.rs"]
mod simulated;

use scenario::run::outcome::{FlowOutcome, Outcome};
use simulated::outcome;

/// When the other flow begins and ends, and when the scenario ends, in seconds.
const BEGINS: f64 = 6.0;
const ENDS: f64 = 12.0;
const END: f64 = 18.0;

/// A line behind a router: who sends over it, and with which discipline.
#[derive(Clone, Copy, Debug)]
struct Line {
    mbit: u64,
    /// The round trip without queues.
    rtt_ms: u64,
    /// In each class.
    leaf: &'static str,
}

const fn line(mbit: u64, rtt_ms: u64, leaf: &'static str) -> Line {
    Line { mbit, rtt_ms, leaf }
}

/// The flow that others have to yield to.
const PAGE: &str = r#"{ name = "page", between = ["server", "home"], kind = "tcp", destination_port = 5002, start = "6 s", stop = "12 s" },"#;

impl Line {
    /// Downloads that yield, beside these flows.
    fn run(self, backups: u32, others: &str) -> Outcome {
        let Self { mbit, rtt_ms, leaf } = self;
        let backup = format!(
            r#"{{ name = "backup", between = ["server", "home"], kind = "tcp", count = {backups}, destination_port = 5001 }},"#
        );
        let backup = if backups > 0 { backup.as_str() } else { "" };
        let text = format!(
            r#"
version = 1
duration = "{END} s"
bin = "100 ms"
hosts = ["server", "router", "home"]
flow = [{backup} {others}]
[[link]]
between = ["server", "router"]
rate = "1 Gbit/s"
delay = "{} us"
[[link]]
between = ["router", "home"]
rate = "{mbit} Mbit/s"
delay = "1 ms"
[link.policy.router]
bandwidth = "{mbit} Mbit/s"
discipline = "drr"
class = [
    {{ name = "backup", yields = {{}}, discipline = "{leaf}" }},
    {{ name = "rest", default = true, discipline = "{leaf}" }},
]
filter = [{{ class = "backup", protocol = "tcp", destination_port = 5001 }}]
"#,
            rtt_ms * 500 - 1_000
        );
        outcome(&text)
    }

    /// The payload that the line carries, in Mbit/s.
    fn carries(self) -> f64 {
        self.mbit as f64 * 1_448.0 / 1_514.0
    }
}

fn flow<'a>(outcome: &'a Outcome, name: &str) -> &'a FlowOutcome {
    let found = outcome.flows.iter().find(|flow| flow.name == name);
    found.expect("a flow of this name")
}

/// What a flow got from one time to another, in Mbit/s.
fn rate(outcome: &Outcome, name: &str, from: f64, to: f64) -> f64 {
    let bin = outcome.bin.as_secs_f64();
    let [first, last] = [from, to].map(|at| (at / bin).round() as usize);
    let bytes: u64 = flow(outcome, name).series.iter().take(last).skip(first).sum();
    bytes as f64 * 8e-6 / (to - from)
}

/// The time after `from` until the flow has this rate for half a second.
fn reached(outcome: &Outcome, name: &str, from: f64, mbit: f64) -> f64 {
    let starts = (0..60).map(|n| f64::from(n) * 0.1);
    let has = |after: &f64| rate(outcome, name, from + after, from + after + 0.5) >= mbit;
    starts.clone().find(has).unwrap_or(f64::INFINITY)
}

/// The round trips are those over which a connection of two segments can keep a twentieth at most
/// (the table in `docs/policy.md`).
#[test]
fn a_download_has_nearly_what_it_has_alone_beside_one_that_yields() {
    let lines = [
        (line(10, 50, "fifo"), 1),
        (line(20, 30, "fifo"), 4),
        (line(100, 5, "fq_codel"), 1),
        (line(100, 20, "fifo"), 1),
        (line(100, 20, "fq_codel"), 4),
    ];
    for (line, backups) in lines {
        let (alone, beside) = (line.run(0, PAGE), line.run(backups, PAGE));
        let [alone, page] =
            [&alone, &beside].map(|run| rate(run, "page", BEGINS + 1.0, ENDS) / line.carries());
        let kept = rate(&beside, "backup", BEGINS + 1.0, ENDS) / line.carries();
        assert!(page >= 0.95 * alone.min(1.0), "{line:?}: {page:.3} of {alone:.3}");
        assert!((0.005..0.05).contains(&kept), "{line:?}: {kept:.3} was kept");
        assert!(page + kept >= 0.95, "{line:?}: {page:.3} and {kept:.3}");
    }
}

/// Two segments in a round trip of 20 ms are a tenth of 10 Mbit/s.
#[test]
fn over_a_short_path_it_keeps_what_its_smallest_window_yields() {
    for backups in [1, 4] {
        let run = line(10, 20, "fifo").run(backups, PAGE);
        let kept = rate(&run, "backup", BEGINS + 1.0, ENDS) / line(10, 20, "fifo").carries();
        assert!((0.05..0.11).contains(&kept), "{backups}: {kept:.3}");
    }
}

#[test]
fn the_line_changes_hands_within_a_second() {
    for line in [
        line(10, 20, "fifo"),
        line(10, 20, "fq_codel"),
        line(100, 5, "fifo"),
        line(100, 20, "fq_codel"),
    ] {
        let run = line.run(1, PAGE);
        let most = 0.8 * line.carries();
        let times = [("page", BEGINS), ("backup", ENDS)].map(|(name, from)| reached(&run, name, from, most));
        assert!(times.iter().all(|after| *after <= 1.0), "{line:?}: {times:?} s");
    }
}

/// Senders send whole segments: of windows of 4.9 segments each, four connections leave a tenth of
/// the line, and eight on a shorter path a fifth, unless the law sees that windows are all in use.
#[test]
fn several_downloads_that_yield_fill_a_line_that_nobody_else_uses() {
    let lines = [
        (line(10, 20, "fifo"), 1),
        (line(10, 20, "fifo"), 4),
        (line(10, 20, "fq_codel"), 4),
        (line(100, 5, "fifo"), 8),
    ];
    for (line, backups) in lines {
        let used = rate(&line.run(backups, ""), "backup", 2.0, END) / line.carries();
        let least = if backups == 1 { 0.99 } else { 0.97 };
        assert!((least..1.01).contains(&used), "{line:?}, {backups}: {used:.3}");
    }
}

/// A call of 1 Mbit/s loses no packet, of which one may be under way at the end, and waits for at
/// most one frame more on average.
#[test]
fn a_call_is_not_delayed_by_downloads_that_yield() {
    let call = r#"{ name = "call", between = ["server", "home"], kind = "constant", rate = "1 Mbit/s", frame = "214 B", destination_port = 5060 },"#;
    let line = line(10, 20, "fifo");
    let (alone, beside) = (line.run(0, call), line.run(4, call));
    let [alone, beside] = [&alone, &beside].map(|run| flow(run, "call"));
    assert!(
        alone.bytes - beside.bytes <= 214,
        "{} bytes, then {}",
        alone.bytes,
        beside.bytes
    );
    let [alone, beside] = [alone, beside].map(|call| call.delays.as_ref().expect("delays").mean().nanos());
    assert!(beside - alone <= 1_212_000, "{alone} ns, then {beside} ns");
    assert!(beside > alone, "downloads fill the rest of the line");
}

#[test]
fn an_upload_that_fills_its_buffer_does_not_stop_downloads_that_yield() {
    let upload = r#"{ name = "upload", between = ["home", "server"], kind = "tcp", destination_port = 5003, start = "6 s", stop = "12 s" },"#;
    let plain = r#"{ name = "plain", between = ["server", "home"], kind = "tcp", destination_port = 5002 },"#;
    let line = line(10, 20, "fq_codel");
    let beside = |name: &str, found: &Outcome| rate(found, name, 8.0, ENDS);
    let found = line.run(1, upload);
    let yields = beside("backup", &found);
    let plain = beside("plain", &line.run(0, &format!("{plain}{upload}")));
    let after = rate(&found, "backup", 14.0, END);
    assert!(
        yields >= 0.8 * plain && after >= 0.9 * line.carries(),
        "{yields:.2} beside it, of {plain:.2} without `yields`, {after:.2} after it"
    );
}
