//! tc(8): what `tc -j qdisc show`, `tc -j class show` and `tc -j filter show` print, one behind the
//! other, and the commands `tc qdisc add …` of a script. Classes are read as text too: many
//! releases of tc print them so, also with `-j`.
//!
//! HTB becomes `hfsc`: a class's `rate` is its share, which is at least the rate where the rates of
//! a level fit, and its `ceil` is its upper limit.

mod commands;
mod filters;
mod json;
mod leaves;
mod objects;
mod trees;

use crate::draft::{DisciplineDraft, Draft, InterfaceDraft};
use crate::missing::Missing;
use crate::place::{ImportError, SourceFile};
use engine::units::Bandwidth;
use objects::{Objects, Qdisc};

/// Reads the file.
pub(crate) fn read(source: SourceFile<'_>, missing: &Missing) -> Result<Draft, ImportError> {
    let mut objects = commands::read(source.text)?;
    let mut draft = Draft::default();
    if let Some(at) = objects.unnamed {
        let given = missing.interfaces.first();
        let name = given.map_or("eth0", String::as_str);
        if given.is_none() {
            draft.lost(
                at,
                "`tc … show dev` names no interface: `eth0` is assumed; `--interface` names it",
            );
        }
        let unnamed = objects.qdiscs.iter_mut().filter(|qdisc| qdisc.device.is_empty());
        unnamed.for_each(|qdisc| qdisc.device = name.into());
    }
    for root in objects.qdiscs.iter().filter(|qdisc| qdisc.parent.is_none()) {
        device(root, &objects, missing, &mut draft)?;
    }
    Ok(draft)
}

fn device(root: &Qdisc, objects: &Objects, missing: &Missing, draft: &mut Draft) -> Result<(), ImportError> {
    let unlimited = || {
        missing.up.ok_or_else(|| {
            let message = format!(
                "`{}` has no rate of its own: give that of the link, `--up RATE`",
                root.kind
            );
            ImportError::new(root.at, message)
        })
    };
    let interface = match root.kind.as_str() {
        "noqueue" => return Ok(()),
        "ingress" | "clsact" => {
            draft.lost(
                root.at,
                format!(
                    "`{}` of {}: what filters do to packets that arrive",
                    root.kind, root.device
                ),
            );
            return Ok(());
        }
        "mq" | "mqprio" | "pfifo_fast" | "fq" | "taprio" | "etf" => {
            draft.lost(
                root.at,
                format!(
                    "`{}` of {}: no rate, and no classes of a policy",
                    root.kind, root.device
                ),
            );
            return Ok(());
        }
        "htb" => trees::htb(root, objects, draft)?,
        "hfsc" => trees::hfsc(root, objects, missing, draft)?,
        "prio" => trees::prio(root, objects, unlimited()?, draft)?,
        "cake" => {
            let rate = root.options.rate("bandwidth")?;
            let rate = rate.map_or_else(unlimited, Ok)?;
            let framing = leaves::cake_framing(root, draft)?;
            let mut discipline = leaves::cake(root, draft)?;
            if root.options.flag("ingress") {
                discipline = discipline.with("ingress", true);
            }
            InterfaceDraft {
                framing,
                nat: root.options.flag("nat"),
                ..InterfaceDraft::new(&root.device, rate, discipline, root.at)
            }
        }
        "tbf" => {
            let rate = root
                .options
                .rate("rate")?
                .ok_or_else(|| ImportError::new(root.at, "`rate` is missing"))?;
            let discipline = leaves::queue(root, objects, draft)?;
            plain(root, rate, discipline)
        }
        "netem" => {
            draft.lost(
                root.at,
                "`netem`: the delay and loss of a link are no policy; `suimon import netem` makes a link of it",
            );
            return Ok(());
        }
        _ => {
            let Some(discipline) = leaves::queue(root, objects, draft)? else {
                return Ok(());
            };
            plain(root, unlimited()?, Some(discipline))
        }
    };
    draft.attach("egress", &root.device);
    let mut interface = interface;
    filters::apply(root, objects, &mut interface, draft);
    draft.interfaces.push(interface);
    Ok(())
}

fn plain(root: &Qdisc, rate: Bandwidth, discipline: Option<DisciplineDraft>) -> InterfaceDraft {
    let discipline = discipline.unwrap_or_else(|| DisciplineDraft::of("fq_codel"));
    InterfaceDraft::new(&root.device, rate, discipline, root.at)
}
