//! `suimon top`: the bandwidth, backlog and delay of every class, live (ALTQ's cbqmonitor).
//!
//! A thread follows the control socket, and comes back when the program does; this one draws and
//! takes keys. Where output is not a terminal there is one line for every interval.

use crate::commands::Context;
use crate::exit::{Exit, Failure};
use crate::monitor::history::History;
use crate::monitor::screen::{ScreenView, draw};
use clap::Args;
use control::protocol::{Reply, Request};
use control::snapshot::Snapshot;
use control::socket::{self, Client};
use engine::units::Duration;
use measure::numbers;
use plot::colour;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

/// Watch a running suimon: bandwidth, backlog and delay of every class
#[derive(Debug, Args)]
pub struct Top {
    /// The running suimon, by name or by the path of its socket; not needed if there is only one
    #[arg(long, value_name = "NAME|PATH")]
    socket: Option<String>,
    /// The time between two pictures
    #[arg(long, default_value = "1 s", value_name = "TIME")]
    interval: Duration,
    /// Write a line for every interval rather than draw, also on a terminal
    #[arg(long)]
    plain: bool,
}

/// What the following thread has to say.
enum News {
    Seen(Box<Snapshot>),
    Gone(String),
}

/// How often keys are looked at.
const BLINK: std::time::Duration = std::time::Duration::from_millis(50);

impl Top {
    /// Watches until the person has seen enough.
    pub fn run(&self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let out = &mut *cx.out;
        // Found once: when the program comes back it is at the same place.
        let path = socket::find(self.socket.as_deref())?;
        let path = path.to_string_lossy().into_owned();
        let interval = std::time::Duration::from_nanos(self.interval.nanos());
        let client = Client::connect(Some(&path))?;
        if self.plain || !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            return lines(out, client, interval);
        }
        let (sender, news) = channel();
        let followed = path.clone();
        std::thread::spawn(move || follow(client, &followed, interval, &sender));
        let mut terminal = ratatui::try_init()?;
        let mut screen = Screen {
            history: History::default(),
            view: ScreenView {
                colour: colour::wanted(&io::stdout()),
                ..ScreenView::default()
            },
            path,
        };
        let watched = screen.watch(&mut terminal, &news);
        ratatui::try_restore()?;
        watched
    }
}

/// Sends what it sees until nobody listens.
fn follow(client: Client, path: &str, interval: std::time::Duration, news: &Sender<News>) {
    let mut client = Some(client);
    loop {
        let why = match client.take().map_or_else(|| Client::connect(Some(path)), Ok) {
            Ok(connected) => match follow_once(connected, interval, news) {
                Some(why) => why,
                None => return,
            },
            Err(why) => why.to_string(),
        };
        if news.send(News::Gone(why)).is_err() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
}

/// Why it ended; `None` if nobody listens.
fn follow_once(mut client: Client, interval: std::time::Duration, news: &Sender<News>) -> Option<String> {
    let mut next = client.status(interval, true);
    loop {
        match next {
            Ok(snapshot) => news.send(News::Seen(Box::new(snapshot))).ok()?,
            Err(why) => return Some(why.message),
        }
        next = client.next_reply().and_then(socket::snapshot);
    }
}

struct Screen {
    history: History,
    view: ScreenView,
    path: String,
}

impl Screen {
    fn watch(
        &mut self,
        terminal: &mut ratatui::DefaultTerminal,
        news: &Receiver<News>,
    ) -> Result<Exit, Failure> {
        loop {
            let mut changed = self.take(news);
            if event::poll(BLINK)? {
                changed = true;
                if let Event::Key(key) = event::read()?
                    && key.kind == KeyEventKind::Press
                    && self.key(key)
                {
                    return Ok(Exit::Done);
                }
            }
            if changed {
                terminal.draw(|frame| draw(frame, &self.history, &self.view))?;
            }
        }
    }

    /// Takes in what came; whether there is something new to draw.
    fn take(&mut self, news: &Receiver<News>) -> bool {
        let mut changed = self.history.last.is_none();
        loop {
            match news.try_recv() {
                Ok(News::Seen(snapshot)) => {
                    if self.view.alarm {
                        self.view.alarm = false;
                        self.view.message = None;
                    }
                    if !self.view.paused {
                        self.history.add(*snapshot);
                    }
                }
                Ok(News::Gone(why)) => {
                    self.view.alarm = true;
                    self.view.message = Some(why);
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return changed,
            }
            changed = true;
        }
    }

    /// Does what a key asks for; whether that is the end.
    fn key(&mut self, key: KeyEvent) -> bool {
        let interrupted = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        if let Some(on) = self.view.asked.take() {
            if key.code == KeyCode::Char('y') {
                self.switch(on);
            }
            return interrupted;
        }
        if !self.view.alarm {
            self.view.message = None;
        }
        let classes = self
            .history
            .interface(self.view.interface)
            .map_or(0, |i| i.classes.len());
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Char('p' | ' ') => self.view.paused = !self.view.paused,
            KeyCode::Up => self.view.class = self.view.class.saturating_sub(1),
            KeyCode::Down => self.view.class = (self.view.class + 1).min(classes.saturating_sub(1)),
            KeyCode::Tab => {
                let interfaces = self
                    .history
                    .last
                    .as_ref()
                    .map_or(1, |s| s.interfaces.len().max(1));
                self.view.interface = (self.view.interface + 1) % interfaces;
                self.view.class = 0;
            }
            KeyCode::Char('e') => self.view.asked = Some(true),
            KeyCode::Char('d') => self.view.asked = Some(false),
            _ => {}
        }
        interrupted
    }

    fn switch(&mut self, on: bool) {
        let interface = self
            .history
            .interface(self.view.interface)
            .map(|i| i.name.clone());
        let request = if on {
            Request::Enable { interface }
        } else {
            Request::Disable { interface }
        };
        let answer = Client::connect(Some(&self.path)).and_then(|mut client| client.ask(&request));
        self.view.message = Some(match answer {
            Ok(Reply::Done { message }) => message,
            Ok(Reply::Refused(why)) | Err(why) => why.to_string(),
            Ok(other) => format!("unexpected: {other:?}"),
        });
    }
}

/// One line for every interval.
fn lines(out: &mut dyn Write, mut client: Client, interval: std::time::Duration) -> Result<Exit, Failure> {
    let mut now = client.status(interval, true)?;
    loop {
        writeln!(out, "{}", line(&now))?;
        out.flush()?;
        now = socket::snapshot(client.next_reply()?)?;
    }
}

/// `12.0 s  wan0 enabled 19 Mbit/s: voice 1 Mbit/s, work 14 Mbit/s`
fn line(now: &Snapshot) -> String {
    let rate = |got: Option<u64>| numbers::rate(got.unwrap_or(0));
    let interfaces = now.interfaces.iter().map(|interface| {
        let leaves = interface.classes.iter().filter(|class| class.leaf);
        let leaves: Vec<String> = leaves
            .map(|class| format!("{} {}", class.name, rate(class.traffic.got_bps)))
            .collect();
        let all = rate(interface.traffic.got_bps);
        let own = format!("{} {} {all}", interface.name, interface.state.name());
        if leaves.is_empty() {
            own
        } else {
            format!("{own}: {}", leaves.join(", "))
        }
    });
    let interfaces: Vec<String> = interfaces.collect();
    format!("{:.1} s  {}", now.at_ns as f64 / 1e9, interfaces.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::example;

    fn screen() -> Screen {
        let mut history = History::default();
        history.add(example::snapshot());
        Screen {
            history,
            view: ScreenView::default(),
            path: "/nonexistent/suimon.sock".into(),
        }
    }

    fn press(screen: &mut Screen, code: KeyCode) -> bool {
        screen.key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn where_there_is_no_terminal_a_line_says_what_each_leaf_got() {
        let expected = "60.0 s  wan0 enabled 19 Mbit/s: voice 1 Mbit/s, work 14 Mbit/s, rest 4 Mbit/s";
        assert_eq!(line(&example::snapshot()), expected);
    }

    #[test]
    fn keys_do_what_the_screen_says() {
        let mut screen = screen();
        for _ in 0..9 {
            assert!(!press(&mut screen, KeyCode::Down));
        }
        assert_eq!(screen.view.class, 3, "beyond the last class");
        press(&mut screen, KeyCode::Up);
        press(&mut screen, KeyCode::Char('p'));
        assert_eq!((screen.view.class, screen.view.paused), (2, true));
        assert!(press(&mut screen, KeyCode::Char('q')));
        assert!(screen.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)));
    }

    #[test]
    fn nothing_is_switched_before_yes() {
        let mut screen = screen();
        press(&mut screen, KeyCode::Char('d'));
        assert_eq!(screen.view.asked, Some(false));
        press(&mut screen, KeyCode::Char('n'));
        assert_eq!((screen.view.asked, screen.view.message.clone()), (None, None));
        press(&mut screen, KeyCode::Char('d'));
        press(&mut screen, KeyCode::Char('y'));
        let message = screen.view.message.expect("an answer");
        assert!(message.contains("no suimon answers"), "{message}");
    }

    #[test]
    fn the_picture_stays_when_the_program_goes_and_moves_on_when_it_is_back() {
        let mut screen = screen();
        let (sender, news) = channel();
        sender.send(News::Gone("it has ended".into())).expect("heard");
        assert!(screen.take(&news));
        assert!(screen.view.alarm && screen.history.last.is_some());
        let _ = sender.send(News::Seen(Box::new(example::snapshot())));
        assert!(screen.take(&news));
        assert_eq!((screen.view.alarm, &screen.view.message), (false, &None));
    }
}
