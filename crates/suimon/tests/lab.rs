//! `suimon lab` from the command line: the example, mistakes, a program's end, and what remains
//! after a kill.

use lab::published::Published;
use netio::capture_file::Reader;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const NOBODY: u32 = 65534;
const SUIMON: &str = env!("CARGO_BIN_EXE_suimon");

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/lab-dumbbell.toml")
}

fn suimon(arguments: &[&str]) -> Output {
    let mut command = Command::new(SUIMON);
    command.arg("lab").args(arguments).stdin(Stdio::null());
    command.output().expect("the program starts")
}

/// The example with a program in a host.
fn in_example(host: &str, script: &str) -> Output {
    let example = example();
    let example = example.to_str().expect("a path in UTF-8");
    suimon(&[example, "--in", host, "--", "sh", "-c", script])
}

#[test]
fn a_program_in_a_host_sees_that_hosts_interfaces_and_all_addresses() {
    let output = in_example("left", "cut -d: -f1 /proc/net/dev; echo $SUIMON_CAROL");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    for expected in ["eth0", "eth1", "eth2", "10.0.3.2"] {
        assert!(text.contains(expected), "{expected} is missing in:\n{text}");
    }
    assert!(!text.contains("eth3"), "{text}");
}

/// As in the simulator: with ARP the first packet over a link would wait for a round trip.
#[test]
fn hosts_know_their_neighbours_before_the_first_packet() {
    let output = in_example("left", "cat /proc/net/arp");
    let text = String::from_utf8_lossy(&output.stdout);
    let permanent = text.lines().filter(|line| line.contains(" 0x6 ")).count();
    assert_eq!(permanent, 3, "{text}");
}

#[test]
fn a_program_that_fails_is_a_failure_with_its_exit_code() {
    let output = in_example("bob", "exit 7");
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(in_example("bob", "kill -9 $$").status.code(), Some(128 + 9));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        error.contains("`sh` in host `bob` ended with exit status: 7"),
        "{error}"
    );
}

#[test]
fn mistakes_are_usage_errors_with_position_and_nearest_name() {
    let output = in_example("alise", "true");
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("did you mean `alice`?"), "{error}");

    let file = std::env::temp_dir().join(format!("suimon-lab-{}.toml", std::process::id()));
    std::fs::write(
        &file,
        "version = 1\nhosts = [\"a\", \"b\"]\n[[link]]\nbetween = [\"a\", \"c\"]\n",
    )
    .expect("a file");
    let output = suimon(&[file.to_str().expect("a path in UTF-8")]);
    std::fs::remove_file(&file).expect("our file");
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        error.contains(":4:17") && error.contains("unknown host `c`"),
        "{error}"
    );
}

#[test]
fn a_link_is_observed_by_a_capture_and_a_series() {
    let folder = std::env::temp_dir().join(format!("suimon-lab-look-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = |name: &str| folder.join(name).display().to_string();
    let topology = "version = 1\nhosts = [\"a\", \"b\"]\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"10 Mbit/s\"\n\
                    delay = \"1 ms\"\njitter = \"1 ms\"\nloss = \"every 1000\"\n";
    std::fs::write(file("t.toml"), topology).expect("a file");
    let script = "for i in 1 2 3 4; do echo through-the-wire > /dev/udp/$SUIMON_B/9; sleep 0.1; done";
    let (capture, series) = (
        format!("a > b={}", file("down.pcapng")),
        format!("a>b={}", file("down.csv")),
    );
    let topology = file("t.toml");
    let output = suimon(&[
        &topology, "--pcap", &capture, "--series", &series, "--bin", "1ms", "--", "bash", "-c", script,
    ]);
    assert!(output.status.success(), "{output:?}");
    let mut reader =
        Reader::new(std::fs::File::open(file("down.pcapng")).expect("a capture")).expect("a capture");
    let (mut frame, mut found) = (Vec::new(), 0);
    while reader.next(&mut frame).expect("whole").is_some() {
        found += usize::from(frame.windows(16).any(|part| part == b"through-the-wire"));
    }
    assert_eq!(found, 4);
    let csv = std::fs::read_to_string(file("down.csv")).expect("a series");
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("time_s,offered_bps,sent_bps"));
    let sent: f64 = lines
        .filter_map(|line| line.rsplit(',').next()?.parse::<f64>().ok())
        .sum();
    // In bins of 1 ms: four datagrams of 59 bytes, and the hosts' own packets.
    assert!(sent / 8_000.0 >= 4.0 * 59.0, "{csv}");
    let wrong = suimon(&[&topology, "--pcap", "b > c=x", "--", "true"]);
    let error = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(
        wrong.status.code() == Some(2) && error.contains("did you mean `b > a`?"),
        "{error}"
    );
    std::fs::remove_dir_all(&folder).expect("ours");
}

#[test]
fn without_user_namespaces_one_line_shows_what_to_do() {
    // Root without capabilities, where no more user namespaces can be created.
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all \"$@\"";
    let example = example();
    let files = [SUIMON, example.to_str().expect("a path in UTF-8")];
    let published = Published::new(&files);
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "sh", "-c", script, "sh"]);
    let output = command
        .arg(published.path(files[0]))
        .arg("lab")
        .arg(published.path(files[1]))
        .args(["--", "true"])
        .output()
        .expect("unshare(1) starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(
        error.contains("cannot make a user namespace") && error.contains("run as root"),
        "{error}"
    );
}

/// As in a container of podman.
#[test]
fn where_proc_sys_is_read_only_one_line_shows_what_to_do() {
    // In a namespace below, where nobody may undo it.
    let script = "mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys && \
                  exec unshare --user --map-root-user --mount \"$0\" lab --rate 1Mbit/s -- true";
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, SUIMON])
        .output()
        .expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("--security-opt unmask=/proc/sys"), "{said}");
}

/// Every process whose command line contains this text.
fn processes_with(text: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("a proc file system");
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let mine = std::process::id();
    numbers
        .filter(|&pid| pid != mine)
        .filter(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(text)
        })
        .collect()
}

/// Starts the example with a program that leaves a child and a grandchild running, each with `mark`
/// in its command line, and waits until they run.
fn start_with_family(mark: &str, user: Option<u32>, files: &Published) -> Child {
    let script = format!("sleep {mark} & setsid sh -c 'sleep {mark} & wait' & echo ready; wait");
    let mut command = Command::new(files.path(SUIMON));
    if let Some(user) = user {
        command.uid(user).gid(user).current_dir("/");
    }
    let example = files.path(example().to_str().expect("a path in UTF-8"));
    family(command, example.to_str().expect("a path in UTF-8"), &script)
}

fn family(mut command: Command, file: &str, script: &str) -> Child {
    command.args(["lab", file, "--in", "alice", "--", "sh", "-c", script]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut line = String::new();
    let out = child.stdout.take().expect("a pipe");
    BufReader::new(out).read_line(&mut line).expect("its output");
    if line != "ready\n" {
        let mut error = String::new();
        let _ = child.stderr.take().expect("a pipe").read_to_string(&mut error);
        panic!("it printed {line:?} and {error:?}");
    }
    child
}

fn killed_without_remains(mark: &str, user: Option<u32>, victim: impl Fn(&Child) -> u32) {
    let files = Published::new(&[SUIMON, example().to_str().expect("a path in UTF-8")]);
    let mut child = start_with_family(mark, user, &files);
    // suimon in three processes, the shell, its child, the other shell, and the grandchild.
    let until = Instant::now() + Duration::from_secs(10);
    while processes_with(mark).len() < 7 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(processes_with(mark).len() >= 7, "{:?}", processes_with(mark));
    let victim = victim(&child);
    // The shell has a built-in `kill`; a minimal Debian has no other.
    let status = Command::new("sh")
        .args(["-c", &format!("kill -KILL {victim}")])
        .status()
        .expect("kill");
    assert!(status.success());
    child.wait().expect("our child");
    while !processes_with(mark).is_empty() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(processes_with(mark), [0_u32; 0], "they still run");
}

/// A number of seconds to sleep that no other process uses.
fn mark(which: u32) -> String {
    format!("86{which}.{}", std::process::id())
}

#[test]
fn nothing_is_left_when_the_lab_is_killed() {
    killed_without_remains(&mark(1), None, Child::id);
}

#[test]
fn nothing_is_left_when_its_innermost_process_is_killed() {
    // The innermost of suimon's own processes: the one that started the shell.
    killed_without_remains(&mark(2), None, |child| {
        let parent_of = |pid: u32| -> Option<u32> {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            status
                .lines()
                .find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok())
        };
        let all = processes_with(&mark(2));
        let below = |parent: u32| all.iter().copied().find(|&pid| parent_of(pid) == Some(parent));
        below(child.id()).and_then(below).expect("three processes")
    });
}

#[test]
fn nothing_is_left_when_an_ordinary_users_lab_is_killed() {
    let root = std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0);
    killed_without_remains(&mark(3), root.then_some(NOBODY), Child::id);
}
