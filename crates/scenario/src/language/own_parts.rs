//! What a program brings to a scenario, put in the places of flows by their names.

use super::{FlowConfig, Scenario};
use crate::brought::{Brought, OwnParts};
use crate::error::Error;
use engine::settings::{Problem, Span, unknown};

impl Scenario {
    /// Takes what a program brings: to be called once, before the run.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such flow, or one of another kind.
    pub fn bring(&mut self, own: &OwnParts) -> Result<(), Error> {
        for (name, packets) in &own.sources {
            let flow = flow(&mut self.flows, name)?;
            flow.source = flow
                .source
                .with_packets(&Brought {
                    flow: name.clone(),
                    packets: packets.clone(),
                    failure: self.failure.clone(),
                })
                .ok_or_else(|| {
                    let kind = flow.settings.kind.name;
                    refused(
                        format!("flow `{name}` is of kind `{kind}`"),
                        "a program sends those of kind `own`",
                    )
                })?;
        }
        for (name, make) in &own.controls {
            let flow = flow(&mut self.flows, name)?;
            flow.source = flow.source.with_control(make(&self.failure)).ok_or_else(|| {
                let kind = flow.settings.kind.name;
                refused(
                    format!("flow `{name}` is of kind `{kind}`"),
                    "it has no congestion control; flows with TCP have one",
                )
            })?;
        }
        Ok(())
    }
}

fn refused(what: String, help: &str) -> Problem {
    Problem::new(Span::default(), what).help(help)
}

fn flow<'a>(flows: &'a mut [FlowConfig], name: &str) -> Result<&'a mut FlowConfig, Problem> {
    let Some(at) = flows.iter().position(|flow| flow.name == name) else {
        let known = flows.iter().map(|flow| flow.name.as_str());
        return Err(unknown("flow", name, Span::default(), known));
    };
    Ok(&mut flows[at])
}
