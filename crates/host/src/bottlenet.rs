//! `bottlenet`: the configured rate of the link next to this host.
//!
//! Each user has a small file of settings, and root has one for all users. A user's own setting
//! takes precedence over root's. Without a setting the rate is estimated. The files end with the
//! user's session, or the machine's: the rate belongs to the place where the host is attached.

use crate::interface;
use crate::tick::{Bottleneck, DataDirection};
use engine::units::Bandwidth;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The file in a user's or root's directory: each network namespace has interfaces of its own.
fn path_in(directory: &Path) -> PathBuf {
    directory.join(format!("bottlenet-{}.json", interface::namespace()))
}

/// The setting of one interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BottlenetSetting {
    /// The link's rates, in bits per second.
    Rate {
        /// The downlink rate.
        down_bps: u64,
        /// The uplink rate; `down_bps` if not given.
        up_bps: Option<u64>,
    },
    /// Estimated.
    #[default]
    Auto,
    /// Not estimated: control by queueing delay.
    Off,
}

impl fmt::Display for BottlenetSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = Bandwidth::bits_per_sec;
        match *self {
            Self::Rate { down_bps, up_bps } => match up_bps {
                Some(up) => write!(f, "{} down, {} up", rate(down_bps), rate(up)),
                None => write!(f, "{}", rate(down_bps)),
            },
            Self::Auto => f.write_str("auto: estimated"),
            Self::Off => f.write_str("off: not estimated, control by queueing delay"),
        }
    }
}

impl BottlenetSetting {
    /// The setting as a law of this direction takes it.
    pub(crate) fn bottleneck(self, direction: DataDirection) -> Bottleneck {
        match self {
            Self::Rate { down_bps, up_bps } => Bottleneck::Stated(Bandwidth::bits_per_sec(match direction {
                DataDirection::Download => down_bps,
                DataDirection::Upload => up_bps.unwrap_or(down_bps),
            })),
            Self::Auto => Bottleneck::Auto,
            Self::Off => Bottleneck::Unknown,
        }
    }
}

/// The settings of one user, or of root.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct BottlenetFile {
    /// By interface.
    pub interfaces: BTreeMap<String, BottlenetSetting>,
}

impl BottlenetFile {
    /// Reads the file; empty if there is none.
    ///
    /// # Errors
    ///
    /// If the file exists and is not readable or not valid.
    pub fn read(directory: &Path) -> io::Result<Self> {
        match fs::read_to_string(path_in(directory)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            text => serde_json::from_str(&text?).map_err(io::Error::from),
        }
    }

    /// Replaces the file atomically. `directory` must exist.
    ///
    /// # Errors
    ///
    /// If the file cannot be written or renamed.
    pub fn write(&self, directory: &Path) -> io::Result<PathBuf> {
        let path = path_in(directory);
        let fresh = path.with_added_extension(std::process::id().to_string());
        fs::write(&fresh, serde_json::to_string(self).map_err(io::Error::from)?)?;
        fs::rename(&fresh, &path).inspect_err(|_| drop(fs::remove_file(&fresh)))?;
        Ok(path)
    }
}

/// The setting of an interface: that of the first of these directories that has one.
pub fn setting_of(directories: &[PathBuf], interface: &str) -> BottlenetSetting {
    let setting = |directory: &PathBuf| {
        // An unreadable file counts as empty here; `bottlenet show` reports the error.
        let file = BottlenetFile::read(directory).ok()?;
        file.interfaces.get(interface).copied()
    };
    directories.iter().find_map(setting).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_users_setting_precedes_roots_and_both_outlive_the_writer() {
        let base = std::env::temp_dir().join(format!("suimon-bottlenet-{}", std::process::id()));
        let [user, root] = ["user", "root"].map(|name| base.join(name));
        for directory in [&user, &root] {
            fs::create_dir_all(directory).expect("a directory");
        }
        let rate = |down_bps| BottlenetSetting::Rate {
            down_bps,
            up_bps: None,
        };
        let file = |of: &[(&str, BottlenetSetting)]| BottlenetFile {
            interfaces: of
                .iter()
                .map(|(name, setting)| ((*name).into(), *setting))
                .collect(),
        };
        file(&[("eth0", rate(10)), ("eth1", rate(20))])
            .write(&root)
            .expect("written");
        file(&[("eth0", BottlenetSetting::Off)])
            .write(&user)
            .expect("written");
        let both = [user, root];
        assert_eq!(setting_of(&both, "eth0"), BottlenetSetting::Off);
        assert_eq!(setting_of(&both, "eth1"), rate(20));
        assert_eq!(setting_of(&both, "eth2"), BottlenetSetting::Auto);
        fs::remove_dir_all(&base).expect("removed");
    }

    #[test]
    fn the_uplink_is_as_fast_as_the_downlink_by_default() {
        let setting = |up_bps| BottlenetSetting::Rate { down_bps: 8, up_bps };
        let up = |setting: BottlenetSetting| setting.bottleneck(DataDirection::Upload);
        let stated = |bits| Bottleneck::Stated(Bandwidth::bits_per_sec(bits));
        assert_eq!((up(setting(None)), up(setting(Some(2)))), (stated(8), stated(2)));
    }
}
