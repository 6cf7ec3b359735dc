//! Interfaces whose rate follows a line that varies: `[interface.NAME.autorate]`.
//!
//! The law is [`host::law::autorate`]. A thread beside the workers asks a host on the other side of
//! each line forty times a second, runs the law, and gives the worker the rate. Its probes leave
//! before what is queued in any path here, so that they tell of the line's queue alone.
//!
//! If the thread hangs, the rate stays what it was. What is recorded of an interface does not have
//! its rates, so those that vary are not recorded.

use crate::followed_line::FollowedLine;
use crate::in_force::InForce;
use control::autorate::{AutorateView, LineSide};
use control::policy::InterfacePolicy;
use control::port_config::PortConfig;
use engine::port_kind::{Attachment, device, opposite};
use engine::units::{Duration, Instant};
use host::law::autorate::AUTORATE_INTERVAL;
use netio::beside::ThreadBeside;
use netio::carried::PathCarried;
use netio::clock;
use netio::echo::{self, Echo};
use netio::handle::{Handle, Unanswered};
use netio::worker::PathId;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Sending took longer: the host held this thread up, and nobody knows when the probe left.
const UNCERTAIN: Duration = Duration::from_millis(1);

/// How the rates follow their lines, by the names of interfaces; for any thread.
#[derive(Clone, Debug, Default)]
pub struct AutorateGauges(Arc<Mutex<BTreeMap<String, AutorateView>>>);

impl AutorateGauges {
    /// That of an interface; none if its rate is fixed.
    pub fn of(&self, interface: &str) -> Option<AutorateView> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(interface).cloned()
    }

    fn put(&self, all: BTreeMap<String, AutorateView>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = all;
    }
}

/// The sockets of an interface whose rate is to follow its line.
#[derive(Debug)]
pub struct Prober {
    interface: String,
    path: PathId,
    echo: Echo,
}

/// Opens the sockets of those of these interfaces whose rate is to follow their lines; while this
/// program may.
///
/// # Errors
///
/// Returns an error if this host lets nobody send ICMP.
pub fn open(managed: &[(PathId, InterfacePolicy)], port: &PortConfig) -> io::Result<Vec<Prober>> {
    let following = managed.iter().filter(|(_, policy)| policy.autorate.is_some());
    let open = |(path, policy): &(PathId, InterfacePolicy)| {
        // The frames of a bridge's ports have their addresses elsewhere.
        let attached = port.of_interface(&policy.name).map(|port| &port.attachment);
        let by = match attached {
            Some(Attachment::Egress(_) | Attachment::Ingress(_)) => Some(device(&policy.name)),
            _ => None,
        };
        prober(*path, policy, by)
    };
    following.map(open).collect()
}

/// Opens the sockets for this policy in the calling thread's network, if its rate is to follow its
/// line: the routes there lead to whom it asks.
///
/// # Errors
///
/// Returns an error if this host lets nobody send ICMP.
pub fn open_here(path: PathId, policy: &InterfacePolicy) -> io::Result<Option<Prober>> {
    let following = policy.autorate.is_some();
    following.then(|| prober(path, policy, None)).transpose()
}

fn prober(path: PathId, policy: &InterfacePolicy, by: Option<&str>) -> io::Result<Prober> {
    Ok(Prober {
        interface: policy.name.clone(),
        path,
        echo: Echo::open(by, crate::direction::secret_seed().0)?,
    })
}

/// Starts the thread, if there is anything to follow. `paths` are those whose queues probes pass.
///
/// # Errors
///
/// Returns an error if the thread cannot be started, or a worker does not answer.
pub fn start(
    probers: Vec<Prober>,
    handle: &Handle,
    in_force: &Arc<InForce>,
    paths: impl IntoIterator<Item = PathId>,
) -> io::Result<(Option<ThreadBeside>, AutorateGauges)> {
    let gauges = AutorateGauges::default();
    if probers.is_empty() {
        return Ok((None, gauges));
    }
    let idents: Vec<u16> = probers.iter().flat_map(|prober| prober.echo.idents()).collect();
    for path in paths {
        let passed = handle.pass_probes(path, idents.clone());
        passed.map_err(io::Error::other)?;
    }
    let follower = |prober| Follower {
        prober,
        line: FollowedLine::default(),
        next_number: 0,
    };
    let mut lines = Lines {
        handle: handle.clone(),
        in_force: Arc::clone(in_force),
        all: probers.into_iter().map(follower).collect(),
        gauges: gauges.clone(),
    };
    let thread = ThreadBeside::start("autorate", move |ended| {
        let mut next = clock::now();
        while !ended() {
            if lines.turn(&mut next).is_err() {
                return;
            }
        }
    })?;
    Ok((Some(thread), gauges))
}

/// All lines that are followed.
struct Lines {
    handle: Handle,
    in_force: Arc<InForce>,
    all: Vec<Follower>,
    gauges: AutorateGauges,
}

impl Lines {
    /// Takes answers until it is time, then lets every law give its rate, and asks again. An error
    /// is the workers' end.
    fn turn(&mut self, next: &mut Instant) -> Result<(), Unanswered> {
        let now = clock::now();
        if now < *next {
            let sockets: Vec<&Echo> = self.all.iter().map(|one| &one.prober.echo).collect();
            // Where it cannot wait, the answers are taken when it is time.
            let _ = echo::wait(&sockets, next.since(now));
        }
        for one in &mut self.all {
            one.take_answers(&self.handle)?;
        }
        if clock::now() < *next {
            return Ok(());
        }
        // What was missed is not made up for.
        *next = (*next + AUTORATE_INTERVAL).max(clock::now());
        let mut views = BTreeMap::new();
        for index in 0..self.all.len() {
            let elsewhere = self.is_other_loaded(index);
            let Self {
                handle,
                in_force,
                all,
                ..
            } = self;
            let one = &mut all[index];
            let path = one.prober.path;
            let ticked = in_force.while_in_force(path, |policy| one.turn(handle, policy, elsewhere));
            // While a change is under way, and where a worker does not answer, all stays as it is.
            if let Some(Err(Unanswered::Ended)) = ticked {
                return Err(Unanswered::Ended);
            }
            let shown = one.line.view();
            views.extend(shown.map(|shown| (one.prober.interface.clone(), shown)));
        }
        self.gauges.put(views);
        Ok(())
    }

    /// Whether the other direction of a line is loaded: by the device, or by the host that is
    /// asked.
    fn is_other_loaded(&self, index: usize) -> bool {
        let own = &self.all[index];
        let other = opposite(&own.prober.interface);
        let same =
            |one: &&Follower| *one.prober.interface == *other || one.line.target() == own.line.target();
        let opposed = self.all.iter().filter(|one| one.line.side() != own.line.side());
        let mut opposed = opposed.filter(same);
        opposed.any(|one| one.line.is_loaded())
    }
}

/// The sockets of a line, and the line.
struct Follower {
    prober: Prober,
    line: FollowedLine,
    next_number: u64,
}

impl Follower {
    /// Takes the answers that have come.
    fn take_answers(&mut self, handle: &Handle) -> Result<(), Unanswered> {
        while let Some(answer) = self.prober.echo.answer() {
            let carried = match self.line.side() {
                Some(LineSide::Behind) => match handle.shape(self.prober.path, None) {
                    Err(Unanswered::Ended) => return Err(Unanswered::Ended),
                    carried => carried.ok(),
                },
                _ => None,
            };
            self.line.answered(answer.number, answer.arrived, carried);
        }
        Ok(())
    }

    /// Gives the worker the rate by this policy, and asks again.
    fn turn(&mut self, handle: &Handle, policy: &InterfacePolicy, elsewhere: bool) -> Result<(), Unanswered> {
        let Some(config) = &policy.autorate else {
            return Ok(());
        };
        let of = (policy.name.as_str(), policy.link().bandwidth);
        let carried = handle.shape(self.prober.path, None)?;
        let order = self.line.turn(config, of, carried, elsewhere);
        let carried = handle.shape(self.prober.path, Some(order.rate))?;
        self.ask(carried);
        Ok(())
    }

    fn ask(&mut self, carried: PathCarried) {
        let Some(target) = self.line.target() else {
            return;
        };
        let number = self.next_number;
        self.next_number += 1;
        let sent = clock::now();
        // One that cannot be sent is one without an answer: there is no route now.
        let _ = self.prober.echo.ask(target, number);
        if clock::now().since(sent) <= UNCERTAIN {
            self.line.sent(number, sent, carried);
        }
    }
}
