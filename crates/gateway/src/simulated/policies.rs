//! Policies of the simulated router, drawn at random, and words that are none.

use super::kernel::NAMES;
use engine::random::{Rng, Seed};
use engine::units::Duration;

/// The class that yields, where one does.
pub(super) const YIELDS: &str = "a";

/// One of these.
pub(super) fn pick<'a, T: ?Sized>(rng: &mut Rng, of: &[&'a T]) -> &'a T {
    of[rng.below(of.len() as u64) as usize]
}

/// What no policy of a seed changes: a running program cannot.
pub(super) struct Fixed {
    pub(super) ring: usize,
    text: String,
    /// The refresh period of RSVP, where it is spoken.
    pub(super) refresh: Option<Duration>,
    /// How many times as slow refreshes are as a short run has to have them.
    pub(super) slower: u64,
    /// On which interfaces something may be reserved.
    pub(super) reserves: [bool; 2],
    /// The bandwidth of the second interface in Mbit/s, where a class of it yields: no policy
    /// changes that while it runs.
    yields: Option<u64>,
}

/// Whether the router of a seed speaks RSVP.
pub(super) fn speaks_rsvp(seed: u64) -> bool {
    Seed(seed).fork("rsvp").stream().below(3) == 0
}

/// Whether a class of a seed's router yields.
pub(super) fn yields(seed: u64) -> bool {
    Seed(seed).fork("yields").stream().below(6) == 0
}

impl Fixed {
    pub(super) fn of(seed: u64, slower: u64, rng: &mut Rng) -> Self {
        let workers = pick(rng, &["one", "per-direction"]);
        let ring = 4 + rng.below(60);
        let mut own = Seed(seed).fork("reserve").stream();
        let refresh = speaks_rsvp(seed).then(|| Duration::from_millis(slower * (100 + own.below(200))));
        let reserves = [refresh.is_some() && own.below(2) == 0, refresh.is_some()];
        let spoken = refresh.map_or_else(String::new, |refresh| {
            let (ms, longest) = (refresh.nanos() / 1_000_000, refresh.nanos() / 500_000);
            let reduction = own.below(3) > 0;
            let kept = if slower > 1 {
                "kept_messages = \"64 KiB\"\n"
            } else {
                ""
            };
            format!(
                "[rsvp]\ninterfaces = [\"lan0\", \"wan0\"]\nrefresh = \"{ms} ms\"\n\
                 longest_refresh = \"{longest} ms\"\nrefresh_reduction = {reduction}\n{kept}"
            )
        });
        // RSVP is spoken where the kernel routes.
        let attached = if refresh.is_some() { "egress" } else { "between" };
        let text = format!(
            "{spoken}[port]\n{attached} = [\"lan0\", \"wan0\"]\nworkers = \"{workers}\"\n\
             transmit_ring = {ring}\n"
        );
        let bandwidth = Seed(seed).fork("yielding").stream().below(8);
        Self {
            ring: ring as usize,
            text,
            refresh,
            slower,
            reserves,
            yields: yields(seed).then_some(5 + bandwidth),
        }
    }
}

/// A policy for both interfaces.
pub(super) fn policy(rng: &mut Rng, fixed: &Fixed) -> String {
    let interfaces = NAMES.iter().zip(fixed.reserves).zip([None, fixed.yields]);
    let interfaces: Vec<String> = interfaces
        .map(|((name, reserves), yields)| interface(rng, name, reserves, yields))
        .collect();
    format!("version = 1\n{}{}", fixed.text, interfaces.concat())
}

fn interface(rng: &mut Rng, name: &str, reserves: bool, yields: Option<u64>) -> String {
    let bandwidth = 8 + rng.below(30);
    let bandwidth = yields.unwrap_or(bandwidth);
    let share = if reserves { 20 + rng.below(50) } else { 0 };
    let reserve = match reserves {
        true => format!("reserve = {{ share = \"{share} %\" }}\n"),
        false => String::new(),
    };
    let head = |kind: &str| {
        format!("[interface.{name}]\nbandwidth = \"{bandwidth} Mbit/s\"\ndiscipline = {kind}\n{reserve}")
    };
    let plain = [
        "\"fifo\"",
        "\"fq_codel\"",
        "\"wfq\"",
        "\"red\"",
        "\"codel\"",
        "{ kind = \"fifo\", limit = 40 }",
    ];
    if !reserves && rng.below(4) == 0 && yields.is_none() {
        return head(pick(rng, &plain));
    }
    let kind = match reserves {
        true => pick(rng, &["drr", "wrr", "hfsc", "cbq"]),
        false => pick(rng, &["drr", "wrr", "hfsc", "cbq", "priq"]),
    };
    // What is left beside what may be reserved.
    let unit = if reserves || yields.is_some() { 200 } else { 1_000 };
    let class = |rng: &mut Rng, class: &str, part: u64, more: &str| {
        let setting = match kind {
            "drr" | "wrr" => format!("weight = {}", 1 + rng.below(5)),
            "priq" => format!("priority = {part}"),
            "hfsc" => format!("linkshare = \"{} kbit/s\"", part * unit),
            _ => format!("rate = \"{} kbit/s\"", part * unit),
        };
        let leaf = match rng.below(3) {
            0 => "",
            1 => "discipline = \"fifo\"\n",
            _ => "discipline = \"fq_codel\"\n",
        };
        format!("[[interface.{name}.class]]\nname = \"{class}\"\n{setting}\n{leaf}{more}")
    };
    let classes = [
        class(rng, "voice", 4, "").replace("\"fq_codel\"", "\"fifo\""),
        class(
            rng,
            YIELDS,
            2,
            if yields.is_some() { "yields = {}\n" } else { "" },
        ),
        class(rng, "rest", 1, "default = true\n"),
    ];
    let sends = "sends = { rate = \"100 kbit/s\", burst = \"400 B\" }\n";
    let promised = match rng.below(2) == 0 {
        true => classes[0].clone() + sends,
        false => classes[0].clone(),
    };
    let filter = |class: &str, port: &str| {
        format!(
            "[[interface.{name}.filter]]\nclass = \"{class}\"\nprotocol = \"udp\"\ndestination_port = {port}\n"
        )
    };
    let other = (5_001 + rng.below(4)).to_string();
    let connections = yields.map_or_else(String::new, |_| {
        format!("[[interface.{name}.filter]]\nclass = \"{YIELDS}\"\nprotocol = \"tcp\"\n")
    });
    format!(
        "{}{promised}{}{}{}{}{connections}",
        head(&format!("\"{kind}\"")),
        classes[1],
        classes[2],
        filter("voice", "5000"),
        filter("a", &other)
    )
}

/// What is no policy, or none for this program.
pub(super) fn mistaken(rng: &mut Rng, fixed: &Fixed) -> String {
    let mut text = policy(rng, fixed);
    match rng.below(4) {
        0 => text.truncate(rng.below(text.len() as u64) as usize),
        1 => text = text.replace("discipline", "disciplin"),
        2 => text.push_str("[interface.eth9]\nbandwidth = \"1 Mbit/s\"\n"),
        _ => text = (0..200).map(|_| char::from(rng.below(128) as u8)).collect(),
    }
    text
}

/// Words of clients who do not know what they ask for.
pub(super) fn word(rng: &mut Rng) -> String {
    let words = [
        "wan0",
        "a",
        "rest",
        "voice",
        "",
        "0",
        "-1",
        "9999999 Tbit/s",
        "\u{7f}\n",
        "nobody",
        "weight",
    ];
    match rng.below(3) {
        0 => (0..rng.below(300))
            .map(|_| char::from(rng.below(256) as u8))
            .collect(),
        _ => pick(rng, &words).to_owned(),
    }
}
