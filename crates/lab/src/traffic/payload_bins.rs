//! Payload over time in bounded memory, however long it goes on. The meters' series
//! ([`measure::series`]) has bins of a set length instead, for a window that is known.

/// Bins at most; beyond that, neighbours are merged and the bin becomes twice as long.
pub(super) const MAX_BINS: usize = 1 << 15;

/// How many bytes came in each bin of time since a beginning.
#[derive(Clone, Debug)]
pub struct PayloadBins {
    bin: u64,
    bins: Vec<u64>,
}

impl PayloadBins {
    /// None yet; in bins of this many nanoseconds, as long as there are not too many.
    pub fn new(bin: u64) -> Self {
        Self {
            bin: bin.max(1),
            bins: Vec::new(),
        }
    }

    /// Adds bytes that came this many nanoseconds after the beginning.
    pub fn add(&mut self, since: u64, bytes: u64) {
        while since / self.bin >= MAX_BINS as u64 {
            self.bins = self.bins.chunks(2).map(|pair| pair.iter().sum()).collect();
            self.bin *= 2;
        }
        let at = (since / self.bin) as usize;
        if self.bins.len() <= at {
            self.bins.resize(at + 1, 0);
        }
        self.bins[at] += bytes;
    }

    /// The length of a bin in nanoseconds, and the bytes of each since the beginning.
    pub fn bins(&self) -> (u64, &[u64]) {
        (self.bin, &self.bins)
    }
}
