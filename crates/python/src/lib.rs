//! The Python package `suimon`: the simulator, with scenarios as files, texts or dicts; results are
//! plain objects that notebooks draw and pandas takes.
//!
//! Figures are those of `suimon sim`, to the last digit: the same reports make them. While a
//! simulation runs, the interpreter's lock is released, and the points of a sweep run on all
//! processors. `suimon.pyi` has the types and the documentation of all that is here.
//!
//! - `arguments`: what Python gives: scenarios, settings, grids;
//! - `callbacks`: sources and congestion controls in Python;
//! - `simulated`: the points of a job, run until the end or Ctrl-C;
//! - `results`: the class of results; `plain`: what is in it as dicts, lists and numbers;
//! - `failures`: errors as exceptions, with the place in the text.

mod arguments;
mod callbacks;
mod failures;
mod plain;
mod results;
mod simulated;

use arguments::Asked;
use failures::{ScenarioError, SimulationError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use results::SimulationResult;
use scenario::report::csv;
use simulated::Simulation;

/// Simulates one scenario.
#[pyfunction]
#[pyo3(signature = (scenario, *, set = None, seed = None, sources = None, controls = None))]
fn simulate(
    py: Python<'_>,
    scenario: &Bound<'_, PyAny>,
    set: Option<&Bound<'_, PyDict>>,
    seed: Option<u32>,
    sources: Option<&Bound<'_, PyDict>>,
    controls: Option<&Bound<'_, PyDict>>,
) -> PyResult<SimulationResult> {
    let own = callbacks::parts(sources, controls)?;
    let simulation = Simulation::new(py, Asked::new(scenario, set, seed)?, &[])?;
    let points = simulation.points();
    if points > 1 {
        let why = format!("the scenario has {points} points: sweep() runs them all, set= chooses one");
        return Err(ScenarioError::new_err(why));
    }
    let mut outcome = None;
    simulation.run(py, None, &own, |_, one| {
        outcome = Some(one);
        Ok(())
    })?;
    let outcome = outcome.expect("a scenario has a point");
    Ok(SimulationResult::new(outcome, simulation))
}

/// Simulates every combination of settings, and returns a row for each.
#[pyfunction]
#[expect(
    clippy::too_many_arguments,
    reason = "they are Python's keywords, each of which may be left out"
)]
#[pyo3(signature = (scenario, grid = None, *, set = None, seed = None, jobs = None, sources = None, controls = None))]
fn sweep<'py>(
    py: Python<'py>,
    scenario: &Bound<'_, PyAny>,
    grid: Option<&Bound<'_, PyDict>>,
    set: Option<&Bound<'_, PyDict>>,
    seed: Option<u32>,
    jobs: Option<u16>,
    sources: Option<&Bound<'_, PyDict>>,
    controls: Option<&Bound<'_, PyDict>>,
) -> PyResult<Bound<'py, PyList>> {
    let own = callbacks::parts(sources, controls)?;
    let grid = grid.map_or_else(|| Ok(Vec::new()), arguments::grid)?;
    let simulation = Simulation::new(py, Asked::new(scenario, set, seed)?, &grid)?;
    let rows = PyList::empty(py).unbind();
    simulation.run(py, jobs, &own, |py, outcome| {
        let row = plain::row(py, &csv::columns(&outcome))?;
        rows.bind(py).append(row)
    })?;
    Ok(rows.into_bound(py))
}

/// Checks a scenario with all its points, without running it.
#[pyfunction]
#[pyo3(signature = (scenario, *, set = None))]
fn check<'py>(
    py: Python<'py>,
    scenario: &Bound<'_, PyAny>,
    set: Option<&Bound<'_, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let simulation = Simulation::new(py, Asked::new(scenario, set, None)?, &[])?;
    plain::json(py, &simulation.warnings())
}

/// Simulates networks with the engine that manages traffic in `suimon run`.
#[pymodule]
fn suimon(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("ScenarioError", py.get_type::<ScenarioError>())?;
    module.add("SimulationError", py.get_type::<SimulationError>())?;
    module.add_class::<SimulationResult>()?;
    callbacks::classes(module)?;
    module.add_function(wrap_pyfunction!(simulate, module)?)?;
    module.add_function(wrap_pyfunction!(sweep, module)?)?;
    module.add_function(wrap_pyfunction!(check, module)?)
}
