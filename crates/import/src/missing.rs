//! What files of other programs leave to somebody else to say.

use engine::units::Bandwidth;

/// What each client may carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientQuota {
    /// How much in which time, as a policy writes it: `50 GB per month`.
    pub volume: String,
    /// The most that it gets once that is used up; none: that is told only.
    pub rate: Option<Bandwidth>,
}

/// What the files do not say and the caller may.
#[derive(Clone, Debug, Default)]
pub struct Missing {
    /// The bandwidth of what leaves, where the file has none.
    pub up: Option<Bandwidth>,
    /// The bandwidth of what arrives, where the file has none.
    pub down: Option<Bandwidth>,
    /// The interface, or two of a bump in the wire, where the file names none: first the one
    /// towards the devices.
    pub interfaces: Vec<String>,
    /// What each client may carry in a day, a week or a month, where the file names clients and no
    /// volumes.
    pub quota: Option<ClientQuota>,
}
