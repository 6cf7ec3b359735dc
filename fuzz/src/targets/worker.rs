//! The packet loop between ports in memory: hostile frames, failing links, and trees that are
//! exchanged while packets are queued.
//!
//! The loop runs in this thread, at times that the input says. Requests of a handle wait for their
//! answer, so another thread makes them.

use super::FuzzTarget;
use crate::mutate::InputShape;
use crate::policies;
use arbitrary::{Result, Unstructured};
use engine::classify::{Classifier, Filter, Ports};
use engine::packet::ClassId;
use engine::random::Seed;
use engine::tree::{Registry, TreePlan};
use engine::units::{Bandwidth, Duration, Instant};
use netio::classify::ByFilters;
use netio::handle::{Handle, Retune};
use netio::pool::{Offload, Slots};
use netio::port::Capabilities;
use netio::ports::memory::{LinkState, Memory};
use netio::vnet;
use netio::worker::{PathId, PathSpec, Settings, Worker};

pub(super) const WORKER: FuzzTarget = FuzzTarget {
    name: "worker",
    about: "any frames and offload headers through the packet loop, links that fail: all accounted for, no slot lost",
    shape: InputShape::Choices(6_000),
    tree: &[],
    make: || {
        Box::new(|input| {
            let _ = judge(&mut Unstructured::new(input), Changes::None);
        })
    },
};

pub(super) const CHANGES: FuzzTarget = FuzzTarget {
    name: "changes",
    about: "the same while trees of random disciplines replace each other and policies are switched off and on",
    shape: InputShape::Choices(3_000),
    tree: &[],
    make: || {
        Box::new(|input| {
            let _ = judge(&mut Unstructured::new(input), Changes::Trees);
        })
    },
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Changes {
    None,
    Trees,
}

/// Frames of usual kinds, to be altered.
fn frame(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let len = match u.int_in_range(0..=7)? {
        0 => u.int_in_range(0..=40)?,
        1 => u.int_in_range(1_480..=2_100)?,
        2 => u.int_in_range(2_000..=9_000)?,
        _ => u.int_in_range(60..=400)?,
    };
    let mut frame = vec![0_u8; len];
    let v6 = u.arbitrary()?;
    let head: Vec<u8> = match v6 {
        true => [
            &[0x86, 0xdd, 0x60, 0, 0, 0][..],
            &(len.saturating_sub(54) as u16).to_be_bytes(),
            &[6, 64],
        ]
        .concat(),
        false => [
            &[8, 0, 0x45, 2][..],
            &(len.saturating_sub(14) as u16).to_be_bytes(),
            &[0, 0, 0, 0, 64, 6],
        ]
        .concat(),
    };
    let end = (12 + head.len()).min(len);
    frame[12.min(len)..end].copy_from_slice(&head[..end - 12.min(len)]);
    if let Some(field) = frame.get_mut(if v6 { 66 } else { 46 }) {
        *field = 5 << 4;
    }
    for _ in 0..u.int_in_range(0..=6)? {
        let at = u.int_in_range(0..=80)?;
        let value = u.arbitrary()?;
        if let Some(byte) = frame.get_mut(at) {
            *byte = value;
        }
    }
    Ok(frame)
}

fn offload(u: &mut Unstructured<'_>) -> Result<Offload> {
    if u.ratio(2, 3)? {
        return Ok(Offload::default());
    }
    let mut header = [0; vnet::LEN];
    for byte in &mut header {
        *byte = [0, 1, 3, 4, 5, 6, 16, 34, 54, 80, 255, 2][u.int_in_range(0..=11)?];
    }
    Ok(vnet::decode(header).unwrap_or_default())
}

/// A random tree of a kind of the choice.
fn plan(u: &mut Unstructured<'_>, registry: &Registry) -> Result<TreePlan> {
    let kinds: Vec<_> = registry.kinds().collect();
    let kind = *u.choose(&kinds)?;
    Ok(policies::draw(registry, kind, None, Seed(u.arbitrary::<u16>()?.into())).plan)
}

/// Ports say the class, which a later tree may not have.
fn classify(plan: &TreePlan, seed: u64) -> ByFilters {
    let leaves = plan.classes.iter().zip(0..).filter(|(class, _)| class.leaf);
    let filters = leaves.map(|(_, class)| Filter {
        destination_port: Ports::new(class as u16 * 20, class as u16 * 20 + 19),
        ..Filter::new(ClassId(class))
    });
    ByFilters::new(Classifier::new(filters, Seed(seed)), plan, Seed(seed))
}

struct Bench {
    worker: Worker,
    handle: Handle,
    path: PathId,
    now: Instant,
    ends: [Memory; 2],
    sent: u64,
    got: u64,
}

fn bench(u: &mut Unstructured<'_>, registry: &Registry) -> Result<Bench> {
    let slots = Slots {
        small: u.int_in_range(4..=64)?,
        big: u.int_in_range(1..=8)?,
    };
    let settings = Settings {
        slots,
        ..Settings::default()
    };
    let (mut worker, handle) = Worker::new(settings).unwrap_or_else(|e| panic!("a worker: {e}"));
    let able = Capabilities {
        checksum: true,
        tcp_gso: true,
        udp_gso: true,
        ..Capabilities::plain(9_000, 64)
    };
    let plain = Capabilities::plain(1_500, u.int_in_range(1..=64)?);
    let mut port = |name, capabilities| {
        let pair = Memory::pair([name, "far end"], capabilities);
        let [near, far] = pair.unwrap_or_else(|e| panic!("a wire: {e}"));
        (worker.add_port(Box::new(near)), far)
    };
    let (from, left) = port("lan0", able);
    let (to, right) = port("wan0", if u.arbitrary()? { able } else { plain });
    let plan = plan(u, registry)?;
    let path = worker.add_path(PathSpec {
        name: "fuzz".into(),
        from,
        to,
        mark: 1,
        classify: Box::new(classify(&plan, 1)),
        queue: plan.build(Seed(1)),
        plan: Some(plan),
        bandwidth: Some(Bandwidth::mbit(100)),
        framing: engine::framing::Framing::PLAIN,
        realiser: None,
        wire: None,
        guarantees: Vec::new(),
    });
    let now = netio::clock::now();
    Ok(Bench {
        worker,
        handle,
        path,
        now,
        ends: [left, right],
        sent: 0,
        got: 0,
    })
}

impl Bench {
    fn turns(&mut self, n: u32) {
        for _ in 0..n {
            let _ = self.worker.turn_at(self.now);
        }
    }

    /// Makes a request in another thread, and turns the loop until it is answered.
    fn ask(&mut self, request: impl FnOnce(&Handle) + Send + 'static) {
        let handle = self.handle.clone();
        let asking = std::thread::spawn(move || request(&handle));
        while !asking.is_finished() {
            self.turns(1);
            std::thread::yield_now();
        }
        assert!(asking.join().is_ok(), "the request has failed");
    }

    /// Every packet is sent, dropped or held, and every slot is a held packet's.
    fn check(&mut self) {
        let view = self.worker.show(self.now);
        let totals = view.paths[0].totals;
        let held = totals.backlog().packets;
        assert_eq!(
            totals.offered.packets,
            totals.sent.packets + totals.dropped.packets + held
        );
        let used: u32 = view.pool.iter().map(|size| size.used).sum();
        let staged = view.ports.iter().map(|port| port.unsent as u64).sum::<u64>();
        assert!(
            u64::from(used) <= held + staged,
            "{used} slots for {held} packets and {staged} to be sent"
        );
        assert!(view.ports[0].counters.received <= self.sent);
    }

    fn step(&mut self, u: &mut Unstructured<'_>, registry: &Registry, changes: Changes) -> Result<()> {
        match u.int_in_range(0..=31)? {
            0..=15 => {
                let frame = frame(u)?;
                self.ends[0].send(&frame, offload(u)?);
                self.sent += 1;
            }
            16..=20 => self.turns(u.int_in_range(1..=8)?),
            21..=24 => {
                self.now = self.now + Duration::from_micros(1 << u.int_in_range(0..=24)?);
                self.turns(2);
            }
            25 | 26 => {
                let side = &self.ends[usize::from(u.arbitrary::<bool>()?)];
                side.set_link(
                    [LinkState::Up, LinkState::Up, LinkState::Down, LinkState::Gone]
                        [u.int_in_range(0..=3)?],
                );
            }
            27 if changes == Changes::Trees => {
                let (path, on) = (self.path, u.arbitrary()?);
                self.ask(move |handle| {
                    let switched = handle.switch(path, on);
                    assert!(switched.is_ok(), "{switched:?}");
                });
            }
            28 | 29 if changes == Changes::Trees => {
                let plan = plan(u, registry)?;
                let path = self.path;
                let retune = Retune {
                    classify: Some(Box::new(classify(&plan, 2))),
                    plan,
                    seed: Seed(2),
                    bandwidth: Some(Bandwidth::mbit(50)),
                    guarantees: Vec::new(),
                };
                self.ask(move |handle| {
                    let adopted = handle.retune(path, retune);
                    assert!(adopted.is_ok(), "{adopted:?}");
                });
            }
            _ => self.got += std::iter::from_fn(|| self.ends[1].take()).count() as u64,
        }
        self.check();
        Ok(())
    }
}

fn judge(u: &mut Unstructured<'_>, changes: Changes) -> Result<()> {
    let registry = Registry::builtin();
    let mut bench = bench(u, &registry)?;
    while !u.is_empty() {
        if bench.step(u, &registry, changes).is_err() {
            break;
        }
    }
    bench.ends.iter().for_each(|end| end.set_link(LinkState::Up));
    // A broken port is tried again after some time, and a slow tree takes hours at most.
    for _ in 0..3_000 {
        bench.now = bench.now + Duration::from_secs(10);
        bench.turns(4);
        bench.got += std::iter::from_fn(|| bench.ends[1].take()).count() as u64;
        let view = bench.worker.show(bench.now);
        if view.paths[0].totals.backlog().packets == 0 && view.pool.iter().all(|size| size.used == 0) {
            let sent = view.paths[0].totals.sent.packets;
            let dropped = view.ports[1].counters.dropped;
            assert!(
                bench.got <= sent + view.paths[0].bypass.packets + bench.sent,
                "{} of {sent}, {dropped}",
                bench.got
            );
            return Ok(());
        }
    }
    panic!(
        "packets stay for ever: {:?}",
        bench.worker.show(bench.now).paths[0].totals
    );
}
