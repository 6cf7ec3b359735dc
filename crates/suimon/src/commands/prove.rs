//! `suimon prove POLICY`: searches for the arrival pattern that delays each class most, and
//! compares the delay with the bound that `check` prints. With `--exhaustive` it judges every
//! pattern of a small world instead.

use crate::commands::Context;
use crate::exit::{Exit, Failure};
use crate::source;
use clap::Args;
use control::policy::{InterfacePolicy, Policy};
use engine::bounds;
use engine::random::Seed;
use measure::numbers;
use plot::colour;
use plot::progress::ProgressLine;
use plot::text::{self, Align};
use scenario::counterexample;
use serde_json::{Value, json};
use sim::adversary::{Adversary, Target};
use sim::exhaustive::{BoundedClass, Claims, Exhaustive, LENGTHS, QUEUES, SLOTS};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Search for traffic that exceeds the bounds of a policy: the worst delay that was found of each
/// class, beside its bound
#[derive(Debug, Args)]
pub struct Prove {
    /// The policy, a TOML file; `-` reads standard input
    policy: String,
    /// The interface; by default all that have bounds
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// The search time for each interface
    #[arg(long, default_value_t = 10, value_name = "SECONDS")]
    seconds: u64,
    /// Try this many patterns for each interface, however long it takes: the same seed gives the
    /// same result
    #[arg(long, value_name = "N", conflicts_with = "seconds")]
    patterns: Option<u64>,
    /// Judge every pattern of a small world: up to so many packets (--packets) of three classes and
    /// three lengths in twelve slots, single and in volleys of four. Conservation, order and work
    /// conservation count, too
    #[arg(long, conflicts_with_all = ["patterns", "scenario", "seconds"])]
    exhaustive: bool,
    /// Packets of a pattern of --exhaustive at most; each more takes some 40 times longer
    #[arg(long, value_name = "N", default_value_t = 3, requires = "exhaustive",
        value_parser = clap::value_parser!(u32).range(1..=6))]
    packets: u32,
    /// The seed of the search
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write the pattern that came nearest to its bound as a scenario for `suimon sim` into this
    /// file, and its packets into files beside it
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
}

/// The search against one interface.
struct Searched<'a> {
    interface: &'a InterfacePolicy,
    adversary: Adversary,
}

impl Prove {
    /// Searches.
    pub fn run(&self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let text = source::load("policy", &self.policy)?;
        let read = Policy::read(&self.policy, &text, cx.registry, &netio::ports::declared());
        let policy = read.map_err(|diagnostics| {
            let colour = colour::wanted(&io::stderr());
            Failure::usage(format!(
                "{} has mistakes:\n{}",
                self.policy,
                diagnostics.render(colour)
            ))
        })?;
        let chosen =
            |interface: &&InterfacePolicy| self.interface.as_ref().is_none_or(|name| *name == interface.name);
        if self.exhaustive {
            return self.judge_all(cx, policy.interfaces.iter().filter(chosen));
        }
        let mut searched = Vec::new();
        for interface in policy.interfaces.iter().filter(chosen) {
            let adversary = Adversary::new(&interface.plan, Seed(self.seed));
            if !adversary.targets().is_empty() {
                searched.push(self.search(interface, adversary)?);
            }
        }
        if searched.is_empty() {
            let which = self
                .interface
                .as_ref()
                .map_or("no interface".into(), |name| format!("no interface `{name}`"));
            return Err(Failure::usage(format!(
                "{}: {which} has a class with a bound; `suimon check` says why",
                self.policy
            )));
        }
        match self.json {
            true => writeln!(cx.out, "{:#}", searched.iter().map(json_of).collect::<Value>())?,
            false => searched.iter().try_for_each(|one| show(cx.out, one))?,
        }
        if let Some(path) = &self.scenario {
            write_scenario(path, &text, &searched)?;
        }
        let exceeded = searched
            .iter()
            .flat_map(|one| one.adversary.targets())
            .any(Target::is_exceeded);
        Ok(if exceeded { Exit::Missed } else { Exit::Done })
    }

    /// Judges every pattern of the small world on each interface.
    fn judge_all<'a>(
        &self,
        cx: &mut Context<'_>,
        interfaces: impl Iterator<Item = &'a InterfacePolicy>,
    ) -> Result<Exit, Failure> {
        let mut judged = Vec::new();
        for interface in interfaces {
            let plan = &interface.plan;
            let mut world = Exhaustive::new(plan, Claims::of(plan), self.packets);
            let mut progress = ProgressLine::begin();
            let mut fault = None;
            while fault.is_none() && !world.is_complete() {
                fault = world.judge(1_000).err();
                progress.show(world.patterns() as f64 / world.total() as f64, || {
                    format!(
                        "{}: {} patterns",
                        interface.name,
                        numbers::count(world.patterns())
                    )
                });
            }
            progress.clear();
            judged.push(Judged {
                interface,
                world,
                fault,
            });
        }
        if judged.is_empty() {
            return Err(Failure::usage(format!("{}: no such interface", self.policy)));
        }
        match self.json {
            true => writeln!(cx.out, "{:#}", judged.iter().map(Judged::json).collect::<Value>())?,
            false => judged.iter().try_for_each(|one| one.show(cx.out))?,
        }
        let holds = judged.iter().all(|one| one.fault.is_none());
        Ok(if holds { Exit::Done } else { Exit::Missed })
    }

    fn search<'a>(
        &self,
        interface: &'a InterfacePolicy,
        mut adversary: Adversary,
    ) -> Result<Searched<'a>, Failure> {
        let (begin, time) = (Instant::now(), Duration::from_secs(self.seconds));
        let mut progress = ProgressLine::begin();
        loop {
            let (done, part) = match self.patterns {
                Some(all) => (
                    adversary.patterns() >= all,
                    adversary.patterns() as f64 / all.max(1) as f64,
                ),
                None => (
                    begin.elapsed() >= time,
                    begin.elapsed().as_secs_f64() / time.as_secs_f64().max(1e-9),
                ),
            };
            if done {
                break;
            }
            adversary
                .step()
                .map_err(|error| Failure::at_run_time(error.to_string()))?;
            progress.show(part.min(1.0), || {
                format!(
                    "{}: {} patterns",
                    interface.name,
                    numbers::count(adversary.patterns())
                )
            });
        }
        progress.clear();
        Ok(Searched { interface, adversary })
    }
}

/// Every pattern against one interface, up to the first that violates something.
struct Judged<'a> {
    interface: &'a InterfacePolicy,
    world: Exhaustive,
    fault: Option<String>,
}

impl Judged<'_> {
    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self {
            interface,
            world,
            fault,
        } = self;
        writeln!(
            out,
            "{}  {} of {} patterns: {QUEUES} queues, {LENGTHS} lengths, {SLOTS} slots of {}",
            interface.name,
            numbers::count(world.patterns()),
            numbers::count(world.total()),
            world.slot()
        )?;
        let row = |class: &BoundedClass| {
            vec![
                format!("  {}", world.name(class.queue)),
                format!("bound {},", bounds::shown(class.bound.delay)),
                format!("worst {}", bounds::shown(class.worst)),
            ]
        };
        let rows: Vec<Vec<String>> = world.bounds().iter().map(row).collect();
        for line in text::table(&rows, &[Align::Left, Align::Right, Align::Right]) {
            writeln!(out, "{line}")?;
        }
        match fault {
            Some(fault) => writeln!(out, "  VIOLATED: {fault}"),
            None => writeln!(out, "  every pattern keeps conservation, order, and the bounds"),
        }
    }

    fn json(&self) -> Value {
        let class = |class: &BoundedClass| {
            json!({
                "class": self.world.name(class.queue),
                "bound_ns": class.bound.delay.nanos(),
                "worst_ns": class.worst.nanos(),
            })
        };
        json!({
            "interface": self.interface.name,
            "patterns": self.world.patterns(),
            "total": self.world.total(),
            "violated": self.fault,
            "classes": self.world.bounds().iter().map(class).collect::<Value>(),
        })
    }
}

fn show(out: &mut dyn Write, searched: &Searched<'_>) -> io::Result<()> {
    let Searched { interface, adversary } = searched;
    writeln!(
        out,
        "{}  {} patterns",
        interface.name,
        numbers::count(adversary.patterns())
    )?;
    let row = |target: &Target| {
        let verdict = match target.is_exceeded() {
            true => "EXCEEDED".into(),
            false => format!("{} %", target.thousandths() / 10),
        };
        vec![
            format!("  {}", adversary.senders()[target.sender].name),
            format!("bound {},", bounds::shown(target.bound.delay)),
            format!("worst found {}", bounds::shown(target.worst)),
            verdict,
        ]
    };
    let rows: Vec<Vec<String>> = adversary.targets().iter().map(row).collect();
    for line in text::table(&rows, &[Align::Left, Align::Right, Align::Right, Align::Right]) {
        writeln!(out, "{line}")?;
    }
    // A queue without classes drops by design: its limit is its bound.
    let dropped = |target: &&Target| target.dropped > 0 && target.bound.arrivals.is_some();
    for target in adversary.targets().iter().filter(dropped) {
        let name = &adversary.senders()[target.sender].name;
        writeln!(
            out,
            "  {name}: {} packets within its arrival curve were dropped in one pattern; raise the limit of its queue",
            numbers::count(target.dropped)
        )?;
    }
    Ok(())
}

fn json_of(searched: &Searched<'_>) -> Value {
    let Searched { interface, adversary } = searched;
    let class = |target: &Target| {
        json!({
            "class": adversary.senders()[target.sender].class.map(|_| &adversary.senders()[target.sender].name),
            "bound_ns": target.bound.delay.nanos(),
            "worst_ns": target.worst.nanos(),
            "exceeded": target.is_exceeded(),
            "dropped_packets": target.dropped,
            "patterns": target.patterns,
        })
    };
    json!({
        "interface": interface.name,
        "patterns": adversary.patterns(),
        "classes": adversary.targets().iter().map(class).collect::<Value>(),
    })
}

/// Writes the scenario of the pattern that came nearest to its bound.
fn write_scenario(path: &Path, policy: &str, searched: &[Searched<'_>]) -> Result<(), Failure> {
    let targets = searched.iter().flat_map(|one| {
        one.adversary
            .targets()
            .iter()
            .enumerate()
            .map(move |(number, target)| (one, number, target))
    });
    let Some((nearest, number, _)) = targets.max_by_key(|(_, _, target)| target.thousandths()) else {
        return Ok(());
    };
    let name = path
        .file_stem()
        .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let Searched { interface, adversary } = nearest;
    let files = counterexample::files(
        &name,
        policy,
        &interface.name,
        interface.link(),
        adversary,
        number,
    );
    let files = files.ok_or_else(|| Failure::at_run_time("the policy cannot be written as a scenario"))?;
    for (index, file) in files.iter().enumerate() {
        let to = if index == 0 {
            path.to_owned()
        } else {
            path.with_file_name(&file.name)
        };
        std::fs::write(&to, &file.text)
            .map_err(|error| Failure::at_run_time(format!("cannot write `{}`: {error}", to.display())))?;
    }
    Ok(())
}
