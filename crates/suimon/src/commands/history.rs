//! `suimon history`: what was in force in a running suimon, change by change.

use super::target::Target;
use crate::commands::Context;
use crate::exit::{Exit, Failure};
use clap::Args;
use control::difference::GenerationView;
use control::protocol::{Reply, Request};
use measure::numbers;
use plot::text::{self, Align};
use serde_json::json;

/// Show what was in force in a running suimon, change by change
#[derive(Debug, Args)]
pub struct History {
    #[command(flatten)]
    target: Target,
}

impl History {
    /// Asks, and shows the reply.
    pub fn run(&self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let reply = self.target.ask(&Request::History {})?;
        if self.target.json {
            writeln!(cx.out, "{}", json!(reply))?;
            let refused = matches!(reply, Reply::Refused(_));
            return Ok(if refused { Exit::Usage } else { Exit::Done });
        }
        let generations = match reply {
            Reply::History { generations } => generations,
            Reply::Refused(why) => return Err(Failure::usage(why.to_string())),
            other => {
                return Err(Failure::at_run_time(format!(
                    "unexpected reply: {}",
                    json!(other)
                )));
            }
        };
        let rows: Vec<Vec<String>> = generations.iter().flat_map(rows).collect();
        let columns = [Align::Right, Align::Right, Align::Left, Align::Left];
        for line in text::table(&rows, &columns) {
            writeln!(cx.out, "{line}")?;
        }
        Ok(Exit::Done)
    }
}

/// A generation, and a line below it for each change but the first.
fn rows(generation: &GenerationView) -> Vec<Vec<String>> {
    let by = match generation.provenance.to_string() {
        said if said.is_empty() => generation.by.clone(),
        said => format!("{}, {said}", generation.by),
    };
    let age = numbers::time(generation.age_ms.saturating_mul(1_000_000));
    let state = match (generation.in_force, generation.unconfirmed_ms) {
        (true, Some(left)) => format!(
            "{by}, in force; undone in {}",
            numbers::time(left.saturating_mul(1_000_000))
        ),
        (true, None) => format!("{by}, in force"),
        (false, _) => by,
    };
    let mut changes = generation.changes.iter().cloned();
    let first = vec![
        generation.number.to_string(),
        format!("{age} ago"),
        state,
        changes.next().unwrap_or_default(),
    ];
    let more = changes.map(|change| vec![String::new(), String::new(), String::new(), change]);
    std::iter::once(first).chain(more).collect()
}
