//! `suimon reproduce`: runs the papers' experiments, each by its id, on the code that manages
//! traffic.

use crate::commands::Context;
use crate::exit::{Exit, Failure};
use clap::Args;
use engine::settings::{Span, unknown};
use papers::{ClaimVerdict, EXPERIMENTS, Experiment, Options, Progress, figures, page};
use plot::progress;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Run the papers' experiments; show the paper's values, ours, and why they differ
///
/// Without an id: list the experiments. --all ends with a summary: for each figure and table of the
/// papers its claim, and whether it was shown. With --json one object for each experiment, on a
/// line: id, title, verdict, and rows of what, paper, ours (each a number, a text or null), unit,
/// verdict ("shown", "not shown", "for orientation" or "cannot be shown"), note; and one with the
/// figures of the summary. Exit code 4: a row that was judged is not shown, or an experiment could
/// judge none.
#[derive(Debug, Args)]
pub struct Reproduce {
    /// Ids, such as A1
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Run all of them
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    /// Shorter runs: rougher numbers, the same claims
    #[arg(long)]
    quick: bool,
    /// Print one JSON object for each
    #[arg(long)]
    json: bool,
    /// Write ID.md, ID.json and the charts into this directory
    #[arg(long, value_name = "DIRECTORY")]
    write: Option<PathBuf>,
}

impl Reproduce {
    /// Runs it.
    pub fn run(&self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let out = &mut *cx.out;
        self.run_from(EXPERIMENTS, out, || lab::enter().map_err(|e| e.to_string()))
    }

    /// Runs the chosen experiments of `list`. `enter` is called before any thread starts:
    /// measurements between sockets need a sandbox in which a lab can be built.
    fn run_from(
        &self,
        list: &[Experiment],
        out: &mut dyn Write,
        enter: impl FnOnce() -> Result<(), String>,
    ) -> Result<Exit, Failure> {
        let chosen = self.chosen(list)?;
        if chosen.is_empty() {
            for experiment in list {
                writeln!(out, "{:<4} {}", experiment.id, experiment.title)?;
            }
            return Ok(Exit::Done);
        }
        // Checked first, so that no run is wasted on pages that cannot be written.
        if let Some(directory) = &self.write {
            std::fs::create_dir_all(directory).map_err(|e| unwritten(directory, &e))?;
        }
        let options = Options {
            quick: self.quick,
            lab: enter(),
        };
        let (mut shown, mut failed) = (true, false);
        let mut rows = figures::Rows::new();
        for (index, experiment) in chosen.iter().enumerate() {
            let mut bar = Bar::new(experiment.id, index, chosen.len());
            let outcome = (experiment.run)(&options, &mut bar);
            drop(bar);
            let outcome = match outcome {
                Ok(outcome) => outcome,
                // The others can still run.
                Err(failure) => {
                    eprintln!("suimon: {}: {failure}", experiment.id);
                    failed = true;
                    continue;
                }
            };
            shown &= outcome.verdict() == ClaimVerdict::Shown;
            if self.json {
                writeln!(out, "{}", page::json(experiment, &outcome)?)?;
            } else {
                page::print(out, experiment, &outcome)?;
            }
            out.flush()?;
            if let Some(directory) = &self.write {
                page::write(directory, experiment, &outcome, self.quick)
                    .map_err(|e| unwritten(directory, &e))?;
            }
            rows.insert(experiment.id.into(), outcome.rows);
        }
        if self.all {
            match self.json {
                true => writeln!(out, "{}", figures::json(&rows)?)?,
                false => figures::print(out, &rows)?,
            }
        }
        Ok(match (failed, shown) {
            (true, _) => Exit::Failed,
            (false, false) => Exit::Missed,
            (false, true) => Exit::Done,
        })
    }

    /// The chosen experiments, each once.
    fn chosen(&self, list: &[Experiment]) -> Result<Vec<Experiment>, Failure> {
        if self.all {
            return Ok(list.to_vec());
        }
        let mut chosen: Vec<Experiment> = Vec::new();
        for id in &self.ids {
            let matching = list.iter().find(|e| e.id.eq_ignore_ascii_case(id));
            let names = list.iter().map(|e| e.id);
            let experiment = matching.ok_or_else(|| unknown("experiment", id, Span::default(), names))?;
            if chosen.iter().all(|e| e.id != experiment.id) {
                chosen.push(*experiment);
            }
        }
        Ok(chosen)
    }
}

fn unwritten(directory: &Path, error: &io::Error) -> Failure {
    let path = directory.display();
    Failure::at_run_time(format!(
        "cannot write into {path}: {error}; choose another directory with --write"
    ))
}

/// The progress of an experiment, and its number among all.
#[derive(Debug)]
struct Bar<'a> {
    id: &'a str,
    index: usize,
    of: usize,
    line: progress::ProgressLine,
}

impl<'a> Bar<'a> {
    fn new(id: &'a str, index: usize, of: usize) -> Self {
        Self {
            id,
            index,
            of,
            line: progress::ProgressLine::begin(),
        }
    }
}

impl Progress for Bar<'_> {
    fn show(&mut self, done: f64, what: &str) {
        let (id, number, of) = (self.id, self.index + 1, self.of);
        self.line.show(done, || format!("{id} {number}/{of}  {what}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use papers::{ExperimentOutcome, Row, RowValue};

    fn outcome(verdict: ClaimVerdict, note: &str) -> ExperimentOutcome {
        ExperimentOutcome {
            rows: vec![
                Row::rounded("flow", 1.0, 2.0, "l/s", verdict, note),
                Row::rounded(
                    "depth",
                    RowValue::Nothing,
                    3.0,
                    "m",
                    ClaimVerdict::Orientation,
                    "",
                ),
            ],
            ..ExperimentOutcome::default()
        }
    }

    const LIST: [Experiment; 4] = [
        Experiment {
            id: "Z1",
            title: "it is shown",
            reference: "Anybody 1998",
            run: |options, progress| {
                progress.show(0.5, "half");
                let note = format!("{} {:?}", options.quick, options.lab);
                Ok(outcome(ClaimVerdict::Shown, &note))
            },
        },
        Experiment {
            id: "Z2",
            title: "it is not",
            reference: "Anybody 1998",
            run: |_, _| Ok(outcome(ClaimVerdict::NotShown, "")),
        },
        Experiment {
            id: "Z3",
            title: "it breaks",
            reference: "Anybody 1998",
            run: |_, _| Err(papers::Error::new("broken")),
        },
        Experiment {
            id: "Z4",
            title: "it needs a river",
            reference: "Anybody 1998",
            run: |_, _| Ok(outcome(ClaimVerdict::CannotBeShown, "no river here")),
        },
    ];

    fn verb(ids: &[&str]) -> Reproduce {
        Reproduce {
            ids: ids.iter().map(|id| (*id).into()).collect(),
            all: false,
            quick: true,
            json: true,
            write: None,
        }
    }

    fn run(verb: &Reproduce) -> (Result<Exit, Failure>, String) {
        let mut out = Vec::new();
        let exit = verb.run_from(&LIST, &mut out, || Err("no box".into()));
        (exit, String::from_utf8(out).expect("text"))
    }

    #[test]
    fn exit_codes_distinguish_shown_not_shown_and_failed() {
        let code = |ids: &[&str]| run(&verb(ids)).0.expect("it ran");
        assert_eq!(code(&["Z1"]), Exit::Done);
        assert_eq!(code(&["Z1", "Z2"]), Exit::Missed);
        assert_eq!(code(&["Z3", "Z2"]), Exit::Failed);
        // Its only other row asks nothing, and so shows nothing.
        assert_eq!(code(&["Z1", "Z4"]), Exit::Missed);
    }

    #[test]
    fn a_failing_experiment_does_not_stop_the_others() {
        let all = Reproduce {
            all: true,
            ..verb(&[])
        };
        let (_, text) = run(&all);
        let mut lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("json"))
            .collect();
        let summary = lines.pop().expect("a summary");
        let ids: Vec<&str> = lines.iter().filter_map(|line| line["id"].as_str()).collect();
        assert_eq!(ids, ["Z1", "Z2", "Z4"]);
        let figures = summary["figures"].as_array().expect("figures");
        assert_eq!(figures.len(), figures::FIGURES.len());
        // None of the papers' experiments was run.
        assert!(
            figures
                .iter()
                .all(|figure| figure["verdict"] == "cannot be shown")
        );
    }

    #[test]
    fn an_id_matches_in_either_case_runs_once_and_gets_its_options() {
        let (exit, text) = run(&verb(&["z1", "Z1"]));
        assert_eq!((exit.expect("it ran"), text.lines().count()), (Exit::Done, 1));
        assert!(text.contains("true Err("), "{text}");
    }

    #[test]
    fn an_unknown_id_is_a_usage_error_that_names_the_nearest() {
        let failure = run(&verb(&["Z1", "Z22"])).0.expect_err("no such experiment");
        assert_eq!(failure.exit, Exit::Usage);
        assert!(
            failure.message.contains("did you mean `Z2`"),
            "{}",
            failure.message
        );
    }

    #[test]
    fn a_directory_that_cannot_be_written_fails_before_anything_runs() {
        let verb = Reproduce {
            write: Some("/dev/null/pages".into()),
            ..verb(&["Z1"])
        };
        let (exit, text) = run(&verb);
        let failure = exit.expect_err("no such directory");
        assert_eq!((failure.exit, text.as_str()), (Exit::Failed, ""));
        assert!(failure.message.contains("--write"), "{}", failure.message);
    }

    #[test]
    fn without_an_id_the_experiments_are_listed() {
        let (exit, text) = run(&verb(&[]));
        assert_eq!(exit.expect("a list"), Exit::Done);
        assert!(text.contains("Z1   it is shown"), "{text}");
    }
}
