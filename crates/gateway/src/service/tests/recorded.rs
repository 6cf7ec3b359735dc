//! What passes a running worker is recorded, saved, and done again from the file.

use super::*;
use crate::recording::{Around, Recording};
use engine::framing::Framing;
use engine::queue::Stats;
use netio::pool::Offload;
use netio::ports::memory::OnWire;
use netio::replay::tape::CHUNK;
use std::ops::Range;

fn two_classes(limit: u32, low: u16) -> String {
    format!(
        "version = 1\n[interface.wan0]\nbandwidth = \"10 Mbit/s\"\ndiscipline = \"drr\"\n\
         [[interface.wan0.class]]\nname = \"few\"\ndiscipline = {{ kind = \"fifo\", limit = {limit} }}\n\
         [[interface.wan0.class]]\nname = \"rest\"\ndefault = true\n\
         discipline = {{ kind = \"fq_codel\", limit = {limit} }}\n\
         [[interface.wan0.filter]]\nclass = \"few\"\nprotocol = \"udp\"\ndestination_port = \"{low}-9999\"\n"
    )
}

/// A frame of UDP with this number, to one of eight ports.
fn numbered(number: u16) -> [u8; 1_000] {
    let mut frame = [0; 1_000];
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14..18].copy_from_slice(&[0x45, 0, 3, 218]);
    frame[18..20].copy_from_slice(&number.to_be_bytes());
    (frame[22], frame[23], frame[33]) = (64, 17, 1);
    frame[36..38].copy_from_slice(&(1_000 * (1 + number % 8)).to_be_bytes());
    frame
}

/// Takes what has left, until nothing does for a while.
fn take_all(output: &Memory, left: &mut Vec<u16>) {
    let mut quiet = std::time::Instant::now();
    while quiet.elapsed() < Duration::from_millis(100) {
        match output.take() {
            Some(OnWire { bytes: frame, .. }) => {
                left.push(u16::from_be_bytes([frame[18], frame[19]]));
                quiet = std::time::Instant::now();
            }
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Bursts that lose packets, a setting changed, filters and disciplines changed while packets
/// wait, and a port that has no room for a time: read from the file, the same packets leave in
/// the same order at the times of the tape, and as many are dropped.
#[test]
fn a_recorded_incident_is_done_again_packet_by_packet() {
    let text = two_classes(40, 5_000);
    let policy = Policy::read("test", &text, &Registry::builtin(), &[]).expect("a policy");
    let file = std::env::temp_dir().join(format!("suimon-recorded-{}.toml", std::process::id()));
    std::fs::write(&file, two_classes(30, 2_000)).expect("written");
    let (service, handle, thread, [input, output]) = served_between(&policy);
    service.end_recording(None).expect_err("it is not recorded");
    service.record(None, 1_000).expect_err("too little");
    service.record(None, 1 << 20).expect("it begins");
    service.record(None, 1 << 20).expect_err("it is recorded already");
    let (mut number, mut left) = (0, Vec::new());
    let mut send = |packets: u16| {
        for _ in 0..packets {
            input.send(&numbered(number), Offload::default());
            number += 1;
        }
    };
    // A stretch begins once a tree was offered and a packet has left.
    while service.recorded(None).is_err() {
        send(1);
        take_all(&output, &mut left);
    }
    let before = left.len();
    send(120);
    let weight = [("weight".to_owned(), SettingChange::Integer(3))];
    let wanted = SettingChanges {
        interface: "wan0".into(),
        class: Some("few".into()),
        changes: weight.into(),
        until_ms: None,
        reason: None,
    };
    service
        .set(&wanted, Provenance::default())
        .expect("a good weight");
    std::thread::sleep(Duration::from_millis(5));
    service
        .apply(&file, None, Breaking::Refused, Provenance::default(), &|| false)
        .expect("a policy");
    send(200);
    // Nothing is taken meanwhile.
    std::thread::sleep(Duration::from_millis(60));
    take_all(&output, &mut left);
    let dropped = handle.inspect().expect("an answer").paths[0]
        .totals
        .dropped
        .packets;
    let saved = service.recorded(None).expect("a recording");
    let mut bytes = Vec::new();
    saved.write(&mut bytes).expect("written");
    assert_eq!(bytes.len() as u64, saved.bytes());
    let recording = Recording::read(&mut &bytes[..]).expect("a recording");
    let (mut again, mut lost, mut changes, mut last) = (Vec::new(), 0, 0, Instant::START);
    for stretch in 0..recording.head.stretches.len() {
        let done = recording.again(stretch, &Registry::builtin(), None, &mut |departure| {
            assert!(departure.at >= last);
            last = departure.at;
            again.push(u16::from_be_bytes([departure.headers[18], departure.headers[19]]));
        });
        let done = done.expect("it is done again");
        (lost, changes) = (lost + done.totals.dropped.packets, changes + done.changes.len());
    }
    assert!(left.ends_with(&again), "{again:?}, of {left:?}");
    assert!(
        again.len() >= left.len() - before && again.len() > 40,
        "{}",
        again.len()
    );
    assert_eq!((lost, changes), (dropped, 2));
    assert!(lost > 50, "{lost}");
    assert_eq!(recording.head.generations.len(), 3);
    looked_at(&recording, lost);
    refuses_what_is_no_recording(&bytes);
    service.end_recording(None).expect("it ends");
    service.recorded(None).expect_err("it has ended");
    std::fs::remove_file(file).expect("removed");
    handle.stop();
    thread.join().expect("an orderly end");
}

/// Packets that are dropped are told with the reason, and those that leave with the parts of
/// their waits.
fn looked_at(recording: &Recording, lost: u64) {
    let all = |drops| {
        let around = Around {
            since: Instant::START,
            until: Instant::NEVER,
            drops,
        };
        let stretches = 0..recording.head.stretches.len();
        let looked = stretches.flat_map(|number| {
            let done = recording.again(number, &Registry::builtin(), Some(around), &mut |_| {});
            done.expect("it is done again").packets
        });
        looked.collect::<Vec<_>>()
    };
    let dropped = all(true);
    // Those that waited when the policy changed are not followed.
    let told = dropped.len() as u64;
    assert!(told <= lost && told > lost / 2, "{told} of {lost}");
    assert!(dropped.iter().all(|packet| packet.explained.dropped.is_some()));
    for packet in all(false) {
        let told = &packet.explained;
        let parts = told.busy_ns + told.before_ns + told.held_ns + told.held_up_ns;
        assert_eq!(parts, told.wait_ns);
        assert_eq!(packet.ended.since(packet.arrived).nanos(), told.wait_ns);
        assert!(
            told.planned_ns.is_some_and(|planned| planned <= told.wait_ns),
            "{told:?}"
        );
        // The filter of the policy that was in force when it came, and what it said.
        let [asked] = &told.filters[..] else {
            panic!("{told:?}")
        };
        let class = if asked.misses.is_empty() { "few" } else { "rest" };
        assert_eq!(told.class.as_deref(), Some(class), "{told:?}");
    }
}

fn refuses_what_is_no_recording(bytes: &[u8]) {
    for (at, why) in [
        (0, "no recording"),
        (8, "version"),
        (30, "checksum"),
        (bytes.len() / 2, "checksum"),
    ] {
        let mut damaged = bytes.to_vec();
        damaged[at] ^= 0x40;
        let said = Recording::read(&mut &damaged[..]).expect_err("it is damaged");
        assert!(said.contains(why), "{said}");
    }
    for end in [0, 10, 25, bytes.len() / 2, bytes.len() - 1] {
        Recording::read(&mut &bytes[..end]).expect_err("it is cut off");
    }
}

/// A frame of UDP from one of so many ports, of a length by which packets are told apart.
fn of_length(number: u64, ports: u64) -> Vec<u8> {
    let len = 200 + (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize;
    let mut frame = vec![0; len];
    frame[..38].copy_from_slice(&numbered(0)[..38]);
    frame[16..18].copy_from_slice(&(len as u16 - 14).to_be_bytes());
    frame[34..36].copy_from_slice(&((number % ports) as u16).to_be_bytes());
    frame[36..38].copy_from_slice(&(1_000 * (1 + number % 8) as u16).to_be_bytes());
    frame
}

/// The overload of a link: its service, and what was sent and has left.
struct Overload {
    served: Served,
    ports: u64,
    sent: u64,
    /// Their lengths on the wire.
    left: Vec<usize>,
    /// Packets that were sent before it was known that the recording had begun.
    before: usize,
    /// From a frame to its length on the wire.
    framing: Framing,
}

impl Overload {
    /// Of this policy's link, by senders with so many ports.
    fn of(text: &str, ports: u64) -> Self {
        let policy = Policy::read("test", text, &Registry::builtin(), &[]).expect("a policy");
        Self {
            served: served_between(&policy),
            ports,
            sent: 0,
            left: Vec::new(),
            before: 0,
            framing: policy.interfaces[0].link().framing,
        }
    }

    /// Of 2 Mbit/s, recorded in a ring of so many bytes, by senders with so many ports.
    fn begin(ports: u64, ring: u64) -> Self {
        let text = two_classes(400, 5_000).replace("10 Mbit/s", "2 Mbit/s");
        let mut overload = Self::of(&text, ports);
        overload.service().record(None, ring).expect("it begins");
        while overload.service().recorded(None).is_err() {
            overload.send(1);
            std::thread::sleep(Duration::from_millis(25));
        }
        overload.before = overload.sent as usize;
        overload
    }

    fn service(&self) -> &ControlService {
        &self.served.0
    }

    /// Sends far more than the link carries, without a pause in which it could become idle.
    fn send(&mut self, packets: u64) {
        for number in self.sent..self.sent + packets {
            self.served.3[0].send(&of_length(number, self.ports), Offload::default());
            if number % 64 == 63 {
                self.take();
                std::thread::sleep(Duration::from_micros(500));
            }
        }
        self.sent += packets;
        self.take();
    }

    /// Takes what has left.
    fn take(&mut self) {
        let frames = std::iter::from_fn(|| self.served.3[1].take());
        self.left.extend(frames.map(|frame| {
            self.framing
                .on_wire(engine::units::Bytes::new(frame.bytes.len() as u64))
                .get() as usize
        }));
    }

    fn totals(&self) -> Stats {
        self.served.1.inspect().expect("an answer").paths[0].totals
    }

    /// Waits until the worker has taken all that was sent.
    fn settle(&self) {
        while self.totals().offered.packets < self.sent {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Packets that have neither left nor been dropped.
    fn queued(&self) -> u64 {
        let totals = self.totals();
        totals.offered.packets - totals.sent.packets - totals.dropped.packets
    }

    fn saved(&self) -> Recording {
        let saved = self.service().recorded(None).expect("a recording");
        let mut bytes = Vec::new();
        saved.write(&mut bytes).expect("written");
        Recording::read(&mut &bytes[..]).expect("a recording")
    }

    /// Does it again: the lengths of what leaves, with the times, and how many were offered.
    fn again(recording: &Recording) -> (Vec<usize>, Vec<Instant>, u64) {
        let (mut left, mut times, mut offered) = (Vec::new(), Vec::new(), 0);
        for stretch in 0..recording.head.stretches.len() {
            let done = recording.again(stretch, &Registry::builtin(), None, &mut |departure| {
                left.push(departure.packet.len.get() as usize);
                times.push(departure.at);
            });
            offered += done.expect("it is done again").totals.offered.packets;
        }
        (left, times, offered)
    }

    /// From which of these places on what has left is what leaves again. What left until it was
    /// saved may be under way for a while.
    fn begins(&mut self, places: Range<usize>, again: &[usize]) -> Option<usize> {
        let begun = std::time::Instant::now();
        loop {
            let left = |from: usize| self.left.get(from..);
            let as_it_was = |from: &usize| left(*from).is_some_and(|left| left.starts_with(again));
            let found = places.clone().find(as_it_was);
            if found.is_some() || begun.elapsed() > Duration::from_secs(10) {
                return found;
            }
            std::thread::sleep(Duration::from_millis(1));
            self.take();
        }
    }

    /// That what leaves again is what has left; and whether from the beginning of the recording
    /// on, or from a later one.
    fn judge(&mut self, again: &[usize]) -> bool {
        let from = self.begins(0..self.left.len() + 1, again);
        let (many, left) = (again.len(), self.left.len());
        from.unwrap_or_else(|| panic!("{many} packets leave again, {left} have left")) <= self.before
    }

    fn end(mut self) {
        self.served.1.stop();
        self.served.2.join().expect("an orderly end");
        self.left.clear();
    }
}

const STANDING: [&str; 6] = [
    r#"discipline = { kind = "fifo", limit = 1000 }"#,
    r#"discipline = "fq_codel""#,
    r#"discipline = { kind = "tbf", rate = "1800 kbit/s", burst = "15 kB", child = { kind = "fifo", limit = 1000 } }"#,
    r#"discipline = "drr"
       class = [{ name = "some", weight = 3 }, { name = "rest", default = true }]
       filter = [{ class = "some", protocol = "udp", destination_port = 1000 }]"#,
    r#"discipline = "hfsc"
       class = [{ name = "some", realtime = "200 kbit/s", linkshare = "10 %" },
                { name = "rest", realtime = "1 Mbit/s", linkshare = "90 %", default = true }]
       filter = [{ class = "some", protocol = "udp", destination_port = 1000 }]"#,
    r#"discipline = "cbq"
       class = [{ name = "some", rate = "10 %", priority = 7 }, { name = "rest", rate = "30 %", default = true }]
       filter = [{ class = "some", protocol = "udp", destination_port = 1000 }]"#,
];

/// It had begun at the first moment at which nothing was queued, which a link in trouble has not.
#[test]
fn a_recording_begins_at_once_while_the_queue_is_never_empty() {
    for table in STANDING {
        let text = format!("version = 1\n[interface.wan0]\nbandwidth = \"2 Mbit/s\"\n{table}\n");
        // More than a second of the link.
        let mut overload = Overload::of(&text, 40);
        overload.send(800);
        overload.settle();
        overload.take();
        let (left, queued) = (overload.left.len(), overload.queued());
        overload.service().record(None, 4 << 20).expect("it begins");
        overload.send(100);
        while overload.left.len() < left + 60 {
            std::thread::sleep(Duration::from_millis(5));
            overload.take();
        }
        let recording = overload.saved();
        let (still, until) = (overload.queued(), overload.left.len());
        assert!(
            queued > 400 && still > 200,
            "{table}: {queued}, then {still} were queued"
        );
        let (again, times, offered) = Overload::again(&recording);
        let from = overload.begins(left..until, &again);
        assert!(
            from.is_some_and(|from| from < left + 20),
            "{table}: {from:?}, {left} before"
        );
        assert!(
            again.len() > 40 && times.is_sorted(),
            "{table}: {} left again",
            again.len()
        );
        assert!(offered + 20 > queued + 100, "{table}: {offered} of {queued}");
        overload.end();
    }
}

/// The queue is never empty for several times as long as the ring has room for with headers: all
/// of it is done again from the file, and again from one that was saved later.
#[test]
fn an_overload_longer_than_the_ring_is_done_again_to_the_nanosecond() {
    let mut tries = 0..5;
    assert!(
        tries.any(|_| an_overload_is_done_again()),
        "each time the recorder was held up for so long that it began anew"
    );
}

/// Judges it; `false` if the recording began anew meanwhile, since the host gave the recorder no
/// processor: what left between its two parts is in neither.
fn an_overload_is_done_again() -> bool {
    const RING: u64 = 1 << 20;
    let mut overload = Overload::begin(40, RING);
    let mut former: Option<(Vec<usize>, Vec<Instant>)> = None;
    for rings in [1, 3] {
        overload.send(25_000);
        overload.settle();
        let recording = overload.saved();
        if recording.head.stretches.len() > 1 {
            overload.end();
            return false;
        }
        let (again, times, offered) = Overload::again(&recording);
        if !overload.judge(&again) {
            overload.end();
            return false;
        }
        let taped: u64 = recording
            .head
            .stretches
            .iter()
            .map(|stretch| stretch.bytes())
            .sum();
        assert!(taped < RING, "{taped} bytes");
        assert_eq!(recording.head.full_ns, None, "{taped} bytes");
        // Of a tape that has all headers so much would be 70 bytes a packet at least.
        assert!(offered * 70 > rings * RING, "{offered} packets");
        let short: u64 = recording
            .head
            .stretches
            .iter()
            .map(|stretch| stretch.short_bytes)
            .sum();
        assert!(
            short > 0 && short < offered * 16,
            "{short} bytes of {offered} packets"
        );
        eprintln!(
            "{offered} packets, {} left again: {short} bytes in short form",
            again.len()
        );
        let since = recording.headers_since(0).expect("a whole tape");
        let (first, last) = recording.spans().expect("whole tapes")[0].expect("not empty");
        assert!(since.is_some_and(|since| since > first && since < last));
        if let Some((left, at)) = former {
            assert!(again.starts_with(&left) && times.starts_with(&at));
            assert!(again.len() > left.len());
        }
        former = Some((again, times));
    }
    overload.end();
    true
}

/// Where even the short form takes three quarters of the ring, what came until then is done again,
/// and the file says when that was.
#[test]
fn a_ring_that_cannot_keep_an_overload_has_its_beginning_and_says_so() {
    // Each packet begins a flow, which the short form has to write out.
    let mut overload = Overload::begin(u64::from(u16::MAX), 1 << 20);
    let mut recording = overload.saved();
    while recording.head.full_ns.is_none() {
        assert!(overload.sent < 200_000, "it has room for all");
        overload.send(5_000);
        overload.settle();
        recording = overload.saved();
    }
    let full = Instant::from_nanos(recording.head.full_ns.expect("so"));
    let (again, times, offered) = Overload::again(&recording);
    assert!(overload.judge(&again), "from its beginning on");
    // With all headers there would be room for some 9,000.
    assert!(offered > 12_000, "{offered}");
    assert!(times.is_sorted() && times.last().is_some_and(|last| *last <= full));
    let stretch = &recording.head.stretches[0];
    assert!(stretch.short_bytes > 400_000, "{} bytes", stretch.short_bytes);
    assert!(stretch.bytes() as usize <= (1 << 20) + 2 * CHUNK);
    overload.end();
}
