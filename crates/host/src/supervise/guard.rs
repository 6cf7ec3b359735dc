//! The process that waits: see the head of this folder.

use super::own;
use crate::borrowed::ledger::Ledger;
use crate::borrowed::{Root, undo};
use crate::sys::process::{self, End};
use crate::sys::seccomp::Listener;
use crate::sys::signal::Signals;
use crate::sys::{Ready, poll};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;

/// What the supervisor tells the guard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Told {
    /// The command's process; the listener is this descriptor of the supervisor's.
    Started {
        command: i32,
        supervisor: i32,
        listener: Option<i32>,
    },
    /// How the command ended, and that it is over with the supervisor's work or that the supervisor goes on alone.
    Ended(End),
}

/// Bytes of it on the pipe: so few that they are written and read whole.
const LEN: usize = 16;

impl Told {
    /// Writes it. A guard that is gone is noticed elsewhere.
    pub(super) fn tell(&self, pipe: &mut File) {
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

    /// The next; none when the supervisor has gone.
    fn hear(pipe: &mut File) -> Option<Self> {
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

/// Waits for the end of what is looked after; how it ended.
pub(super) fn run(mut signals: Signals, mut told: File, alive: File, ledger: &Ledger, root: Root) -> End {
    let mut command = None;
    let mut listener = None;
    // Kept until a signal says that a running process is to be let go.
    let mut alive = Some(alive);
    loop {
        let Ok(ready) = poll(&[signals.as_fd(), told.as_fd()], None) else {
            continue;
        };
        if ready[1] != Ready::default() {
            match Told::hear(&mut told) {
                Some(Told::Started {
                    command: pid,
                    supervisor,
                    listener: number,
                }) => {
                    command = Some(pid);
                    listener = number.and_then(|number| borrow_listener(supervisor, number));
                }
                Some(Told::Ended(end)) => return end,
                None => {
                    undo(ledger, root);
                    return match command {
                        Some(command) => stand_in(&mut signals, command, listener.take()),
                        // It had been begun for a process that runs, or for nothing yet.
                        None => End::Exit(1),
                    };
                }
            }
        }
        while let Some(signal) = signals.next() {
            match command {
                Some(command) => pass_on(signal, command),
                None if is_farewell(signal.number) => drop(alive.take()),
                None => {}
            }
        }
    }
}

fn borrow_listener(supervisor: i32, number: i32) -> Option<Listener> {
    let supervisor = process::hold(supervisor).ok()?;
    process::borrow(&supervisor, number).ok().map(Listener::new)
}

/// What a process sent us, the command gets. What the terminal sent, it has got itself.
fn pass_on(signal: crate::sys::signal::Signal, command: i32) {
    if signal.sent && signal.number != libc::SIGCHLD {
        process::signal(command, signal.number);
    }
}

fn is_farewell(signal: i32) -> bool {
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT].contains(&signal)
}

/// In the place of a supervisor that has died: answers, and waits for the command, which is our child now.
fn stand_in(signals: &mut Signals, command: i32, listener: Option<Listener>) -> End {
    loop {
        while let Some((pid, end)) = process::reap() {
            if pid == command {
                if let Some(listener) = listener {
                    // What the command has left behind goes on; the shell does not wait for it.
                    if let Ok(None) = process::fork() {
                        let _ = process::leave_session();
                        super::supervisor::let_go_of_streams();
                        answer_until_all_are_gone(&listener);
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
            answer(listener);
        } else if ready.get(1).is_some_and(|ready| ready.gone) {
            // Everybody who could ask has ended, the command with them.
            let _ = poll(&[signals.as_fd()], Some(100));
        }
        while let Some(signal) = signals.next() {
            pass_on(signal, command);
        }
    }
}

/// Lets one thread go on.
pub(super) fn answer(listener: &Listener) {
    if let Some(asked) = listener.receive() {
        listener.go_on(&asked);
    }
}

/// Says "go on" to everybody, as long as anybody could ask.
pub(super) fn answer_until_all_are_gone(listener: &Listener) {
    loop {
        while process::reap().is_some() {}
        let ready = poll(&[listener.as_fd()], Some(1_000)).unwrap_or_default();
        match ready.first() {
            Some(ready) if ready.readable => answer(listener),
            Some(ready) if ready.gone => return,
            _ => {}
        }
    }
}

/// A supervisor's second guard, for what its command left behind: waits for the supervisor's end.
pub(super) fn succeed(mut lives: File, listener: &Listener, ledger: &Ledger) -> ! {
    let mut told = [0];
    // Nothing is ever written: the end of it is the supervisor's.
    let _ = lives.read(&mut told);
    if !poll(&[listener.as_fd()], Some(0)).is_ok_and(|ready| ready[0].gone) {
        undo(ledger, Root::Below(own()));
        answer_until_all_are_gone(listener);
    }
    process::end_as(End::Exit(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_supervisor_tells_is_heard_and_so_is_its_silence() {
        let [mut hears, mut tells] = process::pipe().expect("a pipe");
        let started = |listener| Told::Started {
            command: 7,
            supervisor: 6,
            listener,
        };
        let all = [
            started(Some(5)),
            started(None),
            Told::Ended(End::Exit(3)),
            Told::Ended(End::Signal(9)),
        ];
        all.iter().for_each(|told| told.tell(&mut tells));
        assert_eq!(all.map(|_| Told::hear(&mut hears)), all.map(Some));
        drop(tells);
        assert_eq!(Told::hear(&mut hears), None);
    }
}
