//! A node's tape done again, and what is found out where it is not as it was. That whatever happens
//! is done again is held in [`crate::simulation`].

use crate::rig::{
    A, B, Kept, NOT_KEPT, Network, R1, R2, SECOND, TestAdmission, is_done_again, node, receiver, sender,
    session,
};
use engine::random::Seed;
use engine::units::{Bandwidth, Instant};
use rsvp::tape::again::{NodeStep, NotAgain, again};
use std::collections::BTreeSet;

fn done(bytes: &[u8], capacity: Bandwidth) -> Result<Vec<String>, NotAgain> {
    let mut steps = Vec::new();
    let mut seen = |_: Instant, step: NodeStep<'_>| {
        steps.push(match step {
            NodeStep::Heard(..) => "heard".to_owned(),
            NodeStep::Asked(_) => "asked".to_owned(),
            NodeStep::Ended(_) => "ended".to_owned(),
            NodeStep::Sent(_) => "sent".to_owned(),
            NodeStep::Told(_) => "told".to_owned(),
            NodeStep::Installed(..) => "installed".to_owned(),
        });
    };
    again(bytes, |_| TestAdmission::new(capacity), &mut seen)?;
    Ok(steps)
}

/// A reservation made, refreshed, refused and released, by a router and by the host that sends.
fn taped() -> [Vec<u8>; 2] {
    let mut network = Network::new(Bandwidth::mbit(10), 7);
    network.reserve(5_000, Bandwidth::mbit(6));
    network.run(SECOND.times(5));
    network.reserve(5_001, Bandwidth::mbit(6));
    network.run(SECOND.times(5));
    [A, R1].map(|at| {
        is_done_again(&network.nodes[at]);
        network.nodes[at].tape().taped().expect("a tape").bytes
    })
}

#[test]
fn what_was_heard_and_asked_leads_to_the_same_again() {
    let [host, router] = taped();
    let capacity = Bandwidth::mbit(10);
    let of = |bytes: &[u8], what: &str| {
        let steps = done(bytes, capacity).expect("it is done again");
        steps.iter().filter(|step| *step == what).count()
    };
    assert_eq!(of(&host, "asked"), 2, "two senders");
    assert!(of(&host, "told") >= 1 && of(&router, "sent") > 10 && of(&router, "heard") > 10);
    assert_eq!(of(&router, "asked"), 0);
}

/// One that admits less, draws other random numbers, or misses a message does otherwise.
#[test]
fn what_is_not_as_it_was_is_found_out() {
    let [_, router] = taped();
    let capacity = Bandwidth::mbit(10);
    let refused = |bytes: &[u8], capacity| done(bytes, capacity).expect_err("it differs").why;
    refused(&router, Bandwidth::mbit(5));
    // The seed is the first field behind kind, time and length.
    let mut other = router.clone();
    other[13] ^= 1;
    refused(&other, capacity);
    for end in [0, 5, 40, router.len() - 1] {
        assert_eq!(refused(&router[..end], capacity), "the tape is damaged", "{end}");
    }
    // Without the first message that was heard.
    let mut at = 0;
    let length = |at: usize| {
        let bytes: [u8; 4] = router[at + 9..at + 13].try_into().expect("four");
        13 + u32::from_le_bytes(bytes) as usize
    };
    while router[at] != 1 {
        at += length(at);
    }
    let without = [&router[..at], &router[at + length(at)..]].concat();
    refused(&without, capacity);
}

#[test]
fn whatever_applications_ask_and_end_is_asked_and_ended_again() {
    let mut network = Network::new(Bandwidth::mbit(10), 7);
    network.reserve(5_000, Bandwidth::mbit(6));
    network.reroute(&[], &BTreeSet::new());
    network.run(SECOND.times(3));
    let now = network.now;
    network.nodes[R2].resynchronise(now, 0);
    network.nodes[B].release(now, receiver(5_000), &session());
    network.run(SECOND);
    let now = network.now;
    network.nodes[A].remove_sender(now, &session(), sender(5_000));
    network.run(SECOND);
    assert_eq!(network.senders(), [0; 4]);
    for at in [A, R1, R2, B] {
        is_done_again(&network.nodes[at]);
        let taped = network.nodes[at].tape().taped().expect("a tape");
        let steps = done(&taped.bytes, Bandwidth::mbit(10)).expect("it is done again");
        let of_applications: Vec<&str> = steps
            .iter()
            .map(String::as_str)
            .filter(|step| ["asked", "ended"].contains(step))
            .collect();
        let expected: &[&str] = if [A, B].contains(&at) {
            &["asked", "ended"]
        } else {
            &[]
        };
        assert_eq!(of_applications, expected, "node {at}");
    }
}

/// The entries of a tape: where each begins, and its kind.
fn entries(tape: &[u8]) -> Vec<(usize, u8)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tape.len() {
        found.push((at, tape[at]));
        let length: [u8; 4] = tape[at + 9..at + 13].try_into().expect("four");
        at += 13 + u32::from_le_bytes(length) as usize;
    }
    found
}

#[test]
fn a_message_or_an_upcall_that_is_not_on_the_tape_is_found_out() {
    const SENT: u8 = 12;
    const UPCALL: u8 = 13;
    let mut network = Network::new(Bandwidth::mbit(10), 7);
    network.reserve(5_000, Bandwidth::mbit(6));
    network.run(SECOND);
    let mut cut = BTreeSet::new();
    for at in [A, B] {
        let tape = network.nodes[at].tape();
        tape.turn_ended();
        let bytes = tape.taped().expect("a tape").bytes;
        for (end, kind) in entries(&bytes) {
            if [SENT, UPCALL].contains(&kind) {
                let why = done(&bytes[..end], Bandwidth::mbit(10))
                    .expect_err("it does more")
                    .why;
                assert_eq!(why, "it does more than it did", "{at}: {end}");
                cut.insert(kind);
            }
        }
    }
    assert_eq!(cut, BTreeSet::from([SENT, UPCALL]));
}

#[test]
fn a_budget_is_entered_again_under_the_number_under_which_the_host_kept_it() {
    let capacity = Bandwidth::mbit(10);
    let tape = |budgets: &[(u32, Option<u32>, u32)]| {
        let node = node(R1, capacity, Seed(1));
        for (interface, number, mtu) in budgets {
            node.tape().budget(*interface, *number, *mtu);
        }
        node.tape().turn_ended();
        node.tape().taped().expect("a tape").bytes
    };
    let entered = |bytes: &[u8]| {
        let kept = Kept::default();
        let made = |_| {
            let mut admission = TestAdmission::new(capacity);
            admission.kept = Some(kept.clone());
            admission
        };
        let done = again(bytes, made, &mut |_, _| {}).map_err(|error| error.why);
        (done, kept.take())
    };
    let kept = [
        (1, Some(NOT_KEPT - 1), 1_400),
        (0, None, 1_500),
        (1, Some(0), 9_000),
    ];
    assert_eq!(entered(&tape(&kept)), (Ok(()), kept.to_vec()));
    let lost = [(1, Some(NOT_KEPT), 1_400)];
    assert_eq!(entered(&tape(&lost)), (Err("the tape is damaged"), lost.to_vec()));
}
