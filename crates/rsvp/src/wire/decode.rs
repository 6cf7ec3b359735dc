//! Decoding: the common header, the objects sorted by class, and the message made of them (RFC
//! 2205, sections 3.1 and 3.10).

use super::class::{self, Unknown};
use super::error_spec::{ErrorCode, code, value};
use super::integrity::{Challenge, Integrity};
use super::intserv::{Content, Flowspec};
use super::message::{
    Frame, Message, Path, PathErr, PathTear, Resv, ResvConf, ResvErr, ResvTear, SenderDescriptor,
};
use super::object::{Object, Opaque, Raw};
use super::reader::{Misread, Reader};
use super::reduction::{MessageIdAck, MessageIdList};
use super::session::SenderTemplate;
use super::style::{Descriptors, Style};
use super::unreadable::UnreadableMessage;
use super::{checksum, reduction::MessageId};

/// Why bytes are not an RSVP message. Counted and shown, never answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Malformed {
    /// Shorter than the common header.
    Truncated,
    /// The RSVP length is not that of the datagram, or an object exceeds the message.
    Length,
    /// Another version of RSVP.
    Version(u8),
    /// An unknown message type.
    MessageType(u8),
    /// The checksum is wrong.
    Checksum,
    /// An object of this class has invalid contents.
    Contents(u8),
    /// An object of this class occurs twice.
    Duplicate(u8),
    /// An object of this class is missing.
    Missing(u8),
    /// An object of this class is not allowed there.
    Misplaced(u8),
    /// IPv4 and IPv6 addresses in one message.
    MixedFamilies,
}

/// Why a message must not be processed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DecodeError {
    /// It is no RSVP message.
    Malformed(Malformed),
    /// RFC 2205 has its sender told, in an error message made from the rest of it, which is here.
    Reportable(ErrorCode, Box<Frame>),
    /// An object that the message needs has an unknown C-Type. RFC 2205 has its sender told.
    Unreadable(Box<UnreadableMessage>),
}

impl From<Malformed> for DecodeError {
    fn from(flaw: Malformed) -> Self {
        Self::Malformed(flaw)
    }
}

const BUNDLE: u8 = 12;

/// The bound on class numbers of objects that occur at most once; CHALLENGE alone lies above it.
const CLASSES: usize = 26;

/// The objects of a message, sorted by class.
struct Objects<'a> {
    /// Path and Resv: errors in their contents are reported.
    answered: bool,
    error: Option<ErrorCode>,
    single: [Option<Raw<'a>>; CLASSES],
    challenge: Option<Raw<'a>>,
    acknowledgements: Vec<Raw<'a>>,
    lists: Vec<Raw<'a>>,
    policy: Vec<Opaque>,
    forwarded: Vec<Opaque>,
    /// STYLE, and what comes after it.
    end: Option<End<'a>>,
    v4: bool,
    v6: bool,
}

/// The end of a message with STYLE: the flow descriptor list.
struct End<'a> {
    /// None if it has an unknown C-Type, so that nobody knows what the objects after it mean.
    style: Option<Style>,
    bytes: &'a [u8],
    objects: Vec<Raw<'a>>,
}

impl End<'_> {
    const fn is_unknown(&self) -> bool {
        matches!(self.style, None | Some(Style::Unknown(_)))
    }
}

impl<'a> Objects<'a> {
    fn sort(kind: u8, mut body: Reader<'a>) -> Result<Self, Malformed> {
        let mut objects = Self {
            answered: kind <= 2,
            error: None,
            single: [None; CLASSES],
            challenge: None,
            acknowledgements: Vec::new(),
            lists: Vec::new(),
            policy: Vec::new(),
            forwarded: Vec::new(),
            end: None,
            v4: false,
            v6: false,
        };
        let mut first = true;
        while !body.is_empty() {
            let raw = Raw::next(&mut body).map_err(|_| Malformed::Length)?;
            if raw.class == class::INTEGRITY && !first {
                return Err(Malformed::Misplaced(class::INTEGRITY));
            }
            first = false;
            objects.add(raw, body.0)?;
        }
        if objects.v4 && objects.v6 {
            return Err(Malformed::MixedFamilies);
        }
        Ok(objects)
    }

    /// Adds one object; `behind` is the rest of the message.
    fn add(&mut self, raw: Raw<'a>, behind: &'a [u8]) -> Result<(), Malformed> {
        self.family(&raw);
        match raw.class {
            class::NULL => {}
            class::FLOWSPEC | class::FILTER_SPEC => match &mut self.end {
                Some(end) => end.objects.push(raw),
                None => return Err(Malformed::Misplaced(raw.class)),
            },
            class::STYLE => {
                let end = End {
                    style: self.read(&raw)?,
                    bytes: behind,
                    objects: Vec::new(),
                };
                if self.end.replace(end).is_some() {
                    return Err(Malformed::Duplicate(class::STYLE));
                }
            }
            class::CHALLENGE => {
                if self.challenge.replace(raw).is_some() {
                    return Err(Malformed::Duplicate(class::CHALLENGE));
                }
            }
            class::MESSAGE_ID_ACK => self.acknowledgements.push(raw),
            class::MESSAGE_ID_LIST => self.lists.push(raw),
            class::POLICY_DATA if self.end.is_none() => self.policy.push(raw.opaque()),
            class::SESSION
            | class::HOP..=class::SCOPE
            | class::SENDER_TEMPLATE..=class::RESV_CONFIRM
            | class::MESSAGE_ID => {
                if self.end.is_some() {
                    return Err(Malformed::Misplaced(raw.class));
                }
                if self.single[usize::from(raw.class)].replace(raw).is_some() {
                    return Err(Malformed::Duplicate(raw.class));
                }
            }
            unknown => match class::unknown(unknown) {
                Unknown::Reject => {
                    self.report(code::UNKNOWN_CLASS, u16::from_be_bytes([raw.class, raw.c_type]))
                }
                Unknown::Ignore => {}
                // After an unknown style all objects are kept as they came.
                Unknown::Forward if self.end.as_ref().is_some_and(End::is_unknown) => {}
                Unknown::Forward => self.forwarded.push(raw.opaque()),
            },
        }
        Ok(())
    }

    /// Notes the family of an object with addresses: C-Type 1 is IPv4 in all of them.
    fn family(&mut self, raw: &Raw<'_>) {
        let addressed = matches!(
            raw.class,
            class::SESSION
                | class::HOP
                | class::ERROR_SPEC
                | class::SCOPE
                | class::FILTER_SPEC
                | class::SENDER_TEMPLATE
                | class::RESV_CONFIRM
        );
        self.v4 |= addressed && raw.c_type == 1;
        self.v6 |= addressed && (raw.c_type == 2 || raw.c_type == 3);
    }

    /// Notes an error to report; the first one counts.
    fn report(&mut self, code: u8, value: u16) {
        self.error.get_or_insert(ErrorCode { code, value });
    }

    /// Decodes an object; `None`, and an error to report, for an unknown C-Type.
    fn read<T: Object>(&mut self, raw: &Raw<'_>) -> Result<Option<T>, Malformed> {
        match raw.read() {
            Ok(object) => Ok(Some(object)),
            Err(Misread::CType) => {
                self.report(code::UNKNOWN_C_TYPE, u16::from_be_bytes([raw.class, raw.c_type]));
                Ok(None)
            }
            Err(_) => Err(Malformed::Contents(raw.class)),
        }
    }

    fn maybe<T: Object>(&mut self, class: u8) -> Result<Option<T>, Malformed> {
        match self.single[usize::from(class)].take() {
            Some(raw) => self.read(&raw),
            None => Ok(None),
        }
    }

    fn need<T: Object>(&mut self, class: u8) -> Result<T, Malformed> {
        self.maybe(class)?.ok_or(Malformed::Missing(class))
    }

    /// Decodes IntServ contents; invalid ones are kept undecoded, with an error of this value to
    /// report.
    fn content<T: Object>(&mut self, raw: &Raw<'_>, bad: u16) -> Content<T> {
        let trouble = match raw.read() {
            Ok(content) => return Content::Known(content),
            Err(Misread::CType) => (code::UNKNOWN_C_TYPE, u16::from_be_bytes([raw.class, raw.c_type])),
            Err(Misread::Service) => (code::TRAFFIC_CONTROL, value::SERVICE_UNSUPPORTED),
            Err(_) => (code::TRAFFIC_CONTROL, bad),
        };
        if self.answered {
            self.report(trouble.0, trouble.1);
        }
        Content::Raw {
            c_type: raw.c_type,
            data: raw.data.to_vec(),
        }
    }

    fn maybe_content<T: Object>(&mut self, class: u8, bad: u16) -> Option<Content<T>> {
        let raw = self.single[usize::from(class)].take()?;
        Some(self.content(&raw, bad))
    }

    fn sender(&mut self) -> Result<SenderDescriptor, Malformed> {
        let tspec = self.maybe_content(class::SENDER_TSPEC, value::BAD_TSPEC);
        Ok(SenderDescriptor {
            template: self.need(class::SENDER_TEMPLATE)?,
            tspec: tspec.ok_or(Malformed::Missing(class::SENDER_TSPEC))?,
            adspec: self.maybe_content(class::ADSPEC, value::BAD_ADSPEC),
        })
    }

    /// The end of the message, with a style that can be read.
    fn end(&mut self) -> Result<(Style, End<'a>), Malformed> {
        let end = self.end.take();
        let read = end.and_then(|end| Some((end.style?, end)));
        read.ok_or(Malformed::Missing(class::STYLE))
    }

    /// STYLE and the flow descriptor list.
    fn descriptors(&mut self) -> Result<Descriptors<Content<Flowspec>>, Malformed> {
        let (style, end) = self.end()?;
        if let Style::Unknown(options) = style {
            self.report(code::UNKNOWN_STYLE, 0);
            return Ok(Descriptors::Unknown(options, end.bytes.to_vec()));
        }
        let mut pairs: Vec<(Content<Flowspec>, Vec<SenderTemplate>)> = Vec::new();
        for raw in end.objects {
            if raw.class == class::FLOWSPEC {
                pairs.push((self.content(&raw, value::BAD_FLOWSPEC), Vec::new()));
            } else {
                let filter = self.read(&raw)?.ok_or(Malformed::Missing(raw.class))?;
                let (_, filters) = pairs.last_mut().ok_or(Malformed::Missing(class::FLOWSPEC))?;
                filters.push(filter);
            }
        }
        if pairs.is_empty() {
            return Err(Malformed::Missing(class::FLOWSPEC));
        }
        match style {
            Style::Fixed => {
                if pairs.iter().any(|(_, filters)| filters.is_empty()) {
                    return Err(Malformed::Missing(class::FILTER_SPEC));
                }
                let each = |(flowspec, filters): (Content<Flowspec>, Vec<SenderTemplate>)| {
                    filters.into_iter().map(move |filter| (flowspec.clone(), filter))
                };
                Ok(Descriptors::Fixed(pairs.into_iter().flat_map(each).collect()))
            }
            _ if pairs.len() > 1 => Err(Malformed::Duplicate(class::FLOWSPEC)),
            _ => match (style, pairs.swap_remove(0)) {
                (Style::Wildcard, (flowspec, filters)) if filters.is_empty() => {
                    Ok(Descriptors::Wildcard(flowspec))
                }
                (Style::Wildcard, _) => Err(Malformed::Misplaced(class::FILTER_SPEC)),
                (_, (_, filters)) if filters.is_empty() => Err(Malformed::Missing(class::FILTER_SPEC)),
                (_, (flowspec, filters)) => Ok(Descriptors::SharedExplicit(flowspec, filters)),
            },
        }
    }

    /// The same of a ResvTear, whose flowspecs are ignored and may be absent.
    fn filters(&mut self) -> Result<Descriptors<()>, Malformed> {
        let (style, end) = self.end()?;
        if let Style::Unknown(options) = style {
            return Ok(Descriptors::Unknown(options, end.bytes.to_vec()));
        }
        let mut filters = Vec::new();
        for raw in end.objects.iter().filter(|raw| raw.class == class::FILTER_SPEC) {
            filters.extend(self.read::<SenderTemplate>(raw)?);
        }
        match (style, filters.is_empty()) {
            (Style::Wildcard, true) => Ok(Descriptors::Wildcard(())),
            (Style::Wildcard, false) => Err(Malformed::Misplaced(class::FILTER_SPEC)),
            (_, true) => Err(Malformed::Missing(class::FILTER_SPEC)),
            (Style::Fixed, false) => Ok(Descriptors::Fixed(filters.into_iter().map(|f| ((), f)).collect())),
            (_, false) => Ok(Descriptors::SharedExplicit((), filters)),
        }
    }

    fn message(&mut self, kind: u8) -> Result<Message, Malformed> {
        Ok(match kind {
            1 => Message::Path(Path {
                session: self.need(class::SESSION)?,
                hop: self.need(class::HOP)?,
                refresh: self.need(class::TIME_VALUES)?,
                policy: core::mem::take(&mut self.policy),
                sender: self.sender()?,
            }),
            2 => Message::Resv(Resv {
                session: self.need(class::SESSION)?,
                hop: self.need(class::HOP)?,
                refresh: self.need(class::TIME_VALUES)?,
                confirm: self.maybe(class::RESV_CONFIRM)?,
                scope: self.maybe(class::SCOPE)?,
                policy: core::mem::take(&mut self.policy),
                descriptors: self.descriptors()?,
            }),
            3 => Message::PathErr(PathErr {
                session: self.need(class::SESSION)?,
                error: self.need(class::ERROR_SPEC)?,
                policy: core::mem::take(&mut self.policy),
                sender: self.sender()?,
            }),
            4 => Message::ResvErr(ResvErr {
                session: self.need(class::SESSION)?,
                hop: self.need(class::HOP)?,
                error: self.need(class::ERROR_SPEC)?,
                scope: self.maybe(class::SCOPE)?,
                policy: core::mem::take(&mut self.policy),
                descriptors: self.descriptors()?,
            }),
            5 => {
                self.single[usize::from(class::SENDER_TSPEC)] = None;
                self.single[usize::from(class::ADSPEC)] = None;
                Message::PathTear(PathTear {
                    session: self.need(class::SESSION)?,
                    hop: self.need(class::HOP)?,
                    sender: self.need(class::SENDER_TEMPLATE)?,
                })
            }
            6 => Message::ResvTear(ResvTear {
                session: self.need(class::SESSION)?,
                hop: self.need(class::HOP)?,
                scope: self.maybe(class::SCOPE)?,
                descriptors: self.filters()?,
            }),
            7 => Message::ResvConf(ResvConf {
                session: self.need(class::SESSION)?,
                error: self.need(class::ERROR_SPEC)?,
                confirm: self.need(class::RESV_CONFIRM)?,
                descriptors: self.descriptors()?,
            }),
            13 => Message::Ack,
            15 => Message::Srefresh(self.lists()?),
            25 => Message::Challenge(self.challenge()?),
            26 => Message::Response(self.challenge()?),
            unknown => return Err(Malformed::MessageType(unknown)),
        })
    }

    fn challenge(&mut self) -> Result<Challenge, Malformed> {
        let raw = self
            .challenge
            .take()
            .ok_or(Malformed::Missing(class::CHALLENGE))?;
        self.read(&raw)?.ok_or(Malformed::Contents(class::CHALLENGE))
    }

    fn lists(&mut self) -> Result<Vec<MessageIdList>, Malformed> {
        let mut lists = Vec::new();
        for raw in core::mem::take(&mut self.lists) {
            lists.extend(self.read(&raw)?);
        }
        if lists.is_empty() {
            return Err(Malformed::Missing(class::MESSAGE_ID_LIST));
        }
        Ok(lists)
    }

    /// Why a message could not be made of the objects. A missing one may be there with an unknown
    /// C-Type.
    fn unreadable(&self, kind: u8, body: Reader<'_>, malformed: Malformed) -> DecodeError {
        let c_type = self.error.filter(|error| error.code == code::UNKNOWN_C_TYPE);
        let is_missing = matches!(malformed, Malformed::Missing(_));
        match c_type.filter(|_| is_missing) {
            Some(error) => match UnreadableMessage::read(kind, body, error) {
                Some(unreadable) => DecodeError::Unreadable(Box::new(unreadable)),
                None => DecodeError::Malformed(malformed),
            },
            None => DecodeError::Malformed(malformed),
        }
    }

    /// Checks that no object is left which does not belong to the message type.
    fn finish(&self) -> Result<(), Malformed> {
        let single = self.single.iter().flatten().map(|raw| raw.class);
        let style = self.end.iter().map(|_| class::STYLE);
        let lists = self.lists.iter().map(|raw| raw.class);
        let policy = self.policy.iter().map(|object| object.class);
        let challenge = self.challenge.iter().map(|raw| raw.class);
        match single
            .chain(style)
            .chain(lists)
            .chain(policy)
            .chain(challenge)
            .next()
        {
            Some(class) => Err(Malformed::Misplaced(class)),
            None => Ok(()),
        }
    }
}

/// Splits a bundle into its messages (RFC 2961, section 3).
fn split(mut body: Reader<'_>) -> Result<Vec<Vec<u8>>, Malformed> {
    let mut messages = Vec::new();
    while !body.is_empty() {
        let header = body.0.first_chunk::<8>().ok_or(Malformed::Length)?;
        let length = usize::from(u16::from_be_bytes([header[6], header[7]]));
        if header[1] == BUNDLE {
            return Err(Malformed::MessageType(BUNDLE));
        }
        if length < 8 || length % 4 != 0 {
            return Err(Malformed::Length);
        }
        messages.push(body.take(length).map_err(|_| Malformed::Length)?.to_vec());
    }
    if messages.is_empty() {
        return Err(Malformed::Length);
    }
    Ok(messages)
}

impl Frame {
    /// Decodes one message, the whole payload of an IP datagram.
    ///
    /// # Errors
    ///
    /// [`DecodeError::Malformed`] if it is no RSVP message, [`DecodeError::Reportable`] if its
    /// sender must be told of an error in it.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let header: [u8; 8] = *bytes.first_chunk().ok_or(Malformed::Truncated)?;
        let [
            first,
            kind,
            sum_high,
            sum_low,
            send_ttl,
            _reserved,
            length_high,
            length_low,
        ] = header;
        if first >> 4 != 1 {
            return Err(Malformed::Version(first >> 4).into());
        }
        let length = usize::from(u16::from_be_bytes([length_high, length_low]));
        if length != bytes.len() || length % 4 != 0 {
            return Err(Malformed::Length.into());
        }
        // A zero checksum means that there is none.
        if (sum_high, sum_low) != (0, 0) && !checksum::holds(bytes) {
            return Err(Malformed::Checksum.into());
        }
        let mut frame = Self {
            refresh_reduction: first & 1 != 0,
            ..Self::plain(send_ttl, Message::Ack)
        };
        let body = Reader(&bytes[8..]);
        if kind == BUNDLE {
            return frame.bundle(body).map_err(DecodeError::Malformed);
        }
        let mut objects = Objects::sort(kind, body)?;
        frame.integrity = objects.maybe::<Integrity>(class::INTEGRITY)?;
        frame.message = match objects.message(kind) {
            Ok(message) => message,
            Err(malformed) => return Err(objects.unreadable(kind, body, malformed)),
        };
        for raw in core::mem::take(&mut objects.acknowledgements) {
            frame.acknowledgements.extend(objects.read::<MessageIdAck>(&raw)?);
        }
        if frame.message == Message::Ack && frame.acknowledgements.is_empty() {
            return Err(Malformed::Missing(class::MESSAGE_ID_ACK).into());
        }
        frame.message_id = objects.maybe::<MessageId>(class::MESSAGE_ID)?;
        objects.finish()?;
        frame.forwarded = objects.forwarded;
        match objects.error {
            Some(error) => Err(DecodeError::Reportable(error, Box::new(frame))),
            None => Ok(frame),
        }
    }

    fn bundle(mut self, mut body: Reader<'_>) -> Result<Self, Malformed> {
        // A message starts with the version, an object with its length: INTEGRITY is always shorter
        // than 0x1000.
        if body.0.first().is_some_and(|byte| byte >> 4 == 0) {
            let raw = Raw::next(&mut body).map_err(|_| Malformed::Length)?;
            if raw.class != class::INTEGRITY {
                return Err(Malformed::Misplaced(raw.class));
            }
            self.integrity = Some(raw.read().map_err(|_| Malformed::Contents(class::INTEGRITY))?);
        }
        self.message = Message::Bundle(split(body)?);
        Ok(self)
    }
}
