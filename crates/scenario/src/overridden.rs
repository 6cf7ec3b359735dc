//! A scenario's text with other settings, without editing its file: for sweeps over settings that
//! the text itself does not name, and for callers that are programs.
//!
//! A place is written as TOML's dotted keys are: `seed`, `flow.transfer.count`,
//! `link.0.policy.server.class.voice.rate`. In a list of sections a key is the `name` of one, the
//! hosts that it is `between` (`link."server > home"`), or its number, from 0. The last key may be
//! new. The name of a list of `[sweep]` is a place, too: its values are replaced.

use crate::Error;
use control::diagnostics::{Diagnostics, Severity};
use engine::settings::{Problem, Span, unknown};
use toml_edit::{Array, DocumentMut, Item, Key, Table, TableLike, TomlError, Value};

/// A place in a scenario, and what it is to be.
pub type Override = (String, Value);

/// A place in a scenario, and what it is to be at each point of a sweep.
pub type SweptOverride = (String, Vec<Value>);

/// The text with these settings in place of its own, one after the other. `name` is what errors
/// call the text.
///
/// # Errors
///
/// Returns an error if the text is not TOML, or has no such place.
pub fn with(name: &str, text: &str, overrides: &[Override]) -> Result<String, Error> {
    let mut document = read(name, text)?;
    for (path, value) in overrides {
        match sweep_list(&mut document, path) {
            Some(list) => *list = Item::Value(Value::Array(Array::from_iter([value.clone()]))),
            None => put(&mut document, path, value)?,
        }
    }
    Ok(document.to_string())
}

/// The text as a sweep over these settings, after the lists that its own `[sweep]` has. Each list
/// is called as its place is.
///
/// # Errors
///
/// Returns an error if the text is not TOML, or has no such place.
pub fn swept(name: &str, text: &str, grid: &[SweptOverride]) -> Result<String, Error> {
    let mut document = read(name, text)?;
    for (path, values) in grid {
        let values = Item::Value(Value::Array(Array::from_iter(values.iter().cloned())));
        if let Some(list) = sweep_list(&mut document, path) {
            *list = values;
            continue;
        }
        if path.contains(['{', '}']) {
            return Err(refused(format!(
                "`{path}`: no braces in the name of a swept setting"
            )));
        }
        put(&mut document, path, &Value::from(format!("{{{path}}}")))?;
        let sweep = document
            .entry("sweep")
            .or_insert_with(|| Item::Table(Table::new()));
        let sweep = sweep
            .as_table_like_mut()
            .ok_or_else(|| refused("`sweep` is no section".into()))?;
        sweep.insert(path, values);
    }
    Ok(document.to_string())
}

fn read(name: &str, text: &str) -> Result<DocumentMut, Error> {
    text.parse().map_err(|why: TomlError| {
        let at = why.span().unwrap_or_default();
        let at = Span::new(at.start, at.end);
        let mut diagnostics = Diagnostics::new(name, text);
        diagnostics.fill(Severity::Mistake, vec![Problem::new(at, why.message())]);
        diagnostics.into()
    })
}

fn refused(message: String) -> Error {
    Problem::new(Span::default(), message).into()
}

fn sweep_list<'a>(document: &'a mut DocumentMut, name: &str) -> Option<&'a mut Item> {
    let sweep = document.get_mut("sweep")?.as_table_like_mut()?;
    sweep.get_mut(name)
}

/// Puts a value at a place.
fn put(document: &mut DocumentMut, path: &str, value: &Value) -> Result<(), Error> {
    let keys =
        Key::parse(path).map_err(|_| refused(format!("`{path}` is no setting: write keys with dots")))?;
    let (last, sections) = keys
        .split_last()
        .ok_or_else(|| refused("a setting has a name".into()))?;
    let mut place = document.as_item_mut();
    let mut passed = String::new();
    for key in sections {
        place = within(place, key.get(), &passed)?;
        passed = match passed.as_str() {
            "" => key.get().to_owned(),
            before => format!("{before}.{}", key.get()),
        };
    }
    if place.is_array_of_tables() || place.is_array() {
        *within(place, last.get(), &passed)? = Item::Value(value.clone());
        return Ok(());
    }
    let section = place
        .as_table_like_mut()
        .ok_or_else(|| refused(format!("`{passed}` is a value, so `{path}` is no setting")))?;
    replace(section, last.get(), value);
    Ok(())
}

/// Puts a value at a key, with the comment that is behind the former.
fn replace(section: &mut dyn TableLike, key: &str, value: &Value) {
    let mut value = value.clone();
    if let Some(former) = section.get(key).and_then(Item::as_value) {
        *value.decor_mut() = former.decor().clone();
    }
    section.insert(key, Item::Value(value));
}

/// The part of a section or of a list that a key names.
fn within<'a>(place: &'a mut Item, key: &str, passed: &str) -> Result<&'a mut Item, Error> {
    let what = match passed {
        "" => "section".to_owned(),
        passed => format!("part of `{passed}`"),
    };
    if let Some(names) = entries(place) {
        let number = key.parse().ok().filter(|number| *number < names.len());
        let named = names
            .iter()
            .position(|known| known.iter().any(|name| name == key));
        let Some(index) = named.or(number) else {
            let known = names.iter().filter_map(|names| Some(names.first()?.as_str()));
            return Err(unknown(&what, key, Span::default(), known).into());
        };
        return Ok(place.get_mut(index).expect("it was counted"));
    }
    let known: Vec<String> = place
        .as_table_like()
        .into_iter()
        .flat_map(TableLike::iter)
        .map(|(known, _)| known.to_owned())
        .collect();
    if !known.iter().any(|known| known == key) {
        let known = known.iter().map(String::as_str);
        return Err(unknown(&what, key, Span::default(), known).into());
    }
    Ok(place.get_mut(key).expect("it was found"))
}

/// The names of each entry of a list of sections; nothing for what is no list.
fn entries(place: &Item) -> Option<Vec<Vec<String>>> {
    let count = match place {
        Item::ArrayOfTables(sections) => sections.len(),
        Item::Value(Value::Array(list)) => list.len(),
        _ => return None,
    };
    let named = |index| {
        let entry = place.get(index).and_then(Item::as_table_like);
        entry.map_or_else(Vec::new, names)
    };
    Some((0..count).map(named).collect())
}

/// What a section of a list can be called: its name, or the hosts at both ends, in either order.
fn names(entry: &dyn TableLike) -> Vec<String> {
    let text = |item: &Item| item.as_str().map(str::to_owned);
    let mut names: Vec<String> = entry.get("name").and_then(text).into_iter().collect();
    if let Some(ends) = entry.get("between").and_then(Item::as_array) {
        let ends: Vec<&str> = ends.iter().filter_map(Value::as_str).collect();
        names.push(ends.join(" > "));
        names.push(ends.into_iter().rev().collect::<Vec<_>>().join(" > "));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
version = 1
duration = \"10 s\"  # long enough
[[link]]
between = [\"server\", \"home\"]
rate = \"10 Mbit/s\"
policy.server = { discipline = \"drr\", class = [{ name = \"voice\", weight = 1 }, { name = \"rest\" }] }
[[flow]]
name = \"transfer\"
count = 2
[[flow]]
name = \"call\"
";

    fn put(path: &str, value: impl Into<Value>) -> Result<String, String> {
        with("x.toml", TEXT, &[(path.to_owned(), value.into())]).map_err(|why| why.to_string())
    }

    /// The lines that are not in the original.
    fn changed(path: &str, value: impl Into<Value>) -> Vec<String> {
        let text = put(path, value).expect("a place");
        let before: Vec<&str> = TEXT.lines().collect();
        let new = text.lines().filter(|line| !before.contains(line));
        new.map(str::to_owned).collect()
    }

    #[test]
    fn a_place_is_found_by_name_by_ends_and_by_number() {
        for path in [
            "link.0.rate",
            "link.\"server > home\".rate",
            "link.\"home > server\".rate",
        ] {
            assert_eq!(changed(path, "5 Mbit/s"), ["rate = \"5 Mbit/s\""], "{path}");
        }
        for path in ["flow.transfer.count", "flow.0.count"] {
            assert_eq!(changed(path, 4), ["count = 4"], "{path}");
        }
        let class = changed("link.0.policy.server.class.voice.weight", 3);
        assert_eq!(class.len(), 1);
        assert!(class[0].contains("{ name = \"voice\", weight = 3 }, { name = \"rest\" }"));
    }

    #[test]
    fn the_rest_of_the_text_stays_and_a_setting_may_be_new() {
        assert_eq!(changed("duration", "3 s"), ["duration = \"3 s\"  # long enough"]);
        let text = put("seed", 7).expect("a place");
        assert!(text.find("seed = 7") < text.find("[[link]]"), "{text}");
        assert_eq!(text.lines().count(), TEXT.lines().count() + 1);
    }

    #[test]
    fn a_place_that_is_not_there_is_told_with_the_nearest() {
        for (path, said) in [
            (
                "flow.transfr.count",
                "unknown part of `flow` `transfr`; did you mean `transfer`",
            ),
            ("flow.2.count", "possible here: transfer, call"),
            ("link.0.rate.x", "`link.0.rate` is a value"),
            ("lnk.0.rate", "unknown section `lnk`; did you mean `link`"),
            ("a b", "write keys with dots"),
            ("", "write keys with dots"),
        ] {
            let why = put(path, 1).expect_err(path);
            assert!(why.contains(said), "{path}: {why}");
        }
    }

    #[test]
    fn a_mistake_in_the_text_is_told_with_its_place() {
        let Err(Error::Mistakes(mistakes)) = with("x.toml", "version = 1\nseed =\n", &[]) else {
            panic!("no mistakes");
        };
        let places = mistakes.places();
        assert_eq!((places.len(), places[0].line, places[0].file), (1, 2, "x.toml"));
    }

    #[test]
    fn a_sweep_has_its_own_lists_then_those_of_the_grid() {
        let text = format!("{TEXT}[sweep]\nweight = [1, 2]\n");
        let grid = [
            ("flow.call.count".to_owned(), vec![Value::from(1), Value::from(2)]),
            ("weight".to_owned(), vec![Value::from(5)]),
        ];
        let text = swept("x.toml", &text, &grid).expect("places");
        assert!(
            text.contains("name = \"call\"\ncount = \"{flow.call.count}\"\n"),
            "{text}"
        );
        assert!(
            text.ends_with("[sweep]\nweight = [5]\n\"flow.call.count\" = [1, 2]\n"),
            "{text}"
        );
        let one = with("x.toml", &text, &[("weight".to_owned(), Value::from(9))]).expect("a list");
        assert!(one.contains("weight = [9]"), "{one}");
        let braces = swept("x.toml", TEXT, &[("a{b}".to_owned(), vec![Value::from(1)])]);
        assert!(braces.is_err());
    }
}
