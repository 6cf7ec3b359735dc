//! Programs in other network namespaces and in control groups: containers and systemd units.

use super::as_root::{CAPPED, arrives_at};
use super::rig::{CUBIC, Rig};
use super::until::until;
use super::{FILES, LONG, NOBODY, PATIENCE, connections, is_limited};
use serde_json::Value;
use std::path::PathBuf;

#[test]
fn connections_of_a_container_are_limited_by_the_link_of_its_host() {
    lab::isolated_as(NOBODY, FILES, || {
        let mut rig = Rig::new(10, 64 << 10);
        rig.suimon(&["bottlenet", "10Mbit/s", "--interface", "eth0"]);
        let container = rig.container();
        let script = Rig::download(CUBIC, "guest");
        let program = container.unprivileged("bash").args(["-c", &script]);
        let program = program.start().expect("bash runs");
        let pid = program.id().to_string();
        // Before, it has capabilities, and its sockets cannot be borrowed.
        assert!(until(PATIENCE, || rig.sent("guest") > 0));
        let one = |top: &Value| connections(top).first().cloned().unwrap_or_default();
        let nine = rig.nine(&["-p", &pid]);
        let _high = rig.high("cubic", LONG);
        assert!(
            until(PATIENCE, || is_limited(&one(&rig.top()))),
            "{:#}",
            rig.top()
        );
        assert_eq!(one(&rig.top())["interface"], "eth0");
        drop(nine);
        let _capped = rig.nine(&["--cap", "2Mbit/s", "-p", &pid]);
        let capped = arrives_at(|| rig.sent("guest"), |rate| rate > 0.0 && rate < CAPPED);
        assert!(capped, "{:#}", rig.top());
    });
}

#[test]
fn a_container_with_a_way_out_of_its_own_is_not_controlled_and_said_so() {
    lab::isolated_as(NOBODY, FILES, || {
        let mut rig = Rig::new(10, 64 << 10);
        let apart = rig.apart();
        let script = Rig::download(CUBIC, "apart");
        let program = apart.unprivileged("bash").args(["-c", &script]);
        let program = program.start().expect("bash runs");
        // Before, it has capabilities, and its sockets cannot be borrowed.
        assert!(until(PATIENCE, || rig.sent("apart") > 0));
        let nine = rig.nine(&["--cap", "2Mbit/s", "-p", &program.id().to_string()]);
        let reported = || rig.top()["members"][0]["not_controlled"][0].clone();
        let said = || {
            let why = reported()["why"].to_string();
            why.contains("another network namespace")
        };
        assert!(until(PATIENCE, said), "{:#}", rig.top());
        assert_eq!(reported()["what"], "TCP to 10.0.0.2:8000");
        assert_eq!(connections(&rig.top()), [Value::Null; 0]);
        super::kill("-INT", nine.id());
        let output = nine.wait().expect("it ends");
        assert!(output.err.contains("not controlled: TCP"), "{output:?}");
    });
}

/// A control group of this test's own, at the root of version 2's hierarchy; removed at the end.
struct Group(PathBuf);

impl Group {
    fn new(name: &str) -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let mount = mounts.lines().find_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            (words.get(2) == Some(&"cgroup2")).then(|| PathBuf::from(words[1]))
        });
        let path = mount?.join(format!("suimon-{}-{name}", std::process::id()));
        std::fs::create_dir(&path).ok()?;
        Some(Self(path))
    }

    /// Puts a process into it.
    fn put(&self, pid: u32) {
        std::fs::write(self.0.join("cgroup.procs"), pid.to_string()).expect("it is moved");
    }

    fn name(&self) -> String {
        let name = self.0.file_name().expect("a name");
        name.to_string_lossy().into_owned()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its processes end with the test.
        until(PATIENCE, || std::fs::remove_dir(&self.0).is_ok());
    }
}

#[test]
fn a_control_groups_present_and_future_processes_are_limited() {
    lab::isolated(|| {
        let rig = Rig::new(10, 64 << 10);
        let Some(group) = Group::new("backup.service") else {
            skips::skipped("control groups cannot be made here");
            return;
        };
        let nine = rig.nine(&["--cap", "2Mbit/s", "--unit", &group.name()]);
        let joined = || rig.top()["members"].as_array().is_some_and(|all| all.len() == 1);
        assert!(until(PATIENCE, joined), "it does not begin");
        let start = |name: &str| {
            let program = rig.home.unprivileged("bash");
            let script = format!("sleep 0.5; {}", Rig::download(CUBIC, name));
            let program = program.args(["-c", &script]).start().expect("bash runs");
            group.put(program.id());
            program
        };
        let beside = rig.home.unprivileged("bash");
        let beside = beside.args(["-c", &Rig::download(CUBIC, "beside")]);
        let _beside = beside.start().expect("bash runs");
        for name in ["one", "two"] {
            let program = start(name);
            // At its cap, or below it: it yields to the one beside.
            let limited = || {
                let all = connections(&rig.top());
                all.len() == 1 && all[0]["limit"] != "free"
            };
            assert!(until(PATIENCE, limited), "{:#}", rig.top());
            let slow = arrives_at(|| rig.sent(name), |rate| rate > 0.0 && rate < CAPPED);
            assert!(slow, "{:#}", rig.top());
            drop(program);
            assert!(
                until(PATIENCE, || connections(&rig.top()).is_empty()),
                "{:#}",
                rig.top()
            );
        }
        // A program with capabilities, which nine has not here.
        let program = rig.home.program("sleep").arg("100").start().expect("sleep runs");
        group.put(program.id());
        let reported = || rig.top()["members"][0]["not_controlled"][0]["why"].to_string();
        assert!(
            until(PATIENCE, || reported().contains("the kernel forbids")),
            "{:#}",
            rig.top()
        );
        super::kill("-INT", nine.id());
        let output = nine.wait().expect("it ends");
        assert!(output.err.contains("has no process now"), "{output:?}");
    });
}

#[test]
fn mistakes_in_the_names_of_groups_are_told_with_a_remedy() {
    for (words, told) in [
        (["--cgroup", "/"], "name a group below it"),
        (["--cgroup", "backup"], "begins with `/`"),
        (["--unit", "backup.timer"], "name the service"),
        (["--container", "web/1"], "docker ps"),
    ] {
        let output = std::process::Command::new(super::rig::SUIMON)
            .arg("nine")
            .args(words)
            .output()
            .expect("it starts");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && text.contains(told), "{text}");
    }
}
