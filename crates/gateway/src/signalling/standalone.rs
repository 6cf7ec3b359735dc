//! A node without a data plane: a host that reserves for its senders and replies as a receiver,
//! while the kernel queues its packets.

use super::beacon::Beacon;
use super::key_file::KeyFile;
use super::speaker::{self, Setup, SpeakerHandle};
use super::trees::NoTrees;
use crate::Error;
use crate::confined::{self, Sandbox};
use crate::direction::secret_seed;
use confine::{Confinement, Role};
use control::protocol::{Refusal, SettingChanges};
use control::provenance::Provenance;
use control::reservation::Reservations;
use control::rsvp_config::RsvpConfig;
use control::run_directory::{directory, prepare};
use control::snapshot::Reading;
use control::socket::{Handler, Server};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// What is left to such a node, and to its threads.
///
/// # Errors
/// If there can be no folder for its socket.
pub fn confinement(sandbox: Sandbox, config: &RsvpConfig, socket: &Path) -> Result<Confinement, Error> {
    // Confined, it could not be made; the beacon says why it cannot be used.
    let _ = prepare(&directory());
    confined::of(sandbox, None, None, Some(config), socket)
}

/// A running node with a control socket.
#[derive(Debug)]
pub struct StandaloneNode {
    /// Sends it commands.
    pub handle: SpeakerHandle,
    server: Server,
    thread: JoinHandle<()>,
    _beacon: Beacon,
}

struct Service {
    handle: SpeakerHandle,
    end: Arc<AtomicBool>,
}

impl StandaloneNode {
    /// Starts the node; `end` is set when a client asks it to end. It speaks RSVP on all interfaces
    /// with an address, unless `config` names some. Its threads are confined to their roles.
    ///
    /// # Errors
    ///
    /// If the key file is unusable, another node runs in this namespace, or a socket cannot be
    /// opened.
    pub fn start(
        config: RsvpConfig,
        socket: &Path,
        end: &Arc<AtomicBool>,
        confinement: &Confinement,
    ) -> Result<Self, Error> {
        let keys = KeyFile::of(&config).map_err(Error::Keys)?;
        let beacon = Beacon::announce(socket, &config.interfaces).map_err(Error::Beacon)?;
        let setup = Setup {
            everywhere: config.interfaces.is_empty(),
            config,
            keys,
            trees: Box::new(NoTrees),
            seed: secret_seed(),
            log: Box::new(|line| tracing::info!("rsvp: {line}")),
        };
        let started = confinement.within(Role::Rsvp, || speaker::start(setup));
        let (handle, thread) = started.map_err(Error::Speaker)?;
        let service = Service {
            handle: handle.clone(),
            end: Arc::clone(end),
        };
        let server = confinement.within(Role::Control, || Server::start(socket, Arc::new(service)));
        let server = server.map_err(|why| {
            handle.stop();
            Error::Socket {
                path: socket.into(),
                why,
            }
        })?;
        Ok(Self {
            handle,
            server,
            thread,
            _beacon: beacon,
        })
    }

    /// The path of its control socket.
    pub fn path(&self) -> &Path {
        self.server.path()
    }

    /// Ends the node: the reservations of programs are torn down.
    pub fn end(self) {
        drop(self.server);
        self.handle.stop();
        let _ = self.thread.join();
    }
}

/// The refusal of a node that forwards no packets.
fn no_packets() -> Refusal {
    Refusal {
        message: "this suimon speaks RSVP and forwards no packets".into(),
        help: Some("see `suimon reserve status`".into()),
    }
}

impl Handler for Service {
    fn version(&self) -> String {
        env!("CARGO_PKG_VERSION").into()
    }

    fn read(&self) -> Result<Reading, Refusal> {
        Err(no_packets())
    }

    fn switch(&self, _interface: Option<&str>, _on: bool) -> Result<String, Refusal> {
        Err(no_packets())
    }

    fn detach(&self, _interface: Option<&str>) -> Result<String, Refusal> {
        self.end.store(true, Ordering::Relaxed);
        Ok("suimon ends".into())
    }

    fn set(&self, _changes: &SettingChanges, _by: Provenance) -> Result<String, Refusal> {
        Err(no_packets())
    }

    fn reservations(&self) -> Result<&dyn Reservations, Refusal> {
        Ok(&self.handle)
    }
}
