//! What a request may leave out, and what becomes of one whose client has gone.

use super::*;

/// A service over a worker that runs this policy, whose interfaces have a path each.
fn several(text: &str) -> (ControlService, Handle, std::thread::JoinHandle<WorkerSnapshot>) {
    let policy = Policy::read("test", text, &Registry::builtin(), &[]).expect("a policy");
    let (mut worker, handle) = Worker::new(Settings::default()).expect("a worker");
    let mut managed = Vec::new();
    for interface in &policy.interfaces {
        let [from, to] = ["near", "far"].map(|name| {
            let able = Capabilities::plain(1500, 64);
            let [near, _far] = Memory::pair([name, "far end"], able).expect("a wire");
            worker.add_port(Box::new(near))
        });
        let path = worker.add_path(direction::managed(interface, from, to));
        managed.push((path, interface.clone()));
    }
    let thread = std::thread::spawn(move || worker.run());
    let in_force = Arc::new(InForce::new(handle.clone(), Registry::builtin(), managed));
    let made_of = MadeOf::text("test", text);
    let changes = PolicyChanges::new(Arc::clone(&in_force), None, &policy, None, made_of).expect("no disk");
    let (none, detach) = (YieldGauges::default(), Arc::default());
    let service = ControlService::new(
        "test",
        handle.clone(),
        in_force,
        Arc::new(changes),
        None,
        none,
        detach,
    );
    (service, handle, thread)
}

fn interface(name: &str, classes: &[&str]) -> String {
    let head = format!("[interface.{name}]\nbandwidth = \"1 Gbit/s\"\ndiscipline = \"drr\"\n");
    classes.iter().enumerate().fold(head, |text, (number, class)| {
        let default = number == 0;
        text + &format!("[[interface.{name}.class]]\nname = \"{class}\"\ndefault = {default}\n")
    })
}

#[test]
fn a_class_is_found_without_its_interface_where_one_alone_has_it() {
    let text = format!(
        "version = 1\n{}{}",
        interface("lan0", &["office", "both", "wan0"]),
        interface("wan0", &["calls", "both"])
    );
    let (service, handle, thread) = several(&text);
    let set = |interface: &str, class: Option<&str>| {
        let wanted = SettingChanges {
            interface: interface.into(),
            class: class.map(str::to_owned),
            changes: [("weight".to_owned(), SettingChange::Integer(7))].into(),
            until_ms: None,
            reason: None,
        };
        service.set(&wanted, Provenance::default())
    };
    for (interface, class, done) in [
        ("office", None, "lan0: office: "),
        ("", Some("calls"), "wan0: calls: "),
        ("wan0", Some("both"), "wan0: both: "),
    ] {
        let said = set(interface, class).expect("it is known");
        assert!(said.starts_with(done), "{said}");
    }
    for (interface, class, why) in [
        ("both", None, "`both` is a class of lan0, wan0"),
        ("", Some("both"), "`both` is a class of lan0, wan0"),
        ("", Some("nobody"), "no managed interface has a class `nobody`"),
        ("offise", None, "unknown interface `offise`"),
        ("lan9", Some("office"), "unknown interface `lan9`"),
        ("", None, "lan0, wan0 are managed"),
    ] {
        let said = set(interface, class).expect_err("it is not clear");
        assert!(said.message.starts_with(why), "{said}");
    }
    // The name of an interface comes before that of a class: there is no such setting there.
    assert!(set("wan0", None).is_err());
    handle.stop();
    thread.join().expect("an orderly end");
}

#[test]
fn what_nobody_waits_for_any_more_is_not_put_into_force() {
    let text = format!("version = 1\n{}", interface("wan0", &["calls", "rest"]));
    let (service, handle, thread) = several(&text);
    let file = std::env::temp_dir().join(format!("suimon-unasked-{}.toml", std::process::id()));
    let more = interface("wan0", &["calls", "rest", "more"]);
    std::fs::write(&file, format!("version = 1\n{more}")).expect("written");
    let by = Provenance::default;
    let apply = |gone: bool| service.apply(&file, None, Breaking::Refused, by(), &|| gone);
    let generations = || service.history().expect("a history").len();
    let before = generations();
    for why in [
        apply(true).expect_err("nobody waits"),
        service.plan(&file, &|| true).expect_err("nobody waits"),
    ] {
        assert!(why.message.starts_with("nothing was changed"), "{why}");
    }
    assert_eq!(generations(), before);
    assert!(!service.plan(&file, &|| false).expect("a plan").is_empty());
    apply(false).expect("somebody waits");
    assert_eq!(generations(), before + 1);
    std::fs::remove_file(file).expect("removed");
    handle.stop();
    thread.join().expect("an orderly end");
}
