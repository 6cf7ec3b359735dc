//! Reads the texts that users write, policies and topologies, from a file or a pipe.

use crate::exit::Failure;
use control::policy::Policy;
use control::text_file;
use engine::tree::Registry;
use gateway::kept::MadeOf;
use plot::colour;
use std::fs::File;
use std::io;
use std::path::Path;

/// The longest output of a shard.
const LONGEST_OUTPUT: u64 = 4 << 30;

/// Reads the text at this path; `-` is standard input. `what` names it in the error message.
pub fn load(what: &str, path: &str) -> Result<String, Failure> {
    within(what, path, text_file::LONGEST)
}

/// Reads the outputs of shards, which may be longer than what people write.
pub fn load_output(path: &str) -> Result<String, Failure> {
    within("output", path, LONGEST_OUTPUT)
}

/// Opens a file that is read piece by piece. `what` names it in the error message.
pub fn opened(what: &str, path: &Path) -> Result<File, Failure> {
    File::open(path).map_err(|error| unread(what, &path.to_string_lossy(), &text_file::reason(&error)))
}

/// That a file is not read, and why.
pub fn unread(what: &str, path: &str, why: &str) -> Failure {
    Failure::usage(format!("cannot read the {what} `{path}`: {why}"))
}

fn within(what: &str, path: &str, longest: u64) -> Result<String, Failure> {
    let read = match path {
        "-" => text_file::bounded(io::stdin().lock(), longest),
        _ => text_file::read(Path::new(path), longest),
    };
    read.map_err(|why| unread(what, path, &why))
}

/// Reads and checks the policy at this path.
pub fn policy(path: &str, registry: &Registry) -> Result<Policy, Failure> {
    let text = load("policy", path)?;
    Policy::read(path, &text, registry, &netio::ports::declared()).map_err(|mistakes| {
        let colour = colour::wanted(&io::stderr());
        Failure::usage(format!("{path} is not in force:\n{}", mistakes.render(colour)))
    })
}

/// Checks a policy that generations are kept of.
pub fn made(of: &MadeOf, registry: &Registry) -> Result<Policy, Failure> {
    let read = of.policy(registry, &netio::ports::declared(), colour::wanted(&io::stderr()));
    read.map_err(|why| Failure::usage(format!("the policy is not in force:\n{why}")))
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
            ("/bin/sh", "not UTF-8"),
            ("/dev/zero", "a device"),
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
