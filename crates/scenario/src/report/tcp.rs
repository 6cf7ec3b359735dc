//! The variables of sending TCPs over time, of the simulator and of the lab's kernel beside it: as
//! CSV, a line for each sample, and as a chart of cwnd, round-trip times and retransmissions.

use crate::report::csv::field;
use crate::run::outcome::{FlowOutcome, TcpSample};
use engine::units::{Duration, Instant};
use plot::svg::PALETTE;
use plot::{Axis, AxisUnit, Plot, Series, Stroke, picture as drawn};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The header line.
pub const HEADER: &str = "place,flow,at_ns,cwnd_bytes,rtt_ns,retransmissions\n";

/// The flows in a chart at most; those that got the most.
const MOST: usize = 4;

/// A file for the variables, whose ending chooses their form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TcpRequest(PathBuf);

impl FromStr for TcpRequest {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match Path::new(text).extension().and_then(|ending| ending.to_str()) {
            Some("svg" | "csv") => Ok(Self(text.into())),
            _ => Err("write a file that ends in .svg, for a chart, or in .csv".into()),
        }
    }
}

/// Flows that ran in one place.
#[derive(Clone, Copy, Debug)]
pub struct TcpPlace<'a> {
    /// Its name.
    pub name: &'static str,
    /// They.
    pub flows: &'a [FlowOutcome],
}

impl TcpRequest {
    /// The file.
    pub fn file(&self) -> &Path {
        &self.0
    }

    /// Its text: of a scenario of this name and duration, in these places. Lines of a chart are
    /// solid for the first place, and dashed for others.
    pub fn text(&self, scenario: &str, duration: Duration, places: &[TcpPlace<'_>]) -> String {
        match self.0.extension() {
            Some(ending) if ending == "csv" => csv(places),
            _ => picture(scenario, duration, places),
        }
    }
}

fn csv(places: &[TcpPlace<'_>]) -> String {
    let mut text = HEADER.to_owned();
    for TcpPlace { name, flows } in places {
        for flow in *flows {
            let of = field(&flow.name);
            for sample in &flow.tcp {
                let (at, cwnd, rtt) = (sample.at.nanos(), sample.cwnd.get(), sample.rtt.nanos());
                // Writing into a string does not fail.
                let _ = writeln!(text, "{name},{of},{at},{cwnd},{rtt},{}", sample.retransmissions);
            }
        }
    }
    text
}

fn picture(scenario: &str, duration: Duration, places: &[TcpPlace<'_>]) -> String {
    let chosen = chosen(places);
    let panel = |title: &str, unit: AxisUnit, value: &dyn Fn(&TcpSample) -> f64| Plot {
        title: title.into(),
        x: Axis::new("time", AxisUnit::Time).between(0.0, duration.as_secs_f64()),
        y: Axis::new("", unit),
        series: series(places, &chosen, value),
        ..Plot::default()
    };
    let cwnd = panel("Congestion window", AxisUnit::Bytes, &|one| one.cwnd.get() as f64);
    let rtt = panel("Smoothed round-trip time", AxisUnit::Time, &|one| {
        one.rtt.as_secs_f64()
    });
    let again = panel("Segments sent again", AxisUnit::Number(""), &|one| {
        one.retransmissions as f64
    });
    drawn(scenario, &[cwnd, rtt, again])
}

/// The names of the flows that are drawn: those that got the most in the first place.
fn chosen<'a>(places: &[TcpPlace<'a>]) -> Vec<&'a str> {
    let flows = places.first().map_or(&[][..], |place| place.flows);
    let mut flows: Vec<_> = flows.iter().filter(|flow| !flow.tcp.is_empty()).collect();
    flows.sort_by_key(|flow| std::cmp::Reverse(flow.bytes));
    flows.iter().take(MOST).map(|flow| flow.name.as_str()).collect()
}

fn series(places: &[TcpPlace<'_>], chosen: &[&str], value: &dyn Fn(&TcpSample) -> f64) -> Vec<Series> {
    let seconds = |at: Instant| at.since(Instant::START).as_secs_f64();
    let mut series = Vec::new();
    for (number, TcpPlace { name: place, flows }) in places.iter().enumerate() {
        for (which, name) in chosen.iter().enumerate() {
            let Some(flow) = flows.iter().find(|flow| flow.name == *name) else {
                continue;
            };
            let points = flow.tcp.iter().map(|one| (seconds(one.at), value(one)));
            let label = match places.len() {
                1 => flow.name.clone(),
                _ => format!("{name}: {place}"),
            };
            series.push(Series {
                stroke: if number == 0 {
                    Stroke::Solid
                } else {
                    Stroke::Dashed
                },
                ..Series::new(&label, points.collect()).in_paint(PALETTE[which])
            });
        }
    }
    series
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::units::{Bandwidth, Bytes};

    #[test]
    fn lines_say_which_place_and_a_chart_has_both() {
        let sample = TcpSample {
            at: Instant::from_nanos(7),
            cwnd: Bytes::new(14_480),
            rtt: Duration::from_millis(40),
            retransmissions: 3,
        };
        let flow = FlowOutcome {
            name: "download".into(),
            kind: "tcp cubic".into(),
            from: "server".into(),
            to: "home".into(),
            start: Instant::START,
            copies: vec![1],
            bytes: 1,
            rate: Bandwidth::kbit(1),
            series: Vec::new(),
            delays: None,
            one_way: false,
            playback: None,
            counts: Vec::new(),
            tcp: vec![sample],
        };
        let flows = &[flow][..];
        let places = ["kernel", "simulator"].map(|name| TcpPlace { name, flows });
        let text = |file: &str| {
            let request: TcpRequest = file.parse().expect("an ending");
            request.text("s", Duration::from_secs(1), &places)
        };
        let line = |place: &str| format!("{place},download,7,14480,40000000,3\n");
        let all = format!("{HEADER}{}{}", line("kernel"), line("simulator"));
        assert_eq!(text("a.csv"), all);
        let drawn = text("a.svg");
        for part in [
            "download: kernel",
            "download: simulator",
            "Congestion window",
            "Smoothed round-trip time",
            "Segments sent again",
        ] {
            assert!(drawn.contains(part), "{part} is missing");
        }
        assert!("a.png".parse::<TcpRequest>().is_err() && "csv".parse::<TcpRequest>().is_err());
    }
}
