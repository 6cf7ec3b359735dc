//! Every block that the documents show is accounted for: it is TOML, which the tests beside this
//! read, or its commands are run as they are written, page by page, in a host of their own; or it
//! is in `elsewhere.txt`, with the test that does what it says, or the reason why none does.
//!
//! The host has the interfaces that the pages name (`eth0`; `lan0` and `wan0`; `core0` and `isp0`),
//! and a `/run`, a `/var/lib` and a home of its own. What a page takes for granted (a policy, a
//! capture, what another page has started) is laid down first; where it goes on without saying how,
//! [`BEFORE`] does it. What lasts until Ctrl-C (`run`, `web`) goes on behind the page.

use super::{Block, SUIMON, TestDirectory, all_blocks, blocks, pages, root};
use lab::{Host, Lab};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A row of `elsewhere.txt`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Elsewhere {
    page: &'static str,
    begin: &'static str,
    how: &'static str,
}

fn elsewhere() -> Vec<Elsewhere> {
    let rows = include_str!("elsewhere.txt").lines();
    rows.filter(|row| !row.starts_with('#') && !row.is_empty())
        .map(|row| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let [page, begin, how] = cells[..] else {
                panic!("three cells: {row}");
            };
            Elsewhere { page, begin, how }
        })
        .collect()
}

impl Elsewhere {
    /// Fails unless its test is there, or a reason is given.
    fn judge(&self) {
        if let Some(why) = self.how.strip_prefix("- ") {
            return assert!(why.contains(' '), "no reason: {self:?}");
        }
        let (file, test) = self.how.split_once(' ').unwrap_or_default();
        let path = root().join("crates").join(file);
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{self:?}: {e}"));
        let (_, after) = text
            .split_once(&format!("fn {test}("))
            .unwrap_or_else(|| panic!("there is no such test: {self:?}"));
        let before = &text[..text.len() - after.len()];
        let last = before.rsplit("#[test]").next().unwrap_or_default();
        assert!(last.lines().count() <= 4, "it is no test: {self:?}");
    }
}

/// A page's name below the root.
fn name(page: &Path) -> String {
    let below = page.strip_prefix(root()).expect("a page of ours");
    below.display().to_string()
}

/// The row with the longest beginning that fits what a page shows. What fits everything excuses no
/// command.
fn row<'a>(rows: &'a [Elsewhere], page: &str, shown: &str, is_command: bool) -> Option<&'a Elsewhere> {
    let of_page = |row: &&Elsewhere| match row.page.ends_with('/') {
        true => page.starts_with(row.page),
        false => page == row.page,
    };
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    let excuses_all = |row: &&Elsewhere| row.begin.is_empty() && row.how.starts_with('-');
    rows.iter()
        .filter(of_page)
        .filter(|row| !(is_command && excuses_all(row)))
        .filter(|row| shown.starts_with(row.begin))
        .max_by_key(|row| row.begin.len())
}

/// The commands of these lines, each with the text that it is given: `cat > FILE <<'END'`.
fn with_texts<'a>(mut lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(line) = lines.next() {
        let mut command = line.to_owned();
        if let Some((_, end)) = line.split_once("<<'") {
            let end = end.trim_end_matches('\'');
            let more = lines.by_ref().take_while(|line| *line != end);
            more.for_each(|line| command.extend(["\n", line]));
            command.extend(["\n", end]);
        }
        all.push(command);
    }
    all
}

/// The commands of a block of a shell; those of other blocks are none.
fn commands(block: &Block) -> Vec<String> {
    match block.language() {
        "sh" => {
            let joined = block.text.replace("\\\n", " ");
            with_texts(joined.lines())
        }
        "console" => {
            let lines = block.text.lines().filter(|line| line.starts_with("$ "));
            lines.map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

/// What of a page is run here: commands with the places where they stand. What is elsewhere is
/// added to `used`.
fn to_run(page: &Path, rows: &[Elsewhere], used: &mut BTreeSet<Elsewhere>) -> Vec<(String, String)> {
    let (of, mut found) = (name(page), Vec::new());
    let shown = all_blocks(page)
        .into_iter()
        .filter(|block| block.language() != "toml");
    for block in shown {
        let commands = commands(&block);
        if commands.is_empty() {
            let first = block.text.lines().next().unwrap_or_default();
            let row = row(rows, &of, first, false);
            used.insert(*row.unwrap_or_else(|| panic!("{}: no test has: {first}", block.place)));
        }
        for command in commands {
            match row(rows, &of, &command, true) {
                Some(row) => {
                    used.insert(*row);
                }
                None => found.push((block.place.clone(), command)),
            }
        }
    }
    found
}

#[test]
fn every_block_is_run_or_read_or_its_test_or_reason_is_named() {
    let rows = elsewhere();
    rows.iter().for_each(Elsewhere::judge);
    let mut used = BTreeSet::new();
    let pages = pages();
    let run: usize = pages
        .iter()
        .map(|page| to_run(page, &rows, &mut used).len())
        .sum();
    let idle: Vec<_> = rows.iter().filter(|row| !used.contains(row)).collect();
    assert!(idle.is_empty(), "nothing is shown that these are for: {idle:#?}");
    assert!(run >= 40, "only {run} commands are run as they are written");
}

/// What is done before the command of a page that begins so.
const BEFORE: &[(&str, &str, &str)] = &[
    ("docs/isp.md", "suimon run", "cp by-hand.toml isp.toml"),
    (
        "docs/isp.md",
        "suimon plan",
        "sed -i 's/\"150 ms\"/\"160 ms\"/' isp.toml",
    ),
    ("docs/operating.md", "suimon init", "rm policy.toml"),
    (
        "docs/operating.md",
        "suimon run policy.toml --state",
        "cp old.toml policy.toml",
    ),
    ("docs/operating.md", "suimon web", "suimon run policy.toml"),
    ("docs/what-if.md", "suimon record start", "suimon run policy.toml"),
];

/// With what commands may end but 0. What the lab measures is the machine's, which may be busy: an
/// expectation that is missed there (4) is none of the page's.
const ENDS: &[(&str, &str, &str)] = &[
    ("README.md", "suimon plan", "3"),
    ("docs/isp.md", "suimon plan", "3"),
    ("README.md", "suimon lab", "[04]"),
    ("docs/classroom.md", "suimon lab", "[04]"),
    ("docs/lecture.md", "suimon sim wait.toml", "4"),
    ("docs/lecture.md", "suimon sim buffers.toml", "4"),
    ("docs/lecture.md", "suimon sim shares.toml", "4"),
    ("docs/lecture.md", "suimon lab", "[04]"),
    ("docs/lecture.md", "suimon reproduce", "[04]"),
    ("docs/what-if.md", "suimon replay evening.rec --at", "2"), // Of another day.
    (
        "docs/classroom.md",
        "suimon sim classroom.toml --report plain",
        "4",
    ),
];

/// How a page's commands are run: those that last until Ctrl-C behind the others.
const PRELUDE: &str = r#"
set -eu
mount -t tmpfs none /run
mount -t tmpfs none /var/lib
sudo() { "$@"; }
run= web=
# end PROGRAM: ends what lasts.
end() { if [ -n "$1" ]; then kill "$1"; wait "$1" || true; fi; }
# until_it COMMAND: repeats it until it succeeds, as long as what lasts does.
until_it() { until "$@" >/dev/null 2>&1; do kill -0 "$lasts" 2>/dev/null || { cat lasts.log; return 1; }; sleep 0.1; done; }
enforced() { command suimon status || [ $? = 5 ]; }
suimon() {
    case $1 in
    run | pace) end "$run"; command suimon "$@" >lasts.log 2>&1 & run=$!; lasts=$!; until_it enforced ;;
    web) end "$web"; command suimon "$@" >lasts.log 2>&1 & web=$!; lasts=$!; until_it curl -s http://127.0.0.1:9476/ ;;
    detach) command suimon "$@"; wait "$run"; run= ;;
    init) printf 'eth0\n20Mbit/s\n20Mbit/s\n' | script -qec "suimon $*" /dev/null ;;
    *) command suimon "$@" ;;
    esac
}
"#;

/// A capture of 20 packets to the port of the policy's calls.
fn capture() -> Vec<u8> {
    let header: [u32; 6] = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1];
    let mut bytes: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([
        0x45, 0, 0, 128, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ]);
    frame.extend([0x0f, 0xa0, 0x0d, 0x96, 0, 108, 0, 0]);
    frame.resize(142, 0);
    for number in 0..20 {
        let head: [u32; 4] = [1_795_000_000, number * 10_000, 142, 142];
        bytes.extend(head.iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend(&frame);
    }
    bytes
}

/// What pages take for granted.
fn lay_down(folder: &TestDirectory) {
    let toml = |page: &str| blocks(&root().join(page), "toml");
    let readme = toml("README.md");
    let changed = readme[0].text.replace("\"4 Mbit/s\"", "\"3 Mbit/s\"");
    assert_ne!(changed, readme[0].text);
    let texts = [
        ("policy.toml", &readme[0].text),
        ("old.toml", &readme[0].text),
        ("new.toml", &changed),
        ("mine.toml", &readme[1].text),
        ("classroom.toml", &toml("docs/classroom.md")[0].text),
        ("by-hand.toml", &toml("docs/isp.md")[0].text),
    ];
    texts
        .iter()
        .for_each(|(name, text)| drop(folder.write(name, text)));
    for block in all_blocks(&root().join("docs/coming-from/libreqos.md")) {
        if let Some((_, file)) = block.info.split_once(' ') {
            folder.write(file, &block.text);
        }
    }
    fs::write(folder.0.join("evening.pcap"), capture()).expect("written");
    for below in ["bin", ".config/systemd/user"] {
        fs::create_dir_all(folder.0.join(below)).expect("a folder");
    }
    for program in ["suimon", "nine"] {
        std::os::unix::fs::symlink(SUIMON, folder.0.join("bin").join(program)).expect("a link");
    }
    let rules = blocks(&root().join("docs/nine.md"), "text");
    folder.write(".config/nine.rules", &rules[0].text);
}

/// The host of a page, with the interfaces that are named.
fn host(lab: &mut Lab) -> Host {
    let [here, there] = ["here", "there"].map(|name| lab.host(name).expect("a host"));
    for interface in ["eth0", "lan0", "wan0", "core0", "isp0"] {
        lab.veth((&here, interface), (&there, interface)).expect("a pair");
    }
    for (host, address) in [(&here, "10.0.0.1/24"), (&there, "10.0.0.2/24")] {
        host.address("eth0", address.parse().expect("an address"))
            .expect("set");
    }
    here
}

/// The page's commands as one text of a shell, which tells each before it is run.
fn script(page: &str, commands: &[(String, String)]) -> String {
    let mut text = PRELUDE.to_owned();
    let begins = |of: &str, begin: &str, command: &str| of == page && command.starts_with(begin);
    for (place, command) in commands {
        let command = command.replace("./suimon", "suimon");
        let said = format!("{place}: {command}").replace('\'', "'\\''");
        writeln!(text, "echo '{said}' >&2").expect("memory");
        for (of, begin, before) in BEFORE {
            if begins(of, begin, &command) {
                writeln!(text, "{before}").expect("memory");
            }
        }
        match ENDS.iter().find(|(of, begin, _)| begins(of, begin, &command)) {
            Some((.., codes)) => writeln!(
                text,
                "code=0; {{ {command}\n}} || code=$?; case $code in {codes}) ;; *) exit $code ;; esac"
            ),
            None => writeln!(text, "{command}"),
        }
        .expect("memory");
    }
    text + "end \"$web\"\nend \"$run\"\n"
}

/// Runs the commands of a page, one after the other.
fn run(page: &Path, commands: &[(String, String)]) -> Result<(), String> {
    if commands.is_empty() {
        return Ok(());
    }
    // Inside the box process ids are those of every other run.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let folder = TestDirectory::new(&format!("pages-{}", now.as_nanos()));
    lay_down(&folder);
    let mut lab = Lab::new();
    let host = host(&mut lab);
    let script = folder.write("page.sh", &script(&name(page), commands));
    let inside = format!("cd '{}' && exec sh '{script}'", folder.0.display());
    let output = host
        .program("sh")
        .args(["-c", &inside])
        .env("HOME", &folder.0)
        .env(
            "PATH",
            format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", folder.path("bin")),
        )
        .limit(Duration::from_secs(300))
        .output()
        .expect("a shell");
    if output.status.success() {
        return Ok(());
    }
    let told = format!("{}{}", output.out, output.err);
    // An ordinary user's namespaces have no kernel programs.
    match told.lines().find(|line| line.contains("not permitted")) {
        Some(forbidden) => {
            skips::skipped(format!("{}: {forbidden}", name(page)));
            Ok(())
        }
        None => Err(format!("{}: {}\n{told}", name(page), output.status)),
    }
}

#[test]
fn the_commands_of_the_pages_run_as_they_are_written() {
    lab::isolated(|| {
        let rows = elsewhere();
        let run_all = |page: &PathBuf| run(page, &to_run(page, &rows, &mut BTreeSet::new()));
        let failed: Vec<String> = pages().iter().filter_map(|page| run_all(page).err()).collect();
        assert!(failed.is_empty(), "{}", failed.join("\n"));
    });
}
