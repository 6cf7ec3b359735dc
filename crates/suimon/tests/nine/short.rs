//! Short connections: what a program may have adds up over all that it opens.

use super::rig::{CUBIC, Rig};
use super::until::until;
use super::{FILES, NOBODY, PATIENCE};
use std::time::{Duration, Instant};

/// The rates at the interface in Mbit/s, in this many spans of 5 s; it had received so many bytes.
fn rates(rig: &Rig, mut received: u64, spans: usize) -> Vec<f64> {
    let rate = |_| {
        let (before, begin) = (received, Instant::now());
        std::thread::sleep(Duration::from_secs(5));
        received = rig.received();
        (received - before) as f64 * 8e-6 / begin.elapsed().as_secs_f64()
    };
    (0..spans).map(rate).collect()
}

#[test]
fn short_connections_stay_within_the_cap() {
    lab::isolated_as(NOBODY, FILES, || {
        for mbit in [10, 100] {
            for at_once in [1, 8] {
                let rig = Rig::new(mbit, 256 << 10);
                let script = Rig::objects(CUBIC, at_once);
                let received = rig.received();
                let _nine = rig.nine(&["--cap", "2Mbit/s", "--", "bash", "-c", &script]);
                assert!(until(PATIENCE, || rig.sent("object") > 0));
                let rates = rates(&rig, received, 3);
                eprintln!("{mbit} Mbit/s, {at_once} at once: {rates:.2?}");
                // Each is counted, though none is open for long.
                let total = rig.top()["members"][0]["programs"][0].clone();
                assert!(total["connections"].as_u64() > Some(at_once as u64), "{total}");
                // A slow machine carries less. Formerly 4.2 to 18 Mbit/s passed, and at first whole
                // objects, since connections began limited only after the first order: 3.1.
                assert!(
                    rates[1..].iter().any(|rate| *rate < 2.5) && rates[0] < 3.0,
                    "{rates:.2?}"
                );
            }
        }
    });
}
