//! The policy of one line, without a policy file: cake both ways, fair per device.
//!
//! What leaves by the interface is managed where it leaves, what arrives is managed on arrival.
//! Which of them is the upload follows from where the interface leads: by the default route to the
//! internet, otherwise to the devices.

use clap::Args;
use engine::link::LONGEST_SUPER;
use engine::port_kind::{Needs, received};
use engine::units::{Bandwidth, Bytes};
use gateway::facts::{self, Facts};

/// What a full frame has without an MTU of its own.
const USUAL: Bytes = Bytes::new(1514);

/// The rates of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Args)]
pub struct Rates {
    /// The rate of both directions; a few per cent less than a speed test shows
    #[arg(long, value_name = "RATE")]
    pub rate: Option<Bandwidth>,
    /// The rate of the download, from the internet
    #[arg(long, value_name = "RATE")]
    pub down: Option<Bandwidth>,
    /// The rate of the upload, to the internet
    #[arg(long, value_name = "RATE")]
    pub up: Option<Bandwidth>,
}

impl Rates {
    /// Whether none is given.
    pub fn are_missing(&self) -> bool {
        *self == Self::default()
    }

    fn down(&self) -> Option<Bandwidth> {
        self.down.or(self.rate)
    }

    fn up(&self) -> Option<Bandwidth> {
        self.up.or(self.rate)
    }
}

/// A line: an interface, where it leads, and its rates.
#[derive(Clone, Debug)]
pub struct LinePolicy {
    interface: String,
    to_internet: bool,
    /// This host routes for devices behind it, and may translate their addresses.
    routes: bool,
    max_frame: Bytes,
    down: Option<Bandwidth>,
    up: Option<Bandwidth>,
    /// Neither is known but from the device: its own queue alone is managed.
    own_queue: Option<Bandwidth>,
}

/// A direction of it, as it is managed.
struct Direction<'a> {
    name: String,
    what: &'a str,
    rate: Bandwidth,
    fair: &'a str,
}

impl LinePolicy {
    /// The line by this interface.
    ///
    /// # Errors
    ///
    /// Returns what is missing: the interface, or a rate that the device does not know.
    pub fn of(interface: &str, rates: Rates) -> Result<Self, String> {
        let found = Facts::of(interface).ok_or_else(|| format!("there is no interface {interface}"))?;
        let own_queue = match rates.are_missing() {
            false => None,
            true => Some(found.speed.ok_or_else(|| {
                format!(
                    "{interface} does not tell how fast its line is: `--rate 50Mbit/s`, or `--down` and `--up`, \
                     a few per cent less than a speed test shows"
                )
            })?),
        };
        Ok(Self {
            interface: interface.into(),
            to_internet: facts::default_route().as_deref() == Some(interface),
            routes: facts::forwards(),
            max_frame: found.longest_frame().min(LONGEST_SUPER),
            down: rates.down(),
            up: rates.up(),
            own_queue,
        })
    }

    /// What runs, and what does not, in a line each.
    pub fn notes(&self) -> Vec<String> {
        let Self { interface, .. } = self;
        let leads = match self.to_internet {
            true => "the default route goes by it: what leaves is the upload",
            false => "no default route goes by it: what leaves is the download, to the devices behind it",
        };
        let mut notes = vec![format!("{interface}: {leads}")];
        if self.looks_behind() {
            notes.push(format!(
                "{interface}: this host routes: devices behind it are told apart, also where it translates addresses (NAT)"
            ));
        }
        if let Some(speed) = self.own_queue {
            notes.push(format!(
                "{interface}: no rate is given, so only its own queue is managed, at the {speed} of the device; \
                 a slower line behind it (a modem, Wi-Fi) keeps its queue: give --rate, or --down and --up"
            ));
        }
        for (rate, what) in [(self.down, "download"), (self.up, "upload")] {
            if rate.is_none() && self.own_queue.is_none() {
                notes.push(format!(
                    "{interface}: no rate of the {what} is given: it is not managed"
                ));
            }
        }
        notes
    }

    /// Whether its packets may be of devices that only this host knows.
    fn looks_behind(&self) -> bool {
        self.to_internet && self.routes
    }

    fn directions(&self) -> Vec<Direction<'_>> {
        let leaving = self.interface.clone();
        let arriving = received(&self.interface);
        let (up, down) = match self.to_internet {
            true => (leaving, arriving),
            false => (arriving, leaving),
        };
        let managed = |name: String, rate: Option<Bandwidth>, what, fair| {
            // Without any rate there is a queue of this host only where packets leave.
            let own = self.own_queue.filter(|_| name == self.interface);
            let rate = rate.or(own)?;
            Some(Direction {
                name,
                what,
                rate,
                fair,
            })
        };
        // Devices send what goes up, and receive what comes down.
        [
            managed(up, self.up, "upload", "dual-srchost"),
            managed(down, self.down, "download", "dual-dsthost"),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// The policy, as somebody would write it.
    pub fn text(&self) -> String {
        let Self { interface, .. } = self;
        let directions = self.directions();
        let is_managed = |name: &str| directions.iter().any(|direction| direction.name == name);
        let mut text = format!(
            "# The line by {interface}: short queues, and each device its share.\nversion = 1\n\n[port]\n"
        );
        for (name, needs) in [
            (interface.clone(), Needs::OneInterface),
            (received(interface), Needs::Received),
        ] {
            if is_managed(&name) {
                // The example, of this interface.
                text += &needs.example().trim_matches('`').replace("eth0", interface);
                text += "\n";
            }
        }
        for Direction {
            name,
            what,
            rate,
            fair,
        } in &directions
        {
            let way = match name == interface {
                true => "what leaves",
                false => "what arrives",
            };
            let key = match name == interface && interface.chars().all(|c| c.is_ascii_alphanumeric()) {
                true => name.clone(),
                false => format!("\"{name}\""),
            };
            text += &format!(
                "\n[interface.{key}]   # the {what}: {way} by {interface}\nbandwidth = \"{rate}\"\n"
            );
            if self.max_frame != USUAL {
                text += &format!("max_frame = \"{} B\"\n", self.max_frame.get());
            }
            if self.own_queue.is_some() {
                text += "overhead = \"24 B\"   # what Ethernet adds on the wire\n";
            }
            if self.looks_behind() {
                text += "nat = true   # devices behind this host have shares of their own\n";
            }
            text += &format!("discipline = {{ kind = \"cake\", fair = \"{fair}\" }}\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::policy::Policy;
    use engine::tree::Registry;

    fn line(to_internet: bool, down: Option<u64>, up: Option<u64>) -> LinePolicy {
        LinePolicy {
            interface: "wan-0".into(),
            to_internet,
            routes: false,
            max_frame: Bytes::new(1_506),
            down: down.map(Bandwidth::mbit),
            up: up.map(Bandwidth::mbit),
            own_queue: (down.or(up).is_none()).then(|| Bandwidth::gbit(1)),
        }
    }

    fn managed(line: &LinePolicy) -> Vec<(String, u64, String)> {
        let text = line.text();
        let read = Policy::read("line", &text, &Registry::builtin(), &netio::ports::declared());
        let policy = read.unwrap_or_else(|mistakes| panic!("{text}{}", mistakes.render(false)));
        assert_eq!(policy.warnings.to_string(), "", "{text}");
        let fair = |text: &str| text.split("dual-").nth(1).map(|rest| rest[..7].to_owned());
        let of = |name: &str| {
            text.split(&format!("[interface.\"{name}\"]"))
                .nth(1)
                .and_then(fair)
        };
        let interfaces = policy.interfaces.iter();
        interfaces
            .map(|found| {
                let mbit = found.settings.bandwidth.bits() / 1_000_000;
                (found.name.clone(), mbit, of(&found.name).expect("it is fair"))
            })
            .collect()
    }

    #[test]
    fn devices_share_each_direction_wherever_the_interface_leads() {
        let is = |name: &str, mbit, fair: &str| (name.to_owned(), mbit, fair.to_owned());
        assert_eq!(
            managed(&line(true, Some(240), Some(38))),
            [is("wan-0", 38, "srchost"), is("wan-0:in", 240, "dsthost")]
        );
        assert_eq!(
            managed(&line(false, Some(240), Some(38))),
            [is("wan-0:in", 38, "srchost"), is("wan-0", 240, "dsthost")]
        );
        assert_eq!(
            managed(&line(true, Some(240), None)),
            [is("wan-0:in", 240, "dsthost")]
        );
        // Without a rate there is the device's own queue alone.
        assert_eq!(managed(&line(true, None, None)), [is("wan-0", 1_000, "srchost")]);
        assert_eq!(managed(&line(false, None, None)), [is("wan-0", 1_000, "dsthost")]);
    }

    #[test]
    fn what_is_missing_is_said() {
        let why = LinePolicy::of("no-such-thing", Rates::default()).expect_err("there is none");
        assert_eq!(why, "there is no interface no-such-thing");
        let why = LinePolicy::of("lo", Rates::default()).expect_err("lo has no speed");
        assert!(why.contains("--rate"), "{why}");
        let rates = Rates {
            up: Some(Bandwidth::mbit(5)),
            ..Rates::default()
        };
        let notes = LinePolicy::of("lo", rates).expect("a rate").notes();
        assert!(notes.iter().any(|note| note.contains("download")), "{notes:?}");
    }
}
