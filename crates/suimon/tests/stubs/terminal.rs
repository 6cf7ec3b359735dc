//! A terminal for the program under test.

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStringExt;

/// A pseudo-terminal: our side, and the program's.
pub fn terminal() -> (File, File) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
    grantpt(&ours).expect("granted");
    unlockpt(&ours).expect("unlocked");
    let name = ptsname(&ours, Vec::new()).expect("a name").into_bytes();
    let path = std::ffi::OsString::from_vec(name);
    let theirs = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .expect("its other side");
    (ours.into(), theirs)
}
