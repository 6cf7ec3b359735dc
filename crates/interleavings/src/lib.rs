//! Where two threads of `netio`, or one and the kernel, meet without waiting for each other: its
//! own files, compiled with the locks and atomics of [loom](https://docs.rs/loom) in place of the
//! standard library's. Each function here is a model: loom does what its threads do in every
//! order, and lets each load return every value that the memory model of C11 permits.
//!
//! | file of `netio` | who meets |
//! |---|---|
//! | `ports/af_xdp/ring.rs` | a worker and the kernel, whose part the other end of a ring plays |
//! | `spares.rs` | a packet loop, and who inspects it |
//! | `nat/table.rs` | packet loops, and the thread that hears of translated connections |
//! | `bpf/heartbeat.rs` | a worker and the kernel's programs, whose loads `the_program` does |
//!
//! The pool of frames has no model: each belongs to one worker.

#![expect(
    dead_code,
    reason = "netio uses what the models do not, and its own tests have the rest"
)]

mod doubles;

use doubles::{clock, mapping, sync, sys, syscall};

#[path = "../../netio/src/bpf/heartbeat.rs"]
mod heartbeat;
#[path = "../../netio/src/ports/af_xdp/ring.rs"]
mod ring;
#[path = "../../netio/src/spares.rs"]
mod spares;
#[path = "../../netio/src/nat/table.rs"]
mod table;

use engine::header::{Family, FlowKey};
use engine::random::Seed;
use engine::units::{Duration, Instant};
use heartbeat::{Heartbeat, Word};
use loom::sync::atomic::Ordering::Acquire;
use loom::sync::{Arc, Notify};
use loom::thread;
use mapping::Mapping;
use ring::{Consumer, Producer, RingLayout};
use spares::{Spares, Taker};
use table::NatTable;

/// Every entry of a ring arrives once, whole and in order, through a ring that is full in between.
pub fn entries_of_a_ring() {
    const ENTRIES: u64 = 3;
    const LAYOUT: RingLayout = RingLayout {
        producer: 0,
        consumer: 4,
        flags: 8,
        entries: 16,
    };
    loom::model(|| {
        let memory = Mapping::anonymous(16 + 2 * 16).expect("memory");
        let mut to = Producer::<2>::new(memory.clone(), LAYOUT, 2).expect("a ring");
        let mut from = Consumer::<2>::new(memory, LAYOUT, 2).expect("a ring");
        let writer = thread::spawn(move || {
            for n in 1..=ENTRIES {
                while !to.push([n, !n]) {
                    thread::yield_now();
                }
                to.publish();
            }
        });
        for n in 1..=ENTRIES {
            let entry = loop {
                match from.pop() {
                    Some(entry) => break entry,
                    None => thread::yield_now(),
                }
            };
            assert_eq!(entry, [n, !n]);
            from.release();
        }
        assert_eq!(from.pop(), None);
        writer.join().expect("the writer");
    });
}

/// Who takes gets all that is given and brought, or is rung for: it sleeps beside none.
pub fn spares_that_are_taken() {
    loom::model(|| {
        let spares = Arc::new(Spares::new(vec![0_u8]));
        let bell = Arc::new(Notify::new());
        let first = spares.take().expect("the first");
        let requester = {
            let (spares, bell) = (Arc::clone(&spares), Arc::clone(&bell));
            let ring = move |taker| {
                if taker == Taker::Waits {
                    bell.notify();
                }
            };
            thread::spawn(move || {
                ring(spares.bring(2, || 1));
                ring(spares.give(first));
            })
        };
        let mut taken = 0;
        while taken < 2 {
            match spares.take() {
                Some(_) => taken += 1,
                // Where nobody rings, loom finds that all threads wait.
                None => bell.wait(),
            }
        }
        requester.join().expect("who inspects");
        assert_eq!(spares.take(), None);
    });
}

/// A packet loop that looks a connection up sees the whole address of its own host or none, while
/// the entry is taken from it and given to another connection.
pub fn hosts_of_connections() {
    let key = |number: u16| FlowKey {
        source: 0xc000_0201,
        destination: 0xc633_6401,
        family: Family::V4,
        protocol: 6,
        source_port: Some(number),
        destination_port: Some(443),
        ..FlowKey::default()
    };
    let host = |number: u16| u128::from(number) << 64 | u128::from(number);
    loom::model(move || {
        // One row, so that both connections have the same place.
        let table = Arc::new(NatTable::with_places(8, Seed(1)));
        let reader = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                for number in [2, 1] {
                    let found = table.host(&key(number));
                    assert!(found.is_none_or(|it| it == host(number)), "{found:?}");
                }
            })
        };
        let place = table.put(&key(1), host(1));
        table.remove(&key(1));
        assert_eq!(table.put(&key(2), host(2)), place);
        reader.join().expect("the reader");
        assert_eq!(table.host(&key(2)), Some(host(2)));
    });
}

/// What the kernel's programs do with a frame that arrived then: whether they take it. They load
/// when it is alive first, and in order, as processors of x86 do with all loads.
fn the_program(cell: &Mapping, now: Instant, arrived: u64) -> bool {
    let load = |word: Word| cell.words()[word as usize].load(Acquire);
    now.nanos() < load(Word::AliveUntil) && load(Word::Since) <= arrived
}

/// The first beats after a lapse: a frame that the programs take is one that the worker does not
/// discard.
pub fn frames_at_the_first_beats() {
    let at = |ms: u64| Instant::START + Duration::from_millis(ms);
    for arrived in [0, 2].map(|ms| sys::realtime() + Duration::from_millis(ms).nanos()) {
        loom::model(move || {
            let heartbeat = Heartbeat::new(Duration::from_millis(20)).expect("a cell");
            let cell = mapping::of_the_kernel();
            let program = thread::spawn(move || the_program(&cell, at(1_002), arrived));
            heartbeat.beat(at(1_000));
            heartbeat.beat(at(1_001));
            let kept = heartbeat.taken(at(1_002)).contains(&arrived);
            let taken = program.join().expect("the program");
            assert!(!taken || kept, "a frame of {arrived} went neither way");
        });
    }
}
