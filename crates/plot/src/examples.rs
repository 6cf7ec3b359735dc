//! Examples of every kind of chart, with invented data. The tests check what a program can check.
//! To look at the charts, write them to a folder: `PICTURES=/tmp/pictures cargo test -p plot
//! pictures`.

use crate::bars::{Bar, Bars, Group};
use crate::svg::PALETTE;
use crate::{
    Axis, AxisUnit, Level, Plot, PlotEvent, PlotStyle, Series, cumulated, delays, picture, rates_over_time,
    stacked_windows, target_against_measured,
};

/// Reproducible noise.
pub struct Noise(pub u64);

impl Noise {
    /// The next number, from 0 to 1.
    pub fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as f64 / f64::from(1u32 << 31)
    }
}

fn bands(points: usize, classes: usize) -> Plot {
    let mut noise = Noise(1);
    let names = ["voice", "web", "a class with quite a long name indeed", "bulk"];
    let series = (0..classes).map(|class| {
        let name = names
            .get(class)
            .map_or(format!("class-{class}"), |n| (*n).to_string());
        let mut level = 20e6 / classes as f64;
        let mut point = |n: usize| {
            level = (level + (noise.next() - 0.5) * 4e5).clamp(0.0, 25e6 / classes as f64);
            (30.0 * n as f64 / points as f64, level)
        };
        Series::new(&name, (0..=points).map(&mut point).collect())
    });
    let mut plot = rates_over_time(
        "What left server by the link to home",
        PlotStyle::Bands,
        series.collect(),
    );
    plot.levels.push(Level {
        at: 20e6,
        name: "link 20 Mbit/s".into(),
    });
    plot
}

fn dips() -> Plot {
    let case = |dip: f64| {
        let measured = move |t: f64| if t > 15.0 && t < 50.0 { t.min(dip) } else { t };
        (1..20)
            .map(|n| 5.0 * f64::from(n))
            .map(|t| (t, measured(t)))
            .collect()
    };
    target_against_measured(
        "Target against measured, with ticks of 10 ms",
        &[
            ("10 Mbit/s Ethernet", case(100.0)),
            ("100 Mbit/s Ethernet", case(10.0)),
            ("ATM", case(15.0)),
            ("T1 with a long name", case(20.0)),
        ],
    )
}

fn waits() -> Plot {
    let mut noise = Noise(7);
    let mut class = |scale: f64| {
        let counted: Vec<(f64, u64)> = (0..400)
            .map(|_| (scale * (-(1.0 - noise.next()).ln()).powi(2), 1))
            .collect();
        cumulated(&counted)
    };
    delays(
        "How long packets waited",
        &[
            ("voice", class(2e-4)),
            ("web", class(5e-3)),
            ("bulk", class(8e-2)),
        ],
    )
}

fn growth() -> Plot {
    let points = |power: f64| {
        (0..13)
            .map(|n| 2f64.powi(n))
            .map(move |n| (n, 3e-7 * n.powf(power)))
    };
    let mut ranged = Series::marked("CBQ", points(0.05).collect());
    ranged.ranges = points(0.05).map(|(x, y)| (x, y * 0.8, y * 1.5)).collect();
    Plot {
        title: "Cost per packet over the number of classes".into(),
        x: Axis::new("classes", AxisUnit::Number("")).logarithmic(),
        y: Axis::new("cost of a packet", AxisUnit::Time).logarithmic(),
        series: vec![ranged, Series::marked("linear", points(1.0).collect())],
        ..Plot::default()
    }
}

fn many_lines() -> Plot {
    let mut noise = Noise(3);
    let mut series: Vec<Series> = (0..30)
        .map(|n| {
            let points = (0..60).map(|x| (f64::from(x), 1e6 + 2e5 * (f64::from(n) + noise.next())));
            Series::new(&format!("flow-{n}"), points.collect())
        })
        .collect();
    series[4].points[20].1 = f64::NAN;
    let mut plot = rates_over_time("Thirty flows", PlotStyle::Lines, series);
    plot.events.push(PlotEvent {
        at: 20.0,
        paint: PALETTE[1],
        name: "a <change>".into(),
    });
    plot
}

fn costs() -> Bars {
    let bar = |name: &str, value: f64| Bar {
        name: name.into(),
        value,
        range: Some((value * 0.9, value * 1.2)),
        paint: None,
    };
    let group = |name: &str, factor: f64| Group {
        name: name.into(),
        bars: vec![
            bar("FIFO", 180e-9 * factor),
            bar("CBQ with 16 classes, three deep", 420e-9 * factor),
            bar("RED", 230e-9 * factor),
        ],
    };
    Bars {
        title: "Cost of a packet".into(),
        axis: Axis::new("cost", AxisUnit::Time),
        groups: vec![group("64 bytes", 1.0), group("1500 bytes", 1.6)],
    }
}

/// Every example: file name and chart.
fn all() -> Vec<(&'static str, String)> {
    let windows = stacked_windows(
        "Shares in windows",
        &[0.0, 5.0, 10.0, 15.0, 20.0],
        &[
            ("organisation A", vec![7e6, 7e6, 10e6, 7e6]),
            ("organisation B", vec![3e6, 3e6, 0.0, 3e6]),
        ],
    );
    vec![
        ("bands", picture("bands", &[bands(300, 4)])),
        ("bands-many", picture("bands", &[bands(200_000, 12)])),
        ("windows", picture("windows", &[windows])),
        ("target", picture("target", &[dips()])),
        ("delays", picture("delays", &[waits()])),
        ("growth", picture("growth", &[growth()])),
        ("many", picture("many", &[many_lines(), bands(300, 2)])),
        ("empty", picture("empty", &[Plot::default()])),
        ("bars", costs().picture()),
    ]
}

#[test]
fn pictures_are_small_and_every_position_is_a_number() {
    for (name, svg) in all() {
        assert!(svg.len() < 200_000, "{name} has {} bytes", svg.len());
        for wrong in ["NaN", "inf", "=\"-"] {
            assert!(!svg.contains(wrong), "{wrong} in {name}");
        }
        if let Some(folder) = std::env::var_os("PICTURES") {
            let file = std::path::Path::new(&folder).join(format!("{name}.svg"));
            std::fs::write(file, svg).expect("the folder is there");
        }
    }
}
