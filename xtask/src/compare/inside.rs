//! Runs inside User-Mode Linux, as its first and only program: two hosts and a router between
//! them with the kernel's discipline, the traffic, and one line with the result.
//!
//! The router is needed for TCP: a kernel throttles its own sockets (TCP small queues) before a
//! queue can build up in the discipline. Everything runs in one process, so that senders and
//! receivers share a clock.

use super::cases::Case;
use super::measured::{FlowFigures, Side, quantile};
use super::traffic::{Flow, HEADERS, PORT, Source};
use rustix::net::sockopt;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::process::Command;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The prefix of the result line.
pub const RESULT: &str = "COMPARED ";
/// The time for which receivers listen after the last packet.
pub const DRAIN: Duration = Duration::from_secs(3);

type Outcome<T> = Result<T, String>;

/// Sets everything up, measures, prints, and switches the machine off.
pub fn run(case: &Case) -> ! {
    match setup(case).and_then(|()| measure(case)) {
        Ok(side) => match serde_json::to_string(&side) {
            Ok(line) => println!("\n{RESULT}{line}"),
            Err(e) => println!("{e}"),
        },
        Err(e) => println!("{e}"),
    }
    let _ = std::fs::write("/proc/sysrq-trigger", "o");
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

const SETUP: &str = "\
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs run /run
mkdir -p /run/root/lib
ln -s /usr/lib/uml/modules /run/root/lib/modules
modprobe -d /run/root veth
sysctl -q -w net.ipv4.ip_forward=1
ip netns add a
ip netns add b
ip link add a0 netns a type veth peer name r0
ip link add b0 netns b address 02:00:00:00:00:01 type veth peer name r1 address 02:00:00:00:00:02
ip -n a link set a0 gso_max_segs 1
ip -n a addr add 10.0.1.1/24 dev a0
ip -n b addr add 10.0.2.1/24 dev b0
ip addr add 10.0.1.2/24 dev r0
ip addr add 10.0.2.2/24 dev r1
ip -n a link set a0 up
ip -n b link set b0 up
ip link set r0 up
ip link set r1 up
ip -n a route add default via 10.0.1.2
ip -n b route add default via 10.0.2.2
ip neigh add 10.0.2.1 lladdr 02:00:00:00:00:01 dev r1
ip -n b neigh add 10.0.2.2 lladdr 02:00:00:00:00:02 dev b0";

fn setup(case: &Case) -> Outcome<()> {
    SETUP.lines().try_for_each(|line| command(line).map(drop))?;
    // The first host of each side has its address already.
    for (space, device, side) in [("a", "a0", 0), ("b", "b0", 1)] {
        let hosts = case.flows.iter().map(|flow| [flow.hosts.0, flow.hosts.1][side]);
        for host in hosts.filter(|host| *host > 1).collect::<BTreeSet<u8>>() {
            command(&format!(
                "ip -n {space} addr add 10.0.{}.{host}/24 dev {device}",
                side + 1
            ))?;
            if space == "b" {
                command(&format!(
                    "ip neigh add 10.0.2.{host} lladdr 02:00:00:00:00:01 dev r1"
                ))?;
            }
        }
    }
    for module in case.modules {
        command(&format!("modprobe -d /run/root {module}"))?;
    }
    if case.round_trip_ms > 0 {
        command("modprobe -d /run/root sch_netem")?;
        // Our TCP has slow start without HyStart here.
        std::fs::write("/sys/module/tcp_cubic/parameters/hystart", "0")
            .map_err(|e| format!("hystart: {e}"))?;
        let delay = case.round_trip_ms;
        command(&format!(
            "ip netns exec b tc qdisc add dev b0 root netem delay {delay}ms limit 100000"
        ))?;
    }
    for line in case.tc_lines() {
        command(&line)?;
    }
    // Addresses are resolved before the clock starts; behind the router they are static, since a
    // qdisc with classes drops packets that match no filter.
    let socket = inside("a", || UdpSocket::bind("0.0.0.0:0"))?.map_err(|e| format!("a socket: {e}"))?;
    let _ = socket.send_to(&[0; 20], ("10.0.2.1", 9));
    std::thread::sleep(Duration::from_millis(300));
    Ok(())
}

/// Runs a command without a shell, and returns what it printed.
fn command(line: &str) -> Outcome<String> {
    let mut words = line.split_whitespace();
    let program = words.next().unwrap_or_default();
    let done = Command::new(program)
        .args(words)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .output()
        .map_err(|e| format!("`{line}`: {e}"))?;
    if !done.status.success() {
        return Err(format!(
            "`{line}` failed: {}",
            String::from_utf8_lossy(&done.stderr).trim()
        ));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Runs `work` in a thread of its own in this network namespace.
fn start<T: Send + 'static>(
    space: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<Outcome<T>> {
    std::thread::spawn(move || {
        let file = File::open(format!("/run/netns/{space}")).map_err(|e| format!("{space}: {e}"))?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|e| format!("enter {space}: {e}"))?;
        Ok(work())
    })
}

fn inside<T: Send + 'static>(space: &'static str, work: impl FnOnce() -> T + Send + 'static) -> Outcome<T> {
    end(start(space, work))
}

fn end<T>(thread: JoinHandle<Outcome<T>>) -> Outcome<T> {
    thread.join().map_err(|_| "a thread panicked".to_owned())?
}

/// A flow, as its two threads see it.
#[derive(Clone, Copy)]
struct RunningFlow {
    flow: Flow,
    number: usize,
    seconds: u64,
    begin: Instant,
}

/// How late each datagram was sent; how late each arrived, in microseconds, or the number of
/// bytes of TCP.
struct Sent(Vec<u64>);
enum Received {
    Delays(Vec<u64>),
    Bytes(u64),
}

fn measure(case: &Case) -> Outcome<Side> {
    let begin = Instant::now() + Duration::from_millis(500);
    let mut threads = Vec::new();
    for (number, flow) in case.flows.iter().enumerate() {
        let flow = RunningFlow {
            flow: *flow,
            number,
            seconds: case.seconds,
            begin,
        };
        let receiver = start("b", move || flow.receive().map_err(|e| format!("receive: {e}")));
        let sender = start("a", move || flow.send().map_err(|e| format!("send: {e}")));
        threads.push((flow, sender, receiver));
    }
    let (mut flows, mut late) = (Vec::new(), Vec::new());
    for (flow, sender, receiver) in threads {
        let (sent, received) = (end(sender)??, end(receiver)??);
        flows.push(flow.figures(sent.0.len(), received));
        late.extend(sent.0);
    }
    late.sort_unstable();
    let version = command("uname -r")?;
    let statistics = command("tc -s -j qdisc show dev r1")?;
    let statistics = serde_json::from_str(&statistics).map_err(|e| format!("tc: {e}: {statistics}"))?;
    Ok(Side {
        what: format!("Linux {}", version.trim()),
        flows,
        dropped: dropped(&statistics),
        marked: sum(&statistics, &["marked", "ecn_mark"]),
        late_p99_us: Some(quantile(&late, 990)),
        late_max_us: late.last().copied(),
        empty_us: None,
    })
}

/// The largest of the qdiscs' counts: a parent also counts its children's drops.
fn dropped(statistics: &serde_json::Value) -> u64 {
    let qdiscs = statistics.as_array().into_iter().flatten();
    qdiscs
        .filter_map(|qdisc| qdisc["drops"].as_u64())
        .max()
        .unwrap_or(0)
}

/// The sum of all numbers with one of these names, at any depth.
fn sum(value: &serde_json::Value, names: &[&str]) -> u64 {
    match value {
        serde_json::Value::Array(items) => items.iter().map(|item| sum(item, names)).sum(),
        serde_json::Value::Object(fields) => {
            let of = |(name, field): (&String, &serde_json::Value)| match field.as_u64() {
                Some(number) if names.contains(&name.as_str()) => number,
                _ => sum(field, names),
            };
            fields.iter().map(of).sum()
        }
        _ => 0,
    }
}

impl RunningFlow {
    fn port(&self) -> u16 {
        PORT + self.number as u16
    }

    fn send(&self) -> std::io::Result<Sent> {
        let (from, to) = self.flow.span(self.seconds);
        let (here, there) = self.flow.addresses();
        if matches!(self.flow.source, Source::Tcp) {
            sleep_until(self.begin + from);
            let mut stream = TcpStream::connect((there.as_str(), self.port()))?;
            stream.set_write_timeout(Some(Duration::from_millis(100)))?;
            let data = [0; 16 << 10];
            while self.begin.elapsed() < to {
                match stream.write(&data) {
                    Ok(_) => {}
                    Err(e) if is_timeout(e.kind()) => {}
                    Err(e) => return Err(e),
                }
            }
            return Ok(Sent(Vec::new()));
        }
        let socket = UdpSocket::bind((here.as_str(), 40_001 + self.number as u16))?;
        sockopt::set_socket_send_buffer_size_force(&socket, 16 << 20)?;
        // ECT(0) is 2, RFC 3168.
        sockopt::set_ip_tos(&socket, self.flow.dscp << 2 | u8::from(self.flow.ecn) << 1)?;
        socket.connect((there.as_str(), self.port()))?;
        let mut payload = vec![0; (self.flow.frame - HEADERS) as usize];
        let mut late = Vec::new();
        for due in self.flow.times(self.number, self.seconds) {
            sleep_until(self.begin + due);
            let now = self.begin.elapsed();
            payload[..8].copy_from_slice(&(now.as_nanos() as u64).to_be_bytes());
            // An error here is a drop on the way, which the receiver's count shows.
            let _ = socket.send(&payload);
            late.push(now.saturating_sub(due).as_micros() as u64);
        }
        Ok(Sent(late))
    }

    fn receive(&self) -> std::io::Result<Received> {
        let last = self.begin + Duration::from_secs(self.seconds) + DRAIN;
        let (_, to) = self.flow.span(self.seconds);
        let (_, here) = self.flow.addresses();
        let mut buffer = vec![0; 64 << 10];
        if matches!(self.flow.source, Source::Tcp) {
            let listener = TcpListener::bind((here.as_str(), self.port()))?;
            let (mut stream, _) = listener.accept()?;
            stream.set_read_timeout(Some(Duration::from_millis(100)))?;
            let mut bytes = 0;
            while Instant::now() < last {
                match stream.read(&mut buffer) {
                    Ok(0) => break,
                    // Data in a sender's kernel when its program stops do not count.
                    Ok(some) if self.begin.elapsed() < to => bytes += some as u64,
                    Ok(_) => {}
                    Err(e) if is_timeout(e.kind()) => {}
                    Err(e) => return Err(e),
                }
            }
            return Ok(Received::Bytes(bytes));
        }
        let socket = UdpSocket::bind((here.as_str(), self.port()))?;
        sockopt::set_socket_recv_buffer_size_force(&socket, 16 << 20)?;
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        let mut delays = Vec::new();
        while Instant::now() < last {
            match socket.recv(&mut buffer) {
                Ok(some) if some >= 8 => {
                    let now = self.begin.elapsed().as_nanos() as u64;
                    let mut sent = [0; 8];
                    sent.copy_from_slice(&buffer[..8]);
                    delays.push(now.saturating_sub(u64::from_be_bytes(sent)) / 1_000);
                }
                Ok(_) => {}
                Err(e) if is_timeout(e.kind()) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(Received::Delays(delays))
    }

    fn figures(&self, sent: usize, received: Received) -> FlowFigures {
        let (from, to) = self.flow.span(self.seconds);
        let seconds = (to - from).as_secs().max(1);
        let name = self.flow.name.to_owned();
        match received {
            Received::Bytes(bytes) => FlowFigures {
                name,
                rate_bps: bytes * 8 / seconds,
                ..FlowFigures::default()
            },
            Received::Delays(mut delays) => {
                delays.sort_unstable();
                let received = delays.len() as u64;
                FlowFigures {
                    name,
                    sent: sent as u64,
                    received,
                    rate_bps: received * self.flow.frame * 8 / seconds,
                    mean_us: delays.iter().sum::<u64>() / received.max(1),
                    p50_us: quantile(&delays, 500),
                    p99_us: quantile(&delays, 990),
                    max_us: delays.last().copied().unwrap_or(0),
                }
            }
        }
    }
}

fn sleep_until(at: Instant) {
    std::thread::sleep(at.saturating_duration_since(Instant::now()));
}

fn is_timeout(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
