//! `suimon kinds`: lists the disciplines that a policy can name; with a name, describes one.
//! Everything comes from the declarations that also parse and check policies, so it is never out
//! of date.

use crate::commands::Context;
use crate::exit::{Exit, Failure};
use clap::{Args, ValueEnum};
use control::schema;
use engine::kind::{Children, Kind};
use engine::settings::{Fallback, Setting, Span, unknown};
use engine::tree::Registry;
use serde::Serialize;
use std::io::{self, Write};

/// List the disciplines that a policy can name; with a name, show its settings
#[derive(Debug, Args)]
pub struct Kinds {
    /// Show this one, with its settings
    name: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print a JSON Schema: of the policy file, for editors, or of the control socket; or what
    /// `suimon web` answers, as OpenAPI
    #[arg(
        long, value_enum, value_name = "OF", num_args = 0..=1, default_missing_value = "policy",
        conflicts_with_all = ["name", "json"]
    )]
    schema: Option<Described>,
}

/// What a schema describes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Described {
    /// A policy
    Policy,
    /// A line of the control socket
    Socket,
    /// The addresses of `suimon web`, as an OpenAPI document
    Http,
}

impl Kinds {
    /// Lists them.
    pub fn run(&self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let out = &mut *cx.out;
        let registry = cx.registry;
        if let Some(described) = self.schema {
            let schema = match described {
                Described::Policy => schema::policy(registry, &netio::ports::declared()),
                Described::Socket => schema::socket(),
                Described::Http => web::openapi::document(),
            };
            writeln!(out, "{schema:#}")?;
            return Ok(Exit::Done);
        }
        let kinds: Vec<&Kind> = match &self.name {
            Some(name) => vec![registry.find(name).ok_or_else(|| unregistered(registry, name))?],
            None => registry.kinds().collect(),
        };
        if self.json {
            let list: Vec<KindView> = kinds.iter().map(|kind| view(kind)).collect();
            let text = serde_json::to_string_pretty(&list).map_err(io::Error::from)?;
            writeln!(out, "{text}")?;
        } else if self.name.is_some() {
            kinds.iter().try_for_each(|kind| describe(out, kind))?;
        } else {
            for kind in kinds {
                writeln!(out, "{:<10} {}", kind.name, kind.summary)?;
            }
        }
        Ok(Exit::Done)
    }
}

fn unregistered(registry: &Registry, name: &str) -> Failure {
    let names = registry.kinds().map(|kind| kind.name);
    unknown("discipline", name, Span::default(), names).into()
}

fn describe(out: &mut dyn Write, kind: &Kind) -> io::Result<()> {
    writeln!(out, "{}: {}", kind.name, kind.summary)?;
    writeln!(out, "follows: {}", kind.reference)?;
    writeln!(out, "below it: {}", children(kind.children))?;
    for (title, settings) in [
        ("settings", kind.settings),
        ("settings of each class", kind.class_settings),
    ] {
        if !settings.is_empty() {
            writeln!(out, "\n{title}:")?;
        }
        for setting in settings {
            writeln!(
                out,
                "  {} ({}; {})",
                setting.name,
                setting.unit,
                fallback(setting)
            )?;
            for line in [setting.help, setting.effect, setting.source] {
                if !line.is_empty() {
                    writeln!(out, "      {line}")?;
                }
            }
        }
    }
    Ok(())
}

fn children(children: Children) -> &'static str {
    match children {
        Children::None => "nothing: it queues the packets itself",
        Children::One => "one discipline (`child`), by default `fifo`",
        Children::Classes { nested: true } => "classes, which may have classes",
        Children::Classes { nested: false } => "classes",
    }
}

fn fallback(setting: &Setting) -> String {
    match setting.default {
        Fallback::Required => "required".into(),
        Fallback::Value(text) => format!("default {text}"),
        Fallback::Derived(text) => format!("default: {text}"),
    }
}

/// The JSON form of a kind.
#[derive(Debug, Serialize)]
struct KindView {
    name: &'static str,
    summary: &'static str,
    reference: &'static str,
    children: &'static str,
    settings: Vec<SettingView>,
    class_settings: Vec<SettingView>,
}

/// The JSON form of a setting.
#[derive(Debug, Serialize)]
struct SettingView {
    name: &'static str,
    unit: &'static str,
    required: bool,
    default: Option<&'static str>,
    help: &'static str,
    effect: &'static str,
    source: &'static str,
}

fn view(kind: &Kind) -> KindView {
    let settings = |list: &[Setting]| -> Vec<SettingView> {
        let one = |s: &Setting| SettingView {
            name: s.name,
            unit: s.unit,
            required: s.default == Fallback::Required,
            default: match s.default {
                Fallback::Required => None,
                Fallback::Value(text) | Fallback::Derived(text) => Some(text),
            },
            help: s.help,
            effect: s.effect,
            source: s.source,
        };
        list.iter().map(one).collect()
    };
    KindView {
        name: kind.name,
        summary: kind.summary,
        reference: kind.reference,
        children: children(kind.children),
        settings: settings(kind.settings),
        class_settings: settings(kind.class_settings),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(name: Option<&str>, json: bool) -> Result<String, Failure> {
        let mut out = Vec::new();
        Kinds {
            name: name.map(Into::into),
            json,
            schema: None,
        }
        .run(&mut Context {
            registry: &Registry::builtin(),
            out: &mut out,
        })?;
        Ok(String::from_utf8(out).expect("text"))
    }

    #[test]
    fn every_kind_is_listed_and_described_with_all_its_settings() {
        let list = shown(None, false).expect("a list");
        for kind in Registry::builtin().kinds() {
            assert!(list.contains(kind.name), "{} is missing", kind.name);
            let page = shown(Some(kind.name), false).expect("a page");
            for setting in kind.settings.iter().chain(kind.class_settings) {
                assert!(
                    page.contains(setting.help),
                    "{}.{} is missing",
                    kind.name,
                    setting.name
                );
            }
        }
    }

    #[test]
    fn json_is_an_array_of_kinds_with_the_name_first() {
        let text = shown(None, true).expect("a list");
        let value: serde_json::Value = serde_json::from_str(&text).expect("json");
        let list = value.as_array().expect("an array");
        assert_eq!(list.len(), Registry::builtin().kinds().count());
        assert!(list.iter().any(|kind| kind["name"] == "fifo"));
        assert!(
            text.trim_start_matches(['[', '{', ' ', '\n'])
                .starts_with("\"name\""),
            "{text}"
        );
    }

    #[test]
    fn an_unknown_name_is_a_usage_error_that_names_the_nearest() {
        let failure = shown(Some("fito"), false).expect_err("no such kind");
        assert_eq!(failure.exit, Exit::Usage);
        assert!(
            failure.message.contains("did you mean `fifo`"),
            "{}",
            failure.message
        );
    }
}
