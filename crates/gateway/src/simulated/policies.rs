//! Policies of the simulated router, drawn at random, and words that are none.

use super::kernel::NAMES;
use engine::random::Rng;

/// One of these.
pub(super) fn pick<'a, T: ?Sized>(rng: &mut Rng, of: &[&'a T]) -> &'a T {
    of[rng.below(of.len() as u64) as usize]
}

/// What no policy of a seed changes: a running program cannot.
pub(super) fn port(rng: &mut Rng) -> String {
    let workers = pick(rng, &["one", "per-direction"]);
    let ring = 4 + rng.below(60);
    format!(
        "[port]\nbetween = [\"lan0\", \"wan0\"]\nworkers = \"{workers}\"\n\
         transmit_ring = {ring}\n"
    )
}

/// A policy for both interfaces.
pub(super) fn policy(rng: &mut Rng, port: &str) -> String {
    let interfaces: Vec<String> = NAMES.iter().map(|name| interface(rng, name)).collect();
    format!("version = 1\n{port}{}", interfaces.concat())
}

fn interface(rng: &mut Rng, name: &str) -> String {
    let bandwidth = 8 + rng.below(30);
    let head =
        |kind: &str| format!("[interface.{name}]\nbandwidth = \"{bandwidth} Mbit/s\"\ndiscipline = {kind}\n");
    let plain = [
        "\"fifo\"",
        "\"fq_codel\"",
        "\"wfq\"",
        "\"red\"",
        "\"codel\"",
        "{ kind = \"fifo\", limit = 40 }",
    ];
    if rng.below(4) == 0 {
        return head(pick(rng, &plain));
    }
    let kind = pick(rng, &["drr", "wrr", "hfsc", "cbq", "priq"]);
    let class = |rng: &mut Rng, class: &str, part: u64, more: &str| {
        let setting = match kind {
            "drr" | "wrr" => format!("weight = {}", 1 + rng.below(5)),
            "priq" => format!("priority = {part}"),
            "hfsc" => format!("linkshare = \"{part} Mbit/s\""),
            _ => format!("rate = \"{part} Mbit/s\""),
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
        class(rng, "a", 2, ""),
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
    format!(
        "{}{promised}{}{}{}{}",
        head(&format!("\"{kind}\"")),
        classes[1],
        classes[2],
        filter("voice", "5000"),
        filter("a", &other)
    )
}

/// What is no policy, or none for this program.
pub(super) fn mistaken(rng: &mut Rng, port: &str) -> String {
    let mut text = policy(rng, port);
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
