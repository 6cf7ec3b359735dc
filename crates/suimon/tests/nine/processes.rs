//! Nine's own processes are killed and stopped, in every combination: no clamp stays, and the
//! command runs on and connects.

use super::{CUBIC, ClientState, FILES, NOBODY, PATIENCE, Rig, client, client_state, state_path, until};
use lab::Running;
use std::process::Command;
use std::time::{Duration, Instant};

/// Nine's processes as the shell started them: `guard ── understudy ── supervisor ── command`.
#[derive(Clone, Copy, Debug)]
struct Processes {
    guard: u32,
    understudy: u32,
    supervisor: u32,
    command: u32,
}

impl Processes {
    fn of(guard: u32) -> Self {
        let understudy = child_of(guard);
        let supervisor = child_of(understudy);
        Self {
            guard,
            understudy,
            supervisor,
            command: child_of(supervisor),
        }
    }

    /// Those whose bits are set.
    fn chosen(self, bits: usize) -> Vec<u32> {
        let all = [self.guard, self.understudy, self.supervisor];
        let all = all.into_iter().enumerate();
        all.filter(|(bit, _)| bits >> bit & 1 == 1)
            .map(|(_, pid)| pid)
            .collect()
    }
}

/// All combinations of one or two of the three.
const COMBINATIONS: [usize; 6] = [0b001, 0b010, 0b100, 0b011, 0b101, 0b110];

fn child_of(pid: u32) -> u32 {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let first = children.split_whitespace().next();
    first.and_then(|pid| pid.parse().ok()).expect("a child")
}

/// The supervisor of the nine that was started as this process.
pub fn supervisor_of(guard: u32) -> u32 {
    child_of(child_of(guard))
}

/// Its command.
pub fn command_of(guard: u32) -> u32 {
    Processes::of(guard).command
}

pub fn kill(signal: &str, pid: u32) {
    kill_at_once(signal, &[pid]);
}

/// By one program, one system call after the other.
fn kill_at_once(signal: &str, pids: &[u32]) {
    let pids = pids.iter().map(u32::to_string);
    let done = Command::new("kill")
        .arg(signal)
        .args(pids)
        .status()
        .expect("kill runs");
    assert!(done.success(), "kill {signal}");
}

fn is_clamped(state: ClientState) -> bool {
    state.lock & 2 == 2 && state.clamp > 0 && state.clamp < 65_536
}

fn is_free(state: ClientState) -> bool {
    state.lock == 0 && state.clamp >= 65_536
}

/// A download of the C client under a cap, so that it is clamped from its beginning.
struct Capped<'a> {
    rig: &'a Rig,
    name: String,
    processes: Processes,
    _nine: Running,
}

impl<'a> Capped<'a> {
    fn start(rig: &'a Rig, client: &str, name: String) -> Self {
        let port = CUBIC.to_string();
        let path = state_path(rig, &name);
        let words = [
            "--cap", "1Mbit/s", "--", client, "plain", "10.0.0.2", &port, &name, &path,
        ];
        let nine = rig.nine(&words);
        assert!(
            until(PATIENCE, || is_clamped(client_state(rig, &name))),
            "{:?}",
            client_state(rig, &name)
        );
        Self {
            rig,
            processes: Processes::of(nine.id()),
            name,
            _nine: nine,
        }
    }

    fn state(&self) -> ClientState {
        client_state(self.rig, &self.name)
    }

    fn becomes(&self, what: fn(ClientState) -> bool) {
        assert!(until(PATIENCE, || what(self.state())), "{:?}", self.state());
    }

    /// The command connects once more.
    fn connects(&self) {
        let before = self.state().connects;
        kill("-USR1", self.processes.command);
        let again = until(PATIENCE, || self.state().connects == before + 1);
        assert!(again && self.state().failed == 0, "{:?}", self.state());
    }
}

impl Drop for Capped<'_> {
    fn drop(&mut self) {
        let pid = self.processes.command.to_string();
        let _ = Command::new("kill").args(["-KILL", &pid]).status();
    }
}

/// Kills every combination this many times, some at once. Returns how long it took after each until
/// the clamp was seen to be lifted, in order.
fn kills(rounds: usize, at_once: usize) -> Vec<Duration> {
    let rig = Rig::new(100, 256 << 10);
    let client = client(&rig);
    let mut lifted = Vec::new();
    for round in (0..rounds).step_by(at_once) {
        let cases: Vec<(usize, Capped<'_>)> = (0..at_once)
            .flat_map(|_| COMBINATIONS)
            .enumerate()
            .map(|(n, bits)| (bits, Capped::start(&rig, &client, format!("c{round}-{n}"))))
            .collect();
        for (bits, case) in &cases {
            let begun = Instant::now();
            kill_at_once("-KILL", &case.processes.chosen(*bits));
            case.becomes(is_free);
            lifted.push(begun.elapsed());
        }
        for (bits, case) in &cases {
            let before = rig.sent(&case.name);
            case.connects();
            assert!(
                until(PATIENCE, || rig.sent(&case.name) > before),
                "{bits:03b}: nothing is received"
            );
            case.becomes(is_free);
        }
    }
    lifted.sort_unstable();
    lifted
}

/// A clamp is gone after so long at most, where the machine is not busy with other tests.
const LIFTED: Duration = Duration::from_secs(1);

/// `NINE_KILLS=1000` kills each combination a thousand times: `cargo xtask kills` writes what it
/// said.
#[test]
fn no_kill_of_one_or_two_processes_leaves_a_clamp() {
    let rounds = std::env::var("NINE_KILLS").ok().and_then(|n| n.parse().ok());
    lab::isolated_as(NOBODY, FILES, || {
        let each = rounds.unwrap_or(2);
        let lifted = kills(each, each.min(4));
        let [median, most] =
            [lifted[lifted.len() / 2], lifted[lifted.len() - 1]].map(|time| time.as_millis());
        eprintln!(
            "kills: {each} of each of {} combinations, {} in all: the clamp was gone after {median} ms at the median, {most} ms at most; every program connected again, without one",
            COMBINATIONS.len(),
            lifted.len()
        );
        let in_time = lifted.iter().all(|time| *time <= LIFTED);
        assert!(in_time || rounds.is_none(), "{most} ms");
    });
}

#[test]
fn the_understudy_has_another_name_and_session() {
    lab::isolated_as(NOBODY, FILES, || {
        let rig = Rig::new(10, 64 << 10);
        let nine = rig.nine(&["--", "sleep", "100"]);
        let mut understudy = 0;
        let read =
            |pid: u32, what: &str| std::fs::read_to_string(format!("/proc/{pid}/{what}")).unwrap_or_default();
        let is_named = || {
            let children = read(nine.id(), &format!("task/{}/children", nine.id()));
            understudy = children.trim().parse().unwrap_or(0);
            read(understudy, "comm") == "window-undo\n"
        };
        assert!(until(PATIENCE, is_named), "{}", read(understudy, "comm"));
        let arguments = || read(understudy, "cmdline");
        assert!(
            until(PATIENCE, || arguments().trim_end_matches('\0') == "window-undo"),
            "{:?}",
            arguments()
        );
        let session = |pid: u32| {
            let stat = read(pid, "stat");
            let rest = stat.rsplit_once(')').map(|(_, rest)| rest.to_string());
            rest.and_then(|rest| rest.split_whitespace().nth(3)?.parse::<u32>().ok())
        };
        assert!(until(PATIENCE, || session(understudy) == Some(understudy)));
        assert_ne!(session(nine.id()), Some(understudy));
    });
}

#[test]
fn a_stopped_supervisor_lets_go_and_holds_again_when_it_goes_on() {
    lab::isolated_as(NOBODY, FILES, || {
        let rig = Rig::new(10, 64 << 10);
        let client = client(&rig);
        let case = Capped::start(&rig, &client, "stopped".into());
        let names = [case.processes.guard, case.processes.supervisor];
        kill_at_once("-STOP", &names);
        case.becomes(is_free);
        case.connects();
        case.becomes(is_free);
        kill_at_once("-CONT", &names);
        case.becomes(is_clamped);
        case.connects();
        case.becomes(is_clamped);
    });
}
