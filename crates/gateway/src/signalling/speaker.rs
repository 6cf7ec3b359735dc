//! The thread that speaks RSVP.
//!
//! One turn: what was asked, what the kernel says of routes and links, a bounded number of messages, what is due. Then the
//! trees are put into force, and only then what the node has to say is sent: a promise is kept before it is made.

use super::answers::{Answers, Letter};
use super::handle::Command;
pub use super::handle::Handle;
use super::layers::{Heard, Layers};
use super::links::Link;
use super::overview;
use super::programs::{Flow, KernelNode, Programs, plain};
use super::promises::Promises;
use super::protection::KeyFile;
use super::reasons::reason;
use super::routing::KernelRoutes;
use super::trees::Trees;
use control::reservation::{Notice, RefusalView, Status};
use control::rsvp_config::{RsvpConfig, RsvpSettings};
use engine::random::Seed;
use engine::units::{Bandwidth, Duration, Instant};
use netio::clock;
use netio::routes::{Changes, Leads, Routes};
use netio::signalling::Envelope;
use netio::wake::Sleeper;
use rsvp::admission::AdmissionState;
use rsvp::node::{Event, Node, Settings, Transmit};
use rsvp::traffic_control::{InterfaceId, Routing};
use rsvp::wire::{Adspec, Frame, Message};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

/// Messages of one interface in one turn.
const TURN: usize = 64;
/// The longest sleep: how soon an interface that came without news is found.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);
/// Refusals that are remembered.
const REMEMBERED: usize = 64;

/// Where something is written down for whoever runs the program.
pub type Log = Box<dyn FnMut(&str) + Send>;

/// What a node is made of.
pub struct Setup {
    /// The section of the policy, or what stands for it.
    pub config: RsvpConfig,
    /// Whether every interface that has an address and is no loopback speaks RSVP, beyond those of the section.
    pub everywhere: bool,
    /// The keys of its messages, if they have any.
    pub keys: Option<KeyFile>,
    /// Where packets are queued.
    pub trees: Box<dyn Trees>,
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

/// A node with its sockets.
struct Speaker {
    node: KernelNode,
    links: Vec<Link>,
    layers: Layers,
    settings: RsvpSettings,
    everywhere: bool,
    promises: Promises,
    changes: Changes,
    sleeper: Sleeper,
    inbox: Receiver<Command>,
    programs: Programs,
    answers: Answers,
    watchers: BTreeMap<u64, Sender<Notice>>,
    refusals: VecDeque<(Instant, RefusalView)>,
    /// What the last PathErr of each flow had gathered on its way.
    gathered: BTreeMap<Flow, Adspec>,
    counts: Counts,
    log: Log,
}

/// Messages that came: in all, those that are no RSVP, and those beyond the limit.
#[derive(Default)]
struct Counts {
    heard: u64,
    malformed: u64,
    overflow: u64,
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
    let names = links.iter().map(|link| link.name.as_str());
    let settings = setup.config.settings;
    let mut speaker = Speaker {
        node: Node::new(
            Settings::new(Vec::new(), setup.seed),
            AdmissionState::new(),
            routing,
        ),
        promises: Promises::new(setup.trees, names),
        layers: Layers::new(
            clock::now(),
            setup.keys,
            settings.refresh_reduction,
            settings.refresh,
            setup.seed,
        ),
        links,
        settings,
        everywhere: setup.everywhere,
        changes: Changes::watch()?,
        sleeper,
        inbox,
        programs: Programs::default(),
        answers: Answers::new(setup.config.accept),
        watchers: BTreeMap::new(),
        refusals: VecDeque::new(),
        gathered: BTreeMap::new(),
        counts: Counts::default(),
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
    Ok((Handle::new(commands, waker), thread))
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
                self.layers.routes_changed();
            }
            for news in self.layers.look_at_keys(now, &self.links) {
                (self.log)(&news);
            }
            let busy = self.hear(now);
            for interface in self.layers.say_again(now) {
                self.node.resynchronise(now, interface);
            }
            self.node.handle_timeout(now);
            self.heed(now);
            self.keep_promises();
            self.speak(now);
            if !busy {
                self.sleep();
            }
        }
        // Programs whose reservations were held are gone, and their neighbours hear it.
        self.speak(clock::now());
    }

    fn sleep(&mut self) {
        let due = [self.node.poll_timeout(), self.layers.poll_timeout()];
        let due = due.into_iter().flatten().min().unwrap_or(Instant::NEVER);
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
                    let mtu = mtus(&self.links);
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
                    let mtu = mtus(&self.links);
                    self.programs
                        .change(&mut self.node, now, (number, rate_bps), mtu, done);
                }
                Command::End { number } => {
                    self.watchers.remove(&number);
                    self.programs.end(&mut self.node, now, number);
                }
                Command::Watch { number, tell } => drop(self.watchers.insert(number, tell)),
                Command::Status { done } => drop(done.send(self.status(now))),
                Command::Reshape { policy, done } => {
                    drop(done.send(self.promises.reshape(&mut self.node, *policy)));
                }
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
            self.promises.open(&mut self.node, id, link.mtu);
        }
        for news in self.layers.know(&self.links) {
            (self.log)(&news);
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
                let (arrival, bytes) = match signalling.receive() {
                    Ok(None) => break,
                    Ok(Some((arrival, bytes))) => (arrival, bytes.to_vec()),
                    Err(error) => {
                        link.error = Some(format!("{}: {error}", link.name));
                        break;
                    }
                };
                if link.admits(now, self.settings.most_messages) {
                    self.counts.heard += 1;
                    let id = id as InterfaceId;
                    for heard in self.layers.hear(now, id, &arrival, &bytes) {
                        self.read(now, id, heard);
                    }
                } else {
                    self.counts.overflow += 1;
                }
            }
        }
        while let Some(source) = self.layers.poll_drop_source() {
            let name = overview::name(&self.links, source.interface);
            let from = source.neighbour;
            let (_, why) = super::reasons::dropped(source.failure);
            let message = format!("{name}: messages of {from} are dropped: {why}");
            (self.log)(&message);
            self.notify(Notice {
                what: "dropped".into(),
                flow: None,
                message,
            });
        }
        busy
    }

    /// Notes of a message what the node does not, and gives it to the node.
    fn read(&mut self, now: Instant, interface: InterfaceId, heard: Heard) {
        let (ttl, frame) = match heard {
            Heard::Message(ttl, frame) => (ttl, frame),
            Heard::Objected(objection, frame) => {
                self.node.report_error(interface, objection, frame);
                return;
            }
            Heard::Malformed => {
                self.counts.malformed += 1;
                return;
            }
        };
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

    fn ends_here(&self, destination: IpAddr) -> bool {
        self.node.routing().route(None, destination).local
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
                    let mtu = mtus(&self.links);
                    self.programs
                        .failed(&mut self.node, now, (&flow, &error), gathered.as_ref(), mtu);
                    None
                }
                Event::AdmissionFailed {
                    session,
                    interface,
                    requested,
                    failure,
                    ..
                } => {
                    let flow = overview::first(&session, &requested)
                        .map(|(session, sender)| overview::shown(session, &sender));
                    self.remember(now, interface, flow, &failure);
                    None
                }
            };
            if let Some(letter) = letter {
                self.post(now, letter);
            }
        }
    }

    /// A refusal by this node, with its numbers.
    fn remember(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        flow: Option<control::reservation::Flow>,
        refused: &rsvp::traffic_control::AdmissionFailure,
    ) {
        let name = overview::name(&self.links, interface);
        let view = RefusalView {
            flow,
            interface: name,
            reason: reason(refused.error.code, refused.error.value),
            asked_bps: refused.requested.bits(),
            left_bps: refused.available.bits(),
            seconds_ago: 0.0,
        };
        let whom = view
            .flow
            .as_ref()
            .map_or_else(String::new, |flow| format!(" {flow}:"));
        (self.log)(&format!(
            "{}:{whom} refused: {}; asked {}, left {}",
            view.interface, view.reason, refused.requested, refused.available
        ));
        if self.refusals.len() == REMEMBERED {
            self.refusals.pop_front();
        }
        self.refusals.push_back((now, view));
    }

    /// Tells those who watch.
    fn notice(&mut self, event: &Event) {
        if !self.watchers.is_empty() {
            self.notify(overview::notice(event, &self.links));
        }
    }

    fn notify(&mut self, notice: Notice) {
        self.watchers
            .retain(|_, watcher| watcher.send(notice.clone()).is_ok());
    }

    /// Puts into force what has changed.
    fn keep_promises(&mut self) {
        self.promises.keep(&mut self.node, &mut self.log);
    }

    /// Sends what the node and its layers have to say.
    fn speak(&mut self, now: Instant) {
        while let Some(transmit) = self.node.poll_transmit() {
            let transmit = self.wish(transmit);
            self.layers.say(now, transmit);
        }
        self.layers.handle_timeout(now);
        while let Some(transmit) = self.layers.poll_transmit(now) {
            let envelope = Envelope {
                source: transmit.source,
                destination: transmit.destination,
                ttl: transmit.ttl,
                alert: transmit.router_alert,
            };
            self.send(transmit.interface, &envelope, &transmit.bytes);
        }
    }

    /// A Path of a program on this host says what that would like.
    fn wish(&self, transmit: Transmit) -> Transmit {
        let Ok(frame) = Frame::decode(&transmit.bytes) else {
            return transmit;
        };
        let want = match &frame.message {
            Message::Path(path) => self.programs.want(&path.session, &path.sender.template),
            _ => return transmit,
        };
        match want.is_any().then(|| want.add(frame).encode()) {
            Some(Ok(bytes)) => Transmit { bytes, ..transmit },
            _ => transmit,
        }
    }

    /// Sends a message that this host itself has written.
    fn post(&mut self, now: Instant, (interface, destination, frame): Letter) {
        let alike = |address: &&IpAddr| address.is_ipv4() == destination.is_ipv4();
        let own = self
            .links
            .get(interface as usize)
            .and_then(|link| link.addresses.iter().find(alike).copied());
        if let (Some(source), Ok(bytes)) = (own, frame.encode()) {
            let transmit = Transmit {
                interface,
                source,
                destination,
                router_alert: false,
                ttl: frame.send_ttl,
                bytes,
            };
            self.layers.say(now, transmit);
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
        let keys = self.layers.protection(now, &self.links);
        Status {
            interfaces: overview::interfaces(&self.links, self.node.traffic_control(), &keys),
            senders: overview::senders(now, &self.node, &self.links, &self.programs, &self.answers),
            refusals: refusals.collect(),
            heard: self.counts.heard,
            malformed: self.counts.malformed,
            overflow: self.counts.overflow,
            dropped: self
                .layers
                .dropped(now, |interface| overview::name(&self.links, interface)),
            names: self.layers.names(),
        }
    }
}

/// The longest datagram of an interface, by its number; Ethernet's, if it is not known.
fn mtus(links: &[Link]) -> impl Fn(u32) -> u32 {
    |index| {
        let link = links.iter().find(|link| link.index == Some(index));
        link.map_or(1500, |link| link.mtu)
    }
}

/// A rate for people.
pub fn rate(bps: u64) -> String {
    Bandwidth::bits_per_sec(bps).to_string()
}
