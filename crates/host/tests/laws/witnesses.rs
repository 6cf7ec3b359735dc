//! What the law believes: a stated rate, what the interface counts, and queues that neither
//! explains. Links of 10 and 100 Mbit/s, round trips of 5 to 100 ms, CUBIC and BBR, jitter.

use super::{members, scavenger, stated};
use crate::model::{Model, Spec};
use engine::units::Bandwidth;
use host::law::Scavenger;
use host::{Bottleneck, DataDirection};

/// A bottleneck and the kind of its senders.
#[derive(Clone, Copy, Debug)]
struct Path {
    mbit: u64,
    buffer: u64,
    rtt: u64,
    bbr: bool,
}

impl Path {
    fn cubic(mbit: u64, buffer: u64, rtt: u64) -> Self {
        Self {
            mbit,
            buffer,
            rtt,
            bbr: false,
        }
    }

    fn bbr(self) -> Self {
        Self { bbr: true, ..self }
    }

    fn model(self, bottleneck: Bottleneck) -> Model {
        Model::new(self.mbit, self.buffer, &members(1), bottleneck)
    }

    fn add(self, model: &mut Model, spec: Spec) -> usize {
        let Self { rtt, bbr, .. } = self;
        model.add(Spec { rtt, bbr, ..spec })
    }
}

/// Percentages of the link: a download alone from its 4th second on, then beside another one from
/// 8 to 18 s, and in the 2nd second after it.
#[derive(Clone, Copy, Debug)]
struct Shares {
    lone: f64,
    /// The other one, from its 2nd second on.
    other: f64,
    both: f64,
    back: f64,
}

/// A download of this host, then another one: of this host too, or of one behind the same line.
fn shares(path: Path, mut model: Model, unseen: bool) -> Shares {
    let low = path.add(&mut model, Spec::of(Some(0), 0, 21_000));
    let other = path.add(
        &mut model,
        Spec {
            unseen,
            ..Spec::of(None, 8_000, 18_000)
        },
    );
    model.run(&mut scavenger(), 21_000);
    let percent = path.mbit as f64 / 100.0;
    Shares {
        lone: model.rate(low, 3_000, 8_000) / percent,
        other: model.rate(other, 9_000, 18_000) / percent,
        both: model.total(9_000, 18_000) / percent,
        back: model.total(19_000, 20_000) / percent,
    }
}

#[test]
fn a_rate_that_is_stated_wrong_is_corrected_by_queues_and_free_flow() {
    let paths = [
        Path::cubic(10, 16_000, 20),
        Path::cubic(10, 64_000, 20),
        Path::cubic(10, 1_000_000, 20),
        Path::cubic(10, 64_000, 5),
        Path::cubic(100, 256_000, 20),
        Path::cubic(10, 125_000, 100),
        Path::cubic(10, 64_000, 20).bbr(),
    ];
    for path in paths {
        // A fast link costs ten times the packets.
        let wrong: &[u64] = if path.mbit == 100 {
            &[50, 200]
        } else {
            &[50, 80, 125, 200]
        };
        for percent in wrong {
            let rate = Bottleneck::Stated(Bandwidth::kbit(path.mbit * 10 * percent));
            let found = shares(path, path.model(rate), false);
            // On a fast link the losses of a low CUBIC sender decide when it is back.
            let back = if path.mbit == 100 && !path.bbr { 20.0 } else { 94.0 };
            assert!(
                found.lone >= 97.0 && found.other >= 90.0 && found.both >= 97.0 && found.back >= back,
                "{percent} % stated of {path:?}: {found:.1?}"
            );
        }
    }
}

#[test]
fn the_rate_over_a_shallow_buffer_is_found_by_losses() {
    // A quarter of a bandwidth-delay product: RTTs grow by a quarter at most, which is no queue
    // that counts. Ignored losses leave the other one half.
    for path in [
        Path::cubic(100, 15_625, 5),
        Path::cubic(100, 62_500, 20),
        Path::cubic(20, 12_500, 20),
    ] {
        let found = shares(path, path.model(Bottleneck::Auto), false);
        let passes = found.lone >= 97.0 && found.other >= 80.0 && found.both >= 95.0;
        assert!(passes, "{path:?}: {found:.1?}");
    }
}

#[test]
fn a_line_that_becomes_slower_and_faster_is_followed_within_three_seconds() {
    for bottleneck in [stated(20), Bottleneck::Auto] {
        let mut model = Model::new(20, 64_000, &members(1), bottleneck);
        model.add(Spec::of(Some(0), 0, 28_000));
        let other = model.add(Spec::of(None, 18_000, 28_000));
        let later = model.add(Spec::of(Some(0), 28_000, 40_000));
        let mut law = scavenger();
        model.run(&mut law, 8_000);
        model.becomes(5);
        model.run(&mut law, 11_000);
        let rate = |law: &host::law::Scavenger| law.rate(bottleneck).map_or(0, Bandwidth::bits);
        let (slow, queue) = (rate(&law), model.queue_ms());
        let contradiction = law.contradiction(bottleneck);
        model.run(&mut law, 32_000);
        model.becomes(20);
        model.run(&mut law, 35_000);
        let fast = rate(&law);
        model.run(&mut law, 40_000);
        let (at_5, at_20) = (
            model.rate(other, 19_000, 28_000),
            model.rate(later, 35_000, 40_000),
        );
        assert!(
            (4_700_000..5_400_000).contains(&slow) && queue < 30.0 && at_5 >= 4.5,
            "{bottleneck:?}: taken for {slow} after 3 s, {queue:.0} ms, the other one {at_5:.2}"
        );
        assert!(
            (19_000_000..21_000_000).contains(&fast) && at_20 >= 19.4,
            "{bottleneck:?}: taken for {fast} after 3 s, {at_20:.2}"
        );
        let told = contradiction.map_or(0, Bandwidth::bits);
        let is_stated = matches!(bottleneck, Bottleneck::Stated(_));
        assert_eq!(told, if is_stated { slow } else { 0 }, "the user is told");
    }
}

#[test]
fn what_a_link_carried_before_others_came_is_no_measure_after_them() {
    // The line is slower than stated; a cap probe that began before the other one is not judged
    // by the trickle after it.
    let path = Path::cubic(5, 250_000, 100);
    for begins in (8_000..11_000).step_by(250) {
        let mut model = path.model(stated(20));
        let low = path.add(&mut model, Spec::of(Some(0), 0, begins + 12_000));
        path.add(&mut model, Spec::of(None, begins, begins + 6_000));
        model.run(&mut scavenger(), begins + 12_000);
        let after = model.rate(low, begins + 8_000, begins + 12_000);
        assert!(
            after >= 4.5,
            "{after:.2} Mbit/s after one that began at {begins} ms"
        );
    }
}

#[test]
fn other_hosts_behind_the_line_are_yielded_to_without_being_seen() {
    // The least share of the other one: of RTTs of 100 ms see the head of the witness.
    let cases = [
        (Path::cubic(10, 64_000, 20), 91.0),
        (Path::cubic(10, 1_000_000, 20), 94.0),
        (Path::cubic(10, 64_000, 5), 91.0),
        (Path::cubic(100, 256_000, 20), 90.0),
        (Path::cubic(10, 64_000, 20).bbr(), 88.0),
        (Path::cubic(10, 1_000_000, 20).bbr(), 88.0),
        (Path::cubic(100, 256_000, 20).bbr(), 88.0),
        (Path::cubic(10, 125_000, 100).bbr(), 88.0),
    ];
    for (path, least) in cases {
        let stated = (path.mbit < 100).then(|| stated(path.mbit));
        for bottleneck in [Bottleneck::Auto].into_iter().chain(stated) {
            let found = shares(path, path.model(bottleneck), true);
            // A low BBR sender on a fast link comes back later.
            let back = if path.bbr && path.mbit * path.rtt > 200 {
                0.0
            } else {
                85.0
            };
            let lone = if path.rtt == 100 { 90.0 } else { 97.0 };
            assert!(
                found.lone >= lone && found.other >= least && found.both >= 97.0 && found.back >= back,
                "{bottleneck:?}, {path:?}: {found:.1?}"
            );
        }
    }
}

#[test]
fn another_host_that_overflows_a_shallow_buffer_is_yielded_to() {
    // Buffers of a quarter of a bandwidth-delay product, and of one of 5 ms, which show a queue. A
    // flow of 100 Mbit/s that has lost data in its slow start takes a longer path too slowly to be
    // judged here.
    let cases = [
        (Path::cubic(10, 6_250, 20), 85.0),
        (Path::cubic(10, 6_056, 5), 70.0),
        (Path::cubic(100, 62_500, 5), 85.0),
    ];
    for (path, least) in cases {
        let found = shares(path, path.model(Bottleneck::Auto), true);
        assert!(
            found.lone >= 97.0 && found.other >= least && found.both >= 92.0 && found.back >= 85.0,
            "{path:?}: {found:.1?}"
        );
    }
}

#[test]
fn an_inelastic_stream_of_another_host_leaves_the_rest() {
    // A shallow buffer costs what the trials take.
    inelastic_stream(64_000, 4.5);
    inelastic_stream(6_250, 3.5);
}

/// 4 Mbit/s that this host does not count, beside a download that has as much at least.
fn inelastic_stream(buffer: u64, least: f64) {
    let path = Path::cubic(10, buffer, 20);
    let mut model = path.model(stated(10));
    let low = model.add(Spec::of(Some(0), 0, 20_000));
    let stream = model.add(Spec {
        offered: crate::model::Offered::Bursts {
            bytes: 2_500,
            every: 5,
        },
        unseen: true,
        ..Spec::of(None, 8_000, 20_000)
    });
    model.run(&mut scavenger(), 20_000);
    let (low, stream) = (
        model.rate(low, 10_000, 20_000),
        model.rate(stream, 10_000, 20_000),
    );
    assert!(
        stream >= 3.8 && low >= least,
        "{buffer} bytes: {stream:.2} beside {low:.2}"
    );
}

/// A radio link: a delay of up to 30 ms, anew every 3 ms.
fn radio(at: u64) -> u64 {
    let slot = (at / 3_000_000).wrapping_mul(6_364_136_223_846_793_005);
    (slot.wrapping_add(1_442_695_040_888_963_407) >> 33) % 30_000_000
}

#[test]
fn jitter_is_no_queue() {
    for buffer in [64_000, 1_000_000] {
        for bottleneck in [stated(10), Bottleneck::Auto] {
            let path = Path::cubic(10, buffer, 20);
            let mut model = path.model(bottleneck);
            model.jitter = radio;
            let found = shares(path, model, false);
            assert!(
                found.lone >= 97.0 && found.other >= 85.0 && found.back >= 75.0,
                "{bottleneck:?}, {path:?}: {found:.1?}"
            );
        }
    }
}

#[test]
fn jitter_does_not_keep_windows_small_on_a_fast_link() {
    // At 100 Mbit/s a smoothed RTT still shows each change of the delay. HyStart ends slow starts
    // early, sooner or later by chance: the mean of some begins.
    let begins = [0, 137, 274, 411, 548, 685];
    let rate = |begin: u64| {
        let path = Path::cubic(100, 256_000, 20);
        let mut model = path.model(Bottleneck::Auto);
        model.jitter = radio;
        let low = path.add(&mut model, Spec::of(Some(0), begin, 8_000));
        model.run(&mut scavenger(), 8_000);
        model.rate(low, 3_000, 8_000)
    };
    let mean = begins.map(rate).iter().sum::<f64>() / begins.len() as f64;
    assert!(mean >= 31.0, "{mean:.1} Mbit/s");
}

/// A radio link that delays each frame by up to 30 ms and keeps their order: the denser they are,
/// the more of them wait for one before.
fn in_order(at: u64) -> u64 {
    let mixed = at.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((mixed ^ (mixed >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 33) % 30_000_000
}

#[test]
fn a_delay_that_grows_with_what_is_carried_is_not_yielded_to_for_long() {
    for (mbit, buffer) in [(10, 64_000), (100, 256_000)] {
        for bottleneck in [stated(mbit), Bottleneck::Auto] {
            let path = Path::cubic(mbit, buffer, 20);
            let mut model = path.model(bottleneck);
            model.jitter = in_order;
            let low = path.add(&mut model, Spec::of(Some(0), 0, 20_000));
            model.run(&mut scavenger(), 20_000);
            let rate = model.rate(low, 10_000, 20_000) / mbit as f64;
            assert!(rate >= 0.97, "{bottleneck:?} of {mbit} Mbit/s: {rate:.2}");
        }
    }
}

#[test]
fn a_long_slow_start_is_not_taken_for_a_full_link() {
    // BBR over 100 ms: the estimate of a lone download is never below what it comes to carry.
    let path = Path::cubic(100, 1_000_000, 100).bbr();
    let mut model = path.model(Bottleneck::Auto);
    let low = path.add(&mut model, Spec::of(Some(0), 0, 10_000));
    let mut law = scavenger();
    model.run(&mut law, 10_000);
    let rate = law.rate(Bottleneck::Auto).map_or(u64::MAX, Bandwidth::bits);
    let third = model.rate(low, 3_000, 7_000);
    assert!(
        rate >= 90_000_000 && third >= 80.0,
        "taken for {rate}, {third:.1} Mbit/s"
    );
}

/// An upload from 6 to 16 s that fills its buffer and loses packets every two seconds.
fn upload(at: u64) -> (f64, f64) {
    match at {
        6_000..16_000 => (2.0, 200.0 + (at % 2_000) as f64 / 10.0),
        _ => (0.0, 0.0),
    }
}

#[test]
fn an_upload_that_fills_its_buffer_does_not_stop_downloads() {
    for bottleneck in [
        stated(10),
        Bottleneck::Enforced(Bandwidth::mbit(10)),
        Bottleneck::Auto,
    ] {
        for rtt in [5, 20, 100] {
            let path = Path::cubic(10, 64_000, rtt);
            let rates = |member| {
                let mut model = path.model(bottleneck);
                model.other_way = upload;
                let low = path.add(&mut model, Spec::of(member, 0, 24_000));
                model.run(&mut scavenger(), 24_000);
                [(8_000, 16_000), (18_000, 24_000)].map(|(from, to)| model.rate(low, from, to))
            };
            let ([beside, after], [free, _]) = (rates(Some(0)), rates(None));
            assert!(
                beside >= 0.85 * free && after >= 9.3,
                "{bottleneck:?}, {rtt} ms: {beside:.2} of {free:.2}, {after:.2}"
            );
        }
    }
}

/// An upload from 1 to 3 s, and a call from 5 s on.
fn call(at: u64) -> (f64, f64) {
    match at {
        1_000..3_000 => (2.0, 200.0),
        5_000.. => (0.3, 0.0),
        _ => (0.0, 0.0),
    }
}

#[test]
fn beside_a_call_other_hosts_are_yielded_to_without_being_seen() {
    for bottleneck in [stated(10), Bottleneck::Auto] {
        let path = Path::cubic(10, 64_000, 20);
        let mut model = path.model(bottleneck);
        model.other_way = call;
        let found = shares(path, model, true);
        assert!(
            found.lone >= 93.0 && found.other >= 85.0 && found.back >= 85.0,
            "{bottleneck:?}: {found:.1?}"
        );
    }
}

/// Percentages of the link: two uploads of weights 1 and 3 from their 4th second on, then beside
/// another one from 8 to 16 s, and from the 2nd second after it on.
#[derive(Clone, Copy, Debug)]
struct Uploads {
    lone: f64,
    /// What the second one has of three times the first.
    weights: f64,
    /// The mean queue before the other one, in milliseconds.
    queue: f64,
    /// The other one, from its first second on.
    other: f64,
    back: f64,
}

/// Two uploads of this host, then another one: of this host too, or of one behind the same line.
fn uploads(path: Path, bottleneck: Bottleneck, unseen: bool) -> Uploads {
    let mut two = members(2);
    two[1].weight = 3;
    let mut model = Model::new(path.mbit, path.buffer, &two, bottleneck).upload();
    path.add(&mut model, Spec::of(Some(0), 0, 25_000));
    path.add(&mut model, Spec::of(Some(1), 0, 25_000));
    let other = path.add(
        &mut model,
        Spec {
            unseen,
            ..Spec::of(None, 8_000, 16_000)
        },
    );
    let mut law = Scavenger::new(DataDirection::Upload);
    let times: Vec<u64> = (50..80).map(|tenths| tenths * 100).collect();
    let queue_at = |&time: &u64| {
        model.run(&mut law, time);
        model.queue_ms()
    };
    let queue = times.iter().map(queue_at).sum::<f64>() / times.len() as f64;
    model.run(&mut law, 25_000);
    let percent = path.mbit as f64 / 100.0;
    let (before, after) = (model.by_member(4_000, 8_000), model.by_member(18_000, 25_000));
    Uploads {
        lone: before.values().sum::<f64>() / percent,
        weights: before[&1] / before[&0] / 3.0,
        queue,
        other: model.rate(other, 9_000, 16_000) / percent,
        back: after.values().sum::<f64>() / percent,
    }
}

/// Paths of CUBIC and of BBR with these round trips and buffers, in bandwidth-delay products, and
/// what is stated of them.
fn upload_paths(rtts: &[u64], buffers: &[u64]) -> Vec<(Path, Bottleneck)> {
    let over = |&rtt: &u64| {
        let buffers = buffers.iter();
        buffers.map(move |products| Path::cubic(10, 1_250 * rtt * products, rtt))
    };
    let paths = rtts.iter().flat_map(over).flat_map(|path| [path, path.bbr()]);
    let stated = [Bottleneck::Auto, stated(5), stated(10), stated(20)];
    paths
        .flat_map(|path| stated.map(|stated| (path, stated)))
        .collect()
}

#[test]
fn uploads_fill_the_line_by_weight_with_a_short_queue_and_yield_to_programs() {
    let short = upload_paths(&[5], &[8]);
    for (path, bottleneck) in [short, upload_paths(&[20, 50, 100], &[1, 8])].concat() {
        let found = uploads(path, bottleneck, false);
        // BBR flows begin with what the first one found; a CUBIC flow that has had little grows in
        // seconds.
        let (weights, back) = if path.bbr { (0.4, 90.0) } else { (0.9, 60.0) };
        assert!(
            found.lone >= 97.0
                && (weights..1.1).contains(&found.weights)
                && found.queue <= 4.0 + path.rtt as f64 / 4.0
                && found.other >= 76.0
                && found.back >= back,
            "{bottleneck:?} of {path:?}: {found:.1?}"
        );
    }
}

#[test]
fn uploads_yield_to_other_hosts_and_are_back_after_them() {
    // In a buffer of one bandwidth-delay product a flow of another host grows too slowly for the
    // trial: it has 30 to 85 %.
    for (path, bottleneck) in upload_paths(&[20, 50], &[8]) {
        let found = uploads(path, bottleneck, true);
        assert!(
            found.other >= 80.0 && found.back >= 97.0,
            "{bottleneck:?} of {path:?}: {found:.1?}"
        );
    }
}

#[test]
fn uploads_return_though_their_acks_wait_for_a_second_segment() {
    // At two segments in a round trip, the wait for the second one is half of it.
    for (rtt, until) in [(10, 6_000), (20, 6_000), (50, 6_000), (50, 11_000)] {
        let mut model = Model::new(10, 2_500 * rtt, &members(2), stated(16)).upload();
        let path = Path::cubic(10, 2_500 * rtt, rtt);
        path.add(&mut model, Spec::of(Some(0), 0, 22_000));
        path.add(&mut model, Spec::of(Some(1), 0, 22_000));
        let other = Spec::of(None, 5_000, until);
        path.add(
            &mut model,
            Spec {
                unseen: true,
                ..other
            },
        );
        model.run(&mut Scavenger::new(DataDirection::Upload), 22_000);
        let back = model.total(15_000, 22_000);
        assert!(back >= 9.7, "{rtt} ms, until {until}: {back:.1}");
    }
}
