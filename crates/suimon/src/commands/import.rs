//! `suimon import`: another program's file as a policy, or as the topology of a lab, and what of it
//! is lost.

use crate::commands::Context;
use crate::exit::{Exit, Failure};
use crate::source;
use clap::Args;
use control::policy::Policy;
use control::quota::Volume;
use engine::settings::{Raw, SettingValue};
use engine::units::Bandwidth;
use import::{ClientQuota, Format, Missing, SourceFile};
use scenario::folder::Folder;
use scenario::topology::Topology;
use std::io::{self, Write};

/// Write a policy from another program's file: altq.conf, pf.conf, what `tc -j` shows, OpenWrt's
/// SQM, LibreQoS, WireGuard; or links for `lab` from netem; what is lost is told on stderr and in
/// its head
#[derive(Debug, Args)]
pub struct Import {
    /// The format (altq, pf, tc, netem, sqm, libreqos, wireguard), if it is not plain from the
    /// text, and the file, or files of libreqos; `-` reads standard input
    #[arg(required = true, value_name = "FORMAT|FILE")]
    words: Vec<String>,
    /// Fail if anything is lost or approximated
    #[arg(long)]
    strict: bool,
    /// The rate of what leaves, where the file has none
    #[arg(long, value_name = "RATE")]
    up: Option<Bandwidth>,
    /// The rate of what arrives, where the file has none
    #[arg(long, value_name = "RATE")]
    down: Option<Bandwidth>,
    /// The interface, where the file names none; of a bump in the wire twice, first the one towards
    /// the devices
    #[arg(long = "interface", value_name = "NAME")]
    interfaces: Vec<String>,
    /// What each peer of WireGuard may carry, as `50 GB per month`, or per week or day
    #[arg(long, value_name = "VOLUME")]
    quota: Option<String>,
    /// The rate that it has once that is used up; without, that is told only
    #[arg(long, value_name = "RATE", requires = "quota")]
    quota_rate: Option<Bandwidth>,
}

impl Import {
    /// Reads the files, and writes the policy.
    pub fn run(self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        // One word alone is a file: OpenWrt's is called as its format.
        let named = self.words.first().filter(|_| self.words.len() > 1);
        let named = named.and_then(|word| Format::of(word));
        let files = &self.words[usize::from(named.is_some())..];
        let load = |path: &String| Ok((path.clone(), source::load("file", path)?));
        let texts: Vec<(String, String)> = files.iter().map(load).collect::<Result<_, Failure>>()?;
        let guessed = texts.first().and_then(|(_, text)| Format::guess(text));
        let format = named.or(guessed).ok_or_else(|| {
            let names: Vec<&str> = Format::ALL.into_iter().map(Format::name).collect();
            let (names, file) = (names.join(", "), &files[0]);
            Failure::usage(format!(
                "{file}: its format cannot be told; name it first: one of {names}"
            ))
        })?;
        let sources: Vec<SourceFile<'_>> = texts
            .iter()
            .map(|(name, text)| SourceFile { name, text })
            .collect();
        let quota = self.quota.map(|volume| {
            Volume::from_raw(&Raw::Text(volume.clone()))
                .map_err(|why| Failure::usage(format!("--quota: {why}")))?;
            let rate = self.quota_rate;
            Ok::<_, Failure>(ClientQuota { volume, rate })
        });
        let quota = quota.transpose()?;
        if quota.is_some() && format != Format::WireGuard {
            let message = format!(
                "`--quota` is for the peers of WireGuard, and this is {}",
                format.name()
            );
            return Err(Failure::usage(message));
        }
        let missing = Missing {
            quota,
            up: self.up,
            down: self.down,
            interfaces: self.interfaces,
        };
        let draft = format.read(&sources, &missing);
        let draft = draft.map_err(|error| Failure::usage(error.shown(&sources)))?;
        let text = draft.text(files);
        let lost = draft.loss_lines(files);
        for line in &lost {
            writeln!(io::stderr(), "{line}")?;
        }
        if self.strict && !lost.is_empty() {
            let message = format!(
                "nothing is written: {} of it would be lost or approximated",
                lost.len()
            );
            return Err(Failure::usage(message));
        }
        // What the file asks for may be more than the link can give: the policy's check says so.
        let (what, read) = match format.makes_topology() {
            true => {
                let read = Topology::read("the topology", &text, cx.registry, &Folder::of(""));
                ("topology", read.map(drop))
            }
            false => {
                let read = Policy::read("the policy", &text, cx.registry, &netio::ports::declared());
                ("policy", read.map(drop))
            }
        };
        if let Err(mistakes) = read {
            let message = format!(
                "{text}\nthe file makes no valid {what}:\n{}",
                mistakes.render(false)
            );
            return Err(Failure::usage(message));
        }
        write!(cx.out, "{text}")?;
        Ok(Exit::Done)
    }
}
