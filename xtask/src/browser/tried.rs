//! The page of the simulator in a headless Chromium, opened as a file: no server.

use super::HeldAgainst;
use super::chromium::Browser;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The page, in the site.
pub(super) const PAGE: &str = "simulator.html";

/// The profile of the program whose speed is compared.
const OPTIMISED: &str = "release-tests";

/// What is timed: ten TCP connections over one bottleneck.
const TIMED: &str = "scenarios/dumbbell.toml";

/// How often; the fastest counts.
const TIMES: usize = 3;

/// Has every example, and tells how fast it is beside an optimised program. Skips, by name, where
/// there is no Chromium.
pub(super) fn run(root: &Path, against: HeldAgainst) -> Result<(), String> {
    let folder = std::env::temp_dir().join(format!("suimon-simulator-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    let page = root.join(crate::site::FOLDER).join(PAGE);
    let address = format!("file://{}", page.display());
    let opened = Browser::open(&folder, &address, (1400, 1000));
    let tried = match opened {
        Some(browser) => tried(root, against, &mut OpenPage { browser, address }),
        None => {
            skips::skipped("chromium is not installed");
            Ok(())
        }
    };
    let _ = fs::remove_dir_all(&folder);
    tried
}

fn tried(root: &Path, against: HeldAgainst, page: &mut OpenPage) -> Result<(), String> {
    let program = program(root, against)?;
    page.browser.wait_for("window.RUN");
    let examples = page.browser.evaluate("EXAMPLES.map(example => example.path)");
    let examples: Vec<String> = serde_json::from_value(examples).map_err(|why| format!("examples: {why}"))?;
    if examples.len() < 30 {
        return Err(format!("the page has {} examples only", examples.len()));
    }
    let mut others = Vec::new();
    for example in &examples {
        let (mut ours, _) = page.run(example);
        let (theirs, _) = simulated(root, &program, example)?;
        ours["scenario"] = theirs["scenario"].clone();
        if ours != theirs {
            others.push(format!("{example}: {}", difference("", &theirs, &ours)));
        }
    }
    if !others.is_empty() {
        return Err(format!("the page has another outcome of\n{}", others.join("\n")));
    }
    println!(
        "the page has the program's outcome of {} scenarios",
        examples.len()
    );
    mistakes(&mut page.browser);
    offers(&mut page.browser);
    shared(page);
    ended(&mut page.browser);
    match against {
        HeldAgainst::TestsProgram => Ok(()),
        HeldAgainst::OptimisedProgram => timed(root, &program, page),
    }
}

/// The page in the browser.
struct OpenPage {
    browser: Browser,
    address: String,
}

impl OpenPage {
    /// The outcome of this example, and the milliseconds of its simulation.
    fn run(&mut self, example: &str) -> (Value, f64) {
        let browser = &mut self.browser;
        browser.evaluate(&format!(
            "window.RUN = undefined; {{ const choice = document.querySelector('[name=example]'); \
             choice.value = {}; choice.dispatchEvent(new Event('change')); }}",
            json!(example)
        ));
        browser.wait_for("window.RUN");
        let run = browser.evaluate("window.RUN");
        (run["outcome"].clone(), run["busy"].as_f64().unwrap_or(0.0))
    }
}

/// Builds the program.
fn program(root: &Path, against: HeldAgainst) -> Result<PathBuf, String> {
    if against == HeldAgainst::TestsProgram {
        return crate::ci::tests_program(root);
    }
    let mut build = Command::new("cargo");
    build.args(["build", "--quiet", "--profile", OPTIMISED, "--package", "suimon"]);
    match build.current_dir(root).status() {
        Ok(status) if status.success() => Ok(root.join("target").join(OPTIMISED).join("suimon")),
        other => Err(format!("browser: {build:?}: {other:?}")),
    }
}

/// What the program simulates of this scenario, and the time that it took.
fn simulated(root: &Path, program: &Path, scenario: &str) -> Result<(Value, Duration), String> {
    let begin = Instant::now();
    let output = Command::new(program)
        .args(["sim", scenario, "--json"])
        .current_dir(root)
        .stderr(Stdio::null())
        .output()
        .map_err(|why| format!("{scenario}: {why}"))?;
    let took = begin.elapsed();
    let outcome = serde_json::from_slice(&output.stdout).map_err(|why| format!("{scenario}: {why}"))?;
    Ok((outcome, took))
}

/// The first place in which two outcomes differ.
fn difference(at: &str, one: &Value, other: &Value) -> String {
    match (one, other) {
        (Value::Object(a), Value::Object(b)) if a.keys().eq(b.keys()) => {
            let differs = a.iter().find(|(key, value)| b[*key] != **value);
            differs.map_or_else(String::new, |(key, value)| {
                difference(&format!("{at}.{key}"), value, &b[key])
            })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let differs = a.iter().zip(b).enumerate().find(|(_, (a, b))| a != b);
            differs.map_or_else(String::new, |(index, (a, b))| {
                difference(&format!("{at}[{index}]"), a, b)
            })
        }
        _ => format!("{at}: {one} by the program, {other} on the page"),
    }
}

/// Writes a text as somebody does who types it, with the caret behind `before`.
fn write(browser: &mut Browser, text: &str, before: &str) {
    browser.evaluate(&format!(
        "{{ const area = document.querySelector('textarea'); area.value = {}; area.focus(); \
         area.setSelectionRange({before}.length, {before}.length); area.dispatchEvent(new Event('input')); }}",
        json!(text),
        before = json!(before),
    ));
}

const BEGINNING: &str =
    "version = 1\nduration = \"1 s\"\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbit/s\"\n";

/// A mistake is told beside its line, and is gone when it is.
fn mistakes(browser: &mut Browser) {
    let flow = "[[flow]]\nbetween = [\"a\", \"b\"]\nkind = \"tpc\"\n";
    let text = format!("{BEGINNING}{flow}");
    write(browser, &text, &text);
    browser.wait_for("document.querySelector('.lines b:nth-child(8)').classList.contains('bad')");
    browser.wait_for("document.querySelector('.mistakes').innerText.includes('did you mean \"tcp\"')");
    let right = text.replace("tpc", "tcp");
    write(browser, &right, &right);
    browser.wait_for("!document.querySelector('.lines .bad') && !document.querySelector('.mistakes li')");
    let ended = "window.RUN && document.querySelector('.run').textContent === 'Run'";
    browser.evaluate("window.RUN = undefined; document.querySelector('.run').click();");
    browser.wait_for(ended);
    let name = browser.evaluate("RUN.outcome.flows[0].kind");
    assert_eq!(name, json!("tcp cubic"));
}

/// What could be written is offered where the caret is, and taken.
fn offers(browser: &mut Browser) {
    let policy = "[link.policy.a]\nbandwidth = \"1 Mbit/s\"\n";
    for (begun, after, wanted) in [
        (format!("{BEGINNING}del"), "\n".to_owned(), "delay"),
        (
            format!("{BEGINNING}{policy}discipline = \"fq_c"),
            "\"\n".to_owned(),
            "fq_codel",
        ),
        (
            format!("{BEGINNING}{policy}discipline = \"drr\"\nclass = [{{ name = \"x\", wei"),
            " }]\n".to_owned(),
            "weight",
        ),
        (
            format!("{BEGINNING}[[expect]]\nmetric = \"ja"),
            "\"\n".to_owned(),
            "jain",
        ),
        (
            format!("{BEGINNING}[[flow]]\nkind = \"poi"),
            "\"\n".to_owned(),
            "poisson",
        ),
    ] {
        write(browser, &format!("{begun}{after}"), &begun);
        browser.wait_for(&format!(
            "!document.querySelector('.offers').hidden && \
             [...document.querySelectorAll('.offers li')].some(item => item.firstChild.textContent === '{wanted}')"
        ));
    }
    let typed = "document.querySelector('textarea').dispatchEvent(new KeyboardEvent('keydown', { key: 'Tab', bubbles: true }))";
    browser.evaluate(typed);
    browser.wait_for("document.querySelector('textarea').value.includes('kind = \"poisson\"')");
}

/// A link that was shared has the text, the seed and the outcome.
fn shared(page: &mut OpenPage) {
    let browser = &mut page.browser;
    let flow =
        "[[flow]]\nname = \"水門 ▸\"\nbetween = [\"a\", \"b\"]\nkind = \"poisson\"\nrate = \"500 kbit/s\"\n";
    let text = format!("{BEGINNING}{flow}");
    write(browser, &text, &text);
    browser.evaluate("document.querySelector('[name=seed]').value = '77'; window.RUN = undefined;");
    browser.evaluate("document.querySelector('.run').click()");
    browser.wait_for("window.RUN");
    let first = browser.evaluate("RUN.outcome");
    browser.evaluate("document.querySelector('.share').click()");
    browser.wait_for("location.hash.startsWith('#s=')");
    let link = browser.evaluate("location.hash");
    let link = format!("{}{}", page.address, link.as_str().unwrap_or_default());
    let browser = &mut page.browser;
    browser.ask("Page.navigate", json!({ "url": "about:blank" }));
    browser.wait_for("location.href === 'about:blank'");
    browser.ask("Page.navigate", json!({ "url": link }));
    browser.wait_for("window.RUN");
    let again = browser.evaluate("[document.querySelector('textarea').value, document.querySelector('[name=seed]').value, RUN.outcome]");
    assert_eq!(again, json!([text, "77", first]));
    // Half a link is told, and the page works on.
    browser.evaluate("window.RUN = undefined; location.hash = location.hash.slice(0, 40)");
    browser.wait_for("window.RUN");
}

/// A run that is long can be ended, and another begins.
fn ended(browser: &mut Browser) {
    let flow = "[[flow]]\nbetween = [\"a\", \"b\"]\nkind = \"greedy\"\n";
    let text = format!("{BEGINNING}{flow}").replace("\"1 s\"", "\"1000000 s\"");
    write(browser, &text, &text);
    browser.evaluate("window.RUN = undefined; document.querySelector('.run').click();");
    browser.wait_for("document.querySelector('progress').value > 0 && document.querySelector('.run').textContent === 'Stop'");
    browser.evaluate("document.querySelector('.run').click()");
    browser.wait_for("document.querySelector('.state').textContent === 'Stopped'");
    let short = text.replace("1000000 s", "1 s");
    let run = |browser: &mut Browser, text: &str| {
        write(browser, text, text);
        browser.evaluate("window.RUN = undefined; document.querySelector('.run').click()");
    };
    run(browser, &short);
    browser.wait_for("window.RUN && RUN.outcome.duration_ns === 1e9");
    // In the middle of a step of hours, too.
    run(browser, &text.replace("1 Mbit/s", "10 Gbit/s"));
    std::thread::sleep(Duration::from_millis(300));
    browser.evaluate("document.querySelector('.run').click()");
    run(browser, &short);
    browser.wait_for("window.RUN && RUN.outcome.duration_ns === 1e9");
}

/// Tells how fast the page is beside the program. A busy machine is slow: it decides nothing.
fn timed(root: &Path, program: &Path, page: &mut OpenPage) -> Result<(), String> {
    let mut fastest = BTreeMap::from([("program", f64::INFINITY), ("page", f64::INFINITY)]);
    for _ in 0..TIMES {
        let (_, took) = simulated(root, program, TIMED)?;
        let took = [
            ("program", took.as_secs_f64()),
            ("page", page.run(TIMED).1 / 1_000.0),
        ];
        for (who, took) in took {
            fastest
                .entry(who)
                .and_modify(|fastest| *fastest = fastest.min(took));
        }
    }
    let (program, page) = (fastest["program"], fastest["page"]);
    println!(
        "{TIMED}: {program:.2} s by the program, {page:.2} s on the page, which has {:.0} % of its speed",
        program / page * 100.0
    );
    Ok(())
}
