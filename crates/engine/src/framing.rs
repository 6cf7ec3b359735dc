//! What a link carries for a frame: from the length that an interface reports (Ethernet header
//! included, no FCS) to bytes on the wire.
//!
//! ```text
//! bytes = cells(max(frame + overhead, mpu))
//! ```
//!
//! As `tc` counts by `stab` and cake by its own settings. ATM (ITU-T I.361) carries 48 bytes in
//! each cell of 53, and AAL5 pads the last one; PTM (IEEE 802.3 clause 61.3.3) sends a byte of its
//! own with each 64. Cake counts `overhead` from the IP packet on; here and in `stab` it is from
//! the Ethernet header on, which is 14 bytes less.

use crate::byte_clock::{SHORTEST_SLOT, WIRE_OVERHEAD};
use crate::settings::{Raw, SettingValue, describe};
use crate::units::Bytes;

/// The most that a setting may add, or make of a short frame.
const MOST: u64 = 512;
/// The most that it may take away: more than any header before the IP packet.
const LEAST: i16 = -64;
/// Lengths at which one framing is compared with another: all that a [minimum](Framing::mpu)
/// concerns, and several rounds of what repeats after that.
const COMPARED: std::ops::RangeInclusive<u64> = 60..=1_600;

crate::choices! {
    /// In which units a link carries bytes.
    pub enum Linklayer {
        /// Bytes.
        Ethernet = "ethernet",
        /// ATM cells of 53 bytes, which carry 48: ADSL.
        Atm = "atm",
        /// A byte more with each 64: VDSL2.
        Ptm = "ptm",
    }
}

/// Bytes that a link adds to each frame, or leaves out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Overhead(i16);

/// What a frame takes at least: the minimum packet unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MinimumUnit(u16);

/// What a link carries for a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Framing {
    overhead: Overhead,
    mpu: MinimumUnit,
    linklayer: Linklayer,
}

impl Overhead {
    /// This many more, or fewer.
    pub const fn new(bytes: i16) -> Self {
        Self(bytes)
    }

    /// In bytes.
    pub const fn get(self) -> i16 {
        self.0
    }
}

impl std::fmt::Display for Overhead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} B", self.0)
    }
}

impl SettingValue for Overhead {
    const UNIT: &'static str = "a length such as \"24 B\" or \"-14 B\"";

    fn pattern() -> Option<String> {
        Some(Bytes::pattern()?.replacen("[0-9_]", r"(-\s*)?[0-9_]", 1))
    }

    fn from_raw(raw: &Raw) -> Result<Self, String> {
        let less = match raw {
            Raw::Text(text) => text.trim().strip_prefix('-'),
            _ => None,
        };
        let length = match less {
            Some(length) => Bytes::from_raw(&Raw::Text(length.trim_start().into()))?,
            None => Bytes::from_raw(raw)?,
        };
        let bytes = i16::try_from(length.get());
        match bytes.map(|bytes| if less.is_some() { -bytes } else { bytes }) {
            Ok(bytes) if (LEAST..=MOST as i16).contains(&bytes) => Ok(Self(bytes)),
            _ => Err(format!(
                "expected what the link adds to each frame, from {LEAST} B to {MOST} B, such as \"24 B\" for Ethernet's preamble, FCS and gap"
            )),
        }
    }
}

impl From<Overhead> for Raw {
    fn from(overhead: Overhead) -> Self {
        Self::Text(overhead.to_string())
    }
}

impl MinimumUnit {
    /// In bytes; none is 0.
    pub const fn get(self) -> u64 {
        self.0 as u64
    }
}

impl SettingValue for MinimumUnit {
    const UNIT: &'static str = "a length such as \"84 B\"";

    fn pattern() -> Option<String> {
        Bytes::pattern()
    }

    fn from_raw(raw: &Raw) -> Result<Self, String> {
        let least = Bytes::from_raw(raw)?.get();
        match u16::try_from(least) {
            Ok(least) if u64::from(least) <= MOST => Ok(Self(least)),
            _ => Err(format!(
                "expected at most {MOST} B, such as \"84 B\" for Ethernet's shortest frame on the wire"
            )),
        }
    }
}

impl Framing {
    /// Frames count as they are.
    pub const PLAIN: Self = Self::add(0);
    /// Ethernet: frames are padded to 60 bytes; preamble, FCS and inter-frame gap are 24.
    pub const ETHERNET: Self = Self::new(WIRE_OVERHEAD as i16, SHORTEST_SLOT as u16, Linklayer::Ethernet);
    /// ATM with AAL5 and LLC/SNAP (RFC 2684): the IP packet and 16 bytes, in cells.
    pub const ATM: Self = Self::new(2, 0, Linklayer::Atm);

    /// This many bytes more, or fewer.
    pub const fn add(overhead: i16) -> Self {
        Self::new(overhead, 0, Linklayer::Ethernet)
    }

    /// This many bytes more, or fewer; at least so many; in these units.
    pub const fn new(overhead: i16, mpu: u16, linklayer: Linklayer) -> Self {
        Self {
            overhead: Overhead(overhead),
            mpu: MinimumUnit(mpu),
            linklayer,
        }
    }

    /// The same, from settings.
    pub const fn of(overhead: Overhead, mpu: MinimumUnit, linklayer: Linklayer) -> Self {
        Self {
            overhead,
            mpu,
            linklayer,
        }
    }

    /// What it adds to a frame before it is padded or cut into cells.
    pub const fn overhead(self) -> Overhead {
        self.overhead
    }

    /// What a short frame takes at least, before it is cut into cells: the minimum packet unit.
    pub const fn mpu(self) -> MinimumUnit {
        self.mpu
    }

    /// In which units the link carries it.
    pub const fn linklayer(self) -> Linklayer {
        self.linklayer
    }

    /// What each frame takes more, if it is the same for all.
    #[inline]
    pub const fn added(self) -> Option<Bytes> {
        match (self.overhead.0, self.mpu.0, self.linklayer) {
            (more @ 0.., 0, Linklayer::Ethernet) => Some(Bytes::new(more as u64)),
            _ => None,
        }
    }

    /// The bytes on the wire; at least one.
    #[inline]
    pub fn on_wire(self, frame: Bytes) -> Bytes {
        let least = u64::from(self.mpu.0.max(1));
        let more = frame
            .get()
            .saturating_add_signed(self.overhead.0.into())
            .max(least);
        Bytes::new(match self.linklayer {
            Linklayer::Ethernet => more,
            Linklayer::Atm => more.div_ceil(48) * 53,
            Linklayer::Ptm => more + more.div_ceil(64),
        })
    }

    /// The bytes on the wire of a super-frame, which leaves as frames of this length and a last one
    /// that has what is left of their sum.
    #[inline]
    pub fn on_wire_of(self, sum: Bytes, frames: u64, each: Bytes) -> Bytes {
        match self.added() {
            Some(more) => sum + more.times(frames),
            None => {
                let full = frames.saturating_sub(1);
                self.on_wire(each).times(full) + self.on_wire(sum - each.times(full).min(sum))
            }
        }
    }

    /// The longest frame that takes at most this on the wire: the frame itself where each takes
    /// the same more, and up to the padding otherwise. At least one byte.
    pub fn longest_within(self, wire: Bytes) -> Bytes {
        let wire = wire.get();
        let uncut = match self.linklayer {
            Linklayer::Ethernet => wire,
            Linklayer::Atm => wire / 53 * 48,
            Linklayer::Ptm => wire - wire.div_ceil(65),
        };
        let fits = uncut >= self.mpu.get().max(1);
        let frame = uncut.saturating_add_signed(-i64::from(self.overhead.0));
        Bytes::new(if fits { frame.max(1) } else { 1 })
    }

    /// The bytes on the wire of so many frames with this sum: exact where each takes the same more,
    /// and otherwise as if all had the mean length.
    pub fn of_frames(self, sum: Bytes, frames: u64) -> Bytes {
        match self.added() {
            Some(more) => sum + more.times(frames),
            None => self.on_wire(Bytes::new(sum.get() / frames.max(1))).times(frames),
        }
    }

    /// What so many frames, which took this on the wire, sum up to at most: the sum itself where
    /// each takes the same more.
    pub fn frames_within(self, wire: Bytes, frames: u64) -> Bytes {
        let wire = u128::from(wire.get());
        let uncut = match self.linklayer {
            Linklayer::Ethernet => wire,
            Linklayer::Atm => wire * 48 / 53,
            Linklayer::Ptm => wire * 64 / 65,
        };
        let more = i128::from(self.overhead.0) * i128::from(frames);
        let sum = i128::try_from(uncut).unwrap_or(i128::MAX).saturating_sub(more);
        Bytes::new(u64::try_from(sum.max(0)).unwrap_or(u64::MAX))
    }

    /// What the wire carries at most for a byte of datagrams from `least` to `most` bytes, in
    /// frames that have `header` bytes more: a ratio of two lengths, the link's and the
    /// datagram's.
    pub fn most_for_a_byte(self, header: Bytes, least: u64, most: u64) -> (u64, u64) {
        let least = least.max(1);
        // After a step of the cells the ratio falls until the next one; each step starts lower than
        // the one before, unless less is counted than the datagram: then it rises towards the
        // longest.
        let near = |from: u64| from..=from.saturating_add(64).min(most.max(least));
        let lengths = near(least).chain(near(most.saturating_sub(64).max(least)));
        let ratio = |length: u64| (self.on_wire(Bytes::new(length) + header).get(), length);
        let greater = |(a, b): (u64, u64), (c, d): (u64, u64)| {
            u128::from(a) * u128::from(d) > u128::from(c) * u128::from(b)
        };
        let first = ratio(least);
        lengths
            .map(ratio)
            .fold(first, |most, next| match greater(next, most) {
                true => next,
                false => most,
            })
    }

    /// As a scenario writes it: `26 B, mpu 64 B, linklayer atm`.
    pub fn setting(self) -> String {
        let mut text = self.overhead.to_string();
        if self.mpu.0 > 0 {
            text += &format!(", mpu {} B", self.mpu.0);
        }
        if self.linklayer != Linklayer::Ethernet {
            text += &format!(", linklayer {}", self.linklayer.name());
        }
        text
    }

    /// Whether every frame of 60 bytes or more takes at least as much as in another framing. Says
    /// no where it is so only up to some length.
    pub fn covers(self, other: Self) -> bool {
        // By what they add to a long frame, in the end.
        let rank = |of: Self| match of.linklayer {
            Linklayer::Ethernet => 0,
            Linklayer::Ptm => 1,
            Linklayer::Atm => 2,
        };
        let takes_more = |frame: u64| self.on_wire(Bytes::new(frame)) >= other.on_wire(Bytes::new(frame));
        rank(self) >= rank(other) && COMPARED.into_iter().all(takes_more)
    }
}

/// As a person reads it: `frames plus 24 B each`.
impl std::fmt::Display for Framing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("frames")?;
        match self.overhead.0 {
            0 => {}
            less @ ..0 => write!(f, " less {} B each", -less)?,
            more => write!(f, " plus {more} B each")?,
        }
        if self.mpu.0 > 0 {
            write!(f, ", at least {} B", self.mpu.0)?;
        }
        match self.linklayer {
            Linklayer::Ethernet => Ok(()),
            Linklayer::Atm => f.write_str(", in ATM cells"),
            Linklayer::Ptm => f.write_str(", in PTM"),
        }
    }
}

impl SettingValue for Framing {
    const UNIT: &'static str = "\"none\", \"ethernet\" (at least 60 B, and 24 B), \"atm\" (AAL5 with LLC/SNAP), or a length such as \"8 B\", perhaps with more: \"26 B, mpu 64 B, linklayer atm\"";

    fn from_raw(raw: &Raw) -> Result<Self, String> {
        let wrong = || format!("expected {}; found {}", Self::UNIT, describe(raw));
        let Raw::Text(text) = raw else {
            return Err(wrong());
        };
        match text.as_str() {
            "none" => return Ok(Self::PLAIN),
            "ethernet" => return Ok(Self::ETHERNET),
            "atm" => return Ok(Self::ATM),
            _ => {}
        }
        let own = |text: &str| Raw::Text(text.trim().into());
        let mut parts = text.split(',');
        let first = parts.next().unwrap_or_default();
        let overhead =
            Overhead::from_raw(&own(first)).map_err(|why| match first.trim().parse::<Bytes>() {
                Ok(_) => why,
                Err(_) => wrong(),
            })?;
        let (mut mpu, mut linklayer) = (MinimumUnit::default(), Linklayer::Ethernet);
        for part in parts {
            match part.trim().split_once(' ') {
                Some(("mpu", length)) => mpu = MinimumUnit::from_raw(&own(length))?,
                Some(("linklayer", name)) => linklayer = Linklayer::from_raw(&own(name))?,
                _ => return Err(wrong()),
            }
        }
        Ok(Self::of(overhead, mpu, linklayer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_wire(framing: Framing, frame: u64) -> u64 {
        framing.on_wire(Bytes::new(frame)).get()
    }

    /// Some of each sort, with what settings allow at most.
    fn framings() -> Vec<Framing> {
        let mut all = Vec::new();
        for linklayer in [Linklayer::Ethernet, Linklayer::Ptm, Linklayer::Atm] {
            for overhead in [-64, -14, 0, 2, 24, 44, 512] {
                for mpu in [0, 64, 84, 512] {
                    all.push(Framing::new(overhead, mpu, linklayer));
                }
            }
        }
        all
    }

    /// ADSL with PPPoE over LLC: `overhead 40 linklayer atm` of cake counts from the IP packet on,
    /// that is 26 from the frame on. An acknowledgement of 40 bytes takes 80, two cells; a full
    /// packet of PPPoE, 1,492 bytes, 1,532, which is 32 cells.
    #[test]
    fn cells_are_those_of_dsl() {
        let adsl = Framing::new(26, 0, Linklayer::Atm);
        assert_eq!(on_wire(adsl, 54), 2 * 53);
        assert_eq!(on_wire(adsl, 1_506), 32 * 53);
        assert_eq!(on_wire(Framing::ATM, 14 + 40), 2 * 53, "56 bytes");
        assert_eq!(on_wire(Framing::ATM, 14 + 32), 53, "48 bytes fill a cell");
        let vdsl = Framing::new(8, 68, Linklayer::Ptm);
        assert_eq!(on_wire(vdsl, 1_514), 1_522 + 24);
        assert_eq!(on_wire(vdsl, 54), 68 + 2);
    }

    #[test]
    fn short_frames_are_padded_and_fewer_bytes_may_count() {
        assert_eq!(on_wire(Framing::ETHERNET, 42), 84);
        assert_eq!(on_wire(Framing::ETHERNET, 60), 84);
        assert_eq!(on_wire(Framing::ETHERNET, 1_514), 1_538);
        assert_eq!(on_wire(Framing::add(-14), 1_514), 1_500);
        assert_eq!(on_wire(Framing::add(-64), 60), 1, "never nothing");
    }

    #[test]
    fn a_super_frame_takes_what_its_frames_take() {
        for framing in framings() {
            for (each, full, last) in [(1_514, 3, 66), (1_514, 43, 1_514), (566, 1, 54), (60, 0, 60)] {
                let sum = Bytes::new(each * full + last);
                let expected = on_wire(framing, each) * full + on_wire(framing, last);
                let found = framing.on_wire_of(sum, full + 1, Bytes::new(each));
                assert_eq!(found.get(), expected, "{framing:?}");
            }
        }
    }

    #[test]
    fn the_longest_frame_within_a_length_fits_and_one_byte_more_does_not() {
        for framing in framings() {
            for wire in 1..3_000 {
                let frame = framing.longest_within(Bytes::new(wire)).get();
                let (takes, next) = (on_wire(framing, frame), on_wire(framing, frame + 1));
                assert!(next > wire, "{framing:?}: {wire} has room for {}", frame + 1);
                assert!(
                    takes <= wire || frame == 1,
                    "{framing:?}: {frame} takes {takes} of {wire}"
                );
            }
        }
    }

    #[test]
    fn one_framing_covers_another_as_every_length_says() {
        let all = framings();
        let frames = || 60..20_000;
        let mut covers = 0;
        for one in &all {
            for other in &all {
                let truth = frames().all(|frame| on_wire(*one, frame) >= on_wire(*other, frame));
                if one.covers(*other) {
                    assert!(truth, "{one:?} {other:?}");
                    covers += 1;
                } else if one.linklayer == other.linklayer {
                    assert!(!truth, "{one:?} {other:?}");
                }
            }
            assert!(one.covers(*one));
        }
        assert!(
            (all.len() * 10..all.len() * all.len()).contains(&covers),
            "{covers}"
        );
    }

    #[test]
    fn an_overhead_is_a_length_with_a_sign() {
        let read = |text: &str| Overhead::from_raw(&Raw::Text(text.into()));
        assert_eq!(read("24 B"), Ok(Overhead::new(24)));
        assert_eq!(read("-14 B"), Ok(Overhead::new(-14)));
        assert_eq!(read("- 14 B"), Ok(Overhead::new(-14)));
        assert_eq!(read("0.024 kB"), Ok(Overhead::new(24)));
        for wrong in ["-65 B", "513 B", "70 kB", "24", "--3 B", ""] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        let again = |of: Overhead| Overhead::from_raw(&of.into());
        assert_eq!(again(Overhead::new(-14)), Ok(Overhead::new(-14)));
    }

    #[test]
    fn a_scenario_reads_what_is_written_for_one() {
        let read = |text: &str| Framing::from_raw(&Raw::Text(text.into()));
        for framing in framings() {
            assert_eq!(read(&framing.setting()), Ok(framing));
        }
        assert_eq!(read("8 B"), Ok(Framing::add(8)));
        assert_eq!(read("atm"), Ok(Framing::ATM));
        for wrong in [
            "ppp",
            "8 B, mpu",
            "8 B, mpu 513 B",
            "8 B, linklayer ppp",
            "8 B; mpu 64 B",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn frames_of_a_sum_are_bounded_from_above_and_near() {
        for framing in framings().into_iter().filter(|of| of.mpu.0 == 0) {
            let frames: Vec<u64> = (0..500).map(|n| 64 + n * 37 % 1_450).collect();
            let sum: u64 = frames.iter().sum();
            let wire: u64 = frames.iter().map(|frame| on_wire(framing, *frame)).sum();
            let most = framing.frames_within(Bytes::new(wire), 500).get();
            let near = sum + 500 * 48;
            assert!((sum..near).contains(&most), "{framing:?}: {most} of {sum}");
            if framing.added().is_some() {
                assert_eq!(most, sum);
                assert_eq!(framing.of_frames(Bytes::new(sum), 500).get(), wire);
            }
        }
    }

    #[test]
    fn no_datagram_takes_more_for_a_byte_than_is_said_and_one_takes_that() {
        for framing in framings() {
            for (least, most) in [(20, 1_500), (40, 40), (100, 1_500), (576, 9_000), (1_500, 1_500)] {
                let (wire, bytes) = framing.most_for_a_byte(Bytes::new(14), least, most);
                let mut met = false;
                for length in least..=most {
                    let takes = on_wire(framing, length + 14);
                    assert!(takes * bytes <= wire * length, "{framing:?}: {length} of {least}");
                    met |= takes * bytes == wire * length;
                }
                assert!(met, "{framing:?}: {least} to {most}");
            }
        }
    }

    #[test]
    fn what_counts_is_told_in_words() {
        assert_eq!(Framing::PLAIN.to_string(), "frames");
        assert_eq!(Framing::add(24).to_string(), "frames plus 24 B each");
        let adsl = Framing::new(-6, 64, Linklayer::Atm);
        assert_eq!(
            adsl.to_string(),
            "frames less 6 B each, at least 64 B, in ATM cells"
        );
    }

    #[test]
    fn an_overhead_is_written_like_a_length_perhaps_with_a_sign() {
        let units = r"(GB|MB|kB|B|GiB|MiB|KiB)\s*$";
        let unsigned = format!(r"^\s*[0-9_]+(\.[0-9_]*)?\s*{units}");
        let signed = format!(r"^\s*(-\s*)?[0-9_]+(\.[0-9_]*)?\s*{units}");
        assert_eq!(Overhead::pattern(), Some(signed));
        assert_eq!(MinimumUnit::pattern(), Some(unsigned));
    }

    #[test]
    fn the_largest_and_the_least_that_a_setting_may_be_are_read() {
        let overhead = |text: &str| Overhead::from_raw(&Raw::Text(text.into()));
        assert_eq!(
            (overhead("512 B"), overhead("-64 B")),
            (Ok(Overhead(512)), Ok(Overhead(-64)))
        );
        let mpu = |text: &str| MinimumUnit::from_raw(&Raw::Text(text.into())).ok();
        assert_eq!(
            (mpu("512 B"), mpu("513 B"), mpu("70 kB")),
            (Some(MinimumUnit(512)), None, None)
        );
        assert_eq!(mpu("84 B").map(MinimumUnit::get), Some(84));
    }

    #[test]
    fn a_framing_is_named_or_spelt_out() {
        let read = |text: &str| Framing::from_raw(&Raw::Text(text.into()));
        assert_eq!(read("none"), Ok(Framing::PLAIN));
        assert_eq!(read("ethernet"), Ok(Framing::ETHERNET));
        assert_eq!(read("atm"), Ok(Framing::ATM));
        let spelt = Framing::new(26, 64, Linklayer::Atm);
        assert_eq!(read("26 B, mpu 64 B, linklayer atm"), Ok(spelt));
        assert_eq!(read(" 26 B ,linklayer atm,mpu 64 B"), Ok(spelt));
        let parts = (spelt.overhead(), spelt.mpu(), spelt.linklayer());
        assert_eq!(parts, (Overhead(26), MinimumUnit(64), Linklayer::Atm));
        assert_eq!(Framing::of(parts.0, parts.1, parts.2), spelt);
        let why = read("600 B").expect_err("too much");
        assert!(
            why.starts_with("expected what the link adds to each frame"),
            "{why}"
        );
        for wrong in ["ppp", "8 B, ppp", "8 B, mtu 7 B"] {
            let why = read(wrong).expect_err("no framing");
            assert!(why.starts_with("expected \"none\""), "{wrong}: {why}");
        }
        let why = Framing::from_raw(&Raw::Integer(8)).expect_err("no text");
        assert!(why.ends_with("found the number 8"), "{why}");
    }

    #[test]
    fn only_bytes_alone_are_the_same_for_all_frames() {
        assert_eq!(Framing::PLAIN.added(), Some(Bytes::ZERO));
        assert_eq!(Framing::add(24).added(), Some(Bytes::new(24)));
        for framing in [
            Framing::add(-1),
            Framing::ETHERNET,
            Framing::ATM,
            Framing::new(0, 0, Linklayer::Ptm),
        ] {
            assert_eq!(framing.added(), None, "{framing:?}");
        }
    }

    #[test]
    fn frames_of_a_sum_are_taken_as_if_all_had_the_mean_length() {
        let of = |framing: Framing, sum, frames| framing.of_frames(Bytes::new(sum), frames).get();
        assert_eq!(of(Framing::add(24), 3_000, 3), 3_072);
        // 1,002 bytes are 21 cells.
        assert_eq!(
            (of(Framing::ATM, 3_000, 3), of(Framing::ATM, 3_002, 3)),
            (3 * 1_113, 3 * 1_113)
        );
        assert_eq!(of(Framing::ETHERNET, 100, 4), 4 * 84);
        assert_eq!(of(Framing::ATM, 0, 0), 0);
    }

    #[test]
    fn frames_within_a_length_have_what_the_link_carries_of_it_without_the_overhead() {
        let within = |framing: Framing, wire, frames| framing.frames_within(Bytes::new(wire), frames).get();
        assert_eq!(within(Framing::add(24), 3_072, 3), 3_000);
        assert_eq!(within(Framing::add(-14), 3_000, 3), 3_042);
        assert_eq!(within(Framing::ATM, 5_300, 10), 4_780);
        assert_eq!(within(Framing::new(8, 0, Linklayer::Ptm), 6_500, 10), 6_320);
        assert_eq!(within(Framing::add(24), 71, 3), 0);
    }

    #[test]
    fn the_longest_frame_is_what_is_left_of_whole_cells() {
        let longest = |framing: Framing, wire| framing.longest_within(Bytes::new(wire)).get();
        assert_eq!(
            (longest(Framing::PLAIN, 100), longest(Framing::PLAIN, 0)),
            (100, 1)
        );
        assert_eq!(
            (longest(Framing::ETHERNET, 84), longest(Framing::ETHERNET, 83)),
            (60, 1)
        );
        assert_eq!((longest(Framing::ATM, 106), longest(Framing::ATM, 105)), (94, 46));
        let ptm = Framing::new(0, 0, Linklayer::Ptm);
        assert_eq!(
            (longest(ptm, 65), longest(ptm, 66), longest(ptm, 130)),
            (64, 64, 128)
        );
        assert_eq!(longest(Framing::add(-14), 1_500), 1_514);
    }

    #[test]
    fn what_is_written_of_a_framing_is_what_differs_from_plain_frames() {
        assert_eq!(Framing::PLAIN.setting(), "0 B");
        let all = Framing::new(-6, 64, Linklayer::Ptm);
        assert_eq!(all.setting(), "-6 B, mpu 64 B, linklayer ptm");
        assert_eq!(all.to_string(), "frames less 6 B each, at least 64 B, in PTM");
        assert_eq!(Framing::ATM.setting(), "2 B, linklayer atm");
        assert_eq!(
            Framing::ETHERNET.to_string(),
            "frames plus 24 B each, at least 84 B"
        );
    }

    #[test]
    fn cells_cover_bytes_in_the_end_and_bytes_never_cover_cells() {
        let ptm = Framing::new(0, 0, Linklayer::Ptm);
        let atm = Framing::new(0, 0, Linklayer::Atm);
        assert!(atm.covers(ptm) && ptm.covers(Framing::PLAIN) && atm.covers(Framing::PLAIN));
        let much = Framing::add(512);
        assert!(!much.covers(ptm) && !much.covers(atm) && !Framing::new(512, 0, Linklayer::Ptm).covers(atm));
        let least = Framing::new(0, 84, Linklayer::Ethernet);
        assert!(Framing::add(24).covers(least) && !Framing::add(23).covers(least));
        assert!(Framing::add(24).covers(Framing::add(24)) && !Framing::add(23).covers(Framing::add(24)));
    }

    #[test]
    fn a_byte_takes_most_in_the_shortest_datagram_or_after_a_step() {
        let most = |framing: Framing, least, most| framing.most_for_a_byte(Bytes::new(14), least, most);
        assert_eq!(most(Framing::ETHERNET, 0, 1_500), (84, 1));
        assert_eq!(most(Framing::PLAIN, 100, 1_500), (114, 100));
        // Of 32 bytes one cell is filled, and 33 take two.
        assert_eq!(most(Framing::ATM, 30, 1_500), (106, 33));
        assert_eq!(most(Framing::add(-64), 100, 1_500), (1_450, 1_500));
    }
}
