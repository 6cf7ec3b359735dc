//! What the addresses answer, as an OpenAPI document (3.1): made of the types that are answered, so
//! that programs and their generators know every field, its unit and its meaning.

use crate::addresses::{
    EVENTS, HISTORY, HTML, JSON, LISTEN, METRICS, OPENAPI, PAGE, ROLLBACK, RollbackRequest, STATUS, WHAT_IF,
};
use crate::live::StateView;
use crate::metrics;
use crate::what_if::{WhatIfReport, WhatIfRequest};
use control::protocol::Reply;
use schemars::JsonSchema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Value, json};

/// The document.
pub fn document() -> Value {
    let mut settings = SchemaSettings::draft2020_12().for_serialize();
    settings.definitions_path = "/components/schemas".into();
    let mut types = settings.into_generator();
    let paths = json!({
        STATUS: asked("status", "The state of every interface and class, with totals since the start",
            JSON, reply(&mut types, "status")),
        HISTORY: asked("history", "What was in force, change by change, with who asked for it and why",
            JSON, reply(&mut types, "history")),
        METRICS: asked("metrics", "The counters, for Prometheus", metrics::CONTENT_TYPE, text()),
        WHAT_IF: tried(&mut types),
        ROLLBACK: undone(reply(&mut types, "done")),
        EVENTS: answered("events",
            "Twice a second the state in brief: each event's `data` is a `LiveState` in JSON; a stream without end",
            "text/event-stream", text()),
        OPENAPI: answered("openapi", "This document", JSON, json!({ "type": "object" })),
        PAGE: answered("page", "The page, human-readable", HTML, text()),
    });
    let _ = types.subschema_for::<StateView<'_>>();
    let refused = |why: &str| json!({ "description": why, "content": { "text/plain; charset=utf-8": { "schema": text() } } });
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Suimon",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A running suimon. Nothing that is asked here changes anything, but for `/api/rollback`, which is off unless `suimon web --undo` was started. A client skips fields that it does not know, since later versions may add some.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": format!("http://{LISTEN}"), "description": "`suimon web`, unless it is told another address" }],
        "paths": paths,
        "components": {
            "responses": {
                "ByName": refused("The request names a host other than an address or `localhost`, or asks for a change where none is allowed"),
                "Untried": refused("It cannot be tried, or is no question: why"),
                "Unknown": refused("The token is missing, or another"),
                "Refused": refused("The running program refuses: why; nothing was changed"),
                "Busy": refused("Another is simulated now: ask again"),
                "Type": refused("The question does not come as `application/json`"),
                "Nobody": refused("No suimon runs, or it refuses: why"),
            },
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": types.take_definitions(true),
        },
    })
}

fn text() -> Value {
    json!({ "type": "string" })
}

/// A reply of the control socket.
fn reply(types: &mut SchemaGenerator, word: &str) -> Value {
    let all = types.subschema_for::<Reply>();
    json!({ "allOf": [all, { "properties": { "reply": { "const": word } } }] })
}

/// What is tried in the simulator.
fn tried(types: &mut SchemaGenerator) -> Value {
    let summary = "What each class would have with another setting: the policy in force with and without it, \
                   simulated under the traffic of the second after the question; nothing is changed";
    let answer = json!(types.subschema_for::<WhatIfReport>());
    let refused = [("400", "Untried"), ("415", "Type"), ("429", "Busy")];
    posted::<WhatIfRequest>(asked("what_if", summary, JSON, answer), &refused)
}

/// What changes something.
fn undone(answer: Value) -> Value {
    let summary = "Puts another generation back into force, or undoes the last change; only where `suimon web --undo` \
                   was started, for one who knows the token that it told then";
    let refused = [("400", "Untried"), ("401", "Unknown"), ("409", "Refused")];
    let mut path = posted::<RollbackRequest>(asked("rollback", summary, JSON, answer), &refused);
    path["post"]["security"] = json!([{ "token": [] }]);
    path
}

/// The same path for a question that is sent, and may be refused so.
fn posted<Q: JsonSchema>(mut path: Value, refused: &[(&str, &str)]) -> Value {
    let mut post = path["get"].take();
    // A client may leave out what has a default.
    let mut question = SchemaSettings::draft2020_12().for_deserialize();
    question.inline_subschemas = true;
    let question = question.into_generator().into_root_schema_for::<Q>();
    post["requestBody"] = json!({ "required": true, "content": { JSON: { "schema": question } } });
    for (status, name) in refused {
        post["responses"][*status] = json!({ "$ref": format!("#/components/responses/{name}") });
    }
    json!({ "post": post })
}

/// An address that is answered by this process.
fn answered(id: &str, summary: &str, kind: &str, schema: Value) -> Value {
    json!({ "get": {
        "operationId": id,
        "summary": summary,
        "responses": {
            "200": { "description": summary, "content": { kind: { "schema": schema } } },
            "403": { "$ref": "#/components/responses/ByName" },
        },
    }})
}

/// One for which the running suimon is asked.
fn asked(id: &str, summary: &str, kind: &str, schema: Value) -> Value {
    let mut path = answered(id, summary, kind, schema);
    path["get"]["responses"]["503"] = json!({ "$ref": "#/components/responses/Nobody" });
    path
}
