//! The process that works: see the head of this folder.

use super::guard::{self, Told};
use super::{Plan, Subject, Trouble, own};
use crate::actuator::Holder;
use crate::borrowed::ledger::Ledger;
use crate::borrowed::{Borrowed, Root};
use crate::coordinate::Part;
use crate::datagrams::WithDatagrams;
use crate::reading::MemberId;
use crate::rewrite::Rewritten;
use crate::sys::process::{self, End};
use crate::sys::seccomp::{self, Listener};
use crate::sys::signal::Signals;
use crate::sys::{now, poll, socket};
use engine::units::{Duration, Instant};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// How often young connections are looked at.
const YOUNG: Duration = Duration::from_millis(5);

/// Exit codes as `env` and `nice` have them, where the command cannot be started.
const NOT_FOUND: i32 = 127;
const NOT_STARTED: i32 = 126;

/// What the supervisor has in hand.
struct Supervisor {
    subject: Option<i32>,
    listener: Option<Listener>,
    signals: Signals,
    tell: File,
    /// Until the command has ended; the guard's end says something before that alone.
    guard_lives: Option<File>,
    sockets: Box<dyn Holder>,
    part: Part,
    /// Causes that have been said already.
    said: BTreeSet<String>,
    /// Whether the command runs that was started.
    runs: bool,
    /// Whether it has ended and left others behind.
    after: bool,
    /// Whether there is anything to do but wait: an outer nine may do it.
    wanted: bool,
    next_tick: Instant,
}

/// Works until everything that it looks after has ended.
pub(super) fn run(plan: Plan, signals: Signals, mut tell: File, guard_lives: File, ledger: Ledger) -> ! {
    // Before the command is started: without it, nothing is.
    let sockets = holder(&plan, ledger).unwrap_or_else(|trouble| give_up(&trouble, &mut tell));
    let borrows = plan.rewrite.is_none();
    let (subject, listener, wanted) = match plan.subject {
        Subject::Process(_) | Subject::Behind(_) => (None, None, true),
        Subject::Command(words) => {
            let started = start(&words, &signals);
            let (command, listener, wanted) = started.unwrap_or_else(|trouble| give_up(&trouble, &mut tell));
            Told::Started {
                command,
                supervisor: own(),
                listener: listener.as_ref().map(Listener::number),
            }
            .tell(&mut tell);
            (Some(command), listener, wanted)
        }
    };
    if wanted && borrows && !socket::can_lock() {
        say(
            "this kernel is older than Linux 5.15 and undoes clamps by itself: connections yield less than they should",
        );
    }
    close_inherited();
    // Neither can fail for a process that is no leader of its group; the terminal's keys would reach it otherwise.
    let _ = process::leave_session();
    let _ = process::inherit_orphans();
    let mut supervisor = Supervisor {
        runs: subject.is_some(),
        subject,
        listener,
        signals,
        tell,
        guard_lives: Some(guard_lives),
        sockets,
        part: Part::new(plan.meeting, plan.profile),
        said: BTreeSet::new(),
        after: false,
        wanted,
        next_tick: Instant::START,
    };
    let mut goes_on = supervisor.wanted || supervisor.leave();
    while goes_on {
        goes_on = supervisor.turn();
    }
    drop(supervisor.sockets);
    Told::Ended(End::Exit(0)).tell(&mut supervisor.tell);
    process::end_as(End::Exit(0))
}

/// What holds the plan's connections: borrowed sockets, or windows rewritten at an interface.
fn holder(plan: &Plan, ledger: Ledger) -> Result<Box<dyn Holder>, Trouble> {
    let member = MemberId(plan.profile.pid);
    let root = match plan.subject {
        Subject::Process(pid) => Root::At(pid),
        Subject::Command(_) | Subject::Behind(_) => Root::Below(own()),
    };
    let trouble = |doing| move |source| Trouble { doing, source };
    let connections: Box<dyn Holder> = match &plan.rewrite {
        None => Box::new(Borrowed::new(member, root, ledger)),
        Some(interface) => {
            let chosen = match &plan.subject {
                Subject::Behind(behind) => Rewritten::behind(behind, interface, member, ledger),
                _ => Rewritten::of(root, interface, member, ledger),
            };
            Box::new(chosen.map_err(trouble(
                "rewrite windows at an interface (root alone can, with CAP_BPF and CAP_NET_ADMIN)",
            ))?)
        }
    };
    let Some((interface, rate)) = &plan.police else {
        return Ok(connections);
    };
    let both = WithDatagrams::new(connections, root, interface, *rate);
    Ok(Box::new(both.map_err(trouble(
        "police datagrams at an interface (root alone can, with CAP_BPF and CAP_NET_ADMIN)",
    ))?))
}

fn give_up(trouble: &Trouble, tell: &mut File) -> ! {
    say(&trouble.to_string());
    Told::Ended(End::Exit(1)).tell(tell);
    process::end_as(End::Exit(1))
}

fn number(of: &impl AsFd) -> i32 {
    of.as_fd().as_raw_fd()
}

fn say(text: &str) {
    // Somebody may have closed it.
    let _ = writeln!(io::stderr(), "nine: {text}");
}

/// Starts the command under the filter: its process, the filter's listener, and whether its connections are ours to hold.
/// Where there can be no listener, they are found by looking.
fn start(words: &[OsString], signals: &Signals) -> Result<(i32, Option<Listener>, bool), Trouble> {
    let trouble = |doing| move |source| Trouble { doing, source };
    let [mut hears, mut tells] = process::pipe().map_err(trouble("make a pipe"))?;
    let [mut waits, mut go] = process::pipe().map_err(trouble("make a pipe"))?;
    let Some(child) = process::fork().map_err(trouble("start a process"))? else {
        drop((hears, go));
        let filter = seccomp::install();
        let answer = match &filter {
            Ok(listener) => listener.as_raw_fd(),
            Err(e) => -e.raw_os_error().unwrap_or(libc::EINVAL),
        };
        let _ = tells.write_all(&answer.to_ne_bytes());
        // Until the listener has been taken.
        let _ = waits.read(&mut [0]);
        signals.restore();
        become_command(words)
    };
    drop((tells, waits));
    let mut answer = [0; 4];
    hears
        .read_exact(&mut answer)
        .map_err(trouble("start a process"))?;
    let (listener, wanted) = match i32::from_ne_bytes(answer) {
        number @ 0.. => {
            let held = process::hold(child).and_then(|held| process::borrow(&held, number));
            let taken = held.map(Listener::new);
            (
                Some(taken.map_err(trouble(
                    "take the filter's listener (Linux 5.6 or later is needed)",
                ))?),
                true,
            )
        }
        number if -number == libc::EBUSY => {
            say("already under a nine: its settings hold, and these are ignored");
            (None, false)
        }
        _ => {
            say(
                "this kernel does not tell of new connections (seccomp, Linux 5.5): they are held up to a second late",
            );
            (None, true)
        }
    };
    let _ = go.write_all(&[1]);
    Ok((child, listener, wanted))
}

fn become_command(words: &[OsString]) -> ! {
    let mut words = words.iter();
    let name = words.next().cloned().unwrap_or_default();
    let error = Command::new(&name).args(words).exec();
    say(&format!("cannot start `{}`: {error}", name.to_string_lossy()));
    let code = match error.kind() {
        io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_STARTED,
    };
    process::end_as(End::Exit(code))
}

/// Lets go of what the caller's programs share with us, so that their pipes end when they do. What is ours is closed at exec,
/// and so can be told apart.
fn close_inherited() {
    let numbers = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers: Vec<i32> = numbers
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    process::close_those_kept_at_exec(&numbers);
    process::replace_stream(0);
    process::replace_stream(1);
}

/// Lets go of the standard streams altogether.
pub(super) fn let_go_of_streams() {
    for stream in 0..3 {
        process::replace_stream(stream);
    }
}

impl Supervisor {
    /// Waits for something and does it; whether there is more to come.
    fn turn(&mut self) -> bool {
        let at = now();
        let mut until = self.next_tick;
        if self.sockets.has_young(at) {
            until = until.min(at + YOUNG);
        }
        let millis = until.since(at).nanos().div_ceil(1_000_000);
        let mut waits = vec![self.signals.as_fd()];
        waits.extend(self.guard_lives.as_ref().map(AsFd::as_fd));
        waits.extend(self.listener.as_ref().map(AsFd::as_fd));
        waits.extend(self.part.descriptors());
        let Ok(ready) = poll(&waits, Some(millis)) else {
            return true;
        };
        let mut ready = ready.into_iter().skip(1);
        let guard = self.guard_lives.as_ref().and_then(|_| ready.next());
        let asks = self.listener.as_ref().and_then(|_| ready.next());
        let something_came = ready.any(|ready| ready.readable || ready.gone);
        if let (Some(asks), Some(listener)) = (asks, &self.listener) {
            if asks.readable {
                if let Some(asked) = listener.receive() {
                    self.sockets.connecting(asked.thread, asked.fd);
                    listener.go_on(&asked);
                    self.next_tick = self.next_tick.min(now() + YOUNG);
                }
            } else if asks.gone && !self.runs {
                // Nobody is left who could ask.
                return false;
            }
        }
        let told_to_end = self.signals_came();
        if !self.reap() {
            return false;
        }
        if told_to_end || guard.is_some_and(|guard| guard.gone && !self.after) {
            return self.leave();
        }
        self.work(now(), something_came)
    }

    /// Looks, ticks and asserts, as far as it is time.
    fn work(&mut self, at: Instant, something_came: bool) -> bool {
        if self.sockets.look(at) == Some(false) && self.listener.is_none() && !self.runs {
            return false;
        }
        let is_tick = at >= self.next_tick;
        if is_tick || something_came {
            if let Err(e) = self.part.step(at, is_tick, self.sockets.as_mut()) {
                self.say_once(&e.to_string());
            }
            if is_tick {
                self.next_tick = (self.next_tick + self.part.interval()).max(at + YOUNG);
                self.say_what_is_out_of_reach();
            }
        } else {
            self.sockets.assert_young(at);
        }
        true
    }

    /// Whether a process has told us to end.
    fn signals_came(&mut self) -> bool {
        let mut told = false;
        while let Some(signal) = self.signals.next() {
            told |= signal.sent && [libc::SIGTERM, libc::SIGINT, libc::SIGHUP].contains(&signal.number);
        }
        told
    }

    /// Collects ended children; whether there is anything left to look after.
    fn reap(&mut self) -> bool {
        while let Some((pid, end)) = process::reap() {
            if Some(pid) != self.subject {
                continue;
            }
            self.runs = false;
            let gone =
                |listener: &Listener| poll(&[listener.as_fd()], Some(0)).is_ok_and(|ready| ready[0].gone);
            let over = match &self.listener {
                Some(listener) => gone(listener),
                None => crate::borrowed::tree::below(own()).is_empty(),
            };
            if over {
                let _ = self.sockets.release();
                Told::Ended(end).tell(&mut self.tell);
                return false;
            }
            self.go_on_alone();
            Told::Ended(end).tell(&mut self.tell);
        }
        true
    }

    /// The command has ended, and what it has left behind goes on: so does this process, with a guard of its own.
    fn go_on_alone(&mut self) {
        self.after = true;
        self.guard_lives = None;
        let_go_of_streams();
        let (Some(listener), Ok([lives, alive])) = (&self.listener, process::pipe()) else {
            return;
        };
        match process::fork() {
            Ok(None) => {
                drop(alive);
                // The lock of who leads among them: it is to be free when this process's parent ends.
                process::close_all_but(&[
                    0,
                    1,
                    2,
                    number(&lives),
                    number(listener),
                    number(self.sockets.ledger()),
                ]);
                guard::succeed(lives, listener, self.sockets.ledger())
            }
            // Held open until this process ends.
            Ok(Some(_)) => std::mem::forget(alive),
            Err(_) => {}
        }
    }

    /// The guard was killed, or somebody ends us: everything is let go, and questions are answered until the end.
    fn leave(&mut self) -> bool {
        let _ = self.sockets.release();
        self.part.leave();
        while self.runs {
            let mut waits = vec![self.signals.as_fd()];
            waits.extend(self.listener.as_ref().map(AsFd::as_fd));
            let ready = poll(&waits, None).unwrap_or_default();
            if let (Some(listener), Some(asks)) = (&self.listener, ready.get(1))
                && asks.readable
            {
                guard::answer(listener);
            }
            while self.signals.next().is_some() {}
            while let Some((pid, end)) = process::reap() {
                if Some(pid) == self.subject {
                    self.runs = false;
                    Told::Ended(end).tell(&mut self.tell);
                }
            }
            if ready.get(1).is_some_and(|asks| asks.gone && !asks.readable) {
                // Nobody is left who could ask, so the command has ended or is about to.
                self.listener = None;
            }
        }
        if let Some(listener) = &self.listener {
            let_go_of_streams();
            guard::answer_until_all_are_gone(listener);
        }
        false
    }

    fn say_what_is_out_of_reach(&mut self) {
        for one in self.sockets.out_of_reach() {
            if one.policed.is_some() {
                continue;
            }
            // Every name look-up is UDP; what people miss is QUIC and whole programs.
            if one.what.starts_with("UDP") && !one.what.ends_with(":443") {
                continue;
            }
            let what = one.what.split(" to ").next().unwrap_or_default().to_string();
            self.say_once(&format!(
                "not controlled: {what} of process {}: {}",
                one.pid, one.why
            ));
        }
    }

    fn say_once(&mut self, text: &str) {
        if !self.after && self.said.insert(text.to_string()) {
            say(text);
        }
    }
}
