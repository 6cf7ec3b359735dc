//! `suimon doctor`: what helps or hinders a policy on an interface, and what to do.

use crate::commands::Context;
use crate::exit::{Exit, Failure};
use clap::Args;
use gateway::doctor::{self, Finding, Observed, Weight};
use gateway::{facts, selfcheck};
use plot::text::{self, Align};
use serde_json::{Value, json};
use std::io::Write;

/// Look at this machine and an interface: what a policy there meets, and what to do; changes
/// nothing, and ends with 4 if something would take its effect
#[derive(Debug, Args)]
pub struct Doctor {
    /// The interface; by default the one that the default route goes by
    interface: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Doctor {
    /// Looks, and shows what was found.
    pub fn run(self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let name = self.interface.or_else(facts::default_route);
        let name = name.ok_or_else(|| Failure::usage("there is no default route: name an interface"))?;
        let observed =
            Observed::of(&name).ok_or_else(|| Failure::usage(selfcheck::missing(&facts::names(), &name)))?;
        let parts = [
            ("this machine".to_owned(), doctor::machine()),
            (name, doctor::findings(&observed)),
        ];
        let bad = |finding: &Finding| finding.weight == Weight::Bad;
        let hindered = parts.iter().any(|(_, findings)| findings.iter().any(bad));
        match self.json {
            true => writeln!(cx.out, "{}", as_json(&parts))?,
            false => show(cx.out, &parts)?,
        }
        Ok(if hindered { Exit::Missed } else { Exit::Done })
    }
}

/// The word for it.
fn word(weight: Weight) -> &'static str {
    match weight {
        Weight::Good => "good",
        Weight::Note => "note",
        Weight::Bad => "BAD",
    }
}

fn show(out: &mut dyn Write, parts: &[(String, Vec<Finding>)]) -> Result<(), Failure> {
    for (of, findings) in parts {
        writeln!(out, "{of}")?;
        let row = |finding: &Finding| vec![format!("  {}", word(finding.weight)), finding.what.clone()];
        let rows: Vec<Vec<String>> = findings.iter().map(row).collect();
        let lines = text::table(&rows, &[Align::Left, Align::Left]);
        for (line, finding) in lines.iter().zip(findings) {
            writeln!(out, "{line}")?;
            if let Some(remedy) = &finding.remedy {
                writeln!(out, "          → {remedy}")?;
            }
        }
    }
    Ok(())
}

fn as_json(parts: &[(String, Vec<Finding>)]) -> Value {
    let finding = |finding: &Finding| {
        json!({
            "weight": word(finding.weight).to_lowercase(), "what": finding.what, "remedy": finding.remedy,
        })
    };
    let part = |(of, findings): &(String, Vec<Finding>)| json!({ "of": of, "findings": findings.iter().map(finding).collect::<Vec<_>>() });
    parts.iter().map(part).collect()
}
