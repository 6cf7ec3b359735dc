//! wg-quick(8): a class for each peer, by its AllowedIPs.
//!
//! No port of ours attaches to a WireGuard interface: its packets have no Ethernet header. What
//! peers send and receive passes another interface of the gateway too, decrypted, with the peers'
//! addresses: that one is managed, in both directions. Keys are not read.
//!
//! WireGuard counts what each peer carries and does nothing with it: a quota for each is the
//! caller's to give. A smaller rate once it is used up needs a discipline that limits classes.

use crate::draft::{
    ClassDraft, DisciplineDraft, Draft, DraftValue, FilterDraft, InterfaceDraft, Names, Settings, prefix,
};
use crate::missing::{ClientQuota, Missing};
use crate::place::{ImportError, Place, SourceFile};
use engine::port_kind::received;
use engine::units::Bandwidth;
use std::net::IpAddr;

struct Peer {
    name: String,
    addresses: Vec<String>,
    at: Place,
}

/// Reads the file.
pub(crate) fn read(source: SourceFile<'_>, missing: &Missing) -> Result<Draft, ImportError> {
    let [interface, ..] = missing.interfaces.as_slice() else {
        let message = "a WireGuard interface has no Ethernet header, and no port attaches to it: name the interface \
                       by which the peers' packets go on, decrypted: `--interface lan0`";
        return Err(ImportError::new(Place::default(), message));
    };
    let rate = |given: Option<Bandwidth>, option: &str| {
        given.ok_or_else(|| {
            let message = format!("WireGuard has no rates: give that of the line, `{option} RATE`");
            ImportError::new(Place::default(), message)
        })
    };
    let (down, up) = (rate(missing.down, "--down")?, rate(missing.up, "--up")?);
    let mut draft = Draft::default();
    let peers = peers(source.text, &mut draft)?;
    let what = format!(
        "peers are managed where their packets pass {interface}: packets between two peers, and the tunnel's own bytes, are not"
    );
    draft.lost(Place::default(), what);
    draft.attach("egress", interface);
    draft.attach("ingress", interface);
    let limits = missing.quota.as_ref().and_then(|quota| quota.rate).is_some();
    let kind = if limits { "hfsc" } else { "drr" };
    for (name, rate, key) in [
        (interface.clone(), up, "source"),
        (received(interface), down, "destination"),
    ] {
        let mut made = InterfaceDraft::new(&name, rate, DisciplineDraft::of(kind), Place::default());
        for peer in &peers {
            made.classes.push(ClassDraft {
                name: peer.name.clone(),
                parent: None,
                default: false,
                // In `hfsc` all have the same part, as they have in `drr`.
                rate: if limits {
                    part(rate, peers.len())
                } else {
                    Bandwidth::ZERO
                },
                settings: settings(missing.quota.as_ref(), part(rate, peers.len())),
                discipline: None,
                at: peer.at,
            });
            made.filters
                .extend(peer.addresses.iter().map(|address| FilterDraft {
                    class: peer.name.clone(),
                    fields: Settings::from([(key, DraftValue::text(address.as_str()))]),
                    at: peer.at,
                }));
        }
        draft.interfaces.push(made);
    }
    Ok(draft)
}

/// What a peer has, together with what no peer has, where all send.
fn part(line: Bandwidth, peers: usize) -> Bandwidth {
    let bits = line.bits() / (peers as u64 + 1);
    Bandwidth::bits_per_sec(bits / 1_000 * 1_000).max(Bandwidth::kbit(8))
}

/// The settings of a peer's class, of which `part` counts only beside the others'.
fn settings(quota: Option<&ClientQuota>, part: Bandwidth) -> Settings {
    let Some(ClientQuota { volume, rate }) = quota else {
        return Settings::new();
    };
    let mut own = vec![("volume", DraftValue::text(volume.as_str()))];
    let mut all = Settings::new();
    if let Some(rate) = rate {
        all.push(("linkshare", part.into()));
        own.push(("then", DraftValue::Table(vec![("upperlimit", (*rate).into())])));
    }
    all.push(("quota", DraftValue::Table(own)));
    all
}

fn peers(text: &str, draft: &mut Draft) -> Result<Vec<Peer>, ImportError> {
    let mut names = Names::default();
    let mut peers: Vec<Peer> = Vec::new();
    // A comment above a section, or the first in it, is what people call the peer.
    let (mut comment, mut in_peer) = (None::<String>, false);
    for (number, line) in (1..).zip(text.lines()) {
        let at = Place::line(number);
        let (code, note) = line.split_once('#').unwrap_or((line, ""));
        let (code, note) = (code.trim(), note.trim());
        if !note.is_empty() {
            comment = Some(
                note.trim_start_matches("Name =")
                    .trim_start_matches("Name=")
                    .trim()
                    .into(),
            );
        }
        if code.starts_with('[') {
            in_peer = code.eq_ignore_ascii_case("[peer]");
            if in_peer {
                peers.push(Peer {
                    name: comment.take().unwrap_or_default(),
                    addresses: Vec::new(),
                    at,
                });
            } else if !code.eq_ignore_ascii_case("[interface]") {
                return Err(ImportError::new(
                    at,
                    format!("expected [Interface] or [Peer]; found `{code}`"),
                ));
            }
            continue;
        }
        let (Some(peer), true) = (peers.last_mut(), in_peer) else {
            continue;
        };
        if peer.name.is_empty() {
            peer.name = comment.take().unwrap_or_default();
        }
        let Some((key, value)) = code.split_once('=') else {
            continue;
        };
        if !key.trim().eq_ignore_ascii_case("AllowedIPs") {
            continue;
        }
        for one in value.split(',').map(str::trim).filter(|one| !one.is_empty()) {
            let (host, length) = one.split_once('/').unwrap_or((one, ""));
            let wrong = || ImportError::new(at, format!("expected an address or a prefix; found `{one}`"));
            let address: IpAddr = host.parse().map_err(|_| wrong())?;
            let wide = if address.is_ipv4() { 32 } else { 128 };
            let length: u32 = if length.is_empty() {
                wide
            } else {
                length.parse().ok().filter(|own| *own <= wide).ok_or_else(wrong)?
            };
            match length {
                0 => draft.lost(
                    at,
                    "a peer for all addresses: its packets are not told from others'",
                ),
                length => peer.addresses.push(prefix(address, length)),
            }
        }
    }
    peers.retain(|peer| !peer.addresses.is_empty());
    for (number, peer) in (1..).zip(&mut peers) {
        let called = if peer.name.is_empty() {
            format!("peer-{number}")
        } else {
            std::mem::take(&mut peer.name)
        };
        peer.name = names.another(&called);
    }
    Ok(peers)
}
