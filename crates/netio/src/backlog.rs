//! What a worker hands over when another program takes its place: the frames that wait, path by
//! path, as bytes that a program of another version reads.
//!
//! A frame is its time of arrival, of the clock that both programs have, what is left to be done
//! with it, and its bytes as they would have left. Numbers are in the machine's order.

use crate::pool::Offload;
use crate::vnet;
use engine::units::Instant;
use std::io::{self, Read, Write};

/// The longest name of a path, and frame: more than there is.
const NAME: usize = 4_096;
const FRAME: usize = 1 << 17;

/// A frame that waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HandedFrame {
    /// When it arrived, as its queue saw it.
    pub arrived: Instant,
    /// What is left to be done with it.
    pub offload: Offload,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// What waits in a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathBacklog {
    /// The path's name.
    pub name: String,
    /// Whether its discipline is on.
    pub enabled: bool,
    /// The frames; those of a flow in their order.
    pub frames: Vec<HandedFrame>,
}

/// What waits in all paths.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Backlog(pub Vec<PathBacklog>);

impl Backlog {
    /// How many frames there are.
    pub fn packets(&self) -> usize {
        self.0.iter().map(|path| path.frames.len()).sum()
    }

    /// As bytes.
    ///
    /// # Errors
    ///
    /// Returns what `out` says.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        put(out, self.0.len())?;
        for PathBacklog {
            name,
            enabled,
            frames,
        } in &self.0
        {
            put_bytes(out, name.as_bytes())?;
            out.write_all(&[u8::from(*enabled)])?;
            put(out, frames.len())?;
            for frame in frames {
                out.write_all(&frame.arrived.nanos().to_ne_bytes())?;
                out.write_all(&vnet::encode(&frame.offload))?;
                put_bytes(out, &frame.bytes)?;
            }
        }
        Ok(())
    }

    /// From bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if they end too early, or are none that a worker writes.
    pub fn read(input: &mut dyn Read) -> io::Result<Self> {
        let mut paths = Vec::new();
        for _ in 0..get(input)? {
            let name = String::from_utf8(get_bytes(input, NAME)?).map_err(|_| wrong("a path's name"))?;
            let [enabled] = get_array(input)?;
            let mut frames = Vec::new();
            for _ in 0..get(input)? {
                let arrived = Instant::from_nanos(u64::from_ne_bytes(get_array(input)?));
                let offload = vnet::decode(get_array(input)?).ok_or_else(|| wrong("a frame's offload"))?;
                let bytes = get_bytes(input, FRAME)?;
                frames.push(HandedFrame {
                    arrived,
                    offload,
                    bytes,
                });
            }
            paths.push(PathBacklog {
                name,
                enabled: enabled != 0,
                frames,
            });
        }
        Ok(Self(paths))
    }
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("{what} in a backlog is not understood"),
    )
}

fn put(out: &mut dyn Write, count: usize) -> io::Result<()> {
    out.write_all(&(count as u64).to_ne_bytes())
}

fn put_bytes(out: &mut dyn Write, bytes: &[u8]) -> io::Result<()> {
    put(out, bytes.len())?;
    out.write_all(bytes)
}

fn get_array<const N: usize>(input: &mut dyn Read) -> io::Result<[u8; N]> {
    let mut array = [0; N];
    input.read_exact(&mut array)?;
    Ok(array)
}

fn get(input: &mut dyn Read) -> io::Result<u64> {
    get_array(input).map(u64::from_ne_bytes)
}

fn get_bytes(input: &mut dyn Read, most: usize) -> io::Result<Vec<u8>> {
    let len = usize::try_from(get(input)?).ok().filter(|len| *len <= most);
    let mut bytes = vec![0; len.ok_or_else(|| wrong("a length"))?];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::Unfinished;
    use crate::pool::Gso;
    use proptest::prelude::*;

    fn frame() -> impl Strategy<Value = HandedFrame> {
        let offload = (any::<u16>(), any::<bool>()).prop_map(|(segment, tcp)| Offload {
            gso: tcp.then_some(Gso::Tcp6),
            ecn: tcp,
            segment,
            header: 54,
            checksum: tcp.then_some(Unfinished { start: 14, offset: 6 }),
        });
        let bytes = prop::collection::vec(any::<u8>(), 0..80);
        (any::<u64>(), offload, bytes).prop_map(|(at, offload, bytes)| HandedFrame {
            arrived: Instant::from_nanos(at),
            offload,
            bytes,
        })
    }

    fn backlog() -> impl Strategy<Value = Backlog> {
        let frames = prop::collection::vec(frame(), 0..5);
        let path =
            ("[a-z0-9:]{0,12}", any::<bool>(), frames).prop_map(|(name, enabled, frames)| PathBacklog {
                name,
                enabled,
                frames,
            });
        prop::collection::vec(path, 0..4).prop_map(Backlog)
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_what_is_cut_off_is_refused(backlog in backlog(), cut in 1_usize..64) {
            let mut bytes = Vec::new();
            backlog.write(&mut bytes).expect("memory");
            prop_assert_eq!(Backlog::read(&mut &bytes[..]).expect("a backlog"), backlog);
            let cut = bytes.len().saturating_sub(cut);
            prop_assert!(Backlog::read(&mut &bytes[..cut]).is_err());
        }

        #[test]
        fn whatever_is_read_ends_and_takes_no_more_memory_than_it_has_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Backlog::read(&mut &bytes[..]);
        }
    }
}
