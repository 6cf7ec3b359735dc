//! The outcome of a lab as JUnit XML, which CI services read: each expectation is a test case, and
//! what programs printed is the output of the suite.
//!
//! There is no standard; this keeps to what Jenkins, GitLab and GitHub's reporters all read.

use crate::run::outcome::Judgement;
use crate::run::outcome::LiveOutcome;
use plot::svg::escape;
use std::fmt::Write;

/// The outcome as a document.
pub fn live(outcome: &LiveOutcome) -> String {
    let missed = outcome
        .expectations
        .iter()
        .filter(|judgement| !judgement.met)
        .count();
    let suite = escape(&outcome.scenario);
    let (tests, seconds) = (outcome.expectations.len(), outcome.duration.as_secs_f64());
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n\
         <testsuite name=\"{suite}\" tests=\"{tests}\" failures=\"{missed}\" errors=\"0\" time=\"{seconds:.3}\">\n"
    );
    for judgement in &outcome.expectations {
        case(&mut xml, &suite, judgement);
    }
    for (element, of) in [("system-out", 0), ("system-err", 1)] {
        let mut printed = String::new();
        for program in &outcome.programs {
            let text = [&program.out, &program.err][of];
            if !text.is_empty() {
                let _ = write!(printed, "program {} on {}:\n{text}\n", program.name, program.host);
            }
        }
        let _ = writeln!(xml, "<{element}>{}</{element}>", escape(&printed));
    }
    xml + "</testsuite>\n</testsuites>\n"
}

fn case(xml: &mut String, suite: &str, judgement: &Judgement) {
    let Judgement {
        what,
        expected,
        got,
        missed_by,
        held_up,
        ..
    } = judgement;
    let name = escape(&format!("{what}: {expected}"));
    let mut inside = String::new();
    if !judgement.met {
        let (message, text) = (escape(&format!("measured {got}")), escape(missed_by));
        inside += &format!("<failure message=\"{message}\">{text}</failure>");
    }
    if let Some(held_up) = held_up {
        inside += &format!("<system-out>{}</system-out>", escape(&held_up.words()));
    }
    // Writing into memory does not fail.
    let _ = match inside.is_empty() {
        true => writeln!(xml, "<testcase classname=\"{suite}\" name=\"{name}\"/>"),
        false => writeln!(
            xml,
            "<testcase classname=\"{suite}\" name=\"{name}\">{inside}</testcase>"
        ),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::outcome::{CountedApart, FlowHoldUps, ProgramEnd, ProgramOutcome};
    use engine::units::Duration;

    #[test]
    fn misses_are_failures_and_what_programs_print_cannot_break_the_document() {
        let judgement = |what: &str, met| Judgement {
            what: what.into(),
            expected: "at most 5 ms".into(),
            got: "7 ms".into(),
            value: 7,
            unit: "ms",
            met,
            missed_by: "2 ms too much".into(),
            held_up: met.then(|| FlowHoldUps {
                packets: 2,
                longest: Duration::from_millis(4),
                got: "8 ms".into(),
                value: 8_000_000,
                apart: CountedApart::default(),
            }),
        };
        let outcome = LiveOutcome {
            scenario: "a & b".into(),
            duration: Duration::from_millis(1500),
            flows: Vec::new(),
            held_up: None,
            reservations: Vec::new(),
            programs: vec![ProgramOutcome {
                name: "client".into(),
                host: "home".into(),
                ended: ProgramEnd::Exited(0),
                out: "]]></system-out>\u{1}\n".into(),
                err: String::new(),
            }],
            expectations: vec![judgement("link a > b", true), judgement("flow \"x\"", false)],
        };
        let expected = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n\
            <testsuite name=\"a &amp; b\" tests=\"2\" failures=\"1\" errors=\"0\" time=\"1.500\">\n\
            <testcase classname=\"a &amp; b\" name=\"link a &gt; b: at most 5 ms\">\
            <system-out>8 ms with 2 packets that this machine held up, by up to 4 ms</system-out></testcase>\n\
            <testcase classname=\"a &amp; b\" name=\"flow &quot;x&quot;: at most 5 ms\">\
            <failure message=\"measured 7 ms\">2 ms too much</failure></testcase>\n\
            <system-out>program client on home:\n]]&gt;&lt;/system-out&gt;\u{fffd}\n\n</system-out>\n\
            <system-err></system-err>\n</testsuite>\n</testsuites>\n";
        assert_eq!(live(&outcome), expected);
    }
}
