//! Every answer of `suimon web` is one that its OpenAPI document describes: what the running
//! program answers, what it answers without one, and what it refuses.

use super::what_if::ask_as;
use super::{SUIMON, Steady, Web, names};
use jsonschema::Validator;
use serde_json::{Value, json};
use std::io::Read;
use std::process::Command;

/// Status, type, and body.
fn answer(web: &Web, path: &str, host: &str) -> (String, String, String) {
    let mut text = String::new();
    web.ask(path, host).read_to_string(&mut text).expect("an answer");
    parts(&text)
}

/// The same of an answer as it came.
pub(super) fn parts(text: &str) -> (String, String, String) {
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).expect("a status");
    let kind = head.lines().find_map(|line| line.strip_prefix("content-type: "));
    (status.into(), kind.expect("a type").into(), body.into())
}

/// What judges values by the schema at this place of the document.
fn judge(document: &Value, place: &str) -> Validator {
    let mut schema = document.clone();
    // A place is a reference; a media type may have a space in its name (RFC 3986, section 2.1).
    schema["$ref"] = format!("#{}", place.replace(' ', "%20")).into();
    jsonschema::draft202012::new(&schema).expect("a schema")
}

/// What the document says of an answer to a path: its type, and the place of its schema.
fn described(document: &Value, path: &str, status: &str) -> (String, String) {
    let method = if POSTED.contains(&path) { "post" } else { "get" };
    let path = path.replace('/', "~1");
    let mut place = format!("/paths/{path}/{method}/responses/{status}");
    if let Some(shared) = document.pointer(&format!("{place}/$ref")) {
        place = shared.as_str().expect("a place").trim_start_matches('#').into();
    }
    let content = document.pointer(&format!("{place}/content"));
    let content = content.and_then(Value::as_object);
    let content = content.unwrap_or_else(|| panic!("{path}: {status} is not described"));
    assert_eq!(content.len(), 1, "{path}");
    let (kind, _) = content.iter().next().expect("one");
    (
        kind.clone(),
        format!("{place}/content/{}/schema", kind.replace('/', "~1")),
    )
}

/// Asks, and holds the answer to the document. The answer's status.
fn holds(web: &Web, document: &Value, path: &str, host: &str) -> String {
    let answered = match path {
        WHAT_IF => ask_as(web, host, "application/json", QUESTION),
        ROLLBACK => parts(&web.post(path, host, "", "{}")),
        _ => answer(web, path, host),
    };
    held(document, path, &answered)
}

/// Holds an answer to the document. Its status.
fn held(document: &Value, path: &str, (status, kind, body): &(String, String, String)) -> String {
    let (expected, place) = described(document, path, status);
    assert_eq!(*kind, expected, "{path}: {status}");
    let value = match kind.as_str() {
        "application/json" => serde_json::from_str(body).expect("JSON"),
        _ => Value::from(body.as_str()),
    };
    let mistakes: Vec<String> = judge(document, &place)
        .iter_errors(&value)
        .map(|e| e.to_string())
        .collect();
    assert!(mistakes.is_empty(), "{path}: {mistakes:#?} in {value:#}");
    status.clone()
}

fn paths(document: &Value) -> Vec<String> {
    let paths = document["paths"].as_object().expect("paths");
    paths.keys().cloned().collect()
}

const EVENTS: &str = "/api/events";
const WHAT_IF: &str = "/api/what-if";
const ROLLBACK: &str = "/api/rollback";
const POSTED: [&str; 2] = [WHAT_IF, ROLLBACK];
const QUESTION: &str = r#"{"interface":"wan0","setting":"bandwidth","value":"5 Mbit/s"}"#;

#[test]
fn every_answer_is_as_the_openapi_document_says() {
    let web = Web::start("openapi", Steady::new(&names(3), true));
    let (_, _, text) = answer(&web, "/api/openapi.json", "localhost");
    let document: Value = serde_json::from_str(&text).expect("JSON");
    let printed = Command::new(SUIMON).args(["kinds", "--schema", "http"]).output();
    let printed = printed.expect("it runs").stdout;
    assert_eq!(serde_json::from_slice::<Value>(&printed).expect("JSON"), document);
    assert_eq!(paths(&document).len(), 8);
    for path in paths(&document) {
        assert_eq!(holds(&web, &document, &path, "rebound.example"), "403", "{path}");
        // The events have no end, and nobody may change anything here.
        if path != EVENTS && path != ROLLBACK {
            assert_eq!(holds(&web, &document, &path, "localhost"), "200", "{path}");
        }
    }
    for (kind, question, expected) in [
        ("application/json", "{}", "400"),
        (
            "application/json",
            &QUESTION.replace("bandwidth", "bandwitdh"),
            "400",
        ),
        ("text/plain", QUESTION, "415"),
    ] {
        let answered = ask_as(&web, "localhost", kind, question);
        assert_eq!(held(&document, WHAT_IF, &answered), expected, "{question}");
    }
    let undo = Web::start_with("openapi-undo", Steady::new(&names(1), false), &["--undo"]);
    for (token, body, expected) in [
        ("", "{}", "401"),
        (&*undo.token, "[", "400"),
        (&undo.token, r#"{"to":9}"#, "409"),
        (&undo.token, r#"{"to":1}"#, "200"),
    ] {
        let known = format!("Authorization: Bearer {token}\r\n");
        let answered = parts(&undo.post(ROLLBACK, "localhost", &known, body));
        assert_eq!(held(&document, ROLLBACK, &answered), expected, "{body}");
    }
    let state = judge(&document, "/components/schemas/LiveState");
    let told = web.state(|state| state["snapshot"].is_object());
    assert!(state.is_valid(&told), "{told:#}");
    std::fs::remove_file(&web.socket).expect("its socket");
    for path in ["/api/status", "/api/history", "/metrics", WHAT_IF] {
        assert_eq!(holds(&web, &document, path, "localhost"), "503", "{path}");
    }
}

#[test]
fn without_a_program_the_events_say_so_as_described() {
    let web = Web::start("openapi-none", Steady::new(&names(1), false));
    let document: Value = serde_json::from_str(&web.get("/api/openapi.json", "localhost").1).expect("JSON");
    let told = web.state(|_| true);
    let state = judge(&document, "/components/schemas/LiveState");
    assert!(state.is_valid(&told), "{told:#}");
    assert!(state.is_valid(&json!({ "error": "nobody" })));
    for wrong in [
        json!({ "error": 1 }),
        json!({}),
        json!({ "snapshot": { "policy": "p" } }),
        json!({ "snapshot": { "policy": "p", "interfaces": [{ "name": "wan0" }] } }),
    ] {
        assert!(!state.is_valid(&wrong), "{wrong}");
    }
}

/// The question that is described is the one that is read.
#[test]
fn the_question_what_if_is_as_the_openapi_document_says() {
    let web = Web::start("openapi-question", Steady::new(&names(1), true));
    let document: Value = serde_json::from_str(&web.get("/api/openapi.json", "localhost").1).expect("JSON");
    let place = "/paths/~1api~1what-if/post/requestBody/content/application~1json/schema";
    let question = judge(&document, place);
    let good: Value = serde_json::from_str(QUESTION).expect("JSON");
    assert!(question.is_valid(&good));
    for (key, value) in [
        ("class", json!(3)),
        ("settnig", json!("rate")),
        ("value", json!([])),
    ] {
        let mut wrong = good.clone();
        wrong[key] = value;
        assert!(!question.is_valid(&wrong), "{wrong}");
        let answered = ask_as(&web, "localhost", "application/json", &wrong.to_string());
        assert_eq!(answered.0, "400", "{wrong}: {}", answered.2);
    }
}

/// The document could say yes to anything.
#[test]
fn an_answer_that_lacks_a_field_or_is_another_is_not_as_described() {
    let web = Web::start("openapi-wrong", Steady::new(&names(2), false));
    let document: Value = serde_json::from_str(&web.get("/api/openapi.json", "localhost").1).expect("JSON");
    let of = |path: &str| -> (Validator, Value) {
        let (_, place) = described(&document, path, "200");
        let value = serde_json::from_str(&web.get(path, "localhost").1).expect("JSON");
        (judge(&document, &place), value)
    };
    let ((status, now), (history, generations)) = (of("/api/status"), of("/api/history"));
    assert!(status.is_valid(&now) && history.is_valid(&generations));
    assert!(!status.is_valid(&generations) && !history.is_valid(&now));
    for place in ["", "/interfaces/0", "/interfaces/0/frames"] {
        let fields = now.pointer(place).and_then(Value::as_object).expect("an object");
        for key in fields.keys() {
            let mut without = now.clone();
            let object = without.pointer_mut(place).and_then(Value::as_object_mut);
            object.expect("an object").remove(key);
            assert!(!status.is_valid(&without), "{place}/{key} may be absent");
        }
    }
}
