//! Paths that this host answers by itself, by the rules of `[[rsvp.accept]]`: the receiver's side, so that one end suffices.
//!
//! A path-triggered receiver proxy in the sense of RFC 5945, section 4.1, for itself or for hosts behind it. When a reservation
//! fails, the sender is told by a PathErr with the same error, in the manner of RFC 5946, section 4.1: by RFC 2205 alone only
//! receivers hear of failures.

use super::programs::{Flow, KernelNode, plain};
use super::want::Want;
use control::rsvp_config::{Accept, Offered};
use engine::units::{Bandwidth, Duration, Instant};
use rsvp::guaranteed;
use rsvp::node::ReceiverId;
use rsvp::traffic_control::InterfaceId;
use rsvp::wire::{
    Adspec, Descriptors, ErrorSpec, Flowspec, Frame, Hop, Message, Path, PathErr, Session, TokenBucket, code,
    value,
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
    receiver: ReceiverId,
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
        let receiver = known.map_or(ReceiverId(self.last), |given| given.receiver);
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

    fn flow_of(&self, receiver: ReceiverId, session: &Session) -> Option<Flow> {
        let same = |(flow, given): &(&Flow, &Given)| flow.0 == plain(session) && given.receiver == receiver;
        self.given.iter().find(same).map(|(flow, _)| *flow)
    }

    /// A reservation is confirmed.
    pub fn confirmed(&mut self, receiver: ReceiverId, session: &Session) -> Option<Flow> {
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
        (receiver, session): (ReceiverId, &Session),
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
        let frame = Frame::plain(TTL, message);
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
    let unsupported = (code::TRAFFIC_CONTROL, value::SERVICE_UNSUPPORTED);
    let path = adspec.and_then(guaranteed::exported).ok_or(unsupported)?;
    let rate = guaranteed::rate_for(&bucket, Duration::from_micros(delay.into()), path);
    Ok(Flowspec::Guaranteed {
        bucket,
        rate: rate.ok_or((code::ADMISSION, value::DELAY))?,
        slack: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rsvp::wire::{Fragment, Parameter, Real};

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

    #[test]
    fn a_delay_is_asked_for_with_the_rate_that_keeps_it() {
        let bucket = bucket(Real::INFINITE);
        let want = |us| Want {
            trial: false,
            delay: Some(us),
        };
        let path = path(3000, 20_000);
        let asked = flowspec(&bucket, Some(&path), want(25_000)).expect("it can be kept");
        let Flowspec::Guaranteed { rate, slack: 0, .. } = asked else {
            panic!("{asked:?}");
        };
        let terms = guaranteed::exported(&path).expect("all nodes offer it");
        let delay = guaranteed::delay(&bucket, rate, terms).expect("there is a bound");
        assert!(delay <= Duration::from_millis(25), "{delay}");
        let error = flowspec(&bucket, Some(&path), want(20_000)).expect_err("D alone takes it");
        assert_eq!(error, (code::ADMISSION, value::DELAY));
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
