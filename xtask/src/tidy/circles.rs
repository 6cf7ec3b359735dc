//! No module imports a module that imports it, by whatever way: such modules can only be read,
//! tested and moved together.

use super::Tree;
use super::source::{code_only, in_name, production};
use std::collections::{BTreeMap, BTreeSet};

/// A module, or a name in one, by its path in its crate: `["disciplines", "fifo"]`. The crate's
/// root is empty.
type Path = Vec<String>;

/// The code of each module of a crate.
type Modules = BTreeMap<Path, String>;

/// The modules that each module imports.
type Imports = BTreeMap<Path, BTreeSet<Path>>;

/// One complaint for each circle, with its modules.
pub fn circles(tree: &Tree) -> Vec<String> {
    let mut crates: BTreeMap<&str, Modules> = BTreeMap::new();
    for (path, text) in production(tree) {
        if let Some((root, module)) = module(path) {
            crates.entry(root).or_default().insert(module, code_only(text));
        }
    }
    let mut complaints = Vec::new();
    for (root, modules) in &crates {
        for circle in circles_of(&imports(modules)) {
            let names: Vec<String> = circle.iter().map(|module| module.join("::")).collect();
            complaints.push(format!("{root}: a circle of imports: {}", names.join(", ")));
        }
    }
    complaints
}

/// The crate and the module of a source file.
fn module(path: &str) -> Option<(&str, Path)> {
    let (root, file) = path.split_once("/src/")?;
    let mut parts: Path = file.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    if matches!(parts.last()?.as_str(), "mod" | "lib" | "main") {
        parts.pop();
    }
    Some((root, parts))
}

/// A re-export is a second address of a name, and no import. Who uses it imports the module where
/// the name is defined.
fn imports(modules: &Modules) -> Imports {
    let mut addresses: BTreeMap<Path, Path> = BTreeMap::new();
    for (module, code) in modules {
        for Use { path, .. } in uses(code).into_iter().filter(|one| one.public) {
            if let (Some(name), Some(target)) = (path.last(), absolute(module, &path, modules)) {
                addresses.insert([module.as_slice(), std::slice::from_ref(name)].concat(), target);
            }
        }
    }
    let of = |(module, code): (&Path, &String)| {
        let private = uses(code)
            .into_iter()
            .filter(|one| !one.public)
            .map(|one| one.path);
        let targets = private
            .chain(in_place(code))
            .filter_map(|path| absolute(module, &path, modules))
            .map(|path| owner(&defined(path, &addresses), modules))
            .filter(|target| target != module && !target.is_empty());
        (module.clone(), targets.collect())
    };
    modules.iter().map(of).collect()
}

/// One path of a `use` declaration.
struct Use {
    public: bool,
    path: Path,
}

fn uses(code: &str) -> Vec<Use> {
    let mut all = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find("use ") {
        let before = rest[..at].rsplit('\n').next().unwrap_or("").trim();
        rest = &rest[at + "use ".len()..];
        if before.is_empty() || before.starts_with("pub") {
            let end = rest.find(';').unwrap_or(rest.len());
            let public = !before.is_empty();
            all.extend(expand(&rest[..end]).into_iter().map(|path| Use { public, path }));
        }
    }
    all
}

/// `a::{b, c::d}` as `a::b` and `a::c::d`.
fn expand(declared: &str) -> Vec<Path> {
    let declared = declared.trim();
    let Some((head, rest)) = declared.split_once('{') else {
        let name = declared.split(" as ").next().unwrap_or(declared);
        return vec![name.split("::").map(|part| part.trim().to_owned()).collect()];
    };
    let head: Path = head
        .split("::")
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect();
    let inner = &rest[..rest.rfind('}').unwrap_or(rest.len())];
    let mut depth = 0_usize;
    let items = inner.split(|c| {
        match c {
            '{' => depth += 1,
            // A text that begins a line with the word is not a declaration.
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    let items = items.filter(|item| !item.trim().is_empty());
    items
        .flat_map(expand)
        .map(|path| [head.clone(), path].concat())
        .collect()
}

/// Paths that stand where they are used, such as `crate::random::mix(…)`.
fn in_place(code: &str) -> Vec<Path> {
    let mut paths = Vec::new();
    for root in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(root) {
            let rest = &code[at..];
            let end = rest.find(|c| !in_name(c) && c != ':').unwrap_or(rest.len());
            let is_root = !code[..at].ends_with(|c| in_name(c) || c == ':');
            if is_root && !rest[..end].ends_with(':') {
                paths.push(rest[..end].split("::").map(str::to_owned).collect());
            }
        }
    }
    paths
}

/// The path from the crate's root; none for another crate's.
fn absolute(module: &Path, path: &Path, modules: &Modules) -> Option<Path> {
    let mut base = module.clone();
    let mut parts = path.iter().peekable();
    match parts.peek()?.as_str() {
        "crate" => {
            base.clear();
            parts.next();
        }
        "self" => _ = parts.next(),
        "super" => {
            while parts.next_if(|part| part.as_str() == "super").is_some() {
                base.pop();
            }
        }
        child => {
            let child = [base.as_slice(), &[child.to_owned()]].concat();
            modules.get(&child)?;
        }
    }
    Some(base.into_iter().chain(parts.cloned()).collect())
}

/// Where the name at this address is defined.
fn defined(path: Path, addresses: &BTreeMap<Path, Path>) -> Path {
    let known = (1..=path.len())
        .rev()
        .find_map(|n| Some((n, addresses.get(&path[..n])?)));
    known.map_or(path.clone(), |(n, target)| [target, &path[n..]].concat())
}

/// The module in which a name is.
fn owner(path: &Path, modules: &Modules) -> Path {
    let known = (0..=path.len()).rev().find(|&n| modules.contains_key(&path[..n]));
    path[..known.unwrap_or(0)].to_vec()
}

fn circles_of(imports: &Imports) -> Vec<BTreeSet<&Path>> {
    let reached: BTreeMap<&Path, BTreeSet<&Path>> = imports
        .keys()
        .map(|module| (module, reached(module, imports)))
        .collect();
    let mut circles: Vec<BTreeSet<&Path>> = Vec::new();
    for (module, others) in &reached {
        let with = others.iter().filter(|other| reached[**other].contains(*module));
        let circle: BTreeSet<&Path> = with.copied().collect();
        if circle.len() > 1 && !circles.contains(&circle) {
            circles.push(circle);
        }
    }
    circles
}

/// All modules that a module imports, by whatever way; itself if one of them imports it.
fn reached<'a>(module: &Path, imports: &'a Imports) -> BTreeSet<&'a Path> {
    let mut all = BTreeSet::new();
    let mut open: Vec<&Path> = imports[module].iter().collect();
    while let Some(next) = open.pop() {
        if let Some((known, further)) = imports.get_key_value(next)
            && all.insert(known)
        {
            open.extend(further);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    #[test]
    fn a_circle_over_three_modules_is_one_complaint() {
        let files = [
            ("crates/a/src/lib.rs", "mod b;\nmod c;\nmod d;\nmod e;\n"),
            ("crates/a/src/b.rs", "use crate::{c::{C, other}, e};\n"),
            ("crates/a/src/c.rs", "fn f() { crate::d::g(); }\n"),
            ("crates/a/src/d.rs", "use super::b::B;\n"),
            (
                "crates/a/src/e.rs",
                "// use crate::b::B;\n#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}\n",
            ),
        ];
        assert_eq!(circles(&tree(&files)), ["crates/a: a circle of imports: b, c, d"]);
    }

    #[test]
    fn a_re_export_is_no_import_and_leads_to_the_definition() {
        let face = "mod x;\nmod y;\npub use x::X;\nuse y::Y;\n";
        let files = |x| {
            tree(&[
                ("crates/a/src/lib.rs", "pub mod f;\n"),
                ("crates/a/src/f/mod.rs", face),
                ("crates/a/src/f/x.rs", x),
                ("crates/a/src/f/y.rs", "use super::X;\n"),
            ])
        };
        assert!(circles(&files("")).is_empty());
        assert_eq!(
            circles(&files("use super::Y;\n")),
            ["crates/a: a circle of imports: f, f::x, f::y"]
        );
    }
}
