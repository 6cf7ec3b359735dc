//! What a packet costs the packet loop in instructions: from port to port through a `drr` of twenty
//! classes, shaped and not, while nothing is recorded, with a tape, and while waits are recorded.
//!
//! `cargo xtask instructions` runs it under callgrind and compares it with its table. A turn takes
//! a batch of frames and sends it; the ports only count.
#![expect(clippy::print_stdout, reason = "a bench talks")]

mod counted;

use counted::{BATCH, Rig, Watched};
use engine::units::Bandwidth;

/// Turns of a count: some two thousand frames, as the engine's rows have.
const TURNS: u32 = 64;

fn main() {
    for (link, rate) in [("unshaped", None), ("shaped", Some(Bandwidth::gbit(100)))] {
        for watched in Watched::ALL {
            let mut rig = Rig::new(rate, watched);
            counted::counted(TURNS, &mut || rig.turn());
            counted::counted(TURNS, &mut || rig.turn());
            println!("{} packet loop, {link}, {}, 20", TURNS * BATCH, watched.shown());
        }
    }
}
