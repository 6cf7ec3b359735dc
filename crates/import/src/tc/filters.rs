//! Filters of tc: u32, flower and fw, as far as they ask for what a filter of a policy asks for.
//!
//! The lowest preference decides first, and in one of u32 the order. What is odd, such as a
//! comparison of other bytes, takes the whole filter with it.

use super::json::Node;
use super::objects::{Filter, Handle, Match, Objects, Options, Qdisc};
use crate::draft::{Draft, DraftValue, FilterDraft, InterfaceDraft, Settings, prefix};
use crate::place::{ImportError, Place, Word, Words};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A filter in JSON; tables of u32 and heads of lists are none.
pub(super) fn of_json(node: &Node, device: Option<String>, options: &Options) -> Option<Filter> {
    let text = |key: &str| node.get(key).and_then(Node::text);
    let flow = ["flowid", "classid"]
        .iter()
        .find_map(|key| options.get(key).and_then(Node::text));
    if options.list.is_empty() || options.get("ht_divisor").is_some() {
        return None;
    }
    let hex = |node: &Node, key: &str| u32::from_str_radix(node.get(key).and_then(Node::text)?, 16).ok();
    let one = |node: &Node| {
        let offset = match node.get("off")? {
            Node::Whole(offset) => u32::try_from(*offset).ok()?,
            _ => return None,
        };
        let plain = node.get("offmask").and_then(Node::text).is_none_or(str::is_empty);
        plain.then_some(Match {
            value: hex(node, "value")?,
            mask: hex(node, "mask")?,
            offset,
        })
    };
    let all: Vec<Option<Match>> = options
        .list
        .iter()
        .filter(|(key, _)| key == "match")
        .map(|(_, node)| one(node))
        .collect();
    let actions = options.get("actions").or_else(|| options.get("police"));
    let mut odd = actions.map(|_| "an action".to_owned());
    if all.contains(&None) {
        odd = Some("a comparison at an offset of the packet's own".into());
    }
    Some(Filter {
        device,
        parent: text("parent").and_then(Handle::read),
        protocol: text("protocol").unwrap_or("all").into(),
        preference: match node.get("pref") {
            Some(Node::Whole(preference)) => *preference,
            _ => 0,
        },
        kind: text("kind").unwrap_or_default().into(),
        flow: flow.and_then(Handle::read),
        matches: all.into_iter().flatten().collect(),
        options: options.clone(),
        odd,
        at: options.at,
    })
}

/// A filter of a command, behind `filter add`.
pub(super) fn of_words(at: Place, mut words: Words) -> Result<Filter, ImportError> {
    let mut filter = Filter {
        device: None,
        parent: None,
        protocol: "all".into(),
        preference: 0,
        kind: String::new(),
        flow: None,
        matches: Vec::new(),
        options: Options { list: Vec::new(), at },
        odd: None,
        at,
    };
    let handle = |words: &mut Words| {
        let word = words.expect("a handle")?;
        Handle::read(&word.text).ok_or_else(|| word.wrong("a handle such as 1:10"))
    };
    while let Some(word) = words.next() {
        let mut value = || words.expect("a value");
        match word.text.as_str() {
            "dev" => filter.device = Some(value()?.text),
            "parent" => filter.parent = Some(handle(&mut words)?),
            "root" => {}
            "protocol" => filter.protocol = value()?.text,
            "prio" | "pref" | "priority" => {
                let word = value()?;
                filter.preference = word.text.parse().map_err(|_| word.wrong("a number"))?;
            }
            "handle" => {
                let value = Node::Text(value()?.text);
                filter.options.list.push(("handle".into(), value));
            }
            "u32" | "flower" | "fw" | "basic" | "matchall" | "cgroup" | "bpf" | "flow" | "route"
                if filter.kind.is_empty() =>
            {
                filter.kind = word.text;
            }
            "flowid" | "classid" => filter.flow = Some(handle(&mut words)?),
            "match" if filter.kind == "u32" => u32_match(&mut words, &mut filter)?,
            "action" => {
                let action = value()?;
                if !["pass", "ok", "continue"].contains(&action.text.as_str()) {
                    filter.odd = Some(format!("action {}", action.text));
                    break;
                }
            }
            _ if filter.kind == "flower" => {
                let value = Node::Text(value()?.text);
                filter.options.list.push((word.text, value));
            }
            other => {
                filter.odd.get_or_insert(other.to_owned());
                words.next();
            }
        }
    }
    Ok(filter)
}

fn number(word: &Word) -> Result<u32, ImportError> {
    let read = match word.text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => word.text.parse(),
    };
    read.map_err(|_| word.wrong("a number"))
}

/// `match ip dport 22 0xffff`, `match ip6 dst 2001:db8::/32`, `match u32 VALUE MASK at OFFSET`.
fn u32_match(words: &mut Words, filter: &mut Filter) -> Result<(), ImportError> {
    let what = words.expect("ip, ip6 or u32")?;
    let v6 = what.text == "ip6";
    if !["ip", "ip6"].contains(&what.text.as_str()) {
        let value = words.expect("a value")?;
        let mask = words.expect("a mask")?;
        words.take("at");
        let offset = words.expect("an offset")?;
        let read = (number_hex(&value), number_hex(&mask), offset.text.parse());
        match (what.text.as_str(), read) {
            ("u32", (Some(value), Some(mask), Ok(offset))) => {
                filter.matches.push(Match { value, mask, offset })
            }
            _ => filter.odd = Some(format!("match {} … at {}", what.text, offset.text)),
        }
        return Ok(());
    }
    let field = words.expect("a field such as dport")?;
    match field.text.as_str() {
        "src" | "dst" => {
            let word = words.expect("an address")?;
            let from = match (field.text.as_str(), v6) {
                ("src", false) => 12,
                ("dst", false) => 16,
                ("src", true) => 8,
                _ => 24,
            };
            address(&word, from, v6, filter)?;
        }
        "sport" | "dport" | "protocol" | "tos" | "dsfield" | "priority" | "flowlabel" => {
            let (value, mask) = (
                number(&words.expect("a value")?)?,
                number(&words.expect("a mask")?)?,
            );
            let (offset, shift) = match (field.text.as_str(), v6) {
                ("sport", false) => (20, 16),
                ("dport", false) => (20, 0),
                ("protocol", false) => (8, 16),
                ("sport", true) => (40, 16),
                ("dport", true) => (40, 0),
                ("protocol", true) => (4, 8),
                ("flowlabel", true) => (0, 0),
                (_, true) => (0, 20),
                _ => (0, 16),
            };
            let (value, mask) = (value.checked_shl(shift), mask.checked_shl(shift));
            filter.matches.push(Match {
                value: value.unwrap_or(0),
                mask: mask.unwrap_or(0),
                offset,
            });
        }
        other => {
            filter.odd = Some(format!("match {} {other}", what.text));
            words.next();
            words.next();
        }
    }
    Ok(())
}

fn number_hex(word: &Word) -> Option<u32> {
    u32::from_str_radix(word.text.trim_start_matches("0x"), 16).ok()
}

/// An address as comparisons of its words.
fn address(word: &Word, from: u32, v6: bool, filter: &mut Filter) -> Result<(), ImportError> {
    let (host, length) = word.text.split_once('/').unwrap_or((&word.text, ""));
    let wrong = || word.wrong("an address or a prefix");
    let address: IpAddr = host.parse().map_err(|_| wrong())?;
    if address.is_ipv6() != v6 {
        return Err(wrong());
    }
    let bits = match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
        IpAddr::V6(v6) => v6.to_bits(),
    };
    let wide: u32 = if v6 { 128 } else { 32 };
    let length = if length.is_empty() {
        wide
    } else {
        length
            .parse()
            .ok()
            .filter(|length| *length <= wide)
            .ok_or_else(wrong)?
    };
    let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
    for nth in 0..wide / 32 {
        let part = |of: u128| (of >> (96 - 32 * nth)) as u32;
        if part(mask) != 0 {
            filter.matches.push(Match {
                value: part(bits & mask),
                mask: part(mask),
                offset: from + 4 * nth,
            });
        }
    }
    Ok(())
}

/// Puts the filters of a qdisc into its interface.
pub(super) fn apply(root: &Qdisc, objects: &Objects, interface: &mut InterfaceDraft, draft: &mut Draft) {
    let own = objects.filters.iter().filter(|filter| match &filter.device {
        Some(device) => *device == root.device,
        None => filter.parent.is_none_or(|parent| parent.qdisc() == root.handle),
    });
    let mut own: Vec<&Filter> = own.collect();
    // Stable: in one preference the first decides.
    own.sort_by_key(|filter| filter.preference);
    for filter in own.into_iter().rev() {
        if filter.parent.is_some_and(|parent| parent != root.handle) {
            draft.lost(filter.at, "a filter that is not of the root qdisc");
            continue;
        }
        let class = filter.flow.map(|class| class.to_string());
        let Some(class) = class.filter(|class| interface.classes.iter().any(|own| own.name == *class)) else {
            draft.lost(
                filter.at,
                format!("a filter `{}` without a class of the tree", filter.kind),
            );
            continue;
        };
        match conditions(filter) {
            Ok(fields) => {
                if filter.kind == "fw" {
                    draft.lost(
                        filter.at,
                        "`fw`: marks of the kernel reach a policy only where the port has them",
                    );
                }
                interface.filters.push(FilterDraft {
                    class,
                    fields,
                    at: filter.at,
                });
            }
            Err(what) => draft.lost(filter.at, format!("a filter `{}` with {what}", filter.kind)),
        }
    }
}

fn conditions(filter: &Filter) -> Result<Settings, String> {
    if let Some(odd) = &filter.odd {
        return Err(format!("`{odd}`"));
    }
    let mut fields = match filter.protocol.as_str() {
        "all" | "802.1Q" | "802_3" => Settings::new(),
        "ip" | "ipv4" => Settings::from([("family", "ipv4".into())]),
        "ipv6" => Settings::from([("family", "ipv6".into())]),
        other => return Err(format!("protocol `{other}`")),
    };
    match filter.kind.as_str() {
        "u32" => u32_fields(filter, &mut fields)?,
        "flower" => flower(filter, &mut fields)?,
        "fw" => {
            let handle = filter.options.get("handle").or_else(|| filter.options.get("fh"));
            let text = handle.map(ToString::to_string).unwrap_or_default();
            let read = match text.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16),
                None => text.parse(),
            };
            fields.push(("mark", read.map_err(|_| format!("mark `{text}`"))?.into()));
        }
        "matchall" => {}
        other => return Err(format!("classifier `{other}`")),
    }
    Ok(fields)
}

fn u32_fields(filter: &Filter, fields: &mut Settings) -> Result<(), String> {
    let v6 = filter.protocol == "ipv6";
    let mut addresses = [[(0u32, 0u32); 4]; 2];
    for Match { value, mask, offset } in &filter.matches {
        let odd = || format!("match {value:08x}/{mask:08x} at {offset}");
        if *mask == 0 {
            continue;
        }
        let slot = match (v6, offset) {
            (false, 12) => Some((0, 0)),
            (false, 16) => Some((1, 0)),
            (true, 8..=20) if offset % 4 == 0 => Some((0, (offset - 8) / 4)),
            (true, 24..=36) if offset % 4 == 0 => Some((1, (offset - 24) / 4)),
            _ => None,
        };
        if let Some((which, nth)) = slot {
            addresses[which][nth as usize] = (*value, *mask);
            continue;
        }
        // Several fields may be in one word of the packet.
        let mut rest = *mask;
        let known: &[(&'static str, u32, u32)] = match (v6, offset) {
            (false, 0) => &[("dscp", 0x00fc_0000, 18)],
            (false, 8) => &[("protocol", 0x00ff_0000, 16)],
            (false, 20) | (true, 40) => &[("source_port", 0xffff_0000, 16), ("destination_port", 0xffff, 0)],
            (true, 0) => &[("dscp", 0x0fc0_0000, 22), ("flow_label", 0x000f_ffff, 0)],
            (true, 4) => &[("protocol", 0xff00, 8)],
            _ => &[],
        };
        for (key, bits, shift) in known.iter().filter(|(_, bits, _)| mask & bits == *bits) {
            fields.push((key, u64::from((value & bits) >> shift).into()));
            rest &= !bits;
        }
        // The two bits of ECN beside the DSCP.
        let is_ecn = *offset == 0 && rest == if v6 { 0x0030_0000 } else { 0x0003_0000 };
        if rest != 0 && !is_ecn {
            return Err(odd());
        }
    }
    for (key, parts) in [("source", addresses[0]), ("destination", addresses[1])] {
        let all = |part: fn(&(u32, u32)) -> u32| {
            let words = parts.iter().map(part);
            words.fold(0u128, |all, word| all << 32 | u128::from(word))
        };
        let (value, mask) = (all(|part| part.0), all(|part| part.1));
        if mask == 0 {
            continue;
        }
        let length = mask.leading_ones();
        if length + mask.trailing_zeros() != 128 && mask != u128::MAX {
            return Err(format!("a mask of `{key}` with gaps"));
        }
        let address = match v6 {
            true => IpAddr::from(Ipv6Addr::from_bits(value)),
            false => IpAddr::from(Ipv4Addr::from_bits((value >> 96) as u32)),
        };
        fields.push((key, DraftValue::text(prefix(address, length))));
    }
    Ok(())
}

fn flower(filter: &Filter, fields: &mut Settings) -> Result<(), String> {
    const IDLE: &[&str] = &[
        "handle",
        "classid",
        "flowid",
        "keys",
        "skip_hw",
        "skip_sw",
        "not_in_hw",
        "in_hw",
        "chain",
        "eth_type",
    ];
    let keys = filter.options.get("keys").map_or(&[][..], Node::entries);
    let own = filter
        .options
        .list
        .iter()
        .filter(|(key, _)| !IDLE.contains(&key.as_str()));
    for (key, value) in own.chain(keys.iter().filter(|(key, _)| key != "eth_type")) {
        let text = value.to_string();
        let wrong = || format!("{key} `{text}`");
        let field: (&'static str, DraftValue) = match key.as_str() {
            "ip_proto" => (
                "protocol",
                match text.parse::<u64>() {
                    Ok(number) => number.into(),
                    Err(_) => text.as_str().into(),
                },
            ),
            "src_ip" | "dst_ip" => {
                let (host, length) = text.split_once('/').unwrap_or((&text, ""));
                let address: IpAddr = host.parse().map_err(|_| wrong())?;
                let wide = if address.is_ipv4() { 32 } else { 128 };
                let length = if length.is_empty() {
                    wide
                } else {
                    length
                        .parse()
                        .ok()
                        .filter(|length| *length <= wide)
                        .ok_or_else(wrong)?
                };
                let key = if key == "src_ip" { "source" } else { "destination" };
                (key, DraftValue::text(prefix(address, length)))
            }
            "src_port" | "dst_port" => {
                let key = if key == "src_port" {
                    "source_port"
                } else {
                    "destination_port"
                };
                (key, ports(value).ok_or_else(wrong)?)
            }
            "ip_tos" => {
                let (tos, mask) = text.split_once('/').unwrap_or((&text, "0xff"));
                let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
                let tos =
                    hex(tos).filter(|tos| hex(mask).is_some_and(|mask| mask & 0xfc == 0xfc) && *tos < 256);
                ("dscp", (tos.ok_or_else(wrong)? >> 2).into())
            }
            _ => return Err(wrong()),
        };
        fields.push(field);
    }
    Ok(())
}

/// A port, `80-90`, or an object with `start` and `end`.
fn ports(value: &Node) -> Option<DraftValue> {
    match value {
        Node::Whole(port) => u16::try_from(*port).ok().map(|port| u64::from(port).into()),
        Node::Object(_) => {
            let part = |key: &str| match value.get(key) {
                Some(Node::Whole(port)) => u16::try_from(*port).ok(),
                _ => None,
            };
            Some(DraftValue::text(format!("{}-{}", part("start")?, part("end")?)))
        }
        other => {
            let text = other.to_string();
            match text.split_once('-') {
                None => text.parse::<u16>().ok().map(|port| u64::from(port).into()),
                Some((low, high)) => {
                    let (low, high): (u16, u16) = (low.parse().ok()?, high.parse().ok()?);
                    (low <= high).then(|| DraftValue::text(format!("{low}-{high}")))
                }
            }
        }
    }
}
