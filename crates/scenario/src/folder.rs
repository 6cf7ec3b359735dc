//! The files that a scenario names, with paths relative to its directory.

use control::text_file;
use engine::units::{Bytes, Duration};
use netio::capture_file::Reader;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Packets to be replayed: the time of each since the first, and the length of its frame.
pub type Packets = Arc<[(Duration, Bytes)]>;

/// Reads the files that a scenario names.
pub trait Store: Sync {
    /// Reads a text file.
    ///
    /// # Errors
    ///
    /// Returns why the file cannot be read.
    fn text(&self, path: &str) -> Result<String, String>;

    /// Reads the packets of a capture.
    ///
    /// # Errors
    ///
    /// Returns why the file cannot be read.
    fn capture(&self, path: &str) -> Result<Packets, String>;
}

/// Access to a scenario's files.
pub type Files<'a> = &'a dyn Store;

/// The directory of a scenario.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// The directory of the scenario at this path; for standard input the current directory.
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
        let file = self.0.join(path);
        std::fs::metadata(&file).map_err(|error| self.why(path, &error))?;
        text_file::read(&file, text_file::LONGEST)
    }

    fn capture(&self, path: &str) -> Result<Packets, String> {
        let file = File::open(self.0.join(path)).map_err(|error| self.why(path, &error))?;
        let mut reader = Reader::new(BufReader::new(file)).map_err(|broken| broken.to_string())?;
        let (mut packets, mut bytes, mut first) = (Vec::new(), Vec::new(), None);
        while let Some(frame) = reader.next(&mut bytes).map_err(|broken| broken.to_string())? {
            // Times in captures of several interfaces may decrease slightly; those of a replay do
            // not.
            let at = frame.at.saturating_sub(*first.get_or_insert(frame.at));
            packets.push((Duration::from_nanos(at), Bytes::new(frame.original.into())));
        }
        Ok(packets.into())
    }
}
