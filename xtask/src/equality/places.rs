//! The places: the simulator, a lab's link, and a running suimon between two network namespaces.
//! The kernel's is that of `compare`.

use super::cases::{SECONDS, Setting};
use super::ends::{self, LASTS, LEAD};
use crate::compare::inside::DRAIN;
use crate::compare::measured::{FlowFigures, Side};
use crate::compare::traffic::{Flow, PORT};
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

type Outcome<T> = Result<T, String>;

/// What the places need.
pub struct Places<'a> {
    /// The program that is measured.
    pub suimon: &'a Path,
    pub scratch: &'a Path,
}

fn write(path: &Path, text: &str) -> Outcome<()> {
    std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

/// This program's own path, to start another of it.
pub fn ourselves() -> Outcome<String> {
    let path = std::env::current_exe().map_err(|e| format!("our own path: {e}"))?;
    Ok(path.display().to_string())
}

/// A program at a priority at which other programs do not delay it, if that is allowed.
fn prompt(program: &str) -> Command {
    let may = Command::new("chrt").args(["--rr", "1", "true"]).output();
    match may.is_ok_and(|done| done.status.success()) {
        true => {
            let mut command = Command::new("chrt");
            command.args(["--rr", "1", program]);
            command
        }
        false => Command::new(program),
    }
}

/// Waits for a program, and returns what it printed.
fn done(command: &mut Command) -> Outcome<Vec<u8>> {
    let done = command
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("{command:?}: {e}"))?;
    match done.status.success() {
        true => Ok(done.stdout),
        false => {
            let said = [done.stdout, done.stderr].concat();
            Err(format!("{command:?}: {}", String::from_utf8_lossy(&said).trim()))
        }
    }
}

impl Places<'_> {
    /// The link with the policy, which the simulator and the lab read alike.
    fn link(&self, setting: &Setting, seconds: u64) -> String {
        format!(
            "version = 1\nduration = \"{seconds} s\"\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"{} Mbit/s\"\n{}",
            setting.line.mbit,
            setting.policy("link.policy.a")
        )
    }

    /// Under the arrivals as they were due.
    pub fn sim(&self, setting: &Setting) -> Outcome<Side> {
        let flows = setting.flows();
        let due = |(number, flow)| setting.times(number, flow);
        self.simulated(
            setting,
            "sim",
            &flows.iter().enumerate().map(due).collect::<Vec<_>>(),
        )
    }

    /// Under the arrivals as this place's senders sent them.
    pub fn sim_as_sent(&self, setting: &Setting, place: &str) -> Outcome<Side> {
        let sent = ends::sent_at(&self.scratch.join(format!("{place}-sent.json")))?;
        self.simulated(setting, &format!("sim-{place}"), &sent)
    }

    fn simulated(&self, setting: &Setting, name: &str, times: &[Vec<Duration>]) -> Outcome<Side> {
        let mut text = self.link(setting, SECONDS + DRAIN.as_secs());
        for (number, (flow, times)) in setting.flows().iter().zip(times).enumerate() {
            let file = format!("{name}-{number}.trace");
            write(&self.scratch.join(&file), &flow.traced(times))?;
            // The times of a trace are relative to its first packet.
            let start = times.first().map_or(0, Duration::as_nanos);
            let _ = writeln!(
                text,
                "[[flow]]\nname = \"{}\"\nbetween = [\"a\", \"b\"]\nkind = \"trace\"\nfile = \"{file}\"\nstart = \"{start} ns\"\ndestination_port = {}",
                flow.name,
                PORT + number as u16
            );
        }
        let path = self.scratch.join(format!("{name}.toml"));
        write(&path, &text)?;
        let printed = done(Command::new(self.suimon).args(["sim", "--json"]).arg(&path))?;
        let outcome: Value = serde_json::from_slice(&printed).map_err(|e| format!("suimon sim: {e}"))?;
        Ok(simulated(setting, &outcome))
    }

    pub fn lab(&self, setting: &Setting) -> Outcome<Side> {
        let [sent, received] = ["sent", "received"].map(|name| self.scratch.join(format!("lab-{name}.json")));
        let seconds = LASTS.as_secs() + 1;
        let mut text = self.link(setting, seconds);
        // A scenario has a flow: one packet a second, that none of the others notices.
        text += "[[flow]]\nname = \"required\"\nbetween = [\"a\", \"b\"]\nkind = \"constant\"\nrate = \"1 kbit/s\"\n\
                 frame = \"100 B\"\nsource_port = 39999\ndestination_port = 9999\n";
        let program = ourselves()?;
        let ends = [
            ("b", "0 s", "receive", FIRST, &received),
            ("a", "500 ms", "send", SECOND, &sent),
        ];
        for (host, start, end, other, file) in ends {
            let _ = writeln!(
                text,
                "[[program]]\nhost = \"{host}\"\nname = \"{end}\"\nstart = \"{start}\"\n\
                 command = [\"{program}\", \"equality\", \"end\", \"{}\", \"{}\", \"{end}\", \"{other}\", \"{}\"]",
                setting.name(),
                setting.seed,
                file.display()
            );
        }
        let path = self.scratch.join("lab.toml");
        write(&path, &text)?;
        let suimon = self.suimon.display().to_string();
        let printed = done(prompt(&suimon).args(["lab", "--json"]).arg(&path))?;
        let outcome: Value = serde_json::from_slice(&printed).unwrap_or_default();
        let held_up = outcome["held_up_ns"].as_u64().unwrap_or(0) / 1_000;
        let what = match held_up {
            0 => "suimon lab".into(),
            us => format!("suimon lab, its link late by {us} us at most"),
        };
        ends::side(&what, &sent, &received)
    }

    pub fn run(&self, setting: &Setting) -> Outcome<Side> {
        let suimon = self.suimon.display().to_string();
        let scratch = self.scratch.display().to_string();
        let inside = [
            "--net",
            "--mount",
            "--propagation",
            "private",
            &ourselves()?,
            "equality",
            "between",
        ];
        done(prompt("unshare").args(inside).args([
            &setting.name(),
            &setting.seed.to_string(),
            &suimon,
            &scratch,
        ]))?;
        let [sent, received] = ["sent", "received"].map(|name| self.scratch.join(format!("run-{name}.json")));
        ends::side("suimon run", &sent, &received)
    }
}

fn simulated(setting: &Setting, outcome: &Value) -> Side {
    let flow = |(value, (number, flow)): (&Value, (usize, &Flow))| {
        let received = value["counts"]["packets"].as_u64().unwrap_or(0);
        let delay = |name: &str| value["delay"][name].as_u64().unwrap_or(0) / 1_000;
        FlowFigures {
            name: flow.name.into(),
            sent: setting.times(number, flow).len() as u64,
            received,
            rate_bps: received * flow.frame * 8 / SECONDS,
            mean_us: delay("mean_ns"),
            p50_us: delay("p50_ns"),
            p99_us: delay("p99_ns"),
            max_us: delay("max_ns"),
        }
    };
    let flows = outcome["flows"].as_array().into_iter().flatten();
    let flows: Vec<FlowFigures> = flows.zip(setting.flows().iter().enumerate()).map(flow).collect();
    Side {
        what: "suimon sim".into(),
        dropped: flows.iter().map(FlowFigures::lost).sum(),
        flows,
        marked: outcome["links"][0]["marked_packets"].as_u64().unwrap_or(0),
        late_p99_us: None,
        late_max_us: None,
        empty_us: None,
    }
}

/// The addresses of the hosts `a` and `b`, in a lab and here.
const FIRST: &str = "10.0.0.1";
const SECOND: &str = "10.0.0.2";

/// A bridge between two hosts; the process is in namespaces of its own, and all ends with it.
const SETUP: &str = "\
mount -t tmpfs run /run
mount -t sysfs sys /sys
ip netns add a
ip netns add b
ip link add a0 netns a type veth peer name r0
ip link add b0 netns b type veth peer name r1
ip link add br0 type bridge
ip link set r0 master br0
ip link set r1 master br0
ip -n a addr add 10.0.0.1/24 dev a0
ip -n b addr add 10.0.0.2/24 dev b0
ip -n a link set a0 up
ip -n b link set b0 up
ip link set r0 up
ip link set r1 up
ip link set br0 up";

/// Children that end with us.
pub struct Children(pub Vec<Child>);

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs a suimon between two hosts and both ends of a case in them. In namespaces that
/// [`Places::run`] made.
pub fn between(setting: &Setting, suimon: &str, scratch: &Path) -> Outcome<()> {
    for line in SETUP.lines() {
        let mut words = line.split_whitespace();
        done(Command::new(words.next().unwrap_or_default()).args(words))?;
    }
    let policy = scratch.join("run.toml");
    let text = setting.policy("interface.r1");
    write(
        &policy,
        &format!("version = 1\n[port]\nbetween = [\"r0\", \"r1\"]\n{text}"),
    )?;
    let log = std::fs::File::create(scratch.join("run.log")).map_err(|e| format!("run.log: {e}"))?;
    let mut worker = Command::new(suimon);
    let worker = worker
        .arg("run")
        .arg(&policy)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    let mut children = Children(vec![worker.spawn().map_err(|e| format!("{suimon}: {e}"))?]);
    std::thread::sleep(Duration::from_secs(2));
    if let Ok(Some(status)) = children.0[0].try_wait() {
        let said = std::fs::read_to_string(scratch.join("run.log")).unwrap_or_default();
        return Err(format!("suimon run ended with {status}: {}", said.trim()));
    }
    let end = |host: &str, end: &str, other: &str, file: &str| -> Outcome<Command> {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", host, &ourselves()?, "equality", "end"]);
        command
            .args([&setting.name(), &setting.seed.to_string(), end, other])
            .arg(scratch.join(file));
        Ok(command)
    };
    let receiver = end("b", "receive", FIRST, "run-received.json")?.spawn();
    children.0.push(receiver.map_err(|e| format!("receive: {e}"))?);
    std::thread::sleep(LEAD);
    done(&mut end("a", "send", SECOND, "run-sent.json")?)?;
    let mut receiver = children.0.pop().ok_or("no receiver")?;
    let status = receiver.wait().map_err(|e| format!("receive: {e}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("the receiver ended with {status}")),
    }
}
