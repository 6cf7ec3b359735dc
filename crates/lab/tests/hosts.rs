//! Hosts, kernel links, programs and traffic, as root and as an ordinary user.
//!
//! Each test runs in its own box; see [`lab::isolated`].

use lab::traffic::{generator::TrafficShape, probe::Probe, tcp::Bulk, udp::Stream};
use lab::{Host, Lab, Result};
use std::net::SocketAddr;
use std::time::Duration;

const NOBODY: u32 = 65534;

fn at(address: &str) -> SocketAddr {
    address.parse().expect("an address in a test")
}

/// A – R – B: R has an address on each side, and forwards.
fn routed() -> Result<(Lab, Host, Host)> {
    let mut lab = Lab::new();
    let (a, r, b) = (lab.host("a")?, lab.host("r")?, lab.host("b")?);
    lab.veth((&a, "eth0"), (&r, "lan0"))?;
    lab.veth((&r, "wan0"), (&b, "eth0"))?;
    for (host, interface, v4, v6) in [
        (&a, "eth0", "10.1.0.2/24", "fd01::2/64"),
        (&r, "lan0", "10.1.0.1/24", "fd01::1/64"),
        (&r, "wan0", "10.2.0.1/24", "fd02::1/64"),
        (&b, "eth0", "10.2.0.2/24", "fd02::2/64"),
    ] {
        for address in [v4, v6] {
            host.address(interface, address.parse().expect("an address in a test"))?;
        }
    }
    for (host, v4, v6) in [(&a, "10.1.0.1", "fd01::1"), (&b, "10.2.0.1", "fd02::1")] {
        for gateway in [v4, v6] {
            host.default_route(gateway.parse().expect("an address in a test"))?;
        }
    }
    r.forward()?;
    Ok((lab, a, b))
}

fn both_families_cross_the_router() -> Result<()> {
    let (_lab, a, b) = routed()?;
    for to in ["10.2.0.2:0", "[fd02::2]:0"] {
        let report = Probe::new(at(to), 5).run(&a, &b)?;
        assert!(report.unanswered <= 1, "{to}: {report:?}");
        let bulk = Bulk {
            most: 3 << 20,
            ..Bulk::new(at(to), Duration::from_secs(5))
        };
        let report = bulk.start(&a, &b)?.finish()?;
        assert_eq!((report.sent, report.received), (3 << 20, 3 << 20), "{to}");
    }
    Ok(())
}

#[test]
fn two_hosts_meet_through_a_router_in_both_families() {
    lab::isolated(|| both_families_cross_the_router().expect("a routed lab"));
}

#[test]
fn an_ordinary_user_needs_no_root() {
    lab::isolated_as(NOBODY, &[], || {
        let map = std::fs::read_to_string("/proc/self/uid_map").expect("a proc file system");
        let outside = map.split_whitespace().nth(1).expect("a map of one line");
        assert_ne!(outside, "0", "the box is root's: {map}");
        both_families_cross_the_router().expect("a routed lab");
    });
}

#[test]
fn two_hosts_meet_through_a_kernel_bridge() {
    lab::isolated(|| {
        let run = || -> Result<()> {
            let mut lab = Lab::new();
            let (a, r, b) = (lab.host("a")?, lab.host("r")?, lab.host("b")?);
            lab.veth((&a, "eth0"), (&r, "lan0"))?;
            lab.veth((&r, "wan0"), (&b, "eth0"))?;
            r.bridge("br0", &["lan0", "wan0"])?;
            a.address("eth0", "10.0.0.1/24".parse().expect("an address"))?;
            b.address("eth0", "10.0.0.2/24".parse().expect("an address"))?;
            let stream = Stream {
                to: at("10.0.0.2:0"),
                shape: TrafficShape::per_second(1000, 100, Duration::from_millis(300)),
            };
            let report = stream.start(&a, &b)?.finish()?;
            assert_eq!(report.sent, 300);
            assert!(report.arrivals.len() > 200, "lost {}", report.lost());
            assert_eq!(report.duplicates, 0);
            Ok(())
        };
        run().expect("a bridged lab");
    });
}

#[test]
fn a_program_runs_in_its_host_and_is_killed_with_its_children_after_its_time_limit() {
    lab::isolated(|| {
        let run = || -> Result<()> {
            let host = Lab::new().host("a")?;
            let output = host.program("cat").arg("/proc/net/dev").output()?;
            assert!(output.status.success() && output.err.is_empty(), "{output:?}");
            let interfaces: Vec<&str> = output
                .out
                .lines()
                .skip(2)
                .filter_map(|l| l.split(':').next())
                .collect();
            assert!(interfaces.iter().any(|i| i.trim() == "lo"), "{interfaces:?}");
            let output = host
                .program("sh")
                .args(["-c", "sleep 1000 & echo $!; wait"])
                .limit(Duration::from_millis(300))
                .output()?;
            assert!(output.timed_out && !output.status.success(), "{output:?}");
            let grandchild = output.out.trim();
            assert!(!grandchild.is_empty());
            std::thread::sleep(Duration::from_millis(50));
            let state = std::fs::read_to_string(format!("/proc/{grandchild}/stat")).unwrap_or_default();
            assert!(
                state.is_empty() || state.contains(") Z"),
                "it still runs: {state}"
            );
            Ok(())
        };
        run().expect("a lab with programs");
    });
}

#[test]
fn errors_contain_the_kernels_own_text() {
    lab::isolated(|| {
        let mut lab = Lab::new();
        let (a, b) = (lab.host("a").expect("a host"), lab.host("b").expect("a host"));
        lab.veth((&a, "eth0"), (&b, "eth0")).expect("a link");
        let error = a
            .default_route("10.9.9.9".parse().expect("an address"))
            .expect_err("no such network");
        let text = error.to_string();
        assert!(text.contains("add a route to 0.0.0.0/0 by 10.9.9.9"), "{text}");
        assert!(
            text.to_lowercase().contains("gateway"),
            "the extended text is missing: {text}"
        );
        let error = lab
            .veth((&a, "an interface with a long name"), (&b, "x"))
            .expect_err("a bad name");
        assert!(error.to_string().contains("1 to 15"), "{error}");
    });
}

#[test]
fn an_interface_can_be_changed_moved_and_removed() {
    lab::isolated(|| {
        let run = || -> Result<()> {
            let mut lab = Lab::new();
            let (a, b, c) = (lab.host("a")?, lab.host("b")?, lab.host("c")?);
            lab.veth((&a, "eth0"), (&b, "eth0"))?;
            a.netlink(|n| n.mtu("eth0", 1280))?;
            let mtu = a
                .program("cat")
                .arg("/proc/sys/net/ipv6/conf/eth0/mtu")
                .output()?
                .out;
            assert_eq!(mtu.trim(), "1280");
            let mac = b.netlink(|n| n.mac("eth0"))?;
            a.address("eth0", "10.0.0.1/24".parse().expect("an address"))?;
            a.netlink(|n| n.neighbour("eth0", "10.0.0.2".parse().expect("an address"), mac))?;
            let table = a.program("cat").arg("/proc/net/arp").output()?.out;
            let shown = mac.map(|byte| format!("{byte:02x}")).join(":");
            assert!(table.contains(&shown), "{shown} is not in {table}");
            b.netlink(|n| n.move_to("eth0", c.namespace()))?;
            assert!(b.netlink(|n| n.index("eth0")).is_err());
            assert_eq!(c.netlink(|n| n.mac("eth0"))?, mac);
            a.netlink(|n| n.delete("eth0"))?;
            assert!(
                c.netlink(|n| n.index("eth0")).is_err(),
                "the other end is removed with it"
            );
            Ok(())
        };
        run().expect("a lab");
    });
}
