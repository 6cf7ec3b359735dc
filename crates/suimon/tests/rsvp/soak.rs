//! A soak: a router that runs for long under load, while its policy changes, hosts reserve, and
//! the programs around it are killed. At the end of each round it has the descriptors that it had,
//! and its memory does not grow.
//!
//! Three rounds; `SUIMON_SOAK=60` makes rounds for 60 minutes, by the seed `SUIMON_SOAK_SEED`, and
//! `cargo xtask soak` writes what it said.

use crate::asked::number;
use crate::holdings;
use crate::rig::{LIFETIME, LONG, Plan, Rig, SLACK, in_turn, until};
use engine::random::{Rng, Seed};
use lab::Running;
use measure::confidence::StraightLine;
use std::time::{Duration, Instant};

/// What r1's memory may grow by, in KiB, over all rounds but the first quarter, by the line that
/// fits best, less its interval of 95 %.
const GROWTH: f64 = 256.0;
/// What is kept of RSVP's messages is soon full, and begins anew in most of the rounds: the usual
/// 8 MiB and the policies that they name would grow for an hour.
const KEPT: &str = "kept_messages = \"64 KiB\"";
/// How a command ends that did what it was asked, and finds that what runs is not in force.
const NOT_ENFORCED: i32 = 5;
/// So few rounds tell nothing of a slope.
const FEW: usize = 20;
/// Of the policy's class, and of those that come and go.
const PORTS: std::ops::Range<u16> = 5000..5008;

/// What happens around r1 in a round, besides changes and reservations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    None,
    /// The next router is killed, and started again.
    NextRouter,
    /// So is the receiver's program.
    Receiver,
    /// A program that reserves is killed.
    Sender,
    /// The interface that r1 manages goes down and up.
    Flap,
}

const FAULTS: [Fault; 5] = [
    Fault::None,
    Fault::NextRouter,
    Fault::Receiver,
    Fault::Sender,
    Fault::Flap,
];

#[test]
fn a_router_that_runs_for_long_among_changes_reservations_and_kills_does_not_grow() {
    let plan = Plan {
        limit: Duration::from_secs(6 * 3_600),
        routers: [KEPT; 2],
        ..Plan::default()
    };
    in_turn(|| lab::isolated(|| Rig::start(&plan).into_iter().for_each(soak)));
}

fn soak(mut rig: Rig) {
    let minutes = number("SUIMON_SOAK");
    let mut random = Seed(number("SUIMON_SOAK_SEED").unwrap_or(1)).stream();
    let begin = Instant::now();
    let goes_on = |rounds: usize| match minutes {
        None => rounds < 3,
        Some(minutes) => begin.elapsed() < Duration::from_secs(60 * minutes),
    };
    let mut soaked = Soaked::default();
    // What is used once stays.
    round(&mut rig, Fault::Sender, &mut random, &mut soaked);
    let id = rig.running[1].as_ref().expect("it runs").id();
    // Connections of those that asked are closed.
    std::thread::sleep(Duration::from_secs(1));
    let (descriptors, first) = (holdings::of(id).0, holdings::descriptors(id));
    let mut memory = Vec::new();
    while goes_on(memory.len()) {
        let fault = FAULTS[random.below(FAULTS.len() as u64) as usize];
        round(&mut rig, fault, &mut random, &mut soaked);
        let patience = Instant::now() + LONG;
        while holdings::of(id).0 != descriptors {
            let now = holdings::descriptors(id);
            assert!(Instant::now() < patience, "{fault:?}: {now:?}, before {first:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        memory.push(holdings::of(id).1 as f64);
        if memory.len().is_multiple_of(100) {
            eprintln!("{:?}: {soaked:?}, {:?} KiB", begin.elapsed(), memory.last());
        }
    }
    tell(begin.elapsed(), &soaked, descriptors, &memory);
}

/// What was done, in numbers.
#[derive(Debug, Default)]
struct Soaked {
    rounds: u64,
    changes: u64,
    reservations: u64,
    kills: u64,
    flaps: u64,
    packets: u64,
    /// Changes that said that the kernel was forwarding.
    not_enforced: u64,
}

fn tell(span: Duration, soaked: &Soaked, descriptors: usize, memory: &[f64]) {
    let later = &memory[memory.len() / 4..];
    let line = StraightLine::through(later);
    let least = later.iter().copied().fold(f64::INFINITY, f64::min);
    let most = later.iter().copied().fold(0.0, f64::max);
    eprintln!(
        "soak: {} rounds in {} s: {} changes, {} reservations, {} kills, {} interfaces down and up, {} packets; {} times the kernel was found to forward",
        soaked.rounds,
        span.as_secs(),
        soaked.changes,
        soaked.reservations,
        soaked.kills,
        soaked.flaps,
        soaked.packets,
        soaked.not_enforced
    );
    eprintln!(
        "soak: {descriptors} descriptors after each; {:.0} KiB of its own ({least:.0} to {most:.0}), {:+.3} ± {:.3} KiB a round (95 %) over the last {}",
        line.mean, line.slope, line.within, line.count
    );
    if memory.len() >= FEW {
        assert!(line.sure_growth() <= GROWTH, "it grows: {memory:?}");
    }
}

/// Reservations under load, changes meanwhile, and a fault; in the end nothing is reserved.
fn round(rig: &mut Rig, fault: Fault, random: &mut Rng, soaked: &mut Soaked) {
    let before = rig.sent("r1", "rest").expect("its class");
    let load = rig.udp(5009, 2_000, Duration::from_millis(1_500));
    let mut held: Vec<Running> = Vec::new();
    for port in PORTS.take(1 + random.below(4) as usize) {
        let rate = format!("{}k", 500 + random.below(3_000));
        held.push(rig.hold(&format!("10.0.3.2:{port}"), &rate));
    }
    until("all is reserved", LONG + SLACK, || {
        let mut ports = PORTS.take(held.len());
        ports.all(|port| rig.reserved("r1", port).len() == 1)
    });
    soaked.reservations += held.len() as u64;
    changes(rig, random, soaked);
    match fault {
        Fault::None => {}
        Fault::NextRouter => killed(rig, 2, soaked),
        Fault::Receiver => killed(rig, 3, soaked),
        Fault::Sender => {
            let sender = held.pop().expect("one at least");
            sender.kill().expect("its end");
            soaked.kills += 1;
        }
        Fault::Flap => {
            let flap = |n: &mut lab::netlink::LabNetlink| {
                n.down("wan0")?;
                n.up("wan0")
            };
            rig.hosts[1].netlink(flap).expect("done");
            // The kernel forgets the routes of an interface that is down.
            rig.hosts[1]
                .default_route("10.0.2.2".parse().expect("an address"))
                .expect("a route");
            soaked.flaps += 1;
        }
    }
    drop(load.finish());
    for running in &held {
        crate::rig::kill(running.id(), "TERM");
    }
    held.into_iter()
        .for_each(|running| drop(running.wait().expect("its end")));
    until("nothing is reserved any more", LIFETIME + LONG, || {
        rig.classes("r1").is_empty() && PORTS.into_iter().all(|port| rig.reserved("r1", port).is_empty())
    });
    soaked.rounds += 1;
    soaked.packets += rig.sent("r1", "rest").expect("its class").saturating_sub(before);
}

/// A node's program is killed, and started again.
fn killed(rig: &mut Rig, at: usize, soaked: &mut Soaked) {
    drop(rig.running[at].take().expect("it runs").kill().expect("its end"));
    assert!(rig.launch(at), "it ran before");
    soaked.kills += 1;
}

/// Changes of r1's policy, which in the end is what it was.
fn changes(rig: &Rig, random: &mut Rng, soaked: &mut Soaked) {
    let socket = rig.socket(1);
    let mut ask = |words: &[&str]| {
        let output = rig.output("r1", &[words, &["--socket", &socket]].concat());
        // A machine that is busy may have held the packet loop up: then the kernel forwarded, and
        // whoever asks is told.
        let is_told = output.status.code() == Some(NOT_ENFORCED) && output.out.contains("NOT ENFORCED");
        assert!(output.status.success() || is_told, "{words:?}: {output:?}");
        soaked.not_enforced += u64::from(is_told);
        soaked.changes += 1;
    };
    let weight = format!("weight={}", 1 + random.below(9));
    ask(&[
        "class",
        "add",
        "wan0",
        "guests",
        &weight,
        "--filter",
        "protocol=tcp",
    ]);
    ask(&[
        "set",
        "wan0",
        "guests",
        &format!("weight={}", 1 + random.below(9)),
    ]);
    ask(&["set", "wan0", "bandwidth=45Mbit/s"]);
    if random.below(2) == 0 {
        ask(&["disable", "wan0"]);
        ask(&["enable", "wan0"]);
    }
    if random.below(2) == 0 {
        ask(&["rollback"]);
    }
    let file = rig.files.join("r1.toml").display().to_string();
    ask(&["apply", &file]);
}
