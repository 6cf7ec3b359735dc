//! The key file: its permissions, its keys, and reloading it.
//!
//! Only its owner may read it, like an ssh key: whoever reads it can impersonate every node that
//! has these keys. When the file is replaced it is reloaded, so that keys can be added while
//! reservations are in force; an invalid file changes nothing.

use control::rsvp_config::{Protection, RsvpConfig};
use control::rsvp_keys::{self, DigestAlgorithm, Time};
use engine::units::{Duration, Instant};
use rsvp::integrity::{Algorithm, IntegrityKey, InterfaceKeys, KeyLifetime, KeyOwner, Requirement};
use std::fs::{File, Metadata};
use std::io::Read;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The maximum length, in bytes.
const LONGEST: u64 = 1 << 20;

/// A key file that has been read.
#[derive(Debug)]
pub struct KeyFile {
    path: PathBuf,
    stamp: Stamp,
    keys: Vec<rsvp_keys::KeySettings>,
    requirement: Requirement,
    unprotected: Vec<IpAddr>,
}

/// Distinguishes a file from its predecessor: device, inode, size and modification time.
type Stamp = (u64, u64, u64, i64, i64);

fn stamp(file: &Metadata) -> Stamp {
    (
        file.dev(),
        file.ino(),
        file.size(),
        file.mtime(),
        file.mtime_nsec(),
    )
}

impl KeyFile {
    /// Reads the key file of a configuration, if it names one.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, others can read it, or it is invalid.
    pub fn of(config: &RsvpConfig) -> Result<Option<Self>, String> {
        let Some(path) = &config.settings.keys else {
            return Ok(None);
        };
        let path = PathBuf::from(path);
        let (stamp, keys) = read(&path)?;
        let requirement = match config.settings.protection {
            Protection::Required => Requirement::Required,
            Protection::Optional => Requirement::Optional,
        };
        Ok(Some(Self {
            path,
            stamp,
            keys,
            requirement,
            unprotected: config.unprotected.clone(),
        }))
    }

    /// Reloads the file if it has changed; returns whether it has.
    ///
    /// # Errors
    ///
    /// Once for each invalid version of the file; the old keys stay.
    pub fn reload(&mut self) -> Result<bool, String> {
        let there = std::fs::metadata(&self.path).map(|file| stamp(&file));
        match there {
            Ok(there) if there != self.stamp => {
                self.stamp = there;
                self.keys = read(&self.path)?.1;
                Ok(true)
            }
            // While it is being replaced, the file may be missing for a moment.
            _ => Ok(false),
        }
    }

    /// The keys of an interface; none if no key is for it.
    pub fn interface(&self, name: &str, addresses: &[IpAddr]) -> Option<InterfaceKeys> {
        let keys = self.keys.iter().filter(|key| key.is_on(name));
        let keys: Vec<IntegrityKey> = keys.filter_map(usable).collect();
        let unprotected = self.unprotected.iter();
        (!keys.is_empty()).then(|| InterfaceKeys {
            addresses: addresses.to_vec(),
            requirement: self.requirement,
            neighbours: unprotected
                .map(|address| (*address, Requirement::Optional))
                .collect(),
            keys,
        })
    }

    /// Whether messages without INTEGRITY are dropped on interfaces that have a key.
    pub fn is_required(&self) -> bool {
        self.requirement == Requirement::Required
    }
}

fn read(path: &Path) -> Result<(Stamp, Vec<rsvp_keys::KeySettings>), String> {
    let name = path.display();
    let cannot = |error: std::io::Error| format!("cannot read the key file {name}: {error}");
    let file = File::open(path).map_err(cannot)?;
    // Of the open file: the name may refer to another file by now.
    let about = file.metadata().map_err(cannot)?;
    let own = rustix::process::geteuid().as_raw();
    if !about.is_file() {
        return Err(format!("the key file {name} is not a regular file"));
    }
    if about.mode() & 0o077 != 0 {
        return Err(format!(
            "users other than its owner can read or write the key file {name} (mode {:o}): run `chmod 600 {name}`, and \
             create new keys if other users may have read these",
            about.mode() & 0o777
        ));
    }
    if about.uid() != own && about.uid() != 0 {
        return Err(format!(
            "the key file {name} belongs to user {}, who could change it: run `chown {own} {name}`",
            about.uid()
        ));
    }
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text).map_err(cannot)?;
    let keys = rsvp_keys::read(&name.to_string(), &text)?;
    Ok((stamp(&about), keys))
}

/// A key for the integrity shim; its times count from 1970.
fn usable(key: &rsvp_keys::KeySettings) -> Option<IntegrityKey> {
    let at = |time: Time| Instant::START + Duration::from_secs(1).times(time.0);
    let begins = key.begins.map_or(Instant::START, at);
    let ends = key.ends.map_or(Instant::NEVER, at);
    let lifetime = KeyLifetime {
        send: (begins, ends),
        accept: (begins - key.margin, ends + key.margin),
    };
    let algorithm = match key.algorithm {
        DigestAlgorithm::HmacSha256 => Algorithm::HmacSha256,
        DigestAlgorithm::HmacMd5 => Algorithm::HmacMd5,
    };
    let owner = match key.whose {
        rsvp_keys::WhoseKey::Shared => KeyOwner::Shared,
        rsvp_keys::WhoseKey::Local => KeyOwner::Local,
        rsvp_keys::WhoseKey::Neighbour(neighbour) => KeyOwner::Neighbour(neighbour),
    };
    // The identifier and the length of the secret were checked when the file was read.
    IntegrityKey::new(key.id.0, algorithm, &key.secret.0, lifetime, owner).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::rsvp_config::RsvpSettings;
    use std::os::unix::fs::PermissionsExt;

    const TEXT: &str = "[[key]]\nid = 7\nsecret = \"a secret of some length\"\ninterface = \"wan0\"\n";

    struct TemporaryFile(PathBuf);

    impl Drop for TemporaryFile {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn key_file(name: &str, mode: u32) -> TemporaryFile {
        let path = std::env::temp_dir().join(format!("suimon-keys-{}-{name}", std::process::id()));
        std::fs::write(&path, TEXT).expect("a file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("a mode");
        TemporaryFile(path)
    }

    fn config(path: &Path) -> RsvpConfig {
        RsvpConfig {
            interfaces: Vec::new(),
            settings: RsvpSettings {
                keys: Some(path.display().to_string()),
                ..RsvpSettings::refreshed(Duration::from_secs(30))
            },
            unprotected: vec![IpAddr::from([10, 0, 0, 9])],
            accept: Vec::new(),
        }
    }

    #[test]
    fn a_file_that_others_can_read_is_refused_with_advice() {
        for mode in [0o644, 0o640, 0o602] {
            let file = key_file(&format!("open-{mode:o}"), mode);
            let error = KeyFile::of(&config(&file.0)).expect_err("others can read it");
            assert!(error.contains("chmod 600"), "{error}");
        }
        let error = KeyFile::of(&config(Path::new("/nonexistent"))).expect_err("it is not there");
        assert!(error.contains("/nonexistent"), "{error}");
        let error = KeyFile::of(&config(Path::new("/dev/null"))).expect_err("it is a device");
        assert!(error.contains("is not a regular file"), "{error}");
    }

    #[test]
    fn keys_apply_to_their_interface_and_a_new_file_is_reloaded() {
        let file = key_file("own", 0o600);
        let mut keys = KeyFile::of(&config(&file.0))
            .expect("it is right")
            .expect("it is named");
        assert!(keys.interface("lan0", &[]).is_none());
        let wan = keys.interface("wan0", &[]).expect("there is one");
        assert_eq!((wan.keys.len(), wan.keys[0].id()), (1, 7));
        assert_eq!(wan.neighbours.len(), 1);
        assert_eq!(keys.reload(), Ok(false));
        std::fs::write(&file.0, TEXT.replace("wan0", "lan0") + "# another\n").expect("a file");
        assert_eq!(keys.reload(), Ok(true));
        assert!(keys.interface("lan0", &[]).is_some() && keys.interface("wan0", &[]).is_none());
        std::fs::write(&file.0, "no keys").expect("a file");
        assert!(keys.reload().is_err());
        assert_eq!(keys.reload(), Ok(false), "reported once");
        assert!(
            keys.interface("lan0", &[]).is_some(),
            "the keys read before stay in use"
        );
    }
}
