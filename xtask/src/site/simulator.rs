//! The page that simulates in the browser: `crates/browser/page`, with the module as a script and
//! the scenarios of the repository as examples.
//!
//! The page may be opened as a file, and then loads nothing but scripts. So the module is in one,
//! compressed and in base64; the page makes it one again.

use super::entries;
use super::page::{Page, escaped};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Where it would be in the repository.
pub(super) const PLACE: &str = "simulator.md";

const PAGE: &str = "crates/browser/page";
const PLOTS: &str = "crates/web/page/uplot";
const DESCRIPTION: &str = "Simulate queueing disciplines, AQM, QoS classes and TCP congestion control in the browser: edit a policy, see bandwidth and delay, share by a link; nothing is installed.";

/// What the page brings.
pub(super) struct SimulatorPage {
    /// The module, compressed by gzip.
    module: Vec<u8>,
    /// Scenarios by their paths.
    examples: BTreeMap<String, String>,
    /// The files that they name, by paths relative to them.
    files: BTreeMap<String, String>,
}

impl SimulatorPage {
    /// With this module.
    pub(super) fn of(root: &Path, module: Vec<u8>) -> Result<Self, String> {
        let read =
            |path: &String| fs::read_to_string(root.join(path)).map_err(|why| format!("{path}: {why}"));
        let below = |folder: &str, ending: &str| -> Result<BTreeMap<String, String>, String> {
            let all = entries(root, folder)?;
            let files = all.iter().filter(|path| path.ends_with(ending));
            files.map(|path| Ok((path.clone(), read(path)?))).collect()
        };
        let mut examples = below("scenarios", ".toml")?;
        examples.append(&mut below("scenarios/disciplines", ".toml")?);
        let mut files = below("scenarios/policies", ".toml")?;
        files.append(&mut below("scenarios/traces", ".csv")?);
        files.append(&mut below("scenarios/topologies", ".graphml")?);
        let relative = |(path, text): (String, String)| (path.replacen("scenarios/", "", 1), text);
        Ok(Self {
            module,
            examples,
            files: files.into_iter().map(relative).collect(),
        })
    }

    /// Whether the page has this scenario of the repository.
    pub(super) fn has(&self, path: &str) -> bool {
        self.examples.contains_key(path)
    }

    /// Its page, whose examples can be linked to by their paths.
    pub(super) fn page(&self, root: &Path) -> Result<Page, String> {
        let path = format!("{PAGE}/content.html");
        let content = fs::read_to_string(root.join(&path)).map_err(|why| format!("{path}: {why}"))?;
        let group = |label: &str, wanted: &str| {
            let options = self.examples.keys().filter_map(|path| {
                let name = path.strip_prefix(wanted)?.strip_suffix(".toml")?;
                (!name.contains('/')).then(|| {
                    let path = escaped(path);
                    format!(
                        "<option id=\"{path}\" value=\"{path}\">{}</option>\n",
                        escaped(name)
                    )
                })
            });
            format!(
                "<optgroup label=\"{label}\">\n{}</optgroup>\n",
                options.collect::<String>()
            )
        };
        let own = "<option value=\"\" hidden>your own</option>\n".to_owned();
        let examples =
            own + &group("Networks", "scenarios/") + &group("Disciplines", "scenarios/disciplines/");
        Ok(Page::of_html(
            "The simulator, in the browser",
            DESCRIPTION,
            content.replace("{examples}", &examples),
        ))
    }

    /// Its files beside the page.
    pub(super) fn files(&self, root: &Path) -> Result<Vec<(String, Vec<u8>)>, String> {
        let read = |path: &str| fs::read(root.join(path)).map_err(|why| format!("{path}: {why}"));
        let worker = String::from_utf8(read(&format!("{PAGE}/worker.js"))?).map_err(|why| why.to_string())?;
        let examples: Vec<_> = self
            .examples
            .iter()
            .map(|(path, text)| serde_json::json!({ "path": path, "text": text }))
            .collect();
        let scripts = [
            (
                "examples.js",
                format!(
                    "const EXAMPLES = {};\nconst FILES = {};\n",
                    serde_json::json!(examples),
                    serde_json::json!(self.files)
                ),
            ),
            (
                "module.js",
                format!(
                    "const MODULE = \"{}\";\nconst WORKER = {};\n",
                    base64(&self.module),
                    serde_json::json!(worker)
                ),
            ),
        ];
        let mut files: Vec<(String, Vec<u8>)> = scripts
            .into_iter()
            .map(|(name, text)| (format!("simulator/{name}"), text.into_bytes()))
            .collect();
        for (folder, name) in [
            (PAGE, "simulator.js"),
            (PAGE, "simulator.css"),
            (PLOTS, "uPlot.iife.min.js"),
            (PLOTS, "uPlot.min.css"),
            (PLOTS, "LICENSE"),
        ] {
            files.push((format!("simulator/{name}"), read(&format!("{folder}/{name}"))?));
        }
        Ok(files)
    }
}

/// Standard base64 (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let four = |three: &[u8]| {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        [18, 12, 6, 0]
            .into_iter()
            .enumerate()
            .map(move |(index, shift)| match index <= three.len() {
                true => char::from(LETTERS[(bits >> shift) as usize & 63]),
                false => '=',
            })
            .collect::<Vec<_>>()
    };
    bytes.chunks(3).flat_map(four).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        for (text, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(text.as_bytes()), coded);
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xfe]), "+//+");
    }
}
