//! Paths that this host answers by itself, by the rules of `[[rsvp.accept]]`: the receiver's side, so that one end suffices.
//!
//! A path-triggered receiver proxy in the sense of RFC 5945, section 4.1, for itself or for hosts behind it. When a reservation
//! fails, the sender is told by a PathErr with the same error, in the manner of RFC 5946, section 4.1: by RFC 2205 alone only
//! receivers hear of failures.

use super::programs::{Flow, KernelNode, plain};
use super::want::Want;
use control::rsvp_config::{Accept, Offered};
use engine::units::{Bandwidth, Instant};
use rsvp::node::Receiver;
use rsvp::traffic_control::InterfaceId;
use rsvp::wire::{
    Adspec, Descriptors, ErrorSpec, Flowspec, Frame, Hop, Message, Path, PathErr, Real, Session, TokenBucket,
    code, value,
};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A Path that ends here, as it was heard last.
#[derive(Clone, Debug)]
struct Heard {
    path: Path,
    interface: InterfaceId,
    want: Want,
}

/// What was reserved for one.
#[derive(Clone, Copy, Debug)]
struct Given {
    receiver: Receiver,
    asked: Flowspec,
    /// What is in force, as was confirmed.
    in_force: Option<Flowspec>,
}

/// The rules, and what has come of them.
#[derive(Debug, Default)]
pub struct Answers {
    rules: Vec<Accept>,
    heard: BTreeMap<Flow, Heard>,
    given: BTreeMap<Flow, Given>,
    last: u64,
    /// Our addresses, by interface.
    addresses: Vec<Vec<IpAddr>>,
}

/// A message to a neighbour: by this interface, to this address.
pub type Letter = (InterfaceId, IpAddr, Frame);

impl Answers {
    /// With these rules.
    pub fn new(rules: Vec<Accept>) -> Self {
        Self {
            rules,
            ..Self::default()
        }
    }

    /// Our addresses, by interface, from now on.
    pub fn know(&mut self, addresses: Vec<Vec<IpAddr>>) {
        self.addresses = addresses;
    }

    /// A Path has come that ends here: notes what an answer needs.
    pub fn hear(&mut self, interface: InterfaceId, frame: &Frame) {
        if let Message::Path(path) = &frame.message {
            let flow = (plain(&path.session), path.sender.template);
            let heard = Heard {
                path: path.clone(),
                interface,
                want: Want::of(frame),
            };
            self.heard.insert(flow, heard);
        }
    }

    /// Whether something is reserved for this by a rule.
    pub fn answered(&self, flow: &Flow) -> bool {
        self.given.contains_key(flow)
    }

    /// A sender towards this host is new, or has changed: reserves, or says why not.
    pub fn path(
        &mut self,
        node: &mut KernelNode,
        now: Instant,
        (flow, own): (Flow, bool),
        (tspec, adspec): (&TokenBucket, Option<&Adspec>),
    ) -> Option<Letter> {
        let (session, sender) = flow;
        let offered = Offered {
            to: session.destination,
            own,
            from: sender.address(),
            protocol: session.protocol,
            port: session.port,
        };
        let want = self.heard.get(&flow)?.want;
        let Some(rule) = self.rules.iter().find(|rule| rule.covers(&offered)) else {
            return self.refuse(&flow, (code::POLICY, 0));
        };
        let rate = Bandwidth::bits_per_sec(tspec.rate.ceil().saturating_mul(8));
        if rule.up_to.is_some_and(|most| rate > most) {
            return self.refuse(&flow, (code::POLICY, 0));
        }
        if want.trial {
            return self.refuse(&flow, (code::CONFIRMATION, 0));
        }
        let flowspec = match flowspec(tspec, adspec, want) {
            Ok(flowspec) => flowspec,
            Err(error) => return self.refuse(&flow, error),
        };
        let known = self.given.get(&flow).copied();
        if known.is_some_and(|given| given.asked == flowspec) {
            return None;
        }
        self.last += u64::from(known.is_none());
        let receiver = known.map_or(Receiver(self.last), |given| given.receiver);
        let given = Given {
            receiver,
            asked: flowspec,
            in_force: known.and_then(|given| given.in_force),
        };
        self.given.insert(flow, given);
        let wanted = Descriptors::Fixed(vec![(flowspec, sender)]);
        match node.reserve(now, receiver, &session, wanted) {
            Ok(()) => None,
            Err(_) => {
                self.given.remove(&flow);
                self.refuse(&flow, (code::SYSTEM, 0))
            }
        }
    }

    /// A sender has gone.
    pub fn ended(&mut self, node: &mut KernelNode, now: Instant, flow: &Flow) {
        self.heard.remove(flow);
        if let Some(given) = self.given.remove(flow) {
            node.release(now, given.receiver, &flow.0);
        }
    }

    fn flow_of(&self, receiver: Receiver, session: &Session) -> Option<Flow> {
        let same = |(flow, given): &(&Flow, &Given)| flow.0 == plain(session) && given.receiver == receiver;
        self.given.iter().find(same).map(|(flow, _)| *flow)
    }

    /// A reservation is confirmed.
    pub fn confirmed(&mut self, receiver: Receiver, session: &Session) -> Option<Flow> {
        let flow = self.flow_of(receiver, session)?;
        let given = self.given.get_mut(&flow)?;
        given.in_force = Some(given.asked);
        Some(flow)
    }

    /// A reservation has failed somewhere. What was asked beyond what is in force is taken back, and the sender is told. What
    /// was confirmed before is asked for on and on: a router has forgotten it, or the path is another now.
    pub fn failed(
        &mut self,
        node: &mut KernelNode,
        now: Instant,
        (receiver, session): (Receiver, &Session),
        error: &ErrorSpec,
    ) -> Option<Letter> {
        // A router that has just begun knows no Path yet: the next one is on its way.
        if matches!(error.code, code::NO_PATH | code::NO_SENDER) {
            return None;
        }
        let flow = self.flow_of(receiver, session)?;
        let given = self.given.get_mut(&flow)?;
        match given.in_force {
            Some(old) if old == given.asked => {}
            Some(old) => {
                given.asked = old;
                let wanted = Descriptors::Fixed(vec![(old, flow.1)]);
                let _ = node.reserve(now, receiver, &flow.0, wanted);
            }
            None => {
                self.given.remove(&flow);
                node.release(now, receiver, &flow.0);
            }
        }
        self.tell(
            &flow,
            ErrorSpec {
                in_place: false,
                not_guilty: false,
                ..*error
            },
        )
    }

    /// Tells a sender that this host itself refuses.
    fn refuse(&self, flow: &Flow, (code, value): (u8, u16)) -> Option<Letter> {
        let interface = self.heard.get(flow)?.interface;
        let alike = |address: &&IpAddr| address.is_ipv4() == flow.0.destination.is_ipv4();
        let own = self
            .addresses
            .get(interface as usize)?
            .iter()
            .find(alike)
            .copied()?;
        self.tell(
            flow,
            ErrorSpec {
                node: own,
                in_place: false,
                not_guilty: false,
                code,
                value,
            },
        )
    }

    /// A PathErr towards a sender, with what its Path had gathered.
    fn tell(&self, flow: &Flow, error: ErrorSpec) -> Option<Letter> {
        const TTL: u8 = 64;
        let Heard { path, interface, .. } = self.heard.get(flow)?;
        let Hop { address, .. } = path.hop;
        let message = Message::PathErr(PathErr {
            session: path.session,
            error,
            policy: Vec::new(),
            sender: path.sender.clone(),
        });
        let frame = Frame {
            send_ttl: TTL,
            reduction: false,
            integrity: None,
            acknowledgements: Vec::new(),
            id: None,
            message,
            forwarded: Vec::new(),
        };
        Some((*interface, address, frame))
    }
}

/// What is asked for a sender that sends this, over a path that offers that; or the error that says why nothing can be.
fn flowspec(tspec: &TokenBucket, adspec: Option<&Adspec>, want: Want) -> Result<Flowspec, (u8, u16)> {
    let mtu = adspec.and_then(Adspec::mtu).unwrap_or(u32::MAX);
    let bucket = TokenBucket {
        maximum: tspec.maximum.min(mtu),
        minimum: tspec.minimum.min(mtu),
        ..*tspec
    };
    let Some(delay) = want.delay else {
        return Ok(Flowspec::ControlledLoad(bucket));
    };
    let adspec = adspec.ok_or((code::TRAFFIC_CONTROL, value::SERVICE_UNSUPPORTED))?;
    if error_terms(adspec).is_none() {
        return Err((code::TRAFFIC_CONTROL, value::SERVICE_UNSUPPORTED));
    }
    let rate = rate_for_delay(&bucket, adspec, delay.into()).ok_or((code::ADMISSION, value::DELAY))?;
    Ok(Flowspec::Guaranteed {
        bucket,
        rate,
        slack: 0,
    })
}

/// Ctot in bytes and Dtot in microseconds, if every node on the way offers guaranteed service.
fn error_terms(adspec: &Adspec) -> Option<(u32, u32)> {
    const GUARANTEED: u8 = 2;
    const C_TOT: u8 = 133;
    const D_TOT: u8 = 134;
    let part = adspec
        .fragments()
        .iter()
        .find(|part| part.service == GUARANTEED && !part.broken)?;
    let word = |id| {
        part.parameters
            .iter()
            .find(|one| one.id == id)?
            .words
            .first()
            .copied()
    };
    Some((word(C_TOT)?, word(D_TOT)?))
}

/// The least rate with which no packet takes longer than so many microseconds on this path (RFC 2212, section 4): with
/// the burst b, the peak p, the longest packet M, and d = delay - Dtot, the R of
/// d = (b - M) (p - R) / (R (p - r)) + (M + Ctot) / R, or of d = (M + Ctot) / R where that R is more than p.
pub fn rate_for_delay(bucket: &TokenBucket, adspec: &Adspec, delay_us: u64) -> Option<Real> {
    let (c, d) = error_terms(adspec)?;
    let left = delay_us.checked_sub(d.into()).filter(|left| *left > 0)? as f64 / 1e6;
    let number = |real: Real| f64::from(real.get());
    let (rate, peak, longest) = (
        number(bucket.rate),
        number(bucket.peak),
        f64::from(bucket.maximum),
    );
    let (beyond, once) = ((number(bucket.bucket) - longest).max(0.0), longest + f64::from(c));
    let needed = if peak.is_infinite() {
        (beyond + once) / left
    } else if once / left >= peak || peak <= rate {
        once / left
    } else {
        let slope = beyond / (peak - rate);
        (slope * peak + once) / (left + slope)
    };
    // A byte more, for what single precision takes away.
    let needed = (needed.ceil() * (1.0 + 1e-6)) as u64 + 1;
    Some(Real::nearest(needed).max(bucket.rate))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rsvp::wire::{Fragment, Parameter};

    fn path(c: u32, d: u32) -> Adspec {
        let one = |id, word| Parameter {
            id,
            flags: 0,
            words: vec![word],
        };
        let general = Fragment {
            service: 1,
            broken: false,
            parameters: vec![one(10, 1500)],
        };
        let guaranteed = Fragment {
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

    /// RFC 2212, section 4.
    fn delay(bucket: &TokenBucket, (c, d): (f64, f64), rate: f64) -> f64 {
        let (r, p) = (f64::from(bucket.rate.get()), f64::from(bucket.peak.get()));
        let (b, m) = (f64::from(bucket.bucket.get()), f64::from(bucket.maximum));
        let burst = match () {
            () if p.is_infinite() => (b - m) / rate,
            () if p > rate => (b - m) / rate * (p - rate) / (p - r),
            () => 0.0,
        };
        burst + (m + c) / rate + d
    }

    #[test]
    fn the_rate_for_a_delay_keeps_it_and_is_not_much_more() {
        for peak in [Real::INFINITE, Real::nearest(250_000), Real::nearest(130_000)] {
            for us in [21_000, 25_000, 40_000, 60_000] {
                let bucket = bucket(peak);
                let rate = rate_for_delay(&bucket, &path(3000, 20_000), us).expect("there is one");
                let got = |rate: f64| delay(&bucket, (3000.0, 0.02), rate);
                let (rate, wanted) = (f64::from(rate.get()), us as f64 / 1e6);
                assert!(
                    got(rate) <= wanted,
                    "{us} us, peak {peak:?}: {} at {rate}",
                    got(rate)
                );
                let less = rate * 0.999;
                assert!(
                    less < 125_000.0 || got(less) > wanted,
                    "{us} us, peak {peak:?}: {less} would do"
                );
            }
        }
        assert_eq!(
            rate_for_delay(&bucket(Real::INFINITE), &path(0, 20_000), 20_000),
            None,
            "D alone takes it"
        );
    }

    #[test]
    fn without_guaranteed_service_on_the_way_no_delay_is_asked_for() {
        let general = path(0, 0).fragments()[..1].to_vec();
        let none = Adspec::new(general).expect("general first");
        let want = Want {
            trial: false,
            delay: Some(1_000_000),
        };
        let error = flowspec(&bucket(Real::INFINITE), Some(&none), want).expect_err("nobody offers it");
        assert_eq!(error, (code::TRAFFIC_CONTROL, value::SERVICE_UNSUPPORTED));
    }
}
