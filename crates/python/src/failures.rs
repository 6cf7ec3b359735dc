//! Errors as Python's exceptions. Mistakes of a scenario have the place of each in the text.

use crate::plain::json;
use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use scenario::Error;

create_exception!(
    suimon,
    ScenarioError,
    PyValueError,
    "A scenario with mistakes, or a setting that it does not have."
);
create_exception!(
    suimon,
    SimulationError,
    PyRuntimeError,
    "A simulation that could not be run to its end."
);

/// The exception of an error. `mistakes` has each mistake with its place; `file`, `line` and
/// `column` are those of the first.
pub(crate) fn of(py: Python<'_>, error: &Error) -> PyErr {
    if let Error::Own(own) = error
        && let Some(raised) = own.downcast_ref::<PyErr>()
    {
        return raised.clone_ref(py);
    }
    if !error.is_usage() {
        return SimulationError::new_err(error.to_string());
    }
    let (text, places) = match error {
        Error::Mistakes(mistakes) => (mistakes.render(false), mistakes.places()),
        other => (other.to_string(), Vec::new()),
    };
    let exception = ScenarioError::new_err(text);
    let told = || -> PyResult<()> {
        let value = exception.value(py);
        value.setattr("mistakes", json(py, &serde_json::json!(places))?)?;
        value.setattr("file", places.first().map(|place| place.file))?;
        value.setattr("line", places.first().map(|place| place.line))?;
        value.setattr("column", places.first().map(|place| place.column))
    };
    told().map_or_else(|failed| failed, |()| exception.clone_ref(py))
}
