//! How well commands under `nine` yield, with the kernel's TCP over emulated links of 10 and 100
//! Mbit/s with 20 ms RTT: the numbers in docs/nine.md.
//! It needs a quiet machine and asserts nothing.
//!
//! ```text cargo bench -p suimon --bench nine [-- [--only TEXT] [--rounds N] [--series DIR]
//! [--picture FILE]] ```
//!
//! The table has for each scenario the median of its rounds and the worst. `--only` selects
//! scenarios by a part of their name; `--series` writes the samples of every 50 ms, one file per
//! round; `--picture` draws the first scenario. Relative paths begin in crates/suimon. The commands
//! run as an ordinary user, also if root runs the bench.

#![expect(clippy::print_stdout, reason = "a bench prints its results")]

#[path = "../tests/nine/rig.rs"]
#[expect(dead_code, reason = "the tests use the rest of it")]
mod rig;
#[path = "nine/scenario.rs"]
mod scenario;

use rig::{BBR, CUBIC, Rig};
use scenario::{BEGINS, ENDS, OVER, RoundResult, RoundSeries, STEP, YieldScenario};
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

/// The argument after this one on the command line.
fn option(name: &str) -> Option<String> {
    let mut words = std::env::args().skip_while(|word| word != name).skip(1);
    words.next()
}

fn scenarios() -> Vec<YieldScenario> {
    let mut scenarios = Vec::new();
    for mbit in [10, 100] {
        let new = |name: &str, low, port, congestion, under_nine, stated| YieldScenario {
            name: format!("{mbit} Mbit/s, {name}"),
            mbit,
            low,
            port,
            congestion,
            under_nine,
            stated,
        };
        scenarios.extend([
            new("stated", 1, CUBIC, "cubic", true, true),
            new("without nine", 1, CUBIC, "cubic", false, true),
            new("auto", 1, CUBIC, "cubic", true, false),
            new("20 low", 20, CUBIC, "cubic", true, true),
            new("20 without nine", 20, CUBIC, "cubic", false, true),
            new("BBR", 1, BBR, "bbr", true, true),
            new("BBR without nine", 1, BBR, "bbr", false, true),
        ]);
    }
    scenarios
}

fn main() {
    let only = option("--only").unwrap_or_default();
    let rounds = option("--rounds").map_or(3, |rounds| rounds.parse().expect("a number"));
    let (series, picture) = (option("--series"), option("--picture"));
    lab::enter().expect("namespaces");
    println!(
        "per cent of the link's payload rate; the other download runs from 6 to 14 s; {rounds} rounds: median | worst"
    );
    println!(
        "{:26} {:>13} {:>13} {:>13} {:>13} {:>13} {:>13} {:>13} {:>11}",
        "", "alone", "other", "from 1 s on", "both", "worst second", "t80", "back", "ms/s"
    );
    for (number, scenario) in scenarios().iter().enumerate() {
        if !scenario.name.contains(only.as_str()) {
            continue;
        }
        let mut results = Vec::new();
        for round in 0..rounds {
            let series_of_round = scenario.run();
            if let Some(directory) = &series {
                let file = Path::new(directory).join(format!(
                    "{}-{round}.tsv",
                    scenario.name.replace(['/', ' ', ','], "")
                ));
                std::fs::write(file, series_of_round.table()).expect("written");
            }
            if let (0, 0, Some(file)) = (number, round, &picture) {
                std::fs::write(file, svg(scenario.mbit as f64, &series_of_round)).expect("written");
            }
            results.push(RoundResult::of(scenario, &series_of_round));
        }
        println!("{:26} {}", scenario.name, RoundResult::line(&results));
    }
    for mbit in [10, 100] {
        if format!("{mbit} Mbit/s, weights").contains(only.as_str()) {
            (0..rounds).for_each(|_: usize| weights(mbit));
        }
    }
}

/// Three commands of weights 1, 2 and 4, alone on the link.
fn weights(mbit: u64) {
    let rig = Rig::new(mbit, scenario::buffer(mbit));
    rig.suimon(&["bottlenet", &format!("{mbit}Mbit/s"), "--interface", "eth0"]);
    let names = ["1", "2", "4"];
    let _low =
        names.map(|name| rig.nine(&["--weight", name, "--", "bash", "-c", &Rig::download(CUBIC, name)]));
    let rates = |seconds: u64| {
        let sent = || names.map(|name| rig.sent(name));
        let before = sent();
        std::thread::sleep(Duration::from_secs(seconds));
        let after = sent();
        [0, 1, 2].map(|n| (after[n] - before[n]) as f64 * 8e-6 / seconds as f64)
    };
    std::thread::sleep(Duration::from_secs(5));
    let rates = rates(15);
    let unit = rates.iter().sum::<f64>() / 7.0;
    println!(
        "{mbit} Mbit/s, weights 1:2:4: {:.2}, {:.2}, {:.2} Mbit/s: {:.2} : {:.2} : {:.2}",
        rates[0],
        rates[1],
        rates[2],
        rates[0] / unit,
        rates[1] / unit,
        rates[2] / unit
    );
}

/// Both rates over time.
fn svg(rate: f64, series: &RoundSeries) -> String {
    let (width, height) = (720.0, 240.0);
    let x = |step: usize| 50.0 + step as f64 / OVER as f64 * width;
    let y = |mbit: f64| 20.0 + height * (1.0 - mbit / (rate * 1.1));
    // Two samples a point: the wire carries whole frames, whose steps would show.
    let line = |rates: &[f64], colour: &str| {
        let points: Vec<String> = rates
            .chunks(2)
            .enumerate()
            .map(|(pair, mbit)| format!("{:.1},{:.1}", x(2 * pair), y(scenario::mean(mbit).max(0.0))))
            .collect();
        format!(
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" points=\"{}\"/>\n",
            points.join(" ")
        )
    };
    let text = |x: f64, y: f64, text: &str| format!("<text x=\"{x:.0}\" y=\"{y:.0}\">{text}</text>\n");
    let mut svg = String::new();
    let _ = writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 800 300\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"800\" height=\"300\" fill=\"white\"/>"
    );
    for part in 0..=2 {
        let mbit = rate * f64::from(part) / 2.0;
        let _ = writeln!(
            svg,
            "<line x1=\"50\" x2=\"770\" y1=\"{0:.1}\" y2=\"{0:.1}\" stroke=\"#ddd\"/>",
            y(mbit)
        );
        svg += &text(8.0, y(mbit) + 4.0, &format!("{mbit:.0}"));
    }
    let step = |second: usize| second * 1_000 / STEP.as_millis() as usize;
    for second in (0..).step_by(2).take_while(|second| step(*second) < OVER) {
        svg += &text(x(step(second)) - 4.0, 278.0, &format!("{second} s"));
    }
    svg += &text(8.0, 12.0, "Mbit/s");
    svg += &line(&series.low, "#b45309");
    svg += &line(&series.other, "#1d4ed8");
    svg += &format!(
        "<g fill=\"#b45309\">{}</g>",
        text(x(BEGINS / 8), 90.0, "the command under nine")
    );
    svg += &format!(
        "<g fill=\"#1d4ed8\">{}</g>",
        text(x((BEGINS + ENDS) / 2 - step(2)), 90.0, "another download")
    );
    svg + "</svg>\n"
}
