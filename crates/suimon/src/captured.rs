//! The packets of a capture, or of a recording, and the interface of a policy that is to have them.

use crate::exit::Failure;
use crate::recreated;
use crate::source;
use control::policy::InterfacePolicy;
use engine::tree::Registry;
use engine::units::{Duration, Instant};
use gateway::recording::Recording;
use measure::numbers;
use netio::capture_file::{PcapRecord, Reader};
use std::io::BufReader;
use std::path::Path;

/// The longest frame, tag included.
const LONGEST_FRAME: u32 = 65_535 + 18;

/// What is done with a packet: its time, the length of its frame, and its beginning.
pub(crate) type Each<'a> = dyn FnMut(Instant, u32, &[u8]) -> Result<(), Failure> + 'a;

/// What was in a capture.
#[derive(Default)]
pub(crate) struct CaptureRead {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// Of packets whose captured part ends before their ports.
    pub(crate) blind: u64,
    /// Others, of a recording that no longer has their headers.
    pub(crate) forgotten: u64,
    pub(crate) span: Duration,
}

impl CaptureRead {
    /// What of the packets is missing, if anything is.
    pub(crate) fn missing(&self) -> Vec<String> {
        let blind = (self.blind > 0).then(|| {
            format!(
                "{} packets were captured too short to have their ports: filters on ports do not take them; \
                 capture 96 bytes of each",
                numbers::count(self.blind)
            )
        });
        let forgotten = (self.forgotten > 0).then(|| {
            format!(
                "{} packets are left out, of which the recording has the lengths alone: record in a larger ring",
                numbers::count(self.forgotten)
            )
        });
        blind.into_iter().chain(forgotten).collect()
    }

    /// A packet of this frame, with this beginning.
    fn see(&mut self, frame: u32, bytes: &[u8]) {
        self.packets += 1;
        self.bytes += u64::from(frame);
        self.blind += u64::from(is_blind(bytes, frame));
    }
}

/// Reads a capture or a recording, packet by packet: the time since the first, the length of the
/// frame, and its beginning.
pub(crate) fn read(path: &Path, registry: &Registry, each: &mut Each<'_>) -> Result<CaptureRead, Failure> {
    match recreated::is_recording(path) {
        true => of_recording(path, registry, each),
        false => of_capture(path, each),
    }
}

fn of_recording(path: &Path, registry: &Registry, each: &mut Each<'_>) -> Result<CaptureRead, Failure> {
    let wrong = |why: String| Failure::usage(format!("{}: {why}", path.display()));
    let mut file = source::opened("recording", path)?;
    let recording = Recording::read(&mut file).map_err(|why| wrong(format!("it {why}")))?;
    let (mut seen, mut first) = (CaptureRead::default(), None);
    let given = recording.arrivals(registry, &mut |at, frame, bytes| {
        let since = at.since(*first.get_or_insert(at));
        let frame = u32::try_from(frame.get()).unwrap_or(u32::MAX);
        seen.see(frame, bytes);
        seen.span = seen.span.max(since);
        each(Instant::START + since, frame.max(bytes.len() as u32), bytes)
    });
    let forgotten = given.map_err(wrong)??;
    match first {
        None => Err(wrong("no packet is in it".into())),
        Some(_) => Ok(CaptureRead { forgotten, ..seen }),
    }
}

fn of_capture(path: &Path, each: &mut Each<'_>) -> Result<CaptureRead, Failure> {
    let shown = path.display();
    let wrong = |why: &dyn std::fmt::Display| Failure::usage(format!("{shown}: {why}"));
    let file = source::opened("capture", path)?;
    let mut reader = Reader::new(BufReader::new(file)).map_err(|why| wrong(&why))?;
    let mut seen = CaptureRead::default();
    let (mut bytes, mut first, mut last) = (Vec::new(), None, 0);
    while let Some(record) = reader.next(&mut bytes).map_err(|why| wrong(&why))? {
        let PcapRecord { at, original, .. } = record;
        if original > LONGEST_FRAME {
            return Err(wrong(&format!(
                "a packet of {original} bytes is longer than a frame can be"
            )));
        }
        let begin = *first.get_or_insert(at);
        if at < begin {
            return Err(wrong(
                &"a packet is earlier than the first one; sort it: reordercap IN OUT",
            ));
        }
        last = last.max(at);
        seen.see(original, &bytes);
        let at = Instant::START + Duration::from_nanos(at - begin);
        bytes.truncate(netio::replay::event::KEPT);
        each(at, original.max(bytes.len() as u32), &bytes)?;
    }
    let Some(begin) = first else {
        return Err(wrong(&"no packet is in it"));
    };
    seen.span = Duration::from_nanos(last - begin);
    Ok(seen)
}

/// Whether a packet's ports may be beyond what was captured of it.
fn is_blind(bytes: &[u8], original: u32) -> bool {
    let parsed = engine::header::Headers::parse(bytes, 0);
    let has_ports = matches!(parsed.key.protocol, 6 | 17 | 132 | 33 | 136);
    (bytes.len() as u32) < original && has_ports && parsed.key.destination_port.is_none()
}

/// The interface of a policy's file whose packets a capture has: the one of this name, or the only
/// one.
pub(crate) fn interface(
    file: &str,
    name: Option<&str>,
    registry: &Registry,
) -> Result<InterfacePolicy, Failure> {
    let policy = source::policy(file, registry)?;
    let names = || policy.interfaces.iter().map(|interface| interface.name.as_str());
    let chosen = match (name, policy.interfaces.as_slice()) {
        (None, [only]) => only,
        (None, _) => {
            let names: Vec<&str> = names().collect();
            return Err(Failure::usage(format!(
                "{file} manages {}; say with --interface whose packets the capture has",
                names.join(", ")
            )));
        }
        (Some(name), _) => policy
            .interface(name)
            .ok_or_else(|| engine::settings::unknown("interface", name, Default::default(), names()))?,
    };
    if chosen.autorate.is_some() {
        return Err(Failure::usage(format!(
            "in {file} the rate of {name} follows its line (`autorate`), which no capture has: leave that out to try the rest",
            name = chosen.name
        )));
    }
    Ok(chosen.clone())
}

/// The headers of a frame of so many bytes of UDP to this port.
#[cfg(test)]
pub(crate) fn headers(port: u16, frame: u16) -> Vec<u8> {
    let mut headers = vec![0; 42];
    headers[12..14].copy_from_slice(&[8, 0]);
    headers[14] = 0x45;
    headers[16..18].copy_from_slice(&(frame - 14).to_be_bytes());
    (headers[22], headers[23]) = (64, 17);
    headers[26..30].copy_from_slice(&[10, 0, 0, 1]);
    headers[30..34].copy_from_slice(&[10, 0, 0, 2]);
    headers[34..36].copy_from_slice(&9_000u16.to_be_bytes());
    headers[36..38].copy_from_slice(&port.to_be_bytes());
    headers
}
