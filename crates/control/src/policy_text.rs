//! A policy's text with other settings, and classes that came or went: comments, order and spacing
//! of the rest stay as they were written.

use crate::policy::InterfaceSettings;
use crate::protocol::{AddedClass, AddedQuota, Amendment, RemovedClass, SettingChange};
use std::collections::BTreeMap;
use toml_edit::{ArrayOfTables, DocumentMut, InlineTable, Item, Table, TableLike, Value};

/// The text with these changes, one after the other.
///
/// # Errors
///
/// Returns why it cannot be written so: the text is not TOML, or has no such interface or class.
pub fn with<'a>(text: &str, changes: impl IntoIterator<Item = &'a Amendment>) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|error| format!("{error}"))?;
    for change in changes {
        let interface = document
            .get_mut("interface")
            .and_then(|all| all.get_mut(change.interface()))
            .and_then(Item::as_table_like_mut);
        let interface = interface.ok_or_else(|| format!("it does not manage {}", change.interface()))?;
        match change {
            Amendment::Set(_) | Amendment::UsedUp(_) => put_settings(interface, change)?,
            Amendment::Added(added) => add(interface, added)?,
            Amendment::Removed(removed) => remove(interface, removed)?,
        }
    }
    Ok(document.to_string())
}

fn put_settings(interface: &mut dyn TableLike, change: &Amendment) -> Result<(), String> {
    let name = change.interface();
    for (key, value) in change.settings().into_iter().flatten() {
        let place = match change.class() {
            Some(class) => {
                find_class(interface, class).ok_or_else(|| format!("{name} has no class `{class}`"))?
            }
            None if is_of_interface(key) => &mut *interface,
            None => discipline(interface).ok_or_else(|| format!("{name} names no discipline"))?,
        };
        put(place, key, value);
    }
    Ok(())
}

/// Writes a class and its filters after the others.
fn add(interface: &mut dyn TableLike, added: &AddedClass) -> Result<(), String> {
    let given_twice = added.settings.contains_key("name")
        || added.filters.iter().any(|filter| filter.contains_key("class"));
    if given_twice {
        return Err(format!("the name of class `{}` is given already", added.class));
    }
    let table = |first: &str, rest: &BTreeMap<String, SettingChange>| {
        let mut table = Table::new();
        table.insert(first, Item::Value(added.class.as_str().into()));
        rest.iter().for_each(|(key, value)| put(&mut table, key, value));
        // A line before it, as between sections that people write.
        table.decor_mut().set_prefix("\n");
        table
    };
    let mut class = table("name", &added.settings);
    if let Some(quota) = &added.quota {
        class.insert("quota", Item::Value(quota_of(quota).into()));
    }
    append(interface, "class", class);
    for filter in &added.filters {
        append(interface, "filter", table("class", filter));
    }
    Ok(())
}

/// A quota in braces.
fn quota_of(quota: &AddedQuota) -> InlineTable {
    let mut table = InlineTable::new();
    table.insert("volume", quota.volume.as_str().into());
    if !quota.then.is_empty() {
        let mut then = InlineTable::new();
        quota
            .then
            .iter()
            .for_each(|(key, value)| put(&mut then, key, value));
        table.insert("then", then.into());
    }
    table
}

/// Writes a section at the end of a list of sections, or of a list in brackets.
fn append(interface: &mut dyn TableLike, key: &str, table: Table) {
    match interface.get_mut(key) {
        Some(Item::ArrayOfTables(sections)) => sections.push(table),
        Some(Item::Value(Value::Array(list))) => list.push(table.into_inline_table()),
        _ => {
            let mut sections = ArrayOfTables::new();
            sections.push(table);
            interface.insert(key, Item::ArrayOfTables(sections));
        }
    }
}

/// Takes a class out, wherever it stands, and the interface's filters of it.
fn remove(interface: &mut dyn TableLike, removed: &RemovedClass) -> Result<(), String> {
    let RemovedClass {
        interface: name,
        class,
        ..
    } = removed;
    if !take_class(interface, class) {
        return Err(format!("{name} has no class `{class}`"));
    }
    let is_of = |filter: &dyn TableLike| filter.get("class").and_then(Item::as_str) == Some(class);
    match interface.get_mut("filter") {
        Some(Item::ArrayOfTables(sections)) => sections.retain(|filter| !is_of(filter)),
        Some(Item::Value(Value::Array(list))) => {
            list.retain(|filter| !filter.as_inline_table().is_some_and(|filter| is_of(filter)));
        }
        _ => {}
    }
    Ok(())
}

/// Whether there was a class of this name here or below, which is gone now.
fn take_class(table: &mut dyn TableLike, name: &str) -> bool {
    let own = classes(table).position(|class| is_named(class, name));
    if let Some(number) = own {
        match table.get_mut("class") {
            Some(Item::ArrayOfTables(sections)) => drop(sections.remove(number)),
            Some(Item::Value(Value::Array(list))) => drop(list.remove(number)),
            _ => {}
        }
        return true;
    }
    let inside = classes(table).position(|class| has_class(class, name));
    if let Some(class) = inside.and_then(|number| class_mut(table, number)) {
        return take_class(class, name);
    }
    let below = BELOW.into_iter().find(|key| {
        let below = table.get(key).and_then(Item::as_table_like);
        below.is_some_and(|below| has_class(below, name))
    });
    let below = below.and_then(|key| table.get_mut(key)?.as_table_like_mut());
    below.is_some_and(|below| take_class(below, name))
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
    use crate::protocol::SettingChanges;

    fn change(class: Option<&str>, key: &str, value: SettingChange) -> Amendment {
        change_of("wan0", class, key, value)
    }

    fn change_of(interface: &str, class: Option<&str>, key: &str, value: SettingChange) -> Amendment {
        Amendment::Set(SettingChanges {
            interface: interface.into(),
            class: class.map(str::to_owned),
            changes: [(key.to_owned(), value)].into(),
            until_ms: None,
            reason: None,
        })
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
        let interface = change_of("lan0", None, "bandwidth", one);
        assert_eq!(with(POLICY, [&interface]), Err("it does not manage lan0".into()));
    }

    fn added(class: &str, settings: &[(&str, &str)], filters: &[(&str, &str)]) -> Amendment {
        let table = |(key, value): &(&str, &str)| ((*key).to_owned(), SettingChange::from_word(value));
        Amendment::Added(AddedClass {
            interface: "wan0".into(),
            class: class.into(),
            settings: settings.iter().map(table).collect(),
            filters: filters.iter().map(|one| [table(one)].into()).collect(),
            quota: None,
            until_ms: None,
            reason: None,
        })
    }

    fn removed(class: &str) -> Amendment {
        Amendment::Removed(RemovedClass {
            interface: "wan0".into(),
            class: class.into(),
            until_ms: None,
            reason: None,
        })
    }

    #[test]
    fn a_class_is_written_after_the_others_with_its_filters_and_taken_out_again() {
        let filter = "\n[[interface.wan0.filter]]\nclass = \"calls\"\nprotocol = \"udp\"\n";
        let policy = format!("{POLICY}{filter}");
        let guests = added(
            "guests",
            &[("rate", "1Mbit/s")],
            &[("protocol", "tcp"), ("dscp", "8")],
        );
        let with_guests = with(&policy, [&guests]).expect("a policy");
        let class = "\n[[interface.wan0.class]]\nname = \"guests\"\nrate = \"1Mbit/s\"\n";
        let filters = "\n[[interface.wan0.filter]]\nclass = \"guests\"\nprotocol = \"tcp\"\n\
                       \n[[interface.wan0.filter]]\nclass = \"guests\"\ndscp = 8\n";
        assert_eq!(with_guests, format!("{POLICY}{class}{filter}{filters}"));
        assert_eq!(with(&with_guests, [&removed("guests")]).as_deref(), Ok(&*policy));
        // One of another discipline's, and one whose filters go with it.
        let less = with(&policy, [&removed("web"), &removed("calls")]).expect("a policy");
        assert!(!less.contains("calls") && !less.contains("web"), "{less}");
        assert_eq!(
            with(POLICY, [&removed("guests")]),
            Err("wan0 has no class `guests`".into())
        );
    }

    #[test]
    fn a_class_comes_with_its_quota() {
        let guests = added("guests", &[("rate", "1Mbit/s")], &[]);
        let Amendment::Added(guests) = guests else {
            unreachable!("it is added")
        };
        let quota = AddedQuota {
            volume: "5 GB per day".into(),
            then: [("rate".to_owned(), SettingChange::Text("64kbit/s".into()))].into(),
        };
        let quota = Some(quota);
        let guests = Amendment::Added(AddedClass { quota, ..guests });
        assert_eq!(
            guests.to_string(),
            "wan0: new class guests: rate = 1Mbit/s; quota 5 GB per day, then rate = 64kbit/s"
        );
        let class = "\n[[interface.wan0.class]]\nname = \"guests\"\nrate = \"1Mbit/s\"\n\
                     quota = { volume = \"5 GB per day\", then = { rate = \"64kbit/s\" } }\n";
        assert_eq!(with(POLICY, [&guests]), Ok(format!("{POLICY}{class}")));
    }

    #[test]
    fn a_list_in_brackets_gets_and_loses_classes_too() {
        let policy = "[interface.wan0]\ndiscipline = \"drr\"\nclass = [{ name = \"a\", default = true }]\n\
                      filter = [{ class = \"a\", protocol = \"udp\" }]\n";
        let more = with(policy, [&added("b", &[("weight", "2")], &[("protocol", "tcp")])]).expect("a policy");
        let document: DocumentMut = more.parse().expect("TOML");
        let interface = document["interface"]["wan0"].as_table_like().expect("a table");
        assert_eq!(classes(interface).count(), 2, "{more}");
        assert_eq!(with(&more, [&removed("b")]).as_deref(), Ok(policy));
    }

    #[test]
    fn what_names_the_class_is_given_once() {
        let twice = Err("the name of class `guests` is given already".to_owned());
        let rate = ("rate", "1Mbit/s");
        let wanted = |settings: &[(&str, &str)], filters: &[(&str, &str)]| {
            with(POLICY, [&added("guests", settings, filters)])
        };
        assert_eq!(wanted(&[rate, ("name", "a")], &[]), twice);
        assert_eq!(wanted(&[rate], &[("class", "a")]), twice);
        assert_eq!(wanted(&[rate, ("name", "a")], &[("class", "a")]), twice);
        assert!(wanted(&[rate], &[("protocol", "udp")]).is_ok());
    }
}
