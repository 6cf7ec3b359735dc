//! `suimon nine top`: the commands under nine, their connections, their limits and the reasons.
//!
//! On a terminal it polls the leading nine; otherwise it prints the status once.

use super::nine::{directory, make_directory, setting_directories};
use crate::commands::Context;
use crate::exit::{Exit, Failure};
use crate::screen;
use clap::Args;
use control::protocol::printable;
use host::coordinate::Rendezvous;
use host::coordinate::message::{ConnectionStatus, InterfaceStatus, MemberStatus, NineStatus, ProgramTotals};
use measure::numbers;
use plot::colour;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Wrap};
use std::io::{self, IsTerminal};
use std::time::Duration;

/// The refresh interval of the screen.
const INTERVAL: Duration = Duration::from_millis(500);

/// Watch the commands under nine: connections, windows, rates, limits and reasons
#[derive(Debug, Args)]
#[command(hide = true)]
pub struct NineTop {
    /// Once, as JSON
    #[arg(long)]
    json: bool,
    /// Once, as text, even on a terminal
    #[arg(long, conflicts_with = "json")]
    plain: bool,
}

impl NineTop {
    /// Shows the status until the user quits.
    ///
    /// # Errors
    ///
    /// If the leading nine does not respond, or the terminal fails.
    pub fn run(&self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        let out = &mut *cx.out;
        if directory().exists() {
            // In one of another user, that user's program would answer.
            make_directory(&directory())?;
        }
        let rendezvous = Rendezvous::new(&directory(), setting_directories());
        let query = || {
            let answer = rendezvous.status();
            let status = answer.map_err(|e| Failure::at_run_time(format!("cannot query the nines: {e}")))?;
            Ok::<_, Failure>(status.unwrap_or_default())
        };
        if self.json {
            let text = serde_json::to_string(&query()?).map_err(io::Error::from)?;
            writeln!(out, "{text}")?;
            return Ok(Exit::Done);
        }
        if self.plain || !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            for line in lines(&query()?) {
                writeln!(out, "{}", line.text)?;
            }
            return Ok(Exit::Done);
        }
        let mut terminal = screen::take_over()?;
        let watched = watch(&mut terminal, &query);
        ratatui::try_restore()?;
        watched
    }
}

fn watch(
    terminal: &mut ratatui::DefaultTerminal,
    query: &dyn Fn() -> Result<NineStatus, Failure>,
) -> Result<Exit, Failure> {
    let colours = colour::wanted(&io::stdout());
    loop {
        let status = query()?;
        terminal.draw(|frame| draw(frame, &status, colours))?;
        if event::poll(INTERVAL)?
            && let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
        {
            let interrupted = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
            if interrupted || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
                return Ok(Exit::Done);
            }
        }
    }
}

fn draw(frame: &mut Frame<'_>, status: &NineStatus, colours: bool) {
    let styled = |line: StyledLine| {
        let style = match line.kind {
            Kind::Plain => Style::new(),
            Kind::Member => Style::new().add_modifier(Modifier::BOLD),
            Kind::Limited if colours => Style::new().fg(Color::Yellow),
            Kind::Uncontrolled if colours => Style::new().fg(Color::Red),
            Kind::Limited | Kind::Uncontrolled => Style::new(),
        };
        Line::styled(line.text, style)
    };
    let mut all: Vec<Line<'_>> = lines(status).into_iter().map(styled).collect();
    all.push(Line::styled("q ends", Modifier::DIM));
    frame.render_widget(Paragraph::new(all).wrap(Wrap { trim: false }), frame.area());
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Plain,
    Member,
    Limited,
    Uncontrolled,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct StyledLine {
    kind: Kind,
    text: String,
}

/// The status as lines.
fn lines(status: &NineStatus) -> Vec<StyledLine> {
    // Commands are named as their users please.
    let line = |kind, text: String| StyledLine {
        kind,
        text: printable(&text),
    };
    if status.members.is_empty() {
        return vec![line(
            Kind::Plain,
            "no command runs under nine; start one with `nine -- CMD`".into(),
        )];
    }
    let mut lines = Vec::new();
    for interface in &status.interfaces {
        let text = format!(
            "{}: {} in, {} out; bottlenet {}{}",
            interface.name,
            numbers::rate(interface.down_bps),
            numbers::rate(interface.up_bps),
            interface.bottlenet,
            law_rates(interface),
        );
        lines.push(line(Kind::Plain, text));
    }
    lines.push(line(Kind::Plain, HEAD.into()));
    for member in &status.members {
        lines.push(line(Kind::Member, head(member)));
        for connection in &member.connections {
            let kind = if connection.limit == "free" {
                Kind::Plain
            } else {
                Kind::Limited
            };
            lines.push(line(kind, connection_line(connection)));
        }
        for total in &member.programs {
            lines.push(line(Kind::Plain, total_line(total)));
        }
        for one in &member.not_controlled {
            let (kind, how) = match one.policed_bps {
                Some(bps) => (Kind::Limited, format!("at most {}", numbers::rate(bps))),
                None => (Kind::Uncontrolled, "not controlled".into()),
            };
            let text = format!("  {:>7}  {}: {how}: {}", one.pid, one.what, one.why);
            lines.push(line(kind, text));
        }
    }
    lines
}

/// The columns, as [`connection_line`] fills them.
const HEAD: &str = "      PID  PROGRAM      REMOTE                                IN            OUT              RTT  LIMIT            WHY";

/// What a program has carried, in the columns of a connection.
fn total_line(total: &ProgramTotals) -> String {
    let bytes = |bytes: u64| engine::units::Bytes::new(bytes).to_string();
    format!(
        "  {:>7}  {:<12} {:<28} {:>11} in {:>11} out",
        "total",
        total.program,
        format!("{} connections", total.connections),
        bytes(total.received_bytes),
        bytes(total.sent_bytes),
    )
}

/// The link rates that the law uses.
fn law_rates(interface: &InterfaceStatus) -> String {
    let links = [(interface.link_down_bps, "in"), (interface.link_up_bps, "out")];
    let rates: Vec<String> = links
        .iter()
        .filter_map(|(rate, direction)| Some(format!("{} {direction}", numbers::rate((*rate)?))))
        .collect();
    match rates.is_empty() {
        true => ", link rate unknown so far".into(),
        false => format!(", link rate {}", rates.join(", ")),
    }
}

fn head(member: &MemberStatus) -> String {
    let profile = &member.profile;
    let rate = |bps: Option<u64>| bps.map(numbers::rate);
    let mut settings = vec![format!("weight {}", profile.weight)];
    settings.extend(rate(profile.cap_bps).map(|cap| format!("cap {cap}")));
    settings.extend(rate(profile.floor_bps).map(|floor| format!("floor {floor}")));
    if let Some(window) = profile.window {
        settings = vec![format!("window {window} B while the link is full")];
    }
    let down: u64 = member.connections.iter().map(|c| c.down_bps).sum();
    let up: u64 = member.connections.iter().map(|c| c.up_bps).sum();
    format!(
        "{}  ({}; {} in, {} out)",
        profile.command,
        settings.join(", "),
        numbers::rate(down),
        numbers::rate(up)
    )
}

fn connection_line(connection: &ConnectionStatus) -> String {
    let rtt = connection.rtt_ms.map_or("-".into(), |ms| format!("{ms:.0} ms"));
    format!(
        "  {:>7}  {:<12} {:<28} {:>11} in {:>11} out  rtt {:>7}  {:<16} {}",
        connection.pid,
        connection.program,
        connection.remote.to_string(),
        numbers::rate(connection.down_bps),
        numbers::rate(connection.up_bps),
        rtt,
        connection.limit,
        connection.why,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::bottlenet::BottlenetSetting;
    use host::coordinate::message::{MemberProfile, UncontrolledStatus};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn status() -> NineStatus {
        let end = |text: &str| text.parse().expect("an address");
        let connection = ConnectionStatus {
            pid: 812,
            program: "curl".into(),
            interface: Some("eth0".into()),
            local: end("192.0.2.7:40000"),
            remote: end("198.51.100.1:443"),
            window_bytes: 5_792,
            rtt_ms: Some(21.4),
            down_bps: 400_000,
            up_bps: 8_000,
            limit: "window 5792 B".into(),
            why: "yields to 9.15 Mbit/s of other traffic".into(),
        };
        NineStatus {
            at_ns: 1,
            interfaces: vec![InterfaceStatus {
                name: "eth0".into(),
                bottlenet: BottlenetSetting::Auto,
                link_down_bps: Some(10_020_000),
                link_up_bps: None,
                down_bps: 9_550_000,
                up_bps: 200_000,
            }],
            members: vec![MemberStatus {
                profile: MemberProfile {
                    pid: 810,
                    command: "curl -O https://example.org/large".into(),
                    weight: 2,
                    cap_bps: Some(5_000_000),
                    floor_bps: None,
                    window: None,
                    chosen: false,
                },
                connections: vec![connection],
                programs: vec![ProgramTotals {
                    program: "curl".into(),
                    connections: 3,
                    received_bytes: 12_345_678,
                    sent_bytes: 90_000,
                }],
                not_controlled: vec![UncontrolledStatus {
                    pid: 812,
                    what: "UDP to 198.51.100.1:443".into(),
                    why: "no window".into(),
                    policed_bps: None,
                }],
            }],
        }
    }

    #[test]
    fn the_screen_shows_limits_and_reasons() {
        let mut terminal = Terminal::new(TestBackend::new(160, 12)).expect("a screen");
        terminal
            .draw(|frame| draw(frame, &status(), false))
            .expect("drawn");
        let screen = terminal.backend().to_string();
        for expected in [
            "eth0: 9.55 Mbit/s in",
            "link rate 10.0",
            "PID  PROGRAM",
            "3 connections",
            "weight 2, cap 5 Mbit/s",
            "198.51.100.1:443",
            "window 5792 B",
            "yields to 9.15 Mbit/s",
            "UDP to 198.51.100.1:443: not controlled: no window",
        ] {
            assert!(screen.contains(expected), "{expected} is missing in:\n{screen}");
        }
    }

    #[test]
    fn without_members_it_shows_how_to_start_one() {
        assert!(lines(&NineStatus::default())[0].text.contains("nine -- CMD"));
    }
}
