//! Outcomes as JSON: one object on one line for each point. The unit of a number is part of its
//! name.

use crate::run::outcome::LiveOutcome;
use crate::run::outcome::{
    ClassOutcome, FlowOutcome, Judgement, KeptContract, LinkOutcome, MediumOutcome, Outcome, Passed,
    ProgramEnd, ProgramOutcome, ReservationOutcome,
};
use engine::units::Duration;
use measure::delay::FineDelays;
use measure::impairments::ImpairmentCounts;
use serde_json::{Map, Value, json};

/// The version of the format. It is incremented when a field changes its meaning or is removed.
pub const VERSION: u32 = 1;

/// One point.
pub fn point(outcome: &Outcome) -> Value {
    let values = outcome.point.values.iter();
    let values: Map<String, Value> = values.map(|(name, value)| (name.clone(), json!(value))).collect();
    let mut all = json!({
        "version": VERSION,
        "scenario": outcome.scenario,
        "point": outcome.point.number,
        "points": outcome.point.of,
        "sweep": values,
        "duration_ns": outcome.duration.nanos(),
        "events": outcome.events,
        "links": outcome.links.iter().map(link).collect::<Vec<_>>(),
        "flows": outcome.flows.iter().map(flow).collect::<Vec<_>>(),
        "reservations": outcome.reservations.iter().map(reservation).collect::<Vec<_>>(),
        "expectations": outcome.expectations.iter().map(judgement).collect::<Vec<_>>(),
        "met": outcome.expectations.iter().all(|judgement| judgement.met),
    });
    if !outcome.media.is_empty() {
        all["media"] = outcome.media.iter().map(medium).collect();
    }
    if let Some(explained) = &outcome.explained {
        all["explained"] = json!(explained);
    }
    all
}

/// What a lab measured.
pub fn live(outcome: &LiveOutcome) -> Value {
    json!({
        "version": VERSION,
        "scenario": outcome.scenario,
        "duration_ns": outcome.duration.nanos(),
        "flows": outcome.flows.iter().map(flow).collect::<Vec<_>>(),
        "reservations": outcome.reservations.iter().map(reservation).collect::<Vec<_>>(),
        "programs": outcome.programs.iter().map(program).collect::<Vec<_>>(),
        "held_up_ns": outcome.held_up.as_ref().map_or(0, |(_, late)| late.nanos()),
        "expectations": outcome.expectations.iter().map(judgement).collect::<Vec<_>>(),
        "met": outcome.expectations.iter().all(|judgement| judgement.met),
    })
}

fn medium(medium: &MediumOutcome) -> Value {
    json!({
        "name": medium.name,
        "busy_ns": medium.counts.busy.nanos(),
        "transmissions": medium.counts.transmissions,
        "collisions": medium.counts.collisions,
        "given_up_packets": medium.counts.given_up,
    })
}

fn delays(delays: &FineDelays) -> Value {
    if delays.count() == 0 {
        return Value::Null;
    }
    json!({
        "mean_ns": delays.mean().nanos(),
        "p50_ns": delays.quantile(500).nanos(),
        "p99_ns": delays.quantile(990).nanos(),
        "max_ns": delays.longest().nanos(),
    })
}

fn passed(passed: &Passed) -> Value {
    let drops: Map<String, Value> = passed
        .dropped
        .iter()
        .map(|(why, n)| ((*why).to_owned(), json!(n)))
        .collect();
    json!({
        "rate_bps": passed.rate.bits(),
        "sent_packets": passed.packets,
        "sent_bytes": passed.bytes,
        "delay": delays(&passed.waited),
        "dropped_packets": passed.drops(),
        "drops": drops,
        "marked_packets": passed.marked,
        "backlog_max_bytes": passed.backlog.most().bytes.get(),
        "backlog_p99_bytes": passed.backlog.bytes(990).get(),
    })
}

fn link(link: &LinkOutcome) -> Value {
    let mut value = passed(&link.total);
    value["name"] = json!(link.name);
    value["bandwidth_bps"] = json!(link.rate.bits());
    value["discipline"] = json!(link.discipline);
    let class = |class: &ClassOutcome| {
        let mut value = passed(&class.passed);
        value["name"] = json!(class.name);
        value["parent"] = json!(class.parent.map(|parent| link.classes[parent].name.as_str()));
        value["leaf"] = json!(class.leaf);
        value["asked_bps"] = json!(class.target.map(|target| target.bits()));
        value["borrowed_bytes"] = json!(class.borrowed.map(|bytes| bytes.get()));
        value
    };
    let ImpairmentCounts {
        lost,
        corrupted,
        duplicated,
        overtaken,
    } = link.impaired;
    value["wire"] = json!({
        "lost_packets": lost,
        "corrupted_packets": corrupted,
        "duplicated_packets": duplicated,
        "overtaken_packets": overtaken,
    });
    value["classes"] = link.classes.iter().map(class).collect();
    value
}

fn flow(flow: &FlowOutcome) -> Value {
    let counts: Map<String, Value> = flow
        .counts
        .iter()
        .map(|(name, n)| ((*name).to_owned(), json!(n)))
        .collect();
    let mut value = json!({
        "name": flow.name,
        "kind": flow.kind,
        "from": flow.from,
        "to": flow.to,
        "start_ns": flow.start.nanos(),
        "rate_bps": flow.rate.bits(),
        "received_bytes": flow.bytes,
        "copies_bytes": flow.copies,
        "delay": flow.delays.as_ref().map_or(Value::Null, delays),
        "counts": counts,
    });
    if let Some(played) = &flow.playback {
        value["video"] = json!({
            "bitrate_bps": played.bitrate().bits(),
            "segments": played.segments,
            "switches": played.switches,
            "stalls": played.stalls,
            "stalled_ns": played.stalled.nanos(),
            "startup_ns": played.startup.nanos(),
            "playing": played.begun,
        });
    }
    value
}

fn reservation(reservation: &ReservationOutcome) -> Value {
    let events = reservation.events.iter();
    let events = events.map(|(at, what)| json!({ "at_ns": at.nanos(), "what": what }));
    json!({
        "name": reservation.name,
        "flow": reservation.flow,
        "in_force_ns": reservation.in_force.nanos(),
        "delay": reservation.delay.map(|delay| json!({
            "promised_ns": delay.promised.nanos(),
            "bound_ns": delay.bound.map(Duration::nanos),
            "measured_ns": delay.measured.map(Duration::nanos),
        })),
        "contract": reservation.contract.as_ref().map(contract),
        "events": events.collect::<Vec<_>>(),
    })
}

fn contract(contract: &KeptContract) -> Value {
    json!({
        "at": contract.at,
        "packets": contract.packets,
        "exceeded": contract.exceeded,
        "earliest_ns": contract.earliest.nanos(),
        "policed": contract.policed,
        "held_up": contract.held_up,
        "longest_hold_up_ns": contract.longest.nanos(),
        "lost": contract.lost,
        "late": contract.late,
        "hops": contract.hops.iter().map(|hop| json!({
            "at": hop.at,
            "bound_ns": hop.bound.nanos(),
            "worst_ns": hop.worst.nanos(),
            "late": hop.late,
            "exceeded": hop.exceeded,
        })).collect::<Vec<_>>(),
    })
}

fn program(program: &ProgramOutcome) -> Value {
    let (exit_code, signal) = match program.ended {
        ProgramEnd::Exited(code) => (Some(code), None),
        ProgramEnd::Killed(signal) => (None, Some(signal)),
        ProgramEnd::Stopped => (None, None),
    };
    json!({
        "name": program.name,
        "host": program.host,
        "exit_code": exit_code,
        "signal": signal,
        "stopped": program.ended == ProgramEnd::Stopped,
        "stdout": program.out,
        "stderr": program.err,
    })
}

fn judgement(judgement: &Judgement) -> Value {
    json!({
        "what": judgement.what,
        "expected": judgement.expected,
        "got": judgement.got,
        "value": judgement.value,
        "unit": judgement.unit,
        "met": judgement.met,
        "missed_by": (!judgement.met).then_some(&judgement.missed_by),
        "held_up": judgement.held_up.as_ref().map(|held_up| json!({
            "packets": held_up.packets,
            "longest_ns": held_up.longest.nanos(),
            "value": held_up.value,
            "got": held_up.got,
            "apart_packets": held_up.apart.packets,
            "judged_apart": held_up.apart.are_few(),
            "others": held_up.apart.others,
            "stood_still": held_up.apart.times,
            "stood_still_longest_ns": held_up.apart.longest.nanos(),
        })),
    })
}
