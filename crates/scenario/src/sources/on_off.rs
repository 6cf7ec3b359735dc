//! `on-off`: a constant rate in on periods, silence in off periods.

use super::datagrams::{PACKETS, PacketSettings, read_packets, refuse_rate};
use super::kind::{FlowContext, FlowSource, SettingGroup, SourceKind, SourceReader, Transport};
use engine::settings;
use engine::units::{Bandwidth, Bytes, Duration};
use measure::distribution::Drawn;
use sim::agent::Agent;
use sim::sources::{OnOff, SendRate, TimeDistribution};
use std::sync::Arc;

/// The kind, for the list.
pub static KIND: SourceKind = SourceKind {
    name: "on-off",
    summary: "a constant rate in on periods, silence in off periods",
    transport: Transport::Udp,
    settings: &[&PACKETS, &OWN],
    read,
};

settings! {
    /// Settings of `on-off` alone.
    pub struct OnOffSettings {
        /// The rate while it is on, counted in frames
        rate: Bandwidth = required, "", "";
        /// How long it is on
        on: Drawn<Duration> = required, "", "";
        /// How long it is off
        off: Drawn<Duration> = required, "", "";
        /// Whether `on` and `off`, where they are times, are means of exponential distributions
        random: bool = default "true", "false: equal sources stay in step", "the usual model of a talker";
    }
}

static OWN: SettingGroup = SettingGroup(OnOffSettings::SETTINGS);

#[derive(Debug)]
struct OnOffPeriods {
    packets: PacketSettings,
    own: OnOffSettings,
}

fn read(reader: &mut SourceReader<'_>) -> Option<Arc<dyn FlowSource>> {
    let packets = read_packets(reader);
    let own = reader.group(OnOffSettings::SETTINGS, OnOffSettings::read);
    let (packets, own) = (packets?, own?);
    refuse_rate(reader, own.rate);
    reader.refuse(
        "on",
        own.on.distribution.always() == Some(0),
        "`on` must be more than 0 s",
    );
    Some(Arc::new(OnOffPeriods { packets, own }))
}

impl FlowSource for OnOffPeriods {
    fn label(&self) -> String {
        KIND.name.into()
    }

    fn frames(&self) -> Option<[Bytes; 2]> {
        Some(self.packets.frames())
    }

    fn agents(&self, context: &FlowContext<'_>) -> Vec<[Box<dyn Agent>; 2]> {
        let period = |drawn: &Drawn<Duration>| match drawn.distribution.always().map(Duration::from_nanos) {
            Some(mean) if self.own.random => TimeDistribution::Exponential(mean),
            Some(always) => TimeDistribution::Fixed(always),
            None => TimeDistribution::Drawn(drawn.distribution.clone()),
        };
        let rate = SendRate::Rate(self.own.rate);
        let timing = OnOff::new(rate, period(&self.own.on), period(&self.own.off), context.seed);
        self.packets.agents(context, timing)
    }
}
