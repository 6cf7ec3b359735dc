//! Processors that do not sleep while a case is measured. One that has nothing to do is put to
//! sleep, and to wake it takes 10 to 20 µs here. Probes, which go where nothing else does, find it
//! asleep more often than a line's packets, and so would count a place's own time too high. A
//! program of the idle class on each gives way to every other at once.

use super::places::{self, Children};
use std::os::unix::process::parent_id;
use std::process::{Command, Stdio};

/// Keeps every processor awake until what this returns is dropped.
pub fn all() -> Result<Children, String> {
    let mut awake = Children(Vec::new());
    let ourselves = places::ourselves()?;
    for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
        let mut command = Command::new("chrt");
        command.args(["--idle", "0", &ourselves, "equality", "awake"]);
        let started = command.stdin(Stdio::null()).spawn();
        awake.0.push(started.map_err(|e| format!("chrt: {e}"))?);
    }
    Ok(awake)
}

/// Does nothing, and without a pause, for as long as who started it is there.
pub fn stay() {
    let parent = parent_id();
    while parent_id() == parent {
        (0..1_000_000).for_each(|_| std::hint::spin_loop());
    }
}
