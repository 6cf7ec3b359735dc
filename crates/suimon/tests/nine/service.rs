//! `suimon nine --service`: rules choose programs that others have started.

use super::rig::{CUBIC, Rig, SUIMON};
use super::until::until;
use super::{FILES, LONG, NOBODY, PATIENCE, client, client_state, is_limited, state_path};
use serde_json::Value;

/// A member's connections, by its command.
fn connections_of(top: &Value, command: &str) -> Vec<Value> {
    let members = top["members"].as_array().cloned().unwrap_or_default();
    let member = members.into_iter().find(|member| {
        let shown = member["command"].as_str().unwrap_or_default();
        shown.starts_with(command)
    });
    member
        .and_then(|member| member["connections"].as_array().cloned())
        .unwrap_or_default()
}

#[test]
fn rules_choose_programs_and_a_command_of_its_own_nine_is_left_to_that() {
    lab::isolated_as(NOBODY, FILES, || {
        let rig = Rig::new(10, 64 << 10);
        rig.suimon(&["bottlenet", "10Mbit/s", "--interface", "eth0"]);
        let client = client(&rig);
        let rules = state_path(&rig, "rules");
        let text = "program client   # a backup\nprogram cat cap 2Mbit/s\nprogram cat client\n";
        std::fs::write(&rules, text).expect("written");
        let service = rig.nine(&["--service", &rules]);
        let port = CUBIC.to_string();
        let words = |name: &str| {
            let path = state_path(&rig, name);
            ["plain", "10.0.0.2", &port, name, &path].map(str::to_string)
        };
        let free = rig.home.unprivileged(&client).args(words("chosen"));
        let _free = free.start().expect("it runs");
        let of = |command: &str| connections_of(&rig.top(), command);
        let is_held = |name: &str| client_state(&rig, name).lock & 2 == 2;
        assert!(until(PATIENCE, || of("rule 1").len() == 1), "{:#}", rig.top());
        let high = rig.high("cubic", LONG);
        assert!(
            until(PATIENCE, || of("rule 1").iter().all(is_limited)),
            "{:#}",
            rig.top()
        );
        assert!(
            until(PATIENCE, || is_held("chosen")),
            "{:?}",
            client_state(&rig, "chosen")
        );
        // Another one of this name, under a nine of its own.
        let own = words("own");
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let nine = rig.nine(&[&["--cap", "1Mbit/s", "--", &client], &own[..]].concat());
        let apart = || of(&client).len() == 1 && of("rule 1").len() == 1;
        assert!(until(PATIENCE, apart), "{:#}", rig.top());
        assert!(
            until(PATIENCE, || is_held("own")),
            "{:?}",
            client_state(&rig, "own")
        );
        assert!(of("rule 3").is_empty(), "the first rule applies: {:#}", rig.top());
        // The service ends: what it held is free, the other is not.
        super::kill("-TERM", service.id());
        let output = service.wait().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(
            until(PATIENCE, || !is_held("chosen")),
            "{:?}",
            client_state(&rig, "chosen")
        );
        // The other one leads now.
        assert!(until(PATIENCE, || of(&client).len() == 1), "{:#}", rig.top());
        assert!(
            until(PATIENCE, || is_held("own")),
            "{:?}",
            client_state(&rig, "own")
        );
        drop((high, nine));
    });
}

#[test]
fn a_service_tells_mistakes_by_line_and_prints_its_unit() {
    let file = std::env::temp_dir().join(format!("suimon-rules-{}", std::process::id()));
    let suimon = |text: &str| {
        std::fs::write(&file, text).expect("written");
        let file = file.to_str().expect("UTF-8");
        let output = std::process::Command::new(SUIMON)
            .args(["nine", "--service", file, "--systemd"])
            .output()
            .expect("it starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, _, told) = suimon("program rsync\n\nprogram borg cap 8000\nprogramm tar\n");
    assert_eq!(code, Some(2), "{told}");
    assert!(
        told.contains("line 3: cap") && told.contains("line 4: `programm`"),
        "{told}"
    );
    let (code, unit, told) = suimon("program rsync\n");
    assert_eq!(code, Some(0), "{told}");
    assert!(
        unit.contains("ExecStart=") && unit.contains("nine --service"),
        "{unit}"
    );
    let _ = std::fs::remove_file(&file);
}
