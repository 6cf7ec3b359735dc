//! `cargo xtask package`: a Debian package of a static release build, with manual pages,
//! completions, units, a profile for AppArmor, the board and alerts for Prometheus, and links.
//!
//! The program is built for size where speed does not matter, and linked with musl, so that the
//! package depends on nothing and one file runs on any distribution of this processor. What is
//! generated goes to `target/package`;
//! `[package.metadata.deb]` of `crates/suimon` names it. Needs the musl target and cargo-deb.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
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

pub fn make(root: &Path) -> Result<(), String> {
    let parts = root.join("target/package");
    let _ = fs::remove_dir_all(&parts);
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let linker = format!("-Clink-arg=-B{}", linker(root)?);
    run(
        root,
        "cargo",
        &[
            "rustc",
            "--profile",
            PROFILE,
            "--package",
            "suimon",
            "--bin",
            "suimon",
            "--target",
            &target,
            "--",
            SHORT_RELOCATIONS,
            &linker,
            "-Clink-arg=-fuse-ld=lld",
            FOLDED,
        ],
    )
    .map_err(|why| format!("{why}; the target is installed by `rustup target add {target}`"))?;
    let suimon = root.join("target").join(&target).join(PROFILE).join("suimon");
    let suimon = suimon.display().to_string();
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
    .map_err(|why| format!("{why}; cargo-deb is installed by `cargo install cargo-deb`"))
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
