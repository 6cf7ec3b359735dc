//! Time series as CSV: a line for each bin of each class, link and flow.

use crate::report::csv::field;
use crate::run::outcome::Outcome;
use engine::units::{Bandwidth, Bytes, Duration};
use std::io::{self, Write};

/// The header line.
pub const HEADER: &str = "point,what,link,name,from_ns,rate_bps\n";

/// The rate of a class, link or flow in one bin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BinRate<'a> {
    /// What it is the rate of: `link`, `class` or `flow`.
    pub what: &'static str,
    /// The link; empty for a flow.
    pub link: &'a str,
    /// The name of the class or the flow; empty for a link.
    pub name: &'a str,
    /// When the bin begins.
    pub from: Duration,
    /// The mean rate in it.
    pub rate: Bandwidth,
}

/// The bins of each link with its classes, then of each flow.
pub fn rates(outcome: &Outcome) -> impl Iterator<Item = BinRate<'_>> {
    let links = outcome.links.iter().flat_map(|link| {
        let classes = link.classes.iter();
        let classes = classes.map(|class| {
            (
                "class",
                link.name.as_str(),
                class.name.as_str(),
                &class.passed.series,
            )
        });
        std::iter::once(("link", link.name.as_str(), "", &link.total.series)).chain(classes)
    });
    let flows = outcome.flows.iter();
    let flows = flows.map(|flow| ("flow", "", flow.name.as_str(), &flow.series));
    links.chain(flows).flat_map(move |(what, link, name, series)| {
        series.iter().enumerate().map(move |(bin, &bytes)| BinRate {
            what,
            link,
            name,
            from: outcome.bin.times(bin as u64),
            rate: Bandwidth::of(Bytes::new(bytes), outcome.bin),
        })
    })
}

/// Writes the lines of one point.
///
/// # Errors
///
/// Returns an error if `out` cannot be written to.
pub fn write(out: &mut dyn Write, outcome: &Outcome) -> io::Result<()> {
    for bin in rates(outcome) {
        let (what, link, name) = (bin.what, field(bin.link), field(bin.name));
        let (from, rate) = (bin.from.nanos(), bin.rate.bits());
        writeln!(out, "{},{what},{link},{name},{from},{rate}", outcome.point.number)?;
    }
    Ok(())
}
