//! `cargo xtask release KEY DATABASE`: the files of a release, signed, in `target/release-files`.
//!
//! The tree must be what is tagged `v` and the version, and the changelog must have that version.
//! The parts are compared with a copy of RustSec's database, the program is built twice and
//! compared, and the package is made of it. The sums of all files are signed by `ssh-keygen -Y`,
//! since whoever has git has that; whose keys may sign is in `packaging/release-signers`
//! (`ALLOWED SIGNERS` of ssh-keygen(1)). How a signature is checked stands in SECURITY.md.

use crate::{advisories, bill, package, reproduced};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const FOLDER: &str = "target/release-files";
const SIGNERS: &str = "packaging/release-signers";
const SUMS: &str = "SHA256SUMS";
/// Who signs, as the list of signers names it, and for what the signature is.
const IDENTITY: &str = "releases";
const NAMESPACE: &str = "suimon-release";

/// Makes a release.
///
/// # Errors
/// A tree that is not what was tagged, parts with known vulnerabilities, a build that failed or
/// differs, or a key that may not sign.
pub fn make(root: &Path, key: &str, database: &str) -> Result<(), String> {
    let version = env!("CARGO_PKG_VERSION");
    is_tagged(root, version)?;
    advisories::renew(root, database)?;
    if !told(root, "git", &["status", "--porcelain"])?.is_empty() {
        return Err(format!(
            "{} has changed: commit it, and tag that commit",
            advisories::FILE
        ));
    }
    bill::write(root)?;
    reproduced::compare(root)?;
    let folder = root.join(FOLDER);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|why| format!("{FOLDER}: {why}"))?;
    let sbom = PathBuf::from(format!("suimon_{version}.sbom.json"));
    for (from, name) in [(package::make(root)?, None), (root.join(bill::PLACE), Some(sbom))] {
        let name = name.or_else(|| from.file_name().map(PathBuf::from));
        let to = folder.join(name.unwrap_or_default());
        fs::copy(&from, &to).map_err(|why| format!("{}: {why}", to.display()))?;
    }
    sign(&folder, key)?;
    verify(&folder, &root.join(SIGNERS)).map_err(|why| format!("{why}; may the key sign? See {SIGNERS}"))?;
    println!("{FOLDER}: release {version}, signed");
    Ok(())
}

/// The tree is as committed, and that is tagged as this version, which the changelog has.
fn is_tagged(root: &Path, version: &str) -> Result<(), String> {
    let tag = format!("v{version}");
    if !told(root, "git", &["status", "--porcelain"])?.is_empty() {
        return Err("the tree has changes that are not committed".into());
    }
    let tags = told(root, "git", &["tag", "--points-at", "HEAD"])?;
    if !tags.lines().any(|line| line == tag) {
        return Err(format!("this commit is not tagged {tag}"));
    }
    let changes =
        fs::read_to_string(root.join("CHANGELOG.md")).map_err(|why| format!("CHANGELOG.md: {why}"))?;
    match changes
        .lines()
        .any(|line| line.starts_with(&format!("## {version}")))
    {
        true => Ok(()),
        false => Err(format!("CHANGELOG.md has no `## {version}`")),
    }
}

/// Writes the sums of all files of a folder there, and their signature.
fn sign(folder: &Path, key: &str) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| !name.starts_with(SUMS))
        .collect();
    names.sort();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let sums = told(folder, "sha256sum", &[&["--"], &names[..]].concat())?;
    fs::write(folder.join(SUMS), sums).map_err(|why| format!("{SUMS}: {why}"))?;
    let _ = fs::remove_file(folder.join(format!("{SUMS}.sig")));
    told(
        folder,
        "ssh-keygen",
        &["-Y", "sign", "-n", NAMESPACE, "-f", key, SUMS],
    )?;
    Ok(())
}

/// Checks the signature by the list of signers, and the files by their sums.
fn verify(folder: &Path, signers: &Path) -> Result<(), String> {
    let signature = format!("{SUMS}.sig");
    let sums = fs::File::open(folder.join(SUMS)).map_err(|why| format!("{SUMS}: {why}"))?;
    let ended = Command::new("ssh-keygen")
        .args([
            "-Y", "verify", "-I", IDENTITY, "-n", NAMESPACE, "-s", &signature, "-f",
        ])
        .arg(signers)
        .current_dir(folder)
        .stdin(sums)
        .stdout(Stdio::null())
        .status();
    match ended {
        Ok(status) if status.success() => {}
        Ok(_) => return Err("the signature is not good".into()),
        Err(why) => return Err(format!("cannot run ssh-keygen: {why}")),
    }
    told(folder, "sha256sum", &["--check", "--strict", "--quiet", SUMS]).map(|_| ())
}

/// What a program that succeeds prints.
fn told(folder: &Path, program: &str, words: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(words).current_dir(folder).output();
    let output = output.map_err(|why| format!("cannot run {program}: {why}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!(
            "{program} {}: {}",
            words.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of a test's own, removed at its end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("suimon-release-{name}-{}", std::process::id()));
            fs::create_dir_all(path.join("files")).expect("a folder");
            Self(path)
        }

        /// A key without a passphrase, and the list that lets it sign.
        fn key(&self, name: &str) -> (String, PathBuf) {
            let key = self.0.join(name);
            let words = [
                "-q",
                "-t",
                "ed25519",
                "-N",
                "",
                "-C",
                "",
                "-f",
                &key.display().to_string(),
            ];
            told(&self.0, "ssh-keygen", &words).expect("a key");
            let public = fs::read_to_string(key.with_extension("pub")).expect("a public key");
            let signers = self.0.join(format!("{name}-signers"));
            fs::write(
                &signers,
                format!("{IDENTITY} namespaces=\"{NAMESPACE}\" {public}"),
            )
            .expect("written");
            (key.display().to_string(), signers)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_release_is_good_as_it_was_signed_and_by_who_may_sign_alone() {
        if Command::new("ssh-keygen").arg("-?").output().is_err() {
            skips::skipped("ssh-keygen is not installed");
            return;
        }
        let place = Folder::new("signed");
        let files = place.0.join("files");
        let write = |name: &str, text: &str| fs::write(files.join(name), text).expect("written");
        write("suimon_1.deb", "a package");
        write("suimon_1.sbom.json", "its parts");
        let (key, signers) = place.key("ours");
        let (other_key, others) = place.key("another");
        sign(&files, &key).expect("signed");
        sign(&files, &key).expect("signed again");
        verify(&files, &signers).expect("as it was signed");
        assert!(verify(&files, &others).is_err(), "by a key that may not");
        assert!(verify(&files, &place.0.join("none")).is_err(), "nobody may sign");

        write("suimon_1.deb", "A package");
        assert!(verify(&files, &signers).is_err(), "a file has changed");
        let sums = fs::read_to_string(files.join(SUMS)).expect("sums");
        sign(&files, &other_key).expect("signed by another");
        assert!(
            verify(&files, &signers).is_err(),
            "the sums fit, and another signed"
        );
        sign(&files, &key).expect("signed");
        verify(&files, &signers).expect("as it was signed now");
        fs::write(files.join(SUMS), sums).expect("written");
        assert!(verify(&files, &signers).is_err(), "sums of another time");
    }

    #[test]
    fn what_is_not_tagged_as_the_version_is_no_release() {
        let place = Folder::new("tagged");
        let git = |words: &[&str]| {
            let who = ["-c", "user.name=a", "-c", "user.email=a@localhost"];
            told(&place.0, "git", &[&who[..], words].concat()).expect("git");
        };
        let refused = |version: &str| is_tagged(&place.0, version).err().unwrap_or_default();
        git(&["init", "-q"]);
        let write = |text: &str| fs::write(place.0.join("CHANGELOG.md"), text).expect("written");
        write("# Changelog\n\n## 1.2.3\n");
        assert!(refused("1.2.3").contains("not committed"));
        git(&["add", "-A"]);
        git(&["commit", "-qm", "one"]);
        assert!(refused("1.2.3").contains("not tagged"));
        git(&["tag", "v1.2.3"]);
        git(&["tag", "v1.2.4"]);
        assert_eq!(refused("1.2.3"), "");
        assert!(refused("1.2.4").contains("no `## 1.2.4`"));
        write("# Changelog\n\n## 1.2.3\n- more\n");
        assert!(refused("1.2.3").contains("not committed"));
    }
}
