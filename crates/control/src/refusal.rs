//! A refusal: why a request over the control socket was not carried out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a request was not carried out.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Refusal {
    /// The reason.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl Refusal {
    /// A refusal without advice.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            help: None,
        }
    }

    /// A class was named without its interface, and several have one of that name.
    pub fn ambiguous_class(class: &str, interfaces: &[&str]) -> Self {
        Self {
            message: format!("`{class}` is a class of {}", interfaces.join(", ")),
            help: Some(format!("name the interface before it: INTERFACE {class}")),
        }
    }
}

impl From<engine::settings::Problem> for Refusal {
    fn from(problem: engine::settings::Problem) -> Self {
        Self {
            message: problem.message,
            help: problem.help,
        }
    }
}

impl From<Vec<engine::settings::Problem>> for Refusal {
    /// Joins all messages; the advice is the first there is.
    fn from(problems: Vec<engine::settings::Problem>) -> Self {
        let messages: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
        Self {
            message: messages.join("; "),
            help: problems.iter().find_map(|problem| problem.help.clone()),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.help {
            Some(help) => write!(f, "; {help}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Refusal {}
