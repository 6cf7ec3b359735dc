//! A tape done again: the same calls of a new node, whose messages, upcalls and reservations are
//! held to those of the first.

use super::entry::{Entries, Entry, Fields, Kind};
use super::{digest_of_message, digest_of_upcall};
use crate::node::{Event, Node, ReceiverId, RsvpInterface, Settings, Transmit};
use crate::places::Places;
use crate::tape::Held;
use crate::traffic_control::{InterfaceId, Route, Routing, TrafficControl};
use crate::wire::{Content, Descriptors, Flowspec, Frame, Message, Refresh};
use core::cell::{Cell, RefCell};
use core::fmt;
use core::net::IpAddr;
use engine::random::Seed;
use engine::units::Instant;
use std::collections::VecDeque;

/// Something that happened again.
#[derive(Clone, Copy, Debug)]
pub enum NodeStep<'a> {
    /// A message arrived on an interface.
    Heard(InterfaceId, &'a [u8]),
    /// An application on this host asked for something, as the message that says the same.
    Asked(&'a Frame),
    /// An application on this host released what it had reserved or announced.
    Ended(&'a Frame),
    /// A message was sent.
    Sent(&'a Transmit),
    /// An application on this host was told something.
    Told(&'a Event),
    /// This is reserved on an interface, and enforced.
    Installed(InterfaceId, Held),
}

/// Why a tape cannot be done again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotAgain {
    /// When.
    pub at: Instant,
    /// Why.
    pub why: &'static str,
}

impl fmt::Display for NotAgain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ns: {}", self.at.nanos(), self.why)
    }
}

impl std::error::Error for NotAgain {}

const DAMAGED: &str = "the tape is damaged";

/// The answers of the first time, in their order.
#[derive(Debug, Default)]
struct Answers {
    left: RefCell<VecDeque<(Option<IpAddr>, IpAddr, Route)>>,
    wrong: Cell<bool>,
}

impl Routing for Answers {
    fn route(&self, source: Option<IpAddr>, destination: IpAddr) -> Route {
        match self.left.borrow_mut().pop_front() {
            Some((from, to, route)) if (from, to) == (source, destination) => route,
            _ => {
                self.wrong.set(true);
                Route::NONE
            }
        }
    }
}

type NodeAgain<T> = Node<T, Answers>;

/// Traffic control of the node that does it again.
pub trait Again: TrafficControl {
    /// What may be reserved on an interface from now on: what the host kept under this number, or
    /// anything, in datagrams of at most `mtu` bytes. None if nothing was kept.
    fn enter(&mut self, interface: InterfaceId, number: Option<u32>, mtu: u32) -> Option<()>;
    /// What is reserved on an interface.
    fn held(&self, interface: InterfaceId) -> Held;
}

/// Does a tape again, with traffic control that `made` makes, whose last reservation had this
/// number; `seen` is told each step.
///
/// # Errors
///
/// Returns where and why it cannot be done again as it was.
pub fn again<T: Again>(
    tape: &[u8],
    made: impl FnOnce(u64) -> T,
    seen: &mut dyn FnMut(Instant, NodeStep<'_>),
) -> Result<(), NotAgain> {
    let mut entries = Entries(tape).peekable();
    let mut at = Instant::START;
    let damaged = |at| NotAgain { at, why: DAMAGED };
    let begin = entries.next().flatten().filter(|entry| entry.kind == Kind::Begin);
    let mut node = begin
        .and_then(|entry| beginning(entry.body, made))
        .ok_or(damaged(at))?;
    while let Some(entry) = entries.next() {
        let entry = entry.filter(|entry| entry.at >= at).ok_or(damaged(at))?;
        at = entry.at;
        let is_answer = |next: &Option<Entry<'_>>| next.is_some_and(|next| next.kind == Kind::Route);
        while let Some(Some(answer)) = entries.next_if(is_answer) {
            let answer = route(answer.body).ok_or(damaged(at))?;
            node.routing_mut().left.borrow_mut().push_back(answer);
        }
        let done = match entry.kind {
            Kind::Sent | Kind::Upcall | Kind::Installed => check(&mut node, entry, seen)?,
            Kind::Budget => entered(&mut node, entry.body),
            _ => call(&mut node, entry, seen),
        };
        done.ok_or(damaged(at))?;
        let routing = node.routing();
        if routing.wrong.get() || !routing.left.borrow().is_empty() {
            let why = "it asks for other routes";
            return Err(NotAgain { at, why });
        }
    }
    match node.poll_transmit().is_some() || node.poll_event().is_some() {
        true => Err(NotAgain {
            at,
            why: "it does more than it did",
        }),
        false => Ok(()),
    }
}

fn beginning<T: Again>(mut body: Fields<'_>, made: impl FnOnce(u64) -> T) -> Option<NodeAgain<T>> {
    let (seed, last) = (Seed(body.u64()?), body.u64()?);
    let mut places = || -> Option<Places> {
        let mut part = || usize::try_from(body.u64()?).ok();
        Some(Places {
            total: part()?,
            interface: part()?,
            neighbour: part()?,
        })
    };
    let settings = Settings {
        max_senders: places()?,
        max_reservations: places()?,
        longest_refresh: Refresh::millis(body.u32()?),
        ..Settings::new(Vec::new(), seed)
    };
    Some(Node::new(settings, made(last), Answers::default()))
}

fn route(mut body: Fields<'_>) -> Option<(Option<IpAddr>, IpAddr, Route)> {
    let (source, destination) = (body.address()?, body.address()??);
    let local = body.u8()? != 0;
    let incoming = Some(body.u32()?).filter(|incoming| *incoming != u32::MAX);
    let mut outgoing = Vec::new();
    while !body.is_empty() {
        outgoing.push(body.u32()?);
    }
    let route = Route {
        incoming,
        outgoing,
        local,
    };
    Some((source, destination, route))
}

fn entered<T: Again>(node: &mut NodeAgain<T>, mut body: Fields<'_>) -> Option<()> {
    let (interface, number, mtu) = (body.u32()?, body.u32()?, body.u32()?);
    let number = Some(number).filter(|number| *number != u32::MAX);
    node.traffic_control_mut().enter(interface, number, mtu)
}

/// Makes a call; none if it is none.
fn call<T: Again>(
    node: &mut NodeAgain<T>,
    Entry { kind, at, mut body }: Entry<'_>,
    seen: &mut dyn FnMut(Instant, NodeStep<'_>),
) -> Option<()> {
    match kind {
        Kind::Heard => {
            let (interface, ttl) = (body.u32()?, body.u8()?);
            seen(at, NodeStep::Heard(interface, body.0));
            // What is no message was counted, and changed nothing.
            let _ = node.handle_packet(at, interface, ttl, body.0);
        }
        Kind::Timers => node.handle_timeout(at),
        Kind::RoutesChanged => node.routes_changed(at),
        Kind::Resynchronise => node.resynchronise(at, body.u32()?),
        Kind::Interface => {
            let (id, refresh) = (body.u32()?, Refresh::millis(body.u32()?));
            let mut addresses = Vec::new();
            while !body.is_empty() {
                addresses.push(body.address()??);
            }
            node.set_interface(id, RsvpInterface { addresses, refresh });
        }
        Kind::Reserve | Kind::Release => {
            let receiver = ReceiverId(body.u64()?);
            return asked(node, at, kind, receiver, body.0, seen);
        }
        _ => return asked(node, at, kind, ReceiverId(0), body.0, seen),
    }
    Some(())
}

/// Makes a call of an application. What was refused then is refused again.
fn asked<T: Again>(
    node: &mut NodeAgain<T>,
    at: Instant,
    kind: Kind,
    receiver: ReceiverId,
    bytes: &[u8],
    seen: &mut dyn FnMut(Instant, NodeStep<'_>),
) -> Option<()> {
    let frame = Frame::decode(bytes).ok()?;
    match kind {
        Kind::AddSender | Kind::Reserve => seen(at, NodeStep::Asked(&frame)),
        _ => seen(at, NodeStep::Ended(&frame)),
    }
    match (kind, &frame.message) {
        (Kind::AddSender, Message::Path(path)) => {
            let tspec = *path.sender.tspec.known()?;
            let _ = node.add_sender(at, path.session, path.sender.template, tspec);
        }
        (Kind::RemoveSender, Message::PathTear(tear)) => node.remove_sender(at, &tear.session, tear.sender),
        (Kind::Reserve, Message::Resv(resv)) => {
            let _ = node.reserve(at, receiver, &resv.session, known(&resv.descriptors)?);
        }
        (Kind::Release, Message::PathTear(tear)) => node.release(at, receiver, &tear.session),
        _ => return None,
    }
    Some(())
}

fn known(descriptors: &Descriptors<Content<Flowspec>>) -> Option<Descriptors<Flowspec>> {
    Some(match descriptors {
        Descriptors::Wildcard(flowspec) => Descriptors::Wildcard(*flowspec.known()?),
        Descriptors::Fixed(list) => {
            let each = list
                .iter()
                .map(|(flowspec, sender)| Some((*flowspec.known()?, *sender)));
            Descriptors::Fixed(each.collect::<Option<_>>()?)
        }
        Descriptors::SharedExplicit(flowspec, senders) => {
            Descriptors::SharedExplicit(*flowspec.known()?, senders.clone())
        }
        Descriptors::Unknown(..) => return None,
    })
}

/// Holds what the node does to what it did; none if the entry is damaged.
fn check<T: Again>(
    node: &mut NodeAgain<T>,
    Entry { kind, at, mut body }: Entry<'_>,
    seen: &mut dyn FnMut(Instant, NodeStep<'_>),
) -> Result<Option<()>, NotAgain> {
    let wrong = |why| NotAgain { at, why };
    match kind {
        Kind::Sent => {
            let sent = node
                .poll_transmit()
                .ok_or(wrong("it does not send what it sent"))?;
            if body.u64() != Some(digest_of_message(&sent)) {
                return Err(wrong("it sends another message"));
            }
            seen(at, NodeStep::Sent(&sent));
        }
        Kind::Upcall => {
            let event = node.poll_event().ok_or(wrong("it does not say what it said"))?;
            if body.u64() != Some(digest_of_upcall(&event)) {
                return Err(wrong("it tells an application something else"));
            }
            seen(at, NodeStep::Told(&event));
        }
        _ => {
            let (Some(interface), Some(reserved), Some(count)) = (body.u32(), body.u64(), body.u64()) else {
                return Ok(None);
            };
            let held = node.traffic_control().held(interface);
            if (held.rate.bits(), held.reservations as u64) != (reserved, count) {
                return Err(wrong("it has other reservations"));
            }
            seen(at, NodeStep::Installed(interface, held));
        }
    }
    Ok(Some(()))
}
