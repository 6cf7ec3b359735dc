//! The charts on the pages of disciplines: `suimon sim` draws each from the scenario of the same
//! name.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs `scenarios/disciplines/NAME.toml` for every NAME, and draws `docs/disciplines/NAME.svg`.
pub fn draw(root: &Path) -> Result<(), String> {
    for scenario in scenarios(root)? {
        let Some(name) = scenario.file_stem().and_then(|name| name.to_str()) else {
            continue;
        };
        let picture = format!("docs/disciplines/{name}.svg");
        let status = Command::new("cargo")
            .args(["run", "--quiet", "--package", "suimon", "--", "sim", "--json"])
            .args(["--picture", &picture])
            .arg(&scenario)
            .stdout(std::process::Stdio::null())
            .current_dir(root)
            .status()
            .map_err(|e| format!("cargo could not be started: {e}"))?;
        if !status.success() {
            return Err(format!(
                "{}: {status}; see `suimon sim` with this file",
                scenario.display()
            ));
        }
        println!("{picture}");
    }
    Ok(())
}

fn scenarios(root: &Path) -> Result<Vec<PathBuf>, String> {
    let folder = root.join("scenarios/disciplines");
    let entries = std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .collect();
    files.sort();
    Ok(files)
}
