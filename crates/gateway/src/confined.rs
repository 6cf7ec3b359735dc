//! What a running program may still do once everything is open: see [`confine`].

use crate::Error;
use confine::Confinement;
use control::rsvp_config::RsvpConfig;
use control::run_directory::{directory, prepare};
use std::path::{Path, PathBuf};

/// Whether the program gives up the rights that it does not need.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sandbox {
    /// As `docs/security.md` says.
    #[default]
    On,
    /// It keeps all: for the diagnosis of a fault.
    Off,
}

/// The folder of a file; behind links, as files are exchanged there.
fn folder(file: &Path) -> Option<PathBuf> {
    let file = std::fs::canonicalize(file).unwrap_or_else(|_| file.into());
    file.parent().map(Path::to_path_buf)
}

/// Where a program changes files: the run directory, its socket's folder, those of its state and of
/// its policy's file.
pub(crate) fn of(
    sandbox: Sandbox,
    file: Option<&Path>,
    state: Option<&Path>,
    rsvp: Option<&RsvpConfig>,
    socket: &Path,
) -> Result<Confinement, Error> {
    if sandbox == Sandbox::Off {
        return Ok(Confinement::none());
    }
    // A folder that does not exist yet could not be made later.
    let of_socket = socket.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = of_socket.filter(|folder| !folder.exists()) {
        prepare(folder).map_err(|why| Error::Socket {
            path: socket.into(),
            why,
        })?;
    }
    let of_socket = of_socket.unwrap_or(Path::new(".")).to_path_buf();
    let state = state.map(Path::to_path_buf);
    let of_policy = file.and_then(folder);
    let keys = rsvp.and_then(|rsvp| rsvp.settings.keys.as_deref());
    let of_keys = keys.and_then(|file| folder(Path::new(file)));
    let changed = [Some(directory()), Some(of_socket), state, of_policy];
    let confinement = Confinement::changing(changed.into_iter().flatten());
    let confinement = confinement.reading(of_keys);
    Ok(match file {
        Some(file) => confinement.with_file(file),
        None => confinement,
    })
}
