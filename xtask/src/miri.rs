//! `cargo xtask miri`: the unsafe code that is no system call, run by Miri, which tells what the
//! language does not define: reads beyond a slot, of memory that was given back, by a pointer that
//! a later borrow has ended. It needs a nightly compiler, so CI does not run it; what it said is
//! in `docs/measurements/threads-and-memory.md`.

use std::path::Path;
use std::process::Command;

/// The beginnings of the names of netio's tests: the pool of frames, the memory of AF_XDP, and the
/// arrays of `recvmmsg` and `sendmmsg`.
const TESTS: &[&str] = &["pool::", "ports::af_xdp::umem::", "messages::"];

/// Runs them.
///
/// # Errors
/// If Miri is not installed, or finds something.
pub fn run(root: &Path) -> Result<(), String> {
    let mut miri = Command::new("cargo");
    miri.args(["+nightly", "miri", "test", "--package", "netio", "--lib", "--"]);
    miri.args(TESTS).current_dir(root);
    // Memory is mapped, and a pool reads the clock.
    miri.env("MIRIFLAGS", "-Zmiri-disable-isolation");
    match miri.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!(
            "miri: {status}; it needs `rustup toolchain install nightly --component miri,rust-src`"
        )),
        Err(why) => Err(format!("miri: cargo could not be started: {why}")),
    }
}
