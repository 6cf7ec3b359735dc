//! What `suimon import` makes of the files in crates/import/tests/files: `check` accepts it, and in
//! the simulator its classes get the rates that the original means. The pages of
//! docs/coming-from show runs as they are.

#[allow(dead_code, reason = "other tests use more of it")]
#[path = "stubs/directory.rs"]
mod directory;

use directory::TestDirectory;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn suimon(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_suimon"));
    command
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// An interface of an imported policy, and what senders offer: to each class as much as they can.
struct Intention {
    import: &'static [&'static str],
    interface: &'static str,
    /// What a filter sees of the flow to a class; a flow with `pauses` is silent from 3 s on.
    flows: &'static [&'static str],
    /// A class, or a flow, and its rates in Mbit/s, from 1 s to 3 s and from 4 s to 6 s.
    rates: &'static [(&'static str, [f64; 2], [f64; 2])],
    /// Whether the kernel's commands for the policy, read again, give the same rates.
    returns: bool,
}

const LIBREQOS: &[&str] = &[
    "libreqos",
    "ShapedDevices.csv",
    "network.json",
    "--down",
    "500Mbit/s",
    "--up",
    "300Mbit/s",
    "--interface",
    "core0",
    "--interface",
    "isp0",
];
const WIREGUARD: &[&str] = &[
    "wg0.conf",
    "--up",
    "20Mbit/s",
    "--down",
    "100Mbit/s",
    "--interface",
    "lan0",
];
const WIREGUARD_QUOTA: &[&str] = &[
    "wg0.conf",
    "--up",
    "20Mbit/s",
    "--down",
    "100Mbit/s",
    "--interface",
    "lan0",
    "--quota",
    "50 GB per month",
    "--quota-rate",
    "1Mbit/s",
];
const ANY: [f64; 2] = [0.0, 1000.0];

const INTENTIONS: &[Intention] = &[
    Intention {
        import: &["altq.conf"],
        interface: "pvc0",
        flows: &[
            "source_port = 5004",
            "destination = \"192.168.10.7\"\nprotocol = \"tcp\"\npauses = \"3 s to 6 s\"",
            "destination = \"172.16.4.4\"",
            "destination_port = 7",
        ],
        // B has 38 % and may not borrow; A's data leave 40 % to A's others.
        rates: &[
            ("agency_b", [3.75, 3.9], [3.75, 3.85]),
            ("a_data", [3.95, 4.3], [0.0, 0.0]),
            ("a_video", [1.45, 1.8], [1.5, 5.7]),
            ("agency_a-own", [0.45, 0.8], [0.5, 5.0]),
        ],
        returns: false,
    },
    Intention {
        import: &["pf-altq.conf"],
        interface: "em0",
        flows: &[
            "protocol = \"tcp\"\ndestination_port = 80",
            "protocol = \"tcp\"\ndestination_port = 443\nsource = \"10.1.2.3\"\npauses = \"3 s to 6 s\"",
            "protocol = \"tcp\"\nsource_port = 22",
            "destination_port = 9",
        ],
        rates: &[
            ("guest", [2.05, 2.15], [2.05, 2.15]),
            ("staff", [4.85, 5.0], [0.0, 0.0]),
            ("ssh", [4.95, 5.05], [4.95, 5.05]),
            ("std", [7.9, 8.1], [12.7, 13.0]),
        ],
        returns: false,
    },
    Intention {
        import: &["pf-openbsd.conf"],
        interface: "em0",
        flows: &[
            "destination_port = 3478",
            "protocol = \"tcp\"\ndestination_port = 6889",
            "destination_port = 9\npauses = \"3 s to 6 s\"",
        ],
        rates: &[
            ("voice", [3.95, 4.1], [19.8, 20.2]),
            ("bulk", [11.8, 12.2], [19.8, 20.2]),
            ("work", [23.7, 24.2], [0.0, 0.0]),
        ],
        returns: true,
    },
    Intention {
        import: &["tc-htb.json"],
        interface: "eth0",
        flows: &[
            "protocol = \"tcp\"\ndestination_port = 22",
            "destination_port = 6885",
            "destination_port = 9\npauses = \"3 s to 6 s\"",
        ],
        rates: &[
            ("1:10", [4.95, 5.05], [7.9, 8.1]),
            ("1:40", [2.95, 3.05], [2.95, 3.05]),
            ("1:30", [11.9, 12.1], [0.0, 0.0]),
        ],
        returns: true,
    },
    Intention {
        import: &["tc-script.sh"],
        interface: "eth1",
        flows: &[
            "destination_port = 5060",
            "destination_port = 9\npauses = \"3 s to 6 s\"",
        ],
        rates: &[
            ("1:10", [7.9, 8.1], [15.8, 16.2]),
            ("1:20", [23.8, 24.2], [0.0, 0.0]),
        ],
        returns: true,
    },
    Intention {
        import: &["tc-hfsc.sh"],
        interface: "eth2",
        flows: &[
            "destination_port = 5004",
            "destination_port = 9\npauses = \"3 s to 6 s\"",
            "destination_port = 873",
        ],
        rates: &[
            ("1:10", [1.0, 1.5], [6.8, 7.2]),
            ("1:20", [5.9, 6.8], [0.0, 0.0]),
            ("1:30", [2.0, 2.4], [2.9, 3.1]),
        ],
        returns: true,
    },
    Intention {
        import: &["tc-cake.json"],
        interface: "wan",
        flows: &["destination_port = 9"],
        // 30 of 1544 bytes are overhead.
        rates: &[("flow 1", [19.4, 19.8], [19.4, 19.8])],
        returns: true,
    },
    Intention {
        import: &["sqm"],
        interface: "eth1",
        flows: &["destination_port = 9"],
        rates: &[("flow 1", [9.7, 9.9], [9.7, 9.9])],
        returns: true,
    },
    Intention {
        import: &["sqm-adsl"],
        interface: "eth1",
        flows: &["destination_port = 9"],
        // A full packet of 1,500 and 40 bytes takes 33 cells: 1,749 bytes for a frame of 1,514.
        rates: &[("flow 1", [0.68, 0.7], [0.68, 0.7])],
        returns: true,
    },
    Intention {
        import: &["sqm-simple"],
        interface: "pppoe-wan",
        flows: &[
            "dscp = \"ef\"",
            "destination_port = 9\npauses = \"3 s to 6 s\"",
            "dscp = \"cs1\"",
        ],
        rates: &[
            ("priority", [1.8, 2.05], [1.8, 2.05]),
            ("best-effort", [2.8, 3.1], [0.0, 0.0]),
            ("bulk", [0.9, 1.1], [3.7, 4.05]),
        ],
        returns: false,
    },
    Intention {
        import: LIBREQOS,
        interface: "core0",
        flows: &[
            "destination = \"100.64.0.1\"",
            "destination = \"100.64.0.130\"",
            "destination = \"100.64.1.77\"\npauses = \"3 s to 6 s\"",
            "destination = \"100.64.2.9\"",
        ],
        // The site carries 200, its access point 80, and the circuits of that are alike.
        rates: &[
            ("Mill-Lane-7", [39.0, 41.0], [39.0, 41.0]),
            ("Mill-Lane-9", [39.0, 41.0], [39.0, 41.0]),
            ("School", [118.0, 122.0], [0.0, 0.0]),
            ("Mill-Lane-7-2", [24.7, 25.3], [24.7, 25.3]),
        ],
        returns: true,
    },
    Intention {
        import: WIREGUARD,
        interface: "lan0",
        flows: &[
            "source = \"10.8.0.2\"",
            "source = \"192.168.50.9\"",
            "source = \"10.8.0.4\"\npauses = \"3 s to 6 s\"",
        ],
        rates: &[
            ("Anna's-laptop", [6.6, 6.7], [9.9, 10.1]),
            ("Ben", [6.6, 6.7], [9.9, 10.1]),
            ("peer-3", [6.6, 6.7], [0.0, 0.0]),
        ],
        returns: true,
    },
    // Another discipline, and the same parts.
    Intention {
        import: WIREGUARD_QUOTA,
        interface: "lan0",
        flows: &[
            "source = \"10.8.0.2\"",
            "source = \"192.168.50.9\"",
            "source = \"10.8.0.4\"\npauses = \"3 s to 6 s\"",
        ],
        rates: &[
            ("Anna's-laptop", [6.5, 6.8], [9.8, 10.2]),
            ("Ben", [6.5, 6.8], [9.8, 10.2]),
            ("peer-3", [6.5, 6.8], [0.0, 0.0]),
        ],
        returns: false,
    },
];

fn scenario(intention: &Intention) -> String {
    let mut text = format!(
        "version = 1\nduration = \"6 s\"\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1 Gbit/s\"\n\
         policy.a = \"policy.toml: {}\"\n",
        intention.interface
    );
    for flow in intention.flows {
        let _ = write!(
            text,
            "[[flow]]\nbetween = [\"a\", \"b\"]\nkind = \"greedy\"\n{flow}\n"
        );
    }
    for (name, early, late) in intention.rates {
        let what = if name.starts_with("flow") { "flow" } else { "class" };
        for ([low, high], from, to) in [(early, "1 s", "3 s"), (late, "4 s", "6 s")] {
            if [*low, *high] == ANY {
                continue;
            }
            let _ = write!(
                text,
                "[[expect]]\n{what} = \"{name}\"\nmetric = \"rate\"\nfrom = \"{from}\"\nto = \"{to}\"\n\
                 at_least = \"{} kbit/s\"\nat_most = \"{} kbit/s\"\n",
                (low * 1000.0).round(),
                (high * 1000.0).round()
            );
        }
    }
    text
}

#[test]
fn imported_policies_are_accepted_and_give_the_rates_that_were_meant() {
    let files = root().join("crates/import/tests/files");
    let mut missed = String::new();
    for intention in INTENTIONS {
        let name = format!("{} {}", intention.import.join("_"), intention.interface);
        let folder = TestDirectory::new(&format!("import-{}", name.replace([' ', ':'], "-")));
        let arguments: Vec<&str> = ["import"].iter().chain(intention.import).copied().collect();
        let imported = suimon(&files, &arguments);
        assert!(imported.status.success(), "{name}: {}", text(&imported.stderr));
        fs::write(folder.0.join("policy.toml"), &imported.stdout).expect("written");
        let check = suimon(&folder.0, &["check", "policy.toml"]);
        assert!(
            check.status.success(),
            "{name}: {}{}",
            text(&imported.stdout),
            text(&check.stdout)
        );
        fs::write(folder.0.join("sim.toml"), scenario(intention)).expect("written");
        let sim = suimon(&folder.0, &["sim", "sim.toml"]);
        if !sim.status.success() {
            let _ = write!(missed, "{name}:\n{}{}\n", text(&sim.stdout), text(&sim.stderr));
        }
    }
    assert!(missed.is_empty(), "{missed}");
}

#[test]
fn strict_writes_nothing_if_anything_is_lost() {
    let files = root().join("crates/import/tests/files");
    let lossy = suimon(&files, &["import", "--strict", "sqm"]);
    assert_eq!(lossy.status.code(), Some(2));
    assert!(
        lossy.stdout.is_empty() && text(&lossy.stderr).contains("sqm:3: `ack-filter`"),
        "{}",
        text(&lossy.stderr)
    );
    let folder = TestDirectory::new("import-strict");
    fs::write(
        folder.0.join("q"),
        "tc qdisc add dev e root cake bandwidth 20mbit\n",
    )
    .expect("written");
    let whole = suimon(&folder.0, &["import", "--strict", "q"]);
    assert!(whole.status.success(), "{}", text(&whole.stderr));
    assert!(
        text(&whole.stdout).contains("# Nothing of it is lost."),
        "{}",
        text(&whole.stdout)
    );
}

/// The classes' names after the kernel's commands: each stands in a comment before its command.
fn renamed(commands: &str) -> Vec<(String, String)> {
    let pairs = commands.lines().zip(commands.lines().skip(1));
    let named = pairs.filter_map(|(comment, command)| {
        let name = comment.strip_prefix("# ")?;
        let (_, id) = command.split_once(" classid ")?;
        Some((name.to_owned(), id.split(' ').next()?.to_owned()))
    });
    named.collect()
}

/// A policy becomes the kernel's commands; these, read again, become a policy with the same rates.
#[test]
fn what_is_exported_for_the_kernel_means_the_same_when_it_is_read_again() {
    let files = root().join("crates/import/tests/files");
    let mut missed = String::new();
    for intention in INTENTIONS.iter().filter(|intention| intention.returns) {
        let name = format!("{} {}", intention.import[0], intention.interface);
        let folder = TestDirectory::new(&format!("import-again-{}", name.replace([' ', ':'], "-")));
        let arguments: Vec<&str> = ["import"].iter().chain(intention.import).copied().collect();
        fs::write(folder.0.join("first.toml"), suimon(&files, &arguments).stdout).expect("written");
        let exported = suimon(&folder.0, &["export", "--tc", "first.toml"]);
        assert!(exported.status.success(), "{name}: {}", text(&exported.stderr));
        // One device of it.
        let commands = text(&exported.stdout);
        let own = format!(" dev {} ", intention.interface);
        let kept = commands
            .lines()
            .filter(|line| line.starts_with('#') || line.contains(&own));
        fs::write(folder.0.join("commands"), kept.collect::<Vec<_>>().join("\n")).expect("written");
        let again = suimon(&folder.0, &["import", "tc", "commands"]);
        assert!(
            again.status.success(),
            "{name}: {}\n{commands}",
            text(&again.stderr)
        );
        fs::write(folder.0.join("policy.toml"), &again.stdout).expect("written");
        let ids = renamed(&commands);
        let mut text_of = scenario(intention);
        for (class, id) in &ids {
            text_of = text_of.replace(&format!("class = \"{class}\"\n"), &format!("class = \"{id}\"\n"));
        }
        fs::write(folder.0.join("sim.toml"), text_of).expect("written");
        let sim = suimon(&folder.0, &["sim", "sim.toml"]);
        if !sim.status.success() {
            let _ = write!(
                missed,
                "{name}:\n{}{}\n{}\n",
                text(&sim.stdout),
                text(&sim.stderr),
                text(&again.stdout)
            );
        }
    }
    assert!(missed.is_empty(), "{missed}");
}

/// Two classes that every kernel with HTB can have.
const PLAIN: &str = r#"
version = 1
[interface.eth0]
bandwidth = "10 Mbit/s"
discipline = "cbq"
class = [
    { name = "a", rate = "4 Mbit/s", priority = 5, discipline = { kind = "fifo", limit = 50 } },
    { name = "b", rate = "6 Mbit/s", borrow = false, default = true, discipline = { kind = "fifo", limit_bytes = "64 KiB" } },
]
"#;

/// Runs the commands in a network of their own, and then `after`; an error says what is lacking.
fn in_kernel(folder: &Path, devices: &[&str], after: &str) -> Result<String, String> {
    let add = |(nth, device): (usize, &&str)| {
        format!("ip link add {device} type veth peer name peer{nth} || exit 77\n")
    };
    let script: String = devices.iter().enumerate().map(add).collect();
    let script = format!("{script}tc -batch commands && {after}");
    let run = Command::new("unshare")
        .args(["-rn", "sh", "-c", &script])
        .current_dir(folder)
        .output();
    let run = run.map_err(|error| format!("the kernel or tc lacks something: unshare: {error}"))?;
    let said = text(&run.stderr);
    let lacks = [
        "is unknown",
        "not found",
        "No such file or directory",
        "Operation not permitted",
        "Unknown device",
    ];
    if run.status.success() {
        return Ok(text(&run.stdout));
    }
    let lacking = run.status.code() == Some(77) || lacks.iter().any(|words| said.contains(words));
    assert!(lacking, "{said}");
    Err(format!(
        "the kernel or tc lacks: {}",
        said.lines().next().unwrap_or("namespaces")
    ))
}

#[test]
fn the_kernel_takes_what_is_exported_and_shows_it_as_it_was_meant() {
    let folder = TestDirectory::new("import-kernel");
    fs::write(folder.0.join("policy.toml"), PLAIN).expect("written");
    let exported = suimon(&folder.0, &["export", "--tc", "policy.toml"]);
    fs::write(folder.0.join("commands"), &exported.stdout).expect("written");
    match in_kernel(
        &folder.0,
        &["eth0"],
        "tc -j qdisc show dev eth0 && tc -j class show dev eth0",
    ) {
        Err(lacking) => skips::skipped(lacking),
        Ok(shown) => {
            fs::write(folder.0.join("shown"), &shown).expect("written");
            let again = suimon(&folder.0, &["import", "tc", "shown"]);
            let policy = text(&again.stdout);
            assert!(again.status.success(), "{shown}\n{}", text(&again.stderr));
            for line in [
                "bandwidth = \"10 Mbit/s\"",
                "linkshare = \"4 Mbit/s\"",
                "upperlimit = \"6 Mbit/s\"",
            ] {
                assert!(policy.contains(line), "{shown}\n{policy}");
            }
        }
    }
    let files = root().join("crates/import/tests/files");
    for intention in INTENTIONS
        .iter()
        .filter(|intention| !intention.import[0].starts_with("sqm"))
    {
        let arguments: Vec<&str> = ["import"].iter().chain(intention.import).copied().collect();
        fs::write(folder.0.join("policy.toml"), suimon(&files, &arguments).stdout).expect("written");
        let exported = suimon(&folder.0, &["export", "--tc", "policy.toml"]);
        let commands = text(&exported.stdout);
        let own = format!(" dev {} ", intention.interface);
        let kept: Vec<&str> = commands.lines().filter(|line| line.contains(&own)).collect();
        fs::write(folder.0.join("commands"), kept.join("\n")).expect("written");
        if let Err(lacking) = in_kernel(&folder.0, &[intention.interface], "true") {
            skips::skipped(format!("{}: {lacking}", intention.import[0]));
        }
    }
}

/// A page's fenced blocks: the words behind the fence, and the lines.
fn blocks(page: &str) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    let mut open = false;
    for line in page.lines() {
        match line.strip_prefix("```") {
            Some(info) => {
                open = !open;
                if open {
                    all.push((info.into(), String::new()));
                }
            }
            None if open => {
                let (_, text) = all.last_mut().expect("a block is open");
                *text += line;
                *text += "\n";
            }
            None => {}
        }
    }
    all
}

/// The words of a command as a shell has them: between double quotes stands one.
fn words(command: &str) -> Vec<&str> {
    let parts = command.split('"').enumerate();
    let words = parts.flat_map(|(number, part)| match number % 2 {
        0 => part.split_whitespace().collect(),
        _ => vec![part],
    });
    words.collect()
}

/// Each page has files (```` ```conf NAME ````) and runs (```` ```console ````), which show what is
/// said on stderr, then what is written. `BLESS=1` writes what is said now.
#[test]
fn the_pages_for_those_who_come_from_elsewhere_show_what_is_said_now() {
    let pages = root().join("docs/coming-from");
    let mut runs = 0;
    for entry in fs::read_dir(&pages).expect("pages") {
        let path = entry.expect("an entry").path();
        let page = fs::read_to_string(&path).expect("a page");
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a name");
        let folder = TestDirectory::new(&format!("import-{name}"));
        let mut new = page.clone();
        for (info, content) in blocks(&page) {
            if let Some((_, file)) = info.split_once(' ') {
                fs::write(folder.0.join(file), &content).expect("written");
            }
            let Some(command) = content
                .lines()
                .next()
                .and_then(|line| line.strip_prefix("$ suimon "))
            else {
                continue;
            };
            let arguments = words(command);
            let output = suimon(&folder.0, &arguments);
            assert!(
                output.status.success(),
                "{name}: {command}: {}",
                text(&output.stderr)
            );
            let said = format!(
                "$ suimon {command}\n{}{}",
                text(&output.stderr),
                text(&output.stdout)
            );
            new = new.replace(&content, &said);
            runs += 1;
        }
        if std::env::var_os("BLESS").is_some() {
            fs::write(&path, &new).expect("written");
        }
        let old = fs::read_to_string(&path).expect("a page");
        assert!(old == new, "{name}.md shows what is no longer said:\n{new}");
    }
    assert!(runs >= 5, "only {runs} runs are shown");
}

/// The command itself reads what it writes as a lab does.
#[test]
fn netem_becomes_links_that_a_lab_accepts() {
    let files = root().join("crates/import/tests/files");
    for (file, made) in [("netem.sh", "netem.toml"), ("netem-show", "netem-show.toml")] {
        let output = suimon(&files, &["import", file]);
        assert!(output.status.success(), "{file}: {}", text(&output.stderr));
        let made = fs::read_to_string(files.join(made)).expect("a topology");
        assert_eq!(text(&output.stdout), made, "{file}");
        let strict = suimon(&files, &["import", "--strict", file]);
        assert_eq!(strict.status.code(), Some(2), "{file}: its correlations are lost");
    }
}
