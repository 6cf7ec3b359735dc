//! Every type of message, as tshark decodes it, in packets as sent.

use crate::capture::{Packet, assert_sound, fields};
use crate::objects::{
    Family, V4, V6, ack, bundle, challenge, path, path_err, path_tear, protected, response, resv_conf,
    resv_err, resv_ff, resv_se, resv_tear, resv_wf, srefresh,
};

/// Each type with its number, and whether it is sent with Router Alert.
fn kinds(family: &Family) -> Vec<(u8, bool, Vec<u8>)> {
    vec![
        (1, true, path(family)),
        (2, false, resv_ff(family)),
        (2, false, resv_se(family)),
        (2, false, resv_wf(family)),
        (3, false, path_err(family)),
        (4, false, resv_err(family)),
        (5, true, path_tear(family)),
        (6, false, resv_tear(family)),
        (7, true, resv_conf(family)),
        (12, false, bundle(family)),
        (13, false, ack()),
        (15, false, srefresh()),
        (25, false, challenge()),
        (26, false, response()),
        (1, true, protected(path(family))),
    ]
}

fn packets(family: &Family) -> Vec<Packet> {
    let packet = |(_, router_alert, message)| Packet {
        source: family.left,
        destination: family.right,
        router_alert,
        message,
    };
    kinds(family).into_iter().map(packet).collect()
}

#[test]
fn every_message_type_is_well_formed_and_has_a_correct_checksum() {
    assert_sound("kinds-4", &packets(&V4));
    assert_sound("kinds-6", &packets(&V6));
}

#[test]
fn every_message_type_has_its_number_and_header_and_router_alert_where_required() {
    const FIELDS: &[&str] = &[
        "rsvp.msg",
        "rsvp.version",
        "rsvp.flags",
        "rsvp.sending_ttl",
        "rsvp.message_length",
        "ip.proto",
        "ip.opt.ra",
        "ip.ttl",
        "ip.checksum",
        "ipv6.nxt",
        "ipv6.opt.router_alert",
        "ipv6.hlim",
    ];
    for (name, family) in [("header-4", &V4), ("header-6", &V6)] {
        let Some(rows) = fields(name, &packets(family), FIELDS) else {
            return;
        };
        let kinds = kinds(family);
        assert_eq!(rows.len(), kinds.len());
        for (row, (kind, router_alert, message)) in rows.iter().zip(kinds) {
            let reduction = if kind == 12 { "0x01" } else { "0x00" };
            let length = message.len().to_string();
            let head = [&kind.to_string(), "1", reduction, "63", &length];
            // The messages of a bundle follow it.
            let first = row[..5].iter().map(|field| field.split(',').next().unwrap_or(""));
            assert_eq!(first.collect::<Vec<_>>(), head, "{name} {kind}");
            let kinds = if kind == 12 { "12,5,6" } else { head[0] };
            assert_eq!(row[0], kinds);
            if name == "header-4" {
                assert_eq!(
                    row[5..8],
                    ["46", if router_alert { "0" } else { "" }, "63"],
                    "{kind}"
                );
                assert_eq!(row[9..12], ["", "", ""]);
            } else {
                let (next, alert) = if router_alert { ("0", "1") } else { ("46", "") };
                assert_eq!(row[9..12], [next, alert, "63"], "{kind}");
            }
        }
    }
}
