//! What the addresses answer, as an OpenAPI document (3.1): made of the types that are answered, so
//! that programs and their generators know every field, its unit and its meaning.

use crate::addresses::{EVENTS, HISTORY, HTML, JSON, LISTEN, METRICS, OPENAPI, PAGE, STATUS};
use crate::live::StateView;
use crate::metrics;
use control::protocol::Reply;
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
            "description": "A running suimon, read only. Nothing that is asked here changes anything. A client skips fields that it does not know, since later versions may add some.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": format!("http://{LISTEN}"), "description": "`suimon web`, unless it is told another address" }],
        "paths": paths,
        "components": {
            "responses": {
                "ByName": refused("The request names a host other than an address or `localhost`"),
                "Nobody": refused("No suimon runs, or it refuses: why"),
            },
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
