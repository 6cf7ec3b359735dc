//! A path and its tape: what is written down, and how what was written is done again.

use super::Path;
use super::whole::{Awaits, Succession};
use crate::handle::{ClassAdopted, ClassRetune, Retired, TapeWish};
use crate::pool::Pool;
use crate::replay::event::{KEPT, TapeEvent, TapedArrival, TapedHeld, TapedMove, To};
use crate::replay::tape::{BeginsAnew, Rebase, Tape, Taped};
use engine::discipline::{Next, Reason};
use engine::header::Headers;
use engine::link_clock::BusyLink;
use engine::packet::Packet;
use engine::units::Instant;

/// Bytes of a frame with these headers that a tape keeps: the transport header without its options,
/// whichever it is, and what is before.
#[inline]
pub(super) fn kept(headers: &Headers) -> usize {
    headers.l4.map_or(KEPT, |l4| usize::from(l4) + 20)
}

/// Gets each packet that leaves, with its time.
pub(crate) type Leaving<'a> = &'a mut dyn FnMut(Instant, &Packet, &[u8]);

impl Path {
    /// Does what is wanted of the tape.
    pub(crate) fn wish(&mut self, now: Instant, wish: TapeWish) -> Taped {
        match wish {
            TapeWish::Start(tape) => return self.start_tape(now, tape),
            TapeWish::Rebase(rebase) => return self.rebase(rebase),
            TapeWish::Flush => self.tape.iter_mut().for_each(|tape| tape.flush()),
            TapeWish::Stop => {
                self.tape.iter_mut().for_each(|tape| tape.flush());
                (self.tape, self.rebase) = (None, None);
                self.note_plain();
            }
        }
        self.taped(false)
    }

    /// Writes what happens to the queue on this tape from now on.
    fn start_tape(&mut self, now: Instant, tape: Tape) -> Taped {
        let by_the_wire = self
            .realiser
            .as_ref()
            .is_some_and(|realiser| realiser.keeps_wire());
        if by_the_wire || self.wire.is_some() {
            return Taped::NotOfThisPath;
        }
        if self.tape.as_ref().is_some_and(|tape| !tape.is_torn()) {
            return Taped::Taken;
        }
        let fresh = self.totals.offered.packets == 0 && self.changes == 0;
        let mut tape = Box::new(tape);
        tape.begin(now, fresh);
        (self.tape, self.rebase) = (Some(tape), None);
        self.note_plain();
        self.taped(fresh)
    }

    /// Lets the tape begin anew with this tree.
    fn rebase(&mut self, rebase: Rebase) -> Taped {
        if rebase.changes != self.changes || self.tape.is_none() {
            return Taped::Stale;
        }
        self.rebase = Some(rebase);
        self.taped(false)
    }

    fn taped(&self, fresh: bool) -> Taped {
        Taped::Done {
            fresh,
            changes: self.changes,
        }
    }

    /// Takes the tree with which the tape begins anew, when it is time. What is queued moves into
    /// it, as in a [change of the whole tree](super::whole). Whether it took the tree.
    #[inline(never)]
    pub(super) fn begin_anew(&mut self, now: Instant) -> bool {
        let empty = self.queue.is_empty();
        let ripe = |rebase: &mut Rebase| empty || rebase.when == BeginsAnew::AtOnce;
        let on = self.enabled && self.bypass.is_empty() && !self.is_changing();
        if !on || self.tape.is_none() {
            return false;
        }
        let current = |rebase: &Rebase| rebase.changes == self.changes;
        let Some(rebase) = self.rebase.take_if(ripe).filter(current) else {
            return false;
        };
        let former = self.queue.renew(rebase.queue);
        self.moving.formers.push_back(Box::new(former));
        let awaits = Awaits::Tape(rebase.former);
        self.moving.succession = Some(Succession::of(Retired::default(), awaits));
        self.note_plain();
        self.due = None;
        let link = self.queue.busy_link();
        if let Some(tape) = &mut self.tape {
            tape.begin(now, true);
            link.iter().for_each(|link| tape.write(&TapeEvent::Link(*link)));
        }
        true
    }

    /// Writes an event down.
    pub(super) fn write(&mut self, event: &TapeEvent<'_>) {
        self.tape.iter_mut().for_each(|tape| tape.write(event));
    }

    /// Writes down that a packet arrived.
    pub(super) fn tape_arrival(&mut self, pool: &Pool, packet: &Packet, to: To) {
        if let Some(tape) = &mut self.tape {
            let frame = pool.bytes(packet.buffer);
            tape.write(&TapeEvent::Arrival(TapedArrival::of(
                packet, to, frame, self.kept,
            )));
        }
    }

    /// Writes down that a packet that waited for its place has one in the tree now, or none.
    pub(super) fn tape_held(&mut self, now: Instant, pool: &Pool, packet: &Packet, to: To) {
        if let Some(tape) = &mut self.tape {
            let frame = pool.bytes(packet.buffer);
            let keep = kept(&Headers::parse(frame, self.mark));
            tape.write(&TapeEvent::Held(TapedHeld::of(now, packet, to, frame, keep)));
        }
    }

    /// Writes down that a packet of the former tree has its place in this one now, or none.
    pub(super) fn tape_moved(&mut self, now: Instant, packet: &Packet, to: To) {
        if let Some(tape) = &mut self.tape {
            tape.write(&TapeEvent::Moved(TapedMove {
                at: now,
                class: packet.class,
                flow: packet.flow,
                to,
            }));
        }
    }

    /// Writes down that the queue is asked. Not while its link is busy and has said until when:
    /// that changes nothing, and a loop that spins for a due time hears it a hundred times.
    pub(super) fn tape_ask(&mut self, clock: Instant, now: Instant) {
        let waits = self.bypass.is_empty() && !self.queue.is_empty() && self.due.is_some();
        if self.is_empty() || waits && self.queue.busy_until(now) == self.due {
            return;
        }
        self.tape.iter_mut().for_each(|tape| tape.ask(clock, now));
    }

    /// Counts a change.
    pub(super) fn changed(&mut self) {
        self.changes += 1;
        self.waits.iter_mut().for_each(|waits| waits.changed());
    }

    /// A path in which traffic is done again: its packets occupy parts of no port's memory, and are
    /// queued one by one, since no batch ends.
    pub(crate) fn of_traffic_again(mut self) -> Self {
        self.again = true;
        self.note_plain();
        self
    }

    /// The link is as busy as that of the tape; `false` if it cannot be.
    pub(crate) fn resume_link(&mut self, state: BusyLink) -> bool {
        self.queue.resume_link(state)
    }

    /// Offers a packet again; `now` is later than its arrival where it had to wait for its place.
    pub(crate) fn offer_again(&mut self, now: Instant, pool: &mut Pool, packet: Packet, to: To) {
        match to {
            To::Queue if self.enabled => {
                self.totals.offered += packet.len;
                self.enqueue(now, pool, packet);
            }
            To::Queue => self.offer(pool, packet),
            To::First => self.offer_first(pool, packet),
            To::Nowhere => {
                self.totals.offered += packet.len;
                self.drop_short(pool, packet);
            }
        }
    }

    /// Chooses class and flow of a packet with these bytes, and offers it.
    pub(crate) fn offer_classified(&mut self, pool: &mut Pool, mut packet: Packet) {
        self.classify_again(pool, &mut packet);
        self.offer(pool, packet);
    }

    /// Asks the queue so often, or until it has nothing for now. What its last answer was.
    pub(crate) fn ask_again(
        &mut self,
        now: Instant,
        asks: u32,
        pool: &mut Pool,
        leaving: Leaving<'_>,
    ) -> Next<()> {
        let mut last = Next::Empty;
        for _ in 0..asks {
            let next = match self.bypass.pop_front() {
                Some(packet) => Next::Ready(packet),
                None => self.next(now, pool, None),
            };
            last = match next {
                Next::Ready(packet) => {
                    self.depart(now, pool, &packet);
                    leaving(now, &packet, pool.bytes(packet.buffer));
                    pool.free(packet.buffer);
                    Next::Ready(())
                }
                Next::Wait(until) => Next::Wait(until),
                Next::Empty => Next::Empty,
            };
            if asks == u32::MAX && last != Next::Ready(()) {
                break;
            }
        }
        last
    }

    /// Drops the whole backlog again, at this time.
    pub(crate) fn abandon_again(&mut self, now: Instant, pool: &mut Pool, why: Reason) {
        self.shown = self.shown.max(now);
        self.abandon(pool, why);
    }

    /// Packets that have not left.
    pub(crate) fn backlog(&self) -> u64 {
        self.queue.queue().backlog().packets + self.bypass.len() as u64
    }

    /// The next packet of the former tree gets its place again; `false` if there is none.
    pub(crate) fn move_again(&mut self, now: Instant, pool: &mut Pool, to: To) -> bool {
        while self.moving.out.is_empty() && !self.moving.has_moved() {
            self.moving.take_out(pool);
        }
        let Some(mut packet) = self.moving.out.pop_front() else {
            return false;
        };
        self.classify_again(pool, &mut packet);
        match to {
            To::Nowhere => self.drop_short(pool, packet),
            To::Queue | To::First => self.enqueue(now, pool, packet),
        }
        self.end_succession();
        self.note_plain();
        true
    }

    /// Adopts the settings of one class again; `false` if that is not possible.
    pub(crate) fn retune_class_again(&mut self, at: Instant, pool: &mut Pool, retune: ClassRetune) -> bool {
        self.retune_class(at, pool, retune) == ClassAdopted::InPlace
    }
}
