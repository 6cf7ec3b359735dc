//! The result of one point: what `suimon sim --json` prints, as plain Python; time series and
//! distributions for pandas; charts as SVG, which notebooks show by themselves.

use crate::plain::{json, row};
use crate::simulated::Simulation;
use engine::settings::{Problem, Raw, SettingValue, Span, unknown};
use measure::delay::FineDelays;
use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use scenario::language::Picture;
use scenario::report::csv;
use scenario::report::json::point;
use scenario::report::{alone, page, series};
use scenario::run::outcome::{ClassOutcome, FlowOutcome, LinkOutcome, Outcome};
use serde_json::Value;

/// What was measured in a simulation.
#[pyclass(frozen, name = "Result", module = "suimon")]
pub(crate) struct SimulationResult {
    outcome: Outcome,
    /// As `suimon sim --json` has it.
    told: Value,
    text: String,
    warnings: Value,
}

impl SimulationResult {
    pub(crate) fn new(outcome: Outcome, simulation: Simulation) -> Self {
        Self {
            told: point(&outcome),
            outcome,
            warnings: simulation.warnings(),
            text: simulation.text,
        }
    }

    fn found_link(&self, name: &str) -> PyResult<&LinkOutcome> {
        find("link", name, &self.outcome.links, |link| &link.name)
    }

    fn found_flow(&self, name: &str) -> PyResult<&FlowOutcome> {
        find("flow", name, &self.outcome.flows, |flow| &flow.name)
    }

    /// The places of a class's link and of the class on it: the only class of this name, or that of
    /// this link.
    fn class_place(&self, name: &str, link: Option<&str>) -> PyResult<(usize, usize)> {
        link.map_or(Ok(()), |link| self.found_link(link).map(drop))?;
        let links = self.outcome.links.iter().enumerate();
        let links = links.filter(|(_, on)| link.is_none_or(|link| on.name == link));
        let places: Vec<(usize, usize)> = links
            .flat_map(|(at, on)| (0..on.classes.len()).map(move |class| (at, class)))
            .collect();
        let class = |&(link, class): &(usize, usize)| &self.outcome.links[link].classes[class];
        let named: Vec<_> = places.iter().filter(|place| class(place).name == name).collect();
        match named[..] {
            [place] => Ok(*place),
            [] => {
                let known = places.iter().map(|place| class(place).name.as_str());
                Err(missing(&unknown("class", name, Span::default(), known)))
            }
            [first, ..] => {
                let link = &self.outcome.links[first.0].name;
                let why = format!("several links have a class `{name}`: choose one, as by link=\"{link}\"");
                Err(PyKeyError::new_err(why))
            }
        }
    }

    fn found_class(&self, (link, class): (usize, usize)) -> &ClassOutcome {
        &self.outcome.links[link].classes[class]
    }
}

#[pymethods]
impl SimulationResult {
    #[getter]
    fn scenario(&self) -> &str {
        &self.outcome.scenario
    }

    #[getter]
    fn text(&self) -> &str {
        &self.text
    }

    #[getter]
    fn met(&self) -> bool {
        self.outcome.missed() == 0
    }

    #[getter]
    fn expectations<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        json(py, &self.told["expectations"])
    }

    #[getter]
    fn links<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        json(py, &self.told["links"])
    }

    #[getter]
    fn flows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        json(py, &self.told["flows"])
    }

    #[getter]
    fn reservations<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        json(py, &self.told["reservations"])
    }

    #[getter]
    fn warnings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        json(py, &self.warnings)
    }

    fn link<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        self.found_link(name)?;
        json(py, named(&self.told["links"], name))
    }

    fn flow<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        self.found_flow(name)?;
        json(py, named(&self.told["flows"], name))
    }

    #[pyo3(signature = (name, *, link = None))]
    fn class_<'py>(&self, py: Python<'py>, name: &str, link: Option<&str>) -> PyResult<Bound<'py, PyAny>> {
        let (link, class) = self.class_place(name, link)?;
        json(py, &self.told["links"][link]["classes"][class])
    }

    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        json(py, &self.told)
    }

    fn row<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        row(py, &csv::columns(&self.outcome))
    }

    fn series<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let rows = PyList::empty(py);
        for bin in series::rates(&self.outcome) {
            let row = PyDict::new(py);
            row.set_item("what", bin.what)?;
            row.set_item("link", bin.link)?;
            row.set_item("name", bin.name)?;
            row.set_item("from_s", bin.from.as_secs_f64())?;
            row.set_item("rate_bps", bin.rate.bits())?;
            rows.append(row)?;
        }
        Ok(rows)
    }

    #[pyo3(signature = (*, flow = None, class_ = None, link = None))]
    fn delays<'py>(
        &self,
        py: Python<'py>,
        flow: Option<&str>,
        class_: Option<&str>,
        link: Option<&str>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let nothing = FineDelays::default();
        let delays = match (flow, class_, link) {
            (Some(flow), None, None) => self.found_flow(flow)?.delays.as_ref().unwrap_or(&nothing),
            (None, Some(class), link) => {
                let place = self.class_place(class, link)?;
                &self.found_class(place).passed.waited
            }
            (None, None, Some(link)) => &self.found_link(link)?.total.waited,
            _ => return Err(PyTypeError::new_err("of what: flow=, class_= or link=")),
        };
        let all = delays.count().max(1) as f64;
        let (times, shares): (Vec<f64>, Vec<f64>) = delays
            .steps()
            .map(|(delay, until)| (delay.as_secs_f64(), until as f64 / all))
            .unzip();
        let columns = PyDict::new(py);
        columns.set_item("delay_s", times)?;
        columns.set_item("share", shares)?;
        Ok(columns)
    }

    #[pyo3(signature = (picture = None))]
    fn svg(&self, picture: Option<&str>) -> PyResult<String> {
        let Some(picture) = picture else {
            return Ok(alone::picture(&self.outcome));
        };
        let chosen = Picture::from_raw(&Raw::Text(picture.into())).map_err(PyValueError::new_err)?;
        Ok(alone::picture(&Outcome {
            picture: chosen,
            ..self.outcome.clone()
        }))
    }

    fn html(&self) -> String {
        let texts = [("The scenario".to_owned(), self.text.clone())];
        page::page(std::slice::from_ref(&self.outcome), &texts)
    }

    fn _repr_svg_(&self) -> String {
        alone::picture(&self.outcome)
    }

    fn __repr__(&self) -> String {
        let Outcome {
            scenario,
            duration,
            expectations,
            ..
        } = &self.outcome;
        let (all, met) = (expectations.len(), expectations.len() - self.outcome.missed());
        format!("<suimon.Result {scenario}: {duration}, {met} of {all} expectations met>")
    }
}

/// The one of this name among what was told.
fn named<'a>(all: &'a Value, name: &str) -> &'a Value {
    let found = all
        .as_array()
        .and_then(|all| all.iter().find(|one| one["name"] == name));
    found.unwrap_or(&Value::Null)
}

fn find<'a, T>(what: &str, name: &str, all: &'a [T], of: impl Fn(&T) -> &String) -> PyResult<&'a T> {
    let known = all.iter().map(|one| of(one).as_str());
    let missing = || missing(&unknown(what, name, Span::default(), known));
    all.iter().find(|one| of(one) == name).ok_or_else(missing)
}

fn missing(problem: &Problem) -> PyErr {
    let help = problem.help.as_deref().unwrap_or_default();
    PyKeyError::new_err(format!("{}; {help}", problem.message))
}
