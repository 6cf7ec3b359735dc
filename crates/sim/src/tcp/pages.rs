//! A browser that loads pages: a main object, then what is embedded in it, then time to read.
//!
//! The structure is that of Choi and Limb, "A behavioral model of Web traffic" (ICNP 1999): a main
//! object, a number of in-line objects and a viewing time, each of a distribution. The objects of a
//! page are asked for when its main object has arrived completely: each by the next connection that
//! is free, as with HTTP/1.1, or all at once on one connection (HTTP/2, RFC 9113). Connections stay
//! open between pages, and but for the first they are opened when they are needed first. Names are
//! not resolved, there is no TLS, and nothing is cached. A page without objects on one connection
//! is a request and its response.

use super::responses::{ResponseClient, Wish};
use crate::agent::Others;
use engine::random::{Rng, Seed};
use engine::units::{Duration, Instant};
use measure::distribution::Distribution;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The objects of a page at most: a draw from a heavy tail may be more.
pub const MOST_OBJECTS: u64 = 10_000;

/// What pages are, and how they are loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageModel {
    /// The bytes of a main object.
    pub main: Distribution,
    /// The number of objects that are embedded in it.
    pub objects: Distribution,
    /// The bytes of each.
    pub object: Distribution,
    /// The nanoseconds from a page's last byte to the next page.
    pub think: Distribution,
    /// The number of pages.
    pub pages: u64,
    /// The connections that objects are loaded over at most.
    pub connections: u32,
    /// Whether all objects of a page are asked for at once, on one connection.
    pub multiplexed: bool,
}

impl PageModel {
    /// Pages of one object each, without end, each at once after the other, on one connection.
    pub fn of(main: Distribution) -> Self {
        Self {
            main,
            objects: Distribution::fixed(0),
            object: Distribution::fixed(0),
            think: Distribution::fixed(0),
            pages: u64::MAX,
            connections: 1,
            multiplexed: false,
        }
    }

    /// How many connections a browser opens at most.
    pub fn parallel(&self) -> u32 {
        match self.multiplexed {
            true => 1,
            false => self.connections.max(1),
        }
    }

    /// The connections of one browser, in the order in which it opens them. Their flows must be
    /// added one after the other, and all but the first of them with a start that never comes.
    pub fn connections(&self, seed: Seed) -> Vec<PageConnection> {
        let browser = Browser {
            model: self.clone(),
            of_pages: seed.stream(),
            of_objects: seed.fork("objects").stream(),
            left: self.pages,
            begun: Instant::START,
            loading: Loading::Nothing { next: Instant::START },
            load_times: Vec::new(),
        };
        let browser = Arc::new(Mutex::new(browser));
        let connection = |own| PageConnection {
            browser: Arc::clone(&browser),
            own,
            asked: 0,
        };
        (0..self.parallel()).map(connection).collect()
    }
}

/// What of a page is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Loading {
    /// The next page begins then.
    Nothing { next: Instant },
    /// Its main object.
    Main,
    /// What is embedded in it: not asked for yet, and not arrived yet.
    Objects { unasked: u64, missing: u64 },
}

#[derive(Debug)]
struct Browser {
    model: PageModel,
    /// Main objects and times to read.
    of_pages: Rng,
    of_objects: Rng,
    /// Pages that have not begun.
    left: u64,
    /// When the page that is being loaded was asked for.
    begun: Instant,
    loading: Loading,
    load_times: Vec<Duration>,
}

impl Browser {
    /// What a free connection asks for: how many objects, and their bytes.
    fn wish(&mut self, now: Instant) -> (u64, Wish) {
        match self.loading {
            Loading::Nothing { .. } if self.left == 0 => (0, Wish::Nothing),
            Loading::Nothing { next } if next > now => (0, Wish::At(next)),
            Loading::Nothing { .. } => {
                self.left -= 1;
                self.begun = now;
                self.loading = Loading::Main;
                (1, Wish::Bytes(self.model.main.draw(&mut self.of_pages).max(1)))
            }
            Loading::Objects {
                unasked: unasked @ 1..,
                missing,
            } => {
                let asked = if self.model.multiplexed { unasked } else { 1 };
                self.loading = Loading::Objects {
                    unasked: unasked - asked,
                    missing,
                };
                let draw = |_| self.model.object.draw(&mut self.of_objects).max(1);
                (asked, Wish::Bytes((0..asked).map(draw).sum()))
            }
            Loading::Main | Loading::Objects { .. } => (0, Wish::At(Instant::NEVER)),
        }
    }

    /// So many objects have arrived. Returns for how many the others are needed.
    fn answered(&mut self, now: Instant, objects: u64) -> u64 {
        let missing = match self.loading {
            Loading::Objects { unasked, missing } => {
                let missing = missing.saturating_sub(objects);
                self.loading = Loading::Objects { unasked, missing };
                missing
            }
            _ => {
                let all = self.model.objects.draw(&mut self.of_objects).min(MOST_OBJECTS);
                self.loading = Loading::Objects {
                    unasked: all,
                    missing: all,
                };
                if all > 1 && !self.model.multiplexed {
                    return all - 1;
                }
                all
            }
        };
        if missing == 0 {
            self.load_times.push(now.since(self.begun));
            let think = Duration::from_nanos(self.model.think.draw(&mut self.of_pages));
            self.loading = Loading::Nothing { next: now + think };
        }
        0
    }
}

/// One connection of a browser.
#[derive(Clone, Debug)]
pub struct PageConnection {
    browser: Arc<Mutex<Browser>>,
    /// Its place among them.
    own: u32,
    /// The objects that are outstanding on it.
    asked: u64,
}

impl PageConnection {
    fn browser(&self) -> MutexGuard<'_, Browser> {
        self.browser.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The load times of all pages that have been loaded, on whatever connections: from the request
    /// for the main object until the last byte of the page is acknowledged.
    pub fn load_times(&self) -> Vec<Duration> {
        self.browser().load_times.clone()
    }
}

impl ResponseClient for PageConnection {
    fn wish(&mut self, now: Instant) -> Wish {
        let (asked, wish) = self.browser().wish(now);
        self.asked = asked;
        wish
    }

    fn answered(&mut self, now: Instant) -> Others {
        let mut browser = self.browser();
        let more = browser.answered(now, self.asked);
        let others = browser.model.parallel() - 1;
        Others {
            own: self.own,
            many: u32::try_from(more).unwrap_or(u32::MAX).min(others),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> PageModel {
        PageModel {
            objects: Distribution::fixed(3),
            object: Distribution::fixed(100),
            think: Distribution::fixed(1_000),
            pages: 2,
            connections: 2,
            ..PageModel::of(Distribution::fixed(10))
        }
    }

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    #[test]
    fn objects_go_to_the_connection_that_is_free_and_the_last_ends_the_page() {
        let mut all = model().connections(Seed(1));
        let [a, b] = &mut all[..] else {
            panic!("two connections");
        };
        assert_eq!(
            (a.wish(at(0)), b.wish(at(0))),
            (Wish::Bytes(10), Wish::At(Instant::NEVER))
        );
        // Two objects are left for others, and there is one other.
        assert_eq!(a.answered(at(10)), Others { own: 0, many: 1 });
        assert_eq!(
            (a.wish(at(10)), b.wish(at(10))),
            (Wish::Bytes(100), Wish::Bytes(100))
        );
        assert_eq!(b.answered(at(20)), Others { own: 1, many: 0 });
        assert_eq!(b.wish(at(20)), Wish::Bytes(100));
        a.answered(at(30));
        assert_eq!(a.wish(at(30)), Wish::At(Instant::NEVER));
        assert!(a.load_times().is_empty());
        b.answered(at(50));
        assert_eq!(a.load_times(), [Duration::from_nanos(50)]);
        assert_eq!(
            (b.wish(at(50)), b.wish(at(1_050))),
            (Wish::At(at(1_050)), Wish::Bytes(10))
        );
    }

    #[test]
    fn one_connection_that_multiplexes_asks_for_all_objects_at_once() {
        let multiplexed = PageModel {
            multiplexed: true,
            pages: 1,
            ..model()
        };
        let mut all = multiplexed.connections(Seed(1));
        let [only] = &mut all[..] else {
            panic!("one connection");
        };
        assert_eq!(only.wish(at(0)), Wish::Bytes(10));
        assert_eq!(only.answered(at(10)), Others::NONE);
        assert_eq!(only.wish(at(10)), Wish::Bytes(300));
        only.answered(at(30));
        assert_eq!(
            (only.load_times(), only.wish(at(30))),
            (vec![Duration::from_nanos(30)], Wish::Nothing)
        );
    }
}
