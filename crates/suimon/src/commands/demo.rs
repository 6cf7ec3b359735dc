//! `suimon demo`: shows real TCP connections share a real link by policy. It needs no root and no
//! set-up.

use crate::commands::Context;
use crate::exit::{Exit, Failure};
use clap::Args;
use control::policy::Policy;
use engine::tree::Registry;
use engine::units::Duration;
use papers::demo::comparison::Comparison;
use papers::demo::run::{DemoRun, RunTraces};
use plot::terminal::{Abilities, Live};
use serde_json::json;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

const POLICY: &str = include_str!("../../../../examples/demo.toml");

/// Show real TCP connections share a real link, with a policy and then with plain FIFO: no root,
/// no set-up, 45 s
#[derive(Debug, Args)]
pub struct Demo {
    /// The directory for demo.svg and demo.html
    #[arg(long, value_name = "DIRECTORY", default_value = "report")]
    out: PathBuf,
    /// Print the policy that the demo runs, and exit
    #[arg(long)]
    show_policy: bool,
    /// Print the result as one JSON object; the graph goes to standard error if that is a terminal
    #[arg(long)]
    json: bool,
}

impl Demo {
    /// Runs it.
    pub fn run(&self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let out = &mut *cx.out;
        if self.show_policy {
            write!(out, "{POLICY}")?;
            return Ok(Exit::Done);
        }
        let report = self.report()?;
        // Before any thread: the lab moves this process into a sandbox of namespaces, created
        // without root.
        lab::enter()?;
        let policy = Policy::read(
            "examples/demo.toml",
            POLICY,
            &Registry::builtin(),
            &netio::ports::declared(),
        );
        let policy = policy.map_err(|diagnostics| Failure::usage(diagnostics.render(false)))?;
        let interface = policy.interfaces.first();
        let interface =
            interface.ok_or_else(|| Failure::at_run_time("the demo's policy manages no interface"))?;
        let by_policy = DemoRun {
            title: "With the policy (cbq)",
            interface,
            plain: false,
            length: Duration::from_secs(25),
            step: Duration::from_millis(250),
        };
        let plain = DemoRun {
            title: "With plain FIFO",
            plain: true,
            length: Duration::from_secs(18),
            ..by_policy
        };
        let apart = [3500, 2500].map(Duration::from_millis);
        self.introduce(out)?;
        let comparison = Comparison::of(
            self.watched(&by_policy, apart[0], out)?,
            self.watched(&plain, apart[1], out)?,
        );
        write_to(&report[0], &comparison.svg())?;
        write_to(&report[1], &comparison.html(POLICY, &facts()))?;
        let [svg, html] = report;
        if self.json {
            let mut value = comparison.json();
            value["report"] = json!([svg, html]);
            value["version"] = json!(env!("CARGO_PKG_VERSION"));
            writeln!(out, "{value:#}")?;
        } else {
            let colour = Abilities::of(&io::stdout()).colour;
            writeln!(
                out,
                "Mbit/s of frames with their Ethernet header; payload: what the programs received.\n"
            )?;
            comparison.print(out, colour)?;
            writeln!(out, "Report: {} and {}", svg.display(), html.display())?;
        }
        Ok(if comparison.is_as_expected() {
            Exit::Done
        } else {
            Exit::Missed
        })
    }

    fn introduce(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.json {
            return Ok(());
        }
        writeln!(
            out,
            "Five TCP connections join in turn on a link of 134 Mbit/s. Four have 10, 20,\n\
             30 and 40 Mbit/s configured; the fifth takes the rest. First with a policy, then\n\
             with plain FIFO, in a lab of network namespaces.\n"
        )
    }

    /// Runs the demo once and shows it live.
    fn watched(&self, run: &DemoRun<'_>, apart: Duration, out: &mut dyn Write) -> Result<RunTraces, Failure> {
        let mut quiet = io::sink();
        let mut aside = io::stderr();
        let (abilities, screen): (Abilities, &mut dyn Write) = match self.json {
            false => (Abilities::of(&io::stdout()), out),
            true if io::stderr().is_terminal() => (Abilities::of(&io::stderr()), &mut aside),
            true => (Abilities::of(&io::stdout()), &mut quiet),
        };
        let mut live = Live::new(abilities, run.length);
        if !abilities.redraw {
            writeln!(screen, "{}:", run.title)?;
        }
        let outcome = run.run(&run.joining(apart), &mut |trace, note| {
            live.show(screen, trace, note)
        })?;
        writeln!(screen)?;
        Ok(outcome)
    }

    /// The paths of chart and page. Writing is tried at once, so that no run is wasted on a
    /// report that cannot be written.
    fn report(&self) -> Result<[PathBuf; 2], Failure> {
        fs::create_dir_all(&self.out).map_err(|e| unwritten(&self.out, &e))?;
        let report = ["demo.svg", "demo.html"].map(|name| self.out.join(name));
        for path in &report {
            let tried = fs::OpenOptions::new().create(true).append(true).open(path);
            tried.map_err(|e| unwritten(path, &e))?;
        }
        Ok(report)
    }
}

fn write_to(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|e| unwritten(path, &e))
}

fn unwritten(path: &Path, error: &io::Error) -> Failure {
    Failure::at_run_time(format!(
        "cannot write {}: {error}; choose another directory with --out",
        path.display()
    ))
}

/// The facts of the machine and the programs.
fn facts() -> Vec<(&'static str, String)> {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    vec![
        ("suimon", env!("CARGO_PKG_VERSION").into()),
        ("command", "suimon demo".into()),
        ("kernel", format!("Linux {}", kernel.trim())),
        ("processors", processors.to_string()),
        (
            "hosts",
            "three network namespaces, connected by veth pairs with default offloads".into(),
        ),
        ("senders", "the kernel's TCP, cubic".into()),
        (
            "the link",
            "the worker and the port (af_packet) of `suimon run`".into(),
        ),
    ]
}
