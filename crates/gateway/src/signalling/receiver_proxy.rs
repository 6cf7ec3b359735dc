//! Replies to Paths by the rules of `[[rsvp.accept]]`: the receiver's side, without a receiver
//! application.
//!
//! A path-triggered receiver proxy (RFC 5945, section 4.1), for this host or for hosts behind it.
//! When a reservation fails, it notifies the sender by a PathErr with the same error, similar to
//! RFC 5946, section 4.1; RFC 2205 alone notifies only receivers.

use super::local_senders::{Flow, KernelNode, plain};
use super::service_hint::ServiceHint;
use control::rsvp_config::{AcceptRule, AcceptStyle, IncomingPath};
use engine::units::{Bandwidth, Duration, Instant};
use rsvp::node::{CallError, ReceiverId};
use rsvp::request;
use rsvp::traffic_control::InterfaceId;
use rsvp::wire::{
    Adspec, Descriptors, ErrorCode, ErrorSpec, Flowspec, Frame, Hop, Message, Path, PathErr, SenderTemplate,
    Session, TokenBucket, code, value,
};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The last Path of a sender towards us.
#[derive(Clone, Debug)]
struct ReceivedPath {
    path: Path,
    interface: InterfaceId,
    hint: ServiceHint,
}

/// What a reservation is for: a session, and in style FF one of its senders.
type Reserved = (Session, Option<SenderTemplate>);

/// A reservation for one sender, or for several that share it.
#[derive(Clone, Debug)]
struct ProxyReservation {
    receiver: ReceiverId,
    style: AcceptStyle,
    /// The flowspec for each of its senders. The request is the merged one.
    requested: BTreeMap<SenderTemplate, Flowspec>,
    /// The same as confirmed; empty before.
    in_force: BTreeMap<SenderTemplate, Flowspec>,
    /// The bound on the delay of each, for those that have one.
    bounds: BTreeMap<SenderTemplate, Duration>,
}

impl ProxyReservation {
    fn set_bound(&mut self, sender: SenderTemplate, bound: Option<Duration>) {
        match bound {
            Some(bound) => drop(self.bounds.insert(sender, bound)),
            None => drop(self.bounds.remove(&sender)),
        }
    }

    /// The request; none if the senders ask for different services.
    fn descriptors(&self) -> Option<Descriptors<Flowspec>> {
        let merged = Flowspec::merged(self.requested.values()).ok()??;
        let senders = self.requested.keys().copied();
        Some(match self.style {
            AcceptStyle::Fixed => Descriptors::Fixed(senders.map(|sender| (merged, sender)).collect()),
            AcceptStyle::SharedExplicit => Descriptors::SharedExplicit(merged, senders.collect()),
            AcceptStyle::Wildcard => Descriptors::Wildcard(merged),
        })
    }
}

/// The rules, the Paths towards us, and the reservations made.
#[derive(Debug, Default)]
pub struct ReceiverProxy {
    rules: Vec<AcceptRule>,
    received: BTreeMap<Flow, ReceivedPath>,
    reservations: BTreeMap<Reserved, ProxyReservation>,
    /// What each reservation is for.
    receivers: BTreeMap<ReceiverId, Reserved>,
    last: u64,
    /// Our addresses, by interface.
    addresses: Vec<Vec<IpAddr>>,
}

/// A message of the proxy to a neighbour.
#[derive(Debug)]
pub struct OwnMessage {
    /// The outgoing interface.
    pub interface: InterfaceId,
    /// The neighbour.
    pub destination: IpAddr,
    /// The message.
    pub frame: Frame,
}

impl ReceiverProxy {
    /// A proxy with these rules.
    pub fn new(rules: Vec<AcceptRule>) -> Self {
        Self {
            rules,
            ..Self::default()
        }
    }

    /// Sets our addresses, by interface.
    pub fn set_addresses(&mut self, addresses: Vec<Vec<IpAddr>>) {
        self.addresses = addresses;
    }

    /// Stores a Path towards us, for the error messages about it.
    pub fn path_arrives(&mut self, interface: InterfaceId, frame: &Frame) {
        if let Message::Path(path) = &frame.message {
            let flow = (plain(&path.session), path.sender.template);
            let received = ReceivedPath {
                path: path.clone(),
                interface,
                hint: ServiceHint::of(frame),
            };
            self.received.insert(flow, received);
        }
    }

    /// Forgets a Path that the node has not accepted.
    pub fn path_refused(&mut self, flow: &Flow) {
        self.received.remove(flow);
    }

    /// Whether a rule has reserved for this flow.
    pub fn answered(&self, flow: &Flow) -> bool {
        self.reserved_for(flow).is_some()
    }

    /// The bound on the delay in queues of what was requested for a flow.
    pub fn bound(&self, flow: &Flow) -> Option<Duration> {
        let reservation = self.reservations.get(&self.reserved_for(flow)?)?;
        reservation.bounds.get(&flow.1).copied()
    }

    /// The reservation that a flow has or shares.
    fn reserved_for(&self, flow: &Flow) -> Option<Reserved> {
        let (session, sender) = *flow;
        [(session, Some(sender)), (session, None)].into_iter().find(|at| {
            let one = self.reservations.get(at);
            one.is_some_and(|one| one.requested.contains_key(&sender))
        })
    }

    /// A sender towards us is new or has changed: reserves for it, or returns a PathErr.
    pub fn path(
        &mut self,
        node: &mut KernelNode,
        now: Instant,
        (flow, own): (Flow, bool),
        (tspec, adspec): (&TokenBucket, Option<&Adspec>),
    ) -> Option<OwnMessage> {
        let (session, sender) = flow;
        let incoming = IncomingPath {
            to: session.destination,
            own,
            from: sender.address(),
            protocol: session.protocol,
            port: session.port,
        };
        let hint = self.received.get(&flow)?.hint;
        let Some(rule) = self.rules.iter().find(|rule| rule.covers(&incoming)) else {
            return self.refuse(&flow, ErrorCode::new(code::POLICY, 0));
        };
        let rate = Bandwidth::bits_per_sec(tspec.rate.ceil().saturating_mul(8));
        if rule.up_to.is_some_and(|most| rate > most) {
            return self.refuse(&flow, ErrorCode::new(code::POLICY, 0));
        }
        if hint.trial {
            return self.refuse(&flow, ErrorCode::new(code::CONFIRMATION, 0));
        }
        let flowspec = match flowspec(tspec, adspec, hint) {
            Ok(flowspec) => flowspec,
            Err(error) => return self.refuse(&flow, error),
        };
        let style = rule.style;
        let at = (session, (style == AcceptStyle::Fixed).then_some(sender));
        // The terms of the path may have changed, and the request not.
        let bound = request::bound(&flowspec, adspec);
        if let Some(known) = self.reservations.get_mut(&at) {
            known.set_bound(sender, bound);
        }
        let known = self.reservations.get(&at).cloned();
        if known
            .as_ref()
            .is_some_and(|one| one.requested.get(&sender) == Some(&flowspec))
        {
            return None;
        }
        self.last += u64::from(known.is_none());
        let mut reservation = known.clone().unwrap_or_else(|| ProxyReservation {
            receiver: ReceiverId(self.last),
            style,
            requested: BTreeMap::new(),
            in_force: BTreeMap::new(),
            bounds: BTreeMap::new(),
        });
        reservation.requested.insert(sender, flowspec);
        reservation.set_bound(sender, bound);
        let Some(wanted) = reservation.descriptors() else {
            return self.refuse(
                &flow,
                ErrorCode::new(code::TRAFFIC_CONTROL, value::SERVICE_CONFLICT),
            );
        };
        let receiver = reservation.receiver;
        self.reservations.insert(at, reservation);
        self.receivers.insert(receiver, at);
        let error = match node.reserve(now, receiver, &session, wanted) {
            Ok(()) => return None,
            Err(CallError::Style(style)) => {
                let [.., high, low] = style.options().to_be_bytes();
                ErrorCode::new(code::CONFLICTING_STYLE, u16::from_be_bytes([high, low]))
            }
            Err(CallError::Service) => ErrorCode::new(code::TRAFFIC_CONTROL, value::SERVICE_CONFLICT),
            Err(_) => ErrorCode::new(code::SYSTEM, 0),
        };
        match known {
            Some(known) => drop(self.reservations.insert(at, known)),
            None => drop(self.forget(&at)),
        }
        self.refuse(&flow, error)
    }

    /// A sender has ended. It may have begun again since, and the node tells of that next.
    pub fn ended(&mut self, node: &mut KernelNode, now: Instant, flow: &Flow) {
        if !node.has_path(&flow.0, &flow.1) {
            self.received.remove(flow);
        }
        let Some(at) = self.reserved_for(flow) else {
            return;
        };
        let Some(reservation) = self.reservations.get_mut(&at) else {
            return;
        };
        reservation.requested.remove(&flow.1);
        reservation.in_force.remove(&flow.1);
        reservation.bounds.remove(&flow.1);
        let receiver = reservation.receiver;
        match reservation.descriptors() {
            // The others share what they need themselves.
            Some(wanted) => drop(node.reserve(now, receiver, &flow.0, wanted)),
            None => {
                self.forget(&at);
                node.release(now, receiver, &flow.0);
            }
        }
    }

    fn forget(&mut self, at: &Reserved) -> Option<ProxyReservation> {
        let reservation = self.reservations.remove(at)?;
        self.receivers.remove(&reservation.receiver);
        Some(reservation)
    }

    fn of(&self, receiver: ReceiverId, session: &Session) -> Option<Reserved> {
        let at = self.receivers.get(&receiver).copied();
        at.filter(|(known, _)| *known == plain(session))
    }

    /// A reservation was confirmed.
    pub fn confirmed(&mut self, receiver: ReceiverId, session: &Session) {
        let at = self.of(receiver, session);
        if let Some(one) = at.and_then(|at| self.reservations.get_mut(&at)) {
            one.in_force.clone_from(&one.requested);
        }
    }

    /// A reservation has failed upstream. The request returns to what is in force, and the senders
    /// that it has failed get a PathErr. A request that was confirmed before stays: a router has
    /// lost its state, or the path has changed.
    pub fn failed(
        &mut self,
        node: &mut KernelNode,
        now: Instant,
        (receiver, session): (ReceiverId, &Session),
        error: &ErrorSpec,
    ) -> Vec<OwnMessage> {
        // A router that has just started has no path state yet; the next Path is on its way.
        if matches!(error.code, code::NO_PATH | code::NO_SENDER) {
            return Vec::new();
        }
        let Some(at) = self.of(receiver, session) else {
            return Vec::new();
        };
        let Some(reservation) = self.reservations.get_mut(&at) else {
            return Vec::new();
        };
        let (requested, in_force) = (&reservation.requested, &reservation.in_force);
        let lasts = requested == in_force;
        let failed = requested
            .iter()
            .filter(|(sender, flowspec)| lasts || in_force.get(*sender) != Some(*flowspec));
        let failed: Vec<SenderTemplate> = failed.map(|(sender, _)| *sender).collect();
        if reservation.in_force.is_empty() {
            self.forget(&at);
            node.release(now, receiver, &at.0);
        } else if !lasts {
            reservation.requested.clone_from(&reservation.in_force);
            if let Some(wanted) = reservation.descriptors() {
                let _ = node.reserve(now, receiver, &at.0, wanted);
            }
        }
        let error = ErrorSpec {
            in_place: false,
            not_guilty: false,
            ..*error
        };
        failed
            .into_iter()
            .filter_map(|sender| self.path_err(&(at.0, sender), error))
            .collect()
    }

    /// A PathErr for a refusal by this host.
    fn refuse(&self, flow: &Flow, error: ErrorCode) -> Option<OwnMessage> {
        let interface = self.received.get(flow)?.interface;
        let alike = |address: &&IpAddr| address.is_ipv4() == flow.0.destination.is_ipv4();
        let own = self
            .addresses
            .get(interface as usize)?
            .iter()
            .find(alike)
            .copied()?;
        self.path_err(flow, ErrorSpec::new(own, error))
    }

    /// A PathErr towards a sender, with the ADSPEC of its Path.
    fn path_err(&self, flow: &Flow, error: ErrorSpec) -> Option<OwnMessage> {
        const TTL: u8 = 64;
        let ReceivedPath { path, interface, .. } = self.received.get(flow)?;
        let Hop { address, .. } = path.hop;
        let message = Message::PathErr(PathErr {
            session: path.session,
            error,
            policy: Vec::new(),
            sender: path.sender.clone(),
        });
        let frame = Frame::plain(TTL, message);
        Some(OwnMessage {
            interface: *interface,
            destination: address,
            frame,
        })
    }
}

/// The flowspec to request for this Tspec over a path with this ADSPEC; or the error to return.
fn flowspec(tspec: &TokenBucket, adspec: Option<&Adspec>, hint: ServiceHint) -> Result<Flowspec, ErrorCode> {
    let delay = hint.delay.map(|micros| Duration::from_micros(micros.into()));
    request::flowspec(tspec, adspec, delay)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rsvp::guaranteed;
    use rsvp::wire::{AdspecFragment, Parameter, Real};

    fn path(c: u32, d: u32) -> Adspec {
        let one = |id, word| Parameter {
            id,
            flags: 0,
            words: vec![word],
        };
        let general = AdspecFragment {
            service: 1,
            broken: false,
            parameters: vec![one(10, 1500)],
        };
        let guaranteed = AdspecFragment {
            service: 2,
            broken: false,
            parameters: vec![one(133, c), one(134, d)],
        };
        Adspec::new(vec![general, guaranteed]).expect("general first")
    }

    fn bucket(peak: Real) -> TokenBucket {
        let (rate, bucket) = (Real::nearest(125_000), Real::nearest(10_000));
        TokenBucket {
            rate,
            bucket,
            peak,
            minimum: 100,
            maximum: 1500,
        }
    }

    #[test]
    fn a_delay_is_requested_with_the_rate_that_guarantees_it() {
        let bucket = bucket(Real::INFINITE);
        let hint = |us| ServiceHint {
            trial: false,
            delay: Some(us),
        };
        let path = path(3000, 20_000);
        let requested = flowspec(&bucket, Some(&path), hint(25_000)).expect("it can be kept");
        let Flowspec::Guaranteed { rate, slack: 0, .. } = requested else {
            panic!("{requested:?}");
        };
        let terms = guaranteed::exported(&path).expect("all nodes offer it");
        let delay = guaranteed::delay(&bucket, rate, terms).expect("there is a bound");
        assert!(delay <= Duration::from_millis(25), "{delay}");
        let error = flowspec(&bucket, Some(&path), hint(20_000)).expect_err("D alone takes it");
        assert_eq!(error, ErrorCode::new(code::ADMISSION, value::DELAY));
    }

    #[test]
    fn without_guaranteed_service_on_the_path_no_delay_is_requested() {
        let general = path(0, 0).fragments()[..1].to_vec();
        let none = Adspec::new(general).expect("general first");
        let hint = ServiceHint {
            trial: false,
            delay: Some(1_000_000),
        };
        let error = flowspec(&bucket(Real::INFINITE), Some(&none), hint).expect_err("no node offers it");
        assert_eq!(
            error,
            ErrorCode::new(code::TRAFFIC_CONTROL, value::SERVICE_UNSUPPORTED)
        );
    }

    /// A node with one interface, and this proxy of its own addresses.
    struct Receiver {
        node: KernelNode,
        proxy: ReceiverProxy,
        sent: Vec<Message>,
    }

    const US: [u8; 4] = [10, 0, 0, 1];
    const THEM: [u8; 4] = [10, 0, 0, 2];
    const SESSION: Session = Session {
        destination: IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
        protocol: 17,
        port: 5000,
        police: false,
    };

    fn sender(port: u16) -> SenderTemplate {
        SenderTemplate::Port {
            address: THEM.into(),
            port,
        }
    }

    impl Receiver {
        fn new(style: AcceptStyle) -> Self {
            let rule = AcceptRule {
                style,
                ..AcceptRule::default()
            };
            let routes = netio::routes::Routes::open().expect("netlink");
            let interface = rsvp::node::RsvpInterface {
                addresses: vec![US.into()],
                refresh: rsvp::wire::Refresh::millis(30_000),
            };
            let settings = rsvp::node::Settings::new(vec![interface], engine::random::Seed(1));
            let routing = super::super::routing::KernelRoutes::new(Box::new(routes), vec![rule.clone()]);
            let mut proxy = ReceiverProxy::new(vec![rule]);
            proxy.set_addresses(vec![vec![US.into()]]);
            Self {
                node: KernelNode::new(settings, rsvp::admission::AdmissionState::new(), routing),
                proxy,
                sent: Vec::new(),
            }
        }

        /// A Path of this sender, at this rate in byte/s.
        fn hear(&mut self, from: SenderTemplate, rate: u64) {
            let now = Instant::START;
            let path = Path {
                session: SESSION,
                hop: Hop {
                    address: THEM.into(),
                    lih: 3,
                },
                refresh: rsvp::wire::Refresh::millis(30_000),
                policy: Vec::new(),
                sender: rsvp::wire::SenderDescriptor {
                    template: from,
                    tspec: rsvp::wire::Content::Known(TokenBucket {
                        rate: Real::nearest(rate),
                        ..bucket(Real::INFINITE)
                    }),
                    adspec: None,
                },
            };
            let frame = Frame::plain(64, Message::Path(path));
            self.proxy.path_arrives(0, &frame);
            self.node.handle_frame(now, 0, 64, frame);
            self.settle(now);
        }

        /// The neighbour upstream answers our request with this error.
        fn refuse(&mut self, error: u8, value: u16) {
            let now = Instant::START;
            let request = self.sent.iter().rev().find_map(|message| match message {
                Message::Resv(resv) => Some(resv.descriptors.clone()),
                _ => None,
            });
            let error = ErrorSpec::new(THEM.into(), ErrorCode::new(error, value));
            let message = Message::ResvErr(rsvp::wire::ResvErr {
                session: SESSION,
                hop: Hop {
                    address: THEM.into(),
                    lih: 3,
                },
                error: ErrorSpec {
                    in_place: true,
                    ..error
                },
                scope: None,
                policy: Vec::new(),
                descriptors: request.expect("there was a request"),
            });
            self.node.handle_frame(now, 0, 64, Frame::plain(64, message));
            self.settle(now);
        }

        fn settle(&mut self, now: Instant) {
            use rsvp::node::Event;
            while let Some(event) = self.node.poll_event() {
                let own = match event {
                    Event::Path {
                        session,
                        sender,
                        tspec,
                        adspec,
                    } => {
                        let offer = (&tspec, adspec.as_ref());
                        let flow = ((plain(&session), sender), true);
                        self.proxy
                            .path(&mut self.node, now, flow, offer)
                            .into_iter()
                            .collect()
                    }
                    Event::PathEnded { session, sender } => {
                        self.proxy.ended(&mut self.node, now, &(plain(&session), sender));
                        Vec::new()
                    }
                    Event::ReservationFailed {
                        session,
                        receiver,
                        error,
                        ..
                    } => self
                        .proxy
                        .failed(&mut self.node, now, (receiver, &session), &error),
                    _ => Vec::new(),
                };
                self.sent.extend(own.into_iter().map(|own| own.frame.message));
            }
            while let Some(sent) = self.node.poll_transmit() {
                self.sent
                    .push(Frame::decode(&sent.bytes).expect("a message of ours").message);
            }
        }

        /// The style, rate and senders of the last Resv.
        fn request(&self) -> (rsvp::wire::Style, u64, Vec<SenderTemplate>) {
            let resvs = self.sent.iter().rev().find_map(|message| match message {
                Message::Resv(resv) => Some(&resv.descriptors),
                _ => None,
            });
            let descriptors = resvs.expect("a Resv");
            let rate = |flowspec: &rsvp::wire::Content<Flowspec>| {
                flowspec
                    .known()
                    .map_or(0, |flowspec| flowspec.bucket().rate.ceil())
            };
            let (rate, senders) = match descriptors {
                Descriptors::Wildcard(flowspec) => (rate(flowspec), Vec::new()),
                Descriptors::SharedExplicit(flowspec, senders) => (rate(flowspec), senders.clone()),
                Descriptors::Fixed(list) => (rate(&list[0].0), list.iter().map(|one| one.1).collect()),
                Descriptors::Unknown(..) => panic!("{descriptors:?}"),
            };
            (descriptors.style(), rate, senders)
        }
    }

    #[test]
    fn accept_reserves_once_for_all_senders_in_the_shared_styles() {
        use rsvp::wire::Style;
        for (accept, style, all) in [
            (AcceptStyle::Fixed, Style::Fixed, vec![sender(2)]),
            (
                AcceptStyle::SharedExplicit,
                Style::SharedExplicit,
                vec![sender(1), sender(2)],
            ),
            (AcceptStyle::Wildcard, Style::Wildcard, vec![]),
        ] {
            let mut receiver = Receiver::new(accept);
            receiver.hear(sender(1), 100_000);
            receiver.hear(sender(2), 400_000);
            assert_eq!(receiver.request(), (style, 400_000, all));
            let count = receiver.proxy.reservations.len();
            assert_eq!(count, if accept == AcceptStyle::Fixed { 2 } else { 1 });
            assert!(
                [1, 2]
                    .iter()
                    .all(|port| receiver.proxy.answered(&(SESSION, sender(*port))))
            );
        }
    }

    #[test]
    fn a_sender_that_begins_again_before_its_end_is_told_is_answered() {
        let mut receiver = Receiver::new(AcceptStyle::Fixed);
        receiver.hear(sender(1), 100_000);
        let tear = Message::PathTear(rsvp::wire::PathTear {
            session: SESSION,
            hop: Hop {
                address: THEM.into(),
                lih: 3,
            },
            sender: sender(1),
        });
        // Both messages wait: the node has handled them when it tells of the first.
        receiver
            .node
            .handle_frame(Instant::START, 0, 64, Frame::plain(64, tear));
        receiver.hear(sender(1), 100_000);
        let last = receiver.sent.last();
        assert!(matches!(last, Some(Message::Resv(_))), "{last:?}");
        assert!(receiver.proxy.answered(&(SESSION, sender(1))));
    }

    #[test]
    fn the_last_sender_ends_a_shared_reservation_and_the_others_share_what_they_need() {
        let mut receiver = Receiver::new(AcceptStyle::SharedExplicit);
        receiver.hear(sender(1), 100_000);
        receiver.hear(sender(2), 400_000);
        let tear = |port| {
            Message::PathTear(rsvp::wire::PathTear {
                session: SESSION,
                hop: Hop {
                    address: THEM.into(),
                    lih: 3,
                },
                sender: sender(port),
            })
        };
        let end = |receiver: &mut Receiver, port| {
            receiver
                .node
                .handle_frame(Instant::START, 0, 64, Frame::plain(64, tear(port)));
            receiver.settle(Instant::START);
        };
        end(&mut receiver, 2);
        assert_eq!(
            receiver.request(),
            (rsvp::wire::Style::SharedExplicit, 100_000, vec![sender(1)])
        );
        end(&mut receiver, 1);
        assert_eq!(
            (receiver.proxy.reservations.len(), receiver.proxy.receivers.len()),
            (0, 0)
        );
        assert_eq!(receiver.node.reservations(), 0);
    }

    #[test]
    fn a_sender_that_does_not_fit_a_shared_reservation_is_told_and_the_others_keep_theirs() {
        let mut receiver = Receiver::new(AcceptStyle::SharedExplicit);
        receiver.hear(sender(1), 100_000);
        receiver.proxy.confirmed(ReceiverId(1), &SESSION);
        receiver.hear(sender(2), 400_000);
        receiver.refuse(code::ADMISSION, value::BANDWIDTH);
        let told: Vec<SenderTemplate> = receiver
            .sent
            .iter()
            .filter_map(|message| match message {
                Message::PathErr(error) => Some(error.sender.template),
                _ => None,
            })
            .collect();
        assert_eq!(told, [sender(2)]);
        assert_eq!(
            receiver.request(),
            (rsvp::wire::Style::SharedExplicit, 100_000, vec![sender(1)])
        );
    }
}
