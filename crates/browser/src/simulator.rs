//! Who answers the page: texts are read by the reader of `suimon sim`, and simulated by its
//! simulator, stop for stop. So an outcome is that of the program, to the last byte.

use crate::files::BroughtFiles;
use crate::requests::{Begun, ChartRows, Checked, PageRequest, Refused, SampledRow, Stepped};
use crate::words;
use control::diagnostics::Diagnostics;
use engine::tree::Registry;
use engine::units::{Duration, Instant};
use scenario::report::json;
use scenario::run::ScenarioRun;
use scenario::run::outcome::Point;
use scenario::run::watched::{Watched, WatchedGroup, WatchedRow};
use scenario::{Error, Scenario, Scenarios, overridden};
use serde_json::{Value, json};

/// What the text is called in messages.
const NAME: &str = "scenario.toml";

/// The longest text. From here on `control` would read it by threads, and a page has none.
const LONGEST: usize = 1 << 20;

/// The most points of a sweep that are listed.
const MOST_POINTS: usize = 1_000;

/// A run that goes on.
#[derive(Debug)]
struct Current {
    scenario: Scenario,
    point: Point,
    run: ScenarioRun,
    watched: Watched,
}

/// The simulator of one page.
#[derive(Debug)]
pub struct Simulator {
    registry: Registry,
    files: BroughtFiles,
    current: Option<Current>,
}

impl Default for Simulator {
    fn default() -> Self {
        Self {
            registry: Registry::builtin(),
            files: BroughtFiles::default(),
            current: None,
        }
    }
}

impl Simulator {
    /// The answer to a request, both as JSON.
    pub fn answer(&mut self, request: &str) -> String {
        let answer = match serde_json::from_str(request) {
            Ok(request) => self.ask(request),
            Err(why) => Err(Failure::Words(format!("this is no request: {why}"))),
        };
        answer.unwrap_or_else(|failure| failure.value()).to_string()
    }

    fn ask(&mut self, request: PageRequest) -> Result<Value, Failure> {
        match request {
            PageRequest::Files { files } => {
                self.files = BroughtFiles(files);
                Ok(json!({}))
            }
            PageRequest::Check { text } => self.check(&text),
            PageRequest::Begin { text, seed, point } => {
                self.current = None;
                self.begin(&text, seed, point.unwrap_or(1))
            }
            PageRequest::Step {} => self.step(),
            PageRequest::Outcome {} => {
                let current = self.current.take().ok_or_else(none_goes_on)?;
                let outcome = current.run.end(NAME, &current.scenario, current.point);
                Ok(json::point(&outcome))
            }
            PageRequest::Words {} => Ok(words::all(&self.registry)),
        }
    }

    fn read(&self, text: &str) -> Result<Scenarios, Failure> {
        if text.len() > LONGEST {
            return Err(Failure::Words(
                "the text is longer than 1 MiB, the most that this page reads; `suimon sim FILE` reads more"
                    .into(),
            ));
        }
        Ok(Scenarios::read(NAME, text, &self.registry, &self.files)?)
    }

    fn check(&self, text: &str) -> Result<Value, Failure> {
        let scenarios = match self.read(text) {
            Ok(scenarios) => scenarios,
            Err(Failure::Mistakes(all)) => {
                return Ok(json!(Checked {
                    diagnostics: all.places(),
                    points: Vec::new(),
                }));
            }
            Err(other) => return Err(other),
        };
        let points = 1..=scenarios.sweep.points().min(MOST_POINTS);
        Ok(json!(Checked {
            diagnostics: scenarios.warnings.places(),
            points: points
                .map(|number| scenarios.sweep.values(number).into_iter().collect())
                .collect(),
        }))
    }

    fn begin(&mut self, text: &str, seed: Option<u32>, number: usize) -> Result<Value, Failure> {
        // First as it stands: positions of mistakes are those of the page's text.
        let mut scenarios = self.read(text)?;
        if let Some(seed) = seed {
            let set = [("seed".to_owned(), i64::from(seed).into())];
            scenarios = self.read(&overridden::with(NAME, text, &set)?)?;
        }
        let of = scenarios.sweep.points();
        if !(1..=of).contains(&number) {
            return Err(Failure::Words(format!("there is no point {number} of {of}")));
        }
        let scenario = scenarios.point(number, &self.files)?;
        let run = ScenarioRun::begin(&scenario, &[], None)?;
        let watched = Watched::new(&run, &scenario);
        let group = |group: &WatchedGroup| ChartRows {
            link: group.link.clone(),
            rows: group.rows.clone(),
        };
        let begun = Begun {
            duration_ns: scenario.settings.duration.nanos(),
            groups: watched.groups().iter().map(group).collect(),
        };
        self.current = Some(Current {
            point: Point {
                number,
                of,
                values: scenarios.sweep.values(number),
            },
            scenario,
            run,
            watched,
        });
        Ok(json!(begun))
    }

    fn step(&mut self) -> Result<Value, Failure> {
        let current = self.current.as_mut().ok_or_else(none_goes_on)?;
        let Current {
            scenario,
            run,
            watched,
            ..
        } = current;
        let end = Instant::START + scenario.settings.duration;
        let at = run.step(scenario)?.unwrap_or(end);
        let row = |row: WatchedRow| -> SampledRow {
            let delay =
                |which: fn((Duration, Duration)) -> Duration| row.delay.map(|delay| which(delay).nanos());
            (row.rate.bits(), delay(|delay| delay.0), delay(|delay| delay.1))
        };
        let rows = watched.sample(run, scenario, at);
        Ok(json!(Stepped {
            at_ns: at.nanos(),
            is_end: at == end,
            events: run.events(),
            rows: rows.map(|rows| rows.into_iter().map(row).collect()),
        }))
    }
}

/// Why there is no answer.
#[derive(Debug)]
enum Failure {
    Mistakes(Box<Diagnostics>),
    Words(String),
}

fn none_goes_on() -> Failure {
    Failure::Words("no run goes on".into())
}

impl Failure {
    fn value(self) -> Value {
        match self {
            Self::Mistakes(all) => json!(Refused {
                error: format!("{} mistakes", all.mistakes()),
                diagnostics: all.places(),
            }),
            Self::Words(error) => json!(Refused {
                error,
                diagnostics: Vec::new(),
            }),
        }
    }
}

impl From<Diagnostics> for Failure {
    fn from(all: Diagnostics) -> Self {
        Self::Mistakes(Box::new(all))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Mistakes(all) => Self::Mistakes(all),
            other => Self::Words(other.to_string()),
        }
    }
}
