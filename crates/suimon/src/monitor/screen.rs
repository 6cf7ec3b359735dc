//! The screen: a header, the graph, the class table, the state of the selected class, the keys; or
//! the help.
//! Parts that do not fit are left out in this order: the state, the graph, columns by rank.

use super::bands::{Bands, COLOURS, letter};
use super::listed::{ListOrder, listed};
use super::samples::{History, LeafSample, LeafSamples};
use control::readout;
use control::snapshot::{ClassView, InterfaceView, State};
use measure::numbers;
use plot::text;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Clear, Paragraph, Row, Table, TableState, Wrap};

const WRAPPED: Wrap = Wrap { trim: true };

/// What the user has selected.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ScreenView {
    /// The interface, by its index in the list.
    pub interface: usize,
    /// The class, by its index in the policy's order.
    pub class: usize,
    /// The order of the list.
    pub order: ListOrder,
    /// What the names of listed classes have.
    pub search: String,
    /// What the graph shows.
    pub graph: Graphed,
    /// What is being typed.
    pub typing: Option<Typing>,
    /// Whether the keys are explained.
    pub help: bool,
    /// Whether the screen is paused.
    pub paused: bool,
    /// A question to confirm with y or n: enable (true) or disable (false).
    pub confirming: Option<bool>,
    /// A message: a reply, or that the daemon has ended.
    pub message: Option<String>,
    /// Whether the message is an alert.
    pub alarm: bool,
    /// Whether to use colours.
    pub colour: bool,
}

/// What the graph shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Graphed {
    /// The bandwidth of all classes, stacked.
    #[default]
    Bandwidth,
    /// The delay of the selected class.
    Delay,
}

/// What is being typed, so far.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Typing {
    /// What is searched for stands in [`ScreenView::search`].
    Search,
    /// Another rate.
    Rate(String),
}

/// The keys, with what they do.
const KEYS: [(&str, &str); 12] = [
    ("↑ ↓", "choose a class; its state is shown below the table"),
    ("tab", "the next interface"),
    (
        "/",
        "list only classes whose names have what you type; enter keeps that, esc ends it",
    ),
    (
        "s",
        "order by: the policy, measured rate, delay (p99), backlog, drops",
    ),
    (
        "g",
        "graph: the bandwidth of all classes, or the delay of the chosen class (p99)",
    ),
    ("r", "change the rate of the chosen class, in the running policy"),
    ("e", "enable: apply the policy again"),
    ("d", "disable: let packets pass unmanaged"),
    ("p", "pause, and go on"),
    ("?", "this help"),
    ("esc", "end a search; without one, quit"),
    ("q", "quit"),
];

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, history: &History, view: &ScreenView) {
    let area = frame.area();
    let Some(interface) = history.interface(view.interface) else {
        let text = view
            .message
            .as_deref()
            .unwrap_or("waiting for the first interval…");
        frame.render_widget(Paragraph::new(text).wrap(WRAPPED), area);
        return;
    };
    if view.help {
        return draw_help(frame, area);
    }
    let listed = listed(interface, &view.search, view.order);
    let classes = u16::try_from(listed.len()).unwrap_or(u16::MAX).max(1);
    let state = if area.height >= 24 { 5 } else { 0 };
    let table = classes
        .saturating_add(1)
        .min(area.height.saturating_sub(2 + state));
    // A graph of fewer than four lines shows nothing: list more classes instead.
    let rest = area.height.saturating_sub(2 + state + table);
    let (graph, table) = if rest >= 5 {
        (rest, table)
    } else if area.height >= 16 {
        (area.height * 2 / 5, area.height - area.height * 2 / 5 - 2 - state)
    } else {
        (0, area.height.saturating_sub(2 + state))
    };
    let parts = [1, graph, table, state, 1].map(Constraint::Length);
    let [head, graph, table, state, foot] = Layout::vertical(parts).areas(area);
    draw_head(frame, head, history, interface, view);
    if graph.height > 0 {
        draw_graph(frame, graph, history, interface, view);
    }
    draw_classes(frame, table, interface, &listed, view);
    if state.height > 0 {
        draw_state(frame, state, interface, view);
    }
    draw_foot(frame, foot, view);
}

fn plain_or(style: Style, colour: bool) -> Style {
    if colour { style } else { Style::new() }
}

fn draw_head(
    frame: &mut Frame<'_>,
    area: Rect,
    history: &History,
    interface: &InterfaceView,
    view: &ScreenView,
) {
    let snapshot = history.last.as_ref();
    let count = snapshot.map_or(1, |s| s.interfaces.len());
    let which = if count > 1 {
        format!(" ({}/{count})", view.interface % count + 1)
    } else {
        String::new()
    };
    let used = interface.traffic.got_bps.unwrap_or(0);
    let share = readout::part(used, interface.bandwidth_bps);
    let state = match interface.state {
        State::Enabled => plain_or(Style::new().fg(Color::Green), view.colour),
        _ => plain_or(Style::new().fg(Color::Red), view.colour).add_modifier(Modifier::BOLD),
    };
    let mut spans = vec![
        Span::raw(format!("{}  ", snapshot.map_or("", |s| s.policy.as_str()))),
        Span::styled(format!("{}{which}  ", interface.name), Modifier::BOLD),
        Span::styled(interface.state.name(), state),
        Span::raw(format!(
            "  {} of {} ({})  {}",
            numbers::rate(used),
            numbers::rate(interface.bandwidth_bps),
            numbers::share(share),
            interface.discipline,
        )),
    ];
    if let Some(error) = &interface.error {
        spans.push(Span::styled(format!("  {error}"), state));
    }
    let frames = readout::frames(&interface.frames);
    if !frames.is_empty() {
        spans.push(Span::styled(format!("  {frames}"), Modifier::BOLD));
    }
    let hold_ups = readout::hold_ups(interface);
    if !hold_ups.is_empty() {
        spans.push(Span::raw(format!("  held up {hold_ups}")));
    }
    if view.paused {
        spans.push(Span::styled("  paused", Modifier::REVERSED));
    }
    frame.render_widget(Line::from(spans), area);
}

fn leaves(interface: &InterfaceView) -> Vec<&str> {
    if interface.classes.is_empty() {
        return vec![&interface.name];
    }
    let leaves = interface.classes.iter().filter(|class| class.leaf);
    leaves.map(|class| class.name.as_str()).collect()
}

fn draw_graph(
    frame: &mut Frame<'_>,
    area: Rect,
    history: &History,
    interface: &InterfaceView,
    view: &ScreenView,
) {
    let interval = history.last.as_ref().and_then(|s| s.interval_ns).unwrap_or(0);
    let names = leaves(interface);
    let chosen = interface
        .classes
        .get(view.class)
        .map_or(&interface.name, |class| &class.name);
    let of = |number: fn(&LeafSample) -> u64, names: &[&str]| -> Vec<Vec<u64>> {
        let samples = history.samples(&interface.name).rev().take(area.width.into());
        let column = |name: &&str, sample: &LeafSamples| sample.get(*name).map_or(0, number);
        samples
            .map(|sample| names.iter().map(|name| column(name, sample)).collect())
            .collect()
    };
    let (columns, top, what) = match view.graph {
        Graphed::Bandwidth => (
            of(|sample| sample.rate, &names),
            interface.bandwidth_bps,
            "bandwidth by class".to_owned(),
        ),
        Graphed::Delay => {
            let columns = of(|sample| sample.delay, &[chosen.as_str()]);
            // The scale is that of what is shown.
            let top = columns.iter().flatten().copied().max().unwrap_or(0).max(1_000);
            (columns, top, format!("delay of {chosen}, 99 of 100 packets"))
        }
    };
    let label = match view.graph {
        Graphed::Bandwidth => numbers::rate,
        Graphed::Delay => numbers::time,
    };
    let title = format!(" {what}, {} a column ", numbers::time(interval));
    let block = Block::new().borders(Borders::TOP).title(title);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let [scale, graph] = Layout::horizontal([Constraint::Length(11), Constraint::Min(1)]).areas(inner);
    let mut labels = vec![Line::default(); usize::from(scale.height)];
    let lines = labels.len();
    for (row, rate) in [(0, top), (lines / 2, top / 2), (lines.saturating_sub(1), 0)] {
        if let Some(line) = labels.get_mut(row) {
            *line = Line::from(label(rate)).right_aligned();
        }
    }
    let [labels_area, _] = Layout::horizontal([Constraint::Length(10), Constraint::Length(1)]).areas(scale);
    frame.render_widget(Paragraph::new(labels), labels_area);
    let bands = Bands {
        columns: &columns,
        top,
        colour: view.colour,
    };
    frame.render_widget(bands, graph);
}

/// The columns after the name: title, width, rank. Where not all fit, the highest ranks are left
/// out.
const COLUMNS: [(&str, u16, u8); 11] = [
    ("offered", 12, 10),
    ("measured", 12, 0),
    ("configured", 12, 1),
    ("of configured", 22, 4),
    ("backlog", 8, 2),
    ("p50", 9, 6),
    ("p99", 9, 3),
    ("dropped", 9, 5),
    ("marked", 8, 7),
    ("borrowed", 10, 9),
    ("quota", 7, 8),
];

/// The columns that fit beside names of this width.
fn columns(width: u16, name: u16) -> Vec<usize> {
    let mut by_rank: Vec<usize> = (0..COLUMNS.len()).collect();
    by_rank.sort_by_key(|&i| COLUMNS[i].2);
    let mut left = width.saturating_sub(name);
    let fits = by_rank.into_iter().take_while(|&i| {
        let fits = COLUMNS[i].1 < left;
        left = left.saturating_sub(COLUMNS[i].1 + 1);
        fits
    });
    let mut shown: Vec<usize> = fits.collect();
    shown.sort_unstable();
    shown
}

fn draw_classes(
    frame: &mut Frame<'_>,
    area: Rect,
    interface: &InterfaceView,
    listed: &[usize],
    view: &ScreenView,
) {
    let name_width = |class: &ClassView| class.name.chars().count() + 3 * class.depth + 5;
    let name_width = interface.classes.iter().map(name_width).max().unwrap_or(0);
    let name_width = u16::try_from(name_width).unwrap_or(u16::MAX).clamp(12, 40);
    let shown = columns(area.width, name_width);
    let all = listed.len() == interface.classes.len();
    let depths: Vec<usize> = interface.classes.iter().map(|class| class.depth).collect();
    // Only of the whole tree are there branches.
    let branches = if all && view.order == ListOrder::Policy {
        text::branches(&depths).collect()
    } else {
        Vec::new()
    };
    let names = leaves(interface);
    let rows = listed.iter().enumerate().map(|(row, &listed)| {
        let class = &interface.classes[listed];
        let branch = branches.get(row).map_or("", |branch| branch.as_str());
        let index = names.iter().position(|name| class.leaf && *name == class.name);
        let mark = match index {
            Some(index) if view.colour => Span::styled("█ ", COLOURS[index % COLOURS.len()]),
            Some(index) => Span::raw(format!("{} ", letter(index))),
            None => Span::raw("  "),
        };
        let name = Line::from(vec![mark, Span::raw(branch), Span::raw(class.name.as_str())]);
        let cells = shown.iter().map(|&column| cell(class, column));
        Row::new(std::iter::once(name).chain(cells))
    });
    let title = |i: &usize| match COLUMNS[*i].0 {
        "of configured" => Line::from("of configured"),
        by if view.order.column() == Some(by) => Line::from(format!("{by} ↓")).right_aligned(),
        other => Line::from(other).right_aligned(),
    };
    let header = Row::new(std::iter::once(Line::from("class")).chain(shown.iter().map(title)));
    let header = header.style(Style::new().add_modifier(Modifier::UNDERLINED));
    let widths = std::iter::once(Constraint::Min(name_width))
        .chain(shown.iter().map(|&i| Constraint::Length(COLUMNS[i].1)));
    let chosen = Style::new().add_modifier(Modifier::REVERSED);
    let table = Table::new(rows, widths)
        .header(header)
        .row_highlight_style(chosen);
    let mut state = TableState::new();
    state.select(listed.iter().position(|&class| class == view.class));
    frame.render_stateful_widget(table, area, &mut state);
}

fn cell(class: &ClassView, column: usize) -> Line<'static> {
    let traffic = &class.traffic;
    let or_nothing = |n: u64, shown: String| if n == 0 { String::new() } else { shown };
    let delay = |choose: fn(&control::snapshot::Delay) -> u64| {
        let delay = traffic.delay.as_ref().map(choose);
        delay.map(numbers::time).unwrap_or_default()
    };
    let text = match COLUMNS[column].0 {
        "offered" => traffic.offered_bps.map(numbers::rate).unwrap_or_default(),
        "measured" => traffic.got_bps.map(numbers::rate).unwrap_or_default(),
        "configured" => class.asked_bps.map(numbers::rate).unwrap_or_default(),
        "of configured" => return Line::from(bar(traffic.got_bps, class.asked_bps)),
        "backlog" => numbers::count(traffic.backlog_packets),
        "p50" => delay(|delay| delay.p50_ns),
        "p99" => delay(|delay| delay.p99_ns),
        "dropped" => or_nothing(traffic.dropped_packets, numbers::count(traffic.dropped_packets)),
        "marked" => or_nothing(traffic.marked_packets, numbers::count(traffic.marked_packets)),
        "quota" => readout::quota_share(class),
        _ => readout::borrowed(class),
    };
    Line::from(text).right_aligned()
}

/// The measured rate as a part of the configured one. A full bar is 100 %, an arrow means more.
fn bar(measured: Option<u64>, configured: Option<u64>) -> String {
    const WIDTH: usize = 14;
    let (Some(measured), Some(configured)) = (measured, configured.filter(|bps| *bps > 0)) else {
        return String::new();
    };
    let share = measured as f64 / configured as f64;
    let full = ((share * WIDTH as f64).round() as usize).min(WIDTH);
    let end = if share > 1.05 { "▶" } else { " " };
    format!(
        "{}{}{end} {:>3.0} %",
        "━".repeat(full),
        "·".repeat(WIDTH - full),
        share.min(9.99) * 100.0
    )
}

fn draw_state(frame: &mut Frame<'_>, area: Rect, interface: &InterfaceView, view: &ScreenView) {
    let class = interface
        .classes
        .get(view.class.min(interface.classes.len().saturating_sub(1)));
    let (name, kind, gauges) = match class {
        Some(class) => (&class.name, &class.discipline, &class.gauges),
        None => (&interface.name, &interface.discipline, &interface.gauges),
    };
    let block = Block::new()
        .borders(Borders::TOP)
        .title(format!(" {name} {kind} "));
    let drops = readout::drops(class.map_or(&interface.traffic, |class| &class.traffic));
    let mut parts: Vec<String> = if drops.is_empty() {
        Vec::new()
    } else {
        vec![format!("dropped: {drops}")]
    };
    let traffic = class.map_or(&interface.traffic, |class| &class.traffic);
    let experience = traffic.experience.as_ref().map(readout::experience);
    parts.extend(experience.filter(|told| !told.is_empty()));
    let quota = class.and_then(|class| class.quota.as_ref()).map(readout::quota);
    parts.extend(quota.map(|told| format!("quota: {told}")));
    let autorate = interface.autorate.as_ref().map(readout::autorate);
    parts.extend(autorate.map(|told| format!("autorate: {told}")));
    let of_all = interface
        .gauges
        .iter()
        .filter(|_| class.is_some() && readout::is_paced(interface));
    parts.extend(
        gauges
            .iter()
            .chain(of_all)
            .map(|gauge| format!("{} {}", gauge.name, readout::gauge(gauge))),
    );
    let text = Paragraph::new(parts.join("   ")).wrap(WRAPPED);
    frame.render_widget(text.block(block), area);
}

fn draw_foot(frame: &mut Frame<'_>, area: Rect, view: &ScreenView) {
    const KEYS: &str =
        " q quit  ? help  ↑↓ class  / search  s sort  g graph  r rate  tab interface  p pause ";
    if let Some(typing) = &view.typing {
        let text = match typing {
            Typing::Search => format!(" class: {}▏  enter keep  esc end ", view.search),
            Typing::Rate(rate) => format!(" new rate: {rate}▏  enter set  esc leave "),
        };
        let style = Style::new().add_modifier(Modifier::BOLD | Modifier::REVERSED);
        return frame.render_widget(Line::styled(text, style), area);
    }
    let (text, style) = match (&view.confirming, &view.message) {
        (Some(on), _) => {
            let what = if *on {
                "apply the policy again"
            } else {
                "let packets pass unmanaged"
            };
            (
                format!(" {what}?  y yes  n no "),
                Style::new().add_modifier(Modifier::BOLD | Modifier::REVERSED),
            )
        }
        (None, Some(message)) if view.alarm => {
            let style = plain_or(Style::new().bg(Color::Red).fg(Color::White), view.colour);
            (
                message_line(message, area.width),
                style.add_modifier(Modifier::BOLD),
            )
        }
        (None, Some(message)) => (message_line(message, area.width), Style::new()),
        (None, None) if !view.search.is_empty() => (
            format!(" classes with {:?}  esc all  q quit  ? help ", view.search),
            Style::new(),
        ),
        (None, None) => (KEYS.into(), Style::new().add_modifier(Modifier::DIM)),
    };
    frame.render_widget(Line::styled(text, style), area);
}

/// The keys, in place of the screen.
fn draw_help(frame: &mut Frame<'_>, area: Rect) {
    let key = |(key, what): &(&'static str, &'static str)| {
        let key = Span::styled(format!("  {key:<5}"), Modifier::BOLD);
        Line::from(vec![key, Span::raw(*what)])
    };
    let lines: Vec<Line<'_>> = KEYS.iter().map(key).collect();
    let block = Block::new()
        .borders(Borders::TOP)
        .title(" keys; any of them goes back ");
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines).wrap(WRAPPED).block(block), area);
}

/// A message and the key to quit. If there is no room for both, the message is truncated.
fn message_line(message: &str, width: u16) -> String {
    const QUIT_HINT: &str = " · q quit ";
    let room = usize::from(width).saturating_sub(QUIT_HINT.chars().count() + 1);
    if message.chars().count() <= room {
        return format!(" {message}{QUIT_HINT}");
    }
    let start: String = message.chars().take(room.saturating_sub(1)).collect();
    format!(" {start}…{QUIT_HINT}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::example;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn shown(width: u16, height: u16, samples: usize, view: &ScreenView) -> String {
        let mut history = History::default();
        (0..samples).for_each(|_| history.add(example::snapshot()));
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal in memory");
        terminal.draw(|frame| draw(frame, &history, view)).expect("drawn");
        terminal.backend().to_string()
    }

    #[test]
    fn a_normal_screen_has_the_graph_all_classes_and_the_keys() {
        let screen = shown(100, 30, 50, &ScreenView::default());
        for word in [
            "wan0  enabled  19 Mbit/s of 20 Mbit/s (95 %)  cbq",
            "bandwidth by class, 1 s a column",
            "│  └─ work",
            "14 Mbit/s",
            "━━━━━━━━━━━━━━  100 %",
            "9.5 ms",
            "dropped: 3 early, 12 full",
            "q quit",
        ] {
            assert!(screen.contains(word), "{word} is missing in\n{screen}");
        }
        // voice, work and rest, from the bottom up, fill 19/20 of the graph's right half.
        let graph: Vec<&str> = screen.lines().filter(|line| line.contains("bbbbbbbb")).collect();
        assert!(graph.len() >= 8, "\n{screen}");
    }

    #[test]
    fn the_chosen_class_shows_its_state() {
        let view = ScreenView {
            class: 2,
            ..ScreenView::default()
        };
        assert!(shown(100, 30, 1, &view).contains("average 12.5"));
    }

    #[test]
    fn a_small_screen_keeps_classes_and_keys_and_no_size_panics() {
        let screen = shown(40, 8, 5, &ScreenView::default());
        assert!(
            screen.contains("voice") && screen.contains("1 Mbit/s") && screen.contains("q quit"),
            "\n{screen}"
        );
        assert!(screen.contains("wan0  enabled"), "\n{screen}");
        for width in [1, 2, 11, 12, 30, 60, 200] {
            for height in [1, 2, 3, 6, 12, 16, 17, 24, 80] {
                let _ = shown(width, height, 300, &ScreenView::default());
            }
        }
    }

    #[test]
    fn a_search_and_an_order_list_what_they_say() {
        let view = ScreenView {
            class: 2,
            order: ListOrder::Measured,
            ..ScreenView::default()
        };
        let screen = shown(100, 30, 1, &view);
        let at = |word: &str| {
            screen
                .lines()
                .position(|line| line.contains(word))
                .expect("a line")
        };
        assert!(
            at("work  ") < at("rest  ") && at("rest  ") < at("voice  "),
            "\n{screen}"
        );
        // The parent is the sum of others: it has 16 Mbit/s.
        assert!(
            screen.contains("measured ↓") && !screen.contains("16 Mbit/s"),
            "\n{screen}"
        );
        assert!(
            screen.contains("average 12.5"),
            "the chosen class stays: {screen}"
        );
        let view = ScreenView {
            search: "VOI".into(),
            typing: Some(Typing::Search),
            ..ScreenView::default()
        };
        let screen = shown(100, 30, 1, &view);
        assert!(screen.contains("voice") && !screen.contains("rest"), "\n{screen}");
        assert!(screen.contains("class: VOI▏  enter keep  esc end"), "\n{screen}");
    }

    #[test]
    fn the_graph_shows_the_delay_of_the_chosen_class() {
        let view = ScreenView {
            class: 2,
            graph: Graphed::Delay,
            ..ScreenView::default()
        };
        let screen = shown(100, 30, 50, &view);
        assert!(
            screen.contains("delay of work, 99 of 100 packets, 1 s a column"),
            "\n{screen}"
        );
        // Its scale is its own: all samples are the same, so they fill it.
        let p99 = example::snapshot().interfaces[0].classes[2]
            .traffic
            .delay
            .expect("one")
            .p99_ns;
        let line = |word: &str| screen.lines().find(|line| line.contains(word)).map(str::to_owned);
        let highest = line("aaaaaaaa").expect("a graph");
        assert!(highest.contains(&numbers::time(p99)), "\n{screen}");
    }

    #[test]
    fn the_help_names_every_key_of_the_foot() {
        let view = ScreenView {
            help: true,
            ..ScreenView::default()
        };
        let help = shown(100, 30, 1, &view);
        for (key, what) in KEYS {
            assert!(
                help.contains(&format!("{key:<5}{what}")),
                "{key} is missing in\n{help}"
            );
        }
        let screen = shown(100, 30, 1, &ScreenView::default());
        for key in [
            "q quit",
            "? help",
            "/ search",
            "s sort",
            "g graph",
            "r rate",
            "tab interface",
        ] {
            assert!(screen.contains(key), "{key} is missing in\n{screen}");
            let name = key.split(' ').next().expect("a key");
            assert!(
                KEYS.iter().any(|(key, _)| *key == name),
                "{name} is not explained"
            );
        }
    }

    #[test]
    fn the_daemons_end_is_shown_and_the_last_screen_stays() {
        let view = ScreenView {
            message: Some("the suimon at /run/x has ended".into()),
            alarm: true,
            ..ScreenView::default()
        };
        let screen = shown(100, 30, 5, &view);
        assert!(
            screen.contains("has ended · q quit") && screen.contains("voice"),
            "\n{screen}"
        );
        assert!(shown(100, 30, 0, &view).contains("has ended"));
        let narrow = shown(30, 12, 5, &view);
        assert!(narrow.contains("the suimon at /run… · q quit"), "\n{narrow}");
    }

    #[test]
    fn switching_needs_confirmation() {
        let view = ScreenView {
            confirming: Some(false),
            ..ScreenView::default()
        };
        assert!(shown(100, 30, 1, &view).contains("let packets pass unmanaged?  y yes  n no"));
    }
}
