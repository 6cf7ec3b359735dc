//! Reservations that programs on the hosts around the router ask for, what they are told of them,
//! and what must be so of each.

use super::kernel::{NAMES, leaves_by};
use super::machine::{RESERVED, RESERVED_FRAME, World};
use super::policies::Fixed;
use super::router::{Program, Router};
use super::signalling::{Messages, host_address, host_at, wire};
use super::steps::Kind;
use crate::in_force::InterfaceInForce;
use crate::signalling::again::signalling_again;
use crate::signalling::handle::SpeakerHandle;
use crate::vacancies;
use control::reservation::{Lease, ReservationRequest, ReservationState, Reservations as _, RsvpStatus};
use engine::random::Rng;
use engine::reservation::PREFIX;
use engine::tree::TreePlan;
use engine::units::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};

/// The frames of a flow take this of what is reserved at most, in bit/s: the simulation's time.
const SENDS: u64 = 200_000;
/// Ports of flows, less their numbers.
const PORTS: (u16, u16) = (2_000, 5_000);
/// A state is read again so often, since the node may go on while it is read.
const LOOKS: usize = 5;
/// Places for classes beyond those that a tree is laid out with: what was there at once.
const PLACES: usize = 16;

/// A reservation that was asked for.
struct Booked {
    leaving: usize,
    flow: u16,
    number: u64,
    rate_bps: u64,
    /// The rate that is in force, as last told.
    told: Option<u64>,
    updates: Receiver<ReservationState>,
    _lease: Lease,
}

/// What was shown of reservations.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Reserved {
    pub(super) asked: u64,
    pub(super) reserved: u64,
    pub(super) refused: u64,
    pub(super) lost: u64,
    pub(super) changed: u64,
    /// Tapes of the node that were done again.
    pub(super) again: u64,
    pub(super) messages: Messages,
}

impl Reserved {
    pub(super) fn add(&mut self, one: &Self) {
        self.asked += one.asked;
        self.reserved += one.reserved;
        self.refused += one.refused;
        self.lost += one.lost;
        self.changed += one.changed;
        self.again += one.again;
        self.messages.add(&one.messages);
    }
}

/// The hosts and their reservations.
pub(super) struct Reservations {
    world: Arc<World>,
    refresh: Option<Duration>,
    hosts: [Option<SpeakerHandle>; 2],
    booked: Vec<Booked>,
    /// What was reserved on each interface when that was last read, and what could be.
    before: [(u64, u64); 2],
    /// The classes of flows, as last read.
    classes: BTreeMap<(usize, u16), String>,
    shown: Reserved,
}

/// What a class of that many bit/s of datagrams is sent from frame to frame.
fn cadence(rate_bps: u64) -> Duration {
    let bits = (RESERVED_FRAME as u64 - 14) * 8;
    Duration::from_nanos(bits * 1_000_000_000 / rate_bps.clamp(1, SENDS) + 1)
}

impl Reservations {
    pub(super) fn of(world: &Arc<World>, fixed: &Fixed) -> Self {
        Self {
            world: Arc::clone(world),
            refresh: fixed.refresh,
            hosts: [None, None],
            booked: Vec::new(),
            before: [(0, 0); 2],
            classes: BTreeMap::new(),
            shown: Reserved::default(),
        }
    }

    /// The node of the host at an interface, which begins if it does not run.
    fn host(&mut self, link: usize) -> Result<SpeakerHandle, String> {
        if let Some(host) = &self.hosts[link] {
            return Ok(host.clone());
        }
        let refresh = self.refresh.ok_or("no RSVP is spoken")?;
        let begun = self.world.stations.begin_host(&self.world, link, refresh);
        let begun = begun.map_err(|why| why.to_string())?;
        self.hosts[link] = Some(begun.clone());
        Ok(begun)
    }

    /// Something comes to pass; what.
    pub(super) fn step(&mut self, kind: Kind, rng: &mut Rng) -> Result<String, String> {
        for link in 0..2 {
            self.host(link)?;
        }
        match kind {
            Kind::Reserve => return self.reserve(rng),
            Kind::ChangeReservation => return self.change(rng),
            Kind::EndReservation if !self.booked.is_empty() => {
                let which = rng.below(self.booked.len() as u64) as usize;
                let ended = self.booked.remove(which);
                // It may go on to send.
                if rng.below(2) == 0 {
                    self.world.machine().sends(ended.leaving, ended.flow, None);
                }
                return Ok(format!("flow {} to {} ends", ended.flow, NAMES[ended.leaving]));
            }
            Kind::BadSignalling => {
                let until = self.world.now_here() + Duration::from_millis(50 + rng.below(900));
                wire(&self.world.wire).bad_until = until;
            }
            Kind::GarbageMessages => {
                let forged = rng.below(2) == 0;
                wire(&self.world.wire).garbage(1 + rng.below(60), forged);
            }
            Kind::SignallingError => {
                // ENOBUFS, EMFILE, EIO, ENODEV.
                let errors = [105, 24, 5, 19];
                let many = 1 + rng.below(4);
                let errors = (0..many).map(|_| errors[rng.below(4) as usize]);
                wire(&self.world.wire).errors.extend(errors);
            }
            Kind::NeighbourCrash => {
                let link = rng.below(2) as usize;
                self.cut_off(link);
                let gone: Vec<Booked> = self.booked.extract_if(.., |one| one.leaving != link).collect();
                for one in gone {
                    self.world.machine().sends(one.leaving, one.flow, None);
                }
                if rng.below(2) == 0 {
                    self.host(link)?;
                }
            }
            _ => {}
        }
        Ok(String::new())
    }

    /// The host at an interface is cut off, if it runs.
    pub(super) fn cut_off(&mut self, link: usize) {
        self.world.stations.cut_off(host_at(link));
        self.hosts[link] = None;
    }

    fn reserve(&mut self, rng: &mut Rng) -> Result<String, String> {
        let leaving = rng.below(2) as usize;
        let is_free = |flow: &u16| {
            let own = |one: &Booked| (one.leaving, one.flow) == (leaving, *flow);
            !self.booked.iter().any(own)
        };
        let Some(flow) = RESERVED.clone().find(is_free) else {
            return Ok("all flows are reserved for".into());
        };
        let most = if rng.below(4) == 0 { 8_000 } else { 1_000 };
        let rate_bps = (64 + rng.below(most)) * 1_000;
        let wanted = ReservationRequest {
            to: host_address(leaving).into(),
            port: PORTS.1 + flow,
            protocol: 17,
            from: Some(host_address(1 - leaving).into()),
            from_port: PORTS.0 + flow,
            rate_bps,
            burst_bytes: 0,
            packet_bytes: RESERVED_FRAME as u32 - 14,
            delay_us: (rng.below(3) == 0).then(|| 5_000 + rng.below(300_000)),
        };
        let (sender, updates) = mpsc::channel();
        let host = self.host(1 - leaving)?;
        let lease = host.reserve(&wanted, sender).map_err(|why| why.message)?;
        let sends = Some(cadence(rate_bps));
        self.world.machine().sends(leaving, flow, sends);
        self.shown.asked += 1;
        self.booked.push(Booked {
            leaving,
            flow,
            number: 0,
            rate_bps,
            told: None,
            updates,
            _lease: lease,
        });
        Ok(format!("flow {flow} to {}: {rate_bps} bit/s", NAMES[leaving]))
    }

    /// One that is in force gets another rate, or keeps its own.
    fn change(&mut self, rng: &mut Rng) -> Result<String, String> {
        self.hear();
        let is_bad = wire(&self.world.wire).bad_until > self.world.now_here();
        let in_force = self.booked.iter_mut();
        let mut in_force: Vec<_> = in_force.filter(|one| one.told.is_some()).collect();
        if is_bad || in_force.is_empty() {
            return Ok("nothing is changed".into());
        }
        let which = rng.below(in_force.len() as u64) as usize;
        let one = &mut in_force[which];
        let Some(host) = &self.hosts[1 - one.leaving] else {
            return Ok("nobody changes it".into());
        };
        let rate_bps = (64 + rng.below(3_000)) * 1_000;
        let least = cadence(rate_bps.min(one.rate_bps));
        self.world.machine().sends(one.leaving, one.flow, Some(least));
        let done = host.change(one.number, rate_bps);
        if done.is_ok() {
            self.shown.changed += 1;
            one.rate_bps = rate_bps;
        }
        let told = done.unwrap_or_else(|why| why.message);
        Ok(format!("flow {} to {}: {told}", one.flow, NAMES[one.leaving]))
    }

    /// What those who asked are told. Who is refused asks no more.
    fn hear(&mut self) {
        let Self {
            booked, shown, world, ..
        } = self;
        booked.retain_mut(|one| {
            while let Ok(told) = one.updates.try_recv() {
                match told {
                    ReservationState::Asked { number } => one.number = number,
                    ReservationState::Reserved { rate_bps, .. } => {
                        shown.reserved += 1;
                        one.told = Some(rate_bps);
                    }
                    ReservationState::Lost { .. } => {
                        shown.lost += 1;
                        one.told = None;
                    }
                    ReservationState::Refused(_) => {
                        shown.refused += 1;
                        world.machine().sends(one.leaving, one.flow, None);
                        return false;
                    }
                    ReservationState::Offer(_) => {}
                }
            }
            true
        });
    }

    /// A program has begun, which knows of none.
    pub(super) fn begun(&mut self) {
        self.classes.clear();
    }

    /// The class of each flow that leaves by an interface, as last read.
    pub(super) fn classes(&self, number: usize) -> impl Iterator<Item = (u16, &str)> {
        let all = self.classes.iter();
        all.filter_map(move |((leaving, flow), class)| (*leaving == number).then_some((*flow, &**class)))
    }

    /// What must be so of the program at any time.
    pub(super) fn check(&mut self, program: &Program) -> Result<(), String> {
        self.hear();
        let Some(speaker) = &program.speaker else {
            return Ok(());
        };
        let (mut status, mut wrong) = (RsvpStatus::default(), Vec::new());
        for _ in 0..LOOKS {
            status = speaker.status().map_err(|why| why.message)?;
            wrong = program
                .in_force
                .all()
                .iter()
                .flat_map(|managed| unlike(managed, &status))
                .collect();
            if wrong.is_empty() {
                break;
            }
        }
        if !wrong.is_empty() {
            return Err(wrong.join("; "));
        }
        for interface in &status.interfaces {
            let (Some(reserved), Some(reservable)) = (interface.reserved_bps, interface.reservable_bps)
            else {
                continue;
            };
            let number = leaves_by(&interface.name);
            let before = self.before[number];
            // A policy may have made less of what was reserved before; that stays.
            if reserved > reservable.max(before.0).max(before.1) {
                return Err(format!(
                    "{reserved} bit/s are reserved on {} of {reservable}",
                    interface.name
                ));
            }
            self.before[number] = (reserved, reservable);
        }
        self.classes.clear();
        for sender in &status.senders {
            for reservation in &sender.reservations {
                let flow = sender.flow.port.wrapping_sub(PORTS.1);
                let own = sender.flow.from_port == PORTS.0.wrapping_add(flow);
                let number = leaves_by(&reservation.interface);
                let class = reservation.class.clone().filter(|_| own);
                self.classes.extend(class.map(|class| ((number, flow), class)));
            }
        }
        Ok(())
    }

    /// Nothing befalls messages any more.
    pub(super) fn all_works(&mut self) {
        wire(&self.world.wire).works_again();
    }

    /// All has worked for a while: what was told is so.
    pub(super) fn judge(&mut self, program: &Program) -> Result<(), String> {
        self.check(program)?;
        let Some(speaker) = &program.speaker else {
            return Ok(());
        };
        let status = speaker.status().map_err(|why| why.message)?;
        self.hear();
        if wire(&self.world.wire).messages.forged > 0 {
            // Without keys anyone on a link may speak for others.
            return Ok(());
        }
        for one in &self.booked {
            let is_it = |view: &&control::reservation::SenderView| {
                (view.flow.port, view.flow.from_port) == (PORTS.1 + one.flow, PORTS.0 + one.flow)
                    && view.flow.to == host_address(one.leaving)
            };
            let sender = status.senders.iter().find(is_it);
            let mut here = sender.iter().flat_map(|sender| &sender.reservations);
            let found = here
                .find(|one_here| one_here.interface == NAMES[one.leaving])
                .map(|found| found.rate_bps);
            if found != one.told {
                return Err(format!(
                    "of flow {} to {} {:?} was told, and the router has {found:?}",
                    one.flow, NAMES[one.leaving], one.told
                ));
            }
        }
        Ok(())
    }

    /// All end in order.
    pub(super) fn end_all(&mut self) {
        self.booked.clear();
        let mut machine = self.world.machine();
        for flow in RESERVED {
            (0..2).for_each(|leaving| machine.sends(leaving, flow, None));
        }
    }

    /// Whether the node has state yet.
    pub(super) fn are_there(&self, program: &Program) -> bool {
        let status = program.speaker.as_ref().and_then(|speaker| speaker.status().ok());
        status.is_none_or(|status| !status.senders.is_empty())
    }

    /// All have ended: nothing is left of them.
    pub(super) fn are_gone(&mut self, program: &Program, router: &Router) -> Result<(), String> {
        self.check(program)?;
        let Some(speaker) = &program.speaker else {
            return Ok(());
        };
        let status = speaker.status().map_err(|why| why.message)?;
        if let Some(sender) = status.senders.first() {
            return Err(format!("all have ended, and {:?} is left", sender.flow));
        }
        for managed in program.in_force.all() {
            let laid_out = vacancies::laid_out(&managed.promised, router.registry());
            let (runs, most) = (
                managed.whole.plan.classes.len(),
                laid_out.plan.classes.len() + PLACES,
            );
            if runs > most {
                let name = &managed.policy.name;
                return Err(format!(
                    "{runs} classes and places are left in {name}, {most} at most"
                ));
            }
        }
        let recorded = speaker.recorded().map_err(|why| why.message)?;
        if let Some((said, tape)) = recorded.filter(|(said, _)| said.full_ns.is_none()) {
            signalling_again(&said, &tape, router.registry(), &mut |_| {})?;
            self.shown.again += 1;
        }
        Ok(())
    }

    pub(super) fn shown(&self) -> Reserved {
        Reserved {
            messages: wire(&self.world.wire).messages,
            ..self.shown
        }
    }
}

/// The classes of reservations in a tree.
fn reserved(plan: &TreePlan) -> BTreeSet<&str> {
    let names = plan.classes.iter().map(|class| &*class.name);
    names.filter(|name| name.starts_with(PREFIX)).collect()
}

/// In what an interface does not have the classes of its reservations, and no others.
fn unlike(managed: &InterfaceInForce, status: &RsvpStatus) -> Vec<String> {
    let name = &managed.policy.name;
    let mut wrong = Vec::new();
    let mut asked = BTreeSet::new();
    for sender in &status.senders {
        let here = sender.reservations.iter().filter(|one| one.interface == *name);
        for one in here {
            asked.extend(one.class.as_deref());
            // No more than its sender says that it sends.
            let least = one.rate_bps.min(sender.sends_bps);
            if one.class.is_some() && one.link_rate_bps < least {
                wrong.push(format!(
                    "{name}: {} bit/s of the link for {least}",
                    one.link_rate_bps
                ));
            }
        }
    }
    for (what, plan) in [
        ("is promised", &managed.promised.plan),
        ("runs", &managed.whole.plan),
    ] {
        let found = reserved(plan);
        if found != asked {
            wrong.push(format!("{name}: {asked:?} is reserved, and {found:?} {what}"));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::super::kernel::{Kernel, locked};
    use super::super::policy_file;
    use super::*;
    use control::difference::Breaking;
    use control::provenance::Provenance;
    use control::socket::Handler;
    use engine::random::Seed;
    use engine::units::{Bandwidth, Instant};

    const POLICY: &str = "version = 1\n[rsvp]\ninterfaces = [\"lan0\", \"wan0\"]\nrefresh = \"200 ms\"\n\
                          longest_refresh = \"400 ms\"\n[port]\negress = [\"lan0\", \"wan0\"]\n\
                          [interface.lan0]\nbandwidth = \"20 Mbit/s\"\ndiscipline = \"fifo\"\n\
                          [interface.wan0]\nbandwidth = \"20 Mbit/s\"\ndiscipline = \"drr\"\n\
                          reserve = { share = \"50 %\" }\n[[interface.wan0.class]]\nname = \"rest\"\ndefault = true\n";

    fn router(name: &str) -> Router {
        let file = policy_file(name);
        std::fs::write(&file, POLICY).expect("the policy's file is written");
        let begin = Instant::START + Duration::from_secs(1_000);
        let kernel = Kernel::new(begin, Bandwidth::bits_per_sec(100_000_000), 16);
        let world = World::new(kernel, Seed(7).fork("traffic").stream());
        Router::new(world, &file, 4 << 20)
    }

    /// The simulation found it: they were opened when something else changed, if it did.
    #[test]
    fn sockets_that_could_not_be_opened_are_tried_again() {
        let mut router = router("opened again");
        router.begin(false).expect("it begins");
        let errors = |router: &Router| -> Vec<Option<String>> {
            let program = router.program.as_ref().expect("it runs");
            let speaker = program.speaker.as_ref().expect("it speaks RSVP");
            let status = speaker.status().expect("it replies");
            status.interfaces.into_iter().map(|one| one.error).collect()
        };
        assert_eq!(errors(&router), [None, None]);
        let kernel = Arc::clone(&router.world.machine().kernel);
        locked(&kernel).takes_away(1, true);
        router.run(Duration::from_millis(100), false);
        // EMFILE.
        wire(&router.world.wire).errors.push_back(24);
        locked(&kernel).gives_back(1);
        router.run(Duration::from_millis(100), false);
        let told = errors(&router)[1].clone();
        assert!(told.is_some_and(|why| why.contains("cannot speak RSVP")));
        router.run(Duration::from_millis(1_500), false);
        assert_eq!(errors(&router), [None, None]);
    }

    /// All routes were looked up each second, and each answer was on the tape.
    #[test]
    fn while_an_interface_is_missing_no_routes_are_looked_up_for_it() {
        let mut router = router("missing");
        router.begin(false).expect("it begins");
        let kernel = Arc::clone(&router.world.machine().kernel);
        locked(&kernel).takes_away(1, true);
        router.run(Duration::from_millis(100), false);
        let tape = |router: &Router| {
            let program = router.program.as_ref().expect("it runs");
            let speaker = program.speaker.as_ref().expect("it speaks RSVP");
            let recorded = speaker.recorded().expect("it replies");
            recorded.expect("a tape").1
        };
        let before = tape(&router);
        router.run(Duration::from_secs(10), false);
        assert_eq!(tape(&router), before, "nothing has come to pass");
    }

    /// The simulation found it: a reservation that came meanwhile kept it in force for ever.
    #[test]
    fn what_nobody_confirms_is_undone_once_reservations_leave_room() {
        let mut router = router("undone later");
        // Its rates cannot be more in sum than what they are in.
        let narrow = POLICY
            .replace("\"drr\"", "\"cbq\"")
            .replace("\"rest\"", "\"rest\"\nrate = \"1 Mbit/s\"");
        std::fs::write(&router.file, &narrow).expect("the policy's file is written");
        router.begin(false).expect("it begins");
        let wider = narrow.replace("50 %", "90 %");
        std::fs::write(&router.file, wider).expect("the policy's file is written");
        let within = Some(std::time::Duration::from_millis(500));
        let program = router.program.as_ref().expect("it runs");
        let applied = program.service.apply(
            &router.file,
            within,
            Breaking::Refused,
            Provenance::default(),
            &|| false,
        );
        applied.expect("it is in force");
        let host = router
            .world
            .stations
            .begin_host(&router.world, 0, Duration::from_millis(200));
        let host = host.expect("it begins");
        let (sender, told) = mpsc::channel();
        let wanted = ReservationRequest {
            to: host_address(1).into(),
            port: 5_010,
            protocol: 17,
            from: Some(host_address(0).into()),
            from_port: 2_010,
            rate_bps: 15_000_000,
            burst_bytes: 0,
            packet_bytes: 500,
            delay_us: None,
        };
        let _receiver = router
            .world
            .stations
            .begin_host(&router.world, 1, Duration::from_millis(200));
        let lease = host.reserve(&wanted, sender).expect("it is asked for");
        router.run(Duration::from_secs(2), false);
        let is_reserved = |state: &ReservationState| matches!(state, ReservationState::Reserved { .. });
        assert!(told.try_iter().any(|state| is_reserved(&state)));
        let share = |router: &Router| {
            let program = router.program.as_ref().expect("it runs");
            let text = program.changes.policy_text().expect("a policy");
            text.contains("50 %")
        };
        assert!(!share(&router), "what is reserved does not fit into it");
        drop(lease);
        router.run(Duration::from_secs(30), false);
        assert!(!share(&router), "it waits for a minute");
        router.run(Duration::from_secs(31), false);
        assert!(share(&router), "nobody has confirmed the other");
    }
}
