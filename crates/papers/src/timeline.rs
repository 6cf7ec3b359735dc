//! The rate of each class over time, while sources come and go: simulated on the paper's test bed,
//! or between kernel sockets in a lab. Both sample the class counters every 400 ms, as the paper's
//! cbqmonitor does.

use crate::Error;
use crate::demo::run::{ClassTraffic, DemoRun};
use crate::testbed::{ATM, DELAY, Testbed};
use control::policy::InterfacePolicy;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use plot::trace::Trace;
use sim::link::Driver;
use sim::tcp;

/// The sampling interval.
pub const STEP: Duration = Duration::from_millis(400);

/// A connection to a class of its own.
#[derive(Clone, Debug)]
pub struct Source {
    /// The class.
    pub class: &'static str,
    /// The port that the policy's filter names; any other for the default class.
    pub port: u16,
    /// Whether it starts at the router (host b) instead of host a.
    pub at_router: bool,
    /// The class's configured rate; `None` for best effort.
    pub target: Option<Bandwidth>,
    /// When it sends.
    pub spans: Vec<(Instant, Instant)>,
}

/// This many seconds after the start.
pub fn at(seconds: f64) -> Instant {
    Instant::from_nanos((seconds * 1e9).round() as u64)
}

impl Source {
    fn joined(&self) -> Instant {
        self.spans.first().map_or(Instant::START, |span| span.0)
    }
}

/// Simulates it on the paper's ATM link.
///
/// # Errors
///
/// Returns an error if the policy lacks a class or the simulation rejects a connection.
pub fn simulated(
    title: &str,
    policy: &InterfacePolicy,
    sources: &[Source],
    end: Instant,
    window: Bytes,
) -> Result<Trace, Error> {
    let mut bed = Testbed::new(&ATM, policy, Driver::default(), DELAY);
    let mut trace = Trace::new(title, policy.settings.bandwidth);
    let mut classes = Vec::new();
    for source in sources {
        let settings = tcp::Settings {
            receive_window: window,
            active: source.spans.clone(),
            ..tcp::Settings::default()
        };
        let from = if source.at_router { bed.b } else { bed.a };
        bed.tcp(from, source.port, source.joined(), settings)?;
        trace.line(source.class, source.target, source.joined());
        let class = policy.plan.class(source.class);
        classes.push(class.ok_or_else(|| Error::new(format!("no class `{}`", source.class)))?);
    }
    let mut now = Instant::START;
    loop {
        bed.sim.run_until(now);
        let departed = bed.departed();
        let counters: Vec<Bytes> = classes.iter().map(|class| departed[class.0 as usize]).collect();
        trace.read(now, &counters);
        if now >= end {
            return Ok(trace);
        }
        now = (now + STEP).min(end);
    }
}

/// More than any of the flows needs: 14 packets of ATM's MTU.
pub const AMPLE: Bytes = Bytes::new(128 << 10);

/// Runs it with the kernel's TCP over the worker of `suimon run`.
///
/// # Errors
///
/// Returns an error if the lab, the worker or a program fails.
pub fn in_lab(
    title: &str,
    policy: &InterfacePolicy,
    sources: &[Source],
    end: Instant,
    watch: &mut dyn FnMut(Instant),
) -> Result<Trace, Error> {
    let run = DemoRun {
        title,
        interface: policy,
        plain: false,
        length: end.since(Instant::START),
        step: STEP,
    };
    let programs: Vec<ClassTraffic> = sources
        .iter()
        .map(|source| ClassTraffic {
            class: source.class.into(),
            target: source.target,
            spans: source.spans.clone(),
        })
        .collect();
    let outcome = run.run(&programs, &mut |trace, _| {
        watch(trace.end());
        Ok(())
    })?;
    Ok(outcome.frames)
}
