//! How well commands under `nine` yield, with the kernel's TCP over emulated links of 10 and 100 Mbit/s and 20 ms: the figures
//! of docs/nine.md. A quiet machine is needed; nothing is judged.
//!
//! `cargo bench -p suimon --bench nine [-- --picture FILE]`: a table, and the first course as a picture. As root it is run as an
//! ordinary user all the same.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

#[path = "../tests/nine/rig.rs"]
#[expect(dead_code, reason = "the tests use the rest of it")]
mod rig;

use rig::{BBR, CUBIC, Rig};
use std::fmt::Write;
use std::time::{Duration, Instant};

/// What of a full frame is payload.
const PAYLOAD: f64 = 1448.0 / 1514.0;
const STEP: Duration = Duration::from_millis(100);
/// When the other download begins and ends, and when all ends, in steps.
const BEGINS: usize = 60;
const ENDS: usize = 140;
const OVER: usize = 190;

/// What is run: low connections under nine, and one other download from 6 to 14 s.
struct Course {
    name: &'static str,
    mbit: u64,
    buffer: u64,
    low: usize,
    port: u16,
    congestion: &'static str,
    under_nine: bool,
    stated: bool,
}

/// Of each step, in Mbit/s of frames: the link, and the other download.
struct Seen {
    link: Vec<f64>,
    other: Vec<f64>,
}

impl Course {
    fn run(&self) -> Seen {
        let rig = Rig::new(self.mbit, self.buffer);
        if self.stated {
            rig.suimon(&[
                "bottlenet",
                &format!("{}Mbit/s", self.mbit),
                "--interface",
                "eth0",
            ]);
        }
        let script = format!(
            "for n in $(seq {}); do bash -c '{}' & done; wait",
            self.low,
            Rig::download(self.port, "low")
        );
        let _low = match self.under_nine {
            true => rig.nine(&["--", "bash", "-c", &script]),
            false => rig
                .home
                .program("bash")
                .args(["-c", &script])
                .start()
                .expect("bash runs"),
        };
        let (mut link, mut other) = (Vec::new(), Vec::new());
        let mut high = None;
        let (mut before, mut received, mut at) = (rig.received(), 0, Instant::now());
        for step in 0..OVER {
            if step == BEGINS {
                high = Some(rig.high(self.congestion, STEP * (ENDS - BEGINS) as u32));
            }
            if step == ENDS
                && let Some(high) = high.take()
            {
                high.stop();
                drop(high);
                received = 0;
            }
            std::thread::sleep(STEP.saturating_sub(at.elapsed()));
            let seconds = at.elapsed().as_secs_f64();
            at = Instant::now();
            let now = rig.received();
            link.push((now - before) as f64 * 8e-6 / seconds);
            let got = high.as_ref().map_or(0, |high| high.received());
            other.push(got.saturating_sub(received) as f64 * 8e-6 / seconds / PAYLOAD);
            (before, received) = (now, got);
        }
        Seen { link, other }
    }
}

fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len().max(1) as f64
}

/// After how many seconds half a second has this rate; none if never.
fn reaches(rates: &[f64], rate: f64) -> Option<f64> {
    let first = rates.windows(5).position(|half| mean(half) >= rate)?;
    Some(first as f64 * STEP.as_secs_f64())
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let picture = words
        .iter()
        .position(|word| word == "--picture")
        .and_then(|at| words.get(at + 1));
    lab::enter().expect("namespaces");
    let course = |name, mbit, low, port, congestion, under_nine, stated| Course {
        name,
        mbit,
        buffer: if mbit > 50 { 256 << 10 } else { 64 << 10 },
        low,
        port,
        congestion,
        under_nine,
        stated,
    };
    let courses = [
        course("10 Mbit/s, one low, stated", 10, 1, CUBIC, "cubic", true, true),
        course("10 Mbit/s, without nine", 10, 1, CUBIC, "cubic", false, true),
        course("10 Mbit/s, one low, auto", 10, 1, CUBIC, "cubic", true, false),
        course("10 Mbit/s, 20 low", 10, 20, CUBIC, "cubic", true, true),
        course("10 Mbit/s, BBR senders", 10, 1, BBR, "bbr", true, true),
        course("100 Mbit/s, one low, stated", 100, 1, CUBIC, "cubic", true, true),
        course("100 Mbit/s, without nine", 100, 1, CUBIC, "cubic", false, true),
        course("100 Mbit/s, 20 low", 100, 20, CUBIC, "cubic", true, true),
        course("100 Mbit/s, BBR senders", 100, 1, BBR, "bbr", true, true),
    ];
    println!("shares of the link's rate; the other download runs from 6 to 14 s");
    println!(
        "{:30} {:>7} {:>7} {:>7} {:>7} {:>6} {:>6}",
        "", "alone", "other", "from 1s", "total", "t80", "back"
    );
    let only = words
        .iter()
        .position(|word| word == "--only")
        .and_then(|at| words.get(at + 1));
    for (number, course) in courses.iter().enumerate() {
        if only.is_some_and(|only| !course.name.contains(only.as_str())) {
            continue;
        }
        let seen = course.run();
        let share = |rates: &[f64]| 100.0 * mean(rates) / course.mbit as f64;
        let rate = 0.8 * course.mbit as f64;
        let time = |time: Option<f64>| time.map_or("never".into(), |time| format!("{time:.1} s"));
        let low: Vec<f64> = seen
            .link
            .iter()
            .zip(&seen.other)
            .map(|(link, other)| link - other)
            .collect();
        println!(
            "{:30} {:6.1}% {:6.1}% {:6.1}% {:6.1}% {:>6} {:>6}",
            course.name,
            share(&seen.link[20..BEGINS]),
            share(&seen.other[BEGINS..ENDS]),
            share(&seen.other[BEGINS + 10..ENDS]),
            share(&seen.link[BEGINS..ENDS]),
            time(reaches(&seen.other[BEGINS..ENDS], rate)),
            time(reaches(&low[ENDS..], rate)),
        );
        if let (0, Some(file)) = (number, picture) {
            std::fs::write(file, svg(course.mbit as f64, &low, &seen.other)).expect("written");
        }
    }
    if only.is_none_or(|only| only == "weights") {
        weights();
    }
}

/// Three commands of weights 1, 2 and 4, alone on the link and beside another download.
fn weights() {
    let rig = Rig::new(10, 64 << 10);
    rig.suimon(&["bottlenet", "10Mbit/s", "--interface", "eth0"]);
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
    let show = |what: &str, rates: [f64; 3]| {
        let unit = rates.iter().sum::<f64>() / 7.0;
        println!(
            "weights 1:2:4, {what}: {:.2}, {:.2}, {:.2} Mbit/s: {:.2} : {:.2} : {:.2}",
            rates[0],
            rates[1],
            rates[2],
            rates[0] / unit,
            rates[1] / unit,
            rates[2] / unit
        );
    };
    show("alone", rates(15));
}

/// Both as lines over time.
fn svg(rate: f64, low: &[f64], other: &[f64]) -> String {
    let (width, height) = (720.0, 240.0);
    let x = |step: usize| 50.0 + step as f64 / OVER as f64 * width;
    let y = |mbit: f64| 20.0 + height * (1.0 - mbit / (rate * 1.1));
    let line = |rates: &[f64], colour: &str| {
        let points: Vec<String> = rates
            .iter()
            .enumerate()
            .map(|(step, mbit)| format!("{:.1},{:.1}", x(step), y(mbit.max(0.0))))
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
    for second in (0..OVER / 10).step_by(2) {
        svg += &text(x(second * 10) - 4.0, 278.0, &format!("{second} s"));
    }
    svg += &text(8.0, 12.0, "Mbit/s");
    svg += &line(low, "#b45309");
    svg += &line(other, "#1d4ed8");
    svg += &format!(
        "<g fill=\"#b45309\">{}</g>",
        text(x(8), 60.0, "the command under nine")
    );
    svg += &format!(
        "<g fill=\"#1d4ed8\">{}</g>",
        text(x(80), 60.0, "another download")
    );
    svg + "</svg>\n"
}
