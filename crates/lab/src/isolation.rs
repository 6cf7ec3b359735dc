//! The box of a lab: a PID, mount and network namespace, and without root a user namespace.
//!
//! Everything that a lab makes is inside the box and ends with it. When one of the processes that
//! keep the box open is killed, even by SIGKILL, the kernel kills every program in it, and the
//! namespaces end with the programs.

use crate::error::{Error, Result};
use crate::published::{self, Published};
use crate::sys::isolate::{Failure, isolate, isolate_before_exec, parent, pid_outside};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

static INSIDE: AtomicBool = AtomicBool::new(false);
const MARK: &str = "SUIMON_LAB_ISOLATED";

/// Enters the box. Must be called at the very start of `main`, while the process has one thread. It
/// returns in a child of the caller; the caller waits, and exits with the child's status.
///
/// # Errors
/// If the namespaces cannot be made; the error names the setting that forbids them.
pub fn enter() -> Result<()> {
    if !is_inside() {
        isolate(None).map_err(explain)?;
        INSIDE.store(true, Ordering::Relaxed);
    }
    Ok(())
}

/// Whether this process is inside a box.
pub fn is_inside() -> bool {
    INSIDE.load(Ordering::Relaxed) || (parent() == 1 && std::env::var_os(MARK).is_some())
}

/// This process's PID outside the box; 0 if it has not [entered](enter) one.
pub fn id_outside() -> u32 {
    pid_outside().unsigned_abs()
}

/// Whether the box has a user namespace, because it was not made by root.
pub fn in_user_namespace() -> bool {
    // The initial user namespace maps all IDs.
    std::fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| !map.contains("4294967295"))
}

/// The error with advice.
fn explain(failure: Failure) -> Error {
    let help = match failure.source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "this machine does not permit it to users: run as root, or permit it with `sysctl -w \
             kernel.unprivileged_userns_clone=1` (Debian), `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0` \
             (Ubuntu), or `--privileged` (containers)"
        }
        Some(libc::ENOSPC | libc::EUSERS) => {
            "the limit on namespaces is reached: run as root, or raise it with `sysctl -w \
             user.max_user_namespaces=10000`"
        }
        Some(libc::EINVAL) => "it must be done before the process starts a second thread",
        _ => "run as root",
    };
    Error::new(failure.step, failure.source).help(help)
}

/// Runs a test's body inside a box: the test program starts itself again for this one test. `body`
/// must be a closure written directly in the test's function: the function's name is taken from the
/// closure's type.
///
/// # Panics
/// If the body panics, or the box cannot be made.
pub fn isolated<F: FnOnce()>(body: F) {
    run_test(body, None, &[]);
}

/// As [`isolated`], but with this user and group ID if the test runs as root. Shows what works
/// without root. The body reaches `files` by [`published`](crate::published::published), wherever
/// the checkout is.
///
/// # Panics
/// If the body panics, or the box cannot be made.
pub fn isolated_as<F: FnOnce()>(user: u32, files: &[&str], body: F) {
    run_test(body, Some(user), files);
}

fn run_test<F: FnOnce()>(body: F, user: Option<u32>, files: &[&str]) {
    if is_inside() {
        return body();
    }
    let name = std::any::type_name::<F>().trim_end_matches("::{{closure}}");
    let name = name.split_once("::").map_or(name, |(_, rest)| rest);
    let root = std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0);
    let mut command = Command::new("/proc/self/exe");
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]);
    command.env(MARK, "1");
    let user = user.filter(|_| root);
    let published = user.map(|_| Published::new(files));
    if let Some(published) = &published {
        // The working directory may be closed to the user, too.
        command.env(published::DIRECTORY, published.directory());
        command.current_dir(published.directory());
    }
    isolate_before_exec(&mut command, user);
    let output = match command.output() {
        Ok(output) => output,
        Err(source) => {
            let step = "make a box for the test";
            panic!("{}", explain(Failure { step, source }))
        }
    };
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success() && out.contains("test result: ok. 1 passed"),
        "in the box, {}:\n{out}{err}",
        output.status
    );
    show(&out);
    show(&err);
}

/// Prints the output of the inner test, without the lines of the test harness.
fn show(text: &str) {
    let harness = ["running ", "test ", "test result"];
    text.lines()
        .filter(|line| !line.is_empty() && !harness.iter().any(|word| line.starts_with(word)))
        .for_each(|line| eprintln!("{line}"));
}
