//! `cargo xtask package`: a Debian package of a static release build, with manual pages,
//! completions, units, a profile for AppArmor, the board and alerts for Prometheus, and links.
//!
//! The program is built for size where speed does not matter, and linked with musl, so that the
//! package depends on nothing and one file runs on any distribution of this processor. What is
//! generated goes to `target/package`;
//! `[package.metadata.deb]` of `crates/suimon` names it. Needs the musl target and cargo-deb. The
//! same source gives the same program wherever it is built: `cargo xtask reproducible` compares.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The profile that the program is built by: for size where speed does not matter.
const PROFILE: &str = "shipped";
/// Relocations of pointers as a bit map, which musl's start-up reads: a megabyte less.
const SHORT_RELOCATIONS: &str = "-Clink-arg=-Wl,-z,pack-relative-relocs";
/// Functions that are the same machine code are there once, which Rust's own linker can do.
const FOLDED: &str = "-Clink-arg=-Wl,--icf=all";
/// The program without symbols, as it is in the package, has so many bytes at most.
const LARGEST: u64 = 16_000_000;
/// The other names of the program.
const LINKS: [&str; 2] = ["nine", "bottlenet"];
const SHELLS: [(&str, &str); 3] = [("bash", "suimon"), ("zsh", "_suimon"), ("fish", "suimon.fish")];

/// Makes it in `target/TRIPLE/debian`, and returns its path.
///
/// # Errors
/// A build or a program that failed, or a program that is too large.
pub fn make(root: &Path) -> Result<PathBuf, String> {
    let parts = root.join("target/package");
    let _ = fs::remove_dir_all(&parts);
    let target = triple();
    let suimon = build(root, &root.join("target"))?.display().to_string();
    refuse_large(root, &suimon)?;
    run(root, &suimon, &["man", "target/package/man"])?;
    for (shell, file) in SHELLS {
        let text = Command::new(&suimon).args(["completions", shell]).output();
        let text = text.map_err(|why| format!("cannot run {suimon}: {why}"))?.stdout;
        write(&parts.join("completions"), file, &text)?;
    }
    fs::create_dir_all(parts.join("bin")).map_err(|why| why.to_string())?;
    for link in LINKS {
        symlink("suimon", parts.join("bin").join(link))
            .map_err(|why| format!("cannot link {link}: {why}"))?;
    }
    run(
        root,
        "cargo",
        &[
            "deb",
            "--package",
            "suimon",
            "--target",
            &target,
            "--profile",
            PROFILE,
            "--no-build",
            "--strip",
        ],
    )
    .map_err(|why| format!("{why}; cargo-deb is installed by `cargo install cargo-deb`"))?;
    let folder = root.join("target").join(&target).join("debian");
    let entries = fs::read_dir(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    let version = env!("CARGO_PKG_VERSION");
    let is_ours = |path: &PathBuf| {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        name.starts_with(&format!("suimon_{version}")) && name.ends_with(".deb")
    };
    let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths
        .find(is_ours)
        .ok_or_else(|| format!("{} has no package of {version}", folder.display()))
}

fn triple() -> String {
    format!("{}-unknown-linux-musl", std::env::consts::ARCH)
}

/// Builds the program that the package has, with this folder in place of `target`; returns where
/// it is. Paths of the machine are replaced in what the compiler writes, so that neither the place
/// of the checkout nor that of the registry nor that of the target is in the program.
///
/// # Errors
/// A build that failed.
pub fn build(root: &Path, target: &Path) -> Result<PathBuf, String> {
    let triple = triple();
    let maps = [
        (target.to_path_buf(), "/target"),
        (root.to_path_buf(), "/suimon"),
        (home("CARGO_HOME", ".cargo"), "/cargo"),
        (home("RUSTUP_HOME", ".rustup"), "/rustup"),
    ];
    // The last that fits is taken, so the longer ones go last.
    let mut maps: Vec<String> = maps
        .into_iter()
        .map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()))
        .collect();
    maps.sort_by_key(String::len);
    let mut cargo = Command::new("cargo");
    cargo.args([
        "rustc",
        "--locked",
        "--profile",
        PROFILE,
        "--package",
        "suimon",
        "--bin",
        "suimon",
    ]);
    cargo.args(["--target", &triple, "--target-dir"]).arg(target);
    cargo.args(["--", SHORT_RELOCATIONS, FOLDED, "-Clink-arg=-fuse-ld=lld"]);
    cargo.arg(format!("-Clink-arg=-B{}", linker(root)?));
    let ended = cargo
        .env("CARGO_ENCODED_RUSTFLAGS", maps.join("\x1f"))
        .env("SOURCE_DATE_EPOCH", "0")
        .current_dir(root)
        .status();
    match ended {
        Ok(status) if status.success() => Ok(target.join(&triple).join(PROFILE).join("suimon")),
        Ok(status) => Err(format!(
            "cargo: {status}; the target is installed by `rustup target add {triple}`"
        )),
        Err(why) => Err(format!("cannot run cargo: {why}")),
    }
}

/// A folder of cargo's, from the environment or in the home folder.
pub fn home(variable: &str, usual: &str) -> PathBuf {
    let named = std::env::var_os(variable).map(PathBuf::from);
    named.unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(usual))
}

/// Where the compiler has its linker, which cc then finds.
fn linker(root: &Path) -> Result<String, String> {
    let told = |arguments: &[&str]| {
        let output = Command::new("rustc").args(arguments).current_dir(root).output();
        let output = output.map_err(|why| format!("cannot run rustc: {why}"))?;
        Ok::<_, String>(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let sysroot = told(&["--print", "sysroot"])?;
    let version = told(&["-vV"])?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.ok_or("rustc does not say for which host it is")?;
    Ok(format!("{}/lib/rustlib/{host}/bin/gcc-ld", sysroot.trim()))
}

/// Refuses a program that is larger than it is said to be.
fn refuse_large(root: &Path, suimon: &str) -> Result<(), String> {
    let stripped = format!("{suimon}.bare");
    run(root, "strip", &["-o", &stripped, suimon])?;
    let found = fs::metadata(&stripped).map(|found| found.len());
    let _ = fs::remove_file(&stripped);
    let bytes = found.map_err(|why| format!("cannot look at {stripped}: {why}"))?;
    println!("the program without symbols: {bytes} bytes of {LARGEST}");
    match bytes <= LARGEST {
        true => Ok(()),
        false => Err(format!(
            "the program has {bytes} bytes without symbols, {LARGEST} at most: `[profile.{PROFILE}]` says what is \
             built for size, and `nm --print-size --size-sort` what is large"
        )),
    }
}

fn write(folder: &Path, file: &str, text: &[u8]) -> Result<(), String> {
    let path = folder.join(file);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&path, text))
        .map_err(|why| format!("cannot write {}: {why}", path.display()))
}

fn run(root: &Path, program: &str, arguments: &[&str]) -> Result<(), String> {
    let ended = Command::new(program).args(arguments).current_dir(root).status();
    match ended {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program} {}: {status}", arguments.join(" "))),
        Err(why) => Err(format!("cannot run {program}: {why}")),
    }
}
