//! A terminal taken over for a full screen, and the program's end when the terminal is gone.
//!
//! A program whose controlling terminal closes gets SIGHUP. One that merely uses a terminal, as
//! under `setsid` or a test, does not, and crossterm's `poll` then never returns: it reads nothing
//! for ever.

use rustix::event::{PollFd, PollFlags, poll};
use std::io;

/// How a shell reports a program that SIGHUP has ended.
const BY_HANG_UP: i32 = 128 + 1;

/// Takes over the terminal of standard input and standard output, which are both one.
///
/// # Errors
///
/// Returns an error if the terminal cannot be set up.
pub(crate) fn take_over() -> io::Result<ratatui::DefaultTerminal> {
    std::thread::Builder::new()
        .name("hang-up".into())
        .spawn(end_with_the_terminal)?;
    ratatui::try_init()
}

fn end_with_the_terminal() {
    let (input, output) = (io::stdin(), io::stdout());
    // Hang-ups and errors are reported without being asked for.
    let mut ends = [
        PollFd::new(&input, PollFlags::empty()),
        PollFd::new(&output, PollFlags::empty()),
    ];
    while poll(&mut ends, None) == Err(rustix::io::Errno::INTR) {}
    std::process::exit(BY_HANG_UP);
}
