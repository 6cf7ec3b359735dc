//! What few links have: who watches or changes what passes them, and what their receiver or their
//! medium does. It is apart from what all links have, which every packet of every flow reads.

use super::transmission::Transmission;
use crate::capture::LinkCapture;
use crate::meter::LinkMeter;
use crate::promised::LinkPromises;
use crate::stage::Stage;
use engine::units::{Bytes, Duration, Instant};
use measure::waits::WaitRecorder;
use std::collections::VecDeque;

/// What a link has of that, if it has anything.
#[derive(Debug, Default)]
pub(crate) struct Extras(Option<Box<Parts>>);

#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub(crate) meter: Option<Box<LinkMeter>>,
    pub(crate) capture: Option<Box<LinkCapture>>,
    /// Who records why packets wait, if anybody does.
    pub(crate) waits: Option<Box<WaitRecorder>>,
    /// What is promised to classes of its policy, if anything is.
    pub(crate) promises: Option<Box<LinkPromises>>,
    pub(crate) stages: Vec<Box<dyn Stage>>,
    /// What waits to be sent, if its wire is a medium that others share.
    pub(super) device: Option<VecDeque<Transmission>>,
    /// Its receiver takes packets at multiples of this time only; zero: at once.
    interrupts: Duration,
    /// Packets that the wire has lost.
    lost: u64,
    /// Bytes of frames that were offered to its queue, since it has any of this.
    pub(crate) offered: Bytes,
}

impl Extras {
    pub(super) fn with_interrupts(interrupts: Duration) -> Self {
        let mut extras = Self::default();
        if interrupts > Duration::ZERO {
            extras.some().interrupts = interrupts;
        }
        extras
    }

    /// The same of a link that has something from now on.
    pub(crate) fn some(&mut self) -> &mut Parts {
        self.0.get_or_insert_default()
    }

    pub(crate) fn get(&self) -> Option<&Parts> {
        self.0.as_deref()
    }

    /// Counts a frame that is offered, before anything may lose it.
    #[inline]
    pub(super) fn is_offered(&mut self, frame: Bytes) {
        if let Some(parts) = self.0.as_mut() {
            parts.offered += frame;
        }
    }

    #[inline]
    pub(crate) fn meter(&mut self) -> Option<&mut LinkMeter> {
        self.0.as_mut()?.meter.as_deref_mut()
    }

    #[inline]
    pub(crate) fn capture(&mut self) -> Option<&mut LinkCapture> {
        self.0.as_mut()?.capture.as_deref_mut()
    }

    #[inline]
    pub(super) fn waits(&mut self) -> Option<&mut WaitRecorder> {
        self.0.as_mut()?.waits.as_deref_mut()
    }

    #[inline]
    pub(super) fn promises(&mut self) -> Option<&mut LinkPromises> {
        self.0.as_mut()?.promises.as_deref_mut()
    }

    #[inline]
    pub(super) fn stages(&mut self) -> &mut [Box<dyn Stage>] {
        self.0.as_mut().map_or(&mut [], |parts| &mut parts.stages)
    }

    #[inline]
    pub(super) fn device(&mut self) -> Option<&mut VecDeque<Transmission>> {
        self.0.as_mut()?.device.as_mut()
    }

    /// So many more are lost on the wire.
    pub(crate) fn lose(&mut self, packets: u64) {
        self.some().lost += packets;
    }

    /// How many the wire has lost.
    pub(crate) fn lost(&self) -> u64 {
        self.get().map_or(0, |parts| parts.lost)
    }

    /// When the receiver gets a packet that arrives at this time.
    #[inline]
    pub(super) fn handed_over(&self, arrival: Instant) -> Instant {
        match self.get().map_or(0, |parts| parts.interrupts.nanos()) {
            0 => arrival,
            every => Instant::from_nanos(arrival.nanos().next_multiple_of(every)),
        }
    }
}
