//! `tc qdisc … netem …`, as commands or as `tc qdisc show` prints them: what netem does to the
//! packets that leave an interface, as the links of a lab (tc-netem(8), `sch_netem.c` of Linux 6).
//!
//! A link leads from `here` to a host that is called as the interface; the other way is plain. What
//! netem does otherwise than a link:
//!
//! - Its reordering lets the chosen packets leave at once and delays the others; a link delays
//!   those that it chooses. So a share of *p* with a delay is that delay of the other 1 − *p*.
//! - Its jitter is on both sides of the delay, and packets overtake each other by it unless there
//!   is a rate. Uniform: the link's delay is the least there, and its jitter what is between.
//! - Loss in four states is read as one in two where its second state is not used.

use crate::draft::{Draft, LinkDraft, Settings};
use crate::place::{ImportError, Place, SourceFile, Word, Words, statements};
use crate::rates;
use engine::units::{Bandwidth, Bytes, Duration};
use std::fmt;

/// Packets in netem's queue unless `limit` says otherwise.
const USUAL_LIMIT: u64 = 1_000;
/// A full frame.
const FRAME: u64 = 1_514;
/// What `tc qdisc show` calls what a rate adds to packets.
const OF_CELLS: [&str; 3] = ["packetoverhead", "cellsize", "celloverhead"];
/// What a link without a rate has: more than a computer forwards.
const NO_LIMIT: Bandwidth = Bandwidth::gbit(10);

/// A share, in millionths of a per cent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Percent(u64);

impl Percent {
    const UNIT: u64 = 1_000_000;
    const ALL: Self = Self(100 * Self::UNIT);
    const NONE: Self = Self(0);

    /// `0.3%`, or without the sign as tc takes it, too.
    fn read(text: &str) -> Option<Self> {
        let number = text.strip_suffix('%').unwrap_or(text);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = |text: &str| text.chars().all(|c| c.is_ascii_digit());
        if !digits(whole) || !digits(fraction) || whole.len() + fraction.len() == 0 {
            return None;
        }
        let fraction: String = fraction.chars().chain("000000".chars()).take(6).collect();
        let whole: u64 = format!("0{whole}").parse().ok()?;
        let read = Self(
            whole
                .checked_mul(Self::UNIT)?
                .checked_add(fraction.parse().ok()?)?,
        );
        (read <= Self::ALL).then_some(read)
    }

    fn rest(self) -> Self {
        Self(Self::ALL.0 - self.0)
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.0 / Self::UNIT, self.0 % Self::UNIT);
        let fraction = format!("{fraction:06}");
        match fraction.trim_end_matches('0') {
            "" => write!(f, "{whole} %"),
            fraction => write!(f, "{whole}.{fraction} %"),
        }
    }
}

/// How a delay varies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Distribution {
    Uniform,
    Normal,
    Pareto,
}

/// What a netem does.
#[derive(Clone, Debug, Default)]
struct Netem {
    at: Place,
    below: Option<String>,
    limit: Option<u64>,
    delay: Duration,
    jitter: Duration,
    distribution: Option<Distribution>,
    loss: Option<String>,
    corrupt: Option<Percent>,
    duplicate: Option<Percent>,
    reorder: Option<Percent>,
    gap: Option<u64>,
    rate: Option<Bandwidth>,
}

/// What is known of an interface.
#[derive(Clone, Debug, Default)]
struct Device {
    name: String,
    netem: Option<Netem>,
    /// The rate of a `tbf` above or below it.
    tbf: Option<Bandwidth>,
}

/// Reads the file.
pub(crate) fn read(source: SourceFile<'_>) -> Result<Draft, ImportError> {
    let mut draft = Draft::default();
    let mut devices: Vec<Device> = Vec::new();
    for words in statements(source.text, &[]) {
        statement(words, &mut devices, &mut draft)?;
    }
    for device in devices {
        if let Some(netem) = device.netem.clone() {
            let link = link(&device, &netem, &mut draft);
            draft.links.push(link);
        }
    }
    Ok(draft)
}

/// Whether a text is of this kind: its qdiscs are netem, with a `tbf` perhaps.
pub(crate) fn looks_so(text: &str) -> bool {
    let mut kinds = statements(text, &[]).into_iter().filter_map(|mut words| {
        leads_to_qdisc(&mut words).then_some(())?;
        let words = words.rest();
        let known =
            |word: &Word| ["netem", "tbf", "htb", "hfsc", "prio", "cake"].contains(&word.text.as_str());
        words.into_iter().find(known).map(|word| word.text)
    });
    let kinds: Vec<String> = kinds.by_ref().collect();
    kinds.iter().any(|kind| kind == "netem") && kinds.iter().all(|kind| kind == "netem" || kind == "tbf")
}

/// Goes on behind the word `qdisc`, if it is there, before it `tc` and what may be before that.
fn leads_to_qdisc(words: &mut Words) -> bool {
    while let Some(word) = words.peek() {
        match word {
            "sudo" | "tc" => _ = words.next(),
            "qdisc" => {
                words.next();
                return true;
            }
            _ => return false,
        }
    }
    false
}

fn statement(mut words: Words, devices: &mut Vec<Device>, draft: &mut Draft) -> Result<(), ImportError> {
    let at = words.start();
    if !leads_to_qdisc(&mut words) {
        let what = match words.peek() {
            Some("class" | "filter") => "classes and filters: all packets take the link",
            _ => "what is no command of tc",
        };
        draft.lost(at, what);
        return Ok(());
    }
    let mut removes = false;
    if let Some("add" | "replace" | "change" | "del" | "delete") = words.peek() {
        removes = words.peek().is_some_and(|verb| verb.starts_with("del"));
        words.next();
    }
    let (mut name, mut below, mut kind) = (None, None, None);
    while let Some(word) = words.peek() {
        match word {
            "dev" => {
                words.next();
                name = Some(words.expect("an interface")?);
            }
            "parent" => {
                words.next();
                below = Some(words.expect("a handle")?.text);
            }
            "root" => _ = words.next(),
            "handle" | "refcnt" => {
                words.next();
                words.expect("a value")?;
            }
            // `tc qdisc show` prints the handle behind the kind.
            text if kind.is_some() && text.ends_with(':') => _ = words.next(),
            _ if kind.is_none() => kind = words.next(),
            _ => break,
        }
    }
    let Some(name) = name else {
        return Err(ImportError::new(at, "a qdisc without `dev`"));
    };
    if name.text.starts_with('$') {
        return Err(name.wrong("an interface, not a variable: read what `tc qdisc show` prints instead"));
    }
    let place = devices.iter().position(|device| device.name == name.text);
    if removes {
        devices.retain(|device| device.name != name.text);
        return Ok(());
    }
    let place = place.unwrap_or_else(|| {
        devices.push(Device {
            name: name.text.clone(),
            ..Device::default()
        });
        devices.len() - 1
    });
    match kind.as_ref().map(|kind| kind.text.as_str()) {
        Some("netem") => {
            devices[place].netem = Some(Netem {
                at,
                below,
                ..netem(&mut words, draft)?
            });
        }
        Some("tbf") => devices[place].tbf = tbf(&mut words)?,
        Some("noqueue" | "pfifo_fast" | "mq" | "fq_codel" | "pfifo" | "bfifo") => {}
        Some(other) => draft.lost(at, format!("`{other}`: all packets take the link")),
        None => {
            return Err(ImportError::new(
                at,
                "expected a kind such as netem; the line ends here",
            ));
        }
    }
    Ok(())
}

fn tbf(words: &mut Words) -> Result<Option<Bandwidth>, ImportError> {
    while let Some(word) = words.next() {
        if word.text == "rate" {
            return rate(words).map(Some);
        }
    }
    Ok(None)
}

fn rate(words: &mut Words) -> Result<Bandwidth, ImportError> {
    let word = words.expect("a rate")?;
    rates::tc(&word.text).ok_or_else(|| word.wrong("a rate such as 20mbit"))
}

fn time(words: &mut Words) -> Result<Duration, ImportError> {
    let word = words.expect("a time")?;
    rates::tc_time(&word.text).ok_or_else(|| word.wrong("a time such as 5ms"))
}

fn percent(words: &mut Words) -> Result<Percent, ImportError> {
    let word = words.expect("a share")?;
    Percent::read(&word.text).ok_or_else(|| word.wrong("a share such as 1%"))
}

fn whole(words: &mut Words) -> Result<u64, ImportError> {
    let word = words.expect("a whole number")?;
    word.text.parse().map_err(|_| word.wrong("a whole number"))
}

/// The next word as a share, if it is one.
fn maybe_percent(words: &mut Words) -> Option<Percent> {
    let read = words.peek().and_then(Percent::read)?;
    words.next();
    Some(read)
}

/// The same, perhaps behind the name that `tc qdisc show` gives it.
fn labelled_percent(words: &mut Words) -> Option<Percent> {
    const LABELS: [&str; 9] = ["p", "r", "1-h", "1-k", "p13", "p31", "p32", "p23", "p14"];
    if words.peek().is_some_and(|word| LABELS.contains(&word)) {
        words.next();
    }
    maybe_percent(words)
}

/// The options of a netem.
fn netem(words: &mut Words, draft: &mut Draft) -> Result<Netem, ImportError> {
    let mut read = Netem::default();
    while let Some(key) = words.next() {
        match key.text.as_str() {
            "limit" => read.limit = Some(whole(words)?),
            "delay" | "latency" => {
                read.delay = time(words)?;
                if words.peek().and_then(rates::tc_time).is_some() {
                    read.jitter = time(words)?;
                    correlation(&key, words, draft);
                }
            }
            "distribution" => read.distribution = Some(distribution(words, draft)?),
            "loss" | "drop" => read.loss = loss(&key, words, draft)?,
            "corrupt" => {
                read.corrupt = Some(percent(words)?);
                correlation(&key, words, draft);
            }
            "duplicate" => {
                read.duplicate = Some(percent(words)?);
                correlation(&key, words, draft);
            }
            "reorder" => {
                read.reorder = Some(percent(words)?);
                correlation(&key, words, draft);
            }
            "gap" => read.gap = Some(whole(words)?),
            "rate" => {
                read.rate = Some(rate(words)?);
                let mut more = false;
                while words
                    .peek()
                    .is_some_and(|word| word.parse::<i64>().is_ok() || OF_CELLS.contains(&word))
                {
                    words.next();
                    more = true;
                }
                if more {
                    draft.lost(
                        key.at,
                        "what `rate` adds to packets: their frames count as they are",
                    );
                }
            }
            "seed" => {
                words.expect("a seed")?;
                draft.lost(
                    key.at,
                    "`seed`: other packets are drawn; `suimon lab --seed` chooses which",
                );
            }
            "ecn" => draft.lost(key.at, "`ecn`: packets are lost, not marked"),
            "slot" => {
                draft.lost(key.at, "`slot`, and what is behind it");
                while words.next().is_some() {}
            }
            _ => return Err(key.wrong("an option of netem such as `delay`, `loss` or `rate`")),
        }
    }
    Ok(read)
}

/// A correlation, if there is one: no link has it.
fn correlation(of: &Word, words: &mut Words, draft: &mut Draft) {
    if maybe_percent(words).is_some_and(|correlation| correlation > Percent::NONE) {
        let message = format!(
            "the correlation of `{}`: packets are drawn each by itself",
            of.text
        );
        draft.lost(of.at, message);
    }
}

fn distribution(words: &mut Words, draft: &mut Draft) -> Result<Distribution, ImportError> {
    let word = words.expect("a distribution")?;
    Ok(match word.text.as_str() {
        "uniform" => Distribution::Uniform,
        "normal" => Distribution::Normal,
        "pareto" => Distribution::Pareto,
        "paretonormal" => {
            draft.lost(word.at, "`paretonormal` is approximated by a Pareto distribution");
            Distribution::Pareto
        }
        _ => {
            draft.lost(
                word.at,
                format!(
                    "the table `{}` is approximated by a normal distribution",
                    word.text
                ),
            );
            Distribution::Normal
        }
    })
}

fn loss(key: &Word, words: &mut Words, draft: &mut Draft) -> Result<Option<String>, ImportError> {
    let shares =
        |words: &mut Words| -> Vec<Percent> { std::iter::from_fn(|| labelled_percent(words)).collect() };
    let first = match words.peek() {
        Some("gemodel" | "state") => words.next().map(|word| word.text),
        Some("random") => {
            words.next();
            None
        }
        _ => None,
    };
    let text = match first.as_deref() {
        Some("gemodel") => {
            let all = shares(words);
            let [p, rest @ ..] = all.as_slice() else {
                return Err(key.wrong("`loss gemodel` with a share such as 1%"));
            };
            let given = |place: usize| rest.get(place).copied();
            let r = given(0).unwrap_or(p.rest());
            let (bad, good) = (
                given(1).unwrap_or(Percent::ALL),
                given(2).unwrap_or(Percent::NONE),
            );
            format!("gilbert-elliott {p}, {r}, {bad}, {good}")
        }
        Some(_) => {
            let all = shares(words);
            let Some(&p13) = all.first() else {
                return Err(key.wrong("`loss state` with a share such as 1%"));
            };
            let given = |place: usize| all.get(place).copied();
            let p31 = given(1).unwrap_or(p13.rest());
            // Received packets within a burst, as many as p32 and p23 say.
            if given(2).is_some_and(|p32| p32 > Percent::NONE) {
                let message = "the second state of `loss state`: every packet of a burst is lost";
                draft.lost(key.at, message);
            }
            let alone = given(4).unwrap_or(Percent::NONE);
            format!("gilbert-elliott {p13}, {p31}, {}, {alone}", Percent::ALL)
        }
        None => {
            let share = percent(words)?;
            correlation(key, words, draft);
            share.to_string()
        }
    };
    Ok(Some(text))
}

/// The link that does what netem does.
fn link(device: &Device, netem: &Netem, draft: &mut Draft) -> LinkDraft {
    let mut settings: Settings = Vec::new();
    let rate = match (netem.rate, device.tbf) {
        (Some(own), Some(tbf)) => Some(own.min(tbf)),
        (own, tbf) => own.or(tbf),
    };
    settings.push(("rate", rate.unwrap_or(NO_LIMIT).into()));
    if let Some(below) = netem.below.as_ref().filter(|_| device.tbf.is_none()) {
        let message = format!("it is below `{below}`: here all packets take the link");
        draft.lost(netem.at, message);
    }
    delay(netem, rate.is_some(), &mut settings, draft);
    if let Some(loss) = &netem.loss {
        settings.push(("loss", loss.as_str().into()));
    }
    for (key, share) in [("corrupt", netem.corrupt), ("duplicate", netem.duplicate)] {
        settings.extend(share.map(|share| (key, share.to_string().as_str().into())));
    }
    match netem.limit.filter(|limit| *limit != USUAL_LIMIT) {
        Some(limit) if rate.is_some() => {
            settings.push(("buffer", Bytes::new(limit.saturating_mul(FRAME)).into()));
            draft.lost(
                netem.at,
                "`limit` in packets is the buffer in bytes, as many full frames",
            );
        }
        Some(_) => draft.lost(
            netem.at,
            "`limit`: without a rate no packet waits in the link's buffer",
        ),
        None => {}
    }
    // What a host of a lab may be called.
    let part = |c: char| {
        if c.is_ascii_alphanumeric() || c == '_' {
            c
        } else {
            '-'
        }
    };
    LinkDraft {
        to: device.name.chars().take(15).map(part).collect(),
        settings,
        at: netem.at,
    }
}

/// The delay, and how it varies.
fn delay(netem: &Netem, ordered: bool, settings: &mut Settings, draft: &mut Draft) {
    let (delay, jitter) = (netem.delay, netem.jitter);
    let order = if ordered { "" } else { ", unordered" };
    if let Some(at_once) = netem.reorder {
        // Those that are not chosen are delayed, and the others overtake them.
        let mut later = at_once.rest();
        if let Some(gap) = netem.gap.filter(|gap| *gap > 1) {
            later = Percent(Percent::ALL.0 - at_once.0 / gap);
            draft.lost(
                netem.at,
                format!("`gap {gap}`: one of {gap} on average is not delayed"),
            );
        }
        if jitter > Duration::ZERO {
            draft.lost(netem.at, "the jitter of packets beside `reorder`");
        }
        if delay > Duration::ZERO {
            settings.push(("reorder", format!("{later} by {delay}").as_str().into()));
        }
        return;
    }
    let (least, added) = match netem.distribution.unwrap_or(Distribution::Uniform) {
        _ if jitter == Duration::ZERO => (delay, None),
        Distribution::Uniform => {
            if jitter > delay {
                draft.lost(
                    netem.at,
                    "the jitter is longer than the delay: the least of both is zero",
                );
            }
            (
                delay - jitter,
                Some(format!("{}", delay + jitter - (delay - jitter))),
            )
        }
        Distribution::Normal => (
            Duration::ZERO,
            Some(format!("normal {delay}, deviation {jitter}")),
        ),
        Distribution::Pareto => {
            draft.lost(
                netem.at,
                "netem's table of Pareto's distribution is one with the same mean and deviation",
            );
            // The deviation of a Pareto distribution of shape 3 is √3 times its mean.
            let mean = Duration::from_nanos(jitter.nanos() * 1_000 / 1_732);
            (delay - mean, Some(format!("pareto {mean}")))
        }
    };
    if least > Duration::ZERO {
        settings.push(("delay", least.into()));
    }
    settings.extend(added.map(|added| ("jitter", format!("{added}{order}").as_str().into())));
}
