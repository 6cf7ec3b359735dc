//! Real programs in a host: with a time limit, with captured output, killed together with their
//! children.

use crate::error::{Doing, Result};
use crate::host::Host;
use crate::sys::process;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes of output that are captured; the rest is discarded.
const MAX_OUTPUT: u64 = 16 << 20;
const DEFAULT_LIMIT: Duration = Duration::from_secs(60);

/// A program to run in a host.
#[derive(Debug)]
pub struct Program {
    command: Command,
    name: String,
    limit: Duration,
}

/// A program's output, and how it ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Output {
    /// Its exit status.
    pub status: ExitStatus,
    /// Whether it was killed because its time limit had passed.
    pub timed_out: bool,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

/// A running program. Dropping it kills the program and every process of its group.
#[derive(Debug)]
pub struct Running {
    child: Child,
    name: String,
    until: Instant,
    pipes: [Option<JoinHandle<Vec<u8>>>; 2],
    ended: bool,
}

/// Signals that are held back for a program at the terminal, to be passed on to it.
#[derive(Debug)]
pub struct HeldSignals(());

impl HeldSignals {
    /// Holds them back from now on. Must be called before the process starts a second thread.
    pub fn hold() -> Self {
        process::hold_signals();
        Self(())
    }

    /// Waits at most so long for one that ends a program; whether one came.
    pub fn told_to_end(&self, limit: Duration) -> bool {
        process::told_to_end(limit)
    }
}

impl Host {
    /// A program to run in this host.
    pub fn program(&self, name: &str) -> Program {
        Program::new(self, name)
    }

    /// A program to run in this host as an ordinary user has it, without capabilities: whoever
    /// makes a namespace has all of them in it.
    pub fn unprivileged(&self, name: &str) -> Program {
        let program = self.program("setpriv");
        program.args(["--bounding-set=-all", "--inh-caps=-all"]).arg(name)
    }
}

impl Program {
    fn new(host: &Host, name: &str) -> Self {
        let mut command = Command::new(name);
        process::enter_before_exec(&mut command, host.namespace_owned());
        Self {
            command,
            name: format!("`{name}` in host `{}`", host.name()),
            limit: DEFAULT_LIMIT,
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(args);
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Sets how long it may run; the default is a minute.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Starts it with captured output and empty input.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(mut self) -> Result<Running> {
        self.command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = self.command.spawn().doing(|| format!("start {}", self.name))?;
        let pipes = [child.stdout.take().map(read), child.stderr.take().map(read)];
        Ok(Running {
            child,
            name: self.name,
            until: Instant::now() + self.limit,
            pipes,
            ended: false,
        })
    }

    /// Starts it and waits for its end.
    ///
    /// # Errors
    /// If it cannot be started or waited for.
    pub fn output(self) -> Result<Output> {
        self.start()?.wait()
    }

    /// Runs it at the terminal: with our input and output, in our process group, without a time
    /// limit. Signals that are sent to us go to it.
    ///
    /// # Errors
    /// If it cannot be started or waited for.
    pub fn interactive(mut self, _held: &HeldSignals) -> Result<ExitStatus> {
        let mut child = self.command.spawn().doing(|| format!("start {}", self.name))?;
        process::end_of(&mut child).doing(|| format!("wait for {}", self.name))
    }
}

/// Reads a pipe to its end; returns the first part.
fn read(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        let _ = pipe.by_ref().take(MAX_OUTPUT).read_to_end(&mut kept);
        let _ = std::io::copy(&mut pipe, &mut std::io::sink());
        kept
    })
}

impl Running {
    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it is still running.
    pub fn is_running(&self) -> bool {
        !process::wait_for(self.child.id(), Duration::ZERO).unwrap_or(true)
    }

    /// Waits for its end, or kills it when its time limit has passed.
    ///
    /// # Errors
    /// If it cannot be waited for.
    pub fn wait(mut self) -> Result<Output> {
        let mut timed_out = false;
        loop {
            let left = self.until.saturating_duration_since(Instant::now());
            let doing = || format!("wait for {}", self.name);
            if process::wait_for(self.child.id(), left).doing(doing)? {
                break;
            }
            if left.is_zero() {
                timed_out = true;
                break;
            }
        }
        self.finish(timed_out)
    }

    /// Kills it now, and returns its output so far.
    ///
    /// # Errors
    /// If it cannot be waited for.
    pub fn kill(mut self) -> Result<Output> {
        self.finish(false)
    }

    fn finish(&mut self, timed_out: bool) -> Result<Output> {
        let status = self.end().doing(|| format!("wait for {}", self.name))?;
        let mut texts = self.pipes.each_mut().map(|pipe| {
            let bytes = pipe
                .take()
                .and_then(|thread| thread.join().ok())
                .unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        });
        Ok(Output {
            status,
            timed_out,
            out: std::mem::take(&mut texts[0]),
            err: std::mem::take(&mut texts[1]),
        })
    }

    /// Kills the whole process group, including children that an ended program left behind.
    fn end(&mut self) -> std::io::Result<ExitStatus> {
        if !self.ended {
            process::kill_group(self.child.id());
            self.ended = true;
        }
        self.child.wait()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.end();
    }
}
