//! The files that a scenario names, looked for beside it.

use engine::units::{Bytes, Duration};
use netio::ports::pcap::Reader;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Packets to be replayed: when each was sent since the first, and the length of its frame.
pub type Packets = Arc<[(Duration, Bytes)]>;

/// Reads the files that a scenario names.
pub trait Store: Sync {
    /// A text.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn text(&self, path: &str) -> Result<String, String>;

    /// The packets of a capture.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn capture(&self, path: &str) -> Result<Packets, String>;
}

/// Where a scenario's files are.
pub type Files<'a> = &'a dyn Store;

/// The directory of a scenario.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// That of the scenario at this path; of standard input, where the program stands.
    pub fn of(path: &str) -> Self {
        Self(
            Path::new(path)
                .parent()
                .map(Path::to_path_buf)
                .unwrap_or_default(),
        )
    }

    fn why(&self, path: &str, error: &io::Error) -> String {
        match error.kind() {
            io::ErrorKind::NotFound => format!("there is no file `{}`", self.0.join(path).display()),
            io::ErrorKind::IsADirectory => "it is a directory".into(),
            io::ErrorKind::InvalidData => "it is not a text in UTF-8".into(),
            _ => error.to_string(),
        }
    }
}

impl Store for Folder {
    fn text(&self, path: &str) -> Result<String, String> {
        std::fs::read_to_string(self.0.join(path)).map_err(|error| self.why(path, &error))
    }

    fn capture(&self, path: &str) -> Result<Packets, String> {
        let file = File::open(self.0.join(path)).map_err(|error| self.why(path, &error))?;
        let mut reader = Reader::new(BufReader::new(file)).map_err(|broken| broken.to_string())?;
        let (mut packets, mut bytes, mut first) = (Vec::new(), Vec::new(), None);
        while let Some(frame) = reader.next(&mut bytes).map_err(|broken| broken.to_string())? {
            // Captures of several interfaces may step back by a little; a replay does not.
            let at = frame.at.saturating_sub(*first.get_or_insert(frame.at));
            packets.push((Duration::from_nanos(at), Bytes::new(frame.original.into())));
        }
        Ok(packets.into())
    }
}
