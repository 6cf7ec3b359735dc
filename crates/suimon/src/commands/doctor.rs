//! `suimon doctor`: what helps or hinders a policy on an interface, and what to do.

use crate::commands::Context;
use crate::exit::{Exit, Failure};
use clap::Args;
use gateway::doctor::{self, Gravity, Observed, Symptom};
use gateway::{facts, selfcheck};
use plot::text::{self, Align};
use serde_json::{Value, json};
use std::io::Write;

/// Look at this machine and an interface: what a policy there meets, and what to do; ends with 4 if
/// something would take its effect
#[derive(Debug, Args)]
pub struct Doctor {
    /// The interface; by default the one that the default route goes by
    interface: Option<String>,
    /// Before that, remove the limit (`fail_closed`) that a killed suimon has left there; nothing
    /// else is changed
    #[arg(long)]
    fix: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Doctor {
    /// Looks, and shows what was found.
    pub fn run(self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let name = self.interface.or_else(facts::default_route);
        let name = name.ok_or_else(|| Failure::usage("there is no default route: name an interface"))?;
        let missing = || Failure::usage(selfcheck::missing(&facts::names(), &name));
        let (mut observed, mut parts) = (Observed::of(&name).ok_or_else(missing)?, Vec::new());
        if self.fix {
            let done = doctor::fix(&name).map_err(Failure::at_run_time)?;
            parts.push(("done".to_owned(), done));
            observed = Observed::of(&name).ok_or_else(missing)?;
        }
        parts.push(("this machine".to_owned(), doctor::machine()));
        parts.push((name.clone(), doctor::symptoms(&observed)));
        let bad = |symptom: &Symptom| symptom.gravity == Gravity::Bad;
        let hindered = parts.iter().any(|(_, symptoms)| symptoms.iter().any(bad));
        match self.json {
            true => writeln!(cx.out, "{}", as_json(&parts))?,
            false => show(cx.out, &parts)?,
        }
        Ok(if hindered { Exit::Missed } else { Exit::Done })
    }
}

/// The word for it.
fn word(gravity: Gravity) -> &'static str {
    match gravity {
        Gravity::Good => "good",
        Gravity::Note => "note",
        Gravity::Bad => "BAD",
    }
}

fn show(out: &mut dyn Write, parts: &[(String, Vec<Symptom>)]) -> Result<(), Failure> {
    for (of, symptoms) in parts {
        writeln!(out, "{of}")?;
        let row = |symptom: &Symptom| vec![format!("  {}", word(symptom.gravity)), symptom.what.clone()];
        let rows: Vec<Vec<String>> = symptoms.iter().map(row).collect();
        let lines = text::table(&rows, &[Align::Left, Align::Left]);
        for (line, symptom) in lines.iter().zip(symptoms) {
            writeln!(out, "{line}")?;
            if let Some(remedy) = &symptom.remedy {
                writeln!(out, "          → {remedy}")?;
            }
        }
    }
    Ok(())
}

fn as_json(parts: &[(String, Vec<Symptom>)]) -> Value {
    let symptom = |symptom: &Symptom| {
        json!({
            "gravity": word(symptom.gravity).to_lowercase(), "what": symptom.what, "remedy": symptom.remedy,
        })
    };
    let part = |(of, symptoms): &(String, Vec<Symptom>)| json!({ "of": of, "symptoms": symptoms.iter().map(symptom).collect::<Vec<_>>() });
    parts.iter().map(part).collect()
}
