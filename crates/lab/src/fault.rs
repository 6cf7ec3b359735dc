//! A fault: an interface that is there already behaves as if it were behind a bad link, while this
//! process lives.
//!
//! What the interface receives and what is sent on it each make a [`Detour`] over one direction of
//! an [emulator](crate::emulator). Faults at one interface compose, since detours do; none knows of
//! the others. When the process ends, however it does, the kernel detaches the programs and frames
//! take their usual path.
//!
//! A fault is [proven](LinkFault::prove) by frames of our own: put before the hooks, they must have
//! been taken by our queues, and come out behind the hooks, none before its delay.

use crate::emulator::{EmulatedDirection, Emulator};
use crate::error::{Doing, Error, Result};
use engine::units::{Duration, Instant};
use netio::bpf::Means;
use netio::bpf::syscall::{Hook, HookPlace};
use netio::clock;
use netio::fail_open::{self, Pulse};
use netio::handle::WorkerSnapshot;
use netio::port::{Port, PortError};
use netio::ports::detour::Detour;
use netio::ports::hook_probe::HookProbe;

/// The directions, in the order of their paths: what the interface receives, what is sent on it.
pub const WAYS: [&str; 2] = ["received", "sent"];
const HOOKS: [Hook; 2] = [Hook::Ingress, Hook::Egress];

/// Frames in flight between a link and its TAP at most.
const TRANSMIT_RING: usize = 256;
/// After so long a silence of a process that hangs, frames take their usual path. A dead one has no
/// programs. Shorter, and a busy machine would be without the fault at times.
const SILENCE: Duration = Duration::from_millis(500);
/// A proof is tried so often: frames go past a machine that stood still for longer than that.
const TRIES: usize = 3;
/// How many frames prove each direction, and the time between two of them.
const PROBES: u32 = 20;
const APART: std::time::Duration = std::time::Duration::from_millis(2);
/// What may pass beyond the delay and the buffer until the last one has come.
const GRACE: Duration = Duration::from_secs(1);
/// A buffer is waited for at most so long: who has filled a longer one sees the loss of probes.
const FULL_BUFFER: Duration = Duration::from_secs(5);

/// A fault in force. Dropping it, or the end of this process, ends it.
#[derive(Debug)]
pub struct LinkFault {
    links: Emulator,
    interface: String,
    expected: [Expected; 2],
}

/// What a direction does to a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Expected {
    /// None comes earlier.
    delay: Duration,
    /// None comes later, if the buffer is not fuller than that.
    latest: Duration,
}

/// What became of the frames that prove one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FaultProof {
    /// How many there were.
    pub probes: u32,
    /// How many came out.
    pub came: u32,
    /// How long the fastest and the slowest of these took, as it was noticed.
    pub took: Option<[Duration; 2]>,
}

impl LinkFault {
    /// Puts an interface of the calling thread's network namespace behind these links: what it
    /// receives, and what is sent on it.
    ///
    /// # Errors
    /// If there is no such interface, the kernel is older than Linux 6.6, or it refuses a TAP or a
    /// program.
    pub fn begin(interface: &str, ways: [EmulatedDirection; 2]) -> Result<Self> {
        let open = |hook| -> std::result::Result<(Box<dyn Port>, Pulse), PortError> {
            let detour = Detour::open(interface, hook, HookPlace::First, TRANSMIT_RING)?;
            let (port, pulse) = fail_open::single(detour, SILENCE, Means::Best)?;
            Ok((Box::new(port), pulse))
        };
        let failed = |why: PortError| refused(interface, &why);
        let [received, sent] = HOOKS.map(open);
        let ports = [received.map_err(failed)?, sent.map_err(failed)?];
        let expected = [&ways[0], &ways[1]].map(Expected::of);
        Ok(Self {
            links: Emulator::detours(interface, WAYS, ports, ways)?,
            interface: interface.to_owned(),
            expected,
        })
    }

    /// Its interface.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// What has passed, with the paths in the order of [`WAYS`].
    ///
    /// # Errors
    /// If its thread has ended or does not answer.
    pub fn inspect(&self) -> Result<WorkerSnapshot> {
        let answer = self.links.inspect();
        answer.map_err(|why| {
            Error::other(
                format!("look at the fault of {}", self.interface),
                why.to_string(),
            )
        })
    }

    /// Ends it: what is queued is sent, for half a second at most. What has passed.
    pub fn end(self) -> Option<WorkerSnapshot> {
        self.links.end()
    }

    /// Proves that it works. Both directions are tried at once.
    ///
    /// # Errors
    /// If frames went past it, came too early, or did not come though none was lost on the link.
    pub fn prove(&self) -> Result<[FaultProof; 2]> {
        for _ in 1..TRIES {
            if let Ok(proof) = self.try_to_prove() {
                return Ok(proof);
            }
        }
        self.try_to_prove()
    }

    fn try_to_prove(&self) -> Result<[FaultProof; 2]> {
        let doing = || format!("prove the fault of {}", self.interface);
        let failed = |why: PortError| refused(&self.interface, &why);
        let mut tried = Vec::new();
        for hook in HOOKS {
            tried.push(Tried::new(
                HookProbe::open(&self.interface, hook).map_err(failed)?,
            ));
        }
        let before = self.inspect()?;
        for number in 0..PROBES {
            for one in &mut tried {
                one.send(number).doing(doing)?;
            }
            std::thread::sleep(APART);
            for one in &mut tried {
                one.look().doing(doing)?;
            }
        }
        let until = clock::now() + self.expected[0].latest.max(self.expected[1].latest) + GRACE;
        while tried.iter().any(|one| !one.all_came()) && clock::now() < until {
            std::thread::sleep(APART);
            for one in &mut tried {
                one.look().doing(doing)?;
            }
        }
        let after = self.inspect()?;
        let judge = |way: usize| {
            let [before, after] = [&before, &after].map(|at| Passed::of(at, way));
            let proof = tried[way].proof();
            let wrong = proof.mistake(
                self.expected[way].delay,
                after.taken - before.taken,
                after.lost - before.lost,
            );
            match wrong {
                None => Ok(proof),
                Some(why) => Err(Error::other(doing(), format!("of what is {}: {why}", WAYS[way]))),
            }
        };
        Ok([judge(0)?, judge(1)?])
    }
}

/// Why a fault could not be made, with what to do about it.
fn refused(interface: &str, why: &PortError) -> Error {
    let error = Error::other(format!("put a fault on {interface}"), why.to_string());
    let forbidden = why.fault == netio::port::Fault::Forbidden;
    let no_tap = why.to_string().contains("/dev/net/tun");
    match (forbidden, no_tap) {
        (true, _) => error.help("it needs root on this machine: run it by sudo"),
        (_, true) => error.help("`modprobe tun` makes it; a container needs `--device /dev/net/tun`"),
        _ => error,
    }
}

impl Expected {
    fn of(way: &EmulatedDirection) -> Self {
        let link = way.link();
        // A trace has delays of its own.
        let delay = link.trace.as_ref().map_or(link.delay, |_| Duration::ZERO);
        let longest = link.trace.as_ref().map_or(link.delay, |trace| {
            Duration::from_nanos(trace.longest_delay().nanos()).max(link.delay)
        });
        let drained = link.rate.time_to_send(link.buffer).min(FULL_BUFFER);
        Self {
            delay,
            latest: longest + link.impairments.latest() + drained,
        }
    }
}

/// What a direction has done.
struct Passed {
    /// Packets offered to its queue.
    taken: u64,
    /// Lost in the queue or on the wire, or damaged there.
    lost: u64,
}

impl Passed {
    fn of(snapshot: &WorkerSnapshot, way: usize) -> Self {
        let path = &snapshot.paths[way];
        let wire = path.impaired.unwrap_or_default();
        Self {
            taken: path.totals.offered.packets,
            lost: path.totals.dropped.packets + wire.corrupted,
        }
    }
}

/// The frames that prove one direction.
#[derive(Debug)]
struct Tried {
    probe: HookProbe,
    sent: Vec<Instant>,
    took: Vec<Option<Duration>>,
}

impl Tried {
    fn new(probe: HookProbe) -> Self {
        Self {
            probe,
            sent: Vec::new(),
            took: Vec::new(),
        }
    }

    fn send(&mut self, number: u32) -> std::io::Result<()> {
        self.sent.push(clock::now());
        self.took.push(None);
        self.probe.send(number)
    }

    fn look(&mut self) -> std::io::Result<()> {
        while let Some(number) = self.probe.next_seen()? {
            let number = number as usize;
            if let (Some(sent), Some(took @ None)) = (self.sent.get(number), self.took.get_mut(number)) {
                *took = Some(clock::now().since(*sent));
            }
        }
        Ok(())
    }

    fn all_came(&self) -> bool {
        self.took.iter().all(Option::is_some)
    }

    fn proof(&self) -> FaultProof {
        let times = || self.took.iter().flatten().copied();
        FaultProof {
            probes: self.sent.len() as u32,
            came: times().count() as u32,
            took: times()
                .min()
                .zip(times().max())
                .map(|(least, most)| [least, most]),
        }
    }
}

impl FaultProof {
    /// What refutes that each probe was delayed so, where the queue has taken so many frames and
    /// the link has lost so many of them meanwhile.
    fn mistake(&self, delay: Duration, taken: u64, lost: u64) -> Option<String> {
        if taken < u64::from(self.probes) {
            return Some(format!("the link was given {taken} of {} probes", self.probes));
        }
        match self.took {
            Some([least, _]) if least < delay => {
                Some(format!("a probe came after {least}, before its delay of {delay}"))
            }
            None if lost < u64::from(self.probes) => Some(format!(
                "none of {} probes came, and the link has lost {lost}: something behind it loses them",
                self.probes
            )),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_that_went_past_came_early_or_vanished_elsewhere_prove_nothing() {
        let ms = Duration::from_millis;
        let came = |took| FaultProof {
            probes: 20,
            came: 20,
            took,
        };
        let good = came(Some([ms(50), ms(60)]));
        assert_eq!(good.mistake(ms(50), 20, 0), None);
        assert!(good.mistake(ms(50), 19, 0).is_some(), "one went past");
        assert!(good.mistake(ms(51), 20, 0).is_some(), "one came early");
        assert!(came(None).mistake(ms(50), 20, 19).is_some(), "one vanished");
        assert_eq!(
            came(None).mistake(ms(50), 20, 20),
            None,
            "all are lost on the link"
        );
    }
}
