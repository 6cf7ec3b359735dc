//! What a node knows, for people and programs.

use super::answers::Answers;
use super::links::Link;
use super::programs::{Flow, Programs, bits, plain, promised};
use super::reasons::reason;
use super::speaker::rate;
use control::reservation::{self, Keys, Notice, PromiseView, SenderView};
use engine::reserved::class_name;
use engine::units::Instant;
use rsvp::admission::{AdmissionState, InterfaceBudget};
use rsvp::node::{Event, Node, PsbStatus, SessionStatus};
use rsvp::traffic_control::{InterfaceId, Routing};
use rsvp::wire::{Descriptors, ErrorSpec, SenderTemplate, Session};

/// A flow as it is shown.
pub fn shown(session: &Session, sender: &SenderTemplate) -> reservation::Flow {
    let from_port = match sender {
        SenderTemplate::Port { port, .. } => *port,
        SenderTemplate::FlowLabel { .. } => 0,
    };
    reservation::Flow {
        from: sender.address(),
        from_port,
        to: session.destination,
        port: session.port,
        protocol: session.protocol,
    }
}

/// The name of an interface.
pub fn name(links: &[Link], id: InterfaceId) -> String {
    let link = links.get(id as usize);
    link.map_or_else(|| id.to_string(), |link| link.name.clone())
}

/// The interfaces, with what is reserved on them, and how their messages are protected.
pub fn interfaces(
    links: &[Link],
    admission: &AdmissionState,
    keys: &[Option<Keys>],
) -> Vec<reservation::Link> {
    let each = (0..).zip(links).zip(keys).map(|((id, link), keys)| {
        let usage = admission.usage(id);
        reservation::Link {
            name: link.name.clone(),
            addresses: link.addresses.clone(),
            reserved_bps: usage.map(|usage| usage.reserved.bits()),
            reservable_bps: usage.map(|usage| usage.reservable.bits()),
            keys: *keys,
            error: link.error.clone(),
        }
    });
    each.collect()
}

/// All senders.
pub fn senders<R: Routing>(
    now: Instant,
    node: &Node<AdmissionState, R>,
    links: &[Link],
    programs: &Programs,
    answers: &Answers,
) -> Vec<SenderView> {
    let name = |id: InterfaceId| name(links, id);
    let one = |session: &SessionStatus, sender: &PsbStatus| {
        let flow: Flow = (plain(&session.session), sender.sender);
        SenderView {
            flow: shown(&session.session, &sender.sender),
            sends_bps: bits(sender.tspec.rate),
            previous: sender.phop.map(|phop| phop.hop.address),
            forgotten_in_s: sender.phop.map(|_| sender.expires.since(now).as_secs_f64()),
            number: programs.number(&flow),
            answered: answers.answered(&flow),
            promises: promises(node.traffic_control(), session, sender, &name),
        }
    };
    let status = node.status();
    status
        .iter()
        .flat_map(|session| session.psbs.iter().map(move |sender| one(session, sender)))
        .collect()
}

fn promises(
    admission: &AdmissionState,
    session: &SessionStatus,
    sender: &PsbStatus,
    name: &impl Fn(InterfaceId) -> String,
) -> Vec<PromiseView> {
    let of = session
        .tcsbs
        .iter()
        .filter(|promise| promise.senders.contains(&sender.sender));
    let one = of.map(|promise| {
        let (rate_bps, guaranteed) = promised(&promise.request.flowspec);
        let queued = matches!(
            admission.budget(promise.interface),
            Some(InterfaceBudget::Managed(_))
        );
        PromiseView {
            interface: name(promise.interface),
            class: queued.then(|| class_name(promise.rhandle.0)),
            rate_bps,
            counts_bps: admission
                .reservation(promise.rhandle)
                .map_or(0, |promise| promise.link_rate.bits()),
            guaranteed,
        }
    });
    one.collect()
}

/// What happened, in words.
pub fn notice(event: &Event, links: &[Link]) -> Notice {
    let failure = |error: &ErrorSpec| format!("{} refuses: {}", error.node, reason(error.code, error.value));
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
        } => ("failed", Some((session, *sender)), failure(error)),
        Event::Reserved {
            session,
            sender,
            flowspec,
            ..
        } => (
            "reserved",
            Some((session, *sender)),
            format!("{} reserved", rate(promised(flowspec).0)),
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
            let name = name(links, *interface);
            let why = reason(refused.error.code, refused.error.value);
            let message = format!(
                "refused on {name}: {why}; asked {}, left {}",
                refused.requested, refused.available
            );
            ("refused", first(session, requested), message)
        }
    };
    let flow = flow.map(|(session, sender)| shown(session, &sender));
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

/// One of the flows that descriptors name.
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
