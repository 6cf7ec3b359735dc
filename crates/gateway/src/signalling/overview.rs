//! What a node knows, for people and programs.

use super::answers::Answers;
use super::links::Link;
use super::programs::{Flow, Programs, bits, plain, promised};
use super::reasons::reason;
use super::speaker::rate;
use control::reservation::{self, Keys, Notice, PromiseView, SenderView};
use engine::reserved::class_name;
use engine::units::Instant;
use rsvp::books::{Account, Books};
use rsvp::node::{Event, Node, SenderStatus, SessionStatus};
use rsvp::traffic_control::{InterfaceId, Routing};
use rsvp::wire::{Descriptors, ErrorSpec, Sender, Session};

/// A flow as it is shown.
pub fn shown(session: &Session, sender: &Sender) -> reservation::Flow {
    let from_port = match sender {
        Sender::Port { port, .. } => *port,
        Sender::FlowLabel { .. } => 0,
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
pub fn interfaces(links: &[Link], books: &Books, keys: &[Option<Keys>]) -> Vec<reservation::Link> {
    let each = (0..).zip(links).zip(keys).map(|((id, link), keys)| {
        let used = books.used(id);
        reservation::Link {
            name: link.name.clone(),
            addresses: link.addresses.clone(),
            reserved_bps: used.map(|(used, _)| used.bits()),
            reservable_bps: used.map(|(_, whole)| whole.bits()),
            keys: *keys,
            error: link.error.clone(),
        }
    });
    each.collect()
}

/// All senders.
pub fn senders<R: Routing>(
    now: Instant,
    node: &Node<Books, R>,
    links: &[Link],
    programs: &Programs,
    answers: &Answers,
) -> Vec<SenderView> {
    let name = |id: InterfaceId| name(links, id);
    let one = |session: &SessionStatus, sender: &SenderStatus| {
        let flow: Flow = (plain(&session.session), sender.sender);
        SenderView {
            flow: shown(&session.session, &sender.sender),
            sends_bps: bits(sender.tspec.rate),
            previous: sender.previous.map(|(hop, _)| hop.address),
            forgotten_in_s: sender.previous.map(|_| sender.expires.since(now).as_secs_f64()),
            number: programs.number(&flow),
            answered: answers.answered(&flow),
            promises: promises(node.traffic_control(), session, sender, &name),
        }
    };
    let status = node.status();
    status
        .iter()
        .flat_map(|session| session.senders.iter().map(move |sender| one(session, sender)))
        .collect()
}

fn promises(
    books: &Books,
    session: &SessionStatus,
    sender: &SenderStatus,
    name: &impl Fn(InterfaceId) -> String,
) -> Vec<PromiseView> {
    let of = session
        .promises
        .iter()
        .filter(|promise| promise.senders.contains(&sender.sender));
    let one = of.map(|promise| {
        let (rate_bps, guaranteed) = promised(&promise.request.flowspec);
        let queued = matches!(books.account(promise.interface), Some(Account::Managed(_)));
        PromiseView {
            interface: name(promise.interface),
            class: queued.then(|| class_name(promise.handle.0)),
            rate_bps,
            counts_bps: books
                .promise(promise.handle)
                .map_or(0, |promise| promise.counts.bits()),
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
        Event::Refused {
            session,
            interface,
            wanted,
            refused,
            ..
        } => {
            let name = name(links, *interface);
            let why = reason(refused.code, refused.value);
            let message = format!(
                "refused on {name}: {why}; asked {}, left {}",
                refused.asked, refused.available
            );
            ("refused", first(session, wanted), message)
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
pub fn first<'a, F>(session: &'a Session, descriptors: &Descriptors<F>) -> Option<(&'a Session, Sender)> {
    let sender = match descriptors {
        Descriptors::Fixed(list) => list.first().map(|(_, sender)| *sender),
        Descriptors::SharedExplicit(_, senders) => senders.first().copied(),
        Descriptors::Wildcard(_) | Descriptors::Unknown(..) => None,
    };
    sender.map(|sender| (session, sender))
}
