//! The traces of `scenarios/traces`, made by their models ([`measure::line_models`]), and others of
//! another seed.

use engine::random::Seed;
use measure::line_models;
use std::path::Path;

/// Writes every trace: of the seed of `scenarios/traces` there, or of SEED into FOLDER.
pub fn write(root: &Path, args: &[String]) -> Result<(), String> {
    let (seed, folder) = match args {
        [] => (line_models::SEED, root.join("scenarios/traces")),
        [seed, folder] => {
            let number = seed.parse().map_err(|e| format!("the seed `{seed}`: {e}"))?;
            (Seed(number), folder.into())
        }
        _ => return Err("`cargo xtask traces`, or `cargo xtask traces SEED FOLDER`".into()),
    };
    let failed = |path: &Path, e| format!("{}: {e}", path.display());
    std::fs::create_dir_all(&folder).map_err(|e| failed(&folder, e))?;
    for (name, text) in line_models::traces(seed) {
        let path = folder.join(format!("{name}.csv"));
        std::fs::write(&path, text).map_err(|e| failed(&path, e))?;
        println!("{}", path.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_traces_are_those_of_their_models() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/traces");
        for (name, text) in line_models::traces(line_models::SEED) {
            let kept = std::fs::read_to_string(root.join(format!("{name}.csv")));
            assert!(
                kept.is_ok_and(|kept| kept == text),
                "scenarios/traces/{name}.csv is missing or out of date: run `cargo xtask traces`"
            );
        }
    }
}
