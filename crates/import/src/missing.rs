//! What files of other programs leave to somebody else to say.

use engine::units::Bandwidth;

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
}
