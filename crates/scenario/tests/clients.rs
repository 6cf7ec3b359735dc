//! Clients that ask: pages over several connections take what they do by hand, and video stalls
//! when the line is slower than its lowest bitrate.

#[path = "stubs/outcome.rs"]
mod simulated;

use engine::tree::Registry;
use engine::units::{Bandwidth, Duration};
use scenario::Scenarios;
use scenario::folder::Folder;
use scenario::run::outcome::Outcome;
use simulated::outcome;

/// A line with a round trip of 100 ms.
fn over(rate: &str, flow: &str, expect: &str) -> String {
    format!(
        r#"
version = 1
duration = "20 s"
link = [{{ between = ["server", "home"], rate = "{rate}", delay = "50 ms" }}]
flow = [{{ name = "client", between = ["server", "home"], {flow} }}]
expect = [{expect}]
"#
    )
}

/// The mistakes of a text.
fn mistakes(text: &str) -> String {
    let read = Scenarios::read("s.toml", text, &Registry::builtin(), &Folder::of("s.toml"));
    read.map(drop).expect_err(text).to_string()
}

fn loaded(how: &str) -> Outcome {
    let flow = format!(r#"kind = "web", main = "1 kB", objects = 6, object = "1 kB", pages = 3, {how}"#);
    outcome(&over("1 Gbit/s", &flow, ""))
}

#[test]
fn pages_take_the_round_trips_that_they_do_by_hand() {
    // Of the first page, and of each that follows: the main object and six others, a round trip
    // each. Parallel connections are opened with the first page, and stay open.
    for (how, first, next) in [
        ("connections = 1", 700, 700),
        ("connections = 6", 300, 200),
        ("connections = 3", 400, 300),
        ("multiplexed = true", 200, 200),
    ] {
        let loaded = loaded(how);
        let delays = loaded.flows[0].delays.as_ref().expect("load times");
        assert_eq!(delays.count(), 3, "{how}");
        let sum = delays.mean().nanos() * 3;
        let expected = Duration::from_millis(first + 2 * next).nanos();
        assert!((expected..expected + 1_000_000).contains(&sum), "{how}: {sum} ns");
        let longest = delays.longest().nanos() / 1_000_000;
        assert!(
            (first..=first + first / 64 + 1).contains(&longest),
            "{how}: {longest} ms"
        );
        assert_eq!(loaded.flows[0].bytes, 3 * 7 * 1_000, "{how}");
        assert!(loaded.flows[0].counts.contains(&("pages", 3)), "{how}");
    }
}

#[test]
fn each_connection_of_each_copy_has_its_port_and_a_copy_is_one_in_the_outcome() {
    let flow = r#"kind = "web", main = "1 kB", objects = 3, object = "1 MB", connections = 3, count = 2"#;
    let expect = r#"{ flow = "client", metric = "jain", at_least = "95 %" }"#;
    let outcome = outcome(&over("10 Mbit/s", flow, expect));
    assert_eq!(outcome.flows[0].copies.len(), 2);
    assert!(outcome.expectations[0].met, "{:?}", outcome.expectations);
}

#[test]
fn the_last_of_counted_requests_is_an_answer_too() {
    let outcome = outcome(&over(
        "1 Gbit/s",
        r#"kind = "request", size = "1 kB", requests = 5"#,
        "",
    ));
    let counts = &outcome.flows[0].counts;
    assert!(counts.contains(&("answers", 5)), "{counts:?}");
    // No ACK of a last segment waits for another segment.
    let longest = outcome.flows[0]
        .delays
        .as_ref()
        .expect("response times")
        .longest();
    assert!(longest < Duration::from_millis(103), "{longest}");
}

#[test]
fn video_below_the_lowest_bitrate_stalls_for_the_part_that_is_missing() {
    // Segments of 1 s and of 1 Mbit take 2 s each: half of the time it stands still, and what is
    // judged in a window is what happened there.
    let flow = r#"kind = "video", ladder = "1 Mbit/s, 4 Mbit/s", segment = "1 s""#;
    let expect = r#"
        { flow = "client", metric = "stalled", within = ["7.5 s", "9.5 s"] },
        { flow = "client", metric = "stalled", from = "10 s", within = ["4 s", "5.5 s"] },
        { flow = "client", metric = "stalls", within = [7, 9] },
        { flow = "client", metric = "startup", within = ["2 s", "2.5 s"] },
        { flow = "client", metric = "switches", at_most = 0 },
        { flow = "client", metric = "bitrate", within = ["1 Mbit/s", "1 Mbit/s"] }"#;
    let outcome = outcome(&over("520 kbit/s", flow, expect));
    assert_eq!(outcome.missed(), 0, "{:#?}", outcome.expectations);
    let played = outcome.flows[0].playback.expect("a video");
    assert_eq!(played.bitrate(), Bandwidth::mbit(1));
}

#[test]
fn video_that_never_plays_has_no_good_start() {
    let flow = r#"kind = "video", ladder = "1 Mbit/s", segment = "10 s""#;
    let expect = r#"{ flow = "client", metric = "startup", at_most = "5 s" }"#;
    let outcome = outcome(&over("100 kbit/s", flow, expect));
    assert_eq!(
        (outcome.missed(), outcome.expectations[0].value),
        (1, 20_000_000_000)
    );
}

#[test]
fn what_contradicts_itself_is_refused_where_it_stands() {
    let video = r#"kind = "video", ladder = "1 Mbit/s, 4 Mbit/s""#;
    let web = r#"kind = "web", main = "1 kB", objects = 6, object = "1 kB""#;
    let stalls = r#"{ flow = "client", metric = "stalls", at_most = 0 }"#;
    for (flow, expect, said) in [
        (
            r#"kind = "video", ladder = "4 Mbit/s, 1 Mbit/s""#,
            "",
            "expected ascending rates",
        ),
        (&format!(r#"{video}, buffer = "6 s""#), "", "the buffer must hold"),
        (
            &format!(r#"{video}, buffer = "8 s", startup = "5 s""#),
            "",
            "the buffer must hold",
        ),
        (
            &format!(r#"{video}, adaptation = "rate", cushion = "5 s""#),
            "",
            "`cushion` belongs to",
        ),
        (&format!(r#"{video}, stop = "5 s""#), "", "`stop` does not apply"),
        (&format!(r#"{web}, connections = 0"#), "", "from 1 to 256"),
        (
            &format!(r#"{web}, connections = 2, multiplexed = true"#),
            "",
            "does not apply with",
        ),
        (
            &format!(r#"{web}, count = 500000"#),
            "",
            "more than 1000000 connections together",
        ),
        (web, stalls, "it plays no video"),
        (
            video,
            &stalls.replace("stalls", "delay-p50"),
            "its receiver does not measure it",
        ),
    ] {
        let mistakes = mistakes(&over("1 Mbit/s", flow, expect));
        assert!(mistakes.contains(said), "{flow}: {mistakes}");
    }
}
