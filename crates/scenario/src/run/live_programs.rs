//! The programs of a scenario in the lab. Each finds the address of every host in its environment,
//! such as `SUIMON_HOME`.

use super::outcome::{Judgement, ProgramEnd, ProgramOutcome};
use crate::Scenario;
use crate::lab::Built;
use crate::language::ProgramConfig;
use std::os::unix::process::ExitStatusExt;
use std::time;

/// Runs a program from its start to its stop; `begin` is the start of the run.
pub(super) fn run(
    scenario: &Scenario,
    built: &Built,
    program: &ProgramConfig,
    begin: time::Instant,
) -> lab::Result<ProgramOutcome> {
    let until = |nanos: u64| time::Duration::from_nanos(nanos).saturating_sub(begin.elapsed());
    std::thread::sleep(until(program.start.nanos()));
    let mut ready = built.lab.hosts()[program.host]
        .program(&program.command[0])
        .args(&program.command[1..])
        .limit(until(program.stop.nanos()));
    for host in &scenario.hosts {
        let name = host.name.to_uppercase().replace('-', "_");
        ready = ready.env(format!("SUIMON_{name}"), host.address.to_string());
    }
    let output = ready.output()?;
    Ok(ProgramOutcome {
        name: program.name.clone(),
        host: scenario.hosts[program.host].name.clone(),
        ended: match (output.timed_out, output.status.code()) {
            (true, _) => ProgramEnd::Stopped,
            (false, Some(code)) => ProgramEnd::Exited(code.unsigned_abs()),
            (false, None) => ProgramEnd::Killed(output.status.signal().unwrap_or_default()),
        },
        out: output.out,
        err: output.err,
    })
}

/// Judges a program: by how it ended, and by what it printed if that is asked.
pub(super) fn judge(program: &ProgramConfig, outcome: &ProgramOutcome) -> Vec<Judgement> {
    let last = outcome.err.lines().next_back().unwrap_or_default();
    let got = match outcome.ended {
        ProgramEnd::Stopped => "it was stopped".to_owned(),
        ProgramEnd::Exited(0) => "it ended".to_owned(),
        ProgramEnd::Exited(code) => format!("exit code {code}: {last}"),
        ProgramEnd::Killed(signal) => format!("signal {signal}: {last}"),
    };
    let met = match outcome.ended {
        ProgramEnd::Stopped => program.exit == 0,
        ProgramEnd::Exited(code) => code == program.exit,
        ProgramEnd::Killed(_) => false,
    };
    let what = format!("program {} on {}", outcome.name, outcome.host);
    let ended = Judgement {
        what: what.clone(),
        expected: match program.exit {
            0 => "no failure".into(),
            code => format!("exit code {code}"),
        },
        got,
        value: match outcome.ended {
            ProgramEnd::Exited(code) => code.into(),
            _ => 0,
        },
        unit: "",
        met,
        missed_by: match (met, program.exit) {
            (true, _) => String::new(),
            (false, 0) => "it failed".into(),
            (false, _) => "another end".into(),
        },
        held_up: None,
    };
    let printed = program.prints.as_ref().map(|text| {
        let mut lines = outcome.out.lines().chain(outcome.err.lines());
        let found = lines.find(|line| line.contains(text.as_str()));
        let last = || outcome.out.lines().next_back().unwrap_or(last);
        Judgement {
            what: format!("{what}: prints"),
            expected: format!("a line with `{text}`"),
            got: format!("`{}`", found.unwrap_or_else(last)),
            value: found.is_some().into(),
            unit: "",
            met: found.is_some(),
            missed_by: match found {
                Some(_) => String::new(),
                None => "no such line; this is its last one".into(),
            },
            held_up: None,
        }
    });
    std::iter::once(ended).chain(printed).collect()
}
