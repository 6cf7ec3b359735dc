//! Two hosts and the worker of `suimon run` between them, in a lab. The treatment of the packets
//! changes while they flow.
//!
//! ```text
//!  sender ─── left │ worker: af_packet, queue, af_packet │ right ─── receiver
//! ```
//!
//! The compared treatments share everything else: ports, loop, sockets, processes. One direction is
//! managed; responses return through a plain queue.

use crate::Error;
use crate::cost_treatments::{SEED, Treatment};
use crate::rounds::median;
use engine::link::Link;
use engine::units::{Bandwidth, Bytes};
use gateway::direction;
use lab::host::OffloadFeature;
use lab::traffic::generator::TrafficShape;
use lab::traffic::tcp::{Bulk, BulkRun};
use lab::traffic::udp::{Stream, StreamRun};
use lab::{Address, Host, Lab};
use netio::beside::ThreadBeside;
use netio::handle::{Handle, Retune, Unanswered, WorkerSnapshot};
use netio::port::PortError;
use netio::ports::af_packet::{self, AfPacket};
use netio::worker::{PathId, PathSpec, Settings, Worker};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const SENDER: Ipv4Addr = Ipv4Addr::new(10, 8, 0, 1);
const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 8, 0, 2);
/// The worker's thread.
const WORKER: &str = "worker";
const MANAGED: PathId = PathId(0);

/// TCP's send buffer, in packets of the MTU. With the kernel's overhead it stores about 40.
const WINDOW: u32 = 64;

/// Headers of Ethernet, IPv4 and UDP.
const HEADERS: u64 = 14 + 20 + 8;

/// How long to wait for a response. No response is dropped on purpose.
const PATIENCE: Duration = Duration::from_millis(300);

/// The lab, running, with plain FIFO until changed.
pub struct LabWire {
    sender: Host,
    receiver: Host,
    handle: Handle,
    worker: Option<JoinHandle<lab::Result<WorkerSnapshot>>>,
    limit: Option<Bandwidth>,
    _lab: Lab,
}

impl Drop for LabWire {
    fn drop(&mut self) {
        self.handle.stop();
        // The worker ends after its present batch. Its ports must close before their interfaces go.
        let _ = self.worker.take().map(JoinHandle::join);
    }
}

fn unanswered(error: Unanswered) -> Error {
    Error::new(error.to_string())
}

impl LabWire {
    /// Makes links of this MTU. The managed direction is limited to `limit`, if there is one.
    ///
    /// # Errors
    ///
    /// Returns an error if the lab cannot be made.
    pub fn new(link: Link, limit: Option<Bandwidth>) -> Result<Self, Error> {
        let mut lab = Lab::new();
        let [sender, router, receiver] = ["sender", "router", "receiver"].map(|name| lab.host(name));
        let (sender, router, receiver) = (sender?, router?, receiver?);
        lab.veth((&sender, "eth0"), (&router, "left"))?;
        lab.veth((&receiver, "eth0"), (&router, "right"))?;
        let mtu = u32::try_from(link.mtu.get() - netio::port::ETHERNET as u64).unwrap_or(u32::MAX);
        for (host, interface) in [
            (&sender, "eth0"),
            (&router, "left"),
            (&router, "right"),
            (&receiver, "eth0"),
        ] {
            host.netlink(|n| n.mtu(interface, mtu))?;
            // Packets of the MTU, as in the paper, and no super-frames: the cost per packet is
            // measured.
            for what in [OffloadFeature::Tso, OffloadFeature::Gso, OffloadFeature::Gro] {
                host.offload(interface, what, false)?;
            }
        }
        for (host, ip) in [(&sender, SENDER), (&receiver, RECEIVER)] {
            host.address("eth0", Address::new(ip, 24))?;
        }
        let window = WINDOW * mtu;
        sender.set("net/ipv4/tcp_wmem", &format!("4096 {window} {window}"))?;
        let settings = Settings {
            realtime: true,
            ..Settings::default()
        };
        let (mut worker, handle) =
            Worker::new(settings).map_err(|e| Error::new(format!("cannot make room for packets: {e}")))?;
        let open = |name: &str| AfPacket::open(af_packet::Settings::new(name));
        let (left, right) = router.call(|| Ok::<_, PortError>((open("left")?, open("right")?)))??;
        let (left, right) = (worker.add_port(Box::new(left)), worker.add_port(Box::new(right)));
        let treatment = Treatment::fifo(link);
        worker.add_path(PathSpec {
            classify: treatment.classify(),
            queue: treatment.plan.build(SEED),
            plan: Some(treatment.plan),
            bandwidth: limit,
            ..direction::unmanaged("right", left, right)
        });
        worker.add_path(direction::unmanaged("left", right, left));
        let worker = router.spawn(WORKER, move || worker.run())?;
        Ok(Self {
            sender,
            receiver,
            handle,
            worker: Some(worker),
            limit,
            _lab: lab,
        })
    }

    /// Applies a treatment from now on. With `None`, packets pass through a plain ring without any
    /// discipline, as after `suimon disable`.
    ///
    /// # Errors
    ///
    /// Returns an error if the worker does not apply it.
    pub fn take(&self, treatment: Option<&Treatment>) -> Result<(), Error> {
        let Some(treatment) = treatment else {
            return self.handle.switch(MANAGED, false).map_err(unanswered);
        };
        let retune = Retune {
            plan: treatment.plan.clone(),
            seed: SEED,
            classify: Some(treatment.classify()),
            bandwidth: None,
            guarantees: Vec::new(),
        };
        self.handle.retune(MANAGED, retune).map_err(unanswered)?;
        self.handle.switch(MANAGED, true).map_err(unanswered)
    }

    /// Starts a TCP transfer of at most this length. Its data in flight stay below the 100 packets
    /// that the queues take, as the paper advises (section 5): the queue is measured, not loss
    /// recovery.
    ///
    /// # Errors
    ///
    /// Returns an error if a program cannot be started.
    pub fn bulk(&self, length: Duration) -> Result<BulkRun, Error> {
        Ok(Bulk::new((RECEIVER, 0).into(), length).start(&self.sender, &self.receiver)?)
    }

    /// Starts a stream of datagrams to this port, with this rate in packets per second, this many
    /// bytes of data in each, and this duration.
    ///
    /// # Errors
    ///
    /// Returns an error if a program cannot be started.
    pub fn stream(
        &self,
        port: u16,
        rate: u32,
        payload: usize,
        duration: Duration,
    ) -> Result<StreamRun, Error> {
        let stream = Stream {
            to: (RECEIVER, port).into(),
            shape: TrafficShape::per_second(rate, payload, duration),
        };
        Ok(stream.start(&self.sender, &self.receiver)?)
    }

    /// The worker's processor time so far, system calls included.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel's counters cannot be read.
    pub fn busy(&self) -> Result<Duration, Error> {
        let find = || -> io::Result<Duration> {
            for task in std::fs::read_dir("/proc/self/task")? {
                let task = task?.path();
                if std::fs::read_to_string(task.join("comm"))?.trim_end() == WORKER {
                    // The first field is the time on a processor, in ns.
                    let times = std::fs::read_to_string(task.join("schedstat"))?;
                    let nanos = times.split(' ').next().and_then(|word| word.parse().ok());
                    return nanos
                        .map(Duration::from_nanos)
                        .ok_or_else(|| ErrorKind::InvalidData.into());
                }
            }
            Err(ErrorKind::NotFound.into())
        };
        find().map_err(|e| Error::new(format!("cannot read the packet loop's processor time: {e}")))
    }

    /// A client and a server for requests and responses.
    ///
    /// # Errors
    ///
    /// Returns an error if a socket cannot be opened.
    pub fn pair(&self) -> Result<RequestPair, Error> {
        let bind = |host: &Host, address: Ipv4Addr| {
            let socket = host.call(|| UdpSocket::bind((address, 0)))?;
            socket.map_err(|e| Error::new(format!("cannot open a socket in the lab: {e}")))
        };
        let (client, server) = (bind(&self.sender, SENDER)?, bind(&self.receiver, RECEIVER)?);
        RequestPair::new(client, server, self.limit)
            .map_err(|e| Error::new(format!("cannot set up sockets in the lab: {e}")))
    }
}

/// A client socket, and a thread with a server socket.
#[derive(Debug)]
pub struct RequestPair {
    client: UdpSocket,
    to: SocketAddr,
    /// The link's rate; `None` without a limit.
    rate: Option<Bandwidth>,
    /// Bytes of a response.
    response: Arc<AtomicUsize>,
    _responder: ThreadBeside,
}

impl RequestPair {
    fn new(client: UdpSocket, server: UdpSocket, rate: Option<Bandwidth>) -> io::Result<Self> {
        client.set_read_timeout(Some(PATIENCE))?;
        server.set_read_timeout(Some(Duration::from_millis(20)))?;
        let to = server.local_addr()?;
        let response = Arc::new(AtomicUsize::new(1));
        let length = Arc::clone(&response);
        let responder = ThreadBeside::start("responder", move |over| {
            let mut buffer = vec![0; 64 << 10];
            while !over() {
                if let Ok((_, peer)) = server.recv_from(&mut buffer) {
                    // A response that cannot be sent is not counted: the client times out.
                    let _ = server.send_to(&buffer[..length.load(Ordering::Relaxed)], peer);
                }
            }
        })?;
        Ok(Self {
            client,
            to,
            rate,
            response,
            _responder: responder,
        })
    }

    /// Twice the transmission time of a request of this length, headers included.
    fn apart(&self, request: usize) -> Duration {
        let on_link = |rate: Bandwidth| rate.time_to_send(Bytes::new(request as u64 + HEADERS));
        Duration::from_nanos(self.rate.map_or(0, |rate| on_link(rate).times(2).nanos()))
    }

    /// The median round-trip time in µs of this many requests in sequence. The pause between them
    /// is long enough for an idle link.
    ///
    /// # Errors
    ///
    /// Returns an error if a socket fails.
    pub fn round_trip(&self, count: usize, request: usize, response: usize) -> Result<f64, Error> {
        self.response.store(response, Ordering::Relaxed);
        let failed = |e: io::Error| Error::new(format!("cannot send a request in the lab: {e}"));
        let (request, mut buffer) = (vec![0; request], vec![0; 64 << 10]);
        let mut times = Vec::with_capacity(count);
        let (mut unanswered, mut before) = (0, Instant::now());
        // The first quarter is warm-up and not counted.
        let warm = count.div_ceil(4);
        while times.len() < count + warm {
            std::thread::sleep(self.apart(request.len()).saturating_sub(before.elapsed()));
            let begin = Instant::now();
            before = begin;
            self.client.send_to(&request, self.to).map_err(failed)?;
            match self.client.recv(&mut buffer) {
                Ok(_) => times.push(begin.elapsed().as_nanos() as f64 / 1e3),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    unanswered += 1;
                    if unanswered > 10 {
                        return Err(Error::new("requests in the lab get no response"));
                    }
                }
                Err(e) => return Err(failed(e)),
            }
        }
        Ok(median(times.split_off(warm)))
    }
}
