//! The queues of pf.conf: of ALTQ, where names of children are listed and defined apart, and of
//! OpenBSD, where each names its parent.

use super::lists::{bracketed, list};
use crate::draft::{
    ClassDraft, DisciplineDraft, Draft, DraftValue, InterfaceDraft, Names, Settings, service_curve,
};
use crate::missing::Missing;
use crate::place::{ImportError, Place, Word, Words};
use crate::rates;
use engine::units::{Bandwidth, Bytes, Duration};
use std::collections::HashSet;

/// The deepest tree.
const DEEPEST: usize = 32;

/// A rate as it is written: of the parent, or absolute.
#[derive(Clone, Debug)]
struct Amount(Word);

impl Amount {
    fn read(words: &mut Words) -> Result<Self, ImportError> {
        words.expect("a rate such as 20Mb or 50%").map(Self)
    }

    fn of(&self, parent: Bandwidth) -> Result<Bandwidth, ImportError> {
        let Self(word) = self;
        rates::percent(&word.text, parent)
            .or_else(|| rates::pf(&word.text))
            .ok_or_else(|| word.wrong("bits per second such as 20Mb (20M on OpenBSD), or a percentage"))
    }
}

/// A queue as it is defined.
#[derive(Clone, Debug)]
struct Queue {
    name: Word,
    on: Option<String>,
    parent: Option<Word>,
    bandwidth: Option<Amount>,
    /// OpenBSD's `min` and `max`, and `burst … for …` of each.
    least: Option<Amount>,
    most: Option<Amount>,
    bursts: [Option<(Amount, Duration)>; 3],
    priority: Option<u64>,
    limit: Option<u64>,
    flows: Option<u64>,
    quantum: Option<u64>,
    default: bool,
    scheduler: Option<String>,
    /// Words in the brackets behind the scheduler.
    options: Vec<Word>,
    children: Vec<Word>,
}

/// `altq on …`.
#[derive(Clone, Debug)]
struct Root {
    interface: Word,
    scheduler: Word,
    bandwidth: Bandwidth,
    options: Vec<Word>,
    children: Vec<Word>,
}

#[derive(Debug, Default)]
pub(super) struct Queues {
    roots: Vec<Root>,
    all: Vec<Queue>,
}

/// An interface with its queues, and the names of the classes that they are.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) draft: InterfaceDraft,
    /// The queue's name, and the class's.
    pub(super) classes: Vec<(String, String)>,
    /// Whether a rule without a queue takes packets to the default one.
    pub(super) altq: bool,
}

impl Queues {
    pub(super) fn altq(
        &mut self,
        words: &mut Words,
        missing: &Missing,
        draft: &mut Draft,
    ) -> Result<(), ImportError> {
        if !words.take("on") {
            return Err(words.expect("`on`")?.wrong("`on`"));
        }
        let interface = words.expect("the name of an interface")?;
        let scheduler = words.expect("a scheduler such as cbq")?;
        let options = bracketed(words);
        let (mut bandwidth, mut children) = (missing.up, Vec::new());
        while let Some(word) = words.next() {
            match word.text.as_str() {
                "bandwidth" => {
                    let rate = words.expect("a rate")?;
                    let read = rates::pf(&rate.text);
                    bandwidth = Some(read.ok_or_else(|| rate.wrong("bits per second such as 20Mb"))?);
                }
                "queue" => children = list(words),
                "qlimit" | "tbrsize" => {
                    let value = words.expect("a number")?;
                    draft.lost(
                        word.at,
                        format!("`{} {}` of the interface", word.text, value.text),
                    );
                }
                _ => return Err(word.wrong("bandwidth, qlimit, tbrsize or queue")),
            }
        }
        let bandwidth = bandwidth.ok_or_else(|| {
            let message = "it has no `bandwidth`, and pf asks the driver: give `--up RATE`";
            ImportError::new(interface.at, message)
        })?;
        self.roots.push(Root {
            interface,
            scheduler,
            bandwidth,
            options,
            children,
        });
        Ok(())
    }

    pub(super) fn queue(&mut self, words: &mut Words, draft: &mut Draft) -> Result<(), ImportError> {
        let mut queue = Queue {
            name: words.expect("the name of the queue")?,
            on: None,
            parent: None,
            bandwidth: None,
            least: None,
            most: None,
            bursts: [None, None, None],
            priority: None,
            limit: None,
            flows: None,
            quantum: None,
            default: false,
            scheduler: None,
            options: Vec::new(),
            children: Vec::new(),
        };
        // Which of the three rates `burst` is of.
        let mut last = 0;
        while let Some(word) = words.peek().map(str::to_owned) {
            if word == "{" {
                queue.children = list(words);
                continue;
            }
            let at = words.expect("a word")?;
            let number = |words: &mut Words| {
                let word = words.expect("a number")?;
                word.text.parse().map_err(|_| word.wrong("a number"))
            };
            match word.as_str() {
                "," => {}
                "on" => queue.on = Some(words.expect("the name of an interface")?.text),
                "parent" => queue.parent = Some(words.expect("the name of a queue")?),
                "bandwidth" => (queue.bandwidth, last) = (Some(Amount::read(words)?), 0),
                "min" => (queue.least, last) = (Some(Amount::read(words)?), 1),
                "max" => (queue.most, last) = (Some(Amount::read(words)?), 2),
                "burst" => {
                    let amount = Amount::read(words)?;
                    if !words.take("for") {
                        return Err(at.wrong("`burst RATE for TIME`"));
                    }
                    let time = words.expect("a time such as 100ms")?;
                    let read = rates::tc_time(&time.text).filter(|_| time.text.ends_with("ms"));
                    let time = read.ok_or_else(|| time.wrong("a time such as 100ms"))?;
                    queue.bursts[last] = Some((amount, time));
                }
                "priority" => queue.priority = Some(number(words)?),
                "qlimit" => queue.limit = Some(number(words)?),
                "flows" => queue.flows = Some(number(words)?),
                "quantum" => queue.quantum = Some(number(words)?),
                "default" => queue.default = true,
                "cbq" | "hfsc" | "priq" | "fairq" => {
                    queue.scheduler = Some(word);
                    queue.options = bracketed(words);
                    queue.default |= queue.options.iter().any(|option| option.text == "default");
                }
                "tbrsize" => {
                    words.next();
                    draft.lost(at.at, "`tbrsize`");
                }
                _ => return Err(at.wrong("a word of a queue such as bandwidth, priority, parent or default")),
            }
        }
        self.all.push(queue);
        Ok(())
    }

    /// The interfaces with their classes.
    pub(super) fn finish(&self, missing: &Missing, draft: &mut Draft) -> Result<Vec<Tree>, ImportError> {
        let mut trees = Vec::new();
        for root in &self.roots {
            trees.push(self.of_altq(root, draft)?);
        }
        for root in self.all.iter().filter(|queue| queue.parent.is_none()) {
            if let (Some(on), true) = (&root.on, self.roots.is_empty()) {
                trees.push(self.of_openbsd(root, on, missing, draft)?);
            }
        }
        Ok(trees)
    }

    fn of_altq(&self, root: &Root, draft: &mut Draft) -> Result<Tree, ImportError> {
        let name = &root.interface.text;
        let kind = match root.scheduler.text.as_str() {
            "cbq" => "cbq",
            "hfsc" => "hfsc",
            "priq" => "priq",
            "codel" => "codel",
            "fairq" => {
                draft.lost(
                    root.scheduler.at,
                    "`fairq`: classes share by bandwidth (hfsc), and each has a queue for each flow",
                );
                "hfsc"
            }
            _ => return Err(root.scheduler.wrong("cbq, hfsc, priq, fairq or codel")),
        };
        let mut discipline = DisciplineDraft::of(kind);
        if kind == "codel" {
            for option in root.options.chunks(2) {
                match option {
                    [key, value] if key.text == "target" || key.text == "interval" => {
                        let time: u64 = value.text.parse().map_err(|_| value.wrong("milliseconds"))?;
                        let key = if key.text == "target" {
                            "target"
                        } else {
                            "interval"
                        };
                        discipline = discipline.with(key, Duration::from_millis(time));
                    }
                    [key, ..] => draft.lost(key.at, format!("`{}` of codel", key.text)),
                    [] => {}
                }
            }
        }
        draft.attach("egress", name);
        let mut tree = Tree {
            draft: InterfaceDraft::new(name, root.bandwidth, discipline, root.interface.at),
            classes: Vec::new(),
            altq: true,
        };
        let mut building = Building {
            queues: self,
            kind,
            names: Names::default(),
            priorities: HashSet::new(),
            on: name,
        };
        for child in root.children.iter().filter(|_| kind != "codel") {
            building.add(child, None, root.bandwidth, &mut tree, draft, 0)?;
        }
        Ok(tree)
    }

    fn of_openbsd(
        &self,
        root: &Queue,
        on: &str,
        missing: &Missing,
        draft: &mut Draft,
    ) -> Result<Tree, ImportError> {
        let link = missing.up.unwrap_or(Bandwidth::ZERO);
        let most = root.most.as_ref().map(|most| most.of(link)).transpose()?;
        let given = root.bandwidth.as_ref().map(|rate| rate.of(link)).transpose()?;
        let bandwidth = most.or(given).or(missing.up).ok_or_else(|| {
            let message = format!(
                "queue `{}` has neither `max` nor `bandwidth`: give `--up RATE`",
                root.name.text
            );
            ImportError::new(root.name.at, message)
        })?;
        if most.is_none() && root.flows.is_none() {
            draft.lost(
                root.name.at,
                format!(
                    "`{}` has no `max`: its `bandwidth` is a limit here",
                    root.name.text
                ),
            );
        }
        draft.attach("egress", on);
        let has_children = self.children(&root.name.text).next().is_some();
        let discipline = match has_children {
            true => DisciplineDraft::of("hfsc"),
            false => leaf(root, draft).unwrap_or_else(|| DisciplineDraft::of("fq_codel")),
        };
        let mut tree = Tree {
            draft: InterfaceDraft::new(on, bandwidth, discipline, root.name.at),
            classes: Vec::new(),
            altq: false,
        };
        let mut building = Building {
            queues: self,
            kind: "hfsc",
            names: Names::default(),
            priorities: HashSet::new(),
            on,
        };
        let children: Vec<Word> = self
            .children(&root.name.text)
            .map(|queue| queue.name.clone())
            .collect();
        for child in &children {
            building.add(child, None, bandwidth, &mut tree, draft, 0)?;
        }
        if root.default && has_children {
            draft.lost(
                root.name.at,
                format!("`{}` is the default and has queues below it", root.name.text),
            );
        }
        Ok(tree)
    }

    fn children<'a>(&'a self, parent: &'a str) -> impl Iterator<Item = &'a Queue> {
        let is_child = move |queue: &&Queue| queue.parent.as_ref().is_some_and(|name| name.text == parent);
        self.all.iter().filter(is_child)
    }
}

/// The classes of an interface as they are made.
struct Building<'a> {
    queues: &'a Queues,
    kind: &'static str,
    names: Names,
    priorities: HashSet<u64>,
    on: &'a str,
}

impl Building<'_> {
    fn add(
        &mut self,
        name: &Word,
        parent: Option<&str>,
        above: Bandwidth,
        tree: &mut Tree,
        draft: &mut Draft,
        depth: usize,
    ) -> Result<(), ImportError> {
        let mut defined = self
            .queues
            .all
            .iter()
            .filter(|queue| queue.name.text == name.text);
        let here = |queue: &&Queue| queue.on.as_deref().is_none_or(|on| on == self.on);
        let Some(queue) = defined.find(here) else {
            return Err(ImportError::new(
                name.at,
                format!("queue `{}` is not defined for `{}`", name.text, self.on),
            ));
        };
        let again = tree.classes.iter().any(|(known, _)| *known == name.text);
        if again || depth > DEEPEST {
            return Err(ImportError::new(
                name.at,
                format!("queue `{}` is below itself, or listed twice", name.text),
            ));
        }
        let rate = queue.bandwidth.as_ref().map(|rate| rate.of(above)).transpose()?;
        let class = ClassDraft {
            name: self.names.of(&name.text),
            parent: parent.map(str::to_owned),
            default: queue.default,
            rate: rate.unwrap_or(if self.kind == "cbq" {
                above
            } else {
                Bandwidth::ZERO
            }),
            settings: Settings::new(),
            discipline: None,
            at: queue.name.at,
        };
        let mut class = class;
        class.settings = match self.kind {
            "cbq" => cbq(queue, &class),
            "priq" => self.priq(queue, draft),
            _ => hfsc(queue, rate, above)?,
        };
        let listed = queue.children.iter().cloned();
        let named: Vec<Word> = self
            .queues
            .children(&name.text)
            .map(|queue| queue.name.clone())
            .collect();
        let children: Vec<Word> = listed.chain(named).collect();
        if children.is_empty() {
            class.discipline = leaf(queue, draft);
        }
        options(queue, draft);
        let (own, rate) = (class.name.clone(), class.rate);
        tree.classes.push((name.text.clone(), own.clone()));
        tree.draft.classes.push(class);
        for child in &children {
            let rate = if rate == Bandwidth::ZERO { above } else { rate };
            self.add(child, Some(&own), rate, tree, draft, depth + 1)?;
        }
        Ok(())
    }

    fn priq(&mut self, queue: &Queue, draft: &mut Draft) -> Settings {
        let wanted = queue.priority.unwrap_or(1);
        let mut priority = wanted;
        while !self.priorities.insert(priority) {
            priority += 1;
        }
        if priority != wanted {
            draft.lost(
                queue.name.at,
                format!("priority {wanted} is another queue's: {priority}"),
            );
        }
        vec![("priority", priority.into())]
    }
}

fn cbq(queue: &Queue, class: &ClassDraft) -> Settings {
    let borrow = queue.options.iter().any(|option| option.text == "borrow");
    let mut settings: Settings = vec![("rate", class.rate.into()), ("borrow", borrow.into())];
    settings.extend(queue.priority.map(|priority| ("priority", priority.into())));
    settings
}

fn hfsc(queue: &Queue, rate: Option<Bandwidth>, above: Bandwidth) -> Result<Settings, ImportError> {
    let curve = |nth: usize, second: Bandwidth| -> Result<DraftValue, ImportError> {
        match &queue.bursts[nth] {
            None => Ok(second.into()),
            Some((first, time)) => Ok(service_curve(first.of(above)?, *time, second)),
        }
    };
    let (mut share, mut real, mut upper) = (None, None, None);
    if let Some(rate) = rate {
        share = Some(curve(0, rate)?);
    }
    if let Some(least) = &queue.least {
        real = Some(curve(1, least.of(above)?)?);
    }
    if let Some(most) = &queue.most {
        upper = Some(curve(2, most.of(above)?)?);
    }
    let mut options = Words::new(queue.options.clone());
    while let Some(option) = options.next() {
        let own = match option.text.as_str() {
            "realtime" => &mut real,
            "linkshare" => &mut share,
            "upperlimit" => &mut upper,
            _ => continue,
        };
        *own = Some(option_curve(&mut options, above)?);
    }
    if share.is_none() && real.is_none() {
        share = Some(above.into());
    }
    let given = [("realtime", real), ("linkshare", share), ("upperlimit", upper)];
    Ok(given
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)))
        .collect())
}

/// `10%`, or `(m1 d m2)` with d in milliseconds.
fn option_curve(options: &mut Words, above: Bandwidth) -> Result<DraftValue, ImportError> {
    let inside = bracketed(options);
    if inside.is_empty() {
        return Ok(Amount::read(options)?.of(above)?.into());
    }
    let inside: Vec<Word> = inside.into_iter().filter(|word| word.text != ",").collect();
    match inside.as_slice() {
        [first, time, second] => {
            let milliseconds: u64 = time.text.parse().map_err(|_| time.wrong("milliseconds"))?;
            let (first, second) = (
                Amount(first.clone()).of(above)?,
                Amount(second.clone()).of(above)?,
            );
            Ok(service_curve(first, Duration::from_millis(milliseconds), second))
        }
        [second] => Ok(Amount(second.clone()).of(above)?.into()),
        other => Err(other[0].wrong("a curve `(m1 d m2)`")),
    }
}

/// The queue of a leaf, where it says one; otherwise the usual one.
fn leaf(queue: &Queue, draft: &mut Draft) -> Option<DisciplineDraft> {
    let has = |word: &str| queue.options.iter().any(|option| option.text == word);
    if let Some(flows) = queue.flows {
        let mut discipline = DisciplineDraft::of("fq_codel").with("flows", flows);
        if let Some(quantum) = queue.quantum {
            discipline = discipline.with("quantum", Bytes::new(quantum));
        }
        if let Some(limit) = queue.limit {
            discipline = discipline.with("limit", limit);
        }
        return Some(discipline);
    }
    let fifo = queue
        .limit
        .map(|limit| DisciplineDraft::of("fifo").with("limit", limit));
    if has("codel") {
        return Some(DisciplineDraft::of("codel"));
    }
    if has("red") || has("ecn") || has("rio") {
        let red = match has("rio") {
            true => DisciplineDraft::of("rio"),
            false => DisciplineDraft::of("red").with("ecn", has("ecn")),
        };
        return Some(match fifo {
            Some(fifo) => red.over(fifo),
            None => red,
        });
    }
    if fifo.is_none() {
        draft.lost(
            Place::default(),
            "a queue without `qlimit`, `red` or `flows` has a queue for each flow, kept short (fq_codel); pf has one for all, of 50 packets",
        );
    }
    fifo
}

/// Says of each option that nothing here is.
fn options(queue: &Queue, draft: &mut Draft) {
    const KNOWN: &[&str] = &[
        "default",
        "borrow",
        "red",
        "ecn",
        "rio",
        "codel",
        "realtime",
        "linkshare",
        "upperlimit",
    ];
    let mut open = 0_i32;
    for option in &queue.options {
        open += i32::from(option.text == "(") - i32::from(option.text == ")");
        let is_word = option.text.chars().all(|c| c.is_ascii_alphabetic());
        if open == 0 && is_word && !KNOWN.contains(&option.text.as_str()) {
            draft.lost(
                option.at,
                format!("`{}` of queue `{}`", option.text, queue.name.text),
            );
        }
    }
}
