//! Members that are one file and one list entry: a discipline, a port kind, a congestion control,
//! a verb. The list is in the `mod.rs` of their folder; nothing else in the workspace refers to a
//! member by name.

use super::source::{Part, code_only, in_name, parts, production};
use super::{Tree, rust};

/// Each discipline is one file with one `KIND`, or a folder whose `mod.rs` has it, and is listed.
pub fn one_file_each(tree: &Tree) -> Vec<String> {
    const PLACE: &str = "crates/engine/src/disciplines/";
    let Some(list) = tree.get(&format!("{PLACE}mod.rs")) else {
        return Vec::new();
    };
    let listed = |name: &str| {
        list.contains(&format!("pub mod {name};\n")) && list.contains(&format!("&{name}::KIND,\n"))
    };
    let mut complaints = Vec::new();
    for (path, text) in rust(tree) {
        let Some(name) = path.strip_prefix(PLACE).map(|file| file.trim_end_matches(".rs")) else {
            continue;
        };
        let (name, part) = name.split_once('/').unwrap_or((name, "mod"));
        if name == "mod" {
            continue;
        }
        let kinds = text.matches("pub static KIND: Kind").count();
        if part != "mod" {
            let head = tree.contains_key(&format!("{PLACE}{name}/mod.rs"));
            if kinds > 0 || !head {
                complaints.push(format!(
                    "{path}: a part of a discipline, whose `KIND` is in the folder's `mod.rs`"
                ));
            }
        } else if kinds != 1 {
            complaints.push(format!("{path}: has not exactly one `pub static KIND: Kind`"));
        } else if !listed(name) {
            complaints.push(format!(
                "{path}: {PLACE}mod.rs lacks `pub mod {name};` or `&{name}::KIND,` in its list"
            ));
        }
    }
    complaints
}

/// A family of members, each in its own file.
struct Family {
    sort: &'static str,
    /// Where the members and their list are.
    folder: &'static str,
    /// The type that each declares, to which the list refers.
    declares: &'static str,
}

const FAMILIES: &[Family] = &[
    Family {
        sort: "discipline",
        folder: "crates/engine/src/disciplines/",
        declares: "KIND",
    },
    Family {
        sort: "kind of port",
        folder: "crates/netio/src/ports/",
        declares: "KIND",
    },
    Family {
        sort: "congestion control",
        folder: "crates/sim/src/tcp/congestion/",
        declares: "CONTROL",
    },
];

/// Where members may be used by name: the path's prefix, the module or `*`, and why.
const KNOWN: &[(&str, &str, &str)] = &[
    (
        "crates/control/src/schema.rs",
        "*",
        "keys of [port], some of which are kinds too",
    ),
    ("crates/papers/", "*", "an experiment is about these"),
    (
        "crates/suimon/src/tc_commands.rs",
        "*",
        "these are translated into other programs' disciplines",
    ),
    (
        "crates/import/",
        "*",
        "other programs' disciplines are translated into these",
    ),
    (
        "fuzz/src/targets/captures.rs",
        "pcap",
        "the reader of captures, which is no port there",
    ),
    (
        "crates/suimon/src/captured.rs",
        "pcap",
        "the reader of captures, which is no port there",
    ),
    (
        "crates/engine/src/disciplines/cake.rs",
        "ingress",
        "the setting that SQM's users know by this name",
    ),
    (
        "crates/engine/src/queue.rs",
        "fifo",
        "the leaf that most trees end in is called without a table",
    ),
    (
        "crates/engine/src/tree.rs",
        "fifo",
        "what a class has that names no discipline",
    ),
    (
        "crates/lab/src/link.rs",
        "fifo",
        "a link without a policy has a plain buffer",
    ),
    (
        "crates/engine/src/sharing/reserved_classes.rs",
        "fifo",
        "reserved classes are plain queues",
    ),
    (
        "crates/engine/src/disciplines/wrr.rs",
        "drr",
        "the signalling takes turns, byte for byte, with the default class",
    ),
    (
        "crates/gateway/src/direction.rs",
        "fifo",
        "a direction without a policy has a plain queue",
    ),
    (
        "crates/scenario/src/sources/tcp.rs",
        "cubic",
        "the default: what most hosts have",
    ),
    (
        "crates/scenario/src/sources/quic.rs",
        "cubic",
        "the default: what most implementations have",
    ),
    (
        "crates/engine/src/disciplines/cake.rs",
        "codel",
        "the same law, one implementation",
    ),
    (
        "crates/engine/src/disciplines/fq_codel.rs",
        "codel",
        "the same law, one implementation",
    ),
    (
        "crates/engine/src/flows/cobalt.rs",
        "codel",
        "COBALT is CoDel and BLUE",
    ),
    (
        "crates/engine/src/flows/cobalt.rs",
        "blue",
        "COBALT is CoDel and BLUE",
    ),
    (
        "crates/engine/src/flows/host_fair.rs",
        "codel",
        "the same law, one implementation",
    ),
    (
        "crates/engine/src/disciplines/dualpi2.rs",
        "wrr",
        "a value of `scheduler`, not the discipline",
    ),
    (
        "crates/engine/src/disciplines/ips.rs",
        "*",
        "it is built of these",
    ),
    ("crates/engine/src/disciplines/rio.rs", "red", "RIO is RED twice"),
    (
        "crates/engine/src/disciplines/police.rs",
        "red",
        "a colour (RFC 2697)",
    ),
    ("crates/plot/", "*", "colours"),
    ("crates/host/", "police", "the BPF program of this name"),
    (
        "crates/lab/src/emulator.rs",
        "*",
        "what emulated links are made of",
    ),
    (
        "crates/lab/src/traffic/",
        "*",
        "the kernel's own congestion controls",
    ),
    (
        "crates/netio/src/ports/egress.rs",
        "*",
        "it joins a packet socket and a TAP interface",
    ),
    ("crates/engine/src/tree.rs", "ingress", "the kernel's qdisc"),
    (
        "crates/netio/src/ports/detour.rs",
        "tap",
        "it redirects into a TAP interface",
    ),
    (
        "crates/netio/src/ports/hook_probe.rs",
        "tap",
        "its frames come from a TAP interface",
    ),
    (
        "crates/netio/src/ports/presence.rs",
        "tap",
        "the ports that redirect into a TAP interface make it here",
    ),
    ("crates/gateway/src/doctor.rs", "*", "the kernel's qdiscs"),
    ("crates/netio/src/fail_closed.rs", "tbf", "the kernel's qdisc"),
    ("crates/netio/src/ports/captured.rs", "pcap", "the file format"),
    ("crates/sim/src/capture", "pcap", "the file format"),
    ("crates/scenario/", "pcap", "the file format"),
    ("crates/suimon/src/commands/sim.rs", "pcap", "the file format"),
    (
        "crates/control/src/port_config.rs",
        "egress",
        "the key that an interface is given by",
    ),
    (
        "crates/control/src/port_config.rs",
        "ingress",
        "the key that an interface is given by",
    ),
    (
        "crates/gateway/src/realise.rs",
        "af_packet",
        "launch times are asked of packet sockets",
    ),
    (
        "crates/netio/src/fail_open.rs",
        "af_packet",
        "a protected interface is opened by a packet socket",
    ),
];

/// A file of a family, in its list.
struct Member {
    module: String,
    /// The name in policies and scenarios.
    name: String,
}

impl Family {
    fn members(&self, tree: &Tree) -> Vec<Member> {
        let list = tree.get(&format!("{}mod.rs", self.folder));
        let ends = format!("::{},", self.declares);
        let module = |line: &str| Some(line.trim().strip_prefix('&')?.strip_suffix(&ends)?.to_string());
        let modules = list.iter().flat_map(|text| text.lines()).filter_map(module);
        let member = |module: String| Member {
            name: self.name(tree, &module).unwrap_or_else(|| module.clone()),
            module,
        };
        modules.map(member).collect()
    }

    /// The name that the member declares.
    fn name(&self, tree: &Tree, module: &str) -> Option<String> {
        let one = tree.get(&format!("{}{module}.rs", self.folder));
        let text = one.or_else(|| tree.get(&format!("{}{module}/mod.rs", self.folder)))?;
        let (_, declared) = text.split_once(&format!("pub static {}: ", self.declares))?;
        let (_, name) = declared.split_once("name: \"")?;
        Some(name.split_once('"')?.0.to_string())
    }

    /// Whether this file is the member's own, or the list's.
    fn owns(&self, member: &Member, path: &str) -> bool {
        let rest = path.strip_prefix(self.folder);
        let own = |rest: &str| {
            let rest = rest.strip_prefix(member.module.as_str());
            rest.is_some_and(|rest| rest.starts_with(['.', '/']))
        };
        rest.is_some_and(|rest| rest == "mod.rs" || own(rest))
    }
}

/// A member is named only in its own file and in the list: elsewhere neither exactly in quotes
/// nor as a path.
pub fn known_by_name(tree: &Tree) -> Vec<String> {
    let families: Vec<(&Family, Vec<Member>)> = FAMILIES.iter().map(|f| (f, f.members(tree))).collect();
    let mut complaints = Vec::new();
    for (path, text) in production(tree) {
        let code = code_only(text);
        let quoted: Vec<(usize, &str)> = parts(text)
            .into_iter()
            .filter_map(|(line, part)| match part {
                Part::Quoted(inner) => Some((line, inner)),
                _ => None,
            })
            .collect();
        for (family, members) in &families {
            for member in members.iter().filter(|member| !family.owns(member, path)) {
                let is_known = |(begins, module, _): &(&str, &str, &str)| {
                    path.starts_with(begins) && ["*", &member.module].contains(module)
                };
                if KNOWN.iter().any(is_known) {
                    continue;
                }
                let Member { name, module } = member;
                let literal = quoted.iter().filter(|(_, inner)| inner == name);
                let lines = literal.map(|(line, _)| *line).chain(paths(&code, module));
                complaints.extend(lines.map(|line| {
                    let sort = family.sort;
                    format!("{path}:{line}: knows the {sort} `{name}` by name: use what it declares")
                }));
            }
        }
    }
    complaints
}

/// Where the verbs are; the list, `verbs! { file::Verb, … }`, is in the `mod.rs`.
const VERBS: &str = "crates/suimon/src/commands/";

/// Where a verb may be used by name: the file, the verb's file, and why.
const KNOWN_VERBS: &[(&str, &str, &str)] = &[
    (
        "crates/suimon/src/lib.rs",
        "nine",
        "a program called `nine` is this verb",
    ),
    (
        "crates/suimon/src/commands/bottlenet.rs",
        "nine",
        "it writes what `nine` reads",
    ),
    (
        "crates/suimon/src/commands/nine_top.rs",
        "nine",
        "it shows what `nine` does",
    ),
];

/// A verb is its file and its list entry: no other file of the binary names it.
pub fn verbs(tree: &Tree) -> Vec<String> {
    let list = tree.get(&format!("{VERBS}mod.rs"));
    let Some((_, list)) = list.and_then(|text| text.split_once("\nverbs! {\n")) else {
        return Vec::new();
    };
    let entry = |line: &str| Some(line.trim().strip_suffix(',')?.split_once("::")?.0.to_string());
    let files: Vec<String> = list.lines().map_while(entry).collect();
    let mut complaints = Vec::new();
    for file in &files {
        let own = [format!("{VERBS}{file}.rs"), format!("{VERBS}{file}/mod.rs")];
        if !own.iter().any(|path| tree.contains_key(path)) {
            complaints.push(format!("{VERBS}mod.rs: the verb `{file}` has no file"));
        }
    }
    for (path, text) in production(tree).filter(|(path, _)| path.starts_with("crates/suimon/src/")) {
        let code = code_only(text);
        for file in &files {
            let inside = path
                .strip_prefix(VERBS)
                .and_then(|rest| rest.strip_prefix(file.as_str()));
            let own = inside.is_some_and(|rest| rest.starts_with(['.', '/']));
            let known = KNOWN_VERBS.iter().any(|(at, verb, _)| at == path && verb == file);
            if own || known {
                continue;
            }
            for parent in ["commands", "super"] {
                let lines = paths(&code, &format!("{parent}::{file}"));
                complaints.extend(lines.iter().map(|line| {
                    format!("{path}:{line}: knows the verb `{file}`: what both need is no verb's")
                }));
            }
        }
    }
    complaints
}

/// The lines that refer to something in this module by path.
fn paths(code: &str, module: &str) -> Vec<usize> {
    let path = format!("{module}::");
    let alone = |line: &str| {
        let mut hits = line.match_indices(&path);
        hits.any(|(at, _)| !line[..at].ends_with(in_name))
    };
    let lines = code.lines().enumerate();
    lines
        .filter(|(_, line)| alone(line))
        .map(|(i, _)| i + 1)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    #[test]
    fn a_discipline_that_is_not_in_the_list_is_noticed() {
        let list = (
            "crates/engine/src/disciplines/mod.rs",
            "pub mod fifo;\npub static KINDS: &[&Kind] = &[\n    &fifo::KIND,\n];\n",
        );
        let kind = "//! x\npub static KIND: Kind = 1;\n";
        let good = tree(&[list, ("crates/engine/src/disciplines/fifo.rs", kind)]);
        assert!(one_file_each(&good).is_empty());
        let wrong = tree(&[list, ("crates/engine/src/disciplines/lifo.rs", kind)]);
        assert_eq!(one_file_each(&wrong).len(), 1);
        let empty = tree(&[list, ("crates/engine/src/disciplines/fifo.rs", "//! x\n")]);
        assert_eq!(one_file_each(&empty).len(), 1);
        let part = ("crates/engine/src/disciplines/fifo/drain.rs", "//! x\n");
        let folder = ("crates/engine/src/disciplines/fifo/mod.rs", kind);
        assert!(one_file_each(&tree(&[list, folder, part])).is_empty());
        assert_eq!(one_file_each(&tree(&[list, part])).len(), 1);
    }

    #[test]
    fn a_member_used_by_name_is_noticed() {
        let list = (
            "crates/engine/src/disciplines/mod.rs",
            "pub mod red;\npub static KINDS: &[&Kind] = &[\n    &red::KIND,\n];\n",
        );
        let own = (
            "crates/engine/src/disciplines/red.rs",
            "pub static KIND: Kind = Kind {\n    name: \"RED\",\n};\nfn f() { g(\"RED\") }\n",
        );
        let text = "// \"RED\" and red::f\nlet a = \"RED\";\nlet b = \"discipline = \\\"RED\\\"\";\nred::f();\nscored::f();\n";
        let wrong = tree(&[list, own, ("crates/control/src/a.rs", text)]);
        assert_eq!(
            known_by_name(&wrong),
            [2, 4].map(|line| format!(
                "crates/control/src/a.rs:{line}: knows the discipline `RED` by name: use what it declares"
            ))
        );
        assert!(known_by_name(&tree(&[list, own, ("crates/control/tests/a.rs", text)])).is_empty());
    }

    #[test]
    fn a_verb_used_by_another_is_noticed() {
        let list = (
            "crates/suimon/src/commands/mod.rs",
            "mod run;\nmod top;\nverbs! {\n    run::Run,\n    top::Top,\n}\n",
        );
        let run = (
            "crates/suimon/src/commands/run.rs",
            "use crate::commands::run::f;\n",
        );
        let top = ("crates/suimon/src/commands/top.rs", "use super::top::g;\n");
        assert!(verbs(&tree(&[list, run, top])).is_empty());
        assert_eq!(
            verbs(&tree(&[list, run])),
            ["crates/suimon/src/commands/mod.rs: the verb `top` has no file"]
        );
        let wrong = ("crates/suimon/src/commands/top.rs", "\nuse super::run::f;\n");
        assert_eq!(
            verbs(&tree(&[list, run, wrong])),
            ["crates/suimon/src/commands/top.rs:2: knows the verb `run`: what both need is no verb's"]
        );
    }
}
