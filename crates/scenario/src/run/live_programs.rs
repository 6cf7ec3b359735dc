//! The programs of a scenario in the lab. Each finds the address of every host in its environment,
//! such as `SUIMON_HOME`.

use super::outcome::Judgement;
use crate::Scenario;
use crate::lab::Built;
use crate::language::ProgramConfig;
use std::os::unix::process::ExitStatusExt;
use std::time;

/// Runs a program from its start to its stop; `begin` is the start of the run. It is judged by how
/// it ends: with 0, or because it was stopped.
pub(super) fn run(
    scenario: &Scenario,
    built: &Built,
    program: &ProgramConfig,
    begin: time::Instant,
) -> lab::Result<Judgement> {
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
    let code = output.status.code();
    let last = output.err.lines().next_back().unwrap_or_default().to_owned();
    let got = match (output.timed_out, code, output.status.signal()) {
        (true, ..) => "it was stopped".to_owned(),
        (false, Some(0), _) => "it ended".to_owned(),
        (false, Some(code), _) => format!("exit code {code}: {last}"),
        (false, None, signal) => format!("signal {}: {last}", signal.unwrap_or_default()),
    };
    let met = output.timed_out || code == Some(0);
    Ok(Judgement {
        what: format!(
            "program {} on {}",
            program.name, scenario.hosts[program.host].name
        ),
        expected: "no failure".into(),
        got,
        value: u64::from(code.unwrap_or_default().unsigned_abs()),
        unit: "",
        met,
        missed_by: if met { String::new() } else { "it failed".into() },
    })
}
