//! `suimon top`: the bandwidth, backlog and delay of every class, live (ALTQ's cbqmonitor).
//!
//! One thread follows the control socket, and reconnects after a restart of the daemon; this one
//! draws and handles keys. If the output is not a terminal, it prints one line per interval.

use crate::commands::Context;
use crate::exit::{Exit, Failure};
use crate::monitor::listed::listed;
use crate::monitor::samples::History;
use crate::monitor::screen::{Graphed, ScreenView, Typing, draw};
use crate::sandbox_option::SandboxOption;
use crate::screen;
use clap::Args;
use confine::{Confinement, Role};
use control::protocol::{Reply, Request, SettingChange, SettingChanges};
use control::snapshot::{InterfaceView, Snapshot};
use control::socket::{self, Client};
use engine::units::{Bandwidth, Duration};
use gateway::confined::Sandbox;
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
    /// The time between two screens
    #[arg(long, default_value = "1 s", value_name = "TIME")]
    interval: Duration,
    /// Write a line for every interval instead of the screen, also on a terminal
    #[arg(long)]
    plain: bool,
    #[command(flatten)]
    sandbox: SandboxOption,
}

/// A message of the following thread.
enum DaemonEvent {
    /// A new snapshot.
    Snapshot(Box<Snapshot>),
    /// The connection has ended, for this reason.
    Disconnected(String),
}

/// The polling interval for keys.
const KEY_INTERVAL: std::time::Duration = std::time::Duration::from_millis(50);

impl Top {
    /// Shows the screen until the user quits.
    pub fn run(&self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let out = &mut *cx.out;
        // Resolved once: a restarted daemon has the same socket.
        let path = socket::find(self.socket.as_deref())?;
        let path = path.to_string_lossy().into_owned();
        let interval = std::time::Duration::from_nanos(self.interval.nanos());
        let client = Client::connect(Some(&path))?;
        if self.sandbox.chosen() == Sandbox::On {
            // Where something is lacking, `status` says so.
            let folder = socket::folder_of(Some(&path));
            let _ = Confinement::changing([])
                .with_file(&folder)
                .reading([folder])
                .enter(Role::Viewer);
        }
        if self.plain || !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            return lines(out, client, interval);
        }
        let (sender, events) = channel();
        let followed = path.clone();
        std::thread::spawn(move || follow(client, &followed, interval, &sender));
        let mut terminal = screen::take_over()?;
        let mut screen = Screen {
            history: History::default(),
            view: ScreenView {
                colour: colour::wanted(&io::stdout()),
                ..ScreenView::default()
            },
            path,
        };
        let watched = screen.watch(&mut terminal, &events);
        ratatui::try_restore()?;
        watched
    }
}

/// Sends snapshots until the receiver is gone.
fn follow(client: Client, path: &str, interval: std::time::Duration, events: &Sender<DaemonEvent>) {
    let mut client = Some(client);
    loop {
        let why = match client.take().map_or_else(|| Client::connect(Some(path)), Ok) {
            Ok(connected) => match follow_once(connected, interval, events) {
                Some(why) => why,
                None => return,
            },
            Err(why) => why.to_string(),
        };
        if events.send(DaemonEvent::Disconnected(why)).is_err() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
}

/// Returns why it ended; `None` if the receiver is gone.
fn follow_once(
    mut client: Client,
    interval: std::time::Duration,
    events: &Sender<DaemonEvent>,
) -> Option<String> {
    let mut next = client.status(interval, true);
    loop {
        match next {
            Ok(snapshot) => events.send(DaemonEvent::Snapshot(Box::new(snapshot))).ok()?,
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
        events: &Receiver<DaemonEvent>,
    ) -> Result<Exit, Failure> {
        loop {
            let mut changed = self.handle_events(events);
            if event::poll(KEY_INTERVAL)? {
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

    /// Handles the received events. Returns whether there is something new to draw.
    fn handle_events(&mut self, events: &Receiver<DaemonEvent>) -> bool {
        let mut changed = self.history.last.is_none();
        loop {
            match events.try_recv() {
                Ok(DaemonEvent::Snapshot(snapshot)) => {
                    if self.view.alarm {
                        self.view.alarm = false;
                        self.view.message = None;
                    }
                    if !self.view.paused {
                        self.history.add(*snapshot);
                    }
                }
                Ok(DaemonEvent::Disconnected(why)) => {
                    self.view.alarm = true;
                    self.view.message = Some(why);
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return changed,
            }
            changed = true;
        }
    }

    /// Handles a key. Returns whether it ends the program.
    fn key(&mut self, key: KeyEvent) -> bool {
        let interrupted = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        if let Some(typing) = self.view.typing.take() {
            self.type_on(typing, key.code);
            return interrupted;
        }
        if std::mem::take(&mut self.view.help) {
            return interrupted || key.code == KeyCode::Char('q');
        }
        if let Some(on) = self.view.confirming.take() {
            if key.code == KeyCode::Char('y') {
                self.switch(on);
            }
            return interrupted;
        }
        if !self.view.alarm {
            self.view.message = None;
        }
        match key.code {
            KeyCode::Esc if !self.view.search.is_empty() => self.view.search.clear(),
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Char('?' | 'h') => self.view.help = true,
            KeyCode::Char('/') => self.view.typing = Some(Typing::Search),
            KeyCode::Char('s') => self.view.order = self.view.order.next(),
            KeyCode::Char('g') => {
                self.view.graph = match self.view.graph {
                    Graphed::Bandwidth => Graphed::Delay,
                    Graphed::Delay => Graphed::Bandwidth,
                }
            }
            KeyCode::Char('r') => self.begin_rate(),
            KeyCode::Char('p' | ' ') => self.view.paused = !self.view.paused,
            KeyCode::Up => self.choose(|at, _| at.saturating_sub(1)),
            KeyCode::Down => self.choose(|at, last| (at + 1).min(last)),
            KeyCode::Tab => {
                let interfaces = self
                    .history
                    .last
                    .as_ref()
                    .map_or(1, |s| s.interfaces.len().max(1));
                self.view.interface = (self.view.interface + 1) % interfaces;
                self.view.class = 0;
            }
            KeyCode::Char('e') => self.view.confirming = Some(true),
            KeyCode::Char('d') => self.view.confirming = Some(false),
            _ => {}
        }
        interrupted
    }

    fn interface(&self) -> Option<&InterfaceView> {
        self.history.interface(self.view.interface)
    }

    /// Chooses a class by its place in the list; one that is not listed stands before all.
    fn choose(&mut self, place: impl Fn(usize, usize) -> usize) {
        let view = &self.view;
        let Some(interface) = self.interface() else { return };
        let listed = listed(interface, &view.search, view.order);
        let Some(last) = listed.len().checked_sub(1) else {
            return;
        };
        let at = listed.iter().position(|&class| class == view.class);
        self.view.class = listed[at.map_or(0, |at| place(at, last))];
    }

    /// A key while something is typed.
    fn type_on(&mut self, typing: Typing, key: KeyCode) {
        match (typing, key) {
            (Typing::Search, KeyCode::Esc) => self.view.search.clear(),
            (Typing::Search, KeyCode::Enter) | (Typing::Rate(_), KeyCode::Esc) => {}
            (Typing::Rate(rate), KeyCode::Enter) => self.set_rate(&rate),
            (mut typing, key) => {
                let text = match &mut typing {
                    Typing::Search => &mut self.view.search,
                    Typing::Rate(rate) => rate,
                };
                match key {
                    KeyCode::Backspace => drop(text.pop()),
                    KeyCode::Char(c) => text.push(c),
                    _ => {}
                }
                self.view.typing = Some(typing);
            }
        }
        if self.view.typing.is_none() || self.view.typing == Some(Typing::Search) {
            // What is chosen is listed, if anything is.
            self.choose(|at, _| at);
        }
    }

    /// The class that is chosen, with its rate; of an interface without classes itself, with its
    /// bandwidth.
    fn rated(&self) -> Option<(Option<&str>, Option<u64>)> {
        let interface = self.interface()?;
        match interface.classes.get(self.view.class) {
            Some(class) => Some((Some(&class.name), class.asked_bps)),
            None => Some((None, Some(interface.bandwidth_bps))),
        }
    }

    fn begin_rate(&mut self) {
        let (typing, message) = match self.rated() {
            None => (None, None),
            Some((_, Some(bps))) => (Some(Typing::Rate(Bandwidth::bits_per_sec(bps).to_string())), None),
            Some((class, None)) => {
                let class = class.unwrap_or_default();
                (
                    None,
                    Some(format!(
                        "{class} has no rate: its discipline shares by other settings"
                    )),
                )
            }
        };
        self.view.typing = typing;
        self.view.message = message.or_else(|| self.view.message.take());
    }

    fn set_rate(&mut self, rate: &str) {
        let Some(interface) = self.interface() else { return };
        let class = self.rated().and_then(|(class, _)| class).map(str::to_owned);
        let setting = if class.is_some() { "rate" } else { "bandwidth" };
        let request = Request::Set(SettingChanges {
            interface: interface.name.clone(),
            class,
            changes: [(setting.to_owned(), SettingChange::from_word(rate.trim()))].into(),
            until_ms: None,
            reason: None,
        });
        self.tell(&request);
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
        self.tell(&request);
    }

    /// Sends a request; its answer is the message.
    fn tell(&mut self, request: &Request) {
        let reply = Client::connect(Some(&self.path)).and_then(|mut client| client.ask(request));
        self.view.message = Some(match reply {
            Ok(Reply::Done { message, .. }) => message,
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
    let rate = |bps: Option<u64>| numbers::rate(bps.unwrap_or(0));
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
    fn without_a_terminal_a_line_shows_the_rate_of_each_leaf() {
        let expected = "60.0 s  wan0 enabled 19 Mbit/s: voice 1 Mbit/s, work 14 Mbit/s, rest 4 Mbit/s";
        assert_eq!(line(&example::snapshot()), expected);
    }

    #[test]
    fn keys_do_what_the_screen_shows() {
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

    fn write(screen: &mut Screen, text: &str) {
        for c in text.chars() {
            assert!(!press(screen, KeyCode::Char(c)), "{c} ends it");
        }
    }

    #[test]
    fn a_search_keeps_what_is_chosen_among_what_is_listed() {
        let mut screen = screen();
        write(&mut screen, "/re");
        assert_eq!(
            (screen.view.search.as_str(), screen.view.class),
            ("re", 3),
            "rest alone"
        );
        // Keys are letters while it is typed.
        write(&mut screen, "q");
        press(&mut screen, KeyCode::Backspace);
        press(&mut screen, KeyCode::Enter);
        assert_eq!(
            (screen.view.search.as_str(), screen.view.typing.clone()),
            ("re", None)
        );
        assert!(!press(&mut screen, KeyCode::Esc), "it ends the search first");
        assert_eq!((screen.view.search.as_str(), screen.view.class), ("", 3));
        // By measured rate: work, rest, voice.
        press(&mut screen, KeyCode::Char('s'));
        press(&mut screen, KeyCode::Down);
        assert_eq!(screen.view.class, 1, "voice is below rest");
        assert!(press(&mut screen, KeyCode::Esc));
    }

    #[test]
    fn a_rate_is_typed_over_the_one_that_it_is_and_asked_for() {
        let mut screen = screen();
        press(&mut screen, KeyCode::Down);
        press(&mut screen, KeyCode::Char('r'));
        assert_eq!(screen.view.typing, Some(Typing::Rate("2 Mbit/s".into())));
        press(&mut screen, KeyCode::Esc);
        assert_eq!(
            (screen.view.typing.clone(), screen.view.message.clone()),
            (None, None)
        );
        press(&mut screen, KeyCode::Char('r'));
        press(&mut screen, KeyCode::Enter);
        let message = screen.view.message.expect("an answer");
        assert!(message.contains("no suimon answers"), "{message}");
    }

    #[test]
    fn the_help_and_the_graph_come_and_go() {
        let mut screen = screen();
        press(&mut screen, KeyCode::Char('?'));
        assert!(screen.view.help);
        assert!(!press(&mut screen, KeyCode::Char('d')));
        assert!(
            !screen.view.help && screen.view.confirming.is_none(),
            "a key goes back, and no more"
        );
        press(&mut screen, KeyCode::Char('g'));
        assert_eq!(screen.view.graph, Graphed::Delay);
        press(&mut screen, KeyCode::Char('g'));
        assert_eq!(screen.view.graph, Graphed::Bandwidth);
    }

    #[test]
    fn nothing_is_switched_before_confirmation() {
        let mut screen = screen();
        press(&mut screen, KeyCode::Char('d'));
        assert_eq!(screen.view.confirming, Some(false));
        press(&mut screen, KeyCode::Char('n'));
        assert_eq!(
            (screen.view.confirming, screen.view.message.clone()),
            (None, None)
        );
        press(&mut screen, KeyCode::Char('d'));
        press(&mut screen, KeyCode::Char('y'));
        let message = screen.view.message.expect("an answer");
        assert!(message.contains("no suimon answers"), "{message}");
    }

    #[test]
    fn the_screen_stays_when_the_daemon_ends_and_resumes_when_it_is_back() {
        let mut screen = screen();
        let (sender, events) = channel();
        sender
            .send(DaemonEvent::Disconnected("it has ended".into()))
            .expect("the receiver lives");
        assert!(screen.handle_events(&events));
        assert!(screen.view.alarm && screen.history.last.is_some());
        let _ = sender.send(DaemonEvent::Snapshot(Box::new(example::snapshot())));
        assert!(screen.handle_events(&events));
        assert_eq!((screen.view.alarm, &screen.view.message), (false, &None));
    }
}
