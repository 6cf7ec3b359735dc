//! Going back to another generation, by `suimon web --undo`: only who knows the token can.

use super::openapi::parts;
use super::{Steady, Web, names, opened};
use serde_json::{Value, json};

fn in_force(web: &Web) -> u64 {
    let history: Value = serde_json::from_str(&web.get("/api/history", "localhost").1).expect("JSON");
    let generations = history["generations"].as_array().expect("a list");
    let one = generations.iter().find(|of| of["in_force"] == true);
    one.and_then(|of| of["number"].as_u64()).expect("one is in force")
}

/// The status, and what is said.
fn roll_back(web: &Web, host: &str, token: &str, body: &str) -> (String, String) {
    let fields = format!("Authorization: Bearer {token}\r\n");
    let (status, _, said) = parts(&web.post("/api/rollback", host, &fields, body));
    (status, said)
}

#[test]
fn only_who_knows_the_token_goes_back() {
    let web = Web::start_with("undo", Steady::new(&names(1), false), &["--undo"]);
    let other = "0".repeat(32);
    for (host, token, body, expected) in [
        ("localhost", "", "{}", "401"),
        ("localhost", &other, r#"{"to":1}"#, "401"),
        // A page elsewhere that has guessed it.
        ("rebound.example", &web.token, r#"{"to":1}"#, "403"),
        ("localhost", &web.token, r#"{"too":1}"#, "400"),
        ("localhost", &web.token, r#"{"to":7}"#, "409"),
    ] {
        let (status, said) = roll_back(&web, host, token, body);
        assert_eq!(status, expected, "{body}: {said}");
        assert_eq!(in_force(&web), 2, "{body}");
    }
    let (status, said) = roll_back(&web, "localhost", &web.token, r#"{"to":1,"reason":"a test"}"#);
    assert!(
        status == "200" && said.contains("generation 1 again") && said.contains("a test"),
        "{said}"
    );
    assert_eq!(in_force(&web), 1);
}

#[test]
fn without_undo_nobody_can() {
    let web = Web::start("no-undo", Steady::new(&names(1), false));
    let (status, said) = roll_back(&web, "localhost", &"0".repeat(32), r#"{"to":1}"#);
    assert!(status == "403" && said.contains("--undo"), "{status}: {said}");
    assert_eq!(in_force(&web), 2);
}

/// As a person does it: the list is opened, a button pressed, and pressed again.
#[test]
fn a_browser_shows_generations_and_goes_back_after_a_second_press() {
    let open = "document.querySelector('#generations').open = true";
    let rows = "document.querySelectorAll('#generations tbody tr')";
    let web = Web::start_with("undo-page", Steady::new(&names(1), true), &["--undo"]);
    let Some(mut browser) = opened(&web, (1200, 1000)) else {
        return;
    };
    browser.wait_for("document.querySelector('.badge').textContent");
    // It is not left in the address, which others may see.
    assert_eq!(browser.evaluate("location.hash"), json!(""));
    let _ = browser.evaluate(open);
    browser.wait_for(&format!("{rows}.length === 2"));
    let cell = |row: u8, column: u8| format!("{rows}[{row}].cells[{column}].textContent");
    let shown =
        [(0, 0), (0, 2), (0, 3), (0, 4), (1, 4)].map(|(row, column)| browser.evaluate(&cell(row, column)));
    let expected = [
        json!("2"),
        json!("set, root"),
        json!("wan0: bandwidth: 10 Mbit/s → 20 Mbit/s"),
        json!("in force"),
        json!("back to this"),
    ];
    assert_eq!(shown, expected);
    let press = "document.querySelector('#generations button').click()";
    let _ = browser.evaluate(press);
    assert_eq!(browser.evaluate(&cell(1, 4)), json!("sure? back to 1"));
    assert_eq!(in_force(&web), 2, "one press is none");
    let _ = browser.evaluate(press);
    browser.wait_for(&format!("{} === 'in force'", cell(1, 4)));
    assert_eq!(in_force(&web), 1);
    browser
        .wait_for("document.querySelector('#generations .said').textContent.includes('generation 1 again')");

    let web = Web::start("undo-none", Steady::new(&names(1), true));
    let mut browser = opened(&web, (1200, 1000)).expect("there was one before");
    browser.wait_for("document.querySelector('.badge').textContent");
    let _ = browser.evaluate(open);
    browser.wait_for(&format!("{rows}.length === 2"));
    assert_eq!(
        browser.evaluate("document.querySelectorAll('#generations button').length"),
        json!(0)
    );
}
