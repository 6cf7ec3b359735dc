//! The lines of the control socket: requests and replies.

use super::FuzzTarget;
use crate::mutate::InputShape;
use control::protocol::{Amendment, Reply, Request, SettingChange, printable};
use control::{policy_text, rsvp_keys};

pub(super) const TARGET: FuzzTarget = FuzzTarget {
    name: "requests",
    about: "requests, replies, assignments, keys: read or refused, written as they were read, safe to print",
    shape: InputShape::Text(4_000),
    tree: &[],
    make: || {
        Box::new(|input| {
            for line in input.split(|byte| *byte == b'\n') {
                judge(line);
            }
            if let Ok(text) = std::str::from_utf8(input) {
                whole(text);
            }
        })
    },
};

fn judge(line: &[u8]) {
    if let Ok(request) = serde_json::from_slice::<Request>(line) {
        let written = serde_json::to_string(&request).unwrap_or_else(|e| panic!("{request:?}: {e}"));
        let again: Request = serde_json::from_str(&written).unwrap_or_else(|e| panic!("{written}: {e}"));
        assert_eq!(again, request);
        let _ = request.interface();
        amend(request);
    }
    if let Ok(reply) = Reply::parse(line) {
        let written = serde_json::to_string(&reply).unwrap_or_else(|e| panic!("{reply:?}: {e}"));
        Reply::parse(written.as_bytes()).unwrap_or_else(|e| panic!("{written}: {e}"));
    }
}

/// What changes a policy is written as it was read, and into a policy's text.
fn amend(request: Request) {
    let amendment = match request {
        Request::Set(set) => Amendment::Set(set),
        Request::AddClass(added) => Amendment::Added(added),
        Request::RemoveClass(removed) => Amendment::Removed(removed),
        _ => return,
    };
    let _ = amendment.to_string();
    let written = serde_json::to_string(&amendment).unwrap_or_else(|e| panic!("{amendment:?}: {e}"));
    let again: Amendment = serde_json::from_str(&written).unwrap_or_else(|e| panic!("{written}: {e}"));
    assert_eq!(again, amendment);
    if let Ok(text) = policy_text::with(POLICY, [&amendment]) {
        assert!(text.contains("# a comment that stays"), "a comment was lost");
    }
}

const POLICY: &str = "version = 1
[interface.wan0]        # a comment that stays
bandwidth = \"20 Mbit/s\"
discipline = \"cbq\"
[[interface.wan0.class]]
name = \"calls\"
rate = \"4 Mbit/s\"
";

fn whole(text: &str) {
    let shown = printable(text);
    assert!(!shown.contains(|c: char| c.is_control() && c != '\n' && c != '\t'));
    for word in text.split_whitespace() {
        if let Some((key, change)) = SettingChange::assignment(word) {
            assert!(word.starts_with(&key));
            let _ = (change.raw(), change.to_string());
        }
    }
    if let Err(why) = rsvp_keys::read("keys", text) {
        assert!(!why.is_empty());
    }
}
