//! A way out of a lab without root: slirp4netns, a network stack in user space, which opens sockets
//! outside for the connections of the namespace. Its network is 10.0.2.0/24: the lab's end is
//! 10.0.2.100, 10.0.2.2 is this computer's loopback address, 10.0.2.3 answers DNS.
//!
//! It must be started outside of the lab's namespaces, and can only begin when they exist: a shell
//! waits for their names. It ends when the lab has ended, since its input is closed then.

use crate::error::{Doing, Error, Result};
use crate::host::Host;
use crate::isolation;
use crate::sys::namespace;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command, Stdio};

/// This computer's loopback address, as the lab sees it.
pub const COMPUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
const INTERFACE: &str = "tap0";
const NAMES: &str = "/etc/resolv.conf";
const RESOLVER: &str = "nameserver 10.0.2.3\n";
/// Waits for its arguments; then it is ready when it writes to descriptor 3.
const SCRIPT: &str = "read -r users network && exec slirp4netns --configure --ready-fd=3 --exit-fd=0 $users \
     --netns-type=path \"$network\" tap0 3>&1 >/dev/null";

/// A way out that waits for its lab.
#[derive(Debug)]
pub struct PreparedWayOut {
    input: ChildStdin,
    ready: ChildStdout,
    errors: ChildStderr,
}

/// A way out. Dropping it, or the end of this process, closes it.
#[derive(Debug)]
pub struct WayOut {
    _input: ChildStdin,
    /// A message of slirp4netns would end it if nobody held the other end of its pipe.
    _errors: ChildStderr,
}

impl PreparedWayOut {
    /// Prepares it: must be called before [`enter`](crate::enter).
    ///
    /// # Errors
    /// If slirp4netns is not installed, or cannot be started.
    pub fn new() -> Result<Self> {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        if !std::env::split_paths(&paths).any(|folder| folder.join("slirp4netns").is_file()) {
            let why = "slirp4netns is not installed";
            let help =
                "install it: `apt install slirp4netns` (Debian, Ubuntu), `dnf install slirp4netns` (Fedora)";
            return Err(Error::other("make a way out of the lab", why).help(help));
        }
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT]).process_group(0);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().doing(|| "start slirp4netns".into())?;
        match (child.stdin.take(), child.stdout.take(), child.stderr.take()) {
            (Some(input), Some(ready), Some(errors)) => Ok(Self { input, ready, errors }),
            _ => Err(Error::other("start slirp4netns", "it has no pipes")),
        }
    }

    /// Opens it from this host of the lab, which has the default route by it from now on, for
    /// itself and for those behind it.
    ///
    /// # Errors
    /// If slirp4netns ends instead, or the kernel refuses a setting.
    pub fn open(mut self, host: &Host) -> Result<WayOut> {
        let id = isolation::id_outside();
        let users = match isolation::in_user_namespace() {
            true => format!("--userns-path=/proc/{id}/ns/user"),
            false => "--enable-sandbox".into(),
        };
        let network = format!("/proc/{id}/fd/{}", host.namespace().as_raw_fd());
        let doing = || "open a way out of the lab by slirp4netns".to_owned();
        writeln!(self.input, "{users} {network}").doing(doing)?;
        let mut ready = [0];
        if self.ready.read(&mut ready).doing(doing)? == 0 {
            let mut said = String::new();
            let _ = self.errors.read_to_string(&mut said);
            let why = format!("it ended at once: {}", said.trim().replace('\n', "; "));
            let help = "it opens /dev/net/tun, which users may (`chmod 666`) on most systems; a container \
                        needs `--device /dev/net/tun`";
            return Err(Error::other(doing(), why).help(help));
        }
        // It asks by ARP for the addresses behind the host, too.
        host.set(&format!("net/ipv4/conf/{INTERFACE}/proxy_arp"), "1")?;
        if let Ok(names) = Path::new(NAMES).canonicalize() {
            namespace::show_in_place(&names, RESOLVER).doing(|| format!("show another {NAMES}"))?;
        }
        Ok(WayOut {
            _input: self.input,
            _errors: self.errors,
        })
    }
}
