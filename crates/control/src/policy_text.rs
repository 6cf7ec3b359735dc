//! A policy's text with other settings: comments, order and spacing stay as they were written.

use crate::policy::InterfaceSettings;
use crate::protocol::{SettingChange, SettingChanges};
use toml_edit::{DocumentMut, InlineTable, Item, TableLike, Value};

/// The text with these settings.
///
/// # Errors
///
/// Returns why it cannot be written so: the text is not TOML, or has no such interface or class.
pub fn with<'a>(text: &str, changes: impl IntoIterator<Item = &'a SettingChanges>) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|error| format!("{error}"))?;
    for change in changes {
        let interface = document
            .get_mut("interface")
            .and_then(|all| all.get_mut(&change.interface))
            .and_then(Item::as_table_like_mut);
        let interface = interface.ok_or_else(|| format!("it does not manage {}", change.interface))?;
        for (key, value) in &change.changes {
            let place = match &change.class {
                Some(class) => find_class(interface, class)
                    .ok_or_else(|| format!("{} has no class `{class}`", change.interface))?,
                None if is_of_interface(key) => &mut *interface,
                None => discipline(interface)
                    .ok_or_else(|| format!("{} names no discipline", change.interface))?,
            };
            put(place, key, value);
        }
    }
    Ok(document.to_string())
}

/// Whether this is a setting of an interface, and not of its discipline.
fn is_of_interface(key: &str) -> bool {
    InterfaceSettings::SETTINGS
        .iter()
        .any(|setting| setting.name == key)
}

/// Writes a setting where it stands, or at the end.
fn put(table: &mut dyn TableLike, key: &str, change: &SettingChange) {
    let mut value = match change {
        SettingChange::Boolean(b) => Value::from(*b),
        SettingChange::Integer(n) => Value::from(*n),
        SettingChange::Text(text) => Value::from(text.as_str()),
    };
    match table.get_mut(key).and_then(Item::as_value_mut) {
        Some(old) => {
            // What stands around it: a comment at the end of the line, for instance.
            *value.decor_mut() = old.decor().clone();
            *old = value;
        }
        None => {
            table.insert(key, Item::Value(value));
        }
    }
}

/// The interface's discipline as a table, which a bare name becomes.
fn discipline(interface: &mut dyn TableLike) -> Option<&mut dyn TableLike> {
    let item = interface.get_mut("discipline")?;
    if let Some(name) = item.as_value().and_then(Value::as_str) {
        let mut table = InlineTable::new();
        table.insert("kind", name.into());
        let mut table = Value::from(table);
        if let Some(old) = item.as_value() {
            *table.decor_mut() = old.decor().clone();
        }
        *item = Item::Value(table);
    }
    item.as_table_like_mut()
}

/// The class of this name: of the discipline here first, then of those below it.
fn find_class<'a>(table: &'a mut dyn TableLike, name: &str) -> Option<&'a mut dyn TableLike> {
    let own = classes(table).position(|class| is_named(class, name));
    if let Some(number) = own {
        return class_mut(table, number);
    }
    let inside = classes(table).position(|class| has_class(class, name));
    if let Some(number) = inside {
        return find_class(class_mut(table, number)?, name);
    }
    let below = BELOW.into_iter().find(|key| {
        let below = table.get(key).and_then(Item::as_table_like);
        below.is_some_and(|below| has_class(below, name))
    })?;
    find_class(table.get_mut(below)?.as_table_like_mut()?, name)
}

/// Where a table has another discipline.
const BELOW: [&str; 2] = ["discipline", "child"];

fn is_named(class: &dyn TableLike, name: &str) -> bool {
    class.get("name").and_then(Item::as_str) == Some(name)
}

fn has_class(table: &dyn TableLike, name: &str) -> bool {
    let own = classes(table).any(|class| is_named(class, name) || has_class(class, name));
    let below = || {
        BELOW
            .into_iter()
            .filter_map(|key| table.get(key)?.as_table_like())
    };
    own || below().any(|below| has_class(below, name))
}

/// The classes that a table declares itself, as `[[….class]]` or as a list.
fn classes(table: &dyn TableLike) -> impl Iterator<Item = &dyn TableLike> {
    let item = table.get("class");
    let sections = item.and_then(Item::as_array_of_tables).into_iter().flatten();
    let list = item.and_then(Item::as_array).into_iter().flatten();
    sections
        .map(|table| table as &dyn TableLike)
        .chain(list.filter_map(|value| Some(value.as_inline_table()? as &dyn TableLike)))
}

fn class_mut(table: &mut dyn TableLike, number: usize) -> Option<&mut dyn TableLike> {
    match table.get_mut("class")? {
        Item::ArrayOfTables(sections) => Some(sections.get_mut(number)?),
        item => Some(item.as_array_mut()?.get_mut(number)?.as_inline_table_mut()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(class: Option<&str>, key: &str, value: SettingChange) -> SettingChanges {
        SettingChanges {
            interface: "wan0".into(),
            class: class.map(str::to_owned),
            changes: [(key.to_owned(), value)].into(),
            until_ms: None,
            reason: None,
        }
    }

    const POLICY: &str = "version = 1 # the first

[interface.wan0]
bandwidth = \"20 Mbit/s\"   # what the line has
discipline = \"cbq\" # shares it

# The boss.
[[interface.wan0.class]]
name = \"calls\"
rate = \"2 Mbit/s\"

[[interface.wan0.class]]
name = \"rest\"
default = true
discipline = { kind = \"priq\", class = [{ name = \"web\", priority = 1 }] }
";

    #[test]
    fn a_setting_is_written_where_it_stands_and_all_else_stays() {
        let text = |value: &str| SettingChange::Text(value.into());
        let changes = [
            change(None, "bandwidth", text("18 Mbit/s")),
            change(None, "link_burst", SettingChange::Integer(2)),
            change(Some("calls"), "rate", text("3 Mbit/s")),
            change(Some("calls"), "borrow", SettingChange::Boolean(false)),
            change(Some("web"), "priority", SettingChange::Integer(7)),
        ];
        let expected = POLICY
            .replace("\"20 Mbit/s\"", "\"18 Mbit/s\"")
            .replace("\"cbq\"", "{ kind = \"cbq\", link_burst = 2 }")
            .replace("\"2 Mbit/s\"\n", "\"3 Mbit/s\"\nborrow = false\n")
            .replace("priority = 1", "priority = 7");
        assert_eq!(with(POLICY, &changes).as_deref(), Ok(&*expected));
    }

    #[test]
    fn what_is_not_there_is_refused_by_name() {
        let one = SettingChange::Integer(1);
        let class = change(Some("clals"), "rate", one.clone());
        assert_eq!(with(POLICY, [&class]), Err("wan0 has no class `clals`".into()));
        let interface = SettingChanges {
            interface: "lan0".into(),
            ..change(None, "bandwidth", one)
        };
        assert_eq!(with(POLICY, [&interface]), Err("it does not manage lan0".into()));
    }
}
