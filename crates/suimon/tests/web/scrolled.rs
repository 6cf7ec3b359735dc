//! A table of very many classes in a browser: it makes rows of those in view alone, so that it
//! scrolls; all are found.
//!
//! How long that takes is the machine's, which may be busy: `cargo xtask felt` judges it, several
//! times on a quiet one. What is always bounded is the work: where the table is scrolled, that of
//! the rows in view in each frame; where a state comes, a few readings of each class; where one is
//! searched for, one of each.

use super::{Steady, Web, asked, names, opened};
use serde_json::Value;

/// `counts()` is what the page has read of classes, and made as rows of tables, since the last one.
const COUNTED: &str = "
    const counted = { states: 0, reads: 0, rows: 0 };
    const seen = of => new Proxy(of, { get: (of, key) => { counted.reads += 1; return of[key]; } });
    const shows = View.prototype.show;
    View.prototype.show = function (state, at) {
      counted.states += 1;
      shows.call(this, { ...state, classes: state.classes.map(seen) }, at);
    };
    new MutationObserver(changes => {
      for (const { addedNodes } of changes)
        counted.rows += [...addedNodes].filter(node => node.tagName === 'TR').length;
    }).observe(document.body, { childList: true, subtree: true });
    const counts = () => {
      const now = { ...counted };
      Object.assign(counted, { states: 0, reads: 0, rows: 0 });
      return now;
    };";

/// Scrolls through the whole table in 200 frames: the longest time between two of them, and what
/// `count` gives in each.
const SCROLL: &str = "
    const scroll = count => new Promise(done => {
      const table = document.querySelector('.table'), step = table.scrollHeight / 200, frames = [];
      let [last, longest] = [performance.now(), 0];
      table.scrollTop = 0;
      count();
      requestAnimationFrame(function draw(now) {
        longest = Math.max(longest, now - last);
        last = now;
        frames.push(count());
        table.scrollTop += step;
        if (frames.length < 200) requestAnimationFrame(draw); else done({ longest, frames });
      });
    });";

const SEARCH: &str = "
    const search = text => {
      const input = document.querySelector('input'), begin = performance.now();
      counts();
      input.value = text;
      input.dispatchEvent(new Event('input'));
      return { ...counts(), took: performance.now() - begin };
    };";

const CLASSES: u64 = 5_000;

/// How often what is felt is repeated, if `cargo xtask felt` asks.
fn repeats() -> Option<usize> {
    Some(asked::number("SUIMON_FELT")? as usize)
}

/// Pauses of the page in milliseconds.
struct Pauses {
    of: &'static str,
    longest: Vec<f64>,
}

impl Pauses {
    fn new(of: &'static str) -> Self {
        let longest = Vec::new();
        Self { of, longest }
    }

    fn add(&mut self, took: &Value) {
        self.longest.push(took.as_f64().expect("milliseconds"));
    }

    /// Tells them; none may be longer than 100 ms where the machine is quiet.
    fn judge(&self) {
        let (of, count) = (self.of, self.longest.len());
        let longest = self.longest.iter().copied().fold(0.0, f64::max);
        eprintln!("felt: 5,000 classes in a browser, {of}: {longest:.1} ms at most in {count}");
        if repeats().is_some() {
            assert!(longest <= 100.0, "{:?}", self.longest);
        }
    }
}

#[test]
fn a_browser_scrolls_and_searches_five_thousand_classes() {
    let web = Web::start("many", Steady::new(&names(CLASSES as u32), true));
    let Some(mut browser) = opened(&web, (1200, 1000)) else {
        return;
    };
    browser.wait_for("document.querySelector('.count').textContent === '5000 classes'");
    let _ = browser.evaluate(SCROLL);
    let mut pauses = Pauses::new("scroll: the longest of 200 frames, while states come");
    for _ in 0..repeats().unwrap_or(1) {
        pauses.add(&browser.evaluate("scroll(() => 0)")["longest"]);
    }
    pauses.judge();
    browser.wait_for("document.querySelector('tbody').textContent.includes('site-4999')");
    // Rows in view of a window of 1,000 pixels, and some before and behind them.
    let view = browser.evaluate("Math.ceil(innerHeight / ROW)");
    let view = view.as_u64().expect("rows");
    assert!((20..50).contains(&view), "{view} rows in view");
    let rows_of_a_frame = view..=view + 10 + 2;
    let counts = |of: &Value| ["states", "reads", "rows"].map(|what| of[what].as_u64().expect("a count"));

    let _ = browser.evaluate(COUNTED);
    browser.wait_for("counted.states >= 2");
    let [states, reads, rows] = counts(&browser.evaluate("counts()"));
    let each = (reads / states, rows / states);
    eprintln!("a state of 5,000 classes: {each:?} readings and rows");
    assert!((CLASSES..=10 * CLASSES).contains(&each.0), "{each:?}");
    assert!((20..=*rows_of_a_frame.end()).contains(&each.1), "{each:?}");

    // No state comes while frames are counted, so that all is the scrolling's.
    let scrolled = browser.evaluate("events.close(); scroll(counts)");
    let frames = scrolled["frames"].as_array().expect("frames").iter();
    let [reads, rows] = frames.map(counts).fold([0, 0], |most, [_, reads, rows]| {
        [most[0].max(reads), most[1].max(rows)]
    });
    eprintln!("a frame of the scrolling: at most {reads} readings and {rows} rows");
    assert!(rows_of_a_frame.contains(&rows), "{rows} rows");
    assert!((view * 11..=30 * rows).contains(&reads), "{reads} readings");

    let _ = browser.evaluate(SEARCH);
    let mut pauses = Pauses::new("search");
    let texts = [("SITE-4321", 1), ("no such class", 0)];
    for (text, found) in texts.repeat(repeats().unwrap_or(1)) {
        let searched = browser.evaluate(&format!("search('{text}')"));
        let [_, reads, _] = counts(&searched);
        pauses.add(&searched["took"]);
        assert!((CLASSES..=CLASSES + 30).contains(&reads), "{reads} readings");
        assert_eq!(
            browser.evaluate("document.querySelector('.count').textContent"),
            format!("{found} of 5000 classes")
        );
        let first = browser.evaluate("document.querySelectorAll('tbody tr')[1].cells[0].textContent");
        assert_eq!(first == "site-4321", found == 1, "{first}");
    }
    pauses.judge();
}
