//! A cap holds for real programs with their own servers: https, rsync, git, and short objects, over
//! paths of 0.1 to 100 ms.

use super::rig::{CUBIC, Rig};
use super::until::until;
use super::{FILES, NOBODY, PATIENCE, is_installed};
use engine::units::Duration as Span;
use lab::Running;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

/// The cap in Mbit/s, and the length of what is judged.
const CAP: f64 = 2.0;
const WINDOW: Duration = Duration::from_secs(5);
/// The time between two looks at the interface.
const STEP: Duration = Duration::from_millis(50);
/// What is downloaded, in bytes: more than a minute at the cap.
const BIG: u64 = 16 << 20;

/// A program, those that it and its server need, its own first, and whether every download of it
/// ends soon.
struct Case {
    name: &'static str,
    needs: &'static [&'static str],
    short: bool,
}

const CASES: [Case; 5] = [
    Case {
        name: "https (curl, openssl s_server)",
        needs: &["curl", "openssl"],
        short: false,
    },
    Case {
        name: "rsync (its daemon)",
        needs: &["rsync", "unshare"],
        short: false,
    },
    Case {
        name: "git clone (git daemon)",
        needs: &["git"],
        short: false,
    },
    Case {
        name: "100 KB objects, one by one",
        needs: &["bash"],
        short: true,
    },
    Case {
        name: "100 KB objects, eight at once",
        needs: &["bash"],
        short: true,
    },
];

/// Runs a script as the user of the test, in the directory of its files.
fn prepare(rig: &Rig, script: &str) {
    let mut bash = Command::new("bash");
    let done = bash.args(["-ec", script]).current_dir(&rig.files).output();
    let done = done.expect("bash runs");
    assert!(done.status.success(), "{script}: {done:?}");
}

/// Starts the program's server, if it has one, and waits until it answers. The client's script.
fn serve(rig: &Rig, case: &Case) -> (Option<Running>, String) {
    let files = rig.files.display();
    prepare(rig, &format!("head -c {BIG} /dev/urandom >big"));
    let (server, port, client) = match case.needs[0] {
        "curl" => {
            prepare(
                rig,
                "openssl req -x509 -newkey rsa:2048 -nodes -keyout key -out certificate -days 2 \
                 -subj /CN=server -addext subjectAltName=IP:10.0.0.2",
            );
            (
                "exec openssl s_server -accept 8443 -cert certificate -key key -WWW -quiet".to_owned(),
                8443,
                format!("exec curl -s --cacert {files}/certificate -o /dev/null https://10.0.0.2:8443/big"),
            )
        }
        "rsync" => {
            let settings = format!(
                "use chroot = no\nreverse lookup = no\nlog file = {files}/log\n[files]\npath = {files}\n"
            );
            fs::write(rig.files.join("rsyncd.conf"), settings).expect("written");
            (
                // Root of a user namespace alone, it could not become another user, which it tries.
                "exec unshare -U --map-user=1000 --map-group=1000 rsync --daemon --no-detach --port 8730 --config rsyncd.conf".to_owned(),
                8730,
                format!("rm -f {files}/copy; exec rsync rsync://10.0.0.2:8730/files/big {files}/copy"),
            )
        }
        "git" => {
            prepare(
                rig,
                "git init -q repository; cp big repository; cd repository; git add big; \
                 git -c user.name=n -c user.email=n@localhost commit -qm big",
            );
            (
                "exec git daemon --reuseaddr --base-path=. --export-all --port=9418".to_owned(),
                9418,
                format!("rm -rf {files}/clone; exec git clone -q git://10.0.0.2/repository {files}/clone"),
            )
        }
        _ => {
            let at_once = if case.name.ends_with("one by one") { 1 } else { 8 };
            return (None, Rig::objects(CUBIC, at_once));
        }
    };
    let server = rig
        .server
        .program("bash")
        .args(["-c", &format!("cd {files}; {server}")])
        .env("HOME", &rig.files)
        .limit(Duration::from_secs(300))
        .start()
        .expect("it starts");
    let listens = || {
        let table = rig
            .server
            .call(|| fs::read_to_string("/proc/thread-self/net/tcp"));
        let table6 = rig
            .server
            .call(|| fs::read_to_string("/proc/thread-self/net/tcp6"));
        let port = format!(":{port:04X} ");
        [table, table6]
            .into_iter()
            .flatten()
            .flatten()
            .any(|table| table.contains(&port))
    };
    assert!(until(PATIENCE, listens), "{}: its server listens", case.name);
    (Some(server), client)
}

/// What `home` has received after each step from the program's first data on, in bytes.
fn watch(rig: &Rig, name: &str, length: Duration) -> Vec<(f64, u64)> {
    let begin = rig.received();
    let downloads = || rig.received() > begin + 4_000;
    assert!(until(PATIENCE, downloads), "{name}: it downloads");
    let (mut seen, start) = (vec![(0.0, rig.received())], Instant::now());
    while start.elapsed() < length {
        std::thread::sleep(STEP);
        seen.push((start.elapsed().as_secs_f64(), rig.received()));
    }
    seen
}

/// The rates in Mbit/s over every 5 s of these: the first ones, the least and the most.
fn any_window(seen: &[(f64, u64)]) -> [f64; 3] {
    let rate = |n: usize| {
        let (from, before) = seen[n];
        let end = seen[n..]
            .iter()
            .find(|(at, _)| *at >= from + WINDOW.as_secs_f64() - 1e-3);
        end.map(|(at, after)| (after - before) as f64 * 8e-6 / (at - from))
    };
    let rates: Vec<f64> = (0..seen.len()).map_while(rate).collect();
    let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let most = rates.iter().copied().fold(0.0, f64::max);
    [rates[0], least, most]
}

/// What the program may have over any 5 s, with the cap, and what it has in 5 s without nine.
fn measure(case: &Case, rtt: Span, length: Duration, beside: bool) -> ([f64; 3], Option<f64>) {
    let rig = Rig::over(100, rtt, 256 << 10);
    let (_server, script) = serve(&rig, case);
    let free = beside.then(|| {
        let free = rig.home.program("bash").args(["-c", &script]);
        let _free = free.env("HOME", &rig.files).start().expect("bash runs");
        any_window(&watch(&rig, case.name, WINDOW + 2 * STEP))[0]
    });
    let _nine = rig.nine(&["--cap", &format!("{CAP}Mbit/s"), "--", "bash", "-c", &script]);
    (any_window(&watch(&rig, case.name, length)), free)
}

/// `NINE_CAPS=1` measures all programs over all paths once, for a longer time: `cargo xtask caps`
/// writes what it said.
#[test]
fn real_programs_stay_within_the_cap() {
    let times: Option<usize> = std::env::var("NINE_CAPS")
        .ok()
        .and_then(|times| times.parse().ok());
    lab::isolated_as(NOBODY, FILES, || {
        let (paths, length): (&[u64], _) = match times.is_some() {
            true => (&[100, 1_000, 5_000, 20_000, 100_000], Duration::from_secs(20)),
            false => (&[20_000], Duration::from_secs(7)),
        };
        // Another test has short objects.
        let cases = CASES.iter().filter(|case| times.is_some() || !case.short);
        let runs = |case: &&Case| case.needs.iter().all(|program| is_installed(program));
        let cases: Vec<&Case> = cases.filter(runs).collect();
        for case in (0..times.unwrap_or(1)).flat_map(|_| &cases) {
            let of_path = |rtt: &u64| {
                let rtt = Span::from_micros(*rtt);
                let ([first, least, most], free) = measure(case, rtt, length, times.is_some() && case.short);
                // On a slow machine `nine` is late. Without a cap a file has 25 Mbit/s at first,
                // and objects have more than 2.5 at all times.
                assert!(
                    times.is_some() || least < 2.5 && first < 10.0,
                    "{}, {rtt}: {first} {least} {most}",
                    case.name
                );
                let free = free.map_or(String::new(), |free| format!(" (without nine {free:.1})"));
                let after = format!("{least:.2} to {most:.2}");
                format!("{rtt} {after}, the first {first:.2}{free}")
            };
            let paths: Vec<String> = paths.iter().map(of_path).collect();
            eprintln!("caps: {}: {}", case.name, paths.join("; "));
        }
    });
}
