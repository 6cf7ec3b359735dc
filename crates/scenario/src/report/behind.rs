//! The report of a command behind a link: a page, and the rates of each direction as CSV.

use super::pictures;
use crate::Error;
use engine::queue::Stats;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use lab::record::Recorded;
use measure::impairments::ImpairmentCounts;
use measure::numbers;
use plot::html::{Cell, Page};
use plot::{PlotStyle, Series, rates_over_time};
use std::fs;
use std::path::Path;

/// What passed a link while a command ran behind it.
#[derive(Clone, Debug)]
pub struct LinkReport {
    /// The command.
    pub command: String,
    /// Its exit code, as a shell has it.
    pub exit: u8,
    /// The link, as a topology.
    pub topology: String,
    /// Down and up.
    pub ways: [WayReport; 2],
}

/// One direction of the link.
#[derive(Clone, Debug)]
pub struct WayReport {
    /// `down` or `up`; also the name of its CSV file.
    pub name: &'static str,
    /// What was offered and sent over time, and how long it waited.
    pub recorded: Recorded,
    /// What its queue counted.
    pub stats: Stats,
    /// What befell packets on it.
    pub impaired: ImpairmentCounts,
}

const COLUMNS: [&str; 11] = [
    "direction",
    "packets",
    "bytes",
    "mean rate",
    "dropped",
    "corrupted",
    "twice",
    "overtaken",
    "wait p50",
    "wait p99",
    "longest",
];

impl LinkReport {
    /// Makes the directory of a report, before what is to be reported takes its time.
    ///
    /// # Errors
    /// If it cannot be made, or is no directory.
    pub fn place(directory: &Path) -> Result<(), Error> {
        let file = directory.to_owned();
        fs::create_dir_all(directory).map_err(|why| Error::Unwritten { file, why })
    }

    /// Writes `index.html`, `down.csv` and `up.csv` into a directory, which is made if there is
    /// none.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be written.
    pub fn write(&self, directory: &Path) -> Result<(), Error> {
        let unwritten = |file: &Path| {
            let file = file.to_owned();
            move |why| Error::Unwritten { file, why }
        };
        Self::place(directory)?;
        let write = |name: &str, text: &[u8]| {
            let file = directory.join(name);
            fs::write(&file, text).map_err(unwritten(&file))
        };
        for way in &self.ways {
            let mut csv = Vec::new();
            way.recorded.write_csv(&mut csv).map_err(Error::Output)?;
            write(&format!("{}.csv", way.name), &csv)?;
        }
        write("index.html", self.page().as_bytes())
    }

    fn page(&self) -> String {
        let mut page = Page::new(&self.command);
        let verdict = format!("It ended with exit code {}.", self.exit);
        page.verdict(self.exit == 0, &verdict);
        let rows: Vec<_> = self.ways.iter().map(row).collect();
        page.table(&COLUMNS, &rows);
        let series = self.ways.iter().map(|way| {
            let sent = &way.recorded.sent;
            let seconds = |at: Instant| at.since(sent.origin()).as_secs_f64();
            let points = sent.rates().map(|(at, rate)| (seconds(at), rate.bits() as f64));
            Series::new(way.name, points.collect())
        });
        let rates = rates_over_time("sent by the link", PlotStyle::Lines, series.collect());
        let waits = self
            .ways
            .iter()
            .map(|way| (way.name, pictures::distribution(&way.recorded.waited)));
        let waits = plot::delays("queueing delay", &waits.collect::<Vec<_>>());
        page.picture(
            &plot::picture("", &[rates, waits]),
            "The rate of each direction, and how long packets waited before their first bit was sent.",
        );
        page.heading("The link");
        page.listing(&self.topology);
        page.finish()
    }
}

fn row(way: &WayReport) -> Vec<Cell> {
    let Recorded { sent, waited, .. } = &way.recorded;
    let span = sent.bin().times(sent.bytes().len() as u64);
    let rate = match span {
        Duration::ZERO => Bandwidth::ZERO,
        span => Bandwidth::of(Bytes::new(sent.total()), span),
    };
    let time = |wait: Duration| numbers::time(wait.nanos());
    let texts = [
        way.name.to_owned(),
        numbers::count(waited.count()),
        numbers::bytes(sent.total()),
        numbers::rate(rate.bits()),
        numbers::count(way.stats.dropped.packets),
        numbers::count(way.impaired.corrupted),
        numbers::count(way.impaired.duplicated),
        numbers::count(way.impaired.overtaken),
        time(waited.quantile(500)),
        time(waited.quantile(990)),
        time(waited.longest()),
    ];
    texts.into_iter().map(Cell::new).collect()
}
