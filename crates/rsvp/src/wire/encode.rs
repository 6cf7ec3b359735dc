//! Encoding, in the object order that RFC 2205 recommends (section 3.1).

use super::class;
use super::hop::Scope;
use super::intserv::{Content, Flowspec};
use super::message::{Frame, Message, SenderDescriptor};
use super::object::{Object, Opaque};
use super::style::Descriptors;
use super::{SenderTemplate, checksum};
use core::fmt;

/// A message exceeds the 64 KiB of its length field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLong;

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the message is longer than 65535 bytes")
    }
}

impl core::error::Error for TooLong {}

/// A message being encoded.
pub(super) struct Writer {
    out: Vec<u8>,
    too_long: bool,
}

impl Writer {
    /// Appends an object, padded to a whole word.
    pub fn put<T: Object>(&mut self, class: u8, object: &T) {
        self.piece(class, object.c_type(), |out| object.write(out));
    }

    fn piece(&mut self, class: u8, c_type: u8, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.out.len();
        self.out.extend([0, 0, class, c_type]);
        write(&mut self.out);
        let length = (self.out.len() - start).next_multiple_of(4);
        self.out.resize(start + length, 0);
        match u16::try_from(length) {
            Ok(length) => self.out[start..start + 2].copy_from_slice(&length.to_be_bytes()),
            Err(_) => self.too_long = true,
        }
    }

    /// Appends an object, if there is one.
    pub fn maybe<T: Object>(&mut self, class: u8, object: Option<&T>) {
        if let Some(object) = object {
            self.put(class, object);
        }
    }

    /// Appends objects as they came.
    pub fn opaque(&mut self, objects: &[Opaque]) {
        for object in objects {
            self.piece(object.class, object.c_type, |out| out.extend(&object.data));
        }
    }

    fn sender(&mut self, sender: &SenderDescriptor) {
        self.put(class::SENDER_TEMPLATE, &sender.template);
        self.put(class::SENDER_TSPEC, &sender.tspec);
        self.maybe(class::ADSPEC, sender.adspec.as_ref());
    }

    fn filters<'a>(&mut self, filters: impl IntoIterator<Item = &'a SenderTemplate>) {
        for filter in filters {
            self.put(class::FILTER_SPEC, filter);
        }
    }

    /// SCOPE, forwarded objects, STYLE and the flow descriptors: the end of all reservation
    /// messages.
    fn reservation(&mut self, end: End<'_, Content<Flowspec>>) {
        self.before_descriptors(&end);
        match end.descriptors {
            Descriptors::Wildcard(flowspec) => self.put(class::FLOWSPEC, flowspec),
            Descriptors::Fixed(list) => {
                let mut last = None;
                for (flowspec, filter) in list {
                    // A flowspec equal to the previous one may be omitted.
                    if last != Some(flowspec) {
                        self.put(class::FLOWSPEC, flowspec);
                    }
                    last = Some(flowspec);
                    self.put(class::FILTER_SPEC, filter);
                }
            }
            Descriptors::SharedExplicit(flowspec, filters) => {
                self.put(class::FLOWSPEC, flowspec);
                self.filters(filters);
            }
            Descriptors::Unknown(_, objects) => self.out.extend(objects),
        }
    }

    /// As [`Writer::reservation`], without flowspecs.
    fn tear(&mut self, end: End<'_, ()>) {
        self.before_descriptors(&end);
        match end.descriptors {
            Descriptors::Wildcard(()) => {}
            Descriptors::Fixed(list) => self.filters(list.iter().map(|(_, filter)| filter)),
            Descriptors::SharedExplicit((), filters) => self.filters(filters),
            Descriptors::Unknown(_, objects) => self.out.extend(objects),
        }
    }

    fn before_descriptors<F>(&mut self, end: &End<'_, F>) {
        self.maybe(class::SCOPE, end.scope);
        self.opaque(end.policy);
        self.opaque(end.forwarded);
        self.put(class::STYLE, &end.descriptors.style());
    }

    fn message(&mut self, message: &Message, forwarded: &[Opaque]) {
        match message {
            Message::Path(path) => {
                self.put(class::SESSION, &path.session);
                self.put(class::HOP, &path.hop);
                self.put(class::TIME_VALUES, &path.refresh);
                self.opaque(&path.policy);
                self.opaque(forwarded);
                self.sender(&path.sender);
            }
            Message::PathTear(tear) => {
                self.put(class::SESSION, &tear.session);
                self.put(class::HOP, &tear.hop);
                self.opaque(forwarded);
                self.put(class::SENDER_TEMPLATE, &tear.sender);
            }
            Message::PathErr(error) => {
                self.put(class::SESSION, &error.session);
                self.put(class::ERROR_SPEC, &error.error);
                self.opaque(&error.policy);
                self.opaque(forwarded);
                self.sender(&error.sender);
            }
            Message::Resv(resv) => {
                self.put(class::SESSION, &resv.session);
                self.put(class::HOP, &resv.hop);
                self.put(class::TIME_VALUES, &resv.refresh);
                self.maybe(class::RESV_CONFIRM, resv.confirm.as_ref());
                self.reservation(End::new(
                    resv.scope.as_ref(),
                    &resv.policy,
                    forwarded,
                    &resv.descriptors,
                ));
            }
            Message::ResvTear(tear) => {
                self.put(class::SESSION, &tear.session);
                self.put(class::HOP, &tear.hop);
                self.tear(End::new(tear.scope.as_ref(), &[], forwarded, &tear.descriptors));
            }
            Message::ResvErr(error) => {
                self.put(class::SESSION, &error.session);
                self.put(class::HOP, &error.hop);
                self.put(class::ERROR_SPEC, &error.error);
                self.reservation(End::new(
                    error.scope.as_ref(),
                    &error.policy,
                    forwarded,
                    &error.descriptors,
                ));
            }
            Message::ResvConf(confirmation) => {
                self.put(class::SESSION, &confirmation.session);
                self.put(class::ERROR_SPEC, &confirmation.error);
                self.put(class::RESV_CONFIRM, &confirmation.confirm);
                self.reservation(End::new(None, &[], forwarded, &confirmation.descriptors));
            }
            Message::Bundle(messages) => self.out.extend(messages.iter().flatten()),
            Message::Ack => self.opaque(forwarded),
            Message::Challenge(challenge) | Message::Response(challenge) => {
                self.put(class::CHALLENGE, challenge);
                self.opaque(forwarded);
            }
            Message::Srefresh(lists) => {
                for list in lists {
                    self.put(class::MESSAGE_ID_LIST, list);
                }
                self.opaque(forwarded);
            }
        }
    }
}

/// The last objects of a reservation message.
struct End<'a, F> {
    scope: Option<&'a Scope>,
    policy: &'a [Opaque],
    forwarded: &'a [Opaque],
    descriptors: &'a Descriptors<F>,
}

impl<'a, F> End<'a, F> {
    fn new(
        scope: Option<&'a Scope>,
        policy: &'a [Opaque],
        forwarded: &'a [Opaque],
        descriptors: &'a Descriptors<F>,
    ) -> Self {
        Self {
            scope,
            policy,
            forwarded,
            descriptors,
        }
    }
}

/// A message of this type, with its length and checksum, from what `write` appends to the header.
pub(super) fn assemble(kind: u8, send_ttl: u8, write: impl FnOnce(&mut Writer)) -> Result<Vec<u8>, TooLong> {
    const VERSION: u8 = 0x10;
    let mut writer = Writer {
        out: vec![VERSION, kind, 0, 0, send_ttl, 0, 0, 0],
        too_long: false,
    };
    write(&mut writer);
    let Writer { mut out, too_long } = writer;
    let length = u16::try_from(out.len()).map_err(|_| TooLong)?;
    if too_long {
        return Err(TooLong);
    }
    out[6..8].copy_from_slice(&length.to_be_bytes());
    let checksum = checksum::of(&out);
    out[2..4].copy_from_slice(&checksum.to_be_bytes());
    Ok(out)
}

impl Frame {
    /// Encodes the message, with its length and checksum.
    ///
    /// # Errors
    ///
    /// If it exceeds 64 KiB.
    pub fn encode(&self) -> Result<Vec<u8>, TooLong> {
        assemble(self.message.kind(), self.send_ttl, |writer| {
            writer.out[0] |= u8::from(self.refresh_reduction);
            writer.maybe(class::INTEGRITY, self.integrity.as_ref());
            for acknowledgement in &self.acknowledgements {
                writer.put(class::MESSAGE_ID_ACK, acknowledgement);
            }
            writer.maybe(class::MESSAGE_ID, self.message_id.as_ref());
            writer.message(&self.message, &self.forwarded);
        })
    }
}
