//! How a request comes in and its answer goes out. The page takes room for a request's bytes,
//! writes them there, asks, and reads the answer's bytes: an interface of few functions, so that
//! no tool has to write a script for it.
//!
//! ```text
//! at = room(length)      write the request there
//! length = ask()         its answer is `length` bytes at `answer()`
//! ```
//!
//! A panic ends the module: it traps. What it said can be read then, as an answer is.

#![expect(
    unsafe_code,
    reason = "a function is exported by its name, and another may have it"
)]

use crate::Simulator;
use std::cell::RefCell;

/// What is kept from one call to the next.
#[derive(Default)]
struct Held {
    simulator: Simulator,
    request: Vec<u8>,
    answer: Vec<u8>,
}

thread_local! {
    static HELD: RefCell<Held> = RefCell::default();
    /// Apart, since what is kept is in use while it panics.
    static PANIC: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Room for a request of this many bytes.
#[unsafe(no_mangle)]
pub extern "C" fn room(length: usize) -> *mut u8 {
    HELD.with_borrow_mut(|held| {
        held.request.clear();
        held.request.resize(length, 0);
        held.request.as_mut_ptr()
    })
}

/// Asks what is written there. The length of the answer.
#[unsafe(no_mangle)]
pub extern "C" fn ask() -> usize {
    HELD.with_borrow_mut(|held| {
        let request = String::from_utf8_lossy(&held.request);
        held.answer = held.simulator.answer(&request).into_bytes();
        held.answer.len()
    })
}

/// Where the answer is.
#[unsafe(no_mangle)]
pub extern "C" fn answer() -> *const u8 {
    HELD.with_borrow(|held| held.answer.as_ptr())
}

/// Notes what panics say, from now on.
#[unsafe(no_mangle)]
pub extern "C" fn note_panics() {
    std::panic::set_hook(Box::new(|panic| {
        PANIC.with_borrow_mut(|noted| *noted = panic.to_string().into_bytes());
    }));
}

/// The length of what the last panic said.
#[unsafe(no_mangle)]
pub extern "C" fn panic_length() -> usize {
    PANIC.with_borrow(Vec::len)
}

/// Where it is.
#[unsafe(no_mangle)]
pub extern "C" fn panic_text() -> *const u8 {
    PANIC.with_borrow(|noted| noted.as_ptr())
}
