//! Every message of a policy's check, as users see it: `policies/NAME.toml` beside `NAME.txt`.
//!
//! Run with `BLESS=1` to write the current messages; review the difference before committing it.

use control::policy::Policy;
use engine::port_kind::{Needs, PortKind};
use engine::settings;
use engine::tree::Registry;
use std::path::{Path, PathBuf};

settings! {
    /// Settings of one of the kinds below.
    struct OwnSettings {
        /// Whether to spin for packets rather than sleep
        busy_poll: bool = default "false", "", "";
    }
}

const fn kind(name: &'static str, needs: Needs) -> PortKind {
    PortKind {
        name,
        summary: "",
        needs,
        has_wire: true,
        alone: None,
        settings: &[],
    }
}

/// Kinds of port like those that `suimon run` opens.
static PORTS: &[&PortKind] = &[
    &kind("af_packet", Needs::TwoInterfaces),
    &PortKind {
        settings: OwnSettings::SETTINGS,
        ..kind("af_xdp", Needs::TwoInterfaces)
    },
    &kind("egress", Needs::OneInterface),
    &kind("ingress", Needs::Received),
    &kind("pcap", Needs::TwoFiles),
];

fn policies() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/policies");
    let entries = std::fs::read_dir(directory).expect("the directory of policies");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    paths
}

fn shown(path: &Path) -> String {
    let text = std::fs::read_to_string(path).expect("a policy");
    let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
    match Policy::read(name, &text, &Registry::builtin(), PORTS) {
        Ok(policy) => format!("{}accepted\n", policy.warnings),
        Err(diagnostics) => {
            assert!(diagnostics.mistakes() > 0, "{name}: refused without a mistake");
            diagnostics.to_string()
        }
    }
}

#[test]
fn every_message_is_as_written_beside_its_policy() {
    let (mut different, mut seen) = (Vec::new(), 0);
    for path in policies() {
        let (shown, beside) = (shown(&path), path.with_extension("txt"));
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&beside, &shown).expect("writing beside the policy");
        }
        let expected = std::fs::read_to_string(&beside).unwrap_or_default();
        if shown != expected {
            different.push(format!(
                "{}\nshown:\n{shown}\nexpected:\n{expected}",
                path.display()
            ));
        }
        seen += 1;
    }
    assert!(seen >= 10, "only {seen} policies were found");
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn any_damage_to_a_policy_is_reported_without_panic() {
    for path in policies() {
        let text = std::fs::read_to_string(&path).expect("a policy");
        for (at, _) in text.char_indices() {
            for damaged in [&text[..at], &text[at..]] {
                if let Err(diagnostics) = Policy::read("damaged.toml", damaged, &Registry::builtin(), PORTS) {
                    assert!(!diagnostics.render(true).is_empty());
                }
            }
        }
    }
}
