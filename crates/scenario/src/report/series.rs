//! Time series as CSV: a line for each bin of each class, link and flow.

use crate::report::csv::field;
use crate::run::outcome::Outcome;
use engine::units::{Bandwidth, Bytes};
use std::io::{self, Write};

/// The header line.
pub const HEADER: &str = "point,what,link,name,from_ns,rate_bps\n";

/// Writes the lines of one point.
///
/// # Errors
///
/// Returns an error if `out` cannot be written to.
pub fn write(out: &mut dyn Write, outcome: &Outcome) -> io::Result<()> {
    let mut lines = |what: &str, link: &str, name: &str, series: &[u64]| {
        for (bin, &bytes) in series.iter().enumerate() {
            let from = outcome.bin.times(bin as u64).nanos();
            let rate = Bandwidth::of(Bytes::new(bytes), outcome.bin).bits();
            let (link, name) = (field(link), field(name));
            writeln!(out, "{},{what},{link},{name},{from},{rate}", outcome.point.number)?;
        }
        Ok::<(), io::Error>(())
    };
    for link in &outcome.links {
        lines("link", &link.name, "", &link.total.series)?;
        for class in &link.classes {
            lines("class", &link.name, &class.name, &class.passed.series)?;
        }
    }
    outcome
        .flows
        .iter()
        .try_for_each(|flow| lines("flow", "", &flow.name, &flow.series))
}
