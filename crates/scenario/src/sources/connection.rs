//! What the kinds with a connection have in common, over TCP or QUIC: its settings, and a program's
//! own congestion control in the place of theirs.

use super::kind::SourceKind;
use engine::units::Bytes;
use sim::tcp::{ControlKind, OwnControl};

/// The settings of a connection as a scenario states them.
pub(super) trait ConnectionSettings: Clone {
    /// Those of the simulator.
    type Simulated;

    /// The congestion control.
    fn control(&self) -> &'static ControlKind;

    /// The simulator's, with a program's own control in the place of theirs, if there is one.
    fn simulated(&self, mtu: Bytes, own: Option<OwnControl>) -> Self::Simulated;
}

/// The connections of a flow.
#[derive(Clone, Debug)]
pub(super) struct Connections<S> {
    pub(super) settings: S,
    own: Option<OwnControl>,
}

impl<S: ConnectionSettings> Connections<S> {
    /// With these settings, and the control that they name.
    pub(super) fn new(settings: S) -> Self {
        Self { settings, own: None }
    }

    /// The same with a program's own control.
    pub(super) fn with(&self, own: OwnControl) -> Self {
        Self {
            own: Some(own),
            ..self.clone()
        }
    }

    /// The label of a source of this kind: that, and the congestion control.
    pub(super) fn label(&self, kind: &SourceKind) -> String {
        match &self.own {
            Some(own) => format!("{} {}", kind.name, own.name),
            None => format!("{} {}", kind.name, self.settings.control()),
        }
    }

    /// The simulator's settings of each.
    pub(super) fn settings(&self, mtu: Bytes) -> S::Simulated {
        self.settings.simulated(mtu, self.own.clone())
    }
}
