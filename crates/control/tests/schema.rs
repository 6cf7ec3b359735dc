//! What the schema of policies says of settings: types, bounds and defaults as their readers have
//! them.

use control::schema;
use engine::tree::Registry;
use serde_json::{Value, json};

fn policy() -> Value {
    schema::policy(&Registry::builtin(), &[])
}

#[test]
fn a_policy_has_a_version_and_interfaces_and_no_more_than_rsvp_and_a_port_beside() {
    let schema = policy();
    assert_eq!(schema["required"], json!(["version", "interface"]));
    let keys: Vec<_> = schema["properties"].as_object().expect("keys").keys().collect();
    assert_eq!(keys.len(), 4, "{keys:?}");
    assert_eq!(schema["additionalProperties"], false);
    let definitions = schema["$defs"].as_object().expect("definitions");
    for name in [
        "port",
        "interface",
        "discipline",
        "filter",
        "rsvp",
        "discipline-fifo",
        "class-drr",
    ] {
        assert!(definitions.contains_key(name), "{name}");
    }
    assert!(!definitions.contains_key("class-fifo"), "it has no classes");
}

#[test]
fn what_has_no_default_is_required() {
    let definitions = &policy()["$defs"];
    assert_eq!(definitions["interface"]["required"], json!(["bandwidth"]));
    assert_eq!(definitions["port"]["required"], json!([]));
    assert_eq!(definitions["filter"]["required"], json!(["class"]));
    assert_eq!(
        definitions["interface"]["properties"]["autorate"]["required"],
        json!(["targets"])
    );
}

#[test]
fn a_default_is_written_as_a_policy_would_write_it() {
    let definitions = &policy()["$defs"];
    let port = &definitions["port"]["properties"];
    assert_eq!(port["realtime"]["default"], true);
    assert_eq!(port["transmit_ring"]["default"], 64);
    assert_eq!(port["lateness"]["default"], "1 ms");
    assert_eq!(port["workers"]["default"], "auto");
    assert_eq!(port["kind"].get("default"), None, "it is derived");
    assert_eq!(port["realtime"]["type"], "boolean");
}

#[test]
fn whole_numbers_are_bounded_as_their_readers_bound_them() {
    let definitions = &policy()["$defs"];
    let ring = &definitions["port"]["properties"]["transmit_ring"];
    let bounds = |value: &Value| {
        (
            value["type"].clone(),
            value["minimum"].clone(),
            value["maximum"].clone(),
        )
    };
    let greatest = u64::from(u32::MAX);
    assert_eq!(bounds(ring), ("integer".into(), 0.into(), greatest.into()));
    let label = &definitions["filter"]["properties"]["flow_label"];
    assert_eq!(bounds(label), ("integer".into(), 0.into(), 1_048_575.into()));
}

#[test]
fn a_port_is_attached_between_two_or_to_some() {
    let definitions = &policy()["$defs"];
    let port = &definitions["port"]["properties"];
    let between = &port["between"];
    assert_eq!(between["type"], "array");
    assert_eq!(between["items"], json!({ "type": "string" }));
    assert_eq!(
        (&between["minItems"], &between["maxItems"]),
        (&json!(2), &json!(2))
    );
    for key in ["egress", "ingress", "read", "write"] {
        assert!(port.get(key).is_some(), "{key}");
    }
    assert_eq!(definitions["port"]["description"], "Where packets come from");
    let targets = &definitions["interface"]["properties"]["autorate"]["properties"]["targets"];
    assert_eq!(targets["minItems"], 1);
}

#[test]
fn a_discipline_is_a_name_or_a_table_of_its_kind() {
    let registry = Registry::builtin();
    let definitions = &policy()["$defs"];
    let forms = definitions["discipline"]["anyOf"].as_array().expect("forms");
    let names: Vec<_> = registry.kinds().map(|kind| kind.name).collect();
    assert_eq!(forms[0], json!({ "enum": names }));
    assert_eq!(forms.len(), names.len() + 1);
    assert_eq!(
        forms[1],
        json!({ "$ref": format!("#/$defs/discipline-{}", names[0]) })
    );
}
