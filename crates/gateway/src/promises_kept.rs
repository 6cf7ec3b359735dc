//! How the promises to reservations are kept, as gauges of their classes, by whatever discipline
//! they are served: the names are those of `ips`, which checks its own departures.

use engine::inspect::{Value, View};
use measure::promise::PromiseTally;
use netio::ClassMeter;

/// Adds them to the views of the classes that something is promised to. What a discipline tells
/// under the same name stays.
pub fn tell(classes: &[ClassMeter], views: &mut [View]) {
    for meter in classes {
        let Some(tally) = meter.promise else { continue };
        let view = views.iter_mut().find(|view| view.class == Some(meter.class));
        view.into_iter().for_each(|view| add(view, &tally));
    }
}

fn add(view: &mut View, tally: &PromiseTally) {
    let gauges = [
        ("bound", Value::Duration(engine::bounds::shown(tally.bound))),
        ("worst", Value::Duration(tally.worst)),
        ("late", Value::Count(tally.late)),
        ("held-up", Value::Count(tally.held_up)),
        ("exceeded", Value::Count(tally.exceeded)),
    ];
    let polices = view.gauges.iter().any(|(name, _)| *name == "policed");
    for (name, value) in gauges {
        let own = view.gauges.iter().any(|(other, _)| *other == name);
        // What exceeds is policed there.
        let told = own || (polices && name == "exceeded");
        if !told {
            view.gauges.push((name, value));
        }
    }
}
