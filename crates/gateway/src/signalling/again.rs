//! What RSVP did, done again from a recording: the same node with the same admission control, and
//! no sockets, routes or clock.

use super::interfaces::SignallingInterface;
use super::local_senders::bits;
use super::overview::{self, first, flow_view, rate};
use super::trees::budget;
use control::policy::InterfacePolicy;
use control::recorded::RecordedSignalling;
use engine::tree::Registry;
use engine::units::Instant;
use rsvp::admission::{AdmissionState, InterfaceBudget};
use rsvp::reasons::reason;
use rsvp::tape::Held;
use rsvp::tape::again::{Again, NodeStep, again};
use rsvp::traffic_control::{
    AdmissionFailure, Advertised, Granted, InterfaceId, RHandle, TcRequest, TrafficControl,
};
use rsvp::wire::{ErrorSpec, Flowspec, Frame, Message, SenderTemplate, Session};

/// Admission control with the policies of a recording.
struct Admission<'a> {
    state: AdmissionState,
    policies: &'a [InterfacePolicy],
}

impl Again for Admission<'_> {
    fn enter(&mut self, interface: InterfaceId, number: Option<u32>, mtu: u32) -> Option<()> {
        let entered = match number {
            Some(number) => budget(self.policies.get(number as usize)?)?,
            None => InterfaceBudget::Unlimited { mtu },
        };
        self.state.set_budget(interface, entered);
        Some(())
    }

    fn held(&self, interface: InterfaceId) -> Held {
        self.state.held(interface)
    }
}

impl TrafficControl for Admission<'_> {
    fn add_flowspec(
        &mut self,
        interface: InterfaceId,
        request: &TcRequest,
    ) -> Result<Granted, AdmissionFailure> {
        self.state.add_flowspec(interface, request)
    }

    fn modify_flowspec(
        &mut self,
        rhandle: RHandle,
        request: &TcRequest,
    ) -> Result<Option<Flowspec>, AdmissionFailure> {
        self.state.modify_flowspec(rhandle, request)
    }

    fn delete_flowspec(&mut self, rhandle: RHandle) {
        self.state.delete_flowspec(rhandle);
    }

    fn add_filter(&mut self, rhandle: RHandle, session: &Session, sender: &SenderTemplate) {
        self.state.add_filter(rhandle, session, sender);
    }

    fn delete_filter(&mut self, rhandle: RHandle, session: &Session, sender: &SenderTemplate) {
        self.state.delete_filter(rhandle, session, sender);
    }

    fn advertise(&self, interface: InterfaceId) -> Advertised {
        self.state.advertise(interface)
    }
}

/// Something that RSVP heard, was told or did again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SignallingStep {
    /// When.
    pub at: Instant,
    /// `heard` a message, `asked` for something by a program of this host, `ended` by it, `sent` a
    /// message, `told` a program of this host, `reserved`.
    pub what: &'static str,
    /// The interface, where there is one.
    pub interface: Option<String>,
    /// What it was.
    pub words: String,
}

impl SignallingStep {
    fn of(at: Instant, step: &NodeStep<'_>, interfaces: &[SignallingInterface]) -> Self {
        let (what, interface, words) = match step {
            NodeStep::Heard(interface, bytes) => ("heard", Some(*interface), message(bytes)),
            NodeStep::Asked(frame) => ("asked", None, request(frame)),
            NodeStep::Ended(frame) => ("ended", None, request(frame)),
            NodeStep::Sent(sent) => (
                "sent",
                Some(sent.interface),
                format!("{} to {}", message(&sent.bytes), sent.destination),
            ),
            NodeStep::Told(event) => ("told", None, overview::notice(event, interfaces).message),
            NodeStep::Installed(interface, held) => (
                "reserved",
                Some(*interface),
                format!("{} in {} reservations", held.rate, held.reservations),
            ),
        };
        Self {
            at,
            what,
            interface: interface.map(|interface| overview::name(interfaces, interface)),
            words,
        }
    }
}

/// A message by its name and flow.
fn message(bytes: &[u8]) -> String {
    match Frame::decode(bytes) {
        Ok(frame) => request(&frame),
        Err(_) => "a message with a mistake".into(),
    }
}

fn request(frame: &Frame) -> String {
    let resv = |session, flow: Option<(&Session, SenderTemplate)>| match flow {
        Some((session, sender)) => flow_view(session, &sender).to_string(),
        None => to(session),
    };
    let refused = |error: &ErrorSpec| format!(": {}", reason(error.code, error.value));
    match &frame.message {
        Message::Path(path) => {
            let tspec = path.sender.tspec.known();
            let rate = tspec.map_or_else(String::new, |tspec| format!(", {}", rate(bits(tspec.rate))));
            format!("Path {}{rate}", flow_view(&path.session, &path.sender.template))
        }
        Message::PathTear(tear) => format!("PathTear {}", flow_view(&tear.session, &tear.sender)),
        Message::PathErr(error) => {
            let flow = flow_view(&error.session, &error.sender.template);
            format!("PathErr {flow}{}", refused(&error.error))
        }
        Message::Resv(one) => format!(
            "Resv {}",
            resv(&one.session, first(&one.session, &one.descriptors))
        ),
        Message::ResvTear(one) => {
            format!(
                "ResvTear {}",
                resv(&one.session, first(&one.session, &one.descriptors))
            )
        }
        Message::ResvErr(one) => {
            let flow = resv(&one.session, first(&one.session, &one.descriptors));
            format!("ResvErr {flow}{}", refused(&one.error))
        }
        Message::ResvConf(one) => {
            format!(
                "ResvConf {}",
                resv(&one.session, first(&one.session, &one.descriptors))
            )
        }
        // The shims consume these.
        other => format!("a message of type {}", other.kind()),
    }
}

fn to(session: &Session) -> String {
    let Session {
        destination, port, ..
    } = session;
    format!("to {destination} port {port}")
}

/// Does again what RSVP did; `seen` is told each step.
///
/// # Errors
///
/// Returns where and why it cannot be done again as it was.
pub fn signalling_again(
    said: &RecordedSignalling,
    tape: &[u8],
    registry: &Registry,
    seen: &mut dyn FnMut(SignallingStep),
) -> Result<(), String> {
    let names = said.interfaces.iter();
    let interfaces: Vec<_> = names.map(|name| SignallingInterface::new(name)).collect();
    let policies = said
        .policies
        .iter()
        .map(|policy| policy.policy("reserved", registry));
    let policies: Vec<InterfacePolicy> = policies.collect::<Result<_, _>>().map_err(|problems| {
        let why = problems.first().map_or("", |problem| problem.message.as_str());
        format!("a policy of RSVP is one that this suimon does not accept: {why}")
    })?;
    let made = |last| Admission {
        state: AdmissionState::numbered_after(last),
        policies: &policies,
    };
    let mut each = |at, step: NodeStep<'_>| seen(SignallingStep::of(at, &step, &interfaces));
    again(tape, made, &mut each).map_err(|why| format!("RSVP: {why}"))
}
