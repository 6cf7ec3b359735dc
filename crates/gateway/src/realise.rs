//! Chooses the realiser of a pacing discipline at an interface: the one that the policy
//! configures, if a trial shows that it works there.

use crate::Error;
use control::policy::InterfacePolicy;
use control::port_config::{AttachedPort, GapFrameSetting as Frame, PortConfig, PortSettings, Realise};
use engine::discipline::Pacing;
use engine::inspect::Value;
use engine::units::Bandwidth;
use netio::handle::Realised;
use netio::pool::{Pool, Slots};
use netio::port::{Port, PortError};
use netio::ports::af_packet::{self, AfPacket};
use netio::realiser::gap::{GapFrame, GapFrames};
use netio::realiser::launch::LaunchTime;
use netio::realiser::timer::Timer;
use netio::realiser::{Realiser, RealiserRefusal};

/// A realiser, and the result of its trial; `None` if there was nothing to try.
pub type Chosen = (Box<dyn Realiser>, Option<String>);

/// The gap frame of these settings.
fn frame(settings: &PortSettings) -> GapFrame {
    match settings.gap_frame {
        Frame::Pause => GapFrame::Pause,
        Frame::Void => GapFrame::Void,
    }
}

/// An interface through which paced packets leave.
#[derive(Clone, Debug)]
pub struct PacedInterface {
    name: String,
    address: [u8; 6],
    mtu: usize,
}

impl PacedInterface {
    /// The interface of this name.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no interface of this name, or the kernel cannot be queried.
    pub fn named(name: &str) -> Result<Self, Error> {
        let found =
            netio::interface::Interface::named(name).map_err(|e| PortError::new(name, "looking it up", e))?;
        Ok(Self {
            name: found.name,
            address: found.address,
            mtu: found.mtu,
        })
    }

    /// The longest IP packet.
    pub fn mtu(&self) -> usize {
        self.mtu
    }

    fn gaps(&self, wire: Bandwidth, settings: &PortSettings) -> GapFrames {
        GapFrames::new(frame(settings), self.address, wire, self.mtu)
    }

    fn launch(&self, pacing: Pacing, settings: &PortSettings) -> LaunchTime {
        LaunchTime::new(self.address, pacing, self.mtu, settings.catch_up)
    }

    /// Tries a realiser on a separate port, so that the trial does not affect the port that is
    /// used.
    fn try_out(&self, realiser: &dyn Realiser, ring: usize) -> Result<String, Error> {
        let mut port = AfPacket::open(af_packet::Settings {
            transmit_ring: ring,
            receive: false,
            promiscuous: false,
            ..af_packet::Settings::new(&self.name)
        })?;
        let mut pool = Pool::new(Slots { small: 8, big: 1 }).map_err(Error::Memory)?;
        realiser
            .prove(&mut port, &mut pool)
            .map_err(|why| self.refused(realiser, &why))
    }

    fn refused(&self, realiser: &dyn Realiser, why: &RealiserRefusal) -> Error {
        Error::Realiser(format!(
            "{}: {} cannot work here: {why}",
            self.name,
            description(realiser.name())
        ))
    }

    /// Whether gap frames work here, or why not.
    ///
    /// # Errors
    ///
    /// Returns an error if the interface cannot be opened, there is no memory, or gap frames do not
    /// work on it.
    pub fn try_gaps(&self, wire: Bandwidth, settings: &PortSettings) -> Result<String, Error> {
        self.try_out(&self.gaps(wire, settings), settings.transmit_ring as usize)
    }

    /// Whether launch times work here, or why not.
    ///
    /// # Errors
    ///
    /// Returns an error if the interface cannot be opened, there is no memory, or launch times do
    /// not work on it.
    pub fn try_launch(&self, pacing: Pacing, settings: &PortSettings) -> Result<String, Error> {
        self.try_out(&self.launch(pacing, settings), 1)
    }
}

/// A realiser's human-readable name.
pub fn description(name: &str) -> &'static str {
    match name {
        "gap" => "pacing by gap frames",
        "launch" => "pacing by launch times of the device",
        _ => "pacing by timers",
    }
}

/// The realiser for an interface's egress; `None` if its policy does not pace.
///
/// # Errors
///
/// Returns an error if the interface cannot be found, or the configured realiser cannot work
/// there.
pub fn choose(interface: &InterfacePolicy, config: &PortConfig) -> Result<Option<Chosen>, Error> {
    let Some(pacing) = interface.plan.root.plan.pacing() else {
        return Ok(None);
    };
    let settings = &config.settings;
    // Without a wire only timers work.
    let port = config.of_interface(&interface.name);
    if !port.is_some_and(AttachedPort::has_wire) {
        let mtu = interface.settings.max_frame.get() as usize;
        return match (pacing.frames, settings.realiser) {
            (false, Realise::Timer | Realise::Auto) => {
                Ok(Some((Box::new(Timer::new(pacing, mtu, settings.catch_up)), None)))
            }
            _ => Err(Error::Realiser(format!(
                "{}: a port of kind `{}` has no wire; write `gap = \"timer\"` in the discipline, and no `realiser`",
                interface.name,
                port.map_or("unknown", AttachedPort::kind_name)
            ))),
        };
    }
    let paced = PacedInterface::named(&interface.name)?;
    let help = |why: Error, remedy: &str| match why {
        Error::Realiser(why) => Error::Realiser(format!("{why}; {remedy}")),
        other => other,
    };
    if pacing.frames {
        let found = paced.try_gaps(pacing.wire, settings);
        let found = found.map_err(|why| help(why, "`gap = \"timer\"` in the discipline works everywhere"))?;
        return Ok(Some((Box::new(paced.gaps(pacing.wire, settings)), Some(found))));
    }
    let timer =
        |why: Option<String>| -> Chosen { (Box::new(Timer::new(pacing, paced.mtu, settings.catch_up)), why) };
    Ok(Some(match settings.realiser {
        Realise::Timer => timer(None),
        Realise::Launch => {
            let found = paced.try_launch(pacing, settings);
            let found = found.map_err(|why| help(why, "`realiser = \"timer\"` works everywhere"))?;
            (Box::new(paced.launch(pacing, settings)), Some(found))
        }
        Realise::Auto => match paced.try_launch(pacing, settings) {
            Ok(found) => (Box::new(paced.launch(pacing, settings)), Some(found)),
            Err(why) => timer(Some(why.to_string())),
        },
    }))
}

/// Prepares the port in use.
///
/// # Errors
///
/// Returns an error if the realiser cannot work with the port.
pub fn attach(interface: &str, realiser: &mut dyn Realiser, port: &mut dyn Port) -> Result<(), Error> {
    realiser.attach(port).map_err(|why| {
        let name = description(realiser.name());
        Error::Realiser(format!(
            "{interface}: {name} cannot work here: {why}; use `gap = \"timer\"`"
        ))
    })
}

/// Its precision, as gauges of the interface.
pub fn gauges(realised: &Realised) -> Vec<(&'static str, Value)> {
    let achieved = &realised.achieved;
    let lateness = &achieved.lateness;
    let mut gauges = vec![
        ("realiser", Value::State(realised.by)),
        ("waited", Value::Count(lateness.count())),
        ("late-p50", Value::Duration(lateness.quantile(500))),
        ("late-p99", Value::Duration(lateness.quantile(990))),
        ("late-p999", Value::Duration(lateness.quantile(999))),
        ("late-longest", Value::Duration(lateness.longest())),
        ("late-starts", Value::Count(achieved.late)),
        ("held-up", Value::Duration(achieved.held_up)),
    ];
    if realised.by == "gap" {
        gauges.extend([
            ("dry-rings", Value::Count(achieved.dry)),
            ("gap-frames", Value::Count(achieved.gaps.packets)),
            ("gap-bytes", Value::Bytes(achieved.gaps.bytes)),
        ]);
    }
    gauges
}
