//! Least privilege: a thread, and whatever it starts, keeps the rights that its work needs.
//!
//! Once everything is open, [`Confinement::enter`] takes the rest away, for good: capabilities
//! (`capabilities`), system calls (seccomp, `calls`), files and TCP (Landlock, `files`), and
//! `no_new_privs`. All of these belong to a thread and are inherited by the threads it starts, so a
//! program enters [`Role::Program`] before its first thread, and each thread its own role.
//!
//! A forbidden system call fails with EPERM and does not end the process: one that was forgotten
//! here is an error of one request, not of the link. What this kernel lacks is reported and is no
//! reason not to run. The tables are in `docs/security.md`; tests compare them with a running
//! program.

#![forbid(unsafe_code)]

mod calls;
mod capabilities;
mod files;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

/// What a thread does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// All that a program which manages interfaces does after it has started: the frame of the
    /// roles of its threads.
    Program,
    /// It moves packets, and opens ports again that have failed.
    DataPlane,
    /// It answers requests of the control socket, and reads and writes policies.
    Control,
    /// It speaks RSVP.
    Rsvp,
    /// It computes limits, and touches nothing but memory.
    Law,
    /// It asks hosts by sockets that are open already, and computes rates of the answers.
    Probe,
    /// It hears of the kernel's connections by sockets that are open already, and asks by them for
    /// all.
    Connections,
    /// It answers HTTP requests, and asks a control socket.
    Web,
    /// It shows on a terminal what a control socket says.
    Viewer,
}

/// What is left to a program, and to its threads by their roles.
#[derive(Clone, Debug, Default)]
pub struct Confinement {
    on: bool,
    /// Folders where files may be made, changed and removed.
    change: Vec<PathBuf>,
    /// Where a role that is not told to read everything may read.
    read: Vec<PathBuf>,
    /// Whether a folder or file that is changed belongs to another user.
    foreign: bool,
}

impl Confinement {
    /// Nothing is taken away: for the diagnosis of a fault.
    pub fn none() -> Self {
        Self::default()
    }

    /// Files are changed in these folders only.
    pub fn changing(folders: impl IntoIterator<Item = PathBuf>) -> Self {
        let change: Vec<PathBuf> = folders.into_iter().collect();
        let foreign = change.iter().any(|folder| files::is_foreign(folder));
        Self {
            on: true,
            change,
            read: Vec::new(),
            foreign,
        }
    }

    /// The same; roles that do not read everything may read there. Where a folder does not exist
    /// yet, it is the one in which it would be made.
    #[must_use]
    pub fn reading(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let there = |path: PathBuf| path.ancestors().find(|path| path.exists()).map(Path::to_path_buf);
        self.read.extend(paths.into_iter().filter_map(there));
        self
    }

    /// The same; this file is exchanged, and keeps its owner.
    #[must_use]
    pub fn with_file(mut self, file: &Path) -> Self {
        self.foreign |= files::is_foreign(file);
        self
    }

    /// Confines this thread, and those that it starts. Returns what could not be done here, each a
    /// sentence for a user; nothing if it is confined as a whole.
    pub fn enter(&self, role: Role) -> Vec<String> {
        if !self.on {
            return vec!["nothing was taken away, as --no-sandbox asks".into()];
        }
        let mut lacking = Vec::new();
        // Landlock and seccomp need it, of whoever is not root.
        if let Err(why) = rustix::thread::set_no_new_privs(true) {
            lacking.push(format!("new privileges cannot be ruled out: {why}"));
        }
        lacking.extend(capabilities::keep(role, self.foreign).err());
        lacking.extend(files::keep(role, &self.change, &self.read).err());
        lacking.extend(calls::keep(role).err());
        lacking
    }

    /// Runs `work` in a thread of this role; the threads that it starts have this role too.
    ///
    /// # Panics
    /// If `work` panics, or the thread cannot be started.
    pub fn within<T: Send>(&self, role: Role, work: impl FnOnce() -> T + Send) -> T {
        if !self.on {
            return work();
        }
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                // What the kernel lacks was told for the program already.
                let _ = self.enter(role);
                work()
            });
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// What this kernel lacks of what [`Confinement::enter`] uses, each a sentence for a user.
pub fn lacking() -> Vec<String> {
    [calls::lacking(), files::lacking()]
        .into_iter()
        .flatten()
        .collect()
}
