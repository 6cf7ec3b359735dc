//! Media that several hosts share, and which links are on them.
//!
//! ```toml
//! [[medium]]
//! name = "air"
//! [[link]]
//! between = ["ap", "laptop"]
//! rate = "54 Mbit/s"       # of the laptop, and of the access point to it
//! medium = "air"
//! ```

use super::DirectionConfig;
use control::sections::Section;
use engine::settings::{Problem, unknown};
use engine::units::{Bytes, Duration};
use engine::{choices, settings};
use sim::medium::{Access, Dcf};

choices! {
    /// How hosts come to send on a medium.
    pub enum MediumAccess {
        /// By contention, as with Wi-Fi (IEEE 802.11's DCF).
        Dcf = "dcf",
        /// One after the other, without collisions.
        Turns = "turns",
    }
}

settings! {
    /// The settings of a medium.
    pub struct MediumSettings {
        /// Its name, as links say it
        name: String = required, "", "";
        /// How hosts come to send: by contention, as with Wi-Fi (dcf), or in turn without
        /// collisions, as over a half-duplex line (turns)
        access: MediumAccess = default "dcf", "", "IEEE 802.11, section 10.3";
        /// With turns: what passes after each packet before the next
        gap: Duration = default "0 s", "", "a line that turns at once";
        /// With dcf: a slot
        slot: Duration = default "9 us", "too long: the medium idles", "IEEE 802.11 OFDM at 20 MHz";
        /// With dcf: the time before an acknowledgment
        sifs: Duration = default "16 us", "", "IEEE 802.11 OFDM at 20 MHz";
        /// With dcf: for how long the medium is idle before slots are counted
        difs: Duration = derived "sifs and two slots", "", "IEEE 802.11, section 10.3.7";
        /// With dcf: what precedes the bits of a transmission
        preamble: Duration = default "20 us", "", "IEEE 802.11 OFDM at 20 MHz";
        /// With dcf: an acknowledgment, with its preamble
        ack: Duration = default "28 us", "", "14 B at 24 Mbit/s; of aggregates 32 B: `32 us`";
        /// With dcf: the bytes that a packet has beyond its frame
        overhead: Bytes = default "24 B", "", "26 B of header, 8 B of LLC, 4 B of FCS, less the 14 B of Ethernet's header";
        /// With dcf: the least contention window; a host waits for 0 to so many slots
        cw_min: u32 = default "15", "too small: collisions; too large: the medium idles", "IEEE 802.11 OFDM";
        /// With dcf: the greatest, to which collisions double it
        cw_max: u32 = default "1023", "too small: collisions go on; too large: one host is silent for long", "IEEE 802.11";
        /// With dcf: how often a packet that collides is sent again at most
        retries: u32 = default "7", "too few: packets are lost; too many: old packets delay others", "IEEE 802.11: dot11ShortRetryLimit";
        /// With dcf: the packets of one link that share a transmission at most
        aggregation: u32 = default "1", "1: preambles and acknowledgments take most of a fast medium's time; many: others wait",
            "IEEE 802.11a/b/g; 64 and more from 802.11n on";
        /// With dcf: the time of a transmission at most that has several packets
        longest: Duration = default "4 ms", "too long: others wait", "Linux's mac80211: the airtime of an aggregate";
    }
}

/// A checked medium.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MediumConfig {
    /// Its name.
    pub name: String,
    /// How hosts come to send.
    pub access: Access,
}

impl MediumConfig {
    fn aggregation(&self) -> u32 {
        match self.access {
            Access::Dcf(dcf) => dcf.aggregation,
            Access::Turns { .. } => 1,
        }
    }
}

/// Reads all media.
pub(super) fn read_all(root: &Section<'_>, problems: &mut Vec<Problem>) -> Vec<MediumConfig> {
    let mut media: Vec<MediumConfig> = Vec::new();
    for section in root.sections("medium", "medium", problems) {
        let Some(read) = read(&section, problems) else {
            continue;
        };
        if media.iter().any(|medium| medium.name == read.name) {
            let at = section.get("name").map_or(section.at, |pair| pair.value.at);
            problems.push(Problem::new(
                at,
                format!("there is a medium `{}` already", read.name),
            ));
        }
        media.push(read);
    }
    media
}

fn read(section: &Section<'_>, problems: &mut Vec<Problem>) -> Option<MediumConfig> {
    let settings = MediumSettings::read(&section.table(|_| true), &[], problems)?;
    let before = problems.len();
    let of = |setting: &&str| (*setting == "gap") == (settings.access == MediumAccess::Turns);
    let names = MediumSettings::SETTINGS.iter().map(|setting| setting.name);
    let own = names.filter(|name| !["name", "access"].contains(name));
    for pair in own.filter(|name| !of(name)).filter_map(|name| section.get(name)) {
        let message = format!(
            "`{}` does not apply with `access = \"{}\"`",
            pair.key,
            settings.access.name()
        );
        problems.push(Problem::new(pair.key_at, message).help("leave it out"));
    }
    let mut refuse = |key: &str, wrong: bool, message: &str| {
        if wrong {
            let at = section.get(key).map_or(section.at, |pair| pair.value.at);
            problems.push(Problem::new(at, message));
        }
    };
    let (slot, sifs, gap) = (settings.slot, settings.sifs, settings.gap);
    let dcf = Dcf {
        slot,
        sifs,
        difs: settings.difs.unwrap_or(sifs + slot.times(2)),
        preamble: settings.preamble,
        ack: settings.ack,
        overhead: settings.overhead,
        cw_min: settings.cw_min,
        cw_max: settings.cw_max,
        retries: settings.retries,
        aggregation: settings.aggregation,
        longest: settings.longest,
    };
    let slots = !(Duration::from_micros(1)..=Duration::from_millis(1)).contains(&slot);
    refuse("slot", slots, "`slot` must be from 1 us to 1 ms");
    refuse(
        "cw_max",
        dcf.cw_max > 32_767,
        "`cw_max` must be at most 32767 slots",
    );
    refuse(
        "cw_min",
        dcf.cw_min > dcf.cw_max,
        "`cw_min` must be at most `cw_max`",
    );
    let many = !(1..=256).contains(&dcf.aggregation);
    refuse("aggregation", many, "`aggregation` must be from 1 to 256 packets");
    let long = Duration::from_secs(1);
    for (key, time) in [
        ("gap", gap),
        ("sifs", sifs),
        ("difs", dcf.difs),
        ("preamble", dcf.preamble),
        ("ack", dcf.ack),
        ("longest", dcf.longest),
    ] {
        refuse(key, time > long, &format!("`{key}` must be at most 1 s"));
    }
    let access = match settings.access {
        MediumAccess::Dcf => Access::Dcf(dcf),
        MediumAccess::Turns => Access::Turns { gap },
    };
    (problems.len() == before).then_some(MediumConfig {
        name: settings.name,
        access,
    })
}

/// Checks the media that links name, and what goes with one.
pub(super) fn check_links(
    links: &[Section<'_>],
    directions: &[DirectionConfig],
    media: &[MediumConfig],
    problems: &mut Vec<Problem>,
) {
    for (section, pair) in links.iter().zip(directions.chunks(2)) {
        for direction in pair {
            let Some(name) = &direction.settings.medium else {
                continue;
            };
            let at = section.get("medium").map_or(section.at, |pair| pair.value.at);
            let Some(medium) = media.iter().find(|medium| medium.name == *name) else {
                let names = media.iter().map(|medium| medium.name.as_str());
                problems.push(unknown("medium", name, at, names));
                break;
            };
            let mut refuse = |key: &str, message: &str, help: &str| {
                let at = section.get(key).map_or(at, |pair| pair.key_at);
                problems.push(Problem::new(at, message).help(help));
            };
            if direction.trace.is_some() {
                let message = "a link on a medium has one rate: no `trace`, and no `[[change]]` of it";
                refuse("trace", message, "leave it out, or leave out `medium`");
            }
            if direction.settings.gap_frames {
                let message = "gap frames need a wire of their own";
                refuse(
                    "gap_frames",
                    message,
                    "leave out one of `medium` and `gap_frames`",
                );
            }
            if direction.policy.is_some() && direction.settings.transmit_ring < medium.aggregation() {
                let message = format!(
                    "{} packets are in the transmit ring at most, and `{name}` aggregates up to {}",
                    direction.settings.transmit_ring,
                    medium.aggregation()
                );
                let help = format!("write `transmit_ring = {}`", medium.aggregation());
                refuse("transmit_ring", &message, &help);
            }
        }
    }
}

/// Refuses reservations with such paths over media: when a packet may be sent there, nobody can
/// promise.
pub(super) fn refuse_reservations(
    root: &Section<'_>,
    paths: impl Iterator<Item = Vec<usize>>,
    directions: &[DirectionConfig],
    problems: &mut Vec<Problem>,
) {
    // A section that cannot be read has been reported.
    let sections = root.sections("reserve", "reserve", &mut Vec::new());
    for (section, on_path) in sections.iter().zip(paths) {
        let shared = on_path
            .iter()
            .find_map(|&index| directions[index].settings.medium.as_ref());
        if let Some(name) = shared {
            let message =
                format!("nothing can be reserved on its path: the medium `{name}` promises nobody a time");
            let help = "leave out the reservation, or `medium` of the links on its path";
            problems.push(Problem::new(section.at, message).help(help));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Scenarios;
    use crate::folder::Folder;
    use engine::tree::Registry;

    fn refused(text: &str) -> String {
        let text = format!("version = 1\nduration = \"1 s\"\n{text}");
        let read = Scenarios::read("air.toml", &text, &Registry::builtin(), &Folder::of("air.toml"));
        read.expect_err("a mistake").to_string()
    }

    #[test]
    fn what_a_medium_cannot_have_is_a_mistake_with_its_place() {
        let flow = "[[flow]]\nbetween = [\"a\", \"b\"]\nkind = \"greedy\"\n";
        let link = |more: &str| {
            format!(
                "[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"10 Mbit/s\"\nmedium = \"air\"\n{more}\n{flow}"
            )
        };
        let air = "[[medium]]\nname = \"air\"\n";
        let cases = [
            (link(""), "unknown medium `air`"),
            (
                format!("{air}gap = \"1 us\"\n{}", link("")),
                "`gap` does not apply with `access = \"dcf\"`",
            ),
            (
                format!("{air}access = \"turns\"\ncw_min = 3\n{}", link("")),
                "`cw_min` does not apply with `access = \"turns\"`",
            ),
            (
                format!("{air}cw_min = 2000\n{}", link("")),
                "`cw_min` must be at most `cw_max`",
            ),
            (
                format!("{air}{air}{}", link("")),
                "there is a medium `air` already",
            ),
            (
                format!("{air}{}", link("gap_frames = true")),
                "gap frames need a wire of their own",
            ),
            (
                format!(
                    "{air}aggregation = 8\n{}",
                    link("policy.a = { bandwidth = \"5 Mbit/s\", discipline = \"fifo\" }")
                ),
                "write `transmit_ring = 8`",
            ),
        ];
        for (text, message) in cases {
            let found = refused(&text);
            assert!(found.contains(message), "{message}: {found}");
        }
    }
}
