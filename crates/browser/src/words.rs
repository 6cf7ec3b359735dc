//! What can be written where, for completion: the sections of a scenario with their keys, and the
//! values that keys choose from. All of it is from the declarations that the readers use.

use control::autorate::AutorateSettings;
use control::filters::FilterSettings;
use control::policy::InterfaceSettings;
use control::quota::QuotaSettings;
use control::yields::YieldsSettings;
use engine::kind::Kind;
use engine::settings::{Fallback, Setting};
use engine::tree::Registry;
use scenario::language::{
    ChangeSettings, ExpectSettings, FailureSettings, FlowSettings, HostSettings, LinkChangeSettings,
    LinkSettings, MediumSettings, ReservationSettings, ScenarioSettings, SignallingSettings,
};
use scenario::sources;
use serde_json::{Map, Value, json};

/// The sections, by the last word of their headers that is not a name; the text before the first
/// header is ``. Below each, its keys.
pub fn all(registry: &Registry) -> Value {
    let kinds: Vec<&Kind> = registry.kinds().collect();
    let disciplines = kinds.iter().flat_map(|kind| kind.settings);
    let classes = kinds.iter().map(|kind| kind.class_settings);
    let flows = sources::setting_groups()
        .into_iter()
        .map(|(_, settings)| settings);
    let sections = [
        ("", vec![ScenarioSettings::SETTINGS]),
        ("host", vec![HostSettings::SETTINGS]),
        ("link", vec![LinkSettings::SETTINGS]),
        ("back", vec![LinkSettings::SETTINGS]),
        (
            "flow",
            std::iter::once(FlowSettings::SETTINGS).chain(flows).collect(),
        ),
        (
            "change",
            vec![ChangeSettings::SETTINGS, LinkChangeSettings::SETTINGS],
        ),
        ("medium", vec![MediumSettings::SETTINGS]),
        ("failure", vec![FailureSettings::SETTINGS]),
        ("expect", vec![ExpectSettings::SETTINGS]),
        ("rsvp", vec![SignallingSettings::SETTINGS]),
        ("reserve", vec![ReservationSettings::SETTINGS]),
        ("policy", vec![InterfaceSettings::SETTINGS]),
        ("autorate", vec![AutorateSettings::SETTINGS]),
        ("yields", vec![YieldsSettings::SETTINGS]),
        ("quota", vec![QuotaSettings::SETTINGS]),
        ("filter", vec![FilterSettings::SETTINGS]),
        ("class", classes.collect()),
        ("discipline", vec![]),
    ];
    let mut all: Map<String, Value> = sections
        .into_iter()
        .map(|(name, groups)| (name.to_owned(), keys(groups.into_iter().flatten())))
        .collect();
    all["discipline"] = keys(disciplines);
    for (section, more) in MORE {
        let own = all.get_mut(*section).and_then(Value::as_object_mut);
        let more = more
            .iter()
            .map(|(name, help)| ((*name).to_owned(), json!({ "help": help })));
        own.into_iter().for_each(|own| own.extend(more.clone()));
    }
    let named = |names: Vec<(&str, &str)>| -> Map<String, Value> {
        names
            .into_iter()
            .map(|(name, help)| (name.to_owned(), json!({ "help": help })))
            .collect()
    };
    let of_kinds = kinds.iter().map(|kind| (kind.name, kind.summary)).collect();
    let of_sources = sources::KINDS
        .iter()
        .map(|kind| (kind.name, kind.summary))
        .collect();
    json!({
        "sections": all,
        "values": {
            "discipline": named(of_kinds),
            "flow.kind": named(of_sources),
        },
    })
}

/// Keys that no table of settings declares, since they hold sections or are read apart.
const MORE: &[(&str, &[(&str, &str)])] = &[
    ("", &[("version", "The version of the format: 1")]),
    (
        "policy",
        &[
            ("discipline", "The discipline, or `{ kind = …, … }`"),
            ("class", "The classes, each `{ name = …, … }`"),
            ("filter", "Which packets belong to which class"),
        ],
    ),
    (
        "class",
        &[
            ("name", "Its name"),
            ("discipline", "What orders its packets"),
            ("class", "The classes below it"),
            ("default", "Whether packets of no filter belong to it"),
        ],
    ),
    ("discipline", &[("kind", "Which discipline")]),
];

fn keys<'a>(settings: impl Iterator<Item = &'a Setting>) -> Value {
    let one = |setting: &Setting| {
        let default = match setting.default {
            Fallback::Required => "must be given".to_owned(),
            Fallback::Value(value) => format!("default {value}"),
            Fallback::Derived(how) => format!("default: {how}"),
        };
        let value = json!({ "help": setting.help, "unit": setting.unit, "default": default });
        (setting.name.to_owned(), value)
    };
    Value::Object(settings.map(one).collect())
}
