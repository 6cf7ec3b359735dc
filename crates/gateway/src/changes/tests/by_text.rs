//! Files that differ in a class or in anything else, applied by what their texts differ in and, in
//! a twin, by a reading of the whole: the same answers, the same in force, and the same mistakes.

use super::*;
use std::fmt::Write;

/// So many classes change alike that it is said once.
const MANY: usize = 40;

/// Ends the first line of the twin's texts: by it they are not known to be in tables.
const AS_A_WHOLE: &str = " # \"\"\"";

/// A running program with all interfaces of a policy.
struct Twin {
    changes: PolicyChanges,
    in_force: Arc<InForce>,
    handle: Handle,
    thread: std::thread::JoinHandle<WorkerSnapshot>,
    whole: bool,
}

impl Twin {
    fn start(text: &str, whole: bool) -> Self {
        let registry = Registry::builtin();
        let text = Self::told(text, whole);
        let policy = Policy::read("FILE", &text, &registry, &[]);
        let policy = policy.unwrap_or_else(|why| panic!("{}", why.render(false)));
        let (mut worker, handle) = Worker::new(Settings::default()).expect("a worker");
        let mut managed = Vec::new();
        for interface in &policy.interfaces {
            let mut port = |name| {
                let [near, _far] =
                    Memory::pair([name, "far"], Capabilities::plain(1500, 64)).expect("a wire");
                worker.add_port(Box::new(near))
            };
            let (from, to) = (port("in"), port("out"));
            let whole = vacancies::laid_out(interface, &registry);
            let path = worker.add_path(crate::direction::managed(&whole, from, to));
            managed.push(((path, interface.clone()), whole));
        }
        let thread = std::thread::spawn(move || worker.run());
        let in_force = Arc::new(InForce::running(handle.clone(), registry, managed));
        let made_of = MadeOf::text("FILE", &text);
        let changes = PolicyChanges::new(Arc::clone(&in_force), None, &policy, None, made_of);
        Self {
            changes: changes.expect("no disk"),
            in_force,
            handle,
            thread,
            whole,
        }
    }

    fn told(text: &str, whole: bool) -> String {
        match whole {
            true => text.replacen('\n', &format!("{AS_A_WHOLE}\n"), 1),
            false => text.to_owned(),
        }
    }

    /// What it says to this text, and the class that was adopted alone.
    fn apply(&self, file: &Path, text: &str, within: Option<Duration>) -> (Result<Applied, String>, bool) {
        std::fs::write(file, Self::told(text, self.whole)).expect("a file");
        let done = self
            .changes
            .apply(file, within, Breaking::Refused, Provenance::default(), &|| false);
        let alone = done.as_ref().is_ok_and(|done| done.alone.is_some());
        let done = done.map(|done| done.applied);
        (done.map_err(|why| why.message.replace(AS_A_WHOLE, "")), alone)
    }

    fn text(&self) -> String {
        let text = self.changes.policy_text().expect("it can be written");
        text.replace(AS_A_WHOLE, "")
    }

    fn history(&self) -> Vec<(u64, String, Vec<String>, bool)> {
        let told = |view: GenerationView| (view.number, view.by, view.changes, view.in_force);
        self.changes.history().into_iter().map(told).collect()
    }

    fn end(self) {
        self.handle.stop();
        self.thread.join().expect("an orderly end");
    }
}

/// The classes of a policy, without places for more.
fn named(policy: &InterfacePolicy) -> BTreeMap<String, String> {
    let classes = policy.plan.classes.iter().filter(|info| !info.vacant);
    classes
        .map(|info| {
            let parent = info.parent.and_then(|parent| policy.plan.info(parent));
            let parent = parent.map(|parent| parent.name.to_string());
            (
                info.name.to_string(),
                format!("{parent:?} {:?} {}", info.arrivals, info.leaf),
            )
        })
        .collect()
}

/// Holds one against the other.
fn are_alike(short: &Twin, whole: &Twin, rng: &mut Rng) {
    assert_eq!(short.text(), whole.text());
    assert_eq!(short.history(), whole.history());
    let unlike = short.in_force.unlike().expect("an answer");
    assert!(unlike.values().all(Vec::is_empty), "{unlike:?}");
    let [some, others] = [short, whole].map(|twin| policies(&twin.in_force));
    for (one, other) in some.iter().zip(&others) {
        assert_eq!(Difference::of(one, other), Difference::default());
        assert_eq!(Difference::of(other, one), Difference::default());
        // In whatever places.
        assert_eq!(named(one), named(other));
        let anew = one
            .spec
            .check(short.in_force.registry(), one.link())
            .expect("a tree");
        assert_eq!(format!("{:?}", one.plan), format!("{anew:?}"));
        let [mut by_one, mut by_other] = [one, other].map(|policy| by_filters_with(policy, Seed(1)));
        for _ in 0..10 {
            let packet = packet(rng);
            assert_eq!(
                class_of(&mut *by_one, one, &packet),
                class_of(&mut *by_other, other, &packet)
            );
        }
    }
}

/// The tables of a text; the first is all before them.
fn tables(text: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    for line in text.split_inclusive('\n') {
        if line.starts_with("[[") {
            all.push(String::new());
        }
        all.last_mut().expect("there is one").push_str(line);
    }
    all
}

/// A policy of two interfaces with so many classes each, which stand beside their filters or apart
/// from them.
fn drawn(rng: &mut Rng, kind: &str, key: &str, classes: usize) -> String {
    let mut text = "version = 1\n".to_owned();
    for interface in ["wan0", "lan0"] {
        let _ = write!(
            text,
            "[interface.{interface}]\nbandwidth = \"100 Mbit/s\"\ndiscipline = \"{kind}\"\n"
        );
        let (count, mut classes, mut filters) = (classes, Vec::new(), Vec::new());
        for class in 0..count {
            let default = if class == 0 { "default = true\n" } else { "" };
            let sends = match rng.below(4 * count as u64) {
                0 => "sends = { rate = \"10 kbit/s\", burst = \"2 kB\" }\n",
                1 => "quota = { volume = \"5 GB per day\" }\n",
                _ => "",
            };
            let value = match kind {
                "priq" => ["1", "2", "3", "4", "5", "6"][class],
                _ => value(rng, kind),
            };
            classes.push(format!(
                "[[interface.{interface}.class]]\nname = \"c{class}\"\n{key} = {value}\n{default}{sends}"
            ));
            filters.push(format!(
                "[[interface.{interface}.filter]]\nclass = \"c{class}\"\ndestination = \"10.{class}.0.0/16\"\n"
            ));
        }
        match rng.below(2) {
            0 => text += &[classes, filters].concat().concat(),
            _ => text.extend(
                classes
                    .into_iter()
                    .zip(filters)
                    .flat_map(|(class, filter)| [class, filter]),
            ),
        }
        if rng.below(6) == 0 {
            let _ = write!(
                text,
                "[[interface.{interface}.expect]]\nclass = \"c4\"\nmetric = \"drops\"\nat_most = 5\n"
            );
        }
    }
    text
}

fn value(rng: &mut Rng, kind: &str) -> &'static str {
    match kind {
        "drr" | "wrr" => pick(rng, &["1", "2", "3"]),
        "priq" => pick(
            rng,
            &["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12"],
        ),
        _ => pick(rng, &["\"1 Mbit/s\"", "\"2 Mbit/s\"", "\"3 Mbit/s\""]),
    }
}

/// A line or a table that says something else, or is a mistake.
const ODD: [&str; 18] = [
    "# a comment\n",
    "\n",
    "  \n",
    "# [[interface.wan0.class]]\n",
    "# '''\n",
    "name = \"\"\"\n[[interface.wan0.class]]\"\"\"\n",
    "discipline = \"fifo\"\n",
    "discipline = { kind = \"red\", child = \"fifo\" }\n",
    "default = true\n",
    "rate = \"1 Mbit\"\n",
    "weight = [\n[1]\n]\n",
    "[interface.wan0.class.discipline]\nkind = \"fifo\"\n",
    "[[interface.wan0.filter]]\nclass = \"c1\"\nprotocol = [\"tcp\", \"udp\"]\n",
    "[[interface.wan0.filter]]\nclass = \"c9\"\nprotocol = \"tcp\"\n",
    "  [[interface.wan0.filter]]\n  class = \"c2\"\n  dscp = 8\n",
    "[[ interface.wan0.class ]]\nname = \"odd\"\n",
    "[[interface.\"wan0\".filter]]\nclass = \"c3\"\ndscp = 9\n",
    "}\n",
];

/// Another text, by one edit.
fn edited(rng: &mut Rng, text: &str, kind: &str, key: &str) -> String {
    let mut all = tables(text);
    let many = all.len() as u64;
    let at = 1 + rng.below(many - 1) as usize;
    let interface = pick(rng, &["wan0", "lan0"]).to_owned();
    let name = format!("n{}", rng.below(5));
    match rng.below(16) {
        0..5 => {
            let value = value(rng, kind);
            let mut new = format!("[[interface.{interface}.class]]\nname = \"{name}\"\n{key} = {value}\n");
            new += pick(
                rng,
                &[
                    "",
                    "",
                    "",
                    "discipline = \"fifo\"\n",
                    "default = false\n",
                    "parent = \"c2\"\n",
                ],
            );
            let filter = format!(
                "[[interface.{interface}.filter]]\nclass = \"{name}\"\ndestination = \"10.{}.0.0/16\"\n",
                rng.below(9)
            );
            let last = all
                .iter()
                .rposition(|table| table.contains(&format!(".{interface}.")))
                .unwrap_or(at);
            let place = if rng.below(4) > 0 { last + 1 } else { at };
            all.insert(place.min(all.len()), new);
            for _ in 0..rng.below(3) {
                let place = if rng.below(3) > 0 { place + 1 } else { at };
                all.insert(place.min(all.len()), filter.clone());
            }
        }
        5..7 => {
            let name = format!(
                "\"{}\"",
                pick(rng, &["n0", "n1", "n2", "n3", "c1", "c2", "c3", "c5"])
            );
            let own = format!(".{interface}.");
            let stays = rng.below(8) == 0;
            let is_it = |table: &String| table.contains(&own) && table.contains(&name);
            all.retain(|table| !is_it(table) || stays && table.contains("filter]]"));
        }
        7..10 => {
            let (old, new) = (value(rng, kind), value(rng, kind));
            all[at] = all[at].replace(old, new);
        }
        10 => {
            let (old, new) = (format!("\"c{}\"", rng.below(6)), format!("\"{name}\""));
            all = all.iter().map(|table| table.replace(&old, &new)).collect();
        }
        11 => all.swap(at, 1 + rng.below(many - 1) as usize),
        12 => {
            let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
            lines.insert(1 + rng.below(lines.len() as u64) as usize, pick(rng, &ODD));
            return lines.concat();
        }
        13 => {
            let again = all[at].clone();
            all.insert(at, again);
        }
        _ => {
            let mut text = text.to_owned();
            let at = rng.below(text.len() as u64) as usize;
            match rng.below(3) {
                0 => drop(text.remove(at)),
                1 => text.insert_str(at, pick(rng, &["\"", "]", "\n", "#", "ä", "[["])),
                _ => drop(text.pop()),
            }
            return text;
        }
    }
    all.concat()
}

/// Applies a text in both, and now and then goes back. What differed, if it was put into force, and
/// whether one class of it alone was.
fn applied_alike(
    short: &Twin,
    whole: &Twin,
    file: &Path,
    new: &str,
    rng: &mut Rng,
) -> (Option<Difference>, bool) {
    let within = (rng.below(12) == 0).then_some(Duration::from_secs(60));
    let before = short.text();
    let [(said, is_alone), (expected, _)] = [short, whole].map(|twin| twin.apply(file, new, within));
    assert!(said == expected, "{before}\n---\n{new}\n{said:#?}\n{expected:#?}");
    are_alike(short, whole, rng);
    let waits = said.is_ok() && within.is_some();
    if waits && rng.below(2) == 0 {
        let [a, b] = [short, whole].map(|twin| twin.changes.confirm().map_err(|why| why.message));
        assert_eq!(a, b);
    } else if waits || rng.below(16) == 0 {
        let by = Provenance::default;
        let [a, b] = [short, whole].map(|twin| {
            let back = twin.changes.rollback(None, Breaking::Refused, by());
            back.map_err(|why| why.message)
        });
        assert_eq!(a, b);
        are_alike(short, whole, rng);
    }
    (said.ok().map(|done| done.difference), is_alone)
}

#[test]
fn a_text_that_differs_in_a_class_is_put_into_force_as_a_reading_of_the_whole_does() {
    let folder = std::env::temp_dir().join(format!("suimon-by-text-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("policy.toml");
    for (kind, key, classes) in [
        ("drr", "weight", 6),
        ("drr", "weight", MANY),
        ("wrr", "weight", 6),
        ("hfsc", "linkshare", 6),
        ("cbq", "rate", 6),
        ("priq", "priority", 6),
    ] {
        let mut rng = Seed(11).fork(kind).stream();
        let (mut same, mut alone, mut refused, mut together) = (0, 0, 0, 0);
        for _ in 0..6 {
            let mut text = drawn(&mut rng, kind, key, classes);
            let (short, whole) = (Twin::start(&text, false), Twin::start(&text, true));
            for _ in 0..60 {
                let edits = if rng.below(6) == 0 { 3 } else { 1 };
                let new = (0..edits).fold(text.clone(), |text, _| edited(&mut rng, &text, kind, key));
                let told = short
                    .changes
                    .otherwise(&short.changes.alone(), &new.as_str().into());
                same += u32::from(matches!(told, Some(Otherwise::Nothing)));
                let (said, is_alone) = applied_alike(&short, &whole, &file, &new, &mut rng);
                alone += u32::from(is_alone);
                refused += u32::from(said.is_none());
                together += u32::from(is_alone && said.is_some_and(|said| !said.shares.is_empty()));
                text = short.text();
                if !SharedText::from(&*text).is_in_tables() && rng.below(2) == 0 {
                    text = drawn(&mut rng, kind, key, classes);
                }
            }
            short.end();
            whole.end();
        }
        assert!(
            alone > 10 && same > 10 && refused > 50,
            "{kind}: {alone} alone, {same} the same, {refused} refused"
        );
        assert_eq!(together > 10, classes == MANY, "{kind}: {together} told of all");
    }
    std::fs::remove_dir_all(&folder).expect("it is there");
}
