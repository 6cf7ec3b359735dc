//! A candidate beside the policy in force, on live traffic: it gets a copy of the headers of each
//! packet, and touches nothing.
//!
//! The packet loop writes arrivals on a [tape](netio::replay::tape), and the candidate is run here,
//! in the thread of whoever asked. If that is too slow the tape tears, and the candidate is
//! dropped; the loop never waits.

use crate::in_force::{InterfaceInForce, refused};
use crate::what_if::{ClassFigures, candidate, figures_since};
use control::policy::InterfacePolicy;
use control::protocol::Refusal;
use control::what_if::{Beside, ShadowReport};
use engine::random::Seed;
use engine::units::Instant;
use netio::clock;
use netio::handle::{Handle, PathView, TapeWish};
use netio::replay::candidate::Candidate;
use netio::replay::event::{Events, TapeEvent};
use netio::replay::tape::{Read, TapeReader, Taped, tape};
use std::time::Duration;

/// How often the loop is asked for what it has written so far.
const ASK: Duration = Duration::from_millis(50);

/// A tape of a path, which ends with this.
struct Following<'a> {
    handle: &'a Handle,
    managed: &'a InterfaceInForce,
    reader: TapeReader,
}

impl<'a> Following<'a> {
    fn start(handle: &'a Handle, managed: &'a InterfaceInForce) -> Result<Self, Refusal> {
        let (writer, reader) = tape();
        let name = &managed.policy.name;
        match handle
            .tape(managed.path, TapeWish::Start(writer))
            .map_err(refused)?
        {
            Taped::Done { .. } => Ok(Self {
                handle,
                managed,
                reader,
            }),
            Taped::Taken => Err(Refusal {
                message: format!("{name} has a shadow already, or is recorded"),
                help: Some("wait until it ends, or end it: suimon record stop".into()),
            }),
            Taped::NotOfThisPath | Taped::Stale => Err(Refusal::new(format!(
                "{name} is paced by gap frames: what leaves depends on the wire, which a shadow does not have"
            ))),
        }
    }

    /// Gives the candidate what has arrived. Whether there may be more.
    fn feed(&self, candidate: &mut Candidate, wait: Duration) -> Result<(), Refusal> {
        let slow = || {
            Refusal::new(
                "the candidate could not keep up with the traffic, and was dropped; live traffic was not touched",
            )
        };
        self.handle
            .tape(self.managed.path, TapeWish::Flush)
            .map_err(refused)?;
        let framing = self.managed.whole.link().framing;
        loop {
            let chunk = match self.reader.read(Duration::ZERO) {
                Read::Chunk(chunk) => chunk,
                Read::Torn => return Err(slow()),
                Read::Ended => return Err(Refusal::new("the packet loop has ended")),
                Read::Nothing => break,
            };
            for event in Events::new(&chunk) {
                let arrival = match event.map_err(|why| Refusal::new(why.to_string()))? {
                    TapeEvent::Arrival(arrival) => arrival,
                    // It arrived while what was queued moved into another tree.
                    TapeEvent::Held(held) if !held.handed_on => held.packet,
                    _ => continue,
                };
                let arrived = candidate.arrive_too(&arrival, framing, &mut |_| {});
                arrived.map_err(|why| Refusal::new(format!("the candidate was dropped: {why}")))?;
            }
            self.reader.give_back(chunk);
        }
        std::thread::sleep(wait);
        Ok(())
    }
}

impl Drop for Following<'_> {
    fn drop(&mut self) {
        // If the loop has ended, so has the tape.
        let _ = self.handle.tape(self.managed.path, TapeWish::Stop);
    }
}

/// Runs `new` beside the policy in force for this time, or until `stop` says so.
///
/// # Errors
///
/// Returns an error if the path cannot be followed, or the candidate does not keep up.
pub fn shadow(
    handle: &Handle,
    managed: &InterfaceInForce,
    new: &InterfacePolicy,
    span: Duration,
    stop: &dyn Fn() -> bool,
) -> Result<ShadowReport, Refusal> {
    let mut candidate =
        candidate(new, Seed(1)).map_err(|why| Refusal::new(format!("no memory for the candidate: {why}")))?;
    let following = Following::start(handle, managed)?;
    let (begin, before) = live(handle, managed)?;
    let end = std::time::Instant::now() + span;
    loop {
        let left = end.saturating_duration_since(std::time::Instant::now());
        following.feed(&mut candidate, left.min(ASK))?;
        if left.is_zero() || stop() {
            break;
        }
    }
    let (ended, after) = live(handle, managed)?;
    following.feed(&mut candidate, Duration::ZERO)?;
    candidate.run_until(ended.min(clock::now()), &mut |_| {});
    let measured = ended.since(begin);
    let live = figures_since(&managed.whole, &after, Some(&before), measured);
    let shadow = figures_since(new, &candidate.show(), None, measured);
    Ok(report(live, shadow, measured.nanos()))
}

/// What passed the live path so far, and when that was.
fn live(handle: &Handle, managed: &InterfaceInForce) -> Result<(Instant, PathView), Refusal> {
    let mut snapshot = handle.inspect().map_err(refused)?;
    let gone = || Refusal::new(format!("{} is no longer managed", managed.policy.name));
    if managed.path.0 >= snapshot.paths.len() {
        return Err(gone());
    }
    Ok((snapshot.at, snapshot.paths.swap_remove(managed.path.0)))
}

/// Both, class by class, in the order of the candidate.
fn report(live: Vec<ClassFigures>, candidate: Vec<ClassFigures>, span_ns: u64) -> ShadowReport {
    let mut classes: Vec<Beside> = candidate
        .into_iter()
        .map(|class| Beside {
            class: class.class,
            live: None,
            candidate: Some(class.figures),
        })
        .collect();
    for class in live {
        match classes.iter_mut().find(|beside| beside.class == class.class) {
            Some(beside) => beside.live = Some(class.figures),
            None => classes.push(Beside {
                class: class.class,
                live: Some(class.figures),
                candidate: None,
            }),
        }
    }
    ShadowReport { span_ns, classes }
}
