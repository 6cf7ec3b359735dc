//! What another rate would do, asked of `suimon web`: by a program, and by the slider of its page
//! in a real browser. The running suimon refuses every change, and what it has stays the same.

use super::openapi::parts;
use super::{Steady, Web, names, opened};
use serde_json::{Value, json};

/// Classes that have rates. Of the 2.72 Mbit/s that are sent, the first, second and so on send
/// 0.56, 0.64, 0.72 and 0.80.
const RATED: &str = r#"version = 1
[interface.wan0]
bandwidth = "20 Mbit/s"
discipline = "cbq"
[[interface.wan0.class]]
name = "site-0"
rate = "1 Mbit/s"
[[interface.wan0.class]]
name = "site-1"
rate = "2 Mbit/s"
[[interface.wan0.class]]
name = "site-2"
rate = "3 Mbit/s"
[[interface.wan0.class]]
name = "site-3"
rate = "4 Mbit/s"
default = true
"#;

/// The status, and the body.
fn ask(web: &Web, kind: &str, body: &str) -> (String, String) {
    let (status, _, body) = ask_as(web, "localhost", kind, body);
    (status, body)
}

/// Status, type and body of what is answered to one who comes by this name.
pub(super) fn ask_as(web: &Web, host: &str, kind: &str, body: &str) -> (String, String, String) {
    let kind = format!("Content-Type: {kind}\r\n");
    parts(&web.post("/api/what-if", host, &kind, body))
}

fn tried(web: &Web, question: &Value) -> (String, String) {
    ask(web, "application/json", &question.to_string())
}

fn report(web: &Web, question: &Value) -> Vec<Value> {
    let (status, text) = tried(web, question);
    assert_eq!(status, "200", "{text}");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    report["classes"].as_array().expect("classes").clone()
}

fn number(of: &Value, place: &str) -> u64 {
    let found = of.pointer(place).and_then(Value::as_u64);
    found.unwrap_or_else(|| panic!("no {place} in {of}"))
}

#[test]
fn half_the_bandwidth_that_is_needed_gives_half_the_rate_and_long_waits() {
    let web = Web::start("what-if", Steady::new(&names(4), true));
    let narrow = report(
        &web,
        &json!({ "interface": "wan0", "setting": "bandwidth", "value": "1360 kbit/s" }),
    );
    assert_eq!(narrow.len(), 4);
    let rates = |place: &str| narrow.iter().map(|of| number(of, place)).sum::<u64>();
    for (class, of) in narrow.iter().enumerate() {
        let offered = 80_000 * (7 + class as u64);
        assert_eq!(
            (of["class"].clone(), number(of, "/offered_bps")),
            (json!(format!("site-{class}")), offered)
        );
        assert_eq!(of["greedy"], false, "nothing is lost, nothing waits: {of}");
        // Packets come at random: so many of them differ by so much.
        let now = number(of, "/now/rate_bps");
        assert!(now.abs_diff(offered) < offered / 10, "{of}");
        assert!(number(of, "/now/p99_ns") < 5_000_000, "a link of 20 Mbit/s: {of}");
        assert!(number(of, "/then/p50_ns") > 4 * number(of, "/now/p99_ns"), "{of}");
    }
    let (now, then) = (rates("/now/rate_bps"), rates("/then/rate_bps"));
    assert!(now.abs_diff(2_720_000) < 140_000, "{now}");
    // The link is never idle, and not faster than it is.
    assert!((1_330_000..=1_361_000).contains(&then), "{then}");
    // And what is as it was, is as it was.
    let same = report(
        &web,
        &json!({ "interface": "wan0", "setting": "bandwidth", "value": "20 Mbit/s" }),
    );
    assert!(same.iter().all(|of| of["now"] == of["then"]), "{same:#?}");
}

#[test]
fn what_cannot_be_tried_is_refused_with_the_reason() {
    let web = Web::start("what-if-not", Steady::of(RATED.into(), true));
    let of = |class: &str, setting: &str, value: &str| json!({ "interface": "wan0", "class": class, "setting": setting, "value": value });
    for (question, why) in [
        (of("site-9", "rate", "1 Mbit/s"), "no class `site-9`"),
        (of("site-0", "raet", "1 Mbit/s"), "did you mean `rate`"),
        (of("site-0", "rate", "1 Mbit"), "Mbit/s"),
        // The sum of rates is more than the link has.
        (of("site-0", "rate", "15 Mbit/s"), "20 Mbit/s"),
        (
            json!({ "interface": "wan9", "setting": "bandwidth", "value": "1 Mbit/s" }),
            "wan9",
        ),
        (
            json!({ "interface": "wan0", "settnig": "bandwidth", "value": "1 Mbit/s" }),
            "settnig",
        ),
        (json!([]), "WhatIfRequest"),
    ] {
        let (status, said) = tried(&web, &question);
        assert_eq!(status, "400", "{question}: {said}");
        assert!(said.contains(why), "{question}: {said}");
    }
    // What any page may have a browser send.
    let good = of("site-0", "rate", "2 Mbit/s").to_string();
    assert_eq!(ask(&web, "text/plain", &good).0, "415");
    let long = format!("{good}{}", " ".repeat(5_000));
    assert_eq!(ask(&web, "application/json", &long).0, "413");
    assert_eq!(ask(&web, "application/json", &good).0, "200");
    let idle = Web::start("what-if-idle", Steady::of(RATED.into(), false));
    let (status, said) = ask(&idle, "application/json", &good);
    assert!(status == "400" && said.contains("no traffic"), "{status}: {said}");
}

/// One at a time, whoever asks.
#[test]
fn two_questions_at_once_are_one_answer() {
    let web = Web::start("what-if-busy", Steady::new(&names(4), true));
    let question = json!({ "interface": "wan0", "setting": "bandwidth", "value": "5 Mbit/s" });
    // Each takes the second in which it measures.
    let answers: Vec<String> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..4).map(|_| scope.spawn(|| tried(&web, &question).0)).collect();
        let answers = asked.into_iter().map(|answer| answer.join().expect("an answer"));
        answers.collect()
    });
    let count = |status: &str| answers.iter().filter(|answer| *answer == status).count();
    assert!(
        count("200") >= 1 && count("200") + count("429") == 4,
        "{answers:?}"
    );
    // And then there is room again.
    assert_eq!(tried(&web, &question).0, "200");
}

#[test]
fn a_browser_s_slider_shows_what_another_rate_would_do() {
    let web = Web::start("what-if-page", Steady::of(RATED.into(), true));
    let Some(mut browser) = opened(&web, (1200, 1000)) else {
        return;
    };
    let before = super::status(&web);
    browser.wait_for("document.querySelector('.badge').textContent");
    let _ = browser.evaluate("document.querySelector('.what-if').open = true");
    browser.wait_for("document.querySelectorAll('.what-if option').length === 5");
    let choices =
        browser.evaluate("[...document.querySelectorAll('.what-if option')].map(of => of.textContent)");
    assert_eq!(
        choices,
        json!(["wan0 as a whole", "site-0", "site-1", "site-2", "site-3"])
    );
    // As a person moves it: the label follows while it moves, the question is asked when it is let
    // go.
    let slide = |to: i8| {
        format!(
            "{{ const slider = document.querySelector('.what-if input'); slider.value = {to};
                slider.dispatchEvent(new Event('input')); slider.dispatchEvent(new Event('change'));
                document.querySelector('.what-if output').textContent }}"
        )
    };
    // A tenth of the link: less than is sent.
    assert_eq!(browser.evaluate(&slide(-20)), json!("2.00 Mbit/s"));
    browser.wait_for("document.querySelector('.what-if .said.bad')");
    let refused = browser.evaluate("document.querySelector('.what-if .said').textContent");
    assert!(
        refused.as_str().is_some_and(|why| why.contains("rates")),
        "10 Mbit/s of rates: {refused}"
    );
    // 10 Mbit/s of rates fit into 12.6.
    assert_eq!(browser.evaluate(&slide(-4)), json!("12.6 Mbit/s"));
    browser.wait_for("document.querySelectorAll('.what-if tbody tr').length === 4");
    let said = browser.evaluate("document.querySelector('.what-if .said').textContent");
    assert_eq!(
        said,
        json!("wan0: 20.0 Mbit/s → 12.6 Mbit/s; nothing live was changed")
    );
    let cell =
        |index: u8| format!("document.querySelectorAll('.what-if tbody tr')[1].cells[{index}].textContent");
    assert_eq!(browser.evaluate(&cell(0)), json!("site-1"));
    assert_eq!(browser.evaluate(&cell(1)), json!("640 kbit/s"));
    for rate in [2, 3] {
        let shown = browser.evaluate(&cell(rate));
        let kbit = shown.as_str().and_then(|shown| shown.strip_suffix(" kbit/s"));
        let kbit: u64 = kbit.and_then(|kbit| kbit.parse().ok()).expect("a rate");
        assert!(kbit.abs_diff(640) < 64, "{kbit}");
    }
    for delay in 4..8 {
        let shown = browser.evaluate(&cell(delay));
        assert!(
            shown.as_str().is_some_and(|shown| shown.ends_with("s")),
            "{shown}"
        );
    }
    // A class.
    let _ = browser.evaluate(
        "{ const choice = document.querySelector('.what-if select'); choice.value = 'site-1';
           choice.dispatchEvent(new Event('change')) }",
    );
    assert_eq!(browser.evaluate(&slide(-6)), json!("1.00 Mbit/s"));
    browser.wait_for("document.querySelector('.what-if .said').textContent.startsWith('site-1: 2.00 Mbit/s → 1.00 Mbit/s')");
    assert_eq!(
        browser.evaluate("document.querySelector('.what-if .changed').cells[0].textContent"),
        json!("site-1")
    );
    let after = super::status(&web);
    let settings = |status: &Value| -> Vec<Value> {
        let of = &status["interfaces"][0];
        let classes = of["classes"].as_array().expect("classes");
        let asked = classes.iter().map(|class| class["asked_bps"].clone());
        asked.chain([of["bandwidth_bps"].clone()]).collect()
    };
    assert_eq!(settings(&before), settings(&after));
}
