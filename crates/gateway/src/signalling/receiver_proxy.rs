//! Replies to Paths by the rules of `[[rsvp.accept]]`: the receiver's side, without a receiver
//! application.
//!
//! A path-triggered receiver proxy (RFC 5945, section 4.1), for this host or for hosts behind it.
//! When a reservation fails, it notifies the sender by a PathErr with the same error, similar to
//! RFC 5946, section 4.1; RFC 2205 alone notifies only receivers.

use super::local_senders::{Flow, KernelNode, plain};
use super::service_hint::ServiceHint;
use control::rsvp_config::{AcceptRule, IncomingPath};
use engine::units::{Bandwidth, Duration, Instant};
use rsvp::guaranteed;
use rsvp::node::ReceiverId;
use rsvp::traffic_control::InterfaceId;
use rsvp::wire::{
    Adspec, Descriptors, ErrorCode, ErrorSpec, Flowspec, Frame, Hop, Message, Path, PathErr, Session,
    TokenBucket, code, value,
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

/// The reservation for a sender.
#[derive(Clone, Copy, Debug)]
struct ProxyReservation {
    receiver: ReceiverId,
    requested: Flowspec,
    /// The confirmed flowspec.
    in_force: Option<Flowspec>,
}

/// The rules, the Paths towards us, and the reservations made.
#[derive(Debug, Default)]
pub struct ReceiverProxy {
    rules: Vec<AcceptRule>,
    received: BTreeMap<Flow, ReceivedPath>,
    reservations: BTreeMap<Flow, ProxyReservation>,
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

    /// Whether a rule has reserved for this flow.
    pub fn answered(&self, flow: &Flow) -> bool {
        self.reservations.contains_key(flow)
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
        let known = self.reservations.get(&flow).copied();
        if known.is_some_and(|one| one.requested == flowspec) {
            return None;
        }
        self.last += u64::from(known.is_none());
        let receiver = known.map_or(ReceiverId(self.last), |one| one.receiver);
        let reservation = ProxyReservation {
            receiver,
            requested: flowspec,
            in_force: known.and_then(|one| one.in_force),
        };
        self.reservations.insert(flow, reservation);
        let wanted = Descriptors::Fixed(vec![(flowspec, sender)]);
        match node.reserve(now, receiver, &session, wanted) {
            Ok(()) => None,
            Err(_) => {
                self.reservations.remove(&flow);
                self.refuse(&flow, ErrorCode::new(code::SYSTEM, 0))
            }
        }
    }

    /// A sender has ended.
    pub fn ended(&mut self, node: &mut KernelNode, now: Instant, flow: &Flow) {
        self.received.remove(flow);
        if let Some(reservation) = self.reservations.remove(flow) {
            node.release(now, reservation.receiver, &flow.0);
        }
    }

    fn flow_of(&self, receiver: ReceiverId, session: &Session) -> Option<Flow> {
        let same =
            |(flow, one): &(&Flow, &ProxyReservation)| flow.0 == plain(session) && one.receiver == receiver;
        self.reservations.iter().find(same).map(|(flow, _)| *flow)
    }

    /// A reservation was confirmed.
    pub fn confirmed(&mut self, receiver: ReceiverId, session: &Session) -> Option<Flow> {
        let flow = self.flow_of(receiver, session)?;
        let reservation = self.reservations.get_mut(&flow)?;
        reservation.in_force = Some(reservation.requested);
        Some(flow)
    }

    /// A reservation has failed upstream. The request returns to what is in force, and the sender
    /// gets a PathErr. A request that was confirmed before stays: a router has lost its state, or
    /// the path has changed.
    pub fn failed(
        &mut self,
        node: &mut KernelNode,
        now: Instant,
        (receiver, session): (ReceiverId, &Session),
        error: &ErrorSpec,
    ) -> Option<OwnMessage> {
        // A router that has just started has no path state yet; the next Path is on its way.
        if matches!(error.code, code::NO_PATH | code::NO_SENDER) {
            return None;
        }
        let flow = self.flow_of(receiver, session)?;
        let reservation = self.reservations.get_mut(&flow)?;
        match reservation.in_force {
            Some(old) if old == reservation.requested => {}
            Some(old) => {
                reservation.requested = old;
                let wanted = Descriptors::Fixed(vec![(old, flow.1)]);
                let _ = node.reserve(now, receiver, &flow.0, wanted);
            }
            None => {
                self.reservations.remove(&flow);
                node.release(now, receiver, &flow.0);
            }
        }
        self.path_err(
            &flow,
            ErrorSpec {
                in_place: false,
                not_guilty: false,
                ..*error
            },
        )
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
    let mtu = adspec.and_then(Adspec::mtu).unwrap_or(u32::MAX);
    let bucket = TokenBucket {
        maximum: tspec.maximum.min(mtu),
        minimum: tspec.minimum.min(mtu),
        ..*tspec
    };
    let Some(delay) = hint.delay else {
        return Ok(Flowspec::ControlledLoad(bucket));
    };
    let unsupported = ErrorCode::new(code::TRAFFIC_CONTROL, value::SERVICE_UNSUPPORTED);
    let path = adspec.and_then(guaranteed::exported).ok_or(unsupported)?;
    let rate = guaranteed::rate_for(&bucket, Duration::from_micros(delay.into()), path);
    Ok(Flowspec::Guaranteed {
        bucket,
        rate: rate.ok_or(ErrorCode::new(code::ADMISSION, value::DELAY))?,
        slack: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
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
}
