//! The ledger of modified sockets, in a memory file that outlives the process that modified them.
//!
//! The supervisor writes an entry before it modifies a socket. If the supervisor dies, its guard
//! reads the ledger and restores the sockets.

use crate::sys::{process, socket};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// Bytes of an entry: process, descriptor, cookie, lock, buffer, pacing.
const ENTRY: usize = 32;
/// Stand for "not modified".
const NO_LOCK: u32 = u32::MAX;
const NO_PACING: u64 = 0;
const NO_BUFFER: u32 = 0;

/// A socket's options before they were modified. None: not modified.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SavedOptions {
    /// Which buffers were locked.
    pub(crate) lock: Option<u32>,
    /// The receive buffer, as the kernel reports it. Only with `lock`.
    pub(crate) buffer: Option<u32>,
    /// The pacing rate, in bytes a second.
    pub(crate) pacing: Option<u64>,
}

/// A modified socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LedgerEntry {
    pub(crate) pid: i32,
    pub(crate) fd: i32,
    pub(crate) cookie: u64,
    pub(crate) saved: SavedOptions,
}

impl SavedOptions {
    /// Restores the options: first the window may grow again, then the kernel may tune the buffer.
    pub(crate) fn restore(self, of: &OwnedFd) -> io::Result<()> {
        if let Some(buffer) = self.buffer {
            socket::set_receive_buffer(of, buffer / 2)?;
        }
        if let Some(lock) = self.lock {
            socket::set_clamp(of, 1 << 30)?;
            socket::set_lock(of, lock)?;
        }
        self.pacing
            .map_or(Ok(()), |pacing| socket::set_pacing(of, pacing))
    }
}

/// The file. A forked process shares it.
#[derive(Debug)]
pub(crate) struct Ledger {
    file: File,
    free: Vec<u64>,
    len: u64,
}

impl Ledger {
    /// An empty ledger.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            file: process::memory_file()?,
            free: Vec::new(),
            len: 0,
        })
    }

    #[cfg(test)]
    fn share(&self) -> io::Result<Self> {
        Ok(Self {
            file: self.file.try_clone()?,
            free: Vec::new(),
            len: 0,
        })
    }

    /// Writes an entry into its slot, or into a free one. Returns the slot.
    pub(crate) fn write(&mut self, slot: Option<u64>, entry: &LedgerEntry) -> io::Result<u64> {
        let slot = slot.or_else(|| self.free.pop()).unwrap_or(self.len);
        self.len = self.len.max(slot + 1);
        let mut raw = [0; ENTRY];
        raw[..4].copy_from_slice(&entry.pid.to_ne_bytes());
        raw[4..8].copy_from_slice(&entry.fd.to_ne_bytes());
        raw[8..16].copy_from_slice(&entry.cookie.to_ne_bytes());
        raw[16..20].copy_from_slice(&entry.saved.lock.unwrap_or(NO_LOCK).to_ne_bytes());
        raw[20..24].copy_from_slice(&entry.saved.buffer.unwrap_or(NO_BUFFER).to_ne_bytes());
        raw[24..].copy_from_slice(&entry.saved.pacing.unwrap_or(NO_PACING).to_ne_bytes());
        self.file.write_all_at(&raw, slot * ENTRY as u64)?;
        Ok(slot)
    }

    /// Strikes an entry off.
    pub(crate) fn strike(&mut self, slot: u64) {
        // Overwriting a memory file does not fail. If it did, the guard would restore once more,
        // which does no harm.
        let _ = self.file.write_all_at(&[0; ENTRY], slot * ENTRY as u64);
        self.free.push(slot);
    }

    /// All entries.
    pub(crate) fn entries(&self) -> Vec<LedgerEntry> {
        let len = self.file.metadata().map_or(0, |metadata| metadata.len());
        let mut raw = vec![0; usize::try_from(len).unwrap_or(0)];
        if self.file.read_exact_at(&mut raw, 0).is_err() {
            return Vec::new();
        }
        let (entries, _) = raw.as_chunks::<ENTRY>();
        entries.iter().filter_map(read).collect()
    }
}

impl AsFd for Ledger {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn read(raw: &[u8; ENTRY]) -> Option<LedgerEntry> {
    let word = |at: usize| u32::from_ne_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
    let long = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&raw[at..at + 8]);
        u64::from_ne_bytes(bytes)
    };
    let entry = LedgerEntry {
        pid: word(0).cast_signed(),
        fd: word(4).cast_signed(),
        cookie: long(8),
        saved: SavedOptions {
            lock: Some(word(16)).filter(|lock| *lock != NO_LOCK),
            buffer: Some(word(20)).filter(|buffer| *buffer != NO_BUFFER),
            pacing: Some(long(24)).filter(|pacing| *pacing != NO_PACING),
        },
    };
    (entry.pid > 0).then_some(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guard_reads_what_the_supervisor_wrote_and_did_not_strike_off() {
        let mut ledger = Ledger::new().expect("a file in memory");
        let guard = ledger.share().expect("the same");
        let entry = |pid, lock: Option<u32>, pacing| LedgerEntry {
            pid,
            fd: 4,
            cookie: 77,
            saved: SavedOptions {
                lock,
                buffer: lock.map(|lock| lock + 131_072),
                pacing,
            },
        };
        let [one, two] = [entry(1, Some(0), None), entry(2, Some(2), Some(u64::MAX))];
        let slot = ledger.write(None, &one).expect("written");
        ledger.write(None, &two).expect("written");
        assert_eq!(guard.entries(), [one, two]);
        ledger.strike(slot);
        assert_eq!(guard.entries(), [two]);
        let three = entry(3, None, Some(5));
        assert_eq!(ledger.write(None, &three).expect("written"), slot, "used again");
        assert_eq!(guard.entries(), [three, two]);
    }
}
