//! Other programs' files, as `suimon import` reads them: the format that a text looks like, or any;
//! two files of LibreQoS with a form feed between them.

use super::FuzzTarget;
use crate::mutate::InputShape;
use control::policy::Policy;
use engine::tree::Registry;
use engine::units::Bandwidth;
use import::{Draft, Format, ImportError, Missing, Place, SourceFile};
use netio::ports;

pub(super) const TARGET: FuzzTarget = FuzzTarget {
    name: "imports",
    about: "files of other programs: refused at a place within them, or a text in TOML with what is lost in its head",
    shape: InputShape::Text(3_000),
    tree: &[],
    make: || {
        let registry = Registry::builtin();
        Box::new(move |input| {
            if let Ok(text) = std::str::from_utf8(input) {
                judge(text, &registry);
            }
        })
    },
};

fn judge(text: &str, registry: &Registry) {
    let format = Format::guess(text).unwrap_or(Format::ALL[text.len() % Format::ALL.len()]);
    let files: Vec<SourceFile<'_>> = text
        .split('\x0c')
        .map(|text| SourceFile { name: "file", text })
        .collect();
    // A file that says neither is read of every other length.
    let given = text.len().is_multiple_of(2);
    let missing = Missing {
        up: given.then(|| Bandwidth::mbit(20)),
        down: given.then(|| Bandwidth::mbit(100)),
        interfaces: match given {
            true => vec!["lan0".into(), "wan0".into()],
            false => Vec::new(),
        },
        quota: None,
    };
    match format.read(&files, &missing) {
        Ok(draft) => read(&draft, format, &files, registry),
        Err(error) => refused(&error, &files),
    }
}

fn refused(error: &ImportError, files: &[SourceFile<'_>]) {
    assert!(!error.message.is_empty());
    assert!(!error.shown(files).contains(char::is_control), "safe to print");
    within(error.at, files);
}

fn within(at: Place, files: &[SourceFile<'_>]) {
    let lines = files.get(at.file).map_or(0, |file| file.text.split('\n').count());
    assert!(at.line <= lines.max(1), "line {} of {lines}", at.line);
}

fn read(draft: &Draft, format: Format, files: &[SourceFile<'_>], registry: &Registry) {
    draft.losses.iter().for_each(|loss| within(loss.at, files));
    let names: Vec<String> = files.iter().map(|file| file.name.to_owned()).collect();
    let text = draft.text(&names);
    let written: Result<toml::Table, _> = toml::from_str(&text);
    let written = written.unwrap_or_else(|why| panic!("not TOML: {why}\n{text}"));
    // What a file says is a name or a comment there, and never a setting of its own.
    let own = ["version", "port", "interface", "hosts", "link"];
    assert!(written.keys().all(|key| own.contains(&key.as_str())), "{text}");
    // It may ask for more than its link can give: then it is refused.
    if !format.makes_topology() {
        let _ = Policy::read("policy.toml", &text, registry, &ports::declared());
    }
}
