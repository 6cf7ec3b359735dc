//! Reservations that programs on this host hold: the sender's side.
//!
//! Each is a sender of RSVP's. The program hears how it fares, and when it goes, however it goes, so does the sender.

use super::reasons::reason;
use super::routing::KernelRoutes;
use super::want::Want;
use control::protocol::Refusal;
use control::reservation::{Denial, Offer, Progress, Wanted};
use engine::units::{Bandwidth, Duration, Instant};
use netio::routes::Leads;
use rsvp::admission::AdmissionState;
use rsvp::guaranteed;
use rsvp::node::{CallError, Node};
use rsvp::wire::{Adspec, ErrorSpec, Flowspec, Real, SenderTemplate, Session, TokenBucket, code, value};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::mpsc;

/// The node that all of this is about.
pub type KernelNode = Node<AdmissionState, KernelRoutes>;
/// A session, its flag left out, and a sender: what a reservation of style FF is for.
pub type Flow = (Session, SenderTemplate);
/// Where the outcome of a change goes.
pub type Outcome = mpsc::Sender<Result<String, Refusal>>;

/// One program's reservation.
#[derive(Debug)]
struct Held {
    wanted: Wanted,
    flow: Flow,
    trial: bool,
    tell: mpsc::Sender<Progress>,
    reserved: bool,
    /// A change that is not answered yet: what was wanted before, and who waits.
    change: Option<(Wanted, Outcome)>,
}

/// All of them, by number.
#[derive(Debug, Default)]
pub struct Programs {
    held: BTreeMap<u64, Held>,
    by_flow: BTreeMap<Flow, u64>,
}

/// A session without its flag.
pub fn plain(session: &Session) -> Session {
    Session {
        police: false,
        ..*session
    }
}

/// A rate of RSVP's in bit/s.
pub fn bits(rate: Real) -> u64 {
    rate.ceil().saturating_mul(8)
}

/// What is promised by a flowspec, in bit/s, and whether a delay is.
pub fn promised(flowspec: &Flowspec) -> (u64, bool) {
    match flowspec {
        Flowspec::ControlledLoad(bucket) => (bits(bucket.rate), false),
        Flowspec::Guaranteed { rate, .. } => (bits(*rate), true),
    }
}

/// What a program says that it sends, on a link with this longest datagram.
fn bucket(wanted: &Wanted, mtu: u32) -> TokenBucket {
    const TEN_MS: u64 = 100;
    let rate = wanted.rate_bps.div_ceil(8);
    let least = 2 * u64::from(mtu);
    let burst = match wanted.burst_bytes {
        0 => (rate / TEN_MS).max(least),
        burst => burst.max(mtu.into()),
    };
    TokenBucket {
        rate: Real::nearest(rate),
        bucket: Real::nearest(burst),
        peak: Real::INFINITE,
        minimum: wanted.packet_bytes.clamp(20, mtu),
        maximum: mtu,
    }
}

fn why(error: CallError, to: IpAddr) -> Refusal {
    match error {
        CallError::NoRoute => Refusal {
            message: format!("there is no route to {to} by an interface on which RSVP is spoken"),
            help: Some("look at `ip route get`, and at `interfaces` of [rsvp]".into()),
        },
        CallError::Ports => Refusal::new(
            "a source port needs a destination port, and reservations for one host have ports all or none",
        ),
        CallError::Full => Refusal::new("this node remembers as many senders as it may"),
        CallError::NoPath | CallError::Style(_) | CallError::Service => {
            Refusal::new("this session is reserved in another way already")
        }
    }
}

impl Programs {
    /// A program asks. `mtu` is of the link by which it leaves.
    pub fn begin(
        &mut self,
        node: &mut KernelNode,
        now: Instant,
        (number, wanted, trial): (u64, Wanted, bool),
        mtu: impl Fn(u32) -> u32,
        tell: mpsc::Sender<Progress>,
    ) -> Result<(), Refusal> {
        if wanted.rate_bps == 0 {
            return Err(Refusal::new("a rate of 0 needs no reservation"));
        }
        let (out, usual) = match node.routing().leads(wanted.to) {
            Leads::By { interface, source } => (interface, source),
            _ => return Err(why(CallError::NoRoute, wanted.to)),
        };
        let from = wanted.from.or(usual).ok_or_else(|| Refusal {
            message: format!("the route to {} names no source address", wanted.to),
            help: Some("name it with --from".into()),
        })?;
        if from.is_ipv4() != wanted.to.is_ipv4() {
            return Err(Refusal::new(format!(
                "{from} and {} are of two families",
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
                message: format!("this flow is reserved already, as number {number}"),
                help: Some("`suimon reserve change` changes it; another source port is another flow".into()),
            });
        }
        let held = Held {
            flow,
            trial,
            tell,
            reserved: false,
            change: None,
            wanted,
        };
        let bucket = bucket(&held.wanted, mtu(out));
        // It must be known before its Path leaves, which says what it wants.
        let to = held.wanted.to;
        if !trial {
            let _ = held.tell.send(Progress::Asked { number });
        }
        self.by_flow.insert(flow, number);
        self.held.insert(number, held);
        node.add_sender(now, session, flow.1, bucket).map_err(|error| {
            self.forget(number);
            why(error, to)
        })
    }

    fn forget(&mut self, number: u64) -> Option<Flow> {
        let held = self.held.remove(&number)?;
        self.by_flow.remove(&held.flow);
        Some(held.flow)
    }

    /// A program has gone.
    pub fn end(&mut self, node: &mut KernelNode, now: Instant, number: u64) {
        if let Some((session, sender)) = self.forget(number) {
            node.remove_sender(now, &session, sender);
        }
    }

    /// All programs are given up.
    pub fn end_all(&mut self, node: &mut KernelNode, now: Instant) {
        let all: Vec<u64> = self.held.keys().copied().collect();
        all.into_iter().for_each(|number| self.end(node, now, number));
    }

    /// Another rate for one of them; the outcome comes when the path has answered.
    pub fn change(
        &mut self,
        node: &mut KernelNode,
        now: Instant,
        (number, rate_bps): (u64, u64),
        mtu: impl Fn(u32) -> u32,
        done: Outcome,
    ) {
        let Some(held) = self
            .held
            .get_mut(&number)
            .filter(|held| held.change.is_none() && rate_bps > 0)
        else {
            let why = format!(
                "no program on this host holds a reservation of number {number} that can be changed now"
            );
            let _ = done.send(Err(Refusal {
                message: why,
                help: Some("see `suimon reserve status`".into()),
            }));
            return;
        };
        let before = std::mem::replace(&mut held.wanted.rate_bps, rate_bps);
        let before = Wanted {
            rate_bps: before,
            ..held.wanted.clone()
        };
        held.change = Some((before, done));
        self.send_again(node, now, number, mtu);
    }

    fn send_again(&mut self, node: &mut KernelNode, now: Instant, number: u64, mtu: impl Fn(u32) -> u32) {
        let Some(held) = self.held.get(&number) else {
            return;
        };
        let out = match node.routing().leads(held.wanted.to) {
            Leads::By { interface, .. } => mtu(interface),
            _ => mtu(0),
        };
        // Without a route nothing is lost that was there: the path comes back with the route.
        let _ = node.add_sender(now, held.flow.0, held.flow.1, bucket(&held.wanted, out));
    }

    /// What a sender on this host would like its Paths to say.
    pub fn want(&self, session: &Session, sender: &SenderTemplate) -> Want {
        let number = self.by_flow.get(&(plain(session), *sender));
        let held = number.and_then(|number| self.held.get(number));
        held.map_or(Want::default(), |held| Want {
            trial: held.trial,
            delay: held
                .wanted
                .delay_us
                .map(|us| u32::try_from(us).unwrap_or(u32::MAX)),
        })
    }

    /// The number of the program that holds this.
    pub fn number(&self, flow: &Flow) -> Option<u64> {
        self.by_flow.get(flow).copied()
    }

    /// All nodes up to the receiver have promised it.
    pub fn reserved(&mut self, flow: &Flow, flowspec: &Flowspec) {
        let Some(&number) = self.by_flow.get(flow) else {
            return;
        };
        let Some(held) = self.held.get_mut(&number) else {
            return;
        };
        let (rate_bps, guaranteed) = promised(flowspec);
        if held.trial {
            // A receiver that does not know trials has reserved: so it fits.
            let offer = Offer {
                fits: true,
                why: None,
                hops: 0,
                left_bps: None,
                mtu_bytes: flowspec.bucket().maximum,
                rate_for_delay_bps: None,
                gap: false,
            };
            let _ = held.tell.send(Progress::Offer(offer));
            return;
        }
        held.reserved = true;
        if let Some((_, done)) = held.change.take() {
            let _ = done.send(Ok(format!(
                "reservation {number}: {}",
                Bandwidth::bits_per_sec(rate_bps)
            )));
        }
        let _ = held.tell.send(Progress::Reserved {
            number,
            rate_bps,
            guaranteed,
        });
    }

    /// It is in force no longer.
    pub fn unreserved(&mut self, flow: &Flow) {
        let Some(&number) = self.by_flow.get(flow) else {
            return;
        };
        if let Some(held) = self.held.get_mut(&number)
            && std::mem::take(&mut held.reserved)
        {
            let _ = held.tell.send(Progress::Lost { number });
        }
    }

    /// Something on the path has refused it; or has answered a trial.
    pub fn failed(
        &mut self,
        node: &mut KernelNode,
        now: Instant,
        (flow, error): (&Flow, &ErrorSpec),
        adspec: Option<&Adspec>,
        mtu: impl Fn(u32) -> u32,
    ) {
        let Some(&number) = self.by_flow.get(flow) else {
            return;
        };
        let Some(held) = self.held.get_mut(&number) else {
            return;
        };
        if held.trial && error.code == code::CONFIRMATION {
            let offer = adspec.map(|adspec| offer(&held.wanted, adspec));
            let _ = held
                .tell
                .send(offer.map_or_else(|| Progress::Refused(denial(held, error, None)), Progress::Offer));
            return;
        }
        let denial = denial(held, error, adspec);
        if let Some((before, done)) = held.change.take() {
            // What was in force still is; what is sent is as it was before.
            held.wanted = before;
            let left = denial.left_bps.map_or_else(String::new, |left| {
                format!("; {} left", Bandwidth::bits_per_sec(left))
            });
            let message = format!("{} refuses: {}{left}", denial.node, denial.reason);
            let _ = done.send(Err(Refusal {
                message,
                help: Some("what was reserved before is still in force".into()),
            }));
            self.send_again(node, now, number, mtu);
            return;
        }
        let _ = held.tell.send(Progress::Refused(denial));
    }
}

fn denial(held: &Held, error: &ErrorSpec, adspec: Option<&Adspec>) -> Denial {
    Denial {
        node: error.node,
        code: error.code,
        value: error.value,
        reason: reason(error.code, error.value),
        asked_bps: held.wanted.rate_bps,
        left_bps: adspec.and_then(left),
    }
}

/// What the narrowest link has left.
fn left(adspec: &Adspec) -> Option<u64> {
    adspec.bandwidth().filter(|rate| rate.is_finite()).map(bits)
}

/// What a path offers to this.
fn offer(wanted: &Wanted, adspec: &Adspec) -> Offer {
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
        _ if gap => Some("some router on the way does not speak RSVP, and promises nothing".into()),
        _ => None,
    };
    Offer {
        fits: why.is_none(),
        why,
        hops: adspec.hops().unwrap_or(0),
        left_bps: left,
        mtu_bytes: mtu,
        rate_for_delay_bps: wanted.delay_us.and_then(|_| rate.ok()),
        gap,
    }
}
