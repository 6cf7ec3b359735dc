//! The files that a scenario may name: those that the page brought.

use scenario::folder::{Packets, Store};
use std::collections::BTreeMap;

/// Files of text, by their paths relative to the scenario.
#[derive(Clone, Debug, Default)]
pub struct BroughtFiles(pub BTreeMap<String, String>);

impl Store for BroughtFiles {
    fn text(&self, path: &str) -> Result<String, String> {
        let path = path.strip_prefix("./").unwrap_or(path);
        let missing = || match self.0.keys().map(String::as_str).collect::<Vec<_>>() {
            none if none.is_empty() => "this page has no files".to_owned(),
            all => format!("this page has these files: {}", all.join(", ")),
        };
        self.0.get(path).cloned().ok_or_else(missing)
    }

    fn capture(&self, _path: &str) -> Result<Packets, String> {
        Err("this page reads no captures; `suimon sim FILE` does".into())
    }
}
