//! Reservations of programs on this host: the sender's side.
//!
//! Each is an RSVP sender. Its program learns of every change in the reservation's state; when the
//! program's connection ends, however it ends, the sender is removed.

use super::routing::KernelRoutes;
use super::service_hint::ServiceHint;
use control::protocol::Refusal;
use control::reservation::{PathOffer, PathRefusal, ReservationRequest, ReservationState};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use netio::routes::Leads;
use rsvp::admission::AdmissionState;
use rsvp::guaranteed;
use rsvp::node::{CallError, Node};
use rsvp::reasons::reason;
use rsvp::request::SenderRequest;
use rsvp::wire::{
    Adspec, ErrorSpec, Flowspec, PathErr, Real, SenderTemplate, Session, TokenBucket, code, value,
};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::mpsc;

/// The node of this host.
pub type KernelNode = Node<AdmissionState, KernelRoutes>;
/// A session without E_Police, and a sender: what an FF reservation is for.
pub type Flow = (Session, SenderTemplate);
/// Receives the outcome of a change.
pub type DoneSender = mpsc::Sender<Result<String, Refusal>>;

/// The sender of one program.
#[derive(Debug)]
struct LocalSender {
    wanted: ReservationRequest,
    flow: Flow,
    trial: bool,
    /// What its Path carries.
    tspec: TokenBucket,
    updates: mpsc::Sender<ReservationState>,
    reserved: bool,
    /// A pending change: the old request, and the receiver of the outcome.
    change: Option<(ReservationRequest, DoneSender)>,
}

/// A request of a program.
#[derive(Debug)]
pub struct NewSender {
    /// The number of the reservation.
    pub number: u64,
    /// The request.
    pub wanted: ReservationRequest,
    /// Whether it only queries what the path offers.
    pub trial: bool,
    /// Receives the states of the reservation.
    pub updates: mpsc::Sender<ReservationState>,
}

/// All senders of programs, by number.
#[derive(Debug, Default)]
pub struct LocalSenders {
    senders: BTreeMap<u64, LocalSender>,
    by_flow: BTreeMap<Flow, u64>,
}

/// A session without E_Police.
pub fn plain(session: &Session) -> Session {
    Session {
        police: false,
        ..*session
    }
}

/// A rate in bit/s.
pub fn bits(rate: Real) -> u64 {
    rate.ceil().saturating_mul(8)
}

/// The rate that a flowspec reserves, in bit/s, and whether it is guaranteed service.
pub fn reserved_rate(flowspec: &Flowspec) -> (u64, bool) {
    match flowspec {
        Flowspec::ControlledLoad(bucket) => (bits(bucket.rate), false),
        Flowspec::Guaranteed { rate, .. } => (bits(*rate), true),
    }
}

/// The Tspec of a request, on a link with this MTU.
fn bucket(wanted: &ReservationRequest, mtu: u32) -> TokenBucket {
    let burst = Bytes::new(wanted.burst_bytes);
    let request = SenderRequest {
        rate: Bandwidth::bits_per_sec(wanted.rate_bps),
        burst: Some(burst).filter(|burst| *burst > Bytes::ZERO),
        packet: wanted.packet_bytes,
    };
    request.tspec(mtu)
}

fn why(error: CallError, to: IpAddr) -> Refusal {
    match error {
        CallError::NoRoute => Refusal {
            message: format!("there is no route to {to} through an interface that speaks RSVP"),
            help: Some("check `ip route get`, and `interfaces` in [rsvp]".into()),
        },
        CallError::Ports => Refusal::new(
            "a source port needs a destination port, and reservations for one host have ports all or none",
        ),
        CallError::Full => Refusal::new("this node has reached its limit of senders"),
        CallError::NoPath | CallError::Style(_) | CallError::Service => {
            Refusal::new("this session has reservations of another style or service")
        }
    }
}

impl LocalSenders {
    /// Defines the sender of a program. `mtu` is that of an interface, by its kernel index.
    ///
    /// # Errors
    ///
    /// If the request is invalid, a duplicate, or refused by the node.
    pub fn begin(
        &mut self,
        node: &mut KernelNode,
        now: Instant,
        new: NewSender,
        mtu: impl Fn(u32) -> u32,
    ) -> Result<(), Refusal> {
        let NewSender {
            number,
            wanted,
            trial,
            updates,
        } = new;
        if wanted.rate_bps == 0 {
            return Err(Refusal::new("a rate of 0 needs no reservation"));
        }
        if wanted.to.is_ipv6() && wanted.to.is_multicast() {
            return Err(Refusal {
                message: format!(
                    "{} is a group of IPv6, and the kernel does not intercept RSVP for those",
                    wanted.to
                ),
                help: Some("reserve for a group of IPv4, or for each receiver".into()),
            });
        }
        let (out, usual) = match node.routing().leads(wanted.to) {
            Leads::By { interface, source } => (interface, source),
            _ => return Err(why(CallError::NoRoute, wanted.to)),
        };
        let from = wanted.from.or(usual).ok_or_else(|| Refusal {
            message: format!("the route to {} has no source address", wanted.to),
            help: Some("give one with --from".into()),
        })?;
        if from.is_ipv4() != wanted.to.is_ipv4() {
            return Err(Refusal::new(format!(
                "{from} and {} are of different address families",
                wanted.to
            )));
        }
        let session = Session {
            destination: wanted.to,
            protocol: wanted.protocol,
            port: wanted.port,
            police: false,
        };
        let flow = (
            session,
            SenderTemplate::Port {
                address: from,
                port: wanted.from_port,
            },
        );
        if let Some(number) = self.by_flow.get(&flow) {
            return Err(Refusal {
                message: format!("this flow has a reservation already: number {number}"),
                help: Some("`suimon reserve change` changes it; another source port is another flow".into()),
            });
        }
        let bucket = bucket(&wanted, mtu(out));
        let local = LocalSender {
            flow,
            trial,
            tspec: bucket,
            updates,
            reserved: false,
            change: None,
            wanted,
        };
        // Stored before its Path leaves, which carries its hint.
        let to = local.wanted.to;
        if !trial {
            let _ = local.updates.send(ReservationState::Asked { number });
        }
        self.by_flow.insert(flow, number);
        self.senders.insert(number, local);
        node.add_sender(now, session, flow.1, bucket).map_err(|error| {
            self.forget(number);
            why(error, to)
        })
    }

    fn forget(&mut self, number: u64) -> Option<Flow> {
        let local = self.senders.remove(&number)?;
        self.by_flow.remove(&local.flow);
        Some(local.flow)
    }

    /// Removes the sender of a program that has ended.
    pub fn end(&mut self, node: &mut KernelNode, now: Instant, number: u64) {
        if let Some((session, sender)) = self.forget(number) {
            node.remove_sender(now, &session, sender);
        }
    }

    /// Removes the senders of all programs.
    pub fn end_all(&mut self, node: &mut KernelNode, now: Instant) {
        let all: Vec<u64> = self.senders.keys().copied().collect();
        all.into_iter().for_each(|number| self.end(node, now, number));
    }

    /// Changes the rate of a sender; the outcome follows when the path has replied.
    pub fn change(
        &mut self,
        node: &mut KernelNode,
        now: Instant,
        number: u64,
        rate_bps: u64,
        mtu: impl Fn(u32) -> u32,
        done: DoneSender,
    ) {
        let Some(local) = self
            .senders
            .get_mut(&number)
            .filter(|local| local.change.is_none() && rate_bps > 0)
        else {
            let why = format!(
                "no program on this host has a reservation with number {number} that can be changed now"
            );
            let _ = done.send(Err(Refusal {
                message: why,
                help: Some("see `suimon reserve status`".into()),
            }));
            return;
        };
        let before = std::mem::replace(&mut local.wanted.rate_bps, rate_bps);
        let before = ReservationRequest {
            rate_bps: before,
            ..local.wanted.clone()
        };
        local.change = Some((before, done));
        self.update_sender(node, now, number, mtu);
    }

    fn update_sender(&mut self, node: &mut KernelNode, now: Instant, number: u64, mtu: impl Fn(u32) -> u32) {
        let Some(local) = self.senders.get_mut(&number) else {
            return;
        };
        let out = match node.routing().leads(local.wanted.to) {
            Leads::By { interface, .. } => mtu(interface),
            _ => mtu(0),
        };
        // Without a route the state stays: the path returns with the route.
        local.tspec = bucket(&local.wanted, out);
        let _ = node.add_sender(now, local.flow.0, local.flow.1, local.tspec);
    }

    /// The hint that the Path of a sender on this host carries.
    pub fn hint(&self, session: &Session, sender: &SenderTemplate) -> ServiceHint {
        let number = self.by_flow.get(&(plain(session), *sender));
        let local = number.and_then(|number| self.senders.get(number));
        local.map_or(ServiceHint::default(), |local| ServiceHint {
            trial: local.trial,
            delay: local
                .wanted
                .delay_us
                .map(|us| u32::try_from(us).unwrap_or(u32::MAX)),
        })
    }

    /// The number of the sender of this flow.
    pub fn number(&self, flow: &Flow) -> Option<u64> {
        self.by_flow.get(flow).copied()
    }

    /// Whether a PathErr is not about the Path that a sender on this host sends now: it is the
    /// reply to a trial, or refuses another Tspec. Refresh reduction retransmits it (RFC 2961,
    /// section 6) when the sender that it was for has ended, and another of the same flow has
    /// begun.
    pub fn is_stale(&self, error: &PathErr) -> bool {
        let flow = (plain(&error.session), error.sender.template);
        let number = self.by_flow.get(&flow);
        let local = number.and_then(|number| self.senders.get(number));
        local.is_some_and(|local| {
            let reply = error.error.code == code::CONFIRMATION;
            let tspec = error.sender.tspec.known();
            (reply && !local.trial) || tspec.is_some_and(|tspec| *tspec != local.tspec)
        })
    }

    /// RESV_EVENT: every hop up to the receiver has admitted the reservation.
    pub fn reserved(&mut self, flow: &Flow, flowspec: &Flowspec) {
        let Some(&number) = self.by_flow.get(flow) else {
            return;
        };
        let Some(local) = self.senders.get_mut(&number) else {
            return;
        };
        let (rate_bps, guaranteed) = reserved_rate(flowspec);
        if local.trial {
            // A receiver without support for trials has reserved: the request fits.
            let offer = PathOffer {
                fits: true,
                why: None,
                hops: 0,
                left_bps: None,
                mtu_bytes: flowspec.bucket().maximum,
                rate_for_delay_bps: None,
                possible_delay_us: None,
                gap: false,
            };
            let _ = local.updates.send(ReservationState::Offer(offer));
            return;
        }
        local.reserved = true;
        if let Some((_, done)) = local.change.take() {
            let _ = done.send(Ok(format!(
                "reservation {number}: {}",
                Bandwidth::bits_per_sec(rate_bps)
            )));
        }
        let _ = local.updates.send(ReservationState::Reserved {
            number,
            rate_bps,
            guaranteed,
        });
    }

    /// The reservation is no longer in force.
    pub fn unreserved(&mut self, flow: &Flow) {
        let Some(&number) = self.by_flow.get(flow) else {
            return;
        };
        if let Some(local) = self.senders.get_mut(&number)
            && std::mem::take(&mut local.reserved)
        {
            let _ = local.updates.send(ReservationState::Lost { number });
        }
    }

    /// PATH_ERROR: a hop has refused the reservation; or the receiver replies to a trial.
    pub fn failed(
        &mut self,
        node: &mut KernelNode,
        now: Instant,
        flow: &Flow,
        error: &ErrorSpec,
        adspec: Option<&Adspec>,
        mtu: impl Fn(u32) -> u32,
    ) {
        let Some(&number) = self.by_flow.get(flow) else {
            return;
        };
        let Some(local) = self.senders.get_mut(&number) else {
            return;
        };
        if local.trial && error.code == code::CONFIRMATION {
            let offer = adspec.map(|adspec| offer(&local.wanted, adspec));
            let _ = local.updates.send(offer.map_or_else(
                || ReservationState::Refused(path_refusal(local, error, None)),
                ReservationState::Offer,
            ));
            return;
        }
        let refusal = path_refusal(local, error, adspec);
        if let Some((before, done)) = local.change.take() {
            // The old reservation is still in force: the Path returns to the old Tspec.
            local.wanted = before;
            let left = refusal.left_bps.map_or_else(String::new, |left| {
                format!("; {} left", Bandwidth::bits_per_sec(left))
            });
            let delay = refusal.possible_delay_us.map_or_else(String::new, |delay| {
                format!("; a delay of {} is possible", Duration::from_micros(delay))
            });
            let message = format!("{} refuses: {}{left}{delay}", refusal.node, refusal.reason);
            let _ = done.send(Err(Refusal {
                message,
                help: Some("the previous reservation is still in force".into()),
            }));
            self.update_sender(node, now, number, mtu);
            return;
        }
        let _ = local.updates.send(ReservationState::Refused(refusal));
    }
}

fn path_refusal(local: &LocalSender, error: &ErrorSpec, adspec: Option<&Adspec>) -> PathRefusal {
    PathRefusal {
        node: error.node,
        code: error.code,
        value: error.value,
        reason: reason(error.code, error.value),
        asked_bps: local.wanted.rate_bps,
        left_bps: adspec.and_then(left),
        possible_delay_us: adspec.and_then(|adspec| possible_delay(&local.wanted, adspec)),
    }
}

/// The shortest delay, in microseconds, that a path can guarantee to a request for a delay: that at
/// all of the rate which is left.
fn possible_delay(wanted: &ReservationRequest, adspec: &Adspec) -> Option<u64> {
    wanted.delay_us?;
    let bucket = bucket(wanted, adspec.mtu().unwrap_or(u32::MAX).min(1500));
    let most = adspec.bandwidth().unwrap_or(Real::INFINITE);
    let delay = guaranteed::delay(&bucket, most, guaranteed::exported(adspec)?)?;
    Some(in_micros(delay))
}

/// In whole microseconds that `--delay` accepts, rounded up.
pub fn in_micros(delay: Duration) -> u64 {
    /// Coarse enough that the rate for the delay is not above the one that it follows from.
    const STEP: u64 = 100;
    delay.nanos().div_ceil(1000 * STEP) * STEP
}

/// The bandwidth available on the bottleneck link.
fn left(adspec: &Adspec) -> Option<u64> {
    adspec.bandwidth().filter(|rate| rate.is_finite()).map(bits)
}

/// What a path offers to a request.
fn offer(wanted: &ReservationRequest, adspec: &Adspec) -> PathOffer {
    let (left, gap) = (
        left(adspec),
        adspec
            .fragments()
            .iter()
            .any(|part| part.service == 1 && part.broken),
    );
    let mtu = adspec.mtu().unwrap_or(u32::MAX);
    let rate = match (wanted.delay_us, guaranteed::exported(adspec)) {
        (None, _) => Ok(wanted.rate_bps),
        (Some(us), Some(path)) => {
            let bucket = bucket(wanted, mtu.min(1500));
            guaranteed::rate_for(&bucket, Duration::from_micros(us), path)
                .map(bits)
                .ok_or_else(|| reason(code::ADMISSION, value::DELAY))
        }
        (Some(_), None) => Err(reason(code::TRAFFIC_CONTROL, value::SERVICE_UNSUPPORTED)),
    };
    let why = match (&rate, left) {
        (Err(why), _) => Some(why.clone()),
        (Ok(rate), Some(left)) if *rate > left => Some(reason(code::ADMISSION, value::BANDWIDTH)),
        _ if gap => Some("some router on the path does not support RSVP and reserves nothing".into()),
        _ => None,
    };
    PathOffer {
        fits: why.is_none(),
        why,
        hops: adspec.hops().unwrap_or(0),
        left_bps: left,
        mtu_bytes: mtu,
        rate_for_delay_bps: wanted.delay_us.and_then(|_| rate.ok()),
        possible_delay_us: possible_delay(wanted, adspec),
        gap,
    }
}
