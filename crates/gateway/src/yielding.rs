//! Classes that yield: the law of `nine` (host::law) over the connections of classes, held in the acknowledgments that pass through
//! the worker.
//!
//! A thread beside the worker: twenty times a second, fifty while the link is full, it reads what the worker has seen, lets the
//! law decide, and gives the worker the limits of windows. When it hangs, the worker forgets them a second later.

use control::policy::Interface;
use engine::inspect::Value;
use engine::units::{Bandwidth, Bytes, Instant};
use host::law::{INTERVAL, Law, Modern};
use host::rewrite::{Found, Place, Rewrite};
use host::{Actuator, Bottleneck, Direction, FlowReading, LinkReading, Member, MemberId, Order, Tick, Why};
use netio::handle::{Handle, Unanswered};
use netio::holding::Watched;
use netio::tcp::{Connection, Ends, Limit};
use netio::worker::PathId;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// What a class's connections do, by the names of interface and class.
type Seen = BTreeMap<(String, String), Yield>;

/// One class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Yield {
    state: &'static str,
    connections: u64,
    left_alone: u64,
}

/// What is to be seen of classes that yield, from any thread.
#[derive(Clone, Debug, Default)]
pub struct Yielding(Arc<Mutex<Seen>>);

impl Yielding {
    /// The numbers of a class, if it yields.
    pub fn gauges(&self, interface: &str, class: &str) -> Option<[(&'static str, Value); 3]> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let one = seen.get(&(interface.to_string(), class.to_string()))?;
        Some([
            ("yields", Value::State(one.state)),
            ("connections", Value::Count(one.connections)),
            ("left-alone", Value::Count(one.left_alone)),
        ])
    }
}

/// The thread, which ends when this is dropped.
#[derive(Debug)]
pub struct Yields {
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Yields {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        // One that has failed holds nothing any more.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Begins, if any of these interfaces has a class that yields; what is to be seen of it.
pub fn start(handle: &Handle, managed: &[(PathId, Interface)]) -> io::Result<(Option<Yields>, Yielding)> {
    let yielding = Yielding::default();
    let mut courses: Vec<Course> = managed
        .iter()
        .filter(|(_, interface)| !interface.yields.is_empty())
        .map(|(path, interface)| Course::new(handle.clone(), *path, interface))
        .collect();
    if courses.is_empty() {
        return Ok((None, yielding));
    }
    let (end, shown) = (Arc::new(AtomicBool::new(false)), yielding.clone());
    let told = Arc::clone(&end);
    let thread = std::thread::Builder::new().name("yields".into()).spawn(move || {
        while !told.load(Ordering::Relaxed) {
            let begin = netio::clock::now();
            let (mut seen, mut interval) = (Seen::new(), INTERVAL);
            for course in &mut courses {
                let ticked = course.tick();
                interval = interval.min(course.law.interval());
                match ticked {
                    Ok(classes) => seen.extend(classes),
                    Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return,
                    // A worker that is silent holds nobody either.
                    Err(_) => {}
                }
            }
            *shown.0.lock().unwrap_or_else(PoisonError::into_inner) = seen;
            let took = netio::clock::now().since(begin);
            std::thread::sleep(std::time::Duration::from_nanos(
                interval.nanos().saturating_sub(took.nanos()),
            ));
        }
    })?;
    let thread = Some(thread);
    Ok((Some(Yields { end, thread }), yielding))
}

/// The connections of a path, as the worker has them.
#[derive(Debug)]
struct InWorker {
    handle: Handle,
    path: PathId,
    watched: Watched,
}

fn failed(why: Unanswered) -> io::Error {
    let kind = match why {
        Unanswered::Ended | Unanswered::NoSuchPath => io::ErrorKind::BrokenPipe,
        Unanswered::Silent => io::ErrorKind::TimedOut,
    };
    io::Error::new(kind, why)
}

impl Place for InWorker {
    fn connections(&mut self) -> io::Result<(Vec<Found>, Instant)> {
        self.watched = self.handle.watch(self.path).map_err(failed)?;
        let of = |(class, connection): &(usize, Connection)| (*connection, Some(member(*class)));
        // The worker reads the link and the connections at once.
        Ok((self.watched.connections.iter().map(of).collect(), self.watched.at))
    }

    fn put(&mut self, limits: Vec<(Ends, Option<Limit>)>) -> io::Result<()> {
        self.handle.hold(self.path, limits).map_err(failed)
    }
}

fn member(class: usize) -> MemberId {
    MemberId(u32::try_from(class).unwrap_or(u32::MAX))
}

/// One interface with classes that yield.
struct Course {
    interface: String,
    classes: Vec<String>,
    members: Vec<Member>,
    link: Bandwidth,
    law: Modern,
    rewrite: Rewrite<InWorker>,
}

impl Course {
    fn new(handle: Handle, path: PathId, interface: &Interface) -> Self {
        let link = interface.settings.bandwidth;
        let classes = interface.yields.iter();
        let members = classes.clone().enumerate().map(|(class, yields)| {
            let [cap, floor] = yields.rates(link);
            Member {
                weight: yields.settings.weight,
                cap,
                floor,
                ..Member::new(member(class))
            }
        });
        Self {
            interface: interface.name.clone(),
            members: members.collect(),
            classes: classes.map(|yields| yields.class.clone()).collect(),
            link,
            law: Modern::new(Direction::Download),
            rewrite: Rewrite::at(InWorker {
                handle,
                path,
                watched: Watched::default(),
            }),
        }
    }

    /// Reads, decides and holds; what the classes do now.
    fn tick(&mut self) -> io::Result<Seen> {
        let flows = self.rewrite.readings(netio::clock::now())?;
        let watched = &self.rewrite.place().watched;
        let orders = self.law.tick(&Tick {
            now: watched.at,
            link: LinkReading {
                received: watched.carried,
                sent: Bytes::ZERO,
            },
            bottleneck: Bottleneck::Stated(self.link),
            members: &self.members,
            flows: &flows,
        });
        let left_alone = watched.left_alone.clone();
        self.rewrite.apply(&orders)?;
        let one = |(class, name): (usize, &String)| {
            let of = flows
                .iter()
                .zip(&orders)
                .filter(|(flow, _)| flow.member == member(class));
            let shown = Yield {
                state: state(of.clone()),
                connections: of.count() as u64,
                left_alone: left_alone.get(class).copied().unwrap_or(0),
            };
            ((self.interface.clone(), name.clone()), shown)
        };
        Ok(self.classes.iter().enumerate().map(one).collect())
    }
}

/// What a class does, in a word: the strictest that its connections are told.
fn state<'a>(orders: impl Iterator<Item = (&'a FlowReading, &'a Order)>) -> &'static str {
    let ranked = |why: &Why| match why {
        Why::LinkIsFree => (0, "free"),
        Why::Cap(_) => (1, "at its cap"),
        Why::Floor(_) => (2, "at its floor"),
        Why::YieldsTo(_) | Why::QueueGrows(_) | Why::LinkIsFull => (3, "yields"),
        Why::WaitsItsTurn => (4, "takes turns"),
        Why::OnsetOfOthers => (5, "makes room"),
    };
    let all = orders.map(|(_, order)| ranked(&order.why));
    all.max().map_or("free", |(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::{FlowId, Hold};

    #[test]
    fn a_class_says_the_strictest_of_what_its_connections_are_told() {
        let flow = FlowReading {
            id: FlowId(1),
            member: MemberId(0),
            at: Instant::START,
            received: Bytes::ZERO,
            sent: Bytes::ZERO,
            rtt: None,
            shortest: None,
            mss: Bytes::new(1448),
            scale: 7,
            window: Bytes::ZERO,
        };
        let order = |why| Order {
            flow: FlowId(1),
            direction: Direction::Download,
            hold: Hold::Free,
            why,
        };
        let orders = [Why::Cap(Bandwidth::mbit(1)), Why::WaitsItsTurn, Why::LinkIsFree].map(order);
        assert_eq!(state(orders.iter().map(|order| (&flow, order))), "takes turns");
        assert_eq!(state([].into_iter()), "free");
    }
}
