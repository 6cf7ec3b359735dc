//! Threads beside the packet loop, each of which does one thing again and again until nobody wants
//! it any more.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// A thread that is asked to end, and waited for, when this is dropped.
#[derive(Debug)]
pub struct ThreadBeside {
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ThreadBeside {
    /// Starts a thread of this name. Its argument says whether it is asked to end, and it then does
    /// soon.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be started.
    pub fn start(name: &str, body: impl FnOnce(&dyn Fn() -> bool) + Send + 'static) -> io::Result<Self> {
        let end = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&end);
        let thread = std::thread::Builder::new().name(name.into());
        let thread = thread.spawn(move || body(&|| asked.load(Ordering::Relaxed)))?;
        Ok(Self {
            end,
            thread: Some(thread),
        })
    }
}

impl Drop for ThreadBeside {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        // One that has failed has nothing more to say.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
