//! Sources and congestion controls that are written in Python.
//!
//! The lock is taken for each call and no longer. What a callback raises ends the run and reaches
//! the caller as it is; what it answers is checked here, with an error that names the flow.

use engine::random::Seed;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator};
use scenario::brought::{
    Ack, CongestionControl, CongestionEvent, ConnectionStart, OwnControl, OwnFailure, OwnPacket, OwnPackets,
    OwnParts,
};
use std::fmt;
use std::sync::Arc;

/// The greatest time in nanoseconds, window in bytes and rate in bit/s that a callback may answer
/// with: numbers up to it are exact as floats, too.
const MOST: f64 = (1_u64 << 53) as f64;

/// What a call brings, as the arguments `sources` and `controls` have it.
pub(crate) fn parts(
    sources: Option<&Bound<'_, PyDict>>,
    controls: Option<&Bound<'_, PyDict>>,
) -> PyResult<OwnParts> {
    let mut own = OwnParts::default();
    for (flow, make) in sources.into_iter().flat_map(PyDictMethods::iter) {
        let (flow, make) = callable("sources", &flow, make)?;
        let (name, make) = (Arc::from(flow.as_str()), Arc::new(make));
        own = own.source(
            &flow,
            OwnPackets::new(move |seed| Source::new(&name, &make, seed)),
        );
    }
    for (flow, make) in controls.into_iter().flat_map(PyDictMethods::iter) {
        let named = make.getattr("__name__").and_then(|name| name.extract::<String>());
        let named = named.unwrap_or_else(|_| "own".into());
        let (flow, make) = callable("controls", &flow, make)?;
        let (name, make) = (Arc::<str>::from(flow.as_str()), Arc::new(make));
        own = own.fallible_control(&flow, move |failure| {
            let (name, make, failure) = (name.clone(), make.clone(), failure.clone());
            OwnControl::new(&named, move |start| {
                Box::new(Control::new(&name, &make, &failure, start))
            })
        });
    }
    Ok(own)
}

fn callable(
    argument: &str,
    flow: &Bound<'_, PyAny>,
    make: Bound<'_, PyAny>,
) -> PyResult<(String, Py<PyAny>)> {
    let flow: String = flow.extract()?;
    if make.is_callable() {
        return Ok((flow, make.unbind()));
    }
    let kind = make.get_type().name()?;
    let why =
        format!("{argument}[\"{flow}\"]: expected a class or a function, called for each copy; found {kind}");
    Err(PyTypeError::new_err(why))
}

/// A number that a callback answered with: finite, from `least` on, rounded to a whole one.
fn number(value: &Bound<'_, PyAny>, what: impl Fn() -> String, least: u64) -> PyResult<u64> {
    let Ok(number) = value.extract::<f64>() else {
        let kind = value.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "{}: expected a number; found {kind}",
            what()
        )));
    };
    // Not a number is in no range.
    if (least as f64..=MOST).contains(&number) {
        return Ok(number.round() as u64);
    }
    let why = format!(
        "{}: expected a number from {least} to 2⁵³; found {number}",
        what()
    );
    Err(PyValueError::new_err(why))
}

/// The packets of one copy of a flow.
struct Source {
    flow: Arc<str>,
    /// An iterator, or why there is none.
    iterator: Option<PyResult<Py<PyIterator>>>,
}

impl Source {
    fn new(flow: &Arc<str>, make: &Py<PyAny>, seed: Seed) -> Self {
        let iterator = Python::attach(|py| {
            let packets = make.bind(py).call1((seed.0,))?;
            Ok(packets.try_iter()?.unbind())
        });
        Self {
            flow: flow.clone(),
            iterator: Some(iterator),
        }
    }

    fn ask(&mut self, py: Python<'_>) -> PyResult<Option<(Duration, Bytes)>> {
        let iterator = match self.iterator.take() {
            Some(Ok(iterator)) => iterator,
            Some(Err(raised)) => return Err(raised),
            None => return Ok(None),
        };
        let Some(packet) = iterator.bind(py).clone().next().transpose()? else {
            return Ok(None);
        };
        let flow = &self.flow;
        let Ok((at, frame)) = packet.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>() else {
            let kind = packet.get_type().name()?;
            let why = format!("flow `{flow}`: expected packets as (at_ns, frame_bytes); found {kind}");
            return Err(PyTypeError::new_err(why));
        };
        let at = number(&at, || format!("flow `{flow}`: the time of a packet, in ns"), 0)?;
        let frame = number(
            &frame,
            || format!("flow `{flow}`: the length of a frame, in bytes"),
            1,
        )?;
        self.iterator = Some(Ok(iterator));
        Ok(Some((Duration::from_nanos(at), Bytes::new(frame))))
    }
}

impl Iterator for Source {
    type Item = OwnPacket;

    fn next(&mut self) -> Option<OwnPacket> {
        Python::attach(|py| self.ask(py)).map_err(Into::into).transpose()
    }
}

/// What a connection starts from.
#[pyclass(frozen, get_all, name = "Start", module = "suimon")]
struct StartFacts {
    now_ns: u64,
    mss_bytes: u64,
    initial_window_bytes: u64,
    rtt_ns: Option<u64>,
}

/// What an ACK reported.
#[pyclass(frozen, get_all, name = "Ack", module = "suimon")]
struct AckFacts {
    now_ns: u64,
    delivered_bytes: u64,
    growth_bytes: u64,
    pipe_before_bytes: u64,
    pipe_bytes: u64,
    rtt_ns: Option<u64>,
    srtt_ns: u64,
    delivery_rate_bps: Option<u64>,
    app_limited: bool,
    may_grow: bool,
}

/// The sender's state at a sign of congestion.
#[pyclass(frozen, get_all, name = "Congestion", module = "suimon")]
struct CongestionFacts {
    now_ns: u64,
    flight_bytes: u64,
    pipe_bytes: u64,
    repeated: bool,
}

/// Adds the classes of what callbacks are told.
pub(crate) fn classes(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<StartFacts>()?;
    module.add_class::<AckFacts>()?;
    module.add_class::<CongestionFacts>()
}

fn since_start(now: Instant) -> u64 {
    now.since(Instant::START).nanos()
}

/// A congestion control in Python. Its answers are kept, so that asking for them needs no lock.
struct Control {
    flow: Arc<str>,
    failure: OwnFailure,
    mss: u64,
    /// None after it failed: the run ends.
    object: Option<Py<PyAny>>,
    cwnd: u64,
    pacing_rate: Option<Bandwidth>,
    slow_start: bool,
    samples: bool,
    has_ecn: bool,
    has_recovered: bool,
    has_idle: bool,
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control")
            .field("cwnd", &self.cwnd)
            .finish_non_exhaustive()
    }
}

impl Control {
    fn new(flow: &Arc<str>, make: &Py<PyAny>, failure: &OwnFailure, start: &ConnectionStart) -> Self {
        let mut control = Self {
            flow: flow.clone(),
            failure: failure.clone(),
            mss: start.mss,
            object: None,
            cwnd: start.mss,
            pacing_rate: None,
            slow_start: false,
            samples: false,
            has_ecn: false,
            has_recovered: false,
            has_idle: false,
        };
        let facts = StartFacts {
            now_ns: since_start(start.now),
            mss_bytes: start.mss,
            initial_window_bytes: start.mss * u64::from(start.initial_window),
            rtt_ns: start.rtt.map(Duration::nanos),
        };
        let made = Python::attach(|py| control.begin(make.bind(py).call1((facts,))?));
        control.told(made);
        control
    }

    /// Takes over an object, if it has what a control must have.
    fn begin(&mut self, object: Bound<'_, PyAny>) -> PyResult<()> {
        for method in ["on_ack", "on_loss", "on_timeout"] {
            if !object.getattr(method).is_ok_and(|found| found.is_callable()) {
                let kind = object.get_type().name()?;
                let why = format!(
                    "flow `{}`: a congestion control needs a method {method}; {kind} has none",
                    self.flow
                );
                return Err(PyTypeError::new_err(why));
            }
        }
        [self.has_ecn, self.has_recovered, self.has_idle] =
            ["on_ecn", "on_recovered", "on_idle"].map(|method| object.hasattr(method).unwrap_or(false));
        if let Some(wants) = object.getattr_opt("wants_delivery_rate")? {
            self.samples = wants.is_truthy()?;
        }
        self.answers(&object)?;
        self.object = Some(object.unbind());
        Ok(())
    }

    /// Reads what it answers with: its attributes.
    fn answers(&mut self, object: &Bound<'_, PyAny>) -> PyResult<()> {
        let flow = &self.flow;
        let cwnd = object.getattr("cwnd_bytes")?;
        self.cwnd = number(
            &cwnd,
            || format!("flow `{flow}`: cwnd_bytes, at least a segment"),
            self.mss,
        )?;
        self.pacing_rate = match object.getattr_opt("pacing_rate_bps")? {
            Some(rate) if !rate.is_none() => {
                let bits = number(&rate, || format!("flow `{flow}`: pacing_rate_bps"), 1)?;
                Some(Bandwidth::bits_per_sec(bits))
            }
            _ => None,
        };
        if let Some(slow_start) = object.getattr_opt("in_slow_start")? {
            self.slow_start = slow_start.is_truthy()?;
        }
        Ok(())
    }

    /// Calls a method; the facts become an object only if it is called.
    fn call<'py, A>(&mut self, py: Python<'py>, method: &str, facts: A) -> PyResult<()>
    where
        A: pyo3::call::PyCallArgs<'py>,
    {
        let Some(object) = self.object.take() else {
            return Ok(());
        };
        object.bind(py).call_method1(method, facts)?;
        self.answers(object.bind(py))?;
        self.object = Some(object);
        Ok(())
    }

    fn told(&self, result: PyResult<()>) {
        if let Err(raised) = result {
            self.failure.tell(raised.into());
        }
    }

    fn congestion(&mut self, method: &str, event: &CongestionEvent) {
        let facts = CongestionFacts {
            now_ns: since_start(event.now),
            flight_bytes: event.flight_size,
            pipe_bytes: event.pipe,
            repeated: event.repeated,
        };
        let called = Python::attach(|py| self.call(py, method, (facts,)));
        self.told(called);
    }
}

impl CongestionControl for Control {
    fn on_ack(&mut self, ack: &Ack) {
        if self.object.is_none() {
            return;
        }
        let rate = |bytes: u64, ns: u64| u128::from(bytes) * 8_000_000_000 / u128::from(ns.max(1));
        let facts = AckFacts {
            now_ns: since_start(ack.now),
            delivered_bytes: ack.delivered,
            growth_bytes: ack.growth_bytes,
            pipe_before_bytes: ack.pipe_before,
            pipe_bytes: ack.pipe,
            rtt_ns: ack.rtt.map(Duration::nanos),
            srtt_ns: ack.srtt.nanos(),
            delivery_rate_bps: ack
                .rate
                .map(|sample| rate(sample.delivered, sample.interval.nanos()) as u64),
            app_limited: ack.rate.is_some_and(|sample| sample.app_limited),
            may_grow: ack.may_grow,
        };
        let called = Python::attach(|py| self.call(py, "on_ack", (facts,)));
        self.told(called);
    }

    fn on_loss(&mut self, event: &CongestionEvent) {
        self.congestion("on_loss", event);
    }

    fn on_rto(&mut self, event: &CongestionEvent) {
        self.congestion("on_timeout", event);
    }

    fn on_ecn(&mut self, event: &CongestionEvent) {
        self.congestion(if self.has_ecn { "on_ecn" } else { "on_loss" }, event);
    }

    fn on_recovered(&mut self, now: Instant) {
        if self.has_recovered {
            let called = Python::attach(|py| self.call(py, "on_recovered", (since_start(now),)));
            self.told(called);
        }
    }

    fn on_idle_restart(&mut self, rtos: u32) {
        if self.has_idle {
            let called = Python::attach(|py| self.call(py, "on_idle", (rtos,)));
            self.told(called);
        }
    }

    fn cwnd(&self) -> u64 {
        self.cwnd
    }

    fn pacing_rate(&self) -> Option<Bandwidth> {
        self.pacing_rate
    }

    fn in_slow_start(&self) -> bool {
        self.slow_start
    }

    fn wants_rate_samples(&self) -> bool {
        self.samples
    }
}
