//! The understudy process: see the head of this folder.

use super::hand::{
    HandMessage, LOOK_MILLIS, allow_connect, allow_connects_until_all_are_gone, stand_in, take_listener,
};
use crate::borrowed::undo;
use crate::ledger::Ledger;
use crate::process_root::ProcessRoot;
use crate::process_tree;
use crate::sys::process::{self, End};
use crate::sys::seccomp::Listener;
use crate::sys::signal::Signals;
use crate::sys::vitals::{Lease, Vitals};
use crate::sys::{Ready, now, poll};
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

/// Its name, which has nothing in common with nine's: `killall nine` and `pkill -f nine` do not
/// reach it.
const NAME: &CStr = c"window-undo";

/// The understudy's side of what the processes share.
pub(super) struct Understudy {
    pub(super) signals: Signals,
    /// From the supervisor. Closes when it has gone.
    pub(super) messages: File,
    /// Told when the listener has been taken.
    pub(super) taken: File,
    /// To the guard, in the supervisor's place.
    pub(super) to_guard: File,
    /// Open as long as this process lives: the supervisor sees its end.
    pub(super) _alive: File,
    pub(super) ledger: Ledger,
    pub(super) vitals: Vitals,
    pub(super) root: ProcessRoot,
    /// The supervisor, a child of this process.
    pub(super) supervisor: i32,
}

impl Understudy {
    /// Waits until the supervisor has gone, and stands in for it if it must.
    pub(super) fn run(mut self) -> ! {
        disguise();
        // The supervisor sets up the command meanwhile, with descriptors of its own.
        process::close_inherited();
        process::detach_streams();
        let _ = process::leave_session();
        let _ = process::inherit_orphans();
        let mut command = None;
        let mut listener = None;
        loop {
            let is_stalled = self.vitals.lease(now()) == Lease::Expired;
            if is_stalled {
                self.let_go(listener.as_ref());
            }
            let mut waits = vec![self.signals.as_fd(), self.messages.as_fd()];
            waits.extend(listener.as_ref().filter(|_| is_stalled).map(AsFd::as_fd));
            let Ok(ready) = poll(&waits, Some(LOOK_MILLIS)) else {
                continue;
            };
            // Each is delivered to the command by its own way.
            while self.signals.next().is_some() {}
            if let (Some(listener), Some(Ready { readable: true, .. })) = (&listener, ready.get(2)) {
                allow_connect(listener);
            }
            if ready[1] == Ready::default() {
                continue;
            }
            match HandMessage::receive(&mut self.messages) {
                Some(HandMessage::Started {
                    command: pid,
                    supervisor,
                    listener: number,
                }) => {
                    command = Some(pid);
                    listener = take_listener(supervisor, number, &mut self.taken);
                }
                Some(HandMessage::Ended(_)) => command = None,
                None => self.take_over(command, listener.as_ref()),
            }
        }
    }

    /// Lifts all limits, and lets the connect proceed that the supervisor has not answered.
    fn let_go(&self, listener: Option<&Listener>) {
        undo(&self.ledger, &self.root);
        if let Some(listener) = listener {
            listener.allow_last(self.vitals);
        }
    }

    /// The supervisor has ended. If all was well, there is nothing left to do.
    fn take_over(mut self, command: Option<i32>, listener: Option<&Listener>) -> ! {
        self.let_go(listener);
        if let Some(command) = command {
            let end = self.end_of(command, listener);
            HandMessage::Ended(end).send(&mut self.to_guard);
        }
        drop(self.to_guard);
        if let Some(listener) = listener {
            allow_connects_until_all_are_gone(listener, || {});
        }
        process::end_as(End::Exit(0))
    }

    fn end_of(&mut self, command: i32, listener: Option<&Listener>) -> End {
        // Once the supervisor has been waited for, its children are this process's.
        loop {
            match process::reap() {
                Some((pid, end)) if pid == command => return end,
                Some((pid, _)) if pid == self.supervisor => break,
                Some(_) => {}
                None if !process::has_children() => break,
                None => {
                    let _ = poll(&[self.signals.as_fd()], Some(LOOK_MILLIS));
                    while self.signals.next().is_some() {}
                }
            }
        }
        stand_in(&mut self.signals, command, listener, |_| {})
    }
}

/// Takes another name, also in the list of arguments.
fn disguise() {
    process::set_name(NAME);
    // Where it fails, `pkill -f` may find it.
    let _ = replace_arguments();
}

/// Overwrites the arguments in this process's memory, where the system reads them.
fn replace_arguments() -> io::Result<()> {
    let end =
        |field: usize| -> Option<u64> { process_tree::stat_field(process::own_pid(), field)?.parse().ok() };
    // `arg_start` and `arg_end` of proc_pid_stat(5).
    let (Some(from), Some(to)) = (end(48), end(49)) else {
        return Ok(());
    };
    let length = usize::try_from(to.saturating_sub(from)).unwrap_or(0);
    let mut text = NAME.to_bytes().to_vec();
    text.resize(length, 0);
    let memory = File::options().write(true).open("/proc/self/mem")?;
    memory.write_all_at(&text, from)
}
