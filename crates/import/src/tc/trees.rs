//! Qdiscs with classes: HTB and HFSC as `hfsc`, prio as `priq`.

use super::json::Node;
use super::leaves;
use super::objects::{Class, Handle, Objects, Options, Qdisc};
use crate::draft::{
    ClassDraft, DisciplineDraft, Draft, DraftValue, FilterDraft, InterfaceDraft, Settings, service_curve,
};
use crate::framing::{CountsFrom, Written, linklayer};
use crate::missing::Missing;
use crate::place::{ImportError, Place};
use crate::rates;
use engine::units::{Bandwidth, Bytes, Duration};

/// A class of HTB.
struct Limits {
    rate: Bandwidth,
    ceil: Bandwidth,
}

fn limits(class: &Class) -> Result<Limits, ImportError> {
    let rate = class.options.rate("rate")?;
    let rate = rate.ok_or_else(|| ImportError::new(class.at, "a class of htb without `rate`"))?;
    Ok(Limits {
        rate,
        ceil: class.options.rate("ceil")?.unwrap_or(rate),
    })
}

fn is_top(class: &Class) -> bool {
    class.parent.is_none_or(|parent| parent.minor == 0)
}

/// The class that takes what no filter takes, by its minor number in hexadecimal.
fn default_of(root: &Qdisc) -> Option<u16> {
    let text = root.options.get("default")?.to_string();
    u16::from_str_radix(text.trim_start_matches("0x"), 16)
        .ok()
        .filter(|minor| *minor != 0)
}

/// The queue below a class, or the usual one.
fn leaf(
    class: &Class,
    root: &Qdisc,
    objects: &Objects,
    draft: &mut Draft,
) -> Result<Option<DisciplineDraft>, ImportError> {
    match objects.below(&root.device, class.handle) {
        Some(qdisc) => leaves::queue(qdisc, objects, draft),
        None => {
            draft.lost(root.at, "a class without a qdisc has a queue for each flow, kept short (fq_codel); the kernel has one for all (pfifo)");
            Ok(None)
        }
    }
}

/// HTB.
pub(super) fn htb(root: &Qdisc, objects: &Objects, draft: &mut Draft) -> Result<InterfaceDraft, ImportError> {
    let classes: Vec<&Class> = objects.classes_of(root).collect();
    let top: Vec<&&Class> = classes.iter().filter(|class| is_top(class)).collect();
    let mut link = 0u64;
    for class in &top {
        link = link.saturating_add(limits(class)?.ceil.bits());
    }
    if top.is_empty() {
        return Err(ImportError::new(
            root.at,
            "htb without classes: give the output of `tc -j class show` too",
        ));
    }
    let link = Bandwidth::bits_per_sec(link);
    let above = |handle: Handle| classes.iter().any(|class| class.parent == Some(handle));
    // A single class at the top is the link.
    let single = match top.as_slice() {
        [one] if above(one.handle) => Some(one.handle),
        _ => None,
    };
    let mut interface = InterfaceDraft::new(&root.device, link, DisciplineDraft::of("hfsc"), root.at);
    let default = default_of(root);
    let mut priorities: Vec<u64> = Vec::new();
    for class in &classes {
        if Some(class.handle) == single {
            if let Limits { rate, ceil } = limits(class)?
                && rate != ceil
            {
                draft.lost(
                    class.at,
                    format!("`rate {rate}` of the class of the whole link: its ceil {ceil} counts"),
                );
            }
            continue;
        }
        let Limits { rate, ceil } = limits(class)?;
        let is_leaf = !above(class.handle);
        let parent = class
            .parent
            .filter(|parent| parent.minor != 0 && Some(*parent) != single);
        let mut settings: Settings = vec![("linkshare", rate.max(Bandwidth::kbit(1)).into())];
        if ceil < link {
            settings.push(("upperlimit", ceil.into()));
        }
        if is_leaf {
            priorities.push(class.options.integer("prio")?.unwrap_or(0));
        }
        burst(class, rate, draft)?;
        interface.classes.push(ClassDraft {
            name: class.handle.to_string(),
            parent: parent.map(|parent| parent.to_string()),
            default: default == Some(class.handle.minor),
            rate,
            settings,
            discipline: if is_leaf {
                leaf(class, root, objects, draft)?
            } else {
                None
            },
            at: class.at,
        });
    }
    if priorities.iter().any(|priority| *priority != priorities[0]) {
        draft.lost(
            root.at,
            "`prio` of classes: what is left is shared by their rates, not by priority first",
        );
    }
    if !interface.classes.iter().any(|class| class.default) {
        draft.lost(
            root.at,
            "packets that no filter takes: htb sends them at once, without a limit",
        );
    }
    framing(&classes, &mut interface, draft)?;
    Ok(interface)
}

/// A burst that was meant: more than the kernel's own for this rate.
fn burst(class: &Class, rate: Bandwidth, draft: &mut Draft) -> Result<(), ImportError> {
    let usual = rate.bytes_in(Duration::from_millis(10)).max(Bytes::new(16_000));
    for key in ["burst", "cburst"] {
        if let Some(length) = class.options.size(key)?.filter(|length| *length > usual) {
            draft.lost(
                class.at,
                format!("`{key} {length}`: a class may catch up by `limit_burst`"),
            );
        }
    }
    Ok(())
}

/// What classes count of a packet: one for the whole link.
fn framing(classes: &[&Class], interface: &mut InterfaceDraft, draft: &mut Draft) -> Result<(), ImportError> {
    let mut all = Vec::new();
    for class in classes {
        let mut own = Written::frames(CountsFrom::Frame);
        let overhead = class.options.integer("overhead")?.unwrap_or(0);
        own.overhead = i64::try_from(overhead).unwrap_or(i64::MAX);
        own.mpu = class.options.size("mpu")?.map_or(0, Bytes::get);
        let layer = class.options.get("linklayer").and_then(Node::text);
        own.linklayer = layer.and_then(linklayer).unwrap_or(own.linklayer);
        all.push(own);
    }
    let counts = |own: &&Written| **own != Written::frames(CountsFrom::Frame);
    let Some(chosen) = all.iter().find(counts).copied() else {
        return Ok(());
    };
    interface.framing = chosen.read(interface.at, draft);
    if all.iter().any(|own| *own != chosen) {
        let what = format!(
            "classes that count packets otherwise: {} for the whole link",
            interface.framing
        );
        draft.lost(interface.at, what);
    }
    Ok(())
}

/// HFSC.
pub(super) fn hfsc(
    root: &Qdisc,
    objects: &Objects,
    missing: &Missing,
    draft: &mut Draft,
) -> Result<InterfaceDraft, ImportError> {
    let classes: Vec<&Class> = objects
        .classes_of(root)
        .filter(|class| class.handle.minor != 0)
        .collect();
    let above = |handle: Handle| classes.iter().any(|class| class.parent == Some(handle));
    let top: Vec<&&Class> = classes.iter().filter(|class| is_top(class)).collect();
    let single = match top.as_slice() {
        [one] if above(one.handle) => Some(**one),
        _ => None,
    };
    let own = single
        .map(|class| second(&class.options, &["ul", "ls", "sc"]))
        .transpose()?
        .flatten();
    let link = own.or(missing.up).ok_or_else(|| {
        ImportError::new(
            root.at,
            "no single class at the top limits the link: give its rate, `--up RATE`",
        )
    })?;
    let mut interface = InterfaceDraft::new(&root.device, link, DisciplineDraft::of("hfsc"), root.at);
    let default = default_of(root);
    for class in &classes {
        if single.is_some_and(|single| single.handle == class.handle) {
            continue;
        }
        let mut settings = Settings::new();
        for (key, words) in [
            ("realtime", ["rt", "sc"]),
            ("linkshare", ["ls", "sc"]),
            ("upperlimit", ["ul", "ul"]),
        ] {
            let node = words.iter().find_map(|word| class.options.get(word));
            if let Some(node) = node {
                settings.push((key, curve(node, class.at)?.0));
            }
        }
        let parent = class.parent.filter(|parent| parent.minor != 0);
        let parent = parent.filter(|parent| single.is_none_or(|single| single.handle != *parent));
        let is_leaf = !above(class.handle);
        interface.classes.push(ClassDraft {
            name: class.handle.to_string(),
            parent: parent.map(|parent| parent.to_string()),
            default: default == Some(class.handle.minor),
            rate: second(&class.options, &["ls", "sc", "rt"])?.unwrap_or(Bandwidth::ZERO),
            settings,
            discipline: if is_leaf {
                leaf(class, root, objects, draft)?
            } else {
                None
            },
            at: class.at,
        });
    }
    Ok(interface)
}

/// The rate in the long run of the first of these curves that is given.
fn second(options: &Options, keys: &[&str]) -> Result<Option<Bandwidth>, ImportError> {
    let node = keys.iter().find_map(|key| options.get(key));
    node.map(|node| curve(node, options.at).map(|(_, rate)| rate))
        .transpose()
}

/// The curve, and its second rate.
fn curve(node: &Node, at: Place) -> Result<(DraftValue, Bandwidth), ImportError> {
    let rate = |key: &str| -> Result<Option<Bandwidth>, ImportError> {
        let Some(value) = node.get(key) else {
            return Ok(None);
        };
        let read = match value {
            Node::Whole(bytes) => Some(rates::tc_json(*bytes)),
            other => rates::tc(&other.to_string()),
        };
        read.map(Some)
            .ok_or_else(|| ImportError::new(at, format!("`{key}`: expected a rate; found `{value}`")))
    };
    let time = |key: &str| match node.get(key) {
        None => Some(Duration::ZERO),
        Some(Node::Whole(us)) => Some(Duration::from_micros((*us).min(1 << 40))),
        Some(other) => rates::tc_time(&other.to_string()),
    };
    let wrong = |key: &str| ImportError::new(at, format!("`{key}`: expected a time such as 10ms"));
    let long = rate("m2")?.or(rate("rate")?).unwrap_or(Bandwidth::ZERO);
    if let Some(length) = node.get("umax") {
        let length = rates::tc_size(&length.to_string());
        let length = length.ok_or_else(|| ImportError::new(at, "`umax`: expected a length"))?;
        let delay = time("dmax").ok_or_else(|| wrong("dmax"))?;
        return Ok((
            DraftValue::text(format!("{length} in {delay}, then {long}")),
            long,
        ));
    }
    let short = time("d").ok_or_else(|| wrong("d"))?;
    let first = rate("m1")?.unwrap_or(Bandwidth::ZERO);
    if node.get("m1").is_none() {
        return Ok((long.into(), long));
    }
    Ok((service_curve(first, short, long), long))
}

/// The bands of prio as classes of strict priority; the bits of TOS choose among them.
pub(super) fn prio(
    root: &Qdisc,
    objects: &Objects,
    link: Bandwidth,
    draft: &mut Draft,
) -> Result<InterfaceDraft, ImportError> {
    /// The priority of a socket by the four bits of TOS behind the precedence, as the kernel's.
    const BY_TOS: [usize; 16] = [0, 0, 0, 0, 2, 2, 2, 2, 6, 6, 6, 6, 4, 4, 4, 4];
    const MAP: [u64; 16] = [1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1];
    let bands = root.options.integer("bands")?.unwrap_or(3).clamp(2, 16);
    let mut map = MAP;
    if let Some(Node::List(given)) = root.options.get("priomap") {
        for (own, band) in map.iter_mut().zip(given) {
            if let Node::Whole(band) = band {
                *own = (*band).min(bands - 1);
            }
        }
    }
    let mut interface = InterfaceDraft::new(&root.device, link, DisciplineDraft::of("priq"), root.at);
    let name = |band: u64| {
        let minor = u16::try_from(band + 1).unwrap_or(u16::MAX);
        let major = root.handle.major;
        Handle { major, minor }.to_string()
    };
    for band in 0..bands {
        let handle = Handle::read(&name(band)).unwrap_or(root.handle);
        let below = objects.below(&root.device, handle);
        let discipline = below
            .map(|below| leaves::queue(below, objects, draft))
            .transpose()?
            .flatten();
        interface.classes.push(ClassDraft {
            name: name(band),
            parent: None,
            default: band == map[0],
            rate: Bandwidth::ZERO,
            settings: vec![("priority", (bands - band).into())],
            discipline,
            at: root.at,
        });
    }
    // By filters of their own: 64 code points, of which the lower three bits count.
    for code in 0..64u64 {
        let band = map[BY_TOS[(code as usize * 2) % 16]];
        if band != map[0] {
            interface.filters.push(FilterDraft {
                class: name(band),
                fields: vec![("dscp", code.into())],
                at: root.at,
            });
        }
    }
    draft.lost(
        root.at,
        "`priomap`: by the DSCP alone; priorities that programs set on their sockets are not seen",
    );
    Ok(interface)
}
