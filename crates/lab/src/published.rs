//! Copies of files in a directory that every user may enter, for programs that run as an
//! unprivileged user: the checkout may be closed to others (a home directory of mode 700 or 750).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The environment variable by which a test in a box finds its copies.
pub(crate) const DIRECTORY: &str = "SUIMON_LAB_PUBLISHED";

/// Copies that every user may read and run; removed when this is dropped.
#[derive(Debug)]
pub struct Published {
    directory: PathBuf,
}

impl Published {
    /// Publishes these files.
    ///
    /// # Panics
    /// If a file cannot be read, or the directory for temporary files cannot be written to.
    pub fn new(files: &[&str]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("suimon-published-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir(&directory).expect("a new directory");
        let published = Self { directory };
        open_to_all(&published.directory);
        for file in files {
            publish(file, &published.path(file));
        }
        published
    }

    /// The copy of this file.
    pub fn path(&self, file: &str) -> PathBuf {
        copy_in(&self.directory, file)
    }

    /// Where the copies are.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// This file as the test in a box may reach it: the copy if there is one.
pub fn published(file: &str) -> PathBuf {
    let copy = std::env::var_os(DIRECTORY).map(|directory| copy_in(Path::new(&directory), file));
    copy.filter(|copy| copy.exists()).unwrap_or_else(|| file.into())
}

fn copy_in(directory: &Path, file: &str) -> PathBuf {
    directory.join(Path::new(file).file_name().expect("a file's path"))
}

/// A program that all may run is linked rather than copied: to write it while another thread forks
/// would make the kernel refuse to run it (ETXTBSY).
fn publish(file: &str, copy: &Path) {
    let mode = fs::metadata(file).expect("a file").permissions().mode();
    if mode & 0o005 != 0o005 || fs::hard_link(file, copy).is_err() {
        fs::copy(file, copy).expect("a copy");
        open_to_all(copy);
    }
}

fn open_to_all(path: &Path) {
    let mode = fs::metadata(path).expect("ours").permissions().mode();
    let all = fs::Permissions::from_mode(mode | 0o555);
    fs::set_permissions(path, all).expect("a change of mode");
}
