//! A fake suimon: serves invented traffic on the given socket, to try `suimon status` and
//! `suimon top` without a network.
//!
//! `cargo run -p control --example pretend -- POLICY SOCKET`

use control::policy::{InterfacePolicy, Policy};
use control::policy_text;
use control::protocol::{Amendment, Refusal, SettingChanges};
use control::provenance::Provenance;
use control::snapshot::{ClassReading, InterfaceReading, Reading, State};
use control::socket::{Handler, Server};
use engine::inspect::{Value, View};
use engine::packet::ClassId;
use engine::queue::{Count, Stats};
use engine::settings::Raw;
use engine::tree::Registry;
use engine::units::{Bytes, Duration, Instant};
use measure::delay::Delays;
use std::path::Path;
use std::sync::{Arc, Mutex};

struct Pretend {
    start: std::time::Instant,
    inner: Mutex<Inner>,
}

struct Inner {
    text: String,
    policy: Arc<InterfacePolicy>,
    on: bool,
    classes: Vec<ClassReading>,
    last: f64,
}

impl Inner {
    /// Invents the packets sent until now: the rate of each class is a sine of its own period.
    fn advance(&mut self, now: f64) {
        let link = self.policy.link().bandwidth.bits() as f64 / 8.0;
        let leaves = self
            .policy
            .plan
            .classes
            .iter()
            .filter(|info| info.leaf)
            .count()
            .max(1);
        while self.last + 0.01 < now {
            self.last += 0.01;
            for (index, class) in self.classes.iter_mut().enumerate() {
                let info = &self.policy.plan.classes[class.class.0 as usize];
                if !info.leaf {
                    continue;
                }
                let wave = (self.last / (3.0 + index as f64)).sin().mul_add(0.4, 0.6);
                let bytes = link / leaves as f64 * 0.01 * wave;
                class.sent.bytes += Bytes::new(bytes as u64);
                class.sent.packets += bytes as u64 / 1000 + 1;
                class
                    .delays
                    .record(Duration::from_micros((1000.0 * wave * (index + 1) as f64) as u64));
            }
        }
    }
}

impl Handler for Pretend {
    fn version(&self) -> String {
        "pretend".into()
    }

    fn read(&self) -> Result<Reading, Refusal> {
        let now = self.start.elapsed();
        let mut inner = self.inner.lock().map_err(|_| Refusal::new("broken"))?;
        inner.advance(now.as_secs_f64());
        let views = inner.classes.iter().enumerate().map(|(index, class)| {
            let backlog = Count {
                packets: 3 * index as u64,
                bytes: Bytes::new(4500 * index as u64),
            };
            let mut offered = class.sent;
            offered.packets += backlog.packets;
            offered.bytes += backlog.bytes;
            View {
                class: Some(class.class),
                kind: "fifo",
                stats: Stats {
                    offered,
                    sent: class.sent,
                    ..Stats::default()
                },
                gauges: vec![
                    ("state", Value::State("underlimit")),
                    ("borrowed", Value::Bytes(Bytes::new(class.sent.bytes.get() / 7))),
                ],
            }
        });
        let sent = Count {
            packets: inner.classes.iter().map(|class| class.sent.packets).sum(),
            bytes: inner.classes.iter().map(|class| class.sent.bytes).sum(),
        };
        let interface = InterfaceReading {
            state: if inner.on { State::Enabled } else { State::Disabled },
            totals: Stats {
                offered: sent,
                sent,
                ..Stats::default()
            },
            views: views.collect(),
            classes: inner.classes.clone(),
            ..InterfaceReading::of(Arc::clone(&inner.policy))
        };
        Ok(Reading {
            unconfined: Vec::new(),
            at: Instant::from_nanos(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)),
            policy: "pretend".into(),
            interfaces: vec![interface],
        })
    }

    fn switch(&self, _interface: Option<&str>, on: bool) -> Result<String, Refusal> {
        self.inner.lock().map_err(|_| Refusal::new("broken"))?.on = on;
        Ok(format!(
            "the policy is {}",
            if on { "enabled" } else { "disabled" }
        ))
    }

    fn policy_text(&self) -> Result<String, Refusal> {
        let inner = self.inner.lock().map_err(|_| Refusal::new("broken"))?;
        Ok(inner.text.clone())
    }

    fn detach(&self, _interface: Option<&str>) -> Result<String, Refusal> {
        Err(Refusal::new("there is nothing to detach from"))
    }

    fn set(&self, wanted: &SettingChanges, _by: Provenance) -> Result<String, Refusal> {
        let (class, changes) = (wanted.class.as_deref().unwrap_or(""), &wanted.changes);
        let mut inner = self.inner.lock().map_err(|_| Refusal::new("broken"))?;
        let changes: Vec<(&str, Raw)> = changes.iter().map(|(k, v)| (k.as_str(), v.raw())).collect();
        let changed = inner
            .policy
            .with_class_settings(&Registry::builtin(), class, &changes)?;
        inner.policy = Arc::new(changed);
        let set = Amendment::Set(wanted.clone());
        inner.text = policy_text::with(&inner.text, [&set]).map_err(Refusal::new)?;
        Ok(format!("class {class} is changed"))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(policy), Some(socket)) = (arguments.next(), arguments.next()) else {
        return Err("usage: pretend POLICY SOCKET".into());
    };
    let text = std::fs::read_to_string(&policy)?;
    let mut policy = Policy::read(&policy, &text, &Registry::builtin(), &[])?;
    let interface = policy.interfaces.remove(0);
    let classes = (0..interface.plan.classes.len()).map(|index| ClassReading {
        class: ClassId(u32::try_from(index).unwrap_or(0)),
        sent: Count::default(),
        short: Count::default(),
        delays: Delays::default(),
        held_up: None,
    });
    let inner = Inner {
        text,
        classes: classes.collect(),
        policy: Arc::new(interface),
        on: true,
        last: 0.0,
    };
    let handler = Arc::new(Pretend {
        start: std::time::Instant::now(),
        inner: Mutex::new(inner),
    });
    let _server = Server::start(Path::new(&socket), handler)?;
    loop {
        std::thread::park();
    }
}
