//! `trace` of a link, in a scenario and in a topology: the file is read, or the model makes it, and
//! it takes the place of the link's `rate`.

use crate::folder::Files;
use control::sections::Section;
use engine::settings::{Entry, Problem, Raw, Table};
use engine::units::Bandwidth;
use measure::line_models::LineModel;
use measure::link_trace::LinkTrace;

/// Reads the trace that a link's table names. The table then has a `rate`: the trace's mean. None
/// without a trace, or after a mistake; what is no text is one that the settings report.
pub(crate) fn read(table: &mut Table, files: Files<'_>, problems: &mut Vec<Problem>) -> Option<LinkTrace> {
    let named = table.get("trace")?;
    let at = named.at;
    if let Some(rate) = table.get("rate") {
        let problem = Problem::new(
            rate.at,
            "a link with a `trace` has its rates: it has no `rate` besides",
        );
        problems.push(problem.help("leave out one of them"));
        return None;
    }
    let read = match &named.value {
        Raw::Text(path) => read_file(path, files)
            .map_err(|why| problems.push(Problem::new(at, why)))
            .ok(),
        _ => None,
    };
    // After a mistake any rate will do, or its lack would be reported besides.
    let mean = read.as_ref().map_or(Bandwidth::mbit(1), LinkTrace::mean);
    table.entries.push(Entry {
        key: "rate".into(),
        key_at: at,
        value: Raw::Text(mean.to_string()),
        at,
    });
    read
}

fn read_file(path: &str, files: Files<'_>) -> Result<LinkTrace, String> {
    if let Some(model) = LineModel::read(path) {
        return model
            .map(|model| model.trace())
            .map_err(|why| format!("`trace`: {why}"));
    }
    let text = files
        .text(path)
        .map_err(|why| format!("`trace`: cannot read `{path}`: {why}"))?;
    LinkTrace::read(&text).map_err(|why| format!("`trace`: {path}: {why}"))
}

/// The table of a link's way back: a `rate` of its own is in place of the link's `trace`, and the
/// other way round.
pub(crate) fn back(link: &Section<'_>, back: &Section<'_>, others: &[&str]) -> Table {
    let instead = [("rate", "trace"), ("trace", "rate")];
    let replaced = instead.iter().filter(|(own, _)| back.get(own).is_some());
    let mut but = others.to_vec();
    but.extend(replaced.map(|(_, other)| *other));
    link.overridden(back, &but)
}

#[cfg(test)]
mod tests {
    use crate::folder::{Files, Packets, Store};
    use crate::topology::Topology;
    use crate::{Scenario, Scenarios};
    use engine::tree::Registry;
    use engine::units::Bandwidth;

    /// Files by what they are called.
    struct Named;

    impl Store for Named {
        fn text(&self, path: &str) -> Result<String, String> {
            match path {
                "steps" => Ok("time,rate\n0 s,6 Mbit/s\n1 s,2 Mbit/s\n".into()),
                "mahi" => Ok("1\n2\n".into()),
                "broken" => Ok("1\n0\n".into()),
                _ => Err("there is no such file".into()),
            }
        }

        fn capture(&self, _path: &str) -> Result<Packets, String> {
            Err("no capture".into())
        }
    }

    const FILES: Files<'static> = &Named;

    fn scenario(link: &str) -> Result<Scenario, String> {
        let text = format!(
            "version = 1\nduration = \"10 s\"\n[[flow]]\nbetween = [\"a\", \"b\"]\nkind = \"tcp\"\n\
             [[link]]\nbetween = [\"a\", \"b\"]\n{link}\n"
        );
        let read = Scenarios::read("s.toml", &text, &Registry::builtin(), FILES);
        let scenario = read.and_then(|all| all.point(1, FILES));
        scenario.map_err(|diagnostics| diagnostics.to_string())
    }

    fn topology(link: &str) -> Result<Topology, String> {
        let text =
            format!("version = 1\nhosts = [\"a\", \"b\"]\n[[link]]\nbetween = [\"a\", \"b\"]\n{link}\n");
        let read = Topology::read("s.toml", &text, &Registry::builtin(), FILES);
        read.map_err(|diagnostics| diagnostics.to_string())
    }

    #[test]
    fn a_trace_is_the_rate_of_both_ways_and_a_way_back_may_have_its_own() {
        let one = Some(Bandwidth::mbit(4));
        for (link, back) in [
            ("trace = \"steps\"", [true, true]),
            ("trace = \"steps\"\nback = { rate = \"4 Mbit/s\" }", [true, false]),
            ("rate = \"4 Mbit/s\"\nback = { trace = \"steps\" }", [false, true]),
        ] {
            let read = scenario(link).expect(link);
            let ways = [&read.directions[0], &read.directions[1]];
            assert_eq!(ways.map(|way| way.trace.is_some()), back, "{link}");
            assert_eq!(ways.map(|way| Some(way.settings.rate)), [one; 2], "{link}");
            let read = topology(link).expect(link);
            assert_eq!(
                read.links[0].traces.each_ref().map(Option::is_some),
                back,
                "{link}"
            );
            assert_eq!(
                read.links[0].settings.each_ref().map(|way| way.rate),
                [one; 2],
                "{link}"
            );
        }
    }

    #[test]
    fn a_model_makes_the_trace_of_a_link() {
        let link = "trace = \"model train, seed 3\"\nback = { trace = \"model train, seed 3, at 20 %\" }";
        let read = scenario(link).expect(link);
        let [there, back] = [0, 1].map(|way| read.directions[way].settings.rate.bits());
        assert!(
            there > 15_000_000 && (back * 5).abs_diff(there) < there / 100,
            "{there}, {back}"
        );
        let read = topology(link).expect(link);
        assert!(read.links[0].traces.iter().all(Option::is_some));
    }

    #[test]
    fn a_trace_that_cannot_be_is_refused_in_scenarios_and_topologies() {
        for (link, why) in [
            ("trace = \"none\"", "cannot read `none`: there is no such file"),
            ("trace = \"broken\"", "broken: line 2: its time is before"),
            ("trace = 5", "expected a text in quotes"),
            ("trace = \"model 6g\"", "`trace`: there is no model `6g`"),
            ("trace = \"steps\"\nrate = \"1 Mbit/s\"", "has no `rate` besides"),
        ] {
            for report in [scenario(link).err(), topology(link).err()] {
                let report = report.expect(link);
                assert!(report.contains(why), "{link}\n{report}");
                assert!(!report.contains("missing"), "a consequence: {report}");
            }
        }
        for (link, why) in [
            ("trace = \"mahi\"\nframing = \"ethernet\"", "whatever the framing"),
            ("trace = \"steps\"\ngap_frames = true", "a wire of one rate"),
        ] {
            let report = scenario(link).expect_err(link);
            assert!(report.contains(why), "{link}\n{report}");
        }
        let changed = "trace = \"steps\"\n[[change]]\nat = \"1 s\"\nlink = \"a > b\"\nrate = \"1 Mbit/s\"";
        let report = scenario(changed).expect_err(changed);
        assert!(report.contains("put the change into the file"), "{report}");
    }
}
