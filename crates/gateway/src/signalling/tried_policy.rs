//! What a policy would do to the reservations in force, in words.

use super::overview::flow_view;
use control::policy::InterfacePolicy;
use control::protocol::Refusal;
use engine::bounds::shown;
use rsvp::admission::{AdmissionState, BrokenPromise, Tried};
use rsvp::traffic_control::RHandle;

/// A policy tried with the reservations of its interface.
#[derive(Debug)]
pub struct TriedPolicy {
    /// The policy with the reservations in its tree; none if that refuses them.
    pub whole: Option<InterfacePolicy>,
    /// What breaks, a line each.
    pub breaks: Vec<String>,
    /// The reservations that lose what they were promised.
    pub broken: Vec<RHandle>,
    /// Why no other reservation would be admitted, if none would.
    pub short: Vec<String>,
}

impl TriedPolicy {
    pub(super) fn of(policy: &InterfacePolicy, tried: Tried, admission: &AdmissionState) -> Self {
        let name = &policy.name;
        let (mut breaks, mut short) = (Vec::new(), Vec::new());
        let whole = match tried.layout {
            Ok(layout) => Some(policy.with_reservations(layout)),
            Err(problems) => {
                let why = Refusal::from(problems);
                breaks.push(format!(
                    "{name}: REFUSED: the reservations in force do not fit: {why}"
                ));
                None
            }
        };
        if let Some((taken, capacity)) = tried.over {
            short.push(format!(
                "{name}: the reservations in force take {taken}, and {capacity} may be reserved: no other is admitted"
            ));
        }
        let broken = tried.broken.iter().map(|(rhandle, _)| *rhandle).collect();
        for (rhandle, broken) in tried.broken {
            let whose = whose(rhandle, admission);
            breaks.push(format!("{name}: BREAKS reservation {whose}: {}", words(broken)));
        }
        Self {
            whole,
            breaks,
            broken,
            short,
        }
    }
}

fn whose(rhandle: RHandle, admission: &AdmissionState) -> String {
    let reservation = admission.reservation(rhandle);
    let flow = reservation.and_then(|reservation| reservation.flows.first());
    match flow {
        Some((session, sender)) => format!("{} ({})", rhandle.0, flow_view(session, sender)),
        None => rhandle.0.to_string(),
    }
}

fn words(broken: BrokenPromise) -> String {
    match broken {
        BrokenPromise::Delay {
            promised,
            bound: Some(bound),
        } => {
            format!(
                "a delay of {} was promised, and {} would be kept",
                shown(promised),
                shown(bound)
            )
        }
        BrokenPromise::Delay {
            promised,
            bound: None,
        } => {
            format!(
                "a delay of {} was promised, and none would be kept",
                shown(promised)
            )
        }
        BrokenPromise::Datagrams(longest) => format!("its datagrams of {longest} B would be too long"),
    }
}
