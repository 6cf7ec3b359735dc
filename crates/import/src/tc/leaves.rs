//! Qdiscs without classes: the queue of a class, or of an interface.

use super::json::Node;
use super::objects::{Objects, Qdisc};
use crate::draft::{DisciplineDraft, Draft};
use crate::framing::{CountsFrom, Written, linklayer};
use crate::place::ImportError;
use engine::framing::Framing;
use engine::units::{Bytes, Duration};

/// Bytes of an Ethernet header.
/// What this tc gives a queue of packets where nothing is said.
const MOST_FLOWS: u64 = 65_536;

/// The queue; none, with a note, if nothing here is as it.
pub(super) fn queue(
    qdisc: &Qdisc,
    objects: &Objects,
    draft: &mut Draft,
) -> Result<Option<DisciplineDraft>, ImportError> {
    let options = &qdisc.options;
    Ok(Some(match qdisc.kind.as_str() {
        "fq_codel" => {
            let mut made = DisciplineDraft::of("fq_codel");
            for key in ["limit", "flows"] {
                if let Some(number) = options.integer(key)? {
                    made = made.with(key, number.clamp(1, MOST_FLOWS));
                }
            }
            if let Some(quantum) = options.integer("quantum")? {
                made = made.with("quantum", Bytes::new(quantum));
            }
            if let Some(memory) = options.size("memory_limit")? {
                made = made.with("limit_bytes", memory);
            }
            times(made, qdisc)?
        }
        "codel" => {
            let made = DisciplineDraft::of("codel");
            let limit = options.integer("limit")?;
            let made = times(made, qdisc)?;
            limit.map_or(made.clone(), |limit| made.with("limit", limit))
        }
        "cake" => {
            if options.rate("bandwidth")?.is_some() {
                draft.lost(qdisc.at, "the `bandwidth` of a cake below another shaper");
            }
            if options.flag("ingress") {
                draft.lost(qdisc.at, "the `ingress` of a cake below another shaper");
            }
            cake(qdisc, draft)?.with("rate", "unlimited")
        }
        "sfq" => {
            let made = DisciplineDraft::of("wfq").with("queues", 128);
            // Whole seconds.
            match options.integer("perturb")?.filter(|seconds| *seconds > 0) {
                Some(seconds) => made.with("perturb", Duration::from_secs(seconds)),
                None => made,
            }
        }
        "pfifo" => DisciplineDraft::of("fifo").with("limit", options.integer("limit")?.unwrap_or(1_000)),
        "bfifo" => {
            let limit = options.size("limit")?.unwrap_or(Bytes::new(1_500_000));
            DisciplineDraft::of("fifo")
                .with("limit", 1_000_000)
                .with("limit_bytes", limit)
        }
        "pie" | "fq_pie" => {
            if qdisc.kind == "fq_pie" {
                draft.lost(qdisc.at, "`fq_pie`: one queue for all flows (pie)");
            }
            let made = DisciplineDraft::of("pie");
            match options.time("target")? {
                Some(target) => made.with("target", target),
                None => made,
            }
        }
        "red" => red(qdisc)?,
        "tbf" => {
            let below = objects.below(&qdisc.device, qdisc.handle);
            let below = below
                .map(|below| queue(below, objects, draft))
                .transpose()?
                .flatten();
            let limit = options.size("limit")?;
            let fifo = limit.map(|limit| {
                DisciplineDraft::of("fifo")
                    .with("limit", 1_000_000)
                    .with("limit_bytes", limit.max(Bytes::new(1_514)))
            });
            let mut made = DisciplineDraft::of("tbf");
            let Some(rate) = options.rate("rate")? else {
                return Err(ImportError::new(qdisc.at, "`tbf` without `rate`"));
            };
            made = made.with("rate", rate);
            if let Some(burst) = options.size("burst")?.filter(|burst| burst.get() >= 2_000) {
                made = made.with("burst", burst);
            }
            match below.or(fifo) {
                Some(below) => made.over(below),
                None => made.over(DisciplineDraft::of("fifo")),
            }
        }
        other => {
            draft.lost(
                qdisc.at,
                format!("`{other}`: the usual queue, fq_codel, is there instead"),
            );
            return Ok(None);
        }
    }))
}

/// CoDel's times, and whether it marks.
fn times(mut made: DisciplineDraft, qdisc: &Qdisc) -> Result<DisciplineDraft, ImportError> {
    // tc prints 4999 us for 5 ms.
    let rounded = |time: Duration| {
        let us = time.nanos() / 1_000;
        Duration::from_micros(us + u64::from(us % 10 == 9))
    };
    for key in ["target", "interval"] {
        if let Some(time) = qdisc.options.time(key)?.filter(|time| time.nanos() > 0) {
            made = made.with(key, rounded(time));
        }
    }
    let marks = qdisc.options.flag("ecn") || (qdisc.kind == "fq_codel" && !qdisc.options.flag("noecn"));
    Ok(made.with("ecn", marks))
}

fn red(qdisc: &Qdisc) -> Result<DisciplineDraft, ImportError> {
    let options = &qdisc.options;
    let mut made = DisciplineDraft::of("red").with("measure", "bytes");
    for key in ["min", "max"] {
        if let Some(length) = options.size(key)? {
            made = made.with(key, length);
        }
    }
    let share = options
        .get("probability")
        .map(ToString::to_string)
        .and_then(|text| text.parse::<f64>().ok());
    if let Some(share) = share.filter(|share| *share > 0.0 && *share <= 1.0) {
        made = made.with("max_p", format!("{share}").as_str());
    }
    made = made.with("ecn", options.flag("ecn"));
    match options.size("limit")? {
        Some(limit) => Ok(made.over(
            DisciplineDraft::of("fifo")
                .with("limit", 1_000_000)
                .with("limit_bytes", limit),
        )),
        None => Ok(made),
    }
}

/// What cake says beside its rate.
pub(super) fn cake(qdisc: &Qdisc, draft: &mut Draft) -> Result<DisciplineDraft, ImportError> {
    let options = &qdisc.options;
    let text = |key: &str| options.get(key).and_then(Node::text);
    let is = |word: &str| options.flag(word);
    let of = |key: &str, words: &[&str]| {
        let in_words = words.iter().find(|word| is(word)).map(|word| (*word).to_owned());
        text(key).map(str::to_owned).or(in_words)
    };
    let tins = of(
        "diffserv",
        &[
            "besteffort",
            "diffserv3",
            "diffserv4",
            "diffserv8",
            "precedence",
            "diffserv5",
        ],
    );
    let fair = of(
        "flowmode",
        &[
            "flowblind",
            "srchost",
            "dsthost",
            "hosts",
            "flows",
            "dual-srchost",
            "dual-dsthost",
            "triple-isolate",
        ],
    );
    let mut made = DisciplineDraft::of("cake");
    made = match tins.as_deref() {
        None | Some("diffserv3") => made,
        Some("besteffort") => made.with("tins", "besteffort"),
        Some("diffserv4") => made.with("tins", "diffserv4"),
        Some(other) => {
            draft.lost(qdisc.at, format!("`{other}`: diffserv4"));
            made.with("tins", "diffserv4")
        }
    };
    made = match fair.as_deref() {
        None | Some("triple-isolate") => made,
        Some("flowblind") => {
            draft.lost(qdisc.at, "`flowblind`: shares for each flow");
            made.with("fair", "flows")
        }
        Some(other) => made.with("fair", other),
    };
    if let Some(rtt) = options
        .time("rtt")?
        .filter(|rtt| *rtt != Duration::from_millis(100))
    {
        made = made
            .with("interval", rtt)
            .with("target", Duration::from_nanos(rtt.nanos() / 20));
    }
    cake_losses(qdisc, draft)?;
    Ok(made)
}

/// Says what of cake is not here.
fn cake_losses(qdisc: &Qdisc, draft: &mut Draft) -> Result<(), ImportError> {
    let options = &qdisc.options;
    let text = |key: &str| options.get(key).and_then(Node::text);
    let is = |word: &str| options.flag(word);
    for (key, what) in [
        ("wash", "`wash`: DSCPs stay"),
        ("autorate-ingress", "`autorate-ingress`"),
    ] {
        if is(key) {
            draft.lost(qdisc.at, what);
        }
    }
    let ack = text("ack-filter").map_or_else(
        || is("ack-filter") || is("ack-filter-aggressive"),
        |text| text != "disabled",
    );
    if ack {
        draft.lost(qdisc.at, "`ack-filter`");
    }
    Ok(())
}

/// What cake counts of a packet: one of its words for lines, and numbers beside it.
pub(super) fn cake_framing(qdisc: &Qdisc, draft: &mut Draft) -> Result<Framing, ImportError> {
    let options = &qdisc.options;
    let named = options.list.iter().find_map(|(key, _)| Written::of_cake(key));
    let mut written = named.unwrap_or(Written::frames(CountsFrom::Ip));
    // In its JSON `raw` is there whenever it is not an overhead of its own.
    let is_raw = options.flag("raw");
    if let Some(node) = options.get("overhead").filter(|_| !is_raw) {
        let bytes: Option<i64> = node.to_string().parse().ok();
        let wrong = || ImportError::new(qdisc.at, "`overhead` is not a number of bytes");
        written.overhead = bytes.ok_or_else(wrong)?;
    }
    if let Some(mpu) = options.size("mpu")? {
        written.mpu = mpu.get();
    }
    let units = options.get("atm").and_then(Node::text);
    let words = ["atm", "ptm", "noatm"].into_iter();
    if let Some(word) = units.or_else(|| words.into_iter().find(|word| options.flag(word))) {
        written.linklayer = linklayer(word).unwrap_or(written.linklayer);
    }
    Ok(written.read(qdisc.at, draft))
}
