//! What guard, understudy and supervisor have in common: messages, and connects that are allowed.

use crate::sys::process::{self, End};
use crate::sys::seccomp::Listener;
use crate::sys::signal::{Signal, Signals};
use crate::sys::{Ready, poll};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;

/// How often a process looks around that waits for something else.
pub(super) const LOOK_MILLIS: u64 = 250;

/// A message from the supervisor to the others; or, once it has died, from the understudy to the
/// guard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HandMessage {
    /// The command is to run as this process. `listener` is a descriptor of the supervisor.
    Started {
        command: i32,
        supervisor: i32,
        listener: Option<i32>,
    },
    /// The command has ended so, or the supervisor if there is no command.
    Ended(End),
}

/// Bytes of a message on the pipe: few enough to be written and read whole (POSIX `PIPE_BUF`).
const LEN: usize = 16;

impl HandMessage {
    /// Sends it. That the receiver has gone is noticed elsewhere.
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

    /// Receives the next one; none when all senders have gone.
    pub(super) fn receive(pipe: &mut File) -> Option<Self> {
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

/// Takes a duplicate of the supervisor's listener, and tells it so: the command waits for that.
pub(super) fn take_listener(supervisor: i32, number: Option<i32>, taken: &mut File) -> Option<Listener> {
    let borrowed = number.and_then(|number| {
        let supervisor = process::open_pidfd(supervisor).ok()?;
        process::borrow(&supervisor, number).ok().map(Listener::new)
    });
    let _ = taken.write_all(&[1]);
    borrowed
}

/// Takes the place of a supervisor that has died: allows connects, and waits for the command,
/// which is a child of this process now.
pub(super) fn stand_in(
    signals: &mut Signals,
    command: i32,
    listener: Option<&Listener>,
    mut on_signal: impl FnMut(Signal),
) -> End {
    loop {
        while let Some((pid, end)) = process::reap() {
            if pid == command {
                return end;
            }
        }
        if !process::has_children() {
            // The supervisor has seen its end and died before it could tell.
            return End::Exit(1);
        }
        let mut waits = vec![signals.as_fd()];
        waits.extend(listener.map(AsFd::as_fd));
        let ready = poll(&waits, Some(LOOK_MILLIS)).unwrap_or_default();
        if let (Some(listener), Some(ready)) = (listener, ready.get(1))
            && ready.readable
        {
            allow_connect(listener);
        } else if ready.get(1).is_some_and(|ready| ready.gone) {
            // Every filtered process has ended, and with them the command.
            let _ = poll(&[signals.as_fd()], Some(100));
        }
        while let Some(signal) = signals.next() {
            on_signal(signal);
        }
    }
}

/// Lets one waiting connect proceed.
pub(super) fn allow_connect(listener: &Listener) {
    if let Some(request) = listener.receive() {
        listener.allow(&request);
    }
}

/// Lets every connect proceed until all filtered processes have ended. Calls `look` now and then.
pub(super) fn allow_connects_until_all_are_gone(listener: &Listener, mut look: impl FnMut()) {
    loop {
        look();
        while process::reap().is_some() {}
        let ready = poll(&[listener.as_fd()], Some(LOOK_MILLIS)).unwrap_or_default();
        match ready.first() {
            Some(Ready { readable: true, .. }) => allow_connect(listener),
            Some(Ready { gone: true, .. }) => return,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_whole_and_the_pipes_end_is_noticed() {
        let [mut reader, mut writer] = process::pipe().expect("a pipe");
        let started = |listener| HandMessage::Started {
            command: 7,
            supervisor: 6,
            listener,
        };
        let all = [
            started(Some(5)),
            started(None),
            HandMessage::Ended(End::Exit(3)),
            HandMessage::Ended(End::Signal(9)),
        ];
        all.iter().for_each(|message| message.send(&mut writer));
        assert_eq!(all.map(|_| HandMessage::receive(&mut reader)), all.map(Some));
        drop(writer);
        assert_eq!(HandMessage::receive(&mut reader), None);
    }
}
