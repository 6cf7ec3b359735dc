//! Pages of invented outcomes, for tests. To look at them, see `plot::examples`.

use super::csv;
use super::page::page;
use crate::language::Picture;
use crate::run::outcome::{ClassOutcome, FlowOutcome, Judgement, LinkOutcome, Outcome, Passed, Point};
use engine::random::{Rng, Seed};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use measure::delay::FineDelays;
use measure::impairments::ImpairmentCounts;
use sim::meter::BacklogLevels;

const BINS: u64 = 300;

/// A pseudo-random number from 0 to 1.
fn next(noise: &mut Rng) -> f64 {
    (noise.bits() >> 11) as f64 / (1u64 << 53) as f64
}

fn passed(noise: &mut Rng, mbit: f64, wait: f64) -> Passed {
    let series: Vec<u64> = (0..BINS)
        .map(|_| (mbit * 12_500.0 * (0.9 + 0.2 * next(noise))) as u64)
        .collect();
    let bytes: u64 = series.iter().sum();
    let mut waited = FineDelays::default();
    for _ in 0..2000 {
        waited.record(Duration::from_nanos(
            (wait * 1e9 * -(1.0 - next(noise)).ln()) as u64,
        ));
    }
    Passed {
        packets: bytes / 1000,
        bytes,
        rate: Bandwidth::of(Bytes::new(bytes), Duration::from_secs(30)),
        series,
        waited,
        dropped: vec![("full", (mbit * 100.0) as u64), ("early", 3)],
        marked: 12_345,
        backlog: BacklogLevels::default(),
    }
}

fn class(noise: &mut Rng, name: &str, parent: Option<usize>, leaf: bool, mbit: f64) -> ClassOutcome {
    ClassOutcome {
        name: name.into(),
        parent,
        leaf,
        target: Some(Bandwidth::mbit(mbit as u64)),
        passed: passed(noise, mbit, 0.0005 * mbit * mbit),
        borrowed: leaf.then(|| Bytes::new(400_000)),
    }
}

fn outcome(number: usize, of: usize, values: &[(&str, &str)], mbit: f64) -> Outcome {
    let mut noise = Seed(number as u64).stream();
    let down = LinkOutcome {
        name: "server > home".into(),
        rate: Bandwidth::mbit(20),
        discipline: Some("cbq"),
        total: passed(&mut noise, mbit + 6.0, 0.02),
        classes: vec![
            class(&mut noise, "family", None, false, mbit + 2.0),
            class(&mut noise, "download <all>", Some(0), true, mbit),
            class(&mut noise, "voice", Some(0), true, 2.0),
            class(&mut noise, "web", None, true, 4.0),
        ],
        impaired: ImpairmentCounts::default(),
        backlog_samples: Vec::new(),
    };
    let up = LinkOutcome {
        name: "home > server".into(),
        discipline: None,
        total: passed(&mut noise, 0.3, 0.0001),
        classes: Vec::new(),
        ..down.clone()
    };
    let flow = |name: &str, passed: &Passed| FlowOutcome {
        name: name.into(),
        kind: "tcp cubic".into(),
        from: "server".into(),
        to: "home".into(),
        start: Instant::START,
        copies: vec![passed.bytes],
        one_way: true,
        playback: None,
        bytes: passed.bytes,
        rate: passed.rate,
        series: passed.series.clone(),
        delays: None,
        counts: vec![("retransmitted", 12)],
        tcp: Vec::new(),
    };
    let judgement = |what: &str, value: u64, unit, met| Judgement {
        what: what.into(),
        expected: "at least 9 Mbit/s".into(),
        got: format!("{:.1} Mbit/s", value as f64 / 1e6),
        value,
        unit,
        met,
        missed_by: if met {
            String::new()
        } else {
            "0.8 Mbit/s too little (4.4 %)".into()
        },
        held_up: None,
    };
    let rate = down.classes[1].passed.rate.bits();
    Outcome {
        scenario: "home".into(),
        point: Point {
            number,
            of,
            values: values
                .iter()
                .map(|(name, value)| ((*name).into(), (*value).into()))
                .collect(),
        },
        duration: Duration::from_secs(30),
        bin: Duration::from_millis(100),
        picture: Picture::Delays,
        events: 1_234_567,
        media: Vec::new(),
        flows: vec![
            flow("download", &down.classes[1].passed),
            flow("surfing, and more", &down.classes[3].passed),
        ],
        reservations: Vec::new(),
        explained: None,
        expectations: vec![
            judgement(
                "class download: rate, 5 s to 30 s",
                rate,
                "bit/s",
                rate > 9_000_000,
            ),
            judgement("class voice: delay-p99", 4_100_000, "ns", true),
        ],
        links: vec![down, up],
    }
}

fn sweep() -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for control in ["reno", "cubic"] {
        for buffer in [10u32, 20, 50, 100, 200, 500, 1000] {
            let number = outcomes.len() + 1;
            let mbit = 12.0 - 40.0 / f64::from(buffer) - if control == "reno" { 1.0 } else { 0.0 };
            let buffer = format!("{buffer} kB");
            outcomes.push(outcome(
                number,
                14,
                &[("control", control), ("buffer", &buffer)],
                mbit,
            ));
        }
    }
    outcomes
}

fn write(name: &str, text: &str) {
    if let Some(folder) = std::env::var_os("PICTURES") {
        std::fs::write(std::path::Path::new(&folder).join(name), text).expect("the folder is there");
    }
}

#[test]
fn pictures_of_a_point_are_on_its_page_with_everything_that_was_measured() {
    let texts = [(
        "The scenario".to_owned(),
        "duration = \"30 s\" # <so>\n".to_owned(),
    )];
    let text = page(&[outcome(1, 1, &[], 12.0)], &texts);
    write("point.html", &text);
    for expected in [
        "All 2 expectations were met.",
        "server &gt; home · 20 Mbit/s · cbq",
        "\u{2003}download &lt;all&gt;",
        "12.35 k",
        "1200 full, 3 early",
        "link 20 Mbit/s",
        "how long packets waited",
        "# &lt;so&gt;",
    ] {
        assert!(text.contains(expected), "{expected}");
    }
    assert!(!text.contains("NaN") && !text.contains("<all>"));
    assert!(text.len() < 400_000, "{}", text.len());
}

#[test]
fn pictures_of_a_sweep_have_a_line_for_each_other_list_and_points_that_missed_are_shown() {
    let text = page(&sweep(), &[]);
    write("sweep.html", &text);
    for expected in [
        "expectations were missed",
        ">cubic<",
        ">reno<",
        "500 kB",
        "Point 1: control reno",
    ] {
        assert!(text.contains(expected), "{expected}");
    }
    assert!(text.len() < 1_500_000, "{}", text.len());
}

#[test]
fn a_sweep_without_numbers_is_bars_and_one_without_points_says_so() {
    let named = |number, name| outcome(number, 2, &[("control", name)], 12.0);
    let text = page(&[named(1, "reno"), named(2, "cubic")], &[]);
    write("bars.html", &text);
    assert!(text.contains(">reno</text>") && text.contains(">cubic</text>"));
    assert!(page(&[], &[]).contains("Nothing was simulated"));
}

#[test]
fn the_table_of_a_sweep_has_a_line_for_each_point_and_as_many_fields_in_each() {
    let text = csv::points(&sweep());
    write("sweep.csv", &text);
    let lines: Vec<&str> = text.split_terminator("\r\n").collect();
    assert_eq!(lines.len(), 15);
    assert!(
        lines[0].starts_with("point,control,buffer,buffer bytes,server > home rate_bps,"),
        "{}",
        lines[0]
    );
    assert!(
        lines[0].contains("\"surfing, and more rate_bps\""),
        "{}",
        lines[0]
    );
    // The commas of that name, and of the expectation's window, which appears twice.
    let commas = |line: &str| line.matches(',').count();
    assert!(lines[1..].iter().all(|line| commas(line) == commas(lines[0]) - 3));
    assert!(lines[1].starts_with("1,reno,10 kB,10000,"), "{}", lines[1]);
}

#[test]
fn many_classes_are_drawn_as_the_largest_and_the_others_together() {
    let mut outcome = outcome(1, 1, &[], 12.0);
    let mut noise = Seed(5).stream();
    let link = &mut outcome.links[0];
    link.classes = (0..40)
        .map(|n| {
            class(
                &mut noise,
                &format!("c{n}"),
                None,
                true,
                0.1 + f64::from(n) / 100.0,
            )
        })
        .collect();
    let svg = super::pictures::link(&outcome, &outcome.links[0]);
    write("classes.svg", &svg);
    assert!(
        svg.contains(">31 others<") && svg.contains(">c39<") && !svg.contains(">c3<"),
        "{svg}"
    );
    let trace = super::pictures::trace(&outcome, &outcome.links[0]);
    let all: u64 = trace
        .lines
        .iter()
        .filter_map(|line| line.bytes.last())
        .map(|b| b.get())
        .sum();
    let counted: u64 = outcome.links[0]
        .classes
        .iter()
        .map(|class| class.passed.bytes)
        .sum();
    assert_eq!(all, counted);
}
