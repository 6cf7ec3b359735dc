//! What a node hears, is told and does, written down, so that it can be done [`again`].
//!
//! A tape begins with a node without state, whose random numbers begin anew: state has no form as
//! bytes. Then it has each call of the node with its time: messages as they came out of the shims,
//! and the calls of applications as the messages that say the same. What the node asked of routing
//! in a call has its answers there. Of each message and upcall that the node hands out, and of what
//! is then reserved, it has a digest or a sum: a node that does otherwise is found out.

pub mod again;
mod entry;

use crate::node::{Event, ReceiverId, RsvpInterface, Settings, Transmit};
use crate::traffic_control::{InterfaceId, Route, Routing};
use crate::wire::{
    Content, Descriptors, Flowspec, Frame, Hop, Message, Path, PathTear, Refresh, Resv, SenderDescriptor,
    SenderTemplate, Session, TokenBucket,
};
use core::cell::RefCell;
use core::net::IpAddr;
use engine::units::{Bandwidth, Instant};
use entry::{Kind, put_address, put_u32, put_u64};

/// A tape so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WrittenTape {
    /// Its entries.
    pub bytes: Vec<u8>,
    /// Since when what came is not in it: it was full, and the node has not been without state.
    pub full: Option<Instant>,
}

/// What is reserved on an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Held {
    /// The sum, as its link counts.
    pub rate: Bandwidth,
    /// How many reservations.
    pub reservations: usize,
}

/// The tape of a node; it may have none.
#[derive(Debug, Default)]
pub struct NodeTape(RefCell<Option<Writing>>);

#[derive(Debug)]
struct Writing {
    taped: WrittenTape,
    /// The end of the last whole turn.
    whole: usize,
    limit: usize,
    now: Instant,
}

/// A digest (FNV-1a, 64 bits).
fn digest(bytes: &[u8]) -> u64 {
    let one = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, one)
}

fn digest_of_message(transmit: &Transmit) -> u64 {
    let mut all = format!(
        "{} {} {} {} {} ",
        transmit.interface, transmit.source, transmit.destination, transmit.router_alert, transmit.ttl
    )
    .into_bytes();
    all.extend(&transmit.bytes);
    digest(&all)
}

fn digest_of_upcall(event: &Event) -> u64 {
    digest(format!("{event:?}").as_bytes())
}

/// The TTL of messages that stand for calls; nobody reads it.
const TTL: u8 = 64;
/// The same of a refresh period.
const REFRESH: Refresh = Refresh::millis(1);

impl NodeTape {
    /// Begins with a node of these settings, whose last reservation had this number.
    pub(crate) fn begin(&self, now: Instant, settings: &Settings, last: u64, limit: usize) {
        let taped = WrittenTape::default();
        *self.0.borrow_mut() = Some(Writing {
            taped,
            whole: 0,
            limit,
            now,
        });
        self.entry(Kind::Begin, Some(now), |out| {
            put_u64(out, settings.seed.0);
            put_u64(out, last);
            let places = [settings.max_senders, settings.max_reservations];
            for places in places {
                for part in [places.total, places.interface, places.neighbour] {
                    put_u64(out, part as u64);
                }
            }
            put_u32(out, settings.longest_refresh.as_millis());
        });
        for (id, interface) in (0..).zip(&settings.interfaces) {
            self.interface(id, interface);
        }
    }

    /// What was written up to the last end of a turn; none if there is no tape.
    pub fn taped(&self) -> Option<WrittenTape> {
        let writing = self.0.borrow();
        let writing = writing.as_ref()?;
        Some(WrittenTape {
            bytes: writing.taped.bytes[..writing.whole].to_vec(),
            full: writing.taped.full,
        })
    }

    /// Whether there is one, and it has room.
    pub fn goes_on(&self) -> bool {
        let writing = self.0.borrow();
        writing
            .as_ref()
            .is_some_and(|writing| writing.taped.full.is_none())
    }

    /// Whether it is full: a new one may begin where the node has no state.
    pub fn is_full(&self) -> bool {
        let writing = self.0.borrow();
        writing
            .as_ref()
            .is_some_and(|writing| writing.taped.full.is_some())
    }

    /// Everything that the node has handed out was taken.
    pub fn turn_ended(&self) {
        if let Some(writing) = &mut *self.0.borrow_mut()
            && writing.taped.full.is_none()
        {
            writing.whole = writing.taped.bytes.len();
        }
    }

    fn entry(&self, kind: Kind, now: Option<Instant>, body: impl FnOnce(&mut Vec<u8>)) {
        let mut writing = self.0.borrow_mut();
        let Some(writing) = writing.as_mut().filter(|writing| writing.taped.full.is_none()) else {
            return;
        };
        writing.now = now.unwrap_or(writing.now).max(writing.now);
        let out = &mut writing.taped.bytes;
        entry::write(out, kind, writing.now, body);
        if out.len() > writing.limit {
            out.truncate(writing.whole);
            writing.taped.full = Some(writing.now);
        }
    }

    /// A message, or a call as the message that says the same; one that is too long to be encoded
    /// could not have come, and is left out with all that follows.
    fn message(&self, kind: Kind, now: Instant, message: Message, fields: impl FnOnce(&mut Vec<u8>)) {
        self.frame(kind, now, &Frame::plain(TTL, message), fields);
    }

    fn frame(&self, kind: Kind, now: Instant, frame: &Frame, fields: impl FnOnce(&mut Vec<u8>)) {
        if self.0.borrow().is_none() {
            return;
        }
        match frame.encode() {
            Ok(bytes) => self.entry(kind, Some(now), |out| {
                fields(out);
                out.extend(bytes);
            }),
            Err(_) => self.break_off(),
        }
    }

    /// It ends with the last whole turn, as if it were full.
    pub fn break_off(&self) {
        if let Some(writing) = &mut *self.0.borrow_mut() {
            writing.taped.bytes.truncate(writing.whole);
            writing.taped.full.get_or_insert(writing.now);
        }
    }

    // Calls.

    pub(crate) fn heard(&self, now: Instant, interface: InterfaceId, ttl: u8, frame: &Frame) {
        self.frame(Kind::Heard, now, frame, |out| {
            put_u32(out, interface);
            out.push(ttl);
        });
    }

    pub(crate) fn heard_bytes(&self, now: Instant, interface: InterfaceId, ttl: u8, bytes: &[u8]) {
        self.entry(Kind::Heard, Some(now), |out| {
            put_u32(out, interface);
            out.push(ttl);
            out.extend(bytes);
        });
    }

    pub(crate) fn timers(&self, now: Instant) {
        self.entry(Kind::Timers, Some(now), |_| {});
    }

    pub(crate) fn routes_changed(&self, now: Instant) {
        self.entry(Kind::RoutesChanged, Some(now), |_| {});
    }

    pub(crate) fn resynchronise(&self, now: Instant, interface: InterfaceId) {
        self.entry(Kind::Resynchronise, Some(now), |out| put_u32(out, interface));
    }

    pub(crate) fn interface(&self, id: InterfaceId, interface: &RsvpInterface) {
        self.entry(Kind::Interface, None, |out| {
            put_u32(out, id);
            put_u32(out, interface.refresh.as_millis());
            for address in &interface.addresses {
                put_address(out, Some(*address));
            }
        });
    }

    pub(crate) fn add_sender(
        &self,
        now: Instant,
        session: Session,
        template: SenderTemplate,
        tspec: TokenBucket,
    ) {
        let path = Path {
            session,
            hop: hop(template.address()),
            refresh: REFRESH,
            policy: Vec::new(),
            sender: SenderDescriptor {
                template,
                tspec: Content::Known(tspec),
                adspec: None,
            },
        };
        self.message(Kind::AddSender, now, Message::Path(path), |_| {});
    }

    pub(crate) fn remove_sender(&self, now: Instant, session: Session, sender: SenderTemplate) {
        let tear = PathTear {
            session,
            hop: hop(sender.address()),
            sender,
        };
        self.message(Kind::RemoveSender, now, Message::PathTear(tear), |_| {});
    }

    pub(crate) fn reserve(
        &self,
        now: Instant,
        receiver: ReceiverId,
        session: Session,
        wanted: &Descriptors<Flowspec>,
    ) {
        let known = Content::Known;
        let descriptors = match wanted {
            Descriptors::Wildcard(flowspec) => Descriptors::Wildcard(known(*flowspec)),
            Descriptors::Fixed(list) => Descriptors::Fixed(
                list.iter()
                    .map(|(flowspec, sender)| (known(*flowspec), *sender))
                    .collect(),
            ),
            Descriptors::SharedExplicit(flowspec, senders) => {
                Descriptors::SharedExplicit(known(*flowspec), senders.clone())
            }
            // It is refused, and changes nothing.
            Descriptors::Unknown(..) => return,
        };
        let resv = Resv {
            session,
            hop: hop(session.destination),
            refresh: REFRESH,
            confirm: None,
            scope: None,
            policy: Vec::new(),
            descriptors,
        };
        self.message(Kind::Reserve, now, Message::Resv(resv), |out| {
            put_u64(out, receiver.0)
        });
    }

    pub(crate) fn release(&self, now: Instant, receiver: ReceiverId, session: Session) {
        let address = session.destination;
        let tear = PathTear {
            session,
            hop: hop(address),
            sender: SenderTemplate::Port { address, port: 0 },
        };
        let fields = |out: &mut Vec<u8>| put_u64(out, receiver.0);
        self.message(Kind::Release, now, Message::PathTear(tear), fields);
    }

    // What it asked.

    /// The route, which is written down.
    pub(crate) fn route(&self, routing: &impl Routing, source: Option<IpAddr>, destination: IpAddr) -> Route {
        let route = routing.route(source, destination);
        self.entry(Kind::Route, None, |out| {
            put_address(out, source);
            put_address(out, Some(destination));
            out.push(u8::from(route.local));
            put_u32(out, route.incoming.map_or(u32::MAX, |incoming| incoming));
            for outgoing in &route.outgoing {
                put_u32(out, *outgoing);
            }
        });
        route
    }

    /// What may be reserved on an interface from now on: what the host keeps under this number, or
    /// anything.
    pub fn budget(&self, interface: InterfaceId, number: Option<u32>, mtu: u32) {
        self.entry(Kind::Budget, None, |out| {
            put_u32(out, interface);
            put_u32(out, number.unwrap_or(u32::MAX));
            put_u32(out, mtu);
        });
    }

    // What it did.

    pub(crate) fn sent(&self, transmit: &Transmit) {
        if self.0.borrow().is_some() {
            self.entry(Kind::Sent, None, |out| put_u64(out, digest_of_message(transmit)));
        }
    }

    pub(crate) fn upcall(&self, event: &Event) {
        if self.0.borrow().is_some() {
            self.entry(Kind::Upcall, None, |out| put_u64(out, digest_of_upcall(event)));
        }
    }

    /// What is reserved on an interface now, and enforced.
    pub fn installed(&self, interface: InterfaceId, held: Held) {
        self.entry(Kind::Installed, None, |out| {
            put_u32(out, interface);
            put_u64(out, held.rate.bits());
            put_u64(out, held.reservations as u64);
        });
    }
}

const fn hop(address: IpAddr) -> Hop {
    Hop { address, lih: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::random::Seed;

    #[test]
    fn the_digest_has_the_values_that_its_authors_publish() {
        for (text, sum) in [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("b", 0xaf63_df4c_8601_f1a5),
            ("foobar", 0x8594_4171_f739_67e8),
        ] {
            assert_eq!(digest(text.as_bytes()), sum, "{text}");
        }
    }

    #[test]
    fn the_digest_of_a_message_covers_all_of_it() {
        let one = Transmit {
            interface: 1,
            source: IpAddr::from([10, 0, 0, 1]),
            destination: IpAddr::from([10, 0, 0, 2]),
            router_alert: false,
            ttl: 64,
            bytes: vec![0x10, 13],
        };
        assert_eq!(
            digest_of_message(&one),
            digest(b"1 10.0.0.1 10.0.0.2 false 64 \x10\x0d")
        );
        let others = [
            Transmit {
                interface: 2,
                ..one.clone()
            },
            Transmit {
                source: one.destination,
                ..one.clone()
            },
            Transmit {
                destination: one.source,
                ..one.clone()
            },
            Transmit {
                router_alert: true,
                ..one.clone()
            },
            Transmit {
                ttl: 63,
                ..one.clone()
            },
            Transmit {
                bytes: vec![0x10, 12],
                ..one.clone()
            },
        ];
        for other in others {
            assert_ne!(digest_of_message(&other), digest_of_message(&one), "{other:?}");
        }
    }

    /// Kind, time, length; seed, last number, two kinds of places, longest R.
    const BEGINNING: usize = 1 + 8 + 4 + 8 + 8 + 2 * 24 + 4;
    /// Kind, time, length.
    const TIMERS: usize = 13;

    fn begun(limit: usize) -> NodeTape {
        let tape = NodeTape::default();
        let settings = Settings::new(Vec::new(), Seed(1));
        tape.begin(Instant::START, &settings, 0, limit);
        tape
    }

    #[test]
    fn a_tape_goes_on_until_an_entry_goes_beyond_its_limit() {
        let none = NodeTape::default();
        assert_eq!(
            (none.goes_on(), none.is_full(), none.taped()),
            (false, false, None)
        );
        let later = Instant::from_nanos(7);
        let tape = begun(BEGINNING + TIMERS);
        tape.turn_ended();
        tape.timers(later);
        assert_eq!((tape.goes_on(), tape.is_full()), (true, false));
        let taped = tape.taped().expect("a tape");
        assert_eq!(
            (taped.bytes.len(), taped.full),
            (BEGINNING, None),
            "the turn goes on"
        );
        tape.turn_ended();
        let taped = tape.taped().expect("a tape");
        assert_eq!((taped.bytes.len(), taped.full), (BEGINNING + TIMERS, None));

        let short = begun(BEGINNING + TIMERS - 1);
        short.turn_ended();
        short.timers(later);
        assert_eq!((short.goes_on(), short.is_full()), (false, true));
        // What comes later is not in it, nor does it end later.
        short.timers(Instant::from_nanos(9));
        short.turn_ended();
        let taped = short.taped().expect("a tape");
        assert_eq!((taped.bytes.len(), taped.full), (BEGINNING, Some(later)));
    }

    #[test]
    fn a_tape_that_is_broken_off_ends_with_the_last_whole_turn() {
        let tape = begun(1000);
        tape.turn_ended();
        tape.timers(Instant::from_nanos(7));
        tape.break_off();
        assert_eq!((tape.goes_on(), tape.is_full()), (false, true));
        tape.turn_ended();
        let taped = tape.taped().expect("a tape");
        assert_eq!(
            (taped.bytes.len(), taped.full),
            (BEGINNING, Some(Instant::from_nanos(7)))
        );
    }
}
