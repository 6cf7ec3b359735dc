//! `suimon status`: configured and measured rate of every class, once or repeatedly (ALTQ's
//! cbqprobe).

use crate::commands::Context;
use crate::commands::target::Target;
use crate::exit::{Exit, Failure};
use clap::Args;
use control::quota::QuotaView;
use control::readout;
use control::snapshot::{
    ClassView, Delay, Gauge, InterfaceView, Snapshot, State, StatusDetail, Traffic, YIELDS,
};
use control::socket::{Client, snapshot};
use engine::units::Duration;
use measure::numbers;
use plot::text::{self, Align, LongTable};
use std::cmp::Reverse;
use std::io::{self, Write};

/// Show the configured and measured rate of every class of a running suimon
#[derive(Debug, Args)]
pub struct Status {
    #[command(flatten)]
    target: Target,
    /// The interval over which rates and delays are measured; 0 s shows only counters, at once
    #[arg(long, default_value = "1 s", value_name = "TIME")]
    interval: Duration,
    /// Repeat, with a table for every interval
    #[arg(long, short)]
    follow: bool,
    /// Also show the disciplines' own state
    #[arg(long, short)]
    verbose: bool,
}

impl Status {
    /// Queries the daemon and shows the status.
    pub fn run(&self, cx: &mut Context<'_>) -> Result<Exit, Failure> {
        // There may be a line for each of very many classes.
        let out = &mut io::BufWriter::with_capacity(64 << 10, &mut *cx.out);
        let mut client = Client::connect(self.target.socket.as_deref())?;
        let interval = std::time::Duration::from_nanos(self.interval.nanos());
        let detail = match self.verbose || self.target.json {
            true => StatusDetail::Full,
            false => StatusDetail::Brief,
        };
        let mut now = client.status_with(interval, self.follow, detail)?;
        loop {
            if self.target.json && self.follow {
                serde_json::to_writer(&mut *out, &now).map_err(io::Error::from)?;
                writeln!(out)?;
            } else if self.target.json {
                serde_json::to_writer_pretty(&mut *out, &now).map_err(io::Error::from)?;
                writeln!(out)?;
            } else {
                show(out, &now, self.verbose)?;
            }
            out.flush()?;
            if !self.follow {
                let ending = ending(&now);
                // The program ends: of very many classes nothing need be freed one by one.
                std::mem::forget(now);
                return Ok(ending);
            }
            now = snapshot(client.next_reply()?)?;
        }
    }
}

/// The exit code tells a script whether the policy is in force on every interface, and keeps what
/// it is expected to.
fn ending(now: &Snapshot) -> Exit {
    let enforced =
        |interface: &InterfaceView| interface.state == State::Enabled && interface.not_enforced.is_none();
    let as_expected = |interface: &InterfaceView| interface.expectations.iter().all(|of| of.met);
    match now.interfaces.iter().all(enforced) {
        false => Exit::Bypass,
        true if now.interfaces.iter().all(as_expected) => Exit::Done,
        true => Exit::Missed,
    }
}

/// What keeps it from working, or from having effect.
fn trouble(interface: &InterfaceView) -> String {
    match (&interface.error, &interface.not_enforced) {
        (Some(error), _) => format!(": {error}"),
        (None, Some(why)) if interface.state == State::Enabled => format!(", not enforced: {why}"),
        _ => String::new(),
    }
}

const COLUMNS: [(&str, Align); 12] = [
    ("class", Align::Left),
    ("configured", Align::Right),
    ("share", Align::Right),
    ("offered", Align::Right),
    ("measured", Align::Right),
    ("used", Align::Right),
    ("backlog", Align::Right),
    ("delay p50", Align::Right),
    ("p99", Align::Right),
    ("dropped", Align::Left),
    ("marked", Align::Right),
    ("borrowed", Align::Right),
];

/// The tables of all interfaces.
pub fn show(out: &mut dyn Write, now: &Snapshot, verbose: bool) -> io::Result<()> {
    let over = match now.interval_ns {
        Some(ns) => format!("rates and delays over {}", numbers::time(ns)),
        None => "counters and delays since the start".into(),
    };
    writeln!(out, "{}: {over}, lengths per {}", now.policy, now.basis)?;
    for lacking in &now.unconfined {
        writeln!(out, "not confined: {lacking}")?;
    }
    now.interfaces
        .iter()
        .try_for_each(|interface| show_interface(out, interface, verbose))
}

fn show_interface(out: &mut dyn Write, interface: &InterfaceView, verbose: bool) -> io::Result<()> {
    writeln!(
        out,
        "\n{}  {}  {}  {}{}",
        interface.name,
        numbers::rate(interface.bandwidth_bps),
        interface.discipline,
        interface.state.name(),
        trouble(interface),
    )?;
    let depths: Vec<usize> = interface.classes.iter().map(|class| class.depth).collect();
    let mut table = LongTable::new(COLUMNS, interface.classes.len() + 1);
    for (class, branch) in interface.classes.iter().zip(text::branches(&depths)) {
        add_class(&mut table, class, &branch, interface.bandwidth_bps);
    }
    table.cell(|cell| cell.push_str("all"));
    (0..2).for_each(|_| table.cell(|_| {}));
    add_traffic(&mut table, &interface.traffic, interface.bandwidth_bps);
    table.cell(|_| {});
    table.write(out)?;
    if let Some(of) = &interface.autorate {
        writeln!(out, "  autorate: {}", readout::autorate(of))?;
    }
    if let Some(of) = &interface.nat {
        writeln!(out, "  nat: {}", readout::nat(of))?;
    }
    show_quotas(out, interface, verbose)?;
    show_experience(out, interface, verbose)?;
    for of in &interface.expectations {
        let state = if of.met { "met" } else { "MISSED" };
        writeln!(out, "  {state:6}  {of}")?;
    }
    let frames = readout::frames(&interface.frames);
    if !frames.is_empty() {
        writeln!(out, "  frames: {frames}")?;
    }
    let hold_ups = readout::hold_ups(interface);
    if !hold_ups.is_empty() {
        writeln!(out, "  held up by the host: {hold_ups}")?;
    }
    // For a paced link, the precision of the departures matters most.
    if verbose || readout::is_paced(interface) {
        show_gauges(out, &interface.discipline, &interface.gauges)?;
    }
    // Likewise the connections of yielding classes.
    let yields = |class: &&ClassView| class.gauges.iter().any(|gauge| gauge.name == YIELDS);
    for class in interface.classes.iter().filter(|class| verbose || yields(class)) {
        show_gauges(out, &class.name, &class.gauges)?;
    }
    Ok(())
}

/// Quotas that are shown unless all are asked for.
const QUOTAS: usize = 10;

/// How quotas stand, those first of which the greatest part is used.
fn show_quotas(out: &mut dyn Write, interface: &InterfaceView, verbose: bool) -> io::Result<()> {
    let of = |class: &'_ ClassView| Some((class.name.clone(), class.quota.clone()?));
    let mut all: Vec<(String, QuotaView)> = interface.classes.iter().filter_map(of).collect();
    let share = |of: &QuotaView| u128::from(of.used_bytes) * 1_000_000 / u128::from(of.volume_bytes.max(1));
    all.sort_by_key(|(_, of)| Reverse(share(of)));
    let most = if verbose { usize::MAX } else { QUOTAS };
    for (name, of) in all.iter().take(most) {
        writeln!(out, "  {name}: quota {}", readout::quota(of))?;
    }
    match all.len().saturating_sub(most) {
        0 => Ok(()),
        more => writeln!(
            out,
            "  and {} quotas more: --verbose",
            numbers::count(more as u64)
        ),
    }
}

/// Hosts that are shown unless all are asked for.
const HOSTS: usize = 10;

/// What the connections of each class have, and of each host.
fn show_experience(out: &mut dyn Write, interface: &InterfaceView, verbose: bool) -> io::Result<()> {
    let classes = interface.classes.iter().filter(|class| class.leaf);
    let classes = classes.map(|class| (class.name.clone(), class.traffic.experience.as_ref()));
    let whole = ("all".to_owned(), interface.traffic.experience.as_ref());
    let most = if verbose { usize::MAX } else { HOSTS };
    let hosts = interface.hosts.iter().take(most);
    let hosts = hosts.map(|host| (host.address.to_string(), Some(&host.experience)));
    for (name, of) in classes.chain([whole]).chain(hosts) {
        let told = of.map(readout::experience).unwrap_or_default();
        if !told.is_empty() {
            writeln!(out, "  {name}: {told}")?;
        }
    }
    match interface.hosts.len().saturating_sub(most) {
        0 => Ok(()),
        more => writeln!(out, "  and {} hosts more: --verbose", numbers::count(more as u64)),
    }
}

type StatusTable = LongTable<{ COLUMNS.len() }>;

fn add_class(table: &mut StatusTable, class: &ClassView, branch: &str, link: u64) {
    table.cell(|cell| {
        cell.push_str(branch);
        cell.push_str(&class.name);
    });
    table.cell(|cell| some(cell, class.asked_bps, numbers::append_rate));
    // Of a brief status only the rates say it.
    let share = class.asked_bps.map(|bps| readout::part(bps, link));
    table.cell(|cell| some(cell, share, numbers::append_share));
    add_traffic(table, &class.traffic, link);
    table.cell(|cell| cell.push_str(&readout::borrowed(class)));
}

/// Appends what there is.
fn some<T>(cell: &mut String, value: Option<T>, append: impl FnOnce(&mut String, T)) {
    if let Some(value) = value {
        append(cell, value);
    }
}

fn add_traffic(table: &mut StatusTable, traffic: &Traffic, link: u64) {
    let used = traffic.got_bps.map(|bps| readout::part(bps, link));
    table.cell(|cell| some(cell, traffic.offered_bps, numbers::append_rate));
    table.cell(|cell| some(cell, traffic.got_bps, numbers::append_rate));
    table.cell(|cell| some(cell, used, numbers::append_share));
    table.cell(|cell| match traffic.backlog_packets {
        0 => cell.push('0'),
        n => {
            let (packets, bytes) = (numbers::count(n), numbers::bytes(traffic.backlog_bytes));
            cell.extend([&packets, " (", &bytes, ")"]);
        }
    });
    let delays = |of: fn(&Delay) -> u64| traffic.delay.as_ref().map(of);
    table.cell(|cell| some(cell, delays(|delay| delay.p50_ns), numbers::append_time));
    table.cell(|cell| some(cell, delays(|delay| delay.p99_ns), numbers::append_time));
    table.cell(|cell| cell.push_str(&readout::drops(traffic)));
    table.cell(|cell| match traffic.marked_packets {
        0 => {}
        n => cell.push_str(&numbers::count(n)),
    });
}

fn show_gauges(out: &mut dyn Write, name: &str, gauges: &[Gauge]) -> io::Result<()> {
    if gauges.is_empty() {
        return Ok(());
    }
    let all: Vec<String> = gauges
        .iter()
        .map(|gauge| format!("{} {}", gauge.name, readout::gauge(gauge)))
        .collect();
    writeln!(out, "  {name}: {}", all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::example;

    #[test]
    fn the_exit_code_shows_whether_the_policy_is_in_force_everywhere() {
        let mut now = example::snapshot();
        assert_eq!(ending(&now), Exit::Done);
        now.interfaces[0].state = State::Disabled;
        assert_eq!(ending(&now), Exit::Bypass);
    }

    #[test]
    fn every_class_is_shown_with_its_configured_and_measured_rate() {
        let mut out = Vec::new();
        show(&mut out, &example::snapshot(), true).expect("memory");
        let shown = String::from_utf8(out).expect("text");
        for word in [
            "office: rates and delays over 1 s, lengths per frame",
            "wan0  20 Mbit/s  cbq  enabled",
            "├─ office",
            "│  └─ work",
            "3 early, 12 full",
            "42 (63 kB)",
            "75 %",
            "9.5 ms",
            "work: average 12.5, borrowed 4.5 MB",
            "  work: quota 12.5 GB of 50 GB per month, which begins anew 202",
            "  frames: missed 12, memory exhausted 5 times",
            "  held up by the host: 3 times, longest 2.5 ms; 9 packets late by up to 2.5 ms, p99 without that 7.5 ms",
        ] {
            assert!(shown.contains(word), "{word} is missing in\n{shown}");
        }
    }
}
