//! Capture files, read and written.
//!
//! Reads pcapng (draft-ietf-opsawg-pcapng: section, interface, enhanced and simple packet blocks;
//! others are skipped) and the classic format (draft-ietf-opsawg-pcap, in micro- and nanoseconds),
//! in either byte order. Writes pcapng in nanoseconds. Only Ethernet. Files are untrusted: an
//! inconsistent block ends reading with an error that names its offset, and no length above
//! [`LONGEST_BLOCK`] is accepted.

use std::fmt;
use std::io::{self, Read, Write};

/// The longest block that is accepted.
pub const LONGEST_BLOCK: usize = 1 << 20;

const ETHERNET_LINK: u32 = 1;
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const SIMPLE: u32 = 3;
const ENHANCED: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const OPTION_COMMENT: u16 = 1;
const OPTION_NAME: u16 = 2;
const OPTION_RESOLUTION: u16 = 9;
const OPTION_OFFSET: u16 = 14;
const NANOS: u64 = 1_000_000_000;

/// Why a capture file cannot be read further.
#[derive(Debug)]
pub enum Broken {
    /// The file is malformed at this offset.
    Format(u64, &'static str),
    /// Reading failed.
    Io(io::Error),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Format(at, what) => write!(f, "byte {at} of the capture: {what}"),
            Self::Io(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for Broken {}

/// A frame of a capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PcapRecord {
    /// When, in nanoseconds since 1970; zero if the file does not record it.
    pub at: u64,
    /// The interface, by its index in its section.
    pub interface: u32,
    /// Its original length; the capture may contain only the first part.
    pub original: u32,
}

/// An interface of a section.
#[derive(Clone, Copy, Debug)]
struct Source {
    ethernet: bool,
    /// Ticks per second.
    resolution: u64,
    /// Seconds to add to timestamps.
    offset: u64,
    /// Bytes captured of each frame (snaplen); zero for all.
    kept: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    Classic { resolution: u64 },
    Ng,
}

/// Reads a capture.
#[derive(Debug)]
pub struct Reader<R> {
    source: R,
    format: Format,
    big_endian: bool,
    sources: Vec<Source>,
    block: Vec<u8>,
    at: u64,
}

fn number(bytes: &[u8], at: usize, big_endian: bool) -> Option<u32> {
    let bytes = *bytes.get(at..)?.first_chunk()?;
    Some(if big_endian {
        u32::from_be_bytes(bytes)
    } else {
        u32::from_le_bytes(bytes)
    })
}

fn short(bytes: &[u8], at: usize, big_endian: bool) -> Option<u16> {
    let bytes = *bytes.get(at..)?.first_chunk()?;
    Some(if big_endian {
        u16::from_be_bytes(bytes)
    } else {
        u16::from_le_bytes(bytes)
    })
}

impl<R: Read> Reader<R> {
    /// Reads the header of a capture.
    ///
    /// # Errors
    ///
    /// Returns an error if the source cannot be read, is empty, or is not a capture of Ethernet.
    pub fn new(source: R) -> Result<Self, Broken> {
        let mut reader = Self {
            source,
            format: Format::Ng,
            big_endian: false,
            sources: Vec::new(),
            block: Vec::new(),
            at: 0,
        };
        let mut magic = [0; 4];
        if !reader.fill(&mut magic)? {
            return Err(Broken::Format(0, "the file is empty"));
        }
        match u32::from_le_bytes(magic) {
            SECTION => reader.section()?,
            0xa1b2_c3d4 => reader.classic(false, 1_000_000)?,
            0xa1b2_3c4d => reader.classic(false, NANOS)?,
            0xd4c3_b2a1 => reader.classic(true, 1_000_000)?,
            0x4d3c_b2a1 => reader.classic(true, NANOS)?,
            _ => return Err(Broken::Format(0, "neither a pcapng nor a pcap file")),
        }
        Ok(reader)
    }

    fn wrong<T>(&self, what: &'static str) -> Result<T, Broken> {
        Err(Broken::Format(self.at, what))
    }

    /// Fills `into`; `false` if the file ends before its first byte.
    fn fill(&mut self, into: &mut [u8]) -> Result<bool, Broken> {
        let mut filled = 0;
        while filled < into.len() {
            match self.source.read(&mut into[filled..]) {
                Ok(0) if filled == 0 => return Ok(false),
                Ok(0) => return self.wrong("the file ends in the middle of a block"),
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Broken::Io(e)),
            }
        }
        self.at += into.len() as u64;
        Ok(true)
    }

    /// Reads this many bytes into the block buffer.
    fn fill_block(&mut self, len: usize) -> Result<bool, Broken> {
        let mut block = std::mem::take(&mut self.block);
        block.resize(len, 0);
        let filled = self.fill(&mut block);
        self.block = block;
        filled
    }

    fn classic(&mut self, big_endian: bool, resolution: u64) -> Result<(), Broken> {
        self.big_endian = big_endian;
        self.format = Format::Classic { resolution };
        let head = self.fill_block(20)?;
        match number(&self.block, 16, big_endian).filter(|_| head) {
            // The upper bits report the length of the FCS after each frame.
            Some(link) if link & 0xffff == ETHERNET_LINK => Ok(()),
            Some(_) => self.wrong("not a capture of Ethernet"),
            None => self.wrong("the file ends within its header"),
        }
    }

    /// Reads the rest of a section header; its type has been read.
    fn section(&mut self) -> Result<(), Broken> {
        let mut head = [0; 8];
        if !self.fill(&mut head)? {
            return self.wrong("the file ends within a section header");
        }
        self.big_endian = match number(&head, 4, true) {
            Some(BYTE_ORDER) => true,
            Some(order) if order.swap_bytes() == BYTE_ORDER => false,
            _ => return self.wrong("an invalid byte-order magic"),
        };
        let length = number(&head, 0, self.big_endian).unwrap_or(0) as usize;
        if !(28..=LONGEST_BLOCK).contains(&length) || !length.is_multiple_of(4) {
            return self.wrong("a section header of invalid length");
        }
        self.sources.clear();
        if self.fill_block(length - 12)? {
            Ok(())
        } else {
            self.wrong("the file ends within a section header")
        }
    }

    /// The next frame, whose bytes replace those of `into`; `None` at the end of the file.
    ///
    /// # Errors
    ///
    /// Returns an error if the source cannot be read, ends in the middle of a frame, or is
    /// malformed.
    pub fn next(&mut self, into: &mut Vec<u8>) -> Result<Option<PcapRecord>, Broken> {
        match self.format {
            Format::Classic { resolution } => self.next_classic(resolution, into),
            Format::Ng => self.next_ng(into),
        }
    }

    fn next_classic(&mut self, resolution: u64, into: &mut Vec<u8>) -> Result<Option<PcapRecord>, Broken> {
        let mut head = [0; 16];
        if !self.fill(&mut head)? {
            return Ok(None);
        }
        let field = |at| number(&head, at, self.big_endian).unwrap_or(0);
        let (seconds, part, kept, original) = (field(0), field(4), field(8), field(12));
        if kept as usize > LONGEST_BLOCK {
            return self.wrong("a frame of invalid length");
        }
        if !self.fill_block(kept as usize)? && kept > 0 {
            return self.wrong("the file ends in the middle of a frame");
        }
        into.clone_from(&self.block);
        let at = u64::from(seconds) * NANOS + u64::from(part) * (NANOS / resolution);
        Ok(Some(PcapRecord {
            at,
            interface: 0,
            original,
        }))
    }

    fn next_ng(&mut self, into: &mut Vec<u8>) -> Result<Option<PcapRecord>, Broken> {
        loop {
            let mut kind = [0; 4];
            if !self.fill(&mut kind)? {
                return Ok(None);
            }
            let kind = number(&kind, 0, self.big_endian).unwrap_or(0);
            if kind == SECTION {
                self.section()?;
                continue;
            }
            self.read_block()?;
            let record = match kind {
                INTERFACE => {
                    self.interface()?;
                    None
                }
                ENHANCED => self.enhanced(into)?,
                SIMPLE => self.simple(into)?,
                _ => None,
            };
            if record.is_some() {
                return Ok(record);
            }
        }
    }

    /// Reads a block's body and the lengths around it; its type has been read.
    fn read_block(&mut self) -> Result<(), Broken> {
        let mut head = [0; 4];
        let there = self.fill(&mut head)?;
        let length = number(&head, 0, self.big_endian).unwrap_or(0) as usize;
        if !there || !(12..=LONGEST_BLOCK).contains(&length) || !length.is_multiple_of(4) {
            return self.wrong("a block of invalid length");
        }
        if !self.fill_block(length - 8)? {
            return self.wrong("the file ends in the middle of a block");
        }
        let body = length - 12;
        if number(&self.block, body, self.big_endian) != Some(length as u32) {
            return self.wrong("a block's two lengths differ");
        }
        self.block.truncate(body);
        Ok(())
    }

    fn interface(&mut self) -> Result<(), Broken> {
        let Some(kept) = number(&self.block, 4, self.big_endian) else {
            return self.wrong("an interface description block is too short");
        };
        let link = short(&self.block, 0, self.big_endian).unwrap_or(0);
        let mut source = Source {
            ethernet: u32::from(link) == ETHERNET_LINK,
            resolution: 1_000_000,
            offset: 0,
            kept,
        };
        let mut at = 8;
        while let (Some(code), Some(length)) = (
            short(&self.block, at, self.big_endian),
            short(&self.block, at + 2, self.big_endian),
        ) {
            let value = self
                .block
                .get(at + 4..at + 4 + usize::from(length))
                .unwrap_or(&[]);
            match (code, value) {
                (0, _) => break,
                (OPTION_RESOLUTION, [code, ..]) => {
                    let base: u64 = if code & 0x80 == 0 { 10 } else { 2 };
                    match base.checked_pow(u32::from(code & 0x7f)) {
                        Some(resolution) => source.resolution = resolution,
                        None => return self.wrong("a timestamp resolution that is too fine"),
                    }
                }
                (OPTION_OFFSET, value) if value.len() == 8 => {
                    let halves = [0, 4].map(|i| u64::from(number(value, i, self.big_endian).unwrap_or(0)));
                    let [high, low] = if self.big_endian {
                        halves
                    } else {
                        [halves[1], halves[0]]
                    };
                    source.offset = high << 32 | low;
                }
                _ => {}
            }
            at += 4 + usize::from(length).next_multiple_of(4);
        }
        self.sources.push(source);
        Ok(())
    }

    fn enhanced(&self, into: &mut Vec<u8>) -> Result<Option<PcapRecord>, Broken> {
        let field = |at| number(&self.block, at, self.big_endian);
        let fields = [0, 4, 8, 12, 16].map(field);
        let [Some(interface), Some(high), Some(low), Some(kept), Some(original)] = fields else {
            return self.wrong("a packet block is too short");
        };
        let Some(source) = self.sources.get(interface as usize) else {
            return self.wrong("a packet of an interface without a description block");
        };
        let Some(bytes) = self.block.get(20..20 + kept as usize) else {
            return self.wrong("a packet is longer than its block");
        };
        if !source.ethernet {
            return Ok(None);
        }
        into.clear();
        into.extend_from_slice(bytes);
        let ticks = u64::from(high) << 32 | u64::from(low);
        let nanos = u128::from(ticks) * u128::from(NANOS) / u128::from(source.resolution);
        let nanos = nanos + u128::from(source.offset) * u128::from(NANOS);
        let at = u64::try_from(nanos).unwrap_or(u64::MAX);
        Ok(Some(PcapRecord {
            at,
            interface,
            original,
        }))
    }

    fn simple(&self, into: &mut Vec<u8>) -> Result<Option<PcapRecord>, Broken> {
        let (Some(original), Some(source)) = (number(&self.block, 0, self.big_endian), self.sources.first())
        else {
            return self.wrong("a packet of an interface without a description block");
        };
        let kept = if source.kept == 0 {
            original
        } else {
            original.min(source.kept)
        };
        let Some(bytes) = self.block.get(4..4 + kept as usize) else {
            return self.wrong("a packet is longer than its block");
        };
        if !source.ethernet {
            return Ok(None);
        }
        into.clear();
        into.extend_from_slice(bytes);
        Ok(Some(PcapRecord {
            at: 0,
            interface: 0,
            original,
        }))
    }
}

/// Writes a pcapng capture.
#[derive(Debug)]
pub struct Writer<W> {
    sink: W,
    block: Vec<u8>,
}

fn push_option(block: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    block.extend(code.to_le_bytes());
    block.extend((value.len() as u16).to_le_bytes());
    block.extend(value);
    block.resize(block.len().next_multiple_of(4), 0);
}

impl<W: Write> Writer<W> {
    /// Writes the header of a capture of these interfaces.
    ///
    /// # Errors
    ///
    /// Returns an error if the sink cannot be written.
    pub fn new(sink: W, interfaces: &[&str]) -> io::Result<Self> {
        let mut writer = Self {
            sink,
            block: Vec::new(),
        };
        writer.block.extend(BYTE_ORDER.to_le_bytes());
        writer.block.extend([1, 0, 0, 0]);
        writer.block.extend([0xff; 8]);
        writer.end(SECTION)?;
        for name in interfaces {
            writer.block.extend([ETHERNET_LINK as u8, 0, 0, 0, 0, 0, 0, 0]);
            push_option(&mut writer.block, OPTION_NAME, name.as_bytes());
            push_option(&mut writer.block, OPTION_RESOLUTION, &[9]);
            push_option(&mut writer.block, 0, &[]);
            writer.end(INTERFACE)?;
        }
        Ok(writer)
    }

    /// Writes the collected body as a block.
    fn end(&mut self, kind: u32) -> io::Result<()> {
        let length = (self.block.len() as u32 + 12).to_le_bytes();
        self.sink.write_all(&kind.to_le_bytes())?;
        self.sink.write_all(&length)?;
        self.sink.write_all(&self.block)?;
        self.sink.write_all(&length)?;
        self.block.clear();
        Ok(())
    }

    /// Writes a frame, with a comment if there is one. `at` is in nanoseconds since 1970.
    ///
    /// # Errors
    ///
    /// Returns an error if the sink cannot be written.
    pub fn frame(&mut self, at: u64, interface: u32, bytes: &[u8], comment: Option<&str>) -> io::Result<()> {
        self.packet(at, interface, bytes, bytes.len() as u32);
        if let Some(comment) = comment {
            push_option(&mut self.block, OPTION_COMMENT, comment.as_bytes());
            push_option(&mut self.block, 0, &[]);
        }
        self.end(ENHANCED)
    }

    /// Writes the first bytes of a frame that is `original` bytes long: a simulated frame has only
    /// headers.
    ///
    /// # Errors
    ///
    /// Returns an error if the sink cannot be written.
    pub fn beginning(&mut self, at: u64, interface: u32, bytes: &[u8], original: u32) -> io::Result<()> {
        self.packet(at, interface, bytes, original.max(bytes.len() as u32));
        self.end(ENHANCED)
    }

    fn packet(&mut self, at: u64, interface: u32, bytes: &[u8], original: u32) {
        for field in [
            interface,
            (at >> 32) as u32,
            at as u32,
            bytes.len() as u32,
            original,
        ] {
            self.block.extend(field.to_le_bytes());
        }
        self.block.extend(bytes);
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    /// Flushes everything to the sink.
    ///
    /// # Errors
    ///
    /// Returns an error if the sink cannot be flushed.
    pub fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every frame up to the end, or up to the first error.
    pub(crate) fn read(file: &[u8]) -> (Vec<(PcapRecord, Vec<u8>)>, Option<Broken>) {
        let mut frames = Vec::new();
        let mut reader = match Reader::new(file) {
            Ok(reader) => reader,
            Err(e) => return (frames, Some(e)),
        };
        let mut bytes = Vec::new();
        loop {
            match reader.next(&mut bytes) {
                Ok(Some(captured)) => frames.push((captured, bytes.clone())),
                Ok(None) => return (frames, None),
                Err(e) => return (frames, Some(e)),
            }
        }
    }

    pub(crate) fn written(frames: &[(u64, Vec<u8>)]) -> Vec<u8> {
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file, &["lan0", "wan0"]).expect("memory");
        for (at, bytes) in frames {
            writer.frame(*at, 1, bytes, Some("a remark")).expect("memory");
        }
        file
    }

    fn classic(big_endian: bool, magic: u32, record: [u32; 4], frame: &[u8]) -> Vec<u8> {
        let head = [magic, 0x0002_0004, 0, 0, 65_535, 1];
        let word = |n: &u32| {
            if big_endian {
                n.to_be_bytes()
            } else {
                n.to_le_bytes()
            }
        };
        let mut file: Vec<u8> = head.iter().chain(&record).flat_map(word).collect();
        file.extend(frame);
        file
    }

    #[test]
    fn the_beginning_of_a_frame_reads_back_with_the_frames_length() {
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file, &["a-b"]).expect("memory");
        writer.beginning(5, 0, &[1, 2, 3, 4, 5], 1_514).expect("memory");
        let (frames, broken) = read(&file);
        let captured = PcapRecord {
            at: 5,
            interface: 0,
            original: 1_514,
        };
        assert!(broken.is_none());
        assert_eq!(frames, [(captured, vec![1, 2, 3, 4, 5])]);
    }

    #[test]
    fn the_classic_format_is_read_in_both_orders_and_resolutions() {
        for big_endian in [false, true] {
            for (magic, part) in [(0xa1b2_c3d4, 1_000), (0xa1b2_3c4d, 1)] {
                let file = classic(big_endian, magic, [7, 5, 3, 60], &[1, 2, 3]);
                let (frames, broken) = read(&file);
                let captured = PcapRecord {
                    at: 7 * NANOS + 5 * part,
                    interface: 0,
                    original: 60,
                };
                assert!(broken.is_none());
                assert_eq!(frames, [(captured, vec![1, 2, 3])]);
            }
        }
    }

    #[test]
    fn a_truncated_file_yields_its_complete_frames_and_an_error_with_the_offset() {
        let file = written(&[(1, vec![1; 60]), (2, vec![2; 60])]);
        let (frames, broken) = read(&file[..file.len() - 10]);
        assert_eq!(frames.len(), 1);
        let text = broken.expect("it is truncated").to_string();
        assert!(text.contains("the file ends in the middle of a block"), "{text}");
    }

    #[test]
    fn what_is_no_capture_is_refused() {
        assert!(read(b"").1.is_some() && read(b"#!/bin/sh\nexit 0\n").1.is_some());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(frames in prop::collection::vec((any::<u64>(), prop::collection::vec(any::<u8>(), 0..200)), 0..20)) {
            let (got, broken) = read(&written(&frames));
            prop_assert!(broken.is_none());
            let got: Vec<(u64, Vec<u8>)> = got.into_iter().map(|(c, bytes)| (c.at, bytes)).collect();
            prop_assert!(got == frames);
        }

        #[test]
        fn a_damaged_file_never_panics(
            mut damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut file = written(&[(1, vec![1; 60]), (u64::MAX, vec![2; 1500]), (3, vec![])]);
            for (place, byte) in damage.drain(..) {
                let place = place.index(file.len());
                file[place] = byte;
            }
            let end = cut.index(file.len());
            read(&file[..end]);
            read(&file);
        }

        #[test]
        fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300), magic in prop::sample::select(vec![SECTION, 0xa1b2_c3d4, 0x4d3c_b2a1])) {
            let file: Vec<u8> = magic.to_le_bytes().into_iter().chain(bytes).collect();
            read(&file);
        }
    }
}
