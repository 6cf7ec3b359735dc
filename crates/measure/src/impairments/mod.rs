//! A wire's own impairments: loss, corruption, duplication, reordering, jitter, and what a script
//! says of single packets. The simulator's links and the lab's emulated links share these models.
//!
//! Packets are numbered as they leave, and each impairment has random numbers of its own, drawn by
//! the packet: the same seed befalls the same packets in both places, whatever the times, and one
//! impairment does not change which packets another befalls.
//!
//! What befalls a packet is decided in this order: it is lost or not; a bit of it is flipped; it
//! arrives twice, with the same flipped bit if there is one; it is later than its delay. A copy
//! arrives right behind its original and takes none of the wire's capacity, as one that a link
//! layer has sent again. Who receives a flipped bit finds it by its checksum.

mod jitter;
mod loss;
mod reordering;
mod script;

pub use jitter::{Jitter, PacketOrder, Spread};
pub use loss::{ChosenPackets, Loss, LossModel, PacketList, TwoStates};
pub use reordering::Reordering;
pub use script::ImpairmentScript;

use engine::random::{Rng, Seed};
use engine::units::{Duration, Instant};
use jitter::JitterModel;
use reordering::ReorderModel;
use script::{ScriptReader, ScriptedFate};
use std::sync::Arc;

/// All impairments of a wire.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Impairments {
    /// The packets that are lost.
    pub loss: Loss,
    /// The packets of which a bit is flipped.
    pub corruption: ChosenPackets,
    /// The packets that arrive twice.
    pub duplication: ChosenPackets,
    /// The packets that others overtake.
    pub reordering: Reordering,
    /// What is added to the delay.
    pub jitter: Jitter,
    /// What befalls single packets.
    pub script: ImpairmentScript,
}

impl Impairments {
    /// Whether there are none.
    pub fn are_none(&self) -> bool {
        *self == Self::default()
    }

    /// The greatest addition to the delay.
    pub fn latest(&self) -> Duration {
        self.jitter.most() + self.reordering.by.max(self.script.latest())
    }
}

/// What the impairments of a wire are later, each from a time on since the beginning. Clones share
/// it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImpairmentSchedule(Arc<[(Duration, Impairments)]>);

impl Default for ImpairmentSchedule {
    fn default() -> Self {
        Self(Arc::from([]))
    }
}

impl ImpairmentSchedule {
    /// These, whose times ascend. Their scripts do not matter: numbers are of the whole run.
    pub fn new(changes: Vec<(Duration, Impairments)>) -> Self {
        Self(changes.into())
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The greatest addition to the delay.
    pub fn latest(&self) -> Duration {
        let all = self.0.iter().map(|(_, impairments)| impairments.latest());
        all.max().unwrap_or(Duration::ZERO)
    }
}

/// A bit of a packet that is flipped, by a random number: which of its bits, says who has its
/// bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlippedBit(pub u64);

/// What impairments have done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ImpairmentCounts {
    /// Packets lost.
    pub lost: u64,
    /// Packets with a flipped bit.
    pub corrupted: u64,
    /// Packets that arrived twice.
    pub duplicated: u64,
    /// Packets that others were let overtake.
    pub overtaken: u64,
}

/// What befalls a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Fate {
    pub(crate) lost: bool,
    pub(crate) flipped: Option<FlippedBit>,
    pub(crate) twice: bool,
    /// It arrives behind the next packet.
    pub(crate) swapped: bool,
    /// It arrives by so much later than its jitter says.
    pub(crate) later: Duration,
}

/// Decides for each packet what befalls it.
#[derive(Clone, Debug)]
pub(crate) struct ImpairmentModel {
    begin: Instant,
    schedule: ImpairmentSchedule,
    /// The number of its changes that have been made.
    changed: usize,
    /// The loss where a trace has none, and that of the model as it is.
    own_loss: Loss,
    loss_in_force: Loss,
    loss: LossModel,
    corruption: LossModel,
    bits: Rng,
    duplication: LossModel,
    reordering: ReorderModel,
    jitter: JitterModel,
    order: PacketOrder,
    script: ScriptReader,
    counts: ImpairmentCounts,
}

impl ImpairmentModel {
    /// Its changes begin at `begin`.
    pub(crate) fn new(
        impairments: &Impairments,
        schedule: &ImpairmentSchedule,
        begin: Instant,
        seed: Seed,
    ) -> Self {
        let Impairments {
            loss,
            corruption,
            duplication,
            reordering,
            jitter,
            script,
        } = impairments;
        let chosen = |which: &Loss, name: &str| LossModel::new(*which, seed.fork(name));
        Self {
            begin,
            schedule: schedule.clone(),
            changed: 0,
            own_loss: *loss,
            loss_in_force: *loss,
            loss: chosen(loss, "loss"),
            corruption: chosen(&corruption.0, "corruption"),
            bits: seed.fork("bits").stream(),
            duplication: chosen(&duplication.0, "duplication"),
            reordering: ReorderModel::new(*reordering, seed.fork("reordering")),
            jitter: JitterModel::new(jitter.spread, seed.fork("jitter")),
            order: jitter.order,
            script: ScriptReader::new(script.clone()),
            counts: ImpairmentCounts::default(),
        }
    }

    /// Its changes begin at this time.
    pub(crate) fn begin(&mut self, at: Instant) {
        self.begin = at;
    }

    pub(crate) fn counts(&self) -> ImpairmentCounts {
        self.counts
    }

    /// What befalls the next packet, which is out at this time; a trace may have a loss then.
    pub(crate) fn next(&mut self, out: Instant, of_trace: Option<Loss>) -> Fate {
        self.catch_up(out);
        let loss = of_trace.unwrap_or(self.own_loss);
        if loss != self.loss_in_force {
            self.loss_in_force = loss;
            self.loss.becomes(loss);
        }
        // Lost packets have numbers, too.
        let mut fate = Fate {
            lost: self.loss.loses_next(),
            flipped: self.corruption.loses_next().then(|| FlippedBit(self.bits.bits())),
            twice: self.duplication.loses_next(),
            swapped: false,
            later: self.reordering.next_is_later_by(),
        };
        match self.script.next_fate() {
            None => {}
            Some(ScriptedFate::Drop) => fate.lost = true,
            Some(ScriptedFate::Duplicate) => fate.twice = true,
            Some(ScriptedFate::Corrupt) => fate.flipped = Some(FlippedBit(self.bits.bits())),
            Some(ScriptedFate::Swap) => fate.swapped = true,
            Some(ScriptedFate::Delay(by)) => fate.later += by,
        }
        if fate.lost {
            fate = Fate {
                lost: true,
                ..Fate::default()
            };
        }
        let counts = &mut self.counts;
        counts.lost += u64::from(fate.lost);
        counts.corrupted += u64::from(fate.flipped.is_some());
        counts.duplicated += u64::from(fate.twice);
        counts.overtaken += u64::from(fate.swapped || fate.later > Duration::ZERO);
        fate
    }

    /// What is added to the delay of the packet, which is not lost, and whether it may overtake.
    pub(crate) fn addition(&mut self) -> (Duration, PacketOrder) {
        (self.jitter.next(), self.order)
    }

    /// Makes the changes that are due.
    fn catch_up(&mut self, now: Instant) {
        while let Some((at, impairments)) = self.schedule.0.get(self.changed) {
            if now < self.begin || now.since(self.begin) < *at {
                return;
            }
            self.changed += 1;
            self.own_loss = impairments.loss;
            self.corruption.becomes(impairments.corruption.0);
            self.duplication.becomes(impairments.duplication.0);
            self.reordering.becomes(impairments.reordering);
            self.jitter.becomes(impairments.jitter.spread);
            self.order = impairments.jitter.order;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::settings::{Raw, SettingValue};

    fn value<T: SettingValue>(text: &str) -> T {
        T::from_raw(&Raw::Text(text.into())).expect(text)
    }

    fn fates(impairments: &Impairments, many: u64) -> Vec<Fate> {
        let nothing_changes = ImpairmentSchedule::default();
        let mut model = ImpairmentModel::new(impairments, &nothing_changes, Instant::START, Seed(6));
        (0..many)
            .map(|n| model.next(Instant::from_nanos(n), None))
            .collect()
    }

    /// Otherwise a study of one impairment could not tell its effect from another's.
    #[test]
    fn an_impairment_does_not_change_which_packets_another_befalls() {
        let loss = Impairments {
            loss: value("2 %"),
            ..Impairments::default()
        };
        let all = Impairments {
            corruption: value("3 %"),
            duplication: value("4 %"),
            reordering: value("5 % by 1 ms"),
            jitter: value("exponential 1 ms"),
            script: value("duplicate 5; corrupt 7"),
            ..loss.clone()
        };
        let (alone, beside) = (fates(&loss, 50_000), fates(&all, 50_000));
        let lost = |fates: &[Fate]| fates.iter().map(|fate| fate.lost).collect::<Vec<_>>();
        assert!(lost(&alone) == lost(&beside));
        let share = |of: &dyn Fn(&Fate) -> bool| beside.iter().filter(|fate| of(fate)).count();
        assert!((900..1_100).contains(&share(&|fate| fate.lost)));
        // Of those that are not lost.
        assert!((1_370..1_570).contains(&share(&|fate| fate.flipped.is_some())));
        assert!((1_860..2_060).contains(&share(&|fate| fate.twice)));
        assert!((2_300..2_600).contains(&share(&|fate| fate.later > Duration::ZERO)));
        let both = share(&|fate| fate.twice && fate.flipped.is_some());
        assert!((35..85).contains(&both), "as if by chance: {both}");
    }

    #[test]
    fn a_lost_packet_suffers_nothing_else_and_all_is_counted_once() {
        let impairments = Impairments {
            loss: value("packets 2, 5"),
            corruption: value("packets 2-3"),
            duplication: value("packets 2, 4"),
            reordering: value("packets 5-6 by 1 ms"),
            script: value("drop 4; swap 7, 8"),
            ..Impairments::default()
        };
        let none = ImpairmentSchedule::default();
        let mut model = ImpairmentModel::new(&impairments, &none, Instant::START, Seed(6));
        let fates: Vec<Fate> = (0..9).map(|_| model.next(Instant::START, None)).collect();
        for (fate, number) in fates.iter().zip(1..) {
            assert_eq!(fate.lost, [2, 4, 5].contains(&number), "{number}");
            assert_eq!(fate.flipped.is_some(), number == 3, "{number}");
            assert_eq!(fate.later > Duration::ZERO, number == 6, "{number}");
            assert_eq!(fate.swapped, number == 7, "{number}");
            assert!(!fate.twice, "{number}");
        }
        let counts = ImpairmentCounts {
            lost: 3,
            corrupted: 1,
            duplicated: 0,
            overtaken: 2,
        };
        assert_eq!(model.counts(), counts);
    }

    #[test]
    fn changes_are_made_at_their_times_since_the_beginning_and_packets_keep_their_numbers() {
        let (every, odd) = (value::<Loss>("every 3"), value::<ChosenPackets>("packets 11, 13"));
        let change = |ms, loss, corruption| {
            let impairments = Impairments {
                loss,
                corruption,
                ..Impairments::default()
            };
            (Duration::from_millis(ms), impairments)
        };
        let schedule = ImpairmentSchedule::new(vec![
            change(4, every, ChosenPackets::default()),
            change(8, Loss::None, odd),
        ]);
        let begin = Instant::START + Duration::from_millis(2);
        let mut model = ImpairmentModel::new(&Impairments::default(), &schedule, Instant::NEVER, Seed(6));
        let mut befallen = Vec::new();
        for ms in 0..16 {
            if ms == 2 {
                model.begin(begin);
            }
            let fate = model.next(Instant::START + Duration::from_millis(ms), None);
            if fate.lost || fate.flipped.is_some() {
                befallen.push((ms + 1, fate.lost));
            }
        }
        // Every third from 6 ms on: the packets 9 (8 ms); from 10 ms on, 11 and 13.
        assert_eq!(befallen, [(9, true), (11, false), (13, false)]);
    }
}
