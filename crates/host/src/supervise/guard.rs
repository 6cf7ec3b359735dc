//! The guard process: see the head of this folder.

use crate::borrowed::undo;
use crate::ledger::Ledger;
use crate::process_tree::ProcessRoot;
use crate::sys::process::{self, End};
use crate::sys::seccomp::Listener;
use crate::sys::signal::{Signal, Signals};
use crate::sys::{Ready, poll};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;

/// A message from the supervisor to the guard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum GuardMessage {
    /// The command runs as this process. `listener` is a descriptor of the supervisor.
    Started {
        command: i32,
        supervisor: i32,
        listener: Option<i32>,
    },
    /// The command has ended so. The supervisor has ended too, or needs this guard no more.
    Ended(End),
}

/// Bytes of a message on the pipe: few enough to be written and read whole (POSIX `PIPE_BUF`).
const LEN: usize = 16;

impl GuardMessage {
    /// Sends it. That the guard has gone is noticed elsewhere.
    pub(super) fn send(&self, pipe: &mut File) {
        let words = match *self {
            Self::Started {
                command,
                supervisor,
                listener,
            } => [1, command, supervisor, listener.unwrap_or(-1)],
            Self::Ended(end) => [2, end.to_raw(), 0, 0],
        };
        let _ = pipe.write_all(words.map(i32::to_ne_bytes).as_flattened());
    }

    /// Receives the next one; none when the supervisor has gone.
    fn receive(pipe: &mut File) -> Option<Self> {
        let mut raw = [0; LEN];
        pipe.read_exact(&mut raw).ok()?;
        let word =
            |n: usize| i32::from_ne_bytes([raw[4 * n], raw[4 * n + 1], raw[4 * n + 2], raw[4 * n + 3]]);
        Some(match word(0) {
            1 => Self::Started {
                command: word(1),
                supervisor: word(2),
                listener: Some(word(3)).filter(|fd| *fd >= 0),
            },
            _ => Self::Ended(End::from_raw(word(1))),
        })
    }
}

/// Waits until the command or process has ended, and returns how.
pub(super) fn run(
    mut signals: Signals,
    mut messages: File,
    alive: File,
    ledger: &Ledger,
    root: ProcessRoot,
) -> End {
    let mut command = None;
    let mut listener = None;
    // Dropped when a signal asks to leave a running process alone: the supervisor sees its end.
    let mut alive = Some(alive);
    loop {
        let Ok(ready) = poll(&[signals.as_fd(), messages.as_fd()], None) else {
            continue;
        };
        if ready[1] != Ready::default() {
            match GuardMessage::receive(&mut messages) {
                Some(GuardMessage::Started {
                    command: pid,
                    supervisor,
                    listener: number,
                }) => {
                    command = Some(pid);
                    listener = number.and_then(|number| borrow_listener(supervisor, number));
                }
                Some(GuardMessage::Ended(end)) => return end,
                None => {
                    undo(ledger, root);
                    return match command {
                        Some(command) => stand_in(&mut signals, command, listener.take()),
                        // It controlled a running process, or nothing yet.
                        None => End::Exit(1),
                    };
                }
            }
        }
        while let Some(signal) = signals.next() {
            match command {
                Some(command) => forward(signal, command),
                None if is_termination(signal.number) => drop(alive.take()),
                None => {}
            }
        }
    }
}

fn borrow_listener(supervisor: i32, number: i32) -> Option<Listener> {
    let supervisor = process::open_pidfd(supervisor).ok()?;
    process::borrow(&supervisor, number).ok().map(Listener::new)
}

/// Forwards a signal that a process sent to us. One from the terminal has reached the command by
/// itself.
fn forward(signal: Signal, command: i32) {
    if signal.sent && signal.number != libc::SIGCHLD {
        process::signal(command, signal.number);
    }
}

fn is_termination(signal: i32) -> bool {
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT].contains(&signal)
}

/// Takes the place of a supervisor that has died: allows connects, and waits for the command,
/// which is our child now.
fn stand_in(signals: &mut Signals, command: i32, listener: Option<Listener>) -> End {
    loop {
        while let Some((pid, end)) = process::reap() {
            if pid == command {
                if let Some(listener) = listener {
                    // The command's children run on; the shell does not wait for them.
                    if let Ok(None) = process::fork() {
                        let _ = process::leave_session();
                        process::detach_streams();
                        allow_connects_until_all_are_gone(&listener);
                        process::end_as(End::Exit(0));
                    }
                }
                return end;
            }
        }
        let mut waits = vec![signals.as_fd()];
        waits.extend(listener.as_ref().map(AsFd::as_fd));
        let ready = poll(&waits, None).unwrap_or_default();
        if let (Some(listener), Some(ready)) = (&listener, ready.get(1))
            && ready.readable
        {
            allow_connect(listener);
        } else if ready.get(1).is_some_and(|ready| ready.gone) {
            // Every filtered process has ended, and with them the command.
            let _ = poll(&[signals.as_fd()], Some(100));
        }
        while let Some(signal) = signals.next() {
            forward(signal, command);
        }
    }
}

/// Lets one waiting connect proceed.
pub(super) fn allow_connect(listener: &Listener) {
    if let Some(request) = listener.receive() {
        listener.allow(&request);
    }
}

/// Lets every connect proceed until all filtered processes have ended.
pub(super) fn allow_connects_until_all_are_gone(listener: &Listener) {
    loop {
        while process::reap().is_some() {}
        let ready = poll(&[listener.as_fd()], Some(1_000)).unwrap_or_default();
        match ready.first() {
            Some(ready) if ready.readable => allow_connect(listener),
            Some(ready) if ready.gone => return,
            _ => {}
        }
    }
}

/// The guard of a supervisor whose command has ended and left children behind: waits for the
/// supervisor's end.
pub(super) fn succeed(mut lifeline: File, listener: &Listener, ledger: &Ledger) -> ! {
    let mut nothing = [0];
    // Nothing is ever written: the pipe closes when the supervisor ends.
    let _ = lifeline.read(&mut nothing);
    if !poll(&[listener.as_fd()], Some(0)).is_ok_and(|ready| ready[0].gone) {
        undo(ledger, ProcessRoot::Below(process::own_pid()));
        allow_connects_until_all_are_gone(listener);
    }
    process::end_as(End::Exit(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_whole_and_the_pipes_end_is_noticed() {
        let [mut reader, mut writer] = process::pipe().expect("a pipe");
        let started = |listener| GuardMessage::Started {
            command: 7,
            supervisor: 6,
            listener,
        };
        let all = [
            started(Some(5)),
            started(None),
            GuardMessage::Ended(End::Exit(3)),
            GuardMessage::Ended(End::Signal(9)),
        ];
        all.iter().for_each(|message| message.send(&mut writer));
        assert_eq!(all.map(|_| GuardMessage::receive(&mut reader)), all.map(Some));
        drop(writer);
        assert_eq!(GuardMessage::receive(&mut reader), None);
    }
}
