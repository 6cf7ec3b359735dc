//! Rules of `nine --service`: which processes yield, from a small file.
//!
//! A line is a rule: words that choose processes, each with values up to the next word, and words
//! that set how they are treated. All kinds that a rule names must fit, of each kind one value; of
//! several rules the first that fits a process applies to it. `#` begins a comment.
//!
//! ```text
//! program restic borg rsync                 # backups always yield
//! unit apt-daily*.service packagekit        # and updates
//! program steam hours 08:00-18:00 cap 5Mbit/s
//! user guest weight 2 floor 1Mbit/s
//! ```

use crate::process_filter::{ControlGroup, ProcessFilter};
use engine::units::Bandwidth;
use std::fmt;
use std::fs;

/// The words of a rule.
const WORDS: &str = "program, unit, container, cgroup, user, hours, weight, cap and floor";
/// The largest weight, as on the command line.
const MAX_WEIGHT: u32 = 1_000;

/// A rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceRule {
    /// Its line in the file, from 1 on.
    pub line: usize,
    /// The line without its comment.
    pub text: String,
    /// Whom it chooses: not those of an earlier rule.
    pub filter: ProcessFilter,
    /// Its weight relative to other rules and commands.
    pub weight: u32,
    /// Its rate at most.
    pub cap: Option<Bandwidth>,
    /// The rate below which it need not yield.
    pub floor: Option<Bandwidth>,
}

/// A mistake in the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleMistake {
    /// Its line, from 1 on.
    pub line: usize,
    /// What is wrong, and the remedy.
    pub text: String,
}

impl fmt::Display for RuleMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.text)
    }
}

/// Reads the text of a file of rules.
///
/// # Errors
///
/// All mistakes, by line; or that there is no rule.
pub fn parse(text: &str) -> Result<Vec<ServiceRule>, Vec<RuleMistake>> {
    let mut rules: Vec<ServiceRule> = Vec::new();
    let mut mistakes = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.split('#').next().unwrap_or_default().trim();
        if text.is_empty() {
            continue;
        }
        match rule(line, text) {
            Ok(mut rule) => {
                rule.filter.except = rules.iter().map(|rule| rule.filter.clone()).collect();
                // Those of the earlier ones are among the exceptions already.
                rule.filter
                    .except
                    .iter_mut()
                    .for_each(|filter| filter.except.clear());
                rules.push(rule);
            }
            Err(text) => mistakes.push(RuleMistake { line, text }),
        }
    }
    if rules.is_empty() && mistakes.is_empty() {
        let text = "there is no rule; one is `program rsync restic`".into();
        mistakes.push(RuleMistake { line: 1, text });
    }
    match mistakes.is_empty() {
        true => Ok(rules),
        false => Err(mistakes),
    }
}

fn rule(line: usize, text: &str) -> Result<ServiceRule, String> {
    let mut rule = ServiceRule {
        line,
        text: text.split_ascii_whitespace().collect::<Vec<_>>().join(" "),
        filter: ProcessFilter::default(),
        weight: 1,
        cap: None,
        floor: None,
    };
    let mut words = text.split_ascii_whitespace().peekable();
    let mut seen: Vec<&str> = Vec::new();
    while let Some(word) = words.next() {
        if !is_keyword(word) {
            return Err(match seen.last() {
                Some(last) => format!("`{last}` takes one value, and `{word}` is none of {WORDS}"),
                None => format!("`{word}` is none of {WORDS}"),
            });
        }
        if seen.contains(&word) {
            return Err(format!("`{word}` is there twice: give all its values at once"));
        }
        seen.push(word);
        let Some(value) = words.next_if(|next| !is_keyword(next)) else {
            return Err(format!("`{word}` has no value"));
        };
        rule.set(word, value)?;
        while takes_several(word)
            && let Some(value) = words.next_if(|next| !is_keyword(next))
        {
            rule.set(word, value)?;
        }
    }
    if !seen.iter().any(|word| takes_several(word)) {
        return Err("it chooses no process: name a program, unit, container, cgroup or user".into());
    }
    match (rule.floor, rule.cap) {
        (Some(floor), Some(cap)) if floor > cap => {
            Err(format!("the floor of {floor} is above the cap of {cap}"))
        }
        _ => Ok(rule),
    }
}

fn takes_several(word: &str) -> bool {
    ["program", "unit", "container", "cgroup", "user"].contains(&word)
}

fn is_keyword(word: &str) -> bool {
    takes_several(word) || ["hours", "weight", "cap", "floor"].contains(&word)
}

impl ServiceRule {
    fn set(&mut self, word: &str, value: &str) -> Result<(), String> {
        let rate = || value.parse::<Bandwidth>().map_err(|e| format!("{word}: {e}"));
        match word {
            "program" if value.contains('/') => {
                return Err(format!("`{value}`: a program's name has no `/`"));
            }
            "program" => self.filter.programs.push(value.into()),
            "unit" => self.filter.groups.push(ControlGroup::unit(value)?),
            "container" => self.filter.groups.push(ControlGroup::container(value)?),
            "cgroup" => self.filter.groups.push(ControlGroup::at(value)?),
            "user" => self.filter.users.push(user(value)?),
            "hours" => self.filter.hours = Some(value.parse()?),
            "weight" => {
                let weight = value
                    .parse()
                    .ok()
                    .filter(|weight| (1..=MAX_WEIGHT).contains(weight));
                let mistake = || format!("weight: `{value}` is not a number from 1 to {MAX_WEIGHT}");
                self.weight = weight.ok_or_else(mistake)?;
            }
            "cap" => self.cap = Some(rate()?),
            _ => self.floor = Some(rate()?),
        }
        Ok(())
    }
}

/// A user's number.
fn user(name: &str) -> Result<u32, String> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let number = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok())?
    });
    number.ok_or_else(|| format!("there is no user `{name}` in /etc/passwd: give the number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_choose_and_set_in_any_order() {
        let text = "# backups\nprogram restic borg   # always\n\n\
                    cap 5Mbit/s user root hours 22:00-06:00 unit apt-daily* weight 3 floor 1Mbit/s\n";
        let rules = parse(text).expect("rules");
        assert_eq!(rules.len(), 2);
        assert_eq!(
            (rules[0].line, rules[0].text.as_str()),
            (2, "program restic borg")
        );
        assert_eq!(rules[0].filter.programs, ["restic", "borg"]);
        let second = &rules[1];
        assert_eq!((second.line, second.weight), (4, 3));
        assert_eq!(second.cap, Some(Bandwidth::mbit(5)));
        assert_eq!(second.filter.users, [0]);
        assert_eq!(
            second.filter.groups,
            [ControlGroup::Unit("apt-daily*.service".into())]
        );
        assert_eq!(
            second.filter.except,
            [rules[0].filter.clone()],
            "the first rule applies"
        );
    }

    #[test]
    fn each_mistake_is_told_with_its_line() {
        let wrong = [
            ("programm rsync", "none of program"),
            ("program", "no value"),
            ("program rsync cap 8000", "bit/s"),
            ("program rsync cap 1Mbit/s 2Mbit/s", "takes one value"),
            ("program rsync program borg", "twice"),
            ("program /usr/bin/rsync", "no `/`"),
            ("cap 1Mbit/s", "chooses no process"),
            ("unit backup.timer", "name the service"),
            ("user nobody-at-all", "no user"),
            ("program a hours 8-18", "HH:MM-HH:MM"),
            ("program a weight 0", "from 1 to 1000"),
            ("program a cap 1Mbit/s floor 2Mbit/s", "above the cap"),
        ];
        let text: String = wrong.iter().map(|(line, _)| format!("{line}\n")).collect();
        let mistakes = parse(&text).expect_err("mistakes");
        assert_eq!(mistakes.len(), wrong.len(), "{mistakes:#?}");
        for ((mistake, (line, told)), number) in mistakes.iter().zip(wrong).zip(1..) {
            assert_eq!(mistake.line, number, "{mistake}");
            assert!(mistake.text.contains(told), "{line}: {mistake}");
        }
        assert!(parse("# nothing\n").is_err());
    }
}
