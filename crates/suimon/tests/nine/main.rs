//! `suimon nine` as an unprivileged user runs it: programs of all kinds are limited while there is
//! other traffic, no clamp is left behind, and the command does not notice.
//!
//! The assertions do not depend on speed; rates are in `cargo bench -p suimon --bench nine`.

mod as_root;
mod caps;
mod containers;
mod lines;
mod processes;
mod rig;
mod service;
mod short;
#[path = "../stubs/until.rs"]
mod until;

use engine::units::Bandwidth;
use processes::{command_of, kill};
use rig::{CUBIC, Rig, SINK};
use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, UNIX_EPOCH};
use until::until;

const NOBODY: u32 = 65534;
const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/nine/client.c");
const GO_CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/nine/client.go");
/// What the unprivileged user runs and compiles.
const FILES: &[&str] = &[rig::SUIMON, CLIENT, GO_CLIENT];
/// The timeout for what takes a second on a quiet machine.
const PATIENCE: Duration = Duration::from_secs(40);
/// The length of the competing download, unless it is ended.
const LONG: Duration = Duration::from_secs(200);

fn is_installed(program: &str) -> bool {
    // OpenSSL has a command for it, and no option.
    let version = if program == "openssl" {
        "version"
    } else {
        "--version"
    };
    let found = Command::new(program)
        .arg(version)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let found = found.is_ok_and(|status| status.success());
    if !found {
        skips::skipped(format_args!("{program} is not installed"));
    }
    found
}

/// Builds the C client, static where the C library allows.
fn client(rig: &Rig) -> String {
    let source = &lab::published(CLIENT);
    let program = rig.files.join("client");
    let build = |more: &[&str]| {
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-pthread", "-o"])
            .arg(&program)
            .arg(source)
            .args(more);
        cc.output().expect("a C compiler, which Rust needs too")
    };
    if !build(&["-static"]).status.success() {
        skips::skipped("the C library cannot be linked statically; a dynamic program instead");
        let built = build(&[]);
        assert!(built.status.success(), "{built:?}");
    }
    program.to_string_lossy().into_owned()
}

/// What the C client reports of its own socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct ClientState {
    clamp: u64,
    lock: u64,
    connects: u64,
    failed: u64,
    closed_ms: u64,
}

fn client_state(rig: &Rig, name: &str) -> ClientState {
    let text = std::fs::read_to_string(rig.files.join(name)).unwrap_or_default();
    let mut numbers = text.split_whitespace().map(|word| word.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    ClientState {
        clamp: next(),
        lock: next(),
        connects: next(),
        failed: next(),
        closed_ms: next(),
    }
}

fn state_path(rig: &Rig, name: &str) -> String {
    rig.files.join(name).to_string_lossy().into_owned()
}

/// The connections of all members.
fn connections(top: &Value) -> Vec<Value> {
    let members = top["members"].as_array().cloned().unwrap_or_default();
    members
        .iter()
        .flat_map(|member| member["connections"].as_array().cloned().unwrap_or_default())
        .collect()
}

fn is_limited(connection: &Value) -> bool {
    let why = connection["why"].as_str().unwrap_or_default();
    let yields = why.starts_with("yields") || why.starts_with("parked");
    connection["limit"] != "free" && yields
}

#[test]
fn programs_of_all_kinds_are_limited_while_there_is_other_traffic() {
    lab::isolated_as(NOBODY, FILES, || {
        let rig = Rig::new(10, 64 << 10);
        rig.suimon(&["bottlenet", "10Mbit/s", "--interface", "eth0"]);
        let client = client(&rig);
        let port = CUBIC.to_string();
        let url = |name: &str| format!("http://10.0.0.2:{CUBIC}/{name}");
        let mut running = Vec::new();
        let mut expected = vec!["cat".to_string()];
        running.push(rig.nine(&["--", "bash", "-c", &Rig::download(CUBIC, "bash")]));
        for kind in ["plain", "thread", "daemon"] {
            let path = state_path(&rig, kind);
            running.push(rig.nine(&["--", &client, kind, "10.0.0.2", &port, kind, &path]));
            expected.push("client".into());
        }
        if is_installed("curl") {
            running.push(rig.nine(&["curl", "-s", "-o", "/dev/null", &url("curl")]));
            expected.push("curl".into());
        }
        if is_installed("wget") {
            running.push(rig.nine(&["wget", "-q", "-O", "/dev/null", &url("wget")]));
            expected.push("wget".into());
        }
        if is_installed("/usr/bin/python3") {
            let code = format!(
                "import urllib.request as u\nr=u.urlopen('{}')\nwhile r.read(65536): pass",
                url("python")
            );
            running.push(rig.nine(&["/usr/bin/python3", "-c", &code]));
            expected.push("python3".into());
        }
        if let Some(go) = go_client(&rig) {
            running.push(rig.nine(&[&go, &format!("10.0.0.2:{CUBIC}"), "go"]));
            expected.push("go-client".into());
        }
        expected.sort();
        let programs = |limited: bool| {
            let all = connections(&rig.top());
            let chosen = all.iter().filter(|one| !limited || is_limited(one));
            let mut names: Vec<String> = chosen
                .map(|one| one["program"].as_str().unwrap_or_default().to_string())
                .collect();
            names.sort();
            names
        };
        assert!(until(PATIENCE, || programs(false) == expected), "{}", rig.top());
        let high = rig.high("cubic", LONG);
        let all_limited = until(PATIENCE, || programs(true) == expected);
        assert!(all_limited, "{:#}", rig.top());
        // Their own sockets report it too.
        let locked = |name: &&str| client_state(&rig, name).lock & 2 == 2;
        let own = until(PATIENCE, || ["plain", "thread", "daemon"].iter().all(locked));
        assert!(own, "{:?}", client_state(&rig, "thread"));
        drop(high);
        let freed = until(PATIENCE, || programs(true).is_empty());
        assert!(freed, "{:#}", rig.top());
    });
}

/// The reasons of all limits.
fn reasons(top: &Value) -> Vec<String> {
    let all = connections(top);
    all.iter()
        .map(|one| one["why"].as_str().unwrap_or_default().to_string())
        .collect()
}

#[test]
fn caps_floors_and_the_papers_window_limit_a_command() {
    lab::isolated_as(NOBODY, FILES, || {
        let rig = Rig::new(10, 64 << 10);
        rig.suimon(&["bottlenet", "10Mbit/s", "--interface", "eth0"]);
        let low = |words: &[&str], name: &str| {
            let script = Rig::download(CUBIC, name);
            rig.nine(&[words, &["--", "bash", "-c", &script]].concat())
        };
        let reports = |what: &str| {
            until(PATIENCE, || {
                reasons(&rig.top()).iter().any(|why| why.starts_with(what))
            })
        };
        let capped = low(&["--cap", "2Mbit/s"], "capped");
        assert!(reports("at its cap of 2"), "{:#}", rig.top());
        // All of this works without capabilities.
        let status = std::fs::read_to_string(format!("/proc/{}/status", capped.id())).expect("it runs");
        assert!(status.contains("CapEff:\t0000000000000000"), "{status}");
        drop(capped);
        // Two segments per round trip are 1.2 Mbit/s: a smaller cap is enforced by turns.
        let slow = low(&["--cap", "400kbit/s"], "slow");
        assert!(reports("at its cap of 400"), "{:#}", rig.top());
        std::thread::sleep(Duration::from_secs(2));
        let (began, before) = (Instant::now(), rig.sent("slow"));
        std::thread::sleep(Duration::from_secs(6));
        let rate = (rig.sent("slow") - before) as f64 * 8e-3 / began.elapsed().as_secs_f64();
        assert!(rate < 600.0, "{rate:.0} kbit/s");
        drop(slow);
        let clamped = low(&["-6000"], "clamped");
        let high = rig.high("cubic", LONG);
        assert!(reports("clamped: the link's rate is reached"), "{:#}", rig.top());
        drop(clamped);
        let _floored = low(&["--floor", "3Mbit/s"], "floored");
        assert!(reports("at its floor of 3"), "{:#}", rig.top());
        drop(high);
        assert!(reports("free"), "{:#}", rig.top());
    });
}

#[test]
fn uploads_are_paced_by_weight_and_yield() {
    lab::isolated_as(NOBODY, FILES, || {
        let rig = Rig::new(10, 64 << 10);
        rig.suimon(&["bottlenet", "10Mbit/s", "--interface", "eth0"]);
        let script = format!("exec 3<>/dev/tcp/10.0.0.2/{SINK}; exec cat </dev/zero >&3");
        let upload = |weight: &str| rig.nine(&["--weight", weight, "--", "bash", "-c", &script]);
        let _uploads = [upload("1"), upload("3")];
        // The pacing rates by weight; none until both are paced.
        let paces = || -> Option<[f64; 2]> {
            let top = rig.top();
            let pace = |weight: u64| {
                let members = top["members"].as_array()?;
                let member = members.iter().find(|member| member["weight"] == weight)?;
                let limit = member["connections"][0]["limit"].as_str()?;
                let rate: Bandwidth = limit.strip_prefix("pace ")?.parse().ok()?;
                Some(rate.bits() as f64)
            };
            Some([pace(1)?, pace(3)?])
        };
        let by_weight = || paces().is_some_and(|[one, three]| (2.7..3.3).contains(&(three / one)));
        assert!(until(PATIENCE, by_weight), "{:#}", rig.top());
        let other = rig
            .home
            .program("bash")
            .args(["-c", &script])
            .start()
            .expect("bash runs");
        assert!(
            until(PATIENCE, || connections(&rig.top()).iter().all(is_limited)),
            "{:#}",
            rig.top()
        );
        drop(other);
        assert!(
            until(PATIENCE, || reasons(&rig.top())
                .iter()
                .all(|why| why.starts_with("free"))),
            "{:#}",
            rig.top()
        );
    });
}

/// Builds the Go client, where Go is installed. This takes some seconds.
fn go_client(rig: &Rig) -> Option<String> {
    let go = ["go", "/usr/local/go/bin/go"].into_iter().find(|go| {
        let found = Command::new(go)
            .arg("version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        found.is_ok_and(|status| status.success())
    });
    let Some(go) = go else {
        skips::skipped("go is not installed");
        return None;
    };
    let source = &lab::published(GO_CLIENT);
    let program = rig.files.join("go-client");
    let cache = rig.files.join("go");
    let built = Command::new(go)
        .args(["build", "-o"])
        .arg(&program)
        .arg(source)
        .envs([
            ("CGO_ENABLED", "0"),
            ("GOFLAGS", "-buildvcs=false"),
            ("GO111MODULE", "off"),
        ])
        .env("GOCACHE", &cache)
        .env("HOME", &cache)
        .output();
    let built = built.is_ok_and(|built| built.status.success());
    if !built {
        skips::skipped("go cannot build");
    }
    built.then(|| program.to_string_lossy().into_owned())
}

#[test]
fn a_fin_is_sent_when_the_program_closes() {
    lab::isolated_as(NOBODY, FILES, || {
        let rig = Rig::new(10, 64 << 10);
        let client = client(&rig);
        let mut delays = Vec::new();
        for round in 0..5 {
            let name = format!("fin{round}");
            let words = [
                "--",
                &client,
                "plain",
                "10.0.0.2",
                &SINK.to_string(),
                &name,
                &state_path(&rig, &name),
            ];
            let nine = rig.nine(&words);
            assert!(
                until(PATIENCE, || connections(&rig.top()).len() == 1),
                "{}",
                rig.top()
            );
            let command = command_of(nine.id());
            kill("-USR2", command);
            assert!(until(PATIENCE, || rig.closed().len() > round), "no FIN came");
            assert!(
                until(PATIENCE, || client_state(&rig, &name).closed_ms > 0),
                "it reports nothing"
            );
            let came = rig.closed()[round]
                .duration_since(UNIX_EPOCH)
                .expect("after 1970")
                .as_millis() as u64;
            delays.push(came.saturating_sub(client_state(&rig, &name).closed_ms));
        }
        eprintln!("from a program's close to its FIN at the other end, 10 ms away: {delays:?} ms");
        // A busy machine may delay one; a duplicate that stays open would delay all.
        assert!(delays.iter().any(|delay| *delay < 100), "{delays:?}");
    });
}

#[test]
fn nines_act_as_one_and_survive_their_leader() {
    lab::isolated_as(NOBODY, FILES, || {
        let rig = Rig::new(10, 64 << 10);
        let start = |name: &str, weight: &str| {
            rig.nine(&[
                "--weight",
                weight,
                "--",
                "bash",
                "-c",
                &Rig::download(CUBIC, name),
            ])
        };
        let first = start("one", "1");
        let members = || rig.top()["members"].as_array().map_or(0, Vec::len);
        assert!(until(PATIENCE, || members() == 1));
        let (_second, _third) = (start("two", "2"), start("four", "4"));
        assert!(
            until(PATIENCE, || members() == 3 && connections(&rig.top()).len() == 3),
            "{}",
            rig.top()
        );
        drop(first);
        assert!(
            until(PATIENCE, || members() == 2 && connections(&rig.top()).len() == 2),
            "{}",
            rig.top()
        );
    });
}

#[test]
fn the_command_keeps_its_exit_status_and_signals() {
    lab::isolated_as(NOBODY, FILES, || {
        let rig = Rig::new(10, 64 << 10);
        let end = |words: &[&str]| rig.nine(words).wait().expect("it ends");
        let output = end(&["--", "sh", "-c", "echo said; exit 7"]);
        assert_eq!(
            (output.status.code(), output.out.as_str(), output.err.as_str()),
            (Some(7), "said\n", "")
        );
        assert_eq!(end(&["true"]).status.code(), Some(0));
        assert_eq!(end(&["/no/such/program"]).status.code(), Some(127));
        let ready = state_path(&rig, "ready");
        let script = format!("trap 'exit 9' TERM; : >{ready}; while :; do sleep 0.05; done");
        let nine = rig.nine(&["sh", "-c", &script]);
        assert!(until(PATIENCE, || std::fs::exists(&ready).is_ok_and(|is| is)));
        kill("-TERM", nine.id());
        assert_eq!(nine.wait().expect("it ends").status.code(), Some(9));
        let killed = end(&["sh", "-c", "kill -KILL $$"]);
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&killed.status),
            Some(9)
        );
    });
}

#[test]
fn a_running_program_is_limited_by_its_pid_and_udp_is_reported() {
    lab::isolated_as(NOBODY, FILES, || {
        let rig = Rig::new(10, 64 << 10);
        rig.suimon(&["bottlenet", "10Mbit/s", "--interface", "eth0"]);
        let program = rig.home.unprivileged("bash").args([
            "-c",
            &format!("exec 4<>/dev/udp/10.0.0.2/443; {}", Rig::download(CUBIC, "p")),
        ]);
        let program = program.start().expect("bash runs");
        let nine = rig.nine(&["-p", &program.id().to_string()]);
        let _high = rig.high("cubic", LONG);
        let limited = until(PATIENCE, || connections(&rig.top()).iter().any(is_limited));
        assert!(limited, "{:#}", rig.top());
        let udp = rig.top()["members"][0]["not_controlled"][0]["what"].clone();
        assert_eq!(udp, "UDP to 10.0.0.2:443");
        kill("-INT", nine.id());
        let output = nine.wait().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(output.err.contains("not controlled: UDP"), "{output:?}");
    });
}

#[test]
fn settings_stay_in_their_network_namespace_and_no_socket_stays_at_all() {
    lab::isolated(|| {
        let rig = Rig::new(10, 64 << 10);
        rig.suimon(&["bottlenet", "10Mbit/s", "--interface", "eth0"]);
        let show = |host: &lab::Host| {
            let program = host.program(rig::SUIMON).args(["bottlenet", "show"]);
            let program = program.env("XDG_RUNTIME_DIR", &rig.files);
            program.output().expect("it starts").out
        };
        assert!(show(&rig.home).contains("eth0: 10 Mbit/s"), "{}", show(&rig.home));
        assert!(show(&rig.server).contains("no settings"), "{}", show(&rig.server));
        let script = format!("exec 3<>/dev/tcp/10.0.0.2/{CUBIC}; sleep 1");
        let first = rig.nine(&["--", "bash", "-c", &script]);
        let second = rig.nine(&["--", "bash", "-c", &script]);
        for nine in [first, second] {
            assert!(nine.wait().expect("it ends").status.success());
        }
        let entries = || {
            let entries = std::fs::read_dir(rig.files.join("suimon")).expect("a directory");
            let names = entries
                .flatten()
                .map(|entry| entry.file_name().to_string_lossy().into_owned());
            names.filter(|name| name.starts_with("nine-")).collect::<Vec<_>>()
        };
        assert!(until(PATIENCE, || entries().is_empty()), "{:?}", entries());
    });
}

#[test]
fn mistakes_are_reported_with_a_remedy() {
    let suimon = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_suimon"))
            .args(words)
            .output()
            .expect("it starts");
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (code, text) = suimon(&["bottlenet", "8000", "--interface", "lo"]);
    assert!(
        code == Some(2) && text.contains("did you mean 8000kbit/s?"),
        "{text}"
    );
    let (code, text) = suimon(&["bottlenet", "1Mbit/s", "--interface", "none0"]);
    assert!(code == Some(2) && text.contains("no interface `none0`"), "{text}");
    let (code, text) = suimon(&["nine", "--floor", "2Mbit/s", "--cap", "1Mbit/s", "true"]);
    assert!(code == Some(2) && text.contains("above the cap"), "{text}");
    let (code, text) = suimon(&["nine"]);
    assert!(code == Some(2) && text.contains("CMD"), "{text}");
    let link = std::env::temp_dir().join(format!("suimon-{}-as", std::process::id()));
    std::fs::create_dir_all(&link).expect("a directory");
    let called = link.join("bottlenet");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_suimon"), &called).expect("a link");
    let output = Command::new(&called).arg("8000").output().expect("it starts");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    std::fs::remove_dir_all(&link).expect("removed");
}
