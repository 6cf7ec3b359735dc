//! Campaigns: tests that CI runs with few repetitions, run with many, and what they say written
//! into a page. `cargo xtask changes [N]`: so many random changes of a policy under load, on a
//! clock of the tests' own, and between real sockets, where the delay counts too. `cargo xtask
//! faults [N]`: so many kills of a running program, and so many failures around one. `cargo xtask
//! soak [N]`: a router for so many minutes, and half as many days of virtual time. `cargo xtask
//! kills [N]`: `nine` is killed so often.
//! `cargo xtask caps [N]`: real programs under a cap, over paths of many lengths, so often.
//! `cargo xtask felt [N]`: what a user feels, so often: a line's grade, a long table in a browser.
//! `cargo xtask daemon [N]`: so many seeds of a simulated router. `cargo xtask upgrades [N]`: a
//! program under load is replaced so often.

use crate::{bench, marked};
use std::path::Path;
use std::process::{Command, Stdio};

const END: &str = "<!-- end of measured -->";

/// A campaign.
pub struct Campaign {
    /// What follows `cargo xtask`.
    pub verb: &'static str,
    /// How often, unless it is said.
    pub often: u64,
    page: &'static str,
    mark: &'static str,
    /// Tells the tests how often.
    variable: &'static str,
    /// Begins each line of the tests that is a result.
    result: &'static str,
    /// A package, more arguments of cargo, and a part of the tests' names.
    tests: &'static [(&'static str, &'static [&'static str], &'static str)],
}

const CHANGES: Campaign = Campaign {
    verb: "changes",
    often: 1_000,
    page: "docs/measurements/changes.md",
    mark: "<!-- measured: by `cargo xtask changes` -->",
    variable: "SUIMON_CHANGES",
    result: "changes: ",
    tests: &[
        ("gateway", &["--lib"], "random_changes"),
        ("suimon", &["--test", "run"], "random_changes"),
    ],
};

const FAULTS: Campaign = Campaign {
    verb: "faults",
    often: 1_000,
    page: "docs/measurements/faults.md",
    mark: "<!-- measured: by `cargo xtask faults` -->",
    variable: "SUIMON_FAULTS",
    result: "faults: ",
    tests: &[("suimon", &["--test", "fail_open"], "")],
};

const SOAK: Campaign = Campaign {
    verb: "soak",
    often: 60,
    page: "docs/measurements/soak.md",
    mark: "<!-- measured: by `cargo xtask soak` -->",
    variable: "SUIMON_SOAK",
    result: "soak: ",
    tests: &[
        (
            "gateway",
            &["--profile", "release-tests", "--lib"],
            "runs_for_days",
        ),
        ("suimon", &["--test", "rsvp"], "soak"),
    ],
};

const KILLS: Campaign = Campaign {
    verb: "kills",
    often: 1_000,
    page: "docs/measurements/nine-kills.md",
    mark: "<!-- measured: by `cargo xtask kills` -->",
    variable: "NINE_KILLS",
    result: "kills: ",
    tests: &[("suimon", &["--test", "nine"], "no_kill")],
};

const CAPS: Campaign = Campaign {
    verb: "caps",
    often: 1,
    page: "docs/measurements/nine-caps.md",
    mark: "<!-- measured: by `cargo xtask caps` -->",
    variable: "NINE_CAPS",
    result: "caps: ",
    tests: &[("suimon", &["--test", "nine"], "within_the_cap")],
};

const FELT: Campaign = Campaign {
    verb: "felt",
    often: 10,
    page: "docs/measurements/felt.md",
    mark: "<!-- measured: by `cargo xtask felt` -->",
    variable: "SUIMON_FELT",
    result: "felt: ",
    tests: &[
        ("suimon", &["--test", "verify"], "grade"),
        ("suimon", &["--test", "web"], "five_thousand_classes"),
    ],
};

const DAEMON: Campaign = Campaign {
    verb: "daemon",
    often: 100_000,
    page: "docs/measurements/daemon.md",
    mark: "<!-- measured: by `cargo xtask daemon` -->",
    variable: "SUIMON_DAEMON",
    result: "daemon: ",
    tests: &[(
        "gateway",
        &["--profile", "release-tests", "--lib"],
        "whatever_a_seed_has_in_store",
    )],
};

const UPGRADES: Campaign = Campaign {
    verb: "upgrades",
    often: 100,
    page: "docs/measurements/upgrades.md",
    mark: "<!-- measured: by `cargo xtask upgrades` -->",
    variable: "SUIMON_UPGRADES",
    result: "upgrades: ",
    tests: &[("suimon", &["--test", "upgrade"], "")],
};

/// All of them.
pub const ALL: [Campaign; 8] = [CHANGES, FAULTS, SOAK, KILLS, CAPS, FELT, DAEMON, UPGRADES];

impl Campaign {
    /// Runs the tests so often and writes the page.
    pub fn run(&self, root: &Path, times: u64) -> Result<(), String> {
        let Self { page, mark, .. } = self;
        let (before, mut said) = (bench::load(), Vec::new());
        for (package, more, name) in self.tests {
            said.extend(self.results(root, times, package, more, name)?);
        }
        let text: Vec<String> = said.iter().map(|line| format!("- {line}")).collect();
        let text = format!("{}\n\n{}", bench::when(root, before)?, text.join("\n"));
        let path = root.join(page);
        let former = std::fs::read_to_string(&path).map_err(|e| format!("{page}: {e}"))?;
        let written = marked::replaced(&former, mark, END, &text).ok_or(format!("{page} lacks {mark}"))?;
        std::fs::write(&path, written).map_err(|e| format!("{page}: {e}"))
    }

    /// What one package's tests said.
    fn results(
        &self,
        root: &Path,
        times: u64,
        package: &str,
        more: &[&str],
        name: &str,
    ) -> Result<Vec<String>, String> {
        let failed = |e: std::io::Error| format!("{package}: {e}");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args(["test", "--package", package])
            .args(more)
            .args([name, "--", "--nocapture", "--test-threads=1"])
            .env(self.variable, times.to_string())
            .current_dir(root)
            .stdout(Stdio::inherit())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?
            .wait_with_output()
            .map_err(failed)?;
        let said = String::from_utf8_lossy(&output.stderr);
        eprint!("{said}");
        let results: Vec<String> = said
            .lines()
            .filter_map(|line| Some(line.strip_prefix(self.result)?.to_owned()))
            .collect();
        match (output.status.success(), results.is_empty()) {
            (true, false) => Ok(results),
            (true, true) => Err(format!("{package}: nothing was judged")),
            (false, _) => Err(format!("{package}: something was not as required")),
        }
    }
}
