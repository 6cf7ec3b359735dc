//! Starts User-Mode Linux with this program as its first process, and reads its output.
//!
//! It has read-only access to this machine's files, and a network of its own. It ends by itself;
//! otherwise `timeout` ends it, even after this process has ended.

use super::cases::Case;
use super::inside::RESULT;
use super::measured::Side;
use std::path::Path;
use std::process::{Command, Stdio};

const MODULES: &str = "/usr/lib/uml/modules";

/// Returns an error with what is missing on this machine.
pub fn ready() -> Result<(), String> {
    let places = ["/usr/bin", "/usr/sbin", "/bin", "/sbin"];
    let missing: Vec<&str> = [
        ("linux.uml", "user-mode-linux"),
        ("tc", "iproute2"),
        ("modprobe", "kmod"),
        ("sysctl", "procps"),
        ("timeout", "coreutils"),
    ]
    .into_iter()
    .filter(|(program, _)| !places.iter().any(|place| Path::new(place).join(program).exists()))
    .map(|(_, package)| package)
    .collect();
    if missing.is_empty() && Path::new(MODULES).is_dir() {
        return Ok(());
    }
    Err(format!(
        "compare runs a Linux kernel as a program and needs Debian's packages: apt install {}",
        if missing.is_empty() {
            "user-mode-linux".into()
        } else {
            missing.join(" ")
        }
    ))
}

/// Runs the case in its own kernel.
pub fn measure(case: &Case, scratch: &Path) -> Result<Side, String> {
    let ourselves = std::env::current_exe().map_err(|e| format!("our own path: {e}"))?;
    // On a busy machine the kernel's clock is late by milliseconds unless it has priority. It is
    // nearly always idle.
    let may = Command::new("chrt").args(["--rr", "1", "true"]).output();
    let prefix: &[&str] = match may.is_ok_and(|done| done.status.success()) {
        true => &["chrt", "--rr", "1", "timeout"],
        false => &["timeout"],
    };
    let done = Command::new(prefix[0])
        .args(&prefix[1..])
        .arg("--kill-after=5")
        .arg((case.seconds + 60).to_string())
        .args(["linux.uml", "mem=192M", "root=/dev/root", "rootfstype=hostfs"])
        .args([
            "rootflags=/",
            "ro",
            "quiet",
            "con=null",
            "con0=fd:0,fd:1",
            "umid=one",
        ])
        .arg(format!("uml_dir={}/", scratch.display()))
        .arg(format!("init={}", ourselves.display()))
        .args(["--", "compare", "inside", case.name])
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("linux.uml: {e}"))?;
    let printed = String::from_utf8_lossy(&done.stdout);
    let line = printed.lines().find_map(|line| line.trim().strip_prefix(RESULT));
    let line = line.ok_or_else(|| format!("the kernel printed no result:\n{}", printed.trim()))?;
    serde_json::from_str(line).map_err(|e| format!("the kernel's result: {e}: {line}"))
}
