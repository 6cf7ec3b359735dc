//! Programs of a scenario: real ones, in the lab. The simulator has models of traffic, and says
//! that it runs no program.

use super::HostConfig;
use control::sections::Section;
use engine::settings;
use engine::settings::{Problem, Raw, unknown};
use engine::units::{Duration, Instant};

settings! {
    /// The settings of a program, besides `command`.
    pub struct ProgramSettings {
        /// The host that it runs on
        host: String = required, "", "";
        /// Its name
        name: String = derived "the first word of its `command`", "", "";
        /// When it starts
        start: Duration = default "0 s", "", "at once";
        /// When it is killed, with its children, if it still runs; that is no failure
        stop: Duration = derived "the end of the scenario", "", "";
        /// The exit code that is expected of it
        exit: u32 = default "0", "", "success";
        /// A text that is expected in a line that it prints, on its output or its errors
        prints: String = derived "anything", "", "";
    }
}

/// A checked program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProgramConfig {
    /// Its name.
    pub name: String,
    /// The host, by index.
    pub host: usize,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// When it starts.
    pub start: Instant,
    /// When it is killed.
    pub stop: Instant,
    /// The expected exit code. If it is 0, a program that was stopped has not failed.
    pub exit: u32,
    /// What a line that it prints has in it.
    pub prints: Option<String>,
}

const EXPECTED: &str = "`command`: expected a list of words such as [\"ping\", \"-c\", \"3\", \"10.0.0.2\"]";

/// Reads all programs of a scenario of this length.
pub(super) fn read_all(
    sections: &[Section<'_>],
    hosts: &[HostConfig],
    duration: Duration,
    problems: &mut Vec<Problem>,
) -> Vec<ProgramConfig> {
    let mut read = |section: &Section<'_>| read_one(section, hosts, duration, problems);
    sections.iter().filter_map(&mut read).collect()
}

fn read_one(
    section: &Section<'_>,
    hosts: &[HostConfig],
    duration: Duration,
    problems: &mut Vec<Problem>,
) -> Option<ProgramConfig> {
    let settings = ProgramSettings::read(&section.table(|_| true), &["command"], problems);
    let command = command(section, problems);
    let (settings, command) = (settings?, command?);
    let at = |key: &str| section.get(key).map_or(section.at, |pair| pair.value.at);
    let Some(host) = hosts.iter().position(|host| host.name == settings.host) else {
        let names = hosts.iter().map(|host| host.name.as_str());
        problems.push(unknown("host", &settings.host, at("host"), names));
        return None;
    };
    let stop = settings.stop.unwrap_or(duration).min(duration);
    if settings.exit > 255 {
        let message = "`exit` must be from 0 to 255: programs have no other exit codes";
        problems.push(Problem::new(at("exit"), message));
        return None;
    }
    if settings.start >= stop {
        let message = format!(
            "this never runs: it starts at {} and ends at {stop}",
            settings.start
        );
        problems.push(Problem::new(at("start"), message));
        return None;
    }
    Some(ProgramConfig {
        name: settings.name.unwrap_or_else(|| command[0].clone()),
        host,
        command,
        start: Instant::START + settings.start,
        stop: Instant::START + stop,
        exit: settings.exit,
        prints: settings.prints,
    })
}

/// The program and its arguments: at least one word.
fn command(section: &Section<'_>, problems: &mut Vec<Problem>) -> Option<Vec<String>> {
    let Some(pair) = section.get("command") else {
        let problem = Problem::new(section.at, "`command` is missing");
        problems.push(problem.help("write `command = [\"ping\", \"-c\", \"3\", \"10.0.0.2\"]`"));
        return None;
    };
    let items = pair.value.items().unwrap_or_default();
    let words = items.iter().map(|item| match item.raw() {
        Raw::Text(word) => Some(word.to_string()),
        _ => None,
    });
    let words: Option<Vec<String>> = words.collect();
    match words.filter(|words| !words.is_empty()) {
        Some(words) => Some(words),
        None => {
            problems.push(pair.value.wrong(EXPECTED));
            None
        }
    }
}
