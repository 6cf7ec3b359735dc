//! The status and the events of a node, for the control protocol.

use super::interfaces::SignallingInterface;
use super::local_senders::{Flow, LocalSenders, bits, plain, reserved_rate};
use super::receiver_proxy::ReceiverProxy;
use control::reservation::{self, InstalledReservation, KeysView, Notice, SenderView};
use engine::reservation::class_name;
use engine::units::{Bandwidth, Duration, Instant};
use rsvp::admission::{AdmissionState, InterfaceBudget};
use rsvp::node::{Event, Node, PsbStatus, SessionStatus};
use rsvp::reasons::reason;
use rsvp::traffic_control::{InterfaceId, Routing};
use rsvp::wire::{Descriptors, ErrorSpec, SenderTemplate, Session, code};

/// The view of a flow for clients.
pub fn flow_view(session: &Session, sender: &SenderTemplate) -> reservation::FlowView {
    let from_port = match sender {
        SenderTemplate::Port { port, .. } => *port,
        SenderTemplate::FlowLabel { .. } => 0,
    };
    reservation::FlowView {
        from: sender.address(),
        from_port,
        to: session.destination,
        port: session.port,
        protocol: session.protocol,
    }
}

/// A rate, human-readable.
pub fn rate(bps: u64) -> String {
    Bandwidth::bits_per_sec(bps).to_string()
}

/// The name of an interface.
pub fn name(interfaces: &[SignallingInterface], id: InterfaceId) -> String {
    let interface = interfaces.get(id as usize);
    interface.map_or_else(|| id.to_string(), |interface| interface.name.clone())
}

/// The interfaces, with their reservations and keys.
pub fn interfaces(
    interfaces: &[SignallingInterface],
    admission: &AdmissionState,
    keys: &[Option<KeysView>],
) -> Vec<reservation::RsvpInterfaceView> {
    let each = (0..).zip(interfaces).zip(keys).map(|((id, interface), keys)| {
        let usage = admission.usage(id);
        reservation::RsvpInterfaceView {
            name: interface.name.clone(),
            addresses: interface.addresses.clone(),
            reserved_bps: usage.map(|usage| usage.reserved.bits()),
            reservable_bps: usage.map(|usage| usage.reservable.bits()),
            keys: *keys,
            error: interface.error.clone(),
        }
    });
    each.collect()
}

/// All senders, with their reservations.
pub fn senders<R: Routing>(
    now: Instant,
    node: &Node<AdmissionState, R>,
    interfaces: &[SignallingInterface],
    local: &LocalSenders,
    proxy: &ReceiverProxy,
) -> Vec<SenderView> {
    let name = |id: InterfaceId| name(interfaces, id);
    let one = |session: &SessionStatus, sender: &PsbStatus| {
        let flow: Flow = (plain(&session.session), sender.sender);
        SenderView {
            flow: flow_view(&session.session, &sender.sender),
            sends_bps: bits(sender.tspec.rate),
            previous: sender.phop.map(|phop| phop.hop.address),
            forgotten_in_s: sender.phop.map(|_| sender.expires.since(now).as_secs_f64()),
            number: local.number(&flow),
            answered: proxy.answered(&flow),
            bound_ns: proxy.bound(&flow).map(Duration::nanos),
            reservations: reservations(node.traffic_control(), session, sender, &name),
        }
    };
    let status = node.status();
    status
        .iter()
        .flat_map(|session| session.psbs.iter().map(move |sender| one(session, sender)))
        .collect()
}

fn reservations(
    admission: &AdmissionState,
    session: &SessionStatus,
    sender: &PsbStatus,
    name: &impl Fn(InterfaceId) -> String,
) -> Vec<InstalledReservation> {
    let of = session
        .tcsbs
        .iter()
        .filter(|tcsb| tcsb.senders.contains(&sender.sender));
    let one = of.map(|tcsb| {
        let admitted = tcsb.request.flowspec.effective(&tcsb.request.tspec);
        let (rate_bps, guaranteed) = reserved_rate(&admitted);
        let managed = matches!(
            admission.budget(tcsb.interface),
            Some(InterfaceBudget::Managed(_))
        );
        InstalledReservation {
            interface: name(tcsb.interface),
            class: managed.then(|| class_name(tcsb.rhandle.0)),
            rate_bps,
            link_rate_bps: admission
                .reservation(tcsb.rhandle)
                .map_or(0, |one| one.link_rate.bits()),
            guaranteed,
        }
    });
    one.collect()
}

/// A human-readable notice of an event.
pub fn notice(event: &Event, interfaces: &[SignallingInterface]) -> Notice {
    let failure = |error: &ErrorSpec| match error.code {
        code::CONFIRMATION => format!("{} replies to a trial", error.node),
        _ => format!("{} refuses: {}", error.node, reason(error.code, error.value)),
    };
    let (what, flow, message) = match event {
        Event::Path {
            session,
            sender,
            tspec,
            ..
        } => (
            "path",
            Some((session, *sender)),
            format!("sends {}", rate(bits(tspec.rate))),
        ),
        Event::PathEnded { session, sender } => ("path-ended", Some((session, *sender)), "has ended".into()),
        Event::PathFailed {
            session,
            sender,
            error,
        } => {
            let what = if error.code == code::CONFIRMATION {
                "offer"
            } else {
                "failed"
            };
            (what, Some((session, *sender)), failure(error))
        }
        Event::Reserved {
            session,
            sender,
            flowspec,
            ..
        } => (
            "reserved",
            Some((session, *sender)),
            format!("{} reserved", rate(reserved_rate(flowspec).0)),
        ),
        Event::Unreserved { session, sender } => (
            "unreserved",
            Some((session, *sender)),
            "no longer reserved".into(),
        ),
        Event::ReservationFailed {
            session,
            failed,
            error,
            ..
        } => ("failed", first(session, failed), failure(error)),
        Event::Limited { neighbour, .. } => (
            "limit",
            None,
            format!("a limit of state was reached by {}", neighbour.address),
        ),
        Event::Confirmed {
            session, confirmed, ..
        } => ("confirmed", first(session, confirmed), "confirmed".into()),
        Event::AdmissionFailed {
            session,
            interface,
            requested,
            failure: refused,
            ..
        } => {
            let name = name(interfaces, *interface);
            let why = reason(refused.error.code, refused.error.value);
            let message = format!(
                "refused on {name}: {why}; requested {}, available {}",
                refused.requested, refused.available
            );
            ("refused", first(session, requested), message)
        }
    };
    let flow = flow.map(|(session, sender)| flow_view(session, &sender));
    let message = match &flow {
        Some(flow) => format!("{flow}: {message}"),
        None => message,
    };
    Notice {
        what: what.into(),
        flow,
        message,
    }
}

/// The first flow of a flow descriptor list.
pub fn first<'a, F>(
    session: &'a Session,
    descriptors: &Descriptors<F>,
) -> Option<(&'a Session, SenderTemplate)> {
    let sender = match descriptors {
        Descriptors::Fixed(list) => list.first().map(|(_, sender)| *sender),
        Descriptors::SharedExplicit(_, senders) => senders.first().copied(),
        Descriptors::Wildcard(_) | Descriptors::Unknown(..) => None,
    };
    sender.map(|sender| (session, sender))
}
