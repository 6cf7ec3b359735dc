//! The ports of `netio` on kernel interfaces, with real TCP through them.
//!
//! Each test runs in its own box, which needs no root; see [`lab::isolated`].

#![expect(clippy::print_stdout, reason = "these tests print their measurements")]

use engine::link::Link;
use engine::packet::Buffer;
use engine::random::Seed;
use engine::tree::{DisciplineSpec, Registry};
use engine::units::{Bandwidth, Bytes};
use lab::traffic::{probe::Probe, tcp::Bulk};
use lab::{Host, Lab, Result};
use netio::bpf::programs::TAKE;
use netio::bpf::syscall::{self, Hook, HookPlace};
use netio::bpf::{Attached, Heartbeat, Means, clsact};
use netio::fail_open::single;
use netio::handle::{Handle, WorkerSnapshot};
use netio::interface::Interface;
use netio::pool::{Offload, Pool, Slots};
use netio::port::Port;
use netio::ports::af_packet::{AfPacket, Settings as PacketSettings};
use netio::ports::detour::Detour;
use netio::ports::tap::Tap;
use netio::worker::{PathSpec, PortId, Settings, Worker};
use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const MEGABYTE: u64 = 1 << 20;

fn at(address: &str) -> SocketAddr {
    address.parse().expect("an address in a test")
}

/// A path from one port to another with a plain queue.
fn plain(from: PortId, to: PortId, bandwidth: Option<Bandwidth>) -> PathSpec {
    let link = Link::new(Bandwidth::gbit(1), Bytes::new(1514));
    let settings = engine::settings::Table::default().with("limit", engine::settings::Raw::Integer(1000));
    let spec = DisciplineSpec {
        settings,
        ..DisciplineSpec::new("fifo")
    };
    let plan = spec.check(&Registry::builtin(), link).expect("a plan");
    let queue = plan.build(Seed(1));
    PathSpec {
        plan: Some(plan),
        bandwidth,
        ..PathSpec::new(format!("{} to {}", from.0, to.0), (from, to), queue)
    }
}

/// A worker that forwards between two ports in both directions, in its own thread.
struct Bump {
    handle: Handle,
    thread: JoinHandle<WorkerSnapshot>,
}

impl Bump {
    fn between(ports: [Box<dyn Port>; 2], bandwidth: Option<Bandwidth>) -> Self {
        let (mut worker, handle) = Worker::new(Settings::default()).expect("a worker");
        let [left, right] = ports.map(|port| worker.add_port(port));
        worker.add_path(plain(left, right, bandwidth));
        worker.add_path(plain(right, left, bandwidth));
        Self {
            handle,
            thread: std::thread::spawn(move || worker.run()),
        }
    }

    fn stop(self) -> WorkerSnapshot {
        self.handle.stop();
        self.thread.join().expect("the worker ends in order")
    }
}

/// A – R – B: A and B with eth0, R with lan0 and wan0, which nothing joins yet.
fn line() -> Result<(Lab, [Host; 3])> {
    let mut lab = Lab::new();
    let hosts = [lab.host("a")?, lab.host("r")?, lab.host("b")?];
    let [a, r, b] = &hosts;
    lab.veth((a, "eth0"), (r, "lan0"))?;
    lab.veth((r, "wan0"), (b, "eth0"))?;
    for (host, v4, v6) in [(a, "10.0.0.1/24", "fd01::1/64"), (b, "10.0.0.2/24", "fd01::2/64")] {
        host.address("eth0", v4.parse().expect("an address"))?;
        host.address("eth0", v6.parse().expect("an address"))?;
    }
    Ok((lab, hosts))
}

fn packet_port(host: &Host, interface: &str) -> AfPacket {
    host.call(|| AfPacket::open(PacketSettings::new(interface)))
        .expect("a thread")
        .expect("a port")
}

fn packet_ports(r: &Host) -> [Box<dyn Port>; 2] {
    ["lan0", "wan0"].map(|name| Box::new(packet_port(r, name)) as Box<dyn Port>)
}

/// Sends this much by TCP and checks that every byte arrives; returns the rate in Gbit/s.
fn transfer(a: &Host, b: &Host, to: &str, most: u64) -> Result<f64> {
    let began = Instant::now();
    let report = Bulk {
        most,
        ..Bulk::new(at(to), Duration::from_secs(20))
    }
    .start(a, b)?
    .finish()?;
    assert_eq!((report.sent, report.received), (most, most), "{to}");
    Ok(most as f64 * 8e-9 / began.elapsed().as_secs_f64())
}

/// The mean length of the frames that the ports received.
fn mean_frame(snapshot: &WorkerSnapshot) -> u64 {
    let ports = || snapshot.ports.iter().map(|port| port.counters);
    ports().map(|c| c.received_bytes).sum::<u64>() / ports().map(|c| c.received).sum::<u64>().max(1)
}

#[test]
fn super_frames_and_unfinished_checksums_cross_packet_sockets_unharmed() {
    lab::isolated(|| {
        let run = || -> Result<()> {
            let (_lab, [a, r, b]) = line()?;
            let bump = Bump::between(packet_ports(&r), None);
            for to in ["10.0.0.2:0", "[fd01::2]:0"] {
                println!("{to}: {:.2} Gbit/s", transfer(&a, &b, to, 64 * MEGABYTE)?);
            }
            let snapshot = bump.stop();
            assert!(
                mean_frame(&snapshot) > 3000,
                "no super-frames: {:?}",
                snapshot.ports
            );
            assert_eq!(snapshot.pool.map(|slots| slots.exhausted), [0, 0]);
            Ok(())
        };
        run().expect("a lab");
    });
}

#[test]
fn super_frames_and_unfinished_checksums_cross_taps_unharmed() {
    lab::isolated(|| {
        let run = || -> Result<()> {
            let mut lab = Lab::new();
            let (a, b) = (lab.host("a")?, lab.host("b")?);
            let mut ports = Vec::new();
            for (host, address) in [(&a, "10.0.0.1/24"), (&b, "10.0.0.2/24")] {
                ports.push(Box::new(host.call(|| Tap::open("tap0", 64))?.expect("a TAP")) as Box<dyn Port>);
                host.netlink(|n| n.up("tap0"))?;
                host.address("tap0", address.parse().expect("an address"))?;
            }
            let bump = Bump::between(ports.try_into().expect("two ports"), None);
            println!("{:.2} Gbit/s", transfer(&a, &b, "10.0.0.2:0", 64 * MEGABYTE)?);
            let snapshot = bump.stop();
            assert!(
                mean_frame(&snapshot) > 3000,
                "no super-frames: {:?}",
                snapshot.ports
            );
            Ok(())
        };
        run().expect("a lab");
    });
}

#[test]
fn super_frames_are_segmented_where_the_bandwidth_requires_it_and_tcp_does_not_notice() {
    lab::isolated(|| {
        let run = || -> Result<()> {
            let (_lab, [a, r, b]) = line()?;
            let bump = Bump::between(packet_ports(&r), Some(Bandwidth::mbit(200)));
            for to in ["10.0.0.2:0", "[fd01::2]:0"] {
                println!("{to}: {:.2} Gbit/s", transfer(&a, &b, to, 4 * MEGABYTE)?);
            }
            let snapshot = bump.stop();
            let (whole, segments) = snapshot.paths[0].split;
            assert!(whole > 0 && segments > 2 * whole, "{whole} into {segments}");
            Ok(())
        };
        run().expect("a lab");
    });
}

/// Receives until a frame satisfies `wanted`, or two seconds have passed.
fn await_frame(port: &mut AfPacket, pool: &mut Pool, wanted: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
    let end = Instant::now() + Duration::from_secs(2);
    let mut batch: Vec<Buffer> = Vec::new();
    while Instant::now() < end {
        port.receive(pool, &mut batch).expect("a working port");
        for frame in batch.drain(..) {
            let bytes = pool.bytes(frame).to_vec();
            pool.free(frame);
            if wanted(&bytes) {
                return Some(bytes);
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    None
}

fn send_frame(port: &mut AfPacket, pool: &mut Pool, bytes: &[u8]) {
    let frame = pool.put(bytes, Offload::default()).expect("a slot");
    assert!(port.room() > 0);
    port.transmit(pool, frame);
    port.kick(pool).expect("a working port");
}

#[test]
fn a_vlan_tag_is_restored_before_the_frame_leaves() {
    lab::isolated(|| {
        let run = || -> Result<()> {
            let (_lab, [a, r, b]) = line()?;
            let bump = Bump::between(packet_ports(&r), None);
            let (mut from, mut to) = (packet_port(&a, "eth0"), packet_port(&b, "eth0"));
            let mut pool = Pool::new(Slots { small: 512, big: 256 }).expect("memory");
            let mut tagged = vec![0xff; 6];
            tagged.extend([2, 0, 0, 0, 0, 1, 0x81, 0x00, 0xa0, 0x2a, 0x88, 0xb5]);
            tagged.extend([0x5a; 100]);
            let wanted = tagged.clone();
            // The worker may not be ready yet for the first frame.
            let got = (0..5).find_map(|_| {
                send_frame(&mut from, &mut pool, &tagged);
                await_frame(&mut to, &mut pool, |bytes| bytes.ends_with(&[0x5a; 100]))
            });
            bump.stop();
            assert_eq!(got, Some(wanted));
            Ok(())
        };
        run().expect("a lab");
    });
}

/// Waits until a port's error satisfies `wanted`.
fn await_error(handle: &Handle, port: usize, wanted: impl Fn(Option<&str>) -> bool) -> Option<String> {
    let end = Instant::now() + Duration::from_secs(5);
    loop {
        let snapshot = handle.inspect().expect("the worker answers even if a port fails");
        let error = snapshot.ports[port].error.clone();
        if wanted(error.as_deref()) || Instant::now() > end {
            return error;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn an_interface_that_goes_down_is_reported_and_works_again_when_it_is_up() {
    lab::isolated(|| {
        let run = || -> Result<()> {
            let (_lab, [a, r, b]) = line()?;
            let bump = Bump::between(packet_ports(&r), None);
            assert!(Probe::new(at("10.0.0.2:0"), 3).run(&a, &b)?.unanswered < 3);
            r.netlink(|n| n.down("wan0"))?;
            let error = await_error(&bump.handle, 1, |e| e.is_some()).expect("an error");
            assert!(error.contains("wan0") && error.contains("down"), "{error}");
            r.netlink(|n| n.up("wan0"))?;
            assert_eq!(await_error(&bump.handle, 1, |e| e.is_none()), None);
            assert!(Probe::new(at("10.0.0.2:0"), 5).run(&a, &b)?.unanswered < 5);
            r.netlink(|n| n.delete("wan0"))?;
            let error = await_error(&bump.handle, 1, |e| {
                e.is_some_and(|e| e.contains("no such interface"))
            });
            assert!(
                error
                    .as_deref()
                    .is_some_and(|e| e.contains("wan0: ") && e.contains("no such interface")),
                "{error:?}"
            );
            bump.stop();
            Ok(())
        };
        run().expect("a lab");
    });
}

/// Attaches a program by a link, if the kernel has these; then another detaches it.
fn attach_and_lose(heart: &Heartbeat) -> std::io::Result<Option<[bool; 2]>> {
    let index = Interface::named("eth0")?.index;
    let program = syscall::load("ours", Hook::Ingress, false, &TAKE, heart.map(), None)?;
    let mut attached = Attached::to(index, Means::Best);
    attached.add(&program)?;
    if attached.to_string() != "tcx links" {
        return Ok(None);
    }
    let before = attached.is_whole();
    assert_eq!(syscall::detach_all(index)?, 1);
    Ok(Some([before, attached.is_whole()]))
}

#[test]
fn a_program_that_another_detaches_is_noticed() {
    lab::isolated(|| {
        let heart = match Heartbeat::new(engine::units::Duration::from_millis(20)) {
            Ok(heart) => heart,
            Err(e) => return skips::skipped(e),
        };
        let (_lab, [a, ..]) = line().expect("a line");
        match a.call(|| attach_and_lose(&heart)).expect("a thread") {
            Err(e) if e.to_string().contains("not permitted") => skips::skipped(e),
            Ok(None) => skips::skipped("there are no tcx links before Linux 6.6"),
            whole => assert_eq!(whole.expect("a link"), Some([true, false])),
        }
    });
}

/// A port of received packets, whose TAP loses the program that hands them back.
fn lose_the_way_back() -> std::io::Result<Option<[bool; 2]>> {
    let failed = |why: netio::port::PortError| std::io::Error::other(why.to_string());
    let port = Detour::open("eth0", Hook::Ingress, HookPlace::Last, 64).map_err(failed)?;
    let limit = engine::units::Duration::from_millis(20);
    let (port, _pulse) = single(port, limit, Means::Best).map_err(failed)?;
    if port.attached().is_none_or(|own| own.to_string() != "tcx links") {
        return Ok(None);
    }
    let (before, own) = (port.bypassed(), Interface::named("eth0")?.index);
    let others = (1..64).filter(|index| *index != own && Interface::numbered(*index).is_ok());
    let detached: usize = others.map(syscall::detach_all).sum::<std::io::Result<usize>>()?;
    assert_eq!(detached, 1, "the TAP's");
    Ok(Some([before, port.bypassed()]))
}

#[test]
fn a_way_back_that_another_detaches_is_noticed() {
    lab::isolated(|| {
        let (_lab, [a, ..]) = line().expect("a line");
        match a.call(lose_the_way_back).expect("a thread") {
            Err(e)
                if ["not permitted", "/dev/net/tun"]
                    .iter()
                    .any(|why| e.to_string().contains(why)) =>
            {
                skips::skipped(e);
            }
            Ok(None) => skips::skipped("there are no tcx links before Linux 6.6"),
            lost => assert_eq!(lost.expect("a port"), Some([false, true])),
        }
    });
}

/// Attaches a program of this name by a filter, as before Linux 6.6, to an interface of the calling
/// thread's namespace.
fn filter(index: u32, name: &'static str, heart: &Heartbeat) -> std::io::Result<Attached> {
    let program = syscall::load(name, Hook::Ingress, false, &TAKE, heart.map(), None)?;
    let mut attached = Attached::to(index, Means::Filters);
    attached.add(&program)?;
    Ok(attached)
}

/// The filters of an interface after each step: attach ours; attach another beside it; attach ours
/// again, as after a kill; drop the replaced one; drop ours; drop the other; attach and drop ours.
fn attach_and_detach(heart: &Heartbeat) -> std::io::Result<Vec<Option<Vec<String>>>> {
    let index = Interface::named("eth0")?.index;
    let mut steps = Vec::new();
    let mut look = || clsact::names(index).map(|names| steps.push(names));
    let first = filter(index, "ours", heart)?;
    look()?;
    let other = filter(index, "other", heart)?;
    look()?;
    let second = filter(index, "ours", heart)?;
    look()?;
    assert_eq!(
        [&first, &other, &second].map(Attached::is_whole),
        [false, true, true],
        "who is told that his is replaced"
    );
    drop(first);
    look()?;
    drop(second);
    look()?;
    drop(other);
    look()?;
    let alone = filter(index, "ours", heart)?;
    drop(alone);
    look()?;
    Ok(steps)
}

#[test]
fn filters_replace_those_of_the_same_name_and_leave_others_alone() {
    lab::isolated(|| {
        let heart = match Heartbeat::new(engine::units::Duration::from_millis(20)) {
            Ok(heart) => heart,
            Err(e) => return skips::skipped(e),
        };
        let (_lab, [a, ..]) = line().expect("a line");
        let steps = match a.call(|| attach_and_detach(&heart)).expect("a thread") {
            Err(e) if e.to_string().contains("not permitted") => return skips::skipped(e),
            steps => steps.expect("filters"),
        };
        let names = |names: &[&str]| Some(names.iter().map(|name| name.to_string()).collect::<Vec<_>>());
        let both = names(&["other", "ours"]);
        assert_eq!(steps[..3], [names(&["ours"]), both.clone(), both.clone()]);
        assert_eq!(steps[3], both, "dropping a replaced filter removes nothing");
        assert_eq!(steps[4..6], [names(&["other"]), names(&[])]);
        assert_eq!(steps[6], names(&[]), "a qdisc that was made by others stays");
    });
}
