//! The kernel's facts about an interface. Read only.
//!
//! They come from netlink, which answers for this process's network namespace. Two facts are only
//! in `/sys`, which may show another namespace's interfaces; it is trusted only if the
//! interface's number agrees.

use engine::units::{Bandwidth, Bytes};
use netio::interface::Interface;
use std::fs;
use std::path::PathBuf;

/// One interface, as it is now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Facts {
    /// Whether it is administratively up.
    pub up: bool,
    /// The speed of its link, if the driver reports one.
    pub speed: Option<Bandwidth>,
    /// The longest IP packet.
    pub mtu: Bytes,
    /// Its master: a bridge, or another device with members.
    pub master: Option<String>,
    /// Whether its bridge forwards the frames that it receives; `None` if unknown.
    pub forwarding: Option<bool>,
}

impl Facts {
    /// The facts of the interface of this name; `None` if there is none.
    pub fn of(name: &str) -> Option<Self> {
        let found = Interface::named(name).ok()?;
        let master = found.master.and_then(|index| Interface::numbered(index).ok());
        let sys = PathBuf::from("/sys/class/net").join(name);
        let text = |file: &str| Some(fs::read_to_string(sys.join(file)).ok()?.trim().to_owned());
        let ours = text("ifindex").is_some_and(|index| index == found.index.to_string());
        // Mbit/s; -1 or no answer if the driver does not know.
        let speed = text("speed")
            .and_then(|speed| speed.parse().ok())
            .map(Bandwidth::mbit);
        const FORWARDING: &str = "3";
        Some(Self {
            up: found.up,
            speed: speed.filter(|_| ours),
            mtu: Bytes::new(found.mtu as u64),
            master: master.map(|bridge| bridge.name),
            forwarding: text("brport/state")
                .map(|state| state == FORWARDING)
                .filter(|_| ours),
        })
    }
}

/// The names of all interfaces.
pub fn names() -> Vec<String> {
    let table = fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    let lines = table.lines().skip(2);
    lines
        .filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_found_and_an_unknown_name_is_not() {
        assert!(names().contains(&"lo".to_owned()), "{:?}", names());
        let lo = Facts::of("lo").expect("lo");
        assert_eq!((lo.master, lo.speed), (None, None));
        assert_eq!(Facts::of("no-such-thing"), None);
    }
}
