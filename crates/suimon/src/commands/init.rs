//! `suimon init`: writes a first policy for a line.

use crate::commands::Context;
use crate::exit::{Exit, Failure};
use crate::line::{LinePolicy, Rates};
use clap::Args;
use engine::units::Bandwidth;
use gateway::facts;
use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;

/// What of the measured rate is left to the line, so that packets wait here and not there.
const PERCENT: u64 = 95;

/// Write a first policy for a line, after three questions; what is given is not asked
#[derive(Debug, Args)]
pub struct Init {
    /// The file to write, and its folder if there is none; it must not be there yet
    #[arg(default_value = "policy.toml")]
    file: String,
    /// The interface that the line is behind
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// What a speed test shows of the download
    #[arg(long, value_name = "RATE")]
    down: Option<Bandwidth>,
    /// What a speed test shows of the upload
    #[arg(long, value_name = "RATE")]
    up: Option<Bandwidth>,
}

impl Init {
    /// Asks, and writes the file.
    pub fn run(self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let stdin = io::stdin();
        let mut answers = stdin.is_terminal().then(|| stdin.lock());
        let mut ask = |out: &mut dyn Write, question: &str, otherwise: &str| {
            let Some(from) = &mut answers else {
                return Err(Failure::usage(format!(
                    "{question}: nobody can be asked here; give `--interface`, `--down` and `--up`"
                )));
            };
            ask(from, out, question, otherwise)
        };
        let out = &mut *cx.out;
        let interface = match self.interface {
            Some(name) => name,
            None => ask(out, "Which interface is the line behind", &usual())?,
        };
        let mut rate = |given: Option<Bandwidth>, what: &str| -> Result<Bandwidth, Failure> {
            loop {
                if let Some(rate) = given {
                    return Ok(rate);
                }
                let question = format!("What does a speed test show of the {what}, such as 40Mbit/s");
                match ask(out, &question, "")?.parse() {
                    Ok(rate) => return Ok(rate),
                    Err(why) => writeln!(out, "{why}").map_err(Failure::from)?,
                }
            }
        };
        let (down, up) = (rate(self.down, "download")?, rate(self.up, "upload")?);
        let rates = Rates {
            rate: None,
            down: Some(less(down)),
            up: Some(less(up)),
        };
        let line = LinePolicy::of(&interface, rates).map_err(Failure::usage)?;
        let text = format!(
            "{}\n# Rates are {PERCENT} % of what a speed test showed, {down} down and {up} up, so that packets wait here.\n",
            line.text()
        );
        let folder = Path::new(&self.file).parent().unwrap_or(Path::new(""));
        fs::create_dir_all(folder)
            .and_then(|()| OpenOptions::new().write(true).create_new(true).open(&self.file))
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|why| Failure::usage(format!("cannot write {}: {why}", self.file)))?;
        for note in line.notes() {
            writeln!(out, "{note}")?;
        }
        let file = &self.file;
        writeln!(
            out,
            "{file} is written.\nsuimon check {file}   # what it means\nsuimon run {file}     # as root: in force until Ctrl-C"
        )?;
        Ok(Exit::Done)
    }
}

fn less(rate: Bandwidth) -> Bandwidth {
    Bandwidth::bits_per_sec(rate.bits() / 100 * PERCENT)
}

/// What is most probably meant.
fn usual() -> String {
    facts::default_route().unwrap_or_default()
}

fn ask(
    from: &mut impl BufRead,
    out: &mut dyn Write,
    question: &str,
    otherwise: &str,
) -> Result<String, Failure> {
    let shown = match otherwise {
        "" => String::new(),
        otherwise => format!(" [{otherwise}]"),
    };
    write!(out, "{question}{shown}? ")?;
    out.flush()?;
    let mut answer = String::new();
    if from.read_line(&mut answer)? == 0 {
        return Err(Failure::usage("nothing is written: the answer is missing"));
    }
    let answer = answer.trim();
    Ok(if answer.is_empty() { otherwise } else { answer }.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::policy::Policy;
    use engine::tree::Registry;

    fn init(file: &str, out: &mut Vec<u8>) -> Result<Exit, Failure> {
        let registry = Registry::builtin();
        let init = Init {
            file: file.into(),
            interface: Some("lo".into()),
            down: Some(Bandwidth::mbit(250)),
            up: Some(Bandwidth::mbit(40)),
        };
        init.run(&mut Context {
            registry: &registry,
            out,
        })
    }

    #[test]
    fn what_is_given_is_written_five_per_cent_below_and_nothing_is_overwritten() {
        let file = std::env::temp_dir().join(format!("suimon-init-{}.toml", std::process::id()));
        let file = file.to_str().expect("a path of text");
        let mut out = Vec::new();
        assert_eq!(init(file, &mut out).ok(), Some(Exit::Done));
        let text = std::fs::read_to_string(file).expect("a policy");
        let policy = Policy::read(file, &text, &Registry::builtin(), &netio::ports::declared());
        let policy = policy.unwrap_or_else(|mistakes| panic!("{text}{}", mistakes.render(false)));
        let mut rates: Vec<u64> = policy
            .interfaces
            .iter()
            .map(|interface| interface.settings.bandwidth.bits() / 100_000)
            .collect();
        rates.sort_unstable();
        assert_eq!(rates, [380, 2_375], "{text}");
        let again = init(file, &mut out).expect_err("it is there");
        std::fs::remove_file(file).expect("it is there");
        assert!(again.message.contains(file), "{}", again.message);
    }
}
