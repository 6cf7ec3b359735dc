//! A lab: hosts, and the links between them.

use crate::emulator::{EmulatedDirection, Emulator, open_pair, open_tap, tap_is_possible};
use crate::error::{Doing, Result};
use crate::host::{Host, check_interface_name};
use netio::hold_ups::HoldUpLog;
use netio::port::Port;
use netio::ports::captured::Captured;

/// The port at the far end of a direction, with the direction's capture if it has one.
fn captured(
    port: Box<dyn Port>,
    direction: &EmulatedDirection,
    from: &str,
    to: &str,
) -> Result<Box<dyn Port>> {
    let Some(file) = direction.file() else {
        return Ok(port);
    };
    let doing = || format!("write the capture `{}`", file.display());
    let port = Captured::new(port, file, &format!("{from} > {to}")).doing(doing)?;
    Ok(Box::new(port))
}

/// Hosts joined by links. Dropping it ends its links, and its hosts unless clones of them exist.
#[derive(Debug)]
pub struct Lab {
    hosts: Vec<Host>,
    links: Vec<Emulator>,
    /// Whether the ends of emulated links are TAP devices, and not veth pairs.
    tap: bool,
    /// Whether veth pairs use the kernel's arrival timestamp of each frame.
    arrival_times: bool,
    /// The namespace of the far ends of veth pairs.
    wires: Option<Host>,
    /// The hold-ups of the links' threads.
    hold_ups: HoldUpLog,
}

impl Default for Lab {
    fn default() -> Self {
        Self::new()
    }
}

impl Lab {
    /// An empty lab.
    pub fn new() -> Self {
        Self {
            tap: tap_is_possible(),
            ..Self::without_tap()
        }
    }

    /// An empty lab that makes no TAP devices even where they are available; see
    /// [`crate::emulator`].
    pub fn without_tap() -> Self {
        Self {
            hosts: Vec::new(),
            links: Vec::new(),
            tap: false,
            arrival_times: false,
            wires: None,
            hold_ups: HoldUpLog::default(),
        }
    }

    /// An empty lab for fast links. Links use the kernel's arrival timestamp of each frame, so that
    /// a delayed thread neither drops nor bunches what arrived meanwhile, and they do not spin.
    /// Without TAP devices, which have no timestamps.
    pub fn with_arrival_times() -> Self {
        Self {
            arrival_times: true,
            ..Self::without_tap()
        }
    }

    /// Adds a host.
    ///
    /// # Errors
    /// If its namespace cannot be made.
    pub fn host(&mut self, name: &str) -> Result<Host> {
        let host = Host::new(name)?;
        self.hosts.push(host.clone());
        Ok(host)
    }

    /// The hosts, in the order in which they were added.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The emulated links, in the order in which they were made.
    pub fn links(&self) -> &[Emulator] {
        &self.links
    }

    /// Where the links' threads write down when they were held up.
    pub fn hold_ups(&self) -> &HoldUpLog {
        &self.hold_ups
    }

    /// Joins two hosts by a veth pair: no limit, no delay. Both interfaces are up afterwards.
    ///
    /// # Errors
    /// If the interfaces cannot be made.
    pub fn veth(&mut self, a: (&Host, &str), b: (&Host, &str)) -> Result<()> {
        check_interface_name(a.1)?;
        check_interface_name(b.1)?;
        a.0.netlink(|n| n.veth(a.1, b.1, b.0.namespace()))?;
        for (host, interface) in [a, b] {
            host.netlink(|n| n.up(interface))?;
        }
        Ok(())
    }

    /// Joins two hosts by an emulated link, whose directions may differ. Both interfaces are up
    /// afterwards. Returns the link's index in [`links`](Self::links).
    ///
    /// # Errors
    /// If an interface or the link's thread cannot be made.
    pub fn link(
        &mut self,
        a: (&Host, &str),
        b: (&Host, &str),
        forth: impl Into<EmulatedDirection>,
        back: impl Into<EmulatedDirection>,
    ) -> Result<usize> {
        let number = self.links.len();
        let ports = [self.open(a, number, 0)?, self.open(b, number, 1)?];
        let names = [a.0.name(), b.0.name()];
        let directions: [EmulatedDirection; 2] = [forth.into(), back.into()];
        let [at_a, at_b] = ports;
        let ports = [
            captured(at_a, &directions[1], names[1], names[0])?,
            captured(at_b, &directions[0], names[0], names[1])?,
        ];
        let spin = !self.arrival_times;
        let link = Emulator::start(names, ports, directions, spin, &self.hold_ups)?;
        self.links.push(link);
        Ok(number)
    }

    /// Opens one end of an emulated link.
    fn open(&mut self, (host, interface): (&Host, &str), link: usize, side: usize) -> Result<Box<dyn Port>> {
        check_interface_name(interface)?;
        if self.tap {
            return open_tap(host, interface);
        }
        let wires = match &self.wires {
            Some(wires) => wires,
            None => self.wires.insert(Host::new("wires")?),
        };
        open_pair(
            host,
            interface,
            wires,
            &format!("wire{link}.{side}"),
            self.arrival_times,
        )
    }
}
