//! `suimon shadow`: runs a policy beside the one in force on live traffic, touching nothing.

use super::target::{Target, absolute};
use crate::commands::Context;
use crate::exit::{Exit, Failure};
use clap::Args;
use control::protocol::{Reply, Request};
use control::what_if::{self, Figures, ShadowReport};
use engine::units::Duration;
use measure::numbers;
use plot::text::{self, Align};
use serde_json::json;
use std::io::{self, Write};

/// Run a policy beside the one in force, on the headers of live traffic, and show what each class
/// gets and would get; nothing is changed
#[derive(Debug, Args)]
pub struct Shadow {
    /// The policy, a TOML file
    policy: String,
    /// For how long
    #[arg(long = "for", value_name = "TIME", default_value = "60 s")]
    span: Duration,
    /// The interface; by default the only one that is managed
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    #[command(flatten)]
    target: Target,
}

impl Shadow {
    /// Asks, waits, and shows the reply.
    pub fn run(&self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let span_ms = self.span.nanos().div_ceil(1_000_000);
        what_if::span(span_ms).map_err(|why| Failure::usage(format!("--for: {why}")))?;
        let request = Request::Shadow {
            file: absolute(&self.policy)?,
            interface: self.interface.clone(),
            span_ms,
        };
        let reply = self.target.ask(&request)?;
        if self.target.json {
            writeln!(cx.out, "{}", json!(reply))?;
        }
        match reply {
            Reply::Shadow(report) if !self.target.json => show(cx.out, &report)?,
            Reply::Shadow(_) => {}
            Reply::Refused(_) if self.target.json => return Ok(Exit::Usage),
            Reply::Refused(why) => return Err(Failure::usage(why.to_string())),
            other => {
                return Err(Failure::at_run_time(format!(
                    "unexpected reply: {}",
                    json!(other)
                )));
            }
        }
        Ok(Exit::Done)
    }
}

fn show(out: &mut dyn Write, report: &ShadowReport) -> io::Result<()> {
    let head = ["class", "", "rate", "p50", "p99", "drops"]
        .map(str::to_owned)
        .to_vec();
    let row = |class: &str, which: &str, figures: Option<Figures>| {
        let mut row = vec![class.to_owned(), which.to_owned()];
        row.extend(match figures {
            None => vec!["-".to_owned(); 4],
            Some(figures) => vec![
                numbers::rate(figures.rate_bps),
                numbers::time(figures.p50_ns),
                numbers::time(figures.p99_ns),
                numbers::count(figures.dropped),
            ],
        });
        row
    };
    let rows = report.classes.iter().flat_map(|beside| {
        [
            row(&beside.class, "in force", beside.live),
            row("", "candidate", beside.candidate),
        ]
    });
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let numbers = [Align::Right; 4];
    let columns = [&[Align::Left; 2][..], &numbers].concat();
    for line in text::table(&rows, &columns) {
        writeln!(out, "{line}")?;
    }
    writeln!(
        out,
        "{} of the same traffic; the candidate began with nothing queued, and is never late",
        numbers::time(report.span_ns)
    )
}
