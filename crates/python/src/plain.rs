//! What was measured as plain Python: dicts, lists, texts and numbers.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use scenario::report::csv::Field;
use serde_json::Value;

/// JSON, read as Python reads it.
pub(crate) fn json<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (value.to_string(),))
}

/// The columns of a point.
pub(crate) fn row<'py>(py: Python<'py>, columns: &[(String, Field)]) -> PyResult<Bound<'py, PyDict>> {
    let row = PyDict::new(py);
    for (name, field) in columns {
        match field {
            Field::Nothing => row.set_item(name, py.None())?,
            Field::Verdict(met) => row.set_item(name, met)?,
            Field::Count(count) => row.set_item(name, count)?,
            Field::Number(number) => row.set_item(name, number)?,
            Field::Text(text) => row.set_item(name, text)?,
        }
    }
    Ok(row)
}
