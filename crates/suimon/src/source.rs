//! Reads the texts that users write, policies and topologies, from a file or a pipe.

use crate::exit::Failure;
use control::policy::Policy;
use engine::tree::Registry;
use plot::colour;
use std::io::{self, Read};

/// Reads the text at this path; `-` is standard input. `what` names it in the error message.
pub fn load(what: &str, path: &str) -> Result<String, Failure> {
    let read = if path == "-" {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    read.map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::NotFound => "no such file".into(),
            io::ErrorKind::IsADirectory => "it is a directory; name a TOML file in it".into(),
            io::ErrorKind::InvalidData => "it is not UTF-8 text".into(),
            _ => error.to_string(),
        };
        Failure::usage(format!("cannot read the {what} `{path}`: {why}"))
    })
}

/// Reads and checks the policy at this path.
pub fn policy(path: &str, registry: &Registry) -> Result<Policy, Failure> {
    let text = load("policy", path)?;
    Policy::read(path, &text, registry, &netio::ports::declared()).map_err(|mistakes| {
        let colour = colour::wanted(&io::stderr());
        Failure::usage(format!("{path} is not in force:\n{}", mistakes.render(colour)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    #[test]
    fn what_cannot_be_read_is_a_usage_error_with_its_path_and_the_reason() {
        let here = env!("CARGO_MANIFEST_DIR");
        let cases = [
            ("/nonexistent/policy.toml", "no such file"),
            (here, "a directory"),
            ("/proc/self/exe", "not UTF-8"),
        ];
        for (path, why) in cases {
            let failure = load("policy", path).expect_err(path);
            assert_eq!(failure.exit, Exit::Usage);
            assert!(
                failure.message.contains(path) && failure.message.contains(why),
                "{}",
                failure.message
            );
        }
    }
}
