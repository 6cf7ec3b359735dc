//! Each file of `files`, as another program's manual has it, beside the policy that is made of it;
//! and damaged files, which are refused or read, but never a panic.
//!
//! Run with `BLESS=1` to write the current policies; review the difference before committing it.

use engine::units::Bandwidth;
use import::{ClientQuota, Format, Missing, SourceFile};
use std::fs;
use std::path::{Path, PathBuf};

/// The name of the policy, the format, the files, and what they do not say.
fn cases() -> Vec<(&'static str, Format, Vec<&'static str>, Missing)> {
    let none = Missing::default;
    let line = Missing {
        up: Some(Bandwidth::mbit(20)),
        down: Some(Bandwidth::mbit(100)),
        interfaces: vec!["lan0".into()],
        quota: None,
    };
    let limited = Missing {
        quota: Some(ClientQuota {
            volume: "50 GB per month".into(),
            rate: Some(Bandwidth::mbit(1)),
        }),
        ..line.clone()
    };
    let told = Missing {
        quota: Some(ClientQuota {
            volume: "2 GiB per day".into(),
            rate: None,
        }),
        ..line.clone()
    };
    let bump = Missing {
        up: Some(Bandwidth::mbit(300)),
        down: Some(Bandwidth::mbit(500)),
        interfaces: vec!["core0".into(), "isp0".into()],
        quota: None,
    };
    vec![
        ("altq", Format::Altq, vec!["altq.conf"], none()),
        ("pf-altq", Format::Pf, vec!["pf-altq.conf"], none()),
        ("pf-openbsd", Format::Pf, vec!["pf-openbsd.conf"], none()),
        ("tc-htb", Format::Tc, vec!["tc-htb.json"], none()),
        ("tc-script", Format::Tc, vec!["tc-script.sh"], none()),
        ("tc-hfsc", Format::Tc, vec!["tc-hfsc.sh"], none()),
        ("tc-cake", Format::Tc, vec!["tc-cake.json"], none()),
        ("netem", Format::Netem, vec!["netem.sh"], none()),
        ("netem-show", Format::Netem, vec!["netem-show"], none()),
        ("sqm", Format::Sqm, vec!["sqm"], none()),
        ("sqm-simple", Format::Sqm, vec!["sqm-simple"], none()),
        ("sqm-adsl", Format::Sqm, vec!["sqm-adsl"], none()),
        (
            "libreqos",
            Format::LibreQos,
            vec!["ShapedDevices.csv", "network.json"],
            bump,
        ),
        ("wireguard", Format::WireGuard, vec!["wg0.conf"], line),
        ("wireguard-quota", Format::WireGuard, vec!["wg0.conf"], limited),
        ("wireguard-told", Format::WireGuard, vec!["wg0.conf"], told),
    ]
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files")
}

fn texts(files: &[&str]) -> Vec<String> {
    let read = |file: &&str| fs::read_to_string(folder().join(file)).expect("a file");
    files.iter().map(read).collect()
}

#[test]
fn each_file_makes_the_policy_beside_it() {
    let mut different = Vec::new();
    for (name, format, files, missing) in cases() {
        let texts = texts(&files);
        let sources: Vec<SourceFile<'_>> = files
            .iter()
            .zip(&texts)
            .map(|(name, text)| SourceFile { name, text })
            .collect();
        assert_eq!(Format::guess(&texts[0]), Some(format), "{name}");
        let draft = format
            .read(&sources, &missing)
            .unwrap_or_else(|error| panic!("{}", error.shown(&sources)));
        let names: Vec<String> = files.iter().map(|name| (*name).into()).collect();
        let made = draft.text(&names);
        let beside = folder().join(format!("{name}.toml"));
        if std::env::var_os("BLESS").is_some() {
            fs::write(&beside, &made).expect("it can be written");
        }
        if fs::read_to_string(&beside).unwrap_or_default() != made {
            different.push(format!("{name}:\n{made}"));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

/// Damage at random places, by a generator of its own: bytes are lost, repeated and exchanged.
#[test]
fn damaged_files_are_refused_or_read_without_panic() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below.max(1) as u64).expect("small")
    };
    const ODD: &[u8] = b"0129{}()<>\"'#\\\n,:/%$[]-zMb ";
    let (mut refused, mut read) = (0, 0);
    for (_, format, files, missing) in cases() {
        for _ in 0..400 {
            let mut texts = texts(&files);
            let which = random(texts.len());
            let mut bytes = texts[which].clone().into_bytes();
            for _ in 0..=random(4) {
                let (at, length) = (random(bytes.len()), random(12));
                let end = (at + length).min(bytes.len());
                match random(4) {
                    0 => drop(bytes.drain(at..end)),
                    1 => {
                        let part = bytes[at..end].to_vec();
                        bytes.splice(at..at, part);
                    }
                    2 if !bytes.is_empty() => bytes[at] = ODD[random(ODD.len())],
                    _ => bytes.truncate(at.max(1)),
                }
            }
            texts[which] = String::from_utf8_lossy(&bytes).into_owned();
            let sources: Vec<SourceFile<'_>> = files
                .iter()
                .zip(&texts)
                .map(|(name, text)| SourceFile { name, text })
                .collect();
            match format.read(&sources, &missing) {
                Ok(draft) => {
                    let names: Vec<String> = files.iter().map(|name| (*name).into()).collect();
                    assert!(draft.text(&names).contains("version = 1"));
                    read += 1;
                }
                Err(error) => {
                    assert!(!error.shown(&sources).is_empty());
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 200 && read > 200, "{refused} refused, {read} read");
}

#[test]
fn an_interface_that_is_there_twice_is_refused_and_a_message_controls_no_terminal() {
    let shown = |format: Format, text: &str| {
        let file = SourceFile { name: "f", text };
        let refused = format.read(&[file], &Missing::default());
        refused.expect_err(text).shown(&[file])
    };
    let queue = "config queue\noption interface 'a'\noption upload '9'\n";
    assert_eq!(
        shown(Format::Sqm, &queue.repeat(2)),
        "f:5:19: `a` is there a second time: leave one of both out"
    );
    assert_eq!(
        shown(Format::Pf, "pass out on $\u{1b}[2J queue a\n"),
        "f:1:13: macro `\\u{1b}[2J` is not defined"
    );
}

#[test]
fn numbers_beyond_all_links_are_told_and_do_not_overflow() {
    let lost = |format: Format, text: &str| {
        let file = SourceFile { name: "f", text };
        let draft = format.read(&[file], &Missing::default()).expect(text);
        draft.loss_lines(&["f".into()]).join(" ")
    };
    let text = "config queue\noption interface 'a'\noption upload '9'\noption script 'cake'\noption linklayer \
                'ethernet'\noption overhead '-9223372036854775807'\n";
    let lost = lost(Format::Sqm, text);
    assert!(
        lost.contains("`overhead -9223372036854775807`: more or less"),
        "{lost}"
    );
}

#[test]
fn of_what_is_set_twice_the_last_counts() {
    let text = "interface e bandwidth 9M cbq\nclass cbq e root NULL pbandwidth 100\nclass cbq e a root pbandwidth 50 priority 2 priority 4\n";
    let file = SourceFile { name: "f", text };
    let draft = Format::Altq.read(&[file], &Missing::default());
    let written = draft.expect("a policy").text(&["f".into()]);
    assert!(
        written.contains("\npriority = 4\n") && !written.contains("priority = 2"),
        "{written}"
    );
}

/// Where, what, and what to do.
#[test]
fn a_mistake_is_told_with_its_place() {
    let cases = [
        (
            Format::Altq,
            "interface em0 bandwidth 10Mb cbq\n",
            "f:1:25: expected bits per second such as 10M; found `10Mb`",
        ),
        (
            Format::Altq,
            "interface em0 cbq\n",
            "f:1:11: `em0` has no `bandwidth`, and ALTQ asks its driver: give `--up RATE`",
        ),
        (
            Format::Altq,
            "class cbq em0 a NULL\n",
            "f:1:11: expected an interface that an `interface` statement has named before; found `em0`",
        ),
        (
            Format::Pf,
            "altq on em0 cbq bandwidth 20MB queue { a }\n",
            "f:1:27: expected bits per second such as 20Mb; found `20MB`",
        ),
        (
            Format::Pf,
            "pass out on $ext queue a\n",
            "f:1:13: macro `ext` is not defined",
        ),
        (
            Format::Pf,
            "altq on em0 cbq bandwidth 20Mb queue { a }\n",
            "f:1:40: queue `a` is not defined for `em0`",
        ),
        (
            Format::Tc,
            "tc class add dev e parent 1: classid 1:x htb rate 1mbit\n",
            "f:1:38: expected a handle such as 1:10; found `1:x`",
        ),
        (
            Format::Tc,
            "tc qdisc add dev $DEV root htb\n",
            "f:1:18: expected an interface, not a variable: read what `tc -j` prints instead; found `$DEV`",
        ),
        (
            Format::Tc,
            "\n[{\"kind\":\"htb\",]\n",
            "f:2:16: this is not JSON: key must be a string",
        ),
        (
            Format::Netem,
            "tc qdisc add dev e root netem delay 5parsec\n",
            "f:1:37: expected a time such as 5ms; found `5parsec`",
        ),
        (
            Format::Netem,
            "tc qdisc add dev e root netem loss 120%\n",
            "f:1:36: expected a share such as 1%; found `120%`",
        ),
        (
            Format::Netem,
            "tc qdisc add dev e root netem lose 1%\n",
            "f:1:31: expected an option of netem such as `delay`, `loss` or `rate`; found `lose`",
        ),
        (
            Format::Sqm,
            "config queue\n\toption interface 'a'\n\toption download '85Mbit'\n",
            "f:3:19: expected kbit/s, a number alone; found `85Mbit`",
        ),
        (
            Format::LibreQos,
            "Circuit ID,Download Min Mbps\n",
            "f:1:1: column `Upload Min …` is missing",
        ),
        (
            Format::WireGuard,
            "[Peer]\nAllowedIPs = x\n",
            "f: a WireGuard interface has no Ethernet header",
        ),
    ];
    for (format, text, expected) in cases {
        let sources = [SourceFile { name: "f", text }];
        let error = format.read(&sources, &Missing::default()).expect_err(text);
        let shown = error.shown(&sources);
        assert!(shown.starts_with(expected), "{shown}\n{expected}");
    }
}
