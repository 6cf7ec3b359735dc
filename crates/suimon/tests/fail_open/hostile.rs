//! Floods of hostile input through a live pair of ports and at the control socket, while classes
//! keep what they are guaranteed.

use super::load::Kept;
use super::mutate::{InputShape, Mutator};
use super::{HOG, Rig};
use control::socket::Client;
use engine::random::{Rng, Seed};
use lab::Host;
use netio::pool::{Offload, Pool, Slots};
use netio::port::Port;
use netio::ports::af_packet::{self, AfPacket};
use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Frames in a millisecond: less than a build for debugging can take.
const AT_ONCE: u64 = 8;
const IPV4: [u8; 2] = [0x08, 0x00];
const UDP: u8 = 17;
const RSVP: u8 = 46;

/// A sort of flood.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Flood {
    Mutated,
    Tiny,
    ManyFlows,
    Fragments,
    BadChecksums,
    Rsvp,
    ControlSocket,
}

pub const ALL: [Flood; 7] = [
    Flood::Mutated,
    Flood::Tiny,
    Flood::ManyFlows,
    Flood::Fragments,
    Flood::BadChecksums,
    Flood::Rsvp,
    Flood::ControlSocket,
];

impl Flood {
    pub fn name(self) -> &'static str {
        match self {
            Self::Mutated => "mutated frames",
            Self::Tiny => "tiny frames",
            Self::ManyFlows => "many flows",
            Self::Fragments => "fragments",
            Self::BadChecksums => "bad checksums",
            Self::Rsvp => "RSVP that is none",
            Self::ControlSocket => "garbage at the control socket",
        }
    }
}

/// Sends whole frames from a host.
struct Sender {
    port: AfPacket,
    pool: Pool,
    own: [u8; 6],
    other: [u8; 6],
}

impl Sender {
    fn of(host: &Host, other: &Host) -> Self {
        let open = || {
            AfPacket::open(af_packet::Settings {
                receive: false,
                promiscuous: false,
                ..af_packet::Settings::new("eth0")
            })
        };
        let mac = |host: &Host| host.netlink(|n| n.mac("eth0")).expect("an address");
        Self {
            port: host.call(open).expect("a call").expect("a port"),
            pool: Pool::new(Slots { small: 64, big: 64 }).expect("memory"),
            own: mac(host),
            other: mac(other),
        }
    }

    /// A frame of this type. It comes from here, so that the bridge learns nothing wrong; seven of
    /// eight go to the other host.
    fn send(&mut self, rest: &[u8], random: &mut Rng) {
        let to = match random.below(8) {
            0 => [random.below(256) as u8 & 0xfe, 1, 2, 3, 4, 5],
            _ => self.other,
        };
        let frame = [&to, &self.own, rest].concat();
        if let Some(slot) = self
            .pool
            .put(&frame[..frame.len().min(1_514)], Offload::default())
        {
            self.port.transmit(&mut self.pool, slot);
        }
        // What the kernel refuses is lost.
        let _ = self.port.kick(&mut self.pool);
    }
}

/// The files of a fuzz target's corpus.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let files = fs::read_dir(root.join(target)).expect("a corpus");
    let mut paths: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("a file")).collect()
}

/// An IPv4 packet from `a` to `b` with its Ethernet type; `sum` is added to its checksum.
fn ipv4(protocol: u8, fragment: u16, source: [u8; 4], payload: &[u8], sum: u32) -> Vec<u8> {
    let mut header = [0; 20];
    header[0] = 0x45;
    header[2..4].copy_from_slice(&(20 + payload.len() as u16).to_be_bytes());
    header[6..8].copy_from_slice(&fragment.to_be_bytes());
    (header[8], header[9]) = (64, protocol);
    header[12..16].copy_from_slice(&source);
    header[16..].copy_from_slice(&[10, 0, 0, 2]);
    let words = header
        .chunks(2)
        .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let folded = (0..2).fold(words.sum::<u32>(), |all, _| (all & 0xffff) + (all >> 16));
    header[10..12].copy_from_slice(&(!folded as u16).wrapping_add(sum as u16).to_be_bytes());
    [&IPV4, &header[..], payload].concat()
}

/// UDP without a checksum of its own.
fn udp(from: u16, to: u16, payload: usize) -> Vec<u8> {
    let length = 8 + payload as u16;
    let words = [from, to, length, 0].map(u16::to_be_bytes).concat();
    [words, vec![5; payload]].concat()
}

/// Words of requests that whoever may ask has a right to: what they do is no garbage.
const OBEYED: [&[u8]; 6] = [b"detach", b"disable", b"apply", b"rollback", b"set", b"class"];

fn is_obeyed(input: &[u8]) -> bool {
    let has = |word: &&[u8]| input.windows(word.len()).any(|part| part == *word);
    OBEYED.iter().any(has)
}

/// What is sent of a flood, by its number.
struct Source {
    flood: Flood,
    seed: u64,
    mutator: Mutator,
}

impl Source {
    fn of(flood: Flood, seed: u64) -> Self {
        let target = match flood {
            Flood::Rsvp => "rsvp_wire",
            Flood::ControlSocket => "control_socket",
            _ => "frames",
        };
        Self {
            flood,
            seed,
            mutator: Mutator::new(InputShape::Binary(1_480), corpus(target)),
        }
    }

    /// A frame without its addresses; of the control socket what is written there.
    fn input(&self, number: u64, random: &mut Rng) -> Vec<u8> {
        const FROM: [u8; 4] = [10, 0, 0, 1];
        let port = |random: &mut Rng| 1_024 + random.below(60_000) as u16;
        match self.flood {
            Flood::Mutated => {
                let frame = self.mutator.input(self.seed, number);
                frame.get(12..).unwrap_or_default().to_vec()
            }
            Flood::ControlSocket => self.mutator.input(self.seed, number),
            Flood::Rsvp => ipv4(RSVP, 0, FROM, &self.mutator.input(self.seed, number), 0),
            Flood::Tiny => ipv4(UDP, 0, FROM, &udp(7, HOG, 0), 0),
            Flood::ManyFlows => {
                let source = [10, 1, random.below(256) as u8, random.below(256) as u8];
                ipv4(UDP, 0, source, &udp(port(random), port(random), 40), 0)
            }
            Flood::Fragments => {
                let at = random.below(1 << 13) as u16 | (random.below(2) as u16) << 13;
                ipv4(UDP, at, FROM, &udp(port(random), HOG, 64), 0)
            }
            Flood::BadChecksums => {
                let wrong = 1 + random.below(60_000) as u32;
                ipv4(UDP, 0, FROM, &udp(port(random), HOG, 64), wrong)
            }
        }
    }
}

/// The packets that classes without a guarantee to be judged have had.
fn taken(rig: &Rig) -> u64 {
    let mut client = Client::connect(Some(&rig.socket())).expect("it answers");
    let snapshot = client.status(Duration::ZERO, false).expect("a status");
    let classes = snapshot.interfaces[0].classes.iter();
    let others = classes.filter(|class| ["hog", "rest"].contains(&&*class.name));
    let packets = others.map(|class| {
        let traffic = &class.traffic;
        traffic.sent_packets + traffic.dropped_packets + traffic.backlog_packets
    });
    packets.sum()
}

/// Sends so many inputs of a flood, in both directions, and says what the load felt of it.
pub fn flood(rig: &Rig, flood: Flood, seed: u64, inputs: u64) -> Kept {
    let source = Source::of(flood, seed);
    let mut random = Seed(seed).stream();
    let mut senders = [Sender::of(&rig.a, &rig.b), Sender::of(&rig.b, &rig.a)];
    // Of the control socket, those that are not closed yet.
    let mut open: Vec<UnixStream> = Vec::new();
    rig.load.forget();
    let before = taken(rig);
    let (begun, mut due) = (Instant::now(), Instant::now());
    for number in 0..inputs {
        if number % AT_ONCE == 0 {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            due = (due + Duration::from_millis(1)).max(Instant::now());
        }
        let input = source.input(number, &mut random);
        if flood == Flood::ControlSocket {
            if is_obeyed(&input) {
                continue;
            }
            let socket = UnixStream::connect(rig.socket()).expect("it accepts");
            socket.set_nonblocking(true).expect("set");
            // It may have refused it before all is written.
            let _ = (&socket).write(&input);
            open.push(socket);
            if open.len() == 40 {
                open.clear();
            }
        } else {
            senders[usize::from(number % 4 == 3)].send(&input, &mut random);
        }
    }
    let kept = rig.load.kept_since(begun);
    let through = taken(rig) - before;
    // Those of one direction, but for what is for nobody.
    let expected = inputs / 2;
    assert!(
        flood == Flood::ControlSocket || through >= expected,
        "only {through} went through it"
    );
    kept
}
