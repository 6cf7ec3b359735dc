//! The guard process: see the head of this folder.

use super::hand::{HandMessage, allow_connects_until_all_are_gone, stand_in, take_listener};
use crate::borrowed::undo;
use crate::ledger::Ledger;
use crate::process_root::ProcessRoot;
use crate::sys::process::{self, End};
use crate::sys::seccomp::Listener;
use crate::sys::signal::{Signal, Signals};
use crate::sys::vitals::Vitals;
use crate::sys::{Ready, poll};
use std::fs::File;
use std::os::fd::AsFd;

/// The guard's side of what the processes share.
pub(super) struct Guard {
    pub(super) signals: Signals,
    /// From the supervisor, and from the understudy once it stands in. Closes when both have gone.
    pub(super) messages: File,
    /// Told when the listener has been taken.
    pub(super) taken: File,
    /// Open while the supervisor may limit connections. Dropped when a signal asks to leave a
    /// running process alone: the supervisor sees its end.
    pub(super) alive: Option<File>,
    pub(super) ledger: Ledger,
    pub(super) vitals: Vitals,
    pub(super) root: ProcessRoot,
}

impl Guard {
    /// Waits until the command or process has ended, and returns how.
    pub(super) fn run(mut self) -> End {
        let mut command = None;
        let mut listener = None;
        loop {
            let Ok(ready) = poll(&[self.signals.as_fd(), self.messages.as_fd()], None) else {
                continue;
            };
            if ready[1] != Ready::default() {
                match HandMessage::receive(&mut self.messages) {
                    Some(HandMessage::Started {
                        command: pid,
                        supervisor,
                        listener: number,
                    }) => {
                        command = Some(pid);
                        listener = take_listener(supervisor, number, &mut self.taken);
                    }
                    Some(HandMessage::Ended(end)) => return end,
                    None => return self.take_over(command, listener),
                }
            }
            while let Some(signal) = self.signals.next() {
                match command {
                    Some(command) => forward(signal, command),
                    None if is_termination(signal.number) => drop(self.alive.take()),
                    None => {}
                }
            }
        }
    }

    /// Supervisor and understudy have died.
    fn take_over(mut self, command: Option<i32>, listener: Option<Listener>) -> End {
        undo(&self.ledger, &self.root);
        let Some(command) = command else {
            // They controlled a running process, or nothing yet.
            return End::Exit(1);
        };
        if let Some(listener) = &listener {
            listener.allow_last(self.vitals);
        }
        let end = stand_in(&mut self.signals, command, listener.as_ref(), |signal| {
            forward(signal, command);
        });
        if let Some(listener) = listener {
            // The command's children run on; the shell does not wait for them.
            if let Ok(None) = process::fork() {
                let _ = process::leave_session();
                process::detach_streams();
                allow_connects_until_all_are_gone(&listener, || {});
                process::end_as(End::Exit(0));
            }
        }
        end
    }
}

/// Forwards a signal that a process sent to us. One from the terminal has reached the command by
/// itself.
fn forward(signal: Signal, command: i32) {
    if signal.sent && signal.number != libc::SIGCHLD {
        process::signal(command, signal.number);
    }
}

pub(super) fn is_termination(signal: i32) -> bool {
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT].contains(&signal)
}
