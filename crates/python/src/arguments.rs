//! What Python gives: a scenario as a path, a text or a dict; settings and grids as dicts.

use crate::failures::ScenarioError;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use scenario::overridden::{Override, SweptOverride};
use std::path::{Path, PathBuf};
use toml_edit::{Array, DocumentMut, InlineTable, Value};

/// What a scenario is called that has no file.
const NAMELESS: &str = "scenario";

/// A scenario, and what is to differ from its text.
pub(crate) struct Asked {
    /// What errors call the text: its path.
    pub(crate) path: String,
    /// The name of results: that of the file without its ending.
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) overrides: Vec<Override>,
}

impl Asked {
    pub(crate) fn new(
        scenario: &Bound<'_, PyAny>,
        set: Option<&Bound<'_, PyDict>>,
        seed: Option<u32>,
    ) -> PyResult<Self> {
        let mut overrides = Vec::new();
        for (key, value) in set.into_iter().flat_map(PyDictMethods::iter) {
            overrides.push((key.extract()?, toml(&value)?));
        }
        overrides.extend(seed.map(|seed| ("seed".to_owned(), Value::from(i64::from(seed)))));
        let (path, text) = if let Ok(dict) = scenario.cast::<PyDict>() {
            (NAMELESS.to_owned(), document(dict)?)
        } else {
            match scenario.extract::<String>() {
                Ok(text) if text.contains('\n') => (NAMELESS.to_owned(), text),
                _ => file(scenario)?,
            }
        };
        let stem = Path::new(&path).file_stem();
        let name = stem.map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        Ok(Self {
            path,
            name,
            text,
            overrides,
        })
    }
}

/// The path and the text of a file. What cannot be read is Python's own `OSError`.
fn file(scenario: &Bound<'_, PyAny>) -> PyResult<(String, String)> {
    let path: PathBuf = scenario
        .extract()
        .map_err(|_| PyTypeError::new_err("a scenario is a path, a text of several lines, or a dict"))?;
    let bytes = std::fs::read(&path).map_err(|why| {
        let shown = path.display();
        std::io::Error::new(why.kind(), format!("{shown}: {why}"))
    })?;
    let shown = path.display().to_string();
    let text = String::from_utf8(bytes)
        .map_err(|_| ScenarioError::new_err(format!("{shown}: it is not a text in UTF-8")))?;
    Ok((shown, text))
}

/// A dict of lists, in its order.
pub(crate) fn grid(grid: &Bound<'_, PyDict>) -> PyResult<Vec<SweptOverride>> {
    let list = |(key, values): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
        let key: String = key.extract()?;
        if values.is_instance_of::<PyString>() {
            let why = format!("`{key}`: expected a list of values, not a single one");
            return Err(PyTypeError::new_err(why));
        }
        let values: Vec<Value> = values
            .try_iter()?
            .map(|value| toml(&value?))
            .collect::<PyResult<_>>()?;
        if values.is_empty() {
            let why = format!("`{key}`: expected at least one value");
            return Err(ScenarioError::new_err(why));
        }
        Ok((key, values))
    };
    grid.iter().map(list).collect()
}

/// A dict as a text in TOML.
fn document(dict: &Bound<'_, PyDict>) -> PyResult<String> {
    let mut document = DocumentMut::new();
    for (key, value) in dict.iter() {
        document.insert(&key.extract::<String>()?, toml_edit::Item::Value(toml(&value)?));
    }
    Ok(document.to_string())
}

/// A value in TOML. Numbers of numpy are numbers, too: they have `item`.
fn toml(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if value.is_instance_of::<PyBool>() {
        return Ok(value.extract::<bool>()?.into());
    }
    if value.is_instance_of::<PyInt>() {
        return Ok(value.extract::<i64>()?.into());
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(value.extract::<f64>()?.into());
    }
    if value.is_instance_of::<PyString>() {
        return Ok(value.extract::<String>()?.into());
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let values: PyResult<Vec<Value>> = value.try_iter()?.map(|value| toml(&value?)).collect();
        return Ok(Value::Array(Array::from_iter(values?)));
    }
    if let Ok(dict) = value.cast::<PyDict>() {
        let mut table = InlineTable::new();
        for (key, value) in dict.iter() {
            table.insert(key.extract::<String>()?, toml(&value)?);
        }
        return Ok(Value::InlineTable(table));
    }
    if let Ok(plain) = value.call_method0("item") {
        return toml(&plain);
    }
    let kind = value.get_type().name()?;
    let why = format!("expected a text such as \"10 Mbit/s\", a number, a list or a dict; found {kind}");
    Err(PyTypeError::new_err(why))
}
