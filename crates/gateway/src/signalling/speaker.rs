//! The thread that speaks RSVP.
//!
//! Each turn handles commands, changed routes and interfaces, a bounded number of messages, and
//! timers. Then it installs the classes of changed reservations, and only then transmits: a
//! reservation is enforced before a neighbour learns that it was admitted.

use super::budgets::Budgets;
use super::context::{KernelContext, NodeContext};
use super::handle::Command;
pub use super::handle::SpeakerHandle;
use super::interfaces::{self, SignallingInterface};
use super::key_file::KeyFile;
use super::limits::Limits;
use super::local_senders::{Flow, KernelNode, LocalSenders, NewSender, in_micros, plain};
use super::overview;
use super::receiver_proxy::{OwnMessage, ReceiverProxy};
use super::routing::KernelRoutes;
use super::shim::{Received, Shim};
use super::trees::Trees;
use crate::direction::secret_seed;
use control::recorded::RecordedSignalling;
use control::reservation::{Notice, RefusalView, RsvpStatus};
use control::rsvp_config::{RsvpConfig, RsvpSettings};
use engine::random::Seed;
use engine::units::{Duration, Instant};
use netio::routes::OwnAddress;
use netio::signalling::Envelope;
use netio::time::CallerTime;
use netio::wake::Sleeper;
use rsvp::admission::AdmissionState;
use rsvp::node::{Event, Node, Settings, Transmit};
use rsvp::places::Places;
use rsvp::reasons::reason;
use rsvp::traffic_control::{AdmissionFailure, InterfaceId};
use rsvp::wire::{Adspec, Frame, Message};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

/// The maximum number of messages from one interface in one turn.
const TURN: usize = 64;
/// The longest sleep.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);
/// After this time it is tried again to open the sockets of an interface.
const OPEN_AGAIN: Duration = Duration::from_secs(1);
/// The maximum number of stored refusals.
const REMEMBERED: usize = 64;

/// The sink of messages for the operator.
pub type LogSink = Box<dyn FnMut(&str) + Send>;

/// The parts of a node.
pub struct Setup {
    /// The `[rsvp]` section of the policy, or its equivalent.
    pub config: RsvpConfig,
    /// Whether all interfaces with an address, except loopback, speak RSVP, beyond those of the
    /// section.
    pub everywhere: bool,
    /// The keys that authenticate its messages, if there are any.
    pub keys: Option<KeyFile>,
    /// The class trees of the managed interfaces.
    pub trees: Box<dyn Trees>,
    /// The seed of all random choices.
    pub seed: Seed,
    /// Where refusals and errors are logged.
    pub log: LogSink,
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setup")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// A node with its sockets.
pub(crate) struct Speaker {
    node: KernelNode,
    interfaces: Vec<SignallingInterface>,
    shim: Shim,
    settings: RsvpSettings,
    everywhere: bool,
    budgets: Budgets,
    around: Box<dyn NodeContext>,
    time: CallerTime,
    /// When sockets that could not be opened are tried again; never if all are open.
    open_again: Instant,
    inbox: Receiver<Command>,
    senders: LocalSenders,
    proxy: ReceiverProxy,
    watchers: BTreeMap<u64, Sender<Notice>>,
    refusals: VecDeque<(Instant, RefusalView)>,
    /// The ADSPEC of the last PathErr of each flow.
    adspecs: BTreeMap<Flow, Adspec>,
    counts: Counts,
    limits: Limits,
    log: LogSink,
}

/// Received messages: all, malformed ones, and those beyond the rate limit.
#[derive(Default)]
struct Counts {
    received: u64,
    malformed: u64,
    overflow: u64,
}

/// Starts the thread.
///
/// # Errors
///
/// If the kernel's routes cannot be read, or no interface has a working socket.
pub fn start(setup: Setup) -> io::Result<(SpeakerHandle, JoinHandle<()>)> {
    let around = Box::new(KernelContext::watch()?);
    let (speaker, handle, sleeper) = begin(setup, around, CallerTime::default())?;
    let thread = std::thread::Builder::new()
        .name("rsvp".into())
        .spawn(move || speaker.run(&sleeper))?;
    Ok((handle, thread))
}

/// A node of these parts, in this time, that has not had a turn yet; whose sleep commands end.
///
/// # Errors
///
/// If the routes cannot be read, or no interface has a working socket.
pub(crate) fn begin(
    setup: Setup,
    around: Box<dyn NodeContext>,
    time: CallerTime,
) -> io::Result<(Speaker, SpeakerHandle, Sleeper)> {
    let (sleeper, waker) = Sleeper::new()?;
    let (commands, inbox) = mpsc::channel();
    let routing = KernelRoutes::new(around.routes()?, setup.config.accept.clone());
    let interfaces: Vec<SignallingInterface> = setup
        .config
        .interfaces
        .iter()
        .map(|name| SignallingInterface::new(name))
        .collect();
    let names = interfaces.iter().map(|interface| interface.name.as_str());
    let settings = setup.config.settings;
    let mut speaker = Speaker {
        node: Node::new(
            Settings {
                max_senders: Places::of(settings.most_senders as usize),
                max_reservations: Places::of(settings.most_senders as usize),
                longest_refresh: interfaces::as_refresh(settings.longest_accepted()),
                ..Settings::new(Vec::new(), setup.seed)
            },
            AdmissionState::new(),
            routing,
        ),
        budgets: Budgets::new(setup.trees, names),
        shim: Shim::new((time.now(), time.now_ms()), setup.keys, &settings, setup.seed),
        interfaces,
        settings,
        everywhere: setup.everywhere,
        around,
        time: time.clone(),
        open_again: Instant::NEVER,
        inbox,
        senders: LocalSenders::default(),
        proxy: ReceiverProxy::new(setup.config.accept),
        watchers: BTreeMap::new(),
        refusals: VecDeque::new(),
        adspecs: BTreeMap::new(),
        counts: Counts::default(),
        limits: Limits::default(),
        log: setup.log,
    };
    speaker.begin_tape(time.now(), setup.seed);
    speaker.update_interfaces();
    let works = speaker
        .interfaces
        .iter()
        .any(|interface| interface.signalling.is_some());
    if let (false, Some(error)) = (
        works,
        speaker
            .interfaces
            .iter()
            .find_map(|interface| interface.error.clone()),
    ) {
        return Err(io::Error::other(error));
    }
    speaker.install_classes();
    Ok((speaker, SpeakerHandle::new(commands, waker, time), sleeper))
}

/// What comes after a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum After {
    /// There may be more to do.
    Busy,
    /// Nothing before this time, unless something comes.
    Idle(Instant),
    /// It has ended.
    Ended,
}

impl Speaker {
    fn run(mut self, sleeper: &Sleeper) {
        loop {
            match self.turn() {
                After::Busy => {}
                After::Idle(until) => self.sleep(sleeper, until),
                After::Ended => break,
            }
        }
    }

    /// A turn.
    pub(crate) fn turn(&mut self) -> After {
        let now = self.time.now();
        if self.handle_commands(now).is_break() {
            // The senders of all programs were removed; the neighbours get their PathTear messages.
            self.transmit(self.time.now());
            return After::Ended;
        }
        if self.around.have_changed() || self.opens_again(now) {
            self.update_interfaces();
            self.node.routes_changed(now);
            self.shim.routes_changed();
        }
        for message in self.shim.reload_keys(now, &self.interfaces) {
            (self.log)(&message);
        }
        let busy = self.receive(now);
        for interface in self.shim.resynchronise(now) {
            self.node.resynchronise(now, interface);
        }
        self.node.handle_timeout(now);
        self.handle_events(now);
        self.install_classes();
        self.transmit(now);
        self.keep_tape(now);
        if busy {
            return After::Busy;
        }
        let timers = [self.node.poll_timeout(), self.shim.poll_timeout()].into_iter();
        let due = timers.flatten().fold(self.open_again, Instant::min);
        After::Idle(due.min(now + LONGEST_SLEEP))
    }

    /// Begins a tape, if the node has no state.
    fn begin_tape(&mut self, now: Instant, seed: Seed) {
        let last = self.node.traffic_control().last();
        let most = usize::try_from(self.settings.kept_messages.get()).unwrap_or(usize::MAX);
        if self.node.begin_tape(now, seed, last, most) {
            self.budgets
                .begin_tape(&self.node, self.interfaces.iter().map(|interface| interface.mtu));
        }
    }

    /// What the node has done in this turn is written down; where that is full, it begins anew as
    /// soon as it can.
    fn keep_tape(&mut self, now: Instant) {
        self.node.tape().turn_ended();
        if self.node.tape().is_full() {
            self.begin_tape(now, secret_seed());
        }
    }

    fn sleep(&self, sleeper: &Sleeper, until: Instant) {
        let longest = until.since(self.time.now());
        let sockets = self
            .interfaces
            .iter()
            .filter_map(|interface| interface.signalling.as_ref());
        let descriptors = sockets.flat_map(|signalling| signalling.descriptors());
        if sleeper
            .sleep(descriptors.chain(self.around.changes()), longest)
            .is_err()
        {
            // Cannot fail with open descriptors; if it does, the loop must not spin.
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }

    /// Executes the commands of other threads; breaks on [`Command::Stop`].
    fn handle_commands(&mut self, now: Instant) -> ControlFlow<()> {
        while let Ok(command) = self.inbox.try_recv() {
            // The requester may have ended; then the reply is discarded.
            match command {
                Command::Stop => {
                    self.senders.end_all(&mut self.node, now);
                    return ControlFlow::Break(());
                }
                Command::Reserve {
                    number,
                    wanted,
                    trial,
                    updates,
                    done,
                } => {
                    let mtu = mtus(&self.interfaces);
                    let new = NewSender {
                        number,
                        wanted,
                        trial,
                        updates,
                    };
                    let begun = self.senders.begin(&mut self.node, now, new, mtu);
                    let _ = done.send(begun);
                }
                Command::Change {
                    number,
                    rate_bps,
                    done,
                } => {
                    let mtu = mtus(&self.interfaces);
                    self.senders
                        .change(&mut self.node, now, number, rate_bps, mtu, done);
                }
                Command::End { number } => {
                    self.watchers.remove(&number);
                    self.senders.end(&mut self.node, now, number);
                }
                Command::Watch { number, updates } => drop(self.watchers.insert(number, updates)),
                Command::Status { done } => drop(done.send(self.status(now))),
                Command::Record { done } => drop(done.send(self.recorded())),
                Command::TryPolicy { policy, done } => {
                    drop(done.send(self.budgets.try_policy(&self.node, &policy)));
                }
                Command::ChangePolicy {
                    policy,
                    breaking,
                    done,
                } => {
                    drop(done.send(self.budgets.change_policy(&mut self.node, *policy, breaking)));
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Tries again to open sockets that could not be opened, if it is time. Whether some could:
    /// only then something has changed for the node, all of which is on its tape.
    fn opens_again(&mut self, now: Instant) -> bool {
        if now < self.open_again {
            return false;
        }
        self.open_again = now + OPEN_AGAIN;
        let before = self.lacking();
        let own = self.node.routing().kernel().addresses().unwrap_or_default();
        self.refresh(&own, |interface| interface.signalling.is_none());
        self.lacking() < before
    }

    /// How many interfaces have no sockets.
    fn lacking(&self) -> usize {
        let interfaces = self.interfaces.iter();
        interfaces.filter(|one| one.signalling.is_none()).count()
    }

    /// Looks at these interfaces as they are now, and says what is wrong with them.
    fn refresh(&mut self, own: &[OwnAddress], which: impl Fn(&SignallingInterface) -> bool) {
        for interface in self.interfaces.iter_mut().filter(|one| which(one)) {
            let before = interface.error.clone();
            interface.refresh(self.around.as_ref(), own);
            if let Some(error) = interface.error.as_ref()
                && before.as_ref() != Some(error)
            {
                (self.log)(error);
            }
        }
    }

    /// Follows the interfaces and addresses of the kernel.
    fn update_interfaces(&mut self) {
        let own = self.node.routing().kernel().addresses().unwrap_or_default();
        if self.everywhere {
            let found = own.iter().filter(|own| !own.address.is_loopback());
            for index in found
                .map(|own| own.interface)
                .collect::<std::collections::BTreeSet<_>>()
            {
                let known = self
                    .interfaces
                    .iter()
                    .any(|interface| interface.index == Some(index));
                if let (false, Ok(found)) = (known, self.around.numbered(index)) {
                    self.interfaces.push(SignallingInterface::new(&found.name));
                }
            }
        }
        self.refresh(&own, |_| true);
        for (id, interface) in (0..).zip(&self.interfaces) {
            self.node
                .set_interface(id, interface.as_interface(self.settings.refresh));
            self.budgets.set(&mut self.node, id, interface.mtu);
        }
        self.open_again = match self.lacking() {
            0 => Instant::NEVER,
            _ => self.time.now() + OPEN_AGAIN,
        };
        for message in self.shim.set_interfaces(&self.interfaces) {
            (self.log)(&message);
        }
        let by_index = (0..)
            .zip(&self.interfaces)
            .filter_map(|(id, interface)| Some((interface.index?, id)));
        self.node.routing_mut().set(by_index.collect());
        self.proxy.set_addresses(
            self.interfaces
                .iter()
                .map(|interface| interface.addresses.clone())
                .collect(),
        );
    }

    /// Receives messages; returns whether there may be more.
    fn receive(&mut self, now: Instant) -> bool {
        let mut busy = false;
        for id in 0..self.interfaces.len() {
            for turn in 0.. {
                if turn == TURN {
                    busy = true;
                    break;
                }
                let interface = &mut self.interfaces[id];
                let Some(signalling) = &mut interface.signalling else {
                    break;
                };
                let (arrival, bytes) = match signalling.receive() {
                    Ok(None) => break,
                    Ok(Some((arrival, bytes))) => (arrival, bytes.to_vec()),
                    Err(error) => {
                        interface.error = Some(format!("{}: {error}", interface.name));
                        break;
                    }
                };
                if interface.admits(now, self.settings.most_messages) {
                    self.counts.received += 1;
                    let id = id as InterfaceId;
                    for received in self.shim.receive(now, id, &arrival, &bytes) {
                        self.process(now, id, received);
                    }
                } else {
                    self.counts.overflow += 1;
                }
            }
        }
        while let Some(source) = self.shim.poll_drop_source() {
            let name = overview::name(&self.interfaces, source.interface);
            let from = source.neighbour;
            let (_, why) = super::reasons::dropped(source.failure);
            let message = format!("{name}: messages from {from} are dropped: {why}");
            (self.log)(&message);
            self.notify(Notice {
                what: "dropped".into(),
                flow: None,
                message,
            });
        }
        busy
    }

    /// Passes a message to the node, after storing what the node does not store.
    fn process(&mut self, now: Instant, interface: InterfaceId, received: Received) {
        let (ttl, frame) = match received {
            Received::Message(ttl, frame) => (ttl, *frame),
            Received::Wrong(ttl, bytes) => {
                // It is answered, and otherwise as if it had not come.
                let _ = self.node.handle_packet(now, interface, ttl, &bytes);
                return;
            }
            Received::Malformed => {
                self.counts.malformed += 1;
                return;
            }
        };
        let mut ours = None;
        match &frame.message {
            Message::Path(path) if self.node.routing().ends_here(path.session.destination) => {
                self.proxy.path_arrives(interface, &frame);
                ours = Some((plain(&path.session), path.sender.template));
            }
            // Retransmitted for a sender of the same flow that has ended.
            Message::PathErr(error) if self.senders.is_stale(error) => return,
            Message::PathErr(error) => {
                let flow = (plain(&error.session), error.sender.template);
                let adspec = error.sender.adspec.as_ref().and_then(|adspec| adspec.known());
                if let (Some(adspec), Some(_)) = (adspec, self.senders.number(&flow)) {
                    self.adspecs.insert(flow, adspec.clone());
                }
            }
            _ => {}
        }
        self.node.handle_frame(now, interface, ttl, frame);
        if let Some(flow) = ours.filter(|(session, sender)| !self.node.has_path(session, sender)) {
            self.proxy.path_refused(&flow);
        }
    }

    /// Handles the upcalls of the node.
    fn handle_events(&mut self, now: Instant) {
        while let Some(event) = self.node.poll_event() {
            self.notice(&event);
            let message = match event {
                Event::Path {
                    session,
                    sender,
                    tspec,
                    adspec,
                } => {
                    let own = self.node.routing().is_own(session.destination);
                    let flow = (plain(&session), sender);
                    self.proxy
                        .path(&mut self.node, now, (flow, own), (&tspec, adspec.as_ref()))
                }
                Event::PathEnded { session, sender } => {
                    self.proxy.ended(&mut self.node, now, &(plain(&session), sender));
                    None
                }
                Event::Confirmed {
                    session, receiver, ..
                } => {
                    self.proxy.confirmed(receiver, &session);
                    None
                }
                Event::ReservationFailed {
                    session,
                    receiver,
                    error,
                    ..
                } => {
                    let failed = self
                        .proxy
                        .failed(&mut self.node, now, (receiver, &session), &error);
                    failed.into_iter().for_each(|message| self.send_own(now, message));
                    None
                }
                Event::Reserved {
                    session,
                    sender,
                    flowspec,
                    ..
                } => {
                    self.senders.reserved(&(plain(&session), sender), &flowspec);
                    None
                }
                Event::Unreserved { session, sender } => {
                    self.senders.unreserved(&(plain(&session), sender));
                    None
                }
                Event::PathFailed {
                    session,
                    sender,
                    error,
                } => {
                    let flow = (plain(&session), sender);
                    let adspec = self.adspecs.remove(&flow);
                    let mtu = mtus(&self.interfaces);
                    self.senders
                        .failed(&mut self.node, now, &flow, &error, adspec.as_ref(), mtu);
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
                        .map(|(session, sender)| overview::flow_view(session, &sender));
                    self.record_refusal(now, interface, flow, &failure);
                    None
                }
                Event::Limited {
                    state,
                    neighbour,
                    outcome,
                } => {
                    let line = self
                        .limits
                        .state(now, state, neighbour, outcome, &self.interfaces);
                    line.into_iter().for_each(|line| (self.log)(&line));
                    None
                }
            };
            if let Some(message) = message {
                self.send_own(now, message);
            }
        }
    }

    /// Logs and stores a refusal by this node.
    fn record_refusal(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        flow: Option<control::reservation::FlowView>,
        failure: &AdmissionFailure,
    ) {
        let name = overview::name(&self.interfaces, interface);
        let view = RefusalView {
            flow,
            interface: name,
            reason: reason(failure.error.code, failure.error.value),
            asked_bps: failure.requested.bits(),
            left_bps: failure.available.bits(),
            possible_delay_us: failure.possible_delay.map(in_micros),
            seconds_ago: 0.0,
        };
        let whom = view
            .flow
            .as_ref()
            .map_or_else(String::new, |flow| format!(" {flow}:"));
        let delay = failure.possible_delay.map_or_else(String::new, |delay| {
            format!("; it could guarantee a delay of {delay}")
        });
        (self.log)(&format!(
            "{}:{whom} refused: {}; requested {}, available {}{delay}",
            view.interface, view.reason, failure.requested, failure.available
        ));
        if self.refusals.len() == REMEMBERED {
            self.refusals.pop_front();
        }
        self.refusals.push_back((now, view));
    }

    /// Notifies the watchers of an event.
    fn notice(&mut self, event: &Event) {
        if !self.watchers.is_empty() {
            self.notify(overview::notice(event, &self.interfaces));
        }
    }

    fn notify(&mut self, notice: Notice) {
        self.watchers
            .retain(|_, watcher| watcher.send(notice.clone()).is_ok());
    }

    /// Installs the classes of changed reservations.
    fn install_classes(&mut self) {
        self.budgets.install(&mut self.node, &mut self.log);
    }

    /// Transmits the messages of the node and its shim.
    fn transmit(&mut self, now: Instant) {
        while let Some(transmit) = self.node.poll_transmit() {
            let transmit = self.add_hint(transmit);
            self.shim.send(now, transmit);
        }
        self.shim.handle_timeout(now);
        let counts = self.shim.reduction_counts();
        for line in self.limits.reduction(now, counts, &self.interfaces) {
            (self.log)(&line);
        }
        while let Some(transmit) = self.shim.poll_transmit(now) {
            let envelope = Envelope {
                source: transmit.source,
                destination: transmit.destination,
                ttl: transmit.ttl,
                alert: transmit.router_alert,
            };
            self.send(transmit.interface, &envelope, &transmit.bytes);
        }
    }

    /// Adds the hint of a local sender to its Path.
    fn add_hint(&self, transmit: Transmit) -> Transmit {
        let Ok(frame) = Frame::decode(&transmit.bytes) else {
            return transmit;
        };
        let hint = match &frame.message {
            Message::Path(path) => self.senders.hint(&path.session, &path.sender.template),
            _ => return transmit,
        };
        match hint.is_any().then(|| hint.add_to(frame).encode()) {
            Some(Ok(bytes)) => Transmit { bytes, ..transmit },
            _ => transmit,
        }
    }

    /// Sends a message that does not come from the node.
    fn send_own(&mut self, now: Instant, message: OwnMessage) {
        let OwnMessage {
            interface,
            destination,
            frame,
        } = message;
        let alike = |address: &&IpAddr| address.is_ipv4() == destination.is_ipv4();
        let own = self
            .interfaces
            .get(interface as usize)
            .and_then(|interface| interface.addresses.iter().find(alike).copied());
        if let (Some(source), Ok(bytes)) = (own, frame.encode()) {
            let transmit = Transmit {
                interface,
                source,
                destination,
                router_alert: false,
                ttl: frame.send_ttl,
                bytes,
            };
            self.shim.send(now, transmit);
        }
    }

    fn send(&mut self, interface: InterfaceId, envelope: &Envelope, bytes: &[u8]) {
        let Some(interface) = self.interfaces.get_mut(interface as usize) else {
            return;
        };
        let Some(signalling) = &interface.signalling else {
            return;
        };
        // A lost message is repeated by the next refresh.
        if let Err(error) = signalling.send(envelope, bytes) {
            interface.error = Some(format!(
                "{}: cannot send to {}: {error}",
                interface.name, envelope.destination
            ));
        } else {
            interface.error = None;
        }
    }

    /// What was written down so far.
    fn recorded(&self) -> Option<(RecordedSignalling, Vec<u8>)> {
        let taped = self.node.tape().taped()?;
        let names = self.interfaces.iter().map(|interface| interface.name.clone());
        let said = RecordedSignalling {
            tape_bytes: taped.bytes.len() as u64,
            full_ns: taped.full.map(Instant::nanos),
            interfaces: names.collect(),
            policies: self.budgets.taped(),
        };
        Some((said, taped.bytes))
    }

    fn status(&self, now: Instant) -> RsvpStatus {
        let refusals = self.refusals.iter().map(|(at, view)| RefusalView {
            seconds_ago: now.since(*at).as_secs_f64(),
            ..view.clone()
        });
        let keys = self.shim.protection(now, &self.interfaces);
        RsvpStatus {
            interfaces: overview::interfaces(&self.interfaces, self.node.traffic_control(), &keys),
            senders: overview::senders(now, &self.node, &self.interfaces, &self.senders, &self.proxy),
            refusals: refusals.collect(),
            heard: self.counts.received,
            malformed: self.counts.malformed,
            overflow: self.counts.overflow,
            dropped: self
                .shim
                .dropped(now, |interface| overview::name(&self.interfaces, interface)),
            limits: self.limits.views(now, &self.interfaces),
            refresh_reduction: self.shim.reduction_view(),
        }
    }
}

/// The MTU of an interface by its kernel index; that of Ethernet if unknown.
fn mtus(interfaces: &[SignallingInterface]) -> impl Fn(u32) -> u32 {
    |index| {
        let interface = interfaces.iter().find(|interface| interface.index == Some(index));
        interface.map_or(1500, |interface| interface.mtu)
    }
}
