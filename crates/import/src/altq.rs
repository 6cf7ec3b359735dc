//! altq.conf(5), as altqd of ALTQ 3 reads it: statements of a line, `interface`, `class`, `filter`,
//! `filter6`, `conditioner`, `red` and `rio`.
//!
//! Precedence is ALTQ's: filters with an exact destination first, then the higher `ruleno`, then
//! the later one.

use crate::draft::{
    ClassDraft, DisciplineDraft, Draft, DraftValue, FilterDraft, InterfaceDraft, Names, Settings, prefix,
    service_curve,
};
use crate::missing::Missing;
use crate::place::{ImportError, Place, SourceFile, Word, Words, statements};
use crate::rates;
use engine::port_kind::received;
use engine::units::{Bandwidth, Bytes, Duration};
use std::net::{IpAddr, Ipv4Addr};

/// Thresholds of RED by the program's own default, in packets, and its greatest chance.
type RedSettings = (u64, u64, u64);

#[derive(Debug)]
struct Interface {
    draft: InterfaceDraft,
    names: Names,
    /// The root class, which is the link itself.
    root: Option<String>,
    control: Option<String>,
    /// Filters with their precedence: exact destination, `ruleno`.
    filters: Vec<((bool, u64), FilterDraft)>,
    /// Conditioners by name, of what arrives.
    conditioners: Vec<(String, DisciplineDraft, Place)>,
    arriving: Vec<FilterDraft>,
}

#[derive(Debug, Default)]
struct Reader {
    draft: Draft,
    interfaces: Vec<Interface>,
    red: Option<RedSettings>,
    plain: Option<Place>,
}

/// Reads the file.
pub(crate) fn read(source: SourceFile<'_>, missing: &Missing) -> Result<Draft, ImportError> {
    let mut reader = Reader::default();
    for mut words in statements(source.text, &['<', '>']) {
        let first = words.expect("a statement")?;
        match first.text.as_str() {
            "interface" => reader.interface(&mut words, missing)?,
            "class" => reader.class(&mut words)?,
            "filter" | "filter6" => reader.filter(&mut words, first.text == "filter6")?,
            "conditioner" => reader.conditioner(&mut words)?,
            "red" => {
                let (min, max) = (integer(&mut words)?, integer(&mut words)?);
                reader.red = Some((min, max, integer(&mut words)?));
            }
            "rio" => reader
                .draft
                .lost(first.at, "the thresholds of `rio`: its own defaults are used"),
            _ => return Err(first.wrong("interface, class, filter, filter6, conditioner, red or rio")),
        }
    }
    Ok(reader.finish())
}

fn integer(words: &mut Words) -> Result<u64, ImportError> {
    let word = words.expect("a whole number")?;
    word.text.parse().map_err(|_| word.wrong("a whole number"))
}

fn rate(words: &mut Words) -> Result<Bandwidth, ImportError> {
    let word = words.expect("a rate such as 10M")?;
    rates::bits(&word.text).ok_or_else(|| word.wrong("bits per second such as 10M"))
}

impl Reader {
    fn of(&mut self, name: &Word) -> Result<&mut Interface, ImportError> {
        let mut all = self.interfaces.iter_mut();
        all.find(|interface| interface.draft.name == name.text)
            .ok_or_else(|| name.wrong("an interface that an `interface` statement has named before"))
    }

    fn interface(&mut self, words: &mut Words, missing: &Missing) -> Result<(), ImportError> {
        let name = words.expect("the name of an interface")?;
        let (mut bandwidth, mut kind, mut settings) = (missing.up, None, Settings::new());
        while let Some(word) = words.next() {
            match word.text.as_str() {
                "bandwidth" => bandwidth = Some(rate(words)?),
                "tbrsize" => {
                    let size = words.expect("a length")?;
                    let what = format!("`tbrsize {}`: the link's bucket is sized by itself", size.text);
                    self.draft.lost(word.at, what);
                }
                "cbq" | "cbq-wrr" | "cbq-prr" => {
                    kind = Some("cbq");
                    if word.text == "cbq-prr" {
                        settings.push(("round_robin", "packet".into()));
                    }
                }
                "hfsc" => kind = Some("hfsc"),
                "priq" => kind = Some("priq"),
                "wfq" => kind = Some("wfq"),
                "fifoq" => kind = Some("fifo"),
                "red" => kind = Some("red"),
                "rio" => kind = Some("rio"),
                "blue" => kind = Some("blue"),
                "jobs" => self.draft.lost(
                    word.at,
                    "`jobs`: its bounds without admission cannot be kept; `fq_codel` is there instead",
                ),
                // Here the link only lends what it would lose.
                "efficient" => {}
                "nqueues" => settings.push(("queues", integer(words)?.into())),
                "qsize" => settings.push(("limit_bytes", Bytes::new(integer(words)?).into())),
                "hash" => self.hash(words, &mut settings)?,
                "qlimit" => settings.push(("limit", integer(words)?.into())),
                "thmin" => settings.push(("min", integer(words)?.into())),
                "thmax" => settings.push(("max", integer(words)?.into())),
                "packetsize" => settings.push(("packet_size", Bytes::new(integer(words)?).into())),
                "ecn" => settings.push(("ecn", true.into())),
                other => {
                    self.draft.lost(word.at, format!("`{other}` of the interface"));
                }
            }
        }
        let bandwidth = bandwidth.ok_or_else(|| {
            let message = format!(
                "`{}` has no `bandwidth`, and ALTQ asks its driver: give `--up RATE`",
                name.text
            );
            ImportError::new(name.at, message)
        })?;
        let discipline = DisciplineDraft {
            settings,
            ..DisciplineDraft::of(kind.unwrap_or("fq_codel"))
        };
        self.draft.attach("egress", &name.text);
        self.interfaces.push(Interface {
            draft: InterfaceDraft::new(&name.text, bandwidth, discipline, name.at),
            names: Names::default(),
            root: None,
            control: None,
            filters: Vec::new(),
            conditioners: Vec::new(),
            arriving: Vec::new(),
        });
        Ok(())
    }

    fn hash(&mut self, words: &mut Words, settings: &mut Settings) -> Result<(), ImportError> {
        let word = words.expect("dstaddr, srcport or full")?;
        let what = match word.text.as_str() {
            "dstaddr" => "destination",
            "full" => "full",
            "srcport" => {
                self.draft
                    .lost(word.at, "`hash srcport`: flows by all of addresses and ports");
                "full"
            }
            _ => return Err(word.wrong("dstaddr, srcport or full")),
        };
        settings.push(("hash", what.into()));
        Ok(())
    }

    fn class(&mut self, words: &mut Words) -> Result<(), ImportError> {
        let kind = words.expect("a discipline")?;
        let name = words.expect("the name of an interface")?;
        let own = words.expect("the name of the class")?;
        let parent = words.expect("the name of the parent class, or NULL")?;
        let red = self.red;
        let interface = self.of(&name)?;
        let link = interface.draft.bandwidth;
        let above = match parent.text.as_str() {
            "NULL" | "null" => None,
            other => Some(other.to_string()).filter(|other| Some(other) != interface.root.as_ref()),
        };
        if above
            .as_ref()
            .is_some_and(|above| !interface.draft.classes.iter().any(|class| class.name == *above))
        {
            return Err(parent.wrong("a class that was declared before, or NULL"));
        }
        let mut class = ClassDraft {
            name: interface.names.of(&own.text),
            parent: above,
            default: false,
            rate: Bandwidth::ZERO,
            settings: Settings::new(),
            discipline: None,
            at: own.at,
        };
        let mut read = ClassWords {
            link,
            red,
            losses: Vec::new(),
            queue: None,
            limit: None,
            control: false,
            plain: false,
        };
        match kind.text.as_str() {
            "cbq" => read.cbq(words, &mut class)?,
            "hfsc" => read.hfsc(words, &mut class)?,
            "priq" => read.priq(words, &mut class)?,
            _ => {
                let what = format!("class `{}` of `{}`", own.text, kind.text);
                self.draft.lost(kind.at, what);
                return Ok(());
            }
        }
        class.discipline = read.discipline();
        let is_root = parent.text.eq_ignore_ascii_case("null") && kind.text == "cbq" && class.rate == link;
        if read.control {
            interface.control = Some(own.text.clone());
            let what = format!(
                "control class `{}`: ARP and neighbour discovery leave before all classes; what else it took goes to the default class",
                own.text
            );
            read.losses.push((own.at, what));
        } else if is_root && !class.default {
            interface.root = Some(own.text.clone());
        } else {
            interface.draft.classes.push(class);
        }
        let ordinary = read.plain && !read.control && !is_root;
        for (at, what) in read.losses {
            self.draft.lost(at, what);
        }
        if ordinary {
            self.plain.get_or_insert(own.at);
        }
        Ok(())
    }

    fn filter(&mut self, words: &mut Words, v6: bool) -> Result<(), ImportError> {
        let start = words.start();
        let name = words.expect("the name of an interface")?;
        let class = words.expect("the name of a class")?;
        let mut rule = 0;
        loop {
            if words.take("name") {
                words.expect("the name of the filter")?;
            } else if words.take("ruleno") {
                rule = integer(words)?;
            } else {
                break;
            }
        }
        let mut filter = FilterDraft {
            class: String::new(),
            fields: Vec::new(),
            at: start,
        };
        let exact = address(words, "destination", v6, &mut filter)?;
        port(words, "destination_port", &mut filter)?;
        address(words, "source", v6, &mut filter)?;
        port(words, "source_port", &mut filter)?;
        let protocol = words.expect("a protocol")?;
        match protocol.text.parse::<u8>() {
            Ok(0) => {}
            Ok(number) => filter.field("protocol", u64::from(number)),
            Err(_) => filter.field("protocol", protocol.text.to_ascii_lowercase().as_str()),
        }
        if v6
            && filter
                .fields
                .iter()
                .all(|(key, _)| *key != "source" && *key != "destination")
        {
            filter.field("family", "ipv6");
        }
        let lost = conditions(words, &mut filter)?;
        let interface = self.of(&name)?;
        let of_control = interface.control.as_ref() == Some(&class.text);
        if let Some((at, what)) = lost {
            self.draft.lost(at, what);
        } else if interface
            .conditioners
            .iter()
            .any(|(own, _, _)| *own == class.text)
        {
            filter.class = class.text;
            interface.arriving.push(filter);
        } else if of_control {
            self.draft.lost(start, "a filter of the control class");
        } else {
            let known = interface.names.of(&class.text);
            if !interface.draft.classes.iter().any(|class| class.name == known) {
                return Err(class.wrong("a class that was declared before"));
            }
            filter.class = known;
            interface.filters.push(((exact, rule), filter));
        }
        Ok(())
    }

    fn conditioner(&mut self, words: &mut Words) -> Result<(), ImportError> {
        let start = words.start();
        let name = words.expect("the name of an interface")?;
        let own = words.expect("the name of the conditioner")?;
        match meter(words)? {
            Some(discipline) => self.of(&name)?.conditioners.push((own.text, discipline, start)),
            None => {
                // Filters may name it.
                let plain = DisciplineDraft::of("fifo");
                self.of(&name)?.conditioners.push((own.text, plain, start));
                self.draft
                    .lost(start, "this action of the conditioner: packets pass");
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Draft {
        if let Some(at) = self.plain {
            self.draft.lost(at, "a class without `red` or `rio` has a queue for each flow, kept short (fq_codel); ALTQ has one for all, of 50 packets");
        }
        for mut interface in self.interfaces {
            interface.filters.sort_by_key(|(precedence, _)| *precedence);
            interface.draft.filters = interface.filters.into_iter().map(|(_, filter)| filter).collect();
            if !interface.conditioners.is_empty() {
                let name = interface.draft.name.clone();
                let what = "conditioners: what arrives is also limited to the interface's bandwidth";
                self.draft.lost(interface.draft.at, what);
                let mut arriving = InterfaceDraft::new(
                    &received(&name),
                    interface.draft.bandwidth,
                    DisciplineDraft::of("drr"),
                    interface.draft.at,
                );
                arriving
                    .classes
                    .extend(
                        interface
                            .conditioners
                            .into_iter()
                            .map(|(name, discipline, at)| ClassDraft {
                                name,
                                parent: None,
                                default: false,
                                rate: Bandwidth::ZERO,
                                settings: Settings::new(),
                                discipline: Some(discipline),
                                at,
                            }),
                    );
                arriving.filters = interface.arriving;
                self.draft.attach("ingress", &name);
                self.draft.interfaces.push(interface.draft);
                self.draft.interfaces.push(arriving);
            } else {
                self.draft.interfaces.push(interface.draft);
            }
        }
        self.draft
    }
}

/// The words of a class.
struct ClassWords {
    link: Bandwidth,
    red: Option<RedSettings>,
    losses: Vec<(Place, String)>,
    queue: Option<&'static str>,
    limit: Option<u64>,
    control: bool,
    plain: bool,
}

impl ClassWords {
    /// What classes of all disciplines may have; whether this was such a word.
    fn queue(&mut self, word: &Word, words: &mut Words, class: &mut ClassDraft) -> Result<bool, ImportError> {
        match word.text.as_str() {
            "default" => class.default = true,
            "red" => self.queue = Some("red"),
            "rio" => self.queue = Some("rio"),
            "ecn" => self.queue = Some(if self.queue == Some("rio") { "rio" } else { "ecn" }),
            "flowvalve" => {
                self.queue.get_or_insert("red");
                self.losses.push((
                    word.at,
                    "`flowvalve`: flows that do not react are not blocked".into(),
                ));
            }
            "qlimit" => self.limit = Some(integer(words)?),
            "cleardscp" => self.losses.push((word.at, "`cleardscp`: the DSCP stays".into())),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn discipline(&mut self) -> Option<DisciplineDraft> {
        let fifo = self
            .limit
            .map(|limit| DisciplineDraft::of("fifo").with("limit", limit));
        let Some(queue) = self.queue else {
            self.plain = fifo.is_none();
            return fifo;
        };
        let mut discipline = match queue {
            "rio" => DisciplineDraft::of("rio"),
            other => DisciplineDraft::of("red").with("ecn", other == "ecn"),
        };
        if let Some((min, max, inverse)) = self.red.filter(|_| queue != "rio") {
            let chance = DraftValue::text(format!("{} %", 100.0 / inverse.max(1) as f64));
            discipline = discipline.with("min", min).with("max", max).with("max_p", chance);
        }
        Some(match fifo {
            Some(fifo) => discipline.over(fifo),
            None => discipline,
        })
    }

    fn cbq(&mut self, words: &mut Words, class: &mut ClassDraft) -> Result<(), ImportError> {
        let mut borrow = false;
        let mut further = Settings::new();
        while let Some(word) = words.next() {
            if self.queue(&word, words, class)? {
                continue;
            }
            match word.text.as_str() {
                "pbandwidth" => {
                    let share = words.expect("a percentage")?;
                    let rate = rates::percent(&format!("{}%", share.text), self.link);
                    class.rate = rate.ok_or_else(|| share.wrong("a percentage"))?;
                }
                "exactbandwidth" | "bandwidth" => class.rate = rate(words)?,
                "borrow" => {
                    borrow = true;
                    // Older files name whom to borrow from.
                    if words
                        .peek()
                        .is_some_and(|word| Some(word) == class.parent.as_deref())
                    {
                        words.next();
                    }
                }
                "priority" => further.push(("priority", integer(words)?.into())),
                "maxburst" | "minburst" => {
                    let key = if word.text == "maxburst" {
                        "maxburst"
                    } else {
                        "minburst"
                    };
                    further.push((key, integer(words)?.into()));
                }
                "packetsize" => further.push(("packet_size", Bytes::new(integer(words)?).into())),
                "control" => self.control = true,
                "admission" => {
                    let what = words.expect("an admission")?;
                    if what.text != "none" {
                        let what = format!(
                            "`admission {}`: `reserve` of the interface admits reservations",
                            what.text
                        );
                        self.losses.push((word.at, what));
                    }
                }
                "maxdelay" | "maxpacketsize" => {
                    let value = words.expect("a number")?;
                    self.losses
                        .push((word.at, format!("`{} {}`", word.text, value.text)));
                }
                other => self.losses.push((word.at, format!("`{other}` of the class"))),
            }
        }
        class.settings.push(("rate", class.rate.into()));
        class.settings.push(("borrow", borrow.into()));
        class.settings.extend(further);
        Ok(())
    }

    fn hfsc(&mut self, words: &mut Words, class: &mut ClassDraft) -> Result<(), ImportError> {
        let (mut real, mut share, mut upper) = (None, None, None);
        while let Some(word) = words.next() {
            if self.queue(&word, words, class)? {
                continue;
            }
            let on = |text: &Word, link| {
                let rate = rates::percent(&format!("{}%", text.text), link);
                rate.ok_or_else(|| text.wrong("a percentage"))
            };
            match word.text.as_str() {
                "sc" | "[" => {
                    let both = curve(words)?;
                    class.rate = both.1;
                    (real, share) = (Some(both.0.clone()), Some(both.0));
                }
                "rt" => real = Some(curve(words)?.0),
                "ls" => {
                    let own = curve(words)?;
                    (class.rate, share) = (own.1, Some(own.0));
                }
                "ul" => upper = Some(curve(words)?.0),
                "pshare" => {
                    class.rate = on(&words.expect("a percentage")?, self.link)?;
                    share = Some(class.rate.into());
                }
                "grate" => real = Some(rate(words)?.into()),
                "bandwidth" => {
                    class.rate = rate(words)?;
                    (real, share) = (Some(class.rate.into()), Some(class.rate.into()));
                }
                "ulimit" => upper = Some(rate(words)?.into()),
                other => self.losses.push((word.at, format!("`{other}` of the class"))),
            }
        }
        let given = [("realtime", real), ("linkshare", share), ("upperlimit", upper)];
        class
            .settings
            .extend(given.into_iter().filter_map(|(key, value)| Some((key, value?))));
        if class.settings.is_empty() {
            class.settings.push(("linkshare", self.link.into()));
        }
        Ok(())
    }

    fn priq(&mut self, words: &mut Words, class: &mut ClassDraft) -> Result<(), ImportError> {
        let mut priority = 0;
        while let Some(word) = words.next() {
            if self.queue(&word, words, class)? {
                continue;
            }
            match word.text.as_str() {
                "priority" => priority = integer(words)?,
                other => self.losses.push((word.at, format!("`{other}` of the class"))),
            }
        }
        class.settings.push(("priority", priority.into()));
        Ok(())
    }
}

/// `m1 d m2`, with or without brackets: bits per second, milliseconds, bits per second. Also the
/// second rate.
fn curve(words: &mut Words) -> Result<(DraftValue, Bandwidth), ImportError> {
    words.take("[");
    let first = rate(words)?;
    let time = integer(words)?;
    let second = rate(words)?;
    words.take("]");
    Ok((service_curve(first, Duration::from_millis(time), second), second))
}

/// The address and its mask; whether it is one host.
fn address(
    words: &mut Words,
    key: &'static str,
    v6: bool,
    filter: &mut FilterDraft,
) -> Result<bool, ImportError> {
    let word = words.expect("an address, or 0")?;
    let (text, slash) = match word.text.split_once('/') {
        Some((text, length)) => (text, Some(length)),
        None => (word.text.as_str(), None),
    };
    let wide = if v6 { 128 } else { 32 };
    let mut length = match slash {
        Some(length) => length.parse().map_err(|_| word.wrong("a prefix"))?,
        None => wide,
    };
    if words.take("netmask") {
        let mask = words.expect("a mask")?;
        length = mask_length(&mask.text)
            .ok_or_else(|| mask.wrong("a mask such as 255.255.255.0 or 0xffffff00"))?;
    }
    if text == "0" || text == "::" && slash.is_none_or(|length| length == "0") || length == 0 {
        return Ok(false);
    }
    let address: IpAddr = text.parse().map_err(|_| word.wrong("an address, or 0 for any"))?;
    if address.is_ipv6() != v6 || length > wide {
        return Err(word.wrong(if v6 { "an IPv6 prefix" } else { "an IPv4 address" }));
    }
    filter.field(key, prefix(address, length).as_str());
    Ok(length == wide)
}

fn mask_length(text: &str) -> Option<u32> {
    let mask = match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok()?,
        None => text.parse::<Ipv4Addr>().ok()?.to_bits(),
    };
    (mask.leading_ones() + mask.trailing_zeros() == 32 || mask == u32::MAX).then(|| mask.leading_ones())
}

fn port(words: &mut Words, key: &'static str, filter: &mut FilterDraft) -> Result<(), ImportError> {
    let word = words.expect("a port, or 0")?;
    match word.text.parse::<u16>() {
        Ok(0) => {}
        Ok(port) => filter.field(key, u64::from(port)),
        Err(_) => return Err(word.wrong("the number of a port, or 0 for any")),
    }
    Ok(())
}

/// What stands behind the protocol; what of it cannot be said takes the filter with it.
fn conditions(words: &mut Words, filter: &mut FilterDraft) -> Result<Option<(Place, String)>, ImportError> {
    let mut tos: Option<(Place, u64)> = None;
    let mut mask = 0xfc;
    let mut lost = None;
    while let Some(word) = words.next() {
        let value = words.expect("a value")?;
        let number = match value.text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => value.text.parse(),
        };
        let number = number.map_err(|_| value.wrong("a number"))?;
        match word.text.as_str() {
            "tos" | "tclass" => tos = Some((word.at, number)),
            "tosmask" | "tclassmask" => mask = number,
            "flowlabel" => filter.field("flow_label", number),
            other => {
                lost = Some((
                    word.at,
                    format!("a filter with `{other}`, which packets are not asked for"),
                ))
            }
        }
    }
    if let Some((at, tos)) = tos {
        match mask & 0xfc == 0xfc && tos < 256 {
            true => filter.field("dscp", tos >> 2),
            false => {
                lost = Some((
                    at,
                    format!("a filter with `tosmask 0x{mask:x}`: only the whole DSCP is asked for"),
                ))
            }
        }
    }
    Ok(lost)
}

/// The action of a conditioner; none if it cannot be said.
fn meter(words: &mut Words) -> Result<Option<DisciplineDraft>, ImportError> {
    let open = words.expect("`<`")?;
    if open.text != "<" {
        return Err(open.wrong("`<`"));
    }
    let kind = words.expect("an action")?;
    let police = |meter: &'static str| DisciplineDraft::of("police").with("meter", meter);
    let discipline = match kind.text.as_str() {
        "tbmeter" => {
            let (rate, depth) = (rate(words)?, Bytes::new(integer(words)?));
            police("token-bucket").with("rate", rate).with("burst", depth)
        }
        "trtcm" => {
            let (committed, depth) = (rate(words)?, Bytes::new(integer(words)?));
            let (peak, peak_depth) = (rate(words)?, Bytes::new(integer(words)?));
            police("trtcm")
                .with("rate", committed)
                .with("burst", depth)
                .with("excess_rate", peak)
                .with("excess_burst", peak_depth)
        }
        _ => return Ok(None),
    };
    let colours: &[&'static str] = match kind.text.as_str() {
        "tbmeter" => &["green", "red"],
        _ => &["green", "yellow", "red"],
    };
    let mut discipline = discipline;
    for colour in colours {
        words.take("<");
        let action = words.expect("an action")?;
        let action = match action.text.as_str() {
            "pass" => "pass".to_string(),
            "drop" => "drop".to_string(),
            "mark" => {
                let value = words.expect("a mark")?;
                let number = match value.text.strip_prefix("0x") {
                    Some(hex) => u8::from_str_radix(hex, 16),
                    None => value.text.parse(),
                };
                (number.map_err(|_| value.wrong("a TOS byte such as 0x28"))? >> 2).to_string()
            }
            _ => return Ok(None),
        };
        discipline = discipline.with(colour, action.as_str());
        words.take(">");
    }
    if words.take("coloraware") {
        discipline = discipline.with("aware", true);
    }
    Ok(Some(discipline))
}
