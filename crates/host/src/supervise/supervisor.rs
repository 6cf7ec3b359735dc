//! The supervisor process: see the head of this folder.

use super::hand::{HandMessage, LOOK_MILLIS, allow_connect, allow_connects_until_all_are_gone};
use super::plan::{StartError, SupervisionPlan, SupervisionTarget};
use crate::borrowed::BorrowedSockets;
use crate::coordinate::{Participant, Wakeup};
use crate::law::INTERVAL;
use crate::ledger::Ledger;
use crate::member_actuator::{MemberActuator, Scan};
use crate::process_tree;
use crate::rewrite::RewrittenMember;
use crate::sys::process::{self, End};
use crate::sys::seccomp::{self, Listener};
use crate::sys::signal::Signals;
use crate::sys::vitals::{Lease, Vitals};
use crate::sys::{now, poll, socket};
use crate::tick::MemberId;
use crate::udp_policer::WithUdpPolicer;
use engine::units::{Duration, Instant};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// How often new connections are checked between ticks.
const RECHECK: Duration = Duration::from_millis(5);

/// Exit codes where the command cannot be started, as `env` and `nice` use them.
const NOT_FOUND: i32 = 127;
const NOT_STARTED: i32 = 126;

/// Whether the supervisor's loop goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Go {
    On,
    Stop,
}

/// Where the command stands in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CommandState {
    /// There is none: nine controls a process that ran before, or other hosts.
    None,
    /// It runs.
    Running(i32),
    /// It has ended.
    Ended,
}

/// The supervisor's ends of the pipes to the other two processes.
pub(super) struct SupervisorPipes {
    pub(super) to_guard: File,
    pub(super) to_understudy: File,
    /// Each closes when that process ends.
    pub(super) guard_lifeline: File,
    pub(super) understudy_lifeline: File,
    /// Has a byte from each that has taken the listener.
    pub(super) listener_taken: File,
}

/// The other two processes.
struct Hands {
    to: [File; 2],
    /// None once the command has ended: then the guard may end too.
    guard_lifeline: Option<File>,
    understudy_lifeline: File,
    listener_taken: File,
}

impl Hands {
    fn new(pipes: SupervisorPipes) -> Self {
        Self {
            to: [pipes.to_guard, pipes.to_understudy],
            guard_lifeline: Some(pipes.guard_lifeline),
            understudy_lifeline: pipes.understudy_lifeline,
            listener_taken: pipes.listener_taken,
        }
    }

    fn tell(&mut self, message: HandMessage) {
        self.to.iter_mut().for_each(|to| message.send(to));
    }

    /// Waits until both have taken the listener. One that has gone is noticed later.
    fn wait_until_taken(&mut self) {
        for _ in &self.to {
            let ready = poll(&[self.listener_taken.as_fd()], Some(1_000)).unwrap_or_default();
            if !ready.first().is_some_and(|ready| ready.readable) {
                return;
            }
            let _ = self.listener_taken.read(&mut [0]);
        }
    }
}

struct Supervisor {
    command: CommandState,
    listener: Option<Listener>,
    signals: Signals,
    hands: Hands,
    vitals: Vitals,
    actuator: Box<dyn MemberActuator>,
    participant: Participant,
    /// Messages that have been printed.
    printed: BTreeSet<String>,
    /// The command has ended and left children behind.
    orphans_only: bool,
    next_tick: Instant,
}

/// A command that has been started.
struct Started {
    command: i32,
    /// None: connections are found by scans alone.
    listener: Option<Listener>,
    /// Who controls its connections.
    controller: Controller,
    /// A byte lets it begin.
    go: File,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Controller {
    This,
    /// The filter of an outer nine is in place.
    OuterNine,
}

/// Works until everything that it controls has ended.
pub(super) fn run(
    plan: SupervisionPlan,
    signals: Signals,
    pipes: SupervisorPipes,
    ledger: Ledger,
    vitals: Vitals,
) -> ! {
    let mut hands = Hands::new(pipes);
    // First of all: without the actuator the command must not start.
    let actuator = actuator(&plan, ledger).unwrap_or_else(|error| give_up(&error, &mut hands));
    let borrows = plan.rewrite.is_none();
    let (command, listener, controller) = match plan.target {
        SupervisionTarget::Process(_) | SupervisionTarget::Behind(_) => {
            (CommandState::None, None, Controller::This)
        }
        SupervisionTarget::Chosen(filter) => {
            if !filter.groups.is_empty() && filter.processes().is_empty() {
                let shown = &plan.profile.command;
                print(&format!(
                    "{shown} has no process now: they are controlled when they come"
                ));
            }
            (CommandState::None, None, Controller::This)
        }
        SupervisionTarget::Command(words) => {
            let started = start(&words, &signals);
            let mut started = started.unwrap_or_else(|error| give_up(&error, &mut hands));
            hands.tell(HandMessage::Started {
                command: started.command,
                supervisor: process::own_pid(),
                listener: started.listener.as_ref().map(Listener::number),
            });
            hands.wait_until_taken();
            let _ = started.go.write_all(&[1]);
            let state = CommandState::Running(started.command);
            (state, started.listener, started.controller)
        }
    };
    if controller == Controller::This && borrows && !socket::can_lock() {
        print(
            "this kernel is older than Linux 5.15 and undoes clamps by itself: connections yield \
             less than they should",
        );
    }
    process::close_inherited();
    process::replace_stream(0);
    process::replace_stream(1);
    // Neither fails for a process that leads no group. Without it, terminal signals would end us.
    let _ = process::leave_session();
    let _ = process::inherit_orphans();
    let mut supervisor = Supervisor {
        command,
        listener,
        signals,
        hands,
        vitals,
        actuator,
        participant: Participant::new(plan.rendezvous, plan.profile),
        printed: BTreeSet::new(),
        orphans_only: false,
        next_tick: Instant::START,
    };
    match controller {
        Controller::This => while supervisor.turn() == Go::On {},
        Controller::OuterNine => supervisor.leave(),
    }
    drop(supervisor.actuator);
    supervisor.participant.leave();
    supervisor.hands.tell(HandMessage::Ended(End::Exit(0)));
    process::end_as(End::Exit(0))
}

/// The actuator of a plan: borrowed sockets, or windows rewritten at an interface.
fn actuator(plan: &SupervisionPlan, ledger: Ledger) -> Result<Box<dyn MemberActuator>, StartError> {
    let member = MemberId(plan.profile.pid);
    let root = plan.target.root(process::own_pid());
    let error = |doing| move |source| StartError { doing, source };
    let connections: Box<dyn MemberActuator> = match &plan.rewrite {
        None => {
            let sockets = BorrowedSockets::new(member, root.clone(), ledger);
            Box::new(sockets.capped(plan.profile.member().cap))
        }
        Some(interface) => {
            let member = match &plan.target {
                SupervisionTarget::Behind(behind) => RewrittenMember::behind(behind, interface, member),
                _ => RewrittenMember::of(root.clone(), interface, member),
            };
            Box::new(member.map_err(error(
                "rewrite windows at an interface (needs root, or CAP_BPF and CAP_NET_ADMIN)",
            ))?)
        }
    };
    let Some(police) = &plan.police else {
        return Ok(connections);
    };
    let both = WithUdpPolicer::new(connections, root, &police.interface, police.rate);
    Ok(Box::new(both.map_err(error(
        "police UDP at an interface (needs root, or CAP_BPF and CAP_NET_ADMIN)",
    ))?))
}

fn give_up(error: &StartError, hands: &mut Hands) -> ! {
    print(&error.to_string());
    hands.tell(HandMessage::Ended(End::Exit(1)));
    process::end_as(End::Exit(1))
}

/// Prints a message on standard error, which may be closed.
pub(super) fn print(text: &str) {
    let _ = writeln!(io::stderr(), "nine: {text}");
}

/// Starts the command under the filter. Where the kernel has no notifications, its connections
/// are found by scans.
fn start(words: &[OsString], signals: &Signals) -> Result<Started, StartError> {
    let error = |doing| move |source| StartError { doing, source };
    let [mut from_child, mut to_parent] = process::pipe().map_err(error("make a pipe"))?;
    let [mut wait, go] = process::pipe().map_err(error("make a pipe"))?;
    let Some(child) = process::fork().map_err(error("start a process"))? else {
        drop((from_child, go));
        let filter = seccomp::install();
        let listener = match &filter {
            Ok(listener) => listener.as_raw_fd(),
            Err(e) => -e.raw_os_error().unwrap_or(libc::EINVAL),
        };
        let _ = to_parent.write_all(&listener.to_ne_bytes());
        // Until the parent has taken the listener.
        let _ = wait.read(&mut [0]);
        signals.restore();
        become_command(words)
    };
    drop((to_parent, wait));
    let mut listener = [0; 4];
    from_child
        .read_exact(&mut listener)
        .map_err(error("start a process"))?;
    let (listener, controller) = match i32::from_ne_bytes(listener) {
        number @ 0.. => {
            let borrowed = process::open_pidfd(child).and_then(|child| process::borrow(&child, number));
            let taken = borrowed.map(Listener::new);
            let taken = taken.map_err(error("take the filter's listener (needs Linux 5.6 or later)"))?;
            (Some(taken), Controller::This)
        }
        number if -number == libc::EBUSY => {
            print("already under a nine: its settings apply, and these are ignored");
            (None, Controller::OuterNine)
        }
        _ => {
            print(
                "this kernel does not notify of new connections (seccomp, Linux 5.5): they are \
                 limited up to a second late",
            );
            (None, Controller::This)
        }
    };
    Ok(Started {
        command: child,
        listener,
        controller,
        go,
    })
}

fn become_command(words: &[OsString]) -> ! {
    let mut words = words.iter();
    let name = words.next().cloned().unwrap_or_default();
    let error = Command::new(&name).args(words).exec();
    print(&format!("cannot start `{}`: {error}", name.to_string_lossy()));
    let code = match error.kind() {
        io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_STARTED,
    };
    process::end_as(End::Exit(code))
}

impl Supervisor {
    fn is_running(&self) -> bool {
        matches!(self.command, CommandState::Running(_))
    }

    /// Waits for the next event and handles it.
    fn turn(&mut self) -> Go {
        let at = now();
        if self.vitals.give_sign(at) == Lease::Expired {
            // This process was stopped, and the understudy has lifted the limits.
            let _ = self.actuator.release();
        }
        let mut until = self.next_tick;
        if self.actuator.has_new(at) {
            until = until.min(at + RECHECK);
        }
        let millis = until.since(at).nanos().div_ceil(1_000_000);
        let mut waits = vec![self.signals.as_fd(), self.hands.understudy_lifeline.as_fd()];
        waits.extend(self.hands.guard_lifeline.as_ref().map(AsFd::as_fd));
        waits.extend(self.listener.as_ref().map(AsFd::as_fd));
        waits.extend(self.participant.descriptors());
        let Ok(ready) = poll(&waits, Some(millis)) else {
            return Go::On;
        };
        if self.vitals.lease(now()) == Lease::Expired {
            // What was ready may be so no more.
            return Go::On;
        }
        let mut ready = ready.into_iter().skip(1);
        let is_alone = ready.next().is_some_and(|understudy| understudy.gone);
        let guard = self.hands.guard_lifeline.as_ref().and_then(|_| ready.next());
        let notification = self.listener.as_ref().and_then(|_| ready.next());
        let has_message = ready.any(|ready| ready.readable || ready.gone);
        if let (Some(notification), Some(listener)) = (notification, &self.listener) {
            if notification.readable {
                if let Some(request) = listener.receive_in(self.vitals) {
                    let waits = || listener.is_waiting(&request);
                    self.actuator.connecting(request.thread, request.fd, &waits);
                    listener.allow(&request);
                    self.next_tick = self.next_tick.min(now() + RECHECK);
                }
            } else if notification.gone && !self.is_running() {
                // All filtered processes have ended.
                return Go::Stop;
            }
        }
        let terminated = self.is_terminated();
        if self.reap() == Go::Stop {
            return Go::Stop;
        }
        if terminated || is_alone || guard.is_some_and(|guard| guard.gone) {
            self.leave();
            return Go::Stop;
        }
        self.work(now(), has_message)
    }

    /// Scans, ticks and reasserts clamps, as far as each is due.
    fn work(&mut self, at: Instant, has_message: bool) -> Go {
        let scan = self.actuator.scan(at);
        if scan == Scan::Nobody && self.listener.is_none() && !self.is_running() {
            return Go::Stop;
        }
        let wakeup = match at >= self.next_tick {
            true => Wakeup::Tick,
            false if has_message => Wakeup::Message,
            false => {
                self.actuator.reassert_new(at);
                return Go::On;
            }
        };
        if let Err(e) = self.participant.step(at, wakeup, self.actuator.as_mut()) {
            self.print_once(&e.to_string());
        }
        if wakeup == Wakeup::Tick {
            let interval = match self.actuator.is_opening(at) {
                true => self.participant.interval().min(INTERVAL),
                false => self.participant.interval(),
            };
            self.next_tick = (self.next_tick + interval).max(at + RECHECK);
            self.print_uncontrolled();
            for text in self.participant.take_notices() {
                self.print_once(&text);
            }
        }
        Go::On
    }

    /// Whether a process has sent us a terminating signal.
    fn is_terminated(&mut self) -> bool {
        let mut terminated = false;
        while let Some(signal) = self.signals.next() {
            terminated |= signal.sent && [libc::SIGTERM, libc::SIGINT, libc::SIGHUP].contains(&signal.number);
        }
        terminated
    }

    /// Collects ended children. Stops if nothing is left to control.
    fn reap(&mut self) -> Go {
        while let Some((pid, end)) = process::reap() {
            if self.command != CommandState::Running(pid) {
                continue;
            }
            self.command = CommandState::Ended;
            let gone =
                |listener: &Listener| poll(&[listener.as_fd()], Some(0)).is_ok_and(|ready| ready[0].gone);
            let over = match &self.listener {
                Some(listener) => gone(listener),
                None => process_tree::below(process::own_pid()).is_empty(),
            };
            if over {
                let _ = self.actuator.release();
                self.hands.tell(HandMessage::Ended(end));
                return Go::Stop;
            }
            self.go_on_alone();
            self.hands.tell(HandMessage::Ended(end));
        }
        Go::On
    }

    /// The command has ended and its children run on. So do this process and the understudy.
    fn go_on_alone(&mut self) {
        self.orphans_only = true;
        self.hands.guard_lifeline = None;
        process::detach_streams();
    }

    /// One of the others was killed, somebody ends us, or an outer nine controls the command. Lifts
    /// all limits, then lets every connect proceed until all filtered processes have ended.
    fn leave(&mut self) {
        let _ = self.actuator.release();
        self.participant.leave();
        while self.is_running() {
            let mut waits = vec![self.signals.as_fd()];
            waits.extend(self.listener.as_ref().map(AsFd::as_fd));
            let ready = poll(&waits, Some(LOOK_MILLIS)).unwrap_or_default();
            self.vitals.give_sign(now());
            if let (Some(listener), Some(notification)) = (&self.listener, ready.get(1))
                && notification.readable
            {
                allow_connect(listener);
            }
            while self.signals.next().is_some() {}
            while let Some((pid, end)) = process::reap() {
                if self.command == CommandState::Running(pid) {
                    self.command = CommandState::Ended;
                    self.hands.tell(HandMessage::Ended(end));
                }
            }
            if ready.get(1).is_some_and(|ready| ready.gone && !ready.readable) {
                // All filtered processes have ended, so the command has ended or is about to.
                self.listener = None;
            }
        }
        if let Some(listener) = &self.listener {
            process::detach_streams();
            allow_connects_until_all_are_gone(listener, || {
                self.vitals.give_sign(now());
            });
        }
    }

    fn print_uncontrolled(&mut self) {
        for one in self.actuator.uncontrolled() {
            if one.policed.is_some() {
                continue;
            }
            // Every DNS query is UDP. What matters is QUIC, and whole programs.
            if one.what.starts_with("UDP") && !one.what.ends_with(":443") {
                continue;
            }
            let what = one.what.split(" to ").next().unwrap_or_default().to_string();
            self.print_once(&format!(
                "not controlled: {what} of process {}: {}",
                one.pid, one.why
            ));
        }
    }

    fn print_once(&mut self, text: &str) {
        if !self.orphans_only && self.printed.insert(text.to_string()) {
            print(text);
        }
    }
}
