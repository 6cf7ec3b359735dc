//! The thread that speaks RSVP, and how it is asked.
//!
//! One turn: what was asked, what the kernel says of routes and links, a bounded number of messages, what is due. Then the
//! trees are put into force, and only then what the node has to say is sent: a promise is kept before it is made.

use super::answers::{Answers, Letter};
use super::links::Link;
use super::overview;
use super::programs::{Flow, KernelNode, Outcome, Programs, plain};
use super::reasons::reason;
use super::routing::KernelRoutes;
use super::trees::{Trees, account};
use control::policy::Interface;
use control::protocol::Refusal;
use control::reservation::{Held, Notice, Progress, RefusalView, Reservations, Status, Wanted};
use control::rsvp_config::{RsvpConfig, RsvpSettings};
use engine::random::Seed;
use engine::units::{Bandwidth, Duration, Instant};
use netio::clock;
use netio::routes::{Changes, Leads, Routes};
use netio::signalling::Envelope;
use netio::wake::{Sleeper, Waker};
use rsvp::books::{Account, Books};
use rsvp::node::{Event, Node, Settings, Transmit};
use rsvp::traffic_control::{InterfaceId, Routing};
use rsvp::wire::{Adspec, Frame, Message, Refusal as Misread};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

/// Messages of one interface in one turn.
const TURN: usize = 64;
/// The longest sleep: how soon an interface that came without news is found.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);
/// Refusals that are remembered.
const REMEMBERED: usize = 64;
/// How long an answer of the thread is waited for, and how long the path's answer to a change.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(6);

/// Where something is written down for whoever runs the program.
pub type Log = Box<dyn FnMut(&str) + Send>;

/// What a node is made of.
pub struct Setup {
    /// The section of the policy, or what stands for it.
    pub config: RsvpConfig,
    /// Whether every interface that has an address and is no loopback speaks RSVP, beyond those of the section.
    pub everywhere: bool,
    /// Where packets are queued.
    pub trees: Box<dyn Trees>,
    /// What the device of an interface may hold.
    pub ring: u32,
    /// The node's luck.
    pub seed: Seed,
    /// Where refusals and troubles are written down.
    pub log: Log,
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setup")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

enum Command {
    Reserve {
        number: u64,
        wanted: Wanted,
        trial: bool,
        tell: Sender<Progress>,
        done: Sender<Result<(), Refusal>>,
    },
    Change {
        number: u64,
        rate_bps: u64,
        done: Outcome,
    },
    Status {
        done: Sender<Status>,
    },
    Watch {
        number: u64,
        tell: Sender<Notice>,
    },
    Reshape {
        policy: Box<Interface>,
        done: Outcome,
    },
    End {
        number: u64,
    },
    Stop,
}

/// Asks the thread, from any other.
#[derive(Clone, Debug)]
pub struct Handle {
    commands: Sender<Command>,
    waker: Waker,
    last: Arc<AtomicU64>,
}

/// Ends what it stands for when it goes.
struct Ticket {
    handle: Handle,
    number: u64,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let _ = self.handle.send(Command::End { number: self.number });
    }
}

impl Handle {
    fn send(&self, command: Command) -> Result<(), Refusal> {
        let gone = |_| Refusal::new("RSVP is not spoken any more: the thread has ended");
        self.commands.send(command).map_err(gone)?;
        self.waker.wake();
        Ok(())
    }

    fn ask<T>(&self, command: impl FnOnce(Sender<T>) -> Command) -> Result<T, Refusal> {
        let (done, answer) = mpsc::channel();
        self.send(command(done))?;
        answer.recv_timeout(PATIENCE).map_err(|_| Refusal {
            message: "no answer came".into(),
            help: Some("`suimon reserve status` shows what is in force".into()),
        })
    }

    fn begin(&self, wanted: &Wanted, trial: bool, tell: Sender<Progress>) -> Result<Held, Refusal> {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let wanted = wanted.clone();
        let ticket = Ticket {
            handle: self.clone(),
            number,
        };
        self.ask(|done| Command::Reserve {
            number,
            wanted,
            trial,
            tell,
            done,
        })??;
        Ok(Box::new(ticket))
    }

    /// The policy of an interface has changed: its tree is laid out anew, with all that is reserved, or nothing changes.
    pub fn reshape(&self, policy: Interface) -> Result<String, Refusal> {
        self.ask(|done| Command::Reshape {
            policy: Box::new(policy),
            done,
        })?
    }

    /// Ends the thread after saying goodbye.
    pub fn stop(&self) {
        let _ = self.send(Command::Stop);
    }
}

impl Reservations for Handle {
    fn reserve(&self, wanted: &Wanted, tell: Sender<Progress>) -> Result<Held, Refusal> {
        self.begin(wanted, false, tell)
    }

    fn trial(&self, wanted: &Wanted, tell: Sender<Progress>) -> Result<Held, Refusal> {
        self.begin(wanted, true, tell)
    }

    fn change(&self, number: u64, rate_bps: u64) -> Result<String, Refusal> {
        self.ask(|done| Command::Change {
            number,
            rate_bps,
            done,
        })?
    }

    fn status(&self) -> Result<Status, Refusal> {
        self.ask(|done| Command::Status { done })
    }

    fn watch(&self, tell: Sender<Notice>) -> Result<Held, Refusal> {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.send(Command::Watch { number, tell })?;
        Ok(Box::new(Ticket {
            handle: self.clone(),
            number,
        }))
    }
}

/// A node with its sockets.
struct Speaker {
    node: KernelNode,
    links: Vec<Link>,
    settings: RsvpSettings,
    everywhere: bool,
    trees: Box<dyn Trees>,
    /// The policies of the managed interfaces, by the node's number.
    policies: BTreeMap<InterfaceId, Interface>,
    ring: u32,
    changes: Changes,
    sleeper: Sleeper,
    inbox: Receiver<Command>,
    programs: Programs,
    answers: Answers,
    watchers: BTreeMap<u64, Sender<Notice>>,
    refusals: VecDeque<(Instant, RefusalView)>,
    /// What the last PathErr of each flow had gathered on its way.
    gathered: BTreeMap<Flow, Adspec>,
    counts: (u64, u64, u64),
    log: Log,
}

/// Starts speaking. Fails where the sockets cannot be opened at all.
pub fn start(setup: Setup) -> io::Result<(Handle, JoinHandle<()>)> {
    let (sleeper, waker) = Sleeper::new()?;
    let (commands, inbox) = mpsc::channel();
    let routing = KernelRoutes::new(Routes::open()?, setup.config.accept.clone());
    let links: Vec<Link> = setup
        .config
        .interfaces
        .iter()
        .map(|name| Link::new(name))
        .collect();
    let managed = setup.trees.managed();
    let policies = (0..).zip(&links).filter_map(|(id, link)| {
        let found = managed
            .iter()
            .find(|policy| policy.name == link.name && policy.reserve.is_some())?;
        Some((id, found.clone()))
    });
    let policies = policies.collect();
    let mut speaker = Speaker {
        node: Node::new(Settings::new(Vec::new(), setup.seed), Books::new(), routing),
        links,
        settings: setup.config.settings,
        everywhere: setup.everywhere,
        trees: setup.trees,
        policies,
        ring: setup.ring,
        changes: Changes::watch()?,
        sleeper,
        inbox,
        programs: Programs::default(),
        answers: Answers::new(setup.config.accept),
        watchers: BTreeMap::new(),
        refusals: VecDeque::new(),
        gathered: BTreeMap::new(),
        counts: (0, 0, 0),
        log: setup.log,
    };
    speaker.look_at_links();
    let works = speaker.links.iter().any(|link| link.signalling.is_some());
    if let (false, Some(error)) = (works, speaker.links.iter().find_map(|link| link.error.clone())) {
        return Err(io::Error::other(error));
    }
    speaker.keep_promises();
    let thread = std::thread::Builder::new()
        .name("rsvp".into())
        .spawn(move || speaker.run())?;
    Ok((
        Handle {
            commands,
            waker,
            last: Arc::default(),
        },
        thread,
    ))
}

impl Speaker {
    fn run(mut self) {
        loop {
            let now = clock::now();
            if self.obey(now) {
                break;
            }
            if self.changes.any().unwrap_or(true) {
                self.look_at_links();
                self.node.routes_changed(now);
            }
            let busy = self.hear(now);
            self.node.handle_timeout(now);
            self.heed(now);
            self.keep_promises();
            self.speak();
            if !busy {
                self.sleep();
            }
        }
        // Programs whose reservations were held are gone, and their neighbours hear it.
        self.speak();
    }

    fn sleep(&mut self) {
        let due = self.node.poll_timeout().unwrap_or(Instant::NEVER);
        let longest = due.since(clock::now()).min(LONGEST_SLEEP);
        let sockets = self.links.iter().filter_map(|link| link.signalling.as_ref());
        let descriptors = sockets.flat_map(|signalling| signalling.descriptors());
        let changes = std::iter::once(std::os::fd::AsFd::as_fd(&self.changes));
        if self.sleeper.sleep(descriptors.chain(changes), longest).is_err() {
            // It cannot fail with descriptors that are open; if it does, the loop must not spin.
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }

    /// Does what was asked. `true`: to stop.
    fn obey(&mut self, now: Instant) -> bool {
        while let Ok(command) = self.inbox.try_recv() {
            // Whoever asked may have gone: then the answer goes nowhere.
            match command {
                Command::Stop => {
                    self.programs.end_all(&mut self.node, now);
                    return true;
                }
                Command::Reserve {
                    number,
                    wanted,
                    trial,
                    tell,
                    done,
                } => {
                    let links = &self.links;
                    let mtu = |index| mtu_of(links, index);
                    let begun = self
                        .programs
                        .begin(&mut self.node, now, (number, wanted, trial), mtu, tell);
                    let _ = done.send(begun);
                }
                Command::Change {
                    number,
                    rate_bps,
                    done,
                } => {
                    let links = &self.links;
                    let mtu = |index| mtu_of(links, index);
                    self.programs
                        .change(&mut self.node, now, (number, rate_bps), mtu, done);
                }
                Command::End { number } => {
                    self.watchers.remove(&number);
                    self.programs.end(&mut self.node, now, number);
                }
                Command::Watch { number, tell } => drop(self.watchers.insert(number, tell)),
                Command::Status { done } => drop(done.send(self.status(now))),
                Command::Reshape { policy, done } => drop(done.send(self.reshape(*policy))),
            }
        }
        false
    }

    /// What the kernel says of interfaces, now.
    fn look_at_links(&mut self) {
        let own = self.node.routing().kernel().addresses().unwrap_or_default();
        if self.everywhere {
            let found = own.iter().filter(|own| !own.address.is_loopback());
            for index in found
                .map(|own| own.interface)
                .collect::<std::collections::BTreeSet<_>>()
            {
                let known = self.links.iter().any(|link| link.index == Some(index));
                if let (false, Ok(found)) = (known, netio::interface::Interface::numbered(index)) {
                    self.links.push(Link::new(&found.name));
                }
            }
        }
        for (id, link) in (0..).zip(&mut self.links) {
            let before = link.error.clone();
            link.refresh(&own);
            if let Some(error) = link.error.as_ref().filter(|error| before.as_ref() != Some(error)) {
                (self.log)(error);
            }
            self.node
                .set_interface(id, link.as_interface(self.settings.refresh));
            let books = self.node.traffic_control_mut();
            if books.account(id).is_none() || !self.policies.contains_key(&id) {
                let free = Account::Free { mtu: link.mtu };
                books.open(
                    id,
                    self.policies
                        .get(&id)
                        .and_then(|policy| account(policy, self.ring))
                        .unwrap_or(free),
                );
            }
        }
        let by_index = (0..)
            .zip(&self.links)
            .filter_map(|(id, link)| Some((link.index?, id)));
        self.node.routing_mut().set(by_index.collect());
        self.answers
            .know(self.links.iter().map(|link| link.addresses.clone()).collect());
    }

    /// Hears what has come. Whether there may be more.
    fn hear(&mut self, now: Instant) -> bool {
        let mut busy = false;
        for id in 0..self.links.len() {
            for turn in 0.. {
                if turn == TURN {
                    busy = true;
                    break;
                }
                let link = &mut self.links[id];
                let Some(signalling) = &mut link.signalling else {
                    break;
                };
                let (ttl, bytes) = match signalling.receive() {
                    Ok(None) => break,
                    Ok(Some((arrival, bytes))) => (arrival.ttl, bytes.to_vec()),
                    Err(error) => {
                        link.error = Some(format!("{}: {error}", link.name));
                        break;
                    }
                };
                if link.admits(now, self.settings.most_messages) {
                    self.counts.0 += 1;
                    self.read(now, id as InterfaceId, ttl, &bytes);
                } else {
                    self.counts.2 += 1;
                }
            }
        }
        busy
    }

    /// Reads a message, notes what the node does not, and gives it to the node.
    fn read(&mut self, now: Instant, interface: InterfaceId, ttl: u8, bytes: &[u8]) {
        match Frame::decode(bytes) {
            Ok(Frame {
                message: Message::Bundle(messages),
                ..
            }) => {
                for message in messages {
                    self.read(now, interface, ttl, &message);
                }
            }
            Ok(frame) => {
                match &frame.message {
                    Message::Path(path) if self.ends_here(path.session.destination) => {
                        self.answers.hear(interface, &frame)
                    }
                    Message::PathErr(error) => {
                        let flow = (plain(&error.session), error.sender.template);
                        let adspec = error.sender.adspec.as_ref().and_then(|adspec| adspec.known());
                        if let (Some(adspec), Some(_)) = (adspec, self.programs.number(&flow)) {
                            self.gathered.insert(flow, adspec.clone());
                        }
                    }
                    _ => {}
                }
                self.node.handle_frame(now, interface, ttl, frame);
            }
            Err(Misread::Objected(objection, frame)) => {
                self.node.handle_objection(interface, objection, *frame)
            }
            Err(Misread::Malformed(_)) => self.counts.1 += 1,
        }
    }

    fn ends_here(&self, destination: IpAddr) -> bool {
        self.node.routing().route(None, destination).here
    }

    /// What the node has to tell.
    fn heed(&mut self, now: Instant) {
        while let Some(event) = self.node.poll_event() {
            self.notice(&event);
            let letter = match event {
                Event::Path {
                    session,
                    sender,
                    tspec,
                    adspec,
                } => {
                    let own = self.node.routing().leads(session.destination) == Leads::Here;
                    let flow = (plain(&session), sender);
                    self.answers
                        .path(&mut self.node, now, (flow, own), (&tspec, adspec.as_ref()))
                }
                Event::PathEnded { session, sender } => {
                    self.answers
                        .ended(&mut self.node, now, &(plain(&session), sender));
                    None
                }
                Event::Confirmed {
                    session, receiver, ..
                } => {
                    self.answers.confirmed(receiver, &session);
                    None
                }
                Event::ReservationFailed {
                    session,
                    receiver,
                    error,
                    ..
                } => self
                    .answers
                    .failed(&mut self.node, now, (receiver, &session), &error),
                Event::Reserved {
                    session,
                    sender,
                    flowspec,
                    ..
                } => {
                    self.programs.reserved(&(plain(&session), sender), &flowspec);
                    None
                }
                Event::Unreserved { session, sender } => {
                    self.programs.unreserved(&(plain(&session), sender));
                    None
                }
                Event::PathFailed {
                    session,
                    sender,
                    error,
                } => {
                    let flow = (plain(&session), sender);
                    let gathered = self.gathered.remove(&flow);
                    let links = &self.links;
                    let mtu = |index| mtu_of(links, index);
                    self.programs
                        .failed(&mut self.node, now, (&flow, &error), gathered.as_ref(), mtu);
                    None
                }
                Event::Refused {
                    session,
                    interface,
                    wanted,
                    refused,
                    ..
                } => {
                    let flow = overview::first(&session, &wanted)
                        .map(|(session, sender)| overview::shown(session, &sender));
                    self.remember(now, interface, flow, &refused);
                    None
                }
            };
            if let Some(letter) = letter {
                self.post(letter);
            }
        }
    }

    /// A refusal by this node, with its numbers.
    fn remember(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        flow: Option<control::reservation::Flow>,
        refused: &rsvp::traffic_control::Refused,
    ) {
        let name = self
            .links
            .get(interface as usize)
            .map_or("?", |link| &link.name)
            .to_owned();
        let view = RefusalView {
            flow,
            interface: name,
            reason: reason(refused.code, refused.value),
            asked_bps: refused.asked.bits(),
            left_bps: refused.available.bits(),
            seconds_ago: 0.0,
        };
        let whom = view
            .flow
            .as_ref()
            .map_or_else(String::new, |flow| format!(" {flow}:"));
        (self.log)(&format!(
            "{}:{whom} refused: {}; asked {}, left {}",
            view.interface, view.reason, refused.asked, refused.available
        ));
        if self.refusals.len() == REMEMBERED {
            self.refusals.pop_front();
        }
        self.refusals.push_back((now, view));
    }

    /// Tells those who watch.
    fn notice(&mut self, event: &Event) {
        if self.watchers.is_empty() {
            return;
        }
        let notice = overview::notice(event, &self.links);
        self.watchers
            .retain(|_, watcher| watcher.send(notice.clone()).is_ok());
    }

    /// Puts into force what has changed.
    fn keep_promises(&mut self) {
        for id in self.node.traffic_control_mut().take_changed() {
            let (Some(policy), Some(layout)) =
                (self.policies.get(&id), self.node.traffic_control().lay_out(id))
            else {
                continue;
            };
            let adopted = match layout {
                Ok(layout) => self.trees.adopt(policy, layout),
                Err(problems) => Err(Refusal::from(problems)),
            };
            if let Err(why) = adopted {
                (self.log)(&format!("{}: the classes stay as they were: {why}", policy.name));
            }
        }
    }

    /// Another policy for an interface, with everything that is reserved.
    fn reshape(&mut self, policy: Interface) -> Result<String, Refusal> {
        let found = self.policies.iter().find(|(_, known)| known.name == policy.name);
        let Some((&id, _)) = found else {
            return Err(Refusal::new(format!(
                "nothing can be reserved on {}",
                policy.name
            )));
        };
        let gone = || Refusal::new(format!("nothing can be reserved on {} any more", policy.name));
        let new = account(&policy, self.ring).ok_or_else(gone)?;
        let books = self.node.traffic_control_mut();
        let old = books.account(id).cloned();
        books.open(id, new);
        let adopted = match books.lay_out(id) {
            Some(Ok(layout)) => self.trees.adopt(&policy, layout),
            Some(Err(problems)) => Err(Refusal::from(problems)),
            None => Err(gone()),
        };
        match adopted {
            Ok(()) => {
                let done = format!("{}: changed, with what is reserved", policy.name);
                self.policies.insert(id, policy);
                Ok(done)
            }
            Err(why) => {
                old.into_iter().for_each(|old| books.open(id, old));
                Err(why)
            }
        }
    }

    /// Sends what the node has to say.
    fn speak(&mut self) {
        while let Some(transmit) = self.node.poll_transmit() {
            let Transmit {
                interface,
                source,
                destination,
                router_alert,
                ttl,
                bytes,
            } = transmit;
            let bytes = match Frame::decode(&bytes) {
                Ok(frame) => match &frame.message {
                    Message::Path(path) => {
                        let want = self.programs.want(&path.session, &path.sender.template);
                        if want.is_any() {
                            want.add(frame).encode().unwrap_or(bytes)
                        } else {
                            bytes
                        }
                    }
                    _ => bytes,
                },
                Err(_) => bytes,
            };
            self.send(
                interface,
                &Envelope {
                    source,
                    destination,
                    ttl,
                    alert: router_alert,
                },
                &bytes,
            );
        }
    }

    /// Sends a message that this host itself has written.
    fn post(&mut self, (interface, destination, frame): Letter) {
        let alike = |address: &&IpAddr| address.is_ipv4() == destination.is_ipv4();
        let own = self
            .links
            .get(interface as usize)
            .and_then(|link| link.addresses.iter().find(alike).copied());
        if let (Some(source), Ok(bytes)) = (own, frame.encode()) {
            self.send(
                interface,
                &Envelope {
                    source,
                    destination,
                    ttl: frame.send_ttl,
                    alert: false,
                },
                &bytes,
            );
        }
    }

    fn send(&mut self, interface: InterfaceId, envelope: &Envelope, bytes: &[u8]) {
        let Some(link) = self.links.get_mut(interface as usize) else {
            return;
        };
        let Some(signalling) = &link.signalling else {
            return;
        };
        // What is lost is said again with the next refresh.
        if let Err(error) = signalling.send(envelope, bytes) {
            link.error = Some(format!(
                "{}: cannot send to {}: {error}",
                link.name, envelope.destination
            ));
        } else {
            link.error = None;
        }
    }

    fn status(&self, now: Instant) -> Status {
        let refusals = self.refusals.iter().map(|(at, view)| RefusalView {
            seconds_ago: now.since(*at).as_secs_f64(),
            ..view.clone()
        });
        Status {
            interfaces: overview::interfaces(&self.links, self.node.traffic_control()),
            senders: overview::senders(&self.node, &self.links, &self.programs, &self.answers),
            refusals: refusals.collect(),
            heard: self.counts.0,
            malformed: self.counts.1,
            overflow: self.counts.2,
        }
    }
}

/// The longest datagram of the interface of this number; Ethernet's, if it is not known.
fn mtu_of(links: &[Link], index: u32) -> u32 {
    links
        .iter()
        .find(|link| link.index == Some(index))
        .map_or(1500, |link| link.mtu)
}

/// A rate for people.
pub fn rate(bps: u64) -> String {
    Bandwidth::bits_per_sec(bps).to_string()
}
