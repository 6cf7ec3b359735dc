//! I1 to I5 between sockets: the flows of Table 2 by UDP between two network namespaces, over the
//! lab's link of 10 Mbit/s with the same policy.
//!
//! The link is a thread. It computes the exact start time of each frame, but forwards the frame
//! when it wakes up. Rows of their own report how late it was, how late the senders were, and what
//! the lab adds to a packet on an idle link. Every delay includes all of that, as measured.

use super::delay_tables::{
    BurstFlow, DelayRequirement, FLOWS, FRAME_TIME, Measurement, SHOWN, WITHIN, rounded,
};
use super::{ClaimVerdict, Options, Progress, Row, RowValue};
use crate::Error;
use control::policy::InterfacePolicy;
use engine::inspect::{Value, View};
use engine::random::Seed;
use lab::traffic::generator::TrafficShape;
use lab::traffic::udp::{Stream, StreamReport, StreamRun};
use lab::{Address, EmulatedLink, Emulator, Host, Lab};
use scenario::lab::ruled;
use std::net::Ipv4Addr;
use std::time::Duration;

/// How it is measured.
pub const REMARK: &str = "lab: the same flows between sockets of two network namespaces, over the lab's \
    link with the same policy: 20 s to settle, then 2,000 packets of flow 1 (quick: 6 s and 400). Delays \
    run from the sender's system call to the receiver's, as programs see them, so the machine's own time \
    and late wake-ups of its threads count against us. No ring.";

const SENDER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
/// The payload of a full frame: 1,500 bytes of IP less the IP and UDP headers.
const PAYLOAD: usize = 1_472;
/// The transmission time of a full frame at 10 Mbit/s.
const ON_THE_LINK: Duration = Duration::from_nanos(1_518 * 800);
/// The number of packets sent on an idle link.
const ALONE: u64 = 200;
/// The sixth of a burst of flow 1 is later than this on an idle link: 5 times (1,214 - 301) us
/// after the first, and its own time.
const SOON: Duration = Duration::from_millis(5);
/// By how much the rate of a flow may differ from the paper's.
const OFFERED: f64 = 0.03;
/// Of the packets without a guarantee so many at least, in per cent, are within 40 ms.
const SERVED: f64 = 40.0;

/// The result of one measurement. Lateness: the 99th percentile and the maximum.
struct LabDelays {
    delays: Vec<Duration>,
    /// Loss of flow 1, in per cent.
    loss: f64,
    /// The rate of IP packets of each flow, in Mbit/s.
    rates: Vec<f64>,
    /// `ips`'s counters of flow 1: packets late by the link's own clock, and policed packets.
    late: Option<u64>,
    policed: Option<u64>,
    alone: [Duration; 2],
    sender: [Duration; 2],
    link: [Duration; 2],
}

/// The rows of the lab, or why there are none.
///
/// # Errors
///
/// Returns an error if the lab or a program fails.
pub fn rows(
    measurement: &Measurement,
    policy: &InterfacePolicy,
    options: &Options,
    progress: &mut dyn Progress,
) -> Result<Vec<Row>, Error> {
    if let Err(why) = &options.lab {
        let row = |(&micros, &paper): (&u64, &Option<f64>)| {
            Row::unmeasured(
                within(micros),
                paper.map_or(RowValue::Nothing, RowValue::Number),
                "%",
                why,
            )
        };
        return Ok(WITHIN.iter().zip(&measurement.paper).map(row).collect());
    }
    let (settle, packets) = match options.quick {
        true => (Duration::from_secs(6), 400),
        false => (Duration::from_secs(20), 2_000),
    };
    progress.show(0.99, "sockets in the lab");
    let lab_delays = measure(policy, settle, packets)?;
    Ok(judged(measurement, &lab_delays))
}

fn within(micros: u64) -> String {
    format!("lab: within {} ms", micros as f64 / 1_000.0)
}

fn judged(measurement: &Measurement, lab_delays: &LabDelays) -> Vec<Row> {
    let ask = |index: usize, ours: f64| match measurement.requirement(index) {
        DelayRequirement::Kept(_) => (
            (ours >= 95.0).into(),
            "Required: 95 %, since nothing guarantees when the machine's threads run. In simulated time: \
             every packet.",
        ),
        DelayRequirement::NotKept(_) => (
            (90.0..100.0).contains(&ours).into(),
            "Required: 90 %, 5 points less than in simulated time, and not every packet.",
        ),
        DelayRequirement::Scattered(guaranteed) if WITHIN[index] == 40_000 => (
            (SERVED..guaranteed).contains(&ours).into(),
            "Required: less than the paper has with this delay guaranteed, and two fifths: its class, or the \
             queue of all, has its rate.",
        ),
        DelayRequirement::Scattered(guaranteed) => (
            (ours < guaranteed).into(),
            "Required: less than the paper has with this delay guaranteed. The lower side is that of 40 ms.",
        ),
        DelayRequirement::Nothing => (ClaimVerdict::Orientation, SHOWN),
    };
    let mut rows = Vec::new();
    for (index, &micros) in WITHIN.iter().enumerate() {
        let limit = Duration::from_micros(micros);
        let kept = lab_delays.delays.iter().filter(|&&delay| delay <= limit).count();
        let ours = kept as f64 * 100.0 / lab_delays.delays.len().max(1) as f64;
        rows.push(row(
            within(micros),
            measurement.paper[index],
            ours,
            "%",
            ask(index, ours),
        ));
    }
    rows.push(queued(lab_delays));
    let note = "For comparison. Losses of the guaranteed flow are policed packets: its arrival curve has \
        only 0.05 % more than its rate, so after a burst that its sender sent late, the next one, on time, \
        is too early. The paper's loss may have the same cause.";
    rows.push(row(
        "lab: loss of flow 1".into(),
        Some(measurement.loss),
        lab_delays.loss,
        "%",
        (ClaimVerdict::Orientation, note),
    ));
    for (number, (flow, &rate)) in FLOWS.iter().zip(&lab_delays.rates).enumerate() {
        let what = format!("lab: rate of flow {}, as IP", number + 1);
        let is_there = (rate / flow.paper - 1.0).abs() <= OFFERED;
        rows.push(row(
            what,
            Some(flow.paper),
            rate,
            "Mbit/s",
            (
                is_there.into(),
                "Required: within 3 % of the paper's: the load was there.",
            ),
        ));
    }
    if let Some(late) = lab_delays.late {
        let note = "For comparison. The paper's rule ignores the packet on the wire; the gaps between \
            frames compensate for it, but a sender that was late sends without gaps.";
        let what = "lab: late packets of flow 1 that `ips` counted".into();
        rows.push(row(
            what,
            None,
            late as f64,
            "packets",
            (ClaimVerdict::Orientation, note),
        ));
    }
    if let Some(policed) = lab_delays.policed {
        let what = "lab: packets of flow 1 that were policed".into();
        rows.push(row(
            what,
            None,
            policed as f64,
            "packets",
            (ClaimVerdict::Orientation, SHOWN),
        ));
    }
    rows.extend(noise(lab_delays));
    rows
}

/// How many packets were delivered so soon that they cannot have queued for long.
fn queued(lab_delays: &LabDelays) -> Row {
    let soon = lab_delays.delays.iter().filter(|&&delay| delay <= SOON).count();
    let ours = soon as f64 * 100.0 / lab_delays.delays.len().max(1) as f64;
    let note = "Required: at most 75 %. A burst of eight packets that comes at 100 Mbit/s waits for itself: even alone \
        on the link, three of the eight take longer. So there was a queue.";
    row(
        "lab: within 5 ms".into(),
        None,
        ours,
        "%",
        ((ours <= 75.0 && !lab_delays.delays.is_empty()).into(), note),
    )
}

fn row(
    what: String,
    paper: Option<f64>,
    ours: f64,
    unit: &str,
    (verdict, note): (ClaimVerdict, &str),
) -> Row {
    Row {
        what,
        paper: paper.map_or(RowValue::Nothing, RowValue::Number),
        ours: rounded(ours).into(),
        unit: unit.into(),
        verdict,
        note: note.into(),
    }
}

/// What the machine adds.
fn noise(lab_delays: &LabDelays) -> Vec<Row> {
    let noise = [
        ("excess delay on the idle link over its 1.21 ms", lab_delays.alone),
        ("lateness of flow 1's sender", lab_delays.sender),
        ("lateness of the link's thread", lab_delays.link),
    ];
    let parts = noise.into_iter().flat_map(|(what, late)| {
        let parts = ["99th percentile", "maximum"].into_iter().zip(late);
        parts.map(move |(part, late)| (format!("lab: {what}, {part}"), late))
    });
    parts
        .map(|(what, late)| {
            let millis = late.as_secs_f64() * 1e3;
            row(what, None, millis, "ms", (ClaimVerdict::Orientation, SHOWN))
        })
        .collect()
}

fn shape(flow: &BurstFlow, duration: Duration) -> TrafficShape {
    let bursts = duration.as_nanos() as u64 / flow.period + 1;
    TrafficShape {
        payload: PAYLOAD,
        interval: Duration::from_nanos(flow.gap + FRAME_TIME),
        burst: flow.frames as u32,
        period: Duration::from_nanos(flow.period),
        count: bursts * flow.frames,
    }
}

fn measure(policy: &InterfacePolicy, settle: Duration, packets: u64) -> Result<LabDelays, Error> {
    let mut lab = Lab::new();
    let (sender, receiver) = (lab.host("sender")?, lab.host("receiver")?);
    let link = EmulatedLink::new(policy.settings.bandwidth);
    lab.link(
        (&sender, "eth0"),
        (&receiver, "eth0"),
        ruled(link.clone(), policy, Seed(1)),
        link,
    )?;
    for (host, ip) in [(&sender, SENDER), (&receiver, RECEIVER)] {
        host.address("eth0", Address::new(ip, 24))?;
    }
    let start = |number: usize, shape: TrafficShape, from: &Host, to: &Host| {
        let to_address = (RECEIVER, 9_001 + number as u16).into();
        Stream {
            to: to_address,
            shape,
        }
        .start(from, to)
    };
    // The first run resolves addresses.
    for count in [3, ALONE] {
        let alone = start(
            0,
            TrafficShape::even(PAYLOAD, Duration::from_millis(10), count),
            &sender,
            &receiver,
        )?
        .finish()?;
        if count == ALONE {
            let before = counts(&lab, policy);
            return flows(
                policy,
                &lab,
                (settle, packets),
                before,
                added(&alone),
                |number, shape| start(number, shape, &sender, &receiver),
            );
        }
    }
    Err(Error::new("nothing was sent"))
}

/// The delay that the lab adds to a packet on an idle link.
fn added(report: &StreamReport) -> [Duration; 2] {
    [0.99, 1.0].map(|share| {
        report
            .delay(share)
            .unwrap_or_default()
            .saturating_sub(ON_THE_LINK)
    })
}

/// Late and policed packets of flow 1 so far, if the discipline counts them.
fn counts(lab: &Lab, policy: &InterfacePolicy) -> [Option<u64>; 2] {
    let flow = policy.plan.class("flow-1");
    let snapshot = lab.links()[0].inspect().ok();
    let views = snapshot.map(|snapshot| {
        snapshot
            .paths
            .into_iter()
            .nth(Emulator::FORTH.0)
            .map(|path| path.views)
    });
    let view: Option<View> = views
        .flatten()
        .into_iter()
        .flatten()
        .find(|view| flow.is_some() && view.class == flow);
    ["late", "policed"].map(|name| {
        let gauge = view.as_ref()?.gauges.iter().find(|(gauge, _)| *gauge == name)?;
        match gauge.1 {
            Value::Count(count) => Some(count),
            _ => None,
        }
    })
}

fn flows(
    policy: &InterfacePolicy,
    lab: &Lab,
    (settle, packets): (Duration, u64),
    before: [Option<u64>; 2],
    alone: [Duration; 2],
    start: impl Fn(usize, TrafficShape) -> lab::Result<StreamRun>,
) -> Result<LabDelays, Error> {
    // A few bursts more, to make up for lost ones.
    let span = Duration::from_nanos(FLOWS[0].period) * (packets / FLOWS[0].frames) as u32 * 6 / 5;
    let runs: Vec<StreamRun> = FLOWS
        .iter()
        .enumerate()
        .map(|(number, flow)| start(number, shape(flow, settle + span)))
        .collect::<lab::Result<_>>()?;
    let reports: Vec<StreamReport> = runs
        .into_iter()
        .map(StreamRun::finish)
        .collect::<lab::Result<_>>()?;
    let counted = |arrivals: &StreamReport| {
        let of = |sent: Duration| sent >= settle && sent < settle + span;
        arrivals
            .arrivals
            .iter()
            .filter(|arrival| of(arrival.sent))
            .count()
    };
    let rate = |report: &StreamReport| counted(report) as f64 * 12_000.0 / span.as_secs_f64() / 1e6;
    let first: Vec<_> = reports[0]
        .arrivals
        .iter()
        .filter(|arrival| arrival.sent >= settle)
        .take(packets as usize)
        .collect();
    let numbers = || first.iter().map(|arrival| arrival.number);
    let sent = numbers()
        .max()
        .zip(numbers().min())
        .map_or(1, |(last, first)| last - first + 1);
    let after = counts(lab, policy);
    let [late, policed] = [0, 1].map(|n| Some(after[n]? - before[n].unwrap_or(0)));
    let snapshot = lab.links()[0].inspect().map_err(|e| Error::new(e.to_string()))?;
    let lateness = &snapshot.paths[Emulator::FORTH.0].lateness;
    let nanos = |late: engine::units::Duration| Duration::from_nanos(late.nanos());
    Ok(LabDelays {
        delays: first.iter().map(|arrival| arrival.delay()).collect(),
        loss: (1.0 - first.len() as f64 / sent as f64) * 100.0,
        rates: reports.iter().map(rate).collect(),
        late,
        policed,
        alone,
        sender: reports[0].late,
        link: [nanos(lateness.quantile(990)), nanos(lateness.longest())],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delay_tables::MEASUREMENTS;

    /// What is judged of a measurement whose packets take these milliseconds, by the rows' names.
    fn verdicts(number: usize, delays: &[u64], rates: [f64; 4]) -> Vec<(String, bool)> {
        let nothing = [Duration::ZERO; 2];
        let lab_delays = LabDelays {
            delays: delays.iter().map(|&ms| Duration::from_millis(ms)).collect(),
            loss: 0.0,
            rates: rates.to_vec(),
            late: None,
            policed: None,
            alone: nothing,
            sender: nothing,
            link: nothing,
        };
        let rows = judged(&MEASUREMENTS[number - 1], &lab_delays).into_iter();
        let rows = rows.filter(|row| !matches!(row.verdict, ClaimVerdict::Orientation));
        rows.map(|row| (row.what.clone(), row.is_shown())).collect()
    }

    const RATES: [f64; 4] = [1.91, 3.10, 1.96, 2.95];

    fn missed(number: usize, delays: &[u64], rates: [f64; 4]) -> Vec<String> {
        let all = verdicts(number, delays, rates).into_iter();
        all.filter(|(_, shown)| !shown).map(|(what, _)| what).collect()
    }

    #[test]
    fn a_lab_without_a_load_or_a_queue_shows_nothing_about_delays() {
        let burst = [1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(missed(1, &burst, RATES), [""; 0]);
        assert_eq!(missed(1, &[1; 8], RATES), ["lab: within 5 ms"], "no queue");
        assert_eq!(
            missed(1, &[], RATES).last().map(String::as_str),
            Some("lab: within 5 ms")
        );
        let half = RATES.map(|rate| rate / 2.0);
        assert_eq!(missed(1, &burst, half).len(), 4, "half of the load");
        let late = [6, 7, 8, 9, 10, 11, 12, 13];
        assert_eq!(
            missed(1, &late, RATES),
            ["lab: within 10 ms", "lab: within 9.7 ms"]
        );
    }

    #[test]
    fn what_is_not_guaranteed_scatters_and_is_served() {
        // Half of them are late, and all are within 40 ms, or none is.
        let scattered = [6, 15, 18, 25, 30, 35, 45, 60];
        assert_eq!(missed(5, &scattered, RATES), [""; 0]);
        assert_eq!(missed(5, &[30; 8], RATES), ["lab: within 40 ms"], "a guarantee");
        assert_eq!(missed(5, &[90; 8], RATES), ["lab: within 40 ms"], "a dead link");
        assert_eq!(missed(3, &[30; 8], RATES), ["lab: within 40 ms"], "every packet");
        let nearly = [vec![30; 95], vec![50; 5]].concat();
        assert_eq!(missed(3, &nearly, RATES), [""; 0]);
    }

    #[test]
    fn flows_of_a_lab_send_as_in_table_2() {
        for flow in &FLOWS {
            let shape = shape(flow, Duration::from_secs(20));
            let rate = shape.count as f64 * 12_000.0 / shape.due(shape.count).as_secs_f64() / 1e6;
            assert!(
                (rate / flow.paper - 1.0).abs() < 0.02,
                "{rate}, not {} Mbit/s",
                flow.paper
            );
        }
    }
}
