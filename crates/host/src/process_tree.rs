//! Processes, their descendants and their socket descriptors, as `/proc` lists them.

use std::collections::BTreeMap;
use std::fs;
use std::io;

/// The process of this thread.
pub(crate) fn process_of(thread: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    line.trim().parse().ok()
}

/// Whether a process is ending, or has ended. One that is cannot be told from a forbidden one
/// otherwise: when its memory is gone, the kernel gives its `/proc/PID/fd` to root.
pub(crate) fn is_ending(pid: i32) -> bool {
    /// The kernel's `PF_EXITING`, set before the memory is given up and never cleared.
    const EXITING: u32 = 4;
    let flags = stat_field(pid, 9).and_then(|word| word.parse::<u32>().ok());
    flags.is_none_or(|flags| flags & EXITING != 0)
}

/// Whether a process has another network namespace than this one, as far as the system tells.
pub(crate) fn is_in_other_namespace(pid: i32) -> bool {
    let namespace = |of: &str| fs::read_link(format!("/proc/{of}/ns/net")).ok();
    let [its, own] = [namespace(&pid.to_string()), namespace("self")];
    its.is_some() && own.is_some() && its != own
}

/// The name of a process's program.
pub(crate) fn name_of(pid: i32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim().to_string()
}

/// The user of a process: the effective one.
pub(crate) fn user_of(pid: i32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The names by which users know a process's program: the kernel's, which has 15 bytes at most,
/// that of the first word of its command line, and that of the script which an interpreter runs.
pub(crate) fn program_names(pid: i32) -> Vec<String> {
    const INTERPRETERS: [&str; 8] = ["sh", "bash", "dash", "zsh", "python", "perl", "ruby", "node"];
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<String> = line
        .split(|b| *b == 0)
        .map(|word| {
            let word = String::from_utf8_lossy(word);
            word.rsplit('/').next().unwrap_or_default().to_string()
        })
        .collect();
    let mut names = vec![name_of(pid)];
    let first = words.first().cloned().unwrap_or_default();
    let stem = first.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    if INTERPRETERS.contains(&stem) {
        names.extend(words.get(1).cloned());
    }
    names.push(first);
    names.retain(|name| !name.is_empty());
    names
}

/// All descendants of this process, nearest first.
pub(crate) fn below(root: i32) -> Vec<i32> {
    let Some(mut found) = children_of(root) else {
        return below_by_parents(root);
    };
    let mut at = 0;
    while let Some(pid) = found.get(at) {
        // One that has just ended has no children.
        found.extend(children_of(*pid).unwrap_or_default());
        at += 1;
    }
    found
}

/// The children of all threads of a process; none if the kernel does not list them.
fn children_of(pid: i32) -> Option<Vec<i32>> {
    let mut found = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        let path = thread.path().join("children");
        match fs::read_to_string(path) {
            Ok(text) => found.extend(
                text.split_ascii_whitespace()
                    .filter_map(|word| word.parse::<i32>().ok()),
            ),
            // The thread has ended; or the kernel has no such lists, as our own thread shows.
            Err(_) if fs::exists("/proc/thread-self/children").unwrap_or(false) => {}
            Err(_) => return None,
        }
    }
    Some(found)
}

/// The same from the parents of all processes, where the kernel has no lists of children.
fn below_by_parents(root: i32) -> Vec<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()) {
        if let Some(parent) = parent_of(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = vec![root];
    let mut at = 0;
    while let Some(pid) = found.get(at) {
        found.extend(children.remove(pid).unwrap_or_default());
        at += 1;
    }
    found.remove(0);
    found
}

fn parent_of(pid: i32) -> Option<i32> {
    stat_field(pid, 4)?.parse().ok()
}

/// A field of `stat`, of proc_pid_stat(5)'s number, from the third on. The second, the name, is in
/// brackets and may contain anything.
pub(crate) fn stat_field(pid: i32, number: usize) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let rest = stat.rsplit_once(')')?.1;
    let field = rest.split_ascii_whitespace().nth(number.checked_sub(3)?)?;
    Some(field.to_string())
}

/// The socket descriptors of a process, each with its inode. An error if the system hides them.
pub(crate) fn sockets_of(pid: i32) -> io::Result<Vec<(i32, u64)>> {
    let folder = format!("/proc/{pid}/fd");
    let mut found = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let entry = entry?;
        let Some(fd) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let target = match fs::read_link(entry.path()) {
            Ok(target) => target,
            // The numbers are its user's to see, but not the files: it has more privilege.
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return Err(e),
            // It may have been closed meanwhile.
            Err(_) => continue,
        };
        let inode = target
            .to_str()
            .and_then(|text| text.strip_prefix("socket:["))
            .and_then(|text| text.strip_suffix(']'))
            .and_then(|text| text.parse().ok());
        found.extend(inode.map(|inode| (fd, inode)));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_below_its_parent_and_has_its_sockets() {
        let own = std::process::id().cast_signed();
        let parent = parent_of(own).expect("a parent");
        assert!(below(parent).contains(&own) && below_by_parents(parent).contains(&own));
        assert_eq!(process_of(own), Some(own));
        let before = sockets_of(own).expect("readable").len();
        let _socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
        assert!(sockets_of(own).expect("readable").len() > before);
    }
}
