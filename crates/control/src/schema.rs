//! A JSON Schema (draft 2020-12) of the policy file, from the same declarations as the reader and
//! the documentation: for editors, which complete keys, show their meaning and mark mistakes while
//! a policy is written.
//!
//! A schema is weaker than the reader: what depends on other values, such as sums of rates, names
//! of classes and limits that follow from the link, only `suimon check` knows. So it accepts every
//! policy that `check` accepts, and more.
//!
//! And one of the control socket, from the types by which the program and its clients write and
//! read.

use crate::autorate::{AutorateSettings, TARGETS};
use crate::expectations::WatchSettings;
use crate::filters::{FilterSettings, LISTS};
use crate::policy::{InterfaceSettings, SendsSettings};
use crate::port_config::PortSettings;
use crate::protocol::{Reply, Request};
use crate::quota::{QuotaSettings, THEN};
use crate::rsvp_config::{AcceptSettings, RsvpSettings};
use crate::yields::YieldsSettings;
use engine::kind::{Children, Kind};
use engine::port_kind::PortKind;
use engine::reserved::ReserveSettings;
use engine::settings::{Fallback, Raw, Setting};
use engine::tree::Registry;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// The schema of policies that name these kinds of disciplines and of ports.
pub fn policy(registry: &Registry, ports: &[&'static PortKind]) -> Value {
    let mut definitions = Map::new();
    definitions.insert("port".into(), port(ports));
    definitions.insert("interface".into(), interface(registry));
    definitions.insert("discipline".into(), discipline(registry));
    for kind in registry.kinds() {
        definitions.insert(format!("discipline-{}", kind.name), of_kind(kind));
        if matches!(kind.children, Children::Classes { .. }) {
            definitions.insert(format!("class-{}", kind.name), class(kind));
        }
    }
    definitions.insert("filter".into(), filter());
    definitions.insert("rsvp".into(), rsvp());
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Suimon policy",
        "description": "What may leave by which interface, and in which order. `suimon check FILE` knows more mistakes than this schema.",
        "type": "object",
        "properties": {
            "version": { "const": 1, "description": "The version of the format" },
            "port": { "$ref": "#/$defs/port" },
            "interface": {
                "type": "object",
                "description": "What may leave by it, for each interface; `NAME:in` is what is received there",
                "minProperties": 1,
                "additionalProperties": { "$ref": "#/$defs/interface" },
            },
            "rsvp": { "$ref": "#/$defs/rsvp" },
        },
        "required": ["version", "interface"],
        "additionalProperties": false,
        "$defs": definitions,
    })
}

/// The schema of a line of the control socket: `#/$defs/Request` is what a client may send, and
/// `#/$defs/Reply` what it gets. Of a reply the fields that are always there are required; a client
/// skips those that it does not know, since later versions may add some.
pub fn socket() -> Value {
    let mut requests = SchemaSettings::draft2020_12().for_deserialize().into_generator();
    let mut replies = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let lines = json!([
        requests.subschema_for::<Request>(),
        replies.subschema_for::<Reply>()
    ]);
    let mut definitions = replies.take_definitions(true);
    definitions.extend(requests.take_definitions(true));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Suimon control socket",
        "description": "A line in either direction: a request, or a reply. docs/socket.md tells which belong together.",
        "anyOf": lines,
        "$defs": definitions,
    })
}

/// A table with these settings and further keys, and no others.
fn table(settings: &[Setting], further: &[(&str, Value)]) -> Value {
    let required = settings.iter().filter(|s| s.default == Fallback::Required);
    let required: Vec<&str> = required.map(|setting| setting.name).collect();
    let declared = settings
        .iter()
        .map(|setting| (setting.name.to_string(), value(setting)));
    let further = further
        .iter()
        .map(|(name, value)| ((*name).into(), value.clone()));
    let properties: Map<String, Value> = declared.chain(further).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

/// A filter: some of its settings may be lists.
fn filter() -> Value {
    let mut schema = table(FilterSettings::SETTINGS, &[]);
    for key in LISTS {
        let one = schema["properties"][key].take();
        let mut form = one.clone();
        form.as_object_mut().map(|form| form.remove("description"));
        let list = json!({ "type": "array", "items": form, "minItems": 1 });
        schema["properties"][key] = json!({ "description": one["description"], "anyOf": [form, list] });
    }
    schema
}

/// The values of a setting: their types are those that its reader takes, and so are the bounds of
/// numbers; texts are its choices, or match its pattern.
fn value(setting: &Setting) -> Value {
    let quoted: Vec<&str> = setting.unit.split('"').skip(1).step_by(2).collect();
    let mut forms = Vec::new();
    if setting.unit.starts_with("one of ") {
        forms.push(json!({ "enum": quoted }));
    } else {
        let text = |text: &str| (setting.accepts)(&Raw::Text(text.into())).is_ok();
        let examples: Vec<&str> = quoted.iter().copied().filter(|example| text(example)).collect();
        if !examples.is_empty() || text("x") {
            let mut form = json!({ "type": "string" });
            if let Some(pattern) = (setting.pattern)() {
                form["pattern"] = pattern.into();
            }
            if !examples.is_empty() {
                form["examples"] = examples.into();
            }
            forms.push(form);
        }
    }
    if (setting.accepts)(&Raw::Boolean(true)).is_ok() {
        forms.push(json!({ "type": "boolean" }));
    }
    forms.extend(integers(setting));
    let mut schema = match forms.len() {
        1 => forms.remove(0),
        _ => json!({ "anyOf": forms }),
    };
    let help = [setting.help, setting.effect].map(|text| text.trim_end_matches('.'));
    let unit = format!("{}.", setting.unit);
    let help = help.into_iter().filter(|text| !text.is_empty());
    let said: Vec<String> = help.map(|text| format!("{text}.")).chain([unit]).collect();
    let mut description = said.join("\n");
    match setting.default {
        Fallback::Required => {}
        Fallback::Derived(what) => description += &format!("\nIf not given: {what}."),
        Fallback::Value(text) => schema["default"] = default(setting, text),
    }
    schema["description"] = description.into();
    schema
}

/// The default as a policy would write it.
fn default(setting: &Setting, text: &str) -> Value {
    let accepts = |raw: &Raw| (setting.accepts)(raw).is_ok();
    let boolean = text.parse().ok().filter(|is| accepts(&Raw::Boolean(*is)));
    let integer = text.parse().ok().filter(|n| accepts(&Raw::Integer(*n)));
    match (boolean, integer) {
        (Some(is), _) => is.into(),
        (_, Some(number)) => number.into(),
        _ => text.into(),
    }
}

/// The whole numbers that the reader takes: from one that it takes, the bounds by bisection.
fn integers(setting: &Setting) -> Option<Value> {
    let accepts = |n: i64| (setting.accepts)(&Raw::Integer(n)).is_ok();
    let inside = [1, 64, 1024].into_iter().find(|n| accepts(*n))?;
    let bound = |outside: i64| {
        let (mut good, mut bad) = (inside, outside);
        while good.abs_diff(bad) > 1 {
            let middle = good.midpoint(bad);
            *(if accepts(middle) { &mut good } else { &mut bad }) = middle;
        }
        good
    };
    Some(json!({ "type": "integer", "minimum": bound(-1), "maximum": bound(i64::MAX) }))
}

fn names(description: &str) -> Value {
    json!({
        "description": description,
        "type": "array", "items": { "type": "string" }, "minItems": 1,
    })
}

fn one_or_more(description: &str) -> Value {
    json!({
        "description": description,
        "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" }, "minItems": 1 }],
    })
}

fn port(ports: &[&'static PortKind]) -> Value {
    let mut between = names("A bump in the wire: what enters by one of two interfaces leaves by the other");
    between["minItems"] = 2.into();
    between["maxItems"] = 2.into();
    let file = |what: &str| json!({ "type": "string", "description": what });
    let mut further = vec![
        ("between", between),
        (
            "egress",
            one_or_more("What this host sends on the interface, or on each of several"),
        ),
        (
            "ingress",
            one_or_more(
                "What this host receives on the interface, or on each of several; it is managed as `NAME:in`",
            ),
        ),
        ("read", file("A file of packets to play")),
        ("write", file("The file to record into")),
    ];
    let own = ports.iter().flat_map(|kind| kind.settings);
    further.extend(own.map(|setting| (setting.name, value(setting))));
    let mut schema = table(PortSettings::SETTINGS, &further);
    if !ports.is_empty() {
        let kinds: Vec<&str> = ports.iter().map(|kind| kind.name).collect();
        schema["properties"]["kind"]["enum"] = kinds.into();
    }
    schema["description"] = "Where packets come from".into();
    schema
}

fn interface(registry: &Registry) -> Value {
    let classful = registry
        .kinds()
        .filter(|kind| matches!(kind.children, Children::Classes { .. }));
    let classful: Vec<&str> = classful.map(|kind| kind.name).collect();
    let class = |name: &str| json!({ "$ref": format!("#/$defs/class-{name}") });
    let any: Vec<Value> = classful.iter().map(|name| class(name)).collect();
    let list = |description: &str, items: &Value| json!({ "type": "array", "description": description, "items": items });
    let filter = json!({ "$ref": "#/$defs/filter" });
    let bounds = json!({ "type": "array", "minItems": 2, "maxItems": 2, "description": "The lower and the upper bound" });
    let expect = table(WatchSettings::SETTINGS, &[("within", bounds)]);
    let mut reserve = table(ReserveSettings::SETTINGS, &[]);
    reserve["description"] = "What RSVP may reserve of it".into();
    let mut autorate = table(
        AutorateSettings::SETTINGS,
        &[(
            TARGETS,
            names(
                "Hosts on the other side of the line that answer pings: the first, or the next one that does",
            ),
        )],
    );
    autorate["description"] = "Its rate follows a line that varies".into();
    autorate["required"] = json!([TARGETS]);
    let mut schema = table(
        InterfaceSettings::SETTINGS,
        &[
            ("discipline", json!({ "$ref": "#/$defs/discipline" })),
            ("class", list("Its classes", &json!({ "anyOf": any }))),
            ("filter", list("Which packets go into which class", &filter)),
            ("reserve", reserve),
            ("autorate", autorate),
            (
                "expect",
                list("What it is expected to keep while it runs", &expect),
            ),
        ],
    );
    // With the kind named right here, the classes are those of this kind alone.
    let of_kind = classful.iter().map(|name| {
        let is = json!({ "anyOf": [
            { "const": name },
            { "type": "object", "properties": { "kind": { "const": name } }, "required": ["kind"] },
        ]});
        json!({
            "if": { "properties": { "discipline": is }, "required": ["discipline"] },
            "then": { "properties": { "class": { "items": class(name) } } },
        })
    });
    schema["allOf"] = of_kind.collect::<Vec<_>>().into();
    schema
}

fn discipline(registry: &Registry) -> Value {
    let names: Vec<&str> = registry.kinds().map(|kind| kind.name).collect();
    let tables = names
        .iter()
        .map(|name| json!({ "$ref": format!("#/$defs/discipline-{name}") }));
    let one: Vec<Value> = std::iter::once(json!({ "enum": names })).chain(tables).collect();
    json!({ "description": "A kind by its name, or a table with `kind` and its settings", "anyOf": one })
}

fn of_kind(kind: &Kind) -> Value {
    let below = json!({ "$ref": "#/$defs/discipline" });
    let mut further = vec![("kind", json!({ "const": kind.name, "description": kind.summary }))];
    match kind.children {
        Children::None => {}
        Children::One => further.push(("child", below)),
        Children::Classes { .. } => {
            let items = json!({ "$ref": format!("#/$defs/class-{}", kind.name) });
            further.push((
                "class",
                json!({ "type": "array", "description": "Its classes", "items": items }),
            ));
        }
    }
    for (key, _) in kind.properties.former {
        let of_the_link = "A fact of the link, which the interface says; still read for one release";
        further.push((key, json!({ "deprecated": true, "description": of_the_link })));
    }
    let mut schema = table(kind.settings, &further);
    schema["description"] = format!("{}. Follows {}", kind.summary, kind.reference).into();
    if let Some(required) = schema["required"].as_array_mut() {
        required.push("kind".into());
    }
    schema
}

fn class(kind: &Kind) -> Value {
    let text = |description: &str| json!({ "type": "string", "description": description });
    let mut sends = table(SendsSettings::SETTINGS, &[]);
    sends["description"] =
        "What its senders promise: `suimon check` computes the longest wait from it".into();
    let mut yields = table(YieldsSettings::SETTINGS, &[]);
    yields["description"] = "Its TCP downloads give way to other traffic".into();
    // None of them has to be there.
    let mut then = table(kind.class_settings, &[]);
    then["required"] = json!([]);
    then["description"] = "Its settings once the volume is used up, until the time is over".into();
    let mut quota = table(QuotaSettings::SETTINGS, &[(THEN, then)]);
    quota["description"] = "How much it may carry in a day, a week or a month".into();
    let name = json!({
        "type": "string", "minLength": 1, "maxLength": 64, "pattern": r"^\S+$", "description": "Unique in the interface",
    });
    let mut further = vec![
        ("name", name),
        (
            "default",
            json!({ "type": "boolean", "description": "true in exactly one leaf: it takes what no filter takes" }),
        ),
        ("discipline", json!({ "$ref": "#/$defs/discipline" })),
        ("sends", sends),
        ("yields", yields),
        ("quota", quota),
    ];
    if kind.children == (Children::Classes { nested: true }) {
        further.push((
            "parent",
            text("The class above it; without, it stands below the link itself"),
        ));
    }
    let mut schema = table(kind.class_settings, &further);
    if let Some(required) = schema["required"].as_array_mut() {
        required.push("name".into());
    }
    schema
}

fn rsvp() -> Value {
    let mut accept = table(AcceptSettings::SETTINGS, &[]);
    accept["description"] = "A rule of the receiver proxy; the first that covers a Path decides".into();
    let mut schema = table(
        RsvpSettings::SETTINGS,
        &[
            ("interfaces", names("Those towards hosts and other routers")),
            (
                "unprotected",
                json!({
                    "type": "array", "items": { "type": "string" },
                    "description": "Addresses of neighbours whose messages need no INTEGRITY",
                }),
            ),
            ("accept", json!({ "type": "array", "items": accept })),
        ],
    );
    schema["description"] = "Where RSVP is spoken".into();
    if let Some(required) = schema["required"].as_array_mut() {
        required.push("interfaces".into());
    }
    schema
}
