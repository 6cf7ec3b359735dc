//! The policies of this repository that are there to be copied, and what each is judged by: a ping
//! beside four uploads, in the simulator and in the lab.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An interface of such a policy.
pub struct Copied {
    /// The policy's file, written here.
    pub file: String,
    /// The interface.
    pub interface: String,
    /// Its bandwidth in bit/s.
    pub bandwidth: u64,
}

/// So many there are.
pub const INTERFACES: usize = 7;

/// What a ping takes at most beside the uploads of [`beside_four_uploads`], in ms.
pub const PING_AT_MOST_MS: u64 = 15;

/// The files with this ending in a folder.
pub fn tomls(folder: PathBuf) -> Vec<PathBuf> {
    let entries = fs::read_dir(&folder).expect("a folder");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
    files.sort();
    files
}

/// All of README and of the examples; `write` writes a file.
pub fn policies(write: impl Fn(&str, &str) -> String) -> Vec<Copied> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = fs::read_to_string(root.join("README.md")).expect("README.md");
    let readmes = readme
        .split("```toml\n")
        .nth(1)
        .and_then(|rest| rest.split_once("```"));
    let mut files = vec![("readme.toml".to_owned(), readmes.expect("a policy").0.to_owned())];
    for path in tomls(root.join("examples")) {
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        let text = fs::read_to_string(&path).expect("an example");
        // The others are networks of a lab, without a policy; and the demo's keeps its queues full,
        // so that shares are seen.
        if text.contains("\n[interface.") && name != "demo.toml" {
            files.push((name.to_owned(), text));
        }
    }
    let mut all = Vec::new();
    for (name, text) in files {
        let file = write(&name, &text);
        let checked = Command::new(env!("CARGO_BIN_EXE_suimon"))
            .args(["check", "--json", &file])
            .output()
            .expect("it runs");
        let checked: Value = serde_json::from_slice(&checked.stdout).expect("JSON");
        for interface in checked["interfaces"].as_array().expect("interfaces") {
            all.push(Copied {
                file: name.clone(),
                interface: interface["name"].as_str().expect("a name").into(),
                bandwidth: interface["bandwidth_bps"].as_u64().expect("a rate"),
            });
        }
    }
    assert_eq!(all.len(), INTERFACES);
    all
}

/// A home's uploads and a ping for so many seconds over a link with such a policy, at a round trip
/// of 20 ms: the ping waits 5 ms at most and loses nothing, and the link carries at least 95 % of
/// the policy's rate.
pub fn beside_four_uploads(of: &Copied, seconds: u64) -> String {
    let Copied {
        file,
        interface,
        bandwidth,
    } = of;
    // 98 bytes each 49 ms; the last may be on its way.
    let pings = seconds * 1_000 / 49;
    format!(
        r#"
        version = 1
        duration = "{seconds} s"
        link = [
            {{ between = ["home", "router"], rate = "1 Gbit/s" }},
            {{ between = ["router", "isp"], rate = "1 Gbit/s", delay = "10 ms", policy.router = "{file}: {interface}" }},
        ]
        flow = [
            {{ name = "first", between = ["home", "isp"], kind = "tcp", destination_port = 8001 }},
            {{ name = "second", between = ["home", "isp"], kind = "tcp", destination_port = 8002 }},
            {{ name = "third", between = ["home", "isp"], kind = "tcp", destination_port = 8003 }},
            {{ name = "fourth", between = ["home", "isp"], kind = "tcp", destination_port = 8004 }},
            {{ name = "ping", between = ["home", "isp"], kind = "constant", rate = "16 kbit/s", frame = "98 B" }},
        ]
        expect = [
            {{ flow = "ping", metric = "delay-max", at_most = "{PING_AT_MOST_MS} ms" }},
            {{ flow = "ping", metric = "packets", at_least = {}, at_most = {} }},
            {{ link = "router > isp", metric = "rate", from = "{} s", at_least = "{} kbit/s", at_most = "{} kbit/s" }},
        ]
        "#,
        pings - 1,
        pings + 2,
        seconds / 4,
        bandwidth * 95 / 100_000,
        // A frame at the edge counts as a whole.
        bandwidth / 1_000 + 24 / seconds,
    )
}
