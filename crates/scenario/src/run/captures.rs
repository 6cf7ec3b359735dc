//! Captures links into pcapng files during a simulation. Packets have their headers and length, but
//! no data.

use super::network::Network;
use crate::Error;
use crate::Scenario;
use engine::settings::{Span, unknown};
use netio::capture_file::Writer;
use sim::simulation::LinkId;
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::str::FromStr;

/// A link and the file for the packets on its wire: `server > home=down.pcapng`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CaptureRequest {
    link: String,
    file: PathBuf,
}

impl FromStr for CaptureRequest {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.rsplit_once('=') {
            Some((link, file)) if !link.trim().is_empty() && !file.is_empty() => Ok(Self {
                link: link.split('>').map(str::trim).collect::<Vec<_>>().join(" > "),
                file: file.into(),
            }),
            _ => Err("expected a link and a file, such as \"server > home=down.pcapng\"".into()),
        }
    }
}

impl CaptureRequest {
    /// The link, as `server > home`.
    pub fn link(&self) -> &str {
        &self.link
    }

    /// The file.
    pub fn file(&self) -> &std::path::Path {
        &self.file
    }
}

/// A link that is being captured.
#[derive(Debug)]
pub struct Capturing {
    link: LinkId,
    file: PathBuf,
    writer: Writer<BufWriter<File>>,
}

/// Starts all captures.
///
/// # Errors
///
/// Returns an error if there is no link of a requested name, or a file cannot be created or
/// written.
pub fn begin(
    network: &mut Network,
    scenario: &Scenario,
    requests: &[CaptureRequest],
) -> Result<Vec<Capturing>, Error> {
    let mut all = Vec::with_capacity(requests.len());
    for CaptureRequest { link, file } in requests {
        let found = scenario
            .directions
            .iter()
            .position(|direction| direction.name == *link);
        let Some(found) = found else {
            let names = scenario
                .directions
                .iter()
                .map(|direction| direction.name.as_str());
            return Err(unknown("link", link, Span::default(), names).into());
        };
        let id = network.links[found];
        network.sim.capture(id, usize::MAX);
        let sink = File::create(file).map(BufWriter::new);
        let writer = sink.and_then(|sink| Writer::new(sink, &[link]));
        let writer = writer.map_err(|error| unwritten(file, error))?;
        all.push(Capturing {
            link: id,
            file: file.clone(),
            writer,
        });
    }
    Ok(all)
}

impl Capturing {
    /// Writes the packets captured so far, and discards them from memory.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be written.
    pub fn write(&mut self, network: &mut Network) -> Result<(), Error> {
        let frames = network
            .sim
            .captured(self.link)
            .into_iter()
            .flat_map(|capture| capture.frames());
        for frame in frames {
            let written = self
                .writer
                .beginning(frame.at.nanos(), 0, frame.headers, frame.original);
            written.map_err(|error| unwritten(&self.file, error))?;
        }
        network.sim.clear_captured(self.link);
        self.writer.flush().map_err(|error| unwritten(&self.file, error))
    }
}

fn unwritten(file: &std::path::Path, error: std::io::Error) -> Error {
    Error::Unwritten {
        file: file.into(),
        why: error,
    }
}
