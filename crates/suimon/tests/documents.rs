//! What the documents show works as it is written: every policy, scenario and part of one is
//! accepted, every command is understood, and [`commands`] runs them, or says where they are run.
//!
//! A part of a policy (`discipline = "red"`, a class) is completed by [`completed`], a part of a
//! scenario by [`HOME`]. Of lines that give the same setting anew each is an example of its own.
//! Verbs, options and values of commands that change a machine are read by the program itself.

#[path = "documents/commands.rs"]
mod commands;
#[allow(dead_code, reason = "other tests use more of it")]
#[path = "stubs/directory.rs"]
mod directory;

use directory::TestDirectory;
use std::fmt::Write;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const SUIMON: &str = env!("CARGO_BIN_EXE_suimon");

/// The names by which the program is called.
const NAMES: [&str; 3] = ["suimon", "nine", "bottlenet"];

/// What the parts of scenarios in docs/scenarios.md are parts of.
const HOME: &str = r#"
version = 1
duration = "40 s"

[[link]]
between = ["left", "right"]
rate = "20 Mbit/s"
[[link]]
between = ["right", "home"]
rate = "20 Mbit/s"
[[link]]
between = ["left", "far"]
rate = "10 Mbit/s"
[[link]]
between = ["far", "away"]
rate = "10 Mbit/s"
[[link]]
between = ["away", "home"]
rate = "10 Mbit/s"

[[link]]
between = ["server", "left"]
rate = "20 Mbit/s"
delay = "1 ms"
policy.server.discipline = "cbq"
policy.server.bandwidth = "20 Mbit/s"
policy.server.reserve = { share = "40 %" }
policy.server.class = [{ name = "voice", rate = "1 Mbit/s" }, { name = "rest", rate = "9 Mbit/s", default = true }]

[[flow]]
name = "video"
between = ["server", "home"]
kind = "constant"
rate = "1 Mbit/s"
"#;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every page: README, and what is below `docs` but the decisions, which tell of the past.
fn pages() -> Vec<PathBuf> {
    fn below(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() && !path.ends_with("decisions") {
                below(&path, found);
            } else if path.extension().is_some_and(|ending| ending == "md") {
                found.push(path);
            }
        }
    }
    let mut found = vec![root().join("README.md")];
    below(&root().join("docs"), &mut found);
    found.sort();
    found
}

/// A block between fences: its place, what stands behind the first fence, and its text.
struct Block {
    place: String,
    info: String,
    text: String,
}

impl Block {
    fn language(&self) -> &str {
        self.info.split(' ').next().unwrap_or_default()
    }
}

/// The blocks of a page in this language.
fn blocks(page: &Path, language: &str) -> Vec<Block> {
    let all = all_blocks(page).into_iter();
    all.filter(|block| block.language() == language).collect()
}

fn all_blocks(page: &Path) -> Vec<Block> {
    let text = fs::read_to_string(page).expect("a page");
    let name = page.file_name().and_then(|name| name.to_str()).expect("a name");
    let (mut found, mut within) = (Vec::new(), None::<Block>);
    for (number, line) in (1..).zip(text.lines()) {
        let fence = line.trim_start().strip_prefix("```");
        match (&mut within, fence) {
            (Some(_), Some(_)) => found.extend(within.take()),
            (Some(block), None) => {
                writeln!(block.text, "{line}").expect("memory");
            }
            (None, Some(info)) => {
                within = Some(Block {
                    place: format!("{name}:{number}"),
                    info: info.to_owned(),
                    text: String::new(),
                });
            }
            (None, None) => {}
        }
    }
    found
}

/// The program called by this name, in this directory.
fn run(directory: &TestDirectory, name: &str, arguments: &[String]) -> Output {
    let mut command = Command::new(SUIMON);
    command.arg0(name).args(arguments).current_dir(&directory.0);
    command.stdin(Stdio::null()).output().expect("it starts")
}

fn suimon(directory: &TestDirectory, line: &str) -> Output {
    run(directory, "suimon", &words(line))
}

fn told(output: &Output) -> String {
    [&output.stdout, &output.stderr]
        .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        .concat()
}

/// Whole policies from what a page shows: more than one where a setting is given anew. What adds to
/// a policy adds to the page's first.
fn completed(shown: &str, first: &str) -> Vec<String> {
    let shown = shown.replace("link.policy.a.", "interface.wan0.");
    if shown.contains("version = 1") {
        return vec![shown];
    }
    if shown.starts_with("[[") {
        return vec![format!("{first}{shown}")];
    }
    if shown.starts_with('[') {
        return vec![format!("version = 1\n{shown}")];
    }
    let classes = shown.find("\n[").map_or("", |at| &shown[at..]);
    let settings = shown[..shown.len() - classes.len()].lines();
    let disciplines = settings.filter(|line| line.starts_with("discipline"));
    disciplines
        .map(|line| format!("version = 1\n[interface.wan0]\nbandwidth = \"100 Mbit/s\"\n{line}\n{classes}"))
        .collect()
}

fn is_scenario(text: &str) -> bool {
    let tables = [
        "[[link]]",
        "[[flow]]",
        "[[topology]]",
        "[[reserve]]",
        "[[change]]",
        "[[failure]]",
        "[[program]]",
        "[sweep]",
    ];
    text.lines().any(|line| tables.contains(&line.trim_end()))
}

#[test]
fn every_policy_shown_is_accepted() {
    let folder = TestDirectory::new("documents-policies");
    let mut judged = 0;
    for page in pages() {
        let shown = blocks(&page, "toml");
        for block in &shown {
            if is_scenario(&block.text) || block.text.contains("[[key]]") {
                continue;
            }
            let policies = completed(&block.text, &shown[0].text);
            assert!(
                !policies.is_empty(),
                "{}: no policy:\n{}",
                block.place,
                block.text
            );
            for policy in policies {
                folder.write("shown.toml", &policy);
                let output = suimon(&folder, "check shown.toml");
                assert!(
                    output.status.success(),
                    "{}:\n{policy}\n{}",
                    block.place,
                    told(&output)
                );
                judged += 1;
            }
        }
    }
    assert!(judged >= 50, "{judged} policies");
}

#[test]
fn the_keys_shown_are_accepted() {
    let shown = blocks(&root().join("docs/rsvp.md"), "toml");
    let keys: Vec<&Block> = shown
        .iter()
        .filter(|block| block.text.contains("[[key]]"))
        .collect();
    assert_eq!(keys.len(), 1);
    let text = keys[0].text.replace("hex:…", &format!("hex:{}", "5a".repeat(32)));
    let read = control::rsvp_keys::read("keys.toml", &text).expect("they are accepted");
    assert_eq!(read.len(), 2);
}

#[test]
fn the_trace_shown_is_a_link() {
    let folder = TestDirectory::new("documents-trace");
    let shown = blocks(&root().join("docs/scenarios.md"), "text");
    let traces: Vec<&Block> = shown
        .iter()
        .filter(|block| block.text.contains("time (s)"))
        .collect();
    assert_eq!(traces.len(), 1);
    let lines = traces[0].text.lines().map(str::trim);
    folder.write("shown.csv", &lines.collect::<Vec<_>>().join("\n"));
    let text = "version = 1\nduration = \"1 s\"\nlink = [{ between = [\"a\", \"b\"], trace = \"shown.csv\" }]\n\
                flow = [{ between = [\"a\", \"b\"], kind = \"tcp\" }]\n";
    folder.write("shown.toml", text);
    let output = suimon(&folder, "sim shown.toml");
    // The mean of 42.5 and 38 Mbit/s, a tenth of a second each.
    let read = output.status.success() && told(&output).contains("40.25 Mbit/s");
    assert!(read, "{}", told(&output));
}

#[test]
fn every_scenario_shown_is_accepted() {
    let folder = TestDirectory::new("documents-scenarios");
    fs::copy(
        root().join("examples/home-router.toml"),
        folder.0.join("home-router.toml"),
    )
    .expect("a copy");
    let policy = &blocks(&root().join("README.md"), "toml")[0];
    folder.write("policy.toml", &policy.text);
    let mut judged = 0;
    for page in pages() {
        for block in blocks(&page, "toml") {
            if !is_scenario(&block.text) {
                continue;
            }
            let text = match block.text.contains("version = 1") {
                true => block.text.clone(),
                false => format!("{HOME}{}", block.text),
            };
            folder.write("shown.toml", &text);
            let output = suimon(&folder, "sim shown.toml");
            assert!(
                output.status.success(),
                "{}:\n{text}\n{}",
                block.place,
                told(&output)
            );
            judged += 1;
        }
    }
    assert!(judged >= 7, "{judged} scenarios");
}

/// The words of a line of a shell, without its comment. Words within quotes are one.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in line.chars() {
        match (letter, quote) {
            ('#', None) if word.is_none() => break,
            ('\'' | '"', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (_, Some(open)) if letter == open => quote = None,
            (_, None) if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

/// The calls of our programs in a line: by which name, with which arguments. A shell's prompt
/// (`r# `), `sudo` and a path before the name are no part of them, redirections and what follows
/// end them, and what another shell is given is looked into; GNU parallel's and Slurm's numbers
/// are a number there.
fn calls(line: &str) -> Vec<(String, Vec<String>)> {
    let line = line
        .split_once("# ")
        .map_or(line, |(prompt, rest)| match prompt.len() {
            1 => rest,
            _ => line,
        });
    let mut found = Vec::new();
    let all = words(line);
    for part in all.split(|word| ["|", "&&", ";", ">"].contains(&word.as_str())) {
        let part = part.strip_prefix(&["sudo".to_owned()][..]).unwrap_or(part);
        let Some((program, arguments)) = part.split_first() else {
            continue;
        };
        let name = program.strip_prefix("./").unwrap_or(program);
        if NAMES.contains(&name) {
            found.push((name.to_owned(), arguments.to_vec()));
        } else {
            let inner = arguments.iter().filter(|word| word.starts_with("suimon "));
            found.extend(
                inner.flat_map(|word| calls(&word.replace("{}", "1").replace("$SLURM_ARRAY_TASK_ID", "1"))),
            );
        }
    }
    found
}

/// Whether the program understands these words: its help is asked for behind them, and is told only
/// if nothing before it is wrong.
fn understood(folder: &TestDirectory, name: &str, arguments: &[String]) -> Result<(), String> {
    let mut asked = arguments.to_vec();
    let own = asked.iter().position(|word| word == "--").unwrap_or(asked.len());
    asked.insert(own, "--help".to_owned());
    let output = run(folder, name, &asked);
    match output.status.success() {
        true => Ok(()),
        false => Err(told(&output)),
    }
}

#[test]
fn every_command_shown_is_understood() {
    let folder = TestDirectory::new("documents-commands");
    let mut judged = 0;
    for page in pages() {
        let shown = all_blocks(&page).into_iter();
        for block in shown.filter(|block| ["sh", "console"].contains(&block.language())) {
            let lines = block.text.lines();
            let commands = lines.map(|line| line.strip_prefix("$ ").unwrap_or(line));
            for (name, arguments) in commands.flat_map(calls) {
                let answer = understood(&folder, &name, &arguments);
                answer.unwrap_or_else(|told| panic!("{}: {name} {arguments:?}:\n{told}", block.place));
                judged += 1;
            }
        }
    }
    assert!(judged >= 50, "{judged} commands");
}

/// A word that stands for another: `FILE`, `[wan0]`, `R`, `…`.
fn is_placeholder(word: &str) -> bool {
    word.contains(['[', ']', '…'])
        || word
            .split('=')
            .any(|part| !part.is_empty() && part.chars().all(char::is_uppercase))
}

#[test]
fn every_command_named_in_a_sentence_is_understood() {
    let folder = TestDirectory::new("documents-sentences");
    let mut judged = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        for (number, line) in (1..).zip(text.lines()) {
            let codes = line.split('`').skip(1).step_by(2);
            for code in codes.filter(|code| !code.contains(" = ")) {
                let Some((name, mut arguments)) = calls(code).pop() else {
                    continue;
                };
                let rest = arguments
                    .iter()
                    .position(|word| is_placeholder(word))
                    .unwrap_or(arguments.len());
                arguments.truncate(rest);
                // An option is nothing without its value, which a sentence may leave out.
                if arguments.last().is_some_and(|word| word.starts_with('-')) {
                    arguments.pop();
                }
                let answer = understood(&folder, &name, &arguments);
                answer.unwrap_or_else(|told| panic!("{}:{number}: {code}:\n{told}", page.display()));
                judged += 1;
            }
        }
    }
    assert!(judged >= 80, "{judged} commands");
}

/// README from top to bottom, where it needs no privileges: its policy, checked and explained, and
/// its scenario over that policy, simulated with a report.
#[test]
fn the_examples_of_readme_run_as_written() {
    let folder = TestDirectory::new("documents-readme");
    let shown = blocks(&root().join("README.md"), "toml");
    let [policy, scenario] = &shown[..] else {
        panic!("{} examples", shown.len());
    };
    folder.write("policy.toml", &policy.text);
    folder.write("new.toml", &policy.text.replace("4 Mbit/s", "5 Mbit/s"));
    folder.write("mine.toml", &scenario.text);
    let expected = [
        ("suimon check ", "calls"),
        ("suimon explain ", "calls"),
        ("suimon sim ", "server > home"),
    ];
    for (begin, answer) in expected {
        let lines = blocks(&root().join("README.md"), "sh");
        let mut lines = lines.iter().flat_map(|block| block.text.lines());
        let line = lines.find(|line| line.trim_start_matches("./").starts_with(begin));
        let (_, arguments) = calls(line.expect("README shows it")).remove(0);
        let output = run(&folder, "suimon", &arguments);
        assert!(output.status.success(), "{arguments:?}: {}", told(&output));
        assert!(told(&output).contains(answer), "{arguments:?}: {}", told(&output));
    }
    assert!(folder.0.join("out/mine.html").exists(), "no page of the report");
}

/// docs/bad-links.md from top to bottom: its blocks of a shell, run as they are written, one after
/// the other.
#[test]
fn the_page_on_bad_links_runs_as_written() {
    for program in ["curl", "python3", "ping"] {
        if !["/usr/bin", "/bin"]
            .iter()
            .any(|folder| Path::new(folder).join(program).exists())
        {
            return skips::skipped(format_args!("there is no {program}"));
        }
    }
    let folder = TestDirectory::new("documents-bad-links");
    let programs = Path::new(SUIMON).parent().expect("a folder").display();
    let blocks = blocks(&root().join("docs/bad-links.md"), "sh");
    let outputs: Vec<Output> = blocks
        .iter()
        .map(|block| {
            let mut command = Command::new("sh");
            command.args(["-ec", &block.text]).current_dir(&folder.0);
            command
                .env("PATH", format!("{programs}:/usr/bin:/bin"))
                .stdin(Stdio::null());
            let output = command.output().expect("a shell");
            assert!(output.status.success(), "{}: {}", block.place, told(&output));
            output
        })
        .collect();
    let [whole, programs, nested, varying, modelled, served] = &outputs[..] else {
        panic!("{} blocks", outputs.len());
    };
    let said = "suimon: --link lte is --down 12Mbit/s --up 12Mbit/s --delay 35ms\n";
    assert_eq!(whole.stdout, b"It works.\n", "{}", told(whole));
    assert!(told(whole).contains(said), "{}", told(whole));
    assert!(
        told(programs).contains("program page on far"),
        "{}",
        told(programs)
    );
    let results = fs::read_to_string(folder.0.join("results.xml")).expect("JUnit");
    assert!(results.contains("tests=\"4\" failures=\"0\""), "{results}");
    let took: f64 = String::from_utf8_lossy(&served.stdout)
        .trim()
        .parse()
        .expect("a time");
    assert!(took >= 0.2, "two round trips through the link: {}", told(served));
    let page = fs::read_to_string(folder.0.join("page")).expect("a page");
    assert_eq!(page, "It works.\n");
    for pinged in [nested, varying, modelled] {
        assert!(told(pinged).contains("2 received"), "{}", told(pinged));
    }
    let page = fs::read_to_string(folder.0.join("report/index.html")).expect("a report");
    assert!(page.contains("exit code 0"), "{page}");
}
