//! P7: the host cost of pacing by gap frames (Takano et al. 2004, section 4.4, Table 6): the memory
//! bandwidth left to a copying program while the host sends nothing, half the rate, half the rate
//! paced, and the full rate.
//!
//! One thread copies between two buffers larger than any cache. Another is a worker of `suimon run`
//! that sends full frames onto a modelled wire: at half the rate by its clock, paced with gap
//! frames, or as fast as the wire takes them. The wire reads each frame's bytes once, as a card
//! does by DMA. Here a processor does it, so its time counts as the worker's.

use super::rounds::Rounds;
use super::testbed::interface;
use super::{ChartFile, ClaimVerdict, Experiment, ExperimentOutcome, Options, Progress, Row, RowValue};
use crate::Error;
use engine::packet::Buffer;
use engine::units::{Bandwidth, Duration};
use gateway::direction;
use netio::clock;
use netio::handle::WorkerSnapshot;
use netio::pool::{Offload, Pool, Slots};
use netio::port::{Capabilities, Counters, Port, PortError, Wake};
use netio::ports::model_wire::ModelWire;
use netio::realiser::Realiser;
use netio::realiser::gap::{GapFrame, GapFrames};
use netio::worker::{Settings, Worker};
use plot::bars::{Bar, Bars, Group};
use plot::{Axis, AxisUnit};
use std::fs::File;
use std::hint::black_box;
use std::os::fd::AsFd;

/// The experiment.
pub const P7: Experiment = Experiment {
    id: "P7",
    title: "What gap frames cost the host: memory bandwidth left to a copy, and processor time",
    reference: "Takano et al. 2004, section 4.4, Table 6",
    run,
};

/// The sending load while the other thread copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Load {
    Nothing,
    Half,
    Paced,
    Full,
}

const LOADS: [(Load, &str, f64); 4] = [
    (Load::Nothing, "alone", 1935.5),
    (Load::Half, "half rate", 1236.3),
    (Load::Paced, "half rate, paced", 1043.0),
    (Load::Full, "full rate", 923.0),
];
const WIRES: [(Bandwidth, &str); 2] = [
    (Bandwidth::gbit(1), "1 Gbit/s"),
    (Bandwidth::gbit(10), "10 Gbit/s"),
];
const MTU: usize = 1_500;
const FRAME: usize = 1_514;
/// The usual ring size of a card.
const RING: usize = 256;
/// The maximum backlog in front of the wire, in frames.
const WAITING: u32 = 1_024;
/// Larger than any cache.
const COPIED: usize = 64 << 20;
/// Bytes copied between two readings of the clock.
const PIECE: usize = 1 << 20;
const FROM: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// A port that always has frames to receive: the traffic of the host's programs.
#[derive(Debug)]
struct Feed {
    frame: Vec<u8>,
    counters: Counters,
    /// Never readable: the port has frames whenever there is room.
    nothing: File,
}

impl Port for Feed {
    fn name(&self) -> &str {
        "programs"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::plain(MTU, 1)
    }

    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Buffer>) -> Result<(), PortError> {
        const BATCH: u32 = 64;
        let room = WAITING.saturating_sub(pool.usage()[0].used).min(BATCH);
        for _ in 0..room {
            into.extend(pool.put(&self.frame, Offload::default()));
        }
        self.counters.received += u64::from(room);
        Ok(())
    }

    fn room(&self) -> usize {
        0
    }

    fn transmit(&mut self, pool: &mut Pool, frame: Buffer) {
        pool.free(frame);
    }

    fn kick(&mut self, _pool: &mut Pool) -> Result<(), PortError> {
        Ok(())
    }

    fn wake(&self, _room: bool) -> Option<Wake<'_>> {
        Some(Wake {
            fd: self.nothing.as_fd(),
            events: 0,
            retry: Some(Duration::from_micros(100)),
        })
    }

    fn revive(&mut self, _pool: &mut Pool) -> Result<(), PortError> {
        Ok(())
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

/// A program's UDP frame.
fn frame() -> Vec<u8> {
    let mut frame = vec![0x5a; FRAME];
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14..16].copy_from_slice(&[0x45, 0]);
    frame[16..18].copy_from_slice(&(MTU as u16).to_be_bytes());
    frame[20..22].fill(0);
    frame[23] = 17;
    frame
}

fn policy(load: Load, wire: Bandwidth) -> String {
    // Half of the slots: the frame takes 1518 of 3076 byte times.
    let half = wire.bits() / 2;
    let (bandwidth, discipline, class) = match load {
        Load::Paced => {
            let class = format!(
                "[[interface.out.class]]\nname = \"all\"\ndefault = true\nrate = \"{half} bit/s\"\n\
                 discipline = {{ kind = \"fifo\", limit = 10000 }}\n"
            );
            (
                wire.bits(),
                "{ kind = \"pacer\", gap = \"frames\", basis = \"wire\" }",
                class,
            )
        }
        Load::Half => (half, "{ kind = \"fifo\", limit = 10000 }", String::new()),
        Load::Nothing | Load::Full => (wire.bits(), "{ kind = \"fifo\", limit = 10000 }", String::new()),
    };
    // Unpaced lengths are slots, so half the rate is half the wire.
    let overhead = if load == Load::Paced { 0 } else { 24 };
    format!(
        "version = 1\n[interface.out]\nbandwidth = \"{bandwidth} bit/s\"\noverhead = \"{overhead} B\"\n\
         discipline = {discipline}\n{class}"
    )
}

/// The measurement under one load.
#[derive(Clone, Copy, Debug, Default)]
struct LoadMeasurement {
    /// MB copied per second of the copying thread's processor time.
    copied: f64,
    /// The worker's processor use, in per cent.
    busy: f64,
    /// Frames per second, and gap frames per second.
    frames: f64,
    gaps: f64,
}

impl LoadMeasurement {
    /// The worker's processor time per frame on the wire, in ns.
    fn each(&self) -> f64 {
        self.busy * 1e7 / (self.frames + self.gaps).max(1.0)
    }
}

fn measure(
    load: Load,
    wire: Bandwidth,
    length: Duration,
    buffers: &mut [Vec<u8>; 2],
) -> Result<LoadMeasurement, Error> {
    let failed = |e: std::io::Error| Error::new(format!("cannot make room for packets: {e}"));
    if load == Load::Nothing {
        return Ok(LoadMeasurement {
            copied: copy(length, buffers).0,
            ..LoadMeasurement::default()
        });
    }
    let mut port = ModelWire::new("out", wire, RING).map_err(failed)?;
    let realiser = (load == Load::Paced).then(|| {
        let mut gaps = GapFrames::new(GapFrame::Pause, FROM, wire, MTU);
        gaps.attach(&mut port)
            .map(|()| Box::new(gaps) as Box<dyn Realiser>)
    });
    let realiser = realiser.transpose().map_err(|why| Error::new(why.to_string()))?;
    let slots = Slots { small: 4_096, big: 4 };
    let (mut worker, handle) = Worker::new(Settings {
        slots,
        // Other users of the machine must not affect the result.
        realtime: true,
        ..Settings::default()
    })
    .map_err(failed)?;
    let feed = Feed {
        frame: frame(),
        counters: Counters::default(),
        nothing: File::open("/dev/null").map_err(failed)?,
    };
    let (from, to) = (worker.add_port(Box::new(feed)), worker.add_port(Box::new(port)));
    let mut path = direction::managed(&interface(&policy(load, wire))?, from, to);
    path.realiser = realiser;
    if load == Load::Full {
        // The wire sets the rate.
        path.bandwidth = None;
    }
    worker.add_path(path);
    let running = std::thread::spawn(move || worker.run());
    let unanswered = |e: netio::handle::Unanswered| Error::new(e.to_string());
    let before = (handle.inspect().map_err(unanswered)?, clock::processor_time());
    let (copied, own) = copy(length, buffers);
    let after = (handle.inspect().map_err(unanswered)?, clock::processor_time());
    handle.stop();
    running
        .join()
        .map_err(|_| Error::new("the packet loop has failed"))?;
    // This process's time less the copying thread's is the worker's.
    let worker = (after.1 - before.1) - own;
    Ok(reading(copied, worker, &before.0, &after.0))
}

fn reading(
    copied: f64,
    worker: Duration,
    before: &WorkerSnapshot,
    after: &WorkerSnapshot,
) -> LoadMeasurement {
    let span = after.at.since(before.at).as_secs_f64();
    let gone = |of: &dyn Fn(&WorkerSnapshot) -> f64| (of(after) - of(before)) / span;
    let gaps = |snapshot: &WorkerSnapshot| {
        let realised = snapshot.paths[0].realised.as_ref();
        realised.map_or(0.0, |realised| realised.achieved.gaps.packets as f64)
    };
    LoadMeasurement {
        copied,
        busy: worker.as_secs_f64() / span * 100.0,
        frames: gone(&|snapshot| snapshot.paths[0].totals.sent.packets as f64),
        gaps: gone(&gaps),
    }
}

/// Copies for this long. Returns MB/s of this thread's processor time, and that time.
fn copy(length: Duration, [from, to]: &mut [Vec<u8>; 2]) -> (f64, Duration) {
    let (begin, own) = (clock::now(), clock::thread_time());
    let (mut bytes, mut at) = (0usize, 0usize);
    while clock::now().since(begin) < length {
        to[at..at + PIECE].copy_from_slice(&from[at..at + PIECE]);
        black_box(&to[at]);
        (bytes, at) = (bytes + PIECE, (at + PIECE) % COPIED);
    }
    let own = clock::thread_time() - own;
    (bytes as f64 / own.as_secs_f64().max(1e-9) / 1e6, own)
}

/// The measurements on one wire: copy rate, processor time and frames of each load by round, and
/// the last readings.
#[derive(Debug, Default)]
struct WireMeasurements {
    copied: Rounds,
    busy: Rounds,
    /// Frames and gap frames per second.
    slots: Rounds,
    last: [LoadMeasurement; 4],
}

fn rounds(
    wire: Bandwidth,
    number: usize,
    length: Duration,
    mut on_round: impl FnMut(usize),
) -> Result<WireMeasurements, Error> {
    let mut buffers = [vec![1u8; COPIED], vec![2u8; COPIED]];
    let mut measurements = WireMeasurements::default();
    for round in 0..number {
        on_round(round);
        for (index, (load, ..)) in LOADS.iter().enumerate() {
            measurements.last[index] = measure(*load, wire, length, &mut buffers)?;
        }
        measurements
            .copied
            .push(measurements.last.map(|reading| reading.copied).to_vec());
        measurements
            .busy
            .push(measurements.last.map(|reading| reading.busy).to_vec());
        measurements.slots.push(
            measurements
                .last
                .map(|reading| reading.frames + reading.gaps)
                .to_vec(),
        );
    }
    Ok(measurements)
}

fn run(options: &Options, progress: &mut dyn Progress) -> Result<ExperimentOutcome, Error> {
    let (number, length) = if options.quick { (7, 50) } else { (21, 100) };
    let length = Duration::from_millis(length);
    let (mut rows, mut groups, mut remarks) = (Vec::new(), Vec::new(), vec![REMARK.to_string()]);
    if cfg!(debug_assertions) {
        remarks.push(UNOPTIMISED.into());
    }
    for (index, (wire, name)) in WIRES.into_iter().enumerate() {
        let measurements = rounds(wire, number, length, |round| {
            let done = (index * number + round) as f64 / (WIRES.len() * number) as f64;
            progress.show(done, name);
        })?;
        rows.extend(judged(name, &measurements));
        groups.push(group(name, &measurements));
        remarks.push(summary(name, &measurements));
    }
    let picture = Bars {
        title: "Memory bandwidth left to a copy while the host sends".into(),
        axis: Axis::new("", AxisUnit::Number("MB/s")),
        groups,
    };
    Ok(ExperimentOutcome {
        rows,
        charts: vec![ChartFile {
            name: "copies".into(),
            svg: picture.picture(),
        }],
        remarks,
    })
}

/// Indices of the loads.
const ALONE: usize = 0;
const HALF: usize = 1;
const PACED: usize = 2;
const FULL: usize = 3;

fn judged(name: &str, measurements: &WireMeasurements) -> Vec<Row> {
    let copied = LOADS.into_iter().enumerate().map(|(index, (_, load, paper))| {
        let times = measurements.copied.times(index, ALONE) * 100.0;
        row(
            format!("{name}: copied, {load}"),
            paper.into(),
            measurements.copied.of(index),
            "MB/s",
            ClaimVerdict::Orientation,
            format!("{times:.1} % of alone."),
        )
    });
    let mut rows = vec![between(name, &measurements.copied)];
    rows.extend(copied);
    let slots = measurements.slots.times(PACED, FULL) * 100.0;
    rows.push(row(
        format!("{name}: frames and gap frames on the wire, paced, of those at full rate"),
        100.0.into(),
        slots,
        "%",
        (slots - 100.0).abs() <= 5.0,
        "Required: as many, within 5 %: the wire is always full, as in the paper.".into(),
    ));
    rows.push(processor_time(name, measurements));
    rows
}

/// The least part of the copy's rate that sending at the full rate must cost for the paper's order
/// to be seen.
const VISIBLE: f64 = 0.1;

/// The paper's claim: the copy beside paced sending lies between that beside half the rate and that
/// beside the full rate.
fn between(name: &str, copied: &Rounds) -> Row {
    let paper = |index: usize| LOADS[index].2 / LOADS[ALONE].2 * 100.0;
    let cost = 1.0 - copied.times(FULL, ALONE);
    let doubt = copied.doubt_of_times(FULL, ALONE);
    let (verdict, note) = match cost >= VISIBLE && cost > 2.0 * doubt {
        true => {
            let least = copied.times(PACED, FULL) + copied.doubt_of_times(PACED, FULL);
            let most = copied.times(PACED, HALF) - copied.doubt_of_times(PACED, HALF);
            let note =
                "Required: not less than beside the full rate, and not more than beside half the rate.";
            ((least >= 1.0 && most <= 1.0).into(), note.to_string())
        }
        false => (
            ClaimVerdict::CannotBeShown,
            format!(
                "sending at the full rate costs a copy {:.1} % ± {:.1} of its rate here, and {:.1} % in the paper, where the card's DMA and the \
                 copy shared one memory bus of 1.9 GB/s. No card reads this machine's memory; what lies between nothing and so little cannot \
                 be told apart",
                cost * 100.0,
                doubt * 100.0,
                100.0 - paper(FULL),
            ),
        ),
    };
    row(
        format!("{name}: the copy beside paced sending, of the copy alone"),
        paper(PACED).into(),
        copied.times(PACED, ALONE) * 100.0,
        "%",
        verdict,
        note,
    )
}

fn processor_time(name: &str, measurements: &WireMeasurements) -> Row {
    let [_, half, paced, full] = measurements.last;
    let more = (measurements.busy.times(PACED, FULL) - 1.0) * 100.0;
    let doubt = measurements.busy.doubt_of_times(PACED, FULL) * 100.0;
    row(
        format!("{name}: the worker's processor time, paced, above that of full-rate sending"),
        "less".into(),
        more,
        "%",
        more - doubt <= 10.0 && paced.gaps > 0.0,
        format!(
            "Required: at most a tenth, plus the scatter of ± {doubt:.1}: a gap frame costs no more than a frame. Half rate by the worker's \
             clock: {:.2} % of one processor, {:.0} ns for each frame in the last round; paced: {:.2} %, {:.0} ns for each frame or gap \
             frame; full rate: {:.2} %, {:.0} ns for each. This includes the modelled card's reading of the bytes, which takes no processor \
             time with a real card.",
            measurements.busy.of(HALF),
            half.each(),
            measurements.busy.of(PACED),
            paced.each(),
            measurements.busy.of(FULL),
            full.each(),
        ),
    )
}

fn row(
    what: String,
    paper: RowValue,
    ours: f64,
    unit: &str,
    verdict: impl Into<ClaimVerdict>,
    note: String,
) -> Row {
    Row {
        what,
        paper,
        ours: ((ours * 100.0).round() / 100.0).into(),
        unit: unit.into(),
        verdict: verdict.into(),
        note,
    }
}

fn group(name: &str, measurements: &WireMeasurements) -> Group {
    let bars = LOADS.into_iter().enumerate().map(|(index, (_, load, _))| Bar {
        name: load.into(),
        value: measurements.copied.of(index),
        ..Bar::default()
    });
    Group {
        name: format!("wire of {name}"),
        bars: bars.collect(),
    }
}

fn summary(name: &str, measurements: &WireMeasurements) -> String {
    let frames = LOADS
        .into_iter()
        .zip(measurements.last)
        .skip(1)
        .map(|((_, load, _), reading)| {
            format!("{load} {:.0} and {:.0} gap frames", reading.frames, reading.gaps)
        });
    format!(
        "{name}: frames per second in the last round: {}.",
        frames.collect::<Vec<_>>().join("; ")
    )
}

const UNOPTIMISED: &str =
    "Measured with a build for development: a frame costs the worker more than in a release build.";

const REMARK: &str = "Measured on this machine, without a card. The wire is modelled: a processor reads \
    the bytes of each frame once, where a card uses DMA. MB/s are per second of the copying thread's own \
    processor time, so other users of the processors do not affect them; other users of the memory do. The \
    paper's host had one memory bus of 1.9 GB/s, and Gigabit Ethernet at the full rate took half of it; \
    here the same wire takes a few per cent of one thread's copy rate, so the differences are within the \
    noise from the machine's other users. Gap frames take no memory of their own: each is the beginning of \
    one frame of 1514 bytes, which the port received once. Their cost is a full wire: its bytes are read \
    whether they carry data or not, as the paper found too.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_judged_only_where_sending_costs_the_copy_something() {
        let verdict = |round: [f64; 4]| {
            let mut copied = Rounds::default();
            (0..7).for_each(|_| copied.push(round.to_vec()));
            between("1 Gbit/s", &copied).verdict
        };
        assert_eq!(verdict([1935.5, 1236.3, 1043.0, 923.0]), ClaimVerdict::Shown);
        assert_eq!(verdict([1935.5, 1236.3, 900.0, 923.0]), ClaimVerdict::NotShown);
        assert_eq!(verdict([1935.5, 1236.3, 1300.0, 923.0]), ClaimVerdict::NotShown);
        assert_eq!(
            verdict([1935.5, 1930.0, 1920.0, 1900.0]),
            ClaimVerdict::CannotBeShown
        );
    }

    #[test]
    fn each_load_sends_at_its_rate() {
        let mut buffers = [vec![1u8; COPIED], vec![2u8; COPIED]];
        let wire = Bandwidth::mbit(100);
        let mut read = |load| {
            let reading = measure(load, wire, Duration::from_millis(120), &mut buffers);
            reading.unwrap_or_else(|e| panic!("{}", e))
        };
        // At most 8127 slots of 1538 bytes per second, plus what the ring takes in. A busy machine
        // sends fewer.
        let all = 100e6 / 8.0 / 1_538.0;
        let most = |share: f64| all * share + 2.0 * RING as f64 / 0.12;
        let (half, paced, full) = (read(Load::Half), read(Load::Paced), read(Load::Full));
        assert!(
            half.frames > 0.0 && half.frames <= most(0.5) && half.gaps == 0.0,
            "{half:?}"
        );
        assert!(
            paced.gaps > 0.0 && paced.frames <= most(0.5) && paced.frames + paced.gaps <= most(1.0),
            "{paced:?}"
        );
        assert!(full.frames > half.frames && full.gaps == 0.0, "{full:?}");
        assert!(read(Load::Nothing).copied > 0.0);
    }
}
