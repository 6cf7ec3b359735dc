//! The kinds of traffic sources, one file each, and the list of them.
//!
//! A file declares the settings of its kind, checks them, and creates the simulator's agents. To
//! add a kind, copy `poisson.rs`, write its `KIND`, and add the file here twice: as a `mod` line,
//! which rustfmt needs, and in the list. Messages and the documentation use the list.

mod burst;
mod connection;
mod constant;
mod datagrams;
mod greedy;
mod kind;
mod on_off;
mod own;
mod pcap;
mod poisson;
mod quic;
mod quic_request;
mod replay;
mod request;
mod tcp;
mod trace;
mod video;
mod web;

pub use kind::{
    FlowContext, FlowSource, LabSource, MeasuredDelays, NineSettings, SettingGroup, SourceKind, SourceReader,
    Transport,
};

use engine::settings::Setting;

/// Every kind, in the order in which lists show them.
pub static KINDS: &[&SourceKind] = &[
    &tcp::KIND,
    &request::KIND,
    &web::KIND,
    &video::KIND,
    &quic::KIND,
    &quic_request::KIND,
    &constant::KIND,
    &poisson::KIND,
    &on_off::KIND,
    &burst::KIND,
    &greedy::KIND,
    &trace::KIND,
    &pcap::KIND,
    &own::KIND,
];

engine::choices_of!(SourceKind in KINDS);

/// The groups of settings, each with the names of its kinds, for the documentation.
pub fn setting_groups() -> Vec<(String, &'static [Setting])> {
    let mut groups: Vec<(&'static SettingGroup, Vec<&str>)> = Vec::new();
    for kind in KINDS {
        for &group in kind.settings {
            match groups.iter_mut().find(|(known, _)| std::ptr::eq(*known, group)) {
                Some((_, names)) => names.push(kind.name),
                None => groups.push((group, vec![kind.name])),
            }
        }
    }
    let named = groups
        .into_iter()
        .map(|(group, names)| (enumerate(&names), group.0));
    named.collect()
}

/// `a`, `a and b`, `a, b and c`.
fn enumerate(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).into(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_name_the_kinds_that_share_them() {
        let names: Vec<String> = setting_groups().into_iter().map(|(names, _)| names).collect();
        let shared = [
            "tcp, request, web and video",
            "request and quic-request",
            "quic and quic-request",
            "constant, poisson, on-off, burst and greedy",
            "trace and pcap",
        ];
        for group in shared {
            assert!(names.iter().any(|name| name == group), "{group}: {names:?}");
        }
        // `trace`, `pcap` and `quic-request` have no settings of their own.
        assert_eq!(names.len(), KINDS.len() - 4 + shared.len());
    }

    /// Adding a kind takes only its file and its entry in the list.
    #[test]
    fn every_file_of_a_kind_is_in_the_list() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sources");
        let mut declared = 0;
        for entry in std::fs::read_dir(folder).expect("the folder").flatten() {
            let text = std::fs::read_to_string(entry.path()).expect("a text");
            declared += usize::from(text.contains("pub static KIND: SourceKind"));
        }
        // This file names it too.
        assert_eq!(declared, KINDS.len() + 1);
    }
}
