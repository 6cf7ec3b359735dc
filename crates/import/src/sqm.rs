//! OpenWrt's /etc/config/sqm: sections `config queue`, in the syntax of UCI, as sqm-scripts read
//! them. Rates are in kbit/s.
//!
//! The overhead is counted in two ways: by `cake` from the IP packet on, by `tc stab` (the scripts
//! with HTB) from the Ethernet header on.

use crate::draft::{ClassDraft, DisciplineDraft, Draft, DraftValue, InterfaceDraft, Settings};
use crate::framing::{CountsFrom, Written, linklayer};
use crate::place::{ImportError, Place, SourceFile, Word, Words, statements};
use crate::rates;
use engine::framing::Framing;
use engine::port_kind::received;
use engine::units::Bandwidth;
use std::collections::BTreeMap;

/// The options of a section, each with its place.
#[derive(Debug, Default)]
struct Section {
    at: Place,
    options: BTreeMap<String, Word>,
}

/// Reads the file.
pub(crate) fn read(source: SourceFile<'_>) -> Result<Draft, ImportError> {
    let mut sections: Vec<Option<Section>> = Vec::new();
    // UCI's quotes are single too.
    let text = source.text.replace('\'', "\"");
    for mut words in statements(&text, &[]) {
        let first = words.expect("a statement")?;
        match first.text.as_str() {
            "config" => {
                let kind = words.expect("the type of a section")?;
                let section = Section {
                    at: first.at,
                    ..Section::default()
                };
                sections.push((kind.text == "queue").then_some(section));
            }
            "option" => {
                let name = words.expect("the name of an option")?;
                let value = option_value(&mut words, &name);
                match sections.last_mut() {
                    Some(Some(section)) => drop(section.options.insert(name.text, value)),
                    Some(None) => {}
                    None => return Err(first.wrong("`config queue` first")),
                }
            }
            "list" => {}
            _ => return Err(first.wrong("config, option or list")),
        }
    }
    let mut draft = Draft::default();
    for mut section in sections.into_iter().flatten() {
        section.apply(&mut draft)?;
    }
    Ok(draft)
}

/// The value; an empty one is no word.
fn option_value(words: &mut Words, name: &Word) -> Word {
    words.next().unwrap_or(Word {
        text: String::new(),
        at: name.at,
    })
}

/// How a direction is managed.
struct Direction<'a> {
    name: String,
    rate: Bandwidth,
    /// `eqdisc_opts` or `iqdisc_opts`.
    further: Vec<&'a str>,
    ecn: bool,
}

impl Section {
    fn take(&mut self, name: &str) -> Option<Word> {
        self.options.remove(name).filter(|word| !word.text.is_empty())
    }

    fn flag(&mut self, name: &str) -> bool {
        self.take(name).is_some_and(|word| word.text == "1")
    }

    fn rate(&mut self, name: &str) -> Result<Option<Bandwidth>, ImportError> {
        let Some(word) = self.take(name) else {
            return Ok(None);
        };
        let rate = rates::sqm(&word.text).ok_or_else(|| word.wrong("kbit/s, a number alone"))?;
        // 0: this direction is not managed.
        Ok(Some(rate).filter(|rate| rate.bits() > 0))
    }

    fn apply(&mut self, draft: &mut Draft) -> Result<(), ImportError> {
        if self.take("enabled").is_some_and(|word| word.text == "0") {
            draft.lost(self.at, "a queue that is not enabled");
            return Ok(());
        }
        let interface = self.take("interface");
        let interface =
            interface.ok_or_else(|| ImportError::new(self.at, "`option interface` is missing"))?;
        let (down, up) = (self.rate("download")?, self.rate("upload")?);
        let script = self.take("script").map_or("simple.qos".into(), |word| word.text);
        let qdisc = self.take("qdisc");
        let is_cake = script.contains("cake");
        if let Some(qdisc) = qdisc.filter(|qdisc| !is_cake && qdisc.text != "fq_codel") {
            draft.lost(
                qdisc.at,
                format!("`qdisc {}` of `{script}`: fq_codel", qdisc.text),
            );
        }
        if ![
            "piece_of_cake.qos",
            "layer_cake.qos",
            "simple.qos",
            "simplest.qos",
            "simplest_tbf.qos",
        ]
        .contains(&script.as_str())
        {
            draft.lost(
                self.at,
                format!("script `{script}` is not one of sqm-scripts' own: one queue for each flow"),
            );
        }
        let framing = self.framing(is_cake, draft)?;
        let advanced = self.flag("qdisc_advanced");
        let squash = self.take("squash_ingress").is_none_or(|word| word.text == "1");
        let words = |word: Option<Word>| word.filter(|_| advanced).map_or(String::new(), |word| word.text);
        let (of_up, of_down) = (words(self.take("eqdisc_opts")), words(self.take("iqdisc_opts")));
        let says = |word: Option<Word>, usual: bool| {
            word.filter(|_| advanced).map_or(usual, |word| word.text == "ECN")
        };
        let (up_ecn, down_ecn) = (
            says(self.take("egress_ecn"), false),
            says(self.take("ingress_ecn"), true),
        );
        let name = interface.text.as_str();
        let directions = [
            (up, name.to_string(), &of_up, true, up_ecn),
            (down, received(name), &of_down, false, down_ecn),
        ];
        for (rate, own, further, is_upload, ecn) in directions {
            let Some(rate) = rate else { continue };
            draft.attach(if is_upload { "egress" } else { "ingress" }, name);
            let direction = Direction {
                name: own,
                rate,
                further: further.split_whitespace().collect(),
                ecn,
            };
            let made = match script.as_str() {
                "simple.qos" => {
                    draft.lost(interface.at, "`simple.qos`: its three classes, by DSCP alone");
                    direction.three_tiers(interface.at)
                }
                _ => {
                    let marks = script == "layer_cake.qos" && (is_upload || !squash);
                    direction.one(is_cake, marks, interface.at, draft)
                }
            };
            draft.interfaces.push(InterfaceDraft { framing, ..made });
        }
        self.rest(draft);
        Ok(())
    }

    /// Without a `linklayer` the scripts count frames as they are.
    fn framing(&mut self, is_cake: bool, draft: &mut Draft) -> Result<Framing, ImportError> {
        let from = if is_cake {
            CountsFrom::Ip
        } else {
            CountsFrom::Frame
        };
        let mut written = Written::frames(from);
        let (layer, overhead, mpu) = (self.take("linklayer"), self.take("overhead"), self.take("tcMPU"));
        let Some(layer) = layer.filter(|layer| layer.text != "none") else {
            return Ok(written.read(self.at, draft));
        };
        written.linklayer =
            linklayer(&layer.text).ok_or_else(|| layer.wrong("`none`, `ethernet`, `atm` or `adsl`"))?;
        // Without a number the scripts add none, from where they count.
        written.overhead = 0;
        if let Some(word) = overhead {
            written.overhead = word.text.parse().map_err(|_| word.wrong("a number of bytes"))?;
        }
        if let Some(word) = mpu {
            written.mpu = word.text.parse().map_err(|_| word.wrong("a number of bytes"))?;
        }
        Ok(written.read(layer.at, draft))
    }

    /// Says what was not read.
    fn rest(&mut self, draft: &mut Draft) {
        const IDLE: &[&str] = &[
            "debug_logging",
            "verbosity",
            "linklayer_advanced",
            "tcMTU",
            "tcTSIZE",
            "linklayer_adaptation_mechanism",
            "qdisc_really_really_advanced",
            "squash_dscp",
            "use_mq",
        ];
        for (name, word) in std::mem::take(&mut self.options) {
            let is_usual =
                word.text.is_empty() || word.text == "0" || word.text == "default" || word.text == "auto";
            let kept = name == "squash_dscp" && word.text == "1";
            if (!IDLE.contains(&name.as_str()) && !is_usual) || kept {
                draft.lost(word.at, format!("`{name} {}`", word.text));
            }
        }
    }
}

impl Direction<'_> {
    /// One discipline for all.
    fn one(&self, is_cake: bool, marks: bool, at: Place, draft: &mut Draft) -> InterfaceDraft {
        let mut discipline = DisciplineDraft::of(if is_cake { "cake" } else { "fq_codel" });
        if !is_cake {
            discipline = discipline.with("ecn", self.ecn);
            if !self.further.is_empty() {
                draft.lost(at, format!("`{}`", self.further.join(" ")));
            }
            return InterfaceDraft::new(&self.name, self.rate, discipline, at);
        }
        let (mut tins, mut fair) = (if marks { "diffserv3" } else { "besteffort" }, None);
        let (mut nat, mut ingress) = (false, false);
        for word in &self.further {
            match *word {
                "besteffort" => tins = "besteffort",
                "diffserv3" => tins = "diffserv3",
                "diffserv4" => tins = "diffserv4",
                "flows" => fair = Some("flows"),
                "srchost" => fair = Some("srchost"),
                "dsthost" => fair = Some("dsthost"),
                "hosts" => fair = Some("hosts"),
                "dual-srchost" => fair = Some("dual-srchost"),
                "dual-dsthost" => fair = Some("dual-dsthost"),
                "triple-isolate" => fair = Some("triple"),
                "nat" => nat = true,
                "nonat" => nat = false,
                "nowash" | "no-ack-filter" | "split-gso" => {}
                "ingress" => ingress = true,
                "egress" => ingress = false,
                other => draft.lost(at, format!("`{other}` of cake")),
            }
        }
        discipline = discipline.with("tins", tins);
        if let Some(fair) = fair {
            discipline = discipline.with("fair", fair);
        }
        if ingress {
            discipline = discipline.with("ingress", true);
        }
        InterfaceDraft {
            nat,
            ..InterfaceDraft::new(&self.name, self.rate, discipline, at)
        }
    }

    /// simple.qos: three classes by DSCP, of which the first has a third at most, and the others a
    /// sixth at least.
    fn three_tiers(&self, at: Place) -> InterfaceDraft {
        let part = |nth: u64| Bandwidth::bits_per_sec(self.rate.bits() / nth);
        let mut made = InterfaceDraft::new(
            &self.name,
            self.rate,
            DisciplineDraft::of("cbq").with("excess", "priority"),
            at,
        );
        let queue = || DisciplineDraft::of("fq_codel").with("ecn", self.ecn);
        let class = |name: &str, rate: Bandwidth, priority: u64| ClassDraft {
            name: name.into(),
            parent: None,
            default: false,
            rate,
            settings: Settings::from([("rate", rate.into()), ("priority", priority.into())]),
            discipline: Some(queue()),
            at,
        };
        let first = class("priority", part(3), 3);
        let first = ClassDraft {
            settings: first
                .settings
                .into_iter()
                .chain([("borrow", DraftValue::Boolean(false))])
                .collect(),
            ..first
        };
        let usual = ClassDraft {
            default: true,
            ..class("best-effort", part(6), 2)
        };
        made.classes = vec![first, usual, class("bulk", part(6), 1)];
        let marks: [(&str, &[&str]); 2] = [("priority", &["ef", "cs6", "cs7", "va"]), ("bulk", &["cs1"])];
        for (class, names) in marks {
            made.filters
                .extend(names.iter().map(|name| crate::draft::FilterDraft {
                    class: class.into(),
                    fields: Settings::from([("dscp", (*name).into())]),
                    at,
                }));
        }
        made
    }
}
