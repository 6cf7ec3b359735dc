//! `bottlenet`: what is known of the rate of the link next to this host, kept in a small file for each user, and one of
//! root's for everybody. A user's own word comes before root's; without any, the rate is estimated.
//!
//! The files are gone with the machine's (or the user's) session: a link's rate is a fact of the place.

use crate::reading::{Bottleneck, Direction};
use engine::units::Bandwidth;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The file's name, in a user's or root's directory.
const FILE: &str = "bottlenet.json";

/// What was said of one interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Word {
    /// The rates, in bits per second: what comes in, and what goes out if it differs.
    Rate {
        /// What comes in.
        down_bps: u64,
        /// What goes out; as `down_bps` if not given.
        up_bps: Option<u64>,
    },
    /// To be estimated.
    #[default]
    Auto,
    /// Not to be guessed.
    Off,
}

impl Word {
    /// What a law of this direction is told.
    pub(crate) fn bottleneck(self, direction: Direction) -> Bottleneck {
        match self {
            Self::Rate { down_bps, up_bps } => Bottleneck::Stated(Bandwidth::bits_per_sec(match direction {
                Direction::Download => down_bps,
                Direction::Upload => up_bps.unwrap_or(down_bps),
            })),
            Self::Auto => Bottleneck::Auto,
            Self::Off => Bottleneck::Unknown,
        }
    }
}

/// What one user, or root, has said.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Words {
    /// By interface.
    pub interfaces: BTreeMap<String, Word>,
}

impl Words {
    /// Reads them; nothing where there is no file.
    pub fn read(directory: &Path) -> io::Result<Self> {
        match fs::read_to_string(directory.join(FILE)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            text => serde_json::from_str(&text?).map_err(io::Error::from),
        }
    }

    /// Writes them, all or nothing. `directory` must exist.
    pub fn write(&self, directory: &Path) -> io::Result<PathBuf> {
        let path = directory.join(FILE);
        let fresh = directory.join(format!("{FILE}.{}", std::process::id()));
        fs::write(&fresh, serde_json::to_string(self).map_err(io::Error::from)?)?;
        fs::rename(&fresh, &path).inspect_err(|_| drop(fs::remove_file(&fresh)))?;
        Ok(path)
    }
}

/// Whose word counts for each interface: directories in order, the first that says something of it.
pub fn word_of(directories: &[PathBuf], interface: &str) -> Word {
    let said = |directory: &PathBuf| {
        // A file that cannot be read says nothing; `bottlenet show` says why.
        let words = Words::read(directory).ok()?;
        words.interfaces.get(interface).copied()
    };
    directories.iter().find_map(said).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_users_word_comes_before_roots_and_both_outlive_the_writer() {
        let base = std::env::temp_dir().join(format!("suimon-bottlenet-{}", std::process::id()));
        let [user, root] = ["user", "root"].map(|name| base.join(name));
        for directory in [&user, &root] {
            fs::create_dir_all(directory).expect("a directory");
        }
        let rate = |down_bps| Word::Rate {
            down_bps,
            up_bps: None,
        };
        let words = |of: &[(&str, Word)]| Words {
            interfaces: of.iter().map(|(name, word)| ((*name).into(), *word)).collect(),
        };
        words(&[("eth0", rate(10)), ("eth1", rate(20))])
            .write(&root)
            .expect("written");
        words(&[("eth0", Word::Off)]).write(&user).expect("written");
        let both = [user, root];
        assert_eq!(word_of(&both, "eth0"), Word::Off);
        assert_eq!(word_of(&both, "eth1"), rate(20));
        assert_eq!(word_of(&both, "eth2"), Word::Auto);
        fs::remove_dir_all(&base).expect("removed");
    }

    #[test]
    fn what_goes_out_is_as_fast_as_what_comes_in_unless_said() {
        let word = |up_bps| Word::Rate { down_bps: 8, up_bps };
        let up = |word: Word| word.bottleneck(Direction::Upload);
        let stated = |bits| Bottleneck::Stated(Bandwidth::bits_per_sec(bits));
        assert_eq!((up(word(None)), up(word(Some(2)))), (stated(8), stated(2)));
    }
}
