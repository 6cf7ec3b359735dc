//! A whole change under a standing queue of each kind: the backlog moves in pieces, packets arrive
//! and leave meanwhile, no flow overtakes itself, nothing is lost, and the tape of it is done again
//! to the nanosecond.

use super::{
    Done, Drawn, FLOWS, Live, STANDING, Step, Trial, again, keeps_order, key, shortened, standing, whole,
};
use engine::packet::Ecn;
use engine::random::Seed;
use engine::tree::Registry;
use engine::units::{Bytes, Duration, Instant};
use netio::handle::{Adopted, PathView};
use netio::pool::Offload;
use netio::replay::shortened::ShortEvents;
use netio::worker::PathId;
use sim::capture::headers;
use sim::packet::{Payload, SimPacket};

/// Packets that move between two batches at most.
const PIECE: u64 = 256;
/// Packets that arrive before the change; and in each turn of the loop while it is under way.
const FLOOD: u64 = 700;
const MEANWHILE: u64 = 3;
/// The time of a turn.
const TURN: Duration = Duration::from_micros(40);

/// Traffic of some flows, each packet with its number.
struct Flood {
    next: u64,
}

impl Flood {
    fn arrive(&mut self, live: &mut Live) {
        let number = self.next;
        self.next += 1;
        let flow = (number % u64::from(FLOWS)) as u16;
        let ecn = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1][usize::from(flow) % 3];
        let packet = SimPacket {
            ecn,
            ..SimPacket::new(Bytes::new(300), Payload::Datagram(0))
        };
        let mut bytes = Vec::new();
        headers::write(&mut bytes, &key(flow), &packet);
        bytes.resize(300, 0);
        bytes[18..20].copy_from_slice(&(number as u16).to_be_bytes());
        live.input.send(&bytes, Offload::default());
    }
}

/// What waits for its place in the tree.
fn waiting(live: &mut Live) -> u64 {
    live.worker.show(live.now).paths[0].bypass.packets
}

/// Changes to the second policy, in turns that take time. The sizes of the pieces.
fn change(live: &mut Live, trial: &Trial, seed: Seed, flood: &mut Flood) -> (Adopted, Vec<u64>) {
    let retune = trial.policies[1].retune(&trial.policies[0], seed);
    let (handle, mut pieces) = (live.handle.clone(), Vec::new());
    let adopted = std::thread::scope(|scope| {
        let asked = scope.spawn(move || handle.retune(PathId(0), retune));
        let held = live.queued();
        let (mut before, mut begun) = (held, false);
        while !asked.is_finished() {
            // Before it begins and after its end time stands still: how long it is prepared, and
            // when the answer is heard, is another thread's.
            let goes_on = begun && before > 0;
            if goes_on {
                live.now = live.now + TURN;
                live.port.with(|port| port.now = live.now);
                (0..MEANWHILE).for_each(|_| flood.arrive(live));
                before += MEANWHILE;
            }
            let _ = live.worker.turn_at(live.now);
            let left = waiting(live);
            if goes_on || left > 0 {
                pieces.push(before - left);
                (begun, before) = (true, left);
            }
        }
        asked.join().expect("a thread").expect("an answer")
    });
    (adopted, pieces)
}

fn run(registry: &Registry, tables: [&str; 2], seed: Seed) -> (Trial, Done, Adopted, Vec<u64>) {
    let policies: Vec<Drawn> = tables.iter().map(|table| standing(registry, table)).collect();
    let trial = Trial {
        paced: false,
        policies,
        steps: Vec::<(Instant, Step)>::new(),
        spins: 0,
    };
    let mut live = Live::new(&trial, seed);
    let mut flood = Flood { next: 0 };
    live.settle(Instant::START + Duration::from_millis(1));
    for number in 0..FLOOD {
        flood.arrive(&mut live);
        if number % 32 == 31 {
            let now = live.now + Duration::from_micros(1);
            live.settle(now);
        }
    }
    let now = live.now + Duration::from_micros(1);
    live.settle(now);
    let own = seed.fork("change");
    let (adopted, pieces) = change(&mut live, &trial, own, &mut flood);
    let now = live.now;
    live.settle(now);
    let end = live.now + Duration::from_secs(20);
    live.run_until(end);
    let done = Done {
        tape: live.written(),
        left: live.port.with(|port| std::mem::take(&mut port.left)),
        view: live.worker.show(end).paths.remove(0),
        changes: vec![(0, 1, own)],
        end,
    };
    (trial, done, adopted, pieces)
}

#[test]
fn a_backlog_moves_into_a_tree_of_any_kind_in_pieces_and_its_tape_is_done_again_to_the_nanosecond() {
    let registry = Registry::builtin();
    let kinds = STANDING.len();
    let (mut moved, mut several) = (0, 0);
    for (number, former) in STANDING.into_iter().enumerate() {
        for other in [1, 4, 9, 13] {
            let new = STANDING[(number + other) % kinds];
            let names = format!("{former:.40} to {new:.40}");
            let seed = Seed(8).fork(&names);
            let (trial, done, adopted, pieces) = run(&registry, [former, new], seed);
            assert!(matches!(adopted, Adopted::Rebuilt { .. }), "{names}: {adopted:?}");
            assert!(
                pieces.iter().all(|piece| *piece <= PIECE),
                "{names}: pieces of {pieces:?} packets"
            );
            moved += pieces.iter().sum::<u64>();
            several += u64::from(pieces.len() > 2);
            let PathView { totals, .. } = &done.view;
            assert_eq!(
                totals.offered.packets,
                totals.sent.packets + totals.dropped.packets,
                "{names}"
            );
            assert_eq!(totals.sent.packets as usize, done.left.len(), "{names}");
            keeps_order(&done.left, &names);
            let played = again(&trial, seed, &done, whole(&done.tape), 0);
            assert!(
                played.left[..] == done.left[..],
                "{names}: other packets, or at other times"
            );
            let view = played.view.expect("it began");
            assert_eq!(view.totals, done.view.totals, "{names}");
            let short = shortened(&done.tape, 40);
            let in_short = ShortEvents::new(&short).map(|event| event.expect("whole"));
            let short = again(&trial, seed, &done, in_short, 0);
            assert!(
                short.packets == played.packets,
                "{names}: other packets in short form"
            );
        }
    }
    // Most kinds hold all of the flood.
    let changes = kinds as u64 * 4;
    eprintln!("{changes} changes, {several} of them in three pieces or more, {moved} packets moved");
    assert!(moved > changes * FLOOD / 4, "{moved} in {changes} changes");
    assert!(
        several > changes / 4,
        "{several} of {changes} took three pieces or more"
    );
}
