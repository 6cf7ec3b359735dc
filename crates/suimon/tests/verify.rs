//! `suimon verify` in a lab: the same line with a plain buffer, and with cake before it.

#[path = "stubs/asked.rs"]
mod asked;
#[allow(dead_code, reason = "other tests use more of it")]
#[path = "stubs/directory.rs"]
mod directory;

use directory::TestDirectory;
use serde_json::Value;
use std::fs;
use std::process::{Command, Output, Stdio};

const SUIMON: &str = env!("CARGO_BIN_EXE_suimon");
const CAKE: &str = "version = 1\n[interface.line]\nbandwidth = \"19 Mbit/s\"\ndiscipline = \"cake\"\n";

/// What `verify` finds of a line of 20 Mbit/s and 20 ms with this at its ends.
fn found(name: &str, ends: &str) -> Value {
    let folder = TestDirectory::new(&format!("verify-{name}"));
    let path = |name: &str| folder.0.join(name).display().to_string();
    fs::write(path("cake.toml"), CAKE).expect("a file");
    let verify = format!(
        "sleep 0.3; exec {SUIMON} verify 10.0.0.1 --near 10.0.0.2 --for 3s --json --picture {} > {}",
        path("got.svg"),
        path("got.json")
    );
    let scenario = format!(
        "version = 1\nduration = \"25 s\"\n[[link]]\nbetween = [\"server\", \"home\"]\nrate = \"20 Mbit/s\"\n\
         delay = \"10 ms\"\n{ends}\n\
         [[flow]]\nbetween = [\"server\", \"home\"]\nkind = \"constant\"\nrate = \"10 kbit/s\"\n\
         [[program]]\nhost = \"server\"\ncommand = [\"{SUIMON}\", \"verify\", \"--listen\"]\n\
         [[program]]\nhost = \"home\"\ncommand = [\"{SUIMON}\", \"verify\", \"--listen\"]\n\
         [[program]]\nhost = \"home\"\ncommand = [\"sh\", \"-c\", \"{verify}\"]\n"
    );
    fs::write(path("line.toml"), scenario).expect("a file");
    let lab = Command::new(SUIMON)
        .args(["lab", &path("line.toml")])
        .output()
        .expect("it runs");
    let told = String::from_utf8_lossy(&lab.stderr).into_owned();
    let got = fs::read_to_string(path("got.json")).unwrap_or_else(|e| panic!("{e}: {told}"));
    let picture = fs::read_to_string(path("got.svg")).expect("a picture");
    assert!(
        picture.starts_with("<svg") && picture.contains("grade"),
        "no picture"
    );
    serde_json::from_str(&got).unwrap_or_else(|e| panic!("{e}: {got}\n{told}"))
}

/// Nine of ten repeats over one line give one grade, whichever it is.
fn judge_grades(line: &str, found: &[Value]) {
    let grades: Vec<&str> = found.iter().filter_map(|of| of["grade"].as_str()).collect();
    let most = grades
        .iter()
        .map(|one| grades.iter().filter(|other| one == *other).count());
    let most = most.max().unwrap_or(0);
    let added: Vec<f64> = found.iter().map(|of| number(of, "/added_ns") / 1e6).collect();
    let least = added.iter().copied().fold(f64::INFINITY, f64::min);
    let longest = added.iter().copied().fold(0.0, f64::max);
    let mut kinds = grades.clone();
    kinds.sort_unstable();
    kinds.dedup();
    if found.len() > 1 {
        eprintln!(
            "felt: `suimon verify`, 20 Mbit/s and 20 ms, {line}: {most} of {} repeats give one grade ({}), {least:.1} to {longest:.1} ms",
            found.len(),
            kinds.join(", ")
        );
    }
    assert!(most * 10 >= found.len() * 9, "{line}: {grades:?}");
}

fn number(of: &Value, path: &str) -> f64 {
    let value = of.pointer(path).and_then(Value::as_f64);
    value.unwrap_or_else(|| panic!("{path} of {of:#}"))
}

/// A plain buffer of 500 kB adds tens of milliseconds, whatever the congestion control; cake does
/// not, and takes 5 per cent of the rate for it. Nothing is added before the line.
#[test]
fn a_plain_buffer_gets_a_worse_grade_than_cake() {
    let both = |_| {
        let plain = std::thread::spawn(|| found("plain", "buffer = \"500 kB\""));
        let cake = found(
            "cake",
            "policy.server = \"cake.toml\"\npolicy.home = \"cake.toml\"",
        );
        (plain.join().expect("it ran"), cake)
    };
    let (plains, cakes): (Vec<Value>, Vec<Value>) =
        (0..asked::number("SUIMON_FELT").unwrap_or(1)).map(both).unzip();
    plains
        .iter()
        .zip(&cakes)
        .for_each(|(plain, cake)| judge_pair(plain, cake));
    judge_grades("a buffer of 500 kB", &plains);
    judge_grades("`cake` at 19 Mbit/s before it", &cakes);
}

fn judge_pair(plain: &Value, cake: &Value) {
    let letter = |of: &Value| of["grade"].as_str().map(str::to_owned);
    assert!(
        ["B", "C", "D", "F"]
            .map(|of| Some(of.to_owned()))
            .contains(&letter(plain)),
        "{plain:#}"
    );
    assert!(
        ["A+", "A"].map(|of| Some(of.to_owned())).contains(&letter(cake)),
        "{cake:#}"
    );
    for (of, least, most) in [(plain, 17.5e6, 20e6), (cake, 16.5e6, 19e6)] {
        assert!((19e6..30e6).contains(&number(of, "/idle/ping_ns/p50")), "{of:#}");
        for phase in ["/download", "/upload"] {
            let rate = number(of, &format!("{phase}/payload_bits_per_second"));
            assert!((least..most).contains(&rate), "{phase}: {of:#}");
            assert!(
                number(of, &format!("{phase}/request_on_loaded_ns"))
                    > number(of, &format!("{phase}/ping_ns/p50"))
            );
            assert!(number(of, &format!("{phase}/pings")) > 100.0, "{of:#}");
        }
        assert!(number(of, "/added_before_near_ns") < 20e6, "{of:#}");
    }
    assert!(number(plain, "/added_ns") > 2.0 * number(cake, "/added_ns"));
    assert!(
        number(cake, "/download/round_trips_per_minute") > number(plain, "/download/round_trips_per_minute")
    );
    assert!(number(cake, "/quality_of_outcome/game") >= number(plain, "/quality_of_outcome/game"));
}

fn verify(arguments: &[&str]) -> Output {
    let mut command = Command::new(SUIMON);
    command.arg("verify").args(arguments).stdin(Stdio::null());
    command.output().expect("it runs")
}

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    let told = |arguments: &[&str]| {
        let output = verify(arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), text)
    };
    // Nobody listens at port 9 of this machine.
    let (code, text) = told(&["127.0.0.1:9", "--for", "1s"]);
    assert!(code == Some(1) && text.contains("verify --listen"), "{text}");
    let (code, text) = told(&["127.0.0.1:9", "--for", "2min"]);
    assert!(code == Some(2) && text.contains("1 min"), "{text}");
    let (code, text) = told(&["no-such-host.invalid"]);
    assert!(code == Some(2) && text.contains("HOST:PORT"), "{text}");
    let (code, text) = told(&["127.0.0.1", "--at-least", "E"]);
    assert!(code == Some(2) && text.contains("A+"), "{text}");
    let (code, text) = told(&["127.0.0.1", "--before", "/dev/null"]);
    assert!(code == Some(2) && text.contains("not a file"), "{text}");
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let (code, text) = told(&["127.0.0.1", "--before", manifest]);
    assert!(code == Some(2) && text.contains("--json"), "{text}");
    let (code, _) = told(&[]);
    assert_eq!(code, Some(2));
}
