//! Public functions document their errors.

use super::Tree;
use super::source::production;

/// Every public function that returns a `Result` has a section `# Errors`. The binary is exempt:
/// its functions are verbs, whose errors are messages.
pub fn errors_documented(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in production(tree).filter(|(path, _)| !path.starts_with("crates/suimon/")) {
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let fallible = is_public_function(line) && returns_result(&lines[at..]);
            if fallible && !above(&lines[..at]).any(|line| line.contains("# Errors")) {
                complaints.push(format!("{path}:{}: a `Result` without `# Errors`", at + 1));
            }
        }
    }
    complaints
}

fn is_public_function(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.next() == Some("pub")
        && words
            .find(|word| !["const", "async", "unsafe"].contains(word))
            .is_some_and(|word| word == "fn")
}

/// Whether the signature that begins here returns a `Result`.
fn returns_result(lines: &[&str]) -> bool {
    let ends = |line: &&str| line.ends_with('{') || line.ends_with(';') || line.ends_with('}');
    let last = lines.iter().position(ends).unwrap_or(0);
    let signature = lines[..=last].join(" ");
    let answer = signature.rsplit_once("-> ").map_or("", |(_, answer)| answer);
    let name = answer.split('<').next().unwrap_or("");
    name.rsplit("::").next() == Some("Result")
}

/// The documentation and the attributes right above.
fn above<'a>(lines: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    let belongs = |line: &&&str| line.trim().starts_with("///") || line.trim().starts_with("#[");
    lines.iter().rev().take_while(belongs).copied()
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    #[test]
    fn an_undocumented_result_is_noticed() {
        let text = "/// Opens.\npub fn open(\n    a: &str,\n) -> io::Result<File> {\n}\n\
                    /// Reads.\n///\n/// # Errors\n/// None.\n#[must_use]\npub const fn read() ->
                    /// Result<u8, E> {\n}\n\
                    pub fn count() -> u8 {\n}\nfn own() -> Result<u8, E> {\n}\n";
        assert_eq!(
            errors_documented(&tree(&[("crates/a/src/b.rs", text)])),
            ["crates/a/src/b.rs:2: a `Result` without `# Errors`"]
        );
        assert!(errors_documented(&tree(&[("crates/suimon/src/b.rs", text)])).is_empty());
    }
}
