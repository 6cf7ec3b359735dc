//! Options that the RSVP verbs share: those of a node without a data plane, rates and protocols.

use crate::log::LogOptions;
use clap::Args;
use control::rsvp_config::{AcceptRule, RsvpConfig, RsvpSettings};
use engine::units::{Bandwidth, Duration};

/// The options of a node without a data plane.
#[derive(Debug, Args)]
pub struct NodeArgs {
    /// Speak RSVP on this interface only; may be repeated. By default all with an address
    #[arg(long, value_name = "NAME")]
    interface: Vec<String>,
    /// The mean refresh period R
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = refresh)]
    refresh: Duration,
    /// A key file that authenticates messages; only this user may read it (mode 600)
    #[arg(long, value_name = "FILE")]
    keys: Option<String>,
    /// No refresh reduction (RFC 2961), for neighbours that misread it
    #[arg(long)]
    no_refresh_reduction: bool,
    /// Name or path of the control socket
    #[arg(long, value_name = "NAME|PATH", default_value = "rsvp")]
    pub socket: String,
    #[command(flatten)]
    pub log: LogOptions,
}

fn refresh(text: &str) -> Result<Duration, String> {
    let read: Duration = text
        .parse()
        .map_err(|e: engine::units::UnitError| e.to_string())?;
    let sound = read >= Duration::from_millis(100) && read <= Duration::from_secs(3600);
    sound
        .then_some(read)
        .ok_or_else(|| "the refresh period must be from 100 ms to 1 h".into())
}

/// A transport protocol by name or number.
pub fn protocol(text: &str) -> Result<u8, String> {
    control::filters::protocol_number(text)
}

impl NodeArgs {
    /// The configuration of a node with these rules.
    pub fn config(&self, accept: Vec<AcceptRule>) -> RsvpConfig {
        RsvpConfig {
            interfaces: self.interface.clone(),
            settings: RsvpSettings {
                keys: self.keys.clone(),
                refresh_reduction: !self.no_refresh_reduction,
                ..RsvpSettings::refreshed(self.refresh)
            },
            unprotected: Vec::new(),
            accept,
        }
    }
}

/// A rate on the command line: as in a policy, or a number with k, M or G, in bit/s.
pub fn rate(text: &str) -> Result<Bandwidth, String> {
    let short = text.ends_with(['k', 'M', 'G', 'T']);
    let text = if short {
        format!("{text}bit/s")
    } else {
        text.into()
    };
    text.parse().map_err(|e: engine::units::UnitError| e.to_string())
}
