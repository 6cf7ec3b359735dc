//! A node's tape done again, and what is found out where it is not as it was. That whatever happens
//! is done again is held in [`crate::simulation`].

use crate::rig::{A, Network, R1, SECOND, TestAdmission, is_done_again};
use engine::units::{Bandwidth, Instant};
use rsvp::tape::again::{NodeStep, NotAgain, again};

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
