//! What is one file and one entry in a list: a discipline.

use super::{Tree, rust};

/// Each discipline is one file with one `KIND`, and is in the list.
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
        if name == "mod" {
            continue;
        }
        if name.contains('/') {
            complaints.push(format!(
                "{path}: a discipline is one file; shared parts stand beside `disciplines/`"
            ));
        } else if text.matches("pub static KIND: Kind").count() != 1 {
            complaints.push(format!("{path}: has not exactly one `pub static KIND: Kind`"));
        } else if !listed(name) {
            complaints.push(format!(
                "{path}: {PLACE}mod.rs lacks `pub mod {name};` or `&{name}::KIND,` in its list"
            ));
        }
    }
    complaints
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
    }
}
